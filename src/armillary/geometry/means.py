"""Two means of unit vectors: the direction of their sum, and the point with the least sum of squared angles.

resultant_mean    maximises sum_i w_i x_i.m
karcher_mean      minimises f(m) = sum_i w_i angle(x_i, m)^2 / 2, whose gradient is -sum_i w_i log_m(x_i)

Rows that cancel have neither: no direction is better than its opposite. The resultant mean is otherwise unique. The
Karcher mean is unique when all rows lie in an open ball of radius pi/2 (Afsari 2011). For rows spread wider there can
be several local minima, and what is returned is the stationary point that descent from the resultant mean reaches.
"""

from __future__ import annotations

import numpy as np

from armillary._typing import ArrayLike, Float64Array
from armillary.exceptions import InputError
from armillary.geometry import sphere
from armillary.validation import Rows, check_integer, check_number, check_sample_weight, unit_rows

_EPS = float(np.finfo(np.float64).eps)
_CONJUGATE_STEPS = 30


def resultant_mean(points: ArrayLike, weights: ArrayLike | None = None) -> Float64Array:
    """The direction of the weighted sum of the rows.

    Parameters
    ----------
    points : (n, D) array or CSR, directions; rows are scaled to unit length
    weights : (n,), not negative; None counts rows alike

    Returns
    -------
    (D,) float64, a unit vector

    Examples
    --------
    >>> from armillary.geometry.means import resultant_mean
    >>> resultant_mean([[1.0, 0.0], [0.0, 1.0]]).round(6)
    array([0.707107, 0.707107])
    """
    return _direction(*_rows_and_shares(points, weights, "resultant_mean"), "resultant_mean")


def karcher_mean(
    points: ArrayLike, weights: ArrayLike | None = None, *, tol: float = 1e-12, max_iter: int = 100
) -> Float64Array:
    """The intrinsic mean: the point whose weighted sum of squared angles to the rows is least.

    A Newton step is tried, and kept if it shortens the gradient without raising f; otherwise a gradient step of
    length one is taken. The curvature of angle^2/2 on the sphere is nowhere above 1, so that step lowers f by at
    least |gradient|^2 / 2 from any point: the descent cannot stall before the gradient vanishes. If all rows are then
    within pi/2 of the result, it is the one minimum. Each step costs a few products with the (n, D) rows.

    Parameters
    ----------
    points : (n, D) array or CSR, directions; rows are scaled to unit length
    weights : (n,), not negative; None counts rows alike
    tol : radians; at the result the mean of the log map of the rows is at most this long
    max_iter : number of steps after which `InputError` is raised

    Returns
    -------
    (D,) float64, a unit vector

    Examples
    --------
    >>> from armillary.geometry.means import karcher_mean
    >>> karcher_mean([[1.0, 0.0], [0.0, 1.0]]).round(6)
    array([0.707107, 0.707107])
    """
    tol = check_number(tol, "tol", "karcher_mean", low=0.0)
    max_iter = check_integer(max_iter, "max_iter", "karcher_mean", low=1)
    rows, shares = _rows_and_shares(points, weights, "karcher_mean")
    here = _Spread(rows, shares, _direction(rows, shares, "karcher_mean"))
    # the gradient is a sum of terms of size one: rounding leaves it no shorter than the second number
    enough = max(tol, 4.0 * _EPS)
    for _ in range(max_iter):
        if here.slope <= enough:
            break
        there = _Spread(rows, shares, sphere.exp(here.newton_step(), here.mean))
        if there.slope > 0.9 * here.slope or there.value > here.value + 4.0 * _EPS:
            there = _Spread(rows, shares, sphere.exp(here.downhill, here.mean))
        here = there
    if here.slope <= enough:
        return here.mean
    raise InputError(
        f"karcher_mean must shorten its gradient to tol={tol:g}; {here.slope:.2g} was left after max_iter={max_iter} "
        "steps. Rows beyond one open half-sphere can make the minimum flat: raise `max_iter`, or average fewer rows."
    )


