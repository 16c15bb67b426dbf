"""Whose turn it is at a model, and what a fork leaves of it."""

from __future__ import annotations

import os
import threading
import time
import traceback
import warnings

import numpy as np
import pytest
from tests.campaigns.threads import CASES, in_threads, rows_of

from armillary import Links, SphericalKMeans, workers
from armillary.exceptions import BusyModelError
from armillary.models.turns import SharedTurns, Turns

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are for systems that have them")
X = rows_of("A", are_counts=False, is_sparse=False)


def in_child(task, seconds=60.0):
    """Run a task in a forked process; its traceback, or None where it ended well in time."""
    receiver, sender = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 on: there are other threads
        child = os.fork()
    if child == 0:
        said = b""
        try:
            task()
        except BaseException:
            said = traceback.format_exc().encode()
        os.write(sender, said[-4000:] + b"|")
        os._exit(0)
    os.close(sender)
    end = time.monotonic() + seconds
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, 9)
            os.waitpid(child, 0)
            os.close(receiver)
            return "the child hangs"
        time.sleep(0.002)
    with os.fdopen(receiver, "rb") as stream:
        said = stream.read().decode()
    return None if said == "|" else said


def while_running(work, task):
    """Call `task` some times while another thread calls `work` again and again."""
    is_over, errors = threading.Event(), []

    def run():
        while not is_over.is_set():
            try:
                work()
            except BaseException as error:
                errors.append(error)
                return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        task()
    finally:
        is_over.set()
        thread.join()
    assert errors == []


@pytest.mark.parametrize("name", ["SphericalKMeans", "Links"])
def test_a_child_forked_in_the_middle_of_a_fit_fits_and_predicts(name):
    """The same model and another: neither waits for a thread that the child does not have."""
    model, other = CASES[name].make().fit(X), CASES[name].make()
    expected = model.predict(X).tolist()

    def task():
        assert model.predict(X).tolist() == expected
        assert model.fit(X).predict(X).tolist() == expected
        assert other.fit(X).predict(X).tolist() == expected

    def forks():
        for _ in range(8):
            assert in_child(task) is None

    task()
    while_running(lambda: model.fit(X), forks)


def test_a_child_finds_links_whole():
    """A fork waits for a vector that is being learned."""
    model = Links(0.8, 0.9).fit(X)

    def task():
        assert model.counts_.sum() == model.n_vectors_

    def forks():
        for _ in range(8):
            assert in_child(task) is None

    while_running(lambda: [model.learn_one(x) for x in X], forks)


def test_a_child_has_blas_as_it_was_and_no_pool_of_others():
    before = [library["num_threads"] for library in workers._blas().info()]
    is_open, may_close = threading.Event(), threading.Event()

    def pool():
        with workers.Workers(2):
            is_open.set()
            may_close.wait(60)

    def task():
        assert [library["num_threads"] for library in workers._blas().info()] == before
        with workers.Workers(1):
            assert {library["num_threads"] for library in workers._blas().info()} == {1}
        assert [library["num_threads"] for library in workers._blas().info()] == before

    thread = threading.Thread(target=pool)
    thread.start()
    assert is_open.wait(60)
    try:
        assert in_child(task) is None
    finally:
        may_close.set()
        thread.join()
    assert [library["num_threads"] for library in workers._blas().info()] == before


def test_a_child_forked_inside_a_fit_keeps_its_own_pool():
    def task():
        assert {library["num_threads"] for library in workers._blas().info()} == {1}

    with workers.Workers(1):
        assert in_child(task) is None


def test_a_fork_gives_up_learners_that_are_not_in_the_child_and_keeps_its_own():
    turns = Turns()
    in_threads(turns.learning.acquire)  # by a thread that is no more
    own = SharedTurns()

    def task():
        assert turns.learning.acquire(blocking=False)
        own.learning.release()  # would fail, were it not held
        own.lock.release()

    with own.learning, own.lock:
        assert in_child(task) is None
    assert not turns.learning.acquire(blocking=False)


def test_changes_wait_for_readers_and_new_readers_for_changes():
    turns, order = SharedTurns(), []
    with turns.lock:
        turns.enter()

    def change():
        with turns.alone():
            order.append("changed")

    def read():
        while not turns._n_waiting:
            time.sleep(0.001)
        with turns.lock:
            turns.wait_for_learners()
            turns.enter()
        order.append("read again")
        turns.leave()

    def leave():
        while not turns._n_waiting:
            time.sleep(0.001)
        time.sleep(0.02)
        order.append("left")
        turns.leave()

    in_threads(change, read, leave)
    assert order == ["left", "changed", "read again"]


def test_a_busy_model_can_be_caught_as_a_runtime_error():
    model = SphericalKMeans(2)
    errors = []

    def learn():
        try:
            model.partial_fit(np.eye(3))
        except RuntimeError as error:
            errors.append(error)

    with model._turns.learning:
        in_threads(learn)
    assert [type(error) for error in errors] == [BusyModelError]
    assert not hasattr(model, "cluster_centers_")
