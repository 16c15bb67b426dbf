"""The best of K clusters for sixteen narrow rows at a time: scores, arg max and labels never leave the registers.

A score is a float32 that carries its cluster: the code of the cluster replaces its last bits. So the larger of two
scores brings its label along, and keeping the best and the second best of sixteen rows takes three instructions for
each cluster; comparing, and choosing a label by the outcome, would take two more. What the last bits said is lost, so
a few more rows are in doubt. They are few: 5 of 300,000 with 7 clusters in 3 columns. But the more clusters, the more
bits are lost, and the nearer clusters lie together: with 300 in 2 columns every row would be in doubt. Beyond
`MOST_CODED` clusters labels are kept beside the scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from armillary._typing import Float64Array
from armillary.kernels.rows.simd import LANES, address_of, call_llvm, spread_out

# Clusters up to which scores carry their codes.
MOST_CODED = 32
# The code of the floor and of rivals: refused.
_REFUSED = -1

_INT32 = ir.IntType(32)
_FLOAT = ir.FloatType()


def code_bits(n_clusters: int) -> int:
    """The bits of a signed number from -1 to K - 1; 0 where scores carry no codes."""
    return (n_clusters - 1).bit_length() + 1 if n_clusters <= MOST_CODED else 0


def score_table(
    vectors: Float64Array, offsets: Float64Array, floor: float, is_rival: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32]:
    """What `label_lanes` wants of a rule: (K + 1, D + 2), a vector, an offset and a code in each line.

    Line 0 is the floor: a score that has been met already, and refuses rows that meet no larger one. Where scores carry
    no codes, a code is a label.
    """
    n_clusters, n_features = vectors.shape
    n_bits = code_bits(n_clusters)
    mask = (1 << n_bits) - 1 if n_bits else -1
    table = np.zeros((n_clusters + 1, n_features + 2), np.float32)
    table[1:, :-2] = vectors
    table[1:, -2] = offsets
    codes = table[:, -1].view(np.int32)
    codes[0] = _REFUSED & mask
    codes[1:] = np.where(is_rival, _REFUSED & mask, np.arange(n_clusters))
    lowest = np.float32(max(floor, float(np.finfo(np.float32).min)))
    table[0, -2] = (lowest.view(np.int32) & ~mask | codes[0]).astype(np.int32).view(np.float32) if n_bits else lowest
    return table


@intrinsic
def label_lanes(_context, rows, row, dimension, table, n_bits, margin, labels, old):
    """Write the labels of 16 rows from `row` on over theirs in `labels`, but of those in doubt; theirs go to `old`.

    `table` is a `score_table`, `n_bits` its `code_bits`. In doubt are rows whose best scores, or best score and floor,
    lie within `margin`. Returns them, row + r as bit r; how many of the others moved; and, as bits, which of those have
    another label than before, refused or not.
    """
    if not isinstance(dimension, types.IntegerLiteral):
        return None  # numba asks with the literal first
    n_columns = dimension.literal_value
    integers, floats = ir.VectorType(_INT32, LANES), ir.VectorType(_FLOAT, LANES)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, n_bits, margin = (arguments[number] for number in (1, 4, 5))

        def line(number: Any, column: int) -> Any:
            """One number of the table in every lane."""
            place = builder.add(builder.mul(number, number.type(n_columns + 2)), number.type(column))
            return spread_out(builder, builder.load(address_of(context, builder, table, arguments[3], place)), LANES)

        def constant(value: int) -> Any:
            return ir.Constant(integers, [value] * LANES)

        def larger(one: Any, other: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", one, other), one, other)

        def smaller(one: Any, other: Any) -> Any:
            return builder.select(builder.fcmp_ordered("<", one, other), one, other)

        start = builder.mul(row, row.type(n_columns))
        values = builder.load(address_of(context, builder, rows, arguments[0], start, LANES * n_columns), align=4)
        columns = [
            builder.shuffle_vector(
                values, values, ir.Constant(integers, [n_columns * lane + column for lane in range(LANES)])
            )
            for column in range(n_columns)
        ]
        if rows.dtype.bitwidth == 64:
            columns = [builder.fptrunc(column, floats) for column in columns]
        kept = spread_out(builder, builder.shl(_INT32(-1), n_bits), LANES)
        n_lines = builder.extract_value(cgutils.create_struct_proxy(table)(context, builder, arguments[3]).shape, 0)
        best, second = cgutils.alloca_once(builder, floats), cgutils.alloca_once(builder, floats)
        winner = cgutils.alloca_once(builder, integers)
        builder.store(line(n_lines.type(0), n_columns), best)
        builder.store(ir.Constant(floats, [float(np.finfo(np.float32).min)] * LANES), second)
        builder.store(constant(_REFUSED), winner)

        def score_of(cluster: Any) -> Any:
            score = line(cluster, n_columns)
            for column, values in enumerate(columns):
                score = call_llvm(builder, f"llvm.fma.v{LANES}f32", floats, values, line(cluster, column), score)
            return score

        def keep(score: Any, top: Any) -> None:
            builder.store(larger(smaller(score, top), builder.load(second)), second)
            builder.store(larger(score, top), best)

        clusters = n_lines.type(1), n_lines, n_lines.type(1)
        with builder.if_else(builder.icmp_signed(">", n_bits, n_bits.type(0))) as (is_coded, is_plain):
            with is_coded:
                with cgutils.for_range_slice(builder, *clusters) as (cluster, _):
                    code = builder.bitcast(line(cluster, n_columns + 1), integers)
                    score = builder.or_(builder.and_(builder.bitcast(score_of(cluster), integers), kept), code)
                    keep(builder.bitcast(score, floats), builder.load(best))
                unused = spread_out(builder, builder.sub(_INT32(32), n_bits), LANES)
                coded = builder.bitcast(builder.load(best), integers)
                builder.store(builder.ashr(builder.shl(coded, unused), unused), winner)
            with is_plain, cgutils.for_range_slice(builder, *clusters) as (cluster, _):
                score, top = score_of(cluster), builder.load(best)
                code = builder.bitcast(line(cluster, n_columns + 1), integers)
                is_best = builder.fcmp_ordered(">", score, top)
                builder.store(builder.select(is_best, code, builder.load(winner)), winner)
                keep(score, top)
        top, label = builder.load(best), builder.load(winner)
        gap = builder.fsub(top, builder.load(second))
        is_doubtful = builder.fcmp_ordered("<=", gap, spread_out(builder, margin, LANES))
        place = address_of(context, builder, labels, arguments[6], row, LANES)
        before = builder.load(place, align=4)
        is_refused = builder.icmp_signed("<", label, constant(0))
        is_settled = builder.not_(is_doubtful)
        has_moved = builder.and_(builder.icmp_signed("!=", label, before), builder.not_(is_refused))
        label = builder.select(is_refused, builder.sub(constant(-2), before), label)
        builder.store(builder.select(is_settled, label, before), place, align=4)
        builder.store(before, address_of(context, builder, old, arguments[7], row.type(0), LANES), align=4)
        is_other = builder.and_(builder.icmp_signed("!=", label, before), is_settled)

        def as_number(mask: Any) -> Any:
            return builder.zext(builder.bitcast(mask, ir.IntType(LANES)), row.type)

        n_moved = builder.ctpop(as_number(builder.and_(has_moved, is_settled)))
        found = [as_number(is_doubtful), n_moved, as_number(is_other)]
        return context.make_tuple(builder, signature.return_type, found)

    three = types.UniTuple(types.intp, 3)
    return three(rows, types.intp, dimension, table, types.int32, types.float32, labels, old), generate
