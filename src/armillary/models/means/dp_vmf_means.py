"""DP-vMF-means: spherical k-means that finds the number of clusters.

Objective    J = sum_i w_i x_i . mu_{z_i} + (cos(max_angle) - 1) K       Straub 2015 eq. 12; dp_vmf_means.md, 2
Labels       the best of x . mu_k and cos(max_angle), row by row         eq. 10; dp_vmf_means.md, 3
Directions   mu_k = r_k / |r_k|                                          eq. 11
Row order    matters: a cluster is born at the first row nobody accepts

Departures from the paper: counts are live while a sweep runs (frozen ones can lower J), a lone row that stays keeps its
slot, and several orders are compared by silhouette, because a higher J does not mean better clusters (dp_vmf_means.md,
6, 9, 14). Weights: a row stands for w rows where w is an integer. They move directions and never the radius; a row of
weight above 1 is not alone in its cluster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from armillary._typing import ArrayLike, Float64Array, IntArray, RandomState
from armillary.engines.contract import Counted, Labels, Passes, Shuffled
from armillary.exceptions import ParameterError
from armillary.fitting import consolidation
from armillary.fitting.assignment import HardAssignment
from armillary.fitting.loop import Run, best_run
from armillary.fitting.optimistic import Opening, SequentialAssignment, Sweep
from armillary.fitting.silhouette import mean_silhouette
from armillary.fitting.stopping import GainPerRow
from armillary.models.clusterer import Clusterer
from armillary.models.labels_out import best_labels_to
from armillary.models.parameters import Given, RowShape
from armillary.models.turns import learning, reading
from armillary.rules import AffineRule
from armillary.sums.directional import DirectionalStatistics, on_grid
from armillary.validation import UNIT_TOLERANCE, check_angle, check_flag, check_integer, check_number

_MOST = (1 << 31) - 1


@dataclass(frozen=True, eq=False)
class State:
    """What the next step needs."""

    directions: Float64Array  # (K, D)
    statistics: DirectionalStatistics  # of the rows that made the directions


@dataclass(frozen=True)
class Parameters:
    """Checked constructor parameters."""

    max_angle: float
    max_iter: int
    tol: float
    n_init: int
    max_clusters: int | None
    consolidates: bool

    @classmethod
    def check(cls, given: Given, rows: RowShape, who: str) -> Parameters:
        """The parameters, or an error that names the wrong one."""
        return cls(
            max_angle=check_max_angle(given["max_angle"], rows.dtype, who),
            max_iter=check_integer(given["max_iter"], "max_iter", who, low=1),
            tol=check_number(
                given["tol"], "tol", who, low=0.0, hint="It is a gain per row; 0 runs until no row moves."
            ),
            n_init=check_integer(given["n_init"], "n_init", who, low=1),
            max_clusters=None
            if given["max_clusters"] is None
            # labels have 32 bits: a higher cap is none
            else min(check_integer(given["max_clusters"], "max_clusters", who, low=1, hint="None sets no cap."), _MOST),
            consolidates=check_flag(given["consolidate"], "consolidate", who),
        )

    @property
    def price(self) -> float:
        """lambda."""
        return cluster_price(self.max_angle)

    @property
    def opening(self) -> Opening:
        """When rows open clusters."""
        return Opening(birth_floor(self.max_angle), self.max_clusters)


def cluster_price(max_angle: float) -> float:
    """lambda = cos(max_angle) - 1, by the sine: exact for small angles."""
    return -2.0 * math.sin(0.5 * max_angle) ** 2


def birth_floor(max_angle: float) -> float:
    """cos(max_angle): a row with a lower score asks for a cluster of its own; at pi none does."""
    floor = 1.0 + cluster_price(max_angle)
    return floor if floor > -1.0 else -math.inf


def least_angle(dtype: np.dtype[Any]) -> float:
    """The smallest angle that rows of `dtype` can resolve."""
    # norms are off by up to the tolerance, and so are cosines: equal rows may seem this far apart
    return math.sqrt(4.0 * UNIT_TOLERANCE[dtype])


def check_max_angle(max_angle: Any, dtype: np.dtype[Any] | None, who: str) -> float:
    """An angle in (0, pi] that rows of `dtype` (None: there are none) can resolve."""
    angle = check_angle(max_angle, "max_angle", who)
    if dtype is None:
        return angle
    resolved = least_angle(dtype)
    if angle < resolved:
        way_out = "Give float64 rows." if dtype == np.float32 else "Use a larger angle."
        raise ParameterError(
            f"`max_angle` of {who} must be at least {resolved:.2g} for {dtype} rows, whose cosines resolve no "
            f"smaller angle; got {max_angle!r}. {way_out}"
        )
    return angle


def initial_state(n_features: int, warm: State | None) -> State:
    """No clusters, or those of the last fit."""
    if warm is not None:
        return warm
    return State(np.empty((0, n_features)), DirectionalStatistics.zero(0, n_features))


def score_rule(state: State, floor: float = -math.inf) -> AffineRule:
    """The score is the cosine."""
    return AffineRule.cosines(state.directions, floor)


def update(sweep: Sweep) -> State:
    """Directions that maximise the objective for fixed labels (eq. 11), of the clusters that have rows."""
    is_kept = sweep.statistics.counts > 0.0
    statistics = sweep.statistics.select(is_kept)
    return State(statistics.directions(otherwise=sweep.directions[is_kept]), statistics)


def objective(directions: Float64Array, statistics: DirectionalStatistics, price: float) -> float:
    """J: sum_i x_i . mu_{z_i} = sum_k r_k . mu_k, and the price of the clusters."""
    return float(np.vecdot(statistics.resultants, directions).sum()) + price * len(directions)


class _Chain:
    """Label sweep, directions, over and over: what the loop steps."""

    def __init__(self, passes: Passes, state: State, parameters: Parameters, *, is_warm: bool) -> None:
        self.state = state
        self.assignment = SequentialAssignment(passes, "auto")
        self.passes = passes
        self.is_settled = False
        self._is_warm = is_warm
        self._parameters = parameters

    @property
    def n_clusters(self) -> int:
        return len(self.state.directions)

    def step(self) -> tuple[float, bool]:
        sweep = self.assignment.sweep_in_order(
            self.state.directions, self._parameters.opening, has_company=self._is_warm
        )
        self._is_warm = False
        self.assignment.keep(sweep.statistics.counts > 0.0)
        self.state = update(sweep)
        self.is_settled = sweep.is_still
        return objective(self.state.directions, self.state.statistics, self._parameters.price), self.is_settled

    def consolidate(self) -> None:
        """Merge clusters whose union lies within `max_angle` of its direction (dp_vmf_means.md, 10)."""
        labels = self.assignment.labels
        directions, statistics = consolidation.merge_within(
            self.passes, labels, self.state.directions, self.state.statistics, self._parameters.opening.floor
        )
        self.is_settled = self.is_settled and len(directions) == self.n_clusters
        self.state = State(directions, statistics)

    def silhouette(self) -> float:
        return mean_silhouette(self.passes, self.assignment.labels, self.n_clusters)


class DPvMFMeans(Clusterer):
    """DP-vMF-means: clusters unit vectors within an angle, however many clusters that takes.

    Rows are normalised first. They are taken in order: a row joins the nearest cluster, or opens a new one where all
    are farther than `max_angle`. Then directions move to the mean of their rows, and the sweep is repeated. The
    objective, the sum of cosines minus 1 - cos(max_angle) for each cluster, never falls.

    Parameters
    ----------
    max_angle : float, default=0.5
        Radians, in (0, pi]. How far a row may be from the direction of its cluster. While clusters form it is measured
        from the row that opened the cluster, so choose about the *diameter* of a cluster. `find_max_angle` looks for
        the one that gives a number of clusters, `select_max_angle` compares many by silhouette.
    max_iter : int, default=300
        Most sweeps of one run. A run that uses them all warns.
    tol : float, default=1e-6
        Stop when a sweep gains at most this much of the objective per row. 0 runs until no row moves.
    n_init : int, default=1
        Runs. The first takes the rows in the order given, each other one in an order of its own; the run with the best
        mean silhouette is kept. The objective is no guide here: it prefers too many clusters.
    max_clusters : int or None, default=None
        No cluster is opened while this many have rows; a row that nobody accepts then joins the nearest.
        `n_outside_` counts such rows.
    warm_start : bool, default=False
        Start `fit` from the clusters of the last one; those that no row wants are dropped after the first sweep.
    consolidate : bool, default=False
        After the last sweep merge clusters whose rows all lie within `max_angle` of their common direction, the closest
        first. Makes `max_angle` a radius, and helps where it was chosen too small.
    missing : {"raise", "flag"}, default="raise"
        Rows without a direction (with NaN or infinities, or all zero, as an empty document is) are an error, or are
        passed over and get the label -1.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the row orders of `n_init`.
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
    cluster_centers_ : array of shape (K, D), float64
        Unit directions.
    labels_ : array of shape (n,), int32
        Cluster of each row: `predict` of the training rows.
    n_clusters_ : int
        K.
    objective_ : float
        sum_i w_i x_i . mu_{z_i} + lambda_ K.
    lambda_ : float
        cos(max_angle) - 1, the price of a cluster.
    n_outside_ : int
        Rows (of weight above 0) farther than `max_angle` from every direction: 0 after a run that settled without a
        cap.
    counts_, resultants_ : arrays of shape (K,) and (K, D)
        Sum of weights and weighted sum of the rows behind each direction.
    n_iter_ : int
        Sweeps of the run that was kept.
    n_steps_ : int
        Calls of `partial_fit` since the last `fit`.
    device_ : str
        Where the last fit ran. It is not saved.
    n_features_in_ : int
        D.
    feature_names_in_ : array of shape (D,)
        Column names, where X had them.

    Notes
    -----
    A sweep costs n K D multiply-adds at most (nnz K for CSR rows, which stay sparse). Labels are those of the
    sequential rule to the last row, though rows are labelled in parallel, and results repeat to the bit for one
    `random_state`, whatever `n_threads`. Weights (`sample_weight`) are copies: a row of weight 2 is two equal rows in
    counts, directions and the objective, and `max_angle` stays what it is. With weights below 1 the objective can fall
    when a cluster opens, because its price is that of one whole row.

    References
    ----------
    Straub, Campbell, How and Fisher (2015), Small-variance nonparametric clustering on the hypersphere.
    Kulis and Jordan (2012), Revisiting k-means.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary import DPvMFMeans
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, truth, _ = make_vmf_mixture(1000, 3, 5, concentration=200.0, min_angle=0.8, random_state=0)
    >>> model = DPvMFMeans(max_angle=0.5).fit(X)
    >>> model.n_clusters_
    5
    """

    _parameters_kind = Parameters

    def __init__(
        self,
        max_angle: float = 0.5,
        *,
        max_iter: int = 300,
        tol: float = 1e-6,
        n_init: int = 1,
        max_clusters: int | None = None,
        warm_start: bool = False,
        consolidate: bool = False,
        missing: str = "raise",
        random_state: RandomState = None,
        n_threads: int | None = None,
        device: str | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.max_angle = max_angle
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.max_clusters = max_clusters
        self.warm_start = warm_start
        self.consolidate = consolidate
        self.missing = missing
        self.random_state = random_state
        self.n_threads = n_threads
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    @learning
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the clusters of the rows of X (n, D), dense or CSR; `y` is ignored.

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
        is_warm = check_flag(self.warm_start, "warm_start", self._who) and hasattr(self, "cluster_centers_")
        begun = self._fitting(X, sample_weight, Parameters.check, is_new=not is_warm)
        with begun as (points, parameters, stream, passes, emitter):
            state = initial_state(points.n_features, self._state() if is_warm else None)
            counted = passes.over(Counted())

            def start(restart: int) -> _Chain:
                over = counted if restart == 1 else counted.over(Shuffled(stream.generator("order", restart)))
                return _Chain(over, state, parameters, is_warm=is_warm)

            run = best_run(
                start,
                n_restarts=parameters.n_init,
                max_steps=parameters.max_iter,
                stopping=GainPerRow(parameters.tol, counted.points.total_weight),
                emitter=emitter,
                merit=_silhouette_of,
            )
            chain: Any = run.chain
            if parameters.consolidates:
                chain.consolidate()
            fitted = _settled(passes, chain, parameters)
        self._warn(run)
        self._publish(X, is_new=not is_warm, **fitted, n_iter_=run.n_steps, n_steps_=0)
        return self

    @learning
    def partial_fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn one batch: one sweep over its rows, which may open clusters, then directions of all rows so far.

        The clusters known before keep their rows, so none of them closes. `labels_`, `objective_` and `n_outside_`
        are those of the last batch under the directions after it.

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
        is_new = not hasattr(self, "cluster_centers_")
        points = self._points(X, sample_weight, is_new=is_new)
        parameters = Parameters.check(vars(self), points, self._who)
        before = initial_state(points.n_features, None if is_new else self._state())
        with self._passes(points) as passes:
            assignment = SequentialAssignment(passes.over(Counted()))
            sweep = assignment.sweep_in_order(before.directions, parameters.opening, has_company=True)
            statistics = before.statistics.extend(len(sweep.directions)).merge(sweep.statistics)
            state = State(statistics.directions(otherwise=sweep.directions), statistics)
            labels, final, n_outside = _best_labels(passes, state, parameters)
        self._publish(
            X,
            is_new=is_new,
            **_fitted(state, parameters, labels.to_host(), final, n_outside),
            n_iter_=1 if is_new else self.n_iter_,
            n_steps_=getattr(self, "n_steps_", 0) + 1,
        )
        return self

    def _answers(self, X: Any, *, rejects: bool, out: Any = None) -> IntArray:
        """The nearest cluster of each row (n,), int32; rows beyond `max_angle` of all are rejected."""
        points = self._points(X, is_new=False)
        floor = Parameters.check(vars(self), points, self._who).opening.floor if rejects else -math.inf
        return best_labels_to(out, points, self._passes(points), AffineRule.cosines(self.cluster_centers_, floor))

    @reading
    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the sum of cosine distances of the rows of X to their directions: higher is better, 0 is perfect.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.

        Returns
        -------
        float
            At most 0.
        """
        points = self._points(X, sample_weight, is_new=False)
        with self._passes(points) as passes:
            _, statistics = HardAssignment(passes).sweep(score_rule(self._state()))
        return min(0.0, objective(self.cluster_centers_, statistics, price=0.0) - points.total_weight)

    def _state(self) -> State:
        return State(self.cluster_centers_, on_grid(self.counts_, self.resultants_))

    def _warn(self, run: Run[State]) -> None:
        if not run.is_converged:
            gain = f" more than tol={float(self.tol):g} per row"
            self._warn_of_steps(run.n_steps, stacklevel=3, steps="sweeps", gain=gain)


