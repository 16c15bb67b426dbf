"""Rows from a tree of directions: each node is drawn around its parent, rows around the leaves.

Like every maker it returns `(X, labels, truth)`: unit rows, the leaf each row was drawn from, and a frozen record of
what was drawn besides. Random numbers are drawn in float64 and rows are cast at the end, so float32 and float64 rows of
one seed are the same points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import ArrayLike, Float64Array, FloatArray, RandomState
from armillary.datasets._drawing import (
    Labels,
    check_sizes,
    check_weights,
    draw_concentrations,
    draw_labels,
    float_dtype,
    uniform,
    vmf_rows,
)
from armillary.distributions import vmf
from armillary.distributions.direction_trees import Tree
from armillary.draws import generator
from armillary.exceptions import ParameterError


@dataclass(frozen=True, eq=False)
class VonMisesFisherTreeTruth:
    """What `make_vmf_tree` drew.

    Examples
    --------
    >>> from armillary.datasets import make_vmf_tree
    >>> _, _, truth = make_vmf_tree(50, 10, height=2, branching=2, random_state=0)
    >>> truth.nodes_at(1).tolist()
    [1, 1, 2, 2]
    """

    parents: npt.NDArray[np.int64]  # (J,) -1 for none
    leaves: npt.NDArray[np.int64]  # (L,) node of each label
    directions: Float64Array  # (J, D) unit
    concentrations: Float64Array  # (J,) of a leaf, that of its rows; of an inner node, that of its children
    weights: Float64Array  # (L,) sum 1

    def nodes_at(self, level: int) -> npt.NDArray[np.int64]:
        """The node of each label (L,) at this depth: what rows belong to there.

        Parameters
        ----------
        level : int
            0 is that of the nodes without a parent.

        Returns
        -------
        array of shape (L,), int64
            Numbers of nodes.
        """
        return Tree.of(self.parents).at_level(level)


def make_vmf_tree(
    n_samples: int,
    n_features: int,
    height: int = 2,
    branching: int = 3,
    *,
    parents: ArrayLike | None = None,
    concentration: Any = None,
    inner_concentration: Any = None,
    weights: Any = None,
    random_state: RandomState = None,
    dtype: npt.DTypeLike = np.float64,
) -> tuple[FloatArray, Labels, VonMisesFisherTreeTruth]:
    """Rows from the leaves of a tree whose directions are drawn from the top down.

    Tops are uniform on the sphere; the direction of any other node is von Mises-Fisher around that of its parent, with
    the parent's concentration.

    Parameters
    ----------
    n_samples, n_features : int
        Rows and dimension (2 or more).
    height, branching : int, default=2 and 3
        A tree with branching^height leaves, `height` steps below its root, node 0.
    parents : array of shape (J,), optional
        In place of the two, any tree: the parent of each node, -1 for none, parents before children.
    concentration : float, (low, high) or array of shape (L,), optional
        Of the rows of leaves: one for all; a tuple for independent draws, uniform in the logarithm; or one for each.
        By default the one for which rows have mean cosine 0.9 with their direction, in any dimension.
    inner_concentration : float, (low, high) or array of shape (I,), optional
        Likewise of inner nodes, for the directions of their children. By default the same mean cosine.
    weights : array-like of shape (L,), optional
        Relative frequencies of the leaves; equal by default. Labels are independent draws.
    random_state : int, Generator, RandomState or None
        An int gives the same data every time.
    dtype : float64 or float32
        Of X.

    Returns
    -------
    X : array of shape (n_samples, n_features)
        Unit rows.
    labels : int64 array of shape (n_samples,)
        Leaves, numbered from 0 in the order of nodes.
    truth : VonMisesFisherTreeTruth

    Examples
    --------
    >>> from armillary.datasets import make_vmf_tree
    >>> X, labels, truth = make_vmf_tree(500, 20, 2, 3, concentration=200.0, random_state=0)
    >>> X.shape, truth.directions.shape, truth.leaves.tolist()
    ((500, 20), (13, 20), [4, 5, 6, 7, 8, 9, 10, 11, 12])
    """
    who = "make_vmf_tree"
    tree = Tree.balanced(height, branching, who=who) if parents is None else Tree.of(parents, who)
    n_leaves, n_inner = len(tree.leaves), len(tree.inner)
    check_sizes(n_samples, n_features, n_leaves, who)
    rng, dtype = generator(random_state), float_dtype(dtype, who)
    shares = check_weights(weights, n_leaves, who)
    concentrations = np.empty(len(tree))
    concentrations[tree.inner] = _inner_concentrations(inner_concentration, n_inner, n_features, rng, who)
    concentrations[tree.leaves] = draw_concentrations(concentration, n_leaves, n_features, rng, who)
    directions = np.empty((len(tree), n_features))
    for node, parent in enumerate(tree.parents):
        if parent < 0:
            directions[node] = uniform(1, n_features, rng)[0]
        else:
            directions[node] = vmf.sample(directions[parent], concentrations[parent], 1, rng)[0]
    labels = draw_labels(n_samples, shares, 0.0, rng, who)
    X = vmf_rows(labels, directions[tree.leaves], concentrations[tree.leaves], rng, dtype)
    truth = VonMisesFisherTreeTruth(np.array(tree.parents), tree.leaves, directions, concentrations, shares)
    return X, labels, truth


def _inner_concentrations(
    concentration: Any, n_inner: int, n_features: int, rng: np.random.Generator, who: str
) -> Float64Array:
    """One concentration for each inner node (I,)."""
    try:
        return draw_concentrations(concentration, n_inner, n_features, rng, who)
    except ParameterError as error:
        said = str(error).replace("`concentration`", "`inner_concentration`").replace("per cluster", "per inner node")
        raise ParameterError(said) from None
