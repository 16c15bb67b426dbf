"""Section 5.1, Figure 3: thirty clusters on the sphere; NMI and number of clusters over the sweeps of every method.

The paper leaves its generator open. Here directions are at least 15 degrees apart, as in the authors' published one;
standard deviations are 4 degrees (isotropic), or covariances inverse Wishart with that mean and 5 degrees of freedom
(anisotropic). Every run has its own rows. NMI is normalised by the geometric mean (the paper's [45]).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from armillary import DirichletProcessMixture, SphericalKMeans
from armillary.datasets import make_tangent_gaussian_mixture
from armillary.geometry import sphere
from armillary.metrics import geometric_nmi_score as nmi

SPREAD, MIN_ANGLE = math.radians(4.0), math.radians(15.0)
DEGREES_OF_FREEDOM = {"isotropic": math.inf, "anisotropic": 5.0}

TANGENT, FINITE, EUCLIDEAN = "DP-TGMM", "FSD-TGMM", "DP-GMM"
# Samplers from the default start: many clusters of k-means, merged while that pays.
FROM_DEFAULT: dict[str, dict[str, Any]] = {
    TANGENT: {},
    FINITE: {"sampler": "finite"},
    EUCLIDEAN: {"component": "gaussian"},
}
# What the paper has: splits by sub-clusters, no volume factor (which Gaussians in space do not have).
PAPER = {"sampler": "subclusters", "volume_factor": False}
RANDOM = "random labels"  # stands for one of as many labels as there are clusters, drawn for each row
FROM_ELSEWHERE: dict[str, dict[str, Any]] = {
    "DP-TGMM, from one cluster": {"init": "one"},
    "DP-TGMM, from random labels": {"init": RANDOM},
    "DP-TGMM, the paper's moves, from one cluster": {**PAPER, "init": "one"},
    "DP-TGMM, the paper's moves, from random labels": {**PAPER, "init": RANDOM},
    "FSD-TGMM, from random labels": {"sampler": "finite", "init": RANDOM},
    "DP-GMM, the paper's moves, from random labels": {**PAPER, "component": "gaussian", "init": RANDOM},
}
# Told the true number. k-means++ is ours and scikit-learn's greedy one.
_STARTS = ("random labels", "k-means++", "best of ten k-means++")
TOLD = tuple(f"{method}, {start}" for method in ("k-means", "spherical k-means") for start in _STARTS)

_N_ITERATIONS = 30  # of k-means
_EVERY_SWEEP, _STEP = 20, 5  # curves hold each sweep up to here, then every fifth

Track = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Made:
    """Rows with known truth."""

    rows: np.ndarray  # (n, 3)
    labels: np.ndarray  # (n,)
    n_clusters: int
    best_nmi: float  # of the most probable cluster of each row under the true parameters: no method can expect more


@dataclass(frozen=True, eq=False)
class Outcome:
    """One run of one method."""

    nmi: np.ndarray  # (sweeps,) NaN where labels were not kept
    n_clusters: np.ndarray  # (sweeps,)
    labels: np.ndarray  # (n,) the point estimate of a sampler, or its last draw


def make(kind: str, n_rows: int, n_clusters: int, seed: int) -> Made:
    """Rows of one run."""
    rows, labels, truth = make_tangent_gaussian_mixture(
        n_rows,
        3,
        n_clusters,
        spread=SPREAD,
        degrees_of_freedom=DEGREES_OF_FREEDOM[kind],
        min_angle=MIN_ANGLE,
        random_state=seed,
    )
    clusters = zip(truth.directions, truth.covariances, strict=True)
    densities = np.stack([log_density(rows, *cluster) for cluster in clusters], axis=1)
    return Made(rows, labels, n_clusters, nmi(labels, densities.argmax(axis=1)))


def log_density(rows: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Of rows (n, D) in the tangent space of one cluster, brought to the sphere (dp_tgmm.md, 2.2)."""
    frame = sphere.tangent_frame(mean)
    places = sphere.log(rows, mean) @ frame
    flat = multivariate_normal(cov=frame.T @ covariance @ frame).logpdf(places)
    # sinc is sin(pi x) / (pi x)
    return flat - (places.shape[1] - 1) * np.log(np.sinc(np.linalg.norm(places, axis=1) / np.pi))


def sampled(made: Made, settings: Mapping[str, Any], n_draws: int, seed: int, *, is_estimated: bool = True) -> Outcome:
    """A chain of which all draws after the warm-up are kept.

    Its labels are the point estimate of a fit, `labels_`; or the last draw, as in the paper, where the chain has far to
    go from its start and early draws tell nothing.
    """
    settings = dict(settings)
    if isinstance(settings.get("init"), str) and settings["init"] == RANDOM:
        settings["init"] = random_labels(made, seed)
    model = DirichletProcessMixture(n_burn_in=0, n_draws=n_draws, random_state=seed, **settings).fit(made.rows)
    draws = model.sample_labels_
    agreements = np.full(model.trace_.shape[1], np.nan)
    agreements[model.n_discarded_ :] = [nmi(made.labels, draw) for draw in draws]
    return Outcome(agreements, model.trace_[0, :, 0], model.labels_ if is_estimated else draws[-1])


def random_labels(made: Made, seed: int) -> np.ndarray:
    """One of as many labels as there are clusters, for each row."""
    return np.random.default_rng(seed).integers(made.n_clusters, size=len(made.rows))


