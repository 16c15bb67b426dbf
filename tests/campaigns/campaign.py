"""What campaigns share: numbered trials in a process of their own, until a number or a time is up, and a record.

A trial is a function of one generator. It returns a word for what came out ("answer", "sentence", ...), or where it
makes several calls a count of such words, and raises where something came out that must not. Trial n of seed s is
always the same, so each fault can be looked at alone:

    python -m tests.campaigns.calls --seed 7 --only 1234

Trials run in child processes: one that crashes, or says nothing for `patience` seconds, is a fault like any other, and
the campaign goes on after it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

Trial = Callable[[np.random.Generator], str | Counter[str]]

RESULTS = Path(__file__).parent / "results"
_MOST_FAULTS = 20  # told in full; the others are counted


@dataclass
class Record:
    """What a campaign found."""

    campaign: str
    seed: int
    n_trials: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    n_faults: int = 0
    faults: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    def add_fault(self, number: int, what: str) -> None:
        """A trial that must not have ended so."""
        self.n_trials += 1
        self.n_faults += 1
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append({"seed": self.seed, "trial": number, "what": what})

    def summary(self) -> dict[str, Any]:
        """As it is stored: what was run, and what came out."""
        return {
            "campaign": self.campaign,
            "seed": self.seed,
            "trials": self.n_trials,
            "outcomes": dict(sorted(self.outcomes.items())),
            "faults": self.n_faults,
            "first_faults": self.faults,
            "seconds": round(self.seconds, 1),
        }


def run(
    name: str,
    trial: Trial,
    *,
    seed: int,
    trials: int | None = None,
    seconds: float | None = None,
    processes: int = 1,
    patience: float = 120.0,
) -> Record:
    """Trials 0, 1, 2, ... until `trials` are done or `seconds` have passed."""
    if trials is None and seconds is None:
        raise ValueError("say how many trials, or how many seconds")
    record = Record(name, seed)
    began = time.monotonic()
    end = None if seconds is None else began + seconds
    children = [_Child(trial, seed, start, processes, trials, end) for start in range(processes)]
    while children:
        ready = wait([child.connection for child in children], timeout=1.0)
        for child in list(children):
            if child.connection in ready:
                child.listen(record)
            elif time.monotonic() - child.heard > patience:
                child.end(record, f"hangs: nothing heard for {patience:g} s")
            if child.is_done:
                children.remove(child)
    record.seconds = time.monotonic() - began
    return record


class _Child:
    """A process that does every `step`-th trial, started again after one that ended it."""

    def __init__(self, trial: Trial, seed: int, start: int, step: int, trials: int | None, end: float | None) -> None:
        self._plan = trial, seed, step, trials, end
        self._number = start
        self.is_done = False
        self._start(start)

    def _start(self, number: int) -> None:
        context = mp.get_context("fork")
        self.connection, theirs = context.Pipe(duplex=False)
        trial, seed, step, trials, end = self._plan
        self._process = context.Process(target=_work, args=(theirs, trial, seed, number, step, trials, end))
        self._process.start()
        theirs.close()
        self.heard = time.monotonic()

    def listen(self, record: Record) -> None:
        self.heard = time.monotonic()
        try:
            word, number, what = self.connection.recv()
        except EOFError:
            self._process.join()
            self.end(record, f"crashes: exit code {self._process.exitcode}")
            return
        self._number = number
        if word == "end":
            record.n_trials += 1
            record.outcomes.update([what] if isinstance(what, str) else what)
        elif word == "fault":
            record.add_fault(number, what)
        elif word == "done":
            self._process.join()
            self.is_done = True

    def end(self, record: Record, why: str) -> None:
        """The trial at hand is a fault; the next one begins in a new process."""
        self._process.kill()
        self._process.join()
        record.add_fault(self._number, why)
        self._number += self._plan[2]
        self._start(self._number)


def _work(
    connection: Connection, trial: Trial, seed: int, number: int, step: int, trials: int | None, end: float | None
) -> None:
    while (trials is None or number < trials) and (end is None or time.monotonic() < end):
        connection.send(("begin", number, ""))
        try:
            connection.send(("end", number, trial(generator(seed, number))))
        except Exception:
            connection.send(("fault", number, traceback.format_exc(limit=-12)))
        number += step
    connection.send(("done", number, ""))


def generator(seed: int, number: int) -> np.random.Generator:
    """The generator of one trial."""
    return np.random.default_rng([seed, number])


def assert_clean(record: Record) -> None:
    """No fault, and something was tried."""
    assert record.n_trials > 0, f"{record.campaign} tried nothing"
    assert record.n_faults == 0, json.dumps(record.summary(), indent=2)


def clean_run(name: str, *, seed: int, trials: int) -> Counter[str]:
    """What came out of a campaign, which must have no fault, in a new interpreter.

    A process of tests cannot be forked for every campaign: the threads of Polars, say, do not survive it.
    """
    command = [sys.executable, "-m", f"tests.campaigns.{name}", "--seed", str(seed), "--trials", str(trials)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["trials"] == trials
    return Counter(found["outcomes"])


def main(name: str, trial: Trial) -> None:
    """The command line of a campaign: run it, print what came out, and add it to its stored results if asked to."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.campaigns.{name}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--patience", type=float, default=120.0, help="seconds after which a silent trial hangs")
    parser.add_argument("--only", type=int, help="one trial, in this process")
    parser.add_argument("--store", action="store_true", help=f"add the record to {RESULTS.name}/{name}.json")
    options = parser.parse_args()
    if options.only is not None:
        print(trial(generator(options.seed, options.only)))
        return
    minutes = 1.0 if options.minutes is None and options.trials is None else options.minutes
    record = run(
        name,
        trial,
        seed=options.seed,
        trials=options.trials,
        seconds=None if minutes is None else 60.0 * minutes,
        processes=options.processes,
        patience=options.patience,
    )
    print(json.dumps(record.summary(), indent=2))
    if options.store:
        store(record)
    raise SystemExit(1 if record.n_faults else 0)


def _commit() -> str:
    """The sources that were run; empty outside a checkout."""
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=RESULTS, capture_output=True, text=True)
    return asked.stdout.strip()


def store(record: Record) -> None:
    """Add a record to the stored results of its campaign, one entry for each seed."""
    path = RESULTS / f"{record.campaign}.json"
    stored = json.loads(path.read_text()) if path.exists() else []
    kept = [entry for entry in stored if entry["seed"] != record.seed]
    kept.append({**record.summary(), "commit": _commit()})
    text = json.dumps(sorted(kept, key=lambda entry: entry["seed"]), indent=2)
    for folder in (Path(__file__).parents[2], Path(sys.prefix), Path(sys.base_prefix)):  # of this machine
        text = text.replace(f"{folder}/", "")
    path.write_text(text + "\n")
