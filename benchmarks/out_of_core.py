"""Rows that are not in memory: one exact pass over a file, with labels written to a file.

For 100,000,000 x 128 float16 (25.6 GB) and K = 100 and 1,000: seconds of `SphericalKMeans.predict(rows, out=path)`
beside those of reading the file once and those of the bare products (float32, one BLAS thread for each core, rows in
memory), all in this run and with a cold cache, and the peak of anonymous memory. Then .npy, Parquet (uncompressed, no
dictionary), Arrow and a HuggingFace folder with the same rows, one at a time and in turn, the median of five rounds.

python -m benchmarks.out_of_core --folder /some/disk [--rows 100000000] [--format-rows 10000000] [--clusters 100 1000]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from armillary import SphericalKMeans, open_rows

_WIDTH = 128
_WRITTEN = 1 << 17  # rows written at a time
_SAVED_ROWS = 1000  # rows of a batch of a saved dataset
_SAMPLED = 0.02  # seconds between two looks at the memory
_PRODUCT_ROWS = 1 << 20  # rows of the bare products, which are counted up to all rows


def blocks(n_rows: int) -> Iterator[np.ndarray]:
    """Rows around 200 directions, the same in every run."""
    draws = np.random.default_rng(0)
    centers = draws.standard_normal((200, _WIDTH), dtype=np.float32)
    pool = draws.standard_normal((_WRITTEN, _WIDTH), dtype=np.float32)
    for start in range(0, n_rows, _WRITTEN):
        n_here = min(_WRITTEN, n_rows - start)
        noise = np.roll(pool, int(draws.integers(_WRITTEN)), axis=0)[:n_here]
        yield (centers[draws.integers(0, 200, n_here)] + noise).astype(np.float16)


def write_npy(path: Path, n_rows: int) -> None:
    """One array."""
    with open(path, "wb") as stream:
        about = {"descr": "<f2", "fortran_order": False, "shape": (n_rows, _WIDTH)}
        np.lib.format.write_array_header_1_0(stream, about)
        for block in blocks(n_rows):
            block.tofile(stream)


def _table(block: np.ndarray, *, is_fixed: bool) -> Any:
    import pyarrow as pa

    flat = pa.array(block.ravel())
    if is_fixed:
        return pa.table({"embedding": pa.FixedSizeListArray.from_arrays(flat, _WIDTH)})
    offsets = pa.array(np.arange(len(block) + 1, dtype=np.int32) * _WIDTH)
    return pa.table({"embedding": pa.ListArray.from_arrays(offsets, flat)})


def write_parquet(path: Path, n_rows: int) -> None:
    """Lists, neither compressed nor in a dictionary."""
    import pyarrow.parquet as pq

    writer = None
    for block in blocks(n_rows):
        table = _table(block, is_fixed=True)
        writer = writer or pq.ParquetWriter(path, table.schema, compression="none", use_dictionary=False)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def write_arrow(path: Path, n_rows: int) -> None:
    """An Arrow file with one record batch for each block."""
    import pyarrow as pa

    with pa.ipc.new_file(str(path), _table(np.zeros((1, _WIDTH), "f2"), is_fixed=True).schema) as writer:
        for block in blocks(n_rows):
            writer.write_table(_table(block, is_fixed=True))


def write_saved_dataset(path: Path, n_rows: int) -> None:
    """As `save_to_disk` writes it: Arrow streams of lists, 1,000 rows in a batch, and what says so."""
    import pyarrow as pa

    path.mkdir()
    names, parts = [], np.linspace(0, n_rows, 5).astype(int)
    stream = blocks(n_rows)
    rest = np.empty((0, _WIDTH), "f2")
    for number, n_here in enumerate(np.diff(parts)):
        names.append(f"data-{number:05}-of-00004.arrow")
        schema = _table(np.zeros((1, _WIDTH), "f2"), is_fixed=False).schema
        with pa.ipc.new_stream(str(path / names[-1]), schema) as writer:
            left = int(n_here)
            while left:
                while len(rest) < min(left, _WRITTEN):
                    rest = np.concatenate([rest, next(stream)])
                # whole batches, as `save_to_disk` makes them: a shorter one comes last
                some = rest[: min(left, len(rest) // _SAVED_ROWS * _SAVED_ROWS or left)]
                rest, left = rest[len(some) :], left - len(some)
                writer.write_table(_table(some, is_fixed=False), max_chunksize=_SAVED_ROWS)
    (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (path / "dataset_info.json").write_text("{}")


def files_at(path: Path) -> list[Path]:
    """The file, or those of a folder."""
    return sorted(path.iterdir()) if path.is_dir() else [path]


def forget(path: Path) -> None:
    """Have the system drop what it holds of the files."""
    for file in files_at(path):
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def read_once(path: Path) -> float:
    """Seconds to read the files from beginning to end."""
    forget(path)
    room = np.empty(1 << 25, np.uint8)
    start = time.perf_counter()
    for file in files_at(path):
        with open(file, "rb", buffering=0) as stream:
            while stream.readinto(room):
                pass
    return time.perf_counter() - start


def products(n_rows: int, n_clusters: int, n_threads: int) -> float:
    """Seconds of the products of all rows with the directions, by what a part of them takes."""
    from threadpoolctl import threadpool_limits

    draws = np.random.default_rng(1)
    n_here = min(n_rows, _PRODUCT_ROWS)
    rows = draws.standard_normal((n_here, _WIDTH), dtype=np.float32)
    directions = np.ascontiguousarray(draws.standard_normal((n_clusters, _WIDTH), dtype=np.float32).T)

    def task(start: int) -> None:
        rows[start : start + 1024] @ directions

    with threadpool_limits(1, "blas"), ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(task, range(0, n_here, 1024)))
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            list(pool.map(task, range(0, n_here, 1024)))
            best = min(best, time.perf_counter() - start)
    return best * n_rows / n_here


def anonymous() -> int:
    """Bytes of anonymous memory of this process now."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


