"""Section 7.1, Figure 4: DP-vMF-means on every scene of NYU v2: numbers of clusters, and silhouettes over the angle.

The shared data has 725 of the 1449 scenes, 2,048 normals each, from depth of 8 bits; the paper smoothed the normals of
all pixels by total variation. So numbers can be compared, digits cannot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from synthetic import Track

from armillary import DPvMFMeans, SphericalKMeans
from armillary.metrics import cosine_silhouette_score


def load(folder: Path, n_scenes: int | None) -> np.ndarray:
    """Normals (scenes, 2048, 3), unit."""
    with np.load(folder / "nyu2" / "normals.npz") as stored:
        normals = stored["normals"]
    step = 1 if n_scenes is None else max(1, len(normals) // n_scenes)
    rows = normals[::step].astype(np.float32)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def silhouette(rows: np.ndarray, labels: np.ndarray) -> float:
    """By cosine; 0 for one cluster, which has none."""
    return cosine_silhouette_score(rows, labels) if len(np.unique(labels)) > 1 else 0.0


STRAY_SHARE = 0.1
WHY = {"100, 10 % stray": (100.0, STRAY_SHARE), "70, clean": (70.0, 0.0), "65, clean": (65.0, 0.0)}


def why(scenes: np.ndarray, *, track: Track) -> dict[str, list[int]]:
    """Numbers of clusters where some normals are strays over the whole sphere, and at lesser angles without any.

    The normals stored here face the camera, and those that fit no plane are left out: nothing is beyond 100 degrees of
    a cluster in the middle of them. Normals of all pixels of a sensor have strays.
    """
    found = {}
    for name in track(list(WHY), f"{len(scenes)} scenes, strays"):
        (degrees, share), rng, numbers = WHY[name], np.random.default_rng(0), []
        for rows in scenes:
            n_stray = int(share * len(rows))
            stray = rng.standard_normal((n_stray, 3)).astype(np.float32)
            mixed = rows.copy()
            mixed[rng.choice(len(rows), n_stray, replace=False)] = stray / np.linalg.norm(stray, axis=1, keepdims=True)
            numbers.append(DPvMFMeans(math.radians(degrees)).fit(mixed).n_clusters_)
        found[name] = np.bincount(numbers).tolist()
    return found


def measure(scenes: np.ndarray, degrees: Iterable[float], numbers: Iterable[int], *, track: Track) -> dict[str, Any]:
    """Clusters of each scene and mean silhouette at each angle; mean silhouette of k-means with each number."""
    by_angle: dict[str, dict[str, Any]] = {}
    for angle in track(list(degrees), f"{len(scenes)} scenes, angles"):
        fits = [DPvMFMeans(math.radians(angle)).fit(rows) for rows in scenes]
        scores = [silhouette(rows, fit.labels_) for rows, fit in zip(scenes, fits, strict=True)]
        by_angle[f"{angle:g}"] = {
            "n_clusters": np.bincount([fit.n_clusters_ for fit in fits]).tolist(),
            "silhouette": float(np.mean(scores)),
            "silhouette_sd": float(np.std(scores)),
        }
    by_number: dict[str, dict[str, Any]] = {}
    for number in track(list(numbers), f"{len(scenes)} scenes, k-means"):
        scores = [
            silhouette(rows, SphericalKMeans(number, n_init=1, random_state=0).fit_predict(rows)) for rows in scenes
        ]
        by_number[str(number)] = {"silhouette": float(np.mean(scores)), "silhouette_sd": float(np.std(scores))}
    return {"n_scenes": len(scenes), "by_angle": by_angle, "by_number": by_number}
