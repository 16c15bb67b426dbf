"""Passes over sparse slices by feature: compiled and plain NumPy, and both against sums written out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from armillary.engines.cpu import Passes
from armillary.engines.cpu_features import CpuFeatures, chain_steps
from armillary.fitting.slices import SlicedPasses
from armillary.kernels.rows import blocks as cpu
from armillary.kernels.rows import reference
from armillary.points import as_points
from armillary.workers import Workers

# clusters below, at, and beyond what is combined at once; slices without rows; features that no row has
CASES = {
    "one cluster": (1, 3, np.float64),
    "a whole line": (4, 2, np.float64),
    "float32 rows": (5, 4, np.float32),
    "many clusters": (33, 5, np.float64),
    "one slice": (3, 1, np.float64),
}


def sliced_rows(n_slices, dtype, seed=0, n_rows=40, n_features=60):
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((n_rows, n_features)) < 0.1, rng.gamma(2.0, size=(n_rows, n_features)), 0.0)
    dense[:, 7] = 0.0
    dense[:, 3] += 0.5  # a feature of all slices
    weights = rng.gamma(2.0, size=n_rows)
    weights[::9] = 0.0
    points = as_points(sp.csr_array(dense.astype(dtype)), "test", weights)
    numbers = rng.integers(0, n_slices, n_rows)
    numbers[numbers == 1] = 0  # a slice without rows
    return SlicedPasses.of(Passes(points, cpu, Workers(1)), numbers, n_slices)


def drawn_shares(n_rows, n_clusters, rng):
    shares = rng.dirichlet(np.full(n_clusters, 0.2), n_rows)
    shares[: n_rows // 2] = np.eye(n_clusters)[rng.integers(0, n_clusters, n_rows // 2)]
    shares[-1] = 1e-25  # as good as none
    return shares


def sums_of(sliced, shares):
    """(T, K, D) written out."""
    rows = sliced.whole.points.matrix.toarray().astype(np.float64)
    numbers = np.repeat(np.arange(len(sliced)), sliced.sizes)
    weighted = np.where(shares > 1e-20, shares, 0.0) * sliced.whole.points.weights[:, None]
    return np.stack([weighted[numbers == number].T @ rows[numbers == number] for number in range(len(sliced))])


def drawn_steps(n_slices, n_clusters, n_features, rng):
    shape = (n_slices, n_clusters)
    ahead, back = rng.uniform(0.1, 1.0, (2, *shape))
    return rng.standard_normal(n_features), ahead, back, rng.uniform(0.5, 2.0, shape), rng.random(n_clusters)


@pytest.fixture(params=CASES, ids=str)
def problem(request):
    n_clusters, n_slices, dtype = CASES[request.param]
    sliced = sliced_rows(n_slices, dtype)
    rng = np.random.default_rng(1)
    return sliced, drawn_shares(sliced.whole.points.n_rows, n_clusters, rng), rng


def passes(sliced, kernels, n_threads=1):
    return CpuFeatures(Passes(sliced.whole.points, kernels, Workers(n_threads)), sliced.edges)


def test_listed_shares_are_the_same(problem):
    sliced, shares, _ = problem
    for weights in (None, sliced.whole.points.weights):
        ours, plain = cpu.list_shares(shares, weights), reference.list_shares(shares, weights)
        for one, other in zip(ours, plain, strict=True):
            np.testing.assert_array_equal(one, other)
        assert ours.starts[-1] == ours.starts[-2]  # the last row has no share worth a place


def test_products_are_those_of_the_sums(problem):
    sliced, shares, rng = problem
    direction = rng.standard_normal(60)
    direction[3] = 0.0
    vectors = np.concatenate([sums_of(sliced, shares).swapaxes(0, 1), np.tile(direction, (shares.shape[1], 1, 1))], 1)
    expected = vectors @ vectors.swapaxes(1, 2)
    scale = np.abs(expected).max()
    for kernels in (cpu, reference):
        by_feature = passes(sliced, kernels)
        made = by_feature.listed_products(by_feature.listed(shares), shares.shape[1], direction)
        np.testing.assert_allclose(made, expected, rtol=1e-12, atol=1e-13 * scale)


def test_vectors_are_those_of_messages_forward_and_backward(problem):
    sliced, shares, rng = problem
    sums = sums_of(sliced, shares)
    n_slices, n_clusters, n_features = sums.shape
    start, ahead, back, scales, slopes = drawn_steps(n_slices, n_clusters, n_features, rng)
    forward, backward = np.empty_like(sums), np.zeros_like(sums)
    forward[0] = start + sums[0]
    for time in range(1, n_slices):
        forward[time] = ahead[time][:, None] * forward[time - 1] + sums[time]
    for time in reversed(range(n_slices - 1)):
        backward[time] = back[time + 1][:, None] * (backward[time + 1] + sums[time + 1])
    vectors = forward + backward
    rows = sliced.whole.points.matrix.toarray().astype(np.float64)
    offsets = rng.standard_normal((n_slices, n_clusters))
    for kernels in (cpu, reference):
        by_feature = passes(sliced, kernels)
        table, total = by_feature.listed_fill(
            by_feature.listed(shares), chain_steps(start, ahead, back, scales, slopes)
        )
        np.testing.assert_allclose(total, slopes @ vectors[0], rtol=1e-12, atol=1e-12)
        ours, evidence = by_feature.shares(table, offsets)
        for number in range(n_slices):
            own = slice(*sliced.edges[number : number + 2])
            scores = rows[own] @ (scales[number][:, None] * vectors[number]).T + offsets[number]
            expected = np.logaddexp.reduce(scores, axis=1)
            np.testing.assert_allclose(evidence[own], expected, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(ours[own], np.exp(scores - expected[:, None]), rtol=1e-10, atol=1e-12)


def test_one_thread_and_many_give_equal_bits():
    sliced = sliced_rows(4, np.float64, n_rows=300)
    rng = np.random.default_rng(2)
    shares = drawn_shares(300, 5, rng)
    direction, steps = rng.standard_normal(60), chain_steps(*drawn_steps(4, 5, 60, rng))
    offsets = rng.standard_normal((4, 5))
    results = []
    for n_threads in (1, 2, 3):
        with Workers(n_threads) as workers:
            by_feature = CpuFeatures(Passes(sliced.whole.points, cpu, workers), sliced.edges)
            listed = by_feature.listed(shares)
            table, total = by_feature.listed_fill(listed, steps)
            made = (
                by_feature.listed_products(listed, 5, direction),
                table[:, :5],
                total,
                *by_feature.shares(table, offsets),
            )
            results.append([np.array(array) for array in made])
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_every_feature_is_in_one_lane():
    for n_slices in (1, 3):
        by_feature = passes(sliced_rows(n_slices, np.float64), cpu)
        covered = [feature for lane in by_feature._lanes for feature in range(*lane)]
        assert covered == list(range(60))
