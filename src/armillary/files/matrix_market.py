"""Matrices from Matrix Market files, sparse (coordinate) or written in full (array).

SciPy's reader is not asked: that of 1.17 ends the process over a number that does not read. Lines go through pyarrow,
and through NumPy where they have more than one space between their numbers, or comments.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import scipy.sparse as sp

from armillary._typing import Float64Array
from armillary.files.sizes import refuse_shape
from armillary.files.source import Source
from armillary.files.tables import opened

_FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
_SYMMETRIES = ("general", "symmetric", "skew-symmetric")


@dataclass(frozen=True)
class Header:
    """What the first lines say."""

    is_coordinate: bool
    is_pattern: bool  # entries have no values: they are 1
    symmetry: str
    shape: tuple[int, int]
    n_entries: int  # lines that follow
    n_lines: int  # of the header itself


def read_mtx(source: Source) -> Any:
    """The matrix of a Matrix Market file: sparse, or an array where it is written in full."""
    with source.reading(pa.ArrowException):
        header = _header(source)
        columns = _columns(source, header)
        if len(columns[0]) != header.n_entries:
            raise source.damaged(f"{header.n_entries:,} entries are announced and {len(columns[0]):,} lines are there")
        return _sparse(source, header, columns) if header.is_coordinate else _dense(header, columns[0])


def _header(source: Source) -> Header:
    with source.open() as stream:
        first = stream.readline().decode("latin-1").lower().split()
        if len(first) != 5 or first[:2] != ["%%matrixmarket", "matrix"]:
            raise source.damaged("no whole %%MatrixMarket line at its beginning")
        layout, field, symmetry = first[2:]
        if layout not in ("coordinate", "array") or field not in _FIELDS or symmetry not in _SYMMETRIES:
            raise source.damaged(f"a matrix of real numbers is needed, and it is {layout} {field} {symmetry}")
        n_lines, sizes = 1, b""
        while not sizes.strip() or sizes.startswith(b"%"):
            sizes = stream.readline()
            n_lines += 1
            if not sizes:
                raise source.damaged("no sizes below its comments")
    is_coordinate = layout == "coordinate"
    lengths = [int(size) for size in sizes.split()]
    if len(lengths) != 2 + is_coordinate or min(lengths) < 0:
        raise source.damaged("no sizes below its comments")
    n_rows, n_columns = lengths[:2]
    refuse_shape(source, (n_rows, n_columns))
    if symmetry != "general" and n_rows != n_columns:
        raise source.damaged(f"it claims to be {symmetry} and has {n_rows:,} rows and {n_columns:,} columns")
    n_triangle = n_rows * (n_rows + (1 if symmetry == "symmetric" else -1)) // 2
    n_entries = lengths[2] if is_coordinate else n_rows * n_columns if symmetry == "general" else n_triangle
    return Header(is_coordinate, field == "pattern", symmetry, (n_rows, n_columns), n_entries, n_lines)


def _columns(source: Source, header: Header) -> list[npt.NDArray[Any]]:
    """The columns of the lines below the header: row, column and value, or values alone."""
    kinds = [pa.int64()] * (2 * header.is_coordinate) + [pa.float64()] * (not header.is_pattern)
    names = [str(number) for number in range(len(kinds))]
    if header.n_entries == 0 or not kinds:
        return [np.zeros(0)] * 3
    try:
        with opened(source) as stream:
            table = pyarrow.csv.read_csv(
                stream,
                pyarrow.csv.ReadOptions(column_names=names, skip_rows=header.n_lines),
                pyarrow.csv.ParseOptions(delimiter=" ", quote_char=False),
                pyarrow.csv.ConvertOptions(column_types=dict(zip(names, kinds, strict=True)), null_values=[]),
            )
            return [column.to_numpy() for column in table.columns]
    except pa.ArrowException:
        with source.open() as lines:
            for _ in range(header.n_lines):
                lines.readline()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of no numbers, which is counted below
                return list(np.loadtxt(lines, dtype=np.float64, comments="%", ndmin=2, unpack=True))


def _sparse(source: Source, header: Header, columns: list[npt.NDArray[Any]]) -> sp.coo_array:
    n_rows, n_columns = header.shape
    if len(columns) != 3 - header.is_pattern and header.n_entries:
        raise source.damaged(f"entries have {len(columns)} numbers in a line")
    places = []
    for numbers, length in zip(columns[:2], (n_rows, n_columns), strict=True):
        # numbers count from 1, and may have come as floats
        if not ((numbers >= 1) & (numbers <= length) & (numbers == np.floor(numbers))).all():
            raise source.damaged(f"an entry lies outside its {n_rows:,} rows and {n_columns:,} columns")
        places.append(numbers.astype(np.int64) - 1)
    rows, cols = places
    values = np.ones(len(rows)) if header.is_pattern else np.asarray(columns[2], dtype=np.float64)
    if header.symmetry != "general":
        is_off = rows != cols
        sign = 1.0 if header.symmetry == "symmetric" else -1.0
        values = np.concatenate([values, sign * values[is_off]])
        rows, cols = np.concatenate([rows, cols[is_off]]), np.concatenate([cols, rows[is_off]])
    return sp.coo_array((values, (rows, cols)), shape=header.shape)


def _dense(header: Header, values: npt.NDArray[Any]) -> Float64Array:
    """Columns one after the other; of a symmetric matrix, what lies on and below the diagonal."""
    n_rows, n_columns = header.shape
    if header.symmetry == "general":
        return np.ascontiguousarray(np.reshape(values, (n_columns, n_rows)).T)
    matrix = np.zeros(header.shape)
    is_skew = header.symmetry != "symmetric"
    cols, rows = np.triu_indices(n_rows, int(is_skew))
    matrix[rows, cols] = values
    matrix[cols, rows] = -values if is_skew else values
    return matrix
