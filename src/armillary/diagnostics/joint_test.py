"""The joint distribution test of Geweke (2004): does a sampler keep the joint law of parameters and data?

Two ways to draw (theta, x) from p(theta) p(x | theta):

    marginal-conditional     theta ~ p(theta), x ~ p(x | theta), independent draws
    successive-conditional   from theta ~ p(theta) on: x ~ p(x | theta), then theta by one step of the sampler given x

A sampler that leaves p(theta | x) invariant gives both the same law, whatever its autocorrelation; a wrong conditional,
a stale cache or a missing Jacobian moves some statistic. The chain starts in its stationary law, so nothing is thrown
away. Statistics must not depend on the numbering of components, or the test only shows how slowly numbers swap.

Means are compared by Welch's test. The variance of the chain's mean comes from batch means: the mean of each of a few
long pieces, which are nearly independent. Several chains in lock-step (statistics of shape (B, m)) give B times as
many pieces. The caller states the false-alarm rate of the whole test; Bonferroni divides it among the statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy import stats

from armillary._typing import ArrayLike, Float64Array
from armillary.draws import Stream
from armillary.exceptions import InputError
from armillary.validation import check_integer, check_number, check_numbers

Theta = TypeVar("Theta")
Data = TypeVar("Data")


@dataclass(frozen=True, eq=False)
class JointTestResult:
    """Statistics under both ways of drawing.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.diagnostics import compare_draws
    >>> draw = np.random.default_rng(0)
    >>> found = compare_draws(draw.normal(size=(400, 1)), draw.normal(size=(1, 400, 1)), false_alarm_rate=1e-3)
    >>> print(str(found).splitlines()[0])
    joint test passed at false-alarm rate 0.001
    """

    names: tuple[str, ...]  # m of them
    marginal_means: Float64Array  # (m,)
    successive_means: Float64Array  # (m,)
    z_scores: Float64Array  # (m,) difference in units of its standard error
    p_values: Float64Array  # (m,) two-sided, by Student's t with Welch's degrees of freedom
    false_alarm_rate: float  # of the whole test

    @property
    def is_passed(self) -> bool:
        """Whether no statistic differs: none has a p-value below the false-alarm rate divided by m."""
        return bool(self.p_values.min() >= self.false_alarm_rate / len(self.names))

    def __str__(self) -> str:
        """One line for each statistic, the worst first."""
        lines = [f"joint test {'passed' if self.is_passed else 'FAILED'} at false-alarm rate {self.false_alarm_rate:g}"]
        for i in np.argsort(self.p_values):
            means = f"{self.marginal_means[i]:.5g} against {self.successive_means[i]:.5g}"
            lines.append(f"  {self.names[i]}: {means}, z = {self.z_scores[i]:.2f}, p = {self.p_values[i]:.2g}")
        return "\n".join(lines)


def joint_test(
    draw_parameters: Callable[[np.random.Generator], Theta],
    draw_data: Callable[[Theta, np.random.Generator], Data],
    transition: Callable[[Theta, Data, np.random.Generator], Theta],
    statistics: Callable[[Theta, Data], ArrayLike],
    *,
    n_draws: int,
    n_steps: int,
    stream: Stream,
    false_alarm_rate: float,
    n_batches: int = 20,
    names: Sequence[str] | None = None,
) -> JointTestResult:
    """Compare `n_draws` independent draws with a chain of `n_steps` steps of the sampler.

    `draw_parameters` draws from the prior, `draw_data` from the likelihood, `transition` is one step of the sampler.
    `statistics` gives (m,) numbers, or (B, m) where parameters and data stand for B independent problems in lock-step;
    then both sides have B times as many. The functions must not keep what they are given and change it later.

    Parameters
    ----------
    draw_parameters : callable
        `draw_parameters(generator)`: parameters from the prior.
    draw_data : callable
        `draw_data(parameters, generator)`: data from the likelihood.
    transition : callable
        `transition(parameters, data, generator)`: one step of the sampler.
    statistics : callable
        `statistics(parameters, data)`: (m,) numbers, or (B, m).
    n_draws : int
        Independent draws.
    n_steps : int
        Steps of the chain.
    stream : Stream
        Seed of all draws.
    false_alarm_rate : float
        How often a right sampler may fail, over all statistics together.
    n_batches : int, default=20
        Pieces of a chain whose means are compared.
    names : sequence of m str, optional
        What the statistics are called.

    Returns
    -------
    JointTestResult
        Means, z scores and p values of each statistic.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.diagnostics import joint_test
    >>> prior = lambda generator: generator.normal()
    >>> data = lambda mean, generator: mean + generator.normal()
    >>> step = lambda mean, x, generator: 0.5 * x + np.sqrt(0.5) * generator.normal()
    >>> from armillary.draws import Stream
    >>> moments = lambda mean, x: [mean, mean**2, mean * x]
    >>> options = {"n_draws": 500, "n_steps": 500, "stream": Stream.of(0), "false_alarm_rate": 1e-3}
    >>> joint_test(prior, data, step, moments, **options).is_passed
    True
    """
    marginal = marginal_conditional_draws(
        draw_parameters, draw_data, statistics, n_draws, stream.generator("joint test marginal")
    )
    successive = successive_conditional_draws(
        draw_parameters, draw_data, transition, statistics, n_steps, stream.generator("joint test successive")
    )
    return compare_draws(marginal, successive, false_alarm_rate=false_alarm_rate, n_batches=n_batches, names=names)


def marginal_conditional_draws(
    draw_parameters: Callable[[np.random.Generator], Theta],
    draw_data: Callable[[Theta, np.random.Generator], Data],
    statistics: Callable[[Theta, Data], ArrayLike],
    n_draws: int,
    generator: np.random.Generator,
) -> Float64Array:
    """Statistics (n_draws * B, m) of independent draws from prior and likelihood.

    Parameters
    ----------
    draw_parameters : callable
        `draw_parameters(generator)`: parameters from the prior.
    draw_data : callable
        `draw_data(parameters, generator)`: data from the likelihood.
    statistics : callable
        `statistics(parameters, data)`: (m,) numbers, or (B, m).
    n_draws : int
        How many.
    generator : numpy.random.Generator
        Where chance comes from.

    Returns
    -------
    array of shape (n_draws * B, m)
        Statistics.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.diagnostics import marginal_conditional_draws
    >>> prior = lambda generator: generator.normal()
    >>> data = lambda mean, generator: mean + generator.normal()
    >>> marginal_conditional_draws(prior, data, lambda mean, x: [mean, x], 5, np.random.default_rng(0)).shape
    (5, 2)
    """
    found = []
    for _ in range(check_integer(n_draws, "n_draws", "joint_test", low=2)):
        theta = draw_parameters(generator)
        found.append(_rows(statistics(theta, draw_data(theta, generator))))
    return np.concatenate(found)


def successive_conditional_draws(
    draw_parameters: Callable[[np.random.Generator], Theta],
    draw_data: Callable[[Theta, np.random.Generator], Data],
    transition: Callable[[Theta, Data, np.random.Generator], Theta],
    statistics: Callable[[Theta, Data], ArrayLike],
    n_steps: int,
    generator: np.random.Generator,
) -> Float64Array:
    """Statistics (B, n_steps, m) of B chains that alternate the sampler's step and new data.

    Parameters
    ----------
    draw_parameters : callable
        `draw_parameters(generator)`: parameters from the prior.
    draw_data : callable
        `draw_data(parameters, generator)`: data from the likelihood.
    transition : callable
        `transition(parameters, data, generator)`: one step of the sampler.
    statistics : callable
        `statistics(parameters, data)`: (m,) numbers, or (B, m).
    n_steps : int
        How many.
    generator : numpy.random.Generator
        Where chance comes from.

    Returns
    -------
    array of shape (B, n_steps, m)
        Statistics.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.diagnostics import successive_conditional_draws
    >>> prior = lambda generator: generator.normal()
    >>> data = lambda mean, generator: mean + generator.normal()
    >>> step = lambda mean, x, generator: 0.5 * x + np.sqrt(0.5) * generator.normal()
    >>> successive_conditional_draws(prior, data, step, lambda mean, x: [mean, x], 5, np.random.default_rng(0)).shape
    (1, 5, 2)
    """
    theta = draw_parameters(generator)
    found = []
    for _ in range(check_integer(n_steps, "n_steps", "joint_test", low=2)):
        data = draw_data(theta, generator)
        theta = transition(theta, data, generator)
        # with the data that the step has seen: against new data, a step that ignores them would look right
        found.append(_rows(statistics(theta, data)))
    return np.stack(found, axis=1)


def compare_draws(
    marginal: ArrayLike,
    successive: ArrayLike,
    *,
    false_alarm_rate: float,
    n_batches: int = 20,
    names: Sequence[str] | None = None,
) -> JointTestResult:
    """Welch's test of the means of independent draws (n, m) and of chains (B, T, m), each cut into `n_batches`.

    Parameters
    ----------
    marginal : array-like of shape (n, m)
        Independent draws.
    successive : array-like of shape (B, T, m)
        Chains.
    false_alarm_rate : float
        How often equal laws may be told apart, over all statistics together.
    n_batches : int, default=20
        Pieces of a chain whose means are compared.
    names : sequence of m str, optional
        What the statistics are called.

    Returns
    -------
    JointTestResult
        Means, z scores and p values of each statistic.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.diagnostics import compare_draws
    >>> draw = np.random.default_rng(0)
    >>> here, chain = draw.normal(size=(400, 2)), draw.normal(size=(1, 400, 2))
    >>> compare_draws(here, chain, false_alarm_rate=1e-3).is_passed
    True
    >>> compare_draws(here, chain + [0.0, 1.0], false_alarm_rate=1e-3).is_passed
    False
    """
    check_number(false_alarm_rate, "false_alarm_rate", "joint_test", low=0.0, high=1.0)
    marginal, successive = _draws(marginal, successive)
    n_steps = successive.shape[1]
    n_batches = check_integer(n_batches, "n_batches", "joint_test", low=1, high=n_steps)
    if n_batches * len(successive) < 10:
        raise InputError(
            f"joint_test must have at least 10 batches to know the variance of a chain; got {n_batches} batches of "
            f"{len(successive)} chains. Raise n_batches or run more chains."
        )
    length = n_steps // n_batches
    batches = successive[:, : n_batches * length].reshape(len(successive) * n_batches, length, -1).mean(axis=1)
    difference = batches.mean(axis=0) - marginal.mean(axis=0)
    here, there = marginal.var(axis=0, ddof=1) / len(marginal), batches.var(axis=0, ddof=1) / len(batches)
    with np.errstate(divide="ignore", invalid="ignore"):
        z_scores = difference / np.sqrt(here + there)
        freedom = (here + there) ** 2 / (here**2 / (len(marginal) - 1) + there**2 / (len(batches) - 1))
    # a statistic that never varies is equal or it is not
    z_scores = np.where(difference == 0.0, 0.0, z_scores)
    p_values = 2.0 * stats.t.sf(np.abs(z_scores), np.where(np.isfinite(freedom), freedom, len(batches) - 1.0))
    known = tuple(names) if names is not None else tuple(f"statistic {i}" for i in range(len(z_scores)))
    if len(known) != len(z_scores):
        raise InputError(f"`names` of joint_test must name {len(z_scores)} statistics; got {len(known)} names.")
    return JointTestResult(
        known, marginal.mean(axis=0), batches.mean(axis=0), z_scores, np.asarray(p_values), float(false_alarm_rate)
    )


def _draws(marginal: ArrayLike, successive: ArrayLike) -> tuple[Float64Array, Float64Array]:
    """Both as arrays, of the same statistics."""
    one, chains = (
        check_numbers(*given, "joint_test") for given in ((marginal, "marginal"), (successive, "successive"))
    )
    if one.ndim != 2 or chains.ndim != 3 or one.shape[1] != chains.shape[2] or len(one) < 2 or chains.shape[1] < 1:
        raise InputError(
            "`marginal` and `successive` of joint_test must be two or more draws (n, m) and chains (B, T, m) of "
            f"the same m; got shapes {one.shape} and {chains.shape}. Give what the two functions that draw return."
        )
    return one, chains


def _rows(values: ArrayLike) -> Float64Array:
    """Statistics as (B, m)."""
    return np.atleast_2d(np.array(values, dtype=np.float64))
