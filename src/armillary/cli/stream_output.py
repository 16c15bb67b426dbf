"""Ids of a stream as lines, in a file that can be cut back to where a checkpoint says, or on standard output."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from armillary.durable.locks import try_lock
from armillary.durable.whole import sync_to_disk
from armillary.exceptions import InputError
from armillary.files.spreadsheets import guarded, table_text

KINDS = ("jsonl", "csv")


class StreamOutput:
    """Lines `row, id, cluster`; rows count from 0 over the whole life of a stream."""

    def __init__(self, path: str, kind: str | None, *, is_guarded: bool = False) -> None:
        self.path = path
        self.is_guarded = is_guarded  # whether a csv has an apostrophe before what a spreadsheet would run
        self.kind = kind or ("jsonl" if path == "-" else Path(path).suffix.lower().removeprefix("."))
        if self.kind not in KINDS:
            raise InputError(f"The output of a stream must be {' or '.join(KINDS)}; got '{self.kind}'. Say it by --to.")
        self.n_bytes = 0
        self.has_ids = False  # whether a csv has the column
        self.is_begun = False
        self._stream: BinaryIO = sys.stdout.buffer

    @property
    def is_file(self) -> bool:
        """Whether it can be cut back."""
        return self.path != "-"

    @property
    def place(self) -> str:
        """By what it is known again."""
        return os.path.abspath(self.path) if self.is_file else "-"

    def refuse_existing(self) -> None:
        """A sentence where a new output is there already."""
        if self.is_file and Path(self.path).exists():
            raise InputError(
                f"The output '{self.path}' exists, and no state goes with it. Choose another with -o, name its "
                "--state, or replace it with --force."
            )

    def begin(self) -> None:
        """A new output, empty."""
        if self.is_file:
            self._open()
            self._stream.truncate(0)
            sync_to_disk(Path(self.place).parent)  # a state that knows of its bytes must not outlive its name
        self.is_begun = True

    def go_on(self, n_bytes: int, *, has_ids: bool) -> None:
        """The output of an earlier run, cut back to the bytes that the state knows of."""
        self.has_ids = has_ids
        self.is_begun = True
        if not self.is_file:
            return
        size = os.path.getsize(self.path) if os.path.exists(self.path) else 0
        if size < n_bytes:
            raise InputError(
                f"The output '{self.path}' must have the {n_bytes:,} bytes that the state knows of; it has {size:,}. "
                "Bring it back, or go on in a file of another name."
            )
        self._open()
        self._stream.truncate(n_bytes)
        self._stream.seek(n_bytes)
        self.n_bytes = n_bytes

    def _open(self) -> None:
        file = Path(self.path)
        self._stream = file.open("r+b" if file.exists() else "xb")
        try:
            is_locked = try_lock(self._stream.fileno())
        except OSError as error:
            raise InputError(
                f"The output '{self.path}' must lie on a file system that can lock files; it cannot: {error.strerror}. "
                "Choose another place with -o, or write to standard output."
            ) from error
        if not is_locked:
            raise InputError(
                f"The output '{self.path}' must not be written by two runs; another is at it. Wait for its end."
            )

    def write(self, first_row: int, ids: list[str | None], clusters: npt.NDArray[np.integer]) -> None:
        """The answers to one step, seen at once by whoever reads."""
        names = enumerate(zip(ids, np.asarray(clusters).tolist(), strict=True), start=first_row)
        if self.kind == "jsonl":
            lines = (
                {"row": row, **({} if name is None else {"id": name}), "cluster": one} for row, (name, one) in names
            )
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        else:
            text = ""
            if self.n_bytes == 0 and (self.is_file or first_row == 0):
                self.has_ids = any(name is not None for name in ids)
                text = table_text([["row", "id", "cluster"] if self.has_ids else ["row", "cluster"]])
            text += table_text(
                [row, self._cell(name), one] if self.has_ids else [row, one] for row, (name, one) in names
            )
        content = text.encode()
        self._stream.write(content)
        self._stream.flush()
        self.n_bytes += len(content)

    def _cell(self, name: str | None) -> str:
        return guarded(name or "") if self.is_guarded else name or ""

    def sync(self) -> None:
        """On disk, so that a state which knows of these bytes may be written."""
        if self.is_file:
            os.fsync(self._stream.fileno())

    def close(self) -> None:
        """Done."""
        if self.is_file and self._stream is not sys.stdout.buffer:
            self._stream.close()
