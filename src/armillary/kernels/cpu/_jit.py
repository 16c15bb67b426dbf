"""The one decorator of the CPU kernels: compiled on first use, kept on disk, free of the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

# Sums over rows may be regrouped into vector lanes and multiply-adds fused; the grouping is fixed at compile
# time, so results repeat. No NaN or infinity is assumed away.
VECTOR_SUMS = frozenset({"reassoc", "contract", "nsz"})


def kernel(function: F | None = None, *, fastmath: frozenset[str] | None = None) -> Any:
    """Compile `function` lazily. Serial and `nogil`: threads run whole blocks (0.6 s to compile, `prange` 5 s)."""

    def decorate(inner: F) -> Any:
        return numba.njit(inner, cache=True, nogil=True, error_model="numpy", fastmath=set(fastmath or ()))

    return decorate if function is None else decorate(function)
