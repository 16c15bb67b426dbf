"""Sparse matrices whose pointers and indices hold, as CSR: nothing compiled sees an index from outside before that.

SciPy looks at the lengths of the arrays of a matrix when it is made and trusts the numbers in them, then and later:
conversions, sorting, slices and products read and write where they point, and so do our kernels. Even asking for
`has_canonical_format` runs compiled code over them. So every form is looked at here, in full and by NumPy alone, before
anything else is asked of it. Flags that say that columns are sorted or distinct are not believed.
"""

from __future__ import annotations

import numbers
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary.exceptions import InputError, InputTypeError, RowError

Csr = sp.csr_array | sp.csr_matrix

# Indices looked at together: bounds the scratch memory, and keeps it in the cache.
_BLOCK_VALUES = 1 << 18
_INDEX_DTYPES = {np.dtype(name).char for name in ("int32", "int64", "intc", "long", "longlong")}
_FEW_VALUES = 1 << 12  # up to so many, all indices are looked at sooner than the ends of rows are found
_BUILD_AGAIN = (
    "Build it again, e.g. from its rows, columns and values: scipy.sparse.coo_array((values, (rows, columns)))."
)


def checked_csr(X: Any, who: str, what: str = "X") -> Csr:
    """A sparse matrix of any form as CSR: checked in full, every column named once in a row.

    X itself where it is all that already; it is never changed. `who` and `what` are for sentences.
    """
    _refuse_shape(X, who, what)
    match X.format:
        case "csr":
            checked = X
        case "csc":
            _check_compressed(X, X.shape[::-1], ("column", "row"), who, what)
            checked = _converted(X)
        case "coo":
            _check_triples(X, who, what)
            checked = _converted(X)
        case "bsr":
            _check_blocks(X, who, what)
            checked = _converted(X)
        case "dia":
            checked = _csr_of_diagonals(X, who, what)
        case "lil":
            checked = _csr_of_lists(X, who, what)
        case "dok":
            checked = _csr_of_keys(X, who, what)
        case _:
            raise InputTypeError(
                f"{what} of {who} must be an array or a sparse matrix that SciPy has; got {type(X).__name__}. "
                "Convert it: scipy.sparse.csr_array(X)."
            )
    pointers, indices = _check_pointers(checked, checked.shape, ("row", "column"), who, what)
    if _rise(pointers, indices):
        _refuse_outside_at_ends(checked, who, what)
        return _tidy(checked)
    _refuse_outside(indices, pointers, checked.shape[1], who, what)
    return _distinct(checked)


# -------------------------------------------------------------------------------------------------------------- CSR


