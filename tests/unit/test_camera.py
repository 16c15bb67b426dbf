"""Cameras: intrinsics from everywhere, depth to points, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from armillary.exceptions import InputError, InputTypeError, ParameterError
from armillary.vision import Camera

FLAT = {"fx": 500.0, "fy": 510.0, "cx": 300.0, "cy": 200.0, "width": 640, "height": 480}


def write(tmp_path, content):
    path = tmp_path / "camera.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_points_project_back_to_their_pixels():
    camera = Camera(500.0, 510.0, 30.25, 20.5, 64, 48)
    depth = np.random.default_rng(0).uniform(0.5, 5.0, (48, 64))
    points, is_measured = camera.points(depth)
    assert is_measured.all()
    assert points.dtype == np.float32
    v, u = np.mgrid[:48, :64]
    np.testing.assert_allclose(500.0 * points[..., 0] / points[..., 2] + 30.25, u, rtol=0, atol=1e-4)
    np.testing.assert_allclose(510.0 * points[..., 1] / points[..., 2] + 20.5, v, rtol=0, atol=1e-4)
    np.testing.assert_allclose(points[..., 2], depth, rtol=1e-7)


def test_one_point_by_hand():
    points, _ = Camera(100.0, 50.0, 1.0, 0.0, 3, 2).points(np.array([[0, 0, 0], [0, 0, 2000]], dtype=np.uint16))
    np.testing.assert_array_equal(points[1, 2], np.float32([2.0 * 1 / 100, 2.0 * 1 / 50, 2.0]))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, -math.inf, 1e-30, 1e30])
def test_what_is_no_depth_is_masked(bad):
    depth = np.full((2, 3), 1.5)
    depth[1, 1] = bad
    points, is_measured = Camera(1.0, 1.0, 0.0, 0.0, 3, 2).points(depth)
    assert np.isfinite(points).all()
    assert not points[1, 1].any()
    assert not is_measured[1, 1]
    assert is_measured.sum() == 5


@pytest.mark.parametrize("dtype", [np.uint16, np.float32])
def test_what_a_mask_hides_was_not_measured(dtype):
    depth = np.ma.masked_equal(np.array([[1000, 7], [1000, 1000]], dtype), 7)
    points, is_measured = Camera(1.0, 1.0, 0.0, 0.0, 2, 2, depth_scale=1.0).points(depth)
    assert is_measured.tolist() == [[True, False], [True, True]]
    assert not points[0, 1].any()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, ">u2", np.int16, np.int32, np.uint64])
def test_integers_are_divided_by_the_depth_scale(dtype):
    depth = np.array([[0, 50, 100]], dtype=dtype)
    metres = Camera(1.0, 1.0, 0.0, 0.0, 3, 1, depth_scale=200.0).metres(depth)
    np.testing.assert_array_equal(metres, np.float32([[0.0, 0.25, 0.5]]))
    assert metres.dtype == np.float32


def test_negative_integers_are_no_depth():
    np.testing.assert_array_equal(Camera(1, 1, 0, 0, 2, 1).metres(np.array([[-5, 1000]])), [[0.0, 1.0]])


def test_float64_stays_float64():
    depth = np.array([[1.0 + 1e-12]])
    assert Camera(1, 1, 0, 0, 1, 1).metres(depth)[0, 0] == depth[0, 0]


def test_named_cameras():
    assert Camera.kinect() == Camera(525.0, 525.0, 319.5, 239.5, 640, 480, depth_scale=1000.0)
    assert Camera.tum() == Camera(525.0, 525.0, 319.5, 239.5, 640, 480, depth_scale=5000.0)
    assert Camera.tum("freiburg1") == Camera(517.3, 516.5, 318.6, 255.3, 640, 480, depth_scale=5000.0)
    with pytest.raises(ParameterError, match=r"`sequence` of Camera\.tum must be one of 'default'.*got 'fr4'"):
        Camera.tum("fr4")


def test_field_of_view_reaches_from_edge_to_edge():
    camera = Camera.from_field_of_view(640, 480, math.radians(60.0))
    # the outer edges of the first and last pixel lie half a pixel beyond their centres
    assert math.atan((639.5 - camera.cx) / camera.fx) == pytest.approx(math.radians(30.0))
    assert math.atan((-0.5 - camera.cx) / camera.fx) == pytest.approx(-math.radians(30.0))
    with pytest.raises(ParameterError, match=r"`angle` of Camera\.from_field_of_view.*got 60.*math\.radians\(57\)"):
        Camera.from_field_of_view(640, 480, 60)


def test_scaled_images_see_the_same_rays():
    camera = Camera(500.0, 510.0, 300.0, 200.0, 640, 480)
    half = camera.scaled(0.5)
    assert (half.width, half.height) == (320, 240)
    # pixel 10 of the half image covers pixels 20 and 21, its centre is at 20.5
    assert (10 - half.cx) / half.fx == pytest.approx((20.5 - camera.cx) / camera.fx)
    assert (7 - half.cy) / half.fy == pytest.approx((14.5 - camera.cy) / camera.fy)
    assert camera.scaled(1.0) == camera
    with pytest.raises(ParameterError, match=r"`factor` of Camera\.scaled"):
        camera.scaled(0.0)


def test_a_camera_is_a_value():
    camera = Camera.kinect()
    assert hash(camera) == hash(Camera.kinect())
    with pytest.raises(dataclasses.FrozenInstanceError):
        camera.fx = 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fx": 0.0}, r"`fx` of Camera must be a number in \[1e-06, 1e\+06\]; got 0.0"),
        ({"fy": math.inf}, "`fy` of Camera"),
        ({"cx": math.nan}, "`cx` of Camera must be a number"),
        ({"cx": "middle"}, "`cx` of Camera must be a number.*got 'middle'"),
        ({"width": 640.5}, "`width` of Camera must be an int >= 1; got 640.5"),
        ({"height": 0}, "`height` of Camera must be an int >= 1; got 0"),
        ({"depth_scale": -1.0}, "`depth_scale` of Camera"),
    ],
)
def test_bad_intrinsics_are_refused(change, message):
    with pytest.raises(ParameterError, match=message):
        Camera(**(FLAT | change))


# ------------------------------------------------------------------------------------------------- files


def test_a_camera_round_trips_through_its_file(tmp_path):
    camera = Camera(500.0, 510.0, 300.0, 200.0, 640, 480, depth_scale=5000.0)
    assert Camera.from_file(write(tmp_path, camera.to_dict())) == camera


def test_other_fields_are_passed_over_and_the_scale_defaults_to_millimetres(tmp_path):
    assert Camera.from_file(write(tmp_path, FLAT | {"note": "office", "n_frames": 3})) == Camera(**FLAT)


def test_a_matrix_as_open3d_writes_it(tmp_path):
    matrix = [500.0, 0.0, 0.0, 0.0, 510.0, 0.0, 300.0, 200.0, 1.0]
    path = write(tmp_path, {"width": 640, "height": 480, "intrinsic_matrix": matrix})
    assert Camera.from_file(path) == Camera(**FLAT)
    with pytest.raises(InputError, match=r"`intrinsic_matrix` in .*camera\.json must be nine numbers.*got \[1\]"):
        Camera.from_file(write(tmp_path, {"width": 640, "height": 480, "intrinsic_matrix": [1]}))


def test_several_cameras_by_name(tmp_path):
    path = write(tmp_path, {"left": FLAT, "right": FLAT | {"fx": 400.0}, "about": "two"})
    assert Camera.from_file(path, "right").fx == 400.0
    with pytest.raises(ParameterError, match=r"`name` of Camera\.from_file must say which.*it holds left, right"):
        Camera.from_file(path)
    with pytest.raises(ParameterError, match=r"`name` of Camera\.from_file for .* must be one of 'left', 'right'"):
        Camera.from_file(path, "middle")


def test_equal_cameras_need_no_name(tmp_path):
    assert Camera.from_file(write(tmp_path, {"a": FLAT, "b": FLAT})) == Camera(**FLAT)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("not json", r"Camera\.from_file needs JSON; .*camera\.json is not"),
        ([1, 2], r"needs an object with the fields fx, fy.* holds a list"),
        ({"focal": 3}, r"needs the fields fx, fy, cx, cy, width, height; .* has focal"),
        ({}, "has none"),
        ({"fx": 500.0, "cx": 1.0, "cy": 2.0, "width": 3}, "lacks fy, height"),
    ],
)
def test_files_that_hold_no_camera(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        Camera.from_file(write(tmp_path, content))


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"Camera\.from_file cannot read .*none\.json: No such file"):
        Camera.from_file(tmp_path / "none.json")


# ------------------------------------------------------------------------------------------------- depth


@pytest.mark.parametrize(
    ("depth", "kind", "message"),
    [
        (
            np.zeros((2, 3, 3), np.uint8),
            InputError,
            r"must be one image of shape \(height, width\); got shape \(2, 3, 3\)",
        ),
        (np.zeros(6), InputError, r"got shape \(6,\)"),
        (np.zeros((2, 3), bool), InputTypeError, "got dtype bool"),
        (np.zeros((2, 3), complex), InputTypeError, "got dtype complex128"),
        ([["a", "b", "c"]], InputTypeError, "`depth` of Camera.points must hold integers"),
        (np.zeros((3, 2)), InputError, "must have the size of its camera, 3 x 2; got 2 x 3"),
        (np.zeros((0, 3)), InputError, "must have the size of its camera, 3 x 2; got 3 x 0"),
        (None, InputTypeError, "got dtype object"),
    ],
)
def test_what_is_no_depth_image_is_refused(depth, kind, message):
    with pytest.raises(kind, match=message):
        Camera(1.0, 1.0, 0.0, 0.0, 3, 2).points(depth)
