"""Clusters of bounded size: a price for each, and a last pass that meets the bound exactly.

What is sought are labels of the highest sum of cosines with at most `most` rows in any cluster. Its dual is a price p_k
>= 0 for each cluster: a row goes where x . mu_k - p_k is largest, and prices are right when no cluster with room has
one. Prices are K numbers in the rule (`AffineRule.offsets`), so that every engine runs them. They are found by the
signs of sizes - most alone, each cluster with a step of its own that grows while its sign stays and halves when it
turns (Riedmiller and Braun 1993, Rprop): the scale of cosines differs a hundredfold between normals and embeddings, and
signs of whole numbers are the same on every engine.

Prices leave some rows too many: ties, copies of one row, the last steps. `fill` gives places in order of rows, in every
step: directions then follow labels that meet the bound. (Directions that followed prices alone went round in circles
where one cluster holds most rows: 0.90 of the free objective on 20,000 x 16 rows, 60 % of them in one of 20 clusters,
against 0.94.) The rule: every row asks for its best cluster with room; a cluster takes the first of them by their
number, as many as it has room for; the others ask again among those with room left. Rows that ask again do so in
companies of `TOGETHER`, one after the other. So labels depend on rows, rule and bound alone, not on cuts and threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.engines.contract import Labels, Numbered, Numbers, Passes
from armillary.rules import AffineRule

# Rows that ask again together.
TOGETHER = 1 << 16
# Rprop: how steps grow and shrink, and the first one as a share of the mean cosine distance.
_GROWTH, _SHRINK, _FIRST = 1.2, 0.5, 0.2
# Steps are bounded by this many first steps.
_WIDEST = 20.0


def capacity(balance: float, n_rows: int, n_clusters: int) -> int:
    """The most rows of a cluster: `balance` times the mean, rounded down, but no fewer than hold all rows."""
    return min(n_rows, max(math.floor(balance * n_rows / n_clusters), -(-n_rows // n_clusters)))


class Prices:
    """What each of K clusters takes from the score of a row."""

    def __init__(self, n_clusters: int, distance: float) -> None:
        self.values = np.zeros(n_clusters)
        self._first = _FIRST * max(distance, 1e-6)
        self._steps = np.full(n_clusters, self._first)
        self._signs = np.zeros(n_clusters)

    def raise_by(self, sizes: npt.NDArray[np.int64], most: int) -> None:
        """Raise the prices of clusters that are too large, and lower those of the others, none below 0."""
        signs = np.sign(sizes - most).astype(np.float64)
        turned = signs * self._signs
        self._steps *= np.where(turned > 0, _GROWTH, np.where(turned < 0, _SHRINK, 1.0))
        np.minimum(self._steps, _WIDEST * self._first, out=self._steps)
        self.values = np.maximum(0.0, self.values + signs * self._steps)
        self._signs = np.where((self.values == 0.0) & (signs < 0), 0.0, signs)


def fill(passes: Passes, labels: Labels, rule: AffineRule, most: int) -> int:
    """Move the rows that are too many to clusters with room, by the rule above; return how many moved.

    The labels are those of `rule`, and K `most` is at least the number of rows.
    """
    n_clusters = len(rule.offsets)
    sizes = labels.sizes(n_clusters)
    outside = labels.surplus(np.full(n_clusters, most, dtype=np.int64))
    room = np.maximum(most - sizes, 0)
    for start in range(0, len(outside), TOGETHER):
        asking = outside[start : start + TOGETHER]
        while len(asking):
            chosen = _best_open(passes, asking, rule, room > 0)
            is_taken = ranks(chosen, n_clusters) < room[chosen]
            passes.move(labels, asking[is_taken], chosen[is_taken])
            room -= np.bincount(chosen[is_taken], minlength=n_clusters)  # falls below 0 nowhere
            asking = asking[~is_taken]
    return len(outside)


def _best_open(
    passes: Passes, numbers: Numbers, rule: AffineRule, is_open: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """The best cluster of each of some rows (m,) among those that are open."""
    among = np.flatnonzero(is_open)
    own = passes.over(Numbered(numbers))
    found = own.labels()
    own.label(AffineRule(rule.directions[among], rule.offsets[among]), found, sums=False)
    return among[found.at(np.arange(len(numbers)))]


def ranks(values: npt.NDArray[np.integer[Any]], n_values: int) -> npt.NDArray[np.int64]:
    """How many equals each of m numbers has before it (m,)."""
    order = np.argsort(values, kind="stable")
    sizes = np.bincount(values, minlength=n_values)
    before = np.cumsum(sizes) - sizes
    found = np.empty(len(values), dtype=np.int64)
    found[order] = np.arange(len(values)) - np.repeat(before, sizes)
    return found


def as_rule(directions: Float64Array, prices: Float64Array) -> AffineRule:
    """The score is the cosine less the price."""
    return AffineRule(np.ascontiguousarray(directions, dtype=np.float64), -prices)
