"""Many passes as one: rows in parts, worked in any order, with the bits of rows in one piece.

A part is passes over some rows in a row: a chunk of a file, a share of a machine, an array of a list. `Partitioned`
asks every part the same and merges the answers: sums are whole numbers, labels and columns stay with their part,
numbers of rows are split at the edges, and draws are keyed by `first_row`. How parts are worked is one function,
`run`: in turn, read ahead from a disk, in threads, or on other machines.

What is needed of a part is what `engines/contract.py` says, and that its columns and labels are those of
`engines/cpu.py`, or answer the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, pairwise
from typing import Any, Protocol, Self, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.engines.contract import (
    Algorithm,
    Between,
    Counted,
    Directed,
    FewRows,
    Folder,
    Host,
    Labelled,
    Numbered,
    Numbers,
    Outcome,
    Passes,
    Placed,
    RowFunction,
    Rule,
    Scaled,
    Shuffled,
    Span,
    What,
    Which,
)
from armillary.engines.cpu import chosen_rows
from armillary.engines.cpu_column import Left, mass_grid, mass_targets
from armillary.engines.parted_sets import PartedHalves, PartedPartition
from armillary.exceptions import InputError
from armillary.points import everywhere, joined_blocks
from armillary.rules import AffineRule, Anchors
from armillary.sums import whole
from armillary.sums.directional import DirectionalStatistics

T = TypeVar("T")
# What parts gave out comes back to them.
OwnLabels: TypeAlias = Any
OwnColumn: TypeAlias = Any


class Run(Protocol):
    """How parts are worked: `task(number, passes)` of every part, its results in the order of the parts."""

    def __call__(self, task: Callable[[int, Any], T], parts: Sequence[Any]) -> list[T]:
        """Work them, in any order."""


def in_turn(task: Callable[[int, Any], T], parts: Sequence[Any]) -> list[T]:
    """One part after the other."""
    return [task(number, part) for number, part in enumerate(parts)]


@dataclass(frozen=True, eq=False)
class PartedPoints:
    """The rows of all parts: what is known of them without looking at any."""

    engine: str
    who: str
    n_rows: int
    n_features: int
    dtype: np.dtype[Any]
    width: float
    is_sparse: bool
    has_weights: bool
    total_weight: float
    q: int
    first_row: int = 0
    scale: float = 1.0
    is_present: npt.NDArray[np.bool_] | None = None

    @property
    def n_given(self) -> int:
        """How many rows came, those that are missing included."""
        return self.n_rows if self.is_present is None else len(self.is_present)

    def spread(self, found: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Numbers of the rows that are here (n, ...), for all that came: NaN for those that are missing."""
        return everywhere(found, self.is_present, np.nan)

    @classmethod
    def of(cls, parts: Sequence[Passes], engine: str = "partitioned") -> Self:
        """What the parts say, which know their place (`Placed`)."""
        points = [part.points for part in parts]
        first, n_rows = points[0], sum(part.n_rows for part in points)
        return cls(
            engine=engine,
            who=first.who,
            n_rows=n_rows,
            n_features=first.n_features,
            dtype=first.dtype,
            width=sum(part.width * part.n_rows for part in points) / max(1, n_rows),
            is_sparse=first.is_sparse,
            has_weights=any(part.has_weights for part in points),
            total_weight=math.fsum(part.total_weight for part in points),
            q=first.q,
            first_row=first.first_row,
            scale=first.scale,
        )


class _Edges:
    """Where parts begin and end among the rows."""

    def __init__(self, sizes: Iterable[int]) -> None:
        self.edges = np.array([0, *accumulate(sizes)], dtype=np.int64)

    @property
    def n_rows(self) -> int:
        return int(self.edges[-1])

    def spans(self) -> list[tuple[int, int]]:
        """From..to of each part."""
        return list(pairwise(self.edges.tolist()))

    def split(self, numbers: npt.NDArray[np.integer[Any]]) -> list[tuple[npt.NDArray[np.intp], Numbers]]:
        """For each part the places of its rows in `numbers`, and their numbers within the part."""
        given = np.asarray(numbers, dtype=np.int64)
        owners = np.searchsorted(self.edges, given, side="right") - 1
        found = []
        for number in range(len(self.edges) - 1):
            places = np.flatnonzero(owners == number)
            found.append((places, given[places] - self.edges[number]))
        return found

    def within(self, span: Span, number: int) -> Span:
        """The rows of a span that are in a part, as the part counts; None where it has none of them."""
        first, last = (0, self.n_rows) if span is None else span
        start, stop = self.edges[number], self.edges[number + 1]
        inside = int(max(first, start) - start), int(min(last, stop) - start)
        return inside if inside[0] < inside[1] else None


