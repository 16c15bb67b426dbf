"""The made room: what it says is true, it repeats, and its sensor errs as told."""

from __future__ import annotations

import math

import numpy as np
import pytest

from armillary.exceptions import ParameterError
from armillary.vision import make_room_walk, room

SMALL = {"width": 96, "height": 72}
EXACT = SMALL | {"noise": 0.0, "hole_fraction": 0.0, "dtype": "float64"}


def world_points(walk, number):
    """Where the pixels of a frame lie, from its depth (H, W, 3)."""
    camera, pose = walk.camera, walk.poses[number]
    v, u = np.mgrid[: camera.height, : camera.width]
    rays = np.stack([(u - camera.cx) / camera.fx, (v - camera.cy) / camera.fy, np.ones(u.shape)], axis=-1)
    return walk[number].depth[..., None] * rays @ pose[:3, :3].T + pose[:3, 3]


def test_pixels_of_a_plane_lie_in_one_plane_in_all_frames():
    walk = make_room_walk(9, **EXACT)
    heights = {}
    for number in range(9):
        frame, points = walk[number], world_points(walk, number)
        for plane in np.unique(frame.plane_ids):
            direction = walk.plane_direction_ids[plane]
            if direction >= 0:
                along = points[frame.plane_ids == plane] @ walk.directions[direction]
                heights.setdefault(plane, []).append(along)
    assert len(heights) > 20
    for found in heights.values():
        together = np.concatenate(found)
        np.testing.assert_allclose(together, together[0], rtol=0, atol=1e-9)


def test_walls_are_where_the_plan_has_them():
    walk = make_room_walk(3, **EXACT)
    names = np.array(walk.plane_names)
    points, frame = world_points(walk, 0), walk[0]
    seen = names[frame.plane_ids]
    np.testing.assert_allclose(points[seen == "floor"][:, 1], 1.5, atol=1e-9)
    np.testing.assert_allclose(points[seen == "wall ahead"][:, 2], 3.5, atol=1e-9)
    np.testing.assert_allclose(points[seen == "table top, top"][:, 1], 0.75, atol=1e-9)
    for name in ("floor", "ceiling", "wall ahead", "table top, top", "leaning board, front", "cupboard, front"):
        assert name in seen


def test_the_lamp_is_round_and_has_no_direction():
    walk = make_room_walk(9, **EXACT)
    is_seen = False
    for number in range(9):
        frame = walk[number]
        is_lamp = frame.plane_ids == len(walk.plane_names) - 1
        assert (frame.direction_ids[is_lamp] == -1).all()
        assert (frame.direction_ids[~is_lamp] >= 0).all()
        distances = np.linalg.norm(world_points(walk, number)[is_lamp] - [0.9, -0.65, 1.4], axis=-1)
        np.testing.assert_allclose(distances, 0.22, atol=1e-9)
        is_seen |= bool(is_lamp.any())
    assert is_seen
    assert walk.plane_names[-1] == "lamp"


def test_normals_are_unit_look_at_the_camera_and_agree_with_the_directions():
    walk = make_room_walk(5, **EXACT)
    for number in range(5):
        frame, rotation = walk[number], walk.poses[number, :3, :3]
        np.testing.assert_allclose(np.linalg.norm(frame.normals, axis=-1), 1.0, rtol=0, atol=1e-6)
        points, _ = walk.camera.points(frame.depth)
        assert ((frame.normals * points).sum(axis=-1) < 0.0).all()
        is_flat = frame.direction_ids >= 0
        expected = walk.directions[frame.direction_ids[is_flat]] @ rotation
        np.testing.assert_allclose(frame.normals[is_flat], expected, rtol=0, atol=1e-6)


def test_planes_with_the_same_normal_share_a_direction():
    walk = make_room_walk(1, **EXACT)
    of = dict(zip(walk.plane_names, walk.plane_direction_ids, strict=True))
    assert of["floor"] == of["table top, top"] == of["cupboard, top"]  # both look up
    assert of["ceiling"] == of["table top, bottom"]
    assert of["wall ahead"] == of["cupboard, front"] != of["wall behind"]
    cosines = walk.directions @ walk.directions.T
    assert (cosines[~np.eye(len(cosines), dtype=bool)] < 1.0 - 1e-6).all()
    np.testing.assert_allclose(np.diag(cosines), 1.0)


def test_the_camera_turns_and_comes_back():
    walk = make_room_walk(41, **EXACT)
    forward = walk.poses[:, :3, 2]
    yaw = np.degrees(np.arctan2(forward[:, 0], forward[:, 2]))
    assert yaw[0] == pytest.approx(0.0)
    assert yaw[20] == pytest.approx(90.0)
    assert yaw[-1] == pytest.approx(0.0)
    assert np.abs(np.diff(yaw)).max() < 15.0
    np.testing.assert_allclose(
        np.swapaxes(walk.poses[:, :3, :3], 1, 2) @ walk.poses[:, :3, :3] - np.eye(3), 0, atol=1e-12
    )
    np.testing.assert_array_equal(walk[0].plane_ids, walk[-1].plane_ids)
    assert make_room_walk(41, turn=0.5, **EXACT).poses[20, 0, 2] > 0.4