@contextmanager
def peak() -> Iterator[Callable[[], int]]:
    """The largest anonymous memory while the block runs."""
    most, is_done = [anonymous()], threading.Event()

    def look() -> None:
        while not is_done.wait(_SAMPLED):
            most[0] = max(most[0], anonymous())

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield lambda: max(most[0], anonymous())
    finally:
        is_done.set()
        watcher.join()


def one_pass(path: Path, n_clusters: int, n_threads: int) -> dict[str, float]:
    """Label all rows of a cold file into another, after a pass over few rows that compiles."""
    draws = np.random.default_rng(2)
    start = draws.standard_normal((n_clusters, _WIDTH))
    model = SphericalKMeans(n_clusters, init=start, max_iter=1, tol=1.0, n_threads=n_threads, random_state=0)
    rows = open_rows(path)
    some = rows[: max(2048, n_clusters)]
    model.fit(some).predict(some)
    labels = path.parent / "labels.npy"
    forget(path)
    with peak() as most:
        begun = time.perf_counter()
        model.predict(open_rows(path), out=labels)
        seconds = time.perf_counter() - begun
    labels.unlink()
    return {"seconds": seconds, "peak_bytes": most()}


def in_a_process(path: Path, n_clusters: int, n_threads: int) -> dict[str, float]:
    """`one_pass` in a process of its own, so that the memory is that of the pass."""
    asked = json.dumps([str(path), n_clusters, n_threads])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.out_of_core", "--one", asked],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    """See the top."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", help="where files are written, and removed afterwards; a temporary one by default")
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--format-rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5, help="of all formats, of which the median is taken")
    parser.add_argument("--clusters", type=int, nargs="*", default=[100, 1000])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--store", help="a JSON file for the results")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        path, n_clusters, n_threads = json.loads(asked.one)
        print(json.dumps(one_pass(Path(path), n_clusters, n_threads)))
        return
    home = Path(tempfile.mkdtemp(prefix="armillary-out-of-core-", dir=asked.folder))
    try:
        results = run(home, asked)
    finally:
        shutil.rmtree(home)
    if asked.store:
        Path(asked.store).write_text(json.dumps(results, indent=2) + "\n")


def run(home: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """All measurements, printed as they come."""
    results: dict[str, Any] = {
        "rows": asked.rows,
        "width": _WIDTH,
        "threads": asked.threads,
        "passes": [],
        "formats": [],
    }
    if asked.rows:
        path = home / "rows.npy"
        write_npy(path, asked.rows)
        size = path.stat().st_size
        print(f"{asked.rows:,} x {_WIDTH} float16, {size / 1e9:.1f} GB, {asked.threads} threads", flush=True)
        for n_clusters in asked.clusters:
            reading, bare = read_once(path), products(asked.rows, n_clusters, asked.threads)
            found = in_a_process(path, n_clusters, asked.threads)
            ratio = found["seconds"] / max(reading, bare)
            results["passes"].append({"K": n_clusters, "reading": reading, "products": bare, **found, "ratio": ratio})
            print(
                f"K = {n_clusters}: pass {found['seconds']:.1f} s, reading {reading:.1f} s "
                f"({size / reading / 1e9:.2f} GB/s), products {bare:.1f} s: {ratio:.2f} of the larger; peak of "
                f"anonymous memory {found['peak_bytes'] / 2**20:.0f} MiB",
                flush=True,
            )
        path.unlink()
    if asked.format_rows:
        forms: dict[str, Callable[[Path, int], None]] = {
            "rows.npy": write_npy,
            "rows.parquet": write_parquet,
            "rows.arrow": write_arrow,
            "dataset": write_saved_dataset,
        }
        n_clusters, times = min(asked.clusters), {name: list[float]() for name in forms}
        for name, write in forms.items():
            write(home / name, asked.format_rows)
        for _ in range(asked.rounds):  # in turn: what the system does with its memory differs from minute to minute
            for name, seconds in times.items():
                read_once(home / name)  # pages that a host has to find first are found for every format
                found = in_a_process(home / name, n_clusters, asked.threads)
                seconds.append(found["seconds"])
        for name, seconds in times.items():
            line = {"format": name, "rows": asked.format_rows, "K": n_clusters, "seconds": median(seconds)}
            results["formats"].append({**line, "all_seconds": seconds})
            told = " ".join(f"{one:.2f}" for one in seconds)
            print(f"{name}: {asked.format_rows:,} rows, K = {n_clusters}: {median(seconds):.2f} s ({told})", flush=True)
        slowest, quickest = (pick(one["seconds"] for one in results["formats"]) for pick in (max, min))
        print(f"formats within {slowest / quickest:.2f} of each other")
    return results


if __name__ == "__main__":
    main()
