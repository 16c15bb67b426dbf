"""SoftKMeans: a Gaussian mixture with one variance, against EM written out and against scikit-learn's mixture."""

from __future__ import annotations

import math
import pickle
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import special
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.mixture import GaussianMixture
from tests.making import docstring, units

from armillary import SoftKMeans
from armillary.exceptions import ArmillaryError, InputError, ParameterError


def clumped(seed, n_rows=120, n_features=4, n_clumps=3, spread=0.5):
    rng = np.random.default_rng(seed)
    rows = units(rng, n_clumps, n_features)[np.arange(n_rows) % n_clumps]
    rows = rows + spread / np.sqrt(n_features) * rng.standard_normal(rows.shape)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def fit(rows, n_components, sample_weight=None, **parameters):
    model = SoftKMeans(n_components, **{"random_state": 0, "n_threads": 1, **parameters})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows, sample_weight=sample_weight)


ROWS = clumped(0)
ROWS.setflags(write=False)


class NaiveEM:
    """The mixture of vmf_mixtures.md, 13, with distances written out."""

    def __init__(self, rows, weights, start):
        self.rows = rows
        self.row_weights = np.ones(len(rows)) if weights is None else weights
        self.weights, self.means = np.full(len(start), 1.0 / len(start)), start
        mean = self.row_weights @ rows / self.row_weights.sum()
        spread = self.row_weights @ ((rows - mean) ** 2).sum(axis=1) / self.row_weights.sum()
        self.variance = spread / rows.shape[1]

    def scores(self):
        squares = ((self.rows[:, None, :] - self.means) ** 2).sum(axis=2)
        n_features = self.rows.shape[1]
        log_density = -0.5 * n_features * math.log(2.0 * math.pi * self.variance) - squares / (2.0 * self.variance)
        return np.log(self.weights) + log_density

    def log_likelihood(self):
        return self.row_weights @ special.logsumexp(self.scores(), axis=1)

    def step(self):
        table = self.scores()
        shares = np.exp(table - special.logsumexp(table, axis=1)[:, None]) * self.row_weights[:, None]
        counts = shares.sum(axis=0)
        self.weights, self.means = counts / counts.sum(), (shares.T @ self.rows) / counts[:, None]
        squares = ((self.rows[:, None, :] - self.means) ** 2).sum(axis=2)
        self.variance = (shares * squares).sum() / (counts.sum() * self.rows.shape[1])


