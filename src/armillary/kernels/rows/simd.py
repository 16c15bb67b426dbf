"""Vector instructions that numba does not make of loops: short rows of sums, and accumulators that stay in registers.

numba leaves LLVM's vectoriser of straight-line code off and keeps arrays in memory. These pieces are written as vectors
of a fixed length instead, which LLVM fits to any machine: nothing here is an instruction of one kind of processor. They
are inlined where they are called.

Multiply-adds are fused by name and sums have one order, so that every processor gives the same bits, which are those of
the loops in tests/parity/test_simd_twins.py. One without a fused multiply-add (x86 before 2013, NUMBA_CPU_NAME=generic)
calls the C library for it, which takes some ten times as long.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, config, types
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

from armillary.sums.whole import ROUNDER

# Lines of sums are padded to whole vectors of this many float64.
_LINE_UNIT = 4
# Non-zeros between a fetch of a matrix row into the cache and its use: from memory it takes as long as 30 of them.
_AHEAD = 32
# Bytes in a cache line.
CACHE_LINE = 64
# Rows that are scored side by side, one in each lane of a float32 vector; LLVM splits it where vectors are shorter.
LANES = 16
# Numbers that whole sums of products take at once.
SUM_LANES = 8
# What code is made for: numba's files are known by it, so what depends on it may be compiled in.
_FEATURES = get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES  # type: ignore[attr-defined]
_HAS_LONG_VECTORS = "+avx512f" in _FEATURES.split(",")
# Clusters whose scores of such rows are summed together. A multiply-add takes 4 cycles, and some processors start two
# a cycle: 8 sums keep them busy. Without AVX-512 a sum is two vectors, and no more than 6 sums fit into 16 registers
# (benchmarks: 112 GFLOP/s with 6, 102 with 4, 38 with 8).
FEWEST_TOGETHER = 4
MOST_TOGETHER = 8 if _HAS_LONG_VECTORS else 6
# Tiles of such rows that are scored side by side. With one, each multiply-add of a long vector loads a number of its
# own, and processors that start two multiply-adds a cycle wait for loads (Sapphire Rapids: 60 to 99 GFLOP/s with one,
# 91 to 151 with two). Zen 4 starts one, and its first-level cache holds one tile. Shorter vectors have no registers.
_NAME = config.CPU_NAME or binding.get_host_cpu_name()  # type: ignore[attr-defined]
TILES_TOGETHER = 2 if _HAS_LONG_VECTORS and _NAME != "znver4" else 1

_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)
_FLOAT = ir.FloatType()
_DOUBLE = ir.DoubleType()


def line_length(dimension: int) -> int:
    """Room for `dimension` sums and a count."""
    return -(-(dimension + 1) // _LINE_UNIT) * _LINE_UNIT


def call_llvm(builder: Any, name: str, returned: Any, *arguments: Any) -> Any:
    """Call one of LLVM's own functions."""
    kind = ir.FunctionType(returned, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def address_of(context: Any, builder: Any, array: Any, value: Any, position: Any, n_lanes: int = 1) -> Any:
    """A pointer to `n_lanes` elements of a C-contiguous array that start at `position`."""
    data = cgutils.create_struct_proxy(array)(context, builder, value).data
    element = context.get_value_type(array.dtype)
    kind = element if n_lanes == 1 else ir.VectorType(element, n_lanes)
    return builder.bitcast(builder.gep(data, [position]), kind.as_pointer())


def _prefetch(builder: Any, address: Any, is_written: bool, nearness: int = 3) -> None:
    keep, is_data = _INT32(nearness), _INT32(1)
    address = builder.bitcast(address, ir.IntType(8).as_pointer())
    call_llvm(builder, "llvm.prefetch.p0", ir.VoidType(), address, _INT32(int(is_written)), keep, is_data)


def spread_out(builder: Any, value: Any, n_lanes: int) -> Any:
    """A vector with `value` in every lane."""
    kind = ir.VectorType(value.type, n_lanes)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, _INT32(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_INT32, n_lanes), [0] * n_lanes))


