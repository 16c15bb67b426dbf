"""From a depth image to a label image: milliseconds of each stage, frames per second, and how good the normals are.

    python -m benchmarks.vision [--frames 40] [--stride 1] [--threads 2] [--only stages|stream]

First `DirectionSegmenter` as it is, depth in and labels out: its time for a frame in Lloyd passes of scikit-learn over
300,000 x 3 rows (W1, K = 7; from fits of 1 and of 11 steps in turn with the frames), and the time and memory of 1,000
frames. Then the stages of a pipeline of parts.

A walk through the made room, 640 x 480: depth is smoothed (guided filter), normals are taken, their rows are gathered,
`DDPvMFMeans` takes its step, and labels go back to the image. The first two frames, which compile and find the
clusters, do not count; medians over the others do, and the fastest beside them. `--stride 2` learns from every second
pixel of every second row; all pixels are labelled.

Beside it, in the same run: one Lloyd pass of `SphericalKMeans` over 300,000 x 3 rows (W1, K = 7), from fits of 1
and of 11 steps, and one plain pass over the pixels, their inverse depth. The quality of the normals is the angle to the
truth over frames with and without noise, for each way to smooth.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from armillary import DDPvMFMeans, SphericalKMeans
from armillary.vision import DirectionSegmenter, RoomWalk, estimate_normals, make_room_walk, smooth_depth
from armillary.vision.smoothing import inverse_depth
from armillary.workers import Workers
from benchmarks import measure, workloads
from benchmarks.streams import RESULTS

N_WARM_UP = 2
MAX_ANGLE = math.radians(80.0)
# the paper's memory, beta = 1e5, was for frames of 300,000 normals
PIXELS_PER_DRIFT = 3.0
SMOOTHINGS = (None, "guided", "bilateral", "total_variation")
LLOYD_STEPS = {"fit of 1 Lloyd step": 1, "fit of 11 Lloyd steps": 11}
STAGES = ("smoothing", "normals", "rows", "clustering", "labels")


class Stages:
    """Runs calls in turn and keeps the time of each."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def run(self, name: str, call: Callable[[], Any]) -> Any:
        """What `call` returns."""
        found: list[Any] = []
        self.seconds.setdefault(name, []).append(measure.seconds(lambda: found.append(call())))
        return found[0]

    def summary(self) -> dict[str, dict[str, float]]:
        """Median and fastest of each, the first frames left out."""
        return {
            name: {"median_seconds": median(times[N_WARM_UP:]), "fastest_seconds": min(times[N_WARM_UP:])}
            for name, times in self.seconds.items()
        }


def pipeline(walk: RoomWalk, stride: int, n_threads: int) -> dict[str, Any]:
    """Every frame through all stages, and one Lloyd pass and one plain pass beside each."""
    n_learnt = len(range(0, walk.camera.height, stride)) * len(range(0, walk.camera.width, stride))
    model = DDPvMFMeans(
        MAX_ANGLE,
        drift_concentration=n_learnt / PIXELS_PER_DRIFT,
        max_unseen_steps=400,
        carry_unseen=True,
        n_threads=n_threads,
    )
    w1 = workloads.load("W1")
    stages, n_rows, numbers = Stages(), [], []
    for depth in track(walk.depths, description="frames"):
        depth.sum()  # the first stage should not be the one to fetch the frame
        smooth = stages.run("smoothing", lambda: smooth_depth(depth, walk.camera, n_threads=n_threads))  # noqa: B023
        normals = stages.run(
            "normals",
            lambda: estimate_normals(smooth, walk.camera, smoothing=None, n_threads=n_threads),  # noqa: B023
        )
        rows = stages.run("rows", lambda: normals.rows(stride))  # noqa: B023
        ids = stages.run("clustering", lambda: _ids(model, rows, normals, stride))  # noqa: B023
        stages.run("labels", lambda: normals.image_of(ids))  # noqa: B023
        stages.run("smoothing and normals in one", lambda: estimate_normals(depth, walk.camera, n_threads=n_threads))  # noqa: B023
        with Workers(n_threads) as workers:
            stages.run("plain pass", lambda: inverse_depth(depth, walk.camera, "benchmark", workers))  # noqa: B023
        for name, n_steps in LLOYD_STEPS.items():
            stages.run(name, lambda: _lloyd(w1, n_steps, n_threads))  # noqa: B023
        n_rows.append(len(rows))
        numbers.append(len(np.unique(ids)))
    found = stages.summary()
    found["Lloyd pass"] = _one_pass(*(stages.seconds[name][N_WARM_UP:] for name in LLOYD_STEPS))
    totals = [sum(times) for times in zip(*(stages.seconds[name] for name in STAGES), strict=True)][N_WARM_UP:]
    whole = median(totals)
    return {
        "stride": stride,
        "n_rows": median(n_rows),
        "n_clusters": median(numbers),
        "ids_in_all": int(model.next_id_),
        "stages": found,
        "whole_seconds": whole,
        "fastest_whole_seconds": min(totals),
        "frames_per_second": 1.0 / whole,
        "lloyd_passes": whole / found["Lloyd pass"]["median_seconds"],
        "fastest_lloyd_passes": min(totals) / found["Lloyd pass"]["fastest_seconds"],
        "plain_passes": whole / found["plain pass"]["median_seconds"],
    }


