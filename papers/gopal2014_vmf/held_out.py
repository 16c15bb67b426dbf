"""Held-out likelihood by the fair rules: idf from training rows, one start for all, nats over the uniform law."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from documents import Documents, tf_idf
from methods import make_start, summary

import armillary
from armillary.geometry import sphere

FLAT = ("vMFmix tied", "vMFmix free", "B-vMFmix")


class Split(NamedTuple):
    """Documents to learn from and documents to be surprised by."""

    train: Any  # unit rows
    test: Any
    trained: np.ndarray  # numbers of the training documents


def split(documents: Documents, train: np.ndarray, test: np.ndarray) -> Split:
    """tf-idf rows over the vocabulary of the training documents; test documents without a word of it are dropped."""
    seen = np.asarray(documents.counts[train].sum(axis=0)).ravel() > 0
    counts = documents.counts[:, seen].tocsr()
    is_filled = np.diff(counts.indptr) > 0
    rows = tf_idf(counts, train)
    return Split(rows[train], rows[test[is_filled[test]]], train)


def halves(documents: Documents, seed: int) -> Split:
    """Half of the documents against the other."""
    order = np.random.default_rng([seed, 14]).permutation(documents.counts.shape[0])
    return split(documents, np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :]))


def gain(log_density: float, n_features: int) -> float:
    """A mean log density over that of the uniform law, in nats."""
    return float(log_density + sphere.log_area(n_features))


def flat(rows: Split, start: np.ndarray, seed: int) -> dict[str, float]:
    """The mixtures without a tree or time, fitted to one part and scored on the other."""
    n_components, n_features = start.shape
    models: dict[str, Any] = {
        f"vMFmix {kind}": armillary.VonMisesFisherMixture(n_components, concentration=kind, init=start)
        for kind in ("tied", "free")
    }
    models["B-vMFmix"] = armillary.BayesianVonMisesFisherMixture(n_components, init=start, random_state=seed)
    return {name: gain(model.fit(rows.train).score(rows.test), n_features) for name, model in models.items()}


def measure(documents: Documents, n_components: int, seed: int) -> dict[str, float]:
    """One split into halves: every model from the same k-means++ rows."""
    rows = halves(documents, seed)
    return flat(rows, make_start(rows.train, n_components, "k-means++", seed).directions, seed)


def over_splits(documents: Documents, numbers: list[int], n_splits: int, track: Any) -> dict[str, Any]:
    """By number of components: mean and spread of each model, and every split, for comparisons in pairs."""
    by_number = {
        str(number): collected([measure(documents, number, seed) for seed in range(1, n_splits + 1)])
        for number in track(numbers, f"{documents.name}, held out")
    }
    return described(documents, n_splits, by_number)


def collected(splits: list[dict[str, float]]) -> dict[str, Any]:
    """What is kept of the splits of one setting."""
    return {"summary": summary(splits), "splits": splits}


def described(documents: Documents, n_splits: int, by_number: dict[str, Any]) -> dict[str, Any]:
    """What is kept of one set."""
    shape = [int(size) for size in documents.counts.shape]
    return {"shape": shape, "n_splits": n_splits, "by_number": by_number}
