"""The one decorator of the CPU kernels: compiled on first use, kept on disk, free of the interpreter lock.

A first use that finds nothing on disk takes a second or so for each kind of rows, and says so on the logger "armillary"
at level INFO, which `verbose=1` shows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core import event

F = TypeVar("F", bound=Callable[..., Any])

# Sums over rows may be regrouped into vector lanes and multiply-adds fused; the grouping is fixed at compile
# time, so results repeat. No NaN or infinity is assumed away. Such a sum must not share its loop with a store: the
# compiler then makes a second version of the loop, for arrays that overlap, and the bits depend on which is run.
VECTOR_SUMS = frozenset({"reassoc", "contract", "nsz"})
# Multiply-adds may be fused, nothing else.
CONTRACT = frozenset({"contract"})
# Filter scores are finite, so maxima may be kept per vector lane; the error bound of a filter holds for any order.
FILTER = frozenset({"nnan", "nsz", "reassoc", "contract"})


def kernel(function: F | None = None, *, fastmath: frozenset[str] | None = None, is_inlined: bool = False) -> Any:
    """Compile `function` lazily. Serial and `nogil`: threads run whole blocks.

    `is_inlined` is for short pieces of inner loops: arrays go to a function that is called as seven arguments each.
    """

    def decorate(inner: F) -> Any:
        return numba.njit(
            inner, cache=True, nogil=True, error_model="numpy", fastmath=set(fastmath or ()), forceinline=is_inlined
        )

    return decorate if function is None else decorate(function)


class _Announcer(event.Listener):
    """Says once per process that kernels are being compiled rather than read from disk."""

    def __init__(self) -> None:
        self._has_spoken = False

    def on_start(self, event: Any) -> None:
        is_ours = event.data["dispatcher"].py_func.__module__.startswith("armillary.")
        logger = logging.getLogger("armillary")
        # the gate may compile before a progress bar is there to show it
        if is_ours and not self._has_spoken and logger.isEnabledFor(logging.INFO):
            self._has_spoken = True
            logger.info("Compiling the kernels for this kind of rows: a few seconds, once per machine.")

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


event.register("numba:compile", _Announcer())
