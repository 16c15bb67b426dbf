"""Smoothing of images of unit normals, by bands of rows. `kernels/images/reference.py` says what is computed.

Images are (3, H, W), one coordinate after the other, and zero at invalid pixels, so that sums need no mask. Loops are
short for the reason that `lines.py` gives.
"""

from __future__ import annotations

import numpy as np

from armillary.kernels.images.lines import add_times, copy, fill
from armillary.kernels.jit import CONTRACT, kernel


@kernel(fastmath=CONTRACT)
def _weigh(x, y, z, other_x, other_y, other_z, factor, inverse_chord, weight):
    """factor (1 - c^2 / max_chord^2)^2 up to the greatest chord, 0 beyond."""
    one, none = weight.dtype.type(1.0), weight.dtype.type(0.0)
    for u in range(len(weight)):
        dx, dy, dz = x[u] - other_x[u], y[u] - other_y[u], z[u] - other_z[u]
        rest = max(one - (dx * dx + dy * dy + dz * dz) * inverse_chord, none)
        weight[u] = factor * rest * rest


@kernel(fastmath=CONTRACT)
def _add_weighted(weight, line, total):
    for u in range(len(total)):
        total[u] += weight[u] * line[u]


@kernel(fastmath=CONTRACT)
def _normalise(x, y, z, own, least, out):
    """Unit vectors (W, 3) of three lines; where they nearly cancel, what `own` (3, W) has."""
    one = out.dtype.type(1.0)
    for u in range(len(x)):
        square = x[u] * x[u] + y[u] * y[u] + z[u] * z[u]
        is_long = square > least
        scale = one / np.sqrt(square if is_long else one)
        out[u, 0] = x[u] * scale if is_long else own[0, u]
        out[u, 1] = y[u] * scale if is_long else own[1, u]
        out[u, 2] = z[u] * scale if is_long else own[2, u]


@kernel
def bilateral(image, is_valid, factors, inverse_chord, start, stop, out):
    """Fill rows `start` to `stop` of `out` (H, W, 3); `factors` (2r + 1, 2r + 1) are the weights by place."""
    _, height, width = image.shape
    radius, real = len(factors) // 2, image.dtype.type
    total, weight = np.empty((3, width), image.dtype), np.empty(width, image.dtype)
    for v in range(start, stop):
        total[:] = 0
        for row in range(max(0, v - radius), min(height, v + radius + 1)):
            for right in range(-min(radius, width - 1), min(radius, width - 1) + 1):
                n = width - abs(right)
                here, there = slice(max(0, -right), max(0, -right) + n), slice(max(0, right), max(0, right) + n)
                factor = real(factors[row - v + radius, right + radius])
                _weigh(
                    image[0, v, here], image[1, v, here], image[2, v, here],
                    image[0, row, there], image[1, row, there], image[2, row, there],
                    factor, real(inverse_chord), weight[:n],
                )  # fmt: skip
                for channel in range(3):
                    _add_weighted(weight[:n], image[channel, row, there], total[channel, here])
        _finish(total, image[:, v], is_valid[v], real(0.0), out[v])


@kernel
def _finish(total, own, is_valid, least, out):
    _normalise(total[0], total[1], total[2], own, least, out)
    for u in range(len(is_valid)):
        if not is_valid[u]:
            out[u] = 0


@kernel(fastmath=CONTRACT)
def _rise(line, ahead, is_linked, factor, total):
    for u in range(len(total)):
        total[u] += factor * is_linked[u] * (ahead[u] - line[u])


@kernel
def _primal_row(image, dual, v, strength, x):
    """x = image + strength div dual in row v."""
    for channel in range(3):
        line, across, down = x[channel], dual[0, channel, v], dual[1, channel, v]
        copy(image[channel, v], line)
        add_times(strength, across, line)
        add_times(-strength, across[:-1], line[1:])
        add_times(strength, down, line)
        if v > 0:
            add_times(-strength, dual[1, channel, v - 1], line)


@kernel
def step_dual(image, links, strength, pace, leading, dual, next_leading, next_dual, start, stop):
    """One step from `leading` and `dual` (2, 3, H, W); `links` (2, H, W) are 1 between valid neighbours, else 0.

    The dual moves by the rise of x over 8 strength, is cut to length 1, and the next start leads it by `pace`.
    """
    _, height, width = image.shape
    real = image.dtype.type
    scale, one = real(1.0 / (8.0 * strength)), real(1.0)
    x, below, length = (
        np.empty((3, width), image.dtype),
        np.empty((3, width), image.dtype),
        np.empty(width, image.dtype),
    )
    _primal_row(image, leading, start, real(strength), x)
    for v in range(start, stop):
        if v + 1 < height:
            _primal_row(image, leading, v + 1, real(strength), below)
        fill(0.0, length)
        for channel in range(3):
            for axis in range(2):
                moved = next_dual[axis, channel, v]
                copy(leading[axis, channel, v], moved)
                if axis == 0:
                    _rise(x[channel, :-1], x[channel, 1:], links[0, v, :-1], scale, moved[:-1])
                elif v + 1 < height:
                    _rise(x[channel], below[channel], links[1, v], scale, moved)
                _add_weighted(moved, moved, length)
        for u in range(width):
            length[u] = one / max(one, np.sqrt(length[u]))
        for channel in range(3):
            for axis in range(2):
                _cut(length, dual[axis, channel, v], real(pace), next_dual[axis, channel, v],
                     next_leading[axis, channel, v])  # fmt: skip
        x, below = below, x


@kernel(fastmath=CONTRACT)
def _cut(length, before, pace, dual, leading):
    for u in range(len(dual)):
        dual[u] *= length[u]
    for u in range(len(dual)):
        leading[u] = dual[u] + pace * (dual[u] - before[u])


@kernel
def primal(image, is_valid, dual, strength, start, stop, out):
    """Fill rows `start` to `stop` of `out` (H, W, 3) with the smoothed normals of a dual, made unit."""
    x = np.empty((3, image.shape[2]), image.dtype)
    for v in range(start, stop):
        _primal_row(image, dual, v, image.dtype.type(strength), x)
        _finish(x, image[:, v], is_valid[v], image.dtype.type(1e-12), out[v])
