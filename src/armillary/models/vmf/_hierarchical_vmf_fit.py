"""What one fit of the hierarchical vMF mixture is: its checked parameters, its start, each update, and the chain.

The leaves are a Bayesian mixture (`_variational_vmf.py`) in which the prior of each direction is what the tree says of
it. So a step is that of the flat mixture, with the inner nodes of the tree updated in between (vmf_mixtures.md, 8):

    labels, weights, leaves, inner nodes, and, with empirical Bayes, priors, weights, leaves

With `inference="messages"` the leaves have joint factors and the tree speaks by messages (8.2); concentrations of inner
nodes are then looked at every few steps only. With "factorised" every node has a q(mu) q(kappa) of its own and sees the
expectations of its neighbours (8.1). A tree of tops alone is the flat mixture, step for step.

All directions of a step lie in the span of the leaves' resultants and of what the tree said before. The state is in
coordinates of that span, at most one for each of those vectors, so that D columns are walked along only to share the
rows, to take the products of those vectors, and to make the leaves' directions of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from armillary._typing import Float64Array
from armillary.distributions import bessel
from armillary.distributions import direction_trees as trees
from armillary.distributions.component_factors import first_factors
from armillary.distributions.concentration_laws import LogLaw
from armillary.distributions.direction_spans import Span
from armillary.distributions.direction_trees import Tree, TreeLaws, TreeMessages
from armillary.distributions.dirichlet import DirichletWeights
from armillary.distributions.log_concentration import MixturePrior, natural_slope
from armillary.distributions.natural_vectors import natural_lengths
from armillary.draws import Stream
from armillary.engines.contract import Passes
from armillary.exceptions import InputError
from armillary.fitting.stopping import RelativeGain
from armillary.models.parameters import Given, RowShape
from armillary.models.vmf import _variational_vmf as v
from armillary.models.vmf import vmf_mixture as em
from armillary.models.vmf._hierarchical_start import top_down_directions
from armillary.models.vmf._variational_parameters import (
    MOST_VARIANCE,
    VariationalParameters,
    bounded_log,
    check_log_mean,
    check_variational,
    initial_prior,
)
from armillary.rules import AffineRule
from armillary.sums.directional import DirectionalStatistics
from armillary.validation import check_choice, check_number

if TYPE_CHECKING:
    pass

# Variances of log concentrations of inner nodes, of which there are few, are not let below this (vmf_mixtures.md, 8).
LEAST_INNER_VARIANCE = 0.01
# A prior of log concentrations is learned from this many of them; from fewer its variance would shrink to its floor.
_FEWEST_LOGS = 3
# Steps between looks at the inner nodes where they speak by messages: their concentrations move slowly, and one look
# costs as much as a step. A fit does not end before a look that changed nothing.
_INNER_EVERY = 10


@dataclass(frozen=True, eq=False)
class Parameters(VariationalParameters):
    """Checked constructor parameters."""

    tree: Tree
    is_messages: bool  # or factorised
    is_point: bool  # the root is the prior (mu_0, C_0), which may be learned
    is_shared: bool  # one prior of log concentrations for leaves and inner nodes
    inner_log_mean: float | None
    inner_log_variance: float

    @classmethod
    def check(cls, given: Given, rows: RowShape, who: str) -> Parameters:
        """The parameters, or an error that names the wrong one."""
        root = check_choice(given["root"], "root", who, trees.ROOTS)
        if given["parents"] is None:
            tree = Tree.balanced(given["height"], given["branching"], root, who)
        else:
            tree = Tree.of(given["parents"], who)
        n_leaves = len(tree.leaves)
        if n_leaves > rows.n_rows:
            raise InputError(
                f"The tree of {who} must not have more leaves than there are rows; got {n_leaves} leaves and "
                f"n_samples={rows.n_rows}. Lower height or branching, or give more rows."
            )
        inner = "inner_log_concentration"
        return cls(
            **check_variational(given, n_leaves, rows.n_features, who, starts=("top_down",), count_name="n_leaves"),
            tree=tree,
            is_messages=check_choice(given["inference"], "inference", who, ("messages", "factorised")) == "messages",
            is_point=root == "point",
            is_shared=check_choice(given["groups"], "groups", who, ("separate", "shared")) == "shared",
            inner_log_mean=check_log_mean(given["inner_log_concentration_mean_prior"], f"{inner}_mean_prior", who),
            inner_log_variance=check_number(
                given["inner_log_concentration_variance_prior"],
                f"{inner}_variance_prior",
                who,
                low=LEAST_INNER_VARIANCE,
                high=MOST_VARIANCE,
            ),
        )

    @property
    def stopping(self) -> RelativeGain:
        """Twice in a row; what messages estimate may fall as well as rise."""
        return (RelativeChange if self.is_messages else RelativeGain)(self.tol, patience=2)

    def form(self, stream: Stream, *index: int) -> v.FactorForm:
        """How leaves are found; `index` (restart, step) keys the draws of Metropolis steps."""
        return v.FactorForm(self.is_messages, self.make_law(stream, *index))


@dataclass(frozen=True)
class RelativeChange(RelativeGain):
    """Stop when the objective, which is no bound, changes by at most `tol` of its size in a step."""

    def gain(self, before: float, now: float) -> float:
        """The change as a fraction of the objective; infinite at the first step."""
        return abs(super().gain(before, now))


# ---------------------------------------------------------------------------------------------------------------- state


@dataclass(frozen=True, eq=False)
class Heard:
    """What messages know of the nodes. J nodes, of which L are leaves and I inner."""

    concentrations: Float64Array  # (J,) E[kappa]
    made: TreeMessages  # the messages that the leaves were last found with
    spread: float = 0.0  # what the laws of inner concentrations add to the evidence at their expectations


@dataclass(frozen=True, eq=False)
class State:
    """What the next step needs. Leaves and nodes are in the coordinates of `span`, (r,) in place of (D,)."""

    leaves: v.State  # labels, weights and components; its prior has a vector for each leaf: what the tree said of it
    nodes: TreeLaws | Heard  # factorised: the laws of all nodes (J); messages: what they need to be sent
    inner_law: LogLaw  # q(log kappa) of the inner nodes (I)
    top: MixturePrior  # mu_0 and C_0 of the tops, m and s2 of the leaves; with all columns
    inner: MixturePrior  # m and s2 of the inner nodes
    span: Span  # of the resultants that the leaves were last found with
    rows: DirectionalStatistics  # counts (L,) and resultants (L, D) under the present responsibilities

    @property
    def first(self) -> Float64Array:
        """C_0 mu_0 (r,)."""
        if self.top.mean_concentration == 0.0:
            return np.zeros(self.span.coordinates.shape[1])
        return self.span.coordinates_of(np.asarray(self.top.mean_concentration * self.top.mean_direction))

    @property
    def expanded_leaves(self) -> v.State:
        """The leaves with all columns, right after they were found: what scores and predictions are made of."""
        prior, span = self.leaves.prior, self.span
        vectors = span.vectors(prior.mean_direction)
        lengths = natural_lengths(vectors)[:, None]
        directions = np.where(lengths > 0.0, vectors / np.where(lengths > 0.0, lengths, 1.0), self.top.mean_direction)
        return replace(
            self.leaves,
            statistics=self.rows,
            factors=replace(self.leaves.factors, resultants=span.resultants, mean_direction=directions),
            prior=replace(prior, mean_direction=directions, n_columns=None),
        )


class _Seen(DirectionalStatistics):
    """Sums of rows in the coordinates of a span that they need not lie in, made when asked for."""

    _rows: DirectionalStatistics
    _span: Span

    def __init__(self, rows: DirectionalStatistics, span: Span) -> None:
        vars(self).update(counts=rows.counts, _rows=rows, _span=span)  # a frozen value

    @cached_property
    def resultants(self) -> Float64Array:
        """(L, r): their products with all vectors of the span are right."""
        return self._span.coordinates_of(self._rows.resultants)


_NO_LAW = LogLaw(np.zeros((1, 0)), np.zeros((1, 0)), np.zeros(0), np.zeros(0), is_followed=True)


# ---------------------------------------------------------------------------------------------------------------- start


def initial_state(passes: Passes, parameters: Parameters, stream: Stream, restart: int) -> State:
    """Top-down k-means, tied EM at the leaves, and inner nodes from the bottom up (vmf_mixtures.md, 8.3)."""
    tree = parameters.tree
    init = parameters.init
    if isinstance(init, str):
        init = top_down_directions(passes, tree, stream, restart)
    start = v.run_start(passes, init, len(tree.leaves), stream, restart)
    rule = em.score_rule(start)
    shared = passes.share(rule)
    statistics, evidence = shared.sums, shared.evidence
    top = initial_prior(parameters, statistics.resultants.sum(axis=0), float(start.concentrations[0]))
    span = Span.of(statistics.resultants, top.mean_direction)
    # nobody above a leaf has said anything yet, except what the tops have from the beginning
    is_top = (tree.parents[tree.leaves] < 0)[:, None]
    prior = _leaf_prior(np.where(is_top, top.mean_concentration * span.other_coordinates, 0.0), top)
    weights = DirichletWeights.prior(parameters.weight_concentration, len(tree.leaves)).update(statistics.counts)
    leaves = v.State(
        DirectionalStatistics(statistics.counts, span.coordinates),
        v.label_entropy(rule, statistics, evidence),
        weights,
        first_factors(span.coordinates, prior, start.concentrations),
        prior,
    )
    leaves = v.update_components(leaves, parameters.form(stream, restart, 0))
    laws = trees.first_laws(tree, *_leaf_laws(leaves), top.dimension)
    top, inner = _first_priors(parameters, top, laws)
    state = State(leaves, laws, _NO_LAW, top, inner, span, statistics)
    if parameters.is_messages:
        state = replace(state, nodes=_send(state, tree, laws.concentrations))
    return update_inner(state, parameters, parameters.form(stream, restart, 0))


def _first_priors(parameters: Parameters, top: MixturePrior, laws: TreeLaws) -> tuple[MixturePrior, MixturePrior]:
    """Those of leaves and of inner nodes, each where its concentrations start; or one for all."""
    kappa = laws.concentrations
    if parameters.is_shared:
        if parameters.log_mean is None:
            top = replace(top, log_mean=float(np.mean([bounded_log(float(one)) for one in kappa])))
        return top, top
    log_mean = parameters.inner_log_mean
    if log_mean is None:
        started = [bounded_log(float(one)) for one in kappa[parameters.tree.inner]]
        log_mean = float(np.mean(started)) if started else top.log_mean
    return top, replace(top, log_mean=log_mean, log_variance=parameters.inner_log_variance)


# -------------------------------------------------------------------------------------------------------------- updates


def update_labels(state: State, passes: Passes) -> State:
    """q(z): one pass over the rows."""
    leaves, factors = state.leaves, state.leaves.factors
    own, towards = factors.natural_coefficients[:, 0], factors.natural_coefficients[:, 1:]
    vectors = state.span.vectors(towards * factors.mean_direction, own)
    rule = AffineRule(vectors, leaves.weights.expected_log() - factors.log_h)
    shared = passes.share(rule)
    rows, evidence = shared.sums, shared.evidence
    entropy = v.label_entropy(rule, rows, evidence)
    return replace(state, leaves=replace(leaves, statistics=_Seen(rows, state.span), label_entropy=entropy), rows=rows)


def update_weights(state: State) -> State:
    """q(pi)."""
    return replace(state, leaves=v.update_weights(state.leaves))


def update_leaves(state: State, parameters: Parameters, form: v.FactorForm, *, is_heard: bool = False) -> State:
    """q(mu, kappa) of the leaves, given what the tree says of each: anew, or where it `is_heard` what it said last."""
    tree = parameters.tree
    state = _spanned(state, tree)
    nodes = state.nodes
    if isinstance(nodes, Heard) and is_heard:
        prior = replace(state.leaves.prior, log_mean=state.top.log_mean, log_variance=state.top.log_variance)
        leaves = replace(state.leaves, prior=prior)
    elif isinstance(nodes, Heard):
        nodes = _send(state, tree, nodes.concentrations)
        leaves = replace(state.leaves, prior=_heard_prior(tree, nodes.made, state.first, state.top))
    else:
        pulls = trees.pulls(tree, nodes, state.first, tree.leaves)
        leaves = replace(state.leaves, prior=_leaf_prior(pulls, state.top))
    leaves = v.update_components(leaves, form)
    if isinstance(nodes, Heard):
        kappa = nodes.concentrations.copy()
        kappa[tree.leaves] = leaves.factors.concentrations
        nodes = replace(nodes, concentrations=kappa)
    else:
        nodes = trees.with_leaves(tree, nodes, *_leaf_laws(leaves))
    return replace(state, leaves=leaves, nodes=nodes)


def update_inner(state: State, parameters: Parameters, form: v.FactorForm) -> State:
    """Directions and concentrations of the inner nodes, given the leaves."""
    tree, nodes = parameters.tree, state.nodes
    if not len(tree.inner):
        return state
    if isinstance(nodes, TreeLaws):
        laws = trees.inner_sweep(tree, nodes, state.first)
        laws, law = trees.inner_concentrations(tree, laws, state.inner, form.make_law)
        return replace(state, nodes=laws, inner_law=law)
    target = trees.inner_target(tree, _send(state, tree, nodes.concentrations).made, state.inner)
    law = form.make_law(target)
    places, weights = law.thinned()
    spread = (weights * target.value(places)).sum(axis=0) + law.entropies - target.gain(law.concentrations)
    kappa = nodes.concentrations.copy()
    kappa[tree.inner] = law.concentrations
    return replace(state, nodes=replace(nodes, concentrations=kappa, spread=float(spread.sum())), inner_law=law)


def inner_means(state: State, tree: Tree) -> Float64Array:
    """E[mu] of the inner nodes (I, D)."""
    return state.span.vectors(_means(state, tree.inner))


def _spanned(state: State, tree: Tree) -> State:
    """The same state in coordinates of the present resultants; what leaves were is not kept, they are found anew."""
    if state.span.resultants is state.rows.resultants:
        return state
    others = np.empty((0, state.top.dimension))
    if state.top.mean_concentration > 0.0:
        others = state.top.mean_direction[None]
    nodes = state.nodes
    if isinstance(nodes, TreeLaws):
        others = np.concatenate([state.span.vectors(nodes.means[tree.inner]), others])
    span = Span.of(state.rows.resultants, others)
    if isinstance(nodes, TreeLaws):
        means = np.zeros((len(tree), span.coordinates.shape[1]))
        means[tree.inner] = span.other_coordinates[: len(tree.inner)]
        nodes = replace(nodes, means=means)
    statistics = DirectionalStatistics(state.rows.counts, span.coordinates)
    return replace(state, leaves=replace(state.leaves, statistics=statistics), nodes=nodes, span=span)


def _send(state: State, tree: Tree, concentrations: Float64Array) -> Heard:
    """The messages under these concentrations (J,)."""
    made = trees.messages(tree, state.span.coordinates, concentrations, state.first, state.top.dimension)
    return Heard(concentrations, made, state.nodes.spread if isinstance(state.nodes, Heard) else 0.0)


def _heard_prior(tree: Tree, made: TreeMessages, first: Float64Array, top: MixturePrior) -> MixturePrior:
    """What messages say of the leaves: mu_0 and C_0 to tops, to others what their parent believes without them."""
    is_top = (tree.parents[tree.leaves] < 0)[:, None]
    return _leaf_prior(np.where(is_top, first, made.down[tree.leaves]), top)


def _means(state: State, nodes: trees.Nodes) -> Float64Array:
    """E[mu] (n, r) of some nodes, of messages at the expected concentrations and of inner nodes only."""
    if isinstance(state.nodes, TreeLaws):
        return state.nodes.means[nodes]
    natural = state.nodes.made.natural_vectors[nodes]
    return np.asarray(natural_slope(state.top.dimension, natural_lengths(natural))[:, None] * natural)


def _leaf_prior(vectors: Float64Array, top: MixturePrior) -> MixturePrior:
    return MixturePrior.of_vectors(vectors, top.log_mean, top.log_variance, top.dimension)


def _leaf_laws(leaves: v.State) -> tuple[Float64Array, Float64Array, Float64Array, Float64Array]:
    """What the tree needs of the leaves."""
    factors = leaves.factors
    return factors.mean_directions, factors.direction_entropies, factors.concentrations, factors.log_h


# --------------------------------------------------------------------------------------------------------------- priors


def learn_priors(state: State, parameters: Parameters) -> State:
    """Every hyper-parameter, for the present laws (vmf_mixtures.md, 5.5, 8)."""
    return learn_weight_concentration(learn_first(learn_logs(state, parameters), parameters))


def learn_weight_concentration(state: State) -> State:
    """alpha."""
    return replace(state, leaves=v.learn_weight_concentration(state.leaves))


def learn_first(state: State, parameters: Parameters) -> State:
    """mu_0 and C_0, where the root is that pair; for one top they have no fixed point and stay."""
    tops = parameters.tree.tops
    if not parameters.is_point or len(tops) == 1:
        return state
    return replace(state, top=state.top.fitted_to_directions(_sum_of_tops(state, parameters.tree), len(tops)))


def _sum_of_tops(state: State, tree: Tree) -> Float64Array:
    """sum E[mu] (D,) over the tops."""
    is_inner = tree.n_children[tree.tops] > 0
    leaves = state.leaves.factors.select(np.searchsorted(tree.leaves, tree.tops[~is_inner]))
    total = leaves.mean_direction_sum() + _means(state, tree.tops[is_inner]).sum(axis=0)
    return state.span.vectors(total[None])[0]


def learn_logs(state: State, parameters: Parameters) -> State:
    """m and s2 of leaves and of inner nodes, or of all."""
    factors, law = state.leaves.factors, state.inner_law
    if parameters.is_shared:
        means = np.concatenate([factors.log_means, law.log_means])
        variances = np.concatenate([factors.log_variances, law.log_variances])
        top = _fitted_to_logs(state.top, means, variances)
        return replace(state, top=top, inner=top)
    inner = _fitted_to_logs(state.inner, law.log_means, law.log_variances)
    inner = replace(inner, log_variance=max(inner.log_variance, LEAST_INNER_VARIANCE))
    return replace(state, top=_fitted_to_logs(state.top, factors.log_means, factors.log_variances), inner=inner)


def _fitted_to_logs(prior: MixturePrior, means: Float64Array, variances: Float64Array) -> MixturePrior:
    return prior if len(means) < _FEWEST_LOGS else prior.fitted_to_logs(means, variances)


# ------------------------------------------------------------------------------------------------------------ the bound


def objective(state: State, tree: Tree) -> float:
    """Over the uniform law: the evidence lower bound, or the log evidence that messages estimate."""
    if isinstance(state.nodes, TreeLaws):
        return _lower_bound(state, state.nodes, tree)
    return _evidence_estimate(state, state.nodes, tree)


def _lower_bound(state: State, laws: TreeLaws, tree: Tree) -> float:
    """What must not decrease, after whichever update of the factorised form (vmf_mixtures.md, 5.2, 8.1)."""
    order = 0.5 * state.top.dimension - 1.0
    pulls = trees.pulls(tree, laws, state.first, tree.leaves)
    flat = v.objective(replace(state.leaves, prior=_leaf_prior(pulls, state.top)))
    # that of a flat mixture has log H of the vectors for the normaliser of a leaf's direction
    excess = np.asarray(bessel.log_h(order, natural_lengths(pulls)))
    excess -= trees.link_normalisers(tree, laws, state.first)[tree.leaves]
    if not len(tree.inner):
        return flat + float(excess.sum())
    directions = trees.direction_bounds(tree, laws, state.first)[tree.inner]
    concentrations = trees.concentration_bounds(state.inner_law, state.inner)
    return flat + float(excess.sum() + directions.sum() + concentrations.sum())


def _evidence_estimate(state: State, heard: Heard, tree: Tree) -> float:
    """Log evidence by messages, in which the concentration of each node has its law.

    That of all rows at the expected concentrations, with the part of each node replaced by one in which its own
    concentration has its law. Exact given the labels for a tree of tops alone.
    """
    order = 0.5 * state.top.dimension - 1.0
    made, leaves = heard.made, tree.leaves
    at_points = np.asarray(bessel.log_h(order, natural_lengths(made.natural_vectors[leaves])))
    at_points -= np.asarray(bessel.log_h(order, natural_lengths(made.down[leaves])))
    known = v.objective(state.leaves) + trees.message_evidence(tree, made)
    return known - float(at_points.sum()) + heard.spread


# ------------------------------------------------------------------------------------------------------------ the chain


class Ascent:
    """Labels, weights, leaves, inner nodes, priors, over and over: the chain that the loop steps."""

    def __init__(self, passes: Passes, parameters: Parameters, stream: Stream, restart: int) -> None:
        self.trace: list[float] = []
        self._passes = passes
        self._parameters = parameters
        self._stream = stream
        self._restart = restart
        self.state = initial_state(passes, parameters, stream, restart)

    @property
    def n_clusters(self) -> int:
        """Leaves that hold half a row."""
        return v.count_clusters(self.state.leaves.statistics.counts, self._passes.points)

    def step(self) -> tuple[float, bool]:
        """The objective is that of the state after the step."""
        parameters, step = self._parameters, len(self.trace)
        form = parameters.form(self._stream, self._restart, step + 1)
        state = update_weights(update_labels(self.state, self._passes))
        state = update_leaves(state, parameters, form)
        looks_inside = not parameters.is_messages or step % _INNER_EVERY == 0 or self._is_slow()
        if looks_inside:
            state = update_inner(state, parameters, form)
        if parameters.is_learning:
            state = update_weights(learn_priors(state, parameters))
            # without news from inside or above, the tree says to the leaves what it said
            state = update_leaves(state, parameters, form, is_heard=not (looks_inside or parameters.is_point))
        self.state = state
        self.trace.append(objective(state, parameters.tree))
        return self.trace[-1], False

    def _is_slow(self) -> bool:
        """Whether the last step would let the fit end."""
        stopping = self._parameters.stopping
        return len(self.trace) > 1 and stopping.is_met(stopping.gain(*self.trace[-2:]))
