"""Labels that hold on to the last frame: the penalty, the motion of the camera, noise that is measured, resuming."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import armillary
from armillary.exceptions import ArmillaryError, InputError, ParameterError
from armillary.kernels.images import depth as depth_kernels
from armillary.kernels.images import reference
from armillary.vision import (
    Camera,
    DirectionSegmenter,
    LastFrame,
    Normals,
    Reason,
    Sensor,
    estimate_normals,
    make_room_walk,
    smooth_depth,
)
from armillary.vision.motion import ViewMotion, _axis, _turned, estimated_motion
from armillary.vision.smoothing import Noise, inverse_depth
from armillary.vision.steady import LookBack, default_region, default_stride, steady_labels, warp
from armillary.workers import Workers

CAMERA = Camera.from_field_of_view(64, 48, math.radians(60.0))
LABELS, DEPTH = np.zeros((4, 6), np.int32), np.ones((4, 6))


def units(rng, *shape):
    rows = rng.standard_normal((*shape, 3))
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def a_frame(rng, n_labels=4, size=(48, 64)):
    vectors = units(rng, *size).astype(np.float32)
    is_valid = rng.random(size) < 0.8
    depth = np.where(rng.random(size) < 0.9, rng.uniform(1.0, 1.05, size), 0.0).astype(np.float32)
    labels = rng.integers(-1, n_labels, size).astype(np.int32)
    return Normals(np.where(is_valid[..., None], vectors, 0.0).astype(np.float32), is_valid), depth, labels


@pytest.mark.parametrize("seed", range(4))
def test_labels_maximise_cosines_less_the_penalty(seed):
    rng = np.random.default_rng(seed)
    normals, depth, _ = a_frame(rng)
    _, last_depth, last = a_frame(rng, 6)
    ids, directions = np.array([0, 2, 3, 5]), units(rng, 4)
    motion = ViewMotion(Rotation.from_rotvec([0.02, -0.05, 0.03]).as_matrix(), np.array([0.01, 0.02, -0.015]), 1.0)
    back = LookBack(LastFrame(last, last_depth), motion, CAMERA, 0.3)
    with Workers(1) as workers:
        found = steady_labels(normals, ids, directions, depth, back, 0.03, workers)
        alone = steady_labels(normals, ids, directions, depth, None, 0.03, workers)
    table = np.array([0, -1, 1, 2, -1, 3])
    before = reference.places_before(
        depth, last_depth, last, table, motion.rotation, motion.way, (CAMERA.fx, CAMERA.fy, CAMERA.cx, CAMERA.cy), 0.03
    )
    assert (before >= 0).mean() > 0.2
    expected = reference.label_pixels(normals.vectors, normals.is_valid, directions, ids, 0.3, before)
    assert (found != expected).sum() <= 2  # a pixel exactly between two of the last frame, by rounding
    nothing = np.full_like(before, -1)
    np.testing.assert_array_equal(
        alone, reference.label_pixels(normals.vectors, normals.is_valid, directions, ids, 0.0, nothing)
    )

    def objective(labels):
        places, seen = np.searchsorted(ids, labels), normals.is_valid
        cosines = np.take_along_axis(normals.vectors @ directions.T, places[..., None], 2)[..., 0][seen].sum()
        left = (labels != np.where(before >= 0, ids[before], labels))[seen].sum()
        return cosines - 0.3 * left

    kept = np.where(before >= 0, ids[before], alone)
    for other in (alone, kept):
        assert objective(found) >= objective(np.where(normals.is_valid, other, found)) - 1e-5


@pytest.mark.parametrize("size", [(1, 1), (2, 15), (5, 16), (3, 17), (40, 47)])
def test_labels_of_any_width_are_those_of_the_reference(size):
    rng = np.random.default_rng(size[1])
    (normals, depth, _), (_, last_depth, last) = a_frame(rng, size=size), a_frame(rng, 4, size)
    ids, directions = np.array([0, 2, 3]), units(rng, 3)
    rest = LookBack(LastFrame(last, last_depth), ViewMotion(np.eye(3), np.zeros(3), 1.0), CAMERA, 0.3)
    with Workers(1) as workers:
        found = steady_labels(normals, ids, directions, depth, rest, 0.03, workers)
    is_same = (depth > 0.0) & (last >= 0) & (np.abs(last_depth - depth) <= 0.03 * depth)
    before = np.where(is_same, np.array([0, -1, 1, 2])[last], -1)
    expected = reference.label_pixels(normals.vectors, normals.is_valid, directions, ids, 0.3, before)
    np.testing.assert_array_equal(found, expected)


def test_ties_are_settled_in_float64_by_the_smaller_id():
    vectors = np.zeros((1, 2, 3), np.float32)
    vectors[0, :] = [math.sqrt(0.5), math.sqrt(0.5), 0.0]
    directions = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1e-9, 1.0, 0.0]])
    with Workers(1) as workers:
        found = steady_labels(
            Normals(vectors, np.ones((1, 2), bool)), np.array([3, 5, 9]), directions, None, None, 0.03, workers
        )
    assert found.tolist() == [[9, 9]]


def test_a_plain_wall_is_labelled_to_the_border_of_the_image():
    """A slanted wall; a box before it ends at the border, where nothing of the wall behind is its own."""
    camera = Camera.kinect().scaled(0.25)
    columns = np.arange(camera.width)
    depth = np.tile(3.0 / (1.0 + 0.3 * (columns - camera.cx) / camera.fx), (camera.height, 1))
    depth[40:80, -2:] = 1.8  # two pixels wide: none has a normal
    depth[0, 50:60] = np.nan
    for steadiness in (0.25, 0.0):
        found = DirectionSegmenter(camera=camera, min_region=0, steadiness=steadiness).step(depth)
        border = np.ones(depth.shape, bool)
        border[1:-1, 1:-1] = False
        if steadiness:
            assert np.all(found.labels[0, 1:50] == 0)
            assert np.all(found.labels[-1, 1:-1] == 0)
            assert np.all(found.labels[1:39, [0, -1]] == 0)
            assert np.all(found.labels[40:80, -2:] == -1)
            assert np.all(found.reasons()[40:80, -2:] == Reason.EDGE)
        else:
            assert np.all(found.labels[border] == -1)
        assert np.all(found.labels[0, 50:60] == -1)


def test_pixels_are_found_where_a_turn_and_a_way_put_them():
    turn, way = warp(ViewMotion(np.eye(3), np.array([0.0, 0.0, -0.5]), 1.0), CAMERA)
    # half a metre ahead: what is 2 m away now was 2.5 m away, nearer to the middle
    then = 2.0 * turn @ np.array([CAMERA.cx + 20.0, CAMERA.cy, 1.0]) + way
    np.testing.assert_allclose(then / then[2], [CAMERA.cx + 16.0, CAMERA.cy, 1.0])


# ------------------------------------------------------------------------------------------------------------ motion


@pytest.fixture(scope="module")
def walk():
    return make_room_walk(60, width=320, height=240, random_state=0)


def smooth(walk, number):
    depth = smooth_depth(walk[number].depth, walk.camera)
    return depth, estimate_normals(depth, walk.camera, smoothing=None)


def test_the_motion_of_the_camera_is_found(walk):
    (last, _), (depth, normals) = smooth(walk, 14), smooth(walk, 15)
    found = estimated_motion(depth, normals, last, walk.camera, [None, np.eye(3)])
    truth = np.linalg.inv(walk.poses[15]) @ walk.poses[14]
    assert found.agreement > 0.9
    assert found.n_unseen_axes == 0
    assert Rotation.from_matrix(found.rotation @ truth[:3, :3].T).magnitude() < math.radians(0.1)
    np.testing.assert_allclose(found.way, truth[:3, 3], atol=0.01)


def a_floor(rng, camera):
    """Depth and normals of one plane, as a noisy sensor sees it: 2 m ahead, tilted by 40 degrees."""
    normal = np.array([0.0, -math.sin(0.7), -math.cos(0.7)])
    v, u = np.mgrid[: camera.height, : camera.width]
    rays = np.stack([(u - camera.cx) / camera.fx, (v - camera.cy) / camera.fy, np.ones(u.shape)], axis=2)
    inverse = rays @ normal / (normal @ [0.0, 0.0, 2.0]) + 0.004 * rng.standard_normal(u.shape)
    depth = smooth_depth(1.0 / inverse, camera)
    return depth, estimate_normals(depth, camera, smoothing=None), normal


def test_nothing_tells_of_a_turn_about_the_normal_of_one_plane(walk):
    camera, rng = walk.camera, np.random.default_rng(3)
    turn = last_depth = None
    for number in range(12):
        depth, normals, normal = a_floor(rng, camera)
        if number == 0:
            last_depth, turn = depth, Rotation.from_rotvec(0.1 * normal).as_matrix()
            continue
        found = estimated_motion(depth, normals, last_depth, camera, [turn])
        assert found.n_unseen_axes == 1
        last_depth, turn = depth, found.rotation
        # a search that went on from the last turn kept it for ever, and found more in noise
        assert Rotation.from_matrix(turn).magnitude() < math.radians(0.5), number
    given = Rotation.from_rotvec(0.1 * normal).as_matrix()
    held = estimated_motion(depth, normals, last_depth, camera, [given], given)
    assert held.n_unseen_axes == 1
    assert Rotation.from_matrix(held.rotation @ given.T).magnitude() < math.radians(0.5)


@pytest.mark.parametrize("vector", [[0.0, 0.0, 0.0], [1e-9, 0.0, 0.0], [0.3, -0.2, 0.9], [0.0, 3.1, 0.0]])
def test_a_turn_has_its_axis(vector):
    np.testing.assert_allclose(_axis(Rotation.from_rotvec(vector).as_matrix()), vector, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("length", [0.0, 1e-9, 1e-3, 1.0, 3.0])
def test_small_steps_turn_as_rotation_vectors_do(length):
    vector = length * np.array([0.48, -0.6, 0.64])
    np.testing.assert_allclose(_turned(vector), Rotation.from_rotvec(vector).as_matrix(), rtol=0.0, atol=1e-15)


def test_frames_of_different_scenes_do_not_agree(walk):
    (last, _), (depth, normals) = smooth(walk, 0), smooth(walk, 30)
    assert not estimated_motion(depth, normals, last, walk.camera, [np.eye(3)]).is_found
    assert estimated_motion(depth, normals, np.zeros_like(depth), walk.camera, [np.eye(3)]).agreement == 0.0


def test_tracking_is_lost_and_regained_and_ids_stay(walk):
    stream = DirectionSegmenter(camera=walk.camera)
    found = [stream.step(walk[number].depth) for number in (0, 1, 30, 31, 1)]
    assert [one.tracking for one in found[:4]] == ["first", "held", "lost", "regained"]
    both = (found[1].labels >= 0) & (found[4].labels >= 0)
    assert (found[1].labels == found[4].labels)[both].mean() > 0.9
    black = stream.step(np.zeros_like(walk[0].depth))
    assert (black.tracking, black.ids) == ("lost", ())


def test_a_steady_stream_flickers_less(walk):
    changes = {}
    for steadiness in (0.0, 0.25):
        stream = DirectionSegmenter(camera=walk.camera, steadiness=steadiness, min_region=0, stride=1)
        labels = [stream.step(walk[number].depth).labels for number in (0, 1, 2, 3)]  # the camera rests
        changes[steadiness] = np.mean([((a != b) & (a >= 0) & (b >= 0)).mean() for a, b in pairwise(labels)])
    assert changes[0.25] < 0.5 * changes[0.0]


def test_a_stream_goes_on_with_equal_bits(walk, tmp_path):
    whole, first = DirectionSegmenter(camera=walk.camera), DirectionSegmenter(camera=walk.camera)
    expected = [whole.step(walk[number].depth).labels for number in range(8, 16)]
    for number in range(8, 12):
        first.step(walk[number].depth)
    armillary.save(first.model, tmp_path / "model.safetensors")
    first.last.save(tmp_path / "last.npz")
    second = DirectionSegmenter(
        camera=walk.camera,
        model=armillary.load(tmp_path / "model.safetensors"),
        last=LastFrame.load(tmp_path / "last.npz"),
    )
    for number, labels in zip(range(12, 16), expected[4:], strict=True):
        found = second.step(walk[number].depth)
        np.testing.assert_array_equal(found.labels, labels)
        assert found.number == number - 8
    assert second.model.cluster_centers_.tobytes() == whole.model.cluster_centers_.tobytes()


def test_a_stream_that_was_lost_is_regained_after_it_was_saved(walk):
    stream = DirectionSegmenter(camera=walk.camera)
    assert [stream.step(walk[number].depth).tracking for number in (0, 30)] == ["first", "lost"]
    second = DirectionSegmenter(camera=walk.camera, model=stream.model, last=stream.last)
    assert second.step(walk[31].depth).tracking == "regained"


def test_threads_change_nothing(walk):
    streams = [DirectionSegmenter(camera=walk.camera, n_threads=n) for n in (1, 2)]
    for number in range(14, 17):
        one, two = (stream.step(walk[number].depth) for stream in streams)
        np.testing.assert_array_equal(one.labels, two.labels)


def test_a_last_frame_that_is_none_is_refused(tmp_path):
    with pytest.raises(ParameterError, match=r"`last` of DirectionSegmenter must be a LastFrame; got ndarray\."):
        DirectionSegmenter(last=np.zeros((2, 2)))
    (tmp_path / "no.npz").write_bytes(b"no")
    with pytest.raises(InputError, match=r"LastFrame\.load reads what LastFrame\.save wrote"):
        LastFrame.load(tmp_path / "no.npz")
    np.savez(tmp_path / "small.npz", labels=np.zeros((4, 4), int), depth=np.zeros((2, 2)), rotation=np.eye(3))
    with pytest.raises(InputError, match=r"'.*small\.npz' is none of these: `depth` of LastFrame must be metres"):
        LastFrame.load(tmp_path / "small.npz")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        # compiled code goes to pixels of the depth by those of the labels
        ((LABELS, DEPTH[:2]), "`depth` of LastFrame must be metres as float32 or float64, of the shape of its labels"),
        ((LABELS, DEPTH.astype(int)), "`depth` of LastFrame must be metres as float32"),
        ((LABELS.astype(float), DEPTH), "`labels` of LastFrame must be an image of integers"),
        ((np.full((4, 6), 1 << 40), DEPTH), "`labels` of LastFrame must be below 2\\^31"),
        ((LABELS, DEPTH, np.eye(2)), "`rotation` of LastFrame must be a rotation matrix"),
        ((LABELS, DEPTH, None, "gone"), "`tracking` of LastFrame must be one of 'first', 'held', 'lost', 'regained'"),
        ((LABELS, DEPTH, None, "held", -1), "`n_frames` of LastFrame must be an int >= 0"),
    ],
)
def test_what_a_frame_leaves_is_looked_at(fields, sentence):
    with pytest.raises(ArmillaryError, match=sentence):
        LastFrame(*fields)


def test_a_last_frame_is_that_of_its_model(walk):
    stream = DirectionSegmenter(camera=walk.camera)
    stream.step(walk[0].depth)
    most = stream.last.labels.max()
    with pytest.raises(ParameterError, match=f"`model`, which has given 0 ids; it has a label {most}"):
        DirectionSegmenter(camera=walk.camera, last=stream.last)


def test_normals_of_two_sizes_are_refused():
    with pytest.raises(InputError, match=r"Normals must be float vectors of shape \(H, W, 3\) and bools"):
        Normals(np.zeros((2, 2, 3), np.float32), np.ones((500, 500), bool))


# ------------------------------------------------------------------------------------------------- noise and reasons


def slanted(camera, far=3.0):
    u = np.arange(camera.width)
    return np.tile(1.0 / (1.0 / far + 2e-4 * (u - camera.cx)), (camera.height, 1))


def noise_of(depth, camera):
    with Workers(1) as workers:
        return Noise.of(inverse_depth(depth, camera, "test", workers))


def test_noise_is_measured_white_and_where_it_hangs_together():
    camera, rng = Camera.kinect(), np.random.default_rng(0)
    plain = noise_of(Sensor(0.002).measured(slanted(camera), rng), camera)
    assert plain.pixel == pytest.approx(0.002, rel=0.1)
    assert plain.white == pytest.approx(0.002, rel=0.1)
    blurred = noise_of(Sensor(0.002, blur=1.5).measured(slanted(camera), rng), camera)
    assert blurred.white > 2.5 * plain.white
    assert blurred.settings(camera.fx)[0] > plain.settings(camera.fx)[0] >= 4
    clean = noise_of(slanted(camera), camera)
    assert clean.settings(camera.fx)[:2] == (4, 0.003)
    nothing = noise_of(np.zeros((camera.height, camera.width)), camera)
    assert nothing.settings(camera.fx) == (4, 0.003, 0.0)


def test_a_step_of_a_few_deviations_is_not_bridged():
    """A cupboard before a wall, both far away: between them no slanted band, whose normals would face sideways."""
    camera, sensor = Camera.kinect(), Sensor(0.0025, blur=1.5)
    flat = np.full((camera.height, camera.width), 1.0 / 0.13)
    flat[:, 320:] = 1.0 / 0.1425
    normals = estimate_normals(sensor.measured(flat, np.random.default_rng(0)), camera)
    beside = normals.vectors[:, 280:360][normals.is_valid[:, 280:360]]
    assert (np.abs(beside[:, 0]) > math.sin(math.radians(20.0))).mean() < 0.02


def test_blocks_are_those_of_the_oracle():
    rng = np.random.default_rng(0)
    w = np.where(rng.random((50, 41)) < 0.99, rng.random((50, 41)), 0.0)
    found = np.empty((50 // 12, 41 // 6))
    depth_kernels.block_means(w, 6, found)
    np.testing.assert_allclose(found, reference.block_means(w, 6), rtol=1e-12)


def test_planes_seen_by_a_stereo_camera_have_one_id():
    walk = make_room_walk(90, noise=0.0, dtype="float64", depth_range=(0.0, 50.0), hole_fraction=0.0, random_state=0)
    sensor, stream, shares = Sensor.stereo(), DirectionSegmenter(camera=walk.camera), []
    for number in range(3):
        depth = sensor.measured(walk[number].depth, np.random.default_rng(number))
        labels = stream.step(depth).labels
        for name in ("floor", "ceiling"):
            plane = labels[(walk[number].plane_ids == walk.plane_names.index(name)) & (depth > 0.0)]
            shares.append(np.bincount(plane + 1)[1:].max() / len(plane))
    assert min(shares) > 0.95


def test_reasons_tell_why_a_pixel_has_no_label():
    camera = Camera(525.0, 525.0, 319.5, 239.5, 640, 480, sensor=Sensor(0.001, far=4.0))
    depth = np.full((480, 640), 2.0)
    depth[:, 400:] = 5.0
    depth[100:110, 100:110] = 0.0
    found = DirectionSegmenter(camera=camera).step(depth)
    reasons = found.reasons()
    assert reasons[105, 105] == Reason.NO_DEPTH
    assert reasons[105, 99] == Reason.EDGE
    assert reasons[240, 600] == Reason.RANGE
    assert reasons[240, 200] == Reason.LABELLED
    assert np.array_equal(reasons == 0, found.labels >= 0)
    stepped = Camera(525.0, 525.0, 319.5, 239.5, 640, 480, sensor=Sensor(0.0, quantum=0.02))
    assert DirectionSegmenter(camera=stepped).step(depth).reasons()[240, 600] == Reason.BANDING
    given = DirectionSegmenter().step(np.zeros((4, 5, 3)))
    assert (given.reasons() == Reason.NO_DEPTH).all()


def test_sizes_follow_the_image():
    assert [default_stride(w * h) for w, h in ((160, 120), (320, 240), (640, 480), (1280, 720))] == [1, 1, 3, 5]
    assert default_region(640 * 480) == 204


def test_sensors():
    assert Sensor.structured_light().deviation(2.0) == pytest.approx(0.004)
    depth = np.array([[0.0, 1.0, 20.0]])
    np.testing.assert_array_equal(Sensor(0.0).measured(depth, np.random.default_rng(0)), [[0.0, 1.0, 0.0]])
    with pytest.raises(ParameterError, match="`noise` of Sensor must be"):
        Sensor(-1.0)