class PartedLabels:
    """The labels of all parts; see `engines/contract.py`."""

    def __init__(
        self, parts: list[Any], edges: _Edges, is_present: npt.NDArray[np.bool_] | None = None, run: Run | None = None
    ) -> None:
        self.parts = parts
        self._edges = edges
        self._is_present = is_present
        self._work = in_turn if run is None else run

    def _run(self, task: Callable[[int, Any], T]) -> list[T]:
        return self._work(task, self.parts)

    def sizes(self, n_clusters: int, *, counted: bool = False) -> npt.NDArray[np.int64]:
        """Rows with each label (K,)."""
        return np.sum(self._run(lambda _, part: part.sizes(n_clusters, counted=counted)), axis=0)

    def at(self, numbers: Numbers) -> npt.NDArray[np.int32]:
        """The labels of a few rows (m,)."""
        return _taken(self._run, self._edges.split(numbers), np.dtype(np.int32), lambda part, own: part.at(own))

    def put(self, numbers: Numbers, values: npt.ArrayLike) -> None:
        """Give a few rows their labels."""
        given = np.broadcast_to(np.asarray(values), np.shape(numbers))
        split = self._edges.split(numbers)

        def task(number: int, part: Any) -> None:
            places, own = split[number]
            if len(own):
                part.put(own, given[places])

        self._run(task)

    def fill(self, label: int, span: Span = None) -> None:
        """Give the rows of the span one label."""

        def task(number: int, part: Any) -> None:
            inside = self._edges.within(span, number)
            if inside is not None:
                part.fill(label, inside)

        self._run(task)

    def keep(self, is_kept: npt.NDArray[np.bool_]) -> None:
        """Drop clusters that have no rows; the others move up and keep their order."""
        self._run(lambda _, part: part.keep(is_kept))

    def copy(self) -> PartedLabels:
        """The same labels, to be changed by themselves."""
        return PartedLabels(self._run(lambda _, part: part.copy()), self._edges, self._is_present, self._work)

    def rename(self, table: npt.NDArray[np.integer[Any]]) -> None:
        """Label k becomes table[k]; negative ones stay."""
        self._run(lambda _, part: part.rename(table))

    def first_rows(self, is_sought: npt.NDArray[np.bool_], span: Span = None) -> Numbers:
        """The first row of the span with each label (K,) that is sought; n where there is none."""
        first = np.full(len(is_sought), self._edges.n_rows, dtype=np.int64)
        spans = [self._edges.within(span, number) for number in range(len(self.parts))]
        every = self._run(
            lambda number, part: None if spans[number] is None else part.first_rows(is_sought, spans[number])
        )
        for found, (start, stop) in zip(reversed(every), reversed(self._edges.spans()), strict=True):
            if found is not None:
                is_found = is_sought & (found < stop - start)
                first[is_found] = start + found[is_found]
        return first

    def last_rows(self, is_sought: npt.NDArray[np.bool_]) -> Numbers:
        """The last row with each label (K,) that is sought; -1 where there is none."""
        last = np.full(len(is_sought), -1, dtype=np.int64)
        every = self._run(lambda _, part: part.last_rows(is_sought))
        for found, (start, _) in zip(every, self._edges.spans(), strict=True):
            is_found = is_sought & (found >= 0)
            last[is_found] = start + found[is_found]
        return last

    def surplus(self, room: npt.NDArray[np.int64]) -> Numbers:
        """The rows with each label k beyond the first room[k] (K,), in their order."""
        found, left = [], room
        for part, (start, _) in zip(self.parts, self._edges.spans(), strict=True):
            found.append(start + part.surplus(left))
            left = np.maximum(left - part.sizes(len(room)), 0)
        return np.concatenate(found)

    def refused(self, span: Span, most: int) -> Numbers:
        """The first rows of the span with a negative label, at most so many."""
        found: list[Numbers] = []
        n_left = most
        for number, (part, (start, _)) in enumerate(zip(self.parts, self._edges.spans(), strict=True)):
            inside = self._edges.within(span, number)
            if inside is not None and n_left > 0:
                found.append(start + part.refused(inside, n_left))
                n_left -= len(found[-1])
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def n_refused(self, *, counted: bool = False) -> int:
        """How many rows have a negative label; with `counted`, of weight above 0."""
        return sum(self._run(lambda _, part: part.n_refused(counted=counted)))

    def forget(self) -> None:
        """The clusters are no longer those of the last pass."""
        self._run(lambda _, part: part.forget())

    def to_host(self, names: npt.NDArray[np.int64] | None = None) -> npt.NDArray[Any]:
        """The labels (n,) as an array for the user."""
        # one part after the other: they may be asked for when the passes are closed and the labels at home already
        return everywhere(np.concatenate([part.to_host(names) for part in self.parts]), self._is_present)


