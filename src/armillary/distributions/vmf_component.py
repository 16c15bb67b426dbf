"""von Mises-Fisher laws with a uniform direction and a concentration on a grid: the component of DP-vMF-MM.

Prior        mu uniform on the sphere, kappa one of G values with given probabilities             dp_tgmm.md, 12
Evidence     log sum_g P(kappa_g) c(kappa_g)^n c(0) / c(kappa_g |sum x|): exact, from n and sum x alone

With the concentration on a grid nothing is left that needs a Metropolis or slice step: kappa is drawn from the terms
of that sum, then mu from a von Mises-Fisher law.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from armillary._typing import Float64Array
from armillary.distributions import bessel, vmf
from armillary.distributions.components import CentresAndVariances, Evidences, Pivots, Sets, Statistics
from armillary.distributions.row_sets import RowSets, as_sets
from armillary.geometry import sphere

# Sums of rows count as no shorter than this times their number: a direction must be left to normalise.
_SHORTEST = 1e-12


class VonMisesFisher(NamedTuple):
    """Parameters of one law, or of several: the axes before those named here are theirs."""

    mean: Float64Array  # (D,) unit
    concentration: Float64Array  # ()


def log_grid(least: float, most: float, n_values: int) -> Float64Array:
    """Concentrations (G,) evenly spaced in their logarithm."""
    return np.asarray(np.geomspace(least, most, n_values))


def log_density(laws: VonMisesFisher, rows: Any) -> Float64Array:
    """Log densities (n, K) of unit rows (n, D), in nats with respect to surface measure; (n, 1) of a single law."""
    means, kappa = laws.mean.reshape(-1, rows.shape[1]), np.atleast_1d(laws.concentration)
    return np.asarray(bessel.log_normalizer(rows.shape[1], kappa) + kappa * (rows @ means.T))


@dataclass(frozen=True, eq=False)
class VmfComponent:
    """The component of DP-vMF-MM. It is integrated out whole: there are no pivots."""

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
        return Evidences(self.log_marginal(self.set_statistics(None, sets)))

    def update(self, pivots: Pivots, sets: Sets, generator: np.random.Generator) -> Pivots:
        """Nothing to update."""
        return pivots

    def draw_parameters(self, pivots: Pivots, sets: Sets, generator: np.random.Generator) -> VonMisesFisher:
        """kappa from the terms of the evidence, then mu."""
        sets = as_sets(sets)
        return self._draw(sets.counts, sets.totals(), generator)

    def renew(self, pivots: Pivots, sets: Sets, generator: np.random.Generator) -> tuple[Pivots, VonMisesFisher]:
        """`draw_parameters`."""
        return None, self.draw_parameters(None, sets, generator)

    def draw_prior(self, size: int, generator: np.random.Generator) -> VonMisesFisher:
        """kappa, and mu anywhere."""
        return self._draw(np.zeros(size), np.zeros((size, self.n_features)), generator)

    def _draw(self, counts: Float64Array, totals: Float64Array, generator: np.random.Generator) -> VonMisesFisher:
        terms = self._log_terms(counts, np.linalg.norm(totals, axis=1))
        cumulative = np.cumsum(np.exp(terms - terms.max(axis=1, keepdims=True)), axis=1)
        chosen = np.argmax(cumulative >= generator.random(len(counts))[:, None] * cumulative[:, -1:], axis=1)
        kappa = self.concentrations[chosen]
        laws = vmf.mean_posterior(totals, kappa, self._pole, 0.0)
        each = zip(laws.direction, laws.concentration, strict=True)
        means = [vmf.sample(direction, float(own), 1, generator)[0] for direction, own in each]
        return VonMisesFisher(np.array(means).reshape(totals.shape), kappa)

    def pivots_of(self, parameters: VonMisesFisher) -> Pivots:
        """There are none."""
        return None

    def point_estimate(self, sets: Sets) -> VonMisesFisher:
        """The directions of the sums, and the concentrations with the largest terms."""
        counts, totals = self.set_statistics(None, sets)
        terms = self._log_terms(counts, np.linalg.norm(totals, axis=1))
        return VonMisesFisher(self._directions(totals, counts), self.concentrations[np.argmax(terms, axis=1)])

    def _directions(self, totals: Float64Array, counts: Float64Array) -> Float64Array:
        lengths = np.linalg.norm(totals, axis=1, keepdims=True)
        has_one = lengths > _SHORTEST * counts[:, None]
        return np.where(has_one, totals / np.where(has_one, lengths, 1.0), self._pole)

    def log_density(self, parameters: VonMisesFisher, rows: Any) -> Float64Array:
        """(n, K)."""
        return log_density(parameters, rows)

    def sample(
        self, parameters: VonMisesFisher, cluster: int, size: int, generator: np.random.Generator
    ) -> Float64Array:
        """Rows (size, D)."""
        return vmf.sample(parameters.mean[cluster], float(parameters.concentration[cluster]), size, generator)

    def summary(self, sets: Sets) -> tuple[Float64Array, Float64Array]:
        """The directions of the sums, and mean squared chords in each direction, held off 0 by the grid's end."""
        return as_sets(sets).of_each((self, "summary"), self._summary)

    def _summary(self, sets: RowSets) -> CentresAndVariances:
        counts, totals = self.set_statistics(None, sets)
        means = self._directions(totals, counts)
        # sum |x - m|^2 of unit rows
        chords = np.maximum(2.0 * (1.0 - np.vecdot(means, totals) / counts), 0.0)
        variances = chords / (self.n_features - 1.0) + 1.0 / float(self.concentrations.max())
        return CentresAndVariances(means, variances)

    def squared_distances(self, centre: Float64Array, centres: Float64Array) -> Float64Array:
        """Squared angles."""
        return np.asarray(sphere.angle(centre, centres) ** 2)

    def set_statistics(self, pivots: Pivots, sets: Sets) -> Statistics:
        """Counts (G,) and sums (G, D)."""
        sets = as_sets(sets)
        return sets.counts, sets.totals()

    def statistics(self, pivots: Pivots, rows: Float64Array) -> Statistics:
        """Counts (n, 1) and rows (n, 1, D)."""
        return np.ones((len(rows), 1)), rows[:, None]

    def log_marginal(self, statistics: Statistics) -> Float64Array:
        """The log marginal likelihood (...)."""
        counts, totals = statistics
        return np.asarray(logsumexp(self._log_terms(counts, np.linalg.norm(totals, axis=-1)), axis=-1))

    def log_prior_predictive(self, rows: Any) -> Float64Array:
        """1/A by symmetry."""
        return np.full(rows.shape[0], -float(sphere.log_area(self.n_features)))

    def draw_pivot_of_one(self, row: Float64Array, generator: np.random.Generator) -> Pivots:
        """There is none."""
        return None
