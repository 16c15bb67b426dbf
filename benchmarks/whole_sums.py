"""Sums of labelled rows in three forms, one thread: what do whole sums cost?

    python -m benchmarks.whole_sums

Plain float64 depends on the order of rows. Whole sums do not: rows are rounded to multiples of 2^-q first, and then
added as float64 (`(x + M) - M`, sums/whole.py) or as int64 (the low bits of `x + M`). The loops are those of
kernels/rows/dense.py without what finds the labels: narrow rows in banks of short lines, wide rows column by column.
The forms take turns; told are the least and the median time of a pass.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from typing import Any

import numba
import numpy as np
from rich.console import Console
from rich.table import Table

from armillary.sums import whole
from benchmarks import measure

_OUTPUT = Path(__file__).parent / "results" / "whole_sums.json"
_BANKS = 4


def _forms(n_columns: int) -> dict[str, Any]:
    """The loops, compiled for a number of columns where there are few."""
    width = n_columns if n_columns <= 16 else 0
    compiled = numba.njit(nogil=True, error_model="numpy")

    @compiled
    def plain(rows, labels, rounder, lines, wholes):
        columns = width if width > 0 else rows.shape[1]
        for i in range(rows.shape[0]):
            line = lines[labels[i], i % lines.shape[1]]
            for d in range(columns):
                line[d] += rows[i, d]

    @compiled
    def quantised(rows, labels, rounder, lines, wholes):
        columns = width if width > 0 else rows.shape[1]
        for i in range(rows.shape[0]):
            line = lines[labels[i], i % lines.shape[1]]
            for d in range(columns):
                line[d] += (rows[i, d] + rounder) - rounder

    @compiled
    def integers(rows, labels, rounder, lines, wholes):
        columns = width if width > 0 else rows.shape[1]
        scale = 1.0 / (rounder / 1.5 * 2.0**-52)
        magic = 1.5 * 2.0**52
        zero = np.float64(magic).view(np.int64)
        for i in range(rows.shape[0]):
            line = wholes[labels[i], i % lines.shape[1]]
            for d in range(columns):
                line[d] += np.float64(rows[i, d] * scale + magic).view(np.int64) - zero

    return {"float64": plain, "quantised float64": quantised, "int64": integers}


def compare(n_rows: int, n_columns: int, n_clusters: int, repeats: int) -> dict[str, Any]:
    """Milliseconds of each form, and how far its sums are from exact ones."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n_rows, n_columns))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    labels = rng.integers(0, n_clusters, size=n_rows).astype(np.int32)
    q = whole.exponent(n_rows)
    n_banks = _BANKS if n_columns <= 16 else 1
    lines = np.zeros((n_clusters, n_banks, n_columns))
    wholes = np.zeros((n_clusters, n_banks, n_columns), np.int64)
    exact = np.zeros((n_clusters, n_columns), np.longdouble)
    for k in range(n_clusters):
        exact[k] = rows[labels == k].astype(np.longdouble).sum(axis=0)
    forms, times, off = _forms(n_columns), {}, {}
    for name, form in forms.items():
        lines[:], wholes[:] = 0.0, 0
        form(rows, labels, whole.rounder(q), lines, wholes)
        found = np.ldexp(wholes.sum(axis=1).astype(np.longdouble), -q) if name == "int64" else lines.sum(axis=1)
        off[name] = float(np.abs(found - exact).max())
        times[name] = []
    for _ in range(repeats):
        for name, form in forms.items():
            arguments = (rows, labels, whole.rounder(q), lines, wholes)
            times[name].append(1e3 * measure.seconds(lambda form=form, given=arguments: form(*given)))
    return {
        name: {"least_ms": min(found), "median_ms": median(found), "off": off[name]} for name, found in times.items()
    }


def main() -> None:
    """Measure, print a table, store it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--output", type=Path, default=_OUTPUT)
    options = parser.parse_args()
    console = Console()
    load = measure.load(console)
    table = Table("rows", "form", "least ms", "median ms", "largest error of a sum")
    results = {}
    for n_rows, n_columns, n_clusters in ((300_000, 3, 7), (100_000, 384, 100)):
        found = compare(n_rows, n_columns, n_clusters, options.repeats)
        results[f"{n_rows} x {n_columns}"] = found
        for name, line in found.items():
            numbers = (f"{line['least_ms']:.3f}", f"{line['median_ms']:.3f}", f"{line['off']:.1e}")
            table.add_row(f"{n_rows:,} x {n_columns}", name, *numbers)
    console.print(table)
    measure.store(options.output, {"load": load, "forms": results}, console)


if __name__ == "__main__":
    main()
