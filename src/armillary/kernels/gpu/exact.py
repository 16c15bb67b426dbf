"""Numbers with promised bits: float64 sums in column order, and float32 sums in lanes, nothing fused.

One row, or one pair of a row and a cluster, is one thread's. Kernels are started without fusion (`start.py`): a fused
multiply-add rounds once where the CPU rounds twice.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Columns read before they are used: loads in flight. Columns beyond the last add zeros, which change no sum.
AHEAD = 8
# Lanes of a float32 sum: lane l has the columns l, l + 16, ... and lanes are added in halves (kernels/rows/dense.py).
LANES = 16


@triton.jit
def squares(rows, out, n_rows, n_features, row_stride, BLOCK: tl.constexpr, AHEAD: tl.constexpr):
    """Sums of squares of rows, as the gate defines norms."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < n_rows
    start = rows + row * row_stride
    total = tl.zeros((BLOCK,), tl.float64)
    for first in range(0, n_features, AHEAD):
        for step in tl.static_range(AHEAD):
            d = first + step
            value = tl.load(start + d, mask=is_row & (d < n_features), other=0.0).to(tl.float64)
            total += value * value
    tl.store(out + row, total, mask=is_row)


@triton.jit
def roots(squares, out, n_rows, BLOCK: tl.constexpr):
    """Square roots, correctly rounded: float64 has no other kind of root on a GPU, but libraries on a CPU do."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < n_rows
    tl.store(out + row, tl.sqrt(tl.load(squares + row, mask=is_row, other=1.0)), mask=is_row)


@triton.jit
def unit(
    rows,
    norms,
    factors,
    out,
    half,
    errors,
    n_rows,
    n_features,
    width,
    row_stride,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Rows times factors, divided by norms, in float64 and rounded once, and the same as halves.

    Halves have `width` columns, zeros behind the last; what they leave is bounded.
    """
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = row < n_rows
    norm = tl.load(norms + row, mask=is_row, other=1.0)
    factor = tl.load(factors + row, mask=is_row, other=1.0)
    left = tl.zeros((ROWS,), tl.float64)
    for first in range(0, width, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        is_value = is_row[:, None] & (column < n_features)[None, :]
        given = tl.load(rows + row[:, None] * row_stride + column[None, :], mask=is_value, other=0.0).to(tl.float64)
        value = ((given * factor[:, None]) / norm[:, None]).to(out.dtype.element_ty)
        tl.store(out + row[:, None] * n_features + column[None, :], value, mask=is_value)
        small = value.to(tl.float16)
        is_half = is_row[:, None] & (column < width)[None, :]
        tl.store(half + row[:, None] * width + column[None, :], small, mask=is_half)
        apart = value.to(tl.float64) - small.to(tl.float64)
        left += tl.sum(apart * apart, axis=1)
    tl.store(errors + row, (tl.sqrt(left) * 1.000001).to(tl.float32), mask=is_row)


@triton.jit
def own_scores(
    rows, vectors, offsets, labels, out, n_rows, n_features, row_stride, BLOCK: tl.constexpr, AHEAD: tl.constexpr
):
    """The score of each row under its own label, which is not negative."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < n_rows
    label = tl.load(labels + row, mask=is_row, other=0).to(tl.int64)
    start, vector = rows + row * row_stride, vectors + label * n_features
    total = tl.zeros((BLOCK,), tl.float64)
    for first in range(0, n_features, AHEAD):
        for step in tl.static_range(AHEAD):
            d = first + step
            is_here = is_row & (d < n_features)
            total += tl.load(start + d, mask=is_here, other=0.0).to(tl.float64) * tl.load(
                vector + d, mask=is_here, other=0.0
            )
    tl.store(out + row, total + tl.load(offsets + label, mask=is_row, other=0.0), mask=is_row)


@triton.jit
def table(
    rows,
    turned,
    offsets,
    out,
    n_rows,
    n_clusters,
    n_features,
    row_stride,
    ROWS: tl.constexpr,
    CLUSTERS: tl.constexpr,
):
    """Scores (n, K) in the type of `out`; `turned` is (D, K)."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cluster = tl.program_id(1) * CLUSTERS + tl.arange(0, CLUSTERS)
    is_row, is_cluster = row < n_rows, cluster < n_clusters
    total = tl.zeros((ROWS, CLUSTERS), tl.float64)
    vectors = turned + cluster
    for d in range(n_features):
        value = tl.load(rows + row * row_stride + d, mask=is_row, other=0.0).to(tl.float64)
        total += value[:, None] * tl.load(vectors, mask=is_cluster, other=0.0)[None, :]
        vectors += n_clusters
    total += tl.load(offsets + cluster, mask=is_cluster, other=0.0)[None, :]
    place = out + row[:, None] * n_clusters + cluster[None, :]
    tl.store(place, total, mask=is_row[:, None] & is_cluster[None, :])


@triton.jit
def best(
    rows,
    turned,
    offsets,
    is_rival,
    found,
    floor,
    first,
    last,
    n_clusters,
    n_features,
    row_stride,
    HAS_RIVALS: tl.constexpr,
    ROWS: tl.constexpr,
    CLUSTERS: tl.constexpr,
):
    """The arg max of float64 scores by brute force, -1 where the row is refused: rows that are narrow, and tests."""
    row = first + tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = row < last
    top = tl.full((ROWS,), float("-inf"), tl.float64)
    label = tl.zeros((ROWS,), tl.int32)
    for begin in range(0, n_clusters, CLUSTERS):
        cluster = begin + tl.arange(0, CLUSTERS)
        is_cluster = cluster < n_clusters
        total = tl.zeros((ROWS, CLUSTERS), tl.float64)
        vectors = turned + cluster
        for d in range(n_features):
            value = tl.load(rows + row * row_stride + d, mask=is_row, other=0.0).to(tl.float64)
            total += value[:, None] * tl.load(vectors, mask=is_cluster, other=0.0)[None, :]
            vectors += n_clusters
        total += tl.load(offsets + cluster, mask=is_cluster, other=float("-inf"))[None, :]
        here = tl.max(total, axis=1)
        place = tl.min(tl.where(total == here[:, None], cluster[None, :], n_clusters), axis=1)
        is_better = here > top
        label = tl.where(is_better, place, label)
        top = tl.where(is_better, here, top)
    is_refused = top < tl.load(floor)
    if HAS_RIVALS:
        is_refused = is_refused | (tl.load(is_rival + label, mask=is_row, other=0) != 0)
    tl.store(found + row, tl.where(is_refused, -1, label), mask=is_row)


@triton.jit
def lane_scores(
    rows,
    vectors,
    offsets,
    out,
    n_rows,
    n_clusters,
    n_features,
    row_stride,
    first_cluster,
    HAS_OFFSETS: tl.constexpr,
    BLOCK: tl.constexpr,
    LANES: tl.constexpr,
):
    """Scores of rows with some vectors in the rows' own type, by sums in 16 lanes: those of k-means++."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    cluster = first_cluster + tl.program_id(1).to(tl.int64)
    is_row = row < n_rows
    lane = tl.arange(0, LANES)
    total = tl.zeros((BLOCK, LANES), out.dtype.element_ty)
    for first in range(0, n_features, LANES):
        is_here = first + lane < n_features
        value = tl.load(
            rows + row[:, None] * row_stride + first + lane[None, :], mask=is_row[:, None] & is_here[None, :], other=0.0
        )
        vector = tl.load(vectors + cluster * n_features + first + lane, mask=is_here, other=0.0)
        total += value * vector[None, :]
    one, two = tl.split(tl.permute(tl.reshape(total, (BLOCK, 2, 8)), (0, 2, 1)))
    one, two = tl.split(tl.permute(tl.reshape(one + two, (BLOCK, 2, 4)), (0, 2, 1)))
    one, two = tl.split(tl.permute(tl.reshape(one + two, (BLOCK, 2, 2)), (0, 2, 1)))
    one, two = tl.split(one + two)
    score = one + two
    if HAS_OFFSETS:
        score += tl.load(offsets + cluster)
    tl.store(out + row * n_clusters + cluster, score, mask=is_row)
