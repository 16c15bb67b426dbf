"""Which rows lie nearest to which: exact lists by cosine, and the graph of rows that share neighbours.

Lists of all rows cost O(n^2 D) time, so they are for a sample; memory is a block of cosines. The lists of a subset of
the rows are had from those of all by leaving rows out, without another product, as long as enough are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary._typing import FloatArray
from armillary.engines.contract import Here, Passes
from armillary.points import even_ranges
from armillary.rules import AffineRule

# Values in one scratch array, 32 MiB of float64: the directions of a block of rows, or their cosines with all rows.
_BLOCK_VALUES = 1 << 22
_MOST_DIRECTIONS = 1024

Lists = npt.NDArray[np.int32]


def nearest_rows(passes: Passes, n_nearest: int) -> Lists:
    """The `n_nearest` rows nearest to each by cosine, without itself, the nearest first: (n, n_nearest)."""
    points = passes.points
    nearest = np.empty((points.n_rows, n_nearest), dtype=np.int32)
    step = max(1, min(_MOST_DIRECTIONS, _BLOCK_VALUES // max(points.n_rows, points.n_features)))
    for first, last in even_ranges(points.n_rows, -(-points.n_rows // step)):
        nearest[first:last] = _largest(_cosines(passes, first, last), n_nearest)
    return nearest


def _cosines(passes: Passes, first: int, last: int) -> FloatArray:
    """Cosines of rows first..last with all rows (last - first, n); minus infinity with themselves."""
    table = passes.fold(AffineRule.cosines(passes.unit_rows(np.arange(first, last))), _Columns())
    np.fill_diagonal(table[:, first:last], -np.inf)
    return table


@dataclass(frozen=True)
class _Columns:
    """The scores of all rows, a column for each: for a sample of rows."""

    is_exact: ClassVar[bool] = False

    def part(self, scores: FloatArray, here: Here) -> FloatArray:
        return np.ascontiguousarray(scores.T)

    def join(self, parts: Sequence[FloatArray]) -> FloatArray:
        return np.concatenate(parts, axis=1)


def _largest(table: FloatArray, n_largest: int) -> Lists:
    """The columns of the largest values of each row, the largest first, equals by number."""
    columns = np.argpartition(table, -n_largest, axis=1)[:, -n_largest:]
    columns.sort(axis=1)
    order = np.argsort(-np.take_along_axis(table, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1).astype(np.int32)


def lists_within(lists: Lists, rows: npt.NDArray[np.int64]) -> Lists:
    """The lists of some rows among themselves, numbered by their place in `rows`; -1 where a row is left out."""
    places = np.full(len(lists), -1, dtype=np.int32)
    places[rows] = np.arange(len(rows), dtype=np.int32)
    return places[lists[rows]]


@dataclass(frozen=True, eq=False)
class NeighbourGraph:
    """Rows linked where one is among the nearest of the other: two symmetric CSR matrices (n, n) with equal links."""

    links: Any  # 1 for every link
    weights: Any  # the share of neighbours that two linked rows have in common


def neighbour_graph(lists: Lists, n_neighbours: int) -> NeighbourGraph:
    """The graph of the first `n_neighbours` rows of each list, or of as many as it has.

    A link weighs |A and B| / |A or B| for the neighbours A and B of its two rows, each with the row itself. In many
    dimensions some rows are near to everything; links to them have little in common and weigh little.
    """
    n_rows = len(lists)
    is_there = lists >= 0
    is_used = is_there & (np.cumsum(is_there, axis=1) <= n_neighbours)
    starts = np.repeat(np.arange(n_rows), is_used.sum(axis=1))
    ones = np.ones(len(starts))
    nearest = sp.csr_array((ones, (starts, lists[is_used])), shape=(n_rows, n_rows))
    links = nearest.maximum(nearest.T).tocsr()
    with_self = (nearest + sp.eye_array(n_rows, format="csr")).tocsr()
    common = links.multiply(with_self @ with_self.T).tocoo()
    sizes = np.diff(with_self.indptr)
    shares = common.data / (sizes[common.row] + sizes[common.col] - common.data)
    weights = sp.csr_array((shares, (common.row, common.col)), shape=(n_rows, n_rows))
    return NeighbourGraph(links, weights)
