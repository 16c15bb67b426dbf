"""Dense rows. Few columns: all that a pass does to them. Many columns: sums for BLAS-scored blocks."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from armillary.kernels.cpu._jit import CONTRACT, VECTOR_SUMS, kernel
from armillary.kernels.cpu.choose import decide, exact_score, record, record_moves
from armillary.kernels.cpu.exponential import exp_nonpositive
from armillary.kernels.cpu.nearest import label_lanes, take_number
from armillary.kernels.cpu.simd import LANES, add_to_line, line_length

# Rows per tile: they stay in the first-level cache from their labels to their sums up to D = 16.
_TILE = 256
# Up to this many columns tiles can be longer.
_FEW_COLUMNS = 8
_LONG_TILE = 512
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
def add_rows(rows, weights, labels, is_wanted, counts, resultants):
    """Add rows to the sums of their labels, in row order."""
    for i in range(rows.shape[0]):
        k = labels[i]
        if k >= 0 and is_wanted[k]:
            total = resultants[k]
            if weights is None:
                counts[k] += 1.0
                for d in range(rows.shape[1]):
                    total[d] += rows[i, d]
            else:
                weight = weights[i]
                counts[k] += weight
                for d in range(rows.shape[1]):
                    total[d] += weight * rows[i, d]


@kernel
def pour(lines, sums):
    """Add the lines (banks, >= D + 1) of a cluster to its sums and count (D + 1,)."""
    for b in range(lines.shape[0]):
        for d in range(sums.shape[0]):
            sums[d] += lines[b, d]


class SmallKernels(NamedTuple):
    """The loops for one number of columns, known to the compiler."""

    scores: Any
    are_unit: Any
    assign_lanes: Any
    add_rows: Any
    add_soft: Any


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
    def are_unit(rows, within):
        for start in range(0, rows.shape[0], tile):
            values = rows[start : start + tile].reshape(-1)
            n_off = np.int32(0)
            for r in range(values.shape[0] // dimension):
                excess = -rows.dtype.type(1.0)
                for d in range(dimension):
                    excess += values[dimension * r + d] * values[dimension * r + d]
                n_off += np.int32(not abs(excess) <= within)  # a NaN is off
            if n_off > 0:
                return False
        return True

    @kernel
    def assign_lanes(
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
        sums,
        names,
    ):
        n_changed = 0
        before = np.empty(LANES, np.int32)
        if sums is not None:
            lines = np.empty((vectors.shape[0] + 1, _BANKS, length))
        lane: int = take_number(taken)
        while lane < lanes.shape[0]:
            if sums is not None:
                lines[:] = 0.0
            for start in range(lanes[lane, 0], lanes[lane, 1], tile):
                stop = min(start + tile, lanes[lane, 1])
                first = max(start, n_kept)
                while first + LANES <= stop:
                    if changed is not None:
                        before[:] = labels[first : first + LANES]
                    doubtful, n_moved = label_lanes(rows, first, dimension, table, n_bits, margin, labels)
                    if changed is not None:
                        record_moves(before, labels[first : first + LANES], changed)
                    n_changed += n_moved
                    if doubtful != 0:
                        for i in range(first, first + LANES):
                            if doubtful >> (i - first) & 1:
                                label = decide(rows, i, vectors, offsets, floor, is_rival)
                                n_changed += record(label, i, labels, changed)
                    first += LANES
                for i in range(first, stop):
                    n_changed += record(decide(rows, i, vectors, offsets, floor, is_rival), i, labels, changed)
                if sums is not None:
                    # views that start at 0 spare a test for numbers below it: 0.1 ms of 0.55 ms at 300,000 x 3
                    part, fresh = rows[start:stop], labels[start:stop]
                    for r in range(stop - start):
                        weight = 1.0 if weights is None else weights[start + r]
                        add_to_line(part, r, dimension, weight, lines, (max(fresh[r], -1) + 1) * _BANKS + r % _BANKS)
                if names is not None:
                    fresh, named = labels[start:stop], names[1][start:stop]
                    for r in range(stop - start):
                        named[r] = names[0][fresh[r]] if fresh[r] >= 0 else -1
            if sums is not None:
                for k in range(vectors.shape[0]):
                    pour(lines[k + 1], sums[lane, k])
            lane = take_number(taken)
        return n_changed

    @kernel
    def add_rows(rows, weights, labels, is_wanted, counts, resultants):
        lines = np.zeros((resultants.shape[0] + 1, _BANKS, length))
        for i in range(rows.shape[0]):
            weight = 1.0 if weights is None else weights[i]
            add_to_line(rows, i, dimension, weight, lines, (max(labels[i], -1) + 1) * _BANKS + i % _BANKS)
        for k in range(resultants.shape[0]):
            if is_wanted[k]:
                pour(lines[k + 1], resultants[k])
                pour(lines[k + 1, :, dimension:], counts[k : k + 1])

    @kernel(fastmath=VECTOR_SUMS)
    def add_soft(rows, vectors, offsets, weights, counts, resultants):
        n_rows = rows.shape[0]
        n_clusters = vectors.shape[0]
        columns = np.empty((dimension, _TILE))
        score = np.empty((n_clusters, _TILE))
        top = np.empty(_TILE)
        total = np.empty(_TILE)
        weight = np.empty(_TILE)
        product = np.empty(_LANES)
        evidence = 0.0
        for start in range(0, n_rows, _TILE):
            size = min(_TILE, n_rows - start)
            values = rows[start : start + size].reshape(-1)
            for r in range(size):
                for d in range(dimension):
                    columns[d, r] = values[dimension * r + d]
            for r in range(size):
                top[r] = -np.inf
                total[r] = 0.0
            for k in range(n_clusters):
                for r in range(size):
                    value = offsets[k]
                    for d in range(dimension):
                        value += columns[d, r] * vectors[k, d]
                    score[k, r] = value
                    top[r] = max(value, top[r])
            for k in range(n_clusters):
                for r in range(size):
                    value = exp_nonpositive(score[k, r] - top[r])
                    score[k, r] = value
                    total[r] += value
            if weights is None:
                for r in range(size):
                    weight[r] = 1.0
            else:
                given = weights[start : start + size]
                for r in range(size):
                    weight[r] = given[r]
            if weights is None:
                # the log of a product: a log for each row would take a third of the time. No lane holds more than
                # tile / lanes factors, each at most K
                for lane in range(_LANES):
                    product[lane] = 1.0
                whole = size - size % _LANES
                for first in range(0, whole, _LANES):
                    for lane in range(_LANES):
                        product[lane] *= total[first + lane]
                for r in range(whole, size):
                    product[0] *= total[r]
                for lane in range(_LANES):
                    evidence += np.log(product[lane])
            else:
                for r in range(size):
                    top[r] = weight[r] * (top[r] + np.log(total[r]))
            for r in range(size):
                evidence += top[r]
            for r in range(size):
                weight[r] /= total[r]
            for k in range(n_clusters):
                share = score[k]
                for r in range(size):
                    share[r] *= weight[r]
                count = 0.0
                for r in range(size):
                    count += share[r]
                counts[k] += count
                for d in range(dimension):
                    column = columns[d]
                    moment = 0.0
                    for r in range(size):
                        moment += share[r] * column[r]
                    resultants[k, d] += moment
        return evidence

    return SmallKernels(scores, are_unit, assign_lanes, add_rows, add_soft)
