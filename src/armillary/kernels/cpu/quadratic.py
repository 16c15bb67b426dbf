"""Scores that are quadratic in a row, flat or in tangent spaces of the sphere, and draws among allowed clusters.

In three dimensions one loop scores and draws: the quadratic form has six terms, and most clusters are passed over by a
bound that needs no angle (dp_tgmm.md, 14). Else one BLAS product gives |roots x|^2 and the cosines of a block.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.distributions.tangent_gaussian import LEAST_ANGLE, LEAST_SINE, MOST_ANGLE
from armillary.kernels.contract import Anchors, QuadraticRule
from armillary.kernels.cpu._jit import VECTOR_SUMS, kernel
from armillary.kernels.cpu.exponential import exp_nonpositive
from armillary.kernels.cpu.philox import uniform
from armillary.points import Block, SparseBlock

# Numbers of a product held at a time, 2 MB: it stays in cache between the product and the loop that reads it.
_PRODUCT_VALUES = 1 << 18
# Rows whose scores stand in a table together.
_TABLE_ROWS = 1024
# exp(-40) of the largest weight is below half a unit in the last place of any sum of weights.
_HOPELESS = 40.0
# Rows within 60 degrees of a mean, u = (1 - cos theta) / 2 below 1/4, have theta / sin theta by a polynomial.
_NEAR = 0.25
_DEGREE = 14
# Rows whose tangent vectors are made together: four arrays of 2 KB.
_BLOCK = 256


def scores(rows: Block, rule: QuadraticRule, out: Float64Array) -> None:
    """Fill `out` (n, K)."""
    n_features = rule.roots.shape[2]
    matrix = _stacked(rule)
    shifts = np.zeros((len(rule.offsets), 0)) if rule.shifts is None else rule.shifts
    step = max(1, _PRODUCT_VALUES // matrix.shape[1])
    dense = _dense(rows)
    for start in range(0, len(dense), step):
        part = dense[start : start + step].astype(np.float64, copy=False)
        products = (part @ matrix).reshape(len(part), len(rule.offsets), n_features)
        if rule.means is None:
            _flat_scores(products, shifts, rule.offsets, out[start : start + step])
        else:
            _tangent_scores(products, rule.offsets, _traces(rule), rule.volume, out[start : start + step])


def quadratic_odds(
    rows: FloatArray,
    numbers: npt.NDArray[np.int32],
    edges: npt.NDArray[np.int64],
    rule: QuadraticRule,
    out: Float64Array,
) -> None:
    """In one loop in three dimensions, else piece by piece."""
    if rule.means is not None and rule.roots.shape[2] == 3:
        _odds_on_the_sphere(rows, numbers, edges, *_forms(rule), rule.offsets, _traces(rule), rule.volume, out)
        return
    for piece in range(len(edges) - 1):
        part, two = slice(edges[piece], edges[piece + 1]), slice(2 * piece, 2 * piece + 2)
        shifts, means = (None if field is None else field[two] for field in (rule.shifts, rule.means))
        own = QuadraticRule(rule.roots[two], rule.offsets[two], shifts=shifts, means=means, volume=rule.volume)
        table = np.empty((part.stop - part.start, 2))
        scores(rows[numbers[part]], own, table)
        out[part] = table[:, 0] - table[:, 1]


def draw_anchored(
    rows: Block,
    rule: QuadraticRule,
    anchors: Anchors,
    key: tuple[int, int],
    first_row: int,
    labels: npt.NDArray[np.int32],
) -> None:
    """One draw per row among the clusters that its priority allows."""
    dense = _dense(rows)
    if rule.means is not None and dense.shape[1] == 3:
        _draw_on_the_sphere(
            dense, *_forms(rule), rule.offsets, _traces(rule), rule.volume, *anchors, key, first_row, labels
        )
        return
    choose_anchored(
        lambda part, table: scores(dense[part], rule, table), len(rule.offsets), anchors, key, first_row, labels
    )


def choose_anchored(
    fill: Callable[[slice, Float64Array], None],
    n_clusters: int,
    anchors: Anchors,
    key: tuple[int, int],
    first_row: int,
    labels: npt.NDArray[np.int32],
) -> None:
    """Draws from tables of scores (m, K) that `fill` makes, for a few rows at a time."""
    for start in range(0, len(labels), _TABLE_ROWS):
        part = slice(start, min(start + _TABLE_ROWS, len(labels)))
        table = np.empty((part.stop - start, n_clusters))
        fill(part, table)
        _choose_anchored(table, *anchors, key, first_row + start, labels[part])


def find_anchors(labels: npt.NDArray[np.int32], first_row: int, anchors: Anchors) -> None:
    """Lower each cluster's anchor to its first row of this block, by priority."""
    _find_anchors(labels, first_row, *anchors)


