"""Sweeps in which rows open, close and revive clusters: the labels of one row at a time, at the speed of a pass.

The definition is sequential (dp_vmf_means.md, 3): each row leaves its slot, then takes the best slot that has another
row now, revives a remembered track, or opens a slot of its own. So the answer for a row depends on the rows before it,
but only through *events*: a birth, a revival, a slot that lost its last row. Between events rows do not see each other.

Hence a sweep is a race of two ways to go on from row p:

    optimistic   label the rows p..q by one parallel pass that assumes no event, then find the first row that might
                 make it wrong. Suspects are rows that nobody accepts, rows that may revive a track, and the last row of
                 each slot (for slot k, row i has company iff i < last_k or first_k < i). They are decided exactly;
                 most are no events. All rows before the first event are right.
    cautious     decide a block of rows one after the other from a table of their scores. A birth adds a column to the
                 table: one product for each later row of the block.

A sweep after which nothing is born takes one optimistic pass. Optimistic blocks that had an event are followed by a
cautious block, and cautious ones go on until half of one passes without an event. Then all other rows are tried, and
once that was wrong ever larger blocks, so the work wasted is at most a pass and a multiple of the work done.
Nothing here is approximate: scores that a filter cannot tell apart are settled in float64 by one recipe, so labels
equal the sequential ones to the last row, whatever the blocks, threads and representation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.engines.contract import Algorithm, FewRows, Labels, Outcome, Passes
from armillary.fitting.assignment import HardAssignment
from armillary.points import NARROW, Block, SparseBlock, cut
from armillary.rules import AffineRule, Company, Exact, Halt, Recall, Seeds, Slots, Tracks
from armillary.sums import whole
from armillary.sums.directional import DirectionalStatistics
from armillary.validation import UNIT_TOLERANCE

# Rows decided one after the other before optimism is tried again, and by how much an optimistic window then grows.
_CAUTIOUS_ROWS = 1024
_GROWTH = 8
# Suspects gathered at a time.
_MOST_SUSPECTS = 4096
# Added to the cosine of a slot that is closed for the rest of the sweep: below every score of an open one.
_CLOSED = -8.0
# Columns by which a table of scores grows.
_SPARE_COLUMNS = 32

# What is remembered where there is no memory.
_NO_TRACKS = Tracks(np.empty((0, 1)), np.empty(0), np.empty(0, dtype=np.int64), 1.0, True)

Rows = npt.NDArray[np.int64]
_NOBODY: Rows = np.empty(0, dtype=np.int64)


class Memory(Protocol):
    """Remembered tracks: slots 0..T-1. A track without rows is scored by a curve of the angle to its direction."""

    @property
    def directions(self) -> Float64Array:
        """(T, D)."""

    @property
    def tracks(self) -> Tracks:
        """The tracks as kernels have them."""

    @property
    def curve(self) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Angles, scores and slopes (T, knots) of a cubic Hermite curve, wrong by at most `curve_doubt`."""

    @property
    def curve_doubt(self) -> float:
        """See `curve`."""

    @property
    def ceilings(self) -> Float64Array:
        """(T,): score - cosine never exceeds it."""

    def scores(self, row: Float64Array) -> Float64Array:
        """Exact scores (T,) of one row (D,)."""

    def revive(self, tracks: npt.NDArray[np.int64], resultants: Float64Array) -> Float64Array:
        """The directions (P, D) of tracks (P,) whose only rows have these resultants (P, D)."""


@dataclass(frozen=True, eq=False)
class Opening:
    """When and how rows open clusters."""

    floor: float  # a row whose best score is lower asks for a cluster of its own; -inf: only where there is none
    max_open: int | None = None  # no births while this many clusters have rows
    memory: Memory | None = None


@dataclass(frozen=True, eq=False)
class Sweep:
    """What a sweep left."""

    directions: Float64Array  # (K', D) under which rows were labelled; births are appended
    statistics: DirectionalStatistics  # of the K' slots by the new labels
    is_still: bool  # no label changed


