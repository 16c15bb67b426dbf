"""Anchored draws among tangent Gaussians in three dimensions, where most clusters are passed over (dp_tgmm.md, 14).

Most rows stay where they are, and two loops of vectors tell which. A bound from below on the score of the cluster that
a row is in, and one from above on all others, leave those no more than so much weight together; a row whose uniform is
farther than that from 0 and from 1 has been drawn. Those left of a tile go through four more loops: for every cluster
one that marks the rows for which it has weight at all; the scores of the marked pairs; their weights; the draws.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from armillary._typing import Float64Array
from armillary.distributions.tangent_gaussian import LEAST_SINE
from armillary.kernels.jit import VECTOR_SUMS, kernel
from armillary.kernels.rows.exponential import bits_of_double, double_of_bits, exp_nonpositive
from armillary.kernels.rows.philox import fill_uniforms, uniform
from armillary.kernels.rows.simd import lowest_bit
from armillary.kernels.rows.stretch import NEAR, WIDE, bend, bent_beyond, is_beyond
from armillary.rules import QuadraticRule

_TILE = 256
# exp(-40) of the largest weight is below half a unit in the last place of any sum of weights.
_HOPELESS = 40.0
# What a bound is held off by, as a share of its largest term: thousands of roundings.
_ROUNDING = 1e-12
# Uniforms nearer to 0 or 1 are drawn in full: there the rounding of a sum of weights would count.
_NEAREST = 2.0**-30


def _square_of(u: float) -> float:
    """g^2 = (theta / sin theta)^2."""
    return float(math.asin(math.sqrt(u)) ** 2 / (u * (1.0 - u)))


# Chords of g^2 from u = 0 to NEAR, to halfway and to WIDE: it is convex, and at most the highest of them.
_HALFWAY = 0.5 * (NEAR + WIDE)
_NEAR_SQUARE, _HALFWAY_SQUARE, _WIDE_SQUARE = _square_of(NEAR), _square_of(_HALFWAY), _square_of(WIDE)
_NEAR_CHORD = (_NEAR_SQUARE - 1.0) / NEAR
_HALFWAY_CHORD = (_HALFWAY_SQUARE - _NEAR_SQUARE) / (_HALFWAY - NEAR)
_WIDE_CHORD = (_WIDE_SQUARE - _HALFWAY_SQUARE) / (WIDE - _HALFWAY)
_LOG_2 = math.log(2.0)
# 2^52, to whose bits those of a smaller whole number may be added.
_WHOLE = 2.0**52
_WHOLE_BITS = np.uint64(np.float64(_WHOLE).view(np.int64))


class SphereForms(NamedTuple):
    """K tangent Gaussians in three dimensions."""

    forms: Float64Array  # (K, 9) coefficients of x1^2, x2^2, x3^2, x1 x2, x1 x3, x2 x3 in x' A x / 2, and the mean
    ceilings: Float64Array  # (K,) where offset - x' A x / 2 is at most this, it is an upper bound
    far_ceilings: Float64Array  # (K,) upper bounds of the scores of all rows at 90 degrees from the mean or more

    @classmethod
    def of(cls, rule: QuadraticRule) -> SphereForms:
        """Of a rule with means and three columns.

        g >= 1, and volume log g - g^2 a/2 falls with g where a >= volume: there offset - a/2 is an upper bound. Beyond
        90 degrees a can be small again, but g^2 a is at least theta^2 times the smallest eigenvalue of A.
        """
        assert rule.means is not None, "only tangent Gaussians come here"
        a = 0.5 * np.swapaxes(rule.roots, 1, 2) @ rule.roots
        squares, products = a[:, [0, 1, 2], [0, 1, 2]], 2.0 * a[:, [0, 0, 1], [1, 2, 2]]
        least = np.linalg.svd(rule.roots, compute_uv=False)[:, -1] ** 2
        most = rule.volume * np.log(np.pi / LEAST_SINE) - 0.5 * (0.5 * np.pi) ** 2 * least
        forms = np.concatenate([squares, products, rule.means], axis=1)
        return cls(forms, rule.offsets - 0.5 * rule.volume, rule.offsets + most)


@kernel
def is_allowed(own, number, priority, anchor):
    """Whether a row may move to a cluster: its anchor comes before the row."""
    return priority < own or (priority == own and anchor <= number)


@kernel
def _half(forms, k, x, y, z):
    """x' A x / 2."""
    first = forms[k, 0] * x + forms[k, 3] * y + forms[k, 4] * z
    return x * first + (y * (forms[k, 1] * y + forms[k, 5] * z) + forms[k, 2] * z * z)


