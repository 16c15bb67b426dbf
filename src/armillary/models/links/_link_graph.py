"""The sub-cluster graph of Links: a forest in growing arrays, and the blocks of vectors that it learns.

Thresholds are in `links.py`; the steps themselves, one vector after the other, in `kernels/links/forest.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.engines.links import (
    LINK_CALL,
    LINK_GROUP,
    LINK_NODE,
    Corrections,
    LinkForest,
    LinkLog,
    LinkRule,
    Tally,
    kernel,
)
from armillary.points import Block, Points, SparseBlock

Int64Array = npt.NDArray[np.int64]

_FIRST_ROOM = 64  # slots to begin with; doubled when they are full
# A product of a block of vectors with all centroids by BLAS pays where these no longer fit into the cache: measured
# at D = 256 from 2,000 nodes on (`benchmarks/links.py`).
_TABLE_VALUES = 1 << 19
_BLOCK_ROWS = 256
_BLOCK_VALUES = 1 << 20  # wide rows (CSR) are made dense a few at a time
_UNIT_ROUNDOFF = 2.0**-24
_NO_TABLE = np.empty((1, 1), np.float32)
_ANY_NORM = np.inf  # of vectors that the gate has seen
NOBODY = np.empty(0, np.int64)
_NO_EVENTS, _NO_JOINS = np.empty((0, 4), np.int64), np.empty((0, 2), np.int64)
# What the kernel takes arrays for that are made elsewhere.
_KINDS = dict.fromkeys((*Corrections._fields, "banned", "ids", "nodes_of_rows"), np.dtype(np.int64))
_SAVED_COUNTERS = slice(Tally.NODES, Tally.VECTORS + 1)
_TOLD = slice(Tally.EVENTS, Tally.JOINS + 1)
_SAVED_FIELDS = ("count", "number", "id", "parent", "is_pinned", "last_seen")


class Answers(NamedTuple):
    """What learning a set of vectors gave."""

    ids: Int64Array  # (n,) the cluster of each
    nodes: Int64Array  # (n,) the creation number of its sub-cluster; -1 for a vector of weight 0
    events: Int64Array  # (E, 4) see `LinkLog`
    joins: Int64Array  # (J, 2)


class SavedForest(NamedTuple):
    """The state of a graph: arrays with one entry for each sub-cluster, and counters."""

    sums: Float64Array  # (n, D)
    counts: Float64Array  # (n,)
    numbers: Int64Array  # (n,)
    ids: Int64Array  # (n,)
    parents: Int64Array  # (n,)
    is_pinned: npt.NDArray[np.bool_]  # (n,)
    last_seen: Int64Array  # (n,)
    next_number: int
    next_id: int
    n_vectors: int


class Ledger:
    """The newest lines of integers; a line is added in constant time, on the average."""

    def __init__(self, lines: Int64Array) -> None:
        self._lines = lines
        self._stop = len(lines)

    def add(self, fresh: Int64Array, most: int) -> Int64Array:
        """Add lines; the newest `most` of all. What was shown before stays as it is."""
        if self._stop + len(fresh) > len(self._lines):
            kept = self._lines[max(0, self._stop - most) : self._stop]
            self._stop = len(kept)
            self._lines = np.empty((2 * (len(kept) + len(fresh)), fresh.shape[1]), np.int64)
            self._lines[: self._stop] = kept
        self._lines[self._stop : self._stop + len(fresh)] = fresh
        self._stop += len(fresh)
        return self._lines[max(0, self._stop - most) : self._stop]

    def copy(self) -> Ledger:
        """A ledger of its own with the same lines."""
        return Ledger(self._lines[: self._stop])


def _kernels() -> Any:
    # numba is imported with the first vector, not with the model
    return kernel()


class _Room:
    """Memory for the tables of one call, block after block: new pages cost as much as the products.

    It belongs to the call and not to the graph, from which many threads may read at once.
    """

    def __init__(self) -> None:
        self._values = _NO_TABLE.ravel()

    def table(self, n_rows: int, n_columns: int) -> npt.NDArray[np.float32]:
        """An uninitialised table; the one given before is no longer valid."""
        size = n_rows * n_columns
        if self._values.size < size:
            self._values = np.empty(2 * size, np.float32)
        return self._values[:size].reshape(n_rows, n_columns)


class LinkGraph:
    """Sub-clusters as nodes, clusters as trees."""

    def __init__(self, n_features: int, room: int = _FIRST_ROOM, rule: LinkRule | None = None) -> None:
        self.rule = rule  # by which what is stored of each node was made
        self.history, self.joins = Ledger(_NO_EVENTS), Ledger(_NO_JOINS)
        # one vector at a time comes and is answered in memory of the graph's, for which the model's lock is held
        self._row, self._row32 = np.empty((1, n_features)), np.empty((1, n_features), np.float32)
        self._answer, self._cosine = np.empty(2, np.int64), np.empty(1)
        self._call = np.zeros(1, LINK_CALL)
        self._called_rule: LinkRule | None = None
        # f differs from the cosine by less than (D + 4) u for |x| < 1 + 2e-6; two of them are compared
        self._call["doubt"] = 2.0 * (n_features + 8) * _UNIT_ROUNDOFF
        self._work_in(_forest(room, n_features), _log(room))
        _give(self._call, n_rows=1, rows=self._row, rows32=self._row32, narrows=1, cosines=self._cosine)
        _give(self._call, ids=self._answer, nodes_of_rows=self._answer[1:])

    @classmethod
    def restored(cls, saved: SavedForest, history: Int64Array, joins: Int64Array, rule: LinkRule) -> Self:
        """The graph that `saved` was taken from."""
        graph = cls(saved.sums.shape[1], max(_FIRST_ROOM, len(saved.sums)), rule)
        graph.history, graph.joins = Ledger(history), Ledger(joins)
        graph.forest.sums[: len(saved.sums)] = saved.sums
        for field, values in zip(_SAVED_FIELDS, saved[1:7], strict=True):
            graph.forest.nodes[field][: len(saved.sums)] = values
        n_clusters = int(np.count_nonzero(saved.parents < 0))
        counters = len(saved.sums), n_clusters, saved.next_number, saved.next_id, saved.n_vectors
        graph.forest.tally[_SAVED_COUNTERS] = counters
        _kernels().settle_all(graph.forest, rule)
        return graph

    def saved(self) -> SavedForest:
        """Views of the state: they change with the next vector."""
        n_nodes, _, next_number, next_id, n_vectors = self.counters()
        fields = (self.forest.nodes[field][:n_nodes] for field in _SAVED_FIELDS)
        return SavedForest._make((self.forest.sums[:n_nodes], *fields, next_number, next_id, n_vectors))

    def counters(self) -> list[int]:
        """Sub-clusters, clusters, the next sub-cluster's number, the next id, vectors learned."""
        return self.forest.tally[_SAVED_COUNTERS].tolist()

    @property
    def n_nodes(self) -> int:
        """How many sub-clusters."""
        return int(self.forest.tally[Tally.NODES])

    @property
    def n_clusters(self) -> int:
        """How many trees."""
        return int(self.forest.tally[Tally.CLUSTERS])

    @property
    def n_features(self) -> int:
        """D."""
        return self.forest.sums.shape[1]

    def obey(self, rule: LinkRule) -> None:
        """Take thresholds that changed: what is stored by them is made anew."""
        self.forest.tally[Tally.EXPIRY] = 0
        _kernels().settle_all(self.forest, rule)
        self.rule = rule

    # -------------------------------------------------------------------------------------------------- vectors

    def learn(
        self, points: Points, rule: LinkRule, corrections: Corrections, tell: Callable[[int], None] | None = None
    ) -> Answers:
        """Learn vectors one after the other; `tell` hears how many have been learned."""
        ids, nodes = np.empty(points.n_rows, np.int64), np.empty(points.n_rows, np.int64)
        told: list[tuple[Int64Array, Int64Array]] = []
        room = _Room()
        for start, stop in row_blocks(points):
            rows = dense_rows(points.block(start, stop))
            weights = points.block_weights(start, stop)
            part = slice(start, stop)
            told += self._learn_block(rows, weights, rule, corrections, ids[part], nodes[part], room)
            if tell is not None:
                tell(stop)
        events, joins = zip(*told, strict=True)
        return Answers(ids, nodes, np.concatenate(events), np.concatenate(joins))

    def learn_row(
        self,
        row: FloatArray,
        weight: Float64Array | None,
        rule: LinkRule,
        corrections: Corrections,
        banned: Int64Array = NOBODY,
    ) -> Answers:
        """Learn one vector (1, D), which shares none of the `banned` clusters (B,)."""
        ids, nodes = np.empty(1, np.int64), np.empty(1, np.int64)
        ((events, joins),) = self._learn_block(row, weight, rule, corrections, ids, nodes, banned=banned)
        return Answers(ids, nodes, events, joins)

    def learn_unit(self, row: FloatArray, within: float, rule: LinkRule) -> Answers | None:
        """Learn one vector (D,) of weight 1, by a model that was never corrected.

        None, and nothing is learned, where it is not sure that its squared norm is 1 to within `within`.
        """
        self._reserve(1)
        if self._call_of_row(_kernels().learn, row, within, rule) != 1:
            return None
        answer = self._answer.copy()
        return Answers(answer[:1], answer[1:], *self.drained())

    def answer_unit(self, row: FloatArray, within: float, rule: LinkRule) -> int | None:
        """The id of one vector (D,) or -1; None where it is not sure that its squared norm is 1 to within `within`."""
        return int(self._answer[0]) if self._call_of_row(_kernels().predict, row, within, rule) == 1 else None

    def _call_of_row(self, kernel: Any, row: FloatArray, within: float, rule: LinkRule) -> int:
        """A call whose arrays stay where they are: 0.2 us, for 3 to tell numba of all of them."""
        if rule is not self._called_rule:
            _tell_rule(self._call, rule)
            self._called_rule = rule
        self._row[0] = row
        stopped: int = kernel(self._address, within)
        return stopped

    def _work_in(self, forest: LinkForest, log: LinkLog) -> None:
        """Take over arrays; calls are told where they lie."""
        self.forest, self._log = forest, log
        room, n_features = forest.sums.shape
        sizes = {"room": room, "n_features": n_features, "n_events": len(log.events), "n_joins": len(log.joins)}
        _give(self._call, **sizes, **forest._asdict(), **log._asdict())
        self._address = self._call.ctypes.data

    def _learn_block(
        self,
        rows: FloatArray,
        weights: Float64Array | None,
        rule: LinkRule,
        corrections: Corrections,
        ids: Int64Array,
        nodes: Int64Array,
        room: _Room | None = None,
        banned: Int64Array = NOBODY,
    ) -> list[tuple[Int64Array, Int64Array]]:
        self._reserve(len(rows))
        call, _held = self._call_of_block(rows, rule, room, n_spare=len(rows))
        _give(call, n_apart=len(corrections.apart), n_named=len(corrections.named), **corrections._asdict())
        _give(call, n_banned=len(banned), banned=banned, ids=ids, nodes_of_rows=nodes)
        if weights is not None:
            weights = np.ascontiguousarray(weights, np.float64)
            _give(call, n_weights=len(weights), weights=weights)
        if call["n_table"]:
            _kernels().forget_table(self.forest)
        told = []
        done = 0
        while done < len(rows):
            call["start"] = done
            done = _kernels().learn(call.ctypes.data, _ANY_NORM)
            told.append(self.drained())
        return told

    def _call_of_block(
        self, rows: FloatArray, rule: LinkRule, room: _Room | None, n_spare: int = 0
    ) -> tuple[npt.NDArray[np.void], tuple[Any, ...]]:
        """A call about rows (b, D), and what must be held on to until it is over."""
        rows, rows32 = np.ascontiguousarray(rows, np.float64), np.ascontiguousarray(rows, np.float32)
        table, n_table = self._table(rows32, room, n_spare)
        call = self._call.copy()
        _tell_rule(call, rule)
        _give(call, n_rows=len(rows), rows=rows, rows32=rows32, narrows=0)
        _give(call, n_table=n_table, n_columns=table.shape[1] if n_table else 0, table=table)
        return call, (rows, rows32, table)

    def predict(self, points: Points, rule: LinkRule) -> tuple[Int64Array, Int64Array, Float64Array]:
        """The id of each vector (n,) or -1, the slot of the nearest sub-cluster and their cosine. Changes nothing."""
        ids, slots = np.empty(points.n_rows, np.int64), np.empty(points.n_rows, np.int64)
        cosines = np.empty(points.n_rows)
        room = _Room()
        for start, stop in row_blocks(points):
            part = slice(start, stop)
            self._predict_block(
                dense_rows(points.block(start, stop)), rule, ids[part], slots[part], cosines[part], room
            )
        return ids, slots, cosines

    def ids_at(self, slots: Int64Array) -> Int64Array:
        """The clusters of sub-clusters in these slots (n,); -1 for none."""
        return np.where(slots >= 0, self.forest.nodes["id"][slots], -1)

    def predict_row(self, row: FloatArray, rule: LinkRule) -> tuple[int, int]:
        """The id of one vector (1, D) or -1, and the slot of the nearest sub-cluster."""
        self._call_of_row(_kernels().predict, row[0], _ANY_NORM, rule)
        cluster, slot = self._answer.tolist()
        return cluster, slot

    def _predict_block(
        self,
        rows: FloatArray,
        rule: LinkRule,
        ids: Int64Array,
        slots: Int64Array,
        cosines: Float64Array,
        room: _Room | None = None,
    ) -> None:
        call, _held = self._call_of_block(rows, rule, room)
        _give(call, ids=ids, nodes_of_rows=slots, cosines=cosines)
        _kernels().predict(call.ctypes.data, _ANY_NORM)

    def cosines(self, row: Float64Array) -> Float64Array:
        """The cosines (n,) of one vector (D,) with all sub-clusters."""
        out = np.empty(self.n_nodes)
        _kernels().exact_cosines(self.forest, row, out)
        return out

    def _table(
        self, rows32: npt.NDArray[np.float32], room: _Room | None, n_spare: int = 0
    ) -> tuple[npt.NDArray[np.float32], int]:
        """Products of a block with all centroids, where that pays, with `n_spare` columns more; how many nodes."""
        if len(rows32) == 1:
            return _NO_TABLE, 0
        n_nodes = self.n_nodes
        if self.n_features * n_nodes < _TABLE_VALUES:
            return _NO_TABLE, 0
        table = (room or _Room()).table(len(rows32), n_nodes + n_spare)
        np.matmul(rows32, self.forest.centroids[:n_nodes].T, out=table[:, :n_nodes])
        return table, n_nodes

    def _reserve(self, n_rows: int) -> None:
        """Room for as many new nodes, and for what may be told."""
        room = len(self.forest.nodes)
        if self.n_nodes + n_rows <= room:
            return
        self._move(_forest(max(self.n_nodes + n_rows, 2 * room), self.forest.sums.shape[1]))

    def _move(self, grown: LinkForest) -> None:
        """Take over arrays with at least as much room."""
        pairs: Iterator[tuple[Any, Any]] = zip(grown, self.forest, strict=True)
        for new, old in pairs:
            if new.shape[1:] == old.shape[1:]:  # not where it is room to work in
                new[: len(old)] = old
        self._work_in(grown, _log(len(grown.nodes)))

    def copy(self) -> LinkGraph:
        """A graph of its own with the same state."""
        twin = LinkGraph(self.n_features, 1, self.rule)
        twin.forest = self.forest
        twin._move(_forest(len(self.forest.nodes), self.forest.sums.shape[1]))
        twin.history, twin.joins = self.history.copy(), self.joins.copy()
        return twin

    def drained(self) -> tuple[Int64Array, Int64Array]:
        """Take what was told out of the log: events (E, 4) and joins (J, 2)."""
        tally = self.forest.tally
        n_events, n_joins = tally[_TOLD].tolist()
        if not n_events and not n_joins:
            return _NO_EVENTS, _NO_JOINS
        tally[_TOLD] = 0
        return self._log.events[:n_events].copy(), self._log.joins[:n_joins].copy()

    # ---------------------------------------------------------------------------------------------- corrections

    def link(self, slot: int, other: int, rule: LinkRule, corrections: Corrections) -> None:
        """Link the clusters of two nodes for good."""
        self._reserve(1)
        _kernels().link_pinned(self.forest, rule, slot, other, corrections, self._log)

    def best_pair(self, one: int, other: int, rule: LinkRule) -> tuple[int, int]:
        """The slots of the nodes of two clusters whose cosine exceeds its threshold most, or misses it least."""
        best, slots = -np.inf, (-1, -1)
        for slot in np.flatnonzero(self.forest.nodes["id"][: self.n_nodes] == one):
            partner, margin = _kernels().best_pair(self.forest, rule, slot, other)
            if margin > best:
                best, slots = margin, (int(slot), int(partner))
        return slots

    def cut(self, slot: int, other: int, rule: LinkRule) -> bool:
        """Cut the weakest edge between two nodes of a cluster; False where the user linked all of them."""
        self._reserve(1)
        return bool(_kernels().cut_between(self.forest, rule, slot, other, self._log))


