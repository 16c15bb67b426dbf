"""Depth images to unit normals, by bands of rows. `kernels/images/reference.py` says what is computed.

Every pixel is computed alike whatever band it is in, so any number of threads gives equal bits. Loops run over slices
of rows whose index is never negative: numba else tests each index for wrapping around, and no loop becomes vectors.
"""

from __future__ import annotations

import numpy as np

from armillary.kernels.images.lines import copy, fill
from armillary.kernels.jit import CONTRACT, kernel


@kernel
def inverse_depth(depth, scale, nearest, farthest, start, stop, out):
    """1/z in rows `start` to `stop` of `out`; 0 unless z = depth / scale lies from `nearest` to `farthest`."""
    low, high = out.dtype.type(nearest * scale), out.dtype.type(farthest * scale)
    unit, none = out.dtype.type(scale), out.dtype.type(0.0)
    for v in range(start, stop):
        row, found = depth[v], out[v]
        for u in range(len(row)):
            value = out.dtype.type(row[u])
            is_measured = (value >= low) & (value <= high)
            found[u] = unit / value if is_measured else none


@kernel
def depth_of(w, start, stop, out):
    """z = 1/w in rows `start` to `stop`; 0 stays 0."""
    one, none = out.dtype.type(1.0), out.dtype.type(0.0)
    for v in range(start, stop):
        row, found = w[v], out[v]
        for u in range(len(row)):
            found[u] = one / row[u] if row[u] > none else none


@kernel
def block_means(w, side, out):
    """Means (H // 2 side, W // side) of whole squares in every second row of squares; 0 where a pixel is missing."""
    total, least = np.empty(w.shape[1], w.dtype), np.empty(w.shape[1], w.dtype)
    for row in range(out.shape[0]):
        copy(w[2 * side * row], total)
        copy(total, least)
        for v in range(2 * side * row + 1, 2 * side * row + side):
            _add_line(w[v], total)
            _lesser(w[v], least)
        for column in range(out.shape[1]):
            mean, lowest = 0.0, least[column * side]
            for u in range(column * side, column * side + side):
                mean += total[u]
                lowest = min(lowest, least[u])
            out[row, column] = mean / (side * side) if lowest > 0.0 else 0.0


@kernel
def _add_line(line, total):
    for u in range(len(total)):
        total[u] += line[u]


@kernel
def _lesser(line, least):
    for u in range(len(least)):
        least[u] = min(line[u], least[u])


# ------------------------------------------------------------------------------------ loops over one line


@kernel
def _join(row, other, jump, out):
    """1 where two neighbours lie on one surface, else 0."""
    one, none = out.dtype.type(1.0), out.dtype.type(0.0)
    for u in range(len(out)):
        lesser = min(row[u], other[u])
        is_joined = (lesser > none) & (abs(row[u] - other[u]) <= jump * lesser)
        out[u] = one if is_joined else none


@kernel
def _reach(behind, ahead, alive, arms):
    """Arms grow by one pair where the links behind and ahead go on."""
    for u in range(len(arms)):
        alive[u] *= behind[u] * ahead[u]
        arms[u] += alive[u]


@kernel(fastmath=CONTRACT)
def _add_pairs(factor, behind, sign, ahead, distance, arms, total):
    """total += factor (ahead + sign behind) where an arm reaches that distance."""
    none = total.dtype.type(0.0)
    for u in range(len(arms)):
        total[u] += factor * (ahead[u] + sign * behind[u]) if arms[u] >= distance else none


@kernel
def _weights(arms, out):
    """sum_j 2 j^2 up to an arm."""
    third, two, one = out.dtype.type(1.0 / 3.0), out.dtype.type(2.0), out.dtype.type(1.0)
    for u in range(len(arms)):
        out[u] = third * arms[u] * (arms[u] + one) * (two * arms[u] + one)


@kernel
def _inside(arms_u, arms_v, inside, is_valid):
    """Where all four neighbours are joined: as 1 and 0, and as booleans."""
    one, none = inside.dtype.type(1.0), inside.dtype.type(0.0)
    for u in range(len(inside)):
        inside[u] = one if (arms_u[u] >= one) & (arms_v[u] >= one) else none
    for u in range(len(inside)):
        is_valid[u] = inside[u] > none


@kernel
def _divide(weight, inside, slope):
    one, none = slope.dtype.type(1.0), slope.dtype.type(0.0)
    for u in range(len(slope)):
        slope[u] = slope[u] / weight[u] if inside[u] == one else none


@kernel(fastmath=CONTRACT)
def _cross(row, columns, inside, w_u, w_v, fx, fy, height, z, scale, vectors):
    """Minus (fx w_u, fy w_v, w - (u - cx) w_u - (v - cy) w_v), made unit; zeros where nothing is inside.

    The product with the ray of the pixel is w > 0: what is inside is never 0.
    """
    one, none = z.dtype.type(1.0), z.dtype.type(0.0)
    for u in range(len(row)):
        z[u] = row[u] - columns[u] * w_u[u] - height * w_v[u]
    for u in range(len(row)):
        x, y = fx * w_u[u], fy * w_v[u]
        square = x * x + y * y + z[u] * z[u]
        scale[u] = -inside[u] / np.sqrt(square if inside[u] == one else one)
    for u in range(len(row)):
        # adding 0 makes -0 of a flat wall 0
        vectors[u, 0] = fx * w_u[u] * scale[u] + none
        vectors[u, 1] = fy * w_v[u] * scale[u] + none
        vectors[u, 2] = z[u] * scale[u] + none


