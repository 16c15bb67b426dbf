"""Several workers beside one process: seconds, processor time, and every byte that moved.

`SphericalKMeans` and `VonMisesFisherMixture` from given directions, plain steps, over float16 rows in a file: one
process with two threads, and two workers with one thread each, in turn. Workers are started before the clock is. Model
files are compared byte for byte. Bytes are those that the cost model foresees:

    k-means, one step and worker    K (D + 2) 8 out (directions, offsets), K (D + 1) 8 back (counts, resultants)
    mixture, one step and worker    K (D + 3) 8 and, but for the first, K (D + 1) 8 out; K (D + 1) 8 back

and some hundred bytes a message that name things.

python -m benchmarks.workers --folder /some/disk [--rows 10000000] [--clusters 100] [--steps 5] [--store]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from armillary import SphericalKMeans, VonMisesFisherMixture, open_rows, save
from armillary.engines.select import engine
from benchmarks.measure import machine
from benchmarks.out_of_core import write_npy

_WIDTH = 128
_RESULTS = Path(__file__).parent / "results" / "workers.json"


def models(first: np.ndarray, n_steps: int, n_threads: int) -> dict[str, Any]:
    """Fits of so many steps."""
    return {
        "lloyd": SphericalKMeans(
            len(first), init=first, max_iter=n_steps, tol=0.0, algorithm="lloyd", n_threads=n_threads
        ),
        "hamerly": SphericalKMeans(
            len(first), init=first, max_iter=n_steps, tol=0.0, algorithm="hamerly", n_threads=n_threads
        ),
        "mixture": VonMisesFisherMixture(len(first), init=first, max_iter=n_steps, tol=0.0, n_threads=n_threads),
    }


def processor(pids: list[int]) -> float:
    """Processor seconds of this process and of some others so far."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ticks = os.sysconf("SC_CLK_TCK")
    others = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        others += (int(fields[11]) + int(fields[12])) / ticks
    return own.ru_utime + own.ru_stime + others


def fitted(model: Any, rows: Any, pids: list[int]) -> tuple[float, float, bytes]:
    """Wall and processor seconds of a fit, and the model's file."""
    before, begun = processor(pids), time.perf_counter()
    model.fit(rows)
    spent = time.perf_counter() - begun, processor(pids) - before
    with tempfile.NamedTemporaryFile() as file:
        save(model.set_params(n_threads=None), file.name)
        return *spent, Path(file.name).read_bytes()


def foreseen(kind: str, n_clusters: int, n_steps: int, n_workers: int) -> tuple[int, int]:
    """Bytes out and back of the passes of a fit by the cost model, without what names things."""
    directions, sums = n_clusters * (_WIDTH + 1) * 8, n_clusters * (_WIDTH + 1) * 8
    if kind != "mixture":
        # one more pass for labels under the last directions
        return (n_steps + 1) * n_workers * directions, (n_steps + 1) * n_workers * sums
    out = n_steps * (n_workers * (directions + n_clusters * 8) + (n_workers - 1) * sums)
    return out, n_steps * n_workers * sums


def measured(
    folder: Path, n_rows: int, n_clusters: int, n_steps: int, n_turns: int, kinds: list[str]
) -> dict[str, Any]:
    """All numbers of a run."""
    path = folder / f"rows-{n_rows}.npy"
    if not path.exists():
        write_npy(path, n_rows)
    plain = open_rows(path)
    first = np.asarray(plain[:n_clusters], dtype=np.float64)
    found: dict[str, Any] = {"rows": n_rows, "columns": _WIDTH, "clusters": n_clusters, "steps": n_steps}
    with open_rows(path, n_workers=2) as dealt:
        SphericalKMeans(2, init=first[:2], max_iter=1, n_threads=1).fit(dealt)  # starts the workers
        SphericalKMeans(2, init=first[:2], max_iter=1, n_threads=2).fit(plain[:5000])
        pids = dealt.held("processes", lambda: None).pids
        for kind in kinds:
            turns = []
            for _ in range(n_turns):
                one = fitted(models(first, n_steps, 2)[kind], plain, [])
                two = fitted(models(first, n_steps, 1)[kind], dealt, pids)
                turns.append({"wall": [one[0], two[0]], "processor": [one[1], two[1]], "is_equal": one[2] == two[2]})
                print(kind, turns[-1], flush=True)
            traffic = engine("workers").traffic
            passes = ("label",) if kind != "mixture" else ("shared_lanes", "onto")
            counted = [traffic.by_method[name] for name in passes]
            found[kind] = {
                "turns": turns,
                "processor_ratio": statistics.median(turn["processor"][1] / turn["processor"][0] for turn in turns),
                "wall_ratio": statistics.median(turn["wall"][1] / turn["wall"][0] for turn in turns),
                "messages": traffic.n_messages,
                "bytes_of_passes": [sum(one[1] for one in counted), sum(one[2] for one in counted)],
                "bytes_foreseen": foreseen(kind, n_clusters, n_steps, 2),
                "bytes_in_all": [traffic.bytes_out, traffic.bytes_in],
                "by_method": traffic.by_method,
            }
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=["lloyd", "hamerly", "mixture"])
    parser.add_argument("--store", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = measured(given.folder, given.rows, given.clusters, given.steps, given.turns, given.models)
    command = f"python -m benchmarks.workers --rows {given.rows} --clusters {given.clusters} --steps {given.steps}"
    command += f" --turns {given.turns} --models {' '.join(given.models)}"
    told = {"command": command, "machine": machine(), "load": os.getloadavg(), **found}
    print(json.dumps(told, indent=1))
    if given.store:
        before = json.loads(_RESULTS.read_text()) if _RESULTS.exists() else {}
        _RESULTS.write_text(json.dumps({**before, f"{given.rows} rows": told}, indent=1) + "\n")


if __name__ == "__main__":
    main()
