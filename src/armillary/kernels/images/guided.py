"""The guided filter on inverse depth, by bands of rows. `kernels/images/reference.py` says what is computed.

Sums over squares are made of column sums that gain a row of blocks and lose one as the square moves down, in float64,
and of sums along the row by doubling: a line added to itself, shifted, has twice the width, so 2r + 1 blocks cost about
2 log2(r) additions. A band starts its column sums anew: bits depend on the bands, which the height of the image cuts,
not on threads. Loops are short for the reason that `lines.py` gives.
"""

from __future__ import annotations

import numpy as np

from armillary.kernels.images.lines import add_times, copy
from armillary.kernels.jit import CONTRACT, kernel

# sums over a square of 1, u, v, uu, uv, vv, w, uw, vw, ww
N_MOMENTS = 10
# what a square proposes: its weight, the share of w in it, and a plane A + B u + C v times the rest
N_PROPOSED = 5


@kernel
def _multiply(one, other, out):
    for u in range(len(out)):
        out[u] = one[u] * other[u]


@kernel
def _window_sums(line, wide, wider, window, total):
    """total[u] = line[u] + ... + line[u + window - 1]; `wide` and `wider` are scratch as long as `line`."""
    copy(line, total)
    done, span = 1, 1
    while 2 * span <= window:
        ahead, length = line[span:], len(line) - 2 * span + 1
        for u in range(length):
            wide[u] = line[u] + ahead[u]
        line, wide, wider = wide, wider, wide
        span *= 2
        if window & span:
            add_times(1.0, line[done:], total)
            done += span


@kernel
def _slide(blocks, place, radius, is_first, columns):
    """Move column sums to row `place` of `blocks` (n, C, W); sums are cut at its ends.

    `columns` (C, W + 2 radius) have zeros on either side, where squares are cut at the border.
    """
    first, last = place - radius - 1, place + radius
    if is_first:
        columns[:] = 0.0
        first += 1
    for row in range(max(0, first), min(len(blocks), last + 1)):
        # when a square moves by one, all rows but the first and the last stay
        if is_first or row in (first, last):
            sign = -1.0 if row == first and not is_first else 1.0
            for channel in range(len(columns)):
                add_times(sign, blocks[row, channel], columns[channel, radius : radius + blocks.shape[2]])


# ------------------------------------------------------------------------------------------------- planes


