"""The collapsed Gibbs sampler keeps the joint law of labels, concentrations and rows (Geweke 2004), part by part.

Small problems (N = 6, D = 3, K = 2) with fixed hyper-parameters run in lock-step, many at once. Rows are drawn here by
the closed form on S^2, not by the library. Statistics do not depend on the numbering of components. Thresholds come
from a false-alarm rate of 1e-6 for each test.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.special import logsumexp

from armillary.diagnostics import joint_test
from armillary.distributions import bessel
from armillary.distributions.log_concentration import DirectionSums, MixturePrior, log_target
from armillary.draws import Stream
from armillary.engines.select import open_passes
from armillary.exceptions import InputError, ParameterError
from armillary.fitting.events import Emitter
from armillary.fitting.gibbs import DrawnAssignment
from armillary.kernels.rows import blocks as cpu
from armillary.models.vmf import _gibbs_chain
from armillary.models.vmf._gibbs_chain import (
    GibbsChain,
    State,
    Window,
    draw_log_concentrations,
    log_dirichlet_multinomial,
    maximise_weight_concentration,
    sample_posterior,
    slice_scales,
    update_concentrations,
    update_priors,
)
from armillary.points import as_points
from armillary.rules import CollapsedRule, CollapsedSums

FALSE_ALARM_RATE = 1e-6
N_ROWS, N_COMPONENTS, ALPHA = 6, 2, 0.7
PRIOR = MixturePrior(np.array([2.0, 1.0, -2.0]) / 3.0, 3.0, 1.3, 0.6)


# ------------------------------------------------------------------------------------------------ the joint test


def draw_around(directions, concentrations, generator):
    """One vMF draw for each direction (..., 3): the closed form of the cosine on S^2, and a random tangent."""
    u = generator.random(concentrations.shape)
    cosine = 1.0 + np.log(u + (1.0 - u) * np.exp(-2.0 * concentrations)) / concentrations
    tangent = generator.standard_normal(directions.shape)
    tangent -= (tangent * directions).sum(axis=-1, keepdims=True) * directions
    tangent /= np.linalg.norm(tangent, axis=-1, keepdims=True)
    rows = cosine[..., None] * directions + np.sqrt(np.maximum(1.0 - cosine**2, 0.0))[..., None] * tangent
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def draw_parameters(n_chains):
    """Labels (B, N) and log concentrations (B, K) from the prior."""

    def draw(generator):
        weights = generator.dirichlet(np.full(N_COMPONENTS, ALPHA), n_chains)
        labels = (generator.random((n_chains, N_ROWS, 1)) > np.cumsum(weights, axis=1)[:, None, :]).sum(axis=2)
        labels = np.minimum(labels, N_COMPONENTS - 1).astype(np.int32)
        y = PRIOR.log_mean + np.sqrt(PRIOR.log_variance) * generator.standard_normal((n_chains, N_COMPONENTS))
        return labels, y

    return draw


def draw_rows(theta, generator):
    """Rows (B, N, 3) given labels and concentrations: directions are fresh from their prior."""
    labels, y = theta
    shape = (*y.shape, 3)
    center = np.broadcast_to(PRIOR.mean_direction, shape)
    directions = draw_around(center, np.full(y.shape, PRIOR.mean_concentration), generator)
    chains = np.arange(len(y))[:, None]
    return draw_around(directions[chains, labels], np.exp(y)[chains, labels], generator)


NAMES = (
    "sum of squared counts",
    "rows 0 and 1 together",
    "mean y",
    "mean squared y",
    "range of y",
    "y of rows",
    "squared y of rows",
    "squared length of the total",
    "squared lengths of components",
    "squared lengths times y",
    "projection on mu_0",
    "projections squared",
    "count times projection",
    "cosine of rows 0 and 1 if together",
)


def invariants(theta, rows):
    """Statistics (B, 14) that do not depend on the numbering of components."""
    labels, y = theta
    indicators = (labels[:, None, :] == np.arange(N_COMPONENTS)[:, None]).astype(float)
    counts, resultants = indicators.sum(axis=2), indicators @ rows
    squares, along = (resultants**2).sum(axis=2), resultants @ PRIOR.mean_direction
    together = labels[:, 0] == labels[:, 1]
    return np.stack(
        [
            (counts**2).sum(axis=1),
            together,
            y.mean(axis=1),
            (y**2).mean(axis=1),
            np.ptp(y, axis=1),
            (counts * y).sum(axis=1),
            (counts * y**2).sum(axis=1),
            (rows.sum(axis=1) ** 2).sum(axis=1),
            squares.sum(axis=1),
            (squares * y).sum(axis=1),
            along.sum(axis=1),
            (along**2).sum(axis=1),
            (counts * along).sum(axis=1),
            together * (rows[:, 0] * rows[:, 1]).sum(axis=1),
        ],
        axis=1,
    )


def sweep_all(theta, rows, generator):
    """One sweep of labels and one slice step in each chain, by the library's kernel and slice sampler."""
    labels, y = theta[0].copy(), theta[1]
    n_chains = len(labels)
    indicators = (labels[:, None, :] == np.arange(N_COMPONENTS)[:, None]).astype(float)
    resultants = indicators @ rows
    sums = CollapsedSums(
        indicators.sum(axis=2),
        np.ascontiguousarray(resultants.transpose(0, 2, 1)),
        (resultants**2).sum(axis=2),
        resultants @ PRIOR.mean_direction,
    )
    along, kappas, numbers = rows @ PRIOR.mean_direction, np.exp(y), np.arange(N_ROWS)
    keys = generator.integers(2**32, size=(n_chains, 2)).tolist()
    for chain in range(n_chains):
        rule = CollapsedRule(kappas[chain], ALPHA, PRIOR.mean_concentration)
        own = CollapsedSums(*(array[chain] for array in sums))
        cpu.gibbs_sweep(rows[chain], numbers, along[chain], tuple(keys[chain]), rule, own, labels[chain])
    of_all = _gibbs_chain.direction_sums(sums)
    return labels, draw_log_concentrations(y, of_all, PRIOR, 3.0 * slice_scales(of_all.counts, PRIOR), generator)


