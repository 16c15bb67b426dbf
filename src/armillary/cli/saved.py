"""Saved models and output files as the commands name them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import armillary
from armillary.cli.reading import Reading
from armillary.exceptions import InputError
from armillary.files.folders import SUMMARY, bring_back
from armillary.files.source import refuse_unreadable
from armillary.texts import WordWeights

MODEL_FILE = "model.safetensors"
WORDS_FILE = "words.json"
_BY_WORDS = "tfidf"


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


def with_words_of(name: str, reading: Reading) -> Reading:
    """How to read texts so that a model can place them: by the words, or the embedding model, of those it learned."""
    folder = Path(name)
    how = _told(folder, "data", "vectors_of_texts")
    if how is None:
        raise InputError(
            f"Texts can be placed by a folder that cluster made of texts; '{name}' is none. Embed {reading.path} as "
            "the vectors of the model were, and give the vectors."
        )
    if how != _BY_WORDS:
        return replace(reading, embed=how)
    if not (folder / WORDS_FILE).exists():
        raise InputError(
            f"Texts can be placed by a folder with their words, {WORDS_FILE}; '{name}' has none, since it was made "
            "with --no-texts. Cluster again without it."
        )
    return replace(reading, weights=WordWeights.load(folder / WORDS_FILE))


def names_of(name: str) -> dict[int, str] | None:
    """Names of clusters by a folder that cluster wrote; None where it has none."""
    clusters = _told(Path(name), "clusters")
    if not isinstance(clusters, list):
        return None
    names = {
        one["cluster"]: one["name"] for one in clusters if isinstance(one, dict) and {"cluster", "name"} <= set(one)
    }
    return {label: word for label, word in names.items() if isinstance(label, int) and isinstance(word, str)} or None


def _told(folder: Path, *keys: str) -> Any:
    """What the summary of a folder says; None of no folder, and of one that cluster did not write."""
    try:
        known = json.loads((folder / SUMMARY).read_text())
        for key in keys:
            known = known[key]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return known


def refuse_existing(path: str, *, force: bool) -> None:
    """A sentence where an output file is there already."""
    if path != "-" and not force and Path(path).exists():
        raise InputError(f"The output '{path}' exists. Choose another with -o, or replace it with --force.")
