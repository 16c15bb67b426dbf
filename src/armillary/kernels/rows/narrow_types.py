"""Rows stored as float16 or bytes to unit float32 rows in one go: the gate of validation.py, equal to the bit.

NumPy takes five walks over a block for it, most of them in float64, which cost more than the product with a hundred
clusters. Here eight rows at a time stay in the first cache from the reading to the writing.

A number is divided by the norm in float64 and then rounded to float32. A product with 1 / norm is off from the
quotient by 2 units of float64 at most, so both round alike unless it lies that near to the middle between two float32
numbers, which its lowest 29 bits tell: such a row, one in a million, is divided after all. Quotients of these types are
never so small that float32 has fewer bits for them.
"""

from __future__ import annotations

import numpy as np

from armillary.kernels.jit import kernel

_TOGETHER = 8
_MAGNITUDE, _SIGN = 0x7FFF, 0x8000  # bits of a float16
_INFINITE = 0x7C00  # from here on a float16 is infinite or no number
# 10 bits of a mantissa at the place of the 52 of a float64 lie 42 higher, and exponents count from 15, not 1023
_SHIFT, _SIGN_SHIFT, _EXPONENTS = 42, 48, 2.0**1008
_LOW_BITS = (1 << 29) - 1  # what float32 has less than float64
_MIDDLE = 1 << 28
_NEAR = 4


@kernel
def unit_halves(bits, within, out):
    """Unit float32 rows of float16 rows, given by their bits (n, D) uint16; norms 1 to within a number stay.

    False, with `out` half written, where a row has no direction: other code has the sentence.
    """
    n_rows, n_columns = bits.shape
    room = np.empty((_TOGETHER, n_columns), np.int64)
    wide = room.view(np.float64)
    products = np.empty(n_columns, np.int64)
    for first in range(0, n_rows, _TOGETHER):
        n_here = min(_TOGETHER, n_rows - first)
        for i in range(n_here):
            largest = np.int64(0)
            row = bits[first + i]
            for d in range(n_columns):
                half = np.int64(row[d])
                magnitude = half & _MAGNITUDE
                largest = max(largest, magnitude)
                room[i, d] = (magnitude << _SHIFT) | ((half & _SIGN) << _SIGN_SHIFT)
            if largest >= _INFINITE or largest == 0:
                return False
            for d in range(n_columns):
                wide[i, d] *= _EXPONENTS
        _make_unit(wide, n_here, within, products, out[first : first + n_here])
    return True


@kernel
def unit_bytes(rows, within, out):
    """Unit float32 rows of rows of small whole numbers (n, D); see `unit_halves`."""
    n_rows, n_columns = rows.shape
    wide = np.empty((_TOGETHER, n_columns))
    products = np.empty(n_columns, np.int64)
    for first in range(0, n_rows, _TOGETHER):
        n_here = min(_TOGETHER, n_rows - first)
        for i in range(n_here):
            is_zero = True
            for d in range(n_columns):
                wide[i, d] = np.float64(rows[first + i, d])
                is_zero &= rows[first + i, d] == 0
            if is_zero:
                return False
        _make_unit(wide, n_here, within, products, out[first : first + n_here])
    return True


@kernel
def _make_unit(wide, n_rows, within, bits, out):
    """Up to eight float64 rows, made unit and written as float32."""
    n_columns = wide.shape[1]
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    # rows beyond the last are whatever they were: their sums go nowhere
    for d in range(n_columns):
        s0 += wide[0, d] * wide[0, d]
        s1 += wide[1, d] * wide[1, d]
        s2 += wide[2, d] * wide[2, d]
        s3 += wide[3, d] * wide[3, d]
        s4 += wide[4, d] * wide[4, d]
        s5 += wide[5, d] * wide[5, d]
        s6 += wide[6, d] * wide[6, d]
        s7 += wide[7, d] * wide[7, d]
    squares = (s0, s1, s2, s3, s4, s5, s6, s7)
    products = bits.view(np.float64)
    for i in range(n_rows):
        norm = np.sqrt(squares[i])
        if abs(norm - 1.0) <= within:
            for d in range(n_columns):
                out[i, d] = np.float32(wide[i, d])
            continue
        inverse = 1.0 / norm
        for d in range(n_columns):
            products[d] = wide[i, d] * inverse
        nearest = np.int64(_LOW_BITS)
        for d in range(n_columns):
            nearest = min(nearest, (bits[d] + (_NEAR - _MIDDLE)) & _LOW_BITS)
        if nearest <= 2 * _NEAR:
            for d in range(n_columns):
                out[i, d] = np.float32(wide[i, d] / norm)
        else:
            for d in range(n_columns):
                out[i, d] = np.float32(products[d])
