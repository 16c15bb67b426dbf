"""`DirichletProcessMixture` on rows held in other ways: CSR, memory maps, one thread and many, several sets at once."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from armillary import DirichletProcessMixture
from armillary.datasets import make_tangent_gaussian_mixture
from armillary.distributions.row_sets import ArrayRows
from armillary.engines import cpu_sets
from armillary.engines.cpu_sets import CpuSets
from armillary.engines.select import open_passes
from armillary.fitting.dirichlet_process import clusters_of
from armillary.points import as_points

BRIEF = {"n_burn_in": 1, "n_draws": 4, "n_attempts": 3, "n_components": 12, "random_state": 0}


def documents(n_rows, n_features, n_topics, seed):
    """Sparse rows: a few columns of a topic's own, and one that all share."""
    rng = np.random.default_rng(seed)
    topics = rng.integers(n_topics, size=n_rows)
    rows = np.zeros((n_rows, n_features))
    for row, topic in zip(rows, topics, strict=True):
        columns = 1 + (topic * 7 + rng.integers(7, size=5)) % (n_features - 1)
        np.add.at(row, columns, rng.random(5))
        row[0] = 0.2
    return rows, topics


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sampler", ["split_merge", "subclusters", "finite", "crp"])
def test_csr_rows_are_fitted_as_dense_ones_are(sampler, dtype):
    rows, _ = documents(60 if sampler == "crp" else 200, 40, 4, 0)
    rows = rows.astype(dtype)
    dense = DirichletProcessMixture("vmf", sampler=sampler, **BRIEF).fit(rows)
    sparse = DirichletProcessMixture("vmf", sampler=sampler, **BRIEF).fit(sp.csr_array(rows))
    np.testing.assert_array_equal(sparse.labels_, dense.labels_)
    np.testing.assert_array_equal(sparse.sample_labels_, dense.sample_labels_)
    tolerance = 1e-9 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(sparse.means_, dense.means_, rtol=0, atol=tolerance)
    np.testing.assert_allclose(sparse.trace_, dense.trace_, rtol=tolerance)
    new = documents(20, 40, 4, 1)[0].astype(dtype)
    np.testing.assert_array_equal(sparse.predict(sp.csr_array(new)), dense.predict(new))
    shares = sparse.predict_proba(sp.csr_array(new)), dense.predict_proba(new)
    np.testing.assert_allclose(*shares, atol=1e-4 if dtype == np.float32 else 1e-9)
    np.testing.assert_allclose(
        sparse.score_samples(sp.csr_array(new)), dense.score_samples(new), rtol=1e-4 if dtype == np.float32 else 1e-9
    )


def test_more_columns_than_rows():
    rows, _ = documents(80, 400, 3, 2)
    model = DirichletProcessMixture("vmf", **BRIEF).fit(sp.csr_matrix(rows))
    assert model.means_.shape == (model.n_clusters_, 400)
    other = DirichletProcessMixture("vmf", **BRIEF).fit(rows)
    np.testing.assert_array_equal(model.labels_, other.labels_)


@pytest.mark.parametrize("sampler", ["split_merge", "subclusters"])
@pytest.mark.parametrize("component", ["tangent_gaussian", "gaussian", "vmf"])
def test_rows_left_on_disk_are_fitted_alike(component, sampler, tmp_path):
    X, _, _ = make_tangent_gaussian_mixture(300, 3, 3, spread=0.1, min_angle=0.8, random_state=1)
    X *= np.random.default_rng(0).uniform(0.5, 2.0, size=(300, 1))
    here = DirichletProcessMixture(component, sampler=sampler, **BRIEF).fit(X)
    mapped = np.memmap(tmp_path / "rows", dtype=np.float64, mode="w+", shape=X.shape)
    mapped[:] = X
    there = DirichletProcessMixture(component, sampler=sampler, **BRIEF).fit(mapped)
    np.testing.assert_array_equal(there.sample_labels_, here.sample_labels_)
    np.testing.assert_array_equal(there.trace_, here.trace_)


@pytest.mark.parametrize("sampler", ["split_merge", "subclusters", "finite"])
@pytest.mark.parametrize("n_features", [3, 5])
def test_threads_do_not_change_a_bit(n_features, sampler):
    X, _, _ = make_tangent_gaussian_mixture(9000, n_features, 4, spread=0.1, min_angle=0.6, random_state=3)
    brief = {**BRIEF, "n_draws": 2, "init": 3, "sampler": sampler}
    fits = [DirichletProcessMixture(n_threads=n_threads, **brief).fit(X) for n_threads in (1, 2, 3)]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.trace_, fits[0].trace_)
        np.testing.assert_array_equal(other._saved_state.packed_draws, fits[0]._saved_state.packed_draws)
        np.testing.assert_array_equal(other.means_, fits[0].means_)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_sums_over_sets_do_not_depend_on_the_other_sets(n_threads, monkeypatch):
    monkeypatch.setattr(cpu_sets, "_PIECE_ROWS", 64)
    X, labels, truth = make_tangent_gaussian_mixture(5000, 3, 4, spread=0.3, random_state=4)
    with open_passes(as_points(X, "test"), n_threads, "test") as passes:
        clusters = clusters_of(passes, labels)
        together = clusters.sets()
        sums = together.tangent_sums(truth.directions, with_curvature=True)
        for k in range(4):
            alone = clusters.sets(k)
            np.testing.assert_array_equal(together.totals()[k], alone.totals()[0])
            own = alone.tangent_sums(truth.directions[k : k + 1], with_curvature=True)
            for ours, theirs in zip(sums, own, strict=True):
                np.testing.assert_array_equal(ours[k], theirs[0])
            rows = ArrayRows(X[labels == k])
            np.testing.assert_allclose(alone.totals(), rows.totals(), rtol=1e-12, atol=5000 * 2.0**-38)
            centres = truth.directions[k : k + 1]
            np.testing.assert_allclose(alone.scatters(centres), rows.scatters(centres), rtol=1e-10, atol=1e-10)
            expected = rows.tangent_sums(centres, with_curvature=True)
            for ours, theirs in zip(own, expected, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_weights_of_rows_are_used():
    X, _, _ = make_tangent_gaussian_mixture(90, 4, 2, spread=0.3, random_state=5)
    weights = np.random.default_rng(0).random((2, 90))
    with open_passes(as_points(X, "test"), 1, "test") as passes:
        every = np.arange(90, dtype=np.int32)
        sets, expected = CpuSets.of(passes, [every, every], list(weights)), ArrayRows(X, weights)
        np.testing.assert_allclose(sets.counts, expected.counts)
        np.testing.assert_allclose(sets.totals(), expected.totals(), rtol=1e-12, atol=90 * 2.0**-44)
        centres = X[:2]
        np.testing.assert_allclose(sets.scatters(centres), expected.scatters(centres), rtol=1e-12)
        for ours, theirs in zip(sets.tangent_sums(centres), expected.tangent_sums(centres), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
