"""Communities of a graph of rows, and how far a labelling keeps linked rows together: modularity.

    Q = sum_c [ w_cc / W - resolution (w_c / W)^2 ]

w_cc is the weight of links within c, counted from both ends, w_c the weight of links from c, W that of all. At
resolution 1, Q is the share of links within communities beyond that of a graph with the same degrees and no
communities (Newman and Girvan 2004). A larger resolution asks for more communities (Reichardt and Bornholdt 2006).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.engines.graphs import kernel

Labels = npt.NDArray[np.int32]

# Rounds of moves at one level; they settle in about ten.
_MOST_SWEEPS = 50
# Orders of nodes that are tried. Of five graphs at three resolutions, one order misses the modularity of leidenalg by
# up to 0.004, and graspologic's Leiden (MIT) misses it by as much in several times the time.
_N_ORDERS = 3


def best_communities(weights: Any, resolution: float, generator: np.random.Generator) -> Labels:
    """The communities with the highest modularity at this resolution of several orders of the nodes."""
    tries = [find_communities(weights, resolution, generator) for _ in range(_N_ORDERS)]
    return max(tries, key=lambda labels: modularity(weights, labels, resolution))


def find_communities(weights: Any, resolution: float, generator: np.random.Generator) -> Labels:
    """Labels (n,), from 0, of communities with high modularity: Louvain's rule (Blondel and others 2008).

    Nodes move one by one to the neighbouring community that gains most, in a random order, until none gains; then
    communities become the nodes, and so on.
    """
    nodes = kernel()
    # nodes and their links as the arrays of a CSR matrix: SciPy's own take most of the time on small graphs
    graph = weights.indptr.astype(np.int64), weights.indices.astype(np.int64), weights.data.astype(np.float64)
    n_nodes, total = weights.shape[0], float(weights.sum())
    labels = np.arange(n_nodes, dtype=np.int32)
    price = resolution / total if total > 0.0 else 0.0
    while True:
        moved = np.arange(n_nodes, dtype=np.int32)
        order = generator.permutation(n_nodes)
        if not nodes.move_nodes(*graph, _degrees(graph[0], graph[2]), order, price, _MOST_SWEEPS, moved):
            return labels
        names, moved = np.unique(moved, return_inverse=True)
        labels = moved.astype(np.int32)[labels]
        graph = nodes.turned(*nodes.contracted(*nodes.turned(*graph, n_nodes), moved, len(names)), len(names))
        n_nodes = len(names)


def _degrees(indptr: npt.NDArray[np.int64], weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The weight of the links of each node (n,)."""
    degrees = np.zeros(len(indptr) - 1)
    has_links = np.flatnonzero(np.diff(indptr))
    if len(has_links):
        degrees[has_links] = np.add.reduceat(weights, indptr[has_links])
    return degrees


def modularity(links: Any, labels: Labels, resolution: float = 1.0) -> float:
    """Q of labels (n,), from 0."""
    degrees = np.asarray(links.sum(axis=1)).ravel()
    total = float(degrees.sum())
    if total == 0.0:
        return 0.0
    starts = np.repeat(labels, np.diff(links.indptr))
    within = float(links.data[starts == labels[links.indices]].sum())
    shares = np.bincount(labels, degrees) / total
    return within / total - resolution * float(shares @ shares)
