"""Collapsed Gibbs sampling of the Bayesian vMF mixture: directions and weights integrated out.

Story        pi ~ Dirichlet(alpha), mu_k ~ vMF(mu_0, C_0), log kappa_k ~ Normal(m, s2),
             z_i ~ Categorical(pi), x_i ~ vMF(mu_{z_i}, kappa_{z_i})                          vmf_mixtures.md, 5.1
Labels       p(z_i = k | rest) as in kernels/rows/contract.py, `gibbs_sweep`                       7, first line
Kappas       slice steps on y = log kappa with the target of `log_concentration`              7, second line; Neal 2003
Trace        log p(X, z, y), relative to the uniform law of the rows                          7, fourth line
Priors       empirical Bayes on windows of the burn-in, then frozen                           7; Casella 2001
Row order    matters to the draws, not to the posterior: rows are taken one after the other

Components are exchangeable: component k of one draw need not be component k of the next. Summaries must not depend on
the numbering; `fitting/partitions.py` has such.

Departures from the paper (Gopal and Yang 2014, supplement): slice steps, where its proposals are accepted once in 250
times in 384 dimensions; draws after the burn-in come from one posterior, since the priors no longer move. The width of
a slice is a factor times a scale of the count n_k, which is fixed while kappa moves: a component that loses its rows
has a wide slice at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import digamma

from armillary._typing import Float64Array, IntArray
from armillary.distributions import bessel
from armillary.distributions.dirichlet import LEAST_ALPHA, MOST_ALPHA, log_gamma
from armillary.distributions.log_concentration import (
    HIGHEST,
    LOWEST,
    DirectionSums,
    MixturePrior,
    length_gap,
    log_target,
    natural_length,
    natural_slope,
)
from armillary.distributions.predictive import PredictiveDensity
from armillary.draws import Stream
from armillary.engines.contract import Passes
from armillary.fitting.events import Emitter
from armillary.fitting.gibbs import DrawnAssignment, KeptLabels, check_start_labels, log_mean_density, refuse_weights
from armillary.geometry import sphere
from armillary.rules import CollapsedRule, CollapsedSums
from armillary.validation import check_integer, check_positive

# Sweeps between rebuilt sums: each move adds its rounding.
_REBUILD = 50
# Sweeps whose draws one empirical Bayes step averages, and the share of the burn-in in which such steps are taken.
_WINDOW = 20
_LEARNING_SHARE = 0.8
# Moves of a slice step are about this fraction of the width that wastes least (vmf_mixtures.md, 7).
_WIDTH_PER_MOVE = 3.0
_ADAPTATION = 0.1


@dataclass(frozen=True, eq=False)
class State:
    """What the next step needs besides the labels and their sums."""

    log_concentrations: Float64Array  # (K,) y_k
    width_factors: Float64Array  # (K,) slice widths in units of `slice_scales`
    prior: MixturePrior
    weight_concentration: float  # alpha

    @property
    def rule(self) -> CollapsedRule:
        """What scores a row besides the sums."""
        return CollapsedRule(
            np.exp(self.log_concentrations), self.weight_concentration, float(self.prior.mean_concentration)
        )


@dataclass(frozen=True, eq=False)
class GibbsDraws:
    """S draws from the posterior, and what was held fixed while they were made.

    `resultants` takes 8 S K D bytes and is by far the largest where D is: 100 draws of 20 components of 54,000 columns
    are 864 MB. `labels` takes 4 S N bytes.
    """

    labels: npt.NDArray[np.int32]  # (S, N)
    concentrations: Float64Array  # (S, K) kappa
    counts: Float64Array  # (S, K) n
    resultants: Float64Array  # (S, K, D) sums of rows
    log_joint: Float64Array  # (n_sweeps,) log p(X, z, log kappa) over the uniform law, of every sweep
    n_burn_in: int  # sweeps of `log_joint` before the first draw
    prior: MixturePrior
    weight_concentration: float  # alpha


def initial_state(sums: CollapsedSums, prior: MixturePrior, weight_concentration: float, gap: float) -> State:
    """One concentration for all: that of the pooled mean resultant length of the labels, the tied estimate of EM.

    The length is held below 1 by `gap`, see `log_concentration.length_gap`.
    """
    n_features, n_components = sums.resultants.shape
    pooled = np.sqrt(np.maximum(sums.squares, 0.0)).sum() / sums.counts.sum()
    kappa = float(bessel.concentration_from_resultant(n_features, min(float(pooled), 1.0 - gap)))
    # rows can cancel, and their concentration is then 0
    y = min(math.log(max(kappa, math.exp(LOWEST + 1.0))), HIGHEST - 1.0)
    return State(np.full(n_components, y), np.full(n_components, _WIDTH_PER_MOVE), prior, weight_concentration)


# ------------------------------------------------------------------------------------------------ concentrations


def slice_scales(counts: Float64Array, prior: MixturePrior) -> Float64Array:
    """A standard deviation (...) of y: right for kappa well above D, too small below, where rows tell less of kappa."""
    return 1.0 / np.sqrt(1.0 / prior.log_variance + 0.5 * counts * (len(prior.mean_direction) - 1.0))


def draw_log_concentrations(
    y: Float64Array,
    sums: DirectionSums,
    prior: MixturePrior,
    widths: Float64Array,
    generator: np.random.Generator,
) -> Float64Array:
    """One slice step (Neal 2003: stepping out, then shrinkage) for each of the components (...), all at once.

    They are independent given the labels. `widths` must not depend on y.
    """

    def height(at: Float64Array) -> Float64Array:
        is_inside = (at > LOWEST) & (at < HIGHEST)
        return np.where(is_inside, log_target(np.clip(at, LOWEST, HIGHEST), sums, prior), -np.inf)

    left = y - widths * generator.random(y.shape)
    edges = np.stack([left, left + widths])
    steps = np.stack([-widths, widths])
    heights = height(np.stack([y, *edges]))
    level = heights[0] - generator.standard_exponential(y.shape)
    is_short = heights[1:] > level
    while is_short.any():
        edges = edges + is_short * steps
        is_short &= height(edges) > level
    new = y.copy()
    is_open = np.ones(y.shape, dtype=np.bool_)
    while is_open.any():
        proposal = edges[0] + (edges[1] - edges[0]) * generator.random(y.shape)
        is_accepted = is_open & (height(proposal) >= level)
        new[is_accepted] = proposal[is_accepted]
        is_open &= ~is_accepted
        # what is outside the slice becomes the edge on its side of y
        edges[0] = np.where(is_open & (proposal < y), proposal, edges[0])
        edges[1] = np.where(is_open & (proposal >= y), proposal, edges[1])
    return new


def update_concentrations(
    state: State, sums: DirectionSums, generator: np.random.Generator, *, is_adapting: bool
) -> State:
    """A slice step; with `is_adapting`, widths follow the moves made, which is for the burn-in only."""
    scales = slice_scales(sums.counts, state.prior)
    y = state.log_concentrations
    new = draw_log_concentrations(y, sums, state.prior, state.width_factors * scales, generator)
    if not is_adapting:
        return replace(state, log_concentrations=new)
    # from the moves: the stepped-out interval is wider than the width, and following it the width would never stop
    moves = _WIDTH_PER_MOVE * np.abs(new - y) / scales
    factors = (1.0 - _ADAPTATION) * state.width_factors + _ADAPTATION * moves
    return replace(state, log_concentrations=new, width_factors=factors)


# ------------------------------------------------------------------------------------------------ the log joint


def log_dirichlet_multinomial(counts: Float64Array, weight_concentration: float) -> Float64Array:
    """log p(z) of labels with these counts (..., K), the weights integrated out."""
    n_components, n_rows = counts.shape[-1], counts.sum(axis=-1)
    total = n_components * weight_concentration
    parts = log_gamma(weight_concentration + counts) - log_gamma(weight_concentration)
    return np.asarray(log_gamma(total) - log_gamma(total + n_rows) + parts.sum(axis=-1))


def objective(state: State, sums: DirectionSums) -> float:
    """log p(X, z, y) with y = log kappa, less the log density of the rows under the uniform law."""
    labels = log_dirichlet_multinomial(sums.counts, state.weight_concentration)
    return float(labels + log_target(state.log_concentrations, sums, state.prior).sum())


# ------------------------------------------------------------------------------------------------ empirical Bayes


@dataclass(eq=False)
class Window:
    """What the draws of one window leave for the priors."""

    log_concentrations: list[Float64Array] = field(default_factory=list)  # (K,) each
    counts: list[Float64Array] = field(default_factory=list)  # (K,) each
    direction_sums: list[Float64Array] = field(default_factory=list)  # (D,) each: sum_k E[mu_k | z, kappa]

    def add(self, state: State, sums: CollapsedSums) -> None:
        """One more draw."""
        self.log_concentrations.append(state.log_concentrations)
        self.counts.append(sums.counts.copy())
        self.direction_sums.append(_expected_direction_sum(state, sums))


def _expected_direction_sum(state: State, sums: CollapsedSums) -> Float64Array:
    """sum_k A(|w_k|) w_k / |w_k|, (D,)."""
    kappa, c = np.exp(state.log_concentrations), state.prior.mean_concentration
    of_rows = direction_sums(sums)
    length = natural_length(kappa, of_rows.squares, of_rows.projections, state.prior)
    ratio = natural_slope(len(sums.resultants), length)
    return np.asarray(sums.resultants @ (ratio * kappa) + c * ratio.sum() * state.prior.mean_direction)


def update_priors(state: State, window: Window) -> State:
    """Priors that maximise the mean over the window of the expected log joint (vmf_mixtures.md, 5.5 and 7).

    With one component no direction prior has a fixed point, and with fewer than three the variance s2 would shrink to
    its floor: those are then left as they are.
    """
    n_components = len(state.log_concentrations)
    prior, alpha = state.prior, state.weight_concentration
    if n_components >= 2:
        alpha = maximise_weight_concentration(np.array(window.counts))
        prior = prior.fitted_to_directions(np.mean(window.direction_sums, axis=0), n_components)
    if n_components >= 3:
        prior = prior.fitted_to_logs(np.array(window.log_concentrations))
    return replace(state, prior=prior, weight_concentration=alpha)


def maximise_weight_concentration(counts: Float64Array) -> float:
    """The alpha in [1e-3, 1e3] with the highest mean of log DirMult over draws (S, K) of counts."""
    n_components, n_rows = counts.shape[1], float(counts[0].sum())

    def slope(log_alpha: float) -> float:
        alpha = math.exp(log_alpha)
        total = n_components * (digamma(n_components * alpha) - digamma(n_components * alpha + n_rows))
        return float(total + (digamma(alpha + counts) - digamma(alpha)).sum(axis=1).mean())

    low, high = math.log(LEAST_ALPHA), math.log(MOST_ALPHA)
    if slope(low) <= 0.0:
        return LEAST_ALPHA
    if slope(high) >= 0.0:
        return MOST_ALPHA
    return math.exp(float(brentq(slope, low, high)))


# ------------------------------------------------------------------------------------------------ the chain


def direction_sums(sums: CollapsedSums) -> DirectionSums:
    """What the target of a concentration needs; rounding can leave |S|^2 a little below 0."""
    return DirectionSums(sums.counts, np.maximum(sums.squares, 0.0), sums.projections)


class GibbsChain:
    """Labels, then concentrations, over and over; draws are keyed by the number of the sweep."""

    def __init__(self, assignment: DrawnAssignment, state: State, stream: Stream, *, is_shuffled: bool = False) -> None:
        self.assignment = assignment
        self.state = state
        self.n_sweeps = 0
        self._stream = stream
        self._is_shuffled = is_shuffled

    @property
    def n_clusters(self) -> int:
        """Components that have rows."""
        return int(np.count_nonzero(self.assignment.sums.counts))

    def step(self, *, is_adapting: bool = False) -> float:
        """One sweep; returns the log joint after it."""
        self.n_sweeps += 1
        shuffle = self._stream.generator("gibbs order", self.n_sweeps) if self._is_shuffled else None
        self.assignment.sweep(self.state.rule, self._stream.key("gibbs labels", self.n_sweeps), shuffle)
        if self.n_sweeps % _REBUILD == 0:
            self.assignment.rebuild()
        sums = direction_sums(self.assignment.sums)
        generator = self._stream.generator("gibbs concentrations", self.n_sweeps)
        self.state = update_concentrations(self.state, sums, generator, is_adapting=is_adapting)
        return objective(self.state, sums)

    def learn(self, window: Window) -> None:
        """Take priors from a window of draws."""
        self.state = update_priors(self.state, window)
        self.assignment.point_along(self.state.prior.mean_direction)


def sample_posterior(
    passes: Passes,
    prior: MixturePrior,
    *,
    n_components: int,
    weight_concentration: float,
    start_labels: IntArray,
    n_burn_in: int,
    n_draws: int,
    thin: int,
    empirical_bayes: bool,
    stream: Stream,
    emitter: Emitter,
    is_shuffled: bool = False,
) -> GibbsDraws:
    """Draws of (z, kappa) from the posterior of the rows of `passes`.

    Runs n_burn_in + n_draws * thin sweeps from `start_labels` (n,), which are best those of EM: one row at a time
    seldom splits a cluster. Every `thin`-th sweep after the burn-in is kept. With `empirical_bayes` the priors given
    are starts; they move during the first 0.8 of the burn-in only, so the draws come from one posterior. One "step" is
    emitted per sweep. `is_shuffled` takes the rows of each sweep in a new random order.

    A sweep costs 2 n D K operations (2 nnz K for CSR rows) and n K evaluations of log H, in one thread, and repeats to
    the bit for one stream. Labels do not depend on whether rows are dense or CSR.
    """
    points = passes.points
    n_components = check_integer(n_components, "n_components", points.who, low=1)
    n_burn_in = check_integer(n_burn_in, "n_burn_in", points.who, low=0)
    n_draws = check_integer(n_draws, "n_draws", points.who, low=1)
    thin = check_integer(thin, "thin", points.who, low=1)
    alpha = check_positive(weight_concentration, "weight_concentration", points.who)
    refuse_weights(points)
    labels = check_start_labels(start_labels, points, n_components)
    assignment = DrawnAssignment(passes, labels, n_components, prior.mean_direction)
    first = initial_state(assignment.sums, prior, alpha, length_gap(points.dtype))
    chain = GibbsChain(assignment, first, stream, is_shuffled=is_shuffled)

    n_sweeps = n_burn_in + n_draws * thin
    n_learning = int(_LEARNING_SHARE * n_burn_in) // _WINDOW * _WINDOW if empirical_bayes else 0
    log_joint = np.empty(n_sweeps)
    kept = KeptLabels(assignment, n_draws)
    draws = GibbsDraws(
        kept.values,
        np.empty((n_draws, n_components)),
        np.empty((n_draws, n_components)),
        np.empty((n_draws, n_components, points.n_features)),
        log_joint,
        n_burn_in,
        prior,
        alpha,
    )
    window = Window()
    for sweep in range(1, n_sweeps + 1):
        log_joint[sweep - 1] = chain.step(is_adapting=sweep <= n_burn_in)
        if sweep <= n_learning:
            window.add(chain.state, chain.assignment.sums)
            if sweep % _WINDOW == 0:
                chain.learn(window)
                window = Window()
        elif sweep > n_burn_in and (sweep - n_burn_in) % thin == 0:
            number = (sweep - n_burn_in) // thin - 1
            kept.keep(number)
            _keep(chain, draws, number)
        emitter.step(restart=1, step=sweep, n_clusters=chain.n_clusters, objective=float(log_joint[sweep - 1]))
    emitter.keep(restart=1, step=n_sweeps, n_clusters=chain.n_clusters, objective=float(log_joint[-1]))
    return replace(draws, prior=chain.state.prior, weight_concentration=chain.state.weight_concentration)


def _keep(chain: GibbsChain, draws: GibbsDraws, number: int) -> None:
    sums = chain.assignment.sums
    draws.concentrations[number] = np.exp(chain.state.log_concentrations)
    draws.counts[number] = sums.counts
    draws.resultants[number] = sums.resultants.T


# ------------------------------------------------------------------------------------------------ prediction


def log_predictive(passes: Passes, draws: GibbsDraws) -> Float64Array:
    """Log predictive density of each row of `passes` (n,), in nats with respect to surface measure.

    The mean over draws of sum_k (alpha + n_k)/(K alpha + N) C(kappa_k) C(|w_k|) / C(|kappa_k x + w_k|), which
    integrates to one (vmf_mixtures.md, 6, rule 5). At most n K S evaluations of log H.
    """
    gains = log_mean_density(passes, _predictive_densities(draws))
    return gains - float(sphere.log_area(passes.points.n_features))


def _predictive_densities(draws: GibbsDraws) -> Iterator[PredictiveDensity]:
    """The density of each draw, over the uniform law."""
    alpha = draws.weight_concentration
    for kappa, counts, resultants in zip(draws.concentrations, draws.counts, draws.resultants, strict=True):
        weights = (alpha + counts) / (len(counts) * alpha + counts.sum())
        yield PredictiveDensity.at(kappa, weights, resultants, draws.prior)
