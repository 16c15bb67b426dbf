"""The unit sphere in R^D: angles, the exponential map and its inverse, geodesics, transport, tangent coordinates.

Points and tangent vectors lie along the last axis, (..., D); the axes before it broadcast. Everything is computed
and returned in float64. Points are taken as unit vectors and tangent vectors as orthogonal to their base point:
norms are the business of `armillary.validation`, and `to_tangent` removes a component along the base point.

angle(a, b)                    2 atan2(|a - b|, |a + b|)
exp(v, p)                      cos|v| p + sin|v| v/|v|
log(x, p)                      the v of length angle(x, p) with exp(v, p) = x
transport(v, p, x)             the rotation that takes p to x along the geodesic, applied to v

Between antipodal points every direction is a shortest one. Their angle is pi; `log`, `geodesic` and `transport`
have no answer there and raise `InputError`. Antipodal means that what separates x from -p is rounding in the
norms: (-1, 1e-200) and (1, 0) still have a direction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from armillary._typing import ArrayLike, Float64Array
from armillary.exceptions import InputError
from armillary.validation import check_broadcast, check_numbers

_EPS = float(np.finfo(np.float64).eps)
# Between these the square of a length has all its digits, and so have those of its coordinates that count.
_LEAST_SQUARE, _MOST_SQUARE = 1e-250, 1e250


def angle(a: ArrayLike, b: ArrayLike) -> Float64Array:
    """Angles in radians, [0, pi], between points a and b of shape (..., D); shape (...).

    Parameters
    ----------
    a, b : array-like of shape (..., D)
        Unit vectors.

    Returns
    -------
    array of shape (...)
        Radians.

    Examples
    --------
    >>> from armillary.geometry import sphere
    >>> float(sphere.angle([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).round(6))
    1.570796
    """
    a, b = _vectors(a=a, b=b)
    # Kahan's form: full relative precision at both ends, where arccos of the dot product loses all below 1.5e-8
    return 2.0 * np.arctan2(_norm(a - b), _norm(a + b))


def exp(tangent_vec: ArrayLike, base_point: ArrayLike) -> Float64Array:
    """The points reached from `base_point` along `tangent_vec`, at the distance of its length; (..., D).

    Parameters
    ----------
    tangent_vec : array-like of shape (..., D)
        Orthogonal to the base point.
    base_point : array-like of shape (..., D)
        Unit vectors.

    Returns
    -------
    array of shape (..., D)
        Unit vectors.

    Examples
    --------
    >>> import math
    >>> from armillary.geometry import sphere
    >>> sphere.exp([0.0, math.pi / 2, 0.0], [1.0, 0.0, 0.0]).round(6) + 0.0
    array([0., 1., 0.])
    """
    vec, base = _vectors(tangent_vec=tangent_vec, base_point=base_point)
    length = _norm(vec)[..., None]
    direction = vec / np.where(length > 0.0, length, 1.0)
    point = np.cos(length) * base + np.sin(length) * direction
    # repeated steps would let the norm drift; a step of length 0 returns the base point to the bit
    return np.where(length > 0.0, point / _norm(point)[..., None], base)


def log(point: ArrayLike, base_point: ArrayLike) -> Float64Array:
    """The tangent vectors at `base_point` that lead to `point`, (..., D): length the angle, 0 at equal points.

    Parameters
    ----------
    point, base_point : array-like of shape (..., D)
        Unit vectors, not antipodal.

    Returns
    -------
    array of shape (..., D)
        Orthogonal to the base point.

    Examples
    --------
    >>> from armillary.geometry import sphere
    >>> sphere.log([0.0, 1.0, 0.0], [1.0, 0.0, 0.0]).round(6)
    array([0.      , 1.570796, 0.      ])
    """
    point, base = _vectors(point=point, base_point=base_point)
    direction, cosine, sine = _polar(point, base, "point")
    return np.arctan2(sine, cosine) * direction


def geodesic(start: ArrayLike, end: ArrayLike, fraction: ArrayLike) -> Float64Array:
    """Points at `fraction` (...) of the shortest arc from `start` to `end` (..., D); beyond [0, 1] it goes on.

    Parameters
    ----------
    start, end : array-like of shape (..., D)
        Unit vectors, not antipodal.
    fraction : array-like of shape (...)
        0 is the start, 1 the end.

    Returns
    -------
    array of shape (..., D)
        Unit vectors.

    Examples
    --------
    >>> from armillary.geometry import sphere
    >>> sphere.geodesic([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], 0.5).round(6)
    array([0.707107, 0.707107, 0.      ])
    """
    share, tangent = check_numbers(fraction, "fraction", "geodesic")[..., None], log(end, start)
    check_broadcast("geodesic", fraction=share.shape[:-1], **{"start and end": tangent.shape[:-1]})
    return exp(share * tangent, start)


def transport(tangent_vec: ArrayLike, base_point: ArrayLike, end_point: ArrayLike) -> Float64Array:
    """Parallel transport of tangent vectors from `base_point` along the geodesic to `end_point`; (..., D).

    It is the rotation in the plane of the two points, so lengths and angles between vectors are kept. A component
    along `base_point` becomes one along `end_point`.

    Parameters
    ----------
    tangent_vec : array-like of shape (..., D)
        At the base point.
    base_point, end_point : array-like of shape (..., D)
        Unit vectors, not antipodal.

    Returns
    -------
    array of shape (..., D)
        At the end point.

    Examples
    --------
    >>> from armillary.geometry import sphere
    >>> sphere.transport([0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).round(6) + 0.0
    array([-1.,  0.,  0.])
    """
    vec, base, end = _vectors(tangent_vec=tangent_vec, base_point=base_point, end_point=end_point)
    direction, cosine, sine = _polar(end, base, "end_point")
    along, ahead = _dot(base, vec)[..., None], _dot(direction, vec)[..., None]
    # near the antipode this keeps the digits that the form with (1 + p.x) in the denominator loses
    turned_ahead = (cosine - 1.0) * ahead + sine * along
    turned_along = (cosine - 1.0) * along - sine * ahead
    return vec + turned_ahead * direction + turned_along * base


def to_tangent(vector: ArrayLike, base_point: ArrayLike) -> Float64Array:
    """The part of `vector` orthogonal to `base_point`; (..., D).

    Parameters
    ----------
    vector : array-like of shape (..., D)
        Any vectors.
    base_point : array-like of shape (..., D)
        Unit vectors.

    Returns
    -------
    array of shape (..., D)
        Orthogonal to the base point.

    Examples
    --------
    >>> from armillary.geometry import sphere
    >>> sphere.to_tangent([3.0, 4.0, 0.0], [1.0, 0.0, 0.0])
    array([0., 4., 0.])
    """
    vec, base = _vectors(vector=vector, base_point=base_point)
    return vec - _dot(base, vec)[..., None] * base


def tangent_frame(base_point: ArrayLike) -> Float64Array:
    """An orthonormal basis of each tangent space as columns; (..., D, D - 1).

    One Householder reflection takes the base point to an end of the last axis; the frame is its other columns. No
    frame is continuous on the whole sphere, so results should not depend on which one this is.

    Parameters
    ----------
    base_point : array-like of shape (..., D)
        Unit vectors.

    Returns
    -------
    array of shape (..., D, D - 1)
        Orthonormal columns.

    Examples
    --------
    >>> from armillary.geometry import sphere
    >>> sphere.tangent_frame([0.0, 0.0, 1.0]).shape
    (3, 2)
    """
    (base,) = _vectors(base_point=base_point)
    axes = np.eye(base.shape[-1])[:-1]
    return _to_pole(axes, base[..., None, :]).mT


def tangent_coordinates(tangent_vec: ArrayLike, base_point: ArrayLike) -> Float64Array:
    """Coordinates of tangent vectors (..., D) in `tangent_frame(base_point)`, without forming it; (..., D - 1).

    Parameters
    ----------
    tangent_vec : array-like of shape (..., D)
        Orthogonal to the base point.
    base_point : array-like of shape (..., D)
        Unit vectors.

    Returns
    -------
    array of shape (..., D - 1)
        Coordinates; lengths are kept.

    Examples
    --------
    >>> import numpy as np
    >>> from armillary.geometry import sphere
    >>> float(np.linalg.norm(sphere.tangent_coordinates([0.0, 0.5, 0.0], [1.0, 0.0, 0.0])))
    0.5
    """
    vec, base = _vectors(tangent_vec=tangent_vec, base_point=base_point)
    return _to_pole(vec, base)[..., :-1]


def tangent_vector(coordinates: ArrayLike, base_point: ArrayLike) -> Float64Array:
    """Tangent vectors (..., D) from their coordinates (..., D - 1) in `tangent_frame(base_point)`.

    Parameters
    ----------
    coordinates : array-like of shape (..., D - 1)
        In the frame of the base point.
    base_point : array-like of shape (..., D)
        Unit vectors.

    Returns
    -------
    array of shape (..., D)
        Orthogonal to the base point.

    Examples
    --------
    >>> from armillary.geometry import sphere
    >>> there = sphere.tangent_vector([0.3, 0.4], [1.0, 0.0, 0.0])
    >>> sphere.tangent_coordinates(there, [1.0, 0.0, 0.0]).round(6)
    array([0.3, 0.4])
    """
    flat = np.atleast_1d(check_numbers(coordinates, "coordinates", "tangent_vector"))
    vec, base = _vectors(
        coordinates=np.concatenate([flat, np.zeros((*flat.shape[:-1], 1))], axis=-1), base_point=base_point
    )
    return _to_pole(vec, base)


def log_area(dimension: ArrayLike) -> Any:
    """Log of the area of the unit sphere in R^D: log(2 pi) for D = 2, log(4 pi) for D = 3. A float for a scalar.

    Parameters
    ----------
    dimension : array-like of int
        D.

    Returns
    -------
    float or array
        Nats.

    Examples
    --------
    >>> from armillary.geometry import sphere
    >>> round(sphere.log_area(3), 6)  # log of 4 pi
    2.531024
    """
    half = 0.5 * check_numbers(dimension, "dimension", "log_area")
    if not np.all(half >= 0.5):
        raise InputError(
            f"`dimension` of log_area must be at least 1; got {2.0 * half[~(half >= 0.5)][0]}. The sphere in R^D has "
            "dimension D."
        )
    area = np.log(2.0) + half * np.log(np.pi) - gammaln(half)
    return area if area.ndim else float(area)


def _vectors(**named: ArrayLike) -> list[Float64Array]:
    """The arguments as float64, of one D; the names are for the sentence."""
    arrays = [check_numbers(value, name, "geometry") for name, value in named.items()]
    shape = arrays[0].shape
    if shape and shape[-1] and all(array.shape == shape for array in arrays):
        return arrays
    if any(array.ndim == 0 or array.shape[-1] == 0 for array in arrays) or len({one.shape[-1] for one in arrays}) > 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in zip(named, arrays, strict=True))
        raise InputError(
            f"Points and vectors on one sphere must have the same last axis, D; got {shapes}. "
            "Put the D numbers of each vector along the last axis."
        )
    check_broadcast("geometry", **{name: array.shape for name, array in zip(named, arrays, strict=True)})
    return arrays


def _dot(a: Float64Array, b: Float64Array) -> Float64Array:
    product: Float64Array = np.vecdot(a, b)
    return product


def _norm(vec: Float64Array) -> Float64Array:
    """Lengths (...) without underflow: angles down to 1e-300 have squares below the smallest float."""
    squares = _dot(vec, vec)
    if squares.size and squares.min() > _LEAST_SQUARE and squares.max() < _MOST_SQUARE:
        plain: Float64Array = np.sqrt(squares)  # powers of two would change no bit, and take five times as long
        return plain
    exponent = np.frexp(np.abs(vec).max(axis=-1, keepdims=True))[1]
    scaled = np.ldexp(vec, -exponent)
    length: Float64Array = np.ldexp(np.sqrt(_dot(scaled, scaled)), exponent[..., 0])
    return length


def _to_pole(vec: Float64Array, base: Float64Array) -> Float64Array:
    """The reflection that exchanges `base` and the end of the last axis on the other side of the origin."""
    normal = base.copy()
    # the far end: the sum does not cancel, whatever the base point
    normal[..., -1] += np.copysign(1.0, base[..., -1])
    return vec - (2.0 * _dot(normal, vec) / _dot(normal, normal))[..., None] * normal


def _polar(point: Float64Array, base: Float64Array, name: str) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Unit direction (..., D) from `base` to `point`, cosine and sine (..., 1); at equal points 0, 1 and 0."""
    cosine = _dot(point, base)[..., None]
    # x - (x.p) p loses the digits of small and of nearly flat angles; the offset from p or from -p, whichever is
    # nearer, is exact there and has the same part across p
    offset = point - np.copysign(1.0, cosine) * base
    across = to_tangent(offset, base)
    sine = _norm(across)[..., None]
    # at the antipode the offset from -p is 0 or all along p, up to the rounding of the projection
    is_antipode = (cosine < 0.0) & (sine <= 4.0 * _EPS * _norm(offset)[..., None])
    if is_antipode.any():
        index = ", ".join(map(str, np.argwhere(is_antipode[..., 0])[0]))
        where = {1: f"`{name}`", 2: f"Row {index} of `{name}`"}.get(is_antipode.ndim, f"`{name}` at [{index}]")
        raise InputError(
            f"{where} must not be the antipode of its base point; the angle is pi, and every direction leads there. "
            "Choose another base point, or go through a point between."
        )
    radius = np.hypot(cosine, sine)
    return across / np.where(sine > 0.0, sine, 1.0), cosine / radius, sine / radius
