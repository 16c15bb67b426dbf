"""Section 7.2: what a frame costs by each method, and before it, in milliseconds of one core.

CPU time of one thread, which other work on the machine hardly changes: an order of methods, not a speed. The paper's
times are those of a GPU.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import views
from depth_images import ImageStream

from armillary import DDPvMFMeans, DPvMFMeans, SphericalKMeans
from armillary.vision import estimate_normals
from armillary.vision.tracking import SequentialTracker

BATCH, DDP, KMEANS, SEQUENTIAL = "batch", "ddp", "k-means, K = 5", "sequential"
PAPER = {BATCH: 28.4, DDP: 20.4, KMEANS: 13.6, SEQUENTIAL: 12.8}  # milliseconds, in the order that the paper has
ANGLE = math.radians(views.PAPER_ANGLE)


def _methods() -> dict[str, Callable[[np.ndarray], Any]]:
    followed = SequentialTracker(DPvMFMeans(ANGLE, n_threads=1))
    # as in the paper: Q = lambda / 400, beta for frames of this size
    stream = DDPvMFMeans(ANGLE, max_unseen_steps=400, drift_concentration=1e5, n_threads=1)
    return {
        BATCH: lambda rows: DPvMFMeans(ANGLE, n_threads=1).fit(rows),
        DDP: stream.partial_fit_predict,
        KMEANS: lambda rows: SphericalKMeans(5, n_init=1, random_state=0, n_threads=1).fit(rows),
        SEQUENTIAL: followed.step,
    }


def measure(stream: ImageStream, n_frames: int) -> dict[str, Any]:
    """Consecutive frames by every method in turn; the first frame, which compiles and starts, does not count."""
    methods = _methods()
    spent: dict[str, list[float]] = {name: [] for name in methods}
    n_rows, before = [], []
    for number in range(min(n_frames + 1, len(stream.depths))):
        depth = np.asarray(stream.depths[number])
        begin = time.process_time()
        rows = estimate_normals(depth, stream.camera, smoothing="guided").rows()
        before.append(1e3 * (time.process_time() - begin))
        n_rows.append(len(rows))
        for name, cluster in methods.items():
            begin = time.process_time()
            cluster(rows)
            spent[name].append(1e3 * (time.process_time() - begin))
    return {
        "n_rows": int(np.mean(n_rows)),
        "milliseconds": {name: values[1:] for name, values in spent.items()},
        "smoothing and normals": before[1:],
    }


def cases(streams: list[ImageStream], n_frames: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """By stream; nothing runs yet."""
    return {stream.name: partial(measure, stream, n_frames) for stream in streams}
