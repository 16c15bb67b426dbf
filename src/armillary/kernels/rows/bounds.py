"""Which rows may have changed their nearest direction, and to which: Hamerly's bounds, with angles for distances.

Angles on the sphere obey the triangle inequality. A direction that turns by an angle a moves no row's angle to it by
more than a; and a direction at more than twice a row's own angle from the row's own direction is farther from the row
than that one. Bounds are float32; each change is padded by more than its rounding, so they stay on the safe side.
"""

from __future__ import annotations

import numpy as np

from armillary.kernels.jit import CONTRACT, kernel

# A row is passed over only if its own direction is nearer by more than this angle: the float64 scores of the two
# then differ by at least 1 - cos(4e-6) = 8e-12, beyond their rounding.
_SAFE_GAP = 4e-6
# Directions near a row that are looked at one by one for how far they turned.
_FEW_NEAR = 16
# More than the error of `_arc_cosine` and of its rounding to float32.
_ANGLE_DOUBT = 3e-7


@kernel
def loosen(labels, own, other, turned, largest, second_largest, widest, reach, circle, active):
    """Loosen the bounds by the angles `turned` (K,); write the numbers of the doubtful rows to `active`.

    `largest` is the largest angle turned, by direction `widest`; the rest turned by at most `second_largest`. `circle`
    holds the neighbours of each direction and their angles, as in `PreparedRule.circle`. Rows without a label, and rows
    that may lie beyond `reach`, are doubtful too.
    """
    neighbours, angles, _ = circle
    n_active = 0
    for i in range(labels.shape[0]):
        k = labels[i] if labels[i] > 0 else 0
        before = other[i]
        own[i] += turned[k]
        other[i] -= second_largest if k == widest else largest
        is_doubtful = not is_settled(own[i], other[i], angles[k, 0], reach)
        if is_doubtful:
            nearer = _loosened_by_near(neighbours[k], angles[k], turned, own[i], before)
            other[i] = nearer if nearer > other[i] else other[i]
            is_doubtful = not is_settled(own[i], other[i], angles[k, 0], reach)
        active[n_active] = i
        n_active += is_doubtful or labels[i] < 0
    return n_active


@kernel
def _loosened_by_near(neighbours, angles, turned, own, other):
    """The bound `other` after directions turned, where only a few can come nearer to a row than its own direction.

    How far the directions beyond those turned does not matter: their angles to the own direction are known.
    """
    largest = np.float32(0.0)
    for position in range(neighbours.shape[0] if neighbours.shape[0] < _FEW_NEAR else _FEW_NEAR):
        if is_beyond(angles[position], own):
            near, far = other - largest, angles[position] - own
            return far if far < near else near
        turn = turned[neighbours[position]]
        largest = turn if turn > largest else largest
    return np.float32(-np.inf)


@kernel
def is_settled(own, other, nearest, reach):
    """Whether a row surely keeps its label: every other direction is farther than its own, which is within reach."""
    half = np.float32(0.5) * nearest
    return own + _SAFE_GAP < (half if half > other else other) and own <= reach


@kernel
def is_beyond(angle, own):
    """Whether a direction at `angle` from a row's own is surely farther from the row than that."""
    return np.float32(0.5) * angle > own + _SAFE_GAP


@kernel
def angle_above(cosine):
    """An angle at least the arc cosine, by at most 6e-7."""
    return _arc_cosine(np.float64(cosine)) + _ANGLE_DOUBT


@kernel
def angle_below(cosine):
    """An angle at most the arc cosine, by at most 6e-7."""
    return _arc_cosine(np.float64(cosine)) - _ANGLE_DOUBT


@kernel(fastmath=CONTRACT)
def _arc_cosine(cosine):
    """To within 2e-8 (Abramowitz and Stegun, 4.4.46), in a third of the time of the C library's."""
    size = abs(cosine)
    size = size if size < 1.0 else 1.0
    series = -0.0012624911
    for coefficient in (
        0.0066700901,
        -0.0170881256,
        0.0308918810,
        -0.0501743046,
        0.0889789874,
        -0.2145988016,
        1.5707963050,
    ):
        series = series * size + coefficient
    angle = np.sqrt(1.0 - size) * series
    return angle if cosine >= 0.0 else np.pi - angle


@kernel
def gather(rows, numbers, out):
    """Rows `numbers` of a block into `out` (float32)."""
    for r in range(numbers.shape[0]):
        source = rows[numbers[r]]
        target = out[r]
        for d in range(rows.shape[1]):
            target[d] = source[d]