def run_joint_test(transition, *, n_chains, n_steps, n_draws, n_batches, seed):
    return joint_test(
        draw_parameters(n_chains),
        draw_rows,
        transition,
        invariants,
        n_draws=n_draws,
        n_steps=n_steps,
        stream=Stream(seed),
        false_alarm_rate=FALSE_ALARM_RATE,
        n_batches=n_batches,
        names=NAMES,
    )


def test_the_sampler_keeps_the_joint_law():
    result = run_joint_test(sweep_all, n_chains=200, n_steps=90, n_draws=500, n_batches=1, seed=1)
    assert result.is_passed, result


@pytest.mark.slow
def test_the_sampler_keeps_the_joint_law_over_many_steps():
    result = run_joint_test(sweep_all, n_chains=500, n_steps=1000, n_draws=5000, n_batches=4, seed=2)
    assert result.is_passed, result


def step_of_the_chain(theta, rows, generator):
    """`GibbsChain.step` on points, chain by chain; rows in a random order in every second chain, every third CSR."""
    labels, y = [], []
    for chain in range(len(rows)):
        matrix = sp.csr_array(rows[chain]) if chain % 3 == 0 else rows[chain]
        state = State(theta[1][chain], np.full(N_COMPONENTS, 3.0), PRIOR, ALPHA)
        stream = Stream(int(generator.integers(2**62)))
        with open_passes(as_points(matrix, "test"), 1, "test") as passes:
            assignment = DrawnAssignment(passes, theta[0][chain], N_COMPONENTS, PRIOR.mean_direction)
            whole = GibbsChain(assignment, state, stream, is_shuffled=chain % 2 == 0)
            whole.step()
        labels.append(whole.assignment.labels.copy())
        y.append(whole.state.log_concentrations)
    return np.array(labels), np.array(y)


