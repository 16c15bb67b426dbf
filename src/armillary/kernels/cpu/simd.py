"""Vector instructions that numba does not make of loops: short rows of sums, and accumulators that stay in registers.

numba leaves LLVM's vectoriser of straight-line code off and keeps arrays in memory. These pieces are written as vectors
of a fixed length instead, which LLVM fits to any machine. They are inlined where they are called.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

# Lines of sums are padded to whole vectors of this many float64.
_LINE_UNIT = 4
# Non-zeros between a fetch of a matrix row into the cache and its use: from memory it takes as long as 30 of them.
_AHEAD = 32
# Bytes in a cache line.
CACHE_LINE = 64

_INT32 = ir.IntType(32)
_DOUBLE = ir.DoubleType()


def line_length(dimension: int) -> int:
    """Room for `dimension` sums and a count."""
    return -(-(dimension + 1) // _LINE_UNIT) * _LINE_UNIT


def _call(builder: Any, name: str, returned: Any, *arguments: Any) -> Any:
    """Call one of LLVM's own functions."""
    kind = ir.FunctionType(returned, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def _address(context: Any, builder: Any, array: Any, value: Any, position: Any, n_lanes: int = 1) -> Any:
    """A pointer to `n_lanes` elements of a C-contiguous array that start at `position`."""
    data = cgutils.create_struct_proxy(array)(context, builder, value).data
    element = context.get_value_type(array.dtype)
    kind = element if n_lanes == 1 else ir.VectorType(element, n_lanes)
    return builder.bitcast(builder.gep(data, [position]), kind.as_pointer())


def _prefetch(builder: Any, address: Any, is_written: bool) -> None:
    keep, is_data = _INT32(3), _INT32(1)
    address = builder.bitcast(address, ir.IntType(8).as_pointer())
    _call(builder, "llvm.prefetch.p0", ir.VoidType(), address, _INT32(int(is_written)), keep, is_data)


def _spread(builder: Any, value: Any, n_lanes: int) -> Any:
    """A vector with `value` in every lane."""
    kind = ir.VectorType(value.type, n_lanes)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, _INT32(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_INT32, n_lanes), [0] * n_lanes))


@intrinsic
def add_to_line(_context, rows, row, dimension, weight, lines, line):
    """lines[line] += weight * (rows[row], 1, 0, ...): `lines` float64, both C-contiguous, `dimension` a constant.

    One load, one addition and one store for a row of 3: a loop has three of each, and takes 0.40 ms instead of 0.17
    for 300,000 rows. The multiply-add is fused whatever the flags of the kernel, so every kernel adds the same bits.
    """
    if not isinstance(dimension, types.IntegerLiteral):
        return None  # numba asks with the literal first
    n_columns = dimension.literal_value
    n_lanes = line_length(n_columns)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, weight, line = (arguments[number] for number in (1, 3, 5))
        start = builder.mul(row, row.type(n_columns))
        source = _address(context, builder, rows, arguments[0], start, n_lanes)
        element = context.get_value_type(rows.dtype)
        n_bytes = rows.dtype.bitwidth // 8
        # the lanes behind the row are not read: they hold the 1 that counts it, and zeros
        values = _call(
            builder,
            f"llvm.masked.load.v{n_lanes}f{8 * n_bytes}.p0",
            ir.VectorType(element, n_lanes),
            source,
            _INT32(n_bytes),
            ir.Constant(ir.VectorType(ir.IntType(1), n_lanes), [lane < n_columns for lane in range(n_lanes)]),
            ir.Constant(ir.VectorType(element, n_lanes), [float(lane == n_columns) for lane in range(n_lanes)]),
        )
        vector = ir.VectorType(_DOUBLE, n_lanes)
        if element != _DOUBLE:
            values = builder.fpext(values, vector)
        target = _address(context, builder, lines, arguments[4], builder.mul(line, line.type(n_lanes)), n_lanes)
        total = builder.load(target, align=8)
        total = _call(builder, f"llvm.fma.v{n_lanes}f64", vector, values, _spread(builder, weight, n_lanes), total)
        builder.store(total, target, align=8)
        return context.get_dummy_value()

    return types.void(rows, row, dimension, types.float64, lines, line), generate


