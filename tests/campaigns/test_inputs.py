"""A fixed part of the campaign of input files, and the bombs at their full size."""

from tests.campaigns.campaign import assert_clean, run
from tests.campaigns.inputs import trial


def test_input_files():
    assert_clean(run("inputs", trial, seed=0, trials=150))
