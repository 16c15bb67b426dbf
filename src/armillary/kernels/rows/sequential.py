"""Rows decided one after the other, for models in which a row can open, close or revive a cluster.

No array here has rows of data: a walk works on a table of scores.
"""

from __future__ import annotations

import math

import numpy as np

from armillary.kernels.jit import kernel
from armillary.kernels.rows.walks import meet
from armillary.rules import Halt

_END, _BIRTH, _REVIVAL, _DOUBT = (int(halt) for halt in Halt)


def last_rows(labels, is_sought, last):
    """The last row with each label; slots that no row has keep what they hold."""
    _seek(labels, len(labels) - 1, -1, 0, is_sought, np.empty(len(is_sought), np.bool_), last)


def first_rows(labels, first_row, is_sought, first):
    """Lower `first` to the first row with each label; row 0 of `labels` has the number `first_row`."""
    _seek(labels, 0, 1, first_row, is_sought, np.empty(len(is_sought), np.bool_), first)


@kernel
def _seek(labels, start, step, first_row, is_sought, is_found, out):
    """Go through labels from `start` on until all that are sought are found; write their rows into `out`.

    On the way up only rows before those that are there. `is_found` is room.
    """
    n_missing = 0
    for k in range(is_sought.shape[0]):
        is_found[k] = not is_sought[k] or (step > 0 and out[k] < first_row)
        n_missing += not is_found[k]
    i = start
    while 0 <= i < labels.shape[0] and n_missing > 0:
        k = labels[i]
        if k >= 0 and not is_found[k]:
            is_found[k] = True
            n_missing -= 1
            if step < 0 or first_row + i < out[k]:
                out[k] = first_row + i
        i += step


@kernel
def _curve(angles, scores, slopes, cosine):
    """Cubic Hermite interpolation at arccos(cosine)."""
    angle = math.acos(-1.0 if cosine < -1.0 else (1.0 if cosine > 1.0 else cosine))
    right, stop = 1, angles.shape[0] - 1  # the first knot that is not below, from the second to the last
    while right < stop:
        middle = (right + stop) // 2
        if angles[middle] < angle:
            right = middle + 1
        else:
            stop = middle
    width = angles[right] - angles[right - 1]
    u = (angle - angles[right - 1]) / width if width > 0.0 else 1.0  # knots can coincide in the last bit of pi
    v = 1.0 - u
    return v * v * ((1.0 + 2.0 * u) * scores[right - 1] + u * width * slopes[right - 1]) + u * u * (
        (1.0 + 2.0 * v) * scores[right] - v * width * slopes[right]
    )


@kernel
def walk(start, numbers, table, doubt, closing, is_seed, company, floor, max_open, recall, exact, labels):
    """See `kernels/rows/contract.py`."""
    last, first = company
    cosines, angles, scores, slopes, ceilings, cosine_doubt, curve_doubt = recall
    exact_position, exact_cosines, exact_recalls = exact
    n_slots, n_tracks = last.shape[0], ceilings.shape[0]
    for r in range(start, numbers.shape[0]):
        i = numbers[r]
        lone = closing[r]
        befriended = -1
        if lone <= -2:  # the row is its own company in this slot
            befriended = -2 - lone
            lone = -1
        is_exact = r == exact_position
        best, second, slot, n_open = -np.inf, -np.inf, -1, 0
        for k in range(n_slots):
            if last[k] > i or first[k] < i or k == befriended:
                n_open += 1
                score = exact_cosines[k] if is_exact else np.float64(table[r, k])
                if score > best:
                    second = best
                    best = score
                    slot = k
                elif score > second:
                    second = score
        # the score of the best track lies in [low, high]; no other exceeds rest
        low, high, rest, track = -np.inf, -np.inf, -np.inf, -1
        for k in range(n_tracks):
            if not (last[k] > i or first[k] < i or k == befriended):
                if is_exact:
                    below = exact_recalls[k]
                    above = below
                else:
                    above = cosines[r, k] + cosine_doubt
                    if above + ceilings[k] < best - doubt or above + ceilings[k] < floor:
                        continue
                    above = _curve(angles[k], scores[k], slopes[k], above) + curve_doubt
                    below = _curve(angles[k], scores[k], slopes[k], cosines[r, k] - cosine_doubt) - curve_doubt
                if above > high:
                    rest = high
                    low = below
                    high = above
                    track = k
                elif above > rest:
                    rest = above
        if not is_exact:
            is_close = doubt > 0.0 and (
                (second >= best - doubt and best >= low - doubt and (best >= floor - doubt or n_open >= max_open))
                or (abs(best - floor) <= doubt and best >= low - doubt and n_open < max_open)
            )
            asked = best if best > floor else floor
            is_close = is_close or (track >= 0 and high + doubt >= asked and (low - doubt <= asked or rest >= low))
            if is_close:
                return r, _DOUBT, -1
        if slot >= 0 and best >= high and best >= floor:
            labels[r] = slot
        elif track >= 0 and high >= floor:
            return r, _REVIVAL, track
        elif slot >= 0 and n_open >= max_open:
            labels[r] = slot
        elif lone >= n_tracks and first[lone] >= i and is_seed[lone]:
            labels[r] = lone
        else:
            return r, _BIRTH, -1
        if i < first[labels[r]]:
            first[labels[r]] = i
    return numbers.shape[0], _END, -1


