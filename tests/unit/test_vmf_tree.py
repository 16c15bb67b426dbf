"""Rows from a tree of directions: shapes, the truth they come with, moments, and sentences."""

from __future__ import annotations

import math

import numpy as np
import pytest

from armillary.datasets import make_vmf_tree
from armillary.distributions import bessel
from armillary.exceptions import InputError, ParameterError

UNEVEN = [-1, 0, 0, 1, 1, 1, 2]  # node 2 has one child; leaves are 3, 4, 5 and 6


def test_shapes_and_truth_fit_together():
    X, labels, truth = make_vmf_tree(200, 7, 2, 3, random_state=0)
    assert X.shape == (200, 7)
    assert truth.parents.tolist() == [-1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert truth.leaves.tolist() == list(range(4, 13))
    assert truth.directions.shape == (13, 7)
    assert truth.concentrations.shape == (13,)
    assert set(labels) <= set(range(9))
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(truth.directions, axis=1), 1.0, rtol=1e-12)
    assert truth.nodes_at(1).tolist() == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_any_tree_and_concentrations_of_its_own():
    X, labels, truth = make_vmf_tree(
        50, 4, parents=UNEVEN, concentration=[1.0, 2.0, 3.0, 4.0], inner_concentration=(5.0, 6.0), random_state=1
    )
    assert truth.leaves.tolist() == [3, 4, 5, 6]
    assert truth.concentrations[truth.leaves].tolist() == [1.0, 2.0, 3.0, 4.0]
    inner = truth.concentrations[[0, 1, 2]]
    assert ((inner >= 5.0) & (inner <= 6.0)).all()
    assert labels.max() < 4
    assert len(X) == 50


def test_equal_seeds_give_equal_points_in_both_precisions():
    first = make_vmf_tree(30, 5, random_state=3)
    again = make_vmf_tree(30, 5, random_state=3)
    single = make_vmf_tree(30, 5, random_state=3, dtype=np.float32)
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[0].astype(np.float32), single[0])
    np.testing.assert_array_equal(first[1], single[1])
    assert not np.array_equal(first[0], make_vmf_tree(30, 5, random_state=4)[0])


def test_children_and_rows_have_the_mean_cosine_of_their_concentration():
    # the cosine has variance A'(kappa); five standard errors are a false alarm in 2e6
    dimension, kappa, inner = 6, 30.0, 12.0
    n_children = 2000
    parents = [-1] + [0] * n_children
    X, labels, truth = make_vmf_tree(
        4000, dimension, parents=parents, concentration=kappa, inner_concentration=inner, random_state=5
    )
    for cosines, concentration in (
        (truth.directions[1:] @ truth.directions[0], inner),
        (np.vecdot(X, truth.directions[truth.leaves[labels]]), kappa),
    ):
        expected = bessel.mean_resultant_length(dimension, concentration)
        error = math.sqrt(bessel.mean_resultant_derivative(dimension, concentration) / len(cosines))
        assert abs(cosines.mean() - expected) < 5.0 * error


def test_weights_are_those_of_leaves():
    _, labels, truth = make_vmf_tree(300, 3, 1, 3, weights=[1, 0, 2], random_state=6)
    assert set(labels) == {0, 2}
    np.testing.assert_allclose(truth.weights, [1 / 3, 0.0, 2 / 3])


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        ({"height": 0}, ParameterError, "`height` of make_vmf_tree must be an int >= 1; got 0."),
        ({"branching": 1}, ParameterError, "`branching` of make_vmf_tree must be an int >= 2; got 1."),
        ({"parents": [1, -1]}, InputError, "The parents of make_vmf_tree must come before their children"),
        ({"weights": [1.0]}, ParameterError, "`weights` of make_vmf_tree must be 9 numbers"),
        ({"concentration": -1.0}, ParameterError, "`concentration` of make_vmf_tree must be a number >= 0"),
        ({"inner_concentration": [1.0]}, ParameterError, "`inner_concentration` of make_vmf_tree must be a number"),
        ({"n_features": 1}, ParameterError, "`n_features` of make_vmf_tree must be an int >= 2; got 1."),
        ({"dtype": np.int64}, ParameterError, "`dtype` of make_vmf_tree must be float32 or float64"),
    ],
)
def test_sentences(arguments, kind, sentence):
    with pytest.raises(kind) as caught:
        make_vmf_tree(**{"n_samples": 20, "n_features": 4, **arguments})
    assert str(caught.value).startswith(sentence)
