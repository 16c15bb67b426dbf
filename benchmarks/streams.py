"""Streams: `DDPvMFMeans` beside sequential and batch DP-vMF-means and warm-started k-means, frame by frame.

    python -m benchmarks.streams [--frames 16] [--rows 300000] [--long-frames 10000] [--threads 2]

W1s: frames of 300,000 normals, a scene of 7 clusters and 5% noise that turns by 3 degrees a frame; `max_angle` 60 and
100 degrees. Everyone gets each frame in turn; the first two, which compile, make memory and find the clusters, do not
count, and the median over the others does. k-means (scikit-learn's lloyd, its default stopping rule) starts from its
centers of the frame before, with the number of clusters that DDP-vMF-means has in the frame. A Lloyd pass is one step
of `SphericalKMeans` on the same frame with as many clusters, from (time of 11 steps - time of 1 step) / 10, the median
over five turns.

The long stream: 10,000 frames of 2,000 rows, a scene that comes again every 200 frames, with clusters that vanish and
return. Time of a frame and memory in use must not grow after the first thousand.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from armillary import DDPvMFMeans, DPvMFMeans, SphericalKMeans
from armillary.metrics import geometric_nmi_score
from benchmarks import measure, workloads

RESULTS = Path(__file__).parent / "results"
N_WARM_UP = 2
N_PASS_TURNS = 5
PERIOD = 200
DDP, SEQUENTIAL, BATCH = "DDPvMFMeans", "DPvMFMeans, warm start", "DPvMFMeans, each frame anew"
KMEANS = "scikit-learn KMeans, warm start"


def lloyd_pass(rows: np.ndarray, centers: np.ndarray, n_threads: int) -> float:
    """Seconds of one step of spherical k-means, every row scored against every center."""

    def run(n_steps: int) -> tuple[float, int]:
        model = SphericalKMeans(
            len(centers), init=centers, max_iter=n_steps, tol=0.0, algorithm="lloyd", n_threads=n_threads
        )
        return measure.seconds(lambda: model.fit(rows)), model.n_iter_

    run(1)  # the first fit pays for memory that the peer before has given back
    turns = [(run(1)[0], *run(11)) for _ in range(N_PASS_TURNS)]
    return median((long - short) / max(1, n_steps - 1) for short, long, n_steps in turns)


class WarmKMeans:
    """scikit-learn's k-means from the centers of the frame before; with more clusters wanted, rows are added."""

    def __init__(self, n_threads: int) -> None:
        self._n_threads = n_threads
        self._centers = np.empty((0, 3), np.float32)
        self.n_iter_ = 0
        self.labels_ = np.empty(0, np.int32)

    def fit(self, rows: np.ndarray, n_clusters: int) -> None:
        """The next frame."""
        starts = np.concatenate([self._centers, rows[: max(0, n_clusters - len(self._centers))]])[:n_clusters]
        model = KMeans(n_clusters, init=starts, n_init=1)
        with threadpool_limits(self._n_threads):
            model.fit(rows)
        self._centers, self.n_iter_, self.labels_ = model.cluster_centers_, model.n_iter_, model.labels_


def compare(frames: list[Any], truth: list[Any], degrees: float, n_threads: int) -> dict[str, Any]:
    """Everyone on the same frames, in turns."""
    angle = math.radians(degrees)
    ddp = DDPvMFMeans(angle, n_threads=n_threads)
    sequential = DPvMFMeans(angle, warm_start=True, n_threads=n_threads)
    batch = DPvMFMeans(angle, n_threads=n_threads)
    kmeans = WarmKMeans(n_threads)
    models: dict[str, Any] = {DDP: ddp, SEQUENTIAL: sequential, BATCH: batch, KMEANS: kmeans}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    sweeps: dict[str, list[int]] = {name: [] for name in models}
    numbers: dict[str, list[int]] = {name: [] for name in models}
    agreement: dict[str, list[float]] = {name: [] for name in models}
    passes: list[float] = []
    for frame, labels in track(list(zip(frames, truth, strict=True)), description=f"W1s, {degrees:g} degrees"):
        steps: dict[str, Callable[[], object]] = {
            DDP: lambda: ddp.partial_fit(frame),  # noqa: B023
            SEQUENTIAL: lambda: sequential.fit(frame),  # noqa: B023
            BATCH: lambda: batch.fit(frame),  # noqa: B023
            KMEANS: lambda: kmeans.fit(frame, ddp.n_clusters_),  # noqa: B023
        }
        frame.sum()  # the first in turn should not be the one to fetch the frame
        for name, step in steps.items():
            seconds[name].append(measure.seconds(step))
            sweeps[name].append(models[name].n_iter_)
            found = models[name].labels_
            numbers[name].append(len(np.unique(found)))
            agreement[name].append(geometric_nmi_score(labels[labels >= 0], found[labels >= 0]))
        seen = ddp.cluster_centers_[ddp.steps_unseen_ == 0]
        passes.append(lloyd_pass(frame, seen, n_threads))
    one_pass = median(passes[N_WARM_UP:])
    peers = {
        name: {
            "seconds": median(seconds[name][N_WARM_UP:]),
            "slowest_seconds": max(seconds[name][N_WARM_UP:]),
            "frames_per_second": 1.0 / median(seconds[name][N_WARM_UP:]),
            "lloyd_passes": median(seconds[name][N_WARM_UP:]) / one_pass,
            "sweeps": median(sweeps[name][N_WARM_UP:]),
            "n_clusters": median(numbers[name][N_WARM_UP:]),
            "nmi": median(agreement[name][N_WARM_UP:]),
        }
        for name in models
    }
    return {
        "shape": [len(frames), *frames[0].shape],
        "lloyd_pass_seconds": one_pass,
        "ids_in_all": ddp.next_id_,
        "peers": peers,
    }


