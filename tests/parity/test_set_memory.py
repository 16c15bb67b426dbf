"""Chains on few rows remember what they found about sets of them: with the memory and without, the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from armillary import DirichletProcessMixture
from armillary.engines import cpu_sets
from armillary.engines.cpu_sets import SetMemory, memory_for

CASES = [
    ("tangent_gaussian", "split_merge", 6),
    ("tangent_gaussian", "split_merge", 40),
    ("tangent_gaussian", "subclusters", 20),
    ("tangent_gaussian", "crp", 6),
    ("gaussian", "split_merge", 6),
    ("gaussian", "finite", 20),
    ("vmf", "split_merge", 6),
    ("vmf", "split_merge", 40),
]


def fitted(component, sampler, n_rows, seed):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n_rows, 3))
    rows[: n_rows // 2] += 2.0
    model = DirichletProcessMixture(
        component, sampler=sampler, spread_prior=0.3, n_components=20, n_burn_in=2, n_draws=10, random_state=seed
    )
    return model.fit(rows)


@pytest.mark.parametrize(("component", "sampler", "n_rows"), CASES)
def test_a_memory_changes_no_bit(component, sampler, n_rows, monkeypatch):
    with_memory = fitted(component, sampler, n_rows, 1)
    monkeypatch.setattr(cpu_sets, "memory_for", lambda _: None)
    without = fitted(component, sampler, n_rows, 1)
    np.testing.assert_array_equal(with_memory.trace_, without.trace_)
    np.testing.assert_array_equal(with_memory.sample_labels_, without.sample_labels_)
    np.testing.assert_array_equal(with_memory._saved_state.chain_pivots, without._saved_state.chain_pivots)


def test_only_few_rows_are_remembered():
    assert memory_for(64) is not None
    assert memory_for(65) is None


def test_a_memory_finds_what_is_new_and_forgets_when_full(monkeypatch):
    memory, asked = SetMemory(), []

    def make(places):
        asked.append(places)
        return [10 * place for place in places]

    assert memory.recall(["a", "b"], make) == [0, 10]
    assert memory.recall(["b", "c"], make) == [10, 10]
    assert asked == [[0, 1], [1]]
    monkeypatch.setattr("armillary.engines.cpu_sets._MOST_REMEMBERED", 3)
    assert memory.recall(["a", "d"], make) == [0, 10]
    assert asked[-1] == [0, 1]
