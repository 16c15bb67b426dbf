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
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from armillary._typing import ArrayLike, Float64Array, FloatArray
from armillary.distributions import bessel, vmf
from armillary.distributions.bessel import FloatOrArray
from armillary.distributions.log_concentration import natural_slope
from armillary.exceptions import InputError
from armillary.geometry.sphere import log_area
from armillary.validation import check_integer

# Clusters reduced together hold at most this many values, 128 MB.
_REDUCED_VALUES = 1 << 24
# A drift outside those tried could have this many nats more than 0 or infinity themselves, and no more.
_FLAT = 0.005
_LOG_DRIFT_TOLERANCE = 1e-4
# Evidence is a sum of numbers of size log H, each good to 4e-16 of itself.
_EVIDENCE_ROUNDING = 1e-14
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


def convolved(vectors: Float64Array, concentrations: ArrayLike, dimension: int | None = None) -> Float64Array:
    """Natural vectors (..., D) after a step of these concentrations (...): same directions, shorter.

    `dimension` is D where the vectors are given in other coordinates (`Chains.reduced`).
    """
    lengths = natural_lengths(vectors)
    shorter = np.asarray(conv(dimension or vectors.shape[-1], lengths, concentrations))
    return np.asarray((shorter / np.where(lengths > 0.0, lengths, 1.0))[..., None] * vectors)


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


def direction_entropies(dimension: int, concentrations: ArrayLike) -> Float64Array:
    """Entropies of vMF laws less that of the uniform law, at most 0."""
    return np.asarray(vmf.entropy(dimension, concentrations) - log_area(dimension))


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
    lengths = natural_lengths(vectors)[..., None]
    vectors = vectors / np.where(lengths > 0.0, lengths, 1.0)
    values, axes = np.linalg.eigh(vectors @ vectors.swapaxes(-1, -2))
    return np.asarray(lengths * (axes * np.sqrt(np.maximum(values, 0.0))[..., None, :]))


# --------------------------------------------------------------------------------------------------------- messages


def forward(chains: Chains, drift: ArrayLike) -> Iterator[tuple[Float64Array, Float64Array]]:
    """(Q_t, F_t) for t = 1 ... T, each (K, D): natural vectors of mu_t before and after the evidence of slice t.

    `drift` is a number, one for each chain (K,), or several to try at once (M, 1), which gives (M, K, D).
    """
    before, after = chains.first, chains.first + chains[0]
    yield before, after
    for time in range(1, len(chains)):
        before = convolved(after, drift, chains.dimension)
        after = before + chains[time]
        yield before, after


def backward(chains: Chains, drift: ArrayLike) -> Iterator[Float64Array]:
    """B_t for t = T ... 1, last slice first, each (K, D): what the slices after t say of mu_t."""
    later = np.zeros_like(chains.first)
    for time in reversed(range(len(chains))):
        yield later
        if time > 0:
            later = convolved(later + chains[time], drift, chains.dimension)


def evidence(chains: Chains, drift: ArrayLike) -> Float64Array:
    """Log evidence of each chain (K,) given the drift: sum_t log H(|F_t|) - log H(|Q_t|).

    Together with - n log H(kappa) it is the log density of the n rows of the cluster over the uniform law, with
    messages in place of the true integrals: exact at drift 0 and at infinity, and for T = 1. Several drifts (M, 1) give
    (M, K).
    """
    order = 0.5 * chains.dimension - 1.0
    shape = np.broadcast_shapes(np.shape(drift), chains.first.shape[:-1])
    total = np.zeros(shape)
    for before, after in forward(chains, drift):
        total += np.asarray(bessel.log_h(order, natural_lengths(after)))
        total -= np.asarray(bessel.log_h(order, natural_lengths(before)))
    return total


