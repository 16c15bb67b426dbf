"""Mixture of multinomials over counts, with Dirichlet priors, by expectation maximisation.

Story        z_i ~ Categorical(pi), the words of document i ~ Categorical(phi_{z_i})
Objective    sum_i w_i log sum_k pi_k prod_d phi_kd^{x_id}, plus alpha sum_k log pi_k + beta sum_kd log phi_kd
E-step       softmax_k(log pi_k + sum_d x_d log phi_kd): an affine score of the counts   vmf_mixtures.md, 13
M-step       pi ~ n + alpha, phi_k ~ R_k + beta
Row order    does not matter to the model; it matters to k-means++ draws and to the last bits of sums

A baseline of Gopal and Yang 2014. Rows are counts and are not normalised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from armillary._typing import ArrayLike, Float64Array, RandomState
from armillary.fitting import initialization
from armillary.fitting.assignment import HardAssignment
from armillary.fitting.expectation import ExpectationMaximization
from armillary.fitting.passes import Passes
from armillary.fitting.stopping import RelativeGain
from armillary.kernels.contract import AffineRule
from armillary.models._mixture import AffineMixture, check_n_components, check_runs, count_clusters
from armillary.models._turns import learning
from armillary.points import Points, as_count_points
from armillary.random import Stream
from armillary.statistics.directional import DirectionalStatistics
from armillary.validation import check_choice, check_positive


@dataclass(frozen=True, eq=False)
class State:
    """What the next step needs."""

    log_weights: Float64Array  # (K,)
    log_probabilities: Float64Array  # (K, D)

    def published(self) -> tuple[Float64Array, Float64Array]:
        """`weights_` and `feature_probabilities_`."""
        return np.exp(self.log_weights), np.exp(self.log_probabilities)

    @classmethod
    def read(cls, weights: Float64Array, probabilities: Float64Array) -> State:
        """The state behind fitted attributes."""
        return cls(np.log(weights), np.log(probabilities))


@dataclass(frozen=True)
class Parameters:
    """Checked constructor parameters."""

    n_components: int
    weight_prior: float  # alpha
    feature_prior: float  # beta
    init: str


def initial_state(passes: Passes, parameters: Parameters, stream: Stream, restart: int) -> State:
    """The M-step from labels: the nearest of k-means++ rows by cosine, or drawn at random."""
    draws = stream.generator("start", restart)
    points = passes.points
    labels = HardAssignment(points.n_rows, is_bounded=False)
    # the nearest direction does not depend on the length of a row, the draws do
    directed = None if parameters.init == "random_labels" else points.as_directions()
    if directed is None:  # as asked for, or because no row has a direction
        labels.labels[:] = draws.integers(parameters.n_components, size=points.n_rows)
    else:
        directions = initialization.plus_plus(passes.over(directed), parameters.n_components, draws)
        passes.assign(AffineRule.cosines(directions), labels.labels)
    return update(passes.sums(labels.labels, parameters.n_components), points.scale, parameters)


def score_rule(state: State, scale: float) -> AffineRule:
    """log pi_k + sum_d x_d log phi_kd, for rows given out divided by `scale`."""
    return AffineRule(scale * state.log_probabilities, state.log_weights)


def update(statistics: DirectionalStatistics, scale: float, parameters: Parameters) -> State:
    """The parameters that maximise the expected log posterior."""
    weights = statistics.counts + parameters.weight_prior
    features = scale * statistics.resultants + parameters.feature_prior
    log_probabilities = np.log(features) - np.log(features.sum(axis=1, keepdims=True))
    return State(np.log(weights) - math.log(weights.sum()), log_probabilities)


def log_prior(state: State, parameters: Parameters) -> float:
    """What the Dirichlet priors add to the objective."""
    weights = parameters.weight_prior * float(state.log_weights.sum())
    return weights + parameters.feature_prior * float(state.log_probabilities.sum())


class MultinomialMixture(AffineMixture):
    """Mixture of multinomials: clusters documents by their word counts, with Dirichlet smoothing.

    A baseline for text. X holds raw counts, dense or CSR; rows are not normalised, and rows of zeros are allowed.

    Parameters
    ----------
    n_components : int, default=8
        K.
    weight_prior : float, default=1.0
        alpha > 0, added to the size of each component.
    feature_prior : float, default=0.01
        beta > 0, added to each word of each component.
    init : {"k-means++", "random_labels"}, default="k-means++"
        First labels: the nearest of k-means++ rows by cosine, or random ones (the paper's; much worse).
    n_init : int, default=1
        Runs; the one with the highest objective is kept.
    max_iter : int, default=200
        Most steps of one run. A run that uses them all warns.
    tol : float, default=1e-6
        Stop when two steps in a row gain at most this fraction of the objective.
    random_state, n_threads, verbose, callbacks
        As in `VonMisesFisherMixture`.

    Attributes
    ----------
    weights_ : array of shape (K,)
    feature_probabilities_ : array of shape (K, D)
        Probabilities of the words in each component.
    labels_ : array of shape (n,), int32
    log_likelihood_ : float
        Of the words in their order: the number of orders of the same counts is left out, here and in `score_samples`.
    n_clusters_, n_iter_, n_features_in_ : int
    converged_ : bool

    References
    ----------
    Gopal and Yang (2014), Von Mises-Fisher clustering models.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary import MultinomialMixture
    >>> X = np.array([[4, 0, 1], [5, 1, 0], [0, 4, 3], [0, 5, 4]])
    >>> MultinomialMixture(n_components=2, random_state=0).fit_predict(X)[[0, 2]].tolist() in ([0, 1], [1, 0])
    True
    """

    def __init__(
        self,
        n_components: int = 8,
        *,
        weight_prior: float = 1.0,
        feature_prior: float = 0.01,
        init: str = "k-means++",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: RandomState = None,
        n_threads: int | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.n_components = n_components
        self.weight_prior = weight_prior
        self.feature_prior = feature_prior
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.callbacks = callbacks

    @learning
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the mixture to the rows of X (n, D), counts, dense or CSR; `y` is ignored."""
        points = self._points(X, sample_weight, is_new=True)
        parameters, (n_init, max_iter, tol) = self._parameters(points)
        stream = Stream.of(self.random_state)

        def start(passes: Passes, restart: int) -> ExpectationMaximization[State]:
            return ExpectationMaximization(
                passes,
                initial_state(passes, parameters, stream, restart),
                score_rule=lambda state: score_rule(state, points.scale),
                update=lambda _, statistics: update(statistics, points.scale, parameters),
                objective=lambda before, _, evidence: evidence + log_prior(before, parameters),
                n_clusters=lambda state: count_clusters(state.log_weights),
            )

        state, run, labels, evidence = self._run(
            points,
            start,
            n_init=n_init,
            max_iter=max_iter,
            stopping=RelativeGain(tol, patience=2),
            # of what is published, whose logarithms differ in their last bits: labels are those of `predict`
            score_rule=lambda found: score_rule(State.read(*found.published()), points.scale),
        )
        weights, probabilities = state.published()
        self._publish(
            X,
            is_new=True,
            weights_=weights,
            feature_probabilities_=probabilities,
            labels_=labels,
            log_likelihood_=evidence,
            n_clusters_=count_clusters(state.log_weights),
            n_iter_=run.n_steps,
            converged_=run.is_converged,
        )
        return self

    def _parameters(self, points: Points) -> tuple[Parameters, tuple[int, int, float]]:
        parameters = Parameters(
            n_components=check_n_components(self.n_components, points, self._who),
            weight_prior=check_positive(self.weight_prior, "weight_prior", self._who, is_finite=True),
            feature_prior=check_positive(self.feature_prior, "feature_prior", self._who, is_finite=True),
            init=check_choice(self.init, "init", self._who, ("k-means++", "random_labels")),
        )
        return parameters, check_runs(self, self._who)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._parameters(self._any_points())

    def _points(self, X: Any, sample_weight: Any = None, *, is_new: bool) -> Points:
        return self._gate(X, sample_weight, is_new=is_new, make=as_count_points)

    def _rule(self, points: Points) -> AffineRule:
        return score_rule(State.read(self.weights_, self.feature_probabilities_), points.scale)

    def _log_base(self, points: Points) -> float:
        return 0.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def _n_parameters(self) -> int:
        return int(self.feature_probabilities_.size - 1)
