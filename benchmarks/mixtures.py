"""Mixtures beside their peers, in one run, as ratios. Results go to benchmarks/results/mixtures.json.

    python -m benchmarks.mixtures [--repeats 5] [--threads 2]

W1   300,000 x 3, K = 7: one EM iteration of VonMisesFisherMixture beside those of scikit-learn's GaussianMixture and
     BayesianGaussianMixture with spherical covariances, from the same directions
W3   18,744 x 53,975 CSR, K = 20: one EM iteration beside one plain step of spherical k-means, and what a fit adds to
     memory, in arrays of K x D float64

The time of an iteration is (time of n iterations - time of 1) / (n - 1), so that checks and set-up drop out. Peers take
turns in every repeat, and the median over the repeats counts; beside it stands the fastest.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from threadpoolctl import threadpool_limits

from armillary import SoftKMeans, SphericalKMeans, VonMisesFisherMixture
from benchmarks import measure, workloads

RESULTS = Path(__file__).parent / "results"
# rows, first directions or the word "random", iterations, threads -> iterations really done
Fit = Callable[[workloads.Workload, Any, int, int], int]


def _mixture(concentration: str, assignment: str = "soft") -> Fit:
    def fit(work: workloads.Workload, init: Any, n_steps: int, n_threads: int) -> int:
        model = VonMisesFisherMixture(
            work.n_clusters,
            concentration=concentration,
            assignment=assignment,
            init=init,
            max_iter=n_steps,
            tol=0.0,
            random_state=0,
            n_threads=n_threads,
        )
        return int(model.fit(work.rows).n_iter_)

    return fit


def _soft(work: workloads.Workload, init: Any, n_steps: int, n_threads: int) -> int:
    model = SoftKMeans(work.n_clusters, init=init, max_iter=n_steps, tol=0.0, random_state=0, n_threads=n_threads)
    return int(model.fit(work.rows).n_iter_)


def _lloyd(work: workloads.Workload, init: Any, n_steps: int, n_threads: int) -> int:
    model = SphericalKMeans(
        work.n_clusters,
        init=init,
        n_init=1,
        max_iter=n_steps,
        tol=0.0,
        algorithm="lloyd",
        empty_clusters="keep",
        random_state=0,
        n_threads=n_threads,
    )
    return int(model.fit(work.rows).n_iter_)


def _gaussian(work: workloads.Workload, init: Any, n_steps: int, n_threads: int) -> int:
    with threadpool_limits(n_threads):
        model = GaussianMixture(
            work.n_clusters,
            covariance_type="spherical",
            max_iter=n_steps,
            tol=0.0,
            means_init=init,
            weights_init=np.full(work.n_clusters, 1.0 / work.n_clusters),
            precisions_init=np.full(work.n_clusters, 10.0),
        )
        return int(model.fit(work.rows).n_iter_)


def _bayesian_gaussian(work: workloads.Workload, init: Any, n_steps: int, n_threads: int) -> int:
    with threadpool_limits(n_threads):
        model = BayesianGaussianMixture(
            n_components=work.n_clusters,
            covariance_type="spherical",
            max_iter=n_steps,
            tol=0.0,
            init_params="random_from_data",
            random_state=0,
        )
        return int(model.fit(work.rows).n_iter_)


OURS, LLOYD = "vMFmix tied", "spherical k-means lloyd"
PEERS: dict[str, Fit] = {
    OURS: _mixture("tied"),
    "vMFmix free": _mixture("free"),
    "vMFmix tied hard": _mixture("tied", "hard"),
    "soft k-means": _soft,
    LLOYD: _lloyd,
    "GaussianMixture spherical": _gaussian,
    "BayesianGaussianMixture spherical": _bayesian_gaussian,
}
PEERS_OF = {"W1": tuple(PEERS), "W3": (OURS, "vMFmix free", "vMFmix tied hard", "soft k-means", LLOYD)}
SCIKIT_LEARN = ("GaussianMixture spherical", "BayesianGaussianMixture spherical")


def _steps(peer: str, work: workloads.Workload, n_threads: int, n_steps: int) -> int:
    return PEERS[peer](work, work.starts, n_steps, n_threads)


def compare(name: str, repeats: int, n_threads: int) -> dict[str, Any]:
    """Seconds of an iteration of every peer."""
    work = workloads.load(name)
    steps = {peer: 4 if peer in SCIKIT_LEARN else 11 for peer in PEERS_OF[name]}
    runs = {peer: partial(_steps, peer, work, n_threads) for peer in steps}
    lines = measure.iteration_times(runs, steps, repeats)
    result: dict[str, Any] = {
        "shape": [int(size) for size in work.rows.shape],
        "n_clusters": work.n_clusters,
        "row_bytes": work.n_bytes,
        "peers": lines,
    }
    if name == "W3":
        table_bytes = 8 * work.n_clusters * work.rows.shape[1]
        for peer in lines:
            extra = measure.number_from("benchmarks.mixtures", "--peak", name, peer, "--threads", n_threads)
            lines[peer] |= {"extra_bytes": extra, "tables_of_k_by_d": extra / table_bytes}
    return result


def _peak_here(workload: str, peer: str, n_threads: int) -> int:
    work = workloads.load(workload)
    few = workloads.Workload(work.name, work.rows[: 4 * work.n_clusters], work.starts)
    fit = PEERS[peer]
    # given directions would be one array more, the caller's
    return measure.peak_of_call(lambda: fit(few, "random", 2, n_threads), lambda: fit(work, "random", 4, n_threads))


def show(name: str, result: dict[str, Any], console: Console) -> None:
    """A table of one workload; ratios are to the tied mixture and to a step of spherical k-means."""
    peers = result["peers"]
    table = Table(title=f"{name}: {result['shape'][0]:,} x {result['shape'][1]:,}, K={result['n_clusters']}")
    for column in ("", "ms / iteration", "fastest", f"/ {OURS}", "/ lloyd", "K x D arrays"):
        table.add_column(column, justify="left" if not column else "right")
    for peer, line in peers.items():
        tables = line.get("tables_of_k_by_d")
        table.add_row(
            peer,
            f"{1e3 * line['step_seconds']:.2f}",
            f"{1e3 * line['fastest_seconds']:.2f}",
            f"{line['step_seconds'] / peers[OURS]['step_seconds']:.2f}",
            f"{line['step_seconds'] / peers[LLOYD]['step_seconds']:.2f}",
            "" if tables is None else f"{tables:.1f}",
        )
    console.print(table)


def main() -> None:
    """Measure, show, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["W1", "W3"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS / "mixtures.json")
    parser.add_argument("--peak", nargs=2, metavar=("WORKLOAD", "PEER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # a few iterations are all that is asked for
    if arguments.peak:
        print(_peak_here(*arguments.peak, arguments.threads))
        return
    console = Console()
    results = {}
    for name in arguments.names:
        results[name] = compare(name, arguments.repeats, arguments.threads)
        show(name, results[name], console)
    record = {
        "threads": arguments.threads,
        "load": [round(number, 2) for number in os.getloadavg()],  # others at work, where this is above `threads`
        "workloads": results,
    }
    measure.store(arguments.output, record, console)


if __name__ == "__main__":
    main()
