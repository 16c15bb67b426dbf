"""Wide dense rows: labels from tiles and from near clusters, against their definition; bounds that stay bounds.

As in test_kernels.py labels have no tolerance: they are the arg max of float64 scores, products added in column order,
ties to the smallest cluster. Every size that a tile of 16 rows, groups of 4 and 8 clusters or vectors of 16 columns can
leave over is here.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.making import each, units

from armillary import SphericalKMeans
from armillary.engines.cpu import Passes
from armillary.fitting.assignment import HardAssignment
from armillary.kernels.rows import blocks as cpu
from armillary.kernels.rows import bounds, reference, rules, wide
from armillary.kernels.rows.contract import AngleBounds
from armillary.points import as_points
from armillary.rules import AffineRule
from armillary.sums import whole
from armillary.workers import Workers

DTYPES = (np.float32, np.float64)
WIDTHS = (17, 18, 31, 32, 33, 100, 384, 1100)
CLUSTERS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 31, 64, 100, 130)
N_ROWS = (1, 15, 16, 17, 33)

every_width = pytest.mark.parametrize("dimension", WIDTHS)
every_dtype = each("dtype", DTYPES)


def clustered(rng, n_rows, dimension, n_groups, spread, dtype):
    """Rows around a few directions, so that rows are near some clusters and far from others."""
    centers = units(rng, n_groups, dimension)
    rows = centers[rng.integers(0, n_groups, n_rows)] + spread * units(rng, n_rows, dimension)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(dtype)


def defined_labels(rows, rule):
    """The arg max of the float64 scores as the contract defines them."""
    total = np.zeros((len(rows), len(rule.vectors)))
    for d in range(rows.shape[1]):
        total += rows[:, d, None].astype(np.float64) * rule.vectors[:, d]
    return (total + rule.offsets).argmax(axis=1)


def plain_labels(rows, rule):
    labels = np.full(len(rows), -1, np.int32)
    cpu.assign_best(rows, cpu.prepare(rule), labels, None)
    return labels


class Bounded:
    """Labels that are kept up to date with bounds, as `engines/cpu_labels.py` keeps them."""

    def __init__(self, rows):
        self.rows = rows
        self.labels = np.full(len(rows), -1, np.int32)
        self.own, self.other = np.full(len(rows), np.inf, np.float32), np.zeros(len(rows), np.float32)
        self.directions = None

    def sweep(self, rule, reach=np.inf):
        directions = rule.vectors
        turned = np.zeros(len(directions))
        if self.directions is not None:
            chord = np.linalg.norm(directions - self.directions, axis=1)
            turned = np.where(chord > 0.0, 2.0 * np.arcsin(chord / 2.0) * (1 + 1e-6) + 5e-7, 0.0)
        turned = turned.astype(np.float32)
        order = np.argsort(turned)
        second = turned[order[-2]] if len(turned) > 1 else np.float32(0.0)
        largest, widest = turned[order[-1]], int(order[-1])
        angles = AngleBounds(self.own, self.other, turned, largest, second, widest, np.float32(reach))
        changed = np.zeros(len(directions), np.int64)
        self.directions = directions
        return cpu.assign_bounded(self.rows, cpu.prepare(rule), self.labels, changed, angles), changed


def angles_between(rows, directions):
    rows = rows.astype(np.float64)
    chords = np.linalg.norm(rows[:, None] - directions[None], axis=2)
    return 2.0 * np.arcsin(np.minimum(1.0, chords / 2.0))


# --------------------------------------------------------------------------------------------------------- labels


@every_width
@every_dtype
def test_labels_of_any_number_of_rows_and_clusters(dimension, dtype):
    rng = np.random.default_rng([1, dimension])
    for n_clusters in CLUSTERS:
        n_rows = int(rng.choice(N_ROWS))
        rows = units(rng, n_rows, dimension).astype(dtype)
        offsets = rng.choice([0.0, 0.1, 1e3]) * rng.standard_normal(n_clusters)
        rule = AffineRule(rng.uniform(0.2, 30.0, (n_clusters, 1)) * units(rng, n_clusters, dimension), offsets)
        np.testing.assert_array_equal(plain_labels(rows, rule), defined_labels(rows, rule), f"{n_clusters=} {n_rows=}")


@every_width
@every_dtype
def test_near_ties_and_equal_clusters(dimension, dtype):
    """Clusters that differ by less than a float32 can tell, or not at all, in any order of the list."""
    rng = np.random.default_rng([2, dimension])
    base = units(rng, 5, dimension)
    closest = base + 1e-8 * rng.standard_normal((5, dimension))
    directions = np.concatenate([base, closest, base, closest, base])[rng.permutation(25)]
    rows = (base[rng.integers(0, 5, 70)] + 0.2 * units(rng, 70, dimension)).astype(dtype)
    for offsets in (np.zeros(25), np.full(25, 1e7)):
        rule = AffineRule(directions, offsets)
        np.testing.assert_array_equal(plain_labels(rows, rule), defined_labels(rows, rule))


@pytest.mark.parametrize("offset", [-1e12, 1e12])
def test_huge_offsets_hide_the_products(offset):
    rng = np.random.default_rng(3)
    rows = units(rng, 40, 33).astype(np.float32)
    rule = AffineRule(units(rng, 9, 33), np.full(9, offset) + np.arange(9) % 2)
    np.testing.assert_array_equal(plain_labels(rows, rule), defined_labels(rows, rule))


def test_clusters_that_nobody_can_prefer():
    rng = np.random.default_rng(4)
    rows = units(rng, 40, 33).astype(np.float32)
    for offsets in (np.array([-np.inf, 0.0, -np.inf, 0.0, 0.0]), np.full(5, -np.inf)):
        rule = AffineRule(units(rng, 5, 33), offsets)
        np.testing.assert_array_equal(plain_labels(rows, rule), defined_labels(rows, rule))


@every_dtype
def test_what_lies_behind_the_rows_is_not_used(dtype):
    rng = np.random.default_rng(5)
    for dimension in (17, 30, 100):
        room = np.full(19 * dimension + 64, np.nan, dtype)
        rows = room[: 19 * dimension].reshape(19, dimension)
        rows[:] = clustered(rng, 19, dimension, 3, 0.5, dtype)
        rule = AffineRule.cosines(units(rng, 6, dimension))
        state = Bounded(rows)
        for _ in range(3):
            state.sweep(rule)
            np.testing.assert_array_equal(state.labels, defined_labels(rows, rule))
            step = rule.vectors + 0.3 * units(rng, 6, dimension)
            rule = AffineRule.cosines(step / np.linalg.norm(step, axis=1, keepdims=True))


def test_rows_in_any_layout():
    rng = np.random.default_rng(6)
    rows = units(rng, 50, 40).astype(np.float32)
    rule = AffineRule.cosines(units(rng, 7, 40))
    wanted = defined_labels(rows, rule)
    for layout in (np.asfortranarray(rows), np.concatenate([rows, rows], axis=1)[:, :40], rows[::-1].copy()[::-1]):
        np.testing.assert_array_equal(plain_labels(layout, rule), wanted)
        state = Bounded(layout)
        state.sweep(rule)
        state.sweep(rule)
        np.testing.assert_array_equal(state.labels, wanted)


def test_rows_too_wide_for_a_tile_have_the_same_labels(monkeypatch):
    rng = np.random.default_rng(7)
    rows = clustered(rng, 200, 48, 6, 0.6, np.float32)
    rule = AffineRule.cosines(units(rng, 20, 48))
    tiles = plain_labels(rows, rule)
    monkeypatch.setattr(cpu, "LARGE_DIMENSION", 47)
    np.testing.assert_array_equal(plain_labels(rows, rule), tiles)
    state = Bounded(rows)
    state.sweep(rule)
    np.testing.assert_array_equal(state.labels, tiles)


@pytest.mark.parametrize("is_weighted", [False, True], ids=["alike", "weighted"])
@every_dtype
def test_sums_on_the_way_have_the_bits_of_sums_afterwards(dtype, is_weighted):
    rng = np.random.default_rng(8)
    for n_rows, dimension, n_clusters in ((1, 17, 1), (33, 18, 5), (100, 100, 13), (47, 384, 30)):
        rows = units(rng, n_rows, dimension).astype(dtype)
        weights = rng.uniform(0.0, 3.0, n_rows) if is_weighted else None
        rule = cpu.prepare(AffineRule.cosines(units(rng, n_clusters, dimension)))
        labels, counts, sums = np.full(n_rows, -1, np.int32), np.ones(n_clusters), np.ones((n_clusters, dimension))
        assert cpu.assign_and_add(rows, rule, weights, labels, None, counts, sums, 0.0) == n_rows
        wanted_counts, wanted = np.ones(n_clusters), np.ones((n_clusters, dimension))
        cpu.add_rows(rows, weights, labels, np.ones(n_clusters, np.bool_), wanted_counts, wanted, 0.0)
        np.testing.assert_array_equal(counts, wanted_counts)
        np.testing.assert_array_equal(sums, wanted)


# --------------------------------------------------------------------------------------------------------- bounds


@pytest.mark.parametrize("n_clusters", [1, 2, 5, 6, 13, 40, 130])
@pytest.mark.parametrize("spread", [0.05, 0.5, 1.5])
@every_dtype
def test_bounded_labels_and_bounds_while_directions_turn(n_clusters, spread, dtype):
    """Few directions turn far, some a little, some not at all; rows lie close to directions, or far from all."""
    rng = np.random.default_rng([9, n_clusters, int(10 * spread)])
    dimension = int(rng.choice([17, 24, 50]))
    rows = clustered(rng, 400, dimension, max(1, n_clusters // 2), spread, dtype)
    directions = rows[rng.integers(0, 400, n_clusters)].astype(np.float64)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    state = Bounded(rows)
    for _ in range(8):
        rule = AffineRule.cosines(directions)
        before = state.labels.copy()
        n_changed, changed = state.sweep(rule)
        wanted = defined_labels(rows, rule)
        np.testing.assert_array_equal(state.labels, wanted)
        moved = wanted != before
        assert n_changed == moved.sum()
        counters = np.bincount(wanted[moved], minlength=n_clusters)
        counters += np.bincount(before[moved & (before >= 0)], minlength=n_clusters)
        np.testing.assert_array_equal(changed, counters)
        assert_bounds_hold(state, directions, wanted)
        size = rng.choice([0.0, 0.0, 0.01, 0.1, 1.0], (n_clusters, 1))
        after = directions + size * units(rng, n_clusters, dimension)
        after /= np.linalg.norm(after, axis=1, keepdims=True)
        directions = np.where(size > 0.0, after, directions)


def test_duplicate_directions_under_bounds():
    """The nearest neighbour of a direction may be the direction itself, again: ties still go to the smaller."""
    rng = np.random.default_rng(10)
    rows = clustered(rng, 300, 20, 4, 0.3, np.float32)
    base = units(rng, 6, 20)
    state = Bounded(rows)
    for step in range(5):
        directions = np.concatenate([base, base, base + 1e-9])
        rule = AffineRule.cosines(directions / np.linalg.norm(directions, axis=1, keepdims=True))
        state.sweep(rule)
        np.testing.assert_array_equal(state.labels, defined_labels(rows, rule), str(step))
        base = base + 0.05 * units(rng, 6, 20)
        base /= np.linalg.norm(base, axis=1, keepdims=True)


def assert_bounds_hold(state, directions, labels):
    """`labels` are the nearest directions, whether or not the rows were refused."""
    angles = angles_between(state.rows, directions)
    slack = 1e-6  # bounds are float32, and compared with a gap of 4e-6
    every = np.arange(len(labels))
    assert (state.own >= angles[every, labels] - slack).all()
    angles[every, labels] = np.inf
    assert (state.other <= angles.min(axis=1) + slack).all()


@pytest.mark.parametrize("floor", [0.5, 0.8])
@pytest.mark.parametrize("n_rows", [300, 303, 319])
def test_rows_below_the_floor_and_rivals_are_refused(floor, n_rows):
    rng = np.random.default_rng([11, n_rows])
    directions = units(rng, 12, 50)
    rows = directions[rng.integers(0, 12, n_rows)] + 0.75 * units(rng, n_rows, 50)
    rows[-1] = -rows[-1]  # surely refused, in a tile that is not full
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    is_rival = np.arange(12) % 4 == 3
    state = Bounded(rows)
    state.labels[:] = rng.integers(0, 12, n_rows)
    for _ in range(4):
        rule = AffineRule(directions, np.zeros(12), floor=floor, is_rival=is_rival)
        is_refused = state.labels < 0  # models take them back, and know nothing of their bounds
        state.labels[is_refused] = -2 - state.labels[is_refused]
        state.own[is_refused], state.other[is_refused] = np.inf, 0.0
        plain, wanted = state.labels.copy(), state.labels.copy()
        n_wanted = reference.assign_best(rows, reference.prepare(rule), wanted, None)
        assert 0 < np.count_nonzero(wanted < 0) < n_rows
        assert cpu.assign_best(rows, cpu.prepare(rule), plain, None) == n_wanted
        np.testing.assert_array_equal(plain, wanted)
        n_changed, _ = state.sweep(rule, reach=np.arccos(floor + 1e-5) - 1e-6)
        np.testing.assert_array_equal(state.labels, wanted)
        assert n_changed == n_wanted
        assert_bounds_hold(state, directions, defined_labels(rows, AffineRule.cosines(directions)))
        directions = directions + rng.choice([0.0, 0.02, 0.2], (12, 1)) * units(rng, 12, 50)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)


def test_bounds_that_are_forgotten_settle_nothing():
    """Directions go a little way off, and others come in their place: no turn of the old ones tells of that."""
    rng = np.random.default_rng(15)
    groups, far = units(rng, 8, 30), units(rng, 8, 30)
    away = groups + 0.3 * units(rng, 8, 30)
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    rows = np.repeat(groups, 30, axis=0) + 0.1 * units(rng, 240, 30)
    points = as_points(rows.astype(np.float32), "test")
    with Workers(1) as workers:
        assignment = HardAssignment(Passes(points, cpu, workers), "hamerly")
        for directions in (np.concatenate([groups, far]), np.concatenate([away, groups])):
            rule = AffineRule.cosines(directions)
            assignment.sweep(rule)
            np.testing.assert_array_equal(assignment.labels.to_host(), defined_labels(points.block(0, 240), rule))
            assignment.labels.forget()


def test_far_clusters_are_not_looked_at():
    """With tight groups only the clusters of a row's own group can win it: no row is scored against all clusters."""
    rng = np.random.default_rng(12)
    groups = units(rng, 10, 64)
    rows = np.repeat(groups, 50, axis=0) + 0.1 * units(rng, 500, 64)
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    centers = np.repeat(groups, 4, axis=0) + 0.05 * units(rng, 40, 64)
    prepared = cpu.prepare(AffineRule.cosines(centers / np.linalg.norm(centers, axis=1, keepdims=True)))
    labels = plain_labels(rows, prepared.rule)
    screen, exact, doubt = cpu._wide(prepared)
    own, other = np.full(500, np.inf, np.float32), np.zeros(500, np.float32)
    fixed = (prepared.circle, screen, exact, np.float32(np.inf), labels, None, own, other, doubt)
    assert wide.assign_near(rows, np.arange(500), *fixed, np.empty(500, np.int64)) == (0, 0)


