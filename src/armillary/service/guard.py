"""What stands before every request: who may ask, from where, how much and how often; and what is said of it.

Host and Origin are looked at always: a page of the web that a browser shows can send requests to this machine, and has
neither our Host nor our Origin. Bodies are read here, up to a length and within a time, so that nobody can send
endlessly or wait for ever. Logs have neither vectors nor tokens nor query strings.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from armillary.exceptions import InputError
from armillary.service.errors import ServiceError
from armillary.service.metrics import Metrics
from armillary.service.settings import LOOPBACK, Settings
from armillary.service.tokens import Token, Tokens, may

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_log = logging.getLogger("armillary.service")
_OPEN = ("/healthz", "/readyz")
_ONCE = ("host", "origin", "authorization", "idempotency-key", "content-type", "content-length")
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
_READING_POSTS = ("lookup", "alternatives", "current")
_ADMINISTERING = ("snapshot", "export", "import", "model", "backups", "forget")
_MOST_BUCKETS = 10_000
_SLOWEST = 1 << 16  # bytes a second that a file must come with, in the mean


def needed_scope(method: str, path: str) -> str | None:
    """Which scope a request needs; None where anybody may ask."""
    parts = [part for part in path.split("/") if part]
    if not parts or parts[0] == "assets" or path in _OPEN:
        return None if method in ("GET", "HEAD") else "admin"
    last = parts[-1]
    if last in _ADMINISTERING or (method not in ("GET", "HEAD") and len(parts) <= 3):
        return "admin"
    if method in ("GET", "HEAD") or (method == "POST" and last in _READING_POSTS):
        return "read"
    return "write"


class Guard:
    """An ASGI application around another."""

    def __init__(self, inner: Application, settings: Settings, tokens: Tokens, metrics: Metrics) -> None:
        self._inner, self._settings, self._tokens, self._metrics = inner, settings, tokens, metrics
        self._hosts = {*LOOPBACK, "[::1]", *_words(settings.allowed_hosts.lower())}
        if not settings.is_loopback and settings.host not in ("0.0.0.0", "::"):
            self._hosts.add(settings.host.lower())
        self._n_held = 0  # bytes of bodies at work
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        # requests are told apart in the log; nobody has to guess them, so chance is asked once
        self._born, self._numbers = secrets.token_hex(4), itertools.count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        watch = _Watch(send)
        request = f"{self._born}{next(self._numbers):08x}"
        scope.setdefault("state", {})["request"] = request
        who, held = "-", _Held()
        try:
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
            if len(headers) < len(scope["headers"]):
                _refuse_doubled(scope)
            self._check_place(headers, scope)
            who = self._check_token(scope["method"], scope["path"], headers)
            self._check_rate(who if who != "-" else str((scope.get("client") or ("-",))[0]))
            given = await self._body(scope, headers, receive, held)
            scope["state"]["is_allowed"] = functools.partial(self._is_allowed, scope["method"], scope["path"], headers)
            with self._metrics.span(headers, lambda: self._facts(scope, watch)):
                await self._inner(scope, given, watch.send)
        except ServiceError as error:
            await _refuse(watch, error)
        except Exception as error:
            _log.error("fault", extra={"facts": {"request": request, "error": type(error).__name__}}, exc_info=error)
            await _refuse(watch, ServiceError(500, "Something unexpected happened. It is in the log.", request=request))
        finally:
            self._n_held -= held.n_bytes
            self._note(scope, watch, request, who)

    def _hold(self, held: _Held, n_bytes: int) -> None:
        """A body grows; many large ones at once are more than memory holds."""
        most = max(self._settings.max_held_bytes, self._settings.max_body_bytes)  # one alone always has room
        if self._n_held + n_bytes > most:
            raise ServiceError(429, f"Requests with {most:,} bytes are at work already. Try again.", retry=1)
        self._n_held += n_bytes
        held.n_bytes += n_bytes

    def _check_place(self, headers: dict[str, str], scope: Scope) -> None:
        host = _without_port(headers.get("host", "").lower())  # names of hosts are the same in any case
        if host not in self._hosts:
            raise ServiceError(421, "This server does not go by that name. Set allowed_hosts for that of a proxy.")
        origin = headers.get("origin")
        if origin is not None and origin.lower().split("://")[-1] != headers.get("host", "").lower():
            raise ServiceError(403, "Pages of other places may not ask here.")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise ServiceError(403, "Pages of other places may not ask here.")

    def _check_token(self, method: str, path: str, headers: dict[str, str]) -> str:
        needed = needed_scope(method, path)
        if needed is None or self._settings.no_auth:
            return "-"
        kind, _, given = headers.get("authorization", "").partition(" ")
        token = self._holder(given.strip()) if kind.lower() == "bearer" else None
        if token is None:
            raise ServiceError(401, "A token is needed: Authorization: Bearer ... `armillary token create` makes one.")
        if not may(token.scope, needed):
            raise ServiceError(403, f"This needs a token of scope {needed}; yours has {token.scope}.")
        return token.name

    def _holder(self, given: str) -> Token | None:
        try:
            return self._tokens.holder(given)
        except InputError as error:
            _log.error("tokens cannot be read", extra={"facts": {"why": str(error)}})
            raise ServiceError(503, "The tokens cannot be read; the log of the server says why.") from None

    def _is_allowed(self, method: str, path: str, headers: dict[str, str]) -> bool:
        """Whether the token of a request that is answered for long still holds."""
        try:
            self._check_token(method, path, headers)
        except ServiceError:
            return False
        return True

    def _check_rate(self, who: str) -> None:
        """A bucket that fills with `rate` a second and holds two seconds of it."""
        rate = self._settings.rate
        if rate <= 0.0:
            return
        now = time.monotonic()
        level, at = self._buckets.get(who, (2.0 * rate, now))
        level = min(max(2.0 * rate, 1.0), level + (now - at) * rate)
        self._buckets[who] = (level - 1.0 if level >= 1.0 else level, now)
        self._buckets.move_to_end(who)
        while len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)
        if level < 1.0:
            raise ServiceError(
                429, f"More than {rate:g} requests a second. Slow down.", retry=max(1, round(1.0 / rate))
            )

    async def _body(self, scope: Scope, headers: dict[str, str], receive: Receive, held: _Held) -> Receive:
        """The body in one piece, or a refusal; what comes after it is the end of the connection."""
        is_import = scope["path"].endswith("/import")
        most = self._settings.max_import_bytes if is_import else self._settings.max_body_bytes
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > most:
            way_out = "Raise max_import_bytes." if is_import else "Send several requests."
            raise ServiceError(413, f"A body has at most {most:,} bytes. {way_out}")
        if is_import:
            return _metered(receive, most, self._settings.body_seconds)
        if scope["method"] in ("GET", "HEAD"):
            return receive
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                body = await _whole_body(receive, most, lambda n_bytes: self._hold(held, n_bytes))
        except TimeoutError:
            raise ServiceError(408, f"The body did not come within {self._settings.body_seconds:g} s.") from None
        is_first = True

        async def given() -> Message:
            nonlocal is_first
            if is_first:
                is_first = False
                return {"type": "http.request", "body": body, "more_body": False}
            return await receive()

        return given

    def _facts(self, scope: Scope, watch: _Watch) -> dict[str, Any]:
        """What may be said of a request anywhere."""
        return {
            "method": scope["method"] if scope["method"] in _METHODS else "-",  # others are as many as anybody likes
            "route": getattr(scope.get("route"), "path", "-"),
            "collection": scope.get("path_params", {}).get("name", "-"),
            "status": watch.status,
        }

    def _note(self, scope: Scope, watch: _Watch, request: str, who: str) -> None:
        seconds = time.perf_counter() - watch.started
        facts = self._facts(scope, watch)
        self._metrics.note(facts["method"], facts["route"], watch.status, seconds)
        if _log.isEnabledFor(logging.INFO):
            line = {"request": request, **facts, "ms": round(1000.0 * seconds, 3), "token": who}
            _log.info("request", extra={"facts": line})


class _Held:
    """How much of a request is in memory."""

    n_bytes = 0


class _Watch:
    """Passes an answer on, and remembers its status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.started = time.perf_counter()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", []), *_SAFE]
            if self.status in (400, 408, 413, 429):  # the rest of a body may be on its way, and nobody reads it
                message["headers"].append((b"connection", b"close"))
        await self._send(message)


