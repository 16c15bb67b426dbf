"""B-vMFmix: a Bayesian mixture of von Mises-Fisher distributions, by variational inference.

Story        pi ~ Dirichlet(alpha) or sticks, mu_k ~ vMF(mu_0, C_0), log kappa_k ~ Normal(m, s2),
             z_i ~ Categorical(pi), x_i ~ vMF(mu_{z_i}, kappa_{z_i})                      vmf_mixtures.md, 5.1, 10
Objective    the evidence lower bound, every term of it, over the uniform law            5.2, 5.6
Labels       softmax_k(E[log pi_k] - E[log H(kappa_k)] + x.E[kappa_k mu_k])               5.3, 5.6
Components   joint: q(mu, kappa), exact given the labels; factorised: q(mu) q(kappa)      5.6; 5.3, Gopal and Yang 2.1
Priors       alpha, mu_0, C_0, m, s2 maximise the bound too (empirical Bayes)             5.5
Merges       two components become one where that raises the bound                        10
Mini-batches running counts and resultants scaled to the whole                            11; Hoffman et al. 2013
Row order    does not matter to the model; it matters to k-means++ draws, to batches and to the last bits of sums

Departures from the paper: the joint factor; the grid in place of its Metropolis steps (offered, with steps of the right
size); the start from a short tied EM run, since low concentrations collapse clusters in high dimensions (5.7); the
errata of vmf_mixtures.md, 15.

The estimator is here. `_bayesian_vmf_fit.py` has its checked parameters, the start and the chain of a fit;
`_variational_vmf.py` the state, its scores and every single update; `_variational_steps.py` merges, the order of sticks
and mini-batches. `gibbs_vmf_mixture.py` samples the same model.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from armillary._typing import ArrayLike, IntArray, RandomState
from armillary.distributions.dirichlet import DirichletWeights, StickBreakingWeights, WeightLaw
from armillary.distributions.log_concentration import HIGHEST
from armillary.draws import Stream
from armillary.fitting.loop import Run, best_run
from armillary.geometry import sphere
from armillary.models.mixture import best_labels
from armillary.models.turns import learning
from armillary.models.vmf._bayesian_vmf_fit import LEARN_EVERY, Ascent, Parameters, initial_state
from armillary.models.vmf._component_mixture import ComponentMixture, SavedLaws, described
from armillary.models.vmf._variational_steps import take_batch
from armillary.models.vmf._variational_vmf import State, count_clusters, learn_priors, objective, score_rule

# Rows of a batch where none is named: only what `n_steps_` counts after a fit depends on it.
_BATCH_ROWS = 4096


@dataclass(frozen=True, eq=False)
class SavedState(SavedLaws):
    """And what `partial_fit` goes on with."""

    rows_seen: float  # weight of the rows of all batches so far
    seed: int  # of the draws of batches


class BayesianVonMisesFisherMixture(ComponentMixture):
    """Bayesian mixture of von Mises-Fisher distributions.

    Rows are normalised first. Weights, mean directions and concentrations have priors; the fit finds a law of them by
    variational inference (`GibbsVonMisesFisherMixture` draws from their posterior). Concentrations differ between
    components and stay finite, components without need of rows return to the prior, and densities of new rows take the
    doubt about the parameters into account.

    Parameters
    ----------
    n_components : int, default=8
        K; with sticks or merges, the most there can be.
    inference : {"variational"}, default="variational"
        A law that maximises the evidence lower bound. Draws by Gibbs sampling: `GibbsVonMisesFisherMixture`.
    factors : {"joint", "factorised"}, default="joint"
        The law of a component: q(mu, kappa), exact given the labels, or q(mu) q(kappa), as in the paper. The joint
        bound is never below the other, at the same cost.
    concentration_posterior : {"grid", "monte_carlo", "log_normal"}, default="grid"
        q(kappa) by quadrature; by Metropolis draws, after which the bound is an estimate and may fall; or the best
        log-normal law.
    log_normal_bound : {"quadrature", "jensen", "delta"}, default="quadrature"
        E[log H(kappa)] under a log-normal law: exact, in closed form and no less, or the paper's approximation, of
        which that is measured and not proved.
    weight_prior : {"dirichlet", "stick_breaking"}, default="dirichlet"
        Symmetric Dirichlet weights, or a truncated Dirichlet process whose concentration has a prior of its own.
    empirical_bayes : bool, default=True
        Let the five prior parameters below maximise the bound; those given are then starts. With one component the
        prior of directions stays, with fewer than three that of concentrations.
    weight_concentration_prior : float, default=1.0
        alpha of the Dirichlet; with sticks, the prior mean of the process's concentration.
    mean_direction_prior : array of shape (D,) or None, default=None
        mu_0; None takes the direction of the sum of all rows.
    mean_concentration_prior : float, default=0.0
        C_0; 0 makes all mean directions equally likely.
    log_concentration_mean_prior : float or None, default=None
        m; None takes the log concentration of the EM run that the fit starts from.
    log_concentration_variance_prior : float, default=1.0
        s2.
    init, n_init : as in `VonMisesFisherMixture`
        Of the tied EM run that each fit starts from; the run with the highest lower bound is kept.
    max_iter : int, default=200
        Most steps of one run. A run that uses them all warns.
    tol : float, default=1e-6
        Stop when two steps in a row gain at most this fraction of the lower bound over the uniform law.
    merge : {"auto", True, False}, default="auto"
        Every fifth step, make one of two components where that raises the bound. "auto" does so with sticks.
    batch_size : int or None, default=None
        Take this many random rows at a time (stochastic variational inference), with one step over all rows after each
        round of batches. For data sets with many more rows than that.
    total_rows : float or None, default=None
        How many rows `partial_fit` should take its batches to stand for; None counts those seen.
    learning_offset, learning_decay : float, default=1.0 and 0.7
        Batch number t = 0, 1, ... moves the statistics by the rate (t + learning_offset)^-learning_decay.
    random_state : int, Generator, RandomState or None, default=None
        Seed of starts, batches and Metropolis steps.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it.
    device : {None, "auto", "cpu", "cuda", "cuda:1", ...}, default=None
        Where rows are worked on: None is where X is, "auto" a GPU if there is one. The result does not depend on it.
    verbose : int, default=0
        1 shows a progress bar (needs the extra "progress").
    callbacks : callable, sequence of callables or None, default=None
        Each is called with every `FitEvent`; the objective is the lower bound over the uniform law of the rows.

    Attributes
    ----------
    weights_ : array of shape (K,)
        Expected weights.
    means_ : array of shape (K, D)
        Unit directions of the expected mean directions; that of the prior for a component without any.
    concentrations_, concentration_deviations_ : arrays of shape (K,)
        Mean and standard deviation of kappa.
    log_concentrations_, log_concentration_variances_ : arrays of shape (K,)
        Mean and variance of log kappa.
    posterior_concentrations_ : array of shape (K,)
        Concentration of the law of the mean direction (gamma); with the joint factor, of the vMF law with the same
        mean.
    labels_ : array of shape (n,), int32
        The most probable component of each row: `predict` of the training rows (of the last batch).
    lower_bound_ : float
        The evidence lower bound in nats, with respect to the surface of the sphere. After `partial_fit`, an estimate
        from the last batch.
    lower_bounds_ : array of shape (n_iter_,)
        Its trace over the steps of the run that was kept.
    n_clusters_ : int
        Components whose expected count is at least half a row.
    weight_concentration_ : float
        alpha; with sticks, the expected concentration of the process.
    mean_direction_, mean_concentration_ : array of shape (D,), float
        mu_0 and C_0. C_0 says how alike the components are.
    log_concentration_mean_, log_concentration_variance_ : float
        m and s2. exp(m) is the typical concentration.
    counts_, resultants_ : arrays of shape (K,) and (K, D)
        Expected weight and weighted sum of the rows of each component.
    n_iter_ : int
        Steps of the run that was kept.
    converged_ : bool
        Whether it stopped before `max_iter`.
    n_steps_ : int
        Batches so far.
    device_ : str
        Where the last fit ran. It is not saved.
    n_features_in_ : int
        D.
    feature_names_in_ : array of shape (D,)
        Column names, where X had them.

    Notes
    -----
    A step costs 4 n D K operations (4 nnz K for CSR rows, which stay sparse). Results repeat to the bit for one
    `random_state`, whatever `n_threads`. With the grid the lower bound does not fall, after any single update; neither
    does it with the log-normal laws but "delta".

    References
    ----------
    Gopal and Yang (2014), Von Mises-Fisher clustering models.
    Hoffman, Blei, Wang and Paisley (2013), Stochastic variational inference.
    Blei and Jordan (2006), Variational inference for Dirichlet process mixtures.

    Examples
    --------
    >>> from armillary.datasets import make_vmf_mixture
    >>> from armillary import BayesianVonMisesFisherMixture
    >>> X, _, _ = make_vmf_mixture(500, 3, 4, concentration=100.0, min_angle=1.0, random_state=0)
    >>> model = BayesianVonMisesFisherMixture(8, weight_prior="stick_breaking", random_state=0).fit(X)
    >>> model.n_clusters_
    4
    """

    _parameters_kind = Parameters
    _state_kind = SavedState
    _saved_state: SavedState

    def __init__(
        self,
        n_components: int = 8,
        *,
        inference: str = "variational",
        factors: str = "joint",
        concentration_posterior: str = "grid",
        log_normal_bound: str = "quadrature",
        weight_prior: str = "dirichlet",
        empirical_bayes: bool = True,
        weight_concentration_prior: float = 1.0,
        mean_direction_prior: ArrayLike | None = None,
        mean_concentration_prior: float = 0.0,
        log_concentration_mean_prior: float | None = None,
        log_concentration_variance_prior: float = 1.0,
        init: str | ArrayLike = "k-means++",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-6,
        merge: str | bool = "auto",
        batch_size: int | None = None,
        total_rows: float | None = None,
        learning_offset: float = 1.0,
        learning_decay: float = 0.7,
        random_state: RandomState = None,
        n_threads: int | None = None,
        device: str | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.n_components = n_components
        self.inference = inference
        self.factors = factors
        self.concentration_posterior = concentration_posterior
        self.log_normal_bound = log_normal_bound
        self.weight_prior = weight_prior
        self.empirical_bayes = empirical_bayes
        self.weight_concentration_prior = weight_concentration_prior
        self.mean_direction_prior = mean_direction_prior
        self.mean_concentration_prior = mean_concentration_prior
        self.log_concentration_mean_prior = log_concentration_mean_prior
        self.log_concentration_variance_prior = log_concentration_variance_prior
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.merge = merge
        self.batch_size = batch_size
        self.total_rows = total_rows
        self.learning_offset = learning_offset
        self.learning_decay = learning_decay
        self.random_state = random_state
        self.n_threads = n_threads
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    # ------------------------------------------------------------------------------------------------------ fits

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
            run = best_run(
                lambda restart: Ascent(passes, parameters, stream, restart),
                n_restarts=parameters.n_init,
                max_steps=parameters.max_iter,
                stopping=parameters.stopping,
                emitter=emitter,
            )
            chain: Any = run.chain
            labels = best_labels(passes, score_rule(chain.state))
        self._warn(run)
        bounds = np.array(chain.trace) - points.total_weight * float(sphere.log_area(points.n_features))
        self._publish(
            X,
            is_new=True,
            **described(chain.state),
            _saved_state=SavedState(
                **SavedLaws.of(chain.state.factors), rows_seen=points.total_weight, seed=stream.seed
            ),
            labels_=labels,
            n_clusters_=chain.n_clusters,
            lower_bound_=float(bounds[-1]),
            lower_bounds_=bounds,
            n_iter_=run.n_steps,
            converged_=run.is_converged,
            n_steps_=-(-points.n_rows // (parameters.batch_size or _BATCH_ROWS)),
        )
        return self

    @learning
    def fit_predict(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> IntArray:
        """`fit`; returns `labels_`.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.

        Returns
        -------
        array of shape (n,), int32
            `labels_`.
        """
        return self.fit(X, y, sample_weight).labels_

    @learning
    def partial_fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn one mini-batch by a stochastic variational step (vmf_mixtures.md, 11); the first starts the fit.

        Statistics are scaled to `total_rows`, or to the rows seen so far, and hyper-parameters are learned at every
        20th batch. After `fit`, its rows count as batches of `batch_size` rows (4096 where None).

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
        is_new = not hasattr(self, "means_")
        points = self._points(X, sample_weight, is_new=is_new)
        parameters = Parameters.check(vars(self), points, self._who, None if is_new else len(self.counts_))
        stream = Stream.of(self.random_state) if is_new else Stream(self._saved_state.seed)
        n_steps = 0 if is_new else self.n_steps_
        seen = (0.0 if is_new else self._saved_state.rows_seen) + points.total_weight
        total = seen if parameters.total_rows is None else parameters.total_rows
        form = parameters.form(stream, 0, n_steps + 1)
        with self._passes(points) as passes:
            before = initial_state(passes, parameters, stream, 0, total) if is_new else self._state()
            state, alone = take_batch(before, passes, form, total=total, rate=parameters.rate(n_steps))
            if parameters.is_learning and (n_steps + 1) % LEARN_EVERY == 0:
                state = learn_priors(state, form)
            labels = best_labels(passes, score_rule(state))
        gain = objective(replace(alone, weights=state.weights, factors=state.factors, prior=state.prior))
        bound = gain - total * float(sphere.log_area(points.n_features))
        trace = np.array([bound]) if is_new else np.append(self.lower_bounds_, bound)
        self._publish(
            X,
            is_new=is_new,
            **described(state),
            _saved_state=SavedState(**SavedLaws.of(state.factors), rows_seen=seen, seed=stream.seed),
            labels_=labels,
            n_clusters_=count_clusters(state.statistics.counts, points),
            lower_bound_=bound,
            lower_bounds_=trace,
            n_iter_=1 if is_new else self.n_iter_ + 1,
            converged_=False,
            n_steps_=n_steps + 1,
        )
        return self

    # ---------------------------------------------------------------------------------------------------- inside

    def _warn(self, run: Run[State]) -> None:
        if not run.is_converged:
            self._warn_of_steps(run.n_steps, stacklevel=3)
        held = np.flatnonzero(run.chain.state.factors.log_means > HIGHEST - 1.0)
        if held.size:
            warnings.warn(
                f"{self._who} holds the concentration of component {', '.join(map(str, held))} at its bound "
                f"{math.exp(HIGHEST):.3g}: the rows there are equal. Drop copies, lower n_components, or keep a narrow "
                "prior of concentrations with empirical_bayes=False.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _weight_law(self) -> WeightLaw:
        if self.weight_prior == "stick_breaking":
            return StickBreakingWeights.restored(
                self.weight_concentration_prior, self.weight_concentration_, self.counts_
            )
        return DirichletWeights(self.weight_concentration_, self.weight_concentration_ + self.counts_)
