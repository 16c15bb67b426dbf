"""Silhouette for directions: how much nearer a row is to its own cluster than to the next one, by 1 - cosine.

The checks and the words are here; `fitting/silhouette.py`, which fits use too, has the computation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.engines.select import open_passes
from armillary.exceptions import InputError
from armillary.fitting.silhouette import silhouettes
from armillary.metrics.labels import label_codes
from armillary.points import as_points


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

    Returns
    -------
    float
        The mean over rows.

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

    Returns
    -------
    array of shape (n_samples,)
        From -1 to 1; borderline rows are near 0.

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
    points = as_points(X, who)
    codes, distinct = label_codes(labels, "labels", who)
    if len(codes) != points.n_rows:
        raise InputError(
            f"`labels` of {who} must have one label per row of X; got {len(codes)} labels for {points.n_rows} rows. "
            "Check that both come from the same rows."
        )
    is_scored = np.ones(len(codes), dtype=np.bool_)
    if ignore_label is not None and ignore_label in distinct:
        ignored = distinct.index(ignore_label)
        is_scored = codes != ignored
        # the codes above the ignored one move down to close the gap
        codes = (codes - (codes > ignored))[is_scored]
        points = replace(points, matrix=points.matrix[is_scored])
        distinct.pop(ignored)
    if not 2 <= len(distinct) < len(codes):
        raise InputError(
            f"`labels` of {who} must have at least 2 clusters and fewer clusters than rows; got {len(distinct)} for "
            f"{len(codes)} rows{'' if is_scored.all() else ' that are not ignored'}. "
            "A silhouette compares two clusters, one of them with a pair in it."
        )
    scores = np.full(len(is_scored), np.nan)
    with open_passes(points, None, who) as passes:
        scores[is_scored] = silhouettes(passes, passes.labels_from(codes), len(distinct))
    return scores, is_scored
