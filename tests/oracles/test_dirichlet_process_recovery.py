"""Three directions as far apart as they can be are found, in few dimensions and in many, from few rows and from many.

What decides is the prior's scale, which is taken from the rows: too narrow a prior leaves every piece of the start on
its own, too wide a one puts all rows together. The posterior of a partition is exact for any scale, so a run that ends
elsewhere may only do so where the posterior prefers it.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from armillary import DirichletProcessMixture
from armillary.fitting.dirichlet_process import clusters_of
from armillary.models.dirichlet_process._chains import log_crp

DIMENSIONS = (2, 3, 5, 10, 20, 35, 50)
N_ROWS = (30, 60, 120, 300, 1000, 3000)
# Beyond this length of the noise, 37 degrees from the direction, clusters overlap with what lies between them.
MOST_NOISE = 0.75
ROUNDING = 1e-6
QUICK = [
    (2, 30, 0.15),
    (2, 60, 0.1),
    (3, 120, 0.05),
    (5, 60, 0.15),
    (10, 30, 0.02),
    (10, 120, 0.15),
    (20, 30, 0.1),
    (20, 60, 0.15),
    (35, 30, 0.02),
    (35, 30, 0.1),
    (35, 120, 0.1),
    (50, 30, 0.05),
    (50, 60, 0.1),
]


def three_directions(dimension, n_each, noise, seed):
    angles = 2.0 * np.pi * np.arange(3) / 3.0
    centers = np.stack([np.cos(angles), np.sin(angles)], axis=1) if dimension == 2 else np.eye(dimension)[:3]
    rng = np.random.default_rng(seed)
    rows = np.repeat(centers, n_each, axis=0) + noise * rng.standard_normal((3 * n_each, dimension))
    return rows, np.repeat(np.arange(3), n_each)


def log_posterior(model, rows, labels):
    """Of a partition, up to a constant: evidences at the centre of each cluster's proposal."""
    with model._passes(model._points(rows, is_new=False)) as passes:
        clusters = clusters_of(passes, labels)
        evidence = float(model._component().central_evidence(clusters.sets()).sum())
        return log_crp(clusters.counts, 1.0) + evidence


def is_found(dimension, n_each, noise, seed):
    """Whether the three are found; what else is found must be as probable as they are."""
    rows, truth = three_directions(dimension, n_each, noise, seed)
    model = DirichletProcessMixture(n_burn_in=5, n_draws=10, random_state=seed).fit(rows)
    if model.n_clusters_ == 3 and adjusted_rand_score(truth, model.labels_) > 0.99:
        return True
    case = f"D={dimension}, {n_each} rows each, noise {noise}, seed {seed}: {model.n_clusters_} clusters"
    assert log_posterior(model, rows, model.labels_) >= log_posterior(model, rows, truth) - ROUNDING, case
    return False


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_sixty_rows_in_twenty_dimensions(seed):
    # one of these had seven clusters: no piece of k-means had 21 rows, and the spread was taken to be 0.1
    assert is_found(20, 60, 0.1, seed)


@pytest.mark.parametrize(("dimension", "n_each", "noise"), QUICK)
def test_three_directions_are_found(dimension, n_each, noise):
    assert is_found(dimension, n_each, noise, 7)


@pytest.mark.parametrize("number", [85, 114, 130, 133, 165])
def test_an_odd_row_on_its_own_in_every_draw(number):
    # the draws agreed on four clusters, 0.1 to 3.1 nats below the three
    assert is_found(*drawn_case(number))


def drawn_case(number):
    rng = np.random.default_rng([16, number])
    dimension, n_each = int(rng.choice(DIMENSIONS)), int(rng.choice(N_ROWS))
    noise = min(float(rng.choice([0.02, 0.05, 0.1, 0.15])), MOST_NOISE / np.sqrt(dimension))
    return dimension, n_each, noise, number


@pytest.mark.slow
def test_three_directions_are_found_in_95_of_100_runs():
    assert sum(is_found(*drawn_case(number)) for number in range(100)) >= 95


def test_the_spread_needs_no_more_rows_in_more_dimensions():
    # 30 pieces of ten rows, of which none has more rows than columns
    for dimension in (12, 30):
        rows, _ = three_directions(dimension, 100, 0.03, 0)
        model = DirichletProcessMixture(n_burn_in=0, n_draws=1, random_state=0).fit(rows)
        # from twice the spread to where the evidence is largest, the root of nu / (nu - p - 1) = (D + 2) / 2
        assert 0.05 < model.spread_ < 0.03 * 1.2 * np.sqrt((dimension + 2) / 2)
