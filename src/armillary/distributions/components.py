"""What a sampler of mixtures asks of a component: the one door between `models/` and the laws of clusters.

A cluster is a set of rows and, where the component has one, a *pivot*: the part of its parameters that cannot be
integrated out in closed form. Tangent Gaussians have their mean as pivot; Gaussians and von Mises-Fisher laws have
none (None). Given the pivot, rows enter a cluster's marginal likelihood through sums only (`statistics`).

The *evidence* of a set with a pivot is log p(pivot) + log m(rows | pivot) - log q(pivot | rows), with q the law that
`draw` proposes from; without a pivot it is the log marginal likelihood (dp_tgmm.md, 4, equation D). Acceptance
ratios of split and merge moves are made of it.

Sets of rows are float64 arrays (n, D), n >= 1, in increasing order of row number: q is then the same to the bit
whenever the same set is looked at.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np

from armillary._typing import Float64Array

# The mean of a tangent Gaussian, (D,); None for components that are integrated out whole.
Pivot: TypeAlias = "Float64Array | None"
# Sums over rows, each with the axes of the clusters first: adding and subtracting them adds and removes rows.
Statistics: TypeAlias = "tuple[Float64Array, ...]"
# All parameters of one cluster: a NamedTuple of the component's own, whose fields can be stacked.
Parameters: TypeAlias = Any


class Component(Protocol):
    """The law of the rows of a cluster, with its prior."""

    @property
    def n_features(self) -> int:
        """D."""

    def draw(self, rows: Float64Array, generator: np.random.Generator) -> tuple[Pivot, float]:
        """A pivot proposed for these rows, and its evidence."""

    def evidence(self, pivot: Pivot, rows: Float64Array) -> float:
        """The evidence of these rows with a given pivot."""

    def central_evidence(self, rows: Float64Array) -> float:
        """The evidence at the centre of the proposal: a function of the set alone, for starts only."""

    def log_joint(self, pivot: Pivot, rows: Float64Array) -> float:
        """log p(pivot) + log m(rows | pivot)."""

    def update(self, pivot: Pivot, rows: Float64Array, generator: np.random.Generator) -> Pivot:
        """One step that leaves p(pivot | rows) invariant."""

    def draw_parameters(self, pivot: Pivot, rows: Float64Array, generator: np.random.Generator) -> Parameters:
        """The rest of the parameters from their law given pivot and rows."""

    def draw_prior(self, generator: np.random.Generator) -> Parameters:
        """Parameters from the prior."""

    def pivot_of(self, parameters: Parameters) -> Pivot:
        """The pivot inside parameters."""

    def point_estimate(self, rows: Float64Array, weights: Float64Array) -> Parameters:
        """Parameters that fit weighted rows (weights (n,), not all 0): a posterior mode, or near one."""

    def log_density(self, parameters: list[Parameters], rows: Float64Array) -> Float64Array:
        """Log densities (n, K)."""

    def sample(self, parameters: Parameters, size: int, generator: np.random.Generator) -> Float64Array:
        """Rows (size, D) of one cluster."""

    def summary(self, rows: Float64Array) -> tuple[Float64Array, float]:
        """Centre (D,) and variance in each direction: for choosing pairs of clusters."""

    def squared_distances(self, centre: Float64Array, centres: Float64Array) -> Float64Array:
        """Squared distances (K,) of a centre (D,) to others (K, D), in the units of `summary`'s variances."""

    def statistics(self, pivots: Float64Array | None, rows: Float64Array) -> Statistics:
        """Statistics (n, K, ...) of each row alone under each pivot (K, D); (n, 1, ...) where there are none."""

    def log_marginal(self, statistics: Statistics) -> Float64Array:
        """log m(rows | pivot) (...) of sets with these statistics; 0 for an empty set."""

    def log_prior_predictive(self, rows: Float64Array) -> Float64Array:
        """Log density (n,) of a row alone in a new cluster, the pivot integrated out."""

    def draw_pivot_of_one(self, row: Float64Array, generator: np.random.Generator) -> Pivot:
        """A pivot from its exact law given one row (D,)."""
