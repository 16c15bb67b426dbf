"""Rows at the workers of Ray: a part is an actor.

X may be a Ray dataset with a column of vectors, or rows on disk (`open_rows(..., n_workers="ray")`). Where Ray was not
started it is, on loopback and without its dashboard. An actor that is lost is made anew, and told the history of its
part; the blocks of a dataset are Ray's own to bring back.

Loopback has to be asked for in a roundabout way: `_node_ip_address="127.0.0.1"` alone is replaced by the machine's own
address, and then most of Ray listens on every interface (2.60; `psutil.net_connections` shows it). It stays what it is
where Ray is told that there will be no cluster, by a variable that it reads once, when it is imported.
"""

from __future__ import annotations

import ipaddress
import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from armillary.engines.contract import UNIT, Gate
from armillary.engines.dealt import Crew, DealtEngine, DealtPoints, checked_rows, rows_of_cells
from armillary.engines.desk import Desk
from armillary.engines.executors import Station, StationLostError
from armillary.exceptions import InputError, InputTypeError, MissingExtraError

# Whether a machine may be part of a cluster; Ray names it after the systems where that is not the rule.
_MAY_CLUSTER = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


def _ray() -> Any:
    """Ray, started where it was not: on loopback, or not at all."""
    ray = _imported()
    if not ray.is_initialized():
        ray.init(_node_ip_address="127.0.0.1", include_dashboard=False, log_to_driver=False, configure_logging=False)
        place = ray.util.get_node_ip_address()
        if not ipaddress.ip_address(place).is_loopback:
            ray.shutdown()
            raise InputError(
                "Ray must listen on loopback alone unless it is told otherwise, which this process cannot bring about "
                f"since it imported Ray before; got {place}. Call ray.init() before, and it listens where Ray does; or "
                f"set {_MAY_CLUSTER}=0 before Python starts."
            )
    return ray


def _imported() -> Any:
    told = os.environ.get(_MAY_CLUSTER)
    os.environ.setdefault(_MAY_CLUSTER, "0")
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError.of("Ray rows as X", "ray", "ray") from error
    finally:
        if told is None:
            del os.environ[_MAY_CLUSTER]
    return ray


class Clerk:
    """An actor with a desk."""

    def __init__(self) -> None:
        self._desk = Desk()

    def answer(self, message: bytes, *rows: Any) -> bytes:
        """See `Desk.answer`; rows are the blocks of the part."""
        return self._desk.answer(message, lambda: _joined(rows))


class RayWorkers:
    """Actors, one for each part (`executors.Executor`)."""

    def __init__(self, n_threads: int) -> None:
        self._n_threads = n_threads
        self.rows: list[Sequence[Any]] = []  # references to the blocks of each part, where they are Ray's

    @contextmanager
    def stations(self, n_parts: int) -> Iterator[Sequence[Station]]:
        """See `executors.Executor`."""
        stations = [RayStation(self._n_threads, rows) for rows in self.rows or [()] * n_parts]
        try:
            yield stations
        finally:
            for station in stations:
                station.close()
            self.rows.clear()


class RayStation:
    """A part at an actor."""

    def __init__(self, n_threads: int, rows: Sequence[Any]) -> None:
        self._n_threads, self._rows = n_threads, rows
        self.actor: Any = None
        self._is_closed = False

    def ask(self, message: bytes) -> bytes:
        """The desk's answer."""
        ray = _ray()
        if self._is_closed:  # another part failed, or Ctrl-C: no actor is made in the place of one that was ended
            raise RuntimeError("These workers were closed.")
        if self.actor is None:
            self.actor = ray.remote(Clerk).options(num_cpus=self._n_threads, max_restarts=0).remote()
        try:
            return bytes(ray.get(self.actor.answer.remote(message, *self._rows)))
        except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError) as error:
            self._end()
            raise StationLostError(f"an actor of Ray went away: {error}") from error

    def close(self) -> None:
        """End the actor, whatever it does; there is no other."""
        self._is_closed = True
        self._end()

    def _end(self) -> None:
        actor, self.actor = self.actor, None
        if actor is not None:
            _ray().kill(actor)


