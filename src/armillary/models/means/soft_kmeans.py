"""Soft k-means: a Gaussian mixture with free means and weights and one variance for all.

Story        z_i ~ Categorical(pi), x_i ~ Normal(c_{z_i}, v I) in the space the unit rows lie in
Objective    the log likelihood sum_i w_i log sum_k pi_k Normal(x_i | c_k, v)       vmf_mixtures.md, 13
E-step       softmax_k(log pi_k + x.c_k/v - |c_k|^2/(2v)): an affine score, for |x| = 1 on every row
M-step       pi = n/N, c_k = R_k/n_k, v = (1 - sum_k |R_k|^2/(n_k N))/D
Row order    does not matter to the model; it matters to k-means++ draws and to the last bits of sums

A baseline of Gopal and Yang 2014 that scikit-learn has no covariance type for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from armillary._typing import ArrayLike, Float64Array, RandomState
from armillary.draws import Stream
from armillary.engines.contract import Passes, Points
from armillary.fitting import initialization
from armillary.fitting.expectation import ExpectationMaximization
from armillary.fitting.stopping import RelativeGain
from armillary.models.mixture import (
    EMPTY,
    AffineMixture,
    check_n_components,
    check_runs,
    count_clusters,
    log_shares,
)
from armillary.models.parameters import Given, RowShape
from armillary.models.turns import learning
from armillary.models.vmf.vmf_mixture import STARTS
from armillary.rules import AffineRule
from armillary.sums.directional import DirectionalStatistics

# Rows that all sit on their centres have no variance left.
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, eq=False)
class State:
    """What the next step needs."""

    log_weights: Float64Array  # (K,)
    means: Float64Array  # (K, D), inside the sphere
    variance: float

    @property
    def weights(self) -> Float64Array:
        """`weights_` (K,)."""
        return np.exp(self.log_weights)

    @classmethod
    def read(cls, weights: Float64Array, means: Float64Array, variance: float) -> State:
        """The state behind fitted attributes."""
        return cls(log_shares(weights), means, variance)


@dataclass(frozen=True, eq=False)
class Parameters:
    """Checked constructor parameters."""

    n_components: int
    init: str | Float64Array
    n_init: int
    max_iter: int
    tol: float

    @classmethod
    def check(cls, given: Given, rows: RowShape, who: str) -> Parameters:
        """The parameters, or an error that names the wrong one."""
        n_components = check_n_components(given["n_components"], rows, who)
        shape = (n_components, rows.n_features)
        init = initialization.check_init(given["init"], shape, "n_components", who, STARTS)
        return cls(n_components, init, *check_runs(given, who))


def initial_state(passes: Passes, init: str | Float64Array, n_components: int, stream: Stream, restart: int) -> State:
    """Means on the sphere, equal weights, and the variance of all rows about their mean."""
    points = passes.points
    draws = stream.generator("start", restart)
    means = initialization.starting_directions(passes, init, n_components, draws)
    everything = passes.sum(None, 1)
    mean = everything.resultants[0] / points.total_weight
    spread = 1.0 - float(mean @ mean)
    variance = max(spread / points.n_features, _LEAST_VARIANCE)
    return State(np.full(n_components, -math.log(n_components)), means, variance)


def score_rule(state: State) -> AffineRule:
    """The log density but for what all components share."""
    squares = np.vecdot(state.means, state.means)
    offsets = state.log_weights - squares / (2.0 * state.variance)
    return AffineRule(state.means, offsets, slopes=np.full(len(offsets), 1.0 / state.variance))


def update(state: State, statistics: DirectionalStatistics) -> State:
    """The parameters that maximise the expected log likelihood."""
    counts, resultants = statistics.counts, statistics.resultants
    n_features = resultants.shape[1]
    is_there = counts >= EMPTY * counts.sum()
    shares = np.where(is_there, counts, 1.0)
    means = np.where(is_there[:, None], resultants / shares[:, None], state.means)
    explained = float((counts / counts.sum() * np.vecdot(means, means))[is_there].sum())
    variance = (1.0 - explained) / n_features
    return State(log_shares(counts), means, max(variance, _LEAST_VARIANCE))


def log_base(state_variance: float, n_features: int) -> float:
    """What all components share of the log density of a unit row."""
    return -0.5 / state_variance - 0.5 * n_features * math.log(2.0 * math.pi * state_variance)


class SoftKMeans(AffineMixture):
    """Soft k-means on unit rows: a Gaussian mixture with one variance, fitted by expectation maximisation.

    A baseline: the means lie inside the sphere and distances are Euclidean. Rows are normalised first.

    Parameters
    ----------
    n_components : int, default=8
        K.
    init : {"k-means++", "random", "random_labels"} or array of shape (K, D), default="k-means++"
        First means, as in `VonMisesFisherMixture`.
    n_init : int, default=1
        Runs; the one with the highest likelihood is kept.
    max_iter : int, default=200
        Most steps of one run. A run that uses them all warns.
    tol : float, default=1e-6
        Stop when two steps in a row gain at most this fraction of the log likelihood.
    missing, random_state, n_threads, device, verbose, callbacks
        As in `VonMisesFisherMixture`.

    Attributes
    ----------
    weights_ : array of shape (K,)
    means_ : array of shape (K, D)
    variance_ : float
        Of every coordinate about the mean of its component.
    labels_ : array of shape (n,), int32
    log_likelihood_ : float
    n_clusters_, n_iter_, n_features_in_ : int
    converged_ : bool
    device_ : str

    References
    ----------
    Gopal and Yang (2014), Von Mises-Fisher clustering models.

    Examples
    --------
    >>> from armillary import SoftKMeans
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, _, _ = make_vmf_mixture(500, 3, 3, concentration=100.0, min_angle=1.0, random_state=0)
    >>> SoftKMeans(n_components=3, random_state=0).fit(X).n_clusters_
    3
    """

    _parameters_kind = Parameters

    def __init__(
        self,
        n_components: int = 8,
        *,
        init: str | ArrayLike = "k-means++",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-6,
        missing: str = "raise",
        random_state: RandomState = None,
        n_threads: int | None = None,
        device: str | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.missing = missing
        self.random_state = random_state
        self.n_threads = n_threads
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    @learning
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the mixture to the rows of X (n, D), dense or CSR; `y` is ignored.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.

        Returns
        -------
        self
        """
        with self._fitting(X, sample_weight, Parameters.check) as (points, parameters, stream, passes, emitter):

            def start(restart: int) -> ExpectationMaximization[State]:
                return ExpectationMaximization(
                    passes,
                    initial_state(passes, parameters.init, parameters.n_components, stream, restart),
                    score_rule=score_rule,
                    update=update,
                    objective=lambda before, _, evidence: (
                        evidence + points.total_weight * log_base(before.variance, points.n_features)
                    ),
                    n_clusters=lambda state: count_clusters(state.log_weights),
                )

            state, run, labels, evidence = self._run(
                passes,
                emitter,
                parameters,
                start,
                stopping=RelativeGain(parameters.tol, patience=2),
                # of what is published, whose logarithms differ in their last bits: labels are those of `predict`
                score_rule=lambda found: score_rule(State.read(found.weights, found.means, found.variance)),
            )
        self._publish(
            X,
            is_new=True,
            weights_=state.weights,
            means_=state.means,
            variance_=state.variance,
            labels_=labels,
            log_likelihood_=evidence + points.total_weight * log_base(state.variance, points.n_features),
            n_clusters_=count_clusters(state.log_weights),
            n_iter_=run.n_steps,
            converged_=run.is_converged,
        )
        return self

    def _rule(self, points: Points) -> AffineRule:
        return score_rule(State.read(self.weights_, self.means_, self.variance_))

    def _log_base(self, points: Points) -> float:
        return log_base(self.variance_, points.n_features)

    def _n_parameters(self) -> int:
        return int(self.means_.shape[0] - 1 + self.means_.size + 1)
