"""Ways to part a set of rows in two, each with the probability of the division it makes.

A division is unordered: {b, c} and {c, b} are one, so each probability is a sum over both namings. It must not depend
on what the rows were before: a merge looks at the same law, and asks how probable the division it would undo was.

random      w ~ Beta(alpha/2, alpha/2), each row goes left with probability w                   dp_tgmm.md, 8.2
launch      a two-component fit to the set, from the rows and chance alone, then a draw from it                8.3
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit

from armillary._typing import Float64Array
from armillary.distributions.components import Component, Parameters
from armillary.fitting.dirichlet_process import score_rule
from armillary.fitting.numbered_rows import NumberedRows, Numbers
from armillary.kernels.contract import AffineRule

Sides = npt.NDArray[np.bool_]

# Rows that a launch is fitted to, and its steps.
_LAUNCH_ROWS = 300
_LAUNCH_STEPS = 6
_FIRST_SHARE = 0.99
# A row's probability of either side is at least this, so that every division can be made.
_LEAST = 1e-9
_MOST_ODDS = math.log1p(-_LEAST) - math.log(_LEAST)


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

    def __init__(self, odds: Float64Array) -> None:
        self._odds = odds  # (n,) log odds of the left side

    def draw(self, n_rows: int, generator: np.random.Generator) -> Sides:
        """Which rows go left (n,)."""
        return np.asarray(generator.random(n_rows) < expit(self._odds))

    def log_probability(self, is_left: Sides) -> float:
        """prod_b p prod_c (1 - p) + prod_b (1 - p) prod_c p."""
        signed = np.where(is_left, self._odds, -self._odds)
        one = float(log_expit(signed).sum())
        # log(1 - p) = log p - odds
        return float(np.logaddexp(one, one - float(signed.sum())))


def launch(component: Component, sets: NumberedRows, generator: np.random.Generator) -> list[LaunchDivision]:
    """A division of each set, each of at least two rows, by a fit to some of its rows; all fits go on side by side.

    A fit to all rows of a set is a function of the set and of its first cut, and a chain on few rows may have made it
    before. Sets that are remembered have fewer rows than a launch is fitted to.
    """
    samples = [_some(sets, number, generator) for number in range(len(sets))]
    ends = [_drawn_ends(len(places), generator) for places in samples]

    def fitted(numbers: list[int]) -> list[LaunchDivision]:
        chosen = sets if len(numbers) == len(sets) else sets.some(numbers)
        shifts = chosen.starts[:-1] - sets.starts[numbers]
        places = [samples[number] + shift for number, shift in zip(numbers, shifts, strict=True)]
        return _fitted(component, chosen, places, [ends[number] for number in numbers])

    return sets.remembered([(component, "launch", own) for own in ends], fitted)


def _fitted(
    component: Component, sets: NumberedRows, samples: list[npt.NDArray[np.int64]], pairs: list[tuple[int, int] | None]
) -> list[LaunchDivision]:
    """Divisions of sets by two-component fits to the rows at some places, from the cuts that the pairs give."""
    lefts = []
    for places, pair in zip(samples, pairs, strict=True):
        rows = sets.gathered(places)
        is_left = _first_cut(rows, pair).sides(rows)
        lefts.append(np.where(is_left, _FIRST_SHARE, 1.0 - _FIRST_SHARE))
    chosen = [sets.numbers[places] for places in samples]
    some, ends = sets.of_numbers(chosen), np.cumsum([len(one) for one in chosen])[:-1]
    twice = [numbers for numbers in chosen for _ in range(2)]
    for _ in range(_LAUNCH_STEPS):
        weights = [side for left in lefts for side in (left, 1.0 - left)]
        laws = component.point_estimate(sets.of_numbers(twice, weights))
        shares = np.array([(left.sum() + 1.0) / (len(left) + 2.0) for left in lefts])
        rule = score_rule(component, laws, np.log(np.stack([shares, 1.0 - shares], axis=1)).ravel())
        # a side that has lost all rows must still have weight for its next estimate
        lefts = np.split(expit(np.clip(some.odds(rule), -_MOST_ODDS, _MOST_ODDS)), ends)
    odds = np.clip(sets.odds(rule), -_MOST_ODDS, _MOST_ODDS)
    return [LaunchDivision(odds[sets.part(number)].copy()) for number in range(len(sets))]


def _some(sets: NumberedRows, number: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Places of all rows of a set, or of as many as a launch is fitted to."""
    part = sets.part(number)
    n_rows = part.stop - part.start
    if n_rows <= _LAUNCH_ROWS:
        return np.arange(part.start, part.stop)
    return part.start + np.sort(generator.choice(n_rows, _LAUNCH_ROWS, replace=False))


