"""Scores of k-means++ are sums in lanes with one order, so that neither devices nor formats have other bits."""

import numpy as np
import pytest
import scipy.sparse as sp

from armillary import SphericalKMeans
from armillary.kernels.rows import blocks
from armillary.kernels.rows.dense import row_scores
from armillary.points import SparseBlock
from armillary.rules import AffineRule


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [17, 24, 61, 384])
def test_sums_in_lanes_have_one_order(dtype, n_columns):
    """Lane l of 16 has the columns l, l + 16, ...; lanes are added in halves."""
    rng = np.random.default_rng(n_columns)
    rows, vectors = rng.standard_normal((9, n_columns)).astype(dtype), rng.standard_normal((5, n_columns)).astype(dtype)
    found = np.empty((9, 5), dtype)
    row_scores(rows, vectors, found)
    width = -(-n_columns // 16) * 16
    products = np.zeros((9, 5, width), dtype)
    products[..., :n_columns] = rows[:, None] * vectors
    lanes = np.zeros((9, 5, 16), dtype)
    for first in range(0, width, 16):
        lanes = lanes + products[..., first : first + 16]
    while lanes.shape[-1] > 1:
        half = lanes.shape[-1] // 2
        lanes = lanes[..., :half] + lanes[..., half:]
    np.testing.assert_array_equal(found, lanes[..., 0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [3, 16, 17, 61])
def test_csr_rows_have_the_bits_of_dense_ones(dtype, n_columns):
    rng = np.random.default_rng(n_columns)
    rows = rng.standard_normal((200, n_columns)).astype(dtype)
    rows[rng.random(rows.shape) < 0.4] = 0.0
    rule = blocks.prepare(AffineRule(rng.standard_normal((5, n_columns)), 0.1 * np.arange(5.0)))
    csr = sp.csr_array(rows)
    block = SparseBlock(csr.data, csr.indices, csr.indptr, n_columns)
    for kind in (dtype, np.float64):
        found, wanted = np.empty((200, 5), kind), np.empty((200, 5), kind)
        blocks.row_scores(block, rule, found)
        blocks.row_scores(rows, rule, wanted)
        np.testing.assert_array_equal(found, wanted)


# seeds of which picks differed where CSR rows were summed otherwise
@pytest.mark.parametrize(("n_rows", "n_features", "seed"), [(4, 3, 24), (5, 5, 28), (9, 5, 2), (9, 5, 37), (9, 24, 0)])
def test_k_means_plus_plus_picks_the_same_rows_of_csr(n_rows, n_features, seed):
    """With as many clusters as rows the last picks are between distances that are rounding alone."""
    rows = np.random.default_rng([seed, n_features]).standard_normal((n_rows, n_features)).astype(np.float32)
    one, other = (SphericalKMeans(n_rows, random_state=seed).fit(form) for form in (rows, sp.csr_array(rows)))
    np.testing.assert_array_equal(one.labels_, other.labels_)
    np.testing.assert_array_equal(one.cluster_centers_, other.cluster_centers_)
