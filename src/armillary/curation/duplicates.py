"""Near-duplicates: pairs of rows whose cosine is at least a threshold, of which one row is kept.

Where pairs are sought. Rows of one cluster are compared with all of it. A pair across the border of two clusters i and
j has rows x and y with angle(x, c_j) - angle(x, c_i) + angle(y, c_i) - angle(y, c_j) <= 2 delta, delta the angle of the
threshold (two triangle inequalities), so one of the two is at most delta farther from the other's cluster than from
its own. A row is compared with the clusters within that reach, `n_searched` of them at most: where no row has more,
every pair is found, and `is_exact` says so. Else `duplicate_recall` measures what was missed.

Which is kept. Rows have an order: higher `priority` first, then lower numbers. Within a cluster rows are taken in that
order, and a row goes if one that was kept before it is near; it goes for the nearest of those. Then, across borders,
rows that were kept are taken in the same order by the same rule. So no two rows that are kept and were compared are
near; a row that goes points to the kept row at the end of its chain, `kept_for`. `cosines` are those with the row that
it went for, which may itself have gone for a third across a border: `n_chained` counts them.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armillary._typing import ArrayLike, Float64Array, FloatArray
from armillary.curation.nearest import Nearest, checked_directions, nearest_of
from armillary.engines.contract import Here, Numbers, Passes
from armillary.engines.select import checked_points, open_passes
from armillary.exceptions import InputError
from armillary.models.means.spherical_kmeans import SphericalKMeans
from armillary.points import as_float64
from armillary.rules import AffineRule
from armillary.validation import check_integer, check_number, check_numbers
from armillary.workers import Workers, thread_count

# Rows compared at a time, and with how many others: products of 4 MiB in float32, which stay in the cache.
_BLOCK_ROWS, _BLOCK_COLUMNS = 512, 2048
# Numbers of rows gathered at a time, 256 MiB of float32: rows of a cluster lie all over a file, so that fewer would
# read it more often.
_GATHERED_VALUES = 1 << 26
# Numbers of rows of pairs that are looked at in float64 at a time.
_PAIR_VALUES = 1 << 20
# What cosines in the type of the rows may be off by, and for each column more.
_PAD, _PAD_PER_COLUMN = 4e-6, 1.2e-7
# Rows up to which every cluster in reach is searched, unless something else is asked for: seconds of work. Beyond, so
# many are.
_EXACT_ROWS, _SEARCHED = 20_000, 8
# Rows that one cluster has about, where clusters are made here; and steps that make them.
_ROWS_PER_CLUSTER = 500
_FEW_STEPS = 10
# Padding of angles that come in float32.
_ANGLE_PAD = 1e-5


class Gone(NamedTuple):
    """Rows that go, each for another."""

    numbers: Numbers  # (m,)
    kept: Numbers  # (m,)
    cosines: Float64Array  # (m,)


class Pairs(NamedTuple):
    """Near rows of different clusters."""

    first: Numbers  # (m,)
    second: Numbers  # (m,)
    cosines: Float64Array  # (m,)


@dataclass(frozen=True, eq=False)
class Duplicates:
    """What `near_duplicates` found.

    Attributes
    ----------
    kept_for : array of shape (n,), int64
        The number of the row that is kept in the place of each; its own for rows that are kept.
    cosines : array of shape (n,)
        Cosine with the row that it went for; 1 for rows that are kept.
    threshold : float
        The cosine from which on rows are near.
    n_truncated : int
        Rows with more clusters in reach than were searched: where it is 0 all pairs were found.
    n_chained : int
        Rows whose `kept_for` is not the row that they went for.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.curation import near_duplicates
    >>> rows = np.random.default_rng(0).standard_normal((300, 20))
    >>> rows[[100, 200]] = rows[7]
    >>> [group.tolist() for group in near_duplicates(rows).groups()]
    [[7, 100, 200]]
    """

    kept_for: npt.NDArray[np.int64]
    cosines: npt.NDArray[np.float32]
    threshold: float
    n_truncated: int
    n_chained: int

    @property
    def is_kept(self) -> npt.NDArray[np.bool_]:
        """Which rows are kept (n,)."""
        return np.asarray(self.kept_for == np.arange(len(self.kept_for)))

    @property
    def n_removed(self) -> int:
        """How many rows go."""
        return int(len(self.kept_for) - np.count_nonzero(self.is_kept))

    @property
    def is_exact(self) -> bool:
        """Whether every pair of near rows was compared."""
        return self.n_truncated == 0

    def groups(self, most: int | None = None) -> list[npt.NDArray[np.int64]]:
        """Rows that were taken for one, the kept one first, the largest group first.

        Parameters
        ----------
        most : int, optional
            At most so many groups; None: all.

        Returns
        -------
        list of arrays of int64
            Numbers of rows.
        """
        gone = np.flatnonzero(~self.is_kept)
        kept, sizes = np.unique(self.kept_for[gone], return_counts=True)
        order = np.lexsort((kept, -sizes))[:most]
        by_kept = gone[np.argsort(self.kept_for[gone], kind="stable")]
        ends = np.cumsum(sizes)
        return [np.concatenate([kept[[one]], by_kept[ends[one] - sizes[one] : ends[one]]]) for one in order]


# ------------------------------------------------------------------------------------------------------ public names


def near_duplicates(
    X: Any,
    *,
    threshold: float = 0.95,
    model: Any = None,
    n_searched: int | None = None,
    priority: ArrayLike | None = None,
    n_threads: int | None = None,
) -> Duplicates:
    """Rows that are nearly equal to another one by cosine, and which of them to keep.

    Exact within clusters; across their borders exact too where `is_exact` says so, and else nearly: see
    `duplicate_recall`.

    Parameters
    ----------
    X : array-like of shape (n, D), CSR or rows on disk
        Rows, made unit here.
    threshold : float, default=0.95
        Rows whose cosine is at least this are near.
    model : clusterer or None, default=None
        Fitted, with `cluster_centers_`; its clusters are where rows are compared. None makes clusters of about 500
        rows.
    n_searched : int or None, default=None
        Most clusters that a row is compared with, its own included. None: all that a near row may be in for up to
        20,000 rows, which makes the search exact, and 8 beyond.
    priority : array-like of shape (n,) or None, default=None
        Rows with a higher number are kept before others, equals by row number. None keeps the first row of each group.
    n_threads : int or None, default=None
        Threads; None takes every core.

    Returns
    -------
    Duplicates
        `kept_for`, `is_kept`, `cosines`, `groups()` and how sure it is.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.curation import near_duplicates
    >>> rows = np.random.default_rng(0).standard_normal((300, 20))
    >>> rows[100] = rows[7] + 0.01 * rows[8]
    >>> found = near_duplicates(rows)
    >>> found.n_removed, int(found.kept_for[100]), found.is_exact
    (1, 7, True)
    """
    who = "near_duplicates"
    least = check_threshold(threshold, who)
    given = None if n_searched is None else check_integer(n_searched, "n_searched", who, low=1)
    points = checked_points(X, who)
    order = priority_order(priority, points.n_rows, who)
    directions = (
        _made_directions(X, points.n_rows, n_threads)
        if model is None
        else checked_directions(model, who, points.n_features)
    )
    most = most_searched(given, points.n_rows, len(directions))
    with open_passes(points, n_threads, who) as passes, Workers(thread_count(n_threads, who)) as workers:
        search = Search.of(nearest_of(passes, directions, most + 1), least, most, order)
        gone = [search.within(passes, group, workers) for group in search.groups(points.n_features)]
        settled = search.settled(gone)
        pairs = [settled.across(passes, group, workers) for group in settled.groups(points.n_features)]
        return settled.result(pairs)


def duplicate_recall(
    X: Any, found: Duplicates, *, n_rows: int = 1000, random_state: int = 0, n_threads: int | None = None
) -> float:
    """The share of near pairs that a search dealt with, measured by comparing some rows with all.

    Parameters
    ----------
    X : array-like of shape (n, D), CSR or rows on disk
        The rows that were searched.
    found : Duplicates
        What `near_duplicates` returned for them.
    n_rows : int, default=1000
        Rows, drawn by chance, that are compared with all others.
    random_state : int, default=0
        Seed of that.
    n_threads : int or None, default=None
        Threads; None takes every core.

    Returns
    -------
    float
        Of the pairs of a drawn row with another one whose cosine is at least the threshold, the share of which at
        least one row went; 1 where there are no such pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.curation import duplicate_recall, near_duplicates
    >>> rows = np.random.default_rng(0).standard_normal((300, 20))
    >>> rows[200:] = rows[:100] + 0.01
    >>> duplicate_recall(rows, near_duplicates(rows))
    1.0
    """
    who = "duplicate_recall"
    n_pairs, n_missed = counted_pairs(X, found, n_rows, random_state, n_threads, who)
    return 1.0 if n_pairs == 0 else 1.0 - n_missed / n_pairs


def counted_pairs(
    X: Any, found: Duplicates, n_rows: int, random_state: int, n_threads: int | None, who: str
) -> tuple[int, int]:
    """Near pairs of some rows with any other, and how many of them were missed."""
    if not isinstance(found, Duplicates):
        raise InputError(
            f"`found` of {who} must be what near_duplicates returned; got {type(found).__name__}. Call it first."
        )
    most = check_integer(n_rows, "n_rows", who, low=1)
    seed = check_integer(random_state, "random_state", who, low=0)
    points = checked_points(X, who)
    if points.n_rows != len(found.kept_for):
        raise InputError(
            f"X of {who} must be the {len(found.kept_for)} rows that were searched; got {points.n_rows} rows."
        )
    drawn = np.sort(np.random.default_rng(seed).choice(points.n_rows, min(most, points.n_rows), replace=False))
    is_kept = found.is_kept
    n_pairs, n_missed = 0, 0
    with open_passes(points, n_threads, who) as passes:
        for start in range(0, len(drawn), _BLOCK_ROWS):
            some = drawn[start : start + _BLOCK_ROWS]
            rows, columns = passes.fold(
                AffineRule.cosines(passes.unit_rows(some)), _AtLeast(found.threshold, points.first_row)
            )
            is_pair = rows != some[columns]
            n_pairs += int(np.count_nonzero(is_pair))
            n_missed += int(np.count_nonzero(is_pair & is_kept[rows] & is_kept[some[columns]]))
    return n_pairs, n_missed


@dataclass(frozen=True)
class _AtLeast:
    """Rows and clusters of scores from a threshold on."""

    threshold: float
    first_row: int
    is_exact: ClassVar[bool] = True

    def part(self, scores: FloatArray, here: Here) -> tuple[Numbers, Numbers]:
        rows, columns = np.nonzero(scores >= self.threshold)
        return rows + (here.first_row - self.first_row), columns

    def join(self, parts: Sequence[tuple[Numbers, Numbers]]) -> tuple[Numbers, Numbers]:
        rows, columns = zip(*parts, strict=True)
        return np.concatenate(rows), np.concatenate(columns)


def check_threshold(value: Any, who: str) -> float:
    """A cosine from which on rows are near."""
    return check_number(value, "threshold", who, low=-1.0, high=1.0, hint="It is a cosine: 0.95 is 18 degrees.")


def most_searched(given: int | None, n_rows: int, n_clusters: int) -> int:
    """How many clusters a row is compared with."""
    if given is not None:
        return min(given, n_clusters)
    return n_clusters if n_rows <= _EXACT_ROWS else min(_SEARCHED, n_clusters)


def priority_order(priority: Any, n_rows: int, who: str) -> npt.NDArray[np.int64]:
    """The rank of each row (n,): 0 is kept before all others."""
    if priority is None:
        return np.arange(n_rows)
    values = check_numbers(priority, "priority", who)
    if values.shape != (n_rows,):
        raise InputError(
            f"`priority` of {who} must have one number per row, shape ({n_rows},); got shape {values.shape}. Leave it "
            "out to keep the first of each."
        )
    ranks = np.empty(n_rows, dtype=np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(n_rows)
    return ranks


def _made_directions(X: Any, n_rows: int, n_threads: int | None) -> Float64Array:
    n_clusters = max(1, n_rows // _ROWS_PER_CLUSTER)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # clusters are a means here: they need not be settled
        model = SphericalKMeans(n_clusters, init="k-means||", max_iter=_FEW_STEPS, random_state=0, n_threads=n_threads)
        return np.asarray(model.fit(X).cluster_centers_)


# ------------------------------------------------------------------------------------------------------- the search


class Borders(NamedTuple):
    """What a search keeps of a stretch of rows."""

    labels: npt.NDArray[np.int32]  # (n,)
    rows: Numbers  # (m,) counted within the stretch
    clusters: npt.NDArray[np.int32]  # (m,) that each of them reaches into
    n_truncated: int


def nearest_borders(nearest: Nearest, threshold: float, n_searched: int) -> Borders:
    """Rows that are at most the threshold's angle farther from another cluster than from their own."""
    reach = math.acos(threshold) + _ANGLE_PAD
    is_near = nearest.angles - nearest.angles[:, :1] <= reach
    is_near[:, 0] = False
    n_truncated = int(np.count_nonzero(is_near[:, n_searched:].any(axis=1)))
    rows, places = np.nonzero(is_near[:, :n_searched])
    return Borders(nearest.clusters[:, 0], rows, nearest.clusters[rows, places], n_truncated)


