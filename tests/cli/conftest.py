"""The command line run in this process, in a folder of its own."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from armillary.cli.app import run
from armillary.datasets import make_vmf_mixture
from armillary.kernels import jit


@dataclass
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def data(self):
        return json.loads(self.out)

    @property
    def sentence(self):
        """The one line of an error."""
        lines = [line for line in self.err.splitlines() if line.startswith("armillary: ")]
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err
        return lines[0].removeprefix("armillary: ")


@pytest.fixture
def cli(monkeypatch, capfd, tmp_path):
    """`cli("cluster", "rows.npy")` runs a command in `tmp_path`."""
    monkeypatch.setattr(jit.announcer, "has_spoken", True)  # what is said must not depend on what this machine has kept
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["armillary", *map(str, arguments)])
        capfd.readouterr()
        try:
            with pytest.raises(SystemExit) as ended:
                run()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        code = ended.value.code
        return Done(code if isinstance(code, int) else 0, *capfd.readouterr())

    return command


@pytest.fixture(scope="session")
def mixture():
    """600 vectors of 16 numbers in 5 clusters, and which."""
    X, truth, _ = make_vmf_mixture(600, 16, 5, concentration=80.0, min_angle=1.0, random_state=0, dtype=np.float32)
    return X, truth


@pytest.fixture
def rows_file(tmp_path, mixture):
    """The vectors of `mixture` as rows.npy, and the truth as truth.npy."""
    np.save(tmp_path / "rows.npy", mixture[0])
    np.save(tmp_path / "truth.npy", mixture[1])
    return tmp_path / "rows.npy"