def ray_workers(n_threads: int | None) -> AbstractContextManager[Crew]:
    """Actors on all cores of Ray."""
    n_each = 1 if n_threads is None else n_threads
    n_cores = int(_ray().cluster_resources().get("CPU", 1))
    return nullcontext(Crew(RayWorkers(n_each), max(1, n_cores // n_each), n_each))


class RayEngine(DealtEngine):
    """The engine of Ray datasets; see `engines/contract.py`."""

    name = "ray"

    def __init__(self) -> None:
        super().__init__()
        self._known: weakref.WeakKeyDictionary[Any, tuple[Any, tuple[int, int], Any]] = weakref.WeakKeyDictionary()

    def points(
        self,
        X: Any,
        who: str,
        sample_weight: Any = None,
        expected_features: int | None = None,
        gate: Gate = UNIT,
    ) -> DealtPoints:
        """Check shapes and weights; values are looked at by the workers."""
        rows, shape, dtype = self._rows(X, who)
        return checked_rows(rows, shape, dtype, self.name, who, sample_weight, expected_features, gate)

    def n_columns(self, X: Any) -> int:
        """How many columns the rows have."""
        return self._rows(X, "this model")[1][1]

    def _rows(self, X: Any, who: str) -> tuple[Any, tuple[int, int], Any]:
        """The dataset of one column, its shape and dtype. Found once: rows have to be counted."""
        if X not in self._known:
            self._known[X] = _checked_dataset(X, who)
        return self._known[X]

    def workers(self, points: DealtPoints, n_threads: int | None) -> AbstractContextManager[Crew]:
        """Actors on the cores that Ray has."""
        return ray_workers(n_threads)

    def rows_of(self, points: DealtPoints, spans: Sequence[tuple[int, int]], executor: Any) -> Sequence[None]:
        """None: the rows of each part are cut by Ray, and lie in its store."""
        dataset, column = points.rows
        parts = dataset.split_at_indices([last for _, last in spans[:-1]]) if len(spans) > 1 else [dataset]
        executor.rows = [part.to_numpy_refs(column=column) for part in parts]
        return [None] * len(spans)


def _checked_dataset(X: Any, who: str) -> tuple[Any, tuple[int, int], Any]:
    _ray()
    if not hasattr(X, "split_at_indices") or not hasattr(X, "to_numpy_refs"):
        raise InputTypeError(
            f"X of {who} must be a Ray dataset with a column of vectors; got {type(X).__name__}. Make one: "
            "ray.data.from_numpy(array)."
        )
    dataset = X.materialize()
    if not dataset.count():
        raise InputError(f"X of {who} must have at least one row; the Ray dataset has none. Check what made it.")
    first = dataset.take_batch(1)
    vectors = [name for name, values in first.items() if _is_vector(values)]
    if len(vectors) != 1:
        raise InputError(
            f"X of {who} must have one column of vectors; got columns {sorted(first)}, of which {len(vectors)} hold "
            "vectors. Choose one: X.select_columns(['embedding'])."
        )
    row = np.asarray(first[vectors[0]][0])
    return (dataset, vectors[0]), (int(dataset.count()), len(row)), row.dtype


def _is_vector(values: Any) -> bool:
    return len(values) > 0 and np.ndim(values[0]) == 1 and np.asarray(values[0]).dtype.kind in "fiub"


def _joined(blocks: Sequence[Any]) -> Any:
    """Blocks of one part as one array."""
    if not blocks:
        return None
    filled = [block for block in blocks if len(block)]
    if all(block.ndim == 2 for block in filled) and len({block.shape[1:] for block in filled}) == 1:
        return np.concatenate(filled)
    # lists of several lengths, or cells with nothing in them: as a column of objects
    cells = np.fromiter((cell for block in filled for cell in block), dtype=object)
    return rows_of_cells(cells, "a fit", "A part of X")
