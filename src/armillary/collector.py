"""The garbage collector, which waits where much is made that stays: imported modules, compiled code."""

from __future__ import annotations

import gc
import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def waiting() -> Iterator[None]:
    """The collector would look at what stays a dozen times: 5 to 15 % of the time of an import or a compilation."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_importing = threading.RLock()


def imported(name: str) -> ModuleType:
    """A module. Where it has to be imported, what comes with it is not looked at until all that is old is.

    One thread at a time: scikit-learn's modules import each other in a ring, which two threads that enter it at two
    places end with an error of Python's.
    """
    with _importing:
        return _imported(name)


def _imported(name: str) -> ModuleType:
    if name in sys.modules:
        return importlib.import_module(name)
    with waiting():
        found = importlib.import_module(name)
        if gc.get_freeze_count() == 0:  # who froze what there was wants it to stay so
            gc.freeze()
            gc.unfreeze()  # to the oldest generation
    return found
