"""Split and merge moves of Dirichlet-process mixtures, exact for any component.

Target       p(z, pivots | X) ~ alpha^K prod_k Gamma(n_k) p(pivot_k) m(x_k | pivot_k)             dp_tgmm.md, 6, (F)
Attempt      with probability 1/2 a split of a random cluster, else a merge of two that are near          8.1, 8.5
Division     `random` or `launch`, see fitting/divisions.py                                               8.2, 8.3
Ratio        (G): evidences, Gamma factors, and the probabilities of choosing and of dividing             8.1

Covariances, concentrations and weights are integrated out of the target, so none is proposed. Pivots of new clusters
are drawn fresh: a copied one would have no density and no way back. The number of attempts in a sweep must not depend
on the state; one for each cluster would prefer states with few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from armillary._typing import Float64Array
from armillary.distributions.components import Component, Pivot
from armillary.fitting.dirichlet_process import Clusters
from armillary.fitting.divisions import LaunchDivision, RandomDivision, Sides

# Far pairs are chosen too, a ten-thousandth as often as touching ones.
_FAR_WEIGHT = 1e-4


def log_split_ratio(
    weight_concentration: float,
    counts: tuple[int, int],
    evidences: tuple[float, float],
    evidence_together: float,
    *,
    log_pair: float,
    log_choice: float,
    log_division: float,
) -> float:
    """(G): target ratio times proposal ratio of a split into b and c; a merge has minus this.

    `log_pair` is the log probability that a merge chooses {b, c}, `log_choice` that a split chooses the whole, and
    `log_division` that it divides it so.
    """
    n_left, n_right = counts
    partitions = math.lgamma(n_left) + math.lgamma(n_right) - math.lgamma(n_left + n_right)
    target = math.log(weight_concentration) + partitions + sum(evidences) - evidence_together
    return target + log_pair - log_choice - log_division


class Summaries:
    """Centres and variances of K clusters, by which pairs to merge are chosen."""

    def __init__(self, component: Component, centres: Sequence[Float64Array], variances: Sequence[float]) -> None:
        self._component = component
        self._centres = np.array(centres)
        self._variances = np.array(variances)

    def weights(self, cluster: int) -> Float64Array:
        """Weights (K,) of the other clusters as partners of one; its own is 0."""
        squares = self._component.squared_distances(self._centres[cluster], self._centres)
        weights = (1.0 + squares / (self._variances[cluster] + self._variances)) ** -2.0 + _FAR_WEIGHT
        weights[cluster] = 0.0
        return np.asarray(weights)

    def draw_pair(self, generator: np.random.Generator) -> tuple[int, int]:
        """One cluster at random, and a partner by weight."""
        first = int(generator.integers(len(self._centres)))
        cumulative = np.cumsum(self.weights(first))
        found = np.searchsorted(cumulative, generator.random() * cumulative[-1], side="right")
        # a uniform next to 1 can round up to the total, which the last cluster with weight takes
        return first, int(min(found, np.searchsorted(cumulative, cumulative[-1], side="left")))

    def log_probability(self, first: int, second: int) -> float:
        """Of the pair, whichever of the two was chosen first."""
        ours, theirs = self.weights(first), self.weights(second)
        return math.log((ours[second] / ours.sum() + theirs[first] / theirs.sum()) / len(self._centres))


@dataclass
class Cluster:
    """What is kept with a cluster while its rows stay the same; its rows themselves are in `Clusters`."""

    pivot: Pivot
    evidence: float | None = None  # None: not asked for yet
    summary: tuple[Float64Array, float] | None = None
    note: Any = None  # whatever a sampler wants to find again; a new cluster has none


class SplitMerge:
    """A partition with pivots, and attempts to change it."""

    def __init__(
        self, component: Component, rows: Clusters, clusters: list[Cluster], weight_concentration: float
    ) -> None:
        self.clusters = clusters
        self._component = component
        self._rows = rows
        self._alpha = weight_concentration

    def attempt(self, kind: str, generator: np.random.Generator) -> bool:
        """One attempt with `random` or `launch` divisions; returns whether the partition changed."""
        if generator.random() < 0.5:
            return self._try_split(kind, generator)
        return self._try_merge(kind, generator)

    def _try_split(self, kind: str, generator: np.random.Generator) -> bool:
        whole = int(generator.integers(len(self.clusters)))
        rows = self._rows.rows(whole)
        if len(rows) == 1:
            return False
        division = self._division(kind, rows, generator)
        is_left = division.draw(len(rows), generator)
        return self.propose_split(whole, is_left, division.log_probability(is_left), generator)

    def propose_split(self, whole: int, is_left: Sides, log_division: float, generator: np.random.Generator) -> bool:
        """Accept or reject a division of a cluster that was proposed with a given probability."""
        if is_left.all() or not is_left.any():
            return False
        rows = self._rows.rows(whole)
        left, right = self._drawn(rows[is_left], generator), self._drawn(rows[~is_left], generator)
        n_left = int(np.count_nonzero(is_left))
        after = [*self.clusters, right]
        after[whole] = left
        log_ratio = log_split_ratio(
            self._alpha,
            (n_left, len(rows) - n_left),
            (_known(left.evidence), _known(right.evidence)),
            self._evidence(whole),
            log_pair=self._summaries(after).log_probability(whole, len(after) - 1),
            log_choice=-math.log(len(self.clusters)),
            log_division=log_division,
        )
        if not -generator.standard_exponential() < log_ratio:
            return False
        self._rows.split(whole, is_left)
        self.clusters[:] = after
        return True

    def _try_merge(self, kind: str, generator: np.random.Generator) -> bool:
        if len(self.clusters) == 1:
            return False
        summaries = self._summaries(self.clusters)
        first, second = summaries.draw_pair(generator)
        rows, is_first = self._rows.union(first, second)
        division = self._division(kind, rows, generator)
        whole = self._drawn(rows, generator)
        n_first = int(np.count_nonzero(is_first))
        log_ratio = -log_split_ratio(
            self._alpha,
            (n_first, len(rows) - n_first),
            (self._evidence(first), self._evidence(second)),
            _known(whole.evidence),
            log_pair=summaries.log_probability(first, second),
            log_choice=-math.log(len(self.clusters) - 1),
            log_division=division.log_probability(is_first),
        )
        if not -generator.standard_exponential() < log_ratio:
            return False
        self.merge(first, second, whole)
        return True

    def merge(self, first: int, second: int, whole: Cluster) -> None:
        """Put `whole` where `first` was; the last cluster takes the place of `second`, as in `Clusters.merge`."""
        self._rows.merge(first, second)
        self.clusters[first] = whole
        last = self.clusters.pop()
        if second < len(self.clusters):
            self.clusters[second] = last

    def _division(
        self, kind: str, rows: Float64Array, generator: np.random.Generator
    ) -> RandomDivision | LaunchDivision:
        if kind == "random":
            return RandomDivision(self._alpha)
        return LaunchDivision(self._component, rows, generator)

    def _drawn(self, rows: Float64Array, generator: np.random.Generator) -> Cluster:
        """A new cluster of these rows."""
        return Cluster(*self._component.draw(rows, generator), self._component.summary(rows))

    def _evidence(self, number: int) -> float:
        cluster = self.clusters[number]
        if cluster.evidence is None:
            cluster.evidence = self._component.evidence(cluster.pivot, self._rows.rows(number))
        return cluster.evidence

    def _summaries(self, clusters: list[Cluster]) -> Summaries:
        found = []
        for number, cluster in enumerate(clusters):
            if cluster.summary is None:
                cluster.summary = self._component.summary(self._rows.rows(number))
            found.append(cluster.summary)
        return Summaries(self._component, *zip(*found, strict=True))


def _known(evidence: float | None) -> float:
    assert evidence is not None, "a drawn cluster has its evidence"
    return evidence
