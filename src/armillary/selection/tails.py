"""How far the rows of each cluster lie from its direction, and how far is too far.

    distance    1 - cosine with the own direction, as `predict` would tell it had the row not been there: with the sum R
                of the rows of a cluster, c = x . R / |R| becomes x . (R - x) / |R - x|, and where another direction is
                nearer then, the row is one of that cluster. New rows have such distances, so what holds for these holds
                for them
    law         distances of a cluster follow a gamma law. Those of a von Mises-Fisher cluster do, with shape
                (D - 1) / 2 and scale 1 / kappa; real clusters lie in fewer dimensions, so both are read from the rows
    rate        the law of the other rows gives each row a tail: the share of the cluster that would lie farther. The
                limit is the tail that a share `rate` of the rows is below: for each cluster by its own rows where they
                are many, else by those of all small ones together
    strangers   rows that belong nowhere are in some cluster too, and must not raise its limit. Each cluster is taken
                for a mixture of its own law and that of even rows in its part of the sphere; rows count as far as they
                belong. A heavy tail is no stranger: it has few rows where most of the even ones are, and clusters with
                such a tail explain it as well. Strangers that are not even are told where they lie beyond nearly all
                rows that belong

Valleys in histograms of distances were tried in the place of mixtures: where clusters are wide there is none, and of 60
sets without strangers several had one by chance, so that up to 5 % of the rows kept apart were called outliers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from armillary._typing import Float64Array
from armillary.engines.contract import Here

# The share of rows that belong and are called outliers all the same.
FALSE_ALARMS = 0.01
# A cluster of its own has at least so many rows beyond its limit.
_LEAST_BEYOND = 10
# Rows of other clusters that say as much about the variance of one as its own do.
_PRIOR = 8.0
_LEAST_SHAPE, _MOST_SHAPE = 0.5, 1e6
# Even rows that are drawn, and how many at a time.
_N_EVEN = 10_000
_BLOCK_VALUES = 1 << 20
# Strangers are looked for at first as so large a share, at most so many times, and believed between these limits.
_FIRST_SHARE, _FIRST_SPREAD = 0.05, 0.1
_MOST_ROUNDS = 40
# They are learned from so many rows at most, and then read for all.
_MOST_MIXED = 20_000
_FEWEST_STRANGERS = 8
_LEAST_STRANGERS, _MOST_STRANGERS = 0.02, 0.35
# The more of the sphere clusters cover, the less what lies between them is a sign of strangers: they must be more by
# this part of it, and beyond so much of it none are told.
_FOR_COVERED, _MOST_COVERED, _MOST_COVERED_BY_LEARNED = 0.05, 0.7, 0.2
# Each quarter must have this part of the strangers that are expected there, but for so many deviations of a count.
_N_PARTS = 4
_CONSISTENT, _DEVIATIONS = 0.5, 1.5
_QUARTILE = 0.6745
# Tails of clusters that are heavier than a gamma law: told by so many rows, among these rates, and at most so heavy.
_FEWEST_IN_TAIL = 20
_TAIL_RATES = np.geomspace(0.02, 5.0, 16)
_HEAVIEST = 0.25
_MOST_LOG_TAIL = 700.0
_MEDIAN_DEPTH = float(np.log(2.0))
# Strangers must make the distances likelier than clusters with heavy tails do alone, by so much of log likelihood. Of
# 40 sets of 300 rows in 3 columns with t noise and no strangers, gamma tails alone told some in 24, these in 8.
_LEAST_GAIN = 15.0
# How much heavy tails say of who belongs, beside gamma tails.
_FOR_HEAVY = 0.75


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """Rows that have nothing to do with the clusters: the cluster that each (m,) is nearest to, and how far it is."""

    labels: npt.NDArray[np.int64]
    distances: Float64Array

    @classmethod
    def evenly(cls, directions: Float64Array, generator: np.random.Generator) -> Elsewhere:
        """Even rows on the sphere, beside directions (K, D)."""
        n_features = directions.shape[1]
        step = max(1, _BLOCK_VALUES // n_features)
        labels, distances = [], []
        for first in range(0, _N_EVEN, step):
            rows = generator.standard_normal((min(step, _N_EVEN - first), n_features))
            cosines = rows @ directions.T / np.linalg.norm(rows, axis=1, keepdims=True)
            labels.append(np.argmax(cosines, axis=1))
            distances.append(1.0 - cosines.max(axis=1))
        return cls(np.concatenate(labels), np.clip(np.concatenate(distances), 0.0, 2.0))


class RunnerUp:
    """The nearest direction but the own one, and the cosine with it: (m, 2) from the cosines of m rows."""

    def of(self, scores: Float64Array, here: Here) -> Float64Array:
        """See `RowFunction`."""
        others = scores.copy()
        assert here.labels is not None
        others[np.arange(len(others)), here.labels] = -np.inf
        second = np.argmax(others, axis=1)
        return np.stack([second, others[np.arange(len(others)), second]], axis=1)


@dataclass(frozen=True, eq=False)
class Apart:
    """What `predict` would tell of each row (n,), had it not been there."""

    labels: npt.NDArray[np.int64]
    distances: Float64Array

    @classmethod
    def told(cls, labels: npt.NDArray[np.integer], distances: Float64Array, runners_up: Float64Array) -> Apart:
        """From the distances without the row and what `RunnerUp` finds: rows that held on by themselves let go."""
        other = np.clip(1.0 - runners_up[:, 1], 0.0, 2.0)
        changes = other < distances
        return cls(np.where(changes, runners_up[:, 0].astype(np.int64), labels), np.where(changes, other, distances))


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
    labels: npt.NDArray[np.integer],
    distances: Float64Array,
    n_clusters: int,
    rate: float = FALSE_ALARMS,
    elsewhere: Elsewhere | None = None,
) -> Tails:
    """Laws and limits from distances (n,) of rows with these labels, told as if each had not been there.

    Strangers among them count for no limit.
    """
    belongs = shares_that_belong(labels, distances, n_clusters, elsewhere)
    shapes, scales, tails = _laws(labels, distances, belongs, n_clusters)
    counts = np.bincount(labels, belongs, n_clusters)
    is_large = counts >= _LEAST_BEYOND / rate
    level = np.full(n_clusters, _level(tails[~is_large[labels]], belongs[~is_large[labels]], rate))
    members = _members(labels, n_clusters)
    for cluster in np.flatnonzero(is_large):
        level[cluster] = _level(tails[members[cluster]], belongs[members[cluster]], rate)
    limits = [_distance_at(*one) for one in zip(level, shapes, scales, strict=True)]
    return Tails(shapes, scales, np.array(limits))


def shares_that_belong(
    labels: npt.NDArray[np.integer], distances: Float64Array, n_clusters: int, elsewhere: Elsewhere | None
) -> Float64Array:
    """How probably each row (n,) is of its cluster and no stranger; 1 for all where nothing speaks for strangers.

    Each cluster is a mixture of two gamma laws of distances: its own, and that of strangers. Strangers may lie as even
    rows do, which law is known. Or they are one more hill of distances for all clusters together, which law is learned.
    """
    few = _spread(labels)
    found = _strangers(labels[few], distances[few], n_clusters, elsewhere)
    if found is None:
        return np.ones(len(labels))
    return found.belongs if len(few) == len(labels) else found.shares(labels, distances)


def _spread(labels: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """All rows, or as many as mixtures are learned from, of each cluster alike."""
    step = -(-len(labels) // _MOST_MIXED)
    return np.arange(len(labels)) if step == 1 else np.sort(np.argsort(labels, kind="stable")[::step])


def _strangers(
    labels: npt.NDArray[np.integer], distances: Float64Array, n_clusters: int, elsewhere: Elsewhere | None
) -> _Both | None:
    """The mixture to believe, if any."""
    if elsewhere is not None:
        far = _Far(
            _laws(elsewhere.labels, elsewhere.distances, np.ones(len(elsewhere.labels)), n_clusters)[:2],
            _added(elsewhere.labels, np.ones(len(elsewhere.labels)), n_clusters) + 0.5,
        )
        found = _seen_mixture(labels, distances, n_clusters, far, is_learned=False)
        if found is not None and _is_like(elsewhere, found.heavy, labels, distances):
            return found
    sizes = _added(labels, np.ones(len(labels)), n_clusters) + 0.5
    far = _Far(_alike(float(np.quantile(distances, 1.0 - _FIRST_SHARE)), _FIRST_SPREAD, n_clusters), sizes)
    return _seen_mixture(labels, distances, n_clusters, far, is_learned=True)


@dataclass(frozen=True, eq=False)
class _Far:
    """How far strangers lie from the cluster that they are nearest to, and how many are."""

    laws: tuple[Float64Array, Float64Array]  # shapes and scales (K,)
    sizes: Float64Array  # (K,), up to a factor

    @property
    def log_shares(self) -> Float64Array:
        """Of each cluster (K,)."""
        return np.asarray(np.log(self.sizes / self.sizes.sum()))

    def covered(self, laws: tuple[Float64Array, Float64Array]) -> float:
        """The share of strangers that lie within the limits of clusters with these laws."""
        limits = stats.gamma.isf(FALSE_ALARMS, laws[0], scale=laws[1])
        return float(stats.gamma.cdf(limits, self.laws[0], scale=self.laws[1]) @ self.sizes / self.sizes.sum())

    def log_densities(self, labels: npt.NDArray[np.integer], distances: Float64Array) -> Float64Array:
        """Of strangers, (n,)."""
        return self.log_shares[labels] + _log_densities(distances, labels, *self.laws)


@dataclass(frozen=True, eq=False)
class _Own:
    """The rows of clusters: gamma laws, or such with a heavier tail.

    By a gamma law z = -log(tail) of the rows of a cluster is exponential. A heavy tail follows a generalized Pareto law
    beyond the median z, one for all clusters.
    """

    laws: tuple[Float64Array, Float64Array]  # shapes and scales (K,)
    log_sizes: Float64Array  # (K,): of shares of all rows that belong
    beyond: float = 0.5  # the share of rows beyond the median z
    heaviness: float = 0.0
    scale: float = 1.0

    @classmethod
    def near(cls, labels: npt.NDArray[np.integer], distances: Float64Array, n_clusters: int) -> _Own:
        """By the near half of the rows."""
        sizes = _added(labels, np.ones(len(labels)), n_clusters) + 1e-9
        return cls(_near_laws(labels, distances, n_clusters), np.log(sizes / sizes.sum()))

    @classmethod
    def learned(
        cls,
        labels: npt.NDArray[np.integer],
        distances: Float64Array,
        belongs: Float64Array,
        n_clusters: int,
        is_heavy: bool,
    ) -> tuple[_Own, Float64Array]:
        """By rows that count as far as they belong; and the log densities of these rows (n,)."""
        shapes, scales, tails = _laws(labels, distances, belongs, n_clusters)
        sizes = np.bincount(labels, belongs, n_clusters) + 1e-9
        own = cls((shapes, scales), np.log(sizes / sizes.sum()))
        depths = np.minimum(-tails, _MOST_LOG_TAIL)
        if is_heavy:
            own = own._with_tail(depths, belongs)
        return own, own._log_densities(labels, distances, depths)

    def log_densities(self, labels: npt.NDArray[np.integer], distances: Float64Array) -> Float64Array:
        """Of rows of the clusters, (n,)."""
        depths = np.zeros(len(labels))
        if self.heaviness > 0.0 or self.scale != 1.0:
            depths = np.minimum(-_log_tails(distances, *self.laws, labels), _MOST_LOG_TAIL)
        return self._log_densities(labels, distances, depths)

    def _log_densities(
        self, labels: npt.NDArray[np.integer], distances: Float64Array, depths: Float64Array
    ) -> Float64Array:
        plain = self.log_sizes[labels] + _log_densities(distances, labels, *self.laws)
        if self.heaviness == 0.0 and self.scale == 1.0:
            return np.asarray(plain)
        return np.asarray(plain + self._log_ratio(depths))

    def _log_ratio(self, depths: Float64Array) -> Float64Array:
        """The log ratio (n,) of the heavy law of z to the exponential one."""
        ratio = np.full(len(depths), np.log(2.0 * max(1.0 - self.beyond, 1e-9)))
        is_far = depths > _MEDIAN_DEPTH
        past = (depths[is_far] - _MEDIAN_DEPTH) / self.scale
        fall = past if self.heaviness == 0.0 else (1.0 / self.heaviness + 1.0) * np.log1p(self.heaviness * past)
        ratio[is_far] = np.log(self.beyond / self.scale) - fall + depths[is_far]
        return ratio

    def _with_tail(self, depths: Float64Array, belongs: Float64Array) -> _Own:
        """With the likeliest Pareto law of the rows beyond the median; without one where these are few."""
        is_far = depths > _MEDIAN_DEPTH
        weights, past = belongs[is_far], depths[is_far] - _MEDIAN_DEPTH
        total = float(weights.sum())
        if total < _FEWEST_IN_TAIL:
            return self
        mean = float(weights @ past) / total
        heaviness, scale, best = 0.0, mean, -np.log(mean) - 1.0
        for rate in _TAIL_RATES / mean:  # of (1 + rate z)^(-1 / heaviness - 1), each with its likeliest heaviness
            tried = float(weights @ np.log1p(rate * past)) / total
            likelihood = -np.log(tried / rate) - 1.0 - tried
            if tried <= _HEAVIEST and likelihood > best:
                heaviness, scale, best = tried, tried / rate, likelihood
        return replace(self, beyond=total / float(belongs.sum()), heaviness=heaviness, scale=scale)


@dataclass(frozen=True, eq=False)
class _Mixture:
    """Clusters with strangers among their rows."""

    belongs: Float64Array  # (n,)
    own: _Own
    far: _Far
    share: float  # of strangers
    log_likelihood: float

    @property
    def n_strangers(self) -> float:
        """How many rows."""
        return float(np.sum(1.0 - self.belongs))

    def shares(self, labels: npt.NDArray[np.integer], distances: Float64Array) -> Float64Array:
        """How probably each of other rows (n,) is of its cluster."""
        log_odds = self.own.log_densities(labels, distances) - self.far.log_densities(labels, distances)
        return np.asarray(special.expit(np.log1p(-self.share) - np.log(self.share) + log_odds))


@dataclass(frozen=True, eq=False)
class _Both:
    """A mixture with gamma tails, which takes some rows of clusters for strangers, and one with heavy tails.

    The latter takes some strangers in. A geometric mean is between: what is surely strange for one is strange.
    """

    plain: _Mixture
    heavy: _Mixture

    @property
    def belongs(self) -> Float64Array:
        """How probably each row (n,) is of its cluster."""
        return _between(self.plain.belongs, self.heavy.belongs)

    def shares(self, labels: npt.NDArray[np.integer], distances: Float64Array) -> Float64Array:
        """The same for other rows."""
        return _between(self.plain.shares(labels, distances), self.heavy.shares(labels, distances))


def _between(plain: Float64Array, heavy: Float64Array) -> Float64Array:
    return np.asarray(plain ** (1.0 - _FOR_HEAVY) * heavy**_FOR_HEAVY)


def _seen_mixture(
    labels: npt.NDArray[np.integer], distances: Float64Array, n_clusters: int, far: _Far, *, is_learned: bool
) -> _Both | None:
    """Clusters with strangers among their rows; None where these are not to be believed.

    Beside clusters that may have heavy tails, strangers must still have something to explain.
    """
    heavy = _mixture(labels, distances, n_clusters, far, is_heavy=True, is_learned=is_learned)
    share, covered = heavy.n_strangers / len(labels), heavy.far.covered(heavy.own.laws)
    most_covered = _MOST_COVERED if not is_learned else _MOST_COVERED_BY_LEARNED
    is_enough = heavy.n_strangers >= _FEWEST_STRANGERS and share >= _LEAST_STRANGERS + _FOR_COVERED * covered
    if not is_enough or share > _MOST_STRANGERS or covered > most_covered:
        return None
    alone = float(_Own.learned(labels, distances, np.ones(len(labels)), n_clusters, is_heavy=True)[1].sum())
    if heavy.log_likelihood < alone + _LEAST_GAIN:
        return None
    return _Both(_mixture(labels, distances, n_clusters, far, is_heavy=False, is_learned=is_learned), heavy)


def _mixture(
    labels: npt.NDArray[np.integer],
    distances: Float64Array,
    n_clusters: int,
    far: _Far,
    *,
    is_heavy: bool,
    is_learned: bool,
) -> _Mixture:
    """The mixture of most likelihood near clusters that are as narrow as their near halves."""
    share = _FIRST_SHARE
    own = _Own.near(labels, distances, n_clusters)
    log_own = own.log_densities(labels, distances)
    for _ in range(_MOST_ROUNDS):
        log_far = far.log_densities(labels, distances)
        belongs = np.asarray(special.expit(np.log1p(-share) - np.log(share) + log_own - log_far))
        before, share = share, float(np.clip(1.0 - belongs.mean(), 1e-9, 0.999))
        own, log_own = _Own.learned(labels, distances, belongs, n_clusters, is_heavy)
        if share < 1e-6 or abs(share - before) < 1e-4 * share:
            break
        if is_learned:
            middle = float(np.average(distances, weights=1.0 - belongs))
            variance = float(np.average((distances - middle) ** 2, weights=1.0 - belongs))
            far = _Far(_alike(middle, max(np.sqrt(variance) / max(middle, 1e-12), 1e-3), n_clusters), far.sizes)
    log_far = far.log_densities(labels, distances)
    likelihood = float(np.logaddexp(np.log1p(-share) + log_own, np.log(share) + log_far).sum())
    return _Mixture(belongs, own, far, share, likelihood)


def _alike(middle: float, spread: float, n_clusters: int) -> tuple[Float64Array, Float64Array]:
    """One gamma law for all clusters: its mean, and its deviation as a part of that."""
    shape = float(np.clip(spread**-2, _LEAST_SHAPE, _MOST_SHAPE))
    return np.full(n_clusters, shape), np.full(n_clusters, max(middle, 1e-12) / shape)


def _is_like(elsewhere: Elsewhere, found: _Mixture, labels: npt.NDArray[np.integer], distances: Float64Array) -> bool:
    """Whether rows are there in each quarter of how far out rows from elsewhere lie.

    A heavy tail looks like strangers to a mixture, but has few rows where most of these are.
    """
    far = _log_tails(elsewhere.distances, *found.own.laws, elsewhere.labels)
    own = _log_tails(distances, *found.own.laws, labels)
    for ours, theirs in ((-own, -far), (distances, elsewhere.distances)):
        edges = np.quantile(theirs, np.arange(1, _N_PARTS) / _N_PARTS)
        there = np.bincount(np.searchsorted(edges, ours), minlength=_N_PARTS)
        shares = np.bincount(np.searchsorted(edges, theirs), minlength=_N_PARTS) / len(theirs)
        if np.any(there + _DEVIATIONS * np.sqrt(there) < _CONSISTENT * shares * found.n_strangers):
            return False
    return True


def _near_laws(
    labels: npt.NDArray[np.integer], distances: Float64Array, n_clusters: int
) -> tuple[Float64Array, Float64Array]:
    """Gamma laws (K,) by the near half of the rows, which strangers are seldom in."""
    ratios: list[float] = []
    sizes: list[int] = []
    middles = np.full(n_clusters, np.median(distances))
    for cluster, rows in enumerate(_members(labels, n_clusters)):
        if len(rows):
            near, middles[cluster] = np.quantile(distances[rows], [0.25, 0.5])
            ratios.append(float(middles[cluster] - near) / max(middles[cluster], 1e-12) / _QUARTILE)
            sizes.append(len(rows))
    relative = max(float(np.average(ratios, weights=sizes)), 1e-6)
    shapes = np.full(n_clusters, np.clip(relative**-2, _LEAST_SHAPE, _MOST_SHAPE))
    return shapes, np.maximum(middles, 1e-12) / shapes


def _log_densities(
    distances: Float64Array, labels: npt.NDArray[np.integer], shapes: Float64Array, scales: Float64Array
) -> Float64Array:
    """Of gamma laws, at each distance (n,)."""
    constant = -special.gammaln(shapes) - shapes * np.log(scales)
    near = np.maximum(distances, 1e-12)
    return np.asarray(constant[labels] + (shapes[labels] - 1.0) * np.log(near) - near / scales[labels])


def _level(tails: Float64Array, belongs: Float64Array, rate: float) -> float:
    """The log tail that a share `rate` of new rows is below, by rows that count as far as they belong."""
    order = np.argsort(tails)
    target = rate * (belongs.sum() + 1.0)
    if target < 1.0:  # too few rows to say more than the law does
        return float(min(np.log(rate), tails.min(initial=0.0)))
    place = int(np.searchsorted(np.cumsum(belongs[order]), target * (1.0 + 1e-12), side="right"))
    return float(tails[order[max(0, place - 1)]])


def _laws(
    labels: npt.NDArray[np.integer], distances: Float64Array, belongs: Float64Array, n_clusters: int
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Shapes and scales (K,), and the log tail of each row (n,) by the law of the other rows that belong.

    Clusters differ in how far their rows lie; one with few rows says little about it, so it is told halfway by all of
    them: means are drawn to that of all clusters by as much as they scatter by chance, variances by `_PRIOR` rows.
    """
    own, squares = belongs * distances, belongs * distances**2
    counts = _added(labels, belongs, n_clusters)
    sums = _added(labels, own, n_clusters), _added(labels, squares, n_clusters)
    is_known = counts > 1
    if not is_known.any():
        shapes, scales = np.ones(n_clusters), np.full(n_clusters, 0.5)
        return shapes, scales, _log_tails(distances, shapes, scales, labels)
    within = counts - 1.0
    mean = sums[0] / np.maximum(counts, 1.0)
    scatter = np.maximum(sums[1] - counts * mean**2, 0.0)
    middle = float(np.average(mean[is_known], weights=counts[is_known]))
    relative = float(scatter[is_known].sum() / np.maximum((within * mean**2)[is_known].sum(), 1e-300))
    chance = relative * middle**2 / np.maximum(counts, 1.0)
    between = max(0.0, float(np.mean((mean - middle)[is_known] ** 2 - chance[is_known])))
    shared = _Shared(middle, relative, between)
    shapes, scales = _law(counts, *sums, shared)
    others = (counts[labels] - belongs, sums[0][labels] - own, sums[1][labels] - squares)
    return shapes, scales, _log_tails(distances, *_law(*others, shared))


