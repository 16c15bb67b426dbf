"""The vMF density and what is derived from it, against quadrature, closed forms, SciPy and Monte Carlo.

Statistical tests compare z = (estimate - truth) / its exact standard deviation with the 1e-6 quantile of the normal
law; their seeds are fixed.
"""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm, vonmises, vonmises_fisher

from armillary.distributions import vmf
from armillary.distributions.bessel import log_h
from armillary.geometry.sphere import log_area

Z_LIMIT = norm.isf(0.5e-6)


def unit(*numbers):
    return np.array(numbers, dtype=float) / np.linalg.norm(numbers)


def axis(dimension, i):
    vec = np.zeros(dimension)
    vec[i] = 1.0
    return vec


def circle(n_points):
    """Points on S^1; the mean over them times 2 pi is the trapezium rule, exact to rounding for smooth functions."""
    angles = 2 * math.pi * np.arange(n_points) / n_points
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def sphere_rule(n_heights, n_turns):
    """Points on S^2 and weights: Gauss-Legendre in the height, trapezium round the axis."""
    heights, weights = np.polynomial.legendre.leggauss(n_heights)
    turn = circle(n_turns)
    radius = np.sqrt((1 - heights) * (1 + heights))
    points = np.concatenate(
        [radius[:, None, None] * turn, np.broadcast_to(heights[:, None, None], (n_heights, n_turns, 1))], axis=2
    )
    return points.reshape(-1, 3), np.repeat(weights, n_turns) * 2 * math.pi / n_turns


@pytest.mark.parametrize("k", [0.0, 1e-3, 0.7, 5.0, 29.9, 30.1, 400.0, 1e4])
def test_integrates_to_one_on_the_circle(k):
    density = np.exp(vmf.log_density(circle(4000), unit(0.3, -2.0), k))
    assert density.mean() * 2 * math.pi == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("k", [0.0, 0.7, 5.0, 29.9, 30.1, 200.0])
def test_integrates_to_one_on_the_sphere(k):
    points, weights = sphere_rule(120, 120)
    assert weights @ np.exp(vmf.log_density(points, unit(1.0, -2.0, 0.5), k)) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("dimension", [4, 10, 128, 1536, 20733])
@pytest.mark.parametrize("ratio", [0.01, 1.0, 30.0])
def test_integrates_to_one_over_the_cosine_in_any_dimension(dimension, ratio):
    # the sphere is a stack of spheres one dimension lower, of radius sin(theta) at angle theta
    k = ratio * dimension
    mean = axis(dimension, 0)
    side = axis(dimension, 1)
    peak = math.acos(vmf.mean_resultant_length(dimension, k))

    def density(theta):
        point = math.cos(theta) * mean + math.sin(theta) * side
        log_ring = log_area(dimension - 1) + (dimension - 2) * math.log(math.sin(theta))
        return math.exp(vmf.log_density(point, mean, k) + log_ring)

    width = 12 * math.sqrt(1.0 / (dimension + k))
    total, _ = quad(density, max(1e-12, peak - width), min(math.pi - 1e-12, peak + width), epsabs=1e-13, epsrel=1e-11)
    assert total == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize(("dimension", "k"), [(5, 2.0), (20, 6.0), (200, 20.0)])
def test_integrates_to_one_by_monte_carlo(dimension, k):
    seed, n = 11, 200_000
    points = np.random.default_rng(seed).standard_normal((n, dimension))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    ratio = np.exp(vmf.log_density(points, axis(dimension, 2), k) + log_area(dimension))
    # under the uniform law E[ratio] = 1 and E[ratio^2] = H(2k) / H(k)^2
    order = dimension / 2 - 1
    deviation = math.sqrt(math.expm1(log_h(order, 2 * k) - 2 * log_h(order, k)) / n)
    z = (ratio.mean() - 1.0) / deviation
    assert abs(z) < Z_LIMIT, f"z = {z}, seed {seed}"
    # the mutation it must catch: the normaliser of the neighbouring dimension
    wrong = ratio * math.exp(vmf.log_normalizer(dimension + 1, k) - vmf.log_normalizer(dimension, k))
    assert abs(wrong.mean() - 1.0) / deviation > Z_LIMIT


