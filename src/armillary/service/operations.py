"""Operations as they stand in the log: a kind, fields that JSON can hold, and rows of vectors as they came."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[Any]

ADD, NAME, MUST_LINK, CANNOT_LINK, MERGE, SPLIT, FORGET, UNDO = (
    "add", "name", "must_link", "cannot_link", "merge", "split", "forget", "undo",
)  # fmt: skip
META, THUMBNAIL = "meta", "thumbnail"
DTYPES = ("float16", "float32", "float64")
_compact = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps would make an encoder for each call


@dataclass(frozen=True)
class Operation:
    """One thing asked of a collection."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    rows: Rows | None = None
    attached: bytes | None = None  # an image; it goes into its own table, not into the log

    @property
    def text(self) -> str:
        """The fields, and the form of the rows, as JSON."""
        form = {} if self.rows is None else {"dtype": str(self.rows.dtype), "shape": list(self.rows.shape)}
        return _compact({**self.fields, **({"rows": form} if form else {})})

    @property
    def blob(self) -> bytes | None:
        """The rows as bytes, little-endian."""
        if self.rows is None:
            return None
        return np.ascontiguousarray(self.rows, self.rows.dtype.newbyteorder("<")).tobytes()

    def digest(self) -> bytes:
        """By which two requests under one key are held against each other."""
        hashed = hashlib.sha256(f"{self.kind} {self.text} ".encode())
        hashed.update(self.blob or b"")
        hashed.update(self.attached or b"")
        return hashed.digest()

    @classmethod
    def read(cls, kind: str, text: str, blob: bytes | None) -> Operation:
        """From the log."""
        fields = json.loads(text)
        form = fields.pop("rows", None)
        if form is None:
            return cls(kind, fields)
        dtype = np.dtype(form["dtype"]).newbyteorder("<")
        rows = np.frombuffer(blob or b"", dtype).reshape(form["shape"])
        return cls(kind, fields, rows.astype(form["dtype"], copy=False))


@dataclass(frozen=True)
class Event:
    """Something that happened to ids; numbered without gaps."""

    number: int
    at: float
    kind: str
    id: int
    other: int
    operation: int
    name: str | None = None

    def body(self) -> dict[str, Any]:
        """As answers have it."""
        named = {} if self.name is None else {"name": self.name}
        other = {} if self.other < 0 else {"other": self.other}
        return {
            "number": self.number, "at": self.at, "kind": self.kind, "id": self.id, **other, **named,
            "operation": self.operation,
        }  # fmt: skip


@dataclass(frozen=True)
class Member:
    """One vector of a collection that keeps them."""

    row: int
    node: int
    vector: Rows


@dataclass(frozen=True)
class Outcome:
    """What an operation came to."""

    status: int
    answer: dict[str, Any]
    events: tuple[Event, ...] = ()
    members: tuple[Member, ...] = ()
    gone: frozenset[int] = frozenset()  # ids of which nothing may be left
