"""Sparse rows in slices of time, feature by feature: sums of all slices that are never stored.

In many columns a slice has few rows for each feature, and T x K x D sums, nearly all of them zero, would cost far more
than the rows. What is wanted of them is their inner products, and their combinations along time at those features and
times where there is a row to score.
"""

from __future__ import annotations

import numpy as np

from armillary.kernels.jit import kernel
from armillary.kernels.rows.contract import NO_SHARE
from armillary.kernels.rows.simd import multiply_add_line


@kernel
def list_shares(shares, weights, starts, clusters, parts):
    """List the shares (n, K) above `NO_SHARE`, times the weights of rows; returns how many."""
    n_listed = 0
    for i in range(shares.shape[0]):
        starts[i] = n_listed
        weight = 1.0 if weights is None else weights[i]
        for k in range(shares.shape[1]):
            if shares[i, k] > NO_SHARE:
                clusters[n_listed] = k
                parts[n_listed] = weight * shares[i, k]
                n_listed += 1
    starts[shares.shape[0]] = n_listed
    return n_listed


@kernel(is_inlined=True)
def _sum_place(data, rows, start, stop, starts, clusters, parts, lines, line, nothing):
    """What the rows of one feature and slice sum to, of each cluster, into the line that starts at `line`."""
    width = nothing.shape[0]
    multiply_add_line(nothing, 0, nothing, 0, nothing, 0, lines, line, width)
    for p in range(start, stop):
        i = rows[p]
        value = np.float64(data[p])
        for q in range(starts[i], starts[i + 1]):
            lines[np.uint64(line + clusters[q])] += parts[q] * value


@kernel
def add_products(data, rows, place_starts, times, places, first, last, starts, clusters, parts, direction, products):
    """Add what the features first..last have of products (T + 1, T, W), s <= t; the last are those with `direction`."""
    n_slices, width = products.shape[1:]
    own = np.empty(n_slices * width)
    nothing = np.zeros(width)
    towards = np.empty(width)
    for d in range(first, last):
        from_place = places[d]
        for k in range(width):
            towards[k] = direction[d]
        for place in range(from_place, places[d + 1]):
            line = (place - from_place) * width
            begin, end = place_starts[place], place_starts[place + 1]
            _sum_place(data, rows, begin, end, starts, clusters, parts, own, line, nothing)
            t = times[place]
            into = (n_slices * n_slices + t) * width
            multiply_add_line(towards, 0, own, line, products, into, products, into, width)
            for other in range(from_place, place + 1):
                into = (t * n_slices + times[other]) * width
                earlier = (other - from_place) * width
                multiply_add_line(own, line, own, earlier, products, into, products, into, width)


@kernel
def fill_vectors(
    data,
    rows,
    place_starts,
    times,
    places,
    slots,
    first,
    last,
    starts,
    clusters,
    parts,
    start,
    ahead,
    back,
    scales,
    first_slopes,
    table,
    total,
):
    """Vectors of the features first..last: scaled into `table` (C, W), and those of slice 0 into `total` (D,)."""
    n_slices, width = scales.shape
    own = np.empty(n_slices * width)
    nothing = np.zeros(width)
    begun, later = np.empty(width), np.empty(width)
    for d in range(first, last):
        from_place, to_place = places[d], places[d + 1]
        for k in range(width):
            begun[k] = start[d]
            later[k] = 0.0
        for place in range(from_place, to_place):
            line, into = (place - from_place) * width, slots[place] * width
            begin, end = place_starts[place], place_starts[place + 1]
            _sum_place(data, rows, begin, end, starts, clusters, parts, own, line, nothing)
            # F_t = V_t and what is left of F at the last slice with rows, or of the first vector
            if place == from_place:
                multiply_add_line(ahead, times[place] * width, begun, 0, own, line, table, into, width)
            else:
                left = (times[place - 1] * n_slices + times[place]) * width
                multiply_add_line(ahead, left, table, slots[place - 1] * width, own, line, table, into, width)
        next_time = times[to_place - 1] if from_place < to_place else 0
        for place in range(to_place - 1, from_place - 1, -1):
            # `later` is B + V at the next slice with rows: nothing at the last
            line, into, t = (place - from_place) * width, slots[place] * width, times[place]
            left = (t * n_slices + next_time) * width
            multiply_add_line(back, left, later, 0, table, into, table, into, width)
            multiply_add_line(scales, t * width, table, into, nothing, 0, table, into, width)
            multiply_add_line(back, left, later, 0, own, line, later, 0, width)
            next_time = t
        first_total = 0.0
        for k in range(first_slopes.shape[0]):
            first_total += first_slopes[k] * (begun[k] + back[0, next_time, k] * later[k])
        total[d] = first_total
