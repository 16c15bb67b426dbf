"""What one fit of the Bayesian vMF mixture is: its checked parameters, its start, and the chain that the loop steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armillary.distributions.component_factors import first_factors
from armillary.distributions.dirichlet import DirichletWeights, StickBreakingWeights, WeightLaw
from armillary.draws import Stream
from armillary.engines.contract import Passes
from armillary.exceptions import ParameterError
from armillary.fitting.stopping import RelativeGain
from armillary.models.mixture import check_n_components
from armillary.models.parameters import Given, RowShape
from armillary.models.vmf import vmf_mixture as em
from armillary.models.vmf._variational_parameters import (
    VariationalParameters,
    check_started,
    check_variational,
    initial_prior,
)
from armillary.models.vmf._variational_steps import merge_components, random_batches, sort_components, take_batch
from armillary.models.vmf._variational_vmf import (
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
from armillary.validation import check_choice, check_flag, check_integer, check_number, check_positive

if TYPE_CHECKING:
    pass

# Steps between rounds of merges, and between hyper-parameters learned from mini-batches.
_MERGE_EVERY = 5
LEARN_EVERY = 20


@dataclass(frozen=True, eq=False)
class Parameters(VariationalParameters):
    """Checked constructor parameters."""

    is_joint: bool
    has_sticks: bool
    is_merging: bool
    batch_size: int | None
    total_rows: float | None
    learning_offset: float
    learning_decay: float

    @classmethod
    def check(cls, given: Given, rows: RowShape, who: str, n_started: int | None = None) -> Parameters:
        """The parameters, or an error that names the wrong one; a later batch has `n_started` components."""
        if n_started is None:
            n_components = check_n_components(given["n_components"], rows, who)
        else:
            n_components = check_started(given["n_components"], n_started, who)
        _check_inference(given["inference"], who)
        has_sticks = (
            check_choice(given["weight_prior"], "weight_prior", who, ("dirichlet", "stick_breaking"))
            == "stick_breaking"
        )
        return cls(
            **check_variational(given, n_components, rows.n_features, who),
            is_joint=check_choice(given["factors"], "factors", who, ("joint", "factorised")) == "joint",
            has_sticks=has_sticks,
            is_merging=has_sticks
            if isinstance(given["merge"], str) and given["merge"] == "auto"
            else check_flag(given["merge"], "merge", who, other="'auto', "),
            batch_size=None
            if given["batch_size"] is None
            else check_integer(
                given["batch_size"],
                "batch_size",
                who,
                low=n_components,
                hint="A batch starts the components, so it has at least n_components rows.",
            ),
            total_rows=None
            if given["total_rows"] is None
            else check_positive(given["total_rows"], "total_rows", who, is_finite=True),
            learning_offset=check_number(given["learning_offset"], "learning_offset", who, low=1.0),
            learning_decay=check_number(given["learning_decay"], "learning_decay", who, low=0.5, high=1.0),
        )

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


def _check_inference(inference: Any, who: str) -> None:
    """Gibbs sampling has a class of its own: what it leaves and what it takes differ."""
    if isinstance(inference, str) and inference == "gibbs":
        raise ParameterError(
            f"`inference` of {who} must be 'variational'; got 'gibbs'. Gibbs sampling is a class of its own: "
            "GibbsVonMisesFisherMixture(n_components, n_draws=..., n_burn_in=...)."
        )
    check_choice(inference, "inference", who, ("variational",))


# ---------------------------------------------------------------------------------------------------------------- start


def initial_state(
    passes: Passes, parameters: Parameters, stream: Stream, restart: int, total: float | None = None
) -> State:
    """Responsibilities and the concentration of a tied EM run; all else follows. `total` rows are stood for."""
    start = run_start(passes, parameters.init, parameters.n_components, stream, restart)
    rule = em.score_rule(start)
    shared = passes.share(rule)
    statistics, evidence = shared.sums, shared.evidence
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
            over = self._passes.over(batch)
            if over.points.total_weight == 0.0:
                continue
            form = parameters.form(self._stream, self._restart, step, self._n_batches)
            self.state, _ = take_batch(
                self.state,
                over,
                form,
                total=points.total_weight,
                rate=parameters.rate(self._n_batches),
            )
            self._n_batches += 1
            if parameters.is_learning and self._n_batches % LEARN_EVERY == 0:
                self.state = learn_priors(self.state, form)
