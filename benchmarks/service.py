"""The identity service under load: durable vectors a second, latencies, and one face more among a million.

    python -m benchmarks.service            # everything, into benchmarks/results/service.json
    python -m benchmarks.service --only faces --faces 100000

Clients are threads of one process that send plain float32 and wait for each answer, which comes after its fsync. They
begin before the clock does. The fsync of the same disk is measured before and after, since it decides; a folder in
memory shows what the server costs by itself. A server alone on one core has its clients on the others.
What a machine shared with others gives is a ratio, not a promise.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from armillary import Links
from armillary.datasets import make_vmf_mixture
from armillary.service.collection import Limits
from armillary.service.house import House
from armillary.service.identities import Identities
from armillary.service.operations import ADD, Operation

RESULTS = Path(__file__).parent / "results" / "service.json"
N_CLIENTS, N_FEATURES, N_PEOPLE = 8, 128, 200
_WARM_SECONDS = 2.0
_PARTS = ("loads", "seconds_each", "one_more_face", "beside_snapshots")


def fsync_milliseconds(folder: Path, n: int = 50) -> dict[str, float]:
    """What one fsync of 16 KiB costs there."""
    taken = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(n):
            file.write(bytes(16_384))
            file.flush()
            started = time.perf_counter()
            os.fsync(file.fileno())
            taken.append(1000.0 * (time.perf_counter() - started))
    return {"p50": round(float(np.median(taken)), 3), "p99": round(float(np.quantile(taken, 0.99)), 3)}


class Server:
    """`armillary serve` in a process of its own, on some cores."""

    def __init__(self, folder: Path, cores: str | None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [
            sys.executable,
            "-m",
            "armillary",
            "serve",
            "--no-auth",
            "--data",
            str(folder),
            "--port",
            str(self.port),
        ]
        if cores is not None:
            command = ["taskset", "-c", cores, *command]
        environment = {**os.environ, "ARMILLARY_LOG_LEVEL": "warning"}
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        while True:
            try:
                self.ask("GET", "/readyz")
                return
            except OSError:
                time.sleep(0.1)

    def ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        """One request of JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, {"content-type": "application/json"})
        content = connection.getresponse().read()
        connection.close()
        return json.loads(content)

    def cpu_seconds(self) -> float:
        """What it has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        """What it holds in memory."""
        line = next(
            line for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines() if "VmRSS" in line
        )
        return int(line.split()[1]) / 1024

    def end(self) -> None:
        """Ask it to end, and wait."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def load(server: Server, X: np.ndarray, batch: int, seconds: float, rate: float | None) -> dict[str, Any]:
    """Eight clients for some seconds; `rate` vectors a second in all, or as fast as answers come."""
    name = f"c{batch}-{time.monotonic_ns()}"
    server.ask("POST", "/v1/collections", json.dumps({"name": name}).encode())
    _asked(server, X, name, batch, _WARM_SECONDS, rate)
    return _asked(server, X, name, batch, seconds, rate)


