"""Walks over lines of images, written for a vector of neighbours: what they compute stays in registers.

Written as loops over lines, a walk reads and writes memory at every operation, ends each line with numbers one by one,
and asks whether its arrays overlap. Lines are padded to whole vectors here, with room for neighbours on both sides
(`padded`). Multiply-adds are fused by name and nothing is an instruction of one kind of processor, as in
`kernels/rows/simd.py`; tests/parity/test_simd_twins.py compares every operation with plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from armillary.kernels.jit import kernel
from armillary.kernels.rows.simd import address_of, call_llvm, spread_out

# Lines are padded to a multiple of it: a vector of float32, two of float64.
UNIT = 16
_BYTES_OF_A_VECTOR = 64
_DOUBLE = ir.DoubleType()


@kernel
def padded(length):
    """The length of a line that holds `length` numbers."""
    return (length + UNIT - 1) // UNIT * UNIT


class Vector:
    """Neighbours in a register, numbers or yes and no, while code is made. Every operation is rounded once."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def _made(self, value: Any) -> Vector:
        return Vector(self.builder, value)

    def _like(self, other: Any) -> Any:
        """The other vector; of a number one that has it in all lanes."""
        if isinstance(other, Vector):
            return other.value
        return ir.Constant(self.value.type, [float(other)] * self.value.type.count)

    def _call(self, name: str, *others: Any) -> Vector:
        kind = self.value.type
        full = f"llvm.{name}.v{kind.count}f{64 if kind.element == _DOUBLE else 32}"
        return self._made(call_llvm(self.builder, full, kind, *others, self.value))

    def __add__(self, other: Any) -> Vector:
        return self._made(self.builder.fadd(self.value, self._like(other)))

    def __sub__(self, other: Any) -> Vector:
        return self._made(self.builder.fsub(self.value, self._like(other)))

    def __mul__(self, other: Any) -> Vector:
        return self._made(self.builder.fmul(self.value, self._like(other)))

    def __and__(self, other: Vector) -> Vector:
        return self._made(self.builder.and_(self.value, other.value))

    def __invert__(self) -> Vector:
        return self._made(self.builder.not_(self.value))

    def __gt__(self, other: Any) -> Vector:
        return self._made(self.builder.fcmp_ordered(">", self.value, self._like(other)))

    def __ge__(self, other: Any) -> Vector:
        return self._made(self.builder.fcmp_ordered(">=", self.value, self._like(other)))

    def plus(self, one: Any, other: Any) -> Vector:
        """self + one * other."""
        return self._call("fma", self._like(one), self._like(other))

    def minus(self, one: Vector, other: Any) -> Vector:
        """self - one * other."""
        return self.plus(self._made(self.builder.fneg(one.value)), other)

    def inverse(self, of: float = 1.0) -> Vector:
        """of / self."""
        return self._made(self.builder.fdiv(self._like(of), self.value))

    def size(self) -> Vector:
        """|self|."""
        return self._call("fabs")

    def root(self) -> Vector:
        """The square root."""
        return self._call("sqrt")

    def where(self, one: Vector, other: Any) -> Vector:
        """One where this says yes, else the other."""
        return one._made(self.builder.select(self.value, one.value, one._like(other)))

    def lesser(self, other: Any) -> Vector:
        """The lesser of two; the other where one is NaN."""
        return self._made(self.builder.select((self < other).value, self.value, self._like(other)))

    def greater(self, other: Any) -> Vector:
        """The greater of two; the other where one is NaN."""
        return (self > other).where(self, other)

    def __lt__(self, other: Any) -> Vector:
        return self._made(self.builder.fcmp_ordered("<", self.value, self._like(other)))

    def shuffled(self, other: Vector, lanes: Iterable[int]) -> Vector:
        """These lanes of the two, those of the other counted on."""
        return self._made(self.builder.shuffle_vector(self.value, other.value, lane_numbers(lanes)))


class Held:
    """A vector that a loop changes."""

    def __init__(self, start: Vector) -> None:
        self._builder, self._place = start.builder, cgutils.alloca_once(start.builder, start.value.type)
        self.becomes(start)

    @property
    def now(self) -> Vector:
        """What it is."""
        return Vector(self._builder, self._builder.load(self._place))

    def becomes(self, vector: Vector) -> Vector:
        """Change it."""
        self._builder.store(vector.value, self._place)
        return vector


