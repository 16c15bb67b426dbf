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
from armillary.draws import Stream
from armillary.engines.contract import Directed, Gate, Passes, Points
from armillary.fitting import initialization
from armillary.fitting.expectation import ExpectationMaximization
from armillary.fitting.stopping import RelativeGain
from armillary.models.mixture import AffineMixture, check_n_components, check_runs, count_clusters
from armillary.models.parameters import Given, RowShape
from armillary.models.turns import learning
from armillary.rules import AffineRule
from armillary.sums.directional import DirectionalStatistics
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
    weight_concentration: float  # alpha
    feature_prior: float  # beta
    init: str
    n_init: int
    max_iter: int
    tol: float

    @classmethod
    def check(cls, given: Given, rows: RowShape, who: str) -> Parameters:
        """The parameters, or an error that names the wrong one."""
        alpha, beta = "weight_concentration_prior", "feature_prior"
        return cls(
            check_n_components(given["n_components"], rows, who),
            check_positive(given[alpha], alpha, who, is_finite=True),
            check_positive(given[beta], beta, who, is_finite=True),
            check_choice(given["init"], "init", who, ("k-means++", "random_labels")),
            *check_runs(given, who),
        )


def initial_state(passes: Passes, parameters: Parameters, stream: Stream, restart: int) -> State:
    """The M-step from labels: the nearest of k-means++ rows by cosine, or drawn at random."""
    draws = stream.generator("start", restart)
    # the nearest direction does not depend on the length of a row, the draws do
    directed = None if parameters.init == "random_labels" else passes.over(Directed())
    if directed is None or directed.points.n_rows == 0:  # as asked for, or because no row has a direction
        labels = passes.random_labels(parameters.n_components, draws)
    else:
        directions = initialization.plus_plus(directed, parameters.n_components, draws)
        labels = passes.labels()
        passes.label(AffineRule.cosines(directions), labels, sums=False)
    return update(passes.sum(labels, parameters.n_components), passes.points.scale, parameters)


def score_rule(state: State, scale: float) -> AffineRule:
    """log pi_k + sum_d x_d log phi_kd, for rows given out divided by `scale`."""
    return AffineRule(scale * state.log_probabilities, state.log_weights)


def update(statistics: DirectionalStatistics, scale: float, parameters: Parameters) -> State:
    """The parameters that maximise the expected log posterior."""
    weights = statistics.counts + parameters.weight_concentration
    features = scale * statistics.resultants + parameters.feature_prior
    log_probabilities = np.log(features) - np.log(features.sum(axis=1, keepdims=True))
    return State(np.log(weights) - math.log(weights.sum()), log_probabilities)


def log_prior(state: State, parameters: Parameters) -> float:
    """What the Dirichlet priors add to the objective."""
    weights = parameters.weight_concentration * float(state.log_weights.sum())
    return weights + parameters.feature_prior * float(state.log_probabilities.sum())


class MultinomialMixture(AffineMixture):
    """Mixture of multinomials: clusters documents by their word counts, with Dirichlet smoothing.

    A baseline for text. X holds raw counts, dense or CSR; rows are not normalised, and rows of zeros are allowed.

    Parameters
    ----------
    n_components : int, default=8
        K.
    weight_concentration_prior : float, default=1.0
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
    random_state, n_threads, device, verbose, callbacks
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
    device_ : str

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

    _parameters_kind = Parameters

    def __init__(
        self,
        n_components: int = 8,
        *,
        weight_concentration_prior: float = 1.0,
        feature_prior: float = 0.01,
        init: str = "k-means++",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: RandomState = None,
        n_threads: int | None = None,
        device: str | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.n_components = n_components
        self.weight_concentration_prior = weight_concentration_prior
        self.feature_prior = feature_prior
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_threads = n_threads
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    @learning
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the mixture to the rows of X (n, D), counts, dense or CSR; `y` is ignored.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
            Counts of words, not below 0.
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
                    initial_state(passes, parameters, stream, restart),
                    score_rule=lambda state: score_rule(state, points.scale),
                    update=lambda _, statistics: update(statistics, points.scale, parameters),
                    objective=lambda before, _, evidence: evidence + log_prior(before, parameters),
                    n_clusters=lambda state: count_clusters(state.log_weights),
                )

            state, run, labels, evidence = self._run(
                passes,
                emitter,
                parameters,
                start,
                stopping=RelativeGain(parameters.tol, patience=2),
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

    def _points(self, X: Any, sample_weight: Any = None, *, is_new: bool) -> Points:
        return self._gate(X, sample_weight, is_new=is_new, gate=Gate("counts"))

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
