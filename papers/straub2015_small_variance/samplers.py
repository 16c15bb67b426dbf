"""Section 7.1: samplers of the DP-vMF mixture beside DP-vMF-means, on the sets of Figure 3 with fewer rows.

The paper ran a sampler that seats one row after the other (CRP), which did not converge in two days, and a finite one
(FSD): 5,000 iterations, ten runs, the last sample of each judged. Both are `DirichletProcessMixture(component="vmf")`
here, from random labels. Fewer rows and sweeps than the paper's: what all of it would take is extrapolated from seconds
a row and sweep, since a sweep's cost is proportional to rows times clusters. Beside the CRP runs the exact split/merge
sampler, on the same rows, from the same labels and for as many sweeps.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scenes import silhouette
from synthetic import N_CLUSTERS, thirty_clusters

from armillary import DirichletProcessMixture
from armillary.metrics import geometric_nmi_score

FINITE, EXACT = "FSD", "split/merge"
RESTAURANTS = ("CRP, few rows", "CRP, more rows", "CRP, many rows")
SAMPLERS = {FINITE: "finite", EXACT: "split_merge"}
for _name in RESTAURANTS:
    SAMPLERS |= {_name: "crp", f"{_name}: {EXACT}": "split_merge"}
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


def cases(given: dict[str, tuple[int, int, int]]) -> dict[str, Callable[[], dict[str, Any]]]:
    """Of each sampler rows, sweeps and runs; nothing runs yet."""
    given = given | {f"{name}: {EXACT}": given[name] for name in RESTAURANTS if name in given}
    return {
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
    return by_name
