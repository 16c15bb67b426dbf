"""CSR rows: scores, labels and whole sums with the bits of `kernels/rows/sparse.py`, in the order stored.

A program has a few rows and some clusters. It walks the entries of its rows side by side, over the (D, K) transpose of
the vectors: the numbers that one entry needs lie together. Nothing is fused (`start_sparse.py`).
"""

from __future__ import annotations

import triton
import triton.language as tl

from armillary.kernels.gpu.sums import _quanta

# Entries read before they are used.
AHEAD = 4


@triton.jit
def squares(data, pointers, out, n_rows, BLOCK: tl.constexpr, AHEAD: tl.constexpr):
    """Sums of squares of rows, as the gate defines norms."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < n_rows
    begin = tl.load(pointers + row, mask=is_row, other=0)
    end = tl.load(pointers + row + 1, mask=is_row, other=0)
    total = tl.zeros((BLOCK,), tl.float64)
    for first in range(0, tl.max(end - begin, axis=0), AHEAD):
        for step in tl.static_range(AHEAD):
            place = begin + first + step
            value = tl.load(data + place, mask=place < end, other=0.0).to(tl.float64)
            total += value * value
    tl.store(out + row, total, mask=is_row)


@triton.jit
def own_scores(
    data, indices, pointers, vectors, offsets, labels, out, n_rows, n_features, BLOCK: tl.constexpr, AHEAD: tl.constexpr
):
    """The float64 score of each row under its own label, which is not negative."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < n_rows
    begin = tl.load(pointers + row, mask=is_row, other=0)
    end = tl.load(pointers + row + 1, mask=is_row, other=0)
    label = tl.load(labels + row, mask=is_row, other=0).to(tl.int64)
    vector = vectors + label * n_features
    total = tl.zeros((BLOCK,), tl.float64)
    for first in range(0, tl.max(end - begin, axis=0), AHEAD):
        for step in tl.static_range(AHEAD):
            place = begin + first + step
            is_here = place < end
            value = tl.load(data + place, mask=is_here, other=0.0).to(tl.float64)
            column = tl.load(indices + place, mask=is_here, other=0)
            total += value * tl.load(vector + column, mask=is_here, other=0.0)
    tl.store(out + row, total + tl.load(offsets + label, mask=is_row, other=0.0), mask=is_row)


