"""Count and resultant of each cluster: all that a vMF-like model ever asks of its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.sums import whole
from armillary.validation import safe_factors

# Quanta in each coordinate up to which rows may be said to cancel.
_QUANTA = 2.0


@dataclass(frozen=True, eq=False)
class DirectionalStatistics:
    """Sums over the rows of K clusters. A value: every verb returns a new one.

    Sums of labelled rows are whole sums (sums/whole.py): multiples of 2^-q, which every verb keeps. Where `q` is None
    they are plain float64: sums of shares, or vectors that were no sum over rows at all.
    """

    counts: Float64Array  # (K,) sum of weights
    resultants: Float64Array  # (K, D) weighted sum of rows
    q: int | None = None

    @classmethod
    def zero(cls, n_clusters: int, n_features: int, q: int | None = None) -> DirectionalStatistics:
        """No rows yet."""
        return cls(np.zeros(n_clusters), np.zeros((n_clusters, n_features)), q)

    @property
    def total(self) -> float:
        """The weight of all rows."""
        return float(self.counts.sum())

    @property
    def lengths(self) -> Float64Array:
        """Lengths (K,) of the resultants."""
        _, norms, factors = self._scaled()
        return norms / factors

    def add(self, cluster: int, row: Float64Array, weight: float = 1.0) -> DirectionalStatistics:
        """One more row in `cluster`; the grid becomes coarser where the total asks for it."""
        if self.q is None:
            return self._with(cluster, weight, weight * np.asarray(row, dtype=np.float64))
        q = min(self.q, whole.exponent(max(0.0, self.total + weight)))
        values = whole.rounded(weight * np.asarray(row, dtype=np.float64), q)
        return self.on(q)._with(cluster, whole.rounded(weight, q), values)

    def remove(self, cluster: int, row: Float64Array, weight: float = 1.0) -> DirectionalStatistics:
        """One row fewer in `cluster`, which was added on this grid."""
        values = weight * np.asarray(row, dtype=np.float64)
        if self.q is None:
            return self._with(cluster, -weight, -values)
        return self._with(cluster, -whole.rounded(weight, self.q), -whole.rounded(values, self.q))

    def _with(self, cluster: int, weight: float, values: Float64Array) -> DirectionalStatistics:
        counts, resultants = self.counts.copy(), self.resultants.copy()
        counts[cluster] += weight
        resultants[cluster] += values
        return DirectionalStatistics(counts, resultants, self.q)

    def merge(self, other: DirectionalStatistics) -> DirectionalStatistics:
        """The sums of both sets of rows, cluster by cluster.

        Whole sums of different grids meet on the coarsest that both and their total ask for: the finer ones are rounded
        once. So a stream has no end; its grid grows coarser by one bit each time its total doubles.
        """
        if self.q is None or other.q is None:
            return DirectionalStatistics(self.counts + other.counts, self.resultants + other.resultants)
        q = min(self.q, other.q, whole.exponent(self.total + other.total))
        one, two = self.on(q), other.on(q)
        return DirectionalStatistics(one.counts + two.counts, one.resultants + two.resultants, q)

    def scale(self, factor: float) -> DirectionalStatistics:
        """All weights times `factor`: forgetting, or a mini-batch that stands for the whole. Rounded once."""
        counts, resultants = self.counts * factor, self.resultants * factor
        return DirectionalStatistics(counts, resultants) if self.q is None else on_grid(counts, resultants)

    def on(self, q: int) -> DirectionalStatistics:
        """The same sums as multiples of 2^-q: rounded where that is coarser than they are."""
        if q == self.q:
            return self
        if self.q is not None and q > self.q:
            return DirectionalStatistics(self.counts, self.resultants, q)
        return DirectionalStatistics(whole.rounded(self.counts, q), whole.rounded(self.resultants, q), q)

    def extend(self, n_clusters: int) -> DirectionalStatistics:
        """`n_clusters` clusters in all, the new ones empty and last."""
        n_new = n_clusters - len(self.counts)
        counts, resultants = np.pad(self.counts, (0, n_new)), np.pad(self.resultants, ((0, n_new), (0, 0)))
        return DirectionalStatistics(counts, resultants, self.q)

    def select(self, clusters: npt.ArrayLike) -> DirectionalStatistics:
        """Only some clusters, in the order given (numbers or a mask)."""
        chosen = np.asarray(clusters)
        return DirectionalStatistics(self.counts[chosen], self.resultants[chosen], self.q)

    def directions(self, otherwise: Float64Array) -> Float64Array:
        """Unit resultants (K, D). Rows can cancel; the direction is then undefined and `otherwise` (K, D) is kept."""
        return self.polar(otherwise)[0]

    def polar(self, otherwise: Float64Array) -> tuple[Float64Array, Float64Array]:
        """`directions` and `lengths`."""
        scaled, norms, factors = self._scaled()
        lengths = norms / factors
        # below this the resultant is the rounding of the sum, not a direction
        has_direction = lengths > np.maximum(1e-12 * np.maximum(self.counts, 0.0), self._noise)
        if has_direction.all():
            return scaled / norms[:, None], lengths
        unit = scaled / np.where(has_direction, norms, 1.0)[:, None]
        unit[~has_direction] = otherwise[~has_direction]
        return unit, lengths

    @property
    def _noise(self) -> float:
        """A length that the rounding of a few rows may leave."""
        return 0.0 if self.q is None else math.ldexp(_QUANTA * math.sqrt(self.resultants.shape[1]), -self.q)

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


def on_grid(counts: Float64Array, resultants: Float64Array) -> DirectionalStatistics:
    """Sums that were kept as arrays, as whole sums of their own total: rounded once, which changes no whole sum.

    Sums that were made before there were whole sums go on from here.
    """
    q = whole.exponent(float(counts.sum()))
    return DirectionalStatistics(whole.rounded(counts, q), whole.rounded(resultants, q), q)
