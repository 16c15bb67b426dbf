"""Communities beside every partition of a small graph, a plain form of the moves, and the limits of the resolution."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

from armillary.fitting.communities import find_communities, modularity
from armillary.kernels.rows.communities import contracted, move_nodes, turned
from armillary.selection.candidates import agreement


def graph_of(links, n_nodes, weights=None):
    dense = np.zeros((n_nodes, n_nodes))
    for number, (i, j) in enumerate(links):
        dense[i, j] = dense[j, i] = 1.0 if weights is None else weights[number]
    return sp.csr_array(dense)


TRIANGLES = graph_of([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)], 6)


def random_graph(n_nodes, seed, share=0.4):
    generator = np.random.default_rng(seed)
    links = [(i, j) for i in range(n_nodes) for j in range(i) if generator.random() < share]
    return graph_of(links, n_nodes, generator.random(len(links)))


def partitions(n_nodes):
    """Every labelling with labels in order of first appearance."""
    if n_nodes == 0:
        yield []
        return
    for rest in partitions(n_nodes - 1):
        for label in range(max(rest, default=-1) + 2):
            yield [*rest, label]


def defined_modularity(graph, labels, resolution=1.0):
    dense = graph.toarray()
    total, degrees = dense.sum(), dense.sum(axis=1)
    alike = np.equal.outer(labels, labels)
    return ((dense / total - resolution * np.outer(degrees, degrees) / total**2) * alike).sum()


def test_modularity_of_two_triangles():
    assert modularity(TRIANGLES, np.array([0, 0, 0, 1, 1, 1], dtype=np.int32)) == pytest.approx(12 / 14 - 0.5)
    assert modularity(TRIANGLES, np.zeros(6, dtype=np.int32)) == pytest.approx(0.0)


@pytest.mark.parametrize("seed", range(5))
def test_modularity_is_its_definition(seed):
    graph = random_graph(12, seed)
    labels = np.random.default_rng(seed).integers(0, 4, 12).astype(np.int32)
    assert modularity(graph, labels) == pytest.approx(defined_modularity(graph, labels))


def test_a_graph_without_links_has_no_modularity():
    empty = sp.csr_array((4, 4))
    assert modularity(empty, np.arange(4, dtype=np.int32)) == 0.0
    np.testing.assert_array_equal(find_communities(empty, 1.0, np.random.default_rng(0)), np.arange(4))


def test_triangles_are_found():
    found = find_communities(TRIANGLES, 1.0, np.random.default_rng(0))
    assert [len(set(found[:3])), len(set(found[3:])), len(set(found))] == [1, 1, 2]


@pytest.mark.parametrize("seed", range(6))
def test_no_partition_is_beaten_and_the_best_is_nearly_reached(seed):
    graph = random_graph(8, seed)
    best = max(defined_modularity(graph, np.array(labels)) for labels in partitions(8))
    found = max(modularity(graph, find_communities(graph, 1.0, np.random.default_rng(number))) for number in range(5))
    assert found <= best + 1e-12
    assert found >= best - 0.03


def test_the_resolution_goes_from_components_to_single_nodes():
    two = sp.block_diag([TRIANGLES, TRIANGLES], format="csr")
    generator = np.random.default_rng(0)
    assert len(set(find_communities(sp.csr_array(two), 1e-9, generator))) == 2
    assert len(set(find_communities(sp.csr_array(two), 1e9, generator))) == 12


def plain_moves(graph, order, price, most_sweeps):
    """The rule of `move_nodes`, node by node, from the definition of the gain."""
    dense = graph.toarray()
    degrees = dense.sum(axis=1)
    labels = np.arange(len(dense))
    for _ in range(most_sweeps):
        before = labels.copy()
        for i in order:
            others = np.arange(len(dense)) != i

            def gain(community, i=i, others=others):
                there = others & (labels == community)
                return dense[i, there].sum() - price * degrees[i] * degrees[there].sum()

            best, best_gain = labels[i], gain(labels[i])
            for j in np.flatnonzero(dense[i] * others):
                if gain(labels[j]) > best_gain + 1e-12:
                    best, best_gain = labels[j], gain(labels[j])
            labels[i] = best
        if (labels == before).all():
            break
    return labels


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("resolution", [0.3, 1.0, 3.0])
def test_moves_are_those_of_the_plain_form(seed, resolution):
    graph = random_graph(25, seed, share=0.2)
    order = np.random.default_rng(seed).permutation(25)
    price = resolution / graph.sum()
    labels = np.arange(25, dtype=np.int32)
    arrays = graph.indptr.astype(np.int64), graph.indices.astype(np.int64), graph.data, graph.sum(axis=1)
    has_moved = move_nodes(*arrays, order, price, 50, labels)
    np.testing.assert_array_equal(labels, plain_moves(graph, order, price, 50))
    assert has_moved == (labels != np.arange(25)).any()


def test_the_graph_of_communities_is_a_product_of_matrices():
    """To the bit: SciPy's product by columns adds in the same order."""
    rng = np.random.default_rng(5)
    for n_nodes, n_names in ((1, 1), (12, 3), (60, 20), (60, 60)):
        made = rng.random((n_nodes, n_nodes)) * (rng.random((n_nodes, n_nodes)) < 0.3)
        graph = sp.csr_array(made + made.T)
        names = rng.permutation(np.arange(n_nodes) % n_names)
        member = sp.csr_array((np.ones(n_nodes), (np.arange(n_nodes), names)), shape=(n_nodes, n_names))
        wanted = (member.T @ graph @ member).tocsr()
        arrays = graph.indptr.astype(np.int64), graph.indices.astype(np.int64), graph.data
        found = turned(*contracted(*turned(*arrays, n_nodes), names, n_names), n_names)
        for ours, theirs in zip(found, (wanted.indptr, wanted.indices, wanted.data), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_agreement_is_the_adjusted_rand_index():
    rng = np.random.default_rng(6)
    for n_rows, n_first, n_second in ((1, 1, 1), (30, 1, 1), (30, 1, 4), (30, 30, 30), (50, 4, 6), (400, 20, 3)):
        first, second = (rng.integers(n, size=n_rows).astype(np.int32) for n in (n_first, n_second))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of many classes
            wanted = max(0.0, adjusted_rand_score(first, second))
        assert agreement(first, second) == pytest.approx(wanted, abs=1e-14)
        assert agreement(first, first) == 1.0
