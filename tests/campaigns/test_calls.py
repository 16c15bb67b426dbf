"""A few seconds of the campaign of calls, and its reach: every public name is called, or left out for a reason."""

import inspect
import warnings

import numpy as np
import pytest
from tests.campaigns.campaign import clean_run
from tests.campaigns.estimator_calls import LEARNING, NOT_CALLED, READING, estimators, good_values, methods
from tests.campaigns.function_calls import FUNCTIONS, LEFT_OUT, public_names, uncovered
from tests.campaigns.outcomes import Calls, FaultError, Sentence

from armillary.exceptions import InputError


@pytest.mark.parametrize("trials", [20, pytest.param(60, marks=pytest.mark.slow)])
def test_a_few_hundred_calls(trials):
    outcomes = clean_run("calls", seed=0, trials=trials)
    assert sum(outcomes.values()) > 5 * trials
    assert outcomes["answer"] > 1.6 * trials
    assert outcomes["sentence"] > 0.5 * trials


def test_every_public_name_is_called_or_left_out():
    assert not uncovered()
    assert not (set(FUNCTIONS) | set(LEFT_OUT)) - set(public_names())


@pytest.mark.parametrize("cls", estimators(), ids=lambda cls: cls.__name__)
def test_every_method_and_parameter_is_known(cls):
    own = {name for name in methods(cls) if name not in ("get_params", "set_params")}
    assert not own - READING - LEARNING - NOT_CALLED
    assert all(good_values(cls, name) for name in inspect.signature(cls).parameters)


# ------------------------------------------------------------------------------------------- planted mistakes


def _raw(x):
    raise IndexError("index 3 is out of bounds")


def _wordless(x):
    raise InputError("bad")


def _noisy(x):
    warnings.warn("overflow encountered in multiply", RuntimeWarning, stacklevel=1)


def _greedy(x):
    x[0] = 7.0


@pytest.mark.parametrize("function", [_raw, _wordless, _noisy, _greedy])
def test_a_planted_mistake_is_a_fault(function):
    with pytest.raises(FaultError):
        Calls().make("planted", function, np.zeros(3))


def test_a_sentence_is_none():
    def refuse(x):
        raise InputError("`x` of refuse must have a row; got none. Give one.")

    assert isinstance(Calls().make("refuse", refuse, np.zeros(3)), Sentence)
