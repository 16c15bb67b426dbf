"""A stream of depth frames segmented by direction, with ids that last (Straub 2015, 7.2)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from armillary._typing import ArrayLike, Float64Array
from armillary.exceptions import InputError, ParameterError
from armillary.models.ddp_vmf_means import DDPvMFMeans
from armillary.models.dp_vmf_means import DPvMFMeans
from armillary.validation import check_angle, check_choice, check_integer, check_positive
from armillary.vision.camera import Camera
from armillary.vision.normals import Normals
from armillary.vision.regions import LabelImage, clean_regions
from armillary.vision.segmentation import NormalEstimation, Stopwatch, paint
from armillary.vision.tracking import METHODS, BatchTracker, DDPTracker, SequentialTracker, Tracker

# beta for each pixel that is learnt from. The paper weighs memory against frames of 300,000 normals with beta = 1e5.
# Where the turn of the view is taken off first, directions hardly drift, and ids stay with their planes far better with
# a memory a hundred times as firm: agreement with the planes of a recorded corridor is 0.90 then, and 0.77 without.
_DRIFT_PER_PIXEL = 1.0 / 3.0
_FIRMER = 100.0


@dataclass(frozen=True, eq=False)
class SegmentedFrame:
    """What `DirectionSegmenter.step` found in one frame."""

    number: int  # of the frame in the stream, from 0
    labels: LabelImage  # (H, W) ids, -1 for missing
    normals: Normals  # that were clustered
    ids: tuple[int, ...]  # in the frame, increasing
    shares: Mapping[int, float]  # of the labelled pixels, by id
    directions: Float64Array  # (len(ids), 3) unit, in the coordinates of the camera; 0 where normals cancel
    births: tuple[int, ...]
    revivals: tuple[int, ...]
    deaths: tuple[int, ...]  # forgotten in this frame
    rotation: Float64Array | None  # (3, 3) of the view since the frame before, given or estimated; None: not known
    milliseconds: Mapping[str, float]  # "smoothing", "normals", "clustering", "labels"

    @property
    def valid_share(self) -> float:
        """The share of the pixels that have a normal."""
        return float(self.normals.is_valid.mean())


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
        Of the depth before, or of the normals after; see `estimate_normals`, also for `window` and `max_depth_jump`.
    stride : int, default=1
        Learn from every so many pixels in both axes. All pixels are labelled in any case; 2 makes learning about four
        times as fast.
    min_region : int, default=0
        Regions of fewer pixels go to their surroundings, see `clean_regions`. 0 cleans nothing.
    drift_concentration : float or None, default=None
        As in `DDPvMFMeans`. None takes a third of the number of pixels that are learnt from, the paper's 1e5 at 640 x
        480; a hundred times that where the turn is followed, since little drift is left.
    max_unseen_steps : float, default=400
        As in `DDPvMFMeans`: an id that was away for so many frames is forgotten.
    follow_turn : bool, default=True
        Estimate how the view turned from the clusters in sight, and turn all that is remembered by it before a frame is
        learnt: walls out of sight, or nearly so, are then where they must be when they return. It needs a `max_angle`
        that tells walls apart, since the mean of two walls in one segment moves without any turn. Without it the method
        is that of the paper. Only for method "ddp".
    model : DDPvMFMeans, optional
        A stream to go on with, e.g. `armillary.load(path)`; its own parameters hold. Only for method "ddp".
    max_history : int, default=10000
        Frames of which `history` keeps the shares, the newest ones.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it.

    Attributes
    ----------
    model : DDPvMFMeans or DPvMFMeans
        The estimator inside. `armillary.save(segmenter.model, path)` saves a stream of method "ddp", and
        `DirectionSegmenter(model=armillary.load(path), camera=camera)` goes on with equal bits.
    history : sequence of mappings
        For each frame the share of the labelled pixels by id; `plot_id_shares` draws it (Figure 6 of the paper).
    n_frames : int
        Frames so far.

    Notes
    -----
    A frame without a single valid pixel is no error: its labels are all -1, and what is remembered ages by one step.

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
        stride: int = 1,
        min_region: int = 0,
        drift_concentration: float | None = None,
        max_unseen_steps: float = 400,
        follow_turn: bool = True,
        model: DDPvMFMeans | None = None,
        max_history: int = 10_000,
        n_threads: int | None = None,
    ) -> None:
        who = self._who = type(self).__name__
        self._estimation = NormalEstimation.check(who, camera, smoothing, window, max_depth_jump, n_threads)
        self._stride = check_integer(stride, "stride", who, low=1)
        self._min_region = check_integer(min_region, "min_region", who, low=0, hint="0 cleans nothing.")
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
            self._drift_per_pixel = _DRIFT_PER_PIXEL * (_FIRMER if follow_turn else 1.0)
        self._tracker: Tracker
        if method == "ddp":
            self._tracker = DDPTracker(
                model
                or DDPvMFMeans(
                    max_angle,
                    drift_concentration=1.0 if drift_concentration is None else drift_concentration,
                    max_unseen_steps=max_unseen_steps,
                    n_threads=n_threads,
                ),
                follows_turn=bool(follow_turn),
            )
        else:
            kind = SequentialTracker if method == "sequential" else BatchTracker
            self._tracker = kind(DPvMFMeans(max_angle, n_threads=n_threads))
        most = check_integer(max_history, "max_history", who, low=0)
        self.history: deque[Mapping[int, float]] = deque(maxlen=most)
        self.n_frames = 0
        self._size: tuple[int, ...] | None = None

    @property
    def model(self) -> DDPvMFMeans | DPvMFMeans:
        """The estimator inside."""
        return self._tracker.model

    def step(self, frame: Any, *, rotation: ArrayLike | None = None) -> SegmentedFrame:
        """Segment the next frame: depth (H, W), normals (H, W, 3) or `Normals`, of one size throughout.

        `rotation` (3, 3) is what turned the view since the last frame, where it is known: a remembered direction m
        becomes rotation @ m first, and nothing is estimated. Only method "ddp" makes use of it.

        After an error the segmenter is as it was before the frame.
        """
        watch = Stopwatch()
        self._check_size(frame)
        normals = self._estimation.normals(frame, watch)
        with watch.stage("clustering"):
            labels = self._labels(normals, rotation)
        with watch.stage("labels"):
            image = paint(normals, labels)
            if self._min_region > 1:
                image = clean_regions(image, self._min_region)
            found = self._described(image, normals, watch)
        self._size = image.shape
        self.history.append(found.shares)
        self.n_frames += 1
        return found

    def _labels(self, normals: Normals, rotation: ArrayLike | None) -> Any:
        """Ids of the valid pixels (n,)."""
        step = self._stride
        self._set_drift(normals.is_valid[::step, ::step].size)
        ids = self._tracker.step(normals.rows(step), rotation)
        if step == 1:
            return ids
        rows = normals.rows()
        return self._tracker.name(rows) if len(rows) else ids[:0]

    def _set_drift(self, n_pixels: int) -> None:
        if self._drift_per_pixel is not None and isinstance(self.model, DDPvMFMeans):
            self.model.set_params(drift_concentration=max(1.0, n_pixels * self._drift_per_pixel))

    def _described(self, image: LabelImage, normals: Normals, watch: Stopwatch) -> SegmentedFrame:
        counts = np.bincount(image.ravel() + 1)[1:]  # -1 comes first
        present = np.flatnonzero(counts)
        shares = counts[present] / max(1, counts.sum())
        known, found = self._tracker.clusters()
        directions = np.zeros((len(present), 3))
        has_direction = np.isin(present, known)
        directions[has_direction] = found[np.searchsorted(known, present[has_direction])]
        lives = self._tracker.lives()
        return SegmentedFrame(
            number=self.n_frames,
            labels=image,
            normals=normals,
            ids=tuple(present.tolist()),
            shares=dict(zip(present.tolist(), shares.tolist(), strict=True)),
            directions=directions,
            births=lives.births,
            revivals=lives.revivals,
            deaths=lives.deaths,
            rotation=self._tracker.rotation,
            milliseconds=watch.milliseconds,
        )

    def _check_size(self, frame: Any) -> None:
        size = np.shape(frame.is_valid if isinstance(frame, Normals) else frame)[:2]
        if self._size is not None and size != self._size and len(size) == 2:
            raise InputError(
                f"Frames of a {self._who} must keep their size; frame {self.n_frames} has {_pixels(size)} pixels after "
                f"{_pixels(self._size)}. Scale it, or start a new {self._who}."
            )


def _pixels(size: tuple[int, ...]) -> str:
    return f"{size[1]} x {size[0]}"
