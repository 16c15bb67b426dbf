"""Choices from a block of scores (n, K): the best, a softmax, a draw. Used for BLAS-scored dense blocks."""

from __future__ import annotations

import numpy as np

from armillary.kernels.jit import FILTER, VECTOR_SUMS, kernel
from armillary.kernels.rows.exponential import exp_nonpositive


@kernel
def exact_score(row, vector, offset):
    """The float64 score, products added in column order: the arbiter of near ties."""
    total = 0.0
    for d in range(row.shape[0]):
        total += np.float64(row[d]) * vector[d]
    return total + offset


@kernel
def settle(row, vectors, offsets, scores, threshold):
    """The arg max of the float64 scores among the clusters whose filter score reaches `threshold`."""
    best = -np.inf
    label = 0
    for k in range(scores.shape[0]):
        if scores[k] >= threshold:
            score = exact_score(row, vectors[k], offsets[k])
            if score > best:
                best = score
                label = k
    return label


@kernel
def decide(rows, i, vectors, offsets, floor, is_rival):
    """The label of row i by float64 scores alone; -1 refuses it."""
    best = -np.inf
    label = 0
    for k in range(vectors.shape[0]):
        # `exact_score`: a view of each row and vector would take four times as long
        score = 0.0
        for d in range(vectors.shape[1]):
            score += np.float64(rows[i, d]) * vectors[k, d]
        score += offsets[k]
        if score > best:
            best = score
            label = k
    return -1 if is_rival[label] or best < floor else label


@kernel(fastmath=FILTER)
def best_and_close(scores, margin):
    """The largest score, its first index, and how many scores lie within `margin` of it."""
    n_clusters = scores.shape[0]
    top = scores[0]
    for k in range(1, n_clusters):
        top = scores[k] if scores[k] > top else top
    first = n_clusters
    n_close = 0
    threshold = top - margin
    for k in range(n_clusters):
        first = min(first, k if scores[k] == top else n_clusters)
        n_close += scores[k] >= threshold
    return top, first, n_close


@kernel
def count_reaching(scores, threshold):
    """How many scores are at least `threshold`."""
    n_reaching = np.int32(0)
    for k in range(scores.shape[0]):
        n_reaching += np.int32(scores[k] >= threshold)
    return n_reaching


@kernel
def record(label, row, labels, changed):
    """Write a label; count the clusters a moving row leaves and enters (None, empty: not). Returns 1 if the row moved.

    A negative label refuses the row: what it had before is kept as -2 - before.
    """
    before = labels[row]
    if label < 0:
        labels[row] = -2 - before
        return 0
    if before == label:
        return 0
    labels[row] = label
    if changed is None:
        return 1
    if changed.shape[0] == 0:
        return 1
    changed[label] += 1
    if before >= 0:
        changed[before] += 1
    return 1


@kernel
def record_moves(before, labels, changed):
    """Count the clusters that rows with new labels have left and entered."""
    for i in range(labels.shape[0]):
        if labels[i] >= 0 and labels[i] != before[i]:
            changed[labels[i]] += 1
            if before[i] >= 0:
                changed[before[i]] += 1


@kernel
def add_offsets(scores, offsets):
    """Scores in place: each row plus the offsets."""
    for i in range(scores.shape[0]):
        for k in range(scores.shape[1]):
            scores[i, k] += offsets[k]


@kernel
def choose_best(
    scores, margin, rows, vectors, offsets, floor, bar, is_rival, numbers, labels, changed, own, other, doubt
):
    """Arg max of each row of float32 `scores`; near ties, and bests next to the floor, are settled in float64.

    Score r belongs to row `numbers[r]` of `rows` and `labels` (None: to row r). A best score above `bar` is surely
    not below `floor`. Where `own` and `other` are not None they receive safe bounds on the angles to the best and to
    the second best direction.
    """
    n_changed = 0
    for r in range(scores.shape[0]):
        i = r if numbers is None else numbers[r]
        label = labels[i]
        # most rows keep their label: seeing that nothing else comes near it takes a sixth of the time of an arg max
        if label < 0 or count_reaching(scores[r], scores[r, label] - margin) > 1:
            top, label, n_close = best_and_close(scores[r], margin)
            if n_close > 1:
                label = settle(rows[i], vectors, offsets, scores[r], top - margin)
        if own is not None:
            own[i], other[i] = bound_angles(scores[r], label, doubt)
        if is_rival[label] or (
            scores[r, label] <= bar and exact_score(rows[i], vectors[label], offsets[label]) < floor
        ):
            label = -1
        n_changed += record(label, i, labels, changed)
    return n_changed


@kernel
def bound_angles(scores, label, doubt):
    """The angle to `label` from above and to the nearest other direction from below; cosines are off by <= doubt."""
    second = -2.0
    for k in range(scores.shape[0]):
        if k != label and scores[k] > second:
            second = np.float64(scores[k])
    own = np.arccos(min(1.0, max(-1.0, scores[label] - doubt)))
    other = np.arccos(min(1.0, max(-1.0, second + doubt))) if second > -2.0 else np.inf
    return own, other


@kernel(fastmath=VECTOR_SUMS)
def softmax_row(scores, out):
    """Responsibilities of one row into `out`; returns log sum exp."""
    n_clusters = scores.shape[0]
    top = np.float64(scores[0])
    for k in range(1, n_clusters):
        top = max(top, np.float64(scores[k]))
    for k in range(n_clusters):
        out[k] = exp_nonpositive(np.float64(scores[k]) - top)
    total = 0.0
    for k in range(n_clusters):
        total += out[k]
    for k in range(n_clusters):
        out[k] /= total
    return top + np.log(total)


@kernel
def softmax_rows(scores, out, log_evidence):
    """`softmax_row` for a block."""
    for i in range(scores.shape[0]):
        log_evidence[i] = softmax_row(scores[i], out[i])


@kernel
def weigh(weights, responsibilities, log_evidence, counts):
    """Weight the responsibilities in place and add them to `counts`; returns the weighted evidence."""
    evidence = 0.0
    for i in range(responsibilities.shape[0]):
        weight = 1.0 if weights is None else weights[i]
        evidence += weight * log_evidence[i]
        for k in range(responsibilities.shape[1]):
            responsibilities[i, k] *= weight
            counts[k] += responsibilities[i, k]
    return evidence


@kernel
def draw_label(responsibilities, u):
    """The first cluster whose cumulative responsibility exceeds u."""
    last = responsibilities.shape[0] - 1
    total = 0.0
    for k in range(last):
        total += responsibilities[k]
        if total > u:
            return k
    # rounding can leave the sum just below 1: the last cluster with any weight takes the rest
    while last > 0 and responsibilities[last] == 0.0:
        last -= 1
    return last
