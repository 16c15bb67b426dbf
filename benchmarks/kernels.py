"""Labels of dense rows by three ways, one thread: where is which the fastest?

    python -m benchmarks.kernels

Narrow rows: a loop over clusters with one array per coordinate. Wide rows: a row in each vector lane. Both beside the
BLAS product with an arg max of its scores. The limits at the head of kernels/rows/blocks.py are set from this table.
"""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from armillary.kernels.rows import blocks
from armillary.kernels.rows.simd import LANES
from armillary.rules import AffineRule
from benchmarks import measure

N_ROWS = 32_768
N_VALUES = 1 << 23


def best_of(repeats: int, call) -> float:  # type: ignore[no-untyped-def]
    """The least time of some calls; the first, which compiles, does not count."""
    call()
    return min(measure.seconds(call) for _ in range(repeats))


def compare(n_features: int, n_clusters: int) -> list[float | None]:
    """Nanoseconds per row of the loop, lanes and the product, labels that do not change; None: not made for it."""
    generator = np.random.default_rng(0)
    n_rows = min(N_ROWS, N_VALUES // n_features)
    rows = generator.standard_normal((n_rows, n_features)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rule = blocks.prepare(AffineRule.cosines(rows[:n_clusters].astype(np.float64)))
    labels = np.full(n_rows, -1, np.int32)
    changed = np.zeros(n_clusters, np.int64)

    def loop() -> None:
        blocks._assign_narrow(rows, rule, labels, changed, None, None, None)

    def lanes() -> None:
        blocks._assign_wide(rows, rule, None, labels, changed)

    def product() -> None:
        for start in range(0, n_rows, 1024):
            blocks._assign_listed(rows[start : start + 1024], rule, None, labels[start : start + 1024], changed, None)

    calls = (loop if n_features <= 32 else None, lanes if n_features >= LANES else None, product)
    return [None if call is None else 1e9 * best_of(7, call) / n_rows for call in calls]


def main() -> None:
    """Print the table."""
    table = Table("columns", "clusters", "loop ns/row", "lanes ns/row", "product ns/row")
    with threadpool_limits(1, "blas"):
        for n_clusters in (10, 50, 100):
            for n_features in (2, 3, 4, 8, 12, 16, 20, 24, 32, 64, 128, 384, 768, 2048, 8192):
                times = compare(n_features, n_clusters)
                table.add_row(str(n_features), str(n_clusters), *("" if t is None else f"{t:.1f}" for t in times))
    Console().print(table)


if __name__ == "__main__":
    main()