class Guests(NamedTuple):
    """Rows that reach into each cluster, cluster by cluster: four bytes each, so that ten million rows have room."""

    numbers: npt.NDArray[np.unsignedinteger[Any]]  # (m,)
    starts: Numbers  # (K + 1,)

    @classmethod
    def of(cls, parts: Iterable[Borders], n_rows: int, sizes: Numbers) -> Guests:
        """From what is known of stretches of rows, in their order; `sizes` (K,) counts the guests of each cluster."""
        starts = np.concatenate([[0], np.cumsum(sizes)])
        numbers = np.empty(starts[-1], dtype=np.uint32 if n_rows <= 1 << 32 else np.uint64)
        ends, first = starts[:-1].copy(), 0
        for part in parts:
            order = np.argsort(part.clusters, kind="stable")
            clusters = part.clusters[order]
            counts = np.bincount(clusters, minlength=len(sizes))
            before = np.cumsum(counts) - counts
            numbers[np.arange(len(order)) + (ends - before)[clusters]] = part.rows[order] + first
            ends += counts
            first += len(part.labels)
        return cls(numbers, starts)

    def at(self, cluster: int) -> Numbers:
        """The guests of one cluster, in order."""
        return self.numbers[self.starts[cluster] : self.starts[cluster + 1]].astype(np.int64)


