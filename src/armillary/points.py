"""What a set of unit vectors is: dense, memory-mapped or CSR, with weights, given out in blocks of unit rows.

Rows are normalised on entry. Arrays that are unit already are never copied. Arrays that are not are converted once,
unless they are memory-mapped or larger than `CONVERT_AT_ONCE`: those stay where they are and each block is
converted when it is asked for. Either way a block holds the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.exceptions import InputError
from armillary.validation import (
    MOST_COPIES,
    MOST_WEIGHT,
    FirstLook,
    as_matrix,
    check_sample_weight,
    computing_dtype,
    is_unit,
    unit_block,
    unit_matrix,
)

# Bytes up to which a converted copy is kept rather than made anew in every pass.
CONVERT_AT_ONCE = 1 << 28
# Counts whose scores float32 carries too: the filter of scores (kernels/contract.py) has bounds in that precision.
_MOST_COUNT = 2.0**100

# Lanes are fixed row ranges whose sums are added in order: enough of them to keep threads busy, each long enough to
# hide the cost of starting it and of its K x D partial sum.
_LANE_ROWS = 2048
_LANE_VALUES = 98_304
_FEW_LANES = 32
_MANY_LANES = 256
_LONG_LANE_ROWS = 1 << 16
# Lanes of narrow rows that threads take in compiled code: shorter, so that threads end together.
_SHORT_LANE_ROWS = 8192


class SparseBlock(NamedTuple):
    """Rows `indptr[i]:indptr[i+1]` of a CSR matrix with `n_features` columns."""

    data: FloatArray
    indices: npt.NDArray[np.integer[Any]]
    indptr: npt.NDArray[np.integer[Any]]
    n_features: int


Block: TypeAlias = FloatArray | SparseBlock


def cut(rows: Block, start: int, stop: int) -> Block:
    """Some consecutive rows of a block."""
    if isinstance(rows, SparseBlock):
        return rows._replace(indptr=rows.indptr[start : stop + 1])
    return rows[start:stop]


def lane_plan(n_rows: int, n_features: int) -> list[tuple[int, int]]:
    """Row ranges that depend on the shape of the data alone, never on threads."""
    shortest = max(_LANE_ROWS, _LANE_VALUES // n_features)
    most = max(1, min(_FEW_LANES, n_rows // shortest), min(_MANY_LANES, n_rows // _LONG_LANE_ROWS))
    n_lanes = 1 << (most.bit_length() - 1)  # a power of two deals evenly to 2, 4, 8, ... threads
    return even_ranges(n_rows, n_lanes)


def short_lane_plan(n_rows: int) -> list[tuple[int, int]]:
    """`lane_plan` for passes that pay next to nothing for each lane."""
    most = max(1, min(_FEW_LANES, n_rows // _SHORT_LANE_ROWS), min(_MANY_LANES, n_rows // _LONG_LANE_ROWS))
    return even_ranges(n_rows, 1 << (most.bit_length() - 1))


def even_ranges(n_rows: int, n_ranges: int) -> list[tuple[int, int]]:
    """Consecutive ranges that cover the rows, their lengths equal to within one."""
    edges = [number * n_rows // n_ranges for number in range(n_ranges + 1)]
    return list(pairwise(edges))


@dataclass(frozen=True, eq=False)
class Points:
    """Unit rows (n, D) and their weights (n,) or None."""

    matrix: Any  # ndarray or CSR, as it came or as converted
    dtype: np.dtype[Any]  # of the blocks given out: float32 or float64
    weights: Float64Array | None
    is_unit: bool  # False: blocks are converted when asked for
    who: str
    scale: float = 1.0  # rows of counts are given out divided by it, so that none is longer than 1

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return int(self.matrix.shape[0])

    @property
    def n_features(self) -> int:
        """How many columns."""
        return int(self.matrix.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether blocks are `SparseBlock`s."""
        return not isinstance(self.matrix, np.ndarray)

    @cached_property
    def total_weight(self) -> float:
        """The sum of the weights; the number of rows where there are none."""
        return float(self.n_rows if self.weights is None else self.weights.sum())

    @cached_property
    def lanes(self) -> list[tuple[int, int]]:
        """The fixed row ranges of a pass."""
        return lane_plan(self.n_rows, self.n_features)

    @cached_property
    def short_lanes(self) -> list[tuple[int, int]]:
        """The fixed row ranges of a pass that pays next to nothing for each."""
        return short_lane_plan(self.n_rows)

    @cached_property
    def short_lane_table(self) -> npt.NDArray[np.int64]:
        """`short_lanes` as an array (L, 2)."""
        return np.array(self.short_lanes, dtype=np.int64)

    def block(self, start: int, stop: int) -> Block:
        """Rows start..stop as unit rows: a view where that is possible."""
        if self.is_sparse:
            csr = self.matrix
            return SparseBlock(csr.data, csr.indices, csr.indptr[start : stop + 1], self.n_features)
        rows = self.matrix[start:stop]
        return np.asarray(rows) if self.is_unit else unit_block(rows, start, self.who)

    def block_weights(self, start: int, stop: int) -> Float64Array | None:
        """The weights of rows start..stop."""
        return None if self.weights is None else self.weights[start:stop]

    def gather(self, numbers: npt.NDArray[np.integer[Any]]) -> Block:
        """Some rows, in the order given, with the bits that `block` gives them."""
        chosen = self.matrix[numbers]
        if self.is_sparse:
            return SparseBlock(chosen.data, chosen.indices, chosen.indptr, self.n_features)
        return chosen if self.is_unit else unit_block(chosen, 0, self.who)

    def take(self, numbers: npt.NDArray[np.int64]) -> Points:
        """Some rows with their weights, as points of their own."""
        weights = None if self.weights is None else self.weights[numbers]
        return Points(self.matrix[numbers], self.dtype, weights, self.is_unit, self.who)

    def as_directions(self) -> Points | None:
        """The rows that are not zero and have weight, made unit: where counts point to; None if there are none."""
        has_direction = np.asarray((self.matrix != 0).sum(axis=1)).ravel() > 0
        if self.weights is not None:
            has_direction &= self.weights > 0.0
        if not has_direction.any():
            return None
        chosen = self.take(np.flatnonzero(has_direction))
        return replace(chosen, matrix=unit_matrix(chosen.matrix, self.who), scale=1.0)

    def counted(self) -> Points:
        """The rows whose weight is above 0: these points themselves where all are."""
        if self.weights is None or self.weights.all():
            return self
        return self.take(np.flatnonzero(self.weights))

    def shuffled(self, generator: np.random.Generator) -> Points:
        """The same rows in a random order."""
        return self.take(generator.permutation(self.n_rows))

    def rows(self, numbers: npt.ArrayLike) -> Float64Array:
        """Some rows (m, D), dense and of unit length in float64."""
        chosen = self.matrix[np.asarray(numbers)]
        dense = chosen.toarray() if self.is_sparse else chosen
        return np.asarray(unit_block(np.asarray(dense, dtype=np.float64), 0, self.who), dtype=np.float64)


