"""A scene segmented by direction: the normals of an image to a model, its labels back to the image."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from armillary._typing import FloatArray
from armillary.exceptions import InputError, ParameterError
from armillary.validation import check_choice, check_integer, check_positive
from armillary.vision.camera import Camera
from armillary.vision.normals import Normals, check_window, estimate_normals, normals_of
from armillary.vision.regions import LabelImage, clean_regions
from armillary.vision.smoothing import (
    EVERYWHERE,
    SMOOTHINGS,
    Noise,
    TrustedDepth,
    depth_of,
    guided,
    inverse_depth,
    smooth_depth,
    smooth_normals,
)
from armillary.workers import Workers


def segment(
    image: Any,
    model: Any,
    *,
    camera: Camera | None = None,
    smoothing: str | None = "guided",
    window: int = 9,
    max_depth_jump: float = 0.03,
    min_region: int = 0,
    n_threads: int | None = None,
) -> LabelImage:
    """Label every pixel of a depth image, or of an image of normals, by the direction of its surface.

    A model that is fitted predicts and learns nothing; one that is not is fitted to this image.

    Parameters
    ----------
    image : (H, W) depth, (H, W, 3) normals, or Normals
        Depth as `estimate_normals` takes it. Of given normals those that are zero or not finite are missing.
    model : estimator
        Any with `predict`, or `fit_predict` where it is not fitted: those of Armillary, and others.
    camera : Camera, optional
        Needed for depth.
    smoothing, window, max_depth_jump
        As in `estimate_normals`; normals that are given are taken as they are.
    min_region : int, default=0
        Regions of fewer pixels go to their surroundings, see `clean_regions`. 0 cleans nothing.
    n_threads : int or None, default=None
        Threads for the normals; None takes every core. The result does not depend on it.

    Returns
    -------
    labels : (H, W) array, int32
        The model's labels; -1 where there is no normal, or where the model said -1.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary import DPvMFMeans
    >>> normals = np.zeros((2, 3, 3))
    >>> normals[0] = [0, 0, -1]
    >>> normals[1, :2] = [0, -1, 0]  # the last pixel is missing
    >>> segment(normals, DPvMFMeans(0.5))
    array([[ 0,  0,  0],
           [ 1,  1, -1]], dtype=int32)
    """
    who = "segment"
    estimation = NormalEstimation.check(who, camera, smoothing, window, max_depth_jump, n_threads)
    least = check_integer(min_region, "min_region", who, low=0, hint="It is a number of pixels; 0 cleans nothing.")
    normals = estimation.normals(image)
    labels = paint(normals, _labels(normals.rows(), model, who))
    return clean_regions(labels, least)


def paint(normals: Normals, labels: Any) -> LabelImage:
    """Labels of the valid pixels (n,) as an image (H, W), -1 elsewhere."""
    return normals.image_of(np.asarray(labels).astype(np.int32, copy=False))


def _labels(rows: FloatArray, model: Any, who: str) -> Any:
    is_fitted = _is_fitted(model, who)
    if len(rows) == 0:
        if is_fitted:
            return np.empty(0, dtype=np.int32)
        raise InputError(
            f"{who} fits {type(model).__name__} to the image, which has no pixel with a normal. Check the depth and "
            "`max_depth_jump`, or give a model that is fitted."
        )
    return model.predict(rows) if is_fitted else model.fit_predict(rows)


def _is_fitted(model: Any, who: str) -> bool:
    """Whether the model is to predict; otherwise it can be fitted."""
    try:
        check_is_fitted(model)
        is_fitted = hasattr(model, "predict")
    except (NotFittedError, TypeError):
        is_fitted = False
    if is_fitted or hasattr(model, "fit_predict"):
        return is_fitted
    raise ParameterError(
        f"`model` of {who} must be an estimator with `fit_predict`, or a fitted one with `predict`; got "
        f"{type(model).__name__}. Give e.g. armillary.DPvMFMeans(math.radians(80))."
    )


# ------------------------------------------------------------------------------------------------- images to normals


@dataclass
class Stopwatch:
    """Milliseconds by stage; a stage that comes twice adds up."""

    milliseconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what is inside."""
        start = time.perf_counter()
        yield
        self.milliseconds[name] = self.milliseconds.get(name, 0.0) + 1e3 * (time.perf_counter() - start)


@dataclass(frozen=True, eq=False)
class Scene:
    """Normals of an image, and what they were taken from."""

    normals: Normals
    depth: FloatArray | None = None  # (H, W) metres, smoothed where that was asked for; None where normals were given
    trusted: TrustedDepth = EVERYWHERE


