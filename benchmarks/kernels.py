"""The tile loop beside the BLAS product, one thread: up to which width is the loop faster?

    python -m benchmarks.kernels

`kernels/cpu/blocks.SMALL_DIMENSION` is set from this table.
"""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from armillary.kernels.contract import AffineRule
from armillary.kernels.cpu import blocks
from benchmarks import measure

N_ROWS = 32_768


def best_of(repeats: int, call) -> float:  # type: ignore[no-untyped-def]
    """The least time of some calls; the first, which compiles, does not count."""
    call()
    return min(measure.seconds(call) for _ in range(repeats))


def compare(n_features: int, n_clusters: int) -> tuple[float, float]:
    """Nanoseconds per row of the loop and of the product, labels that do not change."""
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((N_ROWS, n_features)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rule = blocks.prepare(AffineRule.cosines(rows[:n_clusters].astype(np.float64)))
    labels = np.full(N_ROWS, -1, np.int32)
    changed = np.zeros(n_clusters, np.int64)

    def loop() -> None:
        blocks._assign_narrow(rows, rule, labels, changed, None, None, None)

    def product() -> None:
        for start in range(0, N_ROWS, 1024):
            blocks._assign_listed(rows[start : start + 1024], rule, None, labels[start : start + 1024], changed, None)

    return tuple(1e9 * best_of(7, call) / N_ROWS for call in (loop, product))  # type: ignore[return-value]


def main() -> None:
    """Print the table."""
    table = Table("columns", "clusters", "loop ns/row", "product ns/row", "product / loop")
    with threadpool_limits(1, "blas"):
        for n_clusters in (10, 50):
            for n_features in (2, 3, 4, 8, 12, 16, 20, 24, 32):
                loop, product = compare(n_features, n_clusters)
                numbers = (f"{loop:.1f}", f"{product:.1f}", f"{product / loop:.2f}")
                table.add_row(str(n_features), str(n_clusters), *numbers)
    Console().print(table)


if __name__ == "__main__":
    main()
