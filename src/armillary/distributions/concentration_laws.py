"""Laws of one log concentration y = log kappa, proportional to exp(target), for K components at once.

grid          the law itself, by quadrature                                               vmf_mixtures.md, 5.4b
Metropolis    draws from it                                                               5.4a
log-normal    the best law of that family                                                 5.4c
point         all mass at one concentration, as in a draw of a sampler

A law is a set of weighted nodes and an entropy, relative to dy. What a target is, is in `log_concentration.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.distributions import bessel
from armillary.distributions.log_concentration import HIGHEST, LOWEST, Target

# 97 nodes from where the density has fallen by e^-40 on one side to the other: 1e-12 of log Z (tests/oracles).
_N_NODES = 97
_FALL = 40.0
# Nodes at most this many standard deviations apart, and this far in y: log H has singularities pi/2 off the real line.
_WIDEST_SPACING = 0.25
_MOST_NODES = 1537
_MAX_NEWTON_STEPS = 60
_ZOOM_NODES = 65
# Nodes 0.6 standard deviations apart integrate a normal density to rounding, and the skewed ones of few rows to 1e-6.
_THIN_SPACING = 0.6
_LEAST_NODE_WEIGHT = 1e-9
# Of densities: steps to either side that are looked at first; terms e^-25 of the largest are left out, and so are
# weights that a float does not hold.
_FIRST_STEPS = 16
_NEGLIGIBLE = 25.0
_LEAST_LOG_WEIGHT = -690.0
# Metropolis: ten chains from the normal law at the mode, so that 200 draws take 70 steps in turn rather than 500.
_N_CHAINS, _N_BURN_IN, _N_KEPT = 10, 50, 20
_DRAW_STRIDE = 5
_HERMITE_NODES = 40
_MAX_LOG_NORMAL_STEPS = 100
_FLAT = 1e-12  # nats

LOG_NORMAL_BOUNDS = ("quadrature", "jensen", "delta")


@dataclass(frozen=True, eq=False)
class LogLaw:
    """q(y) of K components as weighted nodes."""

    nodes: Float64Array  # (G, K)
    weights: Float64Array  # (G, K), columns sum to 1
    entropies: Float64Array  # (K,) of y
    log_h: Float64Array  # (K,) E[log H(kappa)], or what stands for it
    # whether directions follow kappa at each node; otherwise they see its mean only
    is_followed: bool
    stride: int | None = 1  # every n-th node stands for all; None: nodes are equidistant, and their spacing says which
    # log q(y) up to a constant, (..., K), and D: where they are known the law goes on beyond its nodes
    log_density: Callable[[Float64Array], Float64Array] | None = None
    dimension: int = 0

    @property
    def concentrations(self) -> Float64Array:
        """E[kappa] (K,)."""
        return self.mean(np.exp(self.nodes))

    @property
    def concentration_deviations(self) -> Float64Array:
        """Standard deviations of kappa (K,)."""
        return np.sqrt(self.mean((np.exp(self.nodes) - self.concentrations) ** 2))

    @property
    def log_means(self) -> Float64Array:
        """E[y] (K,)."""
        return self.mean(self.nodes)

    @property
    def log_variances(self) -> Float64Array:
        """Var[y] (K,)."""
        return self.mean((self.nodes - self.log_means) ** 2)

    def mean(self, values: Float64Array) -> Float64Array:
        """Expectations (K,) of values at the nodes (G, K)."""
        return np.asarray((self.weights * values).sum(axis=0))

    def thinned(self) -> tuple[Float64Array, Float64Array]:
        """Fewer nodes and their weights, enough for averages of what is no larger in the tails."""
        strides = np.full(len(self.entropies), self.stride)
        if self.stride is None:
            n_apart = _THIN_SPACING * np.sqrt(self.log_variances) // (self.nodes[1] - self.nodes[0])
            strides = np.maximum(1, n_apart).astype(np.int64)
        nodes, weights = [], []
        for k, stride in enumerate(strides):
            if not self.weights[::stride, k].any():
                # a law narrower than its nodes lies at one of them, which the stride has passed over
                heaviest = int(self.weights[:, k].argmax())
                nodes.append(self.nodes[heaviest : heaviest + 1, k])
                weights.append(np.ones(1))
                continue
            thin = self.weights[::stride, k] / self.weights[::stride, k].sum()
            is_kept = thin > _LEAST_NODE_WEIGHT
            nodes.append(self.nodes[::stride, k][is_kept])
            weights.append(thin[is_kept] / thin[is_kept].sum())
        return _padded(nodes, weights)

    def nodes_for_densities(self) -> tuple[Float64Array, Float64Array]:
        """Nodes and weights (G, K) for densities of rows anywhere on the sphere; short lists end in weights of 0.

        A row against the direction of a component is explained by the least of its concentrations, a thousand of them
        by others than one: what a node adds is its weight times exp(kappa x.mu) / H(kappa), and nodes are kept where
        that counts for any x.mu from -1 to 1. The largest term moves up with x.mu, so the two ends bound the nodes.
        """
        if self.log_density is None or not self._is_resolved:
            return self.thinned()
        step = _THIN_SPACING * np.minimum(np.sqrt(self.log_variances), 1.0)
        n_below, n_above = _FIRST_STEPS, _FIRST_STEPS
        while True:
            y = self.log_means + step * np.arange(-n_below, n_above + 1)[:, None]
            log_q, (is_below, is_above) = self._terms(y)
            is_short = is_below[0].any(), is_above[-1].any()
            if not any(is_short):
                break
            n_below, n_above = n_below * (1 + is_short[0]), n_above * (1 + is_short[1])
        kept = [
            slice(int(np.argmax(below)), len(y) - int(np.argmax(above[::-1])))
            for below, above in zip(is_below.T, is_above.T, strict=True)
        ]
        nodes = [y[part, k] for k, part in enumerate(kept)]
        masses = [np.exp(log_q[part, k]) for k, part in enumerate(kept)]
        return _padded(nodes, [mass / mass.sum() for mass in masses])

    @property
    def _is_resolved(self) -> bool:
        """Whether every law is wide enough for its nodes to tell its spread: of 1e14 copies of a row it is not."""
        spacing = self.nodes[1] - self.nodes[0] if self.stride is None else 0.0
        return bool(np.all(np.sqrt(self.log_variances) > 0.25 * spacing))

    def _terms(self, y: Float64Array) -> tuple[Float64Array, list[npt.NDArray[np.bool_]]]:
        """log q (G, K) less its maximum, and where the terms of rows with x.mu = -1 and 1 count."""
        assert self.log_density is not None, "only laws that go on beyond their nodes"
        is_inside = (y >= LOWEST) & (y <= HIGHEST)
        places = np.clip(y, LOWEST, HIGHEST)
        log_q = np.where(is_inside, self.log_density(places), -np.inf)
        log_q -= log_q.max(axis=0)
        kappa = np.exp(places)
        log_h = np.asarray(bessel.log_h(0.5 * self.dimension - 1.0, kappa))
        found = []
        for side in (-1.0, 1.0):
            terms = np.where(log_q > _LEAST_LOG_WEIGHT, log_q + side * kappa - log_h, -np.inf)
            found.append(terms > terms.max(axis=0) - _NEGLIGIBLE)
        return log_q, found


MakeLaw = Callable[[Target], LogLaw]


def _padded(nodes: list[Float64Array], weights: list[Float64Array]) -> tuple[Float64Array, Float64Array]:
    """Lists of nodes and weights of K components as arrays (G, K); short ones repeat their last node with weight 0."""
    longest = max(len(kept) for kept in nodes)
    return (
        np.stack([np.pad(kept, (0, longest - len(kept)), mode="edge") for kept in nodes], axis=1),
        np.stack([np.pad(kept, (0, longest - len(kept))) for kept in weights], axis=1),
    )


# ------------------------------------------------------------------------------------------------------------- the grid


def grid_law(target: Target) -> LogLaw:
    """The law itself, by the trapezoid rule; `log_partition` gives its log Z."""
    nodes, values = _grid(target)
    peaks = values.max(axis=0)
    masses = _trapezoid(values - peaks)
    total = masses.sum(axis=0)
    weights = masses / total
    spacing = nodes[1] - nodes[0]
    # -E[log q] with log q = value - log Z, both from the peak: no large numbers cancel
    entropies = np.log(total * spacing) - (weights * (values - peaks)).sum(axis=0)
    log_h = (weights * np.asarray(bessel.log_h(0.5 * target.dimension - 1.0, np.exp(nodes)))).sum(axis=0)
    return LogLaw(
        nodes,
        weights,
        entropies,
        log_h,
        is_followed=True,
        stride=None,
        log_density=target.value,
        dimension=target.dimension,
    )


def log_partition(target: Target) -> Float64Array:
    """log Z (K,): the log of the integral of exp(target) over y."""
    nodes, values = _grid(target)
    peaks = values.max(axis=0)
    return np.asarray(peaks + np.log(_trapezoid(values - peaks).sum(axis=0) * (nodes[1] - nodes[0])))


def _trapezoid(log_values: Float64Array) -> Float64Array:
    masses = np.exp(log_values)
    masses[[0, -1]] *= 0.5
    return masses


def _grid(target: Target) -> tuple[Float64Array, Float64Array]:
    """Equidistant nodes (G, K) around the modes, and the target there."""
    modes, deviations = find_modes(target)
    low, high = (_edge(target, modes, deviations, side) for side in (-1.0, 1.0))
    n_nodes = _N_NODES
    # the law of a component with few rows can have a long tail or a second mode: there the grid is made finer
    widest = _WIDEST_SPACING * np.minimum(deviations, 1.0)
    while n_nodes < _MOST_NODES and np.any(high - low > (n_nodes - 1) * widest):
        n_nodes = 2 * n_nodes - 1
    nodes = low + np.linspace(0.0, 1.0, n_nodes)[:, None] * (high - low)
    return nodes, target.value(nodes)


def _edge(target: Target, modes: Float64Array, deviations: Float64Array, side: float) -> Float64Array:
    """Where the target has fallen by 40 from its mode (K,)."""
    peaks = target.value(modes)
    reach = math.sqrt(2.0 * _FALL) * deviations
    while True:
        edges = np.clip(modes + side * reach, LOWEST, HIGHEST)
        is_short = (peaks - target.value(edges) < _FALL) & (edges > LOWEST) & (edges < HIGHEST)
        if not is_short.any():
            return edges
        reach = np.where(is_short, 1.3 * reach, reach)


# ---------------------------------------------------------------------------------------------------------------- modes


def find_modes(target: Target) -> tuple[Float64Array, Float64Array]:
    """Modes of the targets and the standard deviations of the normal laws there, (K,) each."""
    own = np.asarray(bessel.concentration_from_resultant(target.dimension, target.mean_lengths))
    prior_mean = np.full_like(own, target.prior.log_mean)
    with np.errstate(divide="ignore"):
        by_rows = np.where(own > 0.0, np.log(own), prior_mean)
    starts = np.clip(np.stack([prior_mean, by_rows, 0.5 * (prior_mean + by_rows)]), LOWEST, HIGHEST)
    places, is_found = _climb(target, starts)
    values = np.where(is_found, target.value(places), -np.inf)
    best = np.argmax(values, axis=0)
    modes = np.take_along_axis(places, best[None], axis=0)[0]
    is_lost = ~is_found.any(axis=0)
    if is_lost.any():
        modes = np.where(is_lost, _zoom(target, starts), modes)
    curvature = target.derivatives(modes)[1]
    is_peak = curvature < 0.0
    prior_deviation = math.sqrt(target.prior.log_variance)
    return modes, np.where(is_peak, 1.0 / np.sqrt(np.where(is_peak, -curvature, 1.0)), prior_deviation)


def _climb(target: Target, starts: Float64Array) -> tuple[Float64Array, npt.NDArray[np.bool_]]:
    """Newton's method from several starts (S, K), steps of at most 1; and which of them found a peak."""
    y = starts.copy()
    is_found = np.zeros(y.shape, dtype=np.bool_)
    for _ in range(_MAX_NEWTON_STEPS):
        slope, curvature = target.derivatives(y)
        is_peak = curvature < 0.0
        step = np.where(is_peak, -slope / np.where(is_peak, curvature, -1.0), np.sign(slope))
        # a mode stays once found: its bits do not depend on its neighbours
        y = np.where(is_found, y, np.clip(y + np.clip(step, -1.0, 1.0), LOWEST, HIGHEST))
        # the step after this one is its square: far below the width of the peak
        is_found |= is_peak & (step * step * -curvature < 1e-8)
        if is_found.all():
            break
    return y, is_found