@pytest.mark.parametrize("n_features", [2, 4, 30])
@pytest.mark.parametrize("is_weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
def test_every_step_is_that_of_em_written_out(n_features, is_weighted, is_sparse):
    rows = clumped(1, n_features=n_features)
    weights = np.random.default_rng(2).gamma(1.0, size=120) if is_weighted else None
    given = sp.csr_array(rows) if is_sparse else rows
    naive = NaiveEM(rows, weights, rows[:3])
    likelihoods = []
    for n_steps in range(1, 8):
        likelihoods.append(naive.log_likelihood())
        naive.step()
        if n_steps not in (1, 2, 7):
            continue
        events = []
        model = fit(given, 3, weights, init=rows[:3], tol=0.0, max_iter=n_steps, callbacks=events.append)
        np.testing.assert_allclose(model.weights_, naive.weights, rtol=1e-10)
        np.testing.assert_allclose(model.means_, naive.means, rtol=0, atol=1e-11)
        assert math.isclose(model.variance_, naive.variance, rel_tol=1e-10)
        assert math.isclose(model.log_likelihood_, naive.log_likelihood(), rel_tol=1e-10)
        objectives = [event.objective for event in events if event.kind == "step"]
        np.testing.assert_allclose(objectives, likelihoods[: len(objectives)], rtol=1e-10)
        scores = naive.scores()
        np.testing.assert_array_equal(model.labels_, scores.argmax(axis=1))
        np.testing.assert_allclose(model.score_samples(given), special.logsumexp(scores, axis=1), rtol=0, atol=1e-9)
        wanted = np.exp(scores - special.logsumexp(scores, axis=1)[:, None])
        np.testing.assert_allclose(model.predict_proba(given), wanted, rtol=0, atol=1e-10)


def test_one_component_is_scikit_learns_spherical_gaussian():
    model = fit(ROWS, 1)
    peer = GaussianMixture(1, covariance_type="spherical", reg_covar=0.0).fit(ROWS)
    np.testing.assert_allclose(model.means_, peer.means_, rtol=0, atol=1e-13)
    assert math.isclose(model.variance_, peer.covariances_[0], rel_tol=1e-12)
    assert math.isclose(model.log_likelihood_, 120.0 * peer.score(ROWS), rel_tol=1e-12)
    np.testing.assert_allclose(model.score_samples(ROWS), peer.score_samples(ROWS), rtol=0, atol=1e-11)


@pytest.mark.parametrize("n_steps", [1, 3, 40])
def test_a_mirrored_set_is_scikit_learns_spherical_mixture(n_steps):
    # by symmetry the two free variances of the peer are equal, as ours are by definition
    half = clumped(3, n_clumps=1, spread=0.9)
    rows = np.concatenate([half, -half])
    start = np.array([half[0], -half[0]])
    variance = 1.0 / 4.0  # the rows add up to 0
    model = fit(rows, 2, init=start, tol=0.0, max_iter=n_steps)
    peer = GaussianMixture(
        2,
        covariance_type="spherical",
        reg_covar=0.0,
        tol=0.0,
        max_iter=n_steps,
        means_init=start,
        weights_init=[0.5, 0.5],
        precisions_init=[1.0 / variance] * 2,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer.fit(rows)
    np.testing.assert_allclose(peer.covariances_, model.variance_, rtol=1e-10)
    np.testing.assert_allclose(model.means_, peer.means_, rtol=0, atol=1e-11)
    np.testing.assert_allclose(model.weights_, peer.weights_, rtol=1e-11)
    np.testing.assert_allclose(model.predict_proba(rows), peer.predict_proba(rows), rtol=0, atol=1e-10)
    assert math.isclose(model.score(rows), peer.score(rows), rel_tol=1e-11)


@pytest.mark.parametrize("n_features", [3, 20, 300])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_likelihood_never_falls(n_features, is_sparse, dtype):
    for seed in range(3):
        rng = np.random.default_rng([seed, n_features])
        rows = clumped(rng.integers(1000), n_features=n_features, n_clumps=5, spread=1.5).astype(dtype)
        weights = rng.gamma(1.0, size=120) if seed % 2 else None
        events = []
        fit(
            sp.csr_array(rows) if is_sparse else rows,
            4,
            weights,
            init="random",
            random_state=seed,
            tol=0.0,
            max_iter=25,
            callbacks=events.append,
        )
        objectives = [event.objective for event in events if event.kind == "step"]
        # scores are differences of terms of size 1 / variance
        slack = (1e-12 if dtype == np.float64 else 1e-6) * 120.0 * n_features * 10.0
        assert all(after >= before - slack for before, after in pairwise(objectives)), f"seed {seed}"


def test_the_density_integrates_to_one_over_the_plane():
    # the law is that of the surrounding space; score_samples of unit rows gives its values on the circle
    model = fit(clumped(4, n_features=2), 3)
    angles = np.linspace(0.0, 2.0 * np.pi, 1000)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    wanted = np.zeros(1000)
    for weight, mean in zip(model.weights_, model.means_, strict=True):
        squares = ((circle - mean) ** 2).sum(axis=1)
        wanted += weight * np.exp(-squares / (2.0 * model.variance_)) / (2.0 * math.pi * model.variance_)
    np.testing.assert_allclose(np.exp(model.score_samples(circle)), wanted, rtol=1e-10)


def test_information_criteria_by_hand():
    model = fit(ROWS, 3)
    n_parameters = 2 + 3 * 4 + 1  # weights, means, one variance
    log_likelihood = model.score_samples(ROWS).sum()
    assert math.isclose(model.log_likelihood_, log_likelihood, rel_tol=1e-12)
    assert math.isclose(model.aic(ROWS), 2.0 * n_parameters - 2.0 * log_likelihood, rel_tol=1e-12)
    assert math.isclose(model.bic(ROWS), n_parameters * math.log(120.0) - 2.0 * log_likelihood, rel_tol=1e-12)


SHAPE = "must have shape (n_components, n_features) = (3, 4);"
STARTS = "must be one of 'k-means++', 'random', 'random_labels';"


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"n_components": 0}, "must be an int >= 1; got 0."),
        ({"n_components": 2.5}, "must be an int >= 1; got 2.5."),
        ({"init": "kmeans"}, f"{STARTS} got 'kmeans'. Or give directions, shape (K, D)."),
        ({"init": np.eye(4)}, f"{SHAPE} got (4, 4). Give one direction per component."),
        ({"n_init": 0}, "must be an int >= 1; got 0."),
        ({"max_iter": 0}, "must be an int >= 1; got 0."),
        ({"n_threads": 0}, "must be an int from 1 to 4096; got 0. None takes every core."),
        ({"verbose": -1}, "must be an int >= 0; got -1. 1 shows a progress bar."),
    ],
)
def test_a_wrong_parameter_is_named(parameters, sentence):
    (name,) = parameters
    model = SoftKMeans(**{"n_components": 3, "random_state": 0, **parameters})
    with pytest.raises(ParameterError) as caught:
        model.fit(ROWS)
    assert str(caught.value) == f"`{name}` of SoftKMeans {sentence}"
    assert not hasattr(model, "means_")


