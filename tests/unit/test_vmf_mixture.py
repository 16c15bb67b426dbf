"""VonMisesFisherMixture as its users meet it: parameters and their sentences, starts, stopping, what a fit leaves."""

from __future__ import annotations

import math
import pickle
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import special, stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from tests.making import docstring, each, units

from armillary import VonMisesFisherMixture
from armillary.datasets import make_vmf_mixture
from armillary.distributions import vmf
from armillary.draws import Stream
from armillary.engines.cpu import Passes
from armillary.exceptions import ArmillaryError, InputError, ParameterError
from armillary.fitting import initialization
from armillary.kernels.rows import blocks as cpu
from armillary.models.vmf import vmf_mixture
from armillary.points import as_points
from armillary.workers import Workers

FALSE_ALARM = 1e-6  # of each statistical test below; seeds are fixed


def clumped(seed, n_rows=120, n_features=3, n_clumps=4, spread=0.2):
    """Rows around axes of the space and their opposites."""
    rng = np.random.default_rng(seed)
    axes = np.concatenate([np.eye(n_features), -np.eye(n_features)])[:n_clumps]
    rows = axes[np.arange(n_rows) % n_clumps] + spread * rng.standard_normal((n_rows, n_features))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def quiet_fit(model, rows, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows, **arguments)


def steps_of(events):
    return [event for event in events if event.kind == "step"]


ROWS = clumped(0)
ROWS.setflags(write=False)

# ----------------------------------------------------------------------------------------------------- parameters

SHAPE = "must have shape (n_components, n_features) = (4, 3);"
STARTS = "must be one of 'k-means++', 'random', 'random_labels';"
GAIN = " It is a relative gain; 0 runs to the last bit."
SENTENCES = [
    ({"n_components": 0}, "must be an int >= 1; got 0."),
    ({"n_components": 2.0}, "must be an int >= 1; got 2.0."),
    ({"n_components": True}, "must be an int >= 1; got True."),
    ({"n_components": None}, "must be an int >= 1; got None."),
    ({"concentration": "shared"}, "must be one of 'tied', 'free'; got 'shared'."),
    ({"concentration": 10.0}, "must be one of 'tied', 'free'; got 10.0."),
    ({"assignment": "stochastic"}, "must be one of 'soft', 'hard'; got 'stochastic'."),
    ({"estimate": None}, "must be one of 'exact', 'approximate'; got None."),
    ({"init": "kmeans"}, f"{STARTS} got 'kmeans'. Or give directions, shape (K, D)."),
    ({"init": np.eye(3)[:2]}, f"{SHAPE} got (2, 3). Give one direction per component."),
    ({"init": np.eye(4)}, f"{SHAPE} got (4, 4). Give one direction per component."),
    ({"n_init": 0}, "must be an int >= 1; got 0."),
    ({"n_init": "auto"}, "must be an int >= 1; got 'auto'."),
    ({"max_iter": 0}, "must be an int >= 1; got 0."),
    ({"max_iter": 1.5}, "must be an int >= 1; got 1.5."),
    ({"tol": -1e-9}, f"must be a number >= 0; got -1e-09.{GAIN}"),
    ({"tol": math.nan}, f"must be a number >= 0; got nan.{GAIN}"),
    ({"tol": math.inf}, f"must be a number >= 0; got inf.{GAIN}"),
    ({"tol": "small"}, f"must be a number >= 0; got 'small'.{GAIN}"),
    ({"stopping": "absolute"}, "must be one of 'relative', 'paper'; got 'absolute'."),
    ({"prior_strength": -0.1}, "must be a number >= 0; got -0.1."),
    ({"prior_strength": math.inf}, "must be a number >= 0; got inf."),
    ({"prior_strength": math.nan}, "must be a number >= 0; got nan."),
    ({"prior_strength": None}, "must be a number >= 0; got None."),
    ({"n_threads": 0}, "must be an int from 1 to 4096; got 0. None takes every core."),
    ({"verbose": -1}, "must be an int >= 0; got -1. 1 shows a progress bar."),
]


@each(("parameters", "sentence"), SENTENCES)
def test_a_wrong_parameter_is_named(parameters, sentence):
    (name,) = parameters
    model = VonMisesFisherMixture(**{"n_components": 4, "random_state": 0, **parameters})  # nothing is checked here
    with pytest.raises(ParameterError) as caught:
        model.fit(ROWS)
    assert str(caught.value) == f"`{name}` of VonMisesFisherMixture {sentence}"
    assert not hasattr(model, "means_")
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("value", [0, 0.0, -1.0, math.nan, math.inf, "low", None, True])
def test_a_wrong_first_concentration_is_named(value):
    with pytest.raises(ParameterError) as caught:
        VonMisesFisherMixture(4, initial_concentration=value).fit(ROWS)
    text = str(caught.value)
    assert text.startswith("`initial_concentration` of VonMisesFisherMixture must be a number ")
    assert f"; got {value!r}." in text


def test_other_wrong_parameters_are_named():
    with pytest.raises(ParameterError, match=r"`random_state` must be None, an int >= 0, .*; got -1. Pass an int"):
        VonMisesFisherMixture(4, random_state=-1).fit(ROWS)
    with pytest.raises(ParameterError, match=r"`callbacks` of VonMisesFisherMixture must be None, a callable or"):
        VonMisesFisherMixture(4, callbacks=3).fit(ROWS)
    with pytest.raises(ParameterError, match=r"`verbose` of VonMisesFisherMixture must be an int >= 0; got 'loud'"):
        VonMisesFisherMixture(4, verbose="loud").fit(ROWS)


