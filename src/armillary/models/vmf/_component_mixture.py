"""What Bayesian mixtures share whose components have one law each: their attributes, their saved state, labels.

`BayesianVonMisesFisherMixture` finds the laws by variational inference, `GibbsVonMisesFisherMixture` has those of one
draw. Both are told by the same attributes, and score rows in the same way.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from armillary._typing import Float64Array, FloatArray, IntArray
from armillary.distributions.component_factors import ComponentFactors, PredictiveNodes
from armillary.distributions.dirichlet import WeightLaw
from armillary.distributions.log_concentration import MixturePrior
from armillary.distributions.predictive import PredictiveDensity
from armillary.models.labels_out import best_labels_to
from armillary.models.saved_state import SavedRecord
from armillary.models.turns import reading
from armillary.models.vmf._predictive_mixture import PredictiveMixture
from armillary.models.vmf._variational_vmf import State, score_rule
from armillary.sums.directional import DirectionalStatistics


@dataclass(frozen=True, eq=False)
class SavedLaws(SavedRecord):
    """What scores and densities need beside the public attributes: the law of each component."""

    expected_log_h: Float64Array  # (K,) E[log H(kappa)], the normaliser of a component's score
    direction_coefficients: Float64Array  # (K, 2) E[mu] as a combination of `resultants_` and `mean_direction_`
    natural_coefficients: Float64Array  # (K, 2) E[kappa mu], likewise
    nodes: Float64Array  # (G, K) q(kappa) as weighted nodes
    node_weights: Float64Array  # (G, K)
    node_pulls: Float64Array  # (G, K) there mu has the natural vector pull * resultant + C_0 mu_0

    @staticmethod
    def of(factors: ComponentFactors) -> dict[str, Float64Array]:
        """The fields, by name."""
        return {
            "expected_log_h": factors.log_h,
            "direction_coefficients": factors.direction_coefficients,
            "natural_coefficients": factors.natural_coefficients,
            "nodes": factors.nodes.concentrations,
            "node_weights": factors.nodes.weights,
            "node_pulls": factors.nodes.pulls,
        }


class ComponentMixture(PredictiveMixture):
    """Base of mixtures with the attributes of `described` and a `SavedLaws`; subclasses have `_weight_law()`."""

    _state_kind: type[SavedLaws] = SavedLaws
    _saved_state: SavedLaws
    counts_: Float64Array
    resultants_: Float64Array
    concentration_deviations_: Float64Array
    log_concentrations_: Float64Array
    log_concentration_variances_: Float64Array
    posterior_concentrations_: Float64Array
    weight_concentration_: float
    mean_direction_: Float64Array
    mean_concentration_: float
    log_concentration_mean_: float
    log_concentration_variance_: float

    @abstractmethod
    def _weight_law(self) -> WeightLaw:
        """The law of the weights."""

    @reading
    def predict(self, X: Any, *, out: Any = None) -> IntArray:
        """The most probable component of each row of X (n,), int32.

        `out` takes the labels, and is returned: an array of n integers, a memory map, or the path of an npy file, which
        is written whole or not at all and comes back as a memory map.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        out : array, memory map or path, optional

        Returns
        -------
        array of shape (n,), int32
            Numbers of components; where `out` was given, `out`.
        """
        points = self._points(X, is_new=False)
        return best_labels_to(out, points, self._passes(points), score_rule(self._state()))

    @reading
    def predict_proba(self, X: Any) -> FloatArray:
        """Responsibilities of the components for each row of X (n, K).

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)

        Returns
        -------
        array of shape (n, K)
            Each row has the sum 1.
        """
        points = self._points(X, is_new=False)
        with self._passes(points) as passes:
            return passes.values(score_rule(self._state()), "shares")

    def _prior(self) -> MixturePrior:
        return MixturePrior(
            self.mean_direction_,
            self.mean_concentration_,
            self.log_concentration_mean_,
            self.log_concentration_variance_,
        )

    def _state(self) -> State:
        """What the next step needs, from what was published."""
        nothing, laws = np.zeros(len(self.counts_)), self._saved_state
        kept = PredictiveNodes(laws.nodes, laws.node_weights, laws.node_pulls)
        factors = ComponentFactors(
            resultants=self.resultants_,
            mean_direction=self.mean_direction_,
            direction_coefficients=laws.direction_coefficients,
            natural_coefficients=laws.natural_coefficients,
            direction_entropies=nothing,
            concentrations=self.concentrations_,
            concentration_deviations=self.concentration_deviations_,
            log_means=self.log_concentrations_,
            log_variances=self.log_concentration_variances_,
            log_h=laws.expected_log_h,
            log_entropies=nothing,
            direction_concentrations=self.posterior_concentrations_,
            pulls=laws.node_pulls[0],
            make_nodes=lambda: kept,
        )
        statistics = DirectionalStatistics(self.counts_, self.resultants_)
        return State(statistics, 0.0, self._weight_law(), factors, self._prior())

    def _predictive(self) -> PredictiveDensity:
        laws = self._saved_state
        return PredictiveDensity(
            self.weights_, self.resultants_, self._prior(), laws.nodes, laws.node_weights, laws.node_pulls
        )


def described(state: State) -> dict[str, Any]:
    """The public attributes that tell a state."""
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
    }
