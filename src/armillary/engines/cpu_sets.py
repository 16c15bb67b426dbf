"""Sets of rows on the CPU, known by their numbers: sums over them, and scores of each row, without a copy of the rows.

Sets are cut into pieces of at most 4,096 rows. Counts, totals, scatters, tangent sums and log probabilities of sides
are whole numbers (sums/whole.py), and odds have bits that depend on their row alone: neither pieces, threads nor the
order of rows decide a bit, and parts of the rows have sums that add up to those of all. The rows of a set are always in
increasing order, so that a function of a set has the same bits whenever the set is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from armillary._typing import Float64Array, FloatArray
from armillary.distributions import tangent_gaussian
from armillary.distributions.tangent_gaussian import RowSums
from armillary.draws import skip_uniforms
from armillary.engines.contract import Rule
from armillary.points import Block, SparseBlock, as_float64, even_ranges, n_rows_of, some_of
from armillary.rules import AffineRule, QuadraticRule
from armillary.sums import whole

if TYPE_CHECKING:
    from armillary.engines.cpu import Passes
    from armillary.engines.cpu_labels import CpuLabels

Numbers: TypeAlias = npt.NDArray[np.int32]
Flags: TypeAlias = npt.NDArray[np.bool_]
SideLimbs: TypeAlias = Callable[[Float64Array, npt.NDArray[np.bool_], tuple[float, float]], Float64Array]

T = TypeVar("T")
P = TypeVar("P", bound=Any)

_PIECE_ROWS = 4096
# Tasks for each thread: enough for an even share.
_TASKS_PER_THREAD = 4
_MANY_PIECES = 16
# Rows that are worth waking a thread for: Python takes 30 us to wake one, and another after it.
_TASK_ROWS = 4096
# Rows that are worth it where little is done to each: one is copied, or weighed, in 2 ns.
_COPIED_ROWS = 16384
# Of rows on disk: sets with fewer than one row in so many are gathered, others are taken from lanes read in order.
_FEW_OF_STORED = 64
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


class _Work(NamedTuple):
    """Some pieces of sets, and the rows that they are of."""

    pieces: Any  # a slice or numbers: which pieces
    places: Any  # a slice or numbers: where their rows stand in the `numbers` of the sets
    rows: Block
    numbers: Numbers  # those of the pieces, in `rows`
    edges: npt.NDArray[np.int64]  # where pieces begin and end in `numbers`
    weights: Float64Array | None  # of `numbers`

    def each(self) -> Iterator[tuple[int, Any, Block]]:
        """Every piece by itself: which, where its rows stand, and a copy of them."""
        pieces = range(self.pieces.start, self.pieces.stop) if isinstance(self.pieces, slice) else self.pieces
        for piece, (start, stop) in zip(pieces, pairwise(self.edges.tolist()), strict=True):
            places: Any = slice(start, stop)
            if not isinstance(self.places, slice):
                places = self.places[start:stop]
            elif self.edges[0] != self.places.start:
                places = slice(self.places.start + start, self.places.start + stop)
            # numbers increase: as many as there are rows are all of them
            is_all = stop - start == n_rows_of(self.rows)
            yield piece, places, self.rows if is_all else some_of(self.rows, self.numbers[start:stop])


class CpuSets:
    """G sets of rows of the points of `passes`; see `engines/contract.py`. Of a part of the rows some may be empty."""

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
        self._cut()
        self._known: dict[Hashable, Any] = {}
        self._last_sums: tuple[Float64Array, RowSums] | None = None  # base points, and the sums there

    def _cut(self) -> None:
        """Cut sets into pieces."""
        starts, sizes = self.starts, self.sizes
        self._n_pieces = -(-sizes // _PIECE_ROWS)  # of each set
        self._owners = np.repeat(np.arange(len(sizes)), self._n_pieces)
        first_pieces = np.cumsum(self._n_pieces) - self._n_pieces
        within = np.arange(len(self._owners)) - first_pieces[self._owners]
        self._edges = np.append(starts[:-1][self._owners] + within * _PIECE_ROWS, starts[-1])
        if self._is_by_lane:
            self._cut_at_lanes()

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
        numbers = sets[0] if len(sets) == 1 else cls._joined(sets)
        return cls(passes, numbers, starts, None if weights is None else np.concatenate(weights), memory)

    @staticmethod
    def each_large(
        passes: Passes, task: Callable[[int], T], n_tasks: int, n_rows: int, fold: Callable[[T], object]
    ) -> None:
        """`fold` on `task(0) ... task(n_tasks - 1)` in this order; side by side where their rows are worth it."""
        if n_rows < 2 * _COPIED_ROWS:
            for number in range(n_tasks):
                fold(task(number))
        else:
            passes.run(task, n_tasks, fold)

    @staticmethod
    def _joined(sets: Sequence[Numbers]) -> Numbers:
        return np.concatenate(sets)

    @staticmethod
    def side_of(passes: Passes, numbers: Numbers, sides: CpuSides) -> tuple[Numbers, Numbers]:
        """The rows of a set that are left, and those that are right."""
        out = np.empty_like(numbers)
        n_left = passes.kernels.divide_rows(numbers, sides.is_left, out)
        return out[:n_left], out[n_left:]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def part(self, number: int) -> slice:
        """The places of one set in `numbers`."""
        return slice(int(self.starts[number]), int(self.starts[number + 1]))

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Rows of each set (G,)."""
        return np.diff(self.starts)

    facts = sizes  # what a host knows of sets at a worker

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

        def task(work: _Work) -> None:
            if not isinstance(work.rows, SparseBlock):
                rounder = self._passes.rounder
                out[work.pieces] = kernels.row_totals(work.rows, work.numbers, work.edges, rounder, work.weights)
                return
            for piece, places, rows in work.each():
                own = None if self._weights is None else self._weights[places]
                into = np.zeros(1), out[piece : piece + 1]
                labels = np.zeros(n_rows_of(rows), dtype=np.int32)
                kernels.add_rows(rows, own, labels, alone, *into, self._passes.rounder)

        self._each_work(task)
        return self._added(out)

    def scatters(self, centres: Float64Array) -> Float64Array:
        """sum w (x - c)(x - c)' (G, D, D), of dense rows."""
        return whole.from_products(self.scatter_limbs(centres))

    def scatter_limbs(self, centres: Float64Array) -> Float64Array:
        """What `whole.from_products` makes the scatters of: these add up over parts of the rows."""
        kernels, n_features = self._passes.kernels, centres.shape[1]
        out = np.empty((len(self._owners), 2, 3, n_features, n_features))

        def task(work: _Work) -> None:
            own = centres[self._owners[work.pieces]]
            out[work.pieces] = kernels.scatters(_dense(work.rows), work.numbers, work.edges, own, work.weights)

        self._each_work(task)
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
        limbs = self.tangent_limbs(bases, with_scatter=with_scatter, with_curvature=with_curvature)
        return tangent_gaussian.from_limbs(limbs, bases, with_scatter=with_scatter)

    def tangent_limbs(self, bases: Float64Array, *, with_scatter: bool, with_curvature: bool) -> Float64Array:
        """What `tangent_gaussian.from_limbs` makes the sums of: these add up over parts of the rows."""
        kernels, n_features = self._passes.kernels, bases.shape[1]
        rounders = tangent_gaussian.sum_rounders(self._passes.q, n_features)
        out = np.zeros((len(self._owners), 2, n_features + n_features**2 + 4))
        wanted = {"with_scatter": with_scatter, "with_curvature": with_curvature}

        def task(work: _Work) -> None:
            own = bases[self._owners[work.pieces]]
            rows = _dense(work.rows)
            place = out[work.pieces]  # a copy where pieces are numbers, and their own lines of `out` otherwise
            kernels.tangent_sums(rows, work.numbers, work.edges, own, work.weights, rounders, **wanted, out=place)
            if not isinstance(work.pieces, slice):
                out[work.pieces] = place

        self._each_work(task)
        return self._added(out)

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

    # --------------------------------------------------------------------------------------- pieces and rows

    @property
    def _is_in_place(self) -> bool:
        return self._passes.is_in_place

    @cached_property
    def _is_by_lane(self) -> bool:
        """Whether rows are read from disk in their order: those of large sets lie all over it."""
        points = self._passes.points
        return points.is_stored and len(self.numbers) * _FEW_OF_STORED >= points.n_rows

    def _cut_at_lanes(self) -> None:
        """Pieces end where lanes do, so that each is of the rows of one lane."""
        lanes = self._passes.points.lanes
        lane_of = np.searchsorted([stop for _, stop in lanes], self.numbers, side="right")
        is_new = np.append(True, np.diff(lane_of) != 0)
        is_new[self._edges[:-1]] = True
        starts = np.flatnonzero(is_new)
        owners = np.searchsorted(self.starts, starts, side="right") - 1
        self._owners, self._edges = owners, np.append(starts, self.starts[-1])
        self._n_pieces = np.bincount(owners, minlength=len(self))
        self._lanes = lane_of[starts]  # of each piece

    def _each_work(self, task: Callable[[_Work], None]) -> None:
        """Call `task` on pieces that are all of them together; side by side."""
        if not len(self._owners):
            return
        if self._is_by_lane:
            wanted = np.unique(self._lanes).tolist()
            self._passes.run(lambda number: self._with_lane(wanted[number], task), len(wanted))
            return
        n_pieces, n_threads = len(self._owners), self._passes.n_threads
        if self._is_in_place and len(self.numbers) < 2 * _TASK_ROWS:
            task(self._work(0, n_pieces))
            return
        n_tasks = min(n_pieces, n_threads if n_pieces < _MANY_PIECES * n_threads else _TASKS_PER_THREAD * n_threads)
        n_tasks = max(1, min(n_tasks, len(self.numbers) // _TASK_ROWS))
        if not self._is_in_place:
            n_tasks = n_pieces  # each makes a copy of its rows
        ranges = even_ranges(n_pieces, n_tasks)
        self._passes.run(lambda number: task(self._work(*ranges[number])), n_tasks)

    def _work(self, first: int, last: int) -> _Work:
        """Some pieces in a row."""
        edges, points = self._edges[first : last + 1], self._passes.points
        pieces, places = slice(first, last), slice(int(edges[0]), int(edges[-1]))
        if self._is_in_place:
            points.check_there()
            return _Work(pieces, places, np.asarray(points.matrix), self.numbers, edges, self._weights)
        weights = None if self._weights is None else self._weights[places]
        rows = points.gather(self.numbers[places])
        return _Work(pieces, places, rows, np.arange(n_rows_of(rows), dtype=np.int32), edges - edges[0], weights)

    def _with_lane(self, lane: int, task: Callable[[_Work], None]) -> None:
        """The pieces of one lane, whose rows are read for it."""
        points, pieces = self._passes.points, np.flatnonzero(self._lanes == lane)
        first, last = points.lanes[lane]
        starts, sizes = self._edges[pieces], np.diff(self._edges)[pieces]
        edges = np.append(0, np.cumsum(sizes))
        places = np.repeat(starts - edges[:-1], sizes) + np.arange(edges[-1])
        weights = None if self._weights is None else self._weights[places]
        with points.at_hand(first, last) as rows:
            task(_Work(pieces, places, rows.block(first, last), self.numbers[places] - first, edges, weights))

    def _added(self, pieces: Float64Array) -> Float64Array:
        """The sums of the pieces of each set."""
        if self._are_one_each:
            return pieces
        out = np.zeros((len(self), *pieces.shape[1:]))
        is_filled = self._n_pieces > 0
        if is_filled.any():
            first_pieces = (np.cumsum(self._n_pieces) - self._n_pieces)[is_filled]
            out[is_filled] = np.add.reduceat(pieces, first_pieces, axis=0)
        return out

    @cached_property
    def _are_one_each(self) -> bool:
        """Whether every set is a piece, as those of few rows are."""
        return len(self._owners) == len(self) and bool(self._n_pieces.all())

    def gathered(self, part: slice) -> Any:
        """The rows (m, D) at some places, in float64, an array or CSR; as the kernels see them, not made unit again."""
        return as_float64(self._passes.points.gather(self.numbers[part]))

    # ------------------------------------------------------------------------------------------- other sets

    def some(self, places: Sequence[int]) -> CpuSets:
        """The sets at some places."""
        if len(places) == len(self) and list(places) == list(range(len(self))):
            return self
        return self.of(self._passes, [self.numbers[self.part(place)] for place in places], None, self._memory)

    def few(self, ranks: Sequence[npt.NDArray[np.int64]]) -> CpuSets:
        """Some rows of each set, by their ranks in it."""
        chosen = [self.numbers[start + own] for start, own in zip(self.starts[:-1], ranks, strict=True)]
        return CpuSets.of(self._passes, chosen)

    def rows(self, number: int) -> Any:
        """The rows (n, D) of one set of few, in float64, an array or CSR."""
        return self.gathered(self.part(number))

    def shared(self, lefts: Sequence[Float64Array]) -> CpuSets:
        """2 G sets of few rows: each with the weights (n,) given, then with what is missing to 1."""
        weights = np.concatenate([side for left in lefts for side in (left, 1.0 - left)])
        return self.once("twice", self._twice)._weighted(weights)

    def _twice(self) -> CpuSets:
        """Each set two times."""
        twice = [numbers for number in range(len(self)) for numbers in [self.numbers[self.part(number)]] * 2]
        return CpuSets.of(self._passes, twice)

    def _weighted(self, weights: Float64Array) -> CpuSets:
        """The same sets with weights (M,); as they are cut, they stay."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        twin._weights, twin._known, twin._last_sums = weights, {}, None
        for known in ("counts", "_totals"):
            vars(twin).pop(known, None)
        return twin

    def parted(self, sides: Sequence[CpuSides | None]) -> CpuSets:
        """In the place of each set its left and its right rows, both of which must be there; None leaves it whole."""
        parts: list[Numbers] = []

        def part(number: int) -> Sequence[Numbers]:
            numbers, own = self.numbers[self.part(number)], sides[number]
            return [numbers] if own is None else self.side_of(self._passes, numbers, own)

        self.each_large(self._passes, part, len(sides), len(self.numbers), parts.extend)
        return self.of(self._passes, parts, None, self._memory)

    # ---------------------------------------------------------------------------------------- row by row

    def log_odds(self, rule: Rule) -> Float64Array:
        """Of each row of set g the score of cluster 2 g of the rule less that of cluster 2 g + 1, (M,)."""
        values = np.empty(len(self.numbers))

        def keep(part: Any, odds: Float64Array) -> None:
            values[part] = odds

        self._each_odds(rule, keep)
        return values

    def odds(self, rule: Rule, most: float = np.inf) -> list[CpuOdds]:
        """`log_odds` of each set, none beyond `most` either way."""
        values = self.log_odds(rule)
        q, limbs = self._passes.points.q, self._side_limbs
        found: list[CpuOdds] = []

        def own(number: int) -> CpuOdds:
            # an array of its own: what is remembered of one set must not hold all
            return CpuOdds(np.clip(values[self.part(number)], -most, most), most, q, limbs)

        self.each_large(self._passes, own, len(self), len(values), found.append)
        return found

    @property
    def _side_limbs(self) -> SideLimbs:
        return partial(_side_limbs, self._passes)

    def chance(self, number: int, generator: np.random.Generator) -> CpuChance:
        """One uniform beside each row of a set, in the order of the rows."""
        part = self.part(number)
        return CpuChance(generator.random(part.stop - part.start))

    def all_odds(self, rule: Rule, most: float) -> CpuOddsOfSets:
        """`odds` of all sets as one, for parts of rows."""
        return CpuOddsOfSets(self.odds(rule, most))

    def sides_below(
        self, number: int, generator: np.random.Generator, n_before: int, law: float | CpuOddsOfSets, place: int
    ) -> CpuSides:
        """`chance` and `below` of a set of which `n_before` rows are in parts before; `place` of the odds."""
        skip_uniforms(generator, n_before)
        own = law.odds[place] if isinstance(law, CpuOddsOfSets) else law
        return self.chance(number, generator).below(own)

    def rows_at(self, ranks: Sequence[npt.NDArray[np.int64]]) -> Block:
        """Some rows of each set, by their ranks in it, one set after the other."""
        chosen = [self.numbers[start + own] for start, own in zip(self.starts[:-1], ranks, strict=True)]
        return self._passes.points.gather(np.concatenate(chosen))

    def where(self, number: int, labels: CpuLabels, label: int) -> CpuSides:
        """Left where a row of a set has this label."""
        return CpuSides(np.asarray(labels.values[self.numbers[self.part(number)]] == label))

    def draw_sides(self, rule: Rule, key: tuple[int, int], is_left: Flags) -> None:
        """Redraw is_left[i] of each row i of the sets, with the odds of `log_odds` and the uniform of the row."""

        def draw(part: Any, odds: Float64Array) -> None:
            kernels, first_row = self._passes.kernels, self._passes.points.first_row
            kernels.draw_sides(self.numbers[part], odds, key, first_row, is_left)

        self._each_odds(rule, draw)

    def _each_odds(self, rule: Rule, task: Callable[[Any, Float64Array], None]) -> None:
        """Call `task` on the places of some rows and their log odds; side by side."""
        kernels = self._passes.kernels

        def affine(work: _Work, rule: AffineRule) -> None:
            for piece, places, rows in work.each():
                two = slice(2 * self._owners[piece], 2 * self._owners[piece] + 2)
                slopes = None if rule.slopes is None else rule.slopes[two]
                own = AffineRule(rule.directions[two], rule.offsets[two], slopes=slopes)
                table = np.empty((n_rows_of(rows), 2))
                kernels.row_scores(rows, kernels.prepare(own), table)
                task(places, table[:, 0] - table[:, 1])

        def quadratic(work: _Work, prepared: Any) -> None:
            odds, pairs = np.empty(work.edges[-1] - work.edges[0]), self._owners[work.pieces]
            kernels.quadratic_odds(_dense(work.rows), work.numbers, work.edges, prepared, pairs, odds)
            task(work.places, odds)

        if isinstance(rule, QuadraticRule):
            self._each_work(partial(quadratic, prepared=kernels.prepare(rule)))
        else:
            self._each_work(partial(affine, rule=rule))

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

    @property
    def facts(self) -> tuple[int, int]:
        """What a host knows of sides at a worker."""
        return self.n_left, self.n_right

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
    most: float  # none is beyond it
    q: int  # of the rows
    limbs: SideLimbs  # of `kernels/rows`

    def sides(self) -> CpuSides:
        """Left where that is the more probable."""
        return CpuSides(self.values > 0.0)

    def log_probabilities(self, sides: CpuSides) -> tuple[float, float]:
        """Of these sides, and of the opposite ones, if every row is drawn by itself."""
        return log_probabilities(self.log_limbs(sides))

    def log_limbs(self, sides: CpuSides) -> Float64Array:
        """Sums of log p and of log p - log(1 - p), each in two limbs (2, 2): these add up over parts of the rows."""
        assert self.most < np.inf, "whole numbers have a bound"
        rounders = whole.two_limbs(self.q, self.most + 1.0)  # log(1 + exp(most)) is less
        return self.limbs(self.values, sides.is_left, rounders)


@dataclass(frozen=True, eq=False)
class CpuOddsOfSets:
    """Log odds of several sets, for parts of rows."""

    odds: list[CpuOdds]

    def sides(self, number: int) -> CpuSides:
        """Of one set: left where that is the more probable."""
        return self.odds[number].sides()

    def log_limbs(self, number: int, sides: CpuSides) -> Float64Array:
        """Of one set: see `CpuOdds`."""
        return self.odds[number].log_limbs(sides)


def log_probabilities(limbs: Float64Array) -> tuple[float, float]:
    """Log probabilities of sides and of the opposite ones, from what `CpuOdds.log_limbs` gives."""
    log_p, odds = limbs.sum(axis=1).tolist()
    # log(1 - p) = log p - odds
    return log_p, log_p - odds


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
        is_left, starts = self._is_left[sets.numbers], sets.starts
        if (starts[:-1] < starts[1:]).all():
            return np.add.reduceat(is_left, starts[:-1], dtype=np.int64)
        return np.diff(np.append(0, np.cumsum(is_left, dtype=np.int64))[starts])

    def of(self, sets: CpuSets) -> list[CpuSides]:
        """The sides of each set."""
        return [self.side(sets, number) for number in range(len(sets))]

    def side(self, sets: CpuSets, number: int) -> CpuSides:
        """The sides of one set."""
        return CpuSides(self._is_left[sets.numbers[sets.part(number)]])

    def parts(self, sets: CpuSets) -> CpuSets:
        """The left and the right rows of each set, both of which must be there."""
        return sets.halved(self._is_left)

    def put(self, sets: CpuSets, sides: CpuSides | None) -> None:
        """Give the rows of one set their sides; None: all are left."""
        self._is_left[sets.numbers] = True if sides is None else sides.is_left

    def draw(self, sets: CpuSets, rule: Rule, key: tuple[int, int]) -> None:
        """Redraw the side of each row of set g, left by cluster 2 g of the rule, right by 2 g + 1."""
        sets.draw_sides(rule, key, self._is_left)

    def fill(self, is_left: Flags) -> None:
        """Give every row its side (n,)."""
        self._is_left[:] = is_left

    def to_host(self) -> Flags:
        """Which rows are left (n,)."""
        return self._is_left


class CpuPartition:
    """All rows in K clusters; see `engines/contract.py`. Of a part of the rows some may be empty."""

    _kind: type[CpuSets] = CpuSets

    def __init__(self, passes: Passes, labels: CpuLabels, n_clusters: int | None = None) -> None:
        self._passes = passes
        self._memory = memory_for(passes.points.n_rows)
        self._members: list[Numbers] = []
        self._everything: CpuSets | None = None  # all clusters as they lie together, until a move changes one
        self.relabel(labels, n_clusters)

    def relabel(self, labels: CpuLabels, n_clusters: int | None = None) -> None:
        """Take other labels, without gaps; so many, where these rows are a part."""
        self._labels = labels
        self._members, self._everything = [], None  # as large as what takes their place
        n_found = int(labels.values.max()) + 1 if n_clusters is None else n_clusters
        self._gather(labels.sizes(n_found))

    def _gather(self, sizes: npt.NDArray[np.int64]) -> None:
        """Row numbers of each cluster, in increasing order."""
        values = self._labels.values
        starts = np.concatenate([[0], np.cumsum(sizes)])
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

    facts = counts  # what a host knows of a partition at a worker

    def __len__(self) -> int:
        return len(self._members)

    # --------------------------------------------------------------------------------------------- sets of rows

    def numbers(self, cluster: int) -> Numbers:
        """Which rows a cluster has (n,), in increasing order."""
        return self._members[cluster]

    def first_row(self, cluster: int) -> int:
        """The first row of a cluster."""
        return int(self._members[cluster][0])

    def first_rows(self) -> npt.NDArray[np.int64]:
        """The first row of each cluster (K,); n where it has none."""
        n_rows = self.n_rows
        return np.array([int(members[0]) if len(members) else n_rows for members in self._members], dtype=np.int64)

    def sets(self, *clusters: int) -> CpuSets:
        """The rows of some clusters, or of all."""
        if clusters and clusters != tuple(range(len(self))):
            return self._sets_of([self._members[k] for k in clusters])
        if self._everything is None:
            self._everything = self._sets_of(self._members)
        return self._everything

    def unions(self, groups: Sequence[Sequence[int]]) -> CpuSets:
        """The rows of each group of clusters as one set."""
        found: list[Numbers] = []
        n_rows = sum(len(self._members[k]) for group in groups for k in group)
        self._kind.each_large(
            self._passes, lambda number: self.together(*groups[number]), len(groups), n_rows, found.append
        )
        return self._sets_of(found)

    def _sets_of(self, numbers: Sequence[Numbers]) -> CpuSets:
        return self._kind.of(self._passes, numbers, memory=self._memory)

    def together(self, *clusters: int) -> Numbers:
        """Which rows some clusters have, in increasing order."""
        if len(clusters) == 1:
            return self._members[clusters[0]]
        first, *others = (self._members[k] for k in clusters)
        return reduce(self._merged, others, first)

    def _merged(self, one: Numbers, two: Numbers) -> Numbers:
        out = np.empty(len(one) + len(two), dtype=np.int32)
        self._passes.kernels.merge_rows(one, two, out)
        return out

    # --------------------------------------------------------------------------------------------------- moves

    def split(self, cluster: int, sides: CpuSides) -> None:
        """Leave the rows that are left in the cluster, and make those that are right the last cluster."""
        self._members[cluster], right = self._kind.side_of(self._passes, self._members[cluster], sides)
        self._members.append(right)
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
        self._members, self._everything = [], None  # as large as what takes their place
        self._gather(counts[counts > 0])
        return counts


def _side_limbs(passes: Passes, odds: Float64Array, is_left: Flags, rounders: tuple[float, float]) -> Float64Array:
    """`side_limbs` of the kernels, some rows at a time: whole sums, which have the same bits for any cut."""
    limbs = passes.kernels.side_limbs
    found: list[Float64Array] = []
    parts = even_ranges(len(odds), max(1, min(passes.n_threads, len(odds) // _COPIED_ROWS)))
    passes.run(
        lambda number: limbs(odds[slice(*parts[number])], is_left[slice(*parts[number])], rounders),
        len(parts),
        found.append,
    )
    return found[0] if len(found) == 1 else np.sum(found, axis=0)


def _dense(rows: Block) -> FloatArray:
    assert not isinstance(rows, SparseBlock), "sums of CSR rows go another way"
    return rows


def memory_for(n_rows: int) -> SetMemory | None:
    """Of a chain on so many rows; none where sets seldom come back."""
    return SetMemory() if n_rows <= _REMEMBERED_ROWS else None
