"""CSR rows. A row's K scores are built by walking its non-zeros over the (D, K) transpose of the vectors."""

from __future__ import annotations

import numpy as np

from armillary.kernels.cpu._jit import kernel
from armillary.kernels.cpu.choose import best_and_close, bound_angles, draw_label, record, softmax_row
from armillary.kernels.cpu.philox import uniform


@kernel
def _score_row(data, indices, start, stop, matrix, offsets, out):
    """Scores of one row in the dtype of `out`; `matrix` (D, >= K) may have more columns than there are offsets."""
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
    matrix32,
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
    padded = np.empty(matrix32.shape[1], np.float32)
    score = padded[:n_clusters]
    n_changed = 0
    for r in range(n_rows):
        i = r if numbers is None else numbers[r]
        start, stop = indptr[i], indptr[i + 1]
        _score_row(data, indices, start, stop, matrix32, offsets32, padded)
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
    """Add rows to the sums of their labels, in row order. resultants (K, D) in C order."""
    for i in range(indptr.shape[0] - 1):
        k = labels[i]
        if k >= 0 and is_wanted[k]:
            total = resultants[k]
            weight = 1.0 if weights is None else weights[i]
            counts[k] += weight
            for p in range(indptr[i], indptr[i + 1]):
                total[indices[p]] += weight * data[p]


@kernel
def add_soft(data, indices, indptr, matrix, offsets, weights, counts, transposed):
    """Add rows to every cluster by responsibility; `transposed` is the (D, K) transpose of the resultants."""
    n_clusters = matrix.shape[1]
    score = np.empty(n_clusters)
    evidence = 0.0
    for i in range(indptr.shape[0] - 1):
        _score_row(data, indices, indptr[i], indptr[i + 1], matrix, offsets, score)
        log_evidence = softmax_row(score, score)
        weight = 1.0 if weights is None else weights[i]
        evidence += weight * log_evidence
        for k in range(n_clusters):
            score[k] *= weight
            counts[k] += score[k]
        for p in range(indptr[i], indptr[i + 1]):
            total = transposed[indices[p]]
            for k in range(n_clusters):
                total[k] += score[k] * data[p]
    return evidence
