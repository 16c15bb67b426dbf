"""The kernel contract on the CPU: NumPy's BLAS for products of wide rows, compiled loops for the rest.

Everything here works on one block and releases the interpreter lock while it computes, so `fitting/workers.py` can
run blocks side by side. BLAS must be held to one thread per worker for that (workers does).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import Any, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.distributions import geodesic_walk
from armillary.distributions.geodesic_walk import N_KNOTS, RevivalCurve, WeightRule
from armillary.kernels.contract import (
    FLOAT32_SLOPE_LIMIT,
    AffineRule,
    Anchors,
    AngleBounds,
    ChainSteps,
    ListedShares,
    Meeting,
    QuadraticRule,
    SliceColumns,
    Tracks,
)
from armillary.kernels.cpu import bounds as bound_kernels
from armillary.kernels.cpu import choose, dense, gibbs, quadratic, sequential, slices, sparse, walks
from armillary.kernels.cpu.simd import CACHE_LINE
from armillary.points import Block, SparseBlock, cut

# Up to this many columns the compiled tile loop beats BLAS (see benchmarks/kernels.py).
SMALL_DIMENSION = 16
# 2^-24: half a unit in the last place of a float32.
_HALF_ULP = 2.0**-24
# Rows count as unit within this (validation.UNIT_TOLERANCE of float32), which widens bounds on angles.
_NORM_DOUBT = 2.5e-6

_T = TypeVar("_T")
_making = RLock()


class _made_once(cached_property[_T]):  # noqa: N801 (a decorator)
    """A cached property of which threads that want it at the same time make one, not one each: it may be large."""

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        with _making:
            return super().__get__(instance, owner)


@dataclass(frozen=True, eq=False)
class PreparedRule:
    """An affine rule with the doubt of float32 scores; the layouts that loops want are made when first asked for."""

    rule: AffineRule
    directions: Float64Array  # (K, D)
    slopes: Float64Array  # (K,)
    offsets: Float64Array  # (K,)
    offsets32: npt.NDArray[np.float32]  # (K,)
    longest: float  # vector
    farthest: float  # offset from 0
    margin_constant: float
    margin_per_term: float
    floor: float
    is_rival: npt.NDArray[np.bool_]  # (K,)

    def bar(self, margin: np.float32) -> np.float32:
        """A float32 score above it is surely not below the floor."""
        if self.floor == -np.inf:
            return np.float32(-np.inf)
        return np.nextafter(np.float32(self.floor + margin), np.float32(np.inf))

    def pit(self, margin: np.float32) -> np.float32:
        """A float32 score below it is surely below the floor."""
        if self.floor == -np.inf:
            return np.float32(-np.inf)
        return np.nextafter(np.float32(self.floor - margin), np.float32(-np.inf))

    def margin(self, n_terms: int) -> np.float32:
        """Twice the error bound of a float32 score: `n_terms` products in any order, then the offset."""
        return np.float32(self.margin_constant + n_terms * self.margin_per_term)

    @_made_once
    def vectors(self) -> Float64Array:
        """(K, D)."""
        return np.ascontiguousarray(self.rule.vectors, dtype=np.float64)

    @_made_once
    def vectors32(self) -> npt.NDArray[np.float32]:
        """(K, D)."""
        return self.vectors.astype(np.float32)

    @_made_once
    def narrow(self) -> tuple[Any, ...]:
        """What the loops over narrow rows want of a rule.

        First float32 vectors and offsets (K, D + 1); hopeless ones fill up the last that are scored together.
        """
        n_clusters, n_features = self.vectors.shape
        together = dense.clusters_together(n_features)
        padded = np.zeros((-(-n_clusters // together) * together, n_features + 1), np.float32)
        padded[:n_clusters, :-1] = self.vectors
        padded[:n_clusters, -1] = self.offsets
        padded[n_clusters:, -1] = -np.inf
        # products are added to the offset: each addition rounds at its size too
        margin = np.float32(self.margin(n_features) + 2.0 * _HALF_ULP * n_features * self.farthest)
        levels = self.floor, self.pit(margin), self.bar(margin)
        return padded, margin, self.vectors, self.offsets, *levels, self.is_rival

    @_made_once
    def matrix32(self) -> npt.NDArray[np.float32]:
        """(D, K), for BLAS."""
        return np.ascontiguousarray(self.vectors32.T)

    @_made_once
    def padded32(self) -> npt.NDArray[np.float32]:
        """(D, K) for labels of CSR rows."""
        # in whole cache lines: in the units of float64 the labels of 20 clusters take a tenth longer
        return self._padded(np.dtype(np.float32), CACHE_LINE // 4)

    @_made_once
    def padded(self) -> Float64Array:
        """(D, K) for scores of CSR rows."""
        return self._padded(np.dtype(np.float64), sparse.COLUMN_UNIT)

    def _padded(self, dtype: np.dtype[Any], unit: int) -> npt.NDArray[Any]:
        """(D, K) with columns of no meaning up to a multiple of `unit`; it starts where a cache line does."""
        n_clusters, n_features = self.rule.shape
        n_columns = -(-n_clusters // unit) * unit
        line = CACHE_LINE // dtype.itemsize
        room = np.empty(n_features * n_columns + line, dtype)
        start = -(room.ctypes.data // dtype.itemsize) % line
        padded = room[start : start + n_features * n_columns].reshape(n_features, n_columns)
        sparse.transpose(self.directions, self.slopes, padded)
        return padded

    @_made_once
    def matrix(self) -> Float64Array:
        """(D, K), for BLAS in float64."""
        return np.ascontiguousarray(self.vectors.T)


def prepare(rule: AffineRule) -> PreparedRule:
    """Done once per pass."""
    directions = np.ascontiguousarray(rule.directions, dtype=np.float64)
    offsets = np.ascontiguousarray(rule.offsets, dtype=np.float64)
    slopes = np.ones(len(offsets)) if rule.slopes is None else np.ascontiguousarray(rule.slopes, dtype=np.float64)
    longest = float(np.sqrt((slopes**2 * np.vecdot(directions, directions)).max(initial=0.0)))
    farthest = float(np.abs(offsets).max(initial=0.0))
    # |error| <= (n + 2) u |x| |v| for the products and the casts of both factors, 2 u |b| for the offset
    return PreparedRule(
        rule,
        directions,
        slopes,
        offsets,
        offsets.astype(np.float32),
        longest,
        farthest,
        margin_constant=2.0 * _HALF_ULP * (4.0 * longest + 3.0 * farthest),
        margin_per_term=2.0 * _HALF_ULP * longest,
        floor=rule.floor,
        is_rival=np.zeros(len(offsets), np.bool_) if rule.is_rival is None else rule.is_rival,
    )


def scores(rows: Block, rule: PreparedRule, out: FloatArray) -> None:
    """Fill `out` (n, K) with scores, computed in the dtype of `out`."""
    if isinstance(rows, SparseBlock):
        sparse.scores(*rows[:3], rule.padded32 if out.dtype == np.float32 else rule.padded, rule.offsets, out)
    elif rows.shape[1] <= SMALL_DIMENSION:
        dense.small(rows.shape[1]).scores(rows, rule.vectors, rule.offsets, out)
    else:
        matrix = rule.matrix32 if out.dtype == np.float32 else rule.matrix
        np.matmul(rows.astype(out.dtype, copy=False), matrix, out=out)
        _add_offsets(out, rule)


def _add_offsets(out: FloatArray, rule: PreparedRule) -> None:
    if rule.offsets.any():
        choose.add_offsets(out, rule.offsets.astype(out.dtype))


def own_scores(rows: Block, rule: PreparedRule, labels: npt.NDArray[np.int32], out: Float64Array) -> None:
    """Fill `out` (n,) with the score of each row under its own label."""
    if isinstance(rows, SparseBlock):
        sparse.own_scores(*rows[:3], rule.directions, rule.slopes, rule.offsets, labels, out)
    else:
        dense.own_scores(rows, rule.vectors, rule.offsets, labels, out)


def assign_best(
    rows: Block, rule: PreparedRule, labels: npt.NDArray[np.int32], changed: npt.NDArray[np.int64] | None
) -> int:
    """Write the arg max over `labels`; return how many rows changed."""
    if _is_narrow(rows):
        return _assign_narrow(rows, rule, labels, changed, None, None, None)
    return _assign_listed(rows, rule, None, labels, changed, None)


def assign_and_add(
    rows: Block,
    rule: PreparedRule,
    weights: Float64Array | None,
    labels: npt.NDArray[np.int32],
    changed: npt.NDArray[np.int64] | None,
    counts: Float64Array,
    resultants: Float64Array,
) -> int:
    """`assign_best`, then `add_rows` of every cluster, with the same bits; narrow rows are read once."""
    if _is_narrow(rows):
        return _assign_narrow(rows, rule, labels, changed, weights, counts, resultants)
    n_changed = _assign_listed(rows, rule, None, labels, changed, None)
    add_rows(rows, weights, labels, np.ones(len(counts), np.bool_), counts, resultants)
    return n_changed


def _is_narrow(rows: Block) -> TypeGuard[FloatArray]:
    return not isinstance(rows, SparseBlock) and rows.shape[1] <= SMALL_DIMENSION


def _assign_narrow(
    rows: FloatArray,
    rule: PreparedRule,
    labels: npt.NDArray[np.int32],
    changed: npt.NDArray[np.int64] | None,
    weights: Float64Array | None,
    counts: Float64Array | None,
    resultants: Float64Array | None,
) -> int:
    """Labels and, unless `counts` is None, sums."""
    assign = dense.small(rows.shape[1]).assign_best
    return assign(rows, *rule.narrow, labels, changed, weights, counts, resultants)


def assign_bounded(
    rows: Block,
    rule: PreparedRule,
    labels: npt.NDArray[np.int32],
    changed: npt.NDArray[np.int64] | None,
    angles: AngleBounds,
) -> int:
    """`assign_best` that looks only at rows whose bounds leave room for a change; bounds are updated."""
    active = np.empty(len(labels), np.int64)
    n_active = bound_kernels.loosen(
        labels,
        angles.own,
        angles.other,
        angles.turned,
        angles.largest,
        angles.second_largest,
        angles.widest,
        angles.reach,
        active,
    )
    if n_active == 0:
        return 0
    return _assign_listed(rows, rule, active[:n_active], labels, changed, angles)


def _assign_listed(
    rows: Block,
    rule: PreparedRule,
    numbers: npt.NDArray[np.int64] | None,
    labels: npt.NDArray[np.int32],
    changed: npt.NDArray[np.int64] | None,
    angles: AngleBounds | None,
) -> int:
    own, other = (None, None) if angles is None else (angles.own, angles.other)
    if isinstance(rows, SparseBlock):
        return int(
            sparse.assign_best(
                *rows[:3],
                numbers,
                rule.padded32,
                rule.offsets32,
                (rule.margin_constant, rule.margin_per_term),
                rule.directions,
                rule.slopes,
                rule.offsets,
                rule.floor,
                rule.is_rival,
                labels,
                changed,
                own,
                other,
                _NORM_DOUBT,
            )
        )
    if numbers is not None and len(numbers) < len(rows):
        listed = np.empty((len(numbers), rows.shape[1]), np.float32)
        bound_kernels.gather(rows, numbers, listed)
    else:
        numbers = None
        listed = rows.astype(np.float32, copy=False)
    block = np.matmul(listed, rule.matrix32)
    _add_offsets(block, rule)
    margin = rule.margin(rows.shape[1])
    return int(
        choose.choose_best(
            block,
            margin,
            rows,
            rule.vectors,
            rule.offsets,
            rule.floor,
            rule.bar(margin),
            rule.is_rival,
            numbers,
            labels,
            changed,
            own,
            other,
            float(margin) + _NORM_DOUBT,
        )
    )


def assign_draw(
    rows: Block,
    rule: PreparedRule,
    weights: Float64Array | None,
    key: tuple[int, int],
    first_row: int,
    labels: npt.NDArray[np.int32],
) -> float:
    """Write one draw per row over `labels`; return the weighted evidence."""
    if isinstance(rows, SparseBlock):
        return float(sparse.assign_draw(*rows[:3], rule.padded, rule.offsets, weights, *key, first_row, labels))
    return float(choose.choose_draw(_soft_scores(rows, rule), weights, *key, first_row, labels))


def responsibilities(rows: Block, rule: PreparedRule, out: FloatArray, log_evidence: Float64Array) -> None:
    """Fill `out` (n, K) and `log_evidence` (n,)."""
    if isinstance(rows, SparseBlock):
        sparse.responsibilities(*rows[:3], rule.padded, rule.offsets, out, log_evidence)
    else:
        choose.softmax_rows(_soft_scores(rows, rule), out, log_evidence)


def _soft_scores(rows: FloatArray, rule: PreparedRule) -> FloatArray:
    """Scores for a softmax: float64, or float32 where rows, slopes and offsets allow it."""
    largest = max(rule.longest, rule.farthest)
    in_float32 = rows.dtype == np.float32 and rows.shape[1] > SMALL_DIMENSION and largest < FLOAT32_SLOPE_LIMIT
    out: FloatArray = np.empty((len(rows), len(rule.vectors)), np.float32 if in_float32 else np.float64)
    scores(rows, rule, out)
    return out


def add_rows(
    rows: Block,
    weights: Float64Array | None,
    labels: npt.NDArray[np.int32],
    is_wanted: npt.NDArray[np.bool_],
    counts: Float64Array,
    resultants: Float64Array,
) -> None:
    """Add each row to the sums of its label, where that is wanted."""
    if isinstance(rows, SparseBlock):
        sparse.add_rows(*rows[:3], weights, labels, is_wanted, counts, resultants)
    elif rows.shape[1] <= SMALL_DIMENSION:
        dense.small(rows.shape[1]).add_rows(rows, weights, labels, is_wanted, counts, resultants)
    else:
        dense.add_rows(rows, weights, labels, is_wanted, counts, resultants)


def add_soft(
    rows: Block,
    rule: PreparedRule,
    weights: Float64Array | None,
    counts: Float64Array,
    resultants: Float64Array,
) -> float:
    """Add each row to every cluster by its responsibility; return the weighted evidence."""
    if isinstance(rows, SparseBlock):
        block = np.empty((len(rows.indptr) - 1, len(rule.offsets)))
        log_evidence = np.empty(len(block))
        responsibilities(rows, rule, block, log_evidence)
        add_shares(rows, weights, block, np.ones(len(counts), np.bool_), counts, resultants)
        return float(log_evidence.sum() if weights is None else weights @ log_evidence)
    if rows.shape[1] <= SMALL_DIMENSION:
        soft = dense.small(rows.shape[1]).add_soft
        return float(soft(rows, rule.vectors, rule.offsets, weights, counts, resultants))
    block = np.empty((len(rows), len(rule.vectors)))
    log_evidence = np.empty(len(rows))
    choose.softmax_rows(_soft_scores(rows, rule), block, log_evidence)
    evidence = float(choose.weigh(weights, block, log_evidence, counts))
    resultants += np.matmul(block.T, rows.astype(np.float64, copy=False))
    return evidence


def add_shares(
    rows: Block,
    weights: Float64Array | None,
    shares: Float64Array,
    is_wanted: npt.NDArray[np.bool_],
    counts: Float64Array,
    resultants: Float64Array,
) -> None:
    """Add each row to the wanted sums by its shares (n, K)."""
    if isinstance(rows, SparseBlock):
        sparse.add_shares(*rows[:3], weights, shares, is_wanted, counts, resultants)
        return
    weighted = np.where(is_wanted, shares if weights is None else weights[:, None] * shares, 0.0)
    counts += weighted.sum(axis=0)
    resultants += weighted.T @ rows.astype(np.float64, copy=False)


def list_shares(shares: Float64Array, weights: Float64Array | None) -> ListedShares:
    """The shares (n, K) above `NO_SHARE`, times the weights of rows."""
    starts = np.empty(len(shares) + 1, np.int64)
    clusters, parts = np.empty(shares.size, np.int32), np.empty(shares.size)
    n_listed = slices.list_shares(shares, weights, starts, clusters, parts)
    return ListedShares(starts, clusters[:n_listed].copy(), parts[:n_listed].copy())


def add_slice_products(
    columns: SliceColumns,
    features: tuple[int, int],
    shares: ListedShares,
    direction: Float64Array,
    products: Float64Array,
) -> None:
    """Add what some features have of the products of sums of slices."""
    slices.add_products(*columns[:-1], *features, *shares, direction, products)


def fill_slice_vectors(
    columns: SliceColumns,
    features: tuple[int, int],
    shares: ListedShares,
    steps: ChainSteps,
    table: Float64Array,
    total: Float64Array,
) -> None:
    """Fill what some features have of the vectors of all slices."""
    slices.fill_vectors(*columns, *features, *shares, *steps, table, total)


def share_by_table(
    rows: SparseBlock, table: Float64Array, offsets: Float64Array, out: Float64Array, log_evidence: Float64Array
) -> None:
    """`responsibilities` of rows whose indices are slots of `table`."""
    sparse.responsibilities(*rows[:3], table, offsets, out, log_evidence)


def filter_scores(rows: Block, rule: PreparedRule) -> tuple[FloatArray, float]:
    """Scores (n, K) and their doubt: exact ones where those are cheap, a float32 product for wide dense rows."""
    if isinstance(rows, SparseBlock) or rows.shape[1] <= SMALL_DIMENSION:
        out = np.empty((len(rows.indptr) - 1 if isinstance(rows, SparseBlock) else len(rows), len(rule.offsets)))
        exact_scores(rows, rule, out)
        return out, 0.0
    table: FloatArray = np.empty((len(rows), len(rule.vectors)), np.float32)
    scores(rows, rule, table)
    return table, float(rule.margin(rows.shape[1]))


def exact_scores(rows: Block, rule: PreparedRule, out: Float64Array) -> None:
    """Fill `out` (n, K) with float64 scores, products added in column order."""
    if isinstance(rows, SparseBlock) or rows.shape[1] <= SMALL_DIMENSION:
        scores(rows, rule, out)
    else:
        dense.exact_scores(rows, rule.vectors, rule.offsets, out)


last_rows = sequential.last_rows
first_rows = sequential.first_rows
walk = sequential.walk


def meet_tracks(tracks: Tracks, towards: Float64Array, lengths: Float64Array, rule: WeightRule) -> Meeting:
    """Walks to rows, what they cost, and what the tracks remember."""
    n_tracks = len(tracks.weights)
    meeting = Meeting(np.empty(tracks.directions.shape), np.empty(n_tracks), np.empty(n_tracks))
    directions, weights, steps, drift, is_exact = tracks
    walks.meet(directions, weights, drift, steps, towards, lengths, is_exact, rule == "paper", *meeting)
    return meeting


def revival_curves(tracks: Tracks, miss_price: float) -> RevivalCurve:
    """Curves (T, knots) of the score of one row over its angle to the track."""
    if not tracks.is_exact:  # evenly spaced knots, no root: NumPy serves
        links = (tracks.weights, tracks.drift_concentration, tracks.steps)
        return geodesic_walk.revival_curve(*links, miss_price, is_exact=False)
    shape = (len(tracks.weights), N_KNOTS)
    curves = RevivalCurve(np.empty(shape), np.empty(shape), np.empty(shape))
    walks.revival_curves(tracks.weights, tracks.drift_concentration, tracks.steps, miss_price, *curves)
    return curves


gibbs_sweep = gibbs.gibbs_sweep
quadratic_scores = quadratic.scores
find_anchors = quadratic.find_anchors
tangent_sums = quadratic.tangent_sums
quadratic_odds = quadratic.quadratic_odds
group_rows = quadratic.group_rows
row_totals = quadratic.row_totals


def draw_anchored(
    rows: Block,
    rule: QuadraticRule | AffineRule,
    anchors: Anchors,
    key: tuple[int, int],
    first_row: int,
    labels: npt.NDArray[np.int32],
) -> None:
    """One draw per row among the clusters that its priority allows."""
    if isinstance(rule, QuadraticRule):
        quadratic.draw_anchored(rows, rule, anchors, key, first_row, labels)
        return
    prepared = prepare(rule)

    def fill(part: slice, table: Float64Array) -> None:
        scores(cut(rows, part.start, part.stop), prepared, table)

    quadratic.choose_anchored(fill, len(rule.offsets), anchors, key, first_row, labels)
