"""Whole sums: every number is rounded once to a multiple of 2^-q, and such multiples add without rounding.

    q        50 - ceil(log2 W), W the correctly rounded total weight of all rows (their number without weights)
    a row    y = w x_d, one float64 product, never fused with what follows; none without weights
    rounded  (y + M) - M with M = 1.5 * 2^(52 - q): to the nearest multiple of 2^-q, ties to the even one

|y| is at most W (1 + 2e-6), rows being unit only to rounding, so M + y stays in [2^52, 2^53) quanta, where float64 has
just these multiples; and a sum over all rows stays below 2^51 quanta. So float64 addition and subtraction of such
numbers are exact: any order of rows, any cut, any number of threads and any device give the same bits, and rows can
leave a sum again. The price is half a quantum per row and coordinate, 2^-51 W at most: what float64 itself loses in a
sum of W. A row that has any weight counts at least one quantum (`lifted`), so that no cluster with rows seems empty.

Numbers of many sizes, as squares of tangent vectors, which a tight cluster has far below their bound, are summed in two
limbs: what the first rounding leaves, at most half a quantum, is rounded once more to a grid of its own (`two_limbs`).
Both sums are exact, and their sum is rounded once, at the end.

Products of coordinates (scatters) are not rounded but made of rounded coordinates: a number of at most 2 is the sum of
a multiple of 2^-21 and one of 2^-43 (`halves`). Products of such multiples, and sums of `PRODUCT_ROWS` of them, have
fewer than 53 bits: they are exact in float64, added in any order, fused or not. Sums of more rows are carried in two
limbs each, exact for up to 2^31 rows, and rounded once, at the end (`from_products`). The grid is the same for any
number of rows: neither the cut nor the order of rows decides a bit.

In bits, y + M is bits(M) and the quanta of y: integers that add as well, modulo 2^64, with one float addition less for
each number. bits(M) is an odd multiple of 2^51 (`LOW_BITS` are those below), so the quanta of a sum that is not
negative lie in the bits below it.

This file is the only place that knows the rule; kernels are given M, as `rounder`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from itertools import chain
from typing import overload

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.exceptions import InputError

# Bits of a total, of the 53 that float64 has: one for the sign of the sum of M, one for rows a little longer than 1,
# one to spare.
_BITS = 50
# float64 ends at 2^1024, and M lies 2^2 above a total.
_EXPONENTS = (-1000, 1000)
# Numbers that stay in a near cache while their limbs are made: of 20,000 in 0.4 ms, plain sums 0.25, all at once 0.8.
_AT_ONCE = 4096
# A plain sum is off by less than this share of it.
_DOUBT = 1e-6
# M for q = 0, and the bits of a float64 in which M is 0 for every q.
ROUNDER = math.ldexp(1.5, 52)
# Rows whose products are added before they are carried; grids of the halves of a coordinate; and those of the first
# limbs of sums of products high high', high low' + low high' and low low', each 2^22 times coarser than its products.
PRODUCT_ROWS = 256
HALF_GRIDS = (21, 43)
CARRY_GRIDS = (20, 42, 64)
LOW_BITS = (1 << 51) - 1


def exponent(total: float) -> int:
    """q for rows whose weights sum to `total`: quanta are 2^-q."""
    if not (math.isfinite(total) and total >= 0.0):
        raise InputError(
            f"Sums of rows need a total weight that is finite and not negative; got {total}. Look at the weights."
        )
    if total == 0.0:
        return _BITS
    mantissa, power = math.frexp(total)
    power -= mantissa == 0.5  # 2^k itself
    if not _EXPONENTS[0] <= power <= _EXPONENTS[1]:
        raise InputError(
            f"Sums of rows need a total weight between 2^{_EXPONENTS[0]} and 2^{_EXPONENTS[1]}; got {total:.3g}. "
            "Multiply all weights by one number."
        )
    return _BITS - power


def weights_exponent(parts: Iterable[Float64Array]) -> int:
    """q for weights that lie in one or more arrays: the same however they are cut and ordered.

    A plain sum tells, but near a power of two, where the correctly rounded one does.
    """
    parts = list(parts)
    plain = float(sum(part.sum() for part in parts))
    mantissa, _ = math.frexp(plain)
    if plain == 0.0 or min(mantissa - 0.5, 1.0 - mantissa) > _DOUBT:
        return exponent(plain)
    return exponent(math.fsum(chain.from_iterable(part.tolist() for part in parts)))


def rounder(q: int) -> float:
    """M: the number that, added and subtracted again, rounds to multiples of 2^-q."""
    return math.ldexp(ROUNDER, -q)


def two_limbs(q: int, bound: float) -> tuple[float, float]:
    """M of the two limbs of numbers that are at most `bound` for each unit of weight, where weights have 2^-q.

    The first grid is coarser than 2^-q by the bound; a row leaves at most half of its quantum, and there are at most
    2^(50 - q) rows. Weights are at most 1.
    """
    first = q - math.ceil(math.log2(bound))
    return rounder(first), rounder(q + first + 1)


def halves(values: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Numbers of at most 2 (1 + 2e-6) in absolute value as multiples of 2^-21 and of 2^-43: their sum to 2^-44."""
    high = rounded(values, HALF_GRIDS[0])
    return high, rounded(values - high, HALF_GRIDS[1])


