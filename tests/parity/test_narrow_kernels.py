"""Narrow dense rows: sixteen at a time, lane after lane, and births in compiled code, all as the reference has them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from armillary.engines.cpu import Passes
from armillary.fitting.optimistic import Opening, SequentialAssignment
from armillary.kernels.rows import nearest, reference
from armillary.kernels.select import kernels_for
from armillary.points import as_points, short_lane_plan
from armillary.rules import AffineRule
from armillary.sums import whole
from armillary.validation import UNIT_TOLERANCE, unit_block
from armillary.workers import Workers

cpu = kernels_for("cpu")
ROUNDER = whole.rounder(40)  # of sums up to 2^11


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def draw_rows(rng, n_rows, n_features, dtype):
    """Directions at random, or on a lattice, where scores tie."""
    if rng.random() < 0.5:
        return unit(rng.standard_normal((n_rows, n_features))).astype(dtype)
    return unit(rng.choice([-1.0, 1.0, 2.0], (n_rows, n_features))).astype(dtype)


def draw_rule(rng, rows, n_clusters):
    directions = unit(rng.standard_normal((n_clusters, rows.shape[1])))
    if rng.random() < 0.5:
        directions = rows[rng.integers(len(rows), size=n_clusters)].astype(np.float64)
    offsets = rng.choice([-8.0, 0.0, 0.0, 0.25], n_clusters) if rng.random() < 0.5 else np.zeros(n_clusters)
    is_rival = rng.random(n_clusters) < 0.3 if rng.random() < 0.5 else None
    slopes = 10.0 ** rng.uniform(-2.0, 4.0, n_clusters) if rng.random() < 0.2 else None
    floor = float(rng.choice([-np.inf, 0.5, 1.0, float(rows[0].astype(np.float64) @ directions[0])]))
    return AffineRule(directions, offsets, floor, is_rival, slopes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [2, 3, 4, 7, 8, 13, 16])
def test_lanes_have_the_labels_sums_and_names_of_the_reference(n_features, dtype):
    for seed in range(25):
        rng = np.random.default_rng(seed)
        rows = draw_rows(rng, int(rng.choice([1, 15, 16, 17, 700])), n_features, dtype)
        n_rows, n_clusters = len(rows), int(rng.choice([1, 2, 7, 8, 9, 70]))
        rule = draw_rule(rng, rows, n_clusters)
        n_kept = int(rng.integers(0, n_rows + 1)) if rng.random() < 0.5 else 0
        before = rng.integers(-1, n_clusters, n_rows).astype(np.int32)
        before[:n_kept] = np.maximum(before[:n_kept], 0)
        edges = np.sort(rng.integers(0, n_rows + 1, 2))
        lanes = np.array([[0, edges[0]], [edges[0], edges[1]], [edges[1], n_rows]])
        weights = rng.random(n_rows) if rng.random() < 0.5 else None
        names = 100 + rng.permutation(n_clusters)
        found = []
        for kernels in (cpu, reference):
            labels, named = before.copy(), np.empty(n_rows, np.int64)
            sums = np.zeros((3, n_clusters, n_features + 1))
            n_changed = kernels.assign_lanes(
                rows,
                kernels.prepare(rule),
                labels,
                lanes,
                n_kept=n_kept,
                weights=weights,
                rounder=ROUNDER,
                sums=sums,
                names=(names, named),
            )
            found.append((labels, named, n_changed, sums))
        ours, theirs = found
        message = f"seed {seed}"
        np.testing.assert_array_equal(ours[0], theirs[0], err_msg=message)
        np.testing.assert_array_equal(ours[1], theirs[1], err_msg=message)
        np.testing.assert_array_equal(
            ours[1], np.where(ours[0] >= 0, names[np.maximum(ours[0], 0)], -1), err_msg=message
        )
        assert ours[2] == theirs[2], message
        np.testing.assert_array_equal(ours[3], theirs[3], err_msg=message)
        np.testing.assert_array_equal(ours[0][:n_kept], before[:n_kept], err_msg=message)
        for lane, (start, stop) in enumerate(lanes):
            counts, resultants = np.zeros(n_clusters), np.zeros((n_clusters, n_features))
            part = None if weights is None else weights[start:stop]
            given = rows[start:stop], part, ours[0][start:stop]
            cpu.add_rows(*given, np.ones(n_clusters, bool), counts, resultants, ROUNDER)
            np.testing.assert_array_equal(ours[3][lane, :, -1], counts, err_msg=message)
            np.testing.assert_array_equal(ours[3][lane, :, :-1], resultants, err_msg=message)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [2, 3, 8, 16])
def test_rows_that_move_change_the_sums_by_what_all_rows_would(n_features, dtype):
    """Refused rows leave, rows that nobody had enter, kept ones stay; known sums and the change are the sums."""
    for seed in range(25):
        rng = np.random.default_rng(seed)
        rows = draw_rows(rng, int(rng.choice([1, 15, 16, 17, 700])), n_features, dtype)
        n_rows, n_clusters = len(rows), int(rng.choice([1, 2, 7, 70]))
        rule = draw_rule(rng, rows, n_clusters)
        before = rng.integers(-1, n_clusters, n_rows).astype(np.int32)
        if rng.random() < 0.5:  # most stay where they are
            cpu.assign_best(rows, cpu.prepare(rule), before, None)
            before[:: int(rng.integers(2, 30))] = 0
            before[before < -1] = -1
        edge = int(rng.integers(0, n_rows + 1))
        lanes = np.array([[0, edge], [edge, n_rows]])
        options = {"weights": rng.random(n_rows) if rng.random() < 0.5 else None, "rounder": ROUNDER}
        n_kept = int(rng.integers(0, n_rows + 1)) if rng.random() < 0.3 else 0
        before[:n_kept] = np.maximum(before[:n_kept], 0)

        def pass_over(kernels, n_kept, *, is_change, rows=rows, rule=rule, lanes=lanes, before=before, options=options):
            labels, sums = before.copy(), np.zeros((2, len(rule.offsets), rows.shape[1] + 1))
            prepared = kernels.prepare(rule)
            moved = kernels.assign_lanes(
                rows, prepared, labels, lanes, n_kept=n_kept, sums=sums, is_change=is_change, **options
            )
            return labels, moved, sums

        known = pass_over(cpu, n_rows, is_change=False)[2]  # all rows are kept: the sums of the labels before
        ours, full, theirs = (
            pass_over(kernels, n_kept, is_change=is_change)
            for kernels, is_change in ((cpu, True), (cpu, False), (reference, True))
        )
        for one, other in ((ours[0], full[0]), (ours[0], theirs[0]), (known + ours[2], full[2]), (ours[2], theirs[2])):
            np.testing.assert_array_equal(one, other, err_msg=f"seed {seed}")
        assert ours[1] == full[1] == theirs[1], seed


@pytest.mark.parametrize("n_clusters", [2, 9, 64, 65, 300])
def test_rows_next_to_a_border_go_to_the_float64_best(n_clusters):
    """Codes of clusters take the place of the last bits of scores: what they said must come from elsewhere."""
    rng = np.random.default_rng(n_clusters)
    directions = unit(rng.standard_normal((n_clusters, 3)))
    pairs = rng.integers(n_clusters, size=(4000, 2))
    middle = directions[pairs[:, 0]] + directions[pairs[:, 1]]
    aside = 10.0 ** rng.uniform(-17.0, -4.0, (4000, 1)) * rng.standard_normal((4000, 3))
    rows = unit(middle + 1e-3 + aside)
    labels = np.full(len(rows), -1, np.int32)
    cpu.assign_best(rows, cpu.prepare(AffineRule.cosines(directions)), labels, None)
    scores = np.zeros((len(rows), n_clusters))
    for column in range(3):
        scores += rows[:, column, None] * directions[:, column]
    np.testing.assert_array_equal(labels, np.argmax(scores, axis=1))


def test_a_score_table_keeps_codes_where_the_last_bits_were():
    directions = np.eye(3)
    table = nearest.score_table(directions, np.zeros(3), 0.5, np.array([False, True, False]))
    assert nearest.code_bits(3) == 3
    codes = table[:, -1].view(np.int32)
    assert codes.tolist() == [0b111, 0, 0b111, 2]  # the floor and the rival are refused: -1 in three bits
    assert table[0, -2] == pytest.approx(0.5, rel=1e-6)
    assert table[0, -2].view(np.int32) & 0b111 == 0b111
    np.testing.assert_array_equal(table[1:, :3], directions)


def test_threads_share_lanes_and_give_the_bits_of_one():
    rng = np.random.default_rng(0)
    points = as_points(unit(rng.standard_normal((70_000, 3))).astype(np.float32), "test")
    assert len(points.short_lanes) == 16
    rule = AffineRule.cosines(unit(rng.standard_normal((7, 3))))
    found = []
    for n_threads in (1, 2, 5):
        labels = np.full(points.n_rows, -1, np.int32)
        with Workers(n_threads) as workers, cpu.crew() as crew:
            passes = Passes(points, cpu, workers, crew)
            n_changed, statistics = passes.assign_and_sum(rule, labels)
            again = passes.sums(labels, 7)
        assert n_changed == points.n_rows
        np.testing.assert_array_equal(again.counts, statistics.counts)
        np.testing.assert_array_equal(again.resultants, statistics.resultants)
        found.append((labels, statistics))
    for labels, statistics in found[1:]:
        np.testing.assert_array_equal(labels, found[0][0])
        np.testing.assert_array_equal(statistics.resultants, found[0][1].resultants)
    assert found[0][1].counts.sum() == points.n_rows


def test_short_lanes_cover_the_rows_and_depend_on_their_number_alone():
    for n_rows in (1, 8191, 16_384, 300_000, 5_000_000):
        lanes = short_lane_plan(n_rows)
        assert lanes[0][0] == 0
        assert lanes[-1][1] == n_rows
        assert all(stop == start for (_, stop), (start, _) in pairwise(lanes))
    assert len(short_lane_plan(300_000)) == 64


@pytest.mark.parametrize("n_features", [3, 20])
def test_rows_that_are_kept_are_summed_as_they_are(n_features):
    rng = np.random.default_rng(1)
    points = as_points(unit(rng.standard_normal((500, n_features))), "test")
    rule = AffineRule.cosines(unit(rng.standard_normal((4, n_features))), 0.1)
    before = rng.integers(0, 4, 500).astype(np.int32)
    labels, wanted = before.copy(), before.copy()
    with Workers(2) as workers:
        passes = Passes(points, cpu, workers)
        n_changed, statistics = passes.assign_and_sum(rule, labels, n_kept=123)
        passes.assign(rule, wanted, rows=(123, 500))
        sums = passes.sums(wanted, 4)
        is_present = np.ones(501, bool)
        is_present[7] = False
        some = passes.over_points(replace(points, is_present=is_present))
        named = some.name(rule, np.array([5, 6, 7, 8]))
        fresh = np.full(500, -1, np.int32)
        passes.assign(rule, fresh)
    np.testing.assert_array_equal(labels, wanted)
    assert n_changed == np.count_nonzero((wanted >= 0) & (wanted != before))
    np.testing.assert_array_equal(statistics.counts, sums.counts)
    np.testing.assert_array_equal(statistics.resultants, sums.resultants)
    np.testing.assert_array_equal(named[is_present], np.where(fresh >= 0, 5 + fresh, -1))
    assert named[7] == -1


@pytest.mark.parametrize("n_features", [2, 3, 16])
def test_more_births_than_there_is_room_for(n_features):
    rng = np.random.default_rng(2)
    rows = unit(rng.standard_normal((200, n_features))).astype(np.float32)
    points = as_points(rows, "test")
    with Workers(1) as workers:
        assignment = SequentialAssignment(Passes(points, cpu, workers))
        opening = Opening(1.0 - 1e-6)
        sweep = assignment.sweep_in_order(np.empty((0, n_features)), opening)
    labels, directions = reference.one_by_one(
        points.block(0, 200), None, np.full(200, -1, np.int32), np.empty((0, n_features)), opening.floor
    )
    np.testing.assert_array_equal(assignment.labels.to_host(), labels)
    np.testing.assert_array_equal(sweep.directions, directions)
    assert len(directions) > 100


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [2, 3, 8, 16, 17])
def test_the_first_look_never_contradicts_the_gate(n_features, dtype):
    rng = np.random.default_rng(n_features)
    tolerance = UNIT_TOLERANCE[np.dtype(dtype)]
    rows = unit(rng.standard_normal((3000, n_features))) * (1.0 + tolerance * rng.uniform(-2.0, 2.0, (3000, 1)))
    rows = rows.astype(dtype)
    n_sure = 0
    for row in rows:
        is_sure = cpu.gauge.are_unit(row[None], tolerance)
        n_sure += is_sure
        assert not is_sure or np.shares_memory(unit_block(row[None], 0, "test"), row)
    # narrow rows are summed in their own precision: with 16 columns float32 is off by more than the tolerance
    assert (n_sure > 0) == (n_features != 16 or dtype is np.float64)


@pytest.mark.parametrize("odd", [np.nan, np.inf, 0.0, 1e30, -np.inf])
@pytest.mark.parametrize("place", [0, 515, 999])
def test_the_first_look_sees_odd_rows(odd, place):
    rows = unit(np.random.default_rng(0).standard_normal((1000, 3))).astype(np.float32)
    assert cpu.gauge.are_unit(rows, 2e-6)
    rows[place] = odd
    with np.errstate(all="ignore"):
        assert not cpu.gauge.are_unit(rows, 2e-6)
