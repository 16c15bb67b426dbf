"""Sets of rows that are known by their numbers: sums over them, and scores of each row, without a copy of the rows.

Sets are cut into pieces of at most 4,096 rows whose sums are added in order. A piece depends on its set alone, so the
bits of a sum depend neither on the threads nor on the other sets that are summed along with it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from armillary._typing import Float64Array, FloatArray
from armillary.distributions.row_sets import scatter_of
from armillary.distributions.tangent_gaussian import RowSums
from armillary.fitting.passes import Passes
from armillary.kernels.contract import AffineRule, QuadraticRule
from armillary.points import Block, SparseBlock, even_ranges

Numbers: TypeAlias = npt.NDArray[np.int32]
MixtureRule: TypeAlias = AffineRule | QuadraticRule

T = TypeVar("T")
P = TypeVar("P", bound=Any)

_PIECE_ROWS = 4096
# Tasks for each thread: enough for an even share.
_TASKS_PER_THREAD = 4
_MANY_PIECES = 16
# Rows that are not worth waking a thread for.
_FEW_ROWS = 2048
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


class NumberedRows:
    """G sets of rows of the points of `passes`; see `distributions/row_sets.py`."""

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
    ) -> NumberedRows:
        """Sets of these rows, none empty, with these weights."""
        starts = np.concatenate([[0], np.cumsum([len(one) for one in sets])])
        numbers = sets[0] if len(sets) == 1 else np.concatenate(sets)
        return cls(passes, numbers, starts, None if weights is None else np.concatenate(weights), memory)

    def of_numbers(self, sets: Sequence[Numbers], weights: Sequence[Float64Array] | None = None) -> NumberedRows:
        """Other sets of rows of the same points."""
        return NumberedRows.of(self._passes, sets, weights)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def part(self, number: int) -> slice:
        """The places of one set in `numbers`."""
        return slice(int(self.starts[number]), int(self.starts[number + 1]))

    @cached_property
    def counts(self) -> Float64Array:
        """Rows of each set (G,), or sums of weights."""
        if self._weights is None:
            return np.diff(self.starts).astype(np.float64)
        return np.add.reduceat(self._weights, self.starts[:-1])

    # ------------------------------------------------------------------------------------------------ sums

    def totals(self) -> Float64Array:
        """sum w x (G, D)."""
        return self._totals

    @cached_property
    def _totals(self) -> Float64Array:
        kernels = self._passes.kernels
        out = np.empty((len(self._owners), self._passes.points.n_features))

        def task(first: int, last: int) -> None:
            if self._weights is None and not self._passes.points.is_sparse:
                out[first:last] = kernels.row_totals(*self._lent(first, last))
                return
            for piece in range(first, last):
                part = slice(self._edges[piece], self._edges[piece + 1])
                weights = np.ones(part.stop - part.start) if self._weights is None else self._weights[part]
                out[piece] = weights @ self.gathered(part)

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
        kernels, n_pieces, n_features = self._passes.kernels, len(self._owners), bases.shape[1]
        shapes = (n_features,), (n_features, n_features), (), (), ()
        out = RowSums(*(np.empty((n_pieces, *shape)) for shape in shapes))

        def task(first: int, last: int) -> None:
            rows, numbers, edges = self._lent(first, last)
            weights = self._weights
            if weights is not None and not self._is_in_place:
                weights = weights[self._edges[first] : self._edges[last]]
            own = bases[self._owners[first:last]]
            found = kernels.tangent_sums(
                rows, numbers, edges, own, weights, with_scatter=with_scatter, with_curvature=with_curvature
            )
            for whole, part in zip(out, found, strict=True):
                whole[first:last] = part

        self._each_range(task)
        return RowSums(*(self._added(part) for part in out))

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives, a function of these sets alone: made when it is first asked for by this name."""
        if name not in self._known:
            self._known[name] = make()
        found: T = self._known[name]
        return found

    def of_each(self, name: Hashable, make: Callable[[NumberedRows], P]) -> P:
        """What `make` gives, fields with the axis of the sets first: functions of each set alone, remembered by it."""
        if self._memory is None or self._weights is not None:
            return self.once(name, lambda: make(self))
        return self.once(name, lambda: self._recalled(name, make))

    def _recalled(self, name: Hashable, make: Callable[[NumberedRows], P]) -> P:
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

    def some(self, places: Sequence[int]) -> NumberedRows:
        """The sets at some places."""
        return NumberedRows.of(self._passes, [self.numbers[self.part(place)] for place in places], None, self._memory)

    def _each_range(self, task: Callable[[int, int], None]) -> None:
        """Call `task(first, last)` on ranges of pieces that cover all; they run side by side."""
        n_pieces, n_threads = len(self._owners), self._passes.n_threads
        n_tasks = min(n_pieces, n_threads if n_pieces < _MANY_PIECES * n_threads else _TASKS_PER_THREAD * n_threads)
        if len(self.numbers) < _FEW_ROWS:
            n_tasks = 1
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

    def gathered(self, part: slice | npt.NDArray[np.int64]) -> Any:
        """The rows (m, D) at some places, in float64, an array or CSR; as the kernels see them, not made unit again."""
        return as_float64(self._passes.points.gather(self.numbers[part]))

    # ---------------------------------------------------------------------------------------- row by row

    def odds(self, rule: MixtureRule) -> Float64Array:
        """Of each row of set g the score of cluster 2 g of the rule less that of cluster 2 g + 1, (M,)."""
        values = np.empty(len(self.numbers))

        def keep(part: slice, odds: Float64Array) -> None:
            values[part] = odds

        self._each_odds(rule, keep)
        return values

    def draw_sides(self, rule: MixtureRule, key: tuple[int, int], is_left: npt.NDArray[np.bool_]) -> None:
        """Redraw is_left[i] of each row i of the sets, with the odds of `odds` and the uniform philox(key, i)."""

        def draw(part: slice, odds: Float64Array) -> None:
            self._passes.kernels.draw_sides(self.numbers[part], odds, key, is_left)

        self._each_odds(rule, draw)

    def _each_odds(self, rule: MixtureRule, task: Callable[[slice, Float64Array], None]) -> None:
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

    def parted(self, is_left: npt.NDArray[np.bool_]) -> NumberedRows:
        """2 G sets: of each the rows with is_left[i], then the others. Both must be there."""
        numbers = np.empty_like(self.numbers)
        n_left = self._passes.kernels.part_rows(self.numbers, self.starts, is_left, numbers)
        starts = np.append(np.stack([self.starts[:-1], self.starts[:-1] + n_left], axis=1).ravel(), self.starts[-1])
        return NumberedRows(self._passes, numbers, starts, memory=self._memory)

    def n_left(self, is_left: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """How many rows of each set have is_left[i], (G,)."""
        return np.add.reduceat(is_left[self.numbers], self.starts[:-1], dtype=np.int64)


def memory_for(n_rows: int) -> SetMemory | None:
    """Of a chain on so many rows; none where sets seldom come back."""
    return SetMemory() if n_rows <= _REMEMBERED_ROWS else None


def as_float64(rows: Block) -> Any:
    """A block in float64, an array or CSR; not made unit again."""
    if isinstance(rows, SparseBlock):
        held = slice(rows.indptr[0], rows.indptr[-1])
        data = rows.data[held].astype(np.float64, copy=False)
        shape = len(rows.indptr) - 1, rows.n_features
        return csr_array((data, rows.indices[held], rows.indptr - rows.indptr[0]), shape=shape)
    return rows.astype(np.float64, copy=False)
