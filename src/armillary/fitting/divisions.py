"""Ways to part a set of rows in two, each with the probability of the division it makes.

A division is unordered: {b, c} and {c, b} are one, so each probability is a sum over both namings. It must not depend
on what the rows were before: a merge looks at the same law, and asks how probable the division it would undo was.

random      w ~ Beta(alpha/2, alpha/2), each row goes left with probability w                   dp_tgmm.md, 8.2
launch      a two-component fit to the set, from the rows and chance alone, then a draw from it                8.3
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from armillary._typing import Float64Array
from armillary.distributions.components import Component, Parameters
from armillary.engines.contract import Halves, Odds, Sets, Sides
from armillary.fitting.dirichlet_process import score_rule
from armillary.rules import AffineRule

Ranks: TypeAlias = npt.NDArray[np.int64]

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

    def draw(self, sets: Sets, number: int, generator: np.random.Generator) -> Sides:
        """Which rows of a set go left."""
        chance = sets.chance(number, generator)
        return chance.below(float(generator.beta(self._half, self._half)))

    def log_probability(self, sides: Sides) -> float:
        """2 Gamma(alpha) Gamma(alpha/2 + n_b) Gamma(alpha/2 + n_c) / (Gamma(alpha/2)^2 Gamma(alpha + n_a))."""
        half, n_left, n_right = self._half, sides.n_left, sides.n_right
        return (
            math.log(2.0)
            + math.lgamma(2.0 * half)
            - 2.0 * math.lgamma(half)
            + math.lgamma(half + n_left)
            + math.lgamma(half + n_right)
            - math.lgamma(2.0 * half + n_left + n_right)
        )


class _Launches:
    """Fits to some rows of each of several sets, made when they are asked for: most merges are rejected without."""

    def __init__(
        self, component: Component, sets: Sets, samples: list[Ranks], ends: list[tuple[int, int] | None]
    ) -> None:
        self._component = component
        self._sets = sets
        self._samples = samples
        self._ends = ends
        self._odds: dict[int, Odds] = {}

    def fit(self, numbers: Sequence[int]) -> None:
        """Make the fits to some sets that are not there yet, side by side.

        A fit to all rows of a set is a function of the set and of its first cut, and a chain on few rows may have made
        it before. Sets that are remembered have fewer rows than a launch is fitted to.
        """
        new = [number for number in numbers if number not in self._odds]
        if not new:
            return
        sets = self._sets.some(new)
        samples, ends = [self._samples[number] for number in new], [self._ends[number] for number in new]

        def fitted(places: list[int]) -> list[Odds]:
            ranks, pairs = [samples[place] for place in places], [ends[place] for place in places]
            return _fitted(self._component, sets.some(places), ranks, pairs)

        names = [(self._component, "launch", own) for own in ends]
        self._odds.update(zip(new, sets.remembered(names, fitted), strict=True))

    def odds(self, number: int) -> Odds:
        """Of the left side, of one set."""
        self.fit([number])
        return self._odds[number]


class LaunchDivision:
    """Rows go left with the probability that a two-component fit gives them."""

    def __init__(self, launches: _Launches, number: int) -> None:
        self._launches = launches
        self._number = number

    def draw(self, sets: Sets, number: int, generator: np.random.Generator) -> Sides:
        """Which rows of a set go left."""
        return sets.chance(number, generator).below(self._launches.odds(self._number))

    def log_probability(self, sides: Sides) -> float:
        """prod_b p prod_c (1 - p) + prod_b (1 - p) prod_c p."""
        return float(np.logaddexp(*self._launches.odds(self._number).log_probabilities(sides)))

    @staticmethod
    def fit_together(divisions: Sequence[LaunchDivision]) -> None:
        """Make the fits of divisions of one launch side by side: they are asked for next."""
        if divisions:
            divisions[0]._launches.fit([division._number for division in divisions])


def launch(component: Component, sets: Sets, generator: np.random.Generator) -> list[LaunchDivision]:
    """A division of each set, each of at least two rows, by a fit to some of its rows: all chance is drawn here."""
    samples = [_some(int(size), generator) for size in sets.sizes]
    ends = [_drawn_ends(len(ranks), generator) for ranks in samples]
    launches = _Launches(component, sets, samples, ends)
    return [LaunchDivision(launches, number) for number in range(len(samples))]


def _fitted(component: Component, sets: Sets, samples: list[Ranks], pairs: list[tuple[int, int] | None]) -> list[Odds]:
    """Of sets by two-component fits to the rows of some ranks, from the cuts that the pairs give."""
    few = sets.few(samples)
    lefts = []
    for number, pair in enumerate(pairs):
        rows = few.rows(number)
        is_left = _first_cut(rows, pair).is_left(rows)
        lefts.append(np.where(is_left, _FIRST_SHARE, 1.0 - _FIRST_SHARE))
    ends = np.cumsum([0, *(len(one) for one in samples)]).tolist()
    for _ in range(_LAUNCH_STEPS):
        laws = component.point_estimate(few.shared(lefts))
        shares = np.array([(left.sum() + 1.0) / (len(left) + 2.0) for left in lefts])
        rule = score_rule(component, laws, np.log(np.stack([shares, 1.0 - shares], axis=1)).ravel())
        # a side that has lost all rows must still have weight for its next estimate
        shares = expit(np.clip(few.log_odds(rule), -_MOST_ODDS, _MOST_ODDS))
        lefts = [shares[start:stop] for start, stop in pairwise(ends)]
    return list(sets.odds(rule, _MOST_ODDS))


def _some(n_rows: int, generator: np.random.Generator) -> Ranks:
    """Ranks of all rows of a set, or of as many as a launch is fitted to."""
    if n_rows <= _LAUNCH_ROWS:
        return np.arange(n_rows)
    return np.sort(generator.choice(n_rows, _LAUNCH_ROWS, replace=False))


class Cut(NamedTuple):
    """A hyperplane: rows with x . axis above the threshold are left."""

    axis: Float64Array  # (D,)
    threshold: float

    def is_left(self, rows: Any) -> npt.NDArray[np.bool_]:
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
    """A side for each row, within whatever cluster it is: the sub-clusters of the paper."""

    def __init__(self, halves: Halves) -> None:
        self.halves = halves

    def has_both(self, sets: Sets) -> npt.NDArray[np.bool_]:
        """Whether each set (G,) has rows on both sides."""
        n_left = self.halves.n_left(sets)
        return np.asarray((n_left > 0) & (n_left < sets.sizes))

    def restart(self, rows: Sets, generator: np.random.Generator) -> bool:
        """New sides of the rows of one set: halves across the longest axis of some of them, or by two random ones.

        Returns whether there are rows on both.
        """
        if rows.sizes[0] == 1:
            self.halves.put(rows, None)
            return False
        some = rows.few([_some(int(rows.sizes[0]), generator)]).rows(0)
        cut = _first_cut(some, _drawn_ends(some.shape[0], generator))
        rule = AffineRule(np.stack([cut.axis, 0.0 * cut.axis]), np.array([-cut.threshold, 0.0]))
        sides = rows.odds(rule)[0].sides()
        self.halves.put(rows, sides)
        return sides.n_left > 0 and sides.n_right > 0

    def redraw(
        self,
        component: Component,
        sets: Sets,
        laws: Parameters,
        weight_concentration: float,
        generator: np.random.Generator,
        key: tuple[int, int],
    ) -> None:
        """Sides drawn in proportion to a weight, itself drawn given the present sides, times the density of each.

        `laws` are those of left and right of each set in turn.
        """
        n_left = self.halves.n_left(sets).astype(np.float64)
        shares = generator.beta(weight_concentration + n_left, weight_concentration + sets.counts - n_left)
        log_weights = np.log(np.maximum(np.stack([shares, 1.0 - shares], axis=1), 1e-300))
        self.halves.draw(sets, score_rule(component, laws, log_weights.ravel()), key)
