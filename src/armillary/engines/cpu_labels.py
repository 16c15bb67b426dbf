"""Labels on the CPU: an array, with what makes the next sweep cheap.

`sweep` gives the statistics of the arg max under new directions. The plain algorithm scores every row. The bounded
one keeps two angles per row (Hamerly 2010, with angles on the sphere for distances), scores only rows whose
nearest direction may have changed. Once few rows move, either adds and takes away only those: sums are whole
(sums/whole.py), so labels and sums have the same bits in all these ways.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.engines.contract import Algorithm, Numbers, Span
from armillary.kernels.rows.contract import AngleBounds
from armillary.points import Points, everywhere
from armillary.rules import AffineRule
from armillary.sums.directional import DirectionalStatistics

if TYPE_CHECKING:
    from armillary.engines.cpu import Passes

# Bounds pay where a score costs much more than two angles per row: measured in benchmarks/algorithms.py.
_WIDE_ENOUGH = 17
_CLUSTERS_ENOUGH = 8
# Shares of rows that may have moved in the last sweep for the next to add and take away only those that move, which
# costs two sums and a visit that nothing foresees for each. Measured at 30,000 x 384, where dense rows that are scored
# are in the cache and all may be added there, and at 8,000 documents. Narrow rows are compared as they are labelled.
_MOST_MOVED = 0.05
_MOST_MOVED_UNSEEN = 0.2
_MOST_MOVED_NARROW = 0.01
# Values of directions that are compared at once.
_CHORD_VALUES = 1 << 16
# Padding of an angle turned, larger than the rounding of the float32 bounds it is added to.
_ANGLE_PAD = 5e-7
# Labels counted, or named, at a time.
_MOST_ROWS = 1 << 16
_NO_ANGLES = np.empty(0, dtype=np.float32)


def are_bounded(passes: Passes, algorithm: Algorithm, n_clusters: int | None) -> bool:
    """Whether bounds are kept; "auto" keeps them where that pays."""
    if algorithm != "auto":
        return algorithm == "hamerly"
    is_wide = passes.points.is_sparse or passes.points.n_features >= _WIDE_ENOUGH
    return is_wide and (n_clusters is None or n_clusters >= _CLUSTERS_ENOUGH)


class CpuLabels:
    """Labels of n rows among K clusters; see `engines/contract.py`."""

    def __init__(self, passes: Passes, values: npt.NDArray[np.int32], *, is_bounded: bool = False) -> None:
        n_rows = len(values)
        # not the points themselves: labels of rows that are read chunk by chunk must not hold on to them
        self._weights, self._is_present = passes.points.weights, passes.points.is_present
        self._kernels = passes.kernels
        self._labels = values
        self.is_bounded = is_bounded
        self._own = np.full(n_rows, np.inf, dtype=np.float32) if is_bounded else _NO_ANGLES
        self._other = np.zeros(n_rows, dtype=np.float32) if is_bounded else _NO_ANGLES
        self._directions: Float64Array | None = None
        self._statistics: DirectionalStatistics | None = None
        self._n_moved = n_rows

    @property
    def values(self) -> npt.NDArray[np.int32]:
        """The labels (n,), for the engine."""
        return self._labels

    def sweep(self, passes: Passes, rule: AffineRule) -> tuple[int, DirectionalStatistics]:
        """Label every row by `rule`, cosines if bounds are kept; return how many moved, and the new sums.

        Rows that the rule refuses keep a negative label (see engines/contract.py) and are in no sum. Where few rows
        moved the last time, only those that move now are added and taken away: the bits are the same.
        """
        known = self._statistics if self._are_few_moving(passes) else None
        if known is not None and len(known.counts) != len(rule.offsets):
            known = None
        if not self.is_bounded:
            n_changed, statistics = passes.assign_and_sum(rule, self._labels, known=known)
        else:
            n_changed, statistics = self._bounded_sweep(passes, rule, known)
        self._n_moved = n_changed
        self._statistics = statistics
        return n_changed, statistics

    def _are_few_moving(self, passes: Passes) -> bool:
        """Whether rows that moved cost less than all: a guess by the last sweep, which changes no bit."""
        if passes.is_narrow:
            return self._n_moved <= _MOST_MOVED_NARROW * len(self._labels)
        share = _MOST_MOVED_UNSEEN if self.is_bounded or passes.points.is_sparse else _MOST_MOVED
        return self._n_moved <= share * len(self._labels)

    def _bounded_sweep(
        self, passes: Passes, rule: AffineRule, known: DirectionalStatistics | None
    ) -> tuple[int, DirectionalStatistics]:
        turned = self._turned(rule.vectors)
        order = np.argsort(turned)
        widest = int(order[-1])
        largest = turned[widest]
        second_largest = turned[order[-2]] if len(turned) > 1 else np.float32(0.0)
        reach = np.float32(_reach(rule.floor))

        def bounds(part: slice) -> AngleBounds:
            return AngleBounds(self._own[part], self._other[part], turned, largest, second_largest, widest, reach)

        self._directions = rule.vectors  # those before, of which `turned` is all that is needed, make room for the sums
        try:
            return passes.reassign_and_sum(rule, self._labels, bounds, known)
        except BaseException:
            self.forget()  # some bounds are from before
            raise

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

    def known(self, points: Points, n_clusters: int) -> DirectionalStatistics | None:
        """Sums by the labels, over these points and so many clusters, where they are known."""
        known = self._statistics
        is_it = known is not None and len(known.counts) == n_clusters and points.weights is self._weights
        return known if is_it else None

    def note(self, statistics: DirectionalStatistics | None, points: Points | None = None) -> None:
        """Labels were changed, or summed over some points, but for a sweep: their sums, where they are known."""
        if points is None or points.weights is self._weights:  # others have other weights
            self._statistics = statistics

    def move(self, passes: Passes, numbers: Numbers, labels: npt.NDArray[np.int32]) -> None:
        """Give some rows (m,) other labels (m,), and bring the sums up to date."""
        if self._statistics is not None:
            self._statistics = passes.moved(self._statistics, numbers, self._labels[numbers], labels)
        self._labels[numbers] = labels
        self._forget(numbers)

    def forget(self) -> None:
        """Have the next sweep look at every row: the clusters are no longer those of the last one."""
        self._forget(slice(None))
        self._directions = None

    def _forget(self, rows: Any) -> None:
        """Nothing is known of the angles of some rows."""
        if self.is_bounded:
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

    # ------------------------------------------------------------------------------------------ questions

    def sizes(self, n_clusters: int, *, counted: bool = False) -> npt.NDArray[np.int64]:
        """Rows with each label (K,)."""
        labels = self._labels
        if counted and self._weights is not None:
            labels = labels[self._weights > 0.0]
        sizes = np.zeros(n_clusters + 1, dtype=np.int64)
        for start in range(0, len(labels), _MOST_ROWS):  # NumPy alone would copy them all to 64 bits
            sizes += np.bincount(np.maximum(labels[start : start + _MOST_ROWS], -1) + 1, minlength=n_clusters + 1)
        return sizes[1:]

    def at(self, numbers: Numbers) -> npt.NDArray[np.int32]:
        """The labels of a few rows (m,)."""
        return self._labels[numbers]

    def first_rows(self, is_sought: npt.NDArray[np.bool_], span: Span = None) -> Numbers:
        """The first row of the span with each label (K,) that is sought; n where there is none."""
        start, stop = span or (0, len(self._labels))
        first = np.full(len(is_sought), len(self._labels), dtype=np.int64)
        self._kernels.first_rows(self._labels[start:stop], start, is_sought, first)
        return first

    def last_rows(self, is_sought: npt.NDArray[np.bool_]) -> Numbers:
        """The last row with each label (K,) that is sought; -1 where there is none."""
        last = np.full(len(is_sought), -1, dtype=np.int64)
        self._kernels.last_rows(self._labels, is_sought, last)
        return last

    def surplus(self, room: npt.NDArray[np.int64]) -> Numbers:
        """The rows with each label k beyond the first room[k] (K,), in their order."""
        sizes = self.sizes(len(room))
        numbers = np.flatnonzero((sizes > room)[self._labels])
        own = self._labels[numbers]
        order = np.argsort(own, kind="stable")  # by label, each in the order of its rows
        counts = np.bincount(own, minlength=len(room))
        places = np.arange(len(own)) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.sort(numbers[order[places >= room[own[order]]]])

    def refused(self, span: Span, most: int) -> Numbers:
        """The first rows of the span with a negative label, at most so many."""
        start, stop = span or (0, len(self._labels))
        return start + np.flatnonzero(self._labels[start:stop] < 0)[:most]

    def n_refused(self, *, counted: bool = False) -> int:
        """How many rows have a negative label; with `counted`, of weight above 0."""
        is_refused = self._labels < 0
        if counted and self._weights is not None:
            is_refused &= self._weights > 0.0
        return int(np.count_nonzero(is_refused))

    def to_host(self, names: npt.NDArray[np.int64] | None = None) -> npt.NDArray[Any]:
        """The labels (n,) as an array for the user."""
        found: npt.NDArray[Any] = self._labels
        if names is not None:
            # label -1 finds the last entry; np.take of wide numbers takes half the time of indexing by narrow ones
            table, found = np.append(names, -1), np.empty(len(self._labels), dtype=np.int64)
            for start in range(0, len(found), _MOST_ROWS):  # they stay in the cache
                codes = np.maximum(self._labels[start : start + _MOST_ROWS], -1).astype(np.intp)
                np.take(table, codes, out=found[start : start + _MOST_ROWS], mode="wrap")
        return everywhere(found, self._is_present)

    # -------------------------------------------------------------------------------------------- changes

    def copy(self) -> CpuLabels:
        """The same labels, to be changed by themselves; bounds are not kept for them."""
        twin = copy.copy(self)
        twin._labels = self._labels.copy()
        twin.is_bounded = False
        return twin

    def put(self, numbers: Numbers, values: npt.ArrayLike) -> None:
        """Give a few rows their labels."""
        self._labels[numbers] = values
        self._forget(numbers)
        self._statistics = None

    def fill(self, label: int, span: Span = None) -> None:
        """Give the rows of the span one label."""
        rows = slice(None) if span is None else slice(*span)
        self._labels[rows] = label
        self._forget(rows)
        self._statistics = None

    def rename(self, table: npt.NDArray[np.integer[Any]]) -> None:
        """Label k becomes table[k]; negative ones stay."""
        renamed = np.asarray(table, dtype=np.int32)[self._labels]
        np.copyto(self._labels, renamed, where=self._labels >= 0)
        self.forget()
        self._statistics = None


class CpuGroups:
    """Rows by their label: numbers in increasing order."""

    def __init__(self, labels: CpuLabels, n_clusters: int) -> None:
        order = np.argsort(labels.values, kind="stable")
        self.members = np.split(order, np.searchsorted(labels.values[order], np.arange(1, n_clusters)))

    def merge(self, kept: int, gone: int) -> None:
        """Give the rows of `gone` to `kept`."""
        self.members[kept] = np.concatenate([self.members[kept], self.members[gone]])
        self.members[gone] = self.members[gone][:0]


def _reach(floor: float) -> float:
    """An angle within which the cosine of a row is surely not below `floor`: rows are unit to within 2e-6."""
    if floor <= -1.0:
        return math.inf
    return math.acos(min(1.0, floor + 1e-5)) - 2.0 * _ANGLE_PAD
