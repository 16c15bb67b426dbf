"""The predictive density of a mixture whose directions and concentrations have a law of their own.

    p(x) = sum_k pi_k sum_g w_gk (1/area) H(|kappa_gk x + v_gk|) / (H(kappa_gk) H(|v_gk|))       vmf_mixtures.md, 6

where mu_k is vMF with the natural vector v_gk = pull_gk R_k + C_0 mu_0 at the node kappa_gk of weight w_gk; mu_0 and
C_0 are one for all components or one for each. It is normalised by construction. A row enters through x.R_k and x.mu_0
alone. A draw of a sampler is the case of one node, at a known kappa.

log H is concave in the square of its argument, so its tangent at |v| bounds every term by something linear in x.v.
Components that cannot matter are passed over by that bound: log H is taken for few of the n K G terms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from armillary._typing import Float64Array, IntArray
from armillary.distributions import bessel, vmf
from armillary.distributions.log_concentration import MixturePrior, natural_length, natural_slope, projections_on

# A component this far below another adds 1e-16 of it.
_NEGLIGIBLE = 37.0


@dataclass(frozen=True, eq=False)
class PredictiveDensity:
    """Weights, nodes and natural vectors of K components."""

    weights: Float64Array  # (K,) pi
    resultants: Float64Array  # (K, D) R
    prior: MixturePrior
    nodes: Float64Array  # (G, K) kappa
    node_weights: Float64Array  # (G, K)
    node_pulls: Float64Array  # (G, K)

    @classmethod
    def at(
        cls, concentrations: Float64Array, weights: Float64Array, resultants: Float64Array, prior: MixturePrior
    ) -> PredictiveDensity:
        """With known concentrations (K,)."""
        nodes = concentrations[None]
        return cls(weights, resultants, prior, nodes, np.ones_like(nodes), nodes)

    @property
    def vectors(self) -> Float64Array:
        """(K + 1, D) or (2 K, D): what a row is multiplied with, R_1 ... R_K and mu_0."""
        return np.concatenate([self.resultants, np.atleast_2d(self.prior.mean_direction)])

    def log_density(self, products: Float64Array) -> Float64Array:
        """Log density (m,) over the uniform law of rows with these products (m, K + 1) or (m, 2 K)."""
        bounds = self._log_bounds(products)
        best = np.argmax(bounds, axis=1)
        rows = np.arange(len(products))
        found = self._log_terms(products, rows, best)
        needed = bounds > found[:, None] - _NEGLIGIBLE
        needed[rows, best] = False
        terms = np.full(bounds.shape, -np.inf)
        terms[rows, best] = found
        more_rows, components = np.nonzero(needed)
        terms[more_rows, components] = self._log_terms(products, more_rows, components)
        return np.asarray(logsumexp(terms, axis=1))

    def sample(self, component: int, size: int, generator: np.random.Generator) -> Float64Array:
        """Rows (size, D) of one component, each with a direction and a concentration of its own."""
        node_weights = self.node_weights[:, component]
        shares = generator.multinomial(size, node_weights / node_weights.sum())
        c, direction = self._prior_of(component)
        parts = []
        for kappa, pull, count in zip(self.nodes[:, component], self.node_pulls[:, component], shares, strict=True):
            if not count:
                continue
            natural = pull * self.resultants[component] + c * direction
            length = float(np.linalg.norm(natural))
            axis = natural / length if length > 0.0 else direction
            centers = vmf.sample(axis, length, int(count), generator)
            rows = vmf.sample(axis, float(kappa), int(count), generator)
            # the reflection that exchanges the axis with a center turns rows about one into rows about the other
            normals = centers - axis
            squares = np.vecdot(normals, normals)
            pulls = np.vecdot(normals, rows) / np.where(squares > 0.0, squares, 1.0)
            parts.append(rows - 2.0 * pulls[:, None] * normals)
        return generator.permutation(np.concatenate(parts))

    def _prior_of(self, component: int) -> tuple[float, Float64Array]:
        c = np.broadcast_to(self.prior.mean_concentration, len(self.weights))[component]
        return float(c), np.broadcast_to(self.prior.mean_direction, self.resultants.shape)[component]

    @property
    def _order(self) -> float:
        return 0.5 * self.prior.dimension - 1.0

    @cached_property
    def _log_weights(self) -> Float64Array:
        with np.errstate(divide="ignore"):
            return np.log(self.weights)

    @cached_property
    def _lengths(self) -> Float64Array:
        """|v| (G, K)."""
        squares = np.vecdot(self.resultants, self.resultants)
        projections = projections_on(self.prior.mean_direction, self.resultants)
        return natural_length(self.node_pulls, squares, projections, self.prior)

    @cached_property
    def _offsets(self) -> Float64Array:
        """log pi + log w - log H(kappa) - log H(|v|), (G, K)."""
        order = self._order
        with np.errstate(divide="ignore"):
            log_nodes = np.log(self.node_weights)
        return self._log_weights + log_nodes - bessel.log_h(order, self.nodes) - bessel.log_h(order, self._lengths)

    def _along_and_across(self, products: Float64Array) -> tuple[Float64Array, Float64Array]:
        """x.R_k and C_0 x.mu_0, (m, K) each."""
        n_components = len(self.weights)
        along = products[:, :n_components]
        return along, np.broadcast_to(self.prior.mean_concentration * products[:, n_components:], along.shape)

    def _log_bounds(self, products: Float64Array) -> Float64Array:
        """At least the log of each component's term, (m, K): G times its largest node."""
        along, across = self._along_and_across(products)
        slopes = natural_slope(self.prior.dimension, self._lengths)
        # with the weights: nodes far below the others are there for rows far away, and would let no component be out
        with np.errstate(divide="ignore"):
            heights = np.log(self.node_weights) + 0.5 * slopes * self.nodes**2 - bessel.log_h(self._order, self.nodes)
        bounds = np.full(along.shape, -np.inf)
        for kappa, pull, slope, height in zip(self.nodes, self.node_pulls, slopes, heights, strict=True):
            turn = slope * kappa
            np.maximum(bounds, turn * pull * along + (turn * across + height), out=bounds)
        return bounds + (self._log_weights + math.log(len(self.nodes)))

    def _log_terms(self, products: Float64Array, rows: IntArray, components: IntArray) -> Float64Array:
        """The log term of some rows (m,) with one component each (m,)."""
        along, across = self._along_and_across(products)
        kappa, pulls = self.nodes[:, components], self.node_pulls[:, components]
        dots = pulls * along[rows, components] + across[rows, components]
        square = kappa * (kappa + 2.0 * dots) + self._lengths[:, components] ** 2
        log_h = np.asarray(bessel.log_h(self._order, np.sqrt(np.maximum(square, 0.0))))
        return np.asarray(logsumexp(self._offsets[:, components] + log_h, axis=0))
