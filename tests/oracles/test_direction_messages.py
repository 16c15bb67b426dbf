"""Chains and trees of directions against integrals over the sphere, and parameters recovered from drawn ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import logsumexp

from armillary.distributions import bessel, vmf
from armillary.distributions import direction_chains as dc
from armillary.distributions import direction_trees as dt
from armillary.distributions import natural_vectors as nv
from armillary.distributions.concentration_laws import grid_law, point_law
from armillary.distributions.log_concentration import MixturePrior
from armillary.geometry.sphere import log_area

AREA = log_area(3)


def sphere_grid(n_heights=26, n_turns=52):
    """Points of S^2 and their masses: exact for polynomials of degree 51."""
    heights, masses = np.polynomial.legendre.leggauss(n_heights)
    turns = 2.0 * np.pi * np.arange(n_turns) / n_turns
    z, turn = (part.ravel() for part in np.meshgrid(heights, turns, indexing="ij"))
    across = np.sqrt(1.0 - z * z)
    points = np.stack([across * np.cos(turn), across * np.sin(turn), z], axis=1)
    return points, np.repeat(masses, n_turns) * 2.0 * np.pi / n_turns


POINTS, MASSES = sphere_grid()


def log_step(concentration):
    """log vMF(y | x, C), from grid points x to grid points y."""
    return bessel.log_normalizer(3, concentration) + concentration * POINTS @ POINTS.T


def unit(rng, *shape):
    vectors = rng.standard_normal(shape)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def blurred(log_values, concentration):
    """log of the integral of exp(log_values(y)) vMF(y | x, C) over y, at grid points x."""
    peak = log_values.max()
    return peak + np.log(np.exp(log_step(concentration)) @ (MASSES * np.exp(log_values - peak)))


def exact_chain(evidence, first, drift):
    """Means (T, 3) and the log evidence of one chain on S^2, by quadrature; evidence (T, 3)."""
    own = evidence @ POINTS.T  # (T, grid)
    start = first @ POINTS.T - bessel.log_h(0.5, np.linalg.norm(first)) - AREA
    forward = [start + own[0]]
    for slice_evidence in own[1:]:
        forward.append(blurred(forward[-1], drift) + slice_evidence)
    later, means = np.zeros(len(POINTS)), []
    for time in reversed(range(len(own))):
        weights = np.exp(forward[time] + later - (forward[time] + later).max()) * MASSES
        means.append(weights @ POINTS / weights.sum())
        later = blurred(later + own[time], drift)
    return np.array(means[::-1]), float(logsumexp(forward[-1], b=MASSES))


def drawn_chain(seed, n_slices=3, drift=40.0, kappa=3.0, n_rows=3):
    """Evidence (T, 1, 3) of a chain drawn on S^2, and the first natural vector."""
    rng = np.random.default_rng(seed)
    first = 2.0 * unit(rng, 3)
    direction = vmf.sample(first / 2.0, 2.0, 1, rng)[0]
    slices = []
    for _ in range(n_slices):
        slices.append(kappa * vmf.sample(direction, kappa, n_rows, rng).sum(axis=0))
        direction = vmf.sample(direction, drift, 1, rng)[0]
    return np.array(slices)[:, None], first


def factorised_fixed_point(chains, drift, n_sweeps=80):
    laws = dc.ChainLaws.uniform(chains)
    for _ in range(n_sweeps):
        laws = dc.sweep(chains, laws, drift)
    return laws


# ------------------------------------------------------------------------------------------------------------- conv


@pytest.mark.parametrize(("first", "second"), [(0.3, 7.0), (5.0, 5.0), (12.0, 1.0), (20.0, 15.0)])
def test_conv_has_the_mean_of_the_blurred_law(first, second):
    pole = np.array([0.0, 0.0, 1.0])
    blur = blurred(vmf.log_density(POINTS, pole, first), second)  # symmetric in x and y
    mean = (MASSES * np.exp(blur)) @ POINTS
    expected = bessel.mean_resultant_length(3, nv.conv(3, first, second))
    np.testing.assert_allclose(mean, [0.0, 0.0, expected], atol=1e-12)


@pytest.mark.parametrize("n_steps", [1, 2, 5])
def test_steps_ahead_have_the_mean_of_the_walk(n_steps):
    natural, drift = np.array([1.0, -2.0, 6.0]), 4.0
    law = natural @ POINTS.T - bessel.log_h(0.5, np.linalg.norm(natural)) - AREA
    for _ in range(n_steps):
        law = blurred(law, drift)
    mean = (MASSES * np.exp(law)) @ POINTS
    np.testing.assert_allclose(nv.natural_means(nv.ahead(natural, drift, n_steps)), mean, atol=1e-12)


def test_next_rows_have_the_density_of_the_two_stage_draw():
    natural, drift, kappa = np.array([3.0, 1.0, 7.0]), 9.0, 11.0
    law = blurred(natural @ POINTS.T - bessel.log_h(0.5, np.linalg.norm(natural)) - AREA, drift)
    exact = blurred(law, kappa)
    moved = nv.ahead(natural, drift, 1)
    length = np.linalg.norm(moved)
    ours = vmf.log_predictive_density(POINTS, moved / length, length, kappa)
    weights = MASSES * np.exp(exact)
    assert weights @ np.abs(exact - ours) < 0.06  # nats per row
    assert 0.0 <= weights @ (exact - ours) < 2e-3  # their divergence


# ----------------------------------------------------------------------------------------------------------- chains


@pytest.mark.parametrize("seed", range(6))
def test_smoothed_means_are_close_and_factorised_ones_are_not(seed):
    evidence, first = drawn_chain(seed)
    exact, _ = exact_chain(evidence[:, 0], first, 40.0)
    chains = dc.Chains.of(evidence, first)
    smoothed, factorised = dc.smoothed(chains, 40.0), factorised_fixed_point(chains, 40.0)
    errors = [
        max(float(np.linalg.norm(laws.means(t)[0] - exact[t])) for t in range(3)) for laws in (smoothed, factorised)
    ]
    assert errors[0] < 0.01
    assert errors[1] > 2.0 * errors[0]


def test_fast_drift_is_the_weak_side_of_messages():
    # what the docstring of `smoothed` says of it: neighbours that say strong and different things of a blurred step
    errors = []
    for seed in range(6):
        evidence, first = drawn_chain(seed, drift=3.0, kappa=4.0)
        exact, _ = exact_chain(evidence[:, 0], first, 3.0)
        laws = dc.smoothed(dc.Chains.of(evidence, first), 3.0)
        errors.append(max(float(np.linalg.norm(laws.means(t)[0] - exact[t])) for t in range(3)))
    assert min(errors) > 0.005
    assert max(errors) < 0.04


@pytest.mark.parametrize("seed", range(4))
def test_message_evidence_is_close_to_the_integral(seed):
    evidence, first = drawn_chain(seed)
    chains = dc.Chains.of(evidence, first)
    for drift in (0.2, 10.0, 20.0, 40.0):
        _, exact = exact_chain(evidence[:, 0], first, drift)
        assert dc.evidence(chains, drift)[0] == pytest.approx(exact, abs=0.03)


@pytest.mark.parametrize("n_slices", [2, 4])
@pytest.mark.parametrize("drift", [0.0, 0.7, 6.0, 25.0])
def test_the_factorised_bound_is_below_the_evidence(n_slices, drift):
    gaps = []
    for seed in range(3):
        evidence, first = drawn_chain(seed, n_slices)
        _, exact = exact_chain(evidence[:, 0], first, drift)
        chains = dc.Chains.of(evidence, first)
        laws = factorised_fixed_point(chains, drift)
        bound = dc.factorised_bounds(chains, laws, drift) + dc.alignments(chains, laws)
        gaps.append(exact - float(bound[0]))
    if drift == 0.0:  # independent slices lose nothing
        np.testing.assert_allclose(gaps, 0.0, atol=1e-10)
    else:
        assert min(gaps) > 1e-3
        assert max(gaps) < 1.5 * (n_slices - 1)


def recovered_drift(seed, true_drift=300.0, dimension=30, n_chains=6, n_slices=12):
    rng = np.random.default_rng(seed)
    evidence = np.zeros((n_slices, n_chains, dimension))
    for chain in range(n_chains):
        direction = unit(rng, dimension)
        for time in range(n_slices):
            evidence[time, chain] = 60.0 * vmf.sample(direction, 60.0, 5, rng).sum(axis=0)
            direction = vmf.sample(direction, true_drift, 1, rng)[0]
    chains = dc.Chains.of(evidence, np.zeros(dimension))
    laws, factorised = dc.ChainLaws.uniform(chains), 100.0
    for _ in range(60):
        laws = dc.sweep(chains, laws, factorised)
        factorised = dc.factorised_drift(laws)
    return dc.learn_drift(chains), factorised


def test_the_drift_is_recovered():
    # log of the estimate over the truth: standard deviation 0.06 over 40 seeds, and log 1.7 is nine of them
    learned, factorised = recovered_drift(seed=5)
    assert 300.0 / 1.7 < learned < 300.0 * 1.7
    assert factorised < 0.8 * 300.0


@pytest.mark.slow
def test_the_drift_is_recovered_again_and_again():
    ratios = np.log([recovered_drift(seed)[0] / 300.0 for seed in range(40)])
    assert np.abs(ratios).max() < math.log(1.7)
    assert abs(ratios.mean()) < 0.1


# ------------------------------------------------------------------------------------------------------------ trees

# two inner nodes below the root and one leaf; three and one leaves below those
UNBALANCED = [-1, 0, 0, 0, 1, 1, 1, 3]


def drawn_tree(tree, rng, dimension, inner, leaf, n_rows, first=None):
    """Resultants (L, D) of rows drawn from a tree with these concentrations."""
    directions = np.zeros((len(tree), dimension))
    for node, parent in enumerate(tree.parents):
        if parent < 0:
            directions[node] = unit(rng, dimension) if first is None else first
        else:
            directions[node] = vmf.sample(directions[parent], inner, 1, rng)[0]
    return np.stack([vmf.sample(directions[node], leaf, n_rows, rng).sum(axis=0) for node in tree.leaves])


def exact_tree(tree, resultants, concentrations, first):
    """Means (J, 3) and the log evidence on S^2, by quadrature, from any node seen as the last one to be summed."""
    own = np.zeros((len(tree), len(POINTS)))
    own[tree.leaves] = (concentrations[tree.leaves, None] * resultants) @ POINTS.T
    up, sent = own.copy(), np.zeros_like(own)
    for node in reversed(range(len(tree))):
        parent = tree.parents[node]
        if parent >= 0:
            sent[node] = blurred(up[node], concentrations[parent])
            up[parent] += sent[node]
    start = first @ POINTS.T - bessel.log_h(0.5, np.linalg.norm(first)) - AREA
    down, means = np.zeros_like(own), np.zeros((len(tree), 3))
    for node, parent in enumerate(tree.parents):
        down[node] = start if parent < 0 else blurred(down[parent] + up[parent] - sent[node], concentrations[parent])
        belief = down[node] + up[node]
        weights = MASSES * np.exp(belief - belief.max())
        means[node] = weights @ POINTS / weights.sum()
    evidence = sum(logsumexp(start + up[node], b=MASSES) for node in tree.tops)
    return means, float(evidence)


@pytest.mark.parametrize("parents", [UNBALANCED, [-1, 0, 0], [-1, -1, 0, 0, 1], [-1]])
@pytest.mark.parametrize("strength", [0.0, 3.0])
def test_beliefs_on_a_tree_are_close_to_the_integrals(parents, strength):
    tree = dt.Tree.of(parents)
    rng = np.random.default_rng(3)
    first = strength * unit(rng, 3)
    concentrations = np.where(tree.n_children > 0, 40.0, 4.0)
    resultants = drawn_tree(tree, rng, 3, 40.0, 4.0, 2)
    exact, evidence = exact_tree(tree, resultants, concentrations, first)
    made = dt.messages(tree, resultants, concentrations, first)
    np.testing.assert_allclose(nv.natural_means(made.natural_vectors), exact, atol=0.012)
    assert dt.message_evidence(tree, made) == pytest.approx(evidence, abs=0.03)


def test_the_target_of_an_inner_concentration_is_the_evidence_of_its_children():
    # the evidence of a tree, as a function of the concentration of one inner node, is gain up to a constant
    tree = dt.Tree.of(UNBALANCED)
    rng = np.random.default_rng(8)
    first = 2.0 * unit(rng, 3)
    concentrations = np.where(tree.n_children > 0, 40.0, 4.0)
    resultants = drawn_tree(tree, rng, 3, 40.0, 4.0, 2)
    target = dt.inner_target(
        tree, dt.messages(tree, resultants, concentrations, first), MixturePrior(np.eye(3)[0], 0.0, 1.0, 1.0)
    )
    kappas = np.array([0.5, 2.0, 8.0, 20.0, 40.0])
    for number, node in enumerate(tree.inner):
        exact = []
        for kappa in kappas:
            concentrations_there = concentrations.copy()
            concentrations_there[node] = kappa
            exact.append(exact_tree(tree, resultants, concentrations_there, first)[1])
        ours = target.gain(np.repeat(kappas[:, None], len(tree.inner), axis=1))[:, number]
        np.testing.assert_allclose(ours - ours[0], np.array(exact) - exact[0], atol=0.05)


@pytest.mark.parametrize("parents", [UNBALANCED, [-1, 0, 0], [-1, -1, 0, 0, 1]])
@pytest.mark.parametrize("strength", [0.0, 3.0])
def test_the_factorised_bound_of_a_tree_is_below_the_evidence(parents, strength):
    tree = dt.Tree.of(parents)
    rng = np.random.default_rng(4)
    first = strength * unit(rng, 3)
    kappas = np.where(tree.n_children > 0, 40.0, 4.0)
    resultants = drawn_tree(tree, rng, 3, 40.0, 4.0, 2)
    _, evidence = exact_tree(tree, resultants, kappas, first)
    laws = dt.TreeLaws(np.zeros((len(tree), 3)), np.zeros(len(tree)), kappas, np.asarray(bessel.log_h(0.5, kappas)))
    for _ in range(200):
        for nodes in tree.levels:
            laws = dt.update_directions(tree, laws, first, nodes, resultants)
    leaves = tree.leaves
    rows = (kappas[leaves] * np.vecdot(resultants, laws.means[leaves])).sum()
    bound = float(dt.direction_bounds(tree, laws, first).sum() + rows)
    assert evidence - 1.2 * len(tree) < bound < evidence - 1e-3


def recovered_inner(seed, by):
    """Geometric mean of the three inner concentrations below the root, over the truth; D = 300, leaves as known."""
    dimension, inner, leaf = 300, 1500.0, 200.0
    rng = np.random.default_rng(seed)
    tree = dt.Tree.balanced(2, 3)
    resultants = drawn_tree(tree, rng, dimension, inner, leaf, 6)
    prior = MixturePrior(np.eye(dimension)[0], 0.0, math.log(500.0), 4.0)
    first = np.zeros(dimension)
    if by == "messages":
        kappas = np.where(tree.n_children > 0, 500.0, leaf)
        for _ in range(15):
            made = dt.messages(tree, resultants, kappas, first)
            kappas[tree.inner] = grid_law(dt.inner_target(tree, made, prior)).concentrations
    else:
        natural = leaf * resultants
        known = np.full(len(tree.leaves), leaf)
        laws = dt.first_laws(
            tree,
            nv.natural_means(natural),
            vmf.relative_entropy(dimension, nv.natural_lengths(natural)),
            known,
            np.asarray(bessel.log_h(0.5 * dimension - 1.0, known)),
        )
        for _ in range(60):
            laws = dt.update_directions(tree, laws, first, tree.leaves, resultants)
            laws, _ = dt.inner_concentrations(tree, dt.inner_sweep(tree, laws, first), prior)
        kappas = laws.concentrations
    return float(np.exp(np.log(kappas[1:4]).mean())) / inner


def test_inner_concentrations_are_recovered_by_messages_and_not_by_the_factorised_form():
    assert 1.0 / 1.33 < recovered_inner(1, "messages") < 1.33
    assert recovered_inner(1, "factorised") < 0.6


@pytest.mark.slow
def test_inner_concentrations_are_recovered_again_and_again():
    logs = np.log([recovered_inner(seed, "messages") for seed in range(20)])
    # three concentrations from nine leaves: standard deviation 0.13, and 1.33 is 2.2 of them
    assert abs(logs.mean()) < 0.12
    assert np.abs(logs).max() < 0.45


def test_a_known_inner_concentration_is_a_law_too():
    tree = dt.Tree.of([-1, 0, 0])
    laws = dt.TreeLaws(np.eye(3)[[0, 0, 1]] * 0.9, np.zeros(3), np.ones(3), np.ones(3))
    prior = MixturePrior(np.eye(3)[0], 0.0, 0.0, 1.0)
    found, law = dt.inner_concentrations(tree, laws, prior, lambda target: point_law(target, np.array([4.0])))
    assert found.concentrations[0] == pytest.approx(4.0)
    assert found.log_h[0] == pytest.approx(bessel.log_h(0.5, 4.0))
    assert law.entropies[0] == 0.0
