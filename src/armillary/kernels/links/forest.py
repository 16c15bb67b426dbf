"""Links, one vector after the other: sub-clusters in a forest, whose trees are the clusters (links.md, 2 to 4).

A node is a sub-cluster. Nodes lie in slots 0..n-1 of arrays with room for more; a node that goes leaves its slot to the
last one. The forest is rooted: an edge is a node's link to its parent, so a node's children and its parent are all its
neighbours, and nothing but the links has to be kept with a node that moves.

**Scores.** The cosine of a vector with a node is (v . x) / |v|, of two nodes (v . w) / (|v| |w|), in float64 with
products added in column order. Decisions are made by these. A float32 product finds the few nodes that can be the
nearest: all within `doubt` of the best of them are scored.

**Products ahead.** Float32 products of the next few vectors with all nodes are made together, or come from BLAS as a
table for a block of them. Nodes that changed since, or moved, are `fresh`: their products are made anew for the row at
hand. Few are, and centroids are fetched once for many vectors.
"""

from __future__ import annotations

import math

import numpy as np

from armillary.kernels.jit import FILTER, kernel
from armillary.kernels.links.addresses import array_at
from armillary.kernels.links.records import (
    LINK_CALL,
    LINK_GROUP,
    LINK_NODE,
    Corrections,
    Fate,
    LinkForest,
    LinkLog,
    LinkRule,
    Tally,
)
from armillary.kernels.rows.norms import square

_BIRTH, _SPLIT, _MERGE, _DEATH = (int(fate) for fate in Fate)
_N_NODES, _N_CLUSTERS, _NEXT_NODE, _NEXT_ID, _N_VECTORS = (int(place) for place in list(Tally)[:5])
_N_EVENTS, _N_JOINS, _EXPIRY, _N_FRESH = (int(place) for place in list(Tally)[5:])
_N_COUNTERS = len(Tally)
# Products whose largest is looked at before each of them: a maximum takes a sixteenth of the time of as many branches.
_STRIDE = 128
# Of two whole clusters that merge one weighs as much: sums of fewer vectors join strangers, those of more come too late
# for persons seen seldom. Of 8, 16 and 40, and of looking at new clusters too, this kept accuracy on voices and faces.
_EVIDENCE = 16.0
# A lone vector waits for others of its kind for so many vectors for each cluster there is, less where one cluster leads
# by more; it may miss a threshold by this, and some lead there must be: shares of 1 - T_c^2. Chosen on halves of faces.
_WAIT, _LEAD, _LEAST_LEAD, _LONE_SLACK, _HOST = 10.0, 0.1, 0.05, 0.5, 8.0
_FEW = 32  # clusters, and as many at least are counted: where there are few, one leads by chance
_FIRST_LOOK, _MOST_LOOKED = 64, 256  # the vector from which on lone ones are looked at, and how many at a time


# --------------------------------------------------------------------------------------------------------- scores


@kernel
def _dot(one, other):
    """In column order: the arbiter."""
    total = 0.0
    for d in range(one.shape[0]):
        total += np.float64(one[d]) * np.float64(other[d])
    return total


@kernel(fastmath=FILTER)
def _filter_dot(one, other):
    total = np.float32(0.0)
    for d in range(one.shape[0]):
        total += one[d] * other[d]
    return total


@kernel(fastmath=FILTER)
def _filter_row(centroids, n_nodes, row, scores):
    """Four nodes at a time: the row is fetched once for them."""
    n_fours = n_nodes // 4 * 4
    for j in range(0, n_fours, 4):
        a, b, c, d = centroids[j], centroids[j + 1], centroids[j + 2], centroids[j + 3]
        s0, s1, s2, s3 = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
        for p in range(row.shape[0]):
            s0 += a[p] * row[p]
            s1 += b[p] * row[p]
            s2 += c[p] * row[p]
            s3 += d[p] * row[p]
        scores[j], scores[j + 1], scores[j + 2], scores[j + 3] = s0, s1, s2, s3
    for j in range(n_fours, n_nodes):
        scores[j] = _filter_dot(centroids[j], row)


@kernel(fastmath=FILTER)
def _filter_rows(centroids, n_nodes, rows, scores):
    """The products of up to `LINK_GROUP` rows with all nodes, four rows with two nodes at a time.

    Centroids are fetched from the second cache once for all rows: 1.1 us a row for 2.4 with 200 nodes of 256 columns.
    """
    n_fours, n_twos = rows.shape[0] // 4 * 4, n_nodes // 2 * 2
    for j in range(0, n_twos, 2):
        a, b = centroids[j], centroids[j + 1]
        for r in range(0, n_fours, 4):
            w, x, y, z = rows[r], rows[r + 1], rows[r + 2], rows[r + 3]
            s0, s1, s2, s3 = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
            t0, t1, t2, t3 = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
            for p in range(rows.shape[1]):
                s0 += a[p] * w[p]
                s1 += a[p] * x[p]
                s2 += a[p] * y[p]
                s3 += a[p] * z[p]
                t0 += b[p] * w[p]
                t1 += b[p] * x[p]
                t2 += b[p] * y[p]
                t3 += b[p] * z[p]
            scores[r, j], scores[r + 1, j], scores[r + 2, j], scores[r + 3, j] = s0, s1, s2, s3
            scores[r, j + 1], scores[r + 1, j + 1], scores[r + 2, j + 1], scores[r + 3, j + 1] = t0, t1, t2, t3
    if n_twos < n_nodes:
        for r in range(n_fours):
            scores[r, n_twos] = _filter_dot(centroids[n_twos], rows[r])
    for r in range(n_fours, rows.shape[0]):
        _filter_row(centroids, n_nodes, rows[r], scores[r])