@intrinsic
def add_to_line(_context, rows, row, dimension, weight, rounder, lines, line):
    """lines[line] += bits(weight * (rows[row], 1, 0, ...) + rounder): whole sums (sums/whole.py) as integers.

    `lines` is int64, both are C-contiguous, `dimension` is a constant. What lines hold in the end is told by
    `dense.pour`.

    One load, two additions and one store for a row of 3: a loop has three of each, and takes 0.40 ms instead of 0.17
    for 300,000 rows; and the next row of a cluster waits one cycle for an addition of integers, not four.
    """
    if not isinstance(dimension, types.IntegerLiteral):
        return None  # numba asks with the literal first
    n_columns = dimension.literal_value
    n_lanes = line_length(n_columns)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, weight, rounder, line = (arguments[number] for number in (1, 3, 4, 6))
        start = builder.mul(row, row.type(n_columns))
        source = address_of(context, builder, rows, arguments[0], start, n_lanes)
        element = context.get_value_type(rows.dtype)
        n_bytes = rows.dtype.bitwidth // 8
        # the lanes behind the row are not read: they hold the 1 that counts it, and zeros
        values = call_llvm(
            builder,
            f"llvm.masked.load.v{n_lanes}f{8 * n_bytes}.p0",
            ir.VectorType(element, n_lanes),
            source,
            _INT32(n_bytes),
            ir.Constant(ir.VectorType(ir.IntType(1), n_lanes), [lane < n_columns for lane in range(n_lanes)]),
            ir.Constant(ir.VectorType(element, n_lanes), [float(lane == n_columns) for lane in range(n_lanes)]),
        )
        if element != _DOUBLE:
            values = builder.fpext(values, ir.VectorType(_DOUBLE, n_lanes))
        target = address_of(context, builder, lines, arguments[5], builder.mul(line, line.type(n_lanes)), n_lanes)
        total = builder.load(target, align=8)
        magic = spread_out(builder, rounder, n_lanes)
        part = builder.fmul(values, spread_out(builder, weight, n_lanes))
        part = builder.bitcast(builder.fadd(part, magic), ir.VectorType(_INT64, n_lanes))
        builder.store(builder.add(total, part), target, align=8)
        return context.get_dummy_value()

    return types.void(rows, row, dimension, types.float64, types.float64, lines, line), generate