def group_rows(labels: npt.NDArray[np.int32], starts: npt.NDArray[np.int64], order: npt.NDArray[np.int32]) -> None:
    """A counting sort."""
    _group_rows(labels, starts[:-1].copy(), order)


def row_totals(rows: FloatArray, numbers: npt.NDArray[np.int32], edges: npt.NDArray[np.int64]) -> Float64Array:
    """Rows added one after the other."""
    totals = np.zeros((len(edges) - 1, rows.shape[1]))
    _row_totals(rows, numbers, edges, totals)
    return totals


def tangent_sums(
    rows: FloatArray,
    numbers: npt.NDArray[np.int32],
    edges: npt.NDArray[np.int64],
    bases: Float64Array,
    weights: Float64Array | None,
    *,
    with_scatter: bool,
    with_curvature: bool,
) -> tuple[Float64Array, Float64Array, Float64Array, Float64Array, Float64Array]:
    """Log vectors row by row, then their squares: summed in the loop in three dimensions, else by BLAS."""
    n_pieces, n_features = bases.shape
    vectors, scatters = np.zeros((n_pieces, n_features)), np.zeros((n_pieces, n_features, n_features))
    others = np.zeros((n_pieces, 4))
    if n_features == 3:
        _sums_on_the_sphere(
            rows, numbers, edges, bases, weights, with_scatter, with_curvature, vectors, scatters, others
        )
    else:
        for piece in range(n_pieces):
            part = slice(edges[piece], edges[piece + 1])
            own = None if weights is None else weights[part]
            kept = np.empty((part.stop - part.start if with_scatter else 0, n_features))
            others[piece] = _tangent_sums(
                rows, numbers[part], bases[piece], own, with_scatter, with_curvature, vectors[piece], kept
            )
            scatters[piece] = kept.T @ kept
    if with_scatter and others[:, 3].any():
        across = np.eye(n_features) - bases[:, :, None] * bases[:, None, :]
        scatters += (others[:, 3] / (n_features - 1.0))[:, None, None] * across
    return vectors, scatters, others[:, 0], others[:, 1], others[:, 2]


def _dense(rows: Block) -> FloatArray:
    assert not isinstance(rows, SparseBlock), "quadratic scores are for dense rows"
    return rows


def _stacked(rule: QuadraticRule) -> Float64Array:
    """Columns (D, K * D): the roots of a cluster and, in a tangent space, its mean last."""
    n_clusters, _, n_features = rule.roots.shape
    parts = [rule.roots] if rule.means is None else [rule.roots, rule.means[:, None]]
    return np.ascontiguousarray(np.concatenate(parts, axis=1).reshape(n_clusters * n_features, n_features).T)


def _traces(rule: QuadraticRule) -> Float64Array:
    """|roots_k|^2 / p (K,)."""
    return np.asarray(np.sum(rule.roots**2, axis=(1, 2)) / rule.roots.shape[1])


def _forms(rule: QuadraticRule) -> tuple[Float64Array, Float64Array]:
    """Means (K, 3), and -x' A x / 2 as six rows of coefficients (6, K) of x1^2, x2^2, x3^2, x1 x2, x1 x3, x2 x3."""
    assert rule.means is not None, "only tangent Gaussians come here"
    a = np.swapaxes(rule.roots, 1, 2) @ rule.roots
    entries = [a[:, 0, 0], a[:, 1, 1], a[:, 2, 2], 2.0 * a[:, 0, 1], 2.0 * a[:, 0, 2], 2.0 * a[:, 1, 2]]
    return np.ascontiguousarray(rule.means), -0.5 * np.stack(entries)


