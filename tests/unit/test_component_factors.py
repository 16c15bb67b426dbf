"""Factors of directions and concentrations: their bounds, expectations, and priors of one component each."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from armillary.distributions import bessel, vmf
from armillary.distributions import component_factors as cf
from armillary.distributions import concentration_laws as laws
from armillary.distributions.log_concentration import JointTarget, MixturePrior

# counts and mean lengths: no rows, part of a row, few, many; none in common, nearly equal
ROWS = np.array(list(itertools.product((0.0, 0.3, 2.0, 50.0, 1e4), (0.0, 0.3, 0.9997))))
MIDDLE = np.array(list(itertools.product((1.0, 3.0), (0.3, 0.9))))
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


def rounding(target):
    """How far rounding moves a bound: n log H and its like are sums of numbers of this size."""
    modes, _ = laws.find_modes(target)
    return 1.0 + 4.0 * (target.counts * np.exp(modes) + target.prior.mean_concentration) * 1e8 * 2.0**-52


def test_without_rows_the_law_is_the_prior():
    counts, resultants, prior = problem(5, (7.0, 0.3, 1.5, 0.7), np.zeros((1, 2)))
    made = cf.joint_factors(counts, resultants, prior, laws.grid_law)
    np.testing.assert_allclose(made.log_means, 1.5, atol=1e-12)
    np.testing.assert_allclose(made.log_variances, 0.7, rtol=1e-10)
    np.testing.assert_allclose(made.mean_directions, vmf_mean(prior), atol=1e-12)
    np.testing.assert_allclose(cf.lower_bounds(made, counts, resultants, prior), 0.0, atol=1e-11)


def vmf_mean(prior):
    return (
        bessel.mean_resultant_length(len(prior.mean_direction), prior.mean_concentration) * prior.mean_direction[None]
    )


@every_dimension
@every_prior
def test_the_bound_right_after_the_joint_update_is_the_partition_function(dimension, setting):
    counts, resultants, prior = problem(dimension, setting)
    made = cf.joint_factors(counts, resultants, prior, laws.grid_law)
    target = JointTarget.of(counts, resultants, prior)
    difference = cf.lower_bounds(made, counts, resultants, prior) - laws.log_partition(target)
    assert np.all(np.abs(difference) <= 3e-8 * rounding(target))


def factorised(counts, resultants, prior, make_law=laws.grid_law, n_rounds=12):
    made = cf.first_factors(resultants, prior, np.full(len(counts), math.exp(prior.log_mean)))
    for _ in range(n_rounds):
        made = cf.factorised_directions(made, counts, resultants, prior)
        made = cf.factorised_concentrations(made, counts, resultants, prior, make_law)
    return made


@every_dimension
@every_prior
def test_joint_is_above_factorised(dimension, setting):
    counts, resultants, prior = problem(dimension, setting)
    joint = cf.lower_bounds(cf.joint_factors(counts, resultants, prior, laws.grid_law), counts, resultants, prior)
    apart = cf.lower_bounds(factorised(counts, resultants, prior), counts, resultants, prior)
    assert np.all(apart <= joint + 1e-8 * rounding(JointTarget.of(counts, resultants, prior)))


@every_dimension
def test_no_other_factors_have_a_higher_bound(dimension):
    counts, resultants, prior = problem(
        dimension, (5.0, 0.6, 3.0, 1.0), ROWS[(ROWS[:, 0] >= 1.0) & (ROWS[:, 0] <= 50.0)]
    )
    best = cf.lower_bounds(cf.joint_factors(counts, resultants, prior, laws.grid_law), counts, resultants, prior)
    rng = np.random.default_rng(0)
    turned = resultants + 0.1 * rng.standard_normal(resultants.shape)
    elsewhere = replace(prior, mean_concentration=8.0, log_mean=3.3, log_variance=0.7)
    for other in (
        cf.joint_factors(1.2 * counts, turned, elsewhere, laws.grid_law),
        cf.joint_factors(counts, turned, prior, laws.grid_law),
        factorised(counts, turned, elsewhere, n_rounds=2),
        cf.joint_factors(counts, resultants, prior, laws.log_normal_law),
        cf.joint_factors(counts, resultants, prior, lambda target: laws.log_normal_law(target, "jensen")),
    ):
        assert np.all(cf.lower_bounds(other, counts, resultants, prior) <= best + 1e-8)


@pytest.mark.parametrize("setting", [(0.0, 0.5, 2.0, 0.5), (5.0, -0.9, 3.0, 0.25), (300.0, 0.9, 0.0, 1.0)])
def test_expectations_on_the_circle_against_a_double_integral(setting):
    counts, resultants, prior = problem(2, setting, np.array([[0.7, 0.4], [6.0, 0.8]]))
    made = cf.joint_factors(counts, resultants, prior, laws.grid_law)
    y = np.linspace(-7.0, 9.0, 601)[:, None]
    theta = np.linspace(0.0, 2.0 * np.pi, 4096, endpoint=False)
    circle = np.stack([np.cos(theta), np.sin(theta)])
    for k in range(2):
        natural = np.exp(y) * (resultants[k] @ circle) + prior.mean_concentration * (prior.mean_direction @ circle)
        log_joint = (
            natural - counts[k] * bessel.log_h(0.0, np.exp(y)) - (y - prior.log_mean) ** 2 / (2.0 * prior.log_variance)
        )
        mass = np.exp(log_joint - log_joint.max())
        mass /= mass.sum()
        np.testing.assert_allclose(made.mean_directions[k], circle @ mass.sum(axis=0), atol=1e-7)
        natural_mean = circle @ (mass * np.exp(y)).sum(axis=0)
        np.testing.assert_allclose(made.natural_vectors[k], natural_mean, rtol=1e-6, atol=1e-6)
        assert made.concentrations[k] == pytest.approx(float((mass * np.exp(y)).sum()), rel=1e-6)
        log_q = np.log(np.maximum(mass, 1e-300) / (y[1] - y[0]) / (theta[1] - theta[0]) * 2.0 * np.pi)
        entropy = -float((mass * log_q).sum())
        assert made.direction_entropies[k] + made.log_entropies[k] == pytest.approx(entropy, abs=1e-5)


def test_bounds_hold_for_statistics_they_were_not_made_from():
    # the bound is linear in counts and resultants: between two of them it is between its values there
    counts, resultants, prior = problem(3, (2.0, 0.4, 2.0, 1.0), np.array([[9.0, 0.7]]))
    made = cf.joint_factors(counts, resultants, prior, laws.grid_law)
    other_counts, other = counts + 4.0, resultants + 1.0
    ends = [cf.lower_bounds(made, n, r, prior) for n, r in ((counts, resultants), (other_counts, other))]
    middle = cf.lower_bounds(made, 0.5 * (counts + other_counts), 0.5 * (resultants + other), prior)
    np.testing.assert_allclose(middle, 0.5 * (ends[0] + ends[1]), rtol=1e-12)


def test_directions_have_the_stated_concentration_and_length():
    counts, resultants, prior = problem(20, (5.0, 0.6, 3.0, 1.0), SPREAD)
    for made in (cf.joint_factors(counts, resultants, prior, laws.grid_law), factorised(counts, resultants, prior)):
        lengths = np.linalg.norm(made.mean_directions, axis=1)
        np.testing.assert_allclose(made.mean_lengths, lengths, rtol=1e-9, atol=1e-12)
        found = bessel.mean_resultant_length(20, made.direction_concentrations)
        np.testing.assert_allclose(found, lengths, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(made.mean_direction_sum(), made.mean_directions.sum(axis=0), rtol=1e-9, atol=1e-12)


def test_select_takes_every_part():
    counts, resultants, prior = problem(5, (5.0, 0.6, 3.0, 1.0), MIDDLE)
    made = cf.joint_factors(counts, resultants, prior, laws.grid_law)
    order = np.array([2, 0])
    chosen = made.select(order)
    np.testing.assert_array_equal(chosen.natural_vectors, made.natural_vectors[order])
    for part, whole in zip(chosen.nodes, made.nodes, strict=True):
        np.testing.assert_array_equal(part, whole[:, order])
    np.testing.assert_array_equal(
        cf.lower_bounds(chosen, counts[order], resultants[order], prior),
        cf.lower_bounds(made, counts, resultants, prior)[order],
    )


def test_a_known_concentration_leaves_the_conjugate_direction():
    counts, resultants, prior = problem(4, (5.0, 0.6, 3.0, 1.0), MIDDLE)
    kappa = np.array([2.0, 30.0, 7.0, 0.5])
    made = cf.joint_factors(counts, resultants, prior, lambda target: laws.point_law(target, kappa))
    natural = kappa[:, None] * resultants + 5.0 * prior.mean_direction
    lengths = np.linalg.norm(natural, axis=1)
    expected = bessel.mean_resultant_length(4, lengths)[:, None] * natural / lengths[:, None]
    np.testing.assert_allclose(made.mean_directions, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(made.natural_vectors, kappa[:, None] * expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(made.concentrations, kappa, rtol=1e-14)


# ------------------------------------------------------------------------------------------ a prior for each component


def own_priors(dimension=5):
    """Four components with natural vectors of their own, one of them 0, and the same priors one at a time."""
    counts, resultants, _ = problem(dimension, PRIORS[0], MIDDLE)
    vectors = np.random.default_rng(0).standard_normal((4, dimension)) * np.array([[0.0], [1.0], [8.0], [300.0]])
    lengths = np.linalg.norm(vectors, axis=1)
    directions = [v / c if c else np.eye(dimension)[0] for v, c in zip(vectors, lengths, strict=True)]
    alone = [MixturePrior(direction, float(c), 2.0, 0.7) for direction, c in zip(directions, lengths, strict=True)]
    return counts, resultants, MixturePrior.of_vectors(vectors, 2.0, 0.7), alone


def test_a_prior_of_natural_vectors_has_their_lengths_and_directions():
    _, _, prior, alone = own_priors()
    assert prior.dimension == 5
    np.testing.assert_allclose(prior.mean_direction, [one.mean_direction for one in alone], rtol=1e-14)
    np.testing.assert_array_equal(prior.mean_concentration, [one.mean_concentration for one in alone])


@pytest.mark.parametrize(
    "make",
    [
        lambda *given: cf.joint_factors(*given, laws.grid_law),
        lambda *given: cf.joint_factors(*given, lambda target: laws.log_normal_law(target, "jensen")),
        factorised,
    ],
    ids=["joint", "jensen", "factorised"],
)
def test_components_with_a_prior_each_are_those_components_alone(make):
    counts, resultants, prior, alone = own_priors()
    together = make(counts, resultants, prior)
    apart = [make(n[None], resultant[None], one) for n, resultant, one in zip(counts, resultants, alone, strict=True)]
    for name in ("mean_directions", "natural_vectors", "mean_lengths", "concentrations", "log_variances", "log_h"):
        expected = np.concatenate([getattr(one, name) for one in apart])
        np.testing.assert_allclose(getattr(together, name), expected, rtol=1e-9, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(together.mean_direction_sum(), together.mean_directions.sum(axis=0), rtol=1e-12)
    bounds = cf.lower_bounds(together, counts, resultants, prior)
    expected = [
        cf.lower_bounds(made, n[None], resultant[None], one)[0]
        for made, n, resultant, one in zip(apart, counts, resultants, alone, strict=True)
    ]
    np.testing.assert_allclose(bounds, expected, rtol=1e-9, atol=1e-11)


def test_the_bound_of_components_with_a_prior_each_is_their_partition_function():
    counts, resultants, prior, _ = own_priors()
    made = cf.joint_factors(counts, resultants, prior, laws.grid_law)
    exact = laws.log_partition(JointTarget.of(counts, resultants, prior))
    np.testing.assert_allclose(cf.lower_bounds(made, counts, resultants, prior), exact, rtol=1e-9, atol=1e-10)


def test_bounds_under_a_prior_that_the_factors_were_not_made_from():
    counts, resultants, own, alone = own_priors()
    shared = MixturePrior(np.eye(5)[1], 3.0, 2.0, 0.7)
    for made_from in (own, shared):
        made = cf.joint_factors(counts, resultants, made_from, laws.grid_law)
        bounds = cf.lower_bounds(made, counts, resultants, own)
        np.testing.assert_allclose(
            bounds, [cf.lower_bounds(made, counts, resultants, one)[k] for k, one in enumerate(alone)], rtol=1e-12
        )
        if made_from is shared:  # no other factors have a higher bound
            best = cf.lower_bounds(cf.joint_factors(counts, resultants, own, laws.grid_law), counts, resultants, own)
            assert np.all(bounds < best)


def test_select_takes_the_directions_of_the_priors_along():
    counts, resultants, prior, _ = own_priors()
    made = cf.joint_factors(counts, resultants, prior, laws.grid_law)
    order = np.array([3, 1])
    np.testing.assert_array_equal(made.select(order).natural_vectors, made.natural_vectors[order])
    np.testing.assert_array_equal(made.select(order).mean_lengths, made.mean_lengths[order])


# -------------------------------------------------------------------------------------------------------- mutations


def test_a_second_jacobian_lowers_the_bound():
    counts, resultants, prior = problem(3, (2.0, 0.4, 2.0, 1.0), np.array([[9.0, 0.7]]))
    target = JointTarget.of(counts, resultants, prior)
    best = float(
        cf.lower_bounds(cf.joint_factors(counts, resultants, prior, laws.grid_law), counts, resultants, prior)[0]
    )

    def with_minus_y(target):  # the log-normal density in kappa, forgotten to be a density in y
        moved = replace(target.prior, log_mean=target.prior.log_mean - target.prior.log_variance)
        return laws.grid_law(replace(target, prior=moved))

    wrong = cf.joint_factors(counts, resultants, prior, with_minus_y)
    assert cf.lower_bounds(wrong, counts, resultants, prior)[0] < best - 1e-3
    assert best == pytest.approx(float(laws.log_partition(target)[0]), abs=1e-10)


def test_the_length_of_kappa_for_that_of_gamma_lowers_the_bound():
    counts, resultants, prior = problem(20, (5.0, 0.6, 3.0, 1.0), np.array([[4.0, 0.6]]))
    made = factorised(counts, resultants, prior)
    best = cf.lower_bounds(made, counts, resultants, prior)[0]
    # the seed's E[mu] = E[A(kappa)] psi, with the entropy of the law of that mean
    length = bessel.mean_resultant_length(20, made.concentrations)
    like = bessel.concentration_from_resultant(20, length)
    factor = (length / made.mean_lengths)[:, None]
    wrong = replace(
        made,
        direction_coefficients=factor * made.direction_coefficients,
        natural_coefficients=factor * made.natural_coefficients,
        direction_entropies=vmf.relative_entropy(20, like),
    )
    assert cf.lower_bounds(wrong, counts, resultants, prior)[0] < best - 1e-2
