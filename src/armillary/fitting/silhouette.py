"""The silhouette by cosine distance, exact, in one product of the rows with the K cluster means.

With 1 - cosine as the distance, the mean distance from x to the rows of a cluster of weight W and resultant R is
1 - x.R/W. So the silhouette, which compares all pairs of rows, needs only the cluster sums: O(N K D) time in place
of O(N^2 D), O(nnz K) for CSR rows, and a few numbers per row (dp_vmf_means.md, 9).

    a_i = (W_k - x_i.R_k) / (W_k - 1)      to the other rows of the own cluster k
    b_i = min over l != k of 1 - x_i.R_l / W_l
    s_i = (b_i - a_i) / max(a_i, b_i)

Weights are multiplicities: a row of weight 2 scores as two copies of it do, and counts twice in the mean. One that
weighs less than 1 takes only its own weight out of its cluster: W_k - w_i.

Distances can be as small as 1e-12, and float32 rows are unit only to 2e-6. So everything is float64, and rows are
divided by their float64 norms: in the sums as a weight, in the cosines afterwards. Rows are not copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from armillary._typing import Float64Array
from armillary.engines.contract import Column, Here, Labels, Passes, Scaled
from armillary.points import even_ranges
from armillary.rules import AffineRule
from armillary.sums import whole

# Values of the means of a block of clusters, 64 MiB of float64.
_BLOCK_VALUES = 1 << 23

# 1 - cosine carries rounding errors near 1e-16 times the square root of the cluster size. If neither of a row's
# two distances exceeds this (1.4e-6 radians), their ratio is noise and the row scores 0.
_NO_DISTANCE = 1e-12


def mean_silhouette(passes: Passes, labels: Labels, n_clusters: int) -> float:
    """The mean of `silhouettes`, weighted as the rows are."""
    beside = _beside(passes, labels, n_clusters)
    if beside is None:
        return 0.0
    silhouette, ranks, columns = beside
    total = passes.points.total_weight
    return passes.fold(None, _Total(silhouette, passes.points.q), ranks, columns) / total


def silhouettes(passes: Passes, labels: Labels, n_clusters: int) -> Float64Array:
    """The silhouette of each row (n,), in [-1, 1]; labels are in 0..n_clusters-1, and clusters may be empty.

    By convention 0 for a row alone in its cluster, for a row at no distance from either cluster, and for all rows
    where fewer than 2 clusters have any weight: there is nothing to compare.
    """
    beside = _beside(passes, labels, n_clusters)
    if beside is None:
        return passes.column(0.0, is_exact=True).to_host().astype(np.float64, copy=False)
    silhouette, ranks, columns = beside
    return passes.values(None, silhouette, ranks, columns)


def _beside(
    passes: Passes, labels: Labels, n_clusters: int
) -> tuple[_Silhouette, Labels, tuple[Column, Column, Column]] | None:
    """What silhouettes are made of, beside each row; None where fewer than 2 clusters have weight.

    Products with the means of the own and of the nearest other cluster, and 1 / |x|; with the labels among clusters
    that have weight.
    """
    counts = passes.weigh(labels, n_clusters)
    has_weight = counts > 0.0
    if np.count_nonzero(has_weight) < 2:
        return None
    ranks = labels
    if not has_weight.all():
        # clusters without weight are nobody's neighbours; their rows, which weigh nothing, go nowhere and score 0
        ranks = labels.copy()
        ranks.rename(np.where(has_weight, np.cumsum(has_weight) - 1, -1))
        counts = counts[has_weight]
    inverse_lengths = passes.inverse_lengths()
    # sums of rows / norms, and cosines in float64 whatever the rows are
    unit = passes.over(Scaled(inverse_lengths))
    own, nearest = passes.column(0.0, is_exact=True), passes.column(-np.inf, is_exact=True)
    # blocks of clusters depend on the shape alone
    step = max(1, _BLOCK_VALUES // passes.points.n_features)
    for first, last in even_ranges(len(counts), -(-len(counts) // step)):
        sums = unit.sum(ranks, len(counts), within=(first, last))
        means = sums.resultants / counts[first:last, None]
        passes.compare(AffineRule(means, np.zeros(last - first)), ranks, first, own, nearest)
    return _Silhouette(counts), ranks, (own, nearest, inverse_lengths)


@dataclass(frozen=True, eq=False)
class _Silhouette:
    """The silhouette of a row from what lies beside it, where every cluster has the weight `counts` (K,) > 0."""

    counts: Float64Array

    def of(self, scores: object, here: Here) -> Float64Array:
        own, nearest, inverse_lengths = here.columns
        assert here.labels is not None
        is_nowhere = here.labels < 0
        sizes = np.where(is_nowhere, 1.0, self.counts[here.labels])
        others = sizes - (1.0 if here.weights is None else np.minimum(1.0, here.weights))
        is_alone = others <= 0.0
        others[is_alone] = 1.0
        within = np.clip((1.0 - own * inverse_lengths) * (sizes / others), 0.0, 2.0)
        between = np.clip(1.0 - nearest * inverse_lengths, 0.0, 2.0)
        largest = np.maximum(within, between)
        is_nothing = is_alone | is_nowhere | (largest <= _NO_DISTANCE)
        largest[is_nothing] = 1.0
        return np.where(is_nothing, 0.0, (between - within) / largest)


@dataclass(frozen=True, eq=False)
class _Total:
    """The weighted sum of silhouettes, a whole sum: it does not depend on how rows are cut."""

    silhouette: _Silhouette
    q: int
    is_exact: ClassVar[bool] = True

    def part(self, scores: object, here: Here) -> float:
        values = self.silhouette.of(scores, here)
        weighted = values if here.weights is None else values * here.weights
        return float(whole.rounded(weighted, self.q).sum())

    def join(self, parts: Sequence[float]) -> float:
        return sum(parts)
