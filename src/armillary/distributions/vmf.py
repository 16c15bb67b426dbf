"""The von Mises-Fisher law on the unit sphere in R^D: density C_D(k) exp(k mu.x) with respect to area.

log_normalizer, mean_resultant_length,
concentration_from_resultant               functions of (dimension, concentration), from `bessel`
log_density, sample, fit                   the law itself, its draws, its maximum likelihood
entropy, kl_divergence                     in nats
mean_posterior, log_marginal_likelihood,
log_predictive_density                     a vMF prior on the mean direction, concentration known
convolved_concentration                    the vMF closest to a vMF blurred by a vMF

Directions are unit vectors along the last axis; the axes before it, and those of concentrations, broadcast. A
concentration of 0 is the uniform law, whatever the direction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from armillary._typing import ArrayLike, Float64Array, RandomState
from armillary.distributions.bessel import (
    FloatOrArray,
    concentration_from_resultant,
    log_h,
    log_normalizer,
    mean_resultant_complement,
    mean_resultant_derivative,
    mean_resultant_length,
)
from armillary.draws import generator
from armillary.exceptions import InputError, ParameterError
from armillary.geometry.sphere import log_area
from armillary.validation import (
    Rows,
    as_matrix,
    check_broadcast,
    check_number,
    check_numbers,
    check_row_count,
    check_sample_weight,
    row_blocks,
    unit_rows,
)

__all__ = [
    "Fit",
    "MeanPosterior",
    "concentration_from_resultant",
    "convolved_concentration",
    "entropy",
    "fit",
    "kl_divergence",
    "log_density",
    "log_marginal_likelihood",
    "log_normalizer",
    "log_predictive_density",
    "mean_posterior",
    "mean_resultant_complement",
    "mean_resultant_derivative",
    "mean_resultant_length",
    "sample",
]

_EPS = float(np.finfo(np.float64).eps)
# From here on k mu.x is taken as k - k |x - mu|^2/2: rounding of the dot product, times k, would show (1e-11).
_FAR_CONCENTRATION = 1e5
# Numbers drawn together, 2 MB: chunks fit in cache and depend on D only.
_CHUNK_VALUES = 1 << 18


# Natural parameters beyond this have squares that are not finite.
_MOST_CONCENTRATION = 1e150


class Fit(NamedTuple):
    """A maximum likelihood fit: `mean` (D,), `concentration`, and `log_likelihood` in nats over all rows.

    Examples
    --------
    >>> from armillary.distributions import vmf
    >>> found = vmf.fit([[0.0, 1.0], [0.6, 0.8]])
    >>> round(found.concentration, 2)
    10.02
    """

    mean: Float64Array
    concentration: float
    log_likelihood: float


class MeanPosterior(NamedTuple):
    """The law of a mean direction, vMF(`direction`, `concentration`): shapes (..., D) and (...).

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.distributions import vmf
    >>> law = vmf.MeanPosterior(np.array([0.0, 0.0, 1.0]), np.array(50.0))
    >>> law.direction.shape
    (3,)
    """

    direction: Float64Array
    concentration: Float64Array


def log_density(points: ArrayLike | Rows, mean: ArrayLike, concentration: ArrayLike) -> Float64Array:
    """Log density in nats at unit vectors `points` (..., D), for `mean` (..., D) and `concentration` (...).

    CSR points (n, D) go with one mean (D,) and give (n,). Dense points keep full precision at any concentration; for
    CSR points the error grows as 1e-16 times the concentration.

    Parameters
    ----------
    points : array-like of shape (..., D), or CSR matrix of shape (n, D)
        Unit vectors.
    mean : array-like of shape (..., D)
        Unit vectors.
    concentration : array-like of shape (...)
        From 0 on.

    Returns
    -------
    array of shape (...)
        Nats, with respect to the surface of the sphere.

    Examples
    --------
    >>> from armillary.distributions import vmf
    >>> vmf.log_density([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]], [0.0, 0.0, 1.0], 2.0).round(4)
    array([-1.1262, -5.1262])
    """
    center = _unit(mean, "mean", "vmf.log_density")
    dimension = center.shape[-1]
    scale = check_numbers(concentration, "concentration", "vmf.log_density")
    rows = _points(points, dimension, "vmf.log_density")
    check_broadcast("vmf.log_density", points=rows.shape[:-1], mean=center.shape[:-1], concentration=scale.shape)
    if sp.issparse(rows) or np.all(scale < _FAR_CONCENTRATION):
        density = log_normalizer(dimension, scale) + scale * _cosine(rows, center)
    else:
        density = -log_area(dimension) - log_h(dimension / 2 - 1, scale, scaled=True) - scale * _versine(rows, center)
    return np.asarray(density)[()]


def sample(mean: ArrayLike, concentration: float, size: int, random_state: RandomState = None) -> Float64Array:
    """`size` independent draws from vMF(mean, concentration), unit rows of shape (size, D).

    Wood's rejection scheme for the cosine with the mean, with its differences taken by hand so that concentrations
    from 0 to 1e12 and beyond keep their digits; on the sphere in three dimensions the cosine has a closed form. The
    rest of the row is uniform across the mean, turned into place by one reflection. The draws are a function of
    `random_state`, `mean` and `concentration`, and cost D - 1 normal numbers each; scratch memory is a few MB.

    Parameters
    ----------
    mean : array-like of shape (D,)
        A unit vector.
    concentration : float
        From 0, the uniform law, on.
    size : int
        How many.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    array of shape (size, D)
        Unit rows.

    Examples
    --------
    >>> from armillary.distributions import vmf
    >>> vmf.sample([0.0, 0.0, 1.0], 100.0, 5, random_state=0).shape
    (5, 3)
    """
    center = _unit(mean, "mean", "vmf.sample")
    if center.ndim != 1:
        raise InputError(
            f"`mean` of vmf.sample must be one direction, shape (D,); got {center.shape}. Call it once for each row."
        )
    concentration = check_number(concentration, "concentration", "vmf.sample", low=0.0)
    size = check_row_count(size, center.shape[-1], "size", "vmf.sample", low=0)
    rng = generator(random_state)
    dimension = len(center)
    # the reflection that exchanges the mean with one end of the last axis, the one whose sum with it cannot cancel
    end = np.copysign(1.0, -center[-1])
    normal = center.copy()
    normal[-1] -= end
    pull = 2.0 / float(normal @ normal)
    draws = np.empty((size, dimension))
    step = max(1, _CHUNK_VALUES // dimension)
    for start in range(0, size, step):
        rows = draws[start : start + step]
        cosine, sine = _draw_cosines(rng, dimension, concentration, len(rows))
        across = rng.standard_normal((len(rows), dimension - 1))
        across *= (sine / np.sqrt(_cosine(across, across)))[:, None]
        rows[:, :-1] = across
        rows[:, -1] = end * cosine
        rows -= (pull * (rows @ normal))[:, None] * normal
    return draws


def fit(points: ArrayLike | Rows, weights: ArrayLike | None = None) -> Fit:
    """The direction and concentration of greatest likelihood for rows (n, D), dense or CSR, weighted by (n,).

    Rows are scaled to unit length. The mean is the direction of their sum, the concentration the exact root of
    A_D(k) = length of their mean. Two cases have no maximum in the open and raise `InputError`: rows all equal (or one
    row), where the likelihood grows without bound in the concentration; and rows that cancel, where concentration 0,
    the uniform law, is best and no direction is.

    Parameters
    ----------
    points : array-like or CSR matrix of shape (n, D)
        Rows with a direction.
    weights : array-like of shape (n,), optional
        Not negative.

    Returns
    -------
    Fit
        `mean`, `concentration` and `log_likelihood`.

    Examples
    --------
    >>> from armillary.distributions import vmf
    >>> rows = vmf.sample([0.0, 0.0, 1.0], 50.0, 2000, random_state=0)
    >>> found = vmf.fit(rows)
    >>> bool(found.mean[2] > 0.99), bool(45.0 < found.concentration < 55.0)
    (True, True)
    """
    rows = unit_rows(points, "vmf.fit")
    n_rows, dimension = rows.shape
    given = check_sample_weight(weights, n_rows, "vmf.fit", name="weights")
    row_weights = np.ones(n_rows) if given is None else given
    total = float(row_weights.sum())
    if isinstance(rows, np.ndarray):
        resultant = np.zeros(dimension)
        for start, block in _float64_blocks(rows):
            resultant += row_weights[start : start + len(block)] @ block
    else:
        resultant = unit_rows(rows.astype(np.float64), "vmf.fit").T @ row_weights
    length = float(np.linalg.norm(resultant)) / total
    # what rounding leaves of n unit vectors that cancel, seen as a random walk
    if length <= 4.0 * _EPS * np.sqrt(n_rows):
        raise InputError(
            f"The rows of vmf.fit must have a direction in common; their weighted mean has length {length:.2g}, so the "
            "uniform law fits best (concentration 0) and no direction does. Use -log_area(D) as its log density."
        )
    mean = resultant / np.linalg.norm(resultant)
    complement = 1.0 - length
    if length > 0.5:
        # 1 - x.m = |x - m|^2 / 2, which has digits where 1 - length has none
        spread = sum(
            float(row_weights[start : start + len(block)] @ _versine(block, mean))
            for start, block in _float64_blocks(rows)
        )
        complement = min(spread / total, 0.5)
    # equal rows still differ from their mean, by its rounding
    if complement < 1e-20 and _are_equal(rows, row_weights):
        n_equal = np.count_nonzero(row_weights)
        raise InputError(
            f"The rows of vmf.fit must not all be equal; {n_equal} with positive weight are, and the likelihood grows "
            "without bound with the concentration. Give rows that differ, or set a concentration."
        )
    concentration = concentration_from_resultant(dimension, min(length, 1.0), complement=complement)
    per_row = -log_area(dimension) - log_h(dimension / 2 - 1, concentration, scaled=True) - concentration * complement
    return Fit(mean, concentration, total * per_row)


def entropy(dimension: ArrayLike, concentration: ArrayLike) -> FloatOrArray:
    """Differential entropy in nats: log_area(D) at concentration 0, falling without bound.

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
    >>> round(float(vmf.entropy(3, 0.0)), 6)
    2.531024
    """
    return relative_entropy(dimension, concentration) + log_area(dimension)


def relative_entropy(dimension: ArrayLike, concentration: ArrayLike) -> FloatOrArray:
    """The entropy less that of the uniform law, at most 0: log H - k A, with the part of size k taken out of both."""
    complement = mean_resultant_complement(dimension, concentration)
    order = 0.5 * np.asarray(dimension, dtype=np.float64) - 1.0
    scale = np.asarray(concentration, dtype=np.float64)
    return log_h(order, scale, scaled=True) + scale * complement


def kl_divergence(
    mean: ArrayLike, concentration: ArrayLike, other_mean: ArrayLike, other_concentration: ArrayLike
) -> FloatOrArray:
    """KL(vMF(mean, concentration) || vMF(other_mean, other_concentration)) in nats; means (..., D), result (...).

    Parameters
    ----------
    mean, other_mean : array-like of shape (..., D)
        Unit vectors.
    concentration, other_concentration : array-like of shape (...)
        From 0 on.

    Returns
    -------
    float or array of shape (...)
        0 for equal laws.

    Examples
    --------
    >>> from armillary.distributions import vmf
    >>> round(float(vmf.kl_divergence([0.0, 1.0], 5.0, [0.0, 1.0], 5.0)), 6)
    0.0
    """
    first = _unit(mean, "mean", "vmf.kl_divergence")
    second = _unit(other_mean, "other_mean", "vmf.kl_divergence")
    dimension = first.shape[-1]
    _check_dimension(second, dimension, "other_mean", "vmf.kl_divergence")
    here = check_numbers(concentration, "concentration", "vmf.kl_divergence")
    there = check_numbers(other_concentration, "other_concentration", "vmf.kl_divergence")
    check_broadcast(
        "vmf.kl_divergence",
        mean=first.shape[:-1],
        concentration=here.shape,
        other_mean=second.shape[:-1],
        other_concentration=there.shape,
    )
    # log H(k2) - log H(k1) + A(k1) (k1 - k2 mu1.mu2), with the parts of size k taken out
    change = log_h(dimension / 2 - 1, there, scaled=True) - log_h(dimension / 2 - 1, here, scaled=True)
    widening = (there - here) * mean_resultant_complement(dimension, here)
    turn = there * mean_resultant_length(dimension, here) * _versine(first, second)
    return np.maximum(change + widening + turn, 0.0)


def mean_posterior(
    resultant: ArrayLike,
    concentration: ArrayLike,
    mean_direction_prior: ArrayLike,
    mean_concentration_prior: ArrayLike,
) -> MeanPosterior:
    """The law of the mean direction after rows from vMF(mean, concentration) that add up to `resultant` (..., D).

    The prior is vMF(mean_direction_prior, mean_concentration_prior), the posterior vMF with the natural parameter
    concentration * resultant + mean_concentration_prior * mean_direction_prior. Where that is exactly 0 the posterior
    is uniform, of concentration 0, and the prior's direction is returned for want of one.

    Parameters
    ----------
    resultant : array-like of shape (..., D)
        Sum of the rows.
    concentration : array-like of shape (...)
        Of the rows about their mean.
    mean_direction_prior : array-like of shape (..., D)
        Direction of the prior.
    mean_concentration_prior : array-like of shape (...)
        How sure the prior is.

    Returns
    -------
    MeanPosterior
        `direction` and `concentration`.

    Examples
    --------
    >>> from armillary.distributions import vmf
    >>> law = vmf.mean_posterior([0.0, 0.0, 3.0], 10.0, [0.0, 0.0, 1.0], 5.0)
    >>> law.direction, float(law.concentration)
    (array([0., 0., 1.]), 35.0)
    """
    prior, natural = _natural_parameter(
        resultant, concentration, mean_direction_prior, mean_concentration_prior, "vmf.mean_posterior"
    )
    norm = np.linalg.norm(natural, axis=-1)
    has_direction = norm[..., None] > 0.0
    direction = np.where(has_direction, natural / np.where(has_direction, norm[..., None], 1.0), prior)
    return MeanPosterior(direction, norm)


def log_marginal_likelihood(
    count: ArrayLike,
    resultant: ArrayLike,
    concentration: ArrayLike,
    mean_direction_prior: ArrayLike,
    mean_concentration_prior: ArrayLike,
) -> FloatOrArray:
    """Log probability density of `count` (...) rows with sum `resultant` (..., D), the mean direction integrated out.

    n log C(k) + log C(c) - log C(|k R + c m|) for the prior vMF(m, c); the rows enter only through n and R.

    Parameters
    ----------
    count : array-like of shape (...)
        Rows.
    resultant : array-like of shape (..., D)
        Their sum.
    concentration : array-like of shape (...)
        Of the rows about their mean direction.
    mean_direction_prior : array-like of shape (..., D)
        m.
    mean_concentration_prior : array-like of shape (...)
        c; 0 makes all directions equally likely.

    Returns
    -------
    float or array of shape (...)
        Nats.

    Examples
    --------
    >>> from armillary.distributions import vmf
    >>> up = [0.0, 0.0, 1.0]
    >>> together = vmf.log_marginal_likelihood(2, [0.0, 0.0, 2.0], 10.0, up, 0.0)
    >>> bool(together > 2 * vmf.log_marginal_likelihood(1, up, 10.0, up, 0.0))  # equal rows go together
    True
    """
    prior, natural = _natural_parameter(
        resultant, concentration, mean_direction_prior, mean_concentration_prior, "vmf.log_marginal_likelihood"
    )
    dimension = prior.shape[-1]
    order = dimension / 2 - 1
    gain = log_h(order, np.linalg.norm(natural, axis=-1)) - log_h(order, mean_concentration_prior)
    n_rows = check_numbers(count, "count", "vmf.log_marginal_likelihood")
    check_broadcast("vmf.log_marginal_likelihood", count=n_rows.shape, resultant=np.shape(gain))
    return n_rows * log_normalizer(dimension, concentration) + gain


def log_predictive_density(
    points: ArrayLike | Rows, mean: ArrayLike, mean_concentration: ArrayLike, concentration: ArrayLike
) -> Float64Array:
    """Log density at `points` (..., D) of vMF(m, concentration), averaged over m ~ vMF(mean, mean_concentration).

    Parameters
    ----------
    points : array-like of shape (..., D), or CSR matrix of shape (n, D)
        Unit vectors.
    mean : array-like of shape (..., D)
        Direction of the law of the mean.
    mean_concentration : array-like of shape (...)
        How sure that is.
    concentration : array-like of shape (...)
        Of rows about their mean.

    Returns
    -------
    array of shape (...)
        Nats.

    Examples
    --------
    >>> from armillary.distributions import vmf
    >>> up = [0.0, 0.0, 1.0]
    >>> bool(vmf.log_predictive_density(up, up, 20.0, 50.0) < vmf.log_density(up, up, 50.0))  # doubt flattens
    True
    """
    center = _unit(mean, "mean", "vmf.log_predictive_density")
    dimension = center.shape[-1]
    order = dimension / 2 - 1
    who = "vmf.log_predictive_density"
    own = check_numbers(concentration, "concentration", who)
    blur = check_numbers(mean_concentration, "mean_concentration", who)
    rows = _points(points, dimension, who)
    shapes = {"points": rows.shape[:-1], "mean": center.shape[:-1]}
    check_broadcast(who, **shapes, concentration=own.shape, mean_concentration=blur.shape)
    for name, given in (("concentration", own), ("mean_concentration", blur)):
        if given.min(initial=0.0) < 0.0:
            raise ParameterError(f"`{name}` of {who} must not be negative; got {given.min():g}. 0 is the uniform law.")
    if own.max(initial=0.0) > _MOST_CONCENTRATION or blur.max(initial=0.0) > _MOST_CONCENTRATION:
        raise _too_concentrated(who)
    cosine = _cosine(rows, center)
    # |k x + g m|^2 as a sum of squares; rounding can put the cosine of opposite vectors below -1
    norm = np.sqrt((own - blur) ** 2 + 2.0 * own * blur * np.maximum(1.0 + cosine, 0.0))
    return np.asarray(log_normalizer(dimension, own) + (log_h(order, norm) - log_h(order, blur)))[()]


def convolved_concentration(dimension: ArrayLike, first: ArrayLike, second: ArrayLike) -> FloatOrArray:
    """The concentration whose mean resultant length is A(first) A(second).

    If m ~ vMF(mu, first) and x ~ vMF(m, second), then E[x] = A(first) A(second) mu. The law of x is not vMF; this is
    the concentration of the vMF with that mean.

    Parameters
    ----------
    dimension : array-like of int
        D, at least 2.
    first, second : array-like
        Concentrations.

    Returns
    -------
    float or array
        Of the shape to which the arguments broadcast.

    Examples
    --------
    >>> from armillary.distributions import vmf
    >>> bool(vmf.convolved_concentration(3, 50.0, 50.0) < 50.0)
    True
    """
    one, two = mean_resultant_complement(dimension, first), mean_resultant_complement(dimension, second)
    length = mean_resultant_length(dimension, first) * mean_resultant_length(dimension, second)
    # 1 - (1 - a)(1 - b) without the cancellation
    return concentration_from_resultant(dimension, length, complement=one + two * (1.0 - one))


def _draw_cosines(
    rng: np.random.Generator, dimension: int, concentration: float, size: int
) -> tuple[Float64Array, Float64Array]:
    """Cosines and sines, each (size,), of the angle between a draw and the mean."""
    if dimension == 3:
        uniform = rng.random(size)
        if concentration == 0.0:
            versine = 2.0 * uniform
        else:
            # the inverse of the distribution function of 1 - cosine; uniform < 1 keeps log1p finite
            versine = -np.log1p(uniform * np.expm1(-2.0 * concentration)) / concentration
        return 1.0 - versine, np.sqrt(versine * np.maximum(2.0 - versine, 0.0))
    # Wood 1994: a Beta proposal z, seen through an envelope with parameter b in (0, 1]
    freedom = dimension - 1.0
    b = freedom / (2.0 * concentration + np.hypot(2.0 * concentration, freedom))
    accepted = [np.empty(0)]
    missing = size
    while missing > 0:
        # about 0.66 of the proposals are accepted at worst
        z = rng.beta(freedom / 2.0, freedom / 2.0, missing + missing // 2 + 8)
        # a standard exponential is minus the log of a uniform
        is_accepted = -rng.standard_exponential(len(z)) <= _log_acceptance(z, b, freedom, concentration)
        accepted.append(z[is_accepted][:missing])
        missing -= len(accepted[-1])
    z = np.concatenate(accepted)
    s = (1.0 - z) + b * z
    return 1.0 - 2.0 * b * z / s, 2.0 * np.sqrt(b * z * (1.0 - z)) / s


def _log_acceptance(z: Float64Array, b: float, freedom: float, concentration: float) -> Float64Array:
    """At most 0, and 0 at z = 1/2; Wood's difference of two numbers of size `concentration`, taken by hand."""
    s = (1.0 - z) + b * z
    gain = concentration * (2.0 * b / (1.0 + b) * ((1.0 - 2.0 * z) / s))
    total: Float64Array = gain + freedom * np.log((1.0 + b) / (2.0 * s))
    return total