def _polynomial(function: Callable[[Float64Array], Float64Array]) -> Float64Array:
    """Coefficients, lowest first, of a function of v = 2 u / _NEAR - 1 on [-1, 1]: Chebyshev interpolation.

    Both functions below are analytic up to u = 1, so the error falls by 14 with each degree: none is left at 14.
    """
    nodes = np.polynomial.Chebyshev.interpolate(lambda v: function(0.5 * _NEAR * (v + 1.0)), _DEGREE)
    return np.asarray(nodes.convert(kind=np.polynomial.Polynomial).coef)


def _stretch_of(u: Float64Array) -> Float64Array:
    """theta / sin theta as a function of u = (1 - cos theta) / 2."""
    root = np.sqrt(np.maximum(u, 1e-300))
    return np.asarray(np.arcsin(root) / (root * np.sqrt(1.0 - u)))


def _bend_of(u: Float64Array) -> Float64Array:
    """a cot a, a = theta."""
    a = 2.0 * np.arcsin(np.sqrt(u))
    return np.asarray(a / np.tan(a))


def _sway_of(u: Float64Array) -> Float64Array:
    """1 + k^2 - 1/a^2 + (1/a - k) k with k = cot a, what three dimensions have: 1 - (1 - a k) / a^2."""
    a = 2.0 * np.arcsin(np.sqrt(u))
    return 1.0 - (1.0 - _bend_of(u)) / a**2


_STRETCH = _polynomial(_stretch_of)
_LOG_STRETCH = _polynomial(lambda u: np.log(_stretch_of(u)))
_BEND = _polynomial(_bend_of)
_SWAY = _polynomial(_sway_of)


@kernel(fastmath=VECTOR_SUMS)
def _evaluate(coefficients, v):
    value = coefficients[_DEGREE]
    for n in range(_DEGREE - 1, -1, -1):
        value = value * v + coefficients[n]
    return value


@kernel
def _bend(form, cosine, trace, volume):
    """-g^2 form / 2 + volume log g."""
    u = 0.5 * (1.0 - cosine)
    if u < _NEAR:
        # rounding can leave u a little below 0
        v = max(u, 0.0) * (2.0 / _NEAR) - 1.0
        stretch = _evaluate(_STRETCH, v)
        return volume * _evaluate(_LOG_STRETCH, v) - 0.5 * stretch * stretch * form
    cosine = max(-1.0, cosine)
    angle = np.arccos(cosine)
    sine = np.sqrt((1.0 - cosine) * (1.0 + cosine))
    if sine < LEAST_SINE:
        return -0.5 * angle * angle * trace + volume * np.log(angle / LEAST_SINE)
    stretch = angle / sine
    return -0.5 * stretch * stretch * form + volume * np.log(stretch)


@kernel(fastmath=VECTOR_SUMS)
def _squared_length(values, n_values):
    total = 0.0
    for j in range(n_values):
        total += values[j] * values[j]
    return total


@kernel(fastmath=VECTOR_SUMS)
def _squared_distance(values, shift):
    total = 0.0
    for j in range(values.shape[0]):
        total += (values[j] - shift[j]) * (values[j] - shift[j])
    return total


@kernel
def _tangent_scores(products, offsets, traces, volume, out):
    last = products.shape[2] - 1
    for i in range(products.shape[0]):
        for k in range(products.shape[1]):
            form = _squared_length(products[i, k], last)
            out[i, k] = offsets[k] + _bend(form, products[i, k, last], traces[k], volume)


@kernel
def _flat_scores(products, shifts, offsets, out):
    for i in range(products.shape[0]):
        for k in range(products.shape[1]):
            out[i, k] = offsets[k] - 0.5 * _squared_distance(products[i, k], shifts[k])


@kernel
def _stretch_and_angle(cosine, sine):
    """theta / sin theta, 0 at the antipode, and theta."""
    u = 0.5 * (1.0 - cosine)
    if u < _NEAR:
        stretch = _evaluate(_STRETCH, max(u, 0.0) * (2.0 / _NEAR) - 1.0)
        return stretch, stretch * sine
    angle = np.arctan2(sine, cosine)
    return (angle / sine if sine >= LEAST_SINE else 0.0), angle


