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

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.fitting.passes import Labels, Passes
from armillary.kernels.contract import AffineRule
from armillary.points import Block, SparseBlock, even_ranges

# Values in one scratch array, 64 MiB of float64: the means of a block of clusters, or the cosines of a lane with them.
_BLOCK_VALUES = 1 << 23
# Cosines looked at together, 1 MiB: they stay in the cache.
_CACHED_VALUES = 1 << 17
# Up to this many clusters cosines are turned round first, so that the maximum runs along rows: at K = 10 that takes a
# quarter of the time, at K = 100 twice as long.
_FEW_CLUSTERS = 48
# Up to this many columns, summing squares column by column beats one dot product per row.
_FEW_COLUMNS = 8

# 1 - cosine carries rounding errors near 1e-16 times the square root of the cluster size. If neither of a row's
# two distances exceeds this (1.4e-6 radians), their ratio is noise and the row scores 0.
_NO_DISTANCE = 1e-12


def mean_silhouette(passes: Passes, labels: Labels, n_clusters: int) -> float:
    """The mean of `silhouettes`, weighted as the rows are."""
    return float(np.average(silhouettes(passes, labels, n_clusters), weights=passes.points.weights))


def silhouettes(passes: Passes, labels: Labels, n_clusters: int) -> Float64Array:
    """The silhouette of each row (n,), in [-1, 1]; `labels` (n,) are in 0..n_clusters-1, and clusters may be empty.

    By convention 0 for a row alone in its cluster, for a row at no distance from either cluster, and for all rows
    where fewer than 2 clusters have any weight: there is nothing to compare.
    """
    points = passes.points
    counts = np.bincount(labels, points.weights, minlength=n_clusters).astype(np.float64, copy=False)
    has_weight = counts > 0.0
    if np.count_nonzero(has_weight) < 2:
        return np.zeros(points.n_rows)
    if has_weight.all():
        return _scores(passes, labels, counts)
    # clusters without weight are nobody's neighbours; their rows, which weigh nothing, go anywhere and score 0
    ranks = np.where(has_weight, np.cumsum(has_weight) - 1, 0).astype(np.int32)
    scores = _scores(passes, ranks[labels], counts[has_weight])
    scores[~has_weight[labels]] = 0.0
    return scores


def _scores(passes: Passes, labels: Labels, counts: Float64Array) -> Float64Array:
    """Silhouettes (n,) where every cluster has the weight `counts` (K,) > 0, K >= 2."""
    weights = passes.points.weights
    inverse_norms = _inverse_norms(passes)
    shares = inverse_norms if weights is None else weights * inverse_norms
    # sums of rows / norms, and cosines in float64 whatever the rows are
    unit = passes.over(replace(passes.points, weights=shares, dtype=np.dtype(np.float64)))
    own = np.empty(len(labels))  # cosine with the mean of the own cluster, then the silhouette
    nearest = np.full(len(labels), -np.inf)  # the largest cosine with the mean of another

    def take(cosines: FloatArray, part: slice) -> None:
        _own_and_nearest(cosines, labels[part] - first, own[part], nearest[part])
        if last == len(counts):
            own_weights = None if weights is None else weights[part]
            _compare(own[part], nearest[part], inverse_norms[part], counts[labels[part]], own_weights)

    # blocks of clusters depend on the shape alone
    longest_lane = max(stop - start for start, stop in unit.points.lanes)
    step = max(1, _BLOCK_VALUES // max(longest_lane, unit.points.n_features))
    for first, last in even_ranges(len(counts), -(-len(counts) // step)):
        means = _resultants(unit, labels, first, last, len(counts)) / counts[first:last, None]
        unit.map_scores(AffineRule(means, np.zeros(last - first)), take)
    return own


def _resultants(unit: Passes, labels: Labels, first: int, last: int, n_clusters: int) -> Float64Array:
    """Sums of the unit rows of clusters first..last, (last - first, D)."""
    if last - first == n_clusters:
        return unit.sums(labels, n_clusters).resultants
    n_wanted = last - first
    # the rows of all other clusters go to one more, which is not summed
    within = np.where((labels >= first) & (labels < last), labels - first, n_wanted).astype(np.int32)
    return unit.sums(within, n_wanted + 1, np.arange(n_wanted + 1) < n_wanted).resultants[:n_wanted]


def _inverse_norms(passes: Passes) -> Float64Array:
    """1 / |x| of every row (n,), to float64 precision."""
    inverse = np.empty(passes.points.n_rows)

    def take(rows: Block, part: slice) -> None:
        np.divide(1.0, np.sqrt(_squared_norms(rows)), out=inverse[part])

    passes.each_block(take)
    return inverse


def _squared_norms(rows: Block) -> Float64Array:
    if isinstance(rows, SparseBlock):
        start, stop = rows.indptr[0], rows.indptr[-1]
        # every row has a non-zero, or the gate would have refused it: each segment is one row
        return np.add.reduceat(np.square(rows.data[start:stop], dtype=np.float64), rows.indptr[:-1] - start)
    if rows.shape[1] > _FEW_COLUMNS:
        wide = rows.astype(np.float64, copy=False)
        return np.vecdot(wide, wide)
    squares = np.zeros(len(rows))
    for column in rows.T:
        squares += np.square(column, dtype=np.float64)
    return squares


def _own_and_nearest(
    cosines: FloatArray, labels: npt.NDArray[np.int32], own: Float64Array, nearest: Float64Array
) -> None:
    """Take from `cosines` (m, K) the own cluster's into `own` (m,) and raise `nearest` (m,) to the largest of others.

    Labels outside 0..K-1 have their own cluster elsewhere. `cosines` is scratch afterwards.
    """
    n_rows, n_clusters = cosines.shape
    is_turned = n_clusters <= _FEW_CLUSTERS
    step = max(1, _CACHED_VALUES // n_clusters)
    for start in range(0, n_rows, step):
        part = slice(start, start + step)
        block = np.ascontiguousarray(cosines[part].T) if is_turned else cosines[part]
        codes = labels[part].astype(np.intp)
        row_stride, cluster_stride = (1, len(codes)) if is_turned else (n_clusters, 1)
        places = np.arange(len(codes)) * row_stride + codes * cluster_stride
        is_here = (codes >= 0) & (codes < n_clusters)
        values = block.reshape(-1)
        if is_here.all():
            own[part] = values[places]
        else:
            places = places[is_here]
            own[part][is_here] = values[places]
        values[places] = -np.inf
        np.maximum(nearest[part], block.max(axis=0 if is_turned else 1), out=nearest[part])


def _compare(
    own: Float64Array,
    nearest: Float64Array,
    inverse_norms: Float64Array,
    sizes: Float64Array,
    weights: Float64Array | None,
) -> None:
    """Write silhouettes over `own` (m,), from products of rows with cluster means and the weight of the clusters."""
    others = sizes - (1.0 if weights is None else np.minimum(1.0, weights))
    is_alone = others <= 0.0
    others[is_alone] = 1.0
    within = np.clip((1.0 - own * inverse_norms) * (sizes / others), 0.0, 2.0)
    between = np.clip(1.0 - nearest * inverse_norms, 0.0, 2.0)
    largest = np.maximum(within, between)
    is_nothing = is_alone | (largest <= _NO_DISTANCE)
    largest[is_nothing] = 1.0
    np.divide(between - within, largest, out=own)
    own[is_nothing] = 0.0
