"""The model that needs no parameter: spherical k-means whose number of clusters and start are found from the rows.

Candidates   communities of the graph of shared neighbours at several resolutions, each followed by a few steps of
             spherical k-means from the mean directions of the communities
Score        modularity x agreement: how far rows keep their neighbours in their cluster, beyond chance, times how far
             the labels are those of models that were learned from each half of the rows
Verdict      one cluster where no candidate has a higher agreement than rows without clusters reach
Row order    matters to which rows are drawn for the comparison and its halves, and to ties

Why not the silhouette: of k-means on sentences and documents (Banking77, BBC, CNAE-9, k1a) it grows with the number of
clusters to the end of a grid up to 400, and modularity alone takes 20 clusters for the 4 subjects of AG News. Why not
k-means++: told the number, it cuts the large clusters of faces (10 to 530 rows) and merges the small ones, with an
adjusted Rand index of 0.4; from communities it has 0.99. `benchmarks/defaults.py` measures what comes out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.metrics import adjusted_rand_score

from armillary._typing import ArrayLike, Float64Array, RandomState
from armillary.fitting.communities import find_communities, modularity
from armillary.fitting.events import Emitter
from armillary.fitting.neighbours import Lists, NeighbourGraph, lists_within, nearest_rows, neighbour_graph
from armillary.fitting.passes import Labels, Passes
from armillary.models._estimator import all_observers, open_passes
from armillary.models.spherical_kmeans import Lloyd, Parameters, SphericalKMeans, State, score_rule
from armillary.points import Points, as_points
from armillary.random import Stream
from armillary.statistics.directional import DirectionalStatistics
from armillary.validation import check_integer

# Rows that are compared at most: lists of neighbours cost n^2 D. 10,000 x 384 take two seconds of one core.
_MOST_ROWS = 10_000
# Rows below which halves have no neighbours to speak of.
_FEWEST_ROWS = 20
# Neighbours of a row. Clusters smaller than this are not seen: 10 finds persons with 10 pictures among 2,353 faces, and
# with 15 those are merged. Fewer where there are few rows: half the square root, 5 of 100.
_N_NEIGHBOURS = 10
_FEWEST_NEIGHBOURS = 3
# On a circle a gap of chance parts the rows on its two sides, which 30 neighbours reach over.
_N_NEIGHBOURS_ON_CIRCLE = 30
# A list has enough left when half of the rows are left out: of 26, fewer than 10 are left for 8 % of the rows, and
# fewer than 8 for 1 %.
_SPARE_NEIGHBOURS = 6
# Resolutions, a factor of two apart, and then half a step to either side of the best: 4 clusters of 2,000 rows in three
# dimensions take 2^-7, 251 voices with 20 rows each 2^5 and more.
_LOG_RESOLUTIONS = range(-10, 9)
_HALF_STEPS = (-0.5, 0.5)
# Steps of k-means before a candidate is scored; the chosen one is run to its end.
_N_STEPS = 5
# Times that the rows are cut in halves.
_N_CUTS = 3
# What rows without clusters do not reach, by columns: neighbours of even rows on a circle or a sphere make communities
# with much the same borders in both halves. Highest of up to 24 draws, uniform or one vMF cluster, of 30 to 2,000 rows:
# 0.73 in 2 dimensions, 0.58 in 3, 0.32 in 5, 0.25 in 10, 0.18 in 100.
_LEAST_AGREEMENTS = {2: 0.75, 3: 0.6}
_LEAST_AGREEMENT = 0.5


@dataclass(frozen=True, eq=False)
class ModelChoice:
    """What `choose_model` took, and why. `print` shows the comparison; `plots.plot_sweep(choice.table)` draws it."""

    model: SphericalKMeans  # fitted on all rows
    reason: str  # for people: what was compared, and why this was taken
    table: list[dict[str, Any]]  # what was compared: model, n_clusters, resolution, modularity, agreement, score
    criterion: ClassVar[str] = "modularity x agreement"

    def __str__(self) -> str:
        """One line for each number of clusters; the one taken is marked."""
        lines = [f"  {'clusters':>8}  {'modularity':>10}  {'agreement':>9}  {'score':>6}"]
        for line in self.table:
            mark = ">" if line["is_chosen"] else " "
            lines.append(
                f"{mark} {line['n_clusters']:>8}  {line['modularity']:>10.3f}  {line['agreement']:>9.3f}  "
                f"{line['score']:>6.3f}"
            )
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A clustering of the rows that are compared."""

    resolution: float
    directions: Float64Array  # (K, D)
    modularity: float
    agreement: float
    score: float  # their product; 0 where rows without clusters agree as well

    @property
    def n_clusters(self) -> int:
        """K."""
        return len(self.directions)


