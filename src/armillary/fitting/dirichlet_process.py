"""The rows' side of Dirichlet-process mixtures: which rows a cluster has, and passes that draw all labels at once.

`Clusters` is a partition of N rows into K clusters that all have rows. The sampler sees it as a list of clusters, asks
for the rows of one or two of them, and says which to split or merge; rows are always given in increasing order, so that
a function of a set has the same bits whenever the set is the same.

Labels are redrawn by anchored restricted Gibbs (dp_tgmm.md, 7): given parameters and weights, and K held fixed, rows
are independent but for the rule that no cluster may end empty. The row of each cluster with the lowest random priority
stays, and the others may go to clusters whose anchor comes before them; that is exact, and parallel over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, softmax

from armillary._typing import Float64Array
from armillary.distributions import bessel
from armillary.distributions.components import Component, Parameters
from armillary.distributions.gaussian_component import Gaussian
from armillary.distributions.tangent_component import TangentComponent
from armillary.distributions.tangent_gaussian import RowSums, TangentGaussian, log_map
from armillary.fitting import initialization
from armillary.fitting.passes import Labels, Passes
from armillary.kernels.contract import AffineRule, Anchors, QuadraticRule
from armillary.points import Block, Points, cut, even_ranges

Numbers = npt.NDArray[np.int64]
MixtureRule = AffineRule | QuadraticRule

# Rows scored together: a table of 1024 x K scores.
_SCORE_ROWS = 1024
_LLOYD_STEPS = 10
# Rows that are equal but for rounding have no spread.
_LEAST_SPREAD = 1e-6


def score_rule(component: Component, parameters: Sequence[Parameters], log_weights: Float64Array) -> MixtureRule:
    """Log weights plus log densities of K clusters, as the kernels want them."""
    first = parameters[0]
    dimension = component.n_features
    if isinstance(first, TangentGaussian):
        p = dimension - 1
        volume = p - 1.0 if getattr(component, "volume_factor", True) else 0.0
        heights = log_weights - 0.5 * (p * np.log(2.0 * np.pi) + _stack(parameters, "log_determinant"))
        roots, means = _stack(parameters, "root"), _stack(parameters, "mean")
        return QuadraticRule(roots, heights, means=means, volume=volume)
    if isinstance(first, Gaussian):
        heights = log_weights - 0.5 * (dimension * np.log(2.0 * np.pi) + _stack(parameters, "log_determinant"))
        roots = _stack(parameters, "root")
        return QuadraticRule(roots, heights, shifts=np.vecdot(roots, _stack(parameters, "mean")[:, None]))
    kappa = _stack(parameters, "concentration")
    heights = log_weights + bessel.log_normalizer(dimension, kappa)
    return AffineRule(_stack(parameters, "mean"), heights, slopes=kappa)


def _stack(parameters: Sequence[Parameters], name: str) -> Float64Array:
    return np.array([getattr(one, name) for one in parameters])


class Clusters:
    """A partition of the rows of `passes` into K clusters, none of them empty."""

    def __init__(self, passes: Passes, labels: npt.ArrayLike) -> None:
        self._passes = passes
        # numbered without gaps, whatever the labels were
        self._labels: Labels = np.unique(np.asarray(labels), return_inverse=True)[1].astype(np.int32)
        self._gather()

    def _gather(self) -> None:
        """Row numbers of each cluster, in increasing order."""
        counts = np.bincount(self._labels)
        # labels of 16 bits are sorted by counting
        codes = self._labels.astype(np.uint16) if len(counts) <= 1 << 16 else self._labels
        order = np.argsort(codes, kind="stable")
        self._members: list[Numbers] = np.split(order, np.cumsum(counts)[:-1])

    @property
    def labels(self) -> Labels:
        """The labels (N,); they change with the next move."""
        return self._labels

    @property
    def n_rows(self) -> int:
        """N."""
        return len(self._labels)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Rows of each cluster (K,)."""
        return np.array([len(members) for members in self._members])

    def __len__(self) -> int:
        return len(self._members)

    # ------------------------------------------------------------------------------------------- sets of rows

    def numbers(self, cluster: int) -> Numbers:
        """Which rows a cluster has (n,), in increasing order."""
        return self._members[cluster]

    def rows(self, cluster: int) -> Float64Array:
        """The rows (n, D) of a cluster."""
        return self._rows(self._members[cluster])

    def union(self, first: int, second: int) -> tuple[Float64Array, npt.NDArray[np.bool_]]:
        """The rows (n, D) of two clusters, and which are of the first."""
        numbers = np.concatenate([self._members[first], self._members[second]])
        order = np.argsort(numbers, kind="stable")
        return self._rows(numbers[order]), order < len(self._members[first])

    def _rows(self, numbers: Numbers) -> Float64Array:
        # as the label kernels see them: float32 rows are unit to 1e-7, and are not made unit again
        return np.asarray(self._passes.points.gather(numbers), dtype=np.float64)

    # ------------------------------------------------------------------------------------------- moves

    def split(self, cluster: int, is_left: npt.NDArray[np.bool_]) -> None:
        """Leave the rows that are left in the cluster, and make those that are right the last cluster."""
        members = self._members[cluster]
        self._members[cluster] = members[is_left]
        self._members.append(members[~is_left])
        self._labels[self._members[-1]] = len(self._members) - 1

    def merge(self, first: int, second: int) -> None:
        """Give the rows of `second` to `first`; the last cluster takes the place of `second`."""
        self._members[first] = np.sort(np.concatenate([self._members[first], self._members[second]]))
        self._labels[self._members[first]] = first
        last = self._members.pop()
        if second < len(self._members):
            self._members[second] = last
            self._labels[last] = second

    def redraw(
        self, rule: MixtureRule, key: tuple[int, int], anchor_key: tuple[int, int] | None
    ) -> npt.NDArray[np.int64]:
        """Draw every label anew among the clusters of `rule`; without `anchor_key` clusters may end empty.

        Returns the counts (K,) of the clusters of the rule. Empty ones are then gone from this partition.
        """
        n_clusters = len(rule.offsets)
        kernels = self._passes.kernels
        anchors = Anchors.none(n_clusters)
        if anchor_key is not None:
            anchors = Anchors(anchor_key, np.full(n_clusters, np.inf), np.full(n_clusters, -1, dtype=np.int64))
            kernels.find_anchors(self._labels, 0, anchors)

        def draw(rows: Block, part: slice) -> None:
            kernels.draw_anchored(rows, rule, anchors, key, part.start, self._labels[part])

        self._passes.each_block(draw)
        counts = np.bincount(self._labels, minlength=n_clusters)
        if not counts.all():
            self._labels = (np.cumsum(counts > 0) - 1)[self._labels].astype(np.int32)
        self._gather()
        return counts