def stream(n_frames: int, n_peer_frames: int, n_threads: int) -> dict[str, Any]:
    """`DirectionSegmenter` over a walk to and fro, Lloyd passes of scikit-learn beside the first frames."""
    walk = make_room_walk(60, random_state=0, n_threads=n_threads)
    depths = [walk.depths[number] for number in track(range(len(walk)), description="room")]
    there_and_back = [*range(len(depths)), *range(len(depths) - 2, 0, -1)]
    segmenter, w1 = DirectionSegmenter(camera=walk.camera, n_threads=n_threads), workloads.load("W1")
    seconds: list[float] = []
    peers: dict[int, list[float]] = {1: [], 11: []}
    memory: dict[int, float] = {}
    by_stage: dict[str, list[float]] = {}
    for number in track(range(n_frames), description="stream"):
        depth = depths[there_and_back[number % len(there_and_back)]]
        begin = time.perf_counter()
        found = segmenter.step(depth)
        seconds.append(time.perf_counter() - begin)
        for stage, value in found.milliseconds.items():
            by_stage.setdefault(stage, []).append(value / 1e3)
        if N_WARM_UP <= number < N_WARM_UP + n_peer_frames:
            for n_steps, times in peers.items():
                times.append(measure.seconds(lambda: _sklearn_lloyd(w1, n_steps, n_threads)))  # noqa: B023
        if number in (99, n_frames - 1):
            memory[number + 1] = measure.resident_bytes() / 2**20
    lloyd = _one_pass(peers[1], peers[11])
    beside = seconds[N_WARM_UP : N_WARM_UP + n_peer_frames]
    return {
        "n_frames": n_frames,
        "median_seconds": median(beside),
        "fastest_seconds": min(beside),
        "scikit_learn_lloyd_pass": lloyd,
        "lloyd_passes": median(beside) / lloyd["median_seconds"],
        "fastest_lloyd_passes": min(beside) / lloyd["fastest_seconds"],
        "median_seconds_by_stage": {stage: median(times[N_WARM_UP:]) for stage, times in by_stage.items()},
        "median_seconds_of_frames": {
            "101 to 200": median(seconds[100:200]),
            f"{n_frames - 99} to {n_frames}": median(seconds[-100:]),
        },
        "resident_megabytes_after_frames": {str(number): value for number, value in memory.items()},
        "ids_in_all": int(segmenter.model.next_id_),
    }


def _sklearn_lloyd(workload: workloads.Workload, n_steps: int, n_threads: int) -> None:
    with threadpool_limits(n_threads):
        KMeans(workload.n_clusters, init=workload.starts, n_init=1, max_iter=n_steps, tol=0.0, algorithm="lloyd").fit(
            workload.rows
        )


def show_stream(result: dict[str, Any], console: Console) -> None:
    """A few lines."""
    console.print(
        f"DirectionSegmenter, 640 x 480: {1e3 * result['median_seconds']:.2f} ms a frame (fastest "
        f"{1e3 * result['fastest_seconds']:.2f}), {result['lloyd_passes']:.1f} passes of scikit-learn (fastest "
        f"{result['fastest_lloyd_passes']:.1f})"
    )
    for name in ("median_seconds_by_stage", "median_seconds_of_frames", "resident_megabytes_after_frames"):
        console.print(name, result[name])


def _lloyd(workload: workloads.Workload, n_steps: int, n_threads: int) -> None:
    SphericalKMeans(
        workload.n_clusters, init=workload.starts, max_iter=n_steps, tol=0.0, algorithm="lloyd", n_threads=n_threads
    ).fit(workload.rows)


def _one_pass(short: list[float], long: list[float]) -> dict[str, float]:
    """Seconds of a step from fits of 1 step and of 11: what is done once drops out."""
    differences = [after - before for before, after in zip(short, long, strict=True)]
    return {"median_seconds": median(differences) / 10, "fastest_seconds": (min(long) - min(short)) / 10}


def _ids(model: DDPvMFMeans, rows: np.ndarray, normals: Any, stride: int) -> np.ndarray:
    """Ids of all valid pixels, learnt from `rows`."""
    ids = model.partial_fit_predict(rows)
    return ids if stride == 1 else model.predict(normals.rows())


