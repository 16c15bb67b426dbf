"""Rays of a pinhole camera against boxes and balls: which surface each pixel sees, and at what depth.

Depth runs along the axis of the camera: the ray of a pixel is (x, y, 1), so a hit at z (x, y, 1) has depth z.
"""

from __future__ import annotations

import numpy as np

from armillary.kernels.jit import kernel

# a ray along a face meets it nowhere: dividing by this instead of 0 puts the meeting far behind everything
_SLIGHT = 1e-300


@kernel
def cast(x, y, axes, origins, half_sizes, is_room, centers, radii, depth, surface):
    """Fill `depth` and `surface` (H, W) with the nearest hit of each ray (x[u], y[v], 1).

    Box b has face 6 b + 2 axis + (1 on the positive side); the balls follow. `axes` (B, 3, 3) turn the camera's
    coordinates to those of a box, `origins` (B, 3) are the camera in them, `half_sizes` (B, 3) its faces; a room is
    seen from inside. Balls have `centers` (S, 3) in the camera's coordinates. What hits nothing has depth inf, -1.
    """
    n_boxes, n_balls, width = len(half_sizes), len(radii), len(x)
    for v in range(len(y)):
        nearest, seen = depth[v], surface[v]
        for u in range(width):
            nearest[u] = np.inf
            seen[u] = -1
        for b in range(n_boxes):
            _cast_box(x, y[v], axes[b], origins[b], half_sizes[b], is_room[b], 6 * b, nearest, seen)
        for s in range(n_balls):
            _cast_ball(x, y[v], centers[s], radii[s], 6 * n_boxes + s, nearest, seen)


@kernel
def _cast_box(x, y, axes, origin, half_size, is_room, first_face, nearest, seen):
    x_step, y_step, z_step = axes[0, 0], axes[1, 0], axes[2, 0]
    x_start = axes[0, 1] * y + axes[0, 2]
    y_start = axes[1, 1] * y + axes[1, 2]
    z_start = axes[2, 1] * y + axes[2, 2]
    for u in range(len(x)):
        x_near, x_far, x_side = _slab(x_start + x_step * x[u], origin[0], half_size[0])
        y_near, y_far, y_side = _slab(y_start + y_step * x[u], origin[1], half_size[1])
        z_near, z_far, z_side = _slab(z_start + z_step * x[u], origin[2], half_size[2])
        near = max(x_near, max(y_near, z_near))
        far = min(x_far, min(y_far, z_far))
        if is_room:
            hit = far
            face = 1 - x_side if far == x_far else (3 - y_side if far == y_far else 5 - z_side)
        else:
            hit = near
            face = x_side if near == x_near else (2 + y_side if near == y_near else 4 + z_side)
        is_hit = (near <= far) & (hit > 0.0) & (hit < nearest[u])
        nearest[u] = hit if is_hit else nearest[u]
        seen[u] = first_face + face if is_hit else seen[u]


@kernel
def _slab(direction, origin, half_size):
    """Where a ray enters and leaves the slab between two faces, and whether it enters by the positive one."""
    inverse = 1.0 / (direction if direction != 0.0 else _SLIGHT)
    low, high = (-half_size - origin) * inverse, (half_size - origin) * inverse
    return min(low, high), max(low, high), 1 if direction < 0.0 else 0


@kernel
def _cast_ball(x, y, center, radius, number, nearest, seen):
    offset = center[0] ** 2 + center[1] ** 2 + center[2] ** 2 - radius * radius
    for u in range(len(x)):
        square = x[u] * x[u] + y * y + 1.0
        along = x[u] * center[0] + y * center[1] + center[2]
        inside = along * along - square * offset
        hit = (along - np.sqrt(max(inside, 0.0))) / square
        is_hit = (inside > 0.0) & (hit > 0.0) & (hit < nearest[u])
        nearest[u] = hit if is_hit else nearest[u]
        seen[u] = number if is_hit else seen[u]
