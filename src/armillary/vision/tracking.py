"""Ids for the rows of every frame of a stream: the three methods that Straub 2015, 7.2, compares.

ddp           DDP-vMF-means: clusters drift, vanish and return under their ids
sequential    DP-vMF-means started from the clusters of the frame before; those that lose all rows are forgotten
batch         DP-vMF-means on each frame by itself: ids mean nothing beyond their frame

Sequential DP-vMF-means has no ids of its own, and the paper does not tell its rule. Here a cluster keeps its id while
rows choose it.
"""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning

from armillary._typing import ArrayLike, Float64Array, FloatArray
from armillary.engines.select import open_passes
from armillary.fitting.assignment import HardAssignment
from armillary.geometry import sphere
from armillary.geometry.rotation import mean_rotation
from armillary.models.means.ddp_vmf_means import DDPvMFMeans
from armillary.models.means.dp_vmf_means import DPvMFMeans
from armillary.points import as_points
from armillary.rules import AffineRule

Ids = npt.NDArray[np.integer[Any]]

METHODS = ("ddp", "sequential", "batch")
_NOBODY: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
_NOWHERE: Float64Array = np.empty((0, 3))
# The turn between two frames is estimated from about so many rows, from those within each of these angles in turn,
# and not from fewer than this share of them.
_ROWS_FOR_A_TURN = 20_000
_REACHES = (math.radians(30.0), math.radians(15.0))
_LEAST_SHARE = 0.1
# Directions that move by less than this share of max_angle have kept their places in a fit.
_STILL = 0.1


class Lives(NamedTuple):
    """What happened to ids in a step."""

    births: tuple[int, ...] = ()
    revivals: tuple[int, ...] = ()
    deaths: tuple[int, ...] = ()
    merges: tuple[tuple[int, int], ...] = ()


class Tracker(Protocol):
    """Rows of one frame after the other in, ids out."""

    model: DDPvMFMeans | DPvMFMeans  # the estimator inside
    rotation: Float64Array | None  # (3, 3) by which the last step turned what it remembered

    def step(self, rows: FloatArray, rotation: ArrayLike | None = None) -> Ids:
        """Learn the rows (n, 3) of the next frame, which may be none; their ids (n,)."""
        ...

    def name(self, rows: FloatArray) -> Ids:
        """Ids (n,) of more rows of the last frame; learns nothing. -1 where the frame had no clusters."""
        ...

    def lives(self) -> Lives:
        """Of the last step."""
        ...

    def clusters(self) -> tuple[npt.NDArray[np.int64], Float64Array]:
        """Ids (K,), increasing, and directions (K, 3) of the clusters of the last frame."""
        ...