@pytest.mark.parametrize("dimension", [2, 3, 5, 30])
@pytest.mark.parametrize("k", [0.2, 3.0, 100.0, 5e3])
def test_equals_scipy_where_scipy_answers(dimension, k):
    rng = np.random.default_rng(dimension)
    points = rng.standard_normal((20, dimension))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    mean = points[0]
    np.testing.assert_allclose(
        vmf.log_density(points, mean, k), vonmises_fisher(mean, k).logpdf(points), rtol=1e-11, atol=1e-10
    )
    np.testing.assert_allclose(vmf.entropy(dimension, k), vonmises_fisher(mean, k).entropy(), rtol=1e-10)


def test_equals_von_mises_on_the_circle():
    angles = np.linspace(-3, 3, 50)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    np.testing.assert_allclose(vmf.log_density(points, [1.0, 0.0], 4.5), vonmises.logpdf(angles, 4.5), rtol=1e-13)


def test_closed_form_in_three_dimensions():
    points, _ = sphere_rule(5, 5)
    mean, k = unit(1.0, 2.0, 3.0), 7.5
    expected = math.log(k / (4 * math.pi * math.sinh(k))) + k * points @ mean
    np.testing.assert_allclose(vmf.log_density(points, mean, k), expected, rtol=1e-14)


@pytest.mark.parametrize("k", [1e6, 1e9, 1e12, 1e15])
@pytest.mark.parametrize("dimension", [2, 3, 40])
def test_far_concentrations_become_a_gaussian_in_the_tangent_space(dimension, k):
    # at an angle of three standard deviations the exponent -k (1 - cos) is -9/2
    mean, side = axis(dimension, 0), axis(dimension, 1)
    theta = 3.0 / math.sqrt(k)
    point = math.cos(theta) * mean + math.sin(theta) * side
    gaussian = 0.5 * (dimension - 1) * math.log(k / (2 * math.pi)) - 4.5
    assert vmf.log_density(point, mean, k) == pytest.approx(gaussian, abs=1e-10 + dimension**2 / k)


def test_uniform_law_at_concentration_zero():
    np.testing.assert_allclose(vmf.log_density(circle(5), [0.0, 1.0], 0.0), -math.log(2 * math.pi), rtol=1e-15)


@pytest.mark.parametrize(("dimension", "k"), [(2, 0.5), (3, 10.0), (20, 30.0), (300, 5e3)])
def test_entropy_by_monte_carlo(dimension, k):
    seed, n = 5, 40_000
    mean = axis(dimension, 0)
    draws = vmf.sample(mean, k, n, seed)
    # the log density varies as k times the cosine, whose variance is A'
    deviation = k * math.sqrt(vmf.mean_resultant_derivative(dimension, k) / n)
    z = (-vmf.log_density(draws, mean, k).mean() - vmf.entropy(dimension, k)) / deviation
    assert abs(z) < Z_LIMIT, f"z = {z}, seed {seed}"


def test_entropy_at_the_ends():
    assert vmf.entropy(3, 0.0) == pytest.approx(math.log(4 * math.pi), rel=1e-15)
    # the entropy of a Gaussian in the plane
    assert vmf.entropy(3, 1e14) == pytest.approx(1.0 + math.log(2 * math.pi / 1e14), rel=1e-14)


def test_kl_divergence_by_quadrature():
    points, weights = sphere_rule(120, 120)
    first, second = unit(1.0, 2.0, 0.0), unit(0.0, 1.0, -1.0)
    for k1, k2 in ((0.0, 3.0), (5.0, 0.0), (12.0, 40.0), (60.0, 7.0)):
        p, q = vmf.log_density(points, first, k1), vmf.log_density(points, second, k2)
        assert vmf.kl_divergence(first, k1, second, k2) == pytest.approx(weights @ (np.exp(p) * (p - q)), rel=1e-11)