@dataclass(frozen=True)
class NormalEstimation:
    """How images become normals; checked settings."""

    who: str
    camera: Camera | None
    smoothing: str | None
    window: int
    max_depth_jump: float
    n_threads: int | None

    @classmethod
    def check(
        cls,
        who: str,
        camera: Camera | None,
        smoothing: str | None,
        window: int,
        max_depth_jump: float,
        n_threads: int | None,
    ) -> NormalEstimation:
        """The settings, or an error that names the wrong one; `estimate_normals` checks those that are its own."""
        if camera is not None and not isinstance(camera, Camera):
            raise ParameterError(
                f"`camera` of {who} must be a Camera; got {type(camera).__name__}. Make one: Camera(fx, fy, cx, cy, "
                "width, height), Camera.tum() or Camera.kinect()."
            )
        if smoothing is not None:
            check_choice(smoothing, "smoothing", who, SMOOTHINGS, hint="None smooths nothing.")
        return cls(who, camera, smoothing, window, max_depth_jump, n_threads)

    def normals(self, image: Any, watch: Stopwatch | None = None) -> Normals:
        """Normals of a depth image (H, W), or the normals given, those that are no direction masked."""
        if isinstance(image, Normals):
            return image
        pixels = np.asarray(np.ma.filled(image, 0))
        if pixels.size == 0:
            raise InputError(f"{self.who} needs an image with pixels; got one of shape {pixels.shape}.")
        if pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.dtype.kind == "f":
            return _given(pixels)
        return self._estimated(pixels, watch or Stopwatch())

    def scene(self, image: Any, watch: Stopwatch, workers: Workers) -> Scene:
        """Normals with what they were taken from."""
        if isinstance(image, Normals) or np.ndim(image) == 3:
            return Scene(self.normals(image, watch))
        if self.smoothing != "guided" or self.camera is None:
            normals = self.normals(image, watch)
            assert self.camera is not None  # else normals were refused
            return Scene(normals, self.camera.metres(image, self.who))
        self.camera.check_depth(image, self.who)
        half = check_window(self.window, "estimate_normals")
        check_positive(self.max_depth_jump, "max_depth_jump", "estimate_normals")
        with watch.stage("smoothing"):
            w = inverse_depth(image, self.camera, self.who, workers)
            noise = Noise.of(w, workers)
            focal = 0.5 * (self.camera.fx + self.camera.fy)
            settings = noise.settings(focal)
            w = guided(w, *settings, workers)
            depth = depth_of(w, workers)
        with watch.stage("normals"):
            normals = normals_of(w, self.camera, half, self.max_depth_jump, workers)
        return Scene(normals, depth, noise.trusted_depth(focal, settings.radius, self.camera.sensor))

    def _estimated(self, depth: Any, watch: Stopwatch) -> Normals:
        if self.camera is None:
            raise ParameterError(
                f"{self.who} needs a camera for depth, an image of shape {depth.shape}; `camera` is None. Give "
                "Camera(fx, fy, cx, cy, width, height), or float normals of shape (H, W, 3)."
            )
        # the same as estimate_normals(smoothing=...) in one call; in steps, each can be timed
        depth = self.camera.check_depth(depth, self.who)
        if self.smoothing == "guided":
            with watch.stage("smoothing"):
                depth = smooth_depth(depth, self.camera, n_threads=self.n_threads)
        normals = self._of_smooth(depth, watch)
        if self.smoothing in (None, "guided"):
            return normals
        with watch.stage("smoothing"):
            smoothed = smooth_normals(
                normals.vectors, normals.is_valid, method=self.smoothing, n_threads=self.n_threads
            )
        return Normals(smoothed, normals.is_valid)

    def _of_smooth(self, depth: Any, watch: Stopwatch) -> Normals:
        assert self.camera is not None
        with watch.stage("normals"):
            return estimate_normals(
                depth,
                self.camera,
                window=self.window,
                max_depth_jump=self.max_depth_jump,
                smoothing=None,
                n_threads=self.n_threads,
            )


def _given(vectors: FloatArray) -> Normals:
    """Normals from another source: zeros, NaN and inf are missing."""
    largest = np.abs(vectors).max(axis=2)
    is_valid = np.isfinite(largest) & (largest > 0.0)
    scale = np.where(is_valid, largest, 1.0)  # no norm overflows
    safe = np.where(is_valid[:, :, None], vectors, 0.0) / scale[:, :, None]
    norms = np.linalg.norm(safe, axis=2)
    return Normals((safe / np.where(is_valid, norms, 1.0)[:, :, None]).astype(np.float32), is_valid)