def _silhouette_of(run: Run[State]) -> float:
    chain: Any = run.chain
    return float(chain.silhouette())


def _settled(passes: Passes, chain: _Chain, parameters: Parameters) -> dict[str, Any]:
    """What a fit publishes. At a fixed point of the rows as given, the labels of the last sweep are the arg max."""
    state = chain.state
    if chain.is_settled and chain.passes is passes and parameters.max_clusters is None:
        return _fitted(state, parameters, chain.assignment.labels.to_host(), state.statistics, n_outside=0)
    labels, statistics, n_outside = _best_labels(passes, state, parameters)
    if not statistics.counts.all():  # a cluster may lose its last row to directions that moved once more
        is_kept = statistics.counts > 0.0
        state = State(state.directions[is_kept], state.statistics.select(is_kept))
        labels, statistics, n_outside = _best_labels(passes, state, parameters)
    return _fitted(state, parameters, labels.to_host(), statistics, n_outside)


def _best_labels(passes: Passes, state: State, parameters: Parameters) -> tuple[Labels, DirectionalStatistics, int]:
    """Arg max labels, their statistics, and how many rows lie outside every cluster."""
    labels = passes.labels()
    outcome = passes.label(score_rule(state, parameters.opening.floor), labels)
    n_outside = labels.n_refused(counted=True) if outcome.n_refused else 0
    if outcome.n_refused:
        outcome = passes.label(score_rule(state), labels)
    return labels, outcome.sums, n_outside


def _fitted(
    state: State, parameters: Parameters, labels: IntArray, statistics: DirectionalStatistics, n_outside: int
) -> dict[str, Any]:
    return {
        "cluster_centers_": state.directions,
        "counts_": state.statistics.counts,
        "resultants_": state.statistics.resultants,
        "n_clusters_": len(state.directions),
        "labels_": labels,
        "objective_": objective(state.directions, statistics, parameters.price),
        "lambda_": parameters.price,
        "n_outside_": n_outside,
    }
