"""Anchored draws among tangent Gaussians in three dimensions, where most clusters are passed over (dp_tgmm.md, 14).

A tile of rows goes through five loops: uniforms; the score of the cluster each row is in; for every cluster one loop of
vectors that marks the rows for which it could matter; the scores of the marked pairs, again as vectors; the draws.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from armillary._typing import Float64Array
from armillary.distributions.tangent_gaussian import LEAST_SINE
from armillary.kernels.jit import VECTOR_SUMS, kernel
from armillary.kernels.rows.exponential import exp_nonpositive
from armillary.kernels.rows.philox import fill_uniforms
from armillary.kernels.rows.simd import lowest_bit
from armillary.kernels.rows.stretch import bend, bent_beyond, is_beyond
from armillary.rules import QuadraticRule

_TILE = 256
# exp(-40) of the largest weight is below half a unit in the last place of any sum of weights.
_HOPELESS = 40.0


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
def _mark(x, y, z, floors, forms, k, offset, ceiling, far_ceiling, n_rows, marks):
    """Set the bit of cluster k for the rows whose weight can be above exp(-40) of that of their floor."""
    bit = np.uint64(1) << np.uint64(k % 64)
    for i in range(n_rows):
        bound = offset - _half(forms, k, x[i], y[i], z[i])
        # a bound that is above its ceiling is none, and the cluster is marked whatever the floor
        is_far = _cosine(forms, k, x[i], y[i], z[i]) <= 0.0
        floor = floors[i] - _HOPELESS
        is_out = (bound <= min(floor, ceiling)) | (is_far & (far_ceiling <= floor))
        marks[i] |= np.uint64(0) if is_out else bit


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
def _draw(scores, clusters, ends, uniforms, n_rows, held, labels):
    """The first cluster of each row whose cumulative weight reaches u times the total, but for rows that are held."""
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
        if not held[i]:
            labels[i] = clusters[p]
        first = ends[i]


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
    own, uniforms, held, ends = np.empty(_TILE), np.empty(_TILE), np.empty(_TILE, np.bool_), np.empty(_TILE, np.int64)
    marks = np.empty((n_words, _TILE), np.uint64)
    scores, cosines = np.empty(_TILE * n_clusters), np.empty(_TILE * n_clusters)
    clusters = np.empty(_TILE * n_clusters, np.int32)
    highest = priorities.max()
    for start in range(0, rows.shape[0], _TILE):
        n_rows = min(_TILE, rows.shape[0] - start)
        before, number = labels[start : start + n_rows], first_row + start
        for i in range(n_rows):
            x[i], y[i], z[i] = rows[start + i, 0], rows[start + i, 1], rows[start + i, 2]
        fill_uniforms(anchor_key, number, n_rows, own)
        fill_uniforms(key, number, n_rows, uniforms)
        # the cluster that a row is in, which is always allowed, gives a floor
        for i in range(n_rows):
            floors[i] = _half(forms, before[i], x[i], y[i], z[i])
            cosines[i] = _cosine(forms, before[i], x[i], y[i], z[i])
            held[i] = anchors[before[i]] == number + i
        _bend_all(floors, cosines, before, offsets, traces, volume, n_rows)
        marks[:] = 0
        for k in range(n_clusters):
            limits = offsets[k], ceilings[k], far_ceilings[k]
            _mark(x, y, z, floors, forms, k, *limits, n_rows, marks[k // 64])
        n_found = 0
        for i in range(n_rows):
            for word in range(n_words):
                left = marks[word, i]
                while left != 0:
                    k = 64 * word + lowest_bit(left)
                    left &= left - np.uint64(1)
                    if own[i] > highest or is_allowed(own[i], number + i, priorities[k], anchors[k]):
                        scores[n_found] = _half(forms, k, x[i], y[i], z[i])
                        cosines[n_found] = _cosine(forms, k, x[i], y[i], z[i])
                        clusters[n_found] = k
                        n_found += 1
            ends[i] = n_found
        _bend_all(scores, cosines, clusters, offsets, traces, volume, n_found)
        _draw(scores, clusters, ends, uniforms, n_rows, held, before)
