"""Communities of a graph: nodes that move, one after the other, to the neighbouring community that gains most.

No array here has rows of data: a graph is the three arrays of a CSR matrix. Plain forms are in
`tests/unit/test_communities.py`.
"""

from __future__ import annotations

import numpy as np

from armillary.kernels.jit import kernel

# A gain below this is rounding: nodes must not go back and forth for it.
_NO_GAIN = 1e-12


@kernel
def move_nodes(indptr, indices, weights, degrees, order, price, most_sweeps, labels):
    """Move nodes until none gains; `labels` (n,) are changed in place. Returns whether any moved.

    Node i gains in community c the weight of its links into c, less price * degrees[i] * (degrees of c without i).
    Nodes are visited in `order`, at most `most_sweeps` times each; ties stay, or go to the neighbour listed first.
    """
    n_nodes = degrees.shape[0]
    totals = np.zeros(n_nodes)  # of the degrees in each community
    for i in range(n_nodes):
        totals[labels[i]] += degrees[i]
    linked = np.zeros(n_nodes)  # weight of the links from the present node into each community
    is_met = np.zeros(n_nodes, np.bool_)
    met = np.empty(n_nodes, np.int64)
    has_moved = False
    for _ in range(most_sweeps):
        n_moved = 0
        for i in order:
            own = labels[i]
            n_met = 0
            for place in range(indptr[i], indptr[i + 1]):
                j = indices[place]
                if j != i:
                    community = labels[j]
                    if not is_met[community]:
                        is_met[community] = True
                        met[n_met] = community
                        n_met += 1
                    linked[community] += weights[place]
            totals[own] -= degrees[i]
            best = own
            best_gain = linked[own] - price * degrees[i] * totals[own]
            for number in range(n_met):
                community = met[number]
                gain = linked[community] - price * degrees[i] * totals[community]
                if gain > best_gain + _NO_GAIN:
                    best = community
                    best_gain = gain
            for number in range(n_met):
                linked[met[number]] = 0.0
                is_met[met[number]] = False
            totals[best] += degrees[i]
            if best != own:
                labels[i] = best
                n_moved += 1
        if n_moved == 0:
            break
        has_moved = True
    return has_moved


@kernel
def turned(indptr, indices, weights, n_columns):
    """The three arrays of the transposed matrix, its indices increasing in each row."""
    starts = np.zeros(n_columns + 1, np.int64)
    for j in indices:
        starts[j + 1] += 1
    for j in range(n_columns):
        starts[j + 1] += starts[j]
    places = starts[:n_columns].copy()
    rows = np.empty(indices.shape[0], np.int64)
    values = np.empty(indices.shape[0])
    for i in range(indptr.shape[0] - 1):
        for place in range(indptr[i], indptr[i + 1]):
            there = places[indices[place]]
            places[indices[place]] += 1
            rows[there] = i
            values[there] = weights[place]
    return starts, rows, values


@kernel
def contracted(indptr, indices, weights, names, n_names):
    """The graph of communities: the weights of all links between each two, as the three arrays of its columns.

    The graph is given by columns too, nodes increasing in each; `names` (n,) are the communities of the nodes. Weights
    are added node by node, each node's links first.
    """
    n_nodes = names.shape[0]
    edges = np.zeros(n_names + 1, np.int64)
    for i in range(n_nodes):
        edges[names[i] + 1] += 1
    for c in range(n_names):
        edges[c + 1] += edges[c]
    places = edges[:n_names].copy()
    members = np.empty(n_nodes, np.int64)
    for i in range(n_nodes):
        members[places[names[i]]] = i
        places[names[i]] += 1
    starts = np.zeros(n_names + 1, np.int64)
    rows = np.empty(indices.shape[0], np.int64)
    values = np.empty(indices.shape[0])
    sums, own = np.zeros(n_names), np.zeros(n_names)
    met, met_here = np.empty(n_names, np.int64), np.empty(n_names, np.int64)
    is_met, is_met_here = np.zeros(n_names, np.bool_), np.zeros(n_names, np.bool_)
    n_written = 0
    for c in range(n_names):
        n_met = 0
        for number in range(edges[c], edges[c + 1]):
            j = members[number]
            n_here = 0
            for place in range(indptr[j], indptr[j + 1]):
                other = names[indices[place]]
                if not is_met_here[other]:
                    is_met_here[other] = True
                    met_here[n_here] = other
                    n_here += 1
                own[other] += weights[place]
            for here in range(n_here):
                other = met_here[here]
                if not is_met[other]:
                    is_met[other] = True
                    met[n_met] = other
                    n_met += 1
                sums[other] += own[other]
                own[other] = 0.0
                is_met_here[other] = False
        for number in range(n_met):
            other = met[number]
            rows[n_written] = other
            values[n_written] = sums[other]
            n_written += 1
            sums[other] = 0.0
            is_met[other] = False
        starts[c + 1] = n_written
    return starts, rows[:n_written].copy(), values[:n_written].copy()
