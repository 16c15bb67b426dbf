"""Vectors from a file of any known format, with their ids and texts."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from armillary.exceptions import InputError
from armillary.files import arrays, json_lines, separated, tables
from armillary.files.matrix_market import read_mtx
from armillary.files.source import Source
from armillary.files.tables import Choice
from armillary.files.word2vec import is_word2vec, read_vecs, read_word2vec
from armillary.files.words import read_words
from armillary.validation import as_matrix, check_choice


@dataclass(frozen=True, eq=False)
class Vectors:
    """Rows as they came, and what the file says about them.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from armillary.files import read_vectors
    >>> path = tempfile.mkdtemp() + "/rows.npy"
    >>> np.save(path, np.eye(3))
    >>> found = read_vectors(path)
    >>> found.rows.shape, found.format
    ((3, 3), 'npy')
    """

    rows: Any  # (n, D) array, memory map or CSR matrix
    ids: list[str] | None = None  # (n,)
    texts: list[str] | None = None  # (n,)
    source: str = ""  # where they came from, in words
    format: str = ""
    notes: tuple[str, ...] = ()  # how the file was understood, for people
    vocabulary: list[str] | None = None  # (D,) the word of each column, where columns are words
    idf: npt.NDArray[Any] | None = None  # (D,) by which these words were weighed
    has_whole_ids: bool = False  # whether ids are whole numbers in a table, written as words here

    @property
    def n_rows(self) -> int:
        """How many."""
        return int(self.rows.shape[0])

    @property
    def n_features(self) -> int:
        """How many columns."""
        return int(self.rows.shape[1])


def read_vectors(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    key: str | None = None,
    id_column: str | None = None,
    text_column: str | None = None,
    texts: str | os.PathLike[str] | None = None,
    has_header: bool | None = None,
    missing: str = "raise",
) -> Vectors:
    """Read vectors, one in each row.

    Parameters
    ----------
    path : str or os.PathLike
        A file, which may be compressed (.gz, .bz2, .xz), or "-" for standard input. A large npy file is mapped into
        memory and not read at once. Compressed content may unpack to 256 MiB, or to 200 times the size of its file
        where that is more (`files.sizes`); give more than that uncompressed.
    format : str, optional
        One of `files.formats.FORMATS`. By default the ending of the path says it; for standard input the first bytes.
    key : str, optional
        Which array of an npz or safetensors file, which column of lists of a table, or which key of JSON objects.
    id_column, text_column : str, optional
        Columns (arrays of an npz file, keys of JSON objects) with ids and texts of the rows. By default columns of
        words are understood by their names and content, and `notes` says how.
    texts : str or os.PathLike, optional
        A file with one text for each row: lines of text, JSON lines, or a table with a column of texts.
    has_header : bool, optional
        Whether a CSV or TSV file has one; by default its first rows tell.
    missing : {"raise", "flag"}, default="raise"
        Empty cells, and rows whose list is null or empty, are an error, or are NaN: models with `missing="flag"` give
        such rows the label -1.

    Returns
    -------
    Vectors
        `rows`, `ids`, `texts` and `notes`.

    Raises
    ------
    InputError
        With a sentence that names the file and what is wrong with it.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from armillary.files import read_vectors
    >>> path = tempfile.mkdtemp() + "/rows.npy"
    >>> np.save(path, np.eye(3))
    >>> read_vectors(path).rows.shape
    (3, 3)
    """
    source = Source.of(path, format)
    has_gaps = check_choice(missing, "missing", "read_vectors", ("raise", "flag")) == "flag"
    found = _read(source, Choice(key, id_column, text_column, has_gaps), has_header)
    rows = as_matrix(found.rows, source.name, what="The array")
    for what, words in (("ids", found.ids), ("texts", found.texts)):
        if words is not None and len(words) != rows.shape[0]:
            raise InputError(
                f"{source.name} must have {what} for each of the {rows.shape[0]:,} rows; it has {len(words):,} of "
                "them. Check that both come from the same rows."
            )
    vectors = replace(found, rows=rows, source=source.name, format=source.format)
    if texts is not None:
        vectors = replace(vectors, texts=read_words(texts, vectors.n_rows, "texts", tables.TEXT_NAMES, text_column))
    return vectors


def _read(source: Source, choice: Choice, has_header: bool | None) -> Vectors:
    match source.format:
        case "npz":
            return Vectors(*arrays.read_npz(source, choice.key, choice.id_column, choice.text_column))
        case "jsonl":
            return Vectors(*json_lines.read_json_lines(source, choice))
        case "csv" | "tsv" if not is_word2vec(source):
            return _of_table(separated.read_separated(source, choice, has_header=has_header))
        case "parquet":
            return _of_table(tables.read_parquet(source, choice))
        case "arrow":
            return _of_table(tables.read_arrow(source, choice))
        case "word2vec" | "csv" | "tsv":
            rows, names = read_word2vec(source)
            return Vectors(rows, names, notes=("word2vec text: words are the ids",))
    for name, value in (("--id-column", choice.id_column), ("--text-column", choice.text_column)):
        if value is not None:
            raise InputError(
                f"{name} names a column of a table, an array of an npz file or a key of JSON lines; {source.name} is "
                f"{source.format}, which has room for vectors only. Give texts by --texts FILE."
            )
    match source.format:
        case "npy":
            return Vectors(arrays.read_npy(source))
        case "safetensors":
            return Vectors(arrays.read_safetensors(source, choice.key))
        case "mtx":
            return Vectors(read_mtx(source))
        case "fvecs" | "bvecs":
            return Vectors(read_vecs(source))
    return Vectors(arrays.read_svmlight(source)[0])


def _of_table(table: tables.Understood) -> Vectors:
    return Vectors(table.rows, table.ids, table.texts, notes=table.notes, has_whole_ids=table.has_whole_ids)
