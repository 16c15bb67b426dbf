"""The kernel contract, function by function: CPU against the NumPy reference, and labels against their definition.

Labels have no tolerance: the contract names the order in which products are added, so `defined_scores` repeats it
with one rounding per operation and the arg max must be equal, whatever the filter did before. Everything else is held
to rounding bounds worked out from the number of terms and the size of the numbers.
"""

from __future__ import annotations

import inspect
import math

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from tests.making import each, units

from armillary.exceptions import ParameterError
from armillary.kernels.rows import blocks as cpu
from armillary.kernels.rows import choose, contract, dense, reference, sparse
from armillary.kernels.rows.contract import AngleBounds
from armillary.kernels.rows.exponential import exp_nonpositive
from armillary.kernels.rows.philox import philox, uniform
from armillary.kernels.select import kernels_for
from armillary.points import SparseBlock
from armillary.rules import AffineRule
from armillary.sums import whole

# of sums up to 2^11
ROUNDER = whole.rounder(40)

U32, U64 = 2.0**-24, 2.0**-53  # half units in the last place
DIMENSIONS = (2, 3, 5, 16, 17, 40, 300)
CLUSTERS = (1, 2, 7, 33)
SLOPES = (1.0, 50.0, 1e5)
KINDS = ("dense", "csr")
DTYPES = (np.float32, np.float64)
N_ROWS = 256 + 7  # a tile, and a tail that does not fill the four banks either; test_any_number_of_rows has more

every_shape = pytest.mark.parametrize("dimension", DIMENSIONS)
every_kind = each("kind", KINDS)
every_dtype = each("dtype", DTYPES)


def sparse_block(rows):
    """The rows as a block in the middle of a larger CSR matrix, so that its `indptr` does not start at 0."""
    around = np.ones((3, rows.shape[1]), rows.dtype)
    whole = sp.csr_array(np.concatenate([around, rows, around]))
    return SparseBlock(whole.data, whole.indices, whole.indptr[3 : 4 + len(rows)], rows.shape[1])


