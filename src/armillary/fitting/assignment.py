"""Hard labels as an opaque value carried by the loop, with what makes the next sweep cheap.

`sweep` gives the statistics of the arg max under new directions. The plain algorithm scores every row. The bounded
one keeps two angles per row (Hamerly 2010, with angles on the sphere for distances), scores only rows whose
nearest direction may have changed, and sums again only clusters that gained or lost a row. Labels and sums
have the same bits either way: a cluster with the same rows has the same sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.fitting.passes import Passes
from armillary.kernels.contract import AffineRule, AngleBounds
from armillary.points import Points
from armillary.statistics.directional import DirectionalStatistics

# Where most clusters change, one sweep that sums while rows are in cache beats a second one over few clusters.
_MOST_CLUSTERS = 0.5
# Rows looked at first when empty clusters need some.
_FEW_CANDIDATES = 1024
# Values of directions that are compared at once.
_CHORD_VALUES = 1 << 16
# Padding of an angle turned, larger than the rounding of the float32 bounds it is added to.
_ANGLE_PAD = 5e-7


class HardAssignment:
    """Labels of n rows among K clusters."""

    def __init__(self, n_rows: int, *, is_bounded: bool) -> None:
        self._labels = np.full(n_rows, -1, dtype=np.int32)
        self._is_bounded = is_bounded
        self._own = np.full(n_rows if is_bounded else 0, np.inf, dtype=np.float32)
        self._other = np.zeros(n_rows if is_bounded else 0, dtype=np.float32)
        self._directions: Float64Array | None = None
        self._statistics: DirectionalStatistics | None = None
        self._n_changed_clusters = 0

    @property
    def labels(self) -> npt.NDArray[np.int32]:
        """The labels (n,); -1 before the first sweep."""
        return self._labels

    def sweep(self, passes: Passes, rule: AffineRule) -> tuple[int, DirectionalStatistics]:
        """Label every row by `rule`, cosines if bounds are kept; return how many moved, and the new sums.

        Rows that the rule refuses keep a negative label (see kernels/contract.py) and are in no sum.
        """
        if not self._is_bounded:
            n_changed, statistics = passes.assign_and_sum(rule, self._labels)
        else:
            n_changed, statistics = self._bounded_sweep(passes, rule)
        self._statistics = statistics
        return n_changed, statistics

    def _bounded_sweep(self, passes: Passes, rule: AffineRule) -> tuple[int, DirectionalStatistics]:
        turned = self._turned(rule.vectors)
        order = np.argsort(turned)
        widest = int(order[-1])
        largest = turned[widest]
        second_largest = turned[order[-2]] if len(turned) > 1 else np.float32(0.0)
        reach = np.float32(_reach(rule.floor))

        def bounds(part: slice) -> AngleBounds:
            return AngleBounds(self._own[part], self._other[part], turned, largest, second_largest, widest, reach)

        if self._statistics is None or self._n_changed_clusters > _MOST_CLUSTERS * len(turned):
            moves, statistics = passes.reassign_and_sum(rule, self._labels, bounds)
        else:
            moves = passes.reassign(rule, self._labels, bounds)
            statistics = self._sum_again(passes, moves.changed > 0, self._statistics)
        self._directions = rule.vectors
        self._n_changed_clusters = int(np.count_nonzero(moves.changed))
        return moves.n_changed, statistics

    def _turned(self, directions: Float64Array) -> npt.NDArray[np.float32]:
        """Padded angles (K,) by which directions turned since the last sweep; exactly 0 where they did not."""
        if self._directions is None:
            return np.zeros(len(directions), dtype=np.float32)
        chords = np.empty(len(directions))
        n_together = max(1, _CHORD_VALUES // directions.shape[1])  # in the cache: 20 x 54,000 values take a third less
        for first in range(0, len(directions), n_together):
            some = slice(first, first + n_together)
            chord = directions[some] - self._directions[some]
            chords[some] = np.sqrt(np.vecdot(chord, chord))
        angle = 2.0 * np.arcsin(np.minimum(1.0, 0.5 * chords))
        return np.where(angle > 0.0, angle * (1.0 + 1e-6) + _ANGLE_PAD, 0.0).astype(np.float32)

    def _sum_again(
        self, passes: Passes, is_stale: npt.NDArray[np.bool_], before: DirectionalStatistics
    ) -> DirectionalStatistics:
        if not is_stale.any():
            return before
        fresh = passes.sums(self._labels, len(is_stale), is_stale)
        fresh.counts[~is_stale] = before.counts[~is_stale]
        for cluster in np.flatnonzero(~is_stale):  # one by one: a mask would gather the wide ones first
            fresh.resultants[cluster] = before.resultants[cluster]
        return fresh

    def forget_bounds(self) -> None:
        """Have the next sweep look at every row: the clusters are no longer those of the last one."""
        self._forget(slice(None))
        self._directions = None
        self._statistics = None

    def _forget(self, rows: Any) -> None:
        """Nothing is known of the angles of some rows."""
        self._own[rows] = np.inf
        self._other[rows] = 0.0

    def keep(self, is_kept: npt.NDArray[np.bool_]) -> None:
        """Drop clusters that have no rows; the others move up and keep their order."""
        if is_kept.all():
            return
        table = np.cumsum(is_kept, dtype=np.int32) - np.int32(1)
        np.take(table, self._labels, out=self._labels)
        # bounds to the directions that stay still hold
        if self._directions is not None:
            self._directions = self._directions[is_kept]
        if self._statistics is not None:
            self._statistics = self._statistics.select(is_kept)

    def n_refused(self, points: Points) -> tuple[int, bool]:
        """How many rows of weight above 0 the last rule refused, and whether it refused none at all."""
        refused = np.flatnonzero(self._labels < 0)
        n_counted = len(refused) if points.weights is None else int(np.count_nonzero(points.weights[refused]))
        return n_counted, len(refused) == 0

    def names(self, names: npt.NDArray[np.int64], is_present: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Labels as names (K,), for n rows of which only some are here; -1 for the others and for rows without one."""
        # label -1 finds the last entry; np.take of wide numbers takes half the time of indexing by narrow ones
        named = np.take(np.append(names, -1), self._labels.astype(np.int64))
        if len(named) == len(is_present):
            return named
        everywhere = np.full(len(is_present), -1, dtype=np.int64)
        everywhere[is_present] = named
        return everywhere

    def fill_empty(self, passes: Passes, directions: Float64Array) -> DirectionalStatistics:
        """Give each empty cluster the row that is farthest from its own direction; return the new sums.

        A row is taken only from a cluster with more than one row, so the objective does not fall (vmf_mixtures.md, 3).
        Where there are too few such rows, clusters stay empty.
        """
        assert self._statistics is not None, "fill_empty follows a sweep"
        statistics = self._statistics
        own = passes.own_scores(AffineRule.cosines(directions), self._labels)
        counted: Any = slice(None)
        if passes.points.weights is not None:
            counted = np.flatnonzero(passes.points.weights)
        sizes = np.bincount(self._labels[counted], minlength=len(directions))
        candidates = _smallest_first(own, np.arange(len(own))[counted])
        is_stale = np.zeros(len(directions), dtype=np.bool_)
        for empty in np.flatnonzero(sizes == 0):
            row = next((row for row in candidates if sizes[self._labels[row]] > 1), None)
            if row is None:
                break
            giver = self._labels[row]
            sizes[giver] -= 1
            sizes[empty] = 1
            self._labels[row] = empty
            is_stale[[giver, empty]] = True
            if self._is_bounded:
                self._forget(row)
        self._statistics = self._sum_again(passes, is_stale, statistics)
        return self._statistics


def _reach(floor: float) -> float:
    """An angle within which the cosine of a row is surely not below `floor`: rows are unit to within 2e-6."""
    if floor <= -1.0:
        return math.inf
    return math.acos(min(1.0, floor + 1e-5)) - 2.0 * _ANGLE_PAD


def _smallest_first(values: Float64Array, numbers: npt.NDArray[np.int64]) -> Iterator[int]:
    """Some numbers in the order of their values; nearly always only the first few are asked for."""
    few = min(len(numbers), _FEW_CANDIDATES)
    is_first = np.zeros(len(numbers), dtype=np.bool_)
    is_first[np.argpartition(values[numbers], few - 1)[:few]] = True
    for part in (numbers[is_first], numbers[~is_first]):
        yield from part[np.argsort(values[part], kind="stable")].tolist()
