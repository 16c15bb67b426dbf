"""Rows grouped by slices of time: which slice a row is in, its rows as points of their own, and passes over each.

Rows are put in the order of time once, with one copy, unless they came in it. A slice is then a view. Slices without
rows are slices too. Small slices run side by side and large ones one after the other: the bits do not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary.exceptions import InputError, InputTypeError
from armillary.fitting.feature_slices import FeatureSlices
from armillary.fitting.passes import Passes
from armillary.fitting.workers import Workers
from armillary.kernels.contract import Kernels
from armillary.points import Points
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


# ------------------------------------------------------------------------------------------------------------ points


@dataclass(frozen=True, eq=False)
class SlicedPoints:
    """Points in the order of time, and where each of T slices begins and ends."""

    points: Points
    edges: npt.NDArray[np.int64]  # (T + 1,)
    order: npt.NDArray[np.int64] | None  # (n,) where each row came from; None where rows came in order

    @classmethod
    def of(cls, points: Points, numbers: npt.NDArray[np.int64], n_slices: int) -> SlicedPoints:
        """From the number of the slice of each row (n,)."""
        edges = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=n_slices))])
        if np.all(numbers[:-1] <= numbers[1:]):
            return cls(points, edges, None)
        order = np.argsort(numbers, kind="stable")
        return cls(points.take(order), edges, order)

    def __len__(self) -> int:
        return len(self.edges) - 1

    def __getitem__(self, number: int) -> Points:
        """The rows of one slice: a view."""
        start, stop = (int(edge) for edge in self.edges[number : number + 2])
        matrix, weights = self.points.matrix, self.points.block_weights(start, stop)
        if not self.points.is_sparse:
            return replace(self.points, matrix=matrix[start:stop], weights=weights)
        # put in place afterwards: SciPy copies values that are a small part of others
        part = type(matrix)((stop - start, matrix.shape[1]), dtype=matrix.dtype)
        first, last = matrix.indptr[start], matrix.indptr[stop]
        part.data, part.indices = matrix.data[first:last], matrix.indices[first:last]
        part.indptr = matrix.indptr[start : stop + 1] - first
        return replace(self.points, matrix=part, weights=weights)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Rows of each slice (T,)."""
        return np.diff(self.edges)

    def as_given(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values (n, ...) of the rows in the order of time, in the order in which the rows came."""
        if self.order is None:
            return values
        given = np.empty_like(values)
        given[self.order] = values
        return given


# ------------------------------------------------------------------------------------------------------------ passes


class SlicedPasses:
    """Passes over the rows of each slice, and over all of them."""

    def __init__(self, sliced: SlicedPoints, kernels: Kernels, workers: Workers) -> None:
        self.sliced = sliced
        self.whole = Passes(sliced.points, kernels, workers)
        self._workers = workers

    def each(self, task: Callable[[int, Passes], R], otherwise: Callable[[int], R]) -> list[R]:
        """`task(number, passes)` of each slice with rows and `otherwise(number)` of each without, in order of time."""
        sizes = self.sliced.sizes

        def one(number: int, over: Passes) -> R:
            return task(number, over.over(self._parts[number])) if sizes[number] else otherwise(number)

        # threads within a slice wait for its last lane, and small slices have only one
        if self._workers.n_threads == 1 or len(sizes) < 2 * self._workers.n_threads:
            return [one(number, self.whole) for number in range(len(sizes))]
        alone = Passes(self.sliced.points, self.whole.kernels, Workers(1))
        results: list[R] = []
        self._workers.run(lambda number: one(number, alone), len(sizes), results.append)
        return results

    def rows(self, task: Callable[[int, Passes], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Values (n, ...) of the rows, in the order in which they came, from `task(number, passes)` of each slice."""
        parts = [part for part in self.each(task, lambda _: None) if part is not None]
        return self.sliced.as_given(np.concatenate(parts))

    @cached_property
    def by_feature(self) -> FeatureSlices:
        """Passes over sparse rows that go by feature."""
        return FeatureSlices(self.sliced, self.whole.kernels, self._workers)

    @cached_property
    def _parts(self) -> list[Points]:
        return [self.sliced[number] for number in range(len(self.sliced))]