_SAFE = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"content-security-policy",
        (
            b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
            b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
    ),
]


async def _whole_body(receive: Receive, most: int, hold: Callable[[int], None]) -> bytes:
    parts: list[bytes] = []
    n_bytes = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ServiceError(400, "The connection ended before the body.")
        part = message.get("body", b"")
        n_bytes += len(part)
        if n_bytes > most:
            raise ServiceError(413, f"A body has at most {most:,} bytes. Send several requests.")
        hold(len(part))
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


def _metered(receive: Receive, most: int, seconds: float) -> Receive:
    """A body that is too large for memory, piece by piece, with a limit of size and one of time that grows with it."""
    n_bytes, began = 0, time.monotonic()

    async def given() -> Message:
        nonlocal n_bytes
        left = began + seconds + n_bytes / _SLOWEST - time.monotonic()
        try:
            if left <= 0.0:  # what is there already would be taken before the time is looked at
                raise TimeoutError
            async with asyncio.timeout(left):
                message = await receive()
        except TimeoutError:
            raise ServiceError(
                408, f"The body did not come with {_SLOWEST:,} bytes a second; {n_bytes:,} came. Send it again."
            ) from None
        n_bytes += len(message.get("body", b""))
        if n_bytes > most:
            raise ServiceError(413, f"A file has at most {most:,} bytes. Raise max_import_bytes.")
        return message

    return given


async def _refuse(watch: _Watch, error: ServiceError) -> None:
    if watch.status:  # an answer has begun: all that is left is to break it off
        return
    headers = [(b"content-type", b"application/json")]
    if "retry" in error.facts:
        headers.append((b"retry-after", str(error.facts["retry"]).encode()))
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    body = json.dumps(error.body()).encode()
    with contextlib.suppress(OSError):
        await watch.send({"type": "http.response.start", "status": error.status, "headers": headers})
        await watch.send({"type": "http.response.body", "body": body})


def _refuse_doubled(scope: Scope) -> None:
    """A proxy before us may have looked at the first of two, and we would at the last."""
    names = [name.decode("latin-1").lower() for name, _ in scope["headers"]]
    for name in _ONCE:
        if names.count(name) > 1:
            raise ServiceError(400, f"A request has one header {name}; got {names.count(name)}.")


def _words(text: str) -> Iterable[str]:
    return (word.strip() for word in text.split(",") if word.strip())


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.split("]")[0] + "]"
    return host.rsplit(":", 1)[0] if ":" in host else host
