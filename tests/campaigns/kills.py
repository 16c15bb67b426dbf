"""Commands killed right before, right after or in the middle of every operation on files that they do.

A first run counts the operations: files made or opened for writing, written, brought to disk, cut, renamed, exchanged,
removed, locked and closed, folders made and removed. Each trial ends the process at one of them, as SQLite tests
itself. Trials 0, 1, 2, ... go through all of them, in an order that depends on the seed, and then again.
"""

from __future__ import annotations

import builtins
import fcntl
import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tests.campaigns import killed_commands
from tests.campaigns.campaign import main
from tests.campaigns.killed_commands import (
    COMMANDS,
    KILLED,
    Command,
    check_killed,
    check_recovered,
    completed,
    ended,
    fork,
    prepared,
    scene,
)

MOMENTS = ("before", "after", "torn")
# of module os; `open` is told by its flags
_OPERATIONS = ("rename", "replace", "unlink", "remove", "mkdir", "rmdir", "fsync", "close", "chmod", "link", "symlink")


class Shim:
    """Stands between this process and its files; ends the process at one operation."""

    def __init__(self, number: int = -1, moment: str = "") -> None:
        self.done: list[str] = []
        self._number, self._moment = number, moment

    def around(self, name: str, real: Callable[..., Any], half: Callable[[], object] | None = None) -> Any:
        """Do one operation, or end."""
        is_last = len(self.done) == self._number
        self.done.append(name)
        if is_last and self._moment == "before":
            os._exit(KILLED)
        if is_last and self._moment == "torn" and half is not None:
            half()
            os._exit(KILLED)
        try:
            return real()
        finally:
            if is_last:
                os._exit(KILLED)

    def install(self) -> None:
        """In place of the operations of this process, which is a fork and has no way back."""
        for name in _OPERATIONS:
            setattr(os, name, self._wrapped(name, getattr(os, name)))
        fcntl.flock = self._wrapped("flock", fcntl.flock)
        killed_commands.folders.exchange = self._wrapped("exchange", killed_commands.folders.exchange)
        real_open, real_write, real_cut = os.open, os.write, os.ftruncate

        def open_file(path: Any, flags: int, *rest: Any, **options: Any) -> int:
            if flags & os.O_CREAT:
                return self.around("open", lambda: real_open(path, flags, *rest, **options))
            return real_open(path, flags, *rest, **options)

        def write(descriptor: int, data: bytes) -> int:
            half = bytes(data)[: len(data) // 2]
            return self.around("write", lambda: real_write(descriptor, data), lambda: real_write(descriptor, half))

        os.open, os.write = open_file, write
        os.ftruncate = lambda *arguments: self.around("truncate", lambda: real_cut(*arguments))
        builtins.open = io.open = self._opener(io.open)

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **options: self.around(name, lambda: real(*arguments, **options))

    def _opener(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """`open` whose files for writing count what reaches the system, behind their buffers."""
        around = self.around

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                half = bytes(data)[: len(data) // 2]
                plain = super().write
                return around("write", lambda: plain(data), lambda: plain(half))

            def truncate(self, size: int | None = None) -> int:
                plain = super().truncate
                return around("truncate", lambda: plain(size))

            def close(self) -> None:
                plain = super().close
                if self.closed:
                    return
                around("close", plain)

        def opened(file: Any, mode: str = "r", buffering: int = -1, *words: Any, **options: Any) -> Any:
            if not set(mode) & set("wxa+"):
                return real(file, mode, buffering, *words, **options)
            plain = mode.replace("b", "").replace("t", "")
            raw = around("open", lambda: File(file, plain, opener=options.get("opener")))
            buffered: Any = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)
            if "b" in mode:
                return buffered
            named = {key: value for key, value in options.items() if key in ("encoding", "errors", "newline")}
            if words:
                named["encoding"] = words[0]
            return io.TextIOWrapper(buffered, **named)

        return opened


@dataclass(frozen=True)
class Kill:
    """One operation of one command, and the moment around it."""

    command: Command
    number: int
    operation: str
    moment: str


@cache
def operations(command: Command) -> tuple[str, ...]:
    """What a run of the command does to files, in order."""
    prepared(command)
    with scene(command) as folder:
        told = Path(f"{folder}.operations")

        def counted() -> None:
            shim = Shim()
            shim.install()
            command.do()
            text = json.dumps(shim.done)
            told.write_text(text)

        completed(counted, folder)
        return tuple(json.loads(told.read_text()))


@cache
def kills(commands: tuple[Command, ...] = COMMANDS) -> tuple[Kill, ...]:
    """Every operation of every command, with every moment that makes a difference."""
    return tuple(
        Kill(command, number, operation, moment)
        for command in commands
        for number, operation in enumerate(operations(command))
        for moment in MOMENTS
        if moment != "torn" or operation == "write"
    )


def suffer(kill: Kill) -> str:
    """Kill, look, run again, look again; a word for what the kill left."""
    found = prepared(kill.command)
    with scene(kill.command) as folder:

        def killed() -> None:
            Shim(kill.number, kill.moment).install()
            kill.command.do()

        code = ended(fork(killed, folder))
        assert code == KILLED, f"{kill}: exit code {code}: {Path(f'{folder}.said').read_text()[-2000:]}"
        try:
            word = check_killed(kill.command, folder, found)
            completed(kill.command.do, folder)
            check_recovered(folder, found)
        except AssertionError as error:
            where = f"{kill.command.name}, killed {kill.moment} {kill.operation} {kill.number}"
            raise AssertionError(f"{where}: {error}") from None
    return f"{kill.command.name}: {word}"


def trial(random: np.random.Generator) -> str:
    seed, number = random.bit_generator.seed_seq.entropy  # type: ignore[attr-defined]
    everything = kills()
    order = np.random.default_rng(seed).permutation(len(everything))
    return suffer(everything[order[number % len(everything)]])


if __name__ == "__main__":
    kills()  # once, before the processes of the campaign are forked
    main("kills", trial)
