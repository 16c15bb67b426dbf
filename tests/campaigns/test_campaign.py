"""The runner itself: a fault, a crash and a hang are each told once, and the campaign goes on after them."""

import os
import time

import pytest
from tests.campaigns.campaign import assert_clean, run


def _mixed(random):
    choice = random.integers(10)
    if choice == 0:
        raise ValueError("a planted fault")
    if choice == 1:
        os.abort()
    if choice == 2:
        time.sleep(60)
    return "answer" if choice < 7 else "sentence"


def test_faults_crashes_and_hangs_are_counted_and_passed():
    record = run("mixed", _mixed, seed=3, trials=24, processes=2, patience=0.3)
    told = " ".join(fault["what"] for fault in record.faults)
    assert record.n_trials == 24
    assert record.n_faults + sum(record.outcomes.values()) == 24
    assert "a planted fault" in told
    assert "crashes: exit code -6" in told
    assert "hangs" in told


def test_a_fault_fails_the_test_that_runs_the_campaign():
    record = run("mixed", _mixed, seed=3, trials=24, processes=2, patience=0.3)
    with pytest.raises(AssertionError, match="planted"):
        assert_clean(record)


def test_a_trial_is_the_same_in_any_run():
    first, second = (
        run("draws", lambda random: str(random.integers(1 << 40)), seed=5, trials=6, processes=n) for n in (1, 3)
    )
    assert first.outcomes == second.outcomes