@pytest.mark.parametrize("tol", [-1.0, math.nan, math.inf, "small", None])
def test_a_wrong_tolerance_is_named(tol):
    with pytest.raises(ParameterError) as caught:
        SoftKMeans(3, tol=tol).fit(ROWS)
    assert str(caught.value).startswith(f"`tol` of SoftKMeans must be a number >= 0; got {tol!r}.")


def test_more_components_than_rows_and_unfitted_models():
    with pytest.raises(InputError, match="`n_components` of SoftKMeans must not exceed the number of rows; got"):
        SoftKMeans(9).fit(ROWS[:8])
    for method in ("predict", "predict_proba", "score_samples", "score", "bic", "aic"):
        with pytest.raises(NotFittedError):
            getattr(SoftKMeans(3), method)(ROWS)


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
def test_fitted_attributes(is_sparse):
    model = SoftKMeans(3, random_state=0).fit(sp.csr_array(ROWS) if is_sparse else ROWS)
    assert (model.weights_.shape, model.means_.shape) == ((3,), (3, 4))
    assert model.means_.dtype == np.float64
    assert (model.labels_.dtype, model.labels_.shape) == (np.dtype(np.int32), (120,))
    for name, kind in (("variance_", float), ("log_likelihood_", float), ("n_clusters_", int), ("n_iter_", int)):
        assert type(getattr(model, name)) is kind, name
    assert model.converged_ is True
    assert (np.linalg.norm(model.means_, axis=1) < 1.0).all()  # inside the sphere
    np.testing.assert_array_equal(model.labels_, model.predict(ROWS))
    np.testing.assert_array_equal(model.labels_, model.predict_proba(ROWS).argmax(axis=1))
    assert math.isclose(model.weights_.sum(), 1.0, rel_tol=1e-14)


def test_every_attribute_is_in_the_docstring():
    model = SoftKMeans(3, random_state=0).fit(ROWS)
    section = docstring(SoftKMeans).split("Attributes\n    ----------\n")[1].split("\n\n")[0]
    names = {name.strip() for line in section.splitlines() if " : " in line for name in line.split(" : ")[0].split(",")}
    assert names == {name for name in vars(model) if name.endswith("_")} | {"device_"}


def test_rows_on_their_means_keep_a_variance():
    rows = np.repeat(np.eye(4)[:2], 10, axis=0)
    model = fit(rows, 2)
    assert 0.0 < model.variance_ < 1e-9
    assert np.isfinite(model.log_likelihood_)
    assert len(np.unique(model.labels_)) == 2
    np.testing.assert_array_equal(model.labels_, model.predict(rows))
    single = fit(np.eye(4)[:1], 1)
    assert np.isfinite(single.log_likelihood_)


def test_an_empty_component_keeps_its_mean():
    rows = clumped(5, n_clumps=1, spread=0.02)
    start = np.array([rows[0], -rows[0]])
    model = fit(rows, 2, init=start)
    assert model.weights_[1] == 0.0
    np.testing.assert_allclose(model.means_[1], start[1], rtol=1e-14)
    assert model.n_clusters_ == 1
    assert np.isfinite(model.log_likelihood_)
    assert not model.predict_proba(rows)[:, 1].any()
    assert model.predict(start[1:])[0] == 0


