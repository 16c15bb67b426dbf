"""Collapsed Gibbs against the list of all labellings of eight rows (vmf_mixtures.md, 16, item 15).

The exact posterior is built here from the model's definition: Dirichlet-multinomial labels and the marginal likelihood
of each component (`vmf.log_marginal_likelihood`, tested against quadrature elsewhere), with the concentration fixed or
integrated by the trapezoid rule. The sampler must reproduce the probability of every partition. The standard error of
a frequency comes from independent chains or long batches, the threshold from a false-alarm rate of 1e-6 for each test,
divided among the partitions.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp
from tests.making import units

from armillary.distributions import vmf
from armillary.distributions.log_concentration import DirectionSums, MixturePrior
from armillary.draws import Stream
from armillary.engines.select import open_passes
from armillary.fitting.events import Emitter
from armillary.fitting.gibbs import DrawnAssignment
from armillary.geometry import sphere
from armillary.kernels.rows import blocks as cpu
from armillary.kernels.rows import gibbs, reference
from armillary.kernels.rows.bessel import order_tables
from armillary.models.vmf import _gibbs_chain
from armillary.models.vmf._gibbs_chain import GibbsDraws, State, draw_log_concentrations, slice_scales
from armillary.points import as_points
from armillary.rules import CollapsedRule, CollapsedSums

FALSE_ALARM_RATE = 1e-6


def clumps(seed, n_rows, dimension):
    """Rows in two loose clumps and some between, so that many partitions have weight."""
    rng = np.random.default_rng(seed)
    rows = units(rng, 2, dimension)[np.arange(n_rows) % 2] + 1.4 * units(rng, n_rows, dimension)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def prior_of(dimension, log_mean=1.5, log_variance=0.5, mean_concentration=1.2):
    direction = np.full(dimension, dimension**-0.5)
    return MixturePrior(direction, mean_concentration, log_mean, log_variance)


def log_label_prior(counts, alpha):
    n_components, n_rows = len(counts), sum(counts)
    return (
        gammaln(n_components * alpha)
        - gammaln(n_components * alpha + n_rows)
        + sum(gammaln(alpha + n) - gammaln(alpha) for n in counts)
    )


def log_marginal(rows, members, kappa, prior):
    """log p(rows of a component | kappa), relative to the uniform law."""
    total = vmf.log_marginal_likelihood(
        len(members), rows[members].sum(axis=0), kappa, prior.mean_direction, prior.mean_concentration
    )
    return total + len(members) * float(sphere.log_area(rows.shape[1]))


def log_joint(rows, labels, kappas, prior, alpha):
    """log p(X, z, log kappa) from the definition."""
    members = [np.flatnonzero(labels == k) for k in range(len(kappas))]
    parts = [log_marginal(rows, of, kappa, prior) for of, kappa in zip(members, kappas, strict=True)]
    law = stats.norm(prior.log_mean, np.sqrt(prior.log_variance))
    return log_label_prior([len(of) for of in members], alpha) + sum(parts) + law.logpdf(np.log(kappas)).sum()


def canonical(labels):
    """A partition as a tuple: labels numbered as they appear."""
    seen: dict[int, int] = {}
    return tuple(seen.setdefault(int(label), len(seen)) for label in labels)


def posterior_of_partitions(rows, n_components, alpha, log_evidence):
    """The probability of each partition; log_evidence(k, members) is the log marginal of component k's rows."""
    n_rows = len(rows)
    evidence = [
        [log_evidence(k, np.flatnonzero([mask >> i & 1 for i in range(n_rows)])) for mask in range(2**n_rows)]
        for k in range(n_components)
    ]
    found: dict[tuple[int, ...], list[float]] = {}
    for labels in product(range(n_components), repeat=n_rows):
        masks = [sum(1 << i for i in range(n_rows) if labels[i] == k) for k in range(n_components)]
        value = log_label_prior([mask.bit_count() for mask in masks], alpha)
        value += sum(evidence[k][mask] for k, mask in enumerate(masks))
        found.setdefault(canonical(labels), []).append(value)
    logs = {partition: logsumexp(values) for partition, values in found.items()}
    total = logsumexp(list(logs.values()))
    return {partition: float(np.exp(value - total)) for partition, value in logs.items()}


def integrated_evidence(rows, prior):
    """log integral over y of Normal(y) times the marginal likelihood, by the trapezoid rule."""
    spread = np.sqrt(prior.log_variance)
    nodes = prior.log_mean + spread * np.linspace(-9.0, 9.0, 181)
    log_prior = stats.norm(prior.log_mean, spread).logpdf(nodes) + np.log(nodes[1] - nodes[0])

    def log_evidence(_, members):
        return logsumexp(log_marginal(rows, members, np.exp(nodes), prior) + log_prior)

    return log_evidence