def make_rows(rng, n_rows, dimension, dtype, kind):
    """A block, and the same rows as a dense array. CSR rows have from 0 to D entries, and some have none."""
    rows = units(rng, n_rows, dimension).astype(dtype)
    if kind == "dense":
        return rows, rows
    kept = rng.random((n_rows, dimension)) < rng.random((n_rows, 1))
    kept[rng.random(n_rows) < 0.05] = False
    rows = np.where(kept, rows, 0).astype(np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = (rows / np.where(norms > 0.0, norms, 1.0)).astype(dtype)
    return sparse_block(rows), rows


def make_rule(rng, n_clusters, dimension, slope, has_offsets):
    offsets = slope * rng.standard_normal(n_clusters) if has_offsets else np.zeros(n_clusters)
    lengths = slope * rng.uniform(0.2, 1.0, (n_clusters, 1))
    return AffineRule(lengths * units(rng, n_clusters, dimension), offsets)


def rules(rng, n_clusters, dimension):
    for slope in SLOPES:
        for has_offsets in (False, True):
            yield make_rule(rng, n_clusters, dimension, slope, has_offsets)


def defined_scores(rows, rule):
    """float64 scores as the contract defines them: products added in column order, then the offset."""
    total = np.zeros((len(rows), len(rule.vectors)))
    for d in range(rows.shape[1]):
        total += rows[:, d, None].astype(np.float64) * rule.vectors[:, d]
    return total + rule.offsets


def size_of(rule):
    """The largest number a score can hold on its way."""
    return float(np.linalg.norm(rule.vectors, axis=1).max() + np.abs(rule.offsets).max())


def score_doubt(rows, rule, half_ulp):
    """Bound on the rounding of a score: a cast of each factor, D products and sums, the offset, in any order."""
    return 2.0 * (rows.shape[1] + 4) * half_ulp * size_of(rule)


def soft_doubt(kind, rows, rule):
    """The same for the scores of a softmax, which are float32 in one case only."""
    in_float32 = kind == "dense" and rows.dtype == np.float32 and rows.shape[1] > cpu.SMALL_DIMENSION
    is_short = np.linalg.norm(rule.vectors, axis=1).max() < contract.FLOAT32_SLOPE_LIMIT
    return score_doubt(rows, rule, U32 if in_float32 and is_short else U64)


def assign(rows, rule, labels, kernels=cpu):
    """Labels, how many changed, and the counters, from `labels` before."""
    labels, changed = labels.copy(), np.zeros(len(rule.vectors), np.int64)
    n_changed = kernels.assign_best(rows, kernels.prepare(rule), labels, changed)
    return labels, n_changed, changed


def from_nowhere(rows):
    return np.full(len(rows), -1, np.int32)


# ------------------------------------------------------------------------------------------------------ contract


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_device_offers_every_function_of_the_contract(device):
    kernels = kernels_for(device)
    for name, asked in inspect.getmembers(contract.Kernels, inspect.isfunction):
        if not name.startswith("_"):
            parameters = list(inspect.signature(asked).parameters)[1:]
            assert list(inspect.signature(getattr(kernels, name)).parameters) == parameters, name


def test_an_unknown_device_is_named():
    with pytest.raises(ParameterError) as caught:
        kernels_for("tpu")
    assert str(caught.value) == (
        "`device` must be one of 'cpu', 'reference'; got 'tpu'. There is no other implementation here."
    )


# -------------------------------------------------------------------------------------------------------- scores


@every_shape
@every_dtype
@every_kind
def test_scores(dimension, dtype, kind):
    for n_clusters in CLUSTERS:
        rng = np.random.default_rng([1, dimension, n_clusters])
        block, rows = make_rows(rng, N_ROWS, dimension, dtype, kind)
        for rule in rules(rng, n_clusters, dimension):
            wanted = np.empty((N_ROWS, n_clusters))
            reference.scores(block, rule, wanted)
            for out_dtype, half_ulp in ((np.float32, U32), (np.float64, U64)):
                out = np.full((N_ROWS, n_clusters), np.nan, out_dtype)
                cpu.scores(block, cpu.prepare(rule), out)
                np.testing.assert_allclose(out, wanted, rtol=0, atol=score_doubt(rows, rule, half_ulp))


@every_shape
@every_dtype
@every_kind
def test_own_scores(dimension, dtype, kind):
    for n_clusters in CLUSTERS:
        rng = np.random.default_rng([25, dimension, n_clusters])
        block, rows = make_rows(rng, N_ROWS, dimension, dtype, kind)
        labels = rng.integers(0, n_clusters, N_ROWS).astype(np.int32)
        for rule in rules(rng, n_clusters, dimension):
            own = np.full(N_ROWS, np.nan)
            cpu.own_scores(block, cpu.prepare(rule), labels, own)
            wanted = np.empty(N_ROWS)
            reference.own_scores(block, rule, labels, wanted)
            np.testing.assert_allclose(own, wanted, rtol=0, atol=score_doubt(rows, rule, U64))


# ------------------------------------------------------------------------------------------------------- arg max


@every_shape
@every_dtype
@every_kind
def test_labels_are_the_arg_max_of_the_float64_scores(dimension, dtype, kind):
    for n_clusters in CLUSTERS:
        rng = np.random.default_rng([2, dimension, n_clusters])
        block, rows = make_rows(rng, N_ROWS, dimension, dtype, kind)
        before = rng.integers(-1, n_clusters, N_ROWS).astype(np.int32)
        for rule in rules(rng, n_clusters, dimension):
            wanted = defined_scores(rows, rule).argmax(axis=1)
            moved = wanted != before
            counters = np.bincount(wanted[moved], minlength=n_clusters)
            counters += np.bincount(before[moved & (before >= 0)], minlength=n_clusters)
            labels, n_changed, changed = assign(block, rule, before)
            assert labels.dtype == np.int32
            np.testing.assert_array_equal(labels, wanted)
            assert n_changed == moved.sum()
            np.testing.assert_array_equal(changed, counters)
            again, n_changed, changed = assign(block, rule, labels)
            np.testing.assert_array_equal(again, wanted)
            assert n_changed == 0
            assert not changed.any()

            # the reference adds products in BLAS's order: equal but where its two best scores are equal to rounding
            table = np.sort(defined_scores(rows, rule), axis=1)
            is_clear = np.ones(N_ROWS, bool) if n_clusters == 1 else table[:, -1] - table[:, -2] > 1e-13 * size_of(rule)
            oracle, _, _ = assign(block, rule, before, kernels=reference)
            np.testing.assert_array_equal(labels[is_clear], oracle[is_clear])


def test_counters_are_added_to_and_the_reference_counts_alike():
    rng = np.random.default_rng(20)
    rows, rule = units(rng, 50, 3), make_rule(rng, 4, 3, 1.0, False)
    before = rng.integers(-1, 4, 50).astype(np.int32)
    one, other = np.arange(4), np.arange(4)
    n_one = cpu.assign_best(rows, cpu.prepare(rule), before.copy(), one)
    n_other = reference.assign_best(rows, reference.prepare(rule), before.copy(), other)
    assert n_one == n_other > 0
    np.testing.assert_array_equal(one, other)
    assert (one > np.arange(4)).any()


@pytest.mark.parametrize("n_rows", [0, 1, 3, 4, 5, 255, 256, 257, 511, 513])
@pytest.mark.parametrize("dimension", [3, 17])
@every_kind
def test_any_number_of_rows(n_rows, dimension, kind):
    rng = np.random.default_rng([3, n_rows])
    block, rows = make_rows(rng, n_rows, dimension, np.float64, kind)
    rule = make_rule(rng, 5, dimension, 50.0, True)
    labels, n_changed, _ = assign(block, rule, from_nowhere(rows))
    np.testing.assert_array_equal(labels, defined_scores(rows, rule).argmax(axis=1))
    assert n_changed == n_rows
    sums = np.zeros(5), np.zeros((5, dimension))
    cpu.add_rows(block, None, labels, np.ones(5, bool), *sums, ROUNDER)
    np.testing.assert_array_equal(sums[0], np.bincount(labels, minlength=5))
    soft = np.zeros(5), np.zeros((5, dimension))
    cpu.add_soft(block, cpu.prepare(rule), None, *soft)
    assert math.isclose(soft[0].sum(), n_rows, rel_tol=1e-14, abs_tol=0)


@every_shape
@every_dtype
@every_kind
def test_exact_ties_go_to_the_smallest_cluster(dimension, dtype, kind):
    rng = np.random.default_rng([4, dimension])
    block, rows = make_rows(rng, N_ROWS, dimension, dtype, kind)
    vectors = units(rng, 3, dimension)
    # clusters 0, 3 and 6 are one direction, 1 and 4 another, 2 and 5 the third
    rule = AffineRule(vectors[[0, 1, 2, 0, 1, 2, 0]], np.full(7, 0.25))
    wanted = defined_scores(rows, rule)[:, :3].argmax(axis=1)
    # coming from a tied cluster must not keep a row there
    for start in (-1, 0, 3, 4, 5, 6):
        labels, _, _ = assign(block, rule, np.full(N_ROWS, start, np.int32))
        np.testing.assert_array_equal(labels, wanted)


@every_shape
@every_dtype
@every_kind
def test_all_scores_equal(dimension, dtype, kind):
    rng = np.random.default_rng([5, dimension])
    block, _ = make_rows(rng, 300, dimension, dtype, kind)
    rule = AffineRule(np.zeros((6, dimension)), np.full(6, -7.0))
    for start in (-1, 2):
        labels, _, _ = assign(block, rule, np.full(300, start, np.int32))
        assert not labels.any()


@every_shape
@every_dtype
@every_kind
def test_duplicate_rows_get_one_label(dimension, dtype, kind):
    rng = np.random.default_rng([6, dimension])
    _, distinct = make_rows(rng, 5, dimension, dtype, kind)
    rows = distinct[np.arange(600) % 5]
    block = sparse_block(rows) if kind == "csr" else rows
    # directions as far from each row as rounding: any difference in a score would show
    vectors = units(rng, 2, dimension)
    rule = AffineRule(np.concatenate([vectors, vectors + 1e-16 * rng.standard_normal(vectors.shape)]), np.zeros(4))
    labels, _, _ = assign(block, rule, from_nowhere(rows))
    np.testing.assert_array_equal(labels.reshape(-1, 5), np.tile(labels[:5], (120, 1)))
    np.testing.assert_array_equal(labels, defined_scores(rows, rule).argmax(axis=1))


@every_shape
@every_dtype
@every_kind
def test_near_ties_are_settled_in_float64(dimension, dtype, kind):
    rng = np.random.default_rng([7, dimension])
    block, rows = make_rows(rng, N_ROWS, dimension, dtype, kind)
    vectors = units(rng, 4, dimension)
    for gap in (1e-6, 1e-9, 1e-12, 1e-15):
        shifted = vectors + gap * rng.standard_normal(vectors.shape)
        rule = AffineRule(np.concatenate([vectors, shifted, shifted[::-1]]), np.zeros(12))
        wanted = defined_scores(rows, rule).argmax(axis=1)
        in_float32 = (rows.astype(np.float32) @ rule.vectors.astype(np.float32).T).argmax(axis=1).astype(np.int32)
        if gap < 1e-7:  # the planted tie is one that float32 cannot see
            assert (in_float32 != wanted).mean() > 0.1
        # wherever rows come from, the cluster that float32 prefers included
        for before in (from_nowhere(rows), np.full(N_ROWS, 11, np.int32), in_float32):
            labels, _, _ = assign(block, rule, before)
            np.testing.assert_array_equal(labels, wanted)


@every_shape
@every_dtype
@every_kind
def test_near_ties_under_large_offsets(dimension, dtype, kind):
    # next to an offset of 1e4 a float32 score has an ulp of 1e-3, and every addition rounds by half of one
    rng = np.random.default_rng([8, dimension])
    block, rows = make_rows(rng, 8000, dimension, dtype, kind)
    vectors = units(rng, 2, dimension)
    for offset in (1e2, 1e4, -1e5):
        shifted = vectors + 1e-7 * abs(offset) * rng.standard_normal(vectors.shape)
        rule = AffineRule(np.concatenate([vectors, shifted]), np.full(4, offset))
        labels, _, _ = assign(block, rule, from_nowhere(rows))
        np.testing.assert_array_equal(labels, defined_scores(rows, rule).argmax(axis=1), str(offset))


@every_kind
@pytest.mark.parametrize("dimension", [3, 17])
def test_labels_do_not_depend_on_the_block(dimension, kind):
    rng = np.random.default_rng([9, dimension])
    rows = units(rng, 200, dimension).astype(np.float32)
    vectors = units(rng, 3, dimension)
    rule = AffineRule(np.concatenate([vectors, vectors + 1e-16 * rng.standard_normal(vectors.shape)]), np.zeros(6))
    whole, _, _ = assign(sparse_block(rows) if kind == "csr" else rows, rule, from_nowhere(rows))
    for size in (1, 7, 64):
        parts = [rows[start : start + size] for start in range(0, 200, size)]
        labels = [assign(sparse_block(p) if kind == "csr" else p, rule, from_nowhere(p))[0] for p in parts]
        np.testing.assert_array_equal(np.concatenate(labels), whole)


# ---------------------------------------------------------------------------------------------------- bounds


def bounds_for(own, other, turned):
    turned = turned.astype(np.float32)
    order = np.argsort(turned)
    second = turned[order[-2]] if len(turned) > 1 else np.float32(0.0)
    return AngleBounds(own, other, turned, turned[order[-1]], second, int(order[-1]), np.float32(np.inf))


def angles_between(rows, directions):
    """float64 angles (n, K), right to 1e-7 from 0 to pi."""
    rows = rows.astype(np.float64)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    chords = np.sqrt(np.maximum(0.0, 2.0 - 2.0 * rows @ directions.T))
    return 2.0 * np.arcsin(np.minimum(1.0, chords / 2.0))


@every_shape
@every_dtype
@every_kind
@pytest.mark.parametrize("n_clusters", CLUSTERS)
def test_bounded_labels_are_the_arg_max_and_bounds_stay_safe(dimension, n_clusters, dtype, kind):
    rng = np.random.default_rng([10, dimension, n_clusters])
    rows = units(rng, N_ROWS, dimension)
    # some rows sit on directions and some beside them: small angles are where an arc cosine is worst
    directions = units(rng, n_clusters, dimension)
    near = rng.integers(0, n_clusters, 60)
    rows[:30] = directions[near[:30]]
    rows[30:60] = directions[near[30:]] + 1e-4 * rng.standard_normal((30, dimension))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(dtype)
    block = sparse_block(rows) if kind == "csr" else rows
    labels = from_nowhere(rows)
    own, other = np.full(N_ROWS, np.inf, np.float32), np.zeros(N_ROWS, np.float32)
    turned = np.zeros(n_clusters)
    n_looked_at = 0
    for sweep in range(6):
        rule = AffineRule.cosines(directions)
        wanted = defined_scores(rows, rule).argmax(axis=1)
        moved = wanted != labels
        counters = np.bincount(wanted[moved], minlength=n_clusters)
        counters += np.bincount(labels[moved & (labels >= 0)], minlength=n_clusters)
        changed = np.zeros(n_clusters, np.int64)
        before = own.copy()
        n_changed = cpu.assign_bounded(block, cpu.prepare(rule), labels, changed, bounds_for(own, other, turned))
        np.testing.assert_array_equal(labels, wanted)
        assert n_changed == moved.sum()
        np.testing.assert_array_equal(changed, counters)
        if sweep > 0:
            n_looked_at += np.count_nonzero(own != before + turned.astype(np.float32)[labels])
        angles = angles_between(rows, directions)
        slack = 1e-6  # bounds are float32 and compared with a gap of 4e-6
        assert (own >= angles[np.arange(N_ROWS), labels] - slack).all()
        angles[np.arange(N_ROWS), labels] = np.inf
        assert (other <= angles.min(axis=1) + slack).all()
        # a small turn of some directions, none of others
        step = 0.02 * rng.standard_normal(directions.shape) / math.sqrt(dimension)
        after = directions + step * (rng.random((n_clusters, 1)) < 0.7)
        after = after / np.linalg.norm(after, axis=1, keepdims=True)
        stays = (after == directions).all(axis=1)
        angle = 2.0 * np.arcsin(np.linalg.norm(after - directions, axis=1) / 2.0)
        turned = np.where(stays, 0.0, angle * (1 + 1e-6) + 5e-7)
        directions = after
    if n_clusters == 2 and dimension > 2:
        assert n_looked_at < 4 * N_ROWS  # the bounds do pass over rows


def test_reference_bounded_labels_are_plain_labels():
    rng = np.random.default_rng(11)
    rows, directions = units(rng, 100, 4), units(rng, 5, 4)
    labels, changed = from_nowhere(rows), np.zeros(5, np.int64)
    # bounds that claim everything is settled: the reference looks all the same
    bounds = bounds_for(np.zeros(100, np.float32), np.full(100, 9.0, np.float32), np.zeros(5))
    assert reference.assign_bounded(rows, AffineRule.cosines(directions), labels, changed, bounds) == 100
    np.testing.assert_array_equal(labels, (rows @ directions.T).argmax(axis=1))


# ---------------------------------------------------------------------------------------------------------- sums


def hard_sums(kernels, block, weights, labels, is_wanted, dimension, start, rounder=ROUNDER):
    counts, resultants = np.full(len(is_wanted), start), np.full((len(is_wanted), dimension), start)
    kernels.add_rows(block, weights, labels, is_wanted, counts, resultants, rounder)
    return counts, resultants


@every_shape
@every_dtype
@every_kind
@pytest.mark.parametrize("is_weighted", [False, True], ids=["alike", "weighted"])
def test_add_rows(dimension, dtype, kind, is_weighted):
    for n_clusters in CLUSTERS:
        rng = np.random.default_rng([12, dimension, n_clusters])
        block, rows = make_rows(rng, N_ROWS, dimension, dtype, kind)
        weights = rng.gamma(1.0, size=N_ROWS) if is_weighted else None
        labels = rng.integers(0, n_clusters, N_ROWS).astype(np.int32)
        is_wanted = rng.random(n_clusters) < 0.7
        is_wanted[0] = True
        for start in (0.0, 3.5):  # kernels add into what they are given
            counts, resultants = hard_sums(cpu, block, weights, labels, is_wanted, dimension, start)
            oracle = hard_sums(reference, block, weights, labels, is_wanted, dimension, start)
            heavy = N_ROWS if weights is None else weights.sum()
            atol = 2.0 * N_ROWS * U64 * (start + heavy)
            np.testing.assert_allclose(counts, oracle[0], rtol=0, atol=atol)
            np.testing.assert_allclose(resultants, oracle[1], rtol=0, atol=atol)
            assert (counts[~is_wanted] == start).all()
            assert (resultants[~is_wanted] == start).all()
            # the reference itself, by another way
            table = (np.ones(N_ROWS) if weights is None else weights)[:, None] * (
                labels[:, None] == np.arange(n_clusters)
            )
            np.testing.assert_allclose(
                oracle[1][is_wanted], (start + table.T @ rows.astype(float))[is_wanted], atol=atol
            )


@every_kind
@pytest.mark.parametrize("dimension", [3, 17])
def test_float32_rows_are_summed_in_float64(dimension, kind):
    rng = np.random.default_rng([13, dimension])
    rows = units(rng, 4000, dimension).astype(np.float32)
    rows[:, 0] = np.abs(rows[:, 0])
    block = sparse_block(rows) if kind == "csr" else rows
    labels, one = np.zeros(4000, np.int32), np.ones(1, bool)
    q = whole.exponent(4000)
    _, resultants = hard_sums(cpu, block, None, labels, one, dimension, 0.0, whole.rounder(q))
    exact = np.array([math.fsum(column) for column in rows.T.astype(np.float64)])
    bound = 4000 * (U64 * np.abs(rows).sum(axis=0, dtype=np.float64) + 2.0 ** (-q - 1))
    assert (np.abs(resultants[0] - exact) <= bound).all()
    in_float32 = np.cumsum(rows, axis=0, dtype=np.float32)[-1]  # what a float32 sum would give
    assert (np.abs(in_float32 - exact) > bound).any()


def add_one_by_one(rows, parts, clusters, counts, resultants):
    """Parts of rows added in row order, with one rounding per operation."""
    for row, part, k in zip(rows.astype(np.float64), parts, clusters, strict=True):
        counts[k] += part
        resultants[k] += part * row


@every_dtype
@pytest.mark.parametrize("is_weighted", [False, True], ids=["alike", "weighted"])
def test_sparse_sums_are_those_of_one_row_after_the_other(dtype, is_weighted):
    # rows are listed before they are added: several lists of them
    rng = np.random.default_rng(27)
    n_rows, n_clusters, dimension = 5001, 3, 20
    block, rows = make_rows(rng, n_rows, dimension, dtype, "csr")
    weights = rng.gamma(1.0, size=n_rows) if is_weighted else np.ones(n_rows)
    given = weights if is_weighted else None
    labels = rng.integers(-2, n_clusters, n_rows).astype(np.int32)
    shares = rng.dirichlet(np.full(n_clusters, 0.3), n_rows)
    shares[:, 2] *= 3.0 * contract.NO_SHARE  # some count, some do not
    for is_wanted in ([True, True, True], [False, True, False], [False, False, False]):
        is_wanted = np.array(is_wanted)
        found, defined = ([np.full(n_clusters, 0.5), np.full((n_clusters, dimension), 0.5)] for _ in range(2))
        cpu.add_rows(block, given, labels, is_wanted, *found, 0.0)
        kept = (labels >= 0) & is_wanted[labels]
        add_one_by_one(rows[kept], weights[kept], labels[kept], *defined)
        for one, other in zip(found, defined, strict=True):
            np.testing.assert_array_equal(one, other)
        found, defined = ([np.zeros(n_clusters), np.zeros((n_clusters, dimension))] for _ in range(2))
        cpu.add_shares(block, given, shares, is_wanted, *found)
        numbers, clusters = np.nonzero((shares > contract.NO_SHARE) & is_wanted)
        add_one_by_one(rows[numbers], weights[numbers] * shares[numbers, clusters], clusters, *defined)
        for one, other in zip(found, defined, strict=True):
            np.testing.assert_array_equal(one, other)


# -------------------------------------------------------------------------------------------------------- slopes


@every_kind
@every_dtype
@pytest.mark.parametrize("dimension", [3, 40])
def test_slopes_are_vectors_that_much_longer(dimension, dtype, kind):
    rng = np.random.default_rng([28, dimension])
    block, rows = make_rows(rng, N_ROWS, dimension, dtype, kind)
    directions, offsets = units(rng, 5, dimension), rng.standard_normal(5)
    slopes = np.array([0.0, 1.0, 7.3, 300.0, 1e5])
    weights = rng.gamma(1.0, size=N_ROWS)
    outcomes = []
    for rule in (AffineRule(directions, offsets, slopes=slopes), AffineRule(slopes[:, None] * directions, offsets)):
        assert rule.shape == (5, dimension)
        prepared = cpu.prepare(rule)
        bits = [bits_of(block, prepared, weights, N_ROWS) for bits_of in (softmax_bits, soft_bits)]
        if kind == "csr":
            assert "vectors" not in vars(prepared)  # a K x D array that the softmax of sparse rows does without
        bits.append(assign(block, rule, from_nowhere(rows))[0].tobytes())
        for dtype_out in DTYPES:
            table = np.empty((N_ROWS, 5), dtype_out)
            cpu.scores(block, prepared, table)
            bits.append(table.tobytes())
        table = np.empty((N_ROWS, 5))
        reference.scores(block, rule, table)
        outcomes.append([*bits, table.tobytes()])
    assert outcomes[0] == outcomes[1]


# ------------------------------------------------------------------------------------------------------- softmax


@every_dtype
def test_any_number_of_clusters_of_sparse_rows(dtype):
    # scores are summed in registers, 32 columns at a time and then what is left
    for n_clusters in range(1, 70):
        rng = np.random.default_rng([29, n_clusters])
        block, rows = make_rows(rng, 12, 30, dtype, "csr")
        rule = make_rule(rng, n_clusters, 30, 50.0, True)
        table, log_evidence = np.empty((12, n_clusters)), np.empty(12)
        cpu.responsibilities(block, cpu.prepare(rule), table, log_evidence)
        wanted, wanted_evidence = np.empty((12, n_clusters)), np.empty(12)
        reference.responsibilities(block, rule, wanted, wanted_evidence)
        np.testing.assert_allclose(table, wanted, rtol=0, atol=1e-12)
        np.testing.assert_allclose(log_evidence, wanted_evidence, rtol=1e-14)
        np.testing.assert_array_equal(
            assign(block, rule, from_nowhere(rows))[0], defined_scores(rows, rule).argmax(axis=1)
        )


@pytest.mark.parametrize("level", [0.0, -3e4, 1e7])
def test_a_row_of_one_cluster_alone_is_shared_as_by_exponentials(level):
    rng = np.random.default_rng(30)
    gaps = np.concatenate(
        [[0.0, 1e-9, 700.0, 707.9, 708.0, 708.1, 709.0, 709.1, 1e4, np.inf], rng.uniform(0, 1500, 90)]
    )
    for gap in gaps:
        scores = level + np.array([-2e3, -gap, 0.0, -gap, -1e5, -np.inf])
        quick, plain = np.empty(6), np.empty(6)
        assert sparse._share_row(scores, quick) == choose.softmax_row(scores, plain)
        np.testing.assert_array_equal(quick, plain)


@every_shape
@every_dtype
@every_kind
def test_responsibilities(dimension, dtype, kind):
    for n_clusters in CLUSTERS:
        rng = np.random.default_rng([14, dimension, n_clusters])
        block, rows = make_rows(rng, N_ROWS, dimension, dtype, kind)
        for rule in rules(rng, n_clusters, dimension):
            table, log_evidence = np.full((N_ROWS, n_clusters), np.nan), np.full(N_ROWS, np.nan)
            cpu.responsibilities(block, cpu.prepare(rule), table, log_evidence)
            wanted, wanted_evidence = np.empty((N_ROWS, n_clusters)), np.empty(N_ROWS)
            reference.responsibilities(block, rule, wanted, wanted_evidence)
            doubt = soft_doubt(kind, rows, rule)
            np.testing.assert_allclose(log_evidence, wanted_evidence, rtol=1e-14, atol=doubt + 1e-14)
            # d log r <= 2 doubt, and r <= 1
            np.testing.assert_allclose(table, wanted, rtol=0, atol=math.expm1(min(2 * doubt, 1.0)) + 1e-14)
            np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-14 * n_clusters)
            narrow = np.empty((N_ROWS, n_clusters), np.float32)
            cpu.responsibilities(block, cpu.prepare(rule), narrow, log_evidence)
            np.testing.assert_allclose(narrow, table, rtol=0, atol=4 * U32)


