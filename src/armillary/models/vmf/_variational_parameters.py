"""Parameters that models fitted by variational inference share: their checks, and what follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from armillary._typing import Float64Array
from armillary.distributions.concentration_laws import (
    LOG_NORMAL_BOUNDS,
    MakeLaw,
    grid_law,
    log_normal_law,
    metropolis_law,
)
from armillary.distributions.log_concentration import HIGHEST, LEAST_VARIANCE, LOWEST, MixturePrior
from armillary.draws import Stream
from armillary.exceptions import ParameterError
from armillary.fitting import initialization
from armillary.models.mixture import check_runs
from armillary.models.parameters import Given
from armillary.models.vmf import vmf_mixture as em
from armillary.sums.directional import DirectionalStatistics
from armillary.validation import check_choice, check_flag, check_integer, check_number, check_positive

MOST_VARIANCE = 100.0


@dataclass(frozen=True, eq=False)
class MixturePriors:
    """Checked constructor parameters: the priors and how they are learned, and the start."""

    n_components: int
    is_learning: bool  # of hyper-parameters
    weight_concentration: float
    mean_direction: Float64Array | None
    mean_concentration: float
    log_mean: float | None
    log_variance: float
    init: str | Float64Array


@dataclass(frozen=True, eq=False)
class VariationalParameters(MixturePriors):
    """And the law of concentrations and the runs."""

    law: str  # "grid", "monte_carlo" or "log_normal"
    log_normal_bound: str
    n_init: int
    max_iter: int
    tol: float

    def make_law(self, stream: Stream, *index: int) -> MakeLaw:
        """How q(kappa) is found; `index` (restart, step) keys the draws of Metropolis steps."""
        if self.law == "grid":
            return grid_law
        if self.law == "log_normal":
            return lambda target: log_normal_law(target, self.log_normal_bound)
        # one key for all the laws of a step: the draws of one update are those of the next
        return lambda target: metropolis_law(target, stream.generator("metropolis", *index))


def check_variational(
    given: Given,
    n_components: int,
    n_features: int,
    who: str,
    *,
    starts: tuple[str, ...] = em.STARTS,
    count_name: str = "n_components",
) -> dict[str, Any]:
    """The fields of `VariationalParameters` or an error that names the wrong parameter.

    `starts` are the words that `init` may be, and `count_name` is what its number of directions is called.
    """
    n_init, max_iter, tol = check_runs(given, who)
    laws = ("grid", "monte_carlo", "log_normal")
    return {
        "law": check_choice(given["concentration_posterior"], "concentration_posterior", who, laws),
        "log_normal_bound": check_choice(given["log_normal_bound"], "log_normal_bound", who, LOG_NORMAL_BOUNDS),
        **check_priors(given, n_components, n_features, who, starts=starts, count_name=count_name),
        "n_init": n_init,
        "max_iter": max_iter,
        "tol": tol,
    }


def check_priors(
    given: Given,
    n_components: int,
    n_features: int,
    who: str,
    *,
    starts: tuple[str, ...] = em.STARTS,
    count_name: str = "n_components",
) -> dict[str, Any]:
    """The fields of `MixturePriors`, likewise."""
    return {
        "n_components": n_components,
        "is_learning": check_flag(given["empirical_bayes"], "empirical_bayes", who),
        "weight_concentration": check_positive(
            given["weight_concentration_prior"], "weight_concentration_prior", who, is_finite=True
        ),
        "mean_direction": _check_direction(given["mean_direction_prior"], n_features, who),
        "mean_concentration": check_number(
            given["mean_concentration_prior"], "mean_concentration_prior", who, low=0.0, high=1e10
        ),
        "log_mean": check_log_mean(given["log_concentration_mean_prior"], "log_concentration_mean_prior", who),
        "log_variance": check_number(
            given["log_concentration_variance_prior"],
            "log_concentration_variance_prior",
            who,
            low=LEAST_VARIANCE,
            high=MOST_VARIANCE,
        ),
        "init": initialization.check_init(given["init"], (n_components, n_features), count_name, who, starts),
    }


def initial_prior(parameters: MixturePriors, resultant: Float64Array, concentration: float) -> MixturePrior:
    """The prior that was asked for; for what was not, the direction of all rows and the EM run's concentration."""
    direction = parameters.mean_direction
    if direction is None:
        first = np.zeros((1, len(resultant)))
        first[0, 0] = 1.0
        direction = DirectionalStatistics(np.zeros(1), resultant[None]).directions(otherwise=first)[0]
    log_mean = bounded_log(concentration) if parameters.log_mean is None else parameters.log_mean
    return MixturePrior(direction, parameters.mean_concentration, log_mean, parameters.log_variance)


def bounded_log(concentration: float) -> float:
    """Its logarithm, within the bounds of log concentrations."""
    return min(max(math.log(max(concentration, 1e-300)), LOWEST), HIGHEST)


def check_started(n_components: Any, n_started: int, who: str) -> int:
    """The number of components of a later batch: that of the first."""
    if check_integer(n_components, "n_components", who, low=1) == n_started:
        return n_started
    raise ParameterError(
        f"`n_components` of {who} must stay as it was in the first fit, {n_started}; got {n_components}. "
        "Make a new model, or call fit."
    )


def check_log_mean(value: Any, name: str, who: str) -> float | None:
    """The prior mean of log concentrations, or None."""
    if value is None:
        return None
    hint = "It is a logarithm; None takes that of the concentration of the start."
    return check_number(value, name, who, low=LOWEST, high=HIGHEST, hint=hint)


def _check_direction(value: Any, n_features: int, who: str) -> Float64Array | None:
    """A unit vector (D,), or None."""
    if value is None:
        return None
    rule = f"`mean_direction_prior` of {who} must be None or one direction, shape ({n_features},)"
    try:
        vector = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{rule}; got {value!r}. Give D numbers.") from None
    if vector.shape != (n_features,):
        raise ParameterError(f"{rule}; got shape {vector.shape}. Give one number for each column of X.")
    largest = float(np.abs(vector).max())
    if not (math.isfinite(largest) and largest > 0.0):
        raise ParameterError(f"{rule}; got one of norm {largest:g}. Give a vector with a direction.")
    scaled = vector / largest  # squares of large and small numbers would not be floats
    return scaled / float(np.linalg.norm(scaled))
