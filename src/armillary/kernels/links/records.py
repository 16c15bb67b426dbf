"""What `Links` and its kernel say to each other: thresholds, the forest of sub-clusters, and what happened to it.

Here, and not in `forest.py`, so that models and files can name them without the compiler.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array


class Fate(IntEnum):
    """What can happen to a cluster of Links, as `history_` writes it."""

    BIRTH = 1
    SPLIT = 2  # an id for a part of a cluster; the other number is the id of the cluster it was a part of
    MERGE = 3  # an id that is no more; the other number is the id that its cluster goes by
    DEATH = 4  # forgotten


class Tally(IntEnum):
    """The counters of Links: places in `LinkForest.tally`. The first five are saved."""

    NODES = 0  # sub-clusters
    CLUSTERS = 1
    NEXT_NODE = 2  # the number of the next sub-cluster
    NEXT_ID = 3  # the id of the next cluster
    VECTORS = 4  # that were learned
    EVENTS = 5  # in the log
    JOINS = 6  # in the log
    EXPIRY = 7  # the vector with which the next cluster may have to be forgotten
    FRESH = 8  # slots that changed since products were made ahead


class LinkRule(NamedTuple):
    """Thresholds and limits of Links: s~(k, k') = base + slope g(k) g(k'), g(k) = 1/sqrt(1 + spread/k)."""

    joining: float  # T_s
    base: float  # T_c^2 (1 - rho)
    slope: float  # rho
    spread: float  # t
    max_nodes: int  # 0: as many as there are vectors
    max_idle: int  # vectors without it after which a cluster is forgotten; 0: never
    merges_clusters: int  # 0: never; 1: by an edge between sub-clusters; 2: by whole clusters; 3: lone vectors too
    slack: float  # by how much whole clusters may miss their threshold


# Rows of Links whose products are made together.
LINK_GROUP = 8

# One sub-cluster of Links. The first six fields and its sum are its state; the others follow from them.
LINK_NODE = np.dtype(
    [
        ("count", np.float64),  # k
        ("number", np.int64),  # creation number
        ("id", np.int64),  # of the cluster
        ("parent", np.int64),  # slot at the other end of an edge; -1: none
        ("last_seen", np.int64),  # number of the last vector that came to the node, counted from 1
        ("is_pinned", np.bool_),  # whether the edge to the parent stands whatever its cosine
        ("is_fresh", np.bool_),  # whether the slot changed since products were made ahead
        ("norm", np.float64),  # |v|
        ("gain", np.float64),  # g(k)
        ("child", np.int64),  # the first child; children of a node are a doubly linked list
        ("next", np.int64),
        ("previous", np.int64),
    ],
    align=True,
)


class LinkForest(NamedTuple):
    """Sub-clusters of Links and their edges, with room for C of them; the first `tally[Tally.NODES]` slots are filled.

    Each tree is a cluster.
    """

    sums: Float64Array  # (C, D) v
    nodes: npt.NDArray[np.void]  # (C,) of `LINK_NODE`
    centroids: npt.NDArray[np.float32]  # (C, D) of the filter
    fresh: npt.NDArray[np.int64]  # (C,) slots that changed since products were made ahead
    scores: npt.NDArray[np.float32]  # (`LINK_GROUP` + 1, C) of rows ahead, and of one node
    scratch: npt.NDArray[np.int64]  # (3, C)
    tally: npt.NDArray[np.int64]  # (9,) see `Tally`


class LinkLog(NamedTuple):
    """What happened while vectors were learned; how much of it is filled says `LinkForest.tally`."""

    events: npt.NDArray[np.int64]  # (., 4) number of the vector, `Fate`, id, other id or -1
    joins: npt.NDArray[np.int64]  # (., 2) number of a node that was merged, and of the older one that holds it now


class Corrections(NamedTuple):
    """What the user said of clusters; renamed where clusters merge."""

    apart: npt.NDArray[np.int64]  # (P, 2) ids that stay apart
    named: npt.NDArray[np.int64]  # (L,) ids with a name
    names: npt.NDArray[np.int64]  # (L,) numbers of these names: clusters with different ones stay apart


# All that a call of a kernel needs, to be found at one address: numba opens the arrays that it is given one by one, and
# nineteen of them take it longer than a vector. Arrays are addresses here; where none are needed, their lengths are 0.
LINK_CALL = np.dtype(
    [
        *((name, np.int64) for name in ("room", "n_features", *LinkForest._fields)),
        *((name, np.int64) for name in ("n_events", "n_joins", *LinkLog._fields)),
        *((name, np.float64) for name in ("joining", "base", "slope", "spread", "slack")),
        *((name, np.int64) for name in ("max_nodes", "max_idle", "merges_clusters")),
        # vectors (b, D), in float64 and in float32, and where to begin; whether the second is room for the first
        *((name, np.int64) for name in ("start", "n_rows", "rows", "rows32", "narrows")),
        # (b,), or none where all are 1
        *((name, np.int64) for name in ("n_weights", "weights")),
        # (b, `n_columns`) products of all of them with the first `n_table` nodes, or none
        *((name, np.int64) for name in ("n_table", "n_columns", "table")),
        # what the user said: (P, 2), (L,) and (L,); clusters that get none of these vectors
        *((name, np.int64) for name in ("n_apart", "n_named", *Corrections._fields, "n_banned", "banned")),
        # the answers (b,): clusters; numbers of nodes, or their slots; and cosines with these
        *((name, np.int64) for name in ("ids", "nodes_of_rows", "cosines")),
        ("doubt", np.float32),  # twice the most that a product is off
    ],
    align=True,
)