def learn_drift(chains: Chains) -> float:
    """The drift C, one for all chains, of the greatest evidence: a number from 0 to infinity, both included.

    Drifts in factors of 2 are tried, together with 0 and infinity themselves; around the best one Brent's method
    searches log C to 1e-4. The ends are answers, not failures: 0 says that no slice tells anything of the next,
    infinity that no drift is seen. Where the evidence does not depend on C to within rounding (one slice, or rows in
    one slice only), nothing can be learned, and infinity is returned.
    """
    small = chains.reduced()
    loudest = max(float(natural_lengths(small[time]).max()) for time in range(len(small)))
    n_steps = len(small) * len(small.first)
    # per step, a best C near 0 gains C^2/(2D) over 0, and one far out at most |V| (D-1)/(2C) over infinity
    low = math.sqrt(2.0 * chains.dimension * _FLAT / n_steps)
    high = max(n_steps * loudest * chains.dimension / (2.0 * _FLAT), 4.0 * low)
    inner = np.exp(np.arange(math.log(low), math.log(high), math.log(2.0)))
    drifts = np.concatenate([[0.0], inner, [np.inf]])
    values = evidence(small, drifts[:, None]).sum(axis=1)
    rounding = _EVIDENCE_ROUNDING * len(chains) * (np.abs(values).max() + len(small.first))
    best = int(np.flatnonzero(values >= values.max() - rounding)[-1])
    if best in (0, len(drifts) - 1):
        return float(drifts[best])
    found = minimize_scalar(
        lambda log_drift: -float(evidence(small, math.exp(log_drift)).sum()),
        bounds=(math.log(drifts[best]) - math.log(2.0), math.log(drifts[best]) + math.log(2.0)),
        method="bounded",
        options={"xatol": _LOG_DRIFT_TOLERANCE},
    )
    return math.exp(found.x)


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

    def means(self, time: int) -> Float64Array:
        """E[mu_t] (K, D), inside the sphere; 0 where nothing is known."""
        slopes = natural_slope(self.dimension, self.concentrations[time])
        return np.asarray(slopes[:, None] * self.natural_vectors[time])


def smoothed(chains: Chains, drift: ArrayLike, dtype: npt.DTypeLike = np.float64) -> ChainLaws:
    """The law of each direction given all slices, by messages; exact at drift 0 and infinity.

    How good they are in between was measured on S^2, T = 3, three rows a slice, against quadrature (tests/oracles).
    With a drift slower than the spread of rows (C = 40, kappa = 3) means are off by 0.001 to 0.004, the factorised ones
    by 0.035 to 0.05. Fast drift between slices that know their direction well (C = 3, kappa = 4) is the weak side: off
    by 0.006 to 0.04, and the factorised ones by 0.004 to 0.008.

    `dtype` is that of the stored natural vectors: float32 halves the one large array and is exact to 1e-7.
    """
    laws = ChainLaws.uniform(chains, dtype)
    for time, later in zip(reversed(range(len(chains))), backward(chains, drift), strict=True):
        laws.natural_vectors[time] = later
    for time, (_, after) in enumerate(forward(chains, drift)):
        whole = after + laws.natural_vectors[time]
        laws.natural_vectors[time] = whole
        laws.concentrations[time] = natural_lengths(whole)
    return laws


def alignments(slices: Slices, laws: ChainLaws) -> Float64Array:
    """sum_t slices_t . E[mu_t] of each chain (K,).

    With resultants it is the s of q(log kappa) (vmf_mixtures.md, 9.2); with evidence, E[kappa] s, it is what the rows
    add to the bound.
    """
    total = np.zeros(laws.concentrations.shape[1])
    for time in range(len(slices)):
        total += np.vecdot(np.asarray(slices[time], dtype=np.float64), laws.means(time))
    return total


# ------------------------------------------------------------------------------------------------------- factorised


def sweep(chains: Chains, laws: ChainLaws, drift: float, times: Iterable[int] | None = None) -> ChainLaws:
    """Each q(mu_t) in turn at its best given its neighbours (vmf_mixtures.md, 9.2): to the last slice and back.

    `times` gives another order, or some slices only. Every single update raises (or keeps)
    `factorised_bounds` + `alignments` of the evidence. `laws` is left as it was; the result has its type. At drift 0
    one sweep is the answer, at infinity too: there a chain has one direction, and all slices get its law.
    """
    vectors, concentrations = laws.natural_vectors.copy(), laws.concentrations.copy()
    made = ChainLaws(vectors, concentrations, laws.dimension)
    n_slices = len(chains)
    if math.isinf(drift):
        one = chains.first + sum(chains[time] for time in range(n_slices))
        vectors[:], concentrations[:] = one, natural_lengths(one)
        return made
    for time in (*range(n_slices), *reversed(range(n_slices - 1))) if times is None else times:
        natural = chains[time] + (drift * made.means(time - 1) if time > 0 else chains.first)
        if time < n_slices - 1:
            natural += drift * made.means(time + 1)
        vectors[time], concentrations[time] = natural, natural_lengths(natural)
    return made


def factorised_bounds(chains: Chains, laws: ChainLaws, drift: float) -> Float64Array:
    """What the directions of each chain (K,) have of the evidence bound: E[log p(mu)] + entropy (vmf_mixtures.md, 9.2).

    The rows add `alignments(evidence, laws)` - n E[log H(kappa)]; the area terms of both cancel. At drift infinity the
    chain has one direction, that of `laws` at the first slice, and its bound.
    """
    order, n_steps = 0.5 * chains.dimension - 1.0, len(chains) - 1
    entropies = direction_entropies(chains.dimension, laws.concentrations)
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
    before = laws.means(0)
    for time in range(1, len(laws.concentrations)):
        after = laws.means(time)
        total += np.vecdot(before, after)
        before = after
    return total
