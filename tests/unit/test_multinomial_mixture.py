"""MultinomialMixture: counts, rows of zeros and smoothing, against EM written out in NumPy."""

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
from tests.making import docstring

from armillary import MultinomialMixture
from armillary.draws import Stream
from armillary.exceptions import ArmillaryError, InputError, ParameterError
from armillary.models.vmf import multinomial_mixture


def counts_of(seed, n_rows=90, n_features=12, n_topics=3, length=20.0):
    """Counts of documents drawn from a few topics; some rows are empty."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_features, 0.3), n_topics)
    lengths = rng.poisson(length, n_rows)
    lengths[::17] = 0
    return np.stack([rng.multinomial(n, topics[i % n_topics]) for i, n in enumerate(lengths)])


def fit(rows, n_components, sample_weight=None, **parameters):
    model = MultinomialMixture(n_components, **{"random_state": 0, "n_threads": 1, **parameters})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows, sample_weight=sample_weight)


COUNTS = counts_of(0)
COUNTS.setflags(write=False)


class NaiveEM:
    """EM on the posterior, from labels."""

    def __init__(self, rows, weights, labels, n_components, alpha, beta):
        self.rows = rows.astype(float)
        self.row_weights = np.ones(len(rows)) if weights is None else weights
        self.alpha, self.beta = alpha, beta
        self.maximise(np.eye(n_components)[labels] * self.row_weights[:, None])

    def maximise(self, shares):
        weights = shares.sum(axis=0) + self.alpha
        features = shares.T @ self.rows + self.beta
        self.weights, self.features = weights / weights.sum(), features / features.sum(axis=1, keepdims=True)

    def scores(self):
        return np.log(self.weights) + self.rows @ np.log(self.features).T

    def log_likelihood(self):
        return self.row_weights @ special.logsumexp(self.scores(), axis=1)

    def objective(self):
        prior = self.alpha * np.log(self.weights).sum() + self.beta * np.log(self.features).sum()
        return self.log_likelihood() + prior

    def step(self):
        table = self.scores()
        self.maximise(np.exp(table - special.logsumexp(table, axis=1)[:, None]) * self.row_weights[:, None])


def random_labels(seed, n_rows, n_components):
    """The labels that init="random_labels" draws."""
    return Stream.of(seed).generator("start", 1).integers(n_components, size=n_rows)


@pytest.mark.parametrize("is_weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize(("alpha", "beta", "n_features"), [(1.0, 0.01, 12), (0.5, 1.0, 40), (3.0, 0.2, 5)])
def test_every_step_is_that_of_em_written_out(is_weighted, is_sparse, alpha, beta, n_features):
    counts = counts_of(1, n_features=n_features)
    weights = np.random.default_rng(2).gamma(1.0, size=90) if is_weighted else None
    given = sp.csr_array(counts) if is_sparse else counts
    naive = NaiveEM(counts, weights, random_labels(5, 90, 3), 3, alpha, beta)
    objectives = []
    for n_steps in range(1, 7):
        objectives.append(naive.objective())
        naive.step()
        if n_steps not in (1, 2, 6):
            continue
        events = []
        model = fit(
            given,
            3,
            weights,
            weight_concentration_prior=alpha,
            feature_prior=beta,
            init="random_labels",
            random_state=5,
            tol=0.0,
            max_iter=n_steps,
            callbacks=events.append,
        )
        np.testing.assert_allclose(model.weights_, naive.weights, rtol=1e-10)
        np.testing.assert_allclose(model.feature_probabilities_, naive.features, rtol=1e-9)
        assert math.isclose(model.log_likelihood_, naive.log_likelihood(), rel_tol=1e-11)
        seen = [event.objective for event in events if event.kind == "step"]
        np.testing.assert_allclose(seen, objectives[: len(seen)], rtol=1e-11)
        scores = naive.scores()
        np.testing.assert_array_equal(model.labels_, scores.argmax(axis=1))
        np.testing.assert_allclose(
            model.score_samples(given), special.logsumexp(scores, axis=1), rtol=1e-10, atol=1e-12
        )
        wanted = np.exp(scores - special.logsumexp(scores, axis=1)[:, None])
        np.testing.assert_allclose(model.predict_proba(given), wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("init", ["k-means++", "random_labels"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float32, np.float64])
def test_the_objective_never_falls(init, is_sparse, dtype):
    for seed in range(2):
        counts = counts_of(seed + 3, n_features=30, n_topics=6, length=15.0).astype(dtype)
        events = []
        weights = np.random.default_rng(seed).gamma(1.0, size=90) if seed else None
        fit(
            sp.csr_array(counts) if is_sparse else counts,
            4,
            weights,
            init=init,
            random_state=seed,
            tol=0.0,
            max_iter=25,
            callbacks=events.append,
        )
        objectives = [event.objective for event in events if event.kind == "step"]
        slack = 1e-12 * abs(objectives[0])
        assert len(objectives) > 2
        assert all(after >= before - slack for before, after in pairwise(objectives)), f"seed {seed}"


def test_a_fixed_point_satisfies_the_equations_of_the_m_step():
    model = fit(COUNTS, 3, tol=0.0, max_iter=100, weight_concentration_prior=2.0, feature_prior=0.3)
    shares = model.predict_proba(COUNTS)
    weights = shares.sum(axis=0) + 2.0
    features = shares.T @ COUNTS + 0.3
    np.testing.assert_allclose(model.weights_, weights / weights.sum(), rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        model.feature_probabilities_, features / features.sum(axis=1, keepdims=True), rtol=0, atol=1e-10
    )


def test_one_component_is_the_posterior_of_all_rows():
    model = fit(COUNTS, 1, weight_concentration_prior=5.0, feature_prior=0.7)
    features = COUNTS.sum(axis=0) + 0.7
    np.testing.assert_allclose(model.weights_, [1.0], rtol=1e-15)
    np.testing.assert_allclose(model.feature_probabilities_[0], features / features.sum(), rtol=1e-12)
    wanted = COUNTS @ np.log(features / features.sum())
    np.testing.assert_allclose(model.score_samples(COUNTS), wanted, rtol=1e-12)
    assert math.isclose(model.log_likelihood_, wanted.sum(), rel_tol=1e-12)


def test_smoothing_leaves_no_word_and_no_component_without_probability():
    counts = np.zeros((20, 6), dtype=int)
    counts[:10, :2], counts[10:, 2:4] = 5, 5  # words 4 and 5 never occur
    model = fit(counts, 3, weight_concentration_prior=0.5, feature_prior=0.1)
    assert (model.feature_probabilities_ > 0.0).all()
    assert (model.weights_ > 0.0).all()
    np.testing.assert_allclose(model.feature_probabilities_.sum(axis=1), 1.0, rtol=1e-13)
    assert math.isclose(model.weights_.sum(), 1.0, rel_tol=1e-13)
    shares = model.predict_proba(counts).sum(axis=0)
    words = shares * 10.0 + 6 * 0.1  # each row has ten words
    np.testing.assert_allclose(model.feature_probabilities_[:, 5], 0.1 / words, rtol=1e-9)
    assert np.isfinite(model.score_samples(np.eye(6))).all()


def test_stronger_priors_bring_components_together():
    spreads = []
    for beta in (0.01, 1.0, 100.0, 1e6):
        model = fit(COUNTS, 3, feature_prior=beta)
        spreads.append(np.ptp(model.feature_probabilities_, axis=0).max())
    assert all(after < before for before, after in pairwise(spreads))
    assert spreads[-1] < 1e-3
    np.testing.assert_allclose(fit(COUNTS, 3, weight_concentration_prior=1e9).weights_, 1.0 / 3.0, rtol=1e-6)


# -------------------------------------------------------------------------------------------------------------- rows


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("init", ["k-means++", "random_labels"])
def test_rows_of_zeros_follow_the_weights(is_sparse, init):
    as_given = sp.csr_array if is_sparse else np.asarray
    model = fit(as_given(COUNTS), 3, init=init)
    empty = as_given(np.zeros((2, 12)))
    np.testing.assert_array_equal(model.predict(empty), [model.weights_.argmax()] * 2)
    np.testing.assert_allclose(model.predict_proba(empty), [model.weights_] * 2, rtol=1e-12)
    np.testing.assert_allclose(model.score_samples(empty), 0.0, rtol=0, atol=1e-14)
    # nothing but such rows
    nothing = fit(as_given(np.zeros((6, 12))), 2, init=init)
    np.testing.assert_allclose(nothing.feature_probabilities_, 1.0 / 12.0, rtol=1e-12)
    assert math.isclose(nothing.log_likelihood_, 0.0, abs_tol=1e-12)
    # nothing else has weight
    weighted = fit(as_given(COUNTS), 2, np.where(COUNTS.any(axis=1), 0.0, 1.0), init=init)
    np.testing.assert_allclose(weighted.feature_probabilities_, 1.0 / 12.0, rtol=1e-12)


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize(("value", "word"), [(-1.0, "-1"), (math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_what_is_no_count_is_refused(is_sparse, value, word):
    rows = COUNTS.astype(float)
    rows[7, 3] = value
    model = MultinomialMixture(2)
    with pytest.raises(InputError) as caught:
        model.fit(sp.csr_array(rows) if is_sparse else rows)
    text = str(caught.value)
    assert "X of MultinomialMixture must hold counts, finite and not negative; got " in text
    assert f"got {word}" in text.replace("NaN", "nan")
    assert text.endswith("Give raw term counts.")
    assert not hasattr(model, "weights_")
    fitted = fit(COUNTS, 2)
    for method in (fitted.predict, fitted.score_samples, fitted.predict_proba):
        with pytest.raises(InputError, match="must hold counts, finite and not negative"):
            method(rows)


def test_columns_that_the_matrix_does_not_have_are_refused():
    broken = sp.csr_matrix((np.ones(3), np.array([0, 1, 99]), np.array([0, 1, 2, 3])), shape=(3, 4))
    for init in ("k-means++", "random_labels"):
        with pytest.raises(InputError, match="Row 2 of X names column 99"):
            MultinomialMixture(2, init=init).fit(broken)
    with pytest.raises(InputError, match="Row 2 of X names column 99"):
        fit(np.ones((4, 4)), 2).predict(broken)


@pytest.mark.parametrize("factor", [1e-6, 3.0, 1e6, 1e20])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
def test_the_scale_of_a_score_is_that_of_the_counts(factor, is_sparse):
    # counts and prior times a factor: the same probabilities, log probabilities of words times the factor
    given = sp.csr_array(COUNTS.astype(float)) if is_sparse else COUNTS.astype(float)
    one = fit(given, 1, feature_prior=0.5)
    other = fit(given * factor, 1, feature_prior=0.5 * factor)
    np.testing.assert_allclose(other.feature_probabilities_, one.feature_probabilities_, rtol=1e-11)
    np.testing.assert_allclose(other.score_samples(given), one.score_samples(given), rtol=1e-11)
    np.testing.assert_allclose(other.score_samples(given * factor), factor * one.score_samples(given), rtol=1e-11)


def test_a_longer_row_is_no_other_direction_but_more_evidence():
    model = fit(COUNTS, 3)
    row = COUNTS[1:2]
    ten = model.predict_proba(10 * row)
    np.testing.assert_array_equal(model.predict(100 * row), model.predict(10 * row))
    assert ten.max() >= model.predict_proba(row).max() - 1e-12
    # what else is in the batch does not matter, though rows are scaled by the longest
    beside = np.concatenate([row, 10_000 * COUNTS[2:3]])
    np.testing.assert_allclose(model.score_samples(beside)[0], model.score_samples(row)[0], rtol=1e-11)
    np.testing.assert_allclose(model.predict_proba(beside)[0], model.predict_proba(row)[0], rtol=0, atol=1e-9)


def test_weights_are_repetitions_and_zero_is_absence():
    weights = np.random.default_rng(4).integers(0, 4, 90)
    labels = random_labels(5, 90, 3)
    naive = NaiveEM(np.repeat(COUNTS, weights, axis=0), None, np.repeat(labels, weights), 3, 1.0, 0.01)
    for _ in range(10):
        naive.step()
    model = fit(COUNTS, 3, weights, init="random_labels", random_state=5, tol=0.0, max_iter=10)
    np.testing.assert_allclose(model.weights_, naive.weights, rtol=1e-9)
    np.testing.assert_allclose(model.feature_probabilities_, naive.features, rtol=1e-8)
    assert math.isclose(model.log_likelihood_, naive.log_likelihood(), rel_tol=1e-10)
    moved = np.where(weights[:, None] > 0, COUNTS, COUNTS[::-1])
    again = fit(moved, 3, weights, init="random_labels", random_state=5, tol=0.0, max_iter=10)
    np.testing.assert_allclose(again.feature_probabilities_, model.feature_probabilities_, rtol=1e-9)


@pytest.mark.parametrize(
    "hold",
    [sp.csr_array, sp.csr_matrix, sp.csc_array, np.asfortranarray, pd.DataFrame, lambda rows: rows.astype(np.uint8)],
    ids=["csr_array", "csr_matrix", "csc", "fortran", "frame", "uint8"],
)
def test_whatever_holds_the_counts_the_result_is_the_same(hold):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        one, other = fit(COUNTS, 3), fit(hold(COUNTS.copy()), 3)
    np.testing.assert_array_equal(other.labels_, one.labels_)
    np.testing.assert_allclose(other.feature_probabilities_, one.feature_probabilities_, rtol=1e-9)
    assert math.isclose(other.log_likelihood_, one.log_likelihood_, rel_tol=1e-11)


def test_rows_given_are_not_changed():
    counts = COUNTS.astype(np.float64)
    kept = counts.copy()
    fit(counts, 3)
    np.testing.assert_array_equal(counts, kept)


def test_topics_that_are_there_are_found():
    counts = counts_of(8, n_rows=300, n_features=40, n_topics=4, length=60.0)
    model = fit(counts, 4, n_init=3)
    is_filled = counts.any(axis=1)
    truth = np.arange(300) % 4
    table = np.zeros((4, 4))
    np.add.at(table, (truth[is_filled], model.labels_[is_filled]), 1)
    assert table.max(axis=1).sum() >= 0.97 * is_filled.sum()


def test_labels_start_from_the_nearest_of_rows_by_cosine(monkeypatch):
    seen = {}
    real = multinomial_mixture.update

    def watched(statistics, scale, parameters):
        seen.setdefault("counts", statistics.counts.copy())
        return real(statistics, scale, parameters)

    monkeypatch.setattr(multinomial_mixture, "update", watched)
    blocks = np.kron(np.eye(3, dtype=int), np.full((10, 4), 5))
    lengths = 1 + np.arange(30)[:, None] % 7  # the lengths of rows take no part
    fit(lengths * blocks, 3, max_iter=1)
    np.testing.assert_array_equal(seen["counts"], [10, 10, 10])


# -------------------------------------------------------------------------------------------------------- parameters

POSITIVE = "must be a number in (0, inf);"


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"n_components": 0}, "must be an int >= 1; got 0."),
        ({"n_components": None}, "must be an int >= 1; got None."),
        ({"weight_concentration_prior": 0.0}, f"{POSITIVE} got 0.0."),
        ({"weight_concentration_prior": -1.0}, f"{POSITIVE} got -1.0."),
        ({"weight_concentration_prior": math.inf}, f"{POSITIVE} got inf."),
        ({"weight_concentration_prior": math.nan}, f"{POSITIVE} got nan."),
        ({"feature_prior": 0}, f"{POSITIVE} got 0."),
        ({"feature_prior": math.inf}, f"{POSITIVE} got inf."),
        ({"feature_prior": "flat"}, f"{POSITIVE} got 'flat'."),
        ({"init": "random"}, "must be one of 'k-means++', 'random_labels'; got 'random'."),
        ({"n_init": 0}, "must be an int >= 1; got 0."),
        ({"max_iter": 0}, "must be an int >= 1; got 0."),
        ({"n_threads": 0}, "must be an int from 1 to 4096; got 0. None takes every core."),
        ({"verbose": -1}, "must be an int >= 0; got -1. 1 shows a progress bar."),
    ],
)
def test_a_wrong_parameter_is_named(parameters, sentence):
    (name,) = parameters
    model = MultinomialMixture(**{"n_components": 3, "random_state": 0, **parameters})
    with pytest.raises(ParameterError) as caught:
        model.fit(COUNTS)
    assert str(caught.value) == f"`{name}` of MultinomialMixture {sentence}"
    assert not hasattr(model, "weights_")


@pytest.mark.parametrize("tol", [-1.0, math.nan, math.inf, "small", None])
def test_a_wrong_tolerance_is_named(tol):
    with pytest.raises(ParameterError) as caught:
        MultinomialMixture(3, tol=tol).fit(COUNTS)
    assert str(caught.value).startswith(f"`tol` of MultinomialMixture must be a number >= 0; got {tol!r}.")


def test_more_components_than_rows_and_unfitted_models():
    with pytest.raises(InputError, match="`n_components` of MultinomialMixture must not exceed the number of rows"):
        MultinomialMixture(9).fit(COUNTS[:8])
    for method in ("predict", "predict_proba", "score_samples", "score", "bic", "aic"):
        with pytest.raises(NotFittedError):
            getattr(MultinomialMixture(3), method)(COUNTS)
    with pytest.raises(InputError, match="X has 4 features, but MultinomialMixture is expecting 12 features"):
        fit(COUNTS, 2).predict(np.ones((3, 4)))


# ------------------------------------------------------------------------------------------- what a fit leaves behind


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
def test_fitted_attributes(is_sparse):
    given = sp.csr_array(COUNTS) if is_sparse else COUNTS
    model = MultinomialMixture(3, random_state=0).fit(given)
    assert (model.weights_.shape, model.feature_probabilities_.shape) == ((3,), (3, 12))
    assert (model.labels_.dtype, model.labels_.shape) == (np.dtype(np.int32), (90,))
    for name, kind in (("log_likelihood_", float), ("n_clusters_", int), ("n_iter_", int), ("converged_", bool)):
        assert type(getattr(model, name)) is kind, name
    assert (model.n_clusters_, model.n_features_in_, model.converged_) == (3, 12, True)
    np.testing.assert_array_equal(model.labels_, model.predict(given))
    np.testing.assert_array_equal(model.labels_, model.predict_proba(given).argmax(axis=1))
    log_likelihood = model.score_samples(given).sum()
    assert math.isclose(model.log_likelihood_, log_likelihood, rel_tol=1e-12)
    assert math.isclose(model.score(given), log_likelihood / 90.0, rel_tol=1e-12)
    n_parameters = 2 + 3 * 11
    assert math.isclose(model.aic(given), 2.0 * n_parameters - 2.0 * log_likelihood, rel_tol=1e-12)
    assert math.isclose(model.bic(given), n_parameters * math.log(90.0) - 2.0 * log_likelihood, rel_tol=1e-12)


def test_every_attribute_is_in_the_docstring():
    section = docstring(MultinomialMixture).split("Attributes\n    ----------\n")[1].split("\n\n")[0]
    names = {name.strip() for line in section.splitlines() if " : " in line for name in line.split(" : ")[0].split(",")}
    assert names == {name for name in vars(fit(COUNTS, 3)) if name.endswith("_")} | {"device_"}


@pytest.mark.parametrize("init", ["k-means++", "random_labels"])
def test_starts_repeat_by_seed_and_the_best_run_is_kept(init):
    events = []
    model = fit(COUNTS, 5, init=init, n_init=4, max_iter=10, random_state=2, callbacks=events.append)
    np.testing.assert_array_equal(
        fit(COUNTS, 5, init=init, n_init=4, max_iter=10, random_state=2).weights_, model.weights_
    )
    last = {event.restart: event.objective for event in events if event.kind == "step"}
    assert sorted(last) == [1, 2, 3, 4]
    assert events[-1].objective == max(last.values())


def test_threads_pickles_clones_and_failures():
    counts = counts_of(9, n_rows=5000, n_features=20)
    weights = np.random.default_rng(1).gamma(1.0, size=5000)
    for given in (counts, sp.csr_array(counts)):
        models = [fit(given, 3, weights, n_threads=n_threads, max_iter=4) for n_threads in (1, 2)]
        np.testing.assert_array_equal(models[0].feature_probabilities_, models[1].feature_probabilities_)
        assert models[0].log_likelihood_ == models[1].log_likelihood_
    model = fit(COUNTS, 3)
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict_proba(COUNTS), model.predict_proba(COUNTS))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "weights_")
    before = pickle.dumps(model)
    for wrong in (np.full((10, 12), np.nan), -COUNTS, np.ones((2, 12)), "rows"):
        with pytest.raises(ArmillaryError):
            model.fit(wrong)
        assert pickle.dumps(model) == before


def test_sparse_counts_stay_sparse(monkeypatch):
    rows = sp.random_array((400, 3000), density=0.01, random_state=np.random.default_rng(3), format="csr")
    rows = sp.csr_array((rows * 5).ceil())
    made_dense = []
    to_array = sp.csr_array.toarray

    def watched(matrix, *arguments, **options):
        made_dense.append(matrix.shape[0])
        return to_array(matrix, *arguments, **options)

    monkeypatch.setattr(sp.csr_array, "toarray", watched)
    for name in ("todense", "__array__"):
        monkeypatch.setattr(sp.csr_array, name, lambda *_: pytest.fail("a sparse matrix was made dense"), raising=False)
    model = fit(rows, 5, max_iter=5)
    assert max(made_dense) <= 5
    made_dense.clear()
    for method in ("predict", "predict_proba", "score_samples", "score"):
        getattr(model, method)(rows)
    assert made_dense == []


def test_all_steps_used_is_said():
    with pytest.warns(ConvergenceWarning, match="MultinomialMixture used all 2 steps and was still gaining") as caught:
        model = MultinomialMixture(3, max_iter=2, tol=0.0, random_state=0).fit(COUNTS)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert model.converged_ is False


def test_two_small_gains_in_a_row_end_a_run():
    events = []
    model = fit(counts_of(10, n_topics=6, length=8.0), 3, tol=1e-4, callbacks=events.append)
    objectives = [event.objective for event in events if event.kind == "step"]
    is_small = [(after - before) / abs(after) <= 1e-4 for before, after in pairwise(objectives)]
    assert model.converged_
    assert is_small[-2:] == [True, True]
    assert not any(one and two for one, two in pairwise(is_small[:-1]))


@pytest.mark.parametrize("hold", [np.array, sp.csr_array], ids=["dense", "csr"])
def test_sentence_about_counts_whose_scores_would_not_be_finite(hold):
    given = hold(np.array([[1e300, 1.0], [1.0, 2.0], [3.0, 1.0]]))
    with pytest.raises(InputError) as caught:
        MultinomialMixture(2).fit(given)
    assert str(caught.value) == (
        "X of MultinomialMixture must hold counts up to 1.27e+30, so that scores stay finite; got 1e+300 among them. "
        "Give raw term counts, or divide them all by one number."
    )


@pytest.mark.parametrize("size", [1e-300, 1e29])
def test_counts_near_the_ends_have_finite_scores(size):
    given = size * np.array([[4.0, 0.0, 1.0], [5.0, 1.0, 0.0], [0.0, 4.0, 3.0], [0.0, 5.0, 4.0]])
    found = MultinomialMixture(2, random_state=0).fit(given, sample_weight=[1e15, 1.0, 1.0, 1e15])
    assert np.isfinite(found.score(given))
    assert np.isfinite(found.log_likelihood_)
