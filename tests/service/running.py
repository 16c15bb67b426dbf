"""A server in a process of its own, killed and started again; the shim that kills it at one of its writes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import httpx
import numpy as np

from armillary import Links
from armillary.client import Client

SOURCE = Path(__file__).with_name("killing.c")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Running:
    """`armillary serve` over a folder."""

    def __init__(self, folder, *flags, no_auth=True, **environment):
        self.folder, self.flags, self.environment = folder, flags, environment
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.no_auth = no_auth
        self.start()

    def start(self, **environment):
        command = [sys.executable, "-m", "armillary", "serve", "--data", str(self.folder), "--port", str(self.port)]
        command += [*self.flags, *(["--no-auth"] if self.no_auth else [])]
        self.log = self.folder.with_suffix(".log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, "ARMILLARY_MIN_FREE_BYTES": "0", **self.environment, **environment},
                stderr=log,
                stdout=log,
            )

    def wait(self, seconds=120.0):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                return False
            try:
                if httpx.get(f"{self.url}/readyz", timeout=5.0).status_code == 200:
                    return True
            except httpx.TransportError:
                time.sleep(0.05)
        raise TimeoutError(self.log.read_text()[-2000:])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@cache
def shim():
    """A library that kills a process at its nth write or fsync below a folder; None where nothing compiles it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    built = Path(os.environ.get("TMPDIR", "/tmp")) / f"armillary-killing-{os.getuid()}-{os.getpid()}.so"
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(built), str(SOURCE), "-ldl"], capture_output=True, check=False
    )
    return built if done.returncode == 0 else None


def feed(running, X, acknowledged, *, batch=3, name="people"):
    """Send batches under keys until all are answered or the server dies; what was answered is noted."""
    with Client(running.url, n_tries=1, timeout=20.0) as client:
        for start in range(0, len(X), batch):
            if start in acknowledged:
                continue
            try:
                ids = client.collection(name).add(X[start : start + batch], key=f"row {start}")
            except httpx.TransportError:
                return False
            acknowledged[start] = ids.tolist()
    return True


def check_whole(running, X, acknowledged, *, batch=3, name="people"):
    """All ids are those of the library, those that were answered before a kill too, and keys give them again."""
    expected = Links().fit_predict(X)
    with Client(running.url) as client:
        for start in range(0, len(X), batch):
            again = client.collection(name).add(X[start : start + batch], key=f"row {start}")
            assert again.tolist() == expected[start : start + batch].tolist(), start
            assert acknowledged.get(start, again.tolist()) == again.tolist(), start
        details = client.collection(name).details()
        assert details["vectors"] == len(X)
        assert details["next_id"] == len(np.unique(expected))
        numbers = [event["number"] for event in client.collection(name).events()]
        assert numbers == list(range(1, len(numbers) + 1))
