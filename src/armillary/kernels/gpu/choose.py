"""The arg max of wide rows: a product of halves (fp16) as a filter, and the few rows it cannot tell in float64.

The filter finds the two best scores of a row as integers that hold the score in their high bits and the place in
their low ones. A row whose two best lie within twice the filter's error is listed; for listed rows all clusters that
may be best are written down as pairs, and pairs are scored in float64 in column order. The error of a score is

    |x - x^| |v| + |x^| |v - v^| + accumulation + the bits that hold the place,

the first two measured, the third D 2^-23 |x| |v|: an assumption about tensor cores, which keep at least 23 bits of
sums that start from zero (tests/gpu plants rows that would show a breach).
"""

from __future__ import annotations

import triton
import triton.language as tl

# Bits of a key that hold a place within a tile of at most 128 clusters.
PLACE_BITS = 7


@triton.jit
def halve_rule(
    vectors,
    offsets,
    numbers,
    half,
    lengths,
    errors,
    n_clusters,
    n_features,
    width,
    COLUMNS: tl.constexpr,
):
    """One vector (D,) times the scale, `numbers[0]`, as halves (D',); its length, and that of what halves leave.

    Clusters that no row prefers, and those that fill the last tile, are zeros.
    """
    cluster = tl.program_id(0).to(tl.int64)
    is_cluster = cluster < n_clusters
    is_there = tl.abs(tl.load(offsets + cluster, mask=is_cluster, other=0.0)) < float("inf")
    scale = tl.load(numbers)
    square = tl.zeros((COLUMNS,), tl.float64)
    left = tl.zeros((COLUMNS,), tl.float64)
    for first in range(0, width, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        is_value = is_cluster & (column < n_features)
        value = tl.load(vectors + cluster * n_features + column, mask=is_value, other=0.0) * scale
        small = value.to(tl.float16)
        apart = value - small.to(tl.float64)
        square += value * value
        left += apart * apart
        tl.store(half + cluster * width + column, tl.where(is_there, small, 0.0), mask=column < width)
    tl.store(lengths + cluster, tl.sqrt(tl.sum(square, axis=0)), mask=is_cluster)
    tl.store(errors + cluster, tl.sqrt(tl.sum(left, axis=0)), mask=is_cluster)


@triton.jit
def bound_rule(offsets, numbers, lengths, errors, levels, bounds, n_clusters, n_padded, width, BLOCK: tl.constexpr):
    """Levels (K',) that lift scores above 0, and what bounds the filter (4,): by one program.

    Clusters that no row prefers, and those that fill the last tile, stay at 0. `numbers` are the scale, and the floor
    times it. Rows are unit to 2e-6; a place takes 7 bits of 24, a few numbers are rounded to float32 and added.
    """
    scale, floor = tl.load(numbers), tl.load(numbers + 1)
    longest = tl.zeros((BLOCK,), tl.float64)
    worst = tl.zeros((BLOCK,), tl.float64)
    farthest = tl.zeros((BLOCK,), tl.float64)
    for first in range(0, n_clusters, BLOCK):
        cluster = first + tl.arange(0, BLOCK)
        is_cluster = cluster < n_clusters
        offset = tl.abs(tl.load(offsets + cluster, mask=is_cluster, other=0.0) * scale)
        longest = tl.maximum(longest, tl.load(lengths + cluster, mask=is_cluster, other=0.0))
        worst = tl.maximum(worst, tl.load(errors + cluster, mask=is_cluster, other=0.0))
        farthest = tl.maximum(farthest, tl.where(offset < float("inf"), offset, 0.0))
    long, error, far = tl.max(longest, axis=0), tl.max(worst, axis=0), tl.max(farthest, axis=0)
    lift = 2.0 * (long + far)
    place = (1.01 * long + far + lift) * 0.0000152587890625
    spread = (long + far + lift + tl.abs(floor)) * 4.76837158203125e-07
    total = 1.01 * error + 1.01 * 1.1920928955078125e-07 * width * long + spread + place * 0.5
    tl.store(bounds, (1.001 * long).to(tl.float32))
    tl.store(bounds + 1, (1.001 * total + 1e-30).to(tl.float32))
    tl.store(bounds + 2, (floor + lift).to(tl.float32))
    tl.store(bounds + 3, (1.001 * place).to(tl.float32))
    for first in range(0, n_padded, BLOCK):
        cluster = first + tl.arange(0, BLOCK)
        offset = tl.load(offsets + cluster, mask=cluster < n_clusters, other=float("inf")) * scale
        level = tl.where(tl.abs(offset) < float("inf"), offset + lift, 0.0)
        tl.store(levels + cluster, level.to(tl.float32), mask=cluster < n_padded)


@triton.jit
def _two_best(acc, level, best, second, place, tile, TILE: tl.constexpr):
    """The two best keys of each row, and the cluster of the best, with one more tile of scores.

    Levels lift every score above 0, where the bits of float32 numbers are in their order. Keys of a row differ by
    their places, so that below the best the next one has the largest difference modulo 2^32.
    """
    lane = tl.arange(0, TILE)
    key = ((acc + level[None, :]).to(tl.int32, bitcast=True) & ~127) | (127 - lane)[None, :]
    top = tl.max(key, axis=1)
    below = tl.max((key - top[:, None]).to(tl.uint32, bitcast=True), axis=1)
    other = top + below.to(tl.int32, bitcast=True)
    second = tl.maximum(tl.minimum(best, top), tl.maximum(second, other))
    place = tl.where(top > best, tile * TILE + 127 - (top & 127), place)
    return tl.maximum(best, top), second, place


@triton.jit
def _tell(
    best,
    second,
    place,
    row,
    last,
    errors,
    is_rival,
    found,
    tops,
    listed,
    counters,
    bounds,
    HAS_FLOOR: tl.constexpr,
    HAS_RIVALS: tl.constexpr,
):
    """Labels of rows that the filter can tell; the others are listed."""
    is_row = row < last
    top = (best & ~127).to(tl.float32, bitcast=True)
    other = (second & ~127).to(tl.float32, bitcast=True)
    doubt = tl.load(bounds) * tl.load(errors + row, mask=is_row, other=0.0) + tl.load(bounds + 1)
    is_open = top - other <= 2.0 * doubt
    is_refused = row < 0
    if HAS_FLOOR:
        floor = tl.load(bounds + 2)
        is_open = is_open | (tl.abs(top - floor) <= doubt + tl.load(bounds + 3))
        is_refused = top < floor
    if HAS_RIVALS:
        is_refused = is_refused | (tl.load(is_rival + place, mask=is_row, other=0) != 0)
    tl.store(found + row, tl.where(is_refused, -1, place), mask=is_row)
    tl.store(tops + row, top, mask=is_row)
    is_open = is_open & is_row
    at = tl.atomic_add(counters + tl.zeros_like(place), 1, mask=is_open)
    tl.store(listed + at, row.to(tl.int32), mask=is_open)


@triton.jit
def filter_flat(
    shadow,
    vectors,
    levels,
    errors,
    is_rival,
    found,
    tops,
    listed,
    counters,
    first,
    last,
    n_tiles,
    n_steps,
    bounds,
    HAS_FLOOR: tl.constexpr,
    HAS_RIVALS: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    DEEP: tl.constexpr,
):
    """Rows too wide to stay: one flat loop over row tiles, cluster tiles and columns, by tensor descriptors."""
    n_row_tiles = tl.cdiv(last - first, ROWS)
    start, n_programs = tl.program_id(0), tl.num_programs(0)
    n_own = tl.cdiv(n_row_tiles - start, n_programs)
    acc = tl.zeros((ROWS, TILE), tl.float32)
    best = tl.zeros((ROWS,), tl.int32)
    second = tl.zeros((ROWS,), tl.int32)
    place = tl.zeros((ROWS,), tl.int32)
    step = -1
    tile = 0
    row_tile = start
    for _ in tl.range(0, n_own * n_tiles * n_steps):
        step = tl.where(step == n_steps - 1, 0, step + 1)
        one = shadow.load([first + row_tile * ROWS, step * DEEP])
        two = vectors.load([tile * TILE, step * DEEP])
        acc = tl.dot(one, two.T, acc)
        if step == n_steps - 1:
            level = tl.load(levels + tile * TILE + tl.arange(0, TILE))
            best, second, place = _two_best(acc, level, best, second, place, tile, TILE)
            acc = tl.zeros((ROWS, TILE), tl.float32)
            tile += 1
            if tile == n_tiles:
                row = first + row_tile * ROWS + tl.arange(0, ROWS).to(tl.int64)
                _tell(
                    best,
                    second,
                    place,
                    row,
                    last,
                    errors,
                    is_rival,
                    found,
                    tops,
                    listed,
                    counters,
                    bounds,
                    HAS_FLOOR,
                    HAS_RIVALS,
                )
                best = tl.zeros((ROWS,), tl.int32)
                second = tl.zeros((ROWS,), tl.int32)
                place = tl.zeros((ROWS,), tl.int32)
                tile = 0
                row_tile += n_programs


@triton.jit
def filter_resident(
    shadow,
    vectors,
    levels,
    errors,
    is_rival,
    found,
    tops,
    listed,
    counters,
    first,
    last,
    n_tiles,
    bounds,
    HAS_FLOOR: tl.constexpr,
    HAS_RIVALS: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    DEEP: tl.constexpr,
):
    """Rows of at most 128 columns stay where they are; clusters go by."""
    row_tile = tl.program_id(0)
    one = shadow.load([first + row_tile * ROWS, 0])
    best = tl.zeros((ROWS,), tl.int32)
    second = tl.zeros((ROWS,), tl.int32)
    place = tl.zeros((ROWS,), tl.int32)
    for tile in tl.range(0, n_tiles):
        two = vectors.load([tile * TILE, 0])
        level = tl.load(levels + tile * TILE + tl.arange(0, TILE))
        acc = tl.dot(one, two.T)
        best, second, place = _two_best(acc, level, best, second, place, tile, TILE)
    row = first + row_tile * ROWS + tl.arange(0, ROWS).to(tl.int64)
    _tell(
        best,
        second,
        place,
        row,
        last,
        errors,
        is_rival,
        found,
        tops,
        listed,
        counters,
        bounds,
        HAS_FLOOR,
        HAS_RIVALS,
    )


@triton.jit
def filter_pointers(
    shadow,
    vectors,
    levels,
    errors,
    is_rival,
    found,
    tops,
    listed,
    counters,
    first,
    last,
    n_tiles,
    n_steps,
    width,
    bounds,
    HAS_FLOOR: tl.constexpr,
    HAS_RIVALS: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    DEEP: tl.constexpr,
):
    """The same by plain loads, for cards without tensor descriptors."""
    row = first + tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    is_row = row < last
    lane, column = tl.arange(0, TILE), tl.arange(0, DEEP)
    best = tl.zeros((ROWS,), tl.int32)
    second = tl.zeros((ROWS,), tl.int32)
    place = tl.zeros((ROWS,), tl.int32)
    for tile in range(n_tiles):
        acc = tl.zeros((ROWS, TILE), tl.float32)
        for step in range(n_steps):
            d = step * DEEP + column
            one = tl.load(shadow + row[:, None] * width + d[None, :], mask=is_row[:, None], other=0.0)
            two = tl.load(vectors + (tile * TILE + lane)[None, :].to(tl.int64) * width + d[:, None])
            acc = tl.dot(one, two, acc)
        level = tl.load(levels + tile * TILE + lane)
        best, second, place = _two_best(acc, level, best, second, place, tile, TILE)
    _tell(
        best,
        second,
        place,
        row,
        last,
        errors,
        is_rival,
        found,
        tops,
        listed,
        counters,
        bounds,
        HAS_FLOOR,
        HAS_RIVALS,
    )


@triton.jit
def list_pairs(
    shadow,
    vectors,
    levels,
    errors,
    tops,
    listed,
    counters,
    pair_rows,
    pair_clusters,
    most,
    n_tiles,
    n_steps,
    width,
    n_clusters,
    bounds,
    begin,
    end,
    ENOUGH: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    DEEP: tl.constexpr,
):
    """Of the listed rows begin..end, every cluster whose score may be the best: a place in the list, and a cluster.

    Pairs are counted beyond their room, which says how much is needed, but not beyond `ENOUGH` by more than programs
    add at once: a million equal rows have a thousand million pairs with a thousand equal clusters.
    """
    n_listed = tl.minimum(tl.load(counters), end)
    lane, column = tl.arange(0, TILE), tl.arange(0, DEEP)
    for start in range(begin + tl.program_id(0) * ROWS, n_listed, tl.num_programs(0) * ROWS):
        item = start + tl.arange(0, ROWS)
        is_row = item < n_listed
        row = tl.load(listed + item, mask=is_row, other=0).to(tl.int64)
        doubt = tl.load(bounds) * tl.load(errors + row, mask=is_row, other=0.0) + tl.load(bounds + 1)
        bar = tl.load(tops + row, mask=is_row, other=0.0) - 2.0 * doubt
        for tile in range(tl.program_id(1), n_tiles, tl.num_programs(1)):
            acc = tl.zeros((ROWS, TILE), tl.float32)
            for step in range(n_steps):
                d = step * DEEP + column
                one = tl.load(shadow + row[:, None] * width + d[None, :], mask=is_row[:, None], other=0.0)
                two = tl.load(vectors + (tile * TILE + lane)[None, :].to(tl.int64) * width + d[:, None])
                acc = tl.dot(one, two, acc)
            score = acc + tl.load(levels + tile * TILE + lane)[None, :]
            cluster = tile * TILE + lane
            is_near = (score >= bar[:, None]) & is_row[:, None] & (cluster < n_clusters)[None, :]
            # volatile: what other programs have counted
            is_near = is_near & (tl.load(counters + 1, volatile=True) < ENOUGH)
            # of most rows a tile has one such cluster or none: so few numbers to write are few atomics
            n_near = tl.sum(is_near.to(tl.int32), axis=1)
            only = tl.min(tl.where(is_near, cluster[None, :], 2147483647), axis=1)
            is_one = n_near == 1
            at = tl.atomic_add(counters + 1 + tl.zeros((ROWS,), tl.int32), 1, mask=is_one)
            is_one = is_one & (at < most)
            tl.store(pair_rows + at, item, mask=is_one)
            tl.store(pair_clusters + at, only, mask=is_one)
            if tl.max(n_near, axis=0) > 1:
                is_near = is_near & (n_near > 1)[:, None]
                places = tl.atomic_add(counters + 1 + tl.zeros((ROWS, TILE), tl.int32), 1, mask=is_near)
                is_near = is_near & (places < most)
                tl.store(pair_rows + places, tl.broadcast_to(item[:, None], (ROWS, TILE)), mask=is_near)
                tl.store(pair_clusters + places, tl.broadcast_to(cluster[None, :], (ROWS, TILE)), mask=is_near)


@triton.jit
def _ordered64(score):
    bits = (score + 0.0).to(tl.int64, bitcast=True)
    return bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)