def test_frames_repeat_in_any_order_and_only_one_is_kept():
    walk, other = (make_room_walk(6, random_state=3, **SMALL) for _ in range(2))
    backwards = [walk[number].depth for number in (5, 4, 3, 2, 1, 0)][::-1]
    for number in range(6):
        np.testing.assert_array_equal(other.depths[number], backwards[number])
    assert walk[2] is walk[2]
    assert len(walk._last) == 1
    assert not np.array_equal(walk[0].depth, make_room_walk(6, random_state=4, **SMALL)[0].depth)


def test_a_walk_is_a_sequence():
    walk = make_room_walk(6, random_state=0, **SMALL)
    assert len(walk) == len(walk.depths) == 6
    assert [frame.depth.shape for frame in walk[1:4]] == [(72, 96)] * 3
    np.testing.assert_array_equal(walk[-1].depth, walk.depths[5])
    np.testing.assert_array_equal(walk.depths[4:][1], walk.depths[5])
    assert len(list(walk.depths)) == 6
    with pytest.raises(IndexError):
        walk[6]


def test_noise_grows_with_the_square_of_the_depth():
    exact = make_room_walk(1, **(EXACT | {"width": 320, "height": 240}))[0].depth
    walk = make_room_walk(1, width=320, height=240, hole_fraction=0.0, dtype="float64", noise=0.002, random_state=0)
    scaled = (1.0 / walk[0].depth - 1.0 / exact) / 0.002
    # 76,800 draws of a standard Gaussian: the mean within 5 of its errors, the variance too; wrong once in a million
    assert abs(scaled.mean()) < 5.0 / math.sqrt(scaled.size)
    assert abs(scaled.var() - 1.0) < 5.0 * math.sqrt(2.0 / scaled.size)
    near, far = exact < 3.2, exact > 5.0
    assert near.sum() > 1000 < far.sum()
    ratio = np.std((walk[0].depth - exact)[far]) / np.std((walk[0].depth - exact)[near])
    assert 2.0 < ratio < 5.0


@pytest.mark.parametrize("fraction", [0.02, 0.2])
def test_patches_cover_their_share(fraction):
    is_lost = np.zeros((480, 640), bool)
    room._punch(is_lost, fraction, np.random.default_rng(0))
    assert is_lost.mean() == pytest.approx(fraction, rel=0.15)


def test_pixels_are_lost_at_rims_and_at_grazing_incidence():
    exact = make_room_walk(1, **(EXACT | {"width": 320, "height": 240}))
    depth, frame = exact[0].depth, exact[0]
    measured = make_room_walk(1, width=320, height=240, hole_fraction=1e-9, noise=0.0, random_state=0)[0].depth
    is_lost = measured == 0
    assert is_lost[room._rims(depth)].mean() > 0.45
    points, _ = exact.camera.points(depth)
    cosine = -(frame.normals * points).sum(-1) / np.linalg.norm(points, axis=-1)
    assert is_lost[cosine < math.cos(math.radians(86.0))].all()
    assert not is_lost[(cosine > math.cos(math.radians(74.0))) & ~room._rims(depth)].any()


def test_nothing_is_lost_without_holes_and_what_is_out_of_range_is():
    assert (make_room_walk(1, noise=0.0, hole_fraction=0.0, **SMALL)[0].depth > 0).all()
    exact = make_room_walk(1, **EXACT)[0].depth
    near = make_room_walk(1, **(EXACT | {"depth_range": (1.0, 3.0)}))[0].depth
    np.testing.assert_array_equal(near > 0.0, (exact >= 1.0) & (exact <= 3.0))


@pytest.mark.parametrize(("dtype", "scale"), [("uint16", 1000.0), ("float32", 1.0), ("float64", 1.0)])
def test_types_of_depth(dtype, scale):
    exact = make_room_walk(1, **EXACT)[0].depth
    depth = make_room_walk(1, **(EXACT | {"dtype": dtype}))[0].depth
    assert depth.dtype == dtype
    np.testing.assert_allclose(depth / scale, exact, rtol=0, atol=0.51e-3 if dtype == "uint16" else 1e-6)


def test_the_camera_fits_the_size_and_the_view_does_not_change():
    small, large = (make_room_walk(1, width=width, height=width * 3 // 4).camera for width in (80, 640))
    assert small.fx * 8 == pytest.approx(large.fx)
    assert (small.width, small.height) == (80, 60)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_frames": 0}, "`n_frames` of make_room_walk must be an int >= 1; got 0"),
        (
            {"turn": 90},
            r"`turn` of make_room_walk must be a number in \[-3.14159, 3.14159\]; got 90. Angles are in radians",
        ),
        ({"noise": -0.1}, "`noise` of make_room_walk"),
        ({"hole_fraction": 1.0}, "`hole_fraction` of make_room_walk"),
        ({"dtype": "int8"}, "`dtype` of make_room_walk must be one of 'uint16', 'float32', 'float64'; got 'int8'"),
        ({"depth_range": (3.0, 1.0)}, r"`depth_range` of make_room_walk must be two numbers.*got \(3.0, 1.0\)"),
        ({"depth_range": 4.0}, "`depth_range` of make_room_walk.*got 4.0"),
        ({"width": 0}, "`width` of .* must be an int >= 1; got 0"),
        ({"random_state": "a"}, "`random_state` must be None"),
    ],
)
def test_bad_parameters(change, message):
    with pytest.raises(ParameterError, match=message):
        make_room_walk(**change)
