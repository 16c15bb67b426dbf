"""Hard labels carried by the loop: sweeps under new directions, and rows for clusters that lost all of theirs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.engines.contract import Algorithm, Passes
from armillary.rules import AffineRule
from armillary.sums.directional import DirectionalStatistics

# Rows looked at first when empty clusters need some, and by how much more then.
_FEW_CANDIDATES = 1024
_GROWTH = 8


class HardAssignment:
    """Labels of the rows of `passes` among K clusters."""

    def __init__(self, passes: Passes, algorithm: Algorithm = "lloyd", n_clusters: int | None = None) -> None:
        self.passes = passes
        self.labels = passes.labels(algorithm, n_clusters)

    def sweep(self, rule: AffineRule) -> tuple[int, DirectionalStatistics]:
        """Label every row by `rule`, cosines if bounds are kept; return how many moved, and the new sums.

        Rows that the rule refuses keep a negative label (see engines/contract.py) and are in no sum.
        """
        outcome = self.passes.label(rule, self.labels)
        return outcome.n_moved, outcome.sums

    def fill_empty(self, directions: Float64Array, sizes: npt.NDArray[np.int64] | None = None) -> DirectionalStatistics:
        """Give each empty cluster the row that is farthest from its own direction; return the new sums.

        A row is taken only from a cluster with more than one row, so the objective does not fall (vmf_mixtures.md, 3).
        Where there are too few such rows, clusters stay empty. Clusters may have rows elsewhere: then `sizes` (K,) has
        all of theirs.
        """
        n_clusters = len(directions)
        own = self.passes.own(AffineRule.cosines(directions), self.labels)
        sizes = self.labels.sizes(n_clusters, counted=True) if sizes is None else sizes
        empty = np.flatnonzero(sizes == 0)
        most = _FEW_CANDIDATES
        while True:
            rows: list[int] = []
            left = sizes.copy()
            candidates = own.least(most, counted=True)
            givers = self.labels.at(candidates)
            for row, giver in zip(candidates.tolist(), givers.tolist(), strict=True):
                if len(rows) == len(empty):
                    break
                if left[giver] > 1:
                    left[giver] -= 1
                    rows.append(row)
            if len(rows) == len(empty) or len(candidates) < most:
                break
            most *= _GROWTH
        self.passes.move(self.labels, np.array(rows, dtype=np.int64), empty[: len(rows)])
        return self.passes.sum(self.labels, n_clusters)
