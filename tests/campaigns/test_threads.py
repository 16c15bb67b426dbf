"""A few trials of the campaign with threads."""

from __future__ import annotations

from tests.campaigns.campaign import clean_run


def test_answers_of_threads_are_those_of_one():
    clean_run("threads", seed=0, trials=8)
