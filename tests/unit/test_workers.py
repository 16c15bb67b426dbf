"""Threads: every task once, results in order, exceptions out, BLAS as it was."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from tests.making import allow_threads, each

from armillary import cores, workers
from armillary.exceptions import ParameterError
from armillary.workers import Workers, kept_workers, thread_count

THREADS = [1, 2, 5]


def run(n_threads, task, n_tasks, fold=None):
    with Workers(n_threads) as pool:
        pool.run(task, n_tasks, fold)


class FakeBlas:
    """A BLAS whose limit can be read, on machines of one core too."""

    def __init__(self):
        self.n_threads = 8

    def limit(self, limits):
        return FakeLimit(self, limits)


class FakeLimit:
    def __init__(self, blas, limits):
        self.blas, self.before = blas, blas.n_threads
        blas.n_threads = limits

    def restore_original_limits(self):
        self.blas.n_threads = self.before


@pytest.fixture
def blas(monkeypatch):
    fake = FakeBlas()
    monkeypatch.setattr(workers, "_blas", lambda: fake)
    return fake


# --------------------------------------------------------------------------------------------------- n_threads


def test_none_takes_the_cores_this_process_may_use(monkeypatch):
    monkeypatch.setattr(cores, "cpu_quota", lambda: None)
    monkeypatch.setattr(cores, "physical_cores", len)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3, 5}, raising=False)
    assert thread_count(None, "Model") == 3


@pytest.mark.parametrize(("n_cores", "expected"), [(6, 6), (None, 1)])
def test_none_takes_every_core_where_affinity_is_unknown(monkeypatch, n_cores, expected):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: n_cores)
    monkeypatch.setattr(cores, "cpu_quota", lambda: None)
    assert thread_count(None, "Model") == expected


def test_a_number_is_taken_as_it_is():
    assert thread_count(1, "Model") == 1
    assert thread_count(np.int64(1000), "Model") == 1000


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (-1, "-1"), (2.0, "2.0"), ("all", "'all'"), (True, "True"), ([2], "[2]")]
)
def test_sentence_about_n_threads(value, shown):
    with pytest.raises(ParameterError) as caught:
        thread_count(value, "Model")
    assert (
        str(caught.value) == f"`n_threads` of Model must be an int from 1 to 4096; got {shown}. None takes every core."
    )


# -------------------------------------------------------------------------------------------------- tasks and order


@pytest.mark.parametrize("n_threads", THREADS)
@pytest.mark.parametrize("n_tasks", [0, 1, 2, 7, 300])
def test_every_task_runs_once_and_is_folded_in_order(n_threads, n_tasks):
    ran, folded = [], []

    def task(number):
        if number % 3 == 0:
            time.sleep(0.0002)  # so that later tasks finish first
        ran.append(number)
        return number

    run(n_threads, task, n_tasks, folded.append)
    assert sorted(ran) == list(range(n_tasks))
    assert folded == list(range(n_tasks))


@pytest.mark.parametrize("n_threads", THREADS)
def test_without_a_fold_results_are_dropped(n_threads):
    ran = []
    run(n_threads, ran.append, 20)
    assert sorted(ran) == list(range(20))


def test_late_first_result_holds_back_the_others():
    is_last_done = threading.Event()
    folded = []

    def task(number):
        if number == 0:
            assert is_last_done.wait(10)
        elif number == 5:
            is_last_done.set()
        return number

    run(2, task, 6, folded.append)
    assert folded == list(range(6))


def test_sums_have_the_same_bits_with_any_number_of_threads():
    numbers = np.random.default_rng(0).normal(size=500) * 10.0 ** np.random.default_rng(1).integers(-8, 8, size=500)
    totals = set()
    for n_threads in (1, 2, 3, 8):
        total = np.zeros(1)
        run(n_threads, lambda number: numbers[number], 500, lambda part, total=total: np.add(total, part, out=total))
        totals.add(total.item())
    assert len(totals) == 1


def test_folds_do_not_overlap():
    inside, overlaps = [], []

    def fold(number):
        overlaps.extend(inside)
        inside.append(number)
        time.sleep(0.0002)
        inside.remove(number)

    run(5, lambda number: number, 50, fold)
    assert overlaps == []


def test_tasks_run_side_by_side():
    meeting = threading.Barrier(3, timeout=10)
    run(3, lambda number: meeting.wait(), 3)


def test_no_more_threads_than_tasks_and_none_for_one():
    names = set()
    run(8, lambda number: names.add(threading.current_thread().name), 1)
    assert names == {threading.current_thread().name}
    meeting, idents = threading.Barrier(2, timeout=10), set()

    def task(number):
        idents.add(threading.get_ident())
        meeting.wait()

    run(8, task, 2)
    assert len(idents) == 2


@pytest.mark.parametrize("n_allowed", [0, 1])
def test_where_no_more_threads_can_be_started_those_there_are_do_the_work(n_allowed, monkeypatch):
    allow_threads(n_allowed, monkeypatch)
    with Workers(4) as workers:
        for _ in range(3):
            found = []
            workers.run(lambda number: number, 20, found.append)
            assert found == list(range(20))


def test_one_thread_is_the_calling_one():
    idents = set()
    run(1, lambda number: idents.add(threading.get_ident()), 20)
    assert idents == {threading.get_ident()}


def test_a_pool_runs_many_times_and_its_threads_end():
    before = threading.active_count()
    with Workers(3) as pool:
        for _ in range(5):
            folded = []
            pool.run(lambda number: number, 9, folded.append)
            assert folded == list(range(9))
    assert threading.active_count() == before


def test_a_kept_pool_starts_its_threads_once_and_lifts_the_limit_in_between(blas):
    def idents():
        meeting, found = threading.Barrier(3, timeout=10), set()

        def task(number):
            found.add(threading.get_ident())
            meeting.wait()
            assert blas.n_threads == 1

        with kept_workers(3) as pool:
            pool.run(task, 3)
        assert blas.n_threads == 8
        return found

    first, n_running = idents(), threading.active_count()
    for _ in range(5):
        assert idents() == first
    assert threading.active_count() == n_running


def test_a_kept_pool_serves_several_threads_at_once_and_goes_on_after_an_exception():
    totals = []

    def call(offset):
        folded = []
        with kept_workers(2) as pool:
            for _ in range(20):
                pool.run(lambda number: offset + number, 30, folded.append)
        totals.append((offset, sum(folded)))

    with kept_workers(2) as pool, pytest.raises(ValueError, match="from the task"):
        pool.run(lambda number: (_ for _ in ()).throw(ValueError("from the task")), 9)
    threads = [threading.Thread(target=call, args=(offset,)) for offset in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(totals) == [(offset, 20 * (30 * offset + 435)) for offset in (0, 100, 200)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_starts_threads_of_its_own():
    program = """
