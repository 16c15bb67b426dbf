"""Scores and angles on the sphere with the bits of the CPU: polynomials, exp and log as arithmetic, fused by name.

What kernels/rows/stretch.py, exponential.py and sphere_draws.py say in numba is said here in Triton, operation by
operation, and the coefficients are theirs. Kernels are started without fusion, so what is fused is what is named; roots
and divisions of float64 are correctly rounded. Constants of `tl.fma` and `tl.maximum` are tensors: plain numbers would
be float32 there.
"""

from __future__ import annotations

import math

import triton
import triton.language as tl

from armillary.distributions.tangent_gaussian import LEAST_ANGLE, LEAST_SINE
from armillary.kernels.rows import exponential, stretch


def _pairs(coefficients):
    """Coefficients, lowest first, as many odd powers as even ones."""
    given = [float(number) for number in coefficients]
    return tl.constexpr((*given, *[0.0] * (len(given) % 2)))


_NEAR_STRETCH = _pairs(stretch.NEAR_STRETCH)
_NEAR_LOG_STRETCH = _pairs(stretch.NEAR_LOG_STRETCH)
_NEAR_BEND = _pairs(stretch.NEAR_BEND)
_NEAR_SWAY = _pairs(stretch.NEAR_SWAY)
_WIDE_STRETCH = _pairs(stretch.WIDE_STRETCH)
_WIDE_LOG_STRETCH = _pairs(stretch.WIDE_LOG_STRETCH)
_WIDE_BEND = _pairs(stretch.WIDE_BEND)
_LOG_SERIES = _pairs(stretch.LOG_SERIES)
_N_NEAR = tl.constexpr(len(_NEAR_STRETCH.value) // 2)
_N_WIDE = tl.constexpr(len(_WIDE_STRETCH.value) // 2)
_N_LOG = tl.constexpr(len(_LOG_SERIES.value) // 2)
_NEAR = tl.constexpr(stretch.NEAR)
_WIDE = tl.constexpr(stretch.WIDE)
_NEAR_SLOPE = tl.constexpr(2.0 / stretch.NEAR)
_WIDE_SLOPE = tl.constexpr(2.0 / stretch.WIDE)
_BEYOND = tl.constexpr(1.0 - 2.0 * stretch.WIDE)
_PI = tl.constexpr(math.pi)
_LEAST_SINE = tl.constexpr(LEAST_SINE)
_LEAST_ANGLE = tl.constexpr(LEAST_ANGLE)
_LEAST_REST = tl.constexpr(float(stretch.LEAST_REST))
_MOST_COTANGENT = tl.constexpr(float(stretch.MOST_COTANGENT))
_ROOT_HALF_BITS = tl.constexpr(stretch.ROOT_HALF_BITS)
_LN2_HIGH = tl.constexpr(exponential.LN2_HIGH)
_LN2_LOW = tl.constexpr(exponential.LN2_LOW)
_LOG2_E = tl.constexpr(exponential.LOG2_E)
_ROUNDER = tl.constexpr(exponential.ROUNDER)
_TAYLOR = tl.constexpr(exponential.TAYLOR)
_N_TAYLOR = tl.constexpr(len(exponential.TAYLOR))
_SMALLEST = tl.constexpr(exponential.SMALLEST)


@triton.jit
def _polynomial(v, COEFFICIENTS: tl.constexpr, N_PAIRS: tl.constexpr):
    """Even and odd powers apart, highest first."""
    square = v * v
    even = tl.full((1,), COEFFICIENTS[2 * N_PAIRS - 2], tl.float64)
    odd = tl.full((1,), COEFFICIENTS[2 * N_PAIRS - 1], tl.float64)
    for n in tl.static_range(1, N_PAIRS):
        even = tl.fma(even, square, tl.full((1,), COEFFICIENTS[2 * (N_PAIRS - 1 - n)], tl.float64))
        odd = tl.fma(odd, square, tl.full((1,), COEFFICIENTS[2 * (N_PAIRS - 1 - n) + 1], tl.float64))
    return tl.fma(odd, v, even)


@triton.jit
def exp_nonpositive(x):
    """exp(x) for x <= 0; 0 below -708."""
    clipped = tl.maximum(x, _SMALLEST)
    shifted = tl.fma(clipped, tl.full((1,), _LOG2_E, tl.float64), tl.full((1,), _ROUNDER, tl.float64))
    n = shifted - _ROUNDER
    r = tl.fma(-n, tl.full((1,), _LN2_LOW, tl.float64), tl.fma(-n, tl.full((1,), _LN2_HIGH, tl.float64), clipped))
    p = tl.fma(tl.full((1,), _TAYLOR[0], tl.float64), r, tl.full((1,), _TAYLOR[1], tl.float64))
    for place in tl.static_range(2, _N_TAYLOR):
        p = tl.fma(p, r, tl.full((1,), _TAYLOR[place], tl.float64))
    power = (shifted.to(tl.int64, bitcast=True) + 1023) << 52
    return tl.where(x >= _SMALLEST, p * power.to(tl.float64, bitcast=True), 0.0)


@triton.jit
def log_of(x):
    """log x of a normal number above 0."""
    bits = x.to(tl.int64, bitcast=True)
    power = (bits - _ROOT_HALF_BITS) >> 52
    part = (bits - (power << 52)).to(tl.float64, bitcast=True)
    f = (part - 1.0) / (part + 1.0)
    n = power.to(tl.float64)
    series = (2.0 * f) * _polynomial(f * f, _LOG_SERIES, _N_LOG)
    return tl.fma(n, tl.full((1,), _LN2_HIGH, tl.float64), tl.fma(n, tl.full((1,), _LN2_LOW, tl.float64), series))


@triton.jit
def _from_antipode(u):
    """v of theta' = pi - theta."""
    return tl.fma(tl.maximum(1.0 - u, 0.0), tl.full((1,), _NEAR_SLOPE, tl.float64), tl.full((1,), -1.0, tl.float64))


@triton.jit
def bent(half, cosine, trace, volume):
    """volume log g - g^2 half, g = theta / sin theta; at the antipode the average over directions."""
    u = tl.maximum(0.5 * (1.0 - cosine), 0.0)
    v = tl.fma(tl.minimum(u, _WIDE), tl.full((1,), _WIDE_SLOPE, tl.float64), tl.full((1,), -1.0, tl.float64))
    g = _polynomial(v, _WIDE_STRETCH, _N_WIDE)
    value = tl.fma(volume, _polynomial(v, _WIDE_LOG_STRETCH, _N_WIDE), -((g * g) * half))
    # beyond 120 degrees; others are held there, and not asked for
    held = tl.minimum(tl.maximum(cosine, -1.0), _BEYOND)
    sine = tl.sqrt((1.0 - held) * (1.0 + held))
    angle = (
        tl.full((1,), _PI, tl.float64) - _polynomial(_from_antipode(0.5 * (1.0 - held)), _NEAR_STRETCH, _N_NEAR) * sine
    )
    far = angle / tl.maximum(sine, tl.full((1,), _LEAST_SINE, tl.float64))
    is_antipode = sine < _LEAST_SINE
    lost = tl.where(is_antipode, (0.5 * angle) * angle * trace, far * far * half)
    return tl.where(cosine < _BEYOND, volume * log_of(far) - lost, value)


@triton.jit
def seen_stretches(cosine, square):
    """theta / sin theta, 0 at the antipode, its log, and theta^2 of antipodes; `square` is that of the sine."""
    u = tl.maximum(0.5 * (1.0 - cosine), 0.0)
    v = u * _NEAR_SLOPE - 1.0
    near, near_log = _polynomial(v, _NEAR_STRETCH, _N_NEAR), _polynomial(v, _NEAR_LOG_STRETCH, _N_NEAR)
    far_v = tl.fma(tl.minimum(u, _WIDE), tl.full((1,), _WIDE_SLOPE, tl.float64), tl.full((1,), -1.0, tl.float64))
    wide, wide_log = _polynomial(far_v, _WIDE_STRETCH, _N_WIDE), _polynomial(far_v, _WIDE_LOG_STRETCH, _N_WIDE)
    sine = tl.sqrt(square)
    angle = tl.full((1,), _PI, tl.float64) - _polynomial(_from_antipode(u), _NEAR_STRETCH, _N_NEAR) * sine
    far = angle / tl.maximum(sine, tl.full((1,), _LEAST_SINE, tl.float64))
    is_antipode = (u > _WIDE) & (sine < _LEAST_SINE)
    far_log = log_of(far)
    stretch = tl.where(u < _NEAR, near, tl.where(u <= _WIDE, wide, tl.where(is_antipode, 0.0, far)))
    log_stretch = tl.where(u < _NEAR, near_log, tl.where(u <= _WIDE, wide_log, far_log))
    return stretch, log_stretch, tl.where(is_antipode, angle * angle, 0.0)


@triton.jit
def seen_curvatures(cosine, square, n_features):
    """A row's part of bend and sway."""
    u = tl.maximum(0.5 * (1.0 - cosine), 0.0)
    v = u * _NEAR_SLOPE - 1.0
    bend = _polynomial(v, _NEAR_BEND, _N_NEAR)
    dimension = n_features.to(tl.float64)
    sway = 1.0 - (1.0 - _polynomial(v, _NEAR_SWAY, _N_NEAR)) * (1.0 - (dimension - 3.0) * bend)
    sine = tl.sqrt(square)
    far_v = tl.fma(tl.minimum(u, _WIDE), tl.full((1,), _WIDE_SLOPE, tl.float64), tl.full((1,), -1.0, tl.float64))
    wide_angle = _polynomial(far_v, _WIDE_STRETCH, _N_WIDE) * sine
    back = _from_antipode(u)
    rest = _polynomial(back, _NEAR_STRETCH, _N_NEAR) * sine
    is_wide = u <= _WIDE
    # what is divided by where nothing is asked for must not be 0
    is_asked = (u >= _NEAR) & is_wide & (wide_angle > 0.0)
    wide_cotangent = _polynomial(far_v, _WIDE_BEND, _N_WIDE) / tl.where(is_asked, wide_angle, 1.0)
    far_cotangent = -_polynomial(back, _NEAR_BEND, _N_NEAR) / tl.where(rest > _LEAST_REST, rest, 1.0)
    far_cotangent = tl.where(rest > _LEAST_REST, far_cotangent, tl.full((1,), _MOST_COTANGENT, tl.float64))
    k = tl.where(is_wide, wide_cotangent, far_cotangent)
    a = tl.maximum(
        tl.where(is_wide, wide_angle, tl.full((1,), _PI, tl.float64) - rest), tl.full((1,), _LEAST_ANGLE, tl.float64)
    )
    far_sway = 1.0 + k * k - 1.0 / (a * a) + (dimension - 2.0) * (1.0 / a - k) * k
    return tl.where(u < _NEAR, bend, a * k), tl.where(u < _NEAR, sway, far_sway)