class PartedColumn:
    """The columns of all parts; see `engines/contract.py`."""

    def __init__(self, parts: list[Any], edges: _Edges, q: int, run: Run | None = None) -> None:
        self.parts = parts
        self._edges = edges
        self._q = q
        self._work = in_turn if run is None else run

    def _run(self, task: Callable[[int, Any], T]) -> list[T]:
        return self._work(task, self.parts)

    def top(self) -> float:
        """The largest value; 0 where there are no rows."""
        return max(self._run(lambda _, part: part.top()))

    def pick(self, uniforms: Float64Array) -> Numbers:
        """Rows drawn with the probability of weight times value: whole numbers, so the cut does not matter."""
        q = mass_grid(self._q, self.top())
        masses = self._run(lambda _, part: part.masses(q))
        sums = np.cumsum([part.total for part in masses])
        if sums[-1] <= 0.0:
            return np.empty(0, dtype=np.int64)
        targets = mass_targets(uniforms, float(sums[-1]), q)
        owners = np.searchsorted(sums, targets, side="right")
        picked = np.empty(len(targets), dtype=np.int64)

        def task(number: int, _: Any) -> None:
            places = np.flatnonzero(owners == number)
            if len(places):
                before = sums[number - 1] if number else 0.0
                # exact, as all of these are whole
                picked[places] = self._edges.edges[number] + masses[number].reached(targets[places] - before)

        self._run(task)
        return picked

    def farthest(self, n_ignored: int = 0) -> int:
        """The row with the largest value but for `n_ignored` others; the first of equals."""
        largest = np.sort(np.concatenate(self._run(lambda _, part: part.largest(n_ignored + 1))))
        value = float(largest[-(n_ignored + 1)])
        for found, (start, _) in zip(self._run(lambda _, part: part.find(value)), self._edges.spans(), strict=True):
            if found >= 0:
                return start + int(found)
        raise AssertionError("the largest value is somewhere")

    def least(self, most: int, *, counted: bool = False) -> Numbers:
        """The rows with the smallest values, in their order, equals by number."""
        own = self._run(lambda _, part: part.least(most, counted=counted))
        numbers = np.concatenate([start + few for few, (start, _) in zip(own, self._edges.spans(), strict=True)])
        values = np.concatenate(self._run(lambda number, part: part.at(own[number])))
        return numbers[np.lexsort((numbers, values))][:most]

    def to_host(self) -> FloatArray:
        """The values (n,)."""
        return np.concatenate(self._run(lambda _, part: part.to_host()))


class PartedGroups:
    """The groups of all parts."""

    def __init__(self, parts: list[Any], run: Run) -> None:
        self.parts = parts
        self._work = run

    def merge(self, kept: int, gone: int) -> None:
        """Give the rows of `gone` to `kept`."""
        self._work(lambda _, part: part.merge(kept, gone), self.parts)


