"""Links as people and services use it: frames, margins, splits, merges undone, forgetting, merging whole clusters."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from armillary import Links, load, save
from armillary.datasets import make_vmf_mixture
from armillary.exceptions import InputError, ParameterError


def stream(n=120, k=4, concentration=150.0, seed=0):
    X, truth, _ = make_vmf_mixture(n, 32, k, concentration=concentration, min_angle=1.0, random_state=seed)
    return X, truth


FINE = (0.75, 0.86, 0.9)  # many sub-clusters


def state(model):
    return model.resultants_.tobytes(), model.subcluster_ids_.tolist(), model.history_.tolist(), model.next_id_


# -------------------------------------------------------------------------------------------------------- frames


@pytest.mark.parametrize("merging", [False, True, "whole", "lone"])
def test_vectors_of_one_frame_are_never_of_one_cluster(merging):
    X, _ = stream(200, 3)
    frames = np.arange(200) // 2
    model = Links(merge_clusters=merging)
    ids = model.partial_fit_predict(X, frames=frames)
    now = model.labels_now()
    for frame in range(100):
        assert len(set(ids[frames == frame])) == 2
        assert len(set(now[frames == frame])) == 2


def test_frames_that_hold_one_vector_each_change_nothing():
    X, _ = stream()
    plain, framed = Links(), Links()
    np.testing.assert_array_equal(plain.partial_fit_predict(X), framed.partial_fit_predict(X, frames=np.arange(len(X))))
    assert state(plain) == state(framed)
    worded = Links().partial_fit_predict(X, frames=[f"photo {row}" for row in range(len(X))])
    np.testing.assert_array_equal(worded, plain.labels_)


def test_a_frame_goes_on_in_a_later_call():
    X, _ = stream(40, 1)
    whole = Links().partial_fit_predict(X[:4], frames=[0, 0, 0, 0])
    model, seen = Links(), []
    for row in range(4):
        seen += model.partial_fit_predict(X[row : row + 1], frames=[0], apart_from=seen).tolist()
    assert seen == whole.tolist() == [0, 1, 2, 3]


def test_frames_that_do_not_fit_are_refused():
    X, _ = stream(4)
    for frames in ([0, 1], [0.5] * 4, [[0]] * 4):
        with pytest.raises(InputError, match=r"`frames` of Links\.partial_fit must have an integer or a string"):
            Links().partial_fit(X, frames=frames)
    with pytest.raises(InputError, match="`past_ids`"):
        Links().partial_fit(X).partial_fit(X, apart_from=[99])


# -------------------------------------------------------------------------------------------------------- margins


def test_a_margin_of_nothing_changes_nothing_and_a_wide_one_learns_nothing_unclear():
    X, _ = stream()
    plain, open_to_all = Links(), Links()
    np.testing.assert_array_equal(plain.partial_fit_predict(X), open_to_all.partial_fit_predict(X, margin=0.0))
    assert state(plain) == state(open_to_all)
    np.testing.assert_array_equal(plain.predict(X, margin=0.0), plain.predict(X))
    cosines = plain.transform(X)
    best = np.sort(cosines, axis=1)
    assert (plain.predict(X, margin=2.0) == -1).all()
    n_before = plain.n_vectors_
    assert (plain.partial_fit_predict(X[:5], margin=2.0) == -1).all()
    assert plain.n_vectors_ == n_before
    assert plain.labels_now().tolist() == [-1] * 5
    lead = float(np.median(best[:, -1] - best[:, -2]))
    assert 0 < np.count_nonzero(plain.predict(X, margin=lead) == -1) < len(X)
    with pytest.raises(ParameterError, match=r"`margin` of Links\.predict"):
        plain.predict(X, margin=-1.0)


# ----------------------------------------------------------------------------------------------- splits and merges


def test_a_split_and_its_undoing_keep_every_vector():
    X, _ = stream()
    model = Links(*FINE).fit(X)
    total, n_clusters = model.counts_.sum(), model.n_clusters_
    part = model.split(0)
    assert (part, model.n_clusters_, model.counts_.sum()) == (model.next_id_ - 1, n_clusters + 1, total)
    assert model.events()[-1][1:] == (2, part, 0)
    with pytest.raises(InputError, match="kept apart"):
        model.must_link(0, part)
    model.may_link(0, part)
    assert model.must_link(0, part) == 0
    assert model.n_clusters_ == n_clusters
    np.testing.assert_allclose(model.resultants_.sum(axis=0), X.sum(axis=0), atol=1e-9)


def test_a_merge_undone_gives_back_the_id_and_all_that_came_after_as_before():
    X, _ = stream(240)
    model = Links(*FINE).fit(X[:120])
    untouched = copy.deepcopy(model)
    numbers = model.subclusters_of(1)
    assert model.must_link(0, 1) == 0
    assert model.current_ids([0, 1]).tolist() == [0, 0]
    assert model.restore(0, numbers, 1) == 1
    assert model.current_ids([0, 1]).tolist() == [0, 1]
    np.testing.assert_array_equal(model.partial_fit_predict(X[120:]), untouched.partial_fit_predict(X[120:]))


def test_a_split_by_subclusters_and_by_rows(tmp_path):
    X, _ = stream()
    model = Links(*FINE)
    ids = model.fit_predict(X)
    nodes = model.nodes_.copy()
    mine = np.flatnonzero(model.labels_now(nodes) == 0)
    chosen = model.subclusters_of(0)[:2]
    by_parts = copy.deepcopy(model)
    part = by_parts.split(0, chosen)
    assert sorted(by_parts.subclusters_of(part)) == sorted(chosen)
    by_rows = copy.deepcopy(model)
    part = by_rows.split(0, nodes[mine[:7]], rows=X[mine[:7]])
    is_part = by_rows.subcluster_ids_ == part
    assert by_rows.counts_[is_part].sum() == 7.0
    np.testing.assert_allclose(by_rows.resultants_[is_part].sum(axis=0), X[mine[:7]].sum(axis=0), atol=1e-12)
    save(by_rows, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.partial_fit_predict(X), by_rows.partial_fit_predict(X))
    assert len(set(ids)) == 4


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda m, X: m.split(99), "must be the id of a cluster that there is"),
        (lambda m, X: m.split(0, [10**6]), "must hold numbers that were given"),
        (lambda m, X: m.split(0, m.subclusters_of(1)), "must be numbers of sub-clusters of cluster 0"),
        (lambda m, X: m.split(0, m.subclusters_of(0)), "must leave one behind"),
        (lambda m, X: m.split(0, m.subclusters_of(0)[:1], rows=X[:2]), "must have one vector for each"),
        (lambda m, X: m.split(0, np.repeat(m.subclusters_of(0)[:1], 500), rows=X[[0] * 500]), "Leave one behind"),
        (lambda m, X: m.split(0, into=1), "must be an id that was merged into cluster 0"),
        (lambda m, X: m.restore(0, [], 1), "must find sub-clusters of both sides"),
        (lambda m, X: m.forget(99), "must be the id of a cluster that there is"),
        (lambda m, X: m.may_link(0, 99), "must be the id of a cluster that there is"),
        (lambda m, X: Links(merge_clusters="some").fit(X), "`merge_clusters` of Links"),
        (lambda m, X: Links(merge_slack=2.0).fit(X), "`merge_slack` of Links"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(call, sentence):
    X, _ = stream()
    model = Links(*FINE).fit(X)
    before = state(model)
    with pytest.raises((InputError, ParameterError), match=sentence):
        call(model, X)
    assert state(model) == before


def test_a_cluster_of_one_subcluster_is_not_split():
    X, _ = stream()
    model = Links().fit(X)
    with pytest.raises(InputError, match="two sub-clusters or more; cluster 0 has one"):
        model.split(0)


# --------------------------------------------------------------------------------------------------------- forget


def test_what_is_forgotten_is_gone_and_its_id_is_not_given_again(tmp_path):
    X, _ = stream()
    model = Links(*FINE)
    ids = model.fit_predict(X)
    model.name(1, "Ann")
    model.cannot_link(1, 2)
    model.forget(1)
    assert 1 not in model.cluster_ids_
    assert (model.names, model.current_ids([1]).tolist()) == ({}, [-1])
    assert model.events()[-1][1:] == (4, 1, -1)
    kept = np.flatnonzero(ids != 1)
    np.testing.assert_allclose(model.resultants_.sum(axis=0), X[kept].sum(axis=0), atol=1e-9)
    again = model.partial_fit_predict(X)
    assert 1 not in again
    for number in model.cluster_ids_.tolist():
        model.forget(number)
    assert (model.n_clusters_, model.predict(X[:3]).tolist()) == (0, [-1] * 3)
    save(model, tmp_path / "empty")
    assert load(tmp_path / "empty").partial_fit_predict(X[:1]).tolist() == [model.next_id_]


# ------------------------------------------------------------------------------------------- merging whole clusters


def noisy(seed):
    """Persons whose vectors come in two moods, so that each is found twice at first."""
    generator = np.random.default_rng(seed)
    people = np.linalg.qr(generator.normal(size=(32, 8)))[0].T
    moods = people[:, None, :] + 0.75 * generator.normal(size=(8, 2, 32)) / np.sqrt(32)
    truth = np.repeat(np.arange(8), 60)
    rows = moods[truth, generator.integers(0, 2, 480)] + 0.5 * generator.normal(size=(480, 32)) / np.sqrt(32)
    order = generator.permutation(480)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True))[order], truth[order]


def test_whole_clusters_merge_alike_in_batches_one_by_one_and_after_a_file(tmp_path):
    X, _ = noisy(0)
    batch = Links(0.88, 0.9, 0.95, merge_clusters="whole")
    ids = batch.fit_predict(X)
    single = Links(0.88, 0.9, 0.95, merge_clusters="whole")
    assert [single.learn_one(x) for x in X] == ids.tolist()
    halved = Links(0.88, 0.9, 0.95, merge_clusters="whole").fit(X[:200])
    save(halved, tmp_path / "model")
    halved = load(tmp_path / "model")
    np.testing.assert_array_equal(halved.partial_fit_predict(X[200:]), ids[200:])
    assert state(batch) == state(single) == state(halved)
    assert (batch.history_[:, 1] == 3).any()


def strays(seed):
    """A stream (n, D) of 34 persons; early on come 8 vectors far from their person, and 2 from nobody."""
    generator = np.random.default_rng(seed)
    people, beyond = np.split(np.linalg.qr(generator.normal(size=(40, 40)))[0].T, [36])
    rows = np.concatenate([people[:34]] * 30) + 0.2 * generator.normal(size=(1020, 40)) / np.sqrt(40)
    far = 0.62 * people[:8] + 0.78 * np.concatenate([beyond, -beyond])
    rows = np.concatenate([rows[:100], far, people[34:], rows[100:]])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_lone_vectors_join_the_cluster_that_leads_and_its_id_stays(tmp_path):
    X = strays(0)
    batch = Links(0.8, 0.9, 0.9, merge_clusters="lone")
    ids = batch.fit_predict(X)
    now = batch.current_ids(ids)
    np.testing.assert_array_equal(now[100:108], now[:8])
    np.testing.assert_array_equal(now[:34], ids[:34])  # those of many stay as they were
    assert len(set(now[:34]) | set(now[108:110])) == 36  # strangers are nobody's
    single = Links(0.8, 0.9, 0.9, merge_clusters="lone")
    assert [single.learn_one(x) for x in X] == ids.tolist()
    halved = Links(0.8, 0.9, 0.9, merge_clusters="lone").fit(X[:600])
    save(halved, tmp_path / "model")
    halved = load(tmp_path / "model")
    np.testing.assert_array_equal(halved.partial_fit_predict(X[600:]), ids[600:])
    save(halved, tmp_path / "model")
    assert state(batch) == state(single) == state(halved) == state(load(tmp_path / "model"))
    plain = Links(0.8, 0.9, 0.9, merge_clusters="whole")
    assert len(set(plain.current_ids(plain.fit_predict(X))[100:108]) - set(range(34))) == 8


def test_lone_vectors_with_a_name_and_those_kept_apart_stay():
    X = strays(1)
    model = Links(0.8, 0.9, 0.9, merge_clusters="lone").fit(X[:110])
    named, apart, free = model.labels_[100:103].tolist()
    model.name(named, "Ann")
    model.cannot_link(apart, int(model.labels_[1]))
    model.partial_fit(X[110:])
    assert model.current_ids([named, apart]).tolist() == [named, apart]
    assert model.current_ids([free]) == model.current_ids([2])


def test_whole_clusters_leave_fewer_surplus_ids():
    surplus = {}
    for merging in (False, "whole"):
        surplus[merging] = sum(
            Links(0.88, 0.9, 0.95, merge_clusters=merging).fit(noisy(seed)[0]).n_clusters_ - 8 for seed in range(3)
        )
    assert 0 <= surplus["whole"] < surplus[False]


def test_whole_clusters_that_are_kept_apart_or_named_stay_so():
    X, _ = noisy(1)
    model = Links(0.88, 0.9, 0.95, merge_clusters="whole").fit(X[:30])
    ids = model.cluster_ids_.tolist()
    for number in ids:
        model.name(number, f"name {number}")
    model.partial_fit(X[30:])
    assert set(ids) <= set(model.cluster_ids_.tolist())
