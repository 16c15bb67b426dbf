"""Poses of a camera from the files that recordings come with, and the turns between them.

list         "timestamp tx ty tz qx qy qz qw" (TUM)
matrices     one of 4 x 4 (or 3 x 4) numbers in each file of a folder (ScanNet, 7-Scenes); all in one text file, by rows
             of 4, 12 (KITTI) or 16 numbers; with a line of three whole numbers before each (.log of Open3D)
.npy, .npz   shape (T, 4, 4) or (T, 3, 4)
.json        a trajectory of Open3D, whose `extrinsic` are world to camera, column by column

All others are camera to world.
"""

from __future__ import annotations

import json
import warnings
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from armillary._typing import Float64Array
from armillary.exceptions import InputError
from armillary.validation import check_path, check_rotation
from armillary.vision.camera_files import read_text
from armillary.vision.frames import natural_order

_GIVE = (
    "Give TUM's groundtruth.txt, a folder of 4 x 4 matrices, a text file or .npy of them, or Open3D's .log or .json."
)
# A pose further away in time than so many steps of its list is of another moment; lists with one line are always near.
_MOST_STEPS = 2.0


def open_poses(path: str | Path, timestamps: tuple[float | None, ...] | None = None) -> Float64Array:
    """Poses (T, 4, 4) of a recording, camera to world; NaN where a frame has none.

    Rotations that were recorded with few digits are replaced by the nearest ones, with one note.

    Parameters
    ----------
    path : str or Path
        A list "timestamp tx ty tz qx qy qz qw" (TUM RGB-D), a folder with one 4 x 4 matrix in each text file, in
        natural order (ScanNet, 7-Scenes), one text file of all matrices (also KITTI's), a .npy or .npz of shape
        (T, 4, 4) or (T, 3, 4), or a trajectory of Open3D (.log or .json).
    timestamps : tuple of float, optional
        Of the frames, e.g. `Frames.timestamps`: of a list the pose nearest in time is taken for each, and none where
        that is further away than two steps of the list.

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
    who = "open_poses"
    place = Path(check_path(path, who))
    ending = place.suffix.lower()
    if not place.exists():
        raise InputError(f"{who}: '{place}' is not there. {_GIVE}")
    if place.is_dir():
        poses = np.array([_matrix(file, who) for file in sorted(place.iterdir(), key=natural_order) if _is_text(file)])
    elif ending in (".npy", ".npz"):
        poses = _stored(place, who)
    elif ending == ".json":
        poses = _of_open3d(place, who)
    else:
        poses = _listed(place, timestamps, who)
    if not len(poses):
        raise InputError(f"{who} found no pose in '{place}'. {_GIVE}")
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
    numbers = _numbers(read_text(file, who).split())
    if numbers.shape not in ((12,), (16,)):
        raise InputError(f"{who} needs a matrix of 4 x 4 numbers in each file; '{file}' has {len(numbers)} numbers.")
    return _whole(numbers.reshape(1, -1, 4))[0]


def _numbers(words: list[str] | list[list[str]]) -> Float64Array:
    """Words as numbers, in a table where they are lines of one length; none of them where one is no number."""
    try:
        return np.array(words, dtype=np.float64)
    except ValueError:
        return np.empty(0)


def _whole(matrices: Float64Array) -> Float64Array:
    """(T, 4, 4) of (T, 3, 4), whose last rows are known."""
    poses = np.tile(np.eye(4), (len(matrices), 1, 1))
    poses[:, : matrices.shape[1]] = matrices
    return poses


def _stored(place: Path, who: str) -> Float64Array:
    try:
        poses = np.load(place, allow_pickle=False)
        if isinstance(poses, np.lib.npyio.NpzFile):
            with poses as stored:
                poses = stored["poses" if "poses" in stored.files or len(stored.files) != 1 else stored.files[0]]
    except KeyError:
        raise InputError(f"{who}: '{place}' must have one array, or one called 'poses'. Name it so.") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{who} cannot read '{place}': {error}. Save it again.") from None
    if poses.ndim != 3 or poses.shape[1:] not in ((4, 4), (3, 4)) or poses.dtype.kind != "f":
        raise InputError(
            f"Poses in '{place}' must be floats of shape (T, 4, 4) or (T, 3, 4); got {poses.dtype} of shape "
            f"{poses.shape}."
        )
    return _whole(poses.astype(np.float64))


def _of_open3d(place: Path, who: str) -> Float64Array:
    try:
        cameras = json.loads(read_text(place, who))["parameters"]
        outward = np.array([camera["extrinsic"] for camera in cameras], dtype=np.float64).reshape(-1, 4, 4)
        return np.asarray(np.linalg.inv(np.swapaxes(outward, 1, 2)), dtype=np.float64)
    except (ValueError, TypeError, KeyError, np.linalg.LinAlgError):
        raise InputError(
            f"{who} reads JSON that is a trajectory of Open3D, with `extrinsic` of each of its `parameters`; '{place}' "
            f"is none. {_GIVE}"
        ) from None


def _listed(place: Path, timestamps: tuple[float | None, ...] | None, who: str) -> Float64Array:
    """Poses of one text file: with timestamps, or matrices."""
    lines = [line.partition("#")[0].replace(",", " ").split() for line in read_text(place, who).splitlines()]
    lines = [line for line in lines if line]
    is_log = len(lines) % 5 == 0 and all(len(line) == 3 for line in lines[::5])
    table = _numbers([line for number, line in enumerate(lines) if number % 5] if is_log else lines)
    if table.ndim == 2 and table.shape[1] == 8 and np.all(np.linalg.norm(table[:, 4:], axis=1) > 0.0):
        return _at_times(table, timestamps)
    if table.ndim == 2 and (table.shape[1] in (12, 16) or (table.shape[1] == 4 and len(table) % 4 == 0)):
        return _whole(table.reshape(-1, 3 if table.shape[1] == 12 else 4, 4))
    raise InputError(
        f"{who} needs lines 'timestamp tx ty tz qx qy qz qw', or matrices in rows of 4, 12 or 16 numbers; '{place}' "
        f"has others. {_GIVE}"
    )


def nearest_in_time(times: Float64Array, wanted: Float64Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The number among `times` (n,) that is nearest to each of `wanted` (m,), and whether it is of the same moment.

    The earlier one of two; what is further away than two steps of `times` is of another moment.
    """
    order = np.argsort(times, kind="stable")
    steps = np.diff(times[order])
    after = np.clip(np.searchsorted(times[order], wanted), 1, max(1, len(times) - 1))
    number = np.minimum(after, len(times) - 1)
    number = np.where(wanted - times[order[after - 1]] <= times[order[number]] - wanted, after - 1, number)
    nearest = order[number]
    reach = _MOST_STEPS * float(np.median(steps)) if len(steps) else np.inf
    return nearest, np.abs(times[nearest] - wanted) <= reach


def _at_times(table: Float64Array, timestamps: tuple[float | None, ...] | None) -> Float64Array:
    """The poses of a list; of the lines nearest in time to frames, where frames have times."""
    is_near = np.ones(len(table), dtype=np.bool_)
    if timestamps and all(time is not None for time in timestamps):
        nearest, is_near = nearest_in_time(table[:, 0], np.array(timestamps, dtype=np.float64))
        table = table[nearest]
    poses = np.tile(np.eye(4), (len(table), 1, 1))
    poses[:, :3, :3] = Rotation.from_quat(table[:, 4:]).as_matrix()
    poses[:, :3, 3] = table[:, 1:4]
    poses[~is_near] = np.nan
    return poses
