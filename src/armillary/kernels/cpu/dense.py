"""Dense rows. Few columns: tiles turned to one array per coordinate. Many columns: sums for BLAS-scored blocks."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from armillary.kernels.cpu._jit import FILTER, VECTOR_SUMS, kernel
from armillary.kernels.cpu.choose import exact_score, record, settle_among_all
from armillary.kernels.cpu.exponential import exp_nonpositive
from armillary.kernels.cpu.simd import add_to_line, line_length

# Rows per tile: D + 3 float32 arrays of this length stay in the first-level cache up to D = 16.
_TILE = 256
# Up to this many columns the compiler turns rows to columns by vector shuffles, and tiles can be longer.
_FEW_COLUMNS = 8
_LONG_TILE = 512
# Products of the rows of a tile that go on side by side.
_LANES = 16
# Independent partial sums: consecutive rows of one cluster, as in an image, need not wait for each other.
_BANKS = 4
_INFINITY = np.float32(np.inf)


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
def pour(lines, counts, resultants, k):
    """Add the lines (banks, >= D + 1) of cluster k, sums and a count each, to its statistics."""
    dimension = resultants.shape[1]
    for b in range(lines.shape[0]):
        for d in range(dimension):
            resultants[k, d] += lines[b, d]
        counts[k] += lines[b, dimension]


class SmallKernels(NamedTuple):
    """The loops for one number of columns, known to the compiler."""

    scores: Any
    assign_best: Any
    add_rows: Any
    add_soft: Any


def clusters_together(dimension: int) -> int:
    """Clusters scored in one sweep over a tile, so that best scores are fetched and put back less often.

    At K = 20, 4 take 0.65 (D = 3) to 0.8 (D = 8) of the time of one by one; 8 do not fit into registers, nor do 4
    of more columns.
    """
    return 4 if dimension <= _FEW_COLUMNS else 1


@cache
def small(dimension: int) -> SmallKernels:
    """Kernels whose inner loops over `dimension` columns are unrolled by the compiler.

    They close over numbers alone: numba cannot keep on disk what closes over another compiled function.
    """
    together = clusters_together(dimension)
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

    @kernel(fastmath=FILTER)
    def assign_best(
        rows, padded, margin, vectors, offsets, floor, pit, bar, is_rival, labels, changed, weights, counts, resultants
    ):
        n_rows = rows.shape[0]
        n_clusters = vectors.shape[0]
        columns = np.empty((dimension, tile), np.float32)
        top = np.empty(tile, np.float32)
        second = np.empty(tile, np.float32)
        label = np.empty(tile, np.int32)
        has_rivals = is_rival.any()
        n_changed = 0
        if counts is not None:
            lines = np.zeros((n_clusters + 1, _BANKS, length))
        for start in range(0, n_rows, tile):
            size = min(tile, n_rows - start)
            # views that start at 0: an index like start + r keeps the compiler from using vector lanes (0.25 ms of
            # 0.7 ms at 300,000 x 3)
            values = rows[start : start + size].reshape(-1)
            before = labels[start : start + size]
            for r in range(size):
                for d in range(dimension):
                    columns[d, r] = values[dimension * r + d]
            for first in range(0, padded.shape[0], together):
                for r in range(size):
                    best = top[r] if first > 0 else -_INFINITY
                    runner_up = second[r] if first > 0 else -_INFINITY
                    winner = label[r] if first > 0 else np.int32(0)
                    for k in range(first, first + together):
                        score = padded[k, dimension]
                        for d in range(dimension):
                            score += columns[d, r] * padded[k, d]
                        runner_up = max(runner_up, min(score, best))
                        winner = np.int32(k) if score > best else winner
                        best = max(score, best)
                    top[r] = best
                    second[r] = runner_up
                    label[r] = winner
            # int32 like the lanes they are counted in: 64-bit counters take twice the instructions
            n_close = np.int32(0)
            n_low = np.int32(0)
            for r in range(size):
                n_close += np.int32(top[r] - second[r] <= margin)
                n_low += np.int32((top[r] <= bar) & (top[r] >= pit))
                # surely below the floor: no look at the row, and no branch
                label[r] = -1 if top[r] < pit else label[r]
            if n_close > 0:
                for r in range(size):
                    if top[r] - second[r] <= margin and top[r] >= pit:
                        label[r] = settle_among_all(rows[start + r], vectors, offsets)
            if n_low > 0:
                for r in range(size):
                    k = label[r]
                    if k >= 0 and top[r] <= bar and exact_score(rows[start + r], vectors[k], offsets[k]) < floor:
                        label[r] = -1
            if has_rivals:
                for r in range(size):
                    if label[r] >= 0 and is_rival[label[r]]:
                        label[r] = -1
            if changed is None:
                # all lanes at once: a tenth of the time where every row moves, as in a first sweep
                n_moved = np.int32(0)
                for r in range(size):
                    n_moved += np.int32((label[r] >= 0) & (label[r] != before[r]))
                    before[r] = label[r] if label[r] >= 0 else -2 - before[r]
                n_changed += int(n_moved)
            else:
                n_differing = np.int32(0)
                for r in range(size):
                    n_differing += np.int32(before[r] != label[r])
                if n_differing > 0:
                    for r in range(size):
                        if before[r] != label[r]:
                            n_changed += record(label[r], r, before, changed)
            if counts is not None:
                for r in range(size):
                    weight = 1.0 if weights is None else weights[start + r]
                    add_to_line(rows, start + r, dimension, weight, lines, (label[r] + 1) * _BANKS + r % _BANKS)
        if counts is not None:
            for k in range(n_clusters):
                pour(lines[k + 1], counts, resultants, k)
        return n_changed

    @kernel
    def add_rows(rows, weights, labels, is_wanted, counts, resultants):
        lines = np.zeros((resultants.shape[0] + 1, _BANKS, length))
        for i in range(rows.shape[0]):
            weight = 1.0 if weights is None else weights[i]
            add_to_line(rows, i, dimension, weight, lines, (max(labels[i], -1) + 1) * _BANKS + i % _BANKS)
        for k in range(resultants.shape[0]):
            if is_wanted[k]:
                pour(lines[k + 1], counts, resultants, k)

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

    return SmallKernels(scores, assign_best, add_rows, add_soft)
