"""Normals against what they must be: planes, spheres, the room; smoothing against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.making import each

from armillary.kernels.images import reference as reference_depth
from armillary.vision import Camera, estimate_normals, make_room_walk, smooth_depth, smooth_normals

CAMERA = Camera(130.0, 135.0, 77.3, 62.1, 160, 120)


def rays_of(camera):
    v, u = np.mgrid[: camera.height, : camera.width]
    return np.stack([(u - camera.cx) / camera.fx, (v - camera.cy) / camera.fy, np.ones(u.shape)], axis=-1)


def plane_depth(normal, distance, camera=CAMERA, farthest=30.0):
    """Depth of the plane normal . p = -distance, 0 where a ray does not meet it."""
    along = rays_of(camera) @ normal
    depth = np.where(along < 0.0, -distance / np.where(along < 0.0, along, -1.0), 0.0)
    return np.where(depth < farthest, depth, 0.0)


def sphere_depth(camera, center, radius):
    """Depth and normals of a sphere; 0 where a ray misses it."""
    rays = rays_of(camera)
    a, b, c = (rays**2).sum(-1), rays @ center, center @ center - radius**2
    root = b * b - a * c
    depth = np.where(root > 0.0, (b - np.sqrt(np.maximum(root, 0.0))) / a, 0.0)
    return depth, (depth[..., None] * rays - center) / radius


def angles(one, other):
    """In degrees, exact for small ones."""
    one, other = one.astype(np.float64), other.astype(np.float64)
    return np.degrees(np.arctan2(np.linalg.norm(np.cross(one, other), axis=-1), (one * other).sum(-1)))


PLANES = [(0.0, 0.0, -1.0), (0.3, -0.5, -0.8), (0.0, -1.0, -0.05), (-0.9, 0.1, -0.3), (0.7, 0.7, -0.1)]


@each("smoothing", [None, "guided", "bilateral", "total_variation"])
@each("holes", [0.0, 0.08])
@each("normal", PLANES)
def test_planes_are_exact_to_rounding(normal, holes, smoothing):
    normal = np.array(normal) / np.linalg.norm(normal)
    depth = plane_depth(normal, 1.4)
    depth[np.random.default_rng(0).random(depth.shape) < holes] = 0.0
    found = estimate_normals(depth, CAMERA, smoothing=smoothing, max_depth_jump=0.2)
    assert found.is_valid.sum() > 1500
    # the vectors are float32; the sums were float64
    assert np.abs(found.rows() - normal).max() < 2e-6


@pytest.mark.parametrize("window", [3, 5, 9, 21])
def test_planes_in_float32_are_exact_to_its_rounding(window):
    normal = np.array([0.3, -0.5, -0.8]) / np.linalg.norm([0.3, -0.5, -0.8])
    found = estimate_normals(plane_depth(normal, 1.4).astype(np.float32), CAMERA, window=window, smoothing=None)
    # slopes of 1/z over r pixels, fx / r times the rounding of z
    assert angles(found.rows(), normal[None]).max() < math.degrees(130.0 / (window // 2) * 4e-7)


def test_millimetres_leave_their_rounding():
    normal = np.array([0.3, -0.5, -0.8]) / np.linalg.norm([0.3, -0.5, -0.8])
    depth = np.rint(1000.0 * plane_depth(normal, 1.4)).astype(np.uint16)
    error = angles(estimate_normals(depth, CAMERA).rows(), normal[None])
    assert np.median(error) < 0.2


def test_the_error_on_a_sphere_is_of_second_order():
    """Twice the pixels and the same window in pixels: a quarter of the error."""
    center, radius = np.array([0.1, -0.05, 2.0]), 0.8
    errors = []
    for factor in (1.0, 2.0, 4.0):
        camera = CAMERA.scaled(factor)
        depth, normals = sphere_depth(camera, center, radius)
        found = estimate_normals(depth, camera, window=5, smoothing=None)
        # rays within 53 degrees of the normal: towards the rim slopes have no bound
        rays = rays_of(camera)
        cosines = -(normals * rays).sum(-1) / np.linalg.norm(rays, axis=-1)
        is_inner = found.is_valid & (cosines > 0.6)
        assert is_inner.mean() > 0.1
        errors.append(angles(found.vectors[is_inner], normals[is_inner]).max())
    assert errors[0] < 0.2
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.15)
    assert errors[1] / errors[2] == pytest.approx(4.0, rel=0.15)


def test_a_whole_window_is_the_least_squares_plane():
    """Slopes of noise in a window without holes are those of one least-squares fit over all of its pixels."""
    w = 0.5 + 0.002 * np.random.default_rng(1).standard_normal((9, 11))
    camera = Camera(100.0, 90.0, 4.0, 5.0, 11, 9)
    found = estimate_normals(1.0 / w, camera, window=7, smoothing=None).vectors[4, 5]
    v, u = np.mgrid[1:8, 2:9]
    design = np.stack([np.ones(49), u.ravel(), v.ravel()], axis=1)
    _, w_u, w_v = np.linalg.lstsq(design, w[1:8, 2:9].ravel(), rcond=None)[0]
    expected = -np.array([100.0 * w_u, 90.0 * w_v, w[4, 5] - (5 - 4.0) * w_u - (4 - 5.0) * w_v])
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), rtol=0, atol=1e-6)


def test_windows_end_at_jumps():
    """Two planes side by side, 20 cm apart: neither sees the other."""
    one, other = np.array([0.4, -0.2, -0.9]), np.array([-0.5, -0.1, -0.8])
    one, other = one / np.linalg.norm(one), other / np.linalg.norm(other)
    left = np.arange(160) < 80
    depth = np.where(left, plane_depth(one, 1.2), plane_depth(other, 1.7))
    found = estimate_normals(depth, CAMERA, smoothing=None)
    truth = np.where(left[:, None], one, other) * np.ones((120, 1, 1))
    assert np.abs(found.vectors - truth)[found.is_valid].max() < 2e-6
    # the two columns along the jump and the border have none, everything else has one
    expected = np.zeros((120, 160), bool)
    expected[1:-1, 1:-1] = True
    expected[:, 79:81] = False
    np.testing.assert_array_equal(found.is_valid, expected)


# most of the median and of the 90th percentile of the error, in degrees: benchmarks/vision.py shows them
ROOM = {
    None: (8.0, 20.0),
    "guided": (1.8, 6.0),
    "bilateral": (4.0, 11.0),
    "total_variation": (2.0, 8.0),
}


def room_errors(smoothing, **settings):
    walk = make_room_walk(7, random_state=0, **settings)
    error, share = [], []
    for number in (0, 2):
        frame = walk[number]
        found = estimate_normals(frame.depth, walk.camera, smoothing=smoothing)
        assert np.isfinite(found.vectors).all()
        assert not found.is_valid[frame.depth == 0].any()
        error.append(angles(found.vectors, frame.normals)[found.is_valid])
        share.append(found.is_valid.mean())
    return np.concatenate(error), np.mean(share)


@pytest.mark.parametrize("smoothing", ROOM)
def test_normals_of_a_noisy_room(smoothing):
    error, share = room_errors(smoothing)
    median, most = ROOM[smoothing]
    assert np.median(error) < median
    assert np.percentile(error, 90.0) < most
    assert share > 0.85


@pytest.mark.parametrize("smoothing", ROOM)
def test_normals_of_a_room_without_noise(smoothing):
    error, share = room_errors(smoothing, noise=0.0, hole_fraction=0.0, dtype="float64")
    assert np.median(error) < (0.05 if smoothing == "guided" else 1e-4)
    assert np.percentile(error, 90.0) < (5.0 if smoothing else 0.5)  # creases
    assert share > 0.96


# --------------------------------------------------------------------------------------------- smoothing


def test_total_variation_of_two_plateaus_has_a_closed_form():
    """A step along a line of n + n pixels: each side moves by strength / n towards the other, and stays flat."""
    n, strength, angle = 8, 0.3, 0.7
    vectors = np.zeros((1, 2 * n, 3))
    vectors[:, :n] = [math.sin(angle), 0.0, -math.cos(angle)]
    vectors[:, n:] = [-math.sin(angle), 0.0, -math.cos(angle)]
    found = smooth_normals(
        vectors, np.ones((1, 2 * n), bool), method="total_variation", strength=strength, max_iter=2000
    )
    moved = math.sin(angle) - strength / n
    expected = np.array([moved, 0.0, -math.cos(angle)]) / math.hypot(moved, math.cos(angle))
    np.testing.assert_allclose(found[0, :n], np.broadcast_to(expected, (n, 3)), rtol=0, atol=2e-5)
    np.testing.assert_allclose(found[0, n:, 0], -found[0, :n, 0], rtol=0, atol=2e-5)


def test_total_variation_minimises_its_objective():
    """Steps of the dual end where no smooth primal step gains: against a generic minimiser of a smoothed objective."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(2)
    target = rng.standard_normal((4, 5, 3))
    is_valid = rng.random((4, 5)) > 0.2
    strength = 0.5

    def objective(x):
        x = x.reshape(4, 5, 3)
        across = np.where((is_valid[:, :-1] & is_valid[:, 1:])[..., None], x[:, 1:] - x[:, :-1], 0.0)
        down = np.where((is_valid[:-1] & is_valid[1:])[..., None], x[1:] - x[:-1], 0.0)
        squares = np.zeros((4, 5))
        squares[:, :-1] += (across**2).sum(-1)
        squares[:-1] += (down**2).sum(-1)
        return 0.5 * ((x - target)[is_valid] ** 2).sum() + strength * np.sqrt(squares + 1e-10).sum()

    best = minimize(objective, target.ravel(), method="L-BFGS-B", options={"maxiter": 3000, "maxfun": 10**6})
    expected = best.x.reshape(4, 5, 3)
    expected /= np.linalg.norm(expected, axis=-1, keepdims=True)
    found = reference_depth.total_variation(target, is_valid, strength, 4000)
    np.testing.assert_allclose(found[is_valid], expected[is_valid], rtol=0, atol=5e-3)


def test_the_guided_filter_removes_noise_on_planes_as_a_mean_of_so_many_does():
    """Noise of inverse depth falls at least as much as the mean over a quarter of a square would make it fall."""
    rng = np.random.default_rng(3)
    normal = np.array([0.3, -0.5, -0.8]) / np.linalg.norm([0.3, -0.5, -0.8])
    w = 1.0 / plane_depth(normal, 1.4)
    noisy = w + 0.0015 * rng.standard_normal(w.shape)
    smooth = 1.0 / smooth_depth(1.0 / noisy, CAMERA, radius=4)
    inner = np.s_[20:-20, 20:-20]
    assert np.std((smooth - w)[inner]) < 0.0015 / math.sqrt(18**2 / 4)


def test_the_guided_filter_keeps_a_step():
    depth = np.where(np.arange(160) < 80, 1.5, 1.7) * np.ones((120, 1))
    noisy = 1.0 / (1.0 / depth + 0.0015 * np.random.default_rng(4).standard_normal(depth.shape))
    smooth = smooth_depth(noisy, CAMERA)
    error = np.abs(smooth - depth)
    assert error[:, 75:85].mean() < 0.008  # of 20 cm, beside the step
    assert error.mean() < np.abs(noisy - depth).mean() / 2
