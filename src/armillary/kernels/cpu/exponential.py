"""exp for arguments <= 0 as plain arithmetic, so that the compiler can use vector lanes (libm's exp is a call)."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from armillary.kernels.cpu._jit import CONTRACT, kernel

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # 32 bits: n * _LN2_HIGH is exact for |n| < 2^20
_LN2_LOW = 1.90821492927058770002e-10
SMALLEST = -708.0  # below it exp underflows; the result is 0


@intrinsic
def _double_of_bits(typing_context, bits):
    """The double whose IEEE bits are the given int64."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@kernel(fastmath=CONTRACT)
def exp_nonpositive(x):
    """exp(x) for x <= 0 to within 2 units in the last place; 0 below -708."""
    clipped = max(x, SMALLEST)
    n = np.floor(clipped * _LOG2_E + 0.5)
    r = (clipped - n * _LN2_HIGH) - n * _LN2_LOW
    # Taylor to r^13 on |r| <= ln(2)/2: the first term left out is below 5e-18
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    value = p * _double_of_bits((np.int64(n) + 1023) << 52)
    return value if x >= SMALLEST else 0.0