@pytest.mark.slow
def test_the_chain_keeps_the_joint_law():
    result = run_joint_test(step_of_the_chain, n_chains=30, n_steps=500, n_draws=5000, n_batches=5, seed=3)
    assert result.is_passed, result


MISTAKES = {
    # made wrong from outside; mistakes inside the kernel and the slice step, planted by hand, fail this test, the
    # enumeration, the parity of chains or the Kolmogorov-Smirnov test below
    "alpha is doubled": "alpha",
    "prior direction forgotten": "direction",
    "a Jacobian too many": "jacobian",
    "kappa counts one row too many": "count",
    "kappa does not look at the rows": "blind",
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
def test_planted_mistakes_are_seen(mistake, monkeypatch):
    honest_sweep, honest_target = cpu.gibbs_sweep, log_target

    def wrong_sweep(rows, numbers, projections, key, rule, sums, labels):
        if mistake == "alpha":
            rule = rule._replace(weight_concentration=2.0 * rule.weight_concentration)
        if mistake == "direction":
            projections = np.zeros_like(projections)
        return honest_sweep(rows, numbers, projections, key, rule, sums, labels)

    def wrong_target(y, sums, prior):
        if mistake == "count":
            sums = sums._replace(counts=sums.counts + 1.0)
        if mistake == "blind":
            sums = DirectionSums(*(np.zeros_like(part) for part in sums))
        return honest_target(y, sums, prior) + (y if mistake == "jacobian" else 0.0)

    monkeypatch.setattr(cpu, "gibbs_sweep", wrong_sweep)
    monkeypatch.setattr(_gibbs_chain, "log_target", wrong_target)
    result = run_joint_test(sweep_all, n_chains=200, n_steps=25, n_draws=100, n_batches=1, seed=4)
    assert not result.is_passed, result


# ------------------------------------------------------------------------------------------------ slice steps


@pytest.mark.parametrize(
    ("dimension", "count", "length", "along", "width"),
    [
        (3, 0, 0.0, 0.0, 3.0),
        (3, 8, 6.5, -2.0, 0.3),
        (3, 8, 6.5, 3.0, 20.0),
        (50, 3, 2.0, 1.0, 3.0),
        (384, 40, 25.0, 9.0, 3.0),
    ],
)
def test_one_slice_step_keeps_the_target(dimension, count, length, along, width):
    prior = MixturePrior(np.eye(dimension)[0], 2.0, np.log(dimension), 1.5)
    one = DirectionSums(*(np.array(value, dtype=float) for value in (count, length**2, along)))
    grid = np.linspace(prior.log_mean - 14.0, prior.log_mean + 14.0, 40_001)
    log_density = log_target(grid, one, prior)
    density = np.exp(log_density - logsumexp(log_density))
    edges = np.cumsum(density)
    edges /= edges[-1]
    rng = np.random.default_rng([dimension, count])
    n_draws = 20_000
    y = np.interp(rng.random(n_draws), edges, grid + 0.5 * (grid[1] - grid[0]))
    many = DirectionSums(*(np.full(n_draws, float(value)) for value in one))
    widths = width * slice_scales(many.counts, prior)
    new = draw_log_concentrations(y, many, prior, widths, rng)
    assert np.mean(new != y) == 1.0
    uniform = np.interp(new, grid + 0.5 * (grid[1] - grid[0]), edges)
    result = stats.kstest(uniform, "uniform")
    assert result.pvalue > FALSE_ALARM_RATE, result
    # a slice step is reversible: before and after can be exchanged
    before = np.interp(y, grid + 0.5 * (grid[1] - grid[0]), edges)
    exchanged = stats.ttest_1samp(before * uniform**2 - uniform * before**2, 0.0)
    assert exchanged.pvalue > FALSE_ALARM_RATE, exchanged


def test_one_slice_step_keeps_a_target_with_two_modes(monkeypatch):
    # with one mode the interval always covers the slice, and its place and width could be anything; here they could not
    narrow, wide = stats.norm(0.0, 0.3), stats.norm(3.0, 0.6)
    monkeypatch.setattr(
        _gibbs_chain,
        "log_target",
        lambda y, sums, prior: np.logaddexp(narrow.logpdf(y), wide.logpdf(y)) - np.log(2.0),
    )
    rng = np.random.default_rng(8)
    y = np.where(rng.random(20_000) < 0.5, narrow.rvs(20_000, random_state=rng), wide.rvs(20_000, random_state=rng))
    sums = DirectionSums(np.zeros(20_000), np.zeros(20_000), np.zeros(20_000))
    new = draw_log_concentrations(y, sums, PRIOR, np.full(20_000, 2.5), rng)
    assert 0.1 < np.mean((y < 1.5) != (new < 1.5)) < 0.9, "modes are found, but not from every place"
    result = stats.kstest(new, lambda at: 0.5 * (narrow.cdf(at) + wide.cdf(at)))
    assert result.pvalue > FALSE_ALARM_RATE, result


def test_widths_do_not_depend_on_where_y_is(monkeypatch):
    seen = []
    monkeypatch.setattr(
        _gibbs_chain, "draw_log_concentrations", lambda y, sums, prior, widths, rng: (seen.append(widths), y)[1]
    )
    sums = DirectionSums(np.array([0.0, 3.0]), np.array([0.0, 4.0]), np.array([0.0, 1.0]))
    for y in (0.0, 5.0):
        update_concentrations(
            State(np.full(2, y), np.ones(2), PRIOR, 1.0), sums, np.random.default_rng(0), is_adapting=True
        )
    np.testing.assert_array_equal(seen[0], seen[1])
    # an empty component moves on the scale of its prior, one with rows on a smaller one
    assert seen[0][0] == pytest.approx(np.sqrt(PRIOR.log_variance))
    assert seen[0][1] < seen[0][0]


def test_slices_stay_where_the_target_is_not_noise():
    prior = MixturePrior(np.eye(3)[0], 0.0, 0.0, 1e6)
    sums = DirectionSums(np.zeros(2000), np.zeros(2000), np.zeros(2000))
    y = np.zeros(2000)
    rng = np.random.default_rng(0)
    for _ in range(5):
        y = draw_log_concentrations(y, sums, prior, np.full(2000, 10.0), rng)
    assert y.min() > -23.0
    assert y.max() < 27.0
    assert y.min() < -20.0
    assert y.max() > 24.0


def test_widths_follow_moves_while_adapting_and_never_after():
    sums = DirectionSums(np.full(4, 500.0), np.full(4, 450.0**2), np.full(4, 100.0))
    prior = MixturePrior(np.eye(20)[0], 1.0, 4.0, 1.0)
    state = State(np.full(4, 4.0), np.full(4, 300.0), prior, 1.0)
    rng = np.random.default_rng(0)
    for _ in range(100):
        state = update_concentrations(state, sums, rng, is_adapting=True)
    # moves between independent draws of sd 1 are 1.13 on average
    assert np.all((state.width_factors > 1.5) & (state.width_factors < 8.0))
    after = update_concentrations(state, sums, rng, is_adapting=False)
    np.testing.assert_array_equal(after.width_factors, state.width_factors)
    assert np.all(after.log_concentrations != state.log_concentrations)


# ------------------------------------------------------------------------------------------------ empirical Bayes


def test_weight_concentration_is_the_maximum():
    rng = np.random.default_rng(0)
    counts = np.array([rng.multinomial(200, rng.dirichlet(np.full(6, 2.0))) for _ in range(30)]).astype(float)
    alpha = maximise_weight_concentration(counts)
    values = [log_dirichlet_multinomial(counts, alpha * factor).mean() for factor in (0.999, 1.0, 1.001)]
    assert values[1] > max(values[0], values[2])
    assert 1.2 < alpha < 3.4
    assert maximise_weight_concentration(np.tile([200.0, 0.0, 0.0], (5, 1))) == pytest.approx(1e-3)
    assert maximise_weight_concentration(np.full((5, 4), 50.0)) == pytest.approx(1e3)


def test_priors_maximise_the_expected_log_joint_of_the_window():
    rng = np.random.default_rng(1)
    n_components, dimension = 4, 5
    prior = MixturePrior(np.eye(dimension)[0], 2.0, 1.0, 1.0)
    state = State(np.zeros(n_components), np.ones(n_components), prior, 1.0)
    window, expected = Window(), np.zeros(dimension)
    for _ in range(6):
        state = replace(state, log_concentrations=rng.normal(2.0, 0.5, n_components))
        resultants = rng.standard_normal((dimension, n_components))
        resultants[:, 0] = 0.0  # an empty component has the mean of the prior
        counts = np.array([0.0, 3.0, 5.0, 2.0])
        sums = CollapsedSums(counts, resultants, (resultants**2).sum(axis=0), resultants.T @ prior.mean_direction)
        window.add(state, sums)
        natural = np.exp(state.log_concentrations) * resultants + 2.0 * prior.mean_direction[:, None]
        lengths = np.linalg.norm(natural, axis=0)
        expected += (natural / lengths * bessel.mean_resultant_length(dimension, lengths)).sum(axis=1) / 6
    found = update_priors(state, window)
    # E log vMF(mu_k | mu_0, C_0), summed over components, is C_0 mu_0.v - K log H(C_0): its maximum
    np.testing.assert_allclose(found.prior.mean_direction, expected / np.linalg.norm(expected), atol=1e-12)
    length = bessel.mean_resultant_length(dimension, found.prior.mean_concentration)
    assert length == pytest.approx(np.linalg.norm(expected) / n_components, abs=1e-12)
    y = np.array(window.log_concentrations)
    assert found.prior.log_mean == pytest.approx(y.mean())
    assert found.prior.log_variance == pytest.approx(y.var())
    assert found.weight_concentration == maximise_weight_concentration(np.array(window.counts))


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_priors_that_few_components_cannot_tell_stay(n_components):
    prior = MixturePrior(np.eye(3)[0], 2.0, 1.0, 1.0)
    state = State(np.arange(n_components) + 0.5, np.ones(n_components), prior, 1.0)
    resultants = np.arange(3.0 * n_components).reshape(3, n_components)
    window = Window()
    window.add(state, CollapsedSums(np.full(n_components, 9.0), resultants, (resultants**2).sum(axis=0), resultants[0]))
    found = update_priors(state, window)
    assert (found.prior.mean_concentration == 2.0) == (n_components == 1)
    assert (found.prior.log_variance == 1.0) == (n_components < 3)
    assert (found.weight_concentration == 1.0) == (n_components == 1)


# ------------------------------------------------------------------------------------------------ the entry point


def three_clumps(n_rows=90, dimension=4, seed=0):
    rng = np.random.default_rng(seed)
    rows = np.eye(dimension)[rng.integers(3, size=n_rows)] + 0.25 * rng.standard_normal((n_rows, dimension))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def sample(rows, *, callbacks=(), weights=None, seed=3, **changed):
    points = as_points(rows, "Model", weights)
    dimension = points.n_features
    parameters = {
        "n_components": 4,
        "weight_concentration": 1.0,
        "start_labels": np.arange(points.n_rows, dtype=np.int32) % 4,
        "n_burn_in": 30,
        "n_draws": 6,
        "thin": 2,
        "empirical_bayes": False,
    } | changed
    prior = MixturePrior(np.eye(dimension)[-1], 0.5, 2.0, 1.0)
    emitter = Emitter("Model", callbacks, n_rows=points.n_rows, n_restarts=1, max_steps=42)
    with open_passes(points, 1, "Model") as passes, emitter:
        return sample_posterior(passes, prior, stream=Stream(seed), emitter=emitter, **parameters), passes


@pytest.mark.parametrize("empirical_bayes", [False, True])
def test_draws_have_the_promised_shapes_and_belong_together(empirical_bayes):
    rows = three_clumps()
    events = []
    draws, _ = sample(rows, callbacks=(events.append,), empirical_bayes=empirical_bayes)
    assert draws.labels.shape == (6, 90)
    assert draws.labels.dtype == np.int32
    assert draws.concentrations.shape == draws.counts.shape == (6, 4)
    assert draws.resultants.shape == (6, 4, 4)
    assert draws.log_joint.shape == (42,)
    assert draws.n_burn_in == 30
    for labels, kappa, counts, resultants, joint in zip(
        draws.labels, draws.concentrations, draws.counts, draws.resultants, draws.log_joint[31::2], strict=True
    ):
        np.testing.assert_array_equal(counts, np.bincount(labels, minlength=4))
        indicators = (labels == np.arange(4)[:, None]).astype(float)
        np.testing.assert_allclose(resultants, indicators @ rows, atol=1e-11)
        sums = DirectionSums(counts, (resultants**2).sum(axis=1), resultants @ draws.prior.mean_direction)
        state = State(np.log(kappa), np.ones(4), draws.prior, draws.weight_concentration)
        assert _gibbs_chain.objective(state, sums) == pytest.approx(joint, abs=1e-8)
    steps = [event for event in events if event.kind == "step"]
    assert [event.step for event in steps] == list(range(1, 43))
    np.testing.assert_array_equal([event.objective for event in steps], draws.log_joint)
    assert steps[-1].n_clusters == np.count_nonzero(draws.counts[-1])
    assert (events[-1].kind, events[-1].step) == ("end", 42)
    # with learned priors, the log joints above also say that mu_0 reached the sums
    assert (draws.prior.mean_concentration == 0.5) == (not empirical_bayes)
    assert (draws.weight_concentration == 1.0) == (not empirical_bayes)


def test_draws_repeat_and_depend_on_the_stream_alone():
    rows = three_clumps()
    first, _ = sample(rows)
    again, _ = sample(rows)
    other, _ = sample(rows, seed=4)
    np.testing.assert_array_equal(first.labels, again.labels)
    np.testing.assert_array_equal(first.concentrations, again.concentrations)
    assert np.any(first.labels != other.labels)


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_dense_and_csr_rows_have_the_same_chain(is_shuffled):
    rows = three_clumps()
    dense, _ = sample(rows, is_shuffled=is_shuffled, empirical_bayes=True)
    sparse, _ = sample(sp.csr_array(rows), is_shuffled=is_shuffled, empirical_bayes=True)
    np.testing.assert_array_equal(dense.labels, sparse.labels)
    np.testing.assert_allclose(dense.concentrations, sparse.concentrations, rtol=1e-9)


def test_long_chains_keep_their_sums(monkeypatch):
    # past a rebuild, in small pieces, and in another order: the sums are still those of the labels
    monkeypatch.setattr("armillary.fitting.gibbs._SWEEP_ROWS", 17)
    rows = three_clumps().astype(np.float32)
    for is_shuffled in (False, True):
        draws, _ = sample(rows, n_burn_in=0, n_draws=60, thin=1, is_shuffled=is_shuffled)
        for labels, resultants in zip(draws.labels, draws.resultants, strict=True):
            np.testing.assert_allclose(
                resultants, (labels == np.arange(4)[:, None]) @ rows.astype(float), rtol=0, atol=1e-11
            )


def test_sums_are_rebuilt_every_fifty_sweeps(monkeypatch):
    n_rebuilt = []
    honest = DrawnAssignment.rebuild
    monkeypatch.setattr(DrawnAssignment, "rebuild", lambda self: (n_rebuilt.append(1), honest(self)))
    sample(three_clumps(), n_burn_in=99, n_draws=1, thin=1)
    assert len(n_rebuilt) == 3  # at the start, after sweeps 50 and 100


def test_a_new_prior_direction_reaches_the_rows():
    rows = three_clumps()
    with open_passes(as_points(rows, "test"), 1, "test") as passes:
        labels = np.arange(90, dtype=np.int32) % 4
        moved = DrawnAssignment(passes, labels, 4, np.eye(4)[0])
        moved.point_along(np.eye(4)[2])
        fresh = DrawnAssignment(passes, labels, 4, np.eye(4)[2])
        rule = CollapsedRule(np.full(4, 5.0), 1.0, 20.0)
        for sweep in range(3):
            moved.sweep(rule, (1, sweep))
            fresh.sweep(rule, (1, sweep))
        np.testing.assert_array_equal(moved.labels, fresh.labels)
        np.testing.assert_array_equal(moved.sums.projections, fresh.sums.projections)
        np.testing.assert_allclose(moved.sums.projections, moved.sums.resultants[2], atol=1e-12)


def test_priors_learn_in_the_burn_in_and_are_frozen_after(monkeypatch):
    learned_at = []
    honest = GibbsChain.learn
    monkeypatch.setattr(
        GibbsChain, "learn", lambda self, window: (learned_at.append(self.n_sweeps), honest(self, window))
    )
    draws, _ = sample(three_clumps(), empirical_bayes=True, n_burn_in=110, n_draws=50, thin=1)
    assert learned_at == [20, 40, 60, 80]
    assert draws.prior.mean_concentration != 0.5
    assert draws.prior.log_variance < 1.0
    # widths too
    chain_widths = []
    honest_update = _gibbs_chain.update_concentrations

    def spy(state, sums, generator, *, is_adapting):
        chain_widths.append(is_adapting)
        return honest_update(state, sums, generator, is_adapting=is_adapting)

    monkeypatch.setattr(_gibbs_chain, "update_concentrations", spy)
    sample(three_clumps(), n_burn_in=7, n_draws=5, thin=1)
    assert chain_widths == [True] * 7 + [False] * 5


def test_clear_clumps_are_found():
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=200)
    rows = np.eye(10)[truth] + 0.1 * rng.standard_normal((200, 10))
    draws, _ = sample(rows, empirical_bayes=True, n_burn_in=60, n_draws=20, thin=1)
    together = draws.labels[-1][:, None] == draws.labels[-1]
    assert np.all(together <= (truth[:, None] == truth))