class _Spread:
    """f around `mean`: its value, minus its gradient `downhill` (D,), the length `slope`, and the curvature."""

    def __init__(self, rows: Rows, shares: Float64Array, mean: Float64Array) -> None:
        self.rows, self.mean = rows, mean
        cosine = np.clip(rows @ mean, -1.0, 1.0)
        square = (1.0 - cosine) * (1.0 + cosine)
        opposite = np.flatnonzero((square == 0.0) & (cosine < 0.0))
        if opposite.size:
            raise InputError(
                f"The rows of karcher_mean must stay clear of the antipode of their mean; one ({opposite[0]}, counting "
                "rows of positive weight) is there, and every direction leads to it. Average fewer rows."
            )
        # both parts come from the same rounded cosine, so the ratio has all its digits; it is 1 at the mean itself
        angle = np.arccos(cosine)
        stretch = np.where(square > 0.0, angle / np.sqrt(np.where(square > 0.0, square, 1.0)), 1.0)
        self.value = float(shares @ (angle * angle)) / 2.0
        self.downhill = sphere.to_tangent(rows.T @ (shares * stretch), mean)
        self.slope = float(np.linalg.norm(self.downhill))
        # the Hessian of angle^2/2 is 1 towards the row and angle cot(angle) across
        across = stretch * cosine
        self.across = float(shares @ across)
        self.towards = shares * np.where(
            square > 1e-10, (1.0 - across) / np.where(square > 0.0, square, 1.0), 1.0 / 3.0
        )

    def curve(self, vec: Float64Array) -> Float64Array:
        """The Hessian times a tangent vector (D,)."""
        return self.across * vec + sphere.to_tangent(self.rows.T @ (self.towards * (self.rows @ vec)), self.mean)

    def newton_step(self) -> Float64Array:
        """`downhill` divided by the Hessian, by conjugate gradients; cut short where the Hessian is not positive."""
        step = np.zeros_like(self.downhill)
        residual = direction = self.downhill
        square = self.slope**2
        for _ in range(_CONJUGATE_STEPS):
            curved = self.curve(direction)
            curvature = float(direction @ curved)
            if curvature <= 0.0:
                break
            step = step + (square / curvature) * direction
            residual = residual - (square / curvature) * curved
            last, square = square, float(residual @ residual)
            # solved as well as the step deserves: the error left is of second order in the gradient
            if square <= (min(0.1, self.slope) * self.slope) ** 2:
                break
            direction = residual + (square / last) * direction
        return step


def _rows_and_shares(points: ArrayLike, weights: ArrayLike | None, who: str) -> tuple[Rows, Float64Array]:
    """Unit float64 rows of positive weight, and their weights scaled to sum to 1."""
    rows = unit_rows(points, who)
    if rows.dtype != np.float64:
        # float32 rows count as unit when they are so to 2e-6; here the norms must be exact
        rows = unit_rows(rows.astype(np.float64), who)
    n_rows = rows.shape[0]
    given = check_sample_weight(weights, n_rows, who, name="weights")
    if given is None:
        return rows, np.full(n_rows, 1.0 / n_rows)
    kept = given > 0.0
    shares = given / given.max()
    return rows if kept.all() else rows[kept], (shares / shares.sum())[kept]


def _direction(rows: Rows, shares: Float64Array, who: str) -> Float64Array:
    resultant: Float64Array = rows.T @ shares
    length = float(np.linalg.norm(resultant))
    # what rounding leaves of a sum of n unit vectors that cancel, seen as a random walk
    if length <= 4.0 * _EPS * np.sqrt(len(shares)):
        raise InputError(
            f"The rows of {who} must have a direction in common; their weighted mean has length {length:.2g}, so they "
            "cancel, as an antipodal pair does. Drop one of each such pair, or change the weights."
        )
    return resultant / length
