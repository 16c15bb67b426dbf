"""Helpers that wait in compiled code, and join a kernel in the middle of a call.

A thread that is woken by Python needs the interpreter lock before it can begin and after it has ended, some 30 us a
thread, one thread after the other: sixteen of them would begin over half a millisecond, and a pass over 300,000 x 3
rows takes one. Here helpers sleep in the system's own condition variables, and wake each other.

A kernel that takes helpers has the arguments `is_helper`, `box` and `n_helpers` first, and this shape:

    room = rooms[take_seat(taken)]
    if is_helper == 0:
        ask(box, n_helpers, this_call())
    number = take_number(taken)
    while number < n_pieces:
        (work)
        number = take_number(taken)
    add_to_total(taken, (what was counted))
    if is_helper == 0:
        dismiss(box, n_helpers)

`this_call` is the call that is going on, all its arguments with it, which helpers make once more with `is_helper` 1.
Rooms, one more than helpers, come from the caller: a kernel that makes no array compiles in two thirds of the time.
The caller takes part, and waits in `dismiss` for helpers that began, not for those that come too late. Nothing between
`ask` and `dismiss` may fail, since the arguments must outlast the helpers.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from armillary.kernels.jit import kernel
from armillary.kernels.rows.simd import address_of, call_llvm

# The box, in int64: room for a mutex and two conditions of any system, then what they guard.
_MUTEX, _WORK, _DONE = 0, 16, 32
_CALL, _GIVEN, _WANTED, _INSIDE, _IS_OVER = 48, 49, 50, 51, 52
_LENGTH = 64
# Each that is woken wakes so many more: the last of sixteen wakes after four others, and nobody has to wake fifteen.
_WOKEN_BY_EACH = 2

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()
# Elsewhere callers work alone in compiled code.
IS_ABLE = os.name == "posix"


def _of_system(name: str, *places: int | None) -> Any:
    """A function of the system's threads as a piece of kernels: its arguments lie in the box."""

    @intrinsic
    def call(_context, box):
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if IS_ABLE:
                pointers = [
                    ir.Constant(_BYTES, None)
                    if place is None
                    else builder.bitcast(address_of(context, builder, box, arguments[0], _INT64(place)), _BYTES)
                    for place in places
                ]
                call_llvm(builder, name, _INT32, *pointers)
            return context.get_dummy_value()

        return types.void(box), generate

    return call


_make_mutex = _of_system("pthread_mutex_init", _MUTEX, None)
_make_work = _of_system("pthread_cond_init", _WORK, None)
_make_done = _of_system("pthread_cond_init", _DONE, None)
lock = _of_system("pthread_mutex_lock", _MUTEX)
unlock = _of_system("pthread_mutex_unlock", _MUTEX)
_sleep = _of_system("pthread_cond_wait", _WORK, _MUTEX)
_wake = _of_system("pthread_cond_signal", _WORK)
_wake_all = _of_system("pthread_cond_broadcast", _WORK)
_wait = _of_system("pthread_cond_wait", _DONE, _MUTEX)
_tell = _of_system("pthread_cond_signal", _DONE)


