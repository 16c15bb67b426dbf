"""The joint distribution test on a model that is solved by hand: theta ~ Normal(0, 1), x | theta ~ Normal(theta, 1)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from armillary.diagnostics import (
    compare_draws,
    joint_test,
    marginal_conditional_draws,
    successive_conditional_draws,
)
from armillary.draws import Stream
from armillary.exceptions import InputError, ParameterError

RATE = 1e-6


def prior(n_chains):
    return lambda generator: generator.standard_normal(n_chains)


def likelihood(theta, generator):
    return theta + generator.standard_normal(theta.shape)


def posterior(shift=0.0, scale=1.0, carry=0.0):
    """x/2 + Normal(0, 1/2), reached by a step that remembers a share `carry` of where it was."""

    def transition(theta, data, generator):
        mean = 0.5 * data + shift
        noise = scale * np.sqrt(0.5) * generator.standard_normal(theta.shape)
        return mean + carry * (theta - mean) + np.sqrt(1.0 - carry**2) * noise

    return transition


def statistics(theta, data):
    return np.stack([theta, theta**2, data, data * theta], axis=-1)


def run(transition, n_chains=1, **changed):
    arguments = {"n_draws": 4000, "n_steps": 4000, "stream": Stream(1), "false_alarm_rate": RATE} | changed
    return joint_test(prior(n_chains), likelihood, transition, statistics, **arguments)


@pytest.mark.parametrize("carry", [0.0, 0.9])
@pytest.mark.parametrize("n_chains", [1, 20])
def test_a_right_sampler_passes_however_slow(carry, n_chains):
    n_steps, n_draws = (4000, 4000) if n_chains == 1 else (400, 400)
    result = run(posterior(carry=carry), n_chains, n_steps=n_steps, n_draws=n_draws)
    assert result.is_passed, str(result)
    np.testing.assert_allclose(result.marginal_means, [0.0, 1.0, 0.0, 1.0], atol=0.15)


@pytest.mark.parametrize("wrong", [{"shift": 0.1}, {"scale": 1.2}, {"scale": 0.8, "carry": 0.5}])
def test_a_wrong_sampler_fails(wrong):
    result = run(posterior(**wrong), 20, n_steps=1000, n_draws=1000)
    assert not result.is_passed
    assert str(result).startswith("joint test FAILED at false-alarm rate 1e-06\n  statistic ")


def test_p_values_are_uniform_where_all_is_well():
    n_chains = 200
    generator = np.random.default_rng(2)
    chains = successive_conditional_draws(
        prior(n_chains), likelihood, posterior(carry=0.5), statistics, 2000, generator
    )
    marginal = marginal_conditional_draws(prior(500 * n_chains), likelihood, statistics, 2, generator)
    draws = marginal[: 500 * n_chains].reshape(n_chains, 500, 4)

    def p_values(n_batches):
        return [
            compare_draws(one, chain[None], false_alarm_rate=RATE, n_batches=n_batches).p_values[0]
            for one, chain in zip(draws, chains, strict=True)
        ]

    # at autocorrelation 0.75, batches of 100 steps: the promised rate is kept
    assert stats.kstest(p_values(20), "uniform").pvalue > 1e-4
    # with every step taken for an independent batch it is not: what batch means are for
    assert stats.kstest(p_values(2000), "uniform").pvalue < 1e-4


def test_the_comparison_is_welchs():
    rng = np.random.default_rng(0)
    marginal, successive = rng.standard_normal((50, 2)), rng.standard_normal((3, 41, 2)) + 0.3
    result = compare_draws(marginal, successive, false_alarm_rate=0.01, n_batches=10, names=["one", "two"])
    batches = successive[:, :40].reshape(3, 10, 4, 2).mean(axis=2).reshape(30, 2)
    expected = stats.ttest_ind(batches, marginal, equal_var=False)
    np.testing.assert_allclose(result.z_scores, expected.statistic)
    np.testing.assert_allclose(result.p_values, expected.pvalue)
    assert result.names == ("one", "two")


def test_statistics_without_variance_are_equal_or_not():
    flat = np.zeros((1, 100, 1))
    assert compare_draws(np.zeros((50, 1)), flat, false_alarm_rate=RATE).p_values[0] == 1.0
    assert compare_draws(np.ones((50, 1)), flat, false_alarm_rate=RATE).p_values[0] == 0.0


def test_sentences():
    with pytest.raises(InputError) as caught:
        compare_draws(np.zeros((50, 1)), np.zeros((1, 100, 1)), false_alarm_rate=RATE, n_batches=4)
    assert str(caught.value) == (
        "joint_test must have at least 10 batches to know the variance of a chain; got 4 batches of 1 chains. "
        "Raise n_batches or run more chains."
    )
    with pytest.raises(InputError, match="`names` of joint_test must name 1 statistics; got 2 names"):
        compare_draws(np.zeros((50, 1)), np.zeros((1, 100, 1)), false_alarm_rate=RATE, names=["a", "b"])
    with pytest.raises(ParameterError, match="`false_alarm_rate` of joint_test"):
        compare_draws(np.zeros((50, 1)), np.zeros((1, 100, 1)), false_alarm_rate=2.0)
