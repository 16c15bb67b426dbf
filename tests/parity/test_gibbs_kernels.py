"""Collapsed Gibbs sweeps: compiled and reference, dense and CSR, whole and in parts give the same chain.

Dense and CSR rows have the same products to the bit, so chains from the same sums are equal to the bit. The reference
takes log H from NumPy and squares anew: its labels differ only where a uniform falls within rounding of a cumulative
probability, which at these seeds never happens.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.making import units

from armillary.distributions import bessel
from armillary.kernels.rows import blocks as cpu
from armillary.kernels.rows import reference
from armillary.kernels.rows.bessel import log_h, order_tables
from armillary.points import SparseBlock
from armillary.rules import CollapsedRule, CollapsedSums

DIMENSIONS = (2, 3, 4, 5, 10, 20, 31, 32, 33, 128, 384, 1536, 20733, 53975, 100_000)

every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda dtype: dtype.__name__)
every_shape = pytest.mark.parametrize(("dimension", "n_components"), [(2, 2), (3, 5), (7, 1), (18, 9), (300, 4)])


def csr_block(rows):
    """The rows in the middle of a larger CSR matrix, so that `indptr` does not start at 0."""
    around = np.ones((2, rows.shape[1]), rows.dtype)
    whole = sp.csr_array(np.concatenate([around, rows, around]))
    return SparseBlock(whole.data, whole.indices, whole.indptr[2 : 3 + len(rows)], rows.shape[1])


def sums_of(rows, labels, n_components, direction):
    wide = rows.astype(np.float64)
    resultants = np.zeros((n_components, rows.shape[1]))
    np.add.at(resultants, labels, wide)
    return CollapsedSums(
        np.bincount(labels, minlength=n_components).astype(np.float64),
        np.ascontiguousarray(resultants.T),
        (resultants**2).sum(axis=1),
        resultants @ direction,
    )


def copy(sums):
    return CollapsedSums(*(array.copy() for array in sums))


class Problem:
    """Rows in clumps, sparse in part, with labels and a rule."""

    def __init__(self, seed, dimension, n_components, dtype, n_rows=60, mean_concentration=None):
        rng = np.random.default_rng([seed, dimension, n_components])
        rows = units(rng, 4, dimension)[rng.integers(4, size=n_rows)] + 0.5 * units(rng, n_rows, dimension)
        rows *= rng.random(rows.shape) < 0.7
        rows[np.all(rows == 0.0, axis=1)] = 1.0
        self.rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(dtype)
        self.direction = units(rng, dimension)
        self.labels = rng.integers(n_components, size=n_rows).astype(np.int32)
        self.projections = self.rows.astype(np.float64) @ self.direction
        self.sums = sums_of(self.rows, self.labels, n_components, self.direction)
        c = float(rng.choice([0.0, 3.0])) if mean_concentration is None else mean_concentration
        scale = np.exp(rng.normal(0.5 * np.log(2.0 * dimension), 0.5, n_components))
        self.rule = CollapsedRule(scale, float(rng.gamma(1.0) + 0.1), c)
        self.numbers = np.arange(n_rows)

    def chain(self, kernels, rows, n_sweeps=5):
        labels, sums = self.labels.copy(), copy(self.sums)
        trace = []
        for sweep in range(n_sweeps):
            before = labels.copy()
            n_changed = kernels.gibbs_sweep(rows, self.numbers, self.projections, (11, sweep), self.rule, sums, labels)
            assert n_changed == np.count_nonzero(labels != before)
            trace.append(labels.copy())
        return np.array(trace), sums


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_compiled_log_h_is_that_of_the_distribution(dimension):
    order = 0.5 * dimension - 1.0
    border = 2.0 * np.sqrt(order + 1.0)
    radius = np.sqrt(np.maximum(np.array([30.0, 100.0, 200.0, 1000.0]) ** 2 - order**2, 1.0))
    edges = np.concatenate([[border], radius])
    concentrations = np.concatenate(
        [[0.0], np.logspace(-9, 13, 600), edges, np.nextafter(edges, 0.0), np.nextafter(edges, np.inf)]
    )
    tables = order_tables(order)
    found = np.array([log_h(k, tables) for k in concentrations])
    np.testing.assert_allclose(found, bessel.log_h(order, concentrations), rtol=1e-13, atol=0)


@every_shape
@every_dtype
def test_compiled_and_reference_chains_are_equal(dimension, n_components, dtype):
    for seed, rows_of in enumerate((np.asarray, csr_block)):
        problem = Problem(seed, dimension, n_components, dtype, mean_concentration=3.0 * seed)
        rows = rows_of(problem.rows)
        expected, expected_sums = problem.chain(reference, rows, n_sweeps=3)
        found, sums = problem.chain(cpu, rows, n_sweeps=3)
        np.testing.assert_array_equal(found, expected, err_msg=f"seed {seed}")
        for array, wanted in zip(sums, expected_sums, strict=True):
            np.testing.assert_allclose(array, wanted, rtol=1e-9, atol=1e-9)


@every_shape
@every_dtype
def test_dense_and_csr_chains_are_equal_to_the_bit(dimension, n_components, dtype):
    problem = Problem(7, dimension, n_components, dtype)
    dense, dense_sums = problem.chain(cpu, problem.rows)
    sparse, sparse_sums = problem.chain(cpu, csr_block(problem.rows))
    np.testing.assert_array_equal(dense, sparse)
    for one, other in zip(dense_sums, sparse_sums, strict=True):
        np.testing.assert_array_equal(one, other)


@every_shape
@every_dtype
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
def test_sums_carried_along_are_those_of_the_labels(dimension, n_components, dtype, is_sparse):
    # float32 rows are unit to 1e-7 only: with x.x taken as 1 the squares would be off by that for each move
    problem = Problem(3, dimension, n_components, dtype)
    trace, sums = problem.chain(cpu, csr_block(problem.rows) if is_sparse else problem.rows, n_sweeps=50)
    rebuilt = sums_of(problem.rows, trace[-1], n_components, problem.direction)
    np.testing.assert_array_equal(sums.counts, rebuilt.counts)
    for array, wanted in zip(sums, rebuilt, strict=True):
        np.testing.assert_allclose(array, wanted, rtol=1e-11, atol=1e-11)
    if n_components > 1:
        assert len(np.unique(trace, axis=0)) > 10, "the chain moves"


def test_a_component_that_lost_its_last_row_is_empty_to_the_bit():
    rng = np.random.default_rng(0)
    rows = units(rng, 40, 3)
    problem = Problem(0, 3, 6, np.float64, n_rows=40)
    problem.rows = rows
    problem.labels = np.sort(problem.labels)
    problem.projections = rows @ problem.direction
    problem.sums = sums_of(rows, problem.labels, 6, problem.direction)
    problem.rule = CollapsedRule(np.full(6, 0.3), 1e-3, 0.0)
    trace, sums = problem.chain(cpu, rows, n_sweeps=200)
    is_empty = sums.counts == 0.0
    assert is_empty.any()
    assert not np.any(sums.squares[is_empty])
    assert not np.any(sums.projections[is_empty])
    np.testing.assert_allclose(sums.resultants[:, is_empty], 0.0, atol=1e-12)
    assert trace.max() < 6


def test_a_sweep_in_parts_is_the_sweep():
    problem = Problem(5, 5, 4, np.float64)
    whole, whole_sums = problem.chain(cpu, problem.rows, n_sweeps=1)
    labels, sums = problem.labels.copy(), copy(problem.sums)
    for start, stop in ((0, 1), (1, 30), (30, 60)):
        part = slice(start, stop)
        arguments = problem.numbers[part], problem.projections[part], (11, 0), problem.rule, sums, labels[part]
        cpu.gibbs_sweep(problem.rows[part], *arguments)
    np.testing.assert_array_equal(labels, whole[0])
    # each part takes its cached log H from the sums
    for one, other in zip(sums, whole_sums, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_draws_belong_to_row_numbers():
    # rows of no consequence: each label depends on its own draw alone
    rng = np.random.default_rng(1)
    rows = units(rng, 500, 3)
    n_components = 4
    rule = CollapsedRule(np.full(n_components, 1e-9), 1e12, 0.0)
    direction = units(rng, 3)
    order = rng.permutation(500)
    drawn = []
    for numbers in (np.arange(500), order):
        labels = np.zeros(500, dtype=np.int32)
        sums = sums_of(rows, labels, n_components, direction)
        cpu.gibbs_sweep(rows[numbers], numbers, rows[numbers] @ direction, (3, 4), rule, sums, labels)
        everywhere = np.empty(500, dtype=np.int32)
        everywhere[numbers] = labels
        drawn.append(everywhere)
    np.testing.assert_array_equal(drawn[0], drawn[1])
    uniforms = reference.philox_uniform((3, 4), np.arange(500))
    np.testing.assert_array_equal(drawn[0], np.floor(4 * uniforms))