class Cut(NamedTuple):
    """A hyperplane: rows with x . axis above the threshold are left."""

    axis: Float64Array  # (D,)
    threshold: float

    def sides(self, rows: Any) -> Sides:
        """Which of some rows (n, D), dense or CSR, are left."""
        return np.asarray(rows @ self.axis > self.threshold)


def _drawn_ends(n_rows: int, generator: np.random.Generator) -> tuple[int, int] | None:
    """Two random rows to cut between, or none: then the cut is across the longest axis."""
    if generator.random() < 0.5:
        return None
    first, second = generator.choice(n_rows, 2, replace=False).tolist()
    return first, second


def _first_cut(rows: Any, ends: tuple[int, int] | None) -> Cut:
    """Across the longest axis of rows (n, D), or by which of two of them is nearer."""
    if ends is None:
        return principal_cut(rows)
    first, second = _as_array(rows[list(ends)])
    return Cut(first - second, 0.5 * float(first @ first - second @ second))


def principal_cut(rows: Any) -> Cut:
    """Through the mean of rows (n, D), dense or CSR, across their axis of largest variance."""
    n_rows, n_features = rows.shape
    mean = np.ones(n_rows) @ rows / n_rows
    if n_features <= n_rows:
        scatter = _as_array(rows.T @ rows) - n_rows * np.outer(mean, mean)
        axis = np.linalg.eigh(scatter)[1][:, -1]
    else:
        # the same axis from the products of rows, which are fewer than columns
        products = _as_array(rows @ rows.T)
        around = products - products.mean(axis=0) - products.mean(axis=1)[:, None] + products.mean()
        axis = rows.T @ np.linalg.eigh(around)[1][:, -1]
    heights = rows @ axis - mean @ axis
    # an axis has two ends: the row farthest from the mean is left, so that dense and CSR rows agree
    sign = math.copysign(1.0, heights[int(np.argmax(np.abs(heights)))])
    return Cut(sign * axis, sign * float(mean @ axis))


def _as_array(matrix: Any) -> Float64Array:
    return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())


class SubLabels:
    """A side for each of N rows, within whatever cluster it is: the sub-clusters of the paper."""

    def __init__(self, is_left: Sides) -> None:
        self.is_left = is_left

    def of(self, numbers: Numbers) -> Sides:
        """The sides of some rows."""
        return np.asarray(self.is_left[numbers])

    def has_both(self, sets: NumberedRows) -> Sides:
        """Whether each set (G,) has rows on both sides."""
        n_left = sets.n_left(self.is_left)
        return np.asarray((n_left > 0) & (n_left < np.diff(sets.starts)))

    def parts(self, sets: NumberedRows) -> NumberedRows:
        """The left and right rows of each set, both of which must be there."""
        return sets.parted(self.is_left)

    def restart(self, rows: NumberedRows, generator: np.random.Generator) -> bool:
        """New sides of the rows of one set: halves across the longest axis of some of them, or by two random ones.

        Returns whether there are rows on both.
        """
        sides = np.ones(1, dtype=np.bool_)
        if len(rows.numbers) > 1:
            some = rows.gathered(_some(rows, 0, generator))
            cut = _first_cut(some, _drawn_ends(some.shape[0], generator))
            sides = rows.odds(AffineRule(np.stack([cut.axis, 0.0 * cut.axis]), np.array([-cut.threshold, 0.0]))) > 0.0
        self.is_left[rows.numbers] = sides
        return bool(sides.any() and not sides.all())

    def redraw(
        self,
        component: Component,
        sets: NumberedRows,
        laws: Parameters,
        weight_concentration: float,
        generator: np.random.Generator,
        key: tuple[int, int],
    ) -> None:
        """Sides drawn in proportion to a weight, itself drawn given the present sides, times the density of each.

        `laws` are those of left and right of each set in turn.
        """
        n_left = sets.n_left(self.is_left).astype(np.float64)
        shares = generator.beta(weight_concentration + n_left, weight_concentration + sets.counts - n_left)
        log_weights = np.log(np.maximum(np.stack([shares, 1.0 - shares], axis=1), 1e-300))
        sets.draw_sides(score_rule(component, laws, log_weights.ravel()), key, self.is_left)
