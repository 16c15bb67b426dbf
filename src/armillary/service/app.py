"""The service over HTTP: one function for each path under /v1. The home of fastapi and starlette.

Whatever asks the writer is awaited; whatever computes runs in a thread, so that no request waits for another's product.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import resources
from typing import Annotated, Any, BinaryIO, Literal

import numpy as np
from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from armillary import __version__
from armillary.exceptions import ArmillaryError
from armillary.service import bodies, views
from armillary.service.collection import BACKUPS, Collection
from armillary.service.errors import ServiceError, absent, unusable
from armillary.service.guard import Application, Guard
from armillary.service.house import House
from armillary.service.metrics import Metrics
from armillary.service.models import tuned
from armillary.service.operations import (
    ADD,
    CANNOT_LINK,
    FORGET,
    MERGE,
    META,
    MUST_LINK,
    NAME,
    SPLIT,
    THUMBNAIL,
    UNDO,
    Operation,
)
from armillary.service.settings import Settings
from armillary.service.store import refusal_of
from armillary.service.tokens import Tokens
from armillary.vision.images import thumbnail_png

_log = logging.getLogger("armillary.service")
_MOST_META = 64 << 10
_MOST_KEY = 200
_MOST_IMAGE = 8 << 20
_LARGE = 256 << 10  # bytes of vectors
_LOOKED_AGAIN = 64 << 20  # bytes of an import after which the disk is looked at again
_NUMBER = Annotated[int, Field(ge=0, lt=1 << 62)]
_ASSETS = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
}
_VECTORS: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            bodies.JSON: {
                "schema": {
                    "type": "object",
                    "required": ["vectors"],
                    "properties": {
                        "vectors": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
                        "frame": {"type": "string"},
                        "frames": {"type": "array", "items": {"type": "string"}},
                        "margin": {"type": "number", "minimum": 0, "maximum": 2},
                    },
                }
            },
            bodies.NPY: {"schema": {"type": "string", "format": "binary"}},
            bodies.RAW: {"schema": {"type": "string", "format": "binary"}},
            bodies.MSGPACK: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class NewCollection(_Body):
    """A collection to be made."""

    name: str
    model: Literal["Links", "DDPvMFMeans"] = "Links"
    parameters: dict[str, float | int | bool | str | None] = {}
    preset: str | None = None
    tune: dict[str, Any] | None = None  # vectors and labels
    store_members: bool = False


class NewName(_Body):
    """A name for an id; null takes it away."""

    name: Annotated[str, Field(min_length=1, max_length=200)] | None


class Pair(_Body):
    """Two ids."""

    one: _NUMBER
    other: _NUMBER


class OneId(_Body):
    """An id."""

    id: _NUMBER


class ToSplit(_Body):
    """An id, and what leaves it: sub-clusters, or rows where they are kept; else what hangs on the weakest link."""

    id: _NUMBER
    subclusters: Annotated[list[_NUMBER], Field(min_length=1, max_length=100_000)] | None = None
    rows: Annotated[list[_NUMBER], Field(min_length=1, max_length=100_000)] | None = None


class OneOperation(_Body):
    """An operation that was answered."""

    operation: _NUMBER


class SomeIds(_Body):
    """Ids that were given."""

    ids: Annotated[list[_NUMBER], Field(max_length=100_000)]


class Refusal(BaseModel):
    """What every answer says that is none."""

    model_config = ConfigDict(extra="allow")

    error: str
    row: int | None = None  # of the vector that it is about
    faults: list[dict[str, str]] | None = None


_REFUSALS = {
    400: "The body cannot be read.",
    401: "No token, or none that is known.",
    403: "A token of another scope, or a page of another place.",
    404: "No such collection or id.",
    408: "The body did not come in time.",
    409: "There already, at work, or not possible here.",
    410: "The id is forgotten.",
    413: "Too large.",
    415: "Vectors of another content type.",
    421: "The server does not go by that name.",
    422: "Something does not fit; it is said what and, of vectors, in which row.",
    429: "Too many; Retry-After says when.",
    503: "The collection stopped or could not be opened, or the disk refuses.",
    507: "The disk is nearly full.",
}
router = APIRouter(
    prefix="/v1",
    responses={status: {"model": Refusal, "description": why} for status, why in _REFUSALS.items()},
)
_IDS = {"content": {bodies.NPY: {"schema": {"type": "string", "format": "binary"}}}}  # beside JSON


def _file(kind: str) -> dict[int | str, dict[str, Any]]:
    """The answer of a path that gives a file."""
    return {200: {"content": {kind: {"schema": {"type": "string", "format": "binary"}}}}}


def _house(request: Request) -> House:
    house: House = request.app.state.house
    return house


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


async def _done(request: Request, name: str, operation: Operation) -> Response:
    """Ask the writer, and answer."""
    collection = _house(request).get(name)
    key = request.headers.get("idempotency-key")
    if key is not None and (not 0 < len(key) <= _MOST_KEY or not key.isprintable()):
        raise unusable(f"Idempotency-Key must have 1 to {_MOST_KEY} printable characters.")
    outcome = await asyncio.wrap_future(collection.ask(operation, key))
    return _reply(request, outcome.answer, outcome.status)


def _reply(request: Request, answer: dict[str, Any], status: int = 200) -> Response:
    if "ids" in answer and request.headers.get("accept") == bodies.NPY:
        stream = io.BytesIO()
        np.save(stream, np.asarray(answer["ids"], np.int64))
        return Response(stream.getvalue(), status, media_type=bodies.NPY)
    return Response(json.dumps(answer), status, media_type=bodies.JSON)


async def _vectors(request: Request, collection: Collection) -> bodies.Given:
    settings, body = _settings(request), await request.body()
    read = functools.partial(
        bodies.read_vectors,
        request.headers.get("content-type", ""),
        body,
        request.query_params,
        n_features=collection.identities.n_features,
        most=settings.max_batch,
        widest=settings.max_dimension,
    )
    # a large body would hold up all others for as long as it is looked at; a hand-over costs more than a small one
    return read() if len(body) < _LARGE else await run_in_threadpool(read)


# ---------------------------------------------------------------------------------------------------- collections


@router.get("/collections")
def collections(request: Request) -> dict[str, Any]:
    """All collections, and the names of those that could not be opened."""
    house = _house(request)
    return {"collections": [views.summary(room) for room in house.rooms()], "unopened": sorted(house.damaged)}


@router.post("/collections", status_code=201)
async def create(request: Request, asked: NewCollection) -> dict[str, Any]:
    """Make a collection: by model and parameters, by preset, or tuned on labelled vectors."""
    ways = [name for name in ("preset", "tune") if getattr(asked, name) is not None]
    if len(ways) > 1 or (ways and asked.model != "Links"):
        raise unusable(f"{ways[0]} makes a collection of Links by itself; give neither another model nor both ways.")
    facts: dict[str, Any] = {"class": asked.model, "parameters": asked.parameters, "preset": asked.preset}
    if asked.tune is not None:
        facts = await run_in_threadpool(_tuned, asked)
    house = _house(request)
    made = await run_in_threadpool(house.create, asked.name, facts, store_members=asked.store_members)
    return views.summary(made)


def _tuned(asked: NewCollection) -> dict[str, Any]:
    tune = asked.tune or {}
    labels = tune.get("labels")
    if not isinstance(labels, list) or any(not isinstance(label, str | int) for label in labels):
        raise unusable("tune needs vectors and labels, a string or an integer for each.")
    content = json.dumps({"vectors": tune.get("vectors")}).encode()
    given = bodies.read_vectors(bodies.JSON, content, {}, n_features=None, most=20_000, widest=16_384)
    return tuned(given.rows, labels, asked.parameters)


@router.put("/collections/{name}/model", status_code=201)
async def upload(request: Request, name: str) -> dict[str, Any]:
    """Make a collection around a fitted model that `armillary.save` wrote."""
    made = await run_in_threadpool(_house(request).create_from_model, name, await request.body())
    return views.summary(made)


@router.get("/collections/{name}")
def collection(request: Request, name: str) -> dict[str, Any]:
    """One collection: its model, counts, and how fast it works."""
    return views.details(_house(request).get(name))


@router.delete("/collections/{name}")
def delete(request: Request, name: str) -> dict[str, Any]:
    """Remove a collection with all of its files, backups too."""
    _house(request).delete(name)
    request.app.state.metrics.drop(name)
    return {"deleted": name}


# -------------------------------------------------------------------------------------------------------- vectors


@router.post("/collections/{name}/vectors", openapi_extra=_VECTORS, responses={200: _IDS})
async def add(request: Request, name: str) -> Response:
    """Learn vectors; the id of each. Under one Idempotency-Key a request is done once."""
    collection = _house(request).get(name)
    given = await _vectors(request, collection)
    started = time.perf_counter()
    answer = await _done(request, name, Operation(ADD, given.fields, given.rows))
    collection.latencies.append(time.perf_counter() - started)
    if answer.status_code == 200:
        request.app.state.metrics.vectors.labels(name).inc(len(given.rows))
    return answer


@router.post("/collections/{name}/lookup", openapi_extra=_VECTORS, responses={200: _IDS})
async def lookup(request: Request, name: str) -> Response:
    """The id of each vector, -1 for unknown ones; nothing is learned. Of one frame each vector gets another id."""
    collection = _house(request).get(name)
    given = await _vectors(request, collection)
    fields = given.fields
    ids = await run_in_threadpool(collection.lookup, given.rows, fields.get("margin"), fields.get("frames"))
    return _reply(request, {"ids": ids.tolist()})


@router.post("/collections/{name}/alternatives", openapi_extra=_VECTORS)
async def alternatives(request: Request, name: str, k: Annotated[int, Query(ge=1, le=100)] = 3) -> dict[str, Any]:
    """The nearest ids of each vector, with cosines and margins; nothing is learned."""
    collection = _house(request).get(name)
    given = await _vectors(request, collection)
    if given.fields:
        raise unusable(
            f"{' and '.join(given.fields)} are of vectors that are learned or looked up, not of alternatives."
        )
    return {"alternatives": await run_in_threadpool(views.alternatives, collection, given.rows, k)}


# ------------------------------------------------------------------------------------------------------------ ids


@router.get("/collections/{name}/ids")
def ids(
    request: Request,
    name: str,
    after: Annotated[int, Query(ge=-1, lt=1 << 62)] = -1,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    newest: bool = False,
    find: Annotated[str, Query(max_length=200)] = "",
) -> dict[str, Any]:
    """The ids that there are, with names and counts: above `after`, or the newest; `find`: a number, part of a name."""
    return views.identities(_house(request).get(name), after, limit, newest=newest, find=find)


@router.get("/collections/{name}/ids/{number}")
def one_id(request: Request, name: str, number: int) -> Response:
    """One id: name, counts, what was attached, its history and the nearest others."""
    # what earlier releases let users attach may be deeper, and of other characters, than FastAPI can write
    return _reply(request, views.identity(_house(request).get(name), _given(number)))


@router.get("/collections/{name}/ids/{number}/current")
def current(request: Request, name: str, number: int) -> dict[str, Any]:
    """The id by which a past one goes now; -1: forgotten."""
    (now,) = _house(request).get(name).identities.current([_given(number)])
    return {"id": number, "current": now}


@router.post("/collections/{name}/current")
def current_of_many(request: Request, name: str, asked: SomeIds) -> dict[str, Any]:
    """The ids by which past ones go now."""
    return {"ids": _house(request).get(name).identities.current(asked.ids)}


def _given(number: int) -> int:
    if not 0 <= number < 1 << 62:
        raise absent(f"id {number}", "Ids are whole numbers from 0 on.")
    return number


@router.put("/collections/{name}/ids/{number}/name")
async def set_name(request: Request, name: str, number: int, asked: NewName) -> Response:
    """Name an id."""
    return await _done(request, name, Operation(NAME, {"id": _given(number), "name": _clean(asked.name)}))


def _clean(name: str | None) -> str | None:
    if name is not None and (not name.isprintable() or not name.strip()):
        raise unusable("name must be of printable characters, and not of blanks alone; null takes a name away.")
    return name


@router.put("/collections/{name}/ids/{number}/meta", openapi_extra={"requestBody": {"content": {bodies.JSON: {}}}})
async def set_meta(request: Request, name: str, number: int) -> Response:
    """Attach a JSON object to an id, at most 64 KiB; null takes it away."""
    body = await request.body()
    if len(body) > _MOST_META:
        raise ServiceError(413, f"meta has at most {_MOST_META:,} bytes; got {len(body):,}.")
    meta = None if body.strip() == b"null" else bodies.attachment(body)
    return await _done(request, name, Operation(META, {"id": _given(number), "meta": meta}))


@router.put("/collections/{name}/ids/{number}/thumbnail")
async def set_thumbnail(request: Request, name: str, number: int) -> Response:
    """Attach an image to an id: png, jpeg or webp; it is made small and written anew as png."""
    body = await request.body()
    if len(body) > _MOST_IMAGE:
        raise ServiceError(413, f"An image has at most {_MOST_IMAGE:,} bytes; got {len(body):,}.")
    try:
        image = await run_in_threadpool(thumbnail_png, body) if body else None
    except ArmillaryError as error:
        raise unusable(str(error)) from None
    return await _done(request, name, Operation(THUMBNAIL, {"id": _given(number)}, attached=image))


@router.get("/collections/{name}/ids/{number}/thumbnail", response_class=Response, responses=_file("image/png"))
def thumbnail(request: Request, name: str, number: int) -> Response:
    """The image of an id."""
    image = _house(request).get(name).store.thumbnail(_given(number))
    if image is None:
        raise absent(f"An image of id {number}", "PUT one.")
    return Response(image, media_type="image/png")


# ---------------------------------------------------------------------------------------------------- corrections


@router.post("/collections/{name}/must-link")
async def must_link(request: Request, name: str, asked: Pair) -> Response:
    """Make one id of two for good; refused against a cannot-link or different names."""
    return await _done(request, name, Operation(MUST_LINK, asked.model_dump()))


@router.post("/collections/{name}/cannot-link")
async def cannot_link(request: Request, name: str, asked: Pair) -> Response:
    """Keep two ids apart."""
    return await _done(request, name, Operation(CANNOT_LINK, asked.model_dump()))


@router.post("/collections/{name}/merge")
async def merge(request: Request, name: str, asked: Pair) -> Response:
    """Make one id of two whatever was said before; the name of the first stays."""
    return await _done(request, name, Operation(MERGE, asked.model_dump()))


@router.post("/collections/{name}/split")
async def split(request: Request, name: str, asked: ToSplit) -> Response:
    """Split an id in two."""
    if asked.subclusters is not None and asked.rows is not None:
        raise unusable("Give subclusters or rows, not both.")
    fields = {"id": asked.id, "subclusters": asked.subclusters, "rows_out": asked.rows}
    return await _done(request, name, Operation(SPLIT, {k: v for k, v in fields.items() if v is not None}))


@router.post("/collections/{name}/forget")
async def forget(request: Request, name: str, asked: OneId) -> Response:
    """Erase a person: vectors, sub-clusters, names, attachments, payloads of events and answers."""
    collection = _house(request).get(name)
    answer = await _done(request, name, Operation(FORGET, {"id": asked.id}))
    if answer.status_code != 200:
        return answer
    body = json.loads(bytes(answer.body))
    holding = await run_in_threadpool(collection.backups_holding, [asked.id, *body.get("ids", [])])
    return _reply(request, {**body, "backups_still_holding": holding})


@router.post("/collections/{name}/undo")
async def undo(request: Request, name: str, asked: OneOperation) -> Response:
    """Take back a name, merge, split or cannot-link."""
    return await _done(request, name, Operation(UNDO, {"operation": asked.operation}))


# --------------------------------------------------------------------------------------------------------- events


@router.get("/collections/{name}/events")
def events(
    request: Request,
    name: str,
    since: Annotated[int, Query(ge=0, lt=1 << 62)] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> dict[str, Any]:
    """Events after a number, oldest first."""
    found = _house(request).get(name).events(since, limit)
    return {"events": [event.body() for event in found]}


@router.get("/collections/{name}/events/stream")
async def stream(request: Request, name: str, since: Annotated[int, Query(ge=-1, lt=1 << 62)] = -1) -> Response:
    """Events as they come (server-sent events); `since=-1` begins with the next."""
    collection = _house(request).get(name)
    most = max(1, _settings(request).max_connections // 2)  # who listens for ever leaves others room to ask
    if sum(len(room.listeners) for room in _house(request).rooms()) >= most:
        raise ServiceError(429, f"{most} streams of events are open already. Ask for events since a number.", retry=5)
    last = request.headers.get("last-event-id", "")
    start = int(last) if last.isascii() and last.isdigit() and len(last) < 18 else since
    # a number beyond all that there are is of another collection, of this name before it was deleted
    newest = collection.identities.next_event - 1
    start = newest if start < 0 else min(start, newest)
    return StreamingResponse(
        _told(collection, start, request.app.state.stopping, request.scope["state"]["is_allowed"]),
        media_type="text/event-stream",
        headers={"cache-control": "no-store"},
    )


async def _told(
    collection: Collection, since: int, stopping: asyncio.Event, is_allowed: Callable[[], bool]
) -> AsyncIterator[str]:
    bell = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ring() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(bell.set)

    collection.listeners.add(ring)
    try:
        yield f"retry: 500\nevent: hello\ndata: {json.dumps({'since': since})}\n\n"
        while not stopping.is_set() and not collection.is_closed:
            bell.clear()
            found = await run_in_threadpool(collection.events, since)
            if not is_allowed():  # the token was revoked; whoever asks again hears so
                return
            for event in found:
                since = event.number
                yield f"id: {event.number}\ndata: {json.dumps(event.body())}\n\n"
            if found:
                continue  # there may be more than one piece of them
            heard = asyncio.create_task(bell.wait())
            ended = asyncio.create_task(stopping.wait())
            done, waiting = await asyncio.wait({heard, ended}, timeout=10.0, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
            if not done:
                yield ": still here\n\n"
    finally:
        collection.listeners.discard(ring)


@router.get("/collections/{name}/map")
def sphere(request: Request, name: str, limit: Annotated[int, Query(ge=1, le=5000)] = 1000) -> dict[str, Any]:
    """Places of the largest ids on a sphere, to be drawn."""
    return views.places(_house(request).get(name), limit)


# ---------------------------------------------------------------------------------------------------------- files


@router.post("/collections/{name}/snapshot")
def snapshot(request: Request, name: str) -> dict[str, Any]:
    """Write a snapshot now; the log before it goes."""
    taken = _house(request).get(name).take_snapshot()
    return {"operation": taken.seq, "sha256": taken.digest}


@router.get("/collections/{name}/export", response_class=StreamingResponse, responses=_file(bodies.RAW))
def export(request: Request, name: str) -> Response:
    """Everything of a collection in one file, while work goes on."""
    with contextlib.ExitStack() as passing:
        collection = _house(request).get(name)
        path = passing.enter_context(collection.passing()) / "bundle"
        collection.export_to(path)
        n_bytes = path.stat().st_size
        stream = open(path, "rb")  # noqa: SIM115 - the answer closes it; the file loses its name here
    headers = {"content-length": str(n_bytes), "content-disposition": f'attachment; filename="{name}.armillary"'}
    return StreamingResponse(_parts(stream), media_type=bodies.RAW, headers=headers)


def _parts(stream: BinaryIO) -> Iterator[bytes]:
    with stream:
        while part := stream.read(1 << 18):
            yield part


@router.post("/collections/{name}/import", status_code=201)
async def import_(request: Request, name: str) -> dict[str, Any]:
    """Make a collection of a file that export wrote."""
    house = _house(request)
    announced = request.headers.get("content-length", "0")
    with house.passing(2 * int(announced) if announced.isdigit() else 0) as path:  # as it came, and unpacked
        n_written = 0
        with open(path, "wb") as target:
            async for part in request.stream():
                await run_in_threadpool(_written, target, part)
                n_written += len(part)
                if n_written > _LOOKED_AGAIN:  # of what comes in pieces nobody said how much it is
                    n_written = 0
                    await run_in_threadpool(house.refuse_when_full)
        made = await run_in_threadpool(house.create_from_bundle, name, path)
    return views.summary(made)


def _written(target: BinaryIO, part: bytes) -> None:
    try:
        target.write(part)
    except OSError as error:
        raise refusal_of(error) from error


@router.post("/collections/{name}/backups", status_code=201)
def back_up(request: Request, name: str) -> dict[str, Any]:
    """Keep a copy of everything beside the collection, while work goes on."""
    path = _house(request).get(name).back_up()
    return {"file": path.name, "bytes": path.stat().st_size}


@router.get("/collections/{name}/backups")
def backups(request: Request, name: str) -> dict[str, Any]:
    """The copies there are."""
    collection = _house(request).get(name)
    lines = []
    for file, at, next_id in collection.store.backups():
        with contextlib.suppress(FileNotFoundError):  # moved elsewhere by whoever keeps them
            n_bytes = (collection.folder / BACKUPS / file).stat().st_size
            lines.append({"file": file, "at": at, "ids_below": next_id, "bytes": n_bytes})
    return {"backups": lines}


# ------------------------------------------------------------------------------------------------ the application


class _Express:
    """Vectors that come and are looked up, past the router: of 440 us that the loop had for a batch of 32 it took 180.

    The functions are those that the router knows, so there is one place for what they do.
    """

    _PATH = re.compile(r"/v1/collections/([a-z0-9][a-z0-9_-]{0,63})/(vectors|lookup)")

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._routes = {
            route.path.rsplit("/", 1)[1]: route for route in router.routes
            if isinstance(route, APIRoute) and route.endpoint in (add, lookup)
        }  # fmt: skip

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        found = self._PATH.fullmatch(scope["path"]) if scope.get("method") == "POST" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        route = self._routes[found[2]]
        scope |= {"app": self._app, "route": route, "path_params": {"name": found[1]}}
        request = Request(scope, receive)
        try:
            answer = await route.endpoint(request, found[1])
        except (ArmillaryError, OSError) as error:
            answer = await _told_error(request, error)
        await answer(scope, receive, send)


def make_app(house: House, settings: Settings) -> Application:
    """The application, guarded."""
    app = FastAPI(
        title="Armillary", version=__version__, docs_url=None, redoc_url=None, openapi_url="/v1/openapi.json",
        description="An id for every vector that arrives, durably.",
    )  # fmt: skip
    metrics = Metrics()
    app.state.house, app.state.settings, app.state.metrics = house, settings, metrics
    app.state.stopping = asyncio.Event()
    app.include_router(router)
    _add_open_paths(app)
    app.add_exception_handler(ServiceError, _told_error)
    app.add_exception_handler(ArmillaryError, _told_error)
    app.add_exception_handler(OSError, _told_error)
    app.add_exception_handler(RequestValidationError, _told_invalid)
    app.add_exception_handler(HTTPException, _told_http)
    guard = Guard(_Express(app), settings, Tokens(house.data), metrics)
    guard.app = app  # type: ignore[attr-defined]
    return guard


def _add_open_paths(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    def page() -> Response:
        return _asset("")

    @app.get("/assets/{file}", include_in_schema=False)
    def asset(file: str) -> Response:
        return _asset(file)

    # in the loop: long lookups may have all threads, and a server that works would be taken for a dead one
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "alive", "version": __version__}

    @app.get("/readyz")
    async def readyz(request: Request) -> Response:
        """Whether every collection works."""
        house = _house(request)
        broken = house.broken()
        ready = not broken and not request.app.state.stopping.is_set()
        return JSONResponse({"status": "ready" if ready else "not ready", "broken": broken}, 200 if ready else 503)

    @app.get("/metrics", include_in_schema=False)
    def metrics(request: Request) -> Response:
        counts = {room.name: (views.n_ids(room), room.n_waiting) for room in _house(request).rooms()}
        return Response(request.app.state.metrics.page(counts), media_type="text/plain; version=0.0.4")


def _asset(file: str) -> Response:
    if file not in _ASSETS:
        raise absent("That file", "The page is at /.")
    name, kind = _ASSETS[file]
    content = resources.files("armillary.service").joinpath("assets", name).read_bytes()
    return Response(content, media_type=kind, headers={"cache-control": "no-cache"})


async def _told_error(request: Request, error: Exception) -> Response:
    if isinstance(error, OSError) and not isinstance(error, ArmillaryError):
        _log.error("the disk refused", extra={"facts": {"why": str(error)}})
        error = refusal_of(error)
    if not isinstance(error, ServiceError):
        return JSONResponse({"error": str(error)}, 422)
    headers = {"retry-after": str(error.facts["retry"])} if "retry" in error.facts else None
    return JSONResponse(error.body(), error.status, headers)


async def _told_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [
        {"where": ".".join(str(part) for part in fault["loc"])[:200], "rule": str(fault["msg"])[:200]}
        for fault in error.errors()[:8]
    ]
    return JSONResponse({"error": "The request does not fit; see faults.", "faults": faults}, 422)


async def _told_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": f"{error.detail}. GET /v1/openapi.json lists what there is."}, error.status_code)
