"""What a fit says to its observers, in which order, and what happens when they answer with an exception."""

from __future__ import annotations

import copy
import logging

import numpy as np
import pytest
from sklearn.base import clone

from armillary import DDPvMFMeans, DPvMFMeans, SphericalKMeans
from armillary.exceptions import ParameterError
from armillary.fitting.events import Emitter, FitEvent, observers


def emitter_for(*callbacks, n_restarts=1):
    return Emitter("Model", callbacks, n_rows=50, n_restarts=n_restarts, max_steps=10)


def kinds(events):
    return [event.kind for event in events]


# ------------------------------------------------------------------------------------------------- the parameter


def test_callbacks_become_a_tuple():
    assert observers(None, "Model") == ()
    assert observers(print, "Model") == (print,)
    assert observers([print, repr], "Model") == (print, repr)
    assert observers((), "Model") == ()


@pytest.mark.parametrize(
    ("callbacks", "got"),
    [
        (3, "got 3."),
        ("abc", "got 'abc'."),
        (b"abc", "got b'abc'."),
        ({"a": print}, "got {'a': <built-in function print>}."),
        ([print, 7], "got 7 at position 1."),
        ([None], "got None at position 0."),
    ],
)
def test_other_callbacks_are_refused(callbacks, got):
    with pytest.raises(ParameterError) as caught:
        observers(callbacks, "SphericalKMeans")
    assert str(caught.value) == (
        f"`callbacks` of SphericalKMeans must be None, a callable or a sequence of callables; {got} "
        "Give functions that take one FitEvent, e.g. callbacks=[print]."
    )


def test_an_iterator_is_refused_since_a_second_fit_would_find_it_empty():
    with pytest.raises(ParameterError, match="must be None, a callable or a sequence"):
        observers(iter([print]), "Model")


# ----------------------------------------------------------------------------------------------------- the events


def test_events_come_in_order_with_what_is_known():
    seen: list[FitEvent] = []
    with emitter_for(seen.append, n_restarts=2) as emitter:
        emitter.step(restart=1, step=1, n_clusters=3, objective=0.5, change=None)
        emitter.step(restart=1, step=2, n_clusters=4, objective=0.6, change=0.2)
        emitter.step(restart=2, step=1, n_clusters=2, objective=0.3)
        emitter.keep(restart=1, step=2, n_clusters=4, objective=0.6)
    assert kinds(seen) == ["start", "step", "step", "step", "end"]
    assert {(event.model, event.n_rows, event.n_restarts, event.max_steps) for event in seen} == {("Model", 50, 2, 10)}
    assert [(event.restart, event.step, event.n_clusters) for event in seen] == [
        (0, 0, 0),
        (1, 1, 3),
        (1, 2, 4),
        (2, 1, 2),
        (1, 2, 4),
    ]
    assert [event.objective for event in seen] == [None, 0.5, 0.6, 0.3, 0.6]
    assert [event.change for event in seen] == [None, None, 0.2, None, None]
    assert not seen[-1].is_failed
    seconds = [event.seconds for event in seen]
    assert seconds[0] == 0.0
    assert seconds == sorted(seconds)


def test_the_lives_of_a_step_are_told_at_its_end_only():
    seen: list[FitEvent] = []
    with emitter_for(seen.append) as emitter:
        emitter.step(restart=1, step=1, n_clusters=3, objective=0.5)
        emitter.keep(restart=1, step=1, n_clusters=3, objective=0.5)
        emitter.lives(births=(7, 8), revivals=(2,), deaths=(0, 1))
    assert kinds(seen) == ["start", "step", "end"]
    assert [(event.births, event.revivals, event.deaths) for event in seen] == [
        ((), (), ()),
        ((), (), ()),
        ((7, 8), (2,), (0, 1)),
    ]
    assert (seen[-1].n_clusters, seen[-1].objective) == (3, 0.5)


def test_an_end_without_keep_repeats_the_last_step():
    seen: list[FitEvent] = []
    with emitter_for(seen.append) as emitter:
        emitter.step(restart=1, step=1, n_clusters=3, objective=0.5, change=0.1)
    end = seen[-1]
    assert (end.step, end.n_clusters, end.objective, end.change) == (1, 3, 0.5, 0.1)


def test_events_are_values():
    event = FitEvent("Model", "start", n_rows=1, n_restarts=1, max_steps=1)
    with pytest.raises(AttributeError):
        event.step = 3  # type: ignore[misc]
    assert event == FitEvent("Model", "start", n_rows=1, n_restarts=1, max_steps=1)


