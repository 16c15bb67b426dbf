"""Clusters of a stream that grow together: the rule, the older id, events, the map of past ids, resuming."""

from __future__ import annotations

import math

import numpy as np
import pytest

import armillary
from armillary import DDPvMFMeans
from armillary.exceptions import InputError, ParameterError
from armillary.models.means._merging import (
    NEAR,
    SLACK,
    MergeRule,
    SavedState,
    Seen,
    chosen_merges,
    followed,
    joined,
    squared_spreads,
)
from armillary.models.means.ddp_vmf_means import Life

RULE = MergeRule(angle=math.radians(42.0), after=3)


def at(*degrees):
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles), np.zeros(len(angles))], axis=1)


def seen(degrees, spreads, first_new=100):
    """Clusters 0, 1, ... at angles on a circle with spreads, as chords."""
    ids = np.arange(len(degrees))
    return Seen(ids, at(*degrees), np.ones(len(ids)), np.square(spreads), first_new)


def chord(degrees):
    return 2.0 * math.sin(0.5 * math.radians(degrees))


def near(*lines):
    return SavedState(np.array(lines, dtype=np.int64).reshape(-1, 3))


def test_spreads_are_mean_squared_chords():
    rows = at(0.0, 20.0, 50.0)
    total = rows.sum(axis=0)
    length = np.linalg.norm(total)
    direct = np.square(rows - total / length).sum(axis=1).mean()
    np.testing.assert_allclose(squared_spreads(np.array([3.0, 0.0]), np.array([length, 0.0])), [direct, 0.0])


def test_a_pair_is_near_within_its_spreads_and_the_angle():
    at_bound = chord(20.0) / NEAR / math.sqrt(2.0)
    for spread, expected in ((1.001 * at_bound, [[0, 1, 1]]), (0.999 * at_bound, [])):
        merges, after = chosen_merges(seen([0.0, 20.0], [spread, spread]), SavedState(), RULE)
        assert (merges, after.near_pairs.tolist()) == ([], expected)
    wide = [2.0, 2.0]
    assert len(chosen_merges(seen([0.0, 41.9], wide), SavedState(), RULE)[1].near_pairs) == 1
    assert len(chosen_merges(seen([0.0, 42.1], wide), SavedState(), RULE)[1].near_pairs) == 0


def test_hysteresis_a_pair_stays_near_up_to_the_slack_and_is_merged_in_time():
    spread = chord(20.0) / NEAR / math.sqrt(2.0)
    pair = lambda degrees: seen([0.0, degrees], [spread, spread])  # noqa: E731
    assert chosen_merges(pair(22.0), near([0, 1, 1]), RULE)[1].near_pairs.tolist() == [[0, 1, 2]]
    assert chosen_merges(pair(22.0), SavedState(), RULE)[1].near_pairs.tolist() == []
    assert chosen_merges(pair(20.0 * SLACK + 0.5), near([0, 1, 2]), RULE)[1].near_pairs.tolist() == []
    merges, after = chosen_merges(pair(22.0), near([0, 1, 2]), RULE)
    assert (merges, after.near_pairs.tolist()) == ([(1, 0)], [])


def test_a_cluster_born_beside_an_older_one_is_merged_at_once():
    merges, _ = chosen_merges(seen([0.0, 10.0, 100.0], [0.3, 0.3, 0.3], first_new=1), SavedState(), RULE)
    assert merges == [(1, 0)]


def test_the_nearest_pair_goes_first_and_each_cluster_merges_once_in_a_step():
    known = near([0, 1, 9], [1, 2, 9], [0, 2, 9])
    merges, after = chosen_merges(seen([0.0, 20.0, 32.0], [0.5, 0.5, 0.5]), known, RULE)
    assert merges == [(2, 1)]
    assert after.near_pairs.tolist() == [[0, 1, 10]]


def test_a_pair_of_which_one_is_out_of_sight_waits():
    only = Seen(np.array([0]), at(0.0), np.ones(1), np.ones(1), 100)
    assert chosen_merges(only, near([0, 7, 2]), RULE)[1].near_pairs.tolist() == [[0, 7, 2]]


def test_two_are_joined_as_the_sum_of_what_is_remembered():
    direction, weight = joined(at(0.0)[0], 3.0, at(90.0)[0], 4.0)
    assert weight == pytest.approx(5.0)
    np.testing.assert_allclose(direction, [0.6, 0.8, 0.0])
    sure, weight = joined(at(0.0)[0], math.inf, at(90.0)[0], 4.0)
    assert math.isinf(weight)
    np.testing.assert_array_equal(sure, at(0.0)[0])
    stays, weight = joined(at(0.0)[0], 2.0, at(180.0)[0], 2.0)
    assert weight <= 2.0
    assert np.isfinite(stays).all()


def test_ids_are_followed_to_those_alive():
    merges = np.array([[3, 2], [2, 0], [5, 4]])
    np.testing.assert_array_equal(followed(np.array([[3, 2], [0, -1], [5, 1]]), merges, np.array([0, 1])), [
        [0, 0], [0, -1], [-1, 1]])  # fmt: skip


