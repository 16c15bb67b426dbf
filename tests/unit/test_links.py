"""Links: ids that last, extras beyond the paper, corrections, and a sentence for whatever is wrong."""

from __future__ import annotations

import copy
import math
import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp

import armillary
from armillary import Links
from armillary.exceptions import InputError, ParameterError
from armillary.kernels.links.records import Fate
from armillary.models.links.links import Thresholds
from armillary.persistence import archive
from armillary.validation import unit_rows


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def stream(n=300, dimension=16, n_centers=5, seed=0, spread=0.15):
    generator = np.random.default_rng(seed)
    centers = unit(generator.normal(size=(n_centers, dimension)))
    labels = generator.integers(0, n_centers, n)
    return unit(centers[labels] + spread * generator.normal(size=(n, dimension))), labels


def content(model):
    """The bytes that `save` would write."""
    return archive._packed(*archive._described(model))


def eventful(seed=0, n=300):
    """A stream and thresholds under which sub-clusters merge and clusters split."""
    generator = np.random.default_rng(seed)
    center = unit(generator.normal(size=(1, 6)))
    return unit(center + 0.3 * generator.normal(size=(n, 6))), (0.7, 0.9, 1.0)


def plane(*degrees):
    angles = np.radians(degrees)
    return np.column_stack([np.cos(angles), np.sin(angles)])


# --------------------------------------------------------------------------------------------------------- thresholds


def test_thresholds_have_the_limits_of_the_page():
    t = Thresholds(0.7, 0.8, 0.85)
    assert t.edge(1, 1) == pytest.approx(0.49, abs=1e-15)
    assert t.edge(math.inf, math.inf) == pytest.approx(0.85, abs=1e-15)
    assert t.single_limit == pytest.approx(0.49 + (0.85 - 0.49) * 0.7 / 1.7, abs=1e-15)
    assert t.gain(1) == pytest.approx(0.7, abs=1e-15)


def test_thresholds_are_the_cosines_of_exact_orthogonal_constructions():
    """Members at an angle theta from the centre in orthogonal directions: s(k, k') of disjoint groups, T_p = 1."""
    cosine = 0.6
    rows = np.zeros((12, 13))
    rows[:, 0] = cosine
    rows[np.arange(12), 1 + np.arange(12)] = math.sqrt(1.0 - cosine**2)
    thresholds = Thresholds(cosine, 1.0, 1.0)
    for k in (1, 2, 5):
        for other in (1, 3, 7):
            one, two = rows[:k].sum(axis=0), rows[k : k + other].sum(axis=0)
            found = one @ two / (np.linalg.norm(one) * np.linalg.norm(two))
            assert thresholds.edge(k, other) == pytest.approx(found, abs=1e-14)


def test_similarities_rise_and_centroids_tend_to_the_centre():
    """Eqs. 14, 15, 17 and 18: in orthogonal directions about the centre, T_p = 1."""
    cosine, counts = 0.6, (1, 2, 5, 20, 100, 400)
    thresholds = Thresholds(cosine, 1.0, 1.0)
    one = [thresholds.edge(k) for k in counts]
    both = [thresholds.edge(k, k) for k in counts]
    assert all(np.diff(one) > 0.0)
    assert all(np.diff(both) > 0.0)
    assert one == [thresholds.edge(k, 1) for k in counts]
    assert thresholds.single_limit == pytest.approx(cosine, abs=1e-15)
    assert thresholds.edge(math.inf, math.inf) == pytest.approx(1.0, abs=1e-15)
    rows = np.hstack([np.full((400, 1), cosine), math.sqrt(1.0 - cosine**2) * np.eye(400)])
    off = [math.acos(rows[:k].sum(axis=0)[0] / np.linalg.norm(rows[:k].sum(axis=0))) for k in counts]
    assert all(np.diff(off) < 0.0)
    assert off[-1] < 0.07


