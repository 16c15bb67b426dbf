"""Clusters coarser and finer than those chosen, as a tree: levels nest because they are cuts of it.

Leaves     pieces of the chosen clusters, where a finer candidate cuts them
Merges     first pieces within their cluster, then the clusters themselves, each time the two whose merger costs least
           of the objective of spherical k-means: |R_a| + |R_b| - |R_a + R_b| for the sums R of their rows
Cuts       after all merges within clusters: the chosen level; earlier ones are finer, later ones coarser
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.points import Points, as_float64
from armillary.selection.candidates import Candidate, n_neighbours_of

Numbers = npt.NDArray[np.int32]

LEVELS = ("coarse", "chosen", "fine")
# A level has so many times the clusters of the next coarser one, or more.
_APART = 1.5
_BLOCK_VALUES = 1 << 22


@dataclass(frozen=True, eq=False)
class Tree:
    """Which clusters merge, the nearest first: node i < n_leaves is a leaf, n_leaves + i the i-th merger."""

    n_leaves: int
    children: npt.NDArray[np.int64]  # (n_leaves - 1, 2), as scikit-learn's trees have them
    heights: Float64Array  # (n_leaves - 1,): what each merger costs, summed up

    def cut(self, n_clusters: int) -> Numbers:
        """The cluster of each leaf (n_leaves,), of so many, numbered by their first leaves."""
        group = np.arange(self.n_leaves + len(self.children))
        for merger, (left, right) in enumerate(self.children[: self.n_leaves - n_clusters]):
            group[group == group[left]] = self.n_leaves + merger
            group[group == group[right]] = self.n_leaves + merger
        _, first, inverse = np.unique(group[: self.n_leaves], return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int32)
        rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
        return rank[inverse]


@dataclass(frozen=True, eq=False)
class Levels:
    """Labels of the rows at three levels that nest; rows without a direction have -1."""

    coarse: Numbers  # (n,)
    chosen: Numbers  # (n,)
    fine: Numbers  # (n,)
    tree: Tree
    parents: Numbers  # (n_leaves,): the chosen cluster of each fine one

    @property
    def n_clusters(self) -> dict[str, int]:
        """How many clusters each level has."""
        counts = {}
        for name in LEVELS:
            labels = getattr(self, name)
            counts[name] = len(np.unique(labels[labels >= 0]))
        return counts

    def __repr__(self) -> str:
        words = ", ".join(f"{name} {count:,}" for name, count in self.n_clusters.items())
        return f"Levels({words})"


@dataclass(frozen=True, eq=False)
class Pieces:
    """The leaves: their directions, and the cluster that each is a piece of."""

    directions: Float64Array  # (L, D)
    parents: Numbers  # (L,), increasing


def finer(candidates: list[Candidate], n_clusters: int) -> Candidate | None:
    """The best candidate with clearly more clusters."""
    more = [one for one in candidates if one.n_clusters >= _APART * n_clusters]
    return max(more, key=lambda one: one.score, default=None)


def n_coarse(candidates: list[Candidate], n_clusters: int) -> int:
    """The number of clusters of the best candidate with clearly fewer; as many as chosen where there is none."""
    fewer = [one for one in candidates if one.n_clusters * _APART <= n_clusters]
    best = max(fewer, key=lambda one: one.score, default=None)
    return n_clusters if best is None else best.n_clusters


def cut_in_pieces(compared: Points, chosen: Numbers, directions: Float64Array, candidate: Candidate | None) -> Pieces:
    """Pieces of clusters, from the labels of compared rows at both levels; too small ones are left to the others."""
    n_clusters = len(directions)
    if candidate is None:
        return Pieces(directions, np.arange(n_clusters, dtype=np.int32))
    least = n_neighbours_of(compared.n_rows, compared.n_features)
    pairs = chosen.astype(np.int64) * candidate.n_clusters + candidate.labels
    names, inverse, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    owners = names // candidate.n_clusters
    is_kept = counts >= least
    found: list[Float64Array] = []
    parents: list[int] = []
    for cluster in range(n_clusters):
        pieces = np.flatnonzero(is_kept & (owners == cluster))
        if len(pieces) < 2:
            found.append(directions[cluster])
            parents.append(cluster)
            continue
        for piece in pieces:
            found.append(_mean_direction(compared, np.flatnonzero(inverse == piece), directions[cluster]))
            parents.append(cluster)
    return Pieces(np.array(found), np.array(parents, dtype=np.int32))


def _mean_direction(points: Points, numbers: npt.NDArray[np.int64], otherwise: Float64Array) -> Float64Array:
    total = np.asarray(as_float64(points.gather(numbers)).sum(axis=0)).ravel()
    length = float(np.linalg.norm(total))
    return total / length if length > 0.0 else otherwise


def leaves_of(points: Points, chosen: npt.NDArray[np.integer[Any]], pieces: Pieces) -> Numbers:
    """The nearest piece of its own cluster for each row (n,)."""
    first, n_pieces = np.unique(pieces.parents, return_index=True, return_counts=True)[1:]
    leaves = first[chosen].astype(np.int32)
    order = np.argsort(chosen, kind="stable")
    edges = np.searchsorted(chosen[order], np.arange(len(first) + 1))
    step = max(1, _BLOCK_VALUES // points.n_features)
    for cluster in np.flatnonzero(n_pieces > 1):
        own = pieces.directions[first[cluster] : first[cluster] + n_pieces[cluster]].T
        for start in range(edges[cluster], edges[cluster + 1], step):
            rows = order[start : min(start + step, edges[cluster + 1])]
            leaves[rows] += np.argmax(as_float64(points.gather(rows)) @ own, axis=1).astype(np.int32)
    return leaves


def tree_of(sums: Float64Array, parents: Numbers) -> Tree:
    """The tree of leaves with these sums of rows (L, D): those of one parent merge first."""
    n_leaves = len(sums)
    gram = sums @ sums.T
    nodes = np.arange(n_leaves)
    is_here = np.ones(n_leaves, dtype=bool)
    children: list[tuple[int, int]] = []
    costs: list[float] = []
    for groups in (parents, np.zeros(n_leaves, dtype=np.int32)):
        is_pair = (groups[:, None] == groups) & is_here[:, None] & is_here
        prices = np.where(np.triu(is_pair, 1), _prices(gram, np.arange(n_leaves)), np.inf)
        for _ in range(int(is_here.sum()) - len(np.unique(groups[is_here]))):
            left, right = divmod(int(np.argmin(prices)), n_leaves)
            children.append((int(nodes[left]), int(nodes[right])))
            costs.append(max(0.0, float(prices[left, right])))
            nodes[left] = n_leaves + len(children) - 1
            is_here[right] = False
            gram[left] += gram[right]
            gram[:, left] += gram[:, right]
            prices[right] = prices[:, right] = np.inf
            others = np.flatnonzero(is_here & (groups == groups[left]))
            others = others[others != left]
            found = _prices(gram, np.array([left]))[0, others]
            prices[np.minimum(others, left), np.maximum(others, left)] = found
    heights = np.maximum.accumulate(costs) if costs else np.empty(0)
    return Tree(n_leaves, np.array(children, dtype=np.int64).reshape(-1, 2), np.asarray(heights, dtype=np.float64))


def _prices(gram: Float64Array, places: npt.NDArray[np.int64]) -> Float64Array:
    """What the merger of some leaves with each of all costs (m, L), from the products of their sums."""
    squares = np.diag(gram)
    lengths = np.sqrt(np.maximum(squares, 0.0))
    merged = np.sqrt(np.maximum(squares[places, None] + squares + 2.0 * gram[places], 0.0))
    return np.asarray(lengths[places, None] + lengths - merged)
