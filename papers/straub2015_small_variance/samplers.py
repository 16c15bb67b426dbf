"""Section 7.1: samplers of the DP-vMF mixture beside DP-vMF-means, on the sets of Figure 3 with fewer rows.

The paper ran a sampler that seats one row after the other (CRP), which did not converge in two days, and a finite one
(FSD): 5,000 iterations, ten runs, the last sample of each judged. Both are `DirichletProcessMixture(component="vmf")`
here, from random labels. Fewer rows and sweeps than the paper's: what all of it would take is extrapolated from seconds
a row and sweep, since a sweep's cost is proportional to rows times clusters. Beside the CRP runs the exact split/merge
sampler, on the same rows, from the same labels and for as many sweeps.

The CRP sampler once more as the paper has it (`restaurant.py`): all rows, the concentration known. Whether it converges
is told by a second chain on the same rows that starts at the true labels: where both end alike, one has converged.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from restaurant import Seats
from scenes import silhouette
from synthetic import CONCENTRATION, N_CLUSTERS, thirty_clusters

from armillary import DirichletProcessMixture
from armillary.metrics import geometric_nmi_score

FINITE, FINITE_WHOLE, EXACT = "FSD", "FSD, all rows", "split/merge"
RESTAURANTS = ("CRP, few rows", "CRP, more rows")
SAMPLERS = {FINITE: "finite", FINITE_WHOLE: "finite", EXACT: "split_merge"}
for _name in RESTAURANTS:
    SAMPLERS |= {_name: "crp", f"{_name}: {EXACT}": "split_merge"}
WHOLE = "CRP, all rows"
PAPER_SWEEPS = 5000
FULL_ROWS = 30_000  # of Figure 3, as it is reproduced here
FIRST_SEED = 3000


def one(name: str, n_rows: int, n_sweeps: int, run: int) -> dict[str, Any]:
    """A chain from random labels: its last draw, what it cost, and the numbers of clusters on the way."""
    rows, truth = thirty_clusters(n_rows, FIRST_SEED + run)
    labels = np.random.default_rng(run).integers(N_CLUSTERS, size=len(rows))
    model = DirichletProcessMixture(
        "vmf", sampler=SAMPLERS[name], init=labels, n_burn_in=n_sweeps - 1, n_draws=1, random_state=run, n_threads=1
    )
    begin = time.process_time()
    model.fit(rows)
    seconds = time.process_time() - begin
    last, trace = model.sample_labels_[-1], model.trace_[0]
    return {
        "n_rows": len(rows),
        "n_sweeps": len(trace),
        "n_clusters": len(np.unique(last)),
        "nmi": geometric_nmi_score(truth, last),
        "silhouette": silhouette(rows, last),
        "seconds_a_sweep": seconds / len(trace),
        "numbers": trace[:: max(1, len(trace) // 20), 0].astype(int).tolist(),
    }


def whole(n_rows: int, n_sweeps: int, n_true_sweeps: int, run: int) -> dict[str, Any]:
    """The paper's own model, row by row: from random labels, and from the true ones."""
    rows, truth = thirty_clusters(n_rows, FIRST_SEED + run)
    generator = np.random.default_rng(run)
    starts = {"random": (generator.integers(N_CLUSTERS, size=len(rows)), n_sweeps), "true": (truth, n_true_sweeps)}
    found: dict[str, Any] = {"n_rows": len(rows), "n_sweeps": n_sweeps}
    for start, (labels, n_asked) in starts.items():
        seats, numbers, seconds = Seats(rows, labels, CONCENTRATION), [], 0.0
        agreements = []
        for sweep in range(n_asked):
            begin = time.process_time()
            seats.sweep(generator.random(len(rows)))
            seconds += time.process_time() - begin
            numbers.append(len(np.unique(seats.labels)))
            if sweep >= n_asked - n_true_sweeps // 2:
                agreements.append(geometric_nmi_score(truth, seats.labels))
        # of the last sweeps: half of the shorter chain
        found[start] = {
            "n_clusters": float(np.mean(numbers[-len(agreements) :])),
            "nmi": float(np.mean(agreements)),
            "last_n_clusters": numbers[-1],
            "silhouette": silhouette(rows, seats.labels),
            "seconds_a_sweep": seconds / n_asked,
            "numbers": numbers[:: max(1, n_asked // 20)],
        }
    return found


def cases(
    given: dict[str, tuple[int, int, int]], of_all: tuple[int, int, int, int] | None = None
) -> dict[str, Callable[[], dict[str, Any]]]:
    """Of each sampler rows, sweeps and runs; of the CRP on all rows also sweeps from the truth; nothing runs yet."""
    given = given | {f"{name}: {EXACT}": given[name] for name in RESTAURANTS if name in given}
    *shape, n_runs_of_all = of_all or (0, 0, 0, 0)
    return {f"{WHOLE}, run {run}": partial(whole, *shape, run) for run in range(n_runs_of_all)} | {
        f"{name}, run {run}": partial(one, name, n_rows, n_sweeps, run)
        for name, (n_rows, n_sweeps, n_runs) in given.items()
        for run in range(n_runs)
    }


def collected(found: dict[str, Any]) -> dict[str, Any]:
    """By sampler: every run, and what all rows and sweeps would take in hours of one core."""
    by_name: dict[str, Any] = {}
    for name in SAMPLERS:
        runs = [entry for key, entry in found.items() if key.rsplit(", run ", 1)[0] == name]
        if not runs:
            continue
        a_row = float(np.mean([run["seconds_a_sweep"] / run["n_rows"] for run in runs]))
        by_name[name] = {"runs": runs, "hours_in_full": a_row * FULL_ROWS * PAPER_SWEEPS / 3600.0}
    runs = [entry for key, entry in found.items() if key.rsplit(", run ", 1)[0] == WHOLE]
    if runs:
        a_row = float(np.mean([run["random"]["seconds_a_sweep"] / run["n_rows"] for run in runs]))
        by_name[WHOLE] = {"runs": runs, "hours_in_full": a_row * FULL_ROWS * PAPER_SWEEPS / 3600.0}
    return by_name
