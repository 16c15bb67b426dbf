"""Threads that share one model: reading calls answer as in one thread, and one learner at a time changes it.

The models and their calls are those of `tests/campaigns/threads.py`, which mixes them at random.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import threading
import time

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from tests.campaigns.threads import (
    CASES,
    CORRECTIONS,
    LEARNING,
    Plan,
    answer,
    final,
    in_threads,
    rows_of,
    short_turns,
    told,
)

import armillary
from armillary import Links
from armillary.models import estimator

FORMS = [(name, is_sparse) for name, case in CASES.items() for is_sparse in (False, True)[: 1 + case.takes_sparse]]
forms = pytest.mark.parametrize(("name", "is_sparse"), FORMS, ids=lambda value: str(value))


def classes():
    return {name: kind for name in armillary.__all__ if inspect.isclass(kind := getattr(armillary, name))}


def public(kind):
    """Methods and properties of a model that scikit-learn does not give to all estimators."""
    ours = (
        {name for name in dir(kind) if not name.startswith("_")} - set(dir(BaseEstimator)) - {"set_output", "device_"}
    )
    return {name for name in ours if not (name.startswith("set_") and name.endswith("_request"))}


def data(case, is_sparse, name="A"):
    return rows_of(name, are_counts=case.are_counts, is_sparse=is_sparse)


def test_every_call_of_every_model_is_tried():
    for name, kind in classes().items():
        cases = [case for title, case in CASES.items() if title.split(",")[0] == name]
        assert cases, name
        tried = {call for case in cases for call in case.reads} | {*LEARNING, *CORRECTIONS}
        assert public(kind) <= tried, f"{name}: {public(kind) - tried}"


@forms
def test_eight_threads_read_what_one_reads(name, is_sparse):
    case = CASES[name]
    X = data(case, is_sparse)
    probes = [X[np.random.default_rng(seed).permutation(36)[: 8 + 3 * seed]] for seed in range(8)]
    with short_turns():
        model = case.make().fit(X)
        # what is made on first use is made by one of the threads, while others read
        model = pickle.loads(pickle.dumps(model))
        alone = pickle.loads(pickle.dumps(model))
        expected = [{call: answer(read, alone, rows) for call, read in case.reads.items()} for rows in probes]

        def task(number):
            calls = [*case.reads]
            for turn in range(1 if name != "Links" else 4):
                for place in range(len(calls)):
                    call = calls[(place + number + turn) % len(calls)]
                    said = answer(case.reads[call], model, probes[number])
                    assert said == expected[number][call], f"{call} in thread {number}"

        in_threads(*(lambda number=number: task(number) for number in range(8)))


@pytest.mark.parametrize("has_table", [False, True])
def test_links_predicts_large_batches_in_eight_threads(has_table, monkeypatch):
    """The products of a batch belong to the call: with those of another thread, ids would be wrong without a word."""
    from armillary.models.links import _link_graph

    if has_table:
        monkeypatch.setattr(_link_graph, "_TABLE_VALUES", 0)
    draws = np.random.default_rng(0)
    X = np.repeat(draws.normal(size=(200, 64)), 4, axis=0) + 0.1 * draws.normal(size=(800, 64))
    model = Links(0.8, 0.97).fit(X)
    assert model.n_clusters_ > 150
    batches = np.split(draws.permutation(X), 8)
    expected = [model.predict(batch).tolist() for batch in batches]
    with short_turns():

        def task(number):
            for _ in range(10):
                assert model.predict(batches[number]).tolist() == expected[number]

        in_threads(*(lambda number=number: task(number) for number in range(8)))


class Pause:
    """A callback that stops a fit at its first event until it may go on."""

    def __init__(self):
        self.has_come, self.may_go = threading.Event(), threading.Event()

    def __call__(self, event):
        self.has_come.set()
        assert self.may_go.wait(60)


@pytest.mark.parametrize("name", CASES)
def test_a_second_learner_is_refused_and_leaves_no_trace(name):
    from armillary.exceptions import ArmillaryError, BusyModelError

    case = CASES[name]
    X, other = data(case, is_sparse=False), data(case, is_sparse=False, name="B")
    with short_turns():
        alone = case.make().fit(X)
        pause = Pause()
        model = case.make().set_params(callbacks=pause)
        learner = threading.Thread(target=model.fit, args=(X,))
        learner.start()
        assert pause.has_come.wait(60)
        kind = type(model)
        given = {"learn_one": (other[0],), "name": (0, "x"), "forget": (0,), "split": (0,), "restore": (0, [0], 1)}
        given |= dict.fromkeys(("must_link", "cannot_link", "may_link"), (0, 1))
        calls = [call for call in (*LEARNING, *CORRECTIONS) if call in public(kind) and call not in case.refused]
        assert "fit" in calls
        errors = {}
        for call in calls:
            with pytest.raises(BusyModelError) as caught:
                getattr(model, call)(*given.get(call, (other,)))
            errors[call] = str(caught.value)
        pause.may_go.set()
        learner.join()
    assert isinstance(caught.value, ArmillaryError | RuntimeError)
    assert errors["fit"] == (
        f"{kind.__name__}.fit must not be called while another thread teaches the same model; got a call from thread "
        "'MainThread' in the middle of another learning call. Let learning calls follow one another, e.g. under one "
        "threading.Lock, or give each thread a clone of the model."
    )
    assert errors["fit_predict"].startswith(f"{kind.__name__}.fit_predict must not be called while")
    model.set_params(callbacks=None)
    assert told(final(model)) == told(final(alone))


@pytest.mark.parametrize("name", CASES)
def test_a_read_beside_learning_sees_the_state_before_or_after(name):
    """Fits on three data sets in turn, and what goes on from them; a torn state answers as none of these."""
    case = CASES[name]
    steps = [("fit", "A"), *((call, letter) for call in case.steps for letter in "AB"), ("fit", "B")]
    if "resume" in case.steps:  # with the rows of A
        steps.remove(("resume", "B"))
    with short_turns():
        plan = Plan(name, steps, is_sparse=False)
        model = case.make()
        calls = [*case.reads]

        def read():
            turn = 0
            while plan.n_done < len(steps):
                plan.check(model, calls[turn % len(calls)], turn % 2)
                turn += 1

        in_threads(lambda: plan.follow(model), read, read)
    assert told(final(model)) == plan.end


def test_the_law_sees_a_model_that_is_published_piece_by_piece(monkeypatch):
    def piecewise(model, change):
        after = copy.copy(model)
        change(after)
        for name, value in vars(after).items():
            setattr(model, name, value)
            time.sleep(0.002)

    monkeypatch.setattr(estimator, "publish", piecewise)
    steps = [("fit", "A"), ("fit", "B"), ("fit", "A"), ("fit", "B")]
    with short_turns():
        plan, model = Plan("SoftKMeans", steps, is_sparse=False), CASES["SoftKMeans"].make()

        def read():
            while plan.n_done < len(steps):
                plan.check(model, "score_samples", 0)

        with pytest.raises(AssertionError, match="answers as no state"):
            in_threads(lambda: plan.follow(model), read)


def test_a_learner_goes_on_where_another_ended_or_failed():
    model = CASES["SphericalKMeans"].make()
    with pytest.raises(ValueError, match="array"):
        model.fit(np.zeros(3))
    X = data(CASES["SphericalKMeans"], is_sparse=False)
    in_threads(lambda: model.fit(X))
    model.partial_fit(X)
    assert model.n_steps_ == 1


@pytest.mark.parametrize("twin", [clone, copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_have_turns_of_their_own(twin):
    X = data(CASES["Links"], is_sparse=False)
    for make in (Links, CASES["SphericalKMeans"].make):
        model = make().fit(X)
        other = twin(model)
        assert "_own_turns" not in vars(other)
        with model._turns.learning:
            in_threads(lambda other=other: other.fit(X))
        assert told(final(other)) == told(final(model))


def test_a_copy_of_links_does_not_change_with_the_model():
    X = data(CASES["Links"], is_sparse=False)
    model = Links().fit(X[:20])
    other, before = copy.copy(model), told(final(model))
    model.partial_fit(X[20:])
    assert told(final(other)) == before


def test_a_parameter_set_while_a_fit_publishes_is_kept():
    from armillary.models.turns import publish

    model = CASES["SphericalKMeans"].make()

    def change(after):
        after.fitted_ = 1
        model.n_threads = 2  # as another thread might

    publish(model, change)
    assert (model.fitted_, model.n_threads) == (1, 2)