def test_half_of_the_members_fail_at_the_true_cosine():
    """links.md, 5: the thresholds are typical values. 3.3 standard deviations of 2,000 throws of a coin."""
    generator = np.random.default_rng(5)
    dimension, cosine, k = 256, 0.7, 10
    center = np.eye(dimension)[0]

    def members(n):
        noise = generator.normal(size=(n, dimension))
        noise[:, 0] = 0.0
        return cosine * center + math.sqrt(1.0 - cosine**2) * unit(noise)

    threshold = Thresholds(cosine, 1.0, 1.0).edge(k)
    fails = 0
    for _ in range(20):
        centroid = unit(members(k).sum(axis=0, keepdims=True))[0]
        fails += int((members(100) @ centroid < threshold).sum())
    assert abs(fails / 2000 - 0.5) < 0.1  # members of a trial share a centroid
    lower = Thresholds(0.9 * cosine, 1.0, 1.0).edge(k)
    centroid = unit(members(k).sum(axis=0, keepdims=True))[0]
    assert (members(500) @ centroid < lower).mean() < 0.02


@pytest.mark.parametrize(
    ("thresholds", "sentence"),
    [
        (
            (1.0, 0.9, 1.0),
            (
                "`cluster_similarity_threshold` of Links must be above 0 and below 1; got 1.0. It is the cosine of the "
                "angle between a vector and the centre of its cluster."
            ),
        ),
        (
            (0.5, 0.0, 1.0),
            "`subcluster_similarity_threshold` of Links must be above 0; got 0.0. It is a cosine.",
        ),
        (
            (0.8, 0.9, 0.5),
            (
                "`pair_similarity_maximum` of Links must be a number in [0.64, 1]; got 0.5. Below "
                "cluster_similarity_threshold squared, which is 0.64, thresholds would fall as clusters grow."
            ),
        ),
        (
            ("high", 0.9, 0.9),
            (
                "`cluster_similarity_threshold` of Links must be a number in [0, 1]; got 'high'. It is the cosine of "
                "the angle between a vector and the centre of its cluster."
            ),
        ),
    ],
)
def test_thresholds_out_of_range_get_a_sentence(thresholds, sentence):
    with pytest.raises(ParameterError) as caught:
        Links(*thresholds).fit(np.eye(3))
    assert str(caught.value) == sentence


@pytest.mark.parametrize("name", ["max_subclusters", "max_idle"])
def test_bounds_must_be_positive(name):
    with pytest.raises(
        ParameterError, match=re.escape(f"`{name}` of Links must be an int >= 1; got 0. None sets no bound.")
    ):
        Links(**{name: 0}).fit(np.eye(3))


def test_a_low_subcluster_threshold_warns():
    with pytest.warns(UserWarning, match=r"`subcluster_similarity_threshold` of Links should be at least 0.6725"):
        Links(0.75, 0.6, 0.8192).fit(np.eye(3))


def test_one_subcluster_for_every_vector_warns_once():
    rows, _ = stream(150, 64)
    model = Links(0.75, 0.999, 0.75)
    model.partial_fit(rows[:99])
    with pytest.warns(UserWarning, match=r"a sub-cluster of nearly every vector: 100 of 100\. .* Lower it from 0.999"):
        model.learn_one(rows[99])
    model.partial_fit(rows[100:])


# --------------------------------------------------------------------------------------------------- ids and prediction


def test_separated_clusters_are_recovered():
    rows, labels = stream(400, 64, spread=0.05)
    ids = Links().fit_predict(rows)
    _, first = np.unique(labels, return_index=True)
    np.testing.assert_array_equal(ids, ids[first][labels])
    assert sorted(set(ids.tolist())) == [0, 1, 2, 3, 4]


def test_prediction_changes_nothing_and_says_what_learning_would():
    rows, _ = stream(200)
    model = Links().fit(rows[:100])
    before = content(model)
    predicted = model.predict(rows[100:])
    assert [model.predict_one(x) for x in rows[100:]] == predicted.tolist()
    model.alternatives(rows[150])
    model.score(rows)
    assert content(model) == before
    for x, id_ in zip(rows[100:], predicted.tolist(), strict=True):
        assert model.predict_one(x) == id_ or model.n_vectors_ > 100
        learned = copy.deepcopy(model).learn_one(x)
        assert learned == id_ or id_ == -1
    assert model.predict_one(-rows[0]) == -1


