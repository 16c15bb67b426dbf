"""`DirichletProcessMixture`: what it finds, what it publishes, what it refuses; equal bits however it is run."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import normalized_mutual_info_score
from tests.making import units

from armillary import DirichletProcessMixture, load, save
from armillary.datasets import make_tangent_gaussian_mixture
from armillary.diagnostics import expected_losses
from armillary.exceptions import InputError, ParameterError
from armillary.geometry import sphere

BRIEF = {"n_burn_in": 1, "n_draws": 5, "n_attempts": 2, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    X, labels, _ = make_tangent_gaussian_mixture(240, 3, 4, spread=0.08, min_angle=0.6, random_state=1)
    return X, labels


@pytest.fixture(scope="module")
def fitted(data):
    return DirichletProcessMixture(**BRIEF).fit(data[0])


def fitted_state(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


def assert_equal_fits(one, other):
    ours, theirs = fitted_state(one), fitted_state(other)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


# ------------------------------------------------------------------------------------------------ what it finds


@pytest.mark.parametrize(
    ("component", "sampler"),
    [
        ("tangent_gaussian", "split_merge"),
        ("tangent_gaussian", "subclusters"),
        ("tangent_gaussian", "finite"),
        ("gaussian", "split_merge"),
        ("gaussian", "finite"),
        ("vmf", "split_merge"),
        ("vmf", "finite"),
    ],
)
def test_clusters_are_found(data, component, sampler):
    X, truth = data
    model = DirichletProcessMixture(component, sampler=sampler, n_components=20, **BRIEF).fit(X)
    # round components take several clusters for a long one
    assert normalized_mutual_info_score(truth, model.labels_) > (0.75 if component == "vmf" else 0.97)
    assert model.n_clusters_ == len(np.unique(model.labels_))
    assert model.means_.shape == (model.n_clusters_, 3)
    assert hasattr(model, "concentrations_") == (component == "vmf")
    assert hasattr(model, "covariances_") == (component != "vmf")


@pytest.mark.parametrize("component", ["tangent_gaussian", "gaussian", "vmf"])
def test_one_row_at_a_time_finds_them_too(data, component):
    X, truth = data[0][:60], data[1][:60]
    model = DirichletProcessMixture(component, sampler="crp", n_burn_in=1, n_draws=3, random_state=0).fit(X)
    assert normalized_mutual_info_score(truth, model.labels_) > 0.9


@pytest.mark.parametrize("init", ["k-means", "one", 7, "labels"])
def test_every_start_leads_there(data, init):
    X, truth = data
    model = DirichletProcessMixture(init=truth if init == "labels" else init, **BRIEF).fit(X)
    assert normalized_mutual_info_score(truth, model.labels_) > 0.95


def test_a_start_from_one_cluster_grows():
    X, truth, _ = make_tangent_gaussian_mixture(200, 3, 3, spread=0.05, min_angle=1.0, random_state=2)
    model = DirichletProcessMixture(init="one", spread_prior=0.1, **{**BRIEF, "n_burn_in": 0}).fit(X)
    assert model.n_clusters_ == 3
    assert normalized_mutual_info_score(truth, model.labels_) > 0.97


def test_covariances_are_those_of_the_clusters(data):
    X, _, truth = make_tangent_gaussian_mixture(
        2000, 3, 2, spread=0.1, degrees_of_freedom=6.0, min_angle=1.2, random_state=5
    )
    model = DirichletProcessMixture(**BRIEF).fit(X)
    assert model.n_clusters_ == 2
    order = np.argmax(truth.directions @ model.means_.T, axis=1)
    np.testing.assert_allclose(sphere.angle(model.means_[order], truth.directions), 0.0, atol=0.02)
    for found, true in zip(model.covariances_[order], truth.covariances, strict=True):
        np.testing.assert_allclose(found, true, atol=0.15 * np.trace(true))
    # the mean is in the null space
    np.testing.assert_allclose(np.einsum("kij,kj->ki", model.covariances_, model.means_), 0.0, atol=1e-12)


# ------------------------------------------------------------------------------------------------ equal bits


@pytest.mark.parametrize("component", ["tangent_gaussian", "gaussian", "vmf"])
def test_threads_do_not_change_a_bit(component):
    X, _, _ = make_tangent_gaussian_mixture(5000, 3, 4, spread=0.1, min_angle=0.6, random_state=3)
    brief = {"n_burn_in": 0, "n_draws": 2, "n_attempts": 1, "random_state": 0, "init": 3}
    one = DirichletProcessMixture(component, n_threads=1, **brief).fit(X)
    two = DirichletProcessMixture(component, n_threads=2, **brief).fit(X)
    assert_equal_fits(one, two)


@pytest.mark.parametrize("component", ["tangent_gaussian", "gaussian", "vmf"])
@pytest.mark.parametrize("sampler", ["split_merge", "subclusters", "finite", "crp"])
def test_a_resumed_run_is_an_uninterrupted_one(data, component, sampler, tmp_path):
    X = data[0][: 20 if sampler == "crp" else 80]
    setting = {**BRIEF, "n_chains": 2, "sampler": sampler, "n_components": 9, "n_burn_in": 2, "init": 3}
    whole = DirichletProcessMixture(component, **{**setting, "n_draws": 18}).fit(X)
    part = DirichletProcessMixture(component, **{**setting, "n_draws": 8}).fit(X)
    save(part, tmp_path / "checkpoint.armillary")
    resumed = load(tmp_path / "checkpoint.armillary").resume(X, n_draws=10)
    assert_equal_fits(whole, resumed)
    np.testing.assert_array_equal(whole.sample_labels_, resumed.sample_labels_)


def test_a_run_stopped_by_time_goes_on(data):
    X = data[0][:80]
    whole = DirichletProcessMixture(weight_prior="resampled", **BRIEF).fit(X)
    model = DirichletProcessMixture(weight_prior="resampled", max_seconds=1e-9, **BRIEF)
    said = r"must do 12 sweeps for its first draw; max_seconds=1e-09 ended it after 1\. No draw was kept: labels_ comes"
    with pytest.warns(ConvergenceWarning, match=said):
        model.fit(X)
    assert model.trace_.shape == (1, 1, 3)
    assert model.n_draws_ == 0
    np.testing.assert_array_equal(model.sample_labels_, model._saved_state.chain_labels)
    assert model.partition_draw_ == 0
    assert model.n_clusters_ == len(np.unique(model.labels_))
    with pytest.warns(ConvergenceWarning, match="ended it after 1"):  # no time for one sweep more
        model.resume(X)
    model.set_params(max_seconds=None).resume(X)
    assert model.n_draws_ == len(model.sample_labels_) == 5
    assert_equal_fits(whole, model)


def test_a_seed_repeats_and_another_differs(data, fitted):
    again = DirichletProcessMixture(**BRIEF).fit(data[0])
    assert_equal_fits(fitted, again)
    other = DirichletProcessMixture(**{**BRIEF, "random_state": 1}).fit(data[0])
    assert np.any(other.trace_[:, :, 2] != fitted.trace_[:, :, 2])


@pytest.mark.parametrize("component", ["tangent_gaussian", "gaussian", "vmf"])
def test_saved_models_predict_alike(data, component, tmp_path):
    X = data[0]
    model = DirichletProcessMixture(component, **BRIEF).fit(X)
    save(model, tmp_path / "model.armillary")
    loaded = load(tmp_path / "model.armillary")
    assert_equal_fits(model, loaded)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.score_samples(X), model.score_samples(X))


# ------------------------------------------------------------------------------------------------ what it publishes


def test_the_trace_has_every_sweep(fitted):
    assert fitted.trace_.shape == (1, 10 + 1 + 5, 3)
    assert fitted.n_discarded_ == 11
    assert fitted.sample_labels_.shape == (5, 240)
    np.testing.assert_array_equal(fitted.trace_[0, :, 1], 1.0)
    n_clusters = [len(np.unique(draw)) for draw in fitted.sample_labels_]
    np.testing.assert_array_equal(fitted.trace_[0, 11:, 0], n_clusters)
    assert fitted.weights_.sum() == pytest.approx(240 / 241)


def test_labels_lose_less_than_the_draw_they_come_from():
    """Rows of a draw lie where they may be; rows of labels_ where they are most probable."""
    X, truth, _ = make_tangent_gaussian_mixture(1500, 3, 6, spread=0.2, min_angle=0.6, random_state=7)
    model = DirichletProcessMixture(**{**BRIEF, "n_draws": 20}).fit(X)
    draws = model.sample_labels_
    losses = expected_losses(draws)
    assert np.argmin(losses) == model.partition_draw_
    assert model.expected_loss_ < losses.min()
    together = expected_losses(np.concatenate([draws, model.labels_[None]]))[-1]
    assert together * 21 / 20 == pytest.approx(model.expected_loss_, rel=1e-10)
    score = normalized_mutual_info_score(truth, model.labels_)
    assert score > normalized_mutual_info_score(truth, draws[model.partition_draw_])
    assert model.n_clusters_ == len(np.unique(model.labels_)) == len(model.weights_)


def test_alpha_moves_where_it_is_resampled(data):
    model = DirichletProcessMixture(weight_prior="resampled", **BRIEF).fit(data[0][:100])
    assert len(np.unique(model.trace_[0, :, 1])) == model.trace_.shape[1]
    assert model.weight_concentration_ == model.trace_[0, -1, 1]


def test_predictions_are_those_of_the_mixture(data, fitted):
    X = data[0]
    shares = fitted.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(fitted.predict(X), np.argmax(shares, axis=1))
    np.testing.assert_array_equal(fitted.predict(X), fitted.labels_)
    assert fitted.score(X) == pytest.approx(fitted.score_samples(X).mean())


@pytest.mark.parametrize("component", ["tangent_gaussian", "vmf"])
def test_the_density_integrates_to_one(data, component):
    model = DirichletProcessMixture(component, **BRIEF).fit(data[0])
    z, weights = np.polynomial.legendre.leggauss(120)
    turns = 2.0 * np.pi * np.arange(240) / 240
    radius = np.sqrt(1.0 - z * z)
    nodes = np.stack(
        [np.outer(radius, np.cos(turns)), np.outer(radius, np.sin(turns)), np.outer(z, np.ones(240))], axis=-1
    )
    density = np.exp(model.score_samples(nodes.reshape(-1, 3))).reshape(120, 240)
    assert float((weights * density.mean(axis=1)).sum() * 2.0 * np.pi) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("component", ["tangent_gaussian", "gaussian", "vmf"])
def test_samples_come_from_the_clusters(data, component):
    model = DirichletProcessMixture(component, **BRIEF).fit(data[0])
    rows, labels = model.sample(2000, random_state=0)
    assert rows.shape == (2000, 3)
    known = labels >= 0
    assert np.mean(known) > 0.98
    assert np.mean(model.predict(rows[known]) == labels[known]) > 0.95
    found = np.bincount(labels[known], minlength=model.n_clusters_) / 2000
    np.testing.assert_allclose(found, model.weights_, atol=0.06)


def test_axes_and_coordinates(data, fitted):
    X = data[0]
    variances, axes = fitted.principal_axes()
    assert variances.shape == (fitted.n_clusters_, 2)
    np.testing.assert_allclose(np.einsum("kpd,kqd->kpq", axes, axes), np.tile(np.eye(2), (len(axes), 1, 1)), atol=1e-12)
    np.testing.assert_allclose(np.einsum("kpd,kd->kp", axes, fitted.means_), 0.0, atol=1e-10)
    np.testing.assert_allclose(fitted.condition_numbers(), variances[:, 0] / variances[:, 1])
    assert np.all(fitted.condition_numbers() >= 1.0)
    rows = X[fitted.labels_ == 0]
    placed = fitted.tangent_coordinates(rows, 0)
    np.testing.assert_allclose(np.linalg.norm(placed, axis=1), sphere.angle(rows, fitted.means_[0]), atol=1e-10)
    np.testing.assert_allclose(placed.var(axis=0), variances[0], rtol=0.4)
    euclidean = DirichletProcessMixture("gaussian", **BRIEF).fit(X)
    assert euclidean.principal_axes()[1].shape == (euclidean.n_clusters_, 3, 3)
    assert euclidean.tangent_coordinates(X[:5], 0).shape == (5, 3)


def test_convergence_looks_at_chains_after_the_burn_in(data):
    model = DirichletProcessMixture(n_chains=2, **{**BRIEF, "n_draws": 8}).fit(data[0][:100])
    found = model.convergence()
    assert found.n_clusters_r_hat >= 0.8
    assert 0.0 < found.log_joint_sample_size <= 16 * np.log10(16) + 1e-9


def test_events_tell_the_number_of_clusters(data):
    seen = []
    DirichletProcessMixture(n_chains=2, callbacks=seen.append, **BRIEF).fit(data[0][:50])
    steps = [event for event in seen if event.kind == "step"]
    assert len(steps) == 2 * 16
    assert [event.step for event in steps] == list(range(1, 33))
    assert {event.max_steps for event in steps} == {32}
    assert all(event.n_clusters >= 1 and np.isfinite(event.objective) for event in steps)


# ------------------------------------------------------------------------------------------------ awkward rows


@pytest.mark.parametrize("component", ["tangent_gaussian", "gaussian", "vmf"])
@pytest.mark.parametrize("sampler", ["split_merge", "subclusters", "finite", "crp"])
@pytest.mark.parametrize("case", ["one", "equal", "antipodes", "cross", "circle", "alone", "cut locus"])
def test_awkward_rows_are_fitted(component, sampler, case):
    rng = np.random.default_rng(0)
    row = np.array([0.6, 0.0, 0.8])
    rows = {
        "one": row[None],
        "equal": np.tile(row, (12, 1)),
        "antipodes": np.array([row, -row, row, -row]),
        "cross": np.concatenate([np.eye(3), -np.eye(3)]),
        "circle": np.stack([np.cos(t := rng.random(15) * 7), np.sin(t)], axis=1),
        "alone": units(rng, 6, 3),
        # a clump that is a point, two rows at its antipode, and one at a right angle
        "cut locus": np.array([row] * 5 + [-row] * 2 + [[0.0, 1.0, 0.0]]),
    }[case]
    # every row in a cluster of its own, or all in one
    init = {"alone": np.arange(6), "cut locus": np.zeros(8, dtype=int)}.get(case, "k-means")
    brief = {**BRIEF, "n_burn_in": 1, "n_draws": 2, "n_attempts": 1, "n_components": 6, "init": init}
    model = DirichletProcessMixture(component, sampler=sampler, **brief).fit(rows)
    assert np.isfinite(model.trace_).all()
    assert np.isfinite(model.means_).all()
    assert np.isfinite(model.score_samples(np.concatenate([rows, -rows]))).all()
    assert len(np.unique(model.labels_)) == model.n_clusters_


def test_float32_rows_are_fitted(data):
    model = DirichletProcessMixture(**BRIEF).fit(data[0].astype(np.float32))
    assert normalized_mutual_info_score(data[1], model.labels_) > 0.97


# ------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"component": "cauchy"}, "`component` of DirichletProcessMixture must be one of 'tangent_gaussian'"),
        ({"sampler": "hmc"}, "`sampler` of DirichletProcessMixture must be one of 'split_merge'"),
        ({"weight_concentration_prior": 0.0}, r"must be a number in \(0, inf\); got 0.0"),
        ({"weight_prior": "free"}, "must be one of 'fixed', 'resampled'; got 'free'"),
        ({"weight_prior": "resampled", "sampler": "finite"}, 'must be "fixed" with sampler="finite"'),
        ({"spread_prior": -1.0}, "`spread_prior` of DirichletProcessMixture must be a number"),
        ({"degrees_of_freedom_prior": 3.0}, "must be above 3, where the mean covariance exists; got 3.0. None takes 5"),
        ({"init": "random"}, "`init` of DirichletProcessMixture must be one of 'k-means', 'one'"),
        ({"init": 0}, "`init` of DirichletProcessMixture must be an int >= 1; got 0"),
        ({"init": 1000}, "must not exceed the number of rows; got init=1000 and n_samples=240"),
        ({"init": [0, 1]}, r"must hold one integer for each of the 240 rows where it is labels; got shape \(2,\)"),
        ({"n_attempts": -1}, "`n_attempts` of DirichletProcessMixture must be an int >= 0; got -1"),
        ({"n_draws": 0}, "`n_draws` of DirichletProcessMixture must be an int >= 1; got 0"),
        ({"max_seconds": 0}, "`max_seconds` of DirichletProcessMixture must be a number"),
        ({"loss": "squared"}, "`loss` of DirichletProcessMixture must be one of"),
        (
            {"sampler": "finite", "n_components": 2, "init": 3},
            "must be at least the number of clusters that the chain starts with; got n_components=2 and 3 clusters",
        ),
    ],
)
def test_wrong_parameters_get_a_sentence(data, parameters, sentence):
    model = DirichletProcessMixture(**{**BRIEF, **parameters})
    with pytest.raises((ParameterError, InputError), match=sentence):
        model.fit(data[0])
    assert not fitted_state(model)


@pytest.mark.parametrize("component", ["tangent_gaussian", "gaussian"])
def test_sparse_rows_are_refused_by_quadratic_components(data, component):
    sentence = f"Sparse data was passed to DirichletProcessMixture, whose component '{component}' needs dense rows; got"
    with pytest.raises(InputError, match=sentence):
        DirichletProcessMixture(component).fit(sp.csr_array(data[0]))


def test_resume_asks_for_the_same_rows(data, fitted):
    with pytest.raises(InputError, match="240 rows and 1 chains; got 239 rows and 1"):
        fitted.resume(data[0][:239])


def test_round_clusters_have_no_axes(data):
    model = DirichletProcessMixture("vmf", **BRIEF).fit(data[0][:60])
    with pytest.raises(ParameterError, match='must not be "vmf" where axes are asked for'):
        model.principal_axes()


def test_an_unfitted_model_says_so(data):
    for call in ("principal_axes", "convergence", "sample"):
        with pytest.raises(NotFittedError):
            getattr(DirichletProcessMixture(), call)()
    with pytest.raises(NotFittedError):
        DirichletProcessMixture().predict(data[0])


def test_a_failed_fit_leaves_the_model_as_it_was(data):
    model = DirichletProcessMixture(**BRIEF).fit(data[0][:60])
    before = fitted_state(model)

    def fail(event):
        if event.step == 3:
            raise RuntimeError("stop")

    model.set_params(callbacks=fail, component="vmf")
    with pytest.raises(RuntimeError, match="stop"):
        model.fit(data[0])
    assert fitted_state(model) == before