@kernel
def _cosine(forms, k, x, y, z):
    return forms[k, 6] * x + forms[k, 7] * y + forms[k, 8] * z


@kernel(fastmath=VECTOR_SUMS)
def _is_out(x, y, z, limit, forms, k, offset, ceiling, far_ceiling):
    """Whether the score of a row under cluster k is at most its limit; a bound above its ceiling is none."""
    bound = offset - _half(forms, k, x, y, z)
    is_far = _cosine(forms, k, x, y, z) <= 0.0
    return (bound <= min(limit, ceiling)) | (is_far & (far_ceiling <= limit))


@kernel(fastmath=VECTOR_SUMS)
def _count(x, y, z, limits, forms, k, offset, ceiling, far_ceiling, n_rows, counts):
    """Count cluster k for the rows whose score under it may be above their limit."""
    for i in range(n_rows):
        is_out = _is_out(x[i], y[i], z[i], limits[i], forms, k, offset, ceiling, far_ceiling)
        counts[i] += 0.0 if is_out else 1.0


@kernel(fastmath=VECTOR_SUMS)
def _mark(x, y, z, limits, forms, k, offset, ceiling, far_ceiling, n_rows, marks):
    """Set the bit of cluster k for the rows whose score under it may be above their limit."""
    bit = np.uint64(1) << np.uint64(k % 64)
    for i in range(n_rows):
        is_out = _is_out(x[i], y[i], z[i], limits[i], forms, k, offset, ceiling, far_ceiling)
        marks[i] |= np.uint64(0) if is_out else bit


@kernel
def _floors(x, y, z, forms, offsets, traces, volume, clusters, n_rows, floors):
    """Lower bounds of the scores of rows under the clusters they are in.

    g^2 by its chords, at most 3 % too large up to 60 degrees and 17 % beyond; log g is at least 0.
    """
    for i in range(n_rows):
        k = clusters[i]
        half = _half(forms, k, x[i], y[i], z[i])
        cosine = _cosine(forms, k, x[i], y[i], z[i])
        u = max(0.5 * (1.0 - cosine), 0.0)
        square = max(1.0 + _NEAR_CHORD * u, _NEAR_SQUARE + _HALFWAY_CHORD * (u - NEAR))
        square = max(square, _HALFWAY_SQUARE + _WIDE_CHORD * (u - _HALFWAY))
        value = -square * half
        if is_beyond(cosine):
            value = bent_beyond(half, cosine, traces[k], volume)
        floors[i] = offsets[k] + value - _ROUNDING * abs(value)


@kernel
def _limits(floors, uniforms, most, n_rows, limits):
    """What others must be above to matter: `most` and the log of the nearer distance of the uniform, below the floor.

    With K clusters `most` is -log 2 K: together the others weigh at most half that distance. The logarithm is one from
    below, with its power of two exact and a straight line between.
    """
    for i in range(n_rows):
        distance = min(uniforms[i], 1.0 - uniforms[i])
        bits = np.uint64(bits_of_double(distance)) >> np.uint64(32)
        # a whole number below 2^52 as a double
        upper = double_of_bits(np.int64(bits | _WHOLE_BITS)) - _WHOLE
        log_distance = _LOG_2 * (upper * 2.0**-20 - 1023.0 - 2.0**-19)
        limits[i] = floors[i] + most + log_distance if distance >= _NEAREST else -np.inf


@kernel
def _bend_all(halves, cosines, clusters, offsets, traces, volume, n_values):
    """Write scores over the halves of pairs of a row and a cluster."""
    bend(halves, cosines, volume, n_values)
    for p in range(n_values):
        k = clusters[p]
        if is_beyond(cosines[p]):
            halves[p] = bent_beyond(halves[p], cosines[p], traces[k], volume)
        halves[p] += offsets[k]


@kernel
def _exponentials(values, n_values):
    for i in range(n_values):
        values[i] = exp_nonpositive(values[i])


