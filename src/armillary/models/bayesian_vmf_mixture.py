"""B-vMFmix: a Bayesian mixture of von Mises-Fisher distributions, by variational inference or Gibbs sampling.

Story        pi ~ Dirichlet(alpha) or sticks, mu_k ~ vMF(mu_0, C_0), log kappa_k ~ Normal(m, s2),
             z_i ~ Categorical(pi), x_i ~ vMF(mu_{z_i}, kappa_{z_i})                      vmf_mixtures.md, 5.1, 10
Objective    the evidence lower bound, every term of it, over the uniform law            5.2, 5.6
Labels       softmax_k(E[log pi_k] - E[log H(kappa_k)] + x.E[kappa_k mu_k])               5.3, 5.6
Components   joint: q(mu, kappa), exact given the labels; factorised: q(mu) q(kappa)      5.6; 5.3, Gopal and Yang 2.1
Priors       alpha, mu_0, C_0, m, s2 maximise the bound too (empirical Bayes)             5.5
Merges       two components become one where that raises the bound                        10
Mini-batches running counts and resultants scaled to the whole                            11; Hoffman et al. 2013
Row order    does not matter to the model; it matters to k-means++ draws, to batches and to the last bits of sums

Departures from the paper: the joint factor; the grid in place of its Metropolis steps (offered, with steps of the right
size); the start from a short tied EM run, since low concentrations collapse clusters in high dimensions (5.7); the
errata of vmf_mixtures.md, 15. Sticks are put in order of size only where that raises the bound: with E[a] > 1 the last
two are better the other way round, so that the order by size alone is not monotone.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from armillary._typing import ArrayLike, Float64Array, FloatArray, IntArray, RandomState
from armillary.distributions import bessel, vmf
from armillary.distributions.concentration_factors import (
    LOG_NORMAL_BOUNDS,
    ComponentFactors,
    MakeLaw,
    factorised_concentrations,
    factorised_directions,
    first_factors,
    grid_law,
    joint_factors,
    log_normal_law,
    lower_bounds,
    metropolis_law,
    point_law,
)
from armillary.distributions.dirichlet import DirichletWeights, StickBreakingWeights, WeightLaw
from armillary.distributions.log_concentration import HIGHEST, LOWEST, MixturePrior
from armillary.distributions.predictive import PredictiveDensity
from armillary.exceptions import InputError, ParameterError
from armillary.fitting import initialization
from armillary.fitting.events import Emitter
from armillary.fitting.loop import best_run
from armillary.fitting.partitions import point_partition
from armillary.fitting.passes import Passes
from armillary.fitting.stopping import RelativeGain
from armillary.geometry import sphere
from armillary.kernels.contract import AffineRule
from armillary.models import gibbs_vmf_mixture as gibbs
from armillary.models import vmf_mixture as em
from armillary.models._estimator import UnitVectorEstimator
from armillary.models._mixture import check_n_components
from armillary.points import Points
from armillary.random import Stream, generator
from armillary.statistics.directional import DirectionalStatistics
from armillary.validation import check_choice, check_integer, check_number, check_positive

# The tied EM run that a fit starts from (vmf_mixtures.md, 5.7): it only has to find where clusters are.
_START_STEPS = 30
_START_GAIN = 1e-5
_START_CONCENTRATION = 10.0
# Mean lengths of direction priors are held below 1 by this.
_LENGTH_GAP = 1e-6
_LEAST_VARIANCE = 1e-6
# Steps between rounds of merges, and between hyper-parameters learned from mini-batches.
_MERGE_EVERY = 5
_LEARN_EVERY = 20
# Rows of a batch where none is named: only what `n_steps_` counts after a fit depends on it.
_BATCH_ROWS = 4096
# Rounds of (mu, kappa) in one step of the factorised form.
_INNER_ROUNDS = 2


@dataclass(frozen=True, eq=False)
class State:
    """What the next step needs."""

    statistics: DirectionalStatistics  # counts (K,) and resultants (K, D) under the present responsibilities
    label_entropy: float  # of the responsibilities, sum_i w_i H(lambda_i)
    weights: WeightLaw  # q(pi)
    factors: ComponentFactors  # q(mu, kappa)
    prior: MixturePrior


@dataclass(frozen=True, eq=False)
class Parameters:
    """Checked constructor parameters."""

    n_components: int
    is_gibbs: bool
    is_joint: bool
    law: str  # "grid", "monte_carlo" or "log_normal"
    log_normal_bound: str
    has_sticks: bool
    is_learning: bool  # of hyper-parameters
    weight_concentration: float
    mean_direction: Float64Array | None
    mean_concentration: float
    log_mean: float | None
    log_variance: float
    init: str | Float64Array
    n_init: int
    max_iter: int
    tol: float
    is_merging: bool
    batch_size: int | None
    total_rows: float | None
    learning_offset: float
    learning_decay: float
    n_samples: int
    n_burn_in: int
    thin: int

    @classmethod
    def check(cls, model: BayesianVonMisesFisherMixture, points: Points, n_started: int | None = None) -> Parameters:
        """The parameters of `model`, or an error that names the wrong one; a later batch has `n_started` components."""
        who = type(model).__name__
        if n_started is None:
            n_components = check_n_components(model.n_components, points, who)
        else:
            n_components = _check_started(model.n_components, n_started, who)
        shape = (n_components, points.n_features)
        laws = ("grid", "monte_carlo", "log_normal")
        has_sticks = (
            check_choice(model.weight_prior, "weight_prior", who, ("dirichlet", "stick_breaking")) == "stick_breaking"
        )
        parameters = cls(
            n_components=n_components,
            is_gibbs=check_choice(model.inference, "inference", who, ("variational", "gibbs")) == "gibbs",
            is_joint=check_choice(model.factors, "factors", who, ("joint", "factorised")) == "joint",
            law=check_choice(model.concentration_posterior, "concentration_posterior", who, laws),
            log_normal_bound=check_choice(model.log_normal_bound, "log_normal_bound", who, LOG_NORMAL_BOUNDS),
            has_sticks=has_sticks,
            is_learning=_check_flag(model.empirical_bayes, "empirical_bayes", who),
            weight_concentration=check_positive(
                model.weight_concentration_prior, "weight_concentration_prior", who, is_finite=True
            ),
            mean_direction=_check_direction(model.mean_direction_prior, points.n_features, who),
            mean_concentration=check_number(
                model.mean_concentration_prior, "mean_concentration_prior", who, low=0.0, high=1e10
            ),
            log_mean=None
            if model.log_concentration_mean_prior is None
            else check_number(
                model.log_concentration_mean_prior,
                "log_concentration_mean_prior",
                who,
                low=LOWEST,
                high=HIGHEST,
                hint="It is a logarithm; None takes that of the concentration of the start.",
            ),
            log_variance=check_number(
                model.log_concentration_variance_prior,
                "log_concentration_variance_prior",
                who,
                low=_LEAST_VARIANCE,
                high=100.0,
            ),
            init=initialization.check_init(model.init, shape, "n_components", who, em.STARTS),
            n_init=check_integer(model.n_init, "n_init", who, low=1),
            max_iter=check_integer(model.max_iter, "max_iter", who, low=1),
            tol=check_number(model.tol, "tol", who, low=0.0, hint="It is a relative gain; 0 runs to the last bit."),
            is_merging=has_sticks
            if isinstance(model.merge, str) and model.merge == "auto"
            else _check_flag(model.merge, "merge", who, other="'auto', "),
            batch_size=None
            if model.batch_size is None
            else check_integer(
                model.batch_size,
                "batch_size",
                who,
                low=n_components,
                hint="A batch starts the components, so it has at least n_components rows.",
            ),
            total_rows=None
            if model.total_rows is None
            else check_positive(model.total_rows, "total_rows", who, is_finite=True),
            learning_offset=check_number(model.learning_offset, "learning_offset", who, low=1.0),
            learning_decay=check_number(model.learning_decay, "learning_decay", who, low=0.5, high=1.0),
            n_samples=check_integer(model.n_samples, "n_samples", who, low=1),
            n_burn_in=check_integer(model.n_burn_in, "n_burn_in", who, low=0),
            thin=check_integer(model.thin, "thin", who, low=1),
        )
        _refuse_combinations(parameters, who)
        return parameters

    @property
    def start(self) -> em.Parameters:
        """Those of the tied EM run that a fit starts from."""
        return em.Parameters(
            n_components=self.n_components,
            is_tied=True,
            is_hard=False,
            is_exact=True,
            init=self.init,
            n_init=1,
            max_iter=_START_STEPS,
            tol=_START_GAIN,
            follows_paper=False,
            initial_concentration=_START_CONCENTRATION,
            prior_strength=0.0,
        )

    def make_law(self, stream: Stream, *index: int) -> MakeLaw:
        """How q(kappa) is found; `index` (restart, step) keys the draws of Metropolis steps."""
        if self.law == "grid":
            return grid_law
        if self.law == "log_normal":
            return lambda target: log_normal_law(target, self.log_normal_bound)
        # one key for all the laws of a step: the draws of one update are those of the next
        return lambda target: metropolis_law(target, stream.generator("metropolis", *index))

    def rate(self, step: int) -> float:
        """(t + tau)^-decay for the step of number t = 0, 1, ... (vmf_mixtures.md, 11)."""
        return float((step + self.learning_offset) ** -self.learning_decay)


def _check_started(n_components: Any, n_started: int, who: str) -> int:
    if check_integer(n_components, "n_components", who, low=1) == n_started:
        return n_started
    raise ParameterError(
        f"`n_components` of {who} must stay as it was in the first fit, {n_started}; got {n_components}. "
        "Make a new model, or call fit."
    )


def _refuse_combinations(parameters: Parameters, who: str) -> None:
    if not parameters.is_gibbs:
        return
    if parameters.has_sticks:
        raise ParameterError(
            f"`weight_prior` of {who} must be 'dirichlet' with inference='gibbs', which integrates such weights out; "
            "got 'stick_breaking'. Use inference='variational' for sticks."
        )
    if parameters.batch_size is not None:
        raise ParameterError(
            f"`batch_size` of {who} must be None with inference='gibbs', whose sweeps take every row; "
            f"got {parameters.batch_size}. Use inference='variational' for mini-batches."
        )


def _check_flag(value: Any, name: str, who: str, other: str = "") -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ParameterError(f"`{name}` of {who} must be {other}True or False; got {value!r}.")


def _check_direction(value: Any, n_features: int, who: str) -> Float64Array | None:
    """A unit vector (D,), or None."""
    if value is None:
        return None
    rule = f"`mean_direction_prior` of {who} must be None or one direction, shape ({n_features},)"
    try:
        vector = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{rule}; got {value!r}. Give D numbers.") from None
    if vector.shape != (n_features,):
        raise ParameterError(f"{rule}; got shape {vector.shape}. Give one number for each column of X.")
    length = float(np.linalg.norm(vector))
    if not (math.isfinite(length) and length > 0.0):
        raise ParameterError(f"{rule}; got one of norm {length:g}. Give a vector with a direction.")
    return vector / length


# ----------------------------------------------------------------------------------------------------------- start


def run_start(passes: Passes, parameters: Parameters, stream: Stream, restart: int) -> em.State:
    """A short tied EM run (vmf_mixtures.md, 5.7)."""
    state = em.initial_state(passes, parameters.start, stream, restart)
    before = -math.inf
    for _ in range(_START_STEPS):
        statistics, evidence = passes.soft_sums(em.score_rule(state))
        state = em.update(state, statistics, parameters.start)
        if evidence - before <= _START_GAIN * abs(evidence):
            break
        before = evidence
    return state


def initial_state(
    passes: Passes, parameters: Parameters, stream: Stream, restart: int, total: float | None = None
) -> State:
    """Responsibilities and the concentration of a tied EM run; all else follows. `total` rows are stood for."""
    start = run_start(passes, parameters, stream, restart)
    rule = em.score_rule(start)
    statistics, evidence = passes.soft_sums(rule)
    entropy = label_entropy(rule, statistics, evidence)
    if total is not None:
        scale = total / passes.points.total_weight
        statistics, entropy = statistics.scale(scale), scale * entropy
    prior = initial_prior(parameters, statistics.resultants.sum(axis=0), float(start.concentrations[0]))
    kind = StickBreakingWeights if parameters.has_sticks else DirichletWeights
    weights: WeightLaw = kind.prior(parameters.weight_concentration, parameters.n_components)
    state = State(
        statistics,
        entropy,
        weights.update(statistics.counts),
        first_factors(statistics.resultants, prior, start.concentrations),
        prior,
    )
    return update_components(state, parameters, parameters.make_law(stream, restart, 0))


def initial_prior(parameters: Parameters, resultant: Float64Array, concentration: float) -> MixturePrior:
    """The prior that was asked for; for what was not, the direction of all rows and the EM run's concentration."""
    direction = parameters.mean_direction
    if direction is None:
        first = np.zeros((1, len(resultant)))
        first[0, 0] = 1.0
        direction = DirectionalStatistics(np.zeros(1), resultant[None]).directions(otherwise=first)[0]
    log_mean = parameters.log_mean
    if log_mean is None:
        log_mean = min(max(math.log(max(concentration, 1e-300)), LOWEST), HIGHEST)
    return MixturePrior(direction, parameters.mean_concentration, log_mean, parameters.log_variance)