def test_more_components_than_rows():
    with pytest.raises(InputError) as caught:
        VonMisesFisherMixture(9).fit(ROWS[:8])
    assert str(caught.value) == (
        "`n_components` of VonMisesFisherMixture must not exceed the number of rows; got n_components=9 and "
        "n_samples=8. Lower n_components or give more rows."
    )
    quiet_fit(VonMisesFisherMixture(8, random_state=0), ROWS[:8])  # as many as rows is allowed


@pytest.mark.parametrize(
    ("init", "words"),
    [
        ([[1.0, 0.0, 0.0]] * 3 + [[0.0, 0.0, 0.0]], "has norm 0 and no direction"),
        ([[1.0, 0.0, 0.0]] * 3 + [[0.0, 0.0, math.nan]], "contains NaN"),
        ([1.0, 0.0, 0.0], "must be a 2-D array"),
        (object(), "must hold real numbers"),
    ],
)
def test_a_start_without_directions_is_refused_in_its_own_name(init, words):
    with pytest.raises(ArmillaryError, match=words) as caught:
        VonMisesFisherMixture(4, init=init).fit(ROWS)
    assert "`init`" in str(caught.value)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "score_samples", "score", "bic", "aic", "sample"])
def test_an_unfitted_model_says_so(method):
    with pytest.raises(NotFittedError):
        getattr(VonMisesFisherMixture(4), method)(*([] if method == "sample" else [ROWS]))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (np.zeros((10, 3)), "Row 0 of X has norm 0 and no direction; VonMisesFisherMixture takes rows as directions"),
        (np.full((10, 3), np.nan), "Row 0 of X contains NaN; VonMisesFisherMixture needs finite numbers"),
        (np.ones(3), "X of VonMisesFisherMixture must be a 2-D array"),
    ],
)
def test_rows_without_direction_are_refused(wrong, words):
    with pytest.raises(InputError, match=words):
        VonMisesFisherMixture(2).fit(wrong)


def test_other_numbers_of_columns_are_refused():
    model = VonMisesFisherMixture(4, random_state=0).fit(ROWS)
    for method in (model.predict, model.predict_proba, model.score_samples, model.score, model.bic, model.aic):
        with pytest.raises(InputError, match="X has 4 features, but VonMisesFisherMixture is expecting 3 features"):
            method(np.eye(4))


def test_parameters_are_stored_untouched_and_cloned():
    init = np.eye(3)
    values = {
        "n_components": 3,
        "concentration": "free",
        "assignment": "hard",
        "estimate": "approximate",
        "init": init,
        "n_init": 2,
        "max_iter": 7,
        "tol": 0.5,
        "stopping": "paper",
        "initial_concentration": 3.0,
        "prior_strength": 0.25,
        "random_state": 5,
        "n_threads": 1,
        "missing": "flag",
        "device": "cpu",
        "verbose": 0,
        "callbacks": None,
    }
    model = VonMisesFisherMixture(**values)
    assert model.get_params() == values
    assert model.get_params()["init"] is init
    copy = clone(quiet_fit(model, ROWS))
    assert not hasattr(copy, "labels_")
    np.testing.assert_array_equal(copy.init, init)
    assert {name: value for name, value in copy.get_params().items() if name != "init"} == {
        name: value for name, value in values.items() if name != "init"
    }
    assert VonMisesFisherMixture().get_params() == {
        **values,
        "n_components": 8,
        "concentration": "tied",
        "assignment": "soft",
        "estimate": "exact",
        "init": "k-means++",
        "n_init": 1,
        "max_iter": 200,
        "tol": 1e-6,
        "stopping": "relative",
        "initial_concentration": 10.0,
        "prior_strength": 1.0,
        "random_state": None,
        "n_threads": None,
        "missing": "raise",
        "device": None,
    }


# ------------------------------------------------------------------------------------------- what a fit leaves behind


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("concentration", ["tied", "free"])
def test_fitted_attributes(is_sparse, dtype, concentration):
    rows = sp.csr_array(ROWS.astype(dtype)) if is_sparse else ROWS.astype(dtype)
    model = VonMisesFisherMixture(4, concentration=concentration, random_state=0).fit(rows)
    for name, shape in (("weights_", (4,)), ("means_", (4, 3)), ("concentrations_", (4,))):
        assert getattr(model, name).shape == shape, name
        assert getattr(model, name).dtype == np.float64, name
    assert (model.labels_.shape, model.labels_.dtype) == ((120,), np.dtype(np.int32))
    for name, kind in (("log_likelihood_", float), ("n_clusters_", int), ("n_iter_", int), ("converged_", bool)):
        assert type(getattr(model, name)) is kind, name
    assert (model.n_clusters_, model.n_features_in_, model.converged_) == (4, 3, True)
    assert not hasattr(model, "feature_names_in_")
    assert math.isclose(model.weights_.sum(), 1.0, rel_tol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(model.means_, axis=1), 1.0, rtol=1e-14)
    assert (model.concentrations_ > 0.0).all()
    assert (len(np.unique(model.concentrations_)) == 1) == (concentration == "tied")


def test_every_attribute_has_a_line_in_the_docstring_and_every_line_an_attribute():
    model = VonMisesFisherMixture(4, random_state=0).fit(pd.DataFrame(ROWS, columns=list("xyz")))
    section = docstring(VonMisesFisherMixture).split("Attributes\n    ----------\n")[1].split("\n\n")[0]
    names = {
        line.split(" : ")[0].strip()
        for line in section.splitlines()
        if line.startswith("    ") and not line.startswith("     ") and " : " in line
    }
    assert names == {name for name in vars(model) if name.endswith("_") and not name.startswith("_")} | {"device_"}
    parameters = docstring(VonMisesFisherMixture).split("Parameters\n    ----------\n")[1].split("\n\n")[0]
    documented = [line.split(" : ")[0].strip() for line in parameters.splitlines() if " : " in line]
    assert sorted(documented) == sorted(VonMisesFisherMixture().get_params())