def test_weights_are_repetitions_and_count_by_their_ratios():
    rng = np.random.default_rng(6)
    weights = rng.integers(0, 4, 120)
    model = fit(ROWS, 3, weights, init=ROWS[:3], tol=0.0, max_iter=12)
    other = fit(np.repeat(ROWS, weights, axis=0), 3, init=ROWS[:3], tol=0.0, max_iter=12)
    scaled = fit(ROWS, 3, 1e-12 * weights, init=ROWS[:3], tol=0.0, max_iter=12)
    for one in (other, scaled):
        np.testing.assert_allclose(one.means_, model.means_, rtol=0, atol=1e-10)
        np.testing.assert_allclose(one.weights_, model.weights_, rtol=1e-9)
        assert math.isclose(one.variance_, model.variance_, rel_tol=1e-9)
    assert math.isclose(other.log_likelihood_, model.log_likelihood_, rel_tol=1e-10)
    for factor in (1e-200, 1e200):
        extreme = fit(ROWS, 3, factor * weights, init=ROWS[:3], tol=0.0, max_iter=12)
        np.testing.assert_allclose(extreme.means_, model.means_, rtol=0, atol=1e-10)


def test_rotating_rows_rotates_means():
    turn, _ = np.linalg.qr(np.random.default_rng(7).standard_normal((4, 4)))
    model = fit(ROWS, 3, init=ROWS[:3])
    turned = fit(ROWS @ turn, 3, init=ROWS[:3] @ turn)
    np.testing.assert_allclose(turned.means_, model.means_ @ turn, rtol=0, atol=1e-9)
    assert math.isclose(turned.variance_, model.variance_, rel_tol=1e-9)
    np.testing.assert_array_equal(turned.labels_, model.labels_)


def test_rows_are_normalised_first():
    lengths = 10.0 ** np.random.default_rng(8).uniform(-3, 3, (120, 1))
    model, other = fit(ROWS, 3), fit(lengths * ROWS, 3)
    np.testing.assert_allclose(other.means_, model.means_, rtol=0, atol=1e-9)


@pytest.mark.parametrize("init", ["k-means++", "random", "random_labels"])
def test_starts_repeat_by_seed_and_the_best_run_is_kept(init):
    rows = clumped(9, n_clumps=6, spread=0.6)
    events = []
    model = fit(rows, 5, init=init, n_init=4, max_iter=10, random_state=2, callbacks=events.append)
    again = fit(rows, 5, init=init, n_init=4, max_iter=10, random_state=2)
    np.testing.assert_array_equal(model.means_, again.means_)
    last = {event.restart: event.objective for event in events if event.kind == "step"}
    assert sorted(last) == [1, 2, 3, 4]
    assert events[-1].objective == max(last.values())
    assert (fit(rows, 5, init=init, random_state=3, max_iter=2).means_ != model.means_).any()


def test_threads_pickles_clones_and_failures():
    models = [fit(ROWS, 3, n_threads=n_threads) for n_threads in (1, 2)]
    np.testing.assert_array_equal(models[0].means_, models[1].means_)
    model = models[0]
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict_proba(ROWS), model.predict_proba(ROWS))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "means_")
    before = pickle.dumps(model)
    for wrong in (np.full((10, 4), np.nan), np.zeros((10, 4)), np.ones((2, 4)), "rows"):
        with pytest.raises(ArmillaryError):
            model.fit(wrong)
        assert pickle.dumps(model) == before
    frame = pd.DataFrame(ROWS, columns=list("abcd"))
    assert list(SoftKMeans(3, random_state=0).fit(frame).feature_names_in_) == list("abcd")


def test_all_steps_used_is_said():
    with pytest.warns(ConvergenceWarning, match="SoftKMeans used all 2 steps and was still gaining. Raise") as caught:
        model = SoftKMeans(3, max_iter=2, tol=0.0, random_state=0).fit(ROWS)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert model.converged_ is False


def test_two_small_gains_in_a_row_end_a_run():
    events = []
    model = fit(clumped(10, spread=1.2), 3, tol=1e-5, callbacks=events.append)
    objectives = [event.objective for event in events if event.kind == "step"]
    is_small = [(after - before) / abs(after) <= 1e-5 for before, after in pairwise(objectives)]
    assert model.converged_
    assert is_small[-2:] == [True, True]
    assert not any(one and two for one, two in pairwise(is_small[:-1]))
