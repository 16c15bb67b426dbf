"""Rows from mixtures on the sphere: von Mises-Fisher clusters, and Gaussians in tangent spaces.

Like every maker it returns `(X, labels, truth)`: unit rows, the index of the cluster each row was drawn from (-1 for
noise), and a frozen record of what was drawn besides. Random numbers are drawn in float64 and rows are cast at the
end, so float32 and float64 rows of one seed are the same points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import invwishart

from armillary._typing import Float64Array, FloatArray, RandomState
from armillary.datasets._drawing import (
    Labels,
    as_numbers,
    batches,
    check_sizes,
    check_weights,
    draw_concentrations,
    draw_directions,
    draw_labels,
    float_dtype,
    uniform,
    vmf_rows,
)
from armillary.draws import generator
from armillary.exceptions import ParameterError
from armillary.geometry import sphere
from armillary.validation import check_number


@dataclass(frozen=True, eq=False)
class VonMisesFisherMixtureTruth:
    """What `make_vmf_mixture` drew.

    Examples
    --------
    >>> from armillary.datasets import make_vmf_mixture
    >>> _, _, truth = make_vmf_mixture(100, 3, 2, concentration=50.0, random_state=0)
    >>> truth.directions.shape, truth.concentrations.tolist()
    ((2, 3), [50.0, 50.0])
    """

    directions: Float64Array  # (K, D) unit
    concentrations: Float64Array  # (K,)
    weights: Float64Array  # (K,) sum 1; shares of the rows that are not noise


@dataclass(frozen=True, eq=False)
class TangentGaussianMixtureTruth:
    """What `make_tangent_gaussian_mixture` drew.

    Examples
    --------
    >>> from armillary.datasets import make_tangent_gaussian_mixture
    >>> _, _, truth = make_tangent_gaussian_mixture(100, 3, 2, random_state=0)
    >>> truth.covariances.shape
    (2, 3, 3)
    """

    directions: Float64Array  # (K, D) unit
    covariances: Float64Array  # (K, D, D) in ambient coordinates: rank D - 1, covariances[k] @ directions[k] = 0
    weights: Float64Array  # (K,) sum 1; shares of the rows that are not noise
    is_wrapped: npt.NDArray[np.bool_]  # (n_samples,) tangent vector of length pi or more


def make_vmf_mixture(
    n_samples: int,
    n_features: int,
    n_clusters: int,
    *,
    concentration: Any = None,
    weights: Any = None,
    min_angle: float = 0.0,
    noise: float = 0.0,
    random_state: RandomState = None,
    dtype: npt.DTypeLike = np.float64,
) -> tuple[FloatArray, Labels, VonMisesFisherMixtureTruth]:
    """Rows from a mixture of von Mises-Fisher distributions.

    Parameters
    ----------
    n_samples, n_features, n_clusters : int
        Rows, dimension (2 or more) and clusters.
    concentration : float, (low, high) or array of shape (n_clusters,), optional
        One for all clusters; a tuple for independent draws, uniform in the logarithm; or one for each cluster. By
        default the one for which rows have mean cosine 0.9 with their direction, in any dimension.
    weights : array-like of shape (n_clusters,), optional
        Relative frequencies of the clusters; equal by default. Labels are independent draws.
    min_angle : float, default=0.0
        Least angle between two directions, in radians. Uniform directions are drawn one after the other, and those
        too near an earlier one are drawn again; a full sphere cannot be packed this way.
    noise : float, default=0.0
        Probability that a row is uniform on the sphere and labelled -1.
    random_state : int, Generator, RandomState or None
        An int gives the same data every time.
    dtype : float64 or float32
        Of X.

    Returns
    -------
    X : array of shape (n_samples, n_features)
        Unit rows.
    labels : int64 array of shape (n_samples,)
    truth : VonMisesFisherMixtureTruth

    Examples
    --------
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, labels, truth = make_vmf_mixture(500, 3, 4, concentration=(20, 200), min_angle=0.7, random_state=0)
    >>> X.shape, truth.directions.shape, truth.concentrations.shape
    ((500, 3), (4, 3), (4,))
    """
    who = "make_vmf_mixture"
    check_sizes(n_samples, n_features, n_clusters, who)
    rng, dtype = generator(random_state), float_dtype(dtype, who)
    shares = check_weights(weights, n_clusters, who)
    directions = draw_directions(n_clusters, n_features, min_angle, rng, who)
    concentrations = draw_concentrations(concentration, n_clusters, n_features, rng, who)
    labels = draw_labels(n_samples, shares, noise, rng, who)
    X = vmf_rows(labels, directions, concentrations, rng, dtype)
    return X, labels, VonMisesFisherMixtureTruth(directions, concentrations, shares)


def make_tangent_gaussian_mixture(
    n_samples: int,
    n_features: int,
    n_clusters: int,
    *,
    spread: float = 0.1,
    degrees_of_freedom: float | None = None,
    weights: Any = None,
    min_angle: float = 0.0,
    noise: float = 0.0,
    random_state: RandomState = None,
    dtype: npt.DTypeLike = np.float64,
) -> tuple[FloatArray, Labels, TangentGaussianMixtureTruth]:
    """Rows from a mixture of Gaussians in tangent spaces, brought to the sphere by the exponential map.

    A tangent vector at the direction of cluster k is drawn from N(0, covariance_k) and followed along its geodesic
    for its length. A length beyond pi goes past the antipode and comes back on the other side: the row is then
    nearer than the tangent vector was long, and `truth.is_wrapped` marks it. In 3-D that befalls 3 rows in 10^9 of
    a round cluster with spread 0.5.

    Parameters
    ----------
    n_samples, n_features, n_clusters : int
        Rows, dimension D (2 or more) and clusters. Covariances take n_clusters D^2 numbers.
    spread : float, default=0.1
        Root of the mean variance in each of the D - 1 tangent directions, in radians.
    degrees_of_freedom : float, optional
        Covariances are inverse Wishart with mean spread^2 times the identity; this is above D and by default
        D + 2. More of them make rounder clusters; `math.inf` makes all covariances equal to the mean.
    weights : array-like of shape (n_clusters,), optional
        Relative frequencies of the clusters; equal by default. Labels are independent draws.
    min_angle : float, default=0.0
        Least angle between two directions, in radians; see `make_vmf_mixture`.
    noise : float, default=0.0
        Probability that a row is uniform on the sphere and labelled -1.
    random_state : int, Generator, RandomState or None
        An int gives the same data every time.
    dtype : float64 or float32
        Of X.

    Returns
    -------
    X : array of shape (n_samples, n_features)
        Unit rows.
    labels : int64 array of shape (n_samples,)
    truth : TangentGaussianMixtureTruth

    Examples
    --------
    >>> from armillary.datasets import make_tangent_gaussian_mixture
    >>> X, labels, truth = make_tangent_gaussian_mixture(500, 3, 4, spread=0.07, min_angle=0.3, random_state=0)
    >>> X.shape, truth.covariances.shape
    ((500, 3), (4, 3, 3))
    """
    who = "make_tangent_gaussian_mixture"
    check_sizes(n_samples, n_features, n_clusters, who)
    spread = check_number(spread, "spread", who, low=0.0, hint="It is a standard deviation in radians.")
    rng, dtype = generator(random_state), float_dtype(dtype, who)
    shares = check_weights(weights, n_clusters, who)
    directions = draw_directions(n_clusters, n_features, min_angle, rng, who)
    tangent_covariances = _tangent_covariances(n_clusters, n_features - 1, spread, degrees_of_freedom, rng, who)
    frames = sphere.tangent_frame(directions)
    labels = draw_labels(n_samples, shares, noise, rng, who)
    # a covariance of spread 0 has a root too, which Cholesky would refuse
    eigenvalues, eigenvectors = np.linalg.eigh(tangent_covariances)
    roots = frames @ (eigenvectors * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None, :])
    X = np.empty((n_samples, n_features), dtype=dtype)
    is_wrapped = np.zeros(n_samples, dtype=np.bool_)
    for k, rows in batches(labels, n_features):
        if k < 0:
            X[rows] = uniform(len(rows), n_features, rng)
            continue
        tangents = rng.standard_normal((len(rows), n_features - 1)) @ roots[k].T
        X[rows] = sphere.exp(tangents, directions[k])
        is_wrapped[rows] = np.linalg.norm(tangents, axis=1) >= math.pi
    covariances = frames @ tangent_covariances @ np.swapaxes(frames, 1, 2)
    return X, labels, TangentGaussianMixtureTruth(directions, covariances, shares, is_wrapped)


def _tangent_covariances(
    n_clusters: int, dimension: int, spread: float, degrees: float | None, rng: np.random.Generator, who: str
) -> Float64Array:
    """Inverse-Wishart covariances (K, p, p) with mean spread^2 I."""
    if degrees is None:
        degrees = dimension + 3.0
    number = as_numbers(degrees)
    if not (number.ndim == 0 and number > dimension + 1):
        raise ParameterError(
            f"`degrees_of_freedom` of {who} must be above {dimension + 1} = n_features, where the mean covariance "
            f"exists; got {degrees!r}. Use {dimension + 3} for varied shapes, math.inf for round clusters."
        )
    degrees = float(number)
    if math.isinf(degrees):
        return np.tile(spread**2 * np.eye(dimension), (n_clusters, 1, 1))
    # drawn with mean I and then scaled, so that a spread of 0 is allowed; p = 1 comes back without its axes
    unit = invwishart.rvs(degrees, (degrees - dimension - 1.0) * np.eye(dimension), size=n_clusters, random_state=rng)
    covariances: Float64Array = spread**2 * np.reshape(unit, (n_clusters, dimension, dimension))
    return covariances
