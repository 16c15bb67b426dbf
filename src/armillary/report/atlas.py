"""Where rows are drawn on the sphere.

Three columns are drawn as they are, and so are rows that lie in three dimensions of many: every angle is true. Two
columns lie on a circle. Other rows are projected by angles alone, without a look at their clusters, so that a cluster
is seen only where the rows themselves show one:

1. A few hundred rows, evenly spaced, are landmarks. Their places p_i on the sphere minimise the stress

       sum_{i<j} w_ij (|p_i - p_j| - 2 sin(t_ij / 2))^2,      t_ij = 90° + b (theta_ij - mean theta)

   of multidimensional scaling, with chords, which are smooth where angles are not, and more weight for near pairs.
   In many dimensions angles crowd together: b stretches them so that a landmark's nearest neighbour is as near as that
   of points spread evenly over the sphere. The map therefore keeps the order of angles, not their size.
2. Every other row lies among the landmarks nearest to it, by weights that fall with the square of t.

The rank correlation of true angles and those on the map, over rows that are no landmarks, is printed beside it.
Measured on 13,083 sentences in 384 dimensions: 0.62, where the three main axes (PCA), scaled to the sphere, have 0.58;
of the ten rows drawn nearest, 0.70 are of the same of 50 clusters in place of 0.32, and 0.89 in truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.stats import spearmanr

from armillary._typing import Float64Array, FloatArray, IntArray
from armillary.engines.contract import Here, Passes
from armillary.rules import AffineRule

_MOST_LANDMARKS = 800
_LANDMARK_VALUES = 1 << 24  # numbers in all landmarks: 128 MiB
_TEST_ROWS = 300
_NEAREST = 8  # landmarks that place a row
_NEAR = 0.05  # radians of the map within which a landmark gets no more weight
_MOST_STRETCH = 4.0
_SOFT = 0.15  # radians of the map within which pairs of landmarks weigh alike
_STEPS = 200
_BAND = (0.05, 0.6)  # lowest and highest of the band, above its circle, on which rows of two columns are drawn


@dataclass(frozen=True, eq=False)
class Atlas:
    """Unit vectors in space for rows and centres."""

    kind: str  # "sphere", "circle" or "projection"
    places: Float64Array  # (m, 3)
    centers: Float64Array  # (K, 3)
    fidelity: float = 1.0  # rank correlation of angles
    n_pairs: int = 0  # pairs of rows it was measured on
    stretch: float = 1.0  # b


def make_atlas(passes: Passes, centers: Float64Array) -> Atlas:
    """Places for the rows of `passes` and for directions (K, D) of the same space."""
    points = passes.points
    if points.n_features == 3:
        return Atlas("sphere", passes.unit_rows(np.arange(points.n_rows)), centers)
    if points.n_features == 2:
        # the height only parts rows that would lie on top of each other: even, and unlike the order of the rows
        low, high = _BAND
        heights = low + (high - low) * (np.arange(points.n_rows) * 0.618034 % 1.0)
        rows = np.column_stack([passes.unit_rows(np.arange(points.n_rows)), heights])
        middles = np.column_stack([centers, np.full(len(centers), (low + high) / 2.0)])
        return Atlas("circle", _unit(rows), _unit(middles))
    n_landmarks = min(points.n_rows, int(np.clip(_LANDMARK_VALUES // points.n_features, 100, _MOST_LANDMARKS)))
    chosen = np.arange(n_landmarks) * points.n_rows // n_landmarks
    landmarks = passes.unit_rows(chosen)
    axes = _axes_of_three(landmarks)
    if axes is not None:
        return Atlas("sphere", _along(passes, axes), _unit(centers @ axes.T))
    guide = _Guide.of(landmarks)
    places = guide.place_all(passes)
    fidelity, n_pairs = _fidelity(passes, places, chosen)
    return Atlas("projection", places, guide.place(centers @ landmarks.T), fidelity, n_pairs, guide.stretch)


def _unit(vectors: Float64Array) -> Float64Array:
    """Rows of length 1; those of length 0 point anywhere."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.where(lengths > 0.0, vectors / np.where(lengths > 0.0, lengths, 1.0), np.eye(3)[2])


def _axes_of_three(landmarks: Float64Array) -> Float64Array | None:
    """Orthonormal axes (3, D) of a space that holds all landmarks; None where they need more than three."""
    squares, vectors = np.linalg.eigh(landmarks @ landmarks.T)
    if squares[:-3].sum() > 1e-9 * len(landmarks):
        return None
    is_used = squares[-3:] > 1e-9 * len(landmarks)
    lengths = np.sqrt(np.where(is_used, squares[-3:], 1.0))
    axes = np.zeros((3, landmarks.shape[1]))
    axes[: len(lengths)] = (is_used / lengths)[:, None] * (vectors[:, -3:].T @ landmarks)
    return axes


