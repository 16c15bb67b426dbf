"""CSR rows. A row's K scores are built by walking its non-zeros over the (D, K) transpose of the vectors."""

from __future__ import annotations

import numpy as np
from numba import literal_unroll

from armillary.kernels.jit import kernel
from armillary.kernels.rows.choose import best_and_close, bound_angles, record, softmax_row
from armillary.kernels.rows.contract import NO_SHARE
from armillary.kernels.rows.exponential import SMALLEST
from armillary.kernels.rows.simd import CACHE_LINE, LANES, fetch, multiply_sparse

# Columns of scores that are summed in registers at once; the last of a row, in units that matrices are padded to.
_MOST_COLUMNS = 32
COLUMN_UNIT = 4
_LAST_COLUMNS = (4, 8, 12, 16, 20, 24, 28)
# Rows that are listed before they are added, so that what they are added to can be fetched ahead.
_LISTED = 2048
# Rows between a fetch of a row into the cache and its sum. Rows of one cluster are far apart: nothing else foresees it.
_ROWS_AHEAD = 4
# float64 in a cache line.
_PER_LINE = CACHE_LINE // 8


@kernel
def _score_row(data, indices, start, stop, matrix, offsets, out):
    """Scores of one row in the dtype of `out`."""
    for k in range(out.shape[0]):
        out[k] = 0.0
    for p in range(start, stop):
        value = out.dtype.type(data[p])
        column = matrix[indices[p]]
        for k in range(out.shape[0]):
            out[k] += value * column[k]
    for k in range(offsets.shape[0]):
        out[k] += offsets[k]


@kernel
def _score_padded(data, indices, start, stop, padded, offsets, out):
    """Scores of one row in the dtype of `padded` (D, >= K), products fused and added in the order stored.

    `padded` and `out` have a multiple of `COLUMN_UNIT` columns.
    """
    first = 0
    while first + _MOST_COLUMNS <= padded.shape[1]:
        multiply_sparse(data, indices, start, stop, padded, first, _MOST_COLUMNS, out)
        first += _MOST_COLUMNS
    for width in literal_unroll(_LAST_COLUMNS):
        if first + width == padded.shape[1]:
            multiply_sparse(data, indices, start, stop, padded, first, width, out)
    for k in range(offsets.shape[0]):
        out[k] += offsets[k]


@kernel
def transpose(directions, slopes, out):
    """Slopes times directions (K, D) into the first K columns of `out` (D, >= K)."""
    for d in range(directions.shape[1]):
        for k in range(directions.shape[0]):
            out[d, k] = slopes[k] * directions[k, d]


@kernel
def _exact_score(data, indices, start, stop, direction, slope, offset):
    """The float64 score, products added in column order: the arbiter of near ties."""
    total = 0.0
    for p in range(start, stop):
        total += np.float64(data[p]) * (slope * direction[indices[p]])
    return total + offset


@kernel
def own_scores(data, indices, indptr, directions, slopes, offsets, labels, out):
    """The float64 score of each row under its own label."""
    for i in range(indptr.shape[0] - 1):
        k = labels[i]
        out[i] = _exact_score(data, indices, indptr[i], indptr[i + 1], directions[k], slopes[k], offsets[k])


@kernel
def scores(data, indices, indptr, matrix, offsets, out):
    """Scores of a block in the dtype of `out`."""
    for i in range(indptr.shape[0] - 1):
        _score_row(data, indices, indptr[i], indptr[i + 1], matrix, offsets, out[i])


@kernel
def row_scores(data, indices, indptr, matrix, lanes, out):
    """Products of rows and a few vectors in the dtype of `out`, with the bits of `simd.lane_product`.

    `matrix` (D, >= K) is the transpose of the vectors, `lanes` (K, LANES) room for the sums of a row.
    """
    n_vectors = out.shape[1]
    for i in range(indptr.shape[0] - 1):
        for k in range(n_vectors):
            for lane in range(LANES):
                lanes[k, lane] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            value, column, lane = out.dtype.type(data[p]), matrix[indices[p]], indices[p] & (LANES - 1)
            for k in range(n_vectors):
                lanes[k, lane] += value * column[k]
        for k in range(n_vectors):
            total = lanes[k]
            for lane in range(8):
                total[lane] += total[lane + 8]
            for lane in range(4):
                total[lane] += total[lane + 4]
            out[i, k] = (total[0] + total[2]) + (total[1] + total[3])


@kernel
def assign_best(
    data,
    indices,
    indptr,
    numbers,
    padded32,
    offsets32,
    margins,
    directions,
    slopes,
    offsets,
    floor,
    is_rival,
    labels,
    changed,
    own,
    other,
    norm_doubt,
):
    """Arg max of the rows in `numbers` (None: all), float32 first and near ties in float64.

    `margins` are the constant part of the filter's doubt and the part for each non-zero. `own` and `other`
    receive bounds on angles as in `choose.choose_best`.
    """
    n_clusters = offsets32.shape[0]
    n_rows = indptr.shape[0] - 1 if numbers is None else numbers.shape[0]
    scores = np.empty(padded32.shape[1], np.float32)
    score = scores[:n_clusters]
    n_changed = 0
    for r in range(n_rows):
        i = r if numbers is None else numbers[r]
        start, stop = indptr[i], indptr[i + 1]
        _score_padded(data, indices, start, stop, padded32, offsets32, scores)
        margin = np.float32(margins[0] + (stop - start) * margins[1])
        top, label, n_close = best_and_close(score, margin)
        if n_close > 1:
            best = -np.inf
            for k in range(n_clusters):
                if score[k] >= top - margin:
                    exact = _exact_score(data, indices, start, stop, directions[k], slopes[k], offsets[k])
                    if exact > best:
                        best = exact
                        label = k
        if own is not None:
            own[i], other[i] = bound_angles(score, label, margin + norm_doubt)
        if is_rival[label] or (
            score[label] - margin <= floor
            and _exact_score(data, indices, start, stop, directions[label], slopes[label], offsets[label]) < floor
        ):
            label = -1
        n_changed += record(label, i, labels, changed)
    return n_changed