def test_a_printed_event_is_one_line():
    event = FitEvent("Model", "step", 1234, 10, 300, 2, 7, 5, 0.25, 1e-5, 1.5)
    assert str(event) == (
        "Model step: 1,234 rows, restart 2/10, step 7/300, 5 clusters, objective 0.25, change 1e-05, 1.500 s"
    )
    end = FitEvent("Model", "end", 9, 1, 3, is_failed=True)
    assert str(end) == "Model end (failed): 9 rows, restart 0/1, step 0/3, 0 clusters, 0.000 s"


# ---------------------------------------------------------------------------------------------------- exceptions


def test_a_failing_fit_still_ends():
    def fit():
        with emitter_for(seen.append) as emitter:
            emitter.step(restart=1, step=1, n_clusters=3)
            raise ZeroDivisionError

    seen: list[FitEvent] = []
    with pytest.raises(ZeroDivisionError):
        fit()
    assert kinds(seen) == ["start", "step", "end"]
    assert seen[-1].is_failed


@pytest.mark.parametrize("moment", ["start", "step", "end"])
def test_an_exception_of_an_observer_propagates_and_the_others_are_closed(moment):
    def raising(event):
        if event.kind == moment:
            raise KeyboardInterrupt

    before: list[FitEvent] = []
    after: list[FitEvent] = []
    with pytest.raises(KeyboardInterrupt), emitter_for(before.append, raising, after.append) as emitter:
        emitter.step(restart=1, step=1, n_clusters=3)
    expected_before = {"start": ["start", "end"], "step": ["start", "step", "end"], "end": ["start", "step", "end"]}
    # an observer that never heard "start" hears nothing
    expected_after = {"start": [], "step": ["start", "end"], "end": ["start", "step", "end"]}
    assert kinds(before) == expected_before[moment]
    assert kinds(after) == expected_after[moment]
    # during "end" the fit itself had not failed
    assert before[-1].is_failed == (moment != "end")


@pytest.mark.parametrize("moment", ["start", "step", "end"])
def test_a_model_whose_observer_raises_is_as_it_was(moment):
    def raising(event):
        if event.kind == moment:
            raise ZeroDivisionError

    model = SphericalKMeans(2, random_state=0).fit(np.eye(3))
    before = copy.deepcopy({name: value for name, value in vars(model).items() if name.endswith("_")})
    model.set_params(callbacks=raising, n_clusters=3)
    with pytest.raises(ZeroDivisionError):
        model.fit(np.eye(4))
    after = {name: value for name, value in vars(model).items() if name.endswith("_")}
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(value, after[name])


@pytest.mark.parametrize("model", [DPvMFMeans(0.5), DDPvMFMeans(0.5)], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("moment", ["start", "step", "end"])
def test_a_model_that_finds_clusters_is_as_it_was_too(model, moment):
    def raising(event):
        heard.append(event)
        if event.kind == moment:
            raise KeyboardInterrupt

    heard: list[FitEvent] = []
    model = clone(model).fit(np.eye(3)).partial_fit(np.eye(3)[:1])
    before = copy.deepcopy({name: value for name, value in vars(model).items() if name.endswith("_")})
    model.set_params(callbacks=raising)
    with pytest.raises(KeyboardInterrupt):
        model.fit(np.eye(4))
    after = {name: value for name, value in vars(model).items() if name.endswith("_")}
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(value, after[name])
    assert heard[-1].kind == ("start" if moment == "start" else "end")
    # counting from what was: clusters are known as soon as there was a step
    assert [event.n_clusters for event in heard if event.kind == "step"] == [4] * (len(heard) - 1 - (moment != "start"))


# ------------------------------------------------------------------------------------------------------- silence


def test_nothing_is_printed(capfd):
    with emitter_for() as emitter:
        emitter.step(restart=1, step=1, n_clusters=3)
    assert capfd.readouterr() == ("", "")


def test_the_logger_hears_at_debug_and_only_there(caplog):
    with caplog.at_level(logging.INFO, logger="armillary"), emitter_for() as emitter:
        emitter.step(restart=1, step=1, n_clusters=3)
    assert caplog.records == []
    with caplog.at_level(logging.DEBUG, logger="armillary"), emitter_for() as emitter:
        emitter.step(restart=1, step=1, n_clusters=3)
    assert [record.levelname for record in caplog.records] == ["DEBUG"] * 3
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "Model start",
        "Model step",
        "Model end",
    ]
