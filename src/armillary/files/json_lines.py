"""Vectors as JSON lines: a list of numbers, an object with a vector, or a list of such vectors (a batch)."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from armillary._typing import Float64Array
from armillary.exceptions import InputError
from armillary.files.source import Source
from armillary.files.tables import Choice

_VECTOR_KEYS = ("vector", "embedding", "x")


@dataclass(frozen=True, eq=False)
class Line:
    """What one line holds."""

    rows: Float64Array  # (m, D); m = 1 but for a batch
    ids: list[str | None]  # (m,)
    texts: list[str | None]  # (m,)
    is_batch: bool


def parse_line(text: str | bytes, number: int, where: str, choice: Choice, width: int | None = None) -> Line:
    """Line `number` of `where`; `width` is the number of columns of the lines before it."""
    place = f"Line {number} of {where}"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        said = getattr(error, "msg", type(error).__name__)
        raise InputError(
            f'{place} must be JSON, e.g. [0.1, 0.2] or {{"id": "a", "vector": [0.1, 0.2]}}; it does not read '
            f"({said}). A last line that was cut short reads so too."
        ) from error
    is_batch = isinstance(value, list) and bool(value) and isinstance(value[0], list | dict)
    items = value if is_batch else [value]
    rows, ids, texts = [], [], []
    for item in items:
        vector, name, words = _parts(item, place, choice)
        row = _row(vector, place, width if choice.has_gaps else None)
        if width is not None and len(row) != width:
            raise InputError(
                f"{place} must be as long as those before it, {width} numbers; it has {len(row)}. Give every row the "
                "same number of columns."
            )
        width = len(row)
        rows.append(row)
        ids.append(name)
        texts.append(words)
    return Line(np.stack(rows), ids, texts, is_batch)


def _parts(item: Any, place: str, choice: Choice) -> tuple[Any, str | None, str | None]:
    if not isinstance(item, dict):
        return item, None, None
    keys = _VECTOR_KEYS if choice.key is None else (choice.key,)
    if not any(key in item for key in keys):
        raise InputError(
            f"{place} must have a vector under {' or '.join(repr(key) for key in keys)}; its keys: "
            f"{', '.join(map(repr, item)) or 'none'}. Name the right one by --key."
        )
    vector = next(item[key] for key in keys if key in item)
    name, words = item.get(choice.id_column or "id"), item.get(choice.text_column or "text")
    return vector, None if name is None else str(name), None if words is None else str(words)


def _row(vector: Any, place: str, width: int | None) -> Float64Array:
    """The numbers; where the width is given, what is missing may be NaN."""
    if width is not None:
        if vector is None or vector == []:
            return np.full(width, np.nan)
        if isinstance(vector, list) and None in vector:
            vector = [math.nan if value is None else value for value in vector]
    if not isinstance(vector, list) or not vector:
        raise InputError(f"{place} must be a list of numbers; got {json.dumps(vector)[:40]}. One vector a line.")
    with contextlib.suppress(ValueError, OverflowError):
        row = np.array(vector)
        if row.ndim == 1 and row.dtype.kind in "fi":
            return row.astype(np.float64, copy=False)
    odd = (
        number for number, value in enumerate(vector) if not isinstance(value, int | float) or isinstance(value, bool)
    )
    position = next(odd, 0)
    came = json.dumps(vector[position])[:40]
    raise InputError(
        f"{place} must be a list of numbers; number {position} (counted from 0) is {came}. Correct or drop the line."
    )


def json_lines(source: Source) -> Iterator[tuple[int, bytes]]:
    """Lines that are not empty, with their numbers from 1; a list that goes over several lines is one of them."""
    with source.open() as stream:
        for number, text in enumerate(stream, start=1):
            bare = text.strip()
            if not bare:
                continue
            if bare.startswith(b"[") and not bare.endswith(b"]"):
                bare += stream.read()
            yield number, bare


def read_json_lines(source: Source, choice: Choice) -> tuple[Float64Array, list[str] | None, list[str] | None]:
    """Vectors, ids and texts of a whole file."""
    lines: list[Line] = []
    width = None
    for number, text in json_lines(source):
        lines.append(parse_line(text, number, source.name, choice, width))
        width = lines[-1].rows.shape[1]
    if not lines:
        raise InputError(f"{source.name} must hold vectors; it has only empty lines. Check the step that wrote it.")
    ids = _known([name for line in lines for name in line.ids])
    texts = _known([words for line in lines for words in line.texts])
    return np.concatenate([line.rows for line in lines]), ids, texts


def _known(values: list[str | None]) -> list[str] | None:
    return None if all(value is None for value in values) else [value or "" for value in values]
