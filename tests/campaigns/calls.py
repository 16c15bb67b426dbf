"""Every public estimator and function against good and bad input.

A call ends with an answer of the right shape, in finite numbers, or with a sentence; it leaves what it was given as it
was, and after a sentence the model, too. Some answers are compared: with predict, with the same rows held otherwise,
with another number of threads, with the formula.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter

from tests.campaigns import given
from tests.campaigns.campaign import main
from tests.campaigns.estimator_calls import session
from tests.campaigns.function_calls import some_functions
from tests.campaigns.given import Random


def trial(random: Random) -> Counter[str]:
    """A session with one model, or calls of a few functions; how many calls ended in which way."""
    os.chdir(given.folder())  # a word that is given as a path is a file here
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of calls are looked at one by one
        return (session if random.random() < 0.6 else some_functions)(random).outcomes


if __name__ == "__main__":
    main("calls", trial)