class SequentialAssignment(HardAssignment):
    """Labels of rows among slots that open and close."""

    def __init__(self, passes: Passes, algorithm: Algorithm = "lloyd") -> None:
        super().__init__(passes, algorithm)
        self.has_labels = False  # whether labels are those of a sweep, or were put there
        self._statistics: DirectionalStatistics | None = None  # of the labels, where they are known

    def begin_with(self, numbers: Rows, values: npt.ArrayLike) -> None:
        """Give rows labels of the caller's choosing, before a sweep or between two."""
        self.labels.put(numbers, values)
        self.labels.forget()
        self.has_labels, self._statistics = True, None

    def keep(self, is_kept: npt.NDArray[np.bool_]) -> None:
        """Drop slots that have no rows; the others move up and keep their order."""
        if not is_kept.all():
            self.labels.keep(is_kept)
            if self._statistics is not None:
                self._statistics = self._statistics.select(is_kept)

    def sweep_in_order(self, directions: Float64Array, opening: Opening, *, has_company: bool = False) -> Sweep:
        """Label every row by the sequential rule, starting from `directions` (K, D).

        `has_company`: every slot has a row outside this sweep, so it stays open (a warm start, a new batch).
        Slots that end without rows are still in the outcome; `keep` drops them.
        """
        passes, labels = self.passes, self.labels
        order = _Order(passes, labels, directions, opening)
        n_rows = passes.points.n_rows
        if has_company:
            order.last.fill(n_rows)
        elif self.has_labels:
            order.last = labels.last_rows(order.slots_with_rows(self._statistics))
        n_changed = 0
        is_eventful = False
        position, window, is_quiet = 0, n_rows, True
        while position < n_rows:
            if is_quiet and order.is_open(position).any():
                stop = min(n_rows, position + window)
                rule, is_capped = order.rule(position)
                span = None if (position, stop) == (0, n_rows) else (position, stop)
                outcome = passes.label(rule, labels, span=span, sums=stop == n_rows)
                if position == 0 and stop == n_rows:
                    n_changed = outcome.n_moved
                position, n_moved = order.settle(position, stop, is_capped, outcome)
                n_changed += n_moved
                if position == n_rows:
                    break
                is_eventful = True
                if position == stop:
                    window *= _GROWTH
                    continue
                window = _GROWTH * _CAUTIOUS_ROWS
                labels.fill(-1, (position, n_rows))
            is_eventful = True
            stop = min(n_rows, position + _CAUTIOUS_ROWS)
            is_quiet = 2 * order.walk(position, stop) >= stop - position
            position = stop
        if is_eventful or order.has_decided:
            labels.forget()
        # the sums of a last pass lack rows that it refused, or have them elsewhere: engines know of those that moved
        statistics = passes.sum(labels, order.n_slots)
        self._statistics, self.has_labels = statistics, True
        return Sweep(order.directions, statistics, is_still=n_changed == 0 and not is_eventful)


