"""Facts about clusters and rows: centres, angles, silhouettes, the most central and the most doubtful rows.

A centre is the direction of the sum of a cluster's rows, whatever the model: every model has labels, not every one has
one direction per cluster, and angles to it mean the same in every report.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, IntArray
from armillary.engines.contract import Here, Numbered, Passes
from armillary.fitting.silhouette import silhouettes
from armillary.rules import AffineRule

# Clusters with a line in the table and a colour of their own; the smallest beyond are counted together.
MOST_CLUSTERS = 1000
# Products of numbers up to which silhouettes are exact: some 20 s on a core. Beyond, rows evenly spaced are scored.
_MOST_PRODUCTS = 1e11
# Centres compared at once with all others.
_CENTRES_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class ClusterFacts:
    """What the page says of the K clusters shown and of the n rows. Angles are in radians."""

    names: IntArray  # (K,) the labels, increasing
    sizes: IntArray  # (K,)
    centers: Float64Array  # (K, D)
    spreads: Float64Array  # (K,) half of the rows lie within this angle of the centre
    neighbours: IntArray  # (K,) the nearest other cluster, -1 where there is none
    neighbour_angles: Float64Array  # (K,)
    silhouettes: Float64Array  # (K,) means; NaN where there is nothing to compare
    codes: npt.NDArray[np.int32]  # (n,) number of the cluster among those shown, or -1
    angles: Float64Array  # (n,) to the own centre; NaN for rows of no cluster shown
    next_codes: npt.NDArray[np.int32]  # (n,) the nearest centre but the own, -1 where there is none
    next_angles: Float64Array  # (n,) NaN where there is none
    row_silhouettes: Float64Array  # (n,) NaN where not scored
    n_noise: int  # rows with label -1
    n_small: int  # clusters that are too many to show
    n_small_rows: int

    @property
    def labels(self) -> IntArray:
        """(n,) the label of each row in a cluster shown, -1 for the others."""
        if not len(self.names):
            return self.codes
        return np.where(self.codes >= 0, self.names[np.maximum(self.codes, 0)], -1)

    @property
    def n_clusters(self) -> int:
        """All clusters with rows."""
        return len(self.names) + self.n_small

    @property
    def n_scored(self) -> int:
        """Rows with a silhouette."""
        return int(np.isfinite(self.row_silhouettes).sum())

    @property
    def mean_silhouette(self) -> float:
        """Over the rows scored; NaN where there are none."""
        return float(np.nanmean(self.row_silhouettes)) if self.n_scored else float("nan")

    def central_rows(self, n: int) -> list[IntArray]:
        """The rows of each cluster nearest to its centre, nearest first."""
        return self._first_rows(self.angles, n)

    def doubtful_rows(self, n: int) -> list[IntArray]:
        """The rows of each cluster that are least nearer to it than to the next; of one cluster, those farthest out."""
        margins = -self.angles if len(self.names) < 2 else self.next_angles - self.angles
        return self._first_rows(margins, n)

    def _first_rows(self, values: Float64Array, n: int) -> list[IntArray]:
        order = np.lexsort((values, self.codes))
        order = order[self.codes[order] >= 0]
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        return [order[start : min(start + n, stop)] for start, stop in pairwise(starts)]


def cluster_facts(passes: Passes, labels: IntArray, *, most_clusters: int = MOST_CLUSTERS) -> ClusterFacts:
    """Look at all rows with labels (n,), -1 for noise: three passes, O(n K D)."""
    names, sizes = np.unique(labels[labels >= 0], return_counts=True)
    kept = _largest(sizes, most_clusters)
    n_small, n_small_rows = len(names) - len(kept), int(sizes.sum() - sizes[kept].sum())
    names, sizes = names[kept], sizes[kept]
    codes = _codes(labels, names)
    centers = _centers(passes, codes, len(names))
    angles, next_codes, next_angles = _row_angles(passes, codes, centers)
    neighbours, neighbour_angles = _neighbours(centers)
    row_silhouettes = _row_silhouettes(passes, codes, len(names))
    return ClusterFacts(
        names=names,
        sizes=sizes,
        centers=centers,
        spreads=np.array([np.median(part) for part in _by_cluster(angles, codes, sizes)]),
        neighbours=neighbours,
        neighbour_angles=neighbour_angles,
        silhouettes=_cluster_means(row_silhouettes, codes, len(names)),
        codes=codes,
        angles=angles,
        next_codes=next_codes,
        next_angles=next_angles,
        row_silhouettes=row_silhouettes,
        n_noise=int((labels < 0).sum()),
        n_small=n_small,
        n_small_rows=n_small_rows,
    )


def largest(passes: Passes, facts: ClusterFacts, most_clusters: int = MOST_CLUSTERS) -> ClusterFacts:
    """The facts of the largest clusters: nearest are those shown, silhouettes stay those among all clusters."""
    n_clusters = len(facts.names)
    if n_clusters <= most_clusters:
        return facts
    kept = _largest(facts.sizes, most_clusters)
    places = np.full(n_clusters + 1, -1, dtype=np.int32)  # the last is that of code -1
    places[kept] = np.arange(len(kept))
    codes = places[facts.codes]
    angles, next_codes, next_angles = _row_angles(passes, codes, facts.centers[kept])
    neighbours, neighbour_angles = _neighbours(facts.centers[kept])
    return replace(
        facts,
        names=facts.names[kept],
        sizes=facts.sizes[kept],
        centers=facts.centers[kept],
        spreads=facts.spreads[kept],
        neighbours=neighbours,
        neighbour_angles=neighbour_angles,
        silhouettes=facts.silhouettes[kept],
        codes=codes,
        angles=angles,
        next_codes=next_codes,
        next_angles=next_angles,
        row_silhouettes=np.where(codes >= 0, facts.row_silhouettes, np.nan),
        n_small=n_clusters - len(kept),
        n_small_rows=int(facts.sizes.sum() - facts.sizes[kept].sum()),
    )


def _largest(sizes: IntArray, most_clusters: int) -> IntArray:
    """Places of the largest, increasing."""
    return np.sort(np.argsort(-sizes, kind="stable")[:most_clusters])


def _codes(labels: IntArray, names: IntArray) -> npt.NDArray[np.int32]:
    """The place of each label among the names, -1 for those that are not there."""
    if not len(names):
        return np.full(len(labels), -1, dtype=np.int32)
    places = np.minimum(np.searchsorted(names, labels), len(names) - 1)
    return np.where(names[places] == labels, places, -1).astype(np.int32)


def _centers(passes: Passes, codes: npt.NDArray[np.int32], n_clusters: int) -> Float64Array:
    """Directions of the sums (K, D); where the rows of a cluster cancel, its first row."""
    first_rows = np.unique(codes, return_index=True)[1][-n_clusters:] if n_clusters else np.empty(0, dtype=np.int64)
    return passes.sum(passes.labels_from(codes), n_clusters).directions(passes.unit_rows(first_rows))


def _row_angles(
    passes: Passes, codes: npt.NDArray[np.int32], centers: Float64Array
) -> tuple[Float64Array, npt.NDArray[np.int32], Float64Array]:
    """Angle to the own centre, the nearest other centre, and the angle to that, of each row."""
    n_rows, n_clusters = len(codes), len(centers)
    angles, next_angles = np.full(n_rows, np.nan), np.full(n_rows, np.nan)
    next_codes = np.full(n_rows, -1, dtype=np.int32)
    if not n_clusters:
        return angles, next_codes, next_angles

    rule = AffineRule(centers, np.zeros(n_clusters))
    found = passes.values(rule, _OwnAndNext(), passes.labels_from(codes))
    return found[:, 0].copy(), found[:, 1].astype(np.int32), found[:, 2].copy()


@dataclass(frozen=True)
class _OwnAndNext:
    """Of each row the angle to its own centre, the code of the nearest other centre (-1: none), and its angle."""

    def of(self, scores: Float64Array, here: Here) -> Float64Array:
        own = here.labels
        assert own is not None
        found = np.full((len(own), 3), np.nan)
        members = np.flatnonzero(own >= 0)
        found[members, 0] = np.arccos(np.clip(scores[members, own[members]], -1.0, 1.0))
        scores[members, own[members]] = -np.inf
        best = scores.argmax(axis=1)
        largest = scores[np.arange(len(own)), best]
        has_next = np.isfinite(largest)
        found[:, 1] = np.where(has_next, best, -1)
        found[has_next, 2] = np.arccos(np.clip(largest[has_next], -1.0, 1.0))
        return found


def _neighbours(centers: Float64Array) -> tuple[IntArray, Float64Array]:
    """The nearest other centre of each, and the angle to it."""
    n_clusters = len(centers)
    if n_clusters < 2:
        return np.full(n_clusters, -1), np.full(n_clusters, np.nan)
    nearest, cosines = np.empty(n_clusters, dtype=np.int64), np.empty(n_clusters)
    for start in range(0, n_clusters, _CENTRES_AT_ONCE):
        block = centers[start : start + _CENTRES_AT_ONCE] @ centers.T
        here = np.arange(len(block))
        block[here, start + here] = -np.inf
        nearest[start : start + len(block)] = block.argmax(axis=1)
        cosines[start : start + len(block)] = block.max(axis=1)
    return nearest, np.arccos(np.clip(cosines, -1.0, 1.0))


def _row_silhouettes(passes: Passes, codes: npt.NDArray[np.int32], n_clusters: int) -> Float64Array:
    """Silhouettes by cosine of the rows in clusters; of very many rows, of some that are evenly spaced."""
    scores = np.full(len(codes), np.nan)
    members = np.flatnonzero(codes >= 0)
    if n_clusters < 2 or len(members) <= n_clusters:
        return scores
    n_scored = min(
        len(members), max(20 * n_clusters, int(_MOST_PRODUCTS / (n_clusters * max(1.0, passes.points.width))))
    )
    chosen = members[np.arange(n_scored) * len(members) // n_scored]
    over = passes if len(chosen) == len(codes) else passes.over(Numbered(chosen))
    scores[chosen] = silhouettes(over, over.labels_from(codes[chosen]), n_clusters)
    return scores


def _by_cluster(values: Float64Array, codes: npt.NDArray[np.int32], sizes: IntArray) -> list[Float64Array]:
    """The values of each cluster's rows."""
    order = np.argsort(codes, kind="stable")
    return np.split(values[order[int((codes < 0).sum()) :]], np.cumsum(sizes)[:-1]) if len(sizes) else []


def _cluster_means(values: Float64Array, codes: npt.NDArray[np.int32], n_clusters: int) -> Float64Array:
    """Means by cluster of the values that are numbers; NaN where there are none."""
    is_number = np.isfinite(values) & (codes >= 0)
    counts = np.bincount(codes[is_number], minlength=n_clusters)
    totals = np.bincount(codes[is_number], values[is_number], minlength=n_clusters)
    return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)