def test_known_directions_weights_and_concentrations_are_found():
    rows, labels, mixture = make_vmf_mixture(
        4000, 5, 3, concentration=[20.0, 60.0, 150.0], min_angle=1.0, random_state=3
    )
    model = VonMisesFisherMixture(3, concentration="free", random_state=0).fit(rows)
    order = (model.means_ @ mixture.directions.T).argmax(axis=0)
    assert (model.means_[order] * mixture.directions).sum(axis=1).min() > 0.999
    np.testing.assert_allclose(model.weights_[order], np.bincount(labels) / 4000.0, rtol=0, atol=0.01)
    # the standard error of a concentration from 1,300 rows is kappa sqrt(2 / (4 * 1300)) = 2 per cent
    np.testing.assert_allclose(model.concentrations_[order], mixture.concentrations, rtol=0.15)


@pytest.mark.parametrize("concentration", ["tied", "free"])
@pytest.mark.parametrize("assignment", ["soft", "hard"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
def test_predictions_densities_and_scores_agree(concentration, assignment, is_sparse):
    rng = np.random.default_rng(1)
    rows = clumped(1, spread=0.5, n_features=6)
    given = sp.csr_array(rows) if is_sparse else rows
    weights = rng.gamma(1.0, size=120)
    model = VonMisesFisherMixture(4, concentration=concentration, assignment=assignment, random_state=0)
    quiet_fit(model, given, sample_weight=weights)
    log_densities = np.stack(
        [
            math.log(weight) + vmf.log_density(rows, mean, kappa)
            for weight, mean, kappa in zip(model.weights_, model.means_, model.concentrations_, strict=True)
        ],
        axis=1,
    )
    wanted = special.logsumexp(log_densities, axis=1)
    responsibilities = model.predict_proba(given)
    assert responsibilities.shape == (120, 4)
    np.testing.assert_allclose(responsibilities, np.exp(log_densities - wanted[:, None]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(responsibilities.sum(axis=1), 1.0, rtol=1e-13)
    np.testing.assert_array_equal(model.predict(given), model.labels_)
    np.testing.assert_array_equal(responsibilities.argmax(axis=1), model.labels_)
    np.testing.assert_array_equal(log_densities.argmax(axis=1), model.labels_)
    np.testing.assert_allclose(model.score_samples(given), wanted, rtol=0, atol=1e-11)
    assert math.isclose(model.score(given), wanted.mean(), rel_tol=1e-11)
    assert math.isclose(model.score(given, sample_weight=weights), weights @ wanted / weights.sum(), rel_tol=1e-11)
    assert math.isclose(model.log_likelihood_, weights @ wanted, rel_tol=1e-11)
    # one row at a time is the same
    np.testing.assert_allclose(np.concatenate([model.predict(given[[i]]) for i in range(9)]), model.labels_[:9])
    np.testing.assert_allclose(
        np.concatenate([model.score_samples(given[[i]]) for i in range(9)]), wanted[:9], rtol=0, atol=1e-11
    )


@pytest.mark.parametrize(("concentration", "n_parameters"), [("tied", 3 + 4 * 2 + 1), ("free", 3 + 4 * 2 + 4)])
def test_information_criteria_by_hand(concentration, n_parameters):
    model = VonMisesFisherMixture(4, concentration=concentration, random_state=0).fit(ROWS)
    other = clumped(3, n_rows=77)
    for rows in (ROWS, other, sp.csr_array(other)):
        log_likelihood = model.score_samples(rows).sum()
        assert math.isclose(model.aic(rows), 2.0 * n_parameters - 2.0 * log_likelihood, rel_tol=1e-12)
        n_rows = rows.shape[0]
        assert math.isclose(model.bic(rows), n_parameters * math.log(n_rows) - 2.0 * log_likelihood, rel_tol=1e-12)


def test_the_bayesian_criterion_finds_the_number_of_components():
    rows, _, _ = make_vmf_mixture(900, 3, 3, concentration=60.0, min_angle=1.2, random_state=2)
    scores = {k: VonMisesFisherMixture(k, n_init=3, random_state=0).fit(rows).bic(rows) for k in (1, 2, 3, 4, 5)}
    assert min(scores, key=scores.get) == 3


def test_fit_predict_is_labels_and_predict_changes_nothing():
    model = VonMisesFisherMixture(4, random_state=0)
    np.testing.assert_array_equal(model.fit_predict(ROWS), model.labels_)
    weights = np.arange(120) % 3
    labels = VonMisesFisherMixture(4, random_state=0).fit_predict(ROWS, sample_weight=weights)
    np.testing.assert_array_equal(labels, VonMisesFisherMixture(4, random_state=0).fit(ROWS, None, weights).labels_)
    before = pickle.dumps(model)
    for method in ("predict", "predict_proba", "score_samples", "score", "bic", "aic"):
        getattr(model, method)(clumped(9))
    model.sample(5, random_state=0)
    assert pickle.dumps(model) == before


def test_a_pickled_model_answers_alike():
    model = VonMisesFisherMixture(4, concentration="free", random_state=0).fit(ROWS)
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict_proba(ROWS), model.predict_proba(ROWS))
    np.testing.assert_array_equal(twin.sample(7, random_state=1)[0], model.sample(7, random_state=1)[0])


def test_names_of_columns():
    frame = pd.DataFrame(ROWS, columns=["x", "y", "z"])
    model = VonMisesFisherMixture(4, random_state=0).fit(frame)
    assert list(model.feature_names_in_) == ["x", "y", "z"]
    np.testing.assert_array_equal(model.labels_, VonMisesFisherMixture(4, random_state=0).fit(ROWS).labels_)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"x": "u"}))
    model.fit(ROWS)
    assert not hasattr(model, "feature_names_in_")


