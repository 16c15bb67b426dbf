"""Held-out likelihood by the fair rules: idf from training rows, one start for all, nats over the uniform law."""

from __future__ import annotations

from typing import Any

import numpy as np
from documents import Documents, tf_idf
from methods import make_start, summary

import armillary
from armillary.geometry import sphere

MODELS = ("vMFmix tied", "vMFmix free", "B-vMFmix")


def bayesian() -> Any:
    """The Bayesian mixture; None where this release of Armillary has none."""
    try:
        from armillary.models.bayesian_vmf_mixture import BayesianVonMisesFisherMixture
    except ImportError:
        return None
    return BayesianVonMisesFisherMixture


def gain(model: Any, rows: Any) -> float:
    """Mean log density of the rows over that of the uniform law, in nats."""
    return float(model.score(rows) + sphere.log_area(rows.shape[1]))


def measure(documents: Documents, n_components: int, seed: int) -> dict[str, float]:
    """One split into halves: every model, fitted on one and scored on the other."""
    order = np.random.default_rng([seed, 14]).permutation(documents.counts.shape[0])
    train, test = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
    seen = np.asarray(documents.counts[train].sum(axis=0)).ravel() > 0  # vocabulary from training rows only
    counts = documents.counts[:, seen].tocsr()
    is_filled = np.diff(counts.indptr) > 0
    rows = tf_idf(counts, train)
    test = test[is_filled[test]]
    start = make_start(rows[train], n_components, "k-means++", seed).directions
    found = {}
    for concentration in ("tied", "free"):
        model = armillary.VonMisesFisherMixture(n_components, concentration=concentration, init=start).fit(rows[train])
        found[f"vMFmix {concentration}"] = gain(model, rows[test])
    bayes = bayesian()
    if bayes is not None:
        model = bayes(n_components, init=start, random_state=seed).fit(rows[train])
        found["B-vMFmix"] = gain(model, rows[test])
    return found


def over_splits(documents: Documents, numbers: list[int], n_splits: int, track: Any) -> dict[str, Any]:
    """By number of components: mean and spread of each model, and every split, for comparisons in pairs."""
    by_number = {}
    for n_components in track(numbers, f"{documents.name}, held out"):
        splits = [measure(documents, n_components, seed) for seed in range(1, n_splits + 1)]
        by_number[str(n_components)] = {"summary": summary(splits), "splits": splits}
    shape = [int(size) for size in documents.counts.shape]
    return {"shape": shape, "n_splits": n_splits, "by_number": by_number}