@every_shape
@every_dtype
@every_kind
@pytest.mark.parametrize("is_weighted", [False, True], ids=["alike", "weighted"])
def test_add_soft(dimension, dtype, kind, is_weighted):
    for n_clusters in CLUSTERS:
        rng = np.random.default_rng([15, dimension, n_clusters])
        block, rows = make_rows(rng, N_ROWS, dimension, dtype, kind)
        weights = rng.gamma(1.0, size=N_ROWS) if is_weighted else None
        heavy = N_ROWS if weights is None else weights.sum()
        for rule in rules(rng, n_clusters, dimension):
            results = []
            for kernels in (cpu, reference):
                counts, resultants = np.full(n_clusters, 2.5), np.full((n_clusters, dimension), 2.5)
                evidence = kernels.add_soft(block, kernels.prepare(rule), weights, counts, resultants)
                results.append((counts, resultants, evidence))
            (counts, resultants, evidence), wanted = results
            doubt = soft_doubt(kind, rows, rule)
            atol = heavy * (math.expm1(min(2 * doubt, 1.0)) + 2.0 * N_ROWS * U64)
            np.testing.assert_allclose(counts, wanted[0], rtol=0, atol=atol)
            np.testing.assert_allclose(resultants, wanted[1], rtol=0, atol=atol)
            assert abs(evidence - wanted[2]) <= heavy * (doubt + 1e-13 * (1.0 + size_of(rule)))
            assert math.isclose((counts - 2.5).sum(), heavy, rel_tol=1e-12)


