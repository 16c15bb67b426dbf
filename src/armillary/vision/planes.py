"""Planes of a frame: the parts of its segments that hang together and lie at one offset, with place and size.

A segment has a direction; a wall and a cupboard before it share it. Pixels of one label that hang together are cut
where their offset n . p jumps: offsets are put into bins as wide as the noise of the sensor there allows, runs of bins
with few pixels between them end a plane, and each plane is fitted by its points.

Clusters are wide: a board that leans may have the id of the wall. Before it is cut, a label is parted where its normals
have more than one mode. Noise far away looks like modes, too; what is one has points that lie in a plane across it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import binary_dilation, label

from armillary._typing import Float64Array
from armillary.exceptions import InputError
from armillary.geometry.rotation import mean_rotation
from armillary.validation import check_angle, check_integer, check_positive
from armillary.vision.camera import Camera, check_camera
from armillary.vision.manhattan import Manhattan, checked_direction, checked_directions
from armillary.vision.segmenter import SegmentedFrame, check_frame

_BRIDGED = 6  # pixels at 640 x 480 that are passed over on either side
# Of the normals of one label: modes are so far apart, a mode takes in what is so near, and no more are looked for
_APART, _REACH, _MOST_MODES = math.radians(20.0), math.radians(12.0), 6
_SHIFTS, _SAMPLE = 5, 1000  # steps to a mode, and normals among which the densest is looked for


@dataclass(frozen=True, eq=False)
class Plane:
    """A flat part of a frame, in the coordinates of its camera: x right, y down, z ahead, metres.

    Examples
    --------
    >>> from armillary.vision import DirectionSegmenter, find_planes, make_room_walk
    >>> walk = make_room_walk(30, width=160, height=120, random_state=0)
    >>> planes, _ = find_planes(DirectionSegmenter(camera=walk.camera).step(walk[0].depth), walk.camera)
    >>> planes[0].offset < 0.0, sorted(planes[0].to_dict())[:3]
    (True, ['area', 'center', 'extent'])
    """

    id: int  # of its direction
    normal: Float64Array  # (3,) unit, towards the camera
    offset: float  # n . p of its points; below 0, since it faces the camera
    center: Float64Array  # (3,) mean of its points
    area: float  # square metres
    extent: tuple[float, float]  # metres along its longest axis and across
    n_pixels: int
    roughness: float  # metres, the median distance of its points

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON.

        Returns
        -------
        dict
            Its fields, rounded.
        """
        return {
            "id": self.id,
            "normal": [round(value, 6) for value in self.normal.tolist()],
            "offset": round(self.offset, 5),
            "center": [round(value, 5) for value in self.center.tolist()],
            "area": round(self.area, 5),
            "extent": [round(value, 4) for value in self.extent],
            "n_pixels": self.n_pixels,
            "roughness": round(self.roughness, 5),
        }


def find_planes(
    frame: SegmentedFrame, camera: Camera, *, min_pixels: int | None = None, gap: float = 0.05
) -> tuple[list[Plane], npt.NDArray[np.int32]]:
    """The planes of a segmented frame, the largest first, and the plane of each pixel (H, W) as its number, or -1.

    Parameters
    ----------
    frame : SegmentedFrame
        Of depth.
    camera : Camera
    min_pixels : int, optional
        Smaller ones are left out; by default one in 500 pixels of the image.
    gap : float, default=0.05
        Metres between the offsets of two planes with one direction; where noise is greater, three times that.

    Returns
    -------
    planes : list of Plane
        The largest first.
    numbers : array of shape (H, W), int32
        The plane of each pixel, or -1.

    Examples
    --------
    >>> from armillary.vision import DirectionSegmenter, find_planes, make_room_walk
    >>> walk = make_room_walk(30, width=160, height=120, random_state=0)
    >>> planes, numbers = find_planes(DirectionSegmenter(camera=walk.camera).step(walk[0].depth), walk.camera)
    >>> planes[0].area > 1.0 and numbers.shape == (120, 160)
    True
    """
    who = "find_planes"
    check_frame(frame, who)
    check_camera(camera, who)
    if frame.depth is None:
        raise InputError(f"{who} needs a frame of depth; this one was segmented from normals. Give depth to `step`.")
    check_positive(gap, "gap", who)
    least = frame.labels.size // 500 if min_pixels is None else check_integer(min_pixels, "min_pixels", who, low=3)
    points = camera.points(frame.depth)[0].reshape(-1, 3).astype(np.float64)
    vectors = frame.normals.vectors.reshape(-1, 3)
    found: list[tuple[Plane, npt.NDArray[np.int64]]] = []
    for number, direction in zip(frame.ids, frame.directions, strict=True):
        places = np.flatnonzero((frame.labels.ravel() == number) & (frame.depth.ravel() > 0.0))
        if len(places) < max(3, least) or not direction.any():
            continue
        for mode, part in _by_modes(places, direction, vectors, points, camera, gap, max(3, least)):
            found += _parts(number, mode, part, points, camera, gap, max(3, least))
    found.sort(key=lambda one: -one[0].area)
    numbers = np.full(frame.labels.size, -1, dtype=np.int32)
    for place, (_, pixels) in enumerate(found):
        numbers[pixels] = place
    return [plane for plane, _ in found], numbers.reshape(frame.labels.shape)


