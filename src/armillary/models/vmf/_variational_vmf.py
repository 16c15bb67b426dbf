"""Variational inference of mixtures whose components are von Mises-Fisher: a state, and each single update of it.

Labels       softmax_k(E[log pi_k] - E[log H(kappa_k)] + x.E[kappa_k mu_k])               vmf_mixtures.md, 5.3, 5.6
Weights      a Dirichlet or sticks, by their own law                                      5.3, 10
Components   joint: q(mu, kappa), exact given the labels; factorised: q(mu) q(kappa)      5.6; 5.3
Priors       alpha, mu_0, C_0, m, s2 that maximise the bound too (empirical Bayes)        5.5
Objective    the evidence lower bound over the uniform law, after whichever update        5.2, 5.6

Every update takes a state to one whose bound is no lower. None knows a model's parameters, and the prior in the state
may have a direction and a concentration for each component: a model in which the prior of mu_k is the law of a parent
or of a neighbour puts `MixturePrior.of_vectors(P, m, s2)` there, with the natural vectors P (K, D), before it calls
`update_components`. What then changes is `learn_mean_direction`, which fits one mu_0 to all components, and the
normaliser in `objective`, as that constructor says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from armillary._typing import Float64Array
from armillary.distributions.component_factors import (
    ComponentFactors,
    factorised_concentrations,
    factorised_directions,
    joint_factors,
    lower_bounds,
)
from armillary.distributions.concentration_laws import MakeLaw
from armillary.distributions.dirichlet import WeightLaw
from armillary.distributions.log_concentration import MixturePrior, length_gap
from armillary.draws import Stream
from armillary.engines.contract import Passes, Points
from armillary.models.vmf import vmf_mixture as em
from armillary.rules import AffineRule
from armillary.sums.directional import DirectionalStatistics

# The tied EM run that a fit starts from (vmf_mixtures.md, 5.7): it only has to find where clusters are.
_START_STEPS = 30
_START_GAIN = 1e-5
_START_CONCENTRATION = 10.0
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


@dataclass(frozen=True)
class FactorForm:
    """How q(mu, kappa) is found."""

    is_joint: bool  # or factorised
    make_law: MakeLaw  # of q(kappa)


def run_start(passes: Passes, init: str | Float64Array, n_components: int, stream: Stream, restart: int) -> em.State:
    """A short tied EM run (vmf_mixtures.md, 5.7)."""
    parameters = em.Parameters(
        n_components=n_components,
        is_tied=True,
        is_hard=False,
        is_exact=True,
        init=init,
        n_init=1,
        max_iter=_START_STEPS,
        tol=_START_GAIN,
        follows_paper=False,
        initial_concentration=_START_CONCENTRATION,
        prior_strength=0.0,
        length_gap=length_gap(passes.points.dtype),
    )
    state = em.initial_state(passes, parameters, stream, restart)
    before = -math.inf
    for _ in range(_START_STEPS):
        shared = passes.share(em.score_rule(state))
        statistics, evidence = shared.sums, shared.evidence
        state = em.update(state, statistics, parameters)
        if evidence - before <= _START_GAIN * abs(evidence):
            break
        before = evidence
    return state


# --------------------------------------------------------------------------------------------------- scores and updates


def score_rule(state: State) -> AffineRule:
    """E[log pi_k] - E[log H(kappa_k)] + x.E[kappa_k mu_k]: the expected log joint of a row over the uniform law."""
    return AffineRule(state.factors.natural_vectors, state.weights.expected_log() - state.factors.log_h)


def label_entropy(rule: AffineRule, statistics: DirectionalStatistics, evidence: float) -> float:
    """-sum_ik lambda_ik log lambda_ik: log lambda is score - evidence, so sums of scores are all it takes."""
    products = np.vecdot(statistics.resultants, rule.vectors)
    return entropy_from_scores(statistics.counts, rule.offsets, products, evidence)


def entropy_from_scores(counts: Float64Array, offsets: Float64Array, products: Float64Array, evidence: float) -> float:
    """`label_entropy`, where the products of resultants and vectors are known; arrays of one shape."""
    is_there = counts > 0.0  # an offset of -inf times no rows is nothing
    return max(evidence - float(counts[is_there] @ offsets[is_there]) - float(products.sum()), 0.0)


def update_labels(state: State, passes: Passes) -> State:
    """q(z) (vmf_mixtures.md, 5.3): one pass over the rows."""
    rule = score_rule(state)
    shared = passes.share(rule)
    statistics, evidence = shared.sums, shared.evidence
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


def update_components(state: State, form: FactorForm) -> State:
    """Directions and concentrations, in either form."""
    if form.is_joint:
        return update_joint(state, form.make_law)
    for _ in range(_INNER_ROUNDS):
        state = update_concentrations(update_directions(state), form.make_law)
    return state


# --------------------------------------------------------------------------------------------------------------- priors


def learn_weight_concentration(state: State) -> State:
    """alpha (5.5)."""
    return replace(state, weights=state.weights.empirical_bayes())


def learn_mean_direction(state: State) -> State:
    """mu_0 and C_0 (5.5). With one component they have no fixed point and stay."""
    n_components = len(state.statistics.counts)
    if n_components == 1:
        return state
    total = state.factors.mean_direction_sum()
    return replace(state, prior=state.prior.fitted_to_directions(total, n_components))


def learn_log_concentration(state: State) -> State:
    """m and s2 (5.5). With fewer than three components s2 would shrink to its floor: they stay."""
    factors = state.factors
    if len(factors.log_means) < 3:
        return state
    return replace(state, prior=state.prior.fitted_to_logs(factors.log_means, factors.log_variances))


def learn_priors(state: State, form: FactorForm) -> State:
    """Every hyper-parameter, then the factors that follow from them."""
    state = learn_weight_concentration(learn_mean_direction(learn_log_concentration(state)))
    return update_components(update_weights(state), form)


# ------------------------------------------------------------------------------------------------------------ the bound


def objective(state: State) -> float:
    """What must not decrease: the evidence lower bound over the uniform law, after whichever update (5.2, 5.6)."""
    statistics = state.statistics
    components = lower_bounds(state.factors, statistics.counts, statistics.resultants, state.prior)
    return weight_gain(state.weights, statistics.counts) + state.label_entropy + float(components.sum())


def weight_gain(weights: WeightLaw, counts: Float64Array) -> float:
    """What the weights and the labels under them have of the bound, but for the entropy of the labels."""
    return weights.lower_bound() + float(counts @ weights.expected_log())


def count_clusters(counts: Float64Array, points: Points) -> int:
    """Components that hold at least half a row, of the mean weight."""
    return int(np.count_nonzero(counts >= 0.5 * points.total_weight / points.n_rows))
