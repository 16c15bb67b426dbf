"""A furnished room seen by a walking depth camera, with the truth: rendered by a ray caster of our own.

The world has the axes of a camera that looks ahead: x to the right, y down, z ahead. The room is a box with a slanted
ceiling on one side, a table, a cupboard, a chest, shelves, a bookcase, a chair turned by 30 degrees, a board that leans
on the wall, and a round lamp. A surface is a plane with a name; planes with the same normal share a direction.

The sensor has the noise of triangulation, of standard deviation `noise` z^2 (Khoshelham and Elberink 2012 measured
0.0014 z^2 for a Kinect): it is drawn in inverse depth, where it is the same everywhere. It loses pixels at the rims of
things, at grazing incidence, in patches, and beyond its range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, RandomState
from armillary.draws import Stream
from armillary.exceptions import ParameterError
from armillary.validation import check_choice, check_integer, check_number
from armillary.vision._bands import over_rows
from armillary.vision.camera import Camera
from armillary.workers import Workers, thread_count

_FACES = ("left", "right", "top", "bottom", "front", "back")  # x-, x+, y-, y+, z-, z+; the room's walls see the reverse
_WALLS = ("wall left", "wall right", "ceiling", "floor", "wall behind", "wall ahead")
_HORIZONTAL_VIEW = math.radians(62.0)
# a rim is where neighbours differ by this share of their depth; half of its pixels are lost
_RIM_JUMP, _RIM_LOSS = 0.05, 0.5
# cosines of incidence (74 and 86 degrees): from the first on more and more rays are lost, from the second all
_GRAZING = (math.cos(math.radians(74.0)), math.cos(math.radians(86.0)))
_PATCH_RADII = (2.0, 6.0)
_DEPTH_TYPES = ("uint16", "float32", "float64")


@dataclass(frozen=True)
class _Box:
    name: str
    low: tuple[float, float, float]
    high: tuple[float, float, float]
    turn: tuple[float, float, float] = (0.0, 0.0, 0.0)  # radians about x, y, z through its centre


_ROOM = _Box("room", (-3.0, -1.1, -2.5), (3.0, 1.5, 3.5))
_FURNITURE = (
    _Box("table top", (-1.3, 0.75, 1.0), (0.3, 0.8, 1.9)),
    *(
        _Box(f"table leg {number}", (x, 0.8, z), (x + 0.06, 1.5, z + 0.06))
        for number, (x, z) in enumerate([(-1.28, 1.02), (0.22, 1.02), (-1.28, 1.82), (0.22, 1.82)], start=1)
    ),
    _Box("cupboard", (0.9, -0.5, 3.0), (2.1, 1.5, 3.5)),
    _Box("chest", (2.5, 0.6, 0.4), (3.0, 1.5, 1.8)),
    *(_Box(f"shelf {number}", (2.65, y, -1.6), (3.0, y + 0.03, -0.2)) for number, y in enumerate((-0.3, 0.1, 0.5), 1)),
    _Box("bookcase", (-3.0, -0.4, 2.2), (-2.65, 1.5, 3.3)),
    _Box("leaning board", (-2.25, -0.2, 3.0), (-1.45, 1.6, 3.04), (math.radians(-18.0), 0.0, 0.0)),
    _Box("slanted ceiling", (-4.0, -2.0, -2.6), (-1.2, -1.0, 3.6), (0.0, 0.0, math.radians(-40.0))),
    _Box("turned chair", (0.6, 0.95, -0.1), (1.05, 1.5, 0.35), (0.0, math.radians(30.0), 0.0)),
)
# of the camera: where it starts, where it has turned, and how far it looks down
_START, _END, _TILT = np.array([-0.7, -0.1, -1.8]), np.array([-1.8, -0.1, -0.3]), math.radians(-10.0)
_LAMP_CENTER, _LAMP_RADIUS = np.array([0.9, -0.65, 1.4]), 0.22


@dataclass(frozen=True, eq=False)
class RoomFrame:
    """One depth image, and what is there.

    Examples
    --------
    >>> from armillary.vision import make_room_walk
    >>> frame = make_room_walk(30, width=160, height=120, random_state=0)[0]
    >>> frame.depth.shape, frame.normals.shape
    ((120, 160), (120, 160, 3))
    """

    depth: npt.NDArray[Any]  # (H, W), 0 where the sensor lost the pixel
    plane_ids: npt.NDArray[np.int32]  # (H, W) index into `plane_names`; also of lost pixels
    direction_ids: npt.NDArray[np.int32]  # (H, W) index into `directions`; -1 on the lamp, which is round
    normals: npt.NDArray[np.float32]  # (H, W, 3) unit, in the camera's coordinates, towards the camera


@dataclass(frozen=True, eq=False)
class RoomWalk(Sequence[RoomFrame]):
    """Frames of a walk, rendered when asked for: `walk[3].depth`, or `walk.depths[3]`, each time the same bits.

    Examples
    --------
    >>> from armillary.vision import make_room_walk
    >>> walk = make_room_walk(30, width=160, height=120, random_state=0)
    >>> len(walk), walk.poses.shape, walk.plane_names[0]
    (30, (30, 4, 4), 'wall left')
    """

    camera: Camera
    poses: Float64Array  # (T, 4, 4) camera to world
    plane_names: tuple[str, ...]
    plane_direction_ids: npt.NDArray[np.int32]  # (P,) planes with the same normal share one; -1 for the lamp
    directions: Float64Array  # (D, 3) unit, in the world
    noise: float
    hole_fraction: float
    depth_range: tuple[float, float]
    dtype: str
    _seed: int
    _n_threads: int
    _last: dict[int, RoomFrame] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.poses)

    @overload
    def __getitem__(self, number: int) -> RoomFrame: ...
    @overload
    def __getitem__(self, number: slice) -> list[RoomFrame]: ...
    def __getitem__(self, number: int | slice) -> RoomFrame | list[RoomFrame]:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        index = range(len(self))[number]
        frame = self._last.get(index)
        if frame is None:
            frame = _render(self, index)
            self._last.clear()  # one frame is kept: its depth, truth and normals are asked for together
            self._last[index] = frame
        return frame

    @property
    def depths(self) -> Sequence[npt.NDArray[Any]]:
        """The depth images alone."""
        return _Depths(self)


class _Depths(Sequence[npt.NDArray[Any]]):
    def __init__(self, walk: RoomWalk) -> None:
        self._walk = walk

    def __len__(self) -> int:
        return len(self._walk)

    def __getitem__(self, number: Any) -> Any:
        found = self._walk[number]
        return [frame.depth for frame in found] if isinstance(found, list) else found.depth


def make_room_walk(
    n_frames: int = 90,
    *,
    width: int = 640,
    height: int = 480,
    turn: float = math.pi / 2,
    noise: float = 0.0015,
    hole_fraction: float = 0.01,
    depth_range: tuple[float, float] = (0.4, 8.0),
    dtype: str = "uint16",
    n_threads: int | None = None,
    random_state: RandomState = None,
) -> RoomWalk:
    """A depth camera walks through a furnished room, turns to the right, looks, and comes back.

    Nothing is rendered yet: frames are made when they are asked for, about 30 ms each at 640 x 480, and every time with
    the same bits. One frame is kept, so a walk of any length needs the memory of one.

    Parameters
    ----------
    n_frames : int, default=90
        The camera looks ahead for 15% of them, turns for 28%, looks for 14%, turns back for 28%, looks for 15%.
    width, height : int, default=640 and 480
        Size of the images; the view is 62 degrees wide at any size.
    turn : float, default=pi/2
        Angle of the turn to the right, in radians.
    noise : float, default=0.0015
        Standard deviation of the depth at 1 m, in metres; it grows with the square of the depth. 0 for none.
    hole_fraction : float, default=0.01
        Share of the pixels that are lost in small patches, as on dark or shiny things. With it come losses at the rims
        of things and at grazing incidence; 0 loses nothing within the range.
    depth_range : (float, float), default=(0.4, 8.0)
        Metres between which the sensor sees.
    dtype : {"uint16", "float32", "float64"}
        Of the depth: "uint16" in millimetres, the others in metres.
    n_threads : int or None
        Threads that render. None takes every core. The result does not depend on it.
    random_state : int, Generator, RandomState or None
        An int gives the same walk every time.

    Returns
    -------
    RoomWalk
        A sequence of `RoomFrame`, with the camera, its poses and the names of the planes.

    Examples
    --------
    >>> from armillary.vision import make_room_walk
    >>> walk = make_room_walk(30, width=160, height=120, random_state=0)
    >>> frame = walk[0]
    >>> frame.depth.shape, frame.depth.dtype.name, walk.plane_names[frame.plane_ids[100, 5]]
    ((120, 160), 'uint16', 'floor')
    """
    who = "make_room_walk"
    check_integer(n_frames, "n_frames", who, low=1)
    check_number(turn, "turn", who, low=-math.pi, high=math.pi, hint="Angles are in radians.")
    check_number(noise, "noise", who, low=0.0)
    check_number(hole_fraction, "hole_fraction", who, low=0.0, high=0.9)
    check_choice(dtype, "dtype", who, _DEPTH_TYPES)
    directions, direction_ids = _directions()
    return RoomWalk(
        Camera.from_field_of_view(width, height, _HORIZONTAL_VIEW),
        _poses(n_frames, turn),
        (*_WALLS, *(f"{box.name}, {face}" for box in _FURNITURE for face in _FACES), "lamp"),
        direction_ids,
        directions,
        float(noise),
        float(hole_fraction),
        _check_range(depth_range, who),
        dtype,
        Stream.of(random_state).seed,
        thread_count(n_threads, who),
    )


def _check_range(depth_range: Any, who: str) -> tuple[float, float]:
    try:
        near, far = (float(end) for end in depth_range)
    except (TypeError, ValueError):
        near = far = math.nan
    if not 0.0 <= near < far:
        raise ParameterError(
            f"`depth_range` of {who} must be two numbers of metres, 0 <= near < far; got {depth_range!r}. "
            "A Kinect has (0.4, 8.0)."
        )
    return near, far


# --------------------------------------------------------------------------------------- where things are


def _rotation(turn: tuple[float, float, float]) -> Float64Array:
    """About x, then y, then z, each by its angle: columns are the turned axes."""
    found = np.eye(3)
    for axis, angle in enumerate(turn):
        one = np.eye(3)
        i, j = [(1, 2), (2, 0), (0, 1)][axis]
        one[i, i] = one[j, j] = math.cos(angle)
        one[i, j], one[j, i] = -math.sin(angle), math.sin(angle)
        found = one @ found
    return found


def _plane_normals() -> Float64Array:
    """Normals (P, 3) of all faces, in the world; those of the room look inside."""
    sides = np.array([[-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0], [0, 0, -1], [0, 0, 1]], dtype=np.float64)
    return np.concatenate([-sides, *(sides @ _rotation(box.turn).T for box in _FURNITURE)])


def _directions() -> tuple[Float64Array, npt.NDArray[np.int32]]:
    """The different directions (D, 3) among the planes, and that of each plane; the lamp has none."""
    normals = _plane_normals()
    found: list[Float64Array] = []
    ids = []
    for normal in normals:
        same = [number for number, direction in enumerate(found) if direction @ normal > 1.0 - 1e-9]
        if not same:
            found.append(normal)
        ids.append(same[0] if same else len(found) - 1)
    return np.array(found), np.array([*ids, -1], dtype=np.int32)


def _poses(n_frames: int, turn: float) -> Float64Array:
    """Look ahead, turn, look, turn back, look; the camera goes round a bend meanwhile, tilted down a little."""
    time = np.linspace(0.0, 1.0, n_frames)
    share = np.interp(time, [0.0, 0.15, 0.43, 0.57, 0.85, 1.0], [0.0, 0.0, 1.0, 1.0, 0.0, 0.0])
    eased = share * share * (3.0 - 2.0 * share)
    poses = np.zeros((n_frames, 4, 4))
    for pose, part in zip(poses, eased, strict=True):
        pose[:3, :3] = _rotation((_TILT, part * turn, 0.0))
        pose[:3, 3] = (1.0 - part) * _START + part * _END
        pose[3, 3] = 1.0
    return poses


# ------------------------------------------------------------------------------------- what the sensor sees


def _cast(walk: RoomWalk, index: int) -> tuple[Float64Array, npt.NDArray[np.int32]]:
    """True depth and surface (H, W) of a frame."""
    from armillary.kernels.images import rays  # numba loads when first needed

    camera, pose, boxes = walk.camera, walk.poses[index], (_ROOM, *_FURNITURE)
    turns = np.stack([_rotation(box.turn).T for box in boxes])
    low, high = (np.array([getattr(box, side) for box in boxes]) for side in ("low", "high"))
    axes = turns @ pose[:3, :3]
    origins = (turns @ (pose[:3, 3] - 0.5 * (low + high))[..., None])[..., 0]
    is_room = np.arange(len(boxes)) == 0
    lamp, radii = _in_camera(_LAMP_CENTER, pose)[None], np.array([_LAMP_RADIUS])
    x, y = _ray_coordinates(camera)
    depth = np.empty((camera.height, camera.width))
    surface = np.empty((camera.height, camera.width), dtype=np.int32)

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        rays.cast(x, y[part], axes, origins, 0.5 * (high - low), is_room, lamp, radii, depth[part], surface[part])

    with Workers(walk._n_threads) as workers:
        over_rows(workers, camera.height, work)
    return depth, surface


def _render(walk: RoomWalk, index: int) -> RoomFrame:
    depth, surface = _cast(walk, index)
    normals = _true_normals(walk, index, depth, surface)
    measured = _measured(walk, index, depth, normals)
    return RoomFrame(measured, surface, walk.plane_direction_ids[surface], normals)


def _in_camera(point: Float64Array, pose: Float64Array) -> Float64Array:
    found: Float64Array = pose[:3, :3].T @ (point - pose[:3, 3])
    return found


def _ray_coordinates(camera: Camera) -> tuple[Float64Array, Float64Array]:
    """x of each column and y of each row: the ray of a pixel is (x, y, 1)."""
    x, y = np.arange(camera.width, dtype=np.float64), np.arange(camera.height, dtype=np.float64)
    return (x - camera.cx) / camera.fx, (y - camera.cy) / camera.fy


def _true_normals(
    walk: RoomWalk, index: int, depth: Float64Array, surface: npt.NDArray[np.int32]
) -> npt.NDArray[np.float32]:
    """Normals (H, W, 3) in the camera's coordinates."""
    pose = walk.poses[index]
    table = np.concatenate([_plane_normals() @ pose[:3, :3], np.zeros((1, 3))]).astype(np.float32)
    normals = table[surface]
    rows, columns = np.nonzero(surface == len(table) - 1)
    x, y = _ray_coordinates(walk.camera)
    points = depth[rows, columns, None] * np.stack([x[columns], y[rows], np.ones(len(rows))], axis=1)
    normals[rows, columns] = (points - _in_camera(_LAMP_CENTER, pose)) / _LAMP_RADIUS
    return normals