@intrinsic
def lane_product(_context, rows, row, vectors, vector):
    """sum rows[row, d] vectors[vector, d] in their own type: lane l of `LANES` has d = l, l + LANES, ... in order.

    Each product is rounded, then added; lanes are added in halves. Both arrays are C-contiguous, have as many columns
    and one type. Nothing is fused and the order is fixed: a GPU has these bits too (kernels/gpu/exact.py). Only for
    kernels without flags.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        element = context.get_value_type(rows.dtype)
        kind = ir.VectorType(element, LANES)
        zeros = ir.Constant(kind, [0.0] * LANES)
        shape = cgutils.create_struct_proxy(rows)(context, builder, arguments[0]).shape
        n_columns = cgutils.unpack_tuple(builder, shape)[1]
        n_bytes = rows.dtype.bitwidth // 8
        starts = [
            builder.mul(context.cast(builder, arguments[place], signature.args[place], types.intp), n_columns)
            for place in (1, 3)
        ]
        lane = ir.Constant(ir.VectorType(_INT64, LANES), list(range(LANES)))
        total = cgutils.alloca_once_value(builder, zeros)

        def add(place: Any, mask: Any | None) -> None:
            factors = []
            for array, value, first in ((rows, arguments[0], starts[0]), (vectors, arguments[2], starts[1])):
                source = address_of(context, builder, array, value, builder.add(first, place), LANES)
                if mask is None:
                    factors.append(builder.load(source, align=n_bytes))
                else:
                    name = f"llvm.masked.load.v{LANES}f{8 * n_bytes}.p0"
                    factors.append(call_llvm(builder, name, kind, source, _INT32(n_bytes), mask, zeros))
            builder.store(builder.fadd(builder.load(total), builder.fmul(*factors)), total)

        width = n_columns.type(LANES)
        with cgutils.for_range(builder, builder.udiv(n_columns, width)) as loop:
            add(builder.mul(loop.index, width), None)
        left = builder.urem(n_columns, width)
        with builder.if_then(builder.icmp_unsigned(">", left, left.type(0))):
            add(builder.sub(n_columns, left), builder.icmp_signed("<", lane, spread_out(builder, left, LANES)))
        found = builder.load(total)
        n_left = LANES // 2
        while n_left:
            halves = [
                builder.shuffle_vector(
                    found, found, ir.Constant(ir.VectorType(_INT32, n_left), list(range(first, first + n_left)))
                )
                for first in (0, n_left)
            ]
            found, n_left = builder.fadd(*halves), n_left // 2
        return builder.extract_element(found, _INT32(0))

    return rows.dtype(rows, row, vectors, vector), generate


@intrinsic
def whole_product(_context, one, two, n_rows, first, second):
    """The two limbs of sum one[i] two[i], i < n_rows, each product rounded by `first`, what that leaves by `second`.

    Both arrays are float64 and C-contiguous. Up to a multiple of `SUM_LANES` they are read, and must hold zeros in one
    and numbers in the other. The sums of lanes are whole (sums/whole.py), so their order does not matter: they are
    added as bits, which other units of a processor do beside the additions of floats. Only for kernels without flags,
    as `add_to_line`.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        count = context.cast(builder, arguments[2], signature.args[2], types.intp)
        n_steps = builder.udiv(builder.add(count, count.type(SUM_LANES - 1)), count.type(SUM_LANES))
        magics = [spread_out(builder, value, SUM_LANES) for value in arguments[3:]]
        quanta = ir.VectorType(_INT64, SUM_LANES)
        limbs = [cgutils.alloca_once_value(builder, ir.Constant(quanta, [0] * SUM_LANES)) for _ in magics]
        with cgutils.for_range(builder, n_steps) as loop:
            place = builder.mul(loop.index, count.type(SUM_LANES))
            factors = [
                builder.load(address_of(context, builder, kind, value, place, SUM_LANES), align=8)
                for kind, value in zip((one, two), arguments[:2], strict=True)
            ]
            left = builder.fmul(*factors)
            for limb, magic in zip(limbs, magics, strict=True):
                lifted = builder.fadd(left, magic)
                builder.store(builder.add(builder.load(limb), builder.bitcast(lifted, quanta)), limb)
                left = builder.fsub(left, builder.fsub(lifted, magic))
        totals = []
        for limb, magic in zip(limbs, arguments[3:], strict=True):
            lanes = builder.load(limb)
            total = builder.extract_element(lanes, _INT32(0))
            for lane in range(1, SUM_LANES):
                total = builder.add(total, builder.extract_element(lanes, _INT32(lane)))
            lifts = builder.mul(builder.mul(n_steps, n_steps.type(SUM_LANES)), builder.bitcast(magic, _INT64))
            unit = builder.fdiv(magic, _DOUBLE(ROUNDER))
            totals.append(builder.fmul(builder.sitofp(builder.sub(total, lifts), _DOUBLE), unit))
        return context.make_tuple(builder, signature.return_type, totals)

    return types.UniTuple(types.float64, 2)(one, two, n_rows, types.float64, types.float64), generate


@intrinsic
def fetch(_context, array, position):
    """Have element `position` of a flat array brought into the cache, to be changed soon."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _prefetch(builder, address_of(context, builder, array, *arguments), is_written=True)
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
            stored = builder.load(address_of(context, builder, indices, arguments[1], position))
            row = context.cast(builder, stored, indices.dtype, types.intp)
            return builder.add(builder.mul(row, n_columns), first)

        total = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * n_lanes))
        builder.store(ir.Constant(vector, [0.0] * n_lanes), total)
        with cgutils.for_range_slice(builder, start, stop, start.type(1)) as (position, _):
            ahead = builder.add(position, position.type(_AHEAD))
            ahead = column(builder.select(builder.icmp_signed("<", ahead, last), ahead, last))
            for lane in range(0, n_lanes, CACHE_LINE * 8 // matrix.dtype.bitwidth):
                line = address_of(context, builder, matrix, arguments[4], builder.add(ahead, ahead.type(lane)))
                _prefetch(builder, line, is_written=False)
            value = builder.load(address_of(context, builder, data, arguments[0], position))
            value = context.cast(builder, value, data.dtype, matrix.dtype)
            source = address_of(context, builder, matrix, arguments[4], column(position), n_lanes)
            factors = spread_out(builder, value, n_lanes), builder.load(source, align=4)
            name = f"llvm.fma.v{n_lanes}f{matrix.dtype.bitwidth}"
            builder.store(call_llvm(builder, name, vector, *factors, builder.load(total)), total)
        target = address_of(context, builder, out, arguments[7], first, n_lanes)
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
                address_of(context, builder, kinds[2 * n], arguments[2 * n], builder.add(start, done), _LINE_UNIT)
                for n, start in enumerate(starts)
            ]
            factors = [builder.load(line, align=8) for line in lines[:3]]
            builder.store(call_llvm(builder, f"llvm.fma.v{_LINE_UNIT}f64", vector, *factors), lines[3], align=8)
        return context.get_dummy_value()

    return types.void(one, first, two, second, three, third, out, place, width), generate


@intrinsic
def lowest_bit(_context, word):
    """The place of the lowest 1 of a uint64 that has one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.intp(types.uint64), generate


