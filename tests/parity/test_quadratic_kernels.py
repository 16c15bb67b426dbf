"""Quadratic scores, anchors and anchored draws: compiled loops against the NumPy reference and the definition."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from tests.making import each, units

from armillary.distributions import inverse_wishart, tangent_gaussian
from armillary.distributions.components import joined
from armillary.distributions.gaussian_component import GaussianComponent
from armillary.distributions.row_sets import scatter_of
from armillary.distributions.tangent_component import TangentComponent
from armillary.fitting.dirichlet_process import score_rule
from armillary.kernels.rows import blocks as cpu
from armillary.kernels.rows import reference
from armillary.rules import AffineRule, Anchors
from armillary.sums import whole


def rule_of(kind, n_features, n_clusters, rng, volume_factor=True):
    if kind == "affine":
        return AffineRule(20.0 * units(rng, n_clusters, n_features), rng.standard_normal(n_clusters))
    if kind == "gaussian":
        component = GaussianComponent(n_features, 0.5, n_features + 3.0)
    else:
        component = TangentComponent(n_features, 0.2, n_features + 2.0, volume_factor)
    laws = component.draw_prior(n_clusters, rng)
    return score_rule(component, laws, np.log(rng.dirichlet(np.ones(n_clusters))))


KINDS = ("tangent", "gaussian")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [2, 3, 4, 5, 20, 67])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_equal_the_reference(kind, n_features, dtype):
    rng = np.random.default_rng(n_features)
    rule = rule_of(kind, n_features, 7, rng)
    rows = units(rng, 300, n_features).astype(dtype)
    found, expected = np.empty((300, 7)), np.empty((300, 7))
    cpu.scores(rows, cpu.prepare(rule), found)
    reference.scores(rows, rule, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_scores_at_means_and_antipodes_equal_the_reference():
    rng = np.random.default_rng(0)
    for n_features in (2, 3, 6):
        rule = rule_of("tangent", n_features, 4, rng)
        rows = np.concatenate([rule.means, -rule.means])
        found, expected = np.empty((8, 4)), np.empty((8, 4))
        cpu.scores(rows, cpu.prepare(rule), found)
        reference.scores(rows, rule, expected)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def anchors_of(kernels, labels, n_clusters, key, cuts):
    anchors = Anchors(key, np.full(n_clusters, np.inf), np.full(n_clusters, -1, dtype=np.int64))
    for start, stop in pairwise(cuts):
        kernels.find_anchors(labels[start:stop], start, anchors)
    return anchors


def test_anchors_are_the_rows_of_lowest_priority():
    rng = np.random.default_rng(1)
    labels = rng.integers(5, size=400).astype(np.int32)
    key = (17, 99)
    priorities = reference.philox_uniform(key, np.arange(400))
    expected = [min(np.flatnonzero(labels == k), key=priorities.__getitem__) for k in range(5)]
    for kernels in (reference, cpu):
        for cuts in ([0, 400], [0, 3, 200, 399, 400]):
            anchors = anchors_of(kernels, labels, 5, key, cuts)
            np.testing.assert_array_equal(anchors.rows, expected)
            np.testing.assert_array_equal(anchors.priorities, priorities[expected])


@each("volume_factor", [True, False])
@each("n_features", [2, 3, 8])
@each("kind", [*KINDS, "affine"])
@each("is_anchored", [True, False])
def test_draws_equal_the_reference(kind, n_features, volume_factor, is_anchored):
    rng = np.random.default_rng(n_features)
    rule = rule_of(kind, n_features, 6, rng, volume_factor)
    rows = units(rng, 500, n_features)
    labels = rng.integers(6, size=500).astype(np.int32)
    anchors = anchors_of(cpu, labels, 6, (5, 6), [0, 500]) if is_anchored else Anchors.none(6)
    found, expected, pieces = labels.copy(), labels.copy(), labels.copy()
    cpu.draw_anchored(rows, cpu.prepare(rule), anchors, (1, 2), 0, found)
    reference.draw_anchored(rows, rule, anchors, (1, 2), 0, expected)
    np.testing.assert_array_equal(found, expected)
    for start, stop in ((0, 7), (7, 300), (300, 500)):
        cpu.draw_anchored(rows[start:stop], cpu.prepare(rule), anchors, (1, 2), start, pieces[start:stop])
    np.testing.assert_array_equal(found, pieces)
    assert np.any(found != labels)
    if is_anchored:
        np.testing.assert_array_equal(found[anchors.rows], labels[anchors.rows])
        again = anchors_of(cpu, found, 6, (5, 6), [0, 500])
        # given the priorities, old and new labels have the same anchors: the draw stays in its class
        np.testing.assert_array_equal(again.rows, anchors.rows)


def test_far_clusters_are_passed_over_without_changing_a_draw():
    rng = np.random.default_rng(3)
    component = TangentComponent(3, 1e-4, 5.0)
    means = units(rng, 40, 3)
    laws = [component.point_estimate(np.tile(mean, (3, 1))) for mean in means]
    rule = score_rule(component, reduce(joined, laws), np.zeros(40))
    rows = means[rng.integers(40, size=2000)] + 0.01 * rng.standard_normal((2000, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = rng.integers(40, size=2000).astype(np.int32)
    expected = found.copy()
    cpu.draw_anchored(rows, cpu.prepare(rule), Anchors.none(40), (1, 2), 0, found)
    reference.draw_anchored(rows, rule, Anchors.none(40), (1, 2), 0, expected)
    np.testing.assert_array_equal(found, expected)


@each("is_anchored", [True, False])
@each("volume_factor", [True, False])
@each("spread", [1e-6, 0.02, 0.2, 1.0])
def test_rows_that_surely_stay_are_those_of_the_reference(spread, volume_factor, is_anchored):
    """Clusters and their antipodes, most rows in their own, some far off, and uniforms that come near 0 and 1."""
    rng = np.random.default_rng(11)
    means = units(rng, 5, 3)
    means = np.concatenate([means, -means])
    component = TangentComponent(3, 2.0 * spread**2, 5.0, volume_factor)
    labels = rng.integers(10, size=20_000).astype(np.int32)
    rows = means[labels] + spread * rng.standard_normal((20_000, 3))
    rows[:200] = units(rng, 200, 3)
    rows[200:400] = -means[labels[200:400]]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    laws = [component.point_estimate(rows[labels == k]) for k in range(10)]
    rule = score_rule(component, reduce(joined, laws), rng.standard_normal(10))
    labels[::50] = rng.integers(10, size=400)
    anchors = anchors_of(cpu, labels, 10, (5, 6), [0, 20_000]) if is_anchored else Anchors.none(10)
    found, expected = labels.copy(), labels.copy()
    cpu.draw_anchored(rows, cpu.prepare(rule), anchors, (1, 2), 0, found)
    reference.draw_anchored(rows, rule, anchors, (1, 2), 0, expected)
    np.testing.assert_array_equal(found, expected)
    assert np.any(found != labels)


def test_only_the_nearer_distance_of_a_uniform_is_left_to_others():
    """A pair of clusters that share a row 1 : 10^6: one draw in so many leaves, and it is found."""
    component = TangentComponent(3, 0.02, 5.0)
    means = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    laws = [component.point_estimate(np.tile(mean, (9, 1))) for mean in means]
    table = np.empty((1, 2))
    reference.scores(means[:1], score_rule(component, reduce(joined, laws), np.zeros(2)), table)
    log_weights = np.array([0.0, table[0, 0] - table[0, 1] - np.log(1e6)])
    rule = score_rule(component, reduce(joined, laws), log_weights)
    rows = np.repeat(means[:1], 1 << 20, axis=0)
    labels = np.zeros(len(rows), dtype=np.int32)
    moved = 0
    for draw in range(8):
        found = labels.copy()
        cpu.draw_anchored(rows, cpu.prepare(rule), Anchors.none(2), (1, draw), 0, found)
        uniforms = reference.philox_uniform((1, draw), np.arange(len(rows)))
        np.testing.assert_array_equal(found, uniforms > 1.0 / (1.0 + 1e-6))
        moved += np.count_nonzero(found)
    assert moved > 0


def test_frequencies_of_draws_are_the_shares():
    rng = np.random.default_rng(4)
    rule = rule_of("tangent", 3, 3, rng)
    row = units(rng, 1, 3)
    table = np.empty((1, 3))
    reference.scores(row, rule, table)
    shares = np.exp(table[0] - table.max())
    shares /= shares.sum()
    labels = np.zeros(20_000, dtype=np.int32)
    cpu.draw_anchored(np.repeat(row, 20_000, axis=0), cpu.prepare(rule), Anchors.none(3), (8, 9), 0, labels)
    found = np.bincount(labels, minlength=3) / 20_000
    assert np.abs(found - shares).max() < 5.0 * np.sqrt(0.25 / 20_000)


def test_one_cluster_and_one_row():
    component = TangentComponent(3, 0.1, 5.0)
    rng = np.random.default_rng(0)
    rule = score_rule(component, component.draw_prior(1, rng), np.zeros(1))
    labels = np.zeros(1, dtype=np.int32)
    anchors = anchors_of(cpu, labels, 1, (3, 4), [0, 1])
    cpu.draw_anchored(units(rng, 1, 3), cpu.prepare(rule), anchors, (1, 2), 0, labels)
    assert labels[0] == 0
    assert inverse_wishart.draw(np.eye(1), 3.0, rng).shape == (1, 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("with_scatter", [True, False])
@pytest.mark.parametrize("n_features", [2, 3, 6, 7, 20])
def test_sums_in_tangent_spaces_equal_the_reference(n_features, with_scatter, dtype):
    rng = np.random.default_rng(n_features)
    bases = units(rng, 3, n_features)
    near = bases[0] + 0.1 * rng.standard_normal((600, n_features))
    close = bases[1] + 1e-9 * rng.standard_normal(n_features)
    rows = np.concatenate([near, units(rng, 50, n_features), bases, -bases, close[None]])
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(dtype)
    # pieces of near rows alone, of all kinds, and of one row; rows are met in any order, and again
    numbers = np.concatenate([np.arange(600), rng.permutation(len(rows)), [4]]).astype(np.int32)
    edges = np.array([0, 600, len(numbers) - 1, len(numbers)])
    q = whole.exponent(len(numbers))
    rounders = np.array([whole.two_limbs(q, bound) for bound in tangent_gaussian.sum_bounds(n_features)])
    for weights in (None, rng.random(len(numbers))):
        wanted = {"with_scatter": with_scatter, "with_curvature": True}
        found = cpu.tangent_sums(rows, numbers, edges, bases, weights, rounders, **wanted)
        expected = reference.tangent_sums(rows, numbers, edges, bases, weights, rounders, **wanted)
        ours, theirs = tangent_gaussian.from_limbs(found, bases), tangent_gaussian.from_limbs(expected, bases)
        plain = [
            tangent_gaussian.row_sums(
                rows[numbers[start:stop]].astype(np.float64),
                base,
                None if weights is None else weights[start:stop],
                **wanted,
            )
            for base, (start, stop) in zip(bases, pairwise(edges), strict=True)
        ]
        for one, other, field in zip(ours, theirs, zip(*plain, strict=True), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9 if dtype == np.float64 else 1e-5)
            np.testing.assert_allclose(other, np.array(field), rtol=1e-12, atol=1e-12)
        # a piece alone has the bits that it has among others
        alone = cpu.tangent_sums(rows, numbers, edges[1:3], bases[1:2], weights, rounders, **wanted)
        np.testing.assert_array_equal(found[1], alone[0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_features", [2, 3, 16, 17, 50])
def test_scatters_equal_the_reference_to_the_bit_for_every_cut(n_features, dtype):
    rng = np.random.default_rng(n_features)
    rows, numbers = units(rng, 1500, n_features).astype(dtype), rng.permutation(1500).astype(np.int32)
    edges, centres = np.array([0, 1, 700, 1500]), 0.5 * units(rng, 3, n_features)
    for weights in (None, rng.random(1500)):
        found = cpu.scatters(rows, numbers, edges, centres, weights)
        expected = whole.from_products(reference.scatters(rows, numbers, edges, centres, weights))
        np.testing.assert_array_equal(whole.from_products(found), expected)
        for piece, (start, stop) in enumerate(pairwise(edges)):
            around = rows[numbers[start:stop]].astype(np.float64) - centres[piece]
            plain = scatter_of(around, None if weights is None else weights[start:stop])
            np.testing.assert_allclose(expected[piece], plain, rtol=0, atol=1e-13 * (stop - start))
            # cut anywhere, and in another order
            order, cut = rng.permutation(np.arange(start, stop)), int(rng.integers(stop - start))
            own = None if weights is None else weights[order]
            pieces = np.unique([0, cut, stop - start])
            parts = cpu.scatters(rows, numbers[order], pieces, centres[[piece] * (len(pieces) - 1)], own)
            np.testing.assert_array_equal(whole.from_products(parts.sum(axis=0)), expected[piece])


def test_scatters_of_the_largest_numbers_are_exact():
    """Coordinates of 2 and a little more, all bits of their halves set: no sum of products is rounded."""
    n_rows = 5 * whole.PRODUCT_ROWS + 3
    for n_features in (2, 20):
        rows = np.full((n_rows, n_features), 1.0 + 2e-6) - 2.0**-43
        rows[1::2] *= -1.0
        centres = np.full((1, n_features), -1.0)
        edges, numbers = np.array([0, n_rows]), np.arange(n_rows, dtype=np.int32)
        found = whole.from_products(cpu.scatters(rows, numbers, edges, centres, None))[0]
        high, low = whole.halves(rows[:, 0] + 1.0)
        whole_numbers = [int(one * 2.0**43) + int(other * 2.0**43) for one, other in zip(high, low, strict=True)]
        exact = sum(number * number for number in whole_numbers) / 2**86
        np.testing.assert_allclose(found, exact, rtol=4e-16)
        np.testing.assert_array_equal(found, found[0, 0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_features", [2, 3, 6])
def test_totals_and_groups_equal_the_reference(n_features, dtype):
    rng = np.random.default_rng(n_features)
    rows, labels = units(rng, 500, n_features).astype(dtype), rng.integers(5, size=500).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels))])
    found, expected = np.empty(500, dtype=np.int32), np.empty(500, dtype=np.int32)
    cpu.group_rows(labels, starts, found)
    reference.group_rows(labels, starts, expected)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(starts, np.concatenate([[0], np.cumsum(np.bincount(labels))]))
    np.testing.assert_allclose(
        cpu.row_totals(rows, found, starts), reference.row_totals(rows, found, starts), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("rounder", [0.0, whole.rounder(40)])
def test_totals_of_three_columns_have_the_bits_of_any_number(rounder):
    rng = np.random.default_rng(8)
    rows = units(rng, 300, 3)
    numbers, edges = rng.permutation(300).astype(np.int32), np.array([0, 120, 120, 121, 300])
    more = cpu.row_totals(np.column_stack([rows, rows[:, 0]]), numbers, edges, rounder)
    np.testing.assert_array_equal(cpu.row_totals(rows, numbers, edges, rounder), more[:, :3])


@each("dtype", [np.float32, np.float64])
@each("n_features", [2, 3, 20])
def test_whole_totals_with_weights_are_those_of_the_reference(n_features, dtype):
    rng = np.random.default_rng(9)
    rows, weights = units(rng, 300, n_features).astype(dtype), rng.random(300)
    numbers, edges = rng.permutation(300).astype(np.int32), np.array([7, 120, 120, 121, 300])
    given = rows, numbers, edges, whole.rounder(40), weights
    np.testing.assert_array_equal(cpu.row_totals(*given), reference.row_totals(*given))


@pytest.mark.parametrize("n_features", [2, 3, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_odds_are_differences_of_scores(kind, n_features):
    rng = np.random.default_rng(n_features)
    rule = rule_of(kind, n_features, 6, rng)
    rows = units(rng, 90, n_features)
    if rule.means is not None:
        rows[:2] = rule.means[0], -rule.means[0]
    numbers, edges, pairs = rng.permutation(90).astype(np.int32), np.array([0, 50, 51, 90]), np.array([2, 0, 0])
    found, expected = np.empty(90), np.empty(90)
    for kernels, out in ((cpu, found), (reference, expected)):
        kernels.quadratic_odds(rows, numbers, edges, kernels.prepare(rule), pairs, out)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("n_features", [3, 6])
def test_odds_of_pieces_behind_others_are_written_from_the_first_place_on(n_features):
    rng = np.random.default_rng(n_features)
    rule = rule_of("tangent", n_features, 4, rng)
    rows = units(rng, 300, n_features)
    numbers, edges, pairs = np.arange(300, dtype=np.int32), np.array([120, 140, 300]), np.array([1, 0])
    for kernels in (cpu, reference):
        table, odds = np.empty((300, 4)), np.empty(180)
        kernels.scores(rows, kernels.prepare(rule), table)
        kernels.quadratic_odds(rows, numbers, edges, kernels.prepare(rule), pairs, odds)
        np.testing.assert_array_equal(odds[:20], table[120:140, 2] - table[120:140, 3])
        np.testing.assert_array_equal(odds[20:], table[140:, 0] - table[140:, 1])


def test_sides_have_the_shares_of_their_odds():
    rng = np.random.default_rng(0)
    numbers = rng.permutation(5000)[:4000].astype(np.int32)
    odds = np.concatenate(
        [rng.normal(scale=3.0, size=3990), [0.0, -0.0, 800.0, -800.0, 40.0, -40.0, 1e-300, 710, -710, 5]]
    )
    found, expected = np.ones(5000, dtype=np.bool_), np.ones(5000, dtype=np.bool_)
    cpu.draw_sides(numbers, odds, (3, 4), 5, found)
    reference.draw_sides(numbers, odds, (3, 4), 5, expected)
    np.testing.assert_array_equal(found, expected)
    assert found[np.setdiff1d(np.arange(5000), numbers)].all()
    shares = 1.0 / (1.0 + np.exp(-odds[:3990]))
    assert abs(found[numbers[:3990]].sum() - shares.sum()) < 5.0 * np.sqrt(np.sum(shares * (1.0 - shares)))


@pytest.mark.parametrize("n_rows", [0, 1, 511, 1300])
def test_log_probabilities_of_sides_equal_the_reference(n_rows):
    rng = np.random.default_rng(n_rows)
    odds, is_left = np.clip(rng.normal(scale=9.0, size=n_rows), -20.7, 20.7), rng.random(n_rows) < 0.5
    odds[: min(n_rows, 3)] = [0.0, -20.7, 1e-300][: min(n_rows, 3)]
    rounders = whole.two_limbs(whole.exponent(5000), 21.7)
    found, expected = (kernels.side_limbs(odds, is_left, rounders) for kernels in (cpu, reference))
    np.testing.assert_array_equal(found[1], expected[1])  # odds are rounded, and nothing else
    np.testing.assert_allclose(found[0].sum(), expected[0].sum(), rtol=0.0, atol=1e-15 * max(1, n_rows))


def test_parts_of_sets_equal_the_reference():
    rng = np.random.default_rng(1)
    numbers = np.concatenate([np.sort(part) for part in np.split(rng.permutation(90), [1, 2, 30])]).astype(np.int32)
    starts, is_left = np.array([0, 1, 2, 30, 90]), rng.random(90) < 0.3
    is_left[numbers[0]], is_left[numbers[1]] = True, False
    found, expected = np.empty_like(numbers), np.empty_like(numbers)
    n_left = cpu.part_rows(numbers, starts, is_left, found)
    np.testing.assert_array_equal(n_left, reference.part_rows(numbers, starts, is_left, expected))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("n_clusters", [1, 63, 64, 65, 130])
@pytest.mark.parametrize("n_features", [3, 4])
def test_draws_among_many_clusters_equal_the_reference(n_features, n_clusters):
    rng = np.random.default_rng(n_clusters)
    component = TangentComponent(n_features, 0.02, n_features + 2.0)
    rule = score_rule(component, component.draw_prior(n_clusters, rng), np.log(rng.dirichlet(np.ones(n_clusters))))
    rows = np.concatenate([units(rng, 700, n_features), rule.means, -rule.means])
    labels = rng.integers(n_clusters, size=len(rows)).astype(np.int32)
    labels[:n_clusters] = np.arange(n_clusters)
    anchors = anchors_of(cpu, labels, n_clusters, (5, 6), [0, len(rows)])
    found, expected = labels.copy(), labels.copy()
    cpu.draw_anchored(rows, cpu.prepare(rule), anchors, (1, 2), 0, found)
    reference.draw_anchored(rows, rule, anchors, (1, 2), 0, expected)
    np.testing.assert_array_equal(found, expected)


@each("n_rows", [0, 1, 2, 1000])
def test_rows_are_divided_and_merged_as_by_the_reference(n_rows):
    rng = np.random.default_rng(n_rows)
    numbers = np.sort(rng.choice(5000, n_rows, replace=False)).astype(np.int32)
    for share in (0.0, 0.3, 1.0):
        is_left = rng.random(n_rows) < share
        found, expected = np.empty_like(numbers), np.empty_like(numbers)
        n_left = cpu.divide_rows(numbers, is_left, found)
        assert n_left == reference.divide_rows(numbers, is_left, expected) == is_left.sum()
        np.testing.assert_array_equal(found, expected)
        for one, two in ((found[:n_left], found[n_left:]), (found[n_left:], found[:n_left])):
            merged = np.empty_like(numbers)
            cpu.merge_rows(one, two, merged)
            np.testing.assert_array_equal(merged, numbers)
            reference.merge_rows(one, two, merged)
            np.testing.assert_array_equal(merged, numbers)
