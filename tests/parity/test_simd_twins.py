"""Every piece that is written as vectors gives the bits of a loop, on every kind of processor.

The loops are Python with exact multiply-adds, so that they owe nothing to a compiler. The pieces are compiled for the
processor at hand and, in other processes, for one without AVX-512 and one without AVX2, which has no fused multiply-add
either. Run as a program this file checks them all for the processor that NUMBA_CPU_NAME says.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from fractions import Fraction

import numba
import numpy as np
import pytest
from llvmlite import binding, ir
from numba.extending import intrinsic

from armillary.kernels import crew
from armillary.kernels.images import lanes
from armillary.kernels.rows import exponential, nearest, simd, softmax, stretch
from armillary.sums import whole

F32, F64 = np.float32, np.float64
OTHERS = {"without AVX-512": "haswell", "without AVX2": "generic"}


def fused(one, two, three, dtype):
    """one * two + three, rounded once."""
    exact = Fraction(float(one)) * Fraction(float(two)) + Fraction(float(three))
    value = float(exact)
    if dtype is F32 and Fraction(value) != exact:
        # rounded to odd, the second rounding is that of the exact number
        other = np.nextafter(value, np.inf if exact > Fraction(value) else -np.inf)
        value = value if F64(value).view(np.int64) & 1 else other
    return dtype(value)


def assert_same_bits(found, expected):
    found, expected = np.ascontiguousarray(found), np.ascontiguousarray(expected)
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes(), (found, expected)


def rows_of(seed, shape, dtype=F64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# ------------------------------------------------------------------------------------------ loops, and what they are of


def add_to_line(dtype, dimension):
    rows = rows_of(1, (9, dimension), dtype)
    lines = np.arange(2 * simd.line_length(dimension)).reshape(2, -1)
    weights = rows_of(3, 9)

    rounder = whole.rounder(40)

    @numba.njit
    def vectors(rows, weights, rounder, lines):
        for i in range(rows.shape[0]):
            simd.add_to_line(rows, i, dimension, weights[i], rounder, lines, i % 2)

    expected = lines.copy()
    padding = [0.0] * (lines.shape[1] - dimension - 1)
    for i, row in enumerate(rows):
        values = np.array([*row, 1.0, *padding], F64) * weights[i] + rounder
        expected[i % 2] += values.view(np.int64)  # modulo 2^64
    vectors(rows, weights, rounder, lines)
    assert_same_bits(lines, expected)
    return vectors


def multiply_sparse(dtype, width):
    n_stored = 40
    data, matrix = rows_of(4, n_stored, F32), rows_of(5, (30, width + 4), dtype)
    indices = np.random.default_rng(6).integers(0, 30, n_stored).astype(np.int32)
    out = np.zeros(width + 4, dtype)

    @numba.njit
    def vectors(data, indices, matrix, out):
        simd.multiply_sparse(data, indices, 3, 37, matrix, 4, width, out)

    expected = np.zeros(width + 4, dtype)
    for p in range(3, 37):
        for k in range(4, width + 4):
            expected[k] = fused(data[p], matrix[indices[p], k], expected[k], dtype)
    vectors(data, indices, matrix, out)
    assert_same_bits(out, expected)
    return vectors


def multiply_add_line():
    one, two, three, out = rows_of(7, 24), rows_of(8, 24), rows_of(9, 24), np.zeros(24)

    @numba.njit
    def vectors(one, two, three, out):
        simd.multiply_add_line(one, 1, two, 2, three, 3, out, 4, 12)

    expected = np.zeros(24)
    for j in range(12):
        expected[4 + j] = fused(one[1 + j], two[2 + j], three[3 + j], F64)
    vectors(one, two, three, out)
    assert_same_bits(out, expected)
    return vectors


def sum_squares():
    n_columns, line, first = 10, 2, 3
    starts = range(simd.TRIANGLE_ROWS, n_columns, simd.TRIANGLE_ROWS)
    size = 5 * n_columns + sum(simd.TRIANGLE_ROWS * (n_columns - start) for start in starts)
    triangle, tile = rows_of(10, line + size), rows_of(11, (n_columns, simd.TILE_ROWS + 5))
    squares, cosines = np.zeros(simd.TILE_ROWS + 5), np.zeros(simd.TILE_ROWS + 5)

    @numba.njit
    def vectors(triangle, tile, squares, cosines):
        simd.sum_squares(triangle, line, tile, first, squares, cosines)

    expected, along = squares.copy(), cosines.copy()
    for r in range(first, first + simd.TILE_ROWS):
        entries = iter(triangle[line:])

        def products(n_lines, start, r=r, entries=entries):
            sums = [0.0] * n_lines
            for column in range(start, n_columns):
                sums = [fused(next(entries), tile[column, r], total, F64) for total in sums]
            return sums

        *values, along[r] = products(simd.TRIANGLE_ROWS + 1, 0)
        for start in starts:
            values += products(simd.TRIANGLE_ROWS, start)
        for value in values:
            expected[r] = fused(value, value, expected[r], F64)
    vectors(triangle, tile, squares, cosines)
    assert_same_bits(squares, expected)
    assert_same_bits(cosines, along)
    return vectors


def turn_to_lanes(dtype):
    rows, tile = rows_of(12, (20, 19), dtype), np.zeros((19, simd.LANES), F32)
    starts = np.arange(simd.LANES, dtype=np.int64)[::-1] * 19

    @numba.njit
    def vectors(rows, starts, tile):
        simd.turn_to_lanes(rows, starts, 3, tile)

    expected = tile.copy()
    for column in range(3, 19):
        for r in range(simd.LANES):
            expected[column, r] = rows.flat[starts[r] + column]
    vectors(rows, starts, tile)
    assert_same_bits(tile, expected)
    return vectors


def score_row(dtype, n_columns):
    rows, table = rows_of(13, (3, n_columns), dtype), rows_of(14, (6, n_columns), F32)
    listed = np.array([0, 5, 1, 4, 2], np.int32)

    @numba.njit
    def vectors(rows, table, listed):
        return simd.score_row(rows, 1, table, listed, 1)

    expected = []
    for k in listed[1 : 1 + simd.FEWEST_TOGETHER]:
        lanes = np.zeros(simd.LANES, F32)
        for d in range(n_columns):
            lane = d % simd.LANES
            lanes[lane] = fused(F32(rows[1, d]), table[k, d], lanes[lane], F32)
        while len(lanes) > 1:
            lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
        expected.append(lanes[0])
    assert_same_bits(np.array(vectors(rows, table, listed), F32), np.array(expected, F32))
    return vectors


def score_lanes(n_tiles, together):
    n_rows = n_tiles * simd.LANES
    tiles, table = rows_of(15, (n_tiles, 7, simd.LANES), F32), rows_of(16, (12, 7), F32)
    listed, level = np.arange(12, dtype=np.int32)[::-1].copy(), rows_of(17, 12, F32)
    best = np.full(n_rows, -np.inf, F32), np.full(n_rows, -np.inf, F32), np.zeros(n_rows, np.int32)

    @numba.njit
    def vectors(tiles, table, listed, level, top, second, label):
        simd.score_lanes(tiles, n_tiles, table, listed, level, 2, together, top, second, label)

    top, second, label = (values.copy() for values in best)
    for position in range(2, 2 + together):
        for r in range(n_rows):
            score = F32(0.0)
            for d in range(7):
                score = fused(table[listed[position], d], tiles[r // simd.LANES, d, r % simd.LANES], score, F32)
            score = F32(score + level[position])
            if score > top[r]:
                top[r], second[r], label[r] = score, max(top[r], second[r]), listed[position]
            else:
                second[r] = max(score, second[r])
    vectors(tiles, table, listed, level, *best)
    for found, expected in zip(best, (top, second, label), strict=True):
        assert_same_bits(found, expected)
    return vectors


def label_lanes(dtype, n_clusters):
    n_bits, margin = nearest.code_bits(n_clusters), F32(0.05)
    rows = rows_of(18, (simd.LANES + 2, 3), dtype)
    is_rival = np.arange(n_clusters) == 3
    table = nearest.score_table(rows_of(19, (n_clusters, 3)), rows_of(20, n_clusters), 0.3, is_rival)
    labels = np.random.default_rng(21).integers(-1, n_clusters, simd.LANES + 2).astype(np.int32)

    @numba.njit
    def vectors(rows, table, margin, labels, old):
        return nearest.label_lanes(rows, 1, 3, table, np.int32(n_bits), margin, labels, old)

    before, old = labels.copy(), np.full(simd.LANES + 1, 77, np.int32)
    expected, doubtful, n_moved = labels.copy(), 0, 0
    for lane in range(simd.LANES):
        best, second, label = table[0, 3], np.finfo(F32).min, -1
        for line in table[1:]:
            score = line[3]
            for d in range(3):
                score = fused(F32(rows[1 + lane, d]), line[d], score, F32)
            if n_bits:
                bits = int(score.view(np.int32)) & -1 << n_bits | int(line[4].view(np.int32))
                score = np.array(bits, np.int64).astype(np.int32).view(F32)[()]
            elif score > best:
                label = int(line[4].view(np.int32))
            best, second = max(score, best), max(min(score, best), second)
        if n_bits:
            code = int(best.view(np.int32)) & (1 << n_bits) - 1
            label = code - (code >> n_bits - 1 << n_bits)
        if F32(best - second) <= margin:
            doubtful |= 1 << lane
        elif label < 0:
            expected[1 + lane] = -2 - labels[1 + lane]
        else:
            n_moved += int(label != labels[1 + lane])
            expected[1 + lane] = label
    others = sum(1 << lane for lane in range(simd.LANES) if expected[1 + lane] != before[1 + lane])
    assert vectors(rows, table, margin, labels, old) == (doubtful, n_moved, others)
    assert_same_bits(labels, expected)
    assert_same_bits(old, np.append(before[1:-1], np.int32(77)))
    return vectors


def share_eight():
    n_clusters, n_columns, n_rows = 5, 3, 2 * softmax.SOFT_LANES
    columns, table, offsets = (
        rows_of(22, (n_columns, n_rows)),
        30.0 * rows_of(23, (n_clusters, n_columns)),
        rows_of(24, 5),
    )
    weights, line = rows_of(25, n_rows) ** 2, 7 * softmax.SOFT_LANES
    tops, totals, scores = np.zeros(n_rows), np.zeros(n_rows), np.zeros(2 * line)
    sums, found = np.zeros((n_clusters, n_columns + 1, softmax.SOFT_LANES)), np.zeros((n_clusters, n_columns + 1))

    @numba.njit
    def vectors(columns, table, offsets, weights, scores, tops, totals, sums, found):
        for step in range(2):
            softmax.share_eight(columns, 8 * step, 3, table, offsets, scores, line * step, tops, totals)
        for k in range(sums.shape[0]):
            softmax.add_shared(columns, 2, 3, weights, scores, 8 * k, line, sums, k)
            for d in range(4):
                found[k, d] = softmax.sum_eight(sums, 8 * (4 * k + d))

    expected = np.zeros_like(sums)
    for r in range(n_rows):
        values = offsets.copy()
        for k in range(n_clusters):
            for d in range(n_columns):
                values[k] = fused(columns[d, r], table[k, d], values[k], F64)
        powers = [plain_exp(value - values.max()) for value in values]
        for k in range(n_clusters):
            share = powers[k] * weights[r]
            for d in range(n_columns):
                expected[k, d, r % 8] = fused(share, columns[d, r], expected[k, d, r % 8], F64)
            expected[k, 3, r % 8] += share
    vectors(columns, table, offsets, weights, scores, tops, totals, sums, found)
    assert_same_bits(sums, expected)
    halves = expected[..., :4] + expected[..., 4:]
    quarters = halves[..., :2] + halves[..., 2:]
    assert_same_bits(found, quarters[..., 0] + quarters[..., 1])
    return vectors


def plain_exp(x):
    """exp(x) of x <= 0 as the vectors make it."""
    if x < exponential.SMALLEST:
        return 0.0
    n = fused(x, exponential.LOG2_E, exponential.ROUNDER, F64) - exponential.ROUNDER
    rest = fused(n, -exponential.LN2_LOW, fused(n, -exponential.LN2_HIGH, x, F64), F64)
    value = F64(exponential.TAYLOR[0])
    for coefficient in exponential.TAYLOR[1:]:
        value = fused(value, rest, coefficient, F64)
    return value * 2.0**n


def single_numbers():
    words = np.array([1, 6, 2**63, 2**40 + 2**17], np.uint64)
    points = np.linspace(-1.0, 1.0, 33)
    numbers = np.zeros(1, np.int64)
    coefficients = stretch._polynomial(stretch._stretch_of, stretch.WIDE, stretch._WIDE_DEGREE)

    @numba.njit
    def vectors(words, points, numbers, places, values, doubles):
        for i in range(words.shape[0]):
            simd.fetch(words, i)
            simd.fetch_to_read(words, i)
            places[i] = simd.lowest_bit(words[i])
            crew.take_number(numbers)
        for i in range(points.shape[0]):
            values[i] = stretch._wide_stretch(points[i])
            doubles[i] = exponential.double_of_bits((np.int64(i) + 1000) << 52)

    places, values, doubles = np.zeros(4, np.int64), np.zeros(33), np.zeros(33)
    vectors(words, points, numbers, places, values, doubles)
    assert_same_bits(places, np.array([0, 1, 63, 17]))
    assert numbers[0] == len(words)
    assert_same_bits(doubles, np.array([struct.unpack("d", struct.pack("q", i + 1000 << 52))[0] for i in range(33)]))
    for point, value in zip(points, values, strict=True):
        sums = list(coefficients[-2:])
        for n in range(len(coefficients) - 4, -1, -2):
            pair = coefficients[n : n + 2]
            sums = [fused(total, point * point, number, F64) for total, number in zip(sums, pair, strict=True)]
        assert value == fused(sums[1], point, sums[0], F64)
    return vectors


def image_lanes(dtype):
    """Every operation on neighbours, of which walks over lines of images are made."""
    n = lanes.lanes_of(numba.from_dtype(dtype))
    numbers, out = rows_of(31, (3, n), dtype), np.empty((12, n), dtype)

    @intrinsic
    def every(_context, numbers, out):
        def work(walk):
            zero = ir.Constant(ir.IntType(64), 0)
            a, b, c = (walk.load("numbers", walk.at(zero, n * row)) for row in range(3))
            held = lanes.Held(a)
            with walk.up_to(zero.type(3)) as (step, _):
                held.becomes(held.now.plus(walk.spread(step), b))
            found = [
                a + b, a - b, a * b, a.plus(b, c), a.minus(b, c), a.inverse(2.0), a.size().root(), a.lesser(b),
                a.greater(b), (~(a > b) & (b >= c)).where(a, 7.0), a.shuffled(b, range(n - 1, 2 * n - 1)), held.now,
            ]  # fmt: skip
            for row, vector in enumerate(found):
                walk.store("out", walk.at(zero, n * row), vector)

        return numba.types.void(numbers, out), lanes.generator("numbers out", numbers.dtype, work)

    @numba.njit
    def vectors(numbers, out):
        every(numbers, out)

    vectors(numbers, out)
    for lane, (a, b, c) in enumerate(numbers.T):
        total = a
        for step in (1.0, 2.0, 3.0):
            total = fused(dtype(step), b, total, dtype)
        both = [*numbers[0], *numbers[1]]
        expected = [
            a + b, a - b, a * b, fused(b, c, a, dtype), fused(-b, c, a, dtype), dtype(2.0) / a, np.sqrt(abs(a)),
            min(a, b), max(a, b), a if not a > b and b >= c else dtype(7.0), both[n - 1 + lane], total,
        ]  # fmt: skip
        assert_same_bits(out[:, lane], np.array(expected, dtype))
    return vectors


CHECKS = [
    pytest.param(
        check, arguments, id=" ".join([check.__name__, *(getattr(one, "__name__", str(one)) for one in arguments)])
    )
    for check, *every in (
        (add_to_line, (F32, 3), (F64, 6)),
        (multiply_sparse, (F32, 20), (F64, 4)),
        (multiply_add_line, ()),
        (sum_squares, ()),
        (turn_to_lanes, (F32,), (F64,)),
        (score_row, (F32, 16), (F64, 37)),
        (score_lanes, (1, simd.FEWEST_TOGETHER), (1, 6), (2, simd.FEWEST_TOGETHER), (2, 8)),
        (label_lanes, (F32, 5), (F64, 5), (F32, 40)),
        (share_eight, ()),
        (single_numbers, ()),
        (image_lanes, (F32,), (F64,)),
    )
    for arguments in every
]


@pytest.mark.parametrize(("check", "arguments"), CHECKS)
def test_a_piece_gives_the_bits_of_its_loop_and_is_translated_for_other_machines(check, arguments):
    vectors = check(*arguments)
    (code,) = vectors.inspect_llvm().values()
    # numba's own counting of references, made for the machine at hand by now; nothing else may be
    code = code.replace("@llvm.x86.atomic.sub.cc", "@count").replace(" immarg", "")
    assert not re.search(r"@llvm\.(x86|aarch64)\.", code)
    for triple in ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"):
        assert translated(code, triple) != ""


def translated(code, triple, cpu=""):
    """Assembly for another machine; None where this LLVM makes code for its own machine alone."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    try:
        machine = binding.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=2)
    except RuntimeError:
        return None
    module = binding.parse_assembly(re.sub(r'target (datalayout|triple) = ".*"\n', "", code))
    module.triple, module.data_layout = triple, str(machine.target_data)
    return machine.emit_assembly(module)


