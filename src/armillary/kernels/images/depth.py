"""Depth images to unit normals, by bands of rows. `kernels/images/reference.py` says what is computed.

Every pixel is computed alike whatever band it is in, so any number of threads gives equal bits. Loops run over slices
of rows whose index is never negative: numba else tests each index for wrapping around, and no loop becomes vectors.
"""

from __future__ import annotations

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from armillary.kernels.images.lanes import Held, Walk, generator, padded
from armillary.kernels.images.lines import copy, fill
from armillary.kernels.jit import kernel


@kernel
def inverse_depth(depth, scale, nearest, farthest, start, stop, out):
    """1/z in rows `start` to `stop` of `out`; 0 unless z = depth / scale lies from `nearest` to `farthest`."""
    low, high = out.dtype.type(nearest * scale), out.dtype.type(farthest * scale)
    unit, none = out.dtype.type(scale), out.dtype.type(0.0)
    for v in range(start, stop):
        row, found = depth[v], out[v]
        for u in range(len(row)):
            value = out.dtype.type(row[u])
            is_measured = (value >= low) & (value <= high)
            found[u] = unit / value if is_measured else none


@kernel
def depth_of(w, start, stop, out):
    """z = 1/w in rows `start` to `stop`; 0 stays 0."""
    one, none = out.dtype.type(1.0), out.dtype.type(0.0)
    for v in range(start, stop):
        row, found = w[v], out[v]
        for u in range(len(row)):
            found[u] = one / row[u] if row[u] > none else none


@kernel
def block_means(w, side, out):
    """Means (H // 2 side, W // side) of whole squares in every second row of squares; 0 where a pixel is missing."""
    total, least = np.empty(w.shape[1], w.dtype), np.empty(w.shape[1], w.dtype)
    for row in range(out.shape[0]):
        copy(w[2 * side * row], total)
        copy(total, least)
        for v in range(2 * side * row + 1, 2 * side * row + side):
            _add_line(w[v], total)
            _lesser(w[v], least)
        for column in range(out.shape[1]):
            mean, lowest = 0.0, least[column * side]
            for u in range(column * side, column * side + side):
                mean += total[u]
                lowest = min(lowest, least[u])
            out[row, column] = mean / (side * side) if lowest > 0.0 else 0.0


@kernel
def _add_line(line, total):
    for u in range(len(total)):
        total[u] += line[u]


@kernel
def _lesser(line, least):
    for u in range(len(least)):
        least[u] = min(line[u], least[u])


# --------------------------------------------------------------------------------------------------- normals


@intrinsic
def _join(_context, lines, one, other, jump, links, place, length):
    """links[place + u] = 1 where lines[one + u] and lines[other + u] lie on one surface, else 0."""

    def work(walk: Walk) -> None:
        with walk.tiles(walk.whole("length")) as (u, _):
            first, second = (walk.load("lines", walk.at(u, walk.whole(name))) for name in ("one", "other"))
            lesser = first.lesser(second)
            is_near = walk.number("jump") * lesser >= (first - second).size()
            is_joined = (lesser > 0.0) & is_near
            walk.store("links", walk.at(u, walk.whole("place")), is_joined.where(walk.spread(1.0), 0.0))

    kinds = lines, types.intp, types.intp, lines.dtype, links, types.intp, types.intp
    return types.void(*kinds), generator("lines one other jump links place length", lines.dtype, work)


@intrinsic
def _slopes_along(_context, lines, links, place, radius, arms, slopes, weights, length):
    """Of the line at `place`: how far arms reach, and numerators and denominators of its slopes.

    An arm grows by one pair where the links behind and ahead go on; a pair at distance j adds j (w[+j] - w[-j]) and
    2 j^2.
    """

    def work(walk: Walk) -> None:
        place, builder = walk.whole("place"), walk.builder
        with walk.tiles(walk.whole("length")) as (tile, _):
            u = walk.at(tile, place)
            alive, (arm, slope, weight) = Held(walk.spread(1.0)), (Held(walk.spread(0.0)) for _ in range(3))
            with walk.up_to(walk.whole("radius")) as (j, _):
                behind, ahead, far = walk.at(u, builder.neg(j)), walk.at(u, j), walk.spread(j)
                live = alive.becomes(alive.now * walk.load("links", behind) * walk.load("links", walk.at(ahead, -1)))
                arm.becomes(arm.now + live)
                factor = live * far
                slope.becomes(slope.now.plus(factor, walk.load("lines", ahead) - walk.load("lines", behind)))
                weight.becomes(weight.now.plus(factor * 2.0, far))
            for name, found in (("arms", arm), ("slopes", slope), ("weights", weight)):
                walk.store(name, u, found.now)

    kinds = lines, links, types.intp, types.intp, arms, slopes, weights, types.intp
    return types.void(*kinds), generator("lines links place radius arms slopes weights length", lines.dtype, work)


