"""An hour of the identity service under a steady load: is it flat in memory and latency?

    python -m benchmarks.service_hour            # into benchmarks/results/service_hour.json
    python -m benchmarks.service_hour --minutes 2 --rate 1000

Four clients send batches of 32 under keys at a fixed rate; every 20th request is a lookup and every 200th names an id,
so that reads, events and corrections are in it, and snapshots come as they do. Each minute has a line: latency of adds,
commits, memory of the server, its CPU, and how busy the machine was, since others may work on it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from armillary.datasets import make_vmf_mixture
from benchmarks.service import N_FEATURES, N_PEOPLE, Server, fsync_milliseconds

RESULTS = Path(__file__).parent / "results" / "service_hour.json"
N_CLIENTS, BATCH = 4, 32


class Clients:
    """Threads that send at a fixed rate; what each request took, by minute."""

    def __init__(self, server: Server, X: np.ndarray, rate: float, minutes: float) -> None:
        self._server, self._X = server, X
        self._pause = N_CLIENTS * BATCH / rate
        self._began = time.perf_counter()
        self._end = self._began + 60.0 * minutes
        self._taken: list[list[tuple[float, float]]] = [[] for _ in range(N_CLIENTS)]
        self.threads = [threading.Thread(target=self._work, args=(number,)) for number in range(N_CLIENTS)]
        for thread in self.threads:
            thread.start()

    def _work(self, number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
        generator = np.random.default_rng(number)
        here = "/v1/collections/hour"
        body = f"?dtype=float32&dimension={self._X.shape[1]}"
        raw, words = {"content-type": "application/octet-stream"}, {"content-type": "application/json"}
        due, sent = self._began + self._pause * number / N_CLIENTS, 0

        def ask(method: str, path: str, content: bytes, headers: dict[str, str]) -> None:
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, (path, answer.status)

        while (now := time.perf_counter()) < self._end:
            if now < due:
                time.sleep(due - now)
            sent += 1
            start = int(generator.integers(len(self._X) - BATCH + 1))
            rows = self._X[start : start + BATCH].tobytes()
            began = time.perf_counter()
            ask("POST", f"{here}/vectors{body}", rows, {**raw, "idempotency-key": f"{number}-{sent}"})
            done = time.perf_counter()
            self._taken[number].append((done - self._began, done - began))
            if sent % 20 == 0:
                ask("POST", f"{here}/lookup{body}", rows, raw)
            if sent % 200 == 0:
                ask("PUT", f"{here}/ids/{number}/name", json.dumps({"name": f"name {sent}"}).encode(), words)
            due += self._pause

    def milliseconds(self, minute: int) -> np.ndarray:
        """What adds of one minute took."""
        found = [s for taken in self._taken for at, s in list(taken) if 60 * minute <= at < 60 * (minute + 1)]
        return 1000.0 * np.array(found)


def minutes_of(server: Server, clients: Clients) -> list[dict[str, Any]]:
    """A line for each whole minute."""
    lines: list[dict[str, Any]] = []
    began, cpu = time.perf_counter(), server.cpu_seconds()
    while any(thread.is_alive() for thread in clients.threads):
        time.sleep(max(0.0, began + 60.0 * (len(lines) + 1) - time.perf_counter()))
        taken, used = clients.milliseconds(len(lines)), server.cpu_seconds()
        if len(taken) < 10:
            break
        details = server.ask("GET", "/v1/collections/hour")
        lines.append(
            {
                "minute": len(lines) + 1,
                "vectors": details["vectors"],
                "ids": details["ids"],
                "p50_ms": round(float(np.median(taken)), 2),
                "p99_ms": round(float(np.quantile(taken, 0.99)), 2),
                "most_ms": round(float(taken.max()), 1),
                "commit_ms": details["commit_milliseconds"],
                "server_mb": round(server.megabytes(), 1),
                "server_cpu_share": round((used - cpu) / 60.0, 4),
                "load": round(os.getloadavg()[0], 1),
            }
        )
        cpu = used
        print(json.dumps(lines[-1]), flush=True)
    return lines


def trends(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Means of thirds of the run, after the first tenth; rank correlations of latency with time and with load."""
    rest = lines[len(lines) // 10 :]
    thirds = np.array_split(np.arange(len(rest)), 3)

    def means(field: str) -> list[float]:
        return [round(float(np.mean([rest[place][field] for place in third])), 2) for third in thirds if len(third)]

    found: dict[str, Any] = {
        field: means(field) for field in ("server_mb", "p50_ms", "p99_ms", "server_cpu_share", "load")
    }
    for field in ("minute", "load"):
        given = [line[field] for line in rest], [line["p50_ms"] for line in rest]
        found[f"p50_with_{field}"] = round(float(spearmanr(*given).statistic), 2)
    return found


def main() -> None:
    """Run, print and store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service_hour")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=300.0, help="vectors a second")
    parser.add_argument("--folder", default=None, help="a folder on the disk to measure")
    options = parser.parse_args()
    X, _, _ = make_vmf_mixture(20_000, N_FEATURES, N_PEOPLE, concentration=600.0, random_state=0)
    with tempfile.TemporaryDirectory(dir=options.folder) as home:
        record: dict[str, Any] = {
            "command": " ".join(["python -m benchmarks.service_hour", *sys.argv[1:]]),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, shared with other work: see load",
            "clients": N_CLIENTS,
            "batch": BATCH,
            "rate": options.rate,
            "fsync_ms_before": fsync_milliseconds(Path(home)),
        }
        server = Server(Path(home, "data"), None)
        server.ask("POST", "/v1/collections", json.dumps({"name": "hour"}).encode())
        record["minutes"] = minutes_of(server, Clients(server, X.astype(np.float32), options.rate, options.minutes))
        record["thirds"] = trends(record["minutes"])
        record["fsync_ms_after"] = fsync_milliseconds(Path(home))
        server.end()
    print(json.dumps(record["thirds"]))
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
