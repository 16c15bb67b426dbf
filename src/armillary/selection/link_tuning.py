"""Thresholds of Links from labelled vectors (links.md, 5; Mansfield 2018, 3.6), and thresholds that were found so.

T_c comes first from the cosines of pairs: below T_c squared pairs of one label are missed, above it pairs of two labels
pass. From a few points around it all three are moved in turn, by ever smaller steps, to where the answers to the
labelled stream cost least.
A vector is right if its id is the one that is matched with its label, one to one, so that most are right. Any other is
*conflated* if its id is matched with another label, and *fractured* if its id is matched with none.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from armillary._typing import ArrayLike, Float64Array
from armillary.exceptions import InputError
from armillary.fitting.events import Emitter
from armillary.models.estimator import all_observers
from armillary.models.links.links import Links, Thresholds
from armillary.points import Points, as_points, refuse_stored
from armillary.selection.choice import table_html
from armillary.validation import check_integer, check_positive

_MOST_PAIRED = 2000  # vectors whose pairs are looked at: 2 million cosines
_FIRST_STEPS = (0.08, 0.2, 0.3)  # of T_c squared, and of the shares of the room that T_s and T_p have


# Few large sub-clusters and many small ones can both be good, and lie far apart: a search begins at each of these.
_JOINING_SHARES = (0.02, 0.2, 0.6)


class LinkPreset(NamedTuple):
    """Thresholds for one kind of vectors, and what they were measured on."""

    cluster_similarity_threshold: float
    subcluster_similarity_threshold: float
    pair_similarity_maximum: float
    vectors: str  # which embedder, of what
    measured: str  # mean matched accuracy, on persons or classes that were not tuned on unless it says so

    def model(self, **parameters: Any) -> Links:
        """A new `Links` with these thresholds; other parameters as given."""
        return Links(*self[:3], **parameters)


# Begin with these, then `tune_links` on vectors of your own: the best thresholds depend on how many people there are,
# and on how much of each is heard in one piece. Found and measured by `papers/mansfield2018_links` and by the same cut
# into halves; five orders each.
LINK_PRESETS = {
    "voice windows, few speakers": LinkPreset(
        0.75,
        0.75,
        0.9,
        "Resemblyzer 0.1.4 (GE2E), 256 columns, windows of 1.6 s",
        "0.968 on 10 speakers with 10 utterances each of LibriSpeech test-other, 11.8 ids; 0.865 on 126 of train-clean",
    ),
    "voice windows, many speakers": LinkPreset(
        0.79,
        0.782,
        0.98,
        "Resemblyzer 0.1.4 (GE2E), 256 columns, windows of 1.6 s",
        "0.962 on 126 speakers with one utterance each of LibriSpeech train-clean, 135.0 ids; 0.811 on the 10 of "
        "test-other, whose speakers it fractures",
    ),
    "whole utterances": LinkPreset(
        0.899,
        0.841,
        0.838,
        "Resemblyzer 0.1.4 (GE2E), 256 columns, one vector for each utterance",
        "0.955 on 30 speakers of LibriSpeech, 5 with ten utterances and 25 with one, 29.4 ids; 0.976 on the 10 of "
        "test-other alone, 11.8 ids; 0.860 on 251 with one each, 215.8 ids (benchmarks/utterance_preset.py)",
    ),
    "faces": LinkPreset(
        0.951,
        0.956,
        1.0,
        "dlib's face recognition ResNet (face_recognition_models 0.3.0), 128 columns, as they come",
        "0.974 on 39 persons of LFW, 68.2 ids",
    ),
    "faces, centred": LinkPreset(
        0.717,
        0.806,
        0.903,
        "the same less their mean, made unit again",
        "0.922 on 39 persons of LFW, 97.6 ids",
    ),
    "sentences": LinkPreset(
        0.754,
        0.685,
        0.655,
        "sentence-transformers all-MiniLM-L6-v2, 384 columns, banking77 questions",
        "0.542 on 2,080 questions of 39 intents, 158.2 ids: intents overlap, and this is as good as it gets",
    ),
}


class Position(NamedTuple):
    """Thresholds in coordinates that can be moved one at a time: each of them stays in its range."""

    least_cosine: float  # T_c^2
    joining_share: float  # of the way of T_s from s_inf to 1
    pair_share: float  # of the way of T_p from T_c^2 to 1

    def thresholds(self) -> Thresholds:
        """T_c, T_s and T_p."""
        cluster = float(np.sqrt(self.least_cosine))
        pair = self.least_cosine + self.pair_share * (1.0 - self.least_cosine)
        limit = Thresholds(cluster, 1.0, pair).single_limit
        return Thresholds(cluster, limit + self.joining_share * (1.0 - limit), pair)

    def moved(self, axis: int, step: float) -> Position:
        """Another value on one axis, kept in its range."""
        low, high = ((0.01, 0.98), (0.0, 0.95), (0.0, 1.0))[axis]
        values = [*self]
        values[axis] = round(min(max(values[axis] + step, low), high), 6)
        return Position(*values)


class Outcome(NamedTuple):
    """What one setting gave, in the mean over orders; shares are of the vectors."""

    cluster_similarity_threshold: float
    subcluster_similarity_threshold: float
    pair_similarity_maximum: float
    accuracy: float
    conflated: float
    fractured: float
    cost: float
    n_ids: float
    n_subclusters: float

    @property
    def rank(self) -> tuple[float, float]:
        """Least is best: the cost (to 1e-12), and of equals the setting with the fewest sub-clusters, the fastest."""
        return round(self.cost, 12), self.n_subclusters


@dataclass(frozen=True)
class LinksTable:
    """What `tune_links` tried. `print` shows the best lines; `plots.plot_links_table` draws all."""

    outcomes: tuple[Outcome, ...]  # in the order they were tried
    pair_threshold: float  # cosine at which the errors on pairs balance
    n_vectors: int
    n_labels: int

    @property
    def best(self) -> Outcome:
        """The setting that costs least; of equals that with the fewest sub-clusters."""
        return min(self.outcomes, key=lambda outcome: outcome.rank)

    def model(self, **parameters: Any) -> Links:
        """A new `Links` with the best thresholds; other parameters as given."""
        return Links(*self.best[:3], **parameters)

    def _repr_html_(self) -> str:
        """What notebooks show: the ten best settings, the best first."""
        best = sorted(self.outcomes, key=lambda outcome: outcome.rank)[:10]
        return table_html([{**one._asdict(), "is_chosen": one is best[0]} for one in best])

    def __str__(self) -> str:
        """The ten best settings, the best first."""
        counts = f"{self.n_vectors:,} vectors, {self.n_labels:,} labels"
        shares = f"{'accuracy':>10}{'conflated':>11}{'fractured':>11}{'cost':>9}"
        lines = [
            f"{counts}; pairs balance at a cosine of {self.pair_threshold:.3f}",
            f"{'T_c':>7}{'T_s':>8}{'T_p':>8}{shares}{'ids':>8}{'sub-clusters':>14}",
        ]
        for one in sorted(self.outcomes, key=lambda outcome: outcome.rank)[:10]:
            lines.append(
                f"{one[0]:>7.4f}{one[1]:>8.4f}{one[2]:>8.4f}{one.accuracy:>10.4f}{one.conflated:>11.4f}"
                f"{one.fractured:>11.4f}{one.cost:>9.4f}{one.n_ids:>8.1f}{one.n_subclusters:>14.1f}"
            )
        return "\n".join(lines)


def tune_links(
    X: Any,
    labels: ArrayLike,
    *,
    orders: ArrayLike | None = None,
    conflation_cost: float = 1.0,
    fracture_cost: float = 1.0,
    max_rounds: int = 6,
    verbose: int = 0,
    callbacks: Any = None,
) -> LinksTable:
    """Thresholds for `Links` from labelled vectors.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n, D)
        Vectors in the order of a stream.
    labels : array-like of shape (n,)
        Who each belongs to, any values that can be sorted.
    orders : array-like of shape (m, n), optional
        Row numbers of further streams to judge by, one in each line: what a setting gives depends on the order of
        vectors. By default the order given.
    conflation_cost, fracture_cost : float, default=1.0
        Cost of a vector that gets the id of someone else, and of one that gets a surplus id. With both 1 the cost is 1
        less the matched accuracy.
    max_rounds : int, default=6
        Rounds of moving each threshold in turn, in each of three searches; after a round without gain steps are halved,
        twice at most.
    verbose : int, default=0
        1 shows a progress bar (needs the extra "progress").
    callbacks : callable, sequence of callables or None, default=None
        Each is called with a `FitEvent` after every setting; `objective` is minus its cost.

    Returns
    -------
    table : LinksTable
        `table.model()` is a `Links` with the best thresholds, `table.best` what they gave on these vectors: expect a
        little less on others. `print(table)` shows the ten best.

    Examples
    --------
    >>> from armillary import tune_links
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, people, _ = make_vmf_mixture(300, 64, 5, concentration=150.0, min_angle=1.2, random_state=0)
    >>> table = tune_links(X, people)
    >>> table.best.accuracy, table.model().fit(X).n_clusters_
    (1.0, 5)
    """
    who = "tune_links"
    refuse_stored(X, who, "it is gone through in many orders")
    points = as_points(X, who)
    codes, n_labels = _check_labels(labels, points.n_rows)
    streams = _check_orders(orders, points.n_rows)
    costs = (
        check_positive(conflation_cost, "conflation_cost", who, is_finite=True),
        check_positive(fracture_cost, "fracture_cost", who, is_finite=True),
    )
    n_rounds = check_integer(max_rounds, "max_rounds", who, low=1)
    watching = all_observers(callbacks, verbose, who)
    balance = _balanced_cosine(points, codes, *costs)
    found: dict[Position, Outcome] = {}
    with Emitter(who, watching, n_rows=points.n_rows, n_restarts=1, max_steps=3 * (9 + 12 * n_rounds)) as emitter:

        def cost_of(position: Position) -> Outcome:
            if position not in found:
                found[position] = _outcome(points, codes, streams, position.thresholds(), costs)
                n_ids = round(found[position].n_ids)
                emitter.step(restart=1, step=len(found), n_clusters=n_ids, objective=-found[position].cost)
            return found[position]

        for joining in _JOINING_SHARES:
            _search(min(_coarse(balance, joining), key=lambda position: cost_of(position).rank), cost_of, n_rounds)
    return LinksTable(tuple(found.values()), balance, points.n_rows, n_labels)


def _coarse(balance: float, joining_share: float) -> Iterator[Position]:
    """Where a search may begin."""
    for shift in (-0.1, 0.0, 0.1):
        for pair_share in (0.1, 0.4, 0.8):
            yield Position(0.0, joining_share, pair_share).moved(0, balance + shift)


def _search(best: Position, cost_of: Callable[[Position], Outcome], n_rounds: int) -> None:
    """Move one threshold after the other to where it costs least."""
    scale, n_halved = 1.0, 0
    for _ in range(n_rounds):
        start = best
        for axis in range(3):
            tried = [best, *(best.moved(axis, steps * scale * _FIRST_STEPS[axis]) for steps in (-2, -1, 1, 2))]
            best = min(tried, key=lambda position: cost_of(position).rank)
        if best == start:
            n_halved += 1
            scale /= 2.0
        if n_halved > 2:
            return


def _outcome(
    points: Points,
    codes: npt.NDArray[np.intp],
    streams: list[npt.NDArray[np.int64]],
    thresholds: Thresholds,
    costs: tuple[float, float],
) -> Outcome:
    lines = []
    for order in streams:
        model = Links(thresholds.cluster, thresholds.subcluster, thresholds.pair)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of settings that are tried and left
            ids = model.fit(points.matrix[order]).labels_
        conflated, fractured = wrong_shares(codes[order], ids)
        lines.append((conflated, fractured, model.next_id_, model.n_subclusters_))
    conflated, fractured, n_ids, n_subclusters = (float(value) for value in np.mean(lines, axis=0))
    cost = costs[0] * conflated + costs[1] * fractured
    return Outcome(
        thresholds.cluster,
        thresholds.subcluster,
        thresholds.pair,
        1.0 - conflated - fractured,
        conflated,
        fractured,
        cost,
        n_ids,
        n_subclusters,
    )


def wrong_shares(codes: npt.NDArray[np.intp], ids: npt.NDArray[np.int64]) -> tuple[float, float]:
    """Shares of the vectors that are conflated and fractured, for labels 0..L-1 (n,) and answered ids (n,)."""
    table = np.zeros((int(codes.max()) + 1, int(ids.max()) + 1))
    np.add.at(table, (codes, ids), 1.0)
    rows, columns = linear_sum_assignment(table, maximize=True)
    # a pair without a vector is no match: it was made to fill the matching up
    is_real = table[rows, columns] > 0.0
    n_matched = np.zeros(table.shape[1])
    n_matched[columns[is_real]] = table[rows[is_real], columns[is_real]]
    in_id = table.sum(axis=0)
    n_conflated = float((in_id - n_matched)[n_matched > 0.0].sum())
    n_fractured = float(in_id[n_matched == 0.0].sum())
    return n_conflated / len(codes), n_fractured / len(codes)


def _balanced_cosine(points: Points, codes: npt.NDArray[np.intp], conflation: float, fracture: float) -> float:
    """The cosine at which the cost of pairs of one label below it equals that of pairs of two labels above it."""
    chosen = np.unique(np.linspace(0, points.n_rows - 1, min(points.n_rows, _MOST_PAIRED)).astype(np.int64))
    rows = points.rows(chosen)
    upper = np.triu_indices(len(rows), 1)
    cosines: Float64Array = (rows @ rows.T)[upper]
    is_same = codes[chosen][upper[0]] == codes[chosen][upper[1]]
    if not is_same.any() or is_same.all():
        raise InputError(
            "`labels` of tune_links must have pairs of vectors with one label, and pairs with two; got "
            f"{'none with one' if not is_same.any() else 'none with two'}. Give more labelled vectors."
        )
    same, other = np.sort(cosines[is_same]), np.sort(cosines[~is_same])
    values = np.linspace(-1.0, 1.0, 2001)
    missed = np.searchsorted(same, values) / len(same)
    passed = 1.0 - np.searchsorted(other, values) / len(other)
    # the middle of the range in which they balance: where labels are well apart it is wide
    gap = np.abs(fracture * missed - conflation * passed)
    return float(np.mean(values[gap <= gap.min() + 1e-12]))


def _check_labels(labels: Any, n_rows: int) -> tuple[npt.NDArray[np.intp], int]:
    given = np.asarray(labels)
    if given.shape != (n_rows,):
        raise InputError(
            f"`labels` of tune_links must have one entry for each of the {n_rows} vectors; got shape {given.shape}. "
            "Give the identity of every vector."
        )
    try:
        names, codes = np.unique(given, return_inverse=True)
    except TypeError as error:
        raise InputError(
            f"`labels` of tune_links must be of one kind that can be put in order; they are not: {error}. "
            "Give integers or strings."
        ) from error
    return codes.astype(np.intp), len(names)


def _check_orders(orders: Any, n_rows: int) -> list[npt.NDArray[np.int64]]:
    if orders is None:
        return [np.arange(n_rows)]
    given = np.atleast_2d(np.asarray(orders))
    if given.shape[1:] != (n_rows,) or not all(np.array_equal(np.sort(order), np.arange(n_rows)) for order in given):
        raise InputError(
            f"`orders` of tune_links must have the numbers 0 to {n_rows - 1} in each line, each once; got shape "
            f"{given.shape}. Give permutations of the rows, e.g. of numpy.random.default_rng(0).permutation({n_rows})."
        )
    return [order.astype(np.int64) for order in given]
