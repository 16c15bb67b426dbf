"""TemporalVonMisesFisherMixture as its users meet it: parameters and sentences, limits, the filter, predictions."""

from __future__ import annotations

import copy
import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score

from armillary import BayesianVonMisesFisherMixture, TemporalVonMisesFisherMixture, load, save
from armillary.datasets import make_drifting_mixture
from armillary.distributions import bessel, vmf
from armillary.exceptions import InputError, InputTypeError, ParameterError
from armillary.geometry.sphere import angle, log_area

BATCHES, TRUTH, DRAWN = make_drifting_mixture(
    60, 5, 3, 6, concentration=60.0, drift_concentration=5.0, min_angle=1.2, random_state=1
)
ROWS, TIMES = np.concatenate(BATCHES), np.repeat(np.arange(6), 60)
ROWS.setflags(write=False)
LABELS = np.concatenate(TRUTH)
STARTS = DRAWN.directions[0]


def model(n_components=3, **parameters):
    return TemporalVonMisesFisherMixture(n_components, **{"random_state": 0, "n_threads": 1, "tol": 1e-4, **parameters})


def bayes(n_components=3, **parameters):
    settings = {"random_state": 0, "n_threads": 1, "factors": "factorised", **parameters}
    return BayesianVonMisesFisherMixture(n_components, **settings)


def quiet(fitting, *given, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fitting(*given, **named)


def fitted_attributes(fitted):
    return {name: value for name, value in vars(fitted).items() if name.endswith("_")}


def assert_equal_bits(one, other, but=()):
    mine, yours = fitted_attributes(one), fitted_attributes(other)
    assert mine.keys() == yours.keys()
    for name, value in mine.items():
        if name not in but:
            np.testing.assert_array_equal(value, yours[name], err_msg=name)
    if not but:
        assert one._saved_state == other._saved_state


@pytest.fixture(scope="module")
def smoothed():
    return model(init=STARTS).fit(ROWS, times=TIMES)


@pytest.fixture(scope="module")
def factorised():
    return model(init=STARTS, inference="factorised", drift=0.3).fit(ROWS, times=TIMES)


# ----------------------------------------------------------------------------------------------------- parameters

SENTENCES = [
    ({"n_components": 0}, "must be an int >= 1; got 0."),
    ({"n_components": 500}, "must not exceed the number of rows; got n_components=500 and n_samples=360."),
    ({"inference": "gibbs"}, "must be one of 'messages', 'factorised'; got 'gibbs'."),
    ({"drift": "slow"}, "must be 'learn' or a number; got 'slow'. Give e.g. drift=0.1."),
    ({"drift": 2.0}, "must be a number in [0, 1.5708]; got 2.0. It is an angle in radians: 0 is no drift, and pi/2"),
    ({"drift": math.nan}, "must be a number in [0, 1.5708]; got nan."),
    (
        {"drift": 1.5, "drift_unit": "cosine"},
        "must be a number in [0, 1]; got 1.5. It is a mean cosine; 1 is no drift.",
    ),
    (
        {"drift": -1.0, "drift_unit": "concentration"},
        "must be a number >= 0; got -1.0. It is a concentration; inf is no drift.",
    ),
    ({"drift_unit": "degrees"}, "must be one of 'angle', 'cosine', 'concentration'; got 'degrees'."),
    ({"weights": "free"}, "must be one of 'shared', 'per_slice'; got 'free'."),
    ({"forget": 1.5}, "must be a number in [0, 1]; got 1.5. 1 keeps all earlier slices."),
    ({"concentration_posterior": "laplace"}, "must be one of 'grid', 'monte_carlo', 'log_normal'; got 'laplace'."),
    ({"empirical_bayes": "yes"}, "must be True or False; got 'yes'."),
    ({"mean_direction_prior": [1.0, 2.0]}, "must be None or one direction, shape (5,); got shape (2,)."),
    ({"init": np.eye(5)}, "must have shape (n_components, n_features) = (3, 5); got (5, 5)."),
    ({"tol": -1.0}, "must be a number >= 0; got -1.0."),
    ({"n_threads": 0}, "must be an int from 1 to 4096; got 0. None takes every core."),
]


@pytest.mark.parametrize(("wrong", "said"), SENTENCES, ids=[str(wrong)[:40] for wrong, _ in SENTENCES])
def test_a_wrong_parameter_gets_a_sentence(wrong, said):
    name = next(iter(wrong))
    with pytest.raises((ParameterError, InputError)) as caught:
        model(**wrong).fit(ROWS, times=TIMES)
    assert f"`{name}` of TemporalVonMisesFisherMixture {said}" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda fitted: fitted.predict(ROWS, times=9), InputError, "got 9 for row 0. score_next_samples takes rows of"),
        (
            lambda fitted: fitted.predict(ROWS, times="x"),
            InputTypeError,
            "must be numbers like the slices, 0 to 5; got",
        ),
        (
            lambda fitted: fitted.predict(BATCHES[:2]),
            InputError,
            "must be as many as its slices, 6, or come with `times`",
        ),
        (lambda fitted: fitted.predict(BATCHES, times=[1]), InputError, "one value per batch, shape (6,); got (1,)."),
        (lambda fitted: fitted.predict(ROWS[:, :4], times=TIMES), InputError, "X has 4 features, but Temporal"),
        (
            lambda fitted: fitted.score_samples(ROWS, density="best"),
            ParameterError,
            "score_samples must be one of 'full'",
        ),
        (lambda fitted: fitted.score_next(ROWS, n_steps=0), ParameterError, "must be an int >= 1; got 0."),
        (
            lambda fitted: fitted.top_features(9),
            ParameterError,
            "`n` of TemporalVonMisesFisherMixture.top_features must",
        ),
        (
            lambda fitted: fitted.top_features(2, ["a"]),
            InputError,
            "must have one name per column, shape (5,); got (1,).",
        ),
        (
            lambda fitted: fitted.partial_fit(ROWS, time=5),
            InputError,
            "`time` of TemporalVonMisesFisherMixture.partial_fit must be later than the last slice, 5; got 5. A stream",
        ),
        (lambda fitted: fitted.partial_fit(ROWS, time="x"), InputError, "must be later than the last slice, 5; got x."),
        (lambda fitted: fitted.partial_fit(ROWS, time=[6, 7]), InputError, "must be one value, that of all rows; got"),
        (lambda fitted: fitted.partial_fit(ROWS[:0, :3]), InputError, "X has 3 features, but Temporal"),
        (lambda fitted: fitted.set_params(n_components=4).partial_fit(ROWS), ParameterError, "must stay as it was"),
        (lambda fitted: fitted.fit(ROWS, times=TIMES[:3]), InputError, "one value per row, shape (360,); got (3,)"),
        (lambda fitted: fitted.set_params(tol=-1.0).fit(ROWS), ParameterError, "`tol` of Temporal"),
        (lambda fitted: fitted.set_params(callbacks=lambda event: 1 / 0).fit(ROWS), ZeroDivisionError, "division"),
        (lambda fitted: fitted.set_params(callbacks=lambda event: 1 / 0).partial_fit(ROWS), ZeroDivisionError, "div"),
    ],
    ids=range(18),
)
def test_a_call_that_fails_says_why_and_changes_nothing(smoothed, call, error, said):
    fitted = copy.deepcopy(smoothed)
    before = fitted_attributes(fitted)
    with pytest.raises(error, match=re.escape(said)):
        call(fitted)
    after = fitted_attributes(fitted)
    assert before.keys() == after.keys()
    assert all(after[name] is before[name] for name in before)