@kernel
def _split(row, left, right):
    """A row of pixels as the left and the right ones of its blocks; a row of odd length has no last right one."""
    right[-1] = 0.0
    for u in range(len(left)):
        left[u] = row[2 * u]
    for u in range(len(row) // 2):
        right[u] = row[2 * u + 1]


@kernel
def _pair(left, right, x, total, moment):
    """Sums over the two pixels of a block, and their products with u."""
    for u in range(len(x)):
        total[u] = left[u] + right[u]
    for u in range(len(x)):
        moment[u] = left[u] * x[u] + right[u] * (x[u] + 1.0)


# the moments of a row of blocks: which scratch line of `_gather_row`, times which power of v
_LINES = np.array([0, 1, 0, 2, 1, 0, 3, 4, 3, 5])
_POWERS = np.array([0, 0, 1, 0, 1, 2, 0, 0, 1, 0])


@kernel
def _gather_row(row, x, y, scratch, block):
    """Add one row of pixels to the sums (10, W / 2) of its blocks; `x` is u of their left pixels, `y` is v."""
    ones, u_line, uu_line, w_line, uw_line, ww_line = (
        scratch[0], scratch[1], scratch[2], scratch[3], scratch[4], scratch[5],
    )  # fmt: skip
    left, right = scratch[6], scratch[7]
    _split(row, left, right)
    # u is x and x + 1 for the two pixels
    _pair(left, right, x, w_line, uw_line)
    for u in range(len(x)):
        ww_line[u] = left[u] * left[u] + right[u] * right[u]
    for u in range(len(x)):
        left[u] = 1.0 if left[u] > 0.0 else 0.0
    for u in range(len(x)):
        right[u] = 1.0 if right[u] > 0.0 else 0.0
    _pair(left, right, x, ones, u_line)
    for u in range(len(x)):
        uu_line[u] = left[u] * x[u] * x[u] + right[u] * (x[u] + 1.0) * (x[u] + 1.0)
    for moment in range(N_MOMENTS):
        add_times(y ** _POWERS[moment], scratch[_LINES[moment]], block[moment])


@kernel
def propose_planes(w, x, radius, edge, noise, least, start, stop, proposed):
    """Fit a plane in the square around each block; fill rows `start` to `stop` of `proposed` (H / 2, 5, W / 2).

    u and v have their origin in the middle of the image; `x` is u of the left pixels of blocks, `least` the least
    determinant of a plane. `noise` is what a plane leaves anyway: residuals count from its square on.
    """
    height, n_rows, n_columns = len(w), len(proposed), len(x)
    first, last = max(0, start - radius), min(n_rows, stop + radius)
    blocks, scratch = np.zeros((last - first, N_MOMENTS, n_columns)), np.empty((8, n_columns))
    for v in range(2 * first, min(height, 2 * last)):
        _gather_row(w[v], x, v - 0.5 * (height - 1), scratch, blocks[v // 2 - first])
    columns = np.zeros((N_MOMENTS, n_columns + 2 * radius))
    wide, wider = np.empty(columns.shape[1]), np.empty(columns.shape[1])
    sums = np.empty((N_MOMENTS, n_columns))
    for row in range(start, stop):
        _slide(blocks, row - first, radius, row == start, columns)
        for moment in range(N_MOMENTS):
            _window_sums(columns[moment], wide, wider, 2 * radius + 1, sums[moment])
        _fit(sums, scratch, least, edge * edge, noise * noise, proposed[row])


@kernel(fastmath=CONTRACT)
def _center(scale, mean, other_mean, product):
    """A sum of products becomes a covariance."""
    for u in range(len(product)):
        product[u] = scale[u] * product[u] - mean[u] * other_mean[u]


@kernel(fastmath=CONTRACT)
def _solve(variance, covariance, between, other, inverse, out):
    for u in range(len(out)):
        out[u] = (variance[u] * covariance[u] - between[u] * other[u]) * inverse[u]


@kernel(fastmath=CONTRACT)
def _take_plane(slope_u, along, slope_v, across, total):
    for u in range(len(total)):
        total[u] -= slope_u[u] * along[u] + slope_v[u] * across[u]


# sums of products, and the means whose product is taken off: uu, uv, vv, uw, vw, ww
_PRODUCTS = np.array([[3, 1, 1], [4, 1, 2], [5, 2, 2], [7, 1, 6], [8, 2, 6], [9, 6, 6]])


@kernel
def _fit(sums, scratch, least, eps, expected, proposed):
    """Least squares in each square of a row; `sums` are used up."""
    scale, mean_u, mean_v, offset = sums[0], sums[1], sums[2], sums[6]
    uu, uv, vv, uw, vw, residual = sums[3], sums[4], sums[5], sums[7], sums[8], sums[9]
    inverse, weight, give, slope_u, slope_v = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    for u in range(len(scale)):
        scale[u] = 1.0 / max(scale[u], 1.0)
    for moment in (1, 2, 6):
        mean = sums[moment]
        for u in range(len(scale)):
            mean[u] *= scale[u]
    for line in range(len(_PRODUCTS)):
        product, one, other = _PRODUCTS[line, 0], _PRODUCTS[line, 1], _PRODUCTS[line, 2]
        _center(scale, sums[one], sums[other], sums[product])
    for u in range(len(scale)):
        determinant = uu[u] * vv[u] - uv[u] * uv[u]
        inverse[u] = 1.0 / determinant if determinant > least else 0.0
    for axis in range(2):
        _solve(sums[5 - 2 * axis], sums[7 + axis], uv, sums[8 - axis], inverse, scratch[3 + axis])
    _take_plane(slope_u, uw, slope_v, vw, residual)
    _take_plane(slope_u, mean_u, slope_v, mean_v, offset)
    _trust(residual, inverse, eps, expected, weight, give)
    copy(weight, proposed[0])
    keep = proposed[1]
    for u in range(len(scale)):
        keep[u] = weight[u] - give[u]
    _multiply(give, offset, proposed[2])
    for axis in range(2):
        _multiply(give, scratch[3 + axis], proposed[3 + axis])


@kernel
def _trust(residual, inverse, eps, expected, weight, give):
    """1 / (2 q + 1/2)^8 + 1/1000 for a residual expected + q eps, and that times 1 / (1 + q^4), 0 without a plane."""
    scale = 1.0 / eps
    for u in range(len(weight)):
        near = 1.0 / (2.0 * max(residual[u] - expected, 0.0) * scale + 0.5)
        near *= near
        near *= near
        weight[u] = near * near + 1e-3
    for u in range(len(weight)):
        q = max(residual[u] - expected, 0.0) * scale
        q *= q
        give[u] = weight[u] / (1.0 + q * q) if inverse[u] > 0.0 else 0.0


@kernel
def accept_planes(w, x, radius, proposed, start, stop, out):
    """Fill the pixels of block rows `start` to `stop` with the weighted mean of what the squares around propose."""
    height, n_columns = len(w), len(x)
    columns = np.zeros((N_PROPOSED, n_columns + 2 * radius))
    wide, wider = np.empty(columns.shape[1]), np.empty(columns.shape[1])
    sums, mean = np.empty((N_PROPOSED, n_columns)), np.empty(n_columns)
    for row in range(start, stop):
        _slide(proposed, row, radius, row == start, columns)
        for channel in range(N_PROPOSED):
            _window_sums(columns[channel], wide, wider, 2 * radius + 1, sums[channel])
        weight, keep, offset, slope_u, slope_v = sums[0], sums[1], sums[2], sums[3], sums[4]
        for u in range(n_columns):
            weight[u] = 1.0 / weight[u]
        for channel in range(1, N_PROPOSED):
            part = sums[channel]
            for u in range(n_columns):
                part[u] *= weight[u]
        for u in range(n_columns):
            offset[u] += slope_u[u] * x[u]
        for v in range(2 * row, min(height, 2 * row + 2)):
            copy(offset, mean)
            add_times(v - 0.5 * (height - 1), slope_v, mean)
            for side in range(2):
                _apply(w[v, side::2], keep, mean, out[v, side::2])
                add_times(1.0, slope_u, mean)


@kernel(fastmath=CONTRACT)
def _apply(row, keep, mean, out):
    """What was measured stays so: where planes would go behind infinity, pixels keep their own."""
    for u in range(len(row)):
        smooth = keep[u] * row[u] + mean[u]
        out[u] = smooth if (row[u] > 0.0) & (smooth > 0.0) else row[u]
