"""Clusters of rows as files: csv, tsv, JSON lines or npy, with the ids and texts of the rows where they have any."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.durable.whole import whole_file
from armillary.exceptions import InputError
from armillary.files.spreadsheets import guarded, table_text
from armillary.files.vectors import Vectors

KINDS = ("csv", "tsv", "jsonl", "npy")
_LINES_AT_ONCE = 10_000
_VALUES_AT_ONCE = 1 << 20


def write_labels(
    path: object,
    labels: npt.NDArray[Any],
    vectors: Vectors | None = None,
    *,
    kind: str | None = None,
    is_guarded: bool = False,
    names: Mapping[int, str] | None = None,
) -> None:
    """Write labels (n,) to a file, or to standard output for "-", whole or not at all.

    With `is_guarded` ids, texts and names in csv and tsv that a spreadsheet would run begin with an apostrophe. `names`
    are those of clusters.
    """
    name = str(path)
    kind = kind or _kind(name)
    if name == "-":
        for part in _parts(kind, labels, vectors, names, is_guarded=is_guarded):
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
        return
    with whole_file(name, "armillary") as stream:
        for part in _parts(kind, labels, vectors, names, is_guarded=is_guarded):
            stream.write(part)


def check_kind(path: str, kind: str | None) -> None:
    """Refuse an output whose format is not known, before the work is done."""
    kind = kind or _kind(path)
    if kind not in KINDS:
        raise InputError(f"The format of labels must be one of {', '.join(KINDS)}; got '{kind}'.")


def is_array(path: str, kind: str | None) -> bool:
    """Whether labels go to an npy file by its ending."""
    return path.lower().endswith(".npy") and kind in (None, "npy")


def _kind(path: str) -> str:
    if path == "-":
        return "csv"
    ending = PurePath(path).suffix.lower().removeprefix(".")
    if ending not in KINDS:
        raise InputError(
            f"The ending of '{path}' must tell how to write labels: .{', .'.join(KINDS)}. Name it so, or say --to."
        )
    return ending


def _parts(
    kind: str,
    labels: npt.NDArray[Any],
    vectors: Vectors | None,
    names: Mapping[int, str] | None,
    *,
    is_guarded: bool,
) -> Iterator[bytes]:
    if kind == "npy":
        values = np.asarray(labels)
        head = io.BytesIO()
        about = {"descr": np.lib.format.dtype_to_descr(values.dtype), "fortran_order": False, "shape": values.shape}
        np.lib.format.write_array_header_1_0(head, about)
        yield head.getvalue()
        for start in range(0, len(values), _VALUES_AT_ONCE):  # labels of many rows are not copied whole
            yield np.ascontiguousarray(values[start : start + _VALUES_AT_ONCE]).tobytes()
        return
    ids, texts = (None, None) if vectors is None else (vectors.ids, vectors.texts)
    beside = {name: values for name, values in (("id", ids), ("text", texts)) if values is not None}
    if is_guarded and kind in ("csv", "tsv"):
        beside = {name: [guarded(word) for word in values] for name, values in beside.items()}
        names = None if names is None else {label: guarded(name) for label, name in names.items()}
    for start in range(0, len(labels), _LINES_AT_ONCE):
        numbers = range(start, min(start + _LINES_AT_ONCE, len(labels)))
        lines = (
            [n, *(values[n] for values in beside.values()), int(labels[n]), *_named(names, int(labels[n]))]
            for n in numbers
        )
        columns = ["row", *beside, "cluster", *(() if names is None else ("name",))]
        if kind == "jsonl":
            text = "".join(
                json.dumps(dict(zip(columns, line, strict=True)), ensure_ascii=False) + "\n" for line in lines
            )
        else:
            heads = [columns] if start == 0 else []
            text = table_text([*heads, *lines], "," if kind == "csv" else "\t")
        yield text.encode()


def _named(names: Mapping[int, str] | None, label: int) -> tuple[str, ...]:
    """The cell of a cluster's name, where clusters have names."""
    return () if names is None else (names.get(label, ""),)
