"""Tangent Gaussians with their priors: mu uniform on the sphere, Sigma ~ IW(delta I, nu) in p = D - 1 coordinates.

Given mu     Sigma | mu, rows ~ IW(delta I + S_mu, nu + n); log m(rows | mu) in closed form      dp_tgmm.md, 3, (B)
Proposal     a multivariate t in a stereographic chart around two Karcher steps from the extrinsic mean, the shape of
             p(mu | rows) in flat space, with a scalar correction for curvature                               4, (C)
Evidence     -log A + (B) - log q                                                                             4, (D)
Update       Metropolis on mu with Sigma integrated out, proposals independent of where mu is                 4

The scale of the prior is a multiple of the identity: any other would depend on the frame. The proposal is a function of
the set of rows alone. A start that remembers the last mean, or a stopping rule, would break reversibility.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import integrate
from scipy.special import gammaln

from armillary._typing import Float64Array
from armillary.distributions import inverse_wishart, tangent_gaussian
from armillary.distributions.components import CentresAndVariances, Pivots, Sets, Statistics
from armillary.distributions.row_sets import RowSets, as_sets
from armillary.distributions.tangent_gaussian import RowSums, TangentGaussian, TangentSums
from armillary.geometry import sphere

# Steps from the extrinsic mean to the centre of a proposal. The page has three; acceptance is the same with two, from
# 0.3 to 0.6 radians in three dimensions and at 0.25 in twenty.
_KARCHER_STEPS = 2
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

    @property
    def _dimension(self) -> int:
        return self.n_features - 1

    @cached_property
    def _prior_scale(self) -> Float64Array:
        """delta I (p, p)."""
        return self.scale * np.eye(self._dimension)

    @cached_property
    def _log_area(self) -> float:
        return float(sphere.log_area(self.n_features))

    # -------------------------------------------------------------------------------------- the pivots

    def draw(self, sets: Sets, generator: np.random.Generator) -> tuple[Pivots, Float64Array]:
        """Means from (C), and their evidences."""
        sets = as_sets(sets)
        proposal = self.proposal(sets)
        means = proposal.draw(generator)
        return means, self._weigh(means, sets, proposal)[0]

    def evidence(self, pivots: Pivots, sets: Sets) -> Float64Array:
        """(D) at given means."""
        sets = as_sets(sets)
        return self._weigh(_means(pivots), sets, self.proposal(sets))[0]

    def central_evidence(self, sets: Sets) -> Float64Array:
        """(D) at the centre of the proposal."""
        sets = as_sets(sets)
        proposal = self.proposal(sets)
        return self._weigh(proposal.centres, sets, proposal)[0]

    def _weigh(self, means: Float64Array, sets: RowSets, proposal: MeanProposal) -> tuple[Float64Array, Float64Array]:
        """Evidences (G,), and the scatters (G, D, D) they were made of."""
        statistics = self.set_statistics(means, sets)
        return self._log_joint(statistics) - proposal.log_density(means), statistics[1]

    def log_joint(self, pivots: Pivots, sets: Sets) -> Float64Array:
        """-log A + (B)."""
        return self._log_joint(self.set_statistics(pivots, sets))

    def _log_joint(self, statistics: Statistics) -> Float64Array:
        return self.log_marginal(statistics) - self._log_area

    def update(self, pivots: Pivots, sets: Sets, generator: np.random.Generator) -> Pivots:
        """One Metropolis step with proposals from (C)."""
        return self._step(_means(pivots), as_sets(sets), generator)[0]

    def _step(
        self, means: Float64Array, sets: RowSets, generator: np.random.Generator
    ) -> tuple[Float64Array, Float64Array]:
        """The means after a Metropolis step, and the scatters there."""
        proposal = self.proposal(sets)
        new = proposal.draw(generator)
        # the old means first: sets may remember the sums there
        before, scatters = self._weigh(means, sets, proposal)
        after, new_scatters = self._weigh(new, sets, proposal)
        is_accepted = -generator.standard_exponential(len(means)) < after - before
        chosen = np.where(is_accepted[:, None], new, means)
        return chosen, np.where(is_accepted[:, None, None], new_scatters, scatters)

    def proposal(self, sets: Sets) -> MeanProposal:
        """(C) of sets of rows."""
        sets = as_sets(sets)
        shapes = sets.of_each((self, "proposal"), self._shapes)
        # frames are made anew: as they are laid out, products with them have other bits than with a copy
        return MeanProposal(
            shapes.centres, sphere.tangent_frame(shapes.centres), shapes.lowers, shapes.freedoms, shapes.uniform_shares
        )

    def _shapes(self, sets: RowSets) -> _Shapes:
        counts, dimension = sets.counts, self._dimension
        means = self._extrinsic_means(sets)
        for _ in range(_KARCHER_STEPS - 1):
            means = self._karcher_step(sets, means)
        sums = sets.tangent_sums(means, with_curvature=True)
        # the last step without another pass over the rows
        there = TangentSums(counts, means, sums.scatter).centred(sums.vector)
        frames = sphere.tangent_frame(there.base)
        shapes = self._within(frames, there.scatter)
        variances = np.trace(shapes, axis1=1, axis2=2) / (dimension * (self.degrees + counts))
        freedoms = self.degrees + counts - dimension
        widths = counts * freedoms * self._curvature(sums, counts, variances)
        lowers: Float64Array = np.linalg.cholesky(shapes / widths[:, None, None]).astype(np.float64, copy=False)
        shares = np.where(counts <= _FEW_ROWS * self.n_features, _UNIFORM_SHARE, 0.0)
        return _Shapes(there.base, lowers, freedoms, shares)

    def _curvature(self, sums: RowSums, counts: Float64Array, variances: Float64Array) -> Float64Array:
        """How much flatter the posterior of each mean is than in flat space, as one number for all directions."""
        others = self._dimension - 1.0
        if others == 0.0:
            return np.ones(len(counts))
        curvature = (1.0 + others * sums.bend / counts) / self._dimension
        if self.volume_factor:
            curvature -= others * variances * sums.sway / (counts * self._dimension)
        return np.where(counts == 1.0, 1.0, np.maximum(curvature, _LEAST_CURVATURE))

    def _extrinsic_means(self, sets: RowSets) -> Float64Array:
        """The directions of the sums; the leading axis, with its largest entry positive, where rows cancel."""
        totals = sets.totals()
        lengths = np.linalg.norm(totals, axis=1)
        has_none = lengths < _SHORTEST_RESULTANT * sets.counts
        means = totals / np.where(has_none, 1.0, lengths)[:, None]
        if has_none.any():
            axes = np.linalg.eigh(sets.scatters(np.zeros_like(totals))[has_none])[1][:, :, -1]
            largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
            means[has_none] = axes * np.copysign(1.0, largest)
        return np.asarray(means)

    def _karcher_step(self, sets: RowSets, means: Float64Array) -> Float64Array:
        steps = sets.tangent_sums(means, with_scatter=False).vector / sets.counts[:, None]
        return sphere.exp(sphere.to_tangent(steps, means), means)

    # -------------------------------------------------------------------------------- the other parameters

    def draw_parameters(self, pivots: Pivots, sets: Sets, generator: np.random.Generator) -> TangentGaussian:
        """Sigma from its inverse-Wishart law given the mean."""
        sets, means = as_sets(sets), _means(pivots)
        return self._draw_laws(means, sets.tangent_sums(means).scatter, sets.counts, generator)

    def renew(self, pivots: Pivots, sets: Sets, generator: np.random.Generator) -> tuple[Pivots, TangentGaussian]:
        """The Metropolis step has the scatters that Sigma is drawn from."""
        sets = as_sets(sets)
        means, scatters = self._step(_means(pivots), sets, generator)
        return means, self._draw_laws(means, scatters, sets.counts, generator)

    def _draw_laws(
        self, means: Float64Array, scatters: Float64Array, counts: Float64Array, generator: np.random.Generator
    ) -> TangentGaussian:
        frames = sphere.tangent_frame(means)
        scales = self._within(frames, scatters)
        return TangentGaussian.of(means, inverse_wishart.draw(scales, self.degrees + counts, generator), frames)

    def draw_prior(self, size: int, generator: np.random.Generator) -> TangentGaussian:
        """Means anywhere, Sigma ~ IW(delta I, nu)."""
        means = generator.standard_normal((size, self.n_features))
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        scales = np.tile(self.scale * np.eye(self._dimension), (size, 1, 1))
        return TangentGaussian.of(means, inverse_wishart.draw(scales, self.degrees, generator))

    def pivots_of(self, parameters: TangentGaussian) -> Pivots:
        """The means."""
        return parameters.mean

    def point_estimate(self, sets: Sets) -> TangentGaussian:
        """One Karcher step from the extrinsic mean, and the mode of Sigma there."""
        sets = as_sets(sets)
        means = self._karcher_step(sets, self._extrinsic_means(sets))
        frames = sphere.tangent_frame(means)
        scales = self._within(frames, sets.tangent_sums(means).scatter)
        return TangentGaussian.of(means, inverse_wishart.mode(scales, self.degrees + sets.counts), frames)

    def _within(self, frames: Float64Array, scatters: Float64Array) -> Float64Array:
        """delta I + S (G, p, p) in the coordinates of frames (G, D, p)."""
        return np.asarray(frames.mT @ scatters @ frames + self._prior_scale)

    def log_density(self, parameters: TangentGaussian, rows: Float64Array) -> Float64Array:
        """(A), (n, K)."""
        return tangent_gaussian.log_density(parameters, rows, volume_factor=self.volume_factor)

    def sample(
        self, parameters: TangentGaussian, cluster: int, size: int, generator: np.random.Generator
    ) -> Float64Array:
        """Rows (size, D)."""
        one = TangentGaussian(*(field[cluster] for field in parameters))
        return tangent_gaussian.sample(one, size, generator)

    def summary(self, sets: Sets) -> tuple[Float64Array, Float64Array]:
        """Extrinsic means, and mean squared chords in each direction, held off 0 by the prior."""
        return as_sets(sets).of_each((self, "summary"), self._summary)

    def _summary(self, sets: RowSets) -> CentresAndVariances:
        means = self._extrinsic_means(sets)
        # sum |x - m|^2 of unit rows; where that cancels, the prior's scale is larger
        chords = np.maximum(2.0 * (sets.counts - np.vecdot(means, sets.totals())), 0.0)
        variances = (self.scale * self._dimension + chords) / (self._dimension * (self.degrees + sets.counts))
        return CentresAndVariances(means, variances)

    def squared_distances(self, centre: Float64Array, centres: Float64Array) -> Float64Array:
        """Squared angles."""
        return np.asarray(sphere.angle(centre, centres) ** 2)

    # ---------------------------------------------------------------------------------- one row at a time

    def set_statistics(self, pivots: Pivots, sets: Sets) -> Statistics:
        """Counts (G,), scatters (G, D, D) and log volumes (G,)."""
        sets = as_sets(sets)
        sums = sets.tangent_sums(_means(pivots))
        return sets.counts, sums.scatter, sums.log_stretch

    def statistics(self, pivots: Pivots, rows: Float64Array) -> Statistics:
        """Counts (n, K), scatters (n, K, D, D) and log volumes (n, K)."""
        means = _means(pivots)
        seen = tangent_gaussian.log_map(rows[:, None], means)
        return np.ones(seen.angles.shape), tangent_gaussian.squares_of(seen, means), seen.log_stretch

    def log_marginal(self, statistics: Statistics) -> Float64Array:
        """(B)."""
        counts, scatters, stretches = statistics
        # log|delta I + B'S B| from the ambient matrix, which has delta left over along the mean
        shifted = scatters + self.scale * np.eye(self.n_features)
        log_determinants = np.linalg.slogdet(shifted)[1] - math.log(self.scale)
        prior = self._dimension * math.log(self.scale)
        flat = inverse_wishart.log_evidence(self._dimension, prior, self.degrees, log_determinants, counts)
        return np.asarray(flat + (self._dimension - 1.0) * stretches if self.volume_factor else flat)

    def log_prior_predictive(self, rows: Any) -> Float64Array:
        """1/A by symmetry, times the share of tangent vectors shorter than pi."""
        return np.full(rows.shape[0], self._log_prior_mass - self._log_area)

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

    def draw_pivot_of_one(self, row: Float64Array, generator: np.random.Generator) -> Pivots:
        """Its tangent vector has a multivariate t law around the row, within radius pi."""
        dimension, freedom = self._dimension, self.degrees - self._dimension + 1.0
        while True:
            spread = math.sqrt(self.scale / float(generator.chisquare(freedom)))
            coordinates = spread * generator.standard_normal(dimension)
            radius = float(np.linalg.norm(coordinates))
            kept = 1.0 if self.volume_factor else float(np.sinc(min(radius / math.pi, 1.0))) ** (dimension - 1.0)
            if radius < math.pi and generator.random() < kept:
                return sphere.exp(sphere.tangent_vector(coordinates, row), row)[None]


class _Shapes(NamedTuple):
    """A proposal but for its frames: see `MeanProposal`."""

    centres: Float64Array  # (G, D)
    lowers: Float64Array  # (G, p, p)
    freedoms: Float64Array  # (G,)
    uniform_shares: Float64Array  # (G,)


class MeanProposal(NamedTuple):
    """Multivariate t laws in the stereographic charts at G centres, mixed with a share of the uniform law."""

    centres: Float64Array  # (G, D)
    frames: Float64Array  # (G, D, p)
    lowers: Float64Array  # (G, p, p) Cholesky factors of the shapes
    freedoms: Float64Array  # (G,)
    uniform_shares: Float64Array  # (G,)

    def draw(self, generator: np.random.Generator) -> Float64Array:
        """One mean for each (G, D)."""
        n_sets, dimension = self.lowers.shape[:2]
        normals = (self.lowers @ generator.standard_normal((n_sets, dimension, 1)))[..., 0]
        y = normals * np.sqrt(self.freedoms / generator.chisquare(self.freedoms))[:, None]
        means = (1.0 - 0.25 * np.vecdot(y, y))[:, None] * self.centres + (self.frames @ y[..., None])[..., 0]
        anywhere = generator.standard_normal((n_sets, dimension + 1))
        is_anywhere = generator.random(n_sets) < self.uniform_shares
        chosen = np.where(is_anywhere[:, None], anywhere, means)
        return np.asarray(chosen / np.linalg.norm(chosen, axis=1, keepdims=True))

    def log_density(self, means: Float64Array) -> Float64Array:
        """log q(mean) (G,), with respect to surface measure."""
        dimension, freedoms = self.lowers.shape[1], self.freedoms
        # the antipode of the centre is no point of the chart
        nearness = np.maximum(1.0 + np.vecdot(self.centres, means), 1e-15)
        y = 2.0 * (means[:, None] @ self.frames)[:, 0] / nearness[:, None]
        z = np.linalg.solve(self.lowers, y[..., None])[..., 0]
        log_t = (
            gammaln(0.5 * (freedoms + dimension))
            - gammaln(0.5 * freedoms)
            - 0.5 * dimension * np.log(freedoms * math.pi)
            - np.log(np.diagonal(self.lowers, axis1=1, axis2=2)).sum(axis=1)
            - 0.5 * (freedoms + dimension) * np.log1p(np.vecdot(z, z) / freedoms)
        )
        # the chart stretches areas by (1 + |y|^2/4)^-p
        log_q = log_t + dimension * np.log1p(0.25 * np.vecdot(y, y))
        with np.errstate(divide="ignore"):
            log_uniform = np.log(self.uniform_shares) - float(sphere.log_area(dimension + 1))
        return np.asarray(np.logaddexp(np.log1p(-self.uniform_shares) + log_q, log_uniform))


def _means(pivots: Pivots) -> Float64Array:
    assert pivots is not None, "a tangent Gaussian has a mean"
    return pivots
