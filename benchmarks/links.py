"""Online clustering, vector by vector: `Links` beside linkscluster and a bare leader rule in NumPy.

    python -m benchmarks.links [--repeats 3] [--rows 20000]

W4 is a stream of 20,000 x 256, 200 identities; the thresholds make about one sub-cluster for each. In "stress", a T_s
of 0.99 makes one of every vector, so that each is compared with all before it.
Ours is fed in one batch, and one vector at a time (`learn_one`); linkscluster takes one at a time only. The leader
rule is the least that any online clusterer does: a product with all centroids, an arg max, a sum. All take turns in
every repeat; medians of the mean time per vector count, and p50 and p99 are of the single vectors of the last turn.

linkscluster lives in an environment of its own, made on first use in the folder of the workloads; where it cannot be
installed its lines are left out, with the reason.
"""

from __future__ import annotations

import argparse
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from armillary import Links
from armillary.metrics import matched_accuracy_score
from benchmarks import measure, workloads
from benchmarks.links_peers import INSTALLED, Peers, Run

RESULTS = Path(__file__).parent / "results"
THRESHOLDS = {"W4": (0.75, 0.65, 0.7), "stress": (0.75, 0.99, 0.99)}
BATCH, SINGLE, LEADER, PEER = "armillary, one batch", "armillary, learn_one", "NumPy leader rule", "linkscluster"


def run_batch(rows: np.ndarray, thresholds: tuple[float, float, float]) -> Run:
    """All vectors in one call."""
    model = Links(*thresholds)
    seconds = measure.seconds(lambda: model.fit(rows))
    return Run(model.labels_, seconds, np.full(len(rows), seconds / len(rows)), model.n_subclusters_)


def run_single(rows: np.ndarray, thresholds: tuple[float, float, float]) -> Run:
    """One vector at a time."""
    model = Links(*thresholds)
    ids, times = np.empty(len(rows), np.int64), np.empty(len(rows))
    for number, row in enumerate(rows):
        start = time.perf_counter()
        ids[number] = model.learn_one(row)
        times[number] = time.perf_counter() - start
    return Run(ids, float(times.sum()), times, model.n_subclusters_)


def run_leader(rows: np.ndarray, thresholds: tuple[float, float, float]) -> Run:
    """A vector joins the nearest centroid at a cosine of T_s, or begins its own."""
    centroids = np.zeros((64, rows.shape[1]), np.float32)
    sums, n_found = np.zeros_like(centroids), 0
    ids, times = np.empty(len(rows), np.int64), np.empty(len(rows))
    for number, row in enumerate(rows):
        start = time.perf_counter()
        nearest = -1
        if n_found:
            cosines = centroids[:n_found] @ row
            nearest = int(cosines.argmax())
            if cosines[nearest] < thresholds[1]:
                nearest = -1
        if nearest < 0:
            if n_found == len(centroids):
                centroids, sums = (np.concatenate([array, np.zeros_like(array)]) for array in (centroids, sums))
            nearest, n_found = n_found, n_found + 1
        sums[nearest] += row
        centroids[nearest] = sums[nearest] / np.sqrt(sums[nearest] @ sums[nearest])
        ids[number] = nearest
        times[number] = time.perf_counter() - start
    return Run(ids, float(times.sum()), times, n_found)


def compare(name: str, n_rows: int, repeats: int, peers: Peers | None) -> dict[str, Any]:
    """All on one stream."""
    path, rows, truth = workloads.load_labelled("W4")
    rows, truth, thresholds = rows[:n_rows], truth[:n_rows], THRESHOLDS[name]
    calls: dict[str, Callable[[], Run]] = {
        BATCH: lambda: run_batch(rows, thresholds),
        SINGLE: lambda: run_single(rows, thresholds),
        LEADER: lambda: run_leader(rows, thresholds),
    }
    if peers is not None:
        calls[PEER] = lambda: peers.run("linkscluster", path, thresholds, n_rows)
    for call in (run_batch, run_single):
        call(rows[:200], thresholds)  # compiled
    runs: dict[str, list[Run]] = {peer: [] for peer in calls}
    for _ in range(repeats):
        for peer, make in calls.items():
            runs[peer].append(make())
    lines = {}
    for peer, found in runs.items():
        p50, p99 = np.percentile(found[-1].times, [50, 99])
        lines[peer] = {
            "us_per_vector": 1e6 * median(run.seconds for run in found) / len(rows),
            "p50_us": None if peer == BATCH else 1e6 * p50,
            "p99_us": None if peer == BATCH else 1e6 * p99,
            "n_ids": int(found[-1].ids.max()) + 1,
            "n_subclusters": found[-1].n_subclusters,
            "matched_accuracy": matched_accuracy_score(truth, found[-1].ids),
        }
    return {"shape": list(rows.shape), "thresholds": thresholds, "peers": lines}


def show(name: str, result: dict[str, Any], console: Console) -> None:
    """A table of one stream; ratios are to our batch."""
    table = Table(title=f"{name}: {result['shape'][0]:,} x {result['shape'][1]}, thresholds {result['thresholds']}")
    for column in ("", "us/vector", "ratio", "p50", "p99", "ids", "sub-clusters", "accuracy"):
        table.add_column(column, justify="left" if not column else "right")
    ours = result["peers"][BATCH]["us_per_vector"]
    for peer, line in result["peers"].items():
        spread = ["" if line[key] is None else f"{line[key]:.1f}" for key in ("p50_us", "p99_us")]
        counts = [str(line["n_ids"]), str(line["n_subclusters"]), f"{line['matched_accuracy']:.4f}"]
        table.add_row(peer, f"{line['us_per_vector']:.2f}", f"{line['us_per_vector'] / ours:.1f}", *spread, *counts)
    console.print(table)


def main() -> None:
    """Measure, show, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS / "links.json")
    arguments = parser.parse_args()
    console = Console()
    load = measure.load(console)
    skipped = None
    try:
        peers: Peers | None = Peers(arguments.threads)
    except (OSError, subprocess.CalledProcessError) as error:
        peers, skipped = None, f"linkscluster could not be installed: {error}"
        console.print(skipped)
    results = {}
    with warnings.catch_warnings(), threadpool_limits(arguments.threads):
        warnings.simplefilter("ignore", UserWarning)  # the stress is what it warns of
        for name in THRESHOLDS:
            results[name] = compare(name, arguments.rows, arguments.repeats, peers)
            show(name, results[name], console)
    if peers is not None:
        peers.close()
    record = {
        "load_before": load,
        "linkscluster": skipped or {"installed": INSTALLED},
        "threads": arguments.threads,
        "streams": results,
    }
    measure.store(arguments.output, record, console)


if __name__ == "__main__":
    main()
