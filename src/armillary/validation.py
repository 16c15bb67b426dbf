"""The gate: everything a user passes in is checked here, and rows become unit vectors here.

A row's result never depends on the other rows: a row whose norm is 1 to within `UNIT_TOLERANCE` is left
untouched, any other row is divided by its norm. A norm has one definition, and so the same bits for dense rows in any
memory layout, CSR, memory maps and chunks, on every processor: the root of one float64 sum of squares in column order,
no multiply-add fused. Zeros add nothing to it, so stored and left out ones are alike. Where that sum leaves
`PLAIN_SQUARES` the row is multiplied by a power of two first. float16 and small integers are the float32 rows of the
same values.
"""

from __future__ import annotations

import math
import numbers
import os
import warnings
from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary._typing import Float64Array, FloatArray
from armillary.exceptions import InputError, InputTypeError, ParameterError, RowError
from armillary.sparse_structure import checked_csr

# |norm - 1| up to this is "already normalised". Float32 rows normalised by other libraries are off by a few
# units in the last place; treating them as unit changes a cosine by less than the tolerance.
UNIT_TOLERANCE = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 1e-12}

# Values and rows looked at together: bounds the scratch memory of the gate, and keeps it in the cache.
_BLOCK_VALUES = 1 << 18
_BLOCK_ROWS = 1 << 14
# Up to this many columns, a sum column by column beats running sums along each row.
_FEW_COLUMNS = 16
# Squared norms between which rows are squared as they are.
PLAIN_SQUARES = (2.0**-800, 2.0**800)
# Weights whose sums float64 carries, and the products of sums with rows and logarithms too.
LEAST_WEIGHT, MOST_WEIGHT = 2.0**-900, 2.0**900
# Where weights are copies of rows that a prior is held against, up to which float64 counts them one by one.
MOST_COPIES = 2.0**53
_WHY_COPIES = ", up to which float64 counts copies of rows one by one"

Rows = np.ndarray[Any, np.dtype[Any]] | sp.csr_array | sp.csr_matrix
# Whole numbers beyond this fit into no array, and no loop counts so far.
_MOST_INTEGER = 2**63 - 1
# More numbers than this fit into no memory.
_MOST_NUMBERS = 10**15
# Characters of a cell that a sentence shows.
_SHOWN = 24


# ---------------------------------------------------------------------------------------------------- rows


def as_matrix(X: Any, who: str, expected_features: int | None = None, what: str = "X") -> Rows:
    """X as a 2-D array or CSR matrix of real numbers; shape, dtype and sparse structure are checked, values are not.

    `expected_features` is the number of columns a fitted model was trained on; `what` is the name of X in sentences.
    """
    if sp.issparse(X):
        matrix: Rows = _as_csr(X, who, what)
    else:
        matrix = _as_array(X, who, what)
    check_shape(matrix.shape, who, expected_features, what)
    return matrix


def check_shape(shape: tuple[int, ...], who: str, expected_features: int | None = None, what: str = "X") -> None:
    """Refuse sets of vectors without rows, with one column, or with others than the model was fitted on."""
    n_rows, n_features = shape
    if expected_features is not None and n_features != expected_features:
        raise InputError(
            f"X has {n_features} features, but {who} is expecting {expected_features} features as input, as in its "
            "fit. Give vectors of the same embedding."
        )
    if n_rows == 0:
        raise InputError(
            f"{what} of {who} must have at least one row; got 0 sample(s) (shape={shape}) "
            "while a minimum of 1 is required. Check the filter that made it."
        )
    if n_features < 2:
        raise InputError(
            f"{what} of {who} must have at least 2 columns; got {n_features} feature(s) (shape={shape}) "
            "while a minimum of 2 is required. Unit vectors in one dimension are only signs."
        )


def has_direction(matrix: Rows) -> npt.NDArray[np.bool_]:
    """Which rows (n,) of what `as_matrix` returns are finite and not all zero: those that models can take."""
    if not isinstance(matrix, np.ndarray):
        largest = _largest_values(matrix)
    elif matrix.dtype.kind != "f":
        return np.asarray((matrix != 0).any(axis=1))
    elif matrix.shape[1] <= _FEW_COLUMNS:
        largest = np.abs(matrix[:, 0])
        for column in range(1, matrix.shape[1]):
            np.maximum(largest, np.abs(matrix[:, column]), out=largest)
    else:
        # the largest magnitude of a row is NaN, inf or 0 where it has no direction; no copy of all rows is made
        largest = np.maximum(matrix.max(axis=1), -matrix.min(axis=1))
    return np.asarray(np.isfinite(largest) & (largest > 0))