def _natural_parameter(
    resultant: ArrayLike, concentration: ArrayLike, direction: ArrayLike, prior_concentration: ArrayLike, who: str
) -> tuple[Float64Array, Float64Array]:
    """The prior's direction and the posterior's natural parameter, both (..., D)."""
    prior = _unit(direction, "mean_direction_prior", who)
    total = check_numbers(resultant, "resultant", who)
    _check_dimension(total, prior.shape[-1], "resultant", who)
    own = check_numbers(concentration, "concentration", who)
    before = check_numbers(prior_concentration, "mean_concentration_prior", who)
    check_broadcast(
        who,
        resultant=total.shape[:-1],
        concentration=own.shape,
        mean_direction_prior=prior.shape[:-1],
        mean_concentration_prior=before.shape,
    )
    longest = np.abs(total).max(initial=0.0) * np.abs(own).max(initial=0.0)
    if not max(longest, np.abs(before).max(initial=0.0)) <= _MOST_CONCENTRATION:
        raise _too_concentrated(who)
    return prior, own[..., None] * total + before[..., None] * prior


def _too_concentrated(who: str) -> ParameterError:
    return ParameterError(
        f"The concentrations of {who} must leave natural parameters of at most {_MOST_CONCENTRATION:g}, whose squares "
        "are floats; they are larger. Lower the concentrations."
    )


