"""`smooth_depth` and `smooth_normals`: edges stay, unit vectors stay unit, what is masked leaks nowhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

from armillary.exceptions import InputError, InputTypeError, ParameterError
from armillary.vision import Camera, smooth_depth, smooth_normals

CAMERA = Camera(60.0, 55.0, 19.5, 14.5, 40, 30)
METHODS = ("bilateral", "total_variation")


def slanted(dtype=np.float64):
    """Depth of a plane: inverse depth is affine in the pixel."""
    v, u = np.mgrid[:30, :40]
    return (1.0 / (0.4 + 0.004 * u - 0.006 * v)).astype(dtype)


def crease(angle):
    """Two walls that meet at column 20."""
    vectors = np.zeros((30, 40, 3), np.float32)
    vectors[:, :20] = [math.sin(angle / 2), 0.0, -math.cos(angle / 2)]
    vectors[:, 20:] = [-math.sin(angle / 2), 0.0, -math.cos(angle / 2)]
    return vectors, np.ones((30, 40), bool)


def shaken(vectors, spread, seed=0):
    noisy = vectors + spread * np.random.default_rng(seed).standard_normal(vectors.shape)
    return (noisy / np.linalg.norm(noisy, axis=-1, keepdims=True)).astype(np.float32)


# --------------------------------------------------------------------------------------------------- depth


@pytest.mark.parametrize("radius", [1, 3, 6])
def test_planes_stay_as_they_are_with_holes_and_at_borders(radius):
    depth = slanted()
    depth[np.random.default_rng(0).random(depth.shape) < 0.3] = 0.0
    np.testing.assert_allclose(smooth_depth(depth, CAMERA, radius=radius), depth, rtol=1e-10, atol=0)


def test_a_mean_in_place_of_the_plane_would_bend_planes_at_the_border():
    """The planted mistake: what the guided filter with local means does to the same plane."""
    w = 1.0 / slanted()
    means = np.array([[w[max(0, v - 4) : v + 5, max(0, u - 4) : u + 5].mean() for u in range(40)] for v in range(30)])
    assert np.abs(means - w).max() > 0.01
    assert np.abs(1.0 / smooth_depth(slanted(), CAMERA) - w).max() < 1e-12


@pytest.mark.parametrize("bad", [0.0, math.nan, math.inf, -2.0])
def test_what_was_not_measured_stays_so_and_is_seen_by_nobody(bad):
    depth = 1.0 / (1.0 / slanted() + 0.001 * np.random.default_rng(1).standard_normal((30, 40)))
    depth[8:12, 5:30] = bad
    smooth = smooth_depth(depth, CAMERA)
    assert not smooth[8:12, 5:30].any()
    assert (smooth[(depth > 0.0) & (depth < 10.0)] > 0.0).all()
    other = depth.copy()
    other[8:12, 5:30] = 0.0
    np.testing.assert_array_equal(smooth, smooth_depth(other, CAMERA))


def test_noise_above_the_edge_is_kept_and_noise_below_it_is_not():
    noise = 0.002 * np.random.default_rng(2).standard_normal((30, 40))
    depth = 1.0 / (1.0 / slanted() + noise)
    left = {edge: np.std(1.0 / smooth_depth(depth, CAMERA, edge=edge) - 1.0 / slanted()) for edge in (1e-4, 4e-3)}
    assert left[1e-4] > 0.95 * 0.002
    assert left[4e-3] < 0.3 * 0.002


def test_lone_pixels_and_lines_determine_no_plane_and_stay():
    depth = np.zeros((30, 40))
    depth[3, 5], depth[20, :], depth[:, 37] = 1.5, 1.0 + 0.3 * np.sin(np.arange(40)), 2.0
    smooth = smooth_depth(depth, CAMERA, radius=1)
    np.testing.assert_allclose(smooth[3, 5], 1.5, rtol=1e-12)
    np.testing.assert_allclose(smooth[20, :30], depth[20, :30], rtol=1e-12)


@pytest.mark.parametrize(("dtype", "expected"), [(np.uint16, np.float32), (np.float32, np.float32), (float, float)])
def test_metres_come_back(dtype, expected):
    depth = np.rint(1000 * slanted()).astype(np.uint16) if dtype == np.uint16 else slanted(dtype)
    smooth = smooth_depth(depth, CAMERA)
    assert smooth.dtype == expected
    np.testing.assert_allclose(smooth, slanted(), rtol=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"radius": 0}, "`radius` of smooth_depth must be an int from 1 to 65536; got 0"),
        ({"edge": 0.0}, r"`edge` of smooth_depth must be a number >= 1e-06; got 0.0. It is an inverse depth"),
        ({"edge": math.nan}, "`edge` of smooth_depth"),
        ({"n_threads": 1.5}, "`n_threads` of smooth_depth"),
    ],
)
def test_bad_parameters_of_smooth_depth(change, message):
    with pytest.raises(ParameterError, match=message):
        smooth_depth(slanted(), CAMERA, **change)


def test_bad_depth():
    with pytest.raises(InputError, match=r"`depth` of smooth_depth must be one image.*got shape \(30, 40, 1\)"):
        smooth_depth(slanted()[..., None], CAMERA)
    with pytest.raises(ParameterError, match="`camera` of smooth_depth must be a Camera; got None"):
        smooth_depth(slanted(), None)


# ------------------------------------------------------------------------------------------------- normals


@pytest.mark.parametrize("method", METHODS)
def test_unit_vectors_stay_unit_and_noise_falls(method):
    vectors, is_valid = crease(math.radians(70.0))
    noisy = shaken(vectors, 0.1)
    is_valid &= np.random.default_rng(3).random(is_valid.shape) > 0.1
    smooth = smooth_normals(noisy, is_valid, method=method)
    np.testing.assert_allclose(np.linalg.norm(smooth.astype(float), axis=-1)[is_valid], 1.0, rtol=0, atol=3e-7)
    assert not smooth[~is_valid].any()
    before, after = (np.linalg.norm((x - vectors)[is_valid], axis=-1).mean() for x in (noisy, smooth))
    assert after < 0.5 * before


def test_masked_pixels_get_nothing_from_the_widest_of_filters():
    vectors, is_valid = crease(math.radians(40.0))
    is_valid[::3, ::2] = False
    smooth = smooth_normals(vectors, is_valid, max_angle=math.pi / 2)
    assert not smooth[~is_valid].any()


@pytest.mark.parametrize("method", METHODS)
def test_masked_pixels_never_leak(method):
    vectors, is_valid = crease(math.radians(40.0))
    vectors = shaken(vectors, 0.1)
    is_valid[5:9, 10:30] = False
    is_valid[:, 0] = False
    expected = smooth_normals(vectors, is_valid, method=method)
    for value in (0.0, 7.0, math.nan, -math.inf):
        other = vectors.copy()
        other[~is_valid] = value
        np.testing.assert_array_equal(smooth_normals(other, is_valid, method=method), expected)


@pytest.mark.parametrize("method", METHODS)
def test_a_crease_stays_sharp(method):
    vectors, is_valid = crease(math.radians(80.0))
    smooth = smooth_normals(shaken(vectors, 0.02), is_valid, method=method)
    beside = np.degrees(np.arccos(np.clip((smooth * vectors).sum(-1), -1.0, 1.0)))[:, 19:21]
    assert beside.mean() < 4.0


def test_walls_further_apart_than_max_angle_do_not_see_each_other():
    vectors, is_valid = crease(math.radians(50.0))
    apart = smooth_normals(vectors, is_valid, max_angle=math.radians(49.0))
    np.testing.assert_allclose(apart, vectors, rtol=0, atol=1e-6)
    mixed = smooth_normals(vectors, is_valid, max_angle=math.radians(80.0))
    assert np.abs(mixed - vectors).max() > 0.05


def test_total_variation_between_its_limits():
    vectors, is_valid = crease(math.radians(60.0))
    vectors = shaken(vectors, 0.1)
    slight = smooth_normals(vectors, is_valid, method="total_variation", strength=1e-4)
    np.testing.assert_allclose(slight, vectors, rtol=0, atol=2e-3)
    strong = smooth_normals(vectors, is_valid, method="total_variation", strength=1e3, max_iter=20_000)
    mean = vectors.mean(axis=(0, 1))
    np.testing.assert_allclose(strong[15, 20], mean / np.linalg.norm(mean), rtol=0, atol=1e-2)
    assert np.abs(strong - strong[0, 0]).max() < 0.02


def test_opposite_vectors_that_cancel_keep_their_own():
    vectors = np.zeros((1, 2, 3), np.float32)
    vectors[0, 0, 2], vectors[0, 1, 2] = 1.0, -1.0
    smooth = smooth_normals(vectors, np.ones((1, 2), bool), method="total_variation", strength=5.0, max_iter=500)
    np.testing.assert_array_equal(np.abs(smooth), np.abs(vectors))


@pytest.mark.parametrize("method", METHODS)
def test_nothing_valid_is_no_error(method):
    smooth = smooth_normals(np.full((4, 5, 3), math.nan), np.zeros((4, 5), bool), method=method)
    np.testing.assert_array_equal(smooth, np.zeros((4, 5, 3)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"method": "median"},
            "`method` of smooth_normals must be one of 'bilateral', 'total_variation'; got 'median'",
        ),
        ({"radius": -1}, "`radius` of smooth_normals"),
        ({"max_angle": 45}, r"`max_angle` of smooth_normals must be a number in \(0, pi\].*math\.radians\(45\)"),
        ({"strength": 0.0}, "`strength` of smooth_normals"),
        ({"max_iter": 0}, "`max_iter` of smooth_normals"),
    ],
)
def test_bad_parameters_of_smooth_normals(change, message):
    with pytest.raises(ParameterError, match=message):
        smooth_normals(*crease(1.0), **change)


@pytest.mark.parametrize(
    ("vectors", "is_valid", "kind", "message"),
    [
        (np.zeros((4, 5, 3), int), np.ones((4, 5), bool), InputTypeError, "`normals` of smooth_normals must be floats"),
        (np.zeros((20, 3)), np.ones(20, bool), InputError, r"shape \(height, width, 3\); got \(20, 3\).*not its rows"),
        (
            np.zeros((4, 5, 3)),
            np.ones((5, 4), bool),
            InputError,
            r"booleans of shape \(4, 5\).*got bool of shape \(5, 4\)",
        ),
        (np.zeros((4, 5, 3)), np.ones((4, 5)), InputError, "got float64 of shape"),
        (np.full((4, 5, 3), 0.5), np.ones((4, 5), bool), InputError, "at row 0, column 0 the norm is 0.866025"),
        (np.full((4, 5, 3), math.nan), np.ones((4, 5), bool), InputError, "at row 0, column 0 the norm is nan"),
    ],
)
def test_bad_normals(vectors, is_valid, kind, message):
    with pytest.raises(kind, match=message):
        smooth_normals(vectors, is_valid)