class Partitioned:
    """Passes over the rows of all parts, in their order; see `engines/contract.py`."""

    def __init__(self, parts: Sequence[Any], run: Run = in_turn, points: PartedPoints | None = None) -> None:
        self.parts = parts
        self.points = PartedPoints.of(parts) if points is None else points
        self._work = run
        self._edges = _Edges(part.points.n_rows for part in parts)

    @classmethod
    def cut(cls, passes: Passes, edges: Sequence[int], run: Run = in_turn) -> Self:
        """The rows of `passes` in parts that end at these numbers, the last of which is that of all rows."""
        spans = pairwise([0, *edges])
        parts = [passes.over(Between(*span)) for span in spans]
        return cls(_placed(parts, passes.points.first_row, passes.points.q), run)

    def _run(self, task: Callable[[int, Any], T]) -> list[T]:
        return self._work(task, self.parts)

    @property
    def host(self) -> Host:
        """What the host does with a few rows."""
        return cast(Host, self.parts[0].host)

    # ------------------------------------------------------------------------------------- beside the rows

    def _labels(self, parts: list[Any]) -> PartedLabels:
        return PartedLabels(parts, self._edges, self.points.is_present, self._work)

    def _column(self, parts: list[Any]) -> PartedColumn:
        return PartedColumn(parts, self._edges, self.points.q, self._work)

    def labels(
        self,
        algorithm: Algorithm = "lloyd",
        n_clusters: int | None = None,
        into: npt.NDArray[np.int32] | None = None,
    ) -> PartedLabels:
        """Labels, all -1. They lie with their parts, so that nothing is kept in `into`."""
        return self._labels(self._run(lambda _, part: part.labels(algorithm, n_clusters)))

    def labels_from(self, values: npt.NDArray[np.integer[Any]]) -> PartedLabels:
        """Labels that a user gave (n,)."""
        given = np.asarray(values)
        spans = self._edges.spans()
        return self._labels(self._run(lambda number, part: part.labels_from(given[slice(*spans[number])])))

    def random_labels(self, n_clusters: int, generator: np.random.Generator) -> PartedLabels:
        """A label from 0 to K - 1 for each row, by chance: drawn for all at once, as one piece would."""
        return self.labels_from(generator.integers(n_clusters, size=self.points.n_rows, dtype=np.int32))

    def column(self, fill: float, *, is_exact: bool = False) -> PartedColumn:
        """One number beside each row."""
        return self._column(self._run(lambda _, part: part.column(fill, is_exact=is_exact)))

    def own(self, rule: AffineRule, labels: OwnLabels) -> PartedColumn:
        """The float64 score of each row with its own label."""
        return self._column(self._run(lambda number, part: part.own(rule, labels.parts[number])))

    def inverse_lengths(self) -> PartedColumn:
        """1 / |x| of each row, to float64 precision."""
        return self._column(self._run(lambda _, part: part.inverse_lengths()))

    def lower(self, column: OwnColumn, rule: AffineRule, *, is_exact: bool = False) -> None:
        """Lower to 1 - the best score of the rule, where that is less."""
        self._run(lambda number, part: part.lower(column.parts[number], rule, is_exact=is_exact))

    def left(self, column: OwnColumn, rule: AffineRule) -> Float64Array:
        """The weighted sum that would remain if each cluster of the rule (K,) were used to `lower` by itself."""
        return self.fold(rule, Left(mass_grid(self.points.q, column.top())), columns=(column,))

    def groups(self, labels: OwnLabels, n_clusters: int) -> PartedGroups:
        """Rows by their label."""
        return PartedGroups(self._run(lambda number, part: part.groups(labels.parts[number], n_clusters)), self._work)

    def lowest(self, groups: Any, rule: AffineRule, clusters: Iterable[int]) -> float:
        """The lowest float64 score that a row of some clusters has with a rule of one cluster; inf for no rows."""
        wanted = tuple(clusters)
        return min(self._run(lambda number, part: part.lowest(groups.parts[number], rule, wanted)))

    # ------------------------------------------------------------------------------------------ the passes

    def label(self, rule: AffineRule, labels: OwnLabels, *, span: Span = None, sums: bool = True) -> Outcome:
        """Write the best cluster of each row of the span over its label, or refuse the row."""

        def task(number: int, part: Any) -> Outcome:
            own = labels.parts[number]
            inside = self._edges.within(span, number)
            if inside is None:
                return Outcome(part.sum(own, len(rule.offsets)) if sums else None)
            # a span stays one where it covers a part: what labels know besides is of passes over all rows
            outcome: Outcome = part.label(rule, own, span=None if span is None else inside, sums=sums)
            return outcome

        return reduce(Outcome.merge, self._run(task))

    def name(
        self, rule: AffineRule, names: npt.NDArray[np.int64], over: OwnLabels | None = None
    ) -> npt.NDArray[np.int64]:
        """The name of the best cluster of each row, for the user."""
        parts = self._run(lambda number, part: part.name(rule, names, None if over is None else over.parts[number]))
        return everywhere(np.concatenate(parts), self.points.is_present)

    def share(self, rule: AffineRule, *, is_lent: bool = False) -> Outcome:
        """Sums with every row shared by responsibility, and the evidence.

        They are added lane after lane, as in one piece: each part has the sums of its lanes ready, and adds them to
        those of the parts before it. So parts that end where lanes do have the bits of one piece.
        """
        outcome: Outcome | None = None
        for lanes in self._run(lambda _, part: part.shared_lanes(rule)):
            outcome = lanes.onto(outcome)
        assert outcome is not None, "there is a part at least"
        return outcome

    def evidence(self, rule: AffineRule) -> float:
        """The weighted sum over rows of log sum exp score."""
        return math.fsum(self._run(lambda _, part: part.evidence(rule)))

    def anchors(self, labels: OwnLabels, key: tuple[int, int], n_clusters: int) -> Anchors:
        """The row of each cluster with the lowest priority."""
        found = self._run(lambda number, part: part.anchors(labels.parts[number], key, n_clusters))
        return reduce(_first_anchors, found)

    def draw(self, rule: Rule, labels: OwnLabels, key: tuple[int, int], anchors: Anchors | None = None) -> None:
        """Write one draw per row over its label, among the clusters that its priority allows; anchors stay."""
        self._run(lambda number, part: part.draw(rule, labels.parts[number], key, anchors))

    def sum(
        self, labels: OwnLabels | None, n_clusters: int, within: tuple[int, int] | None = None
    ) -> DirectionalStatistics:
        """Statistics of the labelled rows; None: all rows as cluster 0. `within`: of the clusters from..to alone."""
        found: list[DirectionalStatistics] = self._run(
            lambda number, part: part.sum(None if labels is None else labels.parts[number], n_clusters, within)
        )
        return reduce(DirectionalStatistics.merge, found)

    def move(self, labels: OwnLabels, numbers: Numbers, values: npt.ArrayLike) -> None:
        """Give a few rows their labels; sums that are known stay so."""
        given, split = np.asarray(values), self._edges.split(numbers)

        def task(number: int, part: Any) -> None:
            places, own = split[number]
            if len(own):
                part.move(labels.parts[number], own, given[places])

        self._run(task)

    def weigh(self, labels: OwnLabels, n_clusters: int) -> Float64Array:
        """The sum of the weights of each cluster's rows (K,)."""
        return np.sum(self._run(lambda number, part: part.weigh(labels.parts[number], n_clusters)), axis=0)

    def compare(self, rule: AffineRule, labels: OwnLabels, first: int, own: OwnColumn, nearest: OwnColumn) -> None:
        """Write scores with own clusters over `own`, and raise `nearest` to the largest of the others."""
        self._run(
            lambda number, part: part.compare(
                rule, labels.parts[number], first, own.parts[number], nearest.parts[number]
            )
        )

    def fold(
        self,
        rule: AffineRule | None,
        folder: Folder[Any, T],
        labels: OwnLabels | None = None,
        columns: Sequence[OwnColumn] = (),
    ) -> T:
        """A summary of the scores of all rows, with what lies beside them; without a rule, of that alone."""
        if getattr(folder, "is_mergeable", False):
            return folder.join(
                self._run(lambda number, part: part.fold(rule, folder, *_beside(number, labels, columns)))
            )
        gathered = _Gathered(folder)
        found = self._run(lambda number, part: part.fold(rule, gathered, *_beside(number, labels, columns)))
        return folder.join([one for parts in found for one in parts])

    def values(
        self,
        rule: Rule | None,
        what: What | RowFunction,
        labels: OwnLabels | None = None,
        columns: Sequence[OwnColumn] = (),
    ) -> npt.NDArray[Any]:
        """Something of each row for the user, (n,) or (n, K)."""
        return np.concatenate(
            self._run(lambda number, part: part.values(rule, what, *_beside(number, labels, columns)))
        )

    def mean(self, values: npt.NDArray[Any]) -> float:
        """The mean of something of each row (n,), weighted as the rows are."""
        spans = self._edges.spans()
        parts = self._run(
            lambda number, part: (
                part.mean(values[slice(*spans[number])]) * part.points.total_weight if part.points.total_weight else 0.0
            )
        )
        return math.fsum(parts) / self.points.total_weight

    # -------------------------------------------------------------------------------------------- few rows

    def rows(self, numbers: range | Numbers) -> FewRows:
        """A few rows on the host."""
        given = np.arange(numbers.start, numbers.stop) if isinstance(numbers, range) else np.asarray(numbers)
        split = self._edges.split(given)
        found = self._run(lambda number, part: part.rows(split[number][1]) if len(split[number][1]) else None)
        few = [one for one in found if one is not None] or [self.parts[0].rows(given)]
        places = np.concatenate([own for own, _ in split])
        back = np.argsort(places)
        weights = None
        if self.points.has_weights:
            weights = np.concatenate([one.weights for one in few if one.weights is not None])[back]
        return FewRows(given.astype(np.int64), joined_blocks([one.block for one in few], back), weights)

    def unit_rows(self, numbers: npt.ArrayLike) -> Float64Array:
        """A few rows (m, D), dense and of unit length in float64."""
        given = np.asarray(numbers, dtype=np.int64)
        found = np.empty((len(given), self.points.n_features))
        split = self._edges.split(given)
        parts = self._run(lambda number, part: part.unit_rows(split[number][1]) if len(split[number][1]) else None)
        for (places, _), rows in zip(split, parts, strict=True):
            if rows is not None:
                found[places] = rows
        return found

    def weights_at(self, numbers: Numbers) -> Float64Array | None:
        """The weights of a few rows (m,)."""
        if not self.points.has_weights:
            return None
        split = self._edges.split(numbers)
        return _taken(self._run, split, np.dtype(np.float64), lambda part, own: part.weights_at(own))

    def choose(self, n_rows: int, generator: np.random.Generator) -> Numbers:
        """Distinct rows, each drawn with the probability of its weight; the weights come home for it."""
        weights = None
        if self.points.has_weights:
            weights = np.concatenate(self._run(lambda _, part: part.weights_at(np.arange(part.points.n_rows))))
        return chosen_rows(self.points.n_rows, weights, n_rows, generator)

    def partition(self, labels: OwnLabels) -> PartedPartition:
        """All rows by their labels, which have no gaps."""
        return PartedPartition(self, labels, self.n_labels(labels))

    def halves(self, is_left: npt.NDArray[np.bool_] | None = None) -> PartedHalves:
        """A side beside each row: as given (n,), or all right."""
        spans = self._edges.spans()
        parts = self._run(lambda number, part: part.halves(None if is_left is None else is_left[slice(*spans[number])]))
        return PartedHalves(self, parts)

    def n_labels(self, labels: OwnLabels) -> int:
        """One more than the largest label."""
        return 1 + max(self._run(lambda number, part: part.top_label(labels.parts[number])))

    def top_label(self, labels: OwnLabels) -> int:
        """The largest label."""
        return self.n_labels(labels) - 1

    def run_over(self, task: Callable[[int, Any], T], things: Sequence[Any]) -> list[T]:
        """`task(number, thing)` of what each part gave out."""
        return self._work(task, things)

    def spans(self) -> list[tuple[int, int]]:
        """From..to of each part."""
        return self._edges.spans()

    def each(self, spans: Sequence[tuple[int, int]], task: Callable[[int, Any], T]) -> list[T]:
        """`task(number, passes)` over the rows of each span, in turn."""
        return [task(number, self.over(Between(*span))) for number, span in enumerate(spans)]

    def by_feature(self, edges: npt.NDArray[np.int64]) -> None:
        """Features are those of all parts: not here."""
        return

    def over(self, which: Which) -> Self:
        """Passes over some of the rows, as rows of their own; these themselves where that is all rows as they are."""
        match which:
            case Counted() | Directed():
                chosen = [part.over(which) for part in self.parts]
            case Between(first, last):
                inside = [self._edges.within((first, last), number) for number in range(len(self.parts))]
                chosen = [
                    part.over(Between(*span)) for part, span in zip(self.parts, inside, strict=True) if span is not None
                ]
            case Labelled(labels, label):
                own = cast(PartedLabels, labels).parts
                chosen = [part.over(Labelled(own[number], label)) for number, part in enumerate(self.parts)]
            case Scaled(column):
                columns = cast(PartedColumn, column).parts
                chosen = [part.over(Scaled(columns[number])) for number, part in enumerate(self.parts)]
            case Numbered(numbers):
                return self._numbered(numbers)
            case Placed(first_row, q):
                return self._of(self.parts, first_row, q)
            case Shuffled():
                raise InputError(
                    f"Rows of {self.points.who} that are in parts must be taken in their order; got a request for a "
                    "random one. Use n_init=1, or give the rows as one array."
                )
        if len(chosen) == len(self.parts) and all(new is old for new, old in zip(chosen, self.parts, strict=True)):
            return self
        filled = [part for part in chosen if part.points.n_rows] or chosen[:1]
        # rows without weight are in no sum: those of the others have the grid that they had
        grid = self.points.q if isinstance(which, Counted) else None
        return self._of(filled, self.points.first_row + which.first if isinstance(which, Between) else 0, grid)

    def _numbered(self, numbers: Numbers) -> Self:
        if np.any(np.diff(numbers) < 0):
            raise InputError(
                f"Rows of {self.points.who} that are in parts must be asked for in their order; got numbers that fall. "
                "Sort them."
            )
        split = self._edges.split(numbers)
        chosen = [part.over(Numbered(own)) for part, (_, own) in zip(self.parts, split, strict=True) if len(own)]
        return self._of(chosen or [self.parts[0].over(Numbered(numbers))])

    def _of(self, parts: Sequence[Any], first_row: int = 0, q: int | None = None) -> Self:
        """Passes over parts of these parts, as rows of their own."""
        placed = _placed(parts, first_row, q)
        return type(self)(placed, self._work, PartedPoints.of(placed, self.points.engine))