@dataclass(frozen=True, eq=False)
class Search:
    """Which rows are compared with which: K-sized tables and a few numbers beside each row."""

    labels: npt.NDArray[np.int32]  # (n,); K for rows that went, which nobody is compared with
    guests: Guests
    ranks: npt.NDArray[np.int64]  # (n,)
    n_clusters: int
    threshold: float
    n_truncated: int
    kept_for: npt.NDArray[np.int64] | None = None  # (n,) after rows were compared within their clusters
    cosines: npt.NDArray[np.float32] | None = None

    @classmethod
    def of(
        cls, nearest: Nearest, threshold: float, n_searched: int, ranks: npt.NDArray[np.int64], n_clusters: int = 0
    ) -> Search:
        """By the clusters nearest to each row, one more than are searched where there are so many."""
        return cls.joined([nearest_borders(nearest, threshold, n_searched)], threshold, ranks, n_clusters)

    @classmethod
    def joined(
        cls, parts: Iterable[Borders], threshold: float, ranks: npt.NDArray[np.int64], n_clusters: int = 0
    ) -> Search:
        """From what is known of stretches of rows, in their order; `parts` are gone through twice."""
        labels, sizes, n_truncated = [], np.zeros(n_clusters, dtype=np.int64), 0
        for part in parts:
            labels.append(part.labels.copy())
            n_truncated += part.n_truncated
            counts = np.bincount(part.clusters, minlength=len(sizes))
            counts[: len(sizes)] += sizes
            sizes = counts
        every = np.concatenate(labels)
        n_clusters = max(len(sizes), 1 + int(every.max(initial=0)))
        sizes = np.concatenate([sizes, np.zeros(n_clusters - len(sizes), dtype=np.int64)])
        return cls(every, Guests.of(parts, len(every), sizes), ranks, n_clusters, threshold, n_truncated)

    def groups(self, n_features: int) -> list[tuple[int, int]]:
        """Clusters from..to that are worked on together: their rows are read in one go."""
        sizes = np.bincount(self.labels, minlength=self.n_clusters)[: self.n_clusters] + np.diff(self.guests.starts)
        n_together = _rows_together(n_features)
        wanted = np.arange(n_together, sizes.sum() + n_together, n_together)
        ends = np.searchsorted(np.cumsum(sizes), wanted)
        edges = np.unique(np.concatenate([[0], np.minimum(ends + 1, self.n_clusters)]))
        return list(pairwise(edges.tolist()))

    def within(self, passes: Passes, group: tuple[int, int], workers: Workers) -> Gone:
        """Rows of some clusters that go for another one of their own cluster."""
        numbers = self._rows_of(group)
        n_together = _rows_together(passes.points.n_features)
        clusters = [own[np.argsort(self.ranks[own])] for _, own in _labelled(numbers, self.labels[numbers])]
        parts: list[Gone] = []
        few = [own for own in clusters if len(own) <= n_together]
        gathered = _Gathered(passes, np.sort(np.concatenate([*few, _none()])))
        workers.run(lambda number: _thinned(gathered, few[number], self.threshold), len(few), parts.append)
        parts.extend(_thinned_in_turn(passes, own, self.threshold) for own in clusters if len(own) > n_together)
        return Gone(*_joined(parts))

    def settled(self, gone: Sequence[Gone]) -> Search:
        """What is left after that, to be compared across borders."""
        kept_for = np.arange(len(self.labels))
        cosines = np.ones(len(self.labels), dtype=np.float32)
        labels = self.labels.copy()
        for part in gone:
            kept_for[part.numbers] = part.kept
            cosines[part.numbers] = part.cosines
            labels[part.numbers] = self.n_clusters
        return replace(self, labels=labels, kept_for=kept_for, cosines=cosines)

    def across(self, passes: Passes, group: tuple[int, int], workers: Workers) -> Pairs:
        """Near rows of which one is in one of these clusters and the other reaches into it."""
        numbers = self._rows_of(group)
        meetings = []
        for label, members in _labelled(numbers, self.labels[numbers]):
            guests = self.guests.at(label)
            guests = guests[self.labels[guests] < self.n_clusters]
            if len(guests):
                meetings.append((guests, members))
        parts: list[Pairs] = []
        n_together = _rows_together(passes.points.n_features)
        few = [pair for pair in meetings if len(pair[0]) + len(pair[1]) <= n_together]
        gathered = _Gathered(passes, np.unique(np.concatenate([_none(), *(one for pair in few for one in pair)])))
        tasks = [
            (guests[start : start + _BLOCK_ROWS], members)
            for guests, members in few
            for start in range(0, len(guests), _BLOCK_ROWS)
        ]
        workers.run(lambda number: _met(gathered, *tasks[number], self.threshold), len(tasks), parts.append)
        for guests, members in meetings:
            if len(guests) + len(members) > n_together:
                parts.extend(_met_in_turn(passes, guests, members, self.threshold))
        return Pairs(*_joined(parts))

    def _rows_of(self, group: tuple[int, int]) -> Numbers:
        return np.flatnonzero((self.labels >= group[0]) & (self.labels < min(group[1], self.n_clusters)))

    def result(self, pairs: Sequence[Pairs]) -> Duplicates:
        """All of it: across borders rows go by the same rule."""
        assert self.kept_for is not None
        assert self.cosines is not None
        kept_for, cosines = self.kept_for.copy(), self.cosines.copy()
        first, second, values = _joined(pairs)
        is_swapped = self.ranks[first] > self.ranks[second]
        early, late = np.where(is_swapped, second, first), np.where(is_swapped, first, second)
        order = np.lexsort((self.ranks[early], -values, self.ranks[late]))
        early, late, values = early[order], late[order], values[order]
        for row, before, value in zip(late.tolist(), early.tolist(), values.tolist(), strict=True):
            # the nearest comes first, so that a row goes once
            if kept_for[row] == row and kept_for[before] == before:
                kept_for[row], cosines[row] = before, value
        direct, n_changed = kept_for.copy(), 1
        while n_changed:
            further = kept_for[kept_for]
            n_changed = int(np.count_nonzero(further != kept_for))
            kept_for = further
        n_chained = int(np.count_nonzero(direct != kept_for))
        return Duplicates(kept_for, cosines, self.threshold, self.n_truncated, n_chained)


