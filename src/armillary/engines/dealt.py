"""Rows dealt to workers: which rows are whose part, and passes over all of them (`Partitioned`).

Parts end where lanes do (`points.lane_plan`), and lanes depend on the shape of all rows alone: so soft sums too have
the bits of rows in one piece, for any number of workers. A worker has one part; it is read and kept there. Few rows
have few lanes, and then some workers have nothing to do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from armillary._typing import Float64Array
from armillary.cores import usable_cores
from armillary.engines.chunks import ChunksEngine
from armillary.engines.contract import UNIT, Gate
from armillary.engines.cpu import Passes
from armillary.engines.executors import Answers, Executor, Journal, SideBySide, Station, Traffic
from armillary.engines.partitioned import PartedPoints, Partitioned
from armillary.engines.remote import RemotePasses
from armillary.exceptions import InputError, InputTypeError
from armillary.kernels.select import kernels_for
from armillary.points import as_points, even_ranges, lane_plan
from armillary.sources.stored import DealtRows, StoredRows
from armillary.sums import whole
from armillary.validation import as_matrix, check_sample_weight, check_shape, computing_dtype
from armillary.workers import Workers, thread_count


@dataclass(frozen=True, eq=False)
class DealtPoints(PartedPoints):
    """What is known of rows that are to be dealt."""

    rows: Any = None  # as they came
    weights: Float64Array | None = None


@dataclass(frozen=True, eq=False)
class PartOpening:
    """How a worker opens its part (`desk.Opening`)."""

    rows: StoredRows | None  # None: the rows lie at the worker
    first_row: int
    lanes: tuple[tuple[int, int], ...] | None  # None: those of rows that are all there are
    weights: Float64Array | None
    q: int
    who: str
    n_threads: int | None

    @classmethod
    def of(
        cls, lanes: Sequence[tuple[int, int]], rows: StoredRows | None, points: DealtPoints, n_threads: int | None
    ) -> PartOpening:
        """That of some lanes in a row of all points."""
        first, last = lanes[0][0], lanes[-1][1]
        weights = None if points.weights is None else points.weights[first:last]
        own = tuple((start - first, stop - first) for start, stop in lanes)
        return cls(rows, first, own, weights, points.q, points.who, n_threads)

    def open(self, stack: ExitStack, given: Callable[[], Any]) -> Passes:
        """Passes over the rows; those in memory are looked at here, those on disk by the first pass."""
        kernels = kernels_for("cpu")
        found = as_points(given() if self.rows is None else self.rows, self.who, gauge=kernels.gauge)
        self._check_number(found.n_rows)
        points = replace(
            found, weights=self.weights, first_row=self.first_row, grid=self.q, own_lanes=self.lanes, engine="workers"
        )
        return Passes(points, kernels, stack.enter_context(Workers(thread_count(self.n_threads, self.who))))

    def _check_number(self, n_rows: int) -> None:
        told = n_rows if self.lanes is None else self.lanes[-1][1]
        if n_rows != told:
            raise InputError(
                f"X of {self.who} must have the rows that it tells of; a part of it has {n_rows} where it tells of "
                f"{told}. A step that made it changed shapes without saying so: give that step its chunks, or make the "
                "array again from what it comes to."
            )


class Crew(NamedTuple):
    """Workers, how many they are, and the threads of each; None: all cores."""

    executor: Executor
    n_workers: int
    n_threads: int | None


class DealtEngine:
    """An engine of rows in parts; see `engines/contract.py`. Kinds of rows and of workers are for those after it."""

    name = "workers"
    knows_rows = False  # whether `told` tells rows from others of the same shape, or they must be looked at

    def __init__(self) -> None:
        self.traffic = Traffic()  # of the passes that were opened last

    def points(
        self,
        X: Any,
        who: str,
        sample_weight: Any = None,
        expected_features: int | None = None,
        gate: Gate = UNIT,
    ) -> DealtPoints:
        """Check shapes and weights; values are looked at by the workers."""
        raise NotImplementedError

    def workers(self, points: DealtPoints, n_threads: int | None) -> AbstractContextManager[Crew]:
        """Who works on the rows."""
        raise NotImplementedError

    def rows_of(self, points: DealtPoints, spans: Sequence[tuple[int, int]], executor: Any) -> Sequence[Any]:
        """The rows of each part that are sent with its opening; None where they lie at the worker."""
        raise NotImplementedError

    def told(self, points: DealtPoints) -> dict[str, Any]:
        """By what a fit is known to be over the same rows."""
        weights = None if points.weights is None else hashlib.sha256(points.weights.tobytes()).hexdigest()
        return {"rows": [points.n_rows, points.n_features, points.dtype.str], "weights": weights, "engine": self.name}

    @contextmanager
    def open(
        self,
        points: DealtPoints,
        n_threads: int | None,
        who: str,
        journal: Journal | None = None,
        fit: dict[str, Any] | None = None,
    ) -> Iterator[Partitioned]:
        """Passes over the points; workers let go of everything at the end. Labels that are still in use come home.

        What comes of the rows is kept in the journal of a fit that is told by `fit`, or taken from there.
        """
        thread_count(n_threads, who)
        with self.workers(points, n_threads) as crew, ExitStack() as stack:
            answers, n_parts = None, crew.n_workers
            if journal is not None:
                answers = stack.enter_context(journal.answers({**self.told(points), **(fit or {})}, n_parts))
                n_parts = answers.n_parts
            parts = dealt_lanes(points, n_parts)
            rows = self.rows_of(points, [(part[0][0], part[-1][1]) for part in parts], crew.executor)
            openings = [
                PartOpening.of(part, own, points, crew.n_threads) for part, own in zip(parts, rows, strict=True)
            ]
            with opened_parts(crew.executor, openings, points, answers) as passes:
                self.traffic = passes.traffic
                if answers is not None and not self.knows_rows and not passes.are_as_before():
                    answers.refuse("what its rows are")
                yield passes


def dealt_lanes(points: PartedPoints, n_workers: int) -> list[list[tuple[int, int]]]:
    """The lanes of each part: as many parts as workers, or as lanes where they are fewer."""
    lanes = lane_plan(points.n_rows, points.n_features)
    return [lanes[first:last] for first, last in even_ranges(len(lanes), min(len(lanes), n_workers))]


class DealtPasses(Partitioned):
    """Passes over parts at workers, and what went to them and back."""

    traffic: Traffic

    def are_as_before(self) -> bool:
        """Whether the rows are those of the answers that are known."""
        return all(self._run(lambda _, part: part.are_as_before()))


@contextmanager
def opened_parts(
    executor: Executor, openings: Sequence[PartOpening], points: PartedPoints, answers: Answers | None = None
) -> Iterator[DealtPasses]:
    """Passes over parts that are opened at the stations of an executor."""
    traffic = Traffic()
    # the stations close first: what waits for an answer then stops waiting
    with ThreadPoolExecutor(len(openings), "armillary-waiting") as pool, executor.stations(len(openings)) as stations:
        run = SideBySide(pool)

        def task(number: int, station: Station) -> RemotePasses:
            return RemotePasses.opened(station, openings[number], traffic, number, answers)

        parts = run(task, stations)
        lines = [part.line for part in parts]
        passes = DealtPasses(parts, run, points)
        passes.traffic = traffic
        try:
            yield passes
        except BaseException:
            for line in lines:
                line.abandon()
            raise
        run(lambda _, line: line.close(), lines)


def dealt_points(
    rows: Any,
    shape: tuple[int, int],
    dtype: Any,
    weights: Float64Array | None,
    engine: str,
    who: str,
    *,
    is_sparse: bool = False,
) -> DealtPoints:
    """What is known of rows of this shape and these weights."""
    q = whole.exponent(shape[0]) if weights is None else whole.weights_exponent([weights])
    total = shape[0] if weights is None else whole.rounded(whole.lifted(weights, q), q).sum()
    return DealtPoints(
        engine=engine,
        who=who,
        n_rows=shape[0],
        n_features=shape[1],
        dtype=computing_dtype(np.dtype(dtype)),
        width=float(shape[1]),
        is_sparse=is_sparse,
        has_weights=weights is not None,
        total_weight=float(total),
        q=q,
        rows=rows,
        weights=weights,
    )


def checked_rows(
    rows: Any, shape: tuple[int, int], dtype: Any, engine: str, who: str, weights: Any, expected: int | None, gate: Gate
) -> DealtPoints:
    """The gate of rows in memory elsewhere: shape and weights."""
    if gate.kind == "counts" or gate.allows_missing:
        what = "counts, which" if gate.kind == "counts" else "rows without a direction are passed over, which"
        raise InputError(
            f"X of {who} must be in memory here: {what} must be looked at before the first pass; got rows at "
            f"workers of {engine}. Give them as an array, or leave missing='raise'."
        )
    check_shape(shape, who, expected)
    if np.dtype(dtype).kind not in "fiub":
        raise InputTypeError(f"X of {who} must hold real numbers; got dtype {dtype}. Convert it to floats.")
    checked = check_sample_weight(weights, shape[0], who, most=gate.most_weight)
    return dealt_points(rows, shape, dtype, checked, engine, who)


def rows_of_cells(cells: Any, who: str, what: str) -> Any:
    """Rows of a column of lists, in the type that these have where that is a float; empty cells are rows of NaN."""
    if not len(cells):
        return np.empty((0, 0))
    rows = as_matrix(cells, who, what=what)
    dtype = np.result_type(*{np.asarray(cell).dtype for cell in cells if np.ndim(cell)})
    return rows.astype(dtype) if dtype.kind == "f" else rows


class StoredDealtEngine(DealtEngine):
    """The engine of rows on disk that are dealt to workers: `open_rows(..., n_workers=2)`."""

    knows_rows = True

    def points(
        self,
        X: Any,
        who: str,
        sample_weight: Any = None,
        expected_features: int | None = None,
        gate: Gate = UNIT,
    ) -> DealtPoints:
        """Check shapes and weights; values are looked at when they are read."""
        if not isinstance(X, DealtRows):
            raise InputTypeError(
                f"X of {who} must be rows on disk that are dealt to workers for device='workers'; got "
                f"{type(X).__name__}. Open them so: armillary.open_rows(path, n_workers=2)."
            )
        found = ChunksEngine().points(X, who, sample_weight, expected_features, gate)
        shape = found.n_rows, found.n_features
        dealt = dealt_points(found.matrix, shape, X.dtype, found.weights, self.name, who, is_sparse=X.is_sparse)
        return replace(dealt, is_present=found.is_present)

    def workers(self, points: DealtPoints, n_threads: int | None) -> AbstractContextManager[Crew]:
        """The workers that the rows were opened for."""
        n_workers = points.rows.n_workers
        if n_workers == "dask":
            from armillary.engines.dask import dask_workers

            return dask_workers(n_threads)
        if n_workers == "ray":
            from armillary.engines.ray import ray_workers

            return ray_workers(n_threads)
        from armillary.engines.processes import Processes

        n_each = max(1, usable_cores() // n_workers) if n_threads is None else n_threads
        return nullcontext(Crew(points.rows.held("processes", Processes), n_workers, n_each))

    def rows_of(self, points: DealtPoints, spans: Sequence[tuple[int, int]], executor: Any) -> Sequence[StoredRows]:
        """Where the rows of each part lie."""
        return [points.rows.between(*span) for span in spans]

    def told(self, points: DealtPoints) -> dict[str, Any]:
        """By what a fit is known to be over the same rows: files that have not changed."""
        files = [[shard.path, shard.n_rows, shard.stamp.size, shard.stamp.changed] for shard in points.rows.shards]
        return {**super().told(points), "files": files}

    @contextmanager
    def open(
        self,
        points: DealtPoints,
        n_threads: int | None,
        who: str,
        journal: Journal | None = None,
        fit: dict[str, Any] | None = None,
    ) -> Iterator[Partitioned]:
        """Passes over the points; files are looked at once more at the end."""
        with super().open(points, n_threads, who, journal, fit) as passes:
            yield passes
        points.rows.check_unchanged()
