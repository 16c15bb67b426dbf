"""The few clusters nearest to each row, and how far they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError

from armillary._typing import Float64Array
from armillary.engines.contract import Here, Passes
from armillary.engines.select import checked_points, open_passes
from armillary.exceptions import InputError
from armillary.rules import AffineRule
from armillary.validation import check_integer


class Nearest(NamedTuple):
    """Clusters in the order of their angles, the row's own first."""

    clusters: npt.NDArray[np.int32]  # (n, m)
    angles: npt.NDArray[np.float32]  # (n, m), radians


@dataclass(frozen=True)
class _Top:
    """The clusters of the highest scores: numbers (m, J) and scores (m, J) side by side.

    The first is the label, which ties have settled; equals among the others go by number.
    """

    most: int

    def of(self, scores: Float64Array, here: Here) -> Float64Array:
        assert here.labels is not None
        rows = np.arange(len(scores))
        own = scores[rows, here.labels].copy()
        scores[rows, here.labels] = np.inf
        found = np.argpartition(-scores, self.most - 1, axis=1)[:, : self.most]
        values = np.take_along_axis(scores, found, axis=1)
        order = np.lexsort((found, -values))
        found, values = np.take_along_axis(found, order, axis=1), np.take_along_axis(values, order, axis=1)
        values[:, 0] = own
        return np.concatenate([found, values], axis=1)


def nearest_of(passes: Passes, directions: Float64Array, most: int) -> Nearest:
    """The `most` clusters nearest to each row; fewer where there are fewer."""
    n_kept = min(most, len(directions))
    labels, rule = passes.labels(), AffineRule.cosines(directions)
    passes.label(rule, labels, sums=False)
    table = passes.values(rule, _Top(n_kept), labels)
    angles = np.arccos(np.clip(table[:, n_kept:], -1.0, 1.0))
    return Nearest(table[:, :n_kept].astype(np.int32), angles.astype(np.float32))


def checked_directions(model: Any, who: str, n_features: int | None = None) -> Float64Array:
    """The unit directions (K, D) of a fitted clusterer."""
    if not hasattr(type(model), "fit") or not hasattr(type(model), "predict"):
        raise InputError(
            f"`model` of {who} must be a fitted clusterer; got {type(model).__name__}. Use SphericalKMeans or "
            "HierarchicalSphericalKMeans."
        )
    if not hasattr(model, "cluster_centers_"):
        raise NotFittedError(
            f"`model` of {who} must be a fitted clusterer; this {type(model).__name__} has no `cluster_centers_`. Call "
            "fit first."
        )
    directions = np.ascontiguousarray(model.cluster_centers_, dtype=np.float64)
    if not len(directions):
        raise InputError(f"`model` of {who} must have clusters; this {type(model).__name__} has none. Fit it to rows.")
    if n_features is not None and directions.shape[1] != n_features:
        raise InputError(
            f"X of {who} must have the {directions.shape[1]} columns that the model was fitted on; got {n_features}."
        )
    return directions


def nearest_clusters(model: Any, X: Any, n_nearest: int = 4, *, n_threads: int | None = None) -> Nearest:
    """The clusters nearest to each row, and their angles: what an index writes beside a label.

    Parameters
    ----------
    model : clusterer
        Fitted, with `cluster_centers_` (K, D).
    X : array-like of shape (n, D), CSR or rows on disk
        Rows, made unit here.
    n_nearest : int, default=4
        Clusters for each row, K at most.
    n_threads : int or None, default=None
        Threads; None takes every core.

    Returns
    -------
    Nearest
        `clusters` (n, m) int32, the first of which is `predict(X)`, and `angles` (n, m) in radians.

    Examples
    --------
    >>> from armillary import SphericalKMeans
    >>> from armillary.curation import nearest_clusters
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, _, _ = make_vmf_mixture(500, 8, 6, random_state=0)
    >>> model = SphericalKMeans(6, random_state=0).fit(X)
    >>> found = nearest_clusters(model, X, 2)
    >>> bool((found.clusters[:, 0] == model.labels_).all()), found.angles.shape
    (True, (500, 2))
    """
    who = "nearest_clusters"
    most = check_integer(n_nearest, "n_nearest", who, low=1)
    directions = checked_directions(model, who)
    points = checked_points(X, who, expected_features=directions.shape[1])
    with open_passes(points, n_threads, who) as passes:
        return nearest_of(passes, directions, most)
