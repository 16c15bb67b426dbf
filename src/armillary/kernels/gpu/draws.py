"""Draws by counter: Philox 4x32-10, with the bits of kernels/rows/philox.py."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def uniforms(out, key, first_row, n_rows, BLOCK: tl.constexpr):
    """A double in (0, 1) for each row: 52 bits."""
    item = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row = (first_row + item).to(tl.uint64)
    c0 = (row & 0xFFFFFFFF).to(tl.uint32)
    c1 = (row >> 32).to(tl.uint32)
    c2 = tl.zeros((BLOCK,), tl.uint32)
    c3 = tl.zeros((BLOCK,), tl.uint32)
    k0 = tl.full((BLOCK,), 0, tl.uint32) + tl.load(key).to(tl.uint32)
    k1 = tl.full((BLOCK,), 0, tl.uint32) + tl.load(key + 1).to(tl.uint32)
    for _ in tl.static_range(10):
        b0, b2 = c0, c2
        low0 = 0xD2511F53 * b0.to(tl.uint64)
        low1 = 0xCD9E8D57 * b2.to(tl.uint64)
        c0 = (low1 >> 32).to(tl.uint32) ^ c1 ^ k0
        c2 = (low0 >> 32).to(tl.uint32) ^ c3 ^ k1
        c1 = (low1 & 0xFFFFFFFF).to(tl.uint32)
        c3 = (low0 & 0xFFFFFFFF).to(tl.uint32)
        k0 = k0 + 0x9E3779B9
        k1 = k1 + 0xBB67AE85
    bits = (c0.to(tl.uint64) << 20) | (c1.to(tl.uint64) >> 12)
    value = (bits.to(tl.int64).to(tl.float64) + 0.5) * 2.220446049250313e-16
    tl.store(out + item, value, mask=item < n_rows)
