"""The client of the identity service, for programs that wait and for those that await. Needs `armillary[client]`.

    from armillary.client import Client

    voices = Client("http://127.0.0.1:8750", token="arm_...").collection("voices")
    ids = voices.add(vectors)

Every request that changes something goes under an idempotency key and is sent again where the answer was lost: it is
done once, whatever happens on the wire.
"""

from __future__ import annotations

import asyncio
import io
import json
import secrets
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import numpy as np
import numpy.typing as npt

from armillary.durable.whole import whole_file
from armillary.exceptions import ArmillaryError

__all__ = ["AsyncClient", "AsyncCollection", "Client", "Collection", "ServiceRefusedError"]

Int64Array = npt.NDArray[np.int64]
_NPY = "application/x-npy"
_AGAIN = (408, 409, 429, 500, 502, 503, 504)
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 5.0
_NO_LIMIT = httpx.Timeout(30.0, read=None)


class ServiceRefusedError(ArmillaryError):
    """The service answered no; `status` is that of HTTP, `facts` what it said besides, e.g. the row."""

    def __init__(self, status: int, sentence: str, facts: Mapping[str, Any]) -> None:
        super().__init__(f"{sentence} (HTTP {status})")
        self.status = status
        self.facts = dict(facts)

    @property
    def row(self) -> int | None:
        """The vector that it was about."""
        return self.facts.get("row")


class _Asked:
    """One request, and how often it is tried."""

    def __init__(self, method: str, path: str, *, is_safe: bool, n_tries: int, **rest: Any) -> None:
        self.method, self.path, self.rest = method, path, rest
        self._n_left = n_tries
        self._wait = _FIRST_WAIT
        self._is_safe = is_safe

    def pause_after(self, answer: httpx.Response | None) -> float | None:
        """How long to wait before it is tried again; None: no more."""
        self._n_left -= 1
        is_lost = answer is None or answer.status_code in _AGAIN
        if not is_lost or not self._is_safe or self._n_left <= 0 or _is_final(answer):
            return None
        given = answer.headers.get("retry-after") if answer is not None else None
        pause = (
            float(given) if given is not None and given.isdigit() else self._wait * (0.5 + secrets.randbelow(512) / 512)
        )
        self._wait = min(2.0 * self._wait, _LONGEST_WAIT)
        return min(pause, _LONGEST_WAIT)


def _is_final(answer: httpx.Response | None) -> bool:
    """A conflict that no waiting mends: 409 without a time."""
    return answer is not None and answer.status_code == 409 and "retry-after" not in answer.headers


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    try:
        facts = answer.json()
        sentence = str(facts.pop("error"))
    except (ValueError, KeyError, AttributeError, UnicodeDecodeError):
        facts, sentence = {}, f"The service answered without a sentence: {answer.text[:200]!r}"
    raise ServiceRefusedError(answer.status_code, sentence, facts)


def _packed(vectors: Any) -> bytes:
    rows = np.asarray(vectors)
    rows = rows.astype(np.float64) if rows.dtype.kind in "iub" else rows
    stream = io.BytesIO()
    np.save(stream, rows, allow_pickle=False)
    return stream.getvalue()


def _ids(answer: httpx.Response) -> Int64Array:
    if answer.headers.get("content-type") == _NPY:
        return np.asarray(np.load(io.BytesIO(answer.content), allow_pickle=False), np.int64)
    return np.asarray(answer.json()["ids"], np.int64)