def check_frequencies(exact, draws, note):
    """Draws (groups, T, N) against exact probabilities; groups are independent, or long enough to be nearly so."""
    partitions = sorted(exact, key=exact.__getitem__, reverse=True)
    number = {partition: i for i, partition in enumerate(partitions)}
    expected = np.array([exact[partition] for partition in partitions])
    codes = np.array([[number[canonical(labels)] for labels in group] for group in draws])
    shares = np.stack([np.bincount(group, minlength=len(partitions)) / len(group) for group in codes])
    # partitions too rare for a normal law share one cell
    n_own = int(np.count_nonzero(expected * codes.size >= 100.0))
    if n_own < len(partitions):
        expected = np.append(expected[:n_own], expected[n_own:].sum())
        shares = np.concatenate([shares[:, :n_own], shares[:, n_own:].sum(axis=1, keepdims=True)], axis=1)
    error = shares.std(axis=0, ddof=1) / np.sqrt(len(shares))
    # a cell that chance left without variance is judged by that of independent draws
    error = np.maximum(error, 0.5 * np.sqrt(expected * (1.0 - expected) / codes.size))
    z_scores = (shares.mean(axis=0) - expected) / error
    threshold = stats.t.isf(FALSE_ALARM_RATE / (2 * len(expected)), len(shares) - 1)
    worst = np.argmax(np.abs(z_scores))
    assert np.abs(z_scores).max() < threshold, (
        f"{note}: partition {worst} has share {shares.mean(axis=0)[worst]:.4f}, should be {expected[worst]:.4f}, "
        f"z = {z_scores[worst]:.1f}, threshold {threshold:.1f}"
    )
    return len(expected)


# ---------------------------------------------------------------------------------------------- exact identities


def kernel_log_conditional(rows, labels, row, prior, rule):
    """log p(k | rest) as the compiled kernel draws it: where the label jumps as the uniform goes from 0 to 1."""
    n_components = len(rule.concentrations)
    resultants = np.zeros((n_components, rows.shape[1]))
    np.add.at(resultants, labels, rows)
    tables = order_tables(0.5 * rows.shape[1] - 1.0)
    products = resultants @ rows[row]

    def label_at(u):
        sums = CollapsedSums(
            np.bincount(labels, minlength=n_components).astype(np.float64),
            np.ascontiguousarray(resultants.T),
            (resultants**2).sum(axis=1),
            resultants @ prior.mean_direction,
        )
        arguments = products.copy(), float(rows[row] @ rows[row]), float(rows[row] @ prior.mean_direction)
        caches = gibbs._caches(rule, sums, tables)
        return gibbs._redraw(labels[row], *arguments, u, rule, sums, caches, tables)

    jumps = [0.0]
    for k in range(n_components - 1):
        low, high = jumps[-1], 1.0  # the largest u whose label is at most k
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if label_at(middle) <= k else (low, middle)
        jumps.append(high)
    with np.errstate(divide="ignore"):
        return np.log(np.diff([*jumps, 1.0]))


@pytest.mark.parametrize(("dimension", "n_components"), [(2, 2), (3, 3), (40, 4)])
def test_ratios_of_conditionals_are_ratios_of_joints(dimension, n_components):
    rng = np.random.default_rng(dimension)
    n_rows, alpha = 9, 0.7
    prior = prior_of(dimension)
    n_compared = 0
    for _ in range(20):
        rows = clumps(rng.integers(1000), n_rows, dimension)
        kappas = np.exp(rng.normal(0.5 * np.log(dimension), 0.7, n_components))
        labels = rng.integers(n_components, size=n_rows)
        row = int(rng.integers(n_rows))
        rule = CollapsedRule(kappas, alpha, prior.mean_concentration)
        joints = np.empty(n_components)
        for k in range(n_components):
            labels[row] = k
            joints[k] = log_joint(rows, labels, kappas, prior, alpha)
        expected = joints - logsumexp(joints)
        others = np.delete(np.arange(n_rows), row)
        resultants = np.zeros((n_components, dimension))
        np.add.at(resultants, labels[others], rows[others])
        sums = CollapsedSums(
            np.bincount(labels[others], minlength=n_components).astype(np.float64),
            resultants.T.copy(),
            (resultants**2).sum(axis=1),
            resultants @ prior.mean_direction,
        )
        along = float(rows[row] @ prior.mean_direction)
        found = reference.collapsed_log_conditional(rows[row], along, rule, sums)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
        # whatever label the row has, the compiled kernel draws from the same law; jumps are known to 1e-16
        labels[row] = rng.integers(n_components)
        compiled = kernel_log_conditional(rows, labels, row, prior, rule)
        is_seen = expected > np.log(1e-4)
        np.testing.assert_allclose(compiled[is_seen], expected[is_seen], rtol=0, atol=1e-10)
        n_compared += int(is_seen.sum())
    assert n_compared >= 40


