"""Variational factors of the directions and concentrations of K components, given counts and resultants.

joint         q(mu, kappa): the direction given kappa is vMF with w = kappa R + C_0 mu_0  vmf_mixtures.md, 5.6
factorised    q(mu) q(kappa): the direction is vMF with eta = E[kappa] R + C_0 mu_0       5.3

Every expected direction lies in the plane of R_k and mu_0, so a factor keeps two coefficients for each component and
refers to the resultants it was made from. Entropies are relative to the uniform law on the sphere and to dy: with
those, one formula gives the part of the evidence bound that the components have, after any single update and whatever
the kind of factor (`lower_bounds`).

The prior may have one direction (D,) for all components or one each (K, D), as where C_0 mu_0 is what the parent in a
tree or the neighbours in time say of a direction: `MixturePrior.of_vectors` makes it of natural vectors (K, D), and
everything here takes either.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.distributions import bessel, vmf
from armillary.distributions.concentration_laws import LogLaw, MakeLaw
from armillary.distributions.log_concentration import (
    JointTarget,
    MixturePrior,
    ProjectedTarget,
    natural_length,
    natural_slope,
    projections_on,
)

# A mean direction shorter than 1 by less than rounding would have an infinite concentration.
_LEAST_GAP = 2.0**-52


class PredictiveNodes(NamedTuple):
    """q(kappa) of K components as weighted nodes that serve densities of rows anywhere on the sphere."""

    concentrations: Float64Array  # (G, K)
    weights: Float64Array  # (G, K)
    pulls: Float64Array  # (G, K): there mu is vMF with the natural vector pull R + C_0 mu_0

    def select(self, components: npt.NDArray[np.int64]) -> PredictiveNodes:
        """Some components, in the order given."""
        return PredictiveNodes(*(part[:, components] for part in self))


def _nodes_of(law: LogLaw, pulls: Float64Array | None) -> PredictiveNodes:
    """With directions of their own, that see one pull (K,) at all nodes, or with ones that follow kappa."""
    nodes, weights = law.nodes_for_densities()
    kappa = np.exp(nodes)
    return PredictiveNodes(kappa, weights, kappa if pulls is None else np.repeat(pulls[None], len(kappa), axis=0))


@dataclass(frozen=True, eq=False)
class ComponentFactors:
    """q(mu_k, kappa_k) of K components: what the bound, the labels and the predictions need of it.

    With R and mu_0 those it was made from, E[mu_k] = c_k0 R_k + c_k1 mu_0 and E[kappa_k mu_k] likewise.
    """

    resultants: Float64Array  # (K, D)
    mean_direction: Float64Array  # (D,) or (K, D)
    direction_coefficients: Float64Array  # (K, 2) of E[mu]
    natural_coefficients: Float64Array  # (K, 2) of E[kappa mu]
    direction_entropies: Float64Array  # (K,) of mu given kappa, relative to the uniform law
    concentrations: Float64Array  # (K,) E[kappa]
    concentration_deviations: Float64Array  # (K,)
    log_means: Float64Array  # (K,) E[log kappa]
    log_variances: Float64Array  # (K,)
    log_h: Float64Array  # (K,) E[log H(kappa)], or what stands for it
    log_entropies: Float64Array  # (K,) of log kappa
    direction_concentrations: Float64Array  # (K,) of the vMF law of mu, or of the one with the same mean
    pulls: Float64Array  # (K,) directions that do not follow kappa have the natural vectors pull R + C_0 mu_0
    make_nodes: Callable[[], PredictiveNodes]  # for predictions: no step of a fit asks for them

    @cached_property
    def nodes(self) -> PredictiveNodes:
        """q(kappa) as weighted nodes, for predictions."""
        return self.make_nodes()

    @property
    def mean_directions(self) -> Float64Array:
        """E[mu] (K, D), inside the sphere."""
        return self._combined(self.direction_coefficients)

    @property
    def natural_vectors(self) -> Float64Array:
        """E[kappa mu] (K, D): what a row is multiplied with."""
        return self._combined(self.natural_coefficients)

    @property
    def mean_lengths(self) -> Float64Array:
        """|E[mu]| (K,)."""
        along = self.direction_coefficients
        square = (
            along[:, 0] ** 2 * np.vecdot(self.resultants, self.resultants)
            + 2.0 * along[:, 0] * along[:, 1] * projections_on(self.mean_direction, self.resultants)
            + along[:, 1] ** 2
        )
        return np.sqrt(np.maximum(square, 0.0))

    def mean_direction_sum(self) -> Float64Array:
        """sum_k E[mu_k] (D,)."""
        along = self.direction_coefficients
        is_shared = self.mean_direction.ndim == 1
        towards = along[:, 1].sum() * self.mean_direction if is_shared else along[:, 1] @ self.mean_direction
        return np.asarray(along[:, 0] @ self.resultants + towards)

    def select(self, components: npt.NDArray[np.int64]) -> ComponentFactors:
        """Some components, in the order given."""
        chosen = {name: getattr(self, name)[components] for name in _BY_COMPONENT}
        if self.mean_direction.ndim == 2:
            chosen["mean_direction"] = self.mean_direction[components]
        made = self.make_nodes
        return replace(self, **chosen, make_nodes=lambda: made().select(components))

    def _combined(self, coefficients: Float64Array) -> Float64Array:
        vectors = coefficients[:, :1] * self.resultants
        vectors += coefficients[:, 1:] * self.mean_direction
        return vectors


_BY_COMPONENT = tuple(
    field.name for field in fields(ComponentFactors) if field.name not in ("mean_direction", "make_nodes")
)


def joint_factors(
    counts: Float64Array, resultants: Float64Array, prior: MixturePrior, make_law: MakeLaw
) -> ComponentFactors:
    """The best q(mu, kappa) given counts (K,) and resultants (K, D) (vmf_mixtures.md, 5.6)."""
    target = JointTarget.of(counts, resultants, prior)
    law = make_law(target)
    if not law.is_followed:
        return _with_law(_directions(counts, resultants, prior, law.concentrations), law)
    kappa = np.exp(law.nodes)
    length = natural_length(kappa, target.squares, target.projections, prior)
    slope = natural_slope(target.dimension, length)
    by_power = [law.mean(slope * kappa**power) for power in range(3)]
    c = prior.mean_concentration
    made = _with_law(_bare(resultants, prior), law)
    made = replace(
        made,
        direction_coefficients=np.stack([by_power[1], c * by_power[0]], axis=1),
        natural_coefficients=np.stack([by_power[2], c * by_power[1]], axis=1),
        direction_entropies=law.mean(np.asarray(vmf.relative_entropy(target.dimension, length))),
        make_nodes=lambda: _nodes_of(law, None),
    )
    lengths = np.minimum(made.mean_lengths, 1.0 - _LEAST_GAP)
    like = np.asarray(bessel.concentration_from_resultant(target.dimension, lengths))
    return replace(made, direction_concentrations=like)


def factorised_directions(
    factors: ComponentFactors, counts: Float64Array, resultants: Float64Array, prior: MixturePrior
) -> ComponentFactors:
    """The best q(mu), for the q(kappa) of `factors` (vmf_mixtures.md, 5.3)."""
    new, made = _directions(counts, resultants, prior, factors.concentrations), factors.make_nodes
    return replace(
        factors,
        resultants=new.resultants,
        mean_direction=new.mean_direction,
        direction_coefficients=new.direction_coefficients,
        natural_coefficients=factors.concentrations[:, None] * new.direction_coefficients,
        direction_entropies=new.direction_entropies,
        direction_concentrations=new.direction_concentrations,
        pulls=new.pulls,
        make_nodes=lambda: made()._replace(pulls=np.repeat(new.pulls[None], len(made().pulls), axis=0)),
    )


def factorised_concentrations(
    factors: ComponentFactors, counts: Float64Array, resultants: Float64Array, prior: MixturePrior, make_law: MakeLaw
) -> ComponentFactors:
    """The best q(kappa), for the q(mu) of `factors` (vmf_mixtures.md, 5.3, 5.4)."""
    along = factors.direction_coefficients
    projections = along[:, 0] * np.vecdot(resultants, factors.resultants)
    projections += along[:, 1] * projections_on(factors.mean_direction, resultants)
    return _with_law(factors, make_law(ProjectedTarget(counts, prior, projections)))


def first_factors(resultants: Float64Array, prior: MixturePrior, concentrations: Float64Array) -> ComponentFactors:
    """Concentrations as given (K,), for `factorised_directions` to begin with."""
    return replace(_bare(resultants, prior), concentrations=concentrations)


def lower_bounds(
    factors: ComponentFactors, counts: Float64Array, resultants: Float64Array, prior: MixturePrior
) -> Float64Array:
    """What each component has of the evidence bound (K,), over the uniform law: E[log p(rows, mu, kappa)] + entropy.

    Right for any counts, resultants and prior, not only for those that the factors were made from. Right after
    `joint_factors` it is log Z (vmf_mixtures.md, 5.2, 5.6).
    """
    order = 0.5 * prior.dimension - 1.0
    natural, along = factors.natural_coefficients, factors.direction_coefficients
    rows = (
        natural[:, 0] * np.vecdot(resultants, factors.resultants)
        + natural[:, 1] * projections_on(factors.mean_direction, resultants)
        - counts * factors.log_h
    )
    agreement = along[:, 0] * projections_on(prior.mean_direction, factors.resultants)
    agreement += along[:, 1] * projections_on(prior.mean_direction, factors.mean_direction)
    c = prior.mean_concentration
    directions = c * agreement - bessel.log_h(order, c) + factors.direction_entropies
    spread = factors.log_variances + (factors.log_means - prior.log_mean) ** 2
    logs = -0.5 * math.log(2.0 * math.pi * prior.log_variance) - spread / (2.0 * prior.log_variance)
    return np.asarray(rows + directions + logs + factors.log_entropies)


def _bare(resultants: Float64Array, prior: MixturePrior) -> ComponentFactors:
    n_components = len(resultants)
    nothing = np.zeros(n_components)
    return ComponentFactors(
        resultants=resultants,
        mean_direction=prior.mean_direction,
        direction_coefficients=np.zeros((n_components, 2)),
        natural_coefficients=np.zeros((n_components, 2)),
        direction_entropies=nothing,
        concentrations=nothing,
        concentration_deviations=nothing,
        log_means=nothing,
        log_variances=nothing,
        log_h=nothing,
        log_entropies=nothing,
        direction_concentrations=nothing,
        pulls=nothing,
        make_nodes=lambda: PredictiveNodes(*np.zeros((3, 0, n_components))),
    )


def _directions(
    counts: Float64Array, resultants: Float64Array, prior: MixturePrior, concentrations: Float64Array
) -> ComponentFactors:
    """Directions with the natural vectors E[kappa] R + C_0 mu_0, whatever the law of kappa."""
    target = JointTarget.of(counts, resultants, prior)
    length = natural_length(concentrations, target.squares, target.projections, prior)
    slope = natural_slope(target.dimension, length)
    c = np.full_like(concentrations, prior.mean_concentration)
    return replace(
        _bare(resultants, prior),
        direction_coefficients=slope[:, None] * np.stack([concentrations, c], axis=1),
        direction_entropies=np.asarray(vmf.relative_entropy(target.dimension, length)),
        direction_concentrations=length,
        pulls=concentrations,
    )


def _with_law(factors: ComponentFactors, law: LogLaw) -> ComponentFactors:
    """The same directions with this law of kappa, independent of them."""
    concentrations, pulls = law.concentrations, factors.pulls
    return replace(
        factors,
        natural_coefficients=concentrations[:, None] * factors.direction_coefficients,
        concentrations=concentrations,
        concentration_deviations=law.concentration_deviations,
        log_means=law.log_means,
        log_variances=law.log_variances,
        log_h=law.log_h,
        log_entropies=law.entropies,
        make_nodes=lambda: _nodes_of(law, pulls),
    )
