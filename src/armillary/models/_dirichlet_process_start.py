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
from typing import NamedTuple, TypeVar

import numpy as np

from armillary.distributions.components import Component, Pivot
from armillary.fitting.dirichlet_process import Clusters
from armillary.models._split_merge import Summaries

T = TypeVar("T")

# Clusters of the k-means start, if there are rows for them.
_MOST_SEEDS = 100
_ROWS_PER_SEED = 10
# Partners of a cluster that a greedy merge looks at: the nearest ones.
_N_NEIGHBOURS = 4
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


def draw_pivots(component: Component, clusters: Clusters, generator: np.random.Generator) -> list[Pivot]:
    """A pivot for each cluster, from its proposal."""
    return [component.draw(clusters.rows(k), generator)[0] for k in range(len(clusters))]


def merge_greedily(component: Component, clusters: Clusters, alpha: float) -> int:
    """Merge near pairs, the best first, while the posterior of the partition rises; returns how many merges were made.

    Evidences are taken at the centre of the proposal, a function of the set: drawn ones would make a set look terrible
    now and then, and cause a wrong merge.
    """
    return _Greedy(component, clusters, alpha).run()


class _Greedy:
    """Evidences and summaries of the clusters, and the gains of the pairs looked at so far."""

    def __init__(self, component: Component, clusters: Clusters, alpha: float) -> None:
        self._component = component
        self._clusters = clusters
        self._log_alpha = math.log(alpha)
        every = range(len(clusters))
        self._evidences = [component.central_evidence(clusters.rows(k)) for k in every]
        self._summaries = [component.summary(clusters.rows(k)) for k in every]
        # by the first row of each cluster, which stays its own while it lasts
        self._gains: dict[frozenset[int], float] = {}

    def run(self) -> int:
        n_merges = 0
        while len(self._clusters) > 1:
            pairs = self._near_pairs()
            gains = [self._gain(*pair) for pair in pairs]
            best = int(np.argmax(gains))
            if not gains[best] > 0.0:
                break
            self._merge(*pairs[best])
            n_merges += 1
        return n_merges

    def _near_pairs(self) -> list[tuple[int, int]]:
        summaries = Summaries(self._component, *zip(*self._summaries, strict=True))
        pairs = set()
        for k in range(len(self._clusters)):
            nearest = np.argsort(-summaries.weights(k), kind="stable")[:_N_NEIGHBOURS]
            pairs |= {(min(k, int(j)), max(k, int(j))) for j in nearest if j != k}
        return sorted(pairs)

    def _gain(self, first: int, second: int) -> float:
        """How much the log posterior of the hard partition rises by a merge."""
        sizes = len(self._clusters.numbers(first)), len(self._clusters.numbers(second))
        key = frozenset((self._name(first), self._name(second)))
        if key not in self._gains:
            together = self._component.central_evidence(self._clusters.union(first, second)[0])
            self._gains[key] = (
                together
                - self._evidences[first]
                - self._evidences[second]
                + math.lgamma(sum(sizes))
                - math.lgamma(sizes[0])
                - math.lgamma(sizes[1])
                - self._log_alpha
            )
        return self._gains[key]

    def _name(self, cluster: int) -> int:
        return int(self._clusters.numbers(cluster)[0])

    def _merge(self, first: int, second: int) -> None:
        gone = {self._name(first), self._name(second)}
        self._gains = {key: gain for key, gain in self._gains.items() if not key & gone}
        self._clusters.merge(first, second)
        rows = self._clusters.rows(first)
        _replace_two(self._evidences, first, second, self._component.central_evidence(rows))
        _replace_two(self._summaries, first, second, self._component.summary(rows))


def _replace_two(kept: list[T], first: int, second: int, new: T) -> None:
    """`new` where `first` was; the last takes the place of `second`, as in `Clusters.merge`."""
    kept[first] = new
    last = kept.pop()
    if second < len(kept):
        kept[second] = last
