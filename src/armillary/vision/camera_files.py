"""Cameras from the files that recordings come with. The home of PyYAML.

JSON         fields of `Camera`, Open3D's `intrinsic_matrix` or the first camera of its trajectories, a camera_info of
             ROS, Record3D's metadata, `ppx` and `ppy` of librealsense, or a matrix of 3 x 3
YAML         a camera_info of ROS: `K` or `camera_matrix`, `width` and `height` (also `image_width`, `image_height`), of
             several the first; a camera of Kalibr; or the settings of ORB-SLAM for TUM's sequences, `Camera.fx` etc.
text         ScanNet: lines "fx_depth = 577.87", or a matrix of 3 x 3 or 4 x 4; TUM: a line "fx fy cx cy"; COLMAP's
             cameras.txt with one pinhole; # comments; or any of the above
"""

from __future__ import annotations

import json
import math
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from armillary.exceptions import ArmillaryError, InputError, MissingExtraError

FIELDS = ("fx", "fy", "cx", "cy", "width", "height")
# what others call our fields: ROS and OpenCV, librealsense, instant-ngp, ORB-SLAM
_NAMES = {
    "image_width": "width", "image_height": "height", "ppx": "cx", "ppy": "cy", "fl_x": "fx", "fl_y": "fy",
} | {f"Camera.{name}": name for name in FIELDS} | {
    "Camera1.fx": "fx", "Camera1.fy": "fy", "Camera1.cx": "cx", "Camera1.cy": "cy",
    "DepthMapFactor": "depth_scale", "RGBD.DepthMapFactor": "depth_scale",
}  # fmt: skip
_ORB_BENDS = ("Camera.k1", "Camera.k2", "Camera.p1", "Camera.p2", "Camera.k3")
_BENDS = ("D", "d", "coeffs", "distortion_coeffs", "distortion_coefficients")
_MATRICES = ("K", "k", "camera_matrix", "intrinsic_matrix")
# of a camera within a file
_PARTS = ("intrinsic", "depth_intrinsics", "intrinsics")


# what fields raise that are not as their format has them: words for numbers, lists of another length, no size
_ODD = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError)


def read_fields(path: Path, size: tuple[int, int] | None, who: str) -> dict[str, Any]:
    """What a camera file holds, by the names of `Camera`; `size` (width, height) is for files without one."""
    try:
        return _fields(path, size, who)
    except ArmillaryError:
        raise
    except _ODD as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error).splitlines()[0].rstrip(".")
        raise InputError(
            f"{who} finds no camera in {path}: a field is not as its format has it ({reason}). Write the intrinsics as "
            "JSON: fx, fy, cx, cy, width and height."
        ) from None


def _fields(path: Path, size: tuple[int, int] | None, who: str) -> dict[str, Any]:
    found = _read(path, who)
    if isinstance(found, list) and len(found) == 3 and all(np.size(row) == 3 for row in found):
        found = {"K": np.ravel(found).tolist()}
    if not isinstance(found, dict):
        raise InputError(
            f"{who} needs an object with the fields {', '.join(FIELDS)}; {path} holds a "
            f"{type(found).__name__}. Write the intrinsics by name."
        )
    found = {str(name): value for name, value in found.items()}
    found = _named(found, path, who)
    for name, value in found.items():
        if isinstance(value, dict) and not has_intrinsics(found):
            found[name] = _with_size(_named(value, path, who), size)
    return _with_size(found, size) if has_intrinsics(found) else found


def has_intrinsics(found: dict[str, Any]) -> bool:
    """Whether an object is a camera, or at least part of one."""
    return any(name in found for name in FIELDS[:4])


def _with_size(found: dict[str, Any], size: tuple[int, int] | None) -> dict[str, Any]:
    if size is None or {"width", "height"} <= set(found) or not has_intrinsics(found):
        return found
    return found | {"width": int(size[0]), "height": int(size[1])}


def _read(path: Path, who: str) -> Any:
    """What a file says, by its ending; text files by what they look like."""
    text, ending = read_text(path, who), path.suffix.lower()
    if ending in (".yaml", ".yml"):
        return _yaml(text, path, who)
    if ending not in (".txt", ".info", ".intrinsics", ".intrinsic"):
        return _json(text, path, who)
    if text.lstrip().startswith(("{", "[")):
        return _json(text, path, who)
    # "K: [...]" begins a line of what rostopic prints
    return _yaml(text, path, who) if re.search(r"^\s*[Kk]\s*:", text, flags=re.MULTILINE) else _plain(text, path, who)


def read_text(path: Path, who: str) -> str:
    """The text of a file, or a sentence."""
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


