"""Laws of the Bayesian mixture: no single update lowers the bound, bounds keep their order, and invariances."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from tests.making import units

from armillary.distributions import bessel, vmf
from armillary.distributions import concentration_laws as laws
from armillary.distributions.log_concentration import MixturePrior
from armillary.draws import Stream
from armillary.engines.cpu import Passes
from armillary.kernels.rows import blocks as cpu
from armillary.models.vmf import _bayesian_vmf_fit as fits
from armillary.models.vmf import _variational_steps as steps
from armillary.models.vmf import _variational_vmf as v
from armillary.models.vmf.bayesian_vmf_mixture import BayesianVonMisesFisherMixture
from armillary.points import as_points
from armillary.workers import Workers

SLACK = {np.float64: 1e-9, np.float32: 1e-6}  # of the bound over the uniform law
law = settings(deadline=None, max_examples=6)


def clumps(seed, n_rows, dimension, n_clumps=4, cosine=0.7):
    """Rows of vMF clumps whose mean resultant length is `cosine`, with overlap in few dimensions."""
    rng = np.random.default_rng(seed)
    kappa = bessel.concentration_from_resultant(dimension, cosine)
    sizes = np.bincount(np.arange(n_rows) % n_clumps)
    rows = [
        vmf.sample(center, kappa, size, rng)
        for center, size in zip(units(rng, n_clumps, dimension), sizes, strict=True)
    ]
    return np.concatenate(rows)


def fit(rows, n_components, sample_weight=None, **parameters):
    """A model after a few steps; that it could go on is no matter here."""
    settings = {"random_state": 0, "n_threads": 1, "max_iter": 12, **parameters}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return BayesianVonMisesFisherMixture(n_components, **settings).fit(rows, sample_weight=sample_weight)


def checked(rows, sample_weight=None, **parameters):
    """Passes over the rows and the checked parameters of a model."""
    points = as_points(rows, "test", sample_weight)
    model = BayesianVonMisesFisherMixture(**{"n_components": 5, "n_threads": 1, **parameters})
    return Passes(points, cpu, Workers(1)), fits.Parameters.check(model.get_params(), points, "Model")


def single_updates(passes, parameters, n_sweeps=2, seed=0):
    """Every state that single updates lead through, with the name of the update."""
    stream = Stream(seed)
    form = parameters.form(stream, 1, 1)
    state = fits.initial_state(passes, parameters, stream, 1)
    yield "start", state
    for sweep in range(n_sweeps):
        if parameters.has_sticks:
            state = steps.sort_components(state)
            yield "order", state
        rule = v.score_rule(state)
        state = v.update_labels(state, passes)
        yield "z", state
        state = v.update_weights(state)
        yield "pi", state
        if parameters.is_joint:
            state = v.update_joint(state, form.make_law)
            yield "mu, kappa", state
        else:
            for _ in range(2):
                state = v.update_directions(state)
                yield "mu", state
                state = v.update_concentrations(state, form.make_law)
                yield "kappa", state
        for name, learn in (
            ("m, s2", v.learn_log_concentration),
            ("mu_0, C_0", v.learn_mean_direction),
            ("alpha", v.learn_weight_concentration),
        ):
            state = learn(state)
            yield name, state
        state = v.update_components(v.update_weights(state), form)
        yield "refresh", state
        if parameters.is_merging and sweep:
            state = steps.merge_components(state, passes, rule, form)
            yield "merge", state


def largest_fall(passes, parameters, objective=v.objective, **more):
    """The largest relative fall of the objective over all single updates, and the update that did it."""
    bounds = [(name, objective(state)) for name, state in single_updates(passes, parameters, **more)]
    falls = [((before - now) / abs(now), name) for (_, before), (name, now) in pairwise(bounds)]
    return max(falls)


FORMS = [
    {"factors": "joint"},
    {"factors": "factorised"},
    {"factors": "joint", "weight_prior": "stick_breaking", "n_components": 9},
    {"factors": "factorised", "weight_prior": "stick_breaking", "n_components": 9},
    {"factors": "joint", "merge": True, "n_components": 9},
]


@pytest.mark.parametrize("dimension", [3, 25, 400])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_no_single_update_lowers_the_bound(dimension, form):
    fall, name = largest_fall(*checked(clumps(0, 300, dimension), **form))
    assert fall <= SLACK[np.float64], name


@pytest.mark.parametrize("bound", ["quadrature", "jensen"])
@pytest.mark.parametrize("factors", ["joint", "factorised"])
def test_nor_with_log_normal_laws(bound, factors):
    form = {"concentration_posterior": "log_normal", "log_normal_bound": bound, "factors": factors}
    fall, name = largest_fall(*checked(clumps(1, 200, 25), **form), n_sweeps=2)
    assert fall <= SLACK[np.float64], name


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_nor_on_sparse_or_single_precision_rows_with_weights(dtype, is_sparse):
    rng = np.random.default_rng(2)
    rows = clumps(2, 400, 60)
    rows[rng.random(rows.shape) < 0.7] = 0.0
    rows[:, 0] += 0.1
    rows = rows.astype(dtype)
    given_rows = sp.csr_array(rows) if is_sparse else rows
    fall, name = largest_fall(*checked(given_rows, rng.gamma(2.0, size=400)))
    assert fall <= SLACK[dtype], name


@pytest.mark.parametrize("factors", ["joint", "factorised"])
def test_nor_with_a_prior_for_each_component(factors):
    # as in a tree or a chain, where the prior of a direction is what others say of it
    rows = clumps(3, 200, 10)
    passes, parameters = checked(rows, n_components=4, factors=factors)
    form = parameters.form(Stream(0), 1, 1)
    state = fits.initial_state(passes, parameters, Stream(0), 1)
    vectors = 40.0 * units(np.random.default_rng(0), 4, 10)
    state = replace(state, prior=MixturePrior.of_vectors(vectors, state.prior.log_mean, 0.5))
    bounds = [v.objective(state)]
    for _ in range(4):
        for update in (
            lambda state: v.update_labels(state, passes),
            v.update_weights,
            lambda state: v.update_components(state, form),
            v.learn_log_concentration,
        ):
            state = update(state)
            bounds.append(v.objective(state))
    assert bounds[-1] > bounds[0] + 1.0
    assert max(before - now for before, now in pairwise(bounds)) <= SLACK[np.float64] * abs(bounds[-1])
    # a component without rows is where its own prior is
    empty = replace(state, statistics=state.statistics.scale(0.0))
    lengths = bessel.mean_resultant_length(10, 40.0)
    found = v.update_components(v.update_components(empty, form), form).factors.mean_directions
    np.testing.assert_allclose(found, lengths * vectors / 40.0, atol=1e-12)


@law
@given(
    seed=st.integers(0, 2**32),
    dimension=st.sampled_from([2, 3, 10, 70]),
    n_components=st.integers(1, 6),
    n_rows=st.integers(6, 60),
    form=st.sampled_from(FORMS),
)
@example(seed=2725, dimension=10, n_components=3, n_rows=49, form=FORMS[2])
def test_no_single_update_lowers_the_bound_of_any_rows(seed, dimension, n_components, n_rows, form):
    rng = np.random.default_rng(seed)
    rows = units(rng, n_rows, dimension)
    rows[: n_rows // 3] = rows[0]  # copies: a component of equal rows
    passes, parameters = checked(rows, rng.gamma(0.5, size=n_rows) + 1e-3, **{**form, "n_components": n_components})
    before = -math.inf
    for name, state in single_updates(passes, parameters):
        now = v.objective(state)
        assert np.isfinite(now)
        # rounding is that of the parts of the bound: equal rows have a concentration of up to 5e11
        parts = float(state.statistics.counts @ state.factors.concentrations)
        assert now >= before - 1e-9 * (abs(now) + n_rows) - 2.0**-50 * parts, name
        before = now


# -------------------------------------------------------------------------------------------------------- mutations


def test_the_law_sees_an_entropy_of_the_wrong_sign():
    def less_labels(state):
        return v.objective(state) - 2.0 * state.label_entropy

    overlapping, its_parameters = checked(clumps(0, 300, 3))
    assert largest_fall(overlapping, its_parameters, less_labels)[0] > 1e3 * SLACK[np.float64]

    # the laws of Jensen's bound are too narrow; the grid then widens them
    passes, parameters = checked(clumps(0, 60, 25))
    narrow = fits.initial_state(passes, parameters, Stream(0), 1)
    narrow = v.update_joint(narrow, lambda target: laws.log_normal_law(target, "jensen"))
    wide = v.update_joint(narrow, laws.grid_law)
    assert v.objective(wide) > v.objective(narrow)

    def less_factors(state):
        return v.objective(state) - 2.0 * float(state.factors.log_entropies.sum())

    assert less_factors(wide) < less_factors(narrow) - 1e3 * SLACK[np.float64] * abs(v.objective(wide))


def test_the_law_sees_a_dropped_constant():
    # log H(C_0) and log s2 are constants until empirical Bayes moves them, here both downwards
    passes, parameters = checked(clumps(0, 300, 25), mean_concentration_prior=100.0)

    def without_variance(state):
        return v.objective(state) + 0.5 * len(state.statistics.counts) * math.log(state.prior.log_variance)

    def without_length(state):
        c = state.prior.mean_concentration
        return v.objective(state) + len(state.statistics.counts) * float(bessel.log_h(11.5, c))

    assert largest_fall(passes, parameters)[0] <= SLACK[np.float64]
    for mutated in (without_variance, without_length):
        assert largest_fall(passes, parameters, mutated)[0] > 1e3 * SLACK[np.float64]


@pytest.mark.parametrize("factors", ["joint", "factorised"])
def test_the_law_sees_a_jacobian_too_many(monkeypatch, factors):
    def with_minus_y(target):
        moved = replace(target.prior, log_mean=target.prior.log_mean - target.prior.log_variance)
        return laws.grid_law(replace(target, prior=moved))

    # few rows: the prior matters; no empirical Bayes, which would hide it
    passes, parameters = checked(clumps(0, 12, 3), n_components=3, factors=factors)
    start = fits.initial_state(passes, parameters, Stream(0), 1)
    right = v.objective(v.update_components(start, v.FactorForm(parameters.is_joint, laws.grid_law)))
    wrong = v.objective(v.update_components(start, v.FactorForm(parameters.is_joint, with_minus_y)))
    assert wrong < right - 1e-3 * abs(right)


def test_the_law_sees_the_length_of_kappa_for_that_of_gamma(monkeypatch):
    true_directions = v.factorised_directions

    def seeds_directions(factors, *given):
        """E[mu] = A(E kappa) psi, as printed in the paper."""
        made = true_directions(factors, *given)
        dimension = made.resultants.shape[1]
        length = bessel.mean_resultant_length(dimension, made.concentrations)
        factor = (length / made.mean_lengths)[:, None]
        return replace(
            made,
            direction_coefficients=factor * made.direction_coefficients,
            natural_coefficients=factor * made.natural_coefficients,
            direction_entropies=vmf.relative_entropy(dimension, bessel.concentration_from_resultant(dimension, length)),
        )

    passes, parameters = checked(clumps(0, 60, 25), factors="factorised")
    monkeypatch.setattr(v, "factorised_directions", seeds_directions)
    assert largest_fall(passes, parameters)[0] > 1e3 * SLACK[np.float64]


def test_the_law_sees_sticks_sorted_without_a_look_at_the_bound():
    # clumps of 9, 8, ..., 1 rows and a process that makes many clusters: E[a] is above 1
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [vmf.sample(center, 900.0, size, rng) for size, center in enumerate(np.eye(100)[:9], start=1)]
    )
    passes, parameters = checked(
        rows, n_components=9, init=np.eye(100)[:9], weight_prior="stick_breaking", weight_concentration_prior=20.0
    )
    state = fits.initial_state(passes, parameters, Stream(0), 1)
    order = np.array([8, 7, 6, 5, 4, 3, 2, 0, 1])  # by size but for the last two
    state = replace(state, statistics=state.statistics.select(order), factors=state.factors.select(order))
    for _ in range(50):
        state = v.update_weights(state)
    sizes = state.statistics.counts
    assert state.weights.concentration > 1.0
    by_size = np.argsort(-sizes)
    sorted_blindly = replace(
        state,
        statistics=state.statistics.select(by_size),
        factors=state.factors.select(by_size),
        weights=state.weights.update(sizes[by_size]),
    )
    assert v.objective(sorted_blindly) < v.objective(state) - 0.1
    assert steps.sort_components(state) is state
    # from any other order the bound rises
    backwards = replace(
        state, statistics=state.statistics.select(by_size[::-1]), factors=state.factors.select(by_size[::-1])
    )
    backwards = v.update_weights(backwards)
    assert v.objective(steps.sort_components(backwards)) > v.objective(backwards) + 0.1


# ------------------------------------------------------------------------------------------- orders and stationarity


def settled(passes, parameters, n_steps=40, seed=0):
    stream = Stream(seed)
    state = fits.initial_state(passes, parameters, stream, 1)
    form = parameters.form(stream, 1, 1)
    for _ in range(n_steps):
        state = v.update_components(v.update_weights(v.update_labels(state, passes)), form)
    return state


@pytest.mark.parametrize("dimension", [3, 60])
def test_joint_then_factorised_and_grid_then_log_normal(dimension):
    rows = clumps(4, 120, dimension)
    passes, parameters = checked(rows, n_components=4)
    state = settled(passes, parameters, 15)

    def bound(**form):
        other = checked(rows, n_components=4, **form)[1]
        made = state
        for _ in range(1 if other.is_joint else 6):  # from the same responsibilities and priors
            made = v.update_components(made, other.form(Stream(0), 1, 1))
        return v.objective(made)

    normal = {"concentration_posterior": "log_normal"}
    joint, factorised = bound(), bound(factors="factorised")
    assert factorised <= joint + 1e-8
    for factors, best in (("joint", joint), ("factorised", factorised)):
        quadrature = bound(factors=factors, **normal)
        jensen = bound(factors=factors, log_normal_bound="jensen", **normal)
        assert jensen <= quadrature + 1e-7
        assert quadrature <= best + 1e-7
    # an estimate, each of four components off by about 0.1 nats
    assert abs(bound(concentration_posterior="monte_carlo") - joint) < 5.0 * 0.11 * math.sqrt(4.0)


@pytest.mark.parametrize("factors", ["joint", "factorised"])
def test_priors_are_where_their_slopes_vanish(factors):
    passes, parameters = checked(clumps(5, 200, 10), factors=factors)
    state = settled(passes, parameters, 3)
    state = v.learn_weight_concentration(v.learn_mean_direction(v.learn_log_concentration(state)))
    best, prior = v.objective(state), state.prior
    turned = prior.mean_direction + 0.01 * units(np.random.default_rng(0), 10)
    others = [
        replace(prior, mean_concentration=1.01 * prior.mean_concentration),
        replace(prior, mean_concentration=0.99 * prior.mean_concentration),
        replace(prior, mean_direction=turned / np.linalg.norm(turned)),
        replace(prior, log_mean=prior.log_mean + 0.05 * math.sqrt(prior.log_variance)),
        replace(prior, log_mean=prior.log_mean - 0.05 * math.sqrt(prior.log_variance)),
        replace(prior, log_variance=1.05 * prior.log_variance),
        replace(prior, log_variance=0.95 * prior.log_variance),
    ]
    assert all(v.objective(replace(state, prior=other)) < best for other in others)
    h = 1e-4

    def slope(**names):
        name, value = next(iter(names.items()))
        ends = [
            v.objective(replace(state, prior=replace(prior, **{name: value * (1.0 + side * h)}))) for side in (-1, 1)
        ]
        return (ends[1] - ends[0]) / (2.0 * h)

    for name in ("mean_concentration", "log_mean", "log_variance"):
        assert abs(slope(**{name: getattr(prior, name)})) < 1e-5 * abs(best)


@pytest.mark.parametrize(("n_components", "moves_direction", "moves_spread"), [(1, False, False), (2, True, False)])
def test_few_components_leave_some_priors_alone(n_components, moves_direction, moves_spread):
    passes, parameters = checked(clumps(5, 80, 5, n_clumps=2), n_components=n_components)
    state = settled(passes, parameters, 3)
    learned = v.learn_priors(state, parameters.form(Stream(0), 1, 1))
    assert (learned.prior.mean_concentration != state.prior.mean_concentration) == moves_direction
    assert (learned.prior.log_variance != state.prior.log_variance) == moves_spread
    assert learned.prior.log_mean == state.prior.log_mean


def test_the_prior_of_directions_stays_finite():
    # all components at one place would ask for an infinite C_0
    rows = clumps(0, 60, 5, n_clumps=1, cosine=0.9999999)
    model = fit(rows, 3, max_iter=30)
    assert np.isfinite(model.mean_concentration_)
    assert model.mean_concentration_ <= bessel.concentration_from_resultant(5, 1.0 - 1e-6)
    assert np.isfinite(model.lower_bound_)


# ------------------------------------------------------------------------------------------------------ invariances


def test_rotated_rows_have_rotated_components():
    rows = clumps(6, 150, 6)
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    start = rows[:4]
    one, other = fit(rows, 4, init=start), fit(rows @ rotation, 4, init=start @ rotation)
    assert other.lower_bound_ == pytest.approx(one.lower_bound_, rel=1e-9)
    np.testing.assert_allclose(other.means_, one.means_ @ rotation, atol=1e-6)
    np.testing.assert_allclose(other.concentrations_, one.concentrations_, rtol=1e-6)


def test_weights_of_two_are_rows_twice():
    rows = clumps(7, 90, 5)
    weights = np.where(np.arange(90) % 3 == 0, 2.0, 1.0)
    start = rows[:3]
    weighted = fit(rows, 3, weights, init=start)
    repeated = fit(np.repeat(rows, weights.astype(int), axis=0), 3, init=start)
    assert weighted.lower_bound_ == pytest.approx(repeated.lower_bound_, rel=1e-9)
    np.testing.assert_allclose(weighted.means_, repeated.means_, atol=1e-7)


@pytest.mark.parametrize("form", [{}, {"factors": "factorised"}, {"weight_prior": "stick_breaking"}], ids=str)
def test_sparse_rows_are_dense_rows(form):
    rng = np.random.default_rng(3)
    rows = np.where(rng.random((200, 50)) < 0.2, rng.random((200, 50)), 0.0)
    rows[:, 0] += 0.05
    dense, sparse = (fit(given_rows, 4, init=rows[:4], **form) for given_rows in (rows, sp.csr_array(rows)))
    assert sparse.lower_bound_ == pytest.approx(dense.lower_bound_, rel=1e-9)
    np.testing.assert_allclose(sparse.means_, dense.means_, atol=1e-6)
    np.testing.assert_array_equal(sparse.labels_, dense.labels_)
    np.testing.assert_allclose(
        sparse.score_samples(sp.csr_array(rows[:20])), dense.score_samples(rows[:20]), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("form", [{}, {"weight_prior": "stick_breaking"}, {"batch_size": 2000}], ids=str)
def test_one_thread_and_two_have_equal_bits(form):
    rows = clumps(8, 6000, 60)
    assert len(as_points(rows, "test").lanes) > 1
    models = [fit(rows, 6, n_threads=n, max_iter=5, **form) for n in (1, 2)]
    for name in ("means_", "concentrations_", "weights_", "labels_", "lower_bounds_", "resultants_"):
        np.testing.assert_array_equal(getattr(models[0], name), getattr(models[1], name), err_msg=name)
    np.testing.assert_array_equal(*(model.score_samples(rows[:5000]) for model in models))
