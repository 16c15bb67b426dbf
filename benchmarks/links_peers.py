"""Online peers of Links that live in an environment of their own, served by `links_worker.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import workloads

INSTALLED = ("linkscluster==0.1.0", "river==0.26.1")


class Run(NamedTuple):
    """One stream: answers, seconds in all and for each vector, sub-clusters at the end."""

    ids: np.ndarray
    seconds: float
    times: np.ndarray
    n_subclusters: int


class Peers:
    """linkscluster and river's DBSTREAM. OSError or CalledProcessError where they cannot be installed."""

    def __init__(self, n_threads: int) -> None:
        python = _environment()
        environ = os.environ | {name: str(n_threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        worker = Path(__file__).with_name("links_worker.py")
        self._process = subprocess.Popen(
            [python, worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
        )

    def run(self, peer: str, rows: Path, parameters: Any, n_rows: int | None = None) -> Run:
        """A stream of the first `n_rows` vectors stored at a path."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        ids, times = workloads.FOLDER / "links-ids.npy", workloads.FOLDER / "links-times.npy"
        request = {"peer": peer, "rows": str(rows), "parameters": parameters, "ids": str(ids), "times": str(times)}
        self._process.stdin.write(json.dumps(request | {"n_rows": n_rows}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{peer} broke off; its traceback is above")
        reply = json.loads(line)
        return Run(np.load(ids), reply["seconds"], np.load(times), reply["n_subclusters"])

    def close(self) -> None:
        """End the worker."""
        self._process.communicate()


def _environment() -> Path:
    """The interpreter of the environment, made where it is missing."""
    folder = workloads.FOLDER / "venv-links-peers"
    python, is_done = folder / "bin" / "python", folder / "installed"
    if not is_done.exists():
        workloads.FOLDER.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *INSTALLED]
        subprocess.run(install, check=True, capture_output=True)
        is_done.touch()
    return python
