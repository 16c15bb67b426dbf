"""DDP-vMF-means: DP-vMF-means for a stream of batches, with clusters that drift, vanish and return under their ids.

Story        a direction walks on the sphere between batches, may be unseen for some, and dies after too many
Objective    J = sum_i x_i . mu_{z_i} + lambda (births) + sum over tracks with rows of (T Q - penalty of the walk)
             with lambda = cos(max_angle) - 1 and Q = lambda / max_unseen_steps        ddp_vmf_means.md, 6
Labels       the best of x . mu_k for clusters with rows, a revival score for tracks without, cos(max_angle)
             for a birth, row by row                                                   Straub 2015 eq. 24
Directions   r_k / |r_k| for a birth; rotated towards the remembered direction for a track  suppl. sec. 3
Memory       direction, weight, steps unseen                                           ddp_vmf_means.md, 5, 7
Merges       none, as in the paper; with `merge_angle` clusters that grow together become one (`_merging.py`)
Row order    matters within a batch: a cluster is born at the first row nobody accepts

Departures from the paper: the walk is solved for every angle (the printed iteration fails beyond about 57 degrees at
the paper's own settings), a track's weight is by default the curvature of its posterior and not the height of the
exponent, and tracks are dropped when they have aged, not a batch later (ddp_vmf_means.md, 11).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from armillary._typing import ArrayLike, Float64Array, IntArray
from armillary.distributions import geodesic_walk
from armillary.distributions.geodesic_walk import RevivalCurve, WeightRule
from armillary.engines.contract import Counted, Gate, Host, Passes, Points
from armillary.exceptions import InputError
from armillary.fitting.assignment import HardAssignment
from armillary.fitting.loop import Run, best_run
from armillary.fitting.optimistic import Opening, SequentialAssignment, Sweep
from armillary.fitting.stopping import GainPerRow
from armillary.geometry import sphere
from armillary.geometry.rotation import mean_rotation
from armillary.models.clusterer import Clusterer
from armillary.models.labels_out import is_in_parts, part_by_part
from armillary.models.means._merging import (
    MergeRule,
    SavedState,
    Seen,
    chosen_merges,
    followed,
    joined,
    squared_spreads,
)
from armillary.models.means.dp_vmf_means import birth_floor, check_max_angle, cluster_price
from armillary.models.parameters import Given, RowShape
from armillary.models.turns import learning, reading
from armillary.rules import AffineRule, Meeting, Tracks
from armillary.sums.directional import DirectionalStatistics
from armillary.validation import (
    check_angle,
    check_choice,
    check_flag,
    check_integer,
    check_number,
    check_positive,
    check_rotation,
)

# Ten times the measured error of a revival curve (geodesic_walk.revival_curve).
_CURVE_DOUBT = 1e-8
_NO_MERGES: npt.NDArray[np.int64] = np.empty((0, 3), np.int64)
# A born cluster whose rows cancel has no direction to remember.
_NO_DIRECTION = 1e-9


class Life(IntEnum):
    """What can happen to a cluster, as `history_` writes it."""

    BIRTH = 1
    REVIVAL = 2
    DEATH = 3
    MERGE = 4


class StepRecord(NamedTuple):
    """What happened in one step: ids."""

    step: int
    births: tuple[int, ...]
    revivals: tuple[int, ...]
    deaths: tuple[int, ...]
    merges: tuple[tuple[int, int], ...] = ()  # ids that are gone, and the older ones that took them in


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
    merging: MergeRule | None

    @classmethod
    def check(cls, given: Given, rows: RowShape, who: str) -> Parameters:
        """The parameters, or an error that names the wrong one."""
        drift = check_positive(
            given["drift_concentration"], "drift_concentration", who, low=_LEAST_DRIFT, hint="inf stands still."
        )
        unseen_hint = "1 remembers nothing, inf forgets nothing."
        unseen = check_positive(given["max_unseen_steps"], "max_unseen_steps", who, low=1.0, hint=unseen_hint)
        rule = check_choice(given["weight_update"], "weight_update", who, ("curvature", "paper"))
        return cls(
            max_angle=check_max_angle(given["max_angle"], rows.dtype if rows.n_rows else None, who),
            drift_concentration=drift,
            max_unseen_steps=unseen,
            weight_rule=cast(WeightRule, rule),
            is_exact=check_choice(given["solver"], "solver", who, ("exact", "small_angle")) == "exact",
            carries_unseen=check_flag(given["carry_unseen"], "carry_unseen", who),
            max_iter=check_integer(given["max_iter"], "max_iter", who, low=1),
            tol=check_number(
                given["tol"], "tol", who, low=0.0, hint="It is a gain per row; 0 runs until no row moves."
            ),
            max_history=check_integer(given["max_history"], "max_history", who, low=0),
            merging=_merge_rule(given["merge_angle"], given["merge_after"], who),
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


def _merge_rule(angle: Any, after: Any, who: str) -> MergeRule | None:
    steps = check_integer(after, "merge_after", who, low=1, hint="It is a number of steps.")
    return None if angle is None else MergeRule(check_angle(angle, "merge_angle", who), steps)


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

    def __init__(self, state: State, parameters: Parameters, host: Host) -> None:
        self._state = state
        self._parameters = parameters
        self._host = host
        steps = state.steps_unseen
        self.directions = state.directions
        self.tracks = state.walkers(parameters)
        self.curve: RevivalCurve = host.revival_curves(self.tracks, parameters.miss_price)
        self.curve_doubt = _CURVE_DOUBT
        # ddp_vmf_means.md, 4, its third property: S <= d + T Q + (1/w + T/beta)/2, and S <= 1 + T Q while d >= -1
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
        return walk_to(met, towards, lengths, self._parameters, self._host).directions


@dataclass(frozen=True, eq=False)
class Slots:
    """The clusters of a step: first the tracks, with or without rows, then those born in it."""

    directions: Float64Array  # (K, D)
    statistics: DirectionalStatistics  # of the rows that made the directions
    constants: Float64Array  # (K,) what each adds to the objective beside its rows
    weights: Float64Array  # (T,) of the tracks after the step


def walk_to(tracks: State, towards: Float64Array, lengths: Float64Array, parameters: Parameters, host: Host) -> Meeting:
    """Where tracks (T,) go to meet resultants of the directions `towards` (T, D) and `lengths` (T,)."""
    return host.meet_tracks(tracks.walkers(parameters), towards, lengths, parameters.weight_rule)


def update(sweep: Sweep, tracks: State, parameters: Parameters, host: Host) -> Slots:
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
        meeting = walk_to(tracks.select(met), towards, lengths[met], parameters, host)
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


def grown_together(
    state: State, slots: Slots, ids: npt.NDArray[np.int64], before: State, rule: MergeRule, near: SavedState
) -> tuple[State, npt.NDArray[np.int64], tuple[tuple[int, int], ...], SavedState]:
    """The tracks after clusters that are near were merged; the id of every slot (K,); merges; pairs that are near."""
    spreads = squared_spreads(slots.statistics.counts, slots.statistics.lengths)
    is_seen = state.steps_unseen == 0
    seen = Seen(
        state.ids[is_seen],
        state.directions[is_seen],
        state.weights[is_seen],
        spreads[np.searchsorted(ids, state.ids[is_seen])],
        before.next_id,
    )
    merges, near = chosen_merges(seen, near, rule)
    directions, weights, ids = state.directions.copy(), state.weights.copy(), ids.copy()
    for gone, kept in merges:
        one, other = np.searchsorted(state.ids, (kept, gone))
        directions[one], weights[one] = joined(directions[one], weights[one], directions[other], weights[other])
        ids[ids == gone] = kept
    after = State(state.ids, directions, weights, state.steps_unseen, state.next_id)
    return after.select(~np.isin(state.ids, [gone for gone, _ in merges])), ids, tuple(merges), near


def _turned(directions: Float64Array, rotation: Float64Array) -> Float64Array:
    turned = directions @ rotation.T
    return np.asarray(turned / np.linalg.norm(turned, axis=1, keepdims=True))


class _Frame:
    """The sweeps of one step: what the loop steps."""

    def __init__(self, passes: Passes, tracks: State, parameters: Parameters) -> None:
        self._passes = passes
        self._tracks = tracks
        self._parameters = parameters
        memory = Recollection(tracks, parameters, passes.host) if len(tracks.ids) else None
        self._opening = Opening(parameters.floor, memory=memory)
        self._assignment = SequentialAssignment(passes)
        self._is_settled = False
        asleep = DirectionalStatistics.zero(*tracks.directions.shape)
        self.state = Slots(tracks.directions, asleep, np.zeros(len(tracks.ids)), tracks.weights)

    @property
    def n_clusters(self) -> int:
        return int(np.count_nonzero(self.state.statistics.counts))

    def step(self) -> tuple[float, bool]:
        sweep = self._assignment.sweep_in_order(self.state.directions, self._opening)
        is_kept = sweep.statistics.counts > 0.0
        is_kept[: len(self._tracks.ids)] = True  # a track without rows sleeps again
        if not is_kept.all():
            self._assignment.keep(is_kept)
            sweep = Sweep(sweep.directions[is_kept], sweep.statistics.select(is_kept), sweep.is_still)
        self.state = update(sweep, self._tracks, self._parameters, self._passes.host)
        self._is_settled = sweep.is_still
        return objective(self.state), self._is_settled

    def labels(self, passes: Passes, ids: npt.NDArray[np.int64]) -> IntArray:
        """Ids under the directions after the last sweep: the nearest of the clusters that have rows."""
        are_all_counted = passes is self._passes
        if self._is_settled and are_all_counted:
            return self._assignment.labels.to_host(ids)
        seen = np.flatnonzero(self.state.statistics.counts)
        over = self._assignment.labels if are_all_counted else None
        return passes.name(AffineRule.cosines(self.state.directions[seen]), ids[seen], over)


class DDPvMFMeans(Clusterer):
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
    missing : {"raise", "flag"}, default="raise"
        Rows without a direction (with NaN, as depth sensors leave them, infinities, or all zero) are an error, or are
        passed over and get the label -1.
    max_iter : int, default=100
        Most sweeps of one step. A step that uses them all warns.
    tol : float, default=1e-6
        Stop a step when a sweep gains at most this much of the objective per row. 0 runs until no row moves.
    merge_angle : float or None, default=None
        Radians, in (0, pi]: clusters that grow together become one, and the older id stays. Two are near while the
        chord between their directions is at most sqrt(2 (s_a^2 + s_b^2)), with s^2 = 2 (1 - |r| / n) the mean squared
        chord of their rows, and the angle at most this; a pair that was near stays so up to 1.2 times these bounds.
        None never merges, as in the paper.
    merge_after : int, default=3
        Steps in which a pair must be near before it is merged; a cluster near an older one at its birth is merged at
        once.
    max_history : int, default=10000
        Events that `history_` keeps, the newest ones, and merges that `merges_` keeps: memory does not grow with the
        stream.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it.
    device : {None, "auto", "cpu", "cuda", "cuda:1", ...}, default=None
        Where rows are worked on: None is where X is, "auto" a GPU if there is one. The result does not depend on it.
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
    cluster_centers_ : array of shape (T, D), float64
        Their directions when last seen: unit vectors.
    memory_weights_ : array of shape (T,), float64
        How sure these are, in rows; infinite once seen again by the paper's rule, where directions stand still.
    steps_unseen_ : array of shape (T,), int64
        Steps since each was last seen; 0 for the clusters of the last step.
    n_clusters_ : int
        Clusters with rows in the last step.
    next_id_ : int
        The id that the next new cluster gets.
    history_ : array of shape (E, 3), int64
        The newest events, one line each: step, `Life` (1 birth, 2 revival, 3 death, 4 merged into another), id.
        `record(step)` reads it.
    merges_ : array of shape (M, 3), int64
        The newest merges: step, id that is gone, older id that took it in. `current_ids` follows them.
    n_steps_ : int
        Steps so far.
    n_iter_ : int
        Sweeps of the last step.
    objective_ : float
        Of the last step (0 for an empty one). Not comparable between steps.
    lambda_ : float
        cos(max_angle) - 1, the price of a cluster.
    device_ : str
        Where the last fit ran. It is not saved.
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

    _parameters_kind = Parameters
    _state_kind = SavedState
    _saved_state: SavedState

    def __init__(
        self,
        max_angle: float = 0.5,
        *,
        drift_concentration: float = 1e5,
        max_unseen_steps: float = 400,
        weight_update: str = "curvature",
        solver: str = "exact",
        carry_unseen: bool = False,
        missing: str = "raise",
        max_iter: int = 100,
        tol: float = 1e-6,
        merge_angle: float | None = None,
        merge_after: int = 3,
        max_history: int = 10_000,
        n_threads: int | None = None,
        device: str | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.max_angle = max_angle
        self.drift_concentration = drift_concentration
        self.max_unseen_steps = max_unseen_steps
        self.weight_update = weight_update
        self.solver = solver
        self.carry_unseen = carry_unseen
        self.missing = missing
        self.max_iter = max_iter
        self.tol = tol
        self.merge_angle = merge_angle
        self.merge_after = merge_after
        self.max_history = max_history
        self.n_threads = n_threads
        self.device = device
        self.verbose = verbose
        self.callbacks = callbacks

    @learning
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything and take the rows of X (n, D), dense or CSR, as the first step; `y` is ignored.

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
        return self._step(X, sample_weight, None, is_new=True)

    @learning
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, *, rotation: ArrayLike | None = None
    ) -> Self:
        """Take the rows of X (n, D) as the next step. X may have no rows: clusters then only age.

        `rotation` (D, D) is the rotation since the last step where it is known, e.g. of the camera: remembered
        directions are turned by it first (m becomes rotation @ m).

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.
        rotation : array of shape (D, D), optional

        Returns
        -------
        self
        """
        return self._step(X, sample_weight, rotation, is_new=not hasattr(self, "cluster_ids_"))

    @learning
    def partial_fit_predict(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, *, rotation: ArrayLike | None = None
    ) -> IntArray:
        """`partial_fit`; returns the id of each row (n,), int64.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, D)
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows; 1 by default.
        rotation : array of shape (D, D), optional

        Returns
        -------
        array of shape (n,), int64
            Ids.
        """
        return self.partial_fit(X, y, sample_weight, rotation=rotation).labels_

    @reading
    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the sum of cosine distances of the rows of X to the clusters that `predict` gives: 0 is perfect.

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
        known = self._state().known()
        if not len(known.ids):
            self._refuse_to_score("this model remembers none. Give partial_fit a step with rows first.")
        with self._passes(points) as passes:
            _, statistics = HardAssignment(passes).sweep(AffineRule.cosines(known.directions))
        return min(0.0, float(np.vecdot(statistics.resultants, known.directions).sum()) - points.total_weight)

    @reading
    def record(self, step: int | None = None) -> StepRecord:
        """What happened in a step (counted from 1; None: the last), as far as `history_` and `merges_` go back.

        Parameters
        ----------
        step : int, optional

        Returns
        -------
        StepRecord
            Births, revivals, deaths and merges of the step, and its numbers.
        """
        check_is_fitted(self)
        number = self.n_steps_ if step is None else check_integer(step, "step", self._who, low=1, high=self.n_steps_)
        events = self.history_[self.history_[:, 0] == number]
        births, revivals, deaths, _ = (tuple(events[events[:, 1] == life, 2].tolist()) for life in Life)
        merges = self._merges()
        pairs = tuple((gone, kept) for _, gone, kept in merges[merges[:, 0] == number].tolist())
        return StepRecord(number, births, revivals, deaths, pairs)

    @reading
    def current_ids(self, past_ids: ArrayLike) -> npt.NDArray[np.int64]:
        """The ids by which clusters go now that were once given these ids (n,); -1 for those forgotten, and for -1.

        An id changes only where clusters were merged (`merge_angle`); -1 stands for those that were merged before all
        that `merges_` keeps, too.

        Parameters
        ----------
        past_ids : array of int of shape (n,)

        Returns
        -------
        array of shape (n,), int64
            Present ids.
        """
        check_is_fitted(self)
        given = np.asarray(past_ids)
        if given.dtype.kind not in "iu" or (given.size and not -1 <= given.min() <= given.max() < self.next_id_):
            raise InputError(
                f"`past_ids` of {self._who}.current_ids must be ids that were given, integers from -1 to "
                f"{self.next_id_ - 1}; got {given!r}. Give labels of earlier steps."
            )
        return followed(given.astype(np.int64), self._merges()[:, 1:], self.cluster_ids_)

    # ---------------------------------------------------------------------------------------------- inside

    def _step(self, X: Any, sample_weight: Any, rotation: Any, *, is_new: bool) -> Self:
        points = self._present(X, sample_weight, is_new=is_new)
        n_features = points.n_features
        parameters = self._parameters(points)
        turn = check_rotation(rotation, n_features, self._who)
        before = State.empty(n_features) if is_new else self._state()
        tracks, dead = initial_state(before, parameters, turn)
        number = 1 if is_new else self.n_steps_ + 1
        emitter = self._emitter(points.n_given, n_restarts=1, max_steps=parameters.max_iter)
        merges: tuple[tuple[int, int], ...] = ()
        with emitter:
            if points.total_weight == 0.0:
                run, state = None, tracks
                labels = self._nearest(points, state, -math.inf)
                n_clusters, near = 0, SavedState() if is_new else self._saved_state
            else:
                with self._passes(points) as passes:
                    counted = passes.over(Counted())
                    run = best_run(
                        lambda _: _Frame(counted, tracks, parameters),
                        n_restarts=1,
                        max_steps=parameters.max_iter,
                        stopping=GainPerRow(parameters.tol, counted.points.total_weight),
                        emitter=emitter,
                    )
                    frame: Any = run.chain
                    state, ids = remember(tracks, frame.state, parameters)
                    state, ids, merges, near = self._merged(state, frame.state, ids, before, parameters, is_new=is_new)
                    labels = frame.labels(passes, ids)
                    n_clusters = len(set(ids[frame.state.statistics.counts > 0.0].tolist()))
            record = _record(number, before, tracks, state, dead)._replace(merges=merges)
            emitter.lives(births=record.births, revivals=record.revivals, deaths=record.deaths, merges=record.merges)
        if run is not None and not run.is_converged:
            self._warn(run)
        self._publish(
            X,
            is_new=is_new,
            labels_=labels,
            cluster_ids_=state.ids,
            cluster_centers_=state.directions,
            memory_weights_=state.weights,
            steps_unseen_=state.steps_unseen,
            next_id_=state.next_id,
            n_clusters_=n_clusters,
            history_=_history(None if is_new else self.history_, record, parameters.max_history),
            merges_=_merges_so_far(_NO_MERGES if is_new else self._merges(), record, parameters.max_history),
            _saved_state=near,
            n_steps_=number,
            n_iter_=0 if run is None else run.n_steps,
            objective_=0.0 if run is None else run.objective,
            lambda_=parameters.price,
        )
        return self

    def _merged(
        self,
        state: State,
        slots: Slots,
        ids: npt.NDArray[np.int64],
        before: State,
        parameters: Parameters,
        *,
        is_new: bool,
    ) -> tuple[State, npt.NDArray[np.int64], tuple[tuple[int, int], ...], SavedState]:
        if parameters.merging is None:
            return state, ids, (), SavedState()
        near = SavedState() if is_new else self._saved_state
        return grown_together(state, slots, ids, before, parameters.merging, near)

    def _merges(self) -> npt.NDArray[np.int64]:
        """`merges_`, which models from earlier files do not have."""
        return getattr(self, "merges_", _NO_MERGES)

    def _present(self, X: Any, sample_weight: Any, *, is_new: bool) -> Points:
        """The gate: the rows that are there, of which there may be none."""
        return self._gate(X, sample_weight, is_new=is_new, gate=Gate(allows_empty=True))

    def _points_to_place(self, X: Any) -> Points:
        return self._present(X, None, is_new=False)

    def _parameters(self, points: Points) -> Parameters:
        parameters = Parameters.check(vars(self), points, self._who)
        drift = parameters.drift_concentration
        if drift < 1.0:
            warnings.warn(
                f"`drift_concentration` of {self._who} below 1 lets one row pull a remembered direction anywhere; got "
                f"{drift:g}. It is (spread of a row / drift per step) squared; see the docstring.",
                UserWarning,
                stacklevel=5,
            )
        return parameters

    def _answers(self, X: Any, *, rejects: bool, out: Any = None) -> IntArray:
        """The id of the nearest cluster of the last step (n,), int64; rows beyond `max_angle` of all are rejected.

        If the last step had no clusters, the nearest of those remembered; -1 if there are none.
        """
        check_is_fitted(self)
        if is_in_parts(X, out):
            rows = X if hasattr(X, "shape") else np.asarray(X)
            return part_by_part(
                rows, rows.shape[0], out, np.int64, self._who, lambda part, _: self._answers(part, rejects=rejects)
            )
        points = self._present(X, None, is_new=False)
        parameters = self._parameters(points)
        return self._nearest(points, self._state(), parameters.floor if rejects else -math.inf)

    def _state(self) -> State:
        return State(self.cluster_ids_, self.cluster_centers_, self.memory_weights_, self.steps_unseen_, self.next_id_)

    def _nearest(self, points: Points, state: State, floor: float) -> IntArray:
        """Ids of the nearest known clusters (n,); -1 for rows that are missing or below `floor` of all."""
        known = state.known()
        with self._passes(points) as passes:
            labels = passes.labels()
            if points.n_rows and len(known.ids):
                passes.label(AffineRule.cosines(known.directions, floor), labels, sums=False)
            return labels.to_host(known.ids)

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
    gone = tuple(number for number, _ in record.merges)
    lines = [
        (record.step, int(life), number)
        for life, ids in zip(Life, (record.births, record.revivals, record.deaths, gone), strict=True)
        for number in ids
    ]
    fresh = np.array(lines, dtype=np.int64).reshape(-1, 3)
    history = fresh if past is None else np.concatenate([past, fresh])
    return history[max(0, len(history) - most) :]


def _merges_so_far(past: npt.NDArray[np.int64], record: StepRecord, most: int) -> npt.NDArray[np.int64]:
    fresh = np.array([(record.step, *pair) for pair in record.merges], dtype=np.int64).reshape(-1, 3)
    merges = np.concatenate([past, fresh])
    return merges[max(0, len(merges) - most) :]
