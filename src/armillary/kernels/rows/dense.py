"""Dense rows. Few columns: all that a pass does to them. Many columns: sums for BLAS-scored blocks."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armillary.kernels.crew import add_to_total, ask, dismiss, take_number, take_seat, this_call
from armillary.kernels.jit import CONTRACT, VECTOR_SUMS, kernel
from armillary.kernels.rows.choose import decide, exact_score, record, record_moves
from armillary.kernels.rows.nearest import label_lanes
from armillary.kernels.rows.simd import LANES, add_to_line, lane_product, line_length
from armillary.kernels.rows.softmax import SOFT_LANES, add_shared, share_eight, sum_eight
from armillary.sums.whole import LOW_BITS, ROUNDER

# Rows per tile: they stay in the first-level cache from their labels to their sums up to D = 16.
_TILE = 256
# Up to this many columns tiles can be longer.
_FEW_COLUMNS = 8
_LONG_TILE = 512
# Rows of a tile of shares: with those of 30 clusters they stay in the first-level cache.
_SOFT_TILE = 128
# Products of the rows of a tile that go on side by side.
_LANES = 16
# Independent partial sums: consecutive rows of one cluster, as in an image, need not wait for each other.
_BANKS = 4


@kernel
def own_scores(rows, vectors, offsets, labels, out):
    """The float64 score of each row under its own label."""
    for i in range(rows.shape[0]):
        out[i] = exact_score(rows[i], vectors[labels[i]], offsets[labels[i]])


@kernel
def exact_scores(rows, vectors, offsets, out):
    """Every float64 score, products added in column order."""
    for i in range(rows.shape[0]):
        for k in range(vectors.shape[0]):
            out[i, k] = exact_score(rows[i], vectors[k], offsets[k])


@kernel
def row_scores(rows, vectors, out):
    """Products of rows and a few vectors in their dtype, each a sum in lanes.

    BLAS has other bits at the ends of blocks, and no two devices group a sum alike unless they are told how.
    """
    for i in range(rows.shape[0]):
        for k in range(vectors.shape[0]):
            out[i, k] = lane_product(rows, i, vectors, k)


@kernel
def add_rows(rows, weights, labels, is_wanted, rounder, counts, resultants):
    """Add rows to the sums of their labels, each number rounded first (sums/whole.py). No weights: 1 for each."""
    is_weighted = weights.shape[0] > 0
    for i in range(rows.shape[0]):
        k = labels[i]
        if k >= 0 and is_wanted[k]:
            weight = weights[i] if is_weighted else 1.0
            add_row(rows[i], weight, rounder, k, counts, resultants)


@kernel(is_inlined=True)
def add_row(row, weight, rounder, k, counts, resultants):
    """Add a row to the sums of cluster k."""
    total = resultants[k]
    counts[k] += (weight + rounder) - rounder
    for d in range(row.shape[0]):
        total[d] += (weight * row[d] + rounder) - rounder


@kernel
def move_rows(rows, weights, before, after, is_wanted, rounder, counts, resultants):
    """Take rows whose label changed out of the sums of one and add them to those of the other; below 0 is nowhere.

    Only sums that are wanted change.
    """
    for i in range(rows.shape[0]):
        old, new = max(before[i], -1), max(after[i], -1)
        if old != new:
            weight = 1.0 if weights is None else weights[i]
            if old >= 0 and is_wanted[old]:
                add_row(rows[i], -weight, rounder, old, counts, resultants)
            if new >= 0 and is_wanted[new]:
                add_row(rows[i], weight, rounder, new, counts, resultants)


@kernel
def shift_row(rows, i, old, new, weight, rounder, sums):
    """Take row i out of the sums (K, D + 1) of one label and add it to those of another; below 0 is nowhere."""
    if max(old, -1) != max(new, -1):
        last = sums.shape[1] - 1
        for d in range(last + 1):
            value = (weight * (rows[i, d] if d < last else 1.0) + rounder) - rounder
            if old >= 0:
                sums[old, d] -= value
            if new >= 0:
                sums[new, d] += value


@kernel
def pour(lines, rounder, sums):
    """Add the lines (banks, >= D + 1) of a cluster, made by `add_to_line`, to its sums and count (D + 1,).

    Each column holds m bits(M) + its sum in quanta, modulo 2^64, for m rows. A count is between 0 and 2^51 quanta, and
    bits(M) a multiple of 2^51: so the count's column tells m bits(M), however large m is.
    """
    last = sums.shape[0] - 1
    counted = np.int64(0)
    for b in range(lines.shape[0]):
        counted += lines[b, last]
    base = counted & ~LOW_BITS
    quantum = rounder / ROUNDER
    for d in range(sums.shape[0]):
        total = -base
        for b in range(lines.shape[0]):
            total += lines[b, d]
        sums[d] += total * quantum


def rooms(n_threads: int, n_features: int, n_lines: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """What `assign_lanes` writes to, for each thread: labels of rows, and lines of sums, one more than clusters."""
    # a line to spare, and more labels than are used: no two threads write to one line of the cache
    lines = np.empty((n_threads, n_lines + 1 if n_lines else 0, _BANKS, line_length(n_features)), np.int64)
    return np.empty((n_threads, 4 * LANES), np.int32), lines


class SmallKernels(NamedTuple):
    """The loops for one number of columns, known to the compiler."""

    scores: Any
    are_unit: Any
    assign_lanes: Any
    add_rows: Any
    share_lanes: Any


@cache
def small(dimension: int) -> SmallKernels:
    """Kernels whose inner loops over `dimension` columns are unrolled by the compiler.

    They close over numbers alone: numba cannot keep on disk what closes over another compiled function.
    """
    tile = _LONG_TILE if dimension <= _FEW_COLUMNS else _TILE
    length = line_length(dimension)

    @kernel
    def scores(rows, vectors, offsets, out):
        for i in range(rows.shape[0]):
            for k in range(vectors.shape[0]):
                total = 0.0
                for d in range(dimension):
                    total += np.float64(rows[i, d]) * vectors[k, d]
                out[i, k] = total + offsets[k]

    @kernel(fastmath=CONTRACT)
    def are_unit(numbers, within):  # of all rows, one after the other: a reshape here compiles a library
        for start in range(0, numbers.shape[0], tile * dimension):
            values = numbers[start : start + tile * dimension]
            n_off = np.int32(0)
            for r in range(values.shape[0] // dimension):
                excess = -values.dtype.type(1.0)
                for d in range(dimension):
                    excess += values[dimension * r + d] * values[dimension * r + d]
                n_off += np.int32(not abs(excess) <= within)  # a NaN is off
            if n_off > 0:
                return False
        return True

    # What is not asked for comes as an empty array: one version for all that a pass does to rows of one type.
    @kernel
    def assign_lanes(
        is_helper,
        box,
        n_helpers,
        rows,
        table,
        n_bits,
        margin,
        vectors,
        offsets,
        floor,
        is_rival,
        labels,
        changed,
        lanes,
        taken,
        n_kept,
        weights,
        rounder,
        sums,
        is_change,
        names,
        named,
        all_before,
        all_lines,
    ):
        n_changed = 0
        seat: int = take_seat(taken)
        before, lines = all_before[seat], all_lines[seat]
        is_counted, is_named = changed.shape[0] > 0, named.shape[0] > 0
        is_moving = is_change and sums.shape[0] > 0
        is_summed = sums.shape[0] > 0 and not is_moving
        is_weighted = weights.shape[0] > 0
        if is_helper == 0:
            ask(box, n_helpers, this_call())
        lane: int = take_number(taken)
        while lane < lanes.shape[0]:
            for k in range(lines.shape[0]):
                for bank in range(_BANKS):
                    for d in range(length):
                        lines[k, bank, d] = 0
            for start in range(lanes[lane, 0], lanes[lane, 1], tile):
                stop = start + tile if start + tile < lanes[lane, 1] else lanes[lane, 1]
                first = start if start > n_kept else n_kept
                while first + LANES <= stop:
                    doubtful, n_moved, others = label_lanes(
                        rows, first, dimension, table, n_bits, margin, labels, before
                    )
                    if is_counted:
                        record_moves(before, labels[first : first + LANES], changed)
                    n_changed += n_moved
                    if doubtful != 0:
                        for i in range(first, first + LANES):
                            if doubtful >> (i - first) & 1:
                                label = decide(rows, i, vectors, offsets, floor, is_rival)
                                n_changed += record(label, i, labels, changed)
                    if is_moving and (others | doubtful) != 0:
                        for i in range(first, first + LANES):
                            if (others | doubtful) >> (i - first) & 1:
                                old, weight = before[i - first], weights[i] if is_weighted else 1.0
                                shift_row(rows, i, old, labels[i], weight, rounder, sums[lane])
                    first += LANES
                for i in range(first, stop):
                    old = labels[i]
                    n_changed += record(decide(rows, i, vectors, offsets, floor, is_rival), i, labels, changed)
                    if is_moving:
                        shift_row(rows, i, old, labels[i], weights[i] if is_weighted else 1.0, rounder, sums[lane])
                if is_summed:
                    # views that start at 0 spare a test for numbers below it: 0.1 ms of 0.55 ms at 300,000 x 3
                    part, fresh = rows[start:stop], labels[start:stop]
                    if is_weighted:
                        given = weights[start:stop]
                        for r in range(stop - start):
                            line = ((fresh[r] if fresh[r] > -1 else -1) + 1) * _BANKS + r % _BANKS
                            add_to_line(part, r, dimension, given[r], rounder, lines, line)
                    else:
                        for r in range(stop - start):
                            line = ((fresh[r] if fresh[r] > -1 else -1) + 1) * _BANKS + r % _BANKS
                            add_to_line(part, r, dimension, 1.0, rounder, lines, line)
                if is_named:
                    fresh, name = labels[start:stop], named[start:stop]
                    for r in range(stop - start):
                        name[r] = names[fresh[r]] if fresh[r] >= 0 else -1
            if is_summed:
                for k in range(vectors.shape[0]):
                    pour(lines[k + 1], rounder, sums[lane, k])
            lane = take_number(taken)
        add_to_total(taken, n_changed)
        if is_helper == 0:
            dismiss(box, n_helpers)

    @kernel
    def add_rows(rows, weights, labels, is_wanted, rounder, counts, resultants):
        lines = np.zeros((resultants.shape[0] + 1, _BANKS, length), np.int64)
        is_weighted = weights.shape[0] > 0
        for i in range(rows.shape[0]):
            weight = weights[i] if is_weighted else 1.0
            line = (max(labels[i], -1) + 1) * _BANKS + i % _BANKS
            add_to_line(rows, i, dimension, weight, rounder, lines, line)
        for k in range(resultants.shape[0]):
            if is_wanted[k]:
                sums = np.zeros(dimension + 1)
                pour(lines[k + 1], rounder, sums)
                counts[k] += sums[dimension]
                for d in range(dimension):
                    resultants[k, d] += sums[d]

    @kernel(fastmath=VECTOR_SUMS)
    def share_lanes(is_helper, box, n_helpers, rows, vectors, offsets, weights, lanes, taken, sums, evidences):
        n_clusters = vectors.shape[0]
        line = (n_clusters | 1) * SOFT_LANES  # an odd number of cache lines spreads over the cache
        columns = np.zeros((dimension, _SOFT_TILE))
        score = np.empty(line * (_SOFT_TILE // SOFT_LANES))
        top, total, weight = np.empty(_SOFT_TILE), np.empty(_SOFT_TILE), np.empty(_SOFT_TILE)
        eights = np.empty((n_clusters, dimension + 1, SOFT_LANES))
        product = np.empty(_LANES)
        if is_helper == 0:
            ask(box, n_helpers, this_call())
        lane: int = take_number(taken)
        while lane < lanes.shape[0]:
            eights[:] = 0.0
            evidence = 0.0
            for start in range(lanes[lane, 0], lanes[lane, 1], _SOFT_TILE):
                size = min(_SOFT_TILE, lanes[lane, 1] - start)
                n_steps = (size + SOFT_LANES - 1) // SOFT_LANES
                values = rows[start : start + size].reshape(-1)
                for r in range(size):
                    for d in range(dimension):
                        columns[d, r] = values[dimension * r + d]
                for step in range(n_steps):
                    share_eight(columns, step * SOFT_LANES, dimension, vectors, offsets, score, step * line, top, total)
                for r in range(size, n_steps * SOFT_LANES):
                    weight[r] = 0.0  # what rows before left there counts nothing
                if weights is None:
                    for r in range(size):
                        weight[r] = 1.0 / total[r]
                    # the log of a product: a log for each row would take a third of the time. No part holds more than
                    # tile / parts factors, each at most K
                    for part in range(_LANES):
                        product[part] = 1.0
                    whole = size - size % _LANES
                    for first in range(0, whole, _LANES):
                        for part in range(_LANES):
                            product[part] *= total[first + part]
                    for r in range(whole, size):
                        product[0] *= total[r]
                    for part in range(_LANES):
                        evidence += np.log(product[part])
                else:
                    given = weights[start : start + size]
                    for r in range(size):
                        weight[r] = given[r] / total[r]
                    for r in range(size):
                        top[r] = given[r] * (top[r] + np.log(total[r]))
                for r in range(size):
                    evidence += top[r]
                for k in range(n_clusters):
                    add_shared(columns, n_steps, dimension, weight, score, k * SOFT_LANES, line, eights, k)
            for k in range(n_clusters):
                for d in range(dimension + 1):
                    sums[lane, k, d] = sum_eight(eights, (k * (dimension + 1) + d) * SOFT_LANES)
            evidences[lane] = evidence
            lane = take_number(taken)
        if is_helper == 0:
            dismiss(box, n_helpers)

    return SmallKernels(scores, are_unit, assign_lanes, add_rows, share_lanes)
