"""What a step costs, predicted from three numbers that are measured on the machine, beside steps that are measured.

The model (docs/cost_model.md): CPU seconds of a plain step (labels and sums) over n x D float32 rows and K directions
are

    n (2 D K / product + K / compare + D / touch)

with products per second, comparisons of scores per second and numbers touched per second. They are found by least
squares of the relative error from the shapes of one half, and predict those of the other. CPU time of one thread, the
least of several runs: other work on the machine adds to it, and takes nothing away.

Rows of float16 in a file are read and made unit in every pass: n (D / gate + 1 / roots) more. Each row has a sum of
squares in column order, a root and a division however few columns it has, so numbers alone do not tell it: two shapes,
narrow and wide, give both. With them the passes of fits over two worker processes are predicted, CPU seconds of all of
them together, and the runs of `benchmarks/workers.py` that are stored. Then the bytes that such a fit moves, beside
K (D + 1) 8 each way for each worker and pass.

python -m benchmarks.cost_model [--repeats 5] [--scale 1.0] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from armillary import SphericalKMeans, open_rows
from armillary.engines.select import checked_points, engine, open_passes
from armillary.rules import AffineRule
from benchmarks.measure import machine
from benchmarks.workers import processor

WORKERS = Path(__file__).parent / "results" / "workers.json"
# Steps of two fits whose difference is measured: rows still move in all of them.
_FEW_AND_MANY = (1, 4)
# n, D, K of rows in a file, in one process: what it costs to make rows unit
GATED = ((800_000, 32, 64), (150_000, 256, 64))
# and what is predicted: the same over so many workers
STORED = ((300_000, 128, 100, 2), (120_000, 384, 200, 2), (400_000, 64, 300, 2))
# n, D, K: the first half calibrates, the second is predicted
CALIBRATED = ((40_000, 64, 64), (40_000, 64, 512), (20_000, 256, 64), (20_000, 256, 512), (30_000, 128, 1024))
PREDICTED = ((30_000, 128, 128), (20_000, 384, 100), (10_000, 768, 256), (60_000, 96, 300), (15_000, 512, 700))


def unit(draws: np.random.Generator, *shape: int) -> np.ndarray:
    """Unit rows."""
    rows = draws.standard_normal(shape, dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def step_seconds(n_rows: int, n_features: int, n_clusters: int, n_repeats: int) -> float:
    """CPU seconds of one plain step, the least of several."""
    draws = np.random.default_rng(0)
    centers = unit(draws, n_clusters, n_features)
    noise = unit(draws, n_rows, n_features)
    rows = centers[draws.integers(0, n_clusters, n_rows)] + noise
    found = []
    with open_passes(checked_points(rows, "cost_model"), 1, "cost_model") as passes:
        rule = AffineRule.cosines(centers.astype(np.float64))
        for _ in range(n_repeats + 1):
            labels = passes.labels()  # new ones: a step that knows the last one costs less
            start = time.thread_time() if passes.n_threads == 1 else time.process_time()
            passes.label(rule, labels)
            end = time.thread_time() if passes.n_threads == 1 else time.process_time()
            found.append(end - start)
    return min(found[1:])


def stored_seconds(n_rows: int, n_features: int, n_clusters: int, n_workers: int | None, n_repeats: int) -> float:
    """CPU seconds of one plain pass over rows of float16 in a file, of this process and its workers; least of several.

    The difference of two fits, without what is done once.
    """
    rows = unit(np.random.default_rng(0), n_rows, n_features)  # so that many rows move in every step
    found = []
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.save(f"{place}/rows.npy", rows.astype(np.float16))
        with open_rows(f"{place}/rows.npy", n_workers=n_workers) as stored:

            def seconds(n_steps: int) -> float:
                pids = [] if n_workers is None else stored.held("processes", lambda: None).pids
                start = processor(pids)
                SphericalKMeans(
                    n_clusters,
                    init=rows[:n_clusters],
                    max_iter=n_steps,
                    tol=0.0,
                    algorithm="lloyd",
                    n_threads=1,
                ).fit(stored)
                return processor(pids) - start

            SphericalKMeans(2, init=rows[:2], max_iter=1, n_threads=1).fit(stored)  # starts workers, loads kernels
            few, many = _FEW_AND_MANY
            for _ in range(n_repeats):
                found.append((seconds(many) - seconds(few)) / (many - few))
    return min(found)


def gate_costs(costs: np.ndarray, scale: float, n_repeats: int) -> np.ndarray:
    """Seconds for each number and for each row of a file beyond those of rows in memory."""
    table, beyond = [], []
    for n_rows, n_features, n_clusters in GATED:
        shape = int(scale * n_rows), n_features, n_clusters
        seconds = stored_seconds(*shape, None, n_repeats)
        table.append([shape[0] * n_features / seconds, shape[0] / seconds])
        beyond.append(1.0 - float(np.dot(terms(*shape), costs)) / seconds)
    found, _ = nnls(np.array(table), np.array(beyond))
    return np.asarray(found)


def stored_terms(n_rows: int, n_features: int) -> list[float]:
    """What the costs of the gate are multiplied by."""
    return [float(n_rows * n_features), float(n_rows)]


def runs(costs: np.ndarray, gate: np.ndarray) -> list[dict[str, Any]]:
    """Plain fits that `benchmarks/workers.py` stored beside what is foreseen: a pass for each step, and the last."""
    found = []
    for run in json.loads(WORKERS.read_text()).values():
        shape = run["rows"], run["columns"], run["clusters"]
        a_pass = float(np.dot(terms(*shape), costs) + np.dot(stored_terms(*shape[:2]), gate))
        foreseen = (run["steps"] + 1) * a_pass
        for place, workers in ((0, None), (1, 2)):
            seconds = min(turn["processor"][place] for turn in run["lloyd"]["turns"])
            line = {"shape": shape, "workers": workers, "steps": run["steps"], "load": round(run["load"][0], 1)}
            found.append({**line, "seconds": round(seconds, 2), "predicted": round(foreseen, 2)})
            found[-1]["error"] = round(foreseen / seconds - 1.0, 4)
    return found


def terms(n_rows: int, n_features: int, n_clusters: int) -> list[float]:
    """What the three numbers are multiplied by."""
    return [2.0 * n_rows * n_features * n_clusters, float(n_rows * n_clusters), float(n_rows * n_features)]


def moved_bytes(n_clusters: int, n_features: int) -> dict[str, float]:
    """Bytes of a pass to and from a worker, measured and by the model."""
    rows = unit(np.random.default_rng(0), 20 * n_clusters, n_features)
    model = SphericalKMeans(n_clusters, init=rows[:n_clusters], max_iter=4, tol=0.0, algorithm="lloyd")
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, part in enumerate(np.array_split(rows, 2)):
            np.save(f"{place}/{number}.npy", part)
        model.fit(open_rows([f"{place}/0.npy", f"{place}/1.npy"], n_workers=2))
    traffic: Any = getattr(engine("workers"), "traffic")  # noqa: B009 - of this engine alone
    n_messages, n_out, n_in = traffic.by_method["label"]
    model_bytes = 8 * n_clusters * (n_features + 1)
    return {
        "n_clusters": n_clusters,
        "n_features": n_features,
        "model_bytes": model_bytes,
        "out_over_model": round(n_out / n_messages / model_bytes, 4),
        "in_over_model": round(n_in / n_messages / model_bytes, 4),
    }


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--out", default="benchmarks/results/cost_model.json")
    arguments = parser.parse_args()
    lines: list[dict[str, Any]] = []
    for half, shapes in (("calibrated", CALIBRATED), ("predicted", PREDICTED)):
        for n_rows, n_features, n_clusters in shapes:
            shape = int(arguments.scale * n_rows), n_features, n_clusters
            lines.append({"half": half, "shape": shape, "seconds": step_seconds(*shape, arguments.repeats)})
    known = [line for line in lines if line["half"] == "calibrated"]
    table = np.array([terms(*line["shape"]) for line in known]) / np.array([[line["seconds"]] for line in known])
    costs, _ = nnls(table, np.ones(len(known)))
    for line in lines:
        line["predicted"] = float(np.dot(terms(*line["shape"]), costs))
        line["error"] = round(line["predicted"] / line["seconds"] - 1.0, 4)
        line["seconds"], line["predicted"] = round(line["seconds"], 5), round(line["predicted"], 5)
        print(line, flush=True)
    gate = gate_costs(costs, arguments.scale, arguments.repeats)
    stored = []
    for n_rows, n_features, n_clusters, n_workers in STORED:
        shape = int(arguments.scale * n_rows), n_features, n_clusters
        seconds = stored_seconds(*shape, n_workers, arguments.repeats)
        foreseen = float(np.dot(terms(*shape), costs) + np.dot(stored_terms(*shape[:2]), gate))
        line = {"shape": shape, "workers": n_workers, "seconds": round(seconds, 4)}
        stored.append({**line, "predicted": round(foreseen, 4), "error": round(foreseen / seconds - 1.0, 4)})
        print(stored[-1], flush=True)
    found = {
        "machine": machine(),
        "command": f"python -m benchmarks.cost_model --repeats {arguments.repeats} --scale {arguments.scale}",
        "load": round(os.getloadavg()[0], 1),
        "gflops": round(float(1e-9 / costs[0]), 2),
        "compared_per_second": None if costs[1] == 0.0 else float(f"{1.0 / costs[1]:.3g}"),
        "touched_per_second": None if costs[2] == 0.0 else float(f"{1.0 / costs[2]:.3g}"),
        "made_unit_per_second": [None if one == 0.0 else float(f"{1.0 / one:.3g}") for one in gate],  # numbers, rows
        "worst_error_over_workers": max(abs(line["error"]) for line in stored),
        "over_workers": stored,
        "stored_runs": runs(costs, gate),
        "worst_error_of_predicted": max(abs(line["error"]) for line in lines if line["half"] == "predicted"),
        "messages": [moved_bytes(100, 64)],
        "steps": lines,
    }
    Path(arguments.out).write_text(json.dumps(found, indent=1) + "\n")
    print({key: value for key, value in found.items() if key != "steps"})


if __name__ == "__main__":
    main()