def told(made: Made, method: str, seed: int) -> Outcome:
    """k-means or spherical k-means with the true number of clusters, one iteration after the other."""
    name, start = method.split(", ")

    def fitted(init: Any, n_init: int = 1, max_iter: int = 1) -> Any:
        kind = KMeans if name == "k-means" else SphericalKMeans
        model = kind(made.n_clusters, init=init, n_init=n_init, max_iter=max_iter, tol=0.0, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # one iteration is what was asked for
            return model.fit(made.rows)

    if start == _STARTS[2]:
        labels = fitted("k-means++", n_init=10, max_iter=300).labels_
        curve = np.array([nmi(made.labels, labels)])
        return Outcome(curve, np.array([float(made.n_clusters)]), labels)
    init: Any = "k-means++"
    if start == RANDOM:
        sums = np.eye(made.n_clusters)[random_labels(made, seed)].T @ made.rows
        init = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    agreements = []
    for _ in range(_N_ITERATIONS):
        model = fitted(init)
        agreements.append(nmi(made.labels, model.labels_))
        init = model.cluster_centers_
    n_clusters = np.full(_N_ITERATIONS, float(made.n_clusters))
    return Outcome(np.array(agreements), n_clusters, model.labels_)


def run(
    kind: str,
    n_rows: int,
    n_clusters: int,
    runs: range,
    samplers: Mapping[str, Any],
    n_draws: int,
    *,
    track: Track,
    is_estimated: bool = True,
    told_methods: Sequence[str] = (),
) -> tuple[dict[str, Any], Made, dict[str, Outcome]]:
    """All methods over the runs; also the rows and outcomes of the first, for a picture."""
    outcomes: dict[str, list[Outcome]] = {}
    made = {seed: make(kind, n_rows, n_clusters, seed) for seed in runs}
    for seed in track(runs, f"{kind}, {n_rows:,} rows"):
        for method, settings in samplers.items():
            outcome = sampled(made[seed], settings, n_draws, seed, is_estimated=is_estimated)
            outcomes.setdefault(method, []).append(outcome)
        for method in told_methods:
            outcomes.setdefault(method, []).append(told(made[seed], method, seed))
    results = {
        "n_rows": n_rows,
        "n_true": n_clusters,
        "n_runs": len(runs),
        "n_draws": n_draws,
        "best_nmi": [one.best_nmi for one in made.values()],
        "methods": {
            method: summary(found, [one.labels for one in made.values()]) for method, found in outcomes.items()
        },
    }
    return results, made[runs[0]], {method: found[0] for method, found in outcomes.items()}


def elsewhere(kind: str, n_rows: int, n_clusters: int, runs: range, n_draws: int) -> dict[str, Callable[[], Any]]:
    """One case for each sampler of `FROM_ELSEWHERE` and run: what `collected` takes, not computed yet."""

    def case(settings: Mapping[str, Any], seed: int, n_rows: int, n_draws: int) -> dict[str, Any]:
        made = make(kind, n_rows, n_clusters, seed)
        outcome = sampled(made, settings, n_draws, seed, is_estimated=False)
        return summary([outcome], [made.labels]) | {"best_nmi": made.best_nmi}

    return {
        f"{method}, run {seed}": partial(case, settings, seed, n_rows, n_draws)
        for seed in runs
        for method, settings in FROM_ELSEWHERE.items()
    }


def collected(cases: Mapping[str, Any], n_rows: int, n_clusters: int, runs: range, n_draws: int) -> dict[str, Any]:
    """The cases of `elsewhere` in the form of `run`."""
    by_method = {method: [cases[f"{method}, run {seed}"] for seed in runs] for method in FROM_ELSEWHERE}
    return {
        "n_rows": n_rows,
        "n_true": n_clusters,
        "n_runs": len(runs),
        "n_draws": n_draws,
        "best_nmi": [one["best_nmi"] for one in next(iter(by_method.values()))],
        "methods": {method: _together(found) for method, found in by_method.items()},
    }


def _together(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Summaries of single runs as one; NaN, which JSON lacks, stands for NMI that was not kept."""
    lists = {what: [one[what][0] for one in found] for what in ("n_clusters", "nmi", "last_n_clusters", "last_nmi")}
    curves: dict[str, Any] = {"sweep": found[0]["curves"]["sweep"]}
    for what in ("nmi", "n_clusters"):
        values = np.array([one["curves"][what]["mean"] for one in found], dtype=np.float64)
        curves[what] = {"mean": values.mean(axis=0).tolist(), "sd": values.std(axis=0).tolist()}
    return {**lists, "curves": curves}


def summary(outcomes: list[Outcome], truths: list[np.ndarray]) -> dict[str, Any]:
    """Numbers of each run, and curves over the sweeps."""
    n_sweeps = len(outcomes[0].nmi)
    places = [sweep for sweep in range(n_sweeps) if sweep < _EVERY_SWEEP or (sweep + 1) % _STEP == 0]
    pairs = zip(outcomes, truths, strict=True)
    return {
        "n_clusters": [len(np.unique(one.labels)) for one in outcomes],
        "nmi": [nmi(truth, one.labels) for one, truth in pairs],
        "last_n_clusters": [int(one.n_clusters[-1]) for one in outcomes],
        "last_nmi": [float(one.nmi[-1]) for one in outcomes],
        "curves": {
            "sweep": [place + 1 for place in places],
            **{
                what: {
                    "mean": np.mean([getattr(one, what)[places] for one in outcomes], axis=0).tolist(),
                    "sd": np.std([getattr(one, what)[places] for one in outcomes], axis=0).tolist(),
                }
                for what in ("nmi", "n_clusters")
            },
        },
    }