def _forest(room: int, n_features: int) -> LinkForest:
    def integers(*shape: int) -> Int64Array:
        return np.zeros(shape, np.int64)

    return LinkForest(
        sums=np.empty((room, n_features)),
        nodes=np.zeros(room, LINK_NODE),
        centroids=_aligned(room, n_features),
        fresh=integers(room),
        scores=np.zeros((LINK_GROUP + 1, room), np.float32),
        scratch=integers(3, room),
        tally=integers(len(Tally)),
    )


def _give(call: npt.NDArray[np.void], **values: Any) -> None:
    """Write into a call: numbers, and where arrays lie; nothing behind an address says how they lie there."""
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            assert value.flags.c_contiguous, name
            assert value.dtype == _KINDS.get(name, value.dtype), name
            value = value.ctypes.data
        call[name] = value


def _tell_rule(call: npt.NDArray[np.void], rule: LinkRule) -> None:
    _give(call, **rule._asdict())


def _log(room: int) -> LinkLog:
    # one vector can tell 6 n + 8 things at most; the rest saves returns from the kernel
    return LinkLog(np.empty((7 * room + 64, 4), np.int64), np.empty((2 * room, 2), np.int64))


def _aligned(n_rows: int, n_columns: int) -> npt.NDArray[np.float32]:
    """Uninitialised, beginning at a cache line."""
    values = np.empty(n_rows * n_columns + 16, np.float32)
    start = (-values.ctypes.data % 64) // 4
    return values[start : start + n_rows * n_columns].reshape(n_rows, n_columns)


def block_rows(n_features: int) -> int:
    """How many rows of this width are learned in one call of the kernel."""
    return max(1, min(_BLOCK_ROWS, _BLOCK_VALUES // n_features))


def row_blocks(points: Points) -> list[tuple[int, int]]:
    """The ranges of rows that are learned in one call of the kernel, which nothing interrupts."""
    n_rows = block_rows(points.n_features)
    return [(start, min(start + n_rows, points.n_rows)) for start in range(0, points.n_rows, n_rows)]


def dense_rows(rows: Block) -> FloatArray:
    """A block as it is, or a sparse one with its zeros."""
    if not isinstance(rows, SparseBlock):
        return rows
    lengths = np.diff(rows.indptr)
    part = slice(rows.indptr[0], rows.indptr[-1])
    dense = np.zeros((len(lengths), rows.n_features), rows.data.dtype)
    dense[np.repeat(np.arange(len(lengths)), lengths), rows.indices[part]] = rows.data[part]
    return dense
