"""Scores that are quadratic in a row, flat or in tangent spaces of the sphere, and draws among allowed clusters.

|roots x|^2 is |R x|^2 with R the triangle of a QR decomposition: half the products, and none is stored. Tiles of rows
are turned to one array per coordinate, and each cluster scores a whole tile, with sums in registers: for 41,000 x 20
and 90 clusters a fifth of the time of a BLAS product and a loop over it. In three dimensions most clusters are passed
over instead, see `sphere_draws.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.kernels.jit import kernel
from armillary.kernels.rows.exponential import exp_nonpositive
from armillary.kernels.rows.philox import fill_uniforms, uniform
from armillary.kernels.rows.simd import TILE_ROWS, TRIANGLE_ROWS, sum_squares
from armillary.kernels.rows.sphere_draws import SphereForms, draw_on_the_sphere, is_allowed
from armillary.kernels.rows.stretch import bend, bent_beyond, is_beyond, log_of
from armillary.points import Block, SparseBlock
from armillary.rules import Anchors, QuadraticRule

# Scores of a tile that are held at a time, 256 KB, and the rows of a tile: a triangle is read once for each tile.
_TILE_SCORES = 1 << 15
_MOST_ROWS = 128
# Lines of a tile that are a power of two apart would all lie in the same few places of the cache.
_PAD = 8
# Rows whose sides are weighed together.
_SIDE_ROWS = 512
# Rows whose scores stand in a table together, and rows whose priorities are drawn together.
_TABLE_ROWS = 1024


@dataclass(frozen=True, eq=False)
class Forms:
    """The quadratic forms of K clusters, laid out for the loops."""

    triangles: Float64Array  # (K, .) see `_packed`
    offsets: Float64Array  # (K,)
    traces: Float64Array  # (K,) |roots_k|^2 / p
    volume: float
    is_curved: bool  # in tangent spaces; else the shift is one more column
    rule: QuadraticRule

    @cached_property
    def on_the_sphere(self) -> SphereForms | None:
        """What draws of labels take in three dimensions."""
        return SphereForms.of(self.rule) if self.is_curved and self.rule.roots.shape[2] == 3 else None


def prepare(rule: QuadraticRule) -> Forms:
    """Once for every pass."""
    is_curved = rule.means is not None
    matrices = rule.roots if rule.shifts is None else np.concatenate([rule.roots, -rule.shifts[:, :, None]], axis=2)
    # scores have half the square
    triangles = np.sqrt(0.5) * np.linalg.qr(matrices, mode="r")
    n_clusters, _, n_columns = matrices.shape
    vectors = np.zeros((n_clusters, n_columns)) if rule.means is None else rule.means
    return Forms(
        _packed(triangles, vectors),
        rule.offsets,
        np.asarray(np.sum(rule.roots**2, axis=(1, 2)) / rule.roots.shape[1]),
        rule.volume,
        is_curved,
        rule,
    )


def _packed(triangles: Float64Array, vectors: Float64Array) -> Float64Array:
    """Upper triangles (K, m, D) and vectors (K, D) in the order in which `sum_squares` reads them.

    Four rows of a triangle at a time, from their first column that is not 0, and in each column the four entries one
    after the other; the vector is a fifth row of the first four.
    """
    n_clusters, n_rows, n_columns = triangles.shape
    padded = np.zeros((n_clusters, -(-n_columns // TRIANGLE_ROWS) * TRIANGLE_ROWS, n_columns))
    padded[:, :n_rows] = triangles
    parts = []
    for start in range(0, n_columns, TRIANGLE_ROWS):
        lines = padded[:, start : start + TRIANGLE_ROWS, start:]
        if start == 0:
            lines = np.concatenate([lines, vectors[:, None]], axis=1)
        parts.append(np.swapaxes(lines, 1, 2).reshape(n_clusters, -1))
    return np.concatenate(parts, axis=1)


def scores(rows: Block, forms: Forms, out: FloatArray) -> None:
    """Fill `out` (n, K)."""
    dense = _dense(rows)
    tile, table = _tile(dense, forms), _table(len(forms.offsets))
    _scores(dense, forms.triangles, forms.offsets, forms.traces, forms.volume, forms.is_curved, tile, table, out)


def quadratic_odds(
    rows: FloatArray,
    numbers: npt.NDArray[np.int32],
    edges: npt.NDArray[np.int64],
    rule: Forms,
    pairs: npt.NDArray[np.int64],
    out: Float64Array,
) -> None:
    """Two scores of each tile, one less the other."""
    tile, table = _tile(rows, rule), _table(2)
    _odds(
        rows,
        numbers,
        edges,
        rule.triangles,
        rule.offsets,
        rule.traces,
        rule.volume,
        rule.is_curved,
        pairs,
        tile,
        table,
        out,
    )


def draw_anchored(
    rows: Block,
    forms: Forms,
    anchors: Anchors,
    key: tuple[int, int],
    first_row: int,
    labels: npt.NDArray[np.int32],
) -> None:
    """One draw per row among the clusters that its priority allows."""
    dense = _dense(rows)
    laws = forms.offsets, forms.traces, forms.volume
    if forms.on_the_sphere is not None:
        draw_on_the_sphere(dense, *forms.on_the_sphere, *laws, *anchors, key, first_row, labels)
        return
    tile, table = _tile(dense, forms), _table(len(forms.offsets))
    _draw(dense, forms.triangles, *laws, forms.is_curved, *anchors, key, first_row, tile, table, labels)


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
        # the loops below have the rows of a cluster side by side
        _choose(np.ascontiguousarray(table.T), part.stop - start, *anchors, key, first_row + start, labels[part])


def find_anchors(labels: npt.NDArray[np.int32], first_row: int, anchors: Anchors) -> None:
    """Lower each cluster's anchor to its first row of this block, by priority."""
    _find_anchors(labels, first_row, *anchors, np.empty(_TABLE_ROWS))


