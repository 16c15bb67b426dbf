"""A new engine needs no change outside of it: models fit rows that live there, with the answers of the CPU."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from tests.laws.toy_engine import Listed, register_toy

from armillary import (
    DDPvMFMeans,
    DirichletProcessMixture,
    DPvMFMeans,
    GibbsVonMisesFisherMixture,
    Links,
    SphericalKMeans,
    TemporalVonMisesFisherMixture,
    VonMisesFisherMixture,
)
from armillary.datasets import make_vmf_mixture
from armillary.exceptions import InputError

register_toy()
ROWS, _, _ = make_vmf_mixture(900, 3, 5, concentration=60.0, min_angle=0.7, random_state=0)
MODELS = {
    "k-means": lambda: SphericalKMeans(5, random_state=0),
    "k-means, random": lambda: SphericalKMeans(5, init="random", n_init=3, random_state=0),
    "k-means, empty clusters": lambda: SphericalKMeans(60, init="random", n_init=1, max_iter=4, random_state=1),
    "dp": lambda: DPvMFMeans(0.6),
    "dp, consolidated": lambda: DPvMFMeans(0.2, consolidate=True),
    "dp, capped": lambda: DPvMFMeans(0.2, max_clusters=7),
    "ddp": lambda: DDPvMFMeans(0.6),
    "vmf": lambda: VonMisesFisherMixture(5, random_state=0),
    "vmf, hard": lambda: VonMisesFisherMixture(5, assignment="hard", random_state=0),
}
# soft sums are exact to a tolerance where they are not whole (DESIGN)
SOFT = {"vmf"}


def listed(rows, seed):
    edges = np.sort(np.random.default_rng(seed).choice(np.arange(1, len(rows)), 4, replace=False))
    return Listed(np.split(rows, edges))


def fitted(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_") and not name.startswith("_")}


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("is_weighted", [False, True])
def test_models_fit_rows_in_a_list_as_they_fit_an_array(name, is_weighted):
    weights = np.random.default_rng(1).gamma(2.0, size=len(ROWS)) if is_weighted else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = MODELS[name]().fit(ROWS, sample_weight=weights)
        other = MODELS[name]().fit(listed(ROWS, 2), sample_weight=weights)
    np.testing.assert_array_equal(other.labels_, plain.labels_)
    np.testing.assert_array_equal(other.predict(listed(ROWS, 3)), plain.predict(ROWS))
    is_exact = name not in SOFT
    mine, theirs = fitted(other), fitted(plain)
    assert (other.device_, plain.device_) == ("toy", "cpu")
    assert set(mine) == set(theirs)
    for attribute, wanted in theirs.items():
        if is_exact:
            np.testing.assert_array_equal(mine[attribute], wanted, err_msg=attribute)
        elif np.asarray(wanted).dtype.kind in "fiu":
            np.testing.assert_allclose(mine[attribute], wanted, rtol=1e-6, atol=1e-8, err_msg=attribute)


def test_a_stream_goes_on_from_frame_to_frame():
    plain, other = DDPvMFMeans(0.6), DDPvMFMeans(0.6)
    for step in range(3):
        rows = np.roll(ROWS, 100 * step, axis=0)[: 700 - 150 * step]
        ids = plain.partial_fit_predict(rows)
        np.testing.assert_array_equal(other.partial_fit_predict(listed(rows, step)), ids)


def test_what_an_engine_cannot_do_is_a_sentence():
    with pytest.raises(InputError, match=r"random one.*n_init=1"):
        DPvMFMeans(0.6, n_init=2, random_state=0).fit(listed(ROWS, 0))
    for model, instead in (
        (Links(), "sample"),
        (DirichletProcessMixture(sampler="crp", spread_prior=0.1, random_state=0), "sampler="),
        (GibbsVonMisesFisherMixture(3, random_state=0), "BayesianVonMisesFisherMixture"),
    ):
        with pytest.raises(InputError, match=rf"rows in memory.*{instead}"):
            model.fit(listed(ROWS, 0))


@pytest.mark.parametrize("component", ["tangent_gaussian", "gaussian", "vmf"])
def test_mixtures_of_rows_in_a_list_are_those_of_an_array(component):
    model = DirichletProcessMixture(component, n_burn_in=1, n_draws=2, random_state=0).fit(ROWS)
    parts = listed(ROWS, 1)
    other = clone(model).fit(parts)
    np.testing.assert_array_equal(other.sample_labels_, model.sample_labels_)
    np.testing.assert_array_equal(other.trace_, model.trace_)
    np.testing.assert_array_equal(model.predict(parts), model.predict(ROWS))
    for ask in (model.predict_proba, model.score_samples):
        np.testing.assert_allclose(ask(parts), ask(ROWS), rtol=1e-12, atol=1e-300)
    if component != "vmf":
        np.testing.assert_allclose(model.tangent_coordinates(parts, 0), model.tangent_coordinates(ROWS, 0), atol=1e-14)
    gibbs = GibbsVonMisesFisherMixture(4, n_burn_in=4, n_draws=3, random_state=0).fit(ROWS)
    np.testing.assert_allclose(gibbs.score_samples(parts), gibbs.score_samples(ROWS), rtol=1e-12)


@pytest.mark.parametrize("inference", ["messages", "factorised"])
def test_slices_of_time_may_be_in_parts(inference):
    times = np.repeat([3, 4, 7], 300)
    model = TemporalVonMisesFisherMixture(4, inference=inference, drift=0.1, max_iter=6, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, other = (clone(model).fit(X, times=times, slices=range(3, 8)) for X in (ROWS, listed(ROWS, 2)))
    np.testing.assert_array_equal(other.labels_, plain.labels_)
    np.testing.assert_allclose(other.means_, plain.means_, atol=1e-8)
    np.testing.assert_array_equal(other.predict(listed(ROWS, 3), times=times), plain.predict(ROWS, times=times))
    np.testing.assert_allclose(other.score_next_samples(listed(ROWS, 4)), plain.score_next_samples(ROWS), rtol=1e-7)
    with pytest.raises(InputError, match=r"in parts must be asked for in their order"):
        model.fit(listed(ROWS, 0), times=times[::-1])
