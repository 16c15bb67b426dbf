"""What a set of unit vectors is: dense, memory-mapped or CSR, with weights, given out in blocks of unit rows.

Rows are normalised on entry. Arrays that are unit already are never copied. Arrays that are not are converted once,
unless they are memory-mapped or larger than `CONVERT_AT_ONCE`: those stay where they are and each block is
converted when it is asked for. Either way a block holds the same bits. Rows on disk (`sources`) stay there: they are
looked at and made unit as a pass reads them, a stretch ahead of the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary._typing import Float64Array, FloatArray
from armillary.exceptions import InputError, RowError
from armillary.sources.ahead import Ahead
from armillary.sources.memory import in_words
from armillary.sources.stored import StoredRows
from armillary.sources.watched import MappedFile
from armillary.sums import whole
from armillary.validation import (
    MOST_COPIES,
    MOST_WEIGHT,
    Gauge,
    as_matrix,
    check_sample_weight,
    check_shape,
    column_squares,
    computing_dtype,
    has_direction,
    is_unit,
    stored_squares,
    unit_block,
    unit_matrix,
)

# Bytes up to which a converted copy is kept rather than made anew in every pass.
CONVERT_AT_ONCE = 1 << 28
# Counts whose scores float32 carries too: the filter of scores (kernels/rows/contract.py) has bounds in that precision.
_MOST_COUNT = 2.0**100

# Dense rows up to this wide are taken a lane at a time, and walked over in compiled code: loops tile them themselves.
NARROW = 16

# Lanes are fixed row ranges whose sums are added in order: enough of them to keep threads busy, each long enough to
# hide the cost of starting it and of its K x D partial sum. Many rows have more lanes, none of them longer than what is
# read from disk in one go: 32 to 64 MB of float32.
_LANE_ROWS = 2048
_LANE_VALUES = 12_288
_FEW_LANES = 32
_MORE_LANES = 64
_MANY_LANES = 256
_LONG_LANE_ROWS = 1 << 16
_LONG_LANE_VALUES = 1 << 23
_VERY_MANY_LANES = 1 << 14
# Lanes of narrow rows that threads take in compiled code: shorter, so that threads end together.
_SHORT_LANE_ROWS = 4096


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


def joined_blocks(blocks: Sequence[Block], order: npt.NDArray[np.intp]) -> Block:
    """Blocks as one, its rows in another order."""
    if not any(isinstance(block, SparseBlock) for block in blocks):
        return np.concatenate(cast(Sequence[FloatArray], blocks))[order]
    joined = sp.vstack([as_csr(cast(SparseBlock, block)) for block in blocks], format="csr")[order]
    return SparseBlock(joined.data, joined.indices, joined.indptr, joined.shape[1])


def as_csr(rows: SparseBlock) -> Any:
    """A block as SciPy's CSR."""
    held = slice(rows.indptr[0], rows.indptr[-1])
    arrays = rows.data[held], rows.indices[held], rows.indptr - rows.indptr[0]
    return sp.csr_array(arrays, shape=(len(rows.indptr) - 1, rows.n_features))


def as_float64(rows: Block) -> Any:
    """A block in float64, an array or CSR; not made unit again."""
    if isinstance(rows, SparseBlock):
        return as_csr(rows).astype(np.float64, copy=False)
    return rows.astype(np.float64, copy=False)


