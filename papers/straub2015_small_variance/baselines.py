"""The baselines of section 7.2, each a few lines: ids for the rows of every frame of a stream.

batch         DP-vMF-means on each frame by itself: labels mean nothing beyond their frame
sequential    DP-vMF-means started from the clusters of the frame before; those that lose all rows are forgotten
              (`sequential_by_direction` names its clusters by another rule, which matters for what ids are worth)
ddp           DDP-vMF-means: clusters drift, vanish and return under their ids
k-means       spherical k-means on each frame by itself, with a number of clusters that must be known
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from itertools import repeat
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from armillary import DDPvMFMeans, DPvMFMeans, SphericalKMeans
from armillary.geometry import sphere

Frames = Iterable[np.ndarray]  # each (n, 3)
Ids = list[np.ndarray]  # each (n,) int


def batch(frames: Frames, max_angle: float) -> Ids:
    """Each frame by itself."""
    return [DPvMFMeans(max_angle).fit_predict(frame) for frame in frames]


def spherical_kmeans(frames: Frames, n_clusters: int) -> Ids:
    """Each frame by itself, into as many clusters as asked for."""
    return [SphericalKMeans(n_clusters, random_state=0).fit_predict(frame) for frame in frames]


def ddp(
    frames: Frames, max_angle: float, *, rotations: Sequence[np.ndarray | None] | None = None, **settings: Any
) -> Ids:
    """The stream; `rotations[t]` (3, 3) turned the sensor's view since the frame before, where that is known."""
    model = DDPvMFMeans(max_angle, **settings)
    turns = repeat(None) if rotations is None else rotations
    return [model.partial_fit_predict(frame, rotation=turn) for frame, turn in zip(frames, turns, strict=False)]


def sequential(frames: Frames, max_angle: float) -> Ids:
    """Each frame starts from the clusters of the one before. A cluster keeps its id while rows choose it."""
    model = DPvMFMeans(max_angle, warm_start=True)
    names = np.empty(0, np.int64)
    n_used = 0
    ids: Ids = []
    for frame in frames:
        slots, directions = _after_one_sweep(model, frame, names, n_used)
        n_used = max(n_used, 1 + int(slots.max()))
        labels = model.fit_predict(frame)
        if len(slots) != model.n_clusters_:
            # rare: clusters came or went in a later sweep too; those nearest to what was there stay
            angles = sphere.angle(directions[:, None], model.cluster_centers_[None])
            old, new = linear_sum_assignment(angles)
            fresh = np.arange(n_used, n_used + model.n_clusters_)
            fresh[new] = slots[old]
            slots, n_used = fresh, max(n_used, 1 + int(fresh.max()))
        names = slots
        ids.append(names[labels])
    return _without_gaps(ids)


def sequential_by_direction(frames: Frames, max_angle: float) -> Ids:
    """The same fits under other ids: that of the nearest direction before, one to one, within half of `max_angle`."""
    model = DPvMFMeans(max_angle, warm_start=True)
    names, before = np.empty(0, np.int64), np.empty((0, 3))
    n_used = 0
    ids: Ids = []
    for frame in frames:
        labels = model.fit_predict(frame)
        angles = sphere.angle(before[:, None], model.cluster_centers_[None])
        old, new = linear_sum_assignment(np.minimum(angles, 0.5 * max_angle))
        is_same = angles[old, new] < 0.5 * max_angle
        fresh = np.arange(n_used, n_used + model.n_clusters_)
        fresh[new[is_same]] = names[old[is_same]]
        n_used = max(n_used, 1 + int(fresh.max()))
        names, before = fresh, model.cluster_centers_
        ids.append(names[labels])
    return _without_gaps(ids)


def _after_one_sweep(
    model: DPvMFMeans, frame: np.ndarray, names: np.ndarray, n_used: int
) -> tuple[np.ndarray, np.ndarray]:
    """Ids (K,) and directions (K, 3) after the first sweep of a warm start; slots that got no rows are left out.

    A fit renumbers what is left when clusters are dropped, and does not tell which. `partial_fit` makes the same first
    sweep and keeps every slot: what it adds to the counts tells.
    """
    probe = deepcopy(model).partial_fit(frame)
    n_born = len(probe.counts_) - len(names)
    gained, sums = probe.counts_.copy(), probe.resultants_.copy()
    if len(names):
        gained[: len(names)] -= model.counts_
        sums[: len(names)] -= model.resultants_
    is_chosen = gained > 0.0
    slots = np.concatenate([names, n_used + np.arange(n_born)])[is_chosen]
    return slots, sums[is_chosen] / np.linalg.norm(sums[is_chosen], axis=1, keepdims=True)


def _without_gaps(ids: Ids) -> Ids:
    """Ids 0, 1, 2, ...: clusters that were born and gone within a frame leave none."""
    used = np.unique(np.concatenate(ids))
    return [np.searchsorted(used, frame) for frame in ids]
