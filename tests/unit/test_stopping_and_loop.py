"""The loop: when a run ends, which run is kept, and what observers are told on the way."""

from __future__ import annotations

import math

import pytest

from armillary.fitting.events import Emitter
from armillary.fitting.loop import best_run, run_chain
from armillary.fitting.stopping import RelativeGain


class Scripted:
    """A chain with known objectives; it says "nothing changed" at step `still_at`."""

    def __init__(self, objectives, still_at=None):
        self.objectives, self.still_at = list(objectives), still_at
        self.n_steps = 0
        self.n_clusters = 3

    @property
    def state(self):
        return self.n_steps

    def step(self):
        self.n_steps += 1
        return self.objectives[self.n_steps - 1], self.n_steps == self.still_at


def quiet(*callbacks, n_restarts=1, max_steps=100):
    return Emitter("Model", callbacks, n_rows=10, n_restarts=n_restarts, max_steps=max_steps)


def run(chain, *, max_steps=100, tol=0.0, callbacks=(), restart=1):
    with quiet(*callbacks) as emitter:
        return run_chain(chain, max_steps=max_steps, stopping=RelativeGain(tol), emitter=emitter, restart=restart)


def best(chains, *, max_steps=100, tol=0.0, callbacks=()):
    started = []

    def start(restart):
        started.append(restart)
        return chains[restart - 1]

    with quiet(*callbacks, n_restarts=len(chains)) as emitter:
        kept = best_run(start, n_restarts=len(chains), max_steps=max_steps, stopping=RelativeGain(tol), emitter=emitter)
    assert started == list(range(1, len(chains) + 1))
    return kept


# ------------------------------------------------------------------------------------------------------- stopping


@pytest.mark.parametrize(
    ("before", "now", "gain"),
    [
        (-math.inf, 5.0, math.inf),
        (4.0, 5.0, 0.2),
        (-5.0, -4.0, 0.25),
        (5.0, 5.0, 0.0),
        (5.0, 4.0, -0.25),
        (0.0, 0.0, 0.0),
        (-1.0, 1.0, 2.0),
    ],
)
def test_gain_is_a_fraction_of_the_objective(before, now, gain):
    assert RelativeGain(0.0).gain(before, now) == pytest.approx(gain)


def test_gain_to_an_objective_of_zero_is_large_and_finite():
    assert math.isfinite(RelativeGain(0.0).gain(-1.0, 0.0))
    assert RelativeGain(0.0).gain(-1.0, 0.0) > 1e200


@pytest.mark.parametrize("size", [1e-200, 1e-3, 1.0, 1e6, 1e200])
def test_gain_does_not_depend_on_the_size_of_the_objective(size):
    assert RelativeGain(0.0).gain(0.9 * size, size) == pytest.approx(0.1)


def test_the_rule_is_met_at_the_tolerance_and_by_any_loss():
    rule = RelativeGain(0.1)
    assert rule.is_met(0.1)
    assert rule.is_met(0.0)
    assert rule.is_met(-1.0)
    assert not rule.is_met(0.11)
    assert not rule.is_met(math.inf)


def test_with_tolerance_0_only_no_gain_at_all_stops():
    assert RelativeGain(0.0).is_met(0.0)
    assert not RelativeGain(0.0).is_met(5e-324)


# ---------------------------------------------------------------------------------------------------------- one run


def test_a_run_ends_when_nothing_changes():
    outcome = run(Scripted([1.0, 2.0, 3.0, 9.0], still_at=3))
    assert (outcome.objective, outcome.n_steps, outcome.is_converged) == (3.0, 3, True)


def test_a_run_may_end_at_its_first_step():
    outcome = run(Scripted([1.0, 9.0], still_at=1))
    assert (outcome.objective, outcome.n_steps, outcome.is_converged) == (1.0, 1, True)


def test_a_run_ends_when_the_gain_is_small():
    outcome = run(Scripted([1.0, 2.0, 2.001, 9.0]), tol=1e-3)
    assert (outcome.objective, outcome.n_steps, outcome.is_converged) == (2.001, 3, True)


