"""A model in the middle of a stream together with its place in that stream, in one file.

Model and place are written by one rename, so they always agree: whatever is read from the file continues exactly what
was written. It is a saved model with one more entry in its metadata, so `load` reads the model from it too.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import safetensors

from armillary.exceptions import ArchiveError
from armillary.persistence.archive import _described, _packed, _text, load
from armillary.persistence.schema import Json
from armillary.persistence.whole import whole_file

_PLACE_KEY = "armillary.stream"
_START_ANEW = "Name another state file to start anew."


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
    except (LookupError, TypeError, ValueError, RecursionError):
        is_intact = False
    if not is_intact:
        raise ArchiveError(
            f"load_checkpoint compares a place with its SHA-256; that in '{file}' was damaged or edited. {_START_ANEW}"
        )
    return model, place


def _digest(place: dict[str, Json]) -> str:
    return hashlib.sha256(_text(place).encode()).hexdigest()
