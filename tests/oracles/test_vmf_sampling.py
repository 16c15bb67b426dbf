"""Draws of `vmf.sample` against the law they should have.

Distribution functions are compared by the Kolmogorov-Smirnov distance; by the inequality of Dvoretzky, Kiefer,
Wolfowitz and Massart it exceeds sqrt(log(2/p) / (2n)) with probability at most p, here 1e-6 a comparison. Seeds are
fixed. For each test there is a broken generator of random numbers, standing for a mistake in the sampler, that must
fail it.
"""

import math

import numpy as np
import pytest
from scipy.integrate import cumulative_trapezoid
from scipy.stats import beta, chi2, norm
from tests.making import each

from armillary.distributions import vmf
from armillary.geometry import sphere

FALSE_ALARM = 1e-6
SEED = 20240
DIMENSIONS = (2, 3, 5, 20, 128, 1536)


class WithoutRejection(np.random.Generator):
    """Every proposal is accepted."""

    def standard_exponential(self, size):
        return np.full(size, np.inf)


class WrongProposal(np.random.Generator):
    """Proposals of two dimensions more; for D = 3, cosines that are not uniform under the uniform law."""

    def beta(self, a, b, size):
        return super().beta(a + 1.0, b + 1.0, size)

    def random(self, size):
        return super().random(size) ** 1.2


class WrongDirections(np.random.Generator):
    """Directions from a cube: normalised, symmetric, not uniform."""

    def standard_normal(self, size):
        return self.uniform(-1.0, 1.0, size)


class OneSided(np.random.Generator):
    """Directions from one half of the tangent space."""

    def standard_normal(self, size):
        draws = super().standard_normal(size)
        draws[:, 0] = np.abs(draws[:, 0])
        return draws


def generator(kind=np.random.Generator):
    return kind(np.random.PCG64(SEED))


def a_mean(dimension):
    vec = np.random.default_rng(dimension).standard_normal(dimension)
    return vec / np.linalg.norm(vec)


