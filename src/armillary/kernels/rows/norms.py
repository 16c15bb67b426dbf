"""Sums of squares of rows, as the gate defines norms (validation.py): float64, in column order, nothing fused.

One sum in order waits for each of its additions: eight rows go on side by side. Rows that are unit already, as most
are, need no such sum: one in any order tells them, at the speed of memory.
"""

from __future__ import annotations

import numpy as np

from armillary.kernels.jit import VECTOR_SUMS, kernel

_TOGETHER = 8


@kernel(fastmath=VECTOR_SUMS)
def square(row):
    """The sum of squares of a row, less 1, in an order that suits the processor."""
    total = -1.0
    for d in range(row.shape[0]):
        value = np.float64(row[d])
        total += value * value
    return total


@kernel
def are_unit(rows, within):
    """Whether all sums of squares of rows (n, D) are 1 to within a number."""
    i = 0
    while i < rows.shape[0] and abs(square(rows[i])) <= within:  # a NaN is off
        i += 1
    return i == rows.shape[0]


@kernel
def squares(rows, out):
    """Sums of squares of rows (n, D)."""
    n_rows, n_columns = rows.shape
    first = 0
    while first + _TOGETHER <= n_rows:
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for d in range(n_columns):
            x0, x1 = np.float64(rows[first, d]), np.float64(rows[first + 1, d])
            x2, x3 = np.float64(rows[first + 2, d]), np.float64(rows[first + 3, d])
            x4, x5 = np.float64(rows[first + 4, d]), np.float64(rows[first + 5, d])
            x6, x7 = np.float64(rows[first + 6, d]), np.float64(rows[first + 7, d])
            s0 += x0 * x0
            s1 += x1 * x1
            s2 += x2 * x2
            s3 += x3 * x3
            s4 += x4 * x4
            s5 += x5 * x5
            s6 += x6 * x6
            s7 += x7 * x7
        out[first], out[first + 1], out[first + 2], out[first + 3] = s0, s1, s2, s3
        out[first + 4], out[first + 5], out[first + 6], out[first + 7] = s4, s5, s6, s7
        first += _TOGETHER
    for i in range(first, n_rows):
        total = 0.0
        for d in range(n_columns):
            value = np.float64(rows[i, d])
            total += value * value
        out[i] = total


@kernel
def csr_squares(values, pointers, out):
    """Sums of squares of CSR rows, in the order stored."""
    for i in range(pointers.shape[0] - 1):
        total = 0.0
        for p in range(pointers[i], pointers[i + 1]):
            value = np.float64(values[p])
            total += value * value
        out[i] = total
