"""Edge-preserving smoothing, of depth before normals are taken or of the normals after.

Depth is smoothed as inverse depth, where planes are affine and the noise of a triangulating sensor is the same at every
distance. Pixels without a measurement, and normals that are not valid, are seen by nobody and stay as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armillary._typing import FloatArray
from armillary.exceptions import InputError, InputTypeError
from armillary.kernels.images import reference as reference_depth
from armillary.validation import check_angle, check_choice, check_integer, check_number
from armillary.vision._bands import BAND, over_rows
from armillary.vision.camera import FARTHEST, NEAREST, Camera, check_camera
from armillary.vision.sensors import Sensor
from armillary.workers import Workers, thread_count

SMOOTHINGS = ("guided", "bilateral", "total_variation")
GUIDED_RADIUS, GUIDED_EDGE = 4, 0.003
_METHODS = ("bilateral", "total_variation")
# of the noise that is measured in an image: side of the blocks, error of a normal that is aimed at (radians), most
_BLOCK, _WANTED, _MOST_RADIUS = 6, 0.06, 16
# A square cut in halves by a step of four times the noise leaves twice what noise leaves. With an edge of 2 and
# residuals counted from 0 planes bridged such steps by slanted bands, and a wall behind a board had two ids.
_EDGE_IN_NOISE = 1.5
_DOUBTFUL = math.radians(25.0)


# To either side: more than any image has.
_MOST_PIXELS = 1 << 16


def smooth_depth(
    depth: Any,
    camera: Camera,
    *,
    radius: int | None = None,
    edge: float | None = None,
    n_threads: int | None = None,
) -> FloatArray:
    """Depth in metres, smoothed by a guided filter that keeps planes as they are.

    A plane is fitted to the inverse depth in the square around each 2 x 2 pixels, and every pixel takes a mean of the
    planes of the squares it is in. Squares that hold an edge fit badly: they count little, and leave pixels as they
    are. It is the guided filter of He, Sun and Tang (2010) with the image as its own guide and two changes: a plane in
    place of the local mean, which would bend planes at borders and beside holes, and weights that fall faster with
    the residual. Box sums make the cost of a pixel nearly independent of the radius.

    Parameters
    ----------
    depth : array of shape (H, W)
        Integers in units of the camera or floats in metres, as in `Camera.metres`.
    camera : Camera
    radius : int or None, default=None
        Squares reach this many pairs of pixels to either side: their side is 4 radius + 2 pixels. None measures the
        noise of the image and takes what makes normals of planes far away good to 3.5 degrees, from 4 to 16: noise that
        hangs together, as that of stereo cameras and of disparity in steps, needs wide squares.
    edge : float or None, default=None
        Residual of a plane, in 1/metres, from which on detail is kept rather than smoothed. None takes 1.5 times the
        noise of the inverse depth that is measured, at least 0.003, beyond that noise: of what a plane leaves, noise is
        no detail. For a Kinect it is 0.0015. At 2 m, 0.003 is 12 mm.
    n_threads : int or None
        None takes every core. The result does not depend on it.

    Returns
    -------
    array of shape (H, W)
        Metres, float32 (float64 for float64 depth); 0 where nothing was measured.

    Examples
    --------
    >>> from armillary.vision import make_room_walk, smooth_depth
    >>> walk = make_room_walk(3, width=64, height=48, random_state=0)
    >>> smooth_depth(walk.depths[0], walk.camera).shape
    (48, 64)
    """
    who = "smooth_depth"
    if radius is not None:
        check_integer(radius, "radius", who, low=1, high=_MOST_PIXELS)
    if edge is not None:
        check_number(edge, "edge", who, low=1e-6, hint="It is an inverse depth, in 1/metres.")
    with Workers(thread_count(n_threads, who)) as workers:
        w = smoothed(inverse_depth(depth, camera, who, workers), camera, radius, edge, workers)
        return depth_of(w, workers)


def smooth_normals(
    normals: Any,
    is_valid: Any,
    *,
    method: str = "bilateral",
    radius: int = 5,
    max_angle: float = math.radians(45.0),
    strength: float = 0.4,
    max_iter: int = 30,
    n_threads: int | None = None,
) -> npt.NDArray[np.float32]:
    """Smooth an image of unit normals; they stay unit, and creases stay sharp.

    Parameters
    ----------
    normals : array of shape (H, W, 3)
        Unit vectors at valid pixels; what stands elsewhere is not looked at.
    is_valid : bool array of shape (H, W)
    method : {"bilateral", "total_variation"}
        "bilateral": the normalised mean of the normals around, with weights exp(-d^2 / 2 s^2) for d pixels,
        s = radius / 1.5, times (1 - c^2 / c_max^2)^2 for a chord c between two normals, 0 beyond that of `max_angle`.
        "total_variation": the minimiser x of 1/2 |x - normals|^2 + strength sum |grad x| over images of vectors, made
        unit again (Rudin, Osher and Fatemi 1992, relaxed: the sphere is left and projected to). Differences across
        invalid pixels do not count.
    radius : int, default=5
        Of "bilateral", in pixels.
    max_angle : float, default=45 degrees
        Of "bilateral", in radians, at most pi/2: normals further apart do not see each other.
    strength : float, default=0.4
        Of "total_variation".
    max_iter : int, default=30
        Steps of "total_variation": accelerated steps on the dual (Beck and Teboulle 2009).
    n_threads : int or None
        None takes every core. The result does not depend on it.

    Returns
    -------
    float32 array of shape (H, W, 3)
        Unit at valid pixels, zeros elsewhere.

    Examples
    --------
    >>> from armillary.vision import estimate_normals, make_room_walk, smooth_normals
    >>> walk = make_room_walk(3, width=64, height=48, random_state=0)
    >>> normals = estimate_normals(walk.depths[0], walk.camera)
    >>> smooth_normals(normals.vectors, normals.is_valid).shape
    (48, 64, 3)
    """
    who = "smooth_normals"
    check_choice(method, "method", who, _METHODS)
    check_integer(radius, "radius", who, low=1, high=_MOST_PIXELS)
    check_angle(max_angle, "max_angle", who)
    check_number(strength, "strength", who, low=1e-6, high=1e6)
    check_integer(max_iter, "max_iter", who, low=1)
    vectors, mask = _check_normals(normals, is_valid, who)
    with Workers(thread_count(n_threads, who)) as workers:
        if method == "bilateral":
            return _bilateral(vectors, mask, radius, min(max_angle, 0.5 * math.pi), workers)
        return _total_variation(vectors, mask, strength, max_iter, workers)


# ------------------------------------------------------------------------------------- passes over an image


def inverse_depth(depth: Any, camera: Camera, who: str, workers: Workers) -> FloatArray:
    """1/z (H, W) in 1/metres, 0 where nothing was measured; float64 for float64 depth, else float32."""
    from armillary.kernels.images import depth as kernels  # numba loads when first needed

    image = check_camera(camera, who).check_depth(depth, who)
    if image.dtype not in (np.uint16, np.float32, np.float64):  # one compiled kernel for each of these
        image = image.astype(np.float32 if image.dtype.itemsize <= 2 else np.float64)
    image = np.ascontiguousarray(image)
    w = np.empty(image.shape, dtype=np.float64 if image.dtype == np.float64 else np.float32)
    scale = camera.depth_scale if np.asarray(depth).dtype.kind in "ui" else 1.0
    over_rows(
        workers, len(w), lambda start, stop: kernels.inverse_depth(image, scale, NEAREST, FARTHEST, start, stop, w)
    )
    return w


def depth_of(w: FloatArray, workers: Workers) -> FloatArray:
    """The reverse."""
    from armillary.kernels.images import depth as kernels

    depth = np.empty_like(w)
    over_rows(workers, len(w), lambda start, stop: kernels.depth_of(w, start, stop, depth))
    return depth


class TrustedDepth(NamedTuple):
    """Metres beyond which normals are not to be trusted."""

    by_range: float
    by_steps: float


EVERYWHERE = TrustedDepth(math.inf, math.inf)


def smoothed(w: FloatArray, camera: Camera, radius: int | None, edge: float | None, workers: Workers) -> FloatArray:
    """The guided filter on inverse depth (H, W), with settings from its noise where they are not given."""
    if radius is not None and edge is not None:
        return guided(w, radius, edge, 0.0, workers)
    found = Noise.of(w).settings(0.5 * (camera.fx + camera.fy))
    wide = found.radius if radius is None else radius
    if edge is not None:
        return guided(w, wide, edge, 0.0, workers)
    return guided(w, wide, found.edge, found.noise, workers)


class Settings(NamedTuple):
    """Of the guided filter."""

    radius: int  # pairs of pixels
    edge: float  # residual of a plane beyond noise from which on detail is kept, 1/metres
    noise: float  # of a pixel, 1/metres


@dataclass(frozen=True)
class Noise:
    """Of an inverse depth image, in 1/metres."""

    pixel: float  # standard deviation of a pixel
    white: float  # of a pixel of white noise that disturbs slopes as much: noise that hangs together disturbs more
    far: float  # metres, a depth that three quarters of the pixels do not reach

    @classmethod
    def of(cls, w: FloatArray, workers: Workers | None = None) -> Noise:
        """From second differences, which planes do not have; of these the small ones, since edges have large ones."""
        from armillary.kernels.images import depth as kernels

        means = np.empty((len(w) // (2 * _BLOCK), w.shape[1] // _BLOCK))

        def deviation(number: int) -> float:
            if number:
                return _small_second_difference(w[:: _BLOCK + 2, ::_BLOCK])
            kernels.block_means(w, _BLOCK, means)
            return _BLOCK * _small_second_difference(means)

        found: list[float] = []
        (workers or Workers(1)).run(deviation, 2, found.append)
        white, pixel = found
        seen = means[means > 0.0]
        quarter = len(seen) // 4
        return cls(pixel, white, 1.0 / float(np.partition(seen, quarter)[quarter]) if len(seen) else 1.0)

    def trusted_depth(self, focal: float, radius: int, sensor: Sensor | None = None) -> TrustedDepth:
        """How far normals can be trusted after smoothing with this radius: until they are off by `_DOUBTFUL`.

        A sensor says more: its range, and its steps where noise does not hide them. A square that sees one step only
        takes any slope below quantum / side for none.
        """
        side = 4.0 * radius + 2.0
        by_noise = _DOUBTFUL * side**2 / (math.sqrt(12.0) * focal * max(self.white, 1e-12))
        if sensor is None:
            return TrustedDepth(by_noise, math.inf)
        is_banded = sensor.quantum > 0.0 and self.pixel < 0.25 * sensor.quantum
        by_steps = _DOUBTFUL * side / (focal * sensor.quantum) if is_banded else math.inf
        return TrustedDepth(min(by_noise, sensor.far), by_steps)

    def settings(self, focal: float) -> Settings:
        """With which the slopes of planes far away are off by `_WANTED` at most."""
        # slopes of n x n pixels of white noise are off by sqrt(12) s / n^2, and normals by that times f z
        side = math.sqrt(math.sqrt(12.0) * self.white * focal * self.far / _WANTED)
        radius = min(_MOST_RADIUS, max(GUIDED_RADIUS, math.ceil((side - 2.0) / 4.0)))
        return Settings(radius, max(GUIDED_EDGE, _EDGE_IN_NOISE * self.pixel), self.pixel)


def _small_second_difference(image: FloatArray) -> float:
    """The standard deviation of noise whose second differences along rows have a lesser half as large as those here."""
    image = np.ascontiguousarray(image)  # of far-apart pixels each look at one costs a line of the cache
    one, middle, other = image[:, :-2], image[:, 1:-1], image[:, 2:]
    values = np.abs(one - 2.0 * middle + other)[(one > 0.0) & (middle > 0.0) & (other > 0.0)]
    half = len(values) // 2
    # a normal x of variance 6 has |x| = 0.3246 sqrt(6) in the mean of those below the median
    return float(np.partition(values, half)[:half].mean()) / (0.3246 * math.sqrt(6.0)) if half else 0.0


def guided(w: FloatArray, radius: int, edge: float, noise: float, workers: Workers) -> FloatArray:
    """The guided filter on inverse depth (H, W); `noise` is what planes leave anyway."""
    from armillary.kernels.images import guided as kernels
    from armillary.kernels.images.lanes import padded

    n_rows, n_columns = (len(w) + 1) // 2, (w.shape[1] + 1) // 2
    x, least = 2.0 * np.arange(n_columns) - 0.5 * (w.shape[1] - 1), reference_depth.least_determinant(radius)
    radius = min(radius, max(n_rows, n_columns))  # no square is larger than the image
    margin = padded(radius)
    proposed = np.empty((n_rows + 1, kernels.N_PROPOSED, padded(n_columns) + 2 * margin), dtype=w.dtype)
    proposed[-1] = 0.0  # below the image
    smooth = np.empty_like(w)

    def propose(start: int, stop: int) -> None:
        kernels.propose_planes(w, x, radius, edge, noise, least, start, stop, margin, proposed)

    def accept(start: int, stop: int) -> None:
        kernels.accept_planes(w, x, radius, proposed, start, stop, margin, smooth)

    for work in (propose, accept):
        over_rows(workers, n_rows, work, BAND // 2)
    return smooth


def _planar(vectors: npt.NDArray[np.float32], is_valid: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
    """(3, H, W), zeros at invalid pixels."""
    return np.ascontiguousarray(np.moveaxis(vectors, -1, 0)) * is_valid


def _bilateral(
    vectors: npt.NDArray[np.float32], is_valid: npt.NDArray[np.bool_], radius: int, max_angle: float, workers: Workers
) -> npt.NDArray[np.float32]:
    from armillary.kernels.images import normal_smoothing as kernels

    image, smooth = _planar(vectors, is_valid), np.empty_like(vectors)
    place = np.square(np.arange(-radius, radius + 1))
    factors = np.exp(-np.add.outer(place, place) / (2.0 * (radius / 1.5) ** 2))
    inverse_chord = 1.0 / (2.0 - 2.0 * math.cos(max_angle))

    def work(start: int, stop: int) -> None:
        kernels.bilateral(image, is_valid, factors, inverse_chord, start, stop, smooth)

    over_rows(workers, len(vectors), work)
    return smooth


def _total_variation(
    vectors: npt.NDArray[np.float32], is_valid: npt.NDArray[np.bool_], strength: float, max_iter: int, workers: Workers
) -> npt.NDArray[np.float32]:
    from armillary.kernels.images import normal_smoothing as kernels

    image, smooth = _planar(vectors, is_valid), np.empty_like(vectors)
    links = np.zeros((2, *is_valid.shape), dtype=np.float32)
    links[0, :, :-1] = is_valid[:, :-1] & is_valid[:, 1:]
    links[1, :-1] = is_valid[:-1] & is_valid[1:]
    leading, dual, next_leading, next_dual = (np.zeros((2, *image.shape), dtype=np.float32) for _ in range(4))
    momentum = 1.0
    for _ in range(max_iter):
        faster = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum**2))
        pace = (momentum - 1.0) / faster

        def step(
            start: int, stop: int, pace: float = pace, arrays: Any = (leading, dual, next_leading, next_dual)
        ) -> None:
            kernels.step_dual(image, links, strength, pace, *arrays, start, stop)

        over_rows(workers, len(is_valid), step)
        leading, dual, next_leading, next_dual, momentum = next_leading, next_dual, leading, dual, faster

    def finish(start: int, stop: int) -> None:
        kernels.primal(image, is_valid, dual, strength, start, stop, smooth)

    over_rows(workers, len(is_valid), finish)
    return smooth


def _check_normals(normals: Any, is_valid: Any, who: str) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Normals as float32 (H, W, 3) and their mask (H, W); valid ones must be unit."""
    vectors, mask = np.asarray(normals), np.asarray(is_valid)
    if vectors.dtype.kind != "f":
        raise InputTypeError(
            f"`normals` of {who} must be floats; got dtype {vectors.dtype}. Give the `vectors` of estimate_normals."
        )
    if vectors.ndim != 3 or vectors.shape[2] != 3:
        raise InputError(
            f"`normals` of {who} must be an image of vectors, shape (height, width, 3); got {vectors.shape}. "
            "Give the `vectors` of estimate_normals, not its rows()."
        )
    if mask.dtype != np.bool_ or mask.shape != vectors.shape[:2]:
        raise InputError(
            f"`is_valid` of {who} must be booleans of shape {vectors.shape[:2]}, one for each normal; got "
            f"{mask.dtype} of shape {mask.shape}. Give the `is_valid` of estimate_normals."
        )
    kept = np.where(mask[..., None], vectors, 0.0).astype(np.float32)
    is_off = mask & ~(np.abs(np.square(kept).sum(axis=-1) - 1.0) <= 1e-4)
    if is_off.any():
        v, u = np.argwhere(is_off)[0]
        raise InputError(
            f"`normals` of {who} must be unit vectors where `is_valid` is true; at row {v}, column {u} the norm is "
            f"{float(np.linalg.norm(kept[v, u])):.6g}. Divide by the norms, or mark the pixel as not valid."
        )
    return kept, mask