@kernel
def responsibilities(data, indices, indptr, padded, offsets, out, log_evidence):
    """Responsibilities and log evidence of a block."""
    scores = np.empty(padded.shape[1])
    score = scores[: offsets.shape[0]]
    for i in range(indptr.shape[0] - 1):
        _score_padded(data, indices, indptr[i], indptr[i + 1], padded, offsets, scores)
        log_evidence[i] = _share_row(score, out[i])


@kernel
def _share_row(score, out):
    """`softmax_row` to the bit. In many columns all exponentials but one vanish: none is taken then."""
    top, label, n_close = best_and_close(score, 1.0 - SMALLEST)
    if n_close > 1:
        return softmax_row(score, out)
    for k in range(out.shape[0]):
        out[k] = 1.0 if k == label else 0.0
    return top


@kernel
def add_rows(data, indices, indptr, weights, labels, is_wanted, rounder, counts, resultants):
    """Add rows to the sums of their labels, each number rounded first (sums/whole.py)."""
    numbers, clusters, parts = _empty_list()
    n_listed = 0
    for i in range(indptr.shape[0] - 1):
        if labels[i] >= 0 and is_wanted[labels[i]]:
            numbers[n_listed], clusters[n_listed] = i, labels[i]
            parts[n_listed] = 1.0 if weights is None else weights[i]
            n_listed += 1
            if n_listed == _LISTED:
                _add_listed(data, indices, indptr, n_listed, numbers, clusters, parts, rounder, counts, resultants)
                n_listed = 0
    _add_listed(data, indices, indptr, n_listed, numbers, clusters, parts, rounder, counts, resultants)


@kernel
def move_rows(data, indices, indptr, weights, before, after, is_wanted, rounder, counts, resultants):
    """Take rows whose label changed out of the sums of one and add them to those of the other; below 0 is nowhere.

    Only sums that are wanted change.
    """
    numbers, clusters, parts = _empty_list()
    n_listed = 0
    for i in range(indptr.shape[0] - 1):
        old, new = max(before[i], -1), max(after[i], -1)
        if old != new:
            weight = 1.0 if weights is None else weights[i]
            if n_listed + 2 > _LISTED:
                _add_listed(data, indices, indptr, n_listed, numbers, clusters, parts, rounder, counts, resultants)
                n_listed = 0
            if old >= 0 and is_wanted[old]:
                numbers[n_listed], clusters[n_listed], parts[n_listed] = i, old, -weight
                n_listed += 1
            if new >= 0 and is_wanted[new]:
                numbers[n_listed], clusters[n_listed], parts[n_listed] = i, new, weight
                n_listed += 1
    _add_listed(data, indices, indptr, n_listed, numbers, clusters, parts, rounder, counts, resultants)


@kernel
def add_shares(data, indices, indptr, weights, shares, is_wanted, rounder, counts, resultants):
    """Add rows to the wanted sums by their shares (n, K), in row order.

    In many columns nearly all of a row goes to one cluster or two: the row then costs little more than a labelled one.
    """
    wanted = np.flatnonzero(is_wanted)
    numbers, clusters, parts = _empty_list()
    n_listed = 0
    for i in range(indptr.shape[0] - 1):
        for k in wanted:
            if shares[i, k] > NO_SHARE:
                numbers[n_listed], clusters[n_listed] = i, k
                parts[n_listed] = shares[i, k] if weights is None else weights[i] * shares[i, k]
                n_listed += 1
                if n_listed == _LISTED:
                    _add_listed(data, indices, indptr, n_listed, numbers, clusters, parts, rounder, counts, resultants)
                    n_listed = 0
    _add_listed(data, indices, indptr, n_listed, numbers, clusters, parts, rounder, counts, resultants)


@kernel
def _empty_list():
    """Room for rows, their clusters, and how much of each row is to be added."""
    return np.empty(_LISTED, np.int64), np.empty(_LISTED, np.int64), np.empty(_LISTED)


@kernel
def _add_listed(data, indices, indptr, n_listed, numbers, clusters, parts, rounder, counts, resultants):
    """Add parts[j] of row numbers[j] to the sums of clusters[j], for the first `n_listed` j in order.

    The sums are too large for the caches: those that a row is added to are fetched while the row before it is added.
    Together with the rows themselves that halves the time of 18,744 documents, which was spent waiting.
    """
    for j in range(n_listed):
        if j + _ROWS_AHEAD < n_listed:
            i = numbers[j + _ROWS_AHEAD]
            for p in range(indptr[i], indptr[i + 1], _PER_LINE):
                fetch(data, p)
                fetch(indices, p)
        if j + 1 < n_listed:
            i = numbers[j + 1]
            total = resultants[clusters[j + 1]]
            for p in range(indptr[i], indptr[i + 1]):
                fetch(total, indices[p])
        i = numbers[j]
        total = resultants[clusters[j]]
        part = parts[j]
        counts[clusters[j]] += (part + rounder) - rounder
        for p in range(indptr[i], indptr[i + 1]):
            # unsigned: numba need not ask whether the index counts from the end
            total[np.uint64(indices[p])] += (part * data[p] + rounder) - rounder