def test_prediction_of_many_nodes_is_that_of_one_at_a_time(monkeypatch):
    from armillary.models.links import _link_graph

    rows, thresholds = eventful(3)
    model = Links(*thresholds).fit(rows)
    expected = model.predict(rows)
    monkeypatch.setattr(_link_graph, "_TABLE_VALUES", 0)
    np.testing.assert_array_equal(model.predict(rows), expected)


def test_ids_are_given_once_even_where_clusters_merge_die_and_are_dropped():
    rows, _ = stream(600, 8, n_centers=12, spread=0.3)
    model = Links(0.8, 0.85, 0.9, merge_clusters=True, max_subclusters=6, max_idle=40)
    gone, given = set(), set()
    for x in rows:
        known = model.next_id_ if hasattr(model, "next_id_") else 0
        n_events = len(model.history_) if known else 0
        id_ = model.learn_one(x)
        for _, fate, number, other in model.history_[n_events:].tolist():
            if fate in (Fate.BIRTH, Fate.SPLIT):
                assert number not in given
                given.add(number)
            else:
                gone.add(number)
                assert other in given | {-1}
        assert id_ in given - gone
        assert set(model.cluster_ids_.tolist()) == given - gone
    assert {event.fate for event in model.events()} >= {Fate.BIRTH, Fate.MERGE, Fate.DEATH}


def test_alternatives_are_the_nearest_clusters_with_margins():
    model = Links(0.8, 0.97, 1.0).fit(plane(0, 0, 50, 120))
    found = model.alternatives(plane(20)[0], k=5)
    assert [one.id for one in found] == [0, 1, 2]
    assert [round(one.cosine, 12) for one in found] == [round(math.cos(math.radians(a)), 12) for a in (20, 30, 100)]
    thresholds = Thresholds(0.8, 0.97, 1.0)
    assert found[0].margin == pytest.approx(math.cos(math.radians(20)) - min(0.97, thresholds.edge(2)))
    assert found[1].margin == pytest.approx(math.cos(math.radians(30)) - thresholds.edge(1))
    assert len(model.alternatives(plane(20)[0], k=1)) == 1
    assert found[0].id == model.predict_one(plane(20)[0])


def test_score_is_minus_the_sum_of_cosine_distances():
    model = Links(0.8, 0.97, 1.0).fit(plane(0, 90))
    expected = 3 * (math.cos(math.radians(10)) - 1.0) + math.cos(math.radians(20)) - 1.0
    assert model.score(plane(10, 70), sample_weight=[3, 1]) == pytest.approx(expected)


def test_centers_are_those_of_the_sums_of_clusters():
    rows, thresholds = eventful(1)
    model = Links(*thresholds).fit(rows)
    now = model.labels_now()
    for id_, center in zip(model.cluster_ids_, model.cluster_centers_, strict=True):
        np.testing.assert_allclose(center, unit(rows[now == id_].sum(axis=0, keepdims=True))[0], atol=1e-12)


def test_events_since_a_vector():
    rows, thresholds = eventful(2)
    model = Links(*thresholds).fit(rows)
    late = model.events(since=100)
    assert late == [event for event in model.events() if event.vector > 100]
    assert {event.fate for event in model.events()} == {Fate.BIRTH, Fate.SPLIT}
    assert model.current_ids(model.labels_).tolist() == model.labels_.tolist()


def test_what_is_said_of_a_cluster_goes_with_it():
    model = Links(0.8, 0.97, 1.0, max_idle=2).fit(plane(0, 90, 180)).name(0, "ada").name(2, "bob")
    model.cannot_link(0, 2)
    for _ in range(3):
        model.learn_one(plane(180)[0])
    assert model.names == {2: "bob"}
    assert model._apart.shape == (0, 2)


def test_history_shown_before_stays_as_it_was():
    rows, thresholds = eventful(2)
    model = Links(*thresholds)
    shown = []
    for x in rows:
        model.learn_one(x)
        shown.append((model.history_, model.history_.copy(), model._joins, model._joins.copy()))
    for history, history_then, joins, joins_then in shown:
        np.testing.assert_array_equal(history, history_then)
        np.testing.assert_array_equal(joins, joins_then)


