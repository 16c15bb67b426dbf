"""The moves of the paper: each cluster keeps two sub-clusters, which propose its splits (dp_tgmm.md, 8.4).

APPROXIMATE. The division that the sub-clusters propose counts as certain, and a merge that would undo it is never made
(it would have to meet the very same sub-labels), so splits have no way back and K is biased upwards. The bias fades
with the number of rows. On six (tests/oracles, 20,000 sweeps) the total variation from the posterior is 0.15 for
tangent and 0.16 for Euclidean Gaussians, where chance alone gives 0.05, with one exact move in each sweep; and 0.7
where sub-clusters propose in every sweep rather than after eight. Ratios are those of Straub et al. 2015, corrected:
pivots of the parts are drawn fresh and weighed (20), and `random` moves, which are exact, take the place of (23) and
(24). Started from one cluster on many the chain may never leave it: a hard cut of a cloud that is nearly uniform loses.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.distributions.components import Pivots
from armillary.engines.contract import Halves as Sides
from armillary.engines.contract import Passes
from armillary.fitting.divisions import SubLabels
from armillary.models.dirichlet_process._chains import SplitMergeChain
from armillary.models.dirichlet_process._split_merge import Drawn, SplitMerge

# Sweeps that sub-clusters are given before they propose, and after which they start again if nothing came of it.
_SUB_BURN_IN = 8
_PATIENCE = 30
# The age of a cluster that has no sub-clusters.
NO_HALVES = -1


class Halves(NamedTuple):
    """The sub-clusters of a chain: what it takes to go on with it."""

    sides: Sides  # of each row
    ages: npt.NDArray[np.int64]  # (K,) sweeps since they began; `NO_HALVES` where there are none
    pivots: Pivots  # (2 K, D) of left and right; whatever it was where there are none


def packed_halves(
    chains: list[Halves], n_features: int
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64], Float64Array]:
    """What a model keeps of the halves of all chains: sides, ages, pivots."""
    pivots = [own.pivots for own in chains if own.pivots is not None]
    sides, ages = np.array([own.sides.to_host() for own in chains]), np.concatenate([own.ages for own in chains])
    return sides, ages, np.concatenate([np.empty((0, n_features)), *pivots])


def unpacked_halves(
    passes: Passes,
    sizes: list[int],
    sides: npt.NDArray[np.bool_],
    ages: npt.NDArray[np.int64],
    pivots: Float64Array,
) -> list[Halves]:
    """The halves of chains with so many clusters, from what is kept."""
    edges = np.cumsum([0, *sizes])
    found = []
    for own, (first, last) in zip(sides, pairwise(edges.tolist()), strict=True):
        own_pivots = pivots[2 * first : 2 * last] if len(pivots) else None
        found.append(Halves(passes.halves(own), ages[first:last], own_pivots))
    return found


class SubclusterChain(SplitMergeChain):
    """Parameters and anchored labels as in the exact sampler; splits by sub-clusters; exact `random` attempts."""

    def __init__(self, *known: Any, halves: Halves | None = None, **named: Any) -> None:
        super().__init__(*known, **named)
        self.n_accepted["subclusters"] = 0
        if halves is None:
            ages = np.full(len(self.rows), NO_HALVES)
            pivots = None if self.pivots is None else np.repeat(self.pivots, 2, axis=0)
            halves = Halves(self.setting.passes.halves(), ages, pivots)
        self.halves = halves

    def _sweep(self) -> None:
        self._draw_alpha()
        self._draw_labels(self._draw_parameters())
        sides, ages, pivots = SubLabels(self.halves.sides), self.halves.ages, self.halves.pivots
        ages, pivots, chosen = self._refined(sides, ages, pivots)
        moves = SplitMerge(self.component, self.rows, self.pivots, self.alpha)
        # the clusters that a split adds are looked at in the next sweep
        self._propose(moves, sides, [k for k in chosen if ages[k] >= _SUB_BURN_IN])
        self._attempt(moves, self.setting.n_attempts, 0)
        self.pivots = moves.pivots
        is_old = moves.origins >= 0
        ages = np.where(is_old, ages[moves.origins], NO_HALVES)
        if pivots is not None:
            pivots = pivots.reshape(-1, 2, pivots.shape[1])[moves.origins].reshape(-1, pivots.shape[1])
        self.halves = Halves(sides.halves, ages, pivots)

    def _refined(
        self, sides: SubLabels, ages: npt.NDArray[np.int64], pivots: Pivots
    ) -> tuple[npt.NDArray[np.int64], Pivots, list[int]]:
        """One sweep of all sub-clusters: new ages and pivots, and the clusters that have two."""
        ages, is_new = ages.copy(), np.zeros(len(ages), dtype=np.bool_)
        is_due = (ages == NO_HALVES) | (ages > _PATIENCE) | ~sides.has_both(self.rows.sets())
        for k in np.flatnonzero(is_due).tolist():
            is_new[k] = sides.restart(self.rows.sets(k), self._generator("sub-clusters", k))
            ages[k] = 0 if is_new[k] else NO_HALVES
        chosen = np.flatnonzero(ages != NO_HALVES)
        if not len(chosen):
            return ages, pivots, []
        ages[chosen] += 1
        places = (2 * chosen[:, None] + np.arange(2)).ravel()
        generator = self._generator("sub-parameters")
        wholes = self.rows.sets(*chosen.tolist())
        sets = sides.halves.parts(wholes)
        own = None if pivots is None else pivots[places]
        drawn = self.component.draw(sets, generator)[0] if is_new.any() else None
        if own is not None and drawn is not None:
            own = np.where(np.repeat(is_new[chosen], 2)[:, None], drawn, own)
        own, laws = self.component.renew(own, sets, generator)
        if pivots is not None and own is not None:
            pivots = pivots.copy()
            pivots[places] = own
        sides.redraw(self.component, wholes, laws, 0.5 * self.alpha, generator, self._key("sub-sides"))
        return ages, pivots, chosen.tolist()

    def _propose(self, moves: SplitMerge, sides: SubLabels, clusters: list[int]) -> None:
        """Splits of clusters into their sub-clusters, one after the other."""
        has_both = sides.has_both(self.rows.sets())
        chosen = [k for k in clusters if has_both[k]]
        if not chosen:
            return
        generator = self._generator("sub-splits")
        wholes = self.rows.sets(*chosen)
        divisions = sides.halves.of(wholes)
        drawn = Drawn.of(self.component, sides.halves.parts(wholes), generator)
        for place, (k, own) in enumerate(zip(chosen, divisions, strict=True)):
            parts = drawn.part(slice(2 * place, 2 * place + 2))
            self.n_accepted["subclusters"] += moves.propose_split(k, own, 0.0, parts, generator)