def _asked(server: Server, X: np.ndarray, name: str, batch: int, seconds: float, rate: float | None) -> dict[str, Any]:
    path = f"/v1/collections/{name}/vectors?dtype=float32&dimension={X.shape[1]}"
    taken: list[list[float]] = [[] for _ in range(N_CLIENTS)]
    end = time.perf_counter() + seconds

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        generator = np.random.default_rng(number)
        headers = {"content-type": "application/octet-stream"}
        pause = None if rate is None else N_CLIENTS * batch / rate
        due = time.perf_counter() + (0.0 if pause is None else pause * number / N_CLIENTS)
        sent = 0
        while (now := time.perf_counter()) < end:
            if pause is not None and now < due:
                time.sleep(due - now)
            start = int(generator.integers(len(X) - batch + 1))
            sent += 1
            began = time.perf_counter()
            key = {"idempotency-key": f"{number}-{sent}-{end}"}
            connection.request("POST", path, X[start : start + batch].tobytes(), {**headers, **key})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
            taken[number].append(time.perf_counter() - began)
            due += pause or 0.0

    cpu, began = server.cpu_seconds(), time.perf_counter()
    threads = [threading.Thread(target=client, args=(number,)) for number in range(N_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    passed = time.perf_counter() - began
    details = server.ask("GET", f"/v1/collections/{name}")
    milliseconds = 1000.0 * np.concatenate(taken)
    n_vectors = batch * len(milliseconds)
    return {
        "batch": batch,
        "clients": N_CLIENTS,
        "asked_rate": rate,
        "vectors_per_second": round(n_vectors / passed, 1),
        "p50_ms": round(float(np.median(milliseconds)), 2),
        "p99_ms": round(float(np.quantile(milliseconds, 0.99)), 2),
        "commit_ms": details["commit_milliseconds"],
        "server_cpu_us_per_vector": round(1e6 * (server.cpu_seconds() - cpu) / n_vectors, 1),
        "server_mb": round(server.megabytes(), 1),
    }


def one_more_face(n_faces: int, n_features: int) -> dict[str, Any]:
    """Server time without fsync of one face more; 8 sub-clusters for each of n_faces / 100 people."""
    n_people, n_parts = n_faces // 100, 8
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(n_people, n_features)).astype(np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)

    def faces(chosen: np.ndarray, spread: float) -> np.ndarray:
        rows = centres[chosen] + spread * generator.normal(size=(len(chosen), n_features)).astype(np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    spread = 0.45 / np.sqrt(n_features)
    model = Links(0.75, 0.88, 0.9)
    began = time.perf_counter()
    # each sub-cluster as one vector of weight 12.5: the same arrays as a million vectors leave, without learning each
    model.partial_fit(
        faces(np.repeat(np.arange(n_people), n_parts), spread), sample_weight=np.full(n_people * n_parts, 12.5)
    )
    built = time.perf_counter() - began
    state = Identities(model)
    fresh = faces(generator.integers(0, n_people, 60), spread)
    taken = []
    for place in range(len(fresh)):
        started = time.thread_time()
        state.apply(place + 1, 0.0, Operation(ADD, {}, fresh[place : place + 1]))
        taken.append(1000.0 * (time.thread_time() - started))
    photos = photo_milliseconds(state, faces, spread, n_people)
    bare = []
    centroids = model.resultants_.astype(np.float32)
    for row in fresh[:20]:
        started = time.thread_time()
        _ = centroids @ row
        bare.append(1000.0 * (time.thread_time() - started))
    return {
        "faces": n_faces,
        "people": n_people,
        "columns": n_features,
        "subclusters": int(model.n_subclusters_),
        "ids": int(model.n_clusters_),
        "add_ms_cpu_p50": round(float(np.median(taken)), 3),
        **photos,
        "bare_product_ms_cpu_p50": round(float(np.median(bare)), 3),
        "state_mb": round(12.0 * model.n_subclusters_ * n_features / 1e6, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "built_s": round(built, 1),
        "load": round(os.getloadavg()[0], 1),
    }


def photo_milliseconds(state: Identities, faces: Any, spread: float, n_people: int) -> dict[str, Any]:
    """A face of a photo of four, where every person has a name and 200,000 pairs were seen in one photo."""
    model, generator = state.model, np.random.default_rng(1)
    ids = state.ids_now()
    model._set_names({int(number): f"person {number}" for number in ids[:10_000]})  # request by request takes a minute
    pairs = np.sort(generator.choice(ids, (200_000, 2)), axis=1)
    model._apart = np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0)
    taken = []
    for photo in range(20):
        rows = faces(generator.choice(n_people, 4, replace=False), spread)
        started = time.thread_time()
        state.apply(state.seq + 1, 0.0, Operation(ADD, {"frames": [f"photo {photo}"] * 4}, rows))
        taken.append(1000.0 * (time.thread_time() - started) / 4)
    n_apart = len(model._apart)
    return {
        "face_in_photo_ms_cpu_p50": round(float(np.median(taken)), 3),
        "names": len(model.names),
        "pairs_apart": n_apart,
    }


def beside_snapshots(n_frames: int = 100_000, n_adds: int = 1200, every: int = 400) -> dict[str, Any]:
    """Answers to single vectors while snapshots are taken of a collection that remembers so many photos."""
    X = np.random.default_rng(0).normal(size=(n_adds, 32)).astype(np.float32)
    taken = []
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as home:
        house = House(Path(home), Limits(snapshot_vectors=every, min_free_bytes=0))
        room = house.create("photos", {"class": "Links"})
        room.do(Operation(ADD, {}, X[:50]))
        room.identities.frames.update((f"photo {one}", (one % 50, (one + 1) % 50)) for one in range(n_frames))
        for row in range(n_adds):
            started = time.perf_counter()
            room.do(Operation(ADD, {}, X[row : row + 1]))
            taken.append(1000.0 * (time.perf_counter() - started))
            time.sleep(0.002)
        house.close()
    worst = np.sort(taken)[-3:]
    return {
        "frames": n_frames, "adds": n_adds, "snapshots": n_adds // every, "p50_ms": round(float(np.median(taken)), 2),
        "worst_ms": np.round(worst[::-1], 1).tolist(), "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--faces", type=int, default=1_000_000)
    parser.add_argument("--widths", type=int, nargs="+", default=[128, 512], help="of faces; others stay as stored")
    parser.add_argument("--only", choices=("loads", "faces", "snapshots"), help="the rest stays as it is stored")
    parser.add_argument("--folder", default=None, help="a folder on the disk to measure; also measured: memory")
    options = parser.parse_args()
    X, _, _ = make_vmf_mixture(20_000, N_FEATURES, N_PEOPLE, concentration=600.0, random_state=0)
    X = X.astype(np.float32)
    record: dict[str, Any] = json.loads(RESULTS.read_text()) if options.only and RESULTS.exists() else {}
    record = {name: record[name] for name in _PARTS if name in record}
    record["command"] = "python -m benchmarks.service"
    record["machine"] = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start"
    if options.only in (None, "loads"):
        record["loads"] = loads(options, X)
        record["seconds_each"] = options.seconds
    if options.only in (None, "snapshots"):
        record["beside_snapshots"] = beside_snapshots()
        print(json.dumps(record["beside_snapshots"]), flush=True)
    if options.only in (None, "faces"):
        known = {line["columns"]: line for line in record.get("one_more_face", [])}
        known |= {width: one_more_face(options.faces, width) for width in options.widths}
        record["one_more_face"] = [known[width] for width in sorted(known)]
        print(json.dumps(record["one_more_face"]), flush=True)
    record["load_at_end"] = round(os.getloadavg()[0], 1)
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")


def loads(options: argparse.Namespace, X: np.ndarray) -> list[dict[str, Any]]:
    """A line for each place, each number of cores of the server and each way of asking."""
    lines = []
    places = [("disk", options.folder)] + ([("memory", "/dev/shm")] if Path("/dev/shm").is_dir() else [])
    every = os.sched_getaffinity(0)
    for title, folder in places:
        for cores in (None, min(every)):
            with tempfile.TemporaryDirectory(dir=folder) as home:
                server = Server(Path(home, "data"), None if cores is None else str(cores))
                os.sched_setaffinity(0, every if cores is None else (every - {cores} or every))
                for batch, rate in ((1, None), (32, None), (256, None), (32, 2000.0)):
                    before, load_before = fsync_milliseconds(Path(home)), os.getloadavg()[0]
                    found = load(server, X, batch, options.seconds, rate)
                    fsync = [before, fsync_milliseconds(Path(home))]
                    mean = {name: round(float(np.mean([one[name] for one in fsync])), 3) for name in before}
                    ratio = {"p99_in_fsyncs": round(found["p99_ms"] / mean["p50"], 1)} if title == "disk" else {}
                    where = {"place": title, "server_cores": "one" if cores is not None else "all", "fsync_ms": mean}
                    lines.append({**where, **found, **ratio, "load": round(load_before, 1)})
                    print(json.dumps(lines[-1]), flush=True)
                server.end()
                os.sched_setaffinity(0, every)
    return lines


if __name__ == "__main__":
    main()