def test_other_sentences():
    with pytest.raises(NotFittedError):
        model().predict(ROWS)
    with pytest.raises(NotFittedError):
        model().trajectories()
    named = quiet(model(max_iter=1).fit, ROWS[:120], times=np.repeat(["jan", "feb"], 60))
    with pytest.raises(InputError, match=r"must be given where slices are not numbered; the last one is jan. Give a"):
        named.partial_fit(ROWS[:9])
    with pytest.raises(
        ParameterError, match=r"`drift` of TemporalVonMisesFisherMixture must be a number for partial_fi"
    ):
        quiet(quiet(model(max_iter=2).partial_fit, ROWS[:60]).partial_fit, ROWS[60:120])
    with pytest.warns(ConvergenceWarning, match="used all 1 steps and was still gaining") as caught:
        model(max_iter=1).fit(ROWS)
    assert caught[0].filename == __file__


def test_drift_in_its_units():
    expected = bessel.concentration_from_resultant(5, math.cos(0.2))
    for drift, unit in ((0.2, "angle"), (math.cos(0.2), "cosine"), (expected, "concentration")):
        fitted = quiet(model(drift=drift, drift_unit=unit, max_iter=1).fit, ROWS, times=TIMES)
        assert fitted.drift_concentration_ == pytest.approx(expected, rel=1e-9)
        assert fitted.drift_angle_ == pytest.approx(0.2, rel=1e-9)
    ends = [(0.0, "angle", math.inf), (1.0, "cosine", math.inf), (math.inf, "concentration", math.inf)]
    ends += [(math.pi / 2, "angle", 0.0), (0.0, "cosine", 0.0), (0, "concentration", 0.0)]
    for drift, unit, concentration in ends:
        fitted = quiet(model(drift=drift, drift_unit=unit, max_iter=1).fit, ROWS, times=TIMES)
        assert fitted.drift_concentration_ == pytest.approx(concentration, abs=1e-12)
        assert fitted.drift_angle_ == pytest.approx(0.0 if concentration else math.pi / 2)


# ------------------------------------------------------------------------------------------------------------ fits


