"""The posterior of a concentration, in y = log kappa, with the direction integrated out.

Model        log kappa ~ Normal(m, s2), mu ~ vMF(mu_0, C_0), rows ~ vMF(mu, kappa)           vmf_mixtures.md, 5.1
Target       g(y) = -n log H(e^y) + log H(|w|) - log H(C_0) + log Normal(y | m, s2)          vmf_mixtures.md, 5.6, 7
             |w|^2 = kappa^2 |R|^2 + 2 kappa C_0 R.mu_0 + C_0^2

In y the log-normal prior is a normal density: the Jacobian of the change of variable has taken its -log kappa.
Densities are relative to the uniform law on the sphere: one log area for each row is left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from armillary._typing import ArrayLike, Float64Array
from armillary.distributions import bessel

# Beyond, n log H(kappa) and R kappa are differences of numbers above 1e11, and the target is noise.
LOWEST, HIGHEST = -23.0, 27.0
LEAST_VARIANCE = 1e-6
# Directions of a prior's components: with one component C_0 has no best value, and 1e6 D/2 is as good as any beyond.
_DIRECTIONS_GAP = 1e-6
# Mean resultant lengths of rows are held below 1 by what their rounding can tell: unit rows of float32 have lengths to
# within 1e-7, and those of float64 leave their sums twelve digits.
_FLOAT32_GAP, _FLOAT64_GAP = 1e-6, 1e-12


def length_gap(dtype: np.dtype[Any]) -> float:
    """How far below 1 a mean resultant length of rows of this type is held, where a concentration is fitted to it."""
    return _FLOAT32_GAP if dtype == np.float32 else _FLOAT64_GAP


@dataclass(frozen=True)
class MixturePrior:
    """The prior of the components: directions vMF(mu_0, C_0), log concentrations Normal(m, s2).

    mu_0 and C_0 are one for all components or one for each. Fits are those of empirical Bayes (vmf_mixtures.md, 5.5).
    """

    mean_direction: Float64Array  # (D,) or (K, D) mu_0
    mean_concentration: float | Float64Array  # C_0, or (K,)
    log_mean: float  # m
    log_variance: float  # s2
    n_columns: int | None = None  # D, where directions are given in other coordinates

    @classmethod
    def of_vectors(
        cls, vectors: Float64Array, log_mean: float, log_variance: float, n_columns: int | None = None
    ) -> MixturePrior:
        """Directions with a natural vector C_0 mu_0 each (K, D): what a parent or neighbours say of them.

        Bounds then count log H of the vectors' lengths for the normaliser; a model for which it is something else, such
        as E[log H(kappa)] of the parent, adds the difference, which no update of these components depends on.
        """
        lengths = np.linalg.norm(vectors, axis=1)
        directions = np.zeros_like(vectors)
        directions[:, 0] = 1.0  # a vector of length 0 has none; any will do
        is_there = lengths > 0.0
        directions[is_there] = vectors[is_there] / lengths[is_there, None]
        return cls(directions, lengths, log_mean, log_variance, n_columns)

    @property
    def dimension(self) -> int:
        """D."""
        return self.n_columns or self.mean_direction.shape[-1]

    def fitted_to_directions(self, total: Float64Array, n_directions: int) -> MixturePrior:
        """With the mu_0 and C_0 that are best for directions whose expectations sum to `total` (D,)."""
        length = float(np.linalg.norm(total))
        if length == 0.0:
            return replace(self, mean_concentration=0.0)
        share = min(length / n_directions, 1.0 - _DIRECTIONS_GAP)
        concentration = float(bessel.concentration_from_resultant(self.dimension, share))
        return replace(self, mean_direction=total / length, mean_concentration=concentration)

    def fitted_to_logs(self, means: Float64Array, variances: float | Float64Array = 0.0) -> MixturePrior:
        """With the m and s2 that are best for log concentrations of these means and variances."""
        mean = float(means.mean())
        variance = float((variances + (means - mean) ** 2).mean())
        return replace(self, log_mean=mean, log_variance=max(variance, LEAST_VARIANCE))


class DirectionSums(NamedTuple):
    """What the target needs of the rows of components (...): counts, |R|^2 and R.mu_0."""

    counts: Float64Array
    squares: Float64Array
    projections: Float64Array


def log_target(y: ArrayLike, sums: DirectionSums, prior: MixturePrior) -> Float64Array:
    """g(y) of each component (...); y broadcasts with the sums."""
    return JointTarget(sums.counts, prior, sums.squares, sums.projections).value(np.asarray(y, dtype=np.float64))


def projections_on(directions: Float64Array, vectors: Float64Array) -> Float64Array:
    """v.mu of vectors (K, D) or (D,) with one direction (D,) for all or one each (K, D)."""
    return np.asarray(vectors @ directions if directions.ndim == 1 else np.vecdot(vectors, directions))


def natural_length(
    kappa: Float64Array, squares: Float64Array, projections: Float64Array, prior: MixturePrior
) -> Float64Array:
    """|w| = |kappa R + C_0 mu_0| from |R|^2 and R.mu_0; rounding can leave the square a little below 0."""
    c = prior.mean_concentration
    square = kappa * (kappa * squares + 2.0 * c * projections) + c * c
    return np.sqrt(np.maximum(square, 0.0))


@dataclass(frozen=True, eq=False)
class Target(ABC):
    """The log density of K log concentrations with its derivatives: rows, what the directions gain, and the prior.

    value(y) = -n log H(kappa) + gain(kappa) + log Normal(y | m, s2), with kappa = e^y of shape (..., K).
    """

    counts: Float64Array  # (K,) n
    prior: MixturePrior

    @property
    def dimension(self) -> int:
        """D."""
        return self.prior.dimension

    @property
    @abstractmethod
    def mean_lengths(self) -> Float64Array:
        """(K,) the mean resultant length that the rows alone ask for; 0 where there are none."""

    @abstractmethod
    def gain(self, kappa: Float64Array) -> Float64Array:
        """What the directions add, (..., K)."""

    @abstractmethod
    def gain_derivatives(self, kappa: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Its first and second derivative in kappa."""

    def value(self, y: Float64Array) -> Float64Array:
        """The log density, up to a constant."""
        kappa = np.exp(y)
        variance = self.prior.log_variance
        return np.asarray(
            self.gain(kappa)
            - self.counts * np.asarray(bessel.log_h(0.5 * self.dimension - 1.0, kappa))
            - (y - self.prior.log_mean) ** 2 / (2.0 * variance)
            - 0.5 * np.log(2.0 * np.pi * variance)
        )

    def derivatives(self, y: Float64Array) -> tuple[Float64Array, Float64Array]:
        """First and second derivative in y."""
        kappa = np.exp(y)
        gain, bend = self.gain_derivatives(kappa)
        pull = kappa * (gain - self.counts * np.asarray(bessel.mean_resultant_length(self.dimension, kappa)))
        own = self.counts * np.asarray(bessel.mean_resultant_derivative(self.dimension, kappa))
        slope = pull - (y - self.prior.log_mean) / self.prior.log_variance
        return slope, pull + kappa * kappa * (bend - own) - 1.0 / self.prior.log_variance