# Rows of a tile that `sum_squares` takes together, and rows of a triangle whose sums go on side by side.
TILE_ROWS = 16
TRIANGLE_ROWS = 4
_TILE_LANES = 8


@intrinsic
def sum_squares(_context, triangle, line, tile, first, squares, cosines):
    """squares[first + r] = |R x_r|^2 and cosines[first + r] = m . x_r of 16 rows x_r, columns of `tile` (D, M).

    `triangle` holds an upper triangle R and a vector m as `quadratic.py` packs them, flat, from position `line` on.
    Arrays are float64 and C-contiguous. Ten sums stay in registers, so the multiply-adds never wait for memory.
    """
    vector = ir.VectorType(_DOUBLE, _TILE_LANES)
    parts = range(0, TILE_ROWS, _TILE_LANES)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        line, first = (context.cast(builder, arguments[n], signature.args[n], types.intp) for n in (1, 3))
        shape = cgutils.create_struct_proxy(tile)(context, builder, arguments[2]).shape
        n_columns, width = (builder.extract_value(shape, axis) for axis in range(2))
        place = cgutils.alloca_once_value(builder, line)  # the next entry of the triangle
        builder.store(line, place)

        def vectors_at(number: int, array: Any, position: Any) -> list[Any]:
            starts = [builder.add(position, position.type(part)) for part in parts]
            return [address_of(context, builder, array, arguments[number], start, _TILE_LANES) for start in starts]

        def new_sums() -> list[Any]:
            sums = [cgutils.alloca_once(builder, vector) for _ in parts]
            for total in sums:
                builder.store(ir.Constant(vector, [0.0] * _TILE_LANES), total)
            return sums

        def multiply_add(one: Any, two: Any, total: Any) -> None:
            value = call_llvm(builder, f"llvm.fma.v{_TILE_LANES}f64", vector, one, two, builder.load(total))
            builder.store(value, total)

        def multiply(n_lines: int, start: Any) -> list[list[Any]]:
            """The products of the next lines of the triangle, which begin at column `start`, with the rows."""
            products = [new_sums() for _ in range(n_lines)]
            with cgutils.for_range_slice(builder, start, n_columns, start.type(1)) as (column, _):
                here = builder.add(builder.mul(column, width), first)
                rows = [builder.load(address, align=8) for address in vectors_at(2, tile, here)]
                for sums in products:
                    entry = builder.load(place)
                    factor = builder.load(address_of(context, builder, triangle, arguments[0], entry))
                    for row, total in zip(rows, sums, strict=True):
                        multiply_add(spread_out(builder, factor, _TILE_LANES), row, total)
                    builder.store(builder.add(entry, entry.type(1)), place)
            return [[builder.load(total) for total in sums] for sums in products]

        found = new_sums()

        def add_squares(products: list[list[Any]]) -> None:
            for values in products:
                for value, total in zip(values, found, strict=True):
                    multiply_add(value, value, total)

        *products, along = multiply(TRIANGLE_ROWS + 1, n_columns.type(0))
        add_squares(products)
        step = n_columns.type(TRIANGLE_ROWS)
        with cgutils.for_range_slice(builder, step, n_columns, step) as (start, _):
            add_squares(multiply(TRIANGLE_ROWS, start))
        totals = [builder.load(total) for total in found]
        for number, array, values in ((4, squares, totals), (5, cosines, along)):
            for value, target in zip(values, vectors_at(number, array, first), strict=True):
                builder.store(value, target, align=8)
        return context.get_dummy_value()

    return types.void(triangle, line, tile, first, squares, cosines), generate