@triton.jit
def score_pairs(
    rows,
    vectors,
    offsets,
    listed,
    counters,
    pair_rows,
    pair_clusters,
    keys,
    bests,
    most,
    n_features,
    row_stride,
    AHEAD: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The float64 score of each pair, as an integer in its order, and the largest of each listed row."""
    n_pairs = tl.minimum(tl.load(counters + 1), most)
    for number in range(tl.program_id(0) * BLOCK, n_pairs, tl.num_programs(0) * BLOCK):
        pair = number + tl.arange(0, BLOCK)
        is_pair = pair < n_pairs
        item = tl.load(pair_rows + pair, mask=is_pair, other=0)
        cluster = tl.load(pair_clusters + pair, mask=is_pair, other=0).to(tl.int64)
        row = tl.load(listed + item, mask=is_pair, other=0).to(tl.int64)
        total = tl.zeros((BLOCK,), tl.float64)
        start, vector = rows + row * row_stride, vectors + cluster * n_features
        # there are few pairs, and each waits for memory: loads of so many columns are in flight together
        for begin in range(0, n_features, AHEAD):
            for step in tl.static_range(AHEAD):
                d = begin + step
                is_here = is_pair & (d < n_features)
                value = tl.load(start + d, mask=is_here, other=0.0).to(tl.float64)
                total += value * tl.load(vector + d, mask=is_here, other=0.0)
        key = _ordered64(total + tl.load(offsets + cluster, mask=is_pair, other=0.0))
        tl.store(keys + pair, key, mask=is_pair)
        tl.atomic_max(bests + item, key, mask=is_pair)


@triton.jit
def name_pairs(counters, pair_rows, pair_clusters, keys, bests, firsts, most, BLOCK: tl.constexpr):
    """The smallest cluster of each listed row that has the largest score."""
    n_pairs = tl.minimum(tl.load(counters + 1), most)
    for start in range(tl.program_id(0) * BLOCK, n_pairs, tl.num_programs(0) * BLOCK):
        pair = start + tl.arange(0, BLOCK)
        is_pair = pair < n_pairs
        item = tl.load(pair_rows + pair, mask=is_pair, other=0)
        is_best = is_pair & (
            tl.load(keys + pair, mask=is_pair, other=0) == tl.load(bests + item, mask=is_pair, other=0)
        )
        cluster = tl.load(pair_clusters + pair, mask=is_best, other=0)
        tl.atomic_min(firsts + item, cluster, mask=is_best)


@triton.jit
def settle(
    listed,
    counters,
    bests,
    firsts,
    is_rival,
    found,
    floor_key,
    begin,
    end,
    most,
    HAS_RIVALS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the labels of listed rows begin..end, -1 where they are refused, if there was room for all pairs.

    Their best scores are forgotten, so that the next rows find none.
    """
    n_listed = tl.minimum(tl.load(counters), end)
    n_listed = tl.where(tl.load(counters + 1) > most, 0, n_listed)
    for start in range(begin + tl.program_id(0) * BLOCK, n_listed, tl.num_programs(0) * BLOCK):
        item = start + tl.arange(0, BLOCK)
        is_row = item < n_listed
        row = tl.load(listed + item, mask=is_row, other=0).to(tl.int64)
        label = tl.load(firsts + item, mask=is_row, other=0)
        is_refused = tl.load(bests + item, mask=is_row, other=0) < floor_key
        if HAS_RIVALS:
            is_refused = is_refused | (tl.load(is_rival + label, mask=is_row, other=0) != 0)
        tl.store(found + row, tl.where(is_refused, -1, label), mask=is_row)
        tl.store(bests + item, tl.full((BLOCK,), -9223372036854775808, tl.int64), mask=is_row)
        tl.store(firsts + item, tl.full((BLOCK,), 2147483647, tl.int32), mask=is_row)


@triton.jit
def record(found, labels, moved, befores, counters, first, last, most, HAS_LIST: tl.constexpr, BLOCK: tl.constexpr):
    """Write labels, or -2 - before for rows that are refused; count both kinds of rows, and list what sums gain.

    Nothing is written where there was no room for all pairs.
    """
    last = tl.where(tl.load(counters + 1) > most, first, last)
    row = first + tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < last
    label = tl.load(found + row, mask=is_row, other=0)
    before = tl.load(labels + row, mask=is_row, other=0)
    is_refused = label < 0
    after = tl.where(is_refused, -2 - before, label)
    has_moved = is_row & (label >= 0) & (label != before)
    tl.atomic_add(counters + 2, tl.sum(has_moved.to(tl.int32), axis=0))
    tl.atomic_add(counters + 3, tl.sum((is_row & is_refused).to(tl.int32), axis=0))
    tl.store(labels + row, after, mask=is_row & (after != before))
    if HAS_LIST:
        # sums know no negative label but one
        differs = is_row & (tl.maximum(before, -1) != tl.maximum(after, -1))
        at = tl.atomic_add(counters + 4 + tl.zeros((BLOCK,), tl.int32), 1, mask=differs)
        tl.store(moved + at, row.to(tl.int32), mask=differs)
        tl.store(befores + at, before, mask=differs)
