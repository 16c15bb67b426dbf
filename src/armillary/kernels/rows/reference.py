"""The kernel contract in NumPy and float64, written to be read: the oracle of every other implementation."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import expit, log_expit, logsumexp

from armillary._typing import Float64Array, FloatArray
from armillary.distributions import bessel, gaussian_component, geodesic_walk, tangent_gaussian
from armillary.distributions.geodesic_walk import RevivalCurve, WeightRule
from armillary.geometry import sphere
from armillary.kernels.rows.contract import AngleBounds
from armillary.kernels.rows.reference_slices import add_slice_products as add_slice_products
from armillary.kernels.rows.reference_slices import fill_slice_vectors as fill_slice_vectors
from armillary.kernels.rows.reference_slices import list_shares as list_shares
from armillary.kernels.rows.reference_slices import share_by_table as share_by_table
from armillary.points import Block, SparseBlock
from armillary.rules import (
    AffineRule,
    Anchors,
    CollapsedRule,
    CollapsedSums,
    Company,
    Exact,
    Halt,
    Meeting,
    QuadraticRule,
    Recall,
    Seeds,
    Slots,
    Tracks,
)
from armillary.sums import whole
from armillary.sums.directional import DirectionalStatistics
from armillary.validation import GAUGE

_PHILOX_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)

gauge = GAUGE


def _float64(rows: Block) -> Float64Array:
    if isinstance(rows, SparseBlock):
        first, last = rows.indptr[0], rows.indptr[-1]
        parts = (rows.data[first:last], rows.indices[first:last], rows.indptr - first)
        csr = sp.csr_array(parts, shape=(len(rows.indptr) - 1, rows.n_features))
        return np.asarray(csr.toarray(), dtype=np.float64)
    return np.asarray(rows, dtype=np.float64)


def prepare(rule: AffineRule | QuadraticRule) -> Any:
    """Nothing to prepare."""
    return rule


def _scores(rows: Block, rule: AffineRule) -> Float64Array:
    """Products added in column order, as the contract defines labels; `@` adds them in an order of its own."""
    wide = _float64(rows)
    total = np.zeros((len(wide), len(rule.vectors)))
    for column in range(wide.shape[1]):
        total += wide[:, column, None] * rule.vectors[:, column]
    return np.asarray(total + rule.offsets)


def scores(rows: Block, rule: AffineRule | QuadraticRule, out: FloatArray) -> None:
    """Scores (n, K)."""
    out[:] = _quadratic_scores(rows, rule) if isinstance(rule, QuadraticRule) else _scores(rows, rule)


row_scores = scores


def own_scores(rows: Block, rule: AffineRule, labels: npt.NDArray[np.int32], out: Float64Array) -> None:
    """One column of the scores for each row."""
    out[:] = np.take_along_axis(_scores(rows, rule), labels[:, None], axis=1)[:, 0]


def assign_best(
    rows: Block, rule: AffineRule, labels: npt.NDArray[np.int32], changed: npt.NDArray[np.int64] | None
) -> int:
    """np.argmax takes the smallest k among ties, as the contract asks."""
    table = _scores(rows, rule)
    best = np.argmax(table, axis=1)
    is_refused = table.max(axis=1) < rule.floor
    if rule.is_rival is not None:
        is_refused |= rule.is_rival[best]
    moved = (best != labels) & ~is_refused
    if changed is not None:
        np.add.at(changed, best[moved], 1)
        np.add.at(changed, labels[moved & (labels >= 0)], 1)
    labels[:] = np.where(is_refused, -2 - labels, best)
    return int(moved.sum())


def assign_and_add(
    rows: Block,
    rule: AffineRule,
    weights: Float64Array | None,
    labels: npt.NDArray[np.int32],
    changed: npt.NDArray[np.int64] | None,
    counts: Float64Array,
    resultants: Float64Array,
    rounder: float,
) -> int:
    """One after the other."""
    n_changed = assign_best(rows, rule, labels, changed)
    add_rows(rows, weights, labels, np.ones(len(counts), dtype=np.bool_), counts, resultants, rounder)
    return n_changed


def assign_lanes(
    rows: FloatArray,
    rule: AffineRule,
    labels: npt.NDArray[np.int32],
    lanes: npt.NDArray[np.int64],
    helpers: Any = None,
    *,
    n_kept: int = 0,
    weights: Float64Array | None = None,
    rounder: float = 0.0,
    sums: Float64Array | None = None,
    is_change: bool = False,
    names: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None,
) -> int:
    """Lane after lane."""
    n_changed = 0
    for lane, (start, stop) in enumerate(lanes):
        first = max(start, n_kept)
        before = labels[start:stop].copy()
        n_changed += assign_best(rows[first:stop], rule, labels[first:stop], None) if first < stop else 0
        if sums is not None:
            every, part = np.ones(sums.shape[1], dtype=np.bool_), None if weights is None else weights[start:stop]
            last = every, sums[lane, :, -1], sums[lane, :, :-1], rounder
            if is_change:
                move_rows(rows[start:stop], part, before, labels[start:stop], *last)
            else:
                add_rows(rows[start:stop], part, labels[start:stop], *last)
        if names is not None:
            names[1][start:stop] = np.append(names[0], -1)[np.maximum(labels[start:stop], -1)]
    return n_changed


def takes_pieces(rows: FloatArray) -> bool:
    """It serves all rows."""
    return True


def assign_pieces(
    rows: FloatArray,
    rule: AffineRule,
    labels: npt.NDArray[np.int32],
    helpers: Any = None,
    *,
    angles: AngleBounds | None = None,
    weights: Float64Array | None = None,
    rounder: float = 0.0,
    sums: tuple[Float64Array, Float64Array] | None = None,
) -> int:
    """All rows at once."""
    if angles is None:
        n_changed = assign_best(rows, rule, labels, None)
    else:
        n_changed = assign_bounded(rows, rule, labels, None, angles)
    if sums is not None:
        add_rows(rows, weights, labels, np.ones(len(sums[0]), dtype=np.bool_), *sums, rounder)
    return n_changed


def crew() -> AbstractContextManager[None]:
    """Nobody."""
    return nullcontext()


def share_lanes(
    rows: FloatArray,
    rule: AffineRule,
    weights: Float64Array | None,
    lanes: npt.NDArray[np.int64],
    helpers: Any = None,
) -> tuple[Float64Array, Float64Array]:
    """Lane after lane."""
    sums, evidence = np.zeros((len(lanes), len(rule.offsets), rows.shape[1] + 1)), np.zeros(len(lanes))
    for lane, (start, stop) in enumerate(lanes):
        part = None if weights is None else weights[start:stop]
        evidence[lane] = add_soft(rows[start:stop], rule, part, sums[lane, :, -1], sums[lane, :, :-1])
    return sums, evidence


def assign_bounded(
    rows: Block,
    rule: AffineRule,
    labels: npt.NDArray[np.int32],
    changed: npt.NDArray[np.int64] | None,
    angles: AngleBounds,
) -> int:
    """Bounds may save work, never change a label: here they save none."""
    return assign_best(rows, rule, labels, changed)


def philox_uniform(key: tuple[int, int], numbers: npt.NDArray[np.int64]) -> Float64Array:
    """Philox 4x32-10 at counters (number, 0), as doubles in (0, 1)."""
    counter = numbers.astype(np.uint64)
    c = [counter & _LOW, counter >> np.uint64(32), np.zeros_like(counter), np.zeros_like(counter)]
    k0, k1 = key
    for _ in range(10):
        low, high = _PHILOX_MULTIPLIERS[0] * c[0], _PHILOX_MULTIPLIERS[1] * c[2]
        c = [
            (high >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            high & _LOW,
            (low >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            low & _LOW,
        ]
        k0, k1 = (k0 + _PHILOX_WEYL[0]) % 2**32, (k1 + _PHILOX_WEYL[1]) % 2**32
    bits = (c[0] << np.uint64(20)) | (c[1] >> np.uint64(12))
    return (bits.astype(np.float64) + 0.5) * 2.0**-52


def responsibilities(rows: Block, rule: AffineRule, out: FloatArray, log_evidence: Float64Array) -> None:
    """Softmax of the scores, and log sum exp."""
    table = _scores(rows, rule)
    log_evidence[:] = logsumexp(table, axis=1)
    out[:] = np.exp(table - log_evidence[:, None])


def add_rows(
    rows: Block,
    weights: Float64Array | None,
    labels: npt.NDArray[np.int32],
    is_wanted: npt.NDArray[np.bool_],
    counts: Float64Array,
    resultants: Float64Array,
    rounder: float,
) -> None:
    """One row at a time, rounded as sums/whole.py says."""
    for number, (row, label) in enumerate(zip(_float64(rows), labels, strict=True)):
        if label >= 0 and is_wanted[label]:
            weight = 1.0 if weights is None else weights[number]
            counts[label] += (weight + rounder) - rounder
            resultants[label] += (weight * row + rounder) - rounder


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
    """All rows leave, then all join: those that did not move leave no trace."""
    minus = -np.ones(len(before)) if weights is None else -weights
    add_rows(rows, minus, before, is_wanted, counts, resultants, rounder)
    add_rows(rows, weights, after, is_wanted, counts, resultants, rounder)


def add_soft(
    rows: Block,
    rule: AffineRule,
    weights: Float64Array | None,
    counts: Float64Array,
    resultants: Float64Array,
) -> float:
    """counts += W' 1 and resultants += W' X with W the weighted responsibilities."""
    table = _scores(rows, rule)
    log_evidence = logsumexp(table, axis=1)
    weight = np.ones(len(table)) if weights is None else weights
    table = weight[:, None] * np.exp(table - log_evidence[:, None])
    counts += table.sum(axis=0)
    resultants += table.T @ _float64(rows)
    return float(weight @ log_evidence)


def add_shares(
    rows: Block,
    weights: Float64Array | None,
    shares: Float64Array,
    is_wanted: npt.NDArray[np.bool_],
    counts: Float64Array,
    resultants: Float64Array,
) -> None:
    """counts += W' 1 and resultants += W' X with W the weighted shares."""
    weighted = np.where(is_wanted, shares if weights is None else weights[:, None] * shares, 0.0)
    counts += weighted.sum(axis=0)
    resultants += weighted.T @ _float64(rows)


def filter_scores(rows: Block, rule: AffineRule) -> tuple[FloatArray, float]:
    """Exact, so without doubt."""
    return _scores(rows, rule), 0.0


def exact_scores(rows: Block, rule: AffineRule, out: Float64Array) -> None:
    """The only scores there are here."""
    out[:] = _scores(rows, rule)


def last_rows(labels: npt.NDArray[np.int32], is_sought: npt.NDArray[np.bool_], last: npt.NDArray[np.int64]) -> None:
    """Later rows overwrite earlier ones."""
    is_set = (labels >= 0) & is_sought[np.maximum(labels, 0)]
    np.maximum.at(last, labels[is_set], np.flatnonzero(is_set))


def first_rows(
    labels: npt.NDArray[np.int32], first_row: int, is_sought: npt.NDArray[np.bool_], first: npt.NDArray[np.int64]
) -> None:
    """The least row number of each label."""
    is_set = (labels >= 0) & is_sought[np.maximum(labels, 0)]
    np.minimum.at(first, labels[is_set], first_row + np.flatnonzero(is_set))


def walk(
    start: int,
    numbers: npt.NDArray[np.int64],
    table: FloatArray,
    doubt: float,
    closing: npt.NDArray[np.int32],
    is_seed: npt.NDArray[np.bool_],
    company: Company,
    floor: float,
    max_open: int,
    recall: Recall,
    exact: Exact,
    labels: npt.NDArray[np.int32],
) -> tuple[int, Halt, int]:
    """The rule of the contract, read aloud. A curve is never exact: where a track could win, exact scores are asked."""
    n_tracks = len(recall.ceilings)
    for position in range(start, len(numbers)):
        row = numbers[position]
        has_company = (company.last > row) | (company.first < row)
        lone = int(closing[position])
        if lone <= -2:
            has_company[-2 - lone] = True
            lone = -1
        is_exact = position == exact.position
        cosines = np.where(has_company, exact.cosines if is_exact else table[position, : len(has_company)], -np.inf)
        best = cosines.max(initial=-np.inf)
        slot = int(np.argmax(cosines == best)) if has_company.any() else -1
        sleeping = np.flatnonzero(~has_company[:n_tracks])
        if sleeping.size and not is_exact:
            return position, Halt.DOUBT, -1
        recalls = exact.recalls[sleeping]
        if slot >= 0 and best >= floor and best >= recalls.max(initial=-np.inf):
            labels[position] = slot
        elif recalls.max(initial=-np.inf) >= floor and sleeping.size:
            return position, Halt.REVIVAL, int(sleeping[np.argmax(recalls)])
        elif slot >= 0 and has_company.sum() >= max_open:
            labels[position] = slot
        elif lone >= n_tracks and company.first[lone] >= row and is_seed[lone]:
            labels[position] = lone
        else:
            return position, Halt.BIRTH, -1
        company.first[labels[position]] = min(company.first[labels[position]], row)
    return len(numbers), Halt.END, -1


def walk_on(
    start: int,
    calm_from: int,
    numbers: npt.NDArray[np.int64],
    rows: FloatArray,
    seeds: Seeds,
    table: FloatArray,
    closing: npt.NDArray[np.int32],
    slots: Slots,
    n_slots: int,
    floor: float,
    max_open: int,
    recall: Recall,
    tracks: Tracks,
    exact: Exact,
    labels: npt.NDArray[np.int32],
) -> tuple[int, Halt, int, int]:
    """A walk, an event, a walk, ..."""
    position = start
    while True:
        company = Company(slots.last[:n_slots], slots.first[:n_slots])
        position, halt, track = walk(
            position, numbers, table, 0.0, closing, slots.is_seed, company, floor, max_open, recall, exact, labels
        )
        if halt in (Halt.END, Halt.DOUBT):
            return position, halt, n_slots, calm_from
        here, unit = slice(position, position + 1), seeds.units[position]
        if halt == Halt.REVIVAL:
            slot, one = track, slice(track, track + 1)
            alone = tracks._replace(
                directions=tracks.directions[one], weights=tracks.weights[one], steps=tracks.steps[one]
            )
            unit = meet_tracks(alone, seeds.units[here], seeds.lengths[here], "curvature").directions[0]
        else:
            lone = int(closing[position])
            slot = lone if lone >= len(tracks.weights) and slots.first[lone] >= numbers[position] else n_slots
        if slot == len(slots.directions):
            return position, halt, n_slots, calm_from
        n_slots = max(n_slots, slot + 1)
        slots.directions[slot] = unit
        labels[position] = slot
        slots.first[slot] = min(slots.first[slot], numbers[position])
        position += 1
        calm_from = position
        table[position:, slot] = _scores(rows[position:], AffineRule.cosines(unit[None]))[:, 0]


def one_by_one(
    rows: Block,
    weights: Float64Array | None,
    labels: npt.NDArray[np.int32],
    directions: Float64Array,
    floor: float,
    *,
    has_company: bool = False,
    max_open: int | None = None,
    memory: Any = None,
) -> tuple[npt.NDArray[np.int32], Float64Array]:
    """The sequential label sweep with live counts: the definition that `fitting/optimistic.py` must equal.

    dp_vmf_means.md, section 3, and ddp_vmf_means.md, section 5, as they are written. Returns labels and directions.
    """
    wide = _float64(rows)
    n_tracks = 0 if memory is None else len(memory.directions)
    found = labels.copy()
    slots = list(directions)
    counts = [int(has_company) + int((labels == k).sum()) for k in range(len(slots))]
    q = whole.exponent(len(wide)) if weights is None else whole.weights_exponent([weights])
    summed = None if weights is None else whole.lifted(weights, q)
    for i, row in enumerate(wide):
        old = int(found[i])
        resultant = whole.rounded(row if summed is None else summed[i] * row, q)
        alone = DirectionalStatistics(np.zeros(1), resultant[None], q)
        seed = alone.directions(otherwise=row[None] / np.sqrt(np.vecdot(row, row)))[0]
        is_own_company = weights is not None and weights[i] > 1.0
        if old >= 0 and not is_own_company:
            counts[old] -= 1
        is_open = np.array([count > 0 for count in counts], dtype=np.bool_)
        cosines = _scores(row[None], AffineRule.cosines(np.array(slots).reshape(-1, len(row))))[0]
        best = cosines[is_open].max(initial=-np.inf)
        sleeping = [track for track in range(n_tracks) if not is_open[track]]
        recalls = memory.scores(seed)[sleeping] if sleeping else np.empty(0)
        recall = recalls.max(initial=-np.inf)
        if is_open.any() and best >= floor and best >= recall:
            slot = int(np.flatnonzero(is_open & (cosines == best))[0])
        elif sleeping and recall >= floor:
            slot = sleeping[int(np.argmax(recalls))]
            slots[slot] = memory.revive(np.array([slot]), resultant[None])[0]
        elif is_open.any() and max_open is not None and is_open.sum() >= max_open:
            slot = int(np.flatnonzero(is_open & (cosines == best))[0])
        elif old >= n_tracks and counts[old] == 0:
            slot, slots[old] = old, seed
        else:
            slot = len(slots)
            slots.append(seed)
            counts.append(0)
        if old >= 0 and is_own_company:
            counts[old] -= 1
        found[i] = slot
        counts[slot] += 1
    return found, np.array(slots).reshape(-1, wide.shape[1])


def meet_tracks(tracks: Tracks, towards: Float64Array, lengths: Float64Array, rule: WeightRule) -> Meeting:
    """Walks to rows, what they cost, and what the tracks remember."""
    angles = sphere.angle(tracks.directions, towards)
    links = (tracks.weights, tracks.drift_concentration, tracks.steps)
    find = geodesic_walk.solve if tracks.is_exact else geodesic_walk.solve_small_angle
    walk = find(angles, *links, lengths)
    return Meeting(
        geodesic_walk.end_direction(tracks.directions, towards, walk.rows),
        geodesic_walk.penalty(walk, *links),
        geodesic_walk.memory_weight(walk, *links, lengths, rule),
    )


def revival_curves(tracks: Tracks, miss_price: float) -> RevivalCurve:
    """Curves (T, knots) of the score of one row over its angle to the track."""
    links = (tracks.weights, tracks.drift_concentration, tracks.steps)
    return geodesic_walk.revival_curve(*links, miss_price, is_exact=tracks.is_exact)


def gibbs_sweep(
    rows: Block,
    numbers: npt.NDArray[np.int64],
    projections: Float64Array,
    key: tuple[int, int],
    rule: CollapsedRule,
    sums: CollapsedSums,
    labels: npt.NDArray[np.int32],
    rounder: float = 0.0,
) -> int:
    """Remove, score, draw, add. Squares are taken anew from the resultants, and no log H is kept."""
    n_changed = 0
    uniforms = philox_uniform(key, numbers)
    for r, row in enumerate(_float64(rows)):
        before = labels[r]
        _move_collapsed(sums, before, (row + rounder) - rounder, projections[r], -1.0)
        responsibilities = np.exp(collapsed_log_conditional(row, projections[r], rule, sums))
        exceeds = np.cumsum(responsibilities) > uniforms[r]
        # rounding can leave the sum just below 1: the last component with any weight takes the rest
        labels[r] = np.argmax(exceeds) if exceeds.any() else np.flatnonzero(responsibilities)[-1]
        _move_collapsed(sums, labels[r], (row + rounder) - rounder, projections[r], 1.0)
        n_changed += int(labels[r] != before)
    return n_changed


def collapsed_log_conditional(
    row: Float64Array, projection: float, rule: CollapsedRule, sums: CollapsedSums
) -> Float64Array:
    """log p(k | rest) (K,) of a row (D,) that is in no sum."""
    kappa, c = rule.concentrations, rule.mean_concentration
    order = 0.5 * len(row) - 1.0

    def log_h_natural(resultants: Float64Array, along: Float64Array) -> Any:
        square = kappa**2 * (resultants**2).sum(axis=0) + 2.0 * kappa * c * along + c**2
        return bessel.log_h(order, np.sqrt(np.maximum(square, 0.0)))

    log_scores = (
        np.log(rule.weight_concentration + sums.counts)
        + log_h_natural(sums.resultants + row[:, None], sums.projections + projection)
        - log_h_natural(sums.resultants, sums.projections)
        - bessel.log_h(order, kappa)
    )
    return np.asarray(log_scores - logsumexp(log_scores))


def _move_collapsed(sums: CollapsedSums, k: int, row: Float64Array, projection: float, sign: float) -> None:
    """Add a row to the sums of component k, or take it out."""
    sums.counts[k] += sign
    sums.resultants[:, k] += sign * row
    sums.projections[k] += sign * projection
    if sums.counts[k] == 0.0:  # what is left is rounding
        sums.resultants[:, k] = 0.0
        sums.projections[k] = 0.0
    sums.squares[k] = sums.resultants[:, k] @ sums.resultants[:, k]


def _quadratic_scores(rows: Block, rule: QuadraticRule) -> Float64Array:
    """The log densities of the distributions, with weights for heights."""
    if rule.means is None:
        assert rule.shifts is not None, "a Gaussian has a mean"
        return gaussian_component.scores(_float64(rows), rule.roots, rule.shifts, rule.offsets)
    return tangent_gaussian.scores(_float64(rows), rule.means, rule.roots, rule.offsets, rule.volume)


def quadratic_odds(
    rows: FloatArray,
    numbers: npt.NDArray[np.int32],
    edges: npt.NDArray[np.int64],
    rule: QuadraticRule,
    pairs: npt.NDArray[np.int64],
    out: Float64Array,
) -> None:
    """All scores, of which two are taken."""
    for pair, (start, stop) in zip(pairs, pairwise(edges), strict=True):
        table = _quadratic_scores(rows[numbers[start:stop]], rule)
        out[start - edges[0] : stop - edges[0]] = table[:, 2 * pair] - table[:, 2 * pair + 1]


def draw_sides(
    numbers: npt.NDArray[np.int32],
    odds: Float64Array,
    key: tuple[int, int],
    first_row: int,
    is_left: npt.NDArray[np.bool_],
) -> None:
    """Uniforms below shares."""
    is_left[numbers] = philox_uniform(key, first_row + numbers.astype(np.int64)) < expit(odds)


def side_limbs(odds: Float64Array, is_left: npt.NDArray[np.bool_], rounders: tuple[float, float]) -> Float64Array:
    """Logs of shares, and odds."""
    signed = np.where(is_left, odds, -odds)
    return np.array([whole.limbs_of(log_expit(signed), rounders), whole.limbs_of(signed, rounders)])


def part_rows(
    numbers: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
    is_left: npt.NDArray[np.bool_],
    out: npt.NDArray[np.int32],
) -> npt.NDArray[np.int64]:
    """A stable sort of each set."""
    for start, stop in pairwise(starts):
        own = numbers[start:stop]
        out[start:stop] = own[np.argsort(~is_left[own], kind="stable")]
    return np.array([np.count_nonzero(is_left[numbers[start:stop]]) for start, stop in pairwise(starts)])


def divide_rows(numbers: npt.NDArray[np.int32], is_left: npt.NDArray[np.bool_], out: npt.NDArray[np.int32]) -> int:
    """A stable sort."""
    out[:] = numbers[np.argsort(~is_left, kind="stable")]
    return int(np.count_nonzero(is_left))


def merge_rows(one: npt.NDArray[np.int32], two: npt.NDArray[np.int32], out: npt.NDArray[np.int32]) -> None:
    """A sort."""
    out[:] = np.sort(np.concatenate([one, two]))


def group_rows(labels: npt.NDArray[np.int32], starts: npt.NDArray[np.int64], order: npt.NDArray[np.int32]) -> None:
    """A stable sort."""
    order[:] = np.argsort(labels, kind="stable")


def row_totals(
    rows: FloatArray,
    numbers: npt.NDArray[np.int32],
    edges: npt.NDArray[np.int64],
    rounder: float = 0.0,
    weights: Float64Array | None = None,
) -> Float64Array:
    """Sums of pieces."""
    own = _float64(rows[numbers]) if weights is None else weights[:, None] * _float64(rows[numbers])
    wide = (own + rounder) - rounder
    return np.array([wide[start:stop].sum(axis=0) for start, stop in pairwise(edges)])


def scatters(
    rows: FloatArray,
    numbers: npt.NDArray[np.int32],
    edges: npt.NDArray[np.int64],
    centres: Float64Array,
    weights: Float64Array | None,
) -> Float64Array:
    """Rows around the centre, their halves, and products of these."""
    limbs = []
    for centre, (start, stop) in zip(centres, pairwise(edges), strict=True):
        centred = _float64(rows[numbers[start:stop]]) - centre
        limbs.append(whole.products(centred if weights is None else np.sqrt(weights[start:stop])[:, None] * centred))
    return np.array(limbs)


def tangent_sums(
    rows: FloatArray,
    numbers: npt.NDArray[np.int32],
    edges: npt.NDArray[np.int64],
    bases: Float64Array,
    weights: Float64Array | None,
    rounders: Float64Array,
    *,
    with_scatter: bool,
    with_curvature: bool,
    out: Float64Array | None = None,
) -> Float64Array:
    """What each row adds, rounded, and summed piece by piece."""
    limbs = []
    for base, (start, stop) in zip(bases, pairwise(edges), strict=True):
        own = np.ones(stop - start) if weights is None else weights[start:stop]
        each = _tangent_parts(_float64(rows[numbers[start:stop]]), base, own, with_scatter, with_curvature)
        fields = np.repeat([0, 1, 2, 1, 3, 4], [len(base), len(base) ** 2, 1, 1, 1, 1])
        first = (each + rounders[fields, 0]) - rounders[fields, 0]
        left = ((each - first) + rounders[fields, 1]) - rounders[fields, 1]
        limbs.append([first.sum(axis=0), left.sum(axis=0)])
    if out is None:
        return np.array(limbs)
    out += np.array(limbs)
    return out


def _tangent_parts(
    rows: Float64Array, base: Float64Array, weights: Float64Array, with_scatter: bool, with_curvature: bool
) -> Float64Array:
    """What rows add to the sums of `tangent_gaussian.from_limbs`, (n, D + D D + 4)."""
    seen = tangent_gaussian.log_map(rows, base)
    heavy = weights[:, None] * seen.vectors
    squares = np.triu(heavy[:, :, None] * seen.vectors[:, None, :]).reshape(len(rows), -1)
    a = np.maximum(seen.angles, tangent_gaussian.LEAST_ANGLE)
    k = 1.0 / np.tan(np.minimum(a, tangent_gaussian.MOST_ANGLE))
    sways = 1.0 + k * k - 1.0 / (a * a) + (len(base) - 2.0) * (1.0 / a - k) * k
    scatters = np.column_stack([squares, weights * seen.log_stretch, weights * seen.is_antipode * seen.angles**2])
    return np.column_stack([heavy, with_scatter * scatters, with_curvature * np.column_stack([a * k, sways])])


def find_anchors(labels: npt.NDArray[np.int32], first_row: int, anchors: Anchors) -> None:
    """The lowest (priority, row) of each label."""
    numbers = first_row + np.arange(len(labels))
    priorities = philox_uniform(anchors.key, numbers)
    for label, number, priority in zip(labels, numbers, priorities, strict=True):
        if (priority, number) < (anchors.priorities[label], anchors.rows[label]):
            anchors.priorities[label], anchors.rows[label] = priority, number


def draw_anchored(
    rows: Block,
    rule: QuadraticRule | AffineRule,
    anchors: Anchors,
    key: tuple[int, int],
    first_row: int,
    labels: npt.NDArray[np.int32],
) -> None:
    """Weights of the clusters that are allowed, cumulated."""
    table = np.empty((len(labels), len(rule.offsets)))
    scores(rows, rule, table)
    numbers = first_row + np.arange(len(labels))
    own = philox_uniform(anchors.key, numbers)[:, None]
    is_allowed = anchors.priorities < own
    is_allowed |= (anchors.priorities == own) & (anchors.rows <= numbers[:, None])
    table[~is_allowed] = -np.inf
    cumulative = np.cumsum(np.exp(table - table.max(axis=1, keepdims=True)), axis=1)
    reached = cumulative >= philox_uniform(key, numbers)[:, None] * cumulative[:, -1:]
    stays = np.isin(numbers, anchors.rows)
    labels[:] = np.where(stays, labels, np.argmax(reached, axis=1))
