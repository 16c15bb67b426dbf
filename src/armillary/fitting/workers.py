"""Threads that run blocks side by side, each with one BLAS thread of its own.

Work is cut by the data, never by the number of threads, and results are taken in order: one thread and many give
equal bits.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache
from itertools import count
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from armillary.validation import check_integer

# Systems refuse to start many more than this, and every one of them has a share of the work to itself.
_MOST_THREADS = 4096

T = TypeVar("T")


def thread_count(n_threads: int | None, who: str) -> int:
    """None means every core this process may run on."""
    if n_threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return check_integer(n_threads, "n_threads", who, low=1, high=_MOST_THREADS, hint="None takes every core.")


@cache
def _blas() -> Any:
    # finding the loaded BLAS libraries takes about a millisecond: once per process
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


class _OneBlasThread:
    """Holds BLAS to one thread while any pool is open: the first to open sets the limit, the last to close lifts it.

    The limit belongs to the process. Were each pool to restore what it found, the last of two that overlap (fits in
    two threads) would find, and for ever leave, the limit of the first.

    A thread that forks takes the lock, so that the child never finds it held. There, pools of other threads are no
    more, and the limit is lifted where there are no pools but those.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._openers: list[int] = []  # the thread of each open pool
        self._limit: Any = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._begin_anew
            )

    def open(self, thread: int) -> None:
        """A pool opens, in this thread."""
        with self._lock:
            if not self._openers:
                self._limit = _blas().limit(limits=1)
            self._openers.append(thread)

    def close(self, thread: int) -> None:
        """A pool that this thread opened closes."""
        with self._lock:
            self._openers.remove(thread)
            if not self._openers:
                self._limit.restore_original_limits()

    def _begin_anew(self) -> None:
        was_limited = bool(self._openers)
        self._openers = [thread for thread in self._openers if thread == threading.get_ident()]
        self._lock.release()
        if was_limited and not self._openers:
            self._limit.restore_original_limits()


_one_blas_thread = _OneBlasThread()


class Workers:
    """A pool of `n_threads` threads, the calling one included. A context manager."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._helpers: list[threading.Thread] = []
        # work for one helper, and where to say that it is done; None ends a helper. A pair of queues passes work on in
        # 11 us, the futures of a ThreadPoolExecutor in 20 to 30: a pass over 300,000 x 3 rows takes 300
        self._calls: SimpleQueue[tuple[Callable[[], None], SimpleQueue[None]] | None] = SimpleQueue()

    def __enter__(self) -> Self:
        self._opener = threading.get_ident()
        _one_blas_thread.open(self._opener)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _ in self._helpers:
            self._calls.put(None)
        for helper in self._helpers:
            helper.join()
        self._helpers.clear()
        _one_blas_thread.close(self._opener)

    def run(self, task: Callable[[int], T], n_tasks: int, fold: Callable[[T], object] | None = None) -> None:
        """Call `task(0) ... task(n_tasks - 1)`, and `fold` on their results in that order.

        `fold` runs in one thread at a time. After an exception no new task starts, and it is raised here.
        """
        numbers = count()
        folds = _InOrder(fold) if fold is not None else None
        errors: list[BaseException] = []

        def work() -> None:
            try:
                while (number := next(numbers)) < n_tasks and not errors:
                    result = task(number)
                    if folds is not None:
                        folds.put(number, result)
            except BaseException as error:
                errors.append(error)

        n_helpers = min(self.n_threads, n_tasks) - 1
        done: SimpleQueue[None] = SimpleQueue()
        for _ in range(n_helpers):
            self._call(work, done)
        work()
        for _ in range(n_helpers):
            done.get()  # wait for all before anything is raised
        if errors:
            raise errors.pop(0)  # its traceback holds this frame: kept in a list here, it would keep the rows alive

    def _call(self, work: Callable[[], None], done: SimpleQueue[None]) -> None:
        if len(self._helpers) < self.n_threads - 1:  # started when first needed: one row to predict needs no threads
            # daemon: a pool that nobody closes does not keep the process from ending
            helper = threading.Thread(target=self._help, name="armillary", daemon=True)
            helper.start()
            self._helpers.append(helper)
        self._calls.put((work, done))

    def _help(self) -> None:
        while (call := self._calls.get()) is not None:
            work, done = call
            work()
            del call, work  # they would keep the arrays of the last pass alive until the next
            done.put(None)


class _InOrder(Generic[T]):
    """Applies a function to numbered results in their order, whatever order they come in."""

    def __init__(self, apply: Callable[[T], object]) -> None:
        self._apply = apply
        self._waiting: dict[int, T] = {}
        self._next = 0
        self._lock = threading.Lock()

    def put(self, number: int, result: T) -> None:
        with self._lock:
            self._waiting[number] = result
            while self._next in self._waiting:
                self._apply(self._waiting.pop(self._next))
                self._next += 1
