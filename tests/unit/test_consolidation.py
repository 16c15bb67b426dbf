"""Merging clusters that lie within an angle together: against a version that tries every pair again and again."""

from __future__ import annotations

import math
import warnings
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from armillary import DPvMFMeans
from armillary.engines import cpu
from armillary.engines.cpu import Passes
from armillary.fitting.consolidation import merge_within
from armillary.kernels.select import kernels_for
from armillary.points import as_points
from armillary.workers import Workers


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def circle(*degrees):
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def merged(rows, labels, floor, weights=None, n_threads=1):
    """What `merge_within` makes of clusters and their mean directions: labels, directions, statistics."""
    labels = np.asarray(labels, dtype=np.int32).copy()
    with Workers(n_threads) as workers:
        passes = Passes(as_points(rows, "test", weights), kernels_for("cpu"), workers)
        statistics = passes.sums(labels, int(labels.max()) + 1)
        directions = statistics.directions(otherwise=np.eye(*statistics.resultants.shape))
        given = directions.copy(), statistics.counts.copy(), statistics.resultants.copy()
        own = passes.labels_from(labels)
        found, sums = merge_within(passes, own, directions, statistics, floor)
    for kept, now in zip(given, (directions, statistics.counts, statistics.resultants), strict=True):
        np.testing.assert_array_equal(now, kept)  # arguments are left alone, labels aside
    return own.to_host(), found, sums


def naive(rows, labels, floor, weights):
    """Every pair again after every merge, the closest first; the smaller number is kept."""
    labels = np.asarray(labels).copy()
    numbers = list(range(labels.max() + 1))
    while True:
        sums = {k: (weights[labels == k, None] * rows[labels == k]).sum(axis=0) for k in numbers}
        pairs = sorted(combinations(numbers, 2), key=lambda pair: -unit(sums[pair[0]]) @ unit(sums[pair[1]]))
        for one, other in pairs:
            both = np.isin(labels, [one, other])
            if (rows[both] @ unit(sums[one] + sums[other])).min() >= floor:
                labels[labels == other] = one
                numbers.remove(other)
                break
        else:
            return np.searchsorted(numbers, labels), np.array([sums[k] for k in numbers])


def draw(seed):
    """Rows in general position, cut into too many clusters, with weights now and then."""
    rng = np.random.default_rng(seed)
    n_features = int(rng.choice([2, 3, 5, 20]))
    n_rows = int(rng.integers(2, 60))
    spread = rng.choice([0.1, 0.4, 2.0])
    rows = unit(
        unit(rng.standard_normal((4, n_features)))[rng.integers(4, size=n_rows)]
        + spread / math.sqrt(n_features) * rng.standard_normal((n_rows, n_features))
    )
    n_clusters = int(rng.integers(1, min(n_rows, 14) + 1))
    labels = (unit(rng.standard_normal((n_clusters, n_features))) @ rows.T).argmax(axis=0)
    labels = np.unique(labels, return_inverse=True)[1]
    weights = rng.choice([0.5, 1.0, 3.0], n_rows) if rng.random() < 0.4 else None
    return rng, rows, labels, weights


@pytest.mark.parametrize("part", range(4))
def test_merges_are_those_of_trying_every_pair(part):
    n_merges = 0
    for seed in range(60 * part, 60 * (part + 1)):
        rng, rows, labels, weights = draw(seed)
        floor = math.cos(rng.choice([0.1, 0.3, 0.6, 1.0, 1.5, 1.7, 2.5]))
        given = sp.csr_array(rows) if rng.random() < 0.3 else rows
        found, directions, sums = merged(given, labels, floor, weights, n_threads=int(rng.integers(1, 3)))
        expected, resultants = naive(rows, labels, floor, np.ones(len(rows)) if weights is None else weights)
        message = f"seed {seed}"
        np.testing.assert_array_equal(found, expected, err_msg=message)
        np.testing.assert_allclose(sums.resultants, resultants, atol=1e-12, err_msg=message)
        np.testing.assert_allclose(directions, unit(resultants), atol=1e-9, err_msg=message)
        counts = np.bincount(expected, weights, len(resultants))
        np.testing.assert_allclose(sums.counts, counts, rtol=1e-13, err_msg=message)
        n_merges += labels.max() - expected.max()
    assert n_merges > 50