@intrinsic
def _slopes_across(_context, lines, links, slopes, weights, places, radius, found, width, length):
    """What the rows around one add up to, as far as they are joined to it; `places` (2 radius + 1) is where they are.

    The lines of `found` (5, width): numerator and denominator of the slope along the row, of the slope across it in
    this column, and how far arms reach.
    """

    def work(walk: Walk) -> None:
        radius, width, builder = walk.whole("radius"), walk.whole("width"), walk.builder
        with walk.tiles(walk.whole("length")) as (u, _):
            here = walk.at(u, walk.entry("places", radius))
            alive, (rise, run, arm) = Held(walk.spread(1.0)), (Held(walk.spread(0.0)) for _ in range(3))
            sums = {name: Held(walk.load(name, here)) for name in ("slopes", "weights")}
            with walk.up_to(radius) as (j, _):
                last, far = walk.at(radius, j), walk.spread(j)
                above = walk.at(u, walk.entry("places", builder.sub(radius, j)))
                below, link = (walk.at(u, walk.entry("places", place)) for place in (last, walk.at(last, -1)))
                live = alive.becomes(alive.now * walk.load("links", above) * walk.load("links", link))
                arm.becomes(arm.now + live)
                for name, total in sums.items():
                    total.becomes(total.now.plus(live, walk.load(name, below) + walk.load(name, above)))
                factor = live * far
                rise.becomes(rise.now.plus(factor, walk.load("lines", below) - walk.load("lines", above)))
                run.becomes(run.now.plus(factor * 2.0, far))
            for number, one in enumerate((*sums.values(), rise, run, arm)):
                walk.store("found", walk.at(u, walk.times(width, number)), one.now)

    kinds = lines, links, slopes, weights, places, types.intp, found, types.intp, types.intp
    names = "lines links slopes weights places radius found width length"
    return types.void(*kinds), generator(names, lines.dtype, work)


@intrinsic
def _cross(_context, lines, place, arms, radius, sums, width, columns, fx, fy, height, vectors, is_valid, length):
    """Minus (fx w_u, fy w_v, w - (u - cx) w_u - (v - cy) w_v), made unit; zeros where an arm reaches nobody.

    The product with the ray of the pixel is w > 0: what is inside is never 0. `sums` is what `_slopes_across` found.
    """

    def work(walk: Walk) -> None:
        place, width, builder = walk.whole("place"), walk.whole("width"), walk.builder
        with walk.tiles(walk.whole("length")) as (u, _):
            lines = [walk.at(u, walk.times(width, number)) for number in range(5)]
            arm = walk.load("arms", walk.at(u, place))
            rise, run = (Held(walk.load("sums", line)) for line in lines[2:4])
            with walk.up_to(walk.whole("radius")) as (j, _):
                live = (arm >= walk.spread(j)).where(walk.spread(1.0), 0.0)
                for total, line in ((rise, lines[2]), (run, lines[3])):
                    both = walk.load("sums", walk.at(line, j)) + walk.load("sums", walk.at(line, builder.neg(j)))
                    total.becomes(total.now.plus(live, both))
            is_inside = (arm >= 1.0) & (walk.load("sums", lines[4]) >= 1.0)
            top, bottom = walk.load("sums", lines[0]), walk.load("sums", lines[1])
            # one division for both slopes
            inverse = is_inside.where(bottom * run.now, 1.0).inverse()
            w_u, w_v = (is_inside.where(part * inverse, 0.0) for part in (top * run.now, rise.now * bottom))
            z = walk.load("lines", walk.at(u, place)).minus(walk.load("columns", u), w_u)
            normal = walk.number("fx") * w_u, walk.number("fy") * w_v, z.minus(walk.number("height"), w_v)
            square = (normal[0] * normal[0]).plus(normal[1], normal[1]).plus(normal[2], normal[2])
            scale = is_inside.where(is_inside.where(square, 1.0).root().inverse(-1.0), 0.0)
            # adding 0 makes -0 of a flat wall 0
            x, y, z = (part * scale + 0.0 for part in normal)
            n = walk.n_lanes
            xy, zz = x.shuffled(y, range(2 * n)), z.shuffled(z, range(2 * n))
            in_turn = [n * axis + lane for lane in range(n) for axis in range(3)]
            walk.store("vectors", walk.times(u, 3), xy.shuffled(zz, in_turn))
            walk.store_flags("is_valid", u, is_inside)

    real = lines.dtype
    kinds = lines, types.intp, arms, types.intp, sums, types.intp, columns, real, real, real, vectors, is_valid
    names = "lines place arms radius sums width columns fx fy height vectors is_valid length"
    return types.void(*kinds, types.intp), generator(names, real, work)


