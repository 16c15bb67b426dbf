"""BayesianVonMisesFisherMixture as its users meet it: parameters and their sentences, what each kind of fit leaves."""

from __future__ import annotations

import math
import pickle
import re
import warnings
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from tests.making import each

from armillary import VonMisesFisherMixture
from armillary.datasets import make_vmf_mixture
from armillary.distributions import bessel, vmf
from armillary.draws import Stream
from armillary.engines.cpu import Passes
from armillary.exceptions import InputError, ParameterError
from armillary.geometry.sphere import log_area
from armillary.kernels.rows import blocks as cpu
from armillary.models.vmf import _bayesian_vmf_fit as fits
from armillary.models.vmf import _variational_steps as steps
from armillary.models.vmf import _variational_vmf as v
from armillary.models.vmf.bayesian_vmf_mixture import BayesianVonMisesFisherMixture
from armillary.models.vmf.gibbs_vmf_mixture import GibbsVonMisesFisherMixture
from armillary.points import as_points
from armillary.rules import AffineRule
from armillary.workers import Workers

ROWS, TRUTH, _ = make_vmf_mixture(400, 5, 3, concentration=40.0, min_angle=1.0, random_state=3)
ROWS.setflags(write=False)
STARTS = ROWS[[int(np.flatnonzero(k == TRUTH)[0]) for k in range(3)]]


def model(n_components=3, **parameters):
    return BayesianVonMisesFisherMixture(n_components, **{"random_state": 0, "n_threads": 1, **parameters})


def drawn(n_components=3, **parameters):
    return GibbsVonMisesFisherMixture(n_components, **{"random_state": 0, "n_threads": 1, **parameters})


