"""T-vMFmix: a mixture of von Mises-Fisher distributions whose mean directions drift from one slice of time to the next.

Story        pi ~ Dirichlet(alpha), for all slices or each; log kappa_k ~ Normal(m, s2);
             mu_{1,k} ~ vMF(mu_0, C_init), mu_{t,k} ~ vMF(mu_{t-1,k}, C); x_{t,i} ~ vMF(mu_{t,z}, kappa_z)
                                                                                          vmf_mixtures.md, 9.1
Messages     directions smoothed by vMF messages, C of the greatest evidence              9.4
Factorised   q = prod_t q(mu_t), with the evidence lower bound                            9.2; Gopal and Yang 4
Filter       `partial_fit`: the forward pass alone, one slice at a time                   9.5
Ahead        the law of a direction n steps on: A^-1(A(gamma) A(C)^n)                     9.5
Row order    within a slice as in the Bayesian mixture: k-means++ draws and the last bits of sums

Departures from the paper: messages, with which the drift can be learned (the paper fixes C, since its factorised form
makes it far too small, 9.3); a C_init of its own; the start from a short tied EM run over all slices; the errata of
vmf_mixtures.md, 15. With one slice the model is the factorised Bayesian mixture.

The estimator is here. `_temporal_vmf.py` has the state and every single update, `_temporal_vmf_fit.py` the checked
parameters, the start and the chain of a fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from armillary._typing import ArrayLike, Float64Array, FloatArray, IntArray, RandomState
from armillary.distributions import direction_chains as dc
from armillary.distributions import natural_vectors as nv
from armillary.distributions.concentration_laws import LogLaw
from armillary.distributions.dirichlet import DirichletWeights
from armillary.distributions.log_concentration import MixturePrior
from armillary.distributions.predictive import PredictiveDensity
from armillary.draws import Stream
from armillary.engines.contract import Passes, Points
from armillary.exceptions import InputError, ParameterError
from armillary.fitting.events import Emitter
from armillary.fitting.loop import best_run
from armillary.fitting.slice_sums import StoredDirections, StoredSums
from armillary.fitting.slices import (
    SlicedPasses,
    Times,
    as_times,
    find_slices,
    is_batches,
    join_batches,
    join_weights,
    locate_slices,
    next_time,
    times_of_rows,
)
from armillary.geometry import sphere
from armillary.models.estimator import COPIES, UnitVectorEstimator
from armillary.models.labels_out import labels_to
from armillary.models.turns import learning, reading
from armillary.models.vmf._predictive_mixture import draw_rows, plugin_gains, predictive_gains
from armillary.models.vmf._temporal_view import SavedState, Trajectories, described, slice_labels, slice_rule, told
from armillary.models.vmf._temporal_vmf import (
    Kept,
    State,
    update_components,
    update_weights,
)
from armillary.models.vmf._temporal_vmf_fit import Ascent, Parameters
from armillary.sums.directional import DirectionalStatistics
from armillary.validation import check_choice, check_integer, check_row_count


class TemporalVonMisesFisherMixture(DensityMixin, UnitVectorEstimator):
    """Bayesian mixture of von Mises-Fisher distributions whose mean directions drift over time.

    Rows are normalised first. Every row belongs to a slice of time. A component has one concentration and, unless asked
    otherwise, one weight for all slices, and a mean direction for each: that of a slice is drawn around that of the
    slice before it. Slices with few or no rows are filled in from their neighbours.

    Parameters
    ----------
    n_components : int, default=8
        K.
    inference : {"messages", "factorised"}, default="messages"
        The law of the directions: smoothed forward and backward by messages, with which the drift can be learned, or
        the paper's, with independent slices: a lower bound of the evidence that never falls, and a learned drift that
        is far too fast in many dimensions (a `drift_concentration_` too small by a factor of 4 to 30 in 1000).
    drift : "learn" or float, default="learn"
        How far directions move from one slice to the next: learned from the evidence, or given in `drift_unit`. With
        "factorised", give it.
    drift_unit : {"angle", "cosine", "concentration"}, default="angle"
        "angle": radians, the arc cosine of the mean cosine of a step: 0 makes one mixture of all slices, pi/2 makes
        directions of slices independent. "cosine": that mean cosine, 1 and 0. Both mean the same in every dimension.
        "concentration": C of the step's von Mises-Fisher law, inf and 0.
    weights : {"shared", "per_slice"}, default="shared"
        One law of the weights for all slices, or one for each slice.
    concentration_posterior, log_normal_bound : as in `BayesianVonMisesFisherMixture`
        The law of the concentrations.
    empirical_bayes : bool, default=True
        Learn the five prior parameters below; those given are then starts. With one component the prior of directions
        stays, with fewer than three that of concentrations. `partial_fit` learns none of them.
    weight_concentration_prior : float, default=1.0
        alpha of the Dirichlet.
    mean_direction_prior, mean_concentration_prior : array of shape (D,) or None, float, default=None and 0.0
        mu_0 and C_init, of the directions in the first slice; None takes the direction of the sum of all rows.
    log_concentration_mean_prior, log_concentration_variance_prior : float or None, float, default=None and 1.0
        m and s2; None takes the log concentration of the EM run that the fit starts from.
    forget : float in [0, 1], default=1.0
        `partial_fit`: what earlier slices said of weights and concentrations counts this much less with each slice.
    init, n_init : as in `VonMisesFisherMixture`
        Of the tied EM run over all slices that each fit starts from; the run with the highest objective is kept.
    max_iter : int, default=200
        Most steps of one run. A run that uses them all warns.
    tol : float, default=1e-6
        "factorised": stop when two steps in a row gain at most this fraction of the lower bound over the uniform law.
        "messages": when in two steps in a row at most a share sqrt(tol) of the rows changed component, the estimate of
        the evidence changed by at most this fraction, and the learned drift by at most 1 per cent.
    random_state : int, Generator, RandomState or None, default=None
        Seed of starts and Metropolis steps.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it.
    device : {None, "auto", "cpu", "cuda", "cuda:1", ...}, default=None
        Where rows are worked on: None is where X is, "auto" a GPU if there is one. The result does not depend on it.
    verbose : int, default=0
        1 shows a progress bar (needs the extra "progress").
    callbacks : callable, sequence of callables or None, default=None
        Each is called with every `FitEvent`; the objective is that of `lower_bound_`, over the uniform law of the rows.

    Attributes
    ----------
    times_ : array of shape (T,)
        The slices, rising: int64, float64, datetime64, or strings as objects.
    means_ : array of shape (T, K, D)
        Unit directions of the expected mean directions; that of the prior where nothing is known.
    mean_concentrations_ : array of shape (T, K)
        Concentration of the law of each mean direction (gamma).
    concentrations_, concentration_deviations_ : arrays of shape (K,)
        Mean and standard deviation of kappa.
    log_concentrations_, log_concentration_variances_ : arrays of shape (K,)
        Mean and variance of log kappa.
    weights_, slice_weights_ : arrays of shape (K,) and (T, K)
        Expected weights over all slices, and of each slice.
    labels_ : array of shape (n,), int32
        The most probable component of each row: `predict` of the training rows (of the last batch).
    drift_concentration_, drift_angle_ : float
        C, and the angle in radians whose cosine is the mean cosine of a step. A learned drift is 0 or infinite where
        the slices say nothing of each other, or do not differ.
    lower_bound_ : float
        "factorised": the evidence lower bound in nats, with respect to the surface of the sphere. "messages": an
        estimate of the log evidence, which is no bound and may fall from step to step. After `partial_fit`, up to a
        constant of earlier slices.
    lower_bounds_ : array of shape (n_iter_,)
        Its trace over the steps of the run that was kept.
    n_clusters_ : int
        Components whose expected count is at least half a row.
    counts_ : array of shape (T, K)
        Expected weight of the rows of each slice in each component.
    weight_concentration_, mean_direction_, mean_concentration_ : float, array of shape (D,), float
        alpha, mu_0 and C_init.
    log_concentration_mean_, log_concentration_variance_ : float
        m and s2.
    n_slices_ : int
        Slices so far: T after `fit`; `partial_fit` counts on.
    n_iter_, converged_ : int, bool
        Steps of the run that was kept (of the last batch), and whether it stopped before `max_iter`.
    device_ : str
        Where the last fit ran. It is not saved.
    n_features_in_, feature_names_in_ : int, array of shape (D,)
        D, and the column names where X had them.

    Notes
    -----
    A step costs 4 n D K operations (4 nnz K for CSR rows, which stay sparse) and some 30 T K D for the directions (100
    with "factorised"), which is little where slices have hundreds of dense rows. CSR rows with fewer than T K D values
    do without those: with "messages" a step costs some 10 nnz K in all, as one of `BayesianVonMisesFisherMixture` does,
    and memory beside the rows is some 40 bytes for each of their values, 16 K for each row and 8 K for each feature
    that a slice has. Otherwise resultants and directions take 16 T K D bytes. "factorised" on such rows costs several
    times as much.

    Results repeat to the bit for one `random_state`, whatever `n_threads`. One step of the drift lies between
    neighbouring slices, however far apart their times are: name the slices without rows (`slices` of `fit`) where the
    gaps matter.

    References
    ----------
    Gopal and Yang (2014), Von Mises-Fisher clustering models.

    Examples
    --------
    >>> from armillary.datasets import make_drifting_mixture
    >>> from armillary import TemporalVonMisesFisherMixture
    >>> X, _, _ = make_drifting_mixture(200, 3, 4, 10, concentration=100.0, min_angle=1.0, random_state=0)
    >>> model = TemporalVonMisesFisherMixture(4, random_state=0).fit(X)
    >>> model.means_.shape
    (10, 4, 3)
    """

    _parameters_kind = Parameters
    _state_kind = SavedState
    _saved_state: SavedState

    def __init__(
        self,
        n_components: int = 8,
        *,
        inference: str = "messages",
        drift: str | float = "learn",
        drift_unit: str = "angle",
        weights: str = "shared",
        concentration_posterior: str = "grid",
        log_normal_bound: str = "quadrature",
        empirical_bayes: bool = True,
        weight_concentration_prior: float = 1.0,
        mean_direction_prior: ArrayLike | None = None,
        mean_concentration_prior: float = 0.0,
        log_concentration_mean_prior: float | None = None,
        log_concentration_variance_prior: float = 1.0,
        forget: float = 1.0,
        init: str | ArrayLike = "k-means++",
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
        self.inference = inference
        self.drift = drift
        self.drift_unit = drift_unit
        self.weights = weights
        self.concentration_posterior = concentration_posterior
        self.log_normal_bound = log_normal_bound
        self.empirical_bayes = empirical_bayes
        self.weight_concentration_prior = weight_concentration_prior
        self.mean_direction_prior = mean_direction_prior
        self.mean_concentration_prior = mean_concentration_prior
        self.log_concentration_mean_prior = log_concentration_mean_prior
        self.log_concentration_variance_prior = log_concentration_variance_prior
        self.forget = forget
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_threads = n_threads
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    # ------------------------------------------------------------------------------------------------------ fits

    @learning
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        times: Any = None,
        slices: Any = None,
    ) -> Self:
        """Fit the mixture to the rows of X (n, D), dense or CSR; `y` is ignored.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D), or a list of such batches
            In a list every batch is a slice; batches may be empty.
        y : ignored
        times : array of shape (n,), optional
            The time of each row: numbers, strings or dates. Equal times are one slice, and slices are in rising order.
            By default all rows are one slice, and batches are numbered. For batches, one time each.
        sample_weight : array of shape (n,), optional
            For batches, one array or a list of arrays.
        slices : sequence, optional
            The times of all slices, where some have no rows, e.g. `range(1987, 2000)`.

        Returns
        -------
        self
        """
        X, times, sample_weight, slices = self._joined(X, times, sample_weight, slices)
        points = self._points(X, sample_weight, is_new=True)
        parameters = Parameters.check(vars(self), points, self._who)
        known, numbers = find_slices(0 if times is None else times, slices, points.n_rows, self._who)
        stream = Stream.of(self.random_state)
        with self._passes(points) as whole, self._watched(points, parameters) as emitter:
            passes = SlicedPasses.of(whole, numbers, len(known))
            run = best_run(
                lambda restart: Ascent(passes, parameters, stream, restart),
                n_restarts=parameters.n_init,
                max_steps=parameters.max_iter,
                stopping=parameters.stopping,
                emitter=emitter,
            )
            state = run.chain.state
            fitted = described(state, state.prior, state.drift, stream.seed)
            labels = slice_labels(passes, fitted)
        if not run.is_converged:
            self._warn_of_steps(run.n_steps, stacklevel=2)
        self._publish(
            X,
            is_new=True,
            **fitted,
            **told(run, points),
            labels_=labels,
            times_=known,
            n_slices_=len(known),
        )
        return self

    @learning
    def fit_predict(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        times: Any = None,
        slices: Any = None,
    ) -> IntArray:
        """`fit`; returns `labels_`.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D), or a list of such batches
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.
        times : array of shape (n,), optional
            As in `fit`.
        slices : sequence, optional
            As in `fit`.

        Returns
        -------
        array of shape (n,), int32
            `labels_`.
        """
        return self.fit(X, y, sample_weight, times=times, slices=slices).labels_

    @learning
    def partial_fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, *, time: Any = None) -> Self:
        """Learn the slice that comes next in a stream: the forward pass alone, with memory that does not grow.

        An approximation of what `fit` says of the last slice: earlier slices are not looked at again, and neither are
        labels of theirs; hyper-parameters and the drift stay as they are. Attributes then describe this slice only. The
        first batch starts the model, unless `fit` did. X may have no rows: directions then get less certain.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        time : number, string or date, optional
            Later than that of all slices before. By default 0, and then 1 more each time.
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        is_new = not hasattr(self, "means_")
        known = next_time(time, getattr(self, "times_", None), self._who)
        if not is_new and np.ndim(X) == 2 and np.shape(X)[0] == 0:
            return self._pass_time(X, known)
        points = self._points(X, sample_weight, is_new=is_new)
        n_started = None if is_new else len(self.concentrations_)
        parameters = self._filtering(Parameters.check(vars(self), points, self._who, n_started))
        drift = math.inf if parameters.drift is None else parameters.drift
        stream = Stream.of(self.random_state) if is_new else Stream(self._saved_state.seed)
        n_slices = 1 if is_new else self.n_slices_ + 1
        with self._passes(points) as whole, self._watched(points, parameters) as emitter:
            passes = SlicedPasses.last(whole)
            start = None if is_new else self._predicted(drift, parameters)
            run = best_run(
                lambda _: Ascent(passes, parameters, stream, n_slices, start),
                n_restarts=1,
                max_steps=parameters.max_iter,
                stopping=parameters.stopping,
                emitter=emitter,
            )
            state = run.chain.state
            fitted = described(state, state.prior if is_new else self._prior(), drift, stream.seed)
            labels = slice_labels(passes, fitted)
        if not run.is_converged:
            self._warn_of_steps(run.n_steps, stacklevel=2)
        self._publish(
            X,
            is_new=is_new,
            **fitted,
            **told(run, points),
            labels_=labels,
            times_=known,
            n_slices_=n_slices,
        )
        return self

    # ----------------------------------------------------------------------------------------------- predictions

    @reading
    def predict(self, X: Any, *, times: Any = None, out: Any = None) -> IntArray:
        """The most probable component of each row of X (n,), int32.

        `times` are those of the rows, each a slice of the fit, or one for all; by default that of the last slice. X may
        be a list of batches as in `fit`.

        `out` takes the labels, and is returned: an array of n integers, a memory map, or the path of an npy file, which
        is written whole or not at all and comes back as a memory map.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        times : array of shape (n,) or one time, optional
        out : array, memory map or path, optional

        Returns
        -------
        array of shape (n,), int32
            Numbers of components; where `out` was given, `out`.
        """
        with self._located(X, times) as passes:
            labels = slice_labels(passes, vars(self))
        with labels_to(out, len(labels), labels.dtype, self._who) as place:
            place.labels[:] = labels
        return labels if out is None else place.result

    @reading
    def predict_proba(self, X: Any, *, times: Any = None) -> FloatArray:
        """Responsibilities of the components for each row of X (n, K); `times` as in `predict`.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        times : array of shape (n,) or one time, optional

        Returns
        -------
        array of shape (n, K)
            Each row has the sum 1.
        """
        with self._located(X, times) as passes:
            return passes.rows(lambda number, rows: rows.values(slice_rule(vars(self), number), "shares"))

    @reading
    def score_samples(self, X: Any, *, times: Any = None, density: str = "full") -> Float64Array:
        """Log predictive density of each row of X (n,), in nats with respect to the surface of the sphere.

        `density="full"` averages over the law of directions and concentrations, "plugin" takes their expectations. Both
        integrate to one (vmf_mixtures.md, 6). `times` as in `predict`; for later ones see `score_next_samples`.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        times : array of shape (n,) or one time, optional
        density : {"full", "plugin"}, default="full"

        Returns
        -------
        array of shape (n,)
            Nats.
        """
        is_full = check_choice(density, "density", f"{self._who}.score_samples", ("full", "plugin")) == "full"

        def task(number: int, rows: Passes) -> Float64Array:
            gammas = self.mean_concentrations_[number]
            return self._gains(rows, self.slice_weights_[number], self.means_[number], gammas, is_full=is_full)

        with self._located(X, times) as passes:
            gains = passes.rows(task)
            return gains - float(sphere.log_area(self.n_features_in_))

    @reading
    def score(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        times: Any = None,
        density: str = "full",
    ) -> float:
        """Mean log predictive density of the rows of X.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.
        times : array of shape (n,) or one time, optional
        density : {"full", "plugin"}, default="full"

        Returns
        -------
        float
            Nats a row: higher is better.
        """
        X, times, sample_weight = self._joined_known(X, times, sample_weight)
        points = self._points(X, sample_weight, is_new=False)
        with self._passes(points) as passes:
            return passes.mean(self.score_samples(X, times=times, density=density))

    @reading
    def score_next_samples(self, X: Any, n_steps: int = 1, *, density: str = "full") -> Float64Array:
        """Log predictive density (n,) of rows of a slice that comes `n_steps` after the last one.

        Directions are as likely to have moved as the drift says. Weights of their own (`weights="per_slice"`) are not
        known yet: all are equal then (vmf_mixtures.md, 9.5).

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        n_steps : int, default=1
        density : {"full", "plugin"}, default="full"

        Returns
        -------
        array of shape (n,)
            Nats.
        """
        points = self._points(X, is_new=False)
        n_steps = check_integer(n_steps, "n_steps", f"{self._who}.score_next_samples", low=1)
        is_full = check_choice(density, "density", f"{self._who}.score_next_samples", ("full", "plugin")) == "full"
        natural = nv.ahead(self._last_vectors(), self.drift_concentration_, n_steps)
        n_components = len(self.concentrations_)
        weights = self.weights_ if self.weights == "shared" else np.full(n_components, 1.0 / n_components)
        with self._passes(points) as passes:
            gains = self._gains(passes, weights, self.means_[-1], nv.natural_lengths(natural), is_full=is_full)
        return gains - float(sphere.log_area(points.n_features))

    @reading
    def score_next(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        n_steps: int = 1,
        density: str = "full",
    ) -> float:
        """Mean log predictive density of the rows of a slice that comes `n_steps` after the last one.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.
        n_steps : int, default=1
            How many slices ahead.
        density : {"full", "plugin"}, default="full"

        Returns
        -------
        float
            Nats a row: higher is better.
        """
        points = self._points(X, sample_weight, is_new=False)
        with self._passes(points) as passes:
            return passes.mean(self.score_next_samples(X, n_steps, density=density))

    @reading
    def sample(
        self, n_samples: int = 1, random_state: RandomState = None, *, time: Any = None
    ) -> tuple[Float64Array, IntArray]:
        """Independent rows (n_samples, D) from the predictive density of a slice, by component (n_samples,).

        `time` is that of a slice; by default the last.

        Parameters
        ----------
        n_samples : int, default=1
            How many rows.
        random_state : int, numpy.random.Generator or None
            Seed of the draws.
        time : time of a slice, optional

        Returns
        -------
        X : array of shape (n_samples, D)
            Unit rows.
        labels : array of shape (n_samples,)
            Their components.
        """
        check_is_fitted(self)
        size = check_row_count(n_samples, self.n_features_in_, "n_samples", f"{self._who}.sample", low=1)
        number = len(self.times_) - 1 if time is None else int(self._numbers(time, 1)[0])
        slice_ = self.slice_weights_[number], self.means_[number], self.mean_concentrations_[number]
        return draw_rows(self._predictive(*slice_), size, random_state)

    # ------------------------------------------------------------------------------------------------ descriptions

    @reading
    def trajectories(self) -> Trajectories:
        """The path of each component's mean direction over the slices, and how far it went.

        Returns
        -------
        Trajectories
            Directions over slices, and their angles.
        """
        check_is_fitted(self)
        return Trajectories.of(self.times_, self.means_)

    @reading
    def top_features(self, n: int = 10, feature_names: Any = None) -> npt.NDArray[Any]:
        """The features with the largest entries of each mean direction, largest first: (T, K, n), objects.

        How the vocabulary of a topic changes (Gopal and Yang 2014, Figure 5). `feature_names` (D,) are by default those
        that X had in `fit`; without them features are column numbers.

        Parameters
        ----------
        n : int, default=10
            How many.
        feature_names : sequence of D str, optional

        Returns
        -------
        array of shape (T, K, n), object
            Names or column numbers.
        """
        check_is_fitted(self)
        n_features = self.n_features_in_
        n = check_integer(n, "n", f"{self._who}.top_features", low=1, high=n_features)
        names = getattr(self, "feature_names_in_", np.arange(n_features)) if feature_names is None else feature_names
        names = np.asarray(names, dtype=object)
        if names.shape != (n_features,):
            raise InputError(
                f"`feature_names` of {self._who}.top_features must have one name per column, shape ({n_features},); "
                f"got {names.shape}. Give those of the vectoriser that made X."
            )
        order = np.argsort(-self.means_, axis=2, kind="stable")[:, :, :n]
        return names[order]

    # ---------------------------------------------------------------------------------------------------- inside

    def _points(self, X: Any, sample_weight: Any = None, *, is_new: bool) -> Points:
        return self._gate(X, sample_weight, is_new=is_new, gate=COPIES)

    def _joined(self, X: Any, times: Any, sample_weight: Any, slices: Any = None) -> tuple[Any, Any, Any, Any]:
        """Batches made one, with the time of each row; rows as they came."""
        if not is_batches(X):
            return X, times, sample_weight, slices
        sample_weight = join_weights(sample_weight, X, self._who)
        joined, _ = join_batches(X, self._who)
        stamps = np.arange(len(X)) if times is None else as_times(times, "times", self._who)
        if stamps.shape != (len(X),):
            raise InputError(
                f"`times` of {self._who} must have one value per batch, shape ({len(X)},); got {stamps.shape}. "
                "Join the batches to give each row a time of its own."
            )
        return joined, times_of_rows(stamps, X), sample_weight, np.unique(stamps) if slices is None else slices

    def _joined_known(self, X: Any, times: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
        """`_joined` for a fitted model, whose slices batches without times follow."""
        check_is_fitted(self)
        if is_batches(X) and times is None:
            if len(X) != len(self.times_):
                raise InputError(
                    f"Batches of {self._who} must be as many as its slices, {len(self.times_)}, or come with `times`; "
                    f"got {len(X)}. Give the time of each batch."
                )
            times = self.times_
        return self._joined(X, times, sample_weight)[:3]

    def _numbers(self, times: Any, n_rows: int) -> npt.NDArray[np.int64]:
        """The slice of each row (n,)."""
        way_out = "score_next_samples takes rows of later slices."
        return locate_slices(times, self.times_, n_rows, self._who, way_out)

    @contextmanager
    def _located(self, X: Any, times: Any) -> Iterator[SlicedPasses]:
        """Passes over rows of known slices; by default of the last."""
        X, times, _ = self._joined_known(X, times)
        points = self._points(X, is_new=False)
        n_slices = len(self.times_)
        numbers = None if times is None else self._numbers(times, points.n_rows)
        with self._passes(points) as passes:
            yield SlicedPasses.last(passes, n_slices) if numbers is None else SlicedPasses.of(passes, numbers, n_slices)

    def _watched(self, points: Points, parameters: Parameters) -> Emitter:
        return self._emitter(points.n_rows, n_restarts=parameters.n_init, max_steps=parameters.max_iter)

    def _prior(self) -> MixturePrior:
        return MixturePrior(
            self.mean_direction_,
            self.mean_concentration_,
            self.log_concentration_mean_,
            self.log_concentration_variance_,
        )

    def _last_vectors(self) -> Float64Array:
        """The natural vectors (K, D) of the directions in the last slice."""
        return np.asarray(self.mean_concentrations_[-1][:, None] * self.means_[-1])

    # ---------------------------------------------------------------------------------------------------- the filter

    def _filtering(self, parameters: Parameters) -> Parameters:
        """The parameters of a filter: one slice, of which either form is the factorised one, and nothing is learned."""
        parameters = replace(parameters, has_messages=False, is_learning=False, n_init=1)
        if parameters.drift is not None or not hasattr(self, "means_"):
            return parameters
        if self.n_slices_ == 1:
            raise ParameterError(
                f"`drift` of {self._who} must be a number for partial_fit, unless fit has learned it from several "
                "slices; got 'learn'. Give e.g. drift=0.1, or fit the first slices together."
            )
        return replace(parameters, drift=self.drift_concentration_)

    def _predicted(self, drift: float, parameters: Parameters) -> State:
        """What is known of the next slice before its rows (vmf_mixtures.md, 9.5)."""
        natural = nv.ahead(self._last_vectors(), drift, 1)
        n_components, alpha = len(natural), self.weight_concentration_
        known = self._saved_state
        kept = Kept(parameters.forget * known.total_counts, parameters.forget * known.projections)
        nothing = np.zeros(n_components)
        return State(
            sums=StoredSums((DirectionalStatistics.zero(*natural.shape),)),
            label_entropy=0.0,
            weights=DirichletWeights.prior(alpha, (1, n_components))
            if parameters.has_slice_weights
            else DirichletWeights(alpha, alpha + kept.counts),
            concentrations=LogLaw(
                np.log(self.concentrations_)[None],
                np.ones((1, n_components)),
                nothing,
                known.expected_log_h,
                is_followed=False,
            ),
            directions=StoredDirections(
                dc.ChainLaws(natural[None], nv.natural_lengths(natural)[None], natural.shape[1])
            ),
            projections=nothing,
            direction_gains=nothing,
            prior=MixturePrior.of_vectors(natural, self.log_concentration_mean_, self.log_concentration_variance_),
            drift=math.inf,
            kept=kept,
        )

    def _pass_time(self, X: Any, known: Times) -> Self:
        """A slice without rows: directions are a step ahead, and the rest forgets."""
        if np.shape(X)[1] != self.n_features_in_:
            raise InputError(
                f"X has {np.shape(X)[1]} features, but {self._who} is expecting {self.n_features_in_} features as "
                "input, as in its fit. Give an empty slice its columns too, e.g. X[:0]."
            )
        n_started = len(self.concentrations_)
        parameters = self._filtering(Parameters.check(vars(self), self._any_rows(), self._who, n_started))
        drift = math.inf if parameters.drift is None else parameters.drift
        make_law = parameters.make_law(Stream(self._saved_state.seed), self.n_slices_ + 1, 1)
        state = update_weights(self._predicted(drift, parameters))
        state = update_components(state, make_law, has_messages=False)
        fitted = described(state, self._prior(), drift, self._saved_state.seed)
        self._publish(
            X,
            is_new=False,
            **fitted,
            labels_=np.empty(0, dtype=np.int32),
            times_=known,
            n_slices_=self.n_slices_ + 1,
            n_iter_=0,
            converged_=True,
        )
        return self

    # ------------------------------------------------------------------------------------------------- densities

    def _gains(
        self, rows: Passes, weights: Float64Array, means: Float64Array, gammas: Float64Array, *, is_full: bool
    ) -> Float64Array:
        """Log density over the uniform law (n,) of rows under components with these directions and their doubt."""
        if is_full:
            return predictive_gains(rows, self._predictive(weights, means, gammas))
        return plugin_gains(rows, weights, means, self.concentrations_)

    def _predictive(self, weights: Float64Array, means: Float64Array, gammas: Float64Array) -> PredictiveDensity:
        """Directions vMF(means, gammas), told as resultants of length 1 that pull by gamma, and no prior."""
        kept = self._saved_state
        pulls = np.broadcast_to(gammas, kept.nodes.shape)
        return PredictiveDensity(
            weights, means, replace(self._prior(), mean_concentration=0.0), kept.nodes, kept.node_weights, pulls
        )