@every_shape
@every_dtype
@every_kind
def test_a_transposed_sum_is_the_same_sum(dimension, dtype, kind):
    # passes hand sparse kernels the transpose of a (D, K) array
    rng = np.random.default_rng([16, dimension])
    block, _ = make_rows(rng, 200, dimension, dtype, kind)
    rule = make_rule(rng, 5, dimension, 50.0, True)
    plain, turned = np.zeros((5, dimension)), np.zeros((dimension, 5)).T
    first = cpu.add_soft(block, cpu.prepare(rule), None, np.zeros(5), plain)
    assert first == cpu.add_soft(block, cpu.prepare(rule), None, np.zeros(5), turned)
    np.testing.assert_allclose(turned, plain, rtol=1e-12, atol=1e-12)


@every_shape
@every_dtype
@every_kind
@pytest.mark.parametrize("gap", [1e3, 1e6, 1e30, np.inf])
def test_a_hopeless_cluster_gets_nothing_and_no_nan(dimension, dtype, kind, gap):
    rng = np.random.default_rng([17, dimension])
    block, rows = make_rows(rng, 300, dimension, dtype, kind)
    rule = AffineRule(units(rng, 4, dimension), np.array([0.0, -gap, -1.0, -gap]))
    prepared = cpu.prepare(rule)
    table, log_evidence = np.empty((300, 4)), np.empty(300)
    cpu.responsibilities(block, prepared, table, log_evidence)
    assert not table[:, [1, 3]].any()
    np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-14)
    # float32 scores next to an offset of 1e6 are coarse, next to 0 and -1 they are not
    np.testing.assert_allclose(
        log_evidence, np.logaddexp(*defined_scores(rows, rule)[:, [0, 2]].T), atol=4 * (dimension + 4) * U32
    )
    counts, resultants = np.zeros(4), np.zeros((4, dimension))
    assert np.isfinite(cpu.add_soft(block, prepared, None, counts, resultants))
    assert not counts[[1, 3]].any()
    assert not resultants[[1, 3]].any()
    assert np.isfinite(resultants).all()
    np.testing.assert_array_equal(assign(block, rule, from_nowhere(rows))[0], defined_scores(rows, rule).argmax(axis=1))


