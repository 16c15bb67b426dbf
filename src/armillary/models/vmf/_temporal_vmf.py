"""Variational inference of vMF components whose directions drift from slice to slice: a state, and its updates.

Labels       softmax_k(E[log pi_k] - E[log H(kappa_k)] + E[kappa_k] x.E[mu_{t,k}])          vmf_mixtures.md, 9.2
Weights      a Dirichlet for all slices, or one for each                                  5.3
Directions   by messages, or factorised, each at its best given its neighbours            9.4; 9.2, Gopal and Yang 4
Concentration q(kappa_k) from n = sum_t n_t and s = sum_t R_t.E[mu_t]                      9.2, 5.4
Priors       alpha; mu_0 and C_init of the first slice; m, s2; the drift C                5.5, 9.2, 9.4
Objective    factorised: the evidence lower bound over the uniform law; messages: an estimate of the evidence

With one slice either form is the factorised Bayesian mixture, update by update. A filter is this state with one slice:
the natural vectors of the last one, a step ahead, are the prior of its directions, and what earlier slices said of
weights and concentrations is `Kept`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from armillary._typing import Float64Array
from armillary.distributions import direction_chains as dc
from armillary.distributions import natural_vectors as nv
from armillary.distributions.concentration_laws import LogLaw, MakeLaw
from armillary.distributions.dirichlet import DirichletWeights
from armillary.distributions.log_concentration import MixturePrior, ProjectedTarget
from armillary.fitting.slice_sums import Beginning, SliceDirections, SliceSums, Smoothing, StoredDirections
from armillary.fitting.slices import SlicedPasses
from armillary.models.vmf._variational_vmf import entropy_from_scores

# Fewer slices than this are not worth a table of the drift.
_FEW_STEPS = 3


@dataclass(frozen=True, eq=False)
class Kept:
    """What earlier batches of a stream said of weights and concentrations, times what is not forgotten."""

    counts: Float64Array  # (K,) n
    projections: Float64Array  # (K,) s

    @classmethod
    def nothing(cls, n_components: int) -> Kept:
        """No earlier batch."""
        return cls(np.zeros(n_components), np.zeros(n_components))


@dataclass(frozen=True, eq=False)
class State:
    """What the next step needs, of T slices and K components."""

    sums: SliceSums  # of the rows, by slice and component
    label_entropy: float
    weights: DirichletWeights  # q(pi) of all slices (K,), or of each (T, K)
    concentrations: LogLaw  # q(log kappa)
    directions: SliceDirections  # q(mu_t)
    projections: Float64Array  # (K,) s = sum_t R_t.E[mu_t]
    direction_gains: Float64Array  # (K,) of messages: E[log p(mu)] + entropy, by the evidence
    prior: MixturePrior  # mu_0 and C_init of the first slice, one or for each component; m, s2
    drift: float  # C
    kept: Kept

    @property
    def counts(self) -> Float64Array:
        """Expected rows of each slice and component (T, K)."""
        return self.sums.counts

    @property
    def has_slice_weights(self) -> bool:
        """Whether each slice has weights of its own."""
        return self.weights.posterior.ndim > 1

    @property
    def weight_counts(self) -> Float64Array:
        """What the weights are learned from: all counts, or each slice's own, which do not look at earlier batches."""
        return self.counts if self.has_slice_weights else self.total_counts

    @property
    def total_counts(self) -> Float64Array:
        """n (K,), those of earlier batches included."""
        return np.asarray(self.kept.counts + self.counts.sum(axis=0))

    @property
    def beginning(self) -> Beginning:
        """The law of the first directions."""
        return Beginning(self.prior.mean_direction, self.prior.mean_concentration)

    @property
    def chains(self) -> dc.Chains:
        """The directions' chains: evidence E[kappa] R_t, and the law of the first."""
        return self.sums.chains(self.concentrations.concentrations, self.beginning)


# ------------------------------------------------------------------------------------------------------------- labels


def update_labels(state: State, passes: SlicedPasses) -> State:
    """q(z) of all slices, by E[log pi_k] - E[log H(kappa_k)] + E[kappa_k] x.E[mu_{t,k}]: one pass over the rows."""
    laws, law = state.directions.laws, state.concentrations
    offsets = np.broadcast_to(state.weights.expected_log(), laws.concentrations.shape) - law.log_h
    shared = state.directions.share(passes, law.concentrations * laws.slopes, offsets, state.sums)
    return replace(
        state,
        sums=shared.sums,
        label_entropy=entropy_from_scores(shared.sums.counts, offsets, shared.products, shared.evidence),
        projections=shared.products.sum(axis=0) / law.concentrations,
    )


