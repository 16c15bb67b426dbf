"""How the camera moved between two depth frames, by point-to-plane registration of few pixels (Chen and Medioni 1992).

It serves the labels: where a pixel was in the last frame, and whether frames agree at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

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


@dataclass(frozen=True, eq=False)
class ViewMotion:
    """A point Y of the last frame is at `rotation` Y + `way` now, both in the coordinates of the camera."""

    rotation: Float64Array  # (3, 3)
    way: Float64Array  # (3,) metres
    agreement: float  # share of the pixels in sight of both frames that lie in the planes of now

    @property
    def is_found(self) -> bool:
        """Whether the frames agree."""
        return self.agreement >= _LEAST_AGREEMENT


def estimated_motion(
    depth: FloatArray, normals: Normals, last: FloatArray, camera: Camera, turns: Iterable[Float64Array | None]
) -> ViewMotion:
    """From depth (H, W) in metres and normals of now, and the depth of the last frame.

    It starts from each of `turns` (3, 3) until frames agree well, and takes the motion with the best agreement.
    """
    best = ViewMotion(np.eye(3), np.zeros(3), 0.0)
    for turn in turns:
        if turn is None:
            continue
        found = _from_turn(depth, normals, last, camera, turn)
        if found.agreement > best.agreement:
            best = found
        if best.agreement >= _ENOUGH:
            break
    return best


def _from_turn(depth: FloatArray, normals: Normals, last: FloatArray, camera: Camera, turn: Float64Array) -> ViewMotion:
    from armillary.kernels.images import motion as kernels  # numba loads when first needed

    rotation, way, agreement = np.array(turn, dtype=np.float64), np.zeros(3), 0.0
    lens = np.array([camera.fx, camera.fy, camera.cx, camera.cy])
    step = max(1, _STEP * camera.width // 640)
    for gate in _GATES:
        matrix, vector = np.zeros((6, 6)), np.zeros(6)
        n_asked, n_found, n_near = kernels.motion_sums(
            depth, normals.vectors, normals.is_valid, last, lens, rotation, way, step, gate, _WIDTH, matrix, vector
        )
        agreement = n_near / max(1, n_asked)
        if n_found < _LEAST_FOUND:
            return ViewMotion(rotation, way, 0.0)
        change = _solved(matrix, vector, n_found)
        turned = _turned(change[:3])
        rotation, way = turned @ rotation, turned @ way + change[3:]
        if np.abs(change).max() < _STILL:
            break
    return ViewMotion(rotation, way, agreement)


def _turned(vector: Float64Array) -> Float64Array:
    """The rotation about a vector by its length (Rodrigues): `Rotation.from_rotvec` takes ten times as long for one."""
    angle = math.sqrt(float(vector @ vector))
    x, y, z = vector.tolist()
    across = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    # sin(a) / a and (1 - cos(a)) / a^2, which is half the square of sin(a / 2) / (a / 2)
    whole, half = np.sinc(angle / math.pi), np.sinc(0.5 * angle / math.pi)
    return np.asarray(np.eye(3) + whole * across + 0.5 * half * half * (across @ across))


def _solved(matrix: Float64Array, vector: Float64Array, n_found: int) -> Float64Array:
    """What the sums say; a small price keeps still what they say nothing of, as the way along a corridor."""
    whole = matrix + np.triu(matrix, 1).T
    return np.asarray(np.linalg.solve(whole + 1e-4 * n_found * np.diag([1e-2, 1e-2, 1e-2, 1.0, 1.0, 1.0]), vector))
