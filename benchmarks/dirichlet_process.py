"""Dirichlet-process mixtures beside scikit-learn's, in one run, as ratios. Results go to benchmarks/results/.

    python -m benchmarks.dirichlet_process [--repeats 3] [--threads 2]

normals   300,000 x 3, 10 clusters; W5: 300,000 x 3, 30 clusters; words: 41,000 x 20, 90 clusters

One sweep of DirichletProcessMixture with tangent Gaussians, started from the true labels, beside one iteration of
BayesianGaussianMixture with full covariances and as many components. A sweep is timed between its events, after the
warm-up; an iteration is (time of 2 - time of 1), from the same first means. Beside them: the sweep at half the rows,
which tells how the cost grows with them, and what a whole fit with default parameters, its 100 draws included, adds to
memory.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture
from threadpoolctl import threadpool_limits

from armillary import DirichletProcessMixture
from armillary.datasets import make_tangent_gaussian_mixture
from armillary.fitting.events import FitEvent
from benchmarks import measure

RESULTS = Path(__file__).parent / "results"
N_SWEEPS = 5
WARM_UP = 10  # sweeps of the k-means start and of given labels


class Shape(NamedTuple):
    """A workload."""

    n_rows: int
    n_features: int
    n_clusters: int
    spread: float
    min_angle: float


SHAPES = {
    "normals": Shape(300_000, 3, 10, 0.1, 0.6),
    "W5": Shape(300_000, 3, 30, 0.07, 0.26),
    "words": Shape(41_000, 20, 90, 0.15, 0.3),
}
SAMPLERS = ("split_merge", "subclusters")


def rows_of(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Rows and true labels."""
    X, labels, _ = make_tangent_gaussian_mixture(
        shape.n_rows,
        shape.n_features,
        shape.n_clusters,
        spread=shape.spread,
        min_angle=shape.min_angle,
        random_state=0,
        dtype=np.float32,
    )
    return X, labels


class Enough(Exception):  # noqa: N818 (nothing went wrong)
    """Ends a fit that has been timed."""


def sweep_seconds(X: np.ndarray, labels: np.ndarray, sampler: str, n_threads: int) -> float:
    """The median time of a sweep after the warm-up."""
    stamps: list[float] = []

    def watch(event: FitEvent) -> None:
        if event.kind == "step":
            stamps.append(event.seconds)
            if event.step == WARM_UP + N_SWEEPS:
                raise Enough

    model = DirichletProcessMixture(
        sampler=sampler, init=labels, random_state=0, n_threads=n_threads, spread_prior=0.1, callbacks=watch
    )
    with suppress(Enough):
        model.fit(X)
    return median(np.diff(stamps)[-N_SWEEPS:].tolist())


def iteration_seconds(X: np.ndarray, shape: Shape, n_threads: int) -> float:
    """One iteration of variational inference with full covariances."""

    def fit(n_steps: int) -> None:
        with threadpool_limits(n_threads), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            BayesianGaussianMixture(
                n_components=shape.n_clusters, max_iter=n_steps, tol=0.0, init_params="random_from_data", random_state=0
            ).fit(X)

    return measure.seconds(lambda: fit(2)) - measure.seconds(lambda: fit(1))


def compare(name: str, repeats: int, n_threads: int) -> dict[str, Any]:
    """All numbers of one workload; turns are taken in every repeat."""
    shape = SHAPES[name]
    X, labels = rows_of(shape)
    half = X[: len(X) // 2], labels[: len(X) // 2]
    sweep_seconds(X[:2000], labels[:2000], "split_merge", n_threads)
    times: dict[str, list[float]] = {"scikit-learn": [], "half the rows": [], **{sampler: [] for sampler in SAMPLERS}}
    for _ in range(repeats):
        for sampler in SAMPLERS:
            times[sampler].append(sweep_seconds(X, labels, sampler, n_threads))
        times["half the rows"].append(sweep_seconds(*half, "split_merge", n_threads))
        times["scikit-learn"].append(iteration_seconds(X, shape, n_threads))
    extra = measure.number_from("benchmarks.dirichlet_process", "--peak", name, "--threads", n_threads)
    return {
        "shape": list(shape),
        "row_bytes": X.nbytes,
        "extra_bytes": extra,
        "seconds": {who: median(values) for who, values in times.items()},
        "fastest": {who: min(values) for who, values in times.items()},
    }


def peak(name: str, n_threads: int) -> int:
    """Bytes that a fit with default parameters adds at its peak."""
    X, _ = rows_of(SHAPES[name])

    def fit(n_rows: int) -> None:
        DirichletProcessMixture(random_state=0, n_threads=n_threads).fit(X[:n_rows])

    # enough rows for every thread to start, which takes memory once and for all
    return measure.peak_of_call(lambda: fit(15_000), lambda: fit(len(X)))


def show(results: dict[str, Any], console: Console) -> None:
    """One line for each workload."""
    table = Table(
        "", "ms / sweep", "sub-clusters", "scikit-learn", "ratio", "ratio of sub-clusters", "doubling", "memory"
    )
    for name, result in results.items():
        of = result["seconds"]
        table.add_row(
            name,
            *(f"{1e3 * of[who]:.0f}" for who in (*SAMPLERS, "scikit-learn")),
            f"{of['scikit-learn'] / of['split_merge']:.1f}",
            f"{of['scikit-learn'] / of['subclusters']:.1f}",
            f"{of['split_merge'] / of['half the rows']:.2f}",
            f"{(result['row_bytes'] + result['extra_bytes']) / result['row_bytes']:.2f}",
        )
    console.print(table)


def main() -> None:
    """Measure, show, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(SHAPES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, default=RESULTS / "dirichlet_process.json")
    arguments = parser.parse_args()
    if arguments.peak:
        print(peak(arguments.peak, arguments.threads))
        sys.exit()
    console = Console()
    load = measure.load(console)
    results = {name: compare(name, arguments.repeats, arguments.threads) for name in arguments.names}
    show(results, console)
    record = {
        "threads": arguments.threads,
        "load_before": load,
        "workloads": results,
    }
    measure.store(arguments.output, record, console)


if __name__ == "__main__":
    main()