def run_long(n_frames: int, n_rows: int, n_threads: int) -> dict[str, Any]:
    """A stream that repeats: time of a frame and memory, thousand by thousand."""
    # cluster k is away for 20 to 80 frames of every 200
    starts, lengths = np.array([10, 30, 50, 70, 90, 110, 130]), np.array([20, 30, 40, 50, 60, 70, 80])
    frame = np.arange(PERIOD)[:, None]
    is_present = ~((frame >= starts) & (frame < starts + lengths))
    # 3 degrees a frame, 120 frames a turn: after 200 frames the scene jumps, which the stream must bear
    frames, _ = workloads.load_stream(n_rows, PERIOD, is_present)
    model = DDPvMFMeans(math.radians(60.0), n_threads=n_threads)
    block = max(1, n_frames // 10)
    blocks: list[dict[str, float]] = []
    seconds: list[float] = []
    for number in track(range(n_frames), description=f"{n_frames:,} frames of {n_rows:,} rows"):
        start = time.perf_counter()
        model.partial_fit(frames[number % PERIOD])
        seconds.append(time.perf_counter() - start)
        if (number + 1) % block == 0:
            blocks.append(
                {
                    "median_seconds": median(seconds),
                    "mean_seconds": mean(seconds),
                    "resident_bytes": measure.resident_bytes(),
                    "n_remembered": len(model.cluster_ids_),
                    "n_history": len(model.history_),
                    "ids_in_all": model.next_id_,
                }
            )
            seconds = []
    second, last = blocks[min(1, len(blocks) - 1)], blocks[-1]
    return {
        "shape": [n_frames, n_rows, 3],
        "block": block,
        "blocks": blocks,
        # the first block compiles and fills the memory: the second is what the last is held against
        "time_ratio": last["median_seconds"] / second["median_seconds"],
        "grown_bytes": last["resident_bytes"] - second["resident_bytes"],
    }


def show(name: str, result: dict[str, Any], console: Console) -> None:
    """A table of one setting; ratios are to DDP-vMF-means."""
    n_frames, n_rows, _ = result["shape"]
    table = Table(
        title=f"{name}: {n_frames} frames of {n_rows:,} rows; pass {1e3 * result['lloyd_pass_seconds']:.2f} ms"
    )
    for column in ("", "ms / frame", "ratio", "slowest", "frames / s", "Lloyd passes", "sweeps", "K", "NMI"):
        table.add_column(column, justify="left" if not column else "right")
    ours = result["peers"][DDP]["seconds"]
    for peer, row in result["peers"].items():
        table.add_row(
            peer,
            f"{1e3 * row['seconds']:.1f}",
            f"{row['seconds'] / ours:.2f}",
            f"{1e3 * row['slowest_seconds']:.1f}",
            f"{row['frames_per_second']:.0f}",
            f"{row['lloyd_passes']:.1f}",
            f"{row['sweeps']:g}",
            f"{row['n_clusters']:g}",
            f"{row['nmi']:.4f}",
        )
    console.print(table)


def show_long(result: dict[str, Any], console: Console) -> None:
    """Time and memory over the long stream."""
    table = Table(title=f"{result['shape'][0]:,} frames of {result['shape'][1]:,} rows, in tenths")
    for column in ("ms / frame", "mean", "memory, MiB", "remembered", "history", "ids in all"):
        table.add_column(column, justify="right")
    for block in result["blocks"]:
        table.add_row(
            f"{1e3 * block['median_seconds']:.3f}",
            f"{1e3 * block['mean_seconds']:.3f}",
            f"{block['resident_bytes'] / 2**20:.1f}",
            f"{block['n_remembered']}",
            f"{block['n_history']:,}",
            f"{block['ids_in_all']:,}",
        )
    console.print(table)


def main() -> None:
    """Measure, show, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--long-frames", type=int, default=10_000)
    parser.add_argument("--long-rows", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS / "streams.json")
    arguments = parser.parse_args()
    console = Console()
    load = measure.load(console)
    warnings.simplefilter("ignore", ConvergenceWarning)
    # the long stream first: large frames would leave the allocator with memory to give
    long = run_long(arguments.long_frames, arguments.long_rows, arguments.threads)
    show_long(long, console)
    frames, truth = workloads.load_stream(arguments.rows, arguments.frames)
    by_angle = {}
    for degrees in (60.0, 100.0):
        by_angle[f"{degrees:g}"] = compare(frames, truth, degrees, arguments.threads)
        show(f"W1s, {degrees:g} degrees", by_angle[f"{degrees:g}"], console)
    record = {
        "load_before": load,
        "threads": arguments.threads,
        "W1s": by_angle,
        "long": long,
    }
    measure.store(arguments.output, record, console)


if __name__ == "__main__":
    main()