@kernel(fastmath=FILTER)
def _highest(scores):
    top = scores[0]
    for j in range(1, scores.shape[0]):
        top = scores[j] if scores[j] > top else top
    return top


@kernel
def _cosine(forest, i, j):
    return _dot(forest.sums[i], forest.sums[j]) / (forest.nodes[i].norm * forest.nodes[j].norm)


@kernel
def _threshold(rule, gain, other_gain):
    """s~(k, k') from g(k) and g(k')."""
    return rule.base + rule.slope * (gain * other_gain)


@kernel
def _gain(rule, count):
    """g(k)."""
    return 1.0 / math.sqrt(1.0 + rule.spread / count)


@kernel
def _settle(forest, rule, i):
    """What follows from the sum and the count of a node."""
    v = forest.sums[i]
    norm = math.sqrt(_dot(v, v))
    node = forest.nodes[i]
    node.norm = norm
    node.gain = _gain(rule, node.count)
    centroid = forest.centroids[i]
    for d in range(v.shape[0]):
        centroid[d] = v[d] / norm
    _freshen(forest, i)


@kernel
def settle_all(forest, rule):
    """Everything that is not saved: norms, gains, centroids, lists of children."""
    n_nodes = forest.tally[_N_NODES]
    for i in range(n_nodes):
        forest.nodes[i].child = forest.nodes[i].next = forest.nodes[i].previous = -1
        _settle(forest, rule, i)
    for i in range(n_nodes):
        if forest.nodes[i].parent >= 0:
            _attach(forest.nodes, i, forest.nodes[i].parent)


@kernel
def _freshen(forest, slot):
    node = forest.nodes[slot]
    if not node.is_fresh:
        node.is_fresh = True
        forest.fresh[forest.tally[_N_FRESH]] = slot
        forest.tally[_N_FRESH] += 1


@kernel
def forget_table(forest):
    """No slot is fresh: a new table is about to be used."""
    for f in range(forest.tally[_N_FRESH]):
        forest.nodes[forest.fresh[f]].is_fresh = False
    forest.tally[_N_FRESH] = 0


@kernel
def _look_ahead(forest, rows32, r):
    """The products of row r and some rows ahead, where there is no table."""
    forget_table(forest)
    _filter_rows(forest.centroids, forest.tally[_N_NODES], rows32[r : r + LINK_GROUP], forest.scores)


@kernel
def _refresh(forest, row32, scores):
    """Make the products of a row anew with the nodes that changed since they were made ahead."""
    n_nodes = forest.tally[_N_NODES]
    for f in range(forest.tally[_N_FRESH]):
        slot = forest.fresh[f]
        if slot < n_nodes:
            scores[slot] = _filter_dot(forest.centroids[slot], row32)


@kernel
def _nearest(forest, row, scores, doubt):
    """The node with the largest cosine (tie: the oldest), and that cosine. `scores` are the row's filter products."""
    n_nodes = forest.tally[_N_NODES]
    best, top = -1, -np.inf
    if n_nodes == 0:
        return best, top
    least = _highest(scores[:n_nodes]) - doubt
    if least == -np.inf:  # all are banned
        return best, top
    for start in range(0, n_nodes, _STRIDE):
        stop = start + _STRIDE if start + _STRIDE < n_nodes else n_nodes
        if _highest(scores[start:stop]) < least:
            continue
        for j in range(start, stop):
            if scores[j] >= least:
                score = _dot(row, forest.sums[j]) / forest.nodes[j].norm
                if score > top or (score == top and forest.nodes[j].number < forest.nodes[best].number):
                    best, top = j, score
    return best, top


@kernel
def _is_among(cluster, banned):
    for number in banned:  # noqa: SIM110 - compiled
        if number == cluster:
            return True
    return False


@kernel
def _ban(forest, scores, banned):
    """Products of clusters that a row must not share: below all others."""
    for j in range(forest.tally[_N_NODES]):
        if _is_among(forest.nodes[j].id, banned):
            scores[j] = -np.inf


@kernel
def exact_cosines(forest, row, out):
    """The float64 cosines of a vector with all nodes."""
    for j in range(forest.tally[_N_NODES]):
        out[j] = _dot(row, forest.sums[j]) / forest.nodes[j].norm


# --------------------------------------------------------------------------------------------------------- forest


@kernel
def _attach(nodes, child, parent):
    """Make a root the child of a node of another tree."""
    own, above = nodes[child], nodes[parent]
    first = above.child
    own.parent, own.next, own.previous = parent, first, -1
    if first >= 0:
        nodes[first].previous = child
    above.child = child


@kernel
def _detach(nodes, child):
    """Remove the edge of a node to its parent; the node is then a root."""
    own = nodes[child]
    before, after = own.previous, own.next
    if before >= 0:
        nodes[before].next = after
    else:
        nodes[own.parent].child = after
    if after >= 0:
        nodes[after].previous = before
    own.parent = own.next = own.previous = -1
    own.is_pinned = False


