"""The rows' side of Dirichlet-process mixtures: which rows a cluster has, and passes that draw all labels at once.

`Clusters` is a partition of N rows into K clusters that all have rows. The sampler sees it as a list of clusters, asks
for the rows of one or two of them, and says which to split or merge; rows are always given in increasing order, so that
a function of a set has the same bits whenever the set is the same.

Labels are redrawn by anchored restricted Gibbs (dp_tgmm.md, 7): given parameters and weights, and K held fixed, rows
are independent but for the rule that no cluster may end empty. The row of each cluster with the lowest random priority
stays, and the others may go to clusters whose anchor comes before them; that is exact, and parallel over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, softmax

from armillary._typing import Float64Array
from armillary.distributions import bessel
from armillary.distributions.components import Component, Parameters
from armillary.distributions.gaussian_component import Gaussian
from armillary.distributions.tangent_gaussian import TangentGaussian, log_map
from armillary.fitting import initialization
from armillary.fitting.numbered_rows import MixtureRule, NumberedRows, Numbers, SetMemory, as_float64
from armillary.fitting.partitions import Codes, label_counts, relabelled, without_gaps
from armillary.fitting.passes import Labels, Passes
from armillary.kernels.contract import AffineRule, Anchors, QuadraticRule
from armillary.points import Block, Points, cut, even_ranges

# Rows scored together: a table of 1024 x K scores.
_SCORE_ROWS = 1024
_LLOYD_STEPS = 10
# Rows that are equal but for rounding have no spread.
_LEAST_SPREAD = 1e-6
# Rows that tell the spread of a cluster, one number for all directions, to a tenth or two.
_ENOUGH_ROWS = 4


def score_rule(component: Component, laws: Parameters, log_weights: Float64Array) -> MixtureRule:
    """Log weights plus log densities of K clusters, as the kernels want them."""
    dimension = component.n_features
    if isinstance(laws, TangentGaussian):
        p = dimension - 1
        volume = p - 1.0 if getattr(component, "volume_factor", True) else 0.0
        heights = log_weights - 0.5 * (p * np.log(2.0 * np.pi) + laws.log_determinant)
        return QuadraticRule(laws.root, heights, means=laws.mean, volume=volume)
    if isinstance(laws, Gaussian):
        heights = log_weights - 0.5 * (dimension * np.log(2.0 * np.pi) + laws.log_determinant)
        return QuadraticRule(laws.root, heights, shifts=np.vecdot(laws.root, laws.mean[:, None]))
    heights = log_weights + bessel.log_normalizer(dimension, laws.concentration)
    return AffineRule(laws.mean, heights, slopes=laws.concentration)


class Clusters:
    """A partition of the rows of `passes` into K clusters, none of them empty."""

    def __init__(self, passes: Passes, labels: npt.ArrayLike, memory: SetMemory | None = None) -> None:
        self.passes = passes
        self.memory = memory  # of small sets, where partitions come back to them
        self._labels: Labels = without_gaps(np.asarray(labels))
        self._gather()

    def _gather(self) -> None:
        """Row numbers of each cluster, in increasing order."""
        starts = np.concatenate([[0], np.cumsum(label_counts(self._labels, int(self._labels.max()) + 1))])
        order = np.empty(len(self._labels), dtype=np.int32)
        self.passes.kernels.group_rows(self._labels, starts, order)
        self._members: list[Numbers] = [order[start:stop] for start, stop in pairwise(starts)]
        # all clusters as they lie in `order`, until a move changes one
        self._everything: NumberedRows | None = NumberedRows(self.passes, order, starts, memory=self.memory)

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

    def sets(self, *clusters: int) -> NumberedRows:
        """The rows of some clusters, or of all."""
        if clusters and clusters != tuple(range(len(self))):
            return self.sets_of([self._members[k] for k in clusters])
        if self._everything is None:
            self._everything = self.sets_of(self._members)
        return self._everything

    def sets_of(self, numbers: Sequence[Numbers]) -> NumberedRows:
        """Sets of these rows, none empty."""
        return NumberedRows.of(self.passes, numbers, memory=self.memory)

    def unions(self, pairs: Sequence[tuple[int, int]]) -> NumberedRows:
        """The rows of each pair of clusters as one set."""
        return self.sets_of([self.together(*pair) for pair in pairs])

    def together(self, *clusters: int) -> Numbers:
        """Which rows some clusters have, in increasing order."""
        if len(clusters) == 1:
            return self._members[clusters[0]]
        members = np.concatenate([np.empty(0, dtype=np.int32), *(self._members[k] for k in clusters)])
        # the stable sort finds that these are a few runs in order, and merges them
        return np.sort(members, kind="stable")

    # ------------------------------------------------------------------------------------------- moves

    def split(self, cluster: int, is_left: npt.NDArray[np.bool_]) -> None:
        """Leave the rows that are left in the cluster, and make those that are right the last cluster."""
        members = self._members[cluster]
        self._members[cluster] = members[is_left]
        self._members.append(members[~is_left])
        self._labels[self._members[-1]] = len(self._members) - 1
        self._everything = None

    def merge(self, first: int, second: int) -> None:
        """Give the rows of `second` to `first`; the last cluster takes the place of `second`."""
        self._members[first] = self.together(first, second)
        self._labels[self._members[first]] = first
        last = self._members.pop()
        if second < len(self._members):
            self._members[second] = last
            self._labels[last] = second
        self._everything = None

    def redraw(
        self, rule: MixtureRule, key: tuple[int, int], anchor_key: tuple[int, int] | None
    ) -> npt.NDArray[np.int64]:
        """Draw every label anew among the clusters of `rule`; without `anchor_key` clusters may end empty.

        Returns the counts (K,) of the clusters of the rule. Empty ones are then gone from this partition.
        """
        n_clusters = len(rule.offsets)
        kernels = self.passes.kernels
        anchors = Anchors.none(n_clusters)
        if anchor_key is not None:
            anchors = Anchors(anchor_key, np.full(n_clusters, np.inf), np.full(n_clusters, -1, dtype=np.int64))
            kernels.find_anchors(self._labels, 0, anchors)
        prepared = kernels.prepare(rule)

        def draw(rows: Block, part: slice) -> None:
            kernels.draw_anchored(rows, prepared, anchors, key, part.start, self._labels[part])

        self.passes.each_block(draw)
        counts = label_counts(self._labels, n_clusters)
        if not counts.all():
            self._labels = relabelled(self._labels, np.cumsum(counts > 0, dtype=np.int32) - 1)
        self._members, self._everything = [], None  # as large as what takes their place
        self._gather()
        return counts


def each_table(passes: Passes, rule: MixtureRule, task: Callable[[Block, Float64Array, slice], Any]) -> None:
    """Call `task` on blocks of at most 1,024 rows, with their scores (m, K) and places."""
    kernels = passes.kernels
    prepared = kernels.prepare(rule)

    def cut_up(rows: Block, part: slice) -> None:
        n_rows = part.stop - part.start
        for start, stop in even_ranges(n_rows, -(-n_rows // _SCORE_ROWS)):
            some, table = cut(rows, start, stop), np.empty((stop - start, len(rule.offsets)))
            kernels.scores(some, prepared, table)
            task(some, table, slice(part.start + start, part.start + stop))

    passes.each_block(cut_up)


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

    Of clusters with more than 4 rows, or D if that is less: a mean over directions needs no more rows in more of them.
    `otherwise` where there is none, or where their rows are all equal.
    """
    sets, n_features = clusters.sets(), clusters.passes.points.n_features
    means = sets.totals() / sets.counts[:, None]
    # the mean of |x - m|^2 of unit rows
    chords = np.maximum(1.0 - np.vecdot(means, means), 0.0)[sets.counts > min(n_features, _ENOUGH_ROWS)]
    spread = float(np.sqrt(np.median(chords) / (n_features - 1.0))) if len(chords) else 0.0
    return spread if spread > _LEAST_SPREAD else otherwise


