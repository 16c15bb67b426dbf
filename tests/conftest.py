"""Laws that every test is held to."""

from __future__ import annotations

import gc
import sys
import time

import pytest


def open_pools() -> int:
    """Pools of threads that hold BLAS to one thread in this process."""
    workers = sys.modules.get("armillary.workers")
    return 0 if workers is None else len(workers._one_blas_thread._openers)


@pytest.fixture(autouse=True)
def no_pool_stays_open():
    """A pool that nobody closes slows BLAS down for the life of its process."""
    yield
    deadline = time.monotonic() + 10.0
    while open_pools() and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert not open_pools(), "a pool of threads was left open"
