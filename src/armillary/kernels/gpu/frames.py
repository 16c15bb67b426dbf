"""Rows with few columns and few clusters: a whole pass in one kernel, and all that the host asks of it in one array.

A frame of a camera is such a pass after the other, each shorter than the start of a kernel: what counts is how many
kernels there are, and how often the host waits. Labels have the bits of `exact.best`, sums those of `sums.py`.
`narrow` is for more clusters.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Numbers that change from pass to pass: versions for some of their values would be compiled in the middle of a stream.
_FREE = ("n_rows", "begin", "end", "first", "last", "n_clusters")


@triton.jit
def _best(start, is_row, vectors, offsets, n_clusters, N_FEATURES: tl.constexpr, BLOCK: tl.constexpr):
    """The best score of rows with few columns, which begin at the pointers `start`, and its cluster."""
    top = tl.full((BLOCK,), float("-inf"), tl.float64)
    label = tl.zeros((BLOCK,), tl.int32)
    x0 = tl.load(start, mask=is_row, other=0.0).to(tl.float64)
    x1 = tl.load(start + 1, mask=is_row, other=0.0).to(tl.float64)
    x2 = x0
    x3 = x0
    x4 = x0
    x5 = x0
    x6 = x0
    x7 = x0
    if N_FEATURES > 2:
        x2 = tl.load(start + 2, mask=is_row, other=0.0).to(tl.float64)
    if N_FEATURES > 3:
        x3 = tl.load(start + 3, mask=is_row, other=0.0).to(tl.float64)
    if N_FEATURES > 4:
        x4 = tl.load(start + 4, mask=is_row, other=0.0).to(tl.float64)
    if N_FEATURES > 5:
        x5 = tl.load(start + 5, mask=is_row, other=0.0).to(tl.float64)
    if N_FEATURES > 6:
        x6 = tl.load(start + 6, mask=is_row, other=0.0).to(tl.float64)
    if N_FEATURES > 7:
        x7 = tl.load(start + 7, mask=is_row, other=0.0).to(tl.float64)
    for k in range(n_clusters):
        vector = vectors + k * N_FEATURES
        score = x0 * tl.load(vector)
        score += x1 * tl.load(vector + 1)
        if N_FEATURES > 2:
            score += x2 * tl.load(vector + 2)
        if N_FEATURES > 3:
            score += x3 * tl.load(vector + 3)
        if N_FEATURES > 4:
            score += x4 * tl.load(vector + 4)
        if N_FEATURES > 5:
            score += x5 * tl.load(vector + 5)
        if N_FEATURES > 6:
            score += x6 * tl.load(vector + 6)
        if N_FEATURES > 7:
            score += x7 * tl.load(vector + 7)
        score += tl.load(offsets + k)
        is_better = score > top
        label = tl.where(is_better, k, label)
        top = tl.where(is_better, score, top)
    return top, label


@triton.jit
def narrow(
    rows,
    vectors,
    offsets,
    is_rival,
    found,
    floor,
    first,
    last,
    n_clusters,
    N_FEATURES: tl.constexpr,
    HAS_RIVALS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """`exact.best` of rows with few columns."""
    row = first + tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < last
    top, label = _best(rows + row * N_FEATURES, is_row, vectors, offsets, n_clusters, N_FEATURES, BLOCK)
    is_refused = top < tl.load(floor)
    if HAS_RIVALS:
        is_refused = is_refused | (tl.load(is_rival + label, mask=is_row, other=0) != 0)
    tl.store(found + row, tl.where(is_refused, -1, label), mask=is_row)


@triton.jit
def _quanta(value, large):
    """y + M has bits(M) and the quanta of y (sums/whole.py)."""
    return (value + large).to(tl.int64, bitcast=True) - large.to(tl.int64, bitcast=True)


@triton.jit
def _find(rows, rule, row, is_row, n_clusters, N_FEATURES: tl.constexpr, BLOCK: tl.constexpr):
    """The best cluster, -1 where a row is refused. A rule is vectors, offsets, which are rivals, and the floor."""
    offsets = rule + n_clusters * N_FEATURES
    top, label = _best(rows + row * N_FEATURES, is_row, rule, offsets, n_clusters, N_FEATURES, BLOCK)
    rivals = offsets + n_clusters
    is_refused = (top < tl.load(rivals + n_clusters)) | (tl.load(rivals + label, mask=is_row, other=0.0) != 0.0)
    return tl.where(is_refused, -1, label)


@triton.jit(do_not_specialize=_FREE)
def sweep(
    rows,
    weights,
    rule,
    labels,
    found,
    magic,
    n_rows,
    begin,
    end,
    first,
    last,
    n_clusters,
    n_copies,
    N_FEATURES: tl.constexpr,
    HAS_WEIGHTS: tl.constexpr,
    HAS_SUMS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write labels of the rows first..last, -2 - before where they are refused, and find sums of the rows begin..end.

    `found` is zeros, as many times as there are copies, so that atomics seldom wait for each other: resultants (K, D)
    and counts (K,) in quanta, n less the first row of first..last with each label, the last row of begin..end with it
    plus one, and how many rows moved, were refused, and have a negative label.
    """
    row = begin + tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    found += tl.program_id(0) % n_copies * (n_clusters * (N_FEATURES + 3) + 3)
    is_row = row < end
    is_asked = (row >= first) & (row < last)
    best = _find(rows, rule, row, is_row, n_clusters, N_FEATURES, BLOCK)
    before = tl.load(labels + row, mask=is_row, other=-1)
    after = tl.where(is_asked, tl.where(best < 0, -2 - before, best), before)
    tl.store(labels + row, after, mask=is_row & (after != before))
    counters = found + n_clusters * (N_FEATURES + 3)
    has_moved = is_asked & (best >= 0) & (best != before)
    tl.atomic_add(counters, tl.sum(has_moved.to(tl.int64), axis=0))
    tl.atomic_add(counters + 1, tl.sum((is_asked & (best < 0)).to(tl.int64), axis=0))
    tl.atomic_add(counters + 2, tl.sum((is_row & (after < 0)).to(tl.int64), axis=0))
    own = tl.where(is_row, after, -1)
    large = tl.load(magic)
    weight = tl.full((BLOCK,), 1.0, tl.float64)
    if HAS_WEIGHTS:
        weight = tl.load(weights + row, mask=is_row, other=0.0)
    firsts = found + n_clusters * (N_FEATURES + 1)
    for k in range(n_clusters):
        is_it = own == k
        last_here = tl.max(tl.where(is_it, row + 1, 0), axis=0)
        if last_here > 0:
            tl.atomic_max(firsts + n_clusters + k, last_here)
            tl.atomic_max(firsts + k, tl.max(tl.where(is_it & is_asked, n_rows - row, 0), axis=0))
            if HAS_SUMS:
                for d in tl.static_range(N_FEATURES):
                    value = tl.load(rows + row * N_FEATURES + d, mask=is_row, other=0.0).to(tl.float64)
                    if HAS_WEIGHTS:
                        value = weight * value
                    quanta = tl.where(is_it, _quanta(value, large), 0)
                    tl.atomic_add(found + k * N_FEATURES + d, tl.sum(quanta, axis=0))
                count = tl.where(is_it, _quanta(weight, large), 0)
                tl.atomic_add(found + n_clusters * N_FEATURES + k, tl.sum(count, axis=0))


