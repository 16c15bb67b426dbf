"""What one fit of the Bayesian vMF mixture is: its checked parameters, its start, and the chain that the loop steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armillary.distributions.component_factors import first_factors
from armillary.distributions.dirichlet import DirichletWeights, StickBreakingWeights, WeightLaw
from armillary.exceptions import ParameterError
from armillary.fitting.passes import Passes
from armillary.fitting.stopping import RelativeGain
from armillary.models import vmf_mixture as em
from armillary.models._mixture import check_n_components
from armillary.models._variational_parameters import (
    VariationalParameters,
    check_started,
    check_variational,
    initial_prior,
)
from armillary.models._variational_steps import merge_components, random_batches, sort_components, take_batch
from armillary.models._variational_vmf import (
    FactorForm,
    State,
    count_clusters,
    label_entropy,
    learn_priors,
    objective,
    run_start,
    score_rule,
    update_components,
    update_labels,
    update_weights,
)
from armillary.points import Points
from armillary.random import Stream
from armillary.validation import check_choice, check_flag, check_integer, check_number, check_positive

if TYPE_CHECKING:
    from armillary.models.bayesian_vmf_mixture import BayesianVonMisesFisherMixture

# Steps between rounds of merges, and between hyper-parameters learned from mini-batches.
_MERGE_EVERY = 5
LEARN_EVERY = 20


@dataclass(frozen=True, eq=False)
class Parameters(VariationalParameters):
    """Checked constructor parameters."""

    is_gibbs: bool
    is_joint: bool
    has_sticks: bool
    is_merging: bool
    batch_size: int | None
    total_rows: float | None
    learning_offset: float
    learning_decay: float
    n_samples: int
    n_burn_in: int
    thin: int

    @classmethod
    def check(cls, model: BayesianVonMisesFisherMixture, points: Points, n_started: int | None = None) -> Parameters:
        """The parameters of `model`, or an error that names the wrong one; a later batch has `n_started` components."""
        who = type(model).__name__
        if n_started is None:
            n_components = check_n_components(model.n_components, points, who)
        else:
            n_components = check_started(model.n_components, n_started, who)
        has_sticks = (
            check_choice(model.weight_prior, "weight_prior", who, ("dirichlet", "stick_breaking")) == "stick_breaking"
        )
        parameters = cls(
            **check_variational(model, n_components, points.n_features),
            is_gibbs=check_choice(model.inference, "inference", who, ("variational", "gibbs")) == "gibbs",
            is_joint=check_choice(model.factors, "factors", who, ("joint", "factorised")) == "joint",
            has_sticks=has_sticks,
            is_merging=has_sticks
            if isinstance(model.merge, str) and model.merge == "auto"
            else check_flag(model.merge, "merge", who, other="'auto', "),
            batch_size=None
            if model.batch_size is None
            else check_integer(
                model.batch_size,
                "batch_size",
                who,
                low=n_components,
                hint="A batch starts the components, so it has at least n_components rows.",
            ),
            total_rows=None
            if model.total_rows is None
            else check_positive(model.total_rows, "total_rows", who, is_finite=True),
            learning_offset=check_number(model.learning_offset, "learning_offset", who, low=1.0),
            learning_decay=check_number(model.learning_decay, "learning_decay", who, low=0.5, high=1.0),
            n_samples=check_integer(model.n_samples, "n_samples", who, low=1),
            n_burn_in=check_integer(model.n_burn_in, "n_burn_in", who, low=0),
            thin=check_integer(model.thin, "thin", who, low=1),
        )
        _refuse_combinations(parameters, who)
        return parameters

    @property
    def stopping(self) -> RelativeGain:
        """Twice in a row: a merge, or a round of batches, can come after a step that gained little."""
        return RelativeGain(self.tol, patience=_MERGE_EVERY if self.is_merging else 2)

    def form(self, stream: Stream, *index: int) -> FactorForm:
        """How components are found; `index` (restart, step) keys the draws of Metropolis steps."""
        return FactorForm(self.is_joint, self.make_law(stream, *index))

    def rate(self, step: int) -> float:
        """(t + tau)^-decay for the step of number t = 0, 1, ... (vmf_mixtures.md, 11)."""
        return float((step + self.learning_offset) ** -self.learning_decay)


def _refuse_combinations(parameters: Parameters, who: str) -> None:
    if not parameters.is_gibbs:
        return
    if parameters.has_sticks:
        raise ParameterError(
            f"`weight_prior` of {who} must be 'dirichlet' with inference='gibbs', which integrates such weights out; "
            "got 'stick_breaking'. Use inference='variational' for sticks."
        )
    if parameters.batch_size is not None:
        raise ParameterError(
            f"`batch_size` of {who} must be None with inference='gibbs', whose sweeps take every row; "
            f"got {parameters.batch_size}. Use inference='variational' for mini-batches."
        )


# ---------------------------------------------------------------------------------------------------------------- start


def initial_state(
    passes: Passes, parameters: Parameters, stream: Stream, restart: int, total: float | None = None
) -> State:
    """Responsibilities and the concentration of a tied EM run; all else follows. `total` rows are stood for."""
    start = run_start(passes, parameters.init, parameters.n_components, stream, restart)
    rule = em.score_rule(start)
    statistics, evidence = passes.soft_sums(rule)
    entropy = label_entropy(rule, statistics, evidence)
    if total is not None:
        scale = total / passes.points.total_weight
        statistics, entropy = statistics.scale(scale), scale * entropy
    prior = initial_prior(parameters, statistics.resultants.sum(axis=0), float(start.concentrations[0]))
    kind = StickBreakingWeights if parameters.has_sticks else DirichletWeights
    weights: WeightLaw = kind.prior(parameters.weight_concentration, parameters.n_components)
    state = State(
        statistics,
        entropy,
        weights.update(statistics.counts),
        first_factors(statistics.resultants, prior, start.concentrations),
        prior,
    )
    return update_components(state, parameters.form(stream, restart, 0))


# ------------------------------------------------------------------------------------------------------------ the chain


class Ascent:
    """Labels, weights, components, priors, over and over: the chain that the loop steps."""

    def __init__(self, passes: Passes, parameters: Parameters, stream: Stream, restart: int) -> None:
        self.trace: list[float] = []
        self._passes = passes
        self._parameters = parameters
        self._stream = stream
        self._restart = restart
        self._n_batches = 0
        self.state = self._start()

    @property
    def n_clusters(self) -> int:
        """Components that hold half a row."""
        return count_clusters(self.state.statistics.counts, self._passes.points)

    def step(self) -> tuple[float, bool]:
        """The objective is that of the state after the step."""
        step, parameters = len(self.trace) + 1, self._parameters
        form = parameters.form(self._stream, self._restart, step)
        if parameters.batch_size is not None:
            self._take_batches(step)
        state = sort_components(self.state) if parameters.has_sticks else self.state
        rule = score_rule(state)
        state = update_components(update_weights(update_labels(state, self._passes)), form)
        if parameters.is_learning:
            state = learn_priors(state, form)
        if parameters.is_merging and step % _MERGE_EVERY == 0:
            state = merge_components(state, self._passes, rule, form)
        self.state = state
        self.trace.append(objective(state))
        return self.trace[-1], False

    def _start(self) -> State:
        """With batches, the start too looks at one batch only."""
        size, points = self._parameters.batch_size, self._passes.points
        if size is None or size >= points.n_rows:
            return initial_state(self._passes, self._parameters, self._stream, self._restart)
        first = next(random_batches(points, size, self._stream, self._restart, 0))
        return initial_state(
            self._passes.over(first), self._parameters, self._stream, self._restart, points.total_weight
        )

    def _take_batches(self, step: int) -> None:
        parameters, points = self._parameters, self._passes.points
        assert parameters.batch_size is not None
        for batch in random_batches(points, parameters.batch_size, self._stream, self._restart, step):
            if batch.total_weight == 0.0:
                continue
            form = parameters.form(self._stream, self._restart, step, self._n_batches)
            self.state, _ = take_batch(
                self.state,
                self._passes.over(batch),
                form,
                total=points.total_weight,
                rate=parameters.rate(self._n_batches),
            )
            self._n_batches += 1
            if parameters.is_learning and self._n_batches % LEARN_EVERY == 0:
                self.state = learn_priors(self.state, form)
