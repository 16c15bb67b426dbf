"""The one protocol of workers, whoever starts them: a part has a station, and a station answers bytes with bytes.

Adapters are thin: processes of this machine (`processes.py`), Dask (`dask.py`) and Ray (`ray.py`). What is asked is the
same for all (`remote.py`, `desk.py`), so there is one algorithm.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, TypeVar

from armillary.engines.desk import Desk
from armillary.exceptions import ArmillaryError

T = TypeVar("T")


class StationLostError(Exception):
    """A worker went away before it answered."""


class WorkersLostError(ArmillaryError, RuntimeError):
    """Workers went away again and again, or all of them."""


class Station(Protocol):
    """The way to the desk of one part."""

    def ask(self, message: bytes) -> bytes:
        """The desk's answer; raises `StationLostError` where the worker went away.

        The next call then goes to a new, empty desk, or raises another error where no worker is left.
        """


class Executor(Protocol):
    """Workers that hold parts."""

    def stations(self, n_parts: int) -> AbstractContextManager[Sequence[Station]]:
        """One for each part; whatever they hold is gone after the context, also after Ctrl-C."""


class Answers(Protocol):
    """What parts answered, kept for a fit that is started again."""

    @property
    def n_parts(self) -> int:
        """Parts of the fit."""

    def recalled(self, part: int, method: str) -> tuple[bool, Any]:
        """Whether the next answer of a part is known, and that answer."""

    def note(self, part: int, method: str, value: Any) -> None:
        """Keep an answer of a part."""

    def refuse(self, what: str) -> NoReturn:
        """Say that these answers are of another fit, which differs in this."""


class Journal(Protocol):
    """Where answers are kept."""

    def answers(self, fit: dict[str, Any], n_parts: int) -> AbstractContextManager[Answers]:
        """Those of a fit that is told by `fit`; `n_parts` where it begins here."""


@dataclass
class Traffic:
    """What went over the way, counted."""

    n_messages: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    n_lost: int = 0  # workers that went away and whose part was made anew
    by_method: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # messages, bytes out, bytes in
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def count(self, method: str, n_out: int, n_in: int) -> None:
        """One message and its answer."""
        with self._lock:
            self.n_messages += 1
            self.bytes_out += n_out
            self.bytes_in += n_in
            before = self.by_method.get(method, (0, 0, 0))
            self.by_method[method] = before[0] + 1, before[1] + n_out, before[2] + n_in

    def lose(self) -> None:
        """One worker was lost."""
        with self._lock:
            self.n_lost += 1


class Here:
    """A station in this process."""

    def __init__(self, given: Any = None) -> None:
        self._desk, self._given = Desk(), given
        self._lock, self._is_over = threading.Lock(), False

    def ask(self, message: bytes) -> bytes:
        """The desk's answer."""
        with self._lock:
            if self._is_over:  # another part failed: nothing may be opened any more
                raise StationLostError
            return self._desk.answer(message, lambda: self._given)

    def close(self) -> None:
        """Let go of everything, once what is being answered is."""
        with self._lock:
            self._is_over = True
            self._desk.close()


class SideBySide:
    """Asks all parts at once: a thread waits for each. Of several errors the first part's is raised."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    def __call__(self, task: Callable[[int, Any], T], parts: Sequence[Any]) -> list[T]:
        """See `partitioned.Run`."""
        if len(parts) == 1:
            return [task(0, parts[0])]
        return list(self._pool.map(task, range(len(parts)), parts))
