"""Trees and slices of time beside the Bayesian mixture they extend, as ratios, in one run.

    python -m benchmarks.trees_and_slices [W1 W3] [--repeats 5] [--threads 2]

The same rows, the same first directions, as many components as leaves: W1, 300,000 x 3 with 9 leaves (two levels of
three), and W3, 18,744 x 53,975 CSR with 27 (three levels of three). Rows are dealt to 10 slices of time in their order.

The time of an iteration is that between the events of one step and the next, the median over the steps 2 to 9 of a
fit: checks, the start and the last labels drop out. (The difference of a long fit and a short one would not do: after
one iteration responsibilities are still spread, and the last labels take longer.) Models take turns in every repeat,
and the median over the repeats counts; beside it stands the fastest. Results go to
benchmarks/results/trees_and_slices.json.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

from armillary import (
    BayesianVonMisesFisherMixture,
    HierarchicalVonMisesFisherMixture,
    TemporalVonMisesFisherMixture,
)
from benchmarks import measure, workloads

RESULTS = Path(__file__).parent / "results"
HEIGHTS = {"W1": 2, "W3": 3}
BRANCHING = 3
N_SLICES = 10
N_STEPS = 9
JOINT, FACTORISED = "B-vMFmix", "B-vMFmix factorised"

# rows, first directions, slices, height, options -> iterations done
Fit = Callable[[Any, np.ndarray, np.ndarray, int, dict[str, Any]], int]


def _flat(**how: Any) -> Fit:
    def fit(rows: Any, starts: np.ndarray, times: np.ndarray, height: int, options: dict[str, Any]) -> int:
        return int(BayesianVonMisesFisherMixture(len(starts), init=starts, **how, **options).fit(rows).n_iter_)

    return fit


def _tree(**how: Any) -> Fit:
    def fit(rows: Any, starts: np.ndarray, times: np.ndarray, height: int, options: dict[str, Any]) -> int:
        return int(
            HierarchicalVonMisesFisherMixture(height, BRANCHING, init=starts, **how, **options).fit(rows).n_iter_
        )

    return fit


def _slices(**how: Any) -> Fit:
    def fit(rows: Any, starts: np.ndarray, times: np.ndarray, height: int, options: dict[str, Any]) -> int:
        model = TemporalVonMisesFisherMixture(len(starts), init=starts, **how, **options)
        return int(model.fit(rows, times=times).n_iter_)

    return fit


PEERS: dict[str, Fit] = {
    JOINT: _flat(),
    FACTORISED: _flat(factors="factorised"),
    "H-vMFmix": _tree(),
    "H-vMFmix factorised": _tree(inference="factorised"),
    "T-vMFmix": _slices(),
    "T-vMFmix factorised": _slices(inference="factorised", drift=0.3),
}


def compare(name: str, repeats: int, n_threads: int) -> dict[str, Any]:
    """Seconds of an iteration of every model."""
    rows = workloads.load(name).rows
    height = HEIGHTS[name]
    n_leaves = BRANCHING**height
    chosen = np.random.default_rng(3).choice(rows.shape[0], n_leaves, replace=False)
    starts = rows[chosen].toarray() if hasattr(rows, "toarray") else np.array(rows[chosen])
    times = np.arange(rows.shape[0]) * N_SLICES // rows.shape[0]

    def step_seconds(peer: str) -> float:
        """Of one fit."""
        ends: list[float] = []
        options = {
            "max_iter": N_STEPS,
            "tol": 0.0,
            "random_state": 0,
            "n_threads": n_threads,
            "callbacks": lambda event: ends.append(event.seconds) if event.kind == "step" else None,
        }
        PEERS[peer](rows, starts, times, height, options)
        return median(after - before for before, after in pairwise(ends))

    seconds: dict[str, list[float]] = {peer: [] for peer in PEERS}
    for peer in PEERS:
        step_seconds(peer)  # compiles
    for _ in range(repeats):
        for peer, found in seconds.items():
            found.append(step_seconds(peer))
    lines = {
        peer: {"step_seconds": median(found), "fastest_seconds": min(found), "n_steps": N_STEPS}
        for peer, found in seconds.items()
    }
    return {"shape": [int(size) for size in rows.shape], "n_components": n_leaves, "peers": lines}


def show(name: str, result: dict[str, Any], console: Console) -> None:
    """A table of one workload."""
    peers = result["peers"]
    shape = f"{result['shape'][0]:,} x {result['shape'][1]:,}"
    table = Table(title=f"{name}: {shape}, {result['n_components']} components or leaves, {N_SLICES} slices")
    for column in ("", "ms / iteration", "fastest", f"/ {JOINT}", f"/ {FACTORISED}"):
        table.add_column(column, justify="left" if not column else "right")
    for peer, line in peers.items():
        table.add_row(
            peer,
            f"{1e3 * line['step_seconds']:.2f}",
            f"{1e3 * line['fastest_seconds']:.2f}",
            f"{line['step_seconds'] / peers[JOINT]['step_seconds']:.2f}",
            f"{line['step_seconds'] / peers[FACTORISED]['step_seconds']:.2f}",
        )
    console.print(table)


def main() -> None:
    """Measure, show, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(HEIGHTS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS / "trees_and_slices.json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # a few iterations are all that is asked for
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
