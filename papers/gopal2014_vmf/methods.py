"""The methods, each from a given start, and the six measures."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.metrics import adjusted_rand_score, mutual_info_score, normalized_mutual_info_score, rand_score

import armillary
from armillary.draws import Stream
from armillary.metrics import macro_f1_score, purity_score

MEASURES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "MI": mutual_info_score,
    "NMI": normalized_mutual_info_score,
    "RI": rand_score,
    "ARI": adjusted_rand_score,
    "purity": purity_score,
    "macro F1": macro_f1_score,
}


class Start(NamedTuple):
    """What a run starts from."""

    kind: str  # "random labels" or "k-means++"
    seed: int
    directions: np.ndarray  # (K, D) unit


def start_labels(seed: int, n_rows: int, n_components: int) -> np.ndarray:
    """The labels that `MultinomialMixture(init="random_labels", random_state=seed)` starts from."""
    return Stream.of(seed).generator("start", 1).integers(n_components, size=n_rows)


def make_start(rows: Any, n_components: int, kind: str, seed: int) -> Start:
    """Directions of the sums of random groups, which is the paper's start, or k-means++ rows."""
    if kind == "random labels":
        labels = start_labels(seed, rows.shape[0], n_components)
        sums = np.stack([np.asarray(rows[labels == k].sum(axis=0)).ravel() for k in range(n_components)])
    else:
        chosen, _ = kmeans_plusplus(rows, n_components, random_state=seed)
        sums = chosen.toarray() if hasattr(chosen, "toarray") else chosen
    return Start(kind, seed, sums / np.linalg.norm(sums, axis=1, keepdims=True))


def _mixture(concentration: str) -> Callable[[Any, Any, Start], np.ndarray]:
    def run(rows: Any, counts: Any, start: Start) -> np.ndarray:
        model = armillary.VonMisesFisherMixture(
            len(start.directions), concentration=concentration, init=start.directions
        )
        return model.fit_predict(rows)

    return run


def _spherical(rows: Any, counts: Any, start: Start) -> np.ndarray:
    model = armillary.SphericalKMeans(len(start.directions), init=start.directions, random_state=start.seed)
    return model.fit(rows).labels_


def _kmeans(rows: Any, counts: Any, start: Start) -> np.ndarray:
    return KMeans(len(start.directions), init=start.directions, n_init=1, max_iter=200, algorithm="lloyd").fit_predict(
        rows
    )


def _soft(rows: Any, counts: Any, start: Start) -> np.ndarray:
    return armillary.SoftKMeans(len(start.directions), init=start.directions).fit_predict(rows)


def _multinomial(rows: Any, counts: Any, start: Start) -> np.ndarray:
    # the same labels for random labels (`start_labels`); k-means++ rows of its own draw, by the same law
    init = "random_labels" if start.kind == "random labels" else "k-means++"
    return armillary.MultinomialMixture(len(start.directions), init=init, random_state=start.seed).fit_predict(counts)


def _lda(rows: Any, counts: Any, start: Start) -> np.ndarray:
    # topics are drawn from a gamma law: there is no start from labels or rows
    model = LatentDirichletAllocation(len(start.directions), max_iter=10, random_state=start.seed, n_jobs=1)
    return model.fit_transform(counts).argmax(axis=1)


METHODS: dict[str, Callable[[Any, Any, Start], np.ndarray]] = {
    "vMFmix tied": _mixture("tied"),
    "vMFmix free": _mixture("free"),
    "spherical k-means": _spherical,
    "k-means": _kmeans,
    "soft k-means": _soft,
    "multinomial": _multinomial,
    "LDA": _lda,
}


def measure(name: str, rows: Any, counts: Any, classes: np.ndarray, start: Start) -> dict[str, float]:
    """The six measures of one run, its time and the clusters it used."""
    begin = time.perf_counter()
    labels = METHODS[name](rows, counts, start)
    seconds = time.perf_counter() - begin
    found = {measure: float(function(classes, labels)) for measure, function in MEASURES.items()}
    return {**found, "clusters": float(len(np.unique(labels))), "seconds": seconds}


def summary(runs: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Mean and standard deviation over the runs."""
    return {
        name: {
            "mean": float(np.mean([run[name] for run in runs])),
            "sd": float(np.std([run[name] for run in runs], ddof=1)) if len(runs) > 1 else 0.0,
        }
        for name in runs[0]
    }
