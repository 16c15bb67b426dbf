"""Adding a short row to a line of sums in one vector instruction, which numba does not make of a loop.

numba leaves LLVM's vectoriser of straight-line code off: a loop over 3 columns becomes 3 loads, 3 additions and 3
stores, and the stores are what the sum of 300,000 x 3 rows waits for. As one vector it takes 0.17 ms instead of 0.40.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

# Lines are padded to whole vectors of this many float64.
_VECTOR = 4


def line_length(dimension: int) -> int:
    """Room for `dimension` sums and a count."""
    return -(-(dimension + 1) // _VECTOR) * _VECTOR


@intrinsic
def add_to_line(_context, rows, row, dimension, weight, lines, line):
    """lines[line] += weight * (rows[row], 1, 0, ...): `lines` float64, both C-contiguous, `dimension` a constant.

    The multiply-add is fused whatever the flags of the kernel it is in, so every kernel adds the same bits.
    """
    if not isinstance(dimension, types.IntegerLiteral):
        return None  # numba asks again with the literal
    n_columns = dimension.literal_value
    n_lanes = line_length(n_columns)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.DoubleType(), n_lanes)
        pick = ir.VectorType(ir.IntType(32), n_lanes)

        def address(array: int, number: int, length: int) -> tuple[Any, Any]:
            """A vector of `n_lanes` values that starts at line `number` of an array, and its pointer type."""
            kind = ir.VectorType(context.get_value_type(signature.args[array].dtype), n_lanes)
            data = cgutils.create_struct_proxy(signature.args[array])(context, builder, arguments[array]).data
            start = builder.mul(arguments[number], ir.Constant(arguments[number].type, length))
            return builder.bitcast(builder.gep(data, [start]), kind.as_pointer()), kind

        source, kind = address(0, 1, n_columns)
        n_bytes = rows.dtype.bitwidth // 8
        is_column = ir.VectorType(ir.IntType(1), n_lanes)
        load = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(kind, [kind.as_pointer(), ir.IntType(32), is_column, kind]),
            f"llvm.masked.load.v{n_lanes}f{8 * n_bytes}.p0",
        )
        # the lanes behind the row are not read: they hold the 1 that counts it, and zeros
        values = builder.call(
            load,
            [
                source,
                ir.Constant(ir.IntType(32), n_bytes),
                ir.Constant(is_column, [lane < n_columns for lane in range(n_lanes)]),
                ir.Constant(kind, [float(lane == n_columns) for lane in range(n_lanes)]),
            ],
        )
        if n_bytes < 8:
            values = builder.fpext(values, vector)
        undefined = ir.Constant(vector, ir.Undefined)
        first = builder.insert_element(undefined, arguments[3], ir.Constant(ir.IntType(32), 0))
        factors = builder.shuffle_vector(first, undefined, ir.Constant(pick, [0] * n_lanes))
        target, _ = address(4, 5, n_lanes)
        fused = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{n_lanes}f64"
        )
        total = builder.call(fused, [values, factors, builder.load(target, align=8)])
        builder.store(total, target, align=8)
        return context.get_dummy_value()

    return types.void(rows, row, dimension, types.float64, lines, line), generate