def best_clusters(passes: Passes, rule: MixtureRule) -> Codes:
    """The cluster with the highest score of each row (n,), in the smallest unsigned integers."""
    labels = np.empty(passes.points.n_rows, dtype=np.min_scalar_type(len(rule.offsets) - 1))

    def task(rows: Block, scores: Float64Array, part: slice) -> None:
        labels[part] = np.argmax(scores, axis=1)

    each_table(passes, rule, task)
    return labels


def responsibilities(passes: Passes, rule: MixtureRule) -> Float64Array:
    """The share of each cluster in each row (n, K)."""
    shares = np.empty((passes.points.n_rows, len(rule.offsets)))

    def task(rows: Block, scores: Float64Array, part: slice) -> None:
        shares[part] = softmax(scores, axis=1)

    each_table(passes, rule, task)
    return shares


def log_evidence(passes: Passes, rule: MixtureRule, log_rest: Callable[[Any], Float64Array]) -> Float64Array:
    """log sum exp of the scores of each row (n,) and of `log_rest`, what is not in the rule."""
    evidence = np.empty(passes.points.n_rows)

    def task(rows: Block, scores: Float64Array, part: slice) -> None:
        evidence[part] = np.logaddexp(logsumexp(scores, axis=1), log_rest(as_float64(rows)))

    each_table(passes, rule, task)
    return evidence


def coordinates(points: Points, mean: Float64Array, axes: Float64Array, *, is_curved: bool) -> Float64Array:
    """Rows (n, p) along axes (p, D) from a mean: by the log map of the sphere, or straight."""
    rows = points.rows(np.arange(points.n_rows))
    vectors = log_map(rows, mean).vectors if is_curved else rows - mean
    return np.asarray(vectors @ axes.T)
