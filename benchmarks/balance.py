"""Clusters of bounded size beside free ones: largest over mean, deviation of sizes, objective, CPU time.

Peers: `SphericalKMeans` free, and faiss spherical k-means where it is installed, whose clusters nobody bounds. Rows:
made (a long tail of clusters; one cluster that holds most rows) and Banking77, where the data are there. Times are CPU
seconds of the process: a busy machine does not change them much. `assignment_gap` is a bound: prices make a dual, so no
labels that keep the bound have, for the same directions, a sum of cosines higher by more than that share.
Few rows are cut once more by an exact assignment (the best labels that keep the bound, in a time that grows as the cube
of the rows) between updates of directions, from the balanced fit and from a dozen random starts.

python -m benchmarks.balance [--rows 200000] [--features 384] [--clusters 500] [--steps 20] [--only Banking77 ...]
                             [--out FILE]

What is measured takes the place of what was stored under the same name; the rest stays.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from armillary import SphericalKMeans
from armillary.datasets import make_vmf_mixture
from armillary.fitting.balance import capacity
from benchmarks.measure import machine

DATA = Path(os.environ.get("ARMILLARY_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
SENTENCES = DATA / "sent_banking77" / "embeddings.npz"
BOUND = 1.2
_TOGETHER = 1 << 14
_FEW = 1500  # rows that an exact assignment is made for
_STARTS, _EXACT_STEPS = 12, 40


def tailed(n_rows: int, n_features: int, n_clusters: int, power: float) -> np.ndarray:
    """Directions whose sizes fall as a power of their rank."""
    weights = np.arange(1, n_clusters + 1) ** -power
    shares, wide = weights / weights.sum(), 1.2 * n_features
    rows, _, _ = make_vmf_mixture(
        n_rows, n_features, n_clusters, concentration=wide, weights=shares, random_state=0, dtype=np.float32
    )
    return np.asarray(rows)


def dominated(n_rows: int, n_features: int) -> np.ndarray:
    """Six rows of ten around one direction."""
    weights = np.r_[0.6, np.full(19, 0.4 / 19)]
    rows, _, _ = make_vmf_mixture(
        n_rows, n_features, 20, concentration=4.0 * n_features, weights=weights, random_state=0
    )
    return rows.astype(np.float32)


def equal(n_rows: int, n_features: int, n_concepts: int) -> np.ndarray:
    """Concepts of one size."""
    rows, _, _ = make_vmf_mixture(
        n_rows,
        n_features,
        n_concepts,
        concentration=2.0 * n_features,
        weights=np.full(n_concepts, 1.0 / n_concepts),
        random_state=1,
    )
    return np.asarray(rows, dtype=np.float32)


def workloads(arguments: argparse.Namespace) -> Iterator[tuple[str, Callable[[], np.ndarray], int]]:
    """Name, what makes the rows, and K."""
    n_rows, n_features, n_clusters = arguments.rows, arguments.features, arguments.clusters
    shape = f"{n_rows} x {n_features}"
    yield f"made, uneven, {shape}", lambda: tailed(n_rows, n_features, n_clusters // 2, 0.7), n_clusters
    # most directions lie in the tail, and the first alone would fill a seventh of all clusters to their bound
    yield f"made, long tail, {shape}", lambda: tailed(n_rows, n_features, 2 * n_clusters, 1.0), n_clusters
    yield "made, one dominant cluster, 20000 x 16", lambda: dominated(20_000, 16), 20
    # each concept is larger than the bound: a tenth must go elsewhere, and ten clusters are left for thirty tenths
    yield "made, 30 equal concepts, 1200 x 64", lambda: equal(1200, 64, 30), 40
    yield "made, 30 equal concepts, 200000 x 64", lambda: equal(200_000, 64, 30), 40
    if SENTENCES.exists():
        yield "Banking77, 13083 x 384", sentences, 77


def sentences() -> np.ndarray:
    """Embeddings of Banking77."""
    rows = np.load(SENTENCES)["embeddings"].astype(np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def assignment_gap(rows: np.ndarray, model: SphericalKMeans) -> float:
    """What other labels with the same bound could gain at most, as a share of the sum of cosines."""
    n_clusters = len(model.cluster_centers_)
    directions, prices = model.cluster_centers_.astype(np.float32), -model.offsets_
    own, dual = 0.0, capacity(BOUND, len(rows), n_clusters) * float(prices.sum())
    for start in range(0, len(rows), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        cosines = rows[part] @ directions.T
        own += float(cosines[np.arange(len(cosines)), model.labels_[part]].sum(dtype=np.float64))
        dual += float((cosines - prices.astype(np.float32)).max(axis=1).sum(dtype=np.float64))
    return round(dual / own - 1.0, 5)


def fitted(rows: np.ndarray, n_clusters: int, n_steps: int, balance: float | None) -> SphericalKMeans:
    """Ours."""
    model = SphericalKMeans(n_clusters, init="k-means||", balance=balance, max_iter=n_steps, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(rows)


def by_armillary(
    rows: np.ndarray, n_clusters: int, n_steps: int, balance: float | None, facts: dict[str, float]
) -> tuple[np.ndarray, float]:
    """Labels, and the sum of cosines."""
    model = fitted(rows, n_clusters, n_steps, balance)
    facts["steps"] = model.n_iter_
    if balance is not None:
        facts["assignment_gap"] = assignment_gap(rows, model)
    return model.labels_, model.objective_


def by_faiss(rows: np.ndarray, n_clusters: int, n_steps: int) -> tuple[np.ndarray, float]:
    """Labels, and the sum of cosines."""
    import faiss

    means = faiss.Kmeans(
        rows.shape[1], n_clusters, niter=n_steps, spherical=True, seed=1, max_points_per_centroid=10**9
    )
    means.train(rows)
    cosines, labels = means.index.search(rows, 1)
    return labels[:, 0], float(cosines.sum(dtype=np.float64))


def by_exact_assignment(rows: np.ndarray, n_clusters: int, starts: Iterator[np.ndarray]) -> tuple[np.ndarray, float]:
    """Labels, and the sum of cosines, of the best of some starts; labels are the best that keep the bound."""
    from scipy.optimize import linear_sum_assignment

    most, wide = capacity(BOUND, len(rows), n_clusters), rows.astype(np.float64)
    best: tuple[np.ndarray, float] = np.empty(0, dtype=np.int64), -np.inf
    for directions in starts:
        for _ in range(_EXACT_STEPS):
            _, places = linear_sum_assignment(np.repeat(wide @ directions.T, most, axis=1), maximize=True)
            labels = places // most
            sums = np.zeros_like(directions)
            np.add.at(sums, labels, wide)
            lengths = np.linalg.norm(sums, axis=1, keepdims=True)
            if (before := best[1]) < lengths.sum():
                best = labels, float(lengths.sum())
            after = np.where(lengths > 0, sums / np.maximum(lengths, 1e-300), directions)
            if np.abs(after - directions).max() < 1e-9 and best[1] == before:
                break
            directions = after
    return best


def random_starts(rows: np.ndarray, n_clusters: int) -> Iterator[np.ndarray]:
    """Some rows, again and again."""
    draws = np.random.default_rng(0)
    for _ in range(_STARTS):
        yield rows[draws.choice(len(rows), n_clusters, replace=False)].astype(np.float64)


def measured(call: Callable[[], tuple[np.ndarray, float]], n_rows: int, n_clusters: int) -> dict[str, float]:
    """What users of partitions ask."""
    start, wall = time.process_time(), time.perf_counter()
    labels, objective = call()
    sizes = np.bincount(labels, minlength=n_clusters)
    return {
        "largest_over_mean": round(float(sizes.max()) * n_clusters / n_rows, 4),
        "deviation_over_mean": round(float(sizes.std()) * n_clusters / n_rows, 4),
        "smallest": int(sizes.min()),
        "mean_cosine": round(objective / n_rows, 6),
        "cpu_seconds": round(time.process_time() - start, 1),
        "seconds": round(time.perf_counter() - wall, 1),
    }


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=384)
    parser.add_argument("--clusters", type=int, default=500)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--only", nargs="+", default=[""], help="workloads with one of these words in their names")
    parser.add_argument("--out", default="benchmarks/results/balance.json")
    arguments = parser.parse_args()
    command, out = f"python -m benchmarks.balance {' '.join(_given(arguments))}", Path(arguments.out)
    found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    for name, make, n_clusters in workloads(arguments):
        if not any(word in name for word in arguments.only):
            continue
        rows, load = make(), round(os.getloadavg()[0], 1)
        facts: dict[str, dict[str, float]] = {"SphericalKMeans": {}, f"SphericalKMeans(balance={BOUND})": {}}
        free_facts, bound_facts = facts.values()
        peers = {
            "SphericalKMeans": lambda rows=rows, k=n_clusters, found=free_facts: by_armillary(
                rows, k, arguments.steps, None, found
            ),
            f"SphericalKMeans(balance={BOUND})": lambda rows=rows, k=n_clusters, found=bound_facts: by_armillary(
                rows, k, arguments.steps, BOUND, found
            ),
            "faiss spherical": lambda rows=rows, k=n_clusters: by_faiss(rows, k, arguments.steps),
        }
        if len(rows) <= _FEW:
            peers["exact assignment, from the balanced fit"] = lambda rows=rows, k=n_clusters: by_exact_assignment(
                rows, k, iter([fitted(rows, k, arguments.steps, BOUND).cluster_centers_])
            )
            peers["exact assignment, best of random starts"] = lambda rows=rows, k=n_clusters: by_exact_assignment(
                rows, k, random_starts(rows, k)
            )
        lines: dict[str, Any] = {"command": command, "machine": machine(), "load": load}
        for peer, call in peers.items():
            try:
                lines[peer] = {**measured(call, len(rows), n_clusters), **facts.get(peer, {})}
            except ImportError:
                continue
            print(name, peer, lines[peer], flush=True)
        free, bound = lines["SphericalKMeans"], lines[f"SphericalKMeans(balance={BOUND})"]
        lines["mean_cosine_kept"] = round(bound["mean_cosine"] / free["mean_cosine"], 5)
        found[f"{name}, K = {n_clusters}"] = lines
        out.write_text(json.dumps(found, indent=1) + "\n")


def _given(arguments: argparse.Namespace) -> list[str]:
    return [f"--{name} {value}" for name, value in vars(arguments).items() if name not in ("out", "only")]


if __name__ == "__main__":
    main()