@kernel
def _draw(scores, clusters, ends, uniforms, places, n_rows, labels):
    """The first cluster of each row whose cumulative weight reaches u times the total, at the place of the row."""
    first = 0
    for i in range(n_rows):
        top = -np.inf
        for p in range(first, ends[i]):
            top = max(top, scores[p])
        for p in range(first, ends[i]):
            scores[p] -= top
        first = ends[i]
    _exponentials(scores, first)
    first = 0
    for i in range(n_rows):
        total = 0.0
        for p in range(first, ends[i]):
            total += scores[p]
            scores[p] = total
        threshold, p = uniforms[i] * total, first
        while scores[p] < threshold:
            p += 1
        labels[places[i]] = clusters[p]
        first = ends[i]


@kernel
def _priorities(key, first_row, places, n_rows, own):
    for i in range(n_rows):
        own[i] = uniform(key[0], key[1], first_row + places[i])


@kernel
def draw_on_the_sphere(
    rows,
    forms,
    ceilings,
    far_ceilings,
    offsets,
    traces,
    volume,
    anchor_key,
    priorities,
    anchors,
    key,
    first_row,
    labels,
):
    """One draw per row among the clusters that its priority allows."""
    n_clusters = offsets.shape[0]
    n_words = -(-n_clusters // 64)
    x, y, z, floors = np.empty(_TILE), np.empty(_TILE), np.empty(_TILE), np.empty(_TILE)
    own, uniforms, ends, places = np.empty(_TILE), np.empty(_TILE), np.empty(_TILE, np.int64), np.empty(_TILE, np.int64)
    limits, counts = np.empty(_TILE), np.empty(_TILE)
    marks = np.empty((n_words, _TILE), np.uint64)
    scores, cosines = np.empty(_TILE * n_clusters), np.empty(_TILE * n_clusters)
    clusters = np.empty(_TILE * n_clusters, np.int32)
    highest = priorities.max()
    # what rounding does to halves, whose terms can cancel
    doubt = _ROUNDING * np.abs(forms).max()
    most = -np.log(2.0 * n_clusters) - doubt
    for start in range(0, rows.shape[0], _TILE):
        n_rows = min(_TILE, rows.shape[0] - start)
        before, number = labels[start : start + n_rows], first_row + start
        for i in range(n_rows):
            x[i], y[i], z[i] = rows[start + i, 0], rows[start + i, 1], rows[start + i, 2]
        fill_uniforms(key, number, n_rows, uniforms)
        _floors(x, y, z, forms, offsets, traces, volume, before, n_rows, floors)
        _limits(floors, uniforms, most, n_rows, limits)
        counts[:] = 0.0
        for k in range(n_clusters):
            _count(x, y, z, limits, forms, k, offsets[k], ceilings[k], far_ceilings[k], n_rows, counts)
        n_open = 0
        for i in range(n_rows):
            # its own cluster is one; an anchor stays
            if counts[i] != 1.0 and anchors[before[i]] != number + i:
                x[n_open], y[n_open], z[n_open], uniforms[n_open] = x[i], y[i], z[i], uniforms[i]
                limits[n_open], places[n_open] = floors[i] - _HOPELESS - doubt, i
                n_open += 1
        if n_open == 0:
            continue
        _priorities(anchor_key, number, places, n_open, own)
        marks[:] = 0
        for k in range(n_clusters):
            _mark(x, y, z, limits, forms, k, offsets[k], ceilings[k], far_ceilings[k], n_open, marks[k // 64])
        n_found = 0
        for i in range(n_open):
            for word in range(n_words):
                left = marks[word, i]
                while left != 0:
                    k = 64 * word + lowest_bit(left)
                    left &= left - np.uint64(1)
                    if own[i] > highest or is_allowed(own[i], number + places[i], priorities[k], anchors[k]):
                        scores[n_found] = _half(forms, k, x[i], y[i], z[i])
                        cosines[n_found] = _cosine(forms, k, x[i], y[i], z[i])
                        clusters[n_found] = k
                        n_found += 1
            ends[i] = n_found
        _bend_all(scores, cosines, clusters, offsets, traces, volume, n_found)
        _draw(scores, clusters, ends, uniforms, places, n_open, before)