def test_labels_are_written_in_place_and_keep_their_order():
    rows = circle(0, 100, 2, 200, 101, 4)
    labels, directions, sums = merged(rows, [0, 1, 2, 3, 4, 5], math.cos(math.radians(5)))
    assert labels.tolist() == [0, 1, 0, 2, 1, 0]
    np.testing.assert_allclose(directions, circle(2, 100.5, 200), atol=1e-15)
    np.testing.assert_array_equal(sums.counts, [3, 2, 1])


def test_the_closest_pair_goes_first():
    # 0 and 10 fit together, 10 and 18 too, all three do not: the closer two are merged
    rows = circle(0, 10, 18)
    labels, _, _ = merged(rows, [0, 1, 2], math.cos(math.radians(5.5)))
    assert labels.tolist() == [0, 1, 1]


def test_a_pair_is_tried_again_when_one_of_them_has_changed():
    # 0 and 12 do not fit alone; with 6 in the middle (merged into 0 first) the union does
    floor = math.cos(math.radians(6.05))
    rows = circle(0, 12, 5, 5, 5, 5, 5, 5, 7, 7, 7, 7, 7, 7)
    assert merged(circle(0, 12.2), [0, 1], floor)[0].tolist() == [0, 1]
    labels, _, _ = merged(rows, [0, 1] + [2] * 12, floor)
    assert labels.tolist() == [0] * 14


def test_every_row_counts_not_only_directions():
    # directions 8 degrees apart, but one row of the first lies 30 degrees off
    rows = circle(-30, 15, 15, 8)
    labels, _, _ = merged(rows, [0, 0, 0, 1], math.cos(math.radians(20)))
    assert labels.tolist() == [0, 0, 0, 1]
    assert merged(rows, [0, 0, 0, 1], math.cos(math.radians(35)))[0].tolist() == [0, 0, 0, 0]


def test_a_row_on_the_rim_is_inside():
    rows = np.array([[1.0, 0, 0, 0], [0, 1.0, 0, 0]])
    joint = unit(rows.sum(axis=0))
    rim = float(sum(rows[0] * joint))
    assert merged(rows, [0, 1], rim)[0].tolist() == [0, 0]
    assert merged(rows, [0, 1], math.nextafter(rim, 1.0))[0].tolist() == [0, 1]


def test_one_cluster_and_clusters_without_a_common_direction():
    labels, directions, _ = merged(circle(0, 1), [0, 0], 0.5)
    assert labels.tolist() == [0, 0]
    np.testing.assert_allclose(directions, circle(0.5), atol=1e-15)
    # opposite rows cancel: at pi they fit together, and the direction of the smaller number is kept
    labels, directions, sums = merged(circle(0, 180), [0, 1], -math.inf)
    assert labels.tolist() == [0, 0]
    np.testing.assert_allclose(directions, circle(0), atol=1e-15)
    assert np.linalg.norm(sums.resultants) < 1e-15
    assert merged(circle(0, 180), [0, 1], math.cos(3.0))[0].tolist() == [0, 1]


def test_many_clusters():
    rng = np.random.default_rng(3)
    rows = np.repeat(unit(rng.standard_normal((300, 3))), 2, axis=0)
    labels, directions, sums = merged(rows, np.arange(600), math.cos(1e-4))
    np.testing.assert_array_equal(labels, np.repeat(np.arange(300), 2))
    np.testing.assert_allclose(directions, rows[::2], atol=1e-15)
    np.testing.assert_array_equal(sums.counts, 2.0)


