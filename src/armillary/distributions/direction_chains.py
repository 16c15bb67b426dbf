"""Directions that drift: a chain of T directions for each of K clusters, given what the rows of each slice say.

Model        mu_1 ~ vMF(mu_0, C_init), mu_t ~ vMF(mu_{t-1}, C); slice t adds the evidence exp(V_t . mu_t), where
             V_t = kappa R_t                                                              vmf_mixtures.md, 9.1
Messages     Q_1 = C_init mu_0, F_t = Q_t + V_t, Q_{t+1} = conv(F_t, C) forward,
             B_T = 0, B_t = conv(B_{t+1} + V_{t+1}, C) backward; mu_t has the natural vector F_t + B_t     9.4
Evidence     sum_t log H(|F_t|) - log H(|Q_t|), over the uniform law of rows; C maximises it               9.4
Factorised   q = prod_t q(mu_t), each vMF with V_t + C (E[mu_{t-1}] + E[mu_{t+1}]): Gopal and Yang's form,
             a bound, which underestimates C                                                               9.2, 9.3

A law of a direction is told by its natural vector, and messages keep to such laws (`natural_vectors.py`).

The drift C is a number from 0 to infinity, both included: 0 makes slices independent, infinity makes all slices one.

Memory. One slice (K, D) is worked on at a time. Evidence may be an array (T, K, D) of any float type, a list of slices,
or anything with a length that makes slice t when asked (`ScaledSlices`). Only `smoothed` and `sweep` make an array
(T, K, D), of the type asked for. All vectors of a chain lie in the span of its T + 1 given ones: `Chains.reduced` has
T + 1 coordinates in place of D, with which a search over C costs next to nothing. Where the inner products of the given
vectors are known, `own_coordinates` makes such coordinates of them, and smoothing needs nothing else: `ChainLaws.ahead`
and `back` say how the vectors themselves are combined, slice by slice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from armillary._typing import ArrayLike, Float64Array, FloatArray
from armillary.distributions import bessel, vmf
from armillary.distributions.log_concentration import natural_slope
from armillary.distributions.natural_vectors import TabulatedDrift, natural_lengths, step_ratios
from armillary.exceptions import InputError

# Clusters reduced together hold at most this many values, 128 MB.
_REDUCED_VALUES = 1 << 24
# Chains combined together hold at most this many values, 512 kB: half a cache of the second level.
_COMBINED_VALUES = 1 << 16
# A drift outside those tried could have this many nats more than 0 or infinity themselves, and no more.
_FLAT = 0.005
# Evidence is a sum of numbers of size log H, each good to 4e-16 of itself.
_EVIDENCE_ROUNDING = 1e-14
# A search that begins near a drift looks this far, then in ever smaller steps; the last are joined by a parabola.
_NEAR_FACTOR, _N_NEAR, _N_ZOOMS = 2.0, 9, 2
# A mean cosine above this is rounding: it would ask for an infinite drift.
_LEAST_GAP = 2.0**-52


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
        scales, given = self._unscaled(time)
        np.multiply(scales[:, None], given, out=out)
        out += vectors
        return out

    def _unscaled(self, time: int) -> tuple[Float64Array, Float64Array]:
        """What to multiply (K,), and the vectors (K, D), for the evidence of a slice: made without a copy of it."""
        if isinstance(self.evidence, ScaledSlices):
            return self.evidence.concentrations, self.evidence.resultants[time]
        return np.ones(len(self.first)), self[time]

    def reduced(self) -> Chains:
        """The same chains in coordinates of their own span, at most T + 1: all lengths and cosines are kept.

        Evidence and learning need no more than those. Each slice is asked for once per 128 MB of all evidence.
        """
        n_vectors, n_chains = len(self) + 1, len(self.first)
        if self.first.shape[1] <= n_vectors:
            return self
        coordinates = np.empty((n_vectors, n_chains, n_vectors))
        step = max(1, _REDUCED_VALUES // (n_vectors * self.dimension))
        for start in range(0, n_chains, step):
            some = slice(start, start + step)
            given = np.stack([self.first[some], *(self[time][some] for time in range(len(self)))], axis=1)
            coordinates[:, some] = own_coordinates(given @ given.swapaxes(-1, -2)).swapaxes(0, 1)
        return replace(self, evidence=coordinates[1:], first=coordinates[0])


def own_coordinates(products: Float64Array) -> Float64Array:
    """Vectors (..., n, n) that have these inner products (..., n, n).

    By the root of the matrix of cosines: lengths of very different size keep all their digits.
    """
    lengths = np.sqrt(np.diagonal(products, axis1=-2, axis2=-1))[..., None]
    scales = np.where(lengths > 0.0, lengths, 1.0)
    values, axes = np.linalg.eigh(products / scales / scales.swapaxes(-1, -2))
    return np.asarray(lengths * (axes * np.sqrt(np.maximum(values, 0.0))[..., None, :]))


# --------------------------------------------------------------------------------------------------------- messages


def forward(
    chains: Chains, drift: ArrayLike | TabulatedDrift, ratios: Float64Array | None = None
) -> Iterator[tuple[Float64Array, Float64Array]]:
    """(Q_t, F_t) for t = 1 ... T, each (K, D): natural vectors of mu_t before and after the evidence of slice t.

    `drift` is a number, one for each chain (K,), or several to try at once (M, 1), which gives (M, K, D). Both arrays
    are used again for the next slice: new memory of a slice of text costs more than the sums. Unless None, `ratios`
    (T, K) gets |Q_t|/|F_{t-1}|, but at the first slice.
    """
    before = np.broadcast_to(chains.first, _message_shape(chains, drift)).copy(order="C")
    after = np.empty_like(before)
    for time in range(len(chains)):
        if time > 0:
            left = step_ratios(after, drift, chains.dimension)
            np.multiply(left[..., None], after, out=before)
            if ratios is not None:
                ratios[time] = left
        yield before, chains.plus(time, before, out=after)


def backward(
    chains: Chains, drift: ArrayLike | TabulatedDrift, ratios: Float64Array | None = None
) -> Iterator[Float64Array]:
    """B_t for t = T ... 1, last slice first, each (K, D): what the slices after t say of mu_t; one array for all.

    Unless None, `ratios` (T, K) gets |B_{t-1}|/|B_t + V_t|, but at the first slice.
    """
    later = np.zeros(_message_shape(chains, drift))
    whole = np.empty_like(later)
    for time in reversed(range(len(chains))):
        yield later
        if time > 0:
            chains.plus(time, later, out=whole)
            left = step_ratios(whole, drift, chains.dimension)
            np.multiply(left[..., None], whole, out=later)
            if ratios is not None:
                ratios[time] = left


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
    ahead: Float64Array | None = None  # (T, K) of messages: what F_t keeps of F_{t-1}; 1 at the first slice
    back: Float64Array | None = None  # (T, K) of messages: what B_{t-1} keeps of B_t + V_t; 1 at the first slice

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
    ahead, back = np.ones_like(befores), np.ones_like(befores)
    for time, later in zip(reversed(range(len(chains))), backward(chains, drift, back), strict=True):
        laws.natural_vectors[time] = later
    for time, (before, after) in enumerate(forward(chains, drift, ahead)):
        befores[time], afters[time] = natural_lengths(before), natural_lengths(after)
        laws.natural_vectors[time] += after
        laws.concentrations[time] = natural_lengths(laws.natural_vectors[time])
    return replace(laws, ahead=ahead, back=back), _evidence_of(chains.dimension, befores, afters)


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


def sweep(
    chains: Chains, laws: ChainLaws, drift: float, times: Iterable[int] | None = None, *, is_lent: bool = False
) -> ChainLaws:
    """Each q(mu_t) in turn at its best given its neighbours (vmf_mixtures.md, 9.2): to the last slice and back.

    `times` gives another order, or some slices only. Every single update raises (or keeps)
    `factorised_bounds` + `alignments` of the evidence. The result has the type of `laws`, which is left as it was
    unless it `is_lent`: then its memory is used again. At drift 0 one sweep is the answer, at infinity too: there a
    chain has one direction, and all slices get its law.
    """
    vectors = laws.natural_vectors if is_lent else laws.natural_vectors.copy()
    concentrations, slopes = laws.concentrations.copy(), laws.slopes.copy()
    n_slices = len(chains)
    if math.isinf(drift):
        one = chains.first + sum(chains[time] for time in range(n_slices))
        vectors[:], concentrations[:] = one, natural_lengths(one)
        return ChainLaws(vectors, concentrations, laws.dimension)
    for time in (*range(n_slices), *reversed(range(n_slices - 1))) if times is None else times:
        pulls = [(drift * slopes[other], vectors[other]) for other in (time - 1, time + 1) if 0 <= other < n_slices]
        parts = [chains._unscaled(time), *pulls]
        if time == 0:
            parts.append((np.ones(len(chains.first)), chains.first))
        concentrations[time] = _combine(parts, vectors[time])
        slopes[time] = natural_slope(laws.dimension, concentrations[time])
    return ChainLaws(vectors, concentrations, laws.dimension)


def _combine(parts: list[tuple[Float64Array, FloatArray]], out: FloatArray) -> Float64Array:
    """The sum of vectors (K, D) times numbers (K,), into `out`, and its lengths (K,).

    A few chains at a time: what they are made of is still in the cache when it is wanted again.
    """
    lengths = np.empty(len(out))
    step = max(1, _COMBINED_VALUES // out.shape[1])
    total, term = np.empty((2, min(step, len(out)), out.shape[1]))
    for start in range(0, len(out), step):
        some = slice(start, start + step)
        n_chains = len(out[some])
        (scales, vectors), *others = parts
        np.multiply(scales[some, None], vectors[some], out=total[:n_chains])
        for scales, vectors in others:
            total[:n_chains] += np.multiply(scales[some, None], vectors[some], out=term[:n_chains])
        out[some] = total[:n_chains]
        lengths[some] = natural_lengths(total[:n_chains])
    return lengths


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