@pytest.mark.parametrize("name", ["smoothed", "factorised"])
def test_what_a_fit_leaves_behind(name, request):
    fitted = request.getfixturevalue(name)
    assert adjusted_rand_score(LABELS, fitted.labels_) > 0.97
    np.testing.assert_array_equal(fitted.labels_, fitted.predict(ROWS, times=TIMES))
    np.testing.assert_array_equal(fitted.labels_, fitted.predict(BATCHES))
    assert fitted.labels_.dtype == np.int32
    np.testing.assert_array_equal(fitted.times_, np.arange(6))
    np.testing.assert_allclose(np.linalg.norm(fitted.means_, axis=2), 1.0, atol=1e-12)
    assert fitted.means_.shape == (6, 3, 5)
    assert fitted.weights_.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(fitted.slice_weights_, np.tile(fitted.weights_, (6, 1)))
    np.testing.assert_allclose(fitted.counts_.sum(axis=1), 60.0)
    np.testing.assert_allclose(fitted._saved_state.total_counts, fitted.counts_.sum(axis=0))
    assert (fitted.n_clusters_, fitted.n_slices_, fitted.converged_) == (3, 6, True)
    assert len(fitted.lower_bounds_) == fitted.n_iter_
    assert fitted.lower_bounds_[-1] == fitted.lower_bound_
    # 120 rows each: within five standard errors of the truth, kappa sqrt(2/(n (D-1)))
    assert np.all(np.abs(fitted.concentrations_ - 60.0) < 5.0 * 60.0 * math.sqrt(2.0 / (4.0 * 120.0)))
    # 20 rows a slice and what neighbours say: every mean is within a few standard errors of the truth
    assert angle(fitted.means_, DRAWN.directions).max() < 4.0 / math.sqrt(60.0 * 10.0) * 2.0
    proba = fitted.predict_proba(ROWS, times=TIMES)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(np.argmax(proba, axis=1), fitted.labels_)
    assert fitted.score(ROWS, times=TIMES) == pytest.approx(fitted.score_samples(ROWS, times=TIMES).mean())
    assert fitted.score(BATCHES) == fitted.score(ROWS, times=TIMES)
    assert fitted.score(ROWS, times=TIMES) == pytest.approx(fitted.score(ROWS, times=TIMES, density="plugin"), abs=0.05)
    # without times rows are of the last slice
    np.testing.assert_array_equal(fitted.predict_proba(BATCHES[5]), proba[-60:])
    assert fitted.score(BATCHES[5]) > fitted.score(BATCHES[0])
    assert type(fitted._saved_state.seed) is int
    for attribute in ("n_iter_", "n_clusters_", "n_slices_"):
        assert type(getattr(fitted, attribute)) is int
    for attribute in ("lower_bound_", "weight_concentration_", "mean_concentration_", "drift_angle_"):
        assert type(getattr(fitted, attribute)) is float