def n_draws(dimension):
    return min(40_000, 4_000_000 // dimension)


def distance(values, cdf):
    """Kolmogorov-Smirnov distance times the limit's inverse: above 1 is an alarm."""
    values = np.sort(values)
    n = len(values)
    below, above = cdf(values) - np.arange(n) / n, np.arange(1, n + 1) / n - cdf(values)
    return max(below.max(), above.max()) / math.sqrt(math.log(2 / FALSE_ALARM) / (2 * n))


def angle_cdf(dimension, k):
    """The distribution function of the angle to the mean: density exp(k cos(theta)) sin(theta)^(D-2), integrated."""
    peak, width = math.acos(vmf.mean_resultant_length(dimension, k)), math.sqrt(1.0 / (k + dimension))
    theta = np.linspace(max(0.0, peak - 12 * width), min(math.pi, peak + 12 * width), 40_001)
    with np.errstate(divide="ignore"):
        rim = (dimension - 2) * np.log(np.sin(theta)) if dimension > 2 else 0.0
    log_density = -2.0 * k * np.sin(theta / 2) ** 2 + rim
    mass = cumulative_trapezoid(np.exp(log_density - log_density.max()), theta, initial=0.0)
    return lambda x: np.interp(x, theta, mass / mass[-1])


def angle_distance(dimension, k, kind=np.random.Generator):
    mean = a_mean(dimension)
    draws = vmf.sample(mean, k, n_draws(dimension), generator(kind))
    return distance(sphere.angle(draws, mean), angle_cdf(dimension, k))


@each("dimension", DIMENSIONS)
@each("k", [0.0, 0.5, 7.0, 100.0, 3e3, 1e5])
def test_angle_to_the_mean(dimension, k):
    assert angle_distance(dimension, k) < 1.0, f"seed {SEED}"


@pytest.mark.parametrize("dimension", [2, 5, 20, 128, 1536])
def test_angle_test_catches_a_missing_rejection(dimension):
    assert angle_distance(dimension, 1e5, WithoutRejection) > 1.0


@pytest.mark.parametrize("dimension", [2, 3, 5, 20])
@pytest.mark.parametrize("k", [0.0, 0.5, 1e5])
def test_angle_test_catches_a_wrong_proposal(dimension, k):
    assert angle_distance(dimension, k, WrongProposal) > 1.0


@pytest.mark.parametrize("dimension", [2, 3, 5, 20])
@pytest.mark.parametrize("k", [7.0, 100.0, 3e3])
def test_angle_test_catches_a_wrong_concentration(dimension, k):
    mean = a_mean(dimension)
    draws = vmf.sample(mean, 1.15 * k, n_draws(dimension), SEED)
    assert distance(sphere.angle(draws, mean), angle_cdf(dimension, k)) > 1.0


def direction_distance(dimension, k, mean, kind=np.random.Generator):
    """The worst over some fixed tangent directions u of the test that u.v has the law of one coordinate of S^{D-2}.

    Also over the rows beyond the median angle alone: directions must not depend on the angle.
    """
    draws = vmf.sample(mean, k, n_draws(dimension), generator(kind))
    across = sphere.tangent_coordinates(sphere.to_tangent(draws, mean), mean)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    angles = sphere.angle(draws, mean)
    probes = [*np.eye(dimension - 1)[[0, -1]], a_mean(dimension - 1)]
    half = (dimension - 2) / 2
    return max(
        distance((1.0 + rows @ probe) / 2, beta(half, half).cdf)
        for probe in probes
        for rows in (across, across[angles > np.median(angles)])
    )


def poles(dimension):
    ends = np.eye(dimension)
    return [a_mean(dimension), -a_mean(dimension), ends[-1], -ends[-1], ends[0]]


@each("dimension", [3, 5, 128])
@each("k", [0.5, 1e3])
@each("pole", range(5))
def test_directions_across_the_mean_are_uniform(dimension, k, pole):
    assert direction_distance(dimension, k, poles(dimension)[pole]) < 1.0, f"seed {SEED}"


@pytest.mark.parametrize("dimension", [3, 5])
def test_direction_test_catches_directions_from_a_cube(dimension):
    assert direction_distance(dimension, 10.0, a_mean(dimension), WrongDirections) > 1.0


@pytest.mark.parametrize("dimension", [3, 5, 20, 128])
def test_direction_test_catches_one_sided_directions(dimension):
    assert direction_distance(dimension, 10.0, a_mean(dimension), OneSided) > 1.0


def side_z(kind=np.random.Generator):
    mean, n = a_mean(2), 100_000
    draws = vmf.sample(mean, 3.0, n, generator(kind))
    left = np.count_nonzero(draws @ [-mean[1], mean[0]] > 0.0)
    return (left - n / 2) / math.sqrt(n / 4)


def test_both_sides_of_the_circle_are_equally_likely():
    limit = norm.isf(FALSE_ALARM / 2)
    assert abs(side_z()) < limit, f"seed {SEED}"
    assert abs(side_z(OneSided)) > limit


@pytest.mark.parametrize("dimension", [2, 3, 10])
@pytest.mark.parametrize("k", [0.0, 2.0, 500.0])
def test_mean_vector(dimension, k):
    mean, n = a_mean(dimension), 100_000
    average = vmf.sample(mean, k, n, SEED).mean(axis=0)
    # E[x] = A mu; variance A' along the mean and A/k across it
    along = vmf.mean_resultant_derivative(dimension, k)
    across = vmf.mean_resultant_length(dimension, k) / k if k > 0 else 1 / dimension

    def statistic(center):
        off = average - vmf.mean_resultant_length(dimension, k) * center
        return n * ((off @ mean) ** 2 / along + (off @ off - (off @ mean) ** 2) / across)

    limit = chi2.isf(FALSE_ALARM, dimension)
    assert statistic(mean) < limit, f"seed {SEED}"
    if k > 0:
        assert statistic(-mean) > limit


@pytest.mark.parametrize("k", [0.0, 1e4, 1e6])
def test_moments_of_the_cosine_with_fifty_thousand_features(k):
    dimension, n = 53_975, 200
    mean = a_mean(dimension)
    cosine = vmf.sample(mean, k, n, SEED) @ mean
    true_mean, true_variance = vmf.mean_resultant_length(dimension, k), vmf.mean_resultant_derivative(dimension, k)

    def z(center):
        return abs(cosine.mean() - center) / math.sqrt(true_variance / n)

    def is_alarm(variance):
        spread = (n - 1) * cosine.var(ddof=1) / variance
        return not chi2.isf(1 - FALSE_ALARM / 2, n - 1) < spread < chi2.isf(FALSE_ALARM / 2, n - 1)

    # with so many features the cosine is normal to a part in a thousand
    limit = norm.isf(FALSE_ALARM / 2)
    assert z(true_mean) < limit, f"seed {SEED}"
    assert not is_alarm(true_variance), f"seed {SEED}"
    assert z(vmf.mean_resultant_length(dimension, 0.9 * k + 150.0)) > limit
    assert is_alarm(3.0 * true_variance)


@pytest.mark.parametrize("dimension", [2, 3, 4, 60])
@pytest.mark.parametrize("k", [1e8, 1e12, 1e15])
def test_far_concentrations_are_gaussian(dimension, k):
    # k theta^2 has a chi-square law up to a part in k
    mean = a_mean(dimension)
    draws = vmf.sample(mean, k, 20_000, SEED)
    angles = np.linalg.norm(sphere.to_tangent(draws - mean, mean), axis=1)
    assert distance(k * angles**2, chi2(dimension - 1).cdf) < 1.0, f"seed {SEED}"
    assert distance(k * angles**2, chi2(dimension).cdf) > 1.0


@pytest.mark.parametrize("dimension", [2, 4, 5, 20, 1536, 100_000])
def test_acceptance_is_a_probability(dimension):
    freedom = dimension - 1.0
    z = np.concatenate([np.geomspace(1e-300, 0.5, 2000), 1.0 - np.geomspace(1e-16, 0.5, 2000)])
    for k in (0.0, 1e-9, 0.5, 30.0, 1e3, 1e6, 1e9, 1e12):
        b = freedom / (2.0 * k + math.hypot(2.0 * k, freedom))
        log_acceptance = vmf._log_acceptance(z, b, freedom, k)
        assert np.all(log_acceptance <= 1e-15 * freedom), k
        assert abs(vmf._log_acceptance(np.array([0.5]), b, freedom, k)[0]) <= 1e-15 * freedom
