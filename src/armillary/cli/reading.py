"""The options that say how to read a file, and the reading, with a note on how it was understood."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.cli.present import check_missing
from armillary.cli.screen import Screen
from armillary.exceptions import InputError, ParameterError
from armillary.files.documents import holds_documents, read_documents
from armillary.files.tables import stored_beside, words_beside
from armillary.files.vectors import Vectors, read_vectors
from armillary.files.words import read_column, read_labels
from armillary.selection.counting import counted
from armillary.sources.memory import SHARE, free_memory, in_words
from armillary.sources.opening import ENDINGS, open_rows
from armillary.sources.stored import StoredRows
from armillary.texts import WordWeights, embed_texts
from armillary.texts.kept_vectors import cache_folder
from armillary.texts.weighed_words import weighed_texts

# Files up to so many bytes are read whole without a look at what they unpack to, and to how many times their size the
# tables among others may.
_SURELY_SMALL, _MOST_PACKED = 1 << 26, 16
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
    others: tuple[str, ...] = ()  # further files
    missing: str = "raise"  # or "flag": rows with empty cells are rows of NaN
    takes_texts: bool = False  # whether a file of texts will do
    embed: str | None = None  # a model for them; their words where there is none
    weights: WordWeights | None = None  # of the words of a model, which rows of new texts must have
    takes_stored_words: bool = False  # whether ids and texts of rows that stay on disk may stay there, as `TableColumn`
    keeps_texts: bool = True  # whether results hold texts, and vectors of texts are kept for the next run

    @classmethod
    def of(cls, paths: list[str], *options: Any, **named: Any) -> Reading:
        """What several arguments of a command name."""
        return replace(cls(paths[0], *options, **named), others=tuple(paths[1:]))

    def read(self, screen: Screen) -> Vectors:
        """The vectors; says what they are, and in which order their files come."""
        if self.holds_texts():
            return self._of_texts(screen)
        with screen.timed("reading"):
            rows = self._on_disk()
        if rows is not None:
            return self._with_words(self._of_stored(rows, screen), rows, screen)
        with screen.timed("reading"):
            vectors = read_vectors(
                self.path,
                format=self.format,
                key=self.key,
                id_column=self.id_column,
                text_column=self.text_column,
                texts=self.texts,
                has_header=self.header,
                missing=check_missing(self.missing),
            )
        understood = f": {'; '.join(vectors.notes)}" if vectors.notes else ""
        screen.note(f"{shape_in_words(vectors)} from {vectors.source}{understood}.")
        return vectors

    def holds_texts(self) -> bool:
        """Whether what is to be clustered is a file of texts."""
        if self.embed is not None:
            return True
        if not self.takes_texts or self.key is not None or self.texts is not None:
            return False
        if self.is_many and not (os.path.isdir(self.path) and not self.others):
            return False
        try:
            return holds_documents(self.path, self.format, self.text_column, self.header)
        except InputError:  # what reads vectors has a sentence for it
            return False

    def _of_texts(self, screen: Screen) -> Vectors:
        """Rows of a file of texts: their weighed words, or their vectors by a model."""
        with screen.timed("reading"):
            documents = read_documents(
                self.path,
                format=self.format,
                text_column=self.text_column,
                id_column=self.id_column,
                has_header=self.header,
            )
        weights: WordWeights | None = None
        rows: Any
        if self.embed is None:
            with (
                screen.timed("weighing words"),
                screen.progress("weighing words", len(documents.texts), "texts") as advance,
            ):
                if self.weights is None:
                    rows, weights = weighed_texts(documents.texts, advance)
                else:
                    rows, weights = self.weights.rows(documents.texts, advance), self.weights
            how = f"{counted(len(weights.vocabulary), 'word')}, weighed by TF-IDF"
        else:
            with (
                screen.timed("embedding"),
                screen.progress("embedding texts", len(documents.texts), "texts") as advance,
            ):
                rows = embed_texts(documents.texts, self.embed, is_kept=self.keeps_texts, advance=advance)
            how = f"vectors of {rows.shape[1]:,} numbers by '{self.embed}'"
            if self.keeps_texts:
                how += f"; kept, without the texts, in {cache_folder()} for you alone"
        vectors = Vectors(
            rows,
            documents.ids,
            documents.texts,
            documents.source,
            documents.format,
            (*documents.notes, how),
            None if weights is None else weights.vocabulary,
            None if weights is None else weights.idf,
        )
        screen.note(f"{counted(vectors.n_rows, 'text')} from {vectors.source}: {'; '.join(vectors.notes)}.")
        return vectors

    @property
    def is_many(self) -> bool:
        """Whether the rows are in several files, or in a folder."""
        is_pattern = glob.has_magic(self.path) and not os.path.exists(self.path)
        return bool(self.others) or is_pattern or os.path.isdir(self.path)

    def _on_disk(self) -> StoredRows | None:
        """Rows of many files, or of one that is larger than its share of memory; None for all others."""
        if self.is_many:
            for option, value in (
                ("--texts", self.texts),
                ("--format", self.format),
            ):
                if value is not None:
                    raise ParameterError(f"{option} belongs to one file that is read whole; got several. Leave it out.")
            return open_rows([self.path, *self.others], column=self.key)
        if not os.path.isfile(self.path) or PurePath(self.path).suffix.lower() not in ENDINGS:
            return None
        if os.path.getsize(self.path) < _SURELY_SMALL or not _is_large(os.path.getsize(self.path) * _MOST_PACKED):
            return None
        try:
            rows = open_rows(self.path, column=self.key)
        except InputError:  # what reads it whole has a sentence too, or can
            return None
        return rows if _is_large(rows.nbytes) else None

    def _with_words(self, vectors: Vectors, rows: StoredRows, screen: Screen) -> Vectors:
        """Ids and texts of tables in a folder; where rows stay on disk, so do these, or there are none."""
        wanted = {"ids": self.id_column, "texts": self.text_column}
        stays = isinstance(vectors.rows, StoredRows)
        if not _are_tables(rows) or (stays and not self.takes_stored_words):
            for option, value in (("--id-column", self.id_column), ("--text-column", self.text_column)):
                if value is not None:
                    raise ParameterError(
                        f"{option} belongs to tables that are read whole; these are other files, or stay on disk. "
                        "Leave it out."
                    )
            return vectors
        with screen.timed("reading"):
            found = (stored_beside if stays else words_beside)([shard.path for shard in rows.shards], **wanted)
        if found.notes:
            screen.note(f"Beside the vectors: {'; '.join(found.notes)}.")
        notes = (*vectors.notes, *found.notes)
        return replace(vectors, ids=found.ids, texts=found.texts, notes=notes, has_whole_ids=found.has_whole_ids)

    def _of_stored(self, rows: StoredRows, screen: Screen) -> Vectors:
        source, format = rows.order(), ENDINGS.get(PurePath(rows.shards[0].path).suffix.lower(), "zarr")
        if _is_large(rows.nbytes):
            vectors = Vectors(rows, source=source, format=format)
            screen.note(f"{shape_in_words(vectors)} from {source}.")
            screen.note(
                f"They take {in_words(rows.nbytes)}, more than half of the {in_words(free_memory())} of memory that "
                "are free, so they stay on disk and are read again in every pass."
            )
            return vectors
        with screen.timed("reading"):
            vectors = Vectors(rows[:], source=source, format=format)
        screen.note(f"{shape_in_words(vectors)} from {source}.")
        return vectors


def _are_tables(rows: StoredRows) -> bool:
    return all(ENDINGS.get(PurePath(shard.path).suffix.lower()) in ("parquet", "arrow") for shard in rows.shards)


def _is_large(n_bytes: float) -> bool:
    return n_bytes > SHARE * free_memory()


def shape_in_words(vectors: Vectors) -> str:
    """E.g. "10,003 vectors of 384 numbers (float32)"."""
    kind = f"{vectors.rows.dtype}"
    if isinstance(vectors.rows, StoredRows):
        kind += ", on disk"
    elif not isinstance(vectors.rows, np.ndarray):
        kind += f", sparse, {vectors.rows.nnz:,} not zero"
    elif isinstance(vectors.rows, np.memmap):
        kind += ", memory-mapped"
    return f"{counted(vectors.n_rows, 'vector')} of {counted(vectors.n_features, 'number')} ({kind})"


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