def quiet(fitting, *given, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fitting(*given, **named)


def fitted_attributes(fitted):
    return {name: value for name, value in vars(fitted).items() if name.endswith("_")}


def same_model(fitted):
    """What a file keeps of a model: its parameters, its public fitted attributes and its saved state."""
    other = type(fitted)(**fitted.get_params())
    for name, value in {**fitted_attributes(fitted), "_saved_state": fitted._saved_state}.items():
        setattr(other, name, pickle.loads(pickle.dumps(value)))
    return other


def assert_equal_bits(one, other):
    assert fitted_attributes(one).keys() == fitted_attributes(other).keys()
    for name, value in fitted_attributes(one).items():
        np.testing.assert_array_equal(value, getattr(other, name), err_msg=name)
    assert one._saved_state == other._saved_state


# ----------------------------------------------------------------------------------------------------- parameters

SENTENCES = [
    ({"n_components": 0}, "must be an int >= 1; got 0."),
    ({"n_components": 500}, "must not exceed the number of rows; got n_components=500 and n_samples=400."),
    ({"inference": "em"}, "must be one of 'variational'; got 'em'."),
    (
        {"inference": "gibbs"},
        "must be 'variational'; got 'gibbs'. Gibbs sampling is a class of its own: GibbsVonMisesFisherMixture(",
    ),
    ({"factors": "both"}, "must be one of 'joint', 'factorised'; got 'both'."),
    ({"concentration_posterior": "laplace"}, "must be one of 'grid', 'monte_carlo', 'log_normal'; got 'laplace'."),
    ({"log_normal_bound": "turan"}, "must be one of 'quadrature', 'jensen', 'delta'; got 'turan'."),
    ({"weight_prior": "uniform"}, "must be one of 'dirichlet', 'stick_breaking'; got 'uniform'."),
    ({"empirical_bayes": "yes"}, "must be True or False; got 'yes'."),
    ({"weight_concentration_prior": 0.0}, "must be a number in (0, inf); got 0.0."),
    ({"mean_direction_prior": [1.0, 2.0]}, "must be None or one direction, shape (5,); got shape (2,)."),
    ({"mean_direction_prior": np.zeros(5)}, "must be None or one direction, shape (5,); got one of norm 0."),
    ({"mean_direction_prior": "north"}, "must be None or one direction, shape (5,); got 'north'."),
    ({"mean_concentration_prior": -1.0}, "must be a number in [0, 1e+10]; got -1.0."),
    ({"log_concentration_mean_prior": 1e3}, "must be a number in [-23, 27]; got 1000.0. It is a logarithm; None takes"),
    ({"log_concentration_variance_prior": 0.0}, "must be a number in [1e-06, 100]; got 0.0."),
    ({"init": "labels"}, "must be one of 'k-means++', 'random', 'random_labels'; got 'labels'."),
    ({"init": np.eye(5)}, "must have shape (n_components, n_features) = (3, 5); got (5, 5)."),
    ({"n_init": 0}, "must be an int >= 1; got 0."),
    ({"max_iter": 0}, "must be an int >= 1; got 0."),
    ({"tol": -1.0}, "must be a number >= 0; got -1.0. It is a relative gain; 0 runs to the last bit."),
    ({"merge": "never"}, "must be 'auto', True or False; got 'never'."),
    ({"batch_size": 2}, "must be an int >= 3; got 2. A batch starts the components, so it has at least n_components"),
    ({"total_rows": 0}, "must be a number in (0, inf); got 0."),
    ({"learning_offset": 0.5}, "must be a number >= 1; got 0.5."),
    ({"learning_decay": 0.3}, "must be a number in [0.5, 1]; got 0.3."),
    ({"n_threads": 0}, "must be an int from 1 to 4096; got 0. None takes every core."),
]


@each(("wrong", "said"), SENTENCES)
def test_a_wrong_parameter_gets_a_sentence(wrong, said):
    name = next(iter(wrong))
    with pytest.raises((ParameterError, InputError)) as caught:
        model(**wrong).fit(ROWS)
    assert f"`{name}` of BayesianVonMisesFisherMixture {said}" in str(caught.value)


SENTENCES_OF_DRAWS = [
    ({"n_components": 500}, "must not exceed the number of rows; got n_components=500 and n_samples=400."),
    ({"empirical_bayes": "yes"}, "must be True or False; got 'yes'."),
    ({"weight_concentration_prior": 0.0}, "must be a number in (0, inf); got 0.0."),
    ({"init": "labels"}, "must be one of 'k-means++', 'random', 'random_labels'; got 'labels'."),
    ({"n_draws": 0}, "must be an int >= 1; got 0."),
    ({"n_burn_in": -1}, "must be an int >= 0; got -1."),
    ({"thin": 0}, "must be an int >= 1; got 0."),
    ({"n_threads": 0}, "must be an int from 1 to 4096; got 0. None takes every core."),
]


@pytest.mark.parametrize(("wrong", "said"), SENTENCES_OF_DRAWS, ids=[str(wrong) for wrong, _ in SENTENCES_OF_DRAWS])
def test_a_wrong_parameter_of_the_sampler_gets_a_sentence(wrong, said):
    name = next(iter(wrong))
    with pytest.raises((ParameterError, InputError)) as caught:
        drawn(**wrong).fit(ROWS)
    assert f"`{name}` of GibbsVonMisesFisherMixture {said}" in str(caught.value)


def test_other_sentences():
    assert not hasattr(drawn(), "partial_fit")
    with pytest.raises(InputError, match=r"must be None or all 1 for Gibbs sampling"):
        drawn(n_draws=1, n_burn_in=1).fit(ROWS, sample_weight=np.arange(400.0))
    with pytest.raises(NotFittedError):
        model().score_samples(ROWS)
    with pytest.raises(NotFittedError):
        model().sample()
    fitted = model(max_iter=50, tol=1e-3).fit(ROWS)
    with pytest.raises(
        ParameterError, match=r"`density` of BayesianVonMisesFisherMixture.score_samples must be one of"
    ):
        fitted.score_samples(ROWS, density="best")
    with pytest.raises(InputError, match=r"X has 4 features"):
        fitted.predict(ROWS[:, :4])


def test_a_fit_that_could_go_on_warns_and_a_failed_one_changes_nothing():
    fitted = model()
    with pytest.warns(
        ConvergenceWarning, match="used all 1 steps and was still gaining. Raise max_iter or tol."
    ) as caught:
        fitted.set_params(max_iter=1).fit(ROWS)
    assert caught[0].filename == __file__
    before = fitted_attributes(fitted)
    with pytest.raises(ParameterError):
        fitted.set_params(tol=-1.0).fit(ROWS)

    def stop(event):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError):
        fitted.set_params(tol=1e-6, callbacks=stop).fit(ROWS)
    after = fitted_attributes(fitted)
    assert all(after[name] is before[name] for name in before)
    assert before.keys() == after.keys()


