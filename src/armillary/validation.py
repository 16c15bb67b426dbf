"""The gate: everything a user passes in is checked here, and rows become unit vectors here.

A row's result never depends on the other rows: a row whose norm is 1 to within `UNIT_TOLERANCE` is left
untouched, any other row is divided by its float64 norm.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary._typing import Float64Array, FloatArray
from armillary.exceptions import InputError, InputTypeError, ParameterError
from armillary.sparse_structure import checked_csr

# |norm - 1| up to this is "already normalised". Float32 rows normalised by other libraries are off by a few
# units in the last place; treating them as unit changes a cosine by less than the tolerance.
UNIT_TOLERANCE = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 1e-12}

# Values and rows looked at together: bounds the scratch memory of the gate, and keeps it in the cache.
_BLOCK_VALUES = 1 << 18
_BLOCK_ROWS = 1 << 14
# Up to this many columns, one product of all squares with ones beats a dot product per row (measured 5x at D=3).
_FEW_COLUMNS = 16
# Squared norms between which sparse rows are squared as they are: bits are those of rows that are scaled first.
_PLAIN_SQUARES = (2.0**-800, 2.0**800)
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
# A quick look at rows (n, D): True if all norms are surely 1 to within a tolerance, False if that is not sure.
FirstLook = Callable[[np.ndarray[Any, np.dtype[Any]], float], bool]


# ---------------------------------------------------------------------------------------------------- rows


def as_matrix(X: Any, who: str, expected_features: int | None = None, what: str = "X") -> Rows:
    """X as a 2-D array or CSR matrix of real numbers; shape, dtype and sparse structure are checked, values are not.

    `expected_features` is the number of columns a fitted model was trained on; `what` is the name of X in sentences.
    """
    if sp.issparse(X):
        matrix: Rows = _as_csr(X, who, what)
    else:
        matrix = _as_array(X, who, what)
    n_rows, n_features = matrix.shape
    if expected_features is not None and n_features != expected_features:
        raise InputError(
            f"X has {n_features} features, but {who} is expecting {expected_features} features as input, as in its "
            "fit. Give vectors of the same embedding."
        )
    if n_rows == 0:
        raise InputError(
            f"{what} of {who} must have at least one row; got 0 sample(s) (shape={matrix.shape}) "
            "while a minimum of 1 is required. Check the filter that made it."
        )
    if n_features < 2:
        raise InputError(
            f"{what} of {who} must have at least 2 columns; got {n_features} feature(s) (shape={matrix.shape}) "
            "while a minimum of 2 is required. Unit vectors in one dimension are only signs."
        )
    return matrix


def has_nan(matrix: Rows) -> npt.NDArray[np.bool_]:
    """Which rows (n,) have a NaN."""
    if isinstance(matrix, np.ndarray):
        if matrix.dtype.kind != "f":
            return np.zeros(len(matrix), dtype=np.bool_)
        return np.asarray(np.isnan(matrix).any(axis=1))
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    found = np.zeros(matrix.shape[0], dtype=np.bool_)
    found[rows[np.isnan(matrix.data)]] = True
    return found


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
            f"{what} of {who} must be a 2-D array, one row per vector; got {_uneven_row(X) or error}. "
            "Give every row the same number of columns."
        ) from error
    kind = array.dtype.kind
    if kind == "O":
        array = _from_objects(array, who, what)
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
            "Reshape your data: X.reshape(1, -1) if it is a single vector."
        )
    if type(array) is np.ndarray:
        return array
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        row = int(np.argwhere(np.ma.getmaskarray(array))[0, 0])
        raise InputError(
            f"Row {row} of {what} has masked entries; {who} needs every number. "
            "Drop such rows, or fill them: X.filled(value)."
        )
    # other kinds of array, such as numpy.matrix, have rules of their own for slices and products
    return array if isinstance(array, np.memmap) else np.asarray(array)


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


def _csr_blocks(csr: sp.csr_array | sp.csr_matrix) -> list[tuple[int, int]]:
    """Row ranges of about `_BLOCK_VALUES` stored values each."""
    return row_blocks((csr.shape[0], -(-csr.nnz // max(1, csr.shape[0]))))


def _refuse_kind(dtype: np.dtype[Any], who: str, what: str) -> None:
    if dtype.kind == "c":
        raise InputTypeError(
            f"Complex data not supported: {what} of {who} must hold real numbers; got dtype {dtype}. "
            "Stack the parts: np.hstack([X.real, X.imag])."
        )
    if dtype.kind not in "fiub":
        raise InputTypeError(f"{what} of {who} must hold real numbers; got dtype {dtype}. Convert it to floats first.")


def unit_rows(X: Any, who: str, what: str = "X") -> Rows:
    """X as unit rows: a C-contiguous float32 or float64 array, or a CSR matrix with such data.

    The input itself is returned where it already is all that.
    """
    return unit_matrix(as_matrix(X, who, what=what), who, what)


def unit_matrix(matrix: Rows, who: str, what: str = "X", look: FirstLook | None = None) -> Rows:
    """`unit_rows` of what `as_matrix` returned."""
    if not isinstance(matrix, np.ndarray):
        return _unit_csr(matrix, who, what)
    if is_unit(matrix, who, what, look):
        return np.asarray(matrix)
    unit = np.empty(matrix.shape, dtype=computing_dtype(matrix.dtype))
    for start, stop in row_blocks(matrix.shape):
        unit[start:stop] = unit_block(matrix[start:stop], start, who, what)
    return unit


def is_unit(array: npt.NDArray[Any], who: str, what: str = "X", look: FirstLook | None = None) -> bool:
    """Whether the rows are already what the kernels take; rows that have no direction are refused on the way."""
    is_ready = array.dtype in UNIT_TOLERANCE and array.dtype.isnative and array.flags.c_contiguous
    if look is not None and is_ready and look(np.asarray(array), UNIT_TOLERANCE[array.dtype]):
        return True
    for start, stop in row_blocks(array.shape):
        rows = np.asarray(array[start:stop])
        if not (is_ready and _are_all_unit(_squared_norms(rows), UNIT_TOLERANCE[rows.dtype])):
            is_ready &= np.shares_memory(unit_block(rows, start, who, what), rows)
    return is_ready


def row_blocks(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Consecutive row ranges of bounded size that cover the rows."""
    step = max(1, min(_BLOCK_ROWS, _BLOCK_VALUES // max(1, shape[1])))
    return [(start, min(start + step, shape[0])) for start in range(0, shape[0], step)]


def unit_block(block: npt.NDArray[Any], first_row: int, who: str, what: str = "X") -> FloatArray:
    """Rows `first_row, first_row + 1, ...` as C-contiguous unit rows; a view where nothing had to change."""
    rows = _converted(block)
    tolerance = UNIT_TOLERANCE[rows.dtype]
    squares = _squared_norms(rows)
    if _are_all_unit(squares, tolerance):
        return rows.view()
    doubtful = np.flatnonzero(~(np.abs(squares - 1.0) <= tolerance))
    largest = _widened(np.abs(rows[doubtful]).max(axis=1))
    _refuse_rows(largest, first_row + doubtful, who, what)
    factors = safe_factors(largest)
    scaled = rows[doubtful] * factors[:, None]
    norms = np.sqrt(np.vecdot(scaled, scaled))
    off = np.abs(norms - factors) > tolerance * factors
    if not off.any():
        return rows.view()
    unit = rows.copy()
    unit[doubtful[off]] = scaled[off] / norms[off, None]
    return unit


def _converted(block: npt.NDArray[Any]) -> FloatArray:
    """Rows in the dtype in which they are kept; what is beyond it becomes inf, which is refused with a sentence."""
    dtype = computing_dtype(block.dtype)
    if dtype == block.dtype:
        return np.ascontiguousarray(block, dtype=dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(block, dtype=dtype)


def _are_all_unit(squares: FloatArray, tolerance: float) -> bool:
    """Whether squared norms (n,) are all 1 to within the tolerance: a NaN is not."""
    # the two ends take two thirds of the time of the largest distance from 1
    return bool(squares.max(initial=1.0) - 1.0 <= tolerance and 1.0 - squares.min(initial=1.0) <= tolerance)


def _squared_norms(rows: FloatArray) -> FloatArray:
    """Squared norms in the rows' own precision: a fast first look."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if rows.shape[1] > _FEW_COLUMNS:
            return np.vecdot(rows, rows)
        return np.square(rows) @ np.ones(rows.shape[1], rows.dtype)


def safe_factors(largest: Float64Array) -> Float64Array:
    """Powers of two (n,) that bring rows with these largest absolute values to where their squares neither overflow
    nor vanish. Multiplying by them rounds nothing, so norms and directions keep their bits.
    """
    # past 2^1000 the factor itself would overflow; what is left is far from the ends of the range
    return np.ldexp(1.0, -np.clip(np.frexp(largest)[1], -1000, 1000))


def _refuse_rows(largest: Float64Array, row_numbers: npt.NDArray[np.int64], who: str, what: str) -> None:
    """Refuse rows by their largest absolute value: NaN, inf and 0 have no direction."""
    bad = np.flatnonzero(~np.isfinite(largest))
    if bad.size:
        found = "NaN" if np.isnan(largest[bad[0]]) else "inf"
        raise InputError(
            f"Row {row_numbers[bad[0]]} of {what} contains {found}; {who} needs finite numbers (no NaN, no inf). "
            "Drop or impute such rows."
        )
    bad = np.flatnonzero(largest == 0.0)
    if bad.size:
        raise InputError(
            f"Row {row_numbers[bad[0]]} of {what} has norm 0 and no direction; {who} takes rows as directions. "
            "Drop such rows before fitting."
        )


def _unit_csr(matrix: sp.csr_array | sp.csr_matrix, who: str, what: str) -> sp.csr_array | sp.csr_matrix:
    dtype = computing_dtype(matrix.dtype)
    indptr, n_rows = matrix.indptr, matrix.shape[0]
    lengths = indptr[1:] - indptr[:-1]
    norms, factors = np.empty(n_rows), np.ones(n_rows)
    for start, stop in _csr_blocks(matrix):
        first, last = indptr[start], indptr[stop]
        values = _widened(matrix.data[first:last])
        starts = indptr[start:stop] - first
        if not _norms_of_plain_rows(values, starts, last - first, norms[start:stop]):
            part = slice(start, stop)
            norms[part], factors[part] = _scaled_norms(values, starts, lengths[part], start, who, what)
    is_off = np.abs(norms - factors) > UNIT_TOLERANCE[dtype] * factors
    if not is_off.any() and dtype == matrix.dtype:
        return matrix
    norms[~is_off] = factors[~is_off] = 1.0
    data = matrix.data / np.repeat(norms, lengths) if (factors == 1.0).all() else _scaled(matrix, factors, norms)
    return type(matrix)((data.astype(dtype, copy=False), matrix.indices, indptr), shape=matrix.shape)


def _widened(values: npt.NDArray[Any]) -> Float64Array:
    if values.dtype == np.float64:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float64)


def _norms_of_plain_rows(values: Float64Array, starts: npt.NDArray[Any], n_values: int, norms: Float64Array) -> bool:
    """Write the norms of rows whose squares neither overflow nor vanish, and say whether all are such."""
    if n_values == 0 or starts[-1] == n_values or (starts[1:] == starts[:-1]).any():
        return False  # rows without entries
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = np.add.reduceat(values * values, starts)
    np.sqrt(squares, out=norms)
    # written so that NaN is not plain. What vanishes beside such squares is below their rounding by far
    return bool(squares.min() > _PLAIN_SQUARES[0] and squares.max() < _PLAIN_SQUARES[1])


def _scaled_norms(
    values: Float64Array, starts: npt.NDArray[Any], lengths: npt.NDArray[Any], first_row: int, who: str, what: str
) -> tuple[Float64Array, Float64Array]:
    """Norms of rows times powers of two, and these powers; rows that have no direction are refused."""
    largest = np.zeros(len(lengths))
    is_filled = lengths > 0
    if is_filled.any():
        # reduceat from the starts of non-empty rows: each segment then is one row
        largest[is_filled] = np.maximum.reduceat(np.abs(values), starts[is_filled])
    _refuse_rows(largest, first_row + np.arange(len(lengths)), who, what)
    factors = safe_factors(largest)
    scaled = values * np.repeat(factors, lengths)
    return np.sqrt(np.add.reduceat(scaled * scaled, starts)), factors


def _scaled(matrix: Any, factors: Float64Array, norms: Float64Array) -> Float64Array:
    """The values of a CSR matrix, by the factor of their row and then by its norm."""
    lengths = np.diff(matrix.indptr)
    scaled: Float64Array = matrix.data * np.repeat(factors, lengths)
    return scaled / np.repeat(norms, lengths)


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
    value: Any, name: str, who: str, *, low: float = 0.0, is_finite: bool = False, hint: str = ""
) -> float:
    """A number from `low` (if that is 0, above it) to infinity, which is allowed unless it must be finite."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    is_held = is_number and (fits_float(value) or (value == math.inf and not is_finite))  # by a float
    if is_held and (value >= low if low else value > 0.0):
        return float(value)
    rule = f"{f'[{low:g}' if low else '(0'}, inf{')' if is_finite else ']'}"
    raise ParameterError(f"`{name}` of {who} must be a number in {rule}; got {value!r}.{' ' + hint if hint else ''}")


def check_rotation(value: Any, n_features: int, who: str) -> Float64Array | None:
    """A proper rotation (D, D), or None."""
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
    if error > 1e-6:
        raise InputError(f"{rule}; got one whose R R' differs from 1 by {error:.2g}. {way_out}")
    if np.linalg.det(rotation) < 0.0:
        raise InputError(f"{rule}; got a reflection, of determinant -1. {way_out}")
    return rotation


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
    if not may_be_infinite and not np.isfinite(array).all():
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
