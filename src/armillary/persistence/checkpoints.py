"""A model in the middle of a stream together with its place in that stream, in one file.

Model and place are written by one rename, so they always agree: whatever is read from the file continues exactly what
was written. It is a saved model with one more entry in its metadata, so `load` reads the model from it too.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors

from armillary.durable.whole import whole_file
from armillary.exceptions import ArchiveError
from armillary.persistence.archive import _described, _packed, _text, load
from armillary.persistence.schema import Json

_PLACE_KEY = "armillary.stream"
_MOST = 1 << 62
_START_ANEW = "Name another state file to start anew."


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST


# What a place may say, by name; each rule in words that follow "must be". Other names are for the reader to judge.
_PLACE_RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("rows", "input_rows", "input_end", "output_bytes"), ("an int from 0 to 2^62", _is_count)),
    **dict.fromkeys(("is_finished", "has_ids"), ("true or false", lambda value: isinstance(value, bool))),
    "input_mark": (
        "empty, or a length and a digest",
        lambda value: isinstance(value, str) and re.fullmatch(r"(\d{1,18}:[0-9a-f]{64})?", value) is not None,
    ),
    "output": ("the name of a file", lambda value: isinstance(value, str) and value != "" and "\0" not in value),
    "batch": ("a number of rows, or null", lambda value: value is None or (_is_count(value) and value > 0)),
}


def save_checkpoint(model: object, place: dict[str, Json], path: str | os.PathLike[str]) -> None:
    """Write a fitted model and its place in a stream (numbers and words by name), whole or not at all."""
    header, tensors = _described(model)
    text = _text({"place": place, "sha256": _digest(place)})
    with whole_file(path, "save_checkpoint") as stream:
        stream.write(_packed(header, tensors, {_PLACE_KEY: text}))


def load_checkpoint(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """The model and the place that `save_checkpoint` wrote."""
    file = Path(os.fsdecode(path))
    model = load(file)  # refuses what is no whole file of ours, with a sentence
    with safetensors.safe_open(file, framework="numpy") as archive:
        text = (archive.metadata() or {}).get(_PLACE_KEY)
    if text is None:
        raise ArchiveError(
            f"load_checkpoint reads what save_checkpoint wrote; '{file}' is a saved model without a place in a stream. "
            f"{_START_ANEW}"
        )
    try:
        written = json.loads(text)
        place: dict[str, Any] = written["place"]
        is_intact = written["sha256"] == _digest(place)
    except (LookupError, TypeError, ValueError, RecursionError):  # also of what `_text` never writes
        is_intact = False
    if not is_intact:
        raise ArchiveError(
            f"load_checkpoint compares a place with its SHA-256; that in '{file}' was damaged or edited. {_START_ANEW}"
        )
    _check_place(place, file)
    return model, place


def _check_place(place: Any, file: Path) -> None:
    """Refuse a place that no stream can be at, whoever signed it."""
    if not isinstance(place, dict) or "rows" not in place:
        raise ArchiveError(
            f"load_checkpoint reads a place that says how many rows were taken; that in '{file}' does not. "
            f"{_START_ANEW}"
        )
    for name, value in place.items():
        rule, holds = _PLACE_RULES.get(name, ("", lambda _: True))
        if not holds(value):
            raise ArchiveError(
                f"`{name}` of the place in '{file}' must be {rule}; it is {str(value)[:100]!r}. {_START_ANEW}"
            )
    if place.get("input_rows", 0) > place["rows"]:
        raise ArchiveError(
            f"The place in '{file}' must have as many rows as were taken of its input, {place['input_rows']}, or more; "
            f"it has {place['rows']}. {_START_ANEW}"
        )


def _digest(place: dict[str, Json]) -> str:
    return hashlib.sha256(_text(place).encode()).hexdigest()
