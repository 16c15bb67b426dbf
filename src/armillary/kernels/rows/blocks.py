"""The kernel contract on the CPU: NumPy's BLAS for products of wide rows, compiled loops for the rest.

Everything here works on one block and releases the interpreter lock while it computes, so `workers.py` can
run blocks side by side. BLAS must be held to one thread per worker for that (workers does).
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.distributions import geodesic_walk
from armillary.distributions.geodesic_walk import N_KNOTS, RevivalCurve, WeightRule
from armillary.kernels.crew import NOBODY, Helpers
from armillary.kernels.crew import lent as crew  # noqa: F401 (part of the contract)
from armillary.kernels.rows import bounds as bound_kernels
from armillary.kernels.rows import (
    choose,
    dense,
    gibbs,
    narrow_types,
    norms,
    quadratic,
    rules,
    sequential,
    slices,
    sparse,
    walks,
    wide,
)
from armillary.kernels.rows import scatters as scatter_sums
from armillary.kernels.rows import tangent_sums as tangents
from armillary.kernels.rows.contract import FLOAT32_SLOPE_LIMIT, AngleBounds, ChainSteps, ListedShares, SliceColumns
from armillary.kernels.rows.rules import PreparedRule
from armillary.kernels.rows.simd import LANES
from armillary.points import Block, SparseBlock, cut
from armillary.rules import AffineRule, Anchors, Meeting, QuadraticRule, Tracks
from armillary.validation import Gauge, is_sure

# Up to this many columns the compiled tile loop beats BLAS (see benchmarks/kernels.py).
SMALL_DIMENSION = 16
# Up to this many columns rows in vector lanes beat BLAS: their tiles stay in the second-level cache (the same table).
LARGE_DIMENSION = 2048
# What is not asked of loops over narrow rows: they have one version for all that a pass does.
_NO_NUMBERS: npt.NDArray[np.int64] = np.empty(0, np.int64)
_NO_WEIGHTS = np.empty(0)
_NO_SUMS = np.empty((0, 0, 0))
_NO_RESULTANTS = np.empty((0, 0))
# Values of rows between which threads look for more work: few enough to end together, in the cache from their scores
# to their sums.
_PIECE_VALUES = 1 << 20
# Rows of a piece: whole tiles.
_PIECE_UNIT = 32
# Pieces for each thread.
_PIECES_EACH = 16
# Rows count as unit within this (validation.UNIT_TOLERANCE of float32), which widens bounds on angles.
_NORM_DOUBT = 2.5e-6


def prepare(rule: AffineRule | QuadraticRule) -> Any:
    """Done once per pass."""
    return quadratic.prepare(rule) if isinstance(rule, QuadraticRule) else rules.prepare(rule)


def are_unit(rows: npt.NDArray[Any], tolerance: float) -> bool:
    """Whether the norms of dense rows are surely 1 to within `tolerance`."""
    n_features = rows.shape[1]
    if not _is_narrow(rows):
        return is_sure(n_features, tolerance) and bool(norms.are_unit(rows, tolerance))
    # sums in the rows' own precision are off by the rounding of at most D + 1 numbers up to 1 each
    within = tolerance - 2.0 * (n_features + 1) * float(np.finfo(rows.dtype).epsneg)
    return within > 0.0 and bool(dense.small(n_features).are_unit(rows.reshape(-1), rows.dtype.type(within)))


def squares(rows: npt.NDArray[Any]) -> Float64Array:
    """Sums of squares of dense rows (n,), in column order."""
    out = np.empty(len(rows))
    norms.squares(np.ascontiguousarray(rows), out)
    return out


def csr_squares(values: npt.NDArray[Any], pointers: npt.NDArray[Any]) -> Float64Array:
    """Sums of squares of CSR rows (n,), in the order stored."""
    out = np.empty(len(pointers) - 1)
    norms.csr_squares(values, pointers, out)
    return out


def narrow(rows: npt.NDArray[Any], tolerance: float) -> FloatArray | None:
    """Rows of float16 or bytes as unit float32 rows; None where a row has no direction, or for other types."""
    out = np.empty(rows.shape, np.float32)
    given = np.ascontiguousarray(rows)
    if rows.dtype == np.float16 and rows.dtype.isnative:
        return out if narrow_types.unit_halves(given.view(np.uint16), tolerance, out) else None
    if rows.dtype in (np.int8, np.uint8):
        return out if narrow_types.unit_bytes(given, tolerance, out) else None
    return None


gauge = Gauge(are_unit, squares, csr_squares, narrow)


def scores(rows: Block, rule: PreparedRule | quadratic.Forms, out: FloatArray) -> None:
    """Fill `out` (n, K) with scores, computed in the dtype of `out`."""
    if isinstance(rule, quadratic.Forms):
        quadratic.scores(rows, rule, out)
    elif isinstance(rows, SparseBlock):
        sparse.scores(*rows[:3], rule.padded32 if out.dtype == np.float32 else rule.padded, rule.offsets, out)
    elif rows.shape[1] <= SMALL_DIMENSION:
        dense.small(rows.shape[1]).scores(rows, rule.vectors, rule.offsets, out)
    else:
        matrix = rule.matrix32 if out.dtype == np.float32 else rule.matrix
        np.matmul(rows.astype(out.dtype, copy=False), matrix, out=out)
        _add_offsets(out, rule)


def row_scores(rows: Block, rule: PreparedRule, out: FloatArray) -> None:
    """`scores` with bits that depend on the row alone, dense or CSR."""
    if isinstance(rows, SparseBlock):
        _sparse_row_scores(rows, rule, out)
    elif rows.shape[1] <= SMALL_DIMENSION:
        scores(rows, rule, out)
    else:
        given = np.ascontiguousarray(rows, dtype=out.dtype)
        dense.row_scores(given, rule.vectors.astype(out.dtype, copy=False), out)
        _add_offsets(out, rule)


def _sparse_row_scores(rows: SparseBlock, rule: PreparedRule, out: FloatArray) -> None:
    """As of the dense rows: narrow ones in float64, wide ones in lanes of the type of `out`."""
    if rows.n_features <= SMALL_DIMENSION:
        exact = np.empty(out.shape)
        scores(rows, rule, exact)
        out[...] = exact
    else:
        matrix = rule.padded32 if out.dtype == np.float32 else rule.padded
        sparse.row_scores(*rows[:3], matrix, np.empty((out.shape[1], LANES), out.dtype), out)
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
    if _is_wide(rows):
        return _assign_wide(rows, rule, None, labels, changed)
    return _assign_listed(rows, rule, None, labels, changed, None)


def assign_and_add(
    rows: Block,
    rule: PreparedRule,
    weights: Float64Array | None,
    labels: npt.NDArray[np.int32],
    changed: npt.NDArray[np.int64] | None,
    counts: Float64Array,
    resultants: Float64Array,
    rounder: float,
) -> int:
    """`assign_best`, then `add_rows` of every cluster, with the same bits; dense rows are read once."""
    if _is_narrow(rows):
        return _assign_narrow(rows, rule, labels, changed, weights, counts, resultants, rounder)
    if _is_wide(rows):
        return _assign_wide(rows, rule, None, labels, changed, sums=(weights, rounder, counts, resultants))
    n_changed = _assign_listed(rows, rule, None, labels, changed, None)
    add_rows(rows, weights, labels, np.ones(len(counts), np.bool_), counts, resultants, rounder)
    return n_changed


def _is_narrow(rows: Block) -> TypeGuard[FloatArray]:
    return not isinstance(rows, SparseBlock) and rows.shape[1] <= SMALL_DIMENSION


def _is_wide(rows: Block) -> TypeGuard[FloatArray]:
    return not isinstance(rows, SparseBlock) and SMALL_DIMENSION < rows.shape[1] <= LARGE_DIMENSION


def _assign_narrow(
    rows: FloatArray,
    rule: PreparedRule,
    labels: npt.NDArray[np.int32],
    changed: npt.NDArray[np.int64] | None,
    weights: Float64Array | None,
    counts: Float64Array | None,
    resultants: Float64Array | None,
    rounder: float = 0.0,
) -> int:
    """Labels and, unless `counts` is None, sums."""
    whole = np.array([[0, len(rows)]])
    sums = None if counts is None else np.zeros((1, len(counts), rows.shape[1] + 1))
    counted = _NO_NUMBERS if changed is None else changed
    n_changed = _in_lanes(rows, rule, labels, counted, whole, NOBODY, 0, weights, rounder, sums)
    if sums is not None and counts is not None and resultants is not None:
        counts += sums[0, :, -1]
        resultants += sums[0, :, :-1]
    return n_changed


def assign_lanes(
    rows: FloatArray,
    rule: PreparedRule,
    labels: npt.NDArray[np.int32],
    lanes: npt.NDArray[np.int64],
    helpers: Helpers = NOBODY,
    *,
    n_kept: int = 0,
    weights: Float64Array | None = None,
    rounder: float = 0.0,
    sums: Float64Array | None = None,
    is_change: bool = False,
    names: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None,
) -> int:
    """Label, and add or name, the rows of lanes; helpers take some of them."""
    return _in_lanes(rows, rule, labels, _NO_NUMBERS, lanes, helpers, n_kept, weights, rounder, sums, is_change, names)


def _in_lanes(
    rows: FloatArray,
    rule: PreparedRule,
    labels: npt.NDArray[np.int32],
    changed: npt.NDArray[np.int64],
    lanes: npt.NDArray[np.int64],
    helpers: Helpers,
    n_kept: int,
    weights: Float64Array | None,
    rounder: float,
    sums: Float64Array | None,
    is_change: bool = False,
    names: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None,
) -> int:
    given = _NO_WEIGHTS if weights is None else weights
    into = _NO_SUMS if sums is None else sums
    found = (_NO_NUMBERS, _NO_NUMBERS) if names is None else names
    taken = np.zeros(3, np.int64)
    rooms = dense.rooms(helpers[1] + 1, rows.shape[1], 0 if sums is None or is_change else into.shape[1] + 1)
    assign = dense.small(rows.shape[1]).assign_lanes
    last = n_kept, given, rounder, into, is_change, *found, *rooms
    assign(0, *helpers, rows, *rule.narrow, labels, changed, lanes, taken, *last)
    return int(taken[1])


def _assign_wide(
    rows: FloatArray,
    rule: PreparedRule,
    numbers: npt.NDArray[np.int64] | None,
    labels: npt.NDArray[np.int32],
    changed: npt.NDArray[np.int64] | None,
    angles: AngleBounds | None = None,
    sums: tuple[Float64Array | None, float, Float64Array, Float64Array] | None = None,
) -> int:
    """Labels of the rows in `numbers` (None: all) and, unless None, bounds, and weighted sums of all rows."""
    screen, exact, doubt = _wide(rule)
    own, other = (None, None) if angles is None else (angles.own, angles.other)
    weights, rounder, counts, resultants = sums or (None, 0.0, _NO_WEIGHTS, _NO_RESULTANTS)
    is_wanted = np.ones(len(counts), np.bool_)
    return int(
        wide.assign_best(
            np.ascontiguousarray(rows),
            numbers,
            *rule.everyone,
            screen,
            exact,
            labels,
            changed,
            own,
            other,
            doubt,
            _NO_WEIGHTS if weights is None else weights,
            is_wanted,
            rounder,
            counts,
            resultants,
            tuple(room[0] for room in wide.rooms(1, rows.shape[1])),
        )
    )


def takes_pieces(rows: FloatArray) -> bool:
    """Whether `assign_pieces` serves such rows."""
    return _is_wide(rows) and rows.flags.c_contiguous


def assign_pieces(
    rows: FloatArray,
    rule: PreparedRule,
    labels: npt.NDArray[np.int32],
    helpers: Helpers = NOBODY,
    *,
    angles: AngleBounds | None = None,
    weights: Float64Array | None = None,
    rounder: float = 0.0,
    sums: tuple[Float64Array, Float64Array] | None = None,
) -> int:
    """Label all rows of a set of wide rows, and add them; helpers take part."""
    screen, exact, doubt = _wide(rule)
    taken = np.zeros(3, np.int64)
    each = len(rows) // (_PIECES_EACH * (helpers[1] + 1)) // _PIECE_UNIT * _PIECE_UNIT
    n_together = max(_PIECE_UNIT, min(each, _PIECE_VALUES // rows.shape[1]))
    given = _NO_WEIGHTS if weights is None else weights
    into = (_NO_WEIGHTS, _NO_RESULTANTS) if sums is None else sums
    is_wanted = np.ones(len(into[0]), np.bool_)
    first = 0, *helpers, rows, n_together, taken, *rule.everyone, screen, exact
    n_threads = helpers[1] + 1
    last = given, is_wanted, rounder, *into, wide.rooms(n_threads, rows.shape[1]), wide.own_sums(n_threads, into[1])
    if angles is None:
        wide.assign_pieces(*first, labels, doubt, *last)
    else:
        turns = angles.turned, angles.largest, angles.second_largest, angles.widest, angles.reach
        known = labels, angles.own, angles.other
        numbers = np.empty((n_threads, 2, n_together + _PIECE_UNIT), np.int64)
        wide.assign_bounded_pieces(*first, rule.circle, turns, *known, doubt, *last, numbers)
    return int(taken[1])


def _wide(rule: PreparedRule) -> tuple[Any, Any, float]:
    """What filters the scores of wide rows, what settles them, and the doubt of a cosine."""
    margin = rule.margin(rule.rule.shape[1])
    exact = rule.vectors, rule.offsets, rule.floor, rule.bar(margin), rule.is_rival
    return (rule.vectors32, margin), exact, float(margin) + _NORM_DOUBT


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
        _no_circle(len(rule.offsets)) if isinstance(rows, SparseBlock) else rule.circle,
        active,
    )
    if n_active == 0:
        return 0
    if _is_wide(rows):
        return _assign_near(np.ascontiguousarray(rows), rule, active[:n_active], labels, changed, angles)
    return _assign_listed(rows, rule, active[:n_active], labels, changed, angles)


def _no_circle(n_clusters: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Neighbours that rule out nothing: documents lie so far from their directions that no cluster is too far."""
    return np.zeros((n_clusters, 1), np.int32), np.zeros((n_clusters, 2), np.float32), np.zeros(1, np.float32)