@kernel
def _curve(angle, others):
    """One row's part of bend and sway."""
    a = max(angle, LEAST_ANGLE)
    k = 1.0 / np.tan(min(a, MOST_ANGLE))
    return a * k, 1.0 + k * k - 1.0 / (a * a) + others * (1.0 / a - k) * k


@kernel
def _tangent_sums(rows, numbers, base, weights, with_scatter, with_curvature, vector, kept):
    """Adds to `vector`; fills `kept`, if a scatter is wanted, with sqrt(w) Log(x), to be multiplied with itself.

    Returns the sums of log stretch, bend and sway, and that of the squared angles of antipodes.
    """
    n_features = base.shape[0]
    log_stretch, bend, sway, far = 0.0, 0.0, 0.0, 0.0
    across = np.empty(n_features)
    for i in range(numbers.shape[0]):
        row = rows[numbers[i]]
        weight = 1.0 if weights is None else weights[i]
        cosine = 0.0
        for j in range(n_features):
            cosine += row[j] * base[j]
        square = 0.0
        for j in range(n_features):
            across[j] = row[j] - cosine * base[j]
            square += across[j] * across[j]
        stretch, angle = _stretch_and_angle(cosine, np.sqrt(square))
        if stretch == 0.0:
            far += weight * angle * angle
        if with_curvature:
            one, other = _curve(angle, n_features - 2.0)
            bend, sway = bend + one, sway + other
        for j in range(n_features):
            across[j] *= stretch
            vector[j] += weight * across[j]
        if with_scatter:
            log_stretch += weight * np.log(stretch if stretch > 0.0 else angle / LEAST_SINE)
            root = np.sqrt(weight)
            for j in range(n_features):
                kept[i, j] = root * across[j]
    return log_stretch, bend, sway, far


@kernel(fastmath=VECTOR_SUMS)
def _add_moments(x, y, z, weights, n_rows, vector, scatter, with_scatter):
    """Add sum w v to `vector` and sum w v v' to the upper half of `scatter`, of vectors v = (x, y, z)."""
    sx, sy, sz = 0.0, 0.0, 0.0
    for i in range(n_rows):
        sx, sy, sz = sx + weights[i] * x[i], sy + weights[i] * y[i], sz + weights[i] * z[i]
    vector[0], vector[1], vector[2] = vector[0] + sx, vector[1] + sy, vector[2] + sz
    if not with_scatter:
        return
    xx, yy, zz, xy, xz, yz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n_rows):
        wx, wy = weights[i] * x[i], weights[i] * y[i]
        xx, xy, xz = xx + wx * x[i], xy + wx * y[i], xz + wx * z[i]
        yy, yz, zz = yy + wy * y[i], yz + wy * z[i], zz + weights[i] * z[i] * z[i]
    scatter[0, 0], scatter[1, 1], scatter[2, 2] = scatter[0, 0] + xx, scatter[1, 1] + yy, scatter[2, 2] + zz
    scatter[0, 1], scatter[0, 2], scatter[1, 2] = scatter[0, 1] + xy, scatter[0, 2] + xz, scatter[1, 2] + yz


@kernel(fastmath=VECTOR_SUMS)
def _polynomial_sum(coefficients, v, weights, n_rows):
    total = 0.0
    for i in range(n_rows):
        total += weights[i] * _evaluate(coefficients, v[i])
    return total


@kernel(fastmath=VECTOR_SUMS)
def _stretch_near(v, x, y, z, n_rows):
    """Tangent vectors from the parts across the base point."""
    for i in range(n_rows):
        stretch = _evaluate(_STRETCH, v[i])
        x[i], y[i], z[i] = stretch * x[i], stretch * y[i], stretch * z[i]


