"""How the camera moved between two depth frames, by point-to-plane registration of few pixels (Chen and Medioni 1992).

It serves the labels: where a pixel was in the last frame, and whether frames agree at all.

Where one plane alone is in sight, nothing tells of a turn about its normal but the noise of the normals: a search that
goes on from the last turn then spins ever faster, to 20 degrees a frame on a made floor. Such an axis is told by what
the sums know of it, beside what noise alone would make them know, and the view is taken to rest about it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from armillary._typing import Float64Array, FloatArray
from armillary.vision.camera import Camera
from armillary.vision.normals import Normals

# pixels in a row and a column that look for one, steps, and how far a point may be from its plane, by its depth
_STEP, _WIDTH = 12, 0.015
_GATES = (0.25, 0.2, 0.15, 0.1, 0.08, 0.06, 0.06)
# a step that moves less than this (radians, metres) is the last
_STILL = 2e-4
# of the pixels that see what was in sight before: below this share they do not agree
_LEAST_AGREEMENT = 0.5
_ENOUGH = 0.9
_LEAST_FOUND = 50
# What is known of an axis, the mean square of |p x n| / z along it, must be so many times that of noise alone; and an
# axis of which more is known than this is always seen: clutter looks like noise
_BEYOND_NOISE, _CERTAINLY_SEEN = 3.0, 1.5e-3
_NO_AXES, _REST = np.empty((3, 0)), np.eye(3)
# beside means over pixels: a small one keeps still what they say nothing of, and a large one holds what is told
_PRICES, _HELD = 1e-4 * np.diag([1e-2, 1e-2, 1e-2, 1.0, 1.0, 1.0]), 1e3


@dataclass(frozen=True, eq=False)
class ViewMotion:
    """A point Y of the last frame is at `rotation` Y + `way` now, both in the coordinates of the camera."""

    rotation: Float64Array  # (3, 3)
    way: Float64Array  # (3,) metres
    agreement: float  # share of the pixels in sight of both frames that lie in the planes of now
    n_unseen_axes: int = 0  # about which nothing in sight tells how it turned, and it is taken to rest

    @property
    def is_found(self) -> bool:
        """Whether the frames agree."""
        return self.agreement >= _LEAST_AGREEMENT


def estimated_motion(
    depth: FloatArray,
    normals: Normals,
    last: FloatArray,
    camera: Camera,
    turns: Iterable[Float64Array | None],
    rest: Float64Array = _REST,
) -> ViewMotion:
    """From depth (H, W) in metres and normals of now, and the depth of the last frame.

    It starts from each of `turns` (3, 3) until frames agree well, and takes the motion with the best agreement. About
    axes that nothing tells of, the turn is that of `rest` (3, 3).
    """
    best = ViewMotion(np.eye(3), np.zeros(3), 0.0)
    for turn in turns:
        if turn is None:
            continue
        found = _from_turn(depth, normals, last, camera, turn, rest)
        if found.agreement > best.agreement:
            best = found
        if best.agreement >= _ENOUGH:
            break
    return best


def _from_turn(
    depth: FloatArray, normals: Normals, last: FloatArray, camera: Camera, turn: Float64Array, rest: Float64Array
) -> ViewMotion:
    """The motion found from one turn; once more with the view at rest about axes that nothing tells of."""
    found, sums = _searched(depth, normals, last, camera, turn)
    unseen = _unseen_axes(sums, normals, camera)
    if not unseen.size:
        return found
    found, _ = _searched(depth, normals, last, camera, turn, unseen, rest)
    return replace(found, n_unseen_axes=unseen.shape[1])


def _searched(
    depth: FloatArray,
    normals: Normals,
    last: FloatArray,
    camera: Camera,
    turn: Float64Array,
    unseen: Float64Array = _NO_AXES,
    rest: Float64Array = _REST,
) -> tuple[ViewMotion, Float64Array]:
    """The motion, and the means (6, 6) over pixels that its last step was made from."""
    from armillary.kernels.images import motion as kernels  # numba loads when first needed

    rotation, way, agreement = np.array(turn, dtype=np.float64), np.zeros(3), 0.0
    lens = np.array([camera.fx, camera.fy, camera.cx, camera.cy])
    step, whole = _step(camera), np.eye(6)
    for gate in _GATES:
        sums = np.zeros((7, 8))
        n_asked, n_found, n_near = kernels.motion_sums(
            depth, normals.vectors, normals.is_valid, last, lens, rotation, way, step, gate, _WIDTH, sums
        )
        agreement = n_near / max(1, n_asked)
        if n_found < _LEAST_FOUND:
            return ViewMotion(rotation, way, 0.0), np.eye(6)
        means = sums[:6] / n_found
        whole = means[:, :6] + _PRICES
        change = _solved(whole, means[:, 6], unseen, rotation, rest)
        turned = _turned(change[:3])
        rotation, way = turned @ rotation, turned @ way + change[3:]
        if np.abs(change).max() < _STILL:
            break
    return ViewMotion(rotation, way, agreement), whole


def _unseen_axes(sums: Float64Array, normals: Normals, camera: Camera) -> Float64Array:
    """The axes (3, n) about which the sums tell no more than noise would."""
    # what is known of the turn, whatever the way is
    known, axes = np.linalg.eigh(sums[:3, :3] - sums[:3, 3:] @ np.linalg.solve(sums[3:, 3:], sums[3:, :3]))
    if known[0] >= _CERTAINLY_SEEN:
        return _NO_AXES
    least = min(_CERTAINLY_SEEN, _BEYOND_NOISE * _noise_of(normals, camera))
    return np.ascontiguousarray(axes[:, known < least])


def _noise_of(normals: Normals, camera: Camera) -> float:
    """The variance of normals along an axis: neighbours in a plane differ by little else."""
    step = _step(camera)
    some, is_valid = normals.vectors[::step, ::step], normals.is_valid[::step, ::step]
    gaps = np.square(some[:, 1:] - some[:, :-1]).sum(axis=2)[is_valid[:, 1:] & is_valid[:, :-1]]
    quarter = len(gaps) // 4
    # twice the variance times a chi-square of two degrees, whose lower quartile is 0.575
    return float(np.partition(gaps, quarter)[quarter]) / 1.15 if len(gaps) else 0.0


def _step(camera: Camera) -> int:
    return max(1, _STEP * camera.width // 640)


def _turned(vector: Float64Array) -> Float64Array:
    """The rotation about a vector by its length (Rodrigues): `Rotation.from_rotvec` takes ten times as long for one."""
    x, y, z = vector.tolist()
    angle = math.sqrt(x * x + y * y + z * z)
    # sin(a) / a and (1 - cos(a)) / a^2, which is half the square of sin(a / 2) / (a / 2)
    one, half = (1.0, 1.0) if angle < 1e-9 else (math.sin(angle) / angle, math.sin(0.5 * angle) / (0.5 * angle))
    two = 0.5 * half * half
    return np.array(
        [
            [1.0 - two * (y * y + z * z), two * x * y - one * z, two * x * z + one * y],
            [two * x * y + one * z, 1.0 - two * (x * x + z * z), two * y * z - one * x],
            [two * x * z - one * y, two * y * z + one * x, 1.0 - two * (x * x + y * y)],
        ]
    )


def _solved(
    whole: Float64Array, vector: Float64Array, unseen: Float64Array, rotation: Float64Array, rest: Float64Array
) -> Float64Array:
    """What the sums say; about axes that are not seen, the turn of `rotation` beyond `rest` is taken back."""
    if not unseen.size:
        return np.asarray(np.linalg.solve(whole, vector))
    price = np.zeros((6, 6))
    price[:3, :3] = _HELD * unseen @ unseen.T
    return np.asarray(np.linalg.solve(whole + price, vector - price[:, :3] @ _axis(rotation @ rest.T)))


def _axis(rotation: Float64Array) -> Float64Array:
    """The vector (3,) about which, and by whose length in radians, a rotation turns."""
    # atan2 of sine and cosine keeps precision for small turns
    sines = 0.5 * np.array(
        [rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1]]
    )
    length = math.sqrt(float(sines @ sines))
    return sines if length < 1e-12 else sines * (math.atan2(length, 0.5 * (float(np.trace(rotation)) - 1.0)) / length)
