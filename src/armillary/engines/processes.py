"""Workers that are processes of this machine: each a fresh interpreter, spoken to through its standard streams.

They are started when they are first asked, which takes a second or two of a core each, and wait between two calls that
work on the same rows. They are killed when the rows are closed or gone, and at once where a call ends with an error or
with Ctrl-C. A worker whose host went away reads the end of its input and ends, also in the middle of a pass. Nothing
listens on any port.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import IO

from armillary.engines.desk import NOTHING, Desk
from armillary.engines.executors import StationLostError

_LENGTH = struct.Struct("<Q")


class Processes:
    """One process for each part; those that wait for the next call are kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[ProcessStation] = []
        self._busy: list[ProcessStation] = []

    @property
    def pids(self) -> list[int]:
        """Numbers of the processes that there are."""
        return [station.pid for station in [*self._waiting, *self._busy] if station.pid is not None]

    @contextmanager
    def stations(self, n_parts: int) -> Iterator[Sequence[ProcessStation]]:
        """See `executors.Executor`. Another call at the same time has processes of its own."""
        with self._lock:
            stations = [self._waiting.pop() if self._waiting else ProcessStation() for _ in range(n_parts)]
            self._busy.extend(stations)
        kept: list[ProcessStation] = []
        try:
            yield stations
            for station in stations:
                station.rest()
            kept = stations
        finally:
            for station in stations if not kept else ():
                station.close()
            with self._lock:
                self._busy = [one for one in self._busy if one not in stations]
                self._waiting.extend(kept)

    def close(self) -> None:
        """End those that wait."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for station in waiting:
            station.close()


class ProcessStation:
    """A process, started when it is first asked, and once more after it was lost."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """The number of the process, where there is one."""
        return None if self._process is None else self._process.pid

    def ask(self, message: bytes) -> bytes:
        """The desk's answer."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _send(process.stdin, message)
            return _received(process.stdout)
        except (OSError, EOFError, ValueError) as error:
            self._end()
            raise StationLostError(f"process {process.pid} went away") from error

    def rest(self) -> None:
        """Hold nothing, and wait."""
        if self._process is not None:
            with suppress(StationLostError):
                self.ask(NOTHING)

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._is_closed:
                raise RuntimeError("These workers were closed.")
            if self._process is None:
                # paths as they are here, whoever set them; -P: the present folder is not one of them
                paths = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
                command = [sys.executable, "-P", "-m", "armillary.engines.processes"]
                self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=paths)
            return self._process

    def _end(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):  # what was not sent yet has nowhere to go
                        stream.close()

    def close(self) -> None:
        """End the process, whatever it does."""
        self._is_closed = True
        self._end()


def _send(stream: IO[bytes], message: bytes) -> None:
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def _received(stream: IO[bytes]) -> bytes:
    (length,) = _LENGTH.unpack(_read(stream, _LENGTH.size))
    return _read(stream, length)


def _read(stream: IO[bytes], length: int) -> bytes:
    found = stream.read(length)
    if len(found) < length:
        raise EOFError
    return found


def serve() -> None:
    """The life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the host's, which ends its workers
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what some library prints is no answer
    messages: SimpleQueue[bytes] = SimpleQueue()

    def listen() -> None:
        try:
            while True:
                messages.put(_received(sys.stdin.buffer))
        except (OSError, EOFError):
            os._exit(0)  # the host went away; nothing here is worth finishing

    threading.Thread(target=listen, daemon=True).start()
    desk = Desk()
    while True:
        _send(answers, desk.answer(messages.get()))


if __name__ == "__main__":
    serve()
