"""`estimate_normals` and `Normals`: what is masked, what comes back, what is refused."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from armillary import SphericalKMeans
from armillary.exceptions import InputError, InputTypeError, ParameterError
from armillary.vision import Camera, Normals, estimate_normals, make_room_walk

CAMERA = Camera(60.0, 55.0, 19.5, 14.5, 40, 30)
SMOOTHINGS = (None, "guided", "bilateral", "total_variation")


def wall(dtype=np.float64):
    return np.full((30, 40), 2000 if np.dtype(dtype).kind in "ui" else 2.0, dtype=dtype)


def assert_sound(found, height, width):
    """Unit where valid, zero elsewhere, towards the camera; nothing else ever comes out."""
    assert found.vectors.shape == (height, width, 3)
    assert found.vectors.dtype == np.float32
    assert found.is_valid.shape == (height, width)
    assert found.is_valid.dtype == np.bool_
    assert np.isfinite(found.vectors).all()
    assert not found.vectors[~found.is_valid].any()
    np.testing.assert_allclose(np.linalg.norm(found.rows().astype(np.float64), axis=1), 1.0, rtol=0, atol=3e-7)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_the_border_and_the_rims_of_holes_are_masked(smoothing):
    depth = wall()
    depth[10:13, 20:25] = math.nan
    found = estimate_normals(depth, CAMERA, smoothing=smoothing)
    expected = np.zeros((30, 40), dtype=bool)
    expected[1:-1, 1:-1] = True
    expected[9:14, 20:25] = False  # the hole, and the pixels above and below
    expected[10:13, 19:26] = False  # and beside
    np.testing.assert_array_equal(found.is_valid, expected)
    assert_sound(found, 30, 40)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("value", [0.0, math.nan, math.inf, -3.0])
def test_an_image_without_measurements_has_no_normals(value, smoothing):
    found = estimate_normals(np.full((30, 40), value), CAMERA, smoothing=smoothing)
    assert not found.is_valid.any()
    assert not found.vectors.any()
    assert found.rows().shape == (0, 3)
    assert found.image_of(np.empty(0, np.int32)).tolist() == [[-1] * 40] * 30


@settings(max_examples=40, deadline=None)
@given(
    depth=hnp.arrays(
        st.sampled_from([np.float32, np.float64]),
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=12),
        elements=st.one_of(
            st.floats(0.5, 5.0, width=32), st.sampled_from([0.0, math.nan, math.inf, -1.0, 1e-30, 1e-4, 9e4, 1e30])
        ),
    ),
    smoothing=st.sampled_from(SMOOTHINGS),
    jump=st.sampled_from([0.03, 10.0, math.inf]),
)
def test_no_nan_escapes_from_any_depth(depth, smoothing, jump):
    height, width = depth.shape
    view = Camera(500.0, 500.0, 3.0, 4.0, width, height)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = estimate_normals(depth, view, window=5, smoothing=smoothing, max_depth_jump=jump, n_threads=1)
    assert_sound(found, height, width)
    v, u = np.nonzero(found.is_valid)
    rays = np.stack([(u - view.cx) / view.fx, (v - view.cy) / view.fy, np.ones(len(u))], axis=1)
    if smoothing in (None, "guided"):  # mixing neighbours' normals may turn one that grazes
        assert ((found.rows() * rays).sum(axis=1) < 1e-6).all()


def test_normals_look_at_the_camera():
    walk = make_room_walk(1, width=80, height=60, random_state=0)
    found = estimate_normals(walk[0].depth, walk.camera)
    points, _ = walk.camera.points(walk[0].depth)
    assert ((found.vectors * points).sum(axis=-1)[found.is_valid] < 0.0).all()


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.float32])
def test_integers_and_metres_are_the_same_scene(dtype):
    walk = make_room_walk(1, width=64, height=48, random_state=0, noise=0.0)
    millimetres = walk[0].depth
    depth = (millimetres / 1000.0).astype(dtype) if dtype == np.float32 else millimetres.astype(dtype)
    expected, found = (estimate_normals(image, walk.camera) for image in (millimetres, depth))
    np.testing.assert_array_equal(found.is_valid, expected.is_valid)
    np.testing.assert_allclose(found.vectors, expected.vectors, rtol=0, atol=2e-4)


def test_layout_and_writability_do_not_matter():
    depth = make_room_walk(1, width=64, height=48, random_state=0)[0].depth
    view = make_room_walk(1, width=64, height=48).camera
    expected = estimate_normals(depth, view).vectors
    frozen = depth.copy()
    frozen.flags.writeable = False
    for same in (np.asfortranarray(depth), frozen, np.repeat(depth, 2, axis=1)[:, ::2], depth.tolist()):
        image = np.asarray(same, dtype=np.uint16) if isinstance(same, list) else same
        np.testing.assert_array_equal(estimate_normals(image, view).vectors, expected)


def test_the_depth_is_not_written_to():
    depth = make_room_walk(1, width=64, height=48, random_state=0)[0].depth
    before = depth.copy()
    estimate_normals(depth, make_room_walk(1, width=64, height=48).camera)
    np.testing.assert_array_equal(depth, before)


def test_a_step_is_a_jump_only_beyond_the_share_asked_for():
    depth = wall()
    depth[:, 20:] = 2.05  # 2.5 per cent of the lesser
    joined = estimate_normals(depth, CAMERA, smoothing=None, max_depth_jump=0.026)
    cut = estimate_normals(depth, CAMERA, smoothing=None, max_depth_jump=0.024)
    assert joined.is_valid[15, 19:21].all()
    assert not cut.is_valid[15, 19:21].any()
    assert cut.is_valid[15, 18]
    np.testing.assert_allclose(cut.rows() - np.float32([0.0, 0.0, -1.0]), 0.0, atol=1e-6)


def test_a_wider_window_takes_more_of_the_noise():
    rng = np.random.default_rng(0)
    depth = 1.0 / (0.5 + 0.001 * rng.standard_normal((30, 40)))
    spread = [
        np.median(np.hypot(*estimate_normals(depth, CAMERA, window=window, smoothing=None).rows()[:, :2].T))
        for window in (3, 7, 15)
    ]
    assert spread[0] > 2.0 * spread[1] > 4.0 * spread[2]


# ------------------------------------------------------------------------------------------------- Normals


def test_rows_and_images_are_inverse():
    rng = np.random.default_rng(1)
    is_valid = rng.random((20, 30)) < 0.7
    vectors = np.where(is_valid[..., None], rng.standard_normal((20, 30, 3)), 0.0).astype(np.float32)
    found = Normals(vectors, is_valid)
    rows = found.rows()
    assert rows.flags.c_contiguous
    np.testing.assert_array_equal(rows, vectors[is_valid])
    labels = rng.integers(0, 9, len(rows)).astype(np.int32)
    image = found.image_of(labels)
    assert image.dtype == np.int32
    np.testing.assert_array_equal(image[is_valid], labels)
    assert (image[~is_valid] == -1).all()
    np.testing.assert_array_equal(found.image_of(rows[:, 0], math.nan)[is_valid], rows[:, 0])
    np.testing.assert_array_equal(found.rows(3), vectors[::3, ::3][is_valid[::3, ::3]])


def test_rows_are_what_models_take():
    rows = estimate_normals(wall(), CAMERA).rows()
    model = SphericalKMeans(1, random_state=0).fit(rows)
    np.testing.assert_allclose(model.cluster_centers_, [[0.0, 0.0, -1.0]], atol=1e-6)


def test_values_that_are_not_one_for_each_row_are_refused():
    found = estimate_normals(wall(), CAMERA)
    with pytest.raises(InputError, match=r"`values` of Normals.image_of must be one for each of the 1064 valid pixels"):
        found.image_of(np.zeros(3))
    with pytest.raises(ParameterError, match=r"`missing` of Normals.image_of must fit values of uint8; got -1"):
        found.image_of(np.zeros(1064, np.uint8))
    with pytest.raises(ParameterError, match=r"`step` of Normals\.rows must be an int >= 1; got 0"):
        found.rows(0)


# ------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window": 8}, "`window` of estimate_normals must be odd, so that a pixel is its middle; got 8. Give 9"),
        ({"window": 1}, "`window` of estimate_normals must be an int >= 3; got 1"),
        ({"max_depth_jump": 0.0}, "`max_depth_jump` of estimate_normals"),
        ({"smoothing": "median"}, "`smoothing` of estimate_normals must be one of 'guided'.*None smooths nothing"),
        ({"n_threads": 0}, "`n_threads` of estimate_normals must be an int from 1 to 4096; got 0"),
    ],
)
def test_bad_parameters(change, message):
    with pytest.raises(ParameterError, match=message):
        estimate_normals(wall(), CAMERA, **change)


@pytest.mark.parametrize(
    ("depth", "kind", "message"),
    [
        (np.zeros((30, 40, 3)), InputError, r"`depth` of estimate_normals must be one image.*got shape \(30, 40, 3\)"),
        (np.zeros((30, 40), bool), InputTypeError, "`depth` of estimate_normals must hold integers.*got dtype bool"),
        (np.zeros((30, 41)), InputError, "the size of its camera, 40 x 30; got 41 x 30"),
        (np.zeros((0, 0)), InputError, "the size of its camera, 40 x 30; got 0 x 0"),
    ],
)
def test_bad_depth(depth, kind, message):
    with pytest.raises(kind, match=message):
        estimate_normals(depth, CAMERA)


def test_a_camera_must_be_one():
    with pytest.raises(ParameterError, match=r"`camera` of estimate_normals must be a Camera; got 525"):
        estimate_normals(wall(), 525)
