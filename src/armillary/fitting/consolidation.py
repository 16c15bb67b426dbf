"""Merging clusters that lie within an angle together (dp_vmf_means.md, 10; not in the paper)."""

from __future__ import annotations

import heapq

import numpy as np

from armillary._typing import Float64Array
from armillary.engines.contract import Labels, Passes
from armillary.rules import AffineRule
from armillary.sums.directional import DirectionalStatistics

# Directions compared at a time.
_MOST_DIRECTIONS = 1 << 10
# Rounding of a cosine between directions.
_DOUBT = 1e-9


def merge_within(
    passes: Passes,
    labels: Labels,
    directions: Float64Array,
    statistics: DirectionalStatistics,
    floor: float,
) -> tuple[Float64Array, DirectionalStatistics]:
    """Merge, the closest pair first, clusters all of whose rows have a cosine of at least `floor` with the joint one.

    Writes the new labels over `labels`; returns directions and statistics of the clusters that are left, in order.
    """
    n_clusters = len(directions)
    counts, resultants, directions = statistics.counts.copy(), statistics.resultants.copy(), directions.copy()
    groups = passes.groups(labels, n_clusters)
    into = np.arange(n_clusters)
    pairs = _ClosePairs(directions, floor)
    while (pair := pairs.pop()) is not None:
        both = list(pair)
        kept, gone = pair
        sums = counts[both].sum(keepdims=True), resultants[both].sum(axis=0, keepdims=True)
        joint = DirectionalStatistics(*sums, statistics.q)
        direction = joint.directions(otherwise=directions[[kept]])
        # within a hemisphere a mean direction is inside every cap that holds its rows
        is_far = floor >= 0.0 and (directions[both] @ direction[0]).min() < floor - _DOUBT
        if is_far or passes.lowest(groups, AffineRule.cosines(direction), pair) < floor:
            continue
        counts[kept], resultants[kept], directions[kept] = joint.counts[0], joint.resultants[0], direction[0]
        groups.merge(kept, gone)
        into[into == gone] = kept
        pairs.merge(kept, gone)
    is_kept = into == np.arange(n_clusters)
    labels.rename((np.cumsum(is_kept) - 1)[into])
    return directions[is_kept], DirectionalStatistics(counts[is_kept], resultants[is_kept], statistics.q)


class _ClosePairs:
    """Pairs of directions that may lie in one cap, the closest first; a pair comes once until one of the two changes.

    Both directions are within the angle of the joint one, so they are within twice that angle of each other.
    """

    def __init__(self, directions: Float64Array, floor: float) -> None:
        self._directions = directions  # the caller's array, which it changes
        # cos(2 a) = 2 cos(a)^2 - 1; beyond a right angle every pair may fit
        self._least = 2.0 * floor**2 - 1.0 - _DOUBT if floor > 0.0 else -np.inf
        self._age = np.zeros(len(directions), dtype=np.int64)  # merges so far; -1: gone
        self._heap: list[tuple[float, int, int, int, int]] = []
        for start in range(0, len(directions), _MOST_DIRECTIONS):
            cosines = directions[start : start + _MOST_DIRECTIONS] @ directions.T
            firsts, seconds = np.nonzero(cosines >= self._least)
            is_pair = start + firsts < seconds
            firsts, seconds = firsts[is_pair], seconds[is_pair]
            closeness = (-cosines[firsts, seconds]).tolist()
            found = zip(closeness, (start + firsts).tolist(), seconds.tolist(), strict=True)
            self._heap += [(*pair, 0, 0) for pair in found]
        heapq.heapify(self._heap)

    def pop(self) -> tuple[int, int] | None:
        """The next pair, the smaller number first."""
        while self._heap:
            _, first, second, first_age, second_age = heapq.heappop(self._heap)
            if self._age[first] == first_age and self._age[second] == second_age:
                return first, second
        return None

    def merge(self, kept: int, gone: int) -> None:
        """`kept` has a new direction and `gone` is no more."""
        self._age[gone] = -1
        self._age[kept] += 1
        cosines = self._directions @ self._directions[kept]
        for other in np.flatnonzero((cosines >= self._least) & (self._age >= 0)).tolist():
            if other != kept:
                first, second = min(kept, other), max(kept, other)
                ages = (int(self._age[first]), int(self._age[second]))
                heapq.heappush(self._heap, (-float(cosines[other]), first, second, *ages))
