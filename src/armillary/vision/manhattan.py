"""Directions grouped into orthogonal frames: the Manhattan worlds of a scene.

Walls, floors and the sides of furniture tend to have normals along six directions, plus and minus three orthogonal
axes. Each pair of directions that are orthogonal within a tolerance proposes a frame; the one that holds the greatest
weight is taken, fitted to all it holds, and the rest is searched again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.exceptions import InputError
from armillary.geometry.rotation import mean_rotation
from armillary.validation import check_angle, check_integer, check_sample_weight, unit_rows

_EYE = np.eye(3)


@dataclass(frozen=True, eq=False)
class Manhattan:
    """Orthogonal frames of a set of directions; made by `Manhattan.of`.

    Examples
    --------
    >>> from armillary.vision import Manhattan
    >>> found = Manhattan.of([[0, 1, 0], [1, 0, 0], [0.6, 0, 0.8]])
    >>> found.frame_ids.tolist()
    [0, 0, -1]
    """

    frames: Float64Array  # (F, 3, 3) rotations; the rows of frame f are its axes
    frame_ids: npt.NDArray[np.int64]  # (K,) the frame of each direction, -1 for none
    axes: npt.NDArray[np.int64]  # (K,) 0 to 2, the axis it lies along; -1 for none
    signs: npt.NDArray[np.int64]  # (K,) 1 or -1, which way; 0 for none
    weights: Float64Array  # (F,) what a frame holds, of a total of 1

    @classmethod
    def of(
        cls,
        directions: Any,
        weights: Any = None,
        *,
        tolerance: float = math.radians(10.0),
        max_frames: int | None = None,
    ) -> Manhattan:
        """Group unit directions (K, 3), say the `cluster_centers_` of a model, into orthogonal frames.

        A frame has directions along at least two of its axes. Frames come by falling weight; axes of a frame are
        fitted to its directions by the mean rotation, weighted. The cost is that of K^3 products.

        Parameters
        ----------
        directions : array of shape (K, 3)
        weights : array of shape (K,), optional
            How much each counts: the number of its pixels, say.
        tolerance : float, default=10 degrees
            Greatest angle between a direction and its axis, in radians, at most pi/4.
        max_frames : int, optional
            Stop after so many.

        Returns
        -------
        Manhattan
            Frames, and which direction lies along which axis.

        Examples
        --------
        >>> import numpy as np
        >>> from armillary.vision import Manhattan
        >>> found = Manhattan.of([[0, 1, 0], [0, -1, 0.02], [1, 0, 0], [0.6, 0, 0.8]])
        >>> found.frame_ids.tolist(), found.axes.tolist()[:2]
        ([0, 0, 0, -1], [0, 0])
        """
        who = "Manhattan.of"
        vectors, shares = checked_directions(directions, weights, who)
        limit = math.cos(min(check_angle(tolerance, "tolerance", who), 0.25 * math.pi))
        if max_frames is not None:
            check_integer(max_frames, "max_frames", who, low=1, hint="None finds all.")
        frames: list[Float64Array] = []
        frame_ids, axes, signs = (np.full(len(vectors), -1, dtype=np.int64) for _ in range(3))
        while max_frames is None or len(frames) < max_frames:
            is_free = frame_ids < 0
            found = _best_frame(vectors, np.where(is_free, shares, 0.0), is_free, limit)
            if found is None:
                break
            frame, members = found
            along = vectors[members] @ frame.T
            axes[members] = np.abs(along).argmax(axis=1)
            signs[members] = np.sign(along[np.arange(len(members)), axes[members]])
            frame_ids[members] = len(frames)
            frames.append(frame)
        signs[frame_ids < 0] = 0
        held = np.array([shares[frame_ids == number].sum() for number in range(len(frames))])
        return cls(np.array(frames).reshape(-1, 3, 3), frame_ids, axes, signs, held)


def checked_directions(directions: Any, weights: Any, who: str) -> tuple[Float64Array, Float64Array]:
    """Unit directions (K, 3), and their shares (K,), which sum to one."""
    vectors = np.asarray(unit_rows(directions, who, what="directions"), dtype=np.float64)
    if vectors.shape[1] != 3:
        raise InputError(f"`directions` of {who} must have 3 columns; got {vectors.shape[1]}. Give normals.")
    given = check_sample_weight(weights, len(vectors), who, "weights")
    return vectors, np.full(len(vectors), 1.0 / len(vectors)) if given is None else given / given.sum()


def checked_direction(direction: Any, name: str, who: str) -> Float64Array:
    """One unit vector (3,)."""
    found = np.asarray(unit_rows([direction], who, what=name), dtype=np.float64)
    if found.shape != (1, 3):
        raise InputError(f"`{name}` of {who} must have 3 numbers; got {found.shape[1]}. Give one direction.")
    return found[0]


def _best_frame(
    vectors: Float64Array, shares: Float64Array, is_free: npt.NDArray[np.bool_], limit: float
) -> tuple[Float64Array, npt.NDArray[np.int64]] | None:
    """The frame that holds most, and the directions it holds; None where no two free ones are orthogonal."""
    best: tuple[float, Float64Array] | None = None
    # two directions, each within the tolerance of an axis, are orthogonal within twice that
    most = math.sin(2.0 * math.acos(limit))
    for first, second in combinations(np.flatnonzero(is_free), 2):
        if abs(float(vectors[first] @ vectors[second])) > most:
            continue
        frame = _frame_of(vectors[first], vectors[second])
        members = _members(vectors, frame, is_free, limit)
        held = float(shares[members].sum())
        if _n_axes(vectors[members], frame) >= 2 and (best is None or held > best[0] + 1e-12):
            best = held, frame
    if best is None:
        return None
    return _fitted(best[1], vectors, shares, is_free, limit)


def _frame_of(first: Float64Array, second: Float64Array) -> Float64Array:
    """Rows: the axes nearest to two directions and orthogonal to each other, and the third."""
    half_sum, half_difference = first + second, first - second
    one, other = half_sum / np.linalg.norm(half_sum), half_difference / np.linalg.norm(half_difference)
    axes = np.stack([one + other, one - other]) * math.sqrt(0.5)
    return np.concatenate([axes, np.cross(axes[0], axes[1])[None]])


def _members(
    vectors: Float64Array, frame: Float64Array, is_free: npt.NDArray[np.bool_], limit: float
) -> npt.NDArray[np.int64]:
    return np.flatnonzero(is_free & (np.abs(vectors @ frame.T).max(axis=1) >= limit))


def _n_axes(vectors: Float64Array, frame: Float64Array) -> int:
    return len(np.unique(np.abs(vectors @ frame.T).argmax(axis=1)))


def _fitted(
    frame: Float64Array, vectors: Float64Array, shares: Float64Array, is_free: npt.NDArray[np.bool_], limit: float
) -> tuple[Float64Array, npt.NDArray[np.int64]]:
    """The frame turned to its directions; those that the turn leaves outside make it stay as it was."""
    members = _members(vectors, frame, is_free, limit)
    along = vectors[members] @ frame.T
    axes = np.abs(along).argmax(axis=1)
    targets = _EYE[axes] * np.sign(along[np.arange(len(members)), axes])[:, None]
    weights = np.maximum(shares[members], 1e-9)  # directions of weight 0 are placed, and hardly pull
    turned = mean_rotation(vectors[members], targets, weights)
    kept = _members(vectors, turned, is_free, limit)
    return (turned, kept) if set(members) <= set(kept) else (frame, members)