def _by_modes(
    places: npt.NDArray[np.int64],
    direction: Float64Array,
    vectors: npt.NDArray[np.float32],
    points: Float64Array,
    camera: Camera,
    gap: float,
    least: int,
) -> list[tuple[Float64Array, npt.NDArray[np.int64]]]:
    """Pixels of one label by the modes of their normals; those without a normal go with the largest."""
    normals = vectors[places].astype(np.float64)
    has_normal = np.asarray(normals.any(axis=1))
    modes = _modes(normals[has_normal], least)
    if len(modes) < 2:
        return [(direction, places)]
    owners = _nearest(normals, has_normal, modes)
    modes = modes[[_lies_across(modes, k, places[owners == k], points, camera, gap, least) for k in range(len(modes))]]
    if len(modes) < 2:
        return [(direction, places)]
    owners = _nearest(normals, has_normal, modes)
    for k, mode in enumerate(modes):
        for piece in _pieces(places[owners == k], mode, points, camera, gap, least):
            # rims have normals between two planes; their points tell of which they are
            owners[np.searchsorted(places, piece)] = np.abs(modes @ _fitted(points[piece])[0]).argmax()
    return [(mode, places[owners == k]) for k, mode in enumerate(modes) if np.count_nonzero(owners == k) >= least]


def _nearest(normals: Float64Array, has_normal: npt.NDArray[np.bool_], modes: Float64Array) -> npt.NDArray[np.int64]:
    """The mode of each pixel (n,); those without a normal go with the largest."""
    owners = np.zeros(len(normals), dtype=np.int64)
    if len(modes):
        owners[has_normal] = (normals[has_normal] @ modes.T).argmax(axis=1)
        owners[~has_normal] = np.bincount(owners[has_normal], minlength=1).argmax()
    return owners


