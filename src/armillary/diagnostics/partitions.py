"""Draws of labels seen as partitions: a point estimate, the losses behind it, and how often rows share a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from armillary._typing import Float64Array
from armillary.exceptions import InputError
from armillary.fitting.partitions import PointPartition, check_draws, expected_losses, point_partition

__all__ = ["PointPartition", "coclustering_matrix", "expected_losses", "point_partition"]

# An N x N matrix of 800 MB.
_MOST_ROWS = 10_000


def coclustering_matrix(labels: Any) -> Float64Array:
    """The share (N, N) of draws (S, N) in which two rows have the same label: 1 on the diagonal.

    For small N: the matrix takes 8 N^2 bytes. `point_partition` needs none.

    Parameters
    ----------
    labels : array-like of shape (S, N), int
        Draws of the labels of N rows, e.g. `model.sample_labels_`.

    Returns
    -------
    array of shape (N, N)
        Shares.

    Examples
    --------
    >>> from armillary.diagnostics import coclustering_matrix
    >>> coclustering_matrix([[0, 0, 1], [1, 0, 0]])
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0.5],
           [0. , 0.5, 1. ]])
    """
    draws = check_draws(labels, "coclustering_matrix")
    n_draws, n_rows = draws.shape
    if n_rows > _MOST_ROWS:
        raise InputError(
            f"`labels` of coclustering_matrix must have at most {_MOST_ROWS} rows; got {n_rows}, a matrix of "
            f"{8e-9 * n_rows**2:.1f} GB. Choose some rows, or use point_partition, which needs no such matrix."
        )
    together = np.zeros((n_rows, n_rows))
    for draw in draws:
        together += draw[:, None] == draw
    return together / n_draws
