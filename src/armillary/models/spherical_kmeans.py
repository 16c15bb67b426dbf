"""Spherical k-means: K directions that the rows lie closest to, by cosine.

Objective    J = sum_i w_i x_i . mu_{z_i}                    vmf_mixtures.md, 3; Dhillon and Modha 2001
Labels       z_i = argmax_k x_i . mu_k, ties to the smallest k
Directions   mu_k = r_k / |r_k|, r_k the resultant; the old direction where rows cancel
Row order    does not matter to the model; it matters to k-means++ draws and to the last bits of sums
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning

from armillary._typing import ArrayLike, Float64Array, FloatArray, IntArray, RandomState
from armillary.exceptions import InputError
from armillary.fitting import initialization
from armillary.fitting.assignment import HardAssignment
from armillary.fitting.events import Emitter
from armillary.fitting.loop import Run, best_run
from armillary.fitting.passes import Passes
from armillary.fitting.stopping import RelativeGain
from armillary.kernels.contract import AffineRule
from armillary.models._estimator import UnitVectorEstimator
from armillary.models._turns import learning, reading
from armillary.points import Points
from armillary.random import Stream
from armillary.statistics.directional import DirectionalStatistics
from armillary.validation import check_choice, check_integer, check_number

# Bounds pay where a score costs much more than two angles per row: measured in benchmarks/algorithms.py.
_WIDE_ENOUGH = 17
_CLUSTERS_ENOUGH = 8


@dataclass(frozen=True, eq=False)
class State:
    """What the next step needs."""

    directions: Float64Array  # (K, D)
    statistics: DirectionalStatistics  # of the rows that made the directions


@dataclass(frozen=True)
class Parameters:
    """Checked constructor parameters."""

    n_clusters: int
    init: str | Float64Array
    n_init: int
    max_iter: int
    tol: float
    is_bounded: bool
    refills: bool

    @classmethod
    def check(cls, model: SphericalKMeans, points: Points) -> Parameters:
        """The parameters of `model`, or an error that names the wrong one."""
        who = type(model).__name__
        n_clusters = check_integer(model.n_clusters, "n_clusters", who, low=1)
        if n_clusters > points.n_rows:
            raise InputError(
                f"`n_clusters` of {who} must not exceed the number of rows; got n_clusters={n_clusters} and "
                f"n_samples={points.n_rows}. Lower n_clusters or give more rows."
            )
        shape = (n_clusters, points.n_features)
        init = initialization.check_init(model.init, shape, "n_clusters", who, ("k-means++", "random"))
        n_init = 10 if isinstance(init, str) and init == "random" else 1
        if not (isinstance(model.n_init, str) and model.n_init == "auto"):
            hint = "'auto' takes 1 for k-means++ or given directions, 10 for random rows."
            n_init = check_integer(model.n_init, "n_init", who, low=1, hint=hint)
        algorithm = check_choice(model.algorithm, "algorithm", who, ("auto", "lloyd", "hamerly"))
        if algorithm == "auto":
            is_wide = points.is_sparse or points.n_features >= _WIDE_ENOUGH
            algorithm = "hamerly" if is_wide and n_clusters >= _CLUSTERS_ENOUGH else "lloyd"
        return cls(
            n_clusters=n_clusters,
            init=init,
            n_init=n_init,
            max_iter=check_integer(model.max_iter, "max_iter", who, low=1),
            tol=check_number(
                model.tol, "tol", who, low=0.0, hint="It is a relative gain; 0 runs until nothing is gained."
            ),
            is_bounded=algorithm == "hamerly",
            refills=check_choice(model.empty_clusters, "empty_clusters", who, ("refill", "keep")) == "refill",
        )


def initial_state(passes: Passes, parameters: Parameters, stream: Stream, restart: int) -> State:
    """Directions before the first sweep."""
    draws = stream.generator("start", restart)
    directions = initialization.starting_directions(passes, parameters.init, parameters.n_clusters, draws)
    return State(directions, DirectionalStatistics.zero(*directions.shape))


def score_rule(state: State) -> AffineRule:
    """The score is the cosine."""
    return AffineRule.cosines(state.directions)


def update(state: State, statistics: DirectionalStatistics) -> State:
    """Directions that maximise the objective for fixed labels."""
    return State(statistics.directions(otherwise=state.directions), statistics)


def objective(state: State, statistics: DirectionalStatistics) -> float:
    """J of labels with these statistics: sum_i x_i . mu_{z_i} = sum_k r_k . mu_k, with no sum over rows."""
    return float(np.vecdot(statistics.resultants, state.directions).sum())


class Lloyd:
    """Labels, then directions, over and over: the chain that the loop steps."""

    def __init__(self, passes: Passes, state: State, parameters: Parameters) -> None:
        self.state = state
        self.assignment = HardAssignment(passes.points.n_rows, is_bounded=parameters.is_bounded)
        self.is_settled = False  # whether the labels are those of the present directions
        self._passes = passes
        self._refills = parameters.refills

    @property
    def n_clusters(self) -> int:
        """K."""
        return len(self.state.directions)

    def step(self) -> tuple[float, bool]:
        """The objective is that of the state after the step."""
        n_changed, statistics = self.assignment.sweep(self._passes, score_rule(self.state))
        has_empty = self._refills and not statistics.counts.all()
        if has_empty:
            statistics = self.assignment.fill_empty(self._passes, self.state.directions)
        self.state = update(self.state, statistics)
        self.is_settled = n_changed == 0 and not has_empty
        return objective(self.state, statistics), self.is_settled

    def settle(self) -> DirectionalStatistics:
        """Statistics of the labels under the present directions, which may be one update ahead of the labels."""
        if self.is_settled:
            return self.state.statistics
        return self.assignment.sweep(self._passes, score_rule(self.state))[1]


class SphericalKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, UnitVectorEstimator):
    """Spherical k-means: clusters unit vectors around K directions by cosine similarity.

    Rows are normalised first. The fit maximises the sum of cosines between rows and the directions of their
    clusters; it never falls from one step to the next.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters K.
    init : {"k-means++", "random"} or array of shape (K, D), default="k-means++"
        First directions: k-means++ by angle (greedy), distinct rows, or the directions given (normalised here).
    n_init : int or "auto", default="auto"
        Runs, each from its own draw; the one with the highest objective is kept (given directions give the same run
        every time). "auto" is 10 for random rows, else 1.
    max_iter : int, default=300
        Most steps of one run. A run that uses them all warns.
    tol : float, default=1e-6
        Stop when a step gains at most this fraction of the objective. 0 runs until nothing is gained.
    empty_clusters : {"refill", "keep"}, default="refill"
        A cluster that lost all rows takes the row farthest from its own direction (the objective does not fall), or
        keeps its direction.
    algorithm : {"auto", "lloyd", "hamerly"}, default="auto"
        "lloyd" scores every row in every step. "hamerly" keeps two bounds per row, passes over rows whose label
        cannot change, and scores others only with clusters near their own. Both give equal bits; "auto" takes
        "hamerly" from 17 columns and 8 clusters on.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the starts.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it. BLAS is held to one thread for each of them
        while the fit runs.
    verbose : int, default=0
        1 shows a progress bar (needs the extra "progress").
    callbacks : callable, sequence of callables or None, default=None
        Each is called with every `FitEvent`.

    Attributes
    ----------
    cluster_centers_ : array of shape (K, D), float64
        Unit directions.
    labels_ : array of shape (n,), int32
        Cluster of each row: `predict` of the training rows.
    inertia_ : float
        sum_i w_i (1 - x_i . mu_{z_i}), the sum of cosine distances to the directions; half the sum of squared
        chords. 0 is perfect.
    objective_ : float
        sum_i w_i x_i . mu_{z_i}, what the fit maximises; the sum of weights minus `inertia_`.
    counts_ : array of shape (K,)
        Sum of the weights of the rows behind each direction.
    resultants_ : array of shape (K, D)
        Their weighted sum; `cluster_centers_` is its direction.
    n_iter_ : int
        Steps of the run that was kept.
    n_steps_ : int
        Calls of `partial_fit` since the last `fit`.
    n_clusters_, n_features_in_ : int
        K and D.
    feature_names_in_ : array of shape (D,)
        Column names, where X had them.

    Notes
    -----
    A step costs 2 n D K operations (2 nnz K for CSR rows, which stay sparse) and, apart from the rows, labels and
    one K x D sum per thread. Results repeat to the bit for one `random_state`, whatever `n_threads`.

    References
    ----------
    Dhillon and Modha (2001), Concept decompositions for large sparse text data using clustering.
    Arthur and Vassilvitskii (2007), k-means++. Hamerly (2010), Making k-means even faster.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary import SphericalKMeans
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, truth, _ = make_vmf_mixture(1000, 3, 4, concentration=100.0, min_angle=0.8, random_state=0)
    >>> model = SphericalKMeans(n_clusters=4, random_state=0).fit(X)
    >>> sorted(model.counts_.astype(int).tolist()) == sorted(np.bincount(truth).tolist())
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: str | ArrayLike = "k-means++",
        n_init: int | str = "auto",
        max_iter: int = 300,
        tol: float = 1e-6,
        empty_clusters: str = "refill",
        algorithm: str = "auto",
        random_state: RandomState = None,
        n_threads: int | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.empty_clusters = empty_clusters
        self.algorithm = algorithm
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.callbacks = callbacks

    @learning
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the directions of the rows of X (n, D), dense or CSR; `y` is ignored."""
        points = self._points(X, sample_weight, is_new=True)
        parameters = Parameters.check(self, points)
        stream = Stream.of(self.random_state)
        emitter = Emitter(
            self._who,
            self._observers(),
            n_rows=points.n_rows,
            n_restarts=parameters.n_init,
            max_steps=parameters.max_iter,
        )
        with self._passes(points) as passes, emitter:

            def start(restart: int) -> Lloyd:
                return Lloyd(passes, initial_state(passes, parameters, stream, restart), parameters)

            run = best_run(
                start,
                n_restarts=parameters.n_init,
                max_steps=parameters.max_iter,
                stopping=RelativeGain(parameters.tol),
                emitter=emitter,
            )
            chain: Any = run.chain
            final = chain.settle()
            value = objective(chain.state, final)
        self._warn(run, final)
        self._publish(
            X,
            is_new=True,
            **_fitted(chain.state),
            labels_=chain.assignment.labels,
            objective_=value,
            inertia_=max(0.0, points.total_weight - value),
            n_iter_=run.n_steps,
            n_steps_=0,
        )
        return self

    fit_predict = learning(ClusterMixin.fit_predict)  # so that the labels are those of this fit
    fit_transform = learning(TransformerMixin.fit_transform)

    @learning
    def partial_fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn one batch: label its rows by the present directions, then add them to the resultants.

        The first call on a new model starts the directions from the batch, which must then have at least
        `n_clusters` rows; a call after `fit` goes on from the fit. `labels_`, `inertia_` and `objective_` are those
        of the last batch under the directions after it.
        """
        is_new = not hasattr(self, "cluster_centers_")
        points = self._points(X, sample_weight, is_new=is_new)
        with self._passes(points) as passes:
            if is_new:
                parameters = Parameters.check(self, points)
                state = initial_state(passes, parameters, Stream.of(self.random_state), restart=1)
            else:
                state = self._state()
            assignment = HardAssignment(points.n_rows, is_bounded=False)
            _, batch = assignment.sweep(passes, score_rule(state))
            state = update(state, state.statistics.merge(batch))
            _, final = assignment.sweep(passes, score_rule(state))
            value = objective(state, final)
        self._publish(
            X,
            is_new=is_new,
            **_fitted(state),
            labels_=assignment.labels,
            objective_=value,
            inertia_=max(0.0, points.total_weight - value),
            n_iter_=1 if is_new else self.n_iter_,
            n_steps_=getattr(self, "n_steps_", 0) + 1,
        )
        return self

    @reading
    def predict(self, X: Any) -> IntArray:
        """The cluster of each row of X (n,), int32."""
        points = self._points(X, is_new=False)
        labels = np.full(points.n_rows, -1, dtype=np.int32)
        with self._passes(points) as passes:
            passes.assign(score_rule(self._state()), labels)
        return labels

    @reading
    def transform(self, X: Any) -> FloatArray:
        """Cosine similarity of each row to each direction (n, K), in the dtype of the rows."""
        points = self._points(X, is_new=False)
        with self._passes(points) as passes:
            return passes.scores(score_rule(self._state()))

    @reading
    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the inertia of X: higher is better, 0 is perfect."""
        points = self._points(X, sample_weight, is_new=False)
        assignment = HardAssignment(points.n_rows, is_bounded=False)
        with self._passes(points) as passes:
            _, statistics = assignment.sweep(passes, score_rule(self._state()))
            value = objective(self._state(), statistics)
        return min(0.0, value - points.total_weight)

    def _state(self) -> State:
        return State(self.cluster_centers_, DirectionalStatistics(self.counts_, self.resultants_))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        Parameters.check(self, self._any_points())

    def _warn(self, run: Run[State], final: DirectionalStatistics) -> None:
        if not run.is_converged:
            self._warn_of_steps(run.n_steps, stacklevel=3, gain=f" more than tol={float(self.tol):g} of its objective")
        n_filled = int(np.count_nonzero(final.counts))
        if n_filled < self.n_clusters:
            warnings.warn(
                f"{self._who} filled only {n_filled} of n_clusters={self.n_clusters} clusters; X may have fewer "
                "distinct rows. Lower n_clusters.",
                ConvergenceWarning,
                stacklevel=4,
            )

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _fitted(state: State) -> dict[str, Any]:
    return {
        "cluster_centers_": state.directions,
        "counts_": state.statistics.counts,
        "resultants_": state.statistics.resultants,
        "n_clusters_": len(state.directions),
    }
