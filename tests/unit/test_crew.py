"""Helpers that join a kernel in the middle of a call: every piece once, whoever comes, and nobody waits for ever."""

from __future__ import annotations

import os
import sys
import threading

import numpy as np
import pytest
from tests.making import allow_threads, each

from armillary.kernels import crew
from armillary.kernels.crew import add_to_total, ask, dismiss, take_number, this_call
from armillary.kernels.jit import kernel

N_PIECES = 40
needs_fork = pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="there is no fork")


@kernel
def visit(is_helper, box, n_helpers, values, taken, visits):
    """Add up numbers piece by piece, and count who was at each piece."""
    total = 0
    if is_helper == 0:
        ask(box, n_helpers, this_call())
    piece: int = take_number(taken)
    while piece < visits.shape[0]:
        for value in values:
            total += value
        visits[piece] += 1
        piece = take_number(taken)
    add_to_total(taken, total)
    if is_helper == 0:
        dismiss(box, n_helpers)


def visited(one, n_helpers, n_values=500):
    taken, visits = np.zeros(2, np.int64), np.zeros(N_PIECES, np.int64)
    visit(0, one.box, one.helpers(n_helpers), np.arange(n_values), taken, visits)
    np.testing.assert_array_equal(visits, 1)
    assert taken[1] == N_PIECES * n_values * (n_values - 1) // 2


@each("n_helpers", [0, 1, 2, 7])
def test_every_piece_is_taken_once_and_what_was_counted_is_whole(n_helpers):
    with crew.lent() as one:
        for _ in range(300):
            visited(one, n_helpers)


def test_helpers_stay_for_the_next_who_asks():
    with crew.lent() as one:
        visited(one, 2)
    before = threading.active_count()
    with crew.lent() as other:
        assert other is one
        visited(other, 2)
    assert threading.active_count() == before


def test_two_callers_have_two_crews():
    errors = []

    def call():
        try:
            with crew.lent() as one:
                for _ in range(200):
                    visited(one, 2)
        except BaseException as error:
            errors.append(error)

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not errors
    with crew.lent() as one, crew.lent() as other:
        assert one is not other


@needs_fork
def test_a_child_has_helpers_of_its_own():
    with crew.lent() as one:
        visited(one, 2)
        child = os.fork()
        if child == 0:
            try:
                visited(one, 2)
                with crew.lent() as other:
                    visited(other, 3)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("n_allowed", [0, 1, 3])
def test_where_no_more_threads_can_be_started_those_there_are_do_the_work(n_allowed, monkeypatch):
    allow_threads(n_allowed, monkeypatch)
    one = crew.Crew()
    for _ in range(3):
        visited(one, 5)
        assert one.helpers(5) == n_allowed
    crew._end(one.box)


def test_a_system_without_such_threads_works_alone(monkeypatch):
    monkeypatch.setattr(crew, "IS_ABLE", False)
    assert crew.Crew().helpers(3) == 0