@triton.jit
def table(
    data,
    indices,
    pointers,
    turned,
    offsets,
    out,
    n_rows,
    n_clusters,
    ROWS: tl.constexpr,
    CLUSTERS: tl.constexpr,
    AHEAD: tl.constexpr,
):
    """Scores (n, K), products and sums in the type of `out` and of `turned` (D, K); offsets are float64."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cluster = tl.program_id(1) * CLUSTERS + tl.arange(0, CLUSTERS)
    is_row, is_cluster = row < n_rows, cluster < n_clusters
    begin = tl.load(pointers + row, mask=is_row, other=0)
    end = tl.load(pointers + row + 1, mask=is_row, other=0)
    total = tl.zeros((ROWS, CLUSTERS), out.dtype.element_ty)
    for first in range(0, tl.max(end - begin, axis=0), AHEAD):
        for step in tl.static_range(AHEAD):
            place = begin + first + step
            is_here = place < end
            value = tl.load(data + place, mask=is_here, other=0.0).to(out.dtype.element_ty)
            column = tl.load(indices + place, mask=is_here, other=0).to(tl.int64)
            vector = tl.load(
                turned + column[:, None] * n_clusters + cluster[None, :],
                mask=is_here[:, None] & is_cluster[None, :],
                other=0.0,
            )
            total += value[:, None] * vector
    score = total.to(tl.float64) + tl.load(offsets + cluster, mask=is_cluster, other=0.0)[None, :]
    tl.store(
        out + row[:, None] * n_clusters + cluster[None, :],
        score.to(out.dtype.element_ty),
        mask=is_row[:, None] & is_cluster[None, :],
    )


@triton.jit
def best(
    data,
    indices,
    pointers,
    turned,
    offsets,
    is_rival,
    found,
    floor,
    first,
    last,
    n_clusters,
    HAS_RIVALS: tl.constexpr,
    ROWS: tl.constexpr,
    CLUSTERS: tl.constexpr,
    AHEAD: tl.constexpr,
):
    """The arg max of float64 scores, -1 where the row is refused."""
    row = first + tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = row < last
    begin = tl.load(pointers + row, mask=is_row, other=0)
    end = tl.load(pointers + row + 1, mask=is_row, other=0)
    longest = tl.max(end - begin, axis=0)
    top = tl.full((ROWS,), float("-inf"), tl.float64)
    label = tl.zeros((ROWS,), tl.int32)
    for from_cluster in range(0, n_clusters, CLUSTERS):
        cluster = from_cluster + tl.arange(0, CLUSTERS)
        is_cluster = cluster < n_clusters
        total = tl.zeros((ROWS, CLUSTERS), tl.float64)
        for begin_step in range(0, longest, AHEAD):
            for step in tl.static_range(AHEAD):
                place = begin + begin_step + step
                is_here = place < end
                value = tl.load(data + place, mask=is_here, other=0.0).to(tl.float64)
                column = tl.load(indices + place, mask=is_here, other=0).to(tl.int64)
                vector = tl.load(
                    turned + column[:, None] * n_clusters + cluster[None, :],
                    mask=is_here[:, None] & is_cluster[None, :],
                    other=0.0,
                )
                total += value[:, None] * vector
        total += tl.load(offsets + cluster, mask=is_cluster, other=float("-inf"))[None, :]
        here = tl.max(total, axis=1)
        place_of = tl.min(tl.where(total == here[:, None], cluster[None, :], n_clusters), axis=1)
        is_better = here > top
        label = tl.where(is_better, place_of, label)
        top = tl.where(is_better, here, top)
    is_refused = top < tl.load(floor)
    if HAS_RIVALS:
        is_refused = is_refused | (tl.load(is_rival + label, mask=is_row, other=0) != 0)
    tl.store(found + row, tl.where(is_refused, -1, label), mask=is_row)


@triton.jit
def add(
    data,
    indices,
    pointers,
    weights,
    labels,
    sums,
    counts,
    magic,
    n_rows,
    n_features,
    HAS_WEIGHTS: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Add rows to the sums of their labels, one atomic for each entry."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    label = tl.load(labels + row, mask=row < n_rows, other=-1).to(tl.int64)
    is_row = (row < n_rows) & (label >= 0)
    begin = tl.load(pointers + row, mask=is_row, other=0)
    end = tl.load(pointers + row + 1, mask=is_row, other=0)
    weight = tl.full((ROWS,), 1.0, tl.float64)
    if HAS_WEIGHTS:
        weight = tl.load(weights + row, mask=is_row, other=0.0)
    tl.atomic_add(counts + label, _quanta(weight, magic), mask=is_row)
    lane = tl.arange(0, WIDTH)
    for first in range(0, tl.max(end - begin, axis=0), WIDTH):
        place = begin[:, None] + first + lane[None, :]
        is_here = place < end[:, None]
        value = tl.load(data + place, mask=is_here, other=0.0).to(tl.float64)
        if HAS_WEIGHTS:
            value = weight[:, None] * value
        column = tl.load(indices + place, mask=is_here, other=0)
        tl.atomic_add(sums + label[:, None] * n_features + column, _quanta(value, magic), mask=is_here)


@triton.jit
def move(
    data,
    indices,
    pointers,
    weights,
    labels,
    moved,
    befores,
    sums,
    counts,
    counter,
    magic,
    n_features,
    HAS_WEIGHTS: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Take listed rows out of the sums of their labels before, and add them to those of their labels now."""
    n_moved = tl.load(counter)
    lane = tl.arange(0, WIDTH)
    for start in range(tl.program_id(0) * ROWS, n_moved, tl.num_programs(0) * ROWS):
        item = start + tl.arange(0, ROWS)
        is_row = item < n_moved
        row = tl.load(moved + item, mask=is_row, other=0).to(tl.int64)
        before = tl.load(befores + item, mask=is_row, other=-1).to(tl.int64)
        after = tl.load(labels + row, mask=is_row, other=-1).to(tl.int64)
        begin = tl.load(pointers + row, mask=is_row, other=0)
        end = tl.load(pointers + row + 1, mask=is_row, other=0)
        weight = tl.full((ROWS,), 1.0, tl.float64)
        if HAS_WEIGHTS:
            weight = tl.load(weights + row, mask=is_row, other=0.0)
        own = _quanta(weight, magic)
        tl.atomic_add(counts + before, -own, mask=is_row & (before >= 0))
        tl.atomic_add(counts + after, own, mask=is_row & (after >= 0))
        for first in range(0, tl.max(end - begin, axis=0), WIDTH):
            place = begin[:, None] + first + lane[None, :]
            is_here = place < end[:, None]
            value = tl.load(data + place, mask=is_here, other=0.0).to(tl.float64)
            if HAS_WEIGHTS:
                value = weight[:, None] * value
            quanta = _quanta(value, magic)
            column = tl.load(indices + place, mask=is_here, other=0)
            left, joined = before[:, None], after[:, None]
            tl.atomic_add(sums + left * n_features + column, -quanta, mask=is_here & (left >= 0))
            tl.atomic_add(sums + joined * n_features + column, quanta, mask=is_here & (joined >= 0))
