"""What a reading of the service found: persons nobody could erase, files that a kill left, answers with names."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import threading
import time

import numpy as np
import pytest
from tests.campaigns import service_schema
from tests.service.making import LIMITS, add, create, people, served
from tests.service.test_service import NPY, holds, npy

from armillary import Links
from armillary.service import collection as collection_module
from armillary.service import house as house_module
from armillary.service import store as store_module
from armillary.service.collection import Limits, in_pieces
from armillary.service.errors import ServiceError
from armillary.service.house import House
from armillary.service.operations import ADD, FORGET, NAME, Operation

HERE = "/v1/collections/people"


# ------------------------------------------------------------------------------------------------ every id is erasable


def test_an_id_whose_cluster_died_of_age_can_be_erased(tmp_path):
    X = people(80, 2)
    ids = Links().fit_predict(X)
    old, young = X[ids == 0], X[ids == 1]
    with served(tmp_path) as client:
        create(client, parameters={"max_idle": 10}, store_members=True)
        add(client, np.concatenate([old[:5], -old[:5]]), **{"idempotency-key": "all"})
        merged = client.post(f"{HERE}/merge", json={"one": 0, "other": 1}).json()
        assert merged["id"] == 0
        client.put(f"{HERE}/ids/0/name", json={"name": "Zaphod Unforgettable"}, headers={"idempotency-key": "name"})
        client.put(f"{HERE}/ids/1/meta", json={"note": "two heads exactly"})
        add(client, young[:20])
        room = client.house.get("people")
        room.between(room._flush)
        assert client.get(f"{HERE}/ids/0/current").json()["current"] == -1
        needles = [b"Zaphod", b"two heads", old[0].tobytes()]
        assert len({needle for needle, _ in holds(tmp_path, *needles)}) == 3
        gone = client.post(f"{HERE}/forget", json={"id": 1})
        assert (gone.status_code, gone.json()["ids"]) == (200, [0, 1])
        assert holds(tmp_path, *needles) == []
        assert client.post(f"{HERE}/forget", json={"id": 0}).status_code == 200  # again: nothing is left to do
        assert client.post(f"{HERE}/forget", json={"id": 77}).status_code == 404
        assert add(client, np.concatenate([old[:5], -old[:5]]), **{"idempotency-key": "all"}) == [-1] * 10


def test_an_id_that_an_undo_gave_back_is_not_taken_for_the_one_that_it_had_joined(tmp_path):
    X = people(60, 3)
    with served(tmp_path) as client:
        create(client)
        add(client, X)
        merged = client.post(f"{HERE}/merge", json={"one": 0, "other": 2}).json()
        assert client.post(f"{HERE}/undo", json={"operation": merged["operation"]}).json()["part"] == 2
        assert client.post(f"{HERE}/forget", json={"id": 2}).json()["ids"] == [2]
        assert client.get(f"{HERE}/ids/2/current").json() == {"id": 2, "current": -1}
        assert client.post(f"{HERE}/forget", json={"id": 2}).json()["ids"] == [2]
        assert client.get(f"{HERE}/ids/0/current").json()["current"] == 0  # it was erased in place of 2
        assert client.post(f"{HERE}/forget", json={"id": 0}).json()["ids"] == [0]


def test_refused_links_are_told_and_kept_without_names(tmp_path):
    with served(tmp_path) as client:
        create(client)
        add(client, people(60, 3))
        client.put(f"{HERE}/ids/0/name", json={"name": "Arthur"})
        client.put(f"{HERE}/ids/1/name", json={"name": "Zaphod Unforgettable"})
        key = {"idempotency-key": "link"}
        refused = client.post(f"{HERE}/must-link", json={"one": 0, "other": 1}, headers=key)
        assert refused.status_code == 422
        assert refused.json()["error"] == (
            "ids 0 and 1 have different names and are not linked. Take one of the names away, or use merge, which "
            "keeps the first."
        )
        assert client.post(f"{HERE}/forget", json={"id": 1}).status_code == 200
        assert holds(tmp_path, b"Zaphod") == []


def test_answers_lose_the_part_and_the_name_of_the_forgotten_and_keep_the_rest(tmp_path):
    with served(tmp_path) as client:
        create(client, parameters={"subcluster_similarity_threshold": 0.93})
        add(client, people(60, 3))
        asked = {"json": {"id": 0}, "headers": {"idempotency-key": "split"}}
        first = client.post(f"{HERE}/split", **asked).json()
        client.post(f"{HERE}/forget", json={"id": first["part"]})
        assert client.post(f"{HERE}/split", **asked).json() == {**first, "part": -1}


# ------------------------------------------------------------------------------------------------- files of killed work


def left_by_a_kill(monkeypatch, place, name, source, target):
    """Let a call copy the folder as it is at that moment: what a kill would have left."""
    real = getattr(place, name)

    def copied(*given, **rest):
        if not target.exists():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.lock"))
        return real(*given, **rest)

    monkeypatch.setattr(place, name, copied)


@pytest.mark.parametrize("asked", ["export", "backups", "import"])
def test_what_a_killed_copy_left_goes_at_the_next_start(tmp_path, monkeypatch, asked):
    source, target = tmp_path / "data", tmp_path / "killed"
    with served(source) as client:
        create(client)
        add(client, people(60, 3))
        client.put(f"{HERE}/ids/1/name", json={"name": "Zaphod Unforgettable"})
        client.post(f"{HERE}/snapshot")
        bundle = client.get(f"{HERE}/export").content
        if asked == "import":
            left_by_a_kill(monkeypatch, house_module, "unpacked", source, target)
            assert client.post("/v1/collections/twin/import", content=bundle).status_code == 201
        else:
            left_by_a_kill(monkeypatch, collection_module, "sync_to_disk", source, target)
            answer = client.get(f"{HERE}/export") if asked == "export" else client.post(f"{HERE}/backups")
            assert answer.status_code < 300
    assert holds(target, b"Zaphod") != []
    with served(target) as client:
        listed = client.get(f"{HERE}/backups").json()["backups"]
        assert client.post(f"{HERE}/forget", json={"id": 1}).status_code == 200
        for line in listed:
            (target / "collections" / "people" / "backups" / line["file"]).unlink()
        assert holds(target, b"Zaphod") == []


def test_an_erasure_is_whole_or_finished_at_the_next_start(tmp_path, monkeypatch):
    def died(*_given):
        raise SystemError("killed")

    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    room.do(Operation(ADD, {}, people(60, 3)), "add")
    room.do(Operation(NAME, {"id": 1, "name": "Zaphod"}), "name")
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "_scrub_answers", died)
        with pytest.raises(ServiceError):
            room.do(Operation(FORGET, {"id": 1}), "forget")
        house.close()
    again = House(tmp_path, LIMITS)
    assert holds(tmp_path, b"Zaphod") == []
    assert again.get("people").do(Operation(NAME, {"id": 1, "name": "Zaphod"}), "name").answer["id"] == -1
    again.close()


def test_half_a_snapshot_that_a_kill_left_goes_at_the_next_start(tmp_path):
    house = House(tmp_path, LIMITS)
    house.create("people", {"class": "Links"})
    house.close()
    half = tmp_path / "collections" / "people" / ".snapshot-9.safetensors.armillary-0.tmp"
    half.write_bytes(b"Zaphod")
    House(tmp_path, LIMITS).close()
    assert not half.exists()


def test_a_snapshot_has_the_frames_of_its_moment(tmp_path):
    """Frames that knew later ids made a replay give other ids, or refuse vectors that had been learned."""
    X = people(40, 2)
    person = X[Links().fit_predict(X) == 0]
    house = House(tmp_path, Limits(snapshot_vectors=2, min_free_bytes=0))
    room = house.create("people", {"class": "Links"})
    room.do(Operation(ADD, {"frames": ["photo"]}, person[:1]))
    state = room.identities.state()
    before = json.dumps(state)
    room.do(Operation(ADD, {"frames": ["photo"]}, person[1:2]))
    assert json.dumps(state) == before
    house.close()


def test_a_state_is_written_in_pieces_as_in_one():
    state = {"seq": 3, "frames": [(f"é {one}", (one, 2)) for one in range(2501)], "merged": [], "undoable": [(1, {})]}
    assert in_pieces(state) == json.dumps(state)


def test_a_folder_has_one_server_also_before_its_first_collection(tmp_path):
    house = House(tmp_path, LIMITS)
    with pytest.raises(Exception, match="two runs at once"):
        House(tmp_path, LIMITS)
    house.close()
    House(tmp_path, LIMITS).close()


def test_a_backup_that_is_being_made_is_listed_as_holding(tmp_path, monkeypatch):
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    room.do(Operation(ADD, {}, people(60, 3)))
    held = []
    copy_to = collection_module.Seen.copy_to

    def with_a_forget_beside(seen, path):
        room.do(Operation(FORGET, {"id": 1}))
        held.extend(room.backups_holding([1]))
        copy_to(seen, path)

    with monkeypatch.context() as patch:
        patch.setattr(collection_module.Seen, "copy_to", with_a_forget_beside)
        made = room.back_up()
    assert held == [made.name]
    assert room.backups_holding([1]) == [made.name]
    house.close()


def test_an_export_beside_a_new_snapshot_is_whole(tmp_path, monkeypatch):
    X = people()
    house = House(tmp_path / "data", LIMITS)
    room = house.create("people", {"class": "Links"})
    room.do(Operation(ADD, {}, X[:100]))
    room.take_snapshot()
    copy_to = collection_module.Seen.copy_to

    def with_a_snapshot_beside(seen, path):
        room.do(Operation(ADD, {}, X[100:150]))
        room.take_snapshot()  # the file that the copy builds upon is gone
        copy_to(seen, path)

    with monkeypatch.context() as patch:
        patch.setattr(collection_module.Seen, "copy_to", with_a_snapshot_beside)
        room.export_to(tmp_path / "bundle")
    twin = house.create_from_bundle("twin", tmp_path / "bundle")
    assert twin.do(Operation(ADD, {}, X[100:])).answer["ids"] == Links().fit_predict(X)[100:].tolist()
    house.close()


# ----------------------------------------------------------------------------------------------------- room on the disk


def test_whatever_writes_looks_at_the_disk_first(tmp_path):
    with served(tmp_path) as client:
        create(client)
        add(client, people(20))
        bundle = client.get(f"{HERE}/export").content
        full = Limits(min_free_bytes=1 << 60)
        client.house.limits = client.house.get("people").limits = full
        for method, path, rest in (
            ("POST", "/v1/collections", {"json": {"name": "other"}}),
            ("POST", "/v1/collections/twin/import", {"content": bundle}),
            ("PUT", "/v1/collections/fixed/model", {"content": b"x"}),
            ("POST", f"{HERE}/backups", {}),
            ("POST", f"{HERE}/snapshot", {}),
            ("GET", f"{HERE}/export", {}),
        ):
            refused = client.request(method, path, **rest)
            assert (refused.status_code, "nearly full" in refused.json()["error"]) == (507, True), path
        assert [room.name for room in client.house.rooms()] == ["people"]
        assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".new-") or "armillary-" in path.name]
        assert client.post(f"{HERE}/lookup", content=npy(people(5)), headers=NPY).status_code == 200


def test_an_import_has_limits_of_size_and_time(tmp_path):

    def pieces(n_pieces, seconds):
        for _ in range(n_pieces):
            time.sleep(seconds)
            yield bytes(1000)

    with served(tmp_path, max_import_bytes=20_000) as client:
        endless = client.post("/v1/collections/twin/import", content=pieces(100, 0.0))
        assert (endless.status_code, "Raise max_import_bytes" in endless.json()["error"]) == (413, True)
        assert endless.headers["connection"] == "close"
    with served(tmp_path, max_import_bytes=20_000, body_seconds=0.3) as client:
        slow = client.post("/v1/collections/twin/import", content=pieces(10, 0.1))
        assert (slow.status_code, "65,536 bytes a second" in slow.json()["error"]) == (408, True)
        announced = client.post("/v1/collections/twin/import", content=bytes(30_000))
        assert announced.status_code == 413
        assert list((tmp_path / "passing").iterdir()) == []


# ------------------------------------------------------------------------------------------------------ events, frames


def test_a_stream_of_events_does_not_wait_with_more_than_a_thousand(tmp_path):
    X = people(1500, 1500, n_features=128, seed=1)
    with served(tmp_path) as client:
        create(client, parameters={"cluster_similarity_threshold": 0.99, "subcluster_similarity_threshold": 1.0,
                                   "pair_similarity_maximum": 1.0})  # fmt: skip
        assert len(set(add(client, X))) == 1500
        room = client.house.get("people")
        told = collect(client, room, 1500)
        assert told == list(range(1, 1501))


def test_a_listener_of_a_collection_that_was_made_anew_hears_of_it(tmp_path):
    with served(tmp_path) as client:
        create(client)
        told = []

        def listen():
            told.append(client.get(f"{HERE}/events/stream?since=100", headers={"last-event-id": "500"}).text)

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        room = client.house.get("people")
        while not room.listeners:
            time.sleep(0.01)
        add(client, people(20, 2))
        time.sleep(0.3)
        client.delete(HERE)
        listener.join(5.0)
        assert told
        assert [json.loads(line[6:]).get("id") for line in told[0].split("\n") if line.startswith("data: ")] == [
            None,
            0,
            1,
        ]


def collect(client, room, n_wanted):
    """Numbers of events that a listener is told without anything new, within some seconds."""
    import asyncio

    from armillary.service.app import _told

    async def listened():
        stopping, numbers = asyncio.Event(), []
        told = _told(room, 0, stopping, lambda: True)
        async for text in told:
            if text.startswith("id: "):
                numbers.append(int(text.split("\n")[0][4:]))
            if len(numbers) == n_wanted:
                break
        await told.aclose()
        return numbers

    return asyncio.run_coroutine_threadsafe(asyncio.wait_for(listened(), 8.0), client._loop).result()


def test_a_lookup_tells_vectors_of_one_frame_apart(tmp_path):
    X = people(60, 3)
    ids = Links().fit_predict(X)
    person = X[ids == 0]
    near = person[0] + X[ids == 1][0]  # of two persons
    with served(tmp_path) as client:
        create(client, parameters={"cluster_similarity_threshold": 0.5})
        given = add(client, X)
        assert sorted(set(given)) == [0, 1, 2]
        here, two = f"{HERE}/lookup", np.stack([person[1], near / np.linalg.norm(near)]).astype(np.float32)
        assert client.post(here, content=npy(two), headers=NPY).json()["ids"] == [0, 0]
        assert client.post(f"{here}?frame=a", content=npy(two), headers=NPY).json()["ids"] == [0, 1]
        apart = {"vectors": two.tolist(), "frames": ["a", "b"]}
        assert client.post(here, json=apart).json()["ids"] == [0, 0]
        assert client.post(f"{here}?frame=a", content=npy(person[:2]), headers=NPY).json()["ids"][0] == 0
        assert client.post(f"{here}?frame=a", content=npy(person[:2]), headers=NPY).json()["ids"][1] != 0
        refused = client.post(f"{HERE}/alternatives?frame=a", content=npy(two), headers=NPY)
        assert (refused.status_code, "frames are of vectors" in refused.json()["error"]) == (422, True)
        create(client, "steps", model="DDPvMFMeans", parameters={"max_angle": 0.9})
        add(client, X, "steps")
        refused = client.post("/v1/collections/steps/lookup?frame=a", content=npy(two), headers=NPY)
        assert (refused.status_code, "need a collection of Links" in refused.json()["error"]) == (422, True)


# ---------------------------------------------------------------------------------------------------------- corrections


def test_a_split_by_rows_can_be_undone(tmp_path):
    X = people(100, 3)
    with served(tmp_path) as client:
        create(client, store_members=True)
        ids = np.array(add(client, X))
        rows = np.flatnonzero(ids == 0)[:10].tolist()
        part = client.post(f"{HERE}/split", json={"id": 0, "rows": rows}).json()
        undone = client.post(f"{HERE}/undo", json={"operation": part["operation"]}).json()
        assert undone["id"] == 0
        before = client.get(f"{HERE}/ids/0").json()
        assert before["vectors"] == np.count_nonzero(ids == 0)
        assert client.get(f"{HERE}/ids/{part['part']}/current").json()["current"] == 0
    with served(tmp_path) as client:
        now = client.get(f"{HERE}/ids/0").json()
        assert (now["vectors"], now["rows"]) == (before["vectors"], np.flatnonzero(ids == 0).tolist())


def test_the_campaign_by_the_openapi_page_writes_into_a_folder_that_goes(tmp_path, monkeypatch):
    asked = {}
    monkeypatch.setattr(service_schema.subprocess, "run", lambda *given, **rest: asked.update(rest) or _Done())
    assert service_schema.asked("http://127.0.0.1:1", 1, 0, tmp_path) == 0
    assert asked["cwd"] == tmp_path


class _Done:
    returncode = 0


def test_a_reader_of_something_long_does_not_hold_up_those_who_write(tmp_path):
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    with room.store._lock:  # as a look at a million events has it
        answered = room.ask(Operation(ADD, {}, people()[:5]), "a key")
        assert answered.result(timeout=10.0).status == 200
    house.close()


def test_a_log_of_the_first_version_is_brought_up_and_goes_on(tmp_path):
    X = people(60, 3)
    house = House(tmp_path, LIMITS)
    room = house.create("people", {"class": "Links"})
    ids = room.do(Operation(ADD, {}, X[:30]), "a key").answer["ids"]
    events = room.events(0)
    house.close()
    path = tmp_path / "collections" / "people" / "log.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as log, log:
        for index in ("events_of_others", "events_of_splits"):
            log.execute(f"DROP INDEX {index}")
        log.execute("PRAGMA user_version = 1")
    house = House(tmp_path, LIMITS)
    room = house.get("people")
    assert room.events(0) == events
    assert room.do(Operation(ADD, {}, X[:30]), "a key").answer["ids"] == ids
    assert ids + room.do(Operation(ADD, {}, X[30:])).answer["ids"] == Links().fit_predict(X).tolist()
    house.close()
    with contextlib.closing(sqlite3.connect(path)) as log:
        assert log.execute("PRAGMA user_version").fetchone() == (2,)
        for query, index in (
            ("SELECT number FROM events WHERE id IN (1, 2) OR other IN (1, 2) ORDER BY number DESC LIMIT 50", "others"),
            ("SELECT id, other FROM events WHERE kind = 'split'", "splits"),
        ):
            plan = str(log.execute(f"EXPLAIN QUERY PLAN {query}").fetchall())
            assert f"events_of_{index}" in plan, plan