def _assign_near(
    rows: FloatArray,
    rule: PreparedRule,
    active: npt.NDArray[np.int64],
    labels: npt.NDArray[np.int32],
    changed: npt.NDArray[np.int64] | None,
    angles: AngleBounds,
) -> int:
    """Labels of the rows in `active`, each from the clusters that may be nearer than its own."""
    screen, exact, doubt = _wide(rule)
    others = np.empty_like(active)
    n_changed, n_left = wide.assign_near(
        rows, active, rule.circle, screen, exact, angles.reach, labels, changed, angles.own, angles.other, doubt, others
    )
    if n_left:
        n_changed += _assign_wide(rows, rule, others[:n_left], labels, changed, angles)
    return int(n_changed)


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
    rounder: float,
) -> None:
    """Add each row to the sums of its label, where that is wanted."""
    if isinstance(rows, SparseBlock):
        sparse.add_rows(*rows[:3], weights, labels, is_wanted, rounder, counts, resultants)
    elif rows.shape[1] <= SMALL_DIMENSION:
        given = _NO_WEIGHTS if weights is None else weights
        dense.small(rows.shape[1]).add_rows(rows, given, labels, is_wanted, rounder, counts, resultants)
    else:
        given = _NO_WEIGHTS if weights is None else weights
        dense.add_rows(rows, given, labels, is_wanted, rounder, counts, resultants)


