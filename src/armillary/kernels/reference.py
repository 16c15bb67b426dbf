"""The kernel contract in NumPy and float64, written to be read: the oracle of every other implementation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import logsumexp

from armillary._typing import Float64Array, FloatArray
from armillary.kernels.contract import AffineRule, AngleBounds
from armillary.points import Block, SparseBlock

_PHILOX_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)


def _float64(rows: Block) -> Float64Array:
    if isinstance(rows, SparseBlock):
        first, last = rows.indptr[0], rows.indptr[-1]
        parts = (rows.data[first:last], rows.indices[first:last], rows.indptr - first)
        csr = sp.csr_array(parts, shape=(len(rows.indptr) - 1, rows.n_features))
        return np.asarray(csr.toarray(), dtype=np.float64)
    return np.asarray(rows, dtype=np.float64)


def prepare(rule: AffineRule) -> AffineRule:
    """Nothing to prepare."""
    return rule


def _scores(rows: Block, rule: AffineRule) -> Float64Array:
    return _float64(rows) @ rule.vectors.T + rule.offsets


def scores(rows: Block, rule: AffineRule, out: FloatArray) -> None:
    """Scores (n, K)."""
    out[:] = _scores(rows, rule)


def own_scores(rows: Block, rule: AffineRule, labels: npt.NDArray[np.int32], out: Float64Array) -> None:
    """One column of the scores for each row."""
    out[:] = np.take_along_axis(_scores(rows, rule), labels[:, None], axis=1)[:, 0]


def assign_best(rows: Block, rule: AffineRule, labels: npt.NDArray[np.int32], changed: npt.NDArray[np.int64]) -> int:
    """np.argmax takes the smallest k among ties, as the contract asks."""
    best = np.argmax(_scores(rows, rule), axis=1)
    moved = best != labels
    np.add.at(changed, best[moved], 1)
    np.add.at(changed, labels[moved & (labels >= 0)], 1)
    labels[:] = best
    return int(moved.sum())


def assign_bounded(
    rows: Block,
    rule: AffineRule,
    labels: npt.NDArray[np.int32],
    changed: npt.NDArray[np.int64],
    angles: AngleBounds,
) -> int:
    """Bounds may save work, never change a label: here they save none."""
    return assign_best(rows, rule, labels, changed)


def philox_uniform(key: tuple[int, int], numbers: npt.NDArray[np.int64]) -> Float64Array:
    """Philox 4x32-10 at counters (number, 0), as doubles in (0, 1)."""
    counter = numbers.astype(np.uint64)
    c = [counter & _LOW, counter >> np.uint64(32), np.zeros_like(counter), np.zeros_like(counter)]
    k0, k1 = key
    for _ in range(10):
        low, high = _PHILOX_MULTIPLIERS[0] * c[0], _PHILOX_MULTIPLIERS[1] * c[2]
        c = [
            (high >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            high & _LOW,
            (low >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            low & _LOW,
        ]
        k0, k1 = (k0 + _PHILOX_WEYL[0]) % 2**32, (k1 + _PHILOX_WEYL[1]) % 2**32
    bits = (c[0] << np.uint64(20)) | (c[1] >> np.uint64(12))
    return (bits.astype(np.float64) + 0.5) * 2.0**-52


def assign_draw(
    rows: Block,
    rule: AffineRule,
    weights: Float64Array | None,
    key: tuple[int, int],
    first_row: int,
    labels: npt.NDArray[np.int32],
) -> float:
    """The first cluster whose cumulative responsibility exceeds the row's uniform."""
    table = np.empty((len(labels), len(rule.vectors)))
    log_evidence = np.empty(len(labels))
    responsibilities(rows, rule, table, log_evidence)
    uniforms = philox_uniform(key, first_row + np.arange(len(labels)))
    exceeds = np.cumsum(table, axis=1) > uniforms[:, None]
    # rounding can leave the sum just below 1: the last cluster with any weight takes the rest
    last = table.shape[1] - 1 - np.argmax(table[:, ::-1] > 0.0, axis=1)
    labels[:] = np.where(exceeds.any(axis=1), np.argmax(exceeds, axis=1), last)
    return float(log_evidence.sum() if weights is None else weights @ log_evidence)


def responsibilities(rows: Block, rule: AffineRule, out: FloatArray, log_evidence: Float64Array) -> None:
    """Softmax of the scores, and log sum exp."""
    table = _scores(rows, rule)
    log_evidence[:] = logsumexp(table, axis=1)
    out[:] = np.exp(table - log_evidence[:, None])


def add_rows(
    rows: Block,
    weights: Float64Array | None,
    labels: npt.NDArray[np.int32],
    is_wanted: npt.NDArray[np.bool_],
    counts: Float64Array,
    resultants: Float64Array,
) -> None:
    """One row at a time."""
    for number, (row, label) in enumerate(zip(_float64(rows), labels, strict=True)):
        if is_wanted[label]:
            weight = 1.0 if weights is None else weights[number]
            counts[label] += weight
            resultants[label] += weight * row


def add_soft(
    rows: Block,
    rule: AffineRule,
    weights: Float64Array | None,
    counts: Float64Array,
    resultants: Float64Array,
) -> float:
    """counts += W' 1 and resultants += W' X with W the weighted responsibilities."""
    table = _scores(rows, rule)
    log_evidence = logsumexp(table, axis=1)
    weight = np.ones(len(table)) if weights is None else weights
    table = weight[:, None] * np.exp(table - log_evidence[:, None])
    counts += table.sum(axis=0)
    resultants += table.T @ _float64(rows)
    return float(weight @ log_evidence)
