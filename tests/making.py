"""What tests of every kind make: rows, and one test of many cases."""

from __future__ import annotations

import functools
import inspect
import textwrap
import threading

import numpy as np


def units(rng, *shape):
    """Unit vectors, uniform on the sphere."""
    vectors = rng.standard_normal(shape)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def docstring(kind):
    """As it stands in the source: Python 3.13 takes the indentation away."""
    return textwrap.indent(inspect.getdoc(kind), "    ")


def allow_threads(n_allowed, monkeypatch):
    """As a container whose limit leaves so many threads more."""
    allowed, honest = iter(range(n_allowed)), threading.Thread.start

    def start(thread):
        if next(allowed, None) is None:
            raise RuntimeError("can't start new thread")
        honest(thread)

    monkeypatch.setattr(threading.Thread, "start", start)


def each(names, values):
    """`pytest.mark.parametrize` in one test: cases that are alike and short cost a loop, not an item each.

    A case that fails is named beneath its error. For tests whose fixtures may serve all cases; stacked, all pairs.
    """
    names = (names,) if isinstance(names, str) else tuple(names)
    cases = [(value,) if len(names) == 1 else tuple(value) for value in values]

    def decorate(test):
        signature = inspect.signature(test)

        @functools.wraps(test)
        def all_cases(*args, **kwargs):
            for case in cases:
                given = dict(zip(names, case, strict=True))
                try:
                    test(*args, **kwargs, **given)
                except BaseException as error:
                    error.add_note("in the case of " + ", ".join(f"{name}={value!r}" for name, value in given.items()))
                    raise

        others = [one for name, one in signature.parameters.items() if name not in names]
        if len(others) + len(names) != len(signature.parameters):
            raise TypeError(f"{test.__name__}{signature} does not take all of {', '.join(names)}")
        all_cases.__signature__ = signature.replace(parameters=others)
        return all_cases

    return decorate
