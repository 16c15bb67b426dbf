"""Sets of rows on the CPU, known by their numbers: sums over them, and scores of each row, without a copy of the rows.

Sets are cut into pieces of at most 4,096 rows. Counts, totals and tangent sums are whole numbers (sums/whole.py):
neither the pieces nor the order of rows decide a bit. Scatters are products of BLAS: those of pieces are added in
order, and a piece depends on its set alone, so their bits depend neither on the threads nor on the sets that are summed
along with it. The rows of a set are always in increasing order, so that a function of a set has the same bits whenever
the set is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit

from armillary._typing import Float64Array, FloatArray
from armillary.distributions import tangent_gaussian
from armillary.distributions.row_sets import scatter_of
from armillary.distributions.tangent_gaussian import RowSums
from armillary.engines.contract import Rule
from armillary.points import SparseBlock, as_float64, even_ranges
from armillary.rules import AffineRule, QuadraticRule
from armillary.sums import whole

if TYPE_CHECKING:
    from armillary.engines.cpu import Passes
    from armillary.engines.cpu_labels import CpuLabels

Numbers: TypeAlias = npt.NDArray[np.int32]
Flags: TypeAlias = npt.NDArray[np.bool_]

T = TypeVar("T")
P = TypeVar("P", bound=Any)

_PIECE_ROWS = 4096
# Tasks for each thread: enough for an even share.
_TASKS_PER_THREAD = 4
_MANY_PIECES = 16
# Rows that are worth waking a thread for: Python takes 30 us to wake one, and another after it.
_TASK_ROWS = 4096
# Sets of up to so many rows are worth remembering, and so many things about them: a chain on a few rows comes back to
# the same sets all the time, and what is known of one costs a hundredth of what finding it costs.
_REMEMBERED_ROWS = 64
_MOST_REMEMBERED = 1 << 14


class SetMemory:
    """What was found about small sets of rows, each a function of the set alone; forgotten when there is too much."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def recall(self, keys: Sequence[Hashable], make: Callable[[list[int]], Sequence[Any]]) -> list[Any]:
        """What belongs to each key; `make` is given the places of those that are new, and finds them all at once."""
        known = self._known
        new = [place for place, key in enumerate(keys) if key not in known]
        if len(known) + len(new) > _MOST_REMEMBERED:
            known.clear()
            new = list(range(len(keys)))
        if new:
            known.update(zip([keys[place] for place in new], make(new), strict=True))
        return [known[key] for key in keys]