def test_equal_rows_hold_a_concentration_at_its_bound_and_are_said_to():
    rows = np.concatenate([np.repeat(-STARTS[:1], 40, axis=0), ROWS[:60]])
    starts = np.concatenate([STARTS, -STARTS[:1]])
    settings = {"init": starts, "log_concentration_variance_prior": 100.0, "empirical_bayes": False, "tol": 1e-3}
    with pytest.warns(
        ConvergenceWarning, match=r"holds the concentration of component 3 at its bound 5.32e\+11: the r"
    ):
        fitted = model(4, **settings).fit(rows)
    assert np.isfinite(fitted.lower_bound_)
    assert np.all(np.isfinite(fitted.score_samples(rows)))


# ------------------------------------------------------------------------------------------------- variational fits


def test_what_a_fit_leaves_behind():
    fitted = model(init=STARTS).fit(ROWS)
    assert adjusted_rand_score(TRUTH, fitted.labels_) > 0.95
    np.testing.assert_array_equal(fitted.labels_, fitted.predict(ROWS))
    assert fitted.labels_.dtype == np.int32
    np.testing.assert_allclose(np.linalg.norm(fitted.means_, axis=1), 1.0, atol=1e-12)
    assert fitted.weights_.sum() == pytest.approx(1.0)
    assert fitted.counts_.sum() == pytest.approx(400.0)
    assert fitted.n_clusters_ == 3
    assert fitted.converged_
    assert len(fitted.lower_bounds_) == fitted.n_iter_
    assert fitted.lower_bounds_[-1] == fitted.lower_bound_
    assert np.all(np.diff(fitted.lower_bounds_) > -1e-9 * abs(fitted.lower_bound_))
    # 130 rows each: concentrations within five standard errors of the truth, kappa sqrt(2/(n (D-1)))
    assert np.all(np.abs(fitted.concentrations_ - 40.0) < 5.0 * 40.0 * math.sqrt(2.0 / (4.0 * 130.0)))
    assert np.all(fitted.concentration_deviations_ < 10.0)
    # directions have the law of a vMF posterior: gamma is about n kappa A
    expected = fitted.counts_ * fitted.concentrations_ * bessel.mean_resultant_length(5, fitted.concentrations_)
    np.testing.assert_allclose(fitted.posterior_concentrations_, expected, rtol=0.1)
    proba = fitted.predict_proba(ROWS)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(np.argmax(proba, axis=1), fitted.labels_)
    assert fitted.score(ROWS) == pytest.approx(fitted.score_samples(ROWS).mean())
    # all parameters known to within a few per cent, both densities nearly agree, and beat one component
    assert fitted.score(ROWS) == pytest.approx(fitted.score(ROWS, density="plugin"), abs=0.01)
    assert fitted.score(ROWS) > model(1).fit(ROWS).score(ROWS) + 0.5
    assert (type(fitted._saved_state.seed), type(fitted._saved_state.rows_seen)) == (int, float)
    for name in ("n_iter_", "n_clusters_", "n_steps_"):
        assert type(getattr(fitted, name)) is int
    for name in ("lower_bound_", "weight_concentration_", "mean_concentration_"):
        assert type(getattr(fitted, name)) is float


def test_events_carry_the_bound_over_the_uniform_law():
    seen = []
    fitted = quiet(model(max_iter=4, callbacks=seen.append).fit, ROWS)
    steps = [event.objective for event in seen if event.kind == "step"]
    np.testing.assert_allclose(np.array(steps) - 400 * log_area(5), fitted.lower_bounds_, rtol=1e-12)
    assert seen[-1].kind == "end"


def test_the_restart_with_the_highest_bound_is_kept():
    seen = []
    fitted = quiet(model(4, n_init=4, init="random", max_iter=3, callbacks=seen.append).fit, ROWS)
    last = {event.restart: event.objective for event in seen if event.kind == "step"}
    assert fitted.lower_bound_ == pytest.approx(max(last.values()) - 400 * log_area(5))


