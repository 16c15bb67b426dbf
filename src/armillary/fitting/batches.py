"""Labels in batches: directions move after every batch of rows, not after all of them.

A batch is some rows in a row, so that one is read from a file in one go. The sums are always those of all rows by the
labels that they have now: a batch that comes again first takes out what it had put in (whole sums, so exactly; Neal and
Hinton 1998 do the same for EM). So nothing is forgotten and nothing counts twice, and from the second round on

- the objective never falls from batch to batch: labels are the best for the directions, directions for the labels;
- a round in which no row moves ends at a fixed point of Lloyd's algorithm over all rows;
- one batch of all rows is Lloyd's algorithm.

The first round has sums of the rows seen so far. What comes out depends on rows, seed and the size of batches, not on
cuts, files or threads. Learning rates of other mini-batch k-means (Sculley 2010) promise none of this: rows that were
labelled by bad directions stay in their sums.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.engines.contract import Between, Passes, Placed
from armillary.fitting.assignment import HardAssignment
from armillary.rules import AffineRule
from armillary.sums.directional import DirectionalStatistics

_NOBODY = np.empty(0, dtype=np.int64)


class BatchedAssignment:
    """Labels of the rows of `passes` among K clusters, batch by batch."""

    def __init__(self, passes: Passes, batch_size: int, n_clusters: int) -> None:
        points = passes.points
        starts = range(0, points.n_rows, batch_size)
        self._parts = [HardAssignment(_batch(passes, first, batch_size)) for first in starts]
        self._n_clusters = n_clusters
        self._sizes = np.zeros(n_clusters, dtype=np.int64)  # rows of weight above 0 in each cluster
        self.statistics = DirectionalStatistics.zero(n_clusters, points.n_features, points.q)

    def __len__(self) -> int:
        """How many batches."""
        return len(self._parts)

    def sweep(self, number: int, rule: AffineRule) -> int:
        """Label the rows of one batch, and bring the sums over all rows up to date; return how many moved."""
        part = self._parts[number]
        sums, sizes = self._known(part)
        n_moved, after = part.sweep(rule)
        self._replace(part, sums, sizes, after)
        return n_moved

    def fill_empty(self, number: int, directions: Float64Array) -> bool:
        """Give clusters that no row of any batch is in a row of this one; whether any got one."""
        n_filled = np.count_nonzero(self._sizes)
        if n_filled == self._n_clusters:
            return False
        part = self._parts[number]
        sums, sizes = self._known(part)
        self._replace(part, sums, sizes, part.fill_empty(directions, self._sizes))
        return bool(np.count_nonzero(self._sizes) > n_filled)

    def _known(self, part: HardAssignment) -> tuple[DirectionalStatistics, npt.NDArray[np.int64]]:
        return part.passes.sum(part.labels, self._n_clusters), part.labels.sizes(self._n_clusters, counted=True)

    def _replace(
        self,
        part: HardAssignment,
        sums: DirectionalStatistics,
        sizes: npt.NDArray[np.int64],
        after: DirectionalStatistics,
    ) -> None:
        """Take out what a batch had put in, and put in what it has now."""
        now = self.statistics
        self.statistics = DirectionalStatistics(
            now.counts + after.counts - sums.counts, now.resultants + after.resultants - sums.resultants, now.q
        )
        self._sizes += part.labels.sizes(self._n_clusters, counted=True) - sizes
        part.labels.put(_NOBODY, _NOBODY)  # has the engine let go of K x D sums, which every batch would keep


def _batch(passes: Passes, first: int, batch_size: int) -> Passes:
    """Some rows, whose sums have the grid of all."""
    points = passes.points
    last = min(first + batch_size, points.n_rows)
    return passes.over(Between(first, last)).over(Placed(points.first_row + first, points.q))
