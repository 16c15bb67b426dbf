"""Wide dense rows: product and arg max in one loop, for a few tiles of 16 rows, each row in a lane of the vectors.

BLAS multiplies well, but its scores go to memory and are read again for the arg max. Here they never leave the
registers: rows of 384 columns find the best of 100 clusters at 100 GFLOP/s a core (Zen 4), where the product alone
reaches 86 with NumPy's BLAS, and the processor 117. And a row may be scored against any few clusters, which makes
bounds pay: those of bounds.py leave about one product in ten.

`best` is the state of a tile: the best score, the second best and the best label of each lane. `screen` holds the
float32 vectors (K, D) and twice the error bound of their scores, `exact` what settles the rest in float64: vectors,
offsets, floor, the score above which a row is surely not below the floor, and which clusters are rivals.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.kernels.crew import add_to_total, ask, dismiss, lock, take_number, take_seat, this_call, unlock
from armillary.kernels.jit import FILTER, kernel
from armillary.kernels.rows.bounds import angle_above, angle_below, is_beyond, is_settled, loosen
from armillary.kernels.rows.choose import exact_score, record
from armillary.kernels.rows.dense import add_rows
from armillary.kernels.rows.simd import (
    CACHE_LINE,
    FEWEST_TOGETHER,
    LANES,
    MOST_TOGETHER,
    TILES_TOGETHER,
    fetch_to_read,
    score_lanes,
    score_row,
    turn_to_lanes,
)

# Rows that are scored side by side.
_ROWS = LANES * TILES_TOGETHER
# Rows near more than this share of a circle are scored against all clusters, in tiles.
_MOST_NEAR = 0.6
# Rows between a fetch of a row into the cache and its use.
_ROWS_AHEAD = 6


@kernel
def assign_best(
    rows,
    numbers,
    listed,
    level,
    screen,
    exact,
    labels,
    changed,
    own,
    other,
    doubt,
    weights,
    is_wanted,
    rounder,
    counts,
    resultants,
    room,
):
    """Arg max over the clusters `listed`, whose offsets are `level`, of the rows in `numbers` (None: all).

    Near ties, and bests next to the floor, are settled in float64. Where `own` and `other` are not None they receive
    safe bounds on the angles to the best and to the second best direction; cosines are off by at most `doubt`. Where
    `counts` is not empty, all rows are added to the sums of their labels while they are in the cache. `room` is that of
    one thread (`rooms`).
    """
    n_rows = rows.shape[0] if numbers is None else numbers.shape[0]
    tiles, tops, winners, places = room
    best = tops[0], tops[1], winners
    members, ahead, starts = places[0], places[1], places[2]
    n_changed = 0
    for first in range(0, n_rows, _ROWS):
        size = n_rows - first if n_rows - first < _ROWS else _ROWS
        for lane in range(_ROWS):
            r = first + (lane if lane < size else size - 1)  # lanes to spare repeat the last row
            members[lane] = r if numbers is None else numbers[r]
            r = first + _ROWS + lane
            r = r if r < n_rows else n_rows - 1
            ahead[lane] = r if numbers is None else numbers[r]
            best[0][lane], best[1][lane], best[2][lane] = -np.inf, -np.inf, 0
        _score_tiles(rows, members, ahead, starts, listed, level, screen[0], tiles, best)
        n_changed += _decide_tile(
            rows, members[:size], listed, level, screen, exact, best, labels, changed, own, other, doubt
        )
        if counts.shape[0] > 0:
            part = slice(first, first + size)
            add_rows(rows[part], weights[part], labels[part], is_wanted, rounder, counts, resultants)
    return n_changed


@kernel
def assign_pieces(
    is_helper,
    box,
    n_helpers,
    rows,
    n_together,
    taken,
    listed,
    level,
    screen,
    exact,
    labels,
    doubt,
    weights,
    is_wanted,
    rounder,
    counts,
    resultants,
    all_rooms,
    all_sums,
):
    """`assign_best` of all rows, which helpers join, `n_together` rows at a time."""
    seat: int = take_seat(taken)
    room = all_rooms[0][seat], all_rooms[1][seat], all_rooms[2][seat], all_rooms[3][seat]
    own_counts, own_resultants = all_sums[0][seat], all_sums[1][seat]
    n_changed = 0
    if is_helper == 0:
        ask(box, n_helpers, this_call())
    first: int = n_together * take_number(taken)
    while first < rows.shape[0]:
        part = slice(first, first + n_together)
        n_changed += assign_best(
            rows[part],
            None,
            listed,
            level,
            screen,
            exact,
            labels[part],
            None,
            None,
            None,
            doubt,
            weights[part],
            is_wanted,
            rounder,
            own_counts,
            own_resultants,
            room,
        )
        first = n_together * take_number(taken)
    _hand_in(box, n_helpers, own_counts, own_resultants, counts, resultants)
    add_to_total(taken, n_changed)
    if is_helper == 0:
        dismiss(box, n_helpers)


@kernel
def _hand_in(box, n_helpers, own_counts, own_resultants, counts, resultants):
    """Add the sums of a thread to those of all: they are whole, so it does not matter who comes first."""
    if n_helpers > 0:
        lock(box)
    for k in range(counts.shape[0]):
        if own_counts[k] != 0.0:
            counts[k] += own_counts[k]
            own, total = own_resultants[k], resultants[k]
            for d in range(resultants.shape[1]):
                total[d] += own[d]
    if n_helpers > 0:
        unlock(box)


@kernel
def assign_bounded_pieces(
    is_helper,
    box,
    n_helpers,
    rows,
    n_together,
    taken,
    listed,
    level,
    screen,
    exact,
    circle,
    turns,
    labels,
    own,
    other,
    doubt,
    weights,
    is_wanted,
    rounder,
    counts,
    resultants,
    all_rooms,
    all_sums,
    all_numbers,
):
    """`assign_pieces` that passes over rows which bounds settle, and makes bounds of those that it scores.

    `turns` holds what `loosen` wants to know: angles turned (K,), the largest, the second largest, whose it is, and how
    far a label reaches.
    """
    seat: int = take_seat(taken)
    room = all_rooms[0][seat], all_rooms[1][seat], all_rooms[2][seat], all_rooms[3][seat]
    own_counts, own_resultants = all_sums[0][seat], all_sums[1][seat]
    active, others = all_numbers[seat, 0], all_numbers[seat, 1]
    turned, largest, second_largest, widest, reach = turns
    nothing, no_sums = own_counts[:0], own_resultants[:0]
    n_changed = 0
    if is_helper == 0:
        ask(box, n_helpers, this_call())
    first: int = n_together * take_number(taken)
    while first < rows.shape[0]:
        part = slice(first, first + n_together)
        some, label, mine, next_best = rows[part], labels[part], own[part], other[part]
        n_active = loosen(label, mine, next_best, turned, largest, second_largest, widest, reach, circle, active)
        if n_active > 0:
            n_moved, n_left = assign_near(
                some, active[:n_active], circle, screen, exact, reach, label, None, mine, next_best, doubt, others
            )
            n_changed += n_moved
            if n_left > 0:
                n_changed += assign_best(
                    some,
                    others[:n_left],
                    listed,
                    level,
                    screen,
                    exact,
                    label,
                    None,
                    mine,
                    next_best,
                    doubt,
                    nothing,
                    is_wanted,
                    rounder,
                    nothing,
                    no_sums,
                    room,
                )
        if counts.shape[0] > 0:
            add_rows(some, weights[part], label, is_wanted, rounder, own_counts, own_resultants)
        first = n_together * take_number(taken)
    _hand_in(box, n_helpers, own_counts, own_resultants, counts, resultants)
    add_to_total(taken, n_changed)
    if is_helper == 0:
        dismiss(box, n_helpers)


def rooms(n_threads: int, n_columns: int) -> tuple[npt.NDArray[Any], ...]:
    """What is written to for each thread: the rows of its tiles (tiles, D, 16), flat, their best, and their places.

    A line of the cache lies between what two threads write to. Tiles begin at one: else each load of a long vector
    takes two of them. The room of a call without helpers, often of one row, is kept by its thread: to make it would
    be a tenth of `predict`.
    """
    if n_threads > 1:
        return _new_rooms(n_threads, n_columns)
    known = getattr(_kept, "rooms", None)
    if known is None or known[0] != n_columns:
        known = _kept.rooms = n_columns, _new_rooms(1, n_columns)
    found: tuple[npt.NDArray[Any], ...] = known[1]
    return found


_kept = threading.local()


def _new_rooms(n_threads: int, n_columns: int) -> tuple[npt.NDArray[Any], ...]:
    n_values, line = _ROWS * n_columns, CACHE_LINE // 4
    room = np.empty(n_threads * n_values + line, np.float32)
    start = -(room.ctypes.data // 4) % line
    tiles = room[start : start + n_threads * n_values].reshape(n_threads, n_values)
    tops, winners = np.empty((n_threads, 4, _ROWS), np.float32), np.empty((n_threads, 4 * _ROWS), np.int32)
    return tiles, tops, winners, np.empty((n_threads, 4, _ROWS), np.int64)


def own_sums(n_threads: int, resultants: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Counts and resultants of each thread: nothing yet, and some to spare, as in `rooms`."""
    n_clusters, n_columns = resultants.shape
    if n_clusters == 0:
        return np.zeros((n_threads, 0)), np.zeros((n_threads, 0, 0))
    return np.zeros((n_threads, n_clusters + CACHE_LINE // 8)), np.zeros((n_threads, n_clusters + 1, n_columns))


@kernel
def _score_tiles(rows, members, ahead, starts, listed, level, vectors32, tiles, best):
    """Score the rows `members` (16 to a tile) against the listed clusters, a multiple of `FEWEST_TOGETHER`.

    The rows `ahead`, as many, come into the cache meanwhile; `starts` is room for where rows start.
    """
    n_columns = rows.shape[1]
    n_listed = listed.shape[0]
    top, second, label = best
    for lane in range(_ROWS):
        starts[lane] = members[lane] * n_columns
    for number in range(TILES_TOGETHER):
        tile = tiles[number * LANES * n_columns : (number + 1) * LANES * n_columns]
        begin = starts[number * LANES : (number + 1) * LANES]
        for column in range(0, n_columns - LANES, LANES):
            turn_to_lanes(rows, begin, column, tile)
        turn_to_lanes(rows, begin, n_columns - LANES, tile)  # the last columns, some of them for a second time
    first = n_fetched = 0
    while first < n_listed:
        left = n_listed - first - MOST_TOGETHER
        if left == 0 or left >= FEWEST_TOGETHER:
            score_lanes(tiles, TILES_TOGETHER, vectors32, listed, level, first, MOST_TOGETHER, top, second, label)
            first += MOST_TOGETHER
        else:
            score_lanes(tiles, TILES_TOGETHER, vectors32, listed, level, first, FEWEST_TOGETHER, top, second, label)
            first += FEWEST_TOGETHER
        while n_fetched * n_listed < _ROWS * first:
            _fetch_row(rows, ahead[n_fetched])
            n_fetched += 1


@kernel
def _fetch_row(rows, i):
    """Have row i brought into the cache: nothing else foresees which rows come next."""
    n_columns = rows.shape[1]
    for d in range(0, n_columns, CACHE_LINE // rows.itemsize):
        fetch_to_read(rows, i * n_columns + d)


@kernel
def _decide_tile(rows, members, listed, level, screen, exact, best, labels, changed, own, other, doubt):
    """Write the labels of scored rows; returns how many moved."""
    top, second, label = best
    _, margin = screen
    _, _, _, bar, is_rival = exact
    n_changed = 0
    for lane in range(members.shape[0]):
        i = members[lane]
        if top[lane] - second[lane] > margin and top[lane] > bar and not is_rival[label[lane]]:
            # as for most rows, nothing to settle: half the time of rows with few columns
            if own is not None:
                own[i], other[i] = angle_above(top[lane] - doubt), angle_below(second[lane] + doubt)
            n_changed += record(label[lane], i, labels, changed)
        else:
            found = top[lane], second[lane], label[lane]
            n_changed += _decide_row(rows, i, found, listed, level, screen, exact, labels, changed, own, other, doubt)
    return n_changed


@kernel
def _decide_row(rows, i, found, listed, level, screen, exact, labels, changed, own, other, doubt):
    """Write the label of row i, of which the best score, the second best and the best label are found.

    The bounds hold for the listed clusters and the row's own. Returns 1 if the row moved.
    """
    top, second, label = found
    vectors32, margin = screen
    vectors, offsets, floor, bar, is_rival = exact
    if top - second <= margin:
        before = label
        label = _settle(rows[i], label, labels[i], listed, level, vectors32, top - margin, vectors, offsets)
        second = second if label == before else top
    if own is not None:
        own[i] = angle_above(top - doubt)
        other[i] = angle_below(second + doubt)
    if is_rival[label] or (top <= bar and exact_score(rows[i], vectors[label], offsets[label]) < floor):
        label = -1
    return record(label, i, labels, changed)


@kernel
def _settle(row, label, own_label, listed, level, vectors32, threshold, vectors, offsets):
    """The arg max of the float64 scores among two labels and the listed clusters whose filter score may be the best."""
    best = exact_score(row, vectors[label], offsets[label])
    if 0 <= own_label < offsets.shape[0]:  # a label may be of a rule that had more clusters
        label, best = _better(row, own_label, vectors, offsets, label, best)
    for position in range(listed.shape[0]):
        k = listed[position]
        if filter_score(row, vectors32[k]) + level[position] >= threshold:
            label, best = _better(row, k, vectors, offsets, label, best)
    return label


@kernel
def _better(row, k, vectors, offsets, label, best):
    """The better of cluster k and `label`, whose exact score is `best`; of equal ones the smaller."""
    score = exact_score(row, vectors[k], offsets[k])
    return (k, score) if score > best or (score == best and k < label) else (label, best)


@kernel(fastmath=FILTER)
def filter_score(row, vector):
    """The product of a row and a float32 vector, in float32."""
    total = np.float32(0.0)
    for d in range(row.shape[0]):
        total += np.float32(row[d]) * vector[d]
    return total


@kernel
def assign_near(rows, active, circle, screen, exact, reach, labels, changed, own, other, doubt, others):
    """`assign_best` of the rows in `active`, with bounds, from the clusters near their own: others cannot win them.

    `circle` holds the neighbours of each cluster (K, L) from the nearest on, their angles (K, L + 1) and their offsets
    (L,), as in `PreparedRule.circle`. Rows that most clusters may win, and rows without a cluster of their own, are
    left to `assign_best`: their numbers go to `others`. Returns how many rows moved, and how many are left.
    """
    vectors32, margin = screen
    _, _, _, bar, is_rival = exact
    neighbours, angles, level = circle
    n_active = active.shape[0]
    most_listed = np.int64(_MOST_NEAR * neighbours.shape[1])
    n_changed = n_left = 0
    for position in range(n_active):
        i, k = active[position], labels[active[position]]
        _fetch_row(rows, active[position + _ROWS_AHEAD if position + _ROWS_AHEAD < n_active else n_active - 1])
        if k < 0 or is_rival[k]:
            others[n_left] = i
            n_left += 1
            continue
        top = filter_score(rows[i], vectors32[k])
        above = angle_above(top - doubt)
        own[i] = above if above < own[i] else own[i]
        if is_settled(own[i], other[i], angles[k, 0], reach):
            continue
        if not is_beyond(angles[k, most_listed], own[i]):
            others[n_left] = i
            n_left += 1
            continue
        top, second, label, n_listed = _score_near(rows, i, own[i], top, k, circle, vectors32)
        farther = angles[k, n_listed] - own[i]  # the others are
        if label == k and top - second > margin and top > bar:
            # as for most rows: nothing to settle, nothing to write but a bound
            below = angle_below(second + doubt)
            other[i] = below if below < farther else farther
            continue
        found, listed = (top, second, label), neighbours[k, :n_listed]
        n_changed += _decide_row(rows, i, found, listed, level, screen, exact, labels, changed, own, other, doubt)
        other[i] = other[i] if other[i] < farther else farther
    return n_changed, n_left


@kernel(is_inlined=True)
def _score_near(rows, i, own, top, k, circle, vectors32):
    """Score row i against the neighbours of its cluster k that are not beyond it, by the angle and score it has there.

    Returns the best score, the second best, the best label, and how many neighbours were scored.
    """
    neighbours, angles, level = circle
    second, label = np.float32(-np.inf), k
    n_listed = 0
    while not is_beyond(angles[k, n_listed], own):
        products: Any = score_row(rows, i, vectors32, neighbours[k], n_listed)
        for number in range(FEWEST_TOGETHER):
            score = products[number] + level[n_listed + number]
            less = top if top < score else score
            second = less if less > second else second
            label = neighbours[k, n_listed + number] if score > top else label
            top = top if top > score else score
        n_listed += FEWEST_TOGETHER
    return top, second, label, n_listed