def test_score_takes_weights():
    fitted = model(max_iter=30, tol=1e-3).fit(ROWS)
    weights = np.arange(1.0, 401.0)
    expected = float(weights @ fitted.score_samples(ROWS) / weights.sum())
    assert fitted.score(ROWS, sample_weight=weights) == pytest.approx(expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_rows_of_either_kind(dtype, make):
    fitted = model(tol=1e-4).fit(make(ROWS.astype(dtype)))
    other = model(tol=1e-4).fit(ROWS)
    np.testing.assert_array_equal(fitted.labels_, other.labels_)
    np.testing.assert_allclose(fitted.concentrations_, other.concentrations_, rtol=1e-3)
    assert fitted.means_.dtype == np.float64
    np.testing.assert_allclose(
        fitted.score_samples(make(ROWS[:9].astype(dtype))), other.score_samples(ROWS[:9]), rtol=1e-3, atol=1e-3
    )


def test_the_prior_that_was_asked_for_is_kept_without_empirical_bayes():
    given = {
        "mean_direction_prior": np.array([0.0, 0.0, 3.0, 0.0, 0.0]),
        "mean_concentration_prior": 4.0,
        "log_concentration_mean_prior": 2.0,
        "log_concentration_variance_prior": 0.5,
        "weight_concentration_prior": 0.3,
    }
    fitted = model(empirical_bayes=False, **given).fit(ROWS)
    np.testing.assert_allclose(fitted.mean_direction_, np.eye(5)[2])
    assert (fitted.mean_concentration_, fitted.log_concentration_mean_) == (4.0, 2.0)
    assert (fitted.log_concentration_variance_, fitted.weight_concentration_) == (0.5, 0.3)
    learned = model(**given).fit(ROWS)
    assert learned.lower_bound_ > fitted.lower_bound_
    assert learned.mean_concentration_ != 4.0


def test_a_component_without_rows_returns_to_its_prior():
    # two clumps of equal rows cannot use five components
    rows = np.repeat(np.eye(4)[:2], 20, axis=0) + 0.01 * np.random.default_rng(0).standard_normal((40, 4))
    fitted = quiet(model(5, merge=True, empirical_bayes=False, weight_concentration_prior=0.01).fit, rows)
    assert fitted.n_clusters_ == 2
    empty = fitted.counts_ < 0.5
    prior_mean = math.exp(fitted.log_concentration_mean_ + 0.5)
    np.testing.assert_allclose(fitted.concentrations_[empty], prior_mean, rtol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(fitted.means_, axis=1), 1.0, atol=1e-12)


def test_an_em_start_keeps_clusters_apart_in_many_dimensions():
    # vmf_mixtures.md, 5.7: from a concentration of 10 clusters of a thousand dimensions merge for good
    rng = np.random.default_rng(0)
    centers = np.linalg.qr(rng.standard_normal((1000, 6)))[0].T
    rows = np.concatenate([vmf.sample(center, 700.0, 30, rng) for center in centers])
    for factors in ("joint", "factorised"):
        fitted = quiet(model(6, factors=factors, init=rows[::30], max_iter=8).fit, rows)
        assert adjusted_rand_score(np.repeat(np.arange(6), 30), fitted.labels_) == pytest.approx(1.0)


# ------------------------------------------------------------------------------------------------ unknown number


@pytest.mark.parametrize("dimension", [10, 100])
def test_sticks_and_merges_find_five_clusters_from_twelve(dimension):
    rng = np.random.default_rng(1)
    centers = np.linalg.qr(rng.standard_normal((dimension, 5)))[0].T
    kappa = bessel.concentration_from_resultant(dimension, 0.75)
    rows = np.concatenate([vmf.sample(center, kappa, 80, rng) for center in centers])
    truth = np.repeat(np.arange(5), 80)
    fitted = model(12, weight_prior="stick_breaking", tol=1e-5).fit(rows)
    assert fitted.n_clusters_ == 5
    assert adjusted_rand_score(truth, fitted.labels_) > 0.94  # in 10 dimensions clumps touch
    # in order of size, and the bound above that of the same fit without merges
    assert np.all(np.diff(fitted.counts_[:5]) <= 0.0)
    alone = quiet(model(12, weight_prior="stick_breaking", merge=False, max_iter=20).fit, rows)
    assert alone.n_clusters_ > 5
    assert fitted.lower_bound_ > alone.lower_bound_


@pytest.mark.parametrize("factors", ["joint", "factorised"])
def test_a_merge_changes_the_bound_by_what_it_says(factors):
    points = as_points(ROWS, "test")
    passes = Passes(points, cpu, Workers(1))
    parameters = fits.Parameters.check(model(6, merge=True, factors=factors).get_params(), points, "Model")
    stream = Stream(1)
    form = parameters.form(stream, 1, 1)
    state = fits.initial_state(passes, parameters, stream, 1)
    rule = v.score_rule(state)
    state = v.update_weights(v.update_labels(state, passes))
    state = v.update_components(state, form)
    merged = steps.merge_components(state, passes, rule, form)
    assert np.count_nonzero(merged.statistics.counts) < 6
    assert v.objective(merged) > v.objective(state)
    # the label entropy of merged responsibilities, by hand
    table, _ = passes.responsibilities(rule)
    before, after = state.statistics, merged.statistics
    for gone in np.flatnonzero((before.counts > 0.0) & (after.counts == 0.0)):
        (taker,) = (
            k for k in range(6) if np.allclose(after.resultants[k], before.resultants[k] + before.resultants[gone])
        )
        table[:, taker] += table[:, gone]
        table[:, gone] = 0.0
    assert merged.label_entropy == pytest.approx(-np.sum(table * np.log(np.maximum(table, 1e-300))), rel=1e-9)
    assert merged.statistics.counts.sum() == pytest.approx(400.0)
    np.testing.assert_allclose(merged.statistics.resultants.sum(axis=0), ROWS.sum(axis=0), atol=1e-9)


def test_entropies_of_merged_labels_against_a_table():
    rng = np.random.default_rng(0)
    weights = rng.gamma(1.0, size=400)
    passes = Passes(as_points(ROWS, "test", weights), cpu, Workers(1))
    rule = AffineRule(5.0 * rng.standard_normal((4, 5)), rng.standard_normal(4))
    table, _ = passes.responsibilities(rule)
    pairs = np.array([[0, 1], [2, 3], [1, 3]])

    def entropy(p):
        return -weights @ (p * np.log(p)).sum(axis=1)

    for (first, second), found in zip(pairs, passes.fold(rule, steps.MergedEntropies(pairs)), strict=True):
        rest = np.delete(table, [first, second], axis=1)
        joined = np.column_stack([rest, table[:, first] + table[:, second]])
        assert found == pytest.approx(entropy(joined) - entropy(table), rel=1e-10)
        assert found <= 0.0


class Weighed(NamedTuple):
    weights: np.ndarray

    def of(self, scores, here):
        return scores @ self.weights


def test_a_curve_of_scores_reaches_every_row():
    passes = Passes(as_points(ROWS.astype(np.float32), "test"), cpu, Workers(1))
    rule = AffineRule(np.eye(5), np.zeros(5))
    values = passes.values(rule, Weighed(np.arange(5.0)))
    np.testing.assert_allclose(values, ROWS @ np.arange(5.0), atol=1e-6)


# ---------------------------------------------------------------------------------------------------- mini-batches


def test_a_batch_of_all_rows_at_rate_one_is_a_step():
    points = as_points(ROWS, "test")
    passes = Passes(points, cpu, Workers(1))
    for factors in ("joint", "factorised"):
        parameters = fits.Parameters.check(model(factors=factors).get_params(), points, "Model")
        stream = Stream(1)
        form = parameters.form(stream, 1, 1)
        state = fits.initial_state(passes, parameters, stream, 1)
        whole = v.update_weights(v.update_labels(state, passes))
        whole = v.update_components(whole, form)
        batch, alone = steps.take_batch(state, passes, form, total=400.0, rate=1.0)
        for one, other in ((whole, batch), (whole, alone)):
            np.testing.assert_array_equal(one.statistics.resultants, other.statistics.resultants)
            np.testing.assert_array_equal(one.factors.natural_vectors, other.factors.natural_vectors)
            assert v.objective(one) == v.objective(other)


def test_the_first_partial_fit_on_all_rows_is_the_first_step_of_a_fit():
    # hyper-parameters are learned later in one than in the other
    start = {"init": ROWS[:3], "empirical_bayes": False}
    batch = model(**start).partial_fit(ROWS)
    whole = quiet(model(max_iter=1, **start).fit, ROWS)
    np.testing.assert_array_equal(batch.resultants_, whole.resultants_)
    np.testing.assert_array_equal(batch.concentrations_, whole.concentrations_)
    assert batch.lower_bound_ == whole.lower_bound_


@pytest.mark.parametrize("form", [{}, {"factors": "factorised"}, {"weight_prior": "stick_breaking"}], ids=str)
def test_batches_reach_what_all_rows_reach(form):
    rows, _, _ = make_vmf_mixture(6000, 5, 3, concentration=40.0, min_angle=1.0, random_state=3)
    order = np.random.default_rng(0).permutation(6000)
    start = {"init": STARTS, **form}
    whole = model(tol=1e-5, **start).fit(rows)
    streamed = model(total_rows=6000, **start)
    for part in np.array_split(order, 24):
        streamed.partial_fit(rows[part])
    assert (streamed.n_steps_, streamed.n_iter_, streamed._saved_state.rows_seen) == (24, 24, 6000.0)
    assert streamed.counts_.sum() == pytest.approx(6000.0)
    np.testing.assert_allclose(streamed.concentrations_, whole.concentrations_, rtol=0.1)
    # 24 batches of 250 rows at rates from 1 to 0.1: within one per cent of the gain over the uniform law
    gain = whole.score(rows) + log_area(5)
    assert streamed.score(rows) > whole.score(rows) - 0.01 * gain
    # its estimate of the bound from one batch is that of the whole to within sampling
    assert streamed.lower_bound_ == pytest.approx(whole.lower_bound_, rel=0.2)


def test_fit_with_batches():
    rows, truth, _ = make_vmf_mixture(3000, 5, 3, concentration=40.0, min_angle=1.0, random_state=3)
    whole = model(tol=1e-5).fit(rows)
    batched = quiet(model(batch_size=300, max_iter=6).fit, rows)
    assert batched.lower_bound_ == pytest.approx(whole.lower_bound_, abs=1.0)
    assert adjusted_rand_score(truth, batched.labels_) > 0.95
    assert batched.n_steps_ == 10
    one = quiet(model(batch_size=5000, max_iter=2).fit, rows)  # a batch larger than all is all
    assert np.isfinite(one.lower_bound_)


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"factors": "factorised"},
        {"weight_prior": "stick_breaking"},
        {"concentration_posterior": "monte_carlo"},
        {"concentration_posterior": "log_normal", "log_normal_bound": "delta", "total_rows": 1000.0},
    ],
    ids=str,
)
def test_a_model_goes_on_from_what_it_published(form):
    one = model(random_state=np.random.default_rng(4), **form)
    for part in np.array_split(ROWS, 4)[:2]:
        one.partial_fit(part)
    other = same_model(one)
    for part in np.array_split(ROWS, 4)[2:]:
        one.partial_fit(part)
        other.partial_fit(part)
    assert_equal_bits(one, other)
    # ... through a step in which priors are learned, and after a whole fit
    one.n_steps_ = other.n_steps_ = 19
    assert_equal_bits(one.partial_fit(ROWS[:100]), other.partial_fit(ROWS[:100]))
    fitted = quiet(model(max_iter=2, **form).fit, ROWS)
    again = same_model(fitted)
    np.testing.assert_array_equal(fitted.predict_proba(ROWS[:50]), again.predict_proba(ROWS[:50]))
    np.testing.assert_array_equal(fitted.score_samples(ROWS[:50]), again.score_samples(ROWS[:50]))
    assert_equal_bits(fitted.partial_fit(ROWS[:100]), again.partial_fit(ROWS[:100]))


