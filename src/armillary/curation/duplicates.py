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
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary._typing import ArrayLike, Float64Array, FloatArray
from armillary.curation.nearest import Nearest, checked_directions, nearest_of
from armillary.engines.contract import Here, Numbers, Passes
from armillary.engines.select import checked_points, open_passes
from armillary.exceptions import InputError
from armillary.models.means.spherical_kmeans import SphericalKMeans
from armillary.points import SparseBlock, as_float64
from armillary.rules import AffineRule
from armillary.validation import check_integer, check_number, check_numbers

# Rows compared with each other at a time, and numbers of rows gathered at a time, 256 MiB of float32: rows of a cluster
# lie all over a file, so that fewer would read it more often.
_BLOCK_ROWS = 512
_GATHERED_VALUES = 1 << 26
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
    n_searched: int = 8,
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
    n_searched : int, default=8
        Most clusters that a row is compared with, its own included.
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
    most = check_integer(n_searched, "n_searched", who, low=1)
    points = checked_points(X, who)
    order = priority_order(priority, points.n_rows, who)
    directions = (
        _made_directions(X, points.n_rows, n_threads)
        if model is None
        else checked_directions(model, who, points.n_features)
    )
    with open_passes(points, n_threads, who) as passes:
        search = Search.of(nearest_of(passes, directions, most + 1), least, most, order)
        gone = [search.within(passes, group) for group in search.groups(points.n_features)]
        settled = search.settled(gone)
        pairs = [settled.across(passes, group) for group in settled.groups(points.n_features)]
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
    return 1.0 if n_pairs == 0 else 1.0 - n_missed / n_pairs


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


