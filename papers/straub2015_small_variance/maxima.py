"""Section 2: the maxima of an extended Gaussian image beside the clusters of DP-vMF-means, scene by scene.

The image of a scene is the density of its normals, here by a vMF kernel at directions spread over the sphere; a maximum
is a direction that none of its neighbours exceeds and that reaches a tenth of the highest.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from synthetic import Track

from armillary import DPvMFMeans

N_PLACES, N_NEIGHBOURS = 1000, 8
KERNEL = 50.0  # a concentration: a standard deviation of 8 degrees
LEAST = 0.1  # of the highest maximum
NEAR = math.radians(15.0)
DEGREES = 80.0  # the angle of the best silhouettes of these scenes


def places(n: int) -> np.ndarray:
    """Directions spread evenly, on a spiral."""
    heights = 1.0 - (2.0 * np.arange(n) + 1.0) / n
    turns = math.pi * (1.0 + math.sqrt(5.0)) * np.arange(n)
    ring = np.sqrt(1.0 - heights**2)
    return np.stack([ring * np.cos(turns), ring * np.sin(turns), heights], axis=1)


def maxima(rows: np.ndarray, at: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """The directions (m, 3) of the maxima."""
    density = np.exp(KERNEL * (rows @ at.T - 1.0)).sum(axis=0)
    is_highest = (density[:, None] >= density[neighbours]).all(axis=1) & (density >= LEAST * density.max())
    return at[is_highest]


def measure(scenes: np.ndarray, *, track: Track) -> dict[str, Any]:
    """Of every scene: how many centres and maxima there are, and how many have one of the other near them."""
    at = places(N_PLACES)
    neighbours = np.argsort(-(at @ at.T), axis=1)[:, 1 : 1 + N_NEIGHBOURS]
    found = []
    for rows in track(list(scenes), "extended Gaussian images"):
        centers = np.asarray(DPvMFMeans(math.radians(DEGREES)).fit(rows).cluster_centers_, dtype=np.float64)
        peaks = maxima(rows.astype(np.float64), at, neighbours)
        is_near = centers @ peaks.T >= math.cos(NEAR)
        found.append([len(centers), int(is_near.any(axis=1).sum()), len(peaks), int(is_near.any(axis=0).sum())])
    names = ("centres", "centres near a maximum", "maxima", "maxima near a centre")
    return {name: [line[place] for line in found] for place, name in enumerate(names)}