def group_rows(labels: npt.NDArray[np.int32], starts: npt.NDArray[np.int64], order: npt.NDArray[np.int32]) -> None:
    """A counting sort."""
    _group_rows(labels, starts[:-1].copy(), order)


def part_rows(
    numbers: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
    is_left: npt.NDArray[np.bool_],
    out: npt.NDArray[np.int32],
) -> npt.NDArray[np.int64]:
    """Two readings of each set."""
    n_left = np.zeros(len(starts) - 1, dtype=np.int64)
    _part_rows(numbers, starts, is_left, out, n_left)
    return n_left


def draw_sides(
    numbers: npt.NDArray[np.int32],
    odds: Float64Array,
    key: tuple[int, int],
    first_row: int,
    is_left: npt.NDArray[np.bool_],
) -> None:
    """Uniforms below shares."""
    _draw_sides(numbers, odds, key, first_row, np.empty(len(odds), dtype=np.bool_), is_left)


def side_limbs(odds: Float64Array, is_left: npt.NDArray[np.bool_], rounders: tuple[float, float]) -> Float64Array:
    """One row after the other."""
    out = np.zeros((2, 2))
    _side_limbs(odds, is_left, *rounders, np.empty((2, _SIDE_ROWS)), out)
    return out


def divide_rows(numbers: npt.NDArray[np.int32], is_left: npt.NDArray[np.bool_], out: npt.NDArray[np.int32]) -> int:
    """Two readings, without a branch."""
    return int(_divide_rows(numbers, is_left, out))


def merge_rows(one: npt.NDArray[np.int32], two: npt.NDArray[np.int32], out: npt.NDArray[np.int32]) -> None:
    """One walk along both, without a branch."""
    _merge_rows(one, two, out)


def row_totals(
    rows: FloatArray,
    numbers: npt.NDArray[np.int32],
    edges: npt.NDArray[np.int64],
    rounder: float = 0.0,
    weights: Float64Array | None = None,
) -> Float64Array:
    """Rows added one after the other, each number rounded first (sums/whole.py)."""
    totals = np.zeros((len(edges) - 1, rows.shape[1]))
    if weights is None:
        _row_totals(rows, numbers, edges, rounder, totals)
    else:
        _weighted_totals(rows, numbers, edges, rounder, weights, totals)
    return totals


def _dense(rows: Block) -> FloatArray:
    assert not isinstance(rows, SparseBlock), "quadratic scores are for dense rows"
    return rows


def _tile(rows: FloatArray, forms: Forms) -> Float64Array:
    """Room (D, .) for a tile, with a last line of ones for the shift of a flat form."""
    return np.ones((rows.shape[1] + (not forms.is_curved), _MOST_ROWS + _PAD))


