"""Saved mixtures: equal bits after loading, and fitted attributes that must fit together."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import armillary
from armillary import MultinomialMixture, SoftKMeans, VonMisesFisherMixture, load, save
from armillary.exceptions import ArchiveError
from armillary.persistence import schema

MODELS = ("VonMisesFisherMixture", "SoftKMeans", "MultinomialMixture")


def counts(n_rows=60, seed=0):
    """Counts that are rows with a direction too."""
    rng = np.random.default_rng(seed)
    return np.kron(np.eye(3, dtype=int), np.ones((1, 2), dtype=int))[np.arange(n_rows) % 3] * 4 + rng.poisson(
        1.0, (n_rows, 6)
    )


def quiet_fit(model, rows, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows, **arguments)


def assert_equal_models(one, other):
    assert type(one) is type(other)
    mine, yours = (
        {name: value for name, value in vars(model).items() if name not in ("_own_turns", "_ran_on")}
        for model in (one, other)
    )
    assert mine.keys() == yours.keys()
    for name, value in mine.items():
        assert type(value) is type(yours[name]), name
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, yours[name], err_msg=name, strict=True)
        else:
            assert value == yours[name], name


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


CASES = [
    VonMisesFisherMixture(3, random_state=0, n_threads=1),
    VonMisesFisherMixture(
        4,
        concentration="free",
        assignment="hard",
        estimate="approximate",
        init="random_labels",
        n_init=2,
        max_iter=9,
        tol=0.0,
        stopping="paper",
        initial_concentration=3.5,
        prior_strength=0.25,
        random_state=7,
        n_threads=1,
    ),
    VonMisesFisherMixture(3, init=np.eye(6, dtype=np.float32)[:3], n_threads=1),
    SoftKMeans(3, init="random", n_init=2, random_state=1, n_threads=1),
    SoftKMeans(2, init=np.eye(6)[:2].tolist(), n_threads=1),
    MultinomialMixture(3, weight_concentration_prior=0.5, feature_prior=2.0, random_state=2, n_threads=1),
    MultinomialMixture(3, init="random_labels", random_state=2, n_threads=1),
]


@pytest.mark.parametrize("model", CASES, ids=lambda model: f"{type(model).__name__}-{model.init!s:.10}")
@pytest.mark.parametrize("form", ["dense", "csr", "frame"])
def test_a_loaded_mixture_is_equal_and_answers_with_equal_bits(model, form, path):
    rows = {
        "dense": counts(),
        "csr": sp.csr_array(counts()),
        "frame": pd.DataFrame(counts(), columns=list("abcdef")),
    }[form]
    weights = 1.0 + np.arange(60) % 3
    quiet_fit(model, rows, sample_weight=weights)
    save(model, path)
    loaded = load(path)
    assert_equal_models(loaded, model)
    new = counts(200, seed=1)
    given = pd.DataFrame(new, columns=list("abcdef")) if form == "frame" else new
    for method in ("predict", "predict_proba", "score_samples", "score", "bic", "aic"):
        np.testing.assert_array_equal(getattr(loaded, method)(given), getattr(model, method)(given), err_msg=method)
    if hasattr(model, "sample"):
        np.testing.assert_array_equal(loaded.sample(5, random_state=0)[0], model.sample(5, random_state=0)[0])
    quiet_fit(loaded, rows, sample_weight=weights)
    quiet_fit(model, rows, sample_weight=weights)
    assert_equal_models(loaded, model)


def test_components_without_weight_come_back(path):
    rows = np.eye(3)[np.arange(40) % 2] + 0.05 * np.random.default_rng(0).standard_normal((40, 3))
    model = VonMisesFisherMixture(3, assignment="hard", init=[[1, 0, 0], [0, 1, 0], [-1, -1, -1]], n_threads=1)
    model.fit(rows)
    # K counts components with weight, arrays have a row for each component
    assert (model.n_clusters_, model.weights_[2], len(model.means_)) == (2, 0.0, 3)
    save(model, path)
    loaded = load(path)
    assert_equal_models(loaded, model)
    np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))


@pytest.mark.parametrize("name", MODELS)
def test_an_unfitted_mixture_is_saved_or_refused_like_any_other(name, path):
    made = getattr(armillary, name)(3)
    peer = armillary.SphericalKMeans(3)
    outcomes = []
    for model in (made, peer):
        try:
            save(model, path)
        except ArchiveError as error:
            outcomes.append(str(error).replace(type(model).__name__, "X"))
        else:
            outcomes.append(sorted(vars(load(path))) == sorted(vars(model)))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("name", MODELS)
def test_the_schema_lists_every_fitted_attribute(name):
    model = quiet_fit(getattr(armillary, name)(3, random_state=0), counts())
    known = [field.name for field in schema.MODELS[name].fields]
    assert len(set(known)) == len(known)
    assert set(schema.fitted_attributes(model)) | {"feature_names_in_"} == set(known)
    assert schema.class_named(name) is type(model)


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        (
            "VonMisesFisherMixture",
            {"means_": np.ones((3, 5))},
            (
                "`means_` of VonMisesFisherMixture must be float64 of shape (3, 6); "
                "this model has float64 of shape (3, 5)."
            ),
        ),
        (
            "VonMisesFisherMixture",
            {"concentrations_": np.ones(2)},
            (
                "`concentrations_` of VonMisesFisherMixture must be float64 of shape (3,); "
                "this model has float64 of shape (2,)."
            ),
        ),
        (
            "VonMisesFisherMixture",
            {"labels_": np.zeros(60, dtype=np.int64)},
            "`labels_` of VonMisesFisherMixture must be int32 of shape (60,); this model has int64 of shape (60,).",
        ),
        (
            "VonMisesFisherMixture",
            {"converged_": 1},
            "`converged_` of VonMisesFisherMixture must be one bool; this model has one int.",
        ),
        ("SoftKMeans", {"variance_": ...}, "A fitted SoftKMeans must have `variance_`; this model has none."),
        (
            "SoftKMeans",
            {"concentrations_": np.ones(3)},
            "`concentrations_` is no fitted attribute of SoftKMeans; this model has one.",
        ),
        (
            "MultinomialMixture",
            {"feature_probabilities_": np.ones((2, 6))},
            (
                "`feature_probabilities_` of MultinomialMixture must be float64 of shape (3, 6); "
                "this model has float64 of shape (2, 6)."
            ),
        ),
        (
            "MultinomialMixture",
            {"log_likelihood_": 3},
            "`log_likelihood_` of MultinomialMixture must be one float; this model has one int.",
        ),
    ],
)
def test_attributes_that_do_not_fit_together_are_refused(name, change, sentence, path):
    model = quiet_fit(getattr(armillary, name)(3, random_state=0), counts())
    for attribute, value in change.items():
        if value is ...:
            delattr(model, attribute)
        else:
            setattr(model, attribute, value)
    with pytest.raises(ArchiveError) as caught:
        save(model, path)
    assert str(caught.value).startswith(sentence)
    assert not path.exists()
