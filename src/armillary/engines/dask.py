"""Rows at the workers of Dask: its scheduler, its data and its handling of failures, and none of our own.

X may be a Dask array, a Dask dataframe with a column of lists, or rows on disk (`open_rows(..., n_workers="dask")`).
The rows of a part are a future of Dask, cut where lanes end, and every message to the part is a task that has it for
its data: so tasks go where the rows lie. The desk with what lies beside them (`desk.py`) is a future of Dask too: it
goes when nobody waits for it any more, whether the fit ended, failed or lost its client. Where a worker is lost, Dask
makes the rows anew elsewhere and sends the task there; that desk says that it is new, and is told the history of the
part. Parts are sent to a worker each, by name, and are free to go anywhere once they are there: what is bound to a
worker that is gone may go elsewhere, but not to one that came when there was none (distributed 2026.8).

The client is the present one (`distributed.Client`). Where there is none, one worker within this process serves for the
length of a call; the status pages that Dask always has are then on loopback.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import cycle
from typing import Any
from uuid import uuid4

import numpy as np

from armillary.engines.contract import UNIT, Gate
from armillary.engines.dealt import Crew, DealtEngine, DealtPoints, checked_rows, rows_of_cells
from armillary.engines.desk import NOTHING, Desk
from armillary.engines.executors import Station, StationLostError, WorkersLostError
from armillary.exceptions import InputError, InputTypeError, MissingExtraError
from armillary.validation import is_vector_column

_LOOK = 2.0  # seconds between two looks at whether there is a scheduler
_ASK = 10.0  # seconds between two questions to it about a task that is waited for
_CONNECTING = 60.0  # seconds in which a client may find its scheduler again; Dask gives up after 30, or never
_IDLE = 120.0  # seconds in which no worker works at all, and what is waited for is given up
# What Dask calls tasks that get on, or that keep a thread though nobody wants them any more.
_WORKING = ("executing", "long-running", "flight", "fetch", "resumed", "cancelled")
_LOST = (
    "The scheduler of Dask must stay for the length of a fit; the client has lost it. Start another, and the same fit "
    "once more: with an armillary.persistence.Checkpoint among its callbacks it goes on."
)
_LOOPBACK = "127.0.0.1:0"  # None would be a port of every interface


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError.of("Dask rows as X", "distributed", "dask") from error
    return distributed


@contextmanager
def _present_client() -> Iterator[Any]:
    """The client that there is; else one with a worker in this process."""
    distributed = _distributed()
    try:
        found = distributed.get_client()
    except ValueError:
        found = None
    if found is not None:
        yield found
        return
    with (
        distributed.LocalCluster(
            n_workers=1,
            processes=False,
            protocol="inproc",
            dashboard_address=_LOOPBACK,
            worker_dashboard_address=_LOOPBACK,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


class DaskWorkers:
    """The workers of a client (`executors.Executor`)."""

    def __init__(self, client: Any, addresses: Sequence[str]) -> None:
        self.client, self.addresses = client, addresses
        # of each part, futures of its rows, where they lie at the workers, and the tasks that they come of
        self.rows: list[tuple[Any, Sequence[Any]]] = []

    @contextmanager
    def stations(self, n_parts: int) -> Iterator[Sequence[Station]]:
        """See `executors.Executor`."""
        company = _Company(self.client)
        stations = [
            DaskStation(self.client, self.addresses[number % len(self.addresses)], *own, company)
            for number, own in enumerate(self.rows or [(None, ())] * n_parts)
        ]
        try:
            yield stations
            for station in stations:
                station.rest()
        finally:
            for station in stations:
                station.close()
            self.rows.clear()


class DaskStation:
    """A part at a worker of Dask."""

    def __init__(
        self, client: Any, address: str, rows: Any, tasks: Sequence[Any] = (), company: _Company | None = None
    ) -> None:
        self._client, self._rows = client, rows
        self._company = company or _Company(client)
        self._asked: Any = None  # what is being answered
        self._is_closed = False
        self._desk = self._submitted(Desk, workers=[address], allow_other_workers=True)
        self._bound = [*tasks, self._desk.key]  # tasks that were sent to a worker by its name

    def ask(self, message: bytes) -> bytes:
        """The desk's answer, wherever the desk is now."""
        self._check()
        self._asked = future = self._submitted(_answer, self._desk, message, self._rows)
        try:
            answer = self._awaited(future)
            self._unbind()
        except self._losses() as error:
            self._check()
            if self._desk.cancelled():  # nothing comes of it again
                self._desk = self._submitted(Desk)
            raise StationLostError(f"a worker of Dask went away: {error}") from error
        except BaseException:
            future.cancel()  # Ctrl-C: what has not begun never will
            raise
        return bytes(answer)

    def _awaited(self, future: Any) -> Any:
        """What a task comes to; where scheduler, data or task are gone, a client would wait for it for ever."""
        watch = _Watch(self._client, future, self._company)
        while True:
            try:
                return future.result(timeout=_LOOK)
            except TimeoutError:
                self._check()
                watch.look()

    def _check(self) -> None:
        if self._is_closed:
            raise RuntimeError("These workers were closed.")
        status = self._client.status
        if status not in ("running", "connecting"):
            raise WorkersLostError(_LOST)
        # what is "lost" is made again; a client that lost its scheduler calls everything cancelled
        if status == "running" and self._rows is not None and self._rows.status == "cancelled":
            raise WorkersLostError(
                "The data behind a Dask array must stay for the length of a fit, or be something that Dask can make "
                "again; some of it is gone. Data that was scattered goes with the last future of it, and with its "
                "worker: keep the futures, or read the rows from files."
            )

    def _unbind(self) -> None:
        """Let Dask make anew what was sent to a worker wherever it likes."""
        if not self._bound:
            return
        # where the scheduler goes, or a task just went: after the next answer
        with suppress(OSError, TimeoutError, KeyError):
            known = self._client.sync(self._client.scheduler.get_task_status, keys=self._bound)
            free: dict[Any, list[str]] = {key: [] for key, state in known.items() if state is not None}
            self._client.sync(self._client.scheduler.set_restrictions, worker=free)
            self._bound = []

    def _submitted(self, function: Any, *arguments: Any, **where: Any) -> Any:
        return self._client.submit(function, *arguments, key=f"armillary-{uuid4().hex}", pure=False, **where)

    @staticmethod
    def _losses() -> tuple[type[BaseException], ...]:
        distributed = _distributed()
        # the last: how any `sync` of distributed (2026.8) ends where its loop cancels the wait, which is no Exception
        return (distributed.KilledWorker, distributed.CancelledError, UnboundLocalError)

    def rest(self) -> None:
        """Have the desk let go of everything."""
        with suppress(StationLostError, WorkersLostError):  # then there is no desk
            self.ask(NOTHING)

    def close(self) -> None:
        """No more of this desk: it goes as soon as what it is answering is answered, which nobody waits for."""
        self._is_closed = True
        if self._asked is not None and not self._asked.done() and self._client.status == "running":
            self._asked.cancel()
        self._desk.release()


