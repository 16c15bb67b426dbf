"""Whole sums (sums/whole.py) as 64-bit integers: quanta add without rounding, in any order, and can be taken back."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _quanta(value, magic):
    """y + M has bits(M) and the quanta of y; M lies in memory, as arguments are float32."""
    large = tl.load(magic)
    return (value + large).to(tl.int64, bitcast=True) - large.to(tl.int64, bitcast=True)


@triton.jit
def count(labels, sizes, n_rows, apart, BLOCK: tl.constexpr):
    """Rows with each label; counters lie `apart`, so that atomics do not wait at one door of the cache."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    label = tl.load(labels + row, mask=row < n_rows, other=-1)
    tl.atomic_add(sizes + label.to(tl.int64) * apart, 1, mask=label >= 0)


@triton.jit
def deal(labels, starts, order, ordered, n_rows, apart, BLOCK: tl.constexpr):
    """Write each row's number to the next place of its label; `starts` ends where the next label starts."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    label = tl.load(labels + row, mask=row < n_rows, other=-1)
    place = tl.atomic_add(starts + label.to(tl.int64) * apart, 1, mask=label >= 0)
    tl.store(order + place, row.to(tl.int32), mask=label >= 0)
    tl.store(ordered + place, label, mask=label >= 0)


@triton.jit
def ends(labels, firsts, lasts, first, last, n_clusters, BLOCK: tl.constexpr):
    """The first and the last row from..to with each of a few labels: few atomics, as rows of an image share labels."""
    row = first + tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    label = tl.load(labels + row, mask=row < last, other=-1)
    for k in range(n_clusters):
        is_it = label == k
        least = tl.min(tl.where(is_it, row, 9223372036854775807), axis=0)
        largest = tl.max(tl.where(is_it, row, -1), axis=0)
        tl.atomic_min(firsts + k, least, mask=largest >= 0)
        tl.atomic_max(lasts + k, largest, mask=largest >= 0)


@triton.jit
def add_sorted(
    rows,
    weights,
    order,
    labels,
    sums,
    counts,
    magic,
    n_rows,
    n_features,
    row_stride,
    HAS_WEIGHTS: tl.constexpr,
    TOGETHER: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Add rows in the order of their labels: running sums for as long as the label stays, then one atomic each."""
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = column < n_features
    is_first = tl.program_id(1) == 0
    begin = tl.program_id(0).to(tl.int64) * TOGETHER
    held = tl.load(labels + begin)
    total = tl.zeros((ROWS, COLUMNS), tl.int64)
    weight_total = tl.zeros((ROWS,), tl.int64)
    end = tl.minimum(begin + TOGETHER, n_rows)
    # rows beyond the last have its label, and add nothing. Loads of a step are started a step ahead, those of numbers
    # two: each waits for memory, and there is little else to do
    item = begin + tl.arange(0, ROWS)
    label_now = tl.load(labels + tl.minimum(item, end - 1))
    row_now = tl.load(order + item, mask=item < end, other=0).to(tl.int64)
    is_now = (item < end) & (label_now >= 0)
    next_item = item + ROWS
    label_next = tl.load(labels + tl.minimum(next_item, end - 1))
    row_next = tl.load(order + next_item, mask=next_item < end, other=0).to(tl.int64)
    raw_now = tl.load(
        rows + row_now[:, None] * row_stride + column[None, :], mask=is_now[:, None] & is_column[None, :], other=0.0
    )
    for start in range(begin, end, ROWS):
        label, row, raw, is_row = label_now, row_now, raw_now, is_now
        item = start + ROWS + tl.arange(0, ROWS)
        label_now, row_now = label_next, row_next
        is_now = (item < end) & (label_now >= 0)
        raw_now = tl.load(
            rows + row_now[:, None] * row_stride + column[None, :], mask=is_now[:, None] & is_column[None, :], other=0.0
        )
        next_item = item + ROWS
        label_next = tl.load(labels + tl.minimum(next_item, end - 1))
        row_next = tl.load(order + next_item, mask=next_item < end, other=0).to(tl.int64)
        is_here = is_row[:, None] & is_column[None, :]
        value = raw.to(tl.float64)
        weight = tl.zeros((ROWS,), tl.float64)
        if HAS_WEIGHTS:
            weight = tl.load(weights + row, mask=is_row, other=0.0)
            value = weight[:, None] * value
        quanta = _quanta(value, magic)
        own = _quanta(weight, magic)
        least, largest = tl.min(label, axis=0), tl.max(label, axis=0)
        if (least != held) | (largest != held):
            place = sums + held.to(tl.int64) * n_features + column
            tl.atomic_add(place, tl.sum(total, axis=0), mask=is_column & (held >= 0))
            if HAS_WEIGHTS:
                tl.atomic_add(counts + held, tl.sum(weight_total, axis=0), mask=(held >= 0) & is_first)
            total = tl.zeros((ROWS, COLUMNS), tl.int64)
            weight_total = tl.zeros((ROWS,), tl.int64)
            held = largest
        if least == largest:
            total += quanta
            weight_total += own
        else:
            tl.atomic_add(sums + label[:, None].to(tl.int64) * n_features + column[None, :], quanta, mask=is_here)
            if HAS_WEIGHTS:
                tl.atomic_add(counts + label, own, mask=is_row & is_first)
    place = sums + held.to(tl.int64) * n_features + column
    tl.atomic_add(place, tl.sum(total, axis=0), mask=is_column & (held >= 0))
    if HAS_WEIGHTS:
        tl.atomic_add(counts + held, tl.sum(weight_total, axis=0), mask=(held >= 0) & is_first)