def quality(n_frames: int, n_threads: int) -> dict[str, dict[str, dict[str, float]]]:
    """Angles to the true normals in degrees, over a few frames of the walk."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    settings = {"no noise": {"noise": 0.0, "hole_fraction": 0.0, "dtype": "float32"}, "noise of a Kinect": {}}
    for name, setting in settings.items():
        walk = make_room_walk(n_frames, random_state=0, n_threads=n_threads, **setting)
        errors: dict[str, list[np.ndarray]] = {str(smoothing): [] for smoothing in SMOOTHINGS}
        shares: dict[str, list[float]] = {str(smoothing): [] for smoothing in SMOOTHINGS}
        seconds: dict[str, list[float]] = {str(smoothing): [] for smoothing in SMOOTHINGS}
        for frame in track(walk, description=f"normals, {name}"):
            for smoothing in SMOOTHINGS:
                stages = Stages()
                normals = stages.run(
                    "normals",
                    lambda: estimate_normals(frame.depth, walk.camera, smoothing=smoothing, n_threads=n_threads),  # noqa: B023
                )
                seconds[str(smoothing)] += stages.seconds["normals"]
                errors[str(smoothing)].append(_angles(normals.vectors, frame.normals)[normals.is_valid])
                shares[str(smoothing)].append(float(normals.is_valid.mean()))
        found[name] = {
            smoothing: {
                "median_degrees": float(np.median(np.concatenate(angles))),
                "mean_degrees": float(np.mean(np.concatenate(angles))),
                "90th_percentile_degrees": float(np.percentile(np.concatenate(angles), 90.0)),
                "valid_share": float(np.mean(shares[smoothing])),
                "fastest_seconds": min(seconds[smoothing]),
            }
            for smoothing, angles in errors.items()
        }
    return found


def _angles(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Degrees between unit vectors; the chord keeps precision for small ones."""
    return np.degrees(2.0 * np.arcsin(np.minimum(0.5 * np.linalg.norm(one - other, axis=-1), 1.0)))


def show(result: dict[str, Any], console: Console) -> None:
    """Stages with their shares."""
    table = Table(
        title=f"640 x 480, stride {result['stride']}: {result['frames_per_second']:.0f} frames / s, "
        f"{result['lloyd_passes']:.1f} Lloyd passes, K = {result['n_clusters']:g}"
    )
    for column in ("", "ms", "fastest", "share", "Lloyd passes"):
        table.add_column(column, justify="left" if not column else "right")
    one_pass = result["stages"]["Lloyd pass"]["median_seconds"]
    for name, line in result["stages"].items():
        if name in LLOYD_STEPS:
            continue
        share = f"{line['median_seconds'] / result['whole_seconds']:.0%}" if name in STAGES else ""
        table.add_row(
            name,
            f"{1e3 * line['median_seconds']:.2f}",
            f"{1e3 * line['fastest_seconds']:.2f}",
            share,
            f"{line['median_seconds'] / one_pass:.1f}",
        )
    table.add_row(
        "whole",
        f"{1e3 * result['whole_seconds']:.2f}",
        f"{1e3 * result['fastest_whole_seconds']:.2f}",
        "",
        f"{result['lloyd_passes']:.1f}",
    )
    console.print(table)


def show_quality(result: dict[str, dict[str, dict[str, float]]], console: Console) -> None:
    """Errors of normals."""
    table = Table(title="Angle to the true normals, degrees")
    for column in ("room", "smoothing", "median", "mean", "90%", "valid pixels", "ms"):
        table.add_column(column, justify="left" if column in ("room", "smoothing") else "right")
    for name, lines in result.items():
        for smoothing, line in lines.items():
            table.add_row(
                name,
                smoothing,
                f"{line['median_degrees']:.3f}",
                f"{line['mean_degrees']:.2f}",
                f"{line['90th_percentile_degrees']:.2f}",
                f"{line['valid_share']:.1%}",
                f"{1e3 * line['fastest_seconds']:.1f}",
            )
    console.print(table)


def main() -> None:
    """Measure, show, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=40)
    parser.add_argument("--quality-frames", type=int, default=7)
    parser.add_argument("--stride", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--stream-frames", type=int, default=1000)
    parser.add_argument("--only", choices=("all", "stages", "stream"), default="all")
    parser.add_argument("--output", type=Path, default=RESULTS / "vision.json")
    arguments = parser.parse_args()
    console = Console()
    load = measure.load(console)
    warnings.simplefilter("ignore", ConvergenceWarning)  # fits of so many steps are asked for
    stored = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    record = {name: stored[name] for name in ("normals", "pipeline", "stream") if name in stored}
    if arguments.only != "stages":
        record["stream"] = stream(arguments.stream_frames, arguments.frames, arguments.threads) | {"load_before": load}
        show_stream(record["stream"], console)
    if arguments.only != "stream":
        record["normals"] = quality(arguments.quality_frames, arguments.threads)
        show_quality(record["normals"], console)
        record["pipeline"] = {}
        for stride in arguments.stride:
            walk = make_room_walk(arguments.frames, random_state=0, n_threads=arguments.threads)
            record["pipeline"][f"stride {stride}"] = pipeline(walk, stride, arguments.threads)
            show(record["pipeline"][f"stride {stride}"], console)
    measure.store(arguments.output, {"load_before": load, "threads": arguments.threads} | record, console)


if __name__ == "__main__":
    main()
