"""One fit of the temporal mixture: checked parameters, the start, and the chain that the loop steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.distributions import bessel
from armillary.distributions import direction_chains as dc
from armillary.distributions.concentration_laws import point_law
from armillary.distributions.dirichlet import DirichletWeights
from armillary.distributions.log_concentration import ProjectedTarget
from armillary.draws import Stream
from armillary.exceptions import ParameterError
from armillary.fitting.slice_sums import StoredDirections, first_pass
from armillary.fitting.slices import SlicedPasses
from armillary.fitting.stopping import RelativeGain
from armillary.models.mixture import check_n_components
from armillary.models.parameters import Given, RowShape
from armillary.models.vmf import vmf_mixture as em
from armillary.models.vmf._temporal_vmf import (
    Kept,
    State,
    learn_drift,
    learn_priors,
    objective,
    update_components,
    update_labels,
    update_weights,
)
from armillary.models.vmf._variational_parameters import (
    VariationalParameters,
    check_started,
    check_variational,
    initial_prior,
)
from armillary.models.vmf._variational_vmf import count_clusters, entropy_from_scores, run_start
from armillary.validation import check_choice, check_number

if TYPE_CHECKING:
    pass

# Steps between searches for the drift by messages.
_DRIFT_EVERY = 10
# A drift that moved by less than this fraction has settled.
_DRIFT_STILL = 0.01


@dataclass(frozen=True, eq=False)
class Parameters(VariationalParameters):
    """Checked constructor parameters."""

    has_messages: bool
    drift: float | None  # C; None where it is learned
    has_slice_weights: bool
    forget: float

    @classmethod
    def check(cls, given: Given, rows: RowShape, who: str, n_started: int | None = None) -> Parameters:
        """The parameters, or an error that names the wrong one; a later batch has `n_started` components."""
        if n_started is None:
            n_components = check_n_components(given["n_components"], rows, who)
        else:
            n_components = check_started(given["n_components"], n_started, who)
        return cls(
            **check_variational(given, n_components, rows.n_features, who),
            has_messages=check_choice(given["inference"], "inference", who, ("messages", "factorised")) == "messages",
            drift=_check_drift(given["drift"], given["drift_unit"], rows.n_features, who),
            has_slice_weights=check_choice(given["weights"], "weights", who, ("shared", "per_slice")) == "per_slice",
            forget=check_number(given["forget"], "forget", who, low=0.0, high=1.0, hint="1 keeps all earlier slices."),
        )

    @property
    def stopping(self) -> RelativeGain:
        """Messages have no bound to gain: their chain says when it has settled."""
        return RelativeGain(-math.inf if self.has_messages else self.tol, patience=2)


def _check_drift(drift: Any, unit: Any, n_features: int, who: str) -> float | None:
    """C from an angle, a cosine or itself; None where it is to be learned."""
    unit = check_choice(unit, "drift_unit", who, ("angle", "cosine", "concentration"))
    if isinstance(drift, str) and drift == "learn":
        return None
    if isinstance(drift, str):
        raise ParameterError(f"`drift` of {who} must be 'learn' or a number; got {drift!r}. Give e.g. drift=0.1.")
    if unit == "concentration":
        if isinstance(drift, float | np.floating) and drift == math.inf:
            return math.inf
        return check_number(drift, "drift", who, low=0.0, hint="It is a concentration; inf is no drift.")
    if unit == "cosine":
        hint = "It is a mean cosine; 1 is no drift."
        gap = 1.0 - check_number(drift, "drift", who, low=0.0, high=1.0, hint=hint)
    else:
        hint = "It is an angle in radians: 0 is no drift, and pi/2 forgets all from slice to slice."
        # 1 - cos, with all its digits for small angles
        gap = 2.0 * math.sin(0.5 * check_number(drift, "drift", who, low=0.0, high=0.5 * math.pi, hint=hint)) ** 2
    if gap == 0.0:
        return math.inf
    return float(bessel.concentration_from_resultant(n_features, complement=min(gap, 1.0)))


def drift_angle(drift: float, n_features: int) -> float:
    """The angle whose cosine is the mean cosine A(C) of a step: 0 for no drift, pi/2 where all is forgotten."""
    if math.isinf(drift):
        return 0.0
    return 2.0 * math.asin(math.sqrt(0.5 * float(bessel.mean_resultant_complement(n_features, drift))))


def initial_state(passes: SlicedPasses, parameters: Parameters, stream: Stream, restart: int) -> State:
    """Responsibilities and the concentration of a tied EM run over all slices; all else follows."""
    start = run_start(passes.whole, parameters.init, parameters.n_components, stream, restart)
    rule = em.score_rule(start)
    shared = first_pass(passes, rule, is_smoothed=parameters.has_messages)
    counts = shared.sums.counts
    prior = initial_prior(parameters, passes.whole.sum(None, 1).resultants[0], float(start.concentrations[0]))
    n_components, alpha = parameters.n_components, parameters.weight_concentration
    shape = counts.shape
    nothing, n_features = np.zeros(n_components), passes.whole.points.n_features
    state = State(
        sums=shared.sums,
        label_entropy=entropy_from_scores(
            counts, np.broadcast_to(rule.offsets, shape), shared.products, shared.evidence
        ),
        weights=DirichletWeights.prior(alpha, shape if parameters.has_slice_weights else n_components),
        concentrations=point_law(ProjectedTarget(nothing, prior, nothing), start.concentrations),
        directions=StoredDirections(dc.ChainLaws(np.zeros((*shape, n_features)), np.zeros(shape), n_features)),
        projections=nothing,
        direction_gains=nothing,
        prior=prior,
        drift=math.inf if parameters.drift is None else parameters.drift,
        kept=Kept.nothing(n_components),
    )
    if parameters.drift is None:
        # by messages in either form: the factorised drift of directions not known yet would be 0
        state = learn_drift(state, has_messages=True)
    return update_components(
        update_weights(state), parameters.make_law(stream, restart, 0), has_messages=parameters.has_messages
    )


class Ascent:
    """Labels, weights, components, priors, over and over: the chain that the loop steps."""

    def __init__(
        self, passes: SlicedPasses, parameters: Parameters, stream: Stream, restart: int, start: State | None = None
    ) -> None:
        """From a tied EM run, or from `start`."""
        self.trace: list[float] = []
        self._passes = passes
        self._parameters = parameters
        self._stream = stream
        self._restart = restart
        self._n_still = 0
        self.state = initial_state(passes, parameters, stream, restart) if start is None else start

    @property
    def n_clusters(self) -> int:
        """Components that hold half a row."""
        return count_clusters(self.state.total_counts, self._passes.whole.points)

    def step(self) -> tuple[float, bool]:
        """The objective is that of the state after the step."""
        step, has_messages = len(self.trace) + 1, self._parameters.has_messages
        make_law = self._parameters.make_law(self._stream, self._restart, step)
        before = self.state.drift
        self.state = (self._smooth if has_messages else self._ascend)(make_law, step)
        self.trace.append(objective(self.state, has_messages=has_messages))
        return self.trace[-1], has_messages and self._has_settled(before)

    def _ascend(self, make_law: Any, step: int) -> State:
        """Every update raises the bound."""
        state = update_weights(update_labels(self.state, self._passes))
        state = update_components(state, make_law, has_messages=False)
        before = state
        if self._parameters.is_learning:
            state = learn_priors(state)
        if self._parameters.drift is None:
            state = learn_drift(state, has_messages=False)
        return state if state is before else update_components(update_weights(state), make_law, has_messages=False)

    def _smooth(self, make_law: Any, step: int) -> State:
        """Priors by the directions that rows were shared by, so that the state after the step is whole."""
        state = update_labels(self.state, self._passes)
        if self._parameters.is_learning:
            state = learn_priors(state)
        if self._parameters.drift is None and (self._n_still or step % _DRIFT_EVERY == 0):
            state = learn_drift(state, has_messages=True)
        return update_components(update_weights(state), make_law, has_messages=True)

    def _has_settled(self, drift: float) -> bool:
        """Few rows moved, and neither the drift nor the evidence did, twice in a row.

        The evidence is flat at its peak: rows that move by a share e change it by about e^2 of itself. It may fall, so
        that a small change of it is a sign, and no proof.
        """
        tol, now = self._parameters.tol, self.state.drift
        rise = self.trace[-1] - (self.trace[-2] if len(self.trace) > 1 else -math.inf)
        is_still = (
            (now == drift or abs(now - drift) <= _DRIFT_STILL * min(now, drift))
            and abs(rise) <= tol * abs(self.trace[-1])
            and self.state.sums.moved <= math.sqrt(tol) * self._passes.whole.points.total_weight
        )
        self._n_still = self._n_still + 1 if is_still else 0
        return self._n_still >= 2
