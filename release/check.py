"""From the wheel to the first report in a clean environment, and what that costs.

    make release-check
    python -m release.check dist/armillary-0.1.0-py3-none-any.whl --python python3.11 python3.12 --store

For each Python: a new environment in a new folder, the wheel with its extra `cli` from the package index, 2,000 x 64
rows, `armillary cluster`. Home, caches and temporary files of the run are new and empty, so every kernel is compiled.
CPU time is what the system counted for the process and its children, user and system. Installing is counted apart.
A second run, which finds the compiled kernels, tells what is left without compiling.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import measure
from rich.console import Console

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "benchmarks" / "results" / "release.json"
GOAL = 25.0  # seconds of CPU from the installed wheel to the first report
N_ROWS, N_COLUMNS, N_CLUSTERS = 2_000, 64, 5
LEFT = ("labels.csv", "labels.npy", "model.safetensors", "report.html", "summary.json")
ROWS = f"""
import numpy as np
from armillary.datasets import make_vmf_mixture
rows, _, _ = make_vmf_mixture({N_ROWS}, {N_COLUMNS}, {N_CLUSTERS}, concentration=200.0, random_state=0)
np.save("vectors.npy", rows.astype(np.float32))
"""
VERSIONS = """
import importlib.metadata as found, json, platform
names = ("armillary", "numpy", "scipy", "scikit-learn", "numba", "matplotlib", "pyarrow", "typer")
print(json.dumps({"python": platform.python_version()} | {name: found.version(name) for name in names}))
"""


class CheckError(Exception):
    """A wheel that does not do what it should."""


def run(command: list[str], folder: Path, environ: dict[str, str]) -> tuple[str, dict[str, float]]:
    """What a command printed, and its CPU and wall seconds, children included."""
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=printed, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - start
        printed.seek(0)
        text = printed.read()
    if process.returncode:
        raise CheckError(f"{' '.join(command)} ended with {process.returncode}:\n{text}")
    return text, {"cpu_seconds": round(used.ru_utime + used.ru_stime, 1), "wall_seconds": round(wall, 1)}


def bare(home: Path, **more: str) -> dict[str, str]:
    """The variables of a user who has just come: no caches, no paths of ours; how to reach an index stays."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "LANG") or name.startswith(("PIP_", "SSL_")) or name.lower().endswith("_proxy")
    }
    for folder in (home, home / "tmp"):
        folder.mkdir(parents=True, exist_ok=True)
    return kept | {"HOME": str(home), "TMPDIR": str(home / "tmp"), "COLUMNS": "100", "NO_COLOR": "1"} | more


def size_of(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def check(wheel: Path, python: str, folder: Path, extra: str = "cli") -> dict[str, Any]:
    """Install, make rows, cluster twice; what each took."""
    environment = folder / "environment"
    subprocess.run([python, "-m", "venv", str(environment)], check=True)
    binaries = environment / ("Scripts" if os.name == "nt" else "bin")
    own = str(binaries / "python")
    # pip keeps its own cache: what is measured is unpacking and byte code, not the network
    pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}[{extra}]"]
    _, installing = run(pip, folder, os.environ | {"PYTHONPATH": ""})
    told, _ = run([own, "-c", VERSIONS], folder, bare(folder / "first home"))
    run([own, "-c", ROWS], folder, bare(folder / "first home", NUMBA_CACHE_DIR=str(folder / "first home" / "kernels")))
    command = [str(binaries / "armillary"), "cluster", "vectors.npy", "-o"]
    kernels = folder / "home" / "kernels"
    times = {}
    for name in ("first", "second"):
        _, times[name] = run([*command, name], folder, bare(folder / "home", NUMBA_CACHE_DIR=str(kernels)))
        _check_left(folder / name)
    return {
        "versions": json.loads(told.splitlines()[-1]),
        "installing": installing | {"bytes": size_of(environment), "extra": extra},
        "first_report": times["first"],
        "second_report": times["second"],
        "compiled_bytes": size_of(kernels),
    }


def _check_left(folder: Path) -> None:
    missing = [name for name in LEFT if not (folder / name).exists()]
    if missing:
        raise CheckError(f"armillary cluster left no {', '.join(missing)}.")
    found = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["n_clusters"]
    if found != N_CLUSTERS:
        raise CheckError(f"armillary cluster found {found} clusters in rows with {N_CLUSTERS}.")


def main() -> None:
    """Check each Python, print, store; an error where the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path, nargs="?", help="the one in dist by default")
    parser.add_argument("--python", nargs="+", default=[sys.executable])
    parser.add_argument("--store", action="store_true")
    options = parser.parse_args()
    wheel = options.wheel or next((ROOT / "dist").glob("*.whl"), None)
    if wheel is None:
        raise SystemExit("There is no wheel in dist: make dist")
    console = Console(width=120, highlight=False)
    busy = round(os.getloadavg()[0], 2)
    runs = []
    for python in options.python:
        with tempfile.TemporaryDirectory(prefix="armillary-release-") as name:
            try:
                found = check(wheel.resolve(), python, Path(name))
            except CheckError as error:
                raise SystemExit(str(error)) from None
        runs.append(found)
        first, second, installing = found["first_report"], found["second_report"], found["installing"]
        console.print(
            f"Python {found['versions']['python']}: to the first report {first['cpu_seconds']} s of CPU, "
            f"{first['wall_seconds']} s by the clock; again {second['cpu_seconds']} s of CPU. Installing: "
            f"{installing['cpu_seconds']} s of CPU, {installing['bytes'] / 1e6:.0f} MB."
        )
    if options.store:
        how = " ".join((__doc__ or "").split("\n\n", 2)[2].split())
        record = {"how": how, "goal_cpu_seconds": GOAL, "rows": [N_ROWS, N_COLUMNS], "load": busy, "runs": runs}
        measure.store(OUTPUT, record, console)
    if any(found["first_report"]["cpu_seconds"] > GOAL for found in runs):
        raise SystemExit(f"The first report took more than {GOAL:.0f} s of CPU.")


if __name__ == "__main__":
    main()