# Of each inner loop on arm64: fused multiply-adds of whole vectors (.4s: float32, .2d: float64) that it must have.
ARM_LOOPS = [
    (score_lanes, (1, 6), r"\bfmla\s+v\d+\.4s", 24),
    (label_lanes, (F32, 5), r"\bfmla\s+v\d+\.4s", 12),
    (score_row, (F32, 16), r"\bfmla\s+v\d+\.4s", 16),
    (share_eight, (), r"\bfml[as]\s+v\d+\.2d", 64),
]


@pytest.mark.parametrize("check", ARM_LOOPS, ids=lambda case: case[0].__name__)
def test_inner_loops_on_arm64_are_vectors_that_stay_in_registers(check):
    piece, arguments, multiply_add, at_least = check
    vectors = piece(*arguments)
    (code,) = vectors.inspect_llvm().values()
    code = code.replace("@llvm.x86.atomic.sub.cc", "@count").replace(" immarg", "")
    assembly = translated(code, "aarch64-unknown-linux-gnu", "neoverse-n1")
    if assembly is None:
        pytest.skip("this LLVM makes code for its own machine alone")
    assert len(re.findall(multiply_add, assembly)) >= at_least
    assert not re.findall(r"\bbl\s+(fmaf?)\b", assembly)  # a call of the C library for each lane
    if piece is share_eight:
        return  # its two steps are known to the compiler here, and become one stretch without loops
    for loop in inner_loops(assembly, multiply_add):
        assert not re.findall(r"\b(?:str|ldr|stp|ldp)\s+q\d+.*\[sp", loop), loop