def _zoom(target: Target, starts: Float64Array) -> Float64Array:
    """The largest value on ever finer grids (K,): slow and sure."""
    reach = 3.0 * math.sqrt(target.prior.log_variance) + 1.0
    low = np.maximum(starts.min(axis=0) - reach, LOWEST)
    high = np.minimum(starts.max(axis=0) + reach, HIGHEST)
    steps = np.linspace(0.0, 1.0, _ZOOM_NODES)[:, None]
    while np.any(high - low > 1e-9):
        width = high - low
        nodes = low + steps * width
        best = np.argmax(target.value(nodes), axis=0)
        left, right = (
            np.take_along_axis(nodes, np.clip(best + side, 0, _ZOOM_NODES - 1)[None], axis=0)[0] for side in (-1, 1)
        )
        # many rows that cancel have their mode far below the prior's: at an end, look beyond it
        low = np.where((best == 0) & (low > LOWEST), np.maximum(low - width, LOWEST), left)
        high = np.where((best == _ZOOM_NODES - 1) & (high < HIGHEST), np.minimum(high + width, HIGHEST), right)
    return np.asarray(0.5 * (low + high))


# ----------------------------------------------------------------------------------------------------- draws and points


def point_law(target: Target, concentrations: Float64Array) -> LogLaw:
    """All mass at these concentrations (K,): what a draw of a sampler knows. It has no entropy to speak of."""
    log_h = np.asarray(bessel.log_h(0.5 * target.dimension - 1.0, concentrations))
    # rows that cancel start at concentration 0, which has no logarithm
    nodes = np.log(np.maximum(concentrations, np.exp(LOWEST)))[None]
    return LogLaw(nodes, np.ones_like(nodes), np.zeros_like(log_h), log_h, is_followed=True)