def test_slices_by_rows_by_batches_and_in_any_order(smoothed):
    assert_equal_bits(model(init=STARTS).fit(BATCHES), smoothed)
    assert_equal_bits(model(init=STARTS).fit(ROWS, times=TIMES, slices=range(6)), smoothed)
    months = np.array(["2001-01", "2001-02", "2001-03", "2001-04", "2001-05", "2001-06"], dtype="datetime64[M]")
    dated = model(init=STARTS).fit(BATCHES, times=months)
    assert_equal_bits(dated, smoothed, but=["times_"])
    assert dated.times_.dtype == np.dtype("datetime64[M]")
    np.testing.assert_array_equal(dated.predict(BATCHES[2], times=np.datetime64("2001-03")), smoothed.labels_[120:180])
    order = np.random.default_rng(0).permutation(360)
    mixed = model(init=STARTS).fit(ROWS[order], times=TIMES[order])
    np.testing.assert_array_equal(mixed.labels_, smoothed.labels_[order])
    np.testing.assert_allclose(mixed.means_, smoothed.means_, atol=1e-6)
    backwards = model(init=STARTS).fit(BATCHES, times=-np.arange(6))
    np.testing.assert_array_equal(backwards.times_, np.arange(-5, 1))
    np.testing.assert_array_equal(backwards.labels_, smoothed.labels_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("hold", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("inference", ["messages", "factorised"])
def test_rows_of_either_kind(dtype, hold, inference):
    settings = {"init": STARTS, "inference": inference, "drift": 0.3}
    other = model(**settings).fit(ROWS, times=TIMES)
    fitted = model(**settings).fit(hold(ROWS.astype(dtype)), times=TIMES)
    np.testing.assert_array_equal(fitted.labels_, other.labels_)
    np.testing.assert_allclose(fitted.means_, other.means_, atol=1e-4)
    assert fitted.means_.dtype == np.float64
    np.testing.assert_allclose(
        fitted.score_samples(hold(ROWS[:9].astype(dtype)), times=0), other.score_samples(ROWS[:9], times=0), atol=1e-3
    )
    batches = model(**settings).fit([hold(batch.astype(dtype)) for batch in BATCHES])
    assert_equal_bits(batches, fitted)


@pytest.fixture(scope="module")
def documents():
    """Sparse rows of three topics in six slices, one of them empty: more sums than values. Their weights, and times."""
    rng = np.random.default_rng(0)
    topics = rng.integers(0, 3, 240)
    rows = np.where(rng.random((240, 400)) < 0.03, rng.gamma(2.0, size=(240, 400)), 0.0)
    for row, topic in enumerate(topics):
        rows[row, 100 * topic + rng.integers(0, 60, 6)] = 2.0 + rng.random(6)
    weights = rng.gamma(2.0, size=240)
    weights[:5] = 0.0
    return sp.csr_array(rows), weights, rng.choice([0, 1, 3, 4, 5], size=240)


SPARSE_FORMS = [
    {},
    {"drift": 0.0},
    {"drift": 0.5},
    {"drift": math.pi / 2},
    {"weights": "per_slice", "mean_concentration_prior": 5.0, "empirical_bayes": False},
]


@pytest.mark.parametrize("form", SPARSE_FORMS, ids=str)
def test_sums_that_are_not_stored_change_nothing(documents, form):
    rows, weights, times = documents
    given = {"times": times, "sample_weight": weights, "slices": range(6)}
    wide = model(max_iter=12, **form)
    sparse, dense = (quiet(copy.deepcopy(wide).fit, some, **given) for some in (rows, rows.toarray()))
    assert sparse.n_iter_ == dense.n_iter_
    np.testing.assert_allclose(sparse.lower_bounds_, dense.lower_bounds_, rtol=1e-12)
    np.testing.assert_allclose(sparse.means_, dense.means_, atol=1e-11)
    for name in ("mean_concentrations_", "concentrations_", "counts_", "drift_concentration_"):
        np.testing.assert_allclose(getattr(sparse, name), getattr(dense, name), rtol=1e-9, atol=1e-9, err_msg=name)
    np.testing.assert_array_equal(sparse.labels_, dense.labels_)
    np.testing.assert_array_equal(sparse.labels_, sparse.predict(rows, times=times))


def test_nor_do_threads_nor_single_precision_there(documents):
    rows, _, times = documents
    one, many = (quiet(model(max_iter=6, n_threads=n).fit, rows, times=times) for n in (1, 3))
    assert_equal_bits(one, many)
    single = quiet(model(max_iter=6).fit, rows.astype(np.float32), times=times)
    np.testing.assert_allclose(single.lower_bounds_, one.lower_bounds_, rtol=1e-6)
    np.testing.assert_allclose(single.means_, one.means_, atol=1e-5)


def test_restarts_and_a_stream_go_on_from_such_a_fit(documents):
    rows, _, times = documents
    fitted = quiet(model(max_iter=6, n_init=2).fit, rows, times=times)
    again = copy.deepcopy(fitted)
    for stream in (fitted, again):
        quiet(stream.partial_fit, rows[:50], time=6)
    assert fitted.means_.shape == (1, 3, 400)
    assert_equal_bits(fitted, again)


def test_threads_do_not_matter():
    one, many = (model(n_threads=n_threads).fit(ROWS, times=TIMES) for n_threads in (1, 3))
    assert_equal_bits(one, many)


@pytest.mark.parametrize("inference", ["messages", "factorised"])
def test_a_weight_of_two_is_two_rows_and_one_of_zero_none(inference):
    settings = {"init": STARTS, "inference": inference, "drift": 0.2, "log_concentration_mean_prior": 4.0}
    weights = np.tile([0.0, 1.0, 2.0], 120)
    weighted = model(**settings).fit(ROWS, times=TIMES, sample_weight=weights)
    repeated = model(**settings).fit(
        np.repeat(ROWS, weights.astype(int), axis=0), times=np.repeat(TIMES, weights.astype(int))
    )
    np.testing.assert_allclose(weighted.means_, repeated.means_, atol=1e-8)
    np.testing.assert_allclose(weighted.lower_bounds_, repeated.lower_bounds_, rtol=1e-9)
    by_batch = model(**settings).fit(BATCHES, sample_weight=list(weights.reshape(6, 60)))
    assert_equal_bits(by_batch, weighted)
    expected = float(weights @ weighted.score_samples(ROWS, times=TIMES) / weights.sum())
    assert weighted.score(ROWS, times=TIMES, sample_weight=weights) == pytest.approx(expected)


def test_events_carry_the_objective():
    seen = []
    fitted = quiet(model(max_iter=3, callbacks=seen.append).fit, ROWS, times=TIMES)
    steps = [event.objective for event in seen if event.kind == "step"]
    np.testing.assert_allclose(np.array(steps) - 360 * log_area(5), fitted.lower_bounds_, rtol=1e-12)


def test_the_restart_with_the_highest_objective_is_kept():
    seen = []
    fitted = quiet(model(4, n_init=3, init="random", max_iter=3, callbacks=seen.append).fit, ROWS, times=TIMES)
    last = {event.restart: event.objective for event in seen if event.kind == "step"}
    assert fitted.lower_bound_ == pytest.approx(max(last.values()) - 360 * log_area(5))


@pytest.mark.parametrize("law", ["monte_carlo", "log_normal"])
def test_other_laws_of_concentrations(law, smoothed):
    fitted = quiet(model(init=STARTS, concentration_posterior=law, max_iter=20).fit, ROWS, times=TIMES)
    np.testing.assert_allclose(fitted.concentrations_, smoothed.concentrations_, rtol=0.05)
    np.testing.assert_array_equal(fitted.labels_, smoothed.labels_)


def test_empty_slices_are_filled_in():
    some = (TIMES != 2) & (TIMES != 3)
    for inference, gap in (("messages", 0.03), ("factorised", 0.03)):
        settings = {"init": STARTS, "inference": inference, "drift": 0.1}
        fitted = model(**settings).fit(ROWS[some], times=TIMES[some], slices=range(6))
        # between their neighbours, and less sure than they
        outer = angle(fitted.means_[1], fitted.means_[4])
        inner = angle(fitted.means_[1], fitted.means_[2]) + angle(fitted.means_[2], fitted.means_[3])
        inner += angle(fitted.means_[3], fitted.means_[4])
        np.testing.assert_allclose(inner, outer, atol=gap * 0.1)
        assert np.all(fitted.mean_concentrations_[2] < fitted.mean_concentrations_[1])
        assert np.all(fitted.mean_concentrations_[3] < fitted.mean_concentrations_[4])
        np.testing.assert_array_equal(fitted.counts_[2:4], 0.0)
    batches = [batch if number not in (2, 3) else batch[:0] for number, batch in enumerate(BATCHES)]
    assert_equal_bits(model(**settings).fit(batches), fitted)
    # at the ends too
    quiet(model(**settings).fit, [BATCHES[0][:0], *BATCHES[:2], BATCHES[0][:0]])


def test_weights_of_each_slice():
    rng = np.random.default_rng(0)
    shares = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    batches = [
        np.concatenate([vmf.sample(STARTS[k], 60.0, int(200 * share[k]), rng) for k in range(3)]) for share in shares
    ]
    settings = {"init": STARTS, "drift": 0.0}
    own = model(weights="per_slice", **settings).fit(batches)
    np.testing.assert_allclose(own.slice_weights_, shares, atol=0.02)
    np.testing.assert_allclose(own.weights_, shares.mean(axis=0), atol=0.02)
    shared = model(**settings).fit(batches)
    assert own.score(batches) > shared.score(batches) + 0.1
    # nothing is known of the weights of a slice to come
    assert own.score_next(batches[0]) == pytest.approx(own.score_next(batches[0]))
    assert shared.score_next(batches[0]) == pytest.approx(shared.score(batches[0], times=1), abs=1e-9)


# ---------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize("is_learning", [False, True])
@pytest.mark.parametrize("drift", ["learn", 0.3])
@pytest.mark.parametrize("n_components", [1, 3, 5])
def test_one_slice_is_the_bayesian_mixture(is_learning, drift, n_components):
    given = {"empirical_bayes": is_learning, "mean_concentration_prior": 2.0, "n_components": n_components}
    given |= {"weight_concentration_prior": 0.7, "tol": 1e-8, "max_iter": 15}
    expected = quiet(bayes(**given).fit, ROWS)
    found = quiet(model(inference="factorised", drift=drift, **given).fit, ROWS)
    assert found.n_iter_ == expected.n_iter_
    uniform = 360 * log_area(5)
    np.testing.assert_allclose(found.lower_bounds_ + uniform, expected.lower_bounds_ + uniform, rtol=1e-12)
    np.testing.assert_allclose(found.means_[0], expected.means_, atol=1e-11)
    np.testing.assert_allclose(found.mean_concentrations_[0], expected.posterior_concentrations_, rtol=1e-10)
    np.testing.assert_allclose(found.concentrations_, expected.concentrations_, rtol=1e-11)
    np.testing.assert_allclose(found.weights_, expected.weights_, rtol=1e-10)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_allclose(found.score_samples(ROWS), expected.score_samples(ROWS), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.predict_proba(ROWS), expected.predict_proba(ROWS), atol=1e-10)


def test_one_slice_by_messages_has_the_same_fixed_point():
    # there is nothing to pass on
    exact = bayes(tol=1e-11).fit(ROWS)
    by_messages = model(tol=1e-11).fit(ROWS)
    assert by_messages.lower_bound_ == pytest.approx(exact.lower_bound_, abs=1e-6)
    np.testing.assert_allclose(by_messages.means_[0], exact.means_, atol=1e-5)
    np.testing.assert_allclose(by_messages.concentrations_, exact.concentrations_, rtol=1e-4)


@pytest.mark.parametrize("inference", ["messages", "factorised"])
@pytest.mark.parametrize("is_learning", [False, True])
def test_no_drift_is_one_model_for_all_times(inference, is_learning):
    given = {"empirical_bayes": is_learning, "tol": 1e-10}
    expected = bayes(**given).fit(ROWS)
    found = model(inference=inference, drift=0.0, **given).fit(ROWS, times=TIMES)
    tight = 1e-9 if inference == "factorised" else 1e-4
    np.testing.assert_allclose(found.means_, np.tile(expected.means_, (6, 1, 1)), atol=tight)
    np.testing.assert_allclose(found.mean_concentrations_[3], expected.posterior_concentrations_, rtol=tight)
    np.testing.assert_allclose(found.concentrations_, expected.concentrations_, rtol=tight)
    assert found.lower_bound_ == pytest.approx(expected.lower_bound_, abs=1e-5)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    if inference == "factorised":
        uniform = 360 * log_area(5)
        np.testing.assert_allclose(found.lower_bounds_ + uniform, expected.lower_bounds_ + uniform, rtol=1e-11)


@pytest.mark.parametrize("inference", ["messages", "factorised"])
def test_drift_that_forgets_all_makes_slices_independent(inference):
    # a narrow prior holds kappa, which all slices share
    given = {
        "empirical_bayes": False,
        "log_concentration_mean_prior": math.log(60.0),
        "log_concentration_variance_prior": 1e-6,
        "init": STARTS,
        "tol": 1e-11,
    }
    found = model(inference=inference, drift=math.pi / 2, weights="per_slice", **given).fit(ROWS, times=TIMES)
    total = 0.0
    for number, batch in enumerate(BATCHES):
        alone = bayes(**{**given, "init": found.means_[number]}).fit(batch)
        np.testing.assert_allclose(found.means_[number], alone.means_, atol=2e-5)
        np.testing.assert_allclose(found.mean_concentrations_[number], alone.posterior_concentrations_, rtol=1e-3)
        np.testing.assert_allclose(found.slice_weights_[number], alone.weights_, atol=1e-5)
        total += alone.lower_bound_
    # six laws of kappa in place of one cost next to nothing: each is its prior
    assert found.lower_bound_ == pytest.approx(total, abs=0.1)


# ---------------------------------------------------------------------------------------------------------- filter


FIXED = {"empirical_bayes": False, "drift": 0.2, "log_concentration_mean_prior": 4.0, "init": STARTS}


def streamed(n_batches=6, **parameters):
    made = model(**{**FIXED, **parameters})
    for batch in BATCHES[:n_batches]:
        made.partial_fit(batch)
    return made


def test_the_first_batch_is_the_bayesian_mixture_with_fixed_hyper_parameters():
    given = {name: value for name, value in FIXED.items() if name != "drift"}
    expected = bayes(**given).fit(BATCHES[0])
    # partial_fit learns no hyper-parameters, whatever is asked of fit
    for is_learning in (False, True):
        found = model(**{**FIXED, "empirical_bayes": is_learning}).partial_fit(BATCHES[0])
        uniform = 60 * log_area(5)
        np.testing.assert_allclose(found.lower_bounds_ + uniform, expected.lower_bounds_ + uniform, rtol=1e-12)
        np.testing.assert_allclose(found.means_[0], expected.means_, atol=1e-12)
        np.testing.assert_allclose(found.concentrations_, expected.concentrations_, rtol=1e-11)
        np.testing.assert_array_equal(found.labels_, expected.labels_)
        assert (found.times_.tolist(), found.n_slices_) == ([0], 1)


def test_counts_accumulate_and_memory_does_not_grow():
    one, all_six = streamed(1), streamed(6)
    np.testing.assert_allclose(all_six._saved_state.total_counts.sum(), 360.0)
    assert one._saved_state.total_counts.sum() == pytest.approx(60.0)
    np.testing.assert_allclose(all_six.weights_, (1.0 + all_six._saved_state.total_counts) / 363.0)
    assert (all_six.n_slices_, all_six.times_.tolist(), all_six.labels_.shape) == (6, [5], (60,))
    for name, value in fitted_attributes(one).items():
        if name != "lower_bounds_":
            assert np.shape(value) == np.shape(getattr(all_six, name)), name
    half = streamed(3, forget=0.5)
    assert half._saved_state.total_counts.sum() == pytest.approx(60.0 * (1.0 + 0.5 + 0.25))
    # what kappa is known from goes the same way
    assert np.all(half.concentration_deviations_ > streamed(3).concentration_deviations_)


def test_the_filter_comes_close_to_the_smoothed_last_slice():
    whole, live = model(**FIXED).fit(BATCHES), streamed()
    assert angle(live.means_[0], whole.means_[-1]).max() < 0.01
    np.testing.assert_allclose(live.mean_concentrations_[0], whole.mean_concentrations_[-1], rtol=0.05)
    np.testing.assert_allclose(live.concentrations_, whole.concentrations_, rtol=0.05)
    np.testing.assert_array_equal(live.labels_, whole.labels_[-60:])
    # and goes on from a fit
    both = model(**FIXED).fit(BATCHES[:5]).partial_fit(BATCHES[5])
    assert (both.times_.tolist(), both.n_slices_, both.means_.shape) == ([5], 6, (1, 3, 5))
    assert angle(both.means_[0], whole.means_[-1]).max() < 0.01


def test_a_batch_without_rows_of_a_component_lowers_only_gamma():
    before = streamed(2)
    missing = 1
    own = before.predict(BATCHES[2]) != missing
    after = copy.deepcopy(before).partial_fit(BATCHES[2][own])
    np.testing.assert_allclose(after.means_[0, missing], before.means_[0, missing], atol=1e-9)
    expected = vmf.convolved_concentration(5, before.mean_concentrations_[0, missing], before.drift_concentration_)
    assert after.mean_concentrations_[0, missing] == pytest.approx(expected, rel=1e-6)
    assert expected < before.mean_concentrations_[0, missing]
    assert after._saved_state.total_counts[missing] == pytest.approx(
        before._saved_state.total_counts[missing], rel=1e-6
    )
    assert after.concentrations_[missing] == pytest.approx(before.concentrations_[missing], rel=1e-6)


@pytest.mark.parametrize("hold", [np.asarray, sp.csr_array])
def test_a_batch_without_rows(hold):
    before = streamed(2)
    after = copy.deepcopy(before).partial_fit(hold(ROWS[:0].copy()), time=5)
    expected = vmf.convolved_concentration(5, before.mean_concentrations_, before.drift_concentration_)
    np.testing.assert_allclose(after.mean_concentrations_, expected, rtol=1e-12)
    for name in ("means_", "weights_", "concentrations_"):
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), rtol=1e-9, err_msg=name)
    for name in ("total_counts", "projections"):
        pair = (getattr(one._saved_state, name) for one in (after, before))
        np.testing.assert_allclose(*pair, rtol=1e-9, err_msg=name)
    assert (after.times_.tolist(), after.n_slices_, len(after.labels_)) == ([5], 3, 0)
    np.testing.assert_allclose(after.score_samples(ROWS[:9]), before.score_next_samples(ROWS[:9]), rtol=1e-9)