def estimated_turn(directions: Float64Array, rows: FloatArray, n_threads: int | None = None) -> Float64Array:
    """The rotation (3, 3) that best takes directions (K, 3) of one frame to the rows (n, 3) of the next.

    Rows near a direction pull it, all by one rotation, twice: first from afar, then from near. Where the rows are of
    another scene, few are near, and it is the identity.
    """
    some = np.ascontiguousarray(rows[:: max(1, len(rows) // _ROWS_FOR_A_TURN)])
    rotation = np.eye(3)
    with open_passes(as_points(some, "estimated_turn"), n_threads, "estimated_turn") as passes:
        for reach in _REACHES:
            turned = directions @ rotation.T
            _, statistics = HardAssignment(passes).sweep(AffineRule.cosines(turned, math.cos(reach)))
            if statistics.counts.sum() < _LEAST_SHARE * len(some):
                return np.eye(3)
            rotation = mean_rotation(directions, statistics.directions(otherwise=turned), statistics.lengths)
    return rotation


class DDPTracker:
    """DDP-vMF-means. With `follows_turn` a rotation that is not given is estimated from the clusters in sight."""

    def __init__(self, model: DDPvMFMeans, *, follows_turn: bool = False) -> None:
        self.model = model
        self.rotation: Float64Array | None = None
        self._follows_turn = follows_turn

    def turn(self, rows: FloatArray) -> Float64Array | None:
        """The rotation (3, 3) of the view since the last frame, from the clusters in sight; None: not followed."""
        if not (self._follows_turn and len(rows) and getattr(self.model, "n_clusters_", 0)):
            return None
        return estimated_turn(self.clusters()[1], rows, self.model.n_threads)

    def step(self, rows: FloatArray, rotation: ArrayLike | None = None) -> Ids:
        """Tracks are turned by `rotation` (3, 3) first, where it is known."""
        turn = self.turn(rows) if rotation is None else rotation
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the next frame goes on
            ids = self.model.partial_fit_predict(rows, rotation=turn)
        self.rotation = None if turn is None else np.asarray(turn, dtype=np.float64)
        return ids

    def name(self, rows: FloatArray) -> Ids:
        """The nearest cluster of the last frame."""
        return self.model.predict(rows) if self.model.n_clusters_ else _unnamed(rows)

    def lives(self) -> Lives:
        """As the model recorded them."""
        record = self.model.record()
        return Lives(record.births, record.revivals, record.deaths, record.merges)

    def clusters(self) -> tuple[npt.NDArray[np.int64], Float64Array]:
        """Tracks with rows in the last frame."""
        is_seen = self.model.steps_unseen_ == 0
        return self.model.cluster_ids_[is_seen], self.model.cluster_centers_[is_seen]


class SequentialTracker:
    """DP-vMF-means from frame to frame. A cluster keeps its id while rows choose it; an id is never used again."""

    def __init__(self, model: DPvMFMeans) -> None:
        self.model = model
        self.rotation: Float64Array | None = None
        self._names = _NOBODY
        self._before = _NOBODY
        self._next = 0

    def step(self, rows: FloatArray, rotation: ArrayLike | None = None) -> Ids:
        """A known rotation is of no use here: clusters start where they were."""
        self._before = self._names
        if len(rows) == 0:
            self._names = _NOBODY
            return _NOBODY
        # where the last frame had no rows, all is forgotten
        self.model.set_params(warm_start=len(self._names) > 0)
        old = copy.copy(self.model)  # a fit replaces its arrays and changes none, so this keeps the old ones
        labels = self.model.fit_predict(rows)
        self._names = self._names_after(old, rows)
        self._next = max(self._next, 1 + int(self._names.max()))
        return self._names[labels]

    def name(self, rows: FloatArray) -> Ids:
        """The nearest cluster of the last frame."""
        return self._names[self.model.predict(rows)] if len(self._names) else _unnamed(rows)

    def lives(self) -> Lives:
        """No id returns."""
        born = np.setdiff1d(self._names, self._before)
        dead = np.setdiff1d(self._before, self._names)
        return Lives(births=tuple(born.tolist()), deaths=tuple(dead.tolist()))

    def clusters(self) -> tuple[npt.NDArray[np.int64], Float64Array]:
        """Those of the last fit."""
        if not len(self._names):
            return _NOBODY, _NOWHERE
        order = np.argsort(self._names)
        return self._names[order], self.model.cluster_centers_[order]

    def _names_after(self, old: DPvMFMeans, rows: FloatArray) -> npt.NDArray[np.int64]:
        """Ids (K,) of the clusters of the new fit."""
        centers = self.model.cluster_centers_
        if not len(self._names):
            return self._next + np.arange(len(centers))
        is_same_number = len(centers) == len(self._names)
        # a cluster that is dropped shifts those behind it, and one that is born was beyond max_angle of all
        if is_same_number and sphere.angle(old.cluster_centers_, centers).max() < _STILL * self.model.max_angle:
            return self._names
        slots, directions = self._after_one_sweep(old, rows)
        if len(slots) == len(centers):
            return slots
        # rare: clusters came or went in a later sweep too; those nearest to what was there stay
        kept, places = linear_sum_assignment(sphere.angle(directions[:, None], centers[None]))
        names = max(self._next, 1 + int(slots.max())) + np.arange(len(centers))
        names[places] = slots[kept]
        return names

    def _after_one_sweep(self, old: DPvMFMeans, rows: FloatArray) -> tuple[npt.NDArray[np.int64], Float64Array]:
        """Ids and directions after the first sweep of a warm start; slots that got no rows are left out.

        A fit renumbers what is left when clusters are dropped, and does not tell which. `partial_fit` makes the same
        first sweep and keeps every slot: what it adds to the counts tells.
        """
        n_old = len(self._names)
        counts, sums = old.counts_, old.resultants_
        old.partial_fit(rows)
        gained, directions = old.counts_.copy(), old.resultants_.copy()
        gained[:n_old] -= counts
        directions[:n_old] -= sums
        is_chosen = gained > 0.0
        slots = np.concatenate([self._names, self._next + np.arange(len(gained) - n_old)])[is_chosen]
        return slots, directions[is_chosen] / np.linalg.norm(directions[is_chosen], axis=1, keepdims=True)


class BatchTracker:
    """DP-vMF-means on each frame by itself."""

    def __init__(self, model: DPvMFMeans) -> None:
        self.model = model
        self.rotation: Float64Array | None = None
        self._n_clusters = 0

    def step(self, rows: FloatArray, rotation: ArrayLike | None = None) -> Ids:
        """Labels of the frame."""
        self._n_clusters = 0
        if len(rows) == 0:
            return _NOBODY
        labels = self.model.fit_predict(rows)
        self._n_clusters = self.model.n_clusters_
        return labels

    def name(self, rows: FloatArray) -> Ids:
        """The nearest cluster of the last frame."""
        return self.model.predict(rows) if self._n_clusters else _unnamed(rows)

    def lives(self) -> Lives:
        """None: no id outlives its frame."""
        return Lives()

    def clusters(self) -> tuple[npt.NDArray[np.int64], Float64Array]:
        """Those of the last fit."""
        if not self._n_clusters:
            return _NOBODY, _NOWHERE
        return np.arange(self._n_clusters), self.model.cluster_centers_


def _unnamed(rows: FloatArray) -> Ids:
    return np.full(len(rows), -1, dtype=np.int64)
