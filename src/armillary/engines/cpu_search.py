"""The best of very many directions: in two levels, exact by bounds on angles.

Directions are put into groups around G centres, about twice a square root of them. A row at the angle theta from a
centre whose group lies within rho of it is no nearer than theta - rho to any direction of the group (the triangle
inequality), so a group is passed over where that is more than the angle of the best direction found so far. Groups are
asked in turn, a row's own first; the best of a group is found as that of few clusters is, and float64 scores in column
order decide between groups, ties going to the smaller number: labels have the bits of a pass over all directions,
whatever the groups. How much is passed over depends on the rows alone: nearly all where they lie in clusters, next to
nothing where they are spread evenly in many dimensions. Where too little is, in the first rows, the rest is done
without groups.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.kernels.rows.contract import Kernels
from armillary.rules import AffineRule

# From so many directions on a search in two levels is tried.
MANY_CLUSTERS = 1 << 17
# Rows that are searched together.
TOGETHER = 1 << 14
# Groups for a square root of directions, and steps of k-means that make them.
_GROUPS_PER_ROOT, _STEPS = 2.0, 2
# Share of the pairs of rows and groups up to which a search pays.
_MOST_ASKED = 0.4
# What cosines of float32 rows may be off by, and for each column more.
_COSINE_PAD, _COSINE_PAD_PER_COLUMN = 4e-6, 1.2e-7
_ANGLE_PAD = 1e-6


def is_searched(rule: AffineRule) -> bool:
    """Whether a rule may be searched: cosines with very many directions, and nothing refused."""
    is_plain = rule.slopes is None and rule.is_rival is None and rule.floor == -math.inf and not rule.offsets.any()
    return is_plain and len(rule.offsets) >= MANY_CLUSTERS


class Groups:
    """Directions in groups."""

    def __init__(self, rule: AffineRule, kernels: Kernels) -> None:
        self._kernels = kernels
        directions = rule.directions
        centers, own = _grouped(directions, round(_GROUPS_PER_ROOT * math.sqrt(len(directions))), kernels)
        order = np.argsort(own, kind="stable")  # by group, each in the order of its numbers
        edges = np.searchsorted(own[order], np.arange(len(centers) + 1))
        self.members = [order[first:last] for first, last in pairwise(edges)]
        self._rules = [kernels.prepare(AffineRule.cosines(directions[some])) for some in self.members]
        cosines = np.vecdot(directions, centers[own])
        radii = np.zeros(len(centers))
        np.maximum.at(radii, own, np.arccos(np.clip(cosines, -1.0, 1.0)) + _ANGLE_PAD)
        self._cosines, self._sines = np.cos(radii), np.sin(radii)
        self._centers = centers.astype(np.float32)
        self._pad = _COSINE_PAD + _COSINE_PAD_PER_COLUMN * directions.shape[1]

    def assign(self, rows: FloatArray, labels: npt.NDArray[np.int32]) -> float:
        """Write the nearest direction of each row over `labels` (m,); return the share of pairs that were asked."""
        cosines = self._centers @ rows.astype(np.float32, copy=False).T  # (G, m)
        nearest = cosines.argmax(axis=0)
        best = _Best(len(rows), self._pad)
        n_asked = len(rows)
        order = np.argsort(nearest, kind="stable")
        starts = np.searchsorted(nearest[order], np.arange(len(self.members) + 1))
        for group in np.unique(nearest):
            self._ask(rows, order[starts[group] : starts[group + 1]], group, best)
        for group, (cosine, sine) in enumerate(zip(self._cosines, self._sines, strict=True)):
            # theta <= rho + the best angle so far, without arc cosines: where that sum is below pi, cos falls
            is_near = cosines[group] + self._pad >= cosine * best.cosines - sine * best.sines
            asking = np.flatnonzero((is_near | (best.cosines <= -cosine)) & (nearest != group))
            if len(asking):
                n_asked += len(asking)
                self._ask(rows, asking, group, best)
        labels[:] = best.labels
        return n_asked / (len(rows) * len(self.members))

    def _ask(self, rows: FloatArray, asking: npt.NDArray[np.intp], group: Any, best: _Best) -> None:
        """Let some rows ask one group."""
        members = self.members[group]
        if not len(members):
            return
        some = np.ascontiguousarray(rows[asking])
        found, scores = np.full(len(asking), -1, dtype=np.int32), np.empty(len(asking))
        self._kernels.assign_best(some, self._rules[group], found, None)
        self._kernels.own_scores(some, self._rules[group], found, scores)
        best.take(asking, members[found], scores)


class _Best:
    """The best direction of each row so far, and a bound on its angle."""

    def __init__(self, n_rows: int, pad: float) -> None:
        self.labels = np.full(n_rows, -1, dtype=np.int64)
        self.scores = np.full(n_rows, -np.inf)
        self.cosines, self.sines = np.full(n_rows, -1.0), np.zeros(n_rows)
        self._pad = pad

    def take(self, rows: npt.NDArray[np.intp], labels: npt.NDArray[np.intp], scores: Float64Array) -> None:
        """Take what is better, or as good with a smaller number."""
        before = self.scores[rows]
        is_better = (scores > before) | ((scores == before) & (labels < self.labels[rows]))
        taken = rows[is_better]
        self.labels[taken], self.scores[taken] = labels[is_better], scores[is_better]
        cosines = np.clip(scores[is_better] - self._pad, -1.0, 1.0)
        self.cosines[taken], self.sines[taken] = cosines, np.sqrt(1.0 - cosines * cosines)


def is_worth_it(share_asked: float) -> bool:
    """Whether a search passed over enough in its first rows."""
    return share_asked <= _MOST_ASKED


def _grouped(directions: Float64Array, n_groups: int, kernels: Kernels) -> tuple[Float64Array, npt.NDArray[np.int32]]:
    """Centres (G, D) of groups, and the group of each direction (K,), by a few steps of k-means."""
    rows = directions.astype(np.float32)
    chosen = np.random.default_rng(0).choice(len(directions), n_groups, replace=False)
    centers, own = directions[np.sort(chosen)], np.full(len(directions), -1, dtype=np.int32)
    for step in range(_STEPS + 1):
        for first in range(0, len(rows), TOGETHER):
            part = slice(first, first + TOGETHER)
            kernels.assign_best(rows[part], kernels.prepare(AffineRule.cosines(centers)), own[part], None)
        if step < _STEPS:
            centers = _means(directions, own, centers)
    return centers, own


def _means(directions: Float64Array, own: npt.NDArray[np.int32], centers: Float64Array) -> Float64Array:
    order = np.argsort(own, kind="stable")
    filled, starts = np.unique(own[order], return_index=True)
    sums = np.add.reduceat(directions[order], starts, axis=0)
    lengths = np.linalg.norm(sums, axis=1)
    means = centers.copy()
    is_there = lengths > 1e-9
    means[filled[is_there]] = sums[is_there] / lengths[is_there, None]
    return means
