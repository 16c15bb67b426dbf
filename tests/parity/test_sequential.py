"""Rows taken in parallel get the labels of rows taken one at a time, to the bit.

The definition is `kernels.reference.one_by_one`: live counts, one row after the other. Everything that makes the real
sweep fast (optimistic windows, filters, bounds, threads, blocks) is drawn at random here, and so are ties, duplicates,
antipodes, lattices, deaths from arbitrary labels, warm starts, caps, weights, and tracks that sleep and wake.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from armillary.engines.cpu import Passes
from armillary.fitting import optimistic
from armillary.fitting.optimistic import Opening, SequentialAssignment
from armillary.kernels.rows import reference
from armillary.kernels.select import kernels_for
from armillary.models.means import ddp_vmf_means
from armillary.points import as_points
from armillary.workers import Workers

ANGLES = [0.3, 0.7, np.pi / 3, np.pi / 2, 1.8, 2.5, np.pi]


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def draw_rows(rng, n_rows, n_features):
    """Rows in general position, on a lattice (ties), in clumps with duplicates, or on few axes and their opposites."""
    kind = rng.integers(4)
    if kind == 0:
        rows = rng.standard_normal((n_rows, n_features))
    elif kind == 1:
        rows = rng.integers(-1, 2, (n_rows, n_features)).astype(float)
        rows[np.all(rows == 0.0, axis=1)] = 1.0
    elif kind == 2:
        noise = 0.2 * rng.standard_normal((n_rows, n_features)) * (rng.random((n_rows, 1)) < 0.5)
        rows = rng.standard_normal((4, n_features))[rng.integers(4, size=n_rows)] + noise
    else:
        signs = rng.choice([-1.0, 1.0], (n_rows, 1))
        rows = signs * rng.standard_normal((3, n_features))[rng.integers(3, size=n_rows)]
    return unit(rows).astype(rng.choice([np.float32, np.float64]))


def draw_points(rng, *, with_weights):
    n_features = int(rng.choice([2, 3, 5, 17, 24]))
    n_rows = int(rng.integers(1, 40))
    rows = draw_rows(rng, n_rows, n_features)
    weights = rng.choice([0.5, 1.0, 2.0, 3.0], n_rows) if with_weights and rng.random() < 0.3 else None
    return as_points(sp.csr_array(rows) if rng.random() < 0.3 else rows, "test", weights)


def floor_of(angle):
    floor = 1.0 - 2.0 * np.sin(0.5 * angle) ** 2
    return floor if floor > -1.0 else -np.inf


def shrink_windows(rng, monkeypatch):
    monkeypatch.setattr(optimistic, "_CAUTIOUS_ROWS", int(rng.choice([1, 2, 5, 1024])))
    monkeypatch.setattr(optimistic, "_GROWTH", int(rng.choice([2, 8])))
    monkeypatch.setattr(optimistic, "_MOST_SUSPECTS", int(rng.choice([1, 3, 4096])))


def check_sweeps(rng, points, directions, opening, *, device, is_bounded, has_company, note):
    """Six sweeps against the definition, now and then from arbitrary labels."""
    n_tracks = 0 if opening.memory is None else len(directions)
    everyone = np.arange(points.n_rows)
    start = None
    if len(directions) and not has_company and not n_tracks and rng.random() < 0.8:
        start = rng.integers(0, len(directions), points.n_rows)
    with Workers(int(rng.integers(1, 3))) as workers:
        passes = Passes(points, kernels_for(device), workers)
        assignment = SequentialAssignment(passes, "hamerly" if is_bounded else "lloyd")
        labels = assignment.labels
        if start is not None:
            assignment.begin_with(everyone, start)
        for number in range(6):
            before = labels.to_host().copy()
            rows = points.block(0, points.n_rows)
            expected, expected_directions = reference.one_by_one(
                rows,
                points.weights,
                before,
                directions,
                opening.floor,
                has_company=has_company,
                max_open=opening.max_open,
                memory=opening.memory,
            )
            sweep = assignment.sweep_in_order(directions, opening, has_company=has_company)
            message = f"{note}, sweep {number}"
            np.testing.assert_array_equal(labels.to_host(), expected, err_msg=message)
            np.testing.assert_array_equal(sweep.directions, expected_directions, err_msg=message)
            assert not sweep.is_still or np.array_equal(before, labels.to_host()), message
            sums = passes.sums(labels.to_host(), len(sweep.directions))
            np.testing.assert_array_equal(sweep.statistics.counts, sums.counts, err_msg=message)
            np.testing.assert_array_equal(sweep.statistics.resultants, sums.resultants, err_msg=message)
            is_kept = sums.counts > 0.0
            is_kept[:n_tracks] = True
            assignment.keep(is_kept)
            directions = sums.select(is_kept).directions(otherwise=sweep.directions[is_kept])
            has_company = False
            if rng.random() < 0.3:
                assignment.begin_with(everyone, rng.integers(0, len(directions), points.n_rows))
                is_kept = labels.sizes(len(directions)) > 0
                is_kept[:n_tracks] = True
                assignment.keep(is_kept)
                directions = directions[is_kept]


def check_births_and_deaths(seed, device, monkeypatch):
    rng = np.random.default_rng(seed)
    points = draw_points(rng, with_weights=True)
    n_slots = int(rng.integers(0, 6))
    directions = unit(rng.standard_normal((n_slots, points.n_features)))
    if n_slots and rng.random() < 0.5:
        directions = points.rows(rng.integers(points.n_rows, size=n_slots))
    shrink_windows(rng, monkeypatch)
    opening = Opening(floor_of(rng.choice(ANGLES)), None if rng.random() < 0.7 else int(rng.integers(1, 6)))
    is_bounded = (points.is_sparse or points.n_features > 16) and bool(rng.random() < 0.5)
    has_company = bool(rng.random() < 0.3)
    check_sweeps(
        rng,
        points,
        directions,
        opening,
        device=device,
        is_bounded=is_bounded,
        has_company=has_company,
        note=f"seed {seed}",
    )


def draw_tracks(rng, points):
    """Tracks with memories light and heavy, seen lately or nearly forgotten."""
    n_tracks = int(rng.integers(1, 6))
    directions = unit(rng.standard_normal((n_tracks, points.n_features)))
    if rng.random() < 0.5:
        directions = unit(points.rows(rng.integers(points.n_rows, size=n_tracks)))
    most = float(rng.choice([2.0, 5.0, 50.0, np.inf]))
    model = ddp_vmf_means.DDPvMFMeans(
        float(rng.choice(ANGLES)),
        drift_concentration=float(rng.choice([1.0, 10.0, 1e3, 1e5, np.inf])),
        max_unseen_steps=most,
        solver=str(rng.choice(["exact", "small_angle"])),
    )
    state = ddp_vmf_means.State(
        np.arange(n_tracks),
        directions,
        10.0 ** rng.uniform(-6.0, 6.0, n_tracks) if rng.random() < 0.5 else np.full(n_tracks, 7.0),
        rng.integers(1, min(most, 60.0), n_tracks),
        next_id=n_tracks,
    )
    return state, ddp_vmf_means.Parameters.check(model.get_params(), points, "Model")


def check_revivals(seed, device, monkeypatch):
    rng = np.random.default_rng(seed)
    points = draw_points(rng, with_weights=False)
    tracks, parameters = draw_tracks(rng, points)
    shrink_windows(rng, monkeypatch)
    opening = Opening(parameters.floor, memory=ddp_vmf_means.Recollection(tracks, parameters, kernels_for(device)))
    check_sweeps(
        rng,
        points,
        tracks.directions,
        opening,
        device=device,
        is_bounded=False,
        has_company=False,
        note=f"seed {seed}",
    )


# a few hundred of the cases below, which take minutes
@pytest.mark.parametrize("part", range(4))
def test_births_and_deaths_equal_the_sequential_rule(part, monkeypatch):
    for seed in range(100 * part, 100 * (part + 1)):
        check_births_and_deaths(seed, "cpu", monkeypatch)


@pytest.mark.parametrize("part", range(4))
def test_revivals_equal_the_sequential_rule(part, monkeypatch):
    for seed in range(50 * part, 50 * (part + 1)):
        check_revivals(seed, "cpu", monkeypatch)


def test_the_reference_kernels_walk_the_same_way(monkeypatch):
    for seed in range(60):
        check_births_and_deaths(seed, "reference", monkeypatch)
        check_revivals(seed, "reference", monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(100))
def test_many_more_cases(part, monkeypatch):
    for seed in range(10_000 + 300 * part, 10_000 + 300 * (part + 1)):
        check_births_and_deaths(seed, "cpu", monkeypatch)
        check_revivals(seed, "cpu", monkeypatch)