# ---------------------------------------------------------------------------------------------- scores and updates


def score_rule(state: State) -> AffineRule:
    """E[log pi_k] - E[log H(kappa_k)] + x.E[kappa_k mu_k]: the expected log joint of a row over the uniform law."""
    return AffineRule(state.factors.natural_vectors, state.weights.expected_log() - state.factors.log_h)


def label_entropy(rule: AffineRule, statistics: DirectionalStatistics, evidence: float) -> float:
    """-sum_ik lambda_ik log lambda_ik: log lambda is score - evidence, so sums of scores are all it takes."""
    is_there = statistics.counts > 0.0  # an offset of -inf times no rows is nothing
    scores = float(statistics.counts[is_there] @ rule.offsets[is_there])
    scores += float(np.vecdot(statistics.resultants, rule.vectors).sum())
    return max(evidence - scores, 0.0)


def update_labels(state: State, passes: Passes) -> State:
    """q(z) (vmf_mixtures.md, 5.3): one pass over the rows."""
    rule = score_rule(state)
    statistics, evidence = passes.soft_sums(rule)
    return replace(state, statistics=statistics, label_entropy=label_entropy(rule, statistics, evidence))


def update_weights(state: State) -> State:
    """q(pi) (5.3, 10)."""
    return replace(state, weights=state.weights.update(state.statistics.counts))


