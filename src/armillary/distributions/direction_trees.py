"""Directions on a tree: mu_j ~ vMF(mu_parent, kappa_parent), rows at the leaves.

Model        mu_j ~ vMF(mu_pa(j), kappa_pa(j)), a top node's mu_j ~ vMF(mu_0, C_0); log kappa_j ~ Normal(m, s2);
             a leaf j has the evidence exp(kappa_j R_j . mu_j)                            vmf_mixtures.md, 8
Messages     up: U_j = kappa_j R_j at a leaf, else the sum of M_c over children; M_j = conv(U_j, kappa_pa)
             down: P_j = C_0 mu_0 at the top, else conv(P_pa + U_pa - M_j, kappa_pa)
             mu_j has the natural vector P_j + U_j                                                         8.2
             inner kappa: Normal(y) H(|sum_c M_c + P_j|) / (H(|P_j|) prod_c H(|M_c|)), on a grid of y = log kappa
Factorised   q(mu_j) vMF with E[kappa_j] r_j + e_j, r_j = R_j or the sum of E[mu_c], e_j = E[kappa_pa] E[mu_pa]:
             Gopal and Yang's form, a bound, which underestimates inner concentrations                     8.1

Roots. "random": node 0 is an inner node like others, and its prior C_0 mu_0 is usually 0, the uniform law. "point": the
root is the pair (mu_0, C_0) itself and no node; its children are the tops of the tree. Both are trees here, and `first`
is C_0 mu_0 for the tops. With height 1 and a point root every leaf is a top: P_j = C_0 mu_0, a flat mixture.

How a model alternates. Leaves' counts and rows stay with the model:

    messages     made = messages(tree, resultants, concentrations, first); leaves see made.down[tree.leaves] in place of
                 C_0 mu_0; inner concentrations are those of grid_law(inner_target(tree, made, prior))
    factorised   leaves see pulls(tree, laws, first, tree.leaves); laws = with_leaves(...) takes what they became;
                 inner_sweep and inner_concentrations update the rest; direction_bounds and concentration_bounds are
                 the part of the bound

Arrays have one row per node (J) or per leaf (L, in the order of `tree.leaves`); nodes of a level are updated together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from armillary._typing import ArrayLike, Float64Array
from armillary.distributions import bessel, vmf
from armillary.distributions.concentration_laws import LogLaw, MakeLaw, grid_law
from armillary.distributions.log_concentration import MixturePrior, ProjectedTarget, Target, natural_slope
from armillary.distributions.natural_vectors import convolved, natural_lengths
from armillary.exceptions import InputError, InputTypeError, ParameterError
from armillary.validation import check_choice, check_integer

Nodes = npt.NDArray[np.int64]

ROOTS = ("random", "point")

_MOST_NODES = 1_000_000
# Directions that agree to rounding would ask for an infinite concentration.
_LEAST_GAP = 1e-9
# Where the search for a concentration starts at most, as a mean cosine: children that agree ask for much more.
_MOST_COSINE = 0.99


# ------------------------------------------------------------------------------------------------------------ shape


@dataclass(frozen=True, eq=False)
class Tree:
    """A rooted tree, or several, of J nodes; parents come before their children. Make it by `of` or `balanced`.

    A leaf is a node without children. Nodes without a parent are the tops, of depth 0.
    """

    parents: Nodes  # (J,), -1 at the tops

    @classmethod
    def of(cls, parents: ArrayLike, who: str = "Tree") -> Tree:
        """From the parent of each node, -1 for none; any shape, checked. `who` is the subject of sentences."""
        try:
            given = np.asarray(parents)
        except ValueError as error:
            raise InputError(
                f"The parents of {who} must be one number for each node; got {error}. [-1, 0, 0] is a root with two "
                "leaves."
            ) from error
        if given.ndim != 1 or given.size == 0:
            raise InputError(
                f"The parents of {who} must be one number for each node; got shape {given.shape}. "
                "[-1, 0, 0] is a root with two leaves."
            )
        if given.dtype.kind not in "iu":
            raise InputTypeError(
                f"The parents of {who} must be node numbers, ints; got dtype {given.dtype}. Use -1 for no parent."
            )
        array = given.astype(np.int64)
        is_outside = (array < -1) | (array >= len(array))
        if is_outside.any():
            node = int(np.argmax(is_outside))
            raise InputError(
                f"The parents of {who} must be numbers of its nodes, 0 to {len(array) - 1}, or -1; node {node} has the "
                f"parent {array[node]}. Count nodes from 0."
            )
        is_early = array >= np.arange(len(array))
        if is_early.any():
            raise InputError(_misplaced(array, int(np.argmax(is_early)), who))
        array.flags.writeable = False
        return cls(array)

    @classmethod
    def balanced(cls, height: int, branching: int, root: str = "random", who: str = "Tree") -> Tree:
        """branching^height leaves, `height` steps below the root, level after level.

        With `root="point"` the root is no node: its children are the tops.
        """
        height = check_integer(height, "height", who, low=1)
        branching = check_integer(branching, "branching", who, low=2)
        root = check_choice(root, "root", who, ROOTS)
        # the height first: the power of two large ints is a larger one
        if height > _MOST_NODES.bit_length() or branching**height > _MOST_NODES:
            raise ParameterError(
                f"`height` and `branching` of {who} must make at most {_MOST_NODES} leaves; got {branching} to the "
                f"power {height}. Lower one of them, or give the parents of an unbalanced tree."
            )
        n_inner = sum(branching**depth for depth in range(height))
        parents = np.concatenate([[-1], np.repeat(np.arange(n_inner), branching)])
        if root == "point":
            parents = np.maximum(parents[1:] - 1, -1)
        return cls.of(parents, who)

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def n_children(self) -> Nodes:
        """Children of each node (J,), counted."""
        return np.bincount(self.parents[self.parents >= 0], minlength=len(self))

    @cached_property
    def leaves(self) -> Nodes:
        """Nodes without children, in order (L,)."""
        return np.flatnonzero(self.n_children == 0)

    @cached_property
    def inner(self) -> Nodes:
        """Nodes with children, in order (I,)."""
        return np.flatnonzero(self.n_children > 0)

    @cached_property
    def tops(self) -> Nodes:
        """Nodes without a parent, in order."""
        return np.flatnonzero(self.parents < 0)

    @cached_property
    def depths(self) -> Nodes:
        """Steps from the top (J,)."""
        depths = np.zeros(len(self), dtype=np.int64)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                depths[node] = depths[parent] + 1
        return depths

    @cached_property
    def levels(self) -> list[Nodes]:
        """The nodes of depth 0, 1, ...: no two of a level are parent and child."""
        return [np.flatnonzero(self.depths == depth) for depth in range(int(self.depths.max()) + 1)]

    @property
    def height(self) -> int:
        """The greatest depth."""
        return len(self.levels) - 1

    def children(self, node: int) -> Nodes:
        """The children of a node, in order."""
        return np.flatnonzero(self.parents == node)

    def path(self, node: int) -> list[int]:
        """From a top down to the node, both included."""
        path = [int(node)]
        while self.parents[path[-1]] >= 0:
            path.append(int(self.parents[path[-1]]))
        return path[::-1]

    def at_level(self, level: int) -> Nodes:
        """The node of each leaf (L,) at this depth: its ancestor there, or the leaf where the tree ends above."""
        level = check_integer(level, "level", "Tree", low=0, high=self.height)
        nodes = self.leaves.copy()
        while np.any(self.depths[nodes] > level):
            nodes = np.where(self.depths[nodes] > level, self.parents[nodes], nodes)
        return nodes

    def sum_by_parent(self, values: Float64Array, nodes: Nodes) -> tuple[Nodes, Float64Array]:
        """Parents (n,) of these nodes, none of them tops, and the sums (n, D) of their rows of `values` (J, D)."""
        nodes = nodes[np.argsort(self.parents[nodes], kind="stable")]
        parents, starts = np.unique(self.parents[nodes], return_index=True)
        # row by row: several times as fast as np.add.reduceat on wide rows
        return parents, np.stack([values[group].sum(axis=0) for group in np.split(nodes, starts[1:])])


def _misplaced(parents: Nodes, node: int, who: str) -> str:
    """Why a node cannot have a parent that is not before it, in words."""
    path = [node]
    while parents[path[-1]] >= 0 and parents[path[-1]] not in path:
        path.append(int(parents[path[-1]]))
    again = int(parents[path[-1]])
    if again < 0:
        return (
            f"The parents of {who} must come before their children; node {node} has the parent {parents[node]}. "
            "Number the nodes from the top down, level after level."
        )
    circle = " -> ".join(str(member) for member in [*path[path.index(again) :], again])
    return (
        f"The parents of {who} must lead to a top; they go in a circle: {circle}. "
        "Give one of these nodes the parent -1."
    )


# --------------------------------------------------------------------------------------------------------- messages


@dataclass(frozen=True, eq=False)
class TreeMessages:
    """What the parts of a tree say of the direction of each node, as natural vectors (J, D)."""

    up: Float64Array  # U_j: what the subtree of j says of mu_j
    to_parent: Float64Array  # M_j: what it says of mu_pa(j); 0 at the tops
    down: Float64Array  # P_j: what all else says of mu_j
    dimension: int  # D, also where vectors are given in fewer coordinates

    @property
    def natural_vectors(self) -> Float64Array:
        """(J, D): mu_j is vMF with P_j + U_j; their lengths are its concentrations."""
        return self.down + self.up


def messages(
    tree: Tree,
    resultants: Float64Array,
    concentrations: Float64Array,
    first: Float64Array,
    dimension: int | None = None,
) -> TreeMessages:
    """Up and down the tree once, for resultants (L, D) of leaves, concentrations (J,) of all nodes, and `first` (D,).

    Concentrations are the point values E[kappa_j]; those of inner nodes may be 0 (children are on their own) or
    infinite (children have the direction of their parent). `first` is C_0 mu_0. `dimension` is D where the vectors are
    given in other coordinates (`Span`), and so are those that come back.
    """
    shape = (len(tree), resultants.shape[1])
    dimension = dimension or resultants.shape[1]
    up, to_parent, down = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    up[tree.leaves] = concentrations[tree.leaves, None] * resultants
    for nodes in tree.levels[:0:-1]:
        to_parent[nodes] = convolved(up[nodes], concentrations[tree.parents[nodes]], dimension)
        parents, sums = tree.sum_by_parent(to_parent, nodes)
        up[parents] = sums
    down[tree.tops] = first
    for nodes in tree.levels[1:]:
        parents = tree.parents[nodes]
        others = down[parents] + up[parents] - to_parent[nodes]
        down[nodes] = convolved(others, concentrations[parents], dimension)
    return TreeMessages(up, to_parent, down, dimension)


def message_evidence(tree: Tree, made: TreeMessages) -> float:
    """Log evidence of the leaves' rows given all concentrations: something to watch, since messages have no bound.

    Together with - sum_j n_j log H(kappa_j) it is the log density of all rows over the uniform law, exact for a tree of
    leaves only.
    """
    order = 0.5 * made.dimension - 1.0
    below = tree.parents >= 0
    told = np.asarray(bessel.log_h(order, natural_lengths(made.up[below])))
    told -= np.asarray(bessel.log_h(order, natural_lengths(made.to_parent[below])))
    whole = np.asarray(bessel.log_h(order, natural_lengths(made.natural_vectors[tree.tops])))
    whole -= np.asarray(bessel.log_h(order, natural_lengths(made.down[tree.tops])))
    return float(told.sum() + whole.sum())


@dataclass(frozen=True, eq=False)
class ChildrenTarget(Target):
    """The log density of the log concentrations of I inner nodes, given what their children say (vmf_mixtures.md, 8.2).

    The gain is log H(|sum_c M_c + P|) - sum_c log H(|M_c|) - log H(|P|), where kappa enters through the lengths
    |M_c| = conv(|U_c|, kappa) alone; it is 0 at kappa = 0. Rows are the children's: `counts` are 0.
    """

    lengths: Float64Array  # (I, B) |U_c|; 0 fills up nodes with fewer children, and says nothing
    down: Float64Array  # (I,) |P|
    cosines: Float64Array  # (I, B + 1, B + 1) of U_1 ... U_B and P

    @property
    def mean_lengths(self) -> Float64Array:
        """A(kappa) from pairs of children, whose expected cosine is A(|U_c|) A(|U_d|) A(kappa)^2, or from one and P."""
        own, _ = self._told
        above = np.asarray(bessel.mean_resultant_length(self.dimension, self.down))
        pairs = own[:, :, None] * own[:, None, :]
        apart = ~np.eye(pairs.shape[1], dtype=bool)
        seen = (self.cosines[:, :-1, :-1] * pairs * apart).sum(axis=(1, 2))
        most = (pairs**2 * apart).sum(axis=(1, 2))
        alone = (self.cosines[:, :-1, -1] * own).sum(axis=1) / np.maximum((own**2).sum(axis=1) * above, _LEAST_GAP)
        paired = np.sqrt(np.maximum(seen, 0.0) / np.where(most > 0.0, most, 1.0))
        return np.clip(np.where(most > 0.0, paired, alone), 0.0, _MOST_COSINE)

    def gain(self, kappa: Float64Array) -> Float64Array:
        """What the children agree on, (..., I)."""
        order = 0.5 * self.dimension - 1.0
        sent, _ = self._sent(kappa)
        length = self._combined(sent)[0]
        apart = np.asarray(bessel.log_h(order, sent)).sum(axis=-1) + np.asarray(bessel.log_h(order, self.down))
        return np.asarray(bessel.log_h(order, length)) - apart

    def gain_derivatives(self, kappa: Float64Array) -> tuple[Float64Array, Float64Array]:
        """sum_c d|M_c|/dkappa (u_c . E[mu] - A(|M_c|)), and its derivative.

        |M_c| is differentiated through A(|M_c|) = A(|U_c|) A(kappa), and E[mu] through the Hessian of log H(|w|): A'
        along w, A/|w| across it.
        """
        dimension = self.dimension
        sent, own = self._sent(kappa)
        length, along = self._combined(sent)
        first, second = _two_derivatives(dimension, kappa, np.asarray(bessel.mean_resultant_length(dimension, kappa)))
        sent_first, sent_second = _two_derivatives(dimension, sent, own)
        growth = self._told[0] * first[..., None] / sent_first
        bend = growth * ((second / first)[..., None] - growth * sent_second / sent_first)
        slope = natural_slope(dimension, length)
        excess = slope[..., None] * along[..., :-1] - own
        turned = np.einsum("ibc,...ic->...ib", self.cosines[:, :-1, :-1], growth)  # products of dw with each u_c
        square = np.vecdot(growth, turned)
        is_there = length > 0.0
        ahead = np.vecdot(growth, along[..., :-1]) / np.where(is_there, length, 1.0)  # what dw has along w
        steep = np.asarray(bessel.mean_resultant_derivative(dimension, length))
        both = np.where(is_there, steep * ahead**2 + slope * (square - ahead**2), square / dimension)
        return np.vecdot(growth, excess), np.vecdot(bend, excess) + both - np.vecdot(growth**2, sent_first)

    @cached_property
    def _told(self) -> tuple[Float64Array, Float64Array]:
        """A(|U_c|) and 1 - A(|U_c|), (I, B) each."""
        return (
            np.asarray(bessel.mean_resultant_length(self.dimension, self.lengths)),
            np.asarray(bessel.mean_resultant_complement(self.dimension, self.lengths)),
        )

    def _sent(self, kappa: Float64Array) -> tuple[Float64Array, Float64Array]:
        """|M_c| (..., I, B) and A(|M_c|): `conv`, with what does not change taken out."""
        told, untold = self._told
        gap = np.asarray(bessel.mean_resultant_complement(self.dimension, kappa))[..., None]
        own = told * np.asarray(bessel.mean_resultant_length(self.dimension, kappa))[..., None]
        sent = bessel.concentration_from_resultant(self.dimension, own, complement=untold + gap * told)
        return np.asarray(sent), own

    def _combined(self, sent: Float64Array) -> tuple[Float64Array, Float64Array]:
        """|w| (..., I) of w = sum_c M_c + P, and its products (..., I, B + 1) with the directions of U_c and P."""
        above = np.broadcast_to(self.down[:, None], (*sent.shape[:-1], 1))
        parts = np.concatenate([sent, above], axis=-1)
        along = np.einsum("ibc,...ic->...ib", self.cosines, parts)
        return np.sqrt(np.maximum(np.vecdot(parts, along), 0.0)), along


def _two_derivatives(dimension: int, kappa: Float64Array, length: Float64Array) -> tuple[Float64Array, Float64Array]:
    """A' and A'' at kappa, where A is `length`; A'' is that of A' = 1 - A^2 - (D-1) A/kappa, and 0 at 0."""
    first = np.asarray(bessel.mean_resultant_derivative(dimension, kappa))
    is_there = kappa > 0.0
    above = np.where(is_there, kappa, 1.0)
    second = -2.0 * length * first - (dimension - 1.0) * (first - length / above) / above
    return first, np.where(is_there, second, 0.0)


def inner_target(tree: Tree, made: TreeMessages, prior: MixturePrior) -> ChildrenTarget:
    """The target of the log concentrations of the inner nodes, in the order of `tree.inner`, for `grid_law`.

    Of `prior`, that of inner concentrations, m and s2 are used. What the children and the rest of the tree say does not
    depend on a node's own concentration, so `made` may have been computed with any value of it.
    """
    n_most = int(tree.n_children.max(initial=0))
    vectors = np.zeros((len(tree.inner), n_most + 1, made.up.shape[1]))
    for number, node in enumerate(tree.inner):
        children = tree.children(node)
        vectors[number, : len(children)] = made.up[children]
    vectors[:, -1] = made.down[tree.inner]
    lengths = natural_lengths(vectors)
    vectors /= np.where(lengths > 0.0, lengths, 1.0)[..., None]
    cosines = vectors @ vectors.swapaxes(1, 2)
    return ChildrenTarget(np.zeros(len(tree.inner)), prior, lengths[:, :-1], lengths[:, -1], cosines)


# ------------------------------------------------------------------------------------------------------- factorised


@dataclass(frozen=True, eq=False)
class TreeLaws:
    """q(mu_j) q(kappa_j) of all nodes: what neighbours on the tree and the bound need of them."""

    means: Float64Array  # (J, D) E[mu]
    entropies: Float64Array  # (J,) of mu, relative to the uniform law
    concentrations: Float64Array  # (J,) E[kappa]
    log_h: Float64Array  # (J,) E[log H(kappa)]
    n_columns: int | None = None  # D, where means are given in other coordinates

    @property
    def dimension(self) -> int:
        """D."""
        return self.n_columns or self.means.shape[1]


def first_laws(
    tree: Tree,
    means: Float64Array,
    entropies: Float64Array,
    concentrations: Float64Array,
    log_h: Float64Array,
    n_columns: int | None = None,
) -> TreeLaws:
    """Laws to start from, given those of the leaves: E[mu] (L, D), and (L,) each of the rest (vmf_mixtures.md, 8.3).

    From the bottom up, an inner node takes the direction of its children's sum r and the concentration A^-1(|r|/n) that
    n children ask for.
    """
    nothing = np.zeros(len(tree))
    laws = TreeLaws(np.zeros((len(tree), means.shape[1])), nothing, nothing, nothing, n_columns)
    laws = with_leaves(tree, laws, means, entropies, concentrations, log_h)
    for nodes in tree.levels[:0:-1]:
        parents, sums = tree.sum_by_parent(laws.means, nodes)
        shares = np.minimum(natural_lengths(sums) / tree.n_children[parents], 1.0 - _LEAST_GAP)
        kappa = np.asarray(bessel.concentration_from_resultant(laws.dimension, shares))
        _set_directions(laws, parents, kappa[:, None] * sums)  # these arrays are new
        log_h_now = np.asarray(bessel.log_h(0.5 * laws.dimension - 1.0, kappa))
        laws = _with_concentrations(laws, parents, kappa, log_h_now)
    return laws


def with_leaves(
    tree: Tree,
    laws: TreeLaws,
    means: Float64Array,
    entropies: Float64Array,
    concentrations: Float64Array,
    log_h: Float64Array,
) -> TreeLaws:
    """The same laws with other leaves: E[mu] (L, D), entropies of mu, E[kappa] and E[log H(kappa)] (L,)."""
    return replace(
        laws,
        means=_replaced(laws.means, tree.leaves, means),
        entropies=_replaced(laws.entropies, tree.leaves, entropies),
        concentrations=_replaced(laws.concentrations, tree.leaves, concentrations),
        log_h=_replaced(laws.log_h, tree.leaves, log_h),
    )


def pulls(tree: Tree, laws: TreeLaws, first: Float64Array, nodes: Nodes) -> Float64Array:
    """e_j (n, D) of these nodes: E[kappa_pa] E[mu_pa], and `first` = C_0 mu_0 (D,) at the tops.

    To a leaf it is what C_0 mu_0 is to a component of a flat mixture.
    """
    parents = tree.parents[nodes]
    offered = laws.concentrations[parents, None] * laws.means[parents]
    return np.where((parents >= 0)[:, None], offered, first)


def update_directions(
    tree: Tree, laws: TreeLaws, first: Float64Array, nodes: Nodes, resultants: Float64Array | None = None
) -> TreeLaws:
    """The best q(mu_j) of some nodes given the others: E[kappa_j] r_j + e_j.

    No two of the nodes may be parent and child: nodes of a level are safe. Leaves among them need the `resultants`
    (L, D) of all leaves.
    """
    new = replace(laws, means=laws.means.copy(), entropies=laws.entropies.copy())
    _turn(tree, new, first, nodes, resultants)
    return new


def inner_sweep(tree: Tree, laws: TreeLaws, first: Float64Array) -> TreeLaws:
    """Directions of all inner nodes, from the bottom up and down again; leaves stay. The bound does not decrease."""
    new = replace(laws, means=laws.means.copy(), entropies=laws.entropies.copy())
    levels = [nodes[tree.n_children[nodes] > 0] for nodes in tree.levels]
    for nodes in [*reversed(levels), *levels[1:]]:
        _turn(tree, new, first, nodes)
    return new


def _turn(
    tree: Tree, laws: TreeLaws, first: Float64Array, nodes: Nodes, resultants: Float64Array | None = None
) -> None:
    """`update_directions`, into the arrays of `laws` themselves."""
    sums = np.zeros((len(nodes), laws.means.shape[1]))
    children = np.flatnonzero(np.isin(tree.parents, nodes))
    if len(children):
        parents, found = tree.sum_by_parent(laws.means, children)
        sums[tree.n_children[nodes] > 0] = found[np.searchsorted(parents, nodes[tree.n_children[nodes] > 0])]
    if resultants is not None:
        is_leaf = tree.n_children[nodes] == 0
        sums[is_leaf] = resultants[np.searchsorted(tree.leaves, nodes[is_leaf])]
    sums *= laws.concentrations[nodes, None]
    sums += pulls(tree, laws, first, nodes)
    _set_directions(laws, nodes, sums)


def inner_concentrations(
    tree: Tree, laws: TreeLaws, prior: MixturePrior, make_law: MakeLaw = grid_law
) -> tuple[TreeLaws, LogLaw]:
    """The best q(log kappa_j) of the inner nodes for the present directions: the laws with it, and the law itself (I).

    The n children of a node are to it what rows are to a component: the target is -n log H(kappa) + kappa E[mu_j].r_j
    and the Normal(m, s2) of `prior`.
    """
    children = np.flatnonzero(tree.parents >= 0)
    parents, sums = tree.sum_by_parent(laws.means, children)  # the parents are the inner nodes, in order
    counts = tree.n_children[parents].astype(np.float64)
    law = make_law(ProjectedTarget(counts, prior, np.vecdot(laws.means[parents], sums)))
    return _with_concentrations(laws, parents, law.concentrations, law.log_h), law


def link_normalisers(tree: Tree, laws: TreeLaws, first: Float64Array) -> Float64Array:
    """E[log H(kappa_pa)] (J,), and log H(C_0) at the tops.

    A leaf whose part of the bound was taken as that of a flat component with the prior vector e_j has log H(|e_j|) in
    its place: add log H(|e_j|) and take this away.
    """
    order = 0.5 * laws.dimension - 1.0
    at_top = float(bessel.log_h(order, float(np.linalg.norm(first))))
    return np.where(tree.parents >= 0, laws.log_h[tree.parents], at_top)


def direction_bounds(tree: Tree, laws: TreeLaws, first: Float64Array) -> Float64Array:
    """What the direction of each node (J,) has of the evidence bound: E[log p(mu_j | parent)] + entropy.

    Leaves are included, with the entropies they came with. The rows add E[kappa_j mu_j].R_j - n_j E[log H(kappa_j)] for
    each leaf (the area terms cancel, one per node), and concentrations have `concentration_bounds`.
    """
    nodes = np.arange(len(tree))
    links = np.vecdot(pulls(tree, laws, first, nodes), laws.means) - link_normalisers(tree, laws, first)
    return np.asarray(links + laws.entropies)


def concentration_bounds(law: LogLaw, prior: MixturePrior) -> Float64Array:
    """What q(log kappa) of each node has of the evidence bound: E[log Normal(y | m, s2)] + entropy."""
    nothing = np.zeros_like(law.entropies)
    # the target of a node that nobody says anything about is its prior
    return law.mean(ProjectedTarget(nothing, prior, nothing).value(law.nodes)) + law.entropies


def _set_directions(laws: TreeLaws, nodes: Nodes, natural: Float64Array) -> None:
    """Give some nodes the directions with these natural vectors (n, D), in the arrays of `laws` themselves."""
    lengths = natural_lengths(natural)
    laws.means[nodes] = natural_slope(laws.dimension, lengths)[:, None] * natural
    laws.entropies[nodes] = vmf.relative_entropy(laws.dimension, lengths)


def _with_concentrations(laws: TreeLaws, nodes: Nodes, kappa: Float64Array, log_h: Float64Array) -> TreeLaws:
    return replace(
        laws,
        concentrations=_replaced(laws.concentrations, nodes, kappa),
        log_h=_replaced(laws.log_h, nodes, log_h),
    )


def _replaced(array: Float64Array, nodes: Nodes, values: Float64Array) -> Float64Array:
    new = array.copy()
    new[nodes] = values
    return new
