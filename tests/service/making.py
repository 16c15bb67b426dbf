"""What tests of the service share: vectors of a few people, a house, an application without a network."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from contextlib import contextmanager

import httpx
import numpy as np

from armillary.datasets import make_vmf_mixture
from armillary.service.app import make_app
from armillary.service.collection import Limits
from armillary.service.house import House
from armillary.service.settings import Settings

HERE = "http://127.0.0.1"


def people(n_rows=200, n_people=5, n_features=32, seed=0, dtype=np.float32):
    """Vectors (n, D) of a few people, well apart."""
    X, _, _ = make_vmf_mixture(n_rows, n_features, n_people, concentration=150.0, min_angle=1.0, random_state=seed)
    return X.astype(dtype)


def npy(rows):
    stream = io.BytesIO()
    np.save(stream, rows)
    return stream.getvalue()


class AppClient:
    """Asks an application that runs in a loop of its own, without a network."""

    def __init__(self, app, house):
        self.house, self.app = house, app
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._http = httpx.AsyncClient(transport=transport, base_url=HERE)

    def request(self, method, path, **rest):
        if hasattr(rest.get("content"), "__next__"):
            rest["content"] = _awaited(rest["content"])
        asked = self._http.request(method, path, **rest)
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result()

    def get(self, path, **rest):
        return self.request("GET", path, **rest)

    def post(self, path, **rest):
        return self.request("POST", path, **rest)

    def put(self, path, **rest):
        return self.request("PUT", path, **rest)

    def delete(self, path, **rest):
        return self.request("DELETE", path, **rest)

    def close(self):
        asyncio.run_coroutine_threadsafe(self._http.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _awaited(parts):
    for part in parts:
        yield part


@contextmanager
def served(folder, **settings):
    """A client of an application over a folder."""
    chosen = Settings(**{"data": str(folder), "no_auth": True, "min_free_bytes": 0, **settings})
    house = House(folder, chosen.limits())
    client = AppClient(make_app(house, chosen), house)
    try:
        yield client
    finally:
        client.close()
        house.close()


def add(client, rows, name="people", **headers):
    answer = client.post(
        f"/v1/collections/{name}/vectors",
        content=npy(rows),
        headers={"content-type": "application/x-npy", **headers},
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["ids"]


def create(client, name="people", **more):
    answer = client.post("/v1/collections", json={"name": name, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


def state_of(client, name="people"):
    """Everything that requests may change."""
    room = client.house.get(name)
    model = room.identities.model
    arrays = [] if not room.identities.is_fitted else [model.resultants_.tobytes(), model.subcluster_ids_.tobytes()]
    if room.identities.is_links and arrays:
        arrays.append(model._apart.tobytes())
    ids = range(room.identities.next_id)
    attached = [(room.store.metas([number]), room.store.thumbnail(number)) for number in ids]
    kept = len(room.events(0, 100_000)), len(room.store.backups()), sorted(room.identities.names.items())
    told = [other.name for other in client.house.rooms()]
    return json.dumps(room.identities.state() | {"seq": 0}), room.identities.next_id, arrays, attached, kept, told


LIMITS = Limits(min_free_bytes=0)
