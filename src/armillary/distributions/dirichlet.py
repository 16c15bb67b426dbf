"""Laws of the weights of K components: a symmetric Dirichlet, and truncated stick-breaking.

Dirichlet        pi ~ Dirichlet(alpha, ..., alpha); q(pi) = Dirichlet(rho), rho = alpha + n      vmf_mixtures.md, 5.3
Stick-breaking   v_k ~ Beta(1, a) for k < K, v_K = 1, pi_k = v_k prod_{j<k} (1 - v_j), a ~ Gamma(shape, rate);
                 q(v_k) = Beta(1 + n_k, E[a] + sum_{j>k} n_j), q(a) = Gamma                      vmf_mixtures.md, 10

Both are values with the same five verbs: `update(counts)`, `expected_log()`, `mean()`, `lower_bound()`, which is
E[log p] - E[log q] of the block, and `empirical_bayes()`. Each update maximises the evidence bound in its block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.special import betaln, digamma, gammaln, polygamma

from armillary._typing import Float64Array

# Where alpha is looked for; near-uniform weights would send it to infinity.
LEAST_ALPHA, MOST_ALPHA = 1e-3, 1e3
_MAX_NEWTON_STEPS = 100
_NORMAL = float(np.finfo(np.float64).tiny)


def log_gamma(x: Float64Array | float) -> Float64Array:
    """log Gamma(x), x > 0. SciPy's is infinite below the least normal number, where the value is -log x."""
    x = np.asarray(x, dtype=np.float64)
    return np.where(x < _NORMAL, -np.log(x), gammaln(x))


class WeightLaw(Protocol):
    """What a mixture asks of its weights."""

    @property
    def concentration(self) -> float:
        """alpha of the Dirichlet, E[a] of the sticks."""

    def update(self, counts: Float64Array) -> WeightLaw:
        """The best q for these counts (K,)."""

    def expected_log(self) -> Float64Array:
        """E[log pi] (K,)."""

    def mean(self) -> Float64Array:
        """E[pi] (K,)."""

    def lower_bound(self) -> float:
        """E[log p] - E[log q] of the weights and of what is above them."""

    def empirical_bayes(self) -> WeightLaw:
        """The prior that maximises the bound for the present q."""


@dataclass(frozen=True, eq=False)
class DirichletWeights:
    """pi ~ Dirichlet(alpha, ..., alpha) with q(pi) = Dirichlet(posterior).

    The posterior may have leading axes: independent weights, as of slices of time, that share alpha. Counts and
    results then have them too.
    """

    concentration: float  # alpha
    posterior: Float64Array  # (..., K) rho

    @classmethod
    def prior(cls, concentration: float, shape: int | tuple[int, ...]) -> DirichletWeights:
        """No rows yet; `shape` is K, or (..., K)."""
        return cls(concentration, np.full(shape, concentration))

    def update(self, counts: Float64Array) -> DirichletWeights:
        """rho = alpha + n."""
        return replace(self, posterior=self.concentration + counts)

    def expected_log(self) -> Float64Array:
        """digamma(rho_k) - digamma(sum rho)."""
        return np.asarray(digamma(self.posterior) - digamma(self.posterior.sum(axis=-1, keepdims=True)))

    def mean(self) -> Float64Array:
        """rho/sum(rho)."""
        return np.asarray(self.posterior / self.posterior.sum(axis=-1, keepdims=True))

    def lower_bound(self) -> float:
        """Minus the divergence of q from the prior (vmf_mixtures.md, 5.2, weights)."""
        alpha, n_components, rho = self.concentration, self.posterior.shape[-1], self.posterior
        totals = rho.sum(axis=-1)
        normalisers = (
            totals.size * (math.lgamma(n_components * alpha) - n_components * math.lgamma(alpha))
            + float(log_gamma(rho).sum())
            - float(log_gamma(totals).sum())
        )
        return normalisers + float(np.vecdot(alpha - rho, self.expected_log()).sum())

    def empirical_bayes(self) -> DirichletWeights:
        """alpha by Newton's method in its logarithm (vmf_mixtures.md, 5.5); one component has nothing to learn from."""
        n_components = self.posterior.shape[-1]
        if n_components == 1:
            return self
        return replace(self, concentration=_best_alpha(float(self.expected_log().mean()), n_components))


