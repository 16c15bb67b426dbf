"""Edge-preserving smoothing, of depth before normals are taken or of the normals after.

Depth is smoothed as inverse depth, where planes are affine and the noise of a triangulating sensor is the same at every
distance. Pixels without a measurement, and normals that are not valid, are seen by nobody and stay as they are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import FloatArray
from armillary.exceptions import InputError, InputTypeError
from armillary.fitting.workers import Workers, thread_count
from armillary.kernels import reference_depth
from armillary.validation import check_angle, check_choice, check_integer, check_number
from armillary.vision._bands import BAND, over_rows
from armillary.vision.camera import FARTHEST, NEAREST, Camera, check_camera

SMOOTHINGS = ("guided", "bilateral", "total_variation")
GUIDED_RADIUS, GUIDED_EDGE = 4, 0.003
_METHODS = ("bilateral", "total_variation")


# To either side: more than any image has.
_MOST_PIXELS = 1 << 16


def smooth_depth(
    depth: Any,
    camera: Camera,
    *,
    radius: int = GUIDED_RADIUS,
    edge: float = GUIDED_EDGE,
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
    radius : int, default=4
        Squares reach this many pairs of pixels to either side: their side is 4 radius + 2 pixels.
    edge : float, default=0.003
        Residual of a plane, in 1/metres, from which on detail is kept rather than smoothed: about twice the noise of
        the inverse depth, which is 0.0015 for a Kinect. At 2 m, 0.003 is 12 mm.
    n_threads : int or None
        None takes every core. The result does not depend on it.

    Returns
    -------
    array of shape (H, W)
        Metres, float32 (float64 for float64 depth); 0 where nothing was measured.
    """
    who = "smooth_depth"
    check_integer(radius, "radius", who, low=1, high=_MOST_PIXELS)
    check_number(edge, "edge", who, low=1e-6, hint="It is an inverse depth, in 1/metres.")
    with Workers(thread_count(n_threads, who)) as workers:
        w = guided(inverse_depth(depth, camera, who, workers), radius, edge, workers)
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
    from armillary.kernels.cpu import depth as kernels  # numba loads when first needed

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
    from armillary.kernels.cpu import depth as kernels

    depth = np.empty_like(w)
    over_rows(workers, len(w), lambda start, stop: kernels.depth_of(w, start, stop, depth))
    return depth


def guided(w: FloatArray, radius: int, edge: float, workers: Workers) -> FloatArray:
    """The guided filter on inverse depth (H, W)."""
    from armillary.kernels.cpu import guided as kernels

    n_rows, n_columns = (len(w) + 1) // 2, (w.shape[1] + 1) // 2
    proposed, smooth = np.empty((n_rows, kernels.N_PROPOSED, n_columns), dtype=w.dtype), np.empty_like(w)
    x, least = 2.0 * np.arange(n_columns) - 0.5 * (w.shape[1] - 1), reference_depth.least_determinant(radius)

    def propose(start: int, stop: int) -> None:
        kernels.propose_planes(w, x, radius, edge, least, start, stop, proposed)

    def accept(start: int, stop: int) -> None:
        kernels.accept_planes(w, x, radius, proposed, start, stop, smooth)

    for work in (propose, accept):
        over_rows(workers, n_rows, work, BAND // 2)
    return smooth


def _planar(vectors: npt.NDArray[np.float32], is_valid: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
    """(3, H, W), zeros at invalid pixels."""
    return np.ascontiguousarray(np.moveaxis(vectors, -1, 0)) * is_valid


def _bilateral(
    vectors: npt.NDArray[np.float32], is_valid: npt.NDArray[np.bool_], radius: int, max_angle: float, workers: Workers
) -> npt.NDArray[np.float32]:
    from armillary.kernels.cpu import normal_smoothing as kernels

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
    from armillary.kernels.cpu import normal_smoothing as kernels

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
