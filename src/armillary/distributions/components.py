"""What a sampler of mixtures asks of a component: the one door between `models/` and the laws of clusters.

A cluster is a set of rows and, where the component has one, a *pivot*: the part of its parameters that cannot be
integrated out in closed form. Tangent Gaussians have their mean as pivot; Gaussians and von Mises-Fisher laws have
none (None). Given the pivot, rows enter a cluster's marginal likelihood through sums only (`statistics`).

The *evidence* of a set with a pivot is log p(pivot) + log m(rows | pivot) - log q(pivot | rows), with q the law that
`draw` proposes from; without a pivot it is the log marginal likelihood (dp_tgmm.md, 4, equation D). Acceptance
ratios of split and merge moves are made of it.

Everything works on G sets at once (`row_sets.py`), the axis of the sets first: a sweep over thirty clusters is then a
few operations on arrays. Where sets are asked for, rows (n, D) are one set. q is a function of the set alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from armillary._typing import Float64Array
from armillary.distributions.row_sets import RowSets

# Means of tangent Gaussians, (G, D); None for components that are integrated out whole.
Pivots: TypeAlias = "Float64Array | None"
# Sums over rows, each with the axes of the clusters first: adding and subtracting them adds and removes rows.
Statistics: TypeAlias = "tuple[Float64Array, ...]"
# All parameters of G clusters: a NamedTuple of the component's own, whose fields have the axis of the clusters first.
Parameters: TypeAlias = Any

# Sets, or rows (n, D) of one.
Sets: TypeAlias = "RowSets | Float64Array"
T = TypeVar("T", bound=Any)


class CentresAndVariances(NamedTuple):
    """What pairs of clusters are chosen by."""

    centres: Float64Array  # (G, D)
    variances: Float64Array  # (G,) in each direction


class Evidences(NamedTuple):
    """Log marginal likelihoods of sets without pivots."""

    logs: Float64Array  # (G,)


def joined(first: T, second: T) -> T:
    """The parameters of more clusters, those of `first` before those of `second`."""
    return type(first)(*(np.concatenate(parts) for parts in zip(first, second, strict=True)))


class Component(Protocol):
    """The law of the rows of a cluster, with its prior."""

    @property
    def n_features(self) -> int:
        """D."""

    def draw(self, sets: Sets, generator: np.random.Generator) -> tuple[Pivots, Float64Array]:
        """A pivot proposed for each set, and its evidence (G,)."""

    def evidence(self, pivots: Pivots, sets: Sets) -> Float64Array:
        """The evidence (G,) of sets with given pivots."""

    def central_evidence(self, sets: Sets) -> Float64Array:
        """The evidence (G,) at the centre of the proposal: a function of the set alone, for starts and answers."""

    def log_joint(self, pivots: Pivots, sets: Sets) -> Float64Array:
        """log p(pivot) + log m(rows | pivot), (G,)."""

    def update(self, pivots: Pivots, sets: Sets, generator: np.random.Generator) -> Pivots:
        """One step that leaves p(pivot | rows) invariant."""

    def draw_parameters(self, pivots: Pivots, sets: Sets, generator: np.random.Generator) -> Parameters:
        """The rest of the parameters from their law given pivots and rows."""

    def renew(self, pivots: Pivots, sets: Sets, generator: np.random.Generator) -> tuple[Pivots, Parameters]:
        """`update`, then `draw_parameters`."""

    def draw_prior(self, size: int, generator: np.random.Generator) -> Parameters:
        """Parameters of `size` clusters from the prior."""

    def pivots_of(self, parameters: Parameters) -> Pivots:
        """The pivots inside parameters."""

    def point_estimate(self, sets: Sets) -> Parameters:
        """Parameters that fit the sets: a posterior mode, or near one."""

    def log_density(self, parameters: Parameters, rows: Float64Array) -> Float64Array:
        """Log densities (n, K) of rows (n, D)."""

    def sample(self, parameters: Parameters, cluster: int, size: int, generator: np.random.Generator) -> Float64Array:
        """Rows (size, D) of one cluster."""

    def summary(self, sets: Sets) -> tuple[Float64Array, Float64Array]:
        """Centres (G, D) and variances in each direction (G,): for choosing pairs of clusters."""

    def squared_distances(self, centre: Float64Array, centres: Float64Array) -> Float64Array:
        """Squared distances (..., K) of centres (..., 1, D) to others (K, D), in the units of `summary`'s variances."""

    def set_statistics(self, pivots: Pivots, sets: Sets) -> Statistics:
        """Statistics (G, ...) of sets under their pivots."""

    def statistics(self, pivots: Pivots, rows: Float64Array) -> Statistics:
        """Statistics (n, K, ...) of each row alone under each pivot (K, D); (n, 1, ...) where there are none."""

    def log_marginal(self, statistics: Statistics) -> Float64Array:
        """log m(rows | pivot) (...) of sets with these statistics; 0 for an empty set."""

    def log_prior_predictive(self, rows: Any) -> Float64Array:
        """Log density (n,) of a row alone in a new cluster, the pivot integrated out."""

    def draw_pivot_of_one(self, row: Float64Array, generator: np.random.Generator) -> Pivots:
        """A pivot (1, D) from its exact law given one row (D,)."""
