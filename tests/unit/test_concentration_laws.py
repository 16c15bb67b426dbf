"""Laws of log concentrations: quadrature, derivatives, orders of bounds, stated errors."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import integrate

from armillary.distributions import bessel
from armillary.distributions import concentration_laws as laws
from armillary.distributions.log_concentration import (
    HIGHEST,
    LOWEST,
    DirectionSums,
    JointTarget,
    MixturePrior,
    ProjectedTarget,
    Target,
    log_target,
)

# counts and mean lengths: no rows, part of a row, few, many; none in common, nearly equal
ROWS = np.array(list(itertools.product((0.0, 0.3, 2.0, 50.0, 1e4), (0.0, 0.3, 0.9997))))
SPREAD = np.array(list(itertools.product((1.0, 2.0, 50.0, 1e4), (0.0, 0.3, 0.9))))
PRIORS = [(0.0, 0.5, 2.0, 1.0), (5.0, -0.9, 7.0, 0.01), (300.0, 0.9, 0.0, 4.0)]
every_dimension = pytest.mark.parametrize("dimension", [2, 1000])
every_prior = pytest.mark.parametrize("setting", PRIORS)


def problem(dimension, setting, rows=ROWS):
    """Counts, resultants at one cosine to mu_0, and the prior (C_0, cosine, m, s2)."""
    c, cosine, m, s2 = setting
    counts, lengths = rows[:, 0], rows[:, 0] * rows[:, 1]
    resultants = np.zeros((len(counts), dimension))
    resultants[:, 0] = cosine * lengths
    resultants[:, 1] = math.sqrt(1.0 - cosine**2) * lengths
    return counts, resultants, MixturePrior(np.eye(dimension)[0], c, m, s2)


def targets(dimension, setting, rows=ROWS):
    counts, resultants, prior = problem(dimension, setting, rows)
    # s < 0 where the cosine is
    return JointTarget.of(counts, resultants, prior), ProjectedTarget(counts, prior, resultants[:, 0])


def rounding(target):
    """How far rounding moves a target: n log H and its like are sums of numbers of this size."""
    modes, _ = laws.find_modes(target)
    return 1.0 + 4.0 * (target.counts * np.exp(modes) + target.prior.mean_concentration) * 1e8 * 2.0**-52


def panels(target, law, n_panels=60):
    """Nodes and masses of composite Gauss-Legendre quadrature from the peak, a tenth beyond both ends of the grid."""
    width = law.nodes[-1] - law.nodes[0]
    low, high = np.maximum(law.nodes[0] - 0.1 * width, LOWEST), np.minimum(law.nodes[-1] + 0.1 * width, HIGHEST)
    x, w = np.polynomial.legendre.leggauss(12)
    t = ((np.arange(n_panels)[:, None] + 0.5 * (x + 1.0)) / n_panels).ravel()[:, None]
    nodes = low + t * (high - low)
    values = target.value(nodes)
    peaks = values.max(axis=0)
    masses = np.exp(values - peaks) * np.tile(0.5 * w / n_panels, n_panels)[:, None] * (high - low)
    return nodes, masses, peaks


# ------------------------------------------------------------------------------------------------------- targets


@every_dimension
@every_prior
def test_derivatives_are_those_of_the_value(dimension, setting):
    for target in targets(dimension, setting, ROWS[ROWS[:, 0] <= 50.0]):
        for y in (-3.0, 1.0, 4.0, 8.0):
            at = np.full(len(target.counts), y)
            slope, curvature = target.derivatives(at)
            h = 1e-4
            size = 1.0 + np.abs(target.value(at))
            np.testing.assert_allclose(
                (target.value(at + h) - target.value(at - h)) / (2.0 * h), slope, atol=2e-7 * size.max(), rtol=1e-5
            )
            np.testing.assert_allclose(
                (target.derivatives(at + h)[0] - target.derivatives(at - h)[0]) / (2.0 * h),
                curvature,
                atol=1e-6 * size.max(),
                rtol=1e-5,
            )


@every_dimension
@every_prior
def test_the_joint_target_is_the_shared_one(dimension, setting):
    joint, _ = targets(dimension, setting)
    sums = DirectionSums(joint.counts, joint.squares, joint.projections)
    y = np.linspace(-3.0, 9.0, 7)[:, None]
    np.testing.assert_allclose(joint.value(y), log_target(y, sums, joint.prior), rtol=1e-12, atol=1e-9)


def test_curvature_where_the_natural_vector_vanishes():
    # kappa R = -C_0 mu_0 at kappa = 2
    joint = JointTarget.of(np.array([3.0]), np.array([[-1.0, 0.0, 0.0]]), MixturePrior(np.eye(3)[0], 2.0, 0.0, 1.0))
    at = np.log([2.0])
    h = 1e-4
    slope = (joint.derivatives(at + h)[0] - joint.derivatives(at - h)[0]) / (2.0 * h)
    np.testing.assert_allclose(joint.derivatives(at)[1], slope, rtol=1e-6)


@every_dimension
@every_prior
def test_modes_are_maxima(dimension, setting):
    for target in targets(dimension, setting):
        modes, deviations = laws.find_modes(target)
        peaks, slack = target.value(modes), 1e-6 * rounding(target)
        for side in (-0.1, 0.1):
            inside = np.clip(modes + side * deviations, LOWEST, HIGHEST)
            assert np.all(target.value(inside) <= peaks + slack)
        # the slow and sure way, from the same starts
        around = np.stack([modes - 1.0, modes + 1.0])
        zoomed = laws._zoom(target, around)
        assert np.all(target.value(zoomed) <= peaks + slack)


@dataclass(frozen=True, eq=False)
class TwoPeaks(Target):
    """Peaks at 0 and 6, the second one higher by `excess`, and a valley of curvature above 0 between them."""

    excess: float = 1.0

    @property
    def mean_lengths(self):
        return np.zeros_like(self.counts)

    def gain(self, kappa):
        raise AssertionError("value and derivatives are given whole")

    gain_derivatives = gain

    def value(self, y):
        return np.logaddexp(-0.5 * y**2, self.excess - 0.5 * (y - 6.0) ** 2)

    def derivatives(self, y):
        share = 1.0 / (1.0 + np.exp(-0.5 * y**2 - self.excess + 0.5 * (y - 6.0) ** 2))
        slope = -(1.0 - share) * y - share * (y - 6.0)
        return slope, -1.0 + 36.0 * share * (1.0 - share)


def test_the_higher_of_two_peaks_is_found_from_between_them():
    target = TwoPeaks(np.ones(1), MixturePrior(np.eye(3)[0], 0.0, 3.1, 1.0))
    modes, deviations = laws.find_modes(target)
    np.testing.assert_allclose(modes, 6.0, atol=1e-4)
    np.testing.assert_allclose(deviations, 1.0, atol=1e-4)


def test_a_climb_that_gets_nowhere_falls_back_on_the_zoom(monkeypatch):
    target = targets(20, PRIORS[0])[0]
    modes, _ = laws.find_modes(target)
    monkeypatch.setattr(laws, "_climb", lambda target, starts: (starts, np.zeros(starts.shape, dtype=bool)))
    zoomed, _ = laws.find_modes(target)
    np.testing.assert_allclose(zoomed, modes, atol=1e-5)


# ---------------------------------------------------------------------------------------------------------- grid


@every_dimension
@every_prior
def test_the_grid_against_finer_quadrature(dimension, setting):
    for target in targets(dimension, setting):
        law = laws.grid_law(target)
        nodes, masses, peaks = panels(target, law)
        total = masses.sum(axis=0)
        slack = 1e-8 * rounding(target)
        assert np.all(np.abs(laws.log_partition(target) - peaks - np.log(total)) <= slack)
        weights = masses / total
        kappa = np.exp(nodes)
        log_h = bessel.log_h(0.5 * dimension - 1.0, kappa)
        for found, exact in (
            (law.concentrations, (weights * kappa).sum(axis=0)),
            (law.log_h, (weights * log_h).sum(axis=0)),
            (law.log_means, (weights * nodes).sum(axis=0)),
        ):
            np.testing.assert_array_less(np.abs(found - exact), slack * (1e-9 + np.abs(exact)) + 1e-8)
        variances = (weights * (nodes - law.log_means) ** 2).sum(axis=0)
        np.testing.assert_array_less(np.abs(law.log_variances - variances), slack * (variances + 1e-9))
        entropy = np.log(total) - (weights * (target.value(nodes) - peaks)).sum(axis=0)
        np.testing.assert_array_less(np.abs(law.entropies - entropy), 10.0 * slack)


@pytest.mark.parametrize(("count", "projection"), [(0.0, 0.0), (3.0, -1.5), (40.0, 39.988)])
def test_the_grid_against_adaptive_quadrature(count, projection):
    target = ProjectedTarget(np.array([count]), MixturePrior(np.eye(3)[0], 0.0, 1.0, 2.0), np.array([projection]))
    law = laws.grid_law(target)
    mode, peak = float(laws.find_modes(target)[0][0]), float(target.value(laws.find_modes(target)[0])[0])

    def moment(weigh):
        def integrand(y):
            return weigh(y) * math.exp(float(target.value(np.array([y]))[0]) - peak)

        ends = (float(law.nodes[0, 0]), float(law.nodes[-1, 0]))
        return integrate.quad(integrand, *ends, points=[mode], limit=400, epsabs=1e-13, epsrel=1e-12)[0]

    total = moment(lambda y: 1.0)
    assert laws.log_partition(target)[0] == pytest.approx(peak + math.log(total), abs=1e-9)
    assert law.concentrations[0] == pytest.approx(moment(math.exp) / total, rel=1e-8)
    assert law.log_means[0] == pytest.approx(moment(lambda y: y) / total, abs=1e-8)


def test_thinned_nodes_average_as_well():
    for target in targets(20, PRIORS[0], ROWS[ROWS[:, 0] > 0.0]):
        law = laws.grid_law(target)
        nodes, weights = law.thinned()
        assert len(nodes) <= 40
        np.testing.assert_allclose(weights.sum(axis=0), 1.0, rtol=1e-12)
        np.testing.assert_allclose((weights * np.exp(nodes)).sum(axis=0), law.concentrations, rtol=1e-5)


# -------------------------------------------------------------------------------------------------- log-normal laws


@every_dimension
@every_prior
@pytest.mark.parametrize("kind", [0, 1])
def test_grid_then_quadrature_then_jensen(dimension, setting, kind):
    target = targets(dimension, setting)[kind]
    slack = 1e-8 * rounding(target)
    best = laws.log_partition(target)
    quadrature, jensen = (
        bound_of(target, laws.log_normal_law(target, name), name) for name in ("quadrature", "jensen")
    )
    assert np.all(quadrature <= best + slack)
    assert np.all(jensen <= quadrature + slack)


@pytest.mark.parametrize("dimension", [2, 3, 20, 1000, 20_000])
def test_the_delta_method_is_no_less_than_the_expectation(dimension):
    """vmf_mixtures.md, 5.4c: log H(e) + A'(e) Var/2 at e = E[kappa], against E[log H]; it is not of either sign."""
    order, z = 0.5 * dimension - 1.0, np.polynomial.hermite_e.hermegauss(100)
    a, b = np.linspace(-6.0, 14.0, 81)[:, None], np.array([0.02, 0.1, 0.3, 0.8, 1.6, 2.0])
    means = np.exp(a + 0.5 * b**2)
    at_mean = np.asarray(bessel.log_h(order, means))
    rest = np.asarray(bessel.log_h(order, np.exp(a[..., None] + b[:, None] * z[0]))) - at_mean[..., None]
    expectation = rest @ (z[1] / z[1].sum())
    half_variance = 0.5 * means**2 * np.expm1(b**2)
    delta = np.asarray(bessel.mean_resultant_derivative(dimension, means)) * half_variance
    assert np.all(delta >= expectation - 1e-12 * (1.0 + at_mean))
    # far above for wide laws, where the log-normal bound is worth nothing
    assert (delta - expectation).max() > 5.0 * (dimension - 1.0)


