"""One call per peer: the same rows, starts, steps and threads; directions out."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from benchmarks.workloads import Workload

Peer = Callable[[Workload, int, int], np.ndarray]  # (workload, n_steps, n_threads) -> centers (K, D)


def armillary(work: Workload, n_steps: int, n_threads: int, algorithm: str = "lloyd") -> np.ndarray:
    """Ours, every row scored in every step."""
    from armillary import SphericalKMeans

    model = SphericalKMeans(
        work.n_clusters, init=work.starts, max_iter=n_steps, tol=0.0, algorithm=algorithm, n_threads=n_threads
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(work.rows).cluster_centers_


def armillary_auto(work: Workload, n_steps: int, n_threads: int) -> np.ndarray:
    """Ours as users call it: `algorithm="auto"`."""
    return armillary(work, n_steps, n_threads, "auto")


def _scikit_learn(algorithm: str) -> Peer:
    def fit(work: Workload, n_steps: int, n_threads: int) -> np.ndarray:
        from sklearn.cluster import KMeans
        from threadpoolctl import threadpool_limits

        starts = work.starts.astype(work.rows.dtype)
        model = KMeans(work.n_clusters, init=starts, n_init=1, max_iter=n_steps, tol=0.0, algorithm=algorithm)
        with warnings.catch_warnings(), threadpool_limits(n_threads):
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(work.rows).cluster_centers_

    return fit


def faiss(work: Workload, n_steps: int, n_threads: int) -> np.ndarray:
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
    return model.centroids


def product_alone(work: Workload, n_steps: int, n_threads: int) -> np.ndarray:
    """The floor: only the matrix product of every step, all rows at once, by NumPy's BLAS."""
    from threadpoolctl import threadpool_limits

    out = np.empty((work.rows.shape[0], work.n_clusters), np.float32)
    with threadpool_limits(n_threads, "blas"):
        for _ in range(n_steps):
            np.matmul(work.rows, work.starts.T, out=out)
    return work.starts


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