def _measured(walk: RoomWalk, index: int, depth: Float64Array, normals: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    """What the sensor says: noise, losses, range, and the type of its images."""
    stream, measured = Stream(walk._seed), depth
    if walk.noise > 0.0:
        # rays that noise would put behind infinity are lost
        shifts = stream.generator("noise", index).standard_normal(depth.shape, dtype=np.float32)
        inverse = 1.0 / depth + walk.noise * shifts
        measured = np.divide(1.0, inverse, out=np.zeros_like(depth), where=inverse > 1e-3)
    is_seen = (depth >= walk.depth_range[0]) & (depth <= walk.depth_range[1])
    if walk.hole_fraction > 0.0:
        is_seen &= ~_lost(walk, depth, normals, stream.generator("holes", index))
    measured = np.where(is_seen, measured, 0.0)
    if walk.dtype == "uint16":
        return np.minimum(np.rint(measured * walk.camera.depth_scale), 65535).astype(np.uint16)
    return measured.astype(walk.dtype)


def _lost(
    walk: RoomWalk, depth: Float64Array, normals: npt.NDArray[np.float32], rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Pixels without an echo: half of those at rims, rays that graze, and patches."""
    chance = rng.random(depth.shape, dtype=np.float32)
    x, y = (line.astype(np.float32) for line in _ray_coordinates(walk.camera))
    along = normals[..., 0] * x + normals[..., 1] * y[:, None] + normals[..., 2]
    cosine = -along / np.sqrt(x * x + (y * y)[:, None] + 1.0)
    is_lost = chance < (_GRAZING[0] - cosine) / (_GRAZING[0] - _GRAZING[1])
    is_lost |= (chance < _RIM_LOSS) & _rims(depth)
    _punch(is_lost, walk.hole_fraction, rng)
    return is_lost


def _punch(is_lost: npt.NDArray[np.bool_], fraction: float, rng: np.random.Generator) -> None:
    """Round patches that cover about a `fraction` of the image."""
    height, width = is_lost.shape
    low, high = _PATCH_RADII
    mean_area = math.pi * (low * low + low * high + high * high) / 3.0
    # patches overlap: of n patches that cover the share s each, (1 - s)^n of the image stays
    n_patches = rng.poisson(-math.log1p(-fraction) * height * width / mean_area)
    places = rng.uniform((0.0, 0.0, low), (height, width, high), (n_patches, 3))
    for v, u, radius in places:
        top, left = max(0, math.ceil(v - radius)), max(0, math.ceil(u - radius))
        part = is_lost[top : math.floor(v + radius) + 1, left : math.floor(u + radius) + 1]
        rows, columns = np.ogrid[top : top + part.shape[0], left : left + part.shape[1]]
        part |= (rows - v) ** 2 + (columns - u) ** 2 <= radius**2


def _rims(depth: Float64Array) -> npt.NDArray[np.bool_]:
    """Pixels beside a jump of depth."""
    is_rim = np.zeros(depth.shape, dtype=np.bool_)
    for first, second in ((np.s_[:, :-1], np.s_[:, 1:]), (np.s_[:-1], np.s_[1:])):
        one, other = depth[first], depth[second]
        is_jump = np.abs(one - other) > _RIM_JUMP * np.minimum(one, other)
        is_rim[first] |= is_jump
        is_rim[second] |= is_jump
    return is_rim