def test_history_is_bounded():
    rows, thresholds = eventful(2)
    whole, short = Links(*thresholds).fit(rows), Links(*thresholds, max_history=3).fit(rows)
    np.testing.assert_array_equal(short.history_, whole.history_[-3:])
    np.testing.assert_array_equal(short._joins, whole._joins[-3:])
    assert Links(*thresholds, max_history=0).fit(rows).history_.shape == (0, 4)


# ----------------------------------------------------------------------------------------------------------- state


@pytest.mark.parametrize("way", ["save", "pickle", "deepcopy"])
@pytest.mark.parametrize(
    "extras", [{}, {"merge_clusters": True, "max_subclusters": 12, "max_idle": 60}], ids=["plain", "extras"]
)
def test_a_stream_goes_on_with_equal_bits_from_anywhere(way, extras, tmp_path):
    rows, thresholds = eventful(4)
    whole, resumed = Links(*thresholds, **extras), Links(*thresholds, **extras)
    for start in range(0, 300, 25):
        part = rows[start : start + 25]
        np.testing.assert_array_equal(whole.partial_fit_predict(part), resumed.partial_fit_predict(part))
        if way == "save":
            armillary.save(resumed, tmp_path / "m")
            resumed = armillary.load(tmp_path / "m")
        else:
            resumed = pickle.loads(pickle.dumps(resumed)) if way == "pickle" else copy.deepcopy(resumed)
        assert content(resumed) == content(whole)


