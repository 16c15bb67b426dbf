"""log H_v(k) of one order v inside compiled loops: the two regions of `distributions/bessel.py`, with its coefficients.

An order's tables are made once (`order_tables`) and passed in: numba would freeze a global array into compiled code
that outlives a change of the numbers. What depends on the order alone (logarithms, Gamma) is one constant.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from armillary._typing import Float64Array
from armillary.distributions import bessel
from armillary.kernels.jit import kernel

_SERIES_RADIUS = bessel._SERIES_RADIUS
_STIRLING_ORDER = bessel._STIRLING_ORDER
# The series ends by itself after at most 60 terms.
_MOST_TERMS = 128


class OrderTables(NamedTuple):
    """What `log_h` needs besides k."""

    order: float  # v >= 0
    series_end: float  # 2 sqrt(v + 1): up to here the series has at most 20 terms
    constant: float  # of the uniform region
    reciprocals: Float64Array  # (128,) 1 / (n (v + n)), n = 1, 2, ...
    debye: Float64Array  # (12, 14) P_j, lowest power first


@cache
def order_tables(order: float) -> OrderTables:
    """The tables of one order."""
    if order < _STIRLING_ORDER:
        constant = order * (1.0 + math.log(2.0)) - 0.5 * math.log(2.0 * math.pi) + float(gammaln(order + 1.0))
    else:
        # at k = 0 the logarithms vanish and Stirling's remainder is left
        v = np.array([order])
        constant = float(bessel._log_prefactor(v, np.zeros(1), v)[0])
    n = np.arange(1.0, _MOST_TERMS + 1.0)
    return OrderTables(order, 2.0 * math.sqrt(order + 1.0), constant, 1.0 / (n * (order + n)), bessel._P)


@kernel
def log_h(k, tables):
    """log H_v(k), k >= 0, to within 1e-13 relative of `distributions.bessel.log_h`."""
    v, series_end, constant, reciprocals, debye = tables
    r = math.sqrt(v * v + k * k)
    if r < _SERIES_RADIUS or k <= series_end:
        x = 0.25 * k * k
        term = x * reciprocals[0]
        total = term
        n = 1
        while term > 1e-17 * total:
            term *= x * reciprocals[n]
            total += term
            n += 1
        return math.log1p(total)
    # the first term left out is largest at v = 0: 0.21/r^5, 1.6/r^7, 23/r^9, each below 2e-16 from its radius on
    n_terms = 4 if r >= 1000.0 else 6 if r >= 200.0 else 8 if r >= 100.0 else 12
    inverse = 1.0 / r
    q = (v * inverse) * (v * inverse)
    remainder = 0.0
    for j in range(n_terms - 1, -1, -1):
        row = 0.0
        for i in range(j + 1, -1, -1):
            row = row * q + debye[j, i]
        remainder = (remainder + row) * inverse
    growth = k * (k / (r + v))
    if v < _STIRLING_ORDER:
        return growth + (constant - v * math.log(v + r) - 0.5 * math.log(r) + remainder)
    growth_share = growth / v
    # 1 + growth_share is rounded, which costs a few 1e-16; the first logarithm is multiplied by v and needs log1p
    return growth + (constant - v * math.log1p(0.5 * growth_share) - 0.5 * math.log(1.0 + growth_share) + remainder)