def bound_of(target, law, name):
    """What a log-normal law makes of the target: E[target] by its own reading of E[log H], and the entropy."""
    a, variances = law.log_means, law.log_variances
    measured = {"quadrature": laws._by_quadrature, "jensen": laws._by_jensen, "delta": laws._by_delta}[name]
    return measured(target, a, variances)[0] + law.entropies


@pytest.mark.parametrize("dimension", [3, 1000])
@pytest.mark.parametrize("bound", laws.LOG_NORMAL_BOUNDS)
def test_log_normal_laws_are_the_best_of_their_kind(dimension, bound):
    for setting in PRIORS:
        for target in targets(dimension, setting, ROWS[[4, 7, 8, 10, 11]]):
            law = laws.log_normal_law(target, bound)
            a, deviations = law.log_means, np.sqrt(law.log_variances)
            measure = {"quadrature": laws._by_quadrature, "jensen": laws._by_jensen, "delta": laws._by_delta}[bound]
            best = measure(target, a, deviations**2)[0] + np.log(deviations)
            slack = 1e-8 * rounding(target)
            for shift, factor in ((0.05, 1.0), (-0.05, 1.0), (0.0, 1.05), (0.0, 0.95)):
                other = measure(target, a + shift * deviations, (factor * deviations) ** 2)[0]
                assert np.all(other + np.log(factor * deviations) <= best + slack)