@intrinsic
def fetch_to_read(_context, array, position):
    """Have element `position` of a flat array brought into the second-level cache, to be read soon."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _prefetch(builder, address_of(context, builder, array, *arguments), is_written=False, nearness=2)
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@intrinsic
def turn_to_lanes(_context, rows, starts, column, tile):
    """tile[column + j, r] = rows.flat[starts[r] + column + j] for 16 columns j of 16 rows r, in float32.

    `tile` is (D, 16), all arrays are C-contiguous. Rows become lanes by exchanging halves, quarters, ... of vectors.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors = []
        for row in range(LANES):
            start = builder.load(address_of(context, builder, starts, arguments[1], arguments[2].type(row)))
            vectors.append(_load_lanes(context, builder, rows, arguments[0], builder.add(start, arguments[2])))
        for number, values in enumerate(_transposed(builder, vectors)):
            line = builder.mul(builder.add(arguments[2], arguments[2].type(number)), arguments[2].type(LANES))
            builder.store(values, address_of(context, builder, tile, arguments[3], line, LANES), align=4)
        return context.get_dummy_value()

    return types.void(rows, starts, types.intp, tile), generate


def _transposed(builder: Any, vectors: list[Any]) -> list[Any]:
    """n vectors of n lanes, n a power of two: lane i of vector j becomes lane j of vector i."""
    n_lanes = len(vectors)
    half = n_lanes // 2
    while half:
        # lanes of the first vector come before those of the second: those are n_lanes and up
        first = [lane if not lane & half else n_lanes + lane - half for lane in range(n_lanes)]
        second = [lane + half if not lane & half else n_lanes + lane for lane in range(n_lanes)]
        masks = [ir.Constant(ir.VectorType(_INT32, n_lanes), places) for places in (first, second)]
        for number in range(n_lanes):
            if not number & half:
                pair = vectors[number], vectors[number + half]
                vectors[number], vectors[number + half] = (builder.shuffle_vector(*pair, mask) for mask in masks)
        half //= 2
    return vectors


@intrinsic
def score_row(_context, rows, i, vectors, listed, first):
    """The float32 products of row i with the vectors listed[first], ..., listed[first + 3]: a tuple of 4.

    Arrays are C-contiguous. A part of the row is loaded once for all four.
    """
    n_together = FEWEST_TOGETHER
    vector = ir.VectorType(_FLOAT, LANES)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        n_columns = builder.extract_value(cgutils.create_struct_proxy(vectors)(context, builder, arguments[2]).shape, 1)
        index = n_columns.type
        row = builder.mul(arguments[1], n_columns)
        starts, totals = [], []
        for number in range(n_together):
            position = builder.add(arguments[4], index(number))
            cluster = builder.load(address_of(context, builder, listed, arguments[3], position))
            starts.append(builder.mul(builder.sext(cluster, index), n_columns))
            totals.append(cgutils.alloca_once(builder, vector))
            builder.store(ir.Constant(vector, [0.0] * LANES), totals[-1])

        def add(column: Any, load: Any) -> None:
            values = load(rows, arguments[0], builder.add(row, column))
            for start, total in zip(starts, totals, strict=True):
                factors = load(vectors, arguments[2], builder.add(start, column))
                builder.store(
                    call_llvm(builder, f"llvm.fma.v{LANES}f32", vector, values, factors, builder.load(total)), total
                )

        whole = builder.and_(n_columns, index(-LANES))
        with cgutils.for_range_slice(builder, index(0), whole, index(LANES), inc=True) as (column, _):
            add(column, lambda *array: _load_lanes(context, builder, *array))
        with builder.if_then(builder.icmp_signed("<", whole, n_columns)):
            n_left = spread_out(builder, builder.trunc(builder.sub(n_columns, whole), _INT32), LANES)
            lanes = ir.Constant(ir.VectorType(_INT32, LANES), list(range(LANES)))
            is_left = builder.icmp_signed("<", lanes, n_left)
            add(whole, lambda *array: _load_lanes(context, builder, *array, is_left))
        products = [sum_of_lanes(builder, builder.load(total)) for total in totals]
        return context.make_tuple(builder, signature.return_type, products)

    products = types.UniTuple(types.float32, n_together)
    return products(rows, types.intp, vectors, listed, types.intp), generate


