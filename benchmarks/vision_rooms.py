"""Rooms, motions and sensors drawn by a seed, for `vision_quality`: what no setting was chosen on.

A room has its own size, boxes and camera: some stand square to the walls, some turned or tilted. The camera walks
between points drawn at random and looks about, with the shake of a hand; frames may be far apart in time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.ndimage import gaussian_filter
from scipy.spatial.transform import Rotation

from armillary.vision import Camera, make_room_walk
from armillary.vision import room as made


@dataclass(frozen=True)
class Kind:
    """A depth camera: its images, and what it gets wrong in inverse depth."""

    name: str
    width: int
    height: int
    view_degrees: float
    noise: float  # standard deviation of the inverse depth, 1/m
    quantum: float  # its steps
    blur: float  # pixels over which the noise hangs together
    near: float
    far: float
    floor: float = 0.0  # metres of noise at any depth


KINDS = (
    Kind("Kinect", 640, 480, 62.0, 0.0010, 1.0 / (8.0 * 0.075 * 580.0), 0.0, 0.4, 8.0),
    Kind("RealSense D435", 848, 480, 86.0, 0.08 / (0.05 * 455.0), 1.0 / (32.0 * 0.05 * 455.0), 1.5, 0.3, 10.0),
    Kind("RealSense D455", 640, 360, 80.0, 0.08 / (0.095 * 380.0), 1.0 / (32.0 * 0.095 * 380.0), 1.5, 0.4, 10.0),
    Kind("time of flight", 320, 240, 62.0, 0.0005, 0.0, 0.0, 0.25, 5.5, floor=0.004),
    Kind("phone", 256, 192, 62.0, 0.0010, 0.0, 2.0, 0.2, 5.0, floor=0.005),
    Kind("clean", 640, 480, 62.0, 0.0, 0.0, 0.0, 0.1, 50.0),
)
WALLS = ("wall left", "wall right", "ceiling", "floor", "wall behind", "wall ahead")


@dataclass(frozen=True)
class DrawnRoom:
    """A walk through a room of its own."""

    name: str
    walk: Any
    room: Any
    boxes: tuple[Any, ...]
    kind: Kind
    seed: int

    @property
    def camera(self) -> Camera:
        """Of its frames."""
        return self.walk.camera

    @property
    def poses(self) -> np.ndarray:
        """(T, 4, 4) camera to world."""
        return self.walk.poses

    def frame(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Measured depth in millimetres, directions and plain walls (H, W), -1 where there is none."""
        with patch.multiple(made, _ROOM=self.room, _FURNITURE=self.boxes):
            frame = self.walk[number]
        numbers = np.array([WALLS.index(name) if name in WALLS else -1 for name in self.walk.plane_names])
        depth = _measured(frame.depth, self.kind, np.random.default_rng([self.seed, number]))
        return depth, frame.direction_ids, numbers[frame.plane_ids]