def test_a_later_batch_may_be_smaller_than_the_number_of_components():
    streamed = model().partial_fit(ROWS[:100]).partial_fit(ROWS[100:102])
    assert streamed._saved_state.rows_seen == 102.0
    said = "`n_components` of BayesianVonMisesFisherMixture must stay as it was in the first fit, 3; got 4."
    with pytest.raises(ParameterError, match=re.escape(said)):
        streamed.set_params(n_components=4).partial_fit(ROWS)


def test_a_stream_of_unknown_length_counts_its_rows():
    streamed = model()
    for number, part in enumerate(np.array_split(ROWS, 4), start=1):
        streamed.partial_fit(part)
        assert streamed.counts_.sum() == pytest.approx(100.0 * number)
    assert streamed._saved_state.rows_seen == 400.0


# ------------------------------------------------------------------------------------------------------------ Gibbs


@pytest.fixture(scope="module")
def sampled():
    return drawn(4, n_draws=20, n_burn_in=40, thin=2).fit(ROWS)


def test_what_gibbs_sampling_leaves_behind(sampled):
    assert sampled.sample_labels_.shape == (20, 400)
    assert sampled.sample_concentrations_.shape == sampled.sample_counts_.shape == (20, 4)
    assert sampled.sample_resultants_.shape == (20, 4, 5)
    assert sampled.log_joint_.shape == (80,)
    assert sampled.n_iter_ == 80
    np.testing.assert_array_equal(sampled.labels_, sampled.predict(ROWS))
    assert adjusted_rand_score(TRUTH, sampled.partition_) > 0.9
    assert adjusted_rand_score(sampled.partition_, sampled.sample_labels_[sampled.partition_draw_]) == 1.0
    assert adjusted_rand_score(sampled.labels_, sampled.partition_) > 0.9
    np.testing.assert_allclose(sampled.concentrations_, sampled.sample_concentrations_[sampled.partition_draw_])
    assert sampled.weights_.sum() == pytest.approx(1.0)
    assert not hasattr(sampled, "lower_bound_")