def test_long_vectors_against_opposite_rows():
    # gaps of 2e5 nats: every exponential but the best underflows
    for dimension in (2, 17):
        rows = np.zeros((4, dimension), np.float32)
        rows[[0, 1], 0], rows[[2, 3], 1] = (1.0, -1.0), (1.0, -1.0)
        vectors = np.zeros((2, dimension))
        vectors[:, 0] = 1e5, -1e5
        for block in (rows, rows.astype(np.float64), sparse_block(rows)):
            table, log_evidence = np.empty((4, 2)), np.empty(4)
            cpu.responsibilities(block, cpu.prepare(AffineRule(vectors, np.zeros(2))), table, log_evidence)
            np.testing.assert_array_equal(table, [[1, 0], [0, 1], [0.5, 0.5], [0.5, 0.5]])
            np.testing.assert_allclose(log_evidence, [1e5, 1e5, math.log(2), math.log(2)], rtol=1e-15)


def test_a_float32_row_keeps_its_digits_against_a_long_vector():
    # above the limit of slopes the scores must be float64: in float32 the evidence would be off by up to 1e-2
    rng = np.random.default_rng(18)
    rows = units(rng, 200, 64).astype(np.float32)
    for slope, atol in ((0.99 * contract.FLOAT32_SLOPE_LIMIT, 2e-2), (1.01 * contract.FLOAT32_SLOPE_LIMIT, 1e-8)):
        rule = AffineRule(slope * units(rng, 3, 64), np.zeros(3))
        table, log_evidence = np.empty((200, 3)), np.empty(200)
        cpu.responsibilities(rows, cpu.prepare(rule), table, log_evidence)
        wanted = np.empty(200)
        reference.responsibilities(rows, rule, np.empty((200, 3)), wanted)
        np.testing.assert_allclose(log_evidence, wanted, rtol=0, atol=atol)


