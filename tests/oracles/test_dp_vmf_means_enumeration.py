"""DP-vMF-means and DDP-vMF-means beside all partitions of a few rows: no result beats the list, and each is settled."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from armillary import DDPvMFMeans, DPvMFMeans
from armillary.distributions import geodesic_walk
from armillary.geometry import sphere
from armillary.kernels import reference

BELL = [1, 1, 2, 5, 15, 52, 203, 877]


@cache
def partitions(n_rows):
    """All partitions of n rows, as labels in the order of first rows."""
    if n_rows == 0:
        return [()]
    return [(*shorter, label) for shorter in partitions(n_rows - 1) for label in range(max(shorter, default=-1) + 2)]


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def draw_rows(seed):
    rng = np.random.default_rng(seed)
    n_rows, n_features = int(rng.integers(1, 8)), int(rng.choice([2, 3, 4]))
    rows = rng.standard_normal((n_rows, n_features))
    if rng.random() < 0.3:  # repeats, opposites and ties
        rows = rng.integers(-1, 2, rows.shape).astype(float)
        rows[~rows.any(axis=1), 0] = 1.0
    return unit(rows), float(rng.choice([0.3, 0.8, 1.2, math.pi / 2, 2.0, 3.0, math.pi]))


def value(rows, labels, price):
    labels = np.asarray(labels)
    n_clusters = labels.max() + 1
    return sum(np.linalg.norm(rows[labels == k].sum(axis=0)) for k in range(n_clusters)) + price * n_clusters


def test_the_list_is_complete():
    assert [len(partitions(n)) for n in range(8)] == BELL
    assert len(set(partitions(7))) == 877


@pytest.mark.parametrize("part", range(4))
def test_no_fit_beats_the_list_and_each_is_a_fixed_point(part):
    n_best = 0
    for seed in range(25 * part, 25 * (part + 1)):
        rows, angle = draw_rows(seed)
        model = DPvMFMeans(angle, tol=0.0).fit(rows)
        price = math.cos(angle) - 1.0
        best = max(value(rows, labels, price) for labels in partitions(len(rows)))
        assert model.objective_ <= best + 1e-12, f"seed {seed}"
        assert model.objective_ == pytest.approx(value(rows, model.labels_, price), abs=1e-12), f"seed {seed}"
        n_best += model.objective_ >= best - 1e-12
        # one more sweep of the definition moves nothing
        floor = 1.0 + model.lambda_ if angle < math.pi else -math.inf
        again, directions = reference.one_by_one(rows, None, model.labels_, model.cluster_centers_, floor)
        np.testing.assert_array_equal(again, model.labels_, err_msg=f"seed {seed}")
        np.testing.assert_array_equal(directions, model.cluster_centers_, err_msg=f"seed {seed}")
        # every row lies within the angle, and a lone one on its direction
        cosines = (rows * model.cluster_centers_[model.labels_]).sum(axis=1)
        assert (cosines >= floor - 1e-12).all(), f"seed {seed}"
        is_lone = np.bincount(model.labels_)[model.labels_] == 1
        np.testing.assert_allclose(model.cluster_centers_[model.labels_[is_lone]], rows[is_lone], atol=1e-15)
    assert n_best > 5  # the optimum is found now and then: the bound is not idle


def step_value(rows, labels, n_tracks, before, parameters):
    """J of a step (ddp_vmf_means.md, 6), from scratch; labels below n_tracks are tracks."""
    price = math.cos(parameters["max_angle"]) - 1.0
    total = 0.0
    for label in np.unique(labels):
        resultant = rows[labels == label].sum(axis=0)
        length = float(np.linalg.norm(resultant))
        if label >= n_tracks:
            total += length + price
            continue
        direction, weight, steps = (part[label] for part in before)
        total += steps * price / parameters["max_unseen_steps"]
        if length > 1e-12:
            angle = sphere.angle(direction, resultant / length)
            links = (weight, parameters["drift_concentration"], steps)
            walk = geodesic_walk.solve(angle, *links, length)
            total += length * math.cos(walk.rows) - float(geodesic_walk.penalty(walk, *links))
    return total


@pytest.mark.parametrize("part", range(3))
def test_no_step_beats_the_list(part):
    n_best = n_steps = 0
    for seed in range(20 * part, 20 * (part + 1)):
        rng = np.random.default_rng(seed)
        parameters = {
            "max_angle": float(rng.choice([0.5, 1.0, 1.6])),
            "max_unseen_steps": float(rng.choice([2.0, 6.0])),
            "drift_concentration": float(rng.choice([2.0, 50.0, 1e5])),
        }
        model = DDPvMFMeans(tol=0.0, **parameters).partial_fit(unit(rng.standard_normal((3, 3))))
        for _ in range(3):
            before = (model.memory_directions_, model.memory_weights_, model.steps_unseen_ + 1)
            alive = before[2] < parameters["max_unseen_steps"]
            before = tuple(part[alive] for part in before)
            ids = model.cluster_ids_[alive]
            n_tracks = len(ids)
            rows = unit(model.memory_directions_[:1] + rng.choice([0.3, 1.5]) * rng.standard_normal((4, 3)))
            model.partial_fit(rows)
            # every row to a track or a new cluster
            choices = {
                tuple(choice[block] if choice[block] < n_tracks else n_tracks + block for block in labels)
                for labels in partitions(4)
                for choice in np.ndindex(*[n_tracks + 1] * 4)
            }
            values = {labels: step_value(rows, np.array(labels), n_tracks, before, parameters) for labels in choices}
            best = max(values.values())
            slots = np.array(
                [np.flatnonzero(ids == label)[0] if label in ids else label + 100 for label in model.labels_]
            )
            mine = step_value(rows, slots, n_tracks, before, parameters)
            assert model.objective_ == pytest.approx(mine, abs=1e-10), f"seed {seed}"
            assert model.objective_ <= best + 1e-10, f"seed {seed}"
            n_best += model.objective_ >= best - 1e-10
            n_steps += 1
    assert n_steps == 60
    assert n_best > 5
