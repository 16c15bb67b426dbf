"""Section 10.3: what one iteration costs, in CPU milliseconds of one thread.

The difference of a long and a short run from the same start, over the iterations that it has more: what comes before
the first iteration drops out. Beside them both steps of an iteration, written out: the product that decides, and the
sums.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from documents import Documents, tf_idf
from methods import make_start
from sklearn.cluster import KMeans
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import armillary

SHORT, LONG, N_TRIALS = 2, 22, 3
LDA, FEW = "LDA", (1, 3)  # it is slow
STEPS = "steps"


def _methods(directions: Any, seed: int) -> dict[str, Callable[[int], Any]]:
    """A model of each method, to be stopped after so many iterations."""
    n = len(directions)
    ours: dict[str, Any] = {"init": directions, "tol": 0.0, "n_threads": 1}
    return {
        "vMFmix tied": lambda steps: armillary.VonMisesFisherMixture(n, max_iter=steps, **ours),
        "k-means": lambda steps: KMeans(n, init=directions, n_init=1, max_iter=steps, tol=0.0, algorithm="lloyd"),
        "soft k-means": lambda steps: armillary.SoftKMeans(n, max_iter=steps, **ours),
        "multinomial": lambda steps: armillary.MultinomialMixture(
            n, init="random_labels", max_iter=steps, tol=0.0, random_state=seed, n_threads=1
        ),
    }


def measure(documents: Documents, seed: int) -> dict[str, Any]:
    """CPU milliseconds of an iteration by every method, at as many clusters as classes."""
    rows = tf_idf(documents.counts)
    start = make_start(rows, documents.n_classes, "random labels", seed)
    found: dict[str, Any] = {}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)  # a few iterations are what was asked for
        for name, model in _methods(start.directions, seed).items():
            given = documents.counts if name == "multinomial" else rows
            model(SHORT).fit(given)  # compiled
            times, steps = zip(*(_fitted(model(number), given) for number in (SHORT, LONG)), strict=True)
            found[name] = 1e3 * (times[1] - times[0]) / max(1, steps[1] - steps[0])
        times = [_fitted(_topics(documents.n_classes, number, seed), documents.counts, 1)[0] for number in FEW]
        found[LDA] = 1e3 * (times[1] - times[0]) / (FEW[1] - FEW[0])
        found[STEPS] = _steps(rows, start.directions)
    return found


def _steps(rows: Any, directions: np.ndarray) -> dict[str, float]:
    """CPU milliseconds of the product of rows and directions, and of the sums by hard labels and by shares."""
    labels = np.asarray((rows @ directions.T).argmax(axis=1))
    groups = sp.csr_matrix((np.ones(len(labels)), (labels, np.arange(len(labels)))), (len(directions), len(labels)))
    shares = groups.T.toarray()
    steps: dict[str, Callable[[], Any]] = {
        "product": lambda: rows @ directions.T,
        "sums of hard labels": lambda: groups @ rows,
        "sums of shares": lambda: rows.T @ shares,
    }
    return {name: 1e3 * min(_spent(step) for _ in range(3 * N_TRIALS)) for name, step in steps.items()}


def _spent(step: Callable[[], Any]) -> float:
    begin = time.process_time()
    step()
    return time.process_time() - begin


def _topics(n: int, steps: int, seed: int) -> Any:
    return LatentDirichletAllocation(n, max_iter=steps, random_state=seed, n_jobs=1)


def _fitted(model: Any, rows: Any, n_trials: int = N_TRIALS) -> tuple[float, int]:
    """The least CPU time of several fits, and the iterations of one."""
    spent = []
    for _ in range(n_trials):
        begin = time.process_time()
        model.fit(rows)
        spent.append(time.process_time() - begin)
    return min(spent), int(model.n_iter_)
