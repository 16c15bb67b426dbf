"""Gaussians, flat or in tangent spaces, on a GPU: scores, draws among clusters, and whole sums over sets of rows.

A row is one thread's, and operations come in the order of the CPU's loops (kernels/rows/quadratic.py, sphere_draws.py,
tangent_sums.py, scatters.py). Sets are cut into pieces of `BLOCK` rows at most, one program each, so that a program has
one set's cluster, base point or centre. Sums are integers (sums/whole.py): atomics add them in any order.
"""

from __future__ import annotations

import triton
import triton.language as tl

from armillary.kernels.gpu.sphere import bent, exp_nonpositive, seen_curvatures, seen_stretches

# Below the score of the cluster that a row is in, weights that change no sum (kernels/rows/sphere_draws.py).
_HOPELESS = tl.constexpr(40.0)
# Products of coordinates are carried in two limbs, the first of which is 2^22 times coarser (sums/whole.py).
_CARRY = tl.constexpr(22)


@triton.jit
def _score(
    start,
    is_row,
    packed,
    cluster,
    offsets,
    traces,
    volume,
    n_features,
    n_columns,
    n_packed,
    IS_CURVED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Scores of rows, which begin at the pointers `start`, under one cluster; triangles are as the CPU packs them."""
    entry = packed + cluster.to(tl.int64) * n_packed
    p0 = tl.zeros((BLOCK,), tl.float64)
    p1 = tl.zeros((BLOCK,), tl.float64)
    p2 = tl.zeros((BLOCK,), tl.float64)
    p3 = tl.zeros((BLOCK,), tl.float64)
    cosine = tl.zeros((BLOCK,), tl.float64)
    for j in range(n_columns):
        # the last column of a flat form is 1
        x = tl.load(start + j, mask=is_row & (j < n_features), other=1.0).to(tl.float64)
        p0 = tl.fma(tl.load(entry), x, p0)
        p1 = tl.fma(tl.load(entry + 1), x, p1)
        p2 = tl.fma(tl.load(entry + 2), x, p2)
        p3 = tl.fma(tl.load(entry + 3), x, p3)
        cosine = tl.fma(tl.load(entry + 4), x, cosine)
        entry += 5
    half = p0 * p0
    half = tl.fma(p1, p1, half)
    half = tl.fma(p2, p2, half)
    half = tl.fma(p3, p3, half)
    for first in range(4, n_columns, 4):
        p0 = tl.zeros((BLOCK,), tl.float64)
        p1 = tl.zeros((BLOCK,), tl.float64)
        p2 = tl.zeros((BLOCK,), tl.float64)
        p3 = tl.zeros((BLOCK,), tl.float64)
        for j in range(first, n_columns):
            x = tl.load(start + j, mask=is_row & (j < n_features), other=1.0).to(tl.float64)
            p0 = tl.fma(tl.load(entry), x, p0)
            p1 = tl.fma(tl.load(entry + 1), x, p1)
            p2 = tl.fma(tl.load(entry + 2), x, p2)
            p3 = tl.fma(tl.load(entry + 3), x, p3)
            entry += 4
        half = tl.fma(p0, p0, half)
        half = tl.fma(p1, p1, half)
        half = tl.fma(p2, p2, half)
        half = tl.fma(p3, p3, half)
    score = -half
    if IS_CURVED:
        score = bent(half, cosine, tl.load(traces + cluster), tl.load(volume))
    return score + tl.load(offsets + cluster)


@triton.jit
def table(
    rows,
    packed,
    offsets,
    traces,
    volume,
    out,
    n_rows,
    n_features,
    n_columns,
    n_packed,
    row_stride,
    first_cluster,
    IS_CURVED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Scores (K, n)."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    cluster = first_cluster + tl.program_id(1)
    is_row = row < n_rows
    score = _score(
        rows + row * row_stride, is_row, packed, cluster, offsets, traces, volume, n_features, n_columns, n_packed,
        IS_CURVED, BLOCK,
    )  # fmt: skip
    tl.store(out + cluster.to(tl.int64) * n_rows + row, score, mask=is_row)


@triton.jit
def odds(
    rows,
    numbers,
    edges,
    owners,
    packed,
    offsets,
    traces,
    volume,
    out,
    n_features,
    n_columns,
    n_packed,
    row_stride,
    IS_CURVED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Of the rows of a piece the score of cluster 2 g less that of 2 g + 1, g being the set."""
    piece = tl.program_id(0)
    item = tl.load(edges + piece) + tl.arange(0, BLOCK)
    is_row = item < tl.load(edges + piece + 1)
    number = tl.load(numbers + item, mask=is_row, other=0).to(tl.int64)
    left = 2 * tl.load(owners + piece)
    start = rows + number * row_stride
    one = _score(
        start, is_row, packed, left, offsets, traces, volume, n_features, n_columns, n_packed, IS_CURVED, BLOCK
    )
    two = _score(
        start, is_row, packed, left + 1, offsets, traces, volume, n_features, n_columns, n_packed, IS_CURVED, BLOCK
    )
    tl.store(out + item, one - two, mask=is_row)


@triton.jit
def _half(form, x, y, z):
    """x' A x / 2 in three dimensions."""
    first = tl.load(form) * x + tl.load(form + 3) * y + tl.load(form + 4) * z
    return x * first + (y * (tl.load(form + 1) * y + tl.load(form + 5) * z) + tl.load(form + 2) * z * z)


@triton.jit
def _cosine(form, x, y, z):
    return tl.load(form + 6) * x + tl.load(form + 7) * y + tl.load(form + 8) * z


@triton.jit(do_not_specialize=["n_clusters"])
def sphere_table(
    rows,
    labels,
    forms,
    ceilings,
    far_ceilings,
    offsets,
    traces,
    volume,
    out,
    n_rows,
    n_clusters,
    row_stride,
    BLOCK: tl.constexpr,
):
    """Scores (K, n) of tangent Gaussians in three dimensions; -inf where a weight can change no draw."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < n_rows
    start = rows + row * row_stride
    x = tl.load(start, mask=is_row, other=1.0).to(tl.float64)
    y = tl.load(start + 1, mask=is_row, other=0.0).to(tl.float64)
    z = tl.load(start + 2, mask=is_row, other=0.0).to(tl.float64)
    own = tl.load(labels + row, mask=is_row, other=0).to(tl.int64)
    scale = tl.load(volume)
    own_half, own_cosine = _half(forms + 9 * own, x, y, z), _cosine(forms + 9 * own, x, y, z)
    floor = bent(own_half, own_cosine, tl.load(traces + own), scale) + tl.load(offsets + own)
    floor = floor - _HOPELESS
    place = out + row
    for k in range(n_clusters):
        half, cosine = _half(forms + 9 * k, x, y, z), _cosine(forms + 9 * k, x, y, z)
        offset = tl.load(offsets + k)
        score = bent(half, cosine, tl.load(traces + k), scale) + offset
        is_out = (offset - half) <= tl.minimum(floor, tl.load(ceilings + k))
        is_out = is_out | ((cosine <= 0.0) & (tl.load(far_ceilings + k) <= floor))
        tl.store(place, tl.where(is_out, float("-inf"), score), mask=is_row)
        place += n_rows


@triton.jit(do_not_specialize=["n_clusters"])
def choose(
    scores,
    labels,
    own,
    uniforms,
    priorities,
    anchors,
    first_row,
    n_rows,
    n_clusters,
    HAS_ANCHORS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write one draw per row over its label, from scores (K, n), which are written over; anchors stay."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < n_rows
    number = first_row + row
    priority = tl.zeros((BLOCK,), tl.float64)
    if HAS_ANCHORS:
        priority = tl.load(own + row, mask=is_row, other=0.0)
    top = tl.full((BLOCK,), float("-inf"), tl.float64)
    place = scores + row
    for k in range(n_clusters):
        score = tl.load(place, mask=is_row, other=0.0)
        if HAS_ANCHORS:
            lowest = tl.load(priorities + k)
            is_allowed = (lowest < priority) | ((lowest == priority) & (tl.load(anchors + k) <= number))
            score = tl.where(is_allowed, score, float("-inf"))
            tl.store(place, score, mask=is_row)
        top = tl.maximum(top, score)
        place += n_rows
    total = tl.zeros((BLOCK,), tl.float64)
    place = scores + row
    for _ in range(n_clusters):
        total = total + exp_nonpositive(tl.load(place, mask=is_row, other=0.0) - top)
        tl.store(place, total, mask=is_row)
        place += n_rows
    threshold = tl.load(uniforms + row, mask=is_row, other=0.5) * total
    found = tl.zeros((BLOCK,), tl.int32)
    place = scores + row
    for _ in range(n_clusters):
        found += (tl.load(place, mask=is_row, other=0.0) < threshold).to(tl.int32)
        place += n_rows
    is_free = is_row
    if HAS_ANCHORS:
        label = tl.load(labels + row, mask=is_row, other=0).to(tl.int64)
        is_free = is_free & (tl.load(anchors + label, mask=is_row, other=-1) != number)
    tl.store(labels + row, found, mask=is_free)


@triton.jit(do_not_specialize=["n_items"])
def sides(numbers, odds, uniforms, is_left, n_items, BLOCK: tl.constexpr):
    """Write which rows of some are left, by their log odds and their uniforms."""
    item = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_here = item < n_items
    number = tl.load(numbers + item, mask=is_here, other=0).to(tl.int64)
    value = tl.load(odds + item, mask=is_here, other=0.0)
    small = exp_nonpositive(-tl.abs(value))
    share = tl.where(value >= 0.0, 1.0, small) / (1.0 + small)
    drawn = tl.load(uniforms + number, mask=is_here, other=0.5) < share
    tl.store(is_left + number, drawn.to(tl.int8), mask=is_here)


@triton.jit(do_not_specialize=["n_clusters"])
def least(labels, priorities, lowest, n_rows, n_clusters, BLOCK: tl.constexpr):
    """The bits of the lowest priority, a number from 0 to 1, among the rows with each of a few labels."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < n_rows
    label = tl.load(labels + row, mask=is_row, other=-1)
    bits = tl.load(priorities + row, mask=is_row, other=0.0).to(tl.int64, bitcast=True)
    for k in range(n_clusters):
        here = tl.min(tl.where(label == k, bits, 9223372036854775807), axis=0)
        if here < 9223372036854775807:
            tl.atomic_min(lowest + k, here)


@triton.jit
def first_least(labels, priorities, lowest, found, first_row, n_rows, BLOCK: tl.constexpr):
    """The first row whose priority is the lowest of its label."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < n_rows
    label = tl.load(labels + row, mask=is_row, other=-1)
    bits = tl.load(priorities + row, mask=is_row, other=0.0).to(tl.int64, bitcast=True)
    is_it = (label >= 0) & (bits == tl.load(lowest + label, mask=label >= 0, other=-1))
    tl.atomic_min(found + label, first_row + row, mask=is_it)


# --------------------------------------------------------------------------------------------------- sums of sets


@triton.jit(do_not_specialize=["n_pieces"])
def merge(numbers, plan, out, n_pieces, BLOCK: tl.constexpr):
    """Numbers of a piece of a list in order, to their places in the union with another such list.

    Of each piece: where it begins and ends, where its list begins, where the other begins and ends, and the union.
    """
    own = plan + tl.program_id(0)
    item = tl.load(own) + tl.arange(0, BLOCK)
    is_here = item < tl.load(own + n_pieces)
    number = tl.load(numbers + item, mask=is_here, other=0)
    other = tl.load(own + 3 * n_pieces)
    low = other + tl.zeros((BLOCK,), tl.int64)
    high = tl.load(own + 4 * n_pieces) + tl.zeros((BLOCK,), tl.int64)
    for _ in range(31):
        middle = (low + high) // 2
        is_open = low < high
        is_before = is_open & (tl.load(numbers + middle, mask=is_open, other=0) < number)
        high = tl.where(is_open & (is_before == 0), middle, high)
        low = tl.where(is_before, middle + 1, low)
    place = tl.load(own + 5 * n_pieces) + (item - tl.load(own + 2 * n_pieces)) + (low - other)
    tl.store(out + place, number, mask=is_here)


@triton.jit
def _quanta(value, large):
    return (value + large).to(tl.int64, bitcast=True) - large.to(tl.int64, bitcast=True)


@triton.jit
def _add_limbs(value, magics, limbs, second):
    """Add numbers to a sum in two limbs, the second of which lies `second` places on."""
    large, small = tl.load(magics), tl.load(magics + 1)
    shifted = value + large
    rest = (value - (shifted - large)) + small
    first = shifted.to(tl.int64, bitcast=True) - large.to(tl.int64, bitcast=True)
    last = rest.to(tl.int64, bitcast=True) - small.to(tl.int64, bitcast=True)
    tl.atomic_add(limbs, tl.sum(first, axis=0))
    tl.atomic_add(limbs + second, tl.sum(last, axis=0))


@triton.jit
def totals(rows, numbers, edges, owners, magic, sums, n_features, row_stride, BLOCK: tl.constexpr):
    """Add one column of the rows of a piece to the sums (G, D)."""
    piece, column = tl.program_id(0), tl.program_id(1)
    item = tl.load(edges + piece) + tl.arange(0, BLOCK)
    is_row = item < tl.load(edges + piece + 1)
    number = tl.load(numbers + item, mask=is_row, other=0).to(tl.int64)
    value = tl.load(rows + number * row_stride + column, mask=is_row, other=0.0).to(tl.float64)
    place = sums + tl.load(owners + piece) * n_features + column
    tl.atomic_add(place, tl.sum(_quanta(value, tl.load(magic)), axis=0))


@triton.jit
def look(
    rows,
    numbers,
    edges,
    owners,
    bases,
    magics,
    cosines,
    stretches,
    limbs,
    n_features,
    row_stride,
    WITH_SCATTER: tl.constexpr,
    WITH_CURVATURE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """See the rows of a piece from a base point: cosines and stretches for `tangent_pairs`, and sums of numbers."""
    piece = tl.program_id(0)
    item = tl.load(edges + piece) + tl.arange(0, BLOCK)
    is_row = item < tl.load(edges + piece + 1)
    number = tl.load(numbers + item, mask=is_row, other=0).to(tl.int64)
    owner = tl.load(owners + piece)
    start, base = rows + number * row_stride, bases + owner * n_features
    cosine = tl.zeros((BLOCK,), tl.float64)
    for j in range(n_features):
        x = tl.load(start + j, mask=is_row, other=0.0).to(tl.float64)
        cosine += tl.load(base + j) * x
    square = tl.zeros((BLOCK,), tl.float64)
    for j in range(n_features):
        x = tl.load(start + j, mask=is_row, other=0.0).to(tl.float64)
        across = x - tl.load(base + j) * cosine
        square += across * across
    stretch, log_stretch, antipode = seen_stretches(cosine, square)
    tl.store(cosines + item, cosine, mask=is_row)
    tl.store(stretches + item, stretch, mask=is_row)
    width = n_features + n_features * n_features
    place = limbs + owner * (2 * (width + 4)) + width
    if WITH_SCATTER:
        _add_limbs(tl.where(is_row, log_stretch, 0.0), magics + 4, place, width + 4)
        _add_limbs(tl.where(is_row, antipode, 0.0), magics + 2, place + 1, width + 4)
    if WITH_CURVATURE:
        bend, sway = seen_curvatures(cosine, square, n_features)
        _add_limbs(tl.where(is_row, bend, 0.0), magics + 6, place + 2, width + 4)
        _add_limbs(tl.where(is_row, sway, 0.0), magics + 8, place + 3, width + 4)


@triton.jit
def tangent_pairs(
    rows,
    numbers,
    edges,
    owners,
    bases,
    magics,
    cosines,
    stretches,
    pairs,
    limbs,
    n_features,
    row_stride,
    BLOCK: tl.constexpr,
):
    """Add products of two coordinates of tangent vectors, or one coordinate (the second is -1), over a piece."""
    piece = tl.program_id(0)
    j, k = tl.load(pairs + 2 * tl.program_id(1)), tl.load(pairs + 2 * tl.program_id(1) + 1)
    item = tl.load(edges + piece) + tl.arange(0, BLOCK)
    is_row = item < tl.load(edges + piece + 1)
    number = tl.load(numbers + item, mask=is_row, other=0).to(tl.int64)
    owner = tl.load(owners + piece)
    start, base = rows + number * row_stride, bases + owner * n_features
    cosine = tl.load(cosines + item, mask=is_row, other=0.0)
    stretch = tl.load(stretches + item, mask=is_row, other=0.0)
    is_product = k >= 0
    other = tl.maximum(k, 0)
    one = tl.load(start + j, mask=is_row, other=0.0).to(tl.float64) - tl.load(base + j) * cosine
    two = tl.load(start + other, mask=is_row, other=0.0).to(tl.float64) - tl.load(base + other) * cosine
    value = (one * stretch) * tl.where(is_product, two * stretch, 1.0)
    width = n_features + n_features * n_features
    place = limbs + owner * (2 * (width + 4)) + tl.where(is_product, n_features + j * n_features + k, j)
    _add_limbs(tl.where(is_row, value, 0.0), magics + tl.where(is_product, 2, 0), place, width + 4)


@triton.jit
def tangents(
    rows,
    numbers,
    edges,
    owners,
    bases,
    magics,
    limbs,
    n_features,
    row_stride,
    N_FEATURES: tl.constexpr,
    WITH_SCATTER: tl.constexpr,
    WITH_CURVATURE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """`look` and `tangent_pairs` of rows with few columns in one."""
    piece = tl.program_id(0)
    item = tl.load(edges + piece) + tl.arange(0, BLOCK)
    is_row = item < tl.load(edges + piece + 1)
    number = tl.load(numbers + item, mask=is_row, other=0).to(tl.int64)
    owner = tl.load(owners + piece)
    start, base = rows + number * row_stride, bases + owner * N_FEATURES
    cosine = tl.zeros((BLOCK,), tl.float64)
    for j in tl.static_range(N_FEATURES):
        x = tl.load(start + j, mask=is_row, other=0.0).to(tl.float64)
        cosine += tl.load(base + j) * x
    square = tl.zeros((BLOCK,), tl.float64)
    for j in tl.static_range(N_FEATURES):
        x = tl.load(start + j, mask=is_row, other=0.0).to(tl.float64)
        across = x - tl.load(base + j) * cosine
        square += across * across
    stretch, log_stretch, antipode = seen_stretches(cosine, square)
    width = N_FEATURES + N_FEATURES * N_FEATURES
    place = limbs + owner * (2 * (width + 4))
    for j in tl.static_range(N_FEATURES):
        x = tl.load(start + j, mask=is_row, other=0.0).to(tl.float64)
        one = (x - tl.load(base + j) * cosine) * stretch
        _add_limbs(tl.where(is_row, one, 0.0), magics, place + j, width + 4)
        if WITH_SCATTER:
            for k in tl.static_range(j, N_FEATURES):
                y = tl.load(start + k, mask=is_row, other=0.0).to(tl.float64)
                value = one * ((y - tl.load(base + k) * cosine) * stretch)
                own = place + N_FEATURES + j * N_FEATURES + k
                _add_limbs(tl.where(is_row, value, 0.0), magics + 2, own, width + 4)
    place += width
    if WITH_SCATTER:
        _add_limbs(tl.where(is_row, log_stretch, 0.0), magics + 4, place, width + 4)
        _add_limbs(tl.where(is_row, antipode, 0.0), magics + 2, place + 1, width + 4)
    if WITH_CURVATURE:
        bend, sway = seen_curvatures(cosine, square, n_features)
        _add_limbs(tl.where(is_row, bend, 0.0), magics + 6, place + 2, width + 4)
        _add_limbs(tl.where(is_row, sway, 0.0), magics + 8, place + 3, width + 4)


@triton.jit
def _halves(value, grids):
    """Quanta of the two halves of coordinates (sums/whole.py)."""
    large, small = tl.load(grids), tl.load(grids + 1)
    left = value - ((value + large) - large)
    return _quanta(value, large), _quanta(left, small)


@triton.jit
def _carry(value, place, second):
    first = value >> _CARRY
    tl.atomic_add(place, first)
    tl.atomic_add(place + second, value - (first << _CARRY))


@triton.jit
def products(rows, numbers, edges, owners, centres, grids, pairs, limbs, n_features, row_stride, BLOCK: tl.constexpr):
    """Add products of two coordinates around a centre over a piece: sums of integers below 2^53, then carried."""
    piece = tl.program_id(0)
    j, k = tl.load(pairs + 2 * tl.program_id(1)), tl.load(pairs + 2 * tl.program_id(1) + 1)
    item = tl.load(edges + piece) + tl.arange(0, BLOCK)
    is_row = item < tl.load(edges + piece + 1)
    number = tl.load(numbers + item, mask=is_row, other=0).to(tl.int64)
    owner = tl.load(owners + piece)
    start, centre = rows + number * row_stride, centres + owner * n_features
    one = tl.load(start + j, mask=is_row, other=0.0).to(tl.float64) - tl.load(centre + j)
    two = tl.load(start + k, mask=is_row, other=0.0).to(tl.float64) - tl.load(centre + k)
    one_high, one_low = _halves(tl.where(is_row, one, 0.0), grids)
    two_high, two_low = _halves(tl.where(is_row, two, 0.0), grids)
    square = n_features * n_features
    place = limbs + owner * (6 * square) + j * n_features + k
    _carry(tl.sum(one_high * two_high, axis=0), place, 3 * square)
    _carry(tl.sum(one_high * two_low + one_low * two_high, axis=0), place + square, 3 * square)
    _carry(tl.sum(one_low * two_low, axis=0), place + 2 * square, 3 * square)