@pytest.mark.parametrize("bound", laws.LOG_NORMAL_BOUNDS)
def test_without_rows_the_log_normal_law_is_the_prior(bound):
    target = targets(20, (5.0, 0.2, 2.0, 0.6), np.zeros((2, 2)))[1]
    law = laws.log_normal_law(target, bound)
    np.testing.assert_allclose(law.log_means, 2.0, atol=1e-6)
    np.testing.assert_allclose(law.log_variances, 0.6, rtol=1e-6)


@pytest.mark.parametrize("dimension", [3, 20, 1000])
def test_jensen_is_above_the_expectation(dimension):
    target = targets(dimension, PRIORS[0], np.ones((1, 2)))[0]
    z, masses = np.polynomial.hermite_e.hermegauss(60)
    masses = masses / masses.sum()
    for a, b in itertools.product((-1.0, 2.0, 5.0, 8.0), (0.05, 0.3, 1.0)):
        exact = masses @ bessel.log_h(0.5 * dimension - 1.0, np.exp(a + b * z))
        jensen = laws._jensen_log_h(target, np.array([a]), np.array([b * b]))[0][0]
        assert jensen >= exact * (1.0 - 1e-12)
        # the mutation: Jensen in kappa, where log H is convex, is a bound from the wrong side
        assert bessel.log_h(0.5 * dimension - 1.0, math.exp(a + 0.5 * b * b)) <= exact * (1.0 + 1e-12)