@pytest.mark.parametrize("dimension", [2, 3, 40])
def test_the_log_joint_is_that_of_the_model(dimension):
    rng = np.random.default_rng(dimension)
    rows = clumps(0, 12, dimension)
    prior, alpha = prior_of(dimension), 1.7
    for _ in range(10):
        labels = rng.integers(4, size=12)
        y = rng.normal(1.0, 1.0, 4)
        resultants = np.zeros((4, dimension))
        np.add.at(resultants, labels, rows)
        sums = DirectionSums(
            np.bincount(labels, minlength=4).astype(float),
            (resultants**2).sum(axis=1),
            resultants @ prior.mean_direction,
        )
        found = _gibbs_chain.objective(State(y, np.ones(4), prior, alpha), sums)
        assert found == pytest.approx(log_joint(rows, labels, np.exp(y), prior, alpha), abs=1e-10)


@pytest.mark.parametrize("dimension", [2, 3, 25])
def test_the_predictive_of_one_draw_is_a_ratio_of_joints(dimension):
    # p(x | X, z, kappa) = sum_k p(X + x, z + k, kappa) / p(X, z, kappa)
    rng = np.random.default_rng(dimension)
    rows, prior, alpha = clumps(1, 7, dimension), prior_of(dimension), 0.4
    kappas = np.exp(rng.normal(1.0, 1.0, (3, 3)))
    labels = rng.integers(3, size=(3, 7))
    new = units(rng, 5, dimension)
    draws = draws_of(rows, labels, kappas, prior, alpha)
    with open_passes(as_points(new, "test"), 1, "test") as passes:
        found = _gibbs_chain.log_predictive(passes, draws)
    for x, value in zip(new, found, strict=True):
        ratios = [
            logsumexp([log_joint(np.vstack([rows, x]), np.append(z, k), kappa, prior, alpha) for k in range(3)])
            - log_joint(rows, z, kappa, prior, alpha)
            for z, kappa in zip(labels, kappas, strict=True)
        ]
        expected = logsumexp(ratios) - np.log(3) - float(sphere.log_area(dimension))
        assert value == pytest.approx(expected, abs=1e-10)


