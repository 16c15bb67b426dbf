"""vMFmix: a mixture of von Mises-Fisher distributions, by expectation maximisation.

Story        z_i ~ Categorical(pi), x_i ~ vMF(mu_{z_i}, kappa_{z_i}); kappa tied over components or free
Objective    soft: the log likelihood sum_i w_i log sum_k pi_k vMF(x_i | mu_k, kappa_k); hard: with the largest
             term for the sum. Free concentrations add a prior that keeps it bounded    vmf_mixtures.md, 4
E-step       softmax_k(log pi_k - log H(kappa_k) + kappa_k x.mu_k): an affine score      Gopal and Yang 2014, 1.2
M-step       pi = n/N, mu = R/|R|, kappa = A^-1(|R|/n) by the exact root                 1.2, corrected
Row order    does not matter to the model; it matters to k-means++ draws and to the last bits of sums

Departures from the paper: kappa is the exact root (with the closed form, still offered, EM is not monotone); stopping
is relative to the gain over the uniform law (the paper's absolute rule asks for eleven digits on 20 Newsgroups).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from armillary._typing import ArrayLike, Float64Array, IntArray, RandomState
from armillary.distributions import bessel, vmf
from armillary.distributions.log_concentration import length_gap
from armillary.draws import Stream, generator
from armillary.engines.contract import Passes, Points
from armillary.fitting import initialization
from armillary.fitting.expectation import ExpectationMaximization
from armillary.fitting.stopping import AbsoluteGain, RelativeGain, Stopping
from armillary.geometry import sphere
from armillary.models.mixture import (
    EMPTY,
    AffineMixture,
    check_n_components,
    check_runs,
    count_clusters,
    log_shares,
)
from armillary.models.parameters import Given, RowShape
from armillary.models.turns import learning, reading
from armillary.rules import AffineRule
from armillary.sums.directional import DirectionalStatistics
from armillary.validation import check_choice, check_number, check_positive, check_row_count

STARTS = ("k-means++", "random", "random_labels")

_MOST_CONCENTRATION = 1e30  # rules are kept in float32 too; rows can tell no more than about D * 1e12
# Gopal and Yang 2014, 10.2.
_PAPER_GAIN, _PAPER_CHANGE = 1e-1, 1e-2


@dataclass(frozen=True, eq=False)
class State:
    """What the next step needs."""

    log_weights: Float64Array  # (K,)
    directions: Float64Array  # (K, D)
    concentrations: Float64Array  # (K,)
    anchor: float | None  # r0 of the prior of free concentrations: the pooled length at the first M-step

    @property
    def weights(self) -> Float64Array:
        """`weights_` (K,)."""
        return np.exp(self.log_weights)

    @classmethod
    def read(cls, weights: Float64Array, directions: Float64Array, concentrations: Float64Array) -> State:
        """The state behind fitted attributes, which have no prior any more."""
        with np.errstate(divide="ignore"):
            return cls(np.log(weights), directions, concentrations, None)


@dataclass(frozen=True)
class Parameters:
    """Checked constructor parameters."""

    n_components: int
    is_tied: bool
    is_hard: bool
    is_exact: bool
    init: str | Float64Array
    n_init: int
    max_iter: int
    tol: float
    follows_paper: bool
    initial_concentration: float
    prior_strength: float
    length_gap: float  # mean resultant lengths are at most 1 less this

    @classmethod
    def check(cls, given: Given, rows: RowShape, who: str) -> Parameters:
        """The parameters, or an error that names the wrong one."""
        n_components = check_n_components(given["n_components"], rows, who)
        n_init, max_iter, tol = check_runs(given, who)
        return cls(
            n_components=n_components,
            is_tied=check_choice(given["concentration"], "concentration", who, ("tied", "free")) == "tied",
            is_hard=check_choice(given["assignment"], "assignment", who, ("soft", "hard")) == "hard",
            is_exact=check_choice(given["estimate"], "estimate", who, ("exact", "approximate")) == "exact",
            init=initialization.check_init(given["init"], (n_components, rows.n_features), "n_components", who, STARTS),
            n_init=n_init,
            max_iter=max_iter,
            tol=tol,
            follows_paper=check_choice(given["stopping"], "stopping", who, ("relative", "paper")) == "paper",
            initial_concentration=check_positive(
                given["initial_concentration"], "initial_concentration", who, high=_MOST_CONCENTRATION
            ),
            prior_strength=check_number(given["prior_strength"], "prior_strength", who, low=0.0),
            length_gap=length_gap(rows.dtype),
        )

    @property
    def stopping(self) -> Stopping:
        """The relative rule must be met twice in a row: the first M-step from a broad start can gain little."""
        return AbsoluteGain(_PAPER_GAIN) if self.follows_paper else RelativeGain(self.tol, patience=2)


def initial_state(passes: Passes, parameters: Parameters, stream: Stream, restart: int) -> State:
    """Directions, equal weights, and a low concentration: a broad first E-step (Gopal and Yang 2014, 10.2).

    Where the directions are rows, all of them nearer to each other than that concentration can tell, it is raised to
    theirs: a first E-step that gives every row to all components alike is a saddle that EM does not leave.
    """
    n_components = parameters.n_components
    directions = initialization.starting_directions(
        passes, parameters.init, n_components, stream.generator("start", restart)
    )
    concentration = parameters.initial_concentration
    if isinstance(parameters.init, str) and parameters.init != "random_labels":
        offsets = directions - directions.mean(axis=0)
        scatter = float(np.vecdot(offsets, offsets).mean())
        # one direction, or equal ones, have no scatter
        concentration = max(concentration, 1.0 / scatter if scatter > parameters.length_gap else 0.0)
    return State(np.full(n_components, -math.log(n_components)), directions, np.full(n_components, concentration), None)


def score_rule(state: State) -> AffineRule:
    """log pi_k - log H(kappa_k) + kappa_k x.mu_k: the log density over that of the uniform law."""
    order = 0.5 * state.directions.shape[1] - 1.0
    return AffineRule(
        state.directions,
        state.log_weights - np.asarray(bessel.log_h(order, state.concentrations)),
        slopes=state.concentrations,
    )


def update(state: State, statistics: DirectionalStatistics, parameters: Parameters) -> State:
    """The parameters that maximise the expected log likelihood, given counts and resultants (1.2)."""
    counts, total = statistics.counts, float(statistics.counts.sum())
    lengths = statistics.lengths
    dimension = state.directions.shape[1]
    is_there = counts >= EMPTY * total
    pooled = float(lengths.sum()) / total
    anchor = pooled if state.anchor is None else state.anchor
    if parameters.is_tied:
        mean_lengths = np.full(len(counts), pooled)
    else:
        t = parameters.prior_strength
        mean_lengths = (lengths + t * anchor) / np.where(is_there, counts + t, 1.0)
    mean_lengths = np.minimum(mean_lengths, 1.0 - parameters.length_gap)
    # tied ones have one root for all: K of them would be what a step of narrow rows takes on sixteen cores
    wanted = mean_lengths[:1] if parameters.is_tied else mean_lengths
    found = estimate_concentration(dimension, wanted, is_exact=parameters.is_exact)
    directions = statistics.directions(otherwise=state.directions)
    directions[~is_there] = state.directions[~is_there]
    return State(
        log_shares(counts),
        directions,
        np.full(len(counts), found[0]) if parameters.is_tied else np.where(is_there, found, state.concentrations),
        anchor,
    )


def estimate_concentration(dimension: int, mean_lengths: Float64Array, *, is_exact: bool) -> Float64Array:
    """A_D^-1: the root, or Banerjee's closed form r (D - r^2)/(1 - r^2), off by up to 6 per cent for small D."""
    if is_exact:
        return np.asarray(bessel.concentration_from_resultant(dimension, mean_lengths), dtype=np.float64)
    squares = mean_lengths**2
    return np.asarray(mean_lengths * (dimension - squares) / (1.0 - squares))


