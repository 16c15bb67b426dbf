"""Rows without clusters that are otherwise like given ones: what is found in them is chance.

Sparse rows   the values of each column are dealt out anew among the rows: words are as frequent and weigh as much as
              before, and say nothing about each other
Dense rows    turned at random: each new row is a random mixture of the given ones, with their mean and covariance, so
              that long and flat clouds stay long and flat
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary.points import Points, as_float64, as_present_points

# Rows that a new one is mixed from: their covariance stands for that of all.
_MOST_MIXED = 2_000
_BLOCK_ROWS = 1_000


def rows_without_clusters(points: Points, generator: np.random.Generator) -> Points:
    """As many rows as given, drawn from their null, less those that came out empty."""
    rows = as_float64(points.gather(np.arange(points.n_rows)))
    drawn = dealt_out(rows, generator) if points.is_sparse else turned(rows, generator)
    present = as_present_points(drawn.astype(points.dtype), points.who)
    return Points(present.matrix, present.dtype, None, present.is_unit, present.who, engine=points.engine)


def dealt_out(rows: Any, generator: np.random.Generator) -> Any:
    """Sparse rows (n, D): the values of each column in other rows."""
    columns = rows.tocsc(copy=True)
    for start, stop in zip(columns.indptr[:-1], columns.indptr[1:], strict=True):
        columns.indices[start:stop] = generator.choice(rows.shape[0], stop - start, replace=False)
    columns.has_sorted_indices = False
    return sp.csr_array(columns.tocsr())


def turned(rows: npt.NDArray[np.float64], generator: np.random.Generator) -> npt.NDArray[np.float64]:
    """Dense rows (n, D): mixtures of the given ones with normal weights."""
    mean = rows.mean(axis=0)
    n_mixed = min(len(rows), _MOST_MIXED)
    chosen = rows[np.sort(generator.choice(len(rows), n_mixed, replace=False))] - mean
    drawn = np.empty_like(rows)
    for first in range(0, len(rows), _BLOCK_ROWS):
        part = drawn[first : first + _BLOCK_ROWS]
        part[:] = mean + generator.standard_normal((len(part), n_mixed)) @ chosen / np.sqrt(n_mixed)
    return drawn
