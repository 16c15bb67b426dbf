"""Count and resultant of each cluster: all that a vMF-like model ever asks of its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.validation import safe_factors


@dataclass(frozen=True, eq=False)
class DirectionalStatistics:
    """Sums over the rows of K clusters. A value: every verb returns a new one."""

    counts: Float64Array  # (K,) sum of weights
    resultants: Float64Array  # (K, D) weighted sum of rows

    @classmethod
    def zero(cls, n_clusters: int, n_features: int) -> DirectionalStatistics:
        """No rows yet."""
        return cls(np.zeros(n_clusters), np.zeros((n_clusters, n_features)))

    @property
    def lengths(self) -> Float64Array:
        """Lengths (K,) of the resultants."""
        _, norms, factors = self._scaled()
        return norms / factors

    def add(self, cluster: int, row: Float64Array, weight: float = 1.0) -> DirectionalStatistics:
        """One more row in `cluster`."""
        counts, resultants = self.counts.copy(), self.resultants.copy()
        counts[cluster] += weight
        resultants[cluster] += weight * row
        return DirectionalStatistics(counts, resultants)

    def remove(self, cluster: int, row: Float64Array, weight: float = 1.0) -> DirectionalStatistics:
        """One row fewer in `cluster`."""
        return self.add(cluster, row, -weight)

    def merge(self, other: DirectionalStatistics) -> DirectionalStatistics:
        """The sums of both sets of rows, cluster by cluster."""
        return DirectionalStatistics(self.counts + other.counts, self.resultants + other.resultants)

    def scale(self, factor: float) -> DirectionalStatistics:
        """All weights times `factor`: forgetting, or a mini-batch that stands for the whole."""
        return DirectionalStatistics(self.counts * factor, self.resultants * factor)

    def extend(self, n_clusters: int) -> DirectionalStatistics:
        """`n_clusters` clusters in all, the new ones empty and last."""
        n_new = n_clusters - len(self.counts)
        return DirectionalStatistics(np.pad(self.counts, (0, n_new)), np.pad(self.resultants, ((0, n_new), (0, 0))))

    def select(self, clusters: npt.ArrayLike) -> DirectionalStatistics:
        """Only some clusters, in the order given (numbers or a mask)."""
        chosen = np.asarray(clusters)
        return DirectionalStatistics(self.counts[chosen], self.resultants[chosen])

    def directions(self, otherwise: Float64Array) -> Float64Array:
        """Unit resultants (K, D). Rows can cancel; the direction is then undefined and `otherwise` (K, D) is kept."""
        return self.polar(otherwise)[0]

    def polar(self, otherwise: Float64Array) -> tuple[Float64Array, Float64Array]:
        """`directions` and `lengths`."""
        scaled, norms, factors = self._scaled()
        lengths = norms / factors
        # below this the resultant is the rounding of the sum, not a direction
        has_direction = lengths > 1e-12 * np.maximum(self.counts, 0.0)
        if has_direction.all():
            return scaled / norms[:, None], lengths
        unit = scaled / np.where(has_direction, norms, 1.0)[:, None]
        unit[~has_direction] = otherwise[~has_direction]
        return unit, lengths

    def _scaled(self) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Resultants (K, D) times powers of two, their norms (K,), and the powers: squares stay in range.

        Only weights far from 1 need that; otherwise the powers are 1 and the resultants are not copied.
        """
        with np.errstate(over="ignore"):
            norms = np.sqrt(np.vecdot(self.resultants, self.resultants))
        if np.all((norms > 1e-120) & (norms < 1e120)):
            return self.resultants, norms, np.ones(len(norms))
        factors = safe_factors(np.abs(self.resultants).max(axis=1, initial=0.0))
        scaled = self.resultants * factors[:, None]
        return scaled, np.sqrt(np.vecdot(scaled, scaled)), factors
