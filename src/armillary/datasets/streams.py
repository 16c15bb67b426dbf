"""A stream of batches whose clusters drift, vanish and come back.

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

from armillary._typing import Float64Array, FloatArray, RandomState
from armillary.datasets._drawing import (
    Labels,
    check_sizes,
    check_weights,
    draw_concentrations,
    draw_directions,
    draw_labels,
    float_dtype,
    vmf_rows,
)
from armillary.distributions import vmf
from armillary.draws import generator
from armillary.exceptions import ParameterError
from armillary.validation import check_integer, check_number


@dataclass(frozen=True, eq=False)
class DriftingMixtureTruth:
    """What `make_drifting_mixture` drew.

    Examples
    --------
    >>> from armillary.datasets import make_drifting_mixture
    >>> _, _, truth = make_drifting_mixture(100, 3, 2, 4, random_state=0)
    >>> truth.directions.shape, truth.is_present.shape
    ((4, 2, 3), (4, 2))
    """

    directions: Float64Array  # (T, K, D) unit, also while a cluster is absent
    is_present: npt.NDArray[np.bool_]  # (T, K)
    concentrations: Float64Array  # (K,) of rows
    step_concentrations: Float64Array  # (K,) of one step of a direction; inf where directions take no random steps
    rotation_plane: Float64Array  # (2, D) orthonormal; the turn takes the first vector towards the second
    weights: Float64Array  # (K,) sum 1; shared out among the clusters present


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
    check_sizes(n_samples, n_features, n_clusters, who)
    check_integer(n_steps, "n_steps", who, low=1)
    check_number(rotation, "rotation", who, low=-math.pi, high=math.pi, hint="Angles are in radians.")
    rng, dtype = generator(random_state), float_dtype(dtype, who)
    shares = check_weights(weights, n_clusters, who)
    present = _presence(is_present, n_steps, n_clusters, death_probability, revival_probability, rng, who)
    concentrations = draw_concentrations(concentration, n_clusters, n_features, rng, who)
    drift = _drift(drift_concentration, rotation, who)
    # without random steps a cluster of concentration 0 stands still too: 0 times inf is not meant
    step_concentrations = np.full(n_clusters, math.inf) if math.isinf(drift) else drift * concentrations
    # Q of a Gaussian matrix spans a uniform plane
    plane = np.linalg.qr(rng.standard_normal((n_features, 2)))[0].T
    directions = np.empty((n_steps, n_clusters, n_features))
    directions[0] = draw_directions(n_clusters, n_features, min_angle, rng, who)
    for step in range(1, n_steps):
        turned = _turned(directions[step - 1], plane, rotation)
        for k in range(n_clusters):
            is_still = math.isinf(step_concentrations[k])
            directions[step, k] = turned[k] if is_still else vmf.sample(turned[k], step_concentrations[k], 1, rng)[0]
    X: list[FloatArray] = []
    labels: list[Labels] = []
    for step in range(n_steps):
        batch = draw_labels(n_samples, shares * present[step], noise, rng, who)
        labels.append(batch)
        X.append(vmf_rows(batch, directions[step], concentrations, rng, dtype))
    return X, labels, DriftingMixtureTruth(directions, present, concentrations, step_concentrations, plane, shares)


def _turned(directions: Float64Array, plane: Float64Array, angle: float) -> Float64Array:
    """Directions (K, D) turned by `angle` in the plane (2, D); what is orthogonal to the plane stays."""
    if angle == 0.0:
        return directions
    turn = np.array([[math.cos(angle) - 1.0, math.sin(angle)], [-math.sin(angle), math.cos(angle) - 1.0]])
    turned: Float64Array = directions + directions @ plane.T @ turn @ plane
    turned /= np.linalg.norm(turned, axis=1, keepdims=True)  # rounding would add up over the steps
    return turned


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