def metropolis_law(target: Target, generator: np.random.Generator) -> LogLaw:
    """200 draws of a random walk with steps of 2.4 standard deviations at the mode (vmf_mixtures.md, 5.4a).

    An estimate: the mean of y has a standard error of 0.15 posterior standard deviations, its standard deviation one of
    11 per cent (measured, tests/unit/test_concentration_laws.py). The entropy is that of the normal law with the
    same variance, so a component's part of the bound is off by about 0.1 nats. Departure: ten short chains, each from a
    draw of the normal law at the mode, in place of one long one.
    """
    modes, deviations = find_modes(target)
    shape = (_N_CHAINS, len(modes))
    y = np.clip(modes + deviations * generator.standard_normal(shape), LOWEST, HIGHEST)
    height = target.value(y)
    kept = []
    for number in range(_N_BURN_IN + _N_KEPT):
        proposal = y + 2.4 * deviations * generator.standard_normal(shape)
        is_inside = (proposal > LOWEST) & (proposal < HIGHEST)
        level = np.where(is_inside, target.value(np.clip(proposal, LOWEST, HIGHEST)), -np.inf)
        # a standard exponential is minus the log of a uniform
        is_accepted = -generator.standard_exponential(shape) < level - height
        y, height = np.where(is_accepted, proposal, y), np.where(is_accepted, level, height)
        if number >= _N_BURN_IN:
            kept.append(y)
    nodes = np.concatenate(kept)
    weights = np.full(nodes.shape, 1.0 / len(nodes))
    variances = nodes.var(axis=0)
    log_h = np.asarray(bessel.log_h(0.5 * target.dimension - 1.0, np.exp(nodes))).mean(axis=0)
    # a chain that never moved has no spread; the normal law at the mode stands in
    variances = np.where(variances > 0.0, variances, deviations**2)
    return LogLaw(nodes, weights, _normal_entropy(variances), log_h, is_followed=True, stride=_DRAW_STRIDE)


