"""The baselines of section 7.2, each a few lines: ids for the rows of every frame of a stream.

batch         DP-vMF-means on each frame by itself: labels mean nothing beyond their frame
sequential    DP-vMF-means started from the clusters of the frame before; those that lose all rows are forgotten
              (`sequential_by_direction` names its clusters by another rule, which matters for what ids are worth)
ddp           DDP-vMF-means: clusters drift, vanish and return under their ids
k-means       spherical k-means on each frame by itself, with a number of clusters that must be known
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from armillary import DDPvMFMeans, DPvMFMeans, SphericalKMeans
from armillary.geometry import sphere
from armillary.vision.tracking import SequentialTracker

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
    tracker = SequentialTracker(DPvMFMeans(max_angle))
    return _without_gaps([tracker.step(frame) for frame in frames])


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


def _without_gaps(ids: Ids) -> Ids:
    """Ids 0, 1, 2, ...: clusters that were born and gone within a frame leave none."""
    used = np.unique(np.concatenate(ids))
    return [np.searchsorted(used, frame) for frame in ids]
