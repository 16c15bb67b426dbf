"""Laws of weights: expectations and bounds against integrals, updates that cannot be bettered, empirical Bayes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import digamma, gammaln

from armillary.distributions.dirichlet import DirichletWeights, StickBreakingWeights

COUNTS = np.array([40.0, 3.5, 0.2, 12.0])
LAWS = [DirichletWeights.prior(0.7, 4), StickBreakingWeights.prior(1.5, 4)]
both = pytest.mark.parametrize("law", LAWS, ids=["dirichlet", "sticks"])


def gain(law, counts):
    """What the weights have of the evidence bound."""
    return law.lower_bound() + float(counts @ law.expected_log())


def draws_of(law, n_draws, rng):
    """Weights (n_draws, K) drawn from q."""
    if isinstance(law, DirichletWeights):
        return rng.dirichlet(law.posterior, n_draws)
    v = np.concatenate([rng.beta(law.heads, law.tails, (n_draws, len(law.heads))), np.ones((n_draws, 1))], axis=1)
    left = np.concatenate([np.ones((n_draws, 1)), np.cumprod(1.0 - v[:, :-1], axis=1)], axis=1)
    return v * left


@both
def test_expectations_against_draws(law):
    law = law.update(COUNTS)
    draws = draws_of(law, 40_000, np.random.default_rng(0))
    # five standard errors: a false alarm once in 1.7e6 for each of eight numbers
    for found, values in ((law.mean(), draws), (law.expected_log(), np.log(draws))):
        error = values.std(axis=0) / math.sqrt(len(values))
        assert np.all(np.abs(found - values.mean(axis=0)) < 5.0 * error)
    assert law.mean().sum() == pytest.approx(1.0, abs=1e-12)


def test_no_rows_leave_the_prior():
    law = DirichletWeights.prior(0.7, 4).update(np.zeros(4))
    assert law.lower_bound() == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(law.mean(), 0.25)
    # sticks and their concentration depend on each other under the prior, and not under q
    assert -1.0 < StickBreakingWeights.prior(1.5, 4).update(np.zeros(4)).lower_bound() < 0.0


def test_the_dirichlet_bound_is_the_exact_evidence_of_labels():
    # conjugate: log p(z) = log Gamma(K a) - log Gamma(K a + N) + sum log Gamma(a + n) - log Gamma(a)
    alpha = 0.7
    law = DirichletWeights.prior(alpha, 4).update(COUNTS)
    exact = gammaln(4 * alpha) - gammaln(4 * alpha + COUNTS.sum()) + (gammaln(alpha + COUNTS) - gammaln(alpha)).sum()
    assert gain(law, COUNTS) == pytest.approx(float(exact), rel=1e-12)


def test_the_stick_bound_is_below_the_evidence_of_labels_and_close():
    law = StickBreakingWeights.prior(1.5, 4)
    for _ in range(50):
        law = law.update(COUNTS)
    beyond = np.append(np.cumsum(COUNTS[::-1])[::-1][1:], 0.0)[:-1]

    def likelihood(a):
        parts = np.log(a) + gammaln(1.0 + COUNTS[:-1]) + gammaln(a + beyond) - gammaln(1.0 + a + COUNTS[:-1] + beyond)
        return float(np.exp(parts.sum() - a / 1.5) / 1.5)

    scale = likelihood(0.7)
    exact = math.log(integrate.quad(lambda a: likelihood(a) / scale, 0.0, 60.0, limit=200)[0]) + math.log(scale)
    assert exact - 0.2 < gain(law, COUNTS) < exact
    # the mutation: without the entropy of q(a) the bound is above the evidence or far below
    entropy = float(stats.gamma(law._shape, scale=law.concentration / law._shape).entropy())
    assert not exact - 0.2 < gain(law, COUNTS) - entropy < exact


@both
def test_updates_cannot_be_bettered(law):
    best = law.update(COUNTS)
    for _ in range(200):  # sticks and their concentration settle together
        best = best.update(COUNTS)
    top = gain(best, COUNTS)
    for factor in (0.97, 1.03):
        if isinstance(best, DirichletWeights):
            others = [
                replace(best, posterior=best.posterior * np.where(np.arange(4) == k, factor, 1.0)) for k in range(4)
            ]
        else:
            others = [
                replace(best, concentration=factor * best.concentration),
                replace(best, heads=factor * best.heads),
                replace(best, tails=factor * best.tails),
            ]
        assert all(gain(other, COUNTS) < top for other in others)


def test_every_stick_update_raises_the_bound():
    law = StickBreakingWeights.prior(5.0, 4)
    before = gain(law, COUNTS)
    for _ in range(10):
        law = law.update(COUNTS)
        assert gain(law, COUNTS) >= before - 1e-12
        before = gain(law, COUNTS)


def test_sticks_are_told_by_their_counts_and_concentration():
    law = StickBreakingWeights.prior(2.0, 4).update(COUNTS).update(0.5 * COUNTS)
    again = StickBreakingWeights.restored(2.0, law.concentration, 0.5 * COUNTS)
    for name in ("shape", "rate", "concentration", "heads", "tails"):
        np.testing.assert_array_equal(getattr(again, name), getattr(law, name))


def test_the_order_of_sticks_by_size_is_not_always_best():
    # vmf_mixtures.md, 10, has sorting "can only help"; with E[a] > 1 the last two are better the other way round
    def settled(counts, mean):
        law = StickBreakingWeights.prior(mean, len(counts))
        for _ in range(300):
            law = law.update(counts)
        return gain(law, counts), law.concentration

    falling, swapped = np.array([6.0, 5.0, 4.0, 3.0, 1.0]), np.array([6.0, 5.0, 4.0, 1.0, 3.0])
    (by_size, concentration), (other, _) = settled(falling, 3.0), settled(swapped, 3.0)
    assert concentration > 1.0
    assert other > by_size + 0.1
    assert settled(np.array([900.0, 60.0, 3.0, 0.0, 0.0]), 1.0) > settled(np.array([60.0, 900.0, 3.0, 0.0, 0.0]), 1.0)


def test_alpha_is_where_the_slope_vanishes():
    law = DirichletWeights.prior(3.0, 4).update(COUNTS)
    learned = law.empirical_bayes()
    alpha, n_components = learned.concentration, 4
    slope = n_components * (digamma(n_components * alpha) - digamma(alpha)) + law.expected_log().sum()
    assert slope == pytest.approx(0.0, abs=1e-11)
    assert learned.lower_bound() > law.lower_bound()
    for factor in (0.99, 1.01):
        assert replace(learned, concentration=factor * alpha).lower_bound() < learned.lower_bound()
    np.testing.assert_array_equal(learned.posterior, law.posterior)


@pytest.mark.parametrize(
    ("counts", "expected"), [(np.full(5, 1e7), 1e3), (np.array([1e9, 0.0, 0.0]), None), (np.array([7.0]), 0.7)]
)
def test_alpha_stays_within_bounds(counts, expected):
    law = DirichletWeights.prior(0.7, len(counts))
    for _ in range(40):
        law = law.update(counts).empirical_bayes()
        assert 1e-3 <= law.concentration <= 1e3
    if expected is not None:
        assert law.concentration == pytest.approx(expected)


def test_one_component_has_all_the_weight():
    for law in (DirichletWeights.prior(2.0, 1), StickBreakingWeights.prior(2.0, 1)):
        updated = law.update(np.array([5.0]))
        np.testing.assert_allclose(updated.mean(), [1.0])
        np.testing.assert_allclose(updated.expected_log(), [0.0], atol=1e-14)
        assert updated.lower_bound() == pytest.approx(0.0, abs=1e-12)
        assert updated.empirical_bayes() is updated


def test_weights_of_several_slices_are_laws_of_their_own_that_share_alpha():
    counts = np.array([[5.0, 1.0, 0.0], [2.0, 2.0, 9.0]])
    both = DirichletWeights.prior(0.7, (2, 3)).update(counts)
    apart = [DirichletWeights.prior(0.7, 3).update(row) for row in counts]
    np.testing.assert_array_equal(both.expected_log(), [law.expected_log() for law in apart])
    np.testing.assert_array_equal(both.mean(), [law.mean() for law in apart])
    assert both.lower_bound() == pytest.approx(sum(law.lower_bound() for law in apart), rel=1e-14)

    def bound(alpha):
        return replace(both, concentration=alpha).lower_bound()

    best = both.empirical_bayes().concentration
    assert bound(best) > max(bound(0.99 * best), bound(1.01 * best), bound(0.7))
