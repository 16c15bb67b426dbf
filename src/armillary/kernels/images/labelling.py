"""Pixels to labels, by bands of rows: the best direction, with a reward for the label of the last frame.

Labels are those of float64 scores: sums of float32 numbers find the best two, and pixels for which these lie within the
error of such sums, or within the reward of each other, are looked at again. `kernels/images/reference.py` says what is
computed.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from armillary.kernels.images.lanes import Held, Vector, Walk, generator, lowest, padded
from armillary.kernels.images.lines import copy
from armillary.kernels.jit import kernel
from armillary.kernels.rows.simd import spread_out

TILE = 16  # pixels whose scores are kept in registers; a bit for each tells whether it is looked at again
# Of float32 cosines: three products, two sums and the rounding of a direction make less than 1e-6.
CLOSE = 1e-5


@intrinsic
def _label_tile(_context, line, u, directions, ids, is_valid, is_measured, margin, labels, gaps):
    """Write the ids of the best directions of 16 pixels from `u` on, and by how much they beat the second best.

    Returns, as bits, the pixels to be looked at again: those without a normal that were measured, and those for which
    the gap is no more than `margin`. `line` has normals one after the other.
    """

    def work(walk: Walk) -> ir.Value:
        builder, u = walk.builder, walk.whole("u")
        normals = walk.load("line", walk.times(u, 3), 3 * TILE)
        x, y, z = (normals.shuffled(normals, range(axis, 3 * TILE, 3)) for axis in range(3))
        best, second = Held(walk.spread(-4.0)), Held(walk.spread(-4.0))
        nobody = ir.Constant(ir.VectorType(ir.IntType(32), TILE), [-1] * TILE)
        winner = Held(Vector(builder, nobody))
        with cgutils.for_range(builder, walk.length_of("directions")) as loop:
            places = [walk.at(walk.times(loop.index, 3), axis) for axis in range(3)]
            a, b, c = (walk.spread(walk.entry("directions", place)) for place in places)
            score, top = (x * a).plus(y, b).plus(z, c), best.now
            is_best = score > top
            second.becomes(second.now.greater(score.lesser(top)))
            name = Vector(builder, spread_out(builder, walk.entry("ids", loop.index), TILE))
            winner.becomes(is_best.where(name, winner.now))
            best.becomes(is_best.where(score, top))
        gap, is_there = best.now - second.now, walk.flags("is_valid", u)
        walk.store("gaps", u, gap)
        label = builder.select(is_there.value, winner.now.value, nobody)
        builder.store(label, walk.address("labels", u, TILE), align=4)
        is_close = ~(gap > walk.number("margin"))
        is_doubtful = builder.select(is_there.value, is_close.value, walk.flags("is_measured", u).value)
        return builder.zext(builder.bitcast(is_doubtful, ir.IntType(TILE)), ir.IntType(64))

    kinds = line, types.intp, directions, ids, is_valid, is_measured, types.float32, labels, gaps
    names = "line u directions ids is_valid is_measured margin labels gaps"
    return types.int64(*kinds), generator(names, types.float32, work, TILE)


@kernel(is_inlined=True)
def _cosine(vector, direction):
    return vector[0] * direction[0] + vector[1] * direction[1] + vector[2] * direction[2]


@kernel(is_inlined=True)
def _was(depth, last_depth, last, table, turn, way, jump, v, u):
    """The place that pixel (u, v) at this depth had in the last frame: it was at z `turn` (u, v, 1) + `way`.

    -1 where it was out of sight, or where something else was seen: at a depth that differs by more than `jump`.
    """
    far = depth * (turn[2, 0] * u + turn[2, 1] * v + turn[2, 2]) + way[2]
    if not (depth > 0.0 and far > 0.0):
        return -1
    column = (depth * (turn[0, 0] * u + turn[0, 1] * v + turn[0, 2]) + way[0]) / far + 0.5
    row = (depth * (turn[1, 0] * u + turn[1, 1] * v + turn[1, 2]) + way[1]) / far + 0.5
    if not (column >= 0.0 and row >= 0.0 and column < last.shape[1] and row < last.shape[0]):
        return -1
    i, j = int(row), int(column)
    if last[i, j] < 0 or abs(last_depth[i, j] - far) > jump * far:
        return -1
    return table[last[i, j]]


@kernel
def _chosen(vector, directions, had, steadiness):
    """The place with the greatest score, with the reward for the place that the pixel had, if any."""
    place = 0
    for k in range(1, len(directions)):
        if _cosine(vector, directions[k]) > _cosine(vector, directions[place]):
            place = k
    if had < 0 or had == place:
        return place
    gain = _cosine(vector, directions[had]) + steadiness - _cosine(vector, directions[place])
    return had if gain > 0.0 or (gain == 0.0 and had < place) else place


@kernel
def label_pixels(
    vectors, is_valid, directions, ids, steadiness, depth, last_depth, last, table, turn, way, jump, start, stop, labels
):
    """Fill rows `start` to `stop` of `labels` (H, W) with the ids of the best of directions (K, 3); -1 for none.

    The score of a direction is its cosine, plus `steadiness` where it is what the pixel had in the last frame; a pixel
    without a normal keeps what it had. `last` (H, W) are the labels of that frame, `last_depth` its depth, and `table`
    has the places of labels among `ids`; without a last frame `table` is empty.
    """
    width, has_last = is_valid.shape[1], len(table) > 0
    length = padded(width)
    line, gaps, found = np.zeros(3 * length, np.float32), np.empty(length, np.float32), np.empty(length, np.int32)
    is_there, is_measured = np.zeros(length, np.bool_), np.zeros(length, np.bool_)
    rounded = directions.astype(np.float32)
    margin = np.float32(steadiness + CLOSE if has_last else CLOSE)
    for v in range(start, stop):
        _flatten(vectors[v], line)
        copy(is_valid[v], is_there[:width])
        if has_last:
            _look_for_depth(depth[v], is_measured)
        for first in range(0, length, TILE):
            doubts: int = _label_tile(line, first, rounded, ids, is_there, is_measured, margin, found, gaps)
            while doubts:
                u = first + lowest(doubts)
                doubts &= doubts - 1
                if u >= width:
                    break
                had = -1
                if is_measured[u]:
                    had = _was(float(depth[v, u]), last_depth, last, table, turn, way, jump, v, u)
                if not is_there[u]:
                    found[u] = ids[had] if had >= 0 else -1
                elif not gaps[u] > CLOSE or (had >= 0 and ids[had] != found[u]):
                    found[u] = ids[_chosen(vectors[v, u], directions, had, steadiness)]
        copy(found, labels[v])


@kernel
def _flatten(row, line):
    for u in range(len(row)):
        line[3 * u], line[3 * u + 1], line[3 * u + 2] = row[u, 0], row[u, 1], row[u, 2]


@kernel
def _look_for_depth(row, is_measured):
    for u in range(len(row)):
        is_measured[u] = row[u] > 0.0


@kernel
def label_border(labels, vectors, is_valid, depth, lens, farthest, width):
    """Pixels of the border without a label take that of the pixel inside whose plane they lie in, up to `farthest`.

    `lens` is fx, fy, cx, cy; a plane is `width` times the depth thick. The image has three rows and columns at least.
    """
    high, wide = labels.shape
    for u in range(1, wide - 1):
        _extend(labels, vectors, is_valid, depth, lens, farthest, width, 0, u, 1, u)
        _extend(labels, vectors, is_valid, depth, lens, farthest, width, high - 1, u, high - 2, u)
    for v in range(1, high - 1):
        _extend(labels, vectors, is_valid, depth, lens, farthest, width, v, 0, v, 1)
        _extend(labels, vectors, is_valid, depth, lens, farthest, width, v, wide - 1, v, wide - 2)


@kernel
def _extend(labels, vectors, is_valid, depth, lens, farthest, width, v, u, i, j):
    """Pixel (v, u) takes the label of (i, j) where z along = reach, in the plane of a normal that faces the camera."""
    z = float(depth[v, u])
    if labels[v, u] >= 0 or not is_valid[i, j] or not (z > 0.0 and z <= farthest):
        return
    fx, fy, cx, cy = lens[0], lens[1], lens[2], lens[3]
    a, b, c = float(vectors[i, j, 0]), float(vectors[i, j, 1]), float(vectors[i, j, 2])
    along = a * ((u - cx) / fx) + b * ((v - cy) / fy) + c
    reach = float(depth[i, j]) * (a * ((j - cx) / fx) + b * ((i - cy) / fy) + c)
    if along < 0.0 and abs(reach - z * along) < width * z * -along:
        labels[v, u] = labels[i, j]
