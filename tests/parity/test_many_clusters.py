"""Very many directions: a search in two levels has the labels of a pass over all of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.laws.engines import one_piece
from tests.making import each, units

from armillary import SphericalKMeans
from armillary.engines import cpu, cpu_search
from armillary.rules import AffineRule


def clustered(rng, n_rows, n_features, n_centers, spread):
    centers = units(rng, n_centers, n_features)
    rows = centers[rng.integers(0, n_centers, n_rows)] + spread * units(rng, n_rows, n_features)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def many(monkeypatch):
    """Few clusters are many, and a search is never given up unless a test says so."""
    monkeypatch.setattr(cpu_search, "MANY_CLUSTERS", 50)
    monkeypatch.setattr(cpu_search, "_MOST_ASKED", 1.0)
    asked = []
    assign = cpu_search.Groups.assign

    def counted(self, rows, labels):
        asked.append(assign(self, rows, labels))
        return asked[-1]

    monkeypatch.setattr(cpu_search.Groups, "assign", counted)
    return asked


@each("dtype", [np.float32, np.float64])
@each("spread", [0.1, 0.6, 3.0])
@each("n_features", [20, 64])
def test_labels_are_those_of_all_directions(n_features, spread, dtype, many):
    rng = np.random.default_rng(0)
    rows = clustered(rng, 1500, n_features, 40, spread).astype(dtype)
    directions = clustered(rng, 600, n_features, 40, spread)
    directions[300:320] = directions[:20]  # ties go to the smaller number
    directions[-1] = rows[7]
    rule = AffineRule.cosines(directions)
    with pytest.MonkeyPatch.context() as patch, one_piece("reference", rows) as passes:
        patch.setattr(cpu_search, "MANY_CLUSTERS", 1000)
        wanted = passes.labels()
        passes.label(rule, wanted)
    many.clear()
    with pytest.MonkeyPatch.context() as patch, one_piece("cpu", rows, n_threads=2) as passes:
        patch.setattr(cpu, "TOGETHER", 400)
        labels = passes.labels()
        outcome = passes.label(rule, labels)
        np.testing.assert_array_equal(labels.to_host(), wanted.to_host())
        assert outcome.n_moved == 1500
        again = passes.label(rule, labels)
        assert again.n_moved == 0
        assert again.sums.resultants.tobytes() == outcome.sums.resultants.tobytes()
    assert many
    if spread == 0.1:
        assert np.mean(many) < 0.3  # most groups are passed over


def test_directions_of_no_use_do_not_harm(many):
    rng = np.random.default_rng(1)
    rows = units(rng, 300, 20)
    for directions in (
        np.repeat(units(rng, 1, 20), 60, axis=0),
        np.vstack([rows[:1], -np.repeat(rows[:1], 70, axis=0)]),
    ):
        with one_piece("cpu", rows) as passes:
            labels = passes.labels()
            passes.label(AffineRule.cosines(directions), labels)
            np.testing.assert_array_equal(labels.to_host(), (rows @ directions.T).argmax(axis=1))


def test_a_search_that_does_not_pay_is_given_up(many, monkeypatch):
    monkeypatch.setattr(cpu_search, "_MOST_ASKED", 0.01)
    monkeypatch.setattr(cpu, "TOGETHER", 100)
    rng = np.random.default_rng(2)
    rows, directions = units(rng, 1000, 20), units(rng, 80, 20)
    with one_piece("cpu", rows) as passes:
        labels = passes.labels()
        assert passes.label(AffineRule.cosines(directions), labels).n_moved == 1000
    assert len(many) == 1
    np.testing.assert_array_equal(labels.to_host(), (rows @ directions.T).argmax(axis=1))


def test_rules_that_are_no_cosines_are_not_searched(many):
    directions = units(np.random.default_rng(0), 60, 20)
    assert cpu_search.is_searched(AffineRule.cosines(directions))
    assert not cpu_search.is_searched(AffineRule.cosines(directions, floor=0.5))
    assert not cpu_search.is_searched(AffineRule(directions, np.full(60, 0.1)))
    assert not cpu_search.is_searched(AffineRule(directions, np.zeros(60), slopes=np.ones(60)))
    rows = units(np.random.default_rng(1), 100, 20)
    with one_piece("cpu", sp.csr_array(rows)) as passes:
        labels = passes.labels()
        passes.label(AffineRule.cosines(directions), labels)
    assert not many


def test_fits_and_sums_are_the_same(many, monkeypatch):
    rows = clustered(np.random.default_rng(3), 1200, 20, 60, 0.3).astype(np.float32)
    settings = {"init": "random", "n_init": 1, "random_state": 0, "algorithm": "lloyd", "n_threads": 2}
    searched = SphericalKMeans(100, **settings).fit(rows)
    assert many
    monkeypatch.setattr(cpu_search, "MANY_CLUSTERS", 1000)
    plain = SphericalKMeans(100, **settings).fit(rows)
    monkeypatch.setattr(cpu, "_LARGE_SUMS", 100)
    monkeypatch.setattr(cpu, "_MOST_DEALT", 10)
    dealt = SphericalKMeans(100, **settings).fit(rows)
    for other in (searched, dealt):
        np.testing.assert_array_equal(other.labels_, plain.labels_)
        assert other.resultants_.tobytes() == plain.resultants_.tobytes()


@pytest.mark.slow
def test_a_million_clusters_beside_brute_force():
    rng = np.random.default_rng(0)
    centers = units(rng, 20_000, 32)

    def draw(n_rows):
        rows = centers[rng.integers(0, 20_000, n_rows)] + 0.25 * units(rng, n_rows, 32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    rows, directions = draw(1_200_000).astype(np.float32), draw(1_000_000)
    with one_piece("cpu", rows, n_threads=None) as passes:
        labels = passes.labels()
        passes.label(AffineRule.cosines(directions), labels, sums=False)
    some = rng.choice(1_200_000, 400, replace=False)
    exact = (rows[some].astype(np.float64) @ directions.T).argmax(axis=1)
    np.testing.assert_array_equal(labels.to_host()[some], exact)
