"""Labels, times and texts of rows, one for each, from a file beside the vectors."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.exceptions import InputError
from armillary.files import arrays
from armillary.files.formats import format_of
from armillary.files.separated import read_table
from armillary.files.source import Source, read_text
from armillary.files.tables import Choice, read_arrow_table, read_parquet_table
from armillary.sources.columns import LABEL_NAMES, some
from armillary.validation import check_integer, check_path


def read_labels(path: str | os.PathLike[str], n_rows: int, column: str | None = None) -> npt.NDArray[Any]:
    """One label for each of `n_rows` rows: an array, lines, a column of a table, or the targets of an svmlight file.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    n_rows : int
        How many there must be.
    column : str, optional
        Of a table; by default the only one that can be labels.

    Returns
    -------
    array of shape (n_rows,)
        Numbers or words.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from armillary.files import read_labels
    >>> path = tempfile.mkdtemp() + "/truth.npy"
    >>> np.save(path, np.array([0, 1, 1]))
    >>> read_labels(path, 3)
    array([0, 1, 1])
    """
    return read_column(path, check_integer(n_rows, "n_rows", "read_labels", low=0), "labels", LABEL_NAMES, column)


def read_words(
    path: str | os.PathLike[str], n_rows: int, what: str, names: Collection[str], column: str | None = None
) -> list[str]:
    """One text for each of `n_rows` rows; `names` are those that a column of them may have."""
    return [str(value) for value in read_column(path, n_rows, what, names, column).tolist()]


def read_cluster_names(path: str | os.PathLike[str]) -> dict[int, str]:
    """Names by cluster: a table with the columns cluster and name, a JSON object, or lines (line k names cluster k)."""
    given = check_path(path, "read_cluster_names")
    if given.endswith(".json"):
        return _json_names(read_text(given), given)
    if given.endswith(".txt"):
        return {label: str(name) for label, name in enumerate(_lines(read_text(given))) if str(name).strip()}
    labels = _values(given, "clusters", {"cluster", "label"}, "cluster")
    names = _values(given, "names", {"name"}, "name")
    try:
        return {int(label): "" if name is None else str(name) for label, name in zip(labels, names, strict=True)}
    except (TypeError, ValueError):
        raise InputError(
            f"'{given}' must have whole numbers in its column 'cluster'; it has others. Write e.g. cluster,name on the "
            "first line and 3,lost cards below."
        ) from None


def _json_names(text: str, path: str) -> dict[int, str]:
    try:
        content = json.loads(text)
        return {int(label): str(name) for label, name in content.items()}
    except (ValueError, RecursionError, AttributeError, TypeError):
        raise InputError(
            f'\'{path}\' must be a JSON object of names by cluster; it is not. Write e.g. {{"3": "lost cards"}}.'
        ) from None


def read_column(
    path: str | os.PathLike[str], n_rows: int, what: str, names: Collection[str], column: str | None = None
) -> npt.NDArray[Any]:
    """One value for each of `n_rows` rows, of whatever kind; `what` they are, and `names` a column of them may have."""
    values = _values(check_path(path, f"read_{what}"), what, names, column)
    if values.ndim == 2 and 1 in values.shape:
        values = values.ravel()
    if values.ndim != 1 or len(values) != n_rows:
        shape = " x ".join(f"{length:,}" for length in values.shape)
        raise InputError(
            f"'{os.fsdecode(path)}' must have {what} for each of the {n_rows:,} rows; it has "
            f"{shape if values.ndim == 1 else f'shape {shape}'}. Check that both come from the same rows."
        )
    return values


def _values(path: str, what: str, names: Collection[str], column: str | None) -> npt.NDArray[Any]:
    if path.removesuffix(".gz").removesuffix(".bz2").removesuffix(".xz").endswith(".txt"):
        return _lines(read_text(path))
    kind = format_of(path)
    if kind == "jsonl":
        return _json_values(read_text(path), path, names, column)
    source = Source.of(path, kind)
    match kind:
        case "npy":
            return arrays.read_npy(source)
        case "npz":
            known = arrays.npz_arrays(source)
            return known[_named(path, [name for name, one in known.items() if one.ndim == 1], what, names, column)]
        case "svmlight":
            return arrays.read_svmlight(source)[1]
        case "csv" | "tsv":
            table = read_table(source, Choice(text_column=column))
        case "parquet":
            table = read_parquet_table(source)
        case "arrow":
            table = read_arrow_table(source)
        case _:
            raise InputError(
                f"'{path}' must be a file with {what}: txt, csv, tsv, npy, npz, jsonl, parquet, arrow or svmlight; "
                f"it is {kind}."
            )
    return np.array(table[_named(path, list(table), what, names, column)].to_pylist(), dtype=object)


def _lines(text: str) -> npt.NDArray[Any]:
    # not splitlines(): a text may hold the marks by which Unicode ends paragraphs
    return np.array(text.removesuffix("\n").replace("\r\n", "\n").split("\n"), dtype=object)


def _json_values(text: str, path: str, names: Collection[str], column: str | None) -> npt.NDArray[Any]:
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"Line {number} of '{path}' must be JSON; it does not read ({error}).") from error
        if isinstance(value, dict):
            value = value[_named(path, list(value), f"line {number}", names, column)]
        found.append(value)
    values = np.empty(len(found), dtype=object)
    values[:] = found
    return values


def _named(path: str, known: list[str], what: str, names: Collection[str], column: str | None) -> str:
    """The column that is meant: the one named, the only one, or the only one with a telling name."""
    if column is not None:
        if column not in known:
            raise InputError(f"'{path}' has no column '{column}'. Its columns: {some(known)}.")
        return column
    telling = [name for name in known if name.strip().lower() in names]
    for candidates in (telling, known):
        if len(candidates) == 1:
            return candidates[0]
    raise InputError(
        f"'{path}' must have one column of {what}, or one named {', '.join(sorted(names))}; its columns: "
        f"{some(known)}. Name the right one by its column option."
    )
