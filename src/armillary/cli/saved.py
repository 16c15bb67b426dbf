"""Saved models and output files as the commands name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import armillary
from armillary.exceptions import InputError
from armillary.files.folders import bring_back
from armillary.files.source import refuse_unreadable

MODEL_FILE = "model.safetensors"


def model_path(name: str) -> Path:
    """The file that is meant: `name`, or the model in a folder that `cluster` wrote."""
    path = Path(name)
    bring_back(path)
    if path.is_dir():
        path = path / MODEL_FILE
        if not path.exists():
            raise InputError(
                f"'{name}' must be a saved model or a folder with {MODEL_FILE}; it has none. Check the path."
            )
    refuse_unreadable(path)
    return path


def load_model(name: str) -> Any:
    """The model saved under a name."""
    return armillary.load(model_path(name))


def refuse_existing(path: str, *, force: bool) -> None:
    """A sentence where an output file is there already."""
    if path != "-" and not force and Path(path).exists():
        raise InputError(f"The output '{path}' exists. Choose another with -o, or replace it with --force.")
