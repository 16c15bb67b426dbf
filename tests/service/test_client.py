"""The client: the ids of the library, requests that are lost and sent again, refusals as errors."""

from __future__ import annotations

import asyncio

import httpx
import numpy as np
import pytest
from tests.service.making import HERE, people, served

from armillary import Links
from armillary.client import AsyncClient, AsyncCollection, Client, Collection, ServiceRefusedError


class Wire(httpx.BaseTransport):
    """Brings requests to an application, and loses some: before they arrive, or their answers."""

    def __init__(self, client, losses=()):
        self._client, self._losses = client, list(losses)
        self.n_asked = 0

    def handle_request(self, request):
        self.n_asked += 1
        loss = self._losses.pop(0) if self._losses else ""
        if loss == "request":
            raise httpx.ConnectError("lost")
        headers = {key: value for key, value in request.headers.items() if key not in ("host", "content-length")}
        answer = self._client.request(
            request.method, request.url.raw_path.decode(), content=request.read(), headers=headers
        )
        if loss == "answer":
            raise httpx.ReadError("lost")
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


def test_ids_corrections_and_files(tmp_path):
    X = people()
    with served(tmp_path / "data") as server:
        client = Client(HERE, transport=Wire(server))
        room = client.create("people")
        assert client.create("people", exist_ok=True).name == "people"
        np.testing.assert_array_equal(room.add(X[:100]), Links().fit_predict(X[:100]))
        np.testing.assert_array_equal(room.lookup(X[:20]), Links().fit(X[:100]).predict(X[:20]))
        assert room.add(X[0]).shape == (1,)
        assert room.alternatives(X[:1], k=2)[0][0]["id"] == 0
        room.name_id(0, "Ann")
        room.set_meta(0, {"a": 1})
        merged = room.merge(0, 1)
        assert room.current([1]).tolist() == [0]
        room.undo(merged["operation"])
        assert room.id(0)["name"] == "Ann"
        assert [line["id"] for line in room.ids()] == [0, 1, 2, 3, 4]
        assert room.events(since=5)[0]["kind"] == "named"
        room.cannot_link(0, 2)
        with pytest.raises(ServiceRefusedError, match="kept apart") as caught:
            room.must_link(0, 2)
        assert caught.value.status == 422
        with pytest.raises(ServiceRefusedError, match="sub-clusters") as caught:
            room.split(3)
        room.export(tmp_path / "people.armillary")
        twin = client.collection("twin")
        twin.import_(tmp_path / "people.armillary")
        np.testing.assert_array_equal(twin.add(X[100:]), room.add(X[100:]))
        assert {one["name"] for one in client.collections()} == {"people", "twin"}
        assert room.forget(4)["backups_still_holding"] == []
        with pytest.raises(ServiceRefusedError) as caught:
            room.add(np.vstack([X[0], np.full(32, np.nan)]))
        assert (caught.value.status, caught.value.row) == (422, 1)
        client.close()


@pytest.mark.parametrize("losses", [["request"], ["answer"], ["answer", "request", "answer"]])
def test_what_is_lost_on_the_wire_is_done_once(tmp_path, losses):
    X = people()
    with served(tmp_path) as server:
        Client(HERE, transport=Wire(server)).create("people")
        wire = Wire(server, losses)
        with Client(HERE, transport=wire) as client:
            ids = client.collection("people").add(X)
            assert wire.n_asked == len(losses) + 1
            np.testing.assert_array_equal(ids, Links().fit_predict(X))
            assert client.collection("people").details()["vectors"] == len(X)
        with (
            Client(HERE, transport=Wire(server, ["request"] * 3), n_tries=3) as client,
            pytest.raises(httpx.ConnectError),
        ):
            client.collection("people").add(X)


def test_the_client_that_awaits(tmp_path):
    X = people()

    class AsyncWire(httpx.AsyncBaseTransport):
        def __init__(self, wire):
            self.wire = wire

        async def handle_async_request(self, request):
            await request.aread()
            return await asyncio.to_thread(self.wire.handle_request, request)

    async def work(server):
        async with AsyncClient(HERE, transport=AsyncWire(Wire(server, ["", "answer"]))) as client:
            room = await client.create("people")
            np.testing.assert_array_equal(await room.add(X), Links().fit_predict(X))
            assert (await room.lookup(X[:1], margin=0.01)).tolist() == [0]
            assert (await room.lookup(X[[0, 0]], "one photo")).tolist() == [0, -1]
            await room.name_id(0, "Ann")
            await room.post("merge", {"one": 0, "other": 1})
            assert (await room.get("/ids/1"))["current"] == 0
            merged = await room.merge(2, 3)
            assert (await room.current([3])).tolist() == [2]
            assert (await room.undo(merged["operation"]))["part"] == 3
            await room.cannot_link(2, 3)
            await room.set_meta(2, {"note": "tall"})
            assert (await room.id(2))["meta"] == {"2": {"note": "tall"}}
            assert (await room.alternatives(X[:2], k=2))[0][0]["id"] == 0
            assert [one["id"] for one in await room.ids()] == [0, 2, 3, 4]
            assert (await room.events(since=5))[0]["kind"] == "named"
            assert (await room.details())["vectors"] == 200
            await room.export(tmp_path / "bundle")
            copy = client.collection("copy")
            assert (await copy.import_(tmp_path / "bundle"))["next_id"] == 5
            assert (await room.forget(4))["ids"] == [4]
            assert [one["name"] for one in await client.collections()] == ["copy", "people"]
            with pytest.raises(ServiceRefusedError):
                await client.create("people")

    with served(tmp_path) as server:
        asyncio.run(work(server))


def test_both_clients_can_do_the_same():
    def public(kind):
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(AsyncCollection) - public(Collection) == {"post", "get"}
    assert public(Collection) <= public(AsyncCollection)
    assert public(AsyncClient) == public(Client)


def test_an_export_that_is_refused_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "bundle"
    path.write_bytes(b"of yesterday")
    with served(tmp_path / "data") as server, Client(HERE, transport=Wire(server, [])) as client:
        with pytest.raises(ServiceRefusedError, match="is not here"):
            client.collection("nobody").export(path)
        assert path.read_bytes() == b"of yesterday"
        client.create("people", exist_ok=True).add(people())
        client.collection("people").export(path)
        assert client.collection("copy").import_(path)["vectors"] == 200
    assert [one.name for one in tmp_path.iterdir() if one.is_file()] == ["bundle"]