def _modes(normals: Float64Array, least: int) -> Float64Array:
    """Directions (M, 3) that at least so many normals (n, 3) lie around, by mean shifts from where they are densest."""
    found: list[Float64Array] = []
    free = normals
    while len(found) < _MOST_MODES and len(free) >= least:
        some = free[:: -(-len(free) // _SAMPLE)]
        mode = some[(some @ some.T >= math.cos(_REACH)).sum(axis=1).argmax()]
        for _ in range(_SHIFTS):
            total = free[free @ mode >= math.cos(_REACH)].sum(axis=0)
            if not total.any():
                break
            mode = total / np.linalg.norm(total)
        if np.count_nonzero(free @ mode >= math.cos(_REACH)) < least:
            break
        found.append(mode)
        free = free[free @ mode < math.cos(_APART)]
    return np.array(found).reshape(-1, 3)


def _lies_across(
    modes: Float64Array,
    k: int,
    places: npt.NDArray[np.int64],
    points: Float64Array,
    camera: Camera,
    gap: float,
    least: int,
) -> bool:
    """Whether the largest piece of a mode lies in a plane across it."""
    pieces = _pieces(places, modes[k], points, camera, gap, least)
    if not pieces:
        return False
    normal, _ = _fitted(points[max(pieces, key=len)])
    return bool(abs(normal @ modes[k]) >= math.cos(_REACH))


def _pieces(
    places: npt.NDArray[np.int64], mode: Float64Array, points: Float64Array, camera: Camera, gap: float, least: int
) -> list[npt.NDArray[np.int64]]:
    """Pixels at one offset along a mode that hang together."""
    if len(places) < least:
        return []
    parts = _cut(places, points[places] @ mode, points[places, 2], camera, gap, least)
    return [piece for part in parts for piece in _connected(part, camera, least)]


def _parts(
    number: int,
    direction: Float64Array,
    places: npt.NDArray[np.int64],
    points: Float64Array,
    camera: Camera,
    gap: float,
    least: int,
) -> list[tuple[Plane, npt.NDArray[np.int64]]]:
    """Pixels of about one direction cut by offset, each part fitted and cut once more by its own normal."""
    found = []
    for part in _cut(places, points[places] @ direction, points[places, 2], camera, gap, least):
        normal, _ = _fitted(points[part])
        if abs(normal @ direction) < math.cos(math.radians(30.0)):
            normal = direction
        normal = normal if normal @ points[part].mean(axis=0) < 0.0 else -normal
        for level in _cut(part, points[part] @ normal, points[part, 2], camera, gap, least):
            for piece in _connected(level, camera, least):
                found.append((_described(number, normal, points[piece], camera), piece))
    return found


def _connected(places: npt.NDArray[np.int64], camera: Camera, least: int) -> list[npt.NDArray[np.int64]]:
    """Places (n,) in groups that hang together, over gaps of a few pixels as thin things before a wall leave them."""
    rows, columns = np.divmod(places, camera.width)
    top, left = rows.min(), columns.min()
    is_there = np.zeros((rows.max() - top + 1, columns.max() - left + 1), dtype=np.bool_)
    is_there[rows - top, columns - left] = True
    reach = max(1, _BRIDGED * camera.width // 640)
    numbers, n_groups = label(binary_dilation(is_there, iterations=reach))
    of_place = numbers[rows - top, columns - left]
    found = [places[of_place == number] for number in range(1, n_groups + 1)]
    return [part for part in found if len(part) >= least]


def _cut(
    places: npt.NDArray[np.int64],
    offsets: Float64Array,
    depths: Float64Array,
    camera: Camera,
    gap: float,
    least: int,
) -> list[npt.NDArray[np.int64]]:
    """Places (n,) in groups of one offset: bins with few pixels lie between two groups."""
    noise = 0.0015 * float(np.median(depths)) ** 2 if camera.sensor is None else camera.sensor.deviation(
        float(np.median(depths))
    )  # fmt: skip
    width = max(gap, 3.0 * noise) / 2.0
    bins = np.floor((offsets - offsets.min()) / width).astype(np.int64)
    counts = np.bincount(bins)
    # a valley: fewer than a tenth of the higher of the two peaks beside it would have in one bin
    is_full = counts >= max(least / 4.0, 0.1 * np.convolve(counts, np.ones(5), mode="same").max() / 5.0)
    edges = np.diff(np.concatenate([[0], is_full.astype(np.int8), [0]]))
    groups = [
        (first, last) for first, last in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True)
    ]
    found = [places[(bins >= first) & (bins < last)] for first, last in groups]
    return [part for part in found if len(part) >= least]


def _fitted(points: Float64Array) -> tuple[Float64Array, Float64Array]:
    """The normal (3,) of a plane through points by least squares, and its axes (2, 3), the longer first."""
    _, axes = np.linalg.eigh(np.cov(points.T))
    return axes[:, 0], axes[:, [2, 1]].T


def _described(number: int, normal: Float64Array, points: Float64Array, camera: Camera) -> Plane:
    center = points.mean(axis=0)
    distances = (points - center) @ normal
    flat = points - center - distances[:, None] * normal
    _, axes = _fitted(flat)
    spans = [np.quantile(flat @ axis, 0.99) - np.quantile(flat @ axis, 0.01) for axis in axes]
    # a pixel with the ray r = (x, y, 1) covers z^2 / (fx fy |r . n|) of a plane
    slants = np.maximum(np.abs(points / points[:, 2:] @ normal), 0.05)
    area = float((np.square(points[:, 2]) / slants).sum() / (camera.fx * camera.fy))
    return Plane(
        id=number,
        normal=normal,
        offset=float(center @ normal),
        center=center,
        area=area,
        extent=(float(spans[0]), float(spans[1])),
        n_pixels=len(points),
        roughness=float(np.median(np.abs(distances))),
    )


# ---------------------------------------------------------------------------------------- frames over a stream


@dataclass(frozen=True, eq=False)
class Atlanta:
    """The vertical of a scene and its walls: one direction up, and orthogonal frames that share it.

    Examples
    --------
    >>> from armillary.vision import atlanta_frames
    >>> found = atlanta_frames([[0, -1, 0], [1, 0, 0], [0, 0, -1]], up=[0, -1, 0])
    >>> found.up.tolist(), found.weights.tolist()
    ([0.0, -1.0, 0.0], [1.0])
    """

    up: Float64Array  # (3,) unit, against gravity
    frames: Float64Array  # (F, 3, 3) rows: up, and two horizontal axes at right angles
    weights: Float64Array  # (F,) shares of what is horizontal


def gravity_direction(directions: Any, weights: Any = None, *, guess: Any = (0.0, 1.0, 0.0)) -> Float64Array:
    """Which way is down, a unit vector (3,): the axis of the Manhattan frame of directions (K, 3) nearest to `guess`.

    By default the guess is y, down in an image of a camera that is held upright. For a camera that looks up or down by
    more than 45 degrees, or lies on its side, give a better one: a wall and the floor look alike without it.

    Parameters
    ----------
    directions : array-like of shape (K, 3)
        Normals of planes.
    weights : array-like of shape (K,), optional
        How much each counts.
    guess : array-like of shape (3,), default=(0, 1, 0)
        Roughly down.

    Returns
    -------
    array of shape (3,)
        A unit vector.

    Examples
    --------
    >>> from armillary.vision import gravity_direction
    >>> gravity_direction([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]]).tolist()
    [0.0, 1.0, 0.0]
    """
    who = "gravity_direction"
    wanted = checked_direction(guess, "guess", who)
    vectors, shares = checked_directions(directions, weights, who)
    found = Manhattan.of(vectors, shares, max_frames=1)
    axes = found.frames[0] if len(found.frames) else vectors
    along = axes @ wanted
    best = int(np.abs(along).argmax())
    return np.asarray(axes[best] * np.sign(along[best])) + 0.0


def atlanta_frames(
    directions: Any, weights: Any = None, *, up: Any = None, tolerance: float = math.radians(10.0)
) -> Atlanta:
    """Horizontal frames that share one vertical: walls at right angles, and others that stand at other angles.

    Parameters
    ----------
    directions : array of shape (K, 3)
        In one frame of coordinates: of a camera, or of the world for a stream.
    weights : array of shape (K,), optional
    up : (3,), optional
        Against gravity; by default `-gravity_direction(directions, weights)`.
    tolerance : float, default=10 degrees
        In radians, between a wall and the axis of its frame, and of a wall from the horizontal.

    Returns
    -------
    Atlanta
        `up`, `frames` and `weights`.

    Examples
    --------
    >>> from armillary.vision import atlanta_frames
    >>> found = atlanta_frames([[0, -1, 0], [1, 0, 0], [0, 0, -1], [0.8, 0, 0.6]], up=[0, -1, 0])
    >>> found.frames.shape
    (2, 3, 3)
    """
    who = "atlanta_frames"
    vectors, shares = checked_directions(directions, weights, who)
    tolerance = min(check_angle(tolerance, "tolerance", who), 0.25 * math.pi)
    vertical = -gravity_direction(vectors, shares) if up is None else checked_direction(up, "up", who)
    is_wall = np.abs(vectors @ vertical) <= math.sin(tolerance)
    one = np.cross(vertical, [0.0, 0.0, 1.0] if abs(vertical[2]) < 0.9 else [1.0, 0.0, 0.0])
    one /= np.linalg.norm(one)
    other = np.cross(vertical, one)
    # walls at right angles have one angle modulo 90 degrees: four times it is one direction of the plane
    angles, held = np.arctan2(vectors[is_wall] @ other, vectors[is_wall] @ one), shares[is_wall]
    frames, sizes = [], []
    while len(angles):
        gaps = np.abs((4.0 * (angles[:, None] - angles[None]) + math.pi) % (2.0 * math.pi) - math.pi) / 4.0
        best = int((held * (gaps <= tolerance)).sum(axis=1).argmax())
        is_in = gaps[best] <= tolerance
        angle = np.angle((held * np.exp(4j * angles))[is_in].sum()) / 4.0
        axis = math.cos(angle) * one + math.sin(angle) * other
        frames.append(np.stack([vertical, axis, np.cross(vertical, axis)]))
        sizes.append(held[is_in].sum())
        angles, held = angles[~is_in], held[~is_in]
    total = max(float(np.sum(sizes)), 1e-300)
    order = np.argsort(sizes)[::-1]
    return Atlanta(
        vertical, np.array(frames).reshape(-1, 3, 3)[order], np.array(sizes, dtype=np.float64)[order] / total
    )


class WorldFrames:
    """The directions of a stream in the world of its first frame: add each frame, then ask for frames and gravity.

    Gravity is told with y of the first frame as the guess, see `gravity_direction`.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.vision import DirectionSegmenter, WorldFrames
    >>> wall, floor = np.tile([0.0, 0.0, -1.0], (4, 6, 1)), np.tile([0.0, -1.0, 0.0], (4, 6, 1))
    >>> world = WorldFrames()
    >>> world.add(DirectionSegmenter().step(np.vstack([wall, floor])))
    >>> world.to_dict()["gravity"]
    [0.0, 1.0, 0.0]
    """

    def __init__(self) -> None:
        self._to_world = np.eye(3)
        self._sums: dict[int, Float64Array] = {}

    @property
    def rotation(self) -> Float64Array:
        """(3, 3) from the camera of the last frame to the world."""
        return self._to_world

    def add(self, frame: SegmentedFrame) -> None:
        """The next frame, with the turn that was followed.

        Parameters
        ----------
        frame : SegmentedFrame
            What `DirectionSegmenter.step` returned.
        """
        check_frame(frame, "WorldFrames.add")
        for gone, kept in frame.merges:
            if gone in self._sums:
                self._sums[kept] = self._sums.get(kept, np.zeros(3)) + self._sums.pop(gone)
        if frame.rotation is not None:
            turned = self._to_world @ frame.rotation.T
            self._to_world = mean_rotation(np.eye(3), turned.T)  # rounding does not grow
        for number, direction in zip(frame.ids, frame.directions, strict=True):
            total = self._sums.get(number, np.zeros(3))
            self._sums[number] = total + frame.shares[number] * (self._to_world @ direction)

    def directions(self) -> tuple[tuple[int, ...], Float64Array, Float64Array]:
        """Ids (K,), unit directions (K, 3) in the world and weights (K,).

        Returns
        -------
        ids : tuple of K int
        directions : array of shape (K, 3)
        weights : array of shape (K,)
        """
        ids = tuple(sorted(number for number, total in self._sums.items() if np.linalg.norm(total) > 0.0))
        sums = np.array([self._sums[number] for number in ids]).reshape(-1, 3)
        lengths = np.linalg.norm(sums, axis=1)
        return ids, sums / np.maximum(lengths, 1e-300)[:, None], lengths

    def to_dict(self) -> dict[str, Any]:
        """Directions, Manhattan and Atlanta frames and gravity in the world, as plain numbers.

        Returns
        -------
        dict
            For JSON.
        """
        ids, directions, weights = self.directions()
        if not ids:
            return {"ids": [], "directions": [], "weights": [], "manhattan": [], "atlanta": [], "gravity": None}
        manhattan, down = Manhattan.of(directions, weights), gravity_direction(directions, weights)
        atlanta = atlanta_frames(directions, weights, up=-down)
        return {
            "ids": list(ids),
            "directions": np.round(directions, 6).tolist(),
            "weights": np.round(weights, 4).tolist(),
            "manhattan": [
                {"axes": np.round(frame, 6).tolist(), "weight": round(float(weight), 4)}
                for frame, weight in zip(manhattan.frames, manhattan.weights, strict=True)
            ],
            "atlanta": [
                {"axes": np.round(frame, 6).tolist(), "weight": round(float(weight), 4)}
                for frame, weight in zip(atlanta.frames, atlanta.weights, strict=True)
            ],
            "gravity": np.round(down, 6).tolist(),
        }