def as_points(
    X: Any,
    who: str,
    sample_weight: Any = None,
    expected_features: int | None = None,
    look: FirstLook | None = None,
    most_weight: float = MOST_WEIGHT,
) -> Points:
    """Check X and its weights; `who` (the estimator's name) appears in error sentences.

    `look` is a quicker first look at rows that are unit already; `most_weight` the largest sum of the weights.
    """
    matrix = as_matrix(X, who, expected_features)
    weights = check_sample_weight(sample_weight, matrix.shape[0], who, most=most_weight)
    dtype = computing_dtype(matrix.dtype)
    if isinstance(matrix, np.ndarray) and _stays_in_place(matrix, dtype):
        return Points(matrix, dtype, weights, is_unit(matrix, who, look=look), who)
    return Points(unit_matrix(matrix, who, look=look), dtype, weights, True, who)


def as_count_points(X: Any, who: str, sample_weight: Any = None, expected_features: int | None = None) -> Points:
    """Rows of counts, not unit: finite, none negative, all divided by the length of the longest.

    Filters that bound rounding (kernels/contract.py) hold for rows of length up to 1. A row of zeros is allowed.
    """
    matrix: Any = as_matrix(X, who, expected_features)
    is_dense = isinstance(matrix, np.ndarray)
    values = matrix.ravel() if is_dense else matrix.data
    odd = values[~(np.isfinite(values) & (values >= 0))]
    if odd.size:
        came = "NaN" if np.isnan(odd[0]) else f"{odd[0]:g}"
        # scikit-learn's checks look for the first words
        begin = f"Negative values in data passed to {who}: " if odd[0] < 0 else ""
        raise InputError(
            f"{begin}X of {who} must hold counts, finite and not negative; got {came} among them. Give raw term counts."
        )
    if float(values.max(initial=0)) > _MOST_COUNT:
        raise InputError(
            f"X of {who} must hold counts up to {_MOST_COUNT:.3g}, so that scores stay finite; got "
            f"{float(values.max()):.3g} among them. Give raw term counts, or divide them all by one number."
        )
    weights = check_sample_weight(sample_weight, matrix.shape[0], who, most=MOST_COPIES)
    largest = float(values.max(initial=0)) or 1.0
    rows = (matrix.astype(np.float64, order="C") if is_dense else matrix.astype(np.float64)) / largest
    squares = np.vecdot(rows, rows) if is_dense else np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    longest = float(np.sqrt(squares.max())) or 1.0
    return Points(rows / longest, np.dtype(np.float64), weights, True, who, largest * longest)


def _stays_in_place(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> bool:
    return isinstance(array, np.memmap) or array.size * dtype.itemsize > CONVERT_AT_ONCE
