"""The modified Bessel functions I as the sphere needs them: log H, the mean resultant length, its inverse.

H_v(k) = Gamma(v+1) (2/k)^v I_v(k) is 1 at k = 0 and neither overflows nor underflows where I_v does; with
v = D/2 - 1 the normaliser of a von Mises-Fisher law is 1 / (area of the sphere * H_v).

log_h                           log H_v(k), or log(exp(-k) H_v(k))
log_normalizer                  -log(area of the sphere) - log H_v(k)
mean_resultant_length           A_D(k) = d/dk log H_v = I_{v+1}(k) / I_v(k), the length of the mean vector
mean_resultant_complement       1 - A_D(k), with all its digits where A_D rounds to 1
mean_resultant_derivative       A_D'(k), the variance of the cosine with the mean direction
concentration_from_resultant    the k with A_D(k) = length

Two regions, with r = hypot(v, k). Where r < 30 or k^2/4 <= v + 1 the power series of H is summed: its terms are
positive, nothing cancels. Elsewhere the Debye expansion is used, in powers of 1/r so that it also holds at v = 0:

    log I_v(k) = r + v log(k / (v+r)) - log(2 pi r)/2 + sum_{j=1}^{12} r^-j P_j(q),    q = (v/r)^2

Its derivatives in k are taken term by term and the leading differences by hand, which gives A, 1 - A and A'
without a logarithm and without cancellation:

    A     = k/(r+v) - k/(2 r^2) - k sum r^-(j+2) Q_j(q)
    1 - A = v (1 + v/(r+k)) / (r+v) + k/(2 r^2) + k sum r^-(j+2) Q_j(q)
    A'    = v/(r (r+v)) + (1 - 2q)/(2 r^2) + sum r^-(j+2) S_j(q)

with Q_j = j P_j + 2 q P_j' and S_j = (1-q)((j+2) Q_j + 2 q Q_j') - Q_j. The first term left out is largest at v = 0,
where it is j!/(pi (2r)^(j+1)): 1.4e-15 of log I at r = 30. Measured errors are in tests/oracles/test_bessel_mpmath.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy.special import gammaln

from armillary._typing import ArrayLike, Float64Array
from armillary.exceptions import ParameterError
from armillary.geometry.sphere import log_area
from armillary.validation import check_broadcast, check_numbers

# A float where every argument is a scalar, else a Float64Array: NumPy's own convention for its functions.
FloatOrArray: TypeAlias = Any

# Orders and concentrations (m,) to one curve (m,) or several (n, m).
_Curves: TypeAlias = Callable[[Float64Array, Float64Array], Float64Array]

# Below this radius the expansion misses digits and the series is short (at most 60 terms).
_SERIES_RADIUS = 30.0
# Terms of the series that are taken together: small arrays cost what NumPy's calls cost, and 60 terms are enough.
_MOST_TERMS, _MOST_NUMBERS = 60, 4096
_THREE_ORDERS = np.arange(3.0)[:, None]
# From this order on Stirling's series has all digits; below it lgamma does not yet cancel.
_STIRLING_ORDER = 15.0

# P_1 .. P_12, lowest power first: the logarithm of the Debye series. A test derives them from exact fractions.
# fmt: off
_DEBYE_ROWS = (
    (0.125, -0.20833333333333334),
    (0.0625, -0.375, 0.3125),
    (0.06510416666666667, -0.8296875, 1.7265625, -0.9592013888888888),
    (0.1015625, -2.21875, 8.296875, -10.59375, 4.4140625),
    (0.2095703125, -6.982282366071429, 40.542751736111114, -87.693359375, 80.8837890625, -26.961263020833332),
    (0.5364583333333334, -25.3125, 209.625, -673.625, 1021.640625, -737.8125, 204.94791666666666),
    (1.6380658830915178, -103.97592163085938, 1160.8294372558594, -5140.211273193359, 11304.659503173829,
     -13184.767364501953, 7824.899444580078, -1863.07129632859),
    (5.809814453125, -477.615234375, 6904.2763671875, -40090.447265625, 119071.95263671875, -198321.806640625,
     187801.9013671875, -94603.037109375, 19708.966064453125),
    (23.475127749972874, -2427.2885336442428, 44069.78581237793, -323875.5657704671, 1240124.8821487427,
     -2752869.211418152, 3683609.1391855874, -2935198.3014678955, 1284393.7849998474, -237850.70092589766),
    (106.467822265625, -13526.99560546875, 301187.0236816406, -2727462.591796875, 13026405.797363281,
     -36852414.786914065, 65112147.795410156, -72748886.00585938, 50027742.52075195, -19350359.06982422,
     3225059.844970703),
    (535.640519510616, -82046.56579866775, 2197624.750671816, -24011994.284158945, 139535179.1724906,
     -487422412.2709402, 1088470361.2907014, -1594676024.676859, 1528592829.647338, -924445055.3424871,
     320384038.82623315, -48543036.1857929),
    (2960.739786783854, -538164.052734375, 17067704.537109375, -221216118.06429037, 1533944655.227417,
     -6461280179.630859, 17683879971.17871, -32540336002.749023, 40681628863.23303, -34134822577.796875,
     18421426618.901367, -5782944462.414551, 803186730.8909098),
)
# fmt: on


def _debye_tables() -> tuple[Float64Array, Float64Array, Float64Array]:
    """P, Q and S as (12, 14) arrays: row j - 1, column the power of q."""
    n_rows = len(_DEBYE_ROWS)
    p = np.zeros((n_rows, n_rows + 2))
    for row, coefficients in zip(p, _DEBYE_ROWS, strict=True):
        row[: len(coefficients)] = coefficients
    # q^i in row j stands for r^-(j+2i): each derivative in r brings that exponent down
    exponents = np.arange(1, n_rows + 1)[:, None] + 2.0 * np.arange(n_rows + 2)
    q = exponents * p
    twice = (exponents + 2.0) * q
    s = twice - q
    s[:, 1:] -= twice[:, :-1]
    return p, q, s


_P, _Q, _S = _debye_tables()
_QS = np.concatenate([_Q, _S])

# log Gamma(v+1) - (v + 1/2) log v + v - log(2 pi)/2 in odd powers of 1/v
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)

# log 2 = high + low; the 26 bits of `high` leave room for an exact product with v times a binary exponent
_LOG2_HIGH, _LOG2_LOW = 0.6931471824645996, -1.904654299957768e-09


def log_h(order: ArrayLike, concentration: ArrayLike, *, scaled: bool = False) -> FloatOrArray:
    """log H_v(k) for orders v >= 0 and concentrations k >= 0 that broadcast; a float for two scalars.

    `scaled=True` gives log(exp(-k) H_v(k)): for large k, log H is k and little else, and this is the little else.
    """

    def series(v: Float64Array, k: Float64Array) -> Float64Array:
        total: Float64Array = np.log1p(_series(v, k))
        return total - k if scaled else total

    def uniform(v: Float64Array, k: Float64Array) -> Float64Array:
        r = np.hypot(v, k)
        # r - v - k and r - v, as quotients
        lead = -2.0 * v * (k / (r + v + k)) if scaled else k * (k / (r + v))
        return lead + (_log_prefactor(v, k, r) + _debye(_P, v, r)[0])

    return _by_region(series, uniform, *_arguments("order", 0.0, order, concentration))[0]


def log_normalizer(dimension: ArrayLike, concentration: ArrayLike) -> FloatOrArray:
    """log C_D(k), where vMF(mu, k) has the density C_D(k) exp(k mu.x) on the sphere in D >= 2 dimensions.

    It equals -log_area(D) - log_h(D/2 - 1, k). In high dimensions both parts are large and can cancel, so away from
    the series they are taken together: v log((v+r) / (2 pi)) - r + log(r / (2 pi))/2 - Debye sum. The arguments
    broadcast; two scalars give a float.

    Parameters
    ----------
    dimension : array-like of int
        D, at least 2.
    concentration : array-like
        k, from 0 on.

    Returns
    -------
    float or array
        Of the shape to which the arguments broadcast.

    Examples
    --------
    >>> from armillary.distributions import vmf
    >>> round(vmf.log_normalizer(3, 0.0), 6)  # minus the log of the sphere's area, 4 pi
    -2.531024
    """

    def series(v: Float64Array, k: Float64Array) -> Float64Array:
        total: Float64Array = -log_area(2.0 * v + 2.0) - np.log1p(_series(v, k))
        return total

    def uniform(v: Float64Array, k: Float64Array) -> Float64Array:
        r = np.hypot(v, k)
        # v log(..) and r reach 1e6 while their difference may be 0: the power of two goes against k without rounding
        fraction, exponent = np.frexp((v + r) / (2.0 * np.pi))
        doublings = v * exponent
        small = doublings * _LOG2_LOW + v * np.log(fraction) - v * (v / (r + k))
        return (doublings * _LOG2_HIGH - k) + (small + 0.5 * np.log(r / (2.0 * np.pi)) - _debye(_P, v, r)[0])

    return _by_region(series, uniform, *_order_arguments(dimension, concentration))[0]


def mean_resultant_length(dimension: ArrayLike, concentration: ArrayLike) -> FloatOrArray:
    """A_D(k): the length of the mean of vMF(mu, k) in D >= 2 dimensions, from 0 at k = 0 towards 1.

    The arguments broadcast; two scalars give a float.

    Parameters
    ----------
    dimension : array-like of int
        D, at least 2.
    concentration : array-like
        k, from 0 on.

    Returns
    -------
    float or array
        Of the shape to which the arguments broadcast.

    Examples
    --------
    >>> from armillary.distributions import vmf
    >>> vmf.mean_resultant_length(3, [0.0, 10.0]).round(6)
    array([0. , 0.9])
    """
    return _resultant(*_order_arguments(dimension, concentration))[0]


def mean_resultant_complement(dimension: ArrayLike, concentration: ArrayLike) -> FloatOrArray:
    """1 - A_D(k) to full relative precision; where k is large it is close to (D - 1) / (2k).

    Parameters
    ----------
    dimension : array-like of int
        D, at least 2.
    concentration : array-like
        k, from 0 on.

    Returns
    -------
    float or array
        Of the shape to which the arguments broadcast.

    Examples
    --------
    >>> from armillary.distributions import vmf
    >>> round(vmf.mean_resultant_complement(3, 1e9), 12)
    1e-09
    """
    return _resultant(*_order_arguments(dimension, concentration))[1]


def mean_resultant_derivative(dimension: ArrayLike, concentration: ArrayLike) -> FloatOrArray:
    """A_D'(k), positive and decreasing from 1/D: the variance of the cosine, and the Fisher information of k.

    Parameters
    ----------
    dimension : array-like of int
        D, at least 2.
    concentration : array-like
        k, from 0 on.

    Returns
    -------
    float or array
        Of the shape to which the arguments broadcast.

    Examples
    --------
    >>> from armillary.distributions import vmf
    >>> round(vmf.mean_resultant_derivative(3, 0.0), 6)
    0.333333
    """
    return _resultant(*_order_arguments(dimension, concentration))[2]


def concentration_from_resultant(
    dimension: ArrayLike, length: ArrayLike | None = None, *, complement: ArrayLike | None = None
) -> FloatOrArray:
    """The concentration k with A_D(k) = length: 0 at length 0, infinite at length 1.

    Give `length` in [0, 1], or `complement` = 1 - length: near 1 a float length has few digits left, since k is
    close to (D - 1) / (2 complement), and whoever knows the complement should pass it. Given both, each is used on
    its side of 1/2. The arguments broadcast; scalars give a float.

    Parameters
    ----------
    dimension : array-like of int
        D, at least 2.
    length : array-like, optional
        In [0, 1].
    complement : array-like, optional
        1 - length.

    Returns
    -------
    float or array
        Of the shape to which the arguments broadcast.

    Examples
    --------
    >>> from armillary.distributions import vmf
    >>> round(vmf.concentration_from_resultant(3, vmf.mean_resultant_length(3, 42.0)), 6)
    42.0
    """
    # 1 - x is exact from x = 1/2 on (Sterbenz), which is the side it is used on
    if length is not None and complement is not None:
        order, short = _order_arguments(dimension, length, name="length", maximum=1.0)
        order, gap = _order_arguments(2.0 * order + 2.0, complement, name="complement", maximum=1.0)
        short = np.broadcast_to(short, gap.shape)
    elif length is not None:
        order, short = _order_arguments(dimension, length, name="length", maximum=1.0)
        gap = 1.0 - short
    elif complement is not None:
        order, gap = _order_arguments(dimension, complement, name="complement", maximum=1.0)
        short = 1.0 - gap
    else:
        raise ParameterError(
            "concentration_from_resultant must be given `length` or `complement`; got neither. "
            "Pass the norm of the mean vector as `length`."
        )
    off = np.abs(short + gap - 1.0)
    if np.any(off > 1e-6):
        raise ParameterError(
            "`length` and `complement` of concentration_from_resultant must add up to 1; "
            f"they are off by {off.max():.2g}. Pass one of the two."
        )
    inside = (short > 0.0) & (gap > 0.0)
    found = np.where(gap > 0.0, 0.0, np.inf)
    found[inside] = _invert(order[inside], short[inside], gap[inside])
    return found if found.ndim else float(found)


def _invert(v: Float64Array, length: Float64Array, complement: Float64Array) -> Float64Array:
    """Newton's method in k; all arguments (m,), lengths inside (0, 1)."""

    def bound(a: Float64Array, b: Float64Array) -> Float64Array:
        # the inverse of k / (a + sqrt(k^2 + b^2)), Hornik and Gruen 2014
        square = complement * (1.0 + length)
        return length / square * (a + np.sqrt((length * a) ** 2 + square * b**2))

    middle = v + 0.5
    # the bounds touch the root as the length goes to 0; the slack keeps rounding from cutting it off
    low = (1.0 - 1e-14) * np.maximum(bound(v, v + 2.0), bound(middle, np.sqrt(middle * (v + 1.5))))
    high = (1.0 + 1e-14) * bound(middle, v + 1.5)
    k = 0.5 * (low + high)
    is_done = np.zeros(k.shape, dtype=bool)
    # A is concave, so a step from below never passes the root, and one from above that falls below `low` is
    # caught there: the iteration converges from any start in the bracket, in 2 to 5 steps.
    is_short = length < 0.5
    for _ in range(20):
        own_length, own_complement, slope = _resultant(v, k)
        step = np.where(is_short, own_length - length, complement - own_complement) / slope
        # a root does not move once found: its bits do not depend on its neighbours
        k = np.where(is_done, k, np.minimum(np.maximum(k - step, low), high))
        # convergence is quadratic: what is left is about the square of this
        is_done |= np.abs(step) <= 1e-8 * k
        if is_done.all():
            break
    return k


