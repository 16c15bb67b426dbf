"""theta / sin theta, its logarithm and its curvatures for rows of the sphere, as polynomials.

Functions of u = (1 - cos theta) / 2. They are analytic up to u = 1, the antipode, so Chebyshev polynomials on [0, 1/4]
(60 degrees) and [0, 3/4] (120 degrees) converge fast, and a loop over rows becomes vectors. Beyond that the angle is pi
less the one from the antipode, which has polynomials again; the logarithm is arithmetic too. Nothing here calls libm,
and multiply-adds are fused by name: a row has its bits wherever it stands, on a GPU too (kernels/gpu/sphere.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from armillary._typing import Float64Array
from armillary.distributions.tangent_gaussian import LEAST_ANGLE, LEAST_SINE, MOST_ANGLE
from armillary.kernels.jit import kernel
from armillary.kernels.rows.exponential import LN2_HIGH, LN2_LOW, bits_of_double, double_of_bits

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


# Of rows up to NEAR, of v = 2 u / NEAR - 1, and up to WIDE, of v = 2 u / WIDE - 1.
NEAR_STRETCH = _polynomial(_stretch_of, NEAR, _NEAR_DEGREE)
NEAR_LOG_STRETCH = _polynomial(lambda u: np.log(_stretch_of(u)), NEAR, _NEAR_DEGREE)
NEAR_BEND = _polynomial(_bend_of, NEAR, _NEAR_DEGREE)
NEAR_SWAY = _polynomial(_sway_of, NEAR, _NEAR_DEGREE)
WIDE_STRETCH = _polynomial(_stretch_of, WIDE, _WIDE_DEGREE)
WIDE_LOG_STRETCH = _polynomial(lambda u: np.log(_stretch_of(u)), WIDE, _WIDE_DEGREE)
WIDE_BEND = _polynomial(_bend_of, WIDE, _WIDE_DEGREE)

near_stretch = _written_out(NEAR_STRETCH)
near_log_stretch = _written_out(NEAR_LOG_STRETCH)
near_bend = _written_out(NEAR_BEND)
near_sway = _written_out(NEAR_SWAY)
_wide_stretch = _written_out(WIDE_STRETCH)
_wide_log_stretch = _written_out(WIDE_LOG_STRETCH)
_wide_bend = _written_out(WIDE_BEND)

# Of f^2 in log((1 + f) / (1 - f)) = 2 f (1 + f^2 / 3 + f^4 / 5 + ...): |f| is below 0.172, the first left out 3e-20.
LOG_SERIES = np.array([1.0 / (2 * n + 1) for n in range(12)])
ROOT_HALF_BITS = int(np.sqrt(np.float64(0.5)).view(np.int64))
# What cotangents are held at next to the antipode, and the angle from it that this begins at.
LEAST_REST = np.pi - MOST_ANGLE
MOST_COTANGENT = 1.0 / math.tan(MOST_ANGLE)

_log_series = _written_out(LOG_SERIES)


@intrinsic
def fused(_context, one, two, three):
    """one two + three, rounded once."""

    def generate(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


@kernel
def log_of(x):
    """log x of a normal number above 0, to within 2 units in the last place of log x or of 1 where that is less."""
    bits: int = bits_of_double(x)
    power = (bits - ROOT_HALF_BITS) >> 52
    part = double_of_bits(bits - (power << 52))  # from the root of 1/2 to the root of 2
    f = (part - 1.0) / (part + 1.0)
    n = np.float64(power)
    return fused(n, LN2_HIGH, fused(n, LN2_LOW, (2.0 * f) * _log_series(f * f)))


@kernel
def _from_antipode(u):
    """theta' / sin theta' and theta' cot theta' of theta' = pi - theta, u >= 3/4."""
    v: float = fused(max(1.0 - u, 0.0), 2.0 / NEAR, -1.0)
    return near_stretch(v), near_bend(v)


@kernel
def far_row(u, sine):
    """theta / sin theta, 0 at the antipode, its log, theta and cot theta of a row beyond NEAR."""
    if u <= WIDE:
        v: float = fused(u, 2.0 / WIDE, -1.0)
        stretch = _wide_stretch(v)
        angle = stretch * sine
        return stretch, _wide_log_stretch(v), angle, _wide_bend(v) / angle
    turned, bent = _from_antipode(u)
    rest = turned * sine
    angle = np.pi - rest
    stretch = angle / max(sine, LEAST_SINE)
    cotangent = -bent / rest if rest > LEAST_REST else MOST_COTANGENT
    return (stretch if sine >= LEAST_SINE else 0.0), log_of(stretch), angle, cotangent


@kernel
def curve(angle, cotangent, others):
    """One row's part of bend and sway."""
    a, k = max(angle, LEAST_ANGLE), cotangent
    return a * k, 1.0 + k * k - 1.0 / (a * a) + others * (1.0 / a - k) * k


# ------------------------------------------------------------------------------------- scores in tangent spaces


@kernel
def bend(halves, cosines, volume, n_values):
    """Write volume log g - g^2 half over each half, x' A x / 2 of a row and a cluster, g = theta / sin theta.

    Those with `is_beyond` stay as they are: they are for `bent_beyond`, one by one.
    """
    for i in range(n_values):
        # rounding can leave u a little below 0
        u = max(0.5 * (1.0 - cosines[i]), 0.0)
        v: float = fused(min(u, WIDE), 2.0 / WIDE, -1.0)
        stretch = _wide_stretch(v)
        value = fused(volume, _wide_log_stretch(v), -((stretch * stretch) * halves[i]))
        halves[i] = halves[i] if is_beyond(cosines[i]) else value


@kernel
def is_beyond(cosine):
    """Whether a row is so far from a mean that no polynomial holds."""
    return cosine < 1.0 - 2.0 * WIDE


@kernel
def bent_beyond(half, cosine, trace, volume):
    """What `bend` writes, of any row; at the antipode the average over directions, for which the trace is needed."""
    cosine = max(-1.0, cosine)
    sine = np.sqrt((1.0 - cosine) * (1.0 + cosine))
    angle = np.pi - _from_antipode(0.5 * (1.0 - cosine))[0] * sine
    stretch = angle / max(sine, LEAST_SINE)
    if sine < LEAST_SINE:
        return volume * log_of(stretch) - 0.5 * angle * angle * trace
    return volume * log_of(stretch) - stretch * stretch * half
