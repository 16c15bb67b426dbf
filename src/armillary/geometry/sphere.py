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

_EPS = float(np.finfo(np.float64).eps)


def angle(a: ArrayLike, b: ArrayLike) -> Float64Array:
    """Angles in radians, [0, pi], between points a and b of shape (..., D); shape (...)."""
    a, b = _vectors(a=a, b=b)
    # Kahan's form: full relative precision at both ends, where arccos of the dot product loses all below 1.5e-8
    return 2.0 * np.arctan2(_norm(a - b), _norm(a + b))


def exp(tangent_vec: ArrayLike, base_point: ArrayLike) -> Float64Array:
    """The points reached from `base_point` along `tangent_vec`, at the distance of its length; (..., D)."""
    vec, base = _vectors(tangent_vec=tangent_vec, base_point=base_point)
    length = _norm(vec)[..., None]
    direction = vec / np.where(length > 0.0, length, 1.0)
    point = np.cos(length) * base + np.sin(length) * direction
    # repeated steps would let the norm drift; a step of length 0 returns the base point to the bit
    return np.where(length > 0.0, point / _norm(point)[..., None], base)


def log(point: ArrayLike, base_point: ArrayLike) -> Float64Array:
    """The tangent vectors at `base_point` that lead to `point`, (..., D): length the angle, 0 at equal points."""
    point, base = _vectors(point=point, base_point=base_point)
    cosine = _dot(point, base)
    # x - (x.p) p loses the digits of small and of nearly flat angles; the distance to p or to -p, whichever is
    # nearer, is exact there and has the same tangential part
    offset = point - np.copysign(1.0, cosine)[..., None] * base
    tangent = to_tangent(offset, base)
    sine = _norm(tangent)
    _refuse_antipodes(cosine, sine, offset, "point")
    length = np.arctan2(sine, cosine)
    return length[..., None] * (tangent / np.where(sine > 0.0, sine, 1.0)[..., None])


def geodesic(start: ArrayLike, end: ArrayLike, fraction: ArrayLike) -> Float64Array:
    """Points at `fraction` (...) of the shortest arc from `start` to `end` (..., D); beyond [0, 1] it goes on."""
    share = np.asarray(fraction, dtype=np.float64)[..., None]
    return exp(share * log(end, start), start)


def transport(tangent_vec: ArrayLike, base_point: ArrayLike, end_point: ArrayLike) -> Float64Array:
    """Parallel transport of tangent vectors from `base_point` along the geodesic to `end_point`; (..., D).

    It is the rotation in the plane of the two points, so lengths and angles between vectors are kept. A component
    along `base_point` becomes one along `end_point`.
    """
    vec, base, end = _vectors(tangent_vec=tangent_vec, base_point=base_point, end_point=end_point)
    middle = base + end
    cosine = _dot(base, end)
    _refuse_antipodes(cosine, _norm(to_tangent(middle, base)), middle, "end_point")
    # Two reflections, p -> -p and then -p -> x, make the rotation. Reflections stay isometries under rounding, near
    # the antipode too, where the usual form divides by 1 + p.x.
    middle /= _norm(middle)[..., None]
    return _reflect(_reflect(vec, base), middle)


def to_tangent(vector: ArrayLike, base_point: ArrayLike) -> Float64Array:
    """The part of `vector` orthogonal to `base_point`; (..., D)."""
    vec, base = _vectors(vector=vector, base_point=base_point)
    return vec - _dot(base, vec)[..., None] * base


def tangent_frame(base_point: ArrayLike) -> Float64Array:
    """An orthonormal basis of each tangent space as columns; (..., D, D - 1).

    One Householder reflection takes the base point to an end of the last axis; the frame is its other columns. No
    frame is continuous on the whole sphere, so results should not depend on which one this is.
    """
    (base,) = _vectors(base_point=base_point)
    axes = np.eye(base.shape[-1])[:-1]
    return np.swapaxes(_to_pole(axes, base[..., None, :]), -1, -2)


def tangent_coordinates(tangent_vec: ArrayLike, base_point: ArrayLike) -> Float64Array:
    """Coordinates of tangent vectors (..., D) in `tangent_frame(base_point)`, without forming it; (..., D - 1)."""
    vec, base = _vectors(tangent_vec=tangent_vec, base_point=base_point)
    return _to_pole(vec, base)[..., :-1]


def tangent_vector(coordinates: ArrayLike, base_point: ArrayLike) -> Float64Array:
    """Tangent vectors (..., D) from their coordinates (..., D - 1) in `tangent_frame(base_point)`."""
    flat = np.asarray(coordinates, dtype=np.float64)
    vec, base = _vectors(
        coordinates=np.concatenate([flat, np.zeros((*flat.shape[:-1], 1))], axis=-1), base_point=base_point
    )
    return _to_pole(vec, base)


def log_area(dimension: ArrayLike) -> Any:
    """Log of the area of the unit sphere in R^D: log(2 pi) for D = 2, log(4 pi) for D = 3. A float for a scalar."""
    half = 0.5 * np.asarray(dimension, dtype=np.float64)
    area = np.log(2.0) + half * np.log(np.pi) - gammaln(half)
    return area if area.ndim else float(area)


def _vectors(**named: ArrayLike) -> list[Float64Array]:
    """The arguments as float64, of one D; the names are for the sentence."""
    arrays = [np.asarray(value, dtype=np.float64) for value in named.values()]
    if any(array.ndim == 0 for array in arrays) or len({array.shape[-1] for array in arrays}) > 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in zip(named, arrays, strict=True))
        raise InputError(
            f"Points and vectors on one sphere must have the same last axis, D; got {shapes}. "
            "Put the D numbers of each vector along the last axis."
        )
    return arrays


def _dot(a: Float64Array, b: Float64Array) -> Float64Array:
    product: Float64Array = np.vecdot(a, b)
    return product


def _norm(vec: Float64Array) -> Float64Array:
    """Lengths (...) without underflow: angles down to 1e-300 have squares below the smallest float."""
    exponent = np.frexp(np.abs(vec).max(axis=-1, keepdims=True))[1]
    scaled = np.ldexp(vec, -exponent)
    length: Float64Array = np.ldexp(np.sqrt(_dot(scaled, scaled)), exponent[..., 0])
    return length


def _reflect(vec: Float64Array, normal: Float64Array) -> Float64Array:
    """The mirror image of `vec` in the hyperplane orthogonal to the unit vector `normal`."""
    return vec - 2.0 * _dot(normal, vec)[..., None] * normal


def _to_pole(vec: Float64Array, base: Float64Array) -> Float64Array:
    """The reflection that exchanges `base` and the end of the last axis on the other side of the origin."""
    normal = base.copy()
    # the far end: the sum does not cancel, whatever the base point
    normal[..., -1] += np.copysign(1.0, base[..., -1])
    return vec - (2.0 * _dot(normal, vec) / _dot(normal, normal))[..., None] * normal


def _refuse_antipodes(cosine: Float64Array, sine: Float64Array, offset: Float64Array, name: str) -> None:
    # the offset from -p is then all along p, up to the rounding of the projection: no direction is left in it
    bad = np.argwhere((cosine < 0.0) & (sine <= 4.0 * _EPS * _norm(offset)))
    if len(bad):
        index = ", ".join(map(str, bad[0]))
        where = f"Row {index} of `{name}`" if len(bad[0]) == 1 else f"`{name}`" + (f" at [{index}]" if index else "")
        raise InputError(
            f"{where} must not be the antipode of its base point; the angle is pi, and every direction leads there. "
            "Choose another base point, or go through a point between."
        )