def test_weights_of_one_are_no_weights():
    rows = three_clumps()
    plain, _ = sample(rows)
    weighted, _ = sample(rows, weights=np.ones(90))
    np.testing.assert_array_equal(plain.labels, weighted.labels)


def test_sentences_of_refusal():
    rows = three_clumps()
    with pytest.raises(InputError) as caught:
        sample(rows, weights=np.linspace(0.5, 2.0, 90))
    assert str(caught.value) == (
        "`sample_weight` of Model must be None or all 1 for Gibbs sampling, where each row has one label and "
        "counts once; got weights from 0.5 to 2. Repeat rows, or use BayesianVonMisesFisherMixture."
    )
    with pytest.raises(InputError) as caught:
        sample(rows, start_labels=np.zeros(9, dtype=np.int32))
    assert str(caught.value) == (
        "`start_labels` of Model must hold one integer for each of the 90 rows; got shape (9,) of int32. The "
        "labels of an EM fit will do."
    )
    with pytest.raises(InputError) as caught:
        sample(rows, start_labels=np.full(90, 4))
    assert str(caught.value) == (
        "`start_labels` of Model must be from 0 to n_components - 1 = 3; got labels from 4 to 4. Raise "
        "n_components or renumber them."
    )
    with pytest.raises(ParameterError, match="`thin` of Model"):
        sample(rows, thin=0)
    with pytest.raises(ParameterError, match="`weight_concentration` of Model"):
        sample(rows, weight_concentration=0.0)
