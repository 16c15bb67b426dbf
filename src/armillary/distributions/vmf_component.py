"""von Mises-Fisher laws with a uniform direction and a concentration on a grid: the component of DP-vMF-MM.

Prior        mu uniform on the sphere, kappa one of G values with given probabilities             dp_tgmm.md, 12
Evidence     log sum_g P(kappa_g) c(kappa_g)^n c(0) / c(kappa_g |sum x|): exact, from n and sum x alone

With the concentration on a grid nothing is left that needs a Metropolis or slice step: kappa is drawn from the terms
of that sum, then mu from a von Mises-Fisher law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from armillary._typing import Float64Array
from armillary.distributions import bessel, vmf
from armillary.distributions.components import Pivot, Statistics
from armillary.geometry import sphere

# Sums of rows count as no shorter than this times their number: a direction must be left to normalise.
_SHORTEST = 1e-12


class VonMisesFisher(NamedTuple):
    """Parameters of one law."""

    mean: Float64Array  # (D,) unit
    concentration: float


def log_grid(least: float, most: float, n_values: int) -> Float64Array:
    """Concentrations (G,) evenly spaced in their logarithm."""
    return np.asarray(np.geomspace(least, most, n_values))


def log_density(laws: Sequence[VonMisesFisher], rows: Float64Array) -> Float64Array:
    """Log densities (n, K) of unit rows (n, D), in nats with respect to surface measure."""
    means = np.array([law.mean for law in laws])
    kappa = np.array([law.concentration for law in laws])
    return np.asarray(bessel.log_normalizer(rows.shape[1], kappa) + kappa * (rows @ means.T))


@dataclass(frozen=True, eq=False)
class VmfComponent:
    """The component of DP-vMF-MM. It is integrated out whole: there is no pivot."""

    n_features: int
    concentrations: Float64Array  # (G,) kappa > 0
    log_prior: Float64Array  # (G,) log P(kappa), which sum to one

    @classmethod
    def uniform(cls, n_features: int, concentrations: Float64Array) -> VmfComponent:
        """All values of the grid alike."""
        return cls(n_features, concentrations, np.full(len(concentrations), -np.log(len(concentrations))))

    @cached_property
    def _pole(self) -> Float64Array:
        """Any direction: the uniform law has none."""
        return np.eye(self.n_features)[0]

    @cached_property
    def _log_normalizers(self) -> Float64Array:
        return np.asarray(bessel.log_normalizer(self.n_features, self.concentrations))

    def _log_terms(self, counts: Float64Array, lengths: Float64Array) -> Float64Array:
        """Log of each term of the sum (..., G), for counts and lengths of resultants (...)."""
        order = 0.5 * self.n_features - 1.0
        gains = bessel.log_h(order, lengths[..., None] * self.concentrations)
        return np.asarray(self.log_prior + counts[..., None] * self._log_normalizers + gains)

    def draw(self, rows: Float64Array, generator: np.random.Generator) -> tuple[Pivot, float]:
        """No pivot, and the log marginal likelihood."""
        return None, self.log_joint(None, rows)

    def evidence(self, pivot: Pivot, rows: Float64Array) -> float:
        """The log marginal likelihood."""
        return self.log_joint(pivot, rows)

    def central_evidence(self, rows: Float64Array) -> float:
        """The log marginal likelihood."""
        return self.log_joint(None, rows)

    def log_joint(self, pivot: Pivot, rows: Float64Array) -> float:
        """The log marginal likelihood."""
        return float(self.log_marginal((np.asarray(float(len(rows))), rows.sum(axis=0))))

    def update(self, pivot: Pivot, rows: Float64Array, generator: np.random.Generator) -> Pivot:
        """Nothing to update."""
        return pivot

    def draw_parameters(self, pivot: Pivot, rows: Float64Array, generator: np.random.Generator) -> VonMisesFisher:
        """kappa from the terms of the evidence, then mu."""
        return self._draw(float(len(rows)), rows.sum(axis=0), generator)

    def draw_prior(self, generator: np.random.Generator) -> VonMisesFisher:
        """kappa, and mu anywhere."""
        return self._draw(0.0, np.zeros(self.n_features), generator)

    def _draw(self, count: float, total: Float64Array, generator: np.random.Generator) -> VonMisesFisher:
        terms = self._log_terms(np.asarray(count), np.asarray(np.linalg.norm(total)))
        chosen = int(generator.choice(len(terms), p=np.exp(terms - logsumexp(terms))))
        kappa = float(self.concentrations[chosen])
        law = vmf.mean_posterior(total, kappa, self._pole, 0.0)
        return VonMisesFisher(vmf.sample(law.direction, float(law.concentration), 1, generator)[0], kappa)

    def pivot_of(self, parameters: VonMisesFisher) -> Pivot:
        """There is none."""
        return None

    def point_estimate(self, rows: Float64Array, weights: Float64Array) -> VonMisesFisher:
        """The direction of the sum, and the concentration with the largest term."""
        total = weights @ rows
        terms = self._log_terms(np.asarray(weights.sum()), np.asarray(np.linalg.norm(total)))
        return VonMisesFisher(self._direction(total, weights.sum()), float(self.concentrations[int(np.argmax(terms))]))

    def _direction(self, total: Float64Array, weight: float) -> Float64Array:
        length = float(np.linalg.norm(total))
        return total / length if length > _SHORTEST * weight else self._pole

    def log_density(self, parameters: list[VonMisesFisher], rows: Float64Array) -> Float64Array:
        """(n, K)."""
        return log_density(parameters, rows)

    def sample(self, parameters: VonMisesFisher, size: int, generator: np.random.Generator) -> Float64Array:
        """Rows (size, D)."""
        return vmf.sample(parameters.mean, parameters.concentration, size, generator)

    def summary(self, rows: Float64Array) -> tuple[Float64Array, float]:
        """The direction of the sum, and the mean squared chord in each direction, held off 0 by the grid's end."""
        mean = self._direction(rows.sum(axis=0), float(len(rows)))
        variance = float(np.mean(np.sum((rows - mean) ** 2, axis=1))) / (self.n_features - 1.0)
        return mean, variance + 1.0 / float(self.concentrations.max())

    def squared_distances(self, centre: Float64Array, centres: Float64Array) -> Float64Array:
        """Squared angles."""
        return np.asarray(sphere.angle(centre, centres) ** 2)

    def statistics(self, pivots: Float64Array | None, rows: Float64Array) -> Statistics:
        """Counts (n, 1) and rows (n, 1, D)."""
        return np.ones((len(rows), 1)), rows[:, None]

    def log_marginal(self, statistics: Statistics) -> Float64Array:
        """The log marginal likelihood (...)."""
        counts, totals = statistics
        return np.asarray(logsumexp(self._log_terms(counts, np.linalg.norm(totals, axis=-1)), axis=-1))

    def log_prior_predictive(self, rows: Float64Array) -> Float64Array:
        """1/A by symmetry."""
        return np.full(len(rows), -float(sphere.log_area(self.n_features)))

    def draw_pivot_of_one(self, row: Float64Array, generator: np.random.Generator) -> Pivot:
        """There is none."""
        return None