def _resultant(order: Float64Array, concentration: Float64Array) -> list[FloatOrArray]:
    """A, 1 - A and A' together, since they share their sums."""

    def series(v: Float64Array, k: Float64Array) -> Float64Array:
        h = 1.0 + _series(v + _THREE_ORDERS, k)
        # A/k in D and in D + 2 dimensions; A' = A (1/k + A_{D+2} - A_D) is then no exception at k = 0
        slope, next_slope = h[1] / h[0] / (2.0 * v + 2.0), h[2] / h[1] / (2.0 * v + 4.0)
        length = k * slope
        return np.array([length, 1.0 - length, slope * (1.0 - k * k * (slope - next_slope))])

    def uniform(v: Float64Array, k: Float64Array) -> Float64Array:
        r = np.hypot(v, k)
        q_sum, s_sum = _debye(_QS, v, r)
        less = (k / r) * ((0.5 + q_sum) / r)
        derivative = (v / (r + v) + (0.5 - (v / r) ** 2 + s_sum) / r) / r
        return np.stack([k / (r + v) - less, v / (r + v) * (1.0 + v / (r + k)) + less, derivative])

    return _by_region(series, uniform, order, concentration, n_curves=3)


def _series(v: Float64Array, k: Float64Array) -> Float64Array:
    """H_v(k) - 1 by its power series, term by term; a term that comes after the last that counts changes no bit."""
    x = 0.25 * k * k
    term = x / (v + 1.0)
    total: Float64Array = term
    n_terms = min(_MOST_TERMS, max(1, _MOST_NUMBERS // max(1, term.size)))
    n = np.arange(2.0, 2.0 + n_terms).reshape(-1, *(1,) * term.ndim)
    while (term > 1e-17 * total).any():
        terms = x / (n * (v + n))
        terms[0] *= term
        np.multiply.accumulate(terms, axis=0, out=terms)
        term = terms[-1].copy()
        terms[0] += total
        total = np.add.accumulate(terms, axis=0)[-1]
        n += n_terms
    return total


def _debye(tables: Float64Array, v: Float64Array, r: Float64Array) -> Float64Array:
    """sum_j r^-j table_j(q) of each table of twelve rows (n, m), by Horner's rule in q and then in 1/r."""
    q = (v / r) ** 2
    rows = np.zeros((len(tables), len(r)))
    for column in tables.T[::-1]:
        rows *= q
        rows += column[:, None]
    by_table = rows.reshape(-1, len(_DEBYE_ROWS), len(r))
    totals = np.zeros((len(by_table), len(r)))
    for j in reversed(range(len(_DEBYE_ROWS))):
        totals += by_table[:, j]
        totals /= r
    return totals


def _log_prefactor(v: Float64Array, k: Float64Array, r: Float64Array) -> Float64Array:
    """What log H has besides r - v and the Debye sum: logarithms and Gamma(v+1), (m,)."""
    # each form is finite on the other's side too, so both are taken everywhere
    gamma_form = v * (1.0 + np.log(2.0 / (v + r))) - 0.5 * np.log(2.0 * np.pi * r) + gammaln(v + 1.0)
    large = np.maximum(v, 1.0)
    growth = k * (k / (r + v)) / large
    remainder = np.zeros_like(v)
    for coefficient in reversed(_STIRLING):
        remainder = (remainder / large + coefficient) / large
    stirling_form = remainder - v * np.log1p(0.5 * growth) - 0.5 * np.log1p(growth)
    return np.where(v < _STIRLING_ORDER, gamma_form, stirling_form)


def _by_region(
    series: _Curves, uniform: _Curves, v: Float64Array, k: Float64Array, n_curves: int = 1
) -> list[FloatOrArray]:
    """Each curve at each point, by the formula of the point's region: arrays of the shape of k, or floats."""
    shape, v, k = k.shape, v.ravel(), k.ravel()
    near = (np.hypot(v, k) < _SERIES_RADIUS) | (k <= 2.0 * np.sqrt(v + 1.0))
    # either formula takes a tenth of a millisecond for no points at all, and most fits lie on one side
    if len(near) and near.all() == near.any():
        curves = (series if near[0] else uniform)(v, k).reshape(n_curves, *shape)
    else:
        curves = np.empty((n_curves, len(near)))
        for formula, here in ((series, near), (uniform, ~near)):
            if here.any():
                curves[:, here] = formula(v[here], k[here])
        curves = curves.reshape(n_curves, *shape)
    return [curve if shape else float(curve) for curve in curves]


_MOST_DIMENSIONS = 1e100  # squares are finite


def _order_arguments(
    dimension: ArrayLike, value: ArrayLike, name: str = "concentration", maximum: float = np.inf
) -> tuple[Float64Array, Float64Array]:
    dimension, value = _arguments("dimension", 2.0, dimension, value, name, maximum)
    return 0.5 * dimension - 1.0, value


def _arguments(
    first_name: str,
    minimum: float,
    first: ArrayLike,
    second: ArrayLike,
    name: str = "concentration",
    maximum: float = np.inf,
) -> tuple[Float64Array, Float64Array]:
    """Both as float64 of one shape; the ranges are checked here and nowhere else."""
    try:
        first, second = np.broadcast_arrays(np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):  # looked into only here: fits ask for these curves all the time
        shapes = {key: check_numbers(value, key, "vmf").shape for key, value in ((first_name, first), (name, second))}
        check_broadcast("vmf", **shapes)
        raise
    good = (first >= minimum) & (first <= _MOST_DIMENSIONS)
    if not good.all():
        wrong = float(first[~good][0])
        rule = f"at most {_MOST_DIMENSIONS:g}" if minimum <= wrong < np.inf else f"a finite number >= {minimum:g}"
        raise ParameterError(
            f"`{first_name}` must be {rule}; got {wrong}. "
            "The circle has dimension 2 and order 0, the sphere in R^D has dimension D and order D/2 - 1."
        )
    good = (second >= 0.0) & (second <= maximum) & np.isfinite(second)
    if not good.all():
        rule = "a finite number >= 0" if maximum == np.inf else f"a number from 0 to {maximum:g}"
        hint = "0 is the uniform law" if maximum == np.inf else "Clip what rounding adds before the call"
        raise ParameterError(f"`{name}` must be {rule}; got {second[~good][0]}. {hint}.")
    return first, second
