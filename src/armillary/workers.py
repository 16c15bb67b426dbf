"""Threads that run blocks side by side, each with one BLAS thread of its own.

Work is cut by the data, never by the number of threads, and results are taken in order: one thread and many give
equal bits.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from armillary.cores import usable_cores
from armillary.validation import check_integer

# Systems refuse to start many more than this, and every one of them has a share of the work to itself.
_MOST_THREADS = 4096

T = TypeVar("T")


def thread_count(n_threads: int | None, who: str) -> int:
    """None means every core this process may use (cores.py)."""
    if n_threads is None:
        return min(usable_cores(), _MOST_THREADS)
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
        # work for one helper; None ends a helper. A pair of queues passes work on in 11 us, the futures of a
        # ThreadPoolExecutor in 20 to 30
        self._calls: SimpleQueue[_Job[Any] | None] = SimpleQueue()

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
        if n_tasks == 1:  # chains ask for thousands of them, each shorter than what follows
            result = task(0)
            if fold is not None:
                fold(result)
            return
        job = _Job(task, n_tasks, fold)
        for _ in range(min(self.n_threads, n_tasks) - 1):
            if not self._call(job):
                break
        n_taken = job.work()
        # by now all are taken: those who come late find nothing, and nobody waits for them
        while n_taken < n_tasks:
            n_taken += job.done.get()
        job.close()
        if job.errors:
            raise job.errors.pop(0)  # its traceback holds this frame: kept in a list here, it would keep the rows alive

    def _call(self, job: _Job[Any]) -> bool:
        """Have one helper more work on a job; whether there is one."""
        if len(self._helpers) < self.n_threads - 1:  # started when first needed: one row to predict needs no threads
            # daemon: a pool that nobody closes does not keep the process from ending
            helper = threading.Thread(target=self._help, name="armillary", daemon=True)
            try:
                helper.start()
            except RuntimeError:  # a container's limit of threads: those there are do the work, with the same bits
                return False
            self._helpers.append(helper)
        self._calls.put(job)
        return True

    def _help(self) -> None:
        while (job := self._calls.get()) is not None:
            if n_taken := job.work():
                job.done.put(n_taken)
            del job  # it would be kept until the next


@contextmanager
def kept_workers(n_threads: int) -> Iterator[Workers]:
    """A pool whose helpers stay asleep in between: for many short calls, as the frames of a stream.

    A helper that starts runs beside its starter only once the system has found it another core, which can take as long
    as the passes over a frame. The pools of a process are shared; BLAS is held to one thread while one is in use.
    """
    opener = threading.get_ident()
    with _kept_lock:
        pool = _kept.setdefault(n_threads, Workers(n_threads))
    _one_blas_thread.open(opener)
    try:
        yield pool
    finally:
        _one_blas_thread.close(opener)


_kept: dict[int, Workers] = {}
_kept_lock = threading.Lock()


def _without_helpers() -> None:
    """A child has none of the threads of its parent."""
    _kept.clear()
    _kept_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_kept_lock.acquire, after_in_parent=_kept_lock.release, after_in_child=_without_helpers)


class _Job(Generic[T]):
    """Tasks that threads take one after the other, each the next number."""

    def __init__(self, task: Callable[[int], T], n_tasks: int, fold: Callable[[T], object] | None) -> None:
        self._task: Callable[[int], T] | None = task
        self._n_tasks = n_tasks
        self._numbers = count()
        self._folds = _InOrder(fold) if fold is not None else None
        self.errors: list[BaseException] = []
        self.done: SimpleQueue[int] = SimpleQueue()  # how many tasks a helper took that took any

    def work(self) -> int:
        """Take tasks until there are none; return how many were taken."""
        n_taken = 0
        while (number := next(self._numbers)) < self._n_tasks:
            n_taken += 1
            try:
                if not self.errors:
                    self._do(number)
            except BaseException as error:
                self.errors.append(error)
        return n_taken

    def _do(self, number: int) -> None:
        task = self._task
        if task is not None:
            result = task(number)
            if self._folds is not None:
                self._folds.put(number, result)

    def close(self) -> None:
        """Let go of the arrays of a pass: late helpers may still hold the job."""
        self._task = self._folds = None


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