def _along(passes: Passes, axes: Float64Array) -> Float64Array:
    return _unit(passes.values(AffineRule(axes, np.zeros(3)), "scores").astype(np.float64))


@dataclass(frozen=True, eq=False)
class _Guide:
    """Landmarks with their places."""

    landmarks: Float64Array  # (m, D)
    places: Float64Array  # (m, 3)
    mean_angle: float
    stretch: float

    @classmethod
    def of(cls, landmarks: Float64Array) -> _Guide:
        angles = np.arccos(np.clip(landmarks @ landmarks.T, -1.0, 1.0))
        m = len(landmarks)
        np.fill_diagonal(angles, 0.0)
        mean = angles.sum() / (m * (m - 1))
        np.fill_diagonal(angles, np.inf)
        nearest = float(np.median(angles.min(axis=1)))
        np.fill_diagonal(angles, 0.0)
        # how far the nearest of m points lies that are spread evenly over the sphere
        wanted = np.sqrt(np.pi / m)
        stretch = float(np.clip((np.pi / 2 - wanted) / max(mean - nearest, 1e-9), 1.0, _MOST_STRETCH))
        targets = _targets(angles, mean, stretch)
        np.fill_diagonal(targets, 0.0)
        return cls(landmarks, _scaled(targets), float(mean), stretch)

    def place(self, cosines: FloatArray) -> Float64Array:
        """Places (n, 3) of rows by their cosines with the landmarks (n, m)."""
        n_nearest = min(_NEAREST, cosines.shape[1])
        nearest = np.argpartition(-cosines, n_nearest - 1, axis=1)[:, :n_nearest]
        angles = np.arccos(np.clip(np.take_along_axis(cosines, nearest, axis=1), -1.0, 1.0))
        weights = 1.0 / np.square(_targets(angles, self.mean_angle, self.stretch) + _NEAR)
        return _unit(np.einsum("nq,nqc->nc", weights, self.places[nearest]))

    def place_all(self, passes: Passes) -> Float64Array:
        """Places of all rows."""
        return passes.values(AffineRule(self.landmarks, np.zeros(len(self.landmarks))), _Places(self))


@dataclass(frozen=True, eq=False)
class _Places:
    """The place of each row by its cosines with landmarks."""

    guide: _Guide

    def of(self, scores: Float64Array, here: Here) -> Float64Array:
        return self.guide.place(scores)


def _targets(angles: FloatArray, mean: float, stretch: float) -> Float64Array:
    """Angles wanted on the map."""
    return np.clip(np.pi / 2 + stretch * (angles - mean), 0.0, np.pi)


def _scaled(targets: Float64Array) -> Float64Array:
    """Places (m, 3) of landmarks whose angles are wanted to be `targets` (m, m)."""
    chords = 2.0 * np.sin(targets / 2.0)
    weights = 1.0 / (targets + _SOFT)
    np.fill_diagonal(weights, 0.0)
    weights /= weights.sum()

    def stress(flat: Float64Array) -> tuple[float, Float64Array]:
        vectors = flat.reshape(-1, 3)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        places = vectors / lengths
        distances = np.sqrt(np.maximum(2.0 - 2.0 * places @ places.T, 1e-12))
        pulls = weights * (distances - chords)
        value = float((pulls * (distances - chords)).sum())
        pulls /= distances
        slopes = 4.0 * (pulls.sum(axis=1)[:, None] * places - pulls @ places)
        slopes -= np.vecdot(slopes, places)[:, None] * places  # along the sphere
        return value, (slopes / lengths).ravel()

    # the three main axes of what the cosines would be: exact where three dimensions are enough
    squares, axes = np.linalg.eigh(np.cos(targets))
    start = _unit(axes[:, -3:] * np.sqrt(np.maximum(squares[-3:], 1e-12)))
    found = minimize(stress, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
    return _unit(found.x.reshape(-1, 3))


def _fidelity(passes: Passes, places: Float64Array, landmarks: IntArray) -> tuple[float, int]:
    """Rank correlation of true angles and those on the map, and the number of pairs it was taken from."""
    points = passes.points
    others = np.setdiff1d(np.arange(points.n_rows), landmarks)
    others = others if len(others) >= 20 else np.arange(points.n_rows)  # too few rows: the landmarks have to do
    n_rows = min(len(others), max(20, min(_TEST_ROWS, _LANDMARK_VALUES // points.n_features)))
    chosen = others[np.arange(n_rows) * len(others) // n_rows]
    rows = passes.unit_rows(chosen)
    first, second = np.triu_indices(n_rows, 1)
    true = (rows @ rows.T)[first, second]
    shown = (places[chosen] @ places[chosen].T)[first, second]
    if np.ptp(true) < 1e-12 or np.ptp(shown) < 1e-12:
        return 0.0, len(first)  # equal angles have no order to keep
    return float(spearmanr(true, shown).statistic), len(first)
