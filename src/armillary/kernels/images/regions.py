"""Regions of a label image: runs of one label in a line, joined where they touch in the next.

Everything but the first walk over the pixels is done on runs, of which an image has a few thousand.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from armillary.kernels.images.lanes import Walk, generator, lowest
from armillary.kernels.jit import kernel

TILE = 16  # pixels


@intrinsic
def _changes(_context, image, place):
    """Which of 16 pixels from `place` on, counted over the lines, differ from those before them, as bits."""

    def work(walk: Walk) -> ir.Value:
        builder, place = walk.builder, walk.whole("place")
        here, before = (builder.load(walk.address("image", walk.at(place, step), TILE), align=4) for step in (0, -1))
        found = builder.bitcast(builder.icmp_signed("!=", here, before), ir.IntType(TILE))
        return builder.zext(found, ir.IntType(64))

    return types.int64(image, types.intp), generator("image place", types.float32, work, TILE)


@kernel
def find_runs(image, firsts, lasts, labels, starts):
    """The runs of each line: first and last column (the last is not in it), label; line v has `starts[v]` to the next.

    Returns how many there are; what does not fit into the arrays is not written.
    """
    height, width = image.shape
    run, most = 0, len(firsts)
    for v in range(height):
        starts[v] = run
        row, first, start = image[v], 0, 1
        while start < width:
            n_pixels = TILE if start + TILE <= width else 1
            changes: int = int(row[start] != row[start - 1])
            if n_pixels > 1:
                changes = _changes(image, v * width + start)
            while changes:
                u = start + lowest(changes)
                changes &= changes - 1
                if run < most:
                    firsts[run], lasts[run], labels[run] = first, u, row[u - 1]
                first = u
                run += 1
            start += n_pixels
        if width:
            if run < most:
                firsts[run], lasts[run], labels[run] = first, width, row[width - 1]
            run += 1
    starts[height] = run
    return run


@kernel
def _root(parents, run):
    while parents[run] != run:
        parents[run] = parents[parents[run]]
        run = parents[run]
    return run


@kernel
def join_runs(firsts, lasts, labels, starts, numbers):
    """The region of each run in `numbers` (n,): from 1 on by the first run, 0 for labels below 0.

    Returns the label and the pixels of each region, that of 0 first: (R,) and (R,).
    """
    n_runs = len(numbers)
    parents = np.arange(n_runs)
    for v in range(1, len(starts) - 1):
        one, other = starts[v - 1], starts[v]
        while one < starts[v] and other < starts[v + 1]:
            if labels[one] == labels[other] and firsts[one] < lasts[other] and firsts[other] < lasts[one]:
                a, b = _root(parents, one), _root(parents, other)
                # the smaller number is the root: roots are first runs, whatever the order
                parents[max(a, b)] = min(a, b)
            if lasts[one] <= lasts[other]:
                one += 1
            else:
                other += 1
    n_regions = 1
    for run in range(n_runs):
        numbers[run] = 0
        if labels[run] >= 0:
            root = _root(parents, run)
            if root == run:
                numbers[run] = n_regions
                n_regions += 1
            else:
                numbers[run] = numbers[root]
    names, sizes = np.full(n_regions, -1, labels.dtype), np.zeros(n_regions, np.int64)
    for run in range(n_runs):
        number = numbers[run]
        sizes[number] += lasts[run] - firsts[run]
        if number:
            names[number] = labels[run]
    return names, sizes


@kernel
def small_borders(firsts, lasts, starts, numbers, is_small, borders):
    """Borders of two regions of which one is small: fill `borders` (M, 3) with both and a length as far as it goes.

    A pair comes as often as runs touch. Returns how many there are.
    """
    n = 0
    for v in range(len(starts) - 1):
        for run in range(starts[v], starts[v + 1] - 1):
            n = _add(numbers[run], numbers[run + 1], 1, is_small, borders, n)
        if v == 0:
            continue
        one, other = starts[v - 1], starts[v]
        while one < starts[v] and other < starts[v + 1]:
            length = min(lasts[one], lasts[other]) - max(firsts[one], firsts[other])
            if length > 0:
                n = _add(numbers[one], numbers[other], length, is_small, borders, n)
            if lasts[one] <= lasts[other]:
                one += 1
            else:
                other += 1
    return n


@kernel
def _add(one, other, length, is_small, borders, n):
    if one == other or one == 0 or other == 0 or not (is_small[one] or is_small[other]):
        return n
    if n < len(borders):
        borders[n, 0], borders[n, 1], borders[n, 2] = one, other, length
    return n + 1


@kernel
def take_by_border(borders, n_borders, codes, is_open, taken):
    """Open regions (R,) take the label with which they share the longest border, the smaller of equal ones, in turns.

    `borders` (M, 3) are two regions and a length each; `codes` (R,) number the labels of regions in their order, and
    become those that they take. In a turn, all that border on a region that is not open take at once. Regions that
    never do are left open. `taken` (R,) is scratch.
    """
    n_regions = len(codes)
    starts = np.zeros(n_regions + 1, np.int64)
    for pair in range(n_borders):
        for side in range(2):
            starts[borders[pair, side] + 1] += is_open[borders[pair, side]]
    for region in range(n_regions):
        starts[region + 1] += starts[region]
    others, lengths, filled = np.empty(starts[-1], np.int64), np.empty(starts[-1], np.int64), starts[:-1].copy()
    for pair in range(n_borders):
        for side in range(2):
            region = borders[pair, side]
            if is_open[region]:
                others[filled[region]], lengths[filled[region]] = borders[pair, 1 - side], borders[pair, 2]
                filled[region] += 1
    votes = np.zeros(codes.max() + 2, np.int64)
    n_taken = 1
    while n_taken:
        n_taken = 0
        for region in range(n_regions):
            if is_open[region]:
                own = slice(starts[region], starts[region + 1])
                taken[region] = _longest(others[own], lengths[own], is_open, codes, votes)
                n_taken += taken[region] >= 0
        for region in range(n_regions):
            if is_open[region] and taken[region] >= 0:
                codes[region], is_open[region] = taken[region], False


@kernel
def _longest(others, lengths, is_open, codes, votes):
    """The label with the longest border among regions that are not open; -1 where there is none. `votes` are zeros."""
    best = -1
    for place in range(len(others)):
        if not is_open[others[place]]:
            votes[codes[others[place]]] += lengths[place]
    for place in range(len(others)):
        if not is_open[others[place]]:
            code = codes[others[place]]
            if best < 0 or votes[code] > votes[best] or (votes[code] == votes[best] and code < best):
                best = code
    for place in range(len(others)):
        if not is_open[others[place]]:
            votes[codes[others[place]]] = 0
    return best


@kernel
def rename_runs(firsts, lasts, starts, numbers, old, new, image):
    """Write the new names of regions into the image, where they differ from the old ones."""
    for v in range(len(starts) - 1):
        for run in range(starts[v], starts[v + 1]):
            number = numbers[run]
            if new[number] != old[number]:
                for u in range(firsts[run], lasts[run]):
                    image[v, u] = new[number]
