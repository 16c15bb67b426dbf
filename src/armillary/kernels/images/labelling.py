"""Pixels to labels, by bands of rows: the best direction, with a reward for the label of the last frame.

Labels are those of float64 scores: sums of float32 numbers find the best two, and pixels for which these lie within the
error of such sums, or within the reward of each other, are looked at again. `kernels/images/reference.py` says what is
computed.
"""

from __future__ import annotations

import numpy as np

from armillary.kernels.images.lines import fill
from armillary.kernels.jit import CONTRACT, VECTOR_SUMS, kernel

STRETCH = 32  # pixels that are passed over together where none is in doubt
# Of float32 cosines: three products, two sums and the rounding of a direction make less than 1e-6.
CLOSE = 1e-5


@kernel
def _planar(row, x, y, z):
    for u in range(len(x)):
        x[u] = row[u, 0]
    for u in range(len(x)):
        y[u] = row[u, 1]
    for u in range(len(x)):
        z[u] = row[u, 2]


@kernel(fastmath=CONTRACT)
def _score(x, y, z, a, b, c, scores):
    for u in range(len(scores)):
        scores[u] = x[u] * a + y[u] * b + z[u] * c


@kernel
def _best_two(scores, k, best, second, places):
    for u in range(len(scores)):
        second[u] = max(second[u], min(scores[u], best[u]))
    for u in range(len(scores)):
        places[u] = k if scores[u] > best[u] else places[u]
    for u in range(len(scores)):
        best[u] = max(scores[u], best[u])


@kernel
def _doubt(is_valid, margin, best, second):
    """`second` becomes 1 where a pixel must be looked at again, and 0 elsewhere."""
    one, none = best.dtype.type(1.0), best.dtype.type(0.0)
    for u in range(len(best)):
        second[u] = none if best[u] - second[u] > margin else one
    for u in range(len(best)):
        second[u] = second[u] if is_valid[u] else one


@kernel(fastmath=VECTOR_SUMS)
def _sum(line):
    total = line.dtype.type(0.0)
    for u in range(len(line)):
        total += line[u]
    return total


@kernel
def _name(ids, places):
    for u in range(len(places)):
        places[u] = ids[places[u]]


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
def _chosen(vector, directions, place, had, steadiness):
    """The place with the greatest score; `place` is the best without a reward, or -1 where that is not sure."""
    if place < 0:
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
    lines = np.empty((6, width), np.float32)
    x, y, z, scores, best, second = lines[0], lines[1], lines[2], lines[3], lines[4], lines[5]
    rounded = directions.astype(np.float32)
    margin = np.float32(steadiness + CLOSE if has_last else CLOSE)
    for v in range(start, stop):
        _planar(vectors[v], x, y, z)
        fill(np.float32(-4.0), best)
        fill(np.float32(-4.0), second)
        places = labels[v]
        for u in range(width):
            places[u] = 0
        for k in range(len(directions)):
            _score(x, y, z, rounded[k, 0], rounded[k, 1], rounded[k, 2], scores)
            _best_two(scores, k, best, second, places)
        copied = x  # best - second, kept for those in doubt
        for u in range(width):
            copied[u] = best[u] - second[u]
        _doubt(is_valid[v], margin, best, second)
        for first in range(0, width, STRETCH):
            until = min(width, first + STRETCH)
            if _sum(second[first:until]) == 0.0:
                _name(ids, places[first:until])
                continue
            for u in range(first, until):
                place = places[u]
                if second[u] > 0.0:
                    had = -1
                    if has_last and depth[v, u] > 0.0:
                        had = _was(float(depth[v, u]), last_depth, last, table, turn, way, jump, v, u)
                    if is_valid[v, u]:
                        sure = place if copied[u] > CLOSE else -1
                        place = _chosen(vectors[v, u], directions, sure, had, steadiness)
                    else:
                        place = had
                places[u] = ids[place] if place >= 0 else -1
