"""Stretches of rows read by one thread before they are asked for, into memory that is used again.

A pass takes stretches in order, several at a time where it has threads. Each that is taken lets the one thread read the
next: it works while the last is worked on, from the beginning of the files to their end, which is all that formats can
do that are decoded. At most `_WAITING` stretches lie ready beside those that are in use.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from armillary.sources.stored import StoredRows

Stretch = tuple[int, int]
_WAITING = 2


@dataclass(eq=False)
class _Slot:
    """A stretch that is read, or will be."""

    rows: Future[Any]
    is_taken: bool = False


class Ahead:
    """Reads stretches of rows before they are asked for; `following` says which comes after which."""

    def __init__(self, rows: StoredRows, following: dict[Stretch, Stretch]) -> None:
        self._rows, self._following = rows, following
        self._lock = threading.Lock()
        self._slots: dict[Stretch, _Slot] = {}
        self._free: list[npt.NDArray[np.uint8]] = []
        self._reader = rows.sequential()
        self._pool: ThreadPoolExecutor | None = None
        self._process = os.getpid()

    @contextmanager
    def stretch(self, first: int, last: int) -> Iterator[Any]:
        """Rows first..last as they are stored; the memory that they lie in is used again afterwards."""
        rows = self._take((first, last)).result()
        try:
            yield rows
        finally:
            with self._lock:
                self._slots.pop((first, last), None)
                self._give_back(rows)

    def _take(self, wanted: Stretch) -> Future[Any]:
        with self._lock:
            if os.getpid() != self._process:  # a fork has none of the threads
                self._pool, self._process, self._slots = None, os.getpid(), {}
            slot = self._slots.get(wanted)
            if slot is None or slot.is_taken:
                self._forget()
                slot = self._order(wanted)
            slot.is_taken = True
            self._order_more(wanted)
            return slot.rows

    def _order(self, stretch: Stretch) -> _Slot:
        if self._pool is None:
            # ends with the last that knows this object; a pool of one thread reads in the order of the orders
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="armillary-reading")
        slot = _Slot(self._pool.submit(self._read, *stretch))
        self._slots[stretch] = slot
        return slot

    def _order_more(self, taken: Stretch) -> None:
        n_waiting = sum(not slot.is_taken for slot in self._slots.values())
        upcoming = self._following.get(taken)
        while upcoming is not None and n_waiting < _WAITING:
            if upcoming not in self._slots:
                self._order(upcoming)
                n_waiting += 1
            upcoming = self._following.get(upcoming)

    def _forget(self) -> None:
        """Let go what was read for a pass that went elsewhere or ended early."""
        for stretch, slot in list(self._slots.items()):
            if not slot.is_taken:
                del self._slots[stretch]
                slot.rows.cancel()
                if slot.rows.done() and not slot.rows.cancelled() and slot.rows.exception() is None:
                    self._give_back(slot.rows.result())

    def _give_back(self, rows: Any) -> None:
        # memory is asked for only where none is free, so there is never more than was in use at one time
        if isinstance(rows, np.ndarray) and rows.base is not None:
            self._free.append(rows.base)

    def _read(self, first: int, last: int) -> Any:
        if self._rows.is_sparse:
            return self._reader.read(first, last, None)
        shape = (last - first, self._rows.shape[1])
        n_bytes = shape[0] * shape[1] * self._rows.dtype.itemsize
        with self._lock:
            memory = next((free for free in self._free if free.nbytes >= n_bytes), None)
            if memory is not None:
                self._free = [free for free in self._free if free is not memory]
            else:
                self._free.clear()  # too small for these stretches
        if memory is None:
            memory = np.empty(n_bytes, np.uint8)
        return self._reader.read(first, last, np.ndarray(shape, self._rows.dtype, memory))