def _table(n_clusters: int) -> Float64Array:
    """Room (K, .) for the scores of as many rows as a tile should have."""
    n_rows = max(TILE_ROWS, min(_MOST_ROWS, _TILE_SCORES // n_clusters // TILE_ROWS * TILE_ROWS))
    return np.empty((n_clusters, n_rows))


@kernel
def _fill(rows, numbers, start, n_rows, tile):
    """Turn rows[numbers[start:]], or rows[start:], to the columns of a tile; returns how many are worked on.

    Columns beyond the rows hold whatever rows were there before.
    """
    for i in range(n_rows):
        row = rows[start + i if numbers is None else numbers[start + i]]
        for j in range(row.shape[0]):
            tile[j, i] = row[j]
    return -(-n_rows // TILE_ROWS) * TILE_ROWS


@kernel
def _score(triangles, offsets, traces, volume, is_curved, k, tile, n_rows, cosines, out):
    """Fill out[:n_rows] with the scores of a tile under cluster k."""
    for first in range(0, n_rows, TILE_ROWS):
        sum_squares(triangles, k * triangles.shape[1], tile, first, out, cosines)
    if not is_curved:
        for i in range(n_rows):
            out[i] = offsets[k] - out[i]
        return
    bend(out, cosines, volume, n_rows)
    for i in range(n_rows):
        if is_beyond(cosines[i]):
            out[i] = bent_beyond(out[i], cosines[i], traces[k], volume)
        out[i] += offsets[k]


@kernel
def _scores(rows, triangles, offsets, traces, volume, is_curved, tile, table, out):
    cosines = np.empty(table.shape[1])
    for start in range(0, rows.shape[0], table.shape[1]):
        n_rows = min(table.shape[1], rows.shape[0] - start)
        n_filled = _fill(rows, None, start, n_rows, tile)
        for k in range(offsets.shape[0]):
            _score(triangles, offsets, traces, volume, is_curved, k, tile, n_filled, cosines, table[k])
            for i in range(n_rows):
                out[start + i, k] = table[k, i]


@kernel
def _odds(rows, numbers, edges, triangles, offsets, traces, volume, is_curved, pairs, tile, table, out):
    cosines = np.empty(table.shape[1])
    for piece in range(edges.shape[0] - 1):
        for start in range(edges[piece], edges[piece + 1], table.shape[1]):
            n_rows = min(table.shape[1], edges[piece + 1] - start)
            n_filled = _fill(rows, numbers, start, n_rows, tile)
            for side in range(2):
                k = 2 * pairs[piece] + side
                _score(triangles, offsets, traces, volume, is_curved, k, tile, n_filled, cosines, table[side])
            for i in range(n_rows):
                out[start - edges[0] + i] = table[0, i] - table[1, i]


@kernel
def _draw(
    rows,
    triangles,
    offsets,
    traces,
    volume,
    is_curved,
    anchor_key,
    priorities,
    anchors,
    key,
    first_row,
    tile,
    table,
    labels,
):
    cosines = np.empty(table.shape[1])
    for start in range(0, rows.shape[0], table.shape[1]):
        n_rows = min(table.shape[1], rows.shape[0] - start)
        n_filled = _fill(rows, None, start, n_rows, tile)
        for k in range(offsets.shape[0]):
            _score(triangles, offsets, traces, volume, is_curved, k, tile, n_filled, cosines, table[k])
        part = labels[start : start + n_rows]
        _choose(table, n_rows, anchor_key, priorities, anchors, key, first_row + start, part)


@kernel
def _choose(table, n_rows, anchor_key, priorities, anchors, key, first_row, labels):
    """Draw labels from scores (K, >= n), which are written over; every loop runs along the rows, as vectors."""
    n_clusters = table.shape[0]
    own, tops, found = np.empty(n_rows), np.full(n_rows, -np.inf), np.zeros(n_rows, np.int32)
    fill_uniforms(anchor_key, first_row, n_rows, own)
    highest = priorities.max()
    for i in range(n_rows):
        if own[i] <= highest:
            for k in range(n_clusters):
                if not is_allowed(own[i], first_row + i, priorities[k], anchors[k]):
                    table[k, i] = -np.inf
    for k in range(n_clusters):
        _raise(table[k], tops, n_rows)
    for k in range(n_clusters):
        _add_weights(table[k], tops, table[k - 1] if k else np.zeros(n_rows), n_rows)
    fill_uniforms(key, first_row, n_rows, own)
    thresholds = own * table[n_clusters - 1, :n_rows]
    for k in range(n_clusters):
        _count_below(table[k], thresholds, n_rows, found)
    for i in range(n_rows):
        if anchors[labels[i]] != first_row + i:
            labels[i] = found[i]


@kernel
def _raise(values, tops, n_rows):
    for i in range(n_rows):
        tops[i] = max(tops[i], values[i])


@kernel
def _add_weights(values, tops, before, n_rows):
    """Weights, cumulated over the clusters."""
    for i in range(n_rows):
        values[i] = before[i] + exp_nonpositive(values[i] - tops[i])


@kernel
def _count_below(values, thresholds, n_rows, found):
    """Clusters whose cumulative weight does not reach the threshold: as many as come before the one drawn."""
    for i in range(n_rows):
        found[i] += values[i] < thresholds[i]


@kernel
def _find_anchors(labels, first_row, key, priorities, rows, drawn):
    for start in range(0, labels.shape[0], drawn.shape[0]):
        n_rows = min(drawn.shape[0], labels.shape[0] - start)
        fill_uniforms(key, first_row + start, n_rows, drawn)
        for i in range(n_rows):
            label, number = labels[start + i], first_row + start + i
            # numbers grow along the block, so a tie stays with the smaller one
            if drawn[i] < priorities[label] or (drawn[i] == priorities[label] and number < rows[label]):
                priorities[label] = drawn[i]
                rows[label] = number


@kernel
def _group_rows(labels, places, order):
    for i in range(labels.shape[0]):
        order[places[labels[i]]] = i
        places[labels[i]] += 1


@kernel
def _part_rows(numbers, starts, is_left, out, n_left):
    for g in range(n_left.shape[0]):
        for i in range(starts[g], starts[g + 1]):
            n_left[g] += is_left[numbers[i]]
        left, right = starts[g], starts[g] + n_left[g]
        for i in range(starts[g], starts[g + 1]):
            is_here = is_left[numbers[i]]
            out[left if is_here else right] = numbers[i]
            left += is_here
            right += not is_here


@kernel
def _divide_rows(numbers, is_left, out):
    n_left = 0
    for i in range(numbers.shape[0]):
        n_left += is_left[i]
    left, right = 0, n_left
    for i in range(numbers.shape[0]):
        is_here = is_left[i]
        out[left if is_here else right] = numbers[i]
        left += is_here
        right += not is_here
    return n_left


@kernel
def _merge_rows(one, two, out):
    i, j, place = 0, 0, 0
    while i < one.shape[0] and j < two.shape[0]:
        first, second = one[i], two[j]
        is_first = first < second
        out[place] = first if is_first else second
        i += is_first
        j += not is_first
        place += 1
    for rest in range(i, one.shape[0]):
        out[place] = one[rest]
        place += 1
    for rest in range(j, two.shape[0]):
        out[place] = two[rest]
        place += 1


@kernel
def _draw_sides(numbers, odds, key, first_row, drawn, is_left):
    for i in range(odds.shape[0]):
        small = exp_nonpositive(-abs(odds[i]))
        share = (1.0 if odds[i] >= 0.0 else small) / (1.0 + small)
        drawn[i] = uniform(key[0], key[1], first_row + numbers[i]) < share
    for i in range(odds.shape[0]):
        is_left[numbers[i]] = drawn[i]


@kernel
def _side_limbs(odds, is_left, large, small, tile, out):
    """Loops of their own for what has vectors: signs, exp and log."""
    signed, logs = tile[0], tile[1]
    for start in range(0, len(odds), _SIDE_ROWS):
        n_rows = min(_SIDE_ROWS, len(odds) - start)
        for i in range(n_rows):
            signed[i] = odds[start + i] if is_left[start + i] else -odds[start + i]
        for i in range(n_rows):
            logs[i] = 1.0 + exp_nonpositive(-abs(signed[i]))
        for i in range(n_rows):
            logs[i] = (signed[i] if signed[i] < 0.0 else 0.0) - log_of(logs[i])
        for which in range(2):
            values = logs if which == 0 else signed
            first_total, rest_total = 0.0, 0.0
            for i in range(n_rows):
                first = (values[i] + large) - large
                first_total += first
                rest_total += ((values[i] - first) + small) - small
            out[which, 0] += first_total
            out[which, 1] += rest_total


@kernel
def _row_totals(rows, numbers, edges, rounder, totals):
    if rows.shape[1] == 3:
        _totals_on_the_sphere(rows, numbers, edges, rounder, totals)
        return
    for piece in range(totals.shape[0]):
        for i in range(edges[piece], edges[piece + 1]):
            for j in range(rows.shape[1]):
                totals[piece, j] += (np.float64(rows[numbers[i], j]) + rounder) - rounder


@kernel
def _weighted_totals(rows, numbers, edges, rounder, weights, totals):
    for piece in range(totals.shape[0]):
        for i in range(edges[piece], edges[piece + 1]):
            for j in range(rows.shape[1]):
                totals[piece, j] += (weights[i] * np.float64(rows[numbers[i], j]) + rounder) - rounder


@kernel
def _totals_on_the_sphere(rows, numbers, edges, rounder, totals):
    """`_row_totals` of rows with three columns, to the bit: with the sums in registers it takes half the time."""
    for piece in range(totals.shape[0]):
        x = y = z = 0.0
        for i in range(edges[piece], edges[piece + 1]):
            number = numbers[i]
            x += (np.float64(rows[number, 0]) + rounder) - rounder
            y += (np.float64(rows[number, 1]) + rounder) - rounder
            z += (np.float64(rows[number, 2]) + rounder) - rounder
        totals[piece, 0], totals[piece, 1], totals[piece, 2] = x, y, z
