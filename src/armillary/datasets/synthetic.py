"""Synthetic unit vectors with a known truth.

Every maker returns `(X, labels, truth)`: unit rows, the index of the cluster each row was drawn from (-1 for
noise), and a frozen record of what was drawn besides. Random numbers are drawn in float64 and rows are cast at the
end, so float32 and float64 rows of one seed are the same points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.stats import invwishart
from sklearn.feature_extraction.text import TfidfTransformer

from armillary._typing import Float64Array, FloatArray, RandomState
from armillary.distributions import vmf
from armillary.exceptions import ParameterError
from armillary.geometry import sphere
from armillary.random import generator
from armillary.validation import check_integer, check_number

Labels = npt.NDArray[np.int64]

# Values drawn together, 32 MiB of float64: bounds the scratch memory, whatever the number of rows.
_BLOCK_VALUES = 1 << 22

# Mean cosine between a row and its direction when no concentration is given: 25 degrees on the sphere in 3-D, and
# clusters equally tight in any dimension, which no fixed concentration is.
_DEFAULT_MEAN_COSINE = 0.9

# Darts are thrown until this many in a row miss. Were a thousandth of the sphere still free, the chance of that is
# 0.999^10000 = 4.5e-5.
_MAX_MISSES = 10_000
_DARTS_AT_ONCE = 64

# Spread of the logarithm of document lengths: nineteen in twenty lie within a factor e of the middle.
_LOG_LENGTH_DEVIATION = 0.5


@dataclass(frozen=True, eq=False)
class VonMisesFisherMixtureTruth:
    """What `make_vmf_mixture` drew."""

    directions: Float64Array  # (K, D) unit
    concentrations: Float64Array  # (K,)
    weights: Float64Array  # (K,) sum 1; shares of the rows that are not noise


@dataclass(frozen=True, eq=False)
class TangentGaussianMixtureTruth:
    """What `make_tangent_gaussian_mixture` drew."""

    directions: Float64Array  # (K, D) unit
    covariances: Float64Array  # (K, D, D) in ambient coordinates: rank D - 1, covariances[k] @ directions[k] = 0
    weights: Float64Array  # (K,) sum 1; shares of the rows that are not noise
    is_wrapped: npt.NDArray[np.bool_]  # (n_samples,) tangent vector of length pi or more


@dataclass(frozen=True, eq=False)
class DriftingMixtureTruth:
    """What `make_drifting_mixture` drew."""

    directions: Float64Array  # (T, K, D) unit, also while a cluster is absent
    is_present: npt.NDArray[np.bool_]  # (T, K)
    concentrations: Float64Array  # (K,) of rows
    step_concentrations: Float64Array  # (K,) of one step of a direction; inf where directions take no random steps
    rotation_plane: Float64Array  # (2, D) orthonormal; the turn takes the first vector towards the second
    weights: Float64Array  # (K,) sum 1; shared out among the clusters present


@dataclass(frozen=True, eq=False)
class SparseTopicsTruth:
    """What `make_sparse_topics` drew."""

    background: Float64Array  # (D,) probability of each word outside the topics
    topic_words: npt.NDArray[np.int64]  # (K, W) words of each topic, most frequent first
    topic_word_probabilities: Float64Array  # (W,) probability of a topic's first, second, ... word
    topic_share: float  # share of words that come from the topic
    weights: Float64Array  # (K,) sum 1
    document_lengths: npt.NDArray[np.int64]  # (n_samples,) words in each document, counted with repeats

    def word_probabilities(self) -> Float64Array:
        """Probability of each word in each topic, shape (K, D), dense."""
        probabilities = np.tile((1.0 - self.topic_share) * self.background, (len(self.topic_words), 1))
        rows = np.arange(len(self.topic_words))[:, None]
        probabilities[rows, self.topic_words] += self.topic_share * self.topic_word_probabilities
        return probabilities


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
    _check_sizes(n_samples, n_features, n_clusters, who)
    rng, dtype = generator(random_state), _float_dtype(dtype, who)
    shares = _weights(weights, n_clusters, who)
    directions = _directions(n_clusters, n_features, min_angle, rng, who)
    concentrations = _concentrations(concentration, n_clusters, n_features, rng, who)
    labels = _draw_labels(n_samples, shares, noise, rng, who)
    X = _vmf_rows(labels, directions, concentrations, rng, dtype)
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
    _check_sizes(n_samples, n_features, n_clusters, who)
    check_number(spread, "spread", who, low=0.0, hint="It is a standard deviation in radians.")
    rng, dtype = generator(random_state), _float_dtype(dtype, who)
    shares = _weights(weights, n_clusters, who)
    directions = _directions(n_clusters, n_features, min_angle, rng, who)
    tangent_covariances = _tangent_covariances(n_clusters, n_features - 1, spread, degrees_of_freedom, rng, who)
    frames = sphere.tangent_frame(directions)
    labels = _draw_labels(n_samples, shares, noise, rng, who)
    # a covariance of spread 0 has a root too, which Cholesky would refuse
    eigenvalues, eigenvectors = np.linalg.eigh(tangent_covariances)
    roots = frames @ (eigenvectors * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None, :])
    X = np.empty((n_samples, n_features), dtype=dtype)
    is_wrapped = np.zeros(n_samples, dtype=np.bool_)
    for k, rows in _batches(labels, n_features):
        if k < 0:
            X[rows] = _uniform(len(rows), n_features, rng)
            continue
        tangents = rng.standard_normal((len(rows), n_features - 1)) @ roots[k].T
        X[rows] = sphere.exp(tangents, directions[k])
        is_wrapped[rows] = np.linalg.norm(tangents, axis=1) >= math.pi
    covariances = frames @ tangent_covariances @ np.swapaxes(frames, 1, 2)
    return X, labels, TangentGaussianMixtureTruth(directions, covariances, shares, is_wrapped)


def make_drifting_mixture(
    n_samples: int,
    n_features: int,
    n_clusters: int,
    n_steps: int,
    *,
    concentration: Any = None,
    drift_concentration: float | None = None,
    rotation: float = 0.0,
    is_present: Any = None,
    death_probability: float = 0.0,
    revival_probability: float = 0.5,
    weights: Any = None,
    min_angle: float = 0.0,
    noise: float = 0.0,
    random_state: RandomState = None,
    dtype: npt.DTypeLike = np.float64,
) -> tuple[list[FloatArray], list[Labels], DriftingMixtureTruth]:
    """A stream of batches from von Mises-Fisher clusters that move, vanish and come back.

    At every step each direction is turned by the common rotation and then takes a random step of its own; both go
    on while the cluster is absent. A label is the same cluster at all steps.

    Parameters
    ----------
    n_samples, n_features, n_clusters, n_steps : int
        Rows in each batch, dimension (2 or more), clusters over the whole stream, and batches. A step at which no
        cluster is present has its noise rows only.
    concentration : float, (low, high) or array of shape (n_clusters,), optional
        Of the rows, as in `make_vmf_mixture`.
    drift_concentration : float in (0, inf], optional
        A direction's step is von Mises-Fisher with this times the concentration of its rows, the unit that
        `DDPvMFMeans` uses: 100 moves a direction by about a tenth of the spread of its rows. By default 100, or inf (no
        random steps) if a rotation is given.
    rotation : float, default=0.0
        Angle in radians by which all directions turn at each step, in one plane drawn at random (on the sphere in
        3-D: about one axis).
    is_present : bool array-like of shape (n_steps, n_clusters), optional
        An explicit schedule. By default it is drawn: all clusters are there at the first step.
    death_probability, revival_probability : float, default=0.0 and 0.5
        Chance at each step that a cluster that was present is absent, and the reverse.
    weights : array-like of shape (n_clusters,), optional
        Relative frequencies among the clusters present; equal by default.
    min_angle : float, default=0.0
        Least angle between two directions at the first step, in radians; see `make_vmf_mixture`.
    noise : float, default=0.0
        Probability that a row is uniform on the sphere and labelled -1.
    random_state : int, Generator, RandomState or None
        An int gives the same data every time.
    dtype : float64 or float32
        Of X.

    Returns
    -------
    X : list of n_steps arrays of shape (n_samples, n_features)
        Unit rows: a list, since streams are fed batch by batch. `np.concatenate(X)` joins it.
    labels : list of n_steps int64 arrays of shape (n_samples,)
    truth : DriftingMixtureTruth

    Examples
    --------
    >>> from armillary.datasets import make_drifting_mixture
    >>> X, labels, truth = make_drifting_mixture(200, 3, 4, 10, death_probability=0.2, random_state=0)
    >>> len(X), X[0].shape, truth.directions.shape, truth.is_present.shape
    (10, (200, 3), (10, 4, 3), (10, 4))
    """
    who = "make_drifting_mixture"
    _check_sizes(n_samples, n_features, n_clusters, who)
    check_integer(n_steps, "n_steps", who, low=1)
    check_number(rotation, "rotation", who, low=-math.pi, high=math.pi, hint="Angles are in radians.")
    rng, dtype = generator(random_state), _float_dtype(dtype, who)
    shares = _weights(weights, n_clusters, who)
    present = _presence(is_present, n_steps, n_clusters, death_probability, revival_probability, rng, who)
    concentrations = _concentrations(concentration, n_clusters, n_features, rng, who)
    drift = _drift(drift_concentration, rotation, who)
    # without random steps a cluster of concentration 0 stands still too: 0 times inf is not meant
    step_concentrations = np.full(n_clusters, math.inf) if math.isinf(drift) else drift * concentrations
    # Q of a Gaussian matrix spans a uniform plane
    plane = np.linalg.qr(rng.standard_normal((n_features, 2)))[0].T
    directions = np.empty((n_steps, n_clusters, n_features))
    directions[0] = _directions(n_clusters, n_features, min_angle, rng, who)
    for step in range(1, n_steps):
        turned = _turned(directions[step - 1], plane, rotation)
        for k in range(n_clusters):
            is_still = math.isinf(step_concentrations[k])
            directions[step, k] = turned[k] if is_still else vmf.sample(turned[k], step_concentrations[k], 1, rng)[0]
    X: list[FloatArray] = []
    labels: list[Labels] = []
    for step in range(n_steps):
        batch = _draw_labels(n_samples, shares * present[step], noise, rng, who)
        labels.append(batch)
        X.append(_vmf_rows(batch, directions[step], concentrations, rng, dtype))
    return X, labels, DriftingMixtureTruth(directions, present, concentrations, step_concentrations, plane, shares)


def make_sparse_topics(
    n_samples: int,
    n_features: int,
    n_clusters: int,
    *,
    document_length: float = 100.0,
    topic_share: float = 0.3,
    n_topic_words: int | None = None,
    zipf_exponent: float = 1.05,
    weights: Any = None,
    random_state: RandomState = None,
    dtype: npt.DTypeLike = np.float64,
) -> tuple[sp.csr_array, Labels, SparseTopicsTruth]:
    """Sparse rows like tf-idf vectors of documents on one topic each.

    Words have Zipf frequencies: the r-th most frequent has probability proportional to r^-zipf_exponent. Each word
    of a document comes from its topic, a Zipf law over the topic's own words, or else from a background over all
    words. Counts become count (log((1 + N)/(1 + df)) + 1), scaled to unit rows, as scikit-learn's
    `TfidfTransformer` does it. Time and memory are linear in the number of words drawn.

    Parameters
    ----------
    n_samples, n_features, n_clusters : int
        Documents, words in the vocabulary (2 or more) and topics.
    document_length : float, default=100.0
        Mean number of words in a document, counted with repeats and at least 1; log-normal with deviation 0.5.
    topic_share : float, default=0.3
        Probability that a word comes from the topic.
    n_topic_words : int, optional
        Words in each topic, drawn from the vocabulary; topics may share words. By default 3000, or all.
    zipf_exponent : float, default=1.05
    weights : array-like of shape (n_clusters,), optional
        Relative frequencies of the topics; equal by default. Labels are independent draws.
    random_state : int, Generator, RandomState or None
        An int gives the same data every time.
    dtype : float64 or float32
        Of X.

    Returns
    -------
    X : csr_array of shape (n_samples, n_features)
        Unit rows without negative entries.
    labels : int64 array of shape (n_samples,)
    truth : SparseTopicsTruth

    Examples
    --------
    >>> from armillary.datasets import make_sparse_topics
    >>> X, labels, truth = make_sparse_topics(200, 1000, 5, random_state=0)
    >>> X.shape, X.format, truth.word_probabilities().shape
    ((200, 1000), 'csr', (5, 1000))
    """
    who = "make_sparse_topics"
    _check_sizes(n_samples, n_features, n_clusters, who)
    check_number(document_length, "document_length", who, low=1.0)
    check_number(topic_share, "topic_share", who, low=0.0, high=1.0)
    check_number(zipf_exponent, "zipf_exponent", who, low=0.0)
    if n_topic_words is None:
        n_topic_words = min(3000, n_features)
    check_integer(n_topic_words, "n_topic_words", who, low=1, high=n_features, hint="The vocabulary is n_features.")
    rng, dtype = generator(random_state), _float_dtype(dtype, who)
    shares = _weights(weights, n_clusters, who)
    by_rank = rng.permutation(n_features)  # the index of a word says nothing about its frequency
    rank_probabilities = _zipf(n_features, zipf_exponent)
    topic_words = np.stack([rng.choice(n_features, n_topic_words, replace=False) for _ in range(n_clusters)])
    topic_rank_probabilities = _zipf(n_topic_words, zipf_exponent)
    labels = _draw_labels(n_samples, shares, 0.0, rng, who)
    log_mean = math.log(document_length) - _LOG_LENGTH_DEVIATION**2 / 2
    lengths = np.maximum(1, np.rint(rng.lognormal(log_mean, _LOG_LENGTH_DEVIATION, n_samples))).astype(np.int64)
    blocks = []
    step = max(1, int(_BLOCK_VALUES / document_length))
    for start in range(0, n_samples, step):
        documents = np.repeat(np.arange(start, min(start + step, n_samples)), lengths[start : start + step])
        words = by_rank[rng.choice(n_features, len(documents), p=rank_probabilities)]
        topical = np.flatnonzero(rng.random(len(documents)) < topic_share)
        ranks = rng.choice(n_topic_words, len(topical), p=topic_rank_probabilities)
        words[topical] = topic_words[labels[documents[topical]], ranks]
        # the constructor adds up repeats of a word; given int32 it stores int32, which is half of the index
        cells = ((documents - start).astype(np.int32), words.astype(np.int32))
        shape = (min(step, n_samples - start), n_features)
        blocks.append(sp.csr_array((np.ones(len(words)), cells), shape=shape))
    X = sp.csr_array(TfidfTransformer().fit_transform(sp.vstack(blocks, format="csr"))).astype(dtype)
    background = np.empty(n_features)
    background[by_rank] = rank_probabilities
    truth = SparseTopicsTruth(background, topic_words, topic_rank_probabilities, topic_share, shares, lengths)
    return X, labels, truth


# ------------------------------------------------------------------------------------------------- drawing


def _uniform(n: int, n_features: int, rng: np.random.Generator) -> Float64Array:
    """Uniform unit rows (n, D): von Mises-Fisher with concentration 0."""
    return vmf.sample(np.eye(1, n_features)[0], 0.0, n, rng)


def _directions(n_clusters: int, n_features: int, min_angle: float, rng: np.random.Generator, who: str) -> Float64Array:
    """Directions (K, D), uniform given that no two are nearer than `min_angle` to each other in turn."""
    check_number(min_angle, "min_angle", who, low=0.0, high=math.pi, hint="Angles are in radians.")
    if min_angle == 0.0:
        return _uniform(n_clusters, n_features, rng)
    placed = np.empty((n_clusters, n_features))
    n_placed = n_misses = 0
    max_cosine = math.cos(min_angle)
    while n_placed < n_clusters:
        n_before = n_placed
        for dart in _uniform(_DARTS_AT_ONCE, n_features, rng):
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


def _draw_labels(n: int, weights: Float64Array, noise: float, rng: np.random.Generator, who: str) -> Labels:
    """Independent labels (n,), -1 for noise; without any weight only the noise rows are left."""
    check_number(noise, "noise", who, low=0.0, high=1.0, hint="It is the share of rows that are uniform.")
    is_noise = rng.random(n) < noise
    total = weights.sum()
    if total == 0.0:
        return np.full(np.count_nonzero(is_noise), -1, dtype=np.int64)
    labels = rng.choice(len(weights), size=n, p=weights / total).astype(np.int64)
    labels[is_noise] = -1
    return labels


def _batches(labels: Labels, n_features: int) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Each label with the numbers of its rows, in batches of bounded size."""
    order = np.argsort(labels, kind="stable")
    step = max(1, _BLOCK_VALUES // n_features)
    distinct, starts = np.unique(labels[order], return_index=True)
    for label, rows in zip(distinct, np.split(order, starts)[1:], strict=True):
        for start in range(0, len(rows), step):
            yield int(label), rows[start : start + step]


def _vmf_rows(
    labels: Labels,
    directions: Float64Array,
    concentrations: Float64Array,
    rng: np.random.Generator,
    dtype: npt.DTypeLike,
) -> FloatArray:
    """Rows (n, D) of the clusters that `labels` name; -1 is uniform."""
    n_features = directions.shape[1]
    X = np.empty((len(labels), n_features), dtype=dtype)
    for k, rows in _batches(labels, n_features):
        if k < 0:
            X[rows] = _uniform(len(rows), n_features, rng)
        else:
            X[rows] = vmf.sample(directions[k], concentrations[k], len(rows), rng)
    return X


def _tangent_covariances(
    n_clusters: int, dimension: int, spread: float, degrees: float | None, rng: np.random.Generator, who: str
) -> Float64Array:
    """Inverse-Wishart covariances (K, p, p) with mean spread^2 I."""
    if degrees is None:
        degrees = dimension + 3.0
    if not degrees > dimension + 1:
        raise ParameterError(
            f"`degrees_of_freedom` of {who} must be above {dimension + 1} = n_features, where the mean covariance "
            f"exists; got {degrees!r}. Use {dimension + 3} for varied shapes, math.inf for round clusters."
        )
    if math.isinf(degrees):
        return np.tile(spread**2 * np.eye(dimension), (n_clusters, 1, 1))
    # drawn with mean I and then scaled, so that a spread of 0 is allowed; p = 1 comes back without its axes
    unit = invwishart.rvs(degrees, (degrees - dimension - 1.0) * np.eye(dimension), size=n_clusters, random_state=rng)
    covariances: Float64Array = spread**2 * np.reshape(unit, (n_clusters, dimension, dimension))
    return covariances


def _turned(directions: Float64Array, plane: Float64Array, angle: float) -> Float64Array:
    """Directions (K, D) turned by `angle` in the plane (2, D); what is orthogonal to the plane stays."""
    if angle == 0.0:
        return directions
    turn = np.array([[math.cos(angle) - 1.0, math.sin(angle)], [-math.sin(angle), math.cos(angle) - 1.0]])
    turned: Float64Array = directions + directions @ plane.T @ turn @ plane
    turned /= np.linalg.norm(turned, axis=1, keepdims=True)  # rounding would add up over the steps
    return turned


def _zipf(n: int, exponent: float) -> Float64Array:
    """Probabilities (n,) proportional to rank^-exponent."""
    probabilities: Float64Array = np.arange(1.0, n + 1.0) ** -exponent
    probabilities /= probabilities.sum()
    return probabilities


# ---------------------------------------------------------------------------------------------- parameters


def _check_sizes(n_samples: int, n_features: int, n_clusters: int, who: str) -> None:
    check_integer(n_samples, "n_samples", who, low=1)
    check_integer(n_features, "n_features", who, low=2, hint="Unit vectors in one dimension are only signs.")
    check_integer(n_clusters, "n_clusters", who, low=1)


def _float_dtype(dtype: npt.DTypeLike, who: str) -> np.dtype[Any]:
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ParameterError(
            f"`dtype` of {who} must be float32 or float64; got {dtype!r}. Convert X afterwards if you need another."
        )
    return np.dtype(dtype)


def _weights(weights: Any, n_clusters: int, who: str) -> Float64Array:
    """Shares (K,) with sum 1."""
    if weights is None:
        return np.full(n_clusters, 1.0 / n_clusters)
    shares = _numbers(weights)
    if shares.shape != (n_clusters,) or not np.isfinite(shares).all() or (shares < 0.0).any() or not shares.any():
        raise ParameterError(
            f"`weights` of {who} must be {n_clusters} numbers that are not negative and not all 0, one per cluster; "
            f"got {np.asarray(weights).tolist()!r}. Leave it out for equal clusters."
        )
    return shares / float(shares.sum())


def _concentrations(
    concentration: Any, n_clusters: int, n_features: int, rng: np.random.Generator, who: str
) -> Float64Array:
    """One concentration per cluster (K,)."""
    if concentration is None:
        concentration = vmf.concentration_from_resultant(n_features, _DEFAULT_MEAN_COSINE)
    values = _numbers(concentration)
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


def _numbers(value: Any) -> Float64Array:
    """The value as float64; NaN, which every rule refuses, where it does not convert."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return np.array(np.nan)


def _drift(drift_concentration: float | None, rotation: float, who: str) -> float:
    if drift_concentration is None:
        return 100.0 if rotation == 0.0 else math.inf
    if not drift_concentration > 0.0:
        raise ParameterError(
            f"`drift_concentration` of {who} must be a number in (0, inf], in units of the concentration of the rows; "
            f"got {drift_concentration!r}. Use math.inf for directions without random steps."
        )
    return float(drift_concentration)


def _presence(
    is_present: Any,
    n_steps: int,
    n_clusters: int,
    death_probability: float,
    revival_probability: float,
    rng: np.random.Generator,
    who: str,
) -> npt.NDArray[np.bool_]:
    """Which cluster is there at which step (T, K): as told, or a two-state Markov chain for each cluster."""
    check_number(death_probability, "death_probability", who, low=0.0, high=1.0)
    check_number(revival_probability, "revival_probability", who, low=0.0, high=1.0)
    if is_present is None:
        present = np.ones((n_steps, n_clusters), dtype=np.bool_)
        for step in range(1, n_steps):
            chance = rng.random(n_clusters)
            present[step] = np.where(present[step - 1], chance >= death_probability, chance < revival_probability)
        return present
    schedule = np.asarray(is_present)
    if schedule.dtype != np.bool_ or schedule.shape != (n_steps, n_clusters):
        raise ParameterError(
            f"`is_present` of {who} must be booleans of shape (n_steps, n_clusters) = {(n_steps, n_clusters)}; "
            f"got {schedule.dtype} of shape {schedule.shape}. Leave it out to have one drawn."
        )
    if death_probability > 0.0:
        raise ParameterError(
            f"`is_present` and `death_probability` of {who} exclude each other: one tells the schedule, the other "
            f"draws it; got both, with death_probability={death_probability!r}. Leave one of them out."
        )
    return schedule.copy()
