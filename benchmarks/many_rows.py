"""`AutoClusterer` on many rows: small clusters among them, and time and memory beside k-means that is told the number.

    python -m benchmarks.many_rows [small] [million] [million-peer]

    small           200,000 x 64: 20 clusters, and 150 of 100 rows. Found is one that has four fifths of its rows in a
                    cluster that holds little else
    million         1,000,000 x 384 (float32, 1.5 GB) in 100 unequal clusters: nothing is told
    million-peer    the same rows: `MiniBatchKMeans` of scikit-learn, told 100, with its defaults

Each part is a process of its own. `cpu_seconds` are of all its threads, `mib_above_rows` its peak beyond what it held
before the fit; `seconds` mean something on a quiet machine alone: `load` says how busy it was. Parts are stored one by
one in `results/many_rows.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score

import armillary
from armillary.datasets import make_vmf_mixture
from benchmarks import measure

RESULTS = Path(__file__).parent / "results" / "many_rows.json"
N_SMALL, SMALL_ROWS = 150, 100
BLOCK_ROWS = 50_000


def mixed_sizes(n_rows: int, n_features: int, sizes: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows about even directions, clusters with these shares of the rows, in a random order."""
    generator = np.random.default_rng(0)
    directions = generator.standard_normal((len(sizes), n_features), dtype=np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    counts = np.floor(sizes / sizes.sum() * n_rows).astype(int)
    counts[np.argmax(counts)] += n_rows - counts.sum()
    classes = generator.permutation(np.repeat(np.arange(len(sizes)), counts))
    rows = np.empty((n_rows, n_features), dtype=np.float32)
    for first in range(0, n_rows, BLOCK_ROWS):
        part = directions[classes[first : first + BLOCK_ROWS]]
        part = part + noise / np.sqrt(n_features) * generator.standard_normal(part.shape, dtype=np.float32)
        rows[first : first + BLOCK_ROWS] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return rows, classes


def _of_small() -> tuple[np.ndarray, np.ndarray]:
    large = (200_000 - N_SMALL * SMALL_ROWS) / 20
    return mixed_sizes(200_000, 64, np.r_[np.full(20, large), np.full(N_SMALL, float(SMALL_ROWS))], 1.0)


def _of_million() -> tuple[np.ndarray, np.ndarray]:
    return mixed_sizes(1_000_000, 384, np.geomspace(1.0, 20.0, 100), 1.5)


def small() -> dict[str, Any]:
    """How many of the small clusters are found."""
    rows, classes = _of_small()
    model, told = _fitted(rows, lambda: armillary.AutoClusterer().fit(rows))
    found = 0
    for one in range(20, 20 + N_SMALL):
        own = np.bincount(model.labels_[classes == one])
        best = int(own.argmax())
        found += bool(own[best] >= 0.8 * SMALL_ROWS and own[best] >= 0.8 * np.count_nonzero(model.labels_ == best))
    told |= {"small_clusters": N_SMALL, "found": found, "n_found": model.n_clusters_, "reason": model.reason_}
    return told | {"ari": adjusted_rand_score(classes, model.labels_)}


def million() -> dict[str, Any]:
    """Nothing told."""
    rows, classes = _of_million()
    model, told = _fitted(rows, lambda: armillary.AutoClusterer().fit(rows))
    return told | {"n_found": model.n_clusters_, "ari": adjusted_rand_score(classes, model.labels_)}


def million_peer() -> dict[str, Any]:
    """Told the number."""
    rows, classes = _of_million()
    model, told = _fitted(rows, lambda: MiniBatchKMeans(100, random_state=0).fit(rows))
    return told | {"n_found": len(np.unique(model.labels_)), "ari": adjusted_rand_score(classes, model.labels_)}


PARTS = {"small": small, "million": million, "million-peer": million_peer}


def _fitted(rows: np.ndarray, fit: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    few = make_vmf_mixture(500, rows.shape[1], 3, concentration=60.0, random_state=0, dtype=np.float32)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        armillary.AutoClusterer().fit(few)  # compiles
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        load, wall, cpu = os.getloadavg()[0], time.perf_counter(), time.process_time()
        model = fit()
    return model, {
        "rows": list(rows.shape),
        "seconds": round(time.perf_counter() - wall, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "load": round(load, 1),
        "mib_of_rows": round(rows.nbytes / 2**20),
        "mib_above_rows": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024),
    }


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all by default")
    parser.add_argument("--one", choices=PARTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(PARTS[arguments.one]()))
        return
    for part in arguments.parts or PARTS:
        command = [sys.executable, "-m", "benchmarks.many_rows", "--one", part]
        told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        Console().print(part, told)
        stored = json.loads(RESULTS.read_text())["parts"] if RESULTS.exists() else {}
        result = {"command": "python -m benchmarks.many_rows", "parts": stored | {part: told}}
        measure.store(RESULTS, result, Console(quiet=True))


if __name__ == "__main__":
    main()