BAD = {
    "too long": (np.ones(17), "X has 17 features, but Links is expecting 16 features as input"),
    "NaN": (np.full(16, np.nan), "Row 0 of x contains NaN"),
    "inf": (np.full(16, np.inf), "Row 0 of x contains inf"),
    "zero": (np.zeros(16), "Row 0 of x has norm 0 and no direction"),
    "two": (np.ones((2, 16)), "x of Links must be one vector, a 1-D array; got 2-D of shape (2, 16)."),
    "words": (np.array(["a"] * 16), "x of Links must hold real numbers; got strings"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("method", ["learn_one", "predict_one"])
def test_a_bad_vector_gets_a_sentence_and_leaves_everything_as_it_was(kind, method):
    rows, _ = stream()
    model = Links().fit(rows)
    before = content(model)
    bad, sentence = BAD[kind]
    with pytest.raises(InputError, match=re.escape(sentence)):
        getattr(model, method)(bad)
    assert content(model) == before
    twin = Links().fit(rows)
    assert model.learn_one(rows[0]) == twin.learn_one(rows[0])
    assert content(model) == content(twin)


@pytest.mark.parametrize("kind", ["NaN", "zero", "too long"])
def test_a_bad_row_in_the_middle_of_a_batch_leaves_everything_as_it_was(kind):
    rows, _ = stream()
    model = Links().fit(rows[:100])
    before = content(model)
    batch = rows[100:].copy()
    if kind == "too long":
        batch = np.ones((5, 17))
    else:
        batch[150] = np.nan if kind == "NaN" else 0.0
    with pytest.raises(InputError):
        model.partial_fit(batch)
    with pytest.raises(InputError, match=re.escape("sample_weight")):
        model.partial_fit(rows[:3], sample_weight=[1.0, -1.0, 1.0])
    assert content(model) == before


def test_an_observer_that_raises_leaves_everything_as_it_was():
    rows, _ = stream()
    model = Links().fit(rows[:100])
    before = content(model)

    def stop(event):
        if event.kind == "end":
            raise RuntimeError("enough")

    model.callbacks = stop
    with pytest.raises(RuntimeError, match=re.escape("enough")):
        model.partial_fit(rows[100:])
    with pytest.raises(RuntimeError, match=re.escape("enough")):
        model.learn_one(rows[100])
    model.callbacks = None
    assert content(model) == before


def test_an_interrupt_in_the_middle_of_a_batch_leaves_everything_as_it_was(monkeypatch):
    from armillary.models.links import _link_graph

    rows, _ = stream()
    model = Links().fit(rows[:100])
    before = content(model)
    monkeypatch.setattr(_link_graph, "_BLOCK_ROWS", 50)
    n_calls = iter(range(10))
    whole = _link_graph.LinkGraph._learn_block

    def broken(*arguments):
        if next(n_calls) == 2:
            raise KeyboardInterrupt
        return whole(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(_link_graph.LinkGraph, "_learn_block", broken)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(rows[100:])
    assert content(model) == before
    np.testing.assert_array_equal(model.partial_fit_predict(rows[100:]), Links().fit_predict(rows)[100:])


def test_observers_hear_of_births_and_deaths():
    seen = []
    model = Links(0.8, 0.97, 1.0, max_idle=2, callbacks=seen.append)
    model.fit(plane(0, 90, 90, 90, 90))
    assert [event.kind for event in seen] == ["start", "step", "end"]
    assert (seen[-1].births, seen[-1].deaths, seen[-1].n_clusters) == ((0, 1), (0,), 1)


def test_dtypes_and_representations_agree():
    rows, _ = stream(200)
    rows = rows.astype(np.float32)
    expected = Links().fit_predict(rows)
    np.testing.assert_array_equal(Links().fit_predict(sp.csr_matrix(rows)), expected)
    np.testing.assert_array_equal(Links().fit_predict(rows.astype(np.float64) * 3.0), expected)
    single = Links()
    assert [single.learn_one(x.tolist()) for x in rows] == expected.tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vectors_of_any_length_are_directions(dtype):
    rows, _ = stream(40)
    expected = Links().fit_predict(rows.astype(dtype))
    largest = np.finfo(dtype).max
    for scale in (1e-30, 1.0 + 1e-5, 0.1 * largest):
        model = Links()
        assert [model.learn_one(dtype(scale) * x.astype(dtype)) for x in rows] == expected.tolist()


def nearly_unit(dtype):
    """Vectors on both sides of what counts as normalised, which the gate leaves as they are or divides."""
    X, _ = stream(200, dimension=24)
    tolerance = {np.float32: 2e-6, np.float64: 1e-12}[dtype]
    return (X * (1.0 + tolerance * np.linspace(-2.5, 2.5, len(X)))[:, None]).astype(dtype)


FORMS = {
    "as it is": lambda x: x,
    "every second number": lambda x: np.repeat(x, 2)[::2],
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype),
    "other byte order": lambda x: x.astype(x.dtype.newbyteorder()),
    "one row": lambda x: x[None, :],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS)
def test_one_vector_has_the_bits_of_a_batch_in_every_form(form, dtype):
    """`learn_one` asks the kernel whether a vector is unit; what is not, the gate divides: as it does for batches."""
    X = nearly_unit(dtype)
    batch, single = Links().fit(X), Links().fit(X[:1])
    ids = [single.learn_one(FORMS[form](x)) for x in X[1:]]
    assert ids == batch.labels_[1:].tolist()
    np.testing.assert_array_equal(single.resultants_, batch.resultants_)
    assert [single.predict_one(FORMS[form](x)) for x in X] == batch.predict(X).tolist()
    is_left = (unit_rows(X, "X") == X).all(axis=1)
    assert is_left.any()
    assert not is_left.all()


def test_what_one_call_answered_stays():
    X, _ = stream()
    model = Links().fit(X[:10])
    kept = []
    for x in X[10:40]:
        model.learn_one(x)
        kept.append((model.labels_, model.nodes_))
    twin = Links().fit(X[:10]).partial_fit(X[10:40])
    assert np.concatenate([labels for labels, _ in kept]).tolist() == twin.labels_.tolist()
    assert np.concatenate([nodes for _, nodes in kept]).tolist() == twin.nodes_.tolist()


def test_thresholds_may_change_in_the_middle_of_a_stream():
    rows, _ = stream(200)
    changed = Links(0.75, 0.75, 0.75).fit(rows[:100])
    loaded = pickle.loads(pickle.dumps(changed))
    for model in (changed, loaded):
        model.set_params(cluster_similarity_threshold=0.9, subcluster_similarity_threshold=0.95)
        model.set_params(pair_similarity_maximum=0.9).partial_fit(rows[100:])
    assert content(changed) == content(loaded)


# ----------------------------------------------------------------------------------------------------------- extras


def test_memory_is_bounded_where_the_bound_is_set():
    generator = np.random.default_rng(0)
    model = Links(0.75, 0.9, 0.75, max_subclusters=20, max_history=50)
    with pytest.warns(UserWarning, match="nearly every vector"):
        model.partial_fit(generator.normal(size=(100, 32)))
    room = len(model._graph.forest.nodes)
    for _ in range(30):
        model.partial_fit(generator.normal(size=(100, 32)))
        assert model.n_subclusters_ <= 20
        assert len(model.history_) <= 50
        assert len(model._joins) <= 50
        assert len(model._graph.forest.nodes) == room
    assert model._next_subcluster > 1000


def test_a_full_house_takes_the_nearest_or_gives_up_the_longest_unseen():
    model = Links(0.8, 0.99, 0.9, max_subclusters=2)
    first, second, third = plane(0)[0], plane(100)[0], plane(200)[0]
    assert [model.learn_one(x) for x in (first, second)] == [0, 1]
    assert model.learn_one(plane(20)[0]) == 0  # would be linked to 0, and joins it
    assert model.counts_.tolist() == [2.0, 1.0]
    assert model.learn_one(third) == 2  # the cluster at 100 degrees has waited longest
    assert model.events()[-2:] == [(4, Fate.DEATH, 1, -1), (4, Fate.BIRTH, 2, -1)]
    assert model.current_ids([0, 1, 2, -1]).tolist() == [0, -1, 2, -1]


def test_an_idle_cluster_is_forgotten():
    model = Links(0.8, 0.97, 1.0, max_idle=3)
    ids = model.fit_predict(plane(0, 90, 90, 0, 90, 90, 90, 0))
    assert ids.tolist() == [0, 1, 1, 0, 1, 1, 1, 2]
    assert model.labels_now().tolist() == [-1, 1, 1, -1, 1, 1, 1, 2]
    assert [event for event in model.events() if event.fate is Fate.DEATH] == [(8, Fate.DEATH, 0, -1)]


def test_clusters_merge_only_where_it_is_asked_for():
    rows = plane(0, 36, 20, 16, 16)
    apart, merged = Links(0.9, 0.97, 0.9), Links(0.9, 0.97, 0.9, merge_clusters=True)
    assert apart.fit(rows).n_clusters_ == 2
    assert merged.fit(rows).n_clusters_ == 1
    (merge,) = [event for event in merged.events() if event.fate is Fate.MERGE]
    assert (merge.id, merge.other) == (1, 0)
    assert merged.current_ids([0, 1]).tolist() == [0, 0]
    assert set(merged.labels_now().tolist()) == {0}


def test_names_and_cannot_links_keep_clusters_apart():
    rows = plane(0, 36, 20, 16, 16)
    for correct in (lambda m: m.name(0, "ada").name(1, "bob"), lambda m: m.cannot_link(1, 0)):
        model = Links(0.9, 0.97, 0.9, merge_clusters=True).fit(rows[:2])
        correct(model)
        assert model.partial_fit(rows[2:]).n_clusters_ == 2
    for feed in (lambda m: m.partial_fit(rows[2:]), lambda m: [m.learn_one(x) for x in rows[2:]]):
        model = Links(0.9, 0.97, 0.9, merge_clusters=True).fit(rows[:2]).name(1, "bob")
        feed(model)
        assert model.n_clusters_ == 1
        assert model.names == {0: "bob"}  # the name goes with the cluster


def test_names_can_be_changed_and_taken_away():
    model = Links().fit(np.eye(3))
    assert model.name(2, "c").name(0, "a").names == {0: "a", 2: "c"}
    assert model.name(0, "b").name(2, None).names == {0: "b"}
    with pytest.raises(
        InputError, match=re.escape("`cluster` of Links.name must be the id of a cluster that there is; got 7")
    ):
        model.name(7, "x")
    with pytest.raises(ParameterError, match=re.escape("`label` of Links.name must be a string or None; got 3")):
        model.name(0, 3)


def test_must_link_makes_one_cluster_that_is_never_cut():
    model = Links(0.8, 0.97, 1.0).fit(plane(0, 120, 240)).name(2, "ada")
    assert model.must_link(2, 1) == 1
    assert model.n_clusters_ == 2
    assert model.names == {1: "ada"}
    model.partial_fit(plane(*[240] * 20, *[120] * 20))
    assert model.n_clusters_ == 2
    assert model.must_link(plane(0)[0], plane(121)[0]) == 0
    assert model.current_ids([0, 1, 2]).tolist() == [0, 0, 0]
    assert int(model._is_pinned.sum()) == 2
    assert model.must_link(0, 0) == 0


def test_cannot_link_splits_a_cluster_between_two_vectors():
    model = Links(0.8, 0.96, 0.8).fit(plane(0, 20, 40, 60))
    assert model.n_clusters_ == 1
    first, second = model.cannot_link(plane(0)[0], plane(60)[0])
    assert (model.predict_one(plane(0)[0]), model.predict_one(plane(60)[0])) == (first, second)
    assert model.n_clusters_ == 2
    assert model.events()[-1].fate is Fate.SPLIT
    with pytest.raises(InputError, match=r"Links.must_link must not link clusters that are kept apart; got 0 and 1"):
        model.must_link(0, 1)


def test_corrections_that_cannot_be_made_get_a_sentence():
    model = Links(0.8, 0.96, 0.8).fit(plane(0, 20, 120))
    before = content(model)
    with pytest.raises(InputError, match=re.escape("both are in cluster 0. Give vectors to say where to split it.")):
        model.cannot_link(0, 0)
    with pytest.raises(
        InputError, match=re.escape("both are in one sub-cluster of cluster 0, and these are never split")
    ):
        model.cannot_link(plane(0)[0], plane(1)[0])
    with pytest.raises(
        InputError, match=re.escape("`an id` of Links.must_link must be the id of a cluster that there is; got 9")
    ):
        model.must_link(0, 9)
    with pytest.raises(
        InputError, match=re.escape("`past_ids` of Links must hold ids that were given, integers from -1 to 1")
    ):
        model.current_ids([5])
    with pytest.raises(InputError, match=re.escape("`nodes` of Links must hold numbers that were given")):
        model.labels_now([0.5])
    assert content(model) == before
    model.name(0, "ada").name(1, "bob")
    with pytest.raises(
        InputError, match=re.escape("must not link clusters with different names; got 0, named 'ada', and 1")
    ):
        model.must_link(0, 1)
    model.name(1, None).must_link(0, 1)
    with pytest.raises(InputError, match=re.escape("must not contradict must_link")):
        model.cannot_link(plane(20)[0], plane(120)[0])


def test_corrections_are_saved(tmp_path):
    model = Links(0.8, 0.97, 1.0, merge_clusters=True).fit(plane(0, 120, 240)).name(2, "ada")
    model.cannot_link(0, 1)
    armillary.save(model, tmp_path / "m")
    loaded = armillary.load(tmp_path / "m")
    assert loaded.names == {2: "ada"}
    assert loaded._apart.tolist() == [[0, 1]]
    assert content(loaded) == content(model)


def test_weights_count_as_so_many_vectors():
    model = Links(0.8, 0.97, 1.0).fit(plane(0, 5), sample_weight=[2.5, 4.0])
    assert model.counts_.tolist() == [6.5]
    np.testing.assert_allclose(model.resultants_[0], 2.5 * plane(0)[0] + 4.0 * plane(5)[0])
    before = content(model)
    assert model.partial_fit_predict(plane(3, 180), sample_weight=[0.0, 1.0]).tolist() == [0, 1]
    assert model.nodes_.tolist() == [-1, 1]
    assert content(model) != before
    assert model.learn_one(plane(181)[0], sample_weight=2.0) == 1
    assert model.counts_.tolist() == [6.5, 3.0]


def test_a_model_is_made_without_the_compiler():
    import subprocess
    import sys

    code = "from armillary import Links; Links(); import sys; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
