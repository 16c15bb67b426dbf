"""Lists of nearest rows and the graph made of them, against brute force and the definition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from armillary.engines.select import open_passes
from armillary.fitting import neighbours
from armillary.fitting.neighbours import lists_within, nearest_rows, neighbour_graph
from armillary.points import as_points


def drawn(n_rows, n_features, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n_rows, n_features))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def lists_of(rows, n_nearest):
    with open_passes(as_points(rows, "test"), 2, "test") as passes:
        return nearest_rows(passes, n_nearest)


def brute_force(rows, n_nearest):
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, -np.inf)
    return np.argsort(-cosines, axis=1, kind="stable")[:, :n_nearest]


@pytest.mark.parametrize("n_features", [3, 40])
def test_lists_are_those_of_all_pairs(n_features):
    rows = drawn(300, n_features)
    np.testing.assert_array_equal(lists_of(rows, 7), brute_force(rows, 7))


def test_sparse_rows_have_the_lists_of_dense_ones():
    rows = np.where(np.random.default_rng(1).random((200, 50)) < 0.2, np.random.default_rng(2).random((200, 50)), 0.0)
    rows[:, 0] += 0.01
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_array_equal(lists_of(sp.csr_array(rows), 9), brute_force(rows, 9))


def test_lists_do_not_depend_on_the_blocks(monkeypatch):
    rows = drawn(257, 5)
    whole = lists_of(rows, 4)
    monkeypatch.setattr(neighbours, "_MOST_DIRECTIONS", 10)
    np.testing.assert_array_equal(lists_of(rows, 4), whole)


def test_a_row_is_not_its_own_neighbour_even_among_copies():
    rows = np.repeat(drawn(3, 4), 10, axis=0)
    lists = lists_of(rows, 9)
    assert not (lists == np.arange(30)[:, None]).any()
    np.testing.assert_array_equal(lists // 10, np.repeat([0, 1, 2], 10)[:, None] * np.ones(9))


def test_lists_within_some_rows_are_those_of_these_rows_alone():
    rows = drawn(120, 6)
    chosen = np.sort(np.random.default_rng(3).permutation(120)[:60])
    within = lists_within(lists_of(rows, 119), chosen)
    left = np.array([line[line >= 0][:5] for line in within])
    np.testing.assert_array_equal(left, brute_force(rows[chosen], 5))


def test_the_graph_is_its_definition():
    lists = lists_of(drawn(60, 4), 8)
    graph = neighbour_graph(lists, 5)
    near = [set(line[:5]) | {number} for number, line in enumerate(lists)]
    for i in range(60):
        for j in range(60):
            is_linked = i != j and (j in near[i] or i in near[j])
            assert graph.links[i, j] == is_linked
            expected = len(near[i] & near[j]) / len(near[i] | near[j]) if is_linked else 0.0
            assert graph.weights[i, j] == pytest.approx(expected, abs=1e-15)


def test_rows_that_are_left_out_are_passed_over():
    graph = neighbour_graph(np.array([[-1, 1], [0, -1], [-1, -1]], dtype=np.int32), 1)
    np.testing.assert_array_equal(graph.links.toarray(), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
