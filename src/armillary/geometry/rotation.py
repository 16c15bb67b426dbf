"""The rotation that best takes one set of directions to another: how a sensor turned between two views.

mean_rotation    maximises sum_k w_k target_k . R source_k over R with R'R = I, det R = +1        Wahba 1965

With the singular values of M = sum_k w_k target_k source_k' = U S V', R takes each v_j to its u_j (Kabsch 1976). Few
pairs do not determine all of R: where S vanishes, any proper rotation of the remaining v to the remaining u is as good.
Of these the one with the greatest trace is taken, the nearest to the identity; it is a problem of the same kind, with
the identity as its target. One pair is then joined by the rotation in its own plane, no pair by the identity.
"""

from __future__ import annotations

import numpy as np

from armillary._typing import ArrayLike, Float64Array
from armillary.exceptions import InputError
from armillary.validation import check_numbers

_EPS = float(np.finfo(np.float64).eps)


def mean_rotation(source: ArrayLike, target: ArrayLike, weights: ArrayLike | None = None) -> Float64Array:
    """The proper rotation R (D, D) for which the rows of `source` R' come closest to those of `target`.

    Closest in the weighted sum of squared distances; among equals, R moves least. Pairs that one rotation joins
    exactly are joined to 1e-12 while their weights lie within a factor of 1e8; what counts for less than 1e-14 of the
    whole, as the second of two rows 1e-7 apart, determines nothing. A single antipodal pair is joined by half a turn
    in some plane. The cost is that of a few decompositions of size min(D, 2K), and D^2 numbers.

    Parameters
    ----------
    source, target : (K, D), unit rows; D >= 2
    weights : (K,), not negative; None counts pairs alike

    Returns
    -------
    array of shape (D, D)
        R.

    Examples
    --------
    >>> from armillary.geometry.rotation import mean_rotation
    >>> mean_rotation([[1.0, 0.0]], [[0.0, 1.0]]).round(6) + 0.0
    array([[ 0., -1.],
           [ 1.,  0.]])
    """
    who = "mean_rotation"
    before, after = check_numbers(source, "source", who), check_numbers(target, "target", who)
    if before.ndim != 2 or before.shape != after.shape or before.shape[1] < 2:
        raise InputError(
            "`source` and `target` of mean_rotation must be pairs of rows, both (K, D) with D >= 2; "
            f"got {before.shape} and {after.shape}."
        )
    n_pairs, dimension = before.shape
    shares = np.ones(n_pairs) if weights is None else check_numbers(weights, "weights", who)
    if shares.shape != (n_pairs,) or not np.all((shares >= 0.0) & np.isfinite(shares)):
        raise InputError(
            f"`weights` of mean_rotation must be one finite number, not negative, for each of the {n_pairs} pairs; "
            f"got shape {shares.shape}. Give unseen pairs the weight 0."
        )
    if not np.any(shares > 0.0):
        return np.eye(dimension)
    # Nothing outside the span of the pairs moves. QR completes it to 2K directions whatever its rank, half of them free
    # to make the determinant +1.
    basis = np.linalg.qr(np.hstack([before.T, after.T]))[0] if 2 * n_pairs < dimension else np.eye(dimension)
    inner = _rotation_in_span(before @ basis, after @ basis, shares / shares.max())
    return np.eye(dimension) + basis @ (inner - np.eye(len(inner))) @ basis.T


def _rotation_in_span(before: Float64Array, after: Float64Array, shares: Float64Array) -> Float64Array:
    """The same for rows (K, p) in coordinates of the span; (p, p)."""
    size = before.shape[1]
    u, strength, vt = np.linalg.svd(after.T @ (shares[:, None] * before))
    # rows can cancel in M: what rounding leaves is measured by the weights, not by M
    is_determined = strength > 8.0 * max(before.shape) * _EPS * shares.sum()
    # at least one direction stays free to make the determinant +1: the one that costs least
    rank = min(int(is_determined.sum()), size - 1)
    # greatest trace of U_0 O V_0' over orthogonal O
    p, _, qt = np.linalg.svd(u[:, rank:].T @ vt[rank:].T)
    if np.linalg.det(u) * np.linalg.det(vt) * np.linalg.det(p) * np.linalg.det(qt) < 0.0:
        # singular values come in falling order: the last is the least loss of trace
        p[:, -1] = -p[:, -1]
    rotation = u[:, :rank] @ vt[:rank] + u[:, rank:] @ (p @ qt) @ vt[rank:]
    return _polished(rotation, before, after, shares)


def _polished(rotation: Float64Array, before: Float64Array, after: Float64Array, shares: Float64Array) -> Float64Array:
    """One Newton step on the group, for pairs of little weight.

    Rounding of M turns planes of little weight w by 1e-16/w. At the optimum sum_k w_k (t_k s_k' - s_k t_k') vanishes,
    s_k the turned source; taken from the offsets t_k - s_k, and in the axes of the s_k, it has no such rounding.
    """
    turned = before @ rotation.T
    stiffness, axes = np.linalg.eigh(turned.T @ (shares[:, None] * turned))
    pull = ((after - turned) @ axes).T @ (shares[:, None] * (turned @ axes))
    pair_stiffness = np.add.outer(stiffness, stiffness)
    is_determined = pair_stiffness > 8.0 * max(before.shape) * _EPS * stiffness[-1]
    turn = np.where(is_determined, (pull - pull.T) / np.where(is_determined, pair_stiffness, 1.0), 0.0)
    # Cayley's map: skew to proper rotations
    half = 0.5 * axes @ turn @ axes.T
    one = np.eye(len(half))
    polished: Float64Array = np.linalg.solve(one - half, one + half) @ rotation
    return polished
