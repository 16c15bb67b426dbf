"""Spherical k-means against the list of all partitions of eight rows: 1,094 of them into at most three clusters."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from tests.making import each

from armillary import SphericalKMeans

N_ROWS = 8
EPS = 1e-12


def partitions(n_rows, n_clusters):
    """Labellings (m, n_rows) with at most `n_clusters` labels, each partition once: restricted growth strings."""
    grown = [[0]]
    for _ in range(n_rows - 1):
        grown = [[*labels, k] for labels in grown for k in range(min(max(labels) + 2, n_clusters))]
    return np.array(grown)


def objectives(rows, weights, labellings, n_clusters):
    """J of each labelling with the best directions for it: the lengths of the resultants, added up."""
    table = np.eye(n_clusters)[labellings] * weights[:, None]  # (m, n, K)
    resultants = np.einsum("mnk,nd->mkd", table, rows)
    return np.linalg.norm(resultants, axis=2).sum(axis=1)


def make(name, n_features):
    rng = np.random.default_rng([len(name), n_features])
    rows = rng.standard_normal((N_ROWS, n_features))
    weights = np.ones(N_ROWS)
    if name == "weighted":
        weights = rng.gamma(1.0, size=N_ROWS)
    elif name == "with a row of weight zero":
        weights[3] = 0.0
    elif name == "clumped":
        rows = rows[[0, 0, 0, 1, 1, 2, 2, 2]] + 0.3 * rows
    elif name == "repeated":
        rows = rows[[0, 0, 1, 2, 3, 3, 3, 4]]
    elif name == "antipodal":
        rows = np.concatenate([rows[:4], -rows[:4]])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), weights


def fit(rows, n_clusters, weights, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters is a case here
        return SphericalKMeans(n_clusters, n_threads=1, tol=0.0, **parameters).fit(rows, sample_weight=weights)


cases = pytest.mark.parametrize(
    "name", ["uniform", "weighted", "with a row of weight zero", "clumped", "repeated", "antipodal"]
)
every_dimension = each("n_features", [2, 3, 5, 17])
every_number = each("n_clusters", [1, 2, 3])


def test_the_list_is_complete():
    # Stirling numbers of the second kind: 1 + 127 + 966
    assert [len(partitions(N_ROWS, k)) for k in (1, 2, 3)] == [1, 128, 1094]
    assert len({tuple(labels) for labels in partitions(N_ROWS, 3)}) == 1094


@cases
@every_dimension
@every_number
def test_no_fit_beats_the_best_partition_and_many_starts_reach_it(name, n_features, n_clusters):
    rows, weights = make(name, n_features)
    best = objectives(rows, weights, partitions(N_ROWS, n_clusters), n_clusters).max()
    found = []
    for seed in range(10):
        for algorithm in ("lloyd", "hamerly"):
            for init in ("k-means++", "random"):
                model = fit(rows, n_clusters, weights, init=init, n_init=1, random_state=seed, algorithm=algorithm)
                assert model.objective_ <= best + EPS
                found.append(model.objective_)
    many = fit(rows, n_clusters, weights, init="random", n_init=100, random_state=1)
    assert many.objective_ <= best + EPS
    assert many.objective_ >= max(found) - EPS
    assert many.objective_ >= best - EPS


@cases
@every_dimension
@every_number
@each("algorithm", ["lloyd", "hamerly"])
def test_the_best_partition_is_a_fixed_point(name, n_features, n_clusters, algorithm):
    rows, weights = make(name, n_features)
    labellings = partitions(N_ROWS, n_clusters)
    values = objectives(rows, weights, labellings, n_clusters)
    labels = labellings[values.argmax()]
    resultants = (np.eye(n_clusters)[labels] * weights[:, None]).T @ rows
    lengths = np.linalg.norm(resultants, axis=1, keepdims=True)
    if not (lengths > 1e-9).all():
        # antipodal rows in one cluster leave it no direction; any will do
        resultants = np.where(lengths > 1e-9, resultants, rows[:1])
    model = fit(rows, n_clusters, weights, init=resultants, algorithm=algorithm)
    assert abs(model.objective_ - values.max()) <= EPS
    counted = weights > 0.0
    runner_up = np.sort(values)[-2] if len(values) > 1 else -np.inf
    if values.max() - runner_up > 1e-9:
        np.testing.assert_array_equal(model.labels_[counted], labels[counted])


@cases
@every_dimension
@each("is_sparse", [False, True])
def test_a_fit_is_stable_each_row_nearest_to_its_own_center(name, n_features, is_sparse):
    rows, weights = make(name, n_features)
    for seed in range(20):
        model = fit(sp.csr_array(rows) if is_sparse else rows, 3, weights, init="random", n_init=1, random_state=seed)
        cosines = rows @ model.cluster_centers_.T
        own = cosines[np.arange(N_ROWS), model.labels_]
        assert (own >= cosines.max(axis=1) - EPS).all()
        # and each center is the direction of its rows, where they have one
        resultants = (np.eye(3)[model.labels_] * weights[:, None]).T @ rows
        lengths = np.linalg.norm(resultants, axis=1)
        along = (resultants * model.cluster_centers_).sum(axis=1)
        np.testing.assert_allclose(along, lengths, rtol=0, atol=1e-9)
        assert abs(model.objective_ - lengths.sum()) <= 1e-9
        # its partition is on the list, with the objective that the fit claims
        in_list = objectives(rows, weights, model.labels_[None], 3)[0]
        assert abs(model.objective_ - in_list) <= 1e-9


def test_one_start_may_stop_short_of_the_best_partition():
    # what is promised is Lloyd's stability and no more; were every start to reach the best, the list would prove little
    rows, weights = make("uniform", 3)
    best = objectives(rows, weights, partitions(N_ROWS, 3), 3).max()
    found = [fit(rows, 3, weights, init="random", n_init=1, random_state=seed).objective_ for seed in range(20)]
    assert min(found) < best - 0.01
    assert max(found) > best - EPS