import os, threading
from armillary.workers import kept_workers

def n_threads():
    meeting, found = threading.Barrier(2, timeout=10), set()
    def task(number):
        found.add(threading.get_ident())
        meeting.wait()
    with kept_workers(2) as pool:
        pool.run(task, 2)
    return len(found)

assert n_threads() == 2
child = os.fork()
if child == 0:
    os._exit(0 if n_threads() == 2 else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)


# ----------------------------------------------------------------------------------------------------- exceptions


@each("n_threads", THREADS)
@each("kind", [ValueError, MemoryError, KeyboardInterrupt, SystemExit])
@each("place", [0, 3, 19])
def test_an_exception_in_a_task_comes_out(n_threads, kind, place):
    folded = []

    def task(number):
        if number == place:
            raise kind("from the task")
        return number

    before = threading.active_count()
    with pytest.raises(kind, match="from the task"):
        run(n_threads, task, 20, folded.append)
    assert folded == list(range(len(folded)))
    assert len(folded) <= place
    assert threading.active_count() == before


@pytest.mark.parametrize("n_threads", THREADS)
def test_an_exception_in_a_fold_comes_out_and_ends_the_folds(n_threads):
    folded = []

    def fold(number):
        if number == 4:
            raise ValueError("from the fold")
        folded.append(number)

    with pytest.raises(ValueError, match="from the fold"):
        run(n_threads, lambda number: number, 50, fold)
    assert folded == [0, 1, 2, 3]


def test_after_an_exception_no_new_task_starts():
    ran = []

    def task(number):
        ran.append(number)
        if number == 2:
            raise ValueError("stop")
        time.sleep(0.001)

    with pytest.raises(ValueError, match="stop"):
        run(3, task, 1000)
    assert len(ran) < 1000


def test_an_exception_of_a_helper_waits_for_the_other_tasks():
    is_under_way, is_failed, ended = threading.Event(), threading.Event(), []
    caller = threading.get_ident()

    def task(number):
        if threading.get_ident() == caller:
            is_under_way.set()
            assert is_failed.wait(10)
            time.sleep(0.01)
            ended.append(number)
        else:
            assert is_under_way.wait(10)
            is_failed.set()
            raise ValueError("from a helper")

    with pytest.raises(ValueError, match="from a helper"):
        run(2, task, 2)
    assert len(ended) == 1


def test_a_pool_goes_on_after_an_exception():
    with Workers(2) as pool:
        with pytest.raises(ZeroDivisionError):
            pool.run(lambda number: 1 / 0, 4)
        folded = []
        pool.run(lambda number: number, 4, folded.append)
    assert folded == [0, 1, 2, 3]


# ----------------------------------------------------------------------------------------------------------- BLAS


def real_limits():
    return [library["num_threads"] for library in workers._blas().info()]


def test_numpys_blas_has_one_thread_inside_and_what_it_had_outside():
    before = real_limits()
    with Workers(2):
        assert set(real_limits()) <= {1}
    assert real_limits() == before


def test_blas_is_given_back_after_an_exception(blas):
    seen = []

    def task(number):
        seen.append(blas.n_threads)
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        run(1, task, 3)
    assert seen == [1]
    assert blas.n_threads == 8


def test_blas_is_given_back_by_the_last_of_pools_that_overlap(blas):
    one, other = Workers(1), Workers(1)
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert blas.n_threads == 1  # the other still runs
    other.__exit__(None, None, None)
    assert blas.n_threads == 8


def test_pools_inside_pools(blas):
    with Workers(1):
        with Workers(1):
            assert blas.n_threads == 1
        assert blas.n_threads == 1
    assert blas.n_threads == 8


def test_pools_in_many_threads_leave_blas_as_it_was(blas):
    seen, start = set(), threading.Barrier(8, timeout=10)

    def fit():
        start.wait()
        for _ in range(30):
            with Workers(1):
                seen.add(blas.n_threads)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=fit) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert seen == {1}
    assert blas.n_threads == 8
