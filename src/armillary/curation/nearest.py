"""The few clusters nearest to each row, and how far they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError

from armillary._typing import Float64Array, FloatArray
from armillary.engines.contract import Here, Numbers, Passes
from armillary.engines.select import checked_points, open_passes
from armillary.exceptions import InputError
from armillary.rules import AffineRule
from armillary.validation import check_integer

# Scores in the type of the rows: what they may be off by, and for each column more; and how many more than are wanted
# are scored again.
_PAD, _PAD_PER_COLUMN, _SPARE = 4e-6, 1.2e-7, 4
# Float64 scores nearer than this are decided by sums in column order.
_ROUNDING = 1e-12
# Scores of a row up to which all are searched at once.
_FEW = 256


class Nearest(NamedTuple):
    """Clusters in the order of their angles, the row's own first."""

    clusters: npt.NDArray[np.int32]  # (n, m)
    angles: npt.NDArray[np.float32]  # (n, m), radians


@dataclass(frozen=True, eq=False)
class _Top:
    """The clusters of the highest scores: numbers (m, J) and float64 scores (m, J) side by side, the row's own first.

    Scores come in the type of the rows, and a few more than are wanted are scored again in float64. Where more clusters
    than those lie within the doubt, all of a row's are.
    """

    most: int
    directions: Float64Array  # (K, D)
    pad: float  # what a score of the rows' type may be off by
    is_exact: ClassVar[bool] = False

    def of(self, scores: FloatArray, here: Here) -> Float64Array:
        wide = cast(FloatArray, here.rows()).astype(np.float64)
        n_wanted = min(len(self.directions), self.most + _SPARE)
        found = _highest(scores, n_wanted)
        values = _cosines(wide, self.directions, found)
        order = np.lexsort((found, -values))
        found, values = np.take_along_axis(found, order, axis=1), np.take_along_axis(values, order, axis=1)
        if n_wanted < len(self.directions):
            # a cluster that was left out scores no more than the lowest that was taken, but for two doubts
            lowest = np.take_along_axis(scores, found, axis=1).min(axis=1)
            in_doubt = np.flatnonzero(values[:, self.most - 1] <= lowest + 2.0 * self.pad)
            for row in in_doubt.tolist():
                own = _cosines(wide[row : row + 1], self.directions, np.arange(len(self.directions))[None])[0]
                best = np.lexsort((np.arange(len(own)), -own))[:n_wanted]
                found[row], values[row] = best, own[best]
        self._settle(wide, found, values)
        return np.concatenate([found[:, : self.most], values[:, : self.most]], axis=1)

    def _settle(self, rows: Float64Array, found: Numbers, values: Float64Array) -> None:
        """Put the label first: of float64 sums in column order, ties to the smallest number (engines/contract.py)."""
        if found.shape[1] == 1:
            return
        close = np.flatnonzero(values[:, 0] - values[:, 1] <= _ROUNDING)
        for row in close.tolist():
            some = np.flatnonzero(values[row] >= values[row, 0] - _ROUNDING)
            sums = np.zeros(len(some))
            for column, number in enumerate(rows[row]):
                sums += number * self.directions[found[row, some], column]
            label = some[np.lexsort((found[row, some], -sums))[0]]
            rest = np.delete(np.arange(found.shape[1]), label)
            order = np.concatenate([[label], rest])
            found[row], values[row] = found[row, order], values[row, order]


def _highest(scores: FloatArray, n_wanted: int) -> Numbers:
    """The numbers of the highest scores of each row (m, n_wanted), in no order.

    They lie among the groups of columns that have the highest maxima: a search of all scores takes five times as long.
    """
    n_columns = scores.shape[1]
    n_groups = math.isqrt(n_columns * n_wanted)
    if n_groups <= 2 * n_wanted or n_columns < _FEW:
        return _largest(scores, n_wanted)
    tops = scores[:, :n_groups].copy()
    for first in range(n_groups, n_columns, n_groups):  # NumPy's maximum along the middle axis takes twice as long
        some = scores[:, first : first + n_groups]
        np.maximum(tops[:, : some.shape[1]], some, out=tops[:, : some.shape[1]])
    groups = _largest(tops, n_wanted)
    members = (groups[:, :, None] + np.arange(0, n_columns, n_groups)).reshape(len(scores), -1)
    is_there = members < n_columns
    values = np.take_along_axis(scores, np.where(is_there, members, 0), axis=1)
    values[~is_there] = -np.inf
    return np.take_along_axis(members, _largest(values, n_wanted), axis=1)


def _largest(values: FloatArray, n_wanted: int) -> Numbers:
    if n_wanted >= values.shape[1]:
        return np.tile(np.arange(values.shape[1]), (len(values), 1))
    return np.argpartition(values, -n_wanted, axis=1)[:, -n_wanted:]


def _cosines(rows: Float64Array, directions: Float64Array, numbers: Numbers) -> Float64Array:
    """Float64 scores (m, J) of each row with the directions of some numbers (m, J)."""
    found = np.empty(numbers.shape)
    # one column of numbers at a time: a table of all their directions would leave the cache
    for place in range(numbers.shape[1]):
        np.vecdot(rows, directions[numbers[:, place]], out=found[:, place])
    return found


@dataclass(frozen=True)
class _TopOfExact:
    """The same from float64 scores and labels: for sparse rows, which are not made dense."""

    most: int

    def of(self, scores: Float64Array, here: Here) -> Float64Array:
        assert here.labels is not None
        rows = np.arange(len(scores))
        own = scores[rows, here.labels].copy()
        scores[rows, here.labels] = np.inf
        found = _highest(scores, self.most)
        values = np.take_along_axis(scores, found, axis=1)
        order = np.lexsort((found, -values))
        found, values = np.take_along_axis(found, order, axis=1), np.take_along_axis(values, order, axis=1)
        values[:, 0] = own
        return np.concatenate([found, values], axis=1)


def nearest_of(passes: Passes, directions: Float64Array, most: int) -> Nearest:
    """The `most` clusters nearest to each row; fewer where there are fewer."""
    n_kept, rule = min(most, len(directions)), AffineRule.cosines(directions)
    if passes.points.is_sparse:
        labels = passes.labels()
        passes.label(rule, labels, sums=False)
        table = passes.values(rule, _TopOfExact(n_kept), labels)
    else:
        pad = _PAD + _PAD_PER_COLUMN * directions.shape[1]
        table = passes.values(rule, _Top(n_kept, directions, pad))
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
