"""Bodies that nobody meant, sent to every path of the service: never a 500, never a changed state.

Trials take a path from the OpenAPI page, fill its places, and send a body: JSON that is drawn, JSON that fits with one
thing wrong, or bytes of a right body (npy, msgpack, an image) with some changed, under headers that are drawn too.
Whatever is refused must have changed nothing; whatever is done must be one of the things that the path does.
"""

from __future__ import annotations

import asyncio
import io
import json
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from tests.campaigns.campaign import main
from tests.service.making import AppClient, add, create, npy, people, state_of

from armillary.service.app import make_app
from armillary.service.house import House
from armillary.service.settings import Settings

_CALLS = 200  # in a trial
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
_TYPES = ("application/json", "application/x-npy", "application/octet-stream", "application/msgpack", "text/plain", "")
_FIELDS = ("vectors", "frame", "frames", "margin", "one", "other", "id", "rows", "subclusters", "operation", "ids",
           "name", "model", "parameters", "preset", "tune", "labels", "dtype", "shape")  # fmt: skip
# not these: they do what they are asked to whatever the body
_LEFT_OUT = ("DELETE /v1/collections/{name}", "POST /v1/collections/{name}/snapshot",
             "POST /v1/collections/{name}/backups", "GET /v1/collections/{name}/events/stream")  # fmt: skip


def trial(generator: np.random.Generator) -> Counter[str]:
    """Some hundred requests to one application."""
    with tempfile.TemporaryDirectory(prefix="service-bodies-", dir=_MEMORY) as home:
        settings = Settings(data=home, no_auth=True, min_free_bytes=0, max_body_bytes=1 << 20)
        house = House(Path(home), settings.limits())
        client = AppClient(make_app(house, settings), house)
        try:
            create(client)
            add(client, people(12, 3, n_features=4))
            return Counter(_one(client, generator) for _ in range(_CALLS))
        finally:
            client.close()
            house.close()


def _one(client: Any, generator: np.random.Generator) -> str:
    method, path = _paths()[int(generator.integers(len(_paths())))]
    number = str(generator.choice(["0", "1", "2", "99", "-1", "x", str(1 << 70), "0.5"], p=[0.4, *[0.6 / 7] * 7]))
    name = str(generator.choice(["people", "none", "..", "%00"], p=[0.85, 0.05, 0.05, 0.05]))
    here = path.replace("{name}", name).replace("{number}", number)
    if generator.random() < 0.3:
        key = generator.choice(["since", "limit", "after", "k", "dtype", "dimension", "frame", "margin"])
        here += f"?{key}={generator.choice(['-1', '0', '1e400', 'nan', 'float64', '%ff', '9' * 30, ''])}"
    content, kind = _body(generator)
    before = state_of(client)
    answer = client.request(method, here, content=content, headers={"content-type": kind, **_headers(generator)})
    assert answer.status_code != 500, (method, here, kind, content[:300], answer.text)
    assert answer.status_code < 600
    if answer.status_code >= 400:
        assert state_of(client) == before, (method, here, kind, content[:300])
        assert answer.headers["content-type"] != "application/json" or "error" in answer.json()
    return f"{answer.status_code}"


@cache
def _paths() -> list[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as home:
        house = House(Path(home))
        client = AppClient(make_app(house, Settings(data=home, no_auth=True)), house)
        paths = client.get("/v1/openapi.json").json()["paths"]
        client.close()
        house.close()
    every = [(method.upper(), path) for path, methods in paths.items() for method in methods]
    return [(method, path) for method, path in every if f"{method} {path}" not in _LEFT_OUT]


def _headers(generator: np.random.Generator) -> dict[str, str]:
    if generator.random() < 0.7:
        return {}
    return {"idempotency-key": str(generator.choice(["a", "b", "k" * 201, " ", "x\x7f"]))}


def _body(generator: np.random.Generator) -> tuple[bytes, str]:
    kind = str(generator.choice(_TYPES))
    rows = generator.normal(size=(int(generator.integers(1, 4)), int(generator.choice([4, 4, 4, 3])))).astype("f4")
    draw = int(generator.integers(6))
    if draw == 0:
        return json.dumps(_value(generator, 0)).encode(), kind
    if draw == 1:
        fields = generator.choice(_FIELDS, size=int(generator.integers(0, 4)), replace=False)
        return json.dumps({str(name): _value(generator, 1) for name in fields}).encode(), "application/json"
    if draw == 2:
        right = {"vectors": rows.tolist(), str(generator.choice(_FIELDS)): _value(generator, 1)}
        return json.dumps(right).encode(), "application/json"
    if draw == 3:
        return _damaged(generator, npy(rows)), "application/x-npy"
    if draw == 4:
        packed = msgpack.packb({"vectors": rows.tobytes(), "dtype": "float32", "shape": list(rows.shape)})
        return _damaged(generator, packed), "application/msgpack"
    return _damaged(generator, _image()), kind


def _damaged(generator: np.random.Generator, content: bytes) -> bytes:
    damaged = bytearray(content)
    for place in generator.integers(0, len(damaged), int(generator.integers(0, 4))):
        damaged[place] = int(generator.integers(256))
    return bytes(damaged[: int(generator.integers(1, len(damaged) + 1))] if generator.random() < 0.3 else damaged)


@cache
def _image() -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    Image.new("RGB", (20, 10), (10, 200, 30)).save(stream, "PNG")
    return stream.getvalue()


def _value(generator: np.random.Generator, depth: int) -> Any:
    draw = int(generator.integers(12 if depth < 3 else 9))
    plain = [
        None,
        True,
        0,
        1,
        -1,
        1 << 70,
        0.5,
        float("nan"),
        str(generator.choice(["", "a", "\x00", "é\u202e", "x" * 300])),
    ]
    if draw < 9:
        return plain[draw]
    if draw == 9:
        return {str(generator.choice(_FIELDS)): _value(generator, depth + 1) for _ in range(int(generator.integers(3)))}
    return [_value(generator, depth + 1) for _ in range(int(generator.integers(4)))]


if __name__ == "__main__":
    asyncio.set_event_loop_policy(None)
    main("service_bodies", trial)