@triton.jit
def add_moved(
    rows,
    weights,
    labels,
    moved,
    befores,
    sums,
    counts,
    counter,
    magic,
    n_features,
    row_stride,
    HAS_WEIGHTS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Take listed rows out of the sums of their labels before, and add them to those of their labels now."""
    n_moved = tl.load(counter)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = column < n_features
    for start in range(tl.program_id(0) * ROWS, n_moved, tl.num_programs(0) * ROWS):
        item = start + tl.arange(0, ROWS)
        is_row = item < n_moved
        row = tl.load(moved + item, mask=is_row, other=0).to(tl.int64)
        before = tl.load(befores + item, mask=is_row, other=-1)
        after = tl.load(labels + row, mask=is_row, other=-1)
        is_here = is_row[:, None] & is_column[None, :]
        value = tl.load(rows + row[:, None] * row_stride + column[None, :], mask=is_here, other=0.0).to(tl.float64)
        weight = tl.full((ROWS,), 1.0, tl.float64)
        if HAS_WEIGHTS:
            weight = tl.load(weights + row, mask=is_row, other=0.0)
            value = weight[:, None] * value
        quanta = _quanta(value, magic)
        own = _quanta(weight, magic)
        left, joined = before[:, None].to(tl.int64), after[:, None].to(tl.int64)
        tl.atomic_add(sums + left * n_features + column[None, :], -quanta, mask=is_here & (left >= 0))
        tl.atomic_add(sums + joined * n_features + column[None, :], quanta, mask=is_here & (joined >= 0))
        is_first = is_row & (tl.program_id(1) == 0)
        tl.atomic_add(counts + before, -own, mask=is_first & (before >= 0))
        tl.atomic_add(counts + after, own, mask=is_first & (after >= 0))


@triton.jit
def add_narrow(
    rows,
    weights,
    labels,
    sums,
    magic,
    n_rows,
    n_clusters,
    n_copies,
    N_FEATURES: tl.constexpr,
    HAS_WEIGHTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add rows with few columns by atomics into one of many copies of the sums (copies, K, D + 1), counts last."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < n_rows
    label = tl.load(labels + row, mask=is_row, other=-1)
    is_row = is_row & (label >= 0)
    copy = (tl.program_id(0) % n_copies).to(tl.int64)
    place = sums + (copy * n_clusters + tl.maximum(label, 0)) * (N_FEATURES + 1)
    weight = tl.full((BLOCK,), 1.0, tl.float64)
    if HAS_WEIGHTS:
        weight = tl.load(weights + row, mask=is_row, other=0.0)
    for d in tl.static_range(N_FEATURES):
        value = tl.load(rows + row * N_FEATURES + d, mask=is_row, other=0.0).to(tl.float64)
        if HAS_WEIGHTS:
            value = weight * value
        tl.atomic_add(place + d, _quanta(value, magic), mask=is_row)
    tl.atomic_add(place + N_FEATURES, _quanta(weight, magic), mask=is_row)