def update_joint(state: State, make_law: MakeLaw) -> State:
    """q(mu, kappa) (5.6)."""
    statistics = state.statistics
    return replace(state, factors=joint_factors(statistics.counts, statistics.resultants, state.prior, make_law))


def update_directions(state: State) -> State:
    """q(mu), for the present q(kappa) (5.3)."""
    statistics = state.statistics
    factors = factorised_directions(state.factors, statistics.counts, statistics.resultants, state.prior)
    return replace(state, factors=factors)


def update_concentrations(state: State, make_law: MakeLaw) -> State:
    """q(kappa), for the present q(mu) (5.3, 5.4)."""
    statistics = state.statistics
    factors = factorised_concentrations(state.factors, statistics.counts, statistics.resultants, state.prior, make_law)
    return replace(state, factors=factors)


def update_components(state: State, parameters: Parameters, make_law: MakeLaw) -> State:
    """Directions and concentrations, in either form."""
    if parameters.is_joint:
        return update_joint(state, make_law)
    for _ in range(_INNER_ROUNDS):
        state = update_concentrations(update_directions(state), make_law)
    return state


def learn_weight_concentration(state: State) -> State:
    """alpha (5.5)."""
    return replace(state, weights=state.weights.empirical_bayes())


def learn_mean_direction(state: State) -> State:
    """mu_0 and C_0 (5.5). With one component they have no fixed point and stay."""
    n_components = len(state.statistics.counts)
    if n_components == 1:
        return state
    total = state.factors.mean_direction_sum()
    length = float(np.linalg.norm(total))
    if length == 0.0:
        return replace(state, prior=replace(state.prior, mean_concentration=0.0))
    share = min(length / n_components, 1.0 - _LENGTH_GAP)
    concentration = float(bessel.concentration_from_resultant(len(total), share))
    prior = replace(state.prior, mean_direction=total / length, mean_concentration=concentration)
    return replace(state, prior=prior)


def learn_log_concentration(state: State) -> State:
    """m and s2 (5.5). With fewer than three components s2 would shrink to its floor: they stay."""
    means = state.factors.log_means
    if len(means) < 3:
        return state
    mean = float(means.mean())
    variance = max(float((state.factors.log_variances + (means - mean) ** 2).mean()), _LEAST_VARIANCE)
    return replace(state, prior=replace(state.prior, log_mean=mean, log_variance=variance))


def learn_priors(state: State, parameters: Parameters, make_law: MakeLaw) -> State:
    """Every hyper-parameter, then the factors that follow from them."""
    state = learn_weight_concentration(learn_mean_direction(learn_log_concentration(state)))
    return update_components(update_weights(state), parameters, make_law)


def objective(state: State) -> float:
    """What must not decrease: the evidence lower bound over the uniform law, after whichever update (5.2, 5.6)."""
    statistics = state.statistics
    components = lower_bounds(state.factors, statistics.counts, statistics.resultants, state.prior)
    return _weight_gain(state.weights, statistics.counts) + state.label_entropy + float(components.sum())


def _weight_gain(weights: WeightLaw, counts: Float64Array) -> float:
    return weights.lower_bound() + float(counts @ weights.expected_log())


# ------------------------------------------------------------------------------------------------ order and merges


def sort_components(state: State) -> State:
    """Components by falling count, where the bound rises by that: only sticks mind their order."""
    counts = state.statistics.counts
    order = np.argsort(-counts, kind="stable")
    weights = state.weights.update(counts[order])
    if _weight_gain(weights, counts[order]) <= _weight_gain(state.weights, counts):
        return state
    statistics = state.statistics.select(order)
    return replace(state, statistics=statistics, weights=weights, factors=state.factors.select(order))


