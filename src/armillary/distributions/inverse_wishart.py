"""The inverse-Wishart law of a covariance, IW(scale, degrees) on p x p matrices: draws, evidence, mode.

Density      |scale|^(nu/2) / (2^(nu p/2) Gamma_p(nu/2)) |S|^(-(nu+p+1)/2) exp(-tr(scale S^-1)/2),  nu > p - 1
Posterior    of the covariance of n centred rows with scatter S: IW(scale + S, nu + n)
Evidence     of those rows: see `log_evidence`; dp_tgmm.md, 2.1 and 3
"""

from __future__ import annotations

import numpy as np
from scipy.special import multigammaln

from armillary._typing import ArrayLike, Float64Array


def log_multivariate_gamma(dimension: int, argument: ArrayLike) -> Float64Array:
    """log Gamma_p(a) for a > (p - 1)/2, elementwise."""
    return np.asarray(multigammaln(np.asarray(argument, dtype=np.float64), dimension))


def log_evidence(
    dimension: int,
    prior_log_determinant: float,
    prior_degrees: float,
    posterior_log_determinant: ArrayLike,
    count: ArrayLike,
) -> Float64Array:
    """Log density of `count` centred Gaussian rows in R^p, their covariance integrated out.

    -(n p/2) log pi + (nu/2) log|scale| - ((nu+n)/2) log|scale + S| + log Gamma_p((nu+n)/2) - log Gamma_p(nu/2): the
    ratio of the two normalisers. Determinants are of the prior's scale and of the posterior's.
    """
    n = np.asarray(count, dtype=np.float64)
    gammas = log_multivariate_gamma(dimension, 0.5 * (prior_degrees + n)) - log_multivariate_gamma(
        dimension, 0.5 * prior_degrees
    )
    determinants = prior_degrees * prior_log_determinant - (prior_degrees + n) * np.asarray(posterior_log_determinant)
    return np.asarray(gammas + 0.5 * determinants - 0.5 * dimension * np.log(np.pi) * n)


def draw(scales: Float64Array, degrees: ArrayLike, generator: np.random.Generator) -> Float64Array:
    """A covariance for each scale (..., p, p) by Bartlett's decomposition of the Wishart law of its inverse."""
    dimension = scales.shape[-1]
    triangles = np.tril(generator.standard_normal(scales.shape), -1)
    each = np.asarray(degrees, dtype=np.float64)[..., None] - np.arange(dimension)
    roots = np.sqrt(generator.chisquare(np.broadcast_to(each, scales.shape[:-1])))
    triangles[..., np.arange(dimension), np.arange(dimension)] = roots
    # scale = L L', T M = L', and M' M = L (T T')^-1 L'
    halves = np.linalg.solve(triangles, np.linalg.cholesky(scales).mT)
    return np.asarray(halves.mT @ halves)


def mode(scales: Float64Array, degrees: ArrayLike) -> Float64Array:
    """The covariance of highest density of each scale (..., p, p)."""
    return scales / (np.asarray(degrees, dtype=np.float64)[..., None, None] + scales.shape[-1] + 1.0)