@kernel
def _stretch_any(v, x, y, z, weights, n_rows, with_scatter, with_curvature, others):
    """`_stretch_near` of rows some of which are far; adds what polynomials cannot to `others`."""
    for i in range(n_rows):
        cosine = 1.0 - _NEAR * (v[i] + 1.0)
        sine = np.sqrt(x[i] * x[i] + y[i] * y[i] + z[i] * z[i])
        stretch, angle = _stretch_and_angle(cosine, sine)
        if stretch == 0.0:
            others[3] += weights[i] * angle * angle
        if with_scatter:
            others[0] += weights[i] * np.log(stretch if stretch > 0.0 else angle / LEAST_SINE)
        if with_curvature:
            one, other = _curve(angle, 1.0)
            others[1] += one
            others[2] += other
        x[i], y[i], z[i] = stretch * x[i], stretch * y[i], stretch * z[i]


@kernel
def _sums_on_the_sphere(rows, numbers, edges, bases, weights, with_scatter, with_curvature, vectors, scatters, others):
    """`_tangent_sums` in three dimensions, a block of rows at a time, so that the loops over a block are vectors."""
    x, y, z, v = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    ones, own = np.ones(_BLOCK), np.ones(_BLOCK)
    for piece in range(bases.shape[0]):
        bx, by, bz = bases[piece, 0], bases[piece, 1], bases[piece, 2]
        for start in range(edges[piece], edges[piece + 1], _BLOCK):
            n_rows = min(_BLOCK, edges[piece + 1] - start)
            farthest = 0.0
            for i in range(n_rows):
                number = numbers[start + i]
                a, b, c = np.float64(rows[number, 0]), np.float64(rows[number, 1]), np.float64(rows[number, 2])
                cosine = a * bx + b * by + c * bz
                x[i], y[i], z[i] = a - cosine * bx, b - cosine * by, c - cosine * bz
                u = 0.5 * (1.0 - cosine)
                farthest = max(farthest, u)
                # rounding can leave u a little below 0
                v[i] = max(u, 0.0) * (2.0 / _NEAR) - 1.0
                if weights is not None:
                    own[i] = weights[start + i]
            if farthest < _NEAR:
                _stretch_near(v, x, y, z, n_rows)
                if with_scatter:
                    others[piece, 0] += _polynomial_sum(_LOG_STRETCH, v, own, n_rows)
                if with_curvature:
                    others[piece, 1] += _polynomial_sum(_BEND, v, ones, n_rows)
                    others[piece, 2] += _polynomial_sum(_SWAY, v, ones, n_rows)
            else:
                _stretch_any(v, x, y, z, own, n_rows, with_scatter, with_curvature, others[piece])
            _add_moments(x, y, z, own, n_rows, vectors[piece], scatters[piece], with_scatter)
        for j in range(3):
            for k in range(j):
                scatters[piece, j, k] = scatters[piece, k, j]


@kernel
def _odds_on_the_sphere(rows, numbers, edges, means, forms, offsets, traces, volume, out):
    for piece in range(edges.shape[0] - 1):
        first, second = 2 * piece, 2 * piece + 1
        for i in range(edges[piece], edges[piece + 1]):
            number = numbers[i]
            x, y, z = np.float64(rows[number, 0]), np.float64(rows[number, 1]), np.float64(rows[number, 2])
            one = offsets[first] + _score_on_the_sphere(x, y, z, means, forms, traces, volume, first)
            out[i] = one - (offsets[second] + _score_on_the_sphere(x, y, z, means, forms, traces, volume, second))


@kernel
def _score_on_the_sphere(x, y, z, means, forms, traces, volume, k):
    form = forms[0, k] * x * x + forms[1, k] * y * y + forms[2, k] * z * z
    form += forms[3, k] * x * y + forms[4, k] * x * z + forms[5, k] * y * z
    cosine = means[k, 0] * x + means[k, 1] * y + means[k, 2] * z
    return _bend(-2.0 * form, cosine, traces[k], volume)


@kernel
def _group_rows(labels, places, order):
    for i in range(labels.shape[0]):
        order[places[labels[i]]] = i
        places[labels[i]] += 1


@kernel
def _row_totals(rows, numbers, edges, totals):
    for piece in range(totals.shape[0]):
        for i in range(edges[piece], edges[piece + 1]):
            for j in range(rows.shape[1]):
                totals[piece, j] += rows[numbers[i], j]


