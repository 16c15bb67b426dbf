"""k-means|| and batches: the same picks and bits for every cut, and what batches promise."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from tests.laws.engines import ENGINES, one_piece
from tests.laws.toy_engine import Listed, register_toy
from tests.making import each, units

from armillary import SphericalKMeans, load, open_rows, save
from armillary.datasets import make_vmf_mixture
from armillary.exceptions import ParameterError
from armillary.fitting import initialization
from armillary.fitting.batches import BatchedAssignment
from armillary.rules import AffineRule

register_toy()


def mixture(n_rows=2000, n_features=16, n_clusters=40, dtype=np.float32, seed=0):
    rows, _, _ = make_vmf_mixture(n_rows, n_features, n_clusters, concentration=60.0, random_state=seed)
    return rows.astype(dtype)


def chosen_of(rows, directions):
    """The numbers of the rows that directions are."""
    cosines = rows.astype(np.float64) @ directions.T
    assert (cosines.max(axis=0) > 1 - 1e-6).all()
    return cosines.argmax(axis=0)


@pytest.mark.parametrize("name", list(ENGINES))
@pytest.mark.parametrize("is_sparse", [False, True])
def test_no_cut_changes_a_pick(name, is_sparse):
    rows = mixture(700, 24)
    given = sp.csr_array(rows) if is_sparse else rows
    with one_piece("cpu", given) as passes:
        wanted = initialization.in_rounds(passes, 30, np.random.default_rng(5))
    for seed in range(3):
        with ENGINES[name](given, seed=seed) as passes:
            found = initialization.in_rounds(passes, 30, np.random.default_rng(5))
        np.testing.assert_array_equal(found, wanted)
    assert len(set(chosen_of(rows, wanted))) == 30


def test_files_and_parts_start_and_end_alike(tmp_path):
    rows = mixture(900, 20)
    weights = np.random.default_rng(0).uniform(0.1, 3.0, 900)
    np.save(tmp_path / "0.npy", rows[:400])
    np.save(tmp_path / "1.npy", rows[400:])
    forms = [rows, Listed(np.split(rows, [10, 400, 800])), open_rows([tmp_path / "0.npy", tmp_path / "1.npy"])]
    for batch_size, own in ((None, weights), (None, None), (250, None), (250, weights)):
        models = []
        for form in forms:
            model = SphericalKMeans(
                25, init="k-means||", batch_size=batch_size, random_state=3, max_iter=8, n_threads=2
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                models.append(model.fit(form, sample_weight=own))
        for model in models[1:]:
            np.testing.assert_array_equal(model.labels_, models[0].labels_)
            assert model.resultants_.tobytes() == models[0].resultants_.tobytes()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@each("n_clusters", [40, 300])
def test_starts_are_as_good_as_one_at_a_time(n_clusters):
    rows = mixture(4000, 16, 40)
    objectives = {}
    for init in ("k-means||", "k-means++", "random"):
        runs = [
            SphericalKMeans(n_clusters, init=init, n_init=1, random_state=seed, max_iter=1, tol=1.0)
            .fit(rows)
            .objective_
            for seed in range(3)
        ]
        objectives[init] = np.mean(runs)
    assert 4000 - objectives["k-means||"] < 1.15 * (4000 - objectives["k-means++"])
    assert objectives["k-means||"] > objectives["random"]


def test_few_distinct_rows_are_all_taken():
    rows = np.repeat(units(np.random.default_rng(0), 5, 3), 20, axis=0)
    with one_piece("cpu", rows) as passes:
        found = initialization.in_rounds(passes, 8, np.random.default_rng(0))
    assert found.shape == (8, 3)
    assert len(np.unique(found.round(9), axis=0)) == 5


@each("is_greedy", [False, True])
def test_candidates_are_thinned_by_the_rows_they_stand_for(is_greedy, monkeypatch):
    monkeypatch.setattr(initialization, "_GREEDY", 1024 if is_greedy else 0)
    # one far row among many: as a candidate it is certain, its weight is 1
    rows = np.vstack([mixture(2000, 8, 1, np.float64), -units(np.random.default_rng(1), 1, 8)])
    with one_piece("cpu", rows) as passes:
        found = initialization.in_rounds(passes, 3, np.random.default_rng(0))
    assert np.unique(found, axis=0).shape == (3, 8)


@each("batch_size", [1000, 5000])
def test_one_batch_is_lloyd(batch_size):
    rows = mixture(1000)
    lloyd = SphericalKMeans(20, random_state=0, algorithm="lloyd").fit(rows)
    batched = SphericalKMeans(20, random_state=0, batch_size=batch_size).fit(rows)
    np.testing.assert_array_equal(batched.labels_, lloyd.labels_)
    assert batched.resultants_.tobytes() == lloyd.resultants_.tobytes()
    assert (batched.n_iter_, batched.objective_) == (lloyd.n_iter_, lloyd.objective_)


@each("batch_size", [7, 100, 333])
def test_the_objective_does_not_fall_and_ends_at_a_fixed_point_of_lloyd(batch_size):
    rows = mixture(1000, dtype=np.float64)
    seen = []
    model = SphericalKMeans(
        30, init="random", n_init=1, random_state=1, batch_size=batch_size, tol=0.0, callbacks=seen.append
    ).fit(rows)
    objectives = [event.objective for event in seen if event.kind == "step"]
    assert np.diff(objectives[1:]).min(initial=0.0) >= -1e-9
    assert objectives[-1] == pytest.approx(model.objective_, rel=1e-12)
    # labels of these directions stay as they are: nothing moves in the second step
    again = SphericalKMeans(30, init=model.cluster_centers_, max_iter=2, algorithm="lloyd").fit(rows)
    np.testing.assert_array_equal(again.labels_, model.labels_)


def test_sums_are_those_of_the_labels_at_any_time():
    rows = mixture(500, dtype=np.float64)
    rng = np.random.default_rng(0)
    with one_piece("cpu", rows) as passes:
        batches = BatchedAssignment(passes, 120, 12)
        assert len(batches) == 5
        labels = np.full(500, -1)
        for step in range(14):
            rule = AffineRule.cosines(units(rng, 12, 16))
            number = step % 5
            batches.sweep(number, rule)
            part = slice(120 * number, 120 * number + 120)
            labels[part] = (rows[part] @ rule.directions.T).argmax(axis=1)
            whole = passes.sum(passes.labels_from(labels), 12)
            assert batches.statistics.resultants.tobytes() == whole.resultants.tobytes()
            np.testing.assert_array_equal(batches.statistics.counts, whole.counts)


def test_empty_clusters_get_rows_of_a_batch():
    rows = mixture(600, dtype=np.float64) + 2.0 * np.eye(16)[0]
    start = np.vstack([rows[:3], np.tile(-np.eye(16)[0], (5, 1))])  # opposite to all rows
    model = SphericalKMeans(8, init=start, batch_size=100).fit(rows)
    assert (np.bincount(model.labels_, minlength=8) > 0).all()
    kept = SphericalKMeans(8, init=start, batch_size=100, empty_clusters="keep")
    with pytest.warns(Warning, match="filled only 3 of n_clusters=8"):
        kept.fit(rows)


def test_batches_are_saved_and_balanced_too(tmp_path):
    rows = mixture(600)
    model = SphericalKMeans(10, batch_size=200, init="k-means||", balance=1.1, random_state=0).fit(rows)
    assert np.bincount(model.labels_).max() <= 66
    save(model, tmp_path / "m.safetensors")
    assert load(tmp_path / "m.safetensors").get_params()["batch_size"] == 200


@each("value", [0, -1, 1.5, "all", True])
def test_a_wrong_batch_size_is_a_sentence(value):
    with pytest.raises(ParameterError, match=r"^`batch_size` of SphericalKMeans must be an int >= 1"):
        SphericalKMeans(3, batch_size=value).fit(mixture(50))
