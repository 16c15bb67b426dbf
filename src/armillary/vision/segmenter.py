"""A stream of depth frames segmented by direction, with ids that last (Straub 2015, 7.2)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import ArrayLike, Float64Array, FloatArray
from armillary.exceptions import InputError, ParameterError
from armillary.models.means.ddp_vmf_means import DDPvMFMeans
from armillary.models.means.dp_vmf_means import DPvMFMeans
from armillary.validation import (
    check_angle,
    check_choice,
    check_flag,
    check_integer,
    check_number,
    check_positive,
    check_rotation,
)
from armillary.vision.camera import Camera
from armillary.vision.motion import ViewMotion, estimated_motion
from armillary.vision.normals import Normals
from armillary.vision.regions import LabelImage, cleaned_and_counted
from armillary.vision.segmentation import NormalEstimation, Scene, Stopwatch, paint
from armillary.vision.smoothing import TrustedDepth
from armillary.vision.steady import (
    LastFrame,
    LookBack,
    default_region,
    default_stride,
    label_border,
    steady_labels,
)
from armillary.vision.tracking import METHODS, BatchTracker, DDPTracker, SequentialTracker, Tracker
from armillary.workers import Workers, kept_workers, thread_count

# beta for each pixel that is learnt from. The paper weighs memory against frames of 300,000 normals with beta = 1e5.
# Where the turn of the view is taken off first, directions hardly drift, and ids stay with their planes far better with
# a memory a hundred times as firm: agreement with the planes of a recorded corridor is 0.90 then, and 0.77 without.
_DRIFT_PER_PIXEL = 1.0 / 3.0
_FIRMER = 100.0
# of max_angle: clusters whose directions are nearer may be merged
_MERGE_SHARE = 0.6
# A frame takes as many sweeps as real time allows; what is left to gain is gained in the next, which looks much alike.
# On recordings of clutter 100 sweeps of a frame gained nothing that lasts: ids flickered more, since more were born.
_MOST_SWEEPS, _LEAST_GAIN = 8, 1e-5


class Reason(IntEnum):
    """Why a pixel has no label.

    Examples
    --------
    >>> from armillary.vision import Reason
    >>> Reason(2).name
    'EDGE'
    """

    LABELLED = 0
    NO_DEPTH = 1  # nothing was measured, or no normal was given
    EDGE = 2  # at a rim, a hole or the border of the image
    RANGE = 3  # so far that noise makes its normal doubtful, or beyond the range of the sensor
    BANDING = 4  # so far that the steps of the sensor make its normal doubtful
    SMALL = 5  # a small region among pixels without a label


@dataclass(frozen=True, eq=False)
class SegmentedFrame:
    """What `DirectionSegmenter.step` found in one frame.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.vision import DirectionSegmenter
    >>> found = DirectionSegmenter().step(np.tile([0.0, 0.0, -1.0], (4, 6, 1)))
    >>> found.ids, found.shares, found.tracking
    ((0,), {0: 1.0}, 'first')
    """

    number: int  # of the frame in the stream, from 0
    labels: LabelImage  # (H, W) ids, -1 for missing
    normals: Normals  # that were clustered
    ids: tuple[int, ...]  # in the frame, increasing
    shares: Mapping[int, float]  # of the labelled pixels, by id
    directions: Float64Array  # (len(ids), 3) unit, in the coordinates of the camera; 0 where normals cancel
    births: tuple[int, ...]
    revivals: tuple[int, ...]
    deaths: tuple[int, ...]  # forgotten in this frame
    merges: tuple[tuple[int, int], ...]  # ids that are gone since this frame, and the older ones that took them in
    rotation: Float64Array | None  # (3, 3) of the view since the frame before, given or estimated; None: not known
    milliseconds: Mapping[str, float]  # "smoothing", "normals", "clustering", "labels"
    tracking: str  # "first", "held", "lost" or "regained": whether it agrees with the frame before
    depth: FloatArray | None  # (H, W) metres, smoothed; None where normals were given
    motion: ViewMotion | None  # of the camera since the frame before, where depth tells it
    trusted: TrustedDepth  # how far normals are to be trusted

    @property
    def valid_share(self) -> float:
        """The share of the pixels that have a normal."""
        return float(self.normals.is_valid.mean())

    def reasons(self) -> npt.NDArray[np.uint8]:
        """Why pixels (H, W) have no label, as `Reason`; 0 for those that have one.

        Returns
        -------
        array of shape (H, W), uint8
            Numbers of `Reason`.
        """
        found = np.full(self.labels.shape, Reason.SMALL, dtype=np.uint8)
        found[~self.normals.is_valid] = Reason.EDGE if self.depth is not None else Reason.NO_DEPTH
        if self.depth is not None:
            found[self.depth > self.trusted.by_steps] = Reason.BANDING
            found[self.depth > self.trusted.by_range] = Reason.RANGE
            found[self.depth <= 0.0] = Reason.NO_DEPTH
        found[self.labels >= 0] = Reason.LABELLED
        return found


class DirectionSegmenter:
    """Segments a stream of depth frames by the directions of surfaces: frame in, label image with stable ids out.

    Call `step` once for each frame. A wall that leaves the view and returns has the id it had, with method "ddp"; the
    others are there to compare.

    Parameters
    ----------
    max_angle : float, default=70 degrees
        Radians, in (0, pi]: how far a normal may be from the direction of its segment. Walls at right angles are told
        apart below 90 degrees; the paper's 100 joins some of them.
    method : {"ddp", "sequential", "batch"}, default="ddp"
        DDP-vMF-means; DP-vMF-means started from the clusters of the frame before, which forgets what it does not see;
        DP-vMF-means on each frame by itself, whose ids mean nothing beyond their frame.
    camera : Camera, optional
        Needed for frames of depth.
    smoothing : {"guided", "bilateral", "total_variation"} or None, default="guided"
        Of the depth before, or of the normals after; see `estimate_normals`.
    window : int, default=9
        Side of the window of a normal, in pixels; see `estimate_normals`.
    max_depth_jump : float, default=0.03
        Where a surface ends; see `estimate_normals`.
    stride : int or None, default=None
        Learn from every so many pixels in both axes; all pixels are labelled in any case. None learns from about
        40,000: every third one in both axes at 640 x 480.
    min_region : int or None, default=None
        Regions of fewer pixels go to their surroundings, see `clean_regions`. None takes one in 1,500 pixels of the
        image, 204 at 640 x 480; 0 cleans nothing.
    merge : bool, default=True
        Merge clusters that grow together, as `DDPvMFMeans` does with a `merge_angle` of 0.6 `max_angle`: one wall then
        has one id. Only for method "ddp".
    steadiness : float, default=0.25
        What a cosine must gain for a pixel to leave the label that it had in the last frame: labels maximise the sum of
        cosines less `steadiness` for each pixel that changes. A pixel is found in the last frame by the motion of the
        camera, and where its depth there was its own; one without a normal keeps its label. At the border of the image,
        where no normals are, a pixel takes the label of the one inside if it lies in its plane. 0 looks at each frame
        alone. It needs depth, a camera, and a turn that is followed or given; only for method "ddp".
    drift_concentration : float or None, default=None
        As in `DDPvMFMeans`. None takes a third of the number of pixels that are learnt from, the paper's 1e5 at 640 x
        480; a hundred times that where the turn is followed, since little drift is left.
    max_unseen_steps : float, default=400
        As in `DDPvMFMeans`: an id that was away for so many frames is forgotten.
    follow_turn : bool, default=True
        Estimate how the view turned, and turn all that is remembered by it before a frame is learnt: walls out of
        sight, or nearly so, are then where they must be when they return. Depth is registered with that of the frame
        before; where that fails, and for normals, the clusters in sight tell, which needs a `max_angle` that tells
        walls apart, since the mean of two walls in one segment moves without any turn. Without it, and without `merge`,
        `steadiness` and `min_region`, the method is that of the paper. Only for method "ddp".
    model : DDPvMFMeans, optional
        A stream to go on with, e.g. `armillary.load(path)`; its own parameters hold. Only for method "ddp".
    last : LastFrame, optional
        What the last frame of the stream of `model` left: `segmenter.last`. With both a stream goes on with equal bits,
        and its frames are counted on.
    max_history : int, default=10000
        Frames of which `history` keeps the shares, the newest ones.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it.

    Attributes
    ----------
    model : DDPvMFMeans or DPvMFMeans
        The estimator inside. `armillary.save(segmenter.model, path)` saves a stream of method "ddp", and
        `DirectionSegmenter(model=armillary.load(path), last=last, camera=camera)` goes on with equal bits.
    last : LastFrame or None
        Labels and depth of the last frame, which the next one holds on to; `last.save(path)` writes it. None after a
        frame of normals.
    history : sequence of mappings
        For each frame the share of the labelled pixels by id; `plot_id_shares` draws it (Figure 6 of the paper).
    n_frames : int
        Frames so far.

    Notes
    -----
    A frame takes at most eight sweeps and the next goes on; `model.set_params(max_iter=...)` asks for more.

    A frame without a single valid pixel is no error: its labels are all -1, and what is remembered ages by one step.
    Where one plane alone is in sight, nothing tells how the view turns about its normal: it is taken to rest
    (`motion.n_unseen_axes` is then 1). Walls that return after such a turn may have other ids; give `rotation` where it
    is measured.

    `tracking` of a frame is "lost" where it does not agree with the one before (a jump, a hand before the camera); its
    labels then stand alone, ids are kept by their directions, and the next frame that agrees has it "regained".

    References
    ----------
    Straub, Campbell, How and Fisher (2015), Small-variance nonparametric clustering on the hypersphere.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.vision import DirectionSegmenter
    >>> wall, floor = np.tile([0.0, 0.0, -1.0], (4, 6, 1)), np.tile([0.0, -1.0, 0.0], (4, 6, 1))
    >>> segmenter = DirectionSegmenter(drift_concentration=10.0)
    >>> for frame in (np.vstack([wall, floor]), np.vstack([wall, wall]), np.vstack([floor, wall])):
    ...     found = segmenter.step(frame)
    ...     print(found.ids, found.births, found.revivals)
    (0, 1) (0, 1) ()
    (0,) () ()
    (0, 1) () (1,)
    """

    def __init__(
        self,
        max_angle: float = math.radians(70.0),
        *,
        method: str = "ddp",
        camera: Camera | None = None,
        smoothing: str | None = "guided",
        window: int = 9,
        max_depth_jump: float = 0.03,
        stride: int | None = None,
        min_region: int | None = None,
        merge: bool = True,
        steadiness: float = 0.25,
        drift_concentration: float | None = None,
        max_unseen_steps: float = 400,
        follow_turn: bool = True,
        model: DDPvMFMeans | None = None,
        last: LastFrame | None = None,
        max_history: int = 10_000,
        n_threads: int | None = None,
    ) -> None:
        who = self._who = type(self).__name__
        self._estimation = NormalEstimation.check(who, camera, smoothing, window, max_depth_jump, n_threads)
        self._stride = None if stride is None else check_integer(stride, "stride", who, low=1)
        self._min_region = (
            None
            if min_region is None
            else check_integer(min_region, "min_region", who, low=0, hint="0 cleans nothing.")
        )
        self._merges = check_flag(merge, "merge", who)
        self._steadiness = check_number(steadiness, "steadiness", who, low=0.0, high=2.0, hint="It is a cosine.")
        self._jump, self._n_threads = max_depth_jump, n_threads
        self._camera = camera
        self._follows = check_flag(follow_turn, "follow_turn", who)
        self.last = _checked_last(last, model, who)
        self._tracking = "held" if self.last is None else self.last.tracking
        if drift_concentration is not None:
            check_positive(drift_concentration, "drift_concentration", who, hint="None follows the size of frames.")
        check_choice(method, "method", who, METHODS)
        check_angle(max_angle, "max_angle", who)
        check_positive(max_unseen_steps, "max_unseen_steps", who, low=1.0)
        if model is not None and not (method == "ddp" and isinstance(model, DDPvMFMeans)):
            raise ParameterError(
                f"`model` of {who} must be a DDPvMFMeans, and `method` 'ddp'; got {type(model).__name__} and "
                f"{method!r}. Other methods remember nothing that a model could hold."
            )
        self._drift_per_pixel: float | None = None
        if model is None and drift_concentration is None:
            self._drift_per_pixel = _DRIFT_PER_PIXEL * (_FIRMER if self._follows else 1.0)
        self._tracker: Tracker
        if method == "ddp":
            self._tracker = DDPTracker(
                model
                or DDPvMFMeans(
                    max_angle,
                    drift_concentration=1.0 if drift_concentration is None else drift_concentration,
                    max_unseen_steps=max_unseen_steps,
                    merge_angle=_MERGE_SHARE * max_angle if merge else None,
                    max_iter=_MOST_SWEEPS,
                    tol=_LEAST_GAIN,
                    n_threads=n_threads,
                ),
                follows_turn=self._follows,
            )
        else:
            kind = SequentialTracker if method == "sequential" else BatchTracker
            self._tracker = kind(DPvMFMeans(max_angle, n_threads=n_threads))
        most = check_integer(max_history, "max_history", who, low=0)
        self.history: deque[Mapping[int, float]] = deque(maxlen=most)
        self.n_frames = 0 if self.last is None else self.last.n_frames
        self._size: tuple[int, ...] | None = None if self.last is None else self.last.labels.shape

    @property
    def model(self) -> DDPvMFMeans | DPvMFMeans:
        """The estimator inside."""
        return self._tracker.model

    def step(self, frame: Any, *, rotation: ArrayLike | None = None) -> SegmentedFrame:
        """Segment the next frame: depth (H, W), normals (H, W, 3) or `Normals`, of one size throughout.

        `rotation` (3, 3) is what turned the view since the last frame, where it is known: a remembered direction m
        becomes rotation @ m first, and nothing is estimated. Only method "ddp" makes use of it.

        After an error the segmenter is as it was before the frame.

        Parameters
        ----------
        frame : array of shape (H, W) or (H, W, 3), or Normals
        rotation : array of shape (3, 3), optional

        Returns
        -------
        SegmentedFrame
            Labels, ids and what happened to them.
        """
        with kept_workers(thread_count(self._n_threads, self._who)) as workers:
            return self._step(frame, rotation, workers)

    def _step(self, frame: Any, rotation: ArrayLike | None, workers: Workers) -> SegmentedFrame:
        watch = Stopwatch()
        self._check_size(frame)
        scene = self._trusted(self._estimation.scene(frame, watch, workers))
        stride = self._stride or default_stride(scene.normals.is_valid.size)
        with watch.stage("clustering"):
            self._set_drift(scene.normals.is_valid[::stride, ::stride].size)
            rows = scene.normals.rows(stride)
            turn = check_rotation(rotation, 3, self._who)
            motion = self._motion(scene, rows, turn)
            if turn is None and motion is not None and motion.is_found:
                turn = motion.rotation
            ids = self._tracker.step(rows, turn)
        with watch.stage("labels"):
            image, counts = self._painted(scene, ids, stride, motion, workers)
            found = self._described(image, counts, scene, motion, watch)
        self._size = image.shape
        self.n_frames += 1
        self.last = None
        if scene.depth is not None:
            self.last = LastFrame(image, scene.depth, self._tracker.rotation, found.tracking, self.n_frames)
        self._tracking = found.tracking
        self.history.append(found.shares)
        return found

    @staticmethod
    def _trusted(scene: Scene) -> Scene:
        """Without the normals that are too far away to be trusted."""
        farthest = min(scene.trusted)
        if scene.depth is None or math.isinf(farthest) or not (is_far := scene.depth > farthest).any():
            return scene
        is_valid = scene.normals.is_valid & ~is_far
        return replace(scene, normals=Normals(np.where(is_valid[..., None], scene.normals.vectors, 0.0), is_valid))

    def _motion(self, scene: Scene, rows: FloatArray, turn: Float64Array | None) -> ViewMotion | None:
        """How the camera moved since the last frame, where there was depth in both; None where it is not followed."""
        tracker, last = self._tracker, self.last
        if not (isinstance(tracker, DDPTracker) and last is not None and scene.depth is not None and self._camera):
            return None
        if not self._follows and turn is None:
            return None
        if turn is not None:
            return estimated_motion(scene.depth, scene.normals, last.depth, self._camera, [turn], turn)
        turns = _turns(tracker, last, rows)
        return estimated_motion(scene.depth, scene.normals, last.depth, self._camera, turns)

    def _painted(
        self, scene: Scene, ids: Any, stride: int, motion: ViewMotion | None, workers: Workers
    ) -> tuple[LabelImage, Any]:
        """The label image of the frame that the tracker has just seen, and pixels by id."""
        back, normals = None, scene.normals
        if motion is not None and motion.is_found and self._steadiness > 0.0:
            assert self.last is not None
            assert self._camera is not None
            back = LookBack(self.last, motion, self._camera, self._steadiness)
        if isinstance(self._tracker, DDPTracker) and (back is not None or stride > 1):
            known, directions = self._tracker.clusters()
            image = steady_labels(normals, known, directions, scene.depth, back, self._jump, workers)
        else:
            image = paint(normals, self._named(normals, ids, stride))
        if self._steadiness > 0.0 and isinstance(self._tracker, DDPTracker) and scene.depth is not None:
            assert self._camera is not None  # else depth was refused
            label_border(image, normals, scene.depth, self._camera, min(scene.trusted), self._jump)
        return cleaned_and_counted(image, default_region(image.size) if self._min_region is None else self._min_region)

    def _named(self, normals: Normals, ids: Any, stride: int) -> Any:
        """Ids of the valid pixels (n,), of which the tracker has seen every `stride`-th."""
        if stride == 1:
            return ids
        rows = normals.rows()
        return self._tracker.name(rows) if len(rows) else ids[:0]

    def _set_drift(self, n_pixels: int) -> None:
        if self._drift_per_pixel is None or not isinstance(self.model, DDPvMFMeans):
            return
        drift = max(1.0, n_pixels * self._drift_per_pixel)
        if self.model.drift_concentration != drift:  # set_params takes a quarter of a millisecond
            self.model.set_params(drift_concentration=drift)

    def _described(
        self, image: LabelImage, counts: Any, scene: Scene, motion: ViewMotion | None, watch: Stopwatch
    ) -> SegmentedFrame:
        present = np.flatnonzero(counts)
        shares = counts[present] / max(1, counts.sum())
        known, found = self._tracker.clusters()
        directions = np.zeros((len(present), 3))
        if len(known):
            places = np.minimum(np.searchsorted(known, present), len(known) - 1)
            has_direction = known[places] == present
            directions[has_direction] = found[places[has_direction]]
        lives = self._tracker.lives()
        return SegmentedFrame(
            number=self.n_frames,
            labels=image,
            normals=scene.normals,
            ids=tuple(present.tolist()),
            shares=dict(zip(present.tolist(), shares.tolist(), strict=True)),
            directions=directions,
            births=lives.births,
            revivals=lives.revivals,
            deaths=lives.deaths,
            merges=lives.merges,
            rotation=self._tracker.rotation,
            milliseconds=watch.milliseconds,
            tracking=self._told(motion, len(present) > 0),
            depth=scene.depth,
            motion=motion,
            trusted=scene.trusted,
        )

    def _told(self, motion: ViewMotion | None, has_pixels: bool) -> str:
        if self.n_frames == 0 and self.last is None:
            return "first"
        if not has_pixels or (motion is not None and not motion.is_found):
            return "lost"
        return "regained" if self._tracking == "lost" else "held"

    def _check_size(self, frame: Any) -> None:
        size = np.shape(frame.is_valid if isinstance(frame, Normals) else frame)[:2]
        if self._size is not None and size != self._size and len(size) == 2:
            raise InputError(
                f"Frames of a {self._who} must keep their size; frame {self.n_frames} has {_pixels(size)} pixels after "
                f"{_pixels(self._size)}. Scale it, or start a new {self._who}."
            )


def check_frame(frame: Any, who: str) -> SegmentedFrame:
    """A `SegmentedFrame`, refused with a sentence otherwise."""
    if isinstance(frame, SegmentedFrame):
        return frame
    raise ParameterError(
        f"`frame` of {who} must be a SegmentedFrame; got {type(frame).__name__}. Give what `DirectionSegmenter.step` "
        "returns."
    )


def _checked_last(last: Any, model: Any, who: str) -> LastFrame | None:
    if last is None:
        return None
    if not isinstance(last, LastFrame):
        raise ParameterError(
            f"`last` of {who} must be a LastFrame; got {type(last).__name__}. Give `last` of the segmenter that is "
            "gone on with, or LastFrame.load(path)."
        )
    n_ids, largest = getattr(model, "next_id_", 0), int(last.labels.max(initial=-1))
    if largest >= n_ids:
        raise ParameterError(
            f"`last` of {who} must be of the stream of its `model`, which has given {n_ids} ids; it has a label "
            f"{largest}. Give the model and the last frame that one stream has left."
        )
    return last


def _turns(tracker: DDPTracker, last: LastFrame, rows: FloatArray) -> Iterator[Float64Array | None]:
    """Where the search for the motion starts: the view turns as it did; else as the clusters tell; else it rests."""
    yield last.rotation
    yield tracker.turn(rows)
    yield np.eye(3)


def _pixels(size: tuple[int, ...]) -> str:
    return f"{size[1]} x {size[0]}"
