"""The options that say how to read a file, and the reading, with a note on how it was understood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.cli.screen import Screen
from armillary.files.vectors import Vectors, read_vectors
from armillary.files.words import read_column, read_labels

_TIME_NAMES = frozenset({"time", "times", "date", "year", "month", "day", "timestamp", "slice"})


@dataclass(frozen=True)
class Reading:
    """What to read, and how."""

    path: str
    format: str | None = None
    key: str | None = None
    id_column: str | None = None
    text_column: str | None = None
    texts: str | None = None
    header: bool | None = None

    def read(self, screen: Screen) -> Vectors:
        """The vectors; says what they are."""
        with screen.timed("reading"):
            vectors = read_vectors(
                self.path,
                format=self.format,
                key=self.key,
                id_column=self.id_column,
                text_column=self.text_column,
                texts=self.texts,
                has_header=self.header,
            )
        understood = f": {'; '.join(vectors.notes)}" if vectors.notes else ""
        screen.note(f"{shape_in_words(vectors)} from {vectors.source}{understood}.")
        return vectors


def shape_in_words(vectors: Vectors) -> str:
    """E.g. "10,003 vectors of 384 numbers (float32)"."""
    kind = f"{vectors.rows.dtype}"
    if not isinstance(vectors.rows, np.ndarray):
        kind += f", sparse, {vectors.rows.nnz:,} not zero"
    elif isinstance(vectors.rows, np.memmap):
        kind += ", memory-mapped"
    return f"{vectors.n_rows:,} vectors of {vectors.n_features:,} numbers ({kind})"


def read_truth(path: str | None, column: str | None, n_rows: int, screen: Screen) -> npt.NDArray[Any] | None:
    """Known classes of the rows, where there are any."""
    if path is None:
        return None
    with screen.timed("reading"):
        return read_labels(path, n_rows, column)


def read_times(path: str | None, n_rows: int, screen: Screen) -> npt.NDArray[Any] | None:
    """Times of the rows: numbers where they are, else words in their order."""
    if path is None:
        return None
    with screen.timed("reading"):
        values = read_column(path, n_rows, "times", _TIME_NAMES)
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        return values.astype(str)
