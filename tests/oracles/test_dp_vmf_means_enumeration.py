"""DP-vMF-means and DDP-vMF-means beside all partitions of a few rows: no result beats the list, and each is settled."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from armillary import DDPvMFMeans, DPvMFMeans
from armillary.distributions import geodesic_walk
from armillary.geometry import sphere
from armillary.kernels.rows import reference

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


def subset_values(rows, tracks, parameters):
    """What each set of rows adds to J of a step (ddp_vmf_means.md, 6) as each track, and (last) as a birth."""
    price = math.cos(parameters["max_angle"]) - 1.0
    directions, weights, steps = tracks
    found = {}
    for bits in range(1, 2 ** len(rows)):
        members = tuple(i for i in range(len(rows)) if bits >> i & 1)
        resultant = rows[list(members)].sum(axis=0)
        length = float(np.linalg.norm(resultant))
        links = (weights, parameters["drift_concentration"], steps)
        walk = geodesic_walk.solve(sphere.angle(directions, resultant / length), *links, length)
        as_tracks = steps * price / parameters["max_unseen_steps"] - geodesic_walk.penalty(walk, *links)
        found[members] = np.append(as_tracks + length * np.cos(walk.rows), length + price)
    return found


def best_value(values, n_rows, n_tracks):
    """The best J over all partitions and all ways to give their parts to tracks, each to one part at most."""
    best = -math.inf
    for labels in partitions(n_rows):
        parts = [values[tuple(i for i in range(n_rows) if labels[i] == k)] for k in range(max(labels) + 1)]
        for owners in np.ndindex(*[n_tracks + 1] * len(parts)):
            taken = [owner for owner in owners if owner < n_tracks]
            if len(set(taken)) == len(taken):
                best = max(best, sum(part[owner] for part, owner in zip(parts, owners, strict=True)))
    return best


@pytest.mark.parametrize("part", range(3))
def test_no_step_beats_the_list(part):
    n_best = 0
    for seed in range(10 * part, 10 * (part + 1)):
        rng = np.random.default_rng(seed)
        parameters = {
            "max_angle": float(rng.choice([0.5, 1.0, 1.6])),
            "max_unseen_steps": float(rng.choice([2.0, 6.0])),
            "drift_concentration": float(rng.choice([2.0, 50.0, 1e5])),
        }
        model = DDPvMFMeans(tol=0.0, **parameters).partial_fit(unit(rng.standard_normal((2, 3))))
        for _ in range(2):
            is_alive = model.steps_unseen_ + 1 < parameters["max_unseen_steps"]
            ids = model.cluster_ids_[is_alive].tolist()
            tracks = (model.cluster_centers_, model.memory_weights_, model.steps_unseen_ + 1)
            around = model.cluster_centers_[:1] + rng.choice([0.3, 1.5]) * rng.standard_normal((4, 3))
            rows = unit(around)
            values = subset_values(rows, tuple(part[is_alive] for part in tracks), parameters)
            model.partial_fit(rows)
            mine = 0.0
            for label in np.unique(model.labels_):
                members = tuple(np.flatnonzero(model.labels_ == label).tolist())
                mine += values[members][ids.index(label) if label in ids else -1]
            assert model.objective_ == pytest.approx(mine, abs=1e-10), f"seed {seed}"
            best = best_value(values, 4, len(ids))
            assert model.objective_ <= best + 1e-10, f"seed {seed}"
            n_best += model.objective_ >= best - 1e-10
    assert n_best > 2
