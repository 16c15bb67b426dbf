"""Whole fits with an unknown number of clusters: `DPvMFMeans` beside pdc-dp-means, and beside k-means that is told it.

    python -m benchmarks.dp_means [W1 W2s] [--repeats 7] [--threads 2]

Each is given its best setting: of a grid, the angle (ours) or the delta (pdc) with the highest NMI to the truth, noise
rows left out. pdc stands in two more lines: at the delta of our radius, 2 - 2 cos(max_angle), and at the delta of
its grid whose number of clusters comes nearest to ours. Both run once from the start (pdc's default of ten runs would
cost it ten times as much), with the stopping rule they have by default: ours stops at a gain of 1e-6 per row, pdc
when centers move by less than 1e-4 of the variance. k-means of scikit-learn gets our number of clusters, random rows
and as many steps as ours took. All take turns in every repeat, and the median counts.

pdc-dp-means pins scikit-learn < 1.3 and so lives in an environment of its own, made on first use in the folder of the
workloads; where it cannot be installed its lines are left out, with the reason. It is 0.0.6: the wheel of 0.0.8 for
CPython 3.11 does not fit the binary interface of scikit-learn 1.2 and writes a traceback in every step, which would
make it slower than it is. `complaints` in the results counts the lines it wrote to stderr: they should be 0.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from armillary import DPvMFMeans
from armillary.metrics import cosine_silhouette_score, geometric_nmi_score
from benchmarks import measure, workloads

RESULTS = Path(__file__).parent / "results"
PDC = ("pdc-dp-means==0.0.6", "scikit-learn==1.2.2", "numpy==1.26.4")
OURS, KMEANS = "armillary DPvMFMeans", "scikit-learn KMeans, our K"

# degrees of ours, deltas of pdc
GRIDS: dict[str, tuple[list[float], list[float]]] = {
    "W1": ([*range(40, 105, 5)], [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 1.6, 1.8, 2.0]),
    "W2s": ([*range(56, 84, 4)], [0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2]),
}


class Fit(NamedTuple):
    """One fit: the time is the fit's alone."""

    seconds: float
    labels: np.ndarray
    n_clusters: int
    n_iter: int


def fit_ours(rows: np.ndarray, degrees: float, n_threads: int) -> Fit:
    """`DPvMFMeans` as users call it."""
    model = DPvMFMeans(math.radians(degrees), n_threads=n_threads)
    seconds = measure.seconds(lambda: model.fit(rows))
    return Fit(seconds, model.labels_, model.n_clusters_, model.n_iter_)


def fit_kmeans(rows: np.ndarray, n_clusters: int, n_steps: int, n_threads: int) -> Fit:
    """scikit-learn, told the number of clusters and of steps."""
    model = KMeans(n_clusters, init="random", n_init=1, max_iter=n_steps, tol=0.0, random_state=0)
    with warnings.catch_warnings(), threadpool_limits(n_threads):
        warnings.simplefilter("ignore", ConvergenceWarning)
        seconds = measure.seconds(lambda: model.fit(rows))
    return Fit(seconds, model.labels_, n_clusters, model.n_iter_)


class Pdc:
    """pdc-dp-means, served by `pdc_worker.py` from its own environment."""

    def __init__(self, n_threads: int) -> None:
        python = _environment()
        environ = os.environ | {"OMP_NUM_THREADS": str(n_threads)}
        worker = Path(__file__).with_name("pdc_worker.py")
        self._labels = workloads.FOLDER / "pdc-labels.npy"
        self._log = (workloads.FOLDER / "pdc-stderr.txt").open("w+")
        self._process = subprocess.Popen(
            [python, worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environ
        )

    def fit(self, rows: Path, delta: float) -> Fit:
        """A fit of rows stored at a path."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"rows": str(rows), "delta": delta, "labels": str(self._labels)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        reply = json.loads(self._process.stdout.readline())
        return Fit(reply["seconds"], np.load(self._labels), reply["n_clusters"], reply["n_iter"])

    def close(self) -> int:
        """End the worker; how many lines it wrote to stderr."""
        self._process.communicate()
        with self._log:
            self._log.seek(0)
            return len(self._log.readlines())


def _environment() -> Path:
    """The interpreter of pdc's environment, made where it is missing."""
    folder = workloads.FOLDER / "venv-pdc-0.0.6"
    python, is_done = folder / "bin" / "python", folder / "installed"
    if not is_done.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PDC]
        subprocess.run(install, check=True, capture_output=True)
        is_done.touch()
    return python


def quality(rows: np.ndarray, truth: np.ndarray, fit: Fit) -> dict[str, float]:
    """Agreement with the truth, without and with noise rows (a class of their own there), and the silhouette."""
    is_signal = truth >= 0
    return {
        "nmi": geometric_nmi_score(truth[is_signal], fit.labels[is_signal]),
        "nmi_with_noise": geometric_nmi_score(truth, fit.labels),
        "silhouette": cosine_silhouette_score(rows, fit.labels) if fit.n_clusters > 1 else 0.0,
    }


