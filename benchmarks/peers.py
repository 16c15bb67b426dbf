"""One call per peer: the same rows, starts, steps and threads; directions out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from benchmarks.workloads import Workload


class Fit(NamedTuple):
    """What a peer returns: centers (K, D) and the steps it really took (some stop when no label changes)."""

    centers: np.ndarray
    n_steps: int


Peer = Callable[[Workload, int, int], Fit]  # (workload, most steps, n_threads)


def armillary(work: Workload, n_steps: int, n_threads: int, algorithm: str = "lloyd") -> Fit:
    """Ours, every row scored in every step."""
    from armillary import SphericalKMeans

    model = SphericalKMeans(
        work.n_clusters, init=work.starts, max_iter=n_steps, tol=0.0, algorithm=algorithm, n_threads=n_threads
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(work.rows)
    return Fit(model.cluster_centers_, model.n_iter_)


def armillary_auto(work: Workload, n_steps: int, n_threads: int) -> Fit:
    """Ours as users call it: `algorithm="auto"`."""
    return armillary(work, n_steps, n_threads, "auto")


def _scikit_learn(algorithm: str) -> Peer:
    def fit(work: Workload, n_steps: int, n_threads: int) -> Fit:
        from sklearn.cluster import KMeans
        from threadpoolctl import threadpool_limits

        starts = work.starts.astype(work.rows.dtype)
        model = KMeans(work.n_clusters, init=starts, n_init=1, max_iter=n_steps, tol=0.0, algorithm=algorithm)
        with warnings.catch_warnings(), threadpool_limits(n_threads):
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(work.rows)
        return Fit(model.cluster_centers_, model.n_iter_)

    return fit


def faiss(work: Workload, n_steps: int, n_threads: int) -> Fit:
    """faiss-cpu with `spherical=True`; every row is used."""
    import faiss as library

    library.omp_set_num_threads(n_threads)
    model = library.Kmeans(
        work.rows.shape[1],
        work.n_clusters,
        niter=n_steps,
        spherical=True,
        max_points_per_centroid=work.rows.shape[0],
        min_points_per_centroid=1,
    )
    model.train(work.rows, init_centroids=work.starts)
    return Fit(model.centroids, len(model.iteration_stats))  # it stops where nothing changes any more


def product_alone(work: Workload, n_steps: int, n_threads: int) -> Fit:
    """The floor: only the matrix product of every step, all rows at once, by NumPy's BLAS."""
    from threadpoolctl import threadpool_limits

    out = np.empty((work.rows.shape[0], work.n_clusters), np.float32)
    with threadpool_limits(n_threads, "blas"):
        for _ in range(n_steps):
            np.matmul(work.rows, work.starts.T, out=out)
    return Fit(work.starts, n_steps)


PEERS: dict[str, Peer] = {
    "armillary": armillary,
    "armillary auto": armillary_auto,
    "scikit-learn lloyd": _scikit_learn("lloyd"),
    "scikit-learn elkan": _scikit_learn("elkan"),
    "faiss": faiss,
    "product alone": product_alone,
}


def peers_of(work: Workload) -> list[str]:
    """Who can take these rows."""
    if sp.issparse(work.rows):
        return [name for name in PEERS if name not in ("faiss", "product alone")]
    if work.rows.shape[1] <= 16:
        return [name for name in PEERS if name != "product alone"]
    return list(PEERS)


def objective(work: Workload, centers: np.ndarray) -> float:
    """Mean cosine to the nearest center, centers normalised: one yardstick for all."""
    unit = centers / np.linalg.norm(centers, axis=1, keepdims=True)
    total = 0.0
    for start in range(0, work.rows.shape[0], 8192):
        block = np.asarray(work.rows[start : start + 8192] @ unit.T)
        total += float(block.max(axis=1).sum(dtype=np.float64))
    return total / work.rows.shape[0]