def _load_lanes(context: Any, builder: Any, array: Any, value: Any, position: Any, is_wanted: Any = None) -> Any:
    """16 elements of a C-contiguous array as float32, 0 where they are not wanted: those are not read."""
    source = address_of(context, builder, array, value, position, LANES)
    element = context.get_value_type(array.dtype)
    n_bytes = array.dtype.bitwidth // 8
    kind = ir.VectorType(element, LANES)
    if is_wanted is None:
        values = builder.load(source, align=n_bytes)
    else:
        name = f"llvm.masked.load.v{LANES}f{8 * n_bytes}.p0"
        nothing = ir.Constant(kind, [0.0] * LANES)
        values = call_llvm(builder, name, kind, source, _INT32(n_bytes), is_wanted, nothing)
    return values if element == _FLOAT else builder.fptrunc(values, ir.VectorType(_FLOAT, LANES))


def sum_of_lanes(builder: Any, values: Any) -> Any:
    """The sum of the lanes of a vector: its halves are added, then the halves of that, ..."""
    n_lanes = values.type.count
    while n_lanes > 1:
        n_lanes //= 2
        low, high = (
            ir.Constant(ir.VectorType(_INT32, n_lanes), list(range(first, first + n_lanes))) for first in (0, n_lanes)
        )
        values = builder.fadd(*(builder.shuffle_vector(values, values, lanes) for lanes in (low, high)))
    return builder.extract_element(values, _INT32(0))


@intrinsic
def score_lanes(_context, tiles, n_tiles, vectors, listed, level, first, together, top, second, label):
    """Score the rows of `tiles` (n_tiles, D, 16) against `together` clusters; keep the best two and the best label.

    The clusters are listed[first:first + together] (int32), with offsets `level` at the same places; `vectors` is
    (K, D). `top`, `second` (float32) and `label` (int32) have a lane for each row (16 n_tiles,). `n_tiles` and
    `together` are constants. The scores never leave the registers.
    """
    if not (isinstance(together, types.IntegerLiteral) and isinstance(n_tiles, types.IntegerLiteral)):
        return None
    n_together, numbers = together.literal_value, range(n_tiles.literal_value)
    vector = ir.VectorType(_FLOAT, LANES)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = arguments[5]
        index = first.type
        n_columns = builder.extract_value(cgutils.create_struct_proxy(vectors)(context, builder, arguments[2]).shape, 1)

        def place(number: int, position: Any, n_lanes: int = 1) -> Any:
            return address_of(context, builder, signature.args[number], arguments[number], position, n_lanes)

        clusters, offsets, starts, totals = [], [], [], []
        for number in range(n_together):
            position = builder.add(first, index(number))
            clusters.append(builder.load(place(3, position)))
            offsets.append(builder.load(place(4, position)))
            starts.append(builder.mul(builder.sext(clusters[-1], index), n_columns))
            totals.append([cgutils.alloca_once(builder, vector) for _ in numbers])
            for total in totals[-1]:
                builder.store(ir.Constant(vector, [0.0] * LANES), total)
        with cgutils.for_range(builder, n_columns) as loop:
            rows = []
            for tile in numbers:
                line = builder.add(builder.mul(n_columns, index(tile)), loop.index)
                rows.append(builder.load(place(0, builder.mul(line, index(LANES)), LANES), align=4))
            for start, sums in zip(starts, totals, strict=True):
                value = spread_out(builder, builder.load(place(2, builder.add(start, loop.index))), LANES)
                for row, total in zip(rows, sums, strict=True):
                    found = call_llvm(builder, f"llvm.fma.v{LANES}f32", vector, value, row, builder.load(total))
                    builder.store(found, total)
        for tile in numbers:
            ends = [place(number, index(LANES * tile), LANES) for number in (7, 8, 9)]
            best, runner_up, winner = (builder.load(end, align=4) for end in ends)
            for cluster, offset, sums in zip(clusters, offsets, totals, strict=True):
                score = builder.fadd(builder.load(sums[tile]), spread_out(builder, offset, LANES))
                is_best = builder.fcmp_ordered(">", score, best)
                beaten = builder.select(is_best, best, score)
                runner_up = builder.select(builder.fcmp_ordered(">", beaten, runner_up), beaten, runner_up)
                winner = builder.select(is_best, spread_out(builder, cluster, LANES), winner)
                best = builder.select(is_best, score, best)
            for values, end in zip((best, runner_up, winner), ends, strict=True):
                builder.store(values, end, align=4)
        return context.get_dummy_value()

    kinds = (tiles, n_tiles, vectors, listed, level, types.intp, together, top, second, label)
    return types.void(*kinds), generate
