"""Clusters of a stream that grow together become one; the older id stays.

Spread       s_k^2 = 2 (1 - |r_k| / n_k), the mean squared chord between the rows of a cluster in a step and their mean
Near         two clusters with rows whose directions are d apart (a chord), d^2 <= NEAR^2 (s_a^2 + s_b^2), and at most
             `merge_angle`. With NEAR^2 = 2 what lies between two clusters of equal size is then no more than what lies
             within them: one cluster cut in two halves has d^2 = 0.94 (s_a^2 + s_b^2)
Hysteresis   a pair that was near stays so up to SLACK times these bounds, and is merged when it was near in
             `merge_after` steps in which both had rows; a cluster near an older one in the step of its birth at once
Merged       direction and weight of the sum w_a m_a + w_b m_b; the older id; seen if either was

Pairs are taken from the nearest on. Everything here has one entry for a cluster or a pair: no rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.models.saved_state import SavedRecord

Int64Array = npt.NDArray[np.int64]

NEAR = math.sqrt(2.0)
SLACK = 1.2


@dataclass(frozen=True)
class MergeRule:
    """Checked parameters."""

    angle: float  # most between two directions
    after: int  # steps


@dataclass(frozen=True, eq=False)
class SavedState(SavedRecord):
    """What the next step needs to merge clusters: pairs that are near."""

    # (P, 3) older id, younger id, steps in which they were near
    near_pairs: Int64Array = field(default_factory=lambda: np.empty((0, 3), np.int64))


@dataclass(frozen=True, eq=False)
class Seen:
    """The clusters with rows in a step, by increasing id."""

    ids: Int64Array  # (K,)
    directions: Float64Array  # (K, D)
    weights: Float64Array  # (K,)
    squared_spreads: Float64Array  # (K,)
    first_new: int  # ids from here on were born in this step


def squared_spreads(counts: Float64Array, lengths: Float64Array) -> Float64Array:
    """s^2 (K,) of clusters with these counts and lengths of resultants; 0 for those without rows."""
    return np.asarray(2.0 * np.clip(1.0 - lengths / np.maximum(counts, 1e-300), 0.0, 1.0) * (counts > 0.0))


def chosen_merges(seen: Seen, near: SavedState, rule: MergeRule) -> tuple[list[tuple[int, int]], SavedState]:
    """Pairs (gone id, kept id) to merge in this order, and the pairs that are near after the step."""
    known = {(older, younger): steps for older, younger, steps in near.near_pairs.tolist()}
    chords = _chords(seen.directions)
    limits = np.minimum(
        NEAR * np.sqrt(seen.squared_spreads[:, None] + seen.squared_spreads[None]), 2.0 * math.sin(0.5 * rule.angle)
    )
    pairs, counts = [], {}
    for a, b in zip(*np.nonzero(np.triu(chords <= SLACK * limits, 1)), strict=True):
        key = int(seen.ids[a]), int(seen.ids[b])
        if chords[a, b] > limits[a, b] and key not in known:
            continue
        counts[key] = known.get(key, 0) + 1
        if counts[key] >= rule.after or key[1] >= seen.first_new:
            pairs.append((float(chords[a, b]), key))
    merges = _in_order(pairs)
    gone = {number for number, _ in merges}
    here = set(seen.ids.tolist())
    # a pair of which one had no rows waits as it is
    waiting = {key: steps for key, steps in known.items() if not set(key) <= here}
    kept = [(*key, steps) for key, steps in sorted((waiting | counts).items()) if not gone & set(key)]
    return merges, SavedState(np.array(kept, dtype=np.int64).reshape(-1, 3))


def _chords(directions: Float64Array) -> Float64Array:
    """Distances (K, K) between unit vectors."""
    return np.linalg.norm(directions[:, None] - directions[None], axis=2)


def _in_order(pairs: list[tuple[float, tuple[int, int]]]) -> list[tuple[int, int]]:
    """Merges (gone, kept) by growing distance; one that is gone, or has taken another in, merges no more this step."""
    merges, taken = [], set[int]()
    for _, (older, younger) in sorted(pairs):
        if older not in taken and younger not in taken:
            merges.append((younger, older))
            taken |= {older, younger}
    return merges


def joined(one: Float64Array, w_one: float, other: Float64Array, w_other: float) -> tuple[Float64Array, float]:
    """Direction and weight of two clusters together; one that is infinitely sure is not moved by another."""
    if math.isinf(w_one) or math.isinf(w_other):
        return (one, w_one) if math.isinf(w_one) else (other, w_other)
    total = w_one * one + w_other * other
    length = float(np.linalg.norm(total))
    return (total / length, length) if length > 0.0 else (one, w_one)


def followed(given: Int64Array, merges: Int64Array, alive: Int64Array) -> Int64Array:
    """Ids (n,) along merges (M, 2) of gone and kept ids to one that is alive; -1 where that ends elsewhere."""
    onward, here = dict(merges.tolist()), set(alive.tolist())
    wanted, codes = np.unique(given, return_inverse=True)
    found = []
    for number in wanted.tolist():
        while number not in here and number in onward:
            number = onward[number]  # the kept id is older: this ends
        found.append(number if number in here else -1)
    return np.array(found, dtype=np.int64)[codes].reshape(given.shape)
