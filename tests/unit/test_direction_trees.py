"""Trees of directions: shapes and their sentences, messages at their limits, targets, the factorised form's bound."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from armillary.distributions import bessel, vmf
from armillary.distributions import direction_trees as dt
from armillary.distributions import natural_vectors as nv
from armillary.distributions.concentration_laws import find_modes, grid_law
from armillary.distributions.log_concentration import MixturePrior
from armillary.exceptions import InputError, InputTypeError, ParameterError

# a leaf beside two inner nodes; a chain of single children; several tops, one of them a leaf; a leaf alone
SHAPES = {
    "random root": [-1, 0, 0, 0, 1, 1, 1, 2, 2],
    "point root": [-1, -1, 0, 0, 0, 1, 1],
    "unbalanced": [-1, 0, 0, 0, 1, 1, 1, 3, 7, 7],
    "single children": [-1, 0, 1, 2],
    "several tops": [-1, -1, 0, -1, 0, 2, 2, 1],
    "a leaf": [-1],
}
every_shape = pytest.mark.parametrize("parents", SHAPES.values(), ids=SHAPES)
every_strength = pytest.mark.parametrize("strength", [0.0, 3.0])  # of the prior of the tops


def problem(parents, dimension, strength=3.0, seed=0):
    """A tree, resultants of its leaves (one without rows), first vector and concentrations."""
    tree = dt.Tree.of(parents)
    rng = np.random.default_rng(seed)
    resultants = rng.standard_normal((len(tree.leaves), dimension)) + 2.0 * rng.standard_normal(dimension)
    if len(resultants) > 2:
        resultants[1] = 0.0
    first = rng.standard_normal(dimension)
    kappas = rng.uniform(3.0, 30.0, len(tree))
    return tree, resultants, strength * first / np.linalg.norm(first), kappas


def prior(dimension, log_mean=2.0, log_variance=1.5):
    return MixturePrior(np.eye(dimension)[0], 0.0, log_mean, log_variance)


def start(tree, kappas, dimension):
    """Directions nobody knows anything of."""
    log_h = np.asarray(bessel.log_h(0.5 * dimension - 1.0, kappas))
    return dt.TreeLaws(np.zeros((len(tree), dimension)), np.zeros(len(tree)), kappas, log_h)


def row_bound(tree, laws, resultants):
    """What rows add, less the terms that stay."""
    return float((laws.concentrations[tree.leaves] * np.vecdot(resultants, laws.means[tree.leaves])).sum())


# ------------------------------------------------------------------------------------------------------------ shape


def test_a_balanced_tree():
    tree = dt.Tree.balanced(3, 4)
    assert len(tree) == 1 + 4 + 16 + 64
    assert [len(level) for level in tree.levels] == [1, 4, 16, 64]
    np.testing.assert_array_equal(tree.leaves, np.arange(21, 85))
    np.testing.assert_array_equal(tree.children(2), [9, 10, 11, 12])
    assert tree.path(84) == [0, 4, 20, 84]
    assert tree.height == 3


def test_a_point_root_is_no_node():
    tree = dt.Tree.balanced(2, 3, root="point")
    assert len(tree) == 3 + 9
    np.testing.assert_array_equal(tree.tops, [0, 1, 2])
    np.testing.assert_array_equal(tree.children(1), [6, 7, 8])
    assert tree.path(8) == [1, 8]
    flat = dt.Tree.balanced(1, 5, root="point")
    np.testing.assert_array_equal(flat.parents, np.full(5, -1))
    np.testing.assert_array_equal(flat.leaves, np.arange(5))
    assert len(flat.inner) == 0


def test_an_unbalanced_tree():
    tree = dt.Tree.of(SHAPES["unbalanced"])
    np.testing.assert_array_equal(tree.leaves, [2, 4, 5, 6, 8, 9])
    np.testing.assert_array_equal(tree.inner, [0, 1, 3, 7])
    np.testing.assert_array_equal(tree.depths, [0, 1, 1, 1, 2, 2, 2, 2, 3, 3])
    np.testing.assert_array_equal(tree.n_children, [3, 3, 0, 1, 0, 0, 0, 2, 0, 0])
    np.testing.assert_array_equal(np.concatenate(tree.levels), np.arange(10))
    np.testing.assert_array_equal(tree.at_level(0), np.zeros(6))
    np.testing.assert_array_equal(tree.at_level(1), [2, 1, 1, 1, 3, 3])
    np.testing.assert_array_equal(tree.at_level(2), [2, 4, 5, 6, 7, 7])
    np.testing.assert_array_equal(tree.at_level(3), tree.leaves)
    parents, sums = tree.sum_by_parent(np.arange(20.0).reshape(10, 2), np.array([9, 4, 8, 6]))
    np.testing.assert_array_equal(parents, [1, 7])
    np.testing.assert_array_equal(sums, [[20.0, 22.0], [34.0, 36.0]])


def test_a_tree_cannot_be_changed_by_its_array():
    given = np.array([-1, 0, 0])
    tree = dt.Tree.of(given)
    given[2] = 1
    np.testing.assert_array_equal(tree.parents, [-1, 0, 0])
    with pytest.raises(ValueError, match="read-only"):
        tree.parents[0] = 3


@pytest.mark.parametrize(
    ("parents", "sentence"),
    [
        ([], r"must be one number for each node; got shape \(0,\)\. \[-1, 0, 0\] is a root with two leaves"),
        ([[-1, 0]], r"must be one number for each node; got shape \(1, 2\)"),
        ([-1, 0, 7], r"0 to 2, or -1; node 2 has the parent 7\. Count nodes from 0"),
        ([-1, -2], r"0 to 1, or -1; node 1 has the parent -2"),
        ([-1, 2, 0], r"must come before their children; node 1 has the parent 2\. Number the nodes from the top down"),
        ([-1, 1], r"must lead to a top; they go in a circle: 1 -> 1\. Give one of these nodes the parent -1"),
        ([-1, 2, 3, 1], r"they go in a circle: 1 -> 2 -> 3 -> 1"),
        ([3, -1, 3, 2], r"they go in a circle: 3 -> 2 -> 3"),
    ],
)
def test_sentences_of_parents(parents, sentence):
    with pytest.raises(InputError, match=sentence):
        dt.Tree.of(np.array(parents, dtype=np.int64))


def test_more_sentences():
    with pytest.raises(InputTypeError, match=r"must be node numbers, ints; got dtype float64\. Use -1 for no parent"):
        dt.Tree.of([-1.0, 0.0])
    with pytest.raises(ParameterError, match="`height` of Model must be an int >= 1; got 0"):
        dt.Tree.balanced(0, 3, who="Model")
    with pytest.raises(ParameterError, match="`branching` of Tree must be an int >= 2; got 1"):
        dt.Tree.balanced(2, 1)
    with pytest.raises(ParameterError, match="`root` of Tree must be one of 'random', 'point'; got 'fixed'"):
        dt.Tree.balanced(2, 2, root="fixed")
    for height in (10, 10**9):
        with pytest.raises(ParameterError, match=rf"at most 1000000 leaves; got 10 to the power {height}\. Lower one"):
            dt.Tree.balanced(height, 10)
    with pytest.raises(ParameterError, match="`level` of Tree must be an int from 0 to 1; got 2"):
        dt.Tree.of([-1, 0]).at_level(2)


# --------------------------------------------------------------------------------------------------------- messages


def test_height_one_with_a_point_root_is_a_flat_mixture():
    tree, resultants, first, kappas = problem(dt.Tree.balanced(1, 4, root="point").parents, 9)
    made = dt.messages(tree, resultants, kappas, first)
    np.testing.assert_array_equal(made.down, np.broadcast_to(first, (4, 9)))
    np.testing.assert_array_equal(made.up, kappas[:, None] * resultants)
    order = 0.5 * 9 - 1.0
    exact = bessel.log_h(order, nv.natural_lengths(made.up + first)).sum() - 4.0 * bessel.log_h(order, 3.0)
    assert dt.message_evidence(tree, made) == pytest.approx(exact, rel=1e-13)
    laws = dt.update_directions(tree, start(tree, kappas, 9), first, tree.leaves, resultants)
    bound = dt.direction_bounds(tree, laws, first).sum() + row_bound(tree, laws, resultants)
    assert bound == pytest.approx(exact, rel=1e-12)
    np.testing.assert_array_equal(dt.pulls(tree, laws, first, tree.leaves), made.down)


def test_messages_by_hand():
    tree, resultants, first, kappas = problem([-1, 0, 0, 1, 1], 5)
    made = dt.messages(tree, resultants, kappas, first)
    own = kappas[[2, 3, 4], None] * resultants
    m2, m3, m4 = (nv.convolved(v, k) for v, k in zip(own, kappas[[0, 1, 1]], strict=True))
    u1 = m3 + m4
    m1 = nv.convolved(u1, kappas[0])
    np.testing.assert_allclose(made.up, [m1 + m2, u1, *own], rtol=1e-13)
    np.testing.assert_allclose(made.to_parent, [np.zeros(5), m1, m2, m3, m4], rtol=1e-13)
    p1, p2 = nv.convolved(first + m2, kappas[0]), nv.convolved(first + m1, kappas[0])
    p3, p4 = nv.convolved(p1 + m4, kappas[1]), nv.convolved(p1 + m3, kappas[1])
    np.testing.assert_allclose(made.down, [first, p1, p2, p3, p4], rtol=1e-11, atol=1e-12)


@every_shape
def test_rigid_trees_have_one_direction_for_each_top(parents):
    tree, resultants, first, kappas = problem(parents, 6)
    kappas[tree.inner] = np.inf
    made = dt.messages(tree, resultants, kappas, first)
    top_of_leaf = tree.at_level(0)
    for top in tree.tops:
        of_top = top_of_leaf == top
        total = first + kappas[tree.leaves][of_top] @ resultants[of_top]
        below = [node for node in range(len(tree)) if tree.path(node)[0] == top]
        np.testing.assert_allclose(made.natural_vectors[below], np.tile(total, (len(below), 1)), rtol=1e-11, atol=1e-11)


@every_shape
def test_trees_that_forget_all_leave_leaves_alone(parents):
    tree, resultants, first, kappas = problem(parents, 6)
    kappas[tree.inner] = 0.0
    made = dt.messages(tree, resultants, kappas, first)
    is_top = (tree.parents < 0)[:, None]
    np.testing.assert_array_equal(made.down, np.where(is_top, first, 0.0))
    np.testing.assert_array_equal(made.to_parent, 0.0)


@every_shape
def test_the_numbers_of_nodes_do_not_matter(parents):
    tree, resultants, first, kappas = problem(parents, 7)
    # another order with parents first: by a random key that grows downwards
    keys = tree.depths + np.random.default_rng(1).uniform(0.0, 1.0, len(tree))
    order = np.argsort(keys)
    new = np.argsort(order)
    other = dt.Tree.of(np.where(tree.parents[order] >= 0, new[tree.parents[order]], -1))
    by_node = np.zeros((len(tree), 7))
    by_node[tree.leaves] = resultants
    moved = dt.messages(other, by_node[order][other.leaves], kappas[order], first)
    made = dt.messages(tree, resultants, kappas, first)
    np.testing.assert_allclose(moved.natural_vectors, made.natural_vectors[order], rtol=1e-10, atol=1e-11)
    assert dt.message_evidence(other, moved) == pytest.approx(dt.message_evidence(tree, made), rel=1e-12)


# ---------------------------------------------------------------------------------------------- inner concentrations


@pytest.mark.parametrize("dimension", [2, 3, 200])
@pytest.mark.parametrize("parents", [SHAPES["unbalanced"], SHAPES["single children"], SHAPES["several tops"]])
def test_derivatives_of_the_target_are_those_of_its_value(dimension, parents):
    tree, resultants, first, kappas = problem(parents, dimension)
    target = dt.inner_target(tree, dt.messages(tree, 3.0 * resultants, kappas, first), prior(dimension))
    for y in (-2.0, 1.0, 3.0, 6.0):
        at, h = np.full(len(tree.inner), y), 1e-4
        slope, curvature = target.derivatives(at)
        np.testing.assert_allclose(
            (target.value(at + h) - target.value(at - h)) / (2.0 * h), slope, rtol=1e-5, atol=1e-5
        )
        by_slopes = (target.derivatives(at + h)[0] - target.derivatives(at - h)[0]) / (2.0 * h)
        np.testing.assert_allclose(by_slopes, curvature, rtol=1e-4, atol=1e-4)
    modes, _ = find_modes(target)
    for side in (-0.1, 0.1):
        assert np.all(target.value(modes + side) < target.value(modes))


def test_the_target_is_that_of_the_vectors_themselves():
    tree, resultants, first, kappas = problem(SHAPES["unbalanced"], 8)
    made = dt.messages(tree, resultants, kappas, first)
    target = dt.inner_target(tree, made, prior(8))
    for number, node in enumerate(tree.inner):
        sent = [nv.convolved(made.up[child], kappas[node]) for child in tree.children(node)]
        order = 3.0
        exact = (
            bessel.log_h(order, np.linalg.norm(sum(sent) + made.down[node]))
            - sum(bessel.log_h(order, np.linalg.norm(vector)) for vector in sent)
            - bessel.log_h(order, np.linalg.norm(made.down[node]))
        )
        assert target.gain(kappas[tree.inner])[number] == pytest.approx(exact, rel=1e-11, abs=1e-12)
    np.testing.assert_allclose(target.gain(np.full((2, 4), 1e-9)), 0.0, atol=1e-8)


def test_the_evidence_changes_by_the_gain():
    # messages do not see a node's own concentration, and the evidence sees it through the gain alone
    tree, resultants, first, kappas = problem(SHAPES["several tops"], 8)
    made = dt.messages(tree, resultants, kappas, first)
    others = kappas.copy()
    top = tree.inner[0]
    others[top] = 3.0 * kappas[top]
    changed = dt.messages(tree, resultants, others, first)
    gain = dt.inner_target(tree, made, prior(8)).gain(np.stack([kappas, others])[:, tree.inner])[:, 0]
    difference = dt.message_evidence(tree, changed) - dt.message_evidence(tree, made)
    assert gain[1] - gain[0] == pytest.approx(difference, rel=1e-9)


def test_concentrations_from_what_children_say():
    rng = np.random.default_rng(0)
    tree = dt.Tree.of([-1, *[0] * 40])
    from_pole = np.full((40, 3), [0.0, 0.0, 1.0])
    from_pole[:, :2] += 0.3 * rng.standard_normal((40, 2))
    kappas = np.full(41, 1e5)
    made = dt.messages(tree, from_pole, kappas, np.zeros(3))
    law = grid_law(dt.inner_target(tree, made, prior(3, log_variance=100.0)))
    units = from_pole / np.linalg.norm(from_pole, axis=1, keepdims=True)
    # children that are known are rows: the estimate is that of forty rows, to the posterior's own width
    expected = bessel.concentration_from_resultant(3, float(np.linalg.norm(units.mean(axis=0))))
    assert law.concentrations[0] == pytest.approx(expected, rel=0.08)
    target = dt.inner_target(tree, made, prior(3))
    assert bessel.concentration_from_resultant(3, target.mean_lengths)[0] == pytest.approx(expected, rel=0.08)


def test_a_tree_of_leaves_has_no_inner_target():
    tree, resultants, first, kappas = problem([-1, -1], 4)
    target = dt.inner_target(tree, dt.messages(tree, resultants, kappas, first), prior(4))
    assert target.gain(np.zeros((3, 0))).shape == (3, 0)


# ------------------------------------------------------------------------------------------------------- factorised


@every_shape
@every_strength
@pytest.mark.parametrize("dimension", [3, 80])
def test_the_bound_rises_with_every_single_update(parents, strength, dimension):
    tree, resultants, first, kappas = problem(parents, dimension, strength)
    inner_prior = prior(dimension)
    laws = start(tree, kappas, dimension)
    law = None
    if len(tree.inner):
        laws, law = dt.inner_concentrations(tree, laws, inner_prior)

    def bound(laws, law):
        total = dt.direction_bounds(tree, laws, first).sum() + row_bound(tree, laws, resultants)
        return float(total) + (0.0 if law is None else float(dt.concentration_bounds(law, inner_prior).sum()))

    before = bound(laws, law)
    for _, nodes in itertools.product(range(5), [*tree.levels[::-1], *tree.levels[1:]]):
        laws = dt.update_directions(tree, laws, first, nodes, resultants)
        after = bound(laws, law)
        assert after >= before - 1e-9
        before = after
        if len(tree.inner):
            laws, law = dt.inner_concentrations(tree, laws, inner_prior)
            after = bound(laws, law)
            assert after >= before - 1e-8  # quadrature: 1e-12 of log Z for each node
            laws = dt.inner_sweep(tree, laws, first)
            assert bound(laws, law) >= after - 1e-9
            before = bound(laws, law)


@every_shape
@every_strength
def test_an_update_is_the_best_there_is(parents, strength):
    tree, resultants, first, kappas = problem(parents, 5, strength)
    rng = np.random.default_rng(3)
    laws = start(tree, kappas, 5)
    for nodes in tree.levels[::-1]:
        laws = dt.update_directions(tree, laws, first, nodes, resultants)
    for node in range(len(tree)):
        laws = dt.update_directions(tree, laws, first, np.array([node]), resultants)
        peak = dt.direction_bounds(tree, laws, first).sum() + row_bound(tree, laws, resultants)
        length = bessel.concentration_from_resultant(5, float(np.linalg.norm(laws.means[node])))
        own = laws.means[node] / np.linalg.norm(laws.means[node]) * length
        for size in (0.1, 3.0):
            means, entropies = laws.means.copy(), laws.entropies.copy()
            natural = own + size * rng.standard_normal(5)
            means[node] = nv.natural_means(natural)
            entropies[node] = vmf.relative_entropy(5, np.linalg.norm(natural))
            other = dt.TreeLaws(means, entropies, laws.concentrations, laws.log_h)
            assert dt.direction_bounds(tree, other, first).sum() + row_bound(tree, other, resultants) < peak


def test_levels_are_updated_as_their_nodes_one_by_one():
    tree, resultants, first, kappas = problem(SHAPES["unbalanced"], 5)
    laws = start(tree, kappas, 5)
    for nodes in tree.levels[::-1]:
        one_by_one = laws
        for node in nodes:
            one_by_one = dt.update_directions(tree, one_by_one, first, np.array([node]), resultants)
        laws = dt.update_directions(tree, laws, first, nodes, resultants)
        np.testing.assert_allclose(laws.means, one_by_one.means, rtol=1e-13, atol=1e-15)


def test_a_sweep_leaves_the_leaves():
    tree, resultants, first, kappas = problem(SHAPES["unbalanced"], 5)
    laws = dt.update_directions(tree, start(tree, kappas, 5), first, tree.leaves, resultants)
    swept = dt.inner_sweep(tree, laws, first)
    np.testing.assert_array_equal(swept.means[tree.leaves], laws.means[tree.leaves])
    assert np.all(np.linalg.norm(swept.means[tree.inner], axis=1) > 0.0)


@pytest.mark.parametrize("parents", [SHAPES["unbalanced"], SHAPES["single children"]])
def test_first_laws_ask_for_what_children_show(parents):
    tree, resultants, _, kappas = problem(parents, 5)
    leaves = tree.leaves
    natural = kappas[leaves, None] * (resultants + 0.1)
    leaf_laws = (
        nv.natural_means(natural),
        vmf.relative_entropy(5, nv.natural_lengths(natural)),
        kappas[leaves],
        np.asarray(bessel.log_h(1.5, kappas[leaves])),
    )
    laws = dt.first_laws(tree, *leaf_laws)
    np.testing.assert_array_equal(laws.means[leaves], leaf_laws[0])
    np.testing.assert_array_equal(laws.log_h[leaves], leaf_laws[3])
    for node in tree.inner:
        total = laws.means[tree.children(node)].sum(axis=0)
        share = np.linalg.norm(total) / len(tree.children(node))
        assert bessel.mean_resultant_length(5, laws.concentrations[node]) == pytest.approx(share, rel=1e-10)
        np.testing.assert_allclose(laws.means[node], nv.natural_means(laws.concentrations[node] * total), rtol=1e-10)
        assert laws.log_h[node] == pytest.approx(bessel.log_h(1.5, laws.concentrations[node]))


def test_the_part_of_a_leaf_seen_as_a_flat_component():
    # what `link_normalisers` is for: log H(|e_j|) in place of E[log H(kappa_pa)]
    tree, resultants, first, kappas = problem(SHAPES["several tops"], 5)
    laws = start(tree, kappas, 5)
    for nodes in tree.levels:
        laws = dt.update_directions(tree, laws, first, nodes, resultants)
    leaves = tree.leaves
    laws = dt.update_directions(tree, laws, first, leaves, resultants)
    pulls = dt.pulls(tree, laws, first, leaves)
    natural = kappas[leaves, None] * resultants + pulls
    flat = bessel.log_h(1.5, nv.natural_lengths(natural)) - bessel.log_h(1.5, nv.natural_lengths(pulls))
    corrected = flat + bessel.log_h(1.5, nv.natural_lengths(pulls)) - dt.link_normalisers(tree, laws, first)[leaves]
    rows = kappas[leaves] * np.vecdot(resultants, laws.means[leaves])
    np.testing.assert_allclose(dt.direction_bounds(tree, laws, first)[leaves] + rows, corrected, rtol=1e-11, atol=1e-11)


def test_concentration_bounds_are_minus_the_divergence_from_the_prior():
    tree, resultants, first, kappas = problem(SHAPES["unbalanced"], 5)
    laws = dt.update_directions(tree, start(tree, kappas, 5), first, tree.leaves, resultants)
    inner_prior = prior(5)
    _, law = dt.inner_concentrations(tree, dt.inner_sweep(tree, laws, first), inner_prior)
    spread = law.log_variances + (law.log_means - inner_prior.log_mean) ** 2
    expected = -0.5 * np.log(2.0 * np.pi * 1.5) - spread / 3.0 + law.entropies
    np.testing.assert_allclose(dt.concentration_bounds(law, inner_prior), expected, rtol=1e-10)
    assert np.all(dt.concentration_bounds(law, inner_prior) <= 1e-12)
