"""Numbers for Prometheus, lines for logs, spans for OpenTelemetry where it is installed."""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import prometheus_client

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """Those of one server."""

    def __init__(self) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self._requests = prometheus_client.Counter(
            "armillary_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = prometheus_client.Histogram(
            "armillary_request_seconds", "From request to answer.", ["route"], buckets=_SECONDS, registry=self.registry
        )
        self.vectors = prometheus_client.Counter(
            "armillary_vectors", "Vectors learned.", ["collection"], registry=self.registry
        )
        self.ids = prometheus_client.Gauge("armillary_ids", "Ids there are.", ["collection"], registry=self.registry)
        self.waiting = prometheus_client.Gauge(
            "armillary_waiting", "Requests that wait for the writer.", ["collection"], registry=self.registry
        )
        self._counters: dict[tuple[str, str, int], Any] = {}
        self._timers: dict[str, Any] = {}
        self._trace: Any = None
        self._propagate: Any = None
        with contextlib.suppress(ImportError):
            self._trace = importlib.import_module("opentelemetry.trace")
            self._propagate = importlib.import_module("opentelemetry.propagate")

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request."""
        # `labels` looks at its words each time; methods, routes and statuses are few
        counter = self._counters.get((method, route, status))
        if counter is None:
            counter = self._counters[method, route, status] = self._requests.labels(method, route, str(status))
            self._timers[route] = self._seconds.labels(route)
        counter.inc()
        self._timers[route].observe(seconds)

    def drop(self, collection: str) -> None:
        """What was counted of a collection that is no more."""
        with contextlib.suppress(KeyError):
            self.vectors.remove(collection)

    def page(self, counts: Mapping[str, tuple[int, int]]) -> bytes:
        """As Prometheus reads it, with how many ids and waiting requests each collection has now."""
        self.ids.clear()
        self.waiting.clear()
        for name, (n_ids, n_waiting) in counts.items():
            self.ids.labels(name).set(n_ids)
            self.waiting.labels(name).set(n_waiting)
        return prometheus_client.generate_latest(self.registry)

    @contextlib.contextmanager
    def span(self, headers: Mapping[str, str], facts: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
        """A span around a request, within that of whoever asks (`traceparent`); `facts` are known at its end."""
        if self._trace is None or isinstance(self._trace.get_tracer_provider(), self._trace.ProxyTracerProvider):
            yield  # nobody listens: spans that go nowhere would cost 30 us a request
            return
        given = self._propagate.extract(headers)
        tracer, kind = self._trace.get_tracer("armillary"), self._trace.SpanKind.SERVER
        with tracer.start_as_current_span("armillary", context=given, kind=kind) as span:
            try:
                yield
            finally:
                told = facts()
                span.update_name(f"{told['method']} {told['route']}")
                span.set_attributes(
                    {
                        "http.request.method": told["method"],
                        "http.route": told["route"],
                        "http.response.status_code": told["status"],
                        "armillary.collection": told["collection"],
                    }
                )


class JsonLines(logging.Formatter):
    """One JSON object for each line of a log."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line = {"at": at, "level": record.levelname.lower(), "message": record.getMessage()}
        line |= getattr(record, "facts", {})
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)
