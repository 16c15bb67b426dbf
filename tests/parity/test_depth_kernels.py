"""Passes over depth images: compiled loops against the NumPy reference, and one thread against many."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.making import each

from armillary.kernels.images import depth as kernels
from armillary.kernels.images import rays
from armillary.kernels.images import reference as reference_depth
from armillary.vision import Camera, estimate_normals, make_room_walk, smooth_depth, smooth_normals
from armillary.vision.camera import FARTHEST, NEAREST
from armillary.vision.smoothing import guided
from armillary.workers import Workers

# rows, columns: odd and even, below a window, one band and several
SIZES = [(1, 1), (1, 9), (7, 1), (2, 2), (3, 5), (8, 13), (33, 40), (70, 51)]


def surface(rng, height, width, dtype=np.float64, holes=0.15):
    """Inverse depths of a bent surface with steps, noise and holes."""
    v, u = np.mgrid[:height, :width]
    w = 0.5 + 0.002 * u + 0.001 * v + 0.02 * np.sin(0.2 * u) + 0.2 * (u > 0.6 * width) + 0.1 * (v > 0.7 * height)
    w += 0.001 * rng.standard_normal(w.shape)
    w[rng.random(w.shape) < holes] = 0.0
    return w.astype(dtype)


def camera_of(w):
    return Camera(50.0, 60.0, 0.4 * w.shape[1], 0.7 * w.shape[0], w.shape[1], w.shape[0])


def unit_image(rng, height, width, holes=0.2):
    vectors = rng.standard_normal((height, width, 3)) * 0.4 + [0.0, 0.0, -1.0]
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    is_valid = rng.random((height, width)) >= holes
    vectors[~is_valid] = 0.0
    return vectors.astype(np.float32), is_valid


@pytest.mark.parametrize("dtype", [np.uint16, np.float32, np.float64])
def test_inverse_depth(dtype):
    rng = np.random.default_rng(0)
    depth = rng.integers(0, 6000, (40, 30)).astype(dtype)
    if depth.dtype.kind == "f":
        depth.flat[:7] = [math.nan, math.inf, -math.inf, -1.0, 0.0, 1e-38, 3e38]
    found = np.empty(depth.shape, dtype=np.float64 if dtype == np.float64 else np.float32)
    kernels.inverse_depth(depth, 1000.0, NEAREST, FARTHEST, 0, 40, found)
    expected = reference_depth.inverse_depth(depth, 1000.0, NEAREST, FARTHEST)
    np.testing.assert_allclose(found, expected, rtol=1e-15 if dtype == np.float64 else 2e-7)
    np.testing.assert_array_equal(found > 0.0, expected > 0.0)


@each(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float64, 2e-7)])
@each("radius", [1, 2, 4, 9])
@each("size", SIZES)
def test_normals(size, radius, dtype, tolerance):
    w = surface(np.random.default_rng(radius), *size, dtype)
    camera = camera_of(w)
    vectors, is_valid = np.empty((*size, 3), np.float32), np.empty(size, bool)
    intrinsics = (camera.fx, camera.fy, camera.cx, camera.cy)
    columns = (np.arange(size[1]) - camera.cx).astype(dtype)
    for start in range(0, size[0], 16):
        band = (start, min(size[0], start + 16))
        kernels.normals(w, camera.fx, camera.fy, columns, camera.cy, radius, 0.03, *band, vectors, is_valid)
    expected, expected_valid = reference_depth.normals(w, intrinsics, radius, 0.03)
    np.testing.assert_array_equal(is_valid, expected_valid)
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=tolerance)
    if size == (70, 51):
        assert 0.1 < is_valid.mean() < 0.9  # the case tests something


@each(("dtype", "tolerance"), [(np.float32, 2e-6), (np.float64, 1e-9)])
@each("radius", [1, 2, 4, 7])
@each("size", SIZES)
def test_guided_filter(size, radius, dtype, tolerance):
    w = surface(np.random.default_rng(radius), *size, dtype)
    noise = 0.002 * (radius % 2)
    with Workers(1) as workers:
        found = guided(w, radius, 0.003, noise, workers)
    expected = reference_depth.guided_planes(w, radius, 0.003, noise)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
    np.testing.assert_array_equal(found > 0.0, w > 0.0)


@pytest.mark.parametrize("size", SIZES)
def test_bilateral(size):
    vectors, is_valid = unit_image(np.random.default_rng(1), *size)
    found = smooth_normals(vectors, is_valid, radius=3, max_angle=0.6)
    expected = reference_depth.bilateral(vectors, is_valid, 3, 2.0, 2.0 * math.sin(0.3))
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-6)


@pytest.mark.parametrize("size", SIZES)
def test_total_variation(size):
    vectors, is_valid = unit_image(np.random.default_rng(2), *size)
    found = smooth_normals(vectors, is_valid, method="total_variation", strength=0.3, max_iter=25)
    expected = reference_depth.total_variation(vectors, is_valid, 0.3, 25)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.uint16, np.float64])
@pytest.mark.parametrize("smoothing", [None, "guided", "bilateral", "total_variation"])
def test_threads_give_equal_bits(smoothing, dtype):
    w = surface(np.random.default_rng(3), 150, 90, holes=0.03)
    depth = np.where(w > 0.0, 1.0 / np.where(w > 0.0, w, 1.0), 0.0)
    depth = np.rint(1000 * depth).astype(np.uint16) if dtype == np.uint16 else depth
    one, many = (estimate_normals(depth, camera_of(w), smoothing=smoothing, n_threads=n) for n in (1, 5))
    np.testing.assert_array_equal(one.vectors, many.vectors)
    np.testing.assert_array_equal(one.is_valid, many.is_valid)
    smooth = [smooth_depth(depth, camera_of(w), n_threads=n) for n in (1, 5)]
    np.testing.assert_array_equal(*smooth)


def test_rows_are_those_of_the_mask_and_go_back():
    rng = np.random.default_rng(4)
    vectors, is_valid = unit_image(rng, 40, 30)
    n_rows = is_valid.sum()
    rows = np.empty((n_rows + 1, 3), np.float32)
    kernels.take_rows(vectors, is_valid, rows)
    np.testing.assert_array_equal(rows[:-1], vectors[is_valid])
    image = np.empty((40, 30), np.int64)
    kernels.put_rows(np.arange(n_rows), is_valid, -7, image)
    expected = np.full((40, 30), -7)
    expected[is_valid] = np.arange(n_rows)
    np.testing.assert_array_equal(image, expected)


# -------------------------------------------------------------------------------------------------- rays


def cast_by_faces(x, y, axes, origins, half_sizes, is_room, centers, radii):
    """Every face as a plane, every hit tested against its bounds: no slabs."""
    directions = np.stack(np.broadcast_arrays(x, y[:, None], 1.0), axis=-1)
    depth, surface = np.full(directions.shape[:2], np.inf), np.full(directions.shape[:2], -1)
    for b, (turn, origin, half) in enumerate(zip(axes, origins, half_sizes, strict=True)):
        local = directions @ turn.T
        for axis in range(3):
            for side in (0, 1):
                t = ((2 * side - 1) * half[axis] - origin[axis]) / local[..., axis]
                hit = origin + t[..., None] * local
                others = [i for i in range(3) if i != axis]
                is_on = np.all(np.abs(hit[..., others]) <= half[others], axis=-1)
                # a solid shows faces that look against the ray, a room those that look along it
                is_facing = (local[..., axis] * (2 * side - 1) < 0.0) ^ is_room[b]
                closer = is_on & is_facing & (t > 0.0) & (t < depth)
                depth[closer], surface[closer] = t[closer], 6 * b + 2 * axis + side
    for s, (center, radius) in enumerate(zip(centers, radii, strict=True)):
        a, b, c = (directions**2).sum(-1), -2.0 * directions @ center, center @ center - radius**2
        root = b * b - 4.0 * a * c
        t = (-b - np.sqrt(np.maximum(root, 0.0))) / (2.0 * a)
        closer = (root > 0.0) & (t > 0.0) & (t < depth)
        depth[closer], surface[closer] = t[closer], 6 * len(axes) + s
    return depth, surface


def test_rays_meet_what_faces_say():
    rng = np.random.default_rng(5)
    x, y = rng.uniform(-0.8, 0.8, 60), rng.uniform(-0.6, 0.6, 50)
    turns = np.linalg.qr(rng.standard_normal((6, 3, 3)))[0]
    turns *= np.linalg.det(turns)[:, None, None]
    turns[0] = np.eye(3)
    origins = np.concatenate([[[0.3, -0.2, 0.1]], (turns[1:] @ [0.1, -0.2, -2.5] + rng.uniform(-1, 1, (5, 3)))])
    half_sizes = np.concatenate([[[3.0, 3.0, 5.0]], rng.uniform(0.2, 0.6, (5, 3))])
    is_room = np.arange(6) == 0
    centers, radii = np.array([[0.2, 0.3, 2.0], [-0.4, 0.1, 3.0]]), np.array([0.3, 0.5])
    scene = (x, y, turns, origins, half_sizes, is_room, centers, radii)
    depth, surface = np.empty((50, 60)), np.empty((50, 60), np.int32)
    rays.cast(*scene, depth, surface)
    expected_depth, expected_surface = cast_by_faces(*scene)
    np.testing.assert_allclose(depth, expected_depth, rtol=1e-12)
    np.testing.assert_array_equal(surface, expected_surface)
    assert len(np.unique(surface)) > 12


def test_a_ray_along_a_face_and_one_that_hits_nothing():
    box = (np.eye(3)[None], np.array([[0.0, 0.0, -4.0]]), np.array([[1.0, 1.0, 1.0]]), np.array([False]))
    depth, surface = np.empty((1, 2)), np.empty((1, 2), np.int32)
    rays.cast(np.array([0.0, 5.0]), np.array([0.0]), *box, np.empty((0, 3)), np.empty(0), depth, surface)
    np.testing.assert_array_equal(depth, [[3.0, np.inf]])
    np.testing.assert_array_equal(surface, [[4, -1]])


def test_rooms_are_equal_for_any_number_of_threads():
    one, many = (make_room_walk(5, width=80, height=70, random_state=1, n_threads=n)[2] for n in (1, 4))
    np.testing.assert_array_equal(one.depth, many.depth)
    np.testing.assert_array_equal(one.plane_ids, many.plane_ids)