# ------------------------------------------------------------------------------------------------------- a stream


def closing_in(step, rng, n=400):
    """Two directions that start 100 degrees apart and come together."""
    apart = max(12.0, 100.0 - 12.0 * step)
    rows = np.concatenate([at(*rng.normal(0.0, 8.0, n)), at(*rng.normal(apart, 8.0, n)), at(*rng.normal(200, 3, n))])
    rows[:, 2] = rng.normal(0.0, 0.14, len(rows))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def stream(**settings):
    return DDPvMFMeans(math.radians(60.0), drift_concentration=20.0, **settings)


@pytest.fixture(scope="module")
def told():
    """A merging stream, every step's labels, and the events of its end."""
    rng, labels, events = np.random.default_rng(0), [], []
    model = stream(merge_angle=math.radians(40.0), callbacks=lambda event: events.append(event))
    for step in range(14):
        labels.append(model.partial_fit_predict(closing_in(step, rng)))
    return model, labels, [event for event in events if event.kind == "end"]


def test_directions_that_grow_together_become_the_older_id(told):
    model, labels, events = told
    assert sorted(set(labels[0].tolist())) == [0, 1, 2]
    assert len(model.merges_) == 1
    step, gone, kept = model.merges_[0].tolist()
    assert gone > kept
    assert set(labels[-1].tolist()) == {0, 1, 2} - {gone}
    assert model.n_clusters_ == 2
    assert gone not in model.cluster_ids_
    assert model.record(step).merges == ((gone, kept),) == events[step - 1].merges
    assert [step, int(Life.MERGE), gone] in model.history_.tolist()
    # one merged direction for the rows of both, and no other row changes its cluster
    assert len(set(labels[step - 1][:800].tolist())) == 1


def test_the_paper_never_merges(told):
    rng = np.random.default_rng(0)
    model = stream()
    for step in range(14):
        labels = model.partial_fit_predict(closing_in(step, rng))
    assert sorted(set(labels.tolist())) == [0, 1, 2]
    assert model.merges_.shape == (0, 3)


def test_events_replayed_give_the_map_of_ids(told):
    model, labels, _ = told
    onward = {}
    for _, life, number in model.history_.tolist():
        if life == Life.MERGE:
            onward[number] = dict(model.merges_[:, 1:].tolist())[number]
    past = np.arange(model.next_id_)
    replayed = [onward.get(number, number) for number in past.tolist()]
    np.testing.assert_array_equal(model.current_ids(past), replayed)
    assert model.current_ids(labels[0]).shape == labels[0].shape
    # rows of both wings of the first step go by one id now
    assert len(set(model.current_ids(labels[0][:800]).tolist())) == 1


def test_a_stream_saved_in_the_middle_goes_on_with_equal_bits(told, tmp_path):
    model, labels, _ = told
    middle = int(model.merges_[0, 0]) - 1  # pairs are near and not merged yet
    rng, first = np.random.default_rng(0), stream(merge_angle=math.radians(40.0))
    for step in range(middle):
        first.partial_fit(closing_in(step, rng))
    assert len(first._saved_state.near_pairs)
    armillary.save(first, tmp_path / "half.safetensors")
    second = armillary.load(tmp_path / "half.safetensors")
    for step in range(middle, 14):
        np.testing.assert_array_equal(second.partial_fit_predict(closing_in(step, rng)), labels[step])
    for name in ("cluster_centers_", "memory_weights_", "cluster_ids_", "merges_", "history_"):
        assert getattr(second, name).tobytes() == getattr(model, name).tobytes()


def test_steps_without_rows_change_no_pair(told):
    model, _, _ = told
    middle = int(model.merges_[0, 0]) - 1
    rng, gappy = np.random.default_rng(0), stream(merge_angle=math.radians(40.0))
    for step in range(middle):
        gappy.partial_fit(closing_in(step, rng))
    before = gappy._saved_state.near_pairs.copy()
    gappy.partial_fit(np.empty((0, 3)))
    np.testing.assert_array_equal(gappy._saved_state.near_pairs, before)


def test_few_merges_are_kept_where_history_is_short(told):
    rng = np.random.default_rng(0)
    model = stream(merge_angle=math.radians(40.0), max_history=0)
    for step in range(14):
        model.partial_fit(closing_in(step, rng))
    assert model.merges_.shape == (0, 3)
    assert -1 in model.current_ids(np.arange(model.next_id_))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"merge_angle": 40}, "`merge_angle` of DDPvMFMeans must be a number in (0, pi]; got 40."),
        ({"merge_after": 0}, "`merge_after` of DDPvMFMeans must be an int >= 1; got 0. It is a number of steps."),
    ],
)
def test_sentences(settings, sentence):
    with pytest.raises(ParameterError) as raised:
        DDPvMFMeans(**settings).fit(at(0.0, 10.0))
    assert str(raised.value).startswith(sentence)


def test_ids_that_were_never_given_are_refused(told):
    model, _, _ = told
    with pytest.raises(InputError, match=r"`past_ids` of DDPvMFMeans.current_ids must be ids that were given"):
        model.current_ids([model.next_id_])
