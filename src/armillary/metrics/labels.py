"""What a label is: anything hashable that is not missing. Labels become the integers 0, 1, 2, ... here."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.exceptions import InputError

_NUMBERS_AND_DATES = "biufcmM"


def label_codes(labels: Any, name: str, who: str) -> tuple[npt.NDArray[np.intp], list[Any]]:
    """Codes (n,) and the distinct labels they stand for: `distinct[codes[i]] == labels[i]`.

    Distinct labels are in increasing order, or in order of first appearance where they cannot be compared
    (1 and "a").
    """
    # NumPy would turn the list [1, "1"] into two equal strings; as objects they stay apart
    array = np.asarray(labels, dtype=None if hasattr(labels, "__array__") else object)
    if array.ndim != 1:
        raise InputError(
            f"`{name}` of {who} must be one-dimensional, one label per row; got shape {array.shape}. "
            "A column becomes labels with .ravel(), a table of scores with .argmax(axis=1)."
        )
    if array.size == 0:
        raise InputError(f"`{name}` of {who} must have at least one label; got none. Check the filter that made it.")
    if array.dtype.kind in _NUMBERS_AND_DATES:
        _refuse_missing(array != array, array, name, who)
        distinct, codes = np.unique(array, return_inverse=True)
        return codes, distinct.tolist()
    return _object_codes(array, name, who)


def _object_codes(array: npt.NDArray[Any], name: str, who: str) -> tuple[npt.NDArray[np.intp], list[Any]]:
    """Codes by hashing: strings are sorted once each, not once per row."""
    values = array.tolist()
    try:
        distinct = list(dict.fromkeys(values))
    except TypeError as error:
        raise InputError(
            f"`{name}` of {who} must hold hashable labels such as ints or strings; {error}. "
            "Turn each label into a string or a tuple."
        ) from error
    if any(_is_missing(label) for label in distinct):
        _refuse_missing(np.array([_is_missing(label) for label in values]), array, name, who)
    with suppress(TypeError):  # labels that cannot be compared keep their order of first appearance
        distinct = sorted(distinct)
    code_of = {label: code for code, label in enumerate(distinct)}
    return np.array([code_of[label] for label in values], dtype=np.intp), distinct


def _is_missing(label: Any) -> bool:
    """None, NaN, NaT, and pandas.NA, which refuses to be true or false."""
    try:
        return label is None or bool(label != label)
    except TypeError:
        return True


def _refuse_missing(is_missing: npt.NDArray[np.bool_], array: npt.NDArray[Any], name: str, who: str) -> None:
    rows = np.flatnonzero(is_missing)
    if rows.size:
        raise InputError(
            f"`{name}` of {who} must have a label for every row; got {array[rows[0]]} in row {rows[0]} "
            f"({rows.size} missing in all). Drop these rows from both arguments, or give them a label of their own."
        )