def test_the_predictive_integrates_to_one_on_the_circle():
    rng = np.random.default_rng(4)
    rows = clumps(2, 9, 2)
    draws = draws_of(rows, rng.integers(3, size=(5, 9)), np.exp(rng.normal(2.0, 1.0, (5, 3))), prior_of(2), 0.8)
    angles = np.linspace(0.0, 2.0 * np.pi, 2000, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    with open_passes(as_points(circle, "test"), 2, "test") as passes:
        density = np.exp(_gibbs_chain.log_predictive(passes, draws))
    assert density.mean() * 2.0 * np.pi == pytest.approx(1.0, abs=1e-12)


def draws_of(rows, labels, kappas, prior, alpha):
    n_components = kappas.shape[1]
    indicators = (labels[:, None, :] == np.arange(n_components)[:, None]).astype(float)
    return GibbsDraws(
        labels.astype(np.int32), kappas, indicators.sum(axis=2), indicators @ rows, np.zeros(1), 0, prior, alpha
    )


# ------------------------------------------------------------------------------------------------ the posterior


@pytest.mark.parametrize(("n_rows", "n_components", "dimension"), [(8, 2, 3), (8, 3, 2), (6, 3, 20)])
@pytest.mark.parametrize("is_shuffled", [False, True], ids=["in order", "shuffled"])
def test_all_partitions_have_their_probability_with_fixed_concentrations(n_rows, n_components, dimension, is_shuffled):
    rows, prior, alpha = clumps(n_rows + dimension, n_rows, dimension), prior_of(dimension), 0.6
    kappas = np.array([3.0, 9.0, 5.0])[:n_components] * np.sqrt(dimension / 3.0)
    exact = posterior_of_partitions(
        rows, n_components, alpha, lambda k, members: log_marginal(rows, members, kappas[k], prior)
    )
    stream = Stream(20 + is_shuffled)
    n_batches, n_sweeps = 40, 150
    with open_passes(as_points(rows, "test"), 1, "test") as passes:
        start = np.zeros(n_rows, dtype=np.int32)
        assignment = DrawnAssignment(passes, start, n_components, prior.mean_direction)
        rule = CollapsedRule(kappas, alpha, prior.mean_concentration)
        draws = np.empty((n_batches * n_sweeps, n_rows), dtype=np.int32)
        for sweep in range(-50, len(draws)):
            shuffle = stream.generator("order", sweep + 50) if is_shuffled else None
            assignment.sweep(rule, stream.key("labels", sweep + 50), shuffle)
            if sweep >= 0:
                draws[sweep] = assignment.labels
    n_cells = check_frequencies(exact, draws.reshape(n_batches, n_sweeps, n_rows), f"stream {stream}")
    assert n_cells >= 5


def lockstep_chains(rows, n_components, prior, alpha, *, n_chains, n_burn_in, n_kept, stream):
    """Labels (chains, kept, N) of independent chains; the slice steps of all are taken at once."""
    n_rows = len(rows)
    generator = stream.generator("chains")
    labels = generator.integers(n_components, size=(n_chains, n_rows)).astype(np.int32)
    y = np.full((n_chains, n_components), prior.log_mean)
    indicators = (labels[:, None, :] == np.arange(n_components)[:, None]).astype(float)
    resultants = indicators @ rows
    together = CollapsedSums(
        indicators.sum(axis=2),
        np.ascontiguousarray(resultants.transpose(0, 2, 1)),
        (resultants**2).sum(axis=2),
        resultants @ prior.mean_direction,
    )
    sums = [CollapsedSums(*arrays) for arrays in zip(*together, strict=True)]
    along = rows @ prior.mean_direction
    kept = np.empty((n_chains, n_kept, n_rows), dtype=np.int32)
    numbers = np.arange(n_rows)
    for sweep in range(-n_burn_in, n_kept):
        keys = generator.integers(2**32, size=(n_chains, 2)).tolist()
        kappas = np.exp(y)
        for chain in range(n_chains):
            rule = CollapsedRule(kappas[chain], alpha, prior.mean_concentration)
            cpu.gibbs_sweep(rows, numbers, along, tuple(keys[chain]), rule, sums[chain], labels[chain])
        of_all = _gibbs_chain.direction_sums(together)
        y = draw_log_concentrations(y, of_all, prior, 3.0 * slice_scales(of_all.counts, prior), generator)
        if sweep >= 0:
            kept[:, sweep] = labels
    return kept


@pytest.mark.parametrize(("n_rows", "n_components", "dimension"), [(6, 2, 3), (6, 3, 2)])
def test_all_partitions_have_their_probability_with_concentrations_integrated(n_rows, n_components, dimension):
    rows, prior, alpha = clumps(n_rows + dimension, n_rows, dimension), prior_of(dimension), 0.6
    exact = posterior_of_partitions(rows, n_components, alpha, integrated_evidence(rows, prior))
    stream = Stream(31)
    draws = lockstep_chains(rows, n_components, prior, alpha, n_chains=100, n_burn_in=15, n_kept=80, stream=stream)
    assert check_frequencies(exact, draws, f"stream {stream}") >= 5


@pytest.mark.slow
@pytest.mark.parametrize(("n_rows", "n_components", "dimension"), [(8, 2, 3), (8, 3, 3), (6, 3, 20)])
def test_many_more_draws_of_the_whole_sampler(n_rows, n_components, dimension):
    rows, prior, alpha = clumps(n_rows + dimension, n_rows, dimension), prior_of(dimension), 0.6
    exact = posterior_of_partitions(rows, n_components, alpha, integrated_evidence(rows, prior))
    n_batches, n_sweeps = 50, 200
    with (
        open_passes(as_points(rows, "test"), 1, "test") as passes,
        Emitter("test", (), n_rows=n_rows, n_restarts=1, max_steps=1) as emitter,
    ):
        draws = _gibbs_chain.sample_posterior(
            passes,
            prior,
            n_components=n_components,
            weight_concentration=alpha,
            start_labels=np.zeros(n_rows, dtype=np.int32),
            n_burn_in=200,
            n_draws=n_batches * n_sweeps,
            thin=1,
            empirical_bayes=False,
            stream=Stream(5),
            emitter=emitter,
        )
    check_frequencies(exact, draws.labels.reshape(n_batches, n_sweeps, n_rows), "stream 5")
