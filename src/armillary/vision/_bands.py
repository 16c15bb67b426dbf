"""An image cut into bands of rows that threads take in turn. The cut depends on the height alone."""

from __future__ import annotations

from collections.abc import Callable

from armillary.workers import Workers

# A call of a kernel takes some ten microseconds, and bands of normals look at four rows more on both sides.
BAND = 64


def over_rows(workers: Workers, n_rows: int, work: Callable[[int, int], object], band: int = BAND) -> None:
    """Call `work(start, stop)` for consecutive bands that cover the rows."""
    workers.run(lambda number: work(number * band, min(n_rows, (number + 1) * band)), -(-n_rows // band))
