"""A fitted tree to look at: its nodes one by one, as scikit-learn's `children_`, and as Newick and JSON text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from armillary._typing import Float64Array
from armillary.distributions.direction_trees import Nodes, Tree

# Newick names made of other characters are put in quotes.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.+-]+")


@dataclass(frozen=True, eq=False)
class TreeNode:
    """One node of a fitted tree."""

    number: int
    parent: int | None
    children: tuple[int, ...]  # none: a leaf
    level: int  # steps from the top
    path: tuple[int, ...]  # numbers from the top to this node, both included
    component: int | None  # of a leaf: its place in `means_`, `weights_` and what `predict` gives
    direction: Float64Array  # (D,)
    concentration: float  # of a leaf, that of its rows; of an inner node, that of its children's directions
    weight: float  # expected, of all leaves below
    count: float  # expected rows of all leaves below

    @property
    def is_leaf(self) -> bool:
        """Whether rows are here."""
        return not self.children

    def __repr__(self) -> str:
        kind = f"component {self.component}" if self.is_leaf else f"{len(self.children)} children"
        return (
            f"TreeNode({self.number}, level {self.level}, {kind}, count {self.count:.4g}, "
            f"concentration {self.concentration:.4g})"
        )


def sum_below(tree: Tree, of_leaves: Float64Array) -> Float64Array:
    """Sums (J,) over the leaves below each node of values of the leaves (L,)."""
    sums = np.zeros(len(tree))
    sums[tree.leaves] = of_leaves
    for node in range(len(tree) - 1, -1, -1):  # parents come before their children
        if tree.parents[node] >= 0:
            sums[tree.parents[node]] += sums[node]
    return sums


def tree_nodes(
    tree: Tree, directions: Float64Array, concentrations: Float64Array, weights: Float64Array, counts: Float64Array
) -> list[TreeNode]:
    """The nodes in order, given directions (J, D) and concentrations (J,) of all, and weights and counts (L,)."""
    all_weights, all_counts = sum_below(tree, weights), sum_below(tree, counts)
    components = {int(leaf): component for component, leaf in enumerate(tree.leaves)}
    return [
        TreeNode(
            number=node,
            parent=None if tree.parents[node] < 0 else int(tree.parents[node]),
            children=tuple(tree.children(node).tolist()),
            level=int(tree.depths[node]),
            path=tuple(tree.path(node)),
            component=components.get(node),
            direction=directions[node],
            concentration=float(concentrations[node]),
            weight=float(all_weights[node]),
            count=float(all_counts[node]),
        )
        for node in range(len(tree))
    ]


def merges(tree: Tree) -> Nodes:
    """The children (I, B) of each inner node in scikit-learn's numbering, filled up with -1.

    There the leaves are 0 to L - 1, and row i is the node L + i; children come before their parents.
    """
    numbers = np.empty(len(tree), dtype=np.int64)
    numbers[tree.leaves] = np.arange(len(tree.leaves))
    upward = tree.inner[::-1]
    numbers[upward] = len(tree.leaves) + np.arange(len(upward))
    table = np.full((len(upward), int(tree.n_children.max(initial=0))), -1, dtype=np.int64)
    for row, node in enumerate(upward):
        children = tree.children(node)
        table[row, : len(children)] = numbers[children]
    return table


def newick(tree: Tree, names: Sequence[str], lengths: Sequence[float | None]) -> str:
    """The tree as Newick text: names (J) of nodes, and how far each is from its parent, None where that is not known.

    Several tops hang from a root without a name.
    """

    def written(node: int) -> str:
        below = tree.children(node)
        inside = "(" + ",".join(written(int(child)) for child in below) + ")" if len(below) else ""
        length = lengths[node]
        return inside + _newick_name(names[node]) + ("" if length is None else f":{length:.6g}")

    tops = [written(int(top)) for top in tree.tops]
    return (tops[0] if len(tops) == 1 else "(" + ",".join(tops) + ")") + ";"


def _newick_name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "'" + name.replace("'", "''") + "'"


def nested_json(nodes: Sequence[TreeNode], extra: Sequence[dict[str, Any]], indent: int | None) -> str:
    """The tree as JSON: {"children": [top, ...]}, where each node is an object with its own list of children.

    `extra` has more entries for each node.
    """

    def written(node: TreeNode) -> dict[str, Any]:
        return {
            "node": node.number,
            "level": node.level,
            "component": node.component,
            "concentration": node.concentration,
            "weight": node.weight,
            "count": node.count,
            **extra[node.number],
            "children": [written(nodes[child]) for child in node.children],
        }

    return json.dumps({"children": [written(node) for node in nodes if node.parent is None]}, indent=indent)
