"""Section 2.2: what it costs to draw mean directions, beside a sweep of the sampler that integrates them out.

CPU milliseconds of one thread, the least of several: a direction of every component from its posterior given labels and
concentrations, and a collapsed sweep over the documents, from the same start.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from documents import Documents, tf_idf
from methods import make_start

import armillary
from armillary.distributions import vmf

SHORT, LONG, N_TRIALS, N_DRAWN = 5, 105, 3, 20


def measure(documents: Documents, seed: int) -> dict[str, float]:
    """Milliseconds of drawing all directions, and of a sweep."""
    rows = tf_idf(documents.counts)
    start = make_start(rows, documents.n_classes, "k-means++", seed).directions
    models = {number: _fitted(rows, start, number, seed) for number in (SHORT, LONG)}
    sweep = (models[LONG][1] - models[SHORT][1]) / (LONG - SHORT)
    model = models[LONG][0]
    labels = np.asarray(model.labels_)
    sums = np.stack([np.asarray(rows[labels == k].sum(axis=0)).ravel() for k in range(len(start))])
    lengths = np.linalg.norm(sums, axis=1)
    kept = [k for k in range(len(start)) if lengths[k] > 0.0]
    drawn = min(_drawn(sums, lengths, model.concentrations_, kept, seed) for _ in range(N_DRAWN))
    return {"draw": 1e3 * drawn, "sweep": 1e3 * sweep, "components": float(len(kept))}


def _fitted(rows: Any, start: np.ndarray, n_sweeps: int, seed: int) -> tuple[Any, float]:
    """A chain of so many sweeps, and its least CPU time."""
    spent: list[float] = []
    model: Any = None
    for _ in range(N_TRIALS):
        model = armillary.GibbsVonMisesFisherMixture(
            len(start), n_burn_in=n_sweeps - 1, n_draws=1, init=start, random_state=seed, n_threads=1
        )
        begin = time.process_time()
        model.fit(rows)
        spent.append(time.process_time() - begin)
    return model, min(spent)


def _drawn(sums: np.ndarray, lengths: np.ndarray, concentrations: np.ndarray, kept: list[int], seed: int) -> float:
    """CPU seconds of one direction of each component."""
    begin = time.process_time()
    for k in kept:
        vmf.sample(sums[k] / lengths[k], float(concentrations[k] * lengths[k]), 1, random_state=seed + k)
    return time.process_time() - begin