# ------------------------------------------------------------------------------------------------------ log-normal laws


def log_normal_law(target: Target, bound: str = "quadrature") -> LogLaw:
    """The log-normal law of the greatest bound (vmf_mixtures.md, 5.4c): y ~ Normal(a, b^2).

    "quadrature": E[log H] by 40 Gauss-Hermite nodes. "jensen": log H(sqrt(E kappa^2)), which is no less, since log H is
    concave in kappa^2. "delta": log H + A' Var/2 at E[kappa], no less either wherever it was tried, far above for wide
    laws, and without a proof. With the last two the directions see
    E[kappa] alone: log H(|w|) is convex in kappa, so that this too keeps a bound a bound.
    """
    modes, deviations = find_modes(target)
    measure = {"quadrature": _by_quadrature, "jensen": _by_jensen, "delta": _by_delta}[bound]
    a, variances = _ascend(target, measure, modes, deviations**2)
    z, masses = _hermite()
    nodes = a + np.sqrt(variances) * z
    weights = np.broadcast_to(masses, nodes.shape)
    if bound == "jensen":
        log_h = _jensen_log_h(target, a, variances)[0]
    elif bound == "delta":
        log_h = _delta_log_h(target, a, variances)[0]
    else:
        log_h = (weights * np.asarray(bessel.log_h(0.5 * target.dimension - 1.0, np.exp(nodes)))).sum(axis=0)
    return LogLaw(
        nodes,
        weights,
        _normal_entropy(variances),
        log_h,
        is_followed=bound == "quadrature",
        log_density=lambda y: -((y - a) ** 2) / (2.0 * variances),
        dimension=target.dimension,
    )


