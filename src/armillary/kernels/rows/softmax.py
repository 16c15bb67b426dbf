"""Shares of narrow rows among K clusters, eight rows at a time: scores, exponentials and sums as vectors.

A loop that numba vectorises goes over the rows of a tile once for each cluster, and keeps the largest scores and the
totals of the rows in memory meanwhile. Here they are in registers. Multiply-adds are fused by name and sums have one
order, as in simd.py, so shares and their sums have the same bits on every processor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from armillary.kernels.rows.exponential import LN2_HIGH, LN2_LOW, LOG2_E, ROUNDER, SMALLEST, TAYLOR
from armillary.kernels.rows.simd import address_of, call_llvm, spread_out, sum_of_lanes

# Rows that go together.
SOFT_LANES = 8

_DOUBLE, _INT64 = ir.DoubleType(), ir.IntType(64)
_VECTOR = ir.VectorType(_DOUBLE, SOFT_LANES)


def _constant(value: float) -> Any:
    return ir.Constant(_VECTOR, [value] * SOFT_LANES)


def _multiply_add(builder: Any, one: Any, two: Any, three: Any) -> Any:
    return call_llvm(builder, f"llvm.fma.v{SOFT_LANES}f64", _VECTOR, one, two, three)


def _exp(builder: Any, x: Any) -> Any:
    """`exp_nonpositive` of each lane."""
    is_large = builder.fcmp_ordered(">=", x, _constant(SMALLEST))
    clipped = builder.select(is_large, x, _constant(SMALLEST))
    shifted = _multiply_add(builder, clipped, _constant(LOG2_E), _constant(ROUNDER))
    n = builder.fsub(shifted, _constant(ROUNDER))
    rest = _multiply_add(builder, n, _constant(-LN2_HIGH), clipped)
    rest = _multiply_add(builder, n, _constant(-LN2_LOW), rest)
    value = _constant(TAYLOR[0])
    for coefficient in TAYLOR[1:]:
        value = _multiply_add(builder, value, rest, _constant(coefficient))
    integers = ir.VectorType(_INT64, SOFT_LANES)
    bits = builder.add(builder.bitcast(shifted, integers), ir.Constant(integers, [1023] * SOFT_LANES))
    power = builder.bitcast(builder.shl(bits, ir.Constant(integers, [52] * SOFT_LANES)), _VECTOR)
    return builder.select(is_large, builder.fmul(value, power), _constant(0.0))


@intrinsic
def share_eight(_context, columns, first, dimension, vectors, offsets, scores, place, tops, totals):
    """Exponentials of the scores of 8 rows less their largest, and what they come to.

    The rows are those from `first` on in `columns` (D, tile), `vectors` (K, D) and `offsets` (K,) score them. The
    exponentials of cluster k go to the flat `scores` from `place` + 8 k on, the largest scores to `tops` and sums of
    the exponentials to `totals` (tile,). Arrays are float64 and C-contiguous, `dimension` is a constant.
    """
    if not isinstance(dimension, types.IntegerLiteral):
        return None
    n_columns = dimension.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first, place = arguments[1], arguments[6]
        index = first.type
        shape = cgutils.create_struct_proxy(columns)(context, builder, arguments[0]).shape
        tile = builder.extract_value(shape, 1)
        n_clusters = builder.extract_value(
            cgutils.create_struct_proxy(offsets)(context, builder, arguments[4]).shape, 0
        )

        def at(number: int, position: Any, n_lanes: int = SOFT_LANES) -> Any:
            return address_of(context, builder, signature.args[number], arguments[number], position, n_lanes)

        rows = [
            builder.load(at(0, builder.add(builder.mul(tile, index(column)), first)), align=8)
            for column in range(n_columns)
        ]

        def score_at(cluster: Any) -> Any:
            return at(5, builder.add(place, builder.mul(cluster, index(SOFT_LANES))))

        top = cgutils.alloca_once(builder, _VECTOR)
        builder.store(_constant(-np.inf), top)
        with cgutils.for_range(builder, n_clusters) as loop:
            score = spread_out(builder, builder.load(at(4, loop.index, 1)), SOFT_LANES)
            start = builder.mul(loop.index, index(n_columns))
            for column, row in enumerate(rows):
                factor = builder.load(at(3, builder.add(start, index(column)), 1))
                score = _multiply_add(builder, row, spread_out(builder, factor, SOFT_LANES), score)
            builder.store(score, score_at(loop.index), align=8)
            best = builder.load(top)
            builder.store(builder.select(builder.fcmp_ordered(">", score, best), score, best), top)
        largest = builder.load(top)
        total = cgutils.alloca_once(builder, _VECTOR)
        builder.store(_constant(0.0), total)
        with cgutils.for_range(builder, n_clusters) as loop:
            value = _exp(builder, builder.fsub(builder.load(score_at(loop.index), align=8), largest))
            builder.store(value, score_at(loop.index), align=8)
            builder.store(builder.fadd(builder.load(total), value), total)
        builder.store(largest, at(7, first), align=8)
        builder.store(builder.load(total), at(8, first), align=8)
        return context.get_dummy_value()

    kinds = (columns, types.intp, dimension, vectors, offsets, scores, types.intp, tops, totals)
    return types.void(*kinds), generate


@intrinsic
def add_shared(_context, columns, n_steps, dimension, weights, scores, place, line, sums, cluster):
    """Add the rows of a tile to the `sums` (K, D + 1, 8) of a cluster, each by its weight times its exponential.

    There are 8 `n_steps` rows in `columns` (D, tile), with `weights` (tile,); the exponentials of the first eight are
    in the flat `scores` from `place` on, of the next `line` numbers farther. Counts come last.
    """
    if not isinstance(dimension, types.IntegerLiteral):
        return None
    n_columns = dimension.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        n_steps, place, line, cluster = (arguments[number] for number in (1, 5, 6, 8))
        index = n_steps.type
        shape = cgutils.create_struct_proxy(columns)(context, builder, arguments[0]).shape
        tile = builder.extract_value(shape, 1)

        def at(number: int, position: Any) -> Any:
            return address_of(context, builder, signature.args[number], arguments[number], position, SOFT_LANES)

        start = builder.mul(cluster, index((n_columns + 1) * SOFT_LANES))
        homes = [at(7, builder.add(start, index(SOFT_LANES * column))) for column in range(n_columns + 1)]
        totals = [cgutils.alloca_once(builder, _VECTOR) for _ in homes]
        for home, total in zip(homes, totals, strict=True):
            builder.store(builder.load(home, align=8), total)
        with cgutils.for_range(builder, n_steps) as loop:
            row = builder.mul(loop.index, index(SOFT_LANES))
            value = builder.load(at(4, builder.add(place, builder.mul(loop.index, line))), align=8)
            share = builder.fmul(value, builder.load(at(3, row), align=8))
            for column, total in enumerate(totals[:-1]):
                values = builder.load(at(0, builder.add(builder.mul(tile, index(column)), row)), align=8)
                builder.store(_multiply_add(builder, share, values, builder.load(total)), total)
            builder.store(builder.fadd(builder.load(totals[-1]), share), totals[-1])
        for home, total in zip(homes, totals, strict=True):
            builder.store(builder.load(total), home, align=8)
        return context.get_dummy_value()

    kinds = (columns, types.intp, dimension, weights, scores, types.intp, types.intp, sums, types.intp)
    return types.void(*kinds), generate


@intrinsic
def sum_eight(_context, sums, place):
    """The sum of 8 numbers of a flat array from `place` on: halves are added, then halves of that, ..."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source = address_of(context, builder, sums, arguments[0], arguments[1], SOFT_LANES)
        return sum_of_lanes(builder, builder.load(source, align=8))

    return types.float64(sums, types.intp), generate