def test_a_second_fit_forgets_the_first():
    model = VonMisesFisherMixture(4, random_state=0).fit(clumped(5, n_features=7)).fit(ROWS)
    fresh = VonMisesFisherMixture(4, random_state=0).fit(ROWS)
    published = {name for name in vars(fresh) if name.endswith("_")}
    assert {name for name in vars(model) if name.endswith("_")} == published
    for name in published:
        np.testing.assert_array_equal(getattr(model, name), getattr(fresh, name))


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    model = VonMisesFisherMixture(4, random_state=0).fit(ROWS)
    before = pickle.dumps(model)
    for wrong in (np.full((10, 3), np.nan), np.zeros((10, 3)), np.ones((2, 3)), "rows"):
        with pytest.raises(ArmillaryError):
            model.fit(wrong)
        assert pickle.dumps(model) == before
    with pytest.raises(ArmillaryError):
        model.fit(ROWS, sample_weight=np.zeros(120))
    assert pickle.dumps(model) == before


def test_a_callback_that_fails_or_a_warning_that_raises_leaves_the_model_as_it_was():
    model = VonMisesFisherMixture(4, random_state=0).fit(ROWS)

    def fail(event):
        if event.step == 2:
            raise RuntimeError("enough")

    before = {name: value for name, value in vars(model).items() if name.endswith("_")}
    model.callbacks = fail
    with pytest.raises(RuntimeError, match="enough"):
        model.fit(clumped(7, n_features=5))
    model.callbacks = None
    model.max_iter = 1
    with pytest.raises(ConvergenceWarning):  # warnings are errors here
        model.fit(clumped(7, n_features=5))
    model.set_params(max_iter=50, n_components=2)
    with pytest.raises(ConvergenceWarning, match="holds the concentration"):
        model.fit(np.repeat(np.eye(5)[:2], 10, axis=0))
    after = {name: value for name, value in vars(model).items() if name.endswith("_")}
    assert before.keys() == after.keys()
    assert all(after[name] is value for name, value in before.items())


def test_seeds():
    rows = units(np.random.default_rng(11), 100, 3)

    def means(random_state):
        return quiet_fit(VonMisesFisherMixture(5, random_state=random_state, max_iter=3), rows).means_

    np.testing.assert_array_equal(means(7), means(7))
    np.testing.assert_array_equal(means(np.random.default_rng(7)), means(7))
    assert (means(7) != means(8)).any()
    assert (means(None) != means(None)).any()
    generator = np.random.default_rng(1)
    assert (means(generator) != means(generator)).any()  # a generator moves on


@pytest.mark.parametrize("n_features", [3, 40])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("assignment", ["soft", "hard"])
def test_the_number_of_threads_does_not_change_a_bit(n_features, is_sparse, assignment):
    rng = np.random.default_rng(12)
    rows = units(rng, 6000 if n_features == 3 else 5000, n_features).astype(np.float32)
    rows[rng.random(rows.shape) < 0.3] = 0.0
    rows[:, 0] += 0.5
    given = sp.csr_array(rows) if is_sparse else rows
    weights = rng.gamma(1.0, size=len(rows))
    models = [
        quiet_fit(
            VonMisesFisherMixture(6, assignment=assignment, random_state=0, max_iter=4, n_threads=n_threads),
            given,
            sample_weight=weights,
        )
        for n_threads in (1, 2, 3)
    ]
    for model in models[1:]:
        for name in ("weights_", "means_", "concentrations_", "labels_", "log_likelihood_"):
            np.testing.assert_array_equal(getattr(model, name), getattr(models[0], name), err_msg=name)
        np.testing.assert_array_equal(model.predict_proba(given), models[0].predict_proba(given))
        assert model.score(given) == models[0].score(given)


# ---------------------------------------------------------------------------------------------------------- draws


def test_draws_have_the_law_of_the_model():
    model = VonMisesFisherMixture(3, concentration="free", random_state=0)
    model.fit(make_vmf_mixture(600, 4, 3, concentration=[5.0, 30.0, 90.0], min_angle=1.0, random_state=5)[0])
    drawn, components = model.sample(6000, random_state=17)
    assert (drawn.shape, drawn.dtype) == ((6000, 4), np.dtype(np.float64))
    assert (components.shape, components.dtype) == ((6000,), np.dtype(np.int32))
    assert (np.diff(components) >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1.0, rtol=1e-12)
    counts = np.bincount(components, minlength=3)
    expected = 6000.0 * model.weights_
    message = "random_state 17"
    assert ((counts - expected) ** 2 / expected).sum() < stats.chi2.isf(FALSE_ALARM, 2), message
    for k in range(3):
        cosines = drawn[components == k] @ model.means_[k]
        fresh = vmf.sample(model.means_[k], model.concentrations_[k], 4000, 23) @ model.means_[k]
        assert stats.ks_2samp(cosines, fresh).pvalue > FALSE_ALARM, message
        # the law of the cosine in D = 4: density proportional to exp(kappa t) sqrt(1 - t^2)
        grid = np.linspace(-1.0, 1.0, 20_001)
        density = np.exp(model.concentrations_[k] * (grid - 1.0)) * np.sqrt(1.0 - grid**2)
        cumulative = np.cumsum(density) / density.sum()
        law = stats.kstest(cosines, lambda t, c=cumulative, g=grid: np.interp(t, g, c))
        assert law.pvalue > FALSE_ALARM, message
        # the planted mistake: the concentration of another component
        wrong = vmf.sample(model.means_[k], model.concentrations_[k - 1], 4000, 23) @ model.means_[k]
        assert stats.ks_2samp(cosines, wrong).pvalue < FALSE_ALARM


