"""Clusters of rows as files: csv, tsv, JSON lines or npy, with the ids and texts of the rows where they have any."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.exceptions import InputError
from armillary.files.spreadsheets import guarded, table_text
from armillary.files.vectors import Vectors
from armillary.persistence.whole import whole_file

KINDS = ("csv", "tsv", "jsonl", "npy")
_LINES_AT_ONCE = 10_000


def write_labels(
    path: object,
    labels: npt.NDArray[Any],
    vectors: Vectors | None = None,
    *,
    kind: str | None = None,
    is_guarded: bool = False,
) -> None:
    """Write labels (n,) to a file, or to standard output for "-", whole or not at all.

    With `is_guarded` ids and texts in csv and tsv that a spreadsheet would run begin with an apostrophe.
    """
    name = str(path)
    kind = kind or _kind(name)
    if name == "-":
        for part in _parts(kind, labels, vectors, is_guarded=is_guarded):
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
        return
    with whole_file(name, "armillary") as stream:
        for part in _parts(kind, labels, vectors, is_guarded=is_guarded):
            stream.write(part)


def check_kind(path: str, kind: str | None) -> None:
    """Refuse an output whose format is not known, before the work is done."""
    kind = kind or _kind(path)
    if kind not in KINDS:
        raise InputError(f"The format of labels must be one of {', '.join(KINDS)}; got '{kind}'.")


def _kind(path: str) -> str:
    if path == "-":
        return "csv"
    ending = PurePath(path).suffix.lower().removeprefix(".")
    if ending not in KINDS:
        raise InputError(
            f"The ending of '{path}' must tell how to write labels: .{', .'.join(KINDS)}. Name it so, or say --to."
        )
    return ending


def _parts(kind: str, labels: npt.NDArray[Any], vectors: Vectors | None, *, is_guarded: bool) -> Iterator[bytes]:
    if kind == "npy":
        content = io.BytesIO()
        np.lib.format.write_array(content, np.asarray(labels), allow_pickle=False)
        yield content.getvalue()
        return
    ids, texts = (None, None) if vectors is None else (vectors.ids, vectors.texts)
    beside = {name: values for name, values in (("id", ids), ("text", texts)) if values is not None}
    if is_guarded and kind in ("csv", "tsv"):
        beside = {name: [guarded(word) for word in values] for name, values in beside.items()}
    for start in range(0, len(labels), _LINES_AT_ONCE):
        numbers = range(start, min(start + _LINES_AT_ONCE, len(labels)))
        lines = ([n, *(values[n] for values in beside.values()), int(labels[n])] for n in numbers)
        names = ["row", *beside, "cluster"]
        if kind == "jsonl":
            text = "".join(json.dumps(dict(zip(names, line, strict=True)), ensure_ascii=False) + "\n" for line in lines)
        else:
            heads = [names] if start == 0 else []
            text = table_text([*heads, *lines], "," if kind == "csv" else "\t")
        yield text.encode()
