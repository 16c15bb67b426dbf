"""B-vMFmix: a Bayesian mixture of von Mises-Fisher distributions, by variational inference or Gibbs sampling.

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
and mini-batches; `gibbs_vmf_mixture.py` the sampler.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if

from armillary._typing import ArrayLike, Float64Array, FloatArray, IntArray, RandomState
from armillary.distributions.component_factors import ComponentFactors, PredictiveNodes, joint_factors
from armillary.distributions.concentration_laws import point_law
from armillary.distributions.dirichlet import DirichletWeights, StickBreakingWeights, WeightLaw
from armillary.distributions.log_concentration import HIGHEST, MixturePrior
from armillary.distributions.predictive import PredictiveDensity
from armillary.exceptions import InputError
from armillary.fitting.events import Emitter
from armillary.fitting.loop import Run, best_run
from armillary.fitting.partitions import point_partition
from armillary.geometry import sphere
from armillary.models import gibbs_vmf_mixture as gibbs
from armillary.models import vmf_mixture as em
from armillary.models._bayesian_vmf_fit import LEARN_EVERY, Ascent, Parameters, initial_state
from armillary.models._mixture import best_labels
from armillary.models._predictive_mixture import PredictiveMixture
from armillary.models._turns import learning, reading
from armillary.models._variational_parameters import initial_prior
from armillary.models._variational_steps import take_batch
from armillary.models._variational_vmf import State, count_clusters, learn_priors, objective, run_start, score_rule
from armillary.points import Points
from armillary.random import Stream
from armillary.statistics.directional import DirectionalStatistics

# Rows of a batch where none is named: only what `n_steps_` counts after a fit depends on it.
_BATCH_ROWS = 4096
# Fitted attributes that only one kind of inference has.
_VARIATIONAL = ("lower_bound_", "lower_bounds_", "n_steps_", "rows_seen_", "seed_")
_GIBBS = (
    "sample_labels_",
    "sample_concentrations_",
    "sample_counts_",
    "sample_resultants_",
    "log_joint_",
    "partition_",
    "partition_draw_",
)


def _learns_batches(model: BayesianVonMisesFisherMixture) -> bool:
    """scikit-learn asks whether there is a `partial_fit` at all."""
    if model.inference == "gibbs":
        raise AttributeError(
            f'`partial_fit` of {type(model).__name__} must have inference="variational"; got "gibbs", which samples '
            "all rows together. Use `fit`, or make a variational model for mini-batches."
        )
    return True


class BayesianVonMisesFisherMixture(PredictiveMixture):
    """Bayesian mixture of von Mises-Fisher distributions.

    Rows are normalised first. Weights, mean directions and concentrations have priors; the fit finds a law of them
    (variational inference) or draws from their posterior (Gibbs sampling). Concentrations differ between components
    and stay finite, components without need of rows return to the prior, and densities of new rows take the doubt
    about the parameters into account.

    Parameters
    ----------
    n_components : int, default=8
        K; with sticks or merges, the most there can be.
    inference : {"variational", "gibbs"}, default="variational"
        A law that maximises the evidence lower bound, or draws by collapsed Gibbs sampling.
    factors : {"joint", "factorised"}, default="joint"
        The law of a component: q(mu, kappa), exact given the labels, or q(mu) q(kappa), as in the paper. The joint
        bound is never below the other, at the same cost.
    concentration_posterior : {"grid", "monte_carlo", "log_normal"}, default="grid"
        q(kappa) by quadrature; by Metropolis draws, after which the bound is an estimate and may fall; or the best
        log-normal law.
    log_normal_bound : {"quadrature", "jensen", "delta"}, default="quadrature"
        E[log H(kappa)] under a log-normal law: exact, in closed form and no less, or the paper's approximation, which
        is no bound.
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
        Of the tied EM run that each fit starts from; the run with the highest lower bound is kept. Gibbs sampling
        makes one run.
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
    n_samples, n_burn_in, thin : int, default=100, 200 and 1
        Gibbs sampling: draws kept, sweeps before the first of them, sweeps from one to the next.
    random_state : int, Generator, RandomState or None, default=None
        Seed of starts, batches, Metropolis steps and Gibbs sampling.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it.
    verbose : int, default=0
        1 shows a progress bar (needs the extra "progress").
    callbacks : callable, sequence of callables or None, default=None
        Each is called with every `FitEvent`; the objective is the lower bound (the log joint density of a sweep) over
        the uniform law of the rows.

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
    expected_log_h_ : array of shape (K,)
        E[log H(kappa)], the normaliser of a component's score.
    direction_coefficients_, natural_coefficients_ : arrays of shape (K, 2)
        E[mu] and E[kappa mu] as combinations of `resultants_` and `mean_direction_`.
    nodes_, node_weights_, node_pulls_ : arrays of shape (G, K)
        q(kappa) as weighted nodes; there mu has the natural vector pull * resultant + C_0 mu_0.
    n_iter_ : int
        Steps (Gibbs: sweeps) of the run that was kept.
    converged_ : bool
        Whether it stopped before `max_iter`; always for Gibbs sampling.
    n_steps_, rows_seen_, seed_ : int, float, int
        Batches so far, rows they had, and the seed of their draws: what `partial_fit` goes on with.
    sample_labels_, sample_concentrations_, sample_counts_, sample_resultants_ : arrays of shape (S, n), (S, K), (S, K)
        and (S, K, D). Gibbs sampling: the draws. Component k of one draw need not be component k of the next.
    log_joint_ : array of shape (n_iter_,)
        Gibbs sampling: log joint density after each sweep, over the uniform law of the rows.
    partition_, partition_draw_ : array of shape (n,), int
        Gibbs sampling: the draw with the least expected variation of information, its clusters numbered by first
        appearance, and its number. The attributes above describe the components of this draw.
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
        n_samples: int = 100,
        n_burn_in: int = 200,
        thin: int = 1,
        random_state: RandomState = None,
        n_threads: int | None = None,
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
        self.n_samples = n_samples
        self.n_burn_in = n_burn_in
        self.thin = thin
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.callbacks = callbacks

    # ------------------------------------------------------------------------------------------------------ fits

    @learning
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the mixture to the rows of X (n, D), dense or CSR; `y` is ignored.

        Gibbs sampling takes no weights but 1: each row has one label and counts once.
        """
        points = self._points(X, sample_weight, is_new=True)
        parameters = Parameters.check(self, points)
        stream = Stream.of(self.random_state)
        sampled = parameters.is_gibbs
        fitted = (self._sampled if sampled else self._ascended)(points, parameters, stream)
        # of an earlier fit of the other kind nothing stays
        self._publish(X, is_new=True, without=_VARIATIONAL if sampled else _GIBBS, **fitted)
        return self

    @learning
    def fit_predict(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> IntArray:
        """`fit`; returns `labels_`."""
        return self.fit(X, y, sample_weight).labels_

    @available_if(_learns_batches)  # type: ignore[untyped-decorator]
    @learning
    def partial_fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn one mini-batch by a stochastic variational step (vmf_mixtures.md, 11); the first starts the fit.

        Statistics are scaled to `total_rows`, or to the rows seen so far, and hyper-parameters are learned at every
        20th batch. After `fit`, its rows count as batches of `batch_size` rows (4096 where None).
        """
        is_new = not hasattr(self, "means_")
        points = self._points(X, sample_weight, is_new=is_new)
        parameters = Parameters.check(self, points, None if is_new else len(self.counts_))
        if hasattr(self, "sample_labels_"):
            raise InputError(
                f"`partial_fit` of {self._who} must start anew or from a variational fit; this model was fitted by "
                "Gibbs sampling. Make a new model for mini-batches."
            )
        stream = Stream.of(self.random_state) if is_new else Stream(self.seed_)
        n_steps = 0 if is_new else self.n_steps_
        seen = (0.0 if is_new else self.rows_seen_) + points.total_weight
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
            **_described(state),
            labels_=labels,
            n_clusters_=count_clusters(state.statistics.counts, points),
            lower_bound_=bound,
            lower_bounds_=trace,
            n_iter_=1 if is_new else self.n_iter_ + 1,
            converged_=False,
            n_steps_=n_steps + 1,
            rows_seen_=seen,
            seed_=stream.seed,
        )
        return self

    def _ascended(self, points: Points, parameters: Parameters, stream: Stream) -> dict[str, Any]:
        """What variational inference publishes."""
        emitter = Emitter(
            self._who,
            self._observers(),
            n_rows=points.n_rows,
            n_restarts=parameters.n_init,
            max_steps=parameters.max_iter,
        )
        with self._passes(points) as passes, emitter:
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
        return {
            **_described(chain.state),
            "labels_": labels,
            "n_clusters_": chain.n_clusters,
            "lower_bound_": float(bounds[-1]),
            "lower_bounds_": bounds,
            "n_iter_": run.n_steps,
            "converged_": run.is_converged,
            "n_steps_": -(-points.n_rows // (parameters.batch_size or _BATCH_ROWS)),
            "rows_seen_": points.total_weight,
            "seed_": stream.seed,
        }

    def _sampled(self, points: Points, parameters: Parameters, stream: Stream) -> dict[str, Any]:
        """What Gibbs sampling publishes: its draws, and the components of the draw that stands for them."""
        n_sweeps = parameters.n_burn_in + parameters.n_samples * parameters.thin
        emitter = Emitter(self._who, self._observers(), n_rows=points.n_rows, n_restarts=1, max_steps=n_sweeps)
        with self._passes(points) as passes, emitter:
            start = run_start(passes, parameters.init, parameters.n_components, stream, 1)
            prior = initial_prior(parameters, passes.total().resultants[0], float(start.concentrations[0]))
            draws = gibbs.sample_posterior(
                passes,
                prior,
                n_components=parameters.n_components,
                weight_concentration=parameters.weight_concentration,
                start_labels=best_labels(passes, em.score_rule(start)),
                n_burn_in=parameters.n_burn_in,
                n_samples=parameters.n_samples,
                thin=parameters.thin,
                empirical_bayes=parameters.is_learning,
                stream=stream,
                emitter=emitter,
            )
            chosen = point_partition(draws.labels)
            state = _state_of_draw(draws, chosen.draw)
            labels = best_labels(passes, score_rule(state))
        return {
            **_described(state),
            "labels_": labels,
            "n_clusters_": int(np.count_nonzero(state.statistics.counts)),
            "n_iter_": n_sweeps,
            "converged_": True,
            "sample_labels_": draws.labels,
            "sample_concentrations_": draws.concentrations,
            "sample_counts_": draws.counts,
            "sample_resultants_": draws.resultants,
            "log_joint_": draws.log_joint,
            "partition_": chosen.labels,
            "partition_draw_": chosen.draw,
        }

    # ----------------------------------------------------------------------------------------------- predictions

    @reading
    def predict(self, X: Any) -> IntArray:
        """The most probable component of each row of X (n,), int32."""
        points = self._points(X, is_new=False)
        with self._passes(points) as passes:
            return best_labels(passes, score_rule(self._state()))

    @reading
    def predict_proba(self, X: Any) -> FloatArray:
        """Responsibilities of the components for each row of X (n, K)."""
        points = self._points(X, is_new=False)
        with self._passes(points) as passes:
            return passes.responsibilities(score_rule(self._state()))[0]

    @reading
    def score_samples(self, X: Any, *, density: str = "full") -> Float64Array:
        """Log predictive density of each row of X (n,), in nats with respect to the surface of the sphere.

        `density="full"` averages over the law of the parameters (over the draws of Gibbs sampling), "plugin" takes
        their expectations. Both integrate to one (vmf_mixtures.md, 6).
        """
        if isinstance(density, str) and density == "full" and hasattr(self, "sample_labels_"):
            points = self._points(X, is_new=False)
            with self._passes(points) as passes:
                return gibbs.log_predictive(passes, self._draws())
        return super().score_samples(X, density=density)

    # ---------------------------------------------------------------------------------------------------- inside

    def _check_parameters(self) -> None:
        super()._check_parameters()
        Parameters.check(self, self._any_points())

    def _warn(self, run: Run[State]) -> None:
        if not run.is_converged:
            self._warn_of_steps(run.n_steps, stacklevel=4)
        held = np.flatnonzero(run.chain.state.factors.log_means > HIGHEST - 1.0)
        if held.size:
            warnings.warn(
                f"{self._who} holds the concentration of component {', '.join(map(str, held))} at its bound "
                f"{math.exp(HIGHEST):.3g}: the rows there are equal. Drop copies, lower n_components, or keep a narrow "
                "prior of concentrations with empirical_bayes=False.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _prior(self) -> MixturePrior:
        return MixturePrior(
            self.mean_direction_,
            self.mean_concentration_,
            self.log_concentration_mean_,
            self.log_concentration_variance_,
        )

    def _state(self) -> State:
        """What the next step needs, from what was published."""
        nothing = np.zeros(len(self.counts_))
        kept = PredictiveNodes(self.nodes_, self.node_weights_, self.node_pulls_)
        factors = ComponentFactors(
            resultants=self.resultants_,
            mean_direction=self.mean_direction_,
            direction_coefficients=self.direction_coefficients_,
            natural_coefficients=self.natural_coefficients_,
            direction_entropies=nothing,
            concentrations=self.concentrations_,
            concentration_deviations=self.concentration_deviations_,
            log_means=self.log_concentrations_,
            log_variances=self.log_concentration_variances_,
            log_h=self.expected_log_h_,
            log_entropies=nothing,
            direction_concentrations=self.posterior_concentrations_,
            pulls=self.node_pulls_[0],
            make_nodes=lambda: kept,
        )
        weights: WeightLaw
        if self.weight_prior == "stick_breaking":
            weights = StickBreakingWeights.restored(
                self.weight_concentration_prior, self.weight_concentration_, self.counts_
            )
        else:
            weights = DirichletWeights(self.weight_concentration_, self.weight_concentration_ + self.counts_)
        return State(DirectionalStatistics(self.counts_, self.resultants_), 0.0, weights, factors, self._prior())

    def _predictive(self) -> PredictiveDensity:
        return PredictiveDensity(
            self.weights_, self.resultants_, self._prior(), self.nodes_, self.node_weights_, self.node_pulls_
        )

    def _draws(self) -> gibbs.GibbsDraws:
        return gibbs.GibbsDraws(
            self.sample_labels_,
            self.sample_concentrations_,
            self.sample_counts_,
            self.sample_resultants_,
            self.log_joint_,
            len(self.log_joint_) - len(self.sample_labels_) * self.thin,
            self._prior(),
            self.weight_concentration_,
        )


def _state_of_draw(draws: gibbs.GibbsDraws, number: int) -> State:
    """The components of one draw: concentrations known, directions and weights with their law given the labels."""
    counts, resultants = draws.counts[number], draws.resultants[number]
    kappa = draws.concentrations[number]
    factors = joint_factors(counts, resultants, draws.prior, lambda target: point_law(target, kappa))
    weights = DirichletWeights(draws.weight_concentration, draws.weight_concentration + counts)
    return State(DirectionalStatistics(counts, resultants), 0.0, weights, factors, draws.prior)


def _described(state: State) -> dict[str, Any]:
    """The attributes that tell a state."""
    factors, prior = state.factors, state.prior
    spare = np.broadcast_to(prior.mean_direction, factors.resultants.shape)
    unweighted = np.zeros(len(factors.resultants))
    return {
        "weights_": state.weights.mean(),
        "means_": DirectionalStatistics(unweighted, factors.mean_directions).directions(otherwise=spare),
        "concentrations_": factors.concentrations,
        "concentration_deviations_": factors.concentration_deviations,
        "log_concentrations_": factors.log_means,
        "log_concentration_variances_": factors.log_variances,
        "posterior_concentrations_": factors.direction_concentrations,
        "weight_concentration_": float(state.weights.concentration),
        "mean_direction_": prior.mean_direction,
        "mean_concentration_": float(prior.mean_concentration),
        "log_concentration_mean_": float(prior.log_mean),
        "log_concentration_variance_": float(prior.log_variance),
        "counts_": state.statistics.counts,
        "resultants_": state.statistics.resultants,
        "expected_log_h_": factors.log_h,
        "direction_coefficients_": factors.direction_coefficients,
        "natural_coefficients_": factors.natural_coefficients,
        "nodes_": factors.nodes.concentrations,
        "node_weights_": factors.nodes.weights,
        "node_pulls_": factors.nodes.pulls,
    }