# --------------------------------------------------------------------------- pairs of a row, and pairs of rows


@kernel
def _pairs_along(line, is_slope, arms, radius, total):
    """Add the pairs of each pixel in a row that its arm reaches: j (w[+j] - w[-j]) for a slope, else w[+j] + w[-j]."""
    width, real = len(line), total.dtype.type
    for j in range(1, min(radius, (width - 1) // 2) + 1):
        n, factor, sign = width - 2 * j, real(j) if is_slope else real(1.0), real(-1.0) if is_slope else real(1.0)
        _add_pairs(factor, line[:n], sign, line[2 * j :], real(j), arms[j : j + n], total[j : j + n])


@kernel
def _pairs_across(lines, v, is_slope, arms, radius, total):
    """The same for the rows above and below row v."""
    real = total.dtype.type
    for j in range(1, min(radius, v, len(lines) - 1 - v) + 1):
        factor, sign = real(j) if is_slope else real(1.0), real(-1.0) if is_slope else real(1.0)
        _add_pairs(factor, lines[v - j], sign, lines[v + j], real(j), arms, total)


@kernel
def _slopes_along(w, first, last, radius, jump):
    """Arms, numerators and denominators of the slopes along rows `first` to `last`."""
    width, shape = w.shape[1], (last - first, w.shape[1])
    arms, slopes, weights = np.zeros(shape, w.dtype), np.zeros(shape, w.dtype), np.empty(shape, w.dtype)
    joined, alive = np.empty(width, w.dtype), np.empty(width, w.dtype)
    for place in range(last - first):
        row = w[first + place]
        _join(row[: width - 1], row[1:], jump, joined[: width - 1])
        fill(1.0, alive)
        for j in range(1, min(radius, (width - 1) // 2) + 1):
            n = width - 2 * j
            _reach(joined[:n], joined[2 * j - 1 :], alive[j : j + n], arms[place, j : j + n])
        _pairs_along(row, True, arms[place], radius, slopes[place])
        _weights(arms[place], weights[place])
    return arms, slopes, weights


@kernel
def _links_down(w, first, last, jump):
    """Links (n, W) of rows `first` to `last` with the next ones."""
    joined = np.empty((max(0, last - first - 1), w.shape[1]), w.dtype)
    for place in range(len(joined)):
        _join(w[first + place], w[first + place + 1], jump, joined[place])
    return joined


@kernel
def normals(w, fx, fy, columns, cy, radius, jump, start, stop, vectors, is_valid):
    """Fill rows `start` to `stop` of `vectors` (H, W, 3) and `is_valid` (H, W); `columns` are u - cx."""
    height, width = w.shape
    real = w.dtype.type
    first, last = max(0, start - radius), min(height, stop + radius)
    links = _links_down(w, first, last, real(jump))
    arms_u, slopes, weights = _slopes_along(w, first, last, radius, real(jump))
    lines = np.empty((9, width), w.dtype)
    alive, arms_v, inside, z, scale = lines[4], lines[5], lines[6], lines[7], lines[8]
    # numerators and denominators of the slopes along u and v
    w_u, w_v = lines[0], lines[2]
    for v in range(start, stop):
        place = v - first
        fill(1.0, alive)
        fill(0.0, arms_v)
        for j in range(1, min(radius, place, len(links) - place) + 1):
            _reach(links[place - j], links[place + j - 1], alive, arms_v)
        _inside(arms_u[place], arms_v, inside, is_valid[v])
        copy(slopes[place], lines[0])
        copy(weights[place], lines[1])
        _pairs_across(slopes, place, False, arms_v, radius, lines[0])
        _pairs_across(weights, place, False, arms_v, radius, lines[1])
        fill(0.0, z)
        _pairs_across(w, v, True, arms_v, radius, z)
        _weights(arms_v, scale)
        copy(z, lines[2])
        copy(scale, lines[3])
        _pairs_along(z, False, arms_u[place], radius, lines[2])
        _pairs_along(scale, False, arms_u[place], radius, lines[3])
        for axis in range(2):
            _divide(lines[2 * axis + 1], inside, lines[2 * axis])
        _cross(w[v], columns, inside, w_u, w_v, real(fx), real(fy), real(v - cy), z, scale, vectors[v])


@kernel
def take_rows(vectors, is_valid, out):
    """The vectors (H, W, 3) of valid pixels one after the other; `out` has room for one more, which is left as scratch.

    Every vector is written, and the next one over it unless it was valid: a branch would be guessed wrong at each rim.
    """
    k = 0
    for v in range(is_valid.shape[0]):
        for u in range(is_valid.shape[1]):
            for c in range(3):
                out[k, c] = vectors[v, u, c]
            k += 1 if is_valid[v, u] else 0


@kernel
def put_rows(values, is_valid, missing, out):
    """The reverse for one value a pixel, with `missing` at the others."""
    k = 0
    for v in range(is_valid.shape[0]):
        for u in range(is_valid.shape[1]):
            if is_valid[v, u]:
                out[v, u] = values[k]
                k += 1
            else:
                out[v, u] = missing
