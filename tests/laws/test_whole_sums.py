"""Laws of sums over labelled rows (sums/whole.py): whole numbers of quanta, so nothing but the labels decides a bit."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from armillary import DDPvMFMeans, DPvMFMeans, SphericalKMeans
from armillary.distributions import tangent_gaussian
from armillary.engines import cpu_sets
from armillary.engines.cpu import Passes
from armillary.engines.cpu_labels import CpuLabels
from armillary.exceptions import InputError
from armillary.kernels.jit import kernel
from armillary.kernels.rows.simd import whole_product
from armillary.kernels.select import kernels_for
from armillary.points import as_points
from armillary.sums import whole
from armillary.sums.directional import DirectionalStatistics, on_grid
from armillary.workers import Workers

DEVICES = ("cpu", "reference")
FEW = ((1, 3), (50, 2), (150, 3), (60, 16), (60, 17), (40, 60))
MANY = ((700, 3), (300, 16), (300, 17), (200, 60))
few_and_many = [FEW, pytest.param(MANY, marks=pytest.mark.slow)]


def units(rng, n, n_features, dtype):
    rows = rng.standard_normal((n, n_features))
    rows[rng.random((n, n_features)) < 0.3] = 0.0
    rows[:, 0] += 0.1
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(dtype)


def defined(rows, weights, labels, n_clusters):
    """Sums by the rule, in exact numbers: q from the total, round half to even, add."""
    one = [Fraction(1)] * len(rows) if weights is None else [Fraction(weight) for weight in weights.tolist()]
    total, power = Fraction(float(sum(one))), -1100  # correctly rounded, as of a cut that does not matter
    while Fraction(2) ** power < total:
        power += 1
    q = 50 - power
    sums = [[Fraction(0)] * (rows.shape[1] + 1) for _ in range(n_clusters)]
    for row, weight, label in zip(rows.tolist(), one, labels.tolist(), strict=True):
        if label >= 0:
            weight = max(weight, Fraction(2) ** -q) if weight else weight
            for place, value in enumerate([1.0, *row]):
                product = Fraction(float(weight) * value)  # one float64 product
                sums[label][place] += Fraction(round(product * Fraction(2) ** q)) / Fraction(2) ** q
    table = np.array([[float(value) for value in line] for line in sums])
    return q, table[:, 0], table[:, 1:]


def assert_same(one, other):
    assert one.q == other.q
    assert one.counts.tobytes() == other.counts.tobytes()
    assert (one.resultants + 0.0).tobytes() == (other.resultants + 0.0).tobytes()


def passes_over(rows, weights=None, device="cpu", workers=None, **options):
    return Passes(as_points(rows, "test", weights, **options), kernels_for(device), workers or Workers(1))


def weights_of(kind, rng, n):
    match kind:
        case "none":
            return None
        case "gamma":
            return rng.gamma(0.5, size=n) + 1e-9
        case "tiny":
            return np.ldexp(rng.random(n) + 0.5, -890)
        case "huge":
            return np.ldexp(rng.random(n) + 0.5, 880)
        case "any":
            return np.ldexp(rng.random(n) + 0.5, rng.integers(-899, 880, size=n))
        case "near":  # a sum next to a power of two, whose plain sum may fall on either side
            weights = rng.random(n) + 0.1
            weights[-1] = 0.0
            target = 2.0 ** math.ceil(math.log2(weights.sum() + 1.0))
            weights[-1] = target - math.fsum(weights)
            return weights
    raise AssertionError(kind)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["none", "gamma", "tiny", "huge", "any", "near"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shapes", few_and_many, ids=["few", "many"])
def test_sums_are_those_of_the_rule(device, kind, dtype, shapes):
    for seed, (n, n_features) in enumerate(shapes):
        rng = np.random.default_rng(seed)
        rows, labels = units(rng, n, n_features, dtype), rng.integers(-1, 4, size=n).astype(np.int32)
        weights = weights_of(kind, rng, n)
        q, counts, resultants = defined(rows, weights, labels, 4)
        for form in (rows, sp.csr_array(rows)):
            found = passes_over(form, weights, device).sums(labels, 4)
            assert_same(found, DirectionalStatistics(counts, resultants, q))


def test_a_fused_product_or_another_rounding_would_be_seen():
    """Values that tell: products that a fused multiply-add rounds elsewhere, and ties."""
    rng = np.random.default_rng(0)
    rows, weights = units(rng, 3000, 3, np.float64), rng.random(3000)
    q = whole.weights_exponent([weights])
    magic = np.longdouble(whole.rounder(q))
    exact = weights[:, None].astype(np.longdouble) * rows
    fused = (exact + magic).astype(np.float64) - whole.rounder(q)
    assert (fused != whole.rounded(weights[:, None] * rows, q)).any()
    halves = np.ldexp(np.arange(-9.0, 10.0), -q - 1)
    even = np.ldexp(np.round(np.arange(-9.0, 10.0) / 2.0), -q)  # NumPy rounds ties to even
    assert whole.rounded(halves, q).tolist() == even.tolist()
    assert whole.rounded(-halves, q).tolist() == (-even).tolist()
    ties = np.tile(np.ldexp([1.0, 3.0, -5.0], -40 - 1), (1 << 10, 1))  # q = 40 here
    ties[:, 0] += 0.5
    labels = np.zeros(len(ties), np.int32)
    for device in DEVICES:
        passes = passes_over(units(rng, 1 << 10, 3, np.float64), device=device)
        assert passes.q == 40
        counts, sums = np.zeros(1), np.zeros((1, 3))
        passes.kernels.add_rows(ties, None, labels, np.ones(1, bool), counts, sums, whole.rounder(40))
        assert sums[0].tolist() == [1024 * 0.5, 1024 * 2.0**-39, -1024 * 2.0**-39]


@pytest.mark.parametrize("kind", ["none", "gamma", "near"])
def test_cuts_orders_threads_and_formats_change_no_bit(tmp_path, kind):
    rng = np.random.default_rng(5)
    for n, n_features in ((9000, 3), (5000, 16), (3000, 40)):
        rows, labels = units(rng, n, n_features, np.float32), rng.integers(-1, 6, size=n).astype(np.int32)
        weights = weights_of(kind, rng, n)
        expected = passes_over(rows, weights).sums(labels, 6)
        for n_threads in (2, 3, 8):
            with Workers(n_threads) as workers:
                assert_same(passes_over(rows, weights, workers=workers).sums(labels, 6), expected)
                csr = passes_over(sp.csr_array(rows), weights, workers=workers)
                assert_same(csr.sums(labels, 6), expected)
        order = rng.permutation(n)
        shuffled = passes_over(rows[order], None if weights is None else weights[order]).sums(labels[order], 6)
        assert_same(shuffled, expected)
        if np.array_equal(rows, as_points(rows.astype(np.float64), "test").matrix):  # pragma: no cover
            assert_same(passes_over(rows.astype(np.float64), weights).sums(labels, 6), expected)
        np.save(tmp_path / "rows.npy", rows)
        assert_same(passes_over(np.load(tmp_path / "rows.npy", mmap_mode="r"), weights).sums(labels, 6), expected)
        # parts of a set have the grid of the set
        total = DirectionalStatistics.zero(6, n_features, expected.q)
        cuts = [0, *np.sort(rng.choice(n, 5)).tolist(), n]
        for start, stop in sorted(pairwise(cuts), key=lambda _: rng.random()):
            if start < stop:
                whole_set = as_points(rows, "test", weights)
                part = Passes(whole_set.between(start, stop).placed(start, whole_set.q), kernels_for("cpu"), Workers(1))
                total = total.merge(part.sums(labels[start:stop], 6))
        assert_same(total, expected)


def test_weight_two_is_the_row_twice():
    """To the bit in counts. A row of weight 2 is rounded once, two are rounded twice: half a quantum a row more."""
    rng = np.random.default_rng(6)
    for n_features in (3, 40):
        rows, labels = units(rng, 500, n_features, np.float64), rng.integers(0, 3, size=500).astype(np.int32)
        twice = passes_over(np.repeat(rows, 2, axis=0)).sums(np.repeat(labels, 2), 3)
        once = passes_over(rows, np.full(500, 2.0)).sums(labels, 3)
        assert once.q == twice.q
        assert once.counts.tolist() == twice.counts.tolist()
        sizes = np.bincount(labels)[:, None]
        assert (np.abs(once.resultants - twice.resultants) <= 1.5 * sizes * math.ldexp(1.0, -once.q)).all()
        full = passes_over(np.repeat(rows, 2, axis=0), np.ones(1000)).sums(np.repeat(labels, 2), 3)
        assert_same(full, twice)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["none", "gamma", "any"])
def test_rows_that_move_leave_the_sums_of_their_new_labels(device, kind):
    rng = np.random.default_rng(7)
    for n, n_features in ((400, 3), (300, 17)):
        rows, weights = units(rng, n, n_features, np.float32), weights_of(kind, rng, n)
        for form in (rows, sp.csr_array(rows)):
            passes = passes_over(form, weights, device)
            labels = rng.integers(-3, 5, size=n).astype(np.int32)
            sums = passes.sums(labels, 5)
            for _ in range(4):
                numbers = np.sort(rng.choice(n, rng.integers(0, 60), replace=False))
                fresh = rng.integers(-3, 5, size=len(numbers)).astype(np.int32)
                sums = passes.moved(sums, numbers, labels[numbers], fresh)
                labels[numbers] = fresh
                assert_same(sums, passes.sums(labels, 5))


def test_added_and_removed_is_nothing():
    rng = np.random.default_rng(8)
    rows, weights = units(rng, 60, 4, np.float64), rng.gamma(1.0, size=60)
    passes = passes_over(rows, weights)
    sums = passes.sums(rng.integers(0, 3, size=60).astype(np.int32), 3)
    for row, weight in zip(rows, weights, strict=True):
        added = sums.add(1, row, weight)
        assert_same(added.remove(1, row, weight), sums.on(added.q))
    nothing = passes.moved(sums, np.arange(60), np.full(60, 2, np.int32), np.full(60, -1, np.int32))
    assert_same(passes.moved(nothing, np.arange(60), np.full(60, -1, np.int32), np.full(60, 2, np.int32)), sums)


def test_statistics_of_two_grids_meet_on_the_coarser():
    rng = np.random.default_rng(9)
    few, many = units(rng, 30, 3, np.float64), units(rng, 5000, 3, np.float64)
    one = passes_over(few).sums(np.zeros(30, np.int32), 1)
    two = passes_over(many).sums(np.zeros(5000, np.int32), 1)
    both = one.merge(two)
    assert (one.q, two.q, both.q) == (45, 37, 37)
    assert both.resultants.tolist() == (whole.rounded(one.resultants, 37) + two.resultants).tolist()
    assert_same(two.merge(one), both)
    doubled = two.merge(two)
    assert doubled.q == 36
    assert doubled.counts.tolist() == [10_000.0]
    forgotten = both.scale(0.3)
    assert forgotten.q == whole.exponent(float(forgotten.counts.sum()))
    assert_same(on_grid(forgotten.counts, forgotten.resultants), forgotten)
    plain = DirectionalStatistics(np.array([2.0]), np.array([[0.1, 0.2, 0.3]]))
    assert plain.merge(both).q is None
    assert on_grid(plain.counts, plain.resultants).q == 49


def test_totals_that_float64_cannot_scale_get_a_sentence():
    for total in (math.inf, math.nan, -1.0):
        with pytest.raises(InputError, match="finite and not negative"):
            whole.exponent(total)
    for total in (2.0**1001, 2.0**-1002):
        with pytest.raises(InputError, match="between 2"):
            whole.exponent(total)
    assert [whole.exponent(total) for total in (0.0, 1.0, 1.5, 2.0, 2.5, 2.0**900, 2.0**-900)] == [
        50, 50, 49, 49, 48, -850, 950
    ]  # fmt: skip


# --------------------------------------------------------------------------------------------- sets of rows


def limbs_defined(values, bound, q):
    """Sums (2, ...) of numbers (n, ...) in two limbs, in exact numbers."""
    first = q - math.ceil(math.log2(bound))
    sums = np.zeros((2, *values.shape[1:]))
    for place in np.ndindex(*values.shape[1:]):
        totals = [Fraction(0), Fraction(0)]
        for value in values[(slice(None), *place)].tolist():
            left = Fraction(value)
            for limb, bits in enumerate((first, q + first + 1)):
                part = Fraction(round(left * Fraction(2) ** bits)) / Fraction(2) ** bits
                totals[limb] += part
                left -= part
        sums[(slice(None), *place)] = [float(total) for total in totals]
    return sums


def test_two_limbs_are_those_of_the_rule():
    rng = np.random.default_rng(0)
    rows, base = units(rng, 300, 3, np.float64), np.array([[0.6, 0.0, 0.8]])
    rows[:100] = units(rng, 100, 3, np.float64) * 1e-7 + base  # squares far below the first grid
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    q = whole.exponent(300)
    bounds = tangent_gaussian.sum_bounds(3)
    rounders = np.array([whole.two_limbs(q, bound) for bound in bounds])
    numbers, edges = np.arange(300, dtype=np.int32), np.array([0, 300])
    for weights in (None, rng.random(300)):
        wanted = {"with_scatter": True, "with_curvature": False}
        found = kernels_for("reference").tangent_sums(rows, numbers, edges, base, weights, rounders, **wanted)[0]
        vectors = tangent_gaussian.log_map(rows, base[0]).vectors
        heavy = vectors if weights is None else weights[:, None] * vectors
        np.testing.assert_array_equal(found[:, :3], limbs_defined(heavy, bounds[0], q))
        squares = np.triu(heavy[:, :, None] * vectors[:, None, :])
        np.testing.assert_array_equal(found[:, 3:12].reshape(2, 3, 3), limbs_defined(squares, bounds[1], q))
        compiled = kernels_for("cpu").tangent_sums(rows, numbers, edges, base, weights, rounders, **wanted)[0]
        np.testing.assert_allclose(compiled.sum(axis=0), found.sum(axis=0), rtol=1e-12, atol=1e-13)
    # a row's products are added as the rule says, also by vectors with a ragged end
    lines = np.zeros((2, 24))
    lines[:, :19] = rng.standard_normal((2, 19)) * 10.0 ** rng.integers(-12, 0, (2, 19))
    summed = np.array(products(lines[0], lines[1], 19, *rounders[1]))
    np.testing.assert_array_equal(summed, limbs_defined(lines[0] * lines[1], bounds[1], q))


@kernel
def products(one, two, n_rows, first, second):
    return whole_product(one, two, n_rows, first, second)


@pytest.mark.parametrize("n_features", [2, 3, 9])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_sums_over_sets_depend_neither_on_pieces_nor_on_order(monkeypatch, n_features, is_weighted):
    rng = np.random.default_rng(n_features)
    rows = units(rng, 1500, n_features, np.float64)
    bases = rows[:2].copy()
    rows[-3:-1], rows[-1] = -bases, bases[0]  # antipodes, and the base itself
    weights = rng.random(1500) if is_weighted else None
    answers = []
    for piece_rows, n_threads, is_mixed, form in ((4096, 1, False, rows), (64, 3, False, rows), (37, 1, True, rows)):
        monkeypatch.setattr(cpu_sets, "_PIECE_ROWS", piece_rows)
        order = rng.permutation(1500).astype(np.int32) if is_mixed else np.arange(1500, dtype=np.int32)
        own = None if weights is None else [weights[order], 1.0 - weights[order]]
        with Workers(n_threads) as workers:
            sets = cpu_sets.CpuSets.of(passes_over(form, workers=workers), [order, order], own)
            sums = sets.tangent_sums(bases, with_curvature=True)
            answers.append([sets.counts, sets.totals(), *sums, *sets.tangent_sums(bases, with_scatter=False)[:1]])
            sparse = cpu_sets.CpuSets.of(passes_over(sp.csr_array(form), workers=workers), [order, order], own)
            np.testing.assert_array_equal(sparse.totals(), sets.totals())
    for answer in answers[1:]:
        for one, other in zip(answer, answers[0], strict=True):
            np.testing.assert_array_equal(one, other)


# ------------------------------------------------------------------------------------------- over whole fits


class Watch:
    """Every step's sums beside those of a full pass."""

    def __init__(self, monkeypatch):
        self.n_moved, self.n_full = 0, 0
        own = CpuLabels.sweep

        def sweep(labels, passes, rule):
            known = labels._statistics if labels._are_few_moving(passes) else None
            is_moving = known is not None and len(known.counts) == len(rule.offsets)
            if known is not None:
                assert_same(known, passes.sums(labels.values, len(known.counts)))
            self.n_moved += is_moving
            self.n_full += not is_moving
            found = own(labels, passes, rule)
            assert_same(found[1], passes.sums(labels.values, len(rule.offsets)))
            return found

        monkeypatch.setattr(CpuLabels, "sweep", sweep)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly"])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(("n_features", "dtype"), [(3, np.float32), (3, np.float64), (24, np.float32)])
