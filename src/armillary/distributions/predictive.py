"""The predictive density of a mixture whose directions and concentrations have a law of their own.

    p(x) = sum_k pi_k sum_g w_gk (1/area) H(|kappa_gk x + v_gk|) / (H(kappa_gk) H(|v_gk|))       vmf_mixtures.md, 6

where mu_k is vMF with the natural vector v_gk = pull_gk R_k + C_0 mu_0 at the node kappa_gk of weight w_gk. It is
normalised by construction. A row enters through x.R_k and x.mu_0 alone.

log H is concave in the square of its argument, so its tangent at |v| bounds every term by something linear in x.v.
Components that cannot matter are passed over by that bound: log H is taken for few of the n K G terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from armillary._typing import Float64Array, IntArray
from armillary.distributions import bessel
from armillary.distributions.log_concentration import natural_slope

# A component this far below another adds 1e-16 of it.
_NEGLIGIBLE = 37.0


@dataclass(frozen=True, eq=False)
class PredictiveDensity:
    """Weights, nodes and natural vectors of K components."""

    weights: Float64Array  # (K,) pi
    resultants: Float64Array  # (K, D) R
    mean_direction: Float64Array  # (D,) mu_0
    mean_concentration: float  # C_0
    nodes: Float64Array  # (G, K) kappa
    node_weights: Float64Array  # (G, K)
    node_pulls: Float64Array  # (G, K)

    @property
    def vectors(self) -> Float64Array:
        """(K + 1, D): what a row is multiplied with, R_1 ... R_K and mu_0."""
        return np.concatenate([self.resultants, self.mean_direction[None]])

    def log_density(self, products: Float64Array) -> Float64Array:
        """Log density (m,) over the uniform law of rows with these products (m, K + 1)."""
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

    @cached_property
    def _log_weights(self) -> Float64Array:
        with np.errstate(divide="ignore"):
            return np.log(self.weights)

    @cached_property
    def _lengths(self) -> Float64Array:
        """|v| (G, K)."""
        c, pulls = self.mean_concentration, self.node_pulls
        squares = np.vecdot(self.resultants, self.resultants)
        projections = self.resultants @ self.mean_direction
        return np.sqrt(np.maximum(pulls * (pulls * squares + 2.0 * c * projections) + c * c, 0.0))

    @cached_property
    def _offsets(self) -> Float64Array:
        """log pi + log w - log H(kappa) - log H(|v|), (G, K)."""
        order = 0.5 * len(self.mean_direction) - 1.0
        with np.errstate(divide="ignore"):
            log_nodes = np.log(self.node_weights)
        return self._log_weights + log_nodes - bessel.log_h(order, self.nodes) - bessel.log_h(order, self._lengths)

    def _log_bounds(self, products: Float64Array) -> Float64Array:
        """At least the log of each component's term, (m, K)."""
        order = 0.5 * len(self.mean_direction) - 1.0
        along, across = products[:, :-1], products[:, -1:]
        slopes = natural_slope(len(self.mean_direction), self._lengths)
        heights = 0.5 * slopes * self.nodes**2 - bessel.log_h(order, self.nodes)
        bounds = np.full(along.shape, -np.inf)
        for kappa, pull, slope, height in zip(self.nodes, self.node_pulls, slopes, heights, strict=True):
            turn = slope * kappa
            np.maximum(bounds, turn * pull * along + (turn * self.mean_concentration * across + height), out=bounds)
        return bounds + self._log_weights

    def _log_terms(self, products: Float64Array, rows: IntArray, components: IntArray) -> Float64Array:
        """The log term of some rows (m,) with one component each (m,)."""
        order = 0.5 * len(self.mean_direction) - 1.0
        kappa, pulls = self.nodes[:, components], self.node_pulls[:, components]
        dots = pulls * products[rows, components] + self.mean_concentration * products[rows, -1]
        square = kappa * (kappa + 2.0 * dots) + self._lengths[:, components] ** 2
        log_h = np.asarray(bessel.log_h(order, np.sqrt(np.maximum(square, 0.0))))
        return np.asarray(logsumexp(self._offsets[:, components] + log_h, axis=0))
