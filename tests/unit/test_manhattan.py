"""Orthogonal frames of directions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from armillary.exceptions import InputError, ParameterError
from armillary.vision import Manhattan

SIX = np.concatenate([np.eye(3), -np.eye(3)])


def shaken(rng, vectors, degrees):
    turns = Rotation.from_rotvec(np.radians(degrees) * rng.uniform(-1.0, 1.0, vectors.shape) / math.sqrt(3.0))
    return turns.apply(vectors)


def assert_sound(found, vectors, tolerance):
    """Frames are rotations, and every member lies along the axis it is said to."""
    for frame in found.frames:
        np.testing.assert_allclose(frame @ frame.T, np.eye(3), rtol=0, atol=1e-12)
        assert np.linalg.det(frame) > 0.0
    for vector, frame, axis, sign in zip(vectors, found.frame_ids, found.axes, found.signs, strict=True):
        if frame < 0:
            assert (axis, sign) == (-1, 0)
        else:
            assert sign * found.frames[frame, axis] @ vector >= math.cos(tolerance) - 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_one_turned_world_is_found(seed):
    rng = np.random.default_rng(seed)
    rotation = Rotation.random(random_state=seed).as_matrix()
    vectors = shaken(rng, SIX @ rotation, 2.0)
    found = Manhattan.of(vectors)
    assert (found.frame_ids == 0).all()
    assert_sound(found, vectors, math.radians(10.0))
    np.testing.assert_array_equal(found.axes[:3], found.axes[3:])
    np.testing.assert_array_equal(found.signs[:3], -found.signs[3:])
    assert sorted(found.axes[:3]) == [0, 1, 2]
    # the axes are those of the world, up to their names
    assert np.abs(found.frames[0] @ rotation.T).max(axis=1).min() > math.cos(math.radians(2.0))


def test_two_worlds_and_a_stray_direction():
    turned = Rotation.from_euler("zy", [0.0, 35.0], degrees=True).as_matrix()
    stray = np.array([[0.4, 0.7, 0.6]]) / np.linalg.norm([0.4, 0.7, 0.6])
    vectors = np.concatenate([SIX[:3], SIX[[0, 2]] @ turned, stray])
    found = Manhattan.of(vectors, [5, 5, 5, 1, 1, 1], tolerance=math.radians(5.0))
    np.testing.assert_array_equal(found.frame_ids, [0, 0, 0, 1, 1, -1])
    np.testing.assert_allclose(found.weights, [15 / 18, 2 / 18])
    assert_sound(found, vectors, math.radians(5.0))


def test_the_heavier_frame_comes_first_and_max_frames_stops():
    turned = Rotation.from_euler("y", 35.0, degrees=True).as_matrix()
    vectors = np.concatenate([SIX[[0, 2]], SIX[[0, 2]] @ turned])
    weights = [1.0, 1.0, 4.0, 4.0]
    found = Manhattan.of(vectors, weights, tolerance=math.radians(5.0))
    np.testing.assert_array_equal(found.frame_ids, [1, 1, 0, 0])
    np.testing.assert_array_equal(Manhattan.of(vectors, weights, max_frames=1).frame_ids >= 0, [0, 0, 1, 1])


def test_weights_pull_the_axes():
    vectors = np.array([[1.0, 0.0, 0.0], [0.0, math.cos(0.1), math.sin(0.1)], [0.0, 0.0, 1.0]])
    heavy = Manhattan.of(vectors, [1.0, 1e6, 1.0])
    assert np.abs(heavy.frames[0] @ vectors[1]).max() > 1.0 - 1e-9


@pytest.mark.parametrize("vectors", [[[1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0], [0.8, 0.6, 0.0]], [[1, 0, 0], [-1, 0, 0]]])
def test_what_is_not_orthogonal_makes_no_frame(vectors):
    found = Manhattan.of(vectors)
    assert found.frames.shape == (0, 3, 3)
    assert (found.frame_ids == -1).all()
    assert found.weights.shape == (0,)


def test_turning_the_directions_turns_the_frames():
    rng = np.random.default_rng(7)
    vectors = shaken(rng, SIX[:5], 3.0)
    rotation = Rotation.random(random_state=1).as_matrix()
    one, other = Manhattan.of(vectors), Manhattan.of(vectors @ rotation.T)
    np.testing.assert_array_equal(one.frame_ids, other.frame_ids)
    np.testing.assert_allclose(np.abs(other.frames[0] @ rotation @ one.frames[0].T), np.eye(3), atol=1e-9)


def test_refusals():
    with pytest.raises(InputError, match=r"`directions` of Manhattan\.of must have 3 columns; got 4"):
        Manhattan.of(np.eye(4))
    with pytest.raises(ParameterError, match=r"`tolerance` of Manhattan.of .*math\.radians\(10\)"):
        Manhattan.of(SIX, tolerance=10)
    with pytest.raises(InputError, match=r"`weights` of Manhattan\.of must have one number per row"):
        Manhattan.of(SIX, [1.0, 2.0])
    with pytest.raises(InputError, match="Row 1 of directions has norm 0"):
        Manhattan.of([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    with pytest.raises(ParameterError, match=r"`max_frames` of Manhattan\.of must be an int >= 1; got 0"):
        Manhattan.of(SIX, max_frames=0)