def test_both_kinds_of_inference_agree_on_densities(sampled):
    variational = model(4, tol=1e-4).fit(ROWS)
    assert sampled.score(ROWS) == pytest.approx(variational.score(ROWS), abs=0.05)
    again = same_model(sampled)
    np.testing.assert_array_equal(again.score_samples(ROWS[:30]), sampled.score_samples(ROWS[:30]))


def test_every_fit_of_a_class_leaves_the_same_attributes(sampled):
    forms = ({}, {"factors": "factorised"}, {"weight_prior": "stick_breaking"}, {"batch_size": 100})
    fits = [quiet(model(max_iter=2, **form).fit, ROWS) for form in forms]
    fits.append(model().partial_fit(ROWS))
    assert len({frozenset(fitted_attributes(fitted)) for fitted in fits}) == 1
    assert not any(name.startswith(("sample_", "partition")) for name in fitted_attributes(fits[0]))
    again = drawn(3, n_draws=2, n_burn_in=2, empirical_bayes=False).fit(ROWS[:60])
    assert fitted_attributes(again).keys() == fitted_attributes(sampled).keys()


# ------------------------------------------------------------------------------------------------------- beside EM


def test_held_out_density_is_at_least_that_of_maximum_likelihood():
    # few rows for many parameters: the doubt about them pays
    rng = np.random.default_rng(2)
    centers = np.linalg.qr(rng.standard_normal((60, 5)))[0].T
    rows = np.concatenate([vmf.sample(center, 80.0, 200, rng) for center in centers])
    train = np.concatenate([np.arange(200 * k, 200 * k + 12) for k in range(5)])
    rest = np.setdiff1d(np.arange(1000), train)
    bayes = model(5, init=centers, tol=1e-4).fit(rows[train])
    free = VonMisesFisherMixture(5, concentration="free", init=centers, n_threads=1).fit(rows[train])
    assert bayes.score(rows[rest]) > free.score(rows[rest]) + 0.3
    assert bayes.score(rows[rest]) > bayes.score(rows[rest], density="plugin")


def test_clone_keeps_parameters():
    given = model(7, factors="factorised", mean_direction_prior=np.ones(5))
    assert clone(given).get_params().keys() == given.get_params().keys()