class Walk:
    """The arguments of a walk by their names: arrays as vectors of neighbours, all in the type of the walk."""

    def __init__(self, names: tuple[str, ...], given: tuple[Any, ...], dtype: Any, n_lanes: int) -> None:
        self._context, self.builder, signature, values = given
        self._kinds, self._values = dict(zip(names, signature.args, strict=True)), dict(zip(names, values, strict=True))
        self.dtype, self.n_lanes = dtype, n_lanes
        self._element = self._context.get_value_type(dtype)

    def whole(self, name: str) -> Any:
        """A whole number."""
        return self._context.cast(self.builder, self._values[name], self._kinds[name], types.intp)

    def length_of(self, name: str) -> Any:
        """The first length of an array."""
        array = cgutils.create_struct_proxy(self._kinds[name])(self._context, self.builder, self._values[name])
        return self.builder.extract_value(array.shape, 0)

    def number(self, name: str) -> Vector:
        """A number in every lane."""
        return self.spread(self._context.cast(self.builder, self._values[name], self._kinds[name], self.dtype))

    def spread(self, value: Any) -> Vector:
        """A value in every lane."""
        if isinstance(value, float):
            return Vector(self.builder, ir.Constant(ir.VectorType(self._element, self.n_lanes), [value] * self.n_lanes))
        if isinstance(value.type, ir.IntType):
            value = self.builder.sitofp(value, self._element)
        return Vector(self.builder, spread_out(self.builder, value, self.n_lanes))

    def at(self, position: Any, *steps: Any) -> Any:
        """A position, so many steps on."""
        for step in steps:
            position = self.builder.add(position, position.type(step) if isinstance(step, int) else step)
        return position

    def times(self, position: Any, factor: int) -> Any:
        """A position times a whole number."""
        return self.builder.mul(position, position.type(factor))

    def entry(self, name: str, position: Any) -> Any:
        """One number of an array, in its own type."""
        return self.builder.load(self.address(name, position))

    def address(self, name: str, position: Any, n_lanes: int = 1) -> Any:
        """A pointer to a number or a vector."""
        return address_of(self._context, self.builder, self._kinds[name], self._values[name], position, n_lanes)

    def load(self, name: str, position: Any, n_lanes: int | None = None) -> Vector:
        """Neighbours from a position on."""
        n_bytes, n_lanes = self._kinds[name].dtype.bitwidth // 8, n_lanes or self.n_lanes
        found = self.builder.load(self.address(name, position, n_lanes), align=n_bytes)
        return Vector(self.builder, self._cast(found, self._element))

    def store(self, name: str, position: Any, vector: Vector) -> None:
        """Write neighbours."""
        array = self._kinds[name].dtype
        value = self._cast(vector.value, self._context.get_value_type(array))
        self.builder.store(value, self.address(name, position, value.type.count), align=array.bitwidth // 8)

    def _cast(self, value: Any, element: Any) -> Any:
        kind = ir.VectorType(element, value.type.count)
        if value.type.element == element:
            return value
        return self.builder.fpext(value, kind) if element == _DOUBLE else self.builder.fptrunc(value, kind)

    def flags(self, name: str, position: Any) -> Vector:
        """Neighbours of an array of bools."""
        kind = ir.VectorType(ir.IntType(8), self.n_lanes)
        found = self.builder.load(self.builder.bitcast(self.address(name, position), kind.as_pointer()), align=1)
        return Vector(self.builder, self.builder.icmp_unsigned("!=", found, ir.Constant(kind, [0] * self.n_lanes)))

    def store_flags(self, name: str, position: Any, vector: Vector) -> None:
        """Write neighbours of an array of bools."""
        value = self.builder.zext(vector.value, ir.VectorType(ir.IntType(8), vector.value.type.count))
        self.builder.store(value, self.builder.bitcast(self.address(name, position), value.type.as_pointer()), align=1)

    def tiles(self, length: Any) -> Any:
        """A loop over the first positions of the vectors of a line."""
        return cgutils.for_range_slice(self.builder, length.type(0), length, length.type(self.n_lanes), inc=True)

    def up_to(self, last: Any) -> Any:
        """A loop over 1, ..., last."""
        one = last.type(1)
        return cgutils.for_range_slice(self.builder, one, self.at(last, 1), one, inc=True)


def lane_numbers(lanes: Iterable[int]) -> Any:
    """Numbers of lanes, as shuffles want them."""
    numbers = list(lanes)
    return ir.Constant(ir.VectorType(ir.IntType(32), len(numbers)), numbers)


def lanes_of(dtype: Any) -> int:
    """How many numbers a vector has."""
    return int(8 * _BYTES_OF_A_VECTOR // dtype.bitwidth)


def generator(names: str, dtype: Any, work: Callable[[Walk], Any], n_lanes: int | None = None) -> Any:
    """What an intrinsic returns beside its types: `work` makes the code, and returns its value or None."""

    def generate(*given: Any) -> Any:
        found = work(Walk(tuple(names.split()), given, dtype, n_lanes or lanes_of(dtype)))
        return given[0].get_dummy_value() if found is None else found

    return generate


@intrinsic
def lowest(_context, bits):
    """The number of the lowest of `bits` that is set."""

    def work(walk: Walk) -> Any:
        return walk.builder.cttz(walk.whole("bits"), ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generator("bits", types.float64, work)
