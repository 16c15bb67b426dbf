"""Chains of Dirichlet-process mixtures: what one sweep of each sampler does.

split_merge     alpha, pivots, parameters, weights, anchored labels, then split and merge attempts      dp_tgmm.md, 6
crp             labels one row at a time, then pivots                                                   12
finite          a symmetric Dirichlet over n_components, some of them empty                             9
subclusters     in `_subclusters.py`                                                                    8.4

Every chain owns a partition (`engines/contract.py`) and the pivots of its clusters. Draws are keyed by
(purpose, chain, sweep, cluster or attempt): a chain that stops after any sweep goes on with the draws it would have.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from armillary._typing import Float64Array, IntArray
from armillary.distributions.components import Component, Parameters, Pivots, joined
from armillary.distributions.dirichlet import log_gamma
from armillary.draws import Stream
from armillary.engines.contract import Partition, Passes
from armillary.fitting.dirichlet_process import score_rule
from armillary.fitting.restaurant import Restaurant
from armillary.models.dirichlet_process._split_merge import SplitMerge
from armillary.models.dirichlet_process._start import NO_WARM_UP, WarmUp, merge_greedily


@dataclass(frozen=True)
class AlphaPrior:
    """alpha ~ Gamma(shape, rate), resampled in every sweep (Escobar and West 1995; dp_tgmm.md, 11)."""

    shape: float = 1.0
    rate: float = 1.0

    def draw(self, alpha: float, n_clusters: int, n_rows: int, generator: np.random.Generator) -> float:
        """alpha given K and N, through an auxiliary Beta draw."""
        # Beta(a, N) as Gammas: its logarithm is wanted, and it can be very small
        first, second = generator.gamma(alpha + 1.0), generator.gamma(float(n_rows))
        rate = self.rate - math.log(first / (first + second))
        odds = (self.shape + n_clusters - 1.0) / (n_rows * rate)
        is_more = generator.random() * (1.0 + odds) < odds
        return float(generator.gamma(self.shape + n_clusters - (0.0 if is_more else 1.0)) / rate)


def log_crp(counts: IntArray, alpha: float) -> float:
    """log p(partition) under the Chinese restaurant process: alpha^K Gamma(alpha)/Gamma(alpha + N) prod Gamma(n_k)."""
    total = float(counts.sum())
    return (
        len(counts) * math.log(alpha) + math.lgamma(alpha) - math.lgamma(alpha + total) + float(gammaln(counts).sum())
    )


def draw_log_gammas(shapes: Float64Array, generator: np.random.Generator) -> Float64Array:
    """Logs of Gamma(shape, 1) draws; small shapes would underflow: Gamma(a) = Gamma(a + 1) U^(1/a)."""
    grown = np.log(generator.gamma(shapes + 1.0))
    return np.asarray(grown - generator.standard_exponential(len(shapes)) / shapes)


@dataclass(frozen=True, eq=False)
class Setting:
    """What a chain is told once and for all."""

    component: Component
    passes: Passes
    stream: Stream
    number: int = 0  # of the chain, among several
    n_attempts: int = 10  # of each kind, in every sweep; must not depend on the state
    n_components: int = 100  # of a finite mixture
    warm_up: WarmUp = NO_WARM_UP  # of `split_merge`
    alpha_prior: AlphaPrior | None = None  # None: alpha stays as it is


class Chain(ABC):
    """One run of a sampler."""

    def __init__(self, setting: Setting, rows: Partition, pivots: Pivots, alpha: float, *, n_sweeps: int = 0) -> None:
        self.rows = rows
        self.pivots = pivots
        self.alpha = alpha
        self.n_sweeps = n_sweeps  # done so far
        self.n_accepted = {"random": 0, "launch": 0}
        self.setting = setting
        self.component = setting.component

    @property
    def n_clusters(self) -> int:
        """Clusters that have rows."""
        return len(self.rows)

    def step(self) -> float:
        """One sweep; returns the log joint after it."""
        self.n_sweeps += 1
        self._sweep()
        return self.log_joint()

    @abstractmethod
    def _sweep(self) -> None:
        """Change labels and pivots so that the posterior stays as it is."""

    def log_joint(self) -> float:
        """log p(X, partition, pivots), covariances, concentrations and weights integrated out."""
        return self._log_partition() + float(self.component.log_joint(self.pivots, self.rows.sets()).sum())

    def _log_partition(self) -> float:
        return log_crp(self.rows.counts, self.alpha)

    def _generator(self, purpose: str, *index: int) -> np.random.Generator:
        return self.setting.stream.generator(f"dp {purpose}", self.setting.number, self.n_sweeps, *index)

    def _key(self, purpose: str) -> tuple[int, int]:
        return self.setting.stream.key(f"dp {purpose}", self.setting.number, self.n_sweeps)

    def _draw_alpha(self) -> None:
        prior = self.setting.alpha_prior
        if prior is not None:
            self.alpha = prior.draw(self.alpha, self.n_clusters, self.rows.n_rows, self._generator("alpha"))

    def _draw_parameters(self) -> Parameters:
        """New pivots, and the other parameters given them."""
        self.pivots, laws = self.component.renew(self.pivots, self.rows.sets(), self._generator("parameters"))
        return laws

    def _draw_labels(self, laws: Parameters) -> None:
        """Weights, then labels by anchored restricted Gibbs."""
        # the weight of what has no cluster yet takes no part: only ratios matter
        log_weights = draw_log_gammas(self.rows.counts.astype(np.float64), self._generator("weights"))
        rule = score_rule(self.component, laws, log_weights)
        self.rows.redraw(rule, self._key("labels"), self._key("priorities"))


class SplitMergeChain(Chain):
    """The exact sampler: parameters, anchored labels, then fixed numbers of `random` and `launch` attempts."""

    def _sweep(self) -> None:
        warm_up, sweep = self.setting.warm_up, self.n_sweeps
        if warm_up.n_growing < sweep <= warm_up.n_growing + warm_up.n_shrinking:
            self._merge_greedily()
        self._draw_alpha()
        self._draw_labels(self._draw_parameters())
        if sweep <= warm_up.n_settling:
            self._split_and_merge(self.n_clusters, self.n_clusters)
            self._merge_greedily()
        elif sweep <= warm_up.n_growing:
            self._split_and_merge(0, self.n_clusters)
        else:
            self._split_and_merge(self.setting.n_attempts, self.setting.n_attempts)

    def _merge_greedily(self) -> None:
        """In the warm-up only: this is no step of the posterior."""
        if merge_greedily(self.component, self.rows, self.alpha):
            self.pivots = self.component.draw(self.rows.sets(), self._generator("merged"))[0]

    def _split_and_merge(self, n_random: int, n_launch: int) -> None:
        moves = SplitMerge(self.component, self.rows, self.pivots, self.alpha)
        self._attempt(moves, n_random, n_launch)
        self.pivots = moves.pivots

    def _attempt(self, moves: SplitMerge, n_random: int, n_launch: int) -> None:
        kinds = ["random"] * n_random + ["launch"] * n_launch
        while kinds:
            done, is_changed = moves.attempt(kinds, self._generator("moves", len(kinds)))
            if is_changed:
                self.n_accepted[kinds[done - 1]] += 1
            kinds = kinds[done:]


class RestaurantChain(Chain):
    """Labels one row at a time, then pivots."""

    def _sweep(self) -> None:
        self._draw_alpha()
        restaurant = Restaurant(self.component, self.setting.passes, self.rows, self.pivots, self.alpha)
        restaurant.sweep(self._generator("seats"))
        # the labels of the restaurant have no gaps, so clusters keep their numbers
        self.rows.relabel(self.setting.passes.labels_from(restaurant.labels))
        self.pivots = self.component.update(restaurant.pivots, self.rows.sets(), self._generator("pivots"))


class FiniteChain(Chain):
    """A finite mixture with a symmetric Dirichlet prior of alpha / n_components each; empty components are allowed."""

    def _sweep(self) -> None:
        laws = self._draw_parameters()
        n_empty = self.setting.n_components - len(self.rows)
        laws = joined(laws, self.component.draw_prior(n_empty, self._generator("empty")))
        share = self.alpha / self.setting.n_components
        counts = np.append(self.rows.counts.astype(np.float64), np.zeros(n_empty))
        log_weights = draw_log_gammas(share + counts, self._generator("weights"))
        kept = self.rows.redraw(score_rule(self.component, laws, log_weights), self._key("labels"), None)
        pivots = self.component.pivots_of(laws)
        self.pivots = None if pivots is None else pivots[kept > 0]

    def _log_partition(self) -> float:
        """log p(partition): labellings that name the same partition are counted together."""
        counts, share = self.rows.counts.astype(np.float64), self.alpha / self.setting.n_components
        n_components = self.setting.n_components
        names = math.lgamma(n_components + 1.0) - math.lgamma(n_components - len(counts) + 1.0)
        weights = math.lgamma(self.alpha) - math.lgamma(self.alpha + float(counts.sum()))
        return names + weights + float((log_gamma(share + counts) - log_gamma(share)).sum())
