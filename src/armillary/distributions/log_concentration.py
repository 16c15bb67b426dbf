"""The posterior of a concentration, in y = log kappa, with the direction integrated out.

Model        log kappa ~ Normal(m, s2), mu ~ vMF(mu_0, C_0), rows ~ vMF(mu, kappa)           vmf_mixtures.md, 5.1
Target       g(y) = -n log H(e^y) + log H(|w|) - log H(C_0) + log Normal(y | m, s2)          vmf_mixtures.md, 5.6, 7
             |w|^2 = kappa^2 |R|^2 + 2 kappa C_0 R.mu_0 + C_0^2

In y the log-normal prior is a normal density: the Jacobian of the change of variable has taken its -log kappa.
Densities are relative to the uniform law on the sphere: one log area for each row is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from armillary._typing import ArrayLike, Float64Array
from armillary.distributions import bessel

# Beyond, n log H(kappa) and R kappa are differences of numbers above 1e11, and the target is noise.
LOWEST, HIGHEST = -23.0, 27.0


@dataclass(frozen=True)
class MixturePrior:
    """The prior of the components: directions vMF(mu_0, C_0), log concentrations Normal(m, s2)."""

    mean_direction: Float64Array  # (D,) mu_0
    mean_concentration: float  # C_0
    log_mean: float  # m
    log_variance: float  # s2


class DirectionSums(NamedTuple):
    """What the target needs of the rows of components (...): counts, |R|^2 and R.mu_0."""

    counts: Float64Array
    squares: Float64Array
    projections: Float64Array


def log_target(y: ArrayLike, sums: DirectionSums, prior: MixturePrior) -> Float64Array:
    """g(y) of each component (...); y broadcasts with the sums."""
    order = 0.5 * len(prior.mean_direction) - 1.0
    logs = np.asarray(y, dtype=np.float64)
    kappa = np.exp(logs)
    length = natural_length(kappa, sums, prior)
    rows = np.asarray(bessel.log_h(order, length)) - sums.counts * np.asarray(bessel.log_h(order, kappa))
    return np.asarray(
        rows
        - bessel.log_h(order, prior.mean_concentration)
        - (logs - prior.log_mean) ** 2 / (2.0 * prior.log_variance)
        - 0.5 * np.log(2.0 * np.pi * prior.log_variance)
    )


def natural_length(kappa: Float64Array, sums: DirectionSums, prior: MixturePrior) -> Float64Array:
    """|w| = |kappa R + C_0 mu_0|; rounding can leave the square a little below 0."""
    c = prior.mean_concentration
    square = kappa * (kappa * sums.squares + 2.0 * c * sums.projections) + c * c
    return np.sqrt(np.maximum(square, 0.0))
