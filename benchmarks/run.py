"""`make bench`: spherical k-means beside its peers, in one run, as ratios. Results go to benchmarks/results/.

    python -m benchmarks.run [W1 W2 ...] [--repeats 5] [--threads 2] [--no-memory]

The time of a step is (time of at most 11 steps - time of 1 step) / (steps really taken - 1), so that checks, starts
and set-up drop out; the time of a fit is that of at most 10 steps with everything in it. Peers take turns in every
repeat, and the median over the repeats counts.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import measure, workloads
from benchmarks.peers import PEERS, objective, peers_of

RESULTS = Path(__file__).parent / "results"


def compare(name: str, repeats: int, n_threads: int, with_memory: bool) -> dict[str, Any]:
    """Numbers of every peer on one workload."""
    work = workloads.load(name)
    peers = peers_of(work)
    # 10 steps first: the first fit of a turn also pays for memory that the peer before has given back
    timings: dict[str, dict[int, list[float]]] = {peer: {10: [], 1: [], 11: []} for peer in peers}
    for peer in peers:
        PEERS[peer](work, 1, n_threads)
    turns = [(repeat, peer) for repeat in range(repeats) for peer in peers]
    for _, peer in track(turns, description=f"{name} {work.rows.shape[0]:,} x {work.rows.shape[1]:,}"):
        for n_steps, times in timings[peer].items():
            times.append(measure.seconds(lambda p=peer, n=n_steps: PEERS[p](work, n, n_threads)))  # type: ignore[misc]
    rows: dict[str, Any] = {}
    for peer in peers:
        n_steps = PEERS[peer](work, 11, n_threads).n_steps
        differences = [long - short for long, short in zip(timings[peer][11], timings[peer][1], strict=True)]
        rows[peer] = {
            "n_steps": n_steps,
            "step_seconds": median(differences) / (n_steps - 1),
            "fit_seconds": median(timings[peer][10]),
        }
        if peer != "product alone":
            rows[peer]["objective"] = objective(work, PEERS[peer](work, 10, n_threads).centers)
            if with_memory:
                rows[peer]["extra_bytes"] = measure.peak_of_peer(name, peer, 10, n_threads)
    shape = [int(size) for size in work.rows.shape]
    return {"shape": shape, "n_clusters": work.n_clusters, "row_bytes": work.n_bytes, "peers": rows}


def show(name: str, result: dict[str, Any], console: Console) -> None:
    """A table of one workload; ratios are to `armillary`."""
    ours = result["peers"]["armillary"]
    table = Table(title=f"{name}: {result['shape'][0]:,} x {result['shape'][1]:,}, K={result['n_clusters']}")
    for column in ("", "ms / step", "ratio", "ms / 10-step fit", "ratio", "memory / rows", "mean cosine"):
        table.add_column(column, justify="left" if not column else "right")
    for peer, row in result["peers"].items():
        extra = row.get("extra_bytes")
        table.add_row(
            peer,
            f"{1e3 * row['step_seconds']:.2f}",
            f"{row['step_seconds'] / ours['step_seconds']:.2f}",
            f"{1e3 * row['fit_seconds']:.1f}",
            f"{row['fit_seconds'] / ours['fit_seconds']:.2f}",
            "" if extra is None else f"{(result['row_bytes'] + extra) / result['row_bytes']:.2f}",
            f"{row['objective']:.6f}" if "objective" in row else "",
        )
    console.print(table)


def main() -> None:
    """Measure, show, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(workloads.NAMES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS / "spherical_kmeans.json")
    arguments = parser.parse_args()
    console = Console()
    if workloads.SHARED is None:
        console.print("W2r and W3r (real data) are left out: ARMILLARY_SHARED_DATA does not name a data folder.")
    results = {}
    for name in arguments.names:
        results[name] = compare(name, arguments.repeats, arguments.threads, not arguments.no_memory)
        show(name, results[name], console)
    record = {
        "threads": arguments.threads,
        "workloads": results,
    }
    measure.store(arguments.output, record, console)


if __name__ == "__main__":
    main()