def test_the_first_step_always_counts_as_a_gain():
    assert run(Scripted([1.0, 1.0]), tol=1e300).n_steps == 2


def test_a_run_that_uses_all_steps_has_not_converged():
    outcome = run(Scripted([1.0, 2.0, 3.0, 4.0]), max_steps=3)
    assert (outcome.objective, outcome.n_steps, outcome.is_converged) == (3.0, 3, False)


def test_a_run_that_settles_in_its_last_step_has_converged():
    assert run(Scripted([1.0, 2.0, 3.0], still_at=3), max_steps=3).is_converged


def test_a_run_keeps_its_chain():
    chain = Scripted([1.0, 2.0], still_at=2)
    outcome = run(chain)
    assert outcome.chain is chain
    assert outcome.chain.state == 2


def test_observers_hear_every_step_with_its_gain():
    seen = []
    run(Scripted([1.0, 2.0, 2.5], still_at=3), callbacks=[seen.append], restart=4)
    steps = [event for event in seen if event.kind == "step"]
    assert [(event.restart, event.step, event.n_clusters) for event in steps] == [(4, 1, 3), (4, 2, 3), (4, 3, 3)]
    assert [event.objective for event in steps] == [1.0, 2.0, 2.5]
    assert steps[0].change is None
    assert [event.change for event in steps[1:]] == pytest.approx([0.5, 0.2])


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_observer_can_end_a_run(kind):
    chain = Scripted([1.0, 2.0, 3.0, 4.0])

    def stop(event):
        if event.kind == "step" and event.step == 2:
            raise kind("enough")

    with pytest.raises(kind, match="enough"):
        run(chain, callbacks=[stop])
    assert chain.n_steps == 2


# -------------------------------------------------------------------------------------------------------- many runs


def test_the_best_run_is_kept():
    chains = [Scripted([1.0, 5.0], still_at=2), Scripted([7.0], still_at=1), Scripted([2.0, 6.0], still_at=2)]
    kept = best(chains)
    assert kept.chain is chains[1]
    assert kept.objective == 7.0


def test_the_first_of_equal_runs_is_kept():
    chains = [Scripted([1.0], still_at=1), Scripted([7.0], still_at=1), Scripted([3.0, 7.0], still_at=2)]
    assert best(chains).chain is chains[1]


def test_runs_that_differ_by_rounding_are_equal():
    """As those of one partition, numbered otherwise: which is kept must not depend on how the rows are held."""
    assert best([Scripted([20.0], still_at=1), Scripted([20.0 + 4e-15], still_at=1)]).objective == 20.0
    assert best([Scripted([20.0], still_at=1), Scripted([20.0 + 1e-9], still_at=1)]).objective > 20.0


def test_a_run_that_did_not_converge_may_be_the_best():
    chains = [Scripted([1.0], still_at=1), Scripted([2.0, 3.0, 4.0])]
    kept = best(chains, max_steps=3)
    assert kept.chain is chains[1]
    assert not kept.is_converged


def test_negative_objectives():
    chains = [Scripted([-9.0], still_at=1), Scripted([-3.0], still_at=1)]
    assert best(chains).objective == -3.0


def test_the_end_names_the_run_that_was_kept():
    seen = []
    chains = [Scripted([1.0], still_at=1), Scripted([3.0, 7.0], still_at=2), Scripted([2.0], still_at=1)]
    best(chains, callbacks=[seen.append])
    end = seen[-1]
    assert (end.kind, end.restart, end.step, end.objective, end.is_failed) == ("end", 2, 2, 7.0, False)
    assert [event.restart for event in seen if event.kind == "step"] == [1, 2, 2, 3]


def test_a_later_run_that_fails_fails_the_fit():
    class Broken(Scripted):
        def step(self):
            raise MemoryError("no room")

    seen = []
    with pytest.raises(MemoryError, match="no room"):
        best([Scripted([1.0], still_at=1), Broken([])], callbacks=[seen.append])
    assert (seen[-1].kind, seen[-1].is_failed) == ("end", True)
