"""Sections 1 to 3: models that the paper says describe less, on the sets of section 5.1.

DP-vMF-MM            round clusters: the Dirichlet process mixture of vMF laws, from the default start
one tangent space    30 Gaussians in the tangent space of the Karcher mean of all rows, told the number, the likeliest
                     of five starts (scikit-learn's); 30 Gaussians in space beside them
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture
from synthetic import Made, make, nmi

from armillary import DirichletProcessMixture
from armillary.geometry import means, sphere

ROUND, FLAT, SPACE = "DP-vMF-MM", "Gaussians in one tangent space", "Gaussians in space"
N_STARTS = 5


def measure(kind: str, n_rows: int, n_clusters: int, n_draws: int, seed: int) -> dict[str, dict[str, float]]:
    """All three on the rows of one run."""
    made = make(kind, n_rows, n_clusters, seed)
    model = DirichletProcessMixture("vmf", n_burn_in=0, n_draws=n_draws, random_state=seed).fit(made.rows)
    middle = means.karcher_mean(made.rows)
    flat = sphere.log(made.rows, middle) @ sphere.tangent_frame(middle)
    return {
        ROUND: {"n_clusters": model.n_clusters_, "nmi": nmi(made.labels, model.labels_)},
        FLAT: {"nmi": _told(flat, made, seed)},
        SPACE: {"nmi": _told(made.rows, made, seed)},
    }


def _told(places: np.ndarray, made: Made, seed: int) -> float:
    model = GaussianMixture(made.n_clusters, n_init=N_STARTS, init_params="k-means++", random_state=seed)
    return nmi(made.labels, model.fit_predict(places))


def cases(n_rows: int, n_clusters: int, n_draws: int, runs: range) -> dict[str, Callable[[], Any]]:
    """By set and run; nothing runs yet."""
    return {
        f"{kind}, run {run}": partial(measure, kind, n_rows, n_clusters, n_draws, run)
        for kind in ("isotropic", "anisotropic")
        for run in runs
    }


def collected(found: dict[str, Any]) -> dict[str, list[Any]]:
    """Set -> runs."""
    by_kind: dict[str, list[Any]] = {}
    for key, entry in found.items():
        by_kind.setdefault(key.split(",")[0], []).append(entry)
    return by_kind
