"""What the makers of synthetic data share: directions, labels, rows, and the checks of their parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary._typing import Float64Array, FloatArray
from armillary.distributions import vmf
from armillary.exceptions import ParameterError
from armillary.validation import check_integer, check_number, check_row_count

Labels = npt.NDArray[np.int64]

# Values drawn together, 32 MiB of float64: bounds the scratch memory, whatever the number of rows.
BLOCK_VALUES = 1 << 22

# Mean cosine between a row and its direction when no concentration is given: 25 degrees on the sphere in 3-D, and
# clusters equally tight in any dimension, which no fixed concentration is.
_DEFAULT_MEAN_COSINE = 0.9

# Darts are thrown until this many in a row miss. Were a thousandth of the sphere still free, the chance of that is
# 0.999^10000 = 4.5e-5.
_MAX_MISSES = 10_000
_DARTS_AT_ONCE = 64


def uniform(n: int, n_features: int, rng: np.random.Generator) -> Float64Array:
    """Uniform unit rows (n, D): von Mises-Fisher with concentration 0."""
    return vmf.sample(np.eye(1, n_features)[0], 0.0, n, rng)


def draw_directions(
    n_clusters: int, n_features: int, min_angle: float, rng: np.random.Generator, who: str
) -> Float64Array:
    """Directions (K, D), uniform given that no two are nearer than `min_angle` to each other in turn."""
    check_number(min_angle, "min_angle", who, low=0.0, high=math.pi, hint="Angles are in radians.")
    if min_angle == 0.0:
        return uniform(n_clusters, n_features, rng)
    placed = np.empty((n_clusters, n_features))
    n_placed = n_misses = 0
    max_cosine = math.cos(min_angle)
    while n_placed < n_clusters:
        n_before = n_placed
        for dart in uniform(_DARTS_AT_ONCE, n_features, rng):
            if n_placed < n_clusters and (placed[:n_placed] @ dart <= max_cosine).all():
                placed[n_placed] = dart
                n_placed += 1
        n_misses = n_misses + _DARTS_AT_ONCE if n_placed == n_before else 0
        if n_misses >= _MAX_MISSES:
            raise ParameterError(
                f"`min_angle` of {who} must leave room for all directions; got {min_angle} for {n_clusters} clusters "
                f"in {n_features} dimensions, and {_MAX_MISSES} darts in a row found no place after {n_placed}. "
                "Lower min_angle or n_clusters."
            )
    return placed


def draw_labels(n: int, weights: Float64Array, noise: float, rng: np.random.Generator, who: str) -> Labels:
    """Independent labels (n,), -1 for noise; without any weight only the noise rows are left."""
    check_number(noise, "noise", who, low=0.0, high=1.0, hint="It is the share of rows that are uniform.")
    is_noise = rng.random(n) < noise
    total = weights.sum()
    if total == 0.0:
        return np.full(np.count_nonzero(is_noise), -1, dtype=np.int64)
    labels = rng.choice(len(weights), size=n, p=weights / total).astype(np.int64)
    labels[is_noise] = -1
    return labels


def batches(labels: Labels, n_features: int) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Each label with the numbers of its rows, in batches of bounded size."""
    order = np.argsort(labels, kind="stable")
    step = max(1, BLOCK_VALUES // n_features)
    distinct, starts = np.unique(labels[order], return_index=True)
    for label, rows in zip(distinct, np.split(order, starts)[1:], strict=True):
        for start in range(0, len(rows), step):
            yield int(label), rows[start : start + step]


def vmf_rows(
    labels: Labels,
    directions: Float64Array,
    concentrations: Float64Array,
    rng: np.random.Generator,
    dtype: npt.DTypeLike,
) -> FloatArray:
    """Rows (n, D) of the clusters that `labels` name; -1 is uniform."""
    n_features = directions.shape[1]
    X = np.empty((len(labels), n_features), dtype=dtype)
    for k, rows in batches(labels, n_features):
        if k < 0:
            X[rows] = uniform(len(rows), n_features, rng)
        else:
            X[rows] = vmf.sample(directions[k], concentrations[k], len(rows), rng)
    return X


def check_sizes(n_samples: int, n_features: int, n_clusters: int, who: str) -> None:
    check_integer(n_features, "n_features", who, low=2, hint="Unit vectors in one dimension are only signs.")
    check_row_count(n_samples, n_features, "n_samples", who, low=1)
    check_row_count(n_clusters, n_features, "n_clusters", who, low=1)


def float_dtype(dtype: npt.DTypeLike, who: str) -> np.dtype[Any]:
    try:
        is_float = np.dtype(dtype) in (np.float32, np.float64)
    except (TypeError, ValueError, SyntaxError):  # what is no dtype at all
        is_float = False
    if not is_float:
        raise ParameterError(
            f"`dtype` of {who} must be float32 or float64; got {dtype!r}. Convert X afterwards if you need another."
        )
    return np.dtype(dtype)


def check_weights(weights: Any, n_clusters: int, who: str) -> Float64Array:
    """Shares (K,) with sum 1."""
    if weights is None:
        return np.full(n_clusters, 1.0 / n_clusters)
    shares = as_numbers(weights)
    if shares.shape != (n_clusters,) or not np.isfinite(shares).all() or (shares < 0.0).any() or not shares.any():
        raise ParameterError(
            f"`weights` of {who} must be {n_clusters} numbers that are not negative and not all 0, one per cluster; "
            f"got {np.asarray(weights).tolist()!r}. Leave it out for equal clusters."
        )
    return shares / float(shares.sum())


def draw_concentrations(
    concentration: Any, n_clusters: int, n_features: int, rng: np.random.Generator, who: str
) -> Float64Array:
    """One concentration per cluster (K,)."""
    if concentration is None:
        concentration = vmf.concentration_from_resultant(n_features, _DEFAULT_MEAN_COSINE)
    values = as_numbers(concentration)
    is_valid = bool(np.isfinite(values).all() and (values >= 0.0).all())
    if is_valid and isinstance(concentration, tuple) and values.shape == (2,) and 0.0 < values[0] <= values[1]:
        return np.exp(rng.uniform(np.log(values[0]), np.log(values[1]), n_clusters))
    if is_valid and not isinstance(concentration, tuple) and values.shape in ((), (n_clusters,)):
        return np.full(n_clusters, values)
    raise ParameterError(
        f"`concentration` of {who} must be a number >= 0, a tuple (low, high) with 0 < low <= high, or a list of "
        f"{n_clusters} numbers >= 0, one per cluster; got {concentration!r}. Leave it out for a mean cosine of "
        f"{_DEFAULT_MEAN_COSINE}."
    )


def as_numbers(value: Any) -> Float64Array:
    """The value as float64; NaN, which every rule refuses, where it does not convert."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.array(np.nan)
