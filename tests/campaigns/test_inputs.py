"""A fixed part of the campaign of input files, and the bombs at their full size."""

from tests.campaigns.campaign import clean_run


def test_input_files():
    clean_run("inputs", seed=0, trials=150)
