"""Laws of DP-vMF-means: what must hold for any rows, any order, any start and any angle."""

from __future__ import annotations

import math
import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from tests.making import units

from armillary import DPvMFMeans
from armillary.engines.cpu import Passes
from armillary.fitting import optimistic
from armillary.fitting.optimistic import Opening, SequentialAssignment
from armillary.kernels.rows import reference
from armillary.kernels.select import kernels_for
from armillary.points import as_points
from armillary.sums import whole
from armillary.workers import Workers

law = settings(deadline=None, max_examples=60)
NARROW = (2, 3, 5)
WIDE = (17, 33)
ANGLES = [0.2, 0.6, math.pi / 3, math.acos(0.5), math.pi / 2, 1.8, 2.5, math.pi]


def fit(rows, angle, sample_weight=None, **parameters):
    model = DPvMFMeans(angle, **{"n_threads": 1, "random_state": 0, **parameters})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows, sample_weight=sample_weight)


def price_of(angle):
    return -2.0 * math.sin(0.5 * angle) ** 2


def floor_of(angle):
    return 1.0 + price_of(angle) if angle < math.pi else -math.inf


@st.composite
def row_sets(draw, dimensions=NARROW + WIDE, most=60):
    """Rows of several kinds, those with many ties included."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_features, n_rows = draw(st.sampled_from(dimensions)), draw(st.integers(1, most))
    kind = draw(st.sampled_from(["clumped", "uniform", "repeated", "grid", "antipodal"]))
    rows = units(rng, n_rows, n_features)
    if kind == "clumped":
        spread = draw(st.sampled_from([1e-3, 0.3, 1.0])) / math.sqrt(n_features)
        rows = units(rng, 4, n_features)[rng.integers(4, size=n_rows)] + spread * rng.standard_normal(rows.shape)
    elif kind == "repeated":
        rows = rows[rng.integers(0, draw(st.integers(1, n_rows)), n_rows)]
    elif kind == "grid":
        rows = rng.integers(-1, 2, rows.shape).astype(float)
        rows[~rows.any(axis=1), 0] = 1.0
    elif kind == "antipodal":
        rows[1::2] = -rows[: 2 * (n_rows // 2) : 2]
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return rng, rows.astype(draw(st.sampled_from([np.float32, np.float64])))


# ---------------------------------------------------------------------------------- one row at a time, written out


def scores_of(row, directions):
    """Products added in column order, as the contract defines scores."""
    total = np.zeros(len(directions))
    for column in range(len(row)):
        total += row[column] * directions[:, column]
    return total


def walk_through(rows, weights, labels, directions, angle, most=None):
    """The sequential rule, row by row (dp_vmf_means.md, 3): yields labels and directions after each row.

    A row that weighs more than 1 stands for several: it is not alone in its cluster. Nothing is born while `most`
    clusters have rows.
    """
    floor = floor_of(angle)
    labels, directions = labels.copy(), directions.copy()
    for i, row in enumerate(rows):
        old = labels[i]
        others = np.delete(labels, i)
        is_open = np.array([np.any(others == k) for k in range(len(directions))], dtype=bool)
        is_emptied = not is_open[old]
        if weights[i] > 1.0:
            is_open[old] = True
        scores = np.where(is_open, scores_of(row, directions), -np.inf)
        is_capped = most is not None and is_open.sum() >= most
        if (scores.max(initial=-np.inf) >= floor or is_capped) and is_open.any():
            labels[i] = int(np.argmax(scores))
        else:
            weighted = whole.rounded(weights[i] * row, whole.weights_exponent([weights]))  # as an update sums it
            seed = weighted / np.sqrt(np.vecdot(weighted, weighted))
            if is_emptied and not is_open[old]:
                directions[old] = seed
            else:
                labels[i] = len(directions)
                directions = np.vstack([directions, seed])
        yield labels, directions


def value(rows, weights, labels, directions, price):
    own = (rows * directions[labels]).sum(axis=1)
    return float(weights @ own) + price * len(np.unique(labels))


@st.composite
def states(draw):
    """Rows, weights of at least 1, arbitrary labels whose slots all have rows, directions, and an angle."""
    rng, rows = draw(row_sets(most=25))
    labels = np.unique(rng.integers(0, draw(st.integers(1, 8)), len(rows)), return_inverse=True)[1]
    directions = units(rng, labels.max() + 1, rows.shape[1])
    weights = None
    if draw(st.booleans()):
        weights = rng.choice([1.0, 1.5, 2.0, 7.0], len(rows))
    if draw(st.booleans()):  # the directions that an update gives
        for k in range(len(directions)):
            mean = rows[labels == k].sum(axis=0, dtype=np.float64)
            directions[k] = mean / np.linalg.norm(mean) if np.linalg.norm(mean) > 1e-9 else directions[k]
    return rows, weights, labels, directions, draw(st.sampled_from(ANGLES))


@law
@given(states())
def test_the_objective_never_falls_at_any_row_nor_at_the_update(state):
    rows, weights, labels, directions, angle = state
    # float32 rows are not quite unit: J of the rows as they are may then fall by as much
    points = as_points(rows, "test", weights)
    wide = rows.astype(np.float64)
    each = np.ones(len(rows)) if weights is None else weights
    price = price_of(angle)
    before = value(wide, each, labels, directions, price)
    rounding = 1e-12 * max(1.0, each.sum()) + (4e-6 * each.max() if rows.dtype == np.float32 else 0.0)
    current, moved = labels, directions
    for current, moved in walk_through(wide, each, labels, directions, angle):
        now = value(wide, each, current, moved, price)
        assert now >= before - rounding
        before = now
    # the library's sweep ends where the rows did
    with Workers(1) as workers:
        assignment = labelled(Passes(points, kernels_for("cpu"), workers), labels)
        sweep = assignment.sweep_in_order(directions, Opening(floor_of(angle)))
    np.testing.assert_array_equal(assignment.labels.to_host(), current)
    np.testing.assert_array_equal(sweep.directions, moved)
    assert sweep.is_still == (np.array_equal(labels, current) and np.array_equal(directions, moved))
    # dropping slots renames, and the update maximises
    is_kept = sweep.statistics.counts > 0.0
    assignment.keep(is_kept)
    dropped = value(wide, each, assignment.labels.to_host(), sweep.directions[is_kept], price)
    assert abs(dropped - before) <= rounding
    updated = sweep.statistics.select(is_kept).directions(otherwise=sweep.directions[is_kept])
    assert value(wide, each, assignment.labels.to_host(), updated, price) >= before - rounding


def labelled(passes, labels):
    """An assignment that begins with these labels."""
    assignment = SequentialAssignment(passes)
    assignment.begin_with(np.arange(len(labels)), labels)
    return assignment


@settings(deadline=None, max_examples=200)
@given(states(), st.integers(1, 8), st.sampled_from([1, 2, 1024]))
def test_a_cap_holds_row_by_row_whatever_the_start(state, most, n_cautious):
    rows, weights, labels, directions, angle = state
    each = np.ones(len(rows)) if weights is None else weights
    *_, (current, moved) = walk_through(rows.astype(np.float64), each, labels, directions, angle, most)
    with Workers(1) as workers, pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimistic, "_CAUTIOUS_ROWS", n_cautious)
        passes = Passes(as_points(rows, "test", weights), kernels_for("cpu"), workers)
        assignment = labelled(passes, labels)
        sweep = assignment.sweep_in_order(directions, Opening(floor_of(angle), most))
    np.testing.assert_array_equal(assignment.labels.to_host(), current)
    np.testing.assert_array_equal(sweep.directions, moved)


# ------------------------------------------------------------------------------------------------------ whole fits

settings_of_a_fit = st.fixed_dictionaries(
    {
        "tol": st.sampled_from([0.0, 1e-6, 1e-2]),
        "max_iter": st.sampled_from([1, 2, 3, 100]),
        "max_clusters": st.sampled_from([None, None, 1, 3, 8]),
        "n_init": st.sampled_from([1, 1, 3]),
        "consolidate": st.sampled_from([False, False, True]),
    }
)
angles = st.sampled_from(ANGLES)
kinds_of_weights = st.sampled_from([None, [0.0, 1.0], [0.3, 1.0, 2.0], [1.0, 2.0, 5.0]])


def draw_weights(rng, kind, n_rows):
    if kind is None:
        return None
    weights = rng.choice(kind, n_rows)
    weights[rng.integers(n_rows)] = 1.0
    return weights


@law
@given(row_sets(), angles, kinds_of_weights, settings_of_a_fit, st.booleans())
def test_what_is_published_is_consistent(problem, angle, kind, parameters, is_sparse):
    rng, rows = problem
    weights = draw_weights(rng, kind, len(rows))
    given_rows = sp.csr_array(rows) if is_sparse else rows
    model = fit(given_rows, angle, weights, **parameters)
    each = np.ones(len(rows)) if weights is None else weights
    np.testing.assert_array_equal(model.labels_, model.predict(given_rows))
    assert model.n_clusters_ == len(model.cluster_centers_)
    assert set(model.labels_[each > 0.0].tolist()) == set(range(model.n_clusters_))
    assert parameters["max_clusters"] is None or model.n_clusters_ <= parameters["max_clusters"]
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1.0, rtol=0, atol=1e-12)
    own = (rows.astype(np.float64) * model.cluster_centers_[model.labels_]).sum(axis=1)
    assert abs(model.objective_ - each @ own - model.lambda_ * model.n_clusters_) <= 1e-11 * each.sum()
    assert model.lambda_ == price_of(angle)
    # J <= N + lambda; float32 rows count as unit when they are so to 2e-6
    assert model.objective_ <= each.sum() * (1.0 + 2.1e-6) + model.lambda_ + 1e-9
    is_outside = model.predict(given_rows, reject=True) < 0
    assert model.n_outside_ == np.count_nonzero(is_outside & (each > 0.0))
    # directions are those of the resultants, or kept where rows cancel
    assert abs(model.counts_.sum() - each.sum()) <= 1e-9
    lengths = np.linalg.norm(model.resultants_, axis=1)
    along = (model.resultants_ * model.cluster_centers_).sum(axis=1)
    has_direction = lengths > 1e-9 * model.counts_
    np.testing.assert_allclose(along[has_direction], lengths[has_direction], rtol=1e-12)


@law
@given(row_sets(), angles, st.sampled_from([None, [1.0, 2.0, 5.0]]))
def test_the_objective_of_the_sweeps_never_falls(problem, angle, kind):
    rng, rows = problem
    weights = draw_weights(rng, kind, len(rows))
    events = []
    model = fit(rows, angle, weights, tol=0.0, callbacks=events.append)
    objectives = [event.objective for event in events if event.kind == "step"]
    total = len(rows) if weights is None else weights.sum()
    rounding = 1e-12 * max(1.0, total) + (4e-6 * total if rows.dtype == np.float32 else 0.0)
    assert all(after >= before - rounding for before, after in pairwise(objectives))
    assert model.objective_ >= objectives[-1] - rounding
    assert [event.n_clusters for event in events if event.kind == "step"][-1] >= model.n_clusters_


@law
@given(row_sets(), angles)
def test_a_fixed_point_has_every_row_within_the_angle_and_lone_rows_on_their_directions(problem, angle):
    _, rows = problem
    model = fit(rows, angle, tol=0.0)
    wide = rows.astype(np.float64)
    again, directions = reference.one_by_one(rows, None, model.labels_, model.cluster_centers_, floor_of(angle))
    if not (np.array_equal(again, model.labels_) and np.array_equal(directions, model.cluster_centers_)):
        # tol = 0 also stops where a sweep gains nothing: at a tie, or where float32 rows are not quite unit
        own = (wide * directions[again]).sum() + model.lambda_ * len(np.unique(again))
        assert own <= model.objective_ + 1e-12 * len(rows) + (4e-6 * len(rows) if rows.dtype == np.float32 else 0.0)
        return
    assert model.n_outside_ == 0
    own = (wide * model.cluster_centers_[model.labels_]).sum(axis=1)
    assert (own >= floor_of(angle) - 1e-13).all()
    is_lone = np.bincount(model.labels_)[model.labels_] == 1
    norms = np.linalg.norm(wide[is_lone], axis=1, keepdims=True)
    np.testing.assert_allclose(model.cluster_centers_[model.labels_[is_lone]], wide[is_lone] / norms, atol=1e-15)


@law
@given(row_sets(), angles, settings_of_a_fit)
def test_equal_rows_have_equal_labels_and_first_rows_come_in_order(problem, angle, parameters):
    _, rows = problem
    model = fit(rows, angle, **parameters)
    _, inverse = np.unique(rows, axis=0, return_inverse=True)
    for k in range(inverse.max() + 1):
        assert len(set(model.labels_[inverse == k].tolist())) == 1


# --------------------------------------------------------------------------------------------- symmetries of the data


def smooth_rows(seed, n_features, n_rows=90):
    """Rows without ties: what changes by rounding alone does not change a label."""
    rng = np.random.default_rng([seed, n_features])
    spread = 0.6 / math.sqrt(n_features)
    rows = units(rng, 6, n_features)[rng.integers(6, size=n_rows)] + spread * rng.standard_normal((n_rows, n_features))
    return rng, rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("n_features", [2, 3, 17, 33])
def test_rotating_rows_rotates_directions(n_features):
    for seed in range(6):
        rng, rows = smooth_rows(seed, n_features)
        turn, _ = np.linalg.qr(rng.standard_normal((n_features, n_features)))
        for angle in (0.5, 0.9, 1.8):
            model, turned = fit(rows, angle, tol=0.0), fit(rows @ turn, angle, tol=0.0)
            np.testing.assert_array_equal(turned.labels_, model.labels_)
            np.testing.assert_allclose(turned.cluster_centers_, model.cluster_centers_ @ turn, rtol=0, atol=1e-12)
            assert abs(turned.objective_ - model.objective_) <= 1e-11


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
def test_lengths_of_rows_do_not_matter(is_sparse):
    for seed in range(4):
        rng, rows = smooth_rows(seed, 17)
        scaled = 10.0 ** rng.uniform(-6, 6, (len(rows), 1)) * rows
        one, other = (sp.csr_array(x) if is_sparse else x for x in (rows, scaled))
        model, found = fit(one, 0.8, tol=0.0), fit(other, 0.8, tol=0.0)
        np.testing.assert_array_equal(found.labels_, model.labels_)
        np.testing.assert_allclose(found.cluster_centers_, model.cluster_centers_, rtol=0, atol=1e-12)
        doubled = fit(8.0 * other, 0.8, tol=0.0)
        np.testing.assert_array_equal(doubled.cluster_centers_, found.cluster_centers_)


@pytest.mark.parametrize("n_features", [3, 17])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
def test_whole_weights_are_rows_repeated_in_place(n_features, is_sparse):
    hold = sp.csr_array if is_sparse else np.asarray
    for seed in range(8):
        rng, rows = smooth_rows(seed, n_features)
        weights = rng.integers(0, 4, len(rows))
        repeated = np.repeat(rows, weights, axis=0)
        for parameters in ({}, {"max_clusters": 4}, {"consolidate": True}, {"max_iter": 2}):
            model = fit(hold(rows), 0.7, weights, tol=0.0, **parameters)
            other = fit(hold(repeated), 0.7, tol=0.0, **parameters)
            np.testing.assert_array_equal(np.repeat(model.labels_, weights), other.labels_)
            np.testing.assert_allclose(model.cluster_centers_, other.cluster_centers_, rtol=0, atol=1e-12)
            np.testing.assert_allclose(model.counts_, other.counts_, rtol=1e-13)
            assert abs(model.objective_ - other.objective_) <= 1e-10
            assert model.n_iter_ == other.n_iter_
        batch = DPvMFMeans(0.7).partial_fit(hold(rows), sample_weight=weights)
        other = DPvMFMeans(0.7).partial_fit(hold(repeated))
        np.testing.assert_allclose(batch.cluster_centers_, other.cluster_centers_, rtol=0, atol=1e-12)


def test_lone_rows_of_weight_two_are_two_rows():
    """Here copies matter: a row alone in its cluster must leave where it can, one with a twin need not."""
    n_differing = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows = units(rng, 12, 3)
        weights = rng.choice([1, 2], 12)
        model = fit(rows, 1.2, weights, tol=0.0)
        repeated = fit(np.repeat(rows, weights, axis=0), 1.2, tol=0.0)
        np.testing.assert_array_equal(np.repeat(model.labels_, weights), repeated.labels_, err_msg=f"seed {seed}")
        light = fit(rows, 1.2, np.full(12, 1.0), tol=0.0)
        n_differing += not np.array_equal(light.labels_, model.labels_)
    assert n_differing > 0


# ------------------------------------------------------------------------------------------------------------ recovery


@law
@given(st.integers(0, 2**32), st.sampled_from([2, 3, 5, 17]), st.floats(0.0, 1.0))
def test_separated_clusters_are_found_from_any_order(seed, n_features, share):
    """delta <= phi < Delta and cos(Delta) < cos(delta)^{3/2}: dp_vmf_means.md, 6."""
    rng = np.random.default_rng(seed)
    centers = units(rng, 1, n_features)
    for candidate in units(rng, 60, n_features):
        if (centers @ candidate).max() < math.cos(0.9) and len(centers) < 8:
            centers = np.vstack([centers, candidate])
    truth = rng.integers(len(centers), size=80)
    across = units(rng, 80, n_features)
    across -= np.vecdot(across, centers[truth])[:, None] * centers[truth]
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    angle = rng.uniform(0.0, 0.15, (80, 1))
    rows = np.cos(angle) * centers[truth] + np.sin(angle) * across
    cosines = np.clip(rows @ rows.T, -1.0, 1.0)
    is_same = truth[:, None] == truth
    delta = float(np.arccos(cosines[is_same].min()))
    least = float(np.arccos(cosines[~is_same].max())) if not is_same.all() else math.pi
    assert math.cos(least) < math.cos(delta) ** 1.5
    phi = delta + 1e-6 + share * (least - delta - 2e-6)
    for _ in range(2):
        order = rng.permutation(80)
        model = fit(rows[order], phi, tol=0.0)
        first = {label: number for number, label in reversed(list(enumerate(truth[order])))}
        ranks = {label: rank for rank, label in enumerate(sorted(first, key=first.get))}
        assert model.labels_.tolist() == [ranks[label] for label in truth[order]]
        assert model.n_iter_ == 2
