"""What people do to a graph of sub-clusters by hand: forget a cluster, split one, move rows out of one.

Each takes the saved state of a graph and gives another: rare, and as long as a copy. A cluster stays one tree. Where an
edit leaves several trees of one id, they are tied by edges that are never cut, from the younger to the nearest
sub-cluster of the oldest.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.models.links._link_graph import Int64Array, SavedForest

Mask = npt.NDArray[np.bool_]


def without(saved: SavedForest, is_gone: Mask) -> SavedForest:
    """The forest without some sub-clusters (n,), of which no other is the child."""
    place = np.cumsum(~is_gone) - 1
    kept = _selected(saved, ~is_gone)
    parents = kept.parents
    return kept._replace(parents=np.where(parents >= 0, place[parents], -1))


def split(saved: SavedForest, is_moved: Mask, cluster: int) -> SavedForest:
    """The forest with the chosen sub-clusters (n,) of one cluster under the id `cluster`."""
    ids, parents, is_pinned = saved.ids.copy(), saved.parents.copy(), saved.is_pinned.copy()
    ids[is_moved] = cluster
    is_cut = (parents >= 0) & (is_moved != is_moved[parents])
    parents[is_cut], is_pinned[is_cut] = -1, False
    parted = saved._replace(ids=ids, parents=parents, is_pinned=is_pinned)
    rest = int(saved.ids[np.flatnonzero(is_moved)[0]])
    return _tied(_tied(parted, cluster), rest)


def moved_out(saved: SavedForest, slots: Int64Array, rows: Float64Array, cluster: int) -> SavedForest:
    """The forest with unit rows (n, D) taken out of the sub-clusters in `slots` (n,) and put under the id `cluster`."""
    sources = np.unique(slots)
    sums, counts = saved.sums.copy(), saved.counts.copy()
    new_sums, new_counts = np.empty((len(sources), sums.shape[1])), np.empty(len(sources))
    for place, slot in enumerate(sources):
        new_sums[place] = rows[slots == slot].sum(axis=0)
        new_counts[place] = np.count_nonzero(slots == slot)
    whole = new_counts > counts[sources] - 0.5  # nothing is left behind: the sub-cluster itself goes over
    sums[sources[~whole]] -= new_sums[~whole]
    counts[sources[~whole]] -= new_counts[~whole]
    n_new = int(np.count_nonzero(~whole))
    first = len(sums)
    grown = saved._replace(
        sums=np.concatenate([sums, new_sums[~whole]]),
        counts=np.concatenate([counts, new_counts[~whole]]),
        numbers=np.concatenate([saved.numbers, saved.next_number + np.arange(n_new)]),
        ids=np.concatenate([saved.ids, saved.ids[sources[~whole]]]),
        parents=np.concatenate([saved.parents, sources[~whole]]),
        is_pinned=np.concatenate([saved.is_pinned, np.zeros(n_new, np.bool_)]),
        last_seen=np.concatenate([saved.last_seen, saved.last_seen[sources[~whole]]]),
        next_number=saved.next_number + n_new,
    )
    is_moved = np.zeros(len(grown.sums), np.bool_)
    is_moved[sources[whole]] = True
    is_moved[first:] = True
    return split(grown, is_moved, cluster)


def nearer_side(saved: SavedForest, cluster: int, is_first: Mask, is_second: Mask) -> Mask:
    """Of one cluster, the sub-clusters (n,) that are fewer links from the second ones; of equals the first have it."""
    members = np.flatnonzero(saved.ids == cluster)
    neighbours: dict[int, list[int]] = {int(slot): [] for slot in members}
    for slot in members.tolist():
        parent = int(saved.parents[slot])
        if parent >= 0:
            neighbours[slot].append(parent)
            neighbours[parent].append(slot)
    side = np.full(len(saved.ids), -1)
    waiting: deque[int] = deque()
    for number, mask in enumerate((is_first, is_second)):
        chosen = np.flatnonzero(mask & (saved.ids == cluster))
        side[chosen] = number
        waiting.extend(chosen.tolist())
    while waiting:
        slot = waiting.popleft()
        for other in neighbours[slot]:
            if side[other] < 0:
                side[other] = side[slot]
                waiting.append(other)
    return np.asarray(side == 1)


def weakest_side(saved: SavedForest, cluster: int, margins: Float64Array) -> Mask | None:
    """The sub-clusters (n,) below the link of least margin (n,) of one cluster; None where it has no link."""
    linked = np.flatnonzero((saved.ids == cluster) & (saved.parents >= 0))
    if not linked.size:
        return None
    order = np.lexsort((-saved.numbers[linked], margins[linked], saved.is_pinned[linked]))
    top = int(linked[order[0]])
    is_below = np.zeros(len(saved.ids), np.bool_)
    is_below[top] = True
    for _ in range(len(linked)):  # a path is no longer than this
        grown = is_below | ((saved.parents >= 0) & is_below[saved.parents])
        if (grown == is_below).all():
            break
        is_below = grown
    return is_below


def _tied(saved: SavedForest, cluster: int) -> SavedForest:
    """One tree of the sub-clusters of a cluster."""
    parents, is_pinned = saved.parents.copy(), saved.is_pinned.copy()
    members = np.flatnonzero(saved.ids == cluster)
    roots = members[parents[members] < 0]
    roots = roots[np.argsort(saved.numbers[roots])]
    if len(roots) < 2:
        return saved
    root_of = _roots(parents, members)
    norms = np.sqrt(np.vecdot(saved.sums[members], saved.sums[members]))
    inside = root_of == roots[0]
    for root in roots[1:]:
        cosines = saved.sums[members] @ saved.sums[root] / norms
        partner = members[np.argmax(np.where(inside, cosines, -np.inf))]
        parents[root], is_pinned[root] = partner, True
        inside |= root_of == root
    return saved._replace(parents=parents, is_pinned=is_pinned)


def _roots(parents: Int64Array, members: Int64Array) -> Int64Array:
    found = members.copy()
    while (parents[found] >= 0).any():
        found = np.where(parents[found] >= 0, parents[found], found)
    return found


def _selected(saved: SavedForest, chosen: Mask) -> SavedForest:
    arrays: list[Any] = [values[chosen] for values in saved[:7]]
    return SavedForest._make([*arrays, *saved[7:]])
