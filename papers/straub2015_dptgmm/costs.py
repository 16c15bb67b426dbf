"""Section 4: what a sweep costs, in CPU milliseconds of one thread, over rows and over clusters.

The difference of a long and a short chain from one seed: what a fit spends before its first sweep drops out. CPU time
of one thread is hardly changed by other work on the machine. Up to 40,000 rows a sweep is mostly what it costs whatever
the rows are (14 ms), so that sizes begin there; in three dimensions most clusters are passed over for most rows, so
clusters vary in eight. Chains start from the true labels: their number of clusters is then what was asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import normals
import numpy as np
from synthetic import make

from armillary import DirichletProcessMixture
from armillary.datasets import make_vmf_mixture
from armillary.vision import estimate_normals

ROWS, NUMBERS = (40_000, 120_000, 360_000), (10, 30, 90)
AT_ROWS, AT_NUMBER = 100_000, 30  # where the other of the two varies
DIMENSION = 8  # where clusters vary
FEW = 2000  # rows to compile on
PART = 8  # of the rows of a frame, one


def sweep(rows: np.ndarray, sweeps: tuple[int, int], settings: Mapping[str, Any]) -> dict[str, float]:
    """CPU milliseconds of one sweep, and the mean number of clusters it had; a short chain compiles first."""
    start = settings.get("init")
    few = {"init": start[:FEW]} if isinstance(start, np.ndarray) else {}
    DirichletProcessMixture(n_burn_in=0, n_draws=2, n_threads=1, **{**settings, **few}).fit(rows[:FEW])
    spent, model = [], None
    for n_draws in sweeps:
        model = DirichletProcessMixture(n_burn_in=0, n_draws=n_draws, n_threads=1, **settings)
        begin = time.process_time()
        model.fit(rows)
        spent.append(time.process_time() - begin)
    assert model is not None
    n_clusters = float(model.trace_[0, -sweeps[0] :, 0].mean())
    return {
        "n_rows": len(rows),
        "n_clusters": n_clusters,
        "milliseconds": 1e3 * (spent[1] - spent[0]) / (sweeps[1] - sweeps[0]),
    }


def _of_rows(n_rows: int, seed: int, sweeps: tuple[int, int]) -> dict[str, float]:
    made = make("isotropic", n_rows, AT_NUMBER, seed)
    return sweep(made.rows, sweeps, {"init": made.labels, "random_state": seed})


def _of_clusters(n_rows: int, n_clusters: int, seed: int, sweeps: tuple[int, int]) -> dict[str, float]:
    rows, labels, _ = make_vmf_mixture(
        n_rows, DIMENSION, n_clusters, concentration=300.0, min_angle=0.5, random_state=seed
    )
    return sweep(rows, sweeps, {"init": labels, "random_state": seed})


def _power(found: list[dict[str, float]], what: str) -> float:
    sizes, spent = (np.log([max(one[key], 1e-3) for one in found]) for key in (what, "milliseconds"))
    return float(np.polyfit(sizes, spent, 1)[0])


def frame(folder: Path, name: str, sweeps: tuple[int, int]) -> dict[str, Any]:
    """Nanoseconds a row, cluster and sweep on all normals of a frame and on an eighth of them."""
    depth = normals.recorded(folder, name)
    rows = estimate_normals(depth.depth, depth.camera, smoothing="total_variation").rows()
    found = {}
    for word, some in (("all", rows), ("an eighth", rows[::PART])):
        one = sweep(some, sweeps, {**normals.priors(len(some)), "random_state": 0})
        found[word] = one | {"nanoseconds": 1e6 * one["milliseconds"] / (one["n_rows"] * one["n_clusters"])}
    return found


def cases(
    folder: Path | None, frames: tuple[str, ...], n_runs: int, sweeps: tuple[int, int], share: float
) -> dict[str, Callable[[], Any]]:
    """By name, with a share of the rows of made sets; nothing runs yet."""
    found: dict[str, Callable[[], Any]] = {}
    for run in range(n_runs):
        for n_rows in ROWS:
            found[f"rows {n_rows}, run {run}"] = partial(_of_rows, round(share * n_rows), run, sweeps)
        for number in NUMBERS:
            n_rows = round(share * AT_ROWS)
            found[f"clusters {number}, run {run}"] = partial(_of_clusters, n_rows, number, run, sweeps)
    if folder is not None:
        found |= {name: partial(frame, folder, name, sweeps) for name in frames}
    return found


def collected(found: dict[str, Any]) -> dict[str, Any]:
    """Made sets by run, with the powers of rows and clusters that a sweep's cost goes with; frames by name."""
    made: dict[str, dict[str, Any]] = {}
    frames = {}
    for key, entry in found.items():
        if ", run " not in key:
            frames[key] = entry
            continue
        size, run = key.split(", run ")
        made.setdefault(run, {}).setdefault(size.split()[0], []).append(entry)
    for one in made.values():
        for what, size in (("rows", "n_rows"), ("clusters", "n_clusters")):
            one[f"power of {what}"] = _power(one[what], size)
    return {"made": list(made.values()), "frames": frames}