def each_small_block(passes: Passes, task: Callable[[Block, slice], Any]) -> None:
    """Call `task` on blocks of at most 1,024 rows: for what needs a table of all clusters."""

    def cut_up(rows: Block, part: slice) -> None:
        for start, stop in _small_ranges(part.stop - part.start):
            task(cut(rows, start, stop), slice(part.start + start, part.start + stop))

    passes.each_block(cut_up)


def _small_ranges(n_rows: int) -> Iterator[tuple[int, int]]:
    yield from even_ranges(n_rows, -(-n_rows // _SCORE_ROWS))


def rough_labels(passes: Passes, n_clusters: int, generator: np.random.Generator) -> Labels:
    """Labels (N,) of spherical k-means, stopped after ten steps: a start, not a result."""
    directions = initialization.plus_plus(passes, n_clusters, generator)
    labels = np.full(passes.points.n_rows, -1, dtype=np.int32)
    for _ in range(_LLOYD_STEPS):
        statistics = passes.assign_and_sum(AffineRule.cosines(directions), labels)[1]
        directions = statistics.directions(otherwise=directions)
    return labels


def typical_spread(clusters: Clusters, otherwise: float) -> float:
    """The median over clusters of the root mean squared chord in each tangent direction, in radians.

    Of clusters with at least D + 1 rows; `otherwise` where there is none, or where their rows are all equal.
    """
    found = []
    for k, count in enumerate(clusters.counts):
        rows = clusters.rows(k)
        if count > rows.shape[1]:
            centred = rows - rows.mean(axis=0)
            found.append(float(np.sqrt(np.sum(centred**2) / (count * (rows.shape[1] - 1)))))
    spread = float(np.median(found)) if found else 0.0
    return spread if spread > _LEAST_SPREAD else otherwise


def compiled(component: Component, passes: Passes) -> Component:
    """The component with its work on rows done by the kernels of `passes`, where there are such."""
    if not isinstance(component, TangentComponent):
        return component

    def row_sums(
        rows: Float64Array,
        base: Float64Array,
        weights: Float64Array | None = None,
        *,
        with_scatter: bool = True,
        with_curvature: bool = False,
    ) -> RowSums:
        return RowSums(
            *passes.kernels.tangent_sums(rows, base, weights, with_scatter=with_scatter, with_curvature=with_curvature)
        )

    def scores(
        rows: Float64Array, means: Float64Array, roots: Float64Array, heights: Float64Array, volume: float
    ) -> Float64Array:
        table = np.empty((len(rows), len(means)))
        passes.kernels.quadratic_scores(rows, QuadraticRule(roots, heights, means=means, volume=volume), table)
        return table

    return replace(component, row_sums=row_sums, scores=scores)


def best_clusters(passes: Passes, rule: MixtureRule) -> Labels:
    """The cluster with the highest score of each row (n,)."""
    labels = np.empty(passes.points.n_rows, dtype=np.int32)

    def task(rows: Block, part: slice) -> None:
        labels[part] = np.argmax(_score_table(passes, rule, rows, part), axis=1)

    each_small_block(passes, task)
    return labels


def responsibilities(passes: Passes, rule: MixtureRule) -> Float64Array:
    """The share of each cluster in each row (n, K)."""
    shares = np.empty((passes.points.n_rows, len(rule.offsets)))

    def task(rows: Block, part: slice) -> None:
        shares[part] = softmax(_score_table(passes, rule, rows, part), axis=1)

    each_small_block(passes, task)
    return shares


def log_evidence(passes: Passes, rule: MixtureRule, log_rest: Callable[[Float64Array], Float64Array]) -> Float64Array:
    """log sum exp of the scores of each row (n,) and of `log_rest`, what is not in the rule."""
    evidence = np.empty(passes.points.n_rows)

    def task(rows: Block, part: slice) -> None:
        known = logsumexp(_score_table(passes, rule, rows, part), axis=1)
        dense = passes.points.rows(np.arange(part.start, part.stop))
        evidence[part] = np.logaddexp(known, log_rest(dense))

    each_small_block(passes, task)
    return evidence


def coordinates(points: Points, mean: Float64Array, axes: Float64Array, *, is_curved: bool) -> Float64Array:
    """Rows (n, p) along axes (p, D) from a mean: by the log map of the sphere, or straight."""
    rows = points.rows(np.arange(points.n_rows))
    vectors = log_map(rows, mean).vectors if is_curved else rows - mean
    return np.asarray(vectors @ axes.T)


def _score_table(passes: Passes, rule: MixtureRule, rows: Block, part: slice) -> Float64Array:
    """Scores (m, K) of a small block."""
    table = np.empty((part.stop - part.start, len(rule.offsets)))
    if isinstance(rule, QuadraticRule):
        passes.kernels.quadratic_scores(rows, rule, table)
    else:
        passes.kernels.scores(rows, passes.kernels.prepare(rule), table)
    return table
