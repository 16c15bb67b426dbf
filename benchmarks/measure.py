"""Time and memory, and the machine they were measured on."""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median

from rich.console import Console

QUIET = 0.5  # most load before a run whose numbers count


def seconds(call: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def peak_of_peer(workload: str, peer: str, n_steps: int, n_threads: int) -> int:
    """Bytes a fit adds at its peak to a process that holds the rows: measured in a process of its own."""
    return number_from("benchmarks.measure", workload, peer, n_steps, n_threads)


def number_from(module: str, *arguments: object) -> int:
    """The last number that `python -m module arguments` prints, with a heap that gives freed arrays back at once.

    glibc would keep the arrays of a first, small fit for the one that is measured, and they would not be counted.
    """
    command = [sys.executable, "-m", module, *map(str, arguments)]
    environ = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    return int(subprocess.run(command, check=True, capture_output=True, text=True, env=environ).stdout.split()[-1])


def peak_of_call(warm_up: Callable[[], object], call: Callable[[], object]) -> int:
    """Bytes `call` adds at its peak; `warm_up` loads libraries and compiles. In a process of its own: `number_from`."""
    warm_up()
    gc.collect()  # what waits here would be freed, and its place used, while `call` runs
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the high-water mark starts from here
    before = _status("VmRSS")
    call()
    return _status("VmHWM") - before


def load(console: Console) -> float:
    """Processes that wanted a core, mean of the last minute; says so where numbers will be those of a busy machine."""
    busy = round(os.getloadavg()[0], 2)
    if busy > QUIET:
        console.print(f"The machine is busy (load {busy}): these numbers are no measure. Run again when it is quiet.")
    return busy


def iteration_times(
    runs: Mapping[str, Callable[[int], int]], n_steps: Mapping[str, int], repeats: int
) -> dict[str, dict[str, float]]:
    """Seconds of an iteration of each peer, from (time of n iterations - time of 1) / (n - 1): set-up drops out.

    `runs[peer](n)` makes at most n iterations and returns how many. Peers take turns in every repeat; the median
    over the repeats counts, and beside it stands what the fastest give.
    """
    done = {peer: run(n_steps[peer]) for peer, run in runs.items()}
    times: dict[str, dict[int, list[float]]] = {peer: {1: [], n_steps[peer]: []} for peer in runs}
    for _ in range(repeats):
        for peer, by_number in times.items():
            for number, found in by_number.items():
                found.append(seconds(partial(runs[peer], number)))
    lines = {}
    for peer, by_number in times.items():
        short, long = by_number.values()
        differences = [after - before for before, after in zip(short, long, strict=True)]
        lines[peer] = {
            "n_steps": done[peer],
            "step_seconds": median(differences) / (done[peer] - 1),
            "fastest_seconds": (min(long) - min(short)) / (done[peer] - 1),
        }
    return lines


def store(output: Path, record: Mapping[str, object], console: Console) -> None:
    """Write results with the day and the machine."""
    about = {"date": datetime.now(UTC).date().isoformat(), "machine": machine()}
    output.parent.mkdir(exist_ok=True)
    output.write_text(json.dumps(about | dict(record), indent=1) + "\n")
    console.print(f"Stored in {output}")


def resident_bytes() -> int:
    """Memory of this process that is in use now."""
    return _status("VmRSS")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def _peak_here(workload: str, peer: str, n_steps: int, n_threads: int) -> int:
    from benchmarks import workloads
    from benchmarks.peers import PEERS

    work = workloads.load(workload)
    few = workloads.Workload(work.name, work.rows[: 4 * work.n_clusters], work.starts)
    return peak_of_call(lambda: PEERS[peer](few, 1, n_threads), lambda: PEERS[peer](work, n_steps, n_threads))


def machine() -> dict[str, object]:
    """What the numbers were measured on."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    libraries = ("numpy", "scipy", "scikit-learn", "numba", "faiss-cpu")
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "libraries": {name: found for name in libraries if (found := _version(name))},
    }


def _version(library: str) -> str | None:
    """The installed release of a library: a peer may be missing where no peer is measured."""
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    name, peer_name, steps, threads = sys.argv[1:]
    print(_peak_here(name, peer_name, int(steps), int(threads)))
