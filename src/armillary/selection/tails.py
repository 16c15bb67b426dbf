"""How far the rows of each cluster lie from its direction, and how far is too far.

The distance of a row is 1 - cosine with its direction, told as if the row had not been there when the direction was
learned: with the sum R of the n rows of a cluster, c = x . R / |R| becomes x . (R - x) / |R - x|. New rows have such
distances, so what holds for these holds for them.

    law          distances of a cluster follow a gamma law. Those of a von Mises-Fisher cluster do, with shape
                 (D - 1) / 2 and scale 1 / kappa; real clusters lie in fewer dimensions, so both are read from its rows
    rate         the law gives each row a tail: the share of the cluster that would lie farther. Where the law fits, a
                 share `rate` of the rows has a smaller tail than `rate`. Where tails are heavier, the level is lowered
                 until a share `rate` of the rows lies beyond it: for each cluster by its own rows where they are many,
                 else by those of all small ones together
    intruders    rows that belong nowhere are in some cluster too, and must not raise its limit. They show as a second
                 hill of distances beyond a valley, in a cluster, or in all of them together, as they are or counted in
                 steps of each cluster; rows beyond the valley count for no limit
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy import stats

from armillary._typing import Float64Array

# The share of rows that belong and are called outliers all the same.
FALSE_ALARMS = 0.01
# A cluster of its own has at least so many rows beyond its limit.
_LEAST_BEYOND = 10
# A valley counts where the hills on both sides stand out from it: by this factor, and by so many deviations of a count.
_VALLEY = 0.6
_DEVIATIONS = 4.0
_SMOOTHED = 0.375  # what the variance of a count is after the smoothing, 1/16 + 1/4 + 1/16
_N_BINS = 40
# A wide bin is as good as empty with this share of the rows beyond it.
_N_WIDE = 10
_EMPTY = 0.15
# Rows of a cluster whose near quarter tells its steps, and steps that are told apart.
_LEAST_ROWS = 8
_MOST_STEPS = 30.0
_LEAST_SHAPE, _MOST_SHAPE = 0.5, 1e6


@dataclass(frozen=True, eq=False)
class Tails:
    """The laws of K clusters and the limits beyond which a row belongs nowhere."""

    shapes: Float64Array  # (K,)
    scales: Float64Array  # (K,)
    limits: Float64Array  # (K,): the largest distance of a row that belongs

    def membership(self, labels: npt.NDArray[np.integer], distances: Float64Array) -> Float64Array:
        """The share of its cluster, by the law, that lies farther than each row (n,): 1 at the middle."""
        return np.asarray(stats.gamma.sf(distances, self.shapes[labels], scale=self.scales[labels]))

    def is_out(self, labels: npt.NDArray[np.integer], distances: Float64Array) -> npt.NDArray[np.bool_]:
        """Which rows (n,) lie beyond the limit of their cluster."""
        return np.asarray(distances > self.limits[labels])


def left_out_distances(
    labels: npt.NDArray[np.integer], cosines: Float64Array, counts: Float64Array, lengths: Float64Array
) -> Float64Array:
    """Distances (n,) from the directions without the row itself; 1 for a row alone in its cluster.

    `counts` (K,) and `lengths` (K,), |R|, are those of rows of weight 1.
    """
    resultant = lengths[labels]
    along = cosines * resultant - 1.0
    without = np.sqrt(np.maximum(resultant**2 - 2.0 * cosines * resultant + 1.0, 0.0))
    is_alone = (counts[labels] <= 1.0) | (without <= 1e-9)
    found = 1.0 - along / np.where(is_alone, 1.0, without)
    return np.where(is_alone, 1.0, np.clip(found, 0.0, 2.0))


def fit_tails(
    labels: npt.NDArray[np.integer], distances: Float64Array, n_clusters: int, rate: float = FALSE_ALARMS
) -> Tails:
    """Laws and limits from the left-out distances (n,) of rows with these labels."""
    shapes, scales = np.ones(n_clusters), np.full(n_clusters, 0.5)
    tails = np.zeros(len(labels))
    belongs = np.ones(len(labels), dtype=bool)
    members = _members(labels, n_clusters)
    steps = _steps(distances, members)
    furthest, beyond = valley(np.clip(steps, 0.0, _MOST_STEPS)), valley(distances)
    for cluster, rows in enumerate(members):
        if len(rows) == 0:
            continue
        own = distances[rows]
        inside = (own <= valley(own)) & (steps[rows] <= furthest)
        if np.median(own) < beyond:
            inside &= own <= beyond
        if not inside.any():
            inside[:] = True
        shapes[cluster], scales[cluster] = gamma_law(own[inside])
        belongs[rows] = inside
        tails[rows] = _own_tails(own, inside)
    enough = _LEAST_BEYOND / rate
    is_large = np.array([np.count_nonzero(belongs[rows]) >= enough for rows in members], dtype=bool)
    small = [rows for rows, large in zip(members, is_large, strict=True) if not large]
    shared = np.concatenate(small) if small else np.empty(0, dtype=np.int64)
    shared_level = _level(tails[shared[belongs[shared]]], rate)
    limits = np.full(n_clusters, 2.0)
    for cluster, rows in enumerate(members):
        level = _level(tails[rows[belongs[rows]]], rate) if is_large[cluster] else shared_level
        limits[cluster] = _distance_at(level, shapes[cluster], scales[cluster])
    return Tails(shapes, scales, limits)


def _members(labels: npt.NDArray[np.integer], n_clusters: int) -> list[npt.NDArray[np.int64]]:
    """The rows of each cluster."""
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[order], np.arange(n_clusters + 1))
    return [order[start:stop] for start, stop in pairwise(edges)]


def _steps(distances: Float64Array, members: list[npt.NDArray[np.int64]]) -> Float64Array:
    """Distances (n,) beyond the middle of their cluster, in steps from its near quarter to its middle.

    Intruders are among the far half of a cluster, so they do not change these much. 0 in clusters too small to tell.
    """
    steps = np.zeros(len(distances))
    for rows in members:
        if len(rows) >= _LEAST_ROWS:
            near, middle = np.quantile(distances[rows], [0.25, 0.5])
            if middle > near:
                steps[rows] = np.maximum((distances[rows] - middle) / (middle - near), 0.0)
    return steps


def gamma_law(distances: Float64Array) -> tuple[float, float]:
    """Shape and scale of a gamma law with the mean and variance of the distances."""
    mean = float(distances.mean())
    variance = float(distances.var())
    if mean <= 0.0 or variance <= 0.0:
        return 1.0, max(mean, 1e-12)
    shape = float(np.clip(mean**2 / variance, _LEAST_SHAPE, _MOST_SHAPE))
    return shape, mean / shape


def _own_tails(distances: Float64Array, inside: npt.NDArray[np.bool_]) -> Float64Array:
    """The log tail of each row of a cluster (n,), by the law of the other rows inside."""
    n_others = np.count_nonzero(inside) - inside.astype(float)
    if n_others.min() < _LEAST_ROWS:
        return np.asarray(stats.gamma.logsf(distances, *_split(gamma_law(distances[inside]))))
    own = np.where(inside, distances, 0.0)
    means = (own.sum() - own) / n_others
    variances = np.maximum((np.sum(own**2) - own**2) / n_others - means**2, 1e-12 * means**2)
    shapes = np.clip(means**2 / np.maximum(variances, 1e-300), _LEAST_SHAPE, _MOST_SHAPE)
    return np.asarray(stats.gamma.logsf(distances, shapes, scale=np.maximum(means, 1e-300) / shapes))


def _split(law: tuple[float, float]) -> tuple[float, float, float]:
    """Shape, place and scale, as SciPy takes them."""
    return law[0], 0.0, law[1]


def _level(log_tails: Float64Array, rate: float) -> float:
    """The log tail that a share `rate` of new rows is below: that of rows kept apart holds for those that come."""
    rank = int(np.floor(rate * (len(log_tails) + 1)))
    if rank < 1:  # too few rows to say more than the law does
        return float(min(np.log(rate), log_tails.min(initial=0.0)))
    return float(np.partition(log_tails, rank - 1)[rank - 1])


def _distance_at(log_tail: float, shape: float, scale: float) -> float:
    """The distance beyond which the law has this tail."""
    tail = np.exp(max(log_tail, -700.0))
    return float(min(2.0, stats.gamma.isf(tail, shape, scale=scale)))


def valley(distances: Float64Array) -> float:
    """The distance between rows that belong and a second hill of rows beyond them; infinite where there is none.

    Looked for beyond the highest bin of a histogram: the bin with fewest rows before each later one. A few rows far out
    make no hill of their own, but lie beyond a wide bin that is as good as empty.
    """
    found = _before_a_hill(distances)
    return found if found < np.inf else _before_some(distances)


def _before_some(distances: Float64Array) -> float:
    """The middle of the emptiest wide bin that many more rows lie beyond; infinite where there is none."""
    counts, edges = np.histogram(distances, _N_WIDE, (0.0, float(distances.max(initial=0.0)) + 1e-12))
    beyond = counts[::-1].cumsum()[::-1] - counts
    top = int(np.argmax(counts))
    is_empty = (counts <= _EMPTY * beyond) & (beyond >= _LEAST_ROWS) & (np.arange(_N_WIDE) > top)
    if not is_empty.any():
        return np.inf
    low = min(np.flatnonzero(is_empty), key=lambda place: (counts[place], place))
    return float(edges[low] + edges[low + 1]) / 2.0


def _before_a_hill(distances: Float64Array) -> float:
    edges = np.linspace(0.0, float(distances.max(initial=0.0)) + 1e-12, _N_BINS + 1)
    counts = np.histogram(distances, edges)[0].astype(float)
    smooth = np.convolve(np.pad(counts, 1, mode="edge"), [0.25, 0.5, 0.25], "valid")
    top = int(np.argmax(smooth))
    best, place = 0.0, np.inf
    for later in range(top + 2, _N_BINS):
        low = top + 1 + int(np.argmin(smooth[top + 1 : later]))
        rise = smooth[later] - smooth[low]
        chance = np.sqrt(_SMOOTHED * (smooth[later] + smooth[low] + 1.0))
        is_hill = smooth[low] < _VALLEY * smooth[later] and rise > _DEVIATIONS * chance
        if is_hill and rise > best:
            best, place = rise, float(edges[low] + edges[low + 1]) / 2.0
    return place
