"""Merging clusters that lie within an angle together (dp_vmf_means.md, 10; not in the paper)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.fitting.passes import Passes
from armillary.kernels.contract import AffineRule
from armillary.statistics.directional import DirectionalStatistics

# Rows gathered at a time.
_MOST_ROWS = 1 << 16


def merge_within(
    passes: Passes,
    labels: npt.NDArray[np.int32],
    directions: Float64Array,
    statistics: DirectionalStatistics,
    floor: float,
) -> tuple[Float64Array, DirectionalStatistics]:
    """Merge, the closest pair first, clusters all of whose rows have a cosine of at least `floor` with the joint one.

    Writes the new labels over `labels` (n,); returns directions and statistics of the clusters that are left, in order.
    """
    n_clusters = len(directions)
    counts, resultants, directions = statistics.counts.copy(), statistics.resultants.copy(), directions.copy()
    order = np.argsort(labels, kind="stable")
    members = np.split(order, np.searchsorted(labels[order], np.arange(1, n_clusters)))
    closeness = _Closeness(directions)
    into = np.arange(n_clusters)
    while (pair := closeness.closest()) is not None:
        kept, other = pair
        both = [kept, other]
        joint = DirectionalStatistics(counts[both].sum(keepdims=True), resultants[both].sum(axis=0, keepdims=True))
        direction = joint.directions(otherwise=directions[[kept]])
        # within a hemisphere a mean direction is inside every cap that holds its rows
        is_far = floor >= 0.0 and (directions[both] @ direction[0]).min() < floor - 1e-9
        rows = np.concatenate([members[kept], members[other]])
        if is_far or not _are_within(passes, rows, direction, floor):
            closeness.rule_out(kept, other)
            continue
        counts[kept], resultants[kept], directions[kept] = joint.counts[0], joint.resultants[0], direction[0]
        members[kept], members[other] = rows, rows[:0]
        into[into == other] = kept
        closeness.merge(kept, other, directions)
    is_kept = into == np.arange(n_clusters)
    labels[:] = (np.cumsum(is_kept) - 1)[into].astype(np.int32)[labels]
    return directions[is_kept], DirectionalStatistics(counts[is_kept], resultants[is_kept])


def _are_within(passes: Passes, rows: npt.NDArray[np.int64], direction: Float64Array, floor: float) -> bool:
    rule = passes.kernels.prepare(AffineRule.cosines(direction))
    for start in range(0, len(rows), _MOST_ROWS):
        numbers = rows[start : start + _MOST_ROWS]
        cosines = np.empty((len(numbers), 1))
        passes.kernels.exact_scores(passes.points.gather(numbers), rule, cosines)
        if cosines.min() < floor:
            return False
    return True


class _Closeness:
    """The closest pair of directions that has not been ruled out, kept up in O(K) a change."""

    def __init__(self, directions: Float64Array) -> None:
        self._cosines = directions @ directions.T
        self._cosines[np.tril_indices(len(directions))] = -np.inf  # each pair once, the smaller number first
        self._best = self._cosines.max(axis=1, initial=-np.inf)
        self._is_there = np.ones(len(directions), dtype=np.bool_)

    def closest(self) -> tuple[int, int] | None:
        """The pair (smaller, larger), or None where no pair is left."""
        if len(self._best) == 0:
            return None
        first = int(np.argmax(self._best))
        if self._best[first] == -np.inf:
            return None
        return first, int(np.argmax(self._cosines[first]))

    def rule_out(self, first: int, second: int) -> None:
        """Not this pair, unless one of them changes."""
        self._cosines[first, second] = -np.inf
        self._best[first] = self._cosines[first].max()

    def merge(self, kept: int, gone: int, directions: Float64Array) -> None:
        """`kept` has a new direction and `gone` is no more."""
        self._cosines[gone] = -np.inf
        self._cosines[:, gone] = -np.inf
        self._is_there[gone] = False
        cosines = np.where(self._is_there, directions @ directions[kept], -np.inf)
        self._cosines[kept, kept + 1 :] = cosines[kept + 1 :]
        self._cosines[:kept, kept] = cosines[:kept]
        self._best = self._cosines.max(axis=1, initial=-np.inf)
