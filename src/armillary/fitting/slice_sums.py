"""What the rows of slices of time sum to under their responsibilities, as an opaque value, and rows shared anew.

Models with chains of directions see counts, chains to smooth (`SliceSums.chains`) and directions that rows can be
shared by (`SliceDirections.share`). Either the sums of all slices are stored, T of (K, D), or, for sparse rows with
fewer values than those, nothing but the shares of the rows is: their chains are in other coordinates, and directions
are made where a row asks for them (`engines/contract.py`, `FeatureSlices`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from armillary._typing import Float64Array
from armillary.distributions import direction_chains as dc
from armillary.distributions import natural_vectors as nv
from armillary.engines.contract import FeatureSlices, Passes, SharedRows, SliceMessages
from armillary.fitting.slices import SlicedPasses
from armillary.rules import AffineRule
from armillary.sums.directional import DirectionalStatistics


@dataclass(frozen=True, eq=False)
class Beginning:
    """The law of the first direction of each chain: vMF(mu_0, C_init)."""

    direction: Float64Array  # (D,) mu_0, or (K, D)
    concentration: float | Float64Array  # C_init, or (K,)

    @property
    def vector(self) -> Float64Array:
        """C_init mu_0, (D,) or (K, D)."""
        return np.asarray(np.asarray(self.concentration)[..., None] * self.direction)


class SliceSums(ABC):
    """Sums of the rows of T slices by K clusters."""

    counts: Float64Array  # (T, K)

    @property
    @abstractmethod
    def moved(self) -> float:
        """The weight of rows that went from one cluster to another in the pass that made these sums, at least."""

    @abstractmethod
    def chains(self, concentrations: Float64Array, beginning: Beginning) -> dc.Chains:
        """The chains of directions whose evidence is concentrations (K,) times resultants."""

    @abstractmethod
    def directions(self, laws: dc.ChainLaws, made: Smoothing) -> SliceDirections:
        """The directions that were found from `chains`."""

    @abstractmethod
    def alignments(self, laws: dc.ChainLaws) -> Float64Array:
        """sum_t R_t . E[mu_t] (K,), for laws found from `chains`."""


@dataclass(frozen=True, eq=False)
class Smoothing:
    """What chains were smoothed with."""

    concentrations: Float64Array  # (K,)
    beginning: Beginning
    drift: float | nv.TabulatedDrift


@dataclass(frozen=True, eq=False)
class SlicePass:
    """Rows shared by the directions of their slices."""

    sums: SliceSums
    evidence: float  # sum over rows of log sum exp score
    products: Float64Array  # (T, K) what the rows' products with the directions are in the sum of their scores


class SliceDirections(ABC):
    """The laws of the directions of T slices and K clusters."""

    laws: dc.ChainLaws

    @property
    @abstractmethod
    def first_mean(self) -> Float64Array:
        """sum_k E[mu_{1,k}] (D,) of the first slice."""

    @property
    @abstractmethod
    def vectors(self) -> Float64Array:
        """Natural vectors (T, K, D)."""

    @abstractmethod
    def share(self, passes: SlicedPasses, scales: Float64Array, offsets: Float64Array, before: SliceSums) -> SlicePass:
        """Share rows by softmax_k(scales_tk x . natural vector_tk + offsets_tk); `before` are the sums so far."""


def first_pass(passes: SlicedPasses, rule: AffineRule, *, is_smoothed: bool) -> SlicePass:
    """Share the rows of all slices by one rule. Only chains that are smoothed do without stored sums."""
    if is_smoothed and _are_many(passes, len(rule.offsets)) and passes.by_feature is not None:
        shared = passes.by_feature.share_by(rule)
        return _listed_pass(ListedSums(passes.by_feature, shared, None, passes.whole.points.total_weight))

    def task(number: int, rows: Passes) -> tuple[DirectionalStatistics, float, Float64Array]:
        outcome = rows.share(rule)
        return outcome.sums, outcome.evidence, np.vecdot(outcome.sums.resultants, rule.vectors)

    nothing = np.zeros(len(rule.offsets))
    parts = passes.each(task, lambda number: (DirectionalStatistics.zero(*rule.shape), 0.0, nothing))
    return _stored_pass(parts, passes.whole.points.total_weight)


def _are_many(passes: SlicedPasses, n_clusters: int) -> bool:
    """Whether there would be more sums than values in the rows."""
    points, n_slices = passes.whole.points, len(passes)
    n_values = points.width * points.n_rows
    return points.is_sparse and n_slices > 1 and n_slices * n_clusters * points.n_features > n_values


# ------------------------------------------------------------------------------------------------------------- stored


@dataclass(frozen=True, eq=False)
class StoredSums(SliceSums):
    """Counts and resultants of every slice."""

    statistics: tuple[DirectionalStatistics, ...]  # T of counts (K,) and resultants (K, D)
    moved: float = 0.0

    @cached_property
    def counts(self) -> Float64Array:  # type: ignore[override]
        """(T, K)."""
        return np.stack([part.counts for part in self.statistics])

    @property
    def resultants(self) -> list[Float64Array]:
        """R_t, T of (K, D)."""
        return [part.resultants for part in self.statistics]

    def chains(self, concentrations: Float64Array, beginning: Beginning) -> dc.Chains:
        """Evidence is scaled slice by slice."""
        return dc.Chains.of(dc.ScaledSlices(self.resultants, concentrations), beginning.vector)

    def directions(self, laws: dc.ChainLaws, made: Smoothing) -> StoredDirections:
        """The laws have all vectors."""
        return StoredDirections(laws)

    def alignments(self, laws: dc.ChainLaws) -> Float64Array:
        """In all D columns."""
        return dc.alignments(self.resultants, laws)


@dataclass(frozen=True, eq=False)
class StoredDirections(SliceDirections):
    """Laws with vectors (T, K, D)."""

    laws: dc.ChainLaws

    @property
    def first_mean(self) -> Float64Array:
        """(D,)."""
        return np.asarray(self.laws.slopes[0] @ self.laws.natural_vectors[0])

    @property
    def vectors(self) -> Float64Array:
        """(T, K, D)."""
        return np.asarray(self.laws.natural_vectors)

    def share(self, passes: SlicedPasses, scales: Float64Array, offsets: Float64Array, before: SliceSums) -> SlicePass:
        """Slice by slice; one without rows keeps the zeros it has."""
        assert isinstance(before, StoredSums)

        def task(number: int, rows: Passes) -> tuple[DirectionalStatistics, float, Float64Array, float]:
            rule = AffineRule(self.vectors[number], offsets[number], slopes=scales[number])
            outcome = rows.share(rule)
            products = scales[number] * np.vecdot(outcome.sums.resultants, rule.directions)
            return outcome.sums, outcome.evidence, products, _moved(before.statistics[number], outcome.sums)

        nothing = np.zeros(offsets.shape[1])
        parts = passes.each(task, lambda number: (before.statistics[number], 0.0, nothing, 0.0))
        return _stored_pass([part[:3] for part in parts], sum(part[3] for part in parts))


def _stored_pass(parts: list[tuple[DirectionalStatistics, float, Float64Array]], moved: float) -> SlicePass:
    statistics, evidence, products = zip(*parts, strict=True)
    return SlicePass(StoredSums(statistics, moved), sum(evidence), np.stack(products))


def _moved(before: DirectionalStatistics, after: DirectionalStatistics) -> float:
    """What counts and resultants show of the rows that went from one cluster to another."""
    lengths = nv.natural_lengths(after.resultants - before.resultants)
    return _weight_moved(lengths, after.counts - before.counts)


def _weight_moved(lengths: Float64Array, counts: Float64Array) -> float:
    """From how far each resultant moved, and how much each count changed."""
    return 0.5 * float(np.maximum(lengths, np.abs(counts)).sum())


# ------------------------------------------------------------------------------------------------------------- listed


class ListedSums(SliceSums):
    """The shares of sparse rows, from which sums are made feature by feature."""

    def __init__(
        self, by_feature: FeatureSlices, shared: SharedRows, before: SharedRows | None, total_weight: float
    ) -> None:
        """From rows that are shared, and as they were shared before the pass."""
        self.by_feature = by_feature
        self.shared = shared
        self.counts = shared.counts
        self.total_weight = total_weight
        self._before = before
        # the direction that the coordinates were last made with, and they
        self._known: tuple[Float64Array, Float64Array] | None = None

    @cached_property
    def moved(self) -> float:
        """As of stored sums, from the change of the shares."""
        if self._before is None:
            return self.total_weight
        squares = self.by_feature.squares_moved(self.shared, self._before)
        return _weight_moved(np.sqrt(np.maximum(squares, 0.0)), self.counts - self._before.counts)

    def chains(self, concentrations: Float64Array, beginning: Beginning) -> dc.Chains:
        """In coordinates of the span of each chain, T + 1 in place of D."""
        coordinates = self._coordinates(beginning.direction)
        scaled = dc.ScaledSlices(coordinates[:-1], concentrations)
        return dc.Chains(scaled, beginning.concentration * coordinates[-1], beginning.direction.shape[-1])

    def directions(self, laws: dc.ChainLaws, made: Smoothing) -> ListedDirections:
        """The laws say how far, not where: vectors are made of these sums."""
        return ListedDirections(laws, self, made)

    def alignments(self, laws: dc.ChainLaws) -> Float64Array:
        """In the coordinates of the laws."""
        assert self._known is not None
        return dc.alignments(self._known[1][:-1], laws)

    def _coordinates(self, direction: Float64Array) -> Float64Array:
        """(T + 1, K, T + 1) of the resultants of the slices and, last, of a direction."""
        if self._known is None or self._known[0] is not direction:
            products = self.by_feature.products(self.shared, direction)
            self._known = direction, np.ascontiguousarray(dc.own_coordinates(products).swapaxes(0, 1))
        return self._known[1]


class ListedDirections(SliceDirections):
    """Laws in the coordinates of their chains, with the sums that their vectors are made of."""

    def __init__(self, laws: dc.ChainLaws, sums: ListedSums, made: Smoothing) -> None:
        self.laws = laws
        self._sums = sums
        self._made = made
        self._first_mean: Float64Array | None = None

    @property
    def first_mean(self) -> Float64Array:
        """(D,). Found beside the vectors that rows are shared by, and at their cost."""
        if self._first_mean is None:
            self._fill(self.laws.slopes)
        assert self._first_mean is not None
        return self._first_mean

    @property
    def vectors(self) -> Float64Array:
        """(T, K, D): smoothed again, in all columns."""
        made = self._made
        evidence = dc.ScaledSlices(_SummedSlices(self._sums), made.concentrations)
        return np.asarray(dc.smoothed(dc.Chains.of(evidence, made.beginning.vector), made.drift).natural_vectors)

    def share(self, passes: SlicedPasses, scales: Float64Array, offsets: Float64Array, before: SliceSums) -> SlicePass:
        """Vectors at the features of the rows of each slice, then the rows."""
        assert isinstance(before, ListedSums)
        by_feature = self._sums.by_feature
        shared = by_feature.share(self._fill(scales), offsets)
        return _listed_pass(ListedSums(by_feature, shared, before.shared, before.total_weight))

    def _fill(self, scales: Float64Array) -> Any:
        """The table of vectors times `scales` (T, K)."""
        made, laws = self._made, self.laws
        assert laws.ahead is not None
        assert laws.back is not None
        messages = SliceMessages(
            made.concentrations, made.beginning.vector, laws.ahead, laws.back, scales, laws.slopes[0]
        )
        table, self._first_mean = self._sums.by_feature.fill(self._sums.shared, messages)
        return table


@dataclass(frozen=True, eq=False)
class _SummedSlices:
    """Resultants that are made when asked for."""

    sums: ListedSums

    def __len__(self) -> int:
        return len(self.sums.counts)

    def __getitem__(self, time: int) -> Float64Array:
        return self.sums.by_feature.resultants(time, self.sums.shared)


def _listed_pass(sums: ListedSums) -> SlicePass:
    return SlicePass(sums, sums.shared.evidence, sums.shared.products)
