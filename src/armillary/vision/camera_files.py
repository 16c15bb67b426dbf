"""Cameras and poses from the files that recordings come with. The home of PyYAML.

JSON         fields of `Camera`, Open3D's `intrinsic_matrix`, or a camera_info of ROS
YAML         a camera_info of ROS: `K` or `camera_matrix`, `width` and `height` (also `image_width`, `image_height`), of
             several the first; or the settings of ORB-SLAM for TUM's sequences, `Camera.fx` and so on
text         ScanNet: lines "fx_depth = 577.87", or a matrix of 3 x 3 or 4 x 4; TUM: a line "fx fy cx cy"; # comments
poses        camera to world: a list "timestamp tx ty tz qx qy qz qw" (TUM), one 4 x 4 matrix in each file of a folder
             (ScanNet, 7-Scenes), or a .npy of shape (T, 4, 4)
"""

from __future__ import annotations

import json
import math
import re
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from armillary._typing import Float64Array
from armillary.exceptions import InputError, MissingExtraError
from armillary.validation import check_rotation
from armillary.vision.frames import natural_order

FIELDS = ("fx", "fy", "cx", "cy", "width", "height")
_ROS_SIZE = {"image_width": "width", "image_height": "height"}
_ORB_SLAM = {f"Camera.{name}": name for name in FIELDS} | {
    "Camera1.fx": "fx", "Camera1.fy": "fy", "Camera1.cx": "cx", "Camera1.cy": "cy",
    "DepthMapFactor": "depth_scale", "RGBD.DepthMapFactor": "depth_scale",
}  # fmt: skip
_ORB_BENDS = ("Camera.k1", "Camera.k2", "Camera.p1", "Camera.p2", "Camera.k3")


def read_fields(path: Path, size: tuple[int, int] | None, who: str) -> dict[str, Any]:
    """What a camera file holds, by the names of `Camera`; `size` (width, height) is for files without one."""
    text = _text(path, who)
    if path.suffix.lower() in (".yaml", ".yml"):
        found = _yaml(text, path, who)
    elif path.suffix.lower() == ".txt":
        found = _plain(text, path, who)
    else:
        found = _json(text, path, who)
    if not isinstance(found, dict):
        raise InputError(
            f"{who} needs a JSON object with the fields {', '.join(FIELDS)}; {path} holds a "
            f"{type(found).__name__}. Write the intrinsics by name."
        )
    found = _from_ros(found, path, who)
    if size is not None and not {"width", "height"} <= set(found):
        found |= {"width": int(size[0]), "height": int(size[1])}
    return found


