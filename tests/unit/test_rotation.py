"""The rotation between two sets of directions: exact where one exists, least motion where pairs leave it open."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

from armillary.exceptions import InputError
from armillary.geometry import sphere
from armillary.geometry.rotation import mean_rotation


def unit_rows(rng, *shape):
    rows = rng.standard_normal(shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def random_rotation(rng, dimension):
    matrix = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0]
    matrix[:, 0] *= np.linalg.det(matrix)
    return matrix


def assert_proper(rotation):
    np.testing.assert_allclose(
        rotation @ rotation.T, np.eye(len(rotation)), rtol=0, atol=1e-14 * max(10, len(rotation))
    )
    sign, log_size = np.linalg.slogdet(rotation)
    assert sign == 1.0
    assert abs(log_size) < 1e-11


@pytest.mark.parametrize(
    ("dimension", "n_pairs"),
    [(2, 1), (2, 4), (3, 1), (3, 2), (3, 3), (3, 7), (5, 2), (5, 4), (5, 5), (30, 3), (30, 14), (30, 15), (30, 29)],
)
def test_pairs_of_one_rotation_are_joined_exactly(dimension, n_pairs):
    rng = np.random.default_rng(100 * dimension + n_pairs)
    true = random_rotation(rng, dimension)
    source = unit_rows(rng, n_pairs, dimension)
    weights = 10.0 ** rng.uniform(-3, 3, n_pairs)
    found = mean_rotation(source, source @ true.T, weights)
    assert_proper(found)
    np.testing.assert_allclose(source @ found.T, source @ true.T, rtol=0, atol=1e-12)
    if n_pairs >= dimension - 1:
        np.testing.assert_allclose(found, true, rtol=0, atol=1e-11)


def test_pairs_of_little_weight_are_joined_exactly_too():
    rng = np.random.default_rng(0)
    true = random_rotation(rng, 6)
    source = unit_rows(rng, 5, 6)
    found = mean_rotation(source, source @ true.T, [1e9, 1e9, 10.0, 10.0, 10.0])
    assert_proper(found)
    np.testing.assert_allclose(source @ found.T, source @ true.T, rtol=0, atol=1e-12)


def test_a_thousand_dimensions():
    rng = np.random.default_rng(1)
    source = unit_rows(rng, 3, 1000)
    axes = np.linalg.qr(rng.standard_normal((1000, 4)))[0]
    true = np.eye(1000) + axes @ (random_rotation(rng, 4) - np.eye(4)) @ axes.T
    found = mean_rotation(source, source @ true.T, np.ones(3))
    assert_proper(found)
    np.testing.assert_allclose(source @ found.T, source @ true.T, rtol=0, atol=1e-12)
    still = unit_rows(rng, 1, 1000)[0]
    span = np.linalg.qr(np.vstack([source, source @ true.T]).T)[0]
    still -= span @ (span.T @ still)
    np.testing.assert_allclose(found @ still, still, rtol=0, atol=1e-14)


@pytest.mark.parametrize("dimension", [2, 3, 7, 300])
@pytest.mark.parametrize("angle", [0.0, 1e-10, 1e-3, 1.0, 2.0, 3.14])
def test_one_pair_is_joined_in_its_own_plane(dimension, angle):
    rng = np.random.default_rng(dimension)
    source, across = np.linalg.qr(rng.standard_normal((dimension, 2)))[0].T
    target = np.cos(angle) * source + np.sin(angle) * across
    rotation = mean_rotation(source[None], target[None], [0.3])
    assert_proper(rotation)
    vectors = rng.standard_normal((4, dimension))
    # transport is the rotation in the plane of the two points; near the antipode the plane is less and less decided
    expected = sphere.transport(vectors, source, target)
    np.testing.assert_allclose(
        vectors @ rotation.T, expected, rtol=0, atol=1e-14 + 4e-15 / np.sqrt(1.0 + np.cos(angle))
    )


@pytest.mark.parametrize("dimension", [2, 3, 4, 50])
def test_an_antipodal_pair_takes_half_a_turn(dimension):
    source = unit_rows(np.random.default_rng(dimension), 1, dimension)
    rotation = mean_rotation(source, -source, [2.0])
    assert_proper(rotation)
    np.testing.assert_allclose(source @ rotation.T, -source, rtol=0, atol=1e-14)
    # half a turn in one plane: an involution that keeps D - 2 directions
    np.testing.assert_allclose(rotation @ rotation, np.eye(dimension), rtol=0, atol=1e-13)
    assert np.trace(rotation) == pytest.approx(dimension - 4.0, abs=1e-12)


def test_nothing_to_join_is_the_identity():
    assert np.array_equal(mean_rotation(np.empty((0, 4)), np.empty((0, 4)), np.empty(0)), np.eye(4))
    rows = np.eye(4)[:2]
    assert np.array_equal(mean_rotation(rows, -rows, [0.0, 0.0]), np.eye(4))


def test_pairs_that_contradict_each_other_move_nothing():
    first, second = np.eye(5)[:2]
    # the second pair of weights differs in its last bit, which is no reason to turn
    for weights in ([1.0, 1.0], [0.1 + 0.2, 0.3]):
        rotation = mean_rotation([first, first], [second, -second], weights)
        np.testing.assert_allclose(rotation, np.eye(5), rtol=0, atol=1e-14)


def test_a_pair_of_weight_zero_does_not_count():
    rng = np.random.default_rng(2)
    source, target = unit_rows(rng, 2, 3, 6)
    rotation = mean_rotation(source, target, [1.0, 2.0, 0.0])
    np.testing.assert_allclose(rotation, mean_rotation(source[:2], target[:2], [1.0, 2.0]), rtol=0, atol=1e-13)


@pytest.mark.parametrize("n_pairs", [3, 4, 20])
@pytest.mark.parametrize("noise", [0.1, 1.0, 10.0])
def test_noisy_pairs_in_space_against_scipy(n_pairs, noise):
    rng = np.random.default_rng(n_pairs)
    source = unit_rows(rng, n_pairs, 3)
    target = source @ random_rotation(rng, 3).T + noise * rng.standard_normal((n_pairs, 3))
    target /= np.linalg.norm(target, axis=1, keepdims=True)
    weights = 10.0 ** rng.uniform(-1, 1, n_pairs)
    peer = Rotation.align_vectors(target, source, weights=weights)[0].as_matrix()
    np.testing.assert_allclose(mean_rotation(source, target, weights), peer, rtol=0, atol=1e-11)


def test_a_mirror_image_gets_the_best_proper_rotation():
    rng = np.random.default_rng(3)
    source = unit_rows(rng, 12, 4)
    target = source * [1.0, 1.0, 1.0, -1.0]
    weights = np.ones(12)
    rotation = mean_rotation(source, target, weights)
    assert_proper(rotation)
    best = np.vecdot(target, source @ rotation.T).sum()
    axes = np.triu_indices(4, 1)

    def loss(numbers):
        skew = np.zeros((4, 4))
        skew[axes] = numbers
        turn = np.linalg.solve(np.eye(4) - (skew - skew.T), np.eye(4) + (skew - skew.T))
        return -np.vecdot(target, source @ turn.T).sum()

    rivals = [-minimize(loss, rng.standard_normal(6)).fun for _ in range(5)]
    assert max(rivals) == pytest.approx(best, abs=1e-6)


def test_among_equals_the_greatest_trace():
    """Two pairs in five dimensions leave the rotations of three: none has a greater trace."""
    rng = np.random.default_rng(4)
    source, target = unit_rows(rng, 2, 2, 5)
    found = mean_rotation(source, target, [1.0, 3.0])
    free = np.linalg.svd(source @ found.T)[2][2:]
    for _ in range(200):
        other = np.eye(5) + free.T @ (random_rotation(rng, 3) - np.eye(3)) @ free
        np.testing.assert_allclose(other @ found @ source.T, found @ source.T, rtol=0, atol=1e-13)
        assert np.trace(other @ found) <= np.trace(found) + 1e-13


def test_turning_the_frame_turns_the_rotation():
    rng = np.random.default_rng(5)
    source, target = unit_rows(rng, 2, 3, 8)
    frame = random_rotation(rng, 8)
    turned = mean_rotation(source @ frame.T, target @ frame.T)
    np.testing.assert_allclose(turned, frame @ mean_rotation(source, target) @ frame.T, rtol=0, atol=1e-12)


def test_what_is_refused():
    rows = np.eye(3)[:2]
    with pytest.raises(
        InputError, match=r"must be pairs of rows, both \(K, D\) with D >= 2; got \(2, 3\) and \(1, 3\)"
    ):
        mean_rotation(rows, rows[:1])
    with pytest.raises(InputError, match=r"not negative, for each of the 2 pairs; got shape \(3,\)"):
        mean_rotation(rows, rows, np.ones(3))
    with pytest.raises(InputError, match="`weights` of mean_rotation must be one finite number, not negative"):
        mean_rotation(rows, rows, [1.0, -1.0])
