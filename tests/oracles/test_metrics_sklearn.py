"""Metrics against scikit-learn where it has them, and against enumeration where it has not."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import (
    f1_score,
    mutual_info_score,
    normalized_mutual_info_score,
    silhouette_samples,
    silhouette_score,
)
from sklearn.metrics.cluster import contingency_matrix
from tests.making import each

from armillary.metrics import (
    cosine_silhouette_samples,
    cosine_silhouette_score,
    geometric_nmi_score,
    macro_f1_score,
    matched_accuracy_score,
    purity_score,
    variation_of_information,
)

TABLES = [(seed, n_rows, n_classes, n_clusters) for seed, (n_rows, n_classes, n_clusters) in enumerate(
    [(1, 1, 1), (5, 2, 3), (12, 3, 3), (30, 4, 2), (30, 2, 6), (200, 10, 10), (5000, 40, 25), (5000, 3, 700)]
)]  # fmt: skip


@pytest.fixture(params=TABLES, ids=lambda table: "x".join(map(str, table[1:])))
def pair(request):
    """Classes and clusters that agree on about half of the rows."""
    seed, n_rows, n_classes, n_clusters = request.param
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_rows)
    labels = np.where(rng.random(n_rows) < 0.5, (truth * 3 + 1) % n_clusters, rng.integers(0, n_clusters, n_rows))
    return truth, labels


def entropy(labels):
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    return -float(shares @ np.log(shares))


def test_purity(pair):
    table = contingency_matrix(*pair)
    assert purity_score(*pair) == table.max(axis=0).sum() / table.sum()


def test_macro_f1(pair):
    truth, labels = pair
    # argmax takes the first of equals, and contingency_matrix sorts the classes
    majority = np.unique(truth)[contingency_matrix(truth, labels).argmax(axis=0)]
    named = majority[np.unique(labels, return_inverse=True)[1]]
    assert macro_f1_score(truth, labels) == pytest.approx(f1_score(truth, named, average="macro"), rel=1e-14)


def test_matched_accuracy(pair):
    table = contingency_matrix(*pair)
    rows, columns = linear_sum_assignment(table, maximize=True)
    assert matched_accuracy_score(*pair) == table[rows, columns].sum() / table.sum()


@each("seed", range(200))
def test_matched_accuracy_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    n_classes, n_clusters = rng.integers(1, 6, size=2)
    truth = rng.integers(0, n_classes, 12)
    labels = rng.integers(0, n_clusters, 12)
    table = contingency_matrix(truth, labels)
    if table.shape[0] > table.shape[1]:
        table = table.T
    best = max(
        sum(table[j, k] for j, k in enumerate(chosen))
        for chosen in itertools.permutations(range(table.shape[1]), table.shape[0])
    )
    assert matched_accuracy_score(truth, labels) == best / 12, f"seed {seed}"


def test_geometric_nmi(pair):
    truth, labels = pair
    expected = normalized_mutual_info_score(truth, labels, average_method="geometric")
    assert geometric_nmi_score(truth, labels) == pytest.approx(expected, abs=1e-15)
    if min(entropy(truth), entropy(labels)) > 0.0:
        ratio = mutual_info_score(truth, labels) / math.sqrt(entropy(truth) * entropy(labels))
        assert geometric_nmi_score(truth, labels) == pytest.approx(ratio, rel=1e-12)


def test_variation_of_information(pair):
    truth, labels = pair
    expected = entropy(truth) + entropy(labels) - 2.0 * mutual_info_score(truth, labels)
    assert variation_of_information(truth, labels) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_silhouette(seed, make):
    rng = np.random.default_rng(seed)
    n_rows, n_features = int(rng.integers(10, 300)), int(rng.integers(2, 60))
    n_clusters = int(rng.integers(2, n_rows // 2))
    labels = np.concatenate([np.arange(n_clusters), rng.integers(0, n_clusters, n_rows - n_clusters)])
    X = rng.standard_normal((n_clusters, n_features))[labels] + 0.5 * rng.standard_normal((n_rows, n_features))
    X[np.abs(X) < 0.3] = 0.0
    X[:, 0] += 0.1  # no empty row
    # both take differences of cosines; the smallest within-cluster distance here is about 1e-3
    expected = silhouette_samples(X, labels, metric="cosine")
    np.testing.assert_allclose(
        cosine_silhouette_samples(make(X), labels), expected, rtol=0, atol=1e-11, err_msg=f"seed {seed}"
    )
    assert cosine_silhouette_score(make(X), labels) == pytest.approx(
        silhouette_score(X, labels, metric="cosine"), abs=1e-12
    )