def move_rows(
    rows: Block,
    weights: Float64Array | None,
    before: npt.NDArray[np.int32],
    after: npt.NDArray[np.int32],
    is_wanted: npt.NDArray[np.bool_],
    counts: Float64Array,
    resultants: Float64Array,
    rounder: float,
) -> None:
    """Take rows whose label changed out of their old sums, and add them to their new ones."""
    if isinstance(rows, SparseBlock):
        sparse.move_rows(*rows[:3], weights, before, after, is_wanted, rounder, counts, resultants)
    else:
        dense.move_rows(rows, weights, before, after, is_wanted, rounder, counts, resultants)


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
        sums, found = share_lanes(rows, rule, weights, np.array([[0, len(rows)]]))
        counts += sums[0, :, -1]
        resultants += sums[0, :, :-1]
        return float(found[0])
    block = np.empty((len(rows), len(rule.vectors)))
    log_evidence = np.empty(len(rows))
    choose.softmax_rows(_soft_scores(rows, rule), block, log_evidence)
    evidence = float(choose.weigh(weights, block, log_evidence, counts))
    resultants += np.matmul(block.T, rows.astype(np.float64, copy=False))
    return evidence


def share_lanes(
    rows: FloatArray,
    rule: PreparedRule,
    weights: Float64Array | None,
    lanes: npt.NDArray[np.int64],
    helpers: Helpers = NOBODY,
) -> tuple[Float64Array, Float64Array]:
    """`add_soft` of each lane of narrow rows by itself: sums (L, K, D + 1), counts last, and evidence (L,)."""
    sums, evidence = np.zeros((len(lanes), len(rule.offsets), rows.shape[1] + 1)), np.zeros(len(lanes))
    share = dense.small(rows.shape[1]).share_lanes
    taken = np.zeros(2, np.int64)
    share(0, *helpers, rows, rule.vectors, rule.offsets, weights, lanes, taken, sums, evidence)
    return sums, evidence


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
        sparse.add_shares(*rows[:3], weights, shares, is_wanted, 0.0, counts, resultants)
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
walk_on = sequential.walk_on


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
find_anchors = quadratic.find_anchors
tangent_sums = tangents.tangent_sums
quadratic_odds = quadratic.quadratic_odds
group_rows = quadratic.group_rows
part_rows = quadratic.part_rows
divide_rows = quadratic.divide_rows
merge_rows = quadratic.merge_rows
draw_sides = quadratic.draw_sides
side_limbs = quadratic.side_limbs
row_totals = quadratic.row_totals
scatters = scatter_sums.scatters


def draw_anchored(
    rows: Block,
    rule: PreparedRule | quadratic.Forms,
    anchors: Anchors,
    key: tuple[int, int],
    first_row: int,
    labels: npt.NDArray[np.int32],
) -> None:
    """One draw per row among the clusters that its priority allows."""
    if isinstance(rule, quadratic.Forms):
        quadratic.draw_anchored(rows, rule, anchors, key, first_row, labels)
        return

    def fill(part: slice, table: Float64Array) -> None:
        scores(cut(rows, part.start, part.stop), rule, table)

    quadratic.choose_anchored(fill, len(rule.offsets), anchors, key, first_row, labels)