@dataclass(frozen=True, eq=False)
class JointTarget(Target):
    """g(y): the direction integrated out (vmf_mixtures.md, 5.6). The gain is log H(|w|) - log H(C_0)."""

    squares: Float64Array  # (K,) |R|^2
    projections: Float64Array  # (K,) R.mu_0

    @classmethod
    def of(cls, counts: Float64Array, resultants: Float64Array, prior: MixturePrior) -> JointTarget:
        """From counts (K,) and resultants (K, D)."""
        return cls(counts, prior, np.vecdot(resultants, resultants), projections_on(prior.mean_direction, resultants))

    @property
    def mean_lengths(self) -> Float64Array:
        """|R|/n."""
        return _ratio(np.sqrt(self.squares), self.counts)

    def gain(self, kappa: Float64Array) -> Float64Array:
        """log H(|w|) - log H(C_0)."""
        order = 0.5 * self.dimension - 1.0
        length = natural_length(kappa, self.squares, self.projections, self.prior)
        return np.asarray(bessel.log_h(order, length) - bessel.log_h(order, self.prior.mean_concentration))

    def gain_derivatives(self, kappa: Float64Array) -> tuple[Float64Array, Float64Array]:
        """R.E[mu], and R' V R with the Hessian V of log H(|w|): A' along w, A/|w| across it."""
        c = self.prior.mean_concentration
        length = natural_length(kappa, self.squares, self.projections, self.prior)
        slope = natural_slope(self.dimension, length)
        along = kappa * self.squares + c * self.projections  # R.w
        # |R|^2 |w|^2 - (R.w)^2 is C_0^2 (|R|^2 - (R.mu_0)^2): what R has across mu_0
        across = c * c * np.maximum(self.squares - self.projections**2, 0.0)
        bend = np.asarray(bessel.mean_resultant_derivative(self.dimension, length)) * along**2 + slope * across
        is_there = length > 0.0  # at w = 0 the Hessian is 1/D in every direction
        square = np.where(is_there, length * length, 1.0)
        return slope * along, np.where(is_there, bend / square, self.squares / self.dimension)


@dataclass(frozen=True, eq=False)
class ProjectedTarget(Target):
    """f(y): the direction has a law of its own (vmf_mixtures.md, 5.3). The gain is s kappa with s = R.E[mu]."""

    projections: Float64Array  # (K,) s

    @property
    def mean_lengths(self) -> Float64Array:
        """s/n, where that is positive."""
        return _ratio(np.maximum(self.projections, 0.0), self.counts)

    def gain(self, kappa: Float64Array) -> Float64Array:
        """s kappa."""
        return self.projections * kappa

    def gain_derivatives(self, kappa: Float64Array) -> tuple[Float64Array, Float64Array]:
        """s and 0."""
        return np.broadcast_to(self.projections, kappa.shape), np.zeros_like(kappa)


def natural_slope(dimension: int, length: Float64Array) -> Float64Array:
    """u = A(|w|)/|w|, 1/D at w = 0: a direction with the natural vector w has the mean u w."""
    is_there = length > 0.0
    ratio = np.asarray(bessel.mean_resultant_length(dimension, length)) / np.where(is_there, length, 1.0)
    return np.where(is_there, ratio, 1.0 / dimension)


def _ratio(lengths: Float64Array, counts: Float64Array) -> Float64Array:
    """A mean length below 1; 0 where there are no rows."""
    is_there = counts > 0.0
    return np.minimum(np.where(is_there, lengths, 0.0) / np.where(is_there, counts, 1.0), 1.0 - _FLOAT64_GAP)
