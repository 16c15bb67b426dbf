"""Passes over all rows: one thread and many, array and memory map, give equal bits, and sums are good to float64."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from tests.making import each, units

from armillary import points as points_module
from armillary.engines.cpu import Passes
from armillary.kernels.rows import blocks as cpu
from armillary.kernels.rows import reference
from armillary.points import as_points, lane_plan
from armillary.rules import AffineRule
from armillary.workers import Workers

KEY = (31, 41)
# rows, columns: narrow ones need many rows before a pass is cut into lanes
SHAPES = {"narrow": (65_600, 3), "sixteen": (12_301, 16), "wide": (8_333, 64), "csr": (8_333, 200)}
THREADS = (1, 2, 3)

every_shape = pytest.mark.parametrize("name", SHAPES)
every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
weighted = pytest.mark.parametrize("is_weighted", [False, True], ids=["alike", "weighted"])


def make_points(name, dtype=np.float64, is_weighted=False):
    n_rows, n_features = SHAPES[name]
    rng = np.random.default_rng([n_rows, n_features])
    weights = rng.gamma(1.0, size=n_rows) if is_weighted else None
    if name == "csr":
        rows = sp.random_array((n_rows, n_features), density=0.04, random_state=rng, format="csr", dtype=np.float64)
        # no row without a direction
        rows = sp.csr_array(rows + sp.csr_array((np.ones(n_rows), (np.arange(n_rows), np.arange(n_rows) % 200))))
        return as_points(rows.astype(dtype), "test", weights)
    return as_points(units(rng, n_rows, n_features).astype(dtype), "test", weights)


def make_rule(points, n_clusters=6, slope=4.0):
    rng = np.random.default_rng(n_clusters)
    return AffineRule(slope * units(rng, n_clusters, points.n_features), rng.standard_normal(n_clusters))


def bits(*values):
    return tuple(np.asarray(value).tobytes() for value in values)


def with_threads(points, function, n_threads):
    with Workers(n_threads) as workers, cpu.crew() as crew:
        return function(Passes(points, cpu, workers, crew))


def assign(passes):
    labels = np.full(passes.points.n_rows, -1, np.int32)
    labels[::3] = 2
    moves = passes.reassign(make_rule(passes.points), labels)
    return bits(labels, moves.n_changed, moves.changed)


def assign_and_sum(passes):
    labels = np.full(passes.points.n_rows, -1, np.int32)
    n_changed, sums = passes.assign_and_sum(make_rule(passes.points), labels)
    return bits(labels, n_changed, sums.counts, sums.resultants)


def fixed_labels(points, n_clusters=6):
    return np.random.default_rng(5).integers(0, n_clusters, points.n_rows).astype(np.int32)


def sums(passes):
    found = passes.sums(fixed_labels(passes.points), 6)
    return bits(found.counts, found.resultants)


def some_sums(passes):
    found = passes.sums(fixed_labels(passes.points), 6, np.array([1, 0, 1, 1, 0, 0], bool))
    return bits(found.counts, found.resultants)


def soft_sums(passes):
    found, evidence = passes.soft_sums(make_rule(passes.points))
    return bits(found.counts, found.resultants, evidence)


def draw(passes):
    labels = passes.labels()
    passes.draw(make_rule(passes.points), labels, KEY)
    return bits(labels.to_host())


def scores(passes):
    return bits(passes.scores(make_rule(passes.points)))


def own_scores(passes):
    return bits(passes.own_scores(make_rule(passes.points), fixed_labels(passes.points)))


def responsibilities(passes):
    return bits(*passes.responsibilities(make_rule(passes.points)))


def mapped(passes):
    """Sums over blocks of rows: what k-means++ compares."""
    return bits(np.sum(passes.map_scores(make_rule(passes.points), lambda table, _: table.sum(axis=0)), axis=0))


PASSES = [assign, assign_and_sum, sums, some_sums, soft_sums, draw, scores, own_scores, responsibilities, mapped]


# ------------------------------------------------------------------------------------------------------- threads


@every_shape
@every_dtype
@weighted
def test_one_thread_and_many_give_equal_bits(name, dtype, is_weighted):
    points = make_points(name, dtype, is_weighted)
    assert len(points.lanes) > 1
    for function in PASSES:
        one, *others = [with_threads(points, function, n_threads) for n_threads in THREADS]
        assert all(other == one for other in others), function.__name__


@each("n_rows", [1, 2, 1023, 1024, 1025, 4095, 4096, 70_000, 3_000_000])
@each("n_features", [2, 3, 16, 17, 100, 100_000])
def test_lanes_cover_the_rows_in_order(n_rows, n_features):
    lanes = lane_plan(n_rows, n_features)
    assert lanes[0][0] == 0
    assert lanes[-1][1] == n_rows
    assert all(before[1] == after[0] for before, after in pairwise(lanes))
    sizes = [stop - start for start, stop in lanes]
    assert max(sizes) - min(sizes) <= 1


# ------------------------------------------------------------------------------------------------------ accuracy


@every_shape
@every_dtype
@weighted
def test_sums_are_good_to_half_a_quantum_a_row(name, dtype, is_weighted):
    points = make_points(name, dtype, is_weighted)
    labels = fixed_labels(points, 3)
    found = with_threads(points, lambda passes: passes.sums(labels, 3), 2)
    weights = np.ones(points.n_rows) if points.weights is None else points.weights
    for k in range(3):
        mine = labels == k
        assert abs(found.counts[k] - math.fsum(weights[mine])) <= (1 + mine.sum()) * math.ldexp(0.5, -points.q)
        for d in range(0, points.n_features, 37):
            column = points.matrix[:, [d]]
            column = (column.toarray() if points.is_sparse else column)[mine, 0].astype(np.float64)
            terms = weights[mine] * column
            bound = (1 + mine.sum()) * math.ldexp(0.5, -points.q)
            assert abs(found.resultants[k, d] - math.fsum(terms)) <= bound


@pytest.mark.parametrize("name", ["narrow", "wide", "csr"])
def test_float32_rows_leave_no_float32_rounding_in_their_sums(name):
    # rows that all but agree: a float32 sum would lose a digit for each factor of ten in the number of rows
    n_rows, n_features = SHAPES[name]
    rng = np.random.default_rng(8)
    base = np.zeros((n_rows, n_features))
    base[:, :3] = np.array([0.6, 0.48, 0.64]) + 0.01 * rng.standard_normal((n_rows, 3))
    rows = (base / np.linalg.norm(base, axis=1, keepdims=True)).astype(np.float32)
    points = as_points(sp.csr_array(rows) if name == "csr" else rows, "test")
    assert points.dtype == np.float32
    labels = np.zeros(n_rows, np.int32)
    found = with_threads(points, lambda passes: passes.sums(labels, 1), 2)
    assert found.resultants.dtype == found.counts.dtype == np.float64
    exact = np.array([math.fsum(column) for column in rows[:, :3].T.astype(np.float64)])
    # each float32 has 24 bits and n rows add 17: the sum fits in 53 bits, so float64 sums are exact here
    np.testing.assert_array_equal(found.resultants[0, :3], exact)
    assert found.counts[0] == n_rows
    in_float32 = np.cumsum(rows[:, :3], axis=0, dtype=np.float32)[-1]  # planted: the sum this must not be
    assert (np.abs(in_float32 / exact - 1.0) > 1e-7).any()


@every_shape
@every_dtype
@weighted
def test_unwanted_clusters_stay_zero_and_wanted_ones_keep_their_bits(name, dtype, is_weighted):
    points = make_points(name, dtype, is_weighted)
    labels = fixed_labels(points)
    everything = with_threads(points, lambda passes: passes.sums(labels, 6), 2)
    for is_wanted in (np.array([1, 0, 1, 1, 0, 0], bool), np.zeros(6, bool), np.ones(6, bool)):
        found = with_threads(points, lambda passes, wanted=is_wanted: passes.sums(labels, 6, wanted), 2)
        assert bits(found.counts[is_wanted]) == bits(everything.counts[is_wanted])
        assert bits(found.resultants[is_wanted]) == bits(everything.resultants[is_wanted])
        assert not found.counts[~is_wanted].any()
        assert not found.resultants[~is_wanted].any()


@every_shape
@every_dtype
@weighted
def test_assign_and_sum_is_assign_then_sums_to_the_bit(name, dtype, is_weighted):
    # the bounded algorithm takes either way in different sweeps and must not show it
    points = make_points(name, dtype, is_weighted)
    rule = make_rule(points)
    together, apart = np.full((2, points.n_rows), -1, np.int32)
    n_changed, total = with_threads(points, lambda passes: passes.assign_and_sum(rule, together), 2)
    other_moves = with_threads(points, lambda passes: passes.reassign(rule, apart), 2)
    other_total = with_threads(points, lambda passes: passes.sums(apart, 6), 2)
    assert bits(together, n_changed) == bits(apart, other_moves.n_changed)
    assert bits(total.counts, total.resultants) == bits(other_total.counts, other_total.resultants)


@every_shape
@weighted
def test_passes_agree_with_the_reference_kernels(name, is_weighted):
    points = make_points(name, np.float64, is_weighted)
    rule = make_rule(points)
    with Workers(1) as workers:
        mine, theirs = Passes(points, cpu, workers), Passes(points, reference, workers)
        labels, wanted = np.full((2, points.n_rows), -1, np.int32)
        moves, other = mine.reassign(rule, labels), theirs.reassign(rule, wanted)
        np.testing.assert_array_equal(labels, wanted)
        assert moves.n_changed == other.n_changed == points.n_rows
        np.testing.assert_array_equal(moves.changed, other.changed)
        np.testing.assert_allclose(mine.scores(rule), theirs.scores(rule), rtol=0, atol=1e-13)
        np.testing.assert_allclose(mine.own_scores(rule, labels), theirs.scores(rule).max(axis=1), rtol=0, atol=1e-13)
        (soft, evidence), (wanted_soft, wanted_evidence) = mine.soft_sums(rule), theirs.soft_sums(rule)
        np.testing.assert_allclose(soft.counts, wanted_soft.counts, rtol=1e-11)
        np.testing.assert_allclose(soft.resultants, wanted_soft.resultants, rtol=0, atol=1e-11 * points.total_weight)
        assert math.isclose(evidence, wanted_evidence, rel_tol=1e-12)
        table, log_evidence = mine.responsibilities(rule)
        np.testing.assert_allclose(table, theirs.responsibilities(rule)[0], rtol=0, atol=1e-13)
        weights = np.ones(points.n_rows) if points.weights is None else points.weights
        assert math.isclose(weights @ log_evidence, evidence, rel_tol=1e-12)
        np.testing.assert_allclose(soft.counts, weights @ table, rtol=1e-11)
        # a row's draw is keyed by its number among all rows, whatever lane or block it lies in
        uniforms = reference.philox_uniform(KEY, np.arange(points.n_rows))
        edges = np.cumsum(table, axis=1)
        is_clear = np.abs(edges - uniforms[:, None]).min(axis=1) > 1e-12
        labels = mine.labels()
        mine.draw(rule, labels, KEY)
        drawn = labels.to_host()
        np.testing.assert_array_equal(drawn[is_clear], (edges > uniforms[:, None]).argmax(axis=1)[is_clear])


# ------------------------------------------------------------------------------------------------ where rows lie


def laid_out(rows, folder):
    """The same numbers: on disk in either order, in memory in either order, in every second row of a larger array."""
    order_f = np.asfortranarray(rows)
    files = {}
    for name, order in (("mapped", "C"), ("mapped by column", "F")):
        files[name] = np.memmap(folder / f"{order}.bin", rows.dtype, "w+", shape=rows.shape, order=order)
        files[name][:] = rows
        files[name].flush()
    read_only = np.memmap(folder / "C.bin", rows.dtype, "r", shape=rows.shape)
    spread = np.zeros((2 * len(rows), rows.shape[1]), rows.dtype)
    spread[::2] = rows
    return {**files, "mapped for reading": read_only, "by column": order_f, "every second row": spread[::2]}


@pytest.mark.parametrize("n_features", [3, 16, 17, 40])
@pytest.mark.parametrize("is_unit", [True, False], ids=["unit", "long"])
@every_dtype
@weighted
def test_where_rows_lie_does_not_change_a_bit(tmp_path, n_features, is_unit, dtype, is_weighted):
    # 3,000 rows: more than one block of rows that are normalised as they are read
    rng = np.random.default_rng([9, n_features])
    rows = units(rng, 3000, n_features)
    rows = (rows if is_unit else 3.0 * rows * rng.random((3000, 1))).astype(dtype)
    weights = rng.gamma(1.0, size=3000) if is_weighted else None
    plain = as_points(rows, "test", weights)
    wanted = {function.__name__: with_threads(plain, function, 1) for function in PASSES}
    for name, same in laid_out(rows, tmp_path).items():
        points = as_points(same, "test", weights)
        assert points.dtype == dtype
        for function in PASSES:
            assert with_threads(points, function, 2) == wanted[function.__name__], (name, function.__name__)


@pytest.mark.parametrize("n_features", [3, 17])
@every_dtype
def test_an_array_too_large_to_convert_at_once_gives_the_same_bits(monkeypatch, n_features, dtype):
    rng = np.random.default_rng([10, n_features])
    rows = (2.0 * units(rng, 3000, n_features)).astype(dtype)
    small = as_points(rows, "test")
    monkeypatch.setattr(points_module, "CONVERT_AT_ONCE", 0)
    large = as_points(rows, "test")
    assert large.matrix is rows
    assert not large.is_unit
    for function in PASSES:
        assert with_threads(large, function, 1) == with_threads(small, function, 1), function.__name__


def test_a_pass_that_fails_in_one_lane_says_so():
    points = make_points("wide")

    def fail(table, part):
        if part.start > 4000:
            raise ZeroDivisionError(part.start)

    for n_threads in THREADS:
        with pytest.raises(ZeroDivisionError):
            with_threads(points, lambda passes: passes.map_scores(make_rule(points), fail), n_threads)
