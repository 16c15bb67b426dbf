"""Sums over rows seen from base points: tangent vectors, their squares, and what the curvature of a posterior needs.

Blocks of rows are turned to one array per coordinate, so that every loop over a block is one of vectors. Three
dimensions have loops of their own, with all coordinates in registers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.distributions.tangent_gaussian import LEAST_SINE
from armillary.kernels.cpu._jit import VECTOR_SUMS, kernel
from armillary.kernels.cpu.stretch import (
    BEND,
    LOG_STRETCH,
    NEAR,
    STRETCH,
    SWAY,
    curve,
    evaluate,
    stretch_and_angle,
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
    *,
    with_scatter: bool,
    with_curvature: bool,
) -> tuple[Float64Array, Float64Array, Float64Array, Float64Array, Float64Array]:
    """Log vectors and their squares, a block of rows at a time."""
    n_pieces, n_features = bases.shape
    vectors, scatters = np.zeros((n_pieces, n_features)), np.zeros((n_pieces, n_features, n_features))
    others = np.zeros((n_pieces, 4))
    add = _sums_on_the_sphere if n_features == 3 else _sums_in_any
    add(rows, numbers, edges, bases, weights, with_scatter, with_curvature, vectors, scatters, others)
    if with_scatter and others[:, 3].any():
        across = np.eye(n_features) - bases[:, :, None] * bases[:, None, :]
        scatters += (others[:, 3] / (n_features - 1.0))[:, None, None] * across
    return vectors, scatters, others[:, 0], others[:, 1], others[:, 2]


@kernel(fastmath=VECTOR_SUMS)
def _polynomial_sum(coefficients, v, weights, n_rows):
    total = 0.0
    for i in range(n_rows):
        total += weights[i] * evaluate(coefficients, v[i])
    return total


@kernel
def _mirrored(scatter):
    """The upper half is summed."""
    for j in range(scatter.shape[0]):
        for k in range(j):
            scatter[j, k] = scatter[k, j]


# --------------------------------------------------------------------------------------------- any dimension


@kernel(fastmath=VECTOR_SUMS)
def _stretches_near(v, stretches, n_rows):
    for i in range(n_rows):
        stretches[i] = evaluate(STRETCH, v[i])


@kernel
def _stretches_any(v, squares, weights, n_rows, n_features, with_scatter, with_curvature, stretches, others):
    """Of rows some of which are far; adds to `others` the sums that polynomials cannot make."""
    for i in range(n_rows):
        cosine = 1.0 - NEAR * (v[i] + 1.0)
        stretches[i], angle = stretch_and_angle(cosine, np.sqrt(squares[i]))
        if stretches[i] == 0.0:
            others[3] += weights[i] * angle * angle
        if with_scatter:
            others[0] += weights[i] * np.log(stretches[i] if stretches[i] > 0.0 else angle / LEAST_SINE)
        if with_curvature:
            one, other = curve(angle, n_features - 2.0)
            others[1] += one
            others[2] += other


@kernel(fastmath=VECTOR_SUMS)
def _sway_near(v, n_features, n_rows):
    """f2 + (D - 2) f1 k = 1 - c (1 - (D - 3) b), where b is `BEND` and three dimensions have 1 - c, `SWAY`."""
    total = 0.0
    for i in range(n_rows):
        total += 1.0 - (1.0 - evaluate(SWAY, v[i])) * (1.0 - (n_features - 3.0) * evaluate(BEND, v[i]))
    return total


@kernel(fastmath=VECTOR_SUMS)
def _product(one, two, n_rows):
    total = 0.0
    for i in range(n_rows):
        total += one[i] * two[i]
    return total


@kernel
def _add_multiple(factor, line, total, n_rows):
    for i in range(n_rows):
        total[i] += factor * line[i]


@kernel
def _add_square(line, total, n_rows):
    for i in range(n_rows):
        total[i] += line[i] * line[i]


@kernel
def _scale(line, factors, n_rows):
    for i in range(n_rows):
        line[i] *= factors[i]


@kernel
def _look_from(rows, numbers, base, tile, cosines, squares, v):
    """Fill `tile` (D, >= n) with the parts of rows across the base point, and v with what polynomials take.

    Returns the largest u.
    """
    n_rows = numbers.shape[0]
    for i in range(n_rows):
        row = rows[numbers[i]]
        for j in range(base.shape[0]):
            tile[j, i] = row[j]
    cosines[:n_rows] = 0.0
    squares[:n_rows] = 0.0
    for j in range(base.shape[0]):
        _add_multiple(base[j], tile[j], cosines, n_rows)
    for j in range(base.shape[0]):
        _add_multiple(-base[j], cosines, tile[j], n_rows)
        _add_square(tile[j], squares, n_rows)
    farthest = 0.0
    for i in range(n_rows):
        # rounding can leave u a little below 0
        u = max(0.5 * (1.0 - cosines[i]), 0.0)
        v[i] = u * (2.0 / NEAR) - 1.0
        farthest = max(farthest, u)
    return farthest


@kernel
def _sums_in_any(rows, numbers, edges, bases, weights, with_scatter, with_curvature, vectors, scatters, others):
    n_features = bases.shape[1]
    tile = np.empty((n_features, _BLOCK + _PAD))
    cosines, squares, v, stretches = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    ones, own = np.ones(_BLOCK), np.ones(_BLOCK)
    for piece in range(bases.shape[0]):
        found = others[piece]
        for start in range(edges[piece], edges[piece + 1], _BLOCK):
            n_rows = min(_BLOCK, edges[piece + 1] - start)
            if weights is not None:
                own[:n_rows] = weights[start : start + n_rows]
            if _look_from(rows, numbers[start : start + n_rows], bases[piece], tile, cosines, squares, v) < NEAR:
                _stretches_near(v, stretches, n_rows)
                if with_scatter:
                    found[0] += _polynomial_sum(LOG_STRETCH, v, own, n_rows)
                if with_curvature:
                    found[1] += _polynomial_sum(BEND, v, ones, n_rows)
                    found[2] += _sway_near(v, n_features, n_rows)
            else:
                _stretches_any(v, squares, own, n_rows, n_features, with_scatter, with_curvature, stretches, found)
            for j in range(n_features):
                _scale(tile[j], stretches, n_rows)
                vectors[piece, j] += _product(own, tile[j], n_rows)
            if with_scatter:
                if weights is not None:
                    np.sqrt(own, stretches)
                    for j in range(n_features):
                        _scale(tile[j], stretches, n_rows)
                for j in range(n_features):
                    for k in range(j, n_features):
                        scatters[piece, j, k] += _product(tile[j], tile[k], n_rows)
        _mirrored(scatters[piece])


# --------------------------------------------------------------------------------------------- three dimensions


@kernel(fastmath=VECTOR_SUMS)
def _add_moments(x, y, z, weights, n_rows, vector, scatter, with_scatter):
    """Add sum w v to `vector` and sum w v v' to the upper half of `scatter`, of vectors v = (x, y, z)."""
    sx, sy, sz = 0.0, 0.0, 0.0
    for i in range(n_rows):
        sx, sy, sz = sx + weights[i] * x[i], sy + weights[i] * y[i], sz + weights[i] * z[i]
    vector[0], vector[1], vector[2] = vector[0] + sx, vector[1] + sy, vector[2] + sz
    if not with_scatter:
        return
    xx, yy, zz, xy, xz, yz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n_rows):
        wx, wy = weights[i] * x[i], weights[i] * y[i]
        xx, xy, xz = xx + wx * x[i], xy + wx * y[i], xz + wx * z[i]
        yy, yz, zz = yy + wy * y[i], yz + wy * z[i], zz + weights[i] * z[i] * z[i]
    scatter[0, 0], scatter[1, 1], scatter[2, 2] = scatter[0, 0] + xx, scatter[1, 1] + yy, scatter[2, 2] + zz
    scatter[0, 1], scatter[0, 2], scatter[1, 2] = scatter[0, 1] + xy, scatter[0, 2] + xz, scatter[1, 2] + yz