def prior_gain(state: State, parameters: Parameters) -> float:
    """What the prior of free concentrations adds: sum_k t (r0 kappa_k - log H(kappa_k)); 0 before the first M-step."""
    if parameters.is_tied or state.anchor is None:
        return 0.0
    order = 0.5 * state.directions.shape[1] - 1.0
    parts = state.anchor * state.concentrations - np.asarray(bessel.log_h(order, state.concentrations))
    return parameters.prior_strength * float(parts.sum())


def objective(before: State, after: State, evidence: float, parameters: Parameters) -> float:
    """What must not decrease: the (classification) log likelihood over that of the uniform law, and the prior.

    The prior's anchor is found by the first M-step, and holds for the state before it too.
    """
    return evidence + prior_gain(replace(before, anchor=after.anchor), parameters)


def _has_stopped_moving(before: State, after: State) -> bool:
    """No parameter moved by 0.01 (Gopal and Yang 2014, 10.2)."""
    changes = (
        np.abs(np.exp(after.log_weights) - np.exp(before.log_weights)).max(),
        np.abs(after.directions - before.directions).max(),
        np.abs(after.concentrations - before.concentrations).max(),
    )
    return float(max(changes)) < _PAPER_CHANGE


class VonMisesFisherMixture(AffineMixture):
    """Mixture of von Mises-Fisher distributions, fitted by expectation maximisation.

    Rows are normalised first. Each component has a weight, a mean direction and a concentration; a row belongs to every
    component by its responsibility. The log likelihood never falls from one step to the next.

    Parameters
    ----------
    n_components : int, default=8
        K.
    concentration : {"tied", "free"}, default="tied"
        One concentration for all components, or one each. Free ones have the higher likelihood, tied ones the better
        clusters: small tight components raise the likelihood without matching groups.
    assignment : {"soft", "hard"}, default="soft"
        Rows shared by responsibility, or given whole to the best component.
    estimate : {"exact", "approximate"}, default="exact"
        Concentrations by the exact root, or by the closed form of Banerjee et al. 2005, as in the paper: then the
        likelihood may fall a little.
    init : {"k-means++", "random", "random_labels"} or array of shape (K, D), default="k-means++"
        First directions: k-means++ by angle, distinct rows, the means of random groups (the paper's), or as given.
    n_init : int, default=1
        Runs, each from its own draw; the one with the highest objective is kept.
    max_iter : int, default=200
        Most steps of one run. A run that uses them all warns.
    tol : float, default=1e-6
        Stop when two steps in a row gain at most this fraction of the log likelihood over the uniform law.
    stopping : {"relative", "paper"}, default="relative"
        "paper": stop when the log likelihood gains at most 0.1 or no parameter moves by 0.01.
    initial_concentration : float, default=10.0
        Of all components in the first step, at most 1e30. Low gives a broad start. Where the first directions are rows
        and lie in a cone narrower than 1/sqrt(initial_concentration), it is too low to tell them apart and is raised
        to theirs.
    prior_strength : float, default=1.0
        Rows' worth of a prior that draws free concentrations to the pooled one; 0 is maximum likelihood, which is
        unbounded: a component of one row has an infinite concentration.
    missing : {"raise", "flag"}, default="raise"
        Rows without a direction (with NaN or infinities, or all zero, as an empty document is) are an error, or are
        passed over and get the label -1.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the starts.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it.
    device : {None, "auto", "cpu", "cuda", "cuda:1", ...}, default=None
        Where rows are worked on: None is where X is, "auto" a GPU if there is one. The result does not depend on it.
    verbose : int, default=0
        1 shows a progress bar (needs the extra "progress").
    callbacks : callable, sequence of callables or None, default=None
        Each is called with every `FitEvent`.

    Attributes
    ----------
    weights_ : array of shape (K,)
        Shares of the components; they sum to 1.
    means_ : array of shape (K, D)
        Unit mean directions.
    concentrations_ : array of shape (K,)
        kappa; all equal if tied.
    labels_ : array of shape (n,), int32
        The most probable component of each row: `predict` of the training rows.
    log_likelihood_ : float
        sum_i w_i log p(x_i), in nats with respect to the surface of the sphere.
    n_clusters_ : int
        Components whose weight is above 1e-8.
    n_iter_ : int
        Steps of the run that was kept.
    converged_ : bool
        Whether it stopped before `max_iter`.
    device_ : str
        Where the last fit ran. It is not saved.
    n_features_in_ : int
        D.
    feature_names_in_ : array of shape (D,)
        Column names, where X had them.

    Notes
    -----
    A step costs 4 n D K operations (4 nnz K for CSR rows, which stay sparse). Results repeat to the bit for one
    `random_state`, whatever `n_threads`. Mean resultant lengths are held below 1 - 1e-12, for float32 rows below
    1 - 1e-6, which their rounding can tell; a fit that needs that warns.

    References
    ----------
    Gopal and Yang (2014), Von Mises-Fisher clustering models.
    Banerjee, Dhillon, Ghosh and Sra (2005), Clustering on the unit hypersphere using von Mises-Fisher distributions.

    Examples
    --------
    >>> from armillary import VonMisesFisherMixture
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, _, _ = make_vmf_mixture(2000, 3, 4, concentration=50.0, min_angle=1.0, random_state=0)
    >>> model = VonMisesFisherMixture(n_components=4, random_state=0).fit(X)
    >>> bool(45.0 < model.concentrations_[0] < 55.0)
    True
    """

    _parameters_kind = Parameters

    def __init__(
        self,
        n_components: int = 8,
        *,
        concentration: str = "tied",
        assignment: str = "soft",
        estimate: str = "exact",
        init: str | ArrayLike = "k-means++",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-6,
        stopping: str = "relative",
        initial_concentration: float = 10.0,
        prior_strength: float = 1.0,
        missing: str = "raise",
        random_state: RandomState = None,
        n_threads: int | None = None,
        device: str | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.n_components = n_components
        self.concentration = concentration
        self.assignment = assignment
        self.estimate = estimate
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.stopping = stopping
        self.initial_concentration = initial_concentration
        self.prior_strength = prior_strength
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
                    initial_state(passes, parameters, stream, restart),
                    score_rule=score_rule,
                    update=lambda state, statistics: update(state, statistics, parameters),
                    objective=lambda before, after, evidence: objective(before, after, evidence, parameters),
                    n_clusters=lambda state: count_clusters(state.log_weights),
                    is_hard=parameters.is_hard,
                    is_still=_has_stopped_moving if parameters.follows_paper else None,
                )

            state, run, labels, evidence = self._run(
                passes,
                emitter,
                parameters,
                start,
                stopping=parameters.stopping,
                # of what is published, whose logarithms differ in their last bits: labels are those of `predict`
                score_rule=lambda found: score_rule(State.read(found.weights, found.directions, found.concentrations)),
            )
        self._warn_of_bounds(state, parameters.length_gap)
        self._publish(
            X,
            is_new=True,
            weights_=state.weights,
            means_=state.directions,
            concentrations_=state.concentrations,
            labels_=labels,
            log_likelihood_=evidence + points.total_weight * self._log_base(points),
            n_clusters_=count_clusters(state.log_weights),
            n_iter_=run.n_steps,
            converged_=run.is_converged,
        )
        return self

    @reading
    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[Float64Array, IntArray]:
        """Rows (n_samples, D) drawn from the mixture, in the order of their components (n_samples,).

        Parameters
        ----------
        n_samples : int, default=1
            How many rows.
        random_state : int, numpy.random.Generator or None
            Seed of the draws.

        Returns
        -------
        X : array of shape (n_samples, D)
            Unit rows.
        labels : array of shape (n_samples,)
            Their components.
        """
        check_is_fitted(self)
        size = check_row_count(n_samples, self.n_features_in_, "n_samples", f"{self._who}.sample", low=1)
        draws = generator(random_state)
        counts = draws.multinomial(size, self.weights_ / self.weights_.sum())
        parts = [
            vmf.sample(self.means_[k], float(self.concentrations_[k]), int(count), draws)
            for k, count in enumerate(counts)
            if count
        ]
        return np.concatenate(parts), np.repeat(np.arange(len(counts), dtype=np.int32), counts)

    def _rule(self, points: Points) -> AffineRule:
        return score_rule(State.read(self.weights_, self.means_, self.concentrations_))

    def _n_parameters(self) -> int:
        n_components, dimension = self.means_.shape
        n_concentrations = 1 if self.concentration == "tied" else n_components
        return n_components - 1 + n_components * (dimension - 1) + n_concentrations

    def _log_base(self, points: Points) -> float:
        return -float(sphere.log_area(points.n_features))

    def _warn_of_bounds(self, state: State, gap: float) -> None:
        dimension = state.directions.shape[1]
        largest = float(bessel.concentration_from_resultant(dimension, complement=gap))
        held = np.flatnonzero(state.concentrations >= 0.999 * largest)
        if held.size:
            warnings.warn(
                f"{self._who} holds the concentration of component {', '.join(map(str, held))} at its bound "
                f"{largest:.3g}: the rows there are equal or nearly so. Lower n_components, raise prior_strength, or "
                "drop copies.",
                ConvergenceWarning,
                stacklevel=4,
            )