@triton.jit(do_not_specialize=_FREE)
def name(rows, rule, names, out, n_rows, n_clusters, N_FEATURES: tl.constexpr, BLOCK: tl.constexpr):
    """The name of the best cluster of each row, -1 where it is refused."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < n_rows
    best = _find(rows, rule, row, is_row, n_clusters, N_FEATURES, BLOCK)
    given = tl.load(names + best, mask=is_row & (best >= 0), other=-1)
    tl.store(out + row, given, mask=is_row)


@triton.jit
def rename(labels, names, out, n_rows, BLOCK: tl.constexpr):
    """The name of each label, -1 for negative ones."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    label = tl.load(labels + row, mask=row < n_rows, other=-1)
    tl.store(out + row, tl.load(names + label, mask=label >= 0, other=-1), mask=row < n_rows)


@triton.jit
def count_off(rows, bounds, found, n_rows, n_features, row_stride, BLOCK: tl.constexpr, AHEAD: tl.constexpr):
    """Count rows that the gate would not leave as they are, by bounds of squares (`exact.squares`), and a tolerance."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < n_rows
    start = rows + row * row_stride
    total = tl.zeros((BLOCK,), tl.float64)
    for first in range(0, n_features, AHEAD):
        for step in tl.static_range(AHEAD):
            d = first + step
            value = tl.load(start + d, mask=is_row & (d < n_features), other=0.0).to(tl.float64)
            total += value * value
    is_plain = (total > tl.load(bounds)) & (total < tl.load(bounds + 1))
    is_unit = is_plain & (tl.abs(tl.sqrt(total) - 1.0) <= tl.load(bounds + 2))
    n_off = tl.sum((is_row & (is_unit == 0)).to(tl.int32), axis=0)
    if n_off > 0:
        tl.atomic_add(found, n_off)