class _Order:
    """One sweep under way: slots, and which of them have company at each row."""

    def __init__(
        self,
        passes: Passes,
        labels: Labels,
        directions: Float64Array,
        opening: Opening,
    ) -> None:
        self.points = passes.points
        self.host = passes.host
        self.is_narrow = not self.points.is_sparse and self.points.n_features <= NARROW
        self._passes = passes
        self._labels = labels
        self.opening = opening
        self.max_open = np.iinfo(np.int64).max if opening.max_open is None else opening.max_open
        self.n_tracks = 0 if opening.memory is None else len(opening.memory.directions)
        # a track's score is that of the unit row; rows are unit to within this
        self.norm_doubt = UNIT_TOLERANCE[self.points.dtype]
        self.n_slots = len(directions)
        self._directions = np.array(directions, dtype=np.float64)
        n_rows = self.points.n_rows
        self.last = np.full(self.n_slots, -1, dtype=np.int64)
        self.first = np.full(self.n_slots, n_rows, dtype=np.int64)
        self.q = self.points.q
        self.has_decided = False  # whether suspects of the last optimistic pass got other labels than by the pass

    @property
    def directions(self) -> Float64Array:
        """The directions (K, D) of the slots."""
        return self._directions[: self.n_slots]

    def is_open(self, position: int) -> npt.NDArray[np.bool_]:
        """Slots (K,) that a row from `position` on may find in company."""
        return (self.last >= position) | (self.first < position)

    def slots_with_rows(self, statistics: DirectionalStatistics | None) -> npt.NDArray[np.bool_]:
        """Slots (K,) that may have rows, by sums over all rows: rows of weight 0 do not show in them."""
        if statistics is None or self.points.has_weights:
            return np.ones(self.n_slots, dtype=np.bool_)
        return statistics.counts > 0.0

    # ------------------------------------------------------------------------------------------ optimistic

    def rule(self, position: int) -> tuple[AffineRule, bool]:
        """The rule for rows from `position` on if nothing happens; whether births are ruled out by the cap."""
        is_closed = ~self.is_open(position)
        vectors, offsets = self.directions.copy(), np.zeros(self.n_slots)
        offsets[is_closed] = _CLOSED
        if self.opening.memory is not None:
            # a track's score is at most its cosine and the ceiling: rows that prefer that are looked at again
            sleeping = np.flatnonzero(is_closed[: self.n_tracks])
            vectors[sleeping] = self.opening.memory.directions[sleeping]
            offsets[sleeping] = self.opening.memory.ceilings[sleeping] + self.norm_doubt
        is_capped = int((~is_closed).sum()) >= self.max_open
        return AffineRule(vectors, offsets, -np.inf if is_capped else self.opening.floor, is_closed), is_capped

    def settle(self, start: int, stop: int, is_capped: bool, outcome: Outcome) -> tuple[int, int]:
        """Decide the suspects among the rows start..stop just labelled, with this outcome.

        Returns the row up to which labels are right, and how many suspects moved.
        """
        statistics, has_refused = outcome.statistics, outcome.n_refused > 0
        self.has_decided = False
        n_rows = self.points.n_rows
        settled = self._labels.first_rows(self.slots_with_rows(statistics), (start, stop))
        settled = np.minimum(settled, self.first)
        # slots whose last row is here and which no row has taken before
        is_ending = (self.last >= start) & (self.last < stop) & (self.first >= start)
        is_leaving = is_ending & (settled > self.last)
        is_lone = is_ending & (settled == self.last) & ~self.is_own_company(self.last)
        # a row that took a slot after its last row had gone; the row that leaves a track asleep, or a birth possible
        limit = int(settled[is_leaving].min(initial=stop))
        is_waking = is_leaving if is_capped else is_leaving[: self.n_tracks]
        limit = int(self.last[: len(is_waking)][is_waking].min(initial=limit))

        lone = np.sort(self.last[is_lone])
        n_moved, end, position = 0, limit, start
        while position < limit:
            refused = self._labels.refused((position, limit), _MOST_SUSPECTS) if has_refused else _NOBODY
            stop_here = limit if len(refused) < _MOST_SUSPECTS else int(refused[-1]) + 1
            alone = lone[(lone >= position) & (lone < stop_here)]
            numbers = np.union1d(refused, alone) if alone.size else refused
            position = stop_here
            if not numbers.size:
                continue
            block = _Table(self, self._passes.rows(numbers), settled)
            end, decided = self._first_event(block, limit)
            by_pass, found = self._labels.at(numbers[:decided]), block.labels[:decided]
            before = np.where(by_pass < 0, -2 - by_pass, by_pass)
            n_moved += int(np.count_nonzero(before != found))
            is_other = by_pass != found
            if is_other.any():
                self.has_decided = True
                self._passes.move(self._labels, numbers[:decided][is_other], found[is_other])
            if end < limit:
                break
        self.first = np.where(settled < end, settled, n_rows)
        return end, n_moved

    def _first_event(self, block: _Table, limit: int) -> tuple[int, int]:
        """Walk over suspects: the row up to which labels are right, and how many suspects were decided."""
        position = 0
        while True:
            position, halt, track = block.walk(position)
            # the row that leaves a slot alone closes it: later rows may have taken it
            left = block.leaving(position)
            if left is not None:
                block.first[block.closing[left]] = self.points.n_rows
                return int(block.numbers[left]) + 1, left + 1
            if halt == Halt.END:
                return limit, position
            if halt == Halt.REVIVAL and block.is_staying(position, track):
                block.put(position, track)
                position += 1
                continue
            return int(block.numbers[position]), position

    # -------------------------------------------------------------------------------------------- cautious

    def walk(self, start: int, stop: int) -> int:
        """Decide the rows start..stop one after the other; return how many came after the last event."""
        block = _Table(self, self._passes.rows(range(start, stop)), self.first)
        n_calm = block.walk_on() if self.is_narrow else self._walk(block)
        self._labels.put(block.numbers, block.labels)
        self.first = block.first
        return n_calm

    def _walk(self, block: _Table) -> int:
        position = calm_from = 0
        while True:
            position, halt, track = block.walk(position)
            if halt == Halt.END:
                return position - calm_from
            if halt == Halt.REVIVAL:
                slot, direction = track, block.revived(position, track)
            else:
                slot, direction = block.slot_for_birth(position), block.seed(position)
            if slot == self.n_slots:
                self._append()
            self._directions[slot] = direction
            block.put(position, slot)
            block.fill_column(slot, position + 1)
            position += 1
            calm_from = position

    def slots(self, first: Rows, is_seed: npt.NDArray[np.bool_], n_new: int) -> Slots:
        """The slots, with room for some new ones."""
        return Slots(
            _extended(self.directions, n_new, 0.0),
            _extended(self.last, n_new, -1),
            _extended(first, n_new, self.points.n_rows),
            _extended(is_seed, n_new, False),
        )

    def take(self, slots: Slots, n_slots: int) -> None:
        """Go on with the slots that a walk has left."""
        self._directions, self.last, self.n_slots = slots.directions, slots.last[:n_slots], n_slots

    def _append(self) -> None:
        if self.n_slots == len(self._directions):
            more = np.empty((max(16, self.n_slots), self.points.n_features))
            self._directions = np.concatenate([self._directions, more])
        self.last = np.append(self.last, -1)
        self.n_slots += 1

    def is_own_company(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """A row that stands for more than one is not alone in its slot; rows outside 0..n-1 are not asked about."""
        if not self.points.has_weights:
            return np.zeros(len(rows), dtype=np.bool_)
        weights = self._passes.weights_at(np.clip(rows, 0, self.points.n_rows - 1))
        assert weights is not None
        return weights > 1.0


class _Table:
    """Rows decided one after the other from their scores with every slot."""

    def __init__(self, order: _Order, few: FewRows, first: Rows) -> None:
        self._order = order
        self.numbers = numbers = few.numbers
        self._rows = rows = few.block
        # as sums over the rows have them
        self._weights = None if few.weights is None else whole.lifted(few.weights, order.q)
        self.first = first
        self.labels = np.full(len(numbers), -1, dtype=np.int32)
        self._scores, self._doubt = self._filter_scores(rows, order.directions)
        places = np.searchsorted(numbers, order.last)
        places[places == len(numbers)] = 0
        ending = np.flatnonzero(numbers[places] == order.last)
        self.closing = np.full(len(numbers), -1, dtype=np.int32)
        self.closing[places[ending]] = np.where(order.is_own_company(order.last[ending]), -2 - ending, ending)
        self._is_seed = np.zeros(order.n_slots, dtype=np.bool_)
        if ending.size:
            seeds = np.array([self.seed(place) for place in places[ending]])
            self._is_seed[ending] = (seeds == order.directions[ending]).all(axis=1)
        self._recall = self._remember()
        self._revivals: dict[tuple[int, int], Float64Array] = {}

    def _filter_scores(self, rows: Block, directions: Float64Array) -> tuple[FloatArray, float]:
        host = self._order.host
        return host.filter_scores(rows, host.prepare(AffineRule.cosines(directions)))

    def _remember(self) -> Recall:
        memory = self._order.opening.memory
        if memory is None or len(memory.directions) == 0:
            nothing = np.empty((0, 2))
            return Recall(self._scores[:, :0], nothing, nothing, nothing, np.empty(0), 0.0, 0.0)
        if np.array_equal(memory.directions, self._order.directions):  # nothing has moved yet
            cosines, doubt = self._scores, self._doubt
        else:
            cosines, doubt = self._filter_scores(self._rows, memory.directions)
        return Recall(cosines, *memory.curve, memory.ceilings, doubt + self._order.norm_doubt, memory.curve_doubt)

    # ------------------------------------------------------------------------------------------------ walk

    def walk(self, position: int) -> tuple[int, Halt, int]:
        """Go on from `position` to the next event, settling doubts on the way."""
        exact = Exact(-1, np.empty(0), np.empty(0))
        order = self._order
        while True:
            position, halt, track = order.host.walk(
                position,
                self.numbers,
                self._scores,
                self._doubt,
                self.closing,
                self._is_seed,
                Company(order.last, self.first),
                order.opening.floor,
                order.max_open,
                self._recall,
                exact,
                self.labels,
            )
            if halt != Halt.DOUBT:
                return position, Halt(halt), track
            exact = Exact(position, self._exact_scores(position), self._exact_recalls(position))

    def walk_on(self) -> int:
        """Decide all rows, births and revivals included, in compiled code; return how many came after the last."""
        order, rows = self._order, np.asarray(self._rows)
        memory, weights = order.opening.memory, self._weights
        tracks = _NO_TRACKS if memory is None else memory.tracks
        plain = rows.astype(np.float64)
        resultants = plain if weights is None else weights[:, None] * plain
        seeds = Seeds(*_alone(whole.rounded(resultants, order.q), order.q).polar(otherwise=_units(plain)))
        exact = Exact(-1, np.empty(0), np.empty(0))
        position, calm_from, n_new = 0, 0, _SPARE_COLUMNS
        while True:
            slots = order.slots(self.first, self._is_seed, n_new)
            self._scores = _with_columns(self._scores, len(slots.last))
            position, halt, n_slots, calm_from = order.host.walk_on(
                position,
                calm_from,
                self.numbers,
                rows,
                seeds,
                self._scores,
                self.closing,
                slots,
                order.n_slots,
                order.opening.floor,
                order.max_open,
                self._recall,
                tracks,
                exact,
                self.labels,
            )
            order.take(slots, n_slots)
            self.first, self._is_seed = slots.first[:n_slots], slots.is_seed[:n_slots]
            if halt == Halt.END:
                return position - calm_from
            if halt == Halt.DOUBT:
                exact = Exact(position, self._exact_scores(position), self._exact_recalls(position))
            else:
                n_new *= 2

    def _exact_scores(self, position: int) -> Float64Array:
        order = self._order
        out = np.empty((1, order.n_slots))
        if order.n_slots:
            row = cut(self._rows, position, position + 1)
            order.host.exact_scores(row, order.host.prepare(AffineRule.cosines(order.directions)), out)
        return out[0]

    def _exact_recalls(self, position: int) -> Float64Array:
        memory = self._order.opening.memory
        return np.empty(0) if memory is None else memory.scores(self.seed(position))

    def put(self, position: int, slot: int) -> None:
        """The row at `position` takes `slot`, which may be new."""
        if slot == len(self.first):
            self.first = np.append(self.first, self._order.points.n_rows)
            self._is_seed = np.append(self._is_seed, False)
        self.labels[position] = slot
        self.first[slot] = min(self.first[slot], self.numbers[position])

    def fill_column(self, slot: int, position: int) -> None:
        """Score the rows from `position` on with the direction that `slot` has now."""
        if slot >= self._scores.shape[1]:
            self._scores = _with_columns(self._scores, slot + max(_SPARE_COLUMNS, slot))
        if position < len(self.numbers):
            rows = cut(self._rows, position, len(self.numbers))
            scores, self._doubt = self._filter_scores(rows, self._order.directions[slot : slot + 1])
            self._scores[position:, slot] = scores[:, 0]

    # -------------------------------------------------------------------------------------------- questions

    def slot_for_birth(self, position: int) -> int:
        """The slot that the row leaves empty, if it is not a track; else a new one."""
        lone = int(self.closing[position])
        is_empty = lone >= self._order.n_tracks and self.first[lone] >= self.numbers[position]
        return lone if is_empty else self._order.n_slots

    def leaving(self, stop: int) -> int | None:
        """The first position before `stop` whose row was alone in its slot and has left it."""
        closing = self.closing[:stop]
        left = np.flatnonzero((closing >= 0) & (self.labels[:stop] != closing))
        for position in left:
            if self.first[closing[position]] >= self.numbers[position]:
                return int(position)
        return None

    def is_staying(self, position: int, track: int) -> bool:
        """Whether the row was alone in `track` and revives it with the direction it has."""
        if self.closing[position] != track:
            return False
        return bool(np.array_equal(self.revived(position, track), self._order.directions[track]))

    def revived(self, position: int, track: int) -> Float64Array:
        """The direction (D,) of a track that the row at `position` revives.

        Most tracks are revived by the first row that likes them best, so those are solved together: a solver costs as
        much for ten as for one.
        """
        memory = self._order.opening.memory
        assert memory is not None
        if (position, track) not in self._revivals:
            favourite = np.argmax(self._recall.cosines[position:] + self._recall.ceilings, axis=1)
            tracks, first = np.unique(favourite, return_index=True)
            pairs = {(position, track), *zip((position + first).tolist(), tracks.tolist(), strict=True)}
            positions = sorted(pairs)
            resultants = np.array([self.resultant(place) for place, _ in positions])
            directions = memory.revive(np.array([number for _, number in positions]), resultants)
            self._revivals.update(zip(positions, directions, strict=True))
        return self._revivals[position, track]

    def resultant(self, position: int) -> Float64Array:
        """The row, in float64 and weighted, as a sum over this row alone has it (D,)."""
        weight = 1.0 if self._weights is None else self._weights[position]
        return whole.rounded(weight * self._row(position), self._order.q)

    def seed(self, position: int) -> Float64Array:
        """The direction (D,) of a slot that has this row alone, with the bits that an update gives."""
        alone = _alone(self.resultant(position)[None], self._order.q)
        return alone.directions(otherwise=_units(self._row(position)[None]))[0]

    def _row(self, position: int) -> Float64Array:
        row = cut(self._rows, position, position + 1)
        if not isinstance(row, SparseBlock):
            return np.asarray(row[0], dtype=np.float64)
        dense = np.zeros(row.n_features)
        inside = slice(row.indptr[0], row.indptr[1])
        dense[row.indices[inside]] = row.data[inside]
        return dense


def _extended(values: npt.NDArray[Any], n_more: int, filling: Any) -> npt.NDArray[Any]:
    """The values, and some more of them at the end."""
    more = np.full((n_more, *values.shape[1:]), filling, dtype=values.dtype)
    return np.concatenate([values, more])


def _with_columns(table: FloatArray, n_columns: int) -> FloatArray:
    """The table with at least so many columns, those that are new with any numbers."""
    if table.shape[1] >= n_columns:
        return table
    return np.concatenate([table, np.empty((len(table), n_columns - table.shape[1]), table.dtype)], axis=1)


def _alone(resultants: Float64Array, q: int) -> DirectionalStatistics:
    """Slots (m,) that have one row each, whose counts nobody asks for."""
    return DirectionalStatistics(np.zeros(len(resultants)), resultants, q)


def _units(rows: Float64Array) -> Float64Array:
    """The directions of rows, for those so light that their sums have none."""
    return DirectionalStatistics(np.zeros(len(rows)), rows).directions(otherwise=rows)