def _check_pointers(
    matrix: Any, shape: tuple[int, int], names: tuple[str, str], who: str, what: str
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Pointers of `shape[0]` rows into indices and values; returns the pointers, and the indices that they reach."""
    name, other = names
    pointers = _numbers(matrix, "indptr", who, what)
    indices = _numbers(matrix, "indices", who, what)
    n_values = _n_values(matrix, 3 if matrix.format == "bsr" else 1, who, what)
    if len(pointers) != shape[0] + 1:
        raise InputError(
            f"{what} of {who} must have one {name} pointer more than {name}s, {shape[0] + 1}; its indptr has "
            f"{len(pointers)}. Give the matrix its true shape."
        )
    if pointers[0] != 0:
        raise InputError(f"The {name} pointers of {what} of {who} must begin at 0; got {pointers[0]}. {_BUILD_AGAIN}")
    falls = pointers[1:] < pointers[:-1]
    if falls.any():
        row = int(falls.argmax())
        raise InputError(
            f"The {name} pointers of {what} of {who} must not fall; {name} {row} goes from {pointers[row]} to "
            f"{pointers[row + 1]}. {_BUILD_AGAIN}"
        )
    if len(indices) != n_values or pointers[-1] > n_values:
        raise InputError(
            f"{what} of {who} must have a {other} number and a value for each of the {pointers[-1]} entries that its "
            f"{name} pointers name; got {len(indices)} and {n_values}. {_BUILD_AGAIN}"
        )
    return pointers, indices[: pointers[-1]]


def _numbers(matrix: Any, name: str, who: str, what: str) -> npt.NDArray[Any]:
    """An array of indices."""
    array = getattr(matrix, name, None)
    if isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.char in _INDEX_DTYPES and array.dtype.isnative:
        return array
    came = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
    raise InputTypeError(
        f"The array `{name}` of {what} of {who} must be one-dimensional and of int32 or int64; got {came}. "
        f"{_BUILD_AGAIN}"
    )


def _n_values(matrix: Any, n_axes: int, who: str, what: str) -> int:
    """How many values, or lines or blocks of values, a matrix has: an array with so many axes."""
    data = getattr(matrix, "data", None)
    if isinstance(data, np.ndarray) and data.ndim == n_axes:
        return len(data)
    came = f"shape {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
    raise InputTypeError(
        f"The array `data` of {what} of {who} must have {n_axes} axes in a {matrix.format} matrix; got {came}. "
        f"{_BUILD_AGAIN}"
    )


def _rise(pointers: npt.NDArray[Any], indices: npt.NDArray[Any]) -> bool:
    """Whether columns rise from entry to entry in each row: then they are sorted and distinct."""
    for start in range(0, len(indices) - 1, _BLOCK_VALUES):
        part = indices[start : start + _BLOCK_VALUES + 1]
        rises = part[1:] > part[:-1]
        first, last = pointers.searchsorted((start + 1, start + len(part)))
        rises[pointers[first:last] - (start + 1)] = True  # where a row begins
        if not rises.all():
            return False
    return True


def _refuse_outside_at_ends(csr: Csr, who: str, what: str) -> None:
    """Refuse columns outside the matrix, where columns rise in each row: the ends of rows tell."""
    indices, pointers = csr.indices, csr.indptr
    n_entries = int(pointers[-1])
    if n_entries <= _FEW_VALUES:
        _refuse_outside(indices[:n_entries], pointers, csr.shape[1], who, what)
        return
    # a row without entries has the first of the next, and the last of the one before: they are looked at twice
    firsts = indices[np.minimum(pointers[:-1], n_entries - 1)]
    lasts = indices[np.maximum(pointers[1:] - 1, 0)]
    if firsts.min() < 0 or lasts.max() >= csr.shape[1]:
        _refuse_outside(indices[:n_entries], pointers, csr.shape[1], who, what)


def _refuse_outside(indices: npt.NDArray[Any], pointers: npt.NDArray[Any], n_columns: int, who: str, what: str) -> None:
    """Refuse columns outside the matrix, in rows whose columns are in any order."""
    if indices.size == 0 or (indices.min() >= 0 and indices.max() < n_columns):
        return
    bad = int(((indices < 0) | (indices >= n_columns)).argmax())
    row = int(np.searchsorted(pointers, bad, side="right")) - 1
    rule = f"names column {indices[bad]}; {who} got a matrix whose columns go from 0 to {n_columns - 1}."
    raise RowError(row, what, f"{rule} Give the matrix its true shape.")


def _tidy(csr: Csr) -> Csr:
    """The matrix itself; without what lies behind its last entry, where SciPy allows room to spare."""
    n_entries = csr.indptr[-1]
    arrays = csr.data, csr.indices, csr.indptr
    is_tidy = len(csr.data) == n_entries and csr.indices.dtype == csr.indptr.dtype
    if is_tidy and all(array.flags.c_contiguous and array.dtype.isnative for array in arrays):
        return csr
    return _made(csr, csr.data[:n_entries], csr.indices[:n_entries], csr.indptr)


def _made(csr: Csr, data: npt.NDArray[Any], indices: npt.NDArray[Any], pointers: npt.NDArray[Any]) -> Csr:
    """A matrix of the same kind from arrays that hold, without the flags of the old one."""
    kind = sp.csr_array if isinstance(csr, sp.sparray) else sp.csr_matrix
    native = [np.ascontiguousarray(array, array.dtype.newbyteorder("=")) for array in (data, indices, pointers)]
    return kind(tuple(native), shape=csr.shape)


def _distinct(csr: Csr) -> Csr:
    """A copy with columns in order and entries of one place added up.

    What is summed in the order stored then has the bits of dense rows. Whether a place is named twice is not known
    before columns are sorted, so nothing is spared.
    """
    fresh = _made(csr, csr.data[: csr.indptr[-1]], csr.indices[: csr.indptr[-1]], csr.indptr).copy()
    fresh.sum_duplicates()
    return fresh


# ------------------------------------------------------------------------------------------------------ other forms


def _refuse_shape(X: Any, who: str, what: str) -> None:
    shape = X.shape
    if len(shape) != 2:
        raise InputError(
            f"{what} of {who} must be a 2-D matrix, one row per vector; got a sparse array of shape {shape}. "
            "Reshape it to (1, -1) if it is a single vector."
        )
    n_rows, n_columns = shape
    if not (isinstance(n_rows, numbers.Integral) and isinstance(n_columns, numbers.Integral) and min(shape) >= 0):
        raise InputError(
            f"{what} of {who} must have a shape of two whole numbers; got a sparse matrix of shape {shape}. "
            f"{_BUILD_AGAIN}"
        )


def _converted(checked: Any) -> Csr:
    """The CSR matrix of one that holds; SciPy converts no float16."""
    return (checked.astype(np.float32) if checked.dtype == np.float16 else checked).tocsr()


def _check_compressed(matrix: Any, shape: tuple[int, int], names: tuple[str, str], who: str, what: str) -> None:
    """Pointers and indices of CSC, or of blocks; `shape` in the order of `names`."""
    _, indices = _check_pointers(matrix, shape, names, who, what)
    _refuse_numbers(indices, shape[1], names[1], who, what)


def _refuse_numbers(indices: npt.NDArray[Any], length: int, name: str, who: str, what: str) -> None:
    """Refuse numbers of rows, columns or blocks that the matrix has not."""
    if indices.size == 0 or (indices.min() >= 0 and indices.max() < length):
        return
    bad = indices[((indices < 0) | (indices >= length)).argmax()]
    raise InputError(
        f"{what} of {who} must name {name}s from 0 to {length - 1}; got {name} {bad}. Give the matrix its true shape."
    )


def _check_triples(coo: Any, who: str, what: str) -> None:
    rows, columns = _numbers(coo, "row", who, what), _numbers(coo, "col", who, what)
    n_values = _n_values(coo, 1, who, what)
    if not len(rows) == len(columns) == n_values:
        raise InputError(
            f"{what} of {who} must have a row, a column and a value for each entry; got {len(rows)} rows, "
            f"{len(columns)} columns and {n_values} values. {_BUILD_AGAIN}"
        )
    _refuse_numbers(rows, coo.shape[0], "row", who, what)
    _refuse_numbers(columns, coo.shape[1], "column", who, what)


def _check_blocks(bsr: Any, who: str, what: str) -> None:
    _n_values(bsr, 3, who, what)
    size = bsr.data.shape[1:]
    if 0 in size or bsr.shape[0] % size[0] or bsr.shape[1] % size[1]:
        raise InputError(
            f"{what} of {who} must be made of equal blocks; got blocks of shape {size} for a matrix of shape "
            f"{bsr.shape}. {_BUILD_AGAIN}"
        )
    shape = (bsr.shape[0] // size[0], bsr.shape[1] // size[1])
    _check_compressed(bsr, shape, ("block row", "block column"), who, what)


def _csr_of_diagonals(dia: Any, who: str, what: str) -> Csr:
    offsets, n_lines = _numbers(dia, "offsets", who, what), _n_values(dia, 2, who, what)
    n_distinct = len(np.unique(offsets))
    if not n_lines == len(offsets) == n_distinct:
        raise InputError(
            f"{what} of {who} must have one line of values for each diagonal; got {len(offsets)} diagonals, "
            f"{n_distinct} of them distinct, and {n_lines} lines of values. {_BUILD_AGAIN}"
        )
    # diagonals beside the matrix hold nothing, and compiled code adds to their numbers
    is_inside = (offsets > -dia.shape[0]) & (offsets < dia.shape[1])
    return _converted(sp.dia_array((dia.data[is_inside], offsets[is_inside]), shape=dia.shape))


def _csr_of_lists(lil: Any, who: str, what: str) -> Csr:
    lengths = [_length(lil.rows, row) for row in range(lil.shape[0])]
    if lengths != [_length(lil.data, row) for row in range(lil.shape[0])] or -1 in lengths:
        raise InputError(
            f"{what} of {who} must have a list of columns and one of values, as long, for each of its "
            f"{lil.shape[0]} rows; they do not match. {_BUILD_AGAIN}"
        )
    try:
        columns = np.array(list(chain.from_iterable(lil.rows)), dtype=np.int64)
        values = np.array(list(chain.from_iterable(lil.data)), dtype=lil.dtype)
        return sp.csr_array((values, columns, np.cumsum([0, *lengths])), shape=lil.shape)
    except (ValueError, TypeError, OverflowError) as error:
        raise _unreadable(error, "columns and values", who, what) from error


def _length(lists: Any, row: int) -> int:
    """How long a list of a LIL matrix is; -1 where there is none."""
    return len(lists[row]) if row < len(lists) and isinstance(lists[row], list) else -1


def _csr_of_keys(dok: Any, who: str, what: str) -> Csr:
    try:
        triples = dok.tocoo()
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        raise _unreadable(error, "pairs of row and column inside its shape", who, what) from error
    _check_triples(triples, who, what)
    return _converted(triples)


def _unreadable(error: Exception, rule: str, who: str, what: str) -> InputError:
    return InputError(f"{what} of {who} must hold {rule}; they do not convert: {error}. {_BUILD_AGAIN}")