def _headers(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {token}"}


def _key(key: str | None) -> dict[str, str]:
    return {"idempotency-key": secrets.token_hex(16) if key is None else key}


def _rules(frame: str | int | None, margin: float | None) -> dict[str, Any]:
    return {
        name: value
        for name, value in (("frame", None if frame is None else str(frame)), ("margin", margin))
        if value is not None
    }


class _Paths:
    """The requests of a collection, for both clients."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _add(self, vectors: Any, frame: str | int | None, key: str | None, margin: float | None) -> dict[str, Any]:
        return {
            "method": "POST", "path": f"/v1/collections/{self.name}/vectors", "content": _packed(vectors),
            "params": _rules(frame, margin), "headers": {"content-type": _NPY, "accept": _NPY, **_key(key)},
        }  # fmt: skip

    def _lookup(self, vectors: Any, frame: str | int | None, margin: float | None) -> dict[str, Any]:
        return {
            "method": "POST", "path": f"/v1/collections/{self.name}/lookup", "content": _packed(vectors),
            "params": _rules(frame, margin), "headers": {"content-type": _NPY, "accept": _NPY},
        }  # fmt: skip

    def _alternatives(self, vectors: Any, k: int) -> dict[str, Any]:
        return {
            "method": "POST", "path": f"/v1/collections/{self.name}/alternatives", "content": _packed(vectors),
            "params": {"k": k}, "headers": {"content-type": _NPY},
        }  # fmt: skip

    def _post(self, what: str, body: Any, key: str | None, method: str = "POST") -> dict[str, Any]:
        return {"method": method, "path": f"/v1/collections/{self.name}/{what}", "json": body, "headers": _key(key)}

    def _get(self, what: str, **params: Any) -> dict[str, Any]:
        return {"method": "GET", "path": f"/v1/collections/{self.name}{what}", "params": params}

    def _current(self, ids: Any) -> dict[str, Any]:
        return self._post("current", {"ids": np.asarray(ids).tolist()}, None)

    def _import(self, path: str | Path) -> dict[str, Any]:
        content = Path(path).read_bytes()
        return {"method": "POST", "path": f"/v1/collections/{self.name}/import", "content": content, "is_safe": False}


class Client:
    """A service somewhere.

    Parameters
    ----------
    url : str
        Where it listens, e.g. "http://127.0.0.1:8750".
    token : str, optional
        As `armillary token create` gave it.
    timeout : float, default=30.0
        Seconds to wait for an answer.
    n_tries : int, default=8
        How often a request is sent at most. Waits between them double, from 0.05 s to 5 s.
    transport : httpx.BaseTransport, optional
        What carries requests, for proxies and tests.

    Examples
    --------
    >>> from armillary.client import Client
    >>> Client("http://127.0.0.1:8750").collection("voices").name
    'voices'
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        n_tries: int = 8,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._n_tries = n_tries
        self._http = httpx.Client(base_url=url, headers=_headers(token), timeout=timeout, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def ask(self, method: str, path: str, *, is_safe: bool = True, **rest: Any) -> httpx.Response:
        """One request, sent again where it was lost; a `ServiceRefusedError` where the answer is no.

        Parameters
        ----------
        method : str
            "GET", "POST", ...
        path : str
            Of the service, from the slash on.
        is_safe : bool, default=True
            It may be sent twice.
        **rest : Any
            What httpx takes: `json`, `params`, `content`.

        Returns
        -------
        httpx.Response
            Of a request that was granted.
        """
        asked = _Asked(method, path, is_safe=is_safe, n_tries=self._n_tries, **rest)
        while True:
            answer: httpx.Response | None = None
            try:
                answer = self._http.request(asked.method, asked.path, **asked.rest)
            except httpx.TransportError:
                pause = asked.pause_after(None)
                if pause is None:
                    raise
            else:
                pause = asked.pause_after(answer)
                if pause is None:
                    return _checked(answer)
            time.sleep(pause)

    def collection(self, name: str) -> Collection:
        """The collection of a name, which need not be there yet.

        Parameters
        ----------
        name : str
            Of the collection.

        Returns
        -------
        Collection
            Of that name.
        """
        return Collection(self, name)

    def collections(self) -> list[dict[str, Any]]:
        """All collections.

        Returns
        -------
        list of dict
            One for each.
        """
        found: list[dict[str, Any]] = self.ask("GET", "/v1/collections").json()["collections"]
        return found

    def create(self, name: str, *, exist_ok: bool = False, **model: Any) -> Collection:
        """Make a collection: `preset=`, `parameters=`, `tune=`, `store_members=` as the service takes them.

        Parameters
        ----------
        name : str
            Of the collection.
        exist_ok : bool, default=False
            One that is there is as good.
        **model : Any
            Fields of the request.

        Returns
        -------
        Collection
            Of that name.
        """
        try:
            self.ask("POST", "/v1/collections", is_safe=exist_ok, json={"name": name, **model})
        except ServiceRefusedError as error:
            if not exist_ok or error.status != 409:
                raise
        return self.collection(name)


class Collection(_Paths):
    """A collection of a service: `Client.collection` gives it.

    Parameters
    ----------
    client : Client
        Of the service.
    name : str
        Of the collection.

    Examples
    --------
    >>> from armillary.client import Client
    >>> voices = Client("http://127.0.0.1:8750").create("voices", preset="whole utterances")  # doctest: +SKIP
    >>> ids = voices.add(vectors)  # doctest: +SKIP
    >>> voices.name_id(ids[0], "Ann")  # doctest: +SKIP
    """

    def __init__(self, client: Client, name: str) -> None:
        super().__init__(name)
        self._client = client

    def add(
        self, vectors: Any, frame: str | int | None = None, key: str | None = None, *, margin: float | None = None
    ) -> Int64Array:
        """Learn vectors (n, D) or one (D,); the id of each (n,). Of one `frame` all get different ids.

        Parameters
        ----------
        vectors : array of shape (n, D) or (D,)
        frame : str or int, optional
            The photo or moment that they are of.
        key : str, optional
            Of the request: sent again under the same key, it is done once.
        margin : float, optional
            Vectors whose best id is nearer than the second by less (of the cosine) are not learned: -1.

        Returns
        -------
        array of shape (n,), int64
            Ids.
        """
        return _ids(self._client.ask(**self._add(vectors, frame, key, margin)))

    def lookup(self, vectors: Any, frame: str | int | None = None, *, margin: float | None = None) -> Int64Array:
        """The id of each vector, -1 for unknown ones. Nothing is learned.

        Parameters
        ----------
        vectors : array of shape (n, D) or (D,)
        frame : str or int, optional
            The photo or moment that all of them are of: none gets the id of another.
        margin : float, optional
            -1, too, where the best id is nearer than the second by less than this (of the cosine).

        Returns
        -------
        array of shape (n,), int64
            Ids.
        """
        return _ids(self._client.ask(**self._lookup(vectors, frame, margin)))

    def alternatives(self, vectors: Any, k: int = 3) -> list[list[dict[str, Any]]]:
        """The nearest ids of each vector.

        Parameters
        ----------
        vectors : array of shape (n, D) or (D,)
        k : int, default=3
            At most so many.

        Returns
        -------
        list of n lists of dict
            Ids with their cosines, the nearest first.
        """
        found: list[list[dict[str, Any]]] = self._client.ask(**self._alternatives(vectors, k)).json()["alternatives"]
        return found

    def name_id(self, number: int, name: str | None, *, key: str | None = None) -> dict[str, Any]:
        """Name an id; None takes the name away.

        Parameters
        ----------
        number : int
            The id.
        name : str or None
            The name.
        key : str, optional
            Of the request: sent again under the same key, it is done once.

        Returns
        -------
        dict
            What the service answered, with the number of the operation.
        """
        return self._done(self._post(f"ids/{number}/name", {"name": name}, key, "PUT"))

    def set_meta(self, number: int, meta: Mapping[str, Any] | None, *, key: str | None = None) -> dict[str, Any]:
        """Attach a JSON object to an id.

        Parameters
        ----------
        number : int
            The id.
        meta : mapping or None
            The object; None takes it away.
        key : str, optional
            Of the request: sent again under the same key, it is done once.

        Returns
        -------
        dict
            What the service answered, with the number of the operation.
        """
        return self._done(self._post(f"ids/{number}/meta", meta, key, "PUT"))

    def merge(self, one: int, other: int, *, key: str | None = None) -> dict[str, Any]:
        """Make one id of two.

        Parameters
        ----------
        one : int
            An id.
        other : int
            An id.
        key : str, optional
            Of the request: sent again under the same key, it is done once.

        Returns
        -------
        dict
            What the service answered, with the number of the operation.
        """
        return self._done(self._post("merge", {"one": one, "other": other}, key))

    def must_link(self, one: int, other: int, *, key: str | None = None) -> dict[str, Any]:
        """Make one id of two, unless something said before speaks against it.

        Parameters
        ----------
        one : int
            An id.
        other : int
            An id.
        key : str, optional
            Of the request: sent again under the same key, it is done once.

        Returns
        -------
        dict
            What the service answered, with the number of the operation.
        """
        return self._done(self._post("must-link", {"one": one, "other": other}, key))

    def cannot_link(self, one: int, other: int, *, key: str | None = None) -> dict[str, Any]:
        """Keep two ids apart.

        Parameters
        ----------
        one : int
            An id.
        other : int
            An id.
        key : str, optional
            Of the request: sent again under the same key, it is done once.

        Returns
        -------
        dict
            What the service answered, with the number of the operation.
        """
        return self._done(self._post("cannot-link", {"one": one, "other": other}, key))

    def split(
        self, number: int, *, subclusters: Any = None, rows: Any = None, key: str | None = None
    ) -> dict[str, Any]:
        """Split an id in two: at its weakest link, where it is not said what leaves.

        Parameters
        ----------
        number : int
            The id.
        subclusters : sequence of int, optional
            Numbers of the sub-clusters that leave.
        rows : sequence of int, optional
            Or numbers of stored vectors that leave.
        key : str, optional
            Of the request: sent again under the same key, it is done once.

        Returns
        -------
        dict
            What the service answered, with the number of the operation.
        """
        return self._done(self._post("split", {"id": number, "subclusters": subclusters, "rows": rows}, key))

    def forget(self, number: int, *, key: str | None = None) -> dict[str, Any]:
        """Erase a person.

        Parameters
        ----------
        number : int
            The id.
        key : str, optional
            Of the request: sent again under the same key, it is done once.

        Returns
        -------
        dict
            What the service answered, with the number of the operation.
        """
        return self._done(self._post("forget", {"id": number}, key))

    def undo(self, operation: int, *, key: str | None = None) -> dict[str, Any]:
        """Take an operation back.

        Parameters
        ----------
        operation : int
            Its number.
        key : str, optional
            Of the request: sent again under the same key, it is done once.

        Returns
        -------
        dict
            What the service answered, with the number of the operation.
        """
        return self._done(self._post("undo", {"operation": operation}, key))

    def current(self, ids: Any) -> Int64Array:
        """The ids by which past ones go now.

        Parameters
        ----------
        ids : array of int of shape (n,)

        Returns
        -------
        array of shape (n,), int64
            Ids; -1 for those that are forgotten.
        """
        return _ids(self._client.ask(**self._current(ids)))

    def ids(self, after: int = -1, limit: int = 1000) -> list[dict[str, Any]]:
        """The ids that there are.

        Parameters
        ----------
        after : int, default=-1
            Those above this id.
        limit : int, default=1000
            At most so many.

        Returns
        -------
        list of dict
            Rising by id.
        """
        found: list[dict[str, Any]] = self._done(self._get("/ids", after=after, limit=limit))["ids"]
        return found

    def id(self, number: int) -> dict[str, Any]:
        """Everything about one id.

        Parameters
        ----------
        number : int
            The id.

        Returns
        -------
        dict
            Name, counts, when it was seen.
        """
        return self._done(self._get(f"/ids/{number}"))

    def events(self, since: int = 0, limit: int = 1000) -> list[dict[str, Any]]:
        """Events after a number.

        Parameters
        ----------
        since : int, default=0
        limit : int, default=1000
            At most so many.

        Returns
        -------
        list of dict
            The oldest first.
        """
        found: list[dict[str, Any]] = self._done(self._get("/events", since=since, limit=limit))["events"]
        return found

    def watch(self, since: int = -1) -> Iterator[dict[str, Any]]:
        """Events as they come, without end; begins again where a connection was lost.

        Parameters
        ----------
        since : int, default=-1
            The number of the last event that is known; -1: from now on.

        Yields
        ------
        dict
            An event.
        """
        while True:
            try:
                path, rest = f"/v1/collections/{self.name}/events/stream", {"params": {"since": since}}
                with self._client._http.stream("GET", path, timeout=30.0, **rest) as answer:  # type: ignore[arg-type]
                    if not answer.is_success:
                        answer.read()
                        _checked(answer)
                    for line in answer.iter_lines():
                        event = _event(line)
                        since = _last_number(event, since)
                        if event is not None and "number" in event:
                            yield event
            except httpx.TransportError:
                time.sleep(0.5)

    def details(self) -> dict[str, Any]:
        """The collection: model, counts, how fast it works.

        Returns
        -------
        dict
            What the service says of it.
        """
        return self._done(self._get(""))

    def export(self, path: str | Path) -> None:
        """Everything in one file, written whole or not at all.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        asked = self._get("/export")
        # the server makes the file before its first byte, however long that takes
        stream = self._client._http.stream(asked["method"], asked["path"], timeout=_NO_LIMIT)
        with whole_file(path, "export") as target, stream as answer:
            if not answer.is_success:
                answer.read()
                _checked(answer)
            for part in answer.iter_bytes():
                target.write(part)

    def import_(self, path: str | Path) -> dict[str, Any]:
        """Make this collection of a file that `export` wrote.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        dict
            What the service says of it.
        """
        return self._done(self._import(path))

    def _done(self, asked: dict[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = self._client.ask(**asked).json()
        return body


def _last_number(event: dict[str, Any] | None, since: int) -> int:
    """Of the last event that is known; the greeting of a stream says less of a collection that was made anew."""
    known = event or {}
    number: int = known.get("number", known.get("since", since))
    return number


def _event(line: str) -> dict[str, Any] | None:
    if not line.startswith("data: "):
        return None
    found: dict[str, Any] = json.loads(line[6:])
    return found


class AsyncClient:
    """A service somewhere, for programs that await.

    Parameters
    ----------
    url, token, timeout, n_tries, transport
        As of `Client`.

    Examples
    --------
    >>> from armillary.client import AsyncClient
    >>> AsyncClient("http://127.0.0.1:8750").collection("voices").name
    'voices'
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        n_tries: int = 8,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._n_tries = n_tries
        self._http = httpx.AsyncClient(base_url=url, headers=_headers(token), timeout=timeout, transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def ask(self, method: str, path: str, *, is_safe: bool = True, **rest: Any) -> httpx.Response:
        """One request, sent again where it was lost; a `ServiceRefusedError` where the answer is no.

        Parameters
        ----------
        method : str
            "GET", "POST", ...
        path : str
            Of the service, from the slash on.
        is_safe : bool, default=True
            It may be sent twice.
        **rest : Any
            What httpx takes: `json`, `params`, `content`.

        Returns
        -------
        httpx.Response
            Of a request that was granted.
        """
        asked = _Asked(method, path, is_safe=is_safe, n_tries=self._n_tries, **rest)
        while True:
            try:
                answer = await self._http.request(asked.method, asked.path, **asked.rest)
            except httpx.TransportError:
                pause = asked.pause_after(None)
                if pause is None:
                    raise
            else:
                pause = asked.pause_after(answer)
                if pause is None:
                    return _checked(answer)
            await asyncio.sleep(pause)

    def collection(self, name: str) -> AsyncCollection:
        """The collection of a name, which need not be there yet.

        Parameters
        ----------
        name : str
            Of the collection.

        Returns
        -------
        AsyncCollection
            Of that name.
        """
        return AsyncCollection(self, name)

    async def collections(self) -> list[dict[str, Any]]:
        """All collections.

        Returns
        -------
        list of dict
            One for each.
        """
        found: list[dict[str, Any]] = (await self.ask("GET", "/v1/collections")).json()["collections"]
        return found

    async def create(self, name: str, *, exist_ok: bool = False, **model: Any) -> AsyncCollection:
        """Make a collection, as `Client.create`.

        Parameters
        ----------
        name : str
            Of the collection.
        exist_ok : bool, default=False
            One that is there is as good.
        **model : Any
            Fields of the request.

        Returns
        -------
        AsyncCollection
            Of that name.
        """
        try:
            await self.ask("POST", "/v1/collections", is_safe=exist_ok, json={"name": name, **model})
        except ServiceRefusedError as error:
            if not exist_ok or error.status != 409:
                raise
        return self.collection(name)


class AsyncCollection(_Paths):
    """A collection of a service: `AsyncClient.collection` gives it.

    Parameters
    ----------
    client : AsyncClient
        Of the service.
    name : str
        Of the collection.

    Examples
    --------
    >>> from armillary.client import AsyncClient
    >>> voices = AsyncClient("http://127.0.0.1:8750").collection("voices")
    >>> ids = await voices.add(vectors)  # doctest: +SKIP
    """

    def __init__(self, client: AsyncClient, name: str) -> None:
        super().__init__(name)
        self._client = client

    async def add(
        self, vectors: Any, frame: str | int | None = None, key: str | None = None, *, margin: float | None = None
    ) -> Int64Array:
        """Learn vectors (n, D) or one (D,); the id of each (n,).

        Parameters
        ----------
        vectors : array of shape (n, D) or (D,)
        frame : str or int, optional
            The photo or moment that they are of.
        key : str, optional
            Of the request: sent again under the same key, it is done once.
        margin : float, optional
            Vectors whose best id is nearer than the second by less (of the cosine) are not learned: -1.

        Returns
        -------
        array of shape (n,), int64
            Ids.
        """
        return _ids(await self._client.ask(**self._add(vectors, frame, key, margin)))

    async def lookup(self, vectors: Any, frame: str | int | None = None, *, margin: float | None = None) -> Int64Array:
        """The id of each vector, -1 for unknown ones. Nothing is learned.

        Parameters
        ----------
        vectors : array of shape (n, D) or (D,)
        frame : str or int, optional
            The photo or moment that all of them are of: none gets the id of another.
        margin : float, optional
            -1, too, where the best id is nearer than the second by less than this (of the cosine).

        Returns
        -------
        array of shape (n,), int64
            Ids.
        """
        return _ids(await self._client.ask(**self._lookup(vectors, frame, margin)))

    async def name_id(self, number: int, name: str | None, *, key: str | None = None) -> dict[str, Any]:
        """Name an id; None takes the name away.

        Parameters
        ----------
        number : int
            The id.
        name : str or None
            The name.
        key : str, optional
            Of the request: sent again under the same key, it is done once.

        Returns
        -------
        dict
            What the service answered, with the number of the operation.
        """
        return await self._done(self._post(f"ids/{number}/name", {"name": name}, key, "PUT"))

    async def alternatives(self, vectors: Any, k: int = 3) -> list[list[dict[str, Any]]]:
        """The nearest ids of each vector.

        Parameters
        ----------
        vectors : array of shape (n, D) or (D,)
        k : int, default=3
            At most so many.

        Returns
        -------
        list of n lists of dict
            Ids with their cosines, the nearest first.
        """
        found: list[list[dict[str, Any]]] = (await self._client.ask(**self._alternatives(vectors, k))).json()[
            "alternatives"
        ]
        return found

    async def set_meta(self, number: int, meta: Mapping[str, Any] | None, *, key: str | None = None) -> dict[str, Any]:
        """Attach a JSON object to an id.

        Parameters
        ----------
        number : int
            The id.
        meta : mapping or None
            The object; None takes it away.
        key : str, optional
            Of the request: sent again under the same key, it is done once.

        Returns
        -------
        dict
            What the service answered, with the number of the operation.
        """
        return await self._done(self._post(f"ids/{number}/meta", meta, key, "PUT"))

    async def merge(self, one: int, other: int, *, key: str | None = None) -> dict[str, Any]:
        """Make one id of two.

        Parameters
        ----------
        one : int
            An id.
        other : int
            An id.
        key : str, optional
            Of the request: sent again under the same key, it is done once.

        Returns
        -------
        dict
            What the service answered, with the number of the operation.
        """
        return await self._done(self._post("merge", {"one": one, "other": other}, key))

    async def must_link(self, one: int, other: int, *, key: str | None = None) -> dict[str, Any]:
        """Make one id of two, unless something said before speaks against it.

        Parameters
        ----------
        one : int
            An id.
        other : int
            An id.
        key : str, optional
            Of the request: sent again under the same key, it is done once.

        Returns
        -------
        dict
            What the service answered, with the number of the operation.
        """
        return await self._done(self._post("must-link", {"one": one, "other": other}, key))

    async def cannot_link(self, one: int, other: int, *, key: str | None = None) -> dict[str, Any]:
        """Keep two ids apart.

        Parameters
        ----------
        one : int
            An id.
        other : int
            An id.
        key : str, optional
            Of the request: sent again under the same key, it is done once.

        Returns
        -------
        dict
            What the service answered, with the number of the operation.
        """
        return await self._done(self._post("cannot-link", {"one": one, "other": other}, key))

    async def split(
        self, number: int, *, subclusters: Any = None, rows: Any = None, key: str | None = None
    ) -> dict[str, Any]:
        """Split an id in two: at its weakest link, where it is not said what leaves.

        Parameters
        ----------
        number : int
            The id.
        subclusters : sequence of int, optional
            Numbers of the sub-clusters that leave.
        rows : sequence of int, optional
            Or numbers of stored vectors that leave.
        key : str, optional
            Of the request: sent again under the same key, it is done once.

        Returns
        -------
        dict
            What the service answered, with the number of the operation.
        """
        return await self._done(self._post("split", {"id": number, "subclusters": subclusters, "rows": rows}, key))

    async def forget(self, number: int, *, key: str | None = None) -> dict[str, Any]:
        """Erase a person.

        Parameters
        ----------
        number : int
            The id.
        key : str, optional
            Of the request: sent again under the same key, it is done once.

        Returns
        -------
        dict
            What the service answered, with the number of the operation.
        """
        return await self._done(self._post("forget", {"id": number}, key))

    async def undo(self, operation: int, *, key: str | None = None) -> dict[str, Any]:
        """Take an operation back.

        Parameters
        ----------
        operation : int
            Its number.
        key : str, optional
            Of the request: sent again under the same key, it is done once.

        Returns
        -------
        dict
            What the service answered, with the number of the operation.
        """
        return await self._done(self._post("undo", {"operation": operation}, key))

    async def current(self, ids: Any) -> Int64Array:
        """The ids by which past ones go now.

        Parameters
        ----------
        ids : array of int of shape (n,)

        Returns
        -------
        array of shape (n,), int64
            Ids; -1 for those that are forgotten.
        """
        return _ids(await self._client.ask(**self._current(ids)))

    async def ids(self, after: int = -1, limit: int = 1000) -> list[dict[str, Any]]:
        """The ids that there are.

        Parameters
        ----------
        after : int, default=-1
            Those above this id.
        limit : int, default=1000
            At most so many.

        Returns
        -------
        list of dict
            Rising by id.
        """
        found: list[dict[str, Any]] = (await self._done(self._get("/ids", after=after, limit=limit)))["ids"]
        return found

    async def id(self, number: int) -> dict[str, Any]:
        """Everything about one id.

        Parameters
        ----------
        number : int
            The id.

        Returns
        -------
        dict
            Name, counts, when it was seen.
        """
        return await self._done(self._get(f"/ids/{number}"))

    async def events(self, since: int = 0, limit: int = 1000) -> list[dict[str, Any]]:
        """Events after a number.

        Parameters
        ----------
        since : int, default=0
        limit : int, default=1000
            At most so many.

        Returns
        -------
        list of dict
            The oldest first.
        """
        found: list[dict[str, Any]] = (await self._done(self._get("/events", since=since, limit=limit)))["events"]
        return found

    async def details(self) -> dict[str, Any]:
        """The collection: model, counts, how fast it works.

        Returns
        -------
        dict
            What the service says of it.
        """
        return await self._done(self._get(""))

    async def export(self, path: str | Path) -> None:
        """Everything in one file, written whole or not at all.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        asked = self._get("/export")
        with whole_file(path, "export") as target:
            # the server makes the file before its first byte, however long that takes
            async with self._client._http.stream(asked["method"], asked["path"], timeout=_NO_LIMIT) as answer:
                if not answer.is_success:
                    await answer.aread()
                    _checked(answer)
                async for part in answer.aiter_bytes():
                    target.write(part)

    async def import_(self, path: str | Path) -> dict[str, Any]:
        """Make this collection of a file that `export` wrote.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        dict
            What the service says of it.
        """
        return await self._done(self._import(path))

    async def _done(self, asked: dict[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = (await self._client.ask(**asked)).json()
        return body

    async def post(self, what: str, body: Mapping[str, Any], *, key: str | None = None) -> dict[str, Any]:
        """Any other request that changes something: "merge", "split", "undo", ...

        Parameters
        ----------
        what : str
            The last part of the path.
        body : mapping
            What is sent.
        key : str, optional
            Of the request: sent again under the same key, it is done once.

        Returns
        -------
        dict
            What the service answered, with the number of the operation.
        """
        return await self._done(self._post(what, body, key))

    async def get(self, what: str = "", **params: Any) -> dict[str, Any]:
        """Any request that reads: "/ids", "/events", ...

        Parameters
        ----------
        what : str
            The path below the collection.
        **params : Any
            What follows the question mark.

        Returns
        -------
        dict
            What the service answered.
        """
        return await self._done(self._get(what, **params))

    async def watch(self, since: int = -1) -> AsyncIterator[dict[str, Any]]:
        """Events as they come, without end; begins again where a connection was lost.

        Parameters
        ----------
        since : int, default=-1
            The number of the last event that is known; -1: from now on.

        Yields
        ------
        dict
            An event.
        """
        while True:
            try:
                path, rest = f"/v1/collections/{self.name}/events/stream", {"params": {"since": since}}
                async with self._client._http.stream("GET", path, timeout=30.0, **rest) as answer:  # type: ignore[arg-type]
                    if not answer.is_success:
                        await answer.aread()
                        _checked(answer)
                    async for line in answer.aiter_lines():
                        event = _event(line)
                        since = _last_number(event, since)
                        if event is not None and "number" in event:
                            yield event
            except httpx.TransportError:
                await asyncio.sleep(0.5)