class _Watch:
    """Whether a task that is waited for can still come to something; Dask keeps silent where it cannot.

    A scheduler that fails over a message of a client drops all that this client asked for, and the client, connected
    once more, does not learn of it (`stimulus_cancel` of data that tasks wait for, distributed 2026.8). A client whose
    way back to the scheduler ends with an error calls itself "connecting" for ever.
    """

    def __init__(self, client: Any, future: Any, company: _Company) -> None:
        self._client, self._future, self._company = client, future, company
        self._connected = self._asked = time.monotonic()
        self._was_unknown = False
        company.begin()

    def look(self) -> None:
        """An error where nobody knows of the task, or nobody works."""
        now = time.monotonic()
        if self._client.status != "running":
            if now - self._connected > _CONNECTING:
                raise WorkersLostError(_LOST)
            return
        self._connected = now
        if now - self._asked >= _ASK:
            self._asked = now
            with suppress(OSError, TimeoutError):  # the scheduler goes away: the next check says so
                self._look_at_the_task()
                self._company.look()

    def _look_at_the_task(self) -> None:
        key = self._future.key
        state = self._client.sync(self._client.scheduler.get_task_status, keys=[key])[key]
        is_unknown = state is None and self._future.status == "pending"
        if is_unknown and self._was_unknown:  # twice: between two messages it may be so
            raise WorkersLostError(
                "The scheduler of Dask must keep the tasks of a fit; it has dropped those of this client, as it does "
                "where data is cancelled that tasks wait for. Keep the data until the fit ends, and start the same fit "
                "once more: with an armillary.persistence.Checkpoint among its callbacks it goes on."
            )
        self._was_unknown = is_unknown