@pytest.mark.parametrize("n_clusters", [1, 2, 5, 6, 90, 300])
def test_the_circle_of_a_direction(n_clusters):
    rng = np.random.default_rng([13, n_clusters])
    directions = units(rng, n_clusters, 17)
    neighbours, angles, level = cpu.prepare(AffineRule.cosines(directions)).circle
    n_listed = min(n_clusters - 1, rules._MOST_NEIGHBOURS)
    assert np.isneginf(level[n_listed:]).all()
    assert (level[:n_listed] == 0.0).all()
    true = angles_between(directions, directions)
    np.fill_diagonal(true, np.inf)
    np.testing.assert_array_equal(neighbours[:, :n_listed], np.argsort(true, axis=1)[:, :n_listed])
    sorted_angles = np.sort(true, axis=1)[:, : n_listed + 1]
    assert (angles[:, : n_listed + 1] <= sorted_angles).all()
    np.testing.assert_allclose(angles[:, :n_listed], sorted_angles[:, :n_listed], atol=2e-6)
    assert (np.diff(angles[:, : n_listed + 1], axis=1) >= 0.0).all()
    if n_listed == n_clusters - 1:
        assert np.isposinf(angles[:, n_listed:]).all()


def test_angles_above_and_below_an_arc_cosine():
    cosines = np.concatenate([np.linspace(-1.0, 1.0, 20_001), 1.0 - np.geomspace(1e-16, 1e-3, 500)])
    above = np.array([bounds.angle_above(cosine) for cosine in cosines])
    below = np.array([bounds.angle_below(cosine) for cosine in cosines])
    true = np.arccos(cosines)
    assert (above.astype(np.float32) >= true).all()
    assert (above <= true + 6e-7).all()
    assert (below.astype(np.float32) <= true).all()
    assert (below >= true - 6e-7).all()
    assert bounds.angle_above(-1.1) >= np.pi
    assert 0.0 <= bounds.angle_above(1.1) <= 6e-7


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(6))
def test_bounded_fits_of_rows_that_repeat_have_the_bits_of_plain_ones(seed):
    """More clusters than distinct rows: clusters run empty, are refilled, and have equal directions."""
    rng = np.random.default_rng([14, seed])
    rows = np.repeat(clustered(rng, 12, 20, 3, 0.4, np.float32), 10, axis=0)[rng.permutation(120)]
    starts = rows[rng.integers(0, 120, 15)]
    fits = [
        SphericalKMeans(15, init=starts, tol=0.0, max_iter=12, algorithm=algorithm, n_threads=n_threads).fit(rows)
        for algorithm, n_threads in (("lloyd", 1), ("hamerly", 1), ("hamerly", 2))
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.labels_, fits[0].labels_)
        np.testing.assert_array_equal(fit.cluster_centers_, fits[0].cluster_centers_)


@each("dtype", [np.float32, np.float64])
@each("n_features", [17, 64])
def test_pieces_have_the_labels_and_sums_of_the_reference_with_any_helpers(n_features, dtype):
    rng = np.random.default_rng(n_features)
    for n_rows, n_clusters in ((5, 2), (33, 9), (1500, 21)):
        rows = units(rng, n_rows, n_features).astype(dtype)
        rule = AffineRule.cosines(units(rng, n_clusters, n_features), 0.1)
        weights = rng.random(n_rows)
        found = []
        for kernels, n_helpers in ((reference, 0), (cpu, 0), (cpu, 3)):
            with kernels.crew() as crew:
                labels = np.zeros(n_rows, np.int32)
                sums = np.zeros(n_clusters), np.zeros((n_clusters, n_features))
                helpers = () if not n_helpers else ((crew.box, crew.helpers(n_helpers)),)
                given = {"weights": weights, "rounder": whole.rounder(40), "sums": sums}
                moved = kernels.assign_pieces(rows, kernels.prepare(rule), labels, *helpers, **given)
                found.append((moved, labels.tobytes(), sums[0].tobytes(), sums[1].tobytes()))
        assert found[0] == found[1] == found[2]