def test_rows_are_looked_at_in_parts(monkeypatch):
    _, rows, labels, weights = draw(5)
    expected = merged(rows, labels, 0.3, weights)
    monkeypatch.setattr(cpu, "_GATHERED_ROWS", 3)
    for found, wanted in zip(merged(rows, labels, 0.3, weights)[:2], expected[:2], strict=True):
        np.testing.assert_array_equal(found, wanted)


# -------------------------------------------------------------------------------------------------- in the model


def quiet_fit(model, rows, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows, **arguments)


def fits_together(rows, floor):
    return (rows @ unit(rows.sum(axis=0))).min() >= floor


@pytest.mark.parametrize("n_features", [3, 20])
@pytest.mark.parametrize("angle", [0.5, 0.9, 1.8])
def test_the_angle_is_then_a_radius(angle, n_features):
    n_merged = 0
    for seed in range(5):
        rng = np.random.default_rng([seed, n_features])
        noise = 0.5 / math.sqrt(n_features) * rng.standard_normal((80, n_features))
        rows = unit(unit(rng.standard_normal((6, n_features)))[rng.integers(6, size=80)] + noise)
        plain = DPvMFMeans(angle, tol=0.0).fit(rows)
        model = DPvMFMeans(angle, tol=0.0, consolidate=True).fit(rows)
        floor = 1.0 + model.lambda_
        assert model.n_outside_ == 0
        assert ((rows * model.cluster_centers_[model.labels_]).sum(axis=1) >= floor - 1e-12).all()
        np.testing.assert_array_equal(model.labels_, model.predict(rows))
        assert model.n_clusters_ <= plain.n_clusters_
        n_merged += plain.n_clusters_ - model.n_clusters_
        # exactly the clusters of the plain fit, merged
        expected, _ = naive(rows, plain.labels_, floor, np.ones(80))
        assert model.n_clusters_ == expected.max() + 1
        directions = unit(np.array([rows[expected == k].sum(axis=0) for k in range(model.n_clusters_)]))
        np.testing.assert_allclose(model.cluster_centers_, directions, atol=1e-12)
        assert not any(
            fits_together(rows[np.isin(expected, pair)], floor) for pair in combinations(range(expected.max() + 1), 2)
        )
        # counts are those behind the directions
        np.testing.assert_array_equal(model.counts_, np.bincount(expected))
    if angle < 1.5:
        assert n_merged > 0


def test_nothing_to_merge_changes_nothing():
    rows = np.repeat(circle(0, 90, 180), 4, axis=0)
    plain, model = DPvMFMeans(0.5).fit(rows), DPvMFMeans(0.5, consolidate=True).fit(rows)
    for name in ("labels_", "cluster_centers_", "objective_", "n_iter_", "counts_", "resultants_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(plain, name))


def test_merging_restores_what_a_small_angle_cut_up():
    rng = np.random.default_rng(8)
    rows = unit(np.eye(3)[np.arange(600) % 3] + 0.1 * rng.standard_normal((600, 3)))
    assert DPvMFMeans(0.38, tol=0.0).fit(rows).n_clusters_ > 5
    model = DPvMFMeans(0.38, tol=0.0, consolidate=True).fit(rows)
    np.testing.assert_array_equal(model.labels_, np.arange(600) % 3)


@pytest.mark.parametrize("n_init", [1, 3])
def test_weights_and_orders(n_init):
    rng = np.random.default_rng(9)
    rows = unit(rng.standard_normal((150, 3)))
    weights = rng.choice([0.0, 1.0, 4.0], 150)
    model = quiet_fit(DPvMFMeans(0.6, consolidate=True, n_init=n_init, random_state=0), rows, sample_weight=weights)
    np.testing.assert_array_equal(model.labels_, model.predict(rows))
    assert model.counts_.sum() == weights.sum()
    lengths = np.linalg.norm(model.resultants_, axis=1, keepdims=True)
    np.testing.assert_allclose(model.resultants_ / lengths, model.cluster_centers_, atol=1e-14)