def _best_alpha(mean_log: float, n_components: int) -> float:
    """The root of digamma(K a) - digamma(a) + mean_k E[log pi_k], within bounds; the left side falls with a."""

    def excess(alpha: float) -> float:
        return float(digamma(n_components * alpha) - digamma(alpha)) + mean_log

    if excess(MOST_ALPHA) >= 0.0:
        return MOST_ALPHA
    if excess(LEAST_ALPHA) <= 0.0:
        return LEAST_ALPHA
    low, high = math.log(LEAST_ALPHA), math.log(MOST_ALPHA)
    t = 0.0
    for _ in range(_MAX_NEWTON_STEPS):
        alpha = math.exp(t)
        gap = excess(alpha)
        low, high = (t, high) if gap > 0.0 else (low, t)
        slope = alpha * float(n_components * polygamma(1, n_components * alpha) - polygamma(1, alpha))
        step = -gap / slope
        # a step that leaves the bracket is replaced by its middle
        new = t + step if low < t + step < high else 0.5 * (low + high)
        if abs(new - t) < 1e-14 * max(1.0, abs(t)):
            break
        t = new
    return math.exp(t)


_LEAST_MEAN = 1e-300  # of the concentration: sticks that leave nothing have logarithms beyond every float


@dataclass(frozen=True, eq=False)
class StickBreakingWeights:
    """Truncated sticks. q(a) = Gamma(shape + K - 1, its rate) is told by its mean, `concentration`."""

    shape: float  # of the prior of a
    rate: float
    concentration: float  # E[a]
    heads: Float64Array  # (K - 1,) g1
    tails: Float64Array  # (K - 1,) g2

    @classmethod
    def prior(cls, concentration: float, n_components: int) -> StickBreakingWeights:
        """No rows yet; a has an exponential law with the mean `concentration`."""
        return cls(
            1.0, 1.0 / concentration, concentration, np.ones(n_components - 1), np.full(n_components - 1, concentration)
        )

    @classmethod
    def restored(cls, prior_mean: float, concentration: float, counts: Float64Array) -> StickBreakingWeights:
        """The law after an `update` with these counts that left E[a] at `concentration`."""
        return replace(cls.prior(prior_mean, len(counts)), concentration=concentration)._with_sticks(counts)

    def update(self, counts: Float64Array) -> StickBreakingWeights:
        """Sticks, then a, then sticks: each exact, and the law is told by E[a] and the counts."""
        sticks = self._with_sticks(counts)
        left = float(sticks._log_tails().sum())
        mean = max(sticks._shape / (self.rate - left), _LEAST_MEAN)
        return replace(sticks, concentration=mean)._with_sticks(counts)

    def expected_log(self) -> Float64Array:
        """E[log v_k] + sum_{j<k} E[log(1 - v_j)], with v_K = 1."""
        heads, left = np.append(self._log_heads(), 0.0), self._log_tails()
        return np.asarray(heads + np.concatenate([[0.0], np.cumsum(left)]))

    def mean(self) -> Float64Array:
        """E[v_k] prod_{j<k} E[1 - v_j]."""
        share = self.heads / (self.heads + self.tails)
        left = np.concatenate([[1.0], np.cumprod(self.tails / (self.heads + self.tails))])
        return np.asarray(np.append(share, 1.0) * left)

    def lower_bound(self) -> float:
        """Priors of sticks and of a, and the entropies of both."""
        n_sticks, shape, mean = len(self.heads), self._shape, self.concentration
        log_heads, log_tails = self._log_heads(), self._log_tails()
        log_a = float(digamma(shape)) - math.log(shape / mean)
        sticks = n_sticks * log_a + (mean - 1.0) * float(log_tails.sum())
        stick_entropy = betaln(self.heads, self.tails) - (self.heads - 1.0) * log_heads - (self.tails - 1.0) * log_tails
        above = (
            self.shape * math.log(self.rate) - math.lgamma(self.shape) + (self.shape - 1.0) * log_a - self.rate * mean
        )
        entropy = shape - math.log(shape / mean) + math.lgamma(shape) + (1.0 - shape) * float(digamma(shape))
        return sticks + float(stick_entropy.sum()) + above + entropy

    def empirical_bayes(self) -> StickBreakingWeights:
        """a has a law of its own, and there is only one a: nothing to learn."""
        return self

    @property
    def _shape(self) -> float:
        return self.shape + len(self.heads)

    def _with_sticks(self, counts: Float64Array) -> StickBreakingWeights:
        beyond = np.cumsum(counts[:0:-1])[::-1]
        return replace(self, heads=1.0 + counts[:-1], tails=self.concentration + beyond)

    def _log_heads(self) -> Float64Array:
        return np.asarray(digamma(self.heads) - digamma(self.heads + self.tails))

    def _log_tails(self) -> Float64Array:
        return np.asarray(digamma(self.tails) - digamma(self.heads + self.tails))