class CpuSets:
    """G sets of rows of the points of `passes`, none empty; see `engines/contract.py`."""

    def __init__(
        self,
        passes: Passes,
        numbers: Numbers,
        starts: npt.NDArray[np.int64],
        weights: Float64Array | None = None,
        memory: SetMemory | None = None,
    ) -> None:
        self._memory = memory  # of the chain that these sets belong to
        self.numbers = numbers  # (M,) the rows of all sets, set after set, each in increasing order
        self.starts = starts  # (G + 1,) where sets begin and end
        self._weights = weights  # (M,) None: all 1
        self._passes = passes
        sizes = np.diff(starts)
        n_pieces = -(-sizes // _PIECE_ROWS)
        self._owners = np.repeat(np.arange(len(sizes)), n_pieces)
        self._first_pieces = np.cumsum(n_pieces) - n_pieces
        within = np.arange(len(self._owners)) - self._first_pieces[self._owners]
        self._edges = np.append(starts[:-1][self._owners] + within * _PIECE_ROWS, starts[-1])
        self._known: dict[Hashable, Any] = {}
        self._last_sums: tuple[Float64Array, RowSums] | None = None  # base points, and the sums there

    @classmethod
    def of(
        cls,
        passes: Passes,
        sets: Sequence[Numbers],
        weights: Sequence[Float64Array] | None = None,
        memory: SetMemory | None = None,
    ) -> CpuSets:
        """Sets of these rows, none empty, with these weights."""
        starts = np.concatenate([[0], np.cumsum([len(one) for one in sets])])
        numbers = sets[0] if len(sets) == 1 else np.concatenate(sets)
        return cls(passes, numbers, starts, None if weights is None else np.concatenate(weights), memory)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def part(self, number: int) -> slice:
        """The places of one set in `numbers`."""
        return slice(int(self.starts[number]), int(self.starts[number + 1]))

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Rows of each set (G,)."""
        return np.diff(self.starts)

    @cached_property
    def counts(self) -> Float64Array:
        """Rows of each set (G,), or sums of weights."""
        if self._weights is None:
            return np.diff(self.starts).astype(np.float64)
        return np.add.reduceat(whole.rounded(self._weights, self._passes.q), self.starts[:-1])

    # ------------------------------------------------------------------------------------------------ sums

    def totals(self) -> Float64Array:
        """sum w x (G, D)."""
        return self._totals

    @cached_property
    def _totals(self) -> Float64Array:
        kernels = self._passes.kernels
        out = np.zeros((len(self._owners), self._passes.points.n_features))
        alone = np.ones(1, dtype=np.bool_)

        def task(first: int, last: int) -> None:
            if self._weights is None and not self._passes.points.is_sparse:
                out[first:last] = kernels.row_totals(*self._lent(first, last), self._passes.rounder)
                return
            for piece in range(first, last):
                part = slice(self._edges[piece], self._edges[piece + 1])
                rows, weights = self._passes.points.gather(self.numbers[part]), self._weights
                own = None if weights is None else weights[part]
                into = np.zeros(1), out[piece : piece + 1]
                labels = np.zeros(part.stop - part.start, dtype=np.int32)
                kernels.add_rows(rows, own, labels, alone, *into, self._passes.rounder)

        self._each_range(task)
        return self._added(out)

    def scatters(self, centres: Float64Array) -> Float64Array:
        """sum w (x - c)(x - c)' (G, D, D), of dense rows."""
        n_features = self._passes.points.n_features
        out = np.empty((len(self._owners), n_features, n_features))

        def task(first: int, last: int) -> None:
            for piece in range(first, last):
                part = slice(self._edges[piece], self._edges[piece + 1])
                centred = self.gathered(part) - centres[self._owners[piece]]
                out[piece] = scatter_of(centred, None if self._weights is None else self._weights[part])

        self._each_range(task)
        return self._added(out)

    def tangent_sums(self, bases: Float64Array, *, with_scatter: bool = True, with_curvature: bool = False) -> RowSums:
        """Sums seen from a base point (G, D) of each set, of dense rows.

        The last with a scatter and no curvature are remembered: sweeps end and begin with sums at the same points.
        """
        if with_curvature or not with_scatter:
            return self._tangent_sums(bases, with_scatter, with_curvature)
        if self._last_sums is None or not np.array_equal(self._last_sums[0], bases):
            self._last_sums = bases.copy(), self._tangent_sums(bases, with_scatter, with_curvature)
        return self._last_sums[1]

    def _tangent_sums(self, bases: Float64Array, with_scatter: bool, with_curvature: bool) -> RowSums:
        kernels, n_features = self._passes.kernels, bases.shape[1]
        bounds = tangent_gaussian.sum_bounds(n_features)
        rounders = np.array([whole.two_limbs(self._passes.q, bound) for bound in bounds])
        out = np.empty((len(self._owners), 2, n_features + n_features**2 + 4))

        def task(first: int, last: int) -> None:
            rows, numbers, edges = self._lent(first, last)
            weights = self._weights
            if weights is not None and not self._is_in_place:
                weights = weights[self._edges[first] : self._edges[last]]
            own = bases[self._owners[first:last]]
            wanted = {"with_scatter": with_scatter, "with_curvature": with_curvature}
            out[first:last] = kernels.tangent_sums(rows, numbers, edges, own, weights, rounders, **wanted)

        self._each_range(task)
        return tangent_gaussian.from_limbs(self._added(out), bases)

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives, a function of these sets alone: made when it is first asked for by this name."""
        if name not in self._known:
            self._known[name] = make()
        found: T = self._known[name]
        return found

    def of_each(self, name: Hashable, make: Callable[[CpuSets], P]) -> P:
        """What `make` gives, fields with the axis of the sets first: functions of each set alone, remembered by it."""
        if self._memory is None or self._weights is not None:
            return self.once(name, lambda: make(self))
        return self.once(name, lambda: self._recalled(name, make))

    def _recalled(self, name: Hashable, make: Callable[[CpuSets], P]) -> P:
        def found(places: list[int]) -> list[P]:
            made = make(self if len(places) == len(self) else self.some(places))
            kind = type(made)
            return [kind(*(field[place] for field in made)) for place in range(len(places))]

        each = self.remembered([name] * len(self), found)
        return type(each[0])(*(np.array(field) for field in zip(*each, strict=True)))

    def remembered(self, names: Sequence[Hashable], make: Callable[[list[int]], Sequence[Any]]) -> list[Any]:
        """What is known of each set by the name given for it; `make` finds it for the sets at some places."""
        if self._memory is None:
            return list(make(list(range(len(self)))))
        keys = [(name, self.numbers[self.part(number)].tobytes()) for number, name in enumerate(names)]
        return self._memory.recall(keys, make)

    def _each_range(self, task: Callable[[int, int], None]) -> None:
        """Call `task(first, last)` on ranges of pieces that cover all; they run side by side."""
        n_pieces, n_threads = len(self._owners), self._passes.n_threads
        n_tasks = min(n_pieces, n_threads if n_pieces < _MANY_PIECES * n_threads else _TASKS_PER_THREAD * n_threads)
        n_tasks = max(1, min(n_tasks, len(self.numbers) // _TASK_ROWS))
        if not self._is_in_place:
            n_tasks = n_pieces  # each makes a copy of its rows
        ranges = even_ranges(n_pieces, n_tasks)
        self._passes.run(lambda number: task(*ranges[number]), n_tasks)

    def _added(self, pieces: Float64Array) -> Float64Array:
        """The sums of the pieces of each set."""
        return pieces if len(pieces) == len(self) else np.add.reduceat(pieces, self._first_pieces, axis=0)

    @property
    def _is_in_place(self) -> bool:
        points = self._passes.points
        return points.is_unit and not points.is_sparse

    def _lent(self, first: int, last: int) -> tuple[FloatArray, Numbers, npt.NDArray[np.int64]]:
        """Dense rows, which of them, and where pieces begin and end: of some pieces."""
        edges = self._edges[first : last + 1]
        points = self._passes.points
        if self._is_in_place:
            return np.asarray(points.matrix), self.numbers, edges
        rows = points.gather(self.numbers[edges[0] : edges[-1]])
        assert not isinstance(rows, SparseBlock), "sums of CSR rows go another way"
        return rows, np.arange(len(rows), dtype=np.int32), edges - edges[0]

    def gathered(self, part: slice) -> Any:
        """The rows (m, D) at some places, in float64, an array or CSR; as the kernels see them, not made unit again."""
        return as_float64(self._passes.points.gather(self.numbers[part]))

    # ------------------------------------------------------------------------------------------- other sets

    def some(self, places: Sequence[int]) -> CpuSets:
        """The sets at some places."""
        if len(places) == len(self) and list(places) == list(range(len(self))):
            return self
        return CpuSets.of(self._passes, [self.numbers[self.part(place)] for place in places], None, self._memory)

    def few(self, ranks: Sequence[npt.NDArray[np.int64]]) -> CpuSets:
        """Some rows of each set, by their ranks in it."""
        chosen = [self.numbers[start + own] for start, own in zip(self.starts[:-1], ranks, strict=True)]
        return CpuSets.of(self._passes, chosen)

    def rows(self, number: int) -> Any:
        """The rows (n, D) of one set of few, in float64, an array or CSR."""
        return self.gathered(self.part(number))

    def shared(self, lefts: Sequence[Float64Array]) -> CpuSets:
        """2 G sets of few rows: each with the weights (n,) given, then with what is missing to 1."""
        twice = [numbers for number in range(len(self)) for numbers in [self.numbers[self.part(number)]] * 2]
        return CpuSets.of(self._passes, twice, [side for left in lefts for side in (left, 1.0 - left)])

    def parted(self, sides: Sequence[CpuSides | None]) -> CpuSets:
        """In the place of each set its left and its right rows, both of which must be there; None leaves it whole."""
        parts = []
        for number, own in enumerate(sides):
            numbers = self.numbers[self.part(number)]
            parts += [numbers] if own is None else [numbers[own.is_left], numbers[~own.is_left]]
        return CpuSets.of(self._passes, parts, None, self._memory)

    # ---------------------------------------------------------------------------------------- row by row

    def log_odds(self, rule: Rule) -> Float64Array:
        """Of each row of set g the score of cluster 2 g of the rule less that of cluster 2 g + 1, (M,)."""
        values = np.empty(len(self.numbers))

        def keep(part: slice, odds: Float64Array) -> None:
            values[part] = odds

        self._each_odds(rule, keep)
        return values

    def odds(self, rule: Rule, most: float = np.inf) -> list[CpuOdds]:
        """`log_odds` of each set, none beyond `most` either way."""
        values = np.clip(self.log_odds(rule), -most, most)
        # copies: what is remembered of one set must not hold all
        return [CpuOdds(values[self.part(number)].copy()) for number in range(len(self))]

    def chance(self, number: int, generator: np.random.Generator) -> CpuChance:
        """One uniform beside each row of a set, in the order of the rows."""
        part = self.part(number)
        return CpuChance(generator.random(part.stop - part.start))

    def where(self, number: int, labels: CpuLabels, label: int) -> CpuSides:
        """Left where a row of a set has this label."""
        return CpuSides(np.asarray(labels.values[self.numbers[self.part(number)]] == label))

    def draw_sides(self, rule: Rule, key: tuple[int, int], is_left: Flags) -> None:
        """Redraw is_left[i] of each row i of the sets, with the odds of `log_odds` and the uniform philox(key, i)."""

        def draw(part: slice, odds: Float64Array) -> None:
            self._passes.kernels.draw_sides(self.numbers[part], odds, key, is_left)

        self._each_odds(rule, draw)

    def _each_odds(self, rule: Rule, task: Callable[[slice, Float64Array], None]) -> None:
        """Call `task` on the places of some rows and their log odds; side by side."""
        kernels = self._passes.kernels

        def affine(first: int, last: int, rule: AffineRule) -> None:
            for piece in range(first, last):
                part = slice(self._edges[piece], self._edges[piece + 1])
                two = slice(2 * self._owners[piece], 2 * self._owners[piece] + 2)
                slopes = None if rule.slopes is None else rule.slopes[two]
                own = AffineRule(rule.directions[two], rule.offsets[two], slopes=slopes)
                table = np.empty((part.stop - part.start, 2))
                kernels.scores(self._passes.points.gather(self.numbers[part]), kernels.prepare(own), table)
                task(part, table[:, 0] - table[:, 1])

        def quadratic(first: int, last: int, prepared: Any) -> None:
            rows, numbers, edges = self._lent(first, last)
            odds = np.empty(edges[-1] - edges[0])
            kernels.quadratic_odds(rows, numbers, edges, prepared, self._owners[first:last], odds)
            task(slice(self._edges[first], self._edges[last]), odds)

        if isinstance(rule, QuadraticRule):
            self._each_range(partial(quadratic, prepared=kernels.prepare(rule)))
        else:
            self._each_range(partial(affine, rule=rule))

    def halved(self, is_left: Flags) -> CpuSets:
        """2 G sets: of each the rows with is_left[i], then the others. Both must be there."""
        numbers = np.empty_like(self.numbers)
        n_left = self._passes.kernels.part_rows(self.numbers, self.starts, is_left, numbers)
        starts = np.append(np.stack([self.starts[:-1], self.starts[:-1] + n_left], axis=1).ravel(), self.starts[-1])
        return CpuSets(self._passes, numbers, starts, memory=self._memory)


@dataclass(frozen=True, eq=False)
class CpuSides:
    """Left or right beside each row of a set; see `engines/contract.py`."""

    is_left: Flags  # (n,)

    @cached_property
    def n_left(self) -> int:
        """Rows on the left."""
        return int(np.count_nonzero(self.is_left))

    @property
    def n_right(self) -> int:
        """Rows on the right."""
        return len(self.is_left) - self.n_left


@dataclass(frozen=True, eq=False)
class CpuOdds:
    """Log odds of the left side beside each row of a set."""

    values: Float64Array  # (n,)

    def sides(self) -> CpuSides:
        """Left where that is the more probable."""
        return CpuSides(self.values > 0.0)

    def log_probabilities(self, sides: CpuSides) -> tuple[float, float]:
        """Of these sides, and of the opposite ones, if every row is drawn by itself."""
        signed = np.where(sides.is_left, self.values, -self.values)
        one = float(log_expit(signed).sum())
        # log(1 - p) = log p - odds
        return one, one - float(signed.sum())


@dataclass(frozen=True, eq=False)
class CpuChance:
    """One uniform beside each row of a set."""

    values: Float64Array  # (n,)

    def below(self, law: float | CpuOdds) -> CpuSides:
        """Left with one probability for all, or with odds of their own."""
        return CpuSides(np.asarray(self.values < (expit(law.values) if isinstance(law, CpuOdds) else law)))


class CpuHalves:
    """A side beside each row, whatever set it is in; see `engines/contract.py`."""

    def __init__(self, is_left: Flags) -> None:
        self._is_left = is_left

    def copy(self) -> CpuHalves:
        """The same sides, to be changed by themselves."""
        return CpuHalves(self._is_left.copy())

    def n_left(self, sets: CpuSets) -> npt.NDArray[np.int64]:
        """How many rows of each set (G,) are left."""
        return np.add.reduceat(self._is_left[sets.numbers], sets.starts[:-1], dtype=np.int64)

    def of(self, sets: CpuSets) -> list[CpuSides]:
        """The sides of each set."""
        return [CpuSides(self._is_left[sets.numbers[sets.part(number)]]) for number in range(len(sets))]

    def parts(self, sets: CpuSets) -> CpuSets:
        """The left and the right rows of each set, both of which must be there."""
        return sets.halved(self._is_left)

    def put(self, sets: CpuSets, sides: CpuSides | None) -> None:
        """Give the rows of one set their sides; None: all are left."""
        self._is_left[sets.numbers] = True if sides is None else sides.is_left

    def draw(self, sets: CpuSets, rule: Rule, key: tuple[int, int]) -> None:
        """Redraw the side of each row of set g, left by cluster 2 g of the rule, right by 2 g + 1."""
        sets.draw_sides(rule, key, self._is_left)

    def to_host(self) -> Flags:
        """Which rows are left (n,)."""
        return self._is_left


class CpuPartition:
    """All rows in K clusters, none of them empty; see `engines/contract.py`."""

    def __init__(self, passes: Passes, labels: CpuLabels) -> None:
        self._passes = passes
        self._memory = memory_for(passes.points.n_rows)
        self._members: list[Numbers] = []
        self._everything: CpuSets | None = None  # all clusters as they lie together, until a move changes one
        self.relabel(labels)

    def relabel(self, labels: CpuLabels) -> None:
        """Take other labels, without gaps."""
        self._labels = labels
        self._members, self._everything = [], None  # as large as what takes their place
        self._gather()

    def _gather(self) -> None:
        """Row numbers of each cluster, in increasing order."""
        values = self._labels.values
        starts = np.concatenate([[0], np.cumsum(self._labels.sizes(int(values.max()) + 1))])
        order = np.empty(len(values), dtype=np.int32)
        self._passes.kernels.group_rows(values, starts, order)
        self._members = [order[start:stop] for start, stop in pairwise(starts)]
        self._everything = CpuSets(self._passes, order, starts, memory=self._memory)

    @property
    def labels(self) -> CpuLabels:
        """The labels; they change with the next move."""
        return self._labels

    @property
    def n_rows(self) -> int:
        """All rows."""
        return self._passes.points.n_rows

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Rows of each cluster (K,)."""
        return np.array([len(members) for members in self._members])

    def __len__(self) -> int:
        return len(self._members)

    # --------------------------------------------------------------------------------------------- sets of rows

    def numbers(self, cluster: int) -> Numbers:
        """Which rows a cluster has (n,), in increasing order."""
        return self._members[cluster]

    def first_row(self, cluster: int) -> int:
        """The first row of a cluster."""
        return int(self._members[cluster][0])

    def sets(self, *clusters: int) -> CpuSets:
        """The rows of some clusters, or of all."""
        if clusters and clusters != tuple(range(len(self))):
            return self._sets_of([self._members[k] for k in clusters])
        if self._everything is None:
            self._everything = self._sets_of(self._members)
        return self._everything

    def unions(self, groups: Sequence[Sequence[int]]) -> CpuSets:
        """The rows of each group of clusters as one set."""
        return self._sets_of([self.together(*group) for group in groups])

    def _sets_of(self, numbers: Sequence[Numbers]) -> CpuSets:
        return CpuSets.of(self._passes, numbers, memory=self._memory)

    def together(self, *clusters: int) -> Numbers:
        """Which rows some clusters have, in increasing order."""
        if len(clusters) == 1:
            return self._members[clusters[0]]
        # the stable sort finds that these are a few runs in order, and merges them
        return np.sort(np.concatenate([self._members[k] for k in clusters]), kind="stable")

    # --------------------------------------------------------------------------------------------------- moves

    def split(self, cluster: int, sides: CpuSides) -> None:
        """Leave the rows that are left in the cluster, and make those that are right the last cluster."""
        members = self._members[cluster]
        self._members[cluster] = members[sides.is_left]
        self._members.append(members[~sides.is_left])
        self._name(len(self._members) - 1)
        self._everything = None

    def merge(self, first: int, second: int) -> None:
        """Give the rows of `second` to `first`; the last cluster takes the place of `second`."""
        self._members[first] = self.together(first, second)
        self._name(first)
        last = self._members.pop()
        if second < len(self._members):
            self._members[second] = last
            self._name(second)
        self._everything = None

    def _name(self, cluster: int) -> None:
        self._labels.values[self._members[cluster]] = cluster
        self._labels.note(None)

    def redraw(self, rule: Rule, key: tuple[int, int], anchor_key: tuple[int, int] | None) -> npt.NDArray[np.int64]:
        """Draw every label anew among the clusters of `rule`; without `anchor_key` clusters may end empty."""
        n_clusters, labels = len(rule.offsets), self._labels
        anchors = None if anchor_key is None else self._passes.anchors(labels, anchor_key, n_clusters)
        self._passes.draw(rule, labels, key, anchors)
        counts = labels.sizes(n_clusters)
        labels.keep(counts > 0)
        self.relabel(labels)
        return counts


def memory_for(n_rows: int) -> SetMemory | None:
    """Of a chain on so many rows; none where sets seldom come back."""
    return SetMemory() if n_rows <= _REMEMBERED_ROWS else None
