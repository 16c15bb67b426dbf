"""What a first fit costs on a machine that has compiled nothing yet: CPU seconds of a fresh process, and versions made.

    python -m benchmarks.compile_time

Each fit has a process of its own, with a copy of the sources (numba would read what lies beside them) and an empty
cache. A second process, which finds what the first has kept, tells what is left without compiling.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import measure

_OUTPUT = Path(__file__).parent / "results" / "compile_time.json"
_SOURCES = Path(__file__).parents[1] / "src" / "armillary"
# class, parameters, columns
FITS: dict[str, tuple[str, dict[str, Any], int]] = {
    "DPvMFMeans, 3 columns": ("DPvMFMeans", {"max_angle": 1.0}, 3),
    "DPvMFMeans, 64 columns": ("DPvMFMeans", {"max_angle": 1.0}, 64),
    "DDPvMFMeans, 3 columns": ("DDPvMFMeans", {"max_angle": 1.0}, 3),
    "Links, 64 columns": ("Links", {}, 64),
    "SphericalKMeans, 3 columns": ("SphericalKMeans", {"n_clusters": 5}, 3),
    "SphericalKMeans, 64 columns": ("SphericalKMeans", {"n_clusters": 5}, 64),
    "VonMisesFisherMixture, 3 columns": ("VonMisesFisherMixture", {"n_components": 5}, 3),
    "VonMisesFisherMixture, 64 columns": ("VonMisesFisherMixture", {"n_components": 5}, 64),
    "DirichletProcessMixture, 3 columns": ("DirichletProcessMixture", {}, 3),
}


def _fit_here(name: str) -> None:
    import warnings

    import numpy as np

    import armillary
    from armillary.kernels.jit import versions

    warnings.simplefilter("ignore")
    class_name, parameters, n_features = FITS[name]
    rows = np.random.default_rng(0).normal(size=(2_000, n_features)).astype(np.float32)
    getattr(armillary, class_name)(**parameters).fit(rows)
    seconds = sum(os.times()[:2])
    print(json.dumps({"seconds": seconds, "versions": versions()}))


def measured(name: str, repeats: int) -> dict[str, Any]:
    """The least CPU seconds of a first and a second process, and the versions that the first compiled."""
    first, second = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(_SOURCES, Path(folder) / "armillary", ignore=shutil.ignore_patterns("__pycache__"))
            root = Path(__file__).parents[1]
            places = {"PYTHONPATH": f"{folder}{os.pathsep}{root}", "NUMBA_CACHE_DIR": f"{folder}/kernels"}
            command = [sys.executable, "-m", "benchmarks.compile_time", "--here", name]
            for found in (first, second):
                done = subprocess.run(command, env=os.environ | places, check=True, capture_output=True, text=True)
                found.append(json.loads(done.stdout.splitlines()[-1]))
    made = first[0]["versions"]
    return {
        "first_seconds": round(min(one["seconds"] for one in first), 2),
        "second_seconds": round(min(one["seconds"] for one in second), 2),
        "n_kernels": len(made),
        "n_versions": sum(made.values()),
        "versions": made,
    }


def main() -> None:
    """Measure each fit, print a line for it, store all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--here", help=argparse.SUPPRESS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="words of the names of the fits")
    parser.add_argument("--output", type=Path, default=_OUTPUT)
    options = parser.parse_args()
    if options.here:
        _fit_here(options.here)
        return
    console = Console()
    busy = measure.load(console)
    lines = {}
    for name in FITS:
        if not options.only or any(word in name for word in options.only):
            line = lines[name] = measured(name, options.repeats)
            console.print(
                f"{name:36s} first {line['first_seconds']:6.2f} s of CPU, then {line['second_seconds']:5.2f} s; "
                f"{line['n_versions']} versions of {line['n_kernels']} kernels"
            )
    measure.store(options.output, {"load": busy, "repeats": options.repeats, "fits": lines}, console)


if __name__ == "__main__":
    main()
