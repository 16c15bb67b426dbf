"""Clusterings of a sample of rows from coarse to fine, how well each holds, and which of them is taken.

Candidates   communities of the graph of shared neighbours at several resolutions, each followed by a few steps of
             spherical k-means from the mean directions of the communities
Score        modularity x agreement for the sizes: how far rows keep their neighbours in their cluster, beyond chance,
             times how far the labels are those of models that were learned from each half of the rows, over the root of
             the highest modularity that clusters of these sizes can have
Ties         where the score is flat it is measured at half steps and with more cuts, and read together with that of
             the steps beside it; of those within one standard error of the best the coarsest is taken
Verdict      clear, where the share of the ceiling x agreement, less its standard error, is well above what rows without
             clusters (`fitting/nulls.py`) have there, and seldom exceed
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.draws import Stream
from armillary.engines.contract import Passes
from armillary.engines.select import open_passes
from armillary.fitting.communities import best_communities, modularity
from armillary.fitting.neighbours import Lists, NeighbourGraph, lists_within, nearest_rows, neighbour_graph
from armillary.fitting.nulls import rows_without_clusters
from armillary.fitting.partitions import adjusted_rand_of_codes
from armillary.models.means.spherical_kmeans import Lloyd, Parameters, SphericalKMeans, State, score_rule
from armillary.points import Points
from armillary.sums.directional import DirectionalStatistics

Labels = npt.NDArray[np.int32]

# Rows below which halves have no neighbours to speak of.
FEWEST_ROWS = 20
# Neighbours of a row. Clusters smaller than this are not seen: 10 finds persons with 10 pictures among 2,353 faces, and
# with 15 those are merged. Fewer where there are few rows: half the square root, 5 of 100.
_N_NEIGHBOURS = 10
_FEWEST_NEIGHBOURS = 3
# On a circle a gap of chance parts the rows on its two sides, which 30 neighbours reach over.
_N_NEIGHBOURS_ON_CIRCLE = 30
# A list has enough left when half of the rows are left out: of 26, fewer than 10 are left for 8 % of the rows, and
# fewer than 8 for 1 %.
_SPARE_NEIGHBOURS = 6
# Resolutions as powers of two. 4 clusters of 2,000 rows in three dimensions take 2^-7, 251 voices with 20 rows each 2^5
# and more.
_EXPONENTS = range(-10, 9)
# The sweep ends after so many steps with less than half of the best score: finer ones cost most, and with their number
# the score falls on.
_PATIENCE = 4
_HOPELESS = 0.5
# Where the score is within a tenth of its best, half steps are made too.
_FLAT = 0.9
# Steps of k-means before a candidate is scored; the chosen one is run to its end.
_N_STEPS = 5
# Times that the rows are cut in halves: at first, and where the score is flat.
_N_CUTS = 3
_MOST_CUTS = 6
# Draws of rows without clusters. Of many rows, whose draws differ less and cost more, one tells clear from unclear
# unless it comes between these. Where what is clear lies within so many standard errors of what they say, more are
# drawn: of five draws of 400 rows clarity scatters by 0.08, of twenty by 0.04.
_N_NULLS, _N_NULLS_OF_MANY = 5, 3
_MOST_NULLS, _MOST_NULLS_OF_MANY = 20, 6
_ONE_NULL_ROWS = 2_000
_UNDECIDED = (0.05, 0.5)
_SURE = 2.0
_NULL_STEPS = 6
# What chance is taken to reach at most: clusters of equal rows are clear, even where each is one word and rows without
# clusters fall into as few kinds.
_MOST_NULL = 0.9
# What it takes to be clear. Of 90 sets of 60 to 1,000 rows without clusters (even, one round or heavy-tailed cluster,
# long and flat ones, counts dealt out anew; 2 to 300 columns) the highest has 0.17 when clearness is read against the
# mean of the draws and one deviation; five unequal clusters in 16 columns, with an index of 0.98, have 0.5.
LEAST_CLARITY = 0.2


@dataclass(frozen=True, eq=False)
class Candidate:
    """A clustering of the rows that are compared."""

    resolution: float
    directions: Float64Array  # (K, D)
    labels: Labels  # (n,)
    modularity: float
    ceiling: float  # the highest modularity of clusters of these sizes
    agreements: tuple[float, ...]  # one for each cut in halves
    score: float  # `score_of`, its agreement read with those beside it where they are known
    error: float  # its standard error

    @property
    def n_clusters(self) -> int:
        """K."""
        return len(self.directions)

    @property
    def agreement(self) -> float:
        """Their mean."""
        return float(np.mean(self.agreements))

    @property
    def clearness(self) -> float:
        """The score as a share of the highest that clusters of these sizes can have: 1 where they lie apart."""
        return self._of_ceiling(self.score)

    @property
    def clearness_error(self) -> float:
        """Its standard error."""
        return self._of_ceiling(self.error)

    @property
    def sure_clearness(self) -> float:
        """The clearness less its standard error."""
        return max(0.0, self.clearness - self.clearness_error)

    def _of_ceiling(self, score: float) -> float:
        return score / math.sqrt(self.ceiling) if self.ceiling > 0.0 else 0.0


@dataclass(frozen=True)
class Null:
    """The clearness that rows without clusters seldom exceed: the mean of draws and one deviation."""

    level: float
    error: float  # its standard error

    @classmethod
    def of(cls, draws: list[float]) -> Null:
        """Of the clearness of each draw."""
        n_draws = len(draws)
        if n_draws < 2:
            return cls(float(np.mean(draws)), 0.0)
        deviation = float(np.std(draws, ddof=1))
        error = deviation * math.sqrt(1.0 / n_draws + 0.5 / (n_draws - 1))
        return cls(float(np.mean(draws)) + deviation, error)

    def may_decide(self, clearness: float, error: float = 0.0) -> bool:
        """Whether clusters of this clearness are clear or not by what is within chance."""
        room = _SURE * math.hypot(self.error, error)
        return clarity_of(clearness, self.level + room) < LEAST_CLARITY <= clarity_of(clearness, self.level - room)


NO_NULL = Null(0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Selection:
    """What was compared, what was taken and how clear it is."""

    candidates: list[Candidate]  # coarse to fine
    best: Candidate | None  # None: one cluster
    k_range: tuple[int, int]  # numbers of clusters that fit about as well
    null: Null

    @property
    def clarity(self) -> float:
        """How far beyond chance the clusters are clear, from 0 to 1."""
        return 0.0 if self.best is None else clarity_of(self.best.sure_clearness, self.null.level)

    @property
    def is_clear(self) -> bool:
        """Whether that is enough."""
        return self.clarity >= LEAST_CLARITY

    @property
    def is_close(self) -> bool:
        """Whether chance, of the halves or of the draws without clusters, may have decided that."""
        return self.best is not None and self.null.may_decide(self.best.sure_clearness, self.best.clearness_error)


def clarity_of(clearness: float, null: float) -> float:
    """(clearness - null) / sqrt(clearness (1 - null)), held to [0, 1].

    The share of the clearness that chance does not reach is large where both are nearly 0, the share of what chance
    leaves to be had is large where both are nearly 1; this is their geometric mean.
    """
    chance = min(null, _MOST_NULL)
    if clearness <= chance:
        return 0.0
    return min(1.0, (clearness - chance) / math.sqrt(clearness * (1.0 - chance)))


def score_of(modularity: float, ceiling: float, agreement: float) -> float:
    """modularity / sqrt(ceiling) x agreement: of modularity and its share of the ceiling the geometric mean.

    Clusters of 476 and 24 rows that lie apart have a modularity of 0.09 at most, and 20 pieces of them 0.9: by
    modularity alone pieces that halves hardly agree on were taken, with an adjusted Rand index of 0.01. By the share
    alone any few rows that lie apart would be all there is.
    """
    return max(0.0, modularity) * agreement / math.sqrt(ceiling) if ceiling > 0.0 else 0.0


Watch = Callable[[Candidate], None]


def most_steps() -> int:
    """How many candidates a comparison may look at; most have fewer."""
    return 2 * len(_EXPONENTS)


def compare_clusterings(
    passes: Passes,
    stream: Stream,
    n_threads: int | None = None,
    watch: Watch = lambda _: None,
    *,
    has_null: bool = True,
) -> Selection:
    """The clusterings of the rows, and the one to take; without a null nothing is said about how clear it is."""
    n_rows = passes.points.n_rows
    if n_rows < FEWEST_ROWS:
        return Selection([], None, (1, 1), NO_NULL)
    comparison = Comparison.of(passes, stream)
    found = _sweep(comparison, n_rows, watch)
    candidates = _read_together([found[exponent] for exponent in sorted(found)])
    best, k_range = taken(candidates)
    null = NO_NULL if best is None or not has_null else _null_of(passes, stream, best, n_threads)
    return Selection(candidates, best, k_range, null)


def n_neighbours_of(n_rows: int, n_features: int) -> int:
    """How many rows are the neighbours of one."""
    most = _N_NEIGHBOURS_ON_CIRCLE if n_features == 2 else _N_NEIGHBOURS
    return min(most, max(_FEWEST_NEIGHBOURS, math.isqrt(n_rows) // 2))


def taken(candidates: list[Candidate]) -> tuple[Candidate | None, tuple[int, int]]:
    """The coarsest within one standard error of the best score, and the numbers of clusters of all of those."""
    top = max(candidates, key=lambda one: (one.score, -one.n_clusters), default=None)
    if top is None or top.score <= 0.0:
        return None, (1, 1)
    alike = [one for one in candidates if one.score >= top.score - top.error]
    numbers = [one.n_clusters for one in alike]
    return min(alike, key=lambda one: (one.n_clusters, -one.score)), (min(numbers), max(numbers))


def _sweep(comparison: Comparison, n_rows: int, watch: Watch) -> dict[float, Candidate]:
    """Candidates by the exponents of their resolutions: whole steps, then half steps where the score is flat."""
    found: dict[float, Candidate] = {}
    for exponent in _until_hopeless(found):
        candidate = comparison.at(2.0**exponent, _N_CUTS)
        if candidate is None:
            continue
        if candidate.n_clusters * comparison.n_neighbours > n_rows:
            break
        found[exponent] = candidate
        watch(candidate)
    for exponent in _flat_steps(found):
        candidate = comparison.at(2.0**exponent, _MOST_CUTS)
        if candidate is not None and candidate.n_clusters * comparison.n_neighbours <= n_rows:
            found[exponent] = candidate
            watch(candidate)
    return found


def _until_hopeless(found: dict[float, Candidate]) -> Iterator[float]:
    """Whole steps, until several after the best have come to little."""
    for exponent in _EXPONENTS:
        yield float(exponent)
        top = max(found, key=lambda one: found[one].score, default=None)
        if top is None or exponent - top < _PATIENCE:
            continue
        late = [found[one].score for one in found if one > exponent - _PATIENCE]
        if late and max(late) < _HOPELESS * found[top].score:
            return


def _flat_steps(found: dict[float, Candidate]) -> list[float]:
    """Steps to look at closely: those near the best score, and half a step to either side of each."""
    top = max((one.score for one in found.values()), default=0.0)
    if top <= 0.0:
        return []
    near = [exponent for exponent, one in found.items() if one.score >= _FLAT * top]
    return sorted({exponent + shift for exponent in near for shift in (-0.5, 0.0, 0.5)})


def _read_together(candidates: list[Candidate]) -> list[Candidate]:
    """Scores whose agreement is the mean with those half a step to either side, which count half as much."""
    smooth = []
    for one in candidates:
        beside = [other for other in candidates if abs(math.log2(other.resolution / one.resolution)) < 0.75]
        weights = np.array([2.0 if other is one else 1.0 for other in beside])
        weights /= weights.sum()
        agreement = float(weights @ [other.agreement for other in beside])
        variance = float(weights**2 @ [_variance(other.agreements) for other in beside])
        score = score_of(one.modularity, one.ceiling, agreement)
        error = score_of(one.modularity, one.ceiling, math.sqrt(variance))
        smooth.append(replace(one, score=score, error=error))
    return smooth


def _variance(values: Iterable[float]) -> float:
    """Of the mean of the values."""
    known = np.asarray(list(values))
    return float(known.var(ddof=1) / len(known))


def _null_of(passes: Passes, stream: Stream, best: Candidate, n_threads: int | None) -> Null:
    """What rows without clusters reach at a resolution or half a step beside it.

    Where they are one cluster there, it is the first finer resolution at which they are not.
    """
    points = cast(Points, passes.points)

    def drawn(number: int) -> float:
        rows = rows_without_clusters(points, stream.generator("null", number))
        return _null_draw(rows, stream, best.resolution, n_threads)

    found = [drawn(0)]
    is_few = points.n_rows <= _ONE_NULL_ROWS
    low, high = _UNDECIDED
    if is_few or low < clarity_of(best.sure_clearness, found[0]) < high:
        found += [drawn(number) for number in range(1, _N_NULLS if is_few else _N_NULLS_OF_MANY)]
    most = _MOST_NULLS if is_few else _MOST_NULLS_OF_MANY
    while len(found) < most and Null.of(found).may_decide(best.sure_clearness):
        found.append(drawn(len(found)))
    return Null.of(found)


def _null_draw(points: Points, stream: Stream, resolution: float, n_threads: int | None) -> float:
    if points.n_rows < FEWEST_ROWS:
        return 0.0
    with open_passes(points, n_threads, points.who) as others:
        comparison = Comparison.of(others, stream)
        for step in range(_NULL_STEPS):
            found = [comparison.at(resolution * 2.0 ** (step + shift), _N_CUTS) for shift in (-0.5, 0.0, 0.5)]
            if any(found):
                return max(one.clearness for one in found if one is not None)
    return 0.0


class Comparison:
    """Clusterings of the same rows at any resolution, each beside those of the same halves."""

    def __init__(self, passes: Passes, stream: Stream, lists: Lists, n_neighbours: int) -> None:
        self.n_neighbours = n_neighbours
        self._passes = passes
        self._stream = stream
        self._lists = lists
        self._graph = neighbour_graph(lists, n_neighbours)
        self._halves: list[tuple[npt.NDArray[np.int64], NeighbourGraph]] = []
        self._known: dict[tuple[float, int], float] = {}  # agreement by resolution and cut

    @classmethod
    def of(cls, passes: Passes, stream: Stream) -> Comparison:
        """Of the rows with their nearest ones."""
        n_rows = passes.points.n_rows
        n_neighbours = n_neighbours_of(n_rows, passes.points.n_features)
        lists = nearest_rows(passes, min(2 * n_neighbours + _SPARE_NEIGHBOURS, n_rows - 1))
        return cls(passes, stream, lists, n_neighbours)

    def at(self, resolution: float, n_cuts: int) -> Candidate | None:
        """The clustering at a resolution, scored; None where there is one cluster."""
        directions = self._start(None, self._graph, resolution)
        if len(directions) < 2:
            return None
        state, labels = self._settle(directions)
        counts = np.bincount(labels, minlength=len(state.directions))
        if np.count_nonzero(counts) < 2:
            return None
        agreements = tuple(self._agreement(labels, resolution, cut) for cut in range(n_cuts))
        kept_together = modularity(self._graph.links, labels)
        names = np.cumsum(counts > 0) - 1
        ceiling = 1.0 - float(np.sum((counts / len(labels)) ** 2))
        return Candidate(
            resolution,
            state.directions[counts > 0],
            names[labels].astype(np.int32),
            kept_together,
            ceiling,
            agreements,
            score_of(kept_together, ceiling, float(np.mean(agreements))),
            0.0,
        )

    def _agreement(self, labels: Labels, resolution: float, cut: int) -> float:
        """How far the labels and those of two halves are the same."""
        if (resolution, cut) not in self._known:
            first, second = (self._labels(self._start(*half, resolution)) for half in self._cut(cut))
            pairs = ((labels, first), (labels, second), (first, second))
            self._known[resolution, cut] = min(agreement(*pair) for pair in pairs)
        return self._known[resolution, cut]

    def _cut(self, cut: int) -> list[tuple[npt.NDArray[np.int64], NeighbourGraph]]:
        """The two halves of a cut, made when first asked for."""
        while len(self._halves) < 2 * (cut + 1):
            drawn = self._stream.generator("halves", len(self._halves) // 2).permutation(len(self._lists))
            for half in np.array_split(drawn, 2):
                rows = np.sort(half)
                self._halves.append((rows, neighbour_graph(lists_within(self._lists, rows), self.n_neighbours)))
        return self._halves[2 * cut : 2 * cut + 2]

    def _start(self, rows: npt.NDArray[np.int64] | None, graph: NeighbourGraph, resolution: float) -> Float64Array:
        """Mean directions (K, D) of the communities of all rows, or of some."""
        found = best_communities(graph.weights, resolution, self._stream.generator("communities"))
        labels = found
        if rows is not None:
            labels = np.full(self._passes.points.n_rows, -1, dtype=np.int32)
            labels[rows] = found
        sums = self._passes.sum(self._passes.labels_from(labels), int(found.max()) + 1)
        directions = sums.directions(otherwise=np.zeros_like(sums.resultants))
        return directions[directions.any(axis=1)]  # without those whose rows cancel

    def _settle(self, directions: Float64Array) -> tuple[State, Labels]:
        """A few steps of spherical k-means."""
        points = self._passes.points
        given = SphericalKMeans(len(directions), init=directions, empty_clusters="keep").get_params()
        state = State(directions, DirectionalStatistics.zero(*directions.shape))
        chain = Lloyd(self._passes, state, Parameters.check(given, points, "SphericalKMeans"))
        for _ in range(_N_STEPS):
            if chain.step()[1]:
                break
        chain.settle()
        return chain.state, chain.assignment.labels.to_host()

    def _labels(self, directions: Float64Array) -> Labels:
        """The nearest direction of each row."""
        labels = self._passes.labels()
        rule = score_rule(State(directions, DirectionalStatistics.zero(*directions.shape)))
        self._passes.label(rule, labels, sums=False)
        return labels.to_host()


def agreement(first: Labels, second: Labels) -> float:
    """The adjusted Rand index of two labellings, not below 0."""
    return max(0.0, adjusted_rand_of_codes(first, second))