def merge_components(
    state: State, passes: Passes, rule: AffineRule, parameters: Parameters, make_law: MakeLaw
) -> State:
    """Make one of two components where that raises the bound (vmf_mixtures.md, 10).

    `rule` gave the responsibilities of `state`. The pairs with the largest cosines are tried, best first; a component
    takes part in one merge. What a pair would leave behind is an empty component, whose factor is its prior and adds
    nothing to the bound.
    """
    statistics = state.statistics
    pairs = _closest_pairs(statistics)
    if not len(pairs):
        return state
    entropies = passes.merged_entropies(rule, pairs)
    own = lower_bounds(state.factors, statistics.counts, statistics.resultants, state.prior)
    merged = DirectionalStatistics(statistics.counts[pairs].sum(axis=1), statistics.resultants[pairs].sum(axis=1))
    gains = _best_bounds(state, merged, pairs, parameters, make_law) - own[pairs].sum(axis=1) + entropies
    counts, resultants = statistics.counts.copy(), statistics.resultants.copy()
    weights, entropy = state.weights, state.label_entropy
    is_taken = np.zeros(len(counts), dtype=np.bool_)
    for number in np.argsort(-gains, kind="stable"):
        first, second = pairs[number]
        if is_taken[[first, second]].any():
            continue
        new_counts = counts.copy()
        new_counts[first], new_counts[second] = merged.counts[number], 0.0
        new_weights = weights.update(new_counts)
        if gains[number] + _weight_gain(new_weights, new_counts) - _weight_gain(weights, counts) <= 0.0:
            continue
        is_taken[[first, second]] = True
        counts, weights, entropy = new_counts, new_weights, entropy + float(entropies[number])
        resultants[first], resultants[second] = merged.resultants[number], 0.0
    if not is_taken.any():
        return state
    state = replace(
        state,
        statistics=DirectionalStatistics(counts, resultants),
        label_entropy=max(entropy, 0.0),
        weights=weights,
    )
    return update_components(state, parameters, make_law)


def _closest_pairs(statistics: DirectionalStatistics) -> npt.NDArray[np.int64]:
    """Pairs (P, 2) of components that have rows, at most K of them, by falling cosine of their resultants."""
    lengths = statistics.lengths
    there = np.flatnonzero((statistics.counts > 1e-8 * statistics.counts.sum()) & (lengths > 0.0))
    cosines = statistics.resultants[there] @ statistics.resultants[there].T / np.outer(lengths[there], lengths[there])
    first, second = np.triu_indices(len(there), k=1)
    best = np.argsort(-cosines[first, second], kind="stable")[: len(statistics.counts)]
    return np.stack([there[first[best]], there[second[best]]], axis=1)


def _best_bounds(
    state: State,
    merged: DirectionalStatistics,
    pairs: npt.NDArray[np.int64],
    parameters: Parameters,
    make_law: MakeLaw,
) -> Float64Array:
    """What each merged component would have of the bound (P,)."""
    shares = state.statistics.counts[pairs] / merged.counts[:, None]
    start = (shares * state.factors.concentrations[pairs]).sum(axis=1)
    alone = replace(state, statistics=merged, factors=first_factors(merged.resultants, state.prior, start))
    for _ in range(1 if parameters.is_joint else 2):
        alone = update_components(alone, parameters, make_law)
    return lower_bounds(alone.factors, merged.counts, merged.resultants, state.prior)


# ---------------------------------------------------------------------------------------------------- mini-batches


def take_batch(
    state: State, batch: Passes, parameters: Parameters, make_law: MakeLaw, *, total: float, rate: float
) -> tuple[State, State]:
    """One stochastic step (vmf_mixtures.md, 11), and the same state with the batch alone for statistics.

    Running statistics are scaled to `total` rows and move by `rate` towards those of the batch. A batch of all rows at
    rate 1 is one whole step.
    """
    seen = update_labels(state, batch)
    scale = total / batch.points.total_weight
    alone = replace(seen, statistics=seen.statistics.scale(scale), label_entropy=scale * seen.label_entropy)
    kept = state.statistics.scale((1.0 - rate) * total / float(state.statistics.counts.sum()))
    moved = replace(
        state,
        statistics=kept.merge(alone.statistics.scale(rate)),
        label_entropy=(1.0 - rate) * state.label_entropy + rate * alone.label_entropy,
    )
    moved = update_components(update_weights(moved), parameters, make_law)
    return moved, replace(alone, weights=moved.weights, factors=moved.factors)