def drawn_room(seed: int, n_frames: int = 36) -> DrawnRoom:
    """Seeds take the kinds of cameras in turn; every second walk has frames three times as far apart."""
    rng = np.random.default_rng([seed, 2026])
    kind, pace = KINDS[seed % len(KINDS)], 1.0 + 2.0 * (seed // len(KINDS) % 2)
    half_width, half_length = rng.uniform(1.6, 4.5), rng.uniform(2.0, 6.0)
    room = made._Box("room", (-half_width, -1.2, -half_length), (half_width, rng.uniform(1.1, 1.5), half_length))
    boxes = tuple(_box(number, room, rng) for number in range(rng.integers(4, 12)))
    with patch.multiple(made, _ROOM=room, _FURNITURE=boxes):
        walk = make_room_walk(
            n_frames, width=kind.width, height=kind.height, noise=0.0, dtype="float64", depth_range=(0.0, 100.0),
            random_state=seed,
        )  # fmt: skip
    camera = Camera.from_field_of_view(kind.width, kind.height, math.radians(kind.view_degrees))
    walk = replace(walk, camera=camera, poses=_poses(n_frames, pace, room, rng), _last={})
    return DrawnRoom(f"drawn {seed}, {kind.name}{', fast' if pace > 1.0 else ''}", walk, room, boxes, kind, seed)


def _box(number: int, room: Any, rng: np.random.Generator) -> Any:
    """Furniture beside the walls, square to them, turned or leaning."""
    low, high = np.array(room.low), np.array(room.high)
    half = rng.uniform((0.15, 0.15, 0.15), (0.7, 0.9, 0.7))
    side = rng.integers(0, 4)
    center = rng.uniform(low + half, np.maximum(high - half, low + half + 1e-3))
    axis, is_high = (0, 2)[side % 2], side // 2
    half[axis] = min(half[axis], 0.15 * (high - low)[axis])  # the middle, where the camera walks, stays free
    center[axis] = high[axis] - half[axis] if is_high else low[axis] + half[axis]
    center[1] = high[1] - half[1] - rng.choice([0.0, 0.0, rng.uniform(0.0, 1.0)])
    turn = [(0.0, 0.0, 0.0), (0.0, rng.uniform(-0.8, 0.8), 0.0), (rng.uniform(-0.6, 0.6), 0.0, 0.0)]
    return made._Box(
        f"box {number}", tuple(center - half), tuple(center + half), turn[rng.choice(3, p=[0.6, 0.25, 0.15])]
    )


def _poses(n_frames: int, pace: float, room: Any, rng: np.random.Generator) -> np.ndarray:
    """A walk in the middle of the room: 4 cm and 1.5 degrees a frame in the mean, times the pace, with a shake."""
    time = np.arange(n_frames, dtype=np.float64)
    n_points = max(3, math.ceil(n_frames * pace / 12.0) + 1)
    knots = np.linspace(0.0, n_frames - 1.0, n_points)
    reach = 0.35 * np.array([room.high[0], 0.0, room.high[2]]) + [0.0, 0.15, 0.0]
    places = np.cumsum(rng.normal(0.0, 0.4, (n_points, 3)), axis=0)
    places = np.clip(places - places.mean(axis=0), -1.0, 1.0) * reach
    turns = np.cumsum(rng.uniform(-0.5, 0.5, n_points)) + rng.uniform(-math.pi, math.pi)
    tilts, rolls = rng.uniform(-0.5, 0.25, n_points), rng.normal(0.0, 0.06, n_points)
    place, turn, tilt, roll = (PchipInterpolator(knots, line)(time) for line in (places, turns, tilts, rolls))
    shake = rng.normal(0.0, math.radians(0.25), (n_frames, 3))
    poses = np.tile(np.eye(4), (n_frames, 1, 1))
    turned = Rotation.from_euler("YXZ", np.stack([turn, tilt, roll], axis=1)) * Rotation.from_rotvec(shake)
    poses[:, :3, :3] = turned.as_matrix()
    poses[:, :3, 3] = place + rng.normal(0.0, 0.004, (n_frames, 3))
    return poses


def _measured(true: np.ndarray, kind: Kind, rng: np.random.Generator) -> np.ndarray:
    draws = rng.standard_normal(true.shape)
    if kind.blur:
        draws = gaussian_filter(draws, kind.blur) * (2.0 * math.sqrt(math.pi) * kind.blur)
    is_seen = true > 0.0
    z = np.where(is_seen, true, 1.0)
    w = 1.0 / z + (kind.noise + kind.floor / (z * z)) * draws
    if kind.quantum:
        w = np.rint(w / kind.quantum) * kind.quantum
    depth = np.where(w > 1e-3, 1.0 / np.maximum(w, 1e-3), 0.0)
    return np.where(is_seen & (depth >= kind.near) & (depth <= kind.far), np.rint(1000.0 * depth), 0.0).astype(
        np.uint16
    )
