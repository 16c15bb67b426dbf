"""`find_max_angle`: it finds what it says; a number that cannot be had is told with its neighbours. Ends of grids."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from armillary.datasets import make_vmf_mixture
from armillary.exceptions import InputError, ParameterError
from armillary.models.means.dp_vmf_means import DPvMFMeans
from armillary.selection.angle_search import AngleSearch, find_max_angle
from armillary.selection.angle_selection import select_max_angle, suggest_max_angle


def scattered(seed=0):
    """Five clusters, and a tenth of the rows anywhere: farthest-first looks at nothing but those."""
    X, _, _ = make_vmf_mixture(1000, 3, 5, concentration=300.0, min_angle=0.8, random_state=seed)
    return np.vstack([X, np.random.default_rng(seed).normal(size=(100, 3))])


def words(n_documents=400, n_words=300, seed=0):
    """Sparse rows that share few words: at the farthest-first angle for 5 there are many clusters."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.05), size=5)
    counts = np.array([rng.multinomial(8, topics[number % 5]) for number in range(n_documents)])
    return sp.csr_array(counts.astype(np.float64))


@pytest.mark.parametrize("n_clusters", [2, 20])
def test_the_number_asked_for_is_found(n_clusters):
    X, _, _ = make_vmf_mixture(600, 16, 5, concentration=80.0, min_angle=1.0, random_state=1)
    guess = DPvMFMeans(suggest_max_angle(X, n_clusters)).fit(X).n_clusters_
    search = find_max_angle(X, n_clusters, random_state=0)
    assert abs(guess - n_clusters) >= 2  # what was called "about as many"
    assert search.n_found == search.model.n_clusters_ == len(np.unique(search.model.labels_)) == n_clusters
    assert search.reason == str(search)
    where = f"{np.degrees(search.max_angle):.6g} degrees ("
    assert search.reason.startswith(f"{n_clusters} clusters asked, {n_clusters} found at {where}")


def test_sparse_rows_that_have_few_words_in_common():
    X = words()
    guess = DPvMFMeans(suggest_max_angle(X, 5)).fit(X).n_clusters_
    search = find_max_angle(X, 5, random_state=0)
    assert abs(search.n_found - 5) < abs(guess - 5)
    assert search.n_found == len(np.unique(search.model.labels_))
    assert f"5 clusters asked, {search.n_found} found at " in search.reason


def test_the_model_is_the_fit_at_that_angle():
    X = scattered(1)
    search = find_max_angle(X, 9, n_init=2, consolidate=True, random_state=3)
    alone = DPvMFMeans(search.max_angle, n_init=2, consolidate=True, random_state=3).fit(X)
    assert np.array_equal(search.model.labels_, alone.labels_)
    assert search.n_found == alone.n_clusters_
    for angle, found in zip(search.max_angles, search.n_clusters, strict=True):
        assert DPvMFMeans(angle, n_init=2, consolidate=True, random_state=3).fit(X).n_clusters_ == found
    assert np.all(np.diff(search.max_angles) > 0)
    assert [line["n_clusters"] for line in search.table] == search.n_clusters.tolist()
    assert [line["is_chosen"] for line in search.table].index(True) == search.best


def test_a_number_that_cannot_be_had_is_told_with_both_sides():
    X = np.repeat(np.eye(6)[:3], 5, axis=0)  # three directions at right angles: 3 clusters below 90 degrees, then 1
    search = find_max_angle(X, 2)
    assert search.n_found == search.model.n_clusters_ == 1
    assert "2 clusters asked, 1 found at " in search.reason
    assert "2 could not be had: the nearest of " in search.reason
    assert " give 3 at " in search.reason
    assert " and 1 at " in search.reason
    more = find_max_angle(X, 7)
    assert more.n_found == 3
    assert more.reason.endswith("; none tried gives more.")


def test_rows_of_one_direction_and_one_cluster():
    X = np.tile([0.6, 0.8], (5, 1))
    assert find_max_angle(X, 1).reason.startswith("1 cluster asked, 1 found at ")
    assert find_max_angle(X, 4).n_found == 1


def test_far_too_many_clusters_are_not_fitted_to_the_end():
    X, _, _ = make_vmf_mixture(4000, 8, 4, concentration=1e6, min_angle=0.8, random_state=0)
    search = find_max_angle(X, 4)
    assert search.n_found == 4
    search = find_max_angle(X, 6)
    assert search.n_clusters.max() < 200


def test_threads_and_callbacks():
    X = scattered(2)
    seen = []
    one, two = find_max_angle(X, 7, n_threads=1, callbacks=seen.append), find_max_angle(X, 7, n_threads=2)
    assert np.array_equal(one.max_angles, two.max_angles)
    assert np.array_equal(one.model.labels_, two.model.labels_)
    assert [event.n_clusters for event in seen if event.kind == "step"][-1] == seen[-1].n_clusters == one.n_found


def test_the_nearest_is_the_best_and_of_equals_the_largest_angle():
    search = AngleSearch(5, np.array([0.1, 0.2, 0.3, 0.4]), np.array([9, 6, 4, 4]), None)
    assert (search.best, search.n_found, search.max_angle) == (3, 4, 0.4)
    assert "the nearest of 4 angles tried give 6 at 11.4592 degrees and 4 at 22.9183 degrees." in search.reason


def test_sentences():
    X = np.eye(3)
    with pytest.raises(
        InputError, match=r"`n_clusters` of find_max_angle must not exceed the number of rows; got n_clus"
    ):
        find_max_angle(X, 4)
    with pytest.raises(ParameterError, match="`n_clusters` of find_max_angle must be"):
        find_max_angle(X, 0)


# ------------------------------------------------------------------------------------------------- ends of a grid


def noise(n_rows=300, n_features=20):
    return np.random.default_rng(0).normal(size=(n_rows, n_features))


def test_a_grid_whose_best_is_the_first_says_so():
    table = select_max_angle(noise(), np.radians([80.0, 100.0, 130.0]))
    assert table.best == 0
    assert table.end == "The best angle, 80 degrees, is the smallest of 3: smaller ones were not tried."
    assert str(table).endswith(table.end)


def test_a_grid_that_is_extended_goes_on_until_the_best_is_inside():
    X = noise()
    short = select_max_angle(X, np.radians([95.0, 100.0]), random_state=0)
    assert short.end
    table = select_max_angle(X, np.radians([95.0, 100.0]), extend=True, random_state=0)
    assert table.end == ""
    assert table.best >= 2
    assert table.silhouettes[table.best] > short.silhouettes.max()
    assert np.all(np.diff(table.max_angles) > 0)
    assert table.model.n_clusters_ == table.n_clusters[table.best]
    assert table.model.max_angle == table.max_angle


def test_a_grid_is_extended_towards_few_clusters():
    X, _, _ = make_vmf_mixture(200, 3, 2, concentration=50.0, min_angle=2.0, random_state=0)
    table = select_max_angle(X, np.radians([10.0, 14.0]), extend=True)
    assert table.n_clusters[table.best] == 2
    assert table.end == ""


def test_a_grid_that_ends_at_its_limit_says_which():
    X, _, _ = make_vmf_mixture(60, 30, 30, concentration=4000.0, random_state=0)
    table = select_max_angle(X, np.radians([70.0, 80.0]), extend=True, max_clusters=8)
    assert table.best == 0
    assert f"is the smallest of {len(table.max_angles)}: it has 8 clusters, and no more are looked for" in table.end
