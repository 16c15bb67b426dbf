"""CSR rows. A row's K scores are built by walking its non-zeros over the (D, K) transpose of the vectors."""

from __future__ import annotations

import numpy as np

from armillary.kernels.cpu._jit import kernel
from armillary.kernels.cpu.choose import best_and_close, bound_angles, draw_label, record, softmax_row
from armillary.kernels.cpu.philox import uniform
from armillary.kernels.cpu.simd import fetch, multiply_sparse

# Columns of scores that are summed in registers at once; and the least, which wide matrices are padded to.
_WIDE = 32
NARROW = 16
# Rows between a fetch of a row into the cache and its sum. Rows of one cluster are far apart: nothing else foresees it.
_ROWS_AHEAD = 4
# Shares up to this add less to a sum than its rounding, with a thousand times as many rows as a share of 1 would need.
_NO_SHARE = 1e-20
# float64 in a cache line.
_PER_CACHE_LINE = 8


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
def _filter_row(data, indices, start, stop, padded, offsets, out):
    """Float32 scores of one row; `padded` (D, >= K) has a multiple of `NARROW` columns, as has `out`."""
    for first in range(0, padded.shape[1], _WIDE):
        if first + _WIDE <= padded.shape[1]:
            multiply_sparse(data, indices, start, stop, padded, first, _WIDE, out)
        else:
            multiply_sparse(data, indices, start, stop, padded, first, NARROW, out)
    for k in range(offsets.shape[0]):
        out[k] += offsets[k]


@kernel
def transpose(vectors, out):
    """Vectors (K, D) into the first K columns of `out` (D, >= K)."""
    for d in range(vectors.shape[1]):
        for k in range(vectors.shape[0]):
            out[d, k] = vectors[k, d]


@kernel
def _exact_score(data, indices, start, stop, vector, offset):
    """The float64 score, products added in column order: the arbiter of near ties."""
    total = 0.0
    for p in range(start, stop):
        total += np.float64(data[p]) * vector[indices[p]]
    return total + offset


@kernel
def own_scores(data, indices, indptr, vectors, offsets, labels, out):
    """The float64 score of each row under its own label."""
    for i in range(indptr.shape[0] - 1):
        k = labels[i]
        out[i] = _exact_score(data, indices, indptr[i], indptr[i + 1], vectors[k], offsets[k])


@kernel
def scores(data, indices, indptr, matrix, offsets, out):
    """Scores of a block in the dtype of `out`."""
    for i in range(indptr.shape[0] - 1):
        _score_row(data, indices, indptr[i], indptr[i + 1], matrix, offsets, out[i])


@kernel
def assign_best(
    data,
    indices,
    indptr,
    numbers,
    padded32,
    offsets32,
    margins,
    vectors,
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
        _filter_row(data, indices, start, stop, padded32, offsets32, scores)
        margin = np.float32(margins[0] + (stop - start) * margins[1])
        top, label, n_close = best_and_close(score, margin)
        if n_close > 1:
            best = -np.inf
            for k in range(n_clusters):
                if score[k] >= top - margin:
                    exact = _exact_score(data, indices, start, stop, vectors[k], offsets[k])
                    if exact > best:
                        best = exact
                        label = k
        if own is not None:
            own[i], other[i] = bound_angles(score, label, margin + norm_doubt)
        if is_rival[label] or (
            score[label] - margin <= floor
            and _exact_score(data, indices, start, stop, vectors[label], offsets[label]) < floor
        ):
            label = -1
        n_changed += record(label, i, labels, changed)
    return n_changed


@kernel
def assign_draw(data, indices, indptr, matrix, offsets, weights, key0, key1, first_row, labels):
    """One draw per row; returns the weighted evidence."""
    score = np.empty(matrix.shape[1])
    evidence = 0.0
    for i in range(indptr.shape[0] - 1):
        _score_row(data, indices, indptr[i], indptr[i + 1], matrix, offsets, score)
        log_evidence = softmax_row(score, score)
        labels[i] = draw_label(score, uniform(key0, key1, first_row + i))
        evidence += log_evidence if weights is None else weights[i] * log_evidence
    return evidence


@kernel
def responsibilities(data, indices, indptr, matrix, offsets, out, log_evidence):
    """Responsibilities and log evidence of a block."""
    score = np.empty(matrix.shape[1])
    for i in range(indptr.shape[0] - 1):
        _score_row(data, indices, indptr[i], indptr[i + 1], matrix, offsets, score)
        log_evidence[i] = softmax_row(score, out[i])


@kernel
def add_rows(data, indices, indptr, weights, labels, is_wanted, counts, resultants):
    """Add rows to the sums of their labels, in row order. resultants (K, D) in C order.

    The sums are too large for the caches: those that a row is added to are fetched while the row before it is added.
    Together with the rows themselves that halves the time of 18,744 documents, which was spent waiting.
    """
    wanted = np.empty(indptr.shape[0] - 1, np.int64)
    n_wanted = 0
    for i in range(wanted.shape[0]):
        if labels[i] >= 0 and is_wanted[labels[i]]:
            wanted[n_wanted] = i
            n_wanted += 1
    flat = resultants.reshape(-1)
    for w in range(n_wanted):
        if w + _ROWS_AHEAD < n_wanted:
            i = wanted[w + _ROWS_AHEAD]
            for p in range(indptr[i], indptr[i + 1], _PER_CACHE_LINE):
                fetch(data, p)
                fetch(indices, p)
        if w + 1 < n_wanted:
            i = wanted[w + 1]
            first = labels[i] * resultants.shape[1]
            for p in range(indptr[i], indptr[i + 1]):
                fetch(flat, first + indices[p])
        i = wanted[w]
        k = labels[i]
        total = resultants[k]
        weight = 1.0 if weights is None else weights[i]
        counts[k] += weight
        for p in range(indptr[i], indptr[i + 1]):
            # unsigned: numba need not ask whether the index counts from the end
            total[np.uint64(indices[p])] += weight * data[p]


@kernel
def add_shares(data, indices, indptr, weights, shares, is_wanted, counts, resultants):
    """Add rows to the wanted sums by their shares (n, K), cluster by cluster, in row order. resultants (K, D) are C.

    In many columns nearly all of a row goes to one or two clusters: what is below rounding is passed over.
    """
    for k in range(resultants.shape[0]):
        if not is_wanted[k]:
            continue
        total = resultants[k]
        for i in range(indptr.shape[0] - 1):
            share = shares[i, k]
            if share > _NO_SHARE:
                weight = share if weights is None else weights[i] * share
                counts[k] += weight
                for p in range(indptr[i], indptr[i + 1]):
                    total[np.uint64(indices[p])] += weight * data[p]
