"""HierarchicalSphericalKMeans: levels that nest, the same on every engine, and what files must hold."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.laws.engines import ENGINES, one_piece
from tests.laws.toy_engine import Listed, register_toy
from tests.making import each

from armillary import HierarchicalSphericalKMeans, SphericalKMeans, load, open_rows, save
from armillary.datasets import make_vmf_mixture
from armillary.exceptions import ArchiveError, InputError, ParameterError
from armillary.fitting.representatives import nearest_of_each
from armillary.rules import AffineRule

register_toy()


def mixture(n_rows=1500, n_features=20, n_clusters=30, dtype=np.float32, weights=None):
    rows, _, _ = make_vmf_mixture(n_rows, n_features, n_clusters, concentration=80.0, weights=weights, random_state=0)
    return rows.astype(dtype)


ROWS = mixture()


def made(**parameters):
    return HierarchicalSphericalKMeans(**{"n_clusters": (3, 9, 30), "random_state": 0, "max_iter": 10, **parameters})


@pytest.fixture(scope="module")
def model():
    return made().fit(ROWS)


def test_levels_nest(model):
    np.testing.assert_array_equal(model.level_sizes_, [3, 9, 30])
    assert model.cluster_centers_.shape == (30, 20)
    assert model.inner_centers_.shape == (12, 20)
    fine = model.predict(ROWS)
    np.testing.assert_array_equal(fine, model.labels_)
    for level, size in enumerate((3, 9, 30)):
        own = model.predict(ROWS, level=level)
        assert own.dtype == np.int32
        np.testing.assert_array_equal(own, model.ancestors(level)[fine])
        np.testing.assert_array_equal(own, model.predict(ROWS, level=level - 3))
        # ids of a level are in the order of their parents
        assert (np.diff(model.ancestors(level)) >= 0).all()
        assert model.centers(level).shape == (size, 20)
        np.testing.assert_allclose(np.linalg.norm(model.centers(level), axis=1), 1.0, atol=1e-12)
    # a cluster's parent is the direction of the level above that is nearest to it
    cosines = model.centers(1) @ model.centers(0).T
    np.testing.assert_array_equal(cosines.argmax(axis=1), model.parents_[3:12])
    np.testing.assert_array_equal(np.bincount(fine, minlength=30), model.counts_)
    own = np.einsum("ij,ij->i", ROWS.astype(float), model.cluster_centers_[fine])
    assert model.objective_ == pytest.approx(own.sum(), rel=1e-6)
    assert model.score(ROWS) == pytest.approx(-model.inertia_, rel=1e-6)


def test_one_level_without_resamples_is_spherical_kmeans():
    flat = made(n_clusters=8, n_resamples=0, max_iter=300, tol=1e-6).fit(ROWS)
    plain = SphericalKMeans(8, init="k-means||", random_state=0).fit(ROWS)
    np.testing.assert_array_equal(flat.labels_, plain.labels_)
    assert flat.cluster_centers_.tobytes() == plain.cluster_centers_.tobytes()


def test_threads_parts_files_and_formats_give_equal_bytes(tmp_path):
    np.save(tmp_path / "0.npy", ROWS[:700])
    np.save(tmp_path / "1.npy", ROWS[700:])
    forms = [ROWS, ROWS, Listed(np.split(ROWS, [10, 400, 1300])), open_rows([tmp_path / "0.npy", tmp_path / "1.npy"])]
    files = []
    for number, form in enumerate(forms):
        own = made(n_threads=1 + number % 2, n_fit_rows=900).fit(form)
        save(own.set_params(n_threads=1), tmp_path / f"{number}.safetensors")
        files.append((tmp_path / f"{number}.safetensors").read_bytes())
    assert len(set(files)) == 1
    sparse = made(n_fit_rows=900).fit(sp.csr_array(ROWS))
    np.testing.assert_array_equal(sparse.labels_, own.labels_)


def test_steps_on_some_rows_label_all():
    some = made(n_fit_rows=750).fit(ROWS)
    assert len(some.labels_) == 1500
    all_rows = made().fit(ROWS)
    assert some.objective_ > 0.95 * all_rows.objective_


def test_resamples_spread_directions_over_rare_rows():
    weights = np.r_[0.9, np.full(29, 0.1 / 29)]
    rows = mixture(6000, 24, 30, weights=weights)
    truth = make_vmf_mixture(6000, 24, 30, concentration=80.0, weights=weights, random_state=0)[1]
    in_large = []
    for n_resamples in (0, 4):
        own = HierarchicalSphericalKMeans((10, 60), n_resamples=n_resamples, random_state=0).fit(rows)
        majority = [np.bincount(truth[own.labels_ == k], minlength=30).argmax() for k in np.unique(own.labels_)]
        in_large.append(np.mean(np.array(majority) == 0))
    assert in_large[1] < 0.75 * in_large[0]  # the share of clusters that the one frequent direction takes


@pytest.mark.parametrize("name", list(ENGINES))
def test_rows_nearest_to_each_are_those_of_a_sort(name):
    rows = mixture(400, 20, 10, np.float64)
    rule = AffineRule.cosines(rows[:7])
    with one_piece("cpu", rows) as passes:
        labels = passes.labels()
        passes.label(rule, labels)
        own, scores = labels.to_host(), (rows @ rows[:7].T).max(axis=1)
    wanted = [
        number for k in range(7) for number in sorted(np.flatnonzero(own == k), key=lambda row: (-scores[row], row))[:9]
    ]
    for seed in range(2):
        with ENGINES[name](rows, seed=seed) as passes:
            labels = passes.labels()
            passes.label(rule, labels)
            np.testing.assert_array_equal(nearest_of_each(passes, labels, rule, 9), np.sort(wanted))


def test_labels_at_a_level_go_into_files(model, tmp_path):
    found = model.predict(ROWS, level=0, out=tmp_path / "labels.npy")
    np.testing.assert_array_equal(found, model.predict(ROWS, level=0))
    np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), found)
    spoiled = ROWS.copy()
    spoiled[5] = np.nan
    flagged = made(missing="flag").fit(spoiled)
    assert flagged.labels_[5] == -1
    assert flagged.predict(spoiled, level=1)[5] == -1


def test_files_hold_what_nests(model, tmp_path):
    save(model, tmp_path / "m.safetensors")
    loaded = load(tmp_path / "m.safetensors")
    assert loaded.get_params()["n_clusters"] == (3, 9, 30)
    np.testing.assert_array_equal(loaded.predict(ROWS, level=0), model.predict(ROWS, level=0))
    for name, value in {
        "parents_": model.parents_[::-1].copy(),
        "level_sizes_": np.array([9, 3, 30]),
        "inner_centers_": model.inner_centers_[:-1],
    }.items():
        spoiled = load(tmp_path / "m.safetensors")
        setattr(spoiled, name, value)
        with pytest.raises(ArchiveError):
            save(spoiled, tmp_path / "spoiled.safetensors")


def test_observers_see_every_run():
    seen = []
    made(callbacks=seen.append, n_resamples=1).fit(ROWS)
    assert seen[0].n_restarts == 6
    assert sorted({event.restart for event in seen if event.kind == "step"}) == [1, 2, 3, 4, 5, 6]
    assert seen[-1].n_clusters == 30


@each(
    ("parameters", "sentence"),
    [
        ({"n_clusters": ()}, "`n_clusters` of HierarchicalSphericalKMeans must rise from coarse to fine; got ()."),
        ({"n_clusters": (3, 3)}, "must rise from coarse to fine; got (3, 3). Give numbers"),
        ({"n_clusters": (3, 2.5)}, "must be an int >= 1; got 2.5. Give numbers from coarse to fine"),
        ({"n_clusters": "many"}, "must be an int >= 1; got 'many'."),
        ({"init": "kmeans"}, "`init` of HierarchicalSphericalKMeans must be one of 'k-means||', 'k-means++', 'random'"),
        ({"n_resamples": -1}, "`n_resamples` of HierarchicalSphericalKMeans must be an int >= 0; got -1."),
        ({"resample_size": 0}, "must be an int >= 1; got 0. None takes half of the mean."),
        ({"n_fit_rows": 0.5}, "must be an int >= 1; got 0.5. None does them on all rows."),
        ({"tol": -1.0}, "`tol` of HierarchicalSphericalKMeans must be a number >= 0"),
    ],
)
def test_wrong_parameters_are_sentences(parameters, sentence):
    with pytest.raises(ParameterError) as caught:
        made(**parameters).fit(ROWS)
    assert sentence in str(caught.value)


def test_too_many_clusters_and_wrong_levels_are_sentences(model):
    with pytest.raises(InputError, match="must not exceed the number of rows that steps are done on; got 30 clusters"):
        made(n_fit_rows=20).fit(ROWS)
    for level in (3, -4, "fine", True):
        with pytest.raises(
            ParameterError, match=r"^`level` of HierarchicalSphericalKMeans must be an int from -3 to 2"
        ):
            model.predict(ROWS, level=level)
