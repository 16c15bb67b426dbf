"""Labels drawn one row after the other, given the labels of all others: the N-row work of collapsed samplers.

Rows leave and join the sums of components as they move, so a sweep costs one product and K scores for each row and the
sums need no second pass. Rounding drifts with every move; `rebuild` takes the sums anew from the labels. A row sees
where those before it went, so the rows must be in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, IntArray
from armillary.distributions.predictive import PredictiveDensity
from armillary.engines.contract import Here, Passes, Points
from armillary.engines.host import LabelArray as Labels
from armillary.engines.host import host_passes, host_points
from armillary.exceptions import InputError
from armillary.points import Block, even_ranges
from armillary.rules import AffineRule, CollapsedRule, CollapsedSums

# Rows per call of the kernel: its K first evaluations are nothing beside these, and an interrupt is soon heard.
_SWEEP_ROWS = 8192
# What does without rows in memory.
_INSTEAD = "use BayesianVonMisesFisherMixture"


def check_in_memory(passes: Passes) -> None:
    """Refuse rows that cannot be gone through one by one."""
    host_passes(passes, _INSTEAD)


class DrawnAssignment:
    """Labels of n rows among K components, and the sums of those components."""

    def __init__(self, passes: Passes, labels: Labels, n_components: int, mean_direction: Float64Array) -> None:
        self._passes = host_passes(passes, _INSTEAD)
        self._labels = labels.copy()
        self._n_components = n_components
        self.point_along(mean_direction)

    @property
    def labels(self) -> Labels:
        """The labels (n,) after the last sweep; they change with the next."""
        return self._labels

    @property
    def sums(self) -> CollapsedSums:
        """Sums by the present labels; they change with the next sweep."""
        return self._sums

    def point_along(self, mean_direction: Float64Array) -> None:
        """Take the prior direction mu_0 (D,): products with it, and the sums, are made anew."""
        self._mean_direction = mean_direction
        rule = AffineRule(np.ascontiguousarray(mean_direction[None]), np.zeros(1))
        self._projections = self._passes.own_scores(rule, np.zeros(len(self._labels), dtype=np.int32))
        self.rebuild()

    def rebuild(self) -> None:
        """Sums from the labels, without the rounding of all moves since the last time."""
        totals = self._passes.sums(self._labels, self._n_components)
        self._sums = CollapsedSums(
            totals.counts,
            np.ascontiguousarray(totals.resultants.T),
            np.vecdot(totals.resultants, totals.resultants),
            totals.resultants @ self._mean_direction,
        )

    def sweep(self, rule: CollapsedRule, key: tuple[int, int], shuffle: np.random.Generator | None = None) -> int:
        """Draw every label anew, in row order or in a random order; return how many changed."""
        points, n_changed = self._passes.points, 0
        ranges = even_ranges(points.n_rows, -(-points.n_rows // _SWEEP_ROWS))
        order = None if shuffle is None else shuffle.permutation(points.n_rows)
        for start, stop in ranges:
            if order is None:
                rows, numbers = points.block(start, stop), np.arange(start, stop)
                n_changed += self._draw(
                    rows, numbers, self._projections[start:stop], rule, key, self._labels[start:stop]
                )
            else:
                numbers = order[start:stop]
                labels = self._labels[numbers]
                n_changed += self._draw(points.gather(numbers), numbers, self._projections[numbers], rule, key, labels)
                self._labels[numbers] = labels
        return n_changed

    def _draw(
        self,
        rows: Block,
        numbers: npt.NDArray[np.int64],
        projections: Float64Array,
        rule: CollapsedRule,
        key: tuple[int, int],
        labels: Labels,
    ) -> int:
        return self._passes.kernels.gibbs_sweep(
            rows, numbers, projections, key, rule, self._sums, labels, self._passes.rounder
        )


def check_start_labels(start_labels: IntArray, points: Points, n_components: int) -> Labels:
    """Labels (n,) from 0 to K - 1, as int32."""
    labels = np.asarray(start_labels)
    if labels.shape != (points.n_rows,) or labels.dtype.kind not in "iu":
        raise InputError(
            f"`start_labels` of {points.who} must hold one integer for each of the {points.n_rows} rows; "
            f"got shape {labels.shape} of {labels.dtype}. The labels of an EM fit will do."
        )
    if labels.min() < 0 or labels.max() >= n_components:
        raise InputError(
            f"`start_labels` of {points.who} must be from 0 to n_components - 1 = {n_components - 1}; "
            f"got labels from {labels.min()} to {labels.max()}. Raise n_components or renumber them."
        )
    return labels.astype(np.int32)


class KeptLabels:
    """Room for S draws of labels."""

    def __init__(self, assignment: DrawnAssignment, n_draws: int) -> None:
        self._assignment = assignment
        self.values = np.empty((n_draws, len(assignment.labels)), dtype=np.int32)  # (S, n), for the user

    def keep(self, number: int) -> None:
        """The labels as they are now."""
        self.values[number] = self._assignment.labels


def refuse_weights(given: Points) -> None:
    """A row has one label and counts once: only weights of 1 have a meaning here."""
    points = host_points(given, _INSTEAD)
    if points.weights is not None and np.any(points.weights != 1.0):
        raise InputError(
            f"`sample_weight` of {points.who} must be None or all 1 for Gibbs sampling, where each row has one label "
            f"and counts once; got weights from {points.weights.min():g} to {points.weights.max():g}. Repeat rows, or "
            "use BayesianVonMisesFisherMixture."
        )


@dataclass(frozen=True)
class _Density:
    """The log density of a draw, from the products that it asks for."""

    density: PredictiveDensity

    def of(self, scores: Float64Array, here: Here) -> Float64Array:
        return np.asarray(self.density.log_density(scores))


def log_mean_density(passes: Passes, densities: Iterable[PredictiveDensity]) -> Float64Array:
    """log mean_s p_s(x) of each row (n,), over the densities of the draws."""
    total: Float64Array | None = None
    n_draws = 0
    for density in densities:
        n_draws += 1
        own = passes.values(AffineRule(density.vectors, np.zeros(len(density.vectors))), _Density(density))
        total = own if total is None else np.logaddexp(total, own, out=total)
    return np.asarray(total - np.log(n_draws))