def choose_model(
    X: Any,
    *,
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = 0,
    n_threads: int | None = None,
    verbose: int = 0,
) -> ModelChoice:
    """Cluster the rows of X without a parameter: the number of clusters is found, and said why.

    Rows are linked with their nearest neighbours by cosine; communities of that graph, coarse to fine, are the starts
    of `SphericalKMeans`. Taken is the clustering with the highest product of modularity (rows have their neighbours in
    their own cluster) and agreement (models that are learned from each half of the rows give the same labels). Where no
    agreement is above what rows without clusters reach, there are no clear clusters, and the model has one.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n, D)
        Rows with a direction.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows in the fit. Rows of weight 0 take no part in the choice; how much others weigh does not
        matter to which of them are neighbours.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the sample, of the halves and of the order in which communities are found.
    n_threads : int or None, default=None
        Threads; None takes every core. The result does not depend on it.
    verbose : int, default=0
        1 shows a progress bar over what is compared (needs the extra "progress").

    Returns
    -------
    choice : ModelChoice
        `choice.model` is fitted on X; `choice.reason` says why; `print(choice)` shows what was compared.

    Notes
    -----
    Beyond 10,000 rows the comparison is made on that many, drawn at random, and the model is then fitted on all, from
    the directions that were found. Clusters with fewer than about 10 of the compared rows are not seen: for thousands
    of small clusters give `DPvMFMeans` an angle. 13,083 rows of 384 columns take 12 seconds of one core.

    References
    ----------
    Blondel and others (2008), Fast unfolding of communities in large networks. Jarvis and Patrick (1973), shared near
    neighbours. Tibshirani and Walther (2005), Cluster validation by prediction strength.

    Examples
    --------
    >>> from armillary import choose_model
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, truth, _ = make_vmf_mixture(1000, 20, 7, concentration=60.0, random_state=0)
    >>> choose_model(X).model.n_clusters_
    7
    """
    who = "choose_model"
    if n_threads is not None:
        check_integer(n_threads, "n_threads", who, low=1, hint="None takes every core.")
    points = as_points(X, who, sample_weight)
    watching = all_observers(None, verbose, who)
    stream = Stream.of(random_state)
    compared = _sample(points.counted(), stream)
    max_steps = len(_LOG_RESOLUTIONS) + len(_HALF_STEPS)
    with (
        open_passes(compared, n_threads, who) as passes,
        Emitter(who, watching, n_rows=compared.n_rows, n_restarts=1, max_steps=max_steps) as emitter,
    ):
        candidates = list(_candidates(passes, stream, emitter)) if compared.n_rows >= _FEWEST_ROWS else []
        best = max(candidates, key=lambda one: (one.score, -one.n_clusters), default=None)
        if best is not None and best.score == 0.0:
            best = None
        emitter.keep(
            restart=1,
            step=max_steps,
            n_clusters=1 if best is None else best.n_clusters,
            objective=0.0 if best is None else best.score,
        )
    start: dict[str, Any] = {"random_state": 0} if best is None else {"init": best.directions}
    model = SphericalKMeans(1 if best is None else best.n_clusters, n_threads=n_threads, **start)
    model.fit(X, sample_weight=sample_weight)
    n_found = len(np.unique(model.labels_))
    reason = _reason(candidates, best, n_found, compared.n_rows, points.n_rows, points.n_features)
    return ModelChoice(model, reason, _table(candidates, best))


# ---------------------------------------------------------------------------------------------------------- candidates


def _sample(points: Points, stream: Stream) -> Points:
    """All rows, or as many as are compared, in their order."""
    if points.n_rows <= _MOST_ROWS:
        return points
    drawn = stream.generator("sample").choice(points.n_rows, _MOST_ROWS, replace=False)
    return points.take(np.sort(drawn))


