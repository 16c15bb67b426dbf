"""First directions of the leaves of a tree: the rows of each node are dealt to its children by spherical k-means."""

from __future__ import annotations

from typing import Any

import numpy as np

from armillary._typing import Float64Array
from armillary.distributions import bessel, vmf
from armillary.distributions.direction_trees import Nodes, Tree
from armillary.draws import Stream
from armillary.engines.contract import Counted, Labelled, Passes
from armillary.fitting.events import Emitter
from armillary.fitting.loop import best_run
from armillary.fitting.stopping import RelativeGain
from armillary.models.means import spherical_kmeans as kmeans

# The k-means runs that a start is made of only have to find where groups are. What is split wrongly at the top stays
# so: of ten sampled trees one run finds eight, the best of four all (tests/laws).
_START_RUNS = 4
_START_STEPS = 50
_START_GAIN = 1e-4
# Mean cosine of directions that are drawn around their parent's for want of rows.
_JITTER_COSINE = 0.99


def top_down_directions(passes: Passes, tree: Tree, stream: Stream, restart: int) -> Float64Array:
    """First directions (L, D) of the leaves: the rows of a node are dealt to its children by spherical k-means.

    Below a node that has no more rows than children, directions are drawn close to its own.
    """
    counted = passes.over(Counted())
    directions = np.zeros((len(tree), counted.points.n_features))
    directions[tree.tops] = counted.unit_rows([0])  # for tops in want of rows
    open_groups: list[tuple[int, Passes]] = [(-1, counted)]
    while open_groups:
        node, own = open_groups.pop()
        children = tree.tops if node < 0 else tree.children(node)
        if not len(children):
            continue
        if own.points.n_rows <= len(children):
            below = _below(tree, children)
            draws = stream.generator("jitter", restart, node + 1)
            directions[below] = _jittered(directions[max(node, 0)], len(below), draws)
            continue
        found, parts = _split(own, len(children), stream, restart, node + 1)
        directions[children] = found
        open_groups.extend(zip(children.tolist(), parts, strict=True))
    return directions[tree.leaves]


def _split(
    passes: Passes, n_children: int, stream: Stream, restart: int, index: int
) -> tuple[Float64Array, list[Passes]]:
    """Directions (n_children, D) of groups of rows by spherical k-means, and their rows."""
    points = passes.points
    if n_children == 1:
        return passes.sum(None, 1).directions(otherwise=passes.unit_rows([0])), [passes]
    parameters = kmeans.Parameters(
        n_clusters=n_children,
        init="k-means++",
        n_init=1,
        max_iter=_START_STEPS,
        tol=_START_GAIN,
        algorithm="lloyd",
        refills=True,
    )
    # the draws of a node are its own: those of another do not depend on the shape of the tree around it
    own = Stream(int(stream.generator("top_down", restart, index).integers(0, 2**63)))
    run = best_run(
        lambda number: kmeans.Lloyd(passes, kmeans.initial_state(passes, parameters, own, number), parameters),
        n_restarts=_START_RUNS,
        max_steps=_START_STEPS,
        stopping=RelativeGain(_START_GAIN),
        emitter=Emitter(points.who, (), n_rows=points.n_rows, n_restarts=_START_RUNS, max_steps=_START_STEPS),
    )
    chain: Any = run.chain
    labels = chain.assignment.labels
    return chain.state.directions, [passes.over(Labelled(labels, child)) for child in range(n_children)]


def _below(tree: Tree, nodes: Nodes) -> Nodes:
    """These nodes and all their descendants."""
    is_below = np.zeros(len(tree), dtype=np.bool_)
    is_below[nodes] = True
    for node, parent in enumerate(tree.parents):
        is_below[node] |= parent >= 0 and is_below[parent]
    return np.flatnonzero(is_below)


def _jittered(direction: Float64Array, size: int, draws: np.random.Generator) -> Float64Array:
    """Directions (size, D) close to one."""
    kappa = float(bessel.concentration_from_resultant(len(direction), _JITTER_COSINE))
    return vmf.sample(direction, kappa, size, draws)
