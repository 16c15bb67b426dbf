"""Philox 4x32-10 (Salmon et al. 2011): a draw is a pure function of (key, counter), equal to Triton's `tl.rand`."""

from __future__ import annotations

import numpy as np

from armillary.kernels.cpu._jit import kernel

_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint32(0x9E3779B9)
_W1 = np.uint32(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


@kernel
def philox(key0, key1, c0, c1, c2, c3):
    """Four 32-bit words for a 64-bit key and a 128-bit counter, each given as 32-bit words."""
    key0, key1 = np.uint32(key0), np.uint32(key1)
    c0, c1, c2, c3 = np.uint32(c0), np.uint32(c1), np.uint32(c2), np.uint32(c3)
    for _ in range(10):
        product0 = _M0 * np.uint64(c0)
        product1 = _M1 * np.uint64(c2)
        c0, c1, c2, c3 = (
            np.uint32(product1 >> _SHIFT) ^ c1 ^ key0,
            np.uint32(product1 & _LOW),
            np.uint32(product0 >> _SHIFT) ^ c3 ^ key1,
            np.uint32(product0 & _LOW),
        )
        key0 = np.uint32(key0 + _W0)
        key1 = np.uint32(key1 + _W1)
    return c0, c1, c2, c3


@kernel
def uniform(key0, key1, row):
    """A double in (0, 1) with 52 random bits: the draw of `row`."""
    row = np.uint64(row)
    high, low, _, _ = philox(key0, key1, row & _LOW, row >> _SHIFT, 0, 0)
    bits = (np.uint64(high) << np.uint64(20)) | (np.uint64(low) >> np.uint64(12))
    return (np.float64(bits) + 0.5) * 2.0**-52
