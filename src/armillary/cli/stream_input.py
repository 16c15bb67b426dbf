"""Rows of a stream in steps: from JSON lines, from npy arrays one after the other, or from any file of vectors.

A reader gives out steps and, with each, where in its input the next one begins. What makes a step depends on the input
and the size of a step alone, so a reader that starts at such a place gives the same steps as one that got there.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from armillary.exceptions import InputError
from armillary.files.formats import COMPRESSED, check_format, format_of, sniffed
from armillary.files.json_lines import parse_line
from armillary.files.sizes import read_header
from armillary.files.source import Source, refuse_unreadable
from armillary.files.tables import Choice
from armillary.files.vectors import read_vectors

# bytes at the beginning and before the end of what is done, by which a file is known again
_MARKED = 1 << 16

Waiting = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, eq=False)
class Step:
    """Rows that come together."""

    rows: Any  # (m, D)
    ids: list[str | None]  # (m,)
    end: int  # bytes of the input (JSON lines) or rows of it (others) that are done after this step


@dataclass(eq=False)
class StreamInput:
    """Where steps come from. `waiting` is entered around every read that may take for ever."""

    name: str
    stream: BinaryIO
    format: str
    batch: int | None
    choice: Choice
    waiting: Waiting
    pending: list[tuple[Any, list[str | None]]] = field(default_factory=list)  # rows that are no whole step yet

    @classmethod
    def open(
        cls,
        path: str,
        format: str | None,
        key: str | None,
        batch: int | None,
        waiting: Waiting,
        missing: str = "raise",
    ) -> StreamInput:
        """Standard input ("-") or a file."""
        if format is not None:
            check_format(format)
        choice = Choice(key, has_gaps=missing == "flag")
        if path == "-":
            stream = sys.stdin.buffer
            if format is None:
                with waiting():
                    format = sniffed(stream.peek(64)) if isinstance(stream, io.BufferedReader) else "jsonl"
                format = format if format == "npy" else "jsonl"
            if format not in ("npy", "jsonl"):
                raise InputError(
                    f"A stream on standard input must be JSON lines or npy arrays; got --format {format}. Convert it: "
                    "armillary convert - - --to jsonl."
                )
            return cls("standard input", stream, format, batch, choice, waiting)
        file = Path(path)
        refuse_unreadable(file)
        kind = format or format_of(path)
        if kind == "jsonl" and file.suffix.lower() in COMPRESSED:
            raise InputError(
                f"'{path}' is compressed; a stream must be read from a place within it. Decompress it first."
            )
        return cls(f"'{path}'", file.open("rb"), kind, batch, choice, waiting)

    @property
    def is_file(self) -> bool:
        """Whether it can be read again from a place within it."""
        return self.stream is not sys.stdin.buffer

    def close(self) -> None:
        """Done; standard input stays as it is."""
        if self.is_file:
            self.stream.close()

    def mark(self, end: int) -> str:
        """By what a file is known again of which this much is done; empty for a pipe."""
        if not self.is_file:
            return ""
        size = os.fstat(self.stream.fileno()).st_size
        return self._mark_of(end if self.format == "jsonl" else min(size, _MARKED))

    def has_mark(self, mark: str) -> bool:
        """Whether this is the file with a mark; it may have grown since."""
        length = mark.partition(":")[0]
        return bool(length) and self.is_file and self._mark_of(int(length)) == mark

    def _mark_of(self, length: int) -> str:
        """The length and a digest of the first and last bytes of the part of this length."""
        with open(self.stream.name, "rb") as again:
            first = again.read(min(length, _MARKED))
            again.seek(max(0, length - _MARKED))
            last = again.read(min(length, _MARKED))
        return f"{length}:{hashlib.sha256(first + last).hexdigest()}"

    def steps(self, start: int, n_passed: int, width: int | None) -> Iterator[Step]:
        """Steps from a place on; `n_passed` rows of a replayed input are passed over instead where `start` is 0."""
        if self.format == "jsonl":
            return self._line_steps(start, n_passed, width)
        if self.format == "npy":
            return self._array_steps(self._arrays(), max(start, n_passed))
        vectors = read_vectors(
            self.stream.name,
            format=self.format,
            key=self.choice.key,
            missing="flag" if self.choice.has_gaps else "raise",
        )
        return self._array_steps(iter([(vectors.rows, vectors.ids)]), start)

    # ------------------------------------------------------------------------------------------------- JSON lines

    def _line_steps(self, start: int, n_passed: int, width: int | None) -> Iterator[Step]:
        n_wanted = self.batch or 1
        place, number, n_pending = start, 0, 0
        if start:
            self.stream.seek(start)
        while True:
            with self.waiting():
                text = self.stream.readline()
            if not text:
                break
            place, number = place + len(text), number + 1
            if not text.strip():
                continue
            line = parse_line(text, number, self._where(start), self.choice, width)
            width = line.rows.shape[1]
            if n_passed > 0:
                n_passed -= len(line.rows)
                continue
            if line.is_batch and self.pending:
                n_pending = 0
                yield self._collected(place - len(text))
            self.pending.append((line.rows, line.ids))
            n_pending += len(line.ids)
            if line.is_batch or n_pending >= n_wanted:
                n_pending = 0
                yield self._collected(place)
        if self.pending:
            yield self._collected(place)

    def _where(self, start: int) -> str:
        return self.name if not start else f"{self.name} after byte {start:,}"

    def _collected(self, end: int) -> Step:
        rows = np.concatenate([rows for rows, _ in self.pending])
        ids = [name for _, names in self.pending for name in names]
        self.pending.clear()
        return Step(rows, ids, end)

    def leftover(self) -> Step | None:
        """What waits for a whole step when a stream is broken off: it would be lost with a pipe."""
        return self._collected(0) if self.pending and not self.is_file else None

    # ----------------------------------------------------------------------------------------------------- arrays

    def _arrays(self) -> Iterator[tuple[Any, list[str] | None]]:
        """Arrays that were saved one after the other."""
        number = 0
        while True:
            try:
                with self.waiting():
                    if not self._has_more():
                        return
                    self._refuse_claims()
                    array = np.lib.format.read_array(self.stream, allow_pickle=False)
            except InputError:
                raise
            # a pipe that claims more than there is memory has no size to hold against it
            except (ValueError, EOFError, MemoryError) as error:
                raise InputError(
                    f"Array {number} (counted from 0) of {self.name} must be a whole npy array of numbers; it is cut "
                    f"short or damaged ({str(error).splitlines()[0]}). Save it again."
                ) from error
            if array.ndim not in (2, 3) or array.dtype.kind not in "fiu":
                raise InputError(
                    f"Array {number} (counted from 0) of {self.name} must have rows of numbers, shape (n, D) or "
                    f"(steps, n, D); it has shape {array.shape} of {array.dtype}."
                )
            number += 1
            yield from ((part, None) for part in (array if array.ndim == 3 else [array]))

    def _refuse_claims(self) -> None:
        """Refuse an array of a file whose header claims more than follows."""
        if not self.is_file:
            return
        place = self.stream.tell()
        source = Source(self.name, "npy", Path(self.stream.name))
        with source.reading():
            read_header(source, self.stream, source.size - place)
        self.stream.seek(place)

    def _has_more(self) -> bool:
        return bool(self.stream.peek(1)) if isinstance(self.stream, io.BufferedReader) else True

    def _array_steps(self, arrays: Iterator[tuple[Any, list[str] | None]], n_passed: int) -> Iterator[Step]:
        done = 0
        for array, ids in arrays:
            n_rows = array.shape[0]
            size = self.batch or max(1, n_rows)
            for first in range(0, n_rows, size):
                last = min(first + size, n_rows)
                done += last - first
                if done <= n_passed:
                    continue
                names: list[str | None] = list(ids[first:last]) if ids is not None else [None] * (last - first)
                yield Step(array[first:last], names, done)