@kernel
def _find_anchors(labels, first_row, key, priorities, rows):
    for i in range(labels.shape[0]):
        priority = uniform(key[0], key[1], first_row + i)
        label = labels[i]
        # numbers grow along the block, so a tie stays with the smaller one
        if priority < priorities[label] or (priority == priorities[label] and first_row + i < rows[label]):
            priorities[label] = priority
            rows[label] = first_row + i


@kernel
def _is_allowed(own, number, priority, anchor):
    return priority < own or (priority == own and anchor <= number)


@kernel
def _draw_among(weights, n_weights, top, u):
    """The first k whose cumulative exp(weights - top) reaches u of the total; `weights` is written over."""
    total = 0.0
    for k in range(n_weights):
        total += exp_nonpositive(weights[k] - top)
        weights[k] = total
    threshold = u * total
    k = 0
    while weights[k] < threshold:
        k += 1
    return k


@kernel
def _choose_anchored(table, anchor_key, priorities, anchors, key, first_row, labels):
    n_clusters = table.shape[1]
    for i in range(table.shape[0]):
        number = first_row + i
        if anchors[labels[i]] == number:
            continue
        own = uniform(anchor_key[0], anchor_key[1], number)
        top = -np.inf
        for k in range(n_clusters):
            if not _is_allowed(own, number, priorities[k], anchors[k]):
                table[i, k] = -np.inf
            top = max(top, table[i, k])
        labels[i] = _draw_among(table[i], n_clusters, top, uniform(key[0], key[1], number))


@kernel(fastmath=VECTOR_SUMS)
def _bounds(forms, offsets, x, y, z, out):
    """offset - x' A x / 2 of every cluster."""
    xx, yy, zz, xy, xz, yz = x * x, y * y, z * z, x * y, x * z, y * z
    for k in range(out.shape[0]):
        square = forms[0, k] * xx + forms[1, k] * yy + forms[2, k] * zz
        out[k] = offsets[k] + (square + (forms[3, k] * xy + forms[4, k] * xz + forms[5, k] * yz))


@kernel
def _draw_on_the_sphere(
    rows, means, forms, offsets, traces, volume, anchor_key, priorities, anchors, key, first_row, labels
):
    """Scores and draws of rows in three dimensions; clusters that cannot matter are passed over.

    g >= 1, and -g^2 a/2 + v log g falls with g where a >= v: there offset - a/2 is an upper bound.
    """
    n_clusters = offsets.shape[0]
    bounds, weights, found = np.empty(n_clusters), np.empty(n_clusters), np.empty(n_clusters, np.int64)
    highest = priorities.max()
    ceilings = offsets - 0.5 * volume
    for i in range(rows.shape[0]):
        number = first_row + i
        before = labels[i]
        if anchors[before] == number:
            continue
        own = uniform(anchor_key[0], anchor_key[1], number)
        x, y, z = np.float64(rows[i, 0]), np.float64(rows[i, 1]), np.float64(rows[i, 2])
        _bounds(forms, offsets, x, y, z, bounds)
        # the cluster that the row is in, which is always allowed, gives a floor to begin with
        cosine = means[before, 0] * x + means[before, 1] * y + means[before, 2] * z
        form = 2.0 * (offsets[before] - bounds[before])
        mine = offsets[before] + _bend(form, cosine, traces[before], volume)
        top, n_found = mine, 0
        for k in range(n_clusters):
            if bounds[k] <= top - _HOPELESS and bounds[k] <= ceilings[k]:
                continue
            form = 2.0 * (offsets[k] - bounds[k])
            if k == before:
                weights[n_found] = mine
            elif own > highest or _is_allowed(own, number, priorities[k], anchors[k]):
                cosine = means[k, 0] * x + means[k, 1] * y + means[k, 2] * z
                weights[n_found] = offsets[k] + _bend(form, cosine, traces[k], volume)
                top = max(top, weights[n_found])
            else:
                continue
            found[n_found] = k
            n_found += 1
        if n_found > 1:
            labels[i] = found[_draw_among(weights, n_found, top, uniform(key[0], key[1], number))]
        else:
            labels[i] = found[0]
