"""The parts of Dirichlet-process samplers: divisions, partitions of rows, pairs, alpha, convergence."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats
from tests.making import units

from armillary import DirichletProcessMixture
from armillary.datasets import make_tangent_gaussian_mixture
from armillary.diagnostics import expected_losses
from armillary.distributions.gaussian_component import GaussianComponent
from armillary.distributions.tangent_component import TangentComponent
from armillary.engines.cpu_sets import CpuSides
from armillary.engines.select import open_passes
from armillary.exceptions import InputError
from armillary.fitting import divisions
from armillary.fitting.convergence import effective_sample_size, split_r_hat
from armillary.fitting.dirichlet_process import clusters_of, typical_spread
from armillary.fitting.divisions import RandomDivision, launch
from armillary.fitting.kept_draws import KeptDraws
from armillary.models.dirichlet_process import _split_merge
from armillary.models.dirichlet_process._chains import AlphaPrior, draw_log_gammas, log_crp
from armillary.models.dirichlet_process._estimate import point_estimate
from armillary.models.dirichlet_process._split_merge import SplitMerge, Summaries
from armillary.models.dirichlet_process._start import merge_greedily
from armillary.points import as_points
from armillary.rules import AffineRule


def whole(sample):
    """All rows as one set."""
    with open_passes(as_points(sample, "test"), 1, "test") as passes:
        return clusters_of(passes, np.zeros(len(sample), dtype=int)).sets()


def launched(component, sample, rng):
    return launch(component, whole(sample), rng)[0]


@pytest.fixture
def rows():
    return units(np.random.default_rng(0), 30, 3)


@pytest.fixture
def passes(rows):
    with open_passes(as_points(rows, "test"), 1, "test") as passes:
        yield passes


# ------------------------------------------------------------------------------------------------ divisions


@pytest.mark.parametrize("n_rows", [2, 5])
@pytest.mark.parametrize("kind", ["random", "launch", "launch of tangent Gaussians"])
def test_probabilities_of_divisions_add_up_to_one(kind, n_rows):
    rng = np.random.default_rng(1)
    sample = units(rng, n_rows, 3)
    division = {
        "random": lambda: RandomDivision(1.7),
        "launch": lambda: launched(GaussianComponent(3, 0.3, 6.0), sample, rng),
        "launch of tangent Gaussians": lambda: launched(TangentComponent(3, 0.3, 5.0), sample, rng),
    }[kind]()
    sides = [np.array(side) for side in product([False, True], repeat=n_rows)]
    # each unordered division is met twice, by both namings
    total = sum(np.exp(division.log_probability(CpuSides(side))) for side in sides) / 2.0
    assert total == pytest.approx(1.0, rel=1e-9)
    for side in sides:
        other = division.log_probability(CpuSides(~side))
        assert division.log_probability(CpuSides(side)) == pytest.approx(other, rel=1e-12)


@pytest.mark.parametrize("kind", ["random", "launch"])
def test_divisions_are_drawn_with_their_probabilities(kind):
    rng = np.random.default_rng(2)
    sample = units(rng, 3, 3)
    division = RandomDivision(1.2) if kind == "random" else launched(GaussianComponent(3, 1.0, 6.0), sample, rng)
    sets = whole(sample)
    draws = [tuple(division.draw(sets, 0, rng).is_left) for _ in range(4000)]
    cells = {side: 0 for side in product([False, True], repeat=3) if not side[0]}
    for draw in draws:
        cells[draw if not draw[0] else tuple(not one for one in draw)] += 1
    expected = [4000 * np.exp(division.log_probability(CpuSides(np.array(side)))) for side in cells]
    is_common = np.array(expected) > 5.0
    found, wanted = np.array(list(cells.values())), np.array(expected)
    found = np.append(found[is_common], found[~is_common].sum() + 1e-9)
    wanted = np.append(wanted[is_common], wanted[~is_common].sum() + 1e-9)
    assert stats.chi2.sf(np.sum((found - wanted) ** 2 / wanted), len(wanted) - 1) > 1e-6


def test_a_launch_is_a_function_of_the_set_and_of_chance():
    sample = units(np.random.default_rng(3), 400, 3)
    component = TangentComponent(3, 0.3, 5.0)
    one, two = (launched(component, sample, np.random.default_rng(5)) for _ in range(2))
    side = CpuSides(np.arange(400) % 2 == 0)
    assert one.log_probability(side) == two.log_probability(side)


# ------------------------------------------------------------------------------------------------ partitions of rows


def test_splits_and_merges_keep_labels_and_members_together(passes, rows):
    rng = np.random.default_rng(4)
    clusters = clusters_of(passes, rng.integers(4, size=30) * 3)
    for step in range(60):
        if step % 2 or len(clusters) < 2:
            whole = int(rng.integers(len(clusters)))
            n_rows = len(clusters.numbers(whole))
            is_left = np.arange(n_rows) < n_rows // 2
            if 0 < is_left.sum() < n_rows:
                clusters.split(whole, CpuSides(is_left))
        else:
            first, second = rng.choice(len(clusters), 2, replace=False)
            union = clusters.together(int(first), int(second))
            are_both = np.isin(clusters.labels.to_host(), [first, second])
            np.testing.assert_array_equal(union, np.flatnonzero(are_both))
            clusters.merge(int(first), int(second))
        labels = clusters.labels.to_host()
        for k in range(len(clusters)):
            np.testing.assert_array_equal(clusters.numbers(k), np.flatnonzero(labels == k))
            assert clusters.first_row(k) == np.flatnonzero(labels == k)[0]
        counts = np.bincount(labels)
        np.testing.assert_array_equal(clusters.sets().counts, counts)
        totals = np.array([rows[labels == k].sum(axis=0) for k in range(len(clusters))])
        np.testing.assert_allclose(clusters.sets().totals(), totals, atol=1e-12)
        assert clusters.counts.sum() == 30


def test_sides_and_parts_of_sets_are_those_of_their_rows(passes, rows):
    rng = np.random.default_rng(9)
    clusters = clusters_of(passes, np.arange(30) % 3)
    sets = clusters.unions([(0, 1), (2,)])
    sides = [sets.where(0, clusters.labels, 1), sets.chance(1, np.random.default_rng(5)).below(0.5)]
    members = [np.flatnonzero(np.arange(30) % 3 < 2), np.flatnonzero(np.arange(30) % 3 == 2)]
    expected = [members[0] % 3 == 1, np.random.default_rng(5).random(10) < 0.5]
    for own, is_left in zip(sides, expected, strict=True):
        np.testing.assert_array_equal(own.is_left, is_left)
        assert (own.n_left, own.n_right) == (is_left.sum(), (~is_left).sum())
    # left before right
    first, last = members[0][expected[0]], members[0][~expected[0]]
    parted = sets.parted([sides[0], None])
    np.testing.assert_array_equal(parted.sizes, [len(first), len(last), 10])
    np.testing.assert_allclose(
        parted.totals(), [rows[own].sum(axis=0) for own in (first, last, members[1])], atol=1e-12
    )
    ranks = [np.array([0, 3]), np.array([2, 5, 9])]
    few = sets.few(ranks)
    for number in range(2):
        np.testing.assert_array_equal(few.rows(number), rows[members[number][ranks[number]]])
    lefts = [rng.random(2), rng.random(3)]
    weighted = np.array([weights @ few.rows(g) for g, left in enumerate(lefts) for weights in (left, 1.0 - left)])
    np.testing.assert_allclose(few.shared(lefts).totals(), weighted, atol=1e-12)
    # the odds of set g are between clusters 2 g and 2 g + 1
    rule = AffineRule(rng.standard_normal((4, 3)), rng.standard_normal(4))
    scores = rows @ rule.vectors.T + rule.offsets
    for number, odds in enumerate(sets.odds(rule, 1.5)):
        own = scores[members[number], 2 * number] - scores[members[number], 2 * number + 1]
        np.testing.assert_allclose(odds.values, np.clip(own, -1.5, 1.5), rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(odds.sides().is_left, own > 0.0)


def test_halves_go_with_the_rows(passes):
    clusters = clusters_of(passes, np.arange(30) % 3)
    is_left = np.random.default_rng(3).random(30) < 0.5
    halves = passes.halves(is_left)
    np.testing.assert_array_equal(halves.n_left(clusters.sets()), np.bincount(np.arange(30) % 3, is_left))
    for k, own in enumerate(halves.of(clusters.sets())):
        np.testing.assert_array_equal(own.is_left, is_left[k::3])
    sizes = [size for k in range(3) for size in (is_left[k::3].sum(), (~is_left[k::3]).sum())]
    np.testing.assert_array_equal(halves.parts(clusters.sets()).sizes, sizes)
    halves.put(clusters.sets(1), None)
    assert halves.to_host()[1::3].all()
    np.testing.assert_array_equal(halves.to_host()[0::3], is_left[0::3])


def test_a_typical_spread_is_that_of_the_clusters():
    rng = np.random.default_rng(6)
    noisy = units(rng, 5, 3)[np.arange(2000) % 5] + 0.05 * rng.standard_normal((2000, 3))
    with open_passes(as_points(noisy, "test"), 1, "test") as passes:
        clusters = clusters_of(passes, np.arange(2000) % 5)
        assert typical_spread(clusters, 0.3) == pytest.approx(0.05, rel=0.1)
    with open_passes(as_points(np.tile([[0.0, 1.0]], (9, 1)), "test"), 1, "test") as passes:
        assert typical_spread(clusters_of(passes, np.zeros(9, int)), 0.3) == 0.3


def test_greedy_merges_repair_too_many_seeds():
    rng = np.random.default_rng(7)
    truth = np.repeat([0, 1, 2], 60)
    noisy = np.eye(3)[truth] + 0.06 * rng.standard_normal((180, 3))
    with open_passes(as_points(noisy, "test"), 1, "test") as passes:
        clusters = clusters_of(passes, 4 * truth + rng.integers(4, size=180))
        assert merge_greedily(TangentComponent(3, 0.02, 5.0), clusters, 1.0) == 9
        assert len(clusters) == 3
        assert all(len(np.unique(truth[clusters.numbers(k)])) == 1 for k in range(3))


# ------------------------------------------------------------------------------------------------ the point estimate


def lonely_draws(share_alone):
    """Two clear clusters and five outliers far from each other, each of which is alone in a share of ten draws."""
    rng = np.random.default_rng(8)
    truth = np.repeat([0, 1], 60)
    rows = np.eye(3)[truth] + 0.05 * rng.standard_normal((120, 3))
    turns = np.pi * np.linspace(0.5, 1.5, 5)
    rows[:5] = np.stack([np.full(5, np.cos(0.9)), *(np.sin(0.9) * np.array([np.cos(turns), np.sin(turns)]))], axis=1)
    kept = KeptDraws(120)
    for number in range(10):
        draw = truth.astype(np.int32)
        alone = [i for i in range(5) if (number + 2 * i) % 10 < 10 * share_alone]
        draw[alone] = 2 + np.arange(len(alone))
        kept.append(draw)
    return rows, truth, kept


@pytest.mark.parametrize(("share_alone", "n_clusters"), [(0.2, 2), (0.8, 7)])
def test_small_clusters_are_left_out_where_most_draws_have_none(share_alone, n_clusters):
    rows, truth, kept = lonely_draws(share_alone)
    component = TangentComponent(3, 0.005, 5.0)
    with open_passes(as_points(rows, "test"), 1, "test") as passes:
        found = point_estimate(passes, component, kept, 1.0, "variation_of_information")
    draws = kept.array()
    assert draws[found.draw].max() >= 2
    assert found.expected_loss == pytest.approx(expected_losses([*draws, found.labels])[-1] * 11 / 10, rel=1e-10)
    assert found.expected_loss <= expected_losses(draws).min() * (1 + 1e-12)  # two orders of one sum: a last bit apart
    if n_clusters == 2:
        np.testing.assert_array_equal(found.labels, truth)
    assert len(found.weights) == len(np.unique(found.labels)) <= n_clusters


# ------------------------------------------------------------------------------------------------ pairs


def test_pairs_are_drawn_with_their_probabilities():
    rng = np.random.default_rng(8)
    component = TangentComponent(3, 0.3, 5.0)
    summaries = Summaries(component, units(rng, 4, 3), np.array([0.1, 0.2, 0.05, 0.3]))
    pairs = [(b, c) for b in range(4) for c in range(b)]
    expected = np.array([np.exp(summaries.log_probability(b, c)) for b, c in pairs])
    assert expected.sum() == pytest.approx(1.0, rel=1e-12)
    draws = [summaries.draw_pair(rng) for _ in range(6000)]
    assert all(b != c for b, c in draws)
    found = [sum(set(draw) == {b, c} for draw in draws) for b, c in pairs]
    assert stats.chisquare(found, 6000 * expected / expected.sum()).pvalue > 1e-6


# ------------------------------------------------------------------------------------------------ alpha and weights


def test_the_restaurant_process_is_a_law_of_partitions():
    def partitions(n, labels=(0,)):
        if len(labels) == n:
            yield labels
            return
        for label in range(max(labels) + 2):
            yield from partitions(n, (*labels, label))

    total = sum(np.exp(log_crp(np.bincount(labels), 1.7)) for labels in partitions(6))
    assert total == pytest.approx(1.0, rel=1e-12)


def test_alpha_has_its_posterior():
    prior, n_clusters, n_rows = AlphaPrior(1.5, 0.7), 4, 40
    grid = np.linspace(1e-4, 25.0, 20_001)
    log_density = stats.gamma(prior.shape, scale=1.0 / prior.rate).logpdf(grid) + [
        log_crp(np.array([37, 1, 1, 1]), alpha) for alpha in grid
    ]
    cumulative = np.cumsum(np.exp(log_density - log_density.max()))
    cumulative /= cumulative[-1]
    rng = np.random.default_rng(9)
    alphas = np.interp(rng.random(4000), cumulative, grid)
    after = np.array([prior.draw(alpha, n_clusters, n_rows, rng) for alpha in alphas])
    assert stats.kstest(np.interp(after, grid, cumulative), "uniform").pvalue > 1e-6
    assert abs(np.corrcoef(alphas, after)[0, 1]) < 0.9


def test_logs_of_gammas_have_their_law():
    rng = np.random.default_rng(10)
    for shape in (0.3, 1.0, 40.0):
        draws = np.exp(draw_log_gammas(np.full(4000, shape), rng))
        assert stats.kstest(draws, stats.gamma(shape).cdf).pvalue > 1e-6
    assert np.isfinite(draw_log_gammas(np.full(100, 1e-3), rng)).all()


# ------------------------------------------------------------------------------------------------ convergence


def test_independent_draws_count_in_full():
    draws = np.random.default_rng(11).standard_normal((4, 1000))
    assert split_r_hat(draws) == pytest.approx(1.0, abs=0.01)
    assert effective_sample_size(draws) == pytest.approx(4000, rel=0.15)


def test_correlated_draws_count_less():
    rng = np.random.default_rng(12)
    draws = np.empty((4, 4000))
    draws[:, 0] = rng.standard_normal(4)
    for t in range(1, 4000):
        draws[:, t] = 0.8 * draws[:, t - 1] + 0.6 * rng.standard_normal(4)
    # (1 - rho) / (1 + rho) of an autoregression
    assert effective_sample_size(draws) == pytest.approx(16_000 / 9.0, rel=0.2)


def test_chains_that_disagree_are_seen():
    rng = np.random.default_rng(13)
    apart = rng.standard_normal((2, 500)) + np.array([[0.0], [3.0]])
    assert split_r_hat(apart) > 1.5
    assert effective_sample_size(apart) < 20.0
    drifting = rng.standard_normal(1000) + np.linspace(0.0, 4.0, 1000)
    assert split_r_hat(drifting) > 1.3


def test_constant_chains():
    assert split_r_hat(np.ones((2, 10))) == 1.0
    assert effective_sample_size(np.ones((2, 10))) == 20.0
    assert split_r_hat([[1.0] * 8, [2.0] * 8]) == float("inf")


def test_too_few_draws_get_a_sentence():
    with pytest.raises(InputError, match=r"with at least 4 draws; got shape \(1, 3\). Run the chains for longer."):
        split_r_hat([1.0, 2.0, 3.0])


# ------------------------------------------------------------------------------------------------ hopeless attempts


def test_hopeless_attempts_are_among_those_that_are_rejected(monkeypatch):
    """What is drawn does not depend on it; were as much held hopeless as has a chance of 1 in 100, it would."""
    X, _, _ = make_tangent_gaussian_mixture(400, 3, 4, spread=0.2, min_angle=0.4, random_state=0)

    def drawn(is_hopeless):
        monkeypatch.setattr(_split_merge, "is_hopeless", is_hopeless)
        model = DirichletProcessMixture(n_burn_in=5, n_draws=30, random_state=0, n_threads=1).fit(X)
        return model.sample_labels_

    honest = _split_merge.is_hopeless
    expected = drawn(lambda luck, most: False)
    np.testing.assert_array_equal(drawn(honest), expected)
    assert np.any(drawn(lambda luck, most: luck > most - 5.0) != expected)


def test_no_launch_is_fitted_to_clusters_that_are_far_apart(monkeypatch):
    X, labels, _ = make_tangent_gaussian_mixture(2000, 3, 2, spread=0.05, min_angle=1.0, random_state=0)
    component = TangentComponent(3, 0.02, 5.0)
    rng = np.random.default_rng(0)
    with open_passes(as_points(X, "test"), 1, "test") as passes:
        clusters = clusters_of(passes, labels)
        moves = SplitMerge(component, clusters, component.draw(clusters.sets(), rng)[0], 1.0)
        monkeypatch.setattr(divisions, "_fitted", pytest.fail)
        (proposal,) = moves._proposed([_split_merge._Attempt("launch", (0, 1))], rng)
        assert not moves._is_accepted(proposal, rng)
