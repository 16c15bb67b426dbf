"""Ways to part a set of rows in two, each with the probability of the division it makes.

A division is unordered: {b, c} and {c, b} are one, so each probability is a sum over both namings. It must not depend
on what the rows were before: a merge looks at the same law, and asks how probable the division it would undo was.

random      w ~ Beta(alpha/2, alpha/2), each row goes left with probability w                   dp_tgmm.md, 8.2
launch      a two-component fit to the set, from the rows and chance alone, then a draw from it                8.3
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from armillary._typing import Float64Array
from armillary.distributions.components import Component

Sides = npt.NDArray[np.bool_]

# Rows that a launch is fitted to, and its steps.
_LAUNCH_ROWS = 300
_LAUNCH_STEPS = 6
_FIRST_SHARE = 0.99
# A row's probability of either side is at least this, so that every division can be made.
_LEAST = 1e-9


class RandomDivision:
    """Rows go left with one probability for all, drawn first."""

    def __init__(self, weight_concentration: float) -> None:
        self._half = 0.5 * weight_concentration

    def draw(self, n_rows: int, generator: np.random.Generator) -> Sides:
        """Which rows go left (n,)."""
        return np.asarray(generator.random(n_rows) < generator.beta(self._half, self._half))

    def log_probability(self, is_left: Sides) -> float:
        """2 Gamma(alpha) Gamma(alpha/2 + n_b) Gamma(alpha/2 + n_c) / (Gamma(alpha/2)^2 Gamma(alpha + n_a))."""
        half, n_left = self._half, int(np.count_nonzero(is_left))
        n_right = len(is_left) - n_left
        return (
            math.log(2.0)
            + math.lgamma(2.0 * half)
            - 2.0 * math.lgamma(half)
            + math.lgamma(half + n_left)
            + math.lgamma(half + n_right)
            - math.lgamma(2.0 * half + len(is_left))
        )


class LaunchDivision:
    """Rows go left with the probability that a two-component fit gives them."""

    def __init__(self, component: Component, rows: Float64Array, generator: np.random.Generator) -> None:
        left = _launch(component, rows, generator)
        self._log_left, self._log_right = np.log(left), np.log1p(-left)

    def draw(self, n_rows: int, generator: np.random.Generator) -> Sides:
        """Which rows go left (n,)."""
        return np.asarray(np.log(generator.random(n_rows)) < self._log_left)

    def log_probability(self, is_left: Sides) -> float:
        """prod_b p prod_c (1 - p) + prod_b (1 - p) prod_c p."""
        one = float(np.where(is_left, self._log_left, self._log_right).sum())
        other = float(np.where(is_left, self._log_right, self._log_left).sum())
        return float(np.logaddexp(one, other))


def _launch(component: Component, rows: Float64Array, generator: np.random.Generator) -> Float64Array:
    """Probabilities (n,) of the left side."""
    chosen = np.arange(len(rows))
    if len(rows) > _LAUNCH_ROWS:
        chosen = np.sort(generator.choice(len(rows), _LAUNCH_ROWS, replace=False))
    sample = rows[chosen]
    left = np.where(_halves(sample, generator), _FIRST_SHARE, 1.0 - _FIRST_SHARE)
    for _ in range(_LAUNCH_STEPS):
        laws = [component.point_estimate(sample, left), component.point_estimate(sample, 1.0 - left)]
        share = (left.sum() + 1.0) / (len(sample) + 2.0)
        odds = math.log(share) - math.log1p(-share)
        # a side that has lost all rows must still have weight for its next estimate
        left = np.clip(_left_shares(component, laws, odds, sample), _LEAST, 1.0 - _LEAST)
    return np.clip(_left_shares(component, laws, odds, rows), _LEAST, 1.0 - _LEAST)


def _left_shares(component: Component, laws: list[object], odds: float, rows: Float64Array) -> Float64Array:
    densities = component.log_density(laws, rows)
    return np.asarray(expit(odds + densities[:, 0] - densities[:, 1]))


def _halves(rows: Float64Array, generator: np.random.Generator) -> Sides:
    """Cut across the longest axis, or by which of two random rows is nearer."""
    if generator.random() < 0.5:
        return principal_halves(rows)
    first, second = rows[generator.choice(len(rows), 2, replace=False)]
    return np.asarray(rows @ (first - second) > 0.5 * (first @ first - second @ second))


def principal_halves(rows: Float64Array) -> Sides:
    """Which rows lie beyond the mean along the axis of largest variance."""
    centred = rows - rows.mean(axis=0)
    axis = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    return np.asarray(centred @ axis > 0.0)


class SubLabels:
    """A side for each of N rows, within whatever cluster it is: the sub-clusters of the paper."""

    def __init__(self, n_rows: int) -> None:
        self.is_left: Sides = np.zeros(n_rows, dtype=np.bool_)

    def of(self, numbers: npt.NDArray[np.int64]) -> Sides:
        """The sides of some rows."""
        return np.asarray(self.is_left[numbers])

    def restart(self, numbers: npt.NDArray[np.int64], rows: Float64Array, generator: np.random.Generator) -> Sides:
        """New sides: halves across the longest axis, or by two random rows."""
        sides = _halves(rows, generator) if len(rows) > 1 else np.ones(1, dtype=np.bool_)
        self.is_left[numbers] = sides
        return sides

    def redraw(
        self,
        component: Component,
        numbers: npt.NDArray[np.int64],
        rows: Float64Array,
        laws: list[object],
        weight_concentration: float,
        generator: np.random.Generator,
    ) -> Sides:
        """Sides drawn in proportion to a weight, itself drawn given the present sides, times the density of each."""
        n_left = int(np.count_nonzero(self.is_left[numbers]))
        share = generator.beta(weight_concentration + n_left, weight_concentration + len(numbers) - n_left)
        odds = math.log(max(share, 1e-300)) - math.log(max(1.0 - share, 1e-300))
        sides = np.asarray(generator.random(len(rows)) < _left_shares(component, laws, odds, rows))
        self.is_left[numbers] = sides
        return sides