def test_kl_divergence_properties():
    rng = np.random.default_rng(0)
    means = rng.standard_normal((6, 8))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    k = np.geomspace(0.01, 1e9, 6)
    table = vmf.kl_divergence(means[:, None], k[:, None], means, k)
    assert table.shape == (6, 6)
    assert np.array_equal(np.diag(table), np.zeros(6))
    assert np.all(table[~np.eye(6, dtype=bool)] > 0.0)
    # between narrow laws of one direction: that of two Gaussians, (D-1)/2 (ratio - 1 - log ratio)
    assert vmf.kl_divergence(means[0], 1e10, means[0], 2e10) == pytest.approx(3.5 * (1 - math.log(2)), rel=1e-8)


def test_marginal_likelihood_by_quadrature_over_the_mean():
    points, weights = sphere_rule(150, 150)
    rows = vmf.sample(unit(1.0, 1.0, 0.0), 8.0, 5, 3)
    prior, c, k = unit(0.0, 1.0, 1.0), 2.5, 6.0
    joint = vmf.log_density(points, prior, c) + sum(vmf.log_density(row, points, k) for row in rows)
    expected = math.log(weights @ np.exp(joint))
    assert vmf.log_marginal_likelihood(5, rows.sum(axis=0), k, prior, c) == pytest.approx(expected, rel=1e-12)


def test_marginal_likelihood_is_the_product_of_predictives():
    dimension, k, c = 25, 40.0, 12.0
    prior = unit(*range(1, dimension + 1))
    rows = vmf.sample(prior, 30.0, 6, 8)
    direction, concentration, total = prior, c, 0.0
    for i, row in enumerate(rows):
        total += vmf.log_predictive_density(row, direction, concentration, k)
        direction, concentration = vmf.mean_posterior(rows[: i + 1].sum(axis=0), k, prior, c)
    assert total == pytest.approx(vmf.log_marginal_likelihood(6, rows.sum(axis=0), k, prior, c), rel=1e-13)


def test_marginal_likelihood_of_nothing_is_one():
    assert vmf.log_marginal_likelihood(0, np.zeros(4), 3.0, np.eye(4)[0], 2.0) == 0.0


def test_posterior_by_quadrature():
    points = circle(2000)
    prior, c, k = unit(1.0, 0.2), 1.5, 3.0
    rows = vmf.sample(unit(0.0, 1.0), 4.0, 7, 1)
    joint = vmf.log_density(points, prior, c) + sum(vmf.log_density(row, points, k) for row in rows)
    direction, concentration = vmf.mean_posterior(rows.sum(axis=0), k, prior, c)
    posterior = vmf.log_density(points, direction, concentration)
    assert np.ptp(joint - posterior) < 1e-12


@pytest.mark.parametrize(("gamma", "k"), [(0.0, 3.0), (2.0, 0.0), (4.0, 9.0), (50.0, 80.0)])
def test_predictive_integrates_to_one_and_equals_the_average(gamma, k):
    grid, mean = circle(3000), unit(-1.0, 0.4)
    assert np.exp(vmf.log_predictive_density(grid, mean, gamma, k)).mean() * 2 * math.pi == pytest.approx(
        1.0, rel=1e-12
    )
    point = unit(0.1, 1.0)
    mixture = np.exp(vmf.log_density(point, grid, k) + vmf.log_density(grid, mean, gamma)).mean() * 2 * math.pi
    assert vmf.log_predictive_density(point, mean, gamma, k) == pytest.approx(math.log(mixture), abs=1e-12)


def test_convolved_concentration_matches_the_mean_of_the_blurred_law():
    grid, gamma, k = circle(3000), 4.0, 9.0
    blurred = np.exp(vmf.log_predictive_density(grid, [1.0, 0.0], gamma, k))
    length = (blurred[:, None] * grid).mean(axis=0)[0] * 2 * math.pi
    assert vmf.convolved_concentration(2, gamma, k) == pytest.approx(
        vmf.concentration_from_resultant(2, length), rel=1e-12
    )
    # narrow laws add like variances, and keep their digits
    assert vmf.convolved_concentration(50, 1e12, 1e12) == pytest.approx(5e11, rel=1e-9)
    assert vmf.convolved_concentration(50, 1e-3, 1e-3) == pytest.approx(2e-8, rel=1e-6)