def walk_on(
    start,
    calm_from,
    numbers,
    rows,
    seeds,
    table,
    closing,
    slots,
    n_slots,
    floor,
    max_open,
    recall,
    tracks,
    exact,
    labels,
):
    """See `kernels/rows/contract.py`. Most models have no tracks, and compile no walks."""
    units, lengths = seeds
    rest = (closing, slots, floor, max_open, recall, len(tracks.weights), exact, labels)
    here = (start, calm_from, numbers, rows, units, table, n_slots)
    if len(tracks.weights) > 0:
        return _walk_revivals(*here, *rest, lengths, tracks)
    position, halt, _, n_slots, calm_from = _walk_births(*here, *rest)
    return position, halt, n_slots, calm_from


@kernel
def _walk_revivals(
    start,
    calm_from,
    numbers,
    rows,
    units,
    table,
    n_slots,
    closing,
    slots,
    floor,
    max_open,
    recall,
    n_tracks,
    exact,
    labels,
    lengths,
    tracks,
):
    """`walk_on` where rows may revive tracks."""
    directions, _, first, _ = slots
    memory, weights, steps, drift, is_exact = tracks
    end, penalty, weight = np.empty((1, rows.shape[1])), np.empty(1), np.empty(1)
    position = start
    while True:
        position, halt, track, n_slots, calm_from = _walk_births(
            position,
            calm_from,
            numbers,
            rows,
            units,
            table,
            n_slots,
            closing,
            slots,
            floor,
            max_open,
            recall,
            n_tracks,
            exact,
            labels,
        )
        if halt != _REVIVAL:
            return position, halt, n_slots, calm_from
        t, r = slice(track, track + 1), slice(position, position + 1)
        meet(memory[t], weights[t], drift, steps[t], units[r], lengths[r], is_exact, False, end, penalty, weight)
        put(position, track, end[0], numbers, rows, table, directions, first, labels)
        position += 1
        calm_from = position


@kernel
def _walk_births(
    start,
    calm_from,
    numbers,
    rows,
    units,
    table,
    n_slots,
    closing,
    slots,
    floor,
    max_open,
    recall,
    n_tracks,
    exact,
    labels,
):
    """`walk_on` to the next row that is not a birth, or has no room; the track is that of a revival."""
    directions, last, first, is_seed = slots
    position = start
    while True:
        company = last[:n_slots], first[:n_slots]
        position, halt, track = walk(
            position, numbers, table, 0.0, closing, is_seed, company, floor, max_open, recall, exact, labels
        )
        if halt != _BIRTH:
            return position, halt, track, n_slots, calm_from
        # the slot that the row leaves empty, if it is not a track; else a new one
        lone = closing[position]
        slot = lone if lone >= n_tracks and first[lone] >= numbers[position] else n_slots
        if slot == len(directions):
            return position, halt, track, n_slots, calm_from
        if slot == n_slots:
            n_slots += 1
        put(position, slot, units[position], numbers, rows, table, directions, first, labels)
        position += 1
        calm_from = position


@kernel
def put(position, slot, unit, numbers, rows, table, directions, first, labels):
    """A row opens a slot: its direction, and the scores of the rows after it."""
    for d in range(len(unit)):
        directions[slot, d] = unit[d]
    labels[position] = slot
    if numbers[position] < first[slot]:
        first[slot] = numbers[position]
    for later in range(position + 1, len(numbers)):
        score = 0.0
        for d in range(rows.shape[1]):
            score += np.float64(rows[later, d]) * unit[d]
        table[later, slot] = score
