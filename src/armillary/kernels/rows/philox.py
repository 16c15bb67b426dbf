"""Philox 4x32-10 (Salmon et al. 2011): a draw is a pure function of (key, counter), equal to Triton's `tl.rand`.

Words of 32 bits are held in 64, and the ten rounds are written out, so that a loop over rows becomes vectors: eight
times as fast as rounds in a loop of their own.
"""

from __future__ import annotations

import numpy as np

from armillary.kernels.jit import kernel

_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint64(0x9E3779B9)
_W1 = np.uint64(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


@kernel(is_inlined=True)
def _round(number, key0, key1, c0, c1, c2, c3):
    step = np.uint64(number)
    product0, product1 = _M0 * c0, _M1 * c2
    return (
        (product1 >> _SHIFT) ^ c1 ^ ((key0 + step * _W0) & _LOW),
        product1 & _LOW,
        (product0 >> _SHIFT) ^ c3 ^ ((key1 + step * _W1) & _LOW),
        product0 & _LOW,
    )


@kernel(is_inlined=True)
def philox(key0, key1, c0, c1, c2, c3):
    """Four 32-bit words for a 64-bit key and a 128-bit counter, each given as 32-bit words; all as uint64."""
    key0, key1 = np.uint64(key0), np.uint64(key1)
    c0, c1, c2, c3 = np.uint64(c0), np.uint64(c1), np.uint64(c2), np.uint64(c3)
    c0, c1, c2, c3 = _round(0, key0, key1, c0, c1, c2, c3)
    c0, c1, c2, c3 = _round(1, key0, key1, c0, c1, c2, c3)
    c0, c1, c2, c3 = _round(2, key0, key1, c0, c1, c2, c3)
    c0, c1, c2, c3 = _round(3, key0, key1, c0, c1, c2, c3)
    c0, c1, c2, c3 = _round(4, key0, key1, c0, c1, c2, c3)
    c0, c1, c2, c3 = _round(5, key0, key1, c0, c1, c2, c3)
    c0, c1, c2, c3 = _round(6, key0, key1, c0, c1, c2, c3)
    c0, c1, c2, c3 = _round(7, key0, key1, c0, c1, c2, c3)
    c0, c1, c2, c3 = _round(8, key0, key1, c0, c1, c2, c3)
    return _round(9, key0, key1, c0, c1, c2, c3)


@kernel(is_inlined=True)
def uniform(key0, key1, row):
    """A double in (0, 1) with 52 random bits: the draw of `row`."""
    row = np.uint64(row)
    high, low, _, _ = philox(key0, key1, row & _LOW, row >> _SHIFT, 0, 0)
    # a signed integer is turned into a double by one instruction
    bits = np.int64((high << np.uint64(20)) | (low >> np.uint64(12)))
    return (np.float64(bits) + 0.5) * 2.0**-52


@kernel
def fill_uniforms(key, first_row, n_rows, out):
    """The draws of rows `first_row`, `first_row` + 1, ..."""
    for i in range(n_rows):
        out[i] = uniform(key[0], key[1], first_row + i)
