"""Collapsed Gibbs: rows leave their component and are drawn anew, one after the other (vmf_mixtures.md, 7).

A row costs one product with the resultants (D, K) and K evaluations of log H: one for its own component without it,
one for each other component with it; its own component with it is what the cache holds. Products are added in column
order, so dense and CSR rows have the same scores to the bit.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.kernels.jit import kernel
from armillary.kernels.rows.bessel import log_h, order_tables
from armillary.kernels.rows.choose import draw_label, softmax_row
from armillary.kernels.rows.philox import uniform
from armillary.points import Block, SparseBlock
from armillary.rules import CollapsedRule, CollapsedSums


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
    """Draw each row's label given all others; return how many changed."""
    tables = order_tables(0.5 * len(sums.resultants) - 1.0)
    if isinstance(rows, SparseBlock):
        return int(sweep_sparse(*rows[:3], numbers, projections, *key, rule, sums, labels, rounder, tables))
    return int(sweep_dense(rows, numbers, projections, *key, rule, sums, labels, rounder, tables))


@kernel
def _natural_length(kappa, square, projection, c):
    """|kappa S + C_0 mu_0| from |S|^2 and S.mu_0; rounding can leave its square a little below 0."""
    return math.sqrt(max(kappa * (kappa * square + 2.0 * c * projection) + c * c, 0.0))


@kernel
def _caches(rule, sums, tables):
    """log H(|w_k|), log H(kappa_k), log(alpha + n_k) less both, and room for two more: (K,) each."""
    concentrations, alpha, c = rule
    counts, _, squares, projections = sums
    n_components = counts.shape[0]
    log_h_natural = np.empty(n_components)
    log_h_own = np.empty(n_components)
    offsets = np.empty(n_components)
    for k in range(n_components):
        log_h_natural[k] = log_h(_natural_length(concentrations[k], squares[k], projections[k], c), tables)
        log_h_own[k] = log_h(concentrations[k], tables)
        offsets[k] = math.log(alpha + counts[k]) - log_h_own[k] - log_h_natural[k]
    return log_h_natural, log_h_own, offsets, np.empty(n_components), np.empty(n_components)


@kernel
def _redraw(before, products, norm, projection, u, rule, sums, caches, tables):
    """The new label of a row; sums and caches are brought up to date, except the resultants.

    products (K,): x.S_k, with the row still in its own component; norm: x.x; projection: x.mu_0.
    """
    concentrations, alpha, c = rule
    counts, _, squares, projections = sums
    log_h_natural, log_h_own, offsets, joined, scores = caches
    # the row's own component without it; the last to leave takes the rounding of the sums along
    n_left = counts[before] - 1.0
    square_left, projection_left = 0.0, 0.0
    if n_left > 0.0:
        square_left = squares[before] - 2.0 * products[before] + norm
        projection_left = projections[before] - projection
    log_h_left = log_h(_natural_length(concentrations[before], square_left, projection_left, c), tables)
    offset_left = math.log(alpha + n_left) - log_h_own[before] - log_h_left
    for k in range(counts.shape[0]):
        if k != before:
            square = squares[k] + 2.0 * products[k] + norm
            joined[k] = log_h(_natural_length(concentrations[k], square, projections[k] + projection, c), tables)
            scores[k] = offsets[k] + joined[k]
    scores[before] = offset_left + log_h_natural[before]
    softmax_row(scores, scores)
    label = draw_label(scores, u)
    if label == before:
        return label
    counts[before] = n_left
    squares[before] = square_left
    projections[before] = projection_left
    log_h_natural[before] = log_h_left
    offsets[before] = offset_left
    counts[label] += 1.0
    squares[label] += 2.0 * products[label] + norm
    projections[label] += projection
    log_h_natural[label] = joined[label]
    offsets[label] = math.log(alpha + counts[label]) - log_h_own[label] - joined[label]
    return label


@kernel
def sweep_dense(rows, numbers, projections, key0, key1, rule, sums, labels, rounder, tables):
    """A sweep over dense rows."""
    resultants = sums[1]
    n_features, n_components = resultants.shape
    caches = _caches(rule, sums, tables)
    products = np.empty(n_components)
    n_changed = 0
    n_fours = n_features // 4 * 4
    for r in range(rows.shape[0]):
        row = rows[r]
        norm = 0.0
        for d in range(n_features):
            norm += np.float64(row[d]) * np.float64(row[d])
        for k in range(n_components):
            products[k] = 0.0
        # four columns at a time fetch and store the products once; the order of the sum is that of one at a time
        for d in range(0, n_fours, 4):
            x0, x1 = np.float64(row[d]), np.float64(row[d + 1])
            x2, x3 = np.float64(row[d + 2]), np.float64(row[d + 3])
            s0, s1, s2, s3 = resultants[d], resultants[d + 1], resultants[d + 2], resultants[d + 3]
            for k in range(n_components):
                products[k] = (((products[k] + x0 * s0[k]) + x1 * s1[k]) + x2 * s2[k]) + x3 * s3[k]
        for d in range(n_fours, n_features):
            x = np.float64(row[d])
            for k in range(n_components):
                products[k] += x * resultants[d, k]
        before = labels[r]
        u = uniform(key0, key1, numbers[r])
        label = _redraw(before, products, norm, projections[r], u, rule, sums, caches, tables)
        if label != before:
            n_changed += 1
            labels[r] = label
            for d in range(n_features):
                x = (np.float64(row[d]) + rounder) - rounder
                resultants[d, before] -= x
                resultants[d, label] += x
    return n_changed


@kernel
def sweep_sparse(data, indices, indptr, numbers, projections, key0, key1, rule, sums, labels, rounder, tables):
    """A sweep over CSR rows."""
    resultants = sums[1]
    n_components = resultants.shape[1]
    caches = _caches(rule, sums, tables)
    products = np.empty(n_components)
    n_changed = 0
    for r in range(indptr.shape[0] - 1):
        start, stop = indptr[r], indptr[r + 1]
        norm = 0.0
        for k in range(n_components):
            products[k] = 0.0
        for p in range(start, stop):
            x = np.float64(data[p])
            norm += x * x
            column = resultants[indices[p]]
            for k in range(n_components):
                products[k] += x * column[k]
        before = labels[r]
        u = uniform(key0, key1, numbers[r])
        label = _redraw(before, products, norm, projections[r], u, rule, sums, caches, tables)
        if label != before:
            n_changed += 1
            labels[r] = label
            for p in range(start, stop):
                x = (np.float64(data[p]) + rounder) - rounder
                resultants[indices[p], before] -= x
                resultants[indices[p], label] += x
    return n_changed
