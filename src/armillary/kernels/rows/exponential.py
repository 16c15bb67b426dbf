"""exp for arguments <= 0 as plain arithmetic, so that the compiler can use vector lanes (libm's exp is a call)."""

from __future__ import annotations

from math import factorial

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from armillary.kernels.jit import CONTRACT, kernel

LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01  # 32 bits: n * LN2_HIGH is exact for |n| < 2^20
LN2_LOW = 1.90821492927058770002e-10
ROUNDER = 1.5 * 2.0**52  # what is added to it is rounded to a whole number
# to r^13, highest first: on |r| <= ln(2) / 2 the first term left out is below 5e-18
TAYLOR = tuple(1.0 / factorial(n) for n in range(13, -1, -1))
SMALLEST = -708.0  # below it exp underflows; the result is 0


@intrinsic
def double_of_bits(typing_context, bits):
    """The double whose IEEE bits are the given int64."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic
def bits_of_double(typing_context, value):
    """The IEEE bits of a double as int64."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@kernel(fastmath=CONTRACT)
def exp_nonpositive(x):
    """exp(x) for x <= 0 to within 2 units in the last place; 0 below -708."""
    clipped = max(x, SMALLEST)
    # the nearest whole number, which the last bits hold as well: processors before AVX-512 convert none to int64
    shifted = clipped * LOG2_E + ROUNDER
    n = shifted - ROUNDER
    r = (clipped - n * LN2_HIGH) - n * LN2_LOW
    p = TAYLOR[0]
    for coefficient in TAYLOR[1:]:
        p = p * r + coefficient
    value = p * double_of_bits((bits_of_double(shifted) + 1023) << 52)
    return value if x >= SMALLEST else 0.0
