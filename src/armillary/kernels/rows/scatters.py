"""Scatters of sets of rows around centres: sums of products that no order of rows changes (sums/whole.py).

Coordinates are rounded to two halves, whose products are exact, and so are the sums of a block of rows: they may be
fused and added in any order. Blocks are turned to one array per coordinate, so that sums are loops of vectors: BLAS
products of the halves, made in NumPy, take 1.5 to 2.3 times as long from 20 to 128 columns. The rounding is in kernels
without flags, which would fold it away.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.kernels.jit import VECTOR_SUMS, kernel
from armillary.sums import whole

_BLOCK = whole.PRODUCT_ROWS
# Lines a power of two apart would all lie in the same few places of the cache.
_PAD = 8


def scatters(
    rows: FloatArray,
    numbers: npt.NDArray[np.int32],
    edges: npt.NDArray[np.int64],
    centres: Float64Array,
    weights: Float64Array | None,
) -> Float64Array:
    """Halves of a block of rows, and sums of their products."""
    n_pieces, n_features = centres.shape
    limbs = np.zeros((n_pieces, 2, 3, n_features, n_features))
    grids = np.array([whole.rounder(grid) for grid in (*whole.HALF_GRIDS, *whole.CARRY_GRIDS)])
    roots = np.empty(0) if weights is None else np.sqrt(weights)
    _scatters(rows, numbers, edges, centres, roots, grids, limbs)
    return limbs


@kernel
def _fill(rows, numbers, start, n_rows, centre, roots, grids, high, low):
    """Fill the columns of two tiles (D, >= n) with the halves of rows around a centre."""
    for i in range(n_rows):
        row = rows[numbers[start + i]]
        for j in range(centre.shape[0]):
            value = np.float64(row[j]) - centre[j]
            if roots.shape[0] > 0:
                value *= roots[start + i]
            high[j, i] = (value + grids[0]) - grids[0]
            low[j, i] = ((value - high[j, i]) + grids[1]) - grids[1]


@kernel(fastmath=VECTOR_SUMS)
def _products(high, low, j, k, n_rows):
    """Sums of products of two lines: exact, so they may be added in any order."""
    one, other, mine, yours = high[j], high[k], low[j], low[k]
    upper, crossed, lower = 0.0, 0.0, 0.0
    for i in range(n_rows):
        upper += one[i] * other[i]
        crossed += one[i] * yours[i] + mine[i] * other[i]
        lower += mine[i] * yours[i]
    return upper, crossed, lower


@kernel
def _carry(value, rounder, limbs, place, j, k):
    first = (value + rounder) - rounder
    limbs[0, place, j, k] += first
    limbs[1, place, j, k] += value - first


@kernel
def _scatters(rows, numbers, edges, centres, roots, grids, limbs):
    n_features = centres.shape[1]
    high, low = np.zeros((n_features, _BLOCK + _PAD)), np.zeros((n_features, _BLOCK + _PAD))
    for piece in range(centres.shape[0]):
        found = limbs[piece]
        for start in range(edges[piece], edges[piece + 1], _BLOCK):
            n_rows = min(_BLOCK, edges[piece + 1] - start)
            _fill(rows, numbers, start, n_rows, centres[piece], roots, grids, high, low)
            for j in range(n_features):
                for k in range(j, n_features):
                    upper, crossed, lower = _products(high, low, j, k, n_rows)
                    _carry(upper, grids[2], found, 0, j, k)
                    _carry(crossed, grids[3], found, 1, j, k)
                    _carry(lower, grids[4], found, 2, j, k)
