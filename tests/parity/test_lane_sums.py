"""Scores of k-means++ are sums in lanes with one order, so that no device has other bits."""

import numpy as np
import pytest

from armillary.kernels.rows.dense import row_scores


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
