"""Sums over rows seen from base points: tangent vectors, their squares, and what the curvature of a posterior needs.

Blocks of rows are turned to one array per coordinate, so that every loop over a block is one of vectors. What a row
adds depends on the row and the base point alone, to the bit, and sums are whole numbers (sums/whole.py): neither blocks
nor the order of rows decide a bit. No kernel here has flags, which would fold the rounding away.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.kernels.jit import kernel
from armillary.kernels.rows.simd import SUM_LANES, whole_product
from armillary.kernels.rows.stretch import (
    NEAR,
    curve,
    far_row,
    near_bend,
    near_log_stretch,
    near_stretch,
    near_sway,
)

# Rows whose tangent vectors are made together: one array of 2 KB for each coordinate.
_BLOCK = 256
# Lines a power of two apart would all lie in the same few places of the cache.
_PAD = 8


def tangent_sums(
    rows: FloatArray,
    numbers: npt.NDArray[np.int32],
    edges: npt.NDArray[np.int64],
    bases: Float64Array,
    weights: Float64Array | None,
    rounders: Float64Array,
    *,
    with_scatter: bool,
    with_curvature: bool,
    out: Float64Array | None = None,
) -> Float64Array:
    """Log vectors and their squares, a block of rows at a time."""
    n_pieces, n_features = bases.shape
    limbs = np.zeros((n_pieces, 2, n_features + n_features**2 + 4)) if out is None else out
    _sums(rows, numbers, edges, bases, weights, rounders, with_scatter, with_curvature, limbs)
    return limbs


@kernel
def _add_multiple(factor, line, total, n_rows):
    for i in range(n_rows):
        total[i] += factor * line[i]


@kernel
def _scale(line, factors, n_rows):
    for i in range(n_rows):
        line[i] *= factors[i]


@kernel
def _look_from(rows, numbers, base, tile, cosines):
    """Fill `tile` (D, >= n) with the parts of rows across the base point, and `cosines` (>= n)."""
    n_rows = numbers.shape[0]
    for i in range(n_rows):
        row = rows[numbers[i]]
        for j in range(base.shape[0]):
            tile[j, i] = row[j]
    cosines[:n_rows] = 0.0
    for j in range(base.shape[0]):
        _add_multiple(base[j], tile[j], cosines, n_rows)
    for j in range(base.shape[0]):
        _add_multiple(-base[j], cosines, tile[j], n_rows)


@kernel
def _look_on_the_sphere(rows, numbers, base, tile, cosines):
    """`_look_from` of rows with three columns, to the bit: all of them in registers."""
    bx, by, bz = base[0], base[1], base[2]
    x, y, z = tile[0], tile[1], tile[2]
    for i in range(numbers.shape[0]):
        number = numbers[i]
        a, b, c = np.float64(rows[number, 0]), np.float64(rows[number, 1]), np.float64(rows[number, 2])
        cosine = a * bx + b * by + c * bz
        x[i], y[i], z[i] = a - cosine * bx, b - cosine * by, c - cosine * bz
        cosines[i] = cosine


@kernel
def _places(cosines, v, n_rows):
    """Fill `v` with the arguments of polynomials; returns how many rows are beyond them."""
    n_far = 0
    for i in range(n_rows):
        # rounding can leave u a little below 0
        u = max(0.5 * (1.0 - cosines[i]), 0.0)
        n_far += u >= NEAR
        v[i] = u * (2.0 / NEAR) - 1.0
    return n_far


@kernel
def _stretches(v, out, n_rows):
    for i in range(n_rows):
        out[i] = near_stretch(v[i])


@kernel
def _log_stretches(v, out, n_rows):
    for i in range(n_rows):
        out[i] = near_log_stretch(v[i])


@kernel
def _bends_and_sways(v, n_features, bends, sways, n_rows):
    """The sway is f2 + (D - 2) f1 k = 1 - c (1 - (D - 3) b), b the bend; three dimensions have 1 - c."""
    for i in range(n_rows):
        bends[i] = near_bend(v[i])
        sways[i] = 1.0 - (1.0 - near_sway(v[i])) * (1.0 - (n_features - 3.0) * bends[i])


@kernel
def _mend_far(cosines, tile, n_rows, with_scatter, with_curvature, stretches, logs, antipodes, bends, sways):
    """Write over what the polynomials gave for rows beyond NEAR."""
    antipodes[:] = 0.0
    n_antipodes = 0
    for i in range(n_rows):
        u = 0.5 * (1.0 - cosines[i])
        if u >= NEAR:
            square = 0.0
            for j in range(tile.shape[0]):
                square += tile[j, i] * tile[j, i]
            stretches[i], log_stretch, angle, cotangent = far_row(u, np.sqrt(square))
            if stretches[i] == 0.0:
                antipodes[i] = angle * angle
                n_antipodes += 1
            if with_scatter:
                logs[i] = log_stretch
            if with_curvature:
                bends[i], sways[i] = curve(angle, cotangent, tile.shape[0] - 2.0)
    return n_antipodes


@kernel
def _add(one, two, n_rows, rounders, limbs, place):
    found: tuple[float, float] = whole_product(one, two, n_rows, rounders[0], rounders[1])
    limbs[0, place] += found[0]
    limbs[1, place] += found[1]


@kernel
def _sums(rows, numbers, edges, bases, weights, rounders, with_scatter, with_curvature, limbs):
    n_features = bases.shape[1]
    others = n_features + n_features * n_features
    tile = np.zeros((n_features, _BLOCK + _PAD))
    cosines, v, stretches, heavy = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    logs, antipodes, bends, sways = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    ones, own = np.empty(_BLOCK), np.empty(_BLOCK)
    for piece in range(bases.shape[0]):
        found = limbs[piece]
        for start in range(edges[piece], edges[piece + 1], _BLOCK):
            n_rows = min(_BLOCK, edges[piece + 1] - start)
            n_read = -(-n_rows // SUM_LANES) * SUM_LANES  # those behind the rows count nothing
            for r in range(n_read):
                ones[r] = own[r] = 1.0 if r < n_rows else 0.0
            if weights is not None:
                for r in range(n_rows):
                    own[r] = weights[start + r]
            block = numbers[start : start + n_rows]
            if n_features == 3:
                _look_on_the_sphere(rows, block, bases[piece], tile, cosines)
            else:
                _look_from(rows, block, bases[piece], tile, cosines)
            for r in range(n_rows, n_read):
                cosines[r] = 1.0
                for j in range(n_features):
                    tile[j, r] = 0.0
            n_far = _places(cosines, v, n_read)
            _stretches(v, stretches, n_read)
            if with_scatter:
                _log_stretches(v, logs, n_read)
            if with_curvature:
                _bends_and_sways(v, n_features, bends, sways, n_read)
            if n_far > 0:
                wanted = n_rows, with_scatter, with_curvature
                far = _mend_far(cosines, tile, *wanted, stretches, logs, antipodes, bends, sways)
                if with_scatter and far > 0:
                    _add(own, antipodes, n_rows, rounders[1], found, others + 1)
            if with_scatter:
                _add(own, logs, n_rows, rounders[2], found, others)
            if with_curvature:
                _add(ones, bends, n_rows, rounders[3], found, others + 2)
                _add(ones, sways, n_rows, rounders[4], found, others + 3)
            for j in range(n_features):
                _scale(tile[j], stretches, n_read)
                _add(own, tile[j], n_rows, rounders[0], found, j)
            if with_scatter:
                for j in range(n_features):
                    line = tile[j]
                    if weights is not None:
                        for r in range(n_read):
                            heavy[r] = line[r]
                        _scale(heavy, own, n_read)
                        line = heavy
                    for k in range(j, n_features):
                        _add(line, tile[k], n_rows, rounders[1], found, n_features + j * n_features + k)