def products(vectors: Float64Array) -> Float64Array:
    """sum v v' of vectors (n, D) with entries of at most 2, as limbs (2, 3, D, D): see `from_products`."""
    n_rows, n_features = vectors.shape
    limbs = np.zeros((2, 3, n_features, n_features))
    for start in range(0, n_rows, PRODUCT_ROWS):
        both = np.concatenate(halves(vectors[start : start + PRODUCT_ROWS]), axis=1)
        found = both.T @ both  # exact, in whatever order it is added
        crossed = found[:n_features, n_features:]
        sums = found[:n_features, :n_features], crossed + crossed.T, found[n_features:, n_features:]
        for place, (own, grid) in enumerate(zip(sums, CARRY_GRIDS, strict=True)):
            first = rounded(own, grid)
            limbs[0, place] += first
            limbs[1, place] += own - first
    return limbs


def from_products(limbs: Float64Array) -> Float64Array:
    """Sums of products (..., D, D) from limbs (..., 2, 3, D, D), of which the upper halves count; each rounded once."""
    sums = limbs[..., 0, :, :, :] + limbs[..., 1, :, :, :]
    return mirrored(sums[..., 0, :, :] + (sums[..., 1, :, :] + sums[..., 2, :, :]))


def mirrored(squares: Float64Array) -> Float64Array:
    """Matrices (..., D, D) whose lower halves are the upper ones."""
    return np.where(_is_upper(squares.shape[-1]), squares, squares.mT)


@cache
def _is_upper(n_features: int) -> npt.NDArray[np.bool_]:
    return np.triu(np.ones((n_features, n_features), dtype=np.bool_))


def limbs_of(values: Float64Array, rounders: tuple[float, float]) -> Float64Array:
    """The sums (2,) of the two limbs of numbers (n,), by what `two_limbs` gives."""
    sums = np.zeros(2)
    for start in range(0, len(values), _AT_ONCE):
        some = values[start : start + _AT_ONCE]
        first = some + rounders[0]
        first -= rounders[0]
        rest = some - first
        rest += rounders[1]
        rest -= rounders[1]
        sums += first.sum(), rest.sum()
    return sums


def lifted(weights: Float64Array, q: int) -> Float64Array:
    """Weights as they are summed: those above 0 are at least a quantum. The array itself where none is lighter."""
    quantum = math.ldexp(1.0, -q)
    is_light = (weights > 0.0) & (weights < quantum)
    return np.where(is_light, quantum, weights) if is_light.any() else weights


@overload
def rounded(values: float, q: int) -> float: ...
@overload
def rounded(values: Float64Array, q: int) -> Float64Array: ...


def rounded(values: float | Float64Array, q: int) -> float | Float64Array:
    """Numbers of at most 2^(51 - q) in absolute value as multiples of 2^-q."""
    magic = rounder(q)
    found = values + magic
    found -= magic  # in place: half the time
    return found
