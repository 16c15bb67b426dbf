"""Rows grouped by slices of time: which slice a row is in, and passes over the rows of each.

Rows are put in the order of time once, with one copy, unless they came in it. A slice is then a range of rows. Slices
without rows are slices too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary.engines.contract import FeatureSlices, Numbered, Passes
from armillary.exceptions import InputError, InputTypeError
from armillary.validation import as_matrix, computing_dtype

Times = npt.NDArray[Any]
R = TypeVar("R")

_KINDS = {"f": "number", "i": "number", "M": "date", "O": "string"}


# ----------------------------------------------------------------------------------------------------- what came in


def is_batches(X: Any) -> bool:
    """Whether X is a list of batches, each with rows of its own, rather than rows."""
    return isinstance(X, list | tuple) and len(X) > 0 and all(_is_table(batch) for batch in X)


def _is_table(batch: Any) -> bool:
    return len(getattr(batch, "shape", ())) == 2


def join_batches(batches: Sequence[Any], who: str) -> tuple[Any, npt.NDArray[np.int64]]:
    """The rows of all batches, one below the other, and the number of the batch that each row (n,) came in."""
    widths = [batch.shape[1] for batch in batches]
    for number, width in enumerate(widths):
        if width != widths[0]:
            raise InputError(
                f"Batches of {who} must have the same columns; batch 0 has {widths[0]} and batch {number} has {width}. "
                "Give an empty batch its columns too, e.g. X[:0]."
            )
    numbers = np.repeat(np.arange(len(batches)), [batch.shape[0] for batch in batches])
    # each through the gate: what is joined is compiled code's to trust
    tables: list[Any] = [
        as_matrix(batch, who, what=f"Batch {k}") for k, batch in enumerate(batches) if batch.shape[0] > 0
    ]
    if not tables:
        return np.empty((0, widths[0])), numbers
    if any(sp.issparse(table) for table in tables):
        # float16 and the like have no sparse form
        kept = [table.astype(computing_dtype(table.dtype), copy=False) for table in tables]
        return sp.vstack([sp.csr_array(table) for table in kept], format="csr"), numbers
    return np.concatenate(tables), numbers


def times_of_rows(stamps: Times, batches: Sequence[Any]) -> Times:
    """The time of each row of all batches in turn, from those of the batches."""
    return np.repeat(stamps, [batch.shape[0] for batch in batches])


def join_weights(sample_weight: Any, batches: Sequence[Any], who: str) -> Any:
    """Weights of all rows in turn: one array for each batch, or what came."""
    if not (isinstance(sample_weight, list | tuple) and all(np.ndim(part) == 1 for part in sample_weight)):
        return sample_weight
    lengths = [len(part) for part in sample_weight]
    rows = [batch.shape[0] for batch in batches]
    if lengths != rows:
        raise InputError(
            f"`sample_weight` of {who} must have one array for each batch, of its number of rows {rows}; got arrays of "
            f"lengths {lengths}. Or give one array for the rows of all batches in turn."
        )
    return np.concatenate(sample_weight)


def as_times(times: Any, name: str, who: str) -> Times:
    """Times as int64, float64, datetime64 or, where they are strings, objects: any shape, none of them missing."""
    try:
        values = np.asarray(times)
    except ValueError:
        raise InputTypeError(
            f"`{name}` of {who} must be numbers, strings or dates, one for each row; got lists of different lengths. "
            "Number the slices 0, 1, ..."
        ) from None
    if values.dtype.kind == "O" and values.size and not all(isinstance(value, str) for value in values.flat):
        values = _from_objects(values, name, who)
    kind = values.dtype.kind
    if kind in "biu":
        values = values.astype(np.int64)
    elif kind == "f":
        values = values.astype(np.float64)
    elif kind in "UT":
        values = values.astype(object)
    elif kind not in "MO":
        raise InputTypeError(
            f"`{name}` of {who} must be numbers, strings or dates; got dtype {values.dtype}. "
            "Number the slices 0, 1, ..."
        )
    if kind in "fM" and (np.isnan(values) if kind == "f" else np.isnat(values)).any():
        raise InputError(f"`{name}` of {who} must not be missing; got NaN or NaT among them. Drop such rows.")
    if kind == "f" and not np.isfinite(values).all():
        raise InputError(f"`{name}` of {who} must be finite; got {values[~np.isfinite(values)][0]}. Number the slices.")
    return values


def _from_objects(values: Times, name: str, who: str) -> Times:
    """Dates and numbers that came as Python objects."""
    for wanted in (np.float64, "datetime64"):
        try:
            converted = values.astype(wanted)
        except (TypeError, ValueError, OverflowError):
            continue
        return converted
    raise InputTypeError(
        f"`{name}` of {who} must be numbers, strings or dates, all of one kind; got {values.flat[0]!r} and others. "
        "Number the slices 0, 1, ..."
    )


def find_slices(times: Any, slices: Any, n_rows: int, who: str) -> tuple[Times, npt.NDArray[np.int64]]:
    """The slices of a fit (T,), rising, and the number of the slice of each row (n,).

    Every time is a slice, and so is every value of `slices`, which may have no rows; each time must then be among them.
    """
    values = _one_per_row(as_times(times, "times", who), n_rows, who)
    if slices is None:
        found, numbers = np.unique(values, return_inverse=True)
        return found, numbers.astype(np.int64)
    named = as_times(slices, "slices", who)
    if named.ndim != 1 or len(np.unique(named)) != len(named) or len(named) == 0:
        raise InputError(
            f"`slices` of {who} must be the times of the slices, each named once; got shape {named.shape} with "
            f"{len(np.unique(named))} different values. Give e.g. range(1987, 2000)."
        )
    named = np.sort(named)
    return named, locate_slices(values, named, n_rows, who, "Add it to `slices`, or drop such rows.")


def locate_slices(times: Any, known: Times, n_rows: int, who: str, way_out: str) -> npt.NDArray[np.int64]:
    """The number of the slice of each row (n,), for slices that are known (T,)."""
    values = _one_per_row(as_times(times, "times", who), n_rows, who)
    ours, theirs = (_KINDS[array.dtype.kind] for array in (known, values))
    if values.size and ours != theirs:
        raise InputTypeError(
            f"`times` of {who} must be {ours}s like the slices, {_said(known)}; got {theirs}s such as "
            f"{values.flat[0]!r}. Convert them."
        )
    places = np.minimum(np.searchsorted(known, values), len(known) - 1)
    unknown = np.flatnonzero(known[places] != values)
    if unknown.size:
        raise InputError(
            f"`times` of {who} must be among its {len(known)} slices, {_said(known)}; got {values[unknown[0]]!s} for "
            f"row {unknown[0]}. {way_out}"
        )
    return places.astype(np.int64)


def next_time(time: Any, last: Times | None, who: str) -> Times:
    """The time of the next slice of a stream (1,): later than `last`, those before, where there are any."""
    if time is None:
        if last is None:
            return np.zeros(1, dtype=np.int64)
        if last.dtype.kind not in "if":
            raise InputError(
                f"`time` of {who}.partial_fit must be given where slices are not numbered; the last one is "
                f"{last[-1]!s}. Give a later one."
            )
        return last[-1:] + 1
    now = np.atleast_1d(as_times(time, "time", who))
    if now.shape != (1,):
        raise InputError(
            f"`time` of {who}.partial_fit must be one value, that of all rows; got shape {now.shape}. "
            "Give the slices one after the other, or all to fit."
        )
    if last is not None:
        is_alike = now.dtype.kind == last.dtype.kind or {now.dtype.kind, last.dtype.kind} <= {"i", "f"}
        if not (is_alike and now[0] > last[-1]):
            raise InputError(
                f"`time` of {who}.partial_fit must be later than the last slice, {last[-1]!s}; got "
                f"{now[0]!s}. A stream goes on forward; fit takes slices in any order."
            )
    return now


def _one_per_row(values: Times, n_rows: int, who: str) -> Times:
    if values.ndim == 0:
        return np.full(n_rows, values)
    if values.shape != (n_rows,):
        raise InputError(
            f"`times` of {who} must have one value per row, shape ({n_rows},); got {values.shape}. "
            "Give the time of each row of X, or one for all."
        )
    return values


def _said(known: Times) -> str:
    return f"{known[0]!s}" if len(known) == 1 else f"{known[0]!s} to {known[-1]!s}"


# ------------------------------------------------------------------------------------------------------------ passes


class SlicedPasses:
    """Passes over the rows of each of T slices, and over all of them, in the order of time."""

    def __init__(self, whole: Passes, edges: npt.NDArray[np.int64], order: npt.NDArray[np.int64] | None = None) -> None:
        self.whole = whole
        self.edges = edges  # (T + 1,) where each slice begins and ends
        self._order = order  # (n,) where each row came from; None where rows came in order

    @classmethod
    def of(cls, passes: Passes, numbers: npt.NDArray[np.int64], n_slices: int) -> SlicedPasses:
        """From the number of the slice of each row (n,)."""
        edges = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=n_slices))])
        if np.all(numbers[:-1] <= numbers[1:]):
            return cls(passes, edges)
        order = np.argsort(numbers, kind="stable")
        return cls(passes.over(Numbered(order)), edges, order)

    @classmethod
    def last(cls, passes: Passes, n_slices: int = 1) -> SlicedPasses:
        """All rows in the last slice."""
        return cls(passes, np.array([0] * n_slices + [passes.points.n_rows]))

    def __len__(self) -> int:
        return len(self.edges) - 1

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Rows of each slice (T,)."""
        return np.diff(self.edges)

    def each(self, task: Callable[[int, Passes], R], otherwise: Callable[[int], R]) -> list[R]:
        """`task(number, passes)` of each slice with rows and `otherwise(number)` of each without, in order of time."""
        filled = np.flatnonzero(self.sizes).tolist()
        spans = [(int(self.edges[number]), int(self.edges[number + 1])) for number in filled]
        found = dict(zip(filled, self.whole.each(spans, lambda place, rows: task(filled[place], rows)), strict=True))
        return [found[number] if number in found else otherwise(number) for number in range(len(self))]

    def rows(self, task: Callable[[int, Passes], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Values (n, ...) of the rows, in the order in which they came, from `task(number, passes)` of each slice."""
        parts = [part for part in self.each(task, lambda _: None) if part is not None]
        return self.as_given(np.concatenate(parts))

    def as_given(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values (n, ...) of the rows in the order of time, in the order in which the rows came."""
        if self._order is None:
            return values
        given = np.empty_like(values)
        given[self._order] = values
        return given

    @cached_property
    def by_feature(self) -> FeatureSlices | None:
        """Sparse rows by feature, where the engine can."""
        return self.whole.by_feature(self.edges)
