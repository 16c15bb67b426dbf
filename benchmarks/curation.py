"""Curation from end to end on made rows: a long-tailed mixture with planted near-duplicates, in a file of float16.

Time, peak of anonymous memory, recall of planted duplicates, and how even the sample is over the true concepts, beside
a random sample, one that is even over the finest clusters alone, and one that is even over plain k-means.

python -m benchmarks.curation --folder /some/disk [--rows 10000000] [--features 128] [--levels 100,1000,10000]
                              [--fit-rows 1000000] [--copies 0.05] [--steps 20] [--resamples 3]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from armillary import SphericalKMeans, load, open_rows
from armillary.curation import CurationPlan, balanced_sample, curate
from benchmarks.measure import machine

DATA = Path(os.environ.get("ARMILLARY_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
_WRITTEN = 1 << 16
_OWN = ("out", "folder")  # of this machine
_SAMPLED = 0.05  # seconds between two looks at the memory
_LOOKS_WRITTEN = 100


def make_rows(path: Path, n_rows: int, n_features: int, n_concepts: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows in a file; the concept of each, and the row that it is a copy of (-1 for none). Once made, they stay."""
    truth = path.with_suffix(f".truth-{n_rows}-{n_features}-{n_concepts}-{share}.npz")
    if truth.exists():
        with np.load(truth) as known:
            return known["concepts"], known["sources"]
    draws = np.random.default_rng(0)
    centers = draws.standard_normal((n_concepts, n_features), dtype=np.float32)
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    weights = 1.0 / np.arange(1, n_concepts + 1)
    concepts = draws.choice(n_concepts, n_rows, p=weights / weights.sum()).astype(np.int32)
    sources = np.full(n_rows, -1, dtype=np.int64)
    is_copy = draws.random(n_rows) < share
    is_copy[:_WRITTEN] = False
    with open(path, "wb") as stream:
        about = {"descr": "<f2", "fortran_order": False, "shape": (n_rows, n_features)}
        np.lib.format.write_array_header_1_0(stream, about)
        kept = np.empty((0, n_features), dtype=np.float32)
        for start in range(0, n_rows, _WRITTEN):
            part = slice(start, min(start + _WRITTEN, n_rows))
            own = concepts[part]
            noise = draws.standard_normal((len(own), n_features), dtype=np.float32)
            rows = centers[own] + 0.8 * noise / np.sqrt(n_features)
            if start == 0:
                kept = rows.copy()  # copies are of rows of the first block
            copies = np.flatnonzero(is_copy[part])
            chosen = draws.integers(0, len(kept), len(copies))
            jitter = draws.standard_normal((len(copies), n_features), dtype=np.float32)
            rows[copies] = kept[chosen] + 0.15 * jitter / np.sqrt(n_features)
            sources[start + copies] = chosen
            concepts[start + copies] = concepts[chosen]
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            rows.astype(np.float16).tofile(stream)
    np.savez(truth, concepts=concepts, sources=sources)
    return concepts, sources


