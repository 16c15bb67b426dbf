"""The choice that needs no parameter: what it finds, what it says, and what it must not depend on."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

import armillary
from armillary import choose_model
from armillary.datasets import make_sparse_topics, make_vmf_mixture
from armillary.exceptions import InputError, ParameterError
from armillary.fitting.nulls import dealt_out, turned
from armillary.selection import automatic, candidates


def clusters(n_rows=600, n_features=20, n_clusters=6, seed=0, concentration=60.0, **others):
    return make_vmf_mixture(n_rows, n_features, n_clusters, concentration=concentration, random_state=seed, **others)[
        :2
    ]


def uniform(n_rows, n_features, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n_rows, n_features))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def chosen():
    X, truth = clusters()
    return X, truth, choose_model(X)


# ------------------------------------------------------------------------------------------------------- what it finds


@pytest.mark.parametrize(
    ("n_rows", "n_features", "n_clusters", "concentration"),
    [(300, 3, 5, 300.0), (400, 10, 4, 60.0), (800, 64, 12, 60.0), (900, 128, 30, 150.0)],
)
def test_the_number_of_clusters_is_found(n_rows, n_features, n_clusters, concentration):
    spread = {"min_angle": 0.9} if n_features == 3 else {}
    X, truth = clusters(n_rows, n_features, n_clusters, 3, concentration, **spread)
    model = choose_model(X).model
    assert model.n_clusters_ == n_clusters
    assert adjusted_rand_score(truth, model.labels_) > 0.97


def test_clusters_of_very_different_sizes_are_found():
    X, truth = clusters(900, 40, 8, 1, 80.0, weights=[0.5, 0.2, 0.1, 0.05, 0.05, 0.04, 0.03, 0.03])
    model = choose_model(X).model
    assert model.n_clusters_ == 8
    assert adjusted_rand_score(truth, model.labels_) > 0.97


def test_sparse_documents():
    X, truth, _ = make_sparse_topics(600, 2_000, 5, random_state=0)
    choice = choose_model(X)
    assert sp.issparse(X)
    assert choice.model.n_clusters_ == 5
    assert adjusted_rand_score(truth, choice.model.labels_) > 0.95


@pytest.mark.parametrize("n_features", [2, 3, 10, 100])
@pytest.mark.parametrize("n_rows", [60, 400])
def test_no_clusters_are_invented(n_rows, n_features):
    choice = choose_model(uniform(n_rows, n_features), n_threads=1)
    assert not choice.is_clear
    assert 0.0 <= choice.clarity < 0.2
    assert "They are not clear: rows like these without clusters have clusters nearly as clear" in choice.reason
    assert choice.model.n_clusters_ == choice.selection.best.n_clusters  # the best cut is given all the same


def test_one_cluster_is_not_clear():
    X, _ = clusters(500, 30, 1)
    assert not choose_model(X, n_threads=1).is_clear


def test_columns_dealt_out_anew_are_not_clear():
    X, _, _ = make_sparse_topics(600, 2_000, 5, random_state=0)
    assert choose_model(X, n_threads=1).is_clear
    anew = dealt_out(sp.csr_array(X), np.random.default_rng(0))
    assert not choose_model(anew[np.diff(anew.indptr) > 0], n_threads=1).is_clear


@pytest.mark.parametrize(("kind", "n_rows"), [("heavy", 1_000), ("flat", 150)])
def test_one_cluster_of_another_shape_is_not_clear(kind, n_rows):
    draws = np.random.default_rng(0)
    if kind == "heavy":  # a few rows far out have neighbours that normal rows have not
        X = 2.0 * np.eye(20)[0] + draws.standard_t(3, size=(n_rows, 20)) / np.sqrt(20)
    else:
        X = draws.normal(size=(n_rows, 20)) * np.geomspace(1.0, 0.05, 20)
    assert not choose_model(X, n_threads=1).is_clear


@pytest.mark.parametrize(("n_features", "n_times"), [(3, 7), (16, 20)])
def test_a_small_cluster_beside_a_large_one(n_features, n_times):
    # modularity of 0.22 and 0.09 at most: by it alone pieces of the large one were taken, more than twenty and five
    X, truth = clusters(500, n_features, 2, 0, 60.0, weights=[n_times, 1], min_angle=1.2)
    choice = choose_model(X, n_threads=1)
    assert choice.model.n_clusters_ == 2
    assert choice.is_clear
    assert adjusted_rand_score(truth, choice.model.labels_) > 0.9


@pytest.mark.parametrize("seed", [0, 1])
def test_unequal_clusters_in_few_columns_are_clear_at_every_seed(seed):
    draws = np.random.default_rng(seed)
    directions = uniform(5, 16, seed)
    labels = draws.choice(5, 800, p=np.geomspace(1.0, 8.0, 5) / np.geomspace(1.0, 8.0, 5).sum())
    X = directions[labels] + draws.normal(size=(800, 16)) / 4.0
    clarities = [choose_model(X, random_state=one, n_threads=1).clarity for one in range(2)]
    assert min(clarities) > 0.3


@pytest.mark.parametrize("n_words", [2, 3])
def test_rows_of_one_word_each_are_clear(n_words):
    rows = np.arange(60)
    X = sp.csr_array((np.ones(60), (rows, rows % n_words)), shape=(60, n_words))
    choice = choose_model(X, n_threads=1)
    assert choice.is_clear
    assert adjusted_rand_score(rows % n_words, choice.model.labels_) == 1.0
    assert "2 to 2 clusters" not in choice.reason


def test_how_clear_is_read_against_chance():
    assert candidates.clarity_of(1.0, 0.0) == 1.0
    assert candidates.clarity_of(0.4, 0.4) == candidates.clarity_of(0.3, 0.6) == candidates.clarity_of(0.0, 0.0) == 0.0
    assert candidates.clarity_of(0.06, 0.02) < candidates.LEAST_CLARITY < candidates.clarity_of(0.5, 0.3)
    assert candidates.clarity_of(1.0, 1.0) > candidates.LEAST_CLARITY  # equal rows


@pytest.mark.parametrize(("level", "n_draws"), [(0.1, 5), (0.565, 20), (0.85, 5)])
def test_more_rows_without_clusters_are_drawn_near_the_border(level, n_draws, monkeypatch):
    X, _ = clusters(300, 16, 4, 0, 20.0)
    draws = [float(one) for one in level + 0.06 * np.random.default_rng(0).normal(size=20)]
    left = list(draws)
    monkeypatch.setattr(candidates, "_null_draw", lambda *_: left.pop(0))
    found = choose_model(X, n_threads=1)
    best = found.selection.best
    assert best.clearness == pytest.approx(0.7, abs=0.05)
    assert len(draws) - len(left) == n_draws
    null = candidates.Null.of(draws[:n_draws])
    assert found.clarity == candidates.clarity_of(best.clearness - best.clearness_error, null.level)
    assert found.selection.is_close == ("within chance of the border: another seed may say" in found.reason)
    assert found.selection.is_close == (n_draws == 20)


def test_what_draws_without_clusters_say():
    # five of them are off by a deviation x sqrt(1 / 5 + 1 / 8), and what is clear by less than two of these is close
    null = candidates.Null.of([0.2, 0.3, 0.25, 0.35, 0.15])
    assert null.level == pytest.approx(0.25 + 0.0790569)
    assert null.error == pytest.approx(0.0790569 * 0.325**0.5)
    assert candidates.Null.of([0.3]) == candidates.Null(0.3, 0.0)
    assert null.may_decide(0.45)
    assert not null.may_decide(0.8)
    assert not null.may_decide(0.2)
    assert not candidates.Null(0.33, 0.0).may_decide(0.45)
    assert candidates.Null(0.33, 0.0).may_decide(0.45, error=0.05)


@pytest.mark.parametrize("n_features", [3, 20])
def test_two_clusters_are_clear(n_features):
    X, truth = clusters(400, n_features, 2, 1, 100.0, min_angle=1.0)
    choice = choose_model(X, n_threads=1)
    assert choice.is_clear
    assert adjusted_rand_score(truth, choice.model.labels_) > 0.97


def test_the_coarsest_within_one_standard_error_is_taken():
    def candidate(n_clusters, score, error):
        return candidates.Candidate(1.0, np.eye(n_clusters), np.zeros(4, np.int32), score, 1.0, (1.0,), score, error)

    flat = [candidate(2, 0.30, 0.1), candidate(10, 0.4561, 0.01), candidate(20, 0.4565, 0.002)]
    assert candidates.taken(flat)[0] is flat[1]
    assert candidates.taken(flat)[1] == (10, 20)
    assert candidates.taken([*flat[:1], candidate(20, 0.4565, 0.0001)])[0].n_clusters == 20
    assert candidates.taken([]) == (None, (1, 1))


def test_the_sweep_ends_where_it_is_hopeless():
    def scored(score):
        return candidates.Candidate(1.0, np.eye(2), np.zeros(4, np.int32), score, 1.0, (1.0,), score, 0.0)

    found, steps = {}, []
    for exponent in candidates._until_hopeless(found):
        steps.append(exponent)
        found[exponent] = scored(0.9 if exponent == -8 else 0.1)
    assert steps == [-10.0, -9.0, -8.0, -7.0, -6.0, -5.0, -4.0]


def test_few_distinct_rows():
    X = np.repeat(np.eye(3), 40, axis=0)
    model = choose_model(X).model
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(np.repeat([0, 1, 2], 40), model.labels_) == 1.0


def test_clusters_on_a_circle():
    X, truth = clusters(900, 2, 3, 1, 60.0, min_angle=1.2)
    model = choose_model(X).model
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(truth, model.labels_) > 0.97


def test_rows_of_one_direction_are_one_cluster():
    assert choose_model(np.ones((50, 4))).model.n_clusters_ == 1


@pytest.mark.parametrize("n_rows", [1, 2, 19])
def test_too_few_rows_are_one_cluster(n_rows):
    choice = choose_model(uniform(n_rows, 5))
    assert choice.model.n_clusters_ == 1
    assert choice.reason == (
        f"One cluster: {n_rows} {'row is' if n_rows == 1 else 'rows are'} too few to tell clusters from chance, "
        "which takes 20. "
        "Give SphericalKMeans a number of clusters, or DPvMFMeans an angle."
    )


# -------------------------------------------------------------------------------------------------------- what it says


def test_the_reason_has_the_numbers_of_the_table(chosen):
    _, _, choice = chosen
    (line,) = [line for line in choice.table if line["is_chosen"]]
    assert line["n_clusters"] == choice.model.n_clusters_ == 6
    assert choice.criterion == "modularity x agreement"
    assert choice.reason.startswith("Spherical k-means with 6 clusters. They are clear: ")
    assert choice.k_range == (6, 6)
    assert f"highest modularity x agreement for its sizes, {line['score']:.2f}:" in choice.reason
    assert f"(modularity {line['modularity']:.2f} of at most {line['ceiling']:.2f})" in choice.reason
    assert f"(agreement {line['agreement']:.2f})." in choice.reason
    assert f"They are clear: {choice.clarity:.2f} on a scale from 0, rows like these without clusters" in choice.reason


def test_the_table_is_sorted_and_its_best_is_chosen(chosen):
    _, _, choice = chosen
    numbers = [line["n_clusters"] for line in choice.table]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 1
    best = max(choice.table, key=lambda line: line["score"])
    assert best["is_chosen"]
    assert choice.table[0] == {
        "model": "SphericalKMeans",
        "n_clusters": 1,
        "resolution": 0.0,
        "modularity": 0.0,
        "ceiling": 0.0,
        "agreement": 1.0,
        "score": 0.0,
        "is_chosen": False,
    }
    product = best["modularity"] / np.sqrt(best["ceiling"]) * best["agreement"]
    assert best["score"] == pytest.approx(product, abs=0.05)  # read with those beside


def test_print_marks_what_was_taken(chosen):
    _, _, choice = chosen
    lines = str(choice).splitlines()
    assert lines[0].split() == ["clusters", "modularity", "at", "most", "agreement", "score"]
    assert [line.split()[1] for line in lines if line.startswith(">")] == ["6"]
    assert len(lines) == 1 + len(choice.table)


def test_the_table_can_be_drawn(chosen):
    plots = pytest.importorskip("armillary.plots")
    _, _, choice = chosen
    ax = plots.plot_sweep(choice.table, criterion=choice.criterion)
    assert ax.get_title(loc="left").startswith("6 clusters: modularity x agreement")


def test_many_rows_are_compared_by_a_sample(monkeypatch):
    X, truth = clusters(900)
    monkeypatch.setattr(automatic, "MOST_ROWS", 300)
    choice = choose_model(X)
    assert "clusterings of 300 of the 900 rows, with" in choice.reason
    assert "All 900 rows were then fitted from the directions found. Rows that fit badly were looked" in choice.reason
    assert "cannot be seen." in choice.reason
    assert len(choice.model.labels_) == 900
    assert adjusted_rand_score(truth, choice.model.labels_) > 0.97


def test_small_clusters_among_many_rows_are_found(monkeypatch):
    large, first = clusters(2_400, 32, 4, 0, 80.0)
    small, second = clusters(240, 32, 8, 1, 80.0, weights=[1 / 8] * 8)
    X, truth = np.r_[large, small], np.r_[first, second + 4]
    monkeypatch.setattr(automatic, "MOST_ROWS", 300)  # of 12 clusters 8 have 3 of these rows
    choice = choose_model(X, n_threads=1)
    assert choice.selection.best.n_clusters < 12
    assert choice.model.n_clusters_ == 12
    assert "8 more clusters" in choice.reason or "more cluster" in choice.reason
    assert adjusted_rand_score(truth, choice.model.labels_) > 0.97
    assert choose_model(X, min_cluster_size=200, n_threads=1).model.n_clusters_ < 12


def test_rows_turned_at_random_keep_mean_and_covariance():
    X, _ = clusters(2_000, 5, 3, 1, 30.0)
    drawn = turned(X, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean(axis=0), X.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(X.T), atol=0.05)


def test_columns_dealt_out_keep_their_values():
    X = sp.random_array((50, 20), density=0.2, random_state=np.random.default_rng(0), format="csr")
    anew = dealt_out(X, np.random.default_rng(1))
    assert anew.shape == X.shape
    assert (anew != X).nnz
    for column in range(20):
        np.testing.assert_array_equal(np.sort(anew[:, [column]].toarray(), 0), np.sort(X[:, [column]].toarray(), 0))


def test_progress_is_shown_when_asked_for(capfd):
    pytest.importorskip("rich")
    X, _ = clusters(100)
    choose_model(X, verbose=1)
    assert "choose_model" in "".join(capfd.readouterr())


# --------------------------------------------------------------------------------------- what it does not depend on


def test_a_seed_repeats_to_the_bit_whatever_the_threads(chosen):
    X, _, choice = chosen
    for n_threads in (1, 3):
        again = choose_model(X, n_threads=n_threads)
        assert again.table == choice.table
        np.testing.assert_array_equal(again.model.cluster_centers_, choice.model.cluster_centers_)
        np.testing.assert_array_equal(again.model.labels_, choice.model.labels_)


def test_the_caller_s_rows_and_generator(chosen):
    X, truth, _ = chosen
    before = X.copy()
    generator = np.random.default_rng(5)
    other = choose_model(X * 3.0, random_state=generator)
    np.testing.assert_array_equal(X, before)
    assert adjusted_rand_score(truth, other.model.labels_) > 0.97


def test_dense_and_sparse_rows_alike():
    X, _, _ = make_sparse_topics(300, 400, 4, random_state=2)
    dense, sparse = choose_model(X.toarray()), choose_model(X)
    assert adjusted_rand_score(dense.model.labels_, sparse.model.labels_) == 1.0


def test_rows_without_weight_take_no_part(chosen):
    X, _, choice = chosen
    weights = np.r_[np.ones(len(X)), np.zeros(50)]
    weighted = choose_model(np.r_[X, uniform(50, X.shape[1])], sample_weight=weights)
    assert weighted.table == choice.table
    assert len(weighted.model.labels_) == len(X) + 50
    assert weighted.model.counts_.sum() == len(X)


# ---------------------------------------------------------------------------------------------------- a model like any


def test_the_model_predicts_and_is_saved(chosen, tmp_path):
    X, _, choice = chosen
    np.testing.assert_array_equal(choice.model.predict(X), choice.model.labels_)
    armillary.save(choice.model, tmp_path / "model.safetensors")
    loaded = armillary.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict(X), choice.model.labels_)


def test_wrong_calls_are_sentences():
    X, _ = clusters(30)
    with pytest.raises(
        ParameterError,
        match=r"^`n_threads` of choose_model must be an int >= 1; got 0\. None takes every core\.$",
    ):
        choose_model(X, n_threads=0)
    with pytest.raises(ParameterError, match=r"`verbose` of choose_model"):
        choose_model(X, verbose=-1)
    with pytest.raises(InputError, match=r'Row 3 of X has norm 0.* missing="flag" gives them the label -1\.$'):
        choose_model(np.where(np.arange(30)[:, None] == 3, 0.0, X))
    with pytest.raises(ParameterError, match=r"`random_state` must be"):
        choose_model(X, random_state="seed")
