"""Section 2: vMF mixtures whose concentration is fixed, at what the clusters have and away from it.

EM with one concentration that is never learned, told the number of clusters, from the same start each time: spherical
k-means of one k-means++ start. The isotropic sets of section 5.1, whose concentration is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp
from synthetic import SPREAD, make, nmi

from armillary import SphericalKMeans

FACTORS = (1.0 / 16.0, 1.0, 16.0)  # of the true concentration
N_STEPS = 50


def fixed(rows: np.ndarray, directions: np.ndarray, concentration: float) -> np.ndarray:
    """Labels after EM with this concentration."""
    log_weights = np.full(len(directions), -math.log(len(directions)))
    scores = np.empty((len(rows), len(directions)))
    for _ in range(N_STEPS):
        scores = log_weights + concentration * (rows @ directions.T - 1.0)
        shares = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
        sums = shares.T @ rows
        directions = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        log_weights = np.log(np.maximum(shares.mean(axis=0), 1e-300))
    return np.asarray(scores.argmax(axis=1))


def measure(n_rows: int, n_clusters: int, seed: int) -> dict[str, float]:
    """NMI by factor."""
    made = make("isotropic", n_rows, n_clusters, seed)
    model = SphericalKMeans(n_clusters, n_init=1, random_state=seed).fit(made.rows)
    start = np.asarray(model.cluster_centers_, dtype=np.float64)
    true = SPREAD**-2
    return {f"{factor:g}": nmi(made.labels, fixed(made.rows, start, factor * true)) for factor in FACTORS}


def cases(n_rows: int, n_clusters: int, runs: range) -> dict[str, Callable[[], Any]]:
    """By run; nothing runs yet."""
    return {f"run {run}": partial(measure, n_rows, n_clusters, run) for run in runs}