def test_draws_repeat_by_seed_and_refuse_no_rows():
    model = VonMisesFisherMixture(4, random_state=0).fit(ROWS)
    np.testing.assert_array_equal(model.sample(9, random_state=3)[0], model.sample(9, random_state=3)[0])
    assert (model.sample(9, random_state=3)[0] != model.sample(9, random_state=4)[0]).any()
    assert model.sample()[0].shape == (1, 3)
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(ParameterError) as caught:
            model.sample(wrong)
        assert str(caught.value) == f"`n_samples` of VonMisesFisherMixture.sample must be an int >= 1; got {wrong!r}."


def test_a_component_of_weight_zero_is_never_drawn():
    model = hard_with_empty_component()
    _, components = model.sample(500, random_state=0)
    assert set(components) == {0, 1}


# --------------------------------------------------------------------------------------------- empty and collapsing


def far_start():
    """Two good directions, and one that is far from all rows."""
    return np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, -1.0, -0.5]])


def hard_with_empty_component(**parameters):
    model = VonMisesFisherMixture(3, assignment="hard", init=far_start(), **parameters)
    return quiet_fit(model, clumped(7, n_clumps=2))


@pytest.mark.parametrize("assignment", ["soft", "hard"])
@pytest.mark.parametrize("concentration", ["tied", "free"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
def test_an_empty_component_keeps_its_direction_and_has_no_weight(assignment, concentration, is_sparse):
    rows = clumped(7, n_clumps=2)
    # responsibilities of the third component are below exp(-5000): zero in the soft case too
    model = VonMisesFisherMixture(
        3, concentration=concentration, assignment=assignment, init=far_start(), initial_concentration=10_000.0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(sp.csr_array(rows) if is_sparse else rows)
    assert model.weights_[2] == 0.0
    assert math.isclose(model.weights_.sum(), 1.0, rel_tol=1e-14)
    wanted = far_start() / np.linalg.norm(far_start(), axis=1, keepdims=True)
    np.testing.assert_allclose(model.means_[2], wanted[2], rtol=1e-14)
    if concentration == "free":
        assert model.concentrations_[2] == 10_000.0
    assert model.n_clusters_ == 2
    assert np.isfinite(model.log_likelihood_)
    assert np.isfinite(model.concentrations_).all()
    np.testing.assert_array_equal(model.labels_, model.predict(rows))
    assert set(model.labels_) == {0, 1}
    assert not model.predict_proba(rows)[:, 2].any()
    # even a row on its direction is not given to it
    assert model.predict(wanted[2:])[0] < 2
    assert np.isfinite(model.score_samples(wanted)).all()
    assert math.isclose(model.score(rows) * len(rows), model.log_likelihood_, rel_tol=1e-12)


@pytest.mark.parametrize("concentration", ["tied", "free"])
def test_a_component_that_all_but_vanishes_keeps_its_direction(concentration):
    # responsibilities of about 1e-30: fewer rows than count (1e-8), but not zero
    rows = clumped(7, n_clumps=2, spread=0.05)
    model = VonMisesFisherMixture(
        3, concentration=concentration, init=far_start(), initial_concentration=40.0, max_iter=1
    )
    quiet_fit(model, rows)
    assert 0.0 < model.weights_[2] < 1e-20
    wanted = far_start()[2] / np.linalg.norm(far_start()[2])
    np.testing.assert_allclose(model.means_[2], wanted, rtol=1e-14)
    if concentration == "free":
        assert model.concentrations_[2] == 40.0
    assert model.n_clusters_ == 2


def test_a_hard_component_that_loses_its_rows_is_left_alone():
    model = hard_with_empty_component(concentration="free")
    other = hard_with_empty_component(concentration="free", prior_strength=0.0)
    for one in (model, other):
        assert one.weights_[2] == 0.0
        assert one.concentrations_[2] == 10.0


def bound(dimension):
    return float(vmf.concentration_from_resultant(dimension, 1.0 - 1e-12))


def test_copies_are_held_at_a_bound_and_that_is_said():
    rows = np.concatenate([np.repeat(np.eye(3)[:1], 40, axis=0), clumped(13, n_rows=60, n_clumps=6)])
    model = VonMisesFisherMixture(
        2, concentration="free", prior_strength=0.0, init=[[1.0, 0.0, 0.0], [-1.0, 1.0, 1.0]],
        initial_concentration=500.0,
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(rows)
    assert len(caught) == 1
    assert str(caught[0].message) == (
        "VonMisesFisherMixture holds the concentration of component 0 at its bound 1e+12: the rows there are equal or "
        "nearly so. Lower n_components, raise prior_strength, or drop copies."
    )
    assert caught[0].filename == __file__
    assert math.isclose(model.concentrations_[0], bound(3), rel_tol=1e-12)
    assert model.concentrations_[1] < 100.0
    assert np.isfinite(model.log_likelihood_)
    # a prior worth one row draws it away from the bound
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(prior_strength=1.0).fit(rows)
    assert model.concentrations_[0] < 1000.0


@pytest.mark.parametrize("n_features", [2, 3, 50])
@pytest.mark.parametrize("concentration", ["tied", "free"])
@pytest.mark.parametrize("assignment", ["soft", "hard"])
@pytest.mark.parametrize("estimate", ["exact", "approximate"])
def test_rows_that_all_sit_on_k_directions_are_bounded(n_features, concentration, assignment, estimate):
    rows = np.repeat(np.eye(n_features)[:2], 15, axis=0)
    model = VonMisesFisherMixture(
        2,
        concentration=concentration,
        assignment=assignment,
        estimate=estimate,
        prior_strength=0.0,
        initial_concentration=100.0,
        random_state=0,
    )
    with pytest.warns(ConvergenceWarning, match=r"holds the concentration of component 0, 1 at its bound"):
        model.fit(rows)
    assert np.isfinite(model.log_likelihood_)
    np.testing.assert_allclose(model.concentrations_, bound(n_features), rtol=1e-3)
    assert len(np.unique(model.labels_)) == 2
    np.testing.assert_array_equal(model.labels_, model.predict(rows))


def test_rows_that_cancel_have_concentration_zero():
    rows = np.concatenate([np.eye(3), -np.eye(3)])
    model = quiet_fit(VonMisesFisherMixture(1, init=[[0.0, 0.6, 0.8]]), rows)
    assert model.concentrations_[0] <= 1e-15
    np.testing.assert_allclose(model.means_, [[0.0, 0.6, 0.8]], rtol=1e-14)  # no direction: the old one is kept
    assert math.isclose(model.score(rows), -math.log(4.0 * math.pi), rel_tol=1e-14)


# ------------------------------------------------------------------------------------------------------------ prior


def test_prior_strength_zero_is_maximum_likelihood_and_does_not_touch_tied():
    rows = clumped(14, spread=0.4)
    weak = VonMisesFisherMixture(3, concentration="free", prior_strength=0.0, init=rows[:3], tol=0.0, max_iter=150)
    quiet_fit(weak, rows)
    shares = weak.predict_proba(rows)
    lengths = np.linalg.norm(shares.T @ rows, axis=1) / shares.sum(axis=0)
    np.testing.assert_allclose(vmf.mean_resultant_length(3, weak.concentrations_), lengths, rtol=1e-6)
    events = []
    weak.set_params(callbacks=events.append, max_iter=5)
    quiet_fit(weak, rows)
    # without a prior the objective is the likelihood over that of the uniform law
    final = weak.log_likelihood_ + 120.0 * math.log(4.0 * math.pi)
    longer = []
    quiet_fit(weak.set_params(callbacks=longer.append, max_iter=6), rows)
    assert math.isclose(steps_of(longer)[5].objective, final, rel_tol=1e-12)
    tied = [
        quiet_fit(VonMisesFisherMixture(3, prior_strength=t, init=rows[:3]), rows).concentrations_ for t in (0.0, 50.0)
    ]
    np.testing.assert_array_equal(*tied)


def test_a_strong_prior_ties_free_concentrations():
    rows = make_vmf_mixture(600, 3, 3, concentration=[5.0, 50.0, 200.0], min_angle=1.2, random_state=4)[0]
    ratios = []
    for t in (0.0, 1.0, 100.0, 1e4, 1e9):
        model = VonMisesFisherMixture(3, concentration="free", prior_strength=t, random_state=0)
        found = quiet_fit(model, rows).concentrations_
        ratios.append(found.max() / found.min())
    assert all(after < before for before, after in pairwise(ratios))
    assert ratios[0] > 10.0
    assert ratios[-1] < 1.0001


def test_the_anchor_is_that_of_the_first_step_of_each_run():
    rows = clumped(15, spread=0.4)
    given = VonMisesFisherMixture(3, concentration="free", prior_strength=2.0, init=rows[:3]).get_params()
    parameters = vmf_mixture.Parameters.check(given, as_points(rows, "test"), "Model")
    with Workers(1) as workers:
        passes = Passes(as_points(rows, "test"), cpu, workers)
        state = vmf_mixture.initial_state(passes, parameters, Stream.of(0), 1)
        assert state.anchor is None
        np.testing.assert_array_equal(state.concentrations, [10.0] * 3)
        np.testing.assert_allclose(state.log_weights, [-math.log(3.0)] * 3)
        anchors = []
        for _ in range(4):
            statistics, _ = passes.soft_sums(vmf_mixture.score_rule(state))
            state = vmf_mixture.update(state, statistics, parameters)
            anchors.append(state.anchor)
            if len(anchors) == 1:
                pooled = np.linalg.norm(statistics.resultants, axis=1).sum() / 120.0
    assert set(anchors) == {anchors[0]}
    assert math.isclose(anchors[0], pooled, rel_tol=1e-13)


# ------------------------------------------------------------------------------------------------------------ starts


def first_means(init, seed, rows, weights=None, n_components=4):
    given = VonMisesFisherMixture(n_components, init=init).get_params()
    parameters = vmf_mixture.Parameters.check(given, as_points(rows, "test", weights), "Model")
    with Workers(1) as workers:
        passes = Passes(as_points(rows, "test", weights), cpu, workers)
        return vmf_mixture.initial_state(passes, parameters, Stream.of(seed), 1).directions


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_starts_that_are_rows(init):
    for seed in range(5):
        start = first_means(init, seed, ROWS)
        assert ((start @ ROWS.T).max(axis=1) > 1.0 - 1e-14).all()
        assert len(np.unique(start, axis=0)) == 4


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
def test_random_labels_start_at_the_means_of_random_groups(is_sparse):
    rng = np.random.default_rng(16)
    weights = rng.gamma(1.0, size=120)
    given = sp.csr_array(ROWS) if is_sparse else ROWS
    start = first_means("random_labels", 3, given, weights)
    labels = Stream.of(3).generator("start", 1).integers(4, size=120, dtype=np.int32)
    resultants = (np.eye(4)[labels] * weights[:, None]).T @ ROWS
    np.testing.assert_allclose(start, resultants / np.linalg.norm(resultants, axis=1, keepdims=True), rtol=1e-12)
    # all groups are much alike: that is what makes it the seed's start and a hard one
    positive = clumped(2, n_clumps=3) + 0.5
    start = first_means("random_labels", 3, positive)
    assert (start @ start.T).min() > 0.95


def test_random_labels_fill_empty_groups_with_rows():
    rows = ROWS[:5]
    for seed in range(20):
        start = first_means("random_labels", seed, rows, n_components=5)
        np.testing.assert_allclose(np.linalg.norm(start, axis=1), 1.0, rtol=1e-13)
        labels = Stream.of(seed).generator("start", 1).integers(5, size=5, dtype=np.int32)
        for empty in set(range(5)) - set(labels.tolist()):
            assert (rows @ start[empty]).max() > 1.0 - 1e-14


def test_starts_differ_by_restart_and_repeat_by_seed():
    rows = units(np.random.default_rng(18), 60, 4)
    for init in ("k-means++", "random", "random_labels"):
        objectives = []
        for _ in range(2):
            events = []
            model = VonMisesFisherMixture(4, init=init, n_init=3, max_iter=2, random_state=5, callbacks=events.append)
            quiet_fit(model, rows)
            objectives.append([event.objective for event in steps_of(events) if event.step == 1])
        assert objectives[0] == objectives[1]
        assert len(set(objectives[0])) == 3


def test_a_given_start_is_normalised_and_left_alone():
    start = np.array([[2.0, 0, 0], [0, 3, 0], [0, 0, 0.5], [-1, 0, 0]])
    given = start.copy()
    model = VonMisesFisherMixture(4, init=given).fit(ROWS)
    np.testing.assert_array_equal(given, start)
    assert model.init is given
    for same in (start.tolist(), sp.csr_array(start), np.asfortranarray(start), start.astype(np.float32)):
        np.testing.assert_array_equal(VonMisesFisherMixture(4, init=same).fit(ROWS).means_, model.means_)
    given[:] = 0.0  # the model holds nothing of it
    np.testing.assert_array_equal(model.predict(ROWS), model.labels_)


@pytest.mark.parametrize("assignment", ["soft", "hard"])
def test_the_run_with_the_best_objective_is_kept(assignment):
    rng = np.random.default_rng(19)
    rows = units(rng, 9, 5)[rng.integers(0, 9, 120)] + 0.25 * rng.standard_normal((120, 5))
    n_strict = 0
    for seed in range(3):
        events = []
        model = VonMisesFisherMixture(
            7, init="random", n_init=4,
            max_iter=8, random_state=seed, assignment=assignment, concentration="free",
            callbacks=events.append,
        )  # fmt: skip
        quiet_fit(model, rows)
        last = {event.restart: event for event in steps_of(events)}
        assert sorted(last) == [1, 2, 3, 4]
        objectives = [last[restart].objective for restart in sorted(last)]
        kept = events[-1]
        assert (kept.kind, kept.restart) == ("end", 1 + int(np.argmax(objectives)))
        assert kept.objective == max(objectives)
        assert model.n_iter_ == last[kept.restart].step
        alone = VonMisesFisherMixture(
            7, init="random", max_iter=8, random_state=seed, assignment=assignment, concentration="free"
        )
        if kept.restart == 1:
            np.testing.assert_array_equal(quiet_fit(alone, rows).means_, model.means_)
        n_strict += max(objectives) > objectives[-1] + 1e-6
    assert n_strict > 0  # the best is not simply the last


# ---------------------------------------------------------------------------------------------------------- stopping


def trace(rows, **parameters):
    events = []
    model = VonMisesFisherMixture(4, random_state=0, callbacks=events.append, **parameters)
    quiet_fit(model, rows)
    return model, [event.objective for event in steps_of(events)]


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-9])
def test_the_default_stops_when_two_gains_in_a_row_are_small(tol):
    rows = clumped(20, spread=0.6)
    model, objectives = trace(rows, tol=tol)
    gains = [(after - before) / abs(after) for before, after in pairwise(objectives)]
    assert model.converged_
    assert model.n_iter_ == len(objectives)
    is_small = [gain <= tol for gain in gains]
    assert is_small[-2:] == [True, True]
    assert not any(one and two for one, two in pairwise(is_small[:-1]))


def test_the_gain_is_relative_to_the_gain_over_the_uniform_law():
    # in D = 300 the log area is -457 a row; a rule relative to the raw likelihood would stop at other steps
    rows = clumped(21, n_features=300, spread=0.3)
    model, objectives = trace(rows, max_iter=3)
    assert not model.converged_
    log_area = math.log(2.0) + 150.0 * math.log(math.pi) - math.lgamma(150.0)
    _, longer = trace(rows, max_iter=4)
    assert math.isclose(longer[3], model.log_likelihood_ + 120.0 * log_area, rel_tol=1e-9)
    assert objectives == longer[:3]


def test_the_rule_of_the_paper(monkeypatch):
    rows = clumped(22, n_rows=2000, spread=0.9)
    monkeypatch.setattr(vmf_mixture, "_PAPER_CHANGE", 0.0)  # leave only the first rule
    model, objectives = trace(rows, stopping="paper", tol=0.0)
    gains = [after - before for before, after in pairwise(objectives)]
    assert model.converged_
    assert gains[-1] <= 0.1
    assert all(gain > 0.1 for gain in gains[:-1])
    # tol has no part in it
    other, _ = trace(rows, stopping="paper", tol=10.0)
    assert other.n_iter_ == model.n_iter_
    # either rule is enough
    monkeypatch.undo()
    both, _ = trace(rows, stopping="paper")
    assert both.n_iter_ <= model.n_iter_


def test_the_paper_also_stops_when_no_parameter_moves_by_a_hundredth(monkeypatch):
    rows = clumped(23, n_rows=400, spread=0.9)
    monkeypatch.setattr(vmf_mixture, "_PAPER_GAIN", -math.inf)  # leave only the second rule
    model, _ = trace(rows, stopping="paper")
    states = [model]
    for n_steps in (model.n_iter_ - 1, model.n_iter_ - 2):
        states.append(trace(rows, stopping="paper", max_iter=n_steps)[0])
    moves = [
        max(np.abs(getattr(after, name) - getattr(before, name)).max() for name in vars(model) if name in MOVING)
        for after, before in pairwise(states)
    ]
    assert moves[0] < 0.01 <= moves[1]
    assert model.converged_
    assert not states[1].converged_


MOVING = ("weights_", "means_", "concentrations_")


def test_hard_assignments_stop_when_no_label_changes():
    rows = clumped(24, spread=0.9)
    model, _ = trace(rows, assignment="hard", tol=0.0)
    assert model.converged_
    assert model.n_iter_ >= 4
    # after n steps `labels_` are those of the step to come: it is the first that changes none that ends the run
    labels = [trace(rows, assignment="hard", tol=0.0, max_iter=n)[0].labels_ for n in range(1, model.n_iter_)]
    assert np.array_equal(labels[-1], labels[-2])
    assert not any(np.array_equal(one, other) for one, other in pairwise(labels[:-1]))


@pytest.mark.parametrize(("stopping", "ways"), [("relative", "max_iter or tol"), ("paper", "max_iter")])
def test_all_steps_used_is_said(stopping, ways):
    rows = clumped(25, spread=0.9)
    with pytest.warns(ConvergenceWarning) as caught:
        model = VonMisesFisherMixture(4, max_iter=2, stopping=stopping, random_state=0).fit(rows)
    (message,) = (str(one.message) for one in caught)
    assert message == f"VonMisesFisherMixture used all 2 steps and was still gaining. Raise {ways}."
    assert caught[0].filename == __file__  # the warning points at the caller
    assert (model.n_iter_, model.converged_) == (2, False)


def test_events_tell_of_every_step():
    events = []
    model = VonMisesFisherMixture(4, random_state=0, n_init=2, max_iter=50, callbacks=[events.append]).fit(ROWS)
    assert [event.kind for event in events].count("start") == 1
    assert {event.model for event in events} == {"VonMisesFisherMixture"}
    assert {(event.n_rows, event.n_restarts, event.max_steps) for event in events} == {(120, 2, 50)}
    assert all(event.n_clusters == 4 for event in steps_of(events))
    assert events[-1].step == model.n_iter_


# --------------------------------------------------------------------------------------------------- representations


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array])
@pytest.mark.parametrize("concentration", ["tied", "free"])
@pytest.mark.parametrize("assignment", ["soft", "hard"])
def test_sparse_rows_are_dense_rows_to_rounding(kind, concentration, assignment):
    rng = np.random.default_rng(26)
    rows = rng.random((150, 60)) * (rng.random((150, 60)) < 0.2)
    rows[np.arange(150), np.arange(150) % 5] += 2.0
    parameters = {
        "concentration": concentration, "assignment": assignment, "random_state": 0, "init": rows[:5], "max_iter": 12,
    }  # fmt: skip
    dense = quiet_fit(VonMisesFisherMixture(5, **parameters), rows)
    sparse = quiet_fit(VonMisesFisherMixture(5, **parameters), kind(rows))
    np.testing.assert_array_equal(sparse.labels_, dense.labels_)
    np.testing.assert_allclose(sparse.means_, dense.means_, rtol=0, atol=1e-11)
    np.testing.assert_allclose(sparse.concentrations_, dense.concentrations_, rtol=1e-9)
    assert math.isclose(sparse.log_likelihood_, dense.log_likelihood_, rel_tol=1e-11)
    np.testing.assert_allclose(sparse.predict_proba(rows), dense.predict_proba(kind(rows)), rtol=0, atol=1e-9)