def _placed(parts: Sequence[Any], first_row: int, q: int | None) -> list[Any]:
    """Parts that know their place among all rows, and the grid of sums over all, by their weight unless given."""
    grid = whole.exponent(math.fsum(part.points.total_weight for part in parts)) if q is None else q
    starts = accumulate((part.points.n_rows for part in parts), initial=first_row)
    return [part.over(Placed(start, grid)) for part, start in zip(parts, starts, strict=False)]


def _taken(
    run: Callable[[Callable[[int, Any], Any]], list[Any]],
    split: list[tuple[npt.NDArray[np.intp], Numbers]],
    dtype: np.dtype[Any],
    of: Callable[[Any, Numbers], Any],
) -> npt.NDArray[Any]:
    """Something of a few rows, each from its part."""
    parts = run(lambda number, part: of(part, split[number][1]) if len(split[number][1]) else None)
    found = np.empty(sum(len(places) for places, _ in split), dtype=dtype)
    for (places, _), own in zip(split, parts, strict=True):
        if own is not None:
            found[places] = own
    return found


@dataclass(frozen=True, eq=False)
class _Gathered:
    """A folder whose parts come home before they are joined: the cut of parts is not that of the whole."""

    folder: Folder[Any, Any]

    @property
    def is_exact(self) -> bool:
        return self.folder.is_exact

    @property
    def is_by_row(self) -> bool:
        return getattr(self.folder, "is_by_row", False)

    def part(self, scores: FloatArray, here: Any) -> Any:
        return self.folder.part(scores, here)

    def join(self, parts: Sequence[Any]) -> list[Any]:
        return list(parts)


def _beside(number: int, labels: OwnLabels | None, columns: Sequence[OwnColumn]) -> tuple[Any, tuple[Any, ...]]:
    """What lies beside the rows of one part."""
    return None if labels is None else labels.parts[number], tuple(column.parts[number] for column in columns)


def _first_anchors(one: Anchors, other: Anchors) -> Anchors:
    """Of each cluster the anchor with the lower priority; of equals the smaller number."""
    is_other = (other.priorities < one.priorities) | (
        (other.priorities == one.priorities) & (other.rows >= 0) & ((one.rows < 0) | (other.rows < one.rows))
    )
    return Anchors(
        one.key, np.where(is_other, other.priorities, one.priorities), np.where(is_other, other.rows, one.rows)
    )
