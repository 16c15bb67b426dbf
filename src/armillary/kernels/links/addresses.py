"""Arrays of a kernel that come as addresses, for calls that are shorter than the opening of their arguments.

Numba looks at the type of every array that Python hands over, and takes it apart: 0.15 us each. A call of one vector
has two dozen. Here they are opened inside compiled code, where that is a load. Whoever makes such a call holds on to
the arrays until it is over.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from armillary.kernels.jit import kernel


@intrinsic
def _pointer(_context, address):
    """An address as compiled code has it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@kernel(is_inlined=True)
def array_at(address, shape, dtype):
    """The C-contiguous array that lies at an address; nobody owns it."""
    return carray(_pointer(address), shape, dtype)
