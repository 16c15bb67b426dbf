"""Expectation maximisation for models whose scores are affine in the row: the chain that the loop steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from armillary.engines.contract import Passes
from armillary.fitting.assignment import HardAssignment
from armillary.rules import AffineRule
from armillary.sums.directional import DirectionalStatistics

S = TypeVar("S")


class ExpectationMaximization(Generic[S]):
    """One pass for the expectations, one K-sized update, over and over.

    `score_rule(state)` gives the scores, `update(state, statistics)` the next state, which must not hold on to the
    statistics, and `objective(before, after, evidence)` what must not fall: that of the state `before`, whose evidence
    the pass has just found. `is_still(before, after)` may end the run early.
    """

    def __init__(
        self,
        passes: Passes,
        state: S,
        *,
        score_rule: Callable[[S], AffineRule],
        update: Callable[[S, DirectionalStatistics], S],
        objective: Callable[[S, S, float], float],
        n_clusters: Callable[[S], int],
        is_hard: bool = False,
        is_still: Callable[[S, S], bool] | None = None,
    ) -> None:
        self.state = state
        self._passes = passes
        self._score_rule = score_rule
        self._update = update
        self._objective = objective
        self._count = n_clusters
        self._is_still = is_still
        self._labels = HardAssignment(passes) if is_hard else None

    @property
    def n_clusters(self) -> int:
        """Clusters in the present state."""
        return self._count(self.state)

    def step(self) -> tuple[float, bool]:
        """Expect, maximise; the objective is that of the state before the step."""
        before = self.state
        statistics, evidence, is_settled = self._expect(self._score_rule(before))
        self.state = self._update(before, statistics)
        if self._is_still is not None:
            is_settled = is_settled or self._is_still(before, self.state)
        return self._objective(before, self.state, evidence), is_settled

    def _expect(self, rule: AffineRule) -> tuple[DirectionalStatistics, float, bool]:
        """Statistics, evidence, and whether labels stand still (never, if rows are shared)."""
        if self._labels is None:
            shared = self._passes.share(rule, is_lent=True)
            return shared.sums, shared.evidence, False
        n_changed, statistics = self._labels.sweep(rule)
        is_there = statistics.counts > 0.0  # an offset of -inf times no rows is nothing
        evidence = statistics.counts[is_there] @ rule.offsets[is_there]
        products = np.vecdot(statistics.resultants, rule.directions)
        if rule.slopes is not None:
            products *= rule.slopes
        return statistics, float(evidence + products.sum()), n_changed == 0