@intrinsic
def this_call(_context):
    """The call of the kernel that is going on, with `is_helper` 1: addresses of a function and of its argument."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function = builder.function
        given = list(function.args)  # room for the answer, room for an error, `is_helper`, ...
        kind = ir.LiteralStructType([value.type for value in given[3:]])
        room = cgutils.alloca_once(builder, kind)
        for number, value in enumerate(_unowned(given[3:])):
            builder.store(value, builder.gep(room, [_INT32(0), _INT32(number)], inbounds=True))

        again = ir.Function(
            builder.module,
            ir.FunctionType(_INT32, [_BYTES]),
            builder.module.get_unique_name(f"{function.name}.again"),
        )
        again.linkage = "internal"
        inside = ir.IRBuilder(again.append_basic_block())
        values = inside.load(inside.bitcast(again.args[0], kind.as_pointer()))
        lent = [inside.alloca(value.type.pointee) for value in given[:2]]
        rest = [inside.extract_value(values, number) for number in range(len(given) - 3)]
        inside.ret(inside.call(function, [*lent, given[2].type(1), *rest]))

        addresses = [builder.ptrtoint(value, _INT64) for value in (again, room)]
        return context.make_tuple(builder, signature.return_type, addresses)

    return types.UniTuple(types.int64, 2)(), generate


def _unowned(values: list[Any]) -> list[Any]:
    """Arguments of a kernel with arrays that nobody owns: two pointers, two numbers, and where the data are.

    numba counts who holds on to an array, and to each view of it, in one place for all threads that have it from one
    call: sixteen of them would spend most of their time on that. What has no owner is not counted, and outlasts the
    call of the helper anyway.
    """
    found, number = list(values), 0
    while number + 4 < len(values):
        kinds = [value.type for value in values[number : number + 5]]
        if kinds[:4] == [_BYTES, _BYTES, _INT64, _INT64] and isinstance(kinds[4], ir.PointerType):
            found[number] = found[number + 1] = ir.Constant(_BYTES, None)
            number += 4
        number += 1
    return found


@intrinsic
def _make_call(_context, call, given):
    """Make a call by its two addresses; what it returns is lost."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_INT32, [_BYTES]).as_pointer()
        builder.call(builder.inttoptr(arguments[0], kind), [builder.inttoptr(arguments[1], _BYTES)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def take_number(_context, taken):
    """taken[0], which grows by one: threads that share the array never get the same number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _add(context, builder, taken, arguments[0], 0, _INT64(1))

    return types.int64(taken), generate


@intrinsic
def take_seat(_context, taken):
    """taken[2], which grows by one: 0 or more for each thread of a call, at most the number of its helpers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _add(context, builder, taken, arguments[0], 2, _INT64(1))

    return types.int64(taken), generate


@intrinsic
def add_to_total(_context, taken, amount):
    """taken[1] grows by an amount, whoever else adds to it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _add(context, builder, taken, arguments[0], 1, arguments[1])
        return context.get_dummy_value()

    return types.void(taken, types.int64), generate


def _add(context: Any, builder: Any, array: Any, value: Any, place: int, amount: Any) -> Any:
    return builder.atomic_rmw("add", address_of(context, builder, array, value, _INT64(place)), amount, "monotonic")


@kernel
def _make_box(box):
    """An empty box."""
    _make_mutex(box)
    _make_work(box)
    _make_done(box)


@kernel
def _serve(box):
    """Help with one call after the other until it is over."""
    lock(box)
    while box[_IS_OVER] == 0:
        if box[_WANTED] == 0:
            _sleep(box)
            continue
        box[_WANTED] -= 1
        box[_INSIDE] += 1
        call, given, n_more = box[_CALL], box[_GIVEN], box[_WANTED]
        unlock(box)
        for _ in range(n_more if n_more < _WOKEN_BY_EACH else _WOKEN_BY_EACH):
            _wake(box)
        _make_call(call, given)
        lock(box)
        box[_INSIDE] -= 1
        if box[_INSIDE] == 0:
            _tell(box)
    unlock(box)


@kernel
def _end(box):
    """Let the helpers go."""
    lock(box)
    box[_IS_OVER] = 1
    _wake_all(box)
    unlock(box)


@kernel
def ask(box, n_helpers, call):
    """Have helpers make a call, as many as come in time."""
    if n_helpers > 0:
        lock(box)
        box[_CALL], box[_GIVEN], box[_WANTED] = call[0], call[1], n_helpers
        unlock(box)
        for _ in range(n_helpers if n_helpers < _WOKEN_BY_EACH else _WOKEN_BY_EACH):
            _wake(box)


@kernel
def dismiss(box, n_helpers):
    """Take no more helpers, and wait for those that began."""
    if n_helpers > 0:
        lock(box)
        box[_WANTED] = 0
        while box[_INSIDE] > 0:
            _wait(box)
        unlock(box)


class Crew:
    """Helpers of one caller at a time; they are started when first asked for, and sleep between calls."""

    def __init__(self) -> None:
        self.box: npt.NDArray[np.int64] = np.zeros(_LENGTH, np.int64)
        self._n_started = 0
        _made.add(self)

    def helpers(self, n_wanted: int) -> int:
        """How many helpers there are, of so many that are wanted."""
        if not IS_ABLE:
            return 0
        if self._n_started < n_wanted:
            if self._n_started == 0:
                _make_box(self.box)
            with suppress(RuntimeError):  # a container's limit of threads: those there are do the work
                while self._n_started < n_wanted:
                    # daemon: they sleep without the interpreter's lock, and do not keep the process from ending
                    threading.Thread(target=_serve, args=(self.box,), name="armillary helper", daemon=True).start()
                    self._n_started += 1
        return max(0, min(n_wanted, self._n_started))

    def forget(self) -> None:
        """The helpers stayed in the parent of this process."""
        self.box, self._n_started = np.zeros(_LENGTH, np.int64), 0


Helpers = tuple[npt.NDArray[np.int64], int]  # the box of a crew, and how many of it
NOBODY: Helpers = (np.zeros(_LENGTH, np.int64), 0)
_made: weakref.WeakSet[Crew] = weakref.WeakSet()
_idle: list[Crew] = []
_lending = threading.Lock()


def _begin_anew() -> None:
    for crew in list(_made):
        crew.forget()
    _lending.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lending.acquire, after_in_parent=_lending.release, after_in_child=_begin_anew)


@contextmanager
def lent() -> Iterator[Crew]:
    """A crew that nobody else has; its helpers stay for the next: a frame of a stream is shorter than their start."""
    with _lending:
        crew = _idle.pop() if _idle else Crew()
    try:
        yield crew
    finally:
        with _lending:
            _idle.append(crew)
