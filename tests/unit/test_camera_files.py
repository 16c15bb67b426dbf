"""Cameras and poses from files of Open3D, ROS, ScanNet and TUM."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from armillary.exceptions import InputError, InputTypeError, ParameterError
from armillary.vision import Camera, open_poses
from armillary.vision.camera import PRESETS
from armillary.vision.pose_files import _at_times, turns_between

EXPECTED = Camera(600.0, 601.0, 320.5, 240.25, 640, 480)
COLUMNS = [600.0, 0.0, 0.0, 0.0, 601.0, 0.0, 320.5, 240.25, 1.0]
K = [600.0, 0.0, 320.5, 0.0, 601.0, 240.25, 0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("info.json", json.dumps({"width": 640, "height": 480, "K": K, "D": [0, 0, 0, 0, 0]})),
        ("info.yaml", f"image_width: 640\nimage_height: 480\ncamera_matrix:\n  rows: 3\n  cols: 3\n  data: {K}\n"),
        ("info.yml", f"header:\n  frame_id: a\nheight: 480\nwidth: 640\nk: {K}\n"),
        (
            "scene.txt",
            "depthHeight = 480\ndepthWidth = 640\nfx_depth = 600\nfy_depth=601\nmx_depth = 320.5\nmy_depth = 240.25\n",
        ),
        (
            "echo.yaml",
            f"header:\n  frame_id: a\nheight: 480\nwidth: 640\nK: {K}\n---\nheight: 240\nwidth: 320\nK: {K}\n---\n",
        ),
        (
            "TUM1.yaml",
            (
                "%YAML:1.0\n\n# depth\nCamera.fx: 600.0\nCamera.fy: 601.0\nCamera.cx: 320.5\nCamera.cy: 240.25\n"
                "Camera.width: 640\nCamera.height: 480\nDepthMapFactor: 5000.0\n"
            ),
        ),
        (
            "opencv.yml",
            (
                "%YAML:1.0\n---\nimage_width: 640\nimage_height: 480\ncamera_matrix: !!opencv-matrix\n   rows: 3\n"
                f"   cols: 3\n   dt: d\n   data: {K}\n"
            ),
        ),
        ("open3d.json", json.dumps({"width": 640, "height": 480, "intrinsic_matrix": COLUMNS})),
        (
            "trajectory.json",
            json.dumps({"parameters": 2 * [{"intrinsic": {"width": 640, "height": 480, "intrinsic_matrix": COLUMNS}}]}),
        ),
        # Record3D tells of the colour image, and writes K column by column: read by rows, cx and cy were 0
        ("metadata.json", json.dumps({"w": 640, "h": 480, "K": COLUMNS})),
        (
            "metadata_of_colour.json",
            json.dumps({"w": 1280, "h": 960, "dw": 640, "dh": 480, "K": [1200, 0, 0, 0, 1202, 0, 641.5, 481, 1]}),
        ),
        (
            "realsense.json",
            json.dumps({"width": 640, "height": 480, "fx": 600, "fy": 601, "ppx": 320.5, "ppy": 240.25, "coeffs": [0]}),
        ),
        ("kalibr.yaml", "cam0:\n  intrinsics: [600, 601, 320.5, 240.25]\n  resolution: [640, 480]\n"),
        ("topics.json", json.dumps({"/depth/camera_info": {"width": 640, "height": 480, "K": K}})),
        ("echo.txt", f"height: 480\nwidth: 640\nK: {K}\n---\n"),
        ("cameras.txt", "# Camera list\n1 PINHOLE 640 480 600 601 321 240.75\n"),
    ],
)
def test_files_that_tell_their_size(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    found = Camera.from_file(tmp_path / name)
    assert replace(found, depth_scale=1000.0) == EXPECTED
    assert found.depth_scale == (5000.0 if "DepthMapFactor" in text else 1000.0)


def test_a_matrix_as_rows_of_json(tmp_path):
    (tmp_path / "k.json").write_text(json.dumps(np.reshape(K, (3, 3)).tolist()))
    assert Camera.from_file(tmp_path / "k.json", size=(640, 480)) == EXPECTED


@pytest.mark.parametrize(
    "text", ["# fx fy cx cy\n600 601 320.5 240.25", "600 0 320.5 0\n0 601 240.25 0\n0 0 1 0\n0 0 0 1\n"]
)
def test_text_without_a_size_needs_one(tmp_path, text):
    (tmp_path / "intrinsic.txt").write_text(text)
    assert Camera.from_file(tmp_path / "intrinsic.txt", size=(640, 480)) == EXPECTED
    with pytest.raises(InputError, match=r"lacks width, height\. Add them, or give `size`, \(width, height\)\."):
        Camera.from_file(tmp_path / "intrinsic.txt")


def test_distortion_is_told_and_not_undone(tmp_path):
    (tmp_path / "info.json").write_text(json.dumps({"width": 640, "height": 480, "K": K, "D": [0.1, 0, 0, 0, 0]}))
    with pytest.warns(UserWarning, match="tells of distortion, which is not undone here"):
        assert Camera.from_file(tmp_path / "info.json") == EXPECTED
    (tmp_path / "orb.yaml").write_text(
        "Camera.fx: 600\nCamera.fy: 601\nCamera.cx: 320.5\nCamera.cy: 240.25\nCamera.k1: 0.2\n"
    )
    with pytest.warns(UserWarning, match="tells of distortion, which is not undone here"):
        assert Camera.from_file(tmp_path / "orb.yaml", size=(640, 480)) == EXPECTED


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.yaml", "a: [1, 2", "needs YAML"),
        ("a.txt", "no camera", "ScanNet's lines"),
        ("a.json", json.dumps({"width": 1, "height": 1, "K": [1, 2]}), "must be nine numbers, row by row"),
        ("b.json", json.dumps({"width": 1, "height": 1, "K": 9 * [0]}), "was not calibrated, its focal lengths are 0"),
        ("c.json", json.dumps({"fx": "1", "fy": 1, "cx": 0, "cy": 0, "width": 1, "height": 1}), "c.json holds no cam"),
        # what no format has: words for numbers, fields that are missing, lists of other lengths
        ("d.txt", "1 PINHOLE 640 640 480 525 525 320 240", "a field is not as its format has it"),
        ("e.txt", "1 SIMPLE_PINHOLE 640 . 525 320 240", "a field is not as its format has it"),
        ("f.txt", "fx_depth = 5\nfy_depth = 5\nmx_depth = 3\nmy_depth = 2\ndepthWidth = 6", "no 'depthHeight'"),
        ("g.json", json.dumps({"w": "x", "h": 480, "fl_x": 5, "fl_y": 5, "cx": 3, "cy": 2}), "a field is not as its"),
        ("h.json", json.dumps({"w": 0, "h": 480, "fl_x": 5, "fl_y": 5, "cx": 3, "cy": 2}), "division by zero"),
        ("i.json", json.dumps(EXPECTED.to_dict() | {"sensor": {"noises": 1}}), "i.json holds no camera: Sensor"),
        ("j.json", json.dumps([[525, 0, 320], [[[]], [2, 3], 240], [0, 0, 1]]), "a field is not as its format has it"),
        ("k.yaml", f"height: 480\n-1: 640\nK: {K}\n", "k.yaml lacks width"),
        ("l.yaml", f"height: 480\nwidth: 640\nK: {K}\nD: [a b]\n", "a field is not as its format has it"),
    ],
)
def test_files_that_hold_none(tmp_path, name, text, sentence):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=sentence):
        Camera.from_file(tmp_path / name)


def test_presets_are_cameras_with_a_sensor():
    for name in PRESETS:
        camera = Camera.preset(name)
        assert camera.sensor is not None
        assert 0.3 < camera.width / camera.fx < 2.0
    assert Camera.preset("kinect") == Camera.kinect()
    scaled = Camera.preset("realsense_d455").scaled(0.5)
    assert scaled.sensor == Camera.preset("realsense_d455").sensor


@pytest.mark.parametrize(
    ("name", "size", "degrees"),
    [
        # horizontal fields of view as devices of each kind tell them
        ("realsense_d415", (640, 480), 55.4),
        ("realsense_d415", (1280, 720), 69.9),
        ("realsense_d435", (640, 480), 79.5),
        ("realsense_d435", (848, 480), 90.0),
        ("realsense_d435", (424, 240), 90.0),
        ("realsense_d455", (1280, 720), 90.0),
        ("azure", (320, 288), 64.8),
        ("kinect", (320, 240), 62.7),
    ],
)
def test_presets_at_the_sizes_that_cameras_have(name, size, degrees):
    camera = Camera.preset(name, size=size)
    assert (camera.width, camera.height) == size
    assert camera.fx == pytest.approx(camera.fy)
    assert math.degrees(2.0 * math.atan(0.5 * size[0] / camera.fx)) == pytest.approx(degrees, abs=0.5)
    assert camera.cx == pytest.approx(0.5 * (size[0] - 1), abs=1.0)


def test_a_preset_at_a_size_that_it_has_not():
    with pytest.raises(InputError, match="Images of 'kinect' are 640 x 480, or scaled copies of these; got 848 x 480"):
        Camera.preset("kinect", size=(848, 480))
    with pytest.raises(ParameterError, match=r"`size` of Camera.preset must be \(width, height\); got 640"):
        Camera.preset("kinect", size=640)
    with pytest.raises(InputTypeError, match=r"`path` of Camera\.from_file must be a string or a path; got None"):
        Camera.from_file(None)
    with pytest.raises(ParameterError, match="`sensor` of Camera must be a Sensor or None; got 'kinect'"):
        replace(EXPECTED, sensor="kinect")


# ----------------------------------------------------------------------------------------------------------- poses


@pytest.fixture
def poses():
    found = np.tile(np.eye(4), (12, 1, 1))
    found[:, :3, :3] = Rotation.from_rotvec(0.1 * np.arange(12)[:, None] * [0.0, 1.0, 0.0]).as_matrix()
    found[:, :3, 3] = np.arange(36).reshape(12, 3)
    return found


def test_a_folder_of_matrices_in_natural_order(tmp_path, poses):
    for number, pose in enumerate(poses):
        np.savetxt(tmp_path / f"{number}.txt", pose)
    np.testing.assert_allclose(open_poses(tmp_path), poses, atol=1e-9)


def _lines(tables):
    return "".join(f"{' '.join(f'{value:.12f}' for value in row)}\n" for row in tables)


def test_matrices_in_one_file(tmp_path, poses):
    log = "".join(f"{number} {number} {number + 1}\n{_lines(pose)}" for number, pose in enumerate(poses))
    cameras = [{"extrinsic": np.linalg.inv(pose).T.ravel().tolist()} for pose in poses]
    files = {
        "rows.txt": _lines(poses.reshape(-1, 4)),
        "kitti.txt": _lines(poses[:, :3].reshape(-1, 12)),
        "flat.txt": _lines(poses.reshape(-1, 16)),
        "trajectory.log": log,
        "trajectory.json": json.dumps({"class_name": "PinholeCameraTrajectory", "parameters": cameras}),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    np.save(tmp_path / "three_rows.npy", poses[:, :3])
    np.savez(tmp_path / "poses.npz", poses=poses, others=np.ones(3))
    for name in (*files, "three_rows.npy", "poses.npz"):
        np.testing.assert_allclose(open_poses(tmp_path / name), poses, atol=1e-9, err_msg=name)


def test_poses_of_few_digits_are_made_rotations_with_one_note(tmp_path, poses):
    np.save(tmp_path / "poses.npy", np.round(poses, 3).astype(np.float32))
    with pytest.warns(UserWarning, match=r"rotations of \d+ of 12 poses .* have few digits") as heard:
        found = open_poses(tmp_path / "poses.npy")
    assert len(heard) == 1
    turns = found[:, :3, :3]
    np.testing.assert_allclose(turns @ np.swapaxes(turns, 1, 2), np.tile(np.eye(3), (12, 1, 1)), atol=1e-12)
    np.testing.assert_allclose(turns, poses[:, :3, :3], atol=1e-3)


def test_a_trajectory_is_taken_at_the_times_of_frames(tmp_path, poses):
    quats = Rotation.from_matrix(poses[:, :3, :3]).as_quat()
    lines = [f"{10 + number} {' '.join(map(str, pose[:3, 3]))} {' '.join(map(str, quat))}" for number, (pose, quat) in
             enumerate(zip(poses, quats, strict=True))]  # fmt: skip
    (tmp_path / "groundtruth.txt").write_text("# time tx ty tz qx qy qz qw\n" + "\n".join(lines))
    np.testing.assert_allclose(open_poses(tmp_path / "groundtruth.txt"), poses, atol=1e-9)
    found = open_poses(tmp_path / "groundtruth.txt", (12.4, 19.6))
    np.testing.assert_allclose(found, poses[[2, 10]], atol=1e-9)
    # a frame far from all lines in time has no pose: the last one had been taken for it
    far = open_poses(tmp_path / "groundtruth.txt", (11.0, 22.9, 23.1))
    assert np.isnan(far).any(axis=(1, 2)).tolist() == [False, False, True]


def test_the_nearest_pose_in_time_is_taken_of_a_long_list():
    """A list of motion capture has ten lines for each frame, in any order."""
    rng = np.random.default_rng(0)
    for n_lines in (1, 2, 400):
        table = np.zeros((n_lines, 8))
        table[:, 0] = table[:, 1] = rng.uniform(0.0, 40.0, n_lines)
        table[:, 7] = 1.0
        wanted = rng.uniform(0.0, 40.0, 50)
        found = _at_times(table, tuple(wanted))[:, 0, 3]
        expected = table[np.abs(table[:, :1] - wanted).argmin(axis=0), 1]
        is_there = np.isfinite(found)
        assert is_there.mean() > 0.5
        np.testing.assert_array_equal(found[is_there], expected[is_there])


def test_turns_between_poses_take_directions_along(poses):
    turns = turns_between(poses)
    assert turns[0] is None
    world = np.array([0.0, 0.0, 1.0])
    np.testing.assert_allclose(turns[4] @ (poses[3, :3, :3].T @ world), poses[4, :3, :3].T @ world, atol=1e-12)
    lost = poses.copy()
    lost[5] = -math.inf
    lost[5][np.isinf(lost[5])] = np.nan
    assert [turn is None for turn in turns_between(lost)][4:8] == [False, True, True, False]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.txt", "1 2 3", "needs lines 'timestamp tx ty tz qx qy qz qw'"),
        ("a.npy", "x", "cannot read"),
        ("a.json", "{}", "is a trajectory of Open3D"),
        ("missing", None, "is not there"),
    ],
)
def test_poses_that_are_none(tmp_path, name, text, sentence):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=sentence):
        open_poses(tmp_path / name)


def test_a_pose_that_is_no_rotation_is_refused(tmp_path):
    np.save(tmp_path / "poses.npy", np.tile(2.0 * np.eye(4), (2, 1, 1)))
    with pytest.raises(InputError, match=r"`rotation` of pose 0 in"):
        open_poses(tmp_path / "poses.npy")