def test_sparse_rows_stay_sparse(monkeypatch):
    rng = np.random.default_rng(27)
    rows = sp.random_array((400, 3000), density=0.01, random_state=rng, format="csr")
    rows = sp.csr_array(rows + sp.csr_array((np.ones(400), (np.arange(400), np.arange(400))), shape=rows.shape))
    made_dense = []
    to_array = sp.csr_array.toarray

    def watched(matrix, *arguments, **options):
        made_dense.append(matrix.shape[0])
        return to_array(matrix, *arguments, **options)

    monkeypatch.setattr(sp.csr_array, "toarray", watched)
    for name in ("todense", "__array__"):
        monkeypatch.setattr(sp.csr_array, name, lambda *_: pytest.fail("a sparse matrix was made dense"), raising=False)
    for init in ("k-means++", "random", "random_labels"):
        for assignment in ("soft", "hard"):
            model = VonMisesFisherMixture(5, init=init, assignment=assignment, random_state=0, max_iter=5)
            quiet_fit(model, rows)
    assert max(made_dense) <= 5  # rows that start components, and the few that k-means++ compares
    made_dense.clear()
    for method in ("predict", "predict_proba", "score_samples", "score", "bic"):
        getattr(model, method)(rows)
    assert made_dense == []


def test_initialization_words_are_those_of_the_model():
    assert initialization.check_init("random", (2, 3), "n_components", "X", vmf_mixture.STARTS) == "random"
    assert vmf_mixture.STARTS == ("k-means++", "random", "random_labels")