@kernel
def normals(w, fx, fy, columns, cy, radius, jump, start, stop, vectors, is_valid):
    """Fill rows `start` to `stop` of `vectors` (H, W, 3) and `is_valid` (H, W); `columns` are u - cx."""
    height, width = w.shape
    real = w.dtype.type
    radius = min(radius, (max(height, width) - 1) // 2)
    length, margin = padded(width), padded(radius)
    wide, n_kept = length + 2 * margin, min(2 * radius + 2, height)
    # of the rows that are kept: inverse depth, links to the right and down, arms, slopes and weights along them; the
    # last line of each is that of rows outside the image
    kept = np.zeros((6, n_kept + 1, wide), w.dtype)
    lines, right, down, arms, slopes, weights = kept[0], kept[1], kept[2], kept[3], kept[4], kept[5]
    sums, middles = np.zeros(5 * wide + margin, w.dtype), np.zeros(length, w.dtype)
    places = np.empty(2 * radius + 1, np.int64)
    line, is_inside = np.empty(3 * length, np.float32), np.empty(length, np.bool_)
    copy(columns, middles[:width])
    first, last = max(0, start - radius), min(height, stop + radius)
    entered = first
    for v in range(start, stop):
        while entered < min(last, v + radius + 1):
            slot = entered % n_kept
            here, before = slot * wide + margin, (entered - 1) % n_kept * wide + margin
            copy(w[entered], lines[slot, margin : margin + width])
            _join(lines, here, here + 1, real(jump), right, here, length)
            _slopes_along(lines, right, here, radius, arms, slopes, weights, length)
            fill(real(0.0), down[slot])
            if entered > first:
                _join(lines, before, here, real(jump), down, before, length)
            entered += 1
        for j in range(-radius, radius + 1):
            slot = (v + j) % n_kept if first <= v + j < last else n_kept
            places[radius + j] = slot * wide + margin
        _slopes_across(lines, down, slopes, weights, places, radius, sums[margin:], wide, length)
        _cross(lines, places[radius], arms, radius, sums[margin:], wide, middles, real(fx), real(fy), real(v - cy),
               line, is_inside, length)  # fmt: skip
        _take_line(line, vectors[v])
        copy(is_inside, is_valid[v])


@kernel
def _take_line(line, vectors):
    for u in range(len(vectors)):
        vectors[u, 0] = line[3 * u]
        vectors[u, 1] = line[3 * u + 1]
        vectors[u, 2] = line[3 * u + 2]


@kernel
def take_rows(vectors, is_valid, out):
    """The vectors (H, W, 3) of valid pixels one after the other; `out` has room for one more, which is left as scratch.

    Every vector is written, and the next one over it unless it was valid: a branch would be guessed wrong at each rim.
    """
    k = 0
    for v in range(is_valid.shape[0]):
        for u in range(is_valid.shape[1]):
            for c in range(3):
                out[k, c] = vectors[v, u, c]
            k += 1 if is_valid[v, u] else 0


@kernel
def put_rows(values, is_valid, missing, out):
    """The reverse for one value a pixel, with `missing` at the others."""
    k = 0
    for v in range(is_valid.shape[0]):
        for u in range(is_valid.shape[1]):
            if is_valid[v, u]:
                out[v, u] = values[k]
                k += 1
            else:
                out[v, u] = missing
