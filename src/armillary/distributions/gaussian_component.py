"""Gaussians in R^D with a normal inverse-Wishart prior: the component of the Euclidean DP-GMM.

Prior        Sigma ~ IW(delta I, nu) in D dimensions, mu | Sigma ~ N(0, Sigma / kappa_0)         dp_tgmm.md, 12
Evidence     the marginal likelihood in closed form from n, sum x and sum x x'

Densities are with respect to volume in R^D and cannot be compared with those on the sphere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from armillary._typing import Float64Array
from armillary.distributions import inverse_wishart
from armillary.distributions.components import CentresAndVariances, Evidences, Pivots, Sets, Statistics
from armillary.distributions.row_sets import RowSets, as_sets


class Gaussian(NamedTuple):
    """Parameters of one law, or of several: the axes before those named here are theirs."""

    mean: Float64Array  # (D,)
    covariance: Float64Array  # (D, D)
    root: Float64Array  # (D, D) W with W' W the inverse of the covariance
    log_determinant: Float64Array  # () of the covariance

    @classmethod
    def of(cls, mean: Float64Array, covariance: Float64Array) -> Gaussian:
        """From means (..., D) and positive definite covariances."""
        lower = np.linalg.cholesky(covariance)
        log_determinant = 2.0 * np.log(np.diagonal(lower, axis1=-2, axis2=-1)).sum(axis=-1)
        return cls(mean, covariance, np.linalg.inv(lower), log_determinant)


def log_density(laws: Gaussian, rows: Float64Array) -> Float64Array:
    """Log densities (n, K) of rows (n, D), in nats with respect to volume; (n, 1) of a single law."""
    dimension = rows.shape[1]
    roots, means = laws.root.reshape(-1, dimension, dimension), laws.mean.reshape(-1, dimension)
    heights = np.atleast_1d(-0.5 * (dimension * np.log(2.0 * np.pi) + laws.log_determinant))
    return scores(rows, roots, np.vecdot(roots, means[:, None]), heights)


def scores(rows: Float64Array, roots: Float64Array, shifts: Float64Array, heights: Float64Array) -> Float64Array:
    """heights_k - |roots_k x - shifts_k|^2 / 2, (n, K); roots are (K, D, D)."""
    whitened = (rows @ roots.reshape(-1, rows.shape[1]).T).reshape(len(rows), *shifts.shape) - shifts
    return np.asarray(heights - 0.5 * np.vecdot(whitened, whitened))


class _Posterior(NamedTuple):
    """NIW(mean, pull, scale, degrees) of G sets."""

    mean: Float64Array  # (G, D)
    pull: Float64Array  # (G,)
    scale: Float64Array  # (G, D, D)
    degrees: Float64Array  # (G,)


@dataclass(frozen=True)
class GaussianComponent:
    """The component of DP-GMM. It is integrated out whole: there are no pivots."""

    n_features: int
    scale: float  # delta > 0
    degrees: float  # nu > D - 1
    mean_pull: float = 0.01  # kappa_0 > 0: rows that the prior mean, 0, is worth

    def draw(self, sets: Sets, generator: np.random.Generator) -> tuple[Pivots, Float64Array]:
        """No pivots, and the log marginal likelihoods."""
        return None, self.log_joint(None, sets)

    def evidence(self, pivots: Pivots, sets: Sets) -> Float64Array:
        """The log marginal likelihoods."""
        return self.log_joint(pivots, sets)

    def central_evidence(self, sets: Sets) -> Float64Array:
        """The log marginal likelihoods."""
        return self.log_joint(None, sets)

    def log_joint(self, pivots: Pivots, sets: Sets) -> Float64Array:
        """The log marginal likelihoods."""
        return as_sets(sets).of_each((self, "evidence"), self._evidences).logs

    def _evidences(self, sets: RowSets) -> Evidences:
        return Evidences(self._log_marginal(sets.counts, self._posterior(sets).scale))

    def update(self, pivots: Pivots, sets: Sets, generator: np.random.Generator) -> Pivots:
        """Nothing to update."""
        return pivots

    def _posterior(self, sets: RowSets) -> _Posterior:
        """Sums of products are what sets take longest for: they are asked for once."""
        return sets.of_each((self, "posterior"), self._updated)

    def _updated(self, sets: RowSets) -> _Posterior:
        pulls = self.mean_pull + sets.counts
        means = sets.totals() / pulls[:, None]
        # the scatters around the posterior's means, and the pull of the prior's, with nothing to cancel
        scales = sets.scatters(means) + self.mean_pull * means[:, :, None] * means[:, None, :]
        return _Posterior(means, pulls, scales + self.scale * np.eye(self.n_features), self.degrees + sets.counts)

    def draw_parameters(self, pivots: Pivots, sets: Sets, generator: np.random.Generator) -> Gaussian:
        """Sigma, then mu."""
        return self._draw(self._posterior(as_sets(sets)), generator)

    def renew(self, pivots: Pivots, sets: Sets, generator: np.random.Generator) -> tuple[Pivots, Gaussian]:
        """`draw_parameters`."""
        return None, self.draw_parameters(None, sets, generator)

    def draw_prior(self, size: int, generator: np.random.Generator) -> Gaussian:
        """Sigma, then mu, with no rows."""
        scales = np.tile(self.scale * np.eye(self.n_features), (size, 1, 1))
        means, pulls = np.zeros((size, self.n_features)), np.full(size, self.mean_pull)
        return self._draw(_Posterior(means, pulls, scales, np.full(size, self.degrees)), generator)

    def _draw(self, posterior: _Posterior, generator: np.random.Generator) -> Gaussian:
        covariances = inverse_wishart.draw(posterior.scale, posterior.degrees, generator)
        normals = generator.standard_normal((*posterior.mean.shape, 1))
        noise = (np.linalg.cholesky(covariances) @ normals)[..., 0]
        return Gaussian.of(posterior.mean + noise / np.sqrt(posterior.pull)[:, None], covariances)

    def pivots_of(self, parameters: Gaussian) -> Pivots:
        """There are none."""
        return None

    def point_estimate(self, sets: Sets) -> Gaussian:
        """The mode of the posterior of Sigma, at the mean's."""
        posterior = self._posterior(as_sets(sets))
        return Gaussian.of(posterior.mean, inverse_wishart.mode(posterior.scale, posterior.degrees))

    def log_density(self, parameters: Gaussian, rows: Float64Array) -> Float64Array:
        """(n, K)."""
        return log_density(parameters, rows)

    def sample(self, parameters: Gaussian, cluster: int, size: int, generator: np.random.Generator) -> Float64Array:
        """Rows (size, D), not unit."""
        lower = np.linalg.cholesky(parameters.covariance[cluster])
        return np.asarray(parameters.mean[cluster] + generator.standard_normal((size, self.n_features)) @ lower.T)

    def summary(self, sets: Sets) -> tuple[Float64Array, Float64Array]:
        """Means of the rows and their variances in each direction, held off 0 by the prior."""
        return as_sets(sets).of_each((self, "summary"), self._summary)

    def _summary(self, sets: RowSets) -> CentresAndVariances:
        means, posterior = sets.totals() / sets.counts[:, None], self._posterior(sets)
        # sum |x - m|^2, from the scatter around the posterior's mean
        moved = self.mean_pull * np.vecdot(posterior.mean, posterior.mean) + sets.counts * np.vecdot(
            means - posterior.mean, means - posterior.mean
        )
        traces = np.trace(posterior.scale, axis1=1, axis2=2) - self.n_features * self.scale
        squares = np.maximum(traces - moved, 0.0)
        variances = (self.scale * self.n_features + squares) / (self.n_features * (self.degrees + sets.counts))
        return CentresAndVariances(means, variances)

    def squared_distances(self, centre: Float64Array, centres: Float64Array) -> Float64Array:
        """Squared Euclidean distances."""
        return np.asarray(np.sum((centres - centre) ** 2, axis=-1))

    def set_statistics(self, pivots: Pivots, sets: Sets) -> Statistics:
        """Counts (G,), sums (G, D) and sums of squares (G, D, D)."""
        sets = as_sets(sets)
        totals = sets.totals()
        return sets.counts, totals, sets.scatters(np.zeros_like(totals))

    def statistics(self, pivots: Pivots, rows: Float64Array) -> Statistics:
        """Counts (n, 1), rows (n, 1, D) and their squares (n, 1, D, D)."""
        return np.ones((len(rows), 1)), rows[:, None], (rows[:, :, None] * rows[:, None, :])[:, None]

    def log_marginal(self, statistics: Statistics) -> Float64Array:
        """The log marginal likelihood (...)."""
        counts, totals, squares = statistics
        scales = squares - totals[..., :, None] * (totals / (self.mean_pull + counts)[..., None])[..., None, :]
        return self._log_marginal(counts, scales + self.scale * np.eye(self.n_features))

    def _log_marginal(self, counts: Float64Array, scales: Float64Array) -> Float64Array:
        """From counts (...) and the posterior's scales (..., D, D)."""
        log_determinants = np.linalg.slogdet(scales)[1]
        prior = self.n_features * math.log(self.scale)
        flat = inverse_wishart.log_evidence(self.n_features, prior, self.degrees, log_determinants, counts)
        return np.asarray(flat + 0.5 * self.n_features * np.log(self.mean_pull / (self.mean_pull + counts)))

    def log_prior_predictive(self, rows: Any) -> Float64Array:
        """(n,)."""
        return self.log_marginal(self.statistics(None, rows))[:, 0]

    def draw_pivot_of_one(self, row: Float64Array, generator: np.random.Generator) -> Pivots:
        """There is none."""
        return None
