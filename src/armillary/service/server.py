"""The server: where it listens, how it ends. The home of uvicorn."""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
import sys
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn

from armillary.exceptions import ParameterError
from armillary.models.links.links import Links
from armillary.service.app import make_app
from armillary.service.house import House
from armillary.service.metrics import JsonLines
from armillary.service.settings import Settings
from armillary.service.tokens import Tokens

_log = logging.getLogger("armillary.service")
_MOST_HEADERS = 64 << 10


def serve(settings: Settings) -> None:
    """Serve until a signal comes; requests that wait are answered first."""
    _refuse_without_tokens(settings)
    _check_certificate(settings)
    _begin_log(settings.log_level)
    data = Path(settings.data)
    data.mkdir(parents=True, exist_ok=True)
    _warm()
    house = House(data, settings.limits())
    try:
        for name, why in house.damaged.items():
            _log.error("a collection could not be opened", extra={"facts": {"collection": name, "why": why}})
        if settings.no_auth:
            _log.warning("no tokens are asked for: whoever can reach this machine's loopback may write and erase")
        _serve(house, settings)
    finally:
        house.close()


def _refuse_without_tokens(settings: Settings) -> None:
    if settings.no_auth:
        return
    if not Tokens(Path(settings.data)).all():
        where = "" if settings.is_loopback else f" on {settings.host}"
        way_out = " or, on this machine only, serve with --no-auth" if settings.is_loopback else ""
        raise ParameterError(
            f"The service must have a token to listen{where}; '{settings.data}' has none. Run: armillary token create "
            f"NAME --scope admin --data {settings.data}{way_out}."
        )


def _check_certificate(settings: Settings) -> None:
    if not settings.certfile:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(settings.certfile, settings.keyfile or None)
    except OSError as error:  # ssl.SSLError is one
        raise ParameterError(
            f"`certfile` and `keyfile` must be PEM files of a certificate and its key; '{settings.certfile}' and "
            f"'{settings.keyfile}' cannot be used: {error.strerror or error}."
        ) from None


def _serve(house: House, settings: Settings) -> None:
    app: Any = make_app(house, settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_seconds)),
        limit_concurrency=settings.max_connections,
        ssl_certfile=settings.certfile or None,
        ssl_keyfile=settings.keyfile or None,
        h11_max_incomplete_event_size=_MOST_HEADERS,
    )
    config.load()
    _close_slow_connections(config, settings.header_seconds)
    server = _Server(config, app.app.state.stopping)
    scheme = "https" if settings.certfile else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    _log.info("listening", extra={"facts": {"url": f"{scheme}://{host}:{settings.port}", "data": str(house.data)}})
    server.run()  # in the loop that uvicorn prefers: with asyncio.run it would be the slower one of Python
    if not server.started:
        raise ParameterError(f"The service cannot listen on {host}:{settings.port}. Choose another --port.")


class _Server(uvicorn.Server):
    """Tells streams of events to end before it waits for requests."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._stopping.set()
        super().handle_exit(sig if sig != signal.SIGINT else signal.SIGTERM, frame)
        self._captured_signals.clear()  # a signal that was obeyed is not raised again


def _close_slow_connections(config: uvicorn.Config, seconds: float) -> None:
    """A connection is closed whose request does not begin whole: headers within some seconds, and of a certain size.

    The clock runs from the connection to its first request, and again from the first byte after each answer.
    """
    kind: Any = config.http_protocol_class

    class Patient(kind):  # type: ignore[misc]
        _waiting: asyncio.TimerHandle | None = None
        _is_in_headers = False
        _n_bytes = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            if self._is_idle():
                self._wait()
            super().data_received(data)
            self._n_bytes = self._n_bytes + len(data) if self._is_in_headers else 0
            if self._n_bytes > _MOST_HEADERS:
                self.transport.close()
            elif not self._is_idle() and self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

        def on_message_begin(self) -> None:  # httptools; h11 bounds headers by itself
            self._is_in_headers = True
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._is_in_headers = False
            super().on_headers_complete()

        def _is_idle(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _wait(self) -> None:
            if self._waiting is None:
                self._waiting = self.loop.call_later(seconds, self._end_if_silent)

        def _end_if_silent(self) -> None:
            self._waiting = None
            if self._is_idle() and self.transport is not None and not self.transport.is_closing():
                self.transport.close()

    config.http_protocol_class = Patient


def _warm() -> None:
    """Compiled code is read now, not with the first request, which would wait for seconds."""
    rows = np.eye(4, dtype=np.float32)
    model = Links().partial_fit(rows)
    model.learn_one(rows[0])
    model.predict(rows, margin=0.1)


def _begin_log(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("armillary.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level.upper() if name == "armillary.service" else "WARNING")
        logger.propagate = False