def _float64_blocks(rows: Rows) -> Iterator[tuple[int, Float64Array]]:
    """First row and dense float64 rows of each block, with norms exact to float64."""
    for start, stop in row_blocks(rows.shape):
        part = rows[start:stop]
        block = (part if isinstance(part, np.ndarray) else part.toarray()).astype(np.float64)
        block /= np.sqrt(_cosine(block, block))[:, None]
        yield start, block


def _are_equal(rows: Rows, row_weights: Float64Array) -> bool:
    """Whether all rows of positive weight have the direction of the first, up to the rounding of their norms."""
    first: Float64Array | None = None
    for start, block in _float64_blocks(rows):
        kept = block[row_weights[start : start + len(block)] > 0.0]
        first = kept[0] if first is None and len(kept) else first
        if first is not None and np.any(_versine(kept, first) > 8.0 * _EPS**2):
            return False
    return True


def _cosine(rows: Any, direction: Float64Array) -> Float64Array:
    """Dot products along the last axis, in float64."""
    product: Float64Array = np.vecdot(rows, direction) if isinstance(rows, np.ndarray) else rows @ direction
    return product


def _versine(rows: Any, direction: Float64Array) -> Float64Array:
    """1 - cosine, as half the squared distance: small angles keep their digits."""
    apart = rows - direction
    half: Float64Array = 0.5 * np.vecdot(apart, apart)
    return half


