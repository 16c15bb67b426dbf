"""The moves of the paper: each cluster keeps two sub-clusters, which propose its splits (dp_tgmm.md, 8.4).

APPROXIMATE. The division that the sub-clusters propose counts as certain, and a merge that would undo it is never made
(it would have to meet the very same sub-labels), so splits have no way back and K is biased upwards. The bias fades
with the number of rows. On six (tests/oracles) the total variation from the posterior is 0.1 to 0.2 with one exact
move in each sweep, and 0.7 where sub-clusters propose in every sweep rather than after eight. Ratios are those of
Straub et al. 2015, corrected: pivots of the parts are drawn fresh and weighed (20), and `random` moves, which are
exact, take the place of (23) and (24). Started from one cluster on many the chain may never leave it: a hard cut of a
cloud that is nearly uniform loses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from armillary.distributions.components import Pivot
from armillary.fitting.divisions import Sides, SubLabels
from armillary.models._dirichlet_process_chains import SplitMergeChain
from armillary.models._split_merge import Cluster, SplitMerge

# Sweeps that sub-clusters are given before they propose, and after which they start again if nothing came of it.
_SUB_BURN_IN = 8
_PATIENCE = 30


@dataclass
class _Halves:
    """The sub-clusters of one cluster."""

    pivots: list[Pivot]
    age: int = 0


class SubclusterChain(SplitMergeChain):
    """Parameters and anchored labels as in the exact sampler; splits by sub-clusters; exact `random` attempts."""

    def _sweep(self) -> None:
        self._draw_alpha()
        if not hasattr(self, "_sides"):
            self._sides = SubLabels(self.rows.n_rows)
            self._notes: list[_Halves | None] = [None] * len(self.pivots)
            self.n_accepted["subclusters"] = 0
        self._draw_labels(self._draw_parameters())
        clusters = [Cluster(pivot, note=note) for pivot, note in zip(self.pivots, self._notes, strict=True)]
        moves = SplitMerge(self.component, self.rows, clusters, self.alpha)
        for k in range(len(clusters)):
            generator = self._generator("sub-clusters", k)
            is_left = self._refine(k, clusters[k], generator)
            # the clusters that a split adds are looked at in the next sweep
            if is_left is not None and clusters[k].note.age >= _SUB_BURN_IN:
                self.n_accepted["subclusters"] += moves.propose_split(k, is_left, 0.0, generator)
        for attempt in range(self.setting.n_attempts):
            self.n_accepted["random"] += moves.attempt("random", self._generator("random", attempt))
        self.pivots = [cluster.pivot for cluster in moves.clusters]
        self._notes = [cluster.note for cluster in moves.clusters]

    def _refine(self, k: int, cluster: Cluster, generator: np.random.Generator) -> Sides | None:
        """One sweep of the two sub-clusters of cluster k: which of its rows are left; None where none can be parted."""
        rows, numbers = self.rows.rows(k), self.rows.numbers(k)
        is_left = self._sides.of(numbers)
        if cluster.note is None or cluster.note.age > _PATIENCE or _is_lopsided(is_left):
            is_left = self._sides.restart(numbers, rows, generator)
            if _is_lopsided(is_left):
                cluster.note = None
                return None
            pivots = [self.component.draw(part, generator)[0] for part in (rows[is_left], rows[~is_left])]
            cluster.note = _Halves(pivots)
        halves: _Halves = cluster.note
        halves.age += 1
        laws = []
        for half, part in enumerate((rows[is_left], rows[~is_left])):
            halves.pivots[half] = self.component.update(halves.pivots[half], part, generator)
            laws.append(self.component.draw_parameters(halves.pivots[half], part, generator))
        return self._sides.redraw(self.component, numbers, rows, laws, 0.5 * self.alpha, generator)


def _is_lopsided(is_left: Sides) -> bool:
    return bool(is_left.all() or not is_left.any())
