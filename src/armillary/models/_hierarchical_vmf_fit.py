"""What one fit of the hierarchical vMF mixture is: its checked parameters, its start, each update, and the chain.

The leaves are a Bayesian mixture (`_variational_vmf.py`) in which the prior of each direction is what the tree says of
it. So a step is that of the flat mixture, with the inner nodes of the tree updated in between (vmf_mixtures.md, 8):

    labels, weights, leaves, inner nodes, and, with empirical Bayes, priors, weights, leaves

With `inference="messages"` the leaves have joint factors and the tree speaks by messages (8.2), in the few coordinates
of a `Span`; concentrations of inner nodes are then looked at every few steps only. With "factorised" every node has a
q(mu) q(kappa) of its own and sees the expectations of its neighbours (8.1). A tree of tops alone is the flat mixture,
step for step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary._typing import Float64Array
from armillary.distributions import bessel, vmf
from armillary.distributions import direction_trees as trees
from armillary.distributions.component_factors import first_factors
from armillary.distributions.concentration_laws import LogLaw
from armillary.distributions.direction_chains import natural_lengths
from armillary.distributions.direction_trees import Span, Tree, TreeLaws, TreeMessages
from armillary.distributions.dirichlet import DirichletWeights
from armillary.distributions.log_concentration import MixturePrior, natural_slope
from armillary.exceptions import InputError
from armillary.fitting.events import Emitter
from armillary.fitting.loop import best_run
from armillary.fitting.passes import Passes
from armillary.fitting.stopping import RelativeGain
from armillary.models import _variational_vmf as v
from armillary.models import spherical_kmeans as kmeans
from armillary.models import vmf_mixture as em
from armillary.models._variational_parameters import (
    MOST_VARIANCE,
    VariationalParameters,
    bounded_log,
    check_log_mean,
    check_variational,
    initial_prior,
)
from armillary.points import Points
from armillary.random import Stream
from armillary.validation import check_choice, check_number

if TYPE_CHECKING:
    from armillary.models.hierarchical_vmf_mixture import HierarchicalVonMisesFisherMixture

# Variances of log concentrations of inner nodes, of which there are few, are not let below this (vmf_mixtures.md, 8).
LEAST_INNER_VARIANCE = 0.01
# A prior of log concentrations is learned from this many of them; from fewer its variance would shrink to its floor.
_FEWEST_LOGS = 3
# Steps between looks at the inner nodes where they speak by messages: their concentrations move slowly, and one look
# costs as much as a step. A fit does not end before a look that changed nothing.
_INNER_EVERY = 10
# The k-means runs that a start is made of only have to find where groups are. What is split wrongly at the top stays
# so: of ten sampled trees one run finds eight, the best of four all (tests/laws).
_START_RUNS = 4
_START_STEPS = 50
_START_GAIN = 1e-4
# Mean cosine of directions that are drawn around their parent's for want of rows.
_JITTER_COSINE = 0.99


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
    def check(cls, model: HierarchicalVonMisesFisherMixture, points: Points) -> Parameters:
        """The parameters of `model`, or an error that names the wrong one."""
        who = type(model).__name__
        root = check_choice(model.root, "root", who, trees.ROOTS)
        if model.parents is None:
            tree = Tree.balanced(model.height, model.branching, root, who)
        else:
            tree = Tree.of(model.parents, who)
        n_leaves = len(tree.leaves)
        if n_leaves > points.n_rows:
            raise InputError(
                f"The tree of {who} must not have more leaves than there are rows; got {n_leaves} leaves and "
                f"n_samples={points.n_rows}. Lower height or branching, or give more rows."
            )
        inner = "inner_log_concentration"
        return cls(
            **check_variational(model, n_leaves, points.n_features, starts=("top_down",), count_name="n_leaves"),
            tree=tree,
            is_messages=check_choice(model.inference, "inference", who, ("messages", "factorised")) == "messages",
            is_point=root == "point",
            is_shared=check_choice(model.groups, "groups", who, ("separate", "shared")) == "shared",
            inner_log_mean=check_log_mean(model.inner_log_concentration_mean_prior, f"{inner}_mean_prior", who),
            inner_log_variance=check_number(
                model.inner_log_concentration_variance_prior,
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
    span: Span  # of the present resultants
    made: TreeMessages  # in its coordinates: the messages that the leaves were last found with
    spread: float = 0.0  # what the laws of inner concentrations add to the evidence at their expectations


@dataclass(frozen=True, eq=False)
class State:
    """What the next step needs."""

    leaves: v.State  # labels, weights and components; its prior has a vector for each leaf: what the tree said of it
    nodes: TreeLaws | Heard  # factorised: the laws of all nodes (J); messages: what they need to be sent
    inner_law: LogLaw  # q(log kappa) of the inner nodes (I)
    top: MixturePrior  # mu_0 and C_0 of the tops, m and s2 of the leaves
    inner: MixturePrior  # m and s2 of the inner nodes

    @property
    def first(self) -> Float64Array:
        """C_0 mu_0 (D,)."""
        return np.asarray(self.top.mean_concentration * self.top.mean_direction)


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
    statistics, evidence = passes.soft_sums(rule)
    top = initial_prior(parameters, statistics.resultants.sum(axis=0), float(start.concentrations[0]))
    # nobody above a leaf has said anything yet, except what the tops have from the beginning
    is_top = (tree.parents[tree.leaves] < 0)[:, None]
    prior = _leaf_prior(np.where(is_top, top.mean_concentration * top.mean_direction, 0.0), top)
    weights = DirichletWeights.prior(parameters.weight_concentration, len(tree.leaves)).update(statistics.counts)
    leaves = v.State(
        statistics,
        v.label_entropy(rule, statistics, evidence),
        weights,
        first_factors(statistics.resultants, prior, start.concentrations),
        prior,
    )
    leaves = v.update_components(leaves, parameters.form(stream, restart, 0))
    laws = trees.first_laws(tree, *_leaf_laws(leaves))
    top, inner = _first_priors(parameters, top, laws)
    state = State(leaves, laws, _NO_LAW, top, inner)
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


def top_down_directions(passes: Passes, tree: Tree, stream: Stream, restart: int) -> Float64Array:
    """First directions (L, D) of the leaves: the rows of a node are dealt to its children by spherical k-means.

    Below a node that has no more rows than children, directions are drawn close to its own.
    """
    points = passes.points.counted()
    directions = np.zeros((len(tree), points.n_features))
    directions[tree.tops] = points.rows([0])  # for tops in want of rows
    open_groups: list[tuple[int, Points]] = [(-1, points)]
    while open_groups:
        node, own = open_groups.pop()
        children = tree.tops if node < 0 else tree.children(node)
        if not len(children):
            continue
        if own.n_rows <= len(children):
            below = _below(tree, children)
            draws = stream.generator("jitter", restart, node + 1)
            directions[below] = _jittered(directions[max(node, 0)], len(below), draws)
            continue
        found, parts = _split(passes.over(own), len(children), stream, restart, node + 1)
        directions[children] = found
        open_groups.extend(zip(children.tolist(), parts, strict=True))
    return directions[tree.leaves]


def _split(
    passes: Passes, n_children: int, stream: Stream, restart: int, index: int
) -> tuple[Float64Array, list[Points]]:
    """Directions (n_children, D) of groups of rows by spherical k-means, and their rows."""
    points = passes.points
    if n_children == 1:
        return passes.total().directions(otherwise=points.rows([0])), [points]
    parameters = kmeans.Parameters(
        n_clusters=n_children,
        init="k-means++",
        n_init=1,
        max_iter=_START_STEPS,
        tol=_START_GAIN,
        is_bounded=False,
        refills=True,
    )
    # the draws of a node are its own: those of another do not depend on the shape of the tree around it
    own = Stream(int(stream.generator("top_down", restart, index).integers(0, 2**63)))
    run = best_run(
        lambda number: kmeans.Lloyd(passes, kmeans.initial_state(passes, parameters, own, number), parameters),
        n_restarts=_START_RUNS,
        max_steps=_START_STEPS,
        stopping=RelativeGain(_START_GAIN),
        emitter=Emitter(points.who, (), n_rows=points.n_rows, n_restarts=_START_RUNS, max_steps=_START_STEPS),
    )
    chain: Any = run.chain
    labels = chain.assignment.labels
    return chain.state.directions, [points.take(np.flatnonzero(labels == child)) for child in range(n_children)]


def _below(tree: Tree, nodes: trees.Nodes) -> trees.Nodes:
    """These nodes and all their descendants."""
    is_below = np.zeros(len(tree), dtype=np.bool_)
    is_below[nodes] = True
    for node, parent in enumerate(tree.parents):
        is_below[node] |= parent >= 0 and is_below[parent]
    return np.flatnonzero(is_below)


def _jittered(direction: Float64Array, size: int, draws: np.random.Generator) -> Float64Array:
    """Directions (size, D) close to one."""
    kappa = float(bessel.concentration_from_resultant(len(direction), _JITTER_COSINE))
    return vmf.sample(direction, kappa, size, draws)


# -------------------------------------------------------------------------------------------------------------- updates


def update_labels(state: State, passes: Passes) -> State:
    """q(z): one pass over the rows."""
    return replace(state, leaves=v.update_labels(state.leaves, passes))


def update_weights(state: State) -> State:
    """q(pi)."""
    return replace(state, leaves=v.update_weights(state.leaves))


def update_leaves(state: State, parameters: Parameters, form: v.FactorForm, *, is_heard: bool = False) -> State:
    """q(mu, kappa) of the leaves, given what the tree says of each: anew, or where it `is_heard` what it said last."""
    tree, nodes = parameters.tree, state.nodes
    if isinstance(nodes, Heard) and is_heard:
        prior = replace(state.leaves.prior, log_mean=state.top.log_mean, log_variance=state.top.log_variance)
        leaves = replace(state.leaves, prior=prior)
    elif isinstance(nodes, Heard):
        nodes = _send(state, tree, nodes.concentrations)
        leaves = replace(state.leaves, prior=_heard_prior(tree, nodes, state.top))
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
    if isinstance(state.nodes, TreeLaws):
        return state.nodes.means[tree.inner]
    return _believed(state.nodes, tree.inner)


def _send(state: State, tree: Tree, concentrations: Float64Array) -> Heard:
    """The messages under these concentrations (J,)."""
    resultants, nodes = state.leaves.statistics.resultants, state.nodes
    if isinstance(nodes, Heard) and nodes.span.resultants is resultants:
        span = nodes.span  # a mu_0 that was learned since lies in it too
    else:
        span = Span.of(resultants, state.top.mean_direction)
    first = span.coordinates_of(state.first)
    made = trees.messages(tree, span.coordinates, concentrations, first, state.top.dimension)
    return Heard(concentrations, span, made, nodes.spread if isinstance(nodes, Heard) else 0.0)


def _heard_prior(tree: Tree, heard: Heard, top: MixturePrior) -> MixturePrior:
    """What messages say of the leaves: mu_0 and C_0 to tops, to others what their parent believes without them.

    The vectors of parents alone are made: siblings hear the same but for what they said, which has their resultant's
    direction.
    """
    made, span, leaves = heard.made, heard.span, tree.leaves
    is_top = tree.parents[leaves] < 0
    lengths = np.where(is_top, top.mean_concentration, natural_lengths(made.down[leaves]))
    parents, place = np.unique(tree.parents[leaves[~is_top]], return_inverse=True)
    said = natural_lengths(made.to_parent[leaves]) / np.where(span.lengths > 0.0, span.lengths, 1.0)
    directions = -said[:, None] * span.resultants
    directions[~is_top] += span.vectors(made.natural_vectors[parents])[place]
    sizes = natural_lengths(directions)
    directions /= np.where(sizes > 0.0, sizes, 1.0)[:, None]
    # a top has mu_0; and where nothing was said any direction will do
    directions[is_top | (sizes == 0.0)] = top.mean_direction
    return MixturePrior(directions, lengths, top.log_mean, top.log_variance)


def _believed(heard: Heard, nodes: trees.Nodes) -> Float64Array:
    """E[mu] (n, D) of some nodes at the expected concentrations."""
    natural = heard.made.natural_vectors[nodes]
    slopes = natural_slope(heard.made.dimension, natural_lengths(natural))
    return heard.span.vectors(slopes[:, None] * natural)


def _leaf_prior(vectors: Float64Array, top: MixturePrior) -> MixturePrior:
    return MixturePrior.of_vectors(vectors, top.log_mean, top.log_variance)


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
    if isinstance(state.nodes, TreeLaws):
        return np.asarray(state.nodes.means[tree.tops].sum(axis=0))
    is_inner = tree.n_children[tree.tops] > 0
    leaves = state.leaves.factors.select(np.searchsorted(tree.leaves, tree.tops[~is_inner]))
    return leaves.mean_direction_sum() + _believed(state.nodes, tree.tops[is_inner]).sum(axis=0)


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
    """Log evidence by messages: that of all rows at the expected concentrations, with the part of each node replaced by
    one in which its own concentration has its law. Exact given the labels for a tree of tops alone.
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
