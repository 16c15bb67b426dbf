"""Surface normals of a depth image.

Tangents of the surface are averaged over a window and their cross product is the normal, the method of Holz, Holzer and
Rusu (2011). Here slopes are averaged in inverse depth, where a plane is affine in the pixel: in a whole window they are
those of the least-squares plane, in a window cut by holes and depth jumps they are exact on planes all the same, at any
slant. It is also where the noise of a triangulating sensor, which grows with the square of the depth, is the same
everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.exceptions import InputError, ParameterError
from armillary.validation import check_choice, check_integer, check_positive
from armillary.vision._bands import over_rows
from armillary.vision.camera import Camera
from armillary.vision.smoothing import (
    SMOOTHINGS,
    inverse_depth,
    smooth_normals,
    smoothed,
)
from armillary.workers import Workers, thread_count


@dataclass(frozen=True, eq=False)
class Normals:
    """Unit normals of an image, and where there are any.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.vision import Normals
    >>> normals = Normals(np.tile(np.float32([0, 0, -1]), (1, 3, 1)), np.array([[True, False, True]]))
    >>> normals.image_of([4, 7]).tolist()
    [[4, -1, 7]]
    """

    vectors: npt.NDArray[np.float32]  # (H, W, 3) unit, towards the camera; zeros where there is none
    is_valid: npt.NDArray[np.bool_]  # (H, W)

    def __post_init__(self) -> None:
        # compiled code walks over both by the shape of one
        vectors, is_valid = np.asarray(self.vectors), np.asarray(self.is_valid)
        is_right = vectors.dtype.kind == "f" and is_valid.dtype == np.bool_ and is_valid.ndim == 2
        if not is_right or vectors.shape != (*is_valid.shape, 3):
            raise InputError(
                f"Normals must be float vectors of shape (H, W, 3) and bools of shape (H, W); got {vectors.dtype} of "
                f"shape {vectors.shape} and {is_valid.dtype} of shape {is_valid.shape}. Give what `estimate_normals` "
                "returns, or an array of vectors."
            )
        if vectors.dtype not in (np.float32, np.float64):  # what is compiled knows these
            vectors = vectors.astype(np.float32)
        object.__setattr__(self, "vectors", vectors)
        object.__setattr__(self, "is_valid", is_valid)

    def rows(self, step: int = 1) -> npt.NDArray[np.float32]:
        """The normals of the valid pixels, row by row, as a contiguous array (n, 3).

        `step` takes every `step`-th pixel of every `step`-th row only.

        Parameters
        ----------
        step : int, default=1

        Returns
        -------
        array of shape (n, 3), float32
            Unit.
        """
        from armillary.kernels.images import depth as kernels  # numba loads when first needed

        step = check_integer(step, "step", "Normals.rows", low=1)
        vectors, is_valid = self.vectors[::step, ::step], self.is_valid[::step, ::step]
        n_rows = int(np.count_nonzero(is_valid))
        rows = np.empty((n_rows + 1, 3), dtype=np.float32)  # the kernel needs room for one more
        kernels.take_rows(vectors, is_valid, rows)
        return rows[:n_rows]

    def image_of(self, values: Any, missing: Any = -1) -> npt.NDArray[Any]:
        """An image (H, W) of one value for each of `rows()`, with `missing` elsewhere.

        Parameters
        ----------
        values : array of shape (n,)
        missing : number, default=-1

        Returns
        -------
        array of shape (H, W)
            Of the dtype of the values.
        """
        from armillary.kernels.images import depth as kernels

        found, n_rows = np.asarray(values), int(np.count_nonzero(self.is_valid))
        if found.shape != (n_rows,):
            raise InputError(
                f"`values` of Normals.image_of must be one for each of the {n_rows} valid pixels; got shape "
                f"{found.shape}. Give what a model said of rows()."
            )
        blank = _fitting(missing, found.dtype)
        image = np.empty(self.is_valid.shape, dtype=found.dtype)
        kernels.put_rows(found, self.is_valid, blank, image)
        return image


def _fitting(missing: Any, dtype: np.dtype[Any]) -> Any:
    """`missing` as a value of `dtype`, unchanged."""
    try:
        value = dtype.type(missing)
    except (OverflowError, TypeError, ValueError):
        value = None
    if value is None or not (value == missing or (dtype.kind == "f" and np.isnan(value))):
        raise ParameterError(
            f"`missing` of Normals.image_of must fit values of {dtype}; got {missing!r}. Give another, or the values "
            "as another type."
        )
    return value


def estimate_normals(
    depth: Any,
    camera: Camera,
    *,
    window: int = 9,
    max_depth_jump: float = 0.03,
    smoothing: str | None = "guided",
    n_threads: int | None = None,
) -> Normals:
    """Unit normals of the surfaces in a depth image, turned towards the camera.

    Exact on planes, to rounding; on a surface with radius of curvature R the error is of the order of (h / R)^2, h half
    the width of the window on the surface, since windows are symmetric about their pixel. A pixel has a normal where
    it and its four neighbours were measured and no depth jump lies between: the border of the image, the rims of holes
    and both sides of a jump have none.

    Parameters
    ----------
    depth : array of shape (H, W)
        Integers in units of the camera or floats in metres, as in `Camera.metres`; 0, negative numbers, NaN and
        infinities are pixels without measurement.
    camera : Camera
    window : int, default=9
        Side of the window in pixels, odd. It ends where a jump or a hole begins, on both sides alike.
    max_depth_jump : float, default=0.03
        Neighbours whose depths differ by more than this share of the lesser lie on different surfaces.
    smoothing : {"guided", "bilateral", "total_variation"} or None, default="guided"
        "guided" smooths the depth before (`smooth_depth`), the others the normals after (`smooth_normals`), all with
        their default settings; call these functions for others. None smooths nothing.
    n_threads : int or None
        None takes every core. The result does not depend on it.

    Returns
    -------
    Normals
        `vectors` (H, W, 3) float32, zeros where there is no normal, and `is_valid` (H, W). An image without any
        measurement has no normals, which is not an error.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.vision import Camera, estimate_normals
    >>> camera = Camera.kinect().scaled(0.25)
    >>> normals = estimate_normals(np.full((120, 160), 2000, dtype=np.uint16), camera)  # a wall, 2 m ahead
    >>> normals.vectors[60, 80].tolist(), len(normals.rows())
    ([0.0, 0.0, -1.0], 18644)

    References
    ----------
    Holz, Holzer and Rusu, Real-Time Plane Segmentation using RGB-D Cameras, RoboCup 2011. Windows that end at edges, in
    the form used here: Zhang, Lu and Lafruit, Cross-Based Local Stereo Matching, IEEE TCSVT 2009.
    """
    who = "estimate_normals"
    radius = check_window(window, who)
    check_positive(max_depth_jump, "max_depth_jump", who)
    if smoothing is not None:
        check_choice(smoothing, "smoothing", who, SMOOTHINGS, hint="None smooths nothing.")
    with Workers(thread_count(n_threads, who)) as workers:
        w = inverse_depth(depth, camera, who, workers)
        if smoothing == "guided":
            w = smoothed(w, camera, None, None, workers)
        found = normals_of(w, camera, radius, max_depth_jump, workers)
    if smoothing in ("bilateral", "total_variation"):
        return Normals(
            smooth_normals(found.vectors, found.is_valid, method=smoothing, n_threads=n_threads), found.is_valid
        )
    return found


def normals_of(w: npt.NDArray[Any], camera: Camera, radius: int, jump: float, workers: Workers) -> Normals:
    """Normals of an inverse depth image (H, W); windows reach `radius` pixels to either side."""
    from armillary.kernels.images import depth as kernels

    vectors, is_valid = np.empty((*w.shape, 3), dtype=np.float32), np.empty(w.shape, dtype=np.bool_)

    columns = (np.arange(w.shape[1]) - camera.cx).astype(w.dtype)

    def work(start: int, stop: int) -> None:
        kernels.normals(w, camera.fx, camera.fy, columns, camera.cy, radius, jump, start, stop, vectors, is_valid)

    over_rows(workers, len(w), work)
    return Normals(vectors, is_valid)


def check_window(window: Any, who: str) -> int:
    """Half of an odd window."""
    side = check_integer(window, "window", who, low=3)
    if side % 2 == 0:
        raise ParameterError(
            f"`window` of {who} must be odd, so that a pixel is its middle; got {window!r}. Give {side + 1}."
        )
    return side // 2
