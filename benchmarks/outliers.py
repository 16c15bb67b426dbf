"""Whether `outliers="auto"` keeps its promise, 1 % of rows of the same clusters kept apart, and who is caught.

    python -m benchmarks.outliers [part of a name ...] [--again]

Each cell fits `AutoClusterer(outliers="auto")` on rows of made clusters or of a recorded set, and asks `predict` for as
many rows (recorded sets: a fifth) of the same clusters that the fit did not see. The share of them that gets -1 is the
false-alarm rate. Then a tenth of the rows is replaced by others from elsewhere, and recall and precision of the -1 are
told: uniform rows among made ones, rows of another set of as many columns among recorded ones. Cells are stored one by
one in `results/outliers.json`.

    round      normal noise about directions: close to von Mises-Fisher clusters
    heavy      noise of each row scaled by a t law with 5 degrees of freedom
    long       noise with another scale in each column of each cluster
    unequal    sizes from 1 to 20 and spreads from 1 to 3
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from papers.common import shared_data
from rich.console import Console
from sklearn.metrics import adjusted_rand_score

import armillary
from armillary.datasets import make_sparse_topics
from benchmarks import defaults, measure

RESULTS = Path(__file__).parent / "results" / "outliers.json"
PLANTED = 0.1
SHAPES = ("round", "heavy", "long", "unequal")
# columns, clusters, rows: not all of all, so that a run ends within a quarter of an hour
SIZES = (
    *((n_features, 8, 2_000) for n_features in (2, 3, 8, 16, 64, 384, 1_000)),
    (3, 2, 300),
    (16, 2, 300),
    (384, 2, 300),
    (1_000, 8, 300),
    (16, 8, 300),
    (16, 50, 1_500),
    (64, 50, 1_500),
    (384, 50, 1_500),
    (16, 8, 12_000),
    (64, 50, 12_000),
    (3, 8, 50_000),
    (16, 50, 50_000),
)


class Parts(NamedTuple):
    """Rows to fit, rows of the same clusters kept apart, and rows from elsewhere."""

    fitted: Any
    apart: Any
    strangers: Any
    classes: np.ndarray  # of the fitted rows


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def clusters(shape: str, n_features: int, n_clusters: int, n_rows: int, generator: np.random.Generator) -> Parts:
    """Made clusters about directions that lie apart, twice the rows, and uniform ones."""
    directions = _apart(n_features, n_clusters, generator)
    nearest = np.sort(directions @ directions.T, axis=1)[:, -2].max()
    # the noise across a row is at most that of a cosine of 0.7, and less where directions are near
    spread = min(1.0, 0.35 * np.sqrt(2.0 - 2.0 * nearest) * np.sqrt(max(1.0, n_features / 8))) / np.sqrt(n_features)
    shares = np.ones(n_clusters)
    spreads = np.full((n_clusters, n_features), spread)
    if shape == "unequal":
        shares = np.geomspace(1.0, 20.0, n_clusters)
        spreads *= generator.permutation(np.geomspace(1.0 / 3.0, 1.0, n_clusters))[:, None]
    if shape == "long":
        spreads *= np.exp(0.6 * generator.standard_normal(spreads.shape)) / np.exp(0.36)
    labels = generator.choice(n_clusters, 2 * n_rows, p=shares / shares.sum())
    noise = generator.standard_normal((2 * n_rows, n_features)) * spreads[labels]
    if shape == "heavy":
        noise *= np.sqrt(5.0 / generator.chisquare(5.0, 2 * n_rows))[:, None] * 0.7
    rows = _unit(directions[labels] + noise).astype(np.float32)
    strangers = _unit(generator.standard_normal((n_rows, n_features))).astype(np.float32)
    return Parts(rows[:n_rows], rows[n_rows:], strangers, labels[:n_rows])


def _apart(n_features: int, n_clusters: int, generator: np.random.Generator) -> np.ndarray:
    """Directions with nearest neighbours as far as the best of several draws has them."""
    if n_features == 2:
        angles = 2.0 * np.pi * (np.arange(n_clusters) + 0.2 * generator.random(n_clusters)) / n_clusters
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    draws = [_unit(generator.standard_normal((n_clusters, n_features))) for _ in range(200)]
    return min(draws, key=lambda one: float((one @ one.T - 2.0 * np.eye(n_clusters)).max()))


def _made(shape: str, sizes: tuple[int, int, int]) -> Callable[[int], Parts]:
    return lambda seed: clusters(shape, *sizes, np.random.default_rng(seed))


def _topics(n_rows: int, n_clusters: int) -> Callable[[int], Parts]:
    def make(seed: int) -> Parts:
        rows, labels, _ = make_sparse_topics(2 * n_rows, 3_000, n_clusters, random_state=seed)
        other, _, _ = make_sparse_topics(n_rows, 3_000, 40, random_state=seed + 100)
        rows, other = sp.csr_array(rows), sp.csr_array(other)
        # words of the strangers are dealt out anew: documents without a topic, of the same vocabulary
        anew = other[:, np.random.default_rng(seed).permutation(3_000)]
        return Parts(rows[:n_rows], rows[n_rows:], anew, labels[:n_rows])

    return make


def _recorded(name: str, elsewhere: str) -> Callable[[int], Parts]:
    def load(seed: int) -> Parts:
        folder = shared_data()
        assert folder is not None
        data, other = (defaults.RECORDED[one](folder) for one in (name, elsewhere))
        order = np.random.default_rng(seed).permutation(data.rows.shape[0])
        apart, fitted = np.sort(order[: len(order) // 5]), np.sort(order[len(order) // 5 :])
        strangers = other.rows
        if sp.issparse(strangers):  # other words: only those columns that both have
            width = min(data.rows.shape[1], strangers.shape[1])
            strangers = sp.csr_array(strangers)[:, :width]
            strangers = strangers[np.diff(strangers.indptr) > 0]
            shape = strangers.shape[0], data.rows.shape[1]
            strangers = sp.csr_array((strangers.data, strangers.indices, strangers.indptr), shape)
        return Parts(data.rows[fitted], data.rows[apart], strangers, data.classes[fitted])

    return load


def cells() -> Iterator[tuple[str, Callable[[int], Parts], int]]:
    """Names, makers, and how many seeds."""
    for sizes in SIZES:
        for shape in SHAPES:
            n_features, n_clusters, n_rows = sizes
            n_seeds = 1 if n_rows > 10_000 else 4 if n_rows <= 300 else 2
            yield f"{shape}, D = {n_features}, K = {n_clusters}, n = {n_rows:,}", _made(shape, sizes), n_seeds
    yield "documents, K = 5, n = 1,000", _topics(1_000, 5), 2
    yield "documents, K = 20, n = 4,000", _topics(4_000, 20), 1
    if shared_data() is None:
        return
    for name, elsewhere in (
        ("voices, 10, windows", "voices, 251, windows"),
        ("voices, 251, windows", "voices, 10, windows"),
        ("faces, as they come", "faces, as they come"),
        ("faces, centred", "faces, centred"),
        ("sentences, Banking77", "sentences, AG News"),
        ("sentences, AG News", "sentences, Banking77"),
        ("text, BBC", "text, re0"),
        ("text, TDT2", "text, BBC"),
    ):
        yield name, _recorded(name, elsewhere), 2


def with_strangers(parts: Parts, generator: np.random.Generator) -> tuple[Any, np.ndarray]:
    """The fitted rows and a tenth of strangers, and which are those."""
    n_planted = round(PLANTED / (1.0 - PLANTED) * parts.fitted.shape[0])
    n_planted = min(n_planted, parts.strangers.shape[0])
    chosen = parts.strangers[np.sort(generator.choice(parts.strangers.shape[0], n_planted, replace=False))]
    stack = sp.vstack if sp.issparse(parts.fitted) else np.concatenate
    rows = stack([parts.fitted, chosen])
    is_planted = np.arange(rows.shape[0]) >= parts.fitted.shape[0]
    return (rows.tocsr() if sp.issparse(rows) else rows), is_planted


def measure_one(make: Callable[[int], Parts], seed: int, plants: bool) -> dict[str, float]:
    """Rates of one draw."""
    parts = make(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = armillary.AutoClusterer(outliers="auto", random_state=seed).fit(parts.fitted)
        rejected = model.predict(parts.apart) < 0
        found = {
            "n_found": model.n_clusters_,
            "n_apart": len(rejected),
            "alarms": int(rejected.sum()),
            "alarms_of_fitted": float(np.mean(model.labels_ < 0)),
            "ari": float(adjusted_rand_score(parts.classes, model.predict(parts.fitted))),
        }
        if plants:
            rows, is_planted = with_strangers(parts, np.random.default_rng(seed))
            mixed = armillary.AutoClusterer(outliers="auto", random_state=seed).fit(rows)
            is_out = mixed.labels_ < 0
            found |= {
                "recall": float(is_out[is_planted].mean()),
                "precision": float(is_planted[is_out].mean()) if is_out.any() else 1.0,
                "alarms_beside_planted": float(is_out[~is_planted].mean()),
                # had the limits been learned without them
                "recall_of_clean_fit": float((model.predict(rows[is_planted.nonzero()[0]]) < 0).mean()),
            }
    return found


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of names of cells; all by default")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    console = Console(width=200)
    stored = json.loads(arguments.output.read_text())["cells"] if arguments.output.exists() else {}
    for name, make, n_seeds in cells():
        if arguments.names and not any(part in name for part in arguments.names):
            continue
        if name in stored and not arguments.again:
            continue
        found = [measure_one(make, seed, plants=_has_strangers(name)) for seed in range(n_seeds)]
        n_apart = sum(one["n_apart"] for one in found)
        rate = sum(one["alarms"] for one in found) / n_apart
        means = {key: round(float(np.mean([one[key] for one in found])), 4) for key in found[0] if key != "alarms"}
        stored[name] = {"rate": round(rate, 5), "error": round(float(np.sqrt(0.01 * 0.99 / n_apart)), 5), **means}
        console.print(name, stored[name])
        result = {"command": "python -m benchmarks.outliers", "cells": stored}
        measure.store(arguments.output, result, Console(quiet=True))


def _has_strangers(name: str) -> bool:
    """Faces have no other set of as many columns that is no cluster of its own."""
    return not name.startswith("faces")


if __name__ == "__main__":
    main()
