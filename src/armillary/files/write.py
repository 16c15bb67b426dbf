"""Vectors into a file of any known format, whole or not at all."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import scipy.sparse as sp

from armillary.durable.whole import whole_file
from armillary.exceptions import InputError, InputTypeError
from armillary.files.arrays import WIDTH_COMMENT
from armillary.files.formats import COMPRESSED, check_format, format_of
from armillary.files.spreadsheets import guarded, table_text
from armillary.files.vectors import Vectors
from armillary.persistence.tensors import packed_tensors
from armillary.sparse_structure import checked_csr
from armillary.validation import check_path

# formats with room for ids and texts beside the vectors
WITH_WORDS = frozenset({"npz", "csv", "tsv", "jsonl", "parquet", "arrow"})
_SPARSE = frozenset({"npz", "mtx", "svmlight"})
# a CSR matrix is made dense for other formats up to so many values: 2 GiB of float64
_MOST_DENSE = 1 << 28
_BLOCK_ROWS = 4096


def write_vectors(
    path: str | os.PathLike[str],
    vectors: Vectors,
    *,
    format: str | None = None,
    key: str = "vectors",
    is_guarded: bool = False,
) -> None:
    """Write vectors with their ids and texts, where the format has room for those.

    `path` is "-" for standard output. `key` names the array in npz and safetensors files and the column of lists in
    parquet and arrow files. Text formats have as many digits as it takes to read the same numbers back. With
    `is_guarded` ids and texts in csv and tsv files that a spreadsheet would run as formulas begin with an apostrophe,
    which `restored` takes off again.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    vectors : Vectors
        Rows with ids and texts.
    format : str, optional
        By default the ending of the path says it.
    key : str, default="vectors"
        Name of the array or column.
    is_guarded : bool, default=False
        Guard cells that a spreadsheet would run.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from armillary.files import Vectors, read_vectors, write_vectors
    >>> path = tempfile.mkdtemp() + "/rows.csv"
    >>> write_vectors(path, Vectors(np.eye(3), ids=["a", "b", "c"]))
    >>> read_vectors(path).ids
    ['a', 'b', 'c']
    """
    name = check_path(path, "write_vectors")
    if not isinstance(vectors, Vectors):
        raise InputTypeError(
            f"`vectors` of write_vectors must be a Vectors record; got {type(vectors).__name__}. Use Vectors(rows)."
        )
    kind = _kind(name, format)
    rows = checked_csr(vectors.rows, "write_vectors", "The matrix") if _is_sparse(vectors.rows) else vectors.rows
    if is_guarded and kind in ("csv", "tsv"):
        vectors = _guarded(vectors)
    if _is_sparse(rows) and kind not in _SPARSE:
        if rows.shape[0] * rows.shape[1] > _MOST_DENSE:
            raise InputError(
                f"A sparse matrix of {rows.shape[0]:,} x {rows.shape[1]:,} has too many zeros for {kind}. Write it as "
                "npz, mtx or svmlight."
            )
        rows = rows.toarray()
    if name == "-":
        _write(sys.stdout.buffer, kind, rows, vectors, key)
        sys.stdout.buffer.flush()
        return
    with whole_file(name, "armillary") as stream:
        _write(stream, kind, rows, vectors, key)


def _kind(path: str, format: str | None) -> str:
    if format is not None:
        return check_format(format, is_written=True)
    if path == "-":
        raise InputError("The format of standard output must be said: --to npy, for example.")
    if path.lower().endswith(COMPRESSED):
        raise InputError(f"'{path}' has the ending of a compressed file; these are read and not written. Leave it out.")
    return check_format(format_of(path), is_written=True)


def _write(stream: BinaryIO, kind: str, rows: Any, vectors: Vectors, key: str) -> None:
    match kind:
        case "npy":
            np.lib.format.write_array(stream, np.asarray(rows), allow_pickle=False)
        case "npz":
            _write_npz(stream, rows, vectors, key)
        case "csv" | "tsv":
            _write_lines(stream, _table_lines(rows, vectors, "," if kind == "csv" else "\t"))
        case "jsonl":
            _write_lines(stream, _json_lines(rows, vectors))
        case "parquet":
            pyarrow.parquet.write_table(_table(rows, vectors, key), stream)
        case "arrow":
            table = _table(rows, vectors, key)
            with pyarrow.ipc.new_file(stream, table.schema) as writer:
                writer.write_table(table)
        case "safetensors":
            stream.write(packed_tensors({key: _native(rows)}))
        case "mtx":
            import scipy.io

            scipy.io.mmwrite(stream, rows if _is_sparse(rows) else np.asarray(rows))
        case "svmlight":
            _write_lines(stream, _svmlight_lines(rows))


def _is_sparse(rows: Any) -> bool:
    return bool(sp.issparse(rows))


def _native(rows: Any) -> npt.NDArray[Any]:
    return np.ascontiguousarray(rows, dtype=np.asarray(rows).dtype.newbyteorder("="))


def _write_npz(stream: BinaryIO, rows: Any, vectors: Vectors, key: str) -> None:
    if _is_sparse(rows):
        sp.save_npz(stream, rows)
        return
    words = {name: np.array(values) for name, values in _words(vectors).items()}
    np.savez(stream, **{key: np.asarray(rows), **{f"{name}s": values for name, values in words.items()}})  # type: ignore[arg-type]


def _svmlight_lines(rows: Any) -> Iterator[str]:
    """Columns count from 1, as svmlight has it; the target of every row is 0."""
    matrix = sp.csr_array(rows)
    yield f"# {WIDTH_COMMENT} {matrix.shape[1]}\n"
    for start in range(0, matrix.shape[0], _BLOCK_ROWS):
        block = matrix[start : start + _BLOCK_ROWS]
        values, columns, edges = block.data.astype(str).tolist(), (block.indices + 1).tolist(), block.indptr.tolist()
        pairs = [f"{column}:{value}" for column, value in zip(columns, values, strict=True)]
        yield "".join(f"0 {' '.join(pairs[first:last])}\n" for first, last in pairwise(edges))


def _table(rows: npt.NDArray[Any], vectors: Vectors, key: str) -> pa.Table:
    flat = pa.array(_native(rows).ravel())
    lists = pa.FixedSizeListArray.from_arrays(flat, int(rows.shape[1]))
    return pa.table({**_words(vectors), key: lists})


def _words(vectors: Vectors) -> dict[str, list[str]]:
    """Ids and texts by the names of their columns."""
    both = {"id": vectors.ids, "text": vectors.texts}
    return {name: values for name, values in both.items() if values is not None}


def _guarded(vectors: Vectors) -> Vectors:
    ids, texts = ((None if words is None else list(map(guarded, words))) for words in (vectors.ids, vectors.texts))
    return replace(vectors, ids=ids, texts=texts)


def _write_lines(stream: BinaryIO, lines: Iterator[str]) -> None:
    for line in lines:
        stream.write(line.encode())


def _table_lines(rows: npt.NDArray[Any], vectors: Vectors, separator: str) -> Iterator[str]:
    words = _words(vectors)
    yield table_text([[*words, *(f"x{number}" for number in range(rows.shape[1]))]], separator)
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = np.asarray(rows[start : start + _BLOCK_ROWS])
        # float32 numbers have the digits that float32 needs
        numbers = enumerate(block.astype(str), start=start)
        lines = ([*(values[number] for values in words.values()), *row.tolist()] for number, row in numbers)
        yield table_text(lines, separator)


def _json_lines(rows: npt.NDArray[Any], vectors: Vectors) -> Iterator[str]:
    words = _words(vectors)
    for number in range(len(rows)):
        vector = np.asarray(rows[number]).tolist()
        beside = {name: values[number] for name, values in words.items()}
        yield json.dumps({**beside, "vector": vector} if beside else vector, ensure_ascii=False) + "\n"