def sentences(place: Path) -> dict[str, Any]:
    """The same on embeddings of sentences, beside brute force: near pairs of which at least one row went."""
    found: dict[str, Any] = {}
    for name in ("sent_agnews", "sent_banking77"):
        path = DATA / name / "embeddings.npz"
        if not path.exists():
            continue
        rows = np.load(path)["embeddings"].astype(np.float32)
        n_clusters = round(len(rows) ** 0.5)
        plan = CurationPlan(n_clusters=(n_clusters // 10, n_clusters), threshold=0.9)
        start = time.perf_counter()
        summary = curate(rows, place / name, plan, force=True)
        seconds = round(time.perf_counter() - start, 2)
        wide = rows.astype(np.float64)
        wide /= np.linalg.norm(wide, axis=1, keepdims=True)
        pairs = np.argwhere(np.triu(wide @ wide.T >= plan.threshold, 1))
        import pyarrow.parquet as pq

        is_kept = pq.read_table(place / name / "rows.parquet", columns=["is_kept"])["is_kept"].to_numpy()
        found[name] = {
            "rows": len(rows),
            "threshold": plan.threshold,
            "seconds": seconds,
            "removed": summary["duplicates"]["removed"],
            "largest_group": summary["duplicates"]["largest_group"],
            "near_pairs_by_brute_force": len(pairs),
            "of_which_one_went": int(np.count_nonzero(~is_kept[pairs].all(axis=1))),
            "effective_clusters": {
                kind: round(summary["coverage"][kind][1]["effective"], 1)
                for kind in ("all rows", "random sample", "sample")
            },
        }
    return found


class Watch(threading.Thread):
    """Time, processor time and the peak of anonymous memory, in a file: a killed session leaves what it took."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._path, self._is_over = path, threading.Event()
        self.sessions: list[dict[str, float]] = json.loads(path.read_text()) if path.exists() else []
        self._start, self._cpu = time.perf_counter(), time.process_time()
        self.sessions.append({"seconds": 0.0, "cpu_seconds": 0.0, "peak_anonymous_mib": 0})

    def run(self) -> None:
        """Look, now and then."""
        n_looks = 0
        while not self._is_over.wait(_SAMPLED):
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    here = self.sessions[-1]
                    here["peak_anonymous_mib"] = max(here["peak_anonymous_mib"], int(line.split()[1]) // 1024)
            n_looks += 1
            if n_looks % _LOOKS_WRITTEN == 0:
                self._write()

    def _write(self) -> None:
        here = self.sessions[-1]
        here["seconds"] = round(time.perf_counter() - self._start, 1)
        here["cpu_seconds"] = round(time.process_time() - self._cpu, 1)
        self._path.write_text(json.dumps(self.sessions))

    def end(self) -> list[dict[str, float]]:
        """All sessions up to the results."""
        self._is_over.set()
        self.join()
        self._write()
        self._path.unlink()
        return self.sessions


def effective(concepts: np.ndarray, n_concepts: int) -> float:
    """As many concepts of equal size would be as even."""
    shares = np.bincount(concepts, minlength=n_concepts) / len(concepts)
    shares = shares[shares > 0]
    return float(np.exp(-(shares * np.log(shares)).sum()))


def plain_labels(path: Path, n_clusters: int, n_fit_rows: int) -> tuple[SphericalKMeans, np.ndarray]:
    """K-means without levels or resamples, of some rows, and the clusters of all."""
    rows = open_rows(path)
    some = np.sort(np.random.default_rng(1).choice(len(rows), min(n_fit_rows, len(rows)), replace=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SphericalKMeans(n_clusters, init="k-means||", max_iter=10, random_state=0).fit(rows[some])
    return model, model.predict(rows)


def evenness(path: Path, concepts: np.ndarray, is_kept: np.ndarray, arguments: argparse.Namespace) -> dict[str, Any]:
    """Of the sample, and of others of its size."""
    n_concepts, folder = arguments.concepts, path.parent / "curated"
    import pyarrow.parquet as pq

    sample = np.load(folder / "sample.npy")
    model = load(folder / "model.safetensors")
    finest = f"cluster_{len(model.level_sizes_) - 1}"
    labels = pq.read_table(folder / "rows.parquet", columns=[finest])[finest].to_numpy()
    flat = type("Flat", (), {"fit": None, "predict": None, "cluster_centers_": model.cluster_centers_})()
    n_plain = model.level_sizes_[-2] if len(model.level_sizes_) > 1 else model.level_sizes_[-1]
    plain, own = plain_labels(path, int(n_plain), arguments.fit_rows // 5)
    others = {
        "even over levels": sample,
        "random": np.random.default_rng(0).choice(np.flatnonzero(is_kept), len(sample), replace=False),
        "even over the finest clusters": balanced_sample(flat, len(sample), labels=labels, among=is_kept),
        f"even over plain k-means, K = {n_plain}": balanced_sample(plain, len(sample), labels=own, among=is_kept),
    }
    return {
        name: {
            "effective_concepts": round(effective(concepts[rows], n_concepts), 1),
            "concepts": len(np.unique(concepts[rows])),
            "largest_share": round(float(np.bincount(concepts[rows]).max()) / len(rows), 4),
        }
        for name, rows in others.items()
    }


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--levels", default="100,1000,10000")
    parser.add_argument("--concepts", type=int, default=5000)
    parser.add_argument("--fit-rows", type=int, default=1_000_000)
    parser.add_argument("--copies", type=float, default=0.05)
    parser.add_argument("--threshold", type=float, default=0.95)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--resamples", type=int, default=3)
    parser.add_argument("--out", default="benchmarks/results/curation.json")
    arguments = parser.parse_args()
    place = Path(arguments.folder)
    path = place / "rows.npy"
    concepts, sources = make_rows(path, arguments.rows, arguments.features, arguments.concepts, arguments.copies)
    plan = CurationPlan(
        n_clusters=tuple(int(one) for one in arguments.levels.split(",")),
        threshold=arguments.threshold,
        n_sample=arguments.rows // 50,
        n_fit_rows=arguments.fit_rows,
        n_resamples=arguments.resamples,
        max_iter=arguments.steps,
        n_recall_rows=200,
    )
    load, watch = [round(os.getloadavg()[0], 1)], Watch(place / "sessions.json")
    watch.start()
    summary = curate(open_rows(path), place / "curated", plan, tell=lambda *news: print(*news, flush=True))
    sessions = watch.end()
    load.append(round(os.getloadavg()[0], 1))  # before and after
    import pyarrow.parquet as pq

    table = pq.read_table(place / "curated" / "rows.parquet", columns=["kept_row", "is_kept"])
    is_kept, kept_row = table["is_kept"].to_numpy(), table["kept_row"].to_numpy()
    copies = np.flatnonzero(sources >= 0)
    gone = ~is_kept[copies]
    found = {
        "command": "python -m benchmarks.curation "
        + " ".join(
            f"--{name.replace('_', '-')} {value}" for name, value in vars(arguments).items() if name not in _OWN
        ),
        "machine": machine(),
        "rows": arguments.rows,
        "features": arguments.features,
        "load": load,
        "seconds": round(sum(one["seconds"] for one in sessions), 1),
        "cpu_seconds": round(sum(one["cpu_seconds"] for one in sessions), 1),
        "peak_anonymous_mib": max(one["peak_anonymous_mib"] for one in sessions),
        "sessions": sessions,  # more than one: all but the last were killed
        "stages": summary["seconds"],  # of the last
        "peak_resident_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "planted": {
            "copies": len(copies),
            "removed": round(float(gone.mean()), 5),
            "removed_for_a_row_of_their_concept": round(
                float((concepts[kept_row[copies[gone]]] == concepts[copies[gone]]).mean()), 5
            ),
            "others_removed": round(float((~is_kept[sources < 0]).mean()), 5),
        },
        "duplicates": summary["duplicates"],
        "sentences": sentences(place),
        "evenness": evenness(path, concepts, is_kept, arguments),
    }
    print(json.dumps(found, indent=1))
    out = Path(arguments.out)
    before = json.loads(out.read_text()) if out.exists() else {}
    out.write_text(json.dumps({**before, f"{arguments.rows} rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
