"""The compiled walk of tracks beside `distributions/geodesic_walk.py`, over all that a stream can bring."""

from __future__ import annotations

import math

import numpy as np
import pytest

from armillary.distributions import geodesic_walk
from armillary.geometry import sphere
from armillary.kernels.rows import blocks, reference
from armillary.rules import Tracks


def unit_rows(rng, n_rows, dimension):
    rows = rng.normal(size=(n_rows, dimension))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def random_tracks(rng, n_tracks, dimension, is_exact, drift):
    weights = 10.0 ** rng.uniform(-6, 9, n_tracks)
    steps = np.maximum(1, (10.0 ** rng.uniform(0, 4, n_tracks)).astype(np.int64))
    return Tracks(unit_rows(rng, n_tracks, dimension), weights, steps, drift, is_exact)


def turned(rng, directions, angles):
    """Unit rows at `angles` from `directions`."""
    across = sphere.to_tangent(unit_rows(rng, *directions.shape), directions)
    return sphere.exp(angles[:, None] * across / np.linalg.norm(across, axis=1, keepdims=True), directions)


@pytest.mark.parametrize("rule", ["curvature", "paper"])
@pytest.mark.parametrize("is_exact", [True, False])
@pytest.mark.parametrize("drift", [1e-6, 1.0, 1e5, 1e12, math.inf])
def test_meetings_are_those_of_the_reference(drift, is_exact, rule):
    rng = np.random.default_rng(0)
    tracks = random_tracks(rng, 400, 3, is_exact, drift)
    angles = np.concatenate([rng.uniform(0, 3.1, 200), 10.0 ** rng.uniform(-9, 0, 200)])
    towards = turned(rng, tracks.directions, angles)
    lengths = 10.0 ** rng.uniform(-3, 6, 400)
    found = blocks.meet_tracks(tracks, towards, lengths, rule)
    expected = reference.meet_tracks(tracks, towards, lengths, rule)
    np.testing.assert_allclose(found.directions, expected.directions, rtol=0, atol=3e-15)
    # in units of the weakest link, which alone can bend far
    scale = np.minimum(tracks.weights, lengths)
    np.testing.assert_allclose(found.penalties / scale, expected.penalties / scale, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-9, atol=1e-12 * lengths.max())


@pytest.mark.parametrize("dimension", [2, 3, 50])
def test_rows_at_the_memory_and_opposite_to_it(dimension):
    rng = np.random.default_rng(1)
    tracks = random_tracks(rng, 20, dimension, True, 1e3)
    lengths = np.ones(20)
    at_memory = blocks.meet_tracks(tracks, tracks.directions, lengths, "curvature")
    np.testing.assert_array_equal(at_memory.directions, tracks.directions)
    np.testing.assert_array_equal(at_memory.penalties, 0.0)
    opposite = blocks.meet_tracks(tracks, -tracks.directions, lengths, "curvature")
    expected = reference.meet_tracks(tracks, -tracks.directions, lengths, "curvature")
    # where the walk keeps to the rows, the arc it takes does not show
    np.testing.assert_allclose(opposite.directions, expected.directions, rtol=0, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(opposite.directions, axis=1), 1.0, rtol=1e-15)


def test_a_track_does_not_see_the_others():
    rng = np.random.default_rng(2)
    tracks = random_tracks(rng, 9, 5, True, 1e4)
    towards, lengths = unit_rows(rng, 9, 5), rng.uniform(1, 100, 9)
    together = blocks.meet_tracks(tracks, towards, lengths, "curvature")
    for t in range(9):
        alone = Tracks(tracks.directions[t : t + 1], tracks.weights[t : t + 1], tracks.steps[t : t + 1], 1e4, True)
        one = blocks.meet_tracks(alone, towards[t : t + 1], lengths[t : t + 1], "curvature")
        for found, expected in zip(one, together, strict=True):
            np.testing.assert_array_equal(found[0], expected[t])


@pytest.mark.parametrize("drift", [1e-6, 1.0, 1e5, 1e12, math.inf])
def test_revival_curves_are_those_of_the_reference(drift):
    rng = np.random.default_rng(3)
    tracks = random_tracks(rng, 200, 3, True, drift)
    found, expected = blocks.revival_curves(tracks, -1e-3), reference.revival_curves(tracks, -1e-3)
    scale = 1.0 + np.abs(expected.scores)
    np.testing.assert_allclose(found.angles, expected.angles, rtol=0, atol=2e-11)
    np.testing.assert_allclose(found.scores / scale, expected.scores / scale, rtol=0, atol=1e-13)
    np.testing.assert_allclose(found.slopes, expected.slopes, rtol=1e-9, atol=1e-12)
    assert (np.diff(found.angles, axis=1) >= 0.0).all()


def test_curves_meet_the_exact_score_between_their_knots():
    rng = np.random.default_rng(4)
    tracks = random_tracks(rng, 30, 3, True, 1e3)
    curve = blocks.revival_curves(tracks, -1e-3)
    at = np.broadcast_to(np.linspace(0.0, math.pi, 777), (30, 777))
    links = (tracks.weights[:, None], 1e3, tracks.steps[:, None])
    exact = geodesic_walk.revival_score(at, *links, -1e-3)
    np.testing.assert_allclose(
        geodesic_walk.interpolate(curve, at), exact, rtol=0, atol=2e-9 * (1 + np.abs(exact).max())
    )


def test_the_small_angle_curve_is_the_reference_itself():
    rng = np.random.default_rng(5)
    tracks = random_tracks(rng, 5, 3, False, 1e3)
    for found, expected in zip(
        blocks.revival_curves(tracks, -1e-3), reference.revival_curves(tracks, -1e-3), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