@every_shape
@every_dtype
@every_kind
def test_a_common_offset_changes_no_responsibility(dimension, dtype, kind):
    # a float32 score next to an offset of 1e6 has an ulp of 0.06; the limit of slopes allows 2e-3 nats of doubt
    rng = np.random.default_rng([26, dimension])
    block, _ = make_rows(rng, N_ROWS, dimension, dtype, kind)
    vectors, offsets = units(rng, 5, dimension), rng.standard_normal(5)
    tables = np.empty((3, N_ROWS, 5))
    for table, common in zip(tables, (0.0, 1e6, -1e7), strict=True):
        prepared = cpu.prepare(AffineRule(vectors, offsets + common))
        cpu.responsibilities(block, prepared, table, np.empty(N_ROWS))
    np.testing.assert_allclose(tables[1:], tables[:1].repeat(2, axis=0), rtol=0, atol=2e-3)


# ----------------------------------------------------------------------------------------------------------- exp


def test_exponential_is_within_two_units_in_the_last_place():
    rng = np.random.default_rng(19)
    special = [-0.0, 0.0, -5e-324, -1e-300, -1e-16, -(2.0**-53), -1.0, -math.log(2) / 2, -math.log(2), -707.9, -708.0]
    halves = [-(n + 0.5) * math.log(2) for n in range(0, 1021, 17)]  # where the reduction turns over
    many = np.concatenate([special, halves, -rng.uniform(0, 708, 1500), -(10.0 ** rng.uniform(-18, 2.85, 1500))])
    for x in many[many >= -708.0]:
        exact = mpmath.exp(mpmath.mpf(float(x)))
        got = exp_nonpositive(x)
        assert abs(mpmath.mpf(got) - exact) <= 2.0 * math.ulp(float(exact)), x
        assert abs(got - math.exp(x)) <= 2.0 * math.ulp(math.exp(x)), x
    assert exp_nonpositive(-0.0) == exp_nonpositive(0.0) == 1.0


