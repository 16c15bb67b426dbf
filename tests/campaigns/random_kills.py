"""Commands killed by the system at random moments: SIGKILL, once or several times in a row, with and without a rival.

A rival is the same command started at the same moment. Where both would work on one state or one folder, one of them is
refused with a sentence, or begins when the other is done or dead; either way what comes out is what one run leaves.
"""

from __future__ import annotations

import os
import signal
import time
from functools import cache
from pathlib import Path

import numpy as np
from tests.campaigns import killed_commands as killed
from tests.campaigns.campaign import main
from tests.campaigns.killed_commands import COMMANDS, Command

_REPEATS = 4  # of the rows: some dozens of checkpoints
_REFUSED = 2  # the exit code


@cache
def seconds_of(command: Command) -> float:
    """How long the command takes when it is left alone."""
    killed.prepared(command, _REPEATS)
    with killed.scene(command, _REPEATS) as folder:
        begin = time.monotonic()
        killed.completed(command.do, folder)
        return time.monotonic() - begin


def trial(random: np.random.Generator) -> str:
    return suffer(COMMANDS[random.integers(len(COMMANDS))], random)


def suffer(command: Command, random: np.random.Generator) -> str:
    """Kill up to three times, look each time, run once more to the end, look again."""
    has_rival, n_kills = bool(random.random() < 0.3), int(random.integers(1, 4))
    found = killed.prepared(command, _REPEATS)
    codes = []
    with killed.scene(command, _REPEATS) as folder:
        for _ in range(n_kills):
            wait = 1.1 * random.random() * seconds_of(command)
            codes.append(_killed(command, folder, wait, has_rival=has_rival))
            killed.check_killed(command, folder, found)
        killed.completed(command.do, folder)
        killed.check_recovered(folder, found)
    return f"{command.name}{' with a rival' if has_rival else ''}: {codes.count(-signal.SIGKILL)} kills"


def _killed(command: Command, folder: Path, wait: float, *, has_rival: bool) -> int:
    """Start the command and kill it after `wait` seconds; the exit code, if it had ended by then."""
    child = killed.fork(command.do, folder)
    rival = killed.fork(command.do, folder) if has_rival else None
    time.sleep(wait)
    os.kill(child, signal.SIGKILL)
    code = killed.ended(child)
    if rival is not None:
        other = killed.ended(rival)
        assert other in (0, _REFUSED), f"the rival ended with {other}: {_said(folder)}"
        if _REFUSED in (code, other):
            assert "must not be used by two runs at once" in _said(folder), _said(folder)
    assert code in (0, _REFUSED if has_rival else 0, -signal.SIGKILL), f"exit code {code}: {_said(folder)}"
    return code


def _said(folder: Path) -> str:
    return Path(f"{folder}.said").read_text()[-2000:]


if __name__ == "__main__":
    for one in COMMANDS:
        killed.prepared(one, _REPEATS)  # once, before the processes of the campaign are forked
    main("random_kills", trial)