# What a bound has besides the entropy, with its derivatives in a and in the variance: (K,) each.
_Measured = tuple[Float64Array, Float64Array, Float64Array]


def _ascend(
    target: Target,
    measure: Callable[[Target, Float64Array, Float64Array], _Measured],
    a: Float64Array,
    variances: Float64Array,
) -> tuple[Float64Array, Float64Array]:
    """The (a, b^2) that maximise measure + log(b^2)/2, each (K,), by Newton's method in (a, log b^2).

    The Hessian is taken by differences of the slopes. Where it is not that of a peak, each variable climbs alone. A
    step that does not gain is taken back and tried at half its length.
    """

    def climb(a: Float64Array, log_v: Float64Array) -> tuple[Float64Array, ...]:
        value, slope, widening = measure(target, a, np.exp(log_v))
        return a, log_v, value + 0.5 * log_v, slope, np.exp(log_v) * widening + 0.5

    here = climb(a, np.log(variances))
    length = np.ones_like(a)
    for _ in range(_MAX_LOG_NORMAL_STEPS):
        a, log_v, value, slope, rise = here
        h = 1e-4 * np.exp(0.5 * log_v)
        *_, slope_a, rise_a = climb(a + h, log_v)
        *_, slope_v, rise_v = climb(a, log_v + 1e-4)
        bend, fold = (slope_a - slope) / h, (rise_v - rise) / 1e-4
        twist = 0.5 * ((rise_a - rise) / h + (slope_v - slope) / 1e-4)
        determinant = bend * fold - twist * twist
        is_peak = (bend < 0.0) & (determinant > 0.0)
        scale = np.where(is_peak, determinant, 1.0)
        move = np.where(is_peak, (twist * rise - fold * slope) / scale, np.exp(log_v) * slope)
        widen = np.where(is_peak, (twist * slope - bend * rise) / scale, rise)
        move, widen = np.clip(move, -1.0, 1.0), np.clip(widen, -2.0, 2.0)
        left = np.abs(slope * move + rise * widen)  # twice what a whole step would gain, in nats
        is_done = (left < _FLAT + 1e-15 * np.abs(value)) | (length < 1e-6)
        if is_done.all():
            break
        there = climb(np.clip(a + length * move, LOWEST, HIGHEST), log_v + length * widen)
        is_better = (there[2] >= value) & ~is_done
        here = tuple(np.where(is_better, after, before) for after, before in zip(there, here, strict=True))
        length = np.where(is_better, np.minimum(1.0, 2.0 * length), 0.5 * length)
    return here[0], np.exp(here[1])


