"""Where directions start: k-means++ by angle, distinct rows at random, or directions given; and farthest-first."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.exceptions import ParameterError
from armillary.fitting.passes import Passes
from armillary.geometry.sphere import angle
from armillary.kernels.contract import AffineRule
from armillary.points import Points, even_ranges
from armillary.validation import check_choice, unit_rows

# Rows whose mass is added up together.
_BLOCK_ROWS = 4096


def check_init(
    init: Any, shape: tuple[int, int], count_name: str, who: str, choices: tuple[str, ...]
) -> str | Float64Array:
    """The parameter `init`: one of the words `choices`, or directions of this shape, made unit."""
    if isinstance(init, str):
        return check_choice(init, "init", who, choices, hint="Or give directions, shape (K, D).")
    # twice: rows that are unit to float32 are left as they are, and directions must be unit to float64
    directions = unit_rows(unit_rows(init, who, what="`init`").astype(np.float64), who, what="`init`")
    if directions.shape != shape:
        raise ParameterError(
            f"`init` of {who} must have shape ({count_name}, n_features) = {shape}; "
            f"got {directions.shape}. Give one direction per {'cluster' if 'cluster' in count_name else 'component'}."
        )
    return directions if isinstance(directions, np.ndarray) else directions.toarray()


def starting_directions(
    passes: Passes, init: str | Float64Array, n_clusters: int, generator: np.random.Generator
) -> Float64Array:
    """First directions (K, D), as `init` asks for them."""
    if not isinstance(init, str):
        return init
    if init == "random":
        return random_rows(passes.points, n_clusters, generator)
    if init == "random_labels":
        return means_of_random_groups(passes, n_clusters, generator)
    return plus_plus(passes, n_clusters, generator)


def means_of_random_groups(passes: Passes, n_clusters: int, generator: np.random.Generator) -> Float64Array:
    """Directions (K, D) of the sums of rows labelled at random; of a random row where a group is empty or cancels."""
    labels = generator.integers(n_clusters, size=passes.points.n_rows, dtype=np.int32)
    spare = random_rows(passes.points, n_clusters, generator)
    return passes.sums(labels, n_clusters).directions(otherwise=spare)


def random_rows(points: Points, n_clusters: int, generator: np.random.Generator) -> Float64Array:
    """Distinct rows (K, D), each drawn with the probability of its weight."""
    return points.rows(_draw_distinct(points, n_clusters, generator))


def _draw_distinct(points: Points, n_wanted: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    if points.weights is None:
        return generator.choice(points.n_rows, n_wanted, replace=False)
    n_positive = np.count_nonzero(points.weights)
    if n_positive >= n_wanted:
        return generator.choice(points.n_rows, n_wanted, replace=False, p=points.weights / points.total_weight)
    # fewer rows that count than clusters: take them all, then rows of weight 0 so that every cluster has a start
    order = np.argsort(-points.weights, kind="stable")
    return order[:n_wanted]


def plus_plus(passes: Passes, n_clusters: int, generator: np.random.Generator) -> Float64Array:
    """k-means++ (Arthur and Vassilvitskii 2007) on the sphere, greedy: directions (K, D).

    |x - c|^2 = 2 (1 - x.c), so a row is drawn with probability proportional to its weight times 1 - cos to the
    nearest direction so far. The best of 2 + floor(log K) draws is kept, by the sum that remains.
    """
    points = passes.points
    n_trials = 2 + int(math.log(n_clusters))
    nearest: FloatArray = np.full(points.n_rows, 2.0, dtype=points.dtype)  # 1 - cos to the nearest direction
    chosen = [_draw(points, None, 1, generator)[0]]
    _take(passes, chosen[0], nearest)
    while len(chosen) < n_clusters:
        candidates = _draw(points, nearest, n_trials, generator)
        if candidates.size == 0:  # every row sits on a chosen direction
            chosen.extend(_draw(points, None, n_clusters - len(chosen), generator))
            break
        best = candidates[int(np.argmin(_remaining(passes, candidates, nearest)))]
        _take(passes, best, nearest)
        chosen.append(best)
    return points.rows(chosen)


def farthest_first(passes: Passes, n_picks: int, *, n_ignored: int = 0) -> tuple[npt.NDArray[np.int64], Float64Array]:
    """Rows (n_picks,) taken in turn, each the farthest from all that was taken before, and its angle then (n_picks,).

    The direction of the sum of all rows is there at the start (row 0 where they cancel); angles do not grow (Kulis and
    Jordan 2012; dp_vmf_means.md, 9). `n_ignored` rows that are farther still are passed over for each pick: outliers.
    One pass for each pick and one float64 for each row. The cosines are sums in column order, so the picks are the same
    for dense and CSR rows.
    """
    points = passes.points
    alike = np.zeros(points.n_rows, dtype=np.int32)
    taken = np.empty((n_picks + 1, points.n_features))
    taken[0] = passes.sums(alike, 1).directions(otherwise=points.rows([0]))[0]
    nearest = np.full(points.n_rows, 2.0)  # 1 - cos to the nearest direction taken
    picks, angles = np.empty(n_picks, dtype=np.int64), np.empty(n_picks)
    for number in range(n_picks):
        cosines = passes.own_scores(AffineRule.cosines(taken[number : number + 1]), alike)
        np.minimum(nearest, _distances(cosines), out=nearest)
        picks[number] = _farthest(nearest, n_ignored)
        taken[number + 1] = points.rows(picks[number : number + 1])[0]
        angles[number] = angle(taken[: number + 1], taken[number + 1]).min()
    return picks, angles


def _farthest(nearest: Float64Array, n_ignored: int) -> int:
    """The row with the largest number but for `n_ignored` others; the first of equals."""
    if n_ignored == 0:
        return int(np.argmax(nearest))
    place = len(nearest) - 1 - n_ignored
    return int(np.argmax(nearest == np.partition(nearest, place)[place]))


def _draw(
    points: Points, nearest: FloatArray | None, n_draws: int, generator: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Rows drawn by weight times `nearest`; none where all of that is 0. First a block of rows, then one of them."""

    def mass(start: int, stop: int) -> Float64Array:
        own = np.ones(stop - start) if nearest is None else nearest[start:stop].astype(np.float64)
        return own if points.weights is None else own * points.weights[start:stop]

    blocks = even_ranges(points.n_rows, -(-points.n_rows // _BLOCK_ROWS))
    cumulative = np.cumsum([mass(*block).sum() for block in blocks])
    uniforms = generator.random(n_draws)
    if cumulative[-1] <= 0.0:
        return np.empty(0, dtype=np.int64)
    targets = uniforms * cumulative[-1]
    found = []
    for block, target in zip(_reached(cumulative, targets), targets, strict=True):
        before = cumulative[block - 1] if block else 0.0
        found.append(blocks[block][0] + _reached(np.cumsum(mass(*blocks[block])), target - before))
    return np.array(found, dtype=np.int64)


def _reached(cumulative: Float64Array, targets: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """The first places whose sum is above the targets.

    Rounding can leave a target at the total or above it, which the last place that has mass takes.
    """
    found = np.searchsorted(cumulative, targets, side="right")
    return np.minimum(found, np.searchsorted(cumulative, cumulative[-1], side="left"))


def _distances(cosines: FloatArray) -> FloatArray:
    """1 - cos, 0 for equal directions: rounding must not make a row seem apart from itself."""
    distances = 1.0 - cosines
    distances[distances < 8.0 * np.finfo(cosines.dtype).eps] = 0.0
    return distances


def _remaining(passes: Passes, candidates: npt.NDArray[np.int64], nearest: FloatArray) -> Float64Array:
    """What is left of the sum of `nearest` if each candidate were taken (n_candidates,)."""
    weights = passes.points.weights

    def left(cosines: FloatArray, part: slice) -> Float64Array:
        distances = np.minimum(_distances(cosines), nearest[part, None])
        if weights is None:
            return np.asarray(distances.sum(axis=0, dtype=np.float64))
        return np.asarray(weights[part] @ distances)

    rule = AffineRule.cosines(passes.points.rows(candidates))
    return np.sum(passes.map_scores(rule, left), axis=0)


def _take(passes: Passes, row: int, nearest: FloatArray) -> None:
    """Lower `nearest` to the distances from the row now taken."""

    def lower(cosines: FloatArray, part: slice) -> None:
        np.minimum(nearest[part], _distances(cosines)[:, 0], out=nearest[part])

    passes.map_scores(AffineRule.cosines(passes.points.rows([row])), lower)