def computing_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which rows of `dtype` are kept: float32 and float64 stay, everything else is widened."""
    native = dtype.newbyteorder("=")
    if native in UNIT_TOLERANCE:
        return native
    narrow = (dtype.kind == "f" and dtype.itemsize < 4) or (dtype.kind in "biu" and dtype.itemsize <= 2)
    return np.dtype(np.float32 if narrow else np.float64)


def _as_array(X: Any, who: str, what: str) -> npt.NDArray[Any]:
    try:
        array = np.asanyarray(X)
    except ValueError as error:
        raise InputError(
            f"{what} of {who} must be a 2-D array, one row per vector; got {_uneven_row(X) or str(error).rstrip('.')}. "
            "Give every row the same number of columns."
        ) from error
    kind = array.dtype.kind
    if kind in "OUST" and array.size:
        _refuse_words(array, X, who, what)
    if kind == "O":
        array = _from_objects(_unfolded(array, who, what), who, what)
    elif kind in "UST":
        raise InputTypeError(
            f"{what} of {who} must hold real numbers; got strings (dtype {array.dtype}). "
            "Embed texts first, or convert numerals with X.astype(float)."
        )
    else:
        _refuse_kind(array.dtype, who, what)
    if array.ndim != 2:
        raise InputError(
            f"{what} of {who} must be a 2-D array, one row per vector; got {array.ndim}-D of shape {array.shape}. "
            f"{_advice(array.shape)}"
        )
    if type(array) is np.ndarray:
        return array
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        row = int(np.argwhere(np.ma.getmaskarray(array))[0, 0])
        rule = f"has masked entries; {who} needs every number. Drop such rows, or fill them: X.filled(value)."
        raise RowError(row, what, rule)
    # other kinds of array, such as numpy.matrix, have rules of their own for slices and products
    return array if isinstance(array, np.memmap) else np.asarray(array)


def _advice(shape: tuple[int, ...]) -> str:
    """What to do with an array that has not two axes."""
    if len(shape) < 3:
        return "Reshape your data: X.reshape(1, -1) if it is a single vector."
    if shape[-1] == 3:
        return "Reshape your data: X.reshape(-1, 3) makes a row of each pixel or point."
    means = "X.mean(axis=1) is the mean of each text's tokens" if len(shape) == 3 else "average the inner axes first"
    return (
        f"Reshape your data: X.reshape(-1, {shape[-1]}) makes a row of each vector, X.reshape(len(X), -1) one of all "
        f"numbers of an item, and {means}."
    )


def _unfolded(array: npt.NDArray[Any], who: str, what: str) -> npt.NDArray[Any]:
    """A column of lists, as tables have it, as the rows that it holds; other objects as they are.

    Cells with nothing in them are rows of NaN, which `missing` decides on as on any others.
    """
    if array.ndim != 1 and array.shape[1:] != (1,):
        return array
    flat = array.ravel()
    first = _first_filled(flat)
    if first is None or not _is_vector(flat[first]):
        return array
    width = _length(flat[first])
    lengths = np.array([_length(item) if _is_vector(item) else width if _is_nothing(item) else -1 for item in flat])
    odd = np.flatnonzero(lengths != width)
    if odd.size:
        came = f"{lengths[odd[0]]} numbers" if lengths[odd[0]] >= 0 else repr(flat[odd[0]])[:40]
        raise InputError(
            f"{what} of {who} must have vectors of one length; row {first} has {width} numbers and row {odd[0]} has "
            f"{came}. Drop or fill such rows."
        )
    blank = np.full(width, np.nan)
    try:
        return np.array([blank if _is_nothing(item) else np.asarray(item) for item in flat])
    except (TypeError, ValueError):  # deeper lists of several lengths: the next look has a sentence
        return array


def is_vector_column(X: Any) -> bool:
    """Whether X is a column of lists or arrays, as tables have it: one axis, or a frame of one column."""
    shape = getattr(X, "shape", None)
    if not isinstance(shape, tuple) or not shape or (len(shape) != 1 and shape[1:] != (1,)) or sp.issparse(X):
        return False
    first = np.asanyarray(X[:1])
    if first.ndim > len(shape):
        return True
    if first.dtype.kind != "O" or not first.size:
        return False
    if _is_nothing(first.ravel()[0]):  # rare enough to look at all of them
        flat = np.asanyarray(X).ravel()
        place = _first_filled(flat)
        return place is not None and _is_vector(flat[place])
    return _is_vector(first.ravel()[0])


def n_columns(X: Any, who: str) -> int:
    """How many features X has, where each item of it may be a vector."""
    if not is_vector_column(X):
        return int(X.shape[1])
    first = X[:1]
    if _is_nothing(np.asanyarray(first).ravel()[0]):
        first = X
    return int(as_matrix(first, who).shape[1])


def _first_filled(flat: npt.NDArray[Any]) -> int | None:
    """The place of the first item that is something."""
    return next((place for place, item in enumerate(flat) if not _is_nothing(item)), None)


def _is_nothing(item: Any) -> bool:
    """Whether a cell of a table is empty: None, NaN, or what pandas has for it."""
    return item is None or (isinstance(item, float) and item != item) or type(item).__name__ == "NAType"


def _is_vector(item: Any) -> bool:
    return isinstance(item, list | tuple | np.ndarray) or (hasattr(item, "to_numpy") and hasattr(item, "__len__"))


def _length(row: Any) -> int:
    """How many numbers a row of a list has; sparse rows have no length of their own."""
    shape = getattr(row, "shape", None)
    if shape is not None:
        return int(shape[-1]) if len(shape) else 1
    return len(row) if hasattr(row, "__len__") else 1


def _uneven_row(X: Any) -> str:
    """The first row of a list that is not as long as row 0, in words; empty where there is none."""
    lengths = [_length(row) for row in X] if isinstance(X, list | tuple) else []
    for number, length in enumerate(lengths):
        if length != lengths[0]:
            return f"a row 0 of length {lengths[0]} and a row {number} of length {length}"
    return ""


def _refuse_words(array: npt.NDArray[Any], X: Any, who: str, what: str) -> None:
    """Refuse paths, vectors beside other columns or written as words, and texts: each is a step from rows."""
    if isinstance(X, str | os.PathLike):
        came = repr(os.fspath(X)[:_SHOWN])
        raise InputTypeError(
            f"{what} of {who} must hold real numbers; got one string or path, {came}. Rows of a file are "
            "armillary.open_rows(path); texts come as a list."
        )
    is_table = array.ndim == 2 and array.shape[1] > 1
    row = array[:1].ravel() if array.ndim else array.ravel()
    first = row if is_table else row[:1]
    for place, cell in enumerate(first):
        if is_table and _is_vector(cell):
            names = getattr(X, "columns", None)
            column, known = (place, f"X[:, {place}]") if names is None else (repr(names[place]), f"X[{names[place]!r}]")
            raise InputTypeError(
                f"{what} of {who} must hold real numbers; got {len(first)} columns, and column {column} holds vectors. "
                f"Give that column alone: {known}."
            )
        word = cell.strip() if isinstance(cell, str) else ""
        if (word[:1], word[-1:]) in (("[", "]"), ("(", ")")):
            came = word if len(word) <= _SHOWN else f"{word[:_SHOWN]}..."
            raise InputTypeError(
                f"{what} of {who} must hold real numbers; got lists written as words: '{came}'. Read them first: "
                "[json.loads(cell) for cell in column]."
            )
    if not is_table and any(isinstance(cell, str) and not _is_numeral(cell) for cell in first):
        raise InputTypeError(
            f"{what} of {who} must hold real numbers; got texts. Embed texts first; armillary.texts.tfidf_rows(texts) "
            "weighs their words."
        )


def _is_numeral(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _from_objects(array: npt.NDArray[Any], who: str, what: str) -> Float64Array:
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputTypeError(
            f"{what} of {who} must hold real numbers; got dtype object, and {_first_odd_row(array)} does not convert: "
            f"{str(error).rstrip('.')}. Select the numeric columns and drop or fill what is missing."
        ) from error


def _first_odd_row(array: npt.NDArray[Any]) -> str:
    for number, row in enumerate(array if array.ndim else ()):
        try:
            np.asarray(row, dtype=object).astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            return f"row {number}"
    return "it"


def _as_csr(X: Any, who: str, what: str) -> sp.csr_array | sp.csr_matrix:
    _refuse_kind(X.dtype, who, what)
    return checked_csr(X, who, what)


def _refuse_kind(dtype: np.dtype[Any], who: str, what: str) -> None:
    if dtype.kind == "c":
        raise InputTypeError(
            f"Complex data not supported: {what} of {who} must hold real numbers; got dtype {dtype}. "
            "Stack the parts: np.hstack([X.real, X.imag])."
        )
    if dtype.kind not in "fiub":
        raise InputTypeError(f"{what} of {who} must hold real numbers; got dtype {dtype}. Convert it to floats first.")


class Gauge(NamedTuple):
    """Sums of squares of rows, as the norm defines them.

    `GAUGE` is in NumPy; kernels have a quicker one, equal to the bit. Rows are C-contiguous, float32 or float64.
    """

    # True if all norms of rows (n, D) are surely 1 to within a tolerance, False if that is not sure
    are_unit: Callable[[npt.NDArray[Any], float], bool]
    # (n,) sums of squares of dense rows (n, D)
    squares: Callable[[npt.NDArray[Any]], Float64Array]
    # (n,) sums of squares of CSR rows, given by their values and n + 1 pointers into these
    csr_squares: Callable[[npt.NDArray[Any], npt.NDArray[Any]], Float64Array]
    # rows (n, D) of float16 or bytes as unit float32 rows, in one go; None where it cannot, or a row has no direction
    narrow: Callable[[npt.NDArray[Any], float], FloatArray | None] | None = None


def unit_rows(X: Any, who: str, what: str = "X") -> Rows:
    """X as unit rows: a C-contiguous float32 or float64 array, or a CSR matrix with such data.

    The input itself is returned where it already is all that.
    """
    return unit_matrix(as_matrix(X, who, what=what), who, what)


def unit_matrix(matrix: Rows, who: str, what: str = "X", gauge: Gauge | None = None) -> Rows:
    """`unit_rows` of what `as_matrix` returned."""
    gauge = gauge or GAUGE
    if not isinstance(matrix, np.ndarray):
        return _unit_csr(matrix, who, what, gauge)
    if _is_ready(matrix) and gauge.are_unit(np.asarray(matrix), UNIT_TOLERANCE[matrix.dtype]):
        return np.asarray(matrix)
    unit: npt.NDArray[Any] | None = None
    for start, stop in row_blocks(matrix.shape):
        rows = np.asarray(matrix[start:stop])
        block = unit_block(rows, start, who, what, gauge)
        if unit is None:
            if _is_ready(matrix) and np.shares_memory(block, rows):
                continue
            unit = np.empty(matrix.shape, dtype=computing_dtype(matrix.dtype))
            unit[:start] = matrix[:start]
        unit[start:stop] = block
    return np.asarray(matrix) if unit is None else unit


def is_unit(array: npt.NDArray[Any], who: str, what: str = "X", gauge: Gauge | None = None) -> bool:
    """Whether the rows are already what the kernels take; rows that have no direction are refused on the way."""
    gauge = gauge or GAUGE
    is_ready = _is_ready(array)
    if is_ready and gauge.are_unit(np.asarray(array), UNIT_TOLERANCE[array.dtype]):
        return True
    for start, stop in row_blocks(array.shape):
        rows = np.asarray(array[start:stop])
        is_ready &= np.shares_memory(unit_block(rows, start, who, what, gauge), rows)
    return is_ready


def _is_ready(array: npt.NDArray[Any]) -> bool:
    return array.dtype in UNIT_TOLERANCE and array.dtype.isnative and array.flags.c_contiguous


def row_blocks(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Consecutive row ranges of bounded size that cover the rows."""
    step = max(1, min(_BLOCK_ROWS, _BLOCK_VALUES // max(1, shape[1])))
    return [(start, min(start + step, shape[0])) for start in range(0, shape[0], step)]


def unit_block(
    block: npt.NDArray[Any], first_row: int, who: str, what: str = "X", gauge: Gauge | None = None
) -> FloatArray:
    """Rows `first_row, first_row + 1, ...` as C-contiguous unit rows; a view where nothing had to change."""
    gauge = gauge or GAUGE
    if gauge.narrow is not None and block.dtype.itemsize <= 2:
        unit = gauge.narrow(block, UNIT_TOLERANCE[np.dtype(np.float32)])
        if unit is not None:
            return unit
    rows = _converted(block)
    tolerance = UNIT_TOLERANCE[rows.dtype]
    if gauge.are_unit(rows, tolerance):
        return rows.view()
    squares = gauge.squares(rows)
    factors = np.ones(len(rows))
    odd = np.flatnonzero(~_are_plain(squares))
    if odd.size:
        largest = _widened(np.abs(rows[odd]).max(axis=1))
        refuse_rows(largest, first_row + odd, who, what)
        factors[odd] = safe_factors(largest)
        squares[odd] = gauge.squares(rows[odd] * factors[odd, None])
    norms = np.sqrt(squares)
    is_off = np.abs(norms - factors) > tolerance * factors
    if not is_off.any():
        return rows.view()
    norms[~is_off] = factors[~is_off] = 1.0
    unit = np.empty_like(rows)
    scaled = rows * factors[:, None] if odd.size else rows
    # in float64, rounded once; rows divided by 1 keep their bits
    np.divide(scaled, norms[:, None], out=unit, casting="same_kind")
    return unit


def _are_plain(squares: Float64Array) -> npt.NDArray[np.bool_]:
    """Which sums of squares neither overflowed nor vanished: a NaN did."""
    return (squares > PLAIN_SQUARES[0]) & (squares < PLAIN_SQUARES[1])


def _converted(block: npt.NDArray[Any]) -> FloatArray:
    """Rows in the dtype in which they are kept; what is beyond it becomes inf, which is refused with a sentence."""
    dtype = computing_dtype(block.dtype)
    if dtype == block.dtype:
        return np.ascontiguousarray(block, dtype=dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(block, dtype=dtype)


def is_sure(n_features: int, tolerance: float) -> bool:
    """Whether a float64 sum of so many squares, in any order and fused or not, tells unit rows from others.

    It and the norm's own sum are each off by at most (D + 2) 2^-53 of a number near 1. A sum within the tolerance of 1
    leaves the norm half of it: what is left to rounding.
    """
    return (n_features + 2) * 2.0**-51 <= tolerance


def _are_surely_unit(rows: npt.NDArray[Any], tolerance: float) -> bool:
    if not is_sure(rows.shape[1], tolerance):
        return False
    for start, stop in row_blocks(rows.shape):
        wide = _widened(rows[start:stop])
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            squares = np.vecdot(wide, wide) if rows.shape[1] > _FEW_COLUMNS else column_squares(wide)
        # written so that NaN is not unit; the two ends take two thirds of the time of the largest distance from 1
        if not (squares.max(initial=1.0) - 1.0 <= tolerance and 1.0 - squares.min(initial=1.0) <= tolerance):
            return False
    return True


def column_squares(rows: npt.NDArray[Any]) -> Float64Array:
    """Sums of squares (n,) of dense rows (n, D), in float64 and in column order."""
    n_rows, n_features = rows.shape
    squares = np.zeros(n_rows)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if n_features <= _FEW_COLUMNS:
            for column in range(n_features):
                values = _widened(rows[:, column])
                squares += values * values
            return squares
        for start, stop in row_blocks(rows.shape):
            table = np.square(_widened(rows[start:stop]))
            # running sums go from column to column; `sum` pairs them as it likes
            squares[start:stop] = np.add.accumulate(table, axis=1, out=table)[:, -1]
    return squares


def stored_squares(values: npt.NDArray[Any], pointers: npt.NDArray[Any]) -> Float64Array:
    """Sums of squares (n,) of CSR rows, in float64 and in the order stored."""
    lengths = np.diff(pointers)
    squares = np.zeros(len(lengths))
    order = np.argsort(lengths, kind="stable")
    last = len(order)
    while last > 0 and lengths[order[last - 1]] > 0:
        # rows of about one length as a table: zeros behind the last entry add nothing
        width = int(lengths[order[last - 1]])
        some = order[max(0, last - max(1, _BLOCK_VALUES // width)) : last]
        inside = np.arange(width) < lengths[some, None]
        table = np.zeros((len(some), width))
        table[inside] = _widened(values[(pointers[some, None] + np.arange(width))[inside]])
        squares[some] = column_squares(table)
        last -= len(some)
    return squares


GAUGE = Gauge(_are_surely_unit, column_squares, stored_squares)


def safe_factors(largest: Float64Array) -> Float64Array:
    """Powers of two (n,) that bring rows to where their squares neither overflow nor vanish.

    Rows have these largest absolute values. Multiplying by them rounds nothing, so norms and directions keep their
    bits.
    """
    # past 2^1000 the factor itself would overflow; what is left is far from the ends of the range
    return np.ldexp(1.0, -np.clip(np.frexp(largest)[1], -1000, 1000))


def refuse_rows(largest: Float64Array, row_numbers: npt.NDArray[np.int64], who: str, what: str) -> None:
    """Refuse rows by their largest absolute value: NaN, inf and 0 have no direction."""
    bad = np.flatnonzero(~np.isfinite(largest))
    if bad.size:
        found = "NaN" if np.isnan(largest[bad[0]]) else "inf"
        rule = f"contains {found}; {who} needs finite numbers (no NaN, no inf). Drop or impute such rows."
        raise RowError(int(row_numbers[bad[0]]), what, rule, lacks_direction=True)
    bad = np.flatnonzero(largest == 0.0)
    if bad.size:
        rule = f"has norm 0 and no direction; {who} takes rows as directions. Drop such rows before fitting."
        raise RowError(int(row_numbers[bad[0]]), what, rule, lacks_direction=True)


def _unit_csr(matrix: sp.csr_array | sp.csr_matrix, who: str, what: str, gauge: Gauge) -> sp.csr_array | sp.csr_matrix:
    dtype = computing_dtype(matrix.dtype)
    values = matrix.data if matrix.dtype in UNIT_TOLERANCE else _converted(matrix.data)
    indptr, n_rows = matrix.indptr, matrix.shape[0]
    lengths = np.diff(indptr)
    squares, factors = gauge.csr_squares(values, indptr), np.ones(n_rows)
    are_plain = _are_plain(squares)
    if not are_plain.all():
        odd = np.flatnonzero(~are_plain)
        some = type(matrix)((values, matrix.indices, indptr), shape=matrix.shape)[odd]
        largest = _largest_values(some)
        refuse_rows(largest, odd, who, what)
        factors[odd] = safe_factors(largest)
        squares[odd] = gauge.csr_squares(
            _widened(some.data) * np.repeat(factors[odd], np.diff(some.indptr)), some.indptr
        )
    norms = np.sqrt(squares)
    is_off = np.abs(norms - factors) > UNIT_TOLERANCE[dtype] * factors
    if not is_off.any() and dtype == matrix.dtype:
        return matrix
    norms[~is_off] = factors[~is_off] = 1.0
    scaled = values if (factors == 1.0).all() else values * np.repeat(factors, lengths)
    data = np.empty(len(values), dtype)
    np.divide(scaled, np.repeat(norms, lengths), out=data, casting="same_kind")
    return type(matrix)((data, matrix.indices, indptr), shape=matrix.shape)


def _largest_values(matrix: Any) -> Float64Array:
    """The largest absolute value (n,) of each row of a CSR matrix; 0 where it stores none."""
    lengths = np.diff(matrix.indptr)
    largest = np.zeros(len(lengths))
    is_filled = lengths > 0
    if is_filled.any():
        # reduceat from the starts of non-empty rows: each segment then is one row
        largest[is_filled] = np.maximum.reduceat(np.abs(_widened(matrix.data)), matrix.indptr[:-1][is_filled])
    return largest


def _widened(values: npt.NDArray[Any]) -> Float64Array:
    if values.dtype == np.float64:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float64)


def check_sample_weight(
    sample_weight: Any, n_rows: int, who: str, name: str = "sample_weight", most: float = MOST_WEIGHT
) -> Float64Array | None:
    """Weights as float64 (n,), or None when all rows count alike; `most` is the largest sum they may have."""
    if sample_weight is None:
        return None
    try:
        given = np.asarray(sample_weight)
        if given.dtype.kind not in "fiubO":  # dates and complex numbers would convert, and lose what they are
            raise TypeError(f"dtype {given.dtype}")
        weights = np.asarray(given, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise InputTypeError(
            f"`{name}` of {who} must hold real numbers; they do not convert: {error}. Pass one number per row."
        ) from error
    if weights.ndim == 0:
        weights = np.full(n_rows, weights)
    if weights.shape != (n_rows,):
        raise InputError(
            f"`{name}` of {who} must have one number per row, shape ({n_rows},); got {weights.shape}. "
            "Sample weights must be 1D array or scalar."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(weights.sum())
    # written so that NaN is looked at again; most weights pass here
    if not (weights.min() >= LEAST_WEIGHT and total <= most):
        _refuse_weights(weights, total, most, name, who)
    return weights


def _refuse_weights(weights: Float64Array, total: float, most: float, name: str, who: str) -> None:
    """A sentence for weights by which sums and their squares would lose what they stand for; zeros are welcome."""
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if bad.size:
        raise InputError(
            f"`{name}` of {who} must be finite and not negative; got {weights[bad[0]]} for row {bad[0]}. "
            "Use 0 to leave a row out."
        )
    if total == 0.0:
        raise InputError(
            f"`{name}` of {who} must have a positive entry; all {len(weights)} weights are zero. "
            "Leave it out to count rows alike."
        )
    if total > most:
        raise InputError(
            f"`{name}` of {who} must have a sum of at most {most:.3g}{_WHY_COPIES if most == MOST_COPIES else ''}; the "
            f"largest of {len(weights)} weights is {weights.max():.3g}. Divide them all by that."
        )
    small = np.flatnonzero((weights > 0.0) & (weights < LEAST_WEIGHT))
    if small.size:
        raise InputError(
            f"`{name}` of {who} must be 0 or at least {LEAST_WEIGHT:.3g}; got {weights[small[0]]:.3g} for row "
            f"{small[0]}. Use 0 to leave a row out, or multiply all weights."
        )


# ---------------------------------------------------------------------------------------------- parameters


def check_integer(value: Any, name: str, who: str, *, low: int, high: int | None = None, hint: str = "") -> int:
    """An int in [low, high]; booleans are not integers here."""
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if is_integer and low <= value <= (_MOST_INTEGER if high is None else high):
        return int(value)
    if high is None and is_integer and value > _MOST_INTEGER:
        high = _MOST_INTEGER
    rule = f"an int >= {low}" if high is None else f"an int from {low} to {high}"
    raise ParameterError(f"`{name}` of {who} must be {rule}; got {value!r}.{' ' + hint if hint else ''}")


def check_levels(value: Any, who: str) -> tuple[int, ...]:
    """Numbers of clusters of each level, coarse to fine."""
    is_list = value.ndim > 0 if isinstance(value, np.ndarray) else isinstance(value, list | tuple)
    given = tuple(value) if is_list else (value,)
    hint = "Give numbers from coarse to fine, e.g. (100, 1000)."
    sizes = tuple(check_integer(one, "n_clusters", who, low=1, hint=hint) for one in given)
    if not sizes or any(coarse >= fine for coarse, fine in pairwise(sizes)):
        raise ParameterError(f"`n_clusters` of {who} must rise from coarse to fine; got {value!r}. {hint}")
    return sizes


def check_row_count(value: Any, n_features: int, name: str, who: str, *, low: int) -> int:
    """How many rows of D numbers to make: an int, and no more than some memory could hold."""
    most = max(low, _MOST_NUMBERS // max(1, n_features))
    number = check_integer(value, name, who, low=low)
    return number if number <= most else check_integer(value, name, who, low=low, high=most, hint="Draw them in parts.")


def check_number(value: Any, name: str, who: str, *, low: float, high: float = math.inf, hint: str = "") -> float:
    """A finite float in [low, high]."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if is_number and fits_float(value) and low <= value <= high:
        return float(value)
    rule = f"a number >= {low:g}" if high == math.inf else f"a number in [{low:g}, {high:g}]"
    raise ParameterError(f"`{name}` of {who} must be {rule}; got {value!r}.{' ' + hint if hint else ''}")


def check_positive(
    value: Any,
    name: str,
    who: str,
    *,
    low: float = 0.0,
    high: float = math.inf,
    is_finite: bool = False,
    hint: str = "",
) -> float:
    """A number from `low` (if that is 0, above it) to `high`; infinity is allowed unless it must be finite."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    is_held = is_number and (fits_float(value) or (value == math.inf and not is_finite))  # by a float
    if is_held and (value >= low if low else value > 0.0) and value <= high:
        return float(value)
    rule = f"{f'[{low:g}' if low else '(0'}, {high:g}{')' if is_finite and high == math.inf else ']'}"
    raise ParameterError(f"`{name}` of {who} must be a number in {rule}; got {value!r}.{' ' + hint if hint else ''}")


# Of R R' - 1: poses that were recorded in float32, or with two digits, are no worse.
_FEW_DIGITS = 1e-2


def check_rotation(value: Any, n_features: int, who: str) -> Float64Array | None:
    """A proper rotation (D, D), or None; one that was recorded with few digits is replaced by the nearest, with a note.

    Nearest is U V' of R = U S V': the rotation with the least sum of squared differences.
    """
    if value is None:
        return None
    rule = f"`rotation` of {who} must be a rotation matrix of shape ({n_features}, {n_features})"
    way_out = "Give a matrix R with R R' = 1 and determinant 1."
    try:
        rotation = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{rule}; got {value!r}. {way_out}") from None
    if rotation.shape != (n_features, n_features):
        raise InputError(f"{rule}; got shape {rotation.shape}. {way_out}")
    if not np.isfinite(rotation).all():
        raise InputError(f"{rule}; got one with NaN or inf. {way_out}")
    error = float(np.abs(rotation @ rotation.T - np.eye(n_features)).max())
    if error > _FEW_DIGITS:
        raise InputError(f"{rule}; got one whose R R' differs from 1 by {error:.2g}. {way_out}")
    if np.linalg.det(rotation) < 0.0:
        raise InputError(f"{rule}; got a reflection, of determinant -1. {way_out}")
    if error <= 1e-6:
        return rotation
    warnings.warn(
        f"`rotation` of {who} has few digits: R R' differs from 1 by {error:.2g}. The nearest rotation is taken.",
        UserWarning,
        stacklevel=3,
    )
    left, _, right = np.linalg.svd(rotation)
    return np.asarray(left @ right)


def check_angle(value: Any, name: str, who: str) -> float:
    """Radians in (0, pi]."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if is_number and fits_float(value) and 0.0 < value <= math.pi:
        return float(value)
    way_out = "Angles are in radians."
    if is_number and fits_float(value) and math.pi < value <= 360.0:
        way_out = f"Angles are in radians: math.radians({value:g}) is {math.radians(value):.4g}."
    raise ParameterError(f"`{name}` of {who} must be a number in (0, pi]; got {value!r}. {way_out}")


def fits_float(value: Any) -> bool:
    """Whether a number is one that a float holds: not infinite, and no int beyond every float."""
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond every float
        return False


def check_numbers(value: Any, name: str, who: str, *, may_be_infinite: bool = False) -> Float64Array:
    """An array of any shape as finite float64 numbers; with `may_be_infinite` every number is left to the caller."""
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "fiubO":  # dates and complex numbers would convert, and lose what they are
            raise TypeError(f"dtype {given.dtype}")
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputTypeError(
            f"`{name}` of {who} must hold real numbers; they do not convert: {str(error).rstrip('.')}. "
            "Pass an array of floats."
        ) from error
    if not may_be_infinite and not np.logical_and.reduce(np.isfinite(array), axis=None):
        raise InputError(
            f"`{name}` of {who} must hold finite numbers; got {array[~np.isfinite(array)][0]}. Drop such entries."
        )
    return array


def check_broadcast(who: str, **shapes: tuple[int, ...]) -> None:
    """Refuse shapes that do not go together by NumPy's rules; the names are for the sentence."""
    if len(set(shapes.values())) == 1:
        return
    try:
        np.broadcast_shapes(*shapes.values())
    except ValueError:
        told = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(
            f"The arguments of {who} must have shapes that broadcast; got {told}. Give one entry, or as many of each."
        ) from None


def check_flag(value: Any, name: str, who: str, other: str = "") -> bool:
    """True or False; `other` names what else the parameter may be."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ParameterError(f"`{name}` of {who} must be {other}True or False; got {value!r}.")


def check_path(path: Any, who: str, name: str = "path") -> str:
    """A path as a string."""
    try:
        return os.fsdecode(path)
    except TypeError:
        raise InputTypeError(
            f"`{name}` of {who} must be a string or a path; got {path!r}. Use str(path) or pathlib.Path(path)."
        ) from None


def check_choice(value: Any, name: str, who: str, choices: Collection[str], *, hint: str = "") -> str:
    """One of a few words."""
    if isinstance(value, str) and value in choices:
        return value
    words = ", ".join(repr(choice) for choice in choices)
    raise ParameterError(f"`{name}` of {who} must be one of {words}; got {value!r}.{' ' + hint if hint else ''}")
