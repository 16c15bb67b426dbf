"""Planes with offset, area and extent; frames of a stream; colours by direction; points for other programs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from armillary.exceptions import InputError, MissingExtraError, ParameterError
from armillary.vision import (
    Camera,
    DirectionColors,
    DirectionSegmenter,
    WorldFrames,
    atlanta_frames,
    color_labels,
    colored_points,
    find_planes,
    gravity_direction,
    make_room_walk,
    overlay,
    to_open3d,
    write_label_image,
    write_ply,
)
from armillary.vision.coloring import _CLEAR_STEP, _oklab, _oklch_bytes
from armillary.vision.exports import plane_corners
from armillary.vision.planes import _modes

CAMERA = Camera.kinect().scaled(0.5)


@pytest.fixture(scope="module")
def boxed():
    """A wall at 3 m with a cupboard of 1 m x 0.8 m at 2.5 m before it."""
    depth = np.full((CAMERA.height, CAMERA.width), 3.0)
    half_u, half_v = 0.5 * CAMERA.fx / 2.5, 0.4 * CAMERA.fy / 2.5
    v, u = np.indices(depth.shape)
    depth[(np.abs(u - CAMERA.cx) <= half_u) & (np.abs(v - CAMERA.cy) <= half_v)] = 2.5
    return DirectionSegmenter(camera=CAMERA).step(depth)


def test_a_wall_and_a_cupboard_before_it_are_two_planes(boxed):
    planes, numbers = find_planes(boxed, CAMERA)
    assert boxed.ids == (0,)
    assert [plane.id for plane in planes] == [0, 0]
    assert [plane.offset for plane in planes] == pytest.approx([-3.0, -2.5], abs=0.01)
    np.testing.assert_allclose(planes[1].normal, [0.0, 0.0, -1.0], atol=0.01)
    assert planes[1].area == pytest.approx(0.8, rel=0.06)
    assert planes[1].extent == pytest.approx((1.0, 0.8), rel=0.06)
    assert planes[1].roughness < 0.005
    np.testing.assert_allclose(planes[1].center, [0.0, 0.0, 2.5], atol=0.02)
    assert numbers[CAMERA.height // 2, CAMERA.width // 2] == 1
    assert numbers[10, 10] == 0
    assert planes[1].to_dict()["n_pixels"] == (numbers == 1).sum()
    corners = plane_corners(planes[1])
    np.testing.assert_allclose(corners.mean(axis=0), planes[1].center)
    np.testing.assert_allclose((corners - planes[1].center) @ planes[1].normal, 0.0, atol=1e-9)


def test_planes_of_the_room_are_those_of_its_truth():
    walk = make_room_walk(30, width=320, height=240, random_state=0)
    found = DirectionSegmenter(camera=walk.camera).step(walk[0].depth)
    planes, numbers = find_planes(found, walk.camera)
    pure = []
    for number in range(min(4, len(planes))):
        names = walk[0].plane_ids[numbers == number]
        pure.append(np.bincount(names).max() / len(names))
    assert min(pure) > 0.8
    floor = next(plane for plane in planes if plane.normal[1] < -0.9)
    pose = walk.poses[0]
    assert (pose[:3, :3] @ floor.center + pose[:3, 3])[1] == pytest.approx(1.5, abs=0.02)


def test_a_leaning_board_is_no_part_of_the_wall_whose_id_it_has():
    """Clusters are wide: both lie within `max_angle` of one direction."""
    rng = np.random.default_rng(0)
    lean = np.array([0.0, math.sin(0.6), -math.cos(0.6)])
    columns, rows = np.meshgrid(np.arange(CAMERA.width), np.arange(CAMERA.height))
    rays = np.stack([(columns - CAMERA.cx) / CAMERA.fx, (rows - CAMERA.cy) / CAMERA.fy, np.ones(rows.shape)], axis=-1)
    is_board = columns > 0.6 * CAMERA.width
    depth = np.where(is_board, -2.0 / (rays @ lean), 3.0)
    depth += 0.001 * depth**2 * rng.standard_normal(depth.shape)
    found = DirectionSegmenter(camera=CAMERA).step(depth)
    assert len(found.ids) == 1
    planes, numbers = find_planes(found, CAMERA)
    assert len(planes) == 2
    for normal, offset, where in (([0.0, 0.0, -1.0], -3.0, ~is_board), (lean, -2.0, is_board)):
        number = np.bincount(numbers[where & (numbers >= 0)]).argmax()
        assert (numbers[where] == number).mean() > 0.85
        assert planes[number].normal @ normal > math.cos(math.radians(1.5))
        assert planes[number].offset == pytest.approx(offset, abs=0.05)


def test_modes_of_normals_are_where_many_lie():
    rng = np.random.default_rng(0)
    clutter = rng.standard_normal((3000, 3))
    clutter /= np.linalg.norm(clutter, axis=1, keepdims=True)
    assert _modes(clutter, 500).shape == (0, 3)
    assert _modes(clutter[:3], 500).shape == (0, 3)
    two = np.concatenate([np.tile([0.0, 0.0, -1.0], (900, 1)), np.tile([0.0, 0.6, -0.8], (600, 1)), clutter[:500]])
    np.testing.assert_allclose(_modes(two, 400), [[0.0, 0.0, -1.0], [0.0, 0.6, -0.8]], atol=0.01)


def test_planes_need_depth(boxed):
    given = DirectionSegmenter().step(np.ones((4, 5, 3)))
    with pytest.raises(InputError, match="find_planes needs a frame of depth"):
        find_planes(given, CAMERA)
    with pytest.raises(InputError, match="colored_points needs a frame of depth"):
        colored_points(given, CAMERA)


def test_gravity_is_the_axis_of_the_frame_nearest_to_down():
    tilt = np.array([[1, 0, 0], [0, math.cos(0.3), -math.sin(0.3)], [0, math.sin(0.3), math.cos(0.3)]])
    directions = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [-1.0, 0.0, 0.0]]) @ tilt.T
    np.testing.assert_allclose(gravity_direction(directions), tilt @ [0.0, 1.0, 0.0], atol=1e-9)


def test_atlanta_frames_share_the_vertical():
    angle = math.radians(35.0)
    walls = [[1, 0, 0], [0, 0, -1], [math.cos(angle), 0, math.sin(angle)], [0.02, -1, 0]]
    found = atlanta_frames(walls, [3.0, 2.0, 1.0, 4.0], up=[0, -1, 0])
    assert found.weights.tolist() == pytest.approx([5 / 6, 1 / 6])
    for frame in found.frames:
        np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-12)
        np.testing.assert_allclose(frame[0], [0, -1, 0], atol=1e-12)
    assert np.abs(found.frames[1][1:] @ np.array(walls[2], dtype=float)).max() == pytest.approx(1.0)


def test_directions_of_a_stream_stand_still_in_the_world():
    walk = make_room_walk(30, width=160, height=120, random_state=0)
    stream, world, seen = DirectionSegmenter(camera=walk.camera), WorldFrames(), {}
    for depth in walk.depths[:14]:
        found = stream.step(depth)
        world.add(found)
        for number, direction in zip(found.ids, found.directions @ world.rotation.T, strict=True):
            if found.shares[number] > 0.1:
                seen.setdefault(number, []).append(direction)
    assert max(len(one) for one in seen.values()) > 10
    for one in (one for one in seen.values() if len(one) > 10):
        assert np.degrees(np.arccos(np.clip(np.array(one) @ one[0], -1, 1))).max() < 8.0
    told = world.to_dict()
    assert told["gravity"][1] > 0.9
    assert WorldFrames().to_dict()["gravity"] is None


# ---------------------------------------------------------------------------------------------------------- colours


def test_colours_are_of_the_direction_and_never_shared():
    rng = np.random.default_rng(0)
    colors, other = DirectionColors(), DirectionColors()
    directions = rng.standard_normal((20, 3))
    directions[7] = directions[3]  # two ids of one direction
    colors.add(range(20), directions)
    places = _oklab(colors.table)
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2) + np.eye(20)
    assert gaps.min() >= 0.9 * _CLEAR_STEP
    other.add([5], directions[:1])
    np.testing.assert_array_equal(other.table[5], colors.table[0])
    before = colors.table[4].copy()
    colors.add([4], [[0.0, 1.0, 0.0]])
    np.testing.assert_array_equal(colors.table[4], before)


def test_many_ids_of_one_direction_never_share_a_colour():
    """A wall that is born again and again; the first id stays in view."""
    colors = DirectionColors()
    for number in range(1, 200):
        colors.add([0, number], [[0.0, 0.0, -1.0], [0.0, 0.0, -1.0]])
        gap = np.linalg.norm(np.diff(_oklab(colors.table[[0, number]]), axis=0))
        assert gap >= 0.9 * _CLEAR_STEP
    assert len(np.unique(colors.table, axis=0)) == 200
    assert colors.table.any(axis=1).all()  # black is what is missing


@pytest.mark.parametrize(
    ("ids", "directions", "sentence"),
    [
        ([0, 1], [[0, 0, 1]], "must have one line of three numbers for each of the 2 ids"),
        ([0], [[0, 1]], "must have one line of three numbers"),
        ([0], [[0, np.nan, 1]], "must hold finite numbers"),
        ([-1], [[0, 0, 1]], "must be whole numbers from 0"),
        ("a", "b", "must be whole numbers from 0"),
    ],
)
def test_sentences_about_colours_of_directions(ids, directions, sentence):
    with pytest.raises(InputError, match=sentence):
        DirectionColors().add(ids, directions)


def test_what_is_no_frame_pose_or_table_is_refused(boxed, tmp_path):
    for call in (lambda: colored_points(None, CAMERA), lambda: find_planes(3, CAMERA), lambda: WorldFrames().add(3)):
        with pytest.raises(ParameterError, match="must be a SegmentedFrame; got"):
            call()
    with pytest.raises(InputError, match=r"`pose` of colored_points must be a matrix of shape \(4, 4\); got \(3, 3\)"):
        colored_points(boxed, CAMERA, pose=np.eye(3))
    with pytest.raises(InputError, match="`points` of write_ply must be records of colored_points; got list"):
        write_ply(tmp_path / "a.ply", [1])
    for table in ([[1, 2]], [[300, 0, 0]], "red", [[-1.0, 0.0, 0.0]]):
        with pytest.raises(InputError, match="`table` of color_labels must h"):
            color_labels(boxed.labels, table)


def test_oklab_there_and_back():
    bytes_ = np.array([[255, 255, 255], [0, 0, 0], [200, 30, 90]], dtype=np.uint8)
    lab = _oklab(bytes_)
    np.testing.assert_allclose(lab[0], [1.0, 0.0, 0.0], atol=1e-3)
    lch = np.array([[lab[2, 0], np.hypot(*lab[2, 1:]), np.arctan2(lab[2, 2], lab[2, 1])]])
    np.testing.assert_array_equal(_oklch_bytes(lch)[0], bytes_[2])


def test_labels_take_the_colours_of_a_table(tmp_path):
    table = np.array([[1, 2, 3], [40, 50, 60]], dtype=np.uint8)
    np.testing.assert_array_equal(color_labels([[1, -1]], table), [[[40, 50, 60], [0, 0, 0]]])
    write_label_image(tmp_path / "a.png", [[1, -1]], table)
    with pytest.raises(InputError, match="`table` of color_labels must have a colour for every label"):
        color_labels([[2]], table)
    with pytest.raises(InputError, match="`colors` of overlay must be uint8"):
        overlay(np.zeros((2, 2, 3)), [[0, 0], [0, 0]])


# ---------------------------------------------------------------------------------------------------------- exports


def test_points_are_written_as_ply(boxed, tmp_path):
    pose = np.eye(4)
    pose[:3, 3] = [0.0, 0.0, 10.0]
    points = colored_points(boxed, CAMERA, [[9, 8, 7]], pose=pose, step=4)
    assert np.all(points["label"] == 0)
    assert points["z"].min() == pytest.approx(12.5, abs=0.01)
    assert (points["red"][0], points["green"][0], points["blue"][0]) == (9, 8, 7)
    write_ply(tmp_path / "room.ply", points)
    head, _, body = (tmp_path / "room.ply").read_bytes().partition(b"end_header\n")
    assert f"element vertex {len(points)}".encode() in head
    np.testing.assert_array_equal(np.frombuffer(body, dtype=points.dtype), points)
    with pytest.raises(InputError, match="`points` of write_ply must be records"):
        write_ply(tmp_path / "no.ply", np.zeros(3))


def test_open3d_is_asked_for_by_name(boxed):
    points = colored_points(boxed, CAMERA, step=8)
    try:
        import open3d  # noqa: F401
    except ImportError:
        with pytest.raises(MissingExtraError, match="to_open3d needs open3d, which is not installed"):
            to_open3d(points)
    else:
        assert len(to_open3d(points).points) == len(points)
