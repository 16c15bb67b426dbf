"""Regions of a label image: runs of one label in a line, joined where they touch in the next.

Everything but the first walk over the pixels is done on runs, of which an image has a few thousand.
"""

from __future__ import annotations

import numpy as np

from armillary.kernels.jit import VECTOR_SUMS, kernel

STRETCH = 64  # pixels


@kernel(fastmath=VECTOR_SUMS)
def _n_changes(row, before):
    """How many pixels differ from those before them."""
    n = 0
    for u in range(len(row)):
        n += row[u] != before[u]
    return n


@kernel
def find_runs(image, firsts, lasts, labels, starts):
    """The runs of each line: first and last column (the last is not in it), label; line v has `starts[v]` to the next.

    Returns how many there are; what does not fit into the arrays is not written. Stretches without a change are
    passed over by whole vectors.
    """
    height, width = image.shape
    run, most = 0, len(firsts)
    for v in range(height):
        starts[v] = run
        row, first, start = image[v], 0, 1
        while start <= width:
            stop = min(start + STRETCH, width)
            if start < width and _n_changes(row[start:stop], row[start - 1 : stop - 1]) == 0:
                start = stop
                continue
            for u in range(start, stop + (stop == width)):
                if u == width or row[u] != row[u - 1]:
                    if run < most:
                        firsts[run], lasts[run], labels[run] = first, u, row[u - 1]
                    first = u
                    run += 1
            start = stop + (stop == width)
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
def rename_runs(firsts, lasts, starts, numbers, old, new, image):
    """Write the new names of regions into the image, where they differ from the old ones."""
    for v in range(len(starts) - 1):
        for run in range(starts[v], starts[v + 1]):
            number = numbers[run]
            if new[number] != old[number]:
                for u in range(firsts[run], lasts[run]):
                    image[v, u] = new[number]
