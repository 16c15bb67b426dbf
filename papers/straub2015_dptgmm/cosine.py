"""Section 1: documents by the angle between them and by Euclidean distance.

The same tf-idf weights twice: to unit length, which spherical k-means compares by angle, and as long as they are, which
k-means compares by distance. As many clusters as classes, from the same random groups and from k-means++ of each.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import normalized_mutual_info_score
from sklearn.preprocessing import normalize

from armillary import SphericalKMeans

sys.path.append(str(Path(__file__).parents[2]))  # the loader of documents is that of another paper
from papers.gopal2014_vmf.documents import Documents, load

NAMES = ("CNAE-9", "BBC", "re0", "fbis", "k1a")
STARTS = ("random labels", "k-means++")
N_STEPS = 200


def measure(documents: Documents, seed: int) -> dict[str, dict[str, float]]:
    """NMI by start, of both."""
    n_clusters = documents.n_classes
    weighed = TfidfTransformer(norm=None, smooth_idf=True).fit_transform(documents.counts)
    rows = normalize(weighed)
    groups = np.eye(n_clusters)[np.random.default_rng(seed).integers(n_clusters, size=rows.shape[0])]
    directions, means = normalize((rows.T @ groups).T), (weighed.T @ groups).T / groups.sum(axis=0)[:, None]
    given: dict[str, tuple[Any, Any]] = {STARTS[0]: (directions, means), STARTS[1]: ("k-means++", "k-means++")}
    found = {}
    for start, (by_angle, by_distance) in given.items():
        asked: dict[str, Any] = {"n_init": 1, "max_iter": N_STEPS, "random_state": seed}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            labels = {
                "cosine": SphericalKMeans(n_clusters, init=by_angle, **asked).fit_predict(rows),
                "Euclidean": KMeans(n_clusters, init=by_distance, **asked).fit_predict(weighed),
            }
        found[start] = {
            name: float(normalized_mutual_info_score(documents.classes, one)) for name, one in labels.items()
        }
    return found


def cases(folder: Path, names: tuple[str, ...], n_runs: int) -> dict[str, Callable[[], Any]]:
    """By set and run; nothing runs yet."""

    def case(name: str, seed: int) -> dict[str, Any]:
        return measure(load(folder, name), seed)

    return {f"{name}: run {seed}": partial(case, name, seed) for name in names for seed in range(1, n_runs + 1)}


def collected(found: dict[str, Any]) -> dict[str, list[Any]]:
    """Set -> runs."""
    by_name: dict[str, list[Any]] = {}
    for key, entry in found.items():
        by_name.setdefault(key.split(":")[0], []).append(entry)
    return by_name
