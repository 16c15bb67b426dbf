"""The colours of clusters.

Twelve that readers with any kind of sight tell apart, twelve more for many clusters, and one for what has no cluster.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armillary._typing import IntArray

# Twelve colours found by annealing. Any two are at least 0.09 apart in OKLab, a clear step, for readers with normal
# sight, protanopia, deuteranopia or tritanopia (tests/unit/test_plot_sphere.py measures it).
PALETTE = (
    "#0e56ab", "#e9904a", "#6fd6a6", "#972d5e", "#13a2e3", "#eccb36",
    "#7c6ac6", "#20491b", "#c96390", "#816d1e", "#c5b8f7", "#591f7c",
)  # fmt: skip


# Twelve more, each the farthest from all before it: with the first, any two are 0.09 apart for normal sight and 0.058
# for the others, and none is like the globe.
MORE_COLORS = (
    "#a800fc", "#fc0054", "#000cc0", "#248460", "#60003c", "#fc54fc",
    "#6c24d8", "#6c4884", "#486000", "#78b478", "#0090a8", "#d86ccc",
)  # fmt: skip


def color_bytes(color: str) -> tuple[int, int, int]:
    """Red, green and blue from 0 to 255 of "#rrggbb"."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue


# red, green and blue from 0 to 255 (13, 3): the palette, then black
COLOR_TABLE: npt.NDArray[np.uint8] = np.array([*map(color_bytes, PALETTE), (0, 0, 0)], dtype=np.uint8)


def color_numbers(ids: IntArray) -> npt.NDArray[np.uint8]:
    """Rows of `COLOR_TABLE` for ids: `id % 12`, and the black one for ids below 0."""
    return np.where(ids < 0, len(PALETTE), ids % len(PALETTE)).astype(np.uint8)