@kernel(fastmath=VECTOR_SUMS)
def _stretch_near(v, x, y, z, n_rows):
    """Tangent vectors from the parts across the base point."""
    for i in range(n_rows):
        stretch = evaluate(STRETCH, v[i])
        x[i], y[i], z[i] = stretch * x[i], stretch * y[i], stretch * z[i]


@kernel
def _stretch_any(v, x, y, z, weights, n_rows, with_scatter, with_curvature, others):
    """`_stretch_near` of rows some of which are far; adds what polynomials cannot to `others`."""
    for i in range(n_rows):
        cosine = 1.0 - NEAR * (v[i] + 1.0)
        sine = np.sqrt(x[i] * x[i] + y[i] * y[i] + z[i] * z[i])
        stretch, angle = stretch_and_angle(cosine, sine)
        if stretch == 0.0:
            others[3] += weights[i] * angle * angle
        if with_scatter:
            others[0] += weights[i] * np.log(stretch if stretch > 0.0 else angle / LEAST_SINE)
        if with_curvature:
            one, other = curve(angle, 1.0)
            others[1] += one
            others[2] += other
        x[i], y[i], z[i] = stretch * x[i], stretch * y[i], stretch * z[i]


@kernel
def _sums_on_the_sphere(rows, numbers, edges, bases, weights, with_scatter, with_curvature, vectors, scatters, others):
    """`_sums_in_any` of rows with three columns."""
    x, y, z, v = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    ones, own = np.ones(_BLOCK), np.ones(_BLOCK)
    for piece in range(bases.shape[0]):
        bx, by, bz = bases[piece, 0], bases[piece, 1], bases[piece, 2]
        for start in range(edges[piece], edges[piece + 1], _BLOCK):
            n_rows = min(_BLOCK, edges[piece + 1] - start)
            farthest = 0.0
            for i in range(n_rows):
                number = numbers[start + i]
                a, b, c = np.float64(rows[number, 0]), np.float64(rows[number, 1]), np.float64(rows[number, 2])
                cosine = a * bx + b * by + c * bz
                x[i], y[i], z[i] = a - cosine * bx, b - cosine * by, c - cosine * bz
                u = 0.5 * (1.0 - cosine)
                farthest = max(farthest, u)
                # rounding can leave u a little below 0
                v[i] = max(u, 0.0) * (2.0 / NEAR) - 1.0
                if weights is not None:
                    own[i] = weights[start + i]
            if farthest < NEAR:
                _stretch_near(v, x, y, z, n_rows)
                if with_scatter:
                    others[piece, 0] += _polynomial_sum(LOG_STRETCH, v, own, n_rows)
                if with_curvature:
                    others[piece, 1] += _polynomial_sum(BEND, v, ones, n_rows)
                    others[piece, 2] += _polynomial_sum(SWAY, v, ones, n_rows)
            else:
                _stretch_any(v, x, y, z, own, n_rows, with_scatter, with_curvature, others[piece])
            _add_moments(x, y, z, own, n_rows, vectors[piece], scatters[piece], with_scatter)
        _mirrored(scatters[piece])
