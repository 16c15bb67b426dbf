"""theta / sin theta, its logarithm and its curvatures for rows of the sphere, as polynomials where they can be.

Functions of u = (1 - cos theta) / 2. They are analytic up to u = 1, the antipode, so Chebyshev polynomials on [0, 1/4]
(60 degrees) and [0, 3/4] (120 degrees) converge fast, and a loop over rows becomes vectors; libm does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from armillary._typing import Float64Array
from armillary.distributions.tangent_gaussian import LEAST_ANGLE, LEAST_SINE, MOST_ANGLE
from armillary.kernels.jit import VECTOR_SUMS, kernel

# Up to these u the polynomials hold. Their error falls by 14 with each degree on the one, by 3 on the other.
NEAR = 0.25
WIDE = 0.75
_NEAR_DEGREE = 14
_WIDE_DEGREE = 37

_DOUBLE = ir.DoubleType()


def _polynomial(function: Callable[[Float64Array], Float64Array], end: float, degree: int) -> Float64Array:
    """Coefficients, lowest first, of a function of v = 2 u / end - 1 on [-1, 1]: Chebyshev interpolation."""
    nodes = np.polynomial.Chebyshev.interpolate(lambda v: function(0.5 * end * (v + 1.0)), degree)
    return np.asarray(nodes.convert(kind=np.polynomial.Polynomial).coef)


def _stretch_of(u: Float64Array) -> Float64Array:
    """theta / sin theta."""
    root = np.sqrt(np.maximum(u, 1e-300))
    return np.asarray(np.arcsin(root) / (root * np.sqrt(1.0 - u)))


def _bend_of(u: Float64Array) -> Float64Array:
    """a cot a, a = theta."""
    a = 2.0 * np.arcsin(np.sqrt(u))
    return np.asarray(a / np.tan(a))


def _sway_of(u: Float64Array) -> Float64Array:
    """1 + k^2 - 1/a^2 + (1/a - k) k with k = cot a, what three dimensions have: 1 - (1 - a k) / a^2."""
    a = 2.0 * np.arcsin(np.sqrt(u))
    return 1.0 - (1.0 - _bend_of(u)) / a**2


def _written_out(coefficients: Float64Array) -> Any:
    """A polynomial as straight code, even and odd powers apart: so long a loop the compiler does not unroll."""

    @intrinsic
    def evaluate(_context, v):
        def generate(context, builder, signature, arguments):
            (value,) = arguments
            square = builder.fmul(value, value)
            given = np.append(coefficients, np.zeros(len(coefficients) % 2))  # as many odd powers as even ones
            sums = [_DOUBLE(number) for number in given[-2:]]
            for n in range(len(given) - 4, -1, -2):
                pair = given[n : n + 2]
                sums = [builder.fma(total, square, _DOUBLE(number)) for total, number in zip(sums, pair, strict=True)]
            return builder.fma(sums[1], value, sums[0])

        return types.float64(types.float64), generate

    return evaluate


# Of rows up to NEAR, of v = 2 u / NEAR - 1. Multiply-adds are fused by name: a row has its bits wherever it stands.
near_stretch = _written_out(_polynomial(_stretch_of, NEAR, _NEAR_DEGREE))
near_log_stretch = _written_out(_polynomial(lambda u: np.log(_stretch_of(u)), NEAR, _NEAR_DEGREE))
near_bend = _written_out(_polynomial(_bend_of, NEAR, _NEAR_DEGREE))
near_sway = _written_out(_polynomial(_sway_of, NEAR, _NEAR_DEGREE))

_wide_stretch = _written_out(_polynomial(_stretch_of, WIDE, _WIDE_DEGREE))
_wide_log_stretch = _written_out(_polynomial(lambda u: np.log(_stretch_of(u)), WIDE, _WIDE_DEGREE))


@kernel
def far_stretch_and_angle(cosine, sine):
    """theta / sin theta, 0 at the antipode, and theta, of a row beyond NEAR."""
    angle = np.arctan2(sine, cosine)
    return (angle / sine if sine >= LEAST_SINE else 0.0), angle


@kernel
def curve(angle, others):
    """One row's part of bend and sway."""
    a = max(angle, LEAST_ANGLE)
    k = 1.0 / np.tan(min(a, MOST_ANGLE))
    return a * k, 1.0 + k * k - 1.0 / (a * a) + others * (1.0 / a - k) * k


# ------------------------------------------------------------------------------------- scores in tangent spaces


@kernel(fastmath=VECTOR_SUMS)
def bend(halves, cosines, volume, n_values):
    """Write volume log g - g^2 half over each half, x' A x / 2 of a row and a cluster, g = theta / sin theta.

    Those with `is_beyond` stay as they are: they are for `bent_beyond`, one by one.
    """
    for i in range(n_values):
        # rounding can leave u a little below 0
        u = max(0.5 * (1.0 - cosines[i]), 0.0)
        v = min(u, WIDE) * (2.0 / WIDE) - 1.0
        stretch = _wide_stretch(v)
        value = volume * _wide_log_stretch(v) - stretch * stretch * halves[i]
        halves[i] = halves[i] if is_beyond(cosines[i]) else value


@kernel
def is_beyond(cosine):
    """Whether a row is so far from a mean that no polynomial holds."""
    return cosine < 1.0 - 2.0 * WIDE


@kernel
def bent_beyond(half, cosine, trace, volume):
    """What `bend` writes, of any row; at the antipode the average over directions, for which the trace is needed."""
    cosine = max(-1.0, cosine)
    angle = np.arccos(cosine)
    sine = np.sqrt((1.0 - cosine) * (1.0 + cosine))
    if sine < LEAST_SINE:
        return volume * np.log(angle / LEAST_SINE) - 0.5 * angle * angle * trace
    stretch = angle / sine
    return volume * np.log(stretch) - stretch * stretch * half
