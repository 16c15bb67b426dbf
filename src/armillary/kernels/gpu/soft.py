"""Softmax of tables of scores: shares as two halves each, so that the products that sum rows run on tensor cores.

A number as the sum of two halves (fp16) has 22 bits, about those of float32. Scores are a product of such pairs, three
products of halves side by side (`start.py`); the product of the two small halves is left out, being below 2^-22.
"""

from __future__ import annotations

import triton
import triton.language as tl

# The small half of a share is kept times this: halves end at 6e-8.
SMALL = 2048.0


@triton.jit
def softmax(
    scores,
    offsets,
    weights,
    large,
    small,
    evidence,
    counts,
    scale,
    n_rows,
    n_clusters,
    HAS_WEIGHTS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    SMALL: tl.constexpr,
):
    """Shares of some rows, each by itself, times their weights, their log evidence, and the sums of shares (P, K).

    Programs take turns; what they add up is added in their order.
    """
    cluster = tl.arange(0, BLOCK)
    is_cluster = cluster < n_clusters
    factor = tl.load(scale)
    offset = tl.load(offsets + cluster, mask=is_cluster, other=float("-inf"))
    count = tl.zeros((BLOCK,), tl.float64)
    for begin in range(tl.program_id(0) * ROWS, n_rows, tl.num_programs(0) * ROWS):
        row = begin + tl.arange(0, ROWS).to(tl.int64)
        is_row = row < n_rows
        place = row[:, None] * n_clusters + cluster[None, :]
        is_here = is_row[:, None] & is_cluster[None, :]
        value = tl.load(scores + place, mask=is_here, other=0.0) * factor + offset[None, :]
        top = tl.max(value, axis=1)
        share = tl.exp(value - top[:, None])
        total = tl.sum(share, axis=1)
        share = share / total[:, None]
        if HAS_WEIGHTS:
            share = share * tl.load(weights + row, mask=is_row, other=0.0)[:, None]
        high = share.to(tl.float16)
        low = ((share - high.to(tl.float32)) * SMALL).to(tl.float16)
        tl.store(large + place, high, mask=is_here)
        tl.store(small + place, low, mask=is_here)
        tl.store(evidence + row, top.to(tl.float64) + tl.log(total.to(tl.float64)), mask=is_row)
        count += tl.sum(tl.where(is_row[:, None], share, 0.0).to(tl.float64), axis=0)
    tl.store(counts + tl.program_id(0) * n_clusters + cluster, count, mask=is_cluster)


@triton.jit
def halve(rows, out, scale, n_rows, n_features, width, row_stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Rows times `scale` as two halves, laid out large, large, small, `width` columns each."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    factor = tl.load(scale)
    is_row = (row < n_rows)[:, None]
    is_value = is_row & (column < n_features)[None, :]
    value = factor * tl.load(rows + row[:, None] * row_stride + column[None, :], mask=is_value, other=0.0)
    high = value.to(tl.float16)
    low = (value - high.to(tl.float32)).to(tl.float16)
    place = out + row[:, None] * (3 * width) + column[None, :]
    is_place = is_row & (column < width)[None, :]
    tl.store(place, high, mask=is_place)
    tl.store(place + width, high, mask=is_place)
    tl.store(place + 2 * width, low, mask=is_place)
