"""Silhouette for directions: how much nearer a row is to its own cluster than to the next one, by 1 - cosine.

The mean of 1 - x.y over the rows y of a cluster is 1 - x.r/n, with r the sum of its unit rows and n their number.
So the exact silhouette, which compares all pairs of rows, costs one product of the rows with the K cluster means:
O(N K D) time in place of O(N^2 D), and for CSR input O(nnz K).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary._typing import Float64Array
from armillary.exceptions import InputError
from armillary.metrics.labels import label_codes
from armillary.validation import Rows, unit_rows

# Values in one scratch array, 32 MiB of float64: a block of rows, of cluster means, or of cosines between them.
_BLOCK_VALUES = 1 << 22

# 1 - cosine carries rounding errors near 1e-16 times the square root of the cluster size. If neither of a row's
# two distances exceeds this (1.4e-6 radians), their ratio is noise and the row scores 0.
_NO_DISTANCE = 1e-12


def cosine_silhouette_score(X: Any, labels: Any, *, ignore_label: Any = None) -> float:
    """Mean silhouette by cosine distance, in [-1, 1]; higher is better.

    Equal to `sklearn.metrics.silhouette_score(X, labels, metric="cosine")` up to rounding, in O(N K D) time.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Rows with a direction; they need not have unit length. CSR input is never made dense.
    labels : array-like of shape (n_samples,)
        Cluster of each row, any hashable values: at least 2 clusters and fewer clusters than rows.
    ignore_label : hashable, optional
        Rows with this label (-1 where noise is marked so) are left out of all clusters and of the mean. By
        default every label is a cluster, as in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.metrics import cosine_silhouette_score
    >>> X = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
    >>> round(cosine_silhouette_score(X, [0, 0, 1, 1]), 4)
    0.9945
    """
    scores, is_scored = _silhouettes(X, labels, ignore_label, "cosine_silhouette_score")
    return float(scores[is_scored].mean())


def cosine_silhouette_samples(X: Any, labels: Any, *, ignore_label: Any = None) -> Float64Array:
    """Silhouette of each row by cosine distance: (b - a) / max(a, b), shape (n_samples,), in [-1, 1].

    a is the mean distance to the other rows of the own cluster, b the mean distance to the nearest other
    cluster. A row alone in its cluster scores 0, and so does a row at no distance from either cluster.
    Equal to `sklearn.metrics.silhouette_samples(X, labels, metric="cosine")` up to rounding, in O(N K D) time.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Rows with a direction; they need not have unit length. CSR input is never made dense.
    labels : array-like of shape (n_samples,)
        Cluster of each row, any hashable values: at least 2 clusters and fewer clusters than rows.
    ignore_label : hashable, optional
        Rows with this label (-1 where noise is marked so) belong to no cluster and score NaN. By default
        every label is a cluster, as in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.metrics import cosine_silhouette_samples
    >>> X = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0], [-1.0, -1.0]])
    >>> cosine_silhouette_samples(X, [0, 0, 1, 1, -1], ignore_label=-1).round(4)
    array([0.9948, 0.9942, 0.9948, 0.9942,    nan])
    """
    scores, _ = _silhouettes(X, labels, ignore_label, "cosine_silhouette_samples")
    return scores


def _silhouettes(X: Any, labels: Any, ignore_label: Any, who: str) -> tuple[Float64Array, npt.NDArray[np.bool_]]:
    """Silhouettes (n,), NaN where ignored, and the mask (n,) of the rows that are scored."""
    rows = unit_rows(X, who)
    codes, distinct = label_codes(labels, "labels", who)
    if len(codes) != rows.shape[0]:
        raise InputError(
            f"`labels` of {who} must have one label per row of X; got {len(codes)} labels for {rows.shape[0]} rows. "
            "Check that both come from the same rows."
        )
    is_scored = np.ones(len(codes), dtype=np.bool_)
    if ignore_label is not None and ignore_label in distinct:
        ignored = distinct.index(ignore_label)
        is_scored = codes != ignored
        # the codes above the ignored one move down to close the gap
        rows, codes = rows[is_scored], (codes - (codes > ignored))[is_scored]
        distinct.pop(ignored)
    if not 2 <= len(distinct) < len(codes):
        raise InputError(
            f"`labels` of {who} must have at least 2 clusters and fewer clusters than rows; got {len(distinct)} for "
            f"{len(codes)} rows{'' if is_scored.all() else ' that are not ignored'}. "
            "A silhouette compares two clusters, one of them with a pair in it."
        )
    scores = np.full(len(is_scored), np.nan)
    scores[is_scored] = _scores(rows, codes, len(distinct))
    return scores, is_scored


def _scores(rows: Rows, codes: npt.NDArray[np.intp], n_clusters: int) -> Float64Array:
    """Silhouettes (n,) of unit rows whose labels are 0..n_clusters-1, all in use."""
    n_rows, n_features = rows.shape
    is_dense = isinstance(rows, np.ndarray)
    if not is_dense:
        rows = _float64_unit(rows)  # once: its non-zeros are few; dense rows are widened block by block
    counts = np.bincount(codes, minlength=n_clusters)
    means = _cluster_means(rows, codes, counts)
    own_cosine = np.empty(n_rows)
    nearest_cosine = np.full(n_rows, -np.inf)
    # Blocks of clusters outside, so that each block of sparse means is made dense once. All block sizes depend on
    # the shape alone.
    cluster_step = min(n_clusters, max(1, _BLOCK_VALUES // n_features))
    row_step = max(1, _BLOCK_VALUES // (max(n_features, cluster_step) if is_dense else cluster_step))
    for first in range(0, n_clusters, cluster_step):
        block_means = means[first : first + cluster_step]
        directions = np.ascontiguousarray(_dense(block_means).T)
        for start in range(0, n_rows, row_step):
            block = rows[start : start + row_step]
            stop = start + block.shape[0]
            cosines = (_float64_unit(block) if is_dense else block) @ directions
            own = codes[start:stop] - first
            here = np.flatnonzero((own >= 0) & (own < cosines.shape[1]))
            own_cosine[start + here] = cosines[here, own[here]]
            cosines[here, own[here]] = -np.inf
            np.maximum(nearest_cosine[start:stop], cosines.max(axis=1), out=nearest_cosine[start:stop])
    size = counts[codes]
    # the row itself, at cosine 1, is taken out of the mean over its cluster
    within = np.maximum(0.0, 1.0 - (size * own_cosine - 1.0) / np.maximum(size - 1, 1))
    between = np.maximum(0.0, 1.0 - nearest_cosine)
    largest = np.maximum(within, between)
    scores = np.zeros(n_rows)
    np.divide(between - within, largest, out=scores, where=(size > 1) & (largest > _NO_DISTANCE))
    return scores


def _cluster_means(rows: Rows, codes: npt.NDArray[np.intp], counts: npt.NDArray[np.intp]) -> Any:
    """Mean of the unit rows of each cluster (K, D), float64; CSR where the rows are, with no more non-zeros."""
    n_rows, n_features = rows.shape
    # column i has 1/n_k at the cluster k of row i
    averaging = sp.csc_array((1.0 / counts[codes], codes, np.arange(n_rows + 1)), shape=(len(counts), n_rows))
    if not isinstance(rows, np.ndarray):
        return averaging.tocsr() @ rows
    means = np.zeros((len(counts), n_features))
    step = max(1, _BLOCK_VALUES // n_features)
    for start in range(0, n_rows, step):
        means += averaging[:, start : start + step] @ _float64_unit(rows[start : start + step])
    return means


def _float64_unit(block: Any) -> Any:
    """The rows with norm 1 to float64 precision; float32 rows are unit only to 2e-6 when they arrive."""
    wide = block.astype(np.float64)
    if isinstance(wide, np.ndarray):
        return wide / np.sqrt(np.vecdot(wide, wide))[:, None]
    norms = np.sqrt(np.asarray(wide.multiply(wide).sum(axis=1)).ravel())
    wide.data /= np.repeat(norms, np.diff(wide.indptr))
    return sp.csr_array(wide)


def _dense(block: Any) -> Float64Array:
    return np.asarray(block if isinstance(block, np.ndarray) else block.toarray())
