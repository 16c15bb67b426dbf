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
    scale,
    n_clusters,
    HAS_WEIGHTS: tl.constexpr,
    BLOCK: tl.constexpr,
    SMALL: tl.constexpr,
):
    """Shares of one row, times its weight, and its log evidence."""
    row = tl.program_id(0).to(tl.int64)
    cluster = tl.arange(0, BLOCK)
    is_here = cluster < n_clusters
    value = tl.load(scores + row * n_clusters + cluster, mask=is_here, other=0.0) * tl.load(scale)
    value = tl.where(is_here, value + tl.load(offsets + cluster, mask=is_here, other=0.0), float("-inf"))
    top = tl.max(value, axis=0)
    share = tl.exp(value - top)
    total = tl.sum(share, axis=0)
    share = share / total
    if HAS_WEIGHTS:
        share = share * tl.load(weights + row)
    high = share.to(tl.float16)
    tl.store(large + row * n_clusters + cluster, high, mask=is_here)
    tl.store(small + row * n_clusters + cluster, ((share - high.to(tl.float32)) * SMALL).to(tl.float16), mask=is_here)
    tl.store(evidence + row, top.to(tl.float64) + tl.log(total.to(tl.float64)))


@triton.jit
def halve(rows, out, scale, n_rows, n_features, width, row_stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Rows times `scale` as two halves, laid out large, large, small, `width` columns each.

    `scale` itself comes after the last column of the first.
    """
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
    first = tl.where((column == n_features)[None, :], factor.to(tl.float16), high)
    tl.store(place, first, mask=is_place)
    tl.store(place + width, high, mask=is_place)
    tl.store(place + 2 * width, low, mask=is_place)
