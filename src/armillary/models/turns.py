"""Whose turn it is at a model: one learner at a time, beside it any number of readers.

A second learner is refused, not kept waiting: which of two fits is the last one would be chance. A reader sees a model
as it was before a learning call or as it is after it. Two ways lead there:

- Models that publish new arrays (all but Links) swap all their attributes in one assignment, and a reading call works
  on a copy of the attributes, which are few and share the arrays: 0.5 us, and nobody ever waits.
- Links learns in the arrays that it shows. Calls for one vector hold its lock while they last; long reads share it.

A fork waits for the locks, so that no model in the child is half changed, and forgets learners and readers that did
not come along.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np

from armillary.engines.select import like
from armillary.exceptions import BusyModelError

P = ParamSpec("P")
T = TypeVar("T")


class Turns:
    """The learner of one model."""

    def __init__(self) -> None:
        # of the thread that learns, which may call learning methods inside others
        self.learning = threading.RLock()
        with _forking:
            _all.add(self)

    def before_fork(self) -> None:
        """Wait until nothing is half changed."""

    def after_fork(self, *, is_child: bool) -> None:
        """Go on; in the child there is only the thread that forked."""
        if not is_child:
            return
        if self.learning.acquire(blocking=False):  # free, or held by this thread, which goes on
            self.learning.release()
        else:
            self.learning = threading.RLock()


class SharedTurns(Turns):
    """The learner of a model that changes in place, and its readers."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._start()
        super().__init__()

    def _start(self) -> None:
        self._is_quiet = threading.Condition(self.lock)
        self.n_readers = 0
        self._n_waiting = 0

    @contextmanager
    def alone(self) -> Iterator[None]:
        """For changes: no reader is here, and none comes."""
        with self.lock:
            self.wait_for_readers()
            yield

    def wait_for_readers(self) -> None:
        """With the lock held, wait until nobody reads without it; new readers wait meanwhile, or it might never end."""
        if not self.n_readers:
            return
        self._n_waiting += 1
        try:
            self._is_quiet.wait_for(lambda: not self.n_readers)
        finally:
            self._n_waiting -= 1
            self._is_quiet.notify_all()

    def wait_for_learners(self) -> None:
        """With the lock held, wait while others wait for readers to leave."""
        if self._n_waiting:
            self._is_quiet.wait_for(lambda: not self._n_waiting)

    def enter(self) -> None:
        """With the lock held, begin to read without it."""
        self.n_readers += 1

    def leave(self) -> None:
        """End what `enter` began; the lock need not be held."""
        with self.lock:
            self.n_readers -= 1
            self._is_quiet.notify_all()

    def before_fork(self) -> None:
        """Hold the lock: a change is then whole."""
        self.lock.acquire()

    def after_fork(self, *, is_child: bool) -> None:
        """Let the lock go; in the child nobody reads or waits."""
        if is_child:
            self._start()
        self.lock.release()
        super().after_fork(is_child=is_child)


# ------------------------------------------------------------------------------------------------- marks of methods


class _Learner(Protocol):
    @property
    def _turns(self) -> Turns: ...

    @property
    def _who(self) -> str: ...


L = TypeVar("L", bound=_Learner)


def learning(method: Callable[Concatenate[L, P], T]) -> Callable[Concatenate[L, P], T]:
    """A method that changes the model: refused while another thread learns."""
    name = method.__name__

    @wraps(method)
    def learn(self: L, /, *args: P.args, **kwargs: P.kwargs) -> T:
        turn = self._turns.learning
        if not turn.acquire(False):
            raise busy(self, name)
        try:
            return answer_like(args, kwargs, method(self, *args, **kwargs))
        finally:
            turn.release()

    return learn


def learning_whole(method: Callable[Concatenate[L, P], T]) -> Callable[Concatenate[L, P], T]:
    """A learning method that learns and then answers: where the answer fails, the model is as it was before."""

    @wraps(method)
    def learn(self: L, /, *args: P.args, **kwargs: P.kwargs) -> T:
        before = vars(self).copy()
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            self.__dict__ = before
            raise

    return learning(learn)


def busy(model: _Learner, call: str) -> BusyModelError:
    """The sentence for a second learner."""
    return BusyModelError(
        f"{model._who}.{call} must not be called while another thread teaches the same model; got a call from thread "
        f"{threading.current_thread().name!r} in the middle of another learning call. Let learning calls follow one "
        "another, e.g. under one threading.Lock, or give each thread a clone of the model."
    )


R = TypeVar("R")


def reading(method: Callable[Concatenate[R, P], T]) -> Callable[Concatenate[R, P], T]:
    """A method that changes nothing, of a model that publishes new arrays: it sees one state from start to end."""

    @wraps(method)
    def read(self: R, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return answer_like(args, kwargs, method(snapshot(self), *args, **kwargs))

    return read


def answer_like(args: tuple[Any, ...], kwargs: dict[str, Any], answer: Any) -> Any:
    """Arrays that answer for rows on a GPU, in the kind of array that those came in; anything else as it is."""
    given = args[0] if args else kwargs.get("X")
    if given is None or type(given) is np.ndarray or kwargs.get("out") is not None:
        return answer
    return like(given, answer)


def snapshot(model: R) -> R:
    """The model as it is now: attributes of its own, the same arrays."""
    twin = object.__new__(type(model))
    twin.__dict__ = vars(model).copy()  # one step of the interpreter: no other thread comes between
    return twin


def publish(model: Any, change: Callable[[Any], None]) -> None:
    """Change a model in one step: `change` is made to a snapshot, whose attributes then become those of the model."""
    after = snapshot(model)
    taken = vars(after).copy()
    change(after)
    before = vars(model)
    model.__dict__ = vars(after)
    for name, value in before.copy().items():
        if taken.get(name, taken) is not value:  # set by another thread in the meantime: a parameter, say
            setattr(model, name, value)


# -------------------------------------------------------------------------------------------------------- forks


_forking = threading.RLock()
_all: weakref.WeakSet[Turns] = weakref.WeakSet()
_held: list[Turns] = []  # between the start of a fork and its end


def _before_fork() -> None:
    _forking.acquire()
    _held.extend(_all)
    for turns in _held:
        turns.before_fork()


def _after_fork(*, is_child: bool) -> None:
    for turns in _held:
        turns.after_fork(is_child=is_child)
    _held.clear()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(is_child=False),
        after_in_child=lambda: _after_fork(is_child=True),
    )