def _by_quadrature(target: Target, a: Float64Array, variances: Float64Array) -> _Measured:
    z, masses = _hermite()
    deviations = np.sqrt(variances)
    y = np.clip(a + deviations * z, LOWEST - 10.0, HIGHEST)
    slope = target.derivatives(y)[0]
    # Stein: the derivative in the variance is half of E[g''] = E[g' z]/b
    return (
        (masses * target.value(y)).sum(axis=0),
        (masses * slope).sum(axis=0),
        (masses * slope * z).sum(axis=0) / (2.0 * deviations),
    )


def _by_jensen(target: Target, a: Float64Array, variances: Float64Array) -> _Measured:
    return _at_the_mean(target, a, variances, *_jensen_log_h(target, a, variances))


def _by_delta(target: Target, a: Float64Array, variances: Float64Array) -> _Measured:
    return _at_the_mean(target, a, variances, *_delta_log_h(target, a, variances))


def _at_the_mean(
    target: Target,
    a: Float64Array,
    variances: Float64Array,
    log_h: Float64Array,
    log_h_slope: Float64Array,
    log_h_widening: Float64Array,
) -> _Measured:
    """The bound with directions that see E[kappa], for a value of E[log H] and its derivatives."""
    prior = target.prior
    kappa = np.exp(a + 0.5 * variances)
    pull = target.gain_derivatives(kappa)[0] * kappa
    value = (
        target.gain(kappa)
        - target.counts * log_h
        - ((a - prior.log_mean) ** 2 + variances) / (2.0 * prior.log_variance)
        - 0.5 * math.log(2.0 * math.pi * prior.log_variance)
    )
    slope = pull - target.counts * log_h_slope - (a - prior.log_mean) / prior.log_variance
    return value, slope, 0.5 * pull - target.counts * log_h_widening - 0.5 / prior.log_variance


def _jensen_log_h(target: Target, a: Float64Array, variances: Float64Array) -> _Measured:
    """log H(exp(a + b^2)), the root of E[kappa^2], and its derivatives in a and b^2."""
    kappa = np.exp(np.minimum(a + variances, HIGHEST + 10.0))
    slope = kappa * np.asarray(bessel.mean_resultant_length(target.dimension, kappa))
    return np.asarray(bessel.log_h(0.5 * target.dimension - 1.0, kappa)), slope, slope


def _delta_log_h(target: Target, a: Float64Array, variances: Float64Array) -> _Measured:
    """log H + A' Var/2 at the mean of kappa, and its derivatives in a and b^2."""
    dimension = target.dimension
    kappa = np.exp(a + 0.5 * variances)
    spread = kappa**2 * np.expm1(variances)
    length = np.asarray(bessel.mean_resultant_length(dimension, kappa))
    first = np.asarray(bessel.mean_resultant_derivative(dimension, kappa))
    # the derivative of A' = 1 - A^2 - (D-1) A/kappa; it only corrects a correction
    second = -2.0 * length * first - (dimension - 1.0) * (first - length / kappa) / kappa
    value = np.asarray(bessel.log_h(0.5 * dimension - 1.0, kappa)) + 0.5 * first * spread
    slope = kappa * (length + 0.5 * second * spread) + first * spread
    widening = 0.5 * kappa * (length + 0.5 * second * spread) + 0.5 * first * (spread + kappa**2 * np.exp(variances))
    return value, slope, widening


def _hermite() -> tuple[Float64Array, Float64Array]:
    """Nodes (G, 1) and weights (G, 1) for expectations under the standard normal law."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_HERMITE_NODES)
    return nodes[:, None], (weights / weights.sum())[:, None]


def _normal_entropy(variances: Float64Array) -> Float64Array:
    return np.asarray(0.5 * np.log(2.0 * math.pi * math.e * variances))
