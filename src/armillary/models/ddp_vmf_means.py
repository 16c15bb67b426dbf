"""DDP-vMF-means: DP-vMF-means for a stream of batches, with clusters that drift, vanish and return under their ids.

Story        a direction walks on the sphere between batches, may be unseen for some, and dies after too many
Objective    J = sum_i x_i . mu_{z_i} + lambda (births) + sum over tracks with rows of (T Q - penalty of the walk)
             with lambda = cos(max_angle) - 1 and Q = lambda / max_unseen_steps        ddp_vmf_means.md, 6
Labels       the best of x . mu_k for clusters with rows, a revival score for tracks without, cos(max_angle)
             for a birth, row by row                                                   Straub 2015 eq. 24
Directions   r_k / |r_k| for a birth; rotated towards the remembered direction for a track  suppl. sec. 3
Memory       direction, weight, steps unseen                                           ddp_vmf_means.md, 5, 7
Row order    matters within a batch: a cluster is born at the first row nobody accepts

Departures from the paper: the walk is solved for every angle (the printed iteration fails beyond about 57 degrees at
the paper's own settings), a track's weight is by default the curvature of its posterior and not the height of the
exponent, and tracks are dropped when they have aged, not a batch later (ddp_vmf_means.md, 11).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from armillary._typing import ArrayLike, Float64Array, IntArray
from armillary.distributions import geodesic_walk
from armillary.distributions.geodesic_walk import RevivalCurve, WeightRule
from armillary.exceptions import InputError
from armillary.fitting.assignment import HardAssignment
from armillary.fitting.events import Emitter
from armillary.fitting.loop import Run, best_run
from armillary.fitting.optimistic import Opening, SequentialAssignment, Sweep
from armillary.fitting.passes import Passes
from armillary.fitting.stopping import GainPerRow
from armillary.geometry import sphere
from armillary.geometry.rotation import mean_rotation
from armillary.kernels.contract import AffineRule, Kernels, Meeting, Tracks
from armillary.models._estimator import UnitVectorEstimator, checked_points
from armillary.models._turns import learning, reading
from armillary.models.dp_vmf_means import birth_floor, check_max_angle, cluster_price
from armillary.points import Points
from armillary.statistics.directional import DirectionalStatistics
from armillary.validation import (
    as_matrix,
    check_choice,
    check_flag,
    check_integer,
    check_number,
    check_positive,
    check_rotation,
    check_sample_weight,
    has_nan,
)

# Ten times the measured error of a revival curve (geodesic_walk.revival_curve).
_CURVE_DOUBT = 1e-8
# A born cluster whose rows cancel has no direction to remember.
_NO_DIRECTION = 1e-9


class Life(IntEnum):
    """What can happen to a cluster, as `history_` writes it."""

    BIRTH = 1
    REVIVAL = 2
    DEATH = 3


class StepRecord(NamedTuple):
    """What happened in one step: ids."""

    step: int
    births: tuple[int, ...]
    revivals: tuple[int, ...]
    deaths: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class State:
    """The tracks, in the order of their ids."""

    ids: npt.NDArray[np.int64]  # (T,)
    directions: Float64Array  # (T, D) m
    weights: Float64Array  # (T,) w, in units of the concentration of a row
    steps_unseen: npt.NDArray[np.int64]  # (T,)
    next_id: int

    @classmethod
    def empty(cls, n_features: int) -> State:
        """Nothing remembered yet."""
        return cls(np.empty(0, np.int64), np.empty((0, n_features)), np.empty(0), np.empty(0, np.int64), next_id=0)

    def select(self, chosen: npt.ArrayLike) -> State:
        """Some tracks (numbers or a mask)."""
        which = np.asarray(chosen)
        return State(
            self.ids[which], self.directions[which], self.weights[which], self.steps_unseen[which], self.next_id
        )

    def walkers(self, parameters: Parameters) -> Tracks:
        """The tracks as the kernels have them."""
        beta = parameters.drift_concentration
        return Tracks(self.directions, self.weights, self.steps_unseen, beta, parameters.is_exact)

    def known(self) -> State:
        """The clusters of the last step; where it had none, all that are remembered."""
        is_seen = self.steps_unseen == 0
        return self.select(is_seen) if is_seen.any() else self


_LEAST_DRIFT = 1e-100  # what is divided by it stays a float


@dataclass(frozen=True)
class Parameters:
    """Checked constructor parameters."""

    max_angle: float
    drift_concentration: float
    max_unseen_steps: float
    weight_rule: WeightRule
    is_exact: bool
    carries_unseen: bool
    max_iter: int
    tol: float
    max_history: int

    @classmethod
    def check(cls, model: DDPvMFMeans, points: Points | None) -> Parameters:
        """The parameters of `model`, or an error that names the wrong one."""
        who = type(model).__name__
        drift = check_positive(
            model.drift_concentration, "drift_concentration", who, low=_LEAST_DRIFT, hint="inf stands still."
        )
        unseen_hint = "1 remembers nothing, inf forgets nothing."
        unseen = check_positive(model.max_unseen_steps, "max_unseen_steps", who, low=1.0, hint=unseen_hint)
        rule = check_choice(model.weight_update, "weight_update", who, ("curvature", "paper"))
        return cls(
            max_angle=check_max_angle(model.max_angle, None if points is None else points.dtype, who),
            drift_concentration=drift,
            max_unseen_steps=unseen,
            weight_rule=cast(WeightRule, rule),
            is_exact=check_choice(model.solver, "solver", who, ("exact", "small_angle")) == "exact",
            carries_unseen=check_flag(model.carry_unseen, "carry_unseen", who),
            max_iter=check_integer(model.max_iter, "max_iter", who, low=1),
            tol=check_number(model.tol, "tol", who, low=0.0, hint="It is a gain per row; 0 runs until no row moves."),
            max_history=check_integer(model.max_history, "max_history", who, low=0),
        )

    @property
    def price(self) -> float:
        """lambda."""
        return cluster_price(self.max_angle)

    @property
    def floor(self) -> float:
        """A row with a lower score asks for a cluster of its own."""
        return birth_floor(self.max_angle)

    @property
    def miss_price(self) -> float:
        """Q, the price of one step unseen."""
        return self.price / self.max_unseen_steps


def initial_state(state: State, parameters: Parameters, rotation: Float64Array | None) -> tuple[State, State]:
    """Tracks at the start of a step, turned by a rotation that is known and one step older: those alive, and the dead.

    A track at T Q <= lambda could win a row only by a tie (ddp_vmf_means.md, 5).
    """
    directions = state.directions if rotation is None else _turned(state.directions, rotation)
    steps = state.steps_unseen + 1
    aged = State(state.ids, directions, state.weights, steps, state.next_id)
    is_alive = steps < parameters.max_unseen_steps
    return aged.select(is_alive), aged.select(~is_alive)


class Recollection:
    """The tracks as `fitting/optimistic.py` asks for them: scores of those without rows, directions of the revived."""

    def __init__(self, state: State, parameters: Parameters, kernels: Kernels) -> None:
        self._state = state
        self._parameters = parameters
        self._kernels = kernels
        steps = state.steps_unseen
        self.directions = state.directions
        self.tracks = state.walkers(parameters)
        self.curve: RevivalCurve = kernels.revival_curves(self.tracks, parameters.miss_price)
        self.curve_doubt = _CURVE_DOUBT
        # ddp_vmf_means.md, 4.3: S <= d + T Q + (1/w + T/beta)/2, and S <= 1 + T Q while d >= -1
        slack = 0.5 * (1.0 / state.weights + steps / parameters.drift_concentration)
        self.ceilings: Float64Array = np.asarray(steps * parameters.miss_price + np.minimum(slack, 2.0), np.float64)

    def scores(self, row: Float64Array) -> Float64Array:
        """Exact scores (T,) of a unit row (D,)."""
        parameters, state = self._parameters, self._state
        return geodesic_walk.revival_score(
            sphere.angle(state.directions, row),
            state.weights,
            parameters.drift_concentration,
            state.steps_unseen,
            parameters.miss_price,
            is_exact=parameters.is_exact,
        )

    def revive(self, tracks: npt.NDArray[np.int64], resultants: Float64Array) -> Float64Array:
        """The directions (P, D) of tracks (P,) whose only rows have these resultants (P, D)."""
        met = self._state.select(tracks)
        statistics = DirectionalStatistics(np.zeros(len(resultants)), resultants)
        towards, lengths = statistics.polar(otherwise=met.directions)
        return walk_to(met, towards, lengths, self._parameters, self._kernels).directions


@dataclass(frozen=True, eq=False)
class Slots:
    """The clusters of a step: first the tracks, with or without rows, then those born in it."""

    directions: Float64Array  # (K, D)
    statistics: DirectionalStatistics  # of the rows that made the directions
    constants: Float64Array  # (K,) what each adds to the objective beside its rows
    weights: Float64Array  # (T,) of the tracks after the step


def walk_to(
    tracks: State, towards: Float64Array, lengths: Float64Array, parameters: Parameters, kernels: Kernels
) -> Meeting:
    """Where tracks (T,) go to meet resultants of the directions `towards` (T, D) and `lengths` (T,)."""
    return kernels.meet_tracks(tracks.walkers(parameters), towards, lengths, parameters.weight_rule)


def update(sweep: Sweep, tracks: State, parameters: Parameters, kernels: Kernels) -> Slots:
    """Directions that maximise the objective for fixed labels: means of rows, for tracks drawn towards memory."""
    n_tracks, statistics = len(tracks.ids), sweep.statistics
    directions, lengths = statistics.polar(otherwise=sweep.directions)
    constants = np.full(len(directions), parameters.price)
    weights = tracks.weights.copy()
    counts, lengths = statistics.counts[:n_tracks], lengths[:n_tracks]
    constants[:n_tracks] = np.where(counts > 0.0, tracks.steps_unseen * parameters.miss_price, 0.0)
    # rows of a track can cancel; it then stays where it was
    met = np.flatnonzero(lengths > 1e-12 * counts)
    towards = directions[met]
    directions[:n_tracks] = tracks.directions
    if met.size:
        meeting = walk_to(tracks.select(met), towards, lengths[met], parameters, kernels)
        directions[met], weights[met] = meeting.directions, meeting.weights
        constants[met] -= meeting.penalties
    return Slots(directions, statistics, constants, weights)


def objective(slots: Slots) -> float:
    """J of the step, from K-sized sums."""
    return float(np.vecdot(slots.statistics.resultants, slots.directions).sum() + slots.constants.sum())


def remember(tracks: State, slots: Slots, parameters: Parameters) -> tuple[State, npt.NDArray[np.int64]]:
    """The tracks after the step, and the id of every slot (K,)."""
    n_tracks, n_born = len(tracks.ids), len(slots.directions) - len(tracks.ids)
    lengths, counts = slots.statistics.lengths, slots.statistics.counts
    is_seen = counts[:n_tracks] > 0.0
    memory = np.where(is_seen[:, None], slots.directions[:n_tracks], tracks.directions)
    if parameters.carries_unseen and is_seen.any():
        rotation = mean_rotation(tracks.directions[is_seen], memory[is_seen], lengths[:n_tracks][is_seen])
        memory[~is_seen] = _turned(memory[~is_seen], rotation)
    born_ids = tracks.next_id + np.arange(n_born)
    has_direction = lengths[n_tracks:] > _NO_DIRECTION * counts[n_tracks:]
    born = n_tracks + np.flatnonzero(has_direction)
    state = State(
        np.concatenate([tracks.ids, born_ids[has_direction]]),
        np.concatenate([memory, slots.directions[born]]),
        np.concatenate([slots.weights, lengths[born]]),
        np.concatenate([np.where(is_seen, 0, tracks.steps_unseen), np.zeros(len(born), np.int64)]),
        tracks.next_id + n_born,
    )
    return state, np.concatenate([tracks.ids, born_ids])


def _turned(directions: Float64Array, rotation: Float64Array) -> Float64Array:
    turned = directions @ rotation.T
    return np.asarray(turned / np.linalg.norm(turned, axis=1, keepdims=True))


class _Frame:
    """The sweeps of one step: what the loop steps."""

    def __init__(self, passes: Passes, tracks: State, parameters: Parameters) -> None:
        self._passes = passes
        self._tracks = tracks
        self._parameters = parameters
        memory = Recollection(tracks, parameters, passes.kernels) if len(tracks.ids) else None
        self._opening = Opening(parameters.floor, memory=memory)
        self._assignment = SequentialAssignment(passes.points.n_rows, is_bounded=False)
        self._is_settled = False
        asleep = DirectionalStatistics.zero(*tracks.directions.shape)
        self.state = Slots(tracks.directions, asleep, np.zeros(len(tracks.ids)), tracks.weights)

    @property
    def n_clusters(self) -> int:
        return int(np.count_nonzero(self.state.statistics.counts))

    def step(self) -> tuple[float, bool]:
        sweep = self._assignment.sweep_in_order(self._passes, self.state.directions, self._opening)
        is_kept = sweep.statistics.counts > 0.0
        is_kept[: len(self._tracks.ids)] = True  # a track without rows sleeps again
        if not is_kept.all():
            self._assignment.keep(is_kept)
            sweep = Sweep(sweep.directions[is_kept], sweep.statistics.select(is_kept), sweep.is_still)
        self.state = update(sweep, self._tracks, self._parameters, self._passes.kernels)
        self._is_settled = sweep.is_still
        return objective(self.state), self._is_settled

    def labels(self, passes: Passes, ids: npt.NDArray[np.int64], is_present: npt.NDArray[np.bool_]) -> IntArray:
        """Ids under the directions after the last sweep: the nearest of the clusters that have rows."""
        are_all_counted = passes.points is self._passes.points
        if self._is_settled and are_all_counted:
            return self._assignment.names(ids, is_present)
        seen = np.flatnonzero(self.state.statistics.counts)
        over = self._assignment.labels if are_all_counted else None
        return passes.names(AffineRule.cosines(self.state.directions[seen]), ids[seen], is_present, over)


class DDPvMFMeans(ClusterMixin, UnitVectorEstimator):
    """DDP-vMF-means: clusters a stream of batches of unit vectors; ids last through drift and absence.

    Call `partial_fit` or `partial_fit_predict` once for each step in time. Within a step rows are clustered as by
    `DPvMFMeans`, and clusters of earlier steps come back under their ids: moved a little, or after an absence of
    fewer than `max_unseen_steps` steps. Ids are never used again.

    Parameters
    ----------
    max_angle : float, default=0.5
        Radians, in (0, pi]: how far a row may be from the direction of its cluster, as in `DPvMFMeans`. Surface normals
        of rooms: 100 degrees in the paper.
    drift_concentration : float, default=1e5
        beta, in (0, inf]: (s/d)^2 with s the spread of rows about their direction and d the drift of a direction per
        step, both in radians per tangent axis. Large remembers much and follows slowly.
    max_unseen_steps : float, default=400
        H, in [1, inf]. A cluster missing for g steps comes back if g + 1 < H, to rows ever nearer as g grows. 1
        remembers nothing: each batch is clustered by itself.
    weight_update : {"curvature", "paper"}, default="curvature"
        How sure a track is after a step: the curvature of its posterior (the Kalman step for small angles), or the
        height of its exponent, as printed, which grows surer the longer a cluster is unseen.
    solver : {"exact", "small_angle"}, default="exact"
        Motion between steps: the exact walk for every angle, or its closed form for small ones.
    carry_unseen : bool, default=False
        Turn the directions of unseen clusters by the mean rotation of the seen ones: for a turning camera.
    allow_missing : bool, default=False
        Rows with NaN, as depth sensors leave them, are passed over and get the label -1. Otherwise they are an error.
    max_iter : int, default=100
        Most sweeps of one step. A step that uses them all warns.
    tol : float, default=1e-6
        Stop a step when a sweep gains at most this much of the objective per row. 0 runs until no row moves.
    max_history : int, default=10000
        Events that `history_` keeps, the newest ones: memory does not grow with the stream.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it.
    verbose : int, default=0
        1 shows a progress bar for each step (needs the extra "progress").
    callbacks : callable, sequence of callables or None, default=None
        Each is called with every `FitEvent`; the "end" of a step has its births, revivals and deaths.

    Attributes
    ----------
    labels_ : array of shape (n,), int64
        Id of each row of the last step; -1 for missing rows.
    cluster_ids_ : array of shape (T,), int64
        Ids of the clusters remembered, increasing.
    memory_directions_ : array of shape (T, D), float64
        Their directions when last seen.
    memory_weights_ : array of shape (T,), float64
        How sure these are, in rows.
    steps_unseen_ : array of shape (T,), int64
        Steps since each was last seen; 0 for the clusters of the last step.
    n_clusters_ : int
        Clusters with rows in the last step.
    next_id_ : int
        The id that the next new cluster gets.
    history_ : array of shape (E, 3), int64
        The newest events, one line each: step, `Life` (1 birth, 2 revival, 3 death), id. `record(step)` reads it.
    n_steps_ : int
        Steps so far.
    n_iter_ : int
        Sweeps of the last step.
    objective_ : float
        Of the last step (0 for an empty one). Not comparable between steps.
    lambda_ : float
        cos(max_angle) - 1, the price of a cluster.
    n_features_in_ : int
        D.
    feature_names_in_ : array of shape (D,)
        Column names, where X had them.

    Notes
    -----
    A sweep costs n (K + T) D multiply-adds at most; a step takes a handful. The revival of unseen clusters costs
    comparisons only: their score is a curve of one angle. Results do not depend on `n_threads`, and a model saved and
    loaded in the middle of a stream goes on with equal bits. `labels_` equals `predict` of the rows of the step, but
    for a new cluster whose rows cancel: it has an id and no direction to remember.

    References
    ----------
    Straub, Campbell, How and Fisher (2015), Small-variance nonparametric clustering on the hypersphere.

    Examples
    --------
    >>> from armillary import DDPvMFMeans
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, labels, _ = make_vmf_mixture(600, 3, 3, concentration=300.0, min_angle=1.0, random_state=0)
    >>> stream = DDPvMFMeans(max_angle=0.5)
    >>> sorted(set(stream.partial_fit_predict(X).tolist()))
    [0, 1, 2]
    >>> absent = stream.partial_fit_predict(X[labels > 0])  # one cluster is away for a step ...
    >>> sorted(set(stream.partial_fit_predict(X).tolist()))  # ... and comes back under its id
    [0, 1, 2]
    """

    def __init__(
        self,
        max_angle: float = 0.5,
        *,
        drift_concentration: float = 1e5,
        max_unseen_steps: float = 400,
        weight_update: str = "curvature",
        solver: str = "exact",
        carry_unseen: bool = False,
        allow_missing: bool = False,
        max_iter: int = 100,
        tol: float = 1e-6,
        max_history: int = 10_000,
        n_threads: int | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.max_angle = max_angle
        self.drift_concentration = drift_concentration
        self.max_unseen_steps = max_unseen_steps
        self.weight_update = weight_update
        self.solver = solver
        self.carry_unseen = carry_unseen
        self.allow_missing = allow_missing
        self.max_iter = max_iter
        self.tol = tol
        self.max_history = max_history
        self.n_threads = n_threads
        self.verbose = verbose
        self.callbacks = callbacks

    @learning
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything and take the rows of X (n, D), dense or CSR, as the first step; `y` is ignored."""
        return self._step(X, sample_weight, None, is_new=True)

    fit_predict = learning(ClusterMixin.fit_predict)  # so that the labels are those of this fit

    @learning
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, *, rotation: ArrayLike | None = None
    ) -> Self:
        """Take the rows of X (n, D) as the next step. X may have no rows: clusters then only age.

        `rotation` (D, D) is the rotation since the last step where it is known, e.g. of the camera: remembered
        directions are turned by it first (m becomes rotation @ m).
        """
        return self._step(X, sample_weight, rotation, is_new=not hasattr(self, "cluster_ids_"))

    @learning
    def partial_fit_predict(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, *, rotation: ArrayLike | None = None
    ) -> IntArray:
        """`partial_fit`; returns the id of each row (n,), int64."""
        return self.partial_fit(X, y, sample_weight, rotation=rotation).labels_

    @reading
    def predict(self, X: Any, *, reject: bool = False) -> IntArray:
        """The id of the nearest cluster of the last step for each row of X (n,), int64. Learns nothing.

        If the last step had no clusters, the nearest of those remembered; -1 if there are none. With `reject`, -1 for
        rows beyond `max_angle` of all.
        """
        check_is_fitted(self)
        points, is_present, _ = self._present(X, None, is_new=False)
        parameters = self._parameters(points)
        floor = parameters.floor if check_flag(reject, "reject", f"{self._who}.predict") else -math.inf
        return self._nearest(points, is_present, self._state(), floor)

    @reading
    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the sum of cosine distances of the rows of X to the clusters that `predict` gives: 0 is perfect."""
        points = self._points(X, sample_weight, is_new=False)
        known = self._state().known()
        if not len(known.ids):
            raise InputError(
                f"`score` of {self._who} must have clusters to measure from; this model remembers none. "
                "Give partial_fit a step with rows first."
            )
        assignment = HardAssignment(points.n_rows, is_bounded=False)
        with self._passes(points) as passes:
            _, statistics = assignment.sweep(passes, AffineRule.cosines(known.directions))
        return min(0.0, float(np.vecdot(statistics.resultants, known.directions).sum()) - points.total_weight)

    @reading
    def record(self, step: int | None = None) -> StepRecord:
        """Births, revivals and deaths of a step (counted from 1; None: the last), as far as `history_` goes back."""
        check_is_fitted(self)
        number = self.n_steps_ if step is None else check_integer(step, "step", self._who, low=1, high=self.n_steps_)
        events = self.history_[self.history_[:, 0] == number]
        return StepRecord(number, *(tuple(events[events[:, 1] == life, 2].tolist()) for life in Life))

    # ---------------------------------------------------------------------------------------------- inside

    def _step(self, X: Any, sample_weight: Any, rotation: Any, *, is_new: bool) -> Self:
        points, is_present, n_features = self._present(X, sample_weight, is_new=is_new)
        parameters = self._parameters(points)
        turn = check_rotation(rotation, n_features, self._who)
        before = State.empty(n_features) if is_new else self._state()
        tracks, dead = initial_state(before, parameters, turn)
        number = 1 if is_new else self.n_steps_ + 1
        emitter = Emitter(
            self._who,
            self._observers(),
            n_rows=len(is_present),
            n_restarts=1,
            max_steps=parameters.max_iter,
        )
        with emitter:
            if points is None or points.total_weight == 0.0:
                run, state = None, tracks
                labels = self._nearest(points, is_present, state, -math.inf)
            else:
                counted = points.counted()
                with self._passes(points) as passes:
                    run = best_run(
                        lambda _: _Frame(passes.over(counted), tracks, parameters),
                        n_restarts=1,
                        max_steps=parameters.max_iter,
                        stopping=GainPerRow(parameters.tol, counted.total_weight),
                        emitter=emitter,
                    )
                    frame: Any = run.chain
                    state, ids = remember(tracks, frame.state, parameters)
                    labels = frame.labels(passes, ids, is_present)
            record = _record(number, before, tracks, state, dead)
            emitter.lives(births=record.births, revivals=record.revivals, deaths=record.deaths)
        if run is not None and not run.is_converged:
            self._warn(run)
        self._publish(
            X,
            is_new=is_new,
            labels_=labels,
            cluster_ids_=state.ids,
            memory_directions_=state.directions,
            memory_weights_=state.weights,
            steps_unseen_=state.steps_unseen,
            next_id_=state.next_id,
            n_clusters_=0 if run is None else run.chain.n_clusters,
            history_=_history(None if is_new else self.history_, record, parameters.max_history),
            n_steps_=number,
            n_iter_=0 if run is None else run.n_steps,
            objective_=0.0 if run is None else run.objective,
            lambda_=parameters.price,
        )
        return self

    def _present(self, X: Any, sample_weight: Any, *, is_new: bool) -> tuple[Points | None, npt.NDArray[np.bool_], int]:
        """The gate: points of the rows that are there (None: none are), which those are (n,), and D."""
        n_features = None if is_new else self.n_features_in_
        shape: tuple[int, ...] = getattr(X, "shape", ())
        if len(shape) == 2 and shape[0] == 0 and shape[1] >= 2 and n_features in (None, shape[1]):
            return None, np.zeros(0, dtype=np.bool_), int(shape[1])
        if not check_flag(self.allow_missing, "allow_missing", self._who):
            points = self._points(X, sample_weight, is_new=is_new)
            return points, np.ones(points.n_rows, dtype=np.bool_), points.n_features
        matrix = as_matrix(X, self._who, n_features)
        self._check_names(X, is_new=is_new)
        weights = check_sample_weight(sample_weight, matrix.shape[0], self._who)
        is_present = ~has_nan(matrix)
        if not is_present.all():
            matrix = matrix[is_present]
            weights = None if weights is None else weights[is_present]
        if matrix.shape[0] == 0:
            return None, is_present, matrix.shape[1]
        # all weight may be on rows that are missing: that is a step without rows, not an error
        return replace(checked_points(matrix, self._who), weights=weights), is_present, matrix.shape[1]

    def _parameters(self, points: Points | None) -> Parameters:
        parameters = Parameters.check(self, points)
        drift = parameters.drift_concentration
        if drift < 1.0:
            warnings.warn(
                f"`drift_concentration` of {self._who} below 1 lets one row pull a remembered direction anywhere; got "
                f"{drift:g}. It is (spread of a row / drift per step) squared; see the docstring.",
                UserWarning,
                stacklevel=5,
            )
        return parameters

    def _check_parameters(self) -> None:
        super()._check_parameters()
        Parameters.check(self, self._any_points())

    def _state(self) -> State:
        return State(
            self.cluster_ids_, self.memory_directions_, self.memory_weights_, self.steps_unseen_, self.next_id_
        )

    def _nearest(
        self, points: Points | None, is_present: npt.NDArray[np.bool_], state: State, floor: float
    ) -> IntArray:
        """Ids of the nearest known clusters (n,); -1 for rows that are missing or below `floor` of all."""
        known = state.known()
        assignment = HardAssignment(int(is_present.sum()), is_bounded=False)
        if points is not None and len(known.ids):
            with self._passes(points) as passes:
                passes.assign(AffineRule.cosines(known.directions, floor), assignment.labels)
        return assignment.names(known.ids, is_present)

    def _warn(self, run: Run[Any]) -> None:
        gain = f" more than tol={float(self.tol):g} per row"
        self._warn_of_steps(run.n_steps, stacklevel=4, steps="sweeps of a step", gain=gain)


def _record(number: int, before: State, tracks: State, after: State, dead: State) -> StepRecord:
    is_seen = after.steps_unseen == 0
    was_away = np.isin(after.ids, tracks.ids[tracks.steps_unseen > 1])
    return StepRecord(
        number,
        births=tuple(range(before.next_id, after.next_id)),
        revivals=tuple(after.ids[is_seen & was_away].tolist()),
        deaths=tuple(dead.ids.tolist()),
    )


def _history(past: npt.NDArray[np.int64] | None, record: StepRecord, most: int) -> npt.NDArray[np.int64]:
    lines = [
        (record.step, int(life), number)
        for life, ids in zip(Life, (record.births, record.revivals, record.deaths), strict=True)
        for number in ids
    ]
    fresh = np.array(lines, dtype=np.int64).reshape(-1, 3)
    history = fresh if past is None else np.concatenate([past, fresh])
    return history[max(0, len(history) - most) :]
