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
    BLOCK: tl.constexpr,
    SMALL: tl.constexpr,
):
    """Shares of some rows, each by itself, times their weights, their log evidence, and the sums of shares (P, K).

    Program p has the rows p, p + P, ...; what programs add up is added in their order.
    """
    cluster = tl.arange(0, BLOCK)
    is_here = cluster < n_clusters
    factor = tl.load(scale)
    offset = tl.load(offsets + cluster, mask=is_here, other=0.0)
    count = tl.zeros((BLOCK,), tl.float64)
    for number in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        place = tl.cast(number, tl.int64) * n_clusters + cluster
        value = tl.load(scores + place, mask=is_here, other=0.0) * factor
        value = tl.where(is_here, value + offset, float("-inf"))
        top = tl.max(value, axis=0)
        share = tl.exp(value - top)
        total = tl.sum(share, axis=0)
        share = share / total
        if HAS_WEIGHTS:
            share = share * tl.load(weights + number)
        high = share.to(tl.float16)
        low = ((share - high.to(tl.float32)) * SMALL).to(tl.float16)
        tl.store(large + place, high, mask=is_here)
        tl.store(small + place, low, mask=is_here)
        tl.store(evidence + number, top.to(tl.float64) + tl.log(total.to(tl.float64)))
        count += share.to(tl.float64)
    tl.store(counts + tl.program_id(0) * n_clusters + cluster, count, mask=is_here)


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