@kernel
def _make_root(nodes, node):
    """Turn the links between a node and the root of its tree around."""
    parent, is_pinned = nodes[node].parent, nodes[node].is_pinned
    if parent < 0:
        return
    _detach(nodes, node)
    below = node
    while parent >= 0:
        above, is_pinned_above = nodes[parent].parent, nodes[parent].is_pinned
        if above >= 0:
            _detach(nodes, parent)
        _attach(nodes, parent, below)
        nodes[parent].is_pinned = is_pinned
        below, parent, is_pinned = parent, above, is_pinned_above


@kernel
def _root(nodes, node):
    while nodes[node].parent >= 0:
        node = nodes[node].parent
    return node


@kernel
def _tree(nodes, node, out):
    """Write the slots of the tree of a node; return how many. A list that is read while it grows: no recursion."""
    out[0] = _root(nodes, node)
    n_found, n_read = 1, 0
    while n_read < n_found:
        child = nodes[out[n_read]].child
        n_read += 1
        while child >= 0:
            out[n_found] = child
            n_found += 1
            child = nodes[child].next
    return n_found


@kernel
def _vacate(forest, slot):
    """Remove a node without neighbours; the node in the last slot moves into its place."""
    last = forest.tally[_N_NODES] - 1
    forest.tally[_N_NODES] = last
    if slot == last:
        return
    for d in range(forest.sums.shape[1]):
        forest.sums[slot, d] = forest.sums[last, d]
        forest.centroids[slot, d] = forest.centroids[last, d]
    nodes = forest.nodes
    moved = nodes[last]
    is_fresh = nodes[slot].is_fresh
    nodes[slot] = moved
    nodes[slot].is_fresh = is_fresh
    if moved.previous >= 0:
        nodes[moved.previous].next = slot
    elif moved.parent >= 0:
        nodes[moved.parent].child = slot
    if moved.next >= 0:
        nodes[moved.next].previous = slot
    child = moved.child
    while child >= 0:
        nodes[child].parent = slot
        child = nodes[child].next
    _freshen(forest, slot)


@kernel
def _join(forest, rule, i, j, log):
    """Merge two neighbours into the older of them; return its slot."""
    nodes = forest.nodes
    kept, gone = (i, j) if nodes[i].number < nodes[j].number else (j, i)
    stays, goes = nodes[kept], nodes[gone]
    if goes.parent == kept:
        _detach(nodes, gone)
    else:  # the one that goes is the parent: its place becomes that of the one that stays
        _detach(nodes, kept)
        parent, is_pinned = goes.parent, goes.is_pinned
        if parent >= 0:
            _detach(nodes, gone)
            _attach(nodes, kept, parent)
            stays.is_pinned = is_pinned
    child = goes.child
    while child >= 0:
        after, is_pinned = nodes[child].next, nodes[child].is_pinned
        _detach(nodes, child)
        _attach(nodes, child, kept)
        nodes[child].is_pinned = is_pinned
        child = after
    for d in range(forest.sums.shape[1]):
        forest.sums[kept, d] += forest.sums[gone, d]
    stays.count += goes.count
    if goes.last_seen > stays.last_seen:
        stays.last_seen = goes.last_seen
    n_joins = forest.tally[_N_JOINS]
    log.joins[n_joins, 0], log.joins[n_joins, 1] = goes.number, stays.number
    forest.tally[_N_JOINS] = n_joins + 1
    last = forest.tally[_N_NODES] - 1
    _vacate(forest, gone)
    kept = gone if kept == last else kept
    _settle(forest, rule, kept)
    return kept


@kernel
def _tell(tally, log, fate, cluster, other):
    n_events = tally[_N_EVENTS]
    log.events[n_events, 0] = tally[_N_VECTORS]
    log.events[n_events, 1] = fate
    log.events[n_events, 2] = cluster
    log.events[n_events, 3] = other
    tally[_N_EVENTS] = n_events + 1


@kernel
def _new_id(tally, log, fate, source):
    number = tally[_NEXT_ID]
    tally[_NEXT_ID] = number + 1
    tally[_N_CLUSTERS] += 1
    _tell(tally, log, fate, number, source)
    return number