class _Company:
    """Whether any worker of a client works; looked at now and then by one of those who wait.

    Data that is freed and scattered again under one key can go after it came: its worker then looks for it at itself.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        """Somebody begins to wait."""
        with self._lock:
            self._looked = self._since = time.monotonic()  # nobody has worked since then
            self._first: dict[str, float] = {}  # when each worker was heard of then, by the clock of the scheduler

    def look(self) -> None:
        """An error where nobody has worked for long."""
        with self._lock:
            if time.monotonic() - self._looked >= _IDLE / 8:
                self._looked = time.monotonic()
                self._look_at(self._client.sync(self._client.scheduler.identity)["workers"])

    def _look_at(self, workers: dict[str, Any]) -> None:
        heard = {address: worker["last_seen"] for address, worker in workers.items()}
        if not workers or heard.keys() != self._first.keys() or any(map(_may_work, workers.values())):
            self._since, self._first = time.monotonic(), heard
        if time.monotonic() - self._since < _IDLE:
            return
        # one that holds its interpreter is not heard of, and may work
        if min(heard[address] - first for address, first in self._first.items()) < _IDLE / 2:
            return
        raise WorkersLostError(
            f"Workers of Dask must get on with a fit; for {_IDLE:g} seconds none did, and a part is waited for. Its "
            "data may have been freed and scattered again under one key (scatter it with hash=False, or keep the "
            "futures), or no worker may take it. Start the same fit once more: with an "
            "armillary.persistence.Checkpoint among its callbacks it goes on."
        )


def _may_work(worker: dict[str, Any]) -> bool:
    counts = worker["metrics"].get("task_counts", {})
    return worker["status"] != "running" or any(counts.get(state, 0) for state in _WORKING)


def _answer(desk: Desk, message: bytes, rows: Any) -> bytes:
    """At a worker: the answer of a desk."""
    return desk.answer(message, lambda: rows)


@contextmanager
def dask_workers(n_threads: int | None) -> Iterator[Crew]:
    """The workers of the present client."""
    with _present_client() as client:
        threads = client.nthreads()
        if not threads:
            raise InputError("Rows at workers of Dask must have a worker; the present client has none. Start one.")
        n_each = min(threads.values()) if n_threads is None else n_threads
        yield Crew(DaskWorkers(client, sorted(threads)), len(threads), n_each)


class DaskEngine(DealtEngine):
    """The engine of Dask arrays and dataframes; see `engines/contract.py`."""

    name = "dask"

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[int, tuple[Any, Any]] = {}  # by the number of an object: it, and its rows as an array

    def points(
        self,
        X: Any,
        who: str,
        sample_weight: Any = None,
        expected_features: int | None = None,
        gate: Gate = UNIT,
    ) -> DealtPoints:
        """Check shapes and weights; values are looked at by the workers."""
        array = self._array(X, who)
        weights = sample_weight.compute() if hasattr(sample_weight, "compute") else sample_weight
        return checked_rows(array, array.shape, array.dtype, self.name, who, weights, expected_features, gate)

    def n_columns(self, X: Any) -> int:
        """How many columns the rows have."""
        return int(self._array(X, "this model").shape[1])

    def _array(self, X: Any, who: str) -> Any:
        """X as a Dask array whose shape is known. It is found once: lengths of partitions have to be counted."""
        known = self._known.get(id(X))
        if known is not None and known[0]() is X:
            return known[1]
        array = _as_array(X, who)
        number = id(X)
        self._known[number] = weakref.ref(X, lambda _: self._known.pop(number, None)), array
        return array

    def workers(self, points: DealtPoints, n_threads: int | None) -> AbstractContextManager[Crew]:
        """The workers of the present client."""
        return dask_workers(n_threads)

    def rows_of(self, points: DealtPoints, spans: Sequence[tuple[int, int]], executor: Any) -> Sequence[None]:
        """None: the rows of each part are cut at the workers, and lie there."""
        import dask

        sizes = tuple(last - first for first, last in spans)
        blocks = points.rows.rechunk({0: sizes, 1: -1}).to_delayed().ravel().tolist()
        for whole, address in zip(blocks, cycle(executor.addresses), strict=False):
            (block,) = dask.optimize(whole)  # with the tasks that it needs alone
            found = executor.client.compute(block, workers=[address], allow_other_workers=True, optimize_graph=False)
            executor.rows.append((found, [*block.__dask_graph__()]))
        return [None] * len(spans)


def _as_array(X: Any, who: str) -> Any:
    import dask.array as da
    from dask.utils import is_dataframe_like, is_series_like

    if isinstance(X, da.Array):
        if X.ndim != 2 or not isinstance(X._meta, np.ndarray):
            raise InputTypeError(
                f"X of {who} must be a Dask array with two dimensions that is made of NumPy arrays; got {X!r}. Convert "
                "its blocks: X.map_blocks(numpy.asarray)."
            )
        return X.copy().compute_chunk_sizes() if np.isnan(X.shape[0]) else X
    if not (is_dataframe_like(X) or is_series_like(X)):
        raise InputTypeError(
            f"X of {who} must be a Dask array or a Dask dataframe with a column of lists; got {type(X).__name__}. Make "
            "one: dask.array.from_delayed(...)."
        )
    return _from_frame(X, who)


def _from_frame(frame: Any, who: str) -> Any:
    import dask
    import dask.array as da

    parts = [dask.delayed(_stacked)(part, who) for part in frame.to_delayed()]
    shapes = dask.compute(*[dask.delayed(_shape)(part) for part in parts])
    widths = sorted({shape[1] for shape in shapes if shape[0]})
    if len(widths) != 1:
        raise InputError(
            f"X of {who} must have rows of one width; got {', '.join(map(str, widths)) or 'no rows'}. Check the step "
            "that made them."
        )
    dtype = np.result_type(*[shape[2] for shape in shapes if shape[0]])
    arrays = [
        da.from_delayed(part, (shape[0], widths[0]), shape[2]).astype(dtype)
        for part, shape in zip(parts, shapes, strict=True)
        if shape[0]
    ]
    return da.concatenate(arrays)


def _shape(rows: Any) -> tuple[int, int, str]:
    return rows.shape[0], rows.shape[1], rows.dtype.str


def _stacked(part: Any, who: str) -> Any:
    """The rows of one partition: its one column of lists, or all of its columns of numbers."""
    columns = [part] if part.ndim == 1 else [part[name] for name in part.columns]
    lists = [column for column in columns if _has_lists(column)]
    if len(lists) == 1:
        return rows_of_cells(lists[0].to_numpy(), who, "A partition of X")
    if not lists and columns and all(column.dtype.kind in "fiub" for column in columns):
        return np.column_stack([column.to_numpy() for column in columns])
    came = ", ".join(f"{column.name} ({column.dtype})" for column in columns)
    raise InputTypeError(
        f"X of {who} must be a dataframe with one column of lists, or of numbers alone; got the columns {came}. Choose "
        "one: X['embedding']. Where lists became strings, read them again with "
        "dask.config.set({'dataframe.convert-string': False})."
    )


def _has_lists(column: Any) -> bool:
    if str(column.dtype).startswith(("list", "fixed_size_list", "large_list")):
        return True
    return column.dtype == object and (not len(column) or is_vector_column(column))
