"""Loops over one line of an image, shared by the passes over images.

They are short and touch few arrays: LLVM makes vectors of a loop only where it can test with a few comparisons that its
arrays do not overlap, and runs another loop where they do. So a loop that changes an array is given it once.
"""

from __future__ import annotations

from armillary.kernels.jit import CONTRACT, kernel


@kernel
def fill(value, line):
    """line = value."""
    for u in range(len(line)):
        line[u] = value


@kernel
def copy(line, out):
    """out = line, as much of it as fits."""
    for u in range(len(out)):
        out[u] = line[u]


@kernel(fastmath=CONTRACT)
def add_times(factor, line, total):
    """total += factor line."""
    for u in range(len(total)):
        total[u] += factor * line[u]