@dataclass(frozen=True)
class _Shared:
    """What all clusters have: their mean distance, its variance within as a share of the square, and that between."""

    middle: float
    relative: float
    between: float


def _added(labels: npt.NDArray[np.integer], values: Float64Array, n_clusters: int) -> Float64Array:
    """The sum of the values in each cluster (K,)."""
    return np.asarray(np.bincount(labels, values, n_clusters), dtype=np.float64)


def _law(
    counts: Float64Array, sums: Float64Array, squares: Float64Array, shared: _Shared
) -> tuple[Float64Array, Float64Array]:
    """Shapes and scales of gamma laws from the numbers of rows, and sums of their distances and squares."""
    chance = shared.relative * shared.middle**2
    held = shared.between * counts / np.maximum(shared.between * counts + chance, 1e-300)
    own = sums / np.maximum(counts, 1.0)
    mean = np.maximum(held * own + (1.0 - held) * shared.middle, 1e-12)
    scatter = np.maximum(squares - counts * own**2, 0.0)
    variance = (scatter + _PRIOR * shared.relative * mean**2) / np.maximum(counts - 1.0 + _PRIOR, 1.0)
    shapes = np.clip(mean**2 / np.maximum(variance, 1e-300), _LEAST_SHAPE, _MOST_SHAPE)
    return shapes, mean / shapes


