"""The estimator that needs no parameter: levels that nest, mergers, outliers that keep their rate, weights of words."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline

import armillary
from armillary import AutoClusterer, choose_model
from armillary.datasets import make_sparse_topics, make_vmf_mixture
from armillary.distributions import vmf
from armillary.engines.contract import Here
from armillary.exceptions import ParameterError
from armillary.selection import auto_clusterer, levels, tails, term_weights


@pytest.fixture(scope="module")
def rows():
    X, truth, _ = make_vmf_mixture(1_400, 20, 7, concentration=60.0, random_state=0)
    return X[:700], truth[:700], X[700:]


@pytest.fixture(scope="module")
def fitted(rows):
    return AutoClusterer(n_threads=1).fit(rows[0])


# --------------------------------------------------------------------------------------------------- what it answers


def test_the_clusters_are_those_of_the_choice(rows, fitted):
    X, truth, _ = rows
    choice = choose_model(X, n_threads=1)
    np.testing.assert_array_equal(fitted.labels_, choice.model.labels_)
    np.testing.assert_array_equal(fitted.cluster_centers_, choice.model.cluster_centers_)
    assert (fitted.n_clusters_, fitted.is_clear_, fitted.clarity_) == (7, choice.is_clear, choice.clarity)
    assert fitted.k_range_.tolist() == list(choice.k_range)
    assert fitted.reason_ == choice.reason == fitted.choice_.reason
    assert adjusted_rand_score(truth, fitted.labels_) == 1.0


def test_predict_is_the_fit_again(rows, fitted):
    X, _, others = rows
    np.testing.assert_array_equal(fitted.predict(X), fitted.labels_)
    np.testing.assert_allclose(fitted.predict_membership(X), fitted.membership_)
    assert fitted.predict(others).max() == 6
    assert fitted.membership_.min() >= 0.0
    assert fitted.membership_.max() <= 1.0


def nests(fine, coarse):
    return all(len(np.unique(coarse[fine == label])) == 1 for label in np.unique(fine))


def test_levels_nest_and_the_chosen_one_is_as_before(fitted):
    found = fitted.levels_
    np.testing.assert_array_equal(found.chosen, fitted.labels_)
    assert nests(found.fine, found.chosen)
    assert nests(found.chosen, found.coarse)
    counts = found.n_clusters
    assert counts["coarse"] <= counts["chosen"] == 7 < counts["fine"]
    assert repr(found) == f"Levels(coarse {counts['coarse']}, chosen 7, fine {counts['fine']})"
    assert found.tree.children.shape == (counts["fine"] - 1, 2)
    assert (np.diff(found.tree.heights) >= 0.0).all()


@pytest.mark.parametrize("level", ["coarse", "chosen", "fine"])
def test_the_level_that_is_asked_for(rows, fitted, level):
    X, _, others = rows
    model = AutoClusterer(level=level, n_threads=1).fit(X)
    np.testing.assert_array_equal(model.labels_, getattr(fitted.levels_, level))
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert nests(model.predict(others), fitted.predict(others)) or level == "coarse"
    assert model.cluster_centers_.shape == (model.n_clusters_, 20)


@pytest.mark.parametrize("n_clusters", [1, 4, 7, 9])
def test_as_many_as_asked_for_from_the_tree(rows, fitted, n_clusters):
    model = AutoClusterer(n_clusters=n_clusters, n_threads=1).fit(rows[0])
    assert model.n_clusters_ == n_clusters == len(np.unique(model.labels_))
    if n_clusters <= 7:
        assert nests(fitted.labels_, model.labels_)
    else:
        assert nests(model.labels_, fitted.labels_)
    np.testing.assert_array_equal(model.predict(rows[0]), model.labels_)


def test_merged_clusters_keep_the_smaller_id_and_gaps_stay(rows, fitted):
    model = AutoClusterer(merge=[[5, 2], (6, 2)], n_threads=1).fit(rows[0])
    expected = np.where(np.isin(fitted.labels_, [5, 6]), 2, fitted.labels_)
    np.testing.assert_array_equal(model.labels_, expected)
    assert model.cluster_ids_.tolist() == [0, 1, 2, 3, 4]
    gaps = AutoClusterer(merge=[[0, 3]], n_threads=1).fit(rows[0])
    assert gaps.cluster_ids_.tolist() == [0, 1, 2, 4, 5, 6]
    assert gaps.n_clusters_ == 6
    together = rows[0][np.isin(fitted.labels_, [0, 3])].sum(axis=0)
    np.testing.assert_allclose(gaps.cluster_centers_[0], together / np.linalg.norm(together))


def test_a_model_is_saved_whole(rows, tmp_path):
    X, _, others = rows
    model = AutoClusterer(level="fine", outliers="auto", merge=[[0, 1]], n_threads=1).fit(X)
    armillary.save(model, tmp_path / "auto.safetensors")
    loaded = armillary.load(tmp_path / "auto.safetensors")
    np.testing.assert_array_equal(loaded.predict(others), model.predict(others))
    np.testing.assert_array_equal(loaded.labels_, model.labels_)
    np.testing.assert_array_equal(loaded.levels_.coarse, model.levels_.coarse)
    assert loaded.reason_ == model.reason_
    with pytest.raises(AttributeError, match="was not fitted here: `choice_` is not saved"):
        loaded.choice_  # noqa: B018
    with pytest.raises(AttributeError, match="is not fitted: it has no `levels_`"):
        AutoClusterer().levels_  # noqa: B018


# --------------------------------------------------------------------------------------------------- outliers


@pytest.mark.parametrize(("n_clusters", "concentration"), [(7, 60.0), (30, 80.0)])
def test_rows_kept_apart_are_called_outliers_as_often_as_is_said(n_clusters, concentration):
    rates = []
    for seed in range(3):
        X, _, _ = make_vmf_mixture(3_000, 20, n_clusters, concentration=concentration, random_state=seed)
        labels, distances, new_labels, new_distances = split(X, n_clusters, seed)
        limits = tails.fit_tails(labels, distances, n_clusters, 0.02)
        rates.append(limits.is_out(new_labels, new_distances).mean())
    assert 0.02 / 1.5 < np.mean(rates) < 0.02 * 1.5


def split(X, n_clusters, seed):
    """Left-out distances of half of the rows from directions of k-means, and distances of the others."""
    half = len(X) // 2
    model = armillary.SphericalKMeans(n_clusters, random_state=seed, n_init=3, n_threads=1).fit(X[:half])
    cosines = np.einsum("ij,ij->i", X[:half], model.cluster_centers_[model.labels_])
    lengths = np.linalg.norm(model.resultants_, axis=1)
    apart = tails.left_out_distances(model.labels_, cosines, model.counts_, lengths)
    new = model.predict(X[half:])
    return model.labels_, apart, new, 1.0 - np.einsum("ij,ij->i", X[half:], model.cluster_centers_[new])


def test_left_out_distances_are_those_of_directions_without_the_row():
    X, _, _ = make_vmf_mixture(30, 6, 1, concentration=5.0, random_state=0)
    total = X.sum(axis=0)
    length = np.linalg.norm(total)
    labels = np.zeros(30, dtype=np.int32)
    found = tails.left_out_distances(labels, X @ total / length, np.array([30.0]), np.array([length]))
    without = total - X
    expected = 1.0 - np.einsum("ij,ij->i", X, without / np.linalg.norm(without, axis=1, keepdims=True))
    np.testing.assert_allclose(found, expected)
    alone = tails.left_out_distances(labels[:1], np.ones(1), np.ones(1), np.ones(1))
    assert alone.tolist() == [1.0]


def test_the_law_of_a_von_mises_fisher_cluster():
    X = vmf.sample(np.eye(30)[0], 400.0, 20_000, random_state=0)
    shape, scale = tails.gamma_law(1.0 - X[:, 0])
    assert shape == pytest.approx(29 / 2, rel=0.05)
    assert scale == pytest.approx(1 / 400, rel=0.06)
    assert tails.gamma_law(np.zeros(4)) == (1.0, 1e-12)


def even(n_rows, n_features, seed=1):
    rows = np.random.default_rng(seed).normal(size=(n_rows, n_features))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def wide_clusters(n_rows, n_features, seed, heavy=False):
    """Rows of 8 clusters whose noise is nearly as long as their direction: there is no gap to even rows."""
    draws = np.random.default_rng(seed)
    directions = np.linalg.qr(draws.normal(size=(n_features, 8)))[0].T
    labels = np.arange(n_rows) % 8
    noise = 0.9 * draws.normal(size=(n_rows, n_features)) / np.sqrt(n_features)
    if heavy:
        noise *= 0.7 * np.sqrt(5.0 / draws.chisquare(5.0, n_rows))[:, None]
    rows = directions[labels] + noise
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), labels, directions


def tails_of(X, labels, n_clusters):
    """As `AutoClusterer` has them."""
    totals = np.array([X[labels == cluster].sum(axis=0) for cluster in range(n_clusters)])
    lengths = np.linalg.norm(totals, axis=1)
    directions = totals / lengths[:, None]
    cosines = X @ directions.T
    counts = np.bincount(labels).astype(float)
    here = Here(0, None, labels, (), lambda: X)
    own = tails.left_out_distances(labels, cosines[np.arange(len(X)), labels], counts, lengths)
    apart = tails.Apart.told(labels, own, tails.RunnerUp().of(cosines, here))
    elsewhere = tails.Elsewhere.evenly(directions, np.random.default_rng(0))
    found = tails.fit_tails(apart.labels, apart.distances, n_clusters, 0.01, elsewhere)

    def is_out(rows):
        cosines = rows @ directions.T
        return found.is_out(np.argmax(cosines, axis=1), 1.0 - cosines.max(axis=1))

    return is_out


@pytest.mark.parametrize("heavy", [False, True])
def test_strangers_among_wide_clusters_raise_no_limit(heavy, monkeypatch):
    X, labels, _ = wide_clusters(4_000, 16, 0, heavy)
    strangers = even(222, 16)
    clean = tails_of(X[:2_000], labels[:2_000], 8)
    # of 2,000 rows 20 are expected; the limit and the count each scatter by the root of that: 1e-3 beyond 43
    assert 4 <= clean(X[2_000:]).sum() <= 43
    among = np.argmax(strangers @ np.array([X[labels == one].mean(axis=0) for one in range(8)]).T, axis=1)
    mixed = np.r_[X[:2_000], strangers], np.r_[labels[:2_000], among], 8
    assert tails_of(*mixed)(strangers).mean() > clean(strangers).mean() - 0.1
    assert tails_of(*mixed)(X[2_000:]).mean() < 0.03
    monkeypatch.setattr(tails, "shares_that_belong", lambda labels, *others: np.ones(len(labels)))
    assert tails_of(*mixed)(strangers).mean() < 0.15  # what it is for


def test_heavy_tails_of_few_rows_are_no_strangers():
    directions = np.eye(3)[:1] * np.array([[1.0], [-1.0]])
    elsewhere = tails.Elsewhere.evenly(directions, np.random.default_rng(0))
    called = []
    for seed in range(40):
        draws = np.random.default_rng(seed)
        noise = 0.28 * draws.normal(size=(300, 3)) * np.sqrt(5.0 / draws.chisquare(5.0, 300))[:, None]
        rows = np.repeat(directions, 150, axis=0) + noise
        cosines = rows @ directions.T / np.linalg.norm(rows, axis=1, keepdims=True)
        belongs = tails.shares_that_belong(np.argmax(cosines, axis=1), 1.0 - cosines.max(axis=1), 2, elsewhere)
        called.append(np.mean(belongs < 0.5))
    assert np.mean(called) < 0.02  # 0.04 where strangers are weighed against gamma tails alone


def test_rows_held_by_themselves_alone_are_told_as_predict_would():
    X = even(300, 200)  # no clusters: every row is nearest to a direction that it is a part of
    labels = np.argmax(X @ even(40, 200, 2).T, axis=1)
    totals = np.array([X[labels == one].sum(axis=0) for one in range(40)])
    lengths = np.linalg.norm(totals, axis=1)
    cosines = X @ (totals / lengths[:, None]).T
    own = tails.left_out_distances(labels, cosines[np.arange(300), labels], np.bincount(labels).astype(float), lengths)
    apart = tails.Apart.told(labels, own, tails.RunnerUp().of(cosines, Here(0, None, labels, (), lambda: X)))
    new = 1.0 - (even(2_000, 200, 3) @ (totals / lengths[:, None]).T).max(axis=1)
    assert abs(apart.distances.mean() - new.mean()) < 0.02 < own.mean() - new.mean()


def test_clusters_that_cover_the_sphere_have_no_strangers():
    X, _, truth = make_vmf_mixture(2_000, 3, 4, concentration=6.0, min_angle=1.6, random_state=0)
    labels = np.argmax(X @ truth.directions.T, axis=1)
    is_out = tails_of(X[:1_000], labels[:1_000], 4)
    assert is_out(X[1_000:]).mean() < 0.025


def test_strangers_that_are_not_even_are_told_by_a_hill_of_their_own():
    draws = np.random.default_rng(0)
    body = draws.gamma(10.0, 0.02, 2_000)
    labels = np.arange(2_200) % 4
    both = np.r_[body, draws.normal(0.6, 0.05, 200)]
    found = tails.shares_that_belong(labels, both, 4, None)
    assert found[:2_000].mean() > 0.99 > 0.1 > found[2_000:].mean()
    assert (tails.shares_that_belong(labels[:2_000], body, 4, None) == 1.0).all()
    heavy = body * np.sqrt(5.0 / draws.chisquare(5.0, 2_000))  # a heavy tail is no hill
    assert (tails.shares_that_belong(labels[:2_000], heavy, 4, None) == 1.0).all()


def test_strangers_among_many_rows_are_learned_from_some_and_told_for_all():
    draws = np.random.default_rng(0)
    labels = np.sort(np.arange(44_000) % 4)
    is_strange = np.arange(44_000) % 11 == 0
    distances = np.where(is_strange, draws.normal(0.6, 0.05, 44_000), draws.gamma(10.0, 0.02, 44_000))
    found = tails.shares_that_belong(labels, distances, 4, None)
    assert found[~is_strange].mean() > 0.99 > 0.1 > found[is_strange].mean()
    few = tails._spread(labels)
    assert len(few) == 44_000 // 3 + 1
    assert (abs(np.bincount(labels[few]) - len(few) / 4) <= 1).all()
    some = tails.shares_that_belong(labels[few], distances[few], 4, None)
    assert np.mean((some < 0.5) == (found[few] < 0.5)) > 0.999


def test_planted_outliers_are_caught_and_few_others(rows):
    X, _, _ = rows
    strangers = np.random.default_rng(1).normal(size=(77, 20))
    model = AutoClusterer(outliers="auto", n_threads=1).fit(np.r_[X, strangers])
    is_out = model.labels_ < 0
    assert model.n_clusters_ == 7
    assert is_out[700:].mean() > 0.95
    assert is_out[:700].mean() < 0.03
    assert f"{is_out.sum()} rows lie beyond the limit of their cluster and get -1" in model.reason_
    np.testing.assert_array_equal(model.predict(np.r_[X, strangers]), model.labels_)
    kept = AutoClusterer(n_threads=1).fit(np.r_[X, strangers])
    assert (kept.labels_ >= 0).all()
    np.testing.assert_array_equal(kept.predict(strangers, reject=True), model.labels_[700:])


def test_one_outlier_is_one():
    said = auto_clusterer._of_outliers(1, 0.01)
    assert said == "1 row lies beyond the limit of its cluster and gets -1; of rows that belong, 1.0% would."


def test_membership_is_small_where_rows_are_strange(rows, fitted):
    strangers = np.random.default_rng(1).normal(size=(50, 20))
    assert fitted.predict_membership(strangers).max() < 0.01
    assert stats.kstest(fitted.predict_membership(rows[2]), "uniform").statistic < 0.1


# --------------------------------------------------------------------------------------------------- texts and bad rows


def test_counts_are_weighed_and_it_is_said():
    weighed, truth, _ = make_sparse_topics(400, 900, 4, random_state=0)
    counts = sp.csr_array(weighed)
    counts.data = np.ceil(counts.data * 20)
    model = AutoClusterer(n_threads=1).fit(counts)
    assert model.reason_.startswith("Rows are counts (sparse, whole numbers), so words were weighed by TF-IDF;")
    by_hand = AutoClusterer(tfidf="off", n_threads=1).fit(TfidfTransformer().fit_transform(counts))
    np.testing.assert_array_equal(model.labels_, by_hand.labels_)
    np.testing.assert_array_equal(model.predict(counts), model.labels_)
    assert "TF-IDF" not in by_hand.reason_
    forced = AutoClusterer(tfidf="on", n_threads=1).fit(counts.toarray())
    assert forced.reason_.startswith("Words were weighed by TF-IDF;")
    assert adjusted_rand_score(forced.labels_, model.labels_) == 1.0
    assert adjusted_rand_score(truth, model.labels_) > 0.9


@pytest.mark.parametrize(
    ("X", "are"),
    [
        (sp.csr_array([[1, 0, 3]]), True),
        (sp.csr_array([[1.0, 0.0, 3.0]]), True),
        (sp.csr_array([[1.5, 0.0, 3.0]]), False),
        (sp.csr_array([[-1, 0, 3]]), False),
        (sp.csr_array((2, 3)), False),
        (sp.csr_array([[0, 1, 0], [1, 0, 0]]), False),  # one word each, as TF-IDF leaves it too: weights turn nothing
        (np.array([[1, 0, 3]]), False),
    ],
)
def test_what_counts_are(X, are):
    assert term_weights.are_counts(X) is are


def test_a_pipeline_with_an_empty_document():
    words = (("cat", "dog", "bird"), ("tax", "bank", "loan"))
    draws = np.random.default_rng(0)
    texts = [" ".join(draws.choice(words[row % 2], 6)) for row in range(60)]
    texts[7] = "the of and"
    model = AutoClusterer(missing="flag", n_threads=1)
    labels = make_pipeline(TfidfVectorizer(stop_words="english"), model).fit_predict(texts)
    assert labels[7] == -1
    assert model.membership_[7] == 0.0
    assert model.levels_.fine[7] == model.levels_.chosen[7] == model.levels_.coarse[7] == -1
    kept = np.delete(np.arange(60), 7)
    assert adjusted_rand_score(kept % 2, model.levels_.coarse[kept]) > 0.3
    assert model.n_clusters_ == len(np.unique(labels[kept]))
    with pytest.raises(AttributeError, match=r"has no `names_`: they need texts\. Call fit\(X, texts=texts\)\."):
        model.names_  # noqa: B018
    model.fit(TfidfVectorizer(stop_words="english").fit_transform(texts), texts=texts)
    assert set(model.names_) == set(model.cluster_ids_.tolist())


def test_few_rows_are_one_cluster():
    model = AutoClusterer(outliers=0.1, n_threads=1).fit(np.random.default_rng(0).normal(size=(5, 3)))
    assert model.n_clusters_ == 1
    assert not model.is_clear_
    assert model.levels_.n_clusters == {"coarse": 1, "chosen": 1, "fine": 1} or (model.labels_ < 0).any()


# --------------------------------------------------------------------------------------------------- trees, sentences


def test_the_tree_merges_what_costs_least():
    sums = np.array([[10.0, 0.0], [10.0, 1.0], [0.0, 8.0], [-9.0, 0.0]])
    tree = levels.tree_of(sums, np.arange(4, dtype=np.int32))
    assert tree.children[0].tolist() == [0, 1]
    assert tree.cut(3).tolist() == [0, 0, 1, 2]
    assert tree.cut(1).tolist() == [0, 0, 0, 0]
    assert tree.cut(4).tolist() == [0, 1, 2, 3]
    inner = levels.tree_of(sums, np.array([0, 1, 1, 1], dtype=np.int32))
    assert set(inner.cut(2).tolist()) == {0, 1}
    assert inner.cut(2).tolist() == [0, 1, 1, 1]  # pieces of one cluster first, whatever it costs


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"level": "deep"}, r"^`level` of AutoClusterer must be"),
        ({"tfidf": "yes"}, r"^`tfidf` of AutoClusterer must be"),
        ({"outliers": "many"}, r"^`outliers` of AutoClusterer must be"),
        ({"outliers": 0.9}, r"^`outliers` of AutoClusterer must be a number in \[1e-06, 0\.5\]; got 0\.9\. It is the"),
        ({"n_clusters": 0}, r"^`n_clusters` of AutoClusterer must be an int >= 1; got 0\."),
        (
            {"n_clusters": 500},
            r"^`n_clusters` of AutoClusterer must be at most the number of fine clusters, \d+ here; got",
        ),
        ({"n_clusters": 3, "level": "fine"}, r"^AutoClusterer takes `level` or `n_clusters`, since both say where"),
        ({"merge": [3, 7]}, r"^`merge` of AutoClusterer must be groups of cluster numbers, e\.g\. \[\[3, 7\]\]; got"),
        ({"merge": "37"}, r"^`merge` of AutoClusterer must be groups"),
        ({"merge": [[0, 1.5]]}, r"^`merge` of AutoClusterer must be groups"),
        ({"merge": [[0, 99]]}, r"^`merge` of AutoClusterer must name clusters from 0 to \d; got 99\. `levels_`"),
        ({"min_cluster_size": 1}, r"^`min_cluster_size` of AutoClusterer must be an int >= 2; got 1\. None is max"),
        ({"missing": "drop"}, r"^`missing` of AutoClusterer must be"),
    ],
)
def test_wrong_parameters_are_sentences(wrong, sentence):
    X, _, _ = make_vmf_mixture(60, 5, 3, concentration=100.0, random_state=0)
    with pytest.raises(ParameterError, match=sentence):
        AutoClusterer(n_threads=1, **wrong).fit(X)
