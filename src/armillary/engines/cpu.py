"""Rows in the memory of this machine: passes that cut, score, choose and accumulate, with threads.

Dense rows go lane by lane (see points.lane_plan); each lane has partial sums of its own, added in lane order. From one
lane of narrow rows to the next the threads go in compiled code. CSR rows are labelled lane by lane too, but a K x D
partial sum per lane would cost more than the rows: there each cluster is summed by one thread. Sums of labelled rows
are whole sums (sums/whole.py): their bits depend on the labels alone, and the rows that moved are enough to bring
those of other labels up to date. Sums of shares have the lanes' order, so no bit depends on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.engines.contract import (
    UNIT,
    Algorithm,
    Between,
    Counted,
    Directed,
    FewRows,
    Folder,
    Gate,
    Here,
    Labelled,
    Numbered,
    Numbers,
    Outcome,
    Placed,
    RowFunction,
    Rule,
    Scaled,
    Shuffled,
    Span,
    What,
    Which,
)
from armillary.engines.cpu_column import CpuColumn, Left, distances, mass_grid, own_and_nearest
from armillary.engines.cpu_features import CpuFeatures
from armillary.engines.cpu_labels import CpuGroups, CpuLabels, are_bounded
from armillary.engines.cpu_search import TOGETHER, Groups, is_searched, is_worth_it
from armillary.engines.cpu_sets import CpuHalves, CpuPartition
from armillary.exceptions import InputError
from armillary.kernels.rows.contract import AngleBounds, Kernels
from armillary.kernels.select import kernels_for
from armillary.points import (
    NARROW,
    Block,
    Points,
    SparseBlock,
    as_count_points,
    as_points,
    as_present_points,
    cut,
    even_ranges,
    everywhere,
    no_points,
)
from armillary.rules import AffineRule, Anchors
from armillary.sums import whole
from armillary.sums.directional import DirectionalStatistics
from armillary.workers import Workers, thread_count

Labels = npt.NDArray[np.int32]
# An engine gets back the labels and columns that it gave out: `CpuLabels`, `CpuColumn`.
OwnLabels: TypeAlias = Any
OwnColumn: TypeAlias = Any
# The angle bounds of a slice of rows.
Bounds = Callable[[slice], AngleBounds]
T = TypeVar("T")

# Rows per BLAS product: 384 to 1,536 measured alike, and no slower than one product of all rows.
_BLOCK_ROWS = 1024
# Values of a block of rows that have bounds: most are passed over, so blocks are larger, but stay in the cache.
_BOUNDED_VALUES = 1 << 20
# Rows worth a thread's while.
_FEWEST_ROWS = 1024
# Rows whose scores stand in a table together where a function of them is wanted. With a fourth of them threads wait for
# each other to begin the next: k-means++ on 300,000 x 3 took 1.7 times as long on two cores.
_TABLE_ROWS = 16384
# Scores that stand in one table, 32 MiB of float64.
_TABLE_VALUES = 1 << 22
# Rows gathered at a time.
_GATHERED_ROWS = 1 << 16
# Values of rows that moved which are gathered at a time.
_MOVED_VALUES = 1 << 18
# Numbers of sums beyond which lanes have none of their own: 256 MiB.
_LARGE_SUMS = 1 << 25
# Clusters up to which they are dealt by their sizes.
_MOST_DEALT = 1 << 16
# Responsibilities of sparse rows held at a time: 4 MB.
_SHARES_AT_ONCE = 1 << 19


@dataclass(frozen=True, eq=False)
class Moves:
    """What an assignment changed."""

    n_changed: int
    changed: npt.NDArray[np.int64]  # (K,) rows that left or entered each cluster


@dataclass(frozen=True, eq=False)
class LaneSums:
    """Soft sums and evidence of the lanes of some rows, which are added in order to those of the rows before them."""

    lanes: list[Outcome]
    shape: tuple[int, int]

    def onto(self, outcome: Outcome | None) -> Outcome:
        """The outcome over the rows before, None where there are none, and then over these."""
        statistics, evidence = DirectionalStatistics.zero(*self.shape), 0.0
        if outcome is not None:
            _add_into(statistics, outcome.sums)
            evidence = outcome.evidence
        for lane in self.lanes:
            _add_into(statistics, lane.sums)
            evidence += lane.evidence
        return Outcome(statistics, evidence)


class Passes:
    """Passes over one set of points with one device's kernels."""

    def __init__(self, points: Points, kernels: Kernels, workers: Workers, crew: Any = None) -> None:
        self.points = points
        self.kernels = kernels
        self._workers = workers
        self._crew = crew  # helpers of compiled passes, where the kernels have any
        self._lent: DirectionalStatistics | None = None
        self._pieces: dict[tuple[int, int], Points] = {}
        self.is_narrow = not points.is_sparse and points.n_features <= NARROW
        self._lanes = points.short_lanes if self.is_narrow else points.lanes  # of labels and their sums

    # when first asked for: labels alone need neither, and one row takes 0.1 ms in all
    @cached_property
    def q(self) -> int:
        """Sums over labelled rows are multiples of 2^-q."""
        return self.points.q

    @cached_property
    def rounder(self) -> float:
        """What rounds to such multiples."""
        return whole.rounder(self.q)

    @property
    def host(self) -> Kernels:
        """What the host does with a few rows."""
        return self.kernels

    @property
    def n_threads(self) -> int:
        """How many threads."""
        return self._workers.n_threads

    def run(self, task: Callable[[int], T], n_tasks: int, fold: Callable[[T], object] | None = None) -> None:
        """Call `task(0) ... task(n_tasks - 1)` side by side, and `fold` on their results in that order."""
        self._workers.run(task, n_tasks, fold)

    def over_points(self, points: Points) -> Self:
        """Passes over other points with the same threads."""
        return type(self)(points, self.kernels, self._workers, self._crew)

    def _helpers(self, n_pieces: int) -> tuple[Any, ...]:
        """Who takes part in a compiled pass over so many pieces, as an argument of kernels that take helpers."""
        n_wanted = min(self._workers.n_threads, n_pieces) - 1
        if self._crew is None or n_wanted < 1:
            return ()
        return ((self._crew.box, self._crew.helpers(n_wanted)),)

    def over(self, which: Which) -> Self:
        """Passes over some of the rows, as rows of their own; these themselves where that is all rows as they are."""
        points = self._chosen(which)
        return self if points is self.points else self.over_points(points)

    def _chosen(self, which: Which) -> Points:
        points = self.points
        match which:
            case Counted():
                return points.counted()
            case Shuffled(generator):
                return points.shuffled(generator)
            case Numbered(numbers):
                return points.take(numbers)
            case Between(first, last):
                return points.between(first, last)
            case Placed(first_row, q):
                return points.placed(first_row, q)
            case Labelled(labels, label):
                return points.take(np.flatnonzero(_values(labels) == label))
            case Scaled(column):
                factors = cast(CpuColumn, column).values
                weights = factors if points.weights is None else points.weights * factors
                return replace(points, weights=weights.astype(np.float64, copy=False), grid=None)
            case Directed():
                return points.as_directions()

    # ------------------------------------------------------------------------------------- beside the rows

    def labels(
        self, algorithm: Algorithm = "lloyd", n_clusters: int | None = None, into: Labels | None = None
    ) -> CpuLabels:
        """Labels, all -1."""
        values = np.empty(self.points.n_rows, dtype=np.int32) if into is None else into
        values.fill(-1)
        return CpuLabels(self, values, is_bounded=are_bounded(self, algorithm, n_clusters))

    def labels_from(self, values: npt.NDArray[np.integer[Any]]) -> CpuLabels:
        """Labels that a user gave (n,)."""
        return CpuLabels(self, np.asarray(values).astype(np.int32))

    def random_labels(self, n_clusters: int, generator: np.random.Generator) -> CpuLabels:
        """A label from 0 to K - 1 for each row, by chance."""
        return CpuLabels(self, generator.integers(n_clusters, size=self.points.n_rows, dtype=np.int32))

    def column(self, fill: float, *, is_exact: bool = False) -> CpuColumn:
        """One number beside each row."""
        dtype = np.float64 if is_exact else self.points.dtype
        return self._beside(np.full(self.points.n_rows, fill, dtype=dtype))

    def own(self, rule: AffineRule, labels: OwnLabels) -> CpuColumn:
        """The float64 score of each row with its own label."""
        return self._beside(self.own_scores(rule, labels.values))

    def inverse_lengths(self) -> CpuColumn:
        """1 / |x| of each row, to float64 precision."""
        inverse = np.empty(self.points.n_rows)

        def take(rows: Block, part: slice) -> None:
            np.divide(1.0, np.sqrt(self._squares(rows)), out=inverse[part])

        self.each_block(take)
        return self._beside(inverse)

    def _squares(self, rows: Block) -> Float64Array:
        """Squared lengths of rows (m,), by the norm of the gate."""
        gauge = self.kernels.gauge
        if isinstance(rows, SparseBlock):
            start, stop = rows.indptr[0], rows.indptr[-1]
            return gauge.csr_squares(rows.data[start:stop], rows.indptr - start)
        return gauge.squares(np.ascontiguousarray(rows))

    def _beside(self, values: FloatArray) -> CpuColumn:
        return CpuColumn(values, self.points.weights, self.q)

    def lower(self, column: OwnColumn, rule: AffineRule, *, is_exact: bool = False) -> None:
        """Lower to 1 - the best score of the rule, where that is less."""
        values = column.values
        if is_exact:
            best = np.zeros(self.points.n_rows, dtype=np.int32)
            if len(rule.offsets) > 1:
                best.fill(-1)
                self.assign(rule, best)
            scores = self.own_scores(rule, best)
            np.minimum(values, distances(scores), out=values)
            return

        def take(scores: FloatArray, part: slice) -> None:
            np.minimum(values[part], distances(scores)[:, 0], out=values[part])

        self.map_scores(rule, take, by_row=True)

    def left(self, column: OwnColumn, rule: AffineRule) -> Float64Array:
        """The weighted sum that would remain if each cluster of the rule (K,) were used to `lower` by itself."""
        return self.fold(rule, Left(mass_grid(self.q, column.top())), columns=(column,))

    def groups(self, labels: OwnLabels, n_clusters: int) -> CpuGroups:
        """Rows by their label."""
        return CpuGroups(labels, n_clusters)

    def lowest(self, groups: Any, rule: AffineRule, clusters: Iterable[int]) -> float:
        """The lowest float64 score that a row of some clusters has with a rule of one cluster; inf for no rows."""
        prepared, lowest = self.kernels.prepare(rule), math.inf
        for cluster in clusters:
            rows = groups.members[cluster]
            for start in range(0, len(rows), _GATHERED_ROWS):
                numbers = rows[start : start + _GATHERED_ROWS]
                scores = np.empty((len(numbers), 1))
                self.kernels.exact_scores(self.points.gather(numbers), prepared, scores)
                lowest = min(lowest, float(scores.min()))
        return lowest

    # ------------------------------------------------------------------------------------------ the passes

    def label(self, rule: AffineRule, labels: OwnLabels, *, span: Span = None, sums: bool = True) -> Outcome:
        """Write the best cluster of each row of the span over its label, or refuse the row."""
        if not sums:
            self.assign(rule, labels.values, rows=span)
            labels.note(None)
            return Outcome(None, n_refused=self._count_refused(rule, labels, span, None))
        if span is None:
            n_moved, statistics = labels.sweep(self, rule)
            return Outcome(statistics, 0.0, n_moved, self._count_refused(rule, labels, span, statistics))
        start, stop = span
        if stop < self.points.n_rows:
            self.assign(rule, labels.values, rows=span)
            return Outcome(self.sum(labels, len(rule.offsets)), n_refused=labels.n_refused())
        n_moved, statistics = self.assign_and_sum(rule, labels.values, n_kept=start)
        labels.note(statistics)
        return Outcome(statistics, 0.0, n_moved, self._count_refused(rule, labels, span, statistics))

    def _count_refused(
        self, rule: AffineRule, labels: OwnLabels, span: Span, statistics: DirectionalStatistics | None
    ) -> int:
        """How many rows were refused: what the sums of all rows lack, where that tells."""
        if rule.floor == -math.inf and rule.is_rival is None:
            return 0
        if statistics is not None and self.points.weights is None:
            return self.points.n_rows - int(statistics.counts.sum())
        values = labels.values if span is None else labels.values[slice(*span)]
        return int(np.count_nonzero(values < 0))

    def name(
        self, rule: AffineRule, names: npt.NDArray[np.int64], over: OwnLabels | None = None
    ) -> npt.NDArray[np.int64]:
        """The name of the best cluster of each row, for the user."""
        # passes over wide rows try the label that a row has first, so it must be one of these clusters
        labels = over.values if over is not None and self._is_flat else np.full(self.points.n_rows, -1, dtype=np.int32)
        named = np.empty(self.points.n_rows, dtype=np.int64)
        if self._is_flat:
            self._assign_lanes(rule, labels, self.points.short_lane_table, names=(names, named))
        else:
            self.assign(rule, labels)
            np.take(np.append(names, -1), np.maximum(labels, -1), out=named)
        return everywhere(named, self.points.is_present)

    def share(self, rule: AffineRule, *, is_lent: bool = False) -> Outcome:
        """Sums with every row shared by responsibility, and the evidence."""
        return Outcome(*self.soft_sums(rule, is_lent=is_lent))

    def shared_lanes(self, rule: AffineRule) -> LaneSums:
        """What `share` adds up, lane by lane, for rows that are a part of more; sparse rows are one lane."""
        if self.points.is_sparse:
            return LaneSums([self.share(rule)], rule.shape)
        lanes: list[Outcome] = []
        self._share_lanes(rule, lambda statistics, evidence: lanes.append(Outcome(statistics, evidence)))
        return LaneSums(lanes, rule.shape)

    def anchors(self, labels: OwnLabels, key: tuple[int, int], n_clusters: int) -> Anchors:
        """The row of each cluster with the lowest priority."""
        found = Anchors(key, np.full(n_clusters, np.inf), np.full(n_clusters, -1, dtype=np.int64))
        values, first_row = labels.values, self.points.first_row
        parts = even_ranges(len(values), max(1, min(self.n_threads, len(values) // _TABLE_ROWS)))

        def find(number: int) -> Anchors:
            start, stop = parts[number]
            own = Anchors(key, np.full(n_clusters, np.inf), np.full(n_clusters, -1, dtype=np.int64))
            self.kernels.find_anchors(values[start:stop], first_row + start, own)
            return own

        def fold(own: Anchors) -> None:
            # rows come in order, so a tie stays with the one before
            is_lower = own.priorities < found.priorities
            np.copyto(found.priorities, own.priorities, where=is_lower)
            np.copyto(found.rows, own.rows, where=is_lower)

        self._workers.run(find, len(parts), fold)
        return found

    def draw(self, rule: Rule, labels: OwnLabels, key: tuple[int, int], anchors: Anchors | None = None) -> None:
        """Write one draw per row over its label, among the clusters that its priority allows; anchors stay."""
        prepared = self.kernels.prepare(rule)
        stays = Anchors.none(len(rule.offsets)) if anchors is None else anchors
        first, values = self.points.first_row, labels.values

        def task(rows: Block, part: slice) -> None:
            self.kernels.draw_anchored(rows, prepared, stays, key, first + part.start, values[part])

        self.each_block(task)
        labels.note(None)

    def sum(
        self, labels: OwnLabels | None, n_clusters: int, within: tuple[int, int] | None = None
    ) -> DirectionalStatistics:
        """Statistics of the labelled rows; None: all rows as cluster 0. `within`: of the clusters from..to alone."""
        if labels is None:
            return self.sums(np.zeros(self.points.n_rows, dtype=np.int32), n_clusters)
        if within is None or within == (0, n_clusters):
            known: DirectionalStatistics | None = labels.known(self.points, n_clusters)
            if known is None:
                known = self.sums(labels.values, n_clusters)
                labels.note(known, self.points)
            return known
        first, last = within
        n_wanted, values = last - first, labels.values
        # the rows of all other clusters go to one more, which is not summed
        inside = np.where((values >= first) & (values < last), values - first, n_wanted).astype(np.int32)
        return self.sums(inside, n_wanted + 1, np.arange(n_wanted + 1) < n_wanted).select(np.arange(n_wanted))

    def move(self, labels: OwnLabels, numbers: Numbers, values: npt.ArrayLike) -> None:
        """Give a few rows their labels; sums that are known stay so."""
        labels.move(self, numbers, np.asarray(values, dtype=np.int32))

    def weigh(self, labels: OwnLabels, n_clusters: int) -> Float64Array:
        """The sum of the weights of each cluster's rows (K,)."""
        values = np.maximum(labels.values, -1) + 1
        return np.bincount(values, self.points.weights, minlength=n_clusters + 1)[1:].astype(np.float64, copy=False)

    def compare(self, rule: AffineRule, labels: OwnLabels, first: int, own: OwnColumn, nearest: OwnColumn) -> None:
        """Write scores with own clusters over `own`, and raise `nearest` to the largest of the others."""

        def take(scores: FloatArray, part: slice) -> None:
            own_and_nearest(scores, labels.values[part] - first, own.values[part], nearest.values[part])

        self.map_scores(rule, take, np.dtype(np.float64))

    def fold(
        self,
        rule: AffineRule | None,
        folder: Folder[Any, T],
        labels: OwnLabels | None = None,
        columns: Sequence[OwnColumn] = (),
    ) -> T:
        """A summary of the scores of all rows, with what lies beside them; without a rule, of that alone."""
        dtype = np.dtype(np.float64) if folder.is_exact else self.points.dtype

        def task(scores: FloatArray, part: slice) -> Any:
            return folder.part(scores, self._here(part, labels, columns))

        by_row = getattr(folder, "is_by_row", False)
        return folder.join(self.map_scores(rule, task, dtype, by_row=by_row))

    def values(
        self,
        rule: Rule | None,
        what: What | RowFunction,
        labels: OwnLabels | None = None,
        columns: Sequence[OwnColumn] = (),
    ) -> npt.NDArray[Any]:
        """Something of each row for the user, (n,) or (n, K)."""
        if what == "scores":
            return self.scores(cast(AffineRule, rule))
        if what == "shares":
            return self.responsibilities(cast(AffineRule, rule))[0]
        if what == "evidence":
            return self.log_evidence(cast(AffineRule, rule))

        def task(scores: Any, part: slice) -> npt.NDArray[Any]:
            return what.of(scores, self._here(part, labels, columns))

        is_exact = getattr(what, "is_exact", True)
        dtype = np.dtype(np.float64) if is_exact else self.points.dtype
        parts = self.map_scores(rule, task, dtype, _BLOCK_ROWS, is_lent=not is_exact)
        return np.concatenate(parts) if len(parts) != 1 else parts[0]

    def mean(self, values: npt.NDArray[Any]) -> float:
        """The mean of something of each row (n,), weighted as the rows are."""
        return float(np.average(values, weights=self.points.weights))

    def _here(self, part: slice, labels: OwnLabels | None, columns: Sequence[OwnColumn]) -> Here:
        return Here(
            self.points.first_row + part.start,
            self._weights(part),
            None if labels is None else labels.values[part],
            tuple(column.values[part] for column in columns),
            lambda: self.points.block(part.start, part.stop),
        )

    # -------------------------------------------------------------------------------------------- few rows

    def rows(self, numbers: range | Numbers) -> FewRows:
        """A few rows on the host."""
        points = self.points
        if isinstance(numbers, range):
            start, stop = numbers.start, numbers.stop
            return FewRows(np.arange(start, stop), points.block(start, stop), points.block_weights(start, stop))
        weights = None if points.weights is None else points.weights[numbers]
        return FewRows(numbers, points.gather(numbers), weights)

    def unit_rows(self, numbers: npt.ArrayLike) -> Float64Array:
        """A few rows (m, D), dense and of unit length in float64."""
        return self.points.rows(numbers)

    def weights_at(self, numbers: Numbers) -> Float64Array | None:
        """The weights of a few rows (m,)."""
        return None if self.points.weights is None else self.points.weights[numbers]

    def choose(self, n_rows: int, generator: np.random.Generator) -> Numbers:
        """Distinct rows, each drawn with the probability of its weight."""
        return chosen_rows(self.points.n_rows, self.points.weights, n_rows, generator)

    def partition(self, labels: OwnLabels, n_clusters: int | None = None) -> CpuPartition:
        """All rows by their labels, which have no gaps; rows that are a part are told how many clusters there are."""
        return CpuPartition(self, labels, n_clusters)

    def top_label(self, labels: OwnLabels) -> int:
        """The largest label."""
        return int(labels.values.max(initial=-1))

    def halves(self, is_left: npt.NDArray[np.bool_] | None = None) -> CpuHalves:
        """A side beside each row: as given (n,), or all right."""
        return CpuHalves(np.zeros(self.points.n_rows, dtype=np.bool_) if is_left is None else is_left.copy())

    # ---------------------------------------------------------------------------------------------- slices

    def each(self, spans: Sequence[tuple[int, int]], task: Callable[[int, Any], T]) -> list[T]:
        """`task(number, passes)` over the rows of each span: small spans side by side, large ones in turn."""
        n_threads = self._workers.n_threads
        points = [self._piece(*span) for span in spans]
        # threads within a span wait for its last lane, and small spans have only one
        if n_threads == 1 or len(spans) < 2 * n_threads:
            return [task(number, self.over_points(own)) for number, own in enumerate(points)]
        alone = Workers(1)
        results: list[T] = []
        self._workers.run(
            lambda number: task(number, type(self)(points[number], self.kernels, alone)), len(spans), results.append
        )
        return results

    def _piece(self, first: int, last: int) -> Points:
        """The rows from..to, the same points every time: they know their lanes."""
        known = self._pieces.get((first, last))
        if known is None:
            known = self._pieces[first, last] = self.points.between(first, last)
        return known

    def by_feature(self, edges: npt.NDArray[np.int64]) -> CpuFeatures | None:
        """Sparse rows in slices, by feature."""
        return CpuFeatures(self, edges) if self.points.is_sparse else None

    # ------------------------------------------------------------------------------------------ arg max

    def assign(self, rule: AffineRule, labels: Labels, rows: tuple[int, int] | None = None) -> None:
        """Write the best cluster of each row, or of the rows from..to `rows`, over `labels` (n,)."""
        lanes = self._lanes if rows is None else self._even_lanes(*rows)
        if self._is_flat:
            self._assign_lanes(rule, labels, np.array(lanes, dtype=np.int64))
            return
        if self._search(rule, labels, rows or (0, self.points.n_rows)):
            return
        if self._is_whole:
            first, last = rows or (0, self.points.n_rows)
            self._assign_pieces(rule, labels[first:last], self.points.block(first, last))
            return
        prepared = self.kernels.prepare(rule)

        def task(lane: int) -> None:
            for block, part in self._blocks_of(*lanes[lane]):
                self.kernels.assign_best(block, prepared, labels[part], None)

        self._workers.run(task, len(lanes))

    def assign_and_sum(
        self, rule: AffineRule, labels: Labels, *, n_kept: int = 0, known: DirectionalStatistics | None = None
    ) -> tuple[int, DirectionalStatistics]:
        """`assign`, then `sums`, reading dense rows only once. Also returns how many rows moved.

        The first `n_kept` rows keep their labels, which must not be negative. Where the sums by the labels as they come
        are `known`, only rows that move are added and taken away.
        """
        if self._is_flat:
            return self._assign_and_sum_lanes(rule, labels, n_kept, known)
        if n_kept > 0:
            before = labels[n_kept:].copy()
            self.assign(rule, labels, rows=(n_kept, self.points.n_rows))
            moved = (labels[n_kept:] >= 0) & (labels[n_kept:] != before)
            return int(np.count_nonzero(moved)), self.sums(labels, len(rule.offsets))
        if known is not None:
            return self._sweep_moved(rule, labels, None, known)
        if self.points.is_sparse or is_searched(rule):
            return self._sweep(rule, labels), self.sums(labels, len(rule.offsets))
        total = DirectionalStatistics.zero(*rule.shape, self.q)
        return self._sweep(rule, labels, into=total), total

    def _search(self, rule: AffineRule, labels: Labels, span: tuple[int, int]) -> bool:
        """Find the best of very many directions in two levels; False where that is not done, or does not pay."""
        if not is_searched(rule) or self.points.is_sparse or self.is_narrow:
            return False
        first, last = span
        groups = Groups(rule, self.kernels)

        def task(number: int) -> float:
            start = first + number * TOGETHER
            part = slice(start, min(start + TOGETHER, last))
            with self.points.at_hand(part.start, part.stop) as rows:
                return groups.assign(cast(FloatArray, rows.block(part.start, part.stop)), labels[part])

        n_tasks = -(-(last - first) // TOGETHER)
        if not is_worth_it(task(0)):
            return False
        self._workers.run(lambda number: task(number + 1), n_tasks - 1)
        return True

    def _assign_and_sum_lanes(
        self, rule: AffineRule, labels: Labels, n_kept: int, known: DirectionalStatistics | None = None
    ) -> tuple[int, DirectionalStatistics]:
        lanes = self.points.short_lane_table
        sums = np.zeros((len(lanes), len(rule.offsets), self.points.n_features + 1))
        n_changed = self._assign_lanes(rule, labels, lanes, n_kept, sums, is_change=known is not None)
        total = np.add.reduce(sums, axis=0)
        if known is not None:
            total[:, -1] += known.counts
            total[:, :-1] += known.resultants
        return n_changed, DirectionalStatistics(total[:, -1].copy(), total[:, :-1].copy(), self.q)

    def _assign_lanes(
        self,
        rule: AffineRule,
        labels: Labels,
        lanes: npt.NDArray[np.int64],
        n_kept: int = 0,
        sums: Float64Array | None = None,
        names: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None,
        *,
        is_change: bool = False,
    ) -> int:
        """Assign narrow rows, and add them to the `sums` (L, K, D + 1) of their lanes; return how many moved.

        With `is_change` the sums get only what rows that move change. One compiled call, which helpers join: Python
        between two lanes, or to wake a thread, would take longer than a lane.
        """
        weights, rounder = (None, 0.0) if sums is None else (self.points.sum_weights, self.rounder)
        return self.kernels.assign_lanes(
            self.points.block(0, self.points.n_rows),
            self.kernels.prepare(rule),
            labels,
            lanes,
            *self._helpers(len(lanes)),
            n_kept=n_kept,
            weights=weights,
            rounder=rounder,
            sums=sums,
            is_change=is_change,
            names=names,
        )

    def reassign(self, rule: AffineRule, labels: Labels, bounds: Bounds | None = None) -> Moves:
        """`assign` that counts who moved. With `bounds`, rows they settle are passed over."""
        changed = np.zeros(len(rule.offsets), dtype=np.int64)
        return Moves(self._sweep(rule, labels, bounds, changed), changed)

    def reassign_and_sum(
        self, rule: AffineRule, labels: Labels, bounds: Bounds, known: DirectionalStatistics | None = None
    ) -> tuple[int, DirectionalStatistics]:
        """`assign_and_sum` that passes over rows that the bounds settle."""
        if known is not None:
            return self._sweep_moved(rule, labels, bounds, known)
        if self.points.is_sparse:
            return self._sweep(rule, labels, bounds), self.sums(labels, len(rule.offsets))
        total = DirectionalStatistics.zero(*rule.shape, self.q)
        return self._sweep(rule, labels, bounds, into=total), total

    def _sweep_moved(
        self, rule: AffineRule, labels: Labels, bounds: Bounds | None, known: DirectionalStatistics
    ) -> tuple[int, DirectionalStatistics]:
        """Assign every row, and bring the `known` sums up to date by the rows that moved."""
        before = labels.copy()
        n_changed = self._sweep(rule, labels, bounds)
        numbers = np.flatnonzero(np.maximum(before, -1) != np.maximum(labels, -1))
        return n_changed, self.moved(known, numbers, before[numbers], labels[numbers])

    def moved(
        self, known: DirectionalStatistics, numbers: npt.NDArray[np.int64], before: Labels, after: Labels
    ) -> DirectionalStatistics:
        """Sums, `known` for labels of which those of some rows (m,) were `before` (m,), and are now `after` (m,).

        The bits are those of `sums`. A label below 0 is in no sum.
        """
        counts, resultants = known.counts.copy(), known.resultants.copy()
        n_clusters, every = len(counts), np.ones(len(counts), dtype=np.bool_)
        n_together = max(_BLOCK_ROWS, _MOVED_VALUES // self.points.n_features)
        n_blocks = -(-len(numbers) // n_together)
        groups = [every]
        if n_blocks and self._workers.n_threads > 1:
            sizes = np.bincount(np.concatenate([before, after]).clip(-1) + 1, minlength=n_clusters + 1)[1:]
            groups = _even_shares(sizes, every, 2 * self._workers.n_threads)
        for start, stop in even_ranges(len(numbers), max(1, n_blocks)):
            some = numbers[start:stop]
            rows = self.points.gather(some)
            weights = None if self.points.sum_weights is None else self.points.sum_weights[some]

            def task(
                group: int, rows: Block = rows, weights: Float64Array | None = weights, part: slice = slice(start, stop)
            ) -> None:
                labels = before[part], after[part]
                self.kernels.move_rows(rows, weights, *labels, groups[group], counts, resultants, self.rounder)

            self._workers.run(task, len(groups))
        return DirectionalStatistics(counts, resultants, self.q)

    def _sweep(
        self,
        rule: AffineRule,
        labels: Labels,
        bounds: Bounds | None = None,
        changed: npt.NDArray[np.int64] | None = None,
        into: DirectionalStatistics | None = None,
    ) -> int:
        """Assign every row and return how many moved.

        Unless None, `changed` (K,) counts the clusters they left and entered, and rows are added to `into` by their new
        labels.
        """
        if bounds is None and changed is None and into is None and is_searched(rule):
            before = labels.copy()
            if self._search(rule, labels, (0, self.points.n_rows)):
                return int(np.count_nonzero(labels != before))
            labels[:] = before
        if self._is_whole and changed is None:
            everything = slice(0, self.points.n_rows)
            angles = None if bounds is None else bounds(everything)
            return self._assign_pieces(rule, labels, self.points.block(0, self.points.n_rows), angles, into)
        prepared = self.kernels.prepare(rule)
        all_clusters = np.ones(len(rule.offsets), dtype=np.bool_)
        # labels and whole sums depend on no cut; rows on disk are read in lanes
        cuts = self._lanes if self.points.is_stored else self._even_lanes(0, self.points.n_rows)
        n_changed = 0

        def task(lane: int) -> tuple[int, npt.NDArray[np.int64] | None, DirectionalStatistics | None]:
            n_moved = 0
            moved = None if changed is None else np.zeros_like(changed)
            partial = None if into is None else DirectionalStatistics.zero(*rule.shape, self.q)
            for rows, part in self._blocks_of(*cuts[lane], are_bounded=bounds is not None):
                if bounds is not None:
                    n_moved += self.kernels.assign_bounded(rows, prepared, labels[part], moved, bounds(part))
                    if partial is not None:
                        self._add(rows, part, labels, all_clusters, partial)
                elif partial is not None:
                    sums = partial.counts, partial.resultants
                    n_moved += self.kernels.assign_and_add(
                        rows, prepared, self._sum_weights(part), labels[part], moved, *sums, self.rounder
                    )
                else:
                    n_moved += self.kernels.assign_best(rows, prepared, labels[part], moved)
            return n_moved, moved, partial

        def fold(result: tuple[int, npt.NDArray[np.int64] | None, DirectionalStatistics | None]) -> None:
            nonlocal n_changed
            n_moved, moved, partial = result
            n_changed += n_moved
            if changed is not None and moved is not None:
                np.add(changed, moved, out=changed)
            if into is not None and partial is not None:
                _add_into(into, partial)

        self._workers.run(task, len(cuts), fold)
        return n_changed

    def _assign_pieces(
        self,
        rule: AffineRule,
        labels: Labels,
        rows: Any,
        angles: AngleBounds | None = None,
        into: DirectionalStatistics | None = None,
    ) -> int:
        """Assign wide rows in one compiled call, which helpers join; return how many moved."""
        weights, rounder = (None, 0.0) if into is None else (self.points.sum_weights, self.rounder)
        sums = None if into is None else (into.counts, into.resultants)
        helpers = self._helpers(-(-len(rows) // _FEWEST_ROWS))
        return self.kernels.assign_pieces(
            rows,
            self.kernels.prepare(rule),
            labels,
            *helpers,
            angles=angles,
            weights=weights,
            rounder=rounder,
            sums=sums,
        )

    def sums(
        self, labels: Labels, n_clusters: int, is_wanted: npt.NDArray[np.bool_] | None = None
    ) -> DirectionalStatistics:
        """Statistics of the labelled rows; clusters that are not wanted stay zero."""
        if self._is_flat:
            # every row keeps its label; but what could write labels does not take them where they must not be written
            nowhere = AffineRule.cosines(np.zeros((n_clusters, self.points.n_features)))
            own = labels if labels.flags.writeable else labels.copy()
            everything = self._assign_and_sum_lanes(nowhere, own, self.points.n_rows)[1]
            if is_wanted is not None:
                everything.counts[~is_wanted] = 0.0
                everything.resultants[~is_wanted] = 0.0
            return everything
        wanted = np.ones(n_clusters, dtype=np.bool_) if is_wanted is None else is_wanted
        total = DirectionalStatistics.zero(n_clusters, self.points.n_features, self.q)
        if self.points.is_sparse or total.resultants.size > _LARGE_SUMS:
            sizes = np.bincount(np.maximum(labels, -1) + 1, minlength=n_clusters + 1)[1:]
            shares = _even_shares(sizes, wanted, 2 * self._workers.n_threads)

            def add(rows: Block, part: slice) -> None:
                self._workers.run(lambda share: self._add(rows, part, labels, shares[share], total), len(shares))

            for rows, part in self._large_parts():
                add(rows, part)
            return total

        def task(lane: int) -> DirectionalStatistics:
            partial = DirectionalStatistics.zero(n_clusters, self.points.n_features, self.q)
            for rows, part in self._blocks_of(*self._lanes[lane]):
                self._add(rows, part, labels, wanted, partial)
            return partial

        self._workers.run(task, len(self._lanes), lambda partial: _add_into(total, partial))
        return total

    def _large_parts(self) -> Iterator[tuple[Block, slice]]:
        """All rows at once, or those on disk lane by lane: each cluster is summed in row order either way."""
        for lane in self._lanes if self.points.is_stored else [(0, self.points.n_rows)]:
            yield from self._blocks_of(*lane)

    # --------------------------------------------------------------------------------------------- softmax

    def soft_sums(self, rule: AffineRule, *, is_lent: bool = False) -> tuple[DirectionalStatistics, float]:
        """Statistics with every row shared by responsibility, and the evidence.

        Statistics that are lent hold until the next are: a K x D array less to ask of the system in every step, whose
        pages would cost a third of a pass over 18,744 documents.
        """
        total = self._lend(rule.shape) if is_lent else DirectionalStatistics.zero(*rule.shape)
        if self.points.is_sparse:
            prepared = self.kernels.prepare(rule)
            n_blocks = -(-self.points.n_rows * len(rule.offsets) // _SHARES_AT_ONCE)
            parts = even_ranges(self.points.n_rows, n_blocks)
            return total, sum(self._add_shared(start, stop, prepared, total) for start, stop in parts)
        if self._is_flat:
            return total, self._share_narrow(self.kernels.prepare(rule), total)
        evidence = 0.0

        def fold(partial: DirectionalStatistics, part_evidence: float) -> None:
            nonlocal evidence
            _add_into(total, partial)
            evidence += part_evidence

        self._share_lanes(rule, fold)
        return total, evidence

    def _share_lanes(self, rule: AffineRule, fold: Callable[[DirectionalStatistics, float], object]) -> None:
        """Call `fold` on the soft sums and the evidence of each lane, in their order."""
        prepared = self.kernels.prepare(rule)

        def task(lane: int) -> tuple[DirectionalStatistics, float]:
            partial = DirectionalStatistics.zero(*rule.shape)
            part_evidence = 0.0
            for rows, part in self._blocks(lane):
                part_evidence += self.kernels.add_soft(
                    rows, prepared, self._weights(part), partial.counts, partial.resultants
                )
            return partial, part_evidence

        self._workers.run(task, len(self.points.lanes), lambda result: fold(*result))

    def _share_narrow(self, prepared: Any, total: DirectionalStatistics) -> float:
        """Add narrow rows to `total` by responsibility, lane after lane; return the evidence."""
        lanes = self.points.lane_table
        rows, weights = self.points.block(0, self.points.n_rows), self.points.weights
        sums, evidence = self.kernels.share_lanes(rows, prepared, weights, lanes, *self._helpers(len(lanes)))
        for lane in sums:
            np.add(total.counts, lane[:, -1], out=total.counts)
            np.add(total.resultants, lane[:, :-1], out=total.resultants)
        return sum(evidence.tolist())

    def _lend(self, shape: tuple[int, int]) -> DirectionalStatistics:
        """No rows yet, in the memory that was lent the last time."""
        if self._lent is None or self._lent.resultants.shape != shape:
            self._lent = DirectionalStatistics.zero(*shape)
        else:
            self._lent.counts.fill(0.0)
            self._lent.resultants.fill(0.0)
        return self._lent

    def _add_shared(self, start: int, stop: int, prepared: Any, total: DirectionalStatistics) -> float:
        """Add sparse rows start..stop to `total` by responsibility; return their evidence.

        First the shares, row by row, then the sums, cluster by cluster: no partial sums of K x D, and no dependence on
        the number of threads.
        """
        n_clusters = len(total.counts)
        rows, weights = self.points.block(start, stop), self._weights(slice(start, stop))
        shares, log_evidence = np.empty((stop - start, n_clusters)), np.empty(stop - start)
        lanes = even_ranges(stop - start, min(4 * self._workers.n_threads, stop - start))

        def share(lane: int) -> None:
            first, last = lanes[lane]
            self.kernels.responsibilities(
                cut(rows, first, last), prepared, shares[first:last], log_evidence[first:last]
            )

        self._workers.run(share, len(lanes))
        sizes = np.ceil(np.ones(len(shares)) @ shares).astype(np.int64)  # `sum` takes 7 times as long
        groups = _even_shares(sizes, np.ones(n_clusters, dtype=np.bool_), 2 * self._workers.n_threads)

        def add(group: int) -> None:
            self.kernels.add_shares(rows, weights, shares, groups[group], total.counts, total.resultants)

        self._workers.run(add, len(groups))
        return float(log_evidence.sum() if weights is None else weights @ log_evidence)

    def responsibilities(self, rule: AffineRule) -> tuple[FloatArray, Float64Array]:
        """Responsibilities (n, K) and log evidence of each row (n,)."""
        prepared = self.kernels.prepare(rule)
        table: FloatArray = np.empty((self.points.n_rows, len(rule.offsets)))
        log_evidence = np.empty(self.points.n_rows)

        def task(rows: Block, part: slice) -> None:
            self.kernels.responsibilities(rows, prepared, table[part], log_evidence[part])

        self.each_block(task)
        return table, log_evidence

    def evidence(self, rule: AffineRule) -> float:
        """The weighted sum over rows of log sum exp score: a whole sum, on a grid by the rule's bound on a score."""
        log_evidence, weights = self.log_evidence(rule), self.points.weights
        q = mass_grid(self.q, most_evidence(rule))
        return float(whole.rounded(log_evidence if weights is None else weights * log_evidence, q).sum())

    def log_evidence(self, rule: AffineRule) -> Float64Array:
        """log sum exp of the scores of each row (n,), without a table of all rows."""
        prepared = self.kernels.prepare(rule)
        evidence = np.empty(self.points.n_rows)

        def task(rows: Block, part: slice) -> None:
            for start, stop in even_ranges(part.stop - part.start, -(-(part.stop - part.start) // _BLOCK_ROWS)):
                table = np.empty((stop - start, len(rule.offsets)))
                inside = slice(part.start + start, part.start + stop)
                self.kernels.responsibilities(cut(rows, start, stop), prepared, table, evidence[inside])

        self.each_block(task)
        return evidence

    # ---------------------------------------------------------------------------------------------- scores

    def scores(self, rule: AffineRule) -> FloatArray:
        """Scores (n, K) in the dtype of the points."""
        table: FloatArray = np.empty((self.points.n_rows, len(rule.offsets)), dtype=self.points.dtype)
        if table.size:  # a model that has no clusters yet has no scores
            prepared = self.kernels.prepare(rule)
            self.each_block(lambda rows, part: self.kernels.scores(rows, prepared, table[part]))
        return table

    def own_scores(self, rule: AffineRule, labels: Labels) -> Float64Array:
        """The score of each row with its own label (n,)."""
        own = np.empty(self.points.n_rows)
        prepared = self.kernels.prepare(rule)
        self.each_block(lambda rows, part: self.kernels.own_scores(rows, prepared, labels[part], own[part]))
        return own

    def map_scores(
        self,
        rule: Rule | None,
        function: Callable[[FloatArray, slice], T],
        dtype: np.dtype[Any] | None = None,
        n_together: int = _TABLE_ROWS,
        *,
        by_row: bool = False,
        is_lent: bool = False,
    ) -> list[T]:
        """`function(scores, rows)` for every few rows, in order: for what is not worth an (n, K) array.

        Without a rule there are no scores, but as many rows. Scores `by_row`, of few clusters, have bits that depend on
        the row alone, not on where blocks of BLAS end. Tables that are lent hold until the next rows: with 10,000
        clusters the system takes three times as long to give 16 MiB of new pages as BLAS takes to fill them.
        """
        n_clusters = 0 if rule is None else len(rule.offsets)
        prepared = None if rule is None else self.kernels.prepare(rule)
        kind = self.points.dtype if dtype is None else dtype
        score = self.kernels.row_scores if by_row else self.kernels.scores
        most = max(1, min(n_together, _TABLE_VALUES // max(1, n_clusters)))

        def task(lane: int) -> list[T]:
            results = []
            lent = np.empty((most if is_lent else 0, n_clusters), dtype=kind)
            for rows, part in self._blocks(lane):
                n_rows = part.stop - part.start
                for start, stop in even_ranges(n_rows, -(-n_rows // most)):
                    table = lent[: stop - start] if is_lent else np.empty((stop - start, n_clusters), dtype=kind)
                    if prepared is not None:
                        score(cut(rows, start, stop), prepared, table)
                    results.append(function(table, slice(part.start + start, part.start + stop)))
            return results

        gathered: list[T] = []
        self._workers.run(task, len(self.points.lanes), gathered.extend)
        return gathered

    def each_block(self, task: Callable[[Block, slice], Any]) -> None:
        """Call `task` on every block of rows and its place; blocks run side by side."""

        def run_lane(lane: int) -> None:
            for rows, part in self._blocks(lane):
                task(rows, part)

        self._workers.run(run_lane, len(self.points.lanes))

    # ---------------------------------------------------------------------------------------------- inside

    @cached_property
    def is_in_place(self) -> bool:
        """Whether kernels take rows by their numbers from where they are."""
        return self.points.is_unit and not self.points.is_sparse

    @property
    def _is_flat(self) -> bool:
        """Whether the rows are narrow, and lie in one array as kernels take them."""
        return self.is_narrow and self.points.is_unit

    @cached_property
    def _is_whole(self) -> bool:
        """Whether the rows are wide, lie in one array, and kernels take them all at once."""
        points: Any = self.points
        is_dense = points.is_unit and not (points.is_sparse or points.is_stored or self.is_narrow) and points.n_rows > 0
        return bool(is_dense and self.kernels.takes_pieces(points.block(0, points.n_rows)))

    def _blocks(self, lane: int) -> Iterator[tuple[Block, slice]]:
        return self._blocks_of(*self.points.lanes[lane])

    def _blocks_of(self, first: int, last: int, *, are_bounded: bool = False) -> Iterator[tuple[Block, slice]]:
        with self.points.at_hand(first, last) as rows:
            if self.points.is_sparse or self.points.n_features <= NARROW:
                yield rows.block(first, last), slice(first, last)
                return
            n_together = max(_BLOCK_ROWS, _BOUNDED_VALUES // self.points.n_features) if are_bounded else _BLOCK_ROWS
            for start, stop in even_ranges(last - first, -(-(last - first) // n_together)):
                part = slice(first + start, first + stop)
                yield rows.block(part.start, part.stop), part

    def _even_lanes(self, first: int, last: int) -> list[tuple[int, int]]:
        """The rows from..to cut for the threads; only for what does not depend on the cut."""
        n_lanes = max(1, min(4 * self._workers.n_threads, -(-(last - first) // _FEWEST_ROWS)))
        return [(first + start, first + stop) for start, stop in even_ranges(last - first, n_lanes)]

    def _weights(self, part: slice) -> Float64Array | None:
        return self.points.block_weights(part.start, part.stop)

    def _sum_weights(self, part: slice) -> Float64Array | None:
        return None if self.points.sum_weights is None else self.points.sum_weights[part]

    def _add(
        self,
        rows: Block,
        part: slice,
        labels: Labels,
        is_wanted: npt.NDArray[np.bool_],
        into: DirectionalStatistics,
    ) -> None:
        sums = into.counts, into.resultants
        self.kernels.add_rows(rows, self._sum_weights(part), labels[part], is_wanted, *sums, self.rounder)


def chosen_rows(n_rows: int, weights: Float64Array | None, n_wanted: int, generator: np.random.Generator) -> Numbers:
    """Distinct rows (n_wanted,), each drawn with the probability of its weight."""
    if weights is None:
        return generator.choice(n_rows, n_wanted, replace=False)
    if np.count_nonzero(weights) >= n_wanted:
        return generator.choice(n_rows, n_wanted, replace=False, p=weights / weights.sum())
    # fewer rows that count than clusters: take them all, then rows of weight 0 so that every cluster has a start
    return np.argsort(-weights, kind="stable")[:n_wanted]


def most_evidence(rule: AffineRule) -> float:
    """What log sum exp of the scores of a row is not above, in absolute value; rows are unit to rounding."""
    is_there = np.isfinite(rule.offsets)  # components without rows have none
    if not is_there.any():
        return 1.0
    scores = np.linalg.norm(rule.vectors[is_there], axis=1) * (1.0 + 1e-5) + np.abs(rule.offsets[is_there])
    return float(scores.max()) + math.log(len(rule.offsets)) + 1.0


def _values(labels: Any) -> Labels:
    return cast(CpuLabels, labels).values


def _add_into(total: DirectionalStatistics, partial: DirectionalStatistics) -> None:
    np.add(total.counts, partial.counts, out=total.counts)
    np.add(total.resultants, partial.resultants, out=total.resultants)


def _even_shares(
    sizes: npt.NDArray[np.int64], is_wanted: npt.NDArray[np.bool_], n_shares: int
) -> list[npt.NDArray[np.bool_]]:
    """Wanted clusters dealt to masks of about equal size, the largest cluster first; very many in turn."""
    if len(sizes) > _MOST_DEALT:
        numbers = np.arange(len(sizes)) % n_shares
        return [is_wanted & (numbers == share) for share in range(n_shares)]
    shares = np.zeros((n_shares, len(sizes)), dtype=np.bool_)
    load = np.zeros(n_shares, dtype=np.int64)
    for cluster in np.argsort(-sizes, kind="stable"):
        if is_wanted[cluster] and sizes[cluster] > 0:
            lightest = int(np.argmin(load))
            shares[lightest, cluster] = True
            load[lightest] += sizes[cluster]
    return [share for share in shares if share.any()]


class CpuEngine:
    """The engine of arrays, memory maps and CSR matrices; see `engines/contract.py`."""

    name = "cpu"

    @cached_property
    def kernels(self) -> Kernels:
        """What works on blocks of rows."""
        return kernels_for(self.name)

    def points(
        self,
        X: Any,
        who: str,
        sample_weight: Any = None,
        expected_features: int | None = None,
        gate: Gate = UNIT,
    ) -> Points:
        """Check rows and their weights."""
        if gate.kind == "counts":
            return as_count_points(X, who, sample_weight, expected_features)
        if gate.allows_missing or gate.allows_empty:
            shape: tuple[int, ...] = getattr(X, "shape", ())
            is_empty = len(shape) == 2 and shape[0] == 0 and shape[1] >= 2
            if gate.allows_empty and is_empty and expected_features in (None, shape[1]):
                return no_points(int(shape[1]), who)
        gauge = self.kernels.gauge
        if gate.allows_missing:
            points = as_present_points(X, who, sample_weight, expected_features, gauge, gate.most_weight)
            if not points.n_rows and not gate.allows_empty:
                raise InputError(
                    f"X of {who} must have a row with a direction; all {points.n_given} are NaN, infinite or zero. "
                    "Check the step that made them."
                )
            return points
        return as_points(X, who, sample_weight, expected_features, gauge=gauge, most_weight=gate.most_weight)

    @contextmanager
    def open(self, points: Points, n_threads: int | None, who: str) -> Iterator[Passes]:
        """Passes over points, with threads that end with the context; files are looked at once more at the end."""
        with Workers(thread_count(n_threads, who)) as workers, self.kernels.crew() as crew:
            yield Passes(points, self.kernels, workers, crew)
        points.check_unchanged()
