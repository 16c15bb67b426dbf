"""Sparse rows in slices of time, feature by feature: passes that never make the sums of all slices.

With many features a slice has few rows for each, and the T x K x D sums of all slices are mostly zeros: for 18,744
documents in 10 slices there are ten times as many sums as words. What chains of directions want of them is their inner
products; what rows want is the vectors at the features that they have. Both are found feature by feature, from the
rows and their shares. Features are cut into lanes by the data alone and lanes are added in order: one thread and many
give equal bits.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.fitting.workers import Workers
from armillary.kernels.contract import TABLE_UNIT, ChainSteps, Kernels, ListedShares, SliceColumns
from armillary.points import Block, SparseBlock, cut

if TYPE_CHECKING:
    from armillary.fitting.slices import SlicedPoints

_N_LANES = 16


class FeatureSlices:
    """Passes over sparse rows in T slices, by feature."""

    def __init__(self, sliced: SlicedPoints, kernels: Kernels, workers: Workers) -> None:
        self.sliced = sliced
        self.kernels = kernels
        self._workers = workers
        self._columns, self._slots = _by_feature(sliced)
        ends = self._columns.place_starts[self._columns.places]  # values before each feature
        inner = np.searchsorted(ends, np.arange(1, _N_LANES) * ends[-1] // _N_LANES)
        self._lanes = list(pairwise([0, *inner.tolist(), len(ends) - 1]))
        self._lent: Float64Array | None = None

    def listed(self, shares: Float64Array) -> ListedShares:
        """The shares (n, K) of rows that count, weighted."""
        return self.kernels.list_shares(shares, self.sliced.points.weights)

    def products(self, listed: ListedShares, n_clusters: int, direction: Float64Array) -> Float64Array:
        """Inner products (K, T + 1, T + 1) of the sums of each slice and, last, a direction (D,)."""
        n_slices = len(self.sliced)
        shape = (n_slices + 1, n_slices, _padded(n_clusters))

        def task(lane: int) -> Float64Array:
            part = np.zeros(shape)
            self.kernels.add_slice_products(self._columns, self._lanes[lane], listed, direction, part)
            return part

        total = np.zeros(shape)
        self._workers.run(task, _N_LANES, lambda part: np.add(total, part, out=total))
        products = np.zeros((n_clusters, n_slices + 1, n_slices + 1))
        products[:, :, :-1] = total[..., :n_clusters].transpose(2, 0, 1)
        lower = np.tril(products, -1)
        products += lower.swapaxes(1, 2)
        products[:, -1, -1] = direction @ direction
        return products

    def fill(self, listed: ListedShares, steps: ChainSteps) -> tuple[Float64Array, Float64Array]:
        """The table of vectors, which holds until the next is made, and the sum of those of the first slice (D,)."""
        shape = (len(self._columns.times), steps.scales.shape[1])
        if self._lent is None or self._lent.shape != shape:
            self._lent = np.empty(shape)
        table, total = self._lent, np.empty(self.sliced.points.n_features)
        self._workers.run(
            lambda lane: self.kernels.fill_slice_vectors(self._columns, self._lanes[lane], listed, steps, table, total),
            _N_LANES,
        )
        return table, total

    def share(self, table: Float64Array, offsets: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Responsibilities (n, K) of the rows in the order of time, and their log evidence (n,); offsets (T, K)."""
        points, edges = self.sliced.points, self.sliced.edges
        shares, log_evidence = np.empty((points.n_rows, offsets.shape[1])), np.empty(points.n_rows)

        def task(number: int) -> None:
            own = slice(int(edges[number]), int(edges[number + 1]))
            rows: Any = cut(self._slots, own.start, own.stop)
            self.kernels.share_by_table(rows, table, offsets[number], shares[own], log_evidence[own])

        self._workers.run(task, len(self.sliced))
        return shares, log_evidence

    def resultants(self, number: int, shares: Float64Array) -> Float64Array:
        """The sums (K, D) of the rows of one slice, given the shares of all rows (n, K)."""
        start, stop = (int(edge) for edge in self.sliced.edges[number : number + 2])
        points, n_clusters = self.sliced.points, shares.shape[1]
        total = np.zeros((n_clusters, points.n_features))
        rows, weights = points.block(start, stop), points.block_weights(start, stop)
        everyone = np.ones(n_clusters, dtype=np.bool_)
        self.kernels.add_shares(rows, weights, shares[start:stop], everyone, np.zeros(n_clusters), total)
        return total


def chain_steps(
    start: Float64Array, ahead: Float64Array, back: Float64Array, scales: Float64Array, first_slopes: Float64Array
) -> ChainSteps:
    """From what one step leaves, (T, K) each, what several do; all for as many clusters as tables have columns."""
    return ChainSteps(start, _left(ahead), _left(back), _widened(scales), first_slopes)


def _left(ratios: Float64Array) -> Float64Array:
    """(T, T, W): the products of the ratios (T, K) of slices s + 1 ... t, for s <= t."""
    ratios = _widened(ratios)
    left = np.ones((len(ratios), *ratios.shape))
    for time in range(1, len(ratios)):
        left[:time, time] = left[:time, time - 1] * ratios[time]
    return left


def _widened(values: Float64Array) -> Float64Array:
    """Values (T, K) with zeros for the columns of no meaning (T, W)."""
    wide = np.zeros((len(values), _padded(values.shape[1])))
    wide[:, : values.shape[1]] = values
    return wide


def _padded(n_clusters: int) -> int:
    return -(-n_clusters // TABLE_UNIT) * TABLE_UNIT


def _by_feature(sliced: SlicedPoints) -> tuple[SliceColumns, Block]:
    """The rows feature by feature, and the rows as they are with slots for indices."""
    csr = sliced.points.matrix
    n_features = sliced.points.n_features
    csc = csr.tocsc()
    order = type(csr)((np.arange(csr.nnz), csr.indices, csr.indptr), shape=csr.shape).tocsc().data
    numbers = np.repeat(np.arange(len(sliced)), sliced.sizes)
    features = np.repeat(np.arange(n_features), np.diff(csc.indptr))
    keys = features * len(sliced) + numbers[csc.indices]
    is_first = np.ones(len(keys), dtype=np.bool_)
    is_first[1:] = keys[1:] != keys[:-1]
    starts = np.flatnonzero(is_first)
    times = numbers[csc.indices[starts]]
    slots = np.empty(len(starts), dtype=np.int64)
    slots[np.argsort(times, kind="stable")] = np.arange(len(starts))
    places = np.concatenate([[0], np.cumsum(np.bincount(features[starts], minlength=n_features))])
    by_row = np.empty(csr.nnz, dtype=_index_type(len(starts)))
    by_row[order] = slots[np.cumsum(is_first) - 1]
    columns = SliceColumns(csc.data, csc.indices, np.append(starts, csr.nnz), times, places, slots)
    return columns, SparseBlock(csr.data, by_row, csr.indptr, len(starts))


def _index_type(size: int) -> npt.DTypeLike:
    return np.int32 if size < 2**31 else np.int64
