"""Clusters that a sample of many rows cannot show: rows that fit badly are looked at again, among themselves.

A cluster of 100 among 200,000 rows has 5 in a sample of 10,000, fewer than the neighbours of a row. Its rows lie far
from every direction that was found, or several such make one loose cluster. So rows beyond what their cluster explains,
and those of loose clusters, are compared with each other as all rows were before. Groups of them become clusters where
they are as tight as the clusters that are known, lie much nearer to a direction of their own than to the old one, and
are too small for the sample to have shown them. All rows are then fitted from all directions, and what is left is
looked at, until nothing more is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.draws import Stream
from armillary.engines.select import open_passes
from armillary.points import Points
from armillary.rules import AffineRule
from armillary.selection.candidates import FEWEST_ROWS, compare_clusterings, n_neighbours_of
from armillary.selection.tails import left_out_distances

# Rows are looked at from here on: 1 in 100 of a normal law, by the half of the rows that lie nearer than the others.
_FENCE = 2.326
_QUARTILE = 0.6745
# A cluster is loose where its rows lie farther than those of the middle one by this factor.
_LOOSE = 1.5
# A group must be as tight as the loosest tenth of the clusters that are known, and nearer to its own direction than its
# rows were to their old ones by this factor: the far rows of one round cluster are as far from their mean as before.
_LOOSEST = 10.0
_NEARER = 0.75
# A group with more times the neighbours of a row in the first sample would have been seen there.
_SEEN = 3.0
MOST_ROUNDS = 6


@dataclass(frozen=True, eq=False)
class Fitted:
    """All rows with the clusters that are known: what a fit of spherical k-means leaves."""

    directions: Float64Array  # (K, D)
    labels: npt.NDArray[np.int32]  # (n,)
    cosines: Float64Array  # (n,): with the own direction
    counts: Float64Array  # (K,)
    lengths: Float64Array  # (K,)

    @property
    def distances(self) -> Float64Array:
        """Of each row from its direction, as if it had not been there."""
        return left_out_distances(self.labels, self.cosines, self.counts, self.lengths)


@dataclass(frozen=True)
class Looked:
    """What came of it."""

    n_found: int  # clusters that were added
    n_rounds: int
    unseen: int  # groups smaller than this would not have been seen


def least_size(n_rows: int) -> int:
    """The default size of a group that is looked for."""
    return max(10, -(-n_rows // 20_000))


def far_rows(fitted: Fitted) -> npt.NDArray[np.int64]:
    """Rows that lie farther than their cluster explains: the near half of its rows tells how far that is."""
    distances = fitted.distances
    is_far = np.zeros(len(distances), dtype=bool)
    order = np.argsort(fitted.labels, kind="stable")
    edges = np.searchsorted(fitted.labels[order], np.arange(len(fitted.directions) + 1))
    members = [order[start:stop] for start, stop in pairwise(edges) if stop > start + 1]
    quartiles = np.array([np.quantile(distances[rows], [0.25, 0.5]) for rows in members])
    typical = np.median(quartiles[:, 1]) if members else 0.0
    for rows, (near, middle) in zip(members, quartiles, strict=True):
        fence = middle + (middle - near) / _QUARTILE * _FENCE
        is_far[rows] = (distances[rows] > fence) | (middle > _LOOSE * typical)
    return np.flatnonzero(is_far)


def groups_among(
    points: Points, fitted: Fitted, most_rows: int, min_size: int, stream: Stream, n_threads: int | None
) -> tuple[Float64Array, int]:
    """Directions (m, D) of new groups among rows that fit badly, and the size of groups that cannot be seen there."""
    far = far_rows(fitted)
    n_looked = min(len(far), most_rows)
    n_neighbours = n_neighbours_of(max(n_looked, 1), points.n_features)
    unseen = max(min_size, int(np.ceil(n_neighbours * len(far) / max(n_looked, 1))))
    nothing = np.empty((0, points.n_features))
    if n_looked < max(FEWEST_ROWS, min_size):
        return nothing, unseen
    chosen = np.sort(stream.generator("far").choice(far, n_looked, replace=False))
    with open_passes(points.take(chosen), n_threads, points.who) as passes:
        found = compare_clusterings(passes, stream, n_threads, has_null=False).best
        if found is None:
            return nothing, unseen
        labels = passes.labels_from(found.labels)
        sums = passes.sum(labels, found.n_clusters)
        cosines = passes.own(AffineRule.cosines(found.directions), labels).to_host()
    counts = np.bincount(found.labels, minlength=found.n_clusters).astype(float)
    distances = left_out_distances(found.labels, np.asarray(cosines, dtype=float), counts, sums.lengths)
    spread = np.bincount(found.labels, distances, found.n_clusters) / counts
    known = np.bincount(fitted.labels, fitted.distances, len(fitted.directions)) / np.maximum(fitted.counts, 1.0)
    is_tight = spread <= np.percentile(known[fitted.counts > 0], 100.0 - _LOOSEST)
    before = np.bincount(found.labels, fitted.distances[chosen], found.n_clusters) / counts
    sizes = counts * len(far) / n_looked
    is_new = sizes * most_rows / points.n_rows <= _SEEN * n_neighbours
    return found.directions[is_tight & is_new & (spread <= _NEARER * before) & (sizes >= min_size)], unseen
