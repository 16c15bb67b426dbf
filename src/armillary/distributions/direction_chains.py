"""Directions that drift: a chain of T directions for each of K clusters, given what the rows of each slice say.

Model        mu_1 ~ vMF(mu_0, C_init), mu_t ~ vMF(mu_{t-1}, C); slice t adds the evidence exp(V_t . mu_t), where
             V_t = kappa R_t                                                              vmf_mixtures.md, 9.1
Messages     Q_1 = C_init mu_0, F_t = Q_t + V_t, Q_{t+1} = conv(F_t, C) forward,
             B_T = 0, B_t = conv(B_{t+1} + V_{t+1}, C) backward; mu_t has the natural vector F_t + B_t     9.4
Evidence     sum_t log H(|F_t|) - log H(|Q_t|), over the uniform law of rows; C maximises it               9.4
Factorised   q = prod_t q(mu_t), each vMF with V_t + C (E[mu_{t-1}] + E[mu_{t+1}]): Gopal and Yang's form,
             a bound, which underestimates C                                                               9.2, 9.3
Ahead        n steps on, the concentration g becomes A^-1(A(g) A(C)^n)                                     9.5

A law of a direction is told by its natural vector: its length is the concentration, 0 the uniform law. Messages keep
to such laws by matching means: conv(v, C) has the direction of v and the concentration A^-1(A(|v|) A(C)).

The drift C is a number from 0 to infinity, both included: 0 makes slices independent, infinity makes all slices one.

Memory. One slice (K, D) is worked on at a time. Evidence may be an array (T, K, D) of any float type, a list of slices,
or anything with a length that makes slice t when asked (`ScaledSlices`). Only `smoothed` and `sweep` make an array
(T, K, D), of the type asked for. All vectors of a chain lie in the span of its T + 1 given ones: `Chains.reduced` has
T + 1 coordinates in place of D, with which a search over C costs next to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from armillary._typing import ArrayLike, Float64Array, FloatArray
from armillary.distributions import bessel, vmf
from armillary.distributions.bessel import FloatOrArray
from armillary.distributions.log_concentration import natural_slope
from armillary.exceptions import InputError
from armillary.validation import check_integer

# Clusters reduced together hold at most this many values, 128 MB.
_REDUCED_VALUES = 1 << 24
# A drift outside those tried could have this many nats more than 0 or infinity themselves, and no more.
_FLAT = 0.005
# Evidence is a sum of numbers of size log H, each good to 4e-16 of itself.
_EVIDENCE_ROUNDING = 1e-14
# Tables of conv: from where it is proportional to its argument to 1e-10 to where it has reached the drift to 1e-6. By
# polynomials through six values its error is 1e-10 at D = 2, and 1e-11 from D = 100.
_TABLE_LOW, _TABLE_HIGH, _TABLE_STEP = 1e-5, 1e6, 1.0 / 32.0
# A search that begins near a drift looks this far, then in ever smaller steps; the last are joined by a parabola.
_NEAR_FACTOR, _N_NEAR, _N_ZOOMS = 2.0, 9, 2
# A mean cosine above this is rounding: it would ask for an infinite drift.
_LEAST_GAP = 2.0**-52


# ------------------------------------------------------------------------------------ laws told by natural vectors


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
    lengths = natural_lengths(vectors)
    if isinstance(concentrations, TabulatedDrift):
        ratios = concentrations.ratios(lengths)
    else:
        shorter = np.asarray(conv(dimension or vectors.shape[-1], lengths, concentrations))
        ratios = shorter / np.where(lengths > 0.0, lengths, 1.0)
    return np.multiply(ratios[..., None], vectors, out=out)


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


# ----------------------------------------------------------------------------------------------------------- chains


class Slices(Protocol):
    """T slices (K, D): an array (T, K, D), a list, or a value that makes slice t when asked for it."""

    def __len__(self) -> int: ...

    def __getitem__(self, time: int, /) -> Any: ...


@dataclass(frozen=True, eq=False)
class ScaledSlices:
    """Evidence kappa_k R_{t,k} that is made slice by slice, so that resultants are stored once."""

    resultants: Slices  # T of (K, D)
    concentrations: Float64Array  # (K,)

    def __len__(self) -> int:
        return len(self.resultants)

    def __getitem__(self, time: int) -> Float64Array:
        return np.asarray(self.concentrations[:, None] * self.resultants[time])


@dataclass(frozen=True, eq=False)
class Chains:
    """K chains of T directions: the evidence of each slice, and the law of the first direction. Make it by `of`."""

    evidence: Slices  # T of (K, D): V
    first: Float64Array  # (K, D): C_init mu_0
    dimension: int  # D, also where the vectors are in other coordinates

    @classmethod
    def of(cls, evidence: Slices, first: ArrayLike) -> Chains:
        """From T slices (K, D) and C_init mu_0, of shape (D,) for all chains or (K, D) for each."""
        if len(evidence) == 0:
            raise InputError(
                "The evidence of Chains must have at least one slice; got none. Leave empty times as zeros."
            )
        shape = np.shape(evidence[0])
        natural = np.asarray(first, dtype=np.float64)
        if len(shape) != 2 or natural.shape not in (shape, shape[1:]):
            raise InputError(
                "Chains takes slices of shape (K, D) and a first natural vector of shape (D,) or (K, D); "
                f"got a slice {shape} and a vector {natural.shape}. Give both in the same D."
            )
        return cls(evidence, np.broadcast_to(natural, shape), shape[1])

    def __len__(self) -> int:
        return len(self.evidence)

    def __getitem__(self, time: int) -> Float64Array:
        return np.asarray(self.evidence[time], dtype=np.float64)

    def plus(self, time: int, vectors: Float64Array, out: Float64Array) -> Float64Array:
        """The evidence of a slice and these vectors (..., K, D), in `out`."""
        if isinstance(self.evidence, ScaledSlices):
            np.multiply(self.evidence.concentrations[:, None], self.evidence.resultants[time], out=out)
            out += vectors
            return out
        return np.add(vectors, self[time], out=out)

    def reduced(self) -> Chains:
        """The same chains in coordinates of their own span, at most T + 1: all lengths and cosines are kept.

        Evidence and learning need no more than those. Each slice is asked for once per 128 MB of all evidence.
        """
        n_vectors, n_chains = len(self) + 1, len(self.first)
        if self.dimension <= n_vectors:
            return self
        coordinates = np.empty((n_vectors, n_chains, n_vectors))
        step = max(1, _REDUCED_VALUES // (n_vectors * self.dimension))
        for start in range(0, n_chains, step):
            some = slice(start, start + step)
            given = np.stack([self.first[some], *(self[time][some] for time in range(len(self)))], axis=1)
            coordinates[:, some] = _own_coordinates(given).swapaxes(0, 1)
        return replace(self, evidence=coordinates[1:], first=coordinates[0])


def _own_coordinates(vectors: Float64Array) -> Float64Array:
    """Vectors (..., n, D) to (..., n, n) with the same inner products.

    By the root of the matrix of cosines: lengths of very different size keep all their digits.
    """
    products = vectors @ vectors.swapaxes(-1, -2)
    lengths = np.sqrt(np.diagonal(products, axis1=-2, axis2=-1))[..., None]
    scales = np.where(lengths > 0.0, lengths, 1.0)
    values, axes = np.linalg.eigh(products / scales / scales.swapaxes(-1, -2))
    return np.asarray(lengths * (axes * np.sqrt(np.maximum(values, 0.0))[..., None, :]))


# --------------------------------------------------------------------------------------------------------- messages


def forward(chains: Chains, drift: ArrayLike | TabulatedDrift) -> Iterator[tuple[Float64Array, Float64Array]]:
    """(Q_t, F_t) for t = 1 ... T, each (K, D): natural vectors of mu_t before and after the evidence of slice t.

    `drift` is a number, one for each chain (K,), or several to try at once (M, 1), which gives (M, K, D). Both arrays
    are used again for the next slice: new memory of a slice of text costs more than the sums.
    """
    before = np.broadcast_to(chains.first, _message_shape(chains, drift)).copy(order="C")
    after = np.empty_like(before)
    for time in range(len(chains)):
        if time > 0:
            convolved(after, drift, chains.dimension, out=before)
        yield before, chains.plus(time, before, out=after)


def backward(chains: Chains, drift: ArrayLike | TabulatedDrift) -> Iterator[Float64Array]:
    """B_t for t = T ... 1, last slice first, each (K, D): what the slices after t say of mu_t; one array for all."""
    later = np.zeros(_message_shape(chains, drift))
    whole = np.empty_like(later)
    for time in reversed(range(len(chains))):
        yield later
        if time > 0:
            convolved(chains.plus(time, later, out=whole), drift, chains.dimension, out=later)


def _message_shape(chains: Chains, drift: ArrayLike | TabulatedDrift) -> tuple[int, ...]:
    drifts = drift.drifts if isinstance(drift, TabulatedDrift) else np.asarray(drift)
    n_chains, width = chains.first.shape
    return (*np.broadcast_shapes(drifts.shape, (n_chains,)), width)


def evidence(chains: Chains, drift: ArrayLike | TabulatedDrift) -> Float64Array:
    """Log evidence of each chain (K,) given the drift: sum_t log H(|F_t|) - log H(|Q_t|).

    Together with - n log H(kappa) it is the log density of the n rows of the cluster over the uniform law, with
    messages in place of the true integrals: exact at drift 0 and at infinity, and for T = 1. Several drifts (M, 1) give
    (M, K).
    """
    shape = (len(chains), *_message_shape(chains, drift)[:-1])
    befores, afters = np.empty(shape), np.empty(shape)
    for time, (before, after) in enumerate(forward(chains, drift)):
        befores[time], afters[time] = natural_lengths(before), natural_lengths(after)
    return _evidence_of(chains.dimension, befores, afters)


def _evidence_of(dimension: int, befores: Float64Array, afters: Float64Array) -> Float64Array:
    """The evidence from |Q| and |F| (T, ...)."""
    gains = np.asarray(bessel.log_h(0.5 * dimension - 1.0, np.stack([afters, befores])))
    return np.asarray((gains[0] - gains[1]).sum(axis=0))


def learn_drift(chains: Chains, near: float | None = None) -> float:
    """The drift C, one for all chains, of the greatest evidence: a number from 0 to infinity, both included.

    Drifts in factors of 2 are tried, together with 0 and infinity themselves; around the best one ever finer grids
    search log C, to about 1e-4. The ends are answers, not failures: 0 says that no slice tells anything of the next,
    infinity that no drift is seen. Where the evidence does not depend on C to within rounding (one slice, or rows in
    one slice only), nothing can be learned, and infinity is returned. `near` is where to look first: only if no peak
    is there does the search begin anew.
    """
    small = chains.reduced()
    if near is not None and 0.0 < near < math.inf:
        found = _peak_near(small, near)
        if found is not None:
            return found
    loudest = max(float(natural_lengths(small[time]).max()) for time in range(len(small)))
    n_steps = len(small) * len(small.first)
    # per step, a best C near 0 gains C^2/(2D) over 0, and one far out at most |V| (D-1)/(2C) over infinity
    low = math.sqrt(2.0 * chains.dimension * _FLAT / n_steps)
    high = max(n_steps * loudest * chains.dimension / (2.0 * _FLAT), 4.0 * low)
    inner = np.exp(np.arange(math.log(low), math.log(high), math.log(2.0)))
    drifts = np.concatenate([[0.0], inner, [np.inf]])
    # without a table: whether an end is best can be a matter of rounding
    values = evidence(small, drifts[:, None]).sum(axis=1)
    rounding = _EVIDENCE_ROUNDING * len(chains) * (np.abs(values).max() + len(small.first))
    best = int(np.flatnonzero(values >= values.max() - rounding)[-1])
    drift = float(drifts[best])
    if best in (0, len(drifts) - 1):
        return drift
    return _peak_near(small, drift) or drift


def _evidence_at(chains: Chains, drifts: Float64Array) -> Float64Array:
    """Evidence of all chains together (M,) at finite drifts (M,)."""
    longest = float(natural_lengths(chains.first).max())
    longest += sum(float(natural_lengths(chains[time]).max()) for time in range(len(chains)))
    return evidence(chains, TabulatedDrift(chains.dimension, drifts[:, None], longest)).sum(axis=1)


def _peak_near(chains: Chains, drift: float) -> float | None:
    """The drift of the greatest evidence within a factor of 2; None where the greatest is at an end of that."""
    middle, reach = math.log(drift), math.log(_NEAR_FACTOR)
    for _ in range(_N_ZOOMS):
        places = middle + reach * np.linspace(-1.0, 1.0, _N_NEAR)
        values = _evidence_at(chains, np.exp(places))
        best = int(np.argmax(values))
        if best in (0, _N_NEAR - 1):
            return None
        middle, reach = float(places[best]), float(places[1] - places[0])
    left, peak, right = values[best - 1 : best + 2]
    bend = left - 2.0 * peak + right
    return math.exp(middle + (0.5 * reach * (left - right) / bend if bend < 0.0 else 0.0))


# ----------------------------------------------------------------------------------------- the laws of all directions


@dataclass(frozen=True, eq=False)
class ChainLaws:
    """The law of every direction of K chains of T: mu_{t,k} is vMF with the natural vector of row (t, k)."""

    natural_vectors: FloatArray  # (T, K, D), float32 or float64
    concentrations: Float64Array  # (T, K): their lengths
    dimension: int  # D, also where the vectors are in other coordinates

    @classmethod
    def uniform(cls, chains: Chains, dtype: npt.DTypeLike = np.float64) -> ChainLaws:
        """Nothing known of any direction: where `sweep` can start."""
        shape = (len(chains), *chains.first.shape)
        return cls(np.zeros(shape, dtype=dtype), np.zeros(shape[:2]), chains.dimension)

    @cached_property
    def slopes(self) -> Float64Array:
        """A(g)/g (T, K): what natural vectors are multiplied with to be means."""
        return natural_slope(self.dimension, self.concentrations)

    def means(self, time: int) -> Float64Array:
        """E[mu_t] (K, D), inside the sphere; 0 where nothing is known."""
        return np.asarray(self.slopes[time][:, None] * self.natural_vectors[time])


def smoothed(chains: Chains, drift: ArrayLike | TabulatedDrift, dtype: npt.DTypeLike = np.float64) -> ChainLaws:
    """The law of each direction given all slices, by messages; exact at drift 0 and infinity.

    How good they are in between was measured on S^2, T = 3, three rows a slice, against quadrature (tests/oracles).
    With a drift slower than the spread of rows (C = 40, kappa = 3) means are off by 0.001 to 0.004, the factorised ones
    by 0.035 to 0.05. Fast drift between slices that know their direction well (C = 3, kappa = 4) is the weak side: off
    by 0.006 to 0.04, and the factorised ones by 0.004 to 0.008.

    `dtype` is that of the stored natural vectors: float32 halves the one large array and is exact to 1e-7.
    """
    return smoothed_with_evidence(chains, drift, dtype)[0]


def smoothed_with_evidence(
    chains: Chains, drift: ArrayLike | TabulatedDrift, dtype: npt.DTypeLike = np.float64
) -> tuple[ChainLaws, Float64Array]:
    """`smoothed`, and `evidence` (K,), which its forward pass finds on the way."""
    laws = ChainLaws.uniform(chains, dtype)
    befores, afters = np.empty_like(laws.concentrations), np.empty_like(laws.concentrations)
    for time, later in zip(reversed(range(len(chains))), backward(chains, drift), strict=True):
        laws.natural_vectors[time] = later
    for time, (before, after) in enumerate(forward(chains, drift)):
        befores[time], afters[time] = natural_lengths(before), natural_lengths(after)
        laws.natural_vectors[time] += after
        laws.concentrations[time] = natural_lengths(laws.natural_vectors[time])
    return laws, _evidence_of(chains.dimension, befores, afters)


def alignments(slices: Slices, laws: ChainLaws) -> Float64Array:
    """sum_t slices_t . E[mu_t] of each chain (K,).

    With resultants it is the s of q(log kappa) (vmf_mixtures.md, 9.2); with evidence, E[kappa] s, it is what the rows
    add to the bound.
    """
    total = np.zeros(laws.concentrations.shape[1])
    for time in range(len(slices)):
        vectors = np.asarray(laws.natural_vectors[time], dtype=np.float64)
        total += laws.slopes[time] * np.vecdot(np.asarray(slices[time], dtype=np.float64), vectors)
    return total


# ------------------------------------------------------------------------------------------------------- factorised


def sweep(chains: Chains, laws: ChainLaws, drift: float, times: Iterable[int] | None = None) -> ChainLaws:
    """Each q(mu_t) in turn at its best given its neighbours (vmf_mixtures.md, 9.2): to the last slice and back.

    `times` gives another order, or some slices only. Every single update raises (or keeps)
    `factorised_bounds` + `alignments` of the evidence. `laws` is left as it was; the result has its type. At drift 0
    one sweep is the answer, at infinity too: there a chain has one direction, and all slices get its law.
    """
    vectors, concentrations = laws.natural_vectors.copy(), laws.concentrations.copy()
    n_slices, slopes = len(chains), laws.slopes.copy()
    if math.isinf(drift):
        one = chains.first + sum(chains[time] for time in range(n_slices))
        vectors[:], concentrations[:] = one, natural_lengths(one)
        return ChainLaws(vectors, concentrations, laws.dimension)
    # memory made once: a slice of a text can be megabytes, and new pages cost more than the sums
    natural, pull = np.empty(chains.first.shape), np.empty(chains.first.shape)
    nothing = np.zeros((1, 1))
    for time in (*range(n_slices), *reversed(range(n_slices - 1))) if times is None else times:
        chains.plus(time, chains.first if time == 0 else nothing, out=natural)
        for other in (time - 1, time + 1):
            if 0 <= other < n_slices:
                natural += np.multiply((drift * slopes[other])[:, None], vectors[other], out=pull)
        vectors[time], concentrations[time] = natural, natural_lengths(natural)
        slopes[time] = natural_slope(laws.dimension, concentrations[time])
    return ChainLaws(vectors, concentrations, laws.dimension)


def factorised_bounds(chains: Chains, laws: ChainLaws, drift: float) -> Float64Array:
    """What the directions of each chain (K,) have of the evidence bound: E[log p(mu)] + entropy (vmf_mixtures.md, 9.2).

    The rows add `alignments(evidence, laws)` - n E[log H(kappa)]; the area terms of both cancel. At drift infinity the
    chain has one direction, that of `laws` at the first slice, and its bound.
    """
    order, n_steps = 0.5 * chains.dimension - 1.0, len(chains) - 1
    entropies = np.asarray(vmf.relative_entropy(chains.dimension, laws.concentrations))
    start = np.vecdot(chains.first, laws.means(0)) - np.asarray(bessel.log_h(order, natural_lengths(chains.first)))
    if math.isinf(drift):
        return np.asarray(start + entropies[0])
    # - log H(C) + C times a cosine, with the part of size C taken out of both
    steps = drift * (_step_cosines(laws) - n_steps) - n_steps * float(bessel.log_h(order, drift, scaled=True))
    return np.asarray(start + steps + entropies.sum(axis=0))


def factorised_drift(laws: ChainLaws) -> float:
    """The drift of the greatest factorised bound: A(C) is the mean of E[mu_t].E[mu_{t-1}], 0 where that is negative.

    It is finite: E[mu] lies inside the sphere. It ignores that neighbours vary together and comes out too small, by
    orders of magnitude in high dimensions (vmf_mixtures.md, 9.3); `learn_drift` does not. One slice has no step to
    learn from and gives infinity.
    """
    n_slices, n_chains = laws.concentrations.shape
    if n_slices == 1:
        return math.inf
    cosine = float(_step_cosines(laws).sum()) / (n_chains * (n_slices - 1))
    return float(bessel.concentration_from_resultant(laws.dimension, min(max(cosine, 0.0), 1.0 - _LEAST_GAP)))


def _step_cosines(laws: ChainLaws) -> Float64Array:
    """sum_{t>1} E[mu_t].E[mu_{t-1}] of each chain (K,)."""
    total = np.zeros(laws.concentrations.shape[1])
    vectors, slopes = laws.natural_vectors, laws.slopes
    for time in range(1, len(vectors)):
        one, two = (np.asarray(vectors[place], dtype=np.float64) for place in (time - 1, time))
        total += slopes[time - 1] * slopes[time] * np.vecdot(one, two)
    return total
