"""The guided filter on inverse depth, by bands of rows. `kernels/images/reference.py` says what is computed.

Sums over squares are made of column sums that gain a row of blocks and lose one as the square moves down, in float64,
and of sums along the row by fours: 2r + 1 blocks are r / 2 sums of four and one or three more. A band starts its column
sums anew: bits depend on the bands, which the height of the image cuts, not on threads.

Rows of blocks are lines of numbers one after the other, padded with zeros on both sides (`lanes.py`), where squares are
cut at the border; above and below the image is a row of zeros.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from armillary.kernels.images.lanes import Held, Vector, Walk, generator, padded
from armillary.kernels.images.lines import copy, fill
from armillary.kernels.jit import kernel

# sums over a square of 1, u, v, uu, uv, vv, w, uw, vw, ww
N_MOMENTS = 10
# what a square proposes: its weight, the share of w in it, and a plane A + B u + C v times the rest
N_PROPOSED = 5
# Sums of three and four from the last place on read beyond it.
_BEYOND = 16


# ---------------------------------------------------------------------------------------------- sums over squares


@intrinsic
def _slide(_context, columns, rows, entering, leaving, length):
    """columns += rows[entering:] - rows[leaving:]."""

    def work(walk: Walk) -> None:
        with walk.tiles(walk.whole("length")) as (u, _):
            gained, lost = (walk.load("rows", walk.at(u, walk.whole(name))) for name in ("entering", "leaving"))
            walk.store("columns", u, walk.load("columns", u) + (gained - lost))

    kinds = columns, rows, types.intp, types.intp, types.intp
    return types.void(*kinds), generator("columns rows entering leaving length", types.float64, work)


@intrinsic
def _sum_ahead(_context, columns, twos, fours, length):
    """Sums of two and of four columns from each on."""

    def work(walk: Walk) -> None:
        with walk.tiles(walk.whole("length")) as (u, _):
            one, two, three, four = (walk.load("columns", walk.at(u, step)) for step in range(4))
            walk.store("twos", u, one + two)
            walk.store("fours", u, one + two + (three + four))

    return types.void(columns, twos, fours, types.intp), generator("columns twos fours length", types.float64, work)


def _square_sums(walk: Walk, tile: ir.Value, n_lines: int) -> list[Vector]:
    """The sums of `n_lines` lines over the squares around the blocks of a tile."""
    builder, radius, wide = walk.builder, walk.whole("radius"), walk.whole("wide")
    start = builder.sub(walk.at(tile, walk.whole("margin")), radius)
    firsts = [walk.at(start, walk.times(wide, number)) for number in range(n_lines)]
    reach = walk.times(radius, 2)
    sums = [Held(walk.load("columns", walk.at(first, reach))) for first in firsts]
    with cgutils.for_range(builder, builder.lshr(walk.at(reach, 1), reach.type(2))) as loop:
        for total, first in zip(sums, firsts, strict=True):
            total.becomes(total.now + walk.load("fours", walk.at(first, walk.times(loop.index, 4))))
    with builder.if_then(builder.icmp_signed("==", builder.and_(radius, radius.type(1)), radius.type(1))):
        for total, first in zip(sums, firsts, strict=True):
            total.becomes(total.now + walk.load("twos", walk.at(first, reach, -2)))
    return [total.now for total in sums]


# ------------------------------------------------------------------------------------------------- planes


@intrinsic
def _gather(_context, pixels, lower, x, y, blocks, start, wide, length):
    """The sums (10) over blocks of two rows of pixels, 0 where nothing was measured, the second one from `lower` on.

    `x` are u of the left pixels of blocks, `y` is v of the upper ones.
    """

    def work(walk: Walk) -> None:
        y = walk.number("y")
        with walk.tiles(walk.whole("length")) as (block, _):
            x, place = walk.load("x", block), walk.times(block, 2)
            above, below = (_sums_of_pairs(walk, start, x) for start in (place, walk.at(place, walk.whole("lower"))))
            ones, u, uu, w, uw, ww = (one + other for one, other in zip(above, below, strict=True))
            # v is y above and y + 1 below
            v, uv, vw = (below[place].plus(total, y) for place, total in ((0, ones), (1, u), (3, w)))
            vv = (above[0] * y * y).plus(below[0] * (y + 1.0), y + 1.0)
            target = walk.at(block, walk.whole("start"))
            for number, line in enumerate((ones, u, v, uu, uv, vv, w, uw, vw, ww)):
                walk.store("blocks", walk.at(target, walk.times(walk.whole("wide"), number)), line)

    kinds = pixels, types.intp, x, types.float64, blocks, types.intp, types.intp, types.intp
    return types.void(*kinds), generator("pixels lower x y blocks start wide length", types.float64, work)


def _sums_of_pairs(walk: Walk, start: ir.Value, x: Vector) -> tuple[Vector, ...]:
    """Sums of 1, u, uu, w, uw and ww over pairs of pixels in a row."""
    n = walk.n_lanes
    both = walk.load("pixels", start, 2 * n)
    left, right = (both.shuffled(both, range(side, 2 * n, 2)) for side in (0, 1))
    ones, others = ((side > 0.0).where(walk.spread(1.0), 0.0) for side in (left, right))
    u, other_u = ones * x, others * (x + 1.0)
    return (
        ones + others,
        u + other_u,
        (u * x).plus(other_u, x + 1.0),
        left + right,
        (left * x).plus(right, x + 1.0),
        (left * left).plus(right, right),
    )


# sums of products, and the means whose product is taken off: uu, uv, vv, uw, vw, ww
_PRODUCTS = ((3, 1, 1), (4, 1, 2), (5, 2, 2), (7, 1, 6), (8, 2, 6), (9, 6, 6))


@intrinsic
def _fit(_context, columns, twos, fours, margin, wide, radius, least, scale, expected, proposed, start, length):
    """Least squares in the squares of a row of blocks; `scale` is 1 / edge^2, `expected` noise^2."""

    def work(walk: Walk) -> None:
        with walk.tiles(walk.whole("length")) as (block, _):
            sums = _square_sums(walk, block, N_MOMENTS)
            share = sums[0].greater(1.0).inverse()
            means = {number: sums[number] * share for number in (1, 2, 6)}
            uu, uv, vv, uw, vw, ww = (
                (sums[number] * share).minus(means[one], means[other]) for number, one, other in _PRODUCTS
            )
            determinant = (uu * vv).minus(uv, uv)
            is_plane = determinant > walk.number("least")
            inverse = is_plane.where(determinant, 1.0).inverse()
            slope_u, slope_v = (
                is_plane.where((one * mine).minus(uv, other) * inverse, 0.0)
                for one, mine, other in ((vv, uw, vw), (uu, vw, uw))
            )
            residual = ww.minus(slope_u, uw).minus(slope_v, vw)
            offset = means[6].minus(slope_u, means[1]).minus(slope_v, means[2])
            weight, give = _trusts((residual - walk.number("expected")).greater(0.0) * walk.number("scale"))
            give = is_plane.where(give, 0.0)
            target = walk.at(block, walk.whole("start"))
            lines = weight, weight - give, give * offset, give * slope_u, give * slope_v
            for number, line in enumerate(lines):
                walk.store("proposed", walk.at(target, walk.times(walk.whole("wide"), number)), line)

    whole, real = types.intp, types.float64
    kinds = columns, twos, fours, whole, whole, whole, real, real, real, proposed, whole, whole
    names = "columns twos fours margin wide radius least scale expected proposed start length"
    return types.void(*kinds), generator(names, real, work)


def _trusts(q: Vector) -> tuple[Vector, Vector]:
    """1 / (2 q + 1/2)^8 + 1/1000 for a residual q, and that times 1 / (1 + q^4)."""
    far, square = (q + q) + 0.5, q * q
    farther = (square * square) + 1.0
    both = (far * farther).inverse()  # one division for the two
    near = both * farther
    near = near * near
    near = near * near
    weight = (near * near) + 1e-3
    return weight, weight * (both * far)


@kernel
def propose_planes(w, x, radius, edge, noise, least, start, stop, margin, proposed):
    """Fit a plane in the square around each block; fill rows `start` to `stop` of `proposed` (H / 2 + 1, 5, W').

    W' is W / 2 with a margin before and behind, which are filled with zeros. u and v have their origin in the middle of
    the image; `x` is u of the left pixels of blocks, `least` the least determinant of a plane. `noise` is what a plane
    leaves anyway: residuals count from its square on.
    """
    height = len(w)
    n_rows, wide, length, none = (height + 1) // 2, proposed.shape[2], padded(len(x)), w.dtype.type(0.0)
    size, n_kept = N_MOMENTS * wide, min(2 * radius + 2, n_rows)
    # the last row is that of blocks above and below the image
    blocks = np.zeros((n_kept + 1) * size)
    columns, twos, fours = np.zeros(size + _BEYOND), np.zeros(size + _BEYOND), np.zeros(size + _BEYOND)
    pixels, middles = np.zeros(4 * length, w.dtype), np.zeros(length)
    copy(x, middles[: len(x)])
    entered, nowhere = max(0, start - radius), n_kept * size
    for row in range(start, stop):
        leaving = (row - radius - 1) % n_kept * size if row > start and row > radius else nowhere
        while entered < min(n_rows, row + radius + 1):
            slot = entered % n_kept * size
            _take_pixels(w, entered, pixels, 2 * length)
            y = 2.0 * entered - 0.5 * (height - 1)
            _gather(pixels, 2 * length, middles, y, blocks, slot + margin, wide, length)
            _slide(columns, blocks, slot, leaving, size)
            entered, leaving = entered + 1, nowhere
        if leaving != nowhere:
            _slide(columns, blocks, nowhere, leaving, size)
        _sum_ahead(columns, twos, fours, size)
        _fit(columns, twos, fours, margin, wide, radius, least, 1.0 / (edge * edge), noise * noise,
             proposed[row].reshape(N_PROPOSED * wide), margin, length)  # fmt: skip
        for number in range(N_PROPOSED):
            fill(none, proposed[row, number, :margin])
            fill(none, proposed[row, number, margin + len(x) :])


@kernel
def _take_pixels(w, row, pixels, lower):
    """The two rows of pixels of a row of blocks; where the height is odd the last one is zeros."""
    width = w.shape[1]
    copy(w[2 * row], pixels[:width])
    if 2 * row + 1 < len(w):
        copy(w[2 * row + 1], pixels[lower : lower + width])
    else:
        fill(w.dtype.type(0.0), pixels[lower : lower + width])


@intrinsic
def _accept(_context, columns, twos, fours, margin, wide, radius, x, y, pixels, lower, length):
    """Two rows of pixels become the weighted means of what the squares around propose.

    What was not measured stays so, and where planes would go behind infinity, pixels keep their own.
    """

    def work(walk: Walk) -> None:
        n = walk.n_lanes
        in_turn = [side * n + lane for lane in range(n) for side in (0, 1)]
        with walk.tiles(walk.whole("length")) as (block, _):
            sums = _square_sums(walk, block, N_PROPOSED)
            share = sums[0].inverse()
            keep, offset, slope_u, slope_v = (total * share for total in sums[1:])
            left = offset.plus(slope_u, walk.load("x", block)).plus(slope_v, walk.number("y"))
            place = walk.times(block, 2)
            for start in (place, walk.at(place, walk.whole("lower"))):
                mean, old = left.shuffled(left + slope_u, in_turn), walk.load("pixels", start, 2 * n)
                smooth = mean.plus(keep.shuffled(keep, in_turn), old)
                walk.store("pixels", start, ((old > 0.0) & (smooth > 0.0)).where(smooth, old))
                left = left + slope_v

    whole, real = types.intp, types.float64
    kinds = columns, twos, fours, whole, whole, whole, x, real, pixels, whole, whole
    return types.void(*kinds), generator("columns twos fours margin wide radius x y pixels lower length", real, work)


@kernel
def accept_planes(w, x, radius, proposed, start, stop, margin, out):
    """Fill the pixels of block rows `start` to `stop` with the means of what is proposed; its last row is zeros."""
    height, width = w.shape
    n_rows, wide, length = (height + 1) // 2, proposed.shape[2], padded(len(x))
    size = N_PROPOSED * wide
    columns, twos, fours = np.zeros(size + _BEYOND), np.zeros(size + _BEYOND), np.zeros(size + _BEYOND)
    pixels, middles = np.zeros(4 * length, w.dtype), np.zeros(length)
    copy(x, middles[: len(x)])
    rows, nowhere = proposed.reshape(proposed.size), n_rows * size
    for row in range(max(0, start - radius), min(n_rows, start + radius)):
        _slide(columns, rows, row * size, nowhere, size)
    for row in range(start, stop):
        entering = (row + radius) * size if row + radius < n_rows else nowhere
        leaving = (row - radius - 1) * size if row > start and row > radius else nowhere
        _slide(columns, rows, entering, leaving, size)
        _sum_ahead(columns, twos, fours, size)
        _take_pixels(w, row, pixels, 2 * length)
        _accept(columns, twos, fours, margin, wide, radius, middles, 2.0 * row - 0.5 * (height - 1), pixels, 2 * length,
                length)  # fmt: skip
        copy(pixels[:width], out[2 * row])
        if 2 * row + 1 < height:
            copy(pixels[2 * length : 2 * length + width], out[2 * row + 1])
