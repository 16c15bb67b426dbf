"""Sparse rows in slices of time on the CPU, feature by feature: passes that never make the sums of all slices.

With many features a slice has few rows for each, and the T x K x D sums of all slices are mostly zeros: for 18,744
documents in 10 slices there are ten times as many sums as words. What chains of directions want of them is their inner
products; what rows want is the vectors at the features that they have. Both are found feature by feature, from the
rows and their shares. Features are cut into lanes by the data alone and lanes are added in order: one thread and many
give equal bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array
from armillary.engines.contract import SliceMessages
from armillary.kernels.rows.contract import NO_SHARE, TABLE_UNIT, ChainSteps, ListedShares, SliceColumns
from armillary.points import Block, Points, SparseBlock, cut
from armillary.rules import AffineRule

if TYPE_CHECKING:
    from armillary.engines.cpu import Passes

_N_LANES = 16


@dataclass(frozen=True, eq=False)
class CpuShared:
    """Rows shared by clusters; see `engines/contract.py`."""

    shares: Float64Array  # (n, K) of the rows in the order of time
    listed: ListedShares  # those that count, weighted
    counts: Float64Array  # (T, K)
    products: Float64Array  # (T, K)
    evidence: float


class CpuFeatures:
    """Passes over sparse rows in T slices, by feature; see `engines/contract.py`."""

    def __init__(self, passes: Passes, edges: npt.NDArray[np.int64]) -> None:
        self._passes = passes
        self._points = passes.points
        self._edges = edges  # (T + 1,)
        self.kernels = passes.kernels
        self._columns, self._slots = _by_feature(passes.points, edges)
        ends = self._columns.place_starts[self._columns.places]  # values before each feature
        inner = np.searchsorted(ends, np.arange(1, _N_LANES) * ends[-1] // _N_LANES)
        self._lanes = list(pairwise([0, *inner.tolist(), len(ends) - 1]))
        self._lent: Float64Array | None = None

    # --------------------------------------------------------------------------------------------- shares

    def share_by(self, rule: AffineRule) -> CpuShared:
        """Share the rows of all slices by one rule."""
        table, log_evidence = self._passes.responsibilities(rule)
        offsets = np.broadcast_to(rule.offsets, (self._n_slices, len(rule.offsets)))
        return self._shared(np.asarray(table, dtype=np.float64), log_evidence, offsets)

    def share(self, table: Float64Array, offsets: Float64Array) -> CpuShared:
        """Share rows by the vectors of their slices, a table that `fill` made, and offsets (T, K)."""
        return self._shared(*self.shares(table, offsets), offsets)

    def shares(self, table: Float64Array, offsets: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Responsibilities (n, K) of the rows in the order of time, and their log evidence (n,); offsets (T, K)."""
        n_rows = self._points.n_rows
        shares, log_evidence = np.empty((n_rows, offsets.shape[1])), np.empty(n_rows)

        def task(number: int) -> None:
            own = slice(int(self._edges[number]), int(self._edges[number + 1]))
            rows: Any = cut(self._slots, own.start, own.stop)
            self.kernels.share_by_table(rows, table, offsets[number], shares[own], log_evidence[own])

        self._passes.run(task, self._n_slices)
        return shares, log_evidence

    def _shared(self, shares: Float64Array, log_evidence: Float64Array, offsets: Float64Array) -> CpuShared:
        """A score is log share + log evidence: what rows sum to needs no scores."""
        listed = self.listed(shares)
        rows = np.repeat(np.arange(len(shares)), np.diff(listed.starts))
        places = self._slices_of_rows()[rows] * offsets.shape[1] + listed.clusters

        def by_slice(values: npt.NDArray[np.float64]) -> Float64Array:
            sums = np.bincount(places, weights=values, minlength=offsets.size)
            return np.asarray(sums, dtype=np.float64).reshape(offsets.shape)

        counts = by_slice(listed.parts)
        scores = by_slice(listed.parts * (np.log(shares[rows, listed.clusters]) + log_evidence[rows]))
        weights = self._points.weights
        evidence = float(log_evidence.sum() if weights is None else weights @ log_evidence)
        known = np.where(counts > 0.0, offsets, 0.0)  # an offset of -inf times no rows is nothing
        return CpuShared(shares, listed, counts, scores - counts * known, evidence)

    def listed(self, shares: Float64Array) -> ListedShares:
        """The shares (n, K) of rows that count, weighted."""
        return self.kernels.list_shares(shares, self._points.weights)

    def squares_moved(self, after: CpuShared, before: CpuShared) -> Float64Array:
        """|R - R before|^2 (T, K) of the sums of each slice, from the change of the shares."""
        points = self._points
        change = after.shares - before.shares
        rows, clusters = np.nonzero(np.abs(change) > NO_SHARE)
        parts = change[rows, clusters] * (1.0 if points.weights is None else points.weights[rows])
        starts = np.searchsorted(rows, np.arange(points.n_rows + 1))
        listed = ListedShares(starts, clusters.astype(np.int32), parts)
        products = self.listed_products(listed, change.shape[1], np.zeros(points.n_features))
        return np.asarray(np.diagonal(products, axis1=1, axis2=2)[:, :-1].T)

    # ----------------------------------------------------------------------------------------------- sums

    def products(self, shared: CpuShared, direction: Float64Array) -> Float64Array:
        """Inner products (K, T + 1, T + 1) of the sums of each slice and, last, a direction (D,)."""
        return self.listed_products(shared.listed, shared.counts.shape[1], direction)

    def listed_products(self, listed: ListedShares, n_clusters: int, direction: Float64Array) -> Float64Array:
        """`products` of shares that are listed."""
        n_slices = self._n_slices
        shape = (n_slices + 1, n_slices, _padded(n_clusters))

        def task(lane: int) -> Float64Array:
            part = np.zeros(shape)
            self.kernels.add_slice_products(self._columns, self._lanes[lane], listed, direction, part)
            return part

        total = np.zeros(shape)
        self._passes.run(task, _N_LANES, lambda part: np.add(total, part, out=total))
        products = np.zeros((n_clusters, n_slices + 1, n_slices + 1))
        products[:, :, :-1] = total[..., :n_clusters].transpose(2, 0, 1)
        lower = np.tril(products, -1)
        products += lower.swapaxes(1, 2)
        products[:, -1, -1] = direction @ direction
        return products

    def fill(self, shared: CpuShared, messages: SliceMessages) -> tuple[Float64Array, Float64Array]:
        """The table of vectors, which holds until the next is made, and the sum of those of the first slice (D,)."""
        listed = shared.listed
        scaled = listed._replace(parts=messages.concentrations[listed.clusters] * listed.parts)
        return self.listed_fill(scaled, chain_steps(*messages[1:]))

    def listed_fill(self, listed: ListedShares, steps: ChainSteps) -> tuple[Float64Array, Float64Array]:
        """`fill` from shares that are listed and scaled."""
        shape = (len(self._columns.times), steps.scales.shape[1])
        if self._lent is None or self._lent.shape != shape:
            self._lent = np.empty(shape)
        table, total = self._lent, np.empty(self._points.n_features)
        self._passes.run(
            lambda lane: self.kernels.fill_slice_vectors(self._columns, self._lanes[lane], listed, steps, table, total),
            _N_LANES,
        )
        return table, total

    def resultants(self, number: int, shared: CpuShared) -> Float64Array:
        """The sums (K, D) of the rows of one slice."""
        start, stop = (int(edge) for edge in self._edges[number : number + 2])
        points, n_clusters = self._points, shared.counts.shape[1]
        total = np.zeros((n_clusters, points.n_features))
        rows, weights = points.block(start, stop), points.block_weights(start, stop)
        everyone = np.ones(n_clusters, dtype=np.bool_)
        self.kernels.add_shares(rows, weights, shared.shares[start:stop], everyone, np.zeros(n_clusters), total)
        return total

    @property
    def _n_slices(self) -> int:
        return len(self._edges) - 1

    def _slices_of_rows(self) -> npt.NDArray[np.int64]:
        return np.repeat(np.arange(self._n_slices), np.diff(self._edges))


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


def _by_feature(points: Points, edges: npt.NDArray[np.int64]) -> tuple[SliceColumns, Block]:
    """The rows feature by feature, and the rows as they are with slots for indices."""
    csr, n_features, n_slices = points.matrix, points.n_features, len(edges) - 1
    csc = csr.tocsc()
    order = type(csr)((np.arange(csr.nnz), csr.indices, csr.indptr), shape=csr.shape).tocsc().data
    numbers = np.repeat(np.arange(n_slices), np.diff(edges))
    features = np.repeat(np.arange(n_features), np.diff(csc.indptr))
    keys = features * n_slices + numbers[csc.indices]
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
