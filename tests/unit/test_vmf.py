"""The vMF functions as a user meets them: shapes, seeds, the fit and its failures, what is refused."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from armillary.distributions import vmf
from armillary.exceptions import InputError, ParameterError
from armillary.geometry import sphere

E1, E2, E3 = np.eye(3)


def a_mean(dimension, seed=0):
    vec = np.random.default_rng(seed).standard_normal(dimension)
    return vec / np.linalg.norm(vec)


# ------------------------------------------------------------------------------------------------- density


def test_density_shapes_broadcast():
    rows = vmf.sample(E1, 2.0, 7, 0)
    assert np.shape(vmf.log_density(E1, E1, 2.0)) == ()
    assert vmf.log_density(rows, E1, 2.0).shape == (7,)
    assert vmf.log_density(E2, E1, [1.0, 2.0, 1e6]).shape == (3,)
    table = vmf.log_density(rows[:, None], np.array([E1, E2]), [1.0, 5.0])
    assert table.shape == (7, 2)
    np.testing.assert_allclose(table[:, 1], vmf.log_density(rows, E2, 5.0), rtol=1e-15)


def test_density_is_continuous_where_the_formula_changes():
    rows = vmf.sample(a_mean(6), 1e5, 50, 1)
    low, high = (vmf.log_density(rows, a_mean(6), 1e5 * (1 + step)) for step in (-1e-12, 1e-12))
    np.testing.assert_allclose(low, high, atol=1e-9)


def test_density_of_sparse_and_float32_rows():
    rows = np.abs(vmf.sample(a_mean(9), 3.0, 20, 2))
    rows[rows < 0.3] = 0.0
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    dense = vmf.log_density(rows, a_mean(9), 40.0)
    np.testing.assert_allclose(vmf.log_density(sp.csr_array(rows), a_mean(9), 40.0), dense, rtol=1e-13)
    single = vmf.log_density(rows.astype(np.float32), a_mean(9), 40.0)
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, dense, atol=1e-5)


# ------------------------------------------------------------------------------------------------- samples


@pytest.mark.parametrize("dimension", [2, 3, 17, 3000])
@pytest.mark.parametrize("k", [0.0, 1.0, 1e3, 1e12])
def test_samples_are_unit_rows(dimension, k):
    draws = vmf.sample(a_mean(dimension), k, 50, 3)
    assert draws.shape == (50, dimension)
    assert draws.dtype == np.float64
    np.testing.assert_allclose(np.linalg.norm(draws, axis=1), 1.0, atol=4e-15)


def test_samples_in_the_highest_dimension():
    mean = a_mean(100_000)
    draws = vmf.sample(mean, 1e7, 5, 0)
    np.testing.assert_allclose(np.linalg.norm(draws, axis=1), 1.0, atol=4e-15)
    np.testing.assert_allclose(draws @ mean, vmf.mean_resultant_length(100_000, 1e7), atol=1e-4)


@pytest.mark.parametrize("dimension", [2, 3, 5])
def test_a_seed_fixes_the_draws(dimension):
    mean = a_mean(dimension)
    draws = vmf.sample(mean, 4.0, 30, 7)
    assert np.array_equal(draws, vmf.sample(mean, 4.0, 30, np.random.default_rng(7)))
    assert not np.array_equal(draws, vmf.sample(mean, 4.0, 30, 8))
    assert not np.array_equal(vmf.sample(mean, 4.0, 30), vmf.sample(mean, 4.0, 30))
    old = vmf.sample(mean, 4.0, 30, np.random.RandomState(7))
    assert np.array_equal(old, vmf.sample(mean, 4.0, 30, np.random.RandomState(7)))


def test_a_generator_advances():
    rng = np.random.default_rng(0)
    assert not np.array_equal(vmf.sample(E1, 4.0, 5, rng), vmf.sample(E1, 4.0, 5, rng))


def test_no_samples():
    assert vmf.sample(E1, 4.0, 0, 0).shape == (0, 3)


def test_many_samples_cross_chunks():
    draws = vmf.sample(a_mean(1000), 50.0, 600, 0)
    assert len(np.unique(draws[:, 0])) == 600


@pytest.mark.parametrize("k", [1e-310, 1e-100, 1e-12])
def test_tiny_concentrations_on_the_sphere(k):
    draws = vmf.sample(E3, k, 1000, 0)
    assert np.all(np.isfinite(draws))
    assert np.ptp(draws[:, 2]) > 1.9


# ------------------------------------------------------------------------------------------------- fit


@pytest.mark.parametrize(("dimension", "k"), [(2, 0.8), (3, 40.0), (20, 500.0), (300, 100.0), (3, 1e6), (5, 1e12)])
def test_fit_is_the_maximum_of_the_likelihood(dimension, k):
    rows = vmf.sample(a_mean(dimension), k, 400, 5)
    mean, concentration, log_likelihood = vmf.fit(rows)

    def total(direction, scale):
        return vmf.log_density(rows, direction, scale).sum()

    assert log_likelihood == pytest.approx(total(mean, concentration), rel=1e-12)
    for factor in (0.98, 1.02):
        assert total(mean, factor * concentration) < log_likelihood
    beside = sphere.exp(0.1 / math.sqrt(concentration) * sphere.tangent_frame(mean)[:, 0], mean)
    assert total(beside, concentration) < log_likelihood
    # the information about k in one row is A'; five standard deviations
    if k * math.sqrt(vmf.mean_resultant_derivative(dimension, k)) > 1 and dimension < 100:
        spread = 1.0 / math.sqrt(400 * vmf.mean_resultant_derivative(dimension, k))
        assert abs(concentration - k) < 5.0 * spread


def test_fit_of_rows_closer_than_float_lengths_can_tell():
    # the mean of these rows has length 1 - 5e-17, which rounds to 1; their distances still give the concentration
    theta = 1e-8
    rows = np.array([[math.cos(theta), math.sin(theta), 0.0], [math.cos(theta), -math.sin(theta), 0.0]])
    assert vmf.fit(rows).concentration == pytest.approx(1.0 / (theta**2 / 2), rel=1e-7)


def test_weights_count_rows():
    rows = vmf.sample(a_mean(4), 6.0, 30, 9)
    counts = np.random.default_rng(0).integers(0, 4, 30)
    weighted, repeated = vmf.fit(rows, counts), vmf.fit(np.repeat(rows, counts, axis=0))
    for got, expected in zip(weighted, repeated, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_fit_does_not_care_for_the_length_or_the_layout_of_rows():
    rows = np.abs(vmf.sample(a_mean(12), 30.0, 60, 4))
    reference = vmf.fit(rows)
    for other in (7.0 * rows, np.asfortranarray(rows), sp.csr_array(rows), sp.csr_matrix(3.0 * rows)):
        for got, expected in zip(vmf.fit(other), reference, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-11)
    single = vmf.fit(rows.astype(np.float32))
    np.testing.assert_allclose(single.concentration, reference.concentration, rtol=1e-6)
    assert single.mean.dtype == np.float64


def test_fit_of_equal_rows_has_no_concentration():
    row = a_mean(7)
    sentence = "must not all be equal; {} with positive weight are, and the likelihood grows without bound"
    for rows, n in (([row], 1), ([row] * 5, 5), ([row.astype(np.float32)] * 3, 3), (sp.csr_array([row] * 4), 4)):
        with pytest.raises(InputError, match=sentence.format(n)):
            vmf.fit(rows)
    with pytest.raises(InputError, match=sentence.format(2)):
        vmf.fit([row, row, a_mean(7, 1)], [1.0, 2.0, 0.0])


def test_fit_of_many_equal_rows_has_no_concentration():
    # the sum of a million rows is rounded more than one row is
    with pytest.raises(InputError, match="1000000 with positive weight"):
        vmf.fit(np.broadcast_to(a_mean(3), (1_000_000, 3)))
    rows = np.tile(a_mean(3), (1000, 1))
    rows[500, 0] += 1e-13
    assert 1e25 < vmf.fit(rows).concentration < 1e31


def test_fit_of_rows_that_cancel_has_no_direction():
    sentence = r"must have a direction in common; .* the uniform law fits best \(concentration 0\)"
    with pytest.raises(InputError, match=sentence):
        vmf.fit([E1, -E1])
    half = vmf.sample(a_mean(5), 3.0, 5000, 0)
    with pytest.raises(InputError, match=sentence):
        vmf.fit(np.concatenate([half, -half[::-1]]))


# ------------------------------------------------------------------------------------------------- posteriors


def test_posterior_of_many_clusters_at_once():
    rng = np.random.default_rng(0)
    resultants, k, c = rng.standard_normal((6, 4)), np.geomspace(0.1, 100, 6), 2.0
    direction, concentration = vmf.mean_posterior(resultants, k, a_mean(4), c)
    natural = k[:, None] * resultants + c * a_mean(4)
    np.testing.assert_allclose(direction * concentration[:, None], natural, rtol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(direction, axis=1), 1.0, rtol=1e-15)
    marginal = vmf.log_marginal_likelihood(np.arange(6), resultants, k, a_mean(4), c)
    assert marginal.shape == (6,)


def test_posterior_without_rows_is_the_prior():
    direction, concentration = vmf.mean_posterior(np.zeros(5), 3.0, a_mean(5), 2.5)
    np.testing.assert_allclose(direction, a_mean(5), rtol=1e-15)
    assert concentration == pytest.approx(2.5, rel=1e-15)


def test_posterior_that_cancels_is_uniform():
    direction, concentration = vmf.mean_posterior([-E1, E2], 2.0, E1, 2.0)
    assert concentration[0] == 0.0
    assert np.array_equal(direction[0], E1)
    assert concentration[1] == pytest.approx(math.sqrt(8.0))


def test_predictive_far_from_its_mean_does_not_fail():
    assert np.isfinite(vmf.log_predictive_density(-E1, E1, 50.0, 50.0))


# ------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (
            lambda: vmf.sample(2 * E1, 1.0, 5, 0),
            InputError,
            r"`mean` of vmf\.sample must be of unit length; got norm 2",
        ),
        (
            lambda: vmf.sample(math.nan * E1, 1.0, 5, 0),
            InputError,
            r"`mean` of vmf\.sample must hold finite numbers; got nan",
        ),
        (lambda: vmf.sample([1.0], 1.0, 5, 0), InputError, r"must have D >= 2 numbers"),
        (lambda: vmf.sample([E1, E2], 1.0, 5, 0), InputError, r"must be one direction, shape \(D,\); got \(2, 3\)"),
        (lambda: vmf.sample(E1, -1.0, 5, 0), ParameterError, r"`concentration` of vmf\.sample must be a number >= 0"),
        (lambda: vmf.sample(E1, math.inf, 5, 0), ParameterError, r"`concentration` of vmf\.sample"),
        (lambda: vmf.sample(E1, 1.0, -5, 0), ParameterError, r"`size` of vmf\.sample must be an int >= 0; got -5"),
        (lambda: vmf.sample(E1, 1.0, 5, "seed"), ParameterError, r"`random_state` must be"),
        (lambda: vmf.log_density(np.eye(4), E1, 1.0), InputError, r"`points` of vmf\.log_density must have D = 3"),
        (lambda: vmf.log_density(sp.eye_array(4).tocsr(), E1, 1.0), InputError, r"must have D = 3 numbers"),
        (lambda: vmf.log_density(E1, E1, -1.0), ParameterError, r"`concentration` must be a finite number >= 0"),
        (lambda: vmf.kl_divergence(E1, 1.0, [1.0, 0.0], 1.0), InputError, r"`other_mean` .* must have D = 3"),
        (lambda: vmf.mean_posterior(np.ones(4), 1.0, E1, 1.0), InputError, r"`resultant` of vmf\.mean_posterior"),
        (lambda: vmf.fit(np.empty((0, 3))), InputError, r"at least one row"),
        (lambda: vmf.fit([E1, E2], [1.0, -1.0]), InputError, r"not negative"),
        (lambda: vmf.fit([E1, 0 * E1]), InputError, r"Row 1 .*norm 0"),
    ],
)
def test_what_cannot_be_used_is_refused(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
