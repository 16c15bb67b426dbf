"""One pass over the points: chunk, score, choose, accumulate.

Dense rows go lane by lane (see points.lane_plan); each lane has partial sums of its own, added in lane order. From one
lane of narrow rows to the next the threads go in compiled code. CSR rows are labelled lane by lane too, but a K x D
partial sum per lane would cost more than the rows: there each cluster is summed by one thread, in row order. Either way
the bits do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import xlogy

from armillary._typing import Float64Array, FloatArray
from armillary.fitting.workers import Workers
from armillary.kernels.contract import AffineRule, AngleBounds, Kernels
from armillary.points import Block, Points, cut, even_ranges
from armillary.statistics.directional import DirectionalStatistics

Labels = npt.NDArray[np.int32]
# The angle bounds of a slice of rows.
Bounds = Callable[[slice], AngleBounds]
T = TypeVar("T")

# Rows per BLAS product: 384 to 1,536 measured alike, and no slower than one product of all rows.
_BLOCK_ROWS = 1024
# Values of a block of rows that have bounds: most are passed over, so blocks are larger, but stay in the cache.
_BOUNDED_VALUES = 1 << 20
# Dense rows up to this wide are taken a lane at a time: the loops tile them themselves.
_NARROW = 16
# Rows worth a thread's while.
_FEWEST_ROWS = 1024
# Rows whose scores stand in a table together where a function of them is wanted.
_TABLE_ROWS = 4096
# Responsibilities of sparse rows held at a time: 4 MB.
_SHARES_AT_ONCE = 1 << 19


@dataclass(frozen=True, eq=False)
class Moves:
    """What an assignment changed."""

    n_changed: int
    changed: npt.NDArray[np.int64]  # (K,) rows that left or entered each cluster


class Passes:
    """Passes over one set of points with one device's kernels."""

    def __init__(self, points: Points, kernels: Kernels, workers: Workers) -> None:
        self.points = points
        self.kernels = kernels
        self._workers = workers
        self._lent: DirectionalStatistics | None = None
        self.is_narrow = not points.is_sparse and points.n_features <= _NARROW
        self._lanes = points.short_lanes if self.is_narrow else points.lanes  # of labels and their sums

    @property
    def n_threads(self) -> int:
        """How many threads."""
        return self._workers.n_threads

    def run(self, task: Callable[[int], T], n_tasks: int, fold: Callable[[T], object] | None = None) -> None:
        """Call `task(0) ... task(n_tasks - 1)` side by side, and `fold` on their results in that order."""
        self._workers.run(task, n_tasks, fold)

    def over(self, points: Points) -> Passes:
        """Passes over other points with the same threads."""
        return Passes(points, self.kernels, self._workers)

    # ------------------------------------------------------------------------------------------ arg max

    def assign(self, rule: AffineRule, labels: Labels, rows: tuple[int, int] | None = None) -> None:
        """Write the best cluster of each row, or of the rows from..to `rows`, over `labels` (n,)."""
        lanes = self._lanes if rows is None else self._even_lanes(*rows)
        if self._is_flat:
            self._assign_lanes(rule, labels, np.array(lanes, dtype=np.int64))
            return
        prepared = self.kernels.prepare(rule)

        def task(lane: int) -> None:
            for block, part in self._blocks_of(*lanes[lane]):
                self.kernels.assign_best(block, prepared, labels[part], None)

        self._workers.run(task, len(lanes))

    def assign_and_sum(self, rule: AffineRule, labels: Labels, *, n_kept: int = 0) -> tuple[int, DirectionalStatistics]:
        """`assign`, then `sums`, reading dense rows only once. Also returns how many rows moved.

        The first `n_kept` rows keep their labels, which must not be negative.
        """
        if self._is_flat:
            return self._assign_and_sum_lanes(rule, labels, n_kept)
        if n_kept > 0:
            before = labels[n_kept:].copy()
            self.assign(rule, labels, rows=(n_kept, self.points.n_rows))
            moved = (labels[n_kept:] >= 0) & (labels[n_kept:] != before)
            return int(np.count_nonzero(moved)), self.sums(labels, len(rule.offsets))
        if self.points.is_sparse:
            return self._sweep(rule, labels), self.sums(labels, len(rule.offsets))
        total = DirectionalStatistics.zero(*rule.shape)
        return self._sweep(rule, labels, into=total), total

    def names(
        self,
        rule: AffineRule,
        names: npt.NDArray[np.int64],
        is_present: npt.NDArray[np.bool_],
        over: Labels | None = None,
    ) -> npt.NDArray[np.int64]:
        """The name (n,) of the best cluster of each row, of n rows of which only those present are here; -1 for the
        others, and for rows that the rule refuses. Labels that are no longer wanted may be given to write `over`.
        """
        # passes over wide rows try the label that a row has first, so it must be one of these clusters
        labels = over if over is not None and self._is_flat else np.full(self.points.n_rows, -1, dtype=np.int32)
        named = np.empty(self.points.n_rows, dtype=np.int64)
        if self._is_flat:
            self._assign_lanes(rule, labels, self.points.short_lane_table, names=(names, named))
        else:
            self.assign(rule, labels)
            np.take(np.append(names, -1), np.maximum(labels, -1), out=named)
        if len(named) == len(is_present):
            return named
        everywhere = np.full(len(is_present), -1, dtype=np.int64)
        everywhere[is_present] = named
        return everywhere

    def _assign_and_sum_lanes(self, rule: AffineRule, labels: Labels, n_kept: int) -> tuple[int, DirectionalStatistics]:
        lanes = self.points.short_lane_table
        sums = np.zeros((len(lanes), len(rule.offsets), self.points.n_features + 1))
        n_changed = self._assign_lanes(rule, labels, lanes, n_kept, sums)
        total = np.add.reduce(sums, axis=0)  # in the order of the lanes
        return n_changed, DirectionalStatistics(total[:, -1].copy(), total[:, :-1].copy())

    def _assign_lanes(
        self,
        rule: AffineRule,
        labels: Labels,
        lanes: npt.NDArray[np.int64],
        n_kept: int = 0,
        sums: Float64Array | None = None,
        names: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None,
    ) -> int:
        """Assign narrow rows, and add them to the `sums` (L, K, D + 1) of their lanes; return how many moved.

        Each thread goes from lane to lane in compiled code: Python between two lanes would take a third of the time
        of a pass over 300,000 x 3 rows.
        """
        prepared = self.kernels.prepare(rule)
        rows, weights = self.points.block(0, self.points.n_rows), self.points.weights
        taken = np.zeros(1, dtype=np.int64)
        n_changed = 0

        def task(_: int) -> int:
            return self.kernels.assign_lanes(
                rows, prepared, labels, lanes, taken, n_kept=n_kept, weights=weights, sums=sums, names=names
            )

        def fold(n_moved: int) -> None:
            nonlocal n_changed
            n_changed += n_moved

        self._workers.run(task, min(self._workers.n_threads, len(lanes)), fold)
        return n_changed

    def reassign(self, rule: AffineRule, labels: Labels, bounds: Bounds | None = None) -> Moves:
        """`assign` that counts who moved. With `bounds`, rows they settle are passed over."""
        changed = np.zeros(len(rule.offsets), dtype=np.int64)
        return Moves(self._sweep(rule, labels, bounds, changed), changed)

    def reassign_and_sum(self, rule: AffineRule, labels: Labels, bounds: Bounds) -> tuple[Moves, DirectionalStatistics]:
        """`reassign`, then `sums`, reading dense rows only once."""
        if self.points.is_sparse:
            return self.reassign(rule, labels, bounds), self.sums(labels, len(rule.offsets))
        changed = np.zeros(len(rule.offsets), dtype=np.int64)
        total = DirectionalStatistics.zero(*rule.shape)
        return Moves(self._sweep(rule, labels, bounds, changed, total), changed), total

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
        prepared = self.kernels.prepare(rule)
        all_clusters = np.ones(len(rule.offsets), dtype=np.bool_)
        n_changed = 0

        def task(lane: int) -> tuple[int, npt.NDArray[np.int64] | None, DirectionalStatistics | None]:
            n_moved = 0
            moved = None if changed is None else np.zeros_like(changed)
            partial = None if into is None else DirectionalStatistics.zero(*rule.shape)
            for rows, part in self._blocks_of(*self._lanes[lane], are_bounded=bounds is not None):
                if bounds is not None:
                    n_moved += self.kernels.assign_bounded(rows, prepared, labels[part], moved, bounds(part))
                    if partial is not None:
                        self._add(rows, part, labels, all_clusters, partial)
                elif partial is not None:
                    sums = partial.counts, partial.resultants
                    n_moved += self.kernels.assign_and_add(
                        rows, prepared, self._weights(part), labels[part], moved, *sums
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

        self._workers.run(task, len(self._lanes), fold)
        return n_changed

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
        total = DirectionalStatistics.zero(n_clusters, self.points.n_features)
        if self.points.is_sparse:
            whole = slice(0, self.points.n_rows)
            rows = self.points.block(0, self.points.n_rows)
            sizes = np.bincount(np.maximum(labels, -1) + 1, minlength=n_clusters + 1)[1:]
            shares = _even_shares(sizes, wanted, 2 * self._workers.n_threads)
            self._workers.run(lambda share: self._add(rows, whole, labels, shares[share], total), len(shares))
            return total

        def task(lane: int) -> DirectionalStatistics:
            partial = DirectionalStatistics.zero(n_clusters, self.points.n_features)
            for rows, part in self._blocks_of(*self._lanes[lane]):
                self._add(rows, part, labels, wanted, partial)
            return partial

        self._workers.run(task, len(self._lanes), lambda partial: _add_into(total, partial))
        return total

    def total(self) -> DirectionalStatistics:
        """Statistics of all rows as one cluster."""
        return self.sums(np.zeros(self.points.n_rows, dtype=np.int32), 1)

    # ------------------------------------------------------------------------------- draws and softmax

    def draw(self, rule: AffineRule, key: tuple[int, int], labels: Labels) -> float:
        """Write one draw per row over `labels`; return the evidence, the weighted sum of log sum exp score."""
        prepared = self.kernels.prepare(rule)
        evidence = 0.0

        def task(lane: int) -> float:
            return sum(
                self.kernels.assign_draw(rows, prepared, self._weights(part), key, part.start, labels[part])
                for rows, part in self._blocks(lane)
            )

        def fold(part: float) -> None:
            nonlocal evidence
            evidence += part

        self._workers.run(task, len(self.points.lanes), fold)
        return evidence

    def soft_sums(self, rule: AffineRule, *, is_lent: bool = False) -> tuple[DirectionalStatistics, float]:
        """Statistics with every row shared by responsibility, and the evidence.

        Statistics that are lent hold until the next are: a K x D array less to ask of the system in every step, whose
        pages would cost a third of a pass over 18,744 documents.
        """
        prepared = self.kernels.prepare(rule)
        total = self._lend(rule.shape) if is_lent else DirectionalStatistics.zero(*rule.shape)
        if self.points.is_sparse:
            n_blocks = -(-self.points.n_rows * len(rule.offsets) // _SHARES_AT_ONCE)
            parts = even_ranges(self.points.n_rows, n_blocks)
            return total, sum(self._add_shared(start, stop, prepared, total) for start, stop in parts)
        evidence = 0.0

        def task(lane: int) -> tuple[DirectionalStatistics, float]:
            partial = DirectionalStatistics.zero(*rule.shape)
            part_evidence = 0.0
            for rows, part in self._blocks(lane):
                part_evidence += self.kernels.add_soft(
                    rows, prepared, self._weights(part), partial.counts, partial.resultants
                )
            return partial, part_evidence

        def fold(result: tuple[DirectionalStatistics, float]) -> None:
            nonlocal evidence
            _add_into(total, result[0])
            evidence += result[1]

        self._workers.run(task, len(self.points.lanes), fold)
        return total, evidence

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
        """The weighted sum over rows of log sum exp score."""
        log_evidence = self.log_evidence(rule)
        weights = self.points.weights
        return float(log_evidence.sum() if weights is None else weights @ log_evidence)

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

    def merged_entropies(self, rule: AffineRule, pairs: npt.NDArray[np.int64]) -> Float64Array:
        """How the entropy of the labels would change if the clusters of each pair (P, 2) became one: (P,), at most 0.

        The weighted sum over rows of p log p + q log q - (p + q) log(p + q), for the responsibilities p and q of a
        pair. Changes of pairs that share no cluster add up.
        """
        prepared = self.kernels.prepare(rule)
        first, second = pairs[:, 0], pairs[:, 1]

        def task(lane: int) -> Float64Array:
            total = np.zeros(len(pairs))
            for rows, part in self._small_blocks(*self.points.lanes[lane]):
                table = np.empty((part.stop - part.start, len(rule.offsets)))
                self.kernels.responsibilities(rows, prepared, table, np.empty(len(table)))
                own = xlogy(table, table)
                both = table[:, first] + table[:, second]
                change = own[:, first] + own[:, second] - xlogy(both, both)
                weights = self._weights(part)
                total += change.sum(axis=0) if weights is None else weights @ change
            return total

        changes = np.zeros(len(pairs))
        self._workers.run(task, len(self.points.lanes), lambda part: np.add(changes, part, out=changes))
        return changes

    def map_rows(self, rule: AffineRule, curve: Callable[[Float64Array], Float64Array]) -> Float64Array:
        """`curve(scores)` of each row (n,): the float64 scores (m, K) of a few rows at a time to one number each."""
        prepared = self.kernels.prepare(rule)
        values = np.empty(self.points.n_rows)

        def task(lane: int) -> None:
            for rows, part in self._small_blocks(*self.points.lanes[lane]):
                table = np.empty((part.stop - part.start, len(rule.offsets)))
                self.kernels.scores(rows, prepared, table)
                values[part] = curve(table)

        self._workers.run(task, len(self.points.lanes))
        return values

    def _small_blocks(self, first: int, last: int) -> Iterator[tuple[Block, slice]]:
        """Blocks of at most 1,024 rows, of narrow and sparse rows too: for what needs a table of all clusters."""
        for rows, part in self._blocks_of(first, last):
            for start, stop in even_ranges(part.stop - part.start, -(-(part.stop - part.start) // _BLOCK_ROWS)):
                yield cut(rows, start, stop), slice(part.start + start, part.start + stop)

    # ---------------------------------------------------------------------------------------------- scores

    def scores(self, rule: AffineRule) -> FloatArray:
        """Scores (n, K) in the dtype of the points."""
        table: FloatArray = np.empty((self.points.n_rows, len(rule.offsets)), dtype=self.points.dtype)
        prepared = self.kernels.prepare(rule)
        self.each_block(lambda rows, part: self.kernels.scores(rows, prepared, table[part]))
        return table

    def own_scores(self, rule: AffineRule, labels: Labels) -> Float64Array:
        """The score of each row with its own label (n,)."""
        own = np.empty(self.points.n_rows)
        prepared = self.kernels.prepare(rule)
        self.each_block(lambda rows, part: self.kernels.own_scores(rows, prepared, labels[part], own[part]))
        return own

    def map_scores(self, rule: AffineRule, function: Callable[[FloatArray, slice], T]) -> list[T]:
        """`function(scores, rows)` for every few rows, in order: for what is not worth an (n, K) array."""
        prepared = self.kernels.prepare(rule)

        def task(lane: int) -> list[T]:
            results = []
            for rows, part in self._blocks(lane):
                n_rows = part.stop - part.start
                for start, stop in even_ranges(n_rows, -(-n_rows // _TABLE_ROWS)):
                    table = np.empty((stop - start, len(rule.offsets)), dtype=self.points.dtype)
                    self.kernels.scores(cut(rows, start, stop), prepared, table)
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

    @property
    def _is_flat(self) -> bool:
        """Whether the rows are narrow, and lie in one array as kernels take them."""
        return self.is_narrow and self.points.is_unit

    def _blocks(self, lane: int) -> Iterator[tuple[Block, slice]]:
        return self._blocks_of(*self.points.lanes[lane])

    def _blocks_of(self, first: int, last: int, *, are_bounded: bool = False) -> Iterator[tuple[Block, slice]]:
        if self.points.is_sparse or self.points.n_features <= _NARROW:
            yield self.points.block(first, last), slice(first, last)
            return
        n_together = max(_BLOCK_ROWS, _BOUNDED_VALUES // self.points.n_features) if are_bounded else _BLOCK_ROWS
        for start, stop in even_ranges(last - first, -(-(last - first) // n_together)):
            part = slice(first + start, first + stop)
            yield self.points.block(part.start, part.stop), part

    def _even_lanes(self, first: int, last: int) -> list[tuple[int, int]]:
        """The rows from..to cut for the threads; only for what does not depend on the cut."""
        n_lanes = min(4 * self._workers.n_threads, -(-(last - first) // _FEWEST_ROWS))
        return [(first + start, first + stop) for start, stop in even_ranges(last - first, n_lanes)]

    def _weights(self, part: slice) -> Float64Array | None:
        return self.points.block_weights(part.start, part.stop)

    def _add(
        self,
        rows: Block,
        part: slice,
        labels: Labels,
        is_wanted: npt.NDArray[np.bool_],
        into: DirectionalStatistics,
    ) -> None:
        self.kernels.add_rows(rows, self._weights(part), labels[part], is_wanted, into.counts, into.resultants)


def _add_into(total: DirectionalStatistics, partial: DirectionalStatistics) -> None:
    np.add(total.counts, partial.counts, out=total.counts)
    np.add(total.resultants, partial.resultants, out=total.resultants)


def _even_shares(
    sizes: npt.NDArray[np.int64], is_wanted: npt.NDArray[np.bool_], n_shares: int
) -> list[npt.NDArray[np.bool_]]:
    """Wanted clusters dealt to masks of about equal size, the largest cluster first."""
    shares = np.zeros((n_shares, len(sizes)), dtype=np.bool_)
    load = np.zeros(n_shares, dtype=np.int64)
    for cluster in np.argsort(-sizes, kind="stable"):
        if is_wanted[cluster] and sizes[cluster] > 0:
            lightest = int(np.argmin(load))
            shares[lightest, cluster] = True
            load[lightest] += sizes[cluster]
    return [share for share in shares if share.any()]