@intrinsic
def fetch(_context, array, position):
    """Have element `position` of a flat array brought into the cache, to be changed soon."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _prefetch(builder, _address(context, builder, array, *arguments), is_written=True)
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@intrinsic
def multiply_sparse(_context, data, indices, start, stop, matrix, first, width, out):
    """out[first:first + width] = sum over p in start..stop of data[p] * matrix[indices[p], first:first + width].

    `matrix` and `out` have one dtype, `width` is a constant. The sums stay in registers, and rows of the matrix are
    fetched into the cache ahead of their use: 54,000 rows do not fit there, and waiting for them is half the time.
    """
    if not isinstance(width, types.IntegerLiteral):
        return None
    n_lanes = width.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start, stop, first = (
            context.cast(builder, arguments[number], signature.args[number], types.intp) for number in (2, 3, 5)
        )
        element = context.get_value_type(matrix.dtype)
        vector = ir.VectorType(element, n_lanes)
        n_columns = builder.extract_value(cgutils.create_struct_proxy(matrix)(context, builder, arguments[4]).shape, 1)
        n_stored = builder.extract_value(cgutils.create_struct_proxy(indices)(context, builder, arguments[1]).shape, 0)
        last = builder.sub(n_stored, n_stored.type(1))

        def column(position: Any) -> Any:
            """Where the part of the matrix row that goes with a non-zero starts."""
            stored = builder.load(_address(context, builder, indices, arguments[1], position))
            row = context.cast(builder, stored, indices.dtype, types.intp)
            return builder.add(builder.mul(row, n_columns), first)

        total = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * n_lanes))
        builder.store(ir.Constant(vector, [0.0] * n_lanes), total)
        with cgutils.for_range_slice(builder, start, stop, start.type(1)) as (position, _):
            ahead = builder.add(position, position.type(_AHEAD))
            ahead = column(builder.select(builder.icmp_signed("<", ahead, last), ahead, last))
            for lane in range(0, n_lanes, CACHE_LINE * 8 // matrix.dtype.bitwidth):
                line = _address(context, builder, matrix, arguments[4], builder.add(ahead, ahead.type(lane)))
                _prefetch(builder, line, is_written=False)
            value = builder.load(_address(context, builder, data, arguments[0], position))
            value = context.cast(builder, value, data.dtype, matrix.dtype)
            source = _address(context, builder, matrix, arguments[4], column(position), n_lanes)
            product = builder.fmul(_spread(builder, value, n_lanes), builder.load(source, align=4), flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
        target = _address(context, builder, out, arguments[7], first, n_lanes)
        builder.store(builder.load(total), target, align=4)
        return context.get_dummy_value()

    return types.void(data, indices, start, stop, matrix, first, width, out), generate


@intrinsic
def multiply_add_line(_context, one, first, two, second, three, third, out, place, width):
    """out[place + j] = one[first + j] * two[second + j] + three[third + j] for j < `width`, a multiple of 4; fused.

    Arrays are float64 and C-contiguous, positions those of the flat arrays. Lines may be the same; others must not
    overlap. A loop of numba's would ask whether they do, and leave the last columns to scalars.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = signature.args
        starts = [context.cast(builder, arguments[n], kinds[n], types.intp) for n in (1, 3, 5, 7)]
        stop = context.cast(builder, arguments[8], kinds[8], types.intp)
        vector = ir.VectorType(_DOUBLE, _LINE_UNIT)
        zero, step = stop.type(0), stop.type(_LINE_UNIT)
        with cgutils.for_range_slice(builder, zero, stop, step, inc=True) as (done, _):
            lines = [
                _address(context, builder, kinds[2 * n], arguments[2 * n], builder.add(start, done), _LINE_UNIT)
                for n, start in enumerate(starts)
            ]
            factors = [builder.load(line, align=8) for line in lines[:3]]
            builder.store(_call(builder, f"llvm.fma.v{_LINE_UNIT}f64", vector, *factors), lines[3], align=8)
        return context.get_dummy_value()

    return types.void(one, first, two, second, three, third, out, place, width), generate
