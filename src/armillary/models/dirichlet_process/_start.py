"""Where chains of Dirichlet-process mixtures start, and how they settle (dp_tgmm.md, 10).

k-means      many small clusters of spherical k-means, merged greedily; then sweeps with as many attempts as clusters,
             each followed by greedy merges
one          one cluster; sweeps with as many attempts as clusters let it grow, and greedy merges undo the excess

Greedy merges climb the posterior of the hard partition, which prefers one Gaussian to its two halves. They are no
posterior kernel, and neither are attempts that follow the number of clusters: both end before sampling begins, after a
number of sweeps that is fixed from the start.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from armillary.distributions.components import Component
from armillary.engines.contract import Partition
from armillary.models.dirichlet_process._split_merge import Summaries, merged

# Clusters of the k-means start, if there are rows for them.
_MOST_SEEDS = 100
_ROWS_PER_SEED = 10
# Partners of a cluster that a greedy merge looks at: the nearest ones.
_N_NEIGHBOURS = 4
# Rows of the unions that are weighed together.
_ROWS_AT_ONCE = 1 << 16
# Sweeps with greedy merges, and sweeps of growth from one cluster.
_SETTLING_SWEEPS = 10
_GROWING_SWEEPS = 30
_SHRINKING_SWEEPS = 5


def n_seeds(n_rows: int) -> int:
    """Clusters to over-seed with."""
    return max(1, min(_MOST_SEEDS, n_rows // _ROWS_PER_SEED))


class WarmUp(NamedTuple):
    """What the sweeps before the sampler proper do."""

    n_settling: int = 0  # first sweeps: as many attempts as clusters, then greedy merges
    n_growing: int = 0  # or: as many `launch` attempts as clusters, no greedy merges, ...
    n_shrinking: int = 0  # ... then greedy merges before each sweep

    @property
    def n_sweeps(self) -> int:
        """All of them."""
        return self.n_settling + self.n_growing + self.n_shrinking


NO_WARM_UP = WarmUp()
SETTLE = WarmUp(n_settling=_SETTLING_SWEEPS)
# greedy merges while it grows would undo the first splits, and the chain would stay at one cluster
GROW = WarmUp(n_growing=_GROWING_SWEEPS, n_shrinking=_SHRINKING_SWEEPS)


def merge_greedily(component: Component, clusters: Partition, alpha: float) -> int:
    """Merge near pairs, the best first, while the posterior of the partition rises; returns how many merges were made.

    Evidences are taken at the centre of the proposal, a function of the set: drawn ones would make a set look terrible
    now and then, and cause a wrong merge.
    """
    return _Greedy(component, clusters, alpha).run()


class _Greedy:
    """Evidences and summaries of the clusters, and the gains of the pairs looked at so far."""

    def __init__(self, component: Component, clusters: Partition, alpha: float) -> None:
        self._component = component
        self._clusters = clusters
        self._log_alpha = math.log(alpha)
        self._evidences = component.central_evidence(clusters.sets())
        self._summaries = Summaries(component, *component.summary(clusters.sets()))
        # (K, K): of a pair the same, whichever is asked for its partners
        self._weights = np.array([self._summaries.weights(cluster) for cluster in range(len(clusters))])
        # by the first row of each cluster, which stays its own while it lasts
        self._gains: dict[frozenset[int], float] = {}

    def run(self) -> int:
        n_merges = 0
        while len(self._clusters) > 1:
            pairs = self._near_pairs()
            rows = [self._clusters.first_row(cluster) for cluster in range(len(self._clusters))]
            keys = [frozenset((rows[first], rows[second])) for first, second in pairs]
            self._look_at([pair for pair, key in zip(pairs, keys, strict=True) if key not in self._gains])
            gains = [self._gains[key] for key in keys]
            best = int(np.argmax(gains))
            if not gains[best] > 0.0:
                break
            self._merge(*pairs[best])
            n_merges += 1
        return n_merges

    def _near_pairs(self) -> list[tuple[int, int]]:
        n_clusters = len(self._weights)
        nearest = np.argsort(-self._weights, axis=1, kind="stable")[:, :_N_NEIGHBOURS]
        own = np.arange(n_clusters)[:, None]
        codes = (np.minimum(own, nearest) * n_clusters + np.maximum(own, nearest))[nearest != own]
        return [divmod(code, n_clusters) for code in np.unique(codes).tolist()]

    def _look_at(self, pairs: list[tuple[int, int]]) -> None:
        """Find how much the log posterior of the hard partition rises by each merge."""
        counts = self._clusters.counts
        while pairs:
            # together while they have few rows: their numbers are copied
            n_rows = np.cumsum([counts[first] + counts[second] for first, second in pairs])
            n_pairs = max(1, int(np.searchsorted(n_rows, _ROWS_AT_ONCE)))
            together = self._component.central_evidence(self._clusters.unions(pairs[:n_pairs]))
            for (first, second), evidence in zip(pairs[:n_pairs], together, strict=True):
                self._gains[self._key((first, second))] = (
                    float(evidence - self._evidences[first] - self._evidences[second])
                    + math.lgamma(counts[first] + counts[second])
                    - math.lgamma(counts[first])
                    - math.lgamma(counts[second])
                    - self._log_alpha
                )
            pairs = pairs[n_pairs:]

    def _key(self, pair: tuple[int, int]) -> frozenset[int]:
        return frozenset(self._clusters.first_row(cluster) for cluster in pair)

    def _merge(self, first: int, second: int) -> None:
        gone = self._key((first, second))
        self._gains = {key: gain for key, gain in self._gains.items() if not key & gone}
        self._clusters.merge(first, second)
        whole = self._clusters.sets(first)
        self._evidences = merged(self._evidences, first, second, self._component.central_evidence(whole))
        summary = Summaries(self._component, *self._component.summary(whole))
        self._summaries = self._summaries.merged(first, second, summary)
        own = self._summaries.weights(first)
        across = merged(self._weights.T, first, second, np.zeros((1, len(self._weights))))
        self._weights = merged(across.T, first, second, own[None])
        self._weights[:, first] = own