# ------------------------------------------------------------------------------------------------------- Metropolis


@pytest.mark.parametrize("kind", [0, 1])
def test_metropolis_within_its_stated_error(kind):
    # 200 draws are stated to have a standard error of 0.15 deviations in the mean and 11 per cent in the deviation;
    # root mean squares over 12 laws and 12 seeds vary by 6 per cent, so that 30 is five standard errors
    rows = SPREAD
    target = targets(20, (5.0, 0.8, 3.0, 1.0), rows)[kind]
    exact = laws.grid_law(target)
    deviations = np.sqrt(exact.log_variances)
    means, spreads = [], []
    for seed in range(12):
        law = laws.metropolis_law(target, np.random.default_rng(seed))
        means.append((law.log_means - exact.log_means) / deviations)
        spreads.append(np.sqrt(law.log_variances) / deviations - 1.0)
        assert np.all(np.abs(law.entropies - exact.entropies) < 0.8)
    assert np.sqrt(np.mean(np.square(means))) < 1.3 * 0.15
    assert np.sqrt(np.mean(np.square(spreads))) < 1.3 * 0.11
    # no drift either: the mean over all seeds of independent errors
    assert abs(np.mean(means)) < 5.0 * 0.15 / math.sqrt(12 * len(rows))
    # the mutation: with the Jacobian added once more the draws go elsewhere
    wrong = replace(target, prior=replace(target.prior, log_mean=target.prior.log_mean + target.prior.log_variance))
    shifted = laws.metropolis_law(wrong, np.random.default_rng(0))
    assert np.max((shifted.log_means - exact.log_means) / deviations) > 0.5


def test_metropolis_draws_are_keyed():
    target = targets(3, PRIORS[0], ROWS[:6])[0]
    one, two, other = (laws.metropolis_law(target, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.nodes, two.nodes)
    assert not np.array_equal(one.nodes, other.nodes)
