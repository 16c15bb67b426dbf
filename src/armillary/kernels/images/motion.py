"""How a depth camera moved between two frames: the sums of one step of point-to-plane registration, and the warp.

`kernels/images/reference.py` says what is computed.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from armillary.kernels.images.lanes import Walk, generator
from armillary.kernels.jit import kernel

_LANES = 8  # of a line: six derivatives, the residual, and nothing


@intrinsic
def _add_square(_context, line, weight, sums):
    """sums (7, 8) += weight line line'."""

    def work(walk: Walk) -> None:
        start = ir.Constant(ir.IntType(64), 0)
        numbers = walk.load("line", start)
        weighted = numbers * walk.number("weight")
        for row in range(_LANES - 1):
            factor = weighted.shuffled(weighted, [row] * _LANES)
            place = walk.at(start, _LANES * row)
            walk.store("sums", place, walk.load("sums", place).plus(factor, numbers))

    return types.void(line, types.float64, sums), generator("line weight sums", types.float64, work, _LANES)


@kernel
def motion_sums(depth, vectors, is_valid, last, lens, rotation, way, step, gate, width, sums):
    """Add what pixels say of the motion to `sums` (7, 8): J'WJ to its first 6 x 6 and J'Wr to the column behind.

    A point Y of the last frame is R Y + t now. Every `step`-th pixel of now looks for it where it projects to in the
    depth `last`, takes it where it is nearer than `gate` times its depth, and asks that it lie in its own plane: the
    distance r from it is the residual, with the weight 1 / (1 + (r / width z)^2) / z^2. `lens` is fx, fy, cx, cy.
    Returns how many pixels looked, how many found, and how many of these lie within `width` of their planes.
    """
    fx, fy, cx, cy = lens[0], lens[1], lens[2], lens[3]
    across, down, thin = 1.0 / fx, 1.0 / fy, 1.0 / width
    height, columns = depth.shape
    n_asked, n_found, n_near = 0, 0, 0
    line = np.zeros(_LANES)
    for v in range(step // 2, height, step):
        for u in range(step // 2, columns, step):
            if not is_valid[v, u] or not depth[v, u] > 0.0:
                continue
            n_asked += 1
            z = float(depth[v, u])
            x, y = z * ((u - cx) * across), z * ((v - cy) * down)
            a, b, c = x - way[0], y - way[1], z - way[2]
            far = rotation[0, 2] * a + rotation[1, 2] * b + rotation[2, 2] * c
            if far <= 0.05:
                continue
            near = 1.0 / far
            column = (rotation[0, 0] * a + rotation[1, 0] * b + rotation[2, 0] * c) * near * fx + cx
            row = (rotation[0, 1] * a + rotation[1, 1] * b + rotation[2, 1] * c) * near * fy + cy
            if not (column >= 0.0 and row >= 0.0 and column <= columns - 1.0 and row <= height - 1.0):
                n_asked -= 1  # out of sight then: it says nothing of how well frames agree
                continue
            i, j = int(row + 0.5), int(column + 0.5)
            seen = float(last[i, j])
            if not seen > 0.0:
                n_asked -= 1
                continue
            p, q = seen * ((j - cx) * across), seen * ((i - cy) * down)
            one = rotation[0, 0] * p + rotation[0, 1] * q + rotation[0, 2] * seen + way[0]
            two = rotation[1, 0] * p + rotation[1, 1] * q + rotation[1, 2] * seen + way[1]
            three = rotation[2, 0] * p + rotation[2, 1] * q + rotation[2, 2] * seen + way[2]
            if (x - one) ** 2 + (y - two) ** 2 + (z - three) ** 2 > (gate * z) ** 2:
                continue
            n_found += 1
            nx, ny, nz = float(vectors[v, u, 0]), float(vectors[v, u, 1]), float(vectors[v, u, 2])
            residual = nx * (x - one) + ny * (y - two) + nz * (z - three)
            inverse = 1.0 / z
            ratio = residual * thin * inverse
            n_near += abs(ratio) < 1.0
            weight = inverse * inverse / (1.0 + ratio * ratio)
            line[0], line[1], line[2] = two * nz - three * ny, three * nx - one * nz, one * ny - two * nx
            line[3], line[4], line[5], line[6] = nx, ny, nz, residual
            _add_square(line, weight, sums)
    return n_asked, n_found, n_near