def _log_tails(
    distances: Float64Array, shapes: Float64Array, scales: Float64Array, labels: npt.NDArray[np.integer] | None = None
) -> Float64Array:
    if labels is not None:
        shapes, scales = shapes[labels], scales[labels]
    return np.asarray(stats.gamma.logsf(distances, shapes, scale=scales))


def _members(labels: npt.NDArray[np.integer], n_clusters: int) -> list[npt.NDArray[np.int64]]:
    """The rows of each cluster."""
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[order], np.arange(n_clusters + 1))
    return [order[start:stop] for start, stop in pairwise(edges)]


def gamma_law(distances: Float64Array) -> tuple[float, float]:
    """Shape and scale of a gamma law with the mean and variance of the distances."""
    mean = float(distances.mean())
    variance = float(distances.var())
    if mean <= 0.0 or variance <= 0.0:
        return 1.0, max(mean, 1e-12)
    shape = float(np.clip(mean**2 / variance, _LEAST_SHAPE, _MOST_SHAPE))
    return shape, mean / shape


def _distance_at(log_tail: float, shape: float, scale: float) -> float:
    """The distance beyond which the law has this tail."""
    tail = np.exp(max(log_tail, -700.0))
    return float(min(2.0, stats.gamma.isf(tail, shape, scale=scale)))
