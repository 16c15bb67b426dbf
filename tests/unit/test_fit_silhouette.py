"""The silhouette inside fits: against all pairs of rows, weights as copies, conventions, precision, equal bits."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp

from armillary.engines import cpu, cpu_column
from armillary.engines.cpu import Passes
from armillary.fitting import silhouette as module
from armillary.fitting.silhouette import mean_silhouette, silhouettes
from armillary.kernels.select import kernels_for
from armillary.points import as_points
from armillary.workers import Workers


@contextmanager
def passes_over(X, weights=None, n_threads=2):
    with Workers(n_threads) as workers:
        yield Passes(as_points(X, "test", weights), kernels_for("cpu"), workers)


def of(X, labels, n_clusters, weights=None, n_threads=2):
    with passes_over(X, weights, n_threads) as passes:
        return silhouettes(passes, passes.labels_from(np.asarray(labels)), n_clusters)


def mean_of(X, labels, n_clusters, weights=None):
    with passes_over(X, weights) as passes:
        return mean_silhouette(passes, passes.labels_from(np.asarray(labels)), n_clusters)


def by_pairs(X, labels):
    """The definition, by all pairs of rows: half the squared chord is 1 - cosine, and exact for close rows."""
    X = np.asarray(X, dtype=np.float64)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    distances = 0.5 * np.square(X[:, None, :] - X[None, :, :]).sum(axis=2)
    scores = np.zeros(len(X))
    for i, own in enumerate(labels):
        others = (labels == own) & (np.arange(len(X)) != i)
        if not others.any() or len(set(labels)) < 2:
            continue
        a = distances[i, others].mean()
        b = min(distances[i, labels == k].mean() for k in set(labels) if k != own)
        scores[i] = (b - a) / max(a, b)
    return scores


def blobs(n_rows=200, n_features=5, n_clusters=4, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(n_clusters), rng.integers(0, n_clusters, n_rows - n_clusters)])
    centers = 2.0 * rng.standard_normal((n_clusters, n_features))
    return centers[labels] + noise * rng.standard_normal((n_rows, n_features)), labels


# ------------------------------------------------------------------------------------------------- the definition


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
# rows up to 16 columns and wider ones, few clusters and many, take different ways
@pytest.mark.parametrize(("n_features", "n_clusters"), [(2, 2), (3, 7), (16, 60), (17, 5), (40, 60)])
def test_equals_the_definition(dtype, make, n_features, n_clusters):
    X, labels = blobs(300, n_features, n_clusters)
    X = X.astype(dtype)
    expected = by_pairs(X, labels)
    # an input that is not unit is divided by its norm in its own dtype at the gate: 6e-8 of a float32
    atol = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(of(make(X), labels, n_clusters), expected, rtol=0, atol=atol)
    assert mean_of(make(X), labels, n_clusters) == pytest.approx(expected.mean(), abs=atol)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("n_features", [3, 40])
def test_float32_clusters_of_a_thousandth_of_a_radian(make, n_features):
    # 1 - cos is near 5e-7 here: float32 cosines, or norms that are off by 1e-6, would leave nothing of it
    rng = np.random.default_rng(0)
    labels = np.arange(100) % 3
    centers = np.eye(n_features)[0] + 3e-3 * rng.standard_normal((3, n_features))
    X = centers[labels] + 1e-3 / np.sqrt(n_features) * rng.standard_normal((100, n_features))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * rng.uniform(1 - 1e-6, 1 + 1e-6, (100, 1))
    X = X.astype(np.float32)
    with passes_over(make(X)) as passes:
        assert passes.points.is_unit
        assert passes.points.dtype == np.float32
        scores = silhouettes(passes, passes.labels_from(labels), 3)
    # sums are rounded to 2^-43 a row and coordinate, of which 1 - cos has 4e-8
    np.testing.assert_allclose(scores, by_pairs(X, labels), rtol=0, atol=5e-8)


def test_rows_on_disk_are_normalised_block_by_block(tmp_path):
    X, labels = blobs(500, 20)
    mapped = np.memmap(tmp_path / "rows", dtype=np.float64, mode="w+", shape=X.shape)
    mapped[:] = X
    with passes_over(mapped) as passes:
        assert not passes.points.is_unit
    assert np.array_equal(of(mapped, labels, 4), of(X, labels, 4))


# ------------------------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("n_features", [3, 20])
def test_whole_weights_are_copies(make, n_features):
    X, labels = blobs(80, n_features)
    weights = np.random.default_rng(1).integers(0, 4, 80)
    labels[:2], weights[:2] = [4, 5], [1, 3]  # a lone row, and a lone row of three copies, which is not alone
    copies = np.repeat(np.arange(80), weights)
    expected = by_pairs(X[copies], labels[copies])
    scores = of(make(X), labels, 6, weights)
    np.testing.assert_allclose(scores[copies], expected, rtol=0, atol=1e-12)
    assert scores[0] == 0.0
    assert scores[1] > 0.999
    assert mean_of(make(X), labels, 6, weights) == pytest.approx(expected.mean(), abs=1e-12)


def test_weights_below_one_take_only_themselves_out_of_the_cluster():
    X = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-0.6, 0.8]])
    labels, weights = np.array([0, 0, 1, 1]), np.array([0.5, 0.25, 0.5, 2.0])
    # distances 1 - cos: 0-1 0.4, 2-3 0.2, 0-2 1, 0-3 1.6, 1-2 0.2, 1-3 0.72
    a = np.array([0.4, 0.4, 0.2, 0.5 * 0.2 / 1.5])
    b = np.array([
        (0.5 * 1.0 + 2.0 * 1.6) / 2.5,
        (0.5 * 0.2 + 2.0 * 0.72) / 2.5,
        (0.5 * 1.0 + 0.25 * 0.2) / 0.75,
        (0.5 * 1.6 + 0.25 * 0.72) / 0.75,
    ])  # fmt: skip
    expected = (b - a) / np.maximum(a, b)
    np.testing.assert_allclose(of(X, labels, 2, weights), expected, rtol=0, atol=1e-14)
    assert mean_of(X, labels, 2, weights) == pytest.approx(weights @ expected / weights.sum(), abs=1e-14)


def test_weights_of_one_change_nothing():
    X, labels = blobs(300, 20)
    assert np.array_equal(of(X, labels, 4, np.ones(300)), of(X, labels, 4))


# --------------------------------------------------------------------------------------------------- conventions


def test_one_cluster_scores_zero():
    X, _ = blobs()
    assert np.array_equal(of(X, np.zeros(200), 1), np.zeros(200))
    assert mean_of(X, np.zeros(200), 1) == 0.0
    # and so do clusters of which only one has rows, or weight
    assert np.array_equal(of(X, np.full(200, 2), 5), np.zeros(200))
    labels = np.arange(200) % 2
    assert np.array_equal(of(X, labels, 2, weights=labels), np.zeros(200))


def test_one_row():
    assert np.array_equal(of(np.array([[0.6, 0.8]]), [0], 1), [0.0])


def test_lone_rows_score_zero():
    X, _ = blobs(30)
    assert np.array_equal(of(X, np.arange(30), 30), np.zeros(30))
    labels = np.zeros(30, dtype=int)
    labels[7] = 1
    scores = of(X, labels, 2)
    assert scores[7] == 0.0
    assert np.count_nonzero(scores) == 29


def test_copies_of_one_row_score_zero():
    X = np.tile(np.random.default_rng(0).standard_normal(50), (17, 1)).astype(np.float32)
    assert np.array_equal(of(X, np.arange(17) % 3, 3), np.zeros(17))


def test_empty_clusters_are_nobodys_neighbours():
    X, labels = blobs()
    spread = np.array([1, 4, 5, 8])[labels]
    assert np.array_equal(of(X, spread, 10), of(X, labels, 4))


def test_clusters_without_weight_are_nobodys_neighbours_and_score_zero():
    X, labels = blobs()
    weights = np.where(labels == 1, 0.0, 1.0)
    scores = of(X, labels, 4, weights)
    kept = labels != 1
    np.testing.assert_allclose(scores[kept], by_pairs(X[kept], labels[kept]), rtol=0, atol=1e-12)
    assert np.array_equal(scores[~kept], np.zeros((~kept).sum()))


# ---------------------------------------------------------------------------------------- blocks, threads, memory


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize(("n_rows", "n_features", "n_clusters"), [(70_000, 3, 9), (9000, 40, 60)])
def test_threads_give_equal_bits(make, n_rows, n_features, n_clusters):
    X, labels = blobs(n_rows, n_features, n_clusters)
    X[:, 1:][np.abs(X[:, 1:]) < 1.0] = 0.0
    weights = np.random.default_rng(2).random(n_rows)
    with passes_over(X) as passes:
        assert len(passes.points.lanes) > 1
    one = of(make(X), labels, n_clusters, weights, n_threads=1)
    assert np.array_equal(one, of(make(X), labels, n_clusters, weights, n_threads=3))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("n_features", [3, 20])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_blocks_do_not_change_the_scores(monkeypatch, make, n_features, is_weighted):
    X, labels = blobs(300, n_features, 13)
    weights = np.random.default_rng(3).random(300) if is_weighted else None
    expected = of(make(X), labels, 13, weights)
    for n_clusters in (1, 2, 5):  # at a time
        monkeypatch.setattr(module, "_BLOCK_VALUES", n_clusters * n_features)
        monkeypatch.setattr(cpu_column, "_CACHED_VALUES", 300 * n_clusters)
        np.testing.assert_allclose(of(make(X), labels, 13, weights), expected, rtol=0, atol=1e-13)


def test_no_table_of_rows_by_clusters(monkeypatch):
    sizes = []
    real = cpu.own_and_nearest
    monkeypatch.setattr(cpu, "own_and_nearest", lambda table, *rest: (sizes.append(table.size), real(table, *rest)))
    monkeypatch.setattr(cpu, "_TABLE_VALUES", 50_000)
    X, labels = blobs(20_000, 3, 50)
    of(X, labels, 50)
    assert max(sizes) <= 50_000


def test_rows_and_labels_are_left_alone():
    X, labels = blobs()
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    labels = labels.astype(np.int32)
    weights = np.full(200, 0.5)
    before = X.copy(), labels.copy(), weights.copy()
    for array in (X, labels, weights):
        array.setflags(write=False)
    of(X, labels, 4, weights)
    for array, copy in zip((X, labels, weights), before, strict=True):
        assert np.array_equal(array, copy)