@pytest.mark.parametrize("hold", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("law", ["grid", "monte_carlo"])
@pytest.mark.parametrize("has_fit", [False, True])
def test_a_stream_resumes_from_a_file_with_equal_bits(hold, law, has_fit, tmp_path):
    given = {"concentration_posterior": law, "max_iter": 8}
    whole = model(**{**FIXED, **given})
    if has_fit:
        quiet(whole.fit, [hold(batch) for batch in BATCHES[:2]])
    for number in range(2 if has_fit else 0, 5):
        save(whole, tmp_path / "model") if number else None
        resumed = load(tmp_path / "model") if number else model(**{**FIXED, **given})
        for made in (whole, resumed):
            quiet(made.partial_fit, hold(BATCHES[number]), time=number)
        assert_equal_bits(whole, resumed)


def test_a_stream_may_have_dates_and_names():
    made = model(**FIXED)
    days = np.array(["2001-05-01", "2001-05-03"], dtype="datetime64[D]")
    made.partial_fit(BATCHES[0], time=days[0]).partial_fit(BATCHES[1], time=days[1])
    np.testing.assert_array_equal(made.times_, days[1:])
    with pytest.raises(InputError, match="must be later than the last slice, 2001-05-03; got 2001-05-02"):
        made.partial_fit(BATCHES[1], time=np.datetime64("2001-05-02"))
    with pytest.raises(InputError, match="must be given where slices are not numbered"):
        made.partial_fit(BATCHES[1])


# ----------------------------------------------------------------------------------------------------- predictions


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("density", ["full", "plugin"])
def test_densities_integrate_to_one(dimension, density):
    batches, _, _ = make_drifting_mixture(20, dimension, 2, 3, concentration=8.0, random_state=0)
    fitted = quiet(model(2, max_iter=3, drift=0.4).fit, batches)
    if dimension == 2:
        turn = np.linspace(0.0, 2.0 * np.pi, 721)[:-1]
        grid, area = np.stack([np.cos(turn), np.sin(turn)], axis=1), np.full(720, 2.0 * np.pi / 720)
    else:
        height, masses = np.polynomial.legendre.leggauss(60)
        turn = np.linspace(0.0, 2.0 * np.pi, 121)[:-1]
        level = np.sqrt(1.0 - height**2)[:, None]
        parts = (level * np.cos(turn), level * np.sin(turn), np.broadcast_to(height[:, None], (60, 120)))
        grid = np.stack(parts, axis=-1).reshape(-1, 3)
        area = np.repeat(masses * 2.0 * np.pi / 120, 120)
    for logs in (
        fitted.score_samples(grid, times=1, density=density),
        fitted.score_next_samples(grid, density=density),
        fitted.score_next_samples(grid, 4, density=density),
    ):
        assert np.exp(logs) @ area == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("n_steps", [1, 3])
def test_the_next_slice_against_draws_of_its_directions(n_steps):
    # the true draw: a direction from its law, steps of the drift, a row; vmf_mixtures.md, 16, item 21
    fitted = model(init=STARTS, drift=0.3).fit(ROWS, times=TIMES)
    rng = np.random.default_rng(0)
    n_draws = 4000
    new = np.concatenate([vmf.sample(center, 40.0, 20, rng) for center in fitted.means_[-1]])
    logs = []
    for k in range(3):
        directions = vmf.sample(fitted.means_[-1, k], fitted.mean_concentrations_[-1, k], n_draws, rng)
        for _ in range(n_steps):
            directions = np.stack([vmf.sample(row, fitted.drift_concentration_, 1, rng)[0] for row in directions])
        kappa = rng.choice(
            fitted._saved_state.nodes[:, k],
            n_draws,
            p=fitted._saved_state.node_weights[:, k] / fitted._saved_state.node_weights[:, k].sum(),
        )
        table = vmf.log_density(new[:, None], directions, kappa)
        logs.append(np.log(fitted.weights_[k]) + logsumexp(table, axis=1) - np.log(n_draws))
    expected = logsumexp(logs, axis=0).mean()
    assert fitted.score_next(new, n_steps=n_steps) == pytest.approx(expected, abs=0.06)
    # without the step it would be off by more than that
    assert abs(fitted.score(new) - expected) > 0.06


def test_the_future_gets_less_certain(smoothed):
    scores = [smoothed.score_next(BATCHES[5], n_steps=n_steps) for n_steps in (1, 2, 5, 50, 100_000)]
    assert np.all(np.diff([smoothed.score(BATCHES[5]), *scores]) < 0.0)
    assert scores[-1] == pytest.approx(-log_area(5), abs=1e-6)
    weights = np.arange(1.0, 61.0)
    expected = np.average(smoothed.score_next_samples(BATCHES[5]), weights=weights)
    assert smoothed.score_next(BATCHES[5], sample_weight=weights) == pytest.approx(expected)


def test_sampled_rows(smoothed):
    rows, components = smoothed.sample(3000, time=2, random_state=0)
    for k in range(3):
        own = rows[components == k].sum(axis=0)
        assert angle(own / np.linalg.norm(own), smoothed.means_[2, k]) < 0.03
    assert smoothed.score(rows, times=2) > smoothed.score(rows, times=5)
    np.testing.assert_array_equal(smoothed.sample(5, random_state=1)[0], smoothed.sample(5, time=5, random_state=1)[0])


def test_times_are_given_by_name(smoothed):
    """The third argument is `sample_weight`, as in every other class."""
    for method in (smoothed.predict, smoothed.predict_proba, smoothed.score_samples):
        with pytest.raises(TypeError):
            method(ROWS, np.zeros(len(ROWS)))
    weighted = smoothed.score(ROWS, None, np.arange(len(ROWS)) + 1.0, times=2)
    assert weighted == smoothed.score(ROWS, sample_weight=np.arange(len(ROWS)) + 1.0, times=2)


# --------------------------------------------------------------------------------------------------- descriptions


def test_trajectories(smoothed):
    paths = smoothed.trajectories()
    assert paths.means.shape == (3, 6, 5)
    np.testing.assert_array_equal(paths.times, smoothed.times_)
    np.testing.assert_allclose(paths.step_angles[1, 2], angle(smoothed.means_[2, 1], smoothed.means_[3, 1]))
    np.testing.assert_allclose(paths.path_lengths, paths.step_angles.sum(axis=1))
    assert np.all(paths.end_angles <= paths.path_lengths + 1e-12)


def test_top_features(smoothed):
    words = np.array(["a", "b", "c", "d", "e"])
    top = smoothed.top_features(2, words)
    assert top.shape == (6, 3, 2)
    for t, k in ((0, 0), (5, 2)):
        assert top[t, k].tolist() == words[np.argsort(-smoothed.means_[t, k])[:2]].tolist()
    assert smoothed.top_features(1)[0, 0, 0] == int(np.argmax(smoothed.means_[0, 0]))
    named = quiet(model(max_iter=1).fit, pd.DataFrame(ROWS, columns=words), times=TIMES)
    assert set(named.top_features(5)[0, 0]) == set(words)


# --------------------------------------------------------------------------------------------------------- archives


@pytest.mark.parametrize(
    "times",
    [
        np.arange(6),
        np.arange(6) * 0.5,
        np.array(list("abcdef")),
        np.array(["2001-01", "2001-02", "2001-03", "2001-04", "2001-05", "2001-06"], dtype="datetime64[M]"),
        np.datetime64("2001-01-01", "25s") + np.arange(6),
    ],
    ids=lambda times: str(times.dtype),
)
def test_a_saved_model_comes_back(times, tmp_path):
    drift = 0.0 if times.dtype == np.float64 else 0.2  # an infinite concentration has a place in a file too
    fitted = quiet(model(max_iter=2, drift=drift).fit, BATCHES, times=times)
    save(fitted, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert_equal_bits(loaded, fitted)
    assert loaded.times_.dtype == fitted.times_.dtype
    given = np.repeat(times, 60)
    for method in ("predict", "predict_proba", "score_samples"):
        answers = [getattr(one, method)(ROWS, times=given) for one in (loaded, fitted)]
        np.testing.assert_array_equal(*answers)
    assert loaded.get_params() == fitted.get_params()
    quiet(loaded.fit, BATCHES, times=times)
    assert_equal_bits(loaded, fitted)
