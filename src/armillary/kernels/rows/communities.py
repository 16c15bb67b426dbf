"""Communities of a graph: nodes that move, one after the other, to the neighbouring community that gains most.

No array here has rows of data: a graph is the three arrays of a CSR matrix. A plain form is in
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
