"""Laws of the hierarchical mixture: limits, a bound that no update lowers, exact evidence, invariances, recovery."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import digamma, gammaln, logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from armillary import BayesianVonMisesFisherMixture, HierarchicalVonMisesFisherMixture
from armillary.datasets import make_vmf_tree
from armillary.distributions import bessel
from armillary.distributions.concentration_laws import LogLaw, grid_law, log_partition
from armillary.distributions.log_concentration import MixturePrior
from armillary.draws import Stream
from armillary.engines.cpu import Passes
from armillary.kernels.rows import blocks as cpu
from armillary.models.vmf import _hierarchical_vmf_fit as fits
from armillary.models.vmf import _variational_vmf as v
from armillary.points import as_points
from armillary.workers import Workers

SLACK = {np.float64: 1e-9, np.float32: 1e-6}  # of the bound over the uniform law
UNEVEN = [-1, 0, 0, 1, 1, 1, 3, 3]  # leaves 2, 4, 5, 6 and 7, at depths 1, 2, 2, 3 and 3
FOREST = [-1, -1, -1, 0, 0, 1, 1, 1]  # a top that is a leaf, and two that are not
TREES = {"balanced": {"height": 2, "branching": 2}, "uneven": {"parents": UNEVEN}, "forest": {"parents": FOREST}}


def quiet(fitting, *given, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fitting(*given, **named)


def fit(rows, sample_weight=None, **parameters):
    """A model after a few steps; that it could go on is no matter here."""
    settings = {"random_state": 0, "n_threads": 1, "max_iter": 4, **parameters}
    return quiet(HierarchicalVonMisesFisherMixture(**settings).fit, rows, sample_weight=sample_weight)


def checked(rows, sample_weight=None, **parameters):
    """Passes over the rows and the checked parameters of a model."""
    points = as_points(rows, "test", sample_weight)
    model = HierarchicalVonMisesFisherMixture(**{"n_threads": 1, "inference": "factorised", **parameters})
    return Passes(points, cpu, Workers(1)), fits.Parameters.check(model.get_params(), points, "Model")


def tree_rows(seed, n_rows, dimension, cosine=0.7, **shape):
    """Rows of a tree whose children and rows have this mean cosine: with overlap in few dimensions."""
    kappa = bessel.concentration_from_resultant(dimension, cosine)
    shape = shape or TREES["balanced"]
    return make_vmf_tree(n_rows, dimension, concentration=kappa, inner_concentration=kappa, random_state=seed, **shape)[
        0
    ]


# ------------------------------------------------------------------------------------------------- the flat mixture


@pytest.mark.parametrize("learned", [False, True], ids=["fixed", "learned"])
@pytest.mark.parametrize(
    ("inference", "factors", "close"), [("factorised", "factorised", 1e-12), ("messages", "joint", 1e-8)]
)
def test_height_one_below_a_point_is_the_bayesian_mixture(inference, factors, close, learned):
    rows = tree_rows(0, 300, 12)
    shared = {"init": rows[:6], "empirical_bayes": learned, "max_iter": 15, "tol": 0.0, "n_threads": 1}
    if not learned:
        shared |= {"mean_concentration_prior": 3.0, "log_concentration_mean_prior": 2.0}
    tree = quiet(HierarchicalVonMisesFisherMixture(1, 6, root="point", inference=inference, **shared).fit, rows)
    flat = quiet(BayesianVonMisesFisherMixture(6, factors=factors, **shared).fit, rows)
    steps = min(tree.n_iter_, flat.n_iter_)  # the last bits decide when nothing is gained any more
    np.testing.assert_allclose(tree.lower_bounds_[:steps], flat.lower_bounds_[:steps], rtol=close)
    for name in (
        "means_",
        "concentrations_",
        "weights_",
        "mean_direction_",
        "mean_concentration_",
        "log_concentrations_",
    ):
        np.testing.assert_allclose(getattr(tree, name), getattr(flat, name), rtol=1e-8, atol=1e-8, err_msg=name)
    np.testing.assert_allclose(tree.score_samples(rows), flat.score_samples(rows), rtol=1e-8)
    np.testing.assert_allclose(tree.predict_proba(rows), flat.predict_proba(rows), atol=1e-8)
    np.testing.assert_array_equal(tree.labels_, flat.labels_)


def test_a_parent_that_nobody_hears_is_no_parent():
    # inner concentrations next to 0 leave the leaves on their own: a flat mixture with a uniform prior
    rows = tree_rows(1, 200, 6)
    shared = {"init": rows[:4], "empirical_bayes": False, "max_iter": 8, "n_threads": 1, "tol": 0.0}
    deaf = {"inner_log_concentration_mean_prior": -20.0, "inner_log_concentration_variance_prior": 0.01}
    flat = quiet(BayesianVonMisesFisherMixture(4, **shared).fit, rows)
    tree = quiet(HierarchicalVonMisesFisherMixture(2, 2, **deaf, **shared).fit, rows)
    assert tree.lower_bound_ == pytest.approx(flat.lower_bound_, rel=1e-7)
    np.testing.assert_allclose(tree.concentrations_, flat.concentrations_, rtol=1e-6)
    np.testing.assert_allclose(tree.means_, flat.means_, atol=1e-6)


# ------------------------------------------------------------------------------------------------------- the bound


def single_updates(passes, parameters, n_sweeps=3):
    """Every state that single updates lead through, with the name of the update."""
    stream = Stream(0)
    form = parameters.form(stream, 1, 1)
    state = fits.initial_state(passes, parameters, stream, 1)
    yield "start", state
    for _ in range(n_sweeps):
        state = fits.update_labels(state, passes)
        yield "z", state
        state = fits.update_weights(state)
        yield "pi", state
        state = fits.update_leaves(state, parameters, form)
        yield "leaves", state
        state = fits.update_inner(state, parameters, form)
        yield "inner nodes", state
        state = fits.learn_logs(state, parameters)
        yield "m, s2", state
        state = fits.learn_first(state, parameters)
        yield "mu_0, C_0", state
        state = fits.learn_weight_concentration(state)
        yield "alpha", state
        state = fits.update_leaves(fits.update_weights(state), parameters, form)
        yield "leaves again", state


def largest_fall(passes, parameters, **more):
    """The largest relative fall of the bound over all single updates, and the update that did it."""
    bounds = [
        (name, fits.objective(state, parameters.tree)) for name, state in single_updates(passes, parameters, **more)
    ]
    return max(((before - now) / abs(now), name) for (_, before), (name, now) in pairwise(bounds))


@pytest.mark.parametrize("groups", ["separate", "shared"])
@pytest.mark.parametrize("root", ["random", "point"])
@pytest.mark.parametrize("shape", TREES)
def test_no_single_update_lowers_the_bound(shape, root, groups):
    rows = tree_rows(2, 200, 10)
    fall, name = largest_fall(*checked(rows, root=root, groups=groups, **TREES[shape]))
    assert fall <= SLACK[np.float64], name


@pytest.mark.parametrize("dimension", [3, 400])
def test_nor_in_few_or_many_dimensions(dimension):
    fall, name = largest_fall(*checked(tree_rows(3, 150, dimension), height=2, branching=3))
    assert fall <= SLACK[np.float64], name


@pytest.mark.parametrize("bound", ["quadrature", "jensen"])
def test_nor_with_log_normal_laws(bound):
    form = {"concentration_posterior": "log_normal", "log_normal_bound": bound, **TREES["uneven"]}
    fall, name = largest_fall(*checked(tree_rows(4, 150, 20), **form), n_sweeps=2)
    assert fall <= SLACK[np.float64], name


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_nor_on_sparse_or_single_precision_rows_with_weights(dtype, is_sparse):
    rng = np.random.default_rng(5)
    rows = tree_rows(5, 300, 40)
    rows[rng.random(rows.shape) < 0.6] = 0.0
    rows[:, 0] += 0.1
    rows = rows.astype(dtype)
    given_rows = sp.csr_array(rows) if is_sparse else rows
    weights = rng.gamma(2.0, size=300)
    for shape in ("balanced", "uneven"):
        fall, name = largest_fall(*checked(given_rows, weights, root="point", **TREES[shape]))
        assert fall <= SLACK[dtype], name


@pytest.mark.parametrize("shape", TREES)
@pytest.mark.parametrize("root", ["random", "point"])
def test_the_bound_is_the_formula_written_out(shape, root):
    """vmf_mixtures.md, 5.2 and 8.1: data at the leaves, a link for each node, entropies, priors; after any update."""
    rows = tree_rows(6, 120, 5)
    passes, parameters = checked(rows, root=root, mean_concentration_prior=2.0, **TREES[shape])
    tree, order = parameters.tree, 1.5
    for name, state in single_updates(passes, parameters, n_sweeps=1):
        laws, leaves, law = state.nodes, state.leaves, state.inner_law
        factors, counts = leaves.factors, leaves.statistics.counts
        rho, alpha = leaves.weights.posterior, leaves.weights.concentration
        log_pi = digamma(rho) - digamma(rho.sum())
        n = len(rho)
        total = math.lgamma(n * alpha) - n * math.lgamma(alpha) + (alpha - 1.0) * log_pi.sum()
        total += gammaln(rho).sum() - gammaln(rho.sum()) - (rho - 1.0) @ log_pi
        total += counts @ log_pi + leaves.label_entropy
        total += np.vecdot(factors.natural_vectors, leaves.statistics.resultants).sum() - counts @ factors.log_h
        means = laws.means.copy()
        means[tree.leaves] = factors.mean_directions
        # the entropy of a vMF law from its mean: log H(g) - g A(g)
        lengths = np.linalg.norm(means, axis=1)
        gammas = np.asarray(bessel.concentration_from_resultant(5, np.minimum(lengths, 1.0 - 1e-15)))
        total += (np.asarray(bessel.log_h(order, gammas)) - gammas * lengths).sum()
        kappa, log_h = np.empty(len(tree)), np.empty(len(tree))
        kappa[tree.leaves], log_h[tree.leaves] = factors.concentrations, factors.log_h
        kappa[tree.inner], log_h[tree.inner] = law.concentrations, law.log_h
        for node, parent in enumerate(tree.parents):
            if parent < 0:
                c = state.top.mean_concentration
                total += c * state.top.mean_direction @ means[node] - float(bessel.log_h(order, c))
            else:
                total += kappa[parent] * means[parent] @ means[node] - log_h[parent]
        for prior, at, var, entropy in (
            (state.top, factors.log_means, factors.log_variances, factors.log_entropies),
            (state.inner, law.log_means, law.log_variances, law.entropies),
        ):
            spread = (var + (at - prior.log_mean) ** 2) / (2.0 * prior.log_variance)
            total += (entropy - 0.5 * math.log(2.0 * math.pi * prior.log_variance) - spread).sum()
        assert fits.objective(state, tree) == pytest.approx(total, rel=1e-9), name


# ------------------------------------------------------------------------------------------------ fewer coordinates


@pytest.mark.parametrize("case", ["wide", "narrow", "equal leaves", "an empty leaf", "nothing above"])
def test_messages_in_the_coordinates_of_a_span_are_the_messages(case):
    rng = np.random.default_rng(3)
    dimension = 3 if case == "narrow" else 40
    tree = fits.Tree.of(UNEVEN)
    resultants = rng.standard_normal((5, dimension)) * np.array([[1e4], [1.0], [30.0], [1e-6], [5.0]])
    direction = rng.standard_normal(dimension)
    direction /= np.linalg.norm(direction)
    if case == "equal leaves":
        resultants[1] = 0.3 * resultants[0]
        direction = resultants[0] / np.linalg.norm(resultants[0])
    if case == "an empty leaf":
        resultants[2] = 0.0
    first = (0.0 if case == "nothing above" else 7.0) * direction
    kappa = rng.uniform(20.0, 200.0, len(tree))
    span = fits.Span.of(resultants, direction)
    assert span.coordinates.shape[1] <= min(6, dimension)
    whole = fits.trees.messages(tree, resultants, kappa, first)
    few = fits.trees.messages(tree, span.coordinates, kappa, span.coordinates_of(first), dimension)
    for name in ("up", "to_parent", "down", "natural_vectors"):
        one, other = getattr(whole, name), span.vectors(getattr(few, name))
        scale = np.linalg.norm(one, axis=1, keepdims=True) + 1e-12
        np.testing.assert_allclose(other / scale, one / scale, atol=1e-7, err_msg=name)
    assert fits.trees.message_evidence(tree, few) == pytest.approx(fits.trees.message_evidence(tree, whole), rel=1e-10)
    top = MixturePrior(direction, float(np.linalg.norm(first)), 0.0, 1.0)
    prior = fits._heard_prior(tree, few, span.coordinates_of(first), top)
    vectors = span.vectors(prior.mean_concentration[:, None] * prior.mean_direction)
    scale = 1.0 + prior.mean_concentration[:, None]
    np.testing.assert_allclose(vectors / scale, whole.down[tree.leaves] / scale, atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(prior.mean_direction, axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("case", ["wide", "narrow", "equal vectors"])
def test_a_span_keeps_products_and_gives_vectors_back(case):
    rng = np.random.default_rng(4)
    resultants, others = rng.standard_normal((5, 40)), rng.standard_normal((3, 40))
    if case == "narrow":
        resultants, others = resultants[:, :6], others[:, :6]
    if case == "equal vectors":
        others[1] = -2.0 * resultants[2]
    span = fits.Span.of(resultants, others)
    assert span.coordinates.shape[1] == {"wide": 8, "narrow": 6, "equal vectors": 7}[case]
    given, made = (np.concatenate(pair) for pair in ((resultants, others), (span.coordinates, span.other_coordinates)))
    np.testing.assert_allclose(made @ made.T, given @ given.T, atol=1e-11)
    np.testing.assert_allclose(span.vectors(made), given, atol=1e-11)
    own = np.arange(5.0)
    np.testing.assert_allclose(
        span.vectors(span.coordinates[::-1], own), resultants[::-1] + own[:, None] * resultants, atol=1e-11
    )
    # a vector that does not lie there is seen by its projection: products with all that does are right
    outside = rng.standard_normal((2, resultants.shape[1]))
    np.testing.assert_allclose(span.coordinates_of(outside) @ made.T, outside @ given.T, atol=1e-11)


@pytest.mark.parametrize("inference", ["messages", "factorised"])
@pytest.mark.parametrize("root", ["random", "point"])
@pytest.mark.parametrize("shape", TREES)
def test_a_fit_in_few_coordinates_is_the_fit_in_all_columns(monkeypatch, shape, root, inference):
    rows = tree_rows(7, 150, 60)
    form = {"root": root, "inference": inference, "max_iter": 5, "tol": 0.0, **TREES[shape]}
    few = fit(rows, **form)

    def all_columns(resultants, others):
        others = np.atleast_2d(others)
        lengths = np.linalg.norm(np.concatenate([resultants, others]), axis=1)
        return fits.Span(resultants, others, lengths, resultants, others, None)

    monkeypatch.setattr(fits.Span, "of", all_columns)
    whole = fit(rows, **form)
    np.testing.assert_allclose(few.lower_bounds_, whole.lower_bounds_, rtol=1e-10)
    np.testing.assert_allclose(few.score_samples(rows), whole.score_samples(rows), rtol=1e-8)
    for name in ("means_", "inner_means_", "inner_concentrations_", "mean_direction_"):
        np.testing.assert_allclose(getattr(few, name), getattr(whole, name), rtol=1e-6, atol=1e-9, err_msg=name)


# ------------------------------------------------------------------------------------------------- exact evidence


def draw_around(means, kappa, rng):
    """One direction on S^2 around each of the means (n, 3), with a concentration each (n,)."""
    uniform = rng.random(len(means))
    cosine = 1.0 + np.log(uniform + (1.0 - uniform) * np.exp(-2.0 * kappa)) / kappa
    tangent = np.cross(means, rng.standard_normal(means.shape))
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    return cosine[:, None] * means + np.sqrt(np.maximum(1.0 - cosine**2, 0.0))[:, None] * tangent


def evidence_by_draws(rows, parents, leaf_prior, inner_prior, n_draws, rng):
    """log p(rows) over the uniform law and its standard error, by draws of all parameters from their priors."""
    parents = np.asarray(parents)
    is_leaf = ~np.isin(np.arange(len(parents)), parents)
    kappa = np.stack(
        [
            np.exp(m + math.sqrt(s2) * rng.standard_normal(n_draws))
            for m, s2 in (leaf_prior if leaf else inner_prior for leaf in is_leaf)
        ]
    )
    directions = np.empty((len(parents), n_draws, 3))
    for node, parent in enumerate(parents):
        above = np.tile([0.0, 0.0, 1.0], (n_draws, 1)) if parent < 0 else directions[parent]
        concentration = np.full(n_draws, 1e-9) if parent < 0 else kappa[parent]
        directions[node] = draw_around(above, concentration, rng)
    log_pi = np.log(rng.dirichlet(np.ones(is_leaf.sum()), n_draws)).T
    log_h = np.log(np.sinh(kappa[is_leaf]) / kappa[is_leaf])  # D = 3
    cosines = np.einsum("lnd,id->iln", directions[is_leaf], rows)
    likelihood = logsumexp(log_pi + kappa[is_leaf] * cosines - log_h, axis=1).sum(axis=0)
    peak = likelihood.max()
    values = np.exp(likelihood - peak)
    return peak + math.log(values.mean()), values.std() / values.mean() / math.sqrt(n_draws)


def test_bound_below_and_messages_near_the_evidence_of_all_parameters():
    """Five rows on S^2 below an uneven tree: any normaliser left out at leaf, inner node or root is above it."""
    parents = [-1, 0, 0, 1, 1]
    leaf_prior, inner_prior = (math.log(20.0), 0.2), (math.log(8.0), 0.2)
    rng = np.random.default_rng(7)
    rows = make_vmf_tree(5, 3, parents=parents, concentration=20.0, inner_concentration=8.0, random_state=7)[0]
    exact, error = evidence_by_draws(rows, parents, leaf_prior, inner_prior, 150_000, rng)
    assert error < 0.05
    fixed = {
        "parents": parents,
        "empirical_bayes": False,
        "log_concentration_mean_prior": leaf_prior[0],
        "log_concentration_variance_prior": leaf_prior[1],
        "inner_log_concentration_mean_prior": inner_prior[0],
        "inner_log_concentration_variance_prior": inner_prior[1],
        "max_iter": 60,
        "tol": 1e-4,
        "n_init": 2,
    }
    base = 5.0 * math.log(4.0 * math.pi)
    bound = fit(rows, inference="factorised", **fixed).lower_bound_ + base
    told = fit(rows, inference="messages", **fixed).lower_bound_ + base
    assert bound < exact + 5.0 * error
    # labels have a bound of their own in both: log 3! = 1.8 nats for the orders of leaves, and more where rows overlap
    assert exact - 6.0 < bound < told < exact + 5.0 * error


@pytest.mark.parametrize("parents", [[-1, 0], [-1, 0, 1], [-1, 0, 1, 2]])
def test_one_leaf_below_a_uniform_root_has_the_evidence_of_one_component(parents):
    """However long the way to it, the direction of the leaf is uniform: messages are exact, and say so."""
    rows = tree_rows(15, 20, 6)
    shared = {"empirical_bayes": False, "log_concentration_mean_prior": 2.0, "n_threads": 1}
    told = quiet(HierarchicalVonMisesFisherMixture(parents=parents, **shared).fit, rows)
    exact = quiet(BayesianVonMisesFisherMixture(1, **shared).fit, rows)
    assert told.lower_bound_ == pytest.approx(exact.lower_bound_, rel=1e-9)
    assert told.concentrations_ == pytest.approx(exact.concentrations_, rel=1e-9)
    # nobody says anything of the inner concentrations: they keep their prior
    assert told.inner_concentrations_ == pytest.approx(math.exp(told.inner_log_concentration_mean_ + 0.5), rel=1e-6)


def test_messages_integrate_over_inner_concentrations():
    """The estimate has log Z of an inner concentration where the point value has its gain (vmf_mixtures.md, 8.2)."""
    passes, parameters = checked(tree_rows(16, 60, 8), inference="messages", **TREES["uneven"])
    tree = parameters.tree
    state = list(single_updates(passes, parameters, n_sweeps=1))[-1][1]
    state = fits.update_inner(state, parameters, parameters.form(Stream(0), 1, 1))
    made = fits._send(state, tree, state.nodes.concentrations).made
    target = fits.trees.inner_target(tree, made, state.inner)  # what is said to a node does not depend on its own kappa
    expected = float((log_partition(target) - target.gain(grid_law(target).concentrations)).sum())
    state = fits.update_inner(state, parameters, parameters.form(Stream(0), 1, 1))
    assert state.nodes.spread == pytest.approx(expected, abs=1e-4)
    assert abs(expected) > 0.1
    without = replace(state, nodes=replace(state.nodes, spread=0.0))
    assert fits.objective(state, tree) - fits.objective(without, tree) == pytest.approx(state.nodes.spread)


@pytest.mark.parametrize("groups", ["separate", "shared"])
def test_inner_variances_have_a_floor_of_their_own(groups):
    passes, parameters = checked(tree_rows(17, 60, 8), height=2, branching=3, groups=groups)
    state = list(single_updates(passes, parameters, n_sweeps=1))[-1][1]
    nodes = np.full((1, 4), 3.0)
    alike = LogLaw(nodes, np.ones((1, 4)), np.zeros(4), np.zeros(4), is_followed=True)
    learned = fits.learn_logs(replace(state, inner_law=alike), parameters)
    if groups == "separate":
        assert (learned.inner.log_mean, learned.inner.log_variance) == (3.0, 0.01)
        assert learned.top.log_variance != 0.01
    else:
        assert learned.inner == learned.top
        assert learned.inner.log_mean == pytest.approx((12.0 + state.leaves.factors.log_means.sum()) / 13.0)


# ------------------------------------------------------------------------------------------------------- invariances

FORMS = [{"inference": "messages"}, {"inference": "factorised"}, {"root": "point"}]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_rotated_rows_have_rotated_trees(form):
    rows = tree_rows(8, 150, 6)
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    start = rows[:4]
    one = fit(rows, height=2, branching=2, init=start, **form)
    other = fit(rows @ rotation, height=2, branching=2, init=start @ rotation, **form)
    assert other.lower_bound_ == pytest.approx(one.lower_bound_, rel=1e-9)
    np.testing.assert_allclose(other.node_means_, one.node_means_ @ rotation, atol=1e-6)
    np.testing.assert_allclose(other.node_concentrations_, one.node_concentrations_, rtol=1e-6)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_weights_of_two_are_rows_twice(form):
    rows = tree_rows(9, 90, 5)
    weights = np.where(np.arange(90) % 3 == 0, 2.0, 1.0)
    start = rows[:4]
    weighted = fit(rows, weights, height=2, branching=2, init=start, **form)
    repeated = fit(np.repeat(rows, weights.astype(int), axis=0), height=2, branching=2, init=start, **form)
    assert weighted.lower_bound_ == pytest.approx(repeated.lower_bound_, rel=1e-9)
    np.testing.assert_allclose(weighted.node_means_, repeated.node_means_, atol=1e-7)
    np.testing.assert_allclose(weighted.node_concentrations_, repeated.node_concentrations_, rtol=1e-7)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_sparse_rows_are_dense_rows(form):
    rows = tree_rows(10, 200, 30)
    rows[np.abs(rows) < 0.1] = 0.0
    dense, sparse = (fit(kind(rows), height=2, branching=2, **form) for kind in (np.asarray, sp.csr_array))
    np.testing.assert_allclose(sparse.lower_bounds_, dense.lower_bounds_, rtol=1e-10)
    np.testing.assert_allclose(sparse.node_means_, dense.node_means_, atol=1e-8)
    np.testing.assert_array_equal(sparse.labels_, dense.labels_)


def test_rows_of_weight_nothing_are_no_rows():
    rows = tree_rows(11, 120, 6)
    weights = (np.arange(120) % 4 != 0).astype(np.float64)
    weighted = fit(rows, weights, height=2, branching=2)
    left_out = fit(rows[weights > 0.0], height=2, branching=2)
    np.testing.assert_allclose(weighted.node_means_, left_out.node_means_, atol=1e-7)


def test_threads_do_not_change_a_bit():
    rows = tree_rows(12, 5000, 20)
    one, two = (fit(rows, height=2, branching=2, n_threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one.node_means_, two.node_means_)
    np.testing.assert_array_equal(one.lower_bounds_, two.lower_bounds_)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_order_of_branches_does_not_matter(form):
    rows = tree_rows(13, 150, 8)
    start = rows[:5]
    one = fit(rows, parents=[-1, 0, 0, 1, 1, 2, 2, 2], init=start, **form)
    other = fit(rows, parents=[-1, 0, 0, 1, 1, 1, 2, 2], init=start[[2, 3, 4, 0, 1]], **form)
    assert other.lower_bound_ == pytest.approx(one.lower_bound_, rel=1e-9)
    np.testing.assert_allclose(other.means_, one.means_[[2, 3, 4, 0, 1]], atol=1e-6)
    np.testing.assert_allclose(other.inner_concentrations_, one.inner_concentrations_[[0, 2, 1]], rtol=1e-6)


# --------------------------------------------------------------------------------------------------------- recovery


def few_rows(seed, n_each=6, dimension=300, kappa=200.0, inner=1500.0):
    """Six rows at each of nine leaves, their true leaves, and many rows held out (vmf_mixtures.md, 8.1)."""
    X, labels, truth = make_vmf_tree(
        1500, dimension, 2, 3, concentration=kappa, inner_concentration=inner, random_state=seed
    )
    chosen = np.concatenate([np.flatnonzero(labels == leaf)[:n_each] for leaf in range(9)])
    held_out = np.setdiff1d(np.arange(len(X)), chosen)
    starts = np.stack([X[chosen][labels[chosen] == leaf].mean(axis=0) for leaf in range(9)])
    return X[chosen], X[held_out], starts, truth


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_inner_concentrations_come_back_and_the_tree_predicts_better_than_a_flat_mixture(seed):
    rows, held_out, starts, _ = few_rows(seed)
    shared = {"init": starts, "n_threads": 1, "tol": 1e-5}
    messages = quiet(HierarchicalVonMisesFisherMixture(2, 3, **shared).fit, rows)
    factorised = quiet(HierarchicalVonMisesFisherMixture(2, 3, inference="factorised", **shared).fit, rows)
    flat = quiet(BayesianVonMisesFisherMixture(9, **shared).fit, rows)
    ratio, low = (
        float(np.exp(np.mean(np.log(model.inner_concentrations_[1:] / 1500.0)))) for model in (messages, factorised)
    )
    assert 1.0 / 1.33 < ratio < 1.33
    assert low < 0.6
    # measured over ten seeds: 0.7 to 1.3 nats a row
    assert messages.score(held_out) > flat.score(held_out) + 0.4
    assert messages.score(held_out) > factorised.score(held_out)


def sampled_tree(seed):
    """Branches far apart, and leaves that can be told from each other."""
    return make_vmf_tree(
        1800, 30, 2, 3, concentration=120.0, inner_concentration=[5.0, 50.0, 50.0, 50.0], random_state=seed
    )


def test_a_sampled_tree_comes_back_from_its_rows_alone():
    X, labels, truth = sampled_tree(3)
    model = quiet(HierarchicalVonMisesFisherMixture(2, 3, random_state=0, tol=1e-5, n_threads=1).fit, X)
    assert adjusted_rand_score(labels, model.labels_) > 0.99
    assert adjusted_rand_score(truth.nodes_at(1)[labels], model.predict(X, level=1)) > 0.99
    # about 200 rows each: concentrations within five standard errors of the truth, kappa sqrt(2/(n (D-1)))
    assert np.all(np.abs(model.concentrations_ / 120.0 - 1.0) < 5.0 * math.sqrt(2.0 / (170.0 * 29.0)))
    # leaves in the order of the truth: directions are off by sqrt((D-1)/(n kappa)) radians
    order = [int(np.bincount(model.labels_[labels == leaf]).argmax()) for leaf in range(9)]
    cosines = np.vecdot(model.means_[order], truth.directions[truth.leaves])
    assert cosines.min() > math.cos(1.7 * math.sqrt(29.0 / (200.0 * 120.0)))
    # three children of three nodes have 3 x 2 x 29 squared deviations between them
    ratio = float(np.exp(np.log(model.inner_concentrations_[1:] / 50.0).mean()))
    assert abs(math.log(ratio)) < 5.0 * math.sqrt(2.0 / 174.0)


@pytest.mark.slow
def test_sampled_trees_come_back_again_and_again():
    """Ten of ten, with one run each (measured); the geometric mean of inner concentrations is 0.99 of the truth."""
    ratios = []
    for seed in range(10):
        X, labels, truth = sampled_tree(seed)
        model = quiet(HierarchicalVonMisesFisherMixture(2, 3, random_state=0, tol=1e-5, n_threads=1).fit, X)
        is_found = adjusted_rand_score(truth.nodes_at(1)[labels], model.predict(X, level=1)) > 0.99
        assert adjusted_rand_score(labels, model.labels_) > 0.99, seed
        assert is_found, seed
        ratios.append(np.log(model.inner_concentrations_[1:] / 50.0).mean())
    assert abs(np.mean(ratios)) < 5.0 * math.sqrt(2.0 / 1740.0)


@pytest.mark.parametrize("nodes", ["top", "inner", "leaf"])
def test_a_normaliser_left_out_anywhere_is_seen(monkeypatch, nodes):
    """What the formula written out is there for."""
    rows = tree_rows(6, 120, 5)
    passes, parameters = checked(rows, root="point", mean_concentration_prior=2.0, **TREES["uneven"])
    tree = parameters.tree
    state = list(single_updates(passes, parameters, n_sweeps=1))[-1][1]
    right = fits.objective(state, tree)
    is_hit = {"top": tree.parents < 0, "inner": tree.n_children > 0, "leaf": tree.n_children == 0}[nodes]
    original = fits.trees.link_normalisers
    monkeypatch.setattr(fits.trees, "link_normalisers", lambda *given: np.where(is_hit, 0.0, original(*given)))
    assert abs(fits.objective(state, tree) / right - 1.0) > 1e-6


def test_no_other_update_is_better():
    """At a leaf, an inner node and the point root: planted mistakes have a lower bound than the update itself."""
    passes, parameters = checked(tree_rows(6, 120, 5), root="point", parents=FOREST)
    tree, form = parameters.tree, parameters.form(Stream(0), 1, 1)
    state = list(single_updates(passes, parameters, n_sweeps=2))[-1][1]
    best = fits.objective(fits.update_leaves(state, parameters, form), tree)
    for factor in (0.5, 2.0):
        pulls = factor * fits.trees.pulls(tree, state.nodes, state.first, tree.leaves)
        leaves = v.update_components(replace(state.leaves, prior=fits._leaf_prior(pulls, state.top)), form)
        laws = fits.trees.with_leaves(tree, state.nodes, *fits._leaf_laws(leaves))
        assert fits.objective(replace(state, leaves=leaves, nodes=laws), tree) < best
    best = fits.objective(fits.update_inner(state, parameters, form), tree)
    for first in (0.5, 2.0):
        swept = fits.trees.inner_sweep(tree, state.nodes, first * state.first)
        laws, law = fits.trees.inner_concentrations(tree, swept, state.inner)
        assert fits.objective(replace(state, nodes=laws, inner_law=law), tree) < best
    swept = fits.trees.inner_sweep(tree, state.nodes, state.first)
    wrong = replace(state.inner, log_mean=state.inner.log_mean + 0.3)
    laws, law = fits.trees.inner_concentrations(tree, swept, wrong)
    assert fits.objective(replace(state, nodes=laws, inner_law=law), tree) < best
    best = fits.objective(fits.learn_first(state, parameters), tree)
    for total, n in ((state.nodes.means.sum(axis=0), len(tree)), (state.nodes.means[tree.tops].sum(axis=0), 4)):
        assert fits.objective(replace(state, top=state.top.fitted_to_directions(total, n)), tree) < best


def test_jittered_leaves_where_rows_are_few():
    # a node with no more rows than children: its leaves start close together, and the fit goes on
    rows = tree_rows(14, 9, 4)
    model = fit(rows, height=3, branching=2, max_iter=3)
    assert model.means_.shape == (8, 4)
    assert np.isfinite(model.lower_bound_)