def lane_plan(n_rows: int, n_features: int) -> list[tuple[int, int]]:
    """Row ranges that depend on the shape of the data alone, never on threads."""
    shortest = max(_LANE_ROWS, _LANE_VALUES // n_features)
    longest = max(shortest, min(_LONG_LANE_ROWS, _LONG_LANE_VALUES // n_features))
    most = max(1, min(_FEW_LANES, n_rows // shortest), min(_VERY_MANY_LANES, n_rows // longest))
    n_lanes = 1 << (most.bit_length() - 1)  # a power of two deals evenly to 2, 4, 8, ... threads
    return even_ranges(n_rows, n_lanes)


def short_lane_plan(n_rows: int) -> list[tuple[int, int]]:
    """`lane_plan` for passes that pay next to nothing for each lane."""
    most = max(1, min(_MORE_LANES, n_rows // _SHORT_LANE_ROWS), min(_MANY_LANES, n_rows // _LONG_LANE_ROWS))
    return even_ranges(n_rows, 1 << (most.bit_length() - 1))


def even_ranges(n_rows: int, n_ranges: int) -> list[tuple[int, int]]:
    """Consecutive ranges that cover the rows, their lengths equal to within one."""
    edges = [number * n_rows // n_ranges for number in range(n_ranges + 1)]
    return list(pairwise(edges))


def everywhere(
    found: npt.NDArray[Any], is_present: npt.NDArray[np.bool_] | None, other: float = -1
) -> npt.NDArray[Any]:
    """What was found of the rows that are here (m, ...), for all that came (n, ...): `other` for those missing."""
    if is_present is None:
        return found
    spread = np.full((len(is_present), *found.shape[1:]), other, dtype=found.dtype)
    spread[is_present] = found
    return spread


@dataclass(frozen=True, eq=False)
class Points:
    """Unit rows (n, D) and their weights (n,) or None."""

    matrix: Any  # ndarray or CSR, as it came or as converted; or rows on disk
    dtype: np.dtype[Any]  # of the blocks given out: float32 or float64
    weights: Float64Array | None
    is_unit: bool  # False: blocks are converted when asked for
    who: str
    scale: float = 1.0  # rows of counts are given out divided by it, so that none is longer than 1
    first_row: int = 0  # the number of row 0 among the rows that these are a part of
    is_present: npt.NDArray[np.bool_] | None = None  # which of the rows that came are here; None: all
    engine: str = "cpu"
    gauge: Gauge | None = None  # how norms of blocks are found; None: by NumPy
    grid: int | None = None  # q of the set of rows that these are a part of; None: they are all
    # where these are some lanes of the rows that they are a part of: those lanes, which are not cut again
    own_lanes: tuple[tuple[int, int], ...] | None = None
    file: MappedFile | None = None  # under the rows, where they are a memory map

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return int(self.matrix.shape[0])

    @property
    def n_given(self) -> int:
        """How many rows came, those that are missing included."""
        return self.n_rows if self.is_present is None else len(self.is_present)

    def spread(self, found: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Numbers of the rows that are here (n, ...), for all that came: NaN for those that are missing."""
        return everywhere(found, self.is_present, np.nan)

    @property
    def n_features(self) -> int:
        """How many columns."""
        return int(self.matrix.shape[1])

    @property
    def width(self) -> float:
        """Numbers that a row has, on average: columns, or entries of a sparse row."""
        # entries of rows on disk are not counted before they are read
        return self.matrix.nnz / self.n_rows if self.is_sparse and not self.is_stored else float(self.n_features)

    @property
    def is_sparse(self) -> bool:
        """Whether blocks are `SparseBlock`s."""
        return self.matrix.is_sparse if self.is_stored else not isinstance(self.matrix, np.ndarray)

    @property
    def is_stored(self) -> bool:
        """Whether the rows are on disk."""
        return isinstance(self.matrix, StoredRows)

    @property
    def has_weights(self) -> bool:
        """Whether rows have weights."""
        return self.weights is not None

    @cached_property
    def q(self) -> int:
        """Sums over labelled rows are multiples of 2^-q (sums/whole.py); parts of a set have that of the set."""
        if self.grid is not None:
            return self.grid
        return whole.exponent(self.n_rows) if self.weights is None else whole.weights_exponent([self.weights])

    @cached_property
    def total_weight(self) -> float:
        """The sum of the weights, whole as all sums are; the number of rows where there are none."""
        return float(self.n_rows if self.sum_weights is None else whole.rounded(self.sum_weights, self.q).sum())

    @cached_property
    def sum_weights(self) -> Float64Array | None:
        """The weights as sums over labelled rows have them (`whole.lifted`)."""
        return None if self.weights is None else whole.lifted(self.weights, self.q)

    @cached_property
    def lanes(self) -> list[tuple[int, int]]:
        """The fixed row ranges of a pass."""
        return lane_plan(self.n_rows, self.n_features) if self.own_lanes is None else list(self.own_lanes)

    @cached_property
    def lane_table(self) -> npt.NDArray[np.int64]:
        """`lanes` as an array (L, 2)."""
        return np.array(self.lanes, dtype=np.int64)

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
        if self.is_stored:
            return self._unit(self.matrix.read(start, stop), start)
        if self.is_sparse:
            csr = self.matrix
            return SparseBlock(csr.data, csr.indices, csr.indptr[start : stop + 1], self.n_features)
        self.check_there()
        rows = self.matrix[start:stop]
        return np.asarray(rows) if self.is_unit else unit_block(rows, start, self.who, gauge=self.gauge)

    def check_there(self) -> None:
        """Refuse a memory map whose file has become shorter: to read it would end the process."""
        if self.file is not None:
            self.file.check_there()

    def check_unchanged(self) -> None:
        """Refuse rows whose files are not as they were at the gate."""
        if self.is_stored:
            self.matrix.check_unchanged()
        elif self.file is not None:
            self.file.check_unchanged()

    def at_hand(self, first: int, last: int) -> AbstractContextManager[Points | RowsAtHand]:
        """Something that gives blocks of rows first..last from memory: rows on disk are read ahead for that.

        Rows are read ahead where a pass takes its lanes in order.
        """
        return self._read(first, last) if self.is_stored else nullcontext(self)

    @contextmanager
    def _read(self, first: int, last: int) -> Iterator[RowsAtHand]:
        with self._ahead.stretch(first, last) as rows:
            yield RowsAtHand(self, first, self._unit(rows, first) if self.is_sparse else rows)

    @cached_property
    def _ahead(self) -> Ahead:
        return Ahead(self.matrix, {**dict(pairwise(self.short_lanes)), **dict(pairwise(self.lanes))})

    def _unit(self, rows: Any, first: int, places: npt.NDArray[np.integer[Any]] | None = None) -> Block:
        """Rows from disk as unit rows; sentences say in which file a row is, by its number or that in `places`."""
        try:
            if not self.is_sparse:
                return unit_block(rows, first, self.who, gauge=self.gauge)
            unit: Any = unit_matrix(rows, self.who, gauge=self.gauge)
            return SparseBlock(unit.data, unit.indices, unit.indptr, self.n_features)
        except RowError as error:
            moved = error if not self.is_sparse else error.moved(first)
            if places is not None:
                moved = error.moved(int(places[error.row]) - error.row)
            raise moved.at(self.matrix.place(moved.row)) from None

    def block_weights(self, start: int, stop: int) -> Float64Array | None:
        """The weights of rows start..stop."""
        return None if self.weights is None else self.weights[start:stop]

    def gather(self, numbers: npt.NDArray[np.integer[Any]]) -> Block:
        """Some rows, in the order given, with the bits that `block` gives them."""
        self.check_there()
        chosen = self.matrix[numbers]
        if self.is_stored:
            return self._unit(chosen, 0, numbers)
        if self.is_sparse:
            return SparseBlock(chosen.data, chosen.indices, chosen.indptr, self.n_features)
        return chosen if self.is_unit else unit_block(chosen, 0, self.who, gauge=self.gauge)

    def have_direction(self) -> npt.NDArray[np.bool_]:
        """Which rows (n,) on disk are finite and not all zero: one reading of all of them."""
        found = np.empty(self.n_rows, np.bool_)
        for first, last in self.lanes:
            with self._ahead.stretch(first, last) as rows:
                found[first:last] = has_direction(rows)
        return found

    def take(self, numbers: npt.NDArray[np.int64]) -> Points:
        """Some rows with their weights, as points of their own."""
        weights = None if self.weights is None else self.weights[numbers]
        if self.is_stored and self.is_sparse:
            unit = unit_matrix(self.matrix[numbers], self.who, gauge=self.gauge)
            return Points(unit, self.dtype, weights, True, self.who, gauge=self.gauge, engine=self.engine)
        return Points(
            self.matrix[numbers],
            self.dtype,
            weights,
            self.is_unit,
            self.who,
            gauge=self.gauge,
            engine=self.engine,
        )

    def between(self, first: int, last: int) -> Points:
        """The rows from..to, as points of their own that know where they are."""
        if (first, last) == (0, self.n_rows):
            return self
        weights = self.block_weights(first, last)
        return replace(
            self,
            matrix=_csr_between(self.matrix, first, last) if sp.issparse(self.matrix) else self.matrix[first:last],
            weights=weights,
            first_row=self.first_row + first,
            is_present=None,
            grid=None,
            own_lanes=((0, last - first),) if (first, last) in self.lanes else None,
        )

    def placed(self, first_row: int, q: int) -> Points:
        """The same rows as a part of more: the number of the first of them there, and the grid of its sums.

        Sums over all parts, added in any order, are those over the set.
        """
        return self if (first_row, q) == (self.first_row, self.q) else replace(self, first_row=first_row, grid=q)

    def without_missing(self) -> Points:
        """Those of the rows on disk that have a direction."""
        is_present = self.have_direction()
        if is_present.all():
            return self
        if not is_present.any():
            return replace(no_points(self.n_features, self.who), is_present=is_present)
        weights = None if self.weights is None else self.weights[is_present]
        return replace(self, matrix=self.matrix.only(is_present), weights=weights, is_present=is_present)

    def as_directions(self) -> Points:
        """The rows that are not zero and have weight, made unit: where counts point to."""
        has_direction = np.asarray((self.matrix != 0).sum(axis=1)).ravel() > 0
        if self.weights is not None:
            has_direction &= self.weights > 0.0
        if not has_direction.any():
            return no_points(self.n_features, self.who)
        chosen = self.take(np.flatnonzero(has_direction))
        return replace(chosen, matrix=unit_matrix(chosen.matrix, self.who, gauge=self.gauge), scale=1.0)

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
        if self.is_sparse and not self.is_stored:
            dense = self.matrix[np.asarray(numbers)].toarray()
        else:
            chosen = self.gather(np.asarray(numbers))  # the bits of passes, then those of float64
            dense = _dense(chosen) if isinstance(chosen, SparseBlock) else chosen
        return np.asarray(unit_block(np.asarray(dense, dtype=np.float64), 0, self.who, gauge=self.gauge))


def _dense(rows: SparseBlock) -> FloatArray:
    return np.asarray(as_csr(rows).toarray())


def some_of(rows: Block, numbers: npt.NDArray[np.integer[Any]]) -> Block:
    """A copy of some rows of a block."""
    if not isinstance(rows, SparseBlock):
        return rows[numbers]
    chosen = as_csr(rows)[numbers]
    return SparseBlock(chosen.data, chosen.indices, chosen.indptr, rows.n_features)


def n_rows_of(rows: Block) -> int:
    """How many rows a block has."""
    return len(rows.indptr) - 1 if isinstance(rows, SparseBlock) else len(rows)


@dataclass(frozen=True, eq=False)
class RowsAtHand:
    """A stretch of rows that were read from disk, from row `first` on."""

    points: Points
    first: int
    read: Any  # as stored; CSR rows are unit already

    def block(self, start: int, stop: int) -> Block:
        """See `Points.block`; only rows of the stretch."""
        if isinstance(self.read, SparseBlock):
            return cut(self.read, start - self.first, stop - self.first)
        return self.points._unit(self.read[start - self.first : stop - self.first], start)


def as_points(
    X: Any,
    who: str,
    sample_weight: Any = None,
    expected_features: int | None = None,
    gauge: Gauge | None = None,
    most_weight: float = MOST_WEIGHT,
) -> Points:
    """Check X and its weights; `who` (the estimator's name) appears in error sentences.

    `gauge` finds norms, quicker than NumPy does; `most_weight` is the largest sum of the weights. Values of rows on
    disk are looked at by the first pass, so that they are not read once more.
    """
    if isinstance(X, StoredRows):
        return replace(_stored_points(X, who, sample_weight, expected_features, most_weight), gauge=gauge)
    matrix = as_matrix(X, who, expected_features)
    file = _file_under(matrix)
    weights = check_sample_weight(sample_weight, matrix.shape[0], who, most=most_weight)
    dtype = computing_dtype(matrix.dtype)
    if isinstance(matrix, np.ndarray) and _stays_in_place(matrix, dtype):
        return Points(matrix, dtype, weights, is_unit(matrix, who, gauge=gauge), who, gauge=gauge, file=file)
    return Points(unit_matrix(matrix, who, gauge=gauge), dtype, weights, True, who, gauge=gauge)


def as_present_points(
    X: Any,
    who: str,
    sample_weight: Any = None,
    expected_features: int | None = None,
    gauge: Gauge | None = None,
    most_weight: float = MOST_WEIGHT,
) -> Points:
    """`as_points` of the rows that have a direction; those with NaN or inf and those of zeros are missing.

    All weight may be on rows that are missing; that there is no other row is for the caller to allow. Rows on disk are
    read once for this.
    """
    if isinstance(X, StoredRows):
        points = as_points(X, who, sample_weight, expected_features, gauge, most_weight)
        return points.without_missing()
    matrix = as_matrix(X, who, expected_features)
    _file_under(matrix)
    weights = check_sample_weight(sample_weight, matrix.shape[0], who, most=most_weight)
    is_present = has_direction(matrix)
    if is_present.all():
        return replace(as_points(matrix, who, gauge=gauge), weights=weights)
    weights = None if weights is None else weights[is_present]
    here = matrix[is_present]
    if here.shape[0] == 0:
        return replace(no_points(matrix.shape[1], who), is_present=is_present)
    return replace(as_points(here, who, gauge=gauge), weights=weights, is_present=is_present)


def _csr_between(matrix: Any, first: int, last: int) -> Any:
    """Rows from..to of a CSR matrix, as a view."""
    part = type(matrix)((last - first, matrix.shape[1]), dtype=matrix.dtype)
    # put in place afterwards: SciPy copies values that are a small part of others
    start, stop = matrix.indptr[first], matrix.indptr[last]
    part.data, part.indices = matrix.data[start:stop], matrix.indices[start:stop]
    part.indptr = matrix.indptr[first : last + 1] - start
    return part


def no_points(n_features: int, who: str) -> Points:
    """No rows."""
    return Points(np.empty((0, n_features)), np.dtype(np.float64), None, is_unit=True, who=who)


def as_count_points(X: Any, who: str, sample_weight: Any = None, expected_features: int | None = None) -> Points:
    """Rows of counts, not unit: finite, none negative, all divided by the length of the longest.

    Filters that bound rounding (kernels/rows/contract.py) hold for rows of length up to 1. A row of zeros is allowed.
    """
    matrix: Any = as_matrix(X, who, expected_features)
    _file_under(matrix)
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
    squares = column_squares(rows) if is_dense else stored_squares(rows.data, rows.indptr)
    longest = float(np.sqrt(squares.max())) or 1.0
    return Points(rows / longest, np.dtype(np.float64), weights, True, who, largest * longest)


def refuse_stored(X: Any, who: str, why: str) -> None:
    """Refuse rows on disk where all rows must be in memory; `why` says what needs them."""
    if isinstance(X, StoredRows):
        raise InputError(
            f"X of {who} must be in memory, since {why}; got {X!r}. Give X[:], which reads all rows "
            f"({in_words(X.nbytes)}), a sample, X[numbers], or take a model that goes through its rows in order, such "
            "as SphericalKMeans, DPvMFMeans or VonMisesFisherMixture."
        )


def _stored_points(
    rows: StoredRows, who: str, sample_weight: Any, expected_features: int | None, most_weight: float
) -> Points:
    rows.check_open()
    rows.check_unchanged()
    check_shape(rows.shape, who, expected_features)
    if sample_weight is not None and rows.weights is not None:
        raise InputError(
            f"Weights of {who} must come from one place; got `sample_weight` and rows on disk that have weights. "
            "Open them without `weights`, or leave `sample_weight` out."
        )
    given = rows.weights if sample_weight is None else sample_weight
    weights = check_sample_weight(given, rows.shape[0], who, most=most_weight)
    return Points(rows, computing_dtype(rows.dtype), weights, False, who)


def _file_under(matrix: Any) -> MappedFile | None:
    """The file under a memory map, which was seen to be as long as the map."""
    file = MappedFile.under(matrix) if isinstance(matrix, np.memmap) else None
    if file is not None:
        file.check_there()
    return file


def _stays_in_place(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> bool:
    return isinstance(array, np.memmap) or array.size * dtype.itemsize > CONVERT_AT_ONCE