def _batches(points: Points, size: int, stream: Stream, restart: int, epoch: int) -> Iterator[Points]:
    """As many random batches as it takes to have the rows' number once."""
    for number in range(-(-points.n_rows // size)):
        draws = stream.generator("batch", restart, epoch, number)
        yield points.take(np.sort(draws.choice(points.n_rows, min(size, points.n_rows), replace=False)))


# ---------------------------------------------------------------------------------------------------------- chains


class _Ascent:
    """Labels, weights, components, priors, over and over: the chain that the loop steps."""

    def __init__(self, passes: Passes, parameters: Parameters, stream: Stream, restart: int) -> None:
        self.trace: list[float] = []
        self._passes = passes
        self._parameters = parameters
        self._stream = stream
        self._restart = restart
        self._n_batches = 0
        self.state = self._start()

    @property
    def n_clusters(self) -> int:
        return count_clusters(self.state.statistics.counts, self._passes.points)

    def step(self) -> tuple[float, bool]:
        """The objective is that of the state after the step."""
        step, parameters = len(self.trace) + 1, self._parameters
        make_law = parameters.make_law(self._stream, self._restart, step)
        if parameters.batch_size is not None:
            self._take_batches(step)
        state = sort_components(self.state) if parameters.has_sticks else self.state
        rule = score_rule(state)
        state = update_components(update_weights(update_labels(state, self._passes)), parameters, make_law)
        if parameters.is_learning:
            state = learn_priors(state, parameters, make_law)
        if parameters.is_merging and step % _MERGE_EVERY == 0:
            state = merge_components(state, self._passes, rule, parameters, make_law)
        self.state = state
        self.trace.append(objective(state))
        return self.trace[-1], False

    def _start(self) -> State:
        """With batches, the start too looks at one batch only."""
        size, points = self._parameters.batch_size, self._passes.points
        if size is None or size >= points.n_rows:
            return initial_state(self._passes, self._parameters, self._stream, self._restart)
        first = next(_batches(points, size, self._stream, self._restart, 0))
        return initial_state(
            self._passes.over(first), self._parameters, self._stream, self._restart, points.total_weight
        )

    def _take_batches(self, step: int) -> None:
        parameters, points = self._parameters, self._passes.points
        assert parameters.batch_size is not None
        for batch in _batches(points, parameters.batch_size, self._stream, self._restart, step):
            if batch.total_weight == 0.0:
                continue
            make_law = parameters.make_law(self._stream, self._restart, step, self._n_batches)
            self.state, _ = take_batch(
                self.state,
                self._passes.over(batch),
                parameters,
                make_law,
                total=points.total_weight,
                rate=parameters.rate(self._n_batches),
            )
            self._n_batches += 1
            if parameters.is_learning and self._n_batches % _LEARN_EVERY == 0:
                self.state = learn_priors(self.state, parameters, make_law)


def count_clusters(counts: Float64Array, points: Points) -> int:
    """Components that hold at least half a row, of the mean weight."""
    return int(np.count_nonzero(counts >= 0.5 * points.total_weight / points.n_rows))


# ------------------------------------------------------------------------------------------------------- estimator

# Fitted attributes that only one kind of inference has.
_VARIATIONAL = ("lower_bound_", "lower_bounds_", "n_steps_", "rows_seen_", "seed_")
_GIBBS = (
    "sample_labels_",
    "sample_concentrations_",
    "sample_counts_",
    "sample_resultants_",
    "log_joint_",
    "partition_",
    "partition_draw_",
)


class BayesianVonMisesFisherMixture(DensityMixin, UnitVectorEstimator):
    """Bayesian mixture of von Mises-Fisher distributions.

    Rows are normalised first. Weights, mean directions and concentrations have priors; the fit finds a law of them
    (variational inference) or draws from their posterior (Gibbs sampling). Concentrations differ between components
    and stay finite, components without need of rows return to the prior, and densities of new rows take the doubt
    about the parameters into account.

    Parameters
    ----------
    n_components : int, default=8
        K; with sticks or merges, the most there can be.
    inference : {"variational", "gibbs"}, default="variational"
        A law that maximises the evidence lower bound, or draws by collapsed Gibbs sampling.
    factors : {"joint", "factorised"}, default="joint"
        The law of a component: q(mu, kappa), exact given the labels, or q(mu) q(kappa), as in the paper. The joint
        bound is never below the other, at the same cost.
    concentration_posterior : {"grid", "monte_carlo", "log_normal"}, default="grid"
        q(kappa) by quadrature; by Metropolis draws, after which the bound is an estimate and may fall; or the best
        log-normal law.
    log_normal_bound : {"quadrature", "jensen", "delta"}, default="quadrature"
        E[log H(kappa)] under a log-normal law: exact, in closed form and no less, or the paper's approximation, which
        is no bound.
    weight_prior : {"dirichlet", "stick_breaking"}, default="dirichlet"
        Symmetric Dirichlet weights, or a truncated Dirichlet process whose concentration has a prior of its own.
    empirical_bayes : bool, default=True
        Let the five prior parameters below maximise the bound; those given are then starts. With one component the
        prior of directions stays, with fewer than three that of concentrations.
    weight_concentration_prior : float, default=1.0
        alpha of the Dirichlet; with sticks, the prior mean of the process's concentration.
    mean_direction_prior : array of shape (D,) or None, default=None
        mu_0; None takes the direction of the sum of all rows.
    mean_concentration_prior : float, default=0.0
        C_0; 0 makes all mean directions equally likely.
    log_concentration_mean_prior : float or None, default=None
        m; None takes the log concentration of the EM run that the fit starts from.
    log_concentration_variance_prior : float, default=1.0
        s2.
    init, n_init : as in `VonMisesFisherMixture`
        Of the tied EM run that each fit starts from; the run with the highest lower bound is kept. Gibbs sampling
        makes one run.
    max_iter : int, default=200
        Most steps of one run. A run that uses them all warns.
    tol : float, default=1e-6
        Stop when two steps in a row gain at most this fraction of the lower bound over the uniform law.
    merge : {"auto", True, False}, default="auto"
        Every fifth step, make one of two components where that raises the bound. "auto" does so with sticks.
    batch_size : int or None, default=None
        Take this many random rows at a time (stochastic variational inference), with one step over all rows after each
        round of batches. For data sets with many more rows than that.
    total_rows : float or None, default=None
        How many rows `partial_fit` should take its batches to stand for; None counts those seen.
    learning_offset, learning_decay : float, default=1.0 and 0.7
        Batch number t = 0, 1, ... moves the statistics by the rate (t + learning_offset)^-learning_decay.
    n_samples, n_burn_in, thin : int, default=100, 200 and 1
        Gibbs sampling: draws kept, sweeps before the first of them, sweeps from one to the next.
    random_state : int, Generator, RandomState or None, default=None
        Seed of starts, batches, Metropolis steps and Gibbs sampling.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it.
    verbose : int, default=0
        1 shows a progress bar (needs the extra "progress").
    callbacks : callable, sequence of callables or None, default=None
        Each is called with every `FitEvent`; the objective is the lower bound (the log joint density of a sweep) over
        the uniform law of the rows.

    Attributes
    ----------
    weights_ : array of shape (K,)
        Expected weights.
    means_ : array of shape (K, D)
        Unit directions of the expected mean directions; that of the prior for a component without any.
    concentrations_, concentration_deviations_ : arrays of shape (K,)
        Mean and standard deviation of kappa.
    log_concentrations_, log_concentration_variances_ : arrays of shape (K,)
        Mean and variance of log kappa.
    posterior_concentrations_ : array of shape (K,)
        Concentration of the law of the mean direction (gamma); with the joint factor, of the vMF law with the same
        mean.
    labels_ : array of shape (n,), int32
        The most probable component of each row: `predict` of the training rows (of the last batch).
    lower_bound_ : float
        The evidence lower bound in nats, with respect to the surface of the sphere. After `partial_fit`, an estimate
        from the last batch.
    lower_bounds_ : array of shape (n_iter_,)
        Its trace over the steps of the run that was kept.
    n_clusters_ : int
        Components whose expected count is at least half a row.
    weight_concentration_ : float
        alpha; with sticks, the expected concentration of the process.
    mean_direction_, mean_concentration_ : array of shape (D,), float
        mu_0 and C_0. C_0 says how alike the components are.
    log_concentration_mean_, log_concentration_variance_ : float
        m and s2. exp(m) is the typical concentration.
    counts_, resultants_ : arrays of shape (K,) and (K, D)
        Expected weight and weighted sum of the rows of each component.
    expected_log_h_ : array of shape (K,)
        E[log H(kappa)], the normaliser of a component's score.
    direction_coefficients_, natural_coefficients_ : arrays of shape (K, 2)
        E[mu] and E[kappa mu] as combinations of `resultants_` and `mean_direction_`.
    nodes_, node_weights_, node_pulls_ : arrays of shape (G, K)
        q(kappa) as weighted nodes; there mu has the natural vector pull * resultant + C_0 mu_0.
    n_iter_ : int
        Steps (Gibbs: sweeps) of the run that was kept.
    converged_ : bool
        Whether it stopped before `max_iter`; always for Gibbs sampling.
    n_steps_, rows_seen_, seed_ : int, float, int
        Batches so far, rows they had, and the seed of their draws: what `partial_fit` goes on with.
    sample_labels_, sample_concentrations_, sample_counts_, sample_resultants_ : arrays of shape (S, n), (S, K), (S, K)
        and (S, K, D). Gibbs sampling: the draws. Component k of one draw need not be component k of the next.
    log_joint_ : array of shape (n_iter_,)
        Gibbs sampling: log joint density after each sweep, over the uniform law of the rows.
    partition_, partition_draw_ : array of shape (n,), int
        Gibbs sampling: the draw with the least expected variation of information, its clusters numbered by first
        appearance, and its number. The attributes above describe the components of this draw.
    n_features_in_ : int
        D.
    feature_names_in_ : array of shape (D,)
        Column names, where X had them.

    Notes
    -----
    A step costs 4 n D K operations (4 nnz K for CSR rows, which stay sparse). Results repeat to the bit for one
    `random_state`, whatever `n_threads`. With the grid the lower bound does not fall, after any single update; neither
    does it with the log-normal laws but "delta".

    References
    ----------
    Gopal and Yang (2014), Von Mises-Fisher clustering models.
    Hoffman, Blei, Wang and Paisley (2013), Stochastic variational inference.
    Blei and Jordan (2006), Variational inference for Dirichlet process mixtures.

    Examples
    --------
    >>> from armillary.datasets import make_vmf_mixture
    >>> from armillary import BayesianVonMisesFisherMixture
    >>> X, _, _ = make_vmf_mixture(500, 3, 4, concentration=100.0, min_angle=1.0, random_state=0)
    >>> model = BayesianVonMisesFisherMixture(8, weight_prior="stick_breaking", random_state=0).fit(X)
    >>> model.n_clusters_
    4
    """

    def __init__(
        self,
        n_components: int = 8,
        *,
        inference: str = "variational",
        factors: str = "joint",
        concentration_posterior: str = "grid",
        log_normal_bound: str = "quadrature",
        weight_prior: str = "dirichlet",
        empirical_bayes: bool = True,
        weight_concentration_prior: float = 1.0,
        mean_direction_prior: ArrayLike | None = None,
        mean_concentration_prior: float = 0.0,
        log_concentration_mean_prior: float | None = None,
        log_concentration_variance_prior: float = 1.0,
        init: str | ArrayLike = "k-means++",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-6,
        merge: str | bool = "auto",
        batch_size: int | None = None,
        total_rows: float | None = None,
        learning_offset: float = 1.0,
        learning_decay: float = 0.7,
        n_samples: int = 100,
        n_burn_in: int = 200,
        thin: int = 1,
        random_state: RandomState = None,
        n_threads: int | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.n_components = n_components
        self.inference = inference
        self.factors = factors
        self.concentration_posterior = concentration_posterior
        self.log_normal_bound = log_normal_bound
        self.weight_prior = weight_prior
        self.empirical_bayes = empirical_bayes
        self.weight_concentration_prior = weight_concentration_prior
        self.mean_direction_prior = mean_direction_prior
        self.mean_concentration_prior = mean_concentration_prior
        self.log_concentration_mean_prior = log_concentration_mean_prior
        self.log_concentration_variance_prior = log_concentration_variance_prior
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.merge = merge
        self.batch_size = batch_size
        self.total_rows = total_rows
        self.learning_offset = learning_offset
        self.learning_decay = learning_decay
        self.n_samples = n_samples
        self.n_burn_in = n_burn_in
        self.thin = thin
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.callbacks = callbacks

    # ------------------------------------------------------------------------------------------------------ fits

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the mixture to the rows of X (n, D), dense or CSR; `y` is ignored.

        Gibbs sampling takes no weights but 1: each row has one label and counts once.
        """
        points = self._points(X, sample_weight, is_new=True)
        parameters = Parameters.check(self, points)
        stream = Stream.of(self.random_state)
        sampled = parameters.is_gibbs
        fitted = (self._sampled if sampled else self._ascended)(points, parameters, stream)
        self._publish(X, is_new=True, **fitted)
        for name in _VARIATIONAL if sampled else _GIBBS:
            if hasattr(self, name):  # of an earlier fit of the other kind
                delattr(self, name)
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> IntArray:
        """`fit`; returns `labels_`."""
        return self.fit(X, y, sample_weight).labels_

    def partial_fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn one mini-batch by a stochastic variational step (vmf_mixtures.md, 11); the first starts the fit.

        Statistics are scaled to `total_rows`, or to the rows seen so far, and hyper-parameters are learned at every
        20th batch. After `fit`, its rows count as batches of `batch_size` rows (4096 where None).
        """
        is_new = not hasattr(self, "means_")
        points = self._points(X, sample_weight, is_new=is_new)
        parameters = Parameters.check(self, points, None if is_new else len(self.counts_))
        if parameters.is_gibbs or hasattr(self, "sample_labels_"):
            raise InputError(
                f"`partial_fit` of {self._who} must have inference='variational'; this model samples. "
                "Make a new model for mini-batches."
            )
        stream = Stream.of(self.random_state) if is_new else Stream(self.seed_)
        n_steps = 0 if is_new else self.n_steps_
        seen = (0.0 if is_new else self.rows_seen_) + points.total_weight
        total = seen if parameters.total_rows is None else parameters.total_rows
        make_law = parameters.make_law(stream, 0, n_steps + 1)
        with self._passes(points) as passes:
            before = initial_state(passes, parameters, stream, 0, total) if is_new else self._state()
            state, alone = take_batch(before, passes, parameters, make_law, total=total, rate=parameters.rate(n_steps))
            if parameters.is_learning and (n_steps + 1) % _LEARN_EVERY == 0:
                state = learn_priors(state, parameters, make_law)
            labels = _best_labels(passes, score_rule(state))
        gain = objective(replace(alone, weights=state.weights, factors=state.factors, prior=state.prior))
        bound = gain - total * float(sphere.log_area(points.n_features))
        trace = np.array([bound]) if is_new else np.append(self.lower_bounds_, bound)
        self._publish(
            X,
            is_new=is_new,
            **_described(state),
            labels_=labels,
            n_clusters_=count_clusters(state.statistics.counts, points),
            lower_bound_=bound,
            lower_bounds_=trace,
            n_iter_=1 if is_new else self.n_iter_ + 1,
            converged_=False,
            n_steps_=n_steps + 1,
            rows_seen_=seen,
            seed_=stream.seed,
        )
        return self

    def _ascended(self, points: Points, parameters: Parameters, stream: Stream) -> dict[str, Any]:
        """What variational inference publishes."""
        emitter = Emitter(
            self._who,
            self._observers(),
            n_rows=points.n_rows,
            n_restarts=parameters.n_init,
            max_steps=parameters.max_iter,
        )
        with self._passes(points) as passes, emitter:
            run = best_run(
                lambda restart: _Ascent(passes, parameters, stream, restart),
                n_restarts=parameters.n_init,
                max_steps=parameters.max_iter,
                # twice in a row: a merge, or a round of batches, can come after a step that gained little
                stopping=RelativeGain(parameters.tol, patience=_MERGE_EVERY if parameters.is_merging else 2),
                emitter=emitter,
            )
            chain: Any = run.chain
            labels = _best_labels(passes, score_rule(chain.state))
        self._warn(run.n_steps, run.is_converged, chain.state)
        bounds = np.array(chain.trace) - points.total_weight * float(sphere.log_area(points.n_features))
        return {
            **_described(chain.state),
            "labels_": labels,
            "n_clusters_": chain.n_clusters,
            "lower_bound_": float(bounds[-1]),
            "lower_bounds_": bounds,
            "n_iter_": run.n_steps,
            "converged_": run.is_converged,
            "n_steps_": -(-points.n_rows // (parameters.batch_size or _BATCH_ROWS)),
            "rows_seen_": points.total_weight,
            "seed_": stream.seed,
        }

    def _sampled(self, points: Points, parameters: Parameters, stream: Stream) -> dict[str, Any]:
        """What Gibbs sampling publishes: its draws, and the components of the draw that stands for them."""
        n_sweeps = parameters.n_burn_in + parameters.n_samples * parameters.thin
        emitter = Emitter(self._who, self._observers(), n_rows=points.n_rows, n_restarts=1, max_steps=n_sweeps)
        with self._passes(points) as passes, emitter:
            start = run_start(passes, parameters, stream, 1)
            prior = initial_prior(parameters, passes.total().resultants[0], float(start.concentrations[0]))
            draws = gibbs.sample_posterior(
                passes,
                prior,
                n_components=parameters.n_components,
                weight_concentration=parameters.weight_concentration,
                start_labels=_best_labels(passes, em.score_rule(start)),
                n_burn_in=parameters.n_burn_in,
                n_samples=parameters.n_samples,
                thin=parameters.thin,
                empirical_bayes=parameters.is_learning,
                stream=stream,
                emitter=emitter,
            )
            chosen = point_partition(draws.labels)
            state = _state_of_draw(draws, chosen.draw)
            labels = _best_labels(passes, score_rule(state))
        return {
            **_described(state),
            "labels_": labels,
            "n_clusters_": int(np.count_nonzero(state.statistics.counts)),
            "n_iter_": n_sweeps,
            "converged_": True,
            "sample_labels_": draws.labels,
            "sample_concentrations_": draws.concentrations,
            "sample_counts_": draws.counts,
            "sample_resultants_": draws.resultants,
            "log_joint_": draws.log_joint,
            "partition_": chosen.labels,
            "partition_draw_": chosen.draw,
        }

    # ----------------------------------------------------------------------------------------------- predictions

    def predict(self, X: Any) -> IntArray:
        """The most probable component of each row of X (n,), int32."""
        points = self._points(X, is_new=False)
        with self._passes(points) as passes:
            return _best_labels(passes, score_rule(self._state()))

    def predict_proba(self, X: Any) -> FloatArray:
        """Responsibilities of the components for each row of X (n, K)."""
        points = self._points(X, is_new=False)
        with self._passes(points) as passes:
            return passes.responsibilities(score_rule(self._state()))[0]

    def score_samples(self, X: Any, *, density: str = "full") -> Float64Array:
        """Log predictive density of each row of X (n,), in nats with respect to the surface of the sphere.

        `density="full"` averages over the law of the parameters (over the draws of Gibbs sampling), "plugin" takes
        their expectations. Both integrate to one (vmf_mixtures.md, 6).
        """
        points = self._points(X, is_new=False)
        is_full = check_choice(density, "density", f"{self._who}.score_samples", ("full", "plugin")) == "full"
        with self._passes(points) as passes:
            if is_full and hasattr(self, "sample_labels_"):
                return gibbs.log_predictive(passes, self._draws())
            if is_full:
                predictive = self._predictive()
                rule = AffineRule(predictive.vectors, np.zeros(len(predictive.weights) + 1))
                gains = passes.map_rows(rule, predictive.log_density)
            else:
                with np.errstate(divide="ignore"):
                    log_weights = np.log(self.weights_)
                plugin = em.State(log_weights, self.means_, self.concentrations_, None)
                gains = passes.log_evidence(em.score_rule(plugin))
        return gains - float(sphere.log_area(points.n_features))

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, *, density: str = "full") -> float:
        """Mean log predictive density of the rows of X."""
        points = self._points(X, sample_weight, is_new=False)
        return float(np.average(self.score_samples(X, density=density), weights=points.weights))

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[Float64Array, IntArray]:
        """Independent rows (n_samples, D) from the predictive density, in the order of their components (n_samples,).

        Each row has a direction and a concentration of its own, drawn from their law.
        """
        check_is_fitted(self)
        size = check_integer(n_samples, "n_samples", self._who, low=1)
        draws = generator(random_state)
        counts = draws.multinomial(size, self.weights_ / self.weights_.sum())
        parts = [self._draw_rows(k, int(count), draws) for k, count in enumerate(counts) if count]
        return np.concatenate(parts), np.repeat(np.arange(len(counts), dtype=np.int32), counts)

    def _draw_rows(self, component: int, size: int, draws: np.random.Generator) -> Float64Array:
        shares = draws.multinomial(size, self.node_weights_[:, component] / self.node_weights_[:, component].sum())
        parts = []
        for kappa, pull, count in zip(self.nodes_[:, component], self.node_pulls_[:, component], shares, strict=True):
            if not count:
                continue
            natural = pull * self.resultants_[component] + self.mean_concentration_ * self.mean_direction_
            length = float(np.linalg.norm(natural))
            axis = natural / length if length > 0.0 else self.mean_direction_
            centers = vmf.sample(axis, length, int(count), draws)
            rows = vmf.sample(axis, float(kappa), int(count), draws)
            # the reflection that exchanges the axis with a center turns rows about one into rows about the other
            normals = centers - axis
            squares = np.vecdot(normals, normals)
            pulls = np.vecdot(normals, rows) / np.where(squares > 0.0, squares, 1.0)
            parts.append(rows - 2.0 * pulls[:, None] * normals)
        return draws.permutation(np.concatenate(parts))

    # ---------------------------------------------------------------------------------------------------- inside

    def _warn(self, n_steps: int, is_converged: bool, state: State) -> None:
        if not is_converged:
            warnings.warn(
                f"{self._who} used all {n_steps} steps and was still gaining. Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        held = np.flatnonzero(state.factors.log_means > HIGHEST - 1.0)
        if held.size:
            warnings.warn(
                f"{self._who} holds the concentration of component {', '.join(map(str, held))} at its bound "
                f"{math.exp(HIGHEST):.3g}: the rows there are equal. Drop copies, lower n_components, or keep a narrow "
                "prior of concentrations with empirical_bayes=False.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _prior(self) -> MixturePrior:
        return MixturePrior(
            self.mean_direction_,
            self.mean_concentration_,
            self.log_concentration_mean_,
            self.log_concentration_variance_,
        )

    def _state(self) -> State:
        """What the next step needs, from what was published."""
        nothing = np.zeros(len(self.counts_))
        factors = ComponentFactors(
            resultants=self.resultants_,
            mean_direction=self.mean_direction_,
            direction_coefficients=self.direction_coefficients_,
            natural_coefficients=self.natural_coefficients_,
            direction_entropies=nothing,
            concentrations=self.concentrations_,
            concentration_deviations=self.concentration_deviations_,
            log_means=self.log_concentrations_,
            log_variances=self.log_concentration_variances_,
            log_h=self.expected_log_h_,
            log_entropies=nothing,
            direction_concentrations=self.posterior_concentrations_,
            nodes=self.nodes_,
            node_weights=self.node_weights_,
            node_pulls=self.node_pulls_,
        )
        weights: WeightLaw
        if self.weight_prior == "stick_breaking":
            weights = StickBreakingWeights.restored(
                self.weight_concentration_prior, self.weight_concentration_, self.counts_
            )
        else:
            weights = DirichletWeights(self.weight_concentration_, self.weight_concentration_ + self.counts_)
        return State(DirectionalStatistics(self.counts_, self.resultants_), 0.0, weights, factors, self._prior())

    def _predictive(self) -> PredictiveDensity:
        return PredictiveDensity(
            self.weights_,
            self.resultants_,
            self.mean_direction_,
            self.mean_concentration_,
            self.nodes_,
            self.node_weights_,
            self.node_pulls_,
        )

    def _draws(self) -> gibbs.GibbsDraws:
        return gibbs.GibbsDraws(
            self.sample_labels_,
            self.sample_concentrations_,
            self.sample_counts_,
            self.sample_resultants_,
            self.log_joint_,
            len(self.log_joint_) - len(self.sample_labels_) * self.thin,
            self._prior(),
            self.weight_concentration_,
        )


def _best_labels(passes: Passes, rule: AffineRule) -> IntArray:
    labels = np.full(passes.points.n_rows, -1, dtype=np.int32)
    passes.assign(rule, labels)
    return labels


def _state_of_draw(draws: gibbs.GibbsDraws, number: int) -> State:
    """The components of one draw: concentrations known, directions and weights with their law given the labels."""
    counts, resultants = draws.counts[number], draws.resultants[number]
    kappa = draws.concentrations[number]
    factors = joint_factors(counts, resultants, draws.prior, lambda target: point_law(target, kappa))
    weights = DirichletWeights(draws.weight_concentration, draws.weight_concentration + counts)
    return State(DirectionalStatistics(counts, resultants), 0.0, weights, factors, draws.prior)


def _described(state: State) -> dict[str, Any]:
    """The attributes that tell a state."""
    factors, prior = state.factors, state.prior
    spare = np.broadcast_to(prior.mean_direction, factors.resultants.shape)
    unweighted = np.zeros(len(factors.resultants))
    return {
        "weights_": state.weights.mean(),
        "means_": DirectionalStatistics(unweighted, factors.mean_directions).directions(otherwise=spare),
        "concentrations_": factors.concentrations,
        "concentration_deviations_": factors.concentration_deviations,
        "log_concentrations_": factors.log_means,
        "log_concentration_variances_": factors.log_variances,
        "posterior_concentrations_": factors.direction_concentrations,
        "weight_concentration_": float(state.weights.concentration),
        "mean_direction_": prior.mean_direction,
        "mean_concentration_": float(prior.mean_concentration),
        "log_concentration_mean_": float(prior.log_mean),
        "log_concentration_variance_": float(prior.log_variance),
        "counts_": state.statistics.counts,
        "resultants_": state.statistics.resultants,
        "expected_log_h_": factors.log_h,
        "direction_coefficients_": factors.direction_coefficients,
        "natural_coefficients_": factors.natural_coefficients,
        "nodes_": factors.nodes,
        "node_weights_": factors.node_weights,
        "node_pulls_": factors.node_pulls,
    }