def _rows_together(n_features: int) -> int:
    return max(1, _GATHERED_VALUES // n_features)


class _Gathered:
    """Some rows in memory, known by their numbers (m,) among all, which rise."""

    def __init__(self, passes: Passes, numbers: Numbers) -> None:
        self._numbers = numbers
        block = passes.rows(numbers).block if len(numbers) else None
        self._rows: Any = block if isinstance(block, np.ndarray) or block is None else as_float64(block)

    def rows(self, numbers: Numbers) -> Any:
        """Of these numbers, as passes see them: an array or CSR."""
        return self._rows[np.searchsorted(self._numbers, numbers)]


class _Room(threading.local):
    """Products and what is true of them, in memory that a thread keeps: new pages took as long as half of the products.

    What comes back holds until the next call.
    """

    def __init__(self) -> None:
        self._products: FloatArray = np.empty(0, dtype=np.float32)
        self._are_above = np.empty(0, dtype=np.bool_)

    def are_above(self, least: float, rows: Any, others: Any) -> npt.NDArray[np.bool_]:
        """Whether products are at least so much: all pairs, by rows (m n,)."""
        shape = rows.shape[0], others.shape[0]
        n_pairs = shape[0] * shape[1]
        if len(self._are_above) < n_pairs:
            self._are_above = np.empty(n_pairs, dtype=np.bool_)
        if not isinstance(rows, np.ndarray):
            return np.greater_equal((rows @ others.T).toarray().ravel(), least, out=self._are_above[:n_pairs])
        if len(self._products) < n_pairs or self._products.dtype != rows.dtype:
            self._products = np.empty(n_pairs, dtype=rows.dtype)
        products = np.matmul(rows, others.T, out=self._products[:n_pairs].reshape(shape))
        return np.greater_equal(products.ravel(), least, out=self._are_above[:n_pairs])


_ROOM = _Room()


def _near(rows: Any, others: Any, threshold: float) -> tuple[Numbers, Numbers, Float64Array]:
    """Places of near rows (m,) each, and their float64 cosines; by rows, then by others.

    Products in the type of the rows rule most pairs out; what they leave is looked at in float64.
    """
    least = threshold - _PAD - _PAD_PER_COLUMN * rows.shape[1]
    parts = []
    for start in range(0, others.shape[0], _BLOCK_COLUMNS):
        some = others[start : start + _BLOCK_COLUMNS]
        # NumPy looks for what is true along one axis eight times as fast as along two
        one, other = np.divmod(np.flatnonzero(_ROOM.are_above(least, rows, some)), some.shape[0])
        values = _cosines(rows, some, one, other)
        is_near = values >= threshold
        parts.append((one[is_near], other[is_near] + start, values[is_near]))
    if len(parts) == 1:
        return parts[0]
    one, other, values = (np.concatenate(found) for found in zip(*parts, strict=True))
    order = np.argsort(one, kind="stable")
    return one[order], other[order], values[order]


def _cosines(rows: Any, others: Any, one: Numbers, other: Numbers) -> Float64Array:
    """Cosines (m,) of pairs, at most 1."""
    found = np.empty(len(one))
    n_together = max(1, _PAIR_VALUES // rows.shape[1])
    for start in range(0, len(one), n_together):
        part = slice(start, start + n_together)
        left, right = rows[one[part]].astype(np.float64), others[other[part]].astype(np.float64)
        squares = _products_of(left, left) * _products_of(right, right)
        found[part] = _products_of(left, right) / np.sqrt(squares)
    return np.minimum(found, 1.0)


def _products_of(left: Any, right: Any) -> Float64Array:
    """The product of each row with its other (m,)."""
    if isinstance(left, np.ndarray):
        return np.vecdot(left, right)
    return np.asarray(left.multiply(right).sum(axis=1)).ravel()


class _Thinning:
    """Rows of one cluster in their order: which go for one that was kept before, the nearest of those."""

    def __init__(self, n_rows: int, threshold: float) -> None:
        self._threshold = threshold
        self._best = np.full(n_rows, -np.inf)
        self._target = np.full(n_rows, -1)

    def meet(self, rows: Any, first: int, kept: Any, places: Numbers) -> None:
        """Some rows, from place `first` on, meet some that were kept before, at these places."""
        if not len(places):
            return
        one, other, values = _near(rows, kept, self._threshold)
        order = np.lexsort((other, -values, one))
        one, other, values = one[order], other[order], values[order]
        is_first = np.diff(one, prepend=-1) > 0
        one, targets, values = one[is_first] + first, places[other[is_first]], values[is_first]
        is_better = values > self._best[one]
        self._best[one[is_better]], self._target[one[is_better]] = values[is_better], targets[is_better]

    def decide(self, rows: Any, first: int) -> npt.NDArray[np.bool_]:
        """Rows of a block, which met all that were kept before it, meet each other; which are kept."""
        is_kept = self._target[first : first + rows.shape[0]] < 0
        one, other, values = _near(rows, rows, self._threshold)
        is_later = one > other
        one, other, values = one[is_later], other[is_later], values[is_later]
        late, starts, counts = np.unique(one, return_index=True, return_counts=True)
        for row, start, stop in zip(late.tolist(), starts.tolist(), (starts + counts).tolist(), strict=True):
            here = np.where(is_kept[other[start:stop]], values[start:stop], -np.inf)
            nearest = int(here.argmax())
            if here[nearest] > self._best[first + row]:
                self._best[first + row], self._target[first + row] = here[nearest], first + other[start + nearest]
                is_kept[row] = False
        return is_kept

    def gone(self, numbers: Numbers) -> Gone:
        """What goes, by the numbers (n,) of the rows."""
        places = np.flatnonzero(self._target >= 0)
        return Gone(numbers[places], numbers[self._target[places]], self._best[places])


def _thinned(gathered: _Gathered, numbers: Numbers, threshold: float) -> Gone:
    """Rows of a cluster that is in memory."""
    rows = gathered.rows(numbers)
    thinning, kept = _Thinning(len(numbers), threshold), _none()
    for start in range(0, len(numbers), _BLOCK_ROWS):
        block = rows[start : start + _BLOCK_ROWS]
        for first in range(0, len(kept), _BLOCK_COLUMNS):
            some = kept[first : first + _BLOCK_COLUMNS]
            thinning.meet(block, start, rows[some], some)
        kept = np.concatenate([kept, start + np.flatnonzero(thinning.decide(block, start))])
    return thinning.gone(numbers)


def _thinned_in_turn(passes: Passes, numbers: Numbers, threshold: float) -> Gone:
    """Rows of a cluster that is too large for memory: some at a time meet all that were kept, some at a time."""
    n_together = max(_BLOCK_ROWS, _rows_together(passes.points.n_features) // 2)
    thinning, kept = _Thinning(len(numbers), threshold), _none()
    for start in range(0, len(numbers), n_together):
        own = numbers[start : start + n_together]
        gathered = _Gathered(passes, np.sort(own))
        for first in range(0, len(kept), n_together):
            some = kept[first : first + n_together]
            others = _Gathered(passes, np.sort(numbers[some])).rows(numbers[some])
            for block in range(0, len(own), _BLOCK_ROWS):
                thinning.meet(gathered.rows(own[block : block + _BLOCK_ROWS]), start + block, others, some)
        fresh = _none()
        for block in range(0, len(own), _BLOCK_ROWS):
            rows = gathered.rows(own[block : block + _BLOCK_ROWS])
            thinning.meet(rows, start + block, gathered.rows(numbers[fresh]), fresh)
            places = start + block + np.flatnonzero(thinning.decide(rows, start + block))
            fresh = np.concatenate([fresh, places])
        kept = np.concatenate([kept, fresh])
    return thinning.gone(numbers)


def _met(gathered: _Gathered, guests: Numbers, members: Numbers, threshold: float) -> Pairs:
    """Pairs of a guest and a member that are near, both in memory."""
    one, other, values = _near(gathered.rows(guests), gathered.rows(members), threshold)
    return Pairs(guests[one], members[other], values)


def _met_in_turn(passes: Passes, guests: Numbers, members: Numbers, threshold: float) -> Iterator[Pairs]:
    """The same, some at a time."""
    n_together = max(_BLOCK_ROWS, _rows_together(passes.points.n_features) // 2)
    for start in range(0, len(members), n_together):
        own = members[start : start + n_together]
        gathered = _Gathered(passes, own)
        for first in range(0, len(guests), n_together):
            some = guests[first : first + n_together]
            others = _Gathered(passes, some)
            for block in range(0, len(some), _BLOCK_ROWS):
                part = some[block : block + _BLOCK_ROWS]
                one, other, values = _near(others.rows(part), gathered.rows(own), threshold)
                yield Pairs(part[one], own[other], values)


def _labelled(numbers: Numbers, labels: npt.NDArray[np.int32]) -> Iterator[tuple[int, Numbers]]:
    """Each label with its rows."""
    if not len(numbers):
        return
    order = np.argsort(labels, kind="stable")
    values, starts = np.unique(labels[order], return_index=True)
    for value, own in zip(values, np.split(numbers[order], starts[1:]), strict=True):
        yield int(value), own


def _joined(parts: Sequence[Gone] | Sequence[Pairs]) -> tuple[Numbers, Numbers, Float64Array]:
    first = np.concatenate([_none(), *(part[0] for part in parts)])
    second = np.concatenate([_none(), *(part[1] for part in parts)])
    return first, second, np.concatenate([np.empty(0), *(part[2] for part in parts)])


def _none() -> Numbers:
    return np.empty(0, dtype=np.int64)