def _candidates(passes: Passes, stream: Stream, emitter: Emitter) -> Iterator[Candidate]:
    """Clusterings from coarse to fine, and then beside the best; those with one cluster, or too many, are left out."""
    n_rows = passes.points.n_rows
    most = _N_NEIGHBOURS_ON_CIRCLE if passes.points.n_features == 2 else _N_NEIGHBOURS
    n_neighbours = min(most, max(_FEWEST_NEIGHBOURS, math.isqrt(n_rows) // 2))
    lists = nearest_rows(passes, min(2 * n_neighbours + _SPARE_NEIGHBOURS, n_rows - 1))
    comparison = Comparison(passes, stream, lists, n_neighbours)
    best: Candidate | None = None
    step = 0
    for log_resolution in _LOG_RESOLUTIONS:
        step += 1
        candidate = comparison.at(2.0**log_resolution)
        if candidate is None:
            continue
        if candidate.n_clusters * n_neighbours > n_rows:
            break
        yield candidate
        emitter.step(restart=1, step=step, n_clusters=candidate.n_clusters, objective=candidate.score)
        if best is None or candidate.score > best.score:
            best = candidate
    if best is None or best.score == 0.0:
        return
    for half_step in _HALF_STEPS:
        step += 1
        candidate = comparison.at(best.resolution * 2.0**half_step)
        if candidate is not None and candidate.n_clusters * n_neighbours <= n_rows:
            yield candidate
            emitter.step(restart=1, step=step, n_clusters=candidate.n_clusters, objective=candidate.score)


class Comparison:
    """Clusterings of the same rows at any resolution, each beside those of the same halves."""

    def __init__(self, passes: Passes, stream: Stream, lists: Lists, n_neighbours: int) -> None:
        self._passes = passes
        self._stream = stream
        self._graph = neighbour_graph(lists, n_neighbours)
        self._halves: list[tuple[npt.NDArray[np.int64], NeighbourGraph]] = []
        for cut in range(_N_CUTS):
            drawn = stream.generator("halves", cut).permutation(len(lists))
            for half in np.array_split(drawn, 2):
                rows = np.sort(half)
                self._halves.append((rows, neighbour_graph(lists_within(lists, rows), n_neighbours)))

    def at(self, resolution: float) -> Candidate | None:
        """The clustering at a resolution, scored; None where there is one cluster."""
        directions = self._start(None, self._graph, resolution)
        if len(directions) < 2:
            return None
        state, labels = self._settle(directions)
        counts = np.bincount(labels, minlength=len(state.directions))
        if np.count_nonzero(counts) < 2:
            return None
        others = [self._labels(self._start(rows, graph, resolution)) for rows, graph in self._halves]
        agreements = [
            min(_agreement(labels, first), _agreement(labels, second), _agreement(first, second))
            for first, second in zip(others[::2], others[1::2], strict=True)
        ]
        agreement = float(np.mean(agreements))
        kept_together = modularity(self._graph.links, labels)
        is_clear = agreement >= least_agreement(self._passes.points.n_features)
        score = max(0.0, kept_together * agreement) if is_clear else 0.0
        return Candidate(resolution, state.directions[counts > 0], kept_together, agreement, score)

    def _start(self, rows: npt.NDArray[np.int64] | None, graph: NeighbourGraph, resolution: float) -> Float64Array:
        """Mean directions (K, D) of the communities of all rows, or of some."""
        found = find_communities(graph.weights, resolution, self._stream.generator("communities"))
        labels = found
        if rows is not None:
            labels = np.full(self._passes.points.n_rows, -1, dtype=np.int32)
            labels[rows] = found
        sums = self._passes.sums(labels, int(found.max()) + 1)
        directions = sums.directions(otherwise=np.zeros_like(sums.resultants))
        return directions[directions.any(axis=1)]  # without those whose rows cancel

    def _settle(self, directions: Float64Array) -> tuple[State, Labels]:
        """A few steps of spherical k-means."""
        points = self._passes.points
        model = SphericalKMeans(len(directions), init=directions, empty_clusters="keep")
        state = State(directions, DirectionalStatistics.zero(*directions.shape))
        chain = Lloyd(self._passes, state, Parameters.check(model, points))
        for _ in range(_N_STEPS):
            if chain.step()[1]:
                break
        chain.settle()
        return chain.state, chain.assignment.labels

    def _labels(self, directions: Float64Array) -> Labels:
        """The nearest direction of each row."""
        labels = np.full(self._passes.points.n_rows, -1, dtype=np.int32)
        self._passes.assign(score_rule(State(directions, DirectionalStatistics.zero(*directions.shape))), labels)
        return labels


def least_agreement(n_features: int) -> float:
    """The agreement that takes clusters."""
    return _LEAST_AGREEMENTS.get(n_features, _LEAST_AGREEMENT)


def _agreement(first: Labels, second: Labels) -> float:
    """The adjusted Rand index of two labellings, not below 0."""
    return max(0.0, float(adjusted_rand_score(first, second)))


# --------------------------------------------------------------------------------------------------------------- words


def _table(candidates: list[Candidate], best: Candidate | None) -> list[dict[str, Any]]:
    """One cluster first, then every number of clusters once, with its best score."""
    one: dict[str, Any] = {"resolution": 0.0, "modularity": 0.0, "agreement": 1.0, "score": 0.0}
    lines = [{"model": "SphericalKMeans", "n_clusters": 1, **one, "is_chosen": best is None}]
    for n_clusters in sorted({candidate.n_clusters for candidate in candidates}):
        alike = [candidate for candidate in candidates if candidate.n_clusters == n_clusters]
        top = max(alike, key=lambda candidate: (candidate.score, candidate.agreement))
        lines.append(
            {
                "model": "SphericalKMeans",
                "n_clusters": n_clusters,
                "resolution": top.resolution,
                "modularity": top.modularity,
                "agreement": top.agreement,
                "score": top.score,
                "is_chosen": best is not None and n_clusters == best.n_clusters,
            }
        )
    return lines


def _reason(
    candidates: list[Candidate],
    best: Candidate | None,
    n_found: int,
    n_compared: int,
    n_rows: int,
    n_features: int,
) -> str:
    """Why the model has the `n_found` clusters that rows are in."""
    if n_compared < _FEWEST_ROWS:
        return (
            f"One cluster: {n_compared} rows are too few to tell clusters from chance, which takes {_FEWEST_ROWS}. "
            "Give SphericalKMeans a number of clusters, or DPvMFMeans an angle."
        )
    which = f"{n_compared:,} of the {n_rows:,} rows" if n_compared < n_rows else f"the {n_rows:,} rows"
    if best is None:
        return (
            f"One cluster: no clear clusters were found in {which}. {_why_none(candidates, n_features)} "
            "Give SphericalKMeans a number of clusters to cut the rows all the same."
        )
    numbers = [candidate.n_clusters for candidate in candidates]
    said = (
        f"Spherical k-means with {n_found:,} clusters. Of {len(candidates)} clusterings of {which}, with "
        f"{min(numbers):,} to {max(numbers):,} clusters (communities of rows that share neighbours), it has the "
        f"highest modularity x agreement, {best.score:.2f}: rows have their neighbours in their own cluster "
        f"(modularity {best.modularity:.2f}), and models learned from halves of the rows give the same labels "
        f"(agreement {best.agreement:.2f})."
    )
    if len(candidates) > 1 and best.n_clusters == max(numbers) > min(numbers):
        said += " It is the finest of them: smaller clusters are not looked for, since neighbours would not see them."
    if n_found != best.n_clusters:
        said += f" The start had {best.n_clusters:,} clusters; {best.n_clusters - n_found:,} have no rows."
    if n_compared < n_rows:
        said += f" All {n_rows:,} rows were then fitted from the directions found."
    return said


def _why_none(candidates: list[Candidate], n_features: int) -> str:
    """What was counted where no clustering is taken."""
    if not candidates:
        return "Rows that share neighbours make one community, or communities smaller than neighbours can tell."
    most, least = max(candidate.agreement for candidate in candidates), least_agreement(n_features)
    if most >= least:
        return f"Models learned from halves of the rows agree to {most:.3f}, but neighbours are in other clusters."
    return (
        f"Models learned from halves of the rows agree to {most:.3f} at most; it takes {least}, which rows without "
        "clusters did not reach where it was measured."
    )
