"""A worker's side of a part: objects on a shelf, and one answer to each message.

A message is bytes: commands in the order in which they are to be done. A command calls a method of something on the
shelf; what comes of it goes home, or stays on the shelf under a number that the host gave (labels, columns, passes).
Nothing here knows how messages travel (`executors.py`), and nothing is kept but what lies beside the rows.

A message has a number. The last one is answered once more where it comes twice, and a desk that has not heard those
before it says so (`Unknown`): it is new in the place of one that was lost, and gets the history of what it must hold.
"""

from __future__ import annotations

import io
import pickle
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from armillary.engines.cpu_column import Masses
from armillary.engines.partitioned import PartedPoints

# What is not there: a desk without the history of a part.
UNKNOWN = b"unknown"


def _nothing() -> None:
    """No rows lie at the worker."""


class Opening(Protocol):
    """How a desk comes to the rows of its part: a record that can be pickled."""

    @property
    def first_row(self) -> int:
        """The number of the first row of the part among all rows."""

    def open(self, stack: ExitStack, given: Callable[[], Any]) -> Any:
        """Passes over the rows, with threads that end with the stack; `given()` is what lies at the worker already."""


class Command(NamedTuple):
    """One call: `owner.method(*arguments, **named)`; the result stays under the number `kept`, unless that is None."""

    owner: Any
    method: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    kept: int | None


class Message(NamedTuple):
    """What a host asks of a part."""

    line: str  # the conversation that it belongs to
    number: int
    is_anew: bool  # the commands are the history of all that the desk must hold, from the opening on
    dropped: list[int]  # numbers of what nobody asks for any more
    commands: list[bytes]


@dataclass(frozen=True)
class Stays:
    """The answer about a result that stays on the shelf."""

    is_owner: bool  # it is the object that was asked itself
    facts: Any  # the points of passes, the total of masses, sizes of sets, counts of sides and clusters


class _Reading(pickle.Unpickler):
    """Commands name what is on the shelf by its number."""

    def __init__(self, stream: io.BytesIO, shelf: dict[int, Any]) -> None:
        super().__init__(stream)
        self._shelf = shelf

    def persistent_load(self, pid: Any) -> Any:
        return self._shelf[pid]


class Desk:
    """Keeps what lies beside the rows of one part, and answers.

    What it opened ends with it, closed or not. A copy is a new desk: threads and memory do not travel.
    """

    def __init__(self) -> None:
        self._shelf: dict[int, Any] = {}
        self._stack = ExitStack()
        weakref.finalize(self, self._stack.close)
        self._place, self._answer = ("", -1), UNKNOWN
        # who lets go of everything waits for what is being answered: it may just be opening something
        self._lock = threading.RLock()

    def answer(self, message: bytes, given: Callable[[], Any] = _nothing) -> bytes:
        """What the last command of the message comes to, or the error that it raised."""
        with self._lock:
            return self._answered(message, given)

    def _answered(self, message: bytes, given: Callable[[], Any]) -> bytes:
        told = Message(*pickle.loads(message))
        if (told.line, told.number) == self._place:
            return self._answer
        if not told.is_anew and (told.line, told.number - 1) != self._place:
            return UNKNOWN
        if told.is_anew:
            self.close()
        for key in told.dropped:
            self._shelf.pop(key, None)
        try:
            found: tuple[bool, Any] = True, None
            for command in told.commands:
                found = True, self._do(command, given)
        except Exception as error:
            found = False, error
        self._place, self._answer = (told.line, told.number), _sendable(found)
        return self._answer

    def _do(self, command: bytes, given: Callable[[], Any]) -> Any:
        owner, method, arguments, named, kept = _Reading(io.BytesIO(command), self._shelf).load()
        if method == "open":
            arguments = self._stack, given
        result = getattr(owner, method)(*arguments, **named)
        if kept is None:
            return result
        self._shelf[kept] = result
        return Stays(result is owner, _facts(result))

    def __reduce__(self) -> tuple[type[Desk], tuple[()]]:
        return Desk, ()

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._shelf.clear()
            self._stack.close()  # it may be used again
            self._place, self._answer = ("", -1), UNKNOWN


def _facts(kept: Any) -> Any:
    """What a host must know of something that stays here."""
    if isinstance(kept, Masses):
        return kept.total
    if hasattr(kept, "points"):
        return PartedPoints.of([kept], kept.points.engine)
    return getattr(kept, "facts", None)


def pickled(value: Any) -> bytes:
    """Bytes for the way between two processes; none of them is ever read from a disk."""
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def _sendable(found: tuple[bool, Any]) -> bytes:
    """The answer as bytes; an error that does not travel is told in words."""
    try:
        return pickled(found)
    except Exception as error:
        return pickled((False, RuntimeError(f"{found[1]!r} at a worker cannot be sent home: {error}")))


NOTHING = pickled(tuple(Message("", 0, True, [], [])))  # lets a desk begin anew, and hold nothing