def _text(path: Path, who: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{who} cannot read {path}: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError:
        raise InputError(f"{who} reads text; {path} is none. Give the camera's JSON, YAML or text file.") from None


def _json(text: str, path: Path, who: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{who} needs JSON; {path} is not: {error}. Write the intrinsics as JSON.") from None


def _yaml(text: str, path: Path, who: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise MissingExtraError.of(who, "PyYAML", "vision") from error
    # OpenCV writes a directive and a tag that YAML does not know
    plain = re.sub(r"^%YAML.*$|!!opencv-matrix", "", text, flags=re.MULTILINE)
    try:
        # what `rostopic echo` prints is one document after the other
        return next((found for found in yaml.safe_load_all(plain) if found is not None), None)
    except yaml.YAMLError as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{who} needs YAML; {path} is not: {reason}. Save the camera_info again.") from None


def _from_ros(found: dict[str, Any], path: Path, who: str) -> dict[str, Any]:
    """A camera_info of ROS, or settings of ORB-SLAM, in our names; other files as they are."""
    names = _ROS_SIZE | _ORB_SLAM
    values = {names.get(name, name): value for name, value in found.items()}
    bent = values.get("D", values.get("d", values.get("distortion_coefficients")))
    bends = bent.get("data", []) if isinstance(bent, dict) else bent or [values.get(name, 0.0) for name in _ORB_BENDS]
    if np.any(np.abs(np.array(bends, dtype=np.float64)) > 1e-9):
        warnings.warn(
            f"{who}: {path} tells of distortion, which is not undone here. Give frames that are rectified.",
            UserWarning,
            stacklevel=4,
        )
    matrix = values.get("K", values.get("k", values.get("camera_matrix")))
    if matrix is None:
        return values
    numbers = matrix.get("data") if isinstance(matrix, dict) else matrix
    try:
        k = np.array(numbers, dtype=np.float64).reshape(3, 3)
    except (TypeError, ValueError):
        raise InputError(
            f"`K` in {path} must be nine numbers, row by row; got {numbers!r}. Give a camera_info of ROS, or fx, fy, "
            "cx and cy."
        ) from None
    return values | {"fx": k[0, 0], "fy": k[1, 1], "cx": k[0, 2], "cy": k[1, 2]}


def _plain(text: str, path: Path, who: str) -> dict[str, Any]:
    named = dict(re.findall(r"^\s*(\w+)\s*=\s*([-+.\deE]+)\s*$", text, flags=re.MULTILINE))
    if {"fx_depth", "fy_depth", "mx_depth", "my_depth"} <= set(named):
        found = {ours: float(named[f"{theirs}_depth"]) for ours, theirs in
                 (("fx", "fx"), ("fy", "fy"), ("cx", "mx"), ("cy", "my"))}  # fmt: skip
        return found | {"width": int(named["depthWidth"]), "height": int(named["depthHeight"])}
    try:
        numbers = np.array(re.sub(r"#.*", "", text).split(), dtype=np.float64)
    except ValueError:
        numbers = np.empty(0)
    if len(numbers) in (9, 16):
        k = numbers.reshape(math.isqrt(len(numbers)), -1)
        return {"fx": k[0, 0], "fy": k[1, 1], "cx": k[0, 2], "cy": k[1, 2]}
    if len(numbers) >= 4 and len(numbers) <= 5:
        return dict(zip(FIELDS[:4], numbers.tolist(), strict=False))
    raise InputError(
        f"{who} reads text files with ScanNet's lines 'fx_depth = ...', a matrix of 3 x 3 or 4 x 4, or 'fx fy cx cy'; "
        f"{path} has none of these. Write the intrinsics as JSON."
    )


# ----------------------------------------------------------------------------------------------------------- poses


def open_poses(path: str | Path, timestamps: tuple[float | None, ...] | None = None) -> Float64Array:
    """Poses (T, 4, 4) of a recording, camera to world; NaN where a frame has none.

    Rotations that were recorded with few digits are replaced by the nearest ones, with one note.

    Parameters
    ----------
    path : str or Path
        A list "timestamp tx ty tz qx qy qz qw" (TUM RGB-D), a folder with one 4 x 4 matrix in each file, in natural
        order (ScanNet, 7-Scenes), or a .npy of shape (T, 4, 4).
    timestamps : tuple of float, optional
        Of the frames, e.g. `Frames.timestamps`: of a list the pose nearest in time is taken for each.

    Returns
    -------
    array of shape (T, 4, 4)
        Camera to world.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from armillary.vision import open_poses
    >>> path = tempfile.mkdtemp() + "/poses.npy"
    >>> np.save(path, np.tile(np.eye(4), (3, 1, 1)))
    >>> open_poses(path).shape
    (3, 4, 4)
    """
    who, place = "open_poses", Path(path)
    if not place.exists():
        raise InputError(f"{who}: '{place}' is not there. Give a list of poses, a folder of matrices or a .npy file.")
    if place.is_dir():
        poses = np.array([_matrix(file, who) for file in sorted(place.iterdir(), key=natural_order) if _is_text(file)])
    elif place.suffix.lower() == ".npy":
        poses = _stored(place, who)
    else:
        poses = _trajectory(place, timestamps, who)
    if not len(poses):
        raise InputError(f"{who} found no pose in '{place}'. Give a folder with one 4 x 4 matrix in each text file.")
    return _proper(poses, place, who)


def turns_between(poses: Float64Array) -> list[Float64Array | None]:
    """The rotation (3, 3) of the view since the frame before, for each: a direction m becomes R m; None: unknown."""
    found: list[Float64Array | None] = [None]
    for before, now in pairwise(poses):
        turn = now[:3, :3].T @ before[:3, :3]
        found.append(turn if np.isfinite(turn).all() else None)
    return found


def _proper(poses: Float64Array, place: Path, who: str) -> Float64Array:
    proper, n_rough = np.full_like(poses, np.nan), 0
    for number, pose in enumerate(poses):
        if np.isfinite(pose).all():
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                turn = check_rotation(pose[:3, :3], 3, f"pose {number} in '{place}'")
            n_rough += bool(heard)
            assert turn is not None
            proper[number] = pose
            proper[number, :3, :3] = turn
    if n_rough:
        warnings.warn(
            f"{who}: rotations of {n_rough} of {len(poses)} poses in '{place}' have few digits; the nearest ones are "
            "taken.",
            UserWarning,
            stacklevel=3,
        )
    return proper


def _is_text(file: Path) -> bool:
    return file.is_file() and not file.name.startswith(".") and file.suffix.lower() in (".txt", ".mat", ".pose", "")


def _matrix(file: Path, who: str) -> Float64Array:
    try:
        numbers = np.array(_text(file, who).split(), dtype=np.float64)
    except ValueError:
        numbers = np.empty(0)
    if len(numbers) not in (12, 16):
        raise InputError(f"{who} needs a matrix of 4 x 4 numbers in each file; '{file}' has {len(numbers)} numbers.")
    pose = np.eye(4)
    pose[: len(numbers) // 4] = numbers.reshape(-1, 4)
    return pose


def _stored(place: Path, who: str) -> Float64Array:
    try:
        poses = np.load(place, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{who} cannot read '{place}': {error}. Save it again.") from None
    if poses.ndim != 3 or poses.shape[1:] != (4, 4) or poses.dtype.kind != "f":
        raise InputError(
            f"Poses in '{place}' must be floats of shape (T, 4, 4); got {poses.dtype} of shape {poses.shape}."
        )
    return np.asarray(poses, dtype=np.float64)


def _trajectory(place: Path, timestamps: tuple[float | None, ...] | None, who: str) -> Float64Array:
    lines = [line.partition("#")[0].split() for line in _text(place, who).splitlines()]
    try:
        table = np.array([line for line in lines if line], dtype=np.float64)
    except ValueError:
        table = np.empty((0, 0))
    if table.ndim != 2 or table.shape[1] != 8 or not np.all(np.linalg.norm(table[:, 4:], axis=1) > 0.0):
        raise InputError(
            f"{who} needs lines 'timestamp tx ty tz qx qy qz qw'; '{place}' has others. Give TUM's groundtruth.txt, a "
            "folder of matrices or a .npy file."
        )
    if timestamps and all(time is not None for time in timestamps):
        wanted = np.array(timestamps, dtype=np.float64)
        table = table[np.abs(table[:, 0][None] - wanted[:, None]).argmin(axis=1)]
    poses = np.tile(np.eye(4), (len(table), 1, 1))
    poses[:, :3, :3] = Rotation.from_quat(table[:, 4:]).as_matrix()
    poses[:, :3, 3] = table[:, 1:4]
    return poses
