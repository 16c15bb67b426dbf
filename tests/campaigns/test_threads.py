"""A few trials of the campaign with threads."""

from __future__ import annotations

from tests.campaigns.campaign import assert_clean, run
from tests.campaigns.threads import trial


def test_answers_of_threads_are_those_of_one():
    assert_clean(run("threads", trial, seed=0, trials=8))