def test_movers_only_are_full_sums_over_whole_fits(monkeypatch, n_features, dtype, is_sparse, algorithm, n_threads):
    watch = Watch(monkeypatch)
    rng = np.random.default_rng(n_features)
    rows = units(rng, 1500, n_features, dtype)
    rows = np.concatenate([rows, rows[:40]])  # and clusters that lose all rows
    for weights in (None, rng.gamma(0.3, size=len(rows)) * (rng.random(len(rows)) < 0.9)):
        form = sp.csr_array(rows) if is_sparse else rows
        init = np.concatenate([rows[:10], rows[:4]])
        options = {"init": init, "tol": 0.0, "max_iter": 40, "algorithm": algorithm, "n_threads": n_threads}
        model = SphericalKMeans(14, **options).fit(form, sample_weight=weights)
        expected = passes_over(form, weights).sums(model.labels_, 14)
        if model.n_iter_ < 40:
            np.testing.assert_array_equal(model.resultants_, expected.resultants)
    assert watch.n_moved > 5
    assert watch.n_full >= 2


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("n_features", [3, 24])
@pytest.mark.parametrize("n_rows", [200, pytest.param(800, marks=pytest.mark.slow)])
def test_movers_only_are_full_sums_with_births_and_revivals(monkeypatch, n_rows, n_features, is_sparse):
    watch = Watch(monkeypatch)
    rng = np.random.default_rng(n_features)
    centres = units(rng, 5, n_features, np.float64)
    weights = rng.gamma(1.0, size=n_rows)
    model = DDPvMFMeans(max_angle=0.8)
    for step in range(6):
        seen = centres[: 2 + step % 4]
        rows = seen[rng.integers(0, len(seen), size=n_rows)] + 0.25 * rng.standard_normal((n_rows, n_features))
        rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        form = sp.csr_array(rows) if is_sparse else rows
        model.partial_fit(form, sample_weight=weights if step % 2 else None)
        DPvMFMeans(0.9).fit(form, sample_weight=weights if step % 2 else None)
    assert watch.n_moved > 3
