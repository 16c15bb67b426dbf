"""Sparse rows in slices of time, in NumPy: the oracle of `kernels/rows/slices.py`, with all sums (T, K, D) in sight."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from armillary._typing import Float64Array
from armillary.kernels.rows.contract import NO_SHARE, ChainSteps, ListedShares, SliceColumns
from armillary.points import SparseBlock


def list_shares(shares: Float64Array, weights: Float64Array | None) -> ListedShares:
    """The shares (n, K) above `NO_SHARE`, times the weights of rows."""
    is_there = shares > NO_SHARE
    rows, clusters = np.nonzero(is_there)
    parts = shares[is_there] if weights is None else weights[rows] * shares[is_there]
    starts = np.concatenate([[0], np.cumsum(is_there.sum(axis=1))])
    return ListedShares(starts, clusters.astype(np.int32), parts)


def add_slice_products(
    columns: SliceColumns,
    features: tuple[int, int],
    shares: ListedShares,
    direction: Float64Array,
    products: Float64Array,
) -> None:
    """Add what some features have of R_t.R_s, s <= t, and of R_t.direction."""
    n_slices, width = products.shape[1:]
    sums = slice_sums(columns, features, shares, n_slices, width)
    both = np.einsum("tdk,sdk->tsk", sums, sums)
    products[:-1] += np.where(np.tri(n_slices, dtype=bool)[..., None], both, 0.0)
    products[-1] += np.einsum("tdk,d->tk", sums, direction)


def fill_slice_vectors(
    columns: SliceColumns,
    features: tuple[int, int],
    shares: ListedShares,
    steps: ChainSteps,
    table: Float64Array,
    total: Float64Array,
) -> None:
    """Fill what some features have of the vectors N_t."""
    n_slices, width = steps.scales.shape
    sums = slice_sums(columns, features, shares, n_slices, width)
    begun = np.repeat(steps.start[:, None], width, axis=1)
    vectors = np.empty((n_slices, len(begun), width))
    for time in range(n_slices):
        vectors[time] = steps.ahead[0, time] * begun
        for other in range(n_slices):
            left = steps.ahead[other, time] if other <= time else steps.back[time, other]
            vectors[time] += left * sums[other]
    for feature in range(*features):
        for place in range(columns.places[feature], columns.places[feature + 1]):
            time = columns.times[place]
            table[columns.slots[place]] = steps.scales[time] * vectors[time, feature]
        total[feature] = vectors[0, feature, : len(steps.first_slopes)] @ steps.first_slopes


def share_by_table(
    rows: SparseBlock, table: Float64Array, offsets: Float64Array, out: Float64Array, log_evidence: Float64Array
) -> None:
    """Responsibilities of rows whose indices are slots of a table."""
    for row in range(len(out)):
        own = slice(rows.indptr[row], rows.indptr[row + 1])
        scores = rows.data[own].astype(np.float64) @ table[rows.indices[own], : len(offsets)] + offsets
        log_evidence[row] = logsumexp(scores)
        out[row] = np.exp(scores - log_evidence[row])


def slice_sums(
    columns: SliceColumns, features: tuple[int, int], shares: ListedShares, n_slices: int, width: int
) -> Float64Array:
    """(T, D, W): what the rows of each slice sum to, 0 but for some features."""
    sums = np.zeros((n_slices, len(columns.places) - 1, width))
    for feature in range(*features):
        for place in range(columns.places[feature], columns.places[feature + 1]):
            for position in range(columns.place_starts[place], columns.place_starts[place + 1]):
                row = columns.rows[position]
                own = slice(shares.starts[row], shares.starts[row + 1])
                parts = shares.parts[own] * columns.data[position]
                sums[columns.times[place], feature, shares.clusters[own]] += parts
    return sums
