"""Dense rows. Few columns: tiles turned to one array per coordinate. Many columns: sums for BLAS-scored blocks."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from armillary.kernels.cpu._jit import FILTER, VECTOR_SUMS, kernel
from armillary.kernels.cpu.choose import exact_score, record, settle_among_all
from armillary.kernels.cpu.exponential import exp_nonpositive

# Rows per tile: D + 3 float32 arrays of this length stay in the first-level cache up to D = 16.
_TILE = 256
# Independent partial sums: consecutive rows of one cluster do not wait for each other.
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


class SmallKernels(NamedTuple):
    """The loops for one number of columns, known to the compiler."""

    scores: Any
    assign_best: Any
    add_rows: Any
    add_soft: Any


@cache
def small(dimension: int) -> SmallKernels:
    """Kernels whose inner loops over `dimension` columns are unrolled by the compiler.

    They close over that number alone: numba cannot keep on disk what closes over another compiled function.
    """

    @kernel
    def scores(rows, vectors, offsets, out):
        for i in range(rows.shape[0]):
            for k in range(vectors.shape[0]):
                total = 0.0
                for d in range(dimension):
                    total += np.float64(rows[i, d]) * vectors[k, d]
                out[i, k] = total + offsets[k]

    @kernel(fastmath=FILTER)
    def assign_best(rows, vectors32, offsets32, margin, vectors, offsets, floor, bar, is_rival, labels, changed):
        n_rows = rows.shape[0]
        columns = np.empty((dimension, _TILE), np.float32)
        top = np.empty(_TILE, np.float32)
        second = np.empty(_TILE, np.float32)
        label = np.empty(_TILE, np.int32)
        has_rivals = is_rival.any()
        n_changed = 0
        for start in range(0, n_rows, _TILE):
            size = min(_TILE, n_rows - start)
            # views that start at 0: an index like start + r keeps the compiler from using vector lanes (0.25 ms of
            # 0.7 ms at 300,000 x 3)
            values = rows[start : start + size].reshape(-1)
            before = labels[start : start + size]
            for r in range(size):
                for d in range(dimension):
                    columns[d, r] = values[dimension * r + d]
            for r in range(size):
                top[r] = -np.inf
                second[r] = -np.inf
                label[r] = 0
            for k in range(vectors32.shape[0]):
                for r in range(size):
                    score = offsets32[k]
                    for d in range(dimension):
                        score += columns[d, r] * vectors32[k, d]
                    second[r] = max(second[r], min(score, top[r]))
                    label[r] = np.int32(k) if score > top[r] else label[r]
                    top[r] = max(score, top[r])
            n_close = 0
            n_low = 0
            for r in range(size):
                n_close += top[r] - second[r] <= margin
                n_low += top[r] <= bar
            if n_close > 0:
                for r in range(size):
                    if top[r] - second[r] <= margin:
                        label[r] = settle_among_all(rows[start + r], vectors, offsets)
            if n_low > 0:
                for r in range(size):
                    k = label[r]
                    if top[r] <= bar and exact_score(rows[start + r], vectors[k], offsets[k]) < floor:
                        label[r] = -1
            if has_rivals:
                for r in range(size):
                    if label[r] >= 0 and is_rival[label[r]]:
                        label[r] = -1
            n_moved = 0
            for r in range(size):
                n_moved += before[r] != label[r]
            if n_moved > 0:
                for r in range(size):
                    if before[r] != label[r]:
                        n_changed += record(label[r], r, before, changed)
        return n_changed

    @kernel
    def add_rows(rows, weights, labels, is_wanted, counts, resultants):
        n_clusters = resultants.shape[0]
        # the last line of a bank takes rows with a negative label
        bank = np.zeros((_BANKS, n_clusters + 1, dimension + 1))
        n_rows = rows.shape[0]
        whole = n_rows - n_rows % _BANKS
        for i in range(0, whole, _BANKS):
            for b in range(_BANKS):
                total = bank[b, max(labels[i + b], -1)]
                weight = 1.0 if weights is None else weights[i + b]
                for d in range(dimension):
                    total[d] += weight * rows[i + b, d]
                total[dimension] += weight
        for i in range(whole, n_rows):
            total = bank[0, max(labels[i], -1)]
            weight = 1.0 if weights is None else weights[i]
            for d in range(dimension):
                total[d] += weight * rows[i, d]
            total[dimension] += weight
        for k in range(n_clusters):
            if is_wanted[k]:
                for b in range(_BANKS):
                    for d in range(dimension):
                        resultants[k, d] += bank[b, k, d]
                    counts[k] += bank[b, k, dimension]

    @kernel(fastmath=VECTOR_SUMS)
    def add_soft(rows, vectors, offsets, weights, counts, resultants):
        n_rows = rows.shape[0]
        n_clusters = vectors.shape[0]
        columns = np.empty((dimension, _TILE))
        score = np.empty((n_clusters, _TILE))
        top = np.empty(_TILE)
        total = np.empty(_TILE)
        weight = np.empty(_TILE)
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
