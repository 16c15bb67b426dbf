"""B-vMFmix by collapsed Gibbs sampling: draws from the posterior of labels and concentrations.

Story        that of `BayesianVonMisesFisherMixture`, with Dirichlet weights               vmf_mixtures.md, 5.1
Sampler      `_gibbs_chain.py`: directions and weights integrated out, one row after the other, then slice steps
Estimate     the draw with the least expected variation of information; its components tell labels and attributes
Densities    the mean over all draws                                                       6, rule 5
Row order    matters to the draws, not to the posterior
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from armillary._typing import ArrayLike, Float64Array, IntArray, RandomState
from armillary.distributions.component_factors import joint_factors
from armillary.distributions.concentration_laws import point_law
from armillary.distributions.dirichlet import DirichletWeights, WeightLaw
from armillary.fitting.gibbs import check_in_memory
from armillary.fitting.partitions import point_partition
from armillary.models.mixture import best_labels, check_n_components
from armillary.models.parameters import Given, RowShape
from armillary.models.turns import learning, reading
from armillary.models.vmf import vmf_mixture as em
from armillary.models.vmf._component_mixture import ComponentMixture, SavedLaws, described
from armillary.models.vmf._gibbs_chain import GibbsDraws, log_predictive, sample_posterior
from armillary.models.vmf._variational_parameters import MixturePriors, check_priors, initial_prior
from armillary.models.vmf._variational_vmf import State, run_start, score_rule
from armillary.sums.directional import DirectionalStatistics
from armillary.validation import check_integer


@dataclass(frozen=True, eq=False)
class Parameters(MixturePriors):
    """Checked constructor parameters."""

    n_draws: int
    n_burn_in: int
    thin: int

    @classmethod
    def check(cls, given: Given, rows: RowShape, who: str) -> Parameters:
        """The parameters, or an error that names the wrong one."""
        n_components = check_n_components(given["n_components"], rows, who)
        return cls(
            **check_priors(given, n_components, rows.n_features, who),
            n_draws=check_integer(given["n_draws"], "n_draws", who, low=1),
            n_burn_in=check_integer(given["n_burn_in"], "n_burn_in", who, low=0),
            thin=check_integer(given["thin"], "thin", who, low=1),
        )

    @property
    def n_init(self) -> int:
        """One chain."""
        return 1

    @property
    def max_iter(self) -> int:
        """All its sweeps."""
        return self.n_burn_in + self.n_draws * self.thin


class GibbsVonMisesFisherMixture(ComponentMixture):
    """Bayesian mixture of von Mises-Fisher distributions, sampled by collapsed Gibbs sampling.

    The model of `BayesianVonMisesFisherMixture` with Dirichlet weights. Rows are normalised first. The chain draws
    labels and concentrations from their posterior, with weights and mean directions integrated out; `labels_` and the
    attributes of components are those of the draw that is nearest to all others, densities of new rows are means over
    all draws.

    Parameters
    ----------
    n_components : int, default=8
        K.
    empirical_bayes : bool, default=True
        Let the five prior parameters below be learned in the burn-in; those given are then starts. With one component
        the prior of directions stays, with fewer than three that of concentrations.
    weight_concentration_prior : float, default=1.0
        alpha of the Dirichlet.
    mean_direction_prior : array of shape (D,) or None, default=None
        mu_0; None takes the direction of the sum of all rows.
    mean_concentration_prior : float, default=0.0
        C_0; 0 makes all mean directions equally likely.
    log_concentration_mean_prior : float or None, default=None
        m; None takes the log concentration of the EM run that the chain starts from.
    log_concentration_variance_prior : float, default=1.0
        s2.
    init : {"k-means++", "random", "random_labels"} or array of shape (K, D), default="k-means++"
        Of the tied EM run that the chain starts from, as in `VonMisesFisherMixture`.
    n_draws, n_burn_in, thin : int, default=100, 200 and 1
        Draws kept, sweeps before the first of them, sweeps from one to the next.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the start and of all draws.
    n_threads : int or None, default=None
        Threads of the start and of predictions; None takes every core. The result does not depend on it.
    device : {None, "auto", "cpu", "cuda", "cuda:1", ...}, default=None
        Where rows are worked on: None is where X is, "auto" a GPU if there is one. The result does not depend on it.
    verbose : int, default=0
        1 shows a progress bar (needs the extra "progress").
    callbacks : callable, sequence of callables or None, default=None
        Each is called with every `FitEvent`; the objective is the log joint density of a sweep over the uniform law.

    Attributes
    ----------
    weights_ : array of shape (K,)
        Expected weights.
    means_ : array of shape (K, D)
        Unit directions of the expected mean directions; that of the prior for a component without any.
    concentrations_, concentration_deviations_ : arrays of shape (K,)
        kappa of the draw, and zeros.
    log_concentrations_, log_concentration_variances_ : arrays of shape (K,)
        log kappa of the draw, and zeros.
    posterior_concentrations_ : array of shape (K,)
        Concentration of the law of the mean direction (gamma).
    labels_ : array of shape (n,), int32
        The most probable component of each row: `predict` of the training rows.
    n_clusters_ : int
        Components with rows in the draw.
    weight_concentration_ : float
        alpha.
    mean_direction_, mean_concentration_ : array of shape (D,), float
        mu_0 and C_0. C_0 says how alike the components are.
    log_concentration_mean_, log_concentration_variance_ : float
        m and s2. exp(m) is the typical concentration.
    counts_, resultants_ : arrays of shape (K,) and (K, D)
        Rows of each component of the draw, and their sum.
    sample_labels_, sample_concentrations_, sample_counts_, sample_resultants_ : arrays of shape (S, n), (S, K), (S, K)
        and (S, K, D). The draws. Component k of one draw need not be component k of the next.
    log_joint_ : array of shape (n_iter_,)
        Log joint density after each sweep, over the uniform law of the rows.
    partition_, partition_draw_ : array of shape (n,), int
        The draw with the least expected variation of information, its clusters numbered by first appearance, and its
        number. The attributes above describe the components of this draw.
    n_iter_ : int
        Sweeps.
    converged_ : bool
        True: a chain has no end of its own.
    device_ : str
        Where the last fit ran. It is not saved.
    n_features_in_ : int
        D.
    feature_names_in_ : array of shape (D,)
        Column names, where X had them.

    Notes
    -----
    A sweep costs 2 n D K operations (2 nnz K for CSR rows) and n K evaluations of log H, in one thread. Results repeat
    to the bit for one `random_state`. Rows have no weights: each has one label and counts once.

    References
    ----------
    Gopal and Yang (2014), Von Mises-Fisher clustering models, supplement. Neal (2003), Slice sampling.

    Examples
    --------
    >>> from armillary.datasets import make_vmf_mixture
    >>> from armillary import GibbsVonMisesFisherMixture
    >>> X, _, _ = make_vmf_mixture(300, 3, 3, concentration=100.0, min_angle=1.0, random_state=0)
    >>> model = GibbsVonMisesFisherMixture(3, n_draws=10, n_burn_in=20, random_state=0).fit(X)
    >>> model.sample_labels_.shape
    (10, 300)
    """

    _parameters_kind = Parameters

    def __init__(
        self,
        n_components: int = 8,
        *,
        empirical_bayes: bool = True,
        weight_concentration_prior: float = 1.0,
        mean_direction_prior: ArrayLike | None = None,
        mean_concentration_prior: float = 0.0,
        log_concentration_mean_prior: float | None = None,
        log_concentration_variance_prior: float = 1.0,
        init: str | ArrayLike = "k-means++",
        n_draws: int = 100,
        n_burn_in: int = 200,
        thin: int = 1,
        random_state: RandomState = None,
        n_threads: int | None = None,
        device: str | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.n_components = n_components
        self.empirical_bayes = empirical_bayes
        self.weight_concentration_prior = weight_concentration_prior
        self.mean_direction_prior = mean_direction_prior
        self.mean_concentration_prior = mean_concentration_prior
        self.log_concentration_mean_prior = log_concentration_mean_prior
        self.log_concentration_variance_prior = log_concentration_variance_prior
        self.init = init
        self.n_draws = n_draws
        self.n_burn_in = n_burn_in
        self.thin = thin
        self.random_state = random_state
        self.n_threads = n_threads
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    @learning
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Sample the posterior of the rows of X (n, D), dense or CSR; `y` is ignored, and weights must be 1.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of ones of shape (n,), optional

        Returns
        -------
        self
        """
        with self._fitting(X, sample_weight, Parameters.check) as (_, parameters, stream, passes, emitter):
            check_in_memory(passes)
            start = run_start(passes, parameters.init, parameters.n_components, stream, 1)
            prior = initial_prior(parameters, passes.sum(None, 1).resultants[0], float(start.concentrations[0]))
            draws = sample_posterior(
                passes,
                prior,
                n_components=parameters.n_components,
                weight_concentration=parameters.weight_concentration,
                start_labels=best_labels(passes, em.score_rule(start)),
                n_burn_in=parameters.n_burn_in,
                n_draws=parameters.n_draws,
                thin=parameters.thin,
                empirical_bayes=parameters.is_learning,
                stream=stream,
                emitter=emitter,
            )
            chosen = point_partition(draws.labels)
            state = _state_of_draw(draws, chosen.draw)
            labels = best_labels(passes, score_rule(state))
        self._publish(
            X,
            is_new=True,
            **described(state),
            _saved_state=SavedLaws(**SavedLaws.of(state.factors)),
            labels_=labels,
            n_clusters_=int(np.count_nonzero(state.statistics.counts)),
            n_iter_=parameters.max_iter,
            converged_=True,
            sample_labels_=draws.labels,
            sample_concentrations_=draws.concentrations,
            sample_counts_=draws.counts,
            sample_resultants_=draws.resultants,
            log_joint_=draws.log_joint,
            partition_=chosen.labels,
            partition_draw_=chosen.draw,
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

    @reading
    def score_samples(self, X: Any, *, density: str = "full") -> Float64Array:
        """Log predictive density of each row of X (n,), in nats with respect to the surface of the sphere.

        `density="full"` averages over the draws, "plugin" takes the expectations of the draw that `labels_` comes from.
        Both integrate to one (vmf_mixtures.md, 6).

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        density : {"full", "plugin"}, default="full"

        Returns
        -------
        array of shape (n,)
            Nats.
        """
        if isinstance(density, str) and density == "full":
            points = self._points(X, is_new=False)
            with self._passes(points) as passes:
                return log_predictive(passes, self._draws())
        return super().score_samples(X, density=density)

    def _weight_law(self) -> WeightLaw:
        return DirichletWeights(self.weight_concentration_, self.weight_concentration_ + self.counts_)

    def _draws(self) -> GibbsDraws:
        return GibbsDraws(
            self.sample_labels_,
            self.sample_concentrations_,
            self.sample_counts_,
            self.sample_resultants_,
            self.log_joint_,
            len(self.log_joint_) - len(self.sample_labels_) * self.thin,
            self._prior(),
            self.weight_concentration_,
        )


def _state_of_draw(draws: GibbsDraws, number: int) -> State:
    """The components of one draw: concentrations known, directions and weights with their law given the labels."""
    counts, resultants = draws.counts[number], draws.resultants[number]
    kappa = draws.concentrations[number]
    factors = joint_factors(counts, resultants, draws.prior, lambda target: point_law(target, kappa))
    weights = DirichletWeights(draws.weight_concentration, draws.weight_concentration + counts)
    return State(DirectionalStatistics(counts, resultants), 0.0, weights, factors, draws.prior)