@dataclass(frozen=True, eq=False)
class Search:
    """Which rows are compared with which: K-sized tables and a few numbers beside each row."""

    labels: npt.NDArray[np.int32]  # (n,)
    borders: tuple[Numbers, npt.NDArray[np.int32]]  # rows that reach into another cluster, and which: (m,) each
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
        cls, parts: Sequence[Borders], threshold: float, ranks: npt.NDArray[np.int64], n_clusters: int = 0
    ) -> Search:
        """From what is known of stretches of rows, in their order."""
        labels = np.concatenate([part.labels for part in parts])
        starts = np.cumsum([0, *(len(part.labels) for part in parts)])
        rows = np.concatenate([part.rows + start for part, start in zip(parts, starts, strict=False)])
        clusters = np.concatenate([part.clusters for part in parts])
        n_clusters = max(n_clusters, 1 + int(max(labels.max(initial=0), clusters.max(initial=0))))
        return cls(labels, (rows, clusters), ranks, n_clusters, threshold, sum(part.n_truncated for part in parts))

    def groups(self, n_features: int) -> list[tuple[int, int]]:
        """Clusters from..to that are worked on together: their rows are read in one go."""
        n_together = max(1, _GATHERED_VALUES // n_features)
        sizes = np.bincount(self.labels, minlength=self.n_clusters)
        sizes += np.bincount(self.borders[1], minlength=self.n_clusters)
        wanted = np.arange(n_together, sizes.sum() + n_together, n_together)
        ends = np.searchsorted(np.cumsum(sizes), wanted)
        edges = np.unique(np.concatenate([[0], np.minimum(ends + 1, self.n_clusters)]))
        return list(pairwise(edges.tolist()))

    def within(self, passes: Passes, group: tuple[int, int]) -> Gone:
        """Rows of some clusters that go for another one of their own cluster."""
        first, last = group
        numbers = np.flatnonzero((self.labels >= first) & (self.labels < last))
        gathered = _Gathered(passes, numbers)
        parts = []
        for _, members in _labelled(numbers, self.labels[numbers]):
            ordered = members[np.argsort(self.ranks[members])]
            parts.append(_thinned(gathered.rows(ordered), ordered, self.threshold))
        return _joined(parts)

    def settled(self, gone: Sequence[Gone]) -> Search:
        """What is left after that, to be compared across borders."""
        kept_for = np.arange(len(self.labels))
        cosines = np.ones(len(self.labels), dtype=np.float32)
        for part in gone:
            kept_for[part.numbers] = part.kept
            cosines[part.numbers] = part.cosines
        is_kept = kept_for == np.arange(len(kept_for))
        rows, clusters = self.borders
        still = is_kept[rows]
        labels = np.where(is_kept, self.labels, -1).astype(np.int32)
        borders = rows[still], clusters[still]
        return Search(
            labels, borders, self.ranks, self.n_clusters, self.threshold, self.n_truncated, kept_for, cosines
        )._without_gone()

    def _without_gone(self) -> Search:
        # rows that went have a cluster of their own, the last, which nobody is compared with
        labels = np.where(self.labels < 0, self.n_clusters, self.labels).astype(np.int32)
        return Search(
            labels,
            self.borders,
            self.ranks,
            self.n_clusters + 1,
            self.threshold,
            self.n_truncated,
            self.kept_for,
            self.cosines,
        )

    def across(self, passes: Passes, group: tuple[int, int]) -> Pairs:
        """Near rows of which one is in one of these clusters and the other reaches into it."""
        first, last = group[0], min(group[1], self.n_clusters - 1)
        rows, clusters = self.borders
        here = (clusters >= first) & (clusters < last)
        rows, clusters = rows[here], clusters[here]
        wanted = np.zeros(self.n_clusters, dtype=np.bool_)
        wanted[clusters] = True
        numbers = np.flatnonzero(wanted[self.labels])
        gathered = _Gathered(passes, np.union1d(numbers, rows))
        guests = {int(label): own for label, own in _labelled(rows, clusters)}
        parts: list[Pairs] = []
        for label, members in _labelled(numbers, self.labels[numbers]):
            parts.extend(_near(gathered, guests[label], members, self.threshold))
        if not parts:
            return Pairs(_none(), _none(), np.empty(0))
        return Pairs(*(np.concatenate(some) for some in zip(*parts, strict=True)))

    def result(self, pairs: Sequence[Pairs]) -> Duplicates:
        """All of it: across borders rows go by the same rule."""
        assert self.kept_for is not None
        assert self.cosines is not None
        kept_for, cosines = self.kept_for.copy(), self.cosines.copy()
        first = np.concatenate([_none(), *(part.first for part in pairs)])
        second = np.concatenate([_none(), *(part.second for part in pairs)])
        values = np.concatenate([np.empty(0), *(part.cosines for part in pairs)])
        is_swapped = self.ranks[first] > self.ranks[second]
        early, late = np.where(is_swapped, second, first), np.where(is_swapped, first, second)
        order = np.lexsort((self.ranks[early], -values, self.ranks[late]))
        early, late, values = early[order], late[order], values[order]
        for row, before, value in zip(late.tolist(), early.tolist(), values.tolist(), strict=True):
            # the nearest comes first, so that a row goes once
            if kept_for[row] == row and kept_for[before] == before:
                kept_for[row], cosines[row] = before, value
        direct = kept_for.copy()
        while (further := kept_for[kept_for]).tobytes() != kept_for.tobytes():
            kept_for = further
        n_chained = int(np.count_nonzero(direct != kept_for))
        return Duplicates(kept_for, cosines, self.threshold, self.n_truncated, n_chained)


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


class _Gathered:
    """Some rows in memory, known by their numbers among all."""

    def __init__(self, passes: Passes, numbers: Numbers) -> None:
        self._numbers = numbers
        block = passes.rows(numbers).block if len(numbers) else None
        self._rows: Any = block if isinstance(block, np.ndarray) or block is None else as_float64(block)
        assert not isinstance(self._rows, SparseBlock)

    def rows(self, numbers: Numbers) -> Any:
        """Of these numbers, unit in float64: an array or CSR."""
        rows = self._rows[np.searchsorted(self._numbers, numbers)]
        if sp.issparse(rows):
            return rows
        wide = rows.astype(np.float64)
        return wide / np.sqrt(np.vecdot(wide, wide))[:, None]


def _products(rows: Any, others: Any) -> Float64Array:
    found = rows @ others.T
    return np.asarray(found if isinstance(found, np.ndarray) else found.toarray())


def _thinned(rows: Any, numbers: Numbers, threshold: float) -> Gone:
    """Rows in their order: which go for one that was kept before, the nearest of those."""
    kept: list[int] = []
    gone: list[tuple[int, int, float]] = []
    for start in range(0, len(numbers), _BLOCK_ROWS):
        stop = min(start + _BLOCK_ROWS, len(numbers))
        block = rows[start:stop]
        before = _products(block, rows[kept]) if kept else np.empty((stop - start, 0))
        among = _products(block, block)
        best = before.max(axis=1, initial=-np.inf)
        # rows that are near one of their own block are decided one after the other
        is_near: npt.NDArray[np.bool_] = np.asarray(np.tril(among >= threshold, -1).any(axis=1))
        n_before = len(kept)
        fresh: list[int] = []
        for place in range(stop - start):
            nearest, value = -1, float(best[place])
            if value >= threshold:
                nearest = kept[int(before[place].argmax())]
            if is_near[place] and fresh:
                own = among[place, fresh]
                if own.max() >= threshold and own.max() > value:
                    nearest, value = start + fresh[int(own.argmax())], float(own.max())
            if nearest < 0:
                fresh.append(place)
                kept.append(start + place)
            else:
                gone.append((start + place, nearest, value))
        assert len(kept) == n_before + len(fresh)
    if not gone:
        return Gone(_none(), _none(), np.empty(0))
    places, targets, cosines = (np.array(some) for some in zip(*gone, strict=True))
    return Gone(numbers[places], numbers[targets], np.minimum(cosines, 1.0))


def _near(gathered: _Gathered, guests: Numbers, members: Numbers, threshold: float) -> Iterator[Pairs]:
    """Pairs of a guest and a member that are near."""
    rows = gathered.rows(members)
    for start in range(0, len(guests), _BLOCK_ROWS):
        some = guests[start : start + _BLOCK_ROWS]
        cosines = _products(gathered.rows(some), rows)
        one, other = np.nonzero(cosines >= threshold)
        yield Pairs(some[one], members[other], np.minimum(cosines[one, other], 1.0))


def _labelled(numbers: Numbers, labels: npt.NDArray[np.int32]) -> Iterator[tuple[int, Numbers]]:
    """Each label with its rows."""
    if not len(numbers):
        return
    order = np.argsort(labels, kind="stable")
    values, starts = np.unique(labels[order], return_index=True)
    for value, own in zip(values, np.split(numbers[order], starts[1:]), strict=True):
        yield int(value), own


def _joined(parts: Sequence[Gone]) -> Gone:
    if not parts:
        return Gone(_none(), _none(), np.empty(0))
    numbers, kept, cosines = zip(*parts, strict=True)
    return Gone(np.concatenate(numbers), np.concatenate(kept), np.concatenate(cosines))


def _none() -> Numbers:
    return np.empty(0, dtype=np.int64)
