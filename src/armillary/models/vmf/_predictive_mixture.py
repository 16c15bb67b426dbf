"""What mixtures with a law of their parameters share: densities of new rows that take it into account, and draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from armillary._typing import ArrayLike, Float64Array, IntArray, RandomState
from armillary.distributions.predictive import PredictiveDensity
from armillary.draws import generator
from armillary.engines.contract import Here, Passes, Points
from armillary.geometry import sphere
from armillary.models.estimator import COPIES, UnitVectorEstimator
from armillary.models.turns import reading
from armillary.models.vmf import vmf_mixture as em
from armillary.rules import AffineRule
from armillary.validation import check_choice, check_row_count


class PredictiveMixture(DensityMixin, UnitVectorEstimator, ABC):
    """Base of mixtures that have `weights_`, `means_`, `concentrations_`, and `_predictive()` for their law."""

    weights_: Float64Array
    means_: Float64Array
    concentrations_: Float64Array

    @abstractmethod
    def _predictive(self) -> PredictiveDensity:
        """The predictive density of the fitted model."""

    def _points(self, X: Any, sample_weight: Any = None, *, is_new: bool) -> Points:
        return self._gate(X, sample_weight, is_new=is_new, gate=COPIES)

    @reading
    def score_samples(self, X: Any, *, density: str = "full") -> Float64Array:
        """Log predictive density of each row of X (n,), in nats with respect to the surface of the sphere.

        `density="full"` averages over the law of the parameters, "plugin" takes their expectations. Both integrate to
        one (vmf_mixtures.md, 6).

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        density : {"full", "plugin"}, default="full"

        Returns
        -------
        array of shape (n,)
            Nats.
        """
        points = self._points(X, is_new=False)
        is_full = check_choice(density, "density", f"{self._who}.score_samples", ("full", "plugin")) == "full"
        with self._passes(points) as passes:
            if is_full:
                gains = predictive_gains(passes, self._predictive())
            else:
                gains = plugin_gains(passes, self.weights_, self.means_, self.concentrations_)
        return gains - float(sphere.log_area(points.n_features))

    @reading
    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, *, density: str = "full") -> float:
        """Mean log predictive density of the rows of X.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.
        density : {"full", "plugin"}, default="full"

        Returns
        -------
        float
            Nats a row: higher is better.
        """
        points = self._points(X, sample_weight, is_new=False)
        with self._passes(points) as passes:
            return passes.mean(self.score_samples(X, density=density))

    @reading
    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[Float64Array, IntArray]:
        """Independent rows (n_samples, D) from the predictive density, in the order of their components (n_samples,).

        Each row has a direction and a concentration of its own, drawn from their law.

        Parameters
        ----------
        n_samples : int, default=1
            How many rows.
        random_state : int, numpy.random.Generator or None
            Seed of the draws.

        Returns
        -------
        X : array of shape (n_samples, D)
            Unit rows.
        labels : array of shape (n_samples,)
            Their components.
        """
        check_is_fitted(self)
        size = check_row_count(n_samples, self.n_features_in_, "n_samples", f"{self._who}.sample", low=1)
        return draw_rows(self._predictive(), size, random_state)


@dataclass(frozen=True, eq=False)
class LogDensity:
    """The log predictive density of a row over the uniform law."""

    predictive: PredictiveDensity

    def of(self, scores: Float64Array, here: Here) -> Float64Array:
        """From products with the vectors of the density."""
        return self.predictive.log_density(scores)


def predictive_gains(passes: Passes, predictive: PredictiveDensity) -> Float64Array:
    """Log predictive density of each row (n,) over the uniform law."""
    rule = AffineRule(predictive.vectors, np.zeros(len(predictive.vectors)))
    return passes.values(rule, LogDensity(predictive))


def plugin_gains(
    passes: Passes, weights: Float64Array, means: Float64Array, concentrations: Float64Array
) -> Float64Array:
    """Log density of each row (n,) over the uniform law under one value of the parameters."""
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    return passes.values(em.score_rule(em.State(log_weights, means, concentrations, None)), "evidence")


def draw_rows(predictive: PredictiveDensity, size: int, random_state: RandomState) -> tuple[Float64Array, IntArray]:
    """Independent rows (size, D) from a predictive density, in the order of their components (size,)."""
    draws = generator(random_state)
    counts = draws.multinomial(size, predictive.weights / predictive.weights.sum())
    parts = [predictive.sample(k, int(count), draws) for k, count in enumerate(counts) if count]
    return np.concatenate(parts), np.repeat(np.arange(len(counts), dtype=np.int32), counts)
