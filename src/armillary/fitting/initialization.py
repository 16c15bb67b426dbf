"""Where directions start.

k-means++ or k-means|| by angle, distinct rows at random, or directions given; and farthest-first.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.engines.contract import Passes
from armillary.engines.select import checked_points, open_passes
from armillary.exceptions import ParameterError
from armillary.geometry.sphere import angle
from armillary.rules import AffineRule
from armillary.validation import check_choice, unit_rows

# k-means||: rounds of draws, and draws of a round for each cluster (Bahmani et al. 2012 measure five and a half).
_ROUNDS, _DRAWS_PER_CLUSTER = 5, 0.5
# Up to so many clusters candidates are thinned by the greedy k-means++, which takes ten times as long as the plain one.
_GREEDY = 1024


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
        return random_rows(passes, n_clusters, generator)
    if init == "random_labels":
        return means_of_random_groups(passes, n_clusters, generator)
    if init == "k-means||":
        return in_rounds(passes, n_clusters, generator)
    return plus_plus(passes, n_clusters, generator)


def means_of_random_groups(passes: Passes, n_clusters: int, generator: np.random.Generator) -> Float64Array:
    """Directions (K, D) of the sums of rows labelled at random; of a random row where a group is empty or cancels."""
    labels = passes.random_labels(n_clusters, generator)
    spare = random_rows(passes, n_clusters, generator)
    return passes.sum(labels, n_clusters).directions(otherwise=spare)


def random_rows(passes: Passes, n_clusters: int, generator: np.random.Generator) -> Float64Array:
    """Distinct rows (K, D), each drawn with the probability of its weight."""
    return passes.unit_rows(passes.choose(n_clusters, generator))


def plus_plus(
    passes: Passes, n_clusters: int, generator: np.random.Generator, n_trials: int | None = None
) -> Float64Array:
    """k-means++ (Arthur and Vassilvitskii 2007) on the sphere, greedy: directions (K, D).

    |x - c|^2 = 2 (1 - x.c), so a row is drawn with probability proportional to its weight times 1 - cos to the
    nearest direction so far. The best of `n_trials` draws is kept (2 + floor(log K) by default), by the sum that
    remains.
    """
    n_trials = 2 + int(math.log(n_clusters)) if n_trials is None else n_trials
    nearest = passes.column(2.0)  # 1 - cos to the nearest direction
    chosen = nearest.pick(generator.random(1)).tolist()
    passes.lower(nearest, _cosines_with(passes, chosen))
    while len(chosen) < n_clusters:
        candidates = nearest.pick(generator.random(n_trials))
        if candidates.size == 0:  # every row sits on a chosen direction
            chosen.extend(passes.column(2.0).pick(generator.random(n_clusters - len(chosen))).tolist())
            break
        best = int(candidates[0])
        if len(candidates) > 1:
            best = int(candidates[int(np.argmin(passes.left(nearest, _cosines_with(passes, candidates))))])
        passes.lower(nearest, _cosines_with(passes, [best]))
        chosen.append(best)
    return passes.unit_rows(chosen)


def in_rounds(passes: Passes, n_clusters: int, generator: np.random.Generator) -> Float64Array:
    """k-means|| (Bahmani et al. 2012) on the sphere: directions (K, D) from a few passes, however large K is.

    A round draws K / 2 rows at once, each with the probability of its weight times 1 - cos to the nearest row drawn
    before (with replacement, where the paper tosses a coin for every row: the draws then are K / 2 numbers that no
    cut of the rows changes). Five rounds leave about 2.5 K candidates; each weighs what the rows nearest to it do, and
    k-means++ thins them to K. The cosines are float64 sums in column order and the masses are whole numbers, so picks
    are the same for every cut, format and engine.
    """
    nearest = passes.column(2.0, is_exact=True)
    chosen = nearest.pick(generator.random(1))
    passes.lower(nearest, _cosines_with(passes, chosen), is_exact=True)
    n_draws = max(2, math.ceil(_DRAWS_PER_CLUSTER * n_clusters))
    n_rounds = 0
    while n_rounds < _ROUNDS or len(chosen) < n_clusters:
        picked = np.setdiff1d(nearest.pick(generator.random(n_draws)), chosen)
        if picked.size == 0:  # every row sits on a candidate
            break
        passes.lower(nearest, _cosines_with(passes, picked), is_exact=True)
        chosen = np.concatenate([chosen, picked])
        n_rounds += 1
    if len(chosen) <= n_clusters:
        more = passes.column(2.0).pick(generator.random(n_clusters - len(chosen)))
        return passes.unit_rows(np.concatenate([chosen, more]))
    return _thinned(passes, passes.unit_rows(chosen), n_clusters, generator)


def _thinned(passes: Passes, candidates: Float64Array, n_clusters: int, generator: np.random.Generator) -> Float64Array:
    """K of the candidates (m, D), each of which stands for the rows nearest to it."""
    labels = passes.labels()
    passes.label(AffineRule.cosines(candidates), labels, sums=False)
    # counts of rows, or whole sums of their weights: neither depends on the cut
    weights: Any = labels.sizes(len(candidates))
    if passes.points.has_weights:
        weights = passes.sum(labels, len(candidates)).counts
    who = passes.points.who
    points = checked_points(candidates, who, weights.astype(np.float64))
    with open_passes(points, None, who) as own:
        return plus_plus(own, n_clusters, generator, None if n_clusters <= _GREEDY else 1)


def _cosines_with(passes: Passes, rows: npt.ArrayLike) -> AffineRule:
    return AffineRule.cosines(passes.unit_rows(rows))


def farthest_first(passes: Passes, n_picks: int, *, n_ignored: int = 0) -> tuple[npt.NDArray[np.int64], Float64Array]:
    """Rows (n_picks,) taken in turn, each the farthest from all that was taken before, and its angle then (n_picks,).

    The direction of the sum of all rows is there at the start (row 0 where they cancel); angles do not grow (Kulis and
    Jordan 2012; dp_vmf_means.md, 9). `n_ignored` rows that are farther still are passed over for each pick: outliers.
    One pass for each pick and one float64 for each row. The cosines are sums in column order, so the picks are the same
    for dense and CSR rows.
    """
    taken = np.empty((n_picks + 1, passes.points.n_features))
    taken[0] = passes.sum(None, 1).directions(otherwise=passes.unit_rows([0]))[0]
    nearest = passes.column(2.0, is_exact=True)  # 1 - cos to the nearest direction taken
    picks, angles = np.empty(n_picks, dtype=np.int64), np.empty(n_picks)
    for number in range(n_picks):
        passes.lower(nearest, AffineRule.cosines(taken[number : number + 1]), is_exact=True)
        picks[number] = nearest.farthest(n_ignored)
        taken[number + 1] = passes.unit_rows(picks[number : number + 1])[0]
        angles[number] = angle(taken[: number + 1], taken[number + 1]).min()
    return picks, angles