def inner_loops(assembly, instruction):
    """Stretches from a label to a jump back to it that hold the instruction, and no other label between."""
    found = []
    for match in re.finditer(r"^(\.L\w+):(.*?)\bb\.\w+\s+(\.L\w+)$", assembly, re.M | re.S):
        label, body, target = match.groups()
        if label == target and not re.search(r"^\.L\w+:", body, re.M) and re.search(instruction, body):
            found.append(body)
    return found


def test_the_loops_would_notice_a_sum_that_is_rounded_twice():
    product = F32(1 + 2**-12)
    assert fused(product, product, F32(-1.0), F32) != F32(product * product) - F32(1.0)
    assert fused(F32(1 + 2**-23), F32(1 + 2**-23), F32(2**-60), F32) == F32(1 + 2**-22)
    # a second rounding to even would lose the last bit
    assert fused(F32(1.0), F32(1 + 2**-23), F32(2**-24 + 2**-47), F32) == F32(1 + 2**-22)
    assert fused(F32(1.0), F32(1.0), F32(2**-24 + 2**-47), F32) == F32(1 + 2**-23)


@pytest.mark.skipif(not sys.platform.startswith("linux") or os.uname().machine != "x86_64", reason="names of x86")
@pytest.mark.parametrize("name", OTHERS.values(), ids=OTHERS)
def test_pieces_for_other_processors_give_the_bits_of_their_loops(name):
    # without features of their own numba would add those of the processor at hand to the name
    environment = os.environ | {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{len(CHECKS)} pieces, 6 together\n"


if __name__ == "__main__":
    for case in CHECKS:
        check, arguments = case.values
        check(*arguments)
    sys.stdout.write(f"{len(CHECKS)} pieces, {simd.MOST_TOGETHER} together\n")