def _named(found: dict[str, Any], path: Path, who: str) -> dict[str, Any]:
    """A camera in our names; other objects as they are."""
    for name in _PARTS:
        if isinstance(found.get(name), dict):
            found = found | found[name]
    cameras = found.get("parameters")
    if isinstance(cameras, list) and cameras and isinstance(cameras[0], dict):  # a trajectory of Open3D
        return _named(cameras[0], path, who)
    values = {_NAMES.get(name, name): value for name, value in found.items()}
    numbers = values.get("intrinsics")
    if isinstance(numbers, list) and len(numbers) == 4 and "resolution" in values:  # Kalibr
        values |= dict(zip(FIELDS, [*numbers, *values["resolution"]], strict=False))
    _tell_of_distortion(values, path, who)
    matrix = next((values[name] for name in _MATRICES if name in values), None)
    if matrix is not None:
        values |= _of_matrix(matrix, path, in_columns="intrinsic_matrix" in values)
    if {"w", "h"} <= set(values):
        values |= _of_record3d(values)
    if values.get("fx") == 0.0 and values.get("fy") == 0.0:
        raise InputError(
            f"{who}: the camera of {path} was not calibrated, its focal lengths are 0. Calibrate it, or take those of "
            "a preset: Camera.preset."
        )
    return values


def _tell_of_distortion(values: dict[str, Any], path: Path, who: str) -> None:
    bent = next((values[name] for name in _BENDS if name in values), None)
    bends = bent.get("data", []) if isinstance(bent, dict) else bent or [values.get(name, 0.0) for name in _ORB_BENDS]
    if np.any(np.abs(np.array(bends, dtype=np.float64)) > 1e-9):
        warnings.warn(
            f"{who}: {path} tells of distortion, which is not undone here. Give frames that are rectified.",
            UserWarning,
            stacklevel=5,
        )


def _of_matrix(matrix: Any, path: Path, in_columns: bool) -> dict[str, Any]:
    """Intrinsics of nine numbers row by row (ROS), or column by column (Open3D, Record3D)."""
    numbers = matrix.get("data") if isinstance(matrix, dict) else matrix
    try:
        k = np.array(numbers, dtype=np.float64).reshape(3, 3)
    except (TypeError, ValueError):
        order, theirs = ("column by column", "intrinsic_matrix") if in_columns else ("row by row", "K")
        raise InputError(
            f"`{theirs}` in {path} must be nine numbers, {order}; got {numbers!r}. Give a camera_info of ROS, or fx, "
            "fy, cx and cy."
        ) from None
    # the last row of K is 0 0 1, so that a file tells by itself which way it is written
    if k[0, 2] == k[1, 2] == 0.0 and k[2, :2].any():
        k = k.T
    return dict(zip(FIELDS[:4], (float(value) for value in (k[0, 0], k[1, 1], k[0, 2], k[1, 2])), strict=True))


def _of_record3d(values: dict[str, Any]) -> dict[str, Any]:
    """Metadata of Record3D or instant-ngp: `w` and `h` are of the colour image, `dw` and `dh` of depth."""
    wide, high = values["w"], values["h"]
    width, height = values.get("dw", wide), values.get("dh", high)
    found: dict[str, Any] = {"width": width, "height": height}
    # centres of pixels lie half a pixel from corners, which both images share
    for focal, centre, factor in (("fx", "cx", width / wide), ("fy", "cy", height / high)):
        if focal in values:
            found[focal] = values[focal] * factor
        if centre in values:
            found[centre] = (values[centre] + 0.5) * factor - 0.5
    return found


def _plain(text: str, path: Path, who: str) -> dict[str, Any]:
    named = dict(re.findall(r"^\s*(\w+)\s*=\s*([-+.\deE]+)\s*$", text, flags=re.MULTILINE))
    if {"fx_depth", "fy_depth", "mx_depth", "my_depth"} <= set(named):
        found = {ours: float(named[f"{theirs}_depth"]) for ours, theirs in
                 (("fx", "fx"), ("fy", "fy"), ("cx", "mx"), ("cy", "my"))}  # fmt: skip
        return found | {"width": int(named["depthWidth"]), "height": int(named["depthHeight"])}
    lines = [line.split() for line in re.sub(r"#.*", "", text).splitlines() if line.split()]
    if len(lines) == 1 and lines[0][1:2] in (["PINHOLE"], ["SIMPLE_PINHOLE"]):  # COLMAP, whose pixels begin at corners
        size, lens = lines[0][2:4], [float(value) for value in lines[0][4:]]
        fx, fy, cx, cy = lens if len(lens) == 4 else [lens[0], *lens]
        return dict(zip(FIELDS, (fx, fy, cx - 0.5, cy - 0.5, int(size[0]), int(size[1])), strict=True))
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
