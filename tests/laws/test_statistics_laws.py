"""Laws of counts and resultants: add then remove is nothing, merging is a sum, and size does not turn a direction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from armillary.sums.directional import DirectionalStatistics

ROUNDING = 1e-13

numbers = st.floats(-1.0, 1.0, allow_subnormal=False)
# multiples of 2^-20 with few digits: their sums are exact, so laws hold to the bit
exact_numbers = st.integers(-(2**20), 2**20).map(lambda number: number * 2.0**-20)
weights = st.floats(0.0, 100.0, allow_subnormal=False)


@st.composite
def shapes(draw):
    return draw(st.integers(1, 5)), draw(st.integers(2, 6))


@st.composite
def statistics(draw, how_many=1, elements=numbers):
    """Some statistics of the same shape."""
    n_clusters, n_features = draw(shapes())
    return [
        DirectionalStatistics(
            np.abs(draw(hnp.arrays(np.float64, n_clusters, elements=elements))) * 8.0,
            draw(hnp.arrays(np.float64, (n_clusters, n_features), elements=elements)),
        )
        for _ in range(how_many)
    ]


@st.composite
def rows_of_clusters(draw):
    """Rows, their clusters and weights."""
    n_clusters, n_features = draw(shapes())
    n_rows = draw(st.integers(0, 8))
    rows = draw(hnp.arrays(np.float64, (n_rows, n_features), elements=numbers))
    labels = draw(st.lists(st.integers(0, n_clusters - 1), min_size=n_rows, max_size=n_rows))
    return n_clusters, rows, labels, draw(st.lists(weights, min_size=n_rows, max_size=n_rows))


def total(n_clusters, rows, labels, weights):
    sums = DirectionalStatistics.zero(n_clusters, rows.shape[1])
    for row, label, weight in zip(rows, labels, weights, strict=True):
        sums = sums.add(label, row, weight)
    return sums


def assert_equal(one, other):
    np.testing.assert_array_equal(one.counts, other.counts)
    np.testing.assert_array_equal(one.resultants, other.resultants)


def assert_close(one, other, scale=1.0):
    np.testing.assert_allclose(one.counts, other.counts, rtol=ROUNDING, atol=ROUNDING * scale)
    np.testing.assert_allclose(one.resultants, other.resultants, rtol=ROUNDING, atol=ROUNDING * scale)


# --------------------------------------------------------------------------------------------------- add and remove


@given(statistics(), st.data())
def test_add_then_remove_is_nothing(drawn, data):
    (sums,) = drawn
    cluster = data.draw(st.integers(0, len(sums.counts) - 1))
    row = data.draw(hnp.arrays(np.float64, sums.resultants.shape[1], elements=numbers))
    weight = data.draw(weights)
    assert_close(sums.add(cluster, row, weight).remove(cluster, row, weight), sums, scale=100.0)
    assert_close(sums.remove(cluster, row, weight).add(cluster, row, weight), sums, scale=100.0)


@given(statistics(elements=exact_numbers), st.data())
def test_add_then_remove_is_nothing_to_the_bit_where_sums_are_exact(drawn, data):
    (sums,) = drawn
    cluster = data.draw(st.integers(0, len(sums.counts) - 1))
    row = data.draw(hnp.arrays(np.float64, sums.resultants.shape[1], elements=exact_numbers))
    weight = data.draw(st.integers(0, 64))
    assert_equal(sums.add(cluster, row, weight).remove(cluster, row, weight), sums)


@given(statistics(elements=exact_numbers), st.data())
def test_order_of_adding_does_not_matter_where_sums_are_exact(drawn, data):
    (sums,) = drawn
    n_clusters, n_features = sums.resultants.shape
    rows = data.draw(hnp.arrays(np.float64, (3, n_features), elements=exact_numbers))
    labels = data.draw(st.lists(st.integers(0, n_clusters - 1), min_size=3, max_size=3))
    forward, backward = sums, sums
    for number in range(3):
        forward = forward.add(labels[number], rows[number])
        backward = backward.add(labels[2 - number], rows[2 - number])
    assert_equal(forward, backward)


@given(rows_of_clusters())
def test_adding_rows_is_the_weighted_sum(drawn):
    n_clusters, rows, labels, row_weights = drawn
    sums = total(n_clusters, rows, labels, row_weights)
    member = np.zeros((n_clusters, len(labels)))
    member[labels, np.arange(len(labels))] = row_weights
    assert_close(sums, DirectionalStatistics(member.sum(axis=1), member @ rows), scale=1000.0)


@given(statistics(), st.data())
def test_add_touches_one_cluster(drawn, data):
    (sums,) = drawn
    cluster = data.draw(st.integers(0, len(sums.counts) - 1))
    others = np.arange(len(sums.counts)) != cluster
    after = sums.add(cluster, np.ones(sums.resultants.shape[1]), 2.0)
    assert_equal(after.select(others), sums.select(others))
    assert after.counts[cluster] == sums.counts[cluster] + 2.0


@given(statistics(how_many=2))
def test_every_verb_returns_a_new_value(drawn):
    sums, other = drawn
    counts, resultants = sums.counts.copy(), sums.resultants.copy()
    row = np.ones(resultants.shape[1])
    everything = np.arange(len(counts))
    for made in (
        sums.add(0, row),
        sums.remove(0, row),
        sums.merge(other),
        other.merge(sums),
        sums.scale(1.0),
        sums.select(everything),
        sums.select(everything >= 0),
    ):
        made.counts[:] = -7.0
        made.resultants[:] = -7.0
    sums.directions(otherwise=resultants)[:] = -7.0
    np.testing.assert_array_equal(sums.counts, counts)
    np.testing.assert_array_equal(sums.resultants, resultants)


# --------------------------------------------------------------------------------------------------- merge and scale


@given(statistics(how_many=2))
def test_merge_is_commutative_to_the_bit(drawn):
    one, other = drawn
    assert_equal(one.merge(other), other.merge(one))


@given(statistics(how_many=3))
def test_merge_is_associative(drawn):
    one, two, three = drawn
    assert_close(one.merge(two).merge(three), one.merge(two.merge(three)), scale=30.0)


@given(statistics(how_many=3, elements=exact_numbers))
def test_merge_is_associative_to_the_bit_where_sums_are_exact(drawn):
    one, two, three = drawn
    assert_equal(one.merge(two).merge(three), one.merge(two.merge(three)))


@given(statistics())
def test_zero_changes_nothing(drawn):
    (sums,) = drawn
    zero = DirectionalStatistics.zero(*sums.resultants.shape)
    assert_equal(zero.merge(sums), sums)
    assert_equal(sums.scale(0.0), zero)


@given(rows_of_clusters(), st.data())
def test_any_chunking_sums_alike(drawn, data):
    n_clusters, rows, labels, row_weights = drawn
    cut = data.draw(st.integers(0, len(labels)))
    parts = [
        total(n_clusters, rows[part], labels[part], row_weights[part]) for part in (slice(0, cut), slice(cut, None))
    ]
    assert_close(parts[0].merge(parts[1]), total(n_clusters, rows, labels, row_weights), scale=1000.0)


@given(statistics(how_many=2), st.floats(0.0, 100.0), st.floats(0.0, 100.0))
def test_scale_is_linear(drawn, factor, other_factor):
    one, other = drawn
    assert_close(one.merge(other).scale(factor), one.scale(factor).merge(other.scale(factor)), scale=2000.0)
    assert_close(one.scale(factor).scale(other_factor), one.scale(factor * other_factor), scale=1e5)
    assert_equal(one.scale(1.0), one)


@given(statistics(), st.integers(-30, 30))
def test_scaling_by_powers_of_two_is_undone_to_the_bit(drawn, exponent):
    (sums,) = drawn
    assume(np.all((np.abs(sums.resultants) > 1e-200) | (sums.resultants == 0.0)))
    assume(np.all((sums.counts > 1e-200) | (sums.counts == 0.0)))
    assert_equal(sums.scale(2.0**exponent).scale(2.0**-exponent), sums)


# ------------------------------------------------------------------------------------------------------------ select


@given(statistics(), st.data())
def test_select_twice_is_select_once(drawn, data):
    (sums,) = drawn
    first = data.draw(st.lists(st.integers(0, len(sums.counts) - 1), min_size=1, max_size=6))
    second = data.draw(st.lists(st.integers(0, len(first) - 1), min_size=1, max_size=6))
    assert_equal(sums.select(first).select(second), sums.select([first[number] for number in second]))


@given(statistics(), st.data())
def test_a_mask_selects_as_its_numbers_do(drawn, data):
    (sums,) = drawn
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(sums.counts), max_size=len(sums.counts))))
    assert_equal(sums.select(mask), sums.select(np.flatnonzero(mask)))
    assert_equal(sums.select(mask), sums.select(mask.tolist()))


@given(statistics(how_many=2), st.data())
def test_select_and_merge_commute(drawn, data):
    one, other = drawn
    chosen = data.draw(st.permutations(range(len(one.counts))))
    assert_equal(one.merge(other).select(chosen), one.select(chosen).merge(other.select(chosen)))
    assert_equal(one.select(chosen).select(np.argsort(chosen)), one)


# -------------------------------------------------------------------------------------------- lengths and directions


@given(statistics())
def test_directions_are_unit_and_turn_with_the_resultants(drawn):
    (sums,) = drawn
    spread = DirectionalStatistics(np.ones(len(sums.counts)), sums.resultants)
    otherwise = np.full_like(sums.resultants, 7.0)
    directions = spread.directions(otherwise)
    has_direction = spread.lengths > 1e-12
    np.testing.assert_allclose(np.linalg.norm(directions[has_direction], axis=1), 1.0, rtol=1e-15)
    np.testing.assert_allclose(
        directions[has_direction] * spread.lengths[has_direction, None], sums.resultants[has_direction], atol=1e-15
    )
    np.testing.assert_array_equal(directions[~has_direction], 7.0)


@given(statistics())
def test_lengths_are_norms(drawn):
    (sums,) = drawn
    np.testing.assert_allclose(sums.lengths, np.linalg.norm(sums.resultants, axis=1), rtol=1e-15, atol=1e-150)


@given(statistics(), st.integers(-900, 900))
def test_the_size_of_weights_does_not_turn_a_direction(drawn, exponent):
    # importance weights are exponentials: 1e-200 and 1e200 are weights like others
    (sums,) = drawn
    assume(np.all((np.abs(sums.resultants) > 1e-20) | (sums.resultants == 0.0)))
    scaled = sums.scale(2.0**exponent)
    otherwise = np.zeros_like(sums.resultants)
    np.testing.assert_array_equal(scaled.directions(otherwise), sums.directions(otherwise))
    np.testing.assert_array_equal(scaled.lengths, sums.lengths * 2.0**exponent)


@pytest.mark.parametrize("size", [5e-324, 1e-320, 1e-200, 1e200, 1e308])
def test_directions_at_the_ends_of_the_range(size):
    sums = DirectionalStatistics(np.array([size]), np.array([[size, 0.0, size]]))
    np.testing.assert_allclose(sums.directions(np.zeros((1, 3))), [[0.5**0.5, 0.0, 0.5**0.5]], rtol=1e-15)


def test_rows_that_cancel_keep_the_direction_before():
    row = np.array([0.6, 0.8])
    sums = DirectionalStatistics.zero(3, 2).add(0, row).add(0, -row).add(2, row, 3.0)
    # what is left of a sum of a thousand by rounding is no direction either
    sums = sums.merge(DirectionalStatistics(np.array([0.0, 1000.0, 0.0]), np.array([[0.0, 0.0], [1e-13, 0], [0, 0]])))
    before = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    np.testing.assert_allclose(sums.directions(before), [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], rtol=1e-15)


def test_a_cluster_without_rows_keeps_its_direction_although_removing_left_its_count_below_0():
    sums = DirectionalStatistics(np.array([-1e-17, 0.0]), np.zeros((2, 2)))
    before = np.array([[1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(sums.directions(before), before)
