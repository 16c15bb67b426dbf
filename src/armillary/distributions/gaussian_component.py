"""Gaussians in R^D with a normal inverse-Wishart prior: the component of the Euclidean DP-GMM.

Prior        Sigma ~ IW(delta I, nu) in D dimensions, mu | Sigma ~ N(0, Sigma / kappa_0)         dp_tgmm.md, 12
Evidence     the marginal likelihood in closed form from n, sum x and sum x x'

Densities are with respect to volume in R^D and cannot be compared with those on the sphere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from armillary._typing import Float64Array
from armillary.distributions import inverse_wishart
from armillary.distributions.components import Pivot, Statistics


class Gaussian(NamedTuple):
    """Parameters of one law."""

    mean: Float64Array  # (D,)
    covariance: Float64Array  # (D, D)
    root: Float64Array  # (D, D) W with W' W the inverse of the covariance
    log_determinant: float  # of the covariance

    @classmethod
    def of(cls, mean: Float64Array, covariance: Float64Array) -> Gaussian:
        """From a mean and a positive definite covariance."""
        lower = np.linalg.cholesky(covariance)
        root = solve_triangular(lower, np.eye(len(mean)), lower=True)
        return cls(mean, covariance, root, 2.0 * float(np.log(np.diag(lower)).sum()))


def log_density(laws: Sequence[Gaussian], rows: Float64Array) -> Float64Array:
    """Log densities (n, K) of rows (n, D), in nats with respect to volume."""
    roots, shifts = np.array([law.root for law in laws]), np.array([law.root @ law.mean for law in laws])
    log_determinants = np.array([law.log_determinant for law in laws])
    return scores(rows, roots, shifts, -0.5 * (rows.shape[1] * np.log(2.0 * np.pi) + log_determinants))


def scores(rows: Float64Array, roots: Float64Array, shifts: Float64Array, heights: Float64Array) -> Float64Array:
    """heights_k - |roots_k x - shifts_k|^2 / 2, (n, K); roots are (K, D, D)."""
    whitened = (rows @ roots.reshape(-1, rows.shape[1]).T).reshape(len(rows), *shifts.shape) - shifts
    return np.asarray(heights - 0.5 * np.vecdot(whitened, whitened))


class _Posterior(NamedTuple):
    """NIW(mean, pull, scale, degrees)."""

    mean: Float64Array
    pull: float
    scale: Float64Array
    degrees: float


@dataclass(frozen=True)
class GaussianComponent:
    """The component of DP-GMM. It is integrated out whole: there is no pivot."""

    n_features: int
    scale: float  # delta > 0
    degrees: float  # nu > D - 1
    mean_pull: float = 0.01  # kappa_0 > 0: rows that the prior mean, 0, is worth

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
        return float(self.log_marginal((np.asarray(float(len(rows))), rows.sum(axis=0), rows.T @ rows)))

    def update(self, pivot: Pivot, rows: Float64Array, generator: np.random.Generator) -> Pivot:
        """Nothing to update."""
        return pivot

    def _posterior(self, rows: Float64Array, weights: Float64Array) -> _Posterior:
        total, pull = float(weights.sum()), self.mean_pull + float(weights.sum())
        mean = weights @ rows / pull
        centred = rows - mean
        # the scatter around the posterior's mean, and the pull of the prior's, with nothing to cancel
        scale = (weights[:, None] * centred).T @ centred + self.mean_pull * np.outer(mean, mean)
        return _Posterior(mean, pull, scale + self.scale * np.eye(self.n_features), self.degrees + total)

    def draw_parameters(self, pivot: Pivot, rows: Float64Array, generator: np.random.Generator) -> Gaussian:
        """Sigma, then mu."""
        return self._draw(self._posterior(rows, np.ones(len(rows))), generator)

    def draw_prior(self, generator: np.random.Generator) -> Gaussian:
        """Sigma, then mu, with no rows."""
        scale = self.scale * np.eye(self.n_features)
        return self._draw(_Posterior(np.zeros(self.n_features), self.mean_pull, scale, self.degrees), generator)

    def _draw(self, posterior: _Posterior, generator: np.random.Generator) -> Gaussian:
        covariance = inverse_wishart.draw(posterior.scale, posterior.degrees, generator)
        noise = np.linalg.cholesky(covariance) @ generator.standard_normal(self.n_features)
        return Gaussian.of(posterior.mean + noise / math.sqrt(posterior.pull), covariance)

    def pivot_of(self, parameters: Gaussian) -> Pivot:
        """There is none."""
        return None

    def point_estimate(self, rows: Float64Array, weights: Float64Array) -> Gaussian:
        """The mode of the posterior of Sigma, at the mean's."""
        posterior = self._posterior(rows, weights)
        return Gaussian.of(posterior.mean, inverse_wishart.mode(posterior.scale, posterior.degrees))

    def log_density(self, parameters: list[Gaussian], rows: Float64Array) -> Float64Array:
        """(n, K)."""
        return log_density(parameters, rows)

    def sample(self, parameters: Gaussian, size: int, generator: np.random.Generator) -> Float64Array:
        """Rows (size, D), not unit."""
        lower = np.linalg.cholesky(parameters.covariance)
        return np.asarray(parameters.mean + generator.standard_normal((size, self.n_features)) @ lower.T)

    def summary(self, rows: Float64Array) -> tuple[Float64Array, float]:
        """The mean of the rows and their variance in each direction, held off 0 by the prior."""
        mean = rows.mean(axis=0)
        total = self.scale * self.n_features + float(np.sum((rows - mean) ** 2))
        return mean, total / (self.n_features * (self.degrees + len(rows)))

    def squared_distances(self, centre: Float64Array, centres: Float64Array) -> Float64Array:
        """Squared Euclidean distances."""
        return np.asarray(np.sum((centres - centre) ** 2, axis=1))

    def statistics(self, pivots: Float64Array | None, rows: Float64Array) -> Statistics:
        """Counts (n, 1), rows (n, 1, D) and their squares (n, 1, D, D)."""
        return np.ones((len(rows), 1)), rows[:, None], (rows[:, :, None] * rows[:, None, :])[:, None]

    def log_marginal(self, statistics: Statistics) -> Float64Array:
        """The log marginal likelihood (...)."""
        counts, totals, squares = statistics
        pulls = self.mean_pull + counts
        scales = squares - totals[..., :, None] * (totals / pulls[..., None])[..., None, :]
        log_determinants = np.linalg.slogdet(scales + self.scale * np.eye(self.n_features))[1]
        prior = self.n_features * math.log(self.scale)
        flat = inverse_wishart.log_evidence(self.n_features, prior, self.degrees, log_determinants, counts)
        return np.asarray(flat + 0.5 * self.n_features * np.log(self.mean_pull / pulls))

    def log_prior_predictive(self, rows: Float64Array) -> Float64Array:
        """(n,)."""
        return self.log_marginal(self.statistics(None, rows))[:, 0]

    def draw_pivot_of_one(self, row: Float64Array, generator: np.random.Generator) -> Pivot:
        """There is none."""
        return None