# --------------------------------------------------------------------------------------------------- single updates


def update_weights(state: State) -> State:
    """q(pi)."""
    return replace(state, weights=state.weights.update(state.weight_counts))


def smooth_directions(state: State) -> State:
    """The law of every direction by messages (vmf_mixtures.md, 9.4)."""
    chains = state.chains
    drift = nv.tabulated(chains.dimension, state.drift) if len(chains) > _FEW_STEPS else state.drift
    laws, evidence = dc.smoothed_with_evidence(chains, drift)
    kappa = state.concentrations.concentrations
    projections = state.sums.alignments(laws)
    return replace(
        state,
        directions=state.sums.directions(laws, Smoothing(kappa, state.beginning, drift)),
        projections=projections,
        # the evidence of the chain is what its rows gain, E[kappa] s, and what its directions have
        direction_gains=evidence - kappa * projections,
    )


def sweep_directions(state: State, times: Iterable[int], *, is_lent: bool = False) -> State:
    """Each q(mu_t) in turn, in this order, at its best given its neighbours (vmf_mixtures.md, 9.2).

    The memory of directions that are lent is used again: for states that nobody else has.
    """
    laws = dc.sweep(state.chains, state.directions.laws, state.drift, times, is_lent=is_lent)
    return replace(state, directions=StoredDirections(laws), projections=state.sums.alignments(laws))


def update_concentrations(state: State, make_law: MakeLaw) -> State:
    """q(kappa), from the rows of all slices (vmf_mixtures.md, 9.2, 5.4)."""
    projections = state.kept.projections + state.projections
    target = ProjectedTarget(state.total_counts, state.prior, projections)
    return replace(state, concentrations=make_law(target))


def update_components(state: State, make_law: MakeLaw, *, has_messages: bool) -> State:
    """Directions and concentrations: smoothed once, or swept to the last slice and back."""
    if has_messages:
        return update_concentrations(smooth_directions(state), make_law)
    times = range(len(state.counts))
    state = update_concentrations(sweep_directions(state, times), make_law)
    return update_concentrations(sweep_directions(state, reversed(times), is_lent=True), make_law)


# ------------------------------------------------------------------------------------------------------------- priors


def learn_priors(state: State) -> State:
    """alpha, mu_0 and C_init, m and s2 (vmf_mixtures.md, 5.5), as far as there are components to learn from."""
    prior, n_components = state.prior, len(state.projections)
    if n_components > 1:  # one direction has no fixed point
        prior = prior.fitted_to_directions(state.directions.first_mean, n_components)
    if n_components > 2:  # s2 would shrink to its floor
        prior = prior.fitted_to_logs(state.concentrations.log_means, state.concentrations.log_variances)
    return replace(state, prior=prior, weights=state.weights.empirical_bayes())


def learn_drift(state: State, *, has_messages: bool) -> State:
    """C of the greatest evidence, or of the greatest bound.

    Where there is no drift at all the factorised form has one direction for each chain and no steps to learn from.
    """
    if has_messages:
        return replace(state, drift=dc.learn_drift(state.chains, near=state.drift))
    return state if math.isinf(state.drift) else replace(state, drift=dc.factorised_drift(state.directions.laws))


# ---------------------------------------------------------------------------------------------------------- the bound


def objective(state: State, *, has_messages: bool) -> float:
    """The evidence lower bound over the uniform law, after whichever update; with messages, an estimate of it.

    With messages it is right after `smooth_directions` and `update_concentrations`.
    """
    law, prior = state.concentrations, state.prior
    gains = state.direction_gains
    if not has_messages:
        gains = dc.factorised_bounds(state.chains, state.directions.laws, state.drift)
    rows = law.concentrations * (state.kept.projections + state.projections) - state.total_counts * law.log_h
    spread = law.log_variances + (law.log_means - prior.log_mean) ** 2
    logs = -0.5 * math.log(2.0 * math.pi * prior.log_variance) - spread / (2.0 * prior.log_variance)
    weights = state.weights.lower_bound() + float((state.weight_counts * state.weights.expected_log()).sum())
    return weights + state.label_entropy + float((gains + rows + logs + law.entropies).sum())