@pytest.mark.parametrize("x", [-708.0000001, -745.0, -746.0, -1e5, -1e308, -np.inf])
def test_exponential_is_zero_where_exp_all_but_vanishes(x):
    assert exp_nonpositive(x) == 0.0
    assert math.exp(x) < 1e-307


# --------------------------------------------------------------------------------------------------------- draws

# Random123's known answers, kat_vectors of philox4x32-10: key, counter, output
KNOWN_ANSWERS = [
    ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0xA4093822, 0x299F31D0),
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("key", "counter", "answer"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(key, counter, answer):
    assert tuple(int(word) for word in philox(*key, *counter)) == answer


def test_a_uniform_is_the_top_52_of_64_bits_of_a_published_answer():
    high, low = KNOWN_ANSWERS[0][2][:2]
    wanted = (((high << 32) | low) >> 12) * 2.0**-52 + 2.0**-53
    assert uniform(0, 0, 0) == wanted
    assert reference.philox_uniform((0, 0), np.array([0]))[0] == wanted


def test_uniforms_of_both_implementations_are_equal():
    rng = np.random.default_rng(21)
    rows = np.concatenate([np.arange(50), 2**32 - 5 + np.arange(10), rng.integers(0, 2**62, 50)])
    for key in [(0, 0), (0xFFFFFFFF, 0xFFFFFFFF), *rng.integers(0, 2**32, (20, 2)).tolist()]:
        wanted = reference.philox_uniform(tuple(key), rows)
        assert [uniform(*key, row) for row in rows] == wanted.tolist()
        assert ((wanted > 0.0) & (wanted < 1.0)).all()
        assert len(np.unique(wanted)) == len(rows)  # also across the 32-bit edge of the counter


FALSE_ALARM = 1e-6  # of each chi-square test below; keys are fixed, so a test that passes goes on passing


def chi_square(labels, probabilities):
    """Pearson's statistic over its threshold: above 1 is a failure."""
    seen = np.bincount(labels, minlength=len(probabilities))
    expected = len(labels) * probabilities
    return ((seen - expected) ** 2 / expected).sum() / stats.chi2.isf(FALSE_ALARM, len(probabilities) - 1)


def test_uniforms_of_consecutive_rows_are_uniform_and_independent():
    key, n_rows = (77, 99), 40_000
    values = reference.philox_uniform(key, np.arange(n_rows))
    cells = (8 * values).astype(int)
    assert chi_square(cells, np.full(8, 1 / 8)) < 1.0, key
    pairs = 8 * cells[0::2] + cells[1::2]
    assert chi_square(pairs, np.full(64, 1 / 64)) < 1.0, key
    # planted: a counter that moves every second row
    stuck = (8 * reference.philox_uniform(key, np.arange(n_rows) // 2)).astype(int)
    assert chi_square(8 * stuck[0::2] + stuck[1::2], np.full(64, 1 / 64)) > 1.0, key


def test_a_uniform_beyond_the_rounded_sum_takes_the_last_cluster_with_weight():
    # thirds add up to 1 - 2^-53 or so; a uniform above the sum must not fall back to cluster 0
    responsibilities = np.array([0.3, 0.3, 0.4 - 2.0**-50, 0.0])
    assert choose.draw_label(responsibilities, 1.0 - 2.0**-53) == 2
    assert choose.draw_label(responsibilities, 0.3) == 1
    assert choose.draw_label(np.array([1.0]), 1.0 - 2.0**-53) == 0


# ------------------------------------------------------------------------------------------------- equal bits


def soft_bits(block, prepared, weights, n_rows):
    sums = np.zeros(prepared.rule.shape[0]), np.zeros(prepared.rule.shape)
    return cpu.add_soft(block, prepared, weights, *sums), sums[0].tobytes(), sums[1].tobytes()


def hard_bits(block, prepared, weights, n_rows):
    sums = np.zeros(6), np.zeros(prepared.rule.shape)
    cpu.add_rows(block, weights, (np.arange(n_rows) % 6).astype(np.int32), np.ones(6, bool), *sums, ROUNDER)
    return sums[0].tobytes(), sums[1].tobytes()


def softmax_bits(block, prepared, weights, n_rows):
    table, log_evidence = np.empty((n_rows, prepared.rule.shape[0])), np.empty(n_rows)
    cpu.responsibilities(block, prepared, table, log_evidence)
    return table.tobytes(), log_evidence.tobytes()


@pytest.mark.parametrize("dimension", [3, 16, 17])
@every_kind
@pytest.mark.parametrize("bits_of", [soft_bits, hard_bits, softmax_bits])
def test_bits_do_not_depend_on_where_arrays_lie(dimension, kind, bits_of):
    # A compiled loop can have two versions, chosen by whether its arrays seem to overlap. Where a sum that may be
    # regrouped shares a loop with a store, the choice shows: in 1 call of 60, once, by the luck of the heap.
    rng = np.random.default_rng([24, dimension])
    block, _ = make_rows(rng, 600, dimension, np.float64, kind)
    prepared = cpu.prepare(make_rule(rng, 6, dimension, 4.0, True))
    weights = rng.gamma(1.0, size=600)
    in_the_way, seen = [], set()
    for length in rng.integers(1, 20_000, 600):
        in_the_way = [*in_the_way[-40:], np.empty(length, np.uint8)]
        seen.add(bits_of(block, prepared, weights.copy(), 600))
    assert len(seen) == 1


# ------------------------------------------------------------------------------------------------------ compiling


def test_loops_for_few_columns_are_made_once():
    assert dense.small(3) is dense.small(3)
    assert dense.small(3) is not dense.small(4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "dimension",
    # each number of columns up to 16 has loops of its own: those of other tests, and all of them in `make test-slow`
    [*(pytest.param(one, marks=() if one in (2, 3, 4, 5, 8, 16) else pytest.mark.slow) for one in range(1, 17)), 20],
)
def test_labels_and_sums_in_one_reading_are_those_of_two(dimension, dtype):
    """With ties, refusals, rivals, weights, and tiles that are full or not."""
    rng = np.random.default_rng(dimension)
    for n_clusters, n_rows, floor in ((1, 5, -np.inf), (3, 511, 0.3), (7, 1500, -np.inf), (9, 3, 0.5), (30, 2049, 0.9)):
        rows = units(rng, n_rows, dimension).astype(dtype)
        rows[n_rows // 2] = rows[0]
        vectors = units(rng, n_clusters, dimension)
        vectors[[0, -1]] = rows[0]
        offsets = rng.standard_normal(n_clusters) if n_clusters == 9 else np.zeros(n_clusters)
        rivals = rng.random(n_clusters) < 0.3 if n_clusters == 7 else None
        rule = AffineRule(vectors, offsets, floor, rivals)
        before = rng.integers(-1, n_clusters, n_rows).astype(np.int32)
        for weights in (None, rng.random(n_rows)):
            outcomes = []
            for kernels in (cpu, reference):
                labels, changed = before.copy(), np.zeros(n_clusters, np.int64)
                counts, resultants = np.zeros(n_clusters), np.zeros((n_clusters, dimension))
                prepared = kernels.prepare(rule)
                sums = counts, resultants
                n_changed = kernels.assign_and_add(rows, prepared, weights, labels, changed, *sums, ROUNDER)
                outcomes.append((n_changed, labels, changed, counts, resultants))
            labels, changed = before.copy(), np.zeros(n_clusters, np.int64)
            counts, resultants = np.zeros(n_clusters), np.zeros((n_clusters, dimension))
            n_changed = cpu.assign_best(rows, cpu.prepare(rule), labels, changed)
            cpu.add_rows(rows, weights, labels, np.ones(n_clusters, np.bool_), counts, resultants, ROUNDER)
            fused, slow = outcomes
            assert fused[0] == slow[0] == n_changed
            for one, other in zip(fused[1:], (labels, changed, counts, resultants), strict=True):
                np.testing.assert_array_equal(one, other)
            for kernels in (cpu, reference):  # without counting clusters
                uncounted = before.copy()
                assert kernels.assign_best(rows, kernels.prepare(rule), uncounted, None) == n_changed
                np.testing.assert_array_equal(uncounted, labels)
            np.testing.assert_array_equal(fused[1], slow[1])
            np.testing.assert_array_equal(fused[2], slow[2])
            np.testing.assert_allclose(fused[3], slow[3], rtol=1e-13)
            np.testing.assert_allclose(fused[4], slow[4], rtol=1e-12, atol=1e-12)
