"""Laws of directions told by natural vectors, and what a random step leaves of them.

A vMF law is told by its natural vector: its length is the concentration, 0 the uniform law. A step of a vMF law blurs
it. Laws are kept to such ones by matching means: conv(v, C) has the direction of v and the concentration
A^-1(A(|v|) A(C)) (vmf_mixtures.md, 1.6); n steps on it is A^-1(A(|v|) A(C)^n) (9.5).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from armillary._typing import ArrayLike, Float64Array
from armillary.distributions import bessel, vmf
from armillary.distributions.bessel import FloatOrArray
from armillary.distributions.log_concentration import natural_slope
from armillary.validation import check_integer

# Tables of conv: from where it is proportional to its argument to 1e-10 to where it has reached the drift to 1e-6. By
# polynomials through six values its error is 1e-10 at D = 2, and 1e-11 from D = 100.
_TABLE_LOW, _TABLE_HIGH, _TABLE_STEP = 1e-5, 1e6, 1.0 / 32.0


def conv(dimension: int, first: ArrayLike, second: ArrayLike) -> FloatOrArray:
    """A^-1(A(first) A(second)): the concentration of a vMF law blurred by a vMF law, for values from 0 to infinity.

    The law of y where m ~ vMF(psi, first) and y ~ vMF(m, second) is not vMF; this one has its mean. Arguments
    broadcast, scalars give a float. Infinity is no blur: the other value comes back to the bit. 0 blurs all: 0.
    """
    one, two = np.broadcast_arrays(np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64))
    is_blurred = ~(np.isinf(one) | np.isinf(two))
    blurred = np.asarray(np.minimum(one, two))
    blurred[is_blurred] = vmf.convolved_concentration(dimension, one[is_blurred], two[is_blurred])
    return blurred if blurred.ndim else float(blurred)


def convolved(
    vectors: Float64Array,
    concentrations: ArrayLike | TabulatedDrift,
    dimension: int | None = None,
    out: Float64Array | None = None,
) -> Float64Array:
    """Natural vectors (..., D) after a step of these concentrations (...): same directions, shorter.

    `dimension` is D where the vectors are given in other coordinates (`Chains.reduced`); `out` is where they go.
    """
    ratios = step_ratios(vectors, concentrations, dimension or vectors.shape[-1])
    return np.multiply(ratios[..., None], vectors, out=out)


def step_ratios(vectors: Float64Array, concentrations: ArrayLike | TabulatedDrift, dimension: int) -> Float64Array:
    """conv(|v|, C)/|v| (...): what a step leaves of natural vectors (..., D)."""
    lengths = natural_lengths(vectors)
    if isinstance(concentrations, TabulatedDrift):
        return concentrations.ratios(lengths)
    shorter = np.asarray(conv(dimension, lengths, concentrations))
    return shorter / np.where(lengths > 0.0, lengths, 1.0)


class TabulatedDrift:
    """conv(., C) for finite drifts C > 0, from a table in the logarithm of its argument: a hundredth of the cost.

    Good to 1e-10 of itself (tests/unit). Drifts (...) broadcast with the lengths they are applied to. Lengths beyond
    the table are done exactly.
    """

    def __init__(self, dimension: int, drifts: ArrayLike, longest: float = math.inf) -> None:
        """For lengths up to `longest`, where that is known."""
        self.drifts = np.asarray(drifts, dtype=np.float64)
        self._dimension = dimension
        low = math.log(_TABLE_LOW * dimension)
        high = math.log(max(min(_TABLE_HIGH * (float(self.drifts.max()) + dimension), longest), dimension)) + 0.5
        places = low + _TABLE_STEP * np.arange(math.ceil((high - low) / _TABLE_STEP) + 1)
        self._low, self._n_places = low, len(places)
        # log(conv(g, C)/g): smooth, from log A(C) to -log g
        table = np.log(np.asarray(conv(dimension, np.exp(places), self.drifts[..., None]))) - places
        self._table = table.reshape(-1)
        self._offsets = self._n_places * np.arange(self.drifts.size).reshape(self.drifts.shape)

    def ratios(self, lengths: Float64Array) -> Float64Array:
        """conv(g, C)/g of lengths g (...), anything where g = 0."""
        with np.errstate(divide="ignore"):
            place = (np.log(lengths) - self._low) / _TABLE_STEP
        is_beyond = place >= self._n_places - 4.0
        # below the table the ratio stays
        place = np.where(is_beyond, 2.0, np.maximum(place, 2.0))
        start = place.astype(np.int64)
        share = place - start
        first = start + self._offsets
        values = np.zeros(first.shape)
        for number, weight in enumerate(_lagrange(share)):
            values += weight * self._table[first + (number - 2)]
        ratios = np.exp(values)
        if is_beyond.any():
            is_beyond = np.broadcast_to(is_beyond, first.shape)
            drifts, own = np.broadcast_to(self.drifts, first.shape), np.broadcast_to(lengths, first.shape)
            ratios[is_beyond] = np.asarray(conv(self._dimension, own[is_beyond], drifts[is_beyond])) / own[is_beyond]
        return ratios


@lru_cache(maxsize=4)
def tabulated(dimension: int, drift: float) -> float | TabulatedDrift:
    """One drift for many steps; its ends need no table. The last few are kept: fits come back to the same drift."""
    return drift if drift == 0.0 or math.isinf(drift) else TabulatedDrift(dimension, drift)


def _lagrange(share: Float64Array) -> list[Float64Array]:
    """Weights of the values at -2, -1, ..., 3 for a polynomial through them, at `share` in [0, 1)."""
    gaps = [share - place for place in range(-2, 4)]
    weights = []
    for own in range(6):
        others = [gap for place, gap in enumerate(gaps) if place != own]
        scale = math.prod(own - place for place in range(6) if place != own)
        weights.append(math.prod(others[1:], start=others[0]) / scale)
    return weights


def ahead(vectors: Float64Array, drift: ArrayLike, n_steps: int) -> Float64Array:
    """Natural vectors (..., D) of the directions `n_steps` >= 0 steps after those with `vectors`: A(g) A(C)^n.

    From the last slice of `smoothed` (or of `forward`: the same), this is the state a prediction starts from.
    """
    n_steps = check_integer(n_steps, "n_steps", "ahead", low=0)
    if n_steps == 0:
        return vectors.copy()
    dimension = vectors.shape[-1]
    steps = np.asarray(drift, dtype=np.float64)
    finite = np.where(np.isinf(steps), 0.0, steps)
    gap = np.asarray(bessel.mean_resultant_complement(dimension, finite))
    length = np.asarray(bessel.mean_resultant_length(dimension, finite)) ** n_steps
    with np.errstate(divide="ignore"):  # log 0 where a step forgets all
        lost = -np.expm1(n_steps * np.log1p(-gap))  # 1 - (1 - gap)^n
    reached = bessel.concentration_from_resultant(dimension, length, complement=lost)
    return convolved(vectors, np.where(np.isinf(steps), np.inf, reached))


def natural_lengths(vectors: Float64Array) -> Float64Array:
    """Norms (...) of vectors (..., D)."""
    return np.asarray(np.sqrt(np.vecdot(vectors, vectors)))


def natural_means(vectors: Float64Array) -> Float64Array:
    """E[mu] (..., D) of the directions with these natural vectors: A(|v|) v/|v|, and 0 at v = 0."""
    return np.asarray(natural_slope(vectors.shape[-1], natural_lengths(vectors))[..., None] * vectors)