_LONGEST = 1e100  # squares of what is shorter are finite


def _points(points: Any, dimension: int, who: str) -> Any:
    if sp.issparse(points):
        rows = as_matrix(points, who, what="points")
        values = check_numbers(rows.data, "points", who)
    else:
        rows = values = check_numbers(points, "points", who)
    _check_dimension(rows, dimension, "points", who)
    if values.size and max(values.max(), -values.min()) > _LONGEST:
        raise InputError(
            f"`points` of {who} must be unit vectors; got a coordinate of {max(values.max(), -values.min()):.3g}. "
            "Divide each by its length."
        )
    return rows


def _unit(direction: ArrayLike, name: str, who: str) -> Float64Array:
    """Directions (..., D) of unit length in float64; what is not close to a unit vector is refused."""
    vec = check_numbers(direction, name, who)
    if vec.ndim == 0 or vec.shape[-1] < 2:
        raise InputError(f"`{name}` of {who} must have D >= 2 numbers along its last axis; got shape {vec.shape}.")
    norm = np.linalg.norm(vec, axis=-1, keepdims=True)
    off = np.abs(norm - 1.0)
    # written so that NaN is refused
    if not np.all(off <= 1e-5):
        raise InputError(
            f"`{name}` of {who} must be of unit length; got norm {norm.flat[np.argmax(~(off <= 1e-5))]:.6g}. "
            "Divide it by its norm."
        )
    unit: Float64Array = vec / norm
    return unit


def _check_dimension(array: Any, dimension: int, name: str, who: str) -> None:
    if array.ndim == 0 or array.shape[-1] != dimension:
        raise InputError(
            f"`{name}` of {who} must have D = {dimension} numbers along the last axis, as the mean has; "
            f"got shape {array.shape}."
        )