def scan(
    settings: list[float], call: Callable[[float], Fit], rows: np.ndarray, truth: np.ndarray, word: str
) -> list[dict[str, float]]:
    """Every setting of a grid, fitted once."""
    lines = []
    for setting in track(settings, description=word):
        fit = call(setting)
        lines.append({"setting": setting, "n_clusters": fit.n_clusters, **quality(rows, truth, fit)})
    return lines


def compare(name: str, repeats: int, n_threads: int, pdc: Pdc | None) -> dict[str, Any]:
    """All peers on one workload."""
    path, rows, truth = workloads.load_labelled(name)
    degrees, deltas = GRIDS[name]
    grids = {OURS: scan(degrees, lambda angle: fit_ours(rows, angle, n_threads), rows, truth, f"{name}, angles")}
    angle = max(grids[OURS], key=lambda line: line["nmi"])["setting"]
    found = fit_ours(rows, angle, n_threads)
    calls: dict[str, Callable[[], Fit]] = {
        OURS: lambda: fit_ours(rows, angle, n_threads),
        KMEANS: lambda: fit_kmeans(rows, found.n_clusters, found.n_iter, n_threads),
    }
    settings: dict[str, Any] = {OURS: {"max_angle_degrees": angle}, KMEANS: {"n_clusters": found.n_clusters}}
    if pdc is not None:
        grids["pdc-dp-means"] = scan(deltas, lambda delta: pdc.fit(path, delta), rows, truth, f"{name}, deltas")
        chosen = {
            "best NMI": max(grids["pdc-dp-means"], key=lambda line: line["nmi"])["setting"],
            "K nearest ours": min(
                grids["pdc-dp-means"], key=lambda line: (abs(line["n_clusters"] - found.n_clusters), -line["nmi"])
            )["setting"],
            "our radius": 2.0 - 2.0 * math.cos(math.radians(angle)),
        }
        for word, delta in chosen.items():
            calls[f"pdc-dp-means, {word}"] = lambda delta=delta: pdc.fit(path, delta)  # type: ignore[misc]
            settings[f"pdc-dp-means, {word}"] = {"delta": delta}
    times: dict[str, list[float]] = {peer: [] for peer in calls}
    fits: dict[str, Fit] = {}
    for _, peer in track([(turn, peer) for turn in range(repeats) for peer in calls], description=f"{name}, turns"):
        fits[peer] = calls[peer]()
        times[peer].append(fits[peer].seconds)
    peers = {
        peer: {
            **settings[peer],
            "seconds": median(times[peer]),
            "n_clusters": fits[peer].n_clusters,
            "n_iter": fits[peer].n_iter,
            **quality(rows, truth, fits[peer]),
        }
        for peer in calls
    }
    return {"shape": list(rows.shape), "n_true": int(truth.max()) + 1, "peers": peers, "grids": grids}


def show(name: str, result: dict[str, Any], console: Console) -> None:
    """A table of one workload; ratios are to ours."""
    n_rows, n_features = result["shape"]
    table = Table(title=f"{name}: {n_rows:,} x {n_features}, {result['n_true']} true clusters")
    for column in ("", "ms", "ratio", "K", "steps", "NMI", "NMI with noise", "silhouette"):
        table.add_column(column, justify="left" if not column else "right")
    ours = result["peers"][OURS]["seconds"]
    for peer, row in result["peers"].items():
        numbers = [f"{row[key]:.4f}" for key in ("nmi", "nmi_with_noise", "silhouette")]
        time, ratio = f"{1e3 * row['seconds']:.1f}", f"{row['seconds'] / ours:.2f}"
        table.add_row(peer, time, ratio, str(row["n_clusters"]), str(row["n_iter"]), *numbers)
    console.print(table)


def main() -> None:
    """Measure, show, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(GRIDS))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS / "dp_means.json")
    arguments = parser.parse_args()
    console = Console()
    load = measure.load(console)
    skipped = None
    try:
        pdc: Pdc | None = Pdc(arguments.threads)
    except (OSError, subprocess.CalledProcessError) as error:
        pdc, skipped = None, f"pdc-dp-means could not be installed: {error}"
        console.print(skipped)
    results = {}
    for name in arguments.names:
        results[name] = compare(name, arguments.repeats, arguments.threads, pdc)
        show(name, results[name], console)
    complaints = 0 if pdc is None else pdc.close()
    record = {
        "load_before": load,
        "pdc": skipped or {"installed": PDC, "complaints": complaints},
        "threads": arguments.threads,
        "workloads": results,
    }
    measure.store(arguments.output, record, console)


if __name__ == "__main__":
    main()