@kernel
def _sort_by_age(nodes, slots, n_slots):
    """Sort slots by the numbers of their nodes, by a heap: NumPy's sort takes longer to compile than all else here."""
    for end in range(1, n_slots):
        slot, place = slots[end], end
        while place > 0 and nodes[slots[(place - 1) // 2]].number < nodes[slot].number:
            slots[place] = slots[(place - 1) // 2]
            place = (place - 1) // 2
        slots[place] = slot
    for end in range(n_slots - 1, 0, -1):
        slot, place = slots[end], 0
        slots[end] = slots[0]
        below = 1
        while below < end:
            if below + 1 < end and nodes[slots[below + 1]].number > nodes[slots[below]].number:
                below += 1
            if nodes[slots[below]].number < nodes[slot].number:
                break
            slots[place] = slots[below]
            place, below = below, 2 * below + 1
        slots[place] = slot


# --------------------------------------------------------------------------------------------------------- update


@kernel
def _most_similar_neighbour(forest, i):
    """The neighbour with the largest cosine (tie: older), and the cosine; -1 without neighbours."""
    best, top = -1, -np.inf
    j, child = forest.nodes[i].parent, forest.nodes[i].child
    if j < 0:
        j = child
        child = forest.nodes[child].next if child >= 0 else -1
    while j >= 0:
        cosine = _cosine(forest, i, j)
        if cosine > top or (cosine == top and forest.nodes[j].number < forest.nodes[best].number):
            best, top = j, cosine
        j = child
        child = forest.nodes[child].next if child >= 0 else -1
    return best, top


@kernel
def _is_broken(forest, rule, i, j):
    return _cosine(forest, i, j) < _threshold(rule, forest.nodes[i].gain, forest.nodes[j].gain)


@kernel
def _sever(forest, rule, i, removed):
    """Remove the edges of a node that fail their threshold; write the other ends, oldest first, return how many."""
    n_removed = 0
    parent = forest.nodes[i].parent
    if parent >= 0 and not forest.nodes[i].is_pinned and _is_broken(forest, rule, i, parent):
        _detach(forest.nodes, i)
        removed[0] = parent
        n_removed = 1
    child = forest.nodes[i].child
    while child >= 0:
        after = forest.nodes[child].next
        if not forest.nodes[child].is_pinned and _is_broken(forest, rule, i, child):
            _detach(forest.nodes, child)
            removed[n_removed] = child
            n_removed += 1
        child = after
    _sort_by_age(forest.nodes, removed, n_removed)
    return n_removed


@kernel
def _best_partner(forest, rule, i, nodes):
    """Of some nodes, the one whose cosine exceeds its threshold most (tie: older), the margin and the cosine."""
    best, top, cosine_there = -1, -np.inf, 0.0
    for p in nodes:
        cosine = _cosine(forest, i, p)
        margin = cosine - _threshold(rule, forest.nodes[i].gain, forest.nodes[p].gain)
        if margin > top or (margin == top and forest.nodes[p].number < forest.nodes[best].number):
            best, top, cosine_there = p, margin, cosine
    return best, top, cosine_there


@kernel
def _name_parts(forest, cluster, log):
    """The heaviest tree of a cluster keeps its id (tie: that with the oldest node); others get new ids, oldest first.

    Looks once along the ids of all nodes: nothing beside the product that every vector costs.
    """
    n_nodes = forest.tally[_N_NODES]
    members, part, tree = forest.scratch[0], forest.scratch[1], forest.scratch[2]
    n_members = 0
    for i in range(n_nodes):
        if forest.nodes[i].id == cluster:
            members[n_members] = i
            part[i] = -1
            n_members += 1
    _sort_by_age(forest.nodes, members, n_members)
    n_parts = 0
    for m in range(n_members):
        if part[members[m]] < 0:
            for t in range(_tree(forest.nodes, members[m], tree)):
                part[tree[t]] = n_parts
            n_parts += 1
    if n_parts < 2:
        return
    forest.tally[_EXPIRY] = 0  # a part may have been idle for long
    weights, names = np.empty(n_parts), np.empty(n_parts, np.int64)
    for number in range(n_parts):
        weights[number] = 0.0
    for m in range(n_members):  # by age, so that weights that are not whole numbers add up alike
        weights[part[members[m]]] += forest.nodes[members[m]].count
    heaviest = 0
    for number in range(1, n_parts):
        if weights[number] > weights[heaviest]:
            heaviest = number
    for number in range(n_parts):
        names[number] = cluster if number == heaviest else _new_id(forest.tally, log, _SPLIT, cluster)
    for m in range(n_members):
        forest.nodes[members[m]].id = names[part[members[m]]]


@kernel
def _update(forest, rule, i, log):
    """Bring the edges of the one node that changed in order (links.md, 3); return its slot."""
    cluster = forest.nodes[i].id
    removed, tree = forest.scratch[0], forest.scratch[1]
    is_cut = False
    is_again = True
    while is_again:
        is_again = False
        j, cosine = _most_similar_neighbour(forest, i)
        while j >= 0 and cosine >= rule.joining:
            i = _join(forest, rule, i, j, log)
            j, cosine = _most_similar_neighbour(forest, i)
        for r in range(_sever(forest, rule, i, removed)):
            n_nodes = _tree(forest.nodes, removed[r], tree)
            partner, margin, cosine = _best_partner(forest, rule, i, tree[:n_nodes])
            if margin >= 0.0:
                _make_root(forest.nodes, partner)
                _attach(forest.nodes, partner, i)
                is_again = is_again or cosine >= rule.joining
            else:
                is_cut = True
    if is_cut:
        _name_parts(forest, cluster, log)
    return i


# ------------------------------------------------------------------------------------- beyond the seed: see the model


@kernel
def _is_apart(one, other, corrections):
    """Whether the user keeps two clusters apart: by a cannot-link, or by different names."""
    apart, named, names = corrections
    for p in range(apart.shape[0]):
        if (apart[p, 0] == one and apart[p, 1] == other) or (apart[p, 0] == other and apart[p, 1] == one):
            return True
    name, other_name = -1, -1
    for p in range(named.shape[0]):
        if named[p] == one:
            name = names[p]
        if named[p] == other:
            other_name = names[p]
    return name >= 0 and other_name >= 0 and name != other_name


@kernel
def link_clusters(forest, i, j, is_pinned, corrections, log):
    """One cluster of two, by an edge between nodes of theirs; the older id stays."""
    one, other = forest.nodes[i].id, forest.nodes[j].id
    _link_as(forest, i, j, one if one < other else other, is_pinned, corrections, log)


@kernel
def _link_as(forest, i, j, kept, is_pinned, corrections, log):
    """One cluster of two under the id of one of them."""
    apart, named, _ = corrections
    gone, inside = forest.nodes[j].id, j
    if gone == kept:
        gone, inside = forest.nodes[i].id, i
    tree = forest.scratch[0]
    for t in range(_tree(forest.nodes, inside, tree)):
        forest.nodes[tree[t]].id = kept
    _make_root(forest.nodes, j)
    _attach(forest.nodes, j, i)
    forest.nodes[j].is_pinned = is_pinned
    forest.tally[_N_CLUSTERS] -= 1
    _tell(forest.tally, log, _MERGE, gone, kept)
    for p in range(apart.shape[0]):
        for side in range(2):
            if apart[p, side] == gone:
                apart[p, side] = kept
    for p in range(named.shape[0]):
        if named[p] == gone:
            named[p] = kept


@kernel
def best_pair(forest, rule, i, other):
    """Of the nodes of cluster `other`, the slot of the best partner of a node, and its margin."""
    nodes = forest.scratch[0]
    n_found = 0
    for j in range(forest.tally[_N_NODES]):
        if forest.nodes[j].id == other:
            nodes[n_found] = j
            n_found += 1
    partner, margin, _ = _best_partner(forest, rule, i, nodes[:n_found])
    return partner, margin


@kernel
def link_pinned(forest, rule, i, j, corrections, log):
    """Link two clusters for good, and merge their nodes where these are alike enough."""
    link_clusters(forest, i, j, True, corrections, log)
    if _cosine(forest, i, j) >= rule.joining:
        _update(forest, rule, i, log)


@kernel
def cut_between(forest, rule, i, j, log):
    """Cut the weakest edge (least margin; tie: younger) between two nodes of a tree; False if all are pinned."""
    _make_root(forest.nodes, j)
    weakest, least = -1, np.inf
    node = i
    while forest.nodes[node].parent >= 0:
        parent = forest.nodes[node].parent
        margin = _cosine(forest, node, parent) - _threshold(rule, forest.nodes[node].gain, forest.nodes[parent].gain)
        if not forest.nodes[node].is_pinned and margin < least:
            weakest, least = node, margin
        node = parent
    if weakest < 0:
        return False
    cluster = forest.nodes[i].id
    _detach(forest.nodes, weakest)
    _name_parts(forest, cluster, log)
    return True


@kernel
def _merge_clusters(forest, rule, i, doubt, corrections, banned, log):
    """Link a node with that of another cluster, not a banned one, whose cosine exceeds its threshold most, if any."""
    nodes, scores = forest.scratch[0], forest.scores[LINK_GROUP]
    n_nodes, n_found = forest.tally[_N_NODES], 0
    _filter_row(forest.centroids, n_nodes, forest.centroids[i], scores)
    for j in range(n_nodes):
        if scores[j] + doubt >= _threshold(rule, forest.nodes[i].gain, forest.nodes[j].gain):
            other = forest.nodes[j].id
            is_free = other != forest.nodes[i].id and not _is_among(other, banned)
            if is_free and not _is_apart(forest.nodes[i].id, other, corrections):
                nodes[n_found] = j
                n_found += 1
    partner, margin, cosine = _best_partner(forest, rule, i, nodes[:n_found])
    if margin < 0.0:
        return i
    link_clusters(forest, i, partner, False, corrections, log)
    return _update(forest, rule, i, log) if cosine >= rule.joining else i


@kernel
def _cluster_weight(forest, cluster):
    total = 0.0
    for j in range(forest.tally[_N_NODES]):  # in the order of slots, which is saved: weights need not be whole
        if forest.nodes[j].id == cluster:
            total += forest.nodes[j].count
    return total


@kernel
def _whole_clusters(forest):
    """Directions (K, D), weights (K,) and ids (K,) of all clusters, added in the order of slots."""
    n_nodes, place = forest.tally[_N_NODES], forest.scratch[0]
    n_clusters = 0
    for j in range(n_nodes):
        if forest.nodes[j].parent < 0:
            place[j] = n_clusters
            n_clusters += 1
    sums, weights = np.zeros((n_clusters, forest.sums.shape[1])), np.zeros(n_clusters)
    ids = np.empty(n_clusters, np.int64)
    for j in range(n_nodes):
        c = place[_root(forest.nodes, j)]
        for d in range(sums.shape[1]):
            sums[c, d] += forest.sums[j, d]
        weights[c] += forest.nodes[j].count
        ids[c] = forest.nodes[j].id
    for c in range(n_clusters):
        norm = math.sqrt(_dot(sums[c], sums[c]))
        for d in range(sums.shape[1]):
            sums[c, d] = sums[c, d] / norm if norm > 0.0 else 0.0
    return sums, weights, ids


@kernel
def _nearest_whole(rule, a, sums, weights, ids):
    """The cluster whose cosine with cluster `a` exceeds the threshold of their weights most (tie: older); by what."""
    best, top = -1, -np.inf
    gain = _gain(rule, weights[a])
    for b in range(sums.shape[0]):
        if b != a:
            margin = _dot(sums[a], sums[b]) - _threshold(rule, gain, _gain(rule, weights[b]))
            if margin > top or (margin == top and ids[b] < ids[best]):
                best, top = b, margin
    return best, top


@kernel
def _partner_of(forest, rule, a, sums, weights, ids, corrections, banned):
    """A cluster to merge with `a`: of two, the lighter has the other as its nearest, within the slack; -1 for none."""
    best, top = _nearest_whole(rule, a, sums, weights, ids)
    if best < 0 or top < -rule.slack:
        return -1
    gain = _gain(rule, weights[a])
    chosen, most = -1, -np.inf
    for b in range(sums.shape[0]):
        if b == a or (weights[b] >= weights[a] and b != best) or max(weights[a], weights[b]) < _EVIDENCE:
            continue
        margin = _dot(sums[a], sums[b]) - _threshold(rule, gain, _gain(rule, weights[b]))
        if margin < -rule.slack or margin <= most:
            continue
        if _is_among(ids[b], banned) or _is_apart(ids[a], ids[b], corrections):
            continue
        if weights[b] < weights[a] and _nearest_whole(rule, b, sums, weights, ids)[0] != a:
            continue
        chosen, most = b, margin
    return chosen


@kernel
def _merge_whole(forest, rule, i, weight, corrections, banned, log):
    """Merge the cluster of a node with others, by the sums of whole clusters, each time its weight has doubled."""
    after = _cluster_weight(forest, forest.nodes[i].id)
    if after < 2.0 or math.floor(math.log2(after)) == math.floor(math.log2(max(after - weight, 0.5))):
        return
    partner = 0
    while partner >= 0 and forest.tally[_N_CLUSTERS] > 1:
        sums, weights, ids = _whole_clusters(forest)
        own = 0
        while ids[own] != forest.nodes[i].id:
            own += 1
        partner = _partner_of(forest, rule, own, sums, weights, ids, corrections, banned)
        if partner >= 0:
            # an edge that stands whatever its cosine: the evidence is that of the whole, not of its two ends
            other, _ = best_pair(forest, rule, i, ids[partner])
            link_clusters(forest, i, other, True, corrections, log)


@kernel
def _lone(forest, corrections, out):
    """Write the slots of single vectors that are clusters by themselves and have no name; return how many."""
    n_found = 0
    for j in range(forest.tally[_N_NODES]):
        is_single = forest.nodes[j].parent < 0 and forest.nodes[j].child < 0 and forest.nodes[j].count <= 1.0
        if is_single and not _is_among(forest.nodes[j].id, corrections.named):
            out[n_found] = j
            n_found += 1
    return n_found


@kernel
def _two_nearest(row, norm, own, sums, ids):
    """Of all clusters but its own, the nearest to a vector (tie: first), its cosine, and that of the next."""
    best, top, second = -1, -np.inf, -np.inf
    for b in range(sums.shape[0]):
        if ids[b] != own:
            cosine = _dot(row, sums[b]) / norm
            if cosine > top:
                best, top, second = b, cosine, top
            elif cosine > second:
                second = cosine
    return best, top, second


@kernel
def _settle_lone(forest, rule, corrections, log):
    """Give vectors that stayed alone to a cluster that leads; its id stays.

    Every eighth of the stream, or 256 vectors, as many of them are looked at, in turn: it costs no more than learning.
    """
    now = forest.tally[_N_VECTORS]
    step = 8
    while step < _MOST_LOOKED and now >= 16 * step:
        step *= 2
    if now < _FIRST_LOOK or now % step or forest.tally[_N_CLUSTERS] < 3:
        return
    lone = forest.scratch[2]
    n_lone = _lone(forest, corrections, lone)
    if n_lone == 0:
        return
    sums, weights, ids = _whole_clusters(forest)
    room = rule.spread / (1.0 + rule.spread)  # 1 - T_c^2
    patience = _WAIT * (sums.shape[0] if sums.shape[0] > _FEW else _FEW)
    for k in range(step if step < n_lone else n_lone):
        j = lone[(now + k) % n_lone]
        age = now - forest.nodes[j].last_seen
        if age * (1.0 + 2.0 / (_LEAD * room)) < patience:  # whatever the lead
            continue
        best, top, second = _two_nearest(forest.sums[j], forest.nodes[j].norm, forest.nodes[j].id, sums, ids)
        if weights[best] < _HOST or top - second < _LEAST_LEAD * room:
            continue
        threshold = _threshold(rule, forest.nodes[j].gain, _gain(rule, weights[best]))
        if top < threshold - _LONE_SLACK * room or age * (1.0 + (top - second) / (_LEAD * room)) < patience:
            continue
        if not _is_apart(forest.nodes[j].id, ids[best], corrections):
            partner, _ = best_pair(forest, rule, j, ids[best])
            _link_as(forest, partner, j, ids[best], True, corrections, log)


@kernel
def _drop(forest, node):
    child = forest.nodes[node].child
    while child >= 0:
        _detach(forest.nodes, child)
        child = forest.nodes[node].child
    if forest.nodes[node].parent >= 0:
        _detach(forest.nodes, node)
    _vacate(forest, node)


@kernel
def _forget_idle(forest, rule, log):
    """Drop the clusters unseen for more than `max_idle` vectors, and note when the next may have to go."""
    now = forest.tally[_N_VECTORS]
    tree, idle = forest.scratch[0], forest.scratch[1]
    n_idle, oldest = 0, now
    for i in range(forest.tally[_N_NODES]):
        if forest.nodes[i].parent < 0:
            n_tree = _tree(forest.nodes, i, tree)
            seen = np.int64(0)
            for t in range(n_tree):
                last_seen = forest.nodes[tree[t]].last_seen
                seen = last_seen if last_seen > seen else seen
            if now - seen > rule.max_idle:
                place = n_idle  # told in the order of their ids
                while place > 0 and idle[place - 1] > forest.nodes[i].id:
                    idle[place] = idle[place - 1]
                    place -= 1
                idle[place] = forest.nodes[i].id
                n_idle += 1
                for t in range(n_tree):
                    forest.nodes[tree[t]].id = -1
            else:
                oldest = seen if seen < oldest else oldest
    for number in range(n_idle):
        _tell(forest.tally, log, _DEATH, idle[number], -1)
    forest.tally[_N_CLUSTERS] -= n_idle
    if n_idle:
        # from the end: what moves into a place that falls free has been looked at
        for i in range(forest.tally[_N_NODES] - 1, -1, -1):
            if forest.nodes[i].id < 0:
                _drop(forest, i)
    forest.tally[_EXPIRY] = oldest + rule.max_idle + 1


@kernel
def _make_room(forest, rule, log):
    """Give up the node unseen for longest (tie: older): to its most similar neighbour, or, without one, to oblivion."""
    lost, nodes = 0, forest.nodes
    for i in range(1, forest.tally[_N_NODES]):
        one, other = nodes[i], nodes[lost]
        is_equal = one.last_seen == other.last_seen
        if one.last_seen <= other.last_seen and not (is_equal and one.number > other.number):
            lost = i
    neighbour, _ = _most_similar_neighbour(forest, lost)
    if neighbour >= 0:
        _update(forest, rule, _join(forest, rule, lost, neighbour, log), log)
    else:
        _tell(forest.tally, log, _DEATH, forest.nodes[lost].id, -1)
        forest.tally[_N_CLUSTERS] -= 1
        _vacate(forest, lost)


# ------------------------------------------------------------------------------------------------------- one vector


@kernel
def _add(forest, rule, i, row, weight, log):
    """Add a vector to a node, and bring the forest in order; return the node's slot."""
    v = forest.sums[i]
    for d in range(row.shape[0]):
        v[d] += weight * np.float64(row[d])
    forest.nodes[i].count += weight
    forest.nodes[i].last_seen = forest.tally[_N_VECTORS]
    _settle(forest, rule, i)
    return _update(forest, rule, i, log)


@kernel
def _open(forest, rule, row, weight, cluster, parent):
    """A new node: a vector alone."""
    i = forest.tally[_N_NODES]
    forest.tally[_N_NODES] = i + 1
    v = forest.sums[i]
    for d in range(row.shape[0]):
        v[d] = weight * np.float64(row[d])
    node = forest.nodes[i]
    node.count = weight
    node.number = forest.tally[_NEXT_NODE]
    forest.tally[_NEXT_NODE] += 1
    node.id = cluster
    node.last_seen = forest.tally[_N_VECTORS]
    node.parent = node.child = node.next = node.previous = -1
    node.is_pinned = False
    _settle(forest, rule, i)
    if parent >= 0:
        _attach(forest.nodes, i, parent)
    return i


@kernel
def _place(forest, rule, row, weight, nearest, cosine, log):
    """Put a vector into the nearest node or into a new one; return its node's slot."""
    is_linked = nearest >= 0 and cosine >= _threshold(rule, forest.nodes[nearest].gain, _gain(rule, weight))
    is_full = rule.max_nodes > 0 and forest.tally[_N_NODES] >= rule.max_nodes
    if nearest >= 0 and (cosine >= rule.joining or (is_linked and is_full)):
        return _add(forest, rule, nearest, row, weight, log)
    while is_full:
        _make_room(forest, rule, log)
        is_full = forest.tally[_N_NODES] >= rule.max_nodes
    if is_linked:
        return _open(forest, rule, row, weight, forest.nodes[nearest].id, nearest)
    return _open(forest, rule, row, weight, _new_id(forest.tally, log, _BIRTH, -1), -1)


@kernel
def _answer(forest, rule, nearest, cosine):
    """What `predict` says: the cluster of the nearest node if a vector would share it, else -1."""
    if nearest < 0:
        return np.int64(-1)
    threshold = _threshold(rule, forest.nodes[nearest].gain, _gain(rule, 1.0))
    return forest.nodes[nearest].id if cosine >= rule.joining or cosine >= threshold else np.int64(-1)


@kernel
def _learn(start, rows, rows32, weights, table, n_table, doubt, rule, forest, corrections, banned, log, ids, nodes):
    """Learn vectors (b, D) from `start` on, one after the other; return where it stopped: the end, or a full log.

    `rows32` are the same in float32. `weights` (b,), or (0,) where all are 1. `table` (b, n + b) has the products of
    all rows with the `n_table` nodes there are at the start, or `n_table` is 0. `doubt` is twice the most that a
    product is off. Clusters in `banned` (B,) get none of these rows. Writes the cluster of each vector into `ids` (b,)
    and the number of its node into `nodes` (b,).
    """
    for r in range(start, rows.shape[0]):
        # what one vector can tell at most (two updates, merges, a death of every cluster) must fit
        if log.events.shape[0] - forest.tally[_N_EVENTS] < 6 * forest.tally[_N_NODES] + 8:
            return r
        row = rows[r]
        weight = weights[r] if weights.shape[0] else 1.0
        if weight > 0.0:
            forest.tally[_N_VECTORS] += 1
            if rule.max_idle > 0 and forest.tally[_N_VECTORS] >= forest.tally[_EXPIRY]:
                _forget_idle(forest, rule, log)
        place = (r - start) % LINK_GROUP
        if place == 0 and not n_table:
            _look_ahead(forest, rows32, r)
        scores = table[r] if n_table else forest.scores[place]
        _refresh(forest, rows32[r], scores)
        if banned.shape[0]:
            _ban(forest, scores, banned)
        nearest, cosine = _nearest(forest, row, scores, doubt)
        if weight > 0.0:
            i = _place(forest, rule, row, weight, nearest, cosine, log)
            if rule.merges_clusters >= 2:
                _merge_whole(forest, rule, i, weight, corrections, banned, log)
                if rule.merges_clusters == 3:
                    _settle_lone(forest, rule, corrections, log)
            elif rule.merges_clusters:
                i = _merge_clusters(forest, rule, i, 2.0 * doubt, corrections, banned, log)
            ids[r], nodes[r] = forest.nodes[i].id, forest.nodes[i].number
        else:
            ids[r], nodes[r] = _answer(forest, rule, nearest, cosine), -1
    return rows.shape[0]


@kernel
def _predict(rows, rows32, table, n_table, doubt, rule, forest, ids, slots, cosines):
    """The answer to each vector, its nearest node and their cosine.

    Reads the forest and writes nothing into it, so that many threads may ask at once: the room for products belongs to
    the call (a small one costs 0.1 us), and is made from centroids as they are, whatever `fresh` says.
    """
    n_nodes = forest.tally[_N_NODES]
    n_ahead = LINK_GROUP if rows.shape[0] > LINK_GROUP else rows.shape[0]
    ahead = np.empty((0 if n_table else n_ahead, n_nodes), np.float32)
    for r in range(rows.shape[0]):
        if n_table:
            scores = table[r]
        else:
            place = r % LINK_GROUP
            if place == 0:
                _filter_rows(forest.centroids, n_nodes, rows32[r : r + LINK_GROUP], ahead)
            scores = ahead[place]
        slots[r], cosines[r] = _nearest(forest, rows[r], scores, doubt)
        ids[r] = _answer(forest, rule, slots[r], cosines[r])


# ----------------------------------------------------------------------------------------------- calls by address


@kernel
def _forest_at(call):
    room = call.room
    return LinkForest(
        array_at(call.sums, (room, call.n_features), np.float64),
        array_at(call.nodes, (room,), LINK_NODE),
        array_at(call.centroids, (room, call.n_features), np.float32),
        array_at(call.fresh, (room,), np.int64),
        array_at(call.scores, (LINK_GROUP + 1, room), np.float32),
        array_at(call.scratch, (3, room), np.int64),
        array_at(call.tally, (_N_COUNTERS,), np.int64),
    )


@kernel
def _rule_at(call):
    limits = call.max_nodes, call.max_idle, call.merges_clusters
    return LinkRule(call.joining, call.base, call.slope, call.spread, limits[0], limits[1], limits[2], call.slack)


@kernel
def _take_rows(call, within):
    """The vectors in float64 and float32; none where the first is not unit to `within`."""
    rows = array_at(call.rows, (call.n_rows, call.n_features), np.float64)
    rows32 = array_at(call.rows32, (call.n_rows, call.n_features), np.float32)
    if not abs(square(rows[0])) <= within:  # a NaN is not unit
        return rows[:0], rows32[:0]
    if call.narrows:
        for d in range(rows.shape[1]):
            rows32[0, d] = rows[0, d]
    return rows, rows32


@kernel
def learn(address, within):
    """Learn the vectors of a `LINK_CALL`, one after the other; return where it stopped: the end, or a full log.

    Writes the cluster of each vector into `ids` and the number of its node into `nodes_of_rows`. Returns -1, and learns
    nothing, where the sum of squares of the first vector is not 1 to within `within`.
    """
    call = array_at(address, (1,), LINK_CALL)[0]
    rows, rows32 = _take_rows(call, within)
    n_rows = rows.shape[0]
    if n_rows == 0:
        return np.int64(-1)
    return _learn(
        call.start,
        rows,
        rows32,
        array_at(call.weights, (call.n_weights,), np.float64),
        array_at(call.table, (n_rows, call.n_columns), np.float32),
        call.n_table,
        call.doubt,
        _rule_at(call),
        _forest_at(call),
        Corrections(
            array_at(call.apart, (call.n_apart, 2), np.int64),
            array_at(call.named, (call.n_named,), np.int64),
            array_at(call.names, (call.n_named,), np.int64),
        ),
        array_at(call.banned, (call.n_banned,), np.int64),
        LinkLog(
            array_at(call.events, (call.n_events, 4), np.int64),
            array_at(call.joins, (call.n_joins, 2), np.int64),
        ),
        array_at(call.ids, (n_rows,), np.int64),
        array_at(call.nodes_of_rows, (n_rows,), np.int64),
    )


@kernel
def predict(address, within):
    """The answer to each vector of a `LINK_CALL`, the slot of its nearest node and their cosine; as `learn` returns."""
    call = array_at(address, (1,), LINK_CALL)[0]
    rows, rows32 = _take_rows(call, within)
    n_rows = rows.shape[0]
    if n_rows == 0:
        return np.int64(-1)
    _predict(
        rows,
        rows32,
        array_at(call.table, (n_rows, call.n_columns), np.float32),
        call.n_table,
        call.doubt,
        _rule_at(call),
        _forest_at(call),
        array_at(call.ids, (n_rows,), np.int64),
        array_at(call.nodes_of_rows, (n_rows,), np.int64),
        array_at(call.cosines, (n_rows,), np.float64),
    )
    return np.int64(n_rows)
