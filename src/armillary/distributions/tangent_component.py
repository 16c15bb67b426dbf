"""Tangent Gaussians with their priors: mu uniform on the sphere, Sigma ~ IW(delta I, nu) in p = D - 1 coordinates.

Given mu     Sigma | mu, rows ~ IW(delta I + S_mu, nu + n); log m(rows | mu) in closed form      dp_tgmm.md, 3, (B)
Proposal     a multivariate t in a stereographic chart around three Karcher steps from the extrinsic mean, the shape of
             p(mu | rows) in flat space, with a scalar correction for curvature                               4, (C)
Evidence     -log A + (B) - log q                                                                             4, (D)
Update       Metropolis on mu with Sigma integrated out, proposals independent of where mu is                 4

The scale of the prior is a multiple of the identity: any other would depend on the frame. The proposal is a function of
the set of rows alone. A start that remembers the last mean, or a stopping rule, would break reversibility.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import integrate
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from armillary._typing import Float64Array
from armillary.distributions import inverse_wishart, tangent_gaussian
from armillary.distributions.components import Pivot, Statistics
from armillary.distributions.tangent_gaussian import RowSums, TangentGaussian
from armillary.geometry import sphere

_KARCHER_STEPS = 3
# Rows whose sum is shorter than this times their number have no direction in common.
_SHORTEST_RESULTANT = 1e-8
# Curvature can flatten the posterior of a mean entirely; the proposal is at most this much wider than in flat space.
_LEAST_CURVATURE = 0.15
# Sets of up to 4 D rows can have posteriors with several modes, which a share of uniform proposals reaches.
_UNIFORM_SHARE = 0.02
_FEW_ROWS = 4


@dataclass(frozen=True)
class TangentComponent:
    """The component of DP-TGMM."""

    n_features: int  # D >= 2
    scale: float  # delta > 0: the prior's scale matrix is delta I
    degrees: float  # nu > p - 1
    volume_factor: bool = True
    # what is done on sets of rows; samplers give compiled ones
    row_sums: Callable[..., RowSums] = field(default=tangent_gaussian.row_sums, repr=False, compare=False)
    scores: Callable[..., Float64Array] = field(default=tangent_gaussian.scores, repr=False, compare=False)

    @property
    def _dimension(self) -> int:
        return self.n_features - 1

    @cached_property
    def _log_area(self) -> float:
        return float(sphere.log_area(self.n_features))

    # -------------------------------------------------------------------------------------- the pivot

    def draw(self, rows: Float64Array, generator: np.random.Generator) -> tuple[Pivot, float]:
        """A mean from (C), and its evidence."""
        proposal = self.proposal(rows)
        mean = proposal.draw(generator)
        return mean, self._weigh(mean, rows, proposal)

    def evidence(self, pivot: Pivot, rows: Float64Array) -> float:
        """(D) at a given mean."""
        return self._weigh(_mean(pivot), rows, self.proposal(rows))

    def central_evidence(self, rows: Float64Array) -> float:
        """(D) at the centre of the proposal."""
        proposal = self.proposal(rows)
        return self._weigh(proposal.centre, rows, proposal)

    def _weigh(self, mean: Float64Array, rows: Float64Array, proposal: MeanProposal) -> float:
        return self.log_joint(mean, rows) - proposal.log_density(mean)

    def log_joint(self, pivot: Pivot, rows: Float64Array) -> float:
        """-log A + (B)."""
        sums = self.row_sums(rows, _mean(pivot))
        statistics = np.asarray(float(len(rows))), sums.scatter, np.asarray(sums.log_stretch)
        return float(self.log_marginal(statistics)) - self._log_area

    def update(self, pivot: Pivot, rows: Float64Array, generator: np.random.Generator) -> Pivot:
        """One Metropolis step with proposals from (C)."""
        proposal = self.proposal(rows)
        new = proposal.draw(generator)
        gain = self._weigh(new, rows, proposal) - self._weigh(_mean(pivot), rows, proposal)
        return new if -generator.standard_exponential() < gain else pivot

    def proposal(self, rows: Float64Array) -> MeanProposal:
        """(C) of a set of rows."""
        count, dimension = len(rows), self._dimension
        centre = self._rough_mean(rows)
        sums = self.row_sums(rows, centre, with_curvature=True)
        frame = sphere.tangent_frame(centre)
        shape = frame.T @ sums.scatter @ frame
        shape[np.diag_indices(dimension)] += self.scale
        curvature = self._curvature(sums, count, float(np.trace(shape)) / (dimension * (self.degrees + count)))
        freedom = self.degrees + count - dimension
        lower = np.asarray(np.linalg.cholesky(shape / (count * freedom * curvature)), dtype=np.float64)
        is_mixed = count <= _FEW_ROWS * self.n_features
        return MeanProposal(centre, frame, lower, freedom, _UNIFORM_SHARE if is_mixed else 0.0)

    def _curvature(self, sums: RowSums, count: int, variance: float) -> float:
        """How much flatter the posterior of a mean is than in flat space, as one number for all directions."""
        others = self._dimension - 1.0
        if count == 1 or others == 0.0:
            return 1.0
        curvature = (1.0 + others * sums.bend / count) / self._dimension
        if self.volume_factor:
            curvature -= others * variance * sums.sway / (count * self._dimension)
        return max(curvature, _LEAST_CURVATURE)

    def _rough_mean(self, rows: Float64Array) -> Float64Array:
        """A fixed number of Karcher steps from the extrinsic mean: a function of the set, without a stopping rule."""
        mean = _extrinsic_mean(rows, None)
        for _ in range(_KARCHER_STEPS if len(rows) > 1 else 0):
            mean = self._karcher_step(rows, mean, None)
        return mean

    def _karcher_step(self, rows: Float64Array, mean: Float64Array, weights: Float64Array | None) -> Float64Array:
        total = self.row_sums(rows, mean, weights, with_scatter=False).vector
        step = total / (len(rows) if weights is None else weights.sum())
        return sphere.exp(sphere.to_tangent(step, mean), mean)

    # -------------------------------------------------------------------------------- the other parameters

    def draw_parameters(self, pivot: Pivot, rows: Float64Array, generator: np.random.Generator) -> TangentGaussian:
        """Sigma from its inverse-Wishart law given the mean."""
        mean = _mean(pivot)
        posterior = self._posterior_scale(mean, rows, None)
        return TangentGaussian.of(mean, inverse_wishart.draw(posterior, self.degrees + len(rows), generator))

    def draw_prior(self, generator: np.random.Generator) -> TangentGaussian:
        """A mean anywhere, Sigma ~ IW(delta I, nu)."""
        mean = generator.standard_normal(self.n_features)
        mean /= np.linalg.norm(mean)
        scale = self.scale * np.eye(self._dimension)
        return TangentGaussian.of(mean, inverse_wishart.draw(scale, self.degrees, generator))

    def pivot_of(self, parameters: TangentGaussian) -> Pivot:
        """The mean."""
        return parameters.mean

    def point_estimate(self, rows: Float64Array, weights: Float64Array) -> TangentGaussian:
        """One Karcher step from the weighted extrinsic mean, and the mode of Sigma there."""
        mean = self._karcher_step(rows, _extrinsic_mean(rows, weights), weights)
        posterior = self._posterior_scale(mean, rows, weights)
        return TangentGaussian.of(mean, inverse_wishart.mode(posterior, self.degrees + float(weights.sum())))

    def _posterior_scale(self, mean: Float64Array, rows: Float64Array, weights: Float64Array | None) -> Float64Array:
        """delta I + S_mu (p, p) in the frame of the mean."""
        frame = sphere.tangent_frame(mean)
        scatter = self.row_sums(rows, mean, weights).scatter
        return np.asarray(frame.T @ scatter @ frame + self.scale * np.eye(self._dimension))

    def log_density(self, parameters: list[TangentGaussian], rows: Float64Array) -> Float64Array:
        """(A), (n, K)."""
        return tangent_gaussian.log_density(parameters, rows, volume_factor=self.volume_factor, by=self.scores)

    def sample(self, parameters: TangentGaussian, size: int, generator: np.random.Generator) -> Float64Array:
        """Rows (size, D)."""
        return tangent_gaussian.sample(parameters, size, generator)

    def summary(self, rows: Float64Array) -> tuple[Float64Array, float]:
        """The extrinsic mean, and the mean squared chord in each direction, held off 0 by the prior."""
        total = _total(rows, None)
        # sum |x - m|^2 of unit rows; where that cancels, the prior's scale is larger
        chords = max(2.0 * (len(rows) - float(np.linalg.norm(total))), 0.0)
        variance = (self.scale * self._dimension + chords) / (self._dimension * (self.degrees + len(rows)))
        return _direction(total, rows, None), variance

    def squared_distances(self, centre: Float64Array, centres: Float64Array) -> Float64Array:
        """Squared angles."""
        return np.asarray(sphere.angle(centre, centres) ** 2)

    # ---------------------------------------------------------------------------------- one row at a time

    def statistics(self, pivots: Float64Array | None, rows: Float64Array) -> Statistics:
        """Counts (n, K), scatters (n, K, D, D) and log volumes (n, K)."""
        assert pivots is not None, "a tangent Gaussian has a mean"
        seen = tangent_gaussian.log_map(rows[:, None], pivots)
        return np.ones(seen.angles.shape), tangent_gaussian.squares_of(seen, pivots), seen.log_stretch

    def log_marginal(self, statistics: Statistics) -> Float64Array:
        """(B)."""
        counts, scatters, stretches = statistics
        # log|delta I + B'S B| from the ambient matrix, which has delta left over along the mean
        shifted = scatters + self.scale * np.eye(self.n_features)
        log_determinants = np.linalg.slogdet(shifted)[1] - math.log(self.scale)
        prior = self._dimension * math.log(self.scale)
        flat = inverse_wishart.log_evidence(self._dimension, prior, self.degrees, log_determinants, counts)
        return np.asarray(flat + (self._dimension - 1.0) * stretches if self.volume_factor else flat)

    def log_prior_predictive(self, rows: Float64Array) -> Float64Array:
        """1/A by symmetry, times the share of tangent vectors shorter than pi."""
        return np.full(len(rows), self._log_prior_mass - self._log_area)

    @cached_property
    def _log_prior_mass(self) -> float:
        """log of the integral of m(x | mu) over x: a multivariate t within radius pi, with or without the volume."""
        dimension, freedom = self._dimension, self.degrees - self._dimension + 1.0
        log_height = (
            math.log(2.0)
            + gammaln(0.5 * (freedom + dimension))
            - gammaln(0.5 * freedom)
            - gammaln(0.5 * dimension)
            - 0.5 * dimension * math.log(self.scale)
        )
        bend = 0.0 if self.volume_factor else dimension - 1.0

        def density(radius: float) -> float:
            tail = -0.5 * (freedom + dimension) * math.log1p(radius * radius / self.scale)
            height = math.exp(log_height + (dimension - 1.0) * math.log(radius) + tail)
            return height * float(np.sinc(radius / math.pi) ** bend)

        edges = [0.0, *(bound for bound in math.sqrt(self.scale) * np.array([1.0, 4.0, 16.0]) if bound < math.pi)]
        pieces = [
            integrate.quad(density, max(low, 1e-300), high, epsabs=1e-13, epsrel=1e-12)[0]
            for low, high in zip(edges, [*edges[1:], math.pi], strict=True)
        ]
        return math.log(sum(pieces))

    def draw_pivot_of_one(self, row: Float64Array, generator: np.random.Generator) -> Pivot:
        """Its tangent vector has a multivariate t law around the row, within radius pi."""
        dimension, freedom = self._dimension, self.degrees - self._dimension + 1.0
        while True:
            spread = math.sqrt(self.scale / float(generator.chisquare(freedom)))
            coordinates = spread * generator.standard_normal(dimension)
            radius = float(np.linalg.norm(coordinates))
            kept = 1.0 if self.volume_factor else float(np.sinc(min(radius / math.pi, 1.0))) ** (dimension - 1.0)
            if radius < math.pi and generator.random() < kept:
                return sphere.exp(sphere.tangent_vector(coordinates, row), row)


class MeanProposal(NamedTuple):
    """A multivariate t law in the stereographic chart at `centre`, mixed with a share of the uniform law."""

    centre: Float64Array  # (D,)
    frame: Float64Array  # (D, p)
    lower: Float64Array  # (p, p) Cholesky factor of the shape
    freedom: float
    uniform_share: float

    def draw(self, generator: np.random.Generator) -> Float64Array:
        """One mean (D,)."""
        if self.uniform_share > 0.0 and generator.random() < self.uniform_share:
            anywhere = generator.standard_normal(len(self.centre))
            return np.asarray(anywhere / np.linalg.norm(anywhere))
        normal = self.lower @ generator.standard_normal(len(self.lower))
        y = normal * math.sqrt(self.freedom / float(generator.chisquare(self.freedom)))
        quarter = 0.25 * float(y @ y)
        mean = (1.0 - quarter) * self.centre + self.frame @ y
        return np.asarray(mean / np.linalg.norm(mean))

    def log_density(self, mean: Float64Array) -> float:
        """log q(mean), with respect to surface measure."""
        dimension = len(self.lower)
        # the antipode of the centre is no point of the chart
        y = 2.0 * (self.frame.T @ mean) / max(1.0 + float(self.centre @ mean), 1e-15)
        z = solve_triangular(self.lower, y, lower=True)
        freedom = self.freedom
        log_t = (
            float(gammaln(0.5 * (freedom + dimension)) - gammaln(0.5 * freedom))
            - 0.5 * dimension * math.log(freedom * math.pi)
            - float(np.log(np.diag(self.lower)).sum())
            - 0.5 * (freedom + dimension) * math.log1p(float(z @ z) / freedom)
        )
        # the chart stretches areas by (1 + |y|^2/4)^-p
        log_q = log_t + dimension * math.log1p(0.25 * float(y @ y))
        if self.uniform_share == 0.0:
            return log_q
        log_uniform = math.log(self.uniform_share) - float(sphere.log_area(len(self.centre)))
        return float(np.logaddexp(math.log1p(-self.uniform_share) + log_q, log_uniform))


def _mean(pivot: Pivot) -> Float64Array:
    assert pivot is not None, "a tangent Gaussian has a mean"
    return pivot


def _extrinsic_mean(rows: Float64Array, weights: Float64Array | None) -> Float64Array:
    """The direction of the sum; the leading axis, with its largest entry positive, where rows cancel."""
    return _direction(_total(rows, weights), rows, weights)


def _total(rows: Float64Array, weights: Float64Array | None) -> Float64Array:
    # a product is several times faster than a sum down three columns
    return np.asarray((np.ones(len(rows)) if weights is None else weights) @ rows)


def _direction(total: Float64Array, rows: Float64Array, weights: Float64Array | None) -> Float64Array:
    length = float(np.linalg.norm(total))
    if length >= _SHORTEST_RESULTANT * (len(rows) if weights is None else float(weights.sum())):
        return np.asarray(total / length)
    axis = np.linalg.eigh((rows if weights is None else weights[:, None] * rows).T @ rows)[1][:, -1]
    return np.asarray(axis * np.copysign(1.0, axis[np.argmax(np.abs(axis))]))
