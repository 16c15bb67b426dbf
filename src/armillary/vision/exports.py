"""What other programs read: coloured points as PLY, objects of Open3D, entries of rerun.

Open3D and rerun are used where they are installed, and asked for nowhere else.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.durable.whole import whole_file
from armillary.exceptions import InputError, MissingExtraError
from armillary.validation import check_integer, check_numbers, check_rotation
from armillary.vision.camera import Camera, check_camera
from armillary.vision.coloring import Colors, color_labels
from armillary.vision.planes import Plane
from armillary.vision.segmenter import SegmentedFrame, check_frame

_POINT = np.dtype(
    [(name, "<f4") for name in ("x", "y", "z", "nx", "ny", "nz")]
    + [(name, "u1") for name in ("red", "green", "blue")]
    + [("label", "<i4")]
)
_PLY_TYPES = {"<f4": "float", "|u1": "uchar", "<i4": "int"}


def colored_points(
    frame: SegmentedFrame, camera: Camera, table: Any = None, *, pose: Any = None, step: int = 1
) -> npt.NDArray[Any]:
    """The labelled points of a frame as records: x, y, z, nx, ny, nz, red, green, blue, label.

    `table` has the colours of ids as in `color_labels`; `pose` (4, 4) takes points to the world; `step` takes every
    so many pixels in both axes.

    Parameters
    ----------
    frame : SegmentedFrame
        Of depth.
    camera : Camera
        Of the frame.
    table : array-like of shape (n, 3), optional
        Colours of the ids.
    pose : array-like of shape (4, 4), optional
        Camera to world.
    step : int, default=1
        Take every so many pixels.

    Returns
    -------
    structured array
        One record for each labelled point.

    Examples
    --------
    >>> from armillary.vision import DirectionSegmenter, colored_points, make_room_walk
    >>> walk = make_room_walk(3, width=64, height=48, random_state=0)
    >>> found = DirectionSegmenter(camera=walk.camera).step(walk.depths[0])
    >>> colored_points(found, walk.camera).dtype.names[:3]
    ('x', 'y', 'z')
    """
    who = "colored_points"
    check_frame(frame, who)
    check_camera(camera, who)
    if frame.depth is None:
        raise InputError(f"{who} needs a frame of depth; this one was segmented from normals. Give depth to `step`.")
    every = np.s_[:: check_integer(step, "step", who, low=1), ::step]
    labels = frame.labels[every]
    is_shown = (labels >= 0) & (frame.depth[every] > 0.0)
    found = np.empty(int(np.count_nonzero(is_shown)), dtype=_POINT)
    points = camera.points(frame.depth)[0][every][is_shown].astype(np.float64)
    normals = frame.normals.vectors[every][is_shown].astype(np.float64)
    if pose is not None:
        motion = _checked_pose(pose, who)
        points, normals = points @ motion[:3, :3].T + motion[:3, 3], normals @ motion[:3, :3].T
    colors = color_labels(labels, table)[is_shown]
    for values, names in ((points, "xyz"), (normals, ("nx", "ny", "nz")), (colors, ("red", "green", "blue"))):
        for column, name in enumerate(names):
            found[name] = values[:, column]
    found["label"] = labels[is_shown]
    return found


def _checked_pose(pose: Any, who: str) -> Float64Array:
    motion = check_numbers(pose, "pose", who)
    if motion.shape not in ((4, 4), (3, 4)):
        raise InputError(f"`pose` of {who} must be a matrix of shape (4, 4); got {motion.shape}. Give camera to world.")
    check_rotation(motion[:3, :3], 3, who)
    return motion


def write_ply(path: str | os.PathLike[str], points: npt.NDArray[Any]) -> None:
    """Write records of `colored_points`, several of them concatenated perhaps, as a binary PLY file.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    points : structured array
        As `colored_points` gives them.

    Examples
    --------
    >>> import tempfile
    >>> from armillary.vision import DirectionSegmenter, colored_points, make_room_walk, write_ply
    >>> walk = make_room_walk(5, width=64, height=48, random_state=0)
    >>> found = DirectionSegmenter(camera=walk.camera).step(walk[0].depth)
    >>> write_ply(tempfile.mkdtemp() + "/room.ply", colored_points(found, walk.camera))
    """
    if not isinstance(points, np.ndarray) or points.dtype != _POINT:
        kind = getattr(points, "dtype", type(points).__name__)
        raise InputError(
            f"`points` of write_ply must be records of colored_points; got {kind}. Call colored_points first."
        )
    fields = [f"property {_PLY_TYPES[_POINT[name].str]} {name}" for name in _POINT.names or ()]
    head = ["ply", "format binary_little_endian 1.0", f"element vertex {len(points)}", *fields, "end_header", ""]
    with whole_file(path) as stream:
        stream.write("\n".join(head).encode())
        stream.write(points.tobytes())


def to_open3d(points: npt.NDArray[Any]) -> Any:
    """Records of `colored_points` as an `open3d.geometry.PointCloud`.

    Parameters
    ----------
    points : structured array
        As `colored_points` gives them.

    Returns
    -------
    open3d.geometry.PointCloud
        With colours and normals.

    Examples
    --------
    >>> from armillary.vision import colored_points, to_open3d
    >>> cloud = to_open3d(colored_points(frame, camera))  # doctest: +SKIP
    """
    try:
        import open3d
    except ImportError as error:
        raise MissingExtraError("to_open3d needs open3d, which is not installed. Run: pip install open3d") from error
    cloud = open3d.geometry.PointCloud()
    columns = (("x", "y", "z"), ("nx", "ny", "nz"), ("red", "green", "blue"))
    places, normals, colors = (np.stack([points[name] for name in names], axis=1).astype(float) for names in columns)
    cloud.points = open3d.utility.Vector3dVector(places)
    cloud.normals = open3d.utility.Vector3dVector(normals)
    cloud.colors = open3d.utility.Vector3dVector(colors / 255.0)
    return cloud


def plane_corners(plane: Plane) -> Float64Array:
    """Four corners (4, 3) of the rectangle that a plane fills, by its extent."""
    guess = np.array([1.0, 0.0, 0.0]) if abs(plane.normal[0]) < 0.9 else np.array([0.0, 1.0, 0.0])
    across = np.cross(plane.normal, guess)
    across /= np.linalg.norm(across)
    along = np.cross(across, plane.normal)
    half, other = 0.5 * plane.extent[0] * along, 0.5 * plane.extent[1] * across
    return np.stack([plane.center + a * half + b * other for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))])


def log_to_rerun(frame: SegmentedFrame, labels: Colors, name: str = "armillary") -> None:
    """Log depth and label colours of a frame to rerun, where it is installed and was started by the caller."""
    try:
        import rerun
    except ImportError as error:
        raise MissingExtraError(
            "log_to_rerun needs rerun, which is not installed. Run: pip install rerun-sdk"
        ) from error
    rerun.set_time("frame", sequence=frame.number)
    rerun.log(f"{name}/labels", rerun.Image(labels))
    if frame.depth is not None:
        rerun.log(f"{name}/depth", rerun.DepthImage(frame.depth, meter=1.0))
