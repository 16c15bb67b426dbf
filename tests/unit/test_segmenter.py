"""A stream of frames segmented: ids that last, what is told of each frame, and the sentences."""

from __future__ import annotations

import importlib.util
import io
import math
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy.spatial.transform import Rotation

import armillary
from armillary import DDPvMFMeans, DPvMFMeans
from armillary.datasets import make_vmf_mixture
from armillary.exceptions import InputError, ParameterError
from armillary.metrics import purity_score
from armillary.vision import DirectionSegmenter, Normals, estimate_normals, make_room_walk
from armillary.vision.tracking import DDPTracker, SequentialTracker, estimated_turn

METHODS = ("ddp", "sequential", "batch")
WALL, FLOOR, SIDE = [0.0, 0.0, -1.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]


def frame(*rows, width=6):
    """An image of normals, one direction for each line; None is missing."""
    return np.array([[row or [0.0, 0.0, 0.0]] * width for row in rows], dtype=np.float32)


def follow(frames, **settings):
    stream = DirectionSegmenter(**({"drift_concentration": 10.0} | settings))
    return stream, [stream.step(one) for one in frames]


# ------------------------------------------------------------------------------------------------- the room, walked


@pytest.fixture(scope="module")
def walk():
    """A turn by 90 degrees and back: the poses of the way back are those of the way there."""
    walk = make_room_walk(40, width=120, height=90, random_state=0)
    return [(estimate_normals(one.depth, walk.camera, smoothing=None), one.direction_ids) for one in walk]


def ids_and_truth(walk, method):
    stream = DirectionSegmenter(method=method)
    labels = np.stack([stream.step(normals).labels for normals, _ in walk])
    return labels, np.stack([truth for _, truth in walk])


def kept_on_the_way_back(labels):
    """Of the pixels labelled in a frame and in the one with the same pose later, the share with the same id."""
    there, back = labels[: len(labels) // 2], labels[::-1][: len(labels) // 2]
    both = (there >= 0) & (back >= 0)
    return float((there == back)[both].mean())


def test_ddp_returns_to_the_ids_it_had_and_sequential_makes_new_ones(walk):
    kept, purity = {}, {}
    for method in ("ddp", "sequential"):
        labels, truth = ids_and_truth(walk, method)
        kept[method] = kept_on_the_way_back(labels)
        is_known = (labels >= 0) & (truth >= 0)
        purity[method] = purity_score(labels[is_known], truth[is_known])  # of the ids that a direction has
    assert kept["ddp"] > 0.93
    assert kept["sequential"] < 0.85
    assert purity["ddp"] > 0.9 > purity["sequential"]


def test_batch_ids_mean_nothing_beyond_their_frame(walk):
    labels, _ = ids_and_truth(walk[:30], "batch")
    assert np.unique(labels).max() < 8
    assert kept_on_the_way_back(labels) < 0.8


# ----------------------------------------------------------------------------------------------- what a step returns


def test_a_frame_is_described():
    first = frame(WALL, WALL, FLOOR, None)
    _, (found, away, back) = follow([first, frame(WALL, WALL, WALL, WALL), first])
    assert found.labels.tolist() == [[0] * 6, [0] * 6, [1] * 6, [-1] * 6]
    assert found.labels.dtype == np.int32
    assert found.ids == (0, 1)
    assert found.shares == {0: pytest.approx(2 / 3), 1: pytest.approx(1 / 3)}
    assert np.allclose(found.directions, [WALL, FLOOR])
    assert found.valid_share == 0.75
    assert (found.number, found.births, found.revivals, found.deaths) == (0, (0, 1), (), ())
    assert (away.number, away.ids, away.births, away.revivals) == (1, (0,), (), ())
    assert (back.ids, back.births, back.revivals) == ((0, 1), (), (1,))
    assert all(milliseconds >= 0.0 for milliseconds in found.milliseconds.values())
    assert set(found.milliseconds) == {"clustering", "labels"}


def test_depth_is_timed_by_stage():
    walk = make_room_walk(1, width=64, height=48, random_state=0)
    found = DirectionSegmenter(camera=walk.camera).step(walk[0].depth)
    assert list(found.milliseconds) == ["smoothing", "normals", "clustering", "labels"]
    plain = DirectionSegmenter(camera=walk.camera, min_region=0, steadiness=0.0).step(walk[0].depth)
    assert np.array_equal(plain.labels >= 0, found.normals.is_valid)
    assert not ((found.labels >= 0) & ~found.normals.is_valid)[1:-1, 1:-1].any()  # the border is that of planes


def test_history_has_the_shares_of_each_frame_and_forgets_the_oldest():
    stream, found = follow([frame(WALL, FLOOR), frame(WALL, WALL), frame(FLOOR, WALL)], max_history=2)
    assert list(stream.history) == [found[1].shares, found[2].shares]
    assert stream.n_frames == 3


def test_sequential_forgets_what_it_does_not_see():
    both, one = frame(WALL, FLOOR), frame(WALL, WALL)
    _, (first, away, back) = follow([both, one, both], method="sequential")
    assert first.ids == (0, 1)
    assert first.births == (0, 1)
    assert (away.ids, away.deaths) == ((0,), (1,))
    assert (back.ids, back.births, back.revivals) == ((0, 2), (2,), ())


def test_an_id_is_forgotten_after_max_unseen_steps():
    both, one = frame(WALL, FLOOR), frame(WALL, WALL)
    _, found = follow([both, one, one, one, both], max_unseen_steps=3)
    assert [step.deaths for step in found] == [(), (), (), (1,), ()]
    assert found[-1].births == (2,)


@pytest.mark.parametrize("method", METHODS)
def test_a_frame_without_a_valid_pixel_is_black_and_no_error(method):
    both, nothing = frame(WALL, FLOOR), frame(None, None)
    _, found = follow([nothing, both, nothing, both], method=method)
    for step in (found[0], found[2]):
        assert (step.labels == -1).all()
        assert (step.ids, dict(step.shares), step.valid_share) == ((), {}, 0.0)
        assert step.directions.shape == (0, 3)
    assert found[1].ids == (0, 1)
    assert found[3].ids == {"ddp": (0, 1), "sequential": (2, 3), "batch": (0, 1)}[method]


@pytest.mark.parametrize("method", METHODS)
def test_a_stride_learns_from_fewer_pixels_and_labels_all(method):
    image = frame(*[WALL] * 9, *[FLOOR] * 7, None, *[SIDE] * 7, width=20)
    image[3, 5] = FLOOR  # not among the pixels of the stride
    _, (every,) = follow([image], method=method)
    stream, (third,) = follow([image], method=method, stride=3)
    assert np.array_equal(third.labels, every.labels)
    n_learnt = {
        "ddp": lambda model: len(model.labels_),
        "sequential": lambda model: model.counts_.sum(),
        "batch": lambda model: model.counts_.sum(),
    }[method](stream.model)
    assert n_learnt == 8 * 7  # of 24 lines and 20 columns every third; the missing line is between


def test_pixels_beside_a_stride_without_any_are_missing():
    image = frame(None, WALL, None, WALL)
    for method in METHODS:
        _, (found,) = follow([image], method=method, stride=2)
        assert (found.labels == -1).all()
        assert found.valid_share == 0.5


def test_small_regions_are_cleaned_on_request():
    image = frame(*[WALL] * 6, *[FLOOR] * 6)
    image[2, 2] = FLOOR
    assert follow([image])[1][0].labels[2, 2] == 1
    _, (found,) = follow([image], min_region=2)
    assert found.labels[2, 2] == 0
    assert found.shares == {0: 0.5, 1: 0.5}


def test_memory_is_weighed_by_the_number_of_pixels_learnt():
    image = frame(*[WALL] * 30, width=40)
    for stride, expected in ((1, 400.0), (2, 100.0)):
        for follow_turn, firmness in ((False, 1.0), (True, 100.0)):
            stream = DirectionSegmenter(stride=stride, follow_turn=follow_turn)
            stream.step(image)
            assert stream.model.drift_concentration == pytest.approx(firmness * expected)
    assert follow([image], drift_concentration=7.0)[0].model.drift_concentration == 7.0


def test_a_known_rotation_is_handed_to_the_tracks():
    # by 85 degrees about x, wall becomes floor; without the rotation it keeps the wall's place
    angle = math.radians(85.0)
    turn = np.array([[1, 0, 0], [0, math.cos(angle), -math.sin(angle)], [0, math.sin(angle), math.cos(angle)]])
    before = frame(WALL, FLOOR)
    after = (before @ turn.T).astype(np.float32)
    for rotation, expected in ((turn, before), (None, None)):
        stream = DirectionSegmenter(0.6, drift_concentration=1e3)
        first = stream.step(before)
        second = stream.step(after, rotation=rotation)
        assert np.array_equal(first.labels, second.labels) is (expected is not None)


def test_a_stream_saved_and_loaded_goes_on_with_equal_bits(tmp_path, walk):
    frames = [normals for normals, _ in walk[:12]]
    whole = DirectionSegmenter()
    expected = [whole.step(one).labels for one in frames]
    first = DirectionSegmenter()
    for one in frames[:6]:
        first.step(one)
    armillary.save(first.model, tmp_path / "stream.safetensors")
    second = DirectionSegmenter(model=armillary.load(tmp_path / "stream.safetensors"))
    for one, labels in zip(frames[6:], expected[6:], strict=True):
        assert np.array_equal(second.step(one).labels, labels)
    assert np.array_equal(second.model.cluster_centers_, whole.model.cluster_centers_)


def test_results_do_not_depend_on_the_number_of_threads(walk):
    one, two = (follow([normals for normals, _ in walk[:5]], n_threads=n)[1] for n in (1, 2))
    assert all(np.array_equal(a.labels, b.labels) for a, b in zip(one, two, strict=True))


# --------------------------------------------------------------------------------------------------------- sentences


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"max_angle": 80},
            (
                "`max_angle` of DirectionSegmenter must be a number in (0, pi]; got 80. Angles are in radians: "
                "math.radians(80) is 1.396."
            ),
        ),
        (
            {"method": "kmeans"},
            "`method` of DirectionSegmenter must be one of 'ddp', 'sequential', 'batch'; got 'kmeans'.",
        ),
        ({"stride": 0}, "`stride` of DirectionSegmenter must be an int >= 1; got 0."),
        ({"min_region": 2.5}, "`min_region` of DirectionSegmenter must be an int >= 0; got 2.5. 0 cleans nothing."),
        (
            {"drift_concentration": 0},
            (
                "`drift_concentration` of DirectionSegmenter must be a number in (0, inf]; got 0. None follows the "
                "size of frames."
            ),
        ),
        ({"max_unseen_steps": 0}, "`max_unseen_steps` of DirectionSegmenter must be a number in [1, inf]; got 0."),
        (
            {"smoothing": "median"},
            (
                "`smoothing` of DirectionSegmenter must be one of 'guided', 'bilateral', 'total_variation'; got "
                "'median'. None smooths nothing."
            ),
        ),
        (
            {"model": DPvMFMeans()},
            (
                "`model` of DirectionSegmenter must be a DDPvMFMeans, and `method` 'ddp'; got DPvMFMeans and 'ddp'. "
                "Other methods remember nothing that a model could hold."
            ),
        ),
        (
            {"model": DDPvMFMeans(), "method": "batch"},
            (
                "`model` of DirectionSegmenter must be a DDPvMFMeans, and `method` 'ddp'; got DDPvMFMeans and "
                "'batch'. Other methods remember nothing that a model could hold."
            ),
        ),
    ],
)
def test_sentences_about_parameters(arguments, sentence):
    with pytest.raises(ParameterError) as raised:
        DirectionSegmenter(**arguments)
    assert str(raised.value) == sentence


def test_a_frame_of_another_size_is_refused_and_leaves_the_stream_as_it_was():
    stream, (first,) = follow([frame(WALL, FLOOR)])
    with pytest.raises(InputError) as raised:
        stream.step(frame(WALL, FLOOR, SIDE))
    assert str(raised.value) == (
        "Frames of a DirectionSegmenter must keep their size; frame 1 has 6 x 3 pixels after 6 x 2. Scale it, or start "
        "a new DirectionSegmenter."
    )
    assert (stream.n_frames, len(stream.history), stream.model.n_steps_) == (1, 1, 1)
    again = stream.step(frame(WALL, FLOOR))
    assert np.array_equal(again.labels, first.labels)


def test_depth_without_a_camera_is_refused():
    with pytest.raises(ParameterError) as raised:
        DirectionSegmenter().step(np.ones((4, 5), dtype=np.uint16))
    assert str(raised.value) == (
        "DirectionSegmenter needs a camera for depth, an image of shape (4, 5); `camera` is None. Give Camera(fx, fy, "
        "cx, cy, width, height), or float normals of shape (H, W, 3)."
    )


# ---------------------------------------------------------------------------------------------------------- tracking


def test_a_cluster_that_is_dropped_while_another_is_born_takes_no_id_along():
    """The number of clusters stays, and every place behind the one dropped is another cluster's."""
    rows, labels, _ = make_vmf_mixture(900, 3, 4, concentration=400.0, min_angle=1.0, random_state=0)
    tracker = SequentialTracker(DPvMFMeans(0.5))
    frames = [np.flatnonzero(labels != 3), np.flatnonzero(labels != 0), np.arange(len(rows))]
    main = []
    for chosen in frames:
        ids = tracker.step(rows[chosen])
        main.append({k: int(np.bincount(ids[labels[chosen] == k]).argmax()) for k in np.unique(labels[chosen])})
    assert sorted(main[0].values()) == [0, 1, 2]
    assert main[1] == {1: main[0][1], 2: main[0][2], 3: 3}
    assert main[2] == main[1] | {0: 4}
    assert np.array_equal(tracker.name(rows), tracker.step(rows))
    ids, directions = tracker.clusters()
    assert (np.diff(ids) > 0).all()
    assert np.array_equal(tracker.name(directions), ids)


def test_ids_of_more_rows_are_those_of_the_nearest_cluster_of_the_frame():
    rows, labels, _ = make_vmf_mixture(600, 3, 3, concentration=400.0, min_angle=1.0, random_state=0)
    tracker = DDPTracker(DDPvMFMeans(0.5, drift_concentration=100.0))
    first = tracker.step(rows)
    tracker.step(rows[labels != 1])
    # the rows of the cluster that is away go to one of those in the frame
    assert set(tracker.name(rows).tolist()) == set(first[labels != 1].tolist())


def turn_about(axis, degrees):
    return Rotation.from_rotvec(math.radians(degrees) * np.array(axis)).as_matrix()


@pytest.mark.parametrize(("axis", "degrees"), [([0, 1, 0], 12.0), ([1, 0, 0], -7.0), ([0, 0, 1], 20.0), ([0, 1, 0], 0)])
def test_the_turn_of_the_view_is_estimated_from_what_is_in_sight(axis, degrees):
    rows, _, drawn = make_vmf_mixture(3000, 3, 4, concentration=400.0, min_angle=1.2, random_state=0)
    turn = turn_about(axis, degrees)
    found = estimated_turn(drawn.directions, (rows @ turn.T).astype(np.float32))
    error = Rotation.from_matrix(found @ turn.T).magnitude()
    # the mean of 750 rows of concentration 400 is off by about 1/sqrt(750 * 400) in each of two axes
    assert error < 0.01


def test_a_single_direction_turns_by_the_least_that_will_do():
    rows = np.tile(np.float32([math.sin(0.3), 0.0, math.cos(0.3)]), (50, 1))
    assert np.allclose(estimated_turn(np.array([[0.0, 0.0, 1.0]]), rows), turn_about([0, 1, 0], math.degrees(0.3)))


def test_another_scene_turns_nothing():
    rows = np.tile(np.float32([1.0, 0.0, 0.0]), (50, 1))
    assert np.array_equal(estimated_turn(np.array([[0.0, 0.0, 1.0]]), rows), np.eye(3))


def test_what_is_nearly_out_of_sight_turns_with_the_rest():
    """A wall of which a few normals are left while the view turns by 100 degrees has its id when it is seen again."""
    rng = np.random.default_rng(0)
    walls = np.array([[0.0, 0.0, -1.0], [1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 1.0, 0.0]])
    yaws = [*range(0, 101, 4), 100, 100]
    counts = np.array([[4 if 20 < yaw < 100 else 400, 400, 400, 400] for yaw in yaws])
    kept = {}
    for follows in (True, False):
        tracker = DDPTracker(DDPvMFMeans(1.2, drift_concentration=5000.0), follows_turn=follows)
        ids = []
        for yaw, sizes in zip(yaws, counts, strict=True):
            directions = np.repeat(walls @ turn_about([0, 1, 0], yaw).T, sizes, axis=0)
            rows = directions + 0.05 * rng.standard_normal(directions.shape)
            found = tracker.step(rows / np.linalg.norm(rows, axis=1, keepdims=True))
            ids.append(int(np.bincount(found[: sizes[0]]).argmax()))
        kept[follows] = ids[0] == ids[-1]
    assert kept == {True: True, False: False}


def test_the_rotation_of_each_frame_is_told():
    given = turn_about([0, 1, 0], 5.0)
    stream = DirectionSegmenter(drift_concentration=10.0)
    image = frame(WALL, FLOOR, SIDE)
    assert stream.step(image).rotation is None
    assert np.allclose(stream.step((image @ given.T).astype(np.float32)).rotation, given, atol=1e-6)
    assert np.array_equal(stream.step(image, rotation=given.T).rotation, given.T)
    for settings in ({"method": "sequential"}, {"follow_turn": False}):
        assert [step.rotation for step in follow([image, image], **settings)[1]] == [None, None]


def test_a_normals_object_is_taken_as_it_is():
    image = frame(WALL, FLOOR)
    normals = Normals(image, np.array([[True] * 6, [True] * 5 + [False]]))
    assert DirectionSegmenter().step(normals).labels[1].tolist() == [1] * 5 + [-1]


def test_the_room_of_the_demo_is_walked(tmp_path):
    spec = importlib.util.spec_from_file_location("room_example", Path(__file__).parents[2] / "examples" / "room.py")
    room = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(room)
    console = Console(file=io.StringIO(), width=120)
    room.show(tmp_path, console, n_frames=10, width=64)
    assert {path.name for path in tmp_path.iterdir()} == set(room.PICTURES)
    printed = console.file.getvalue()
    for words in ("id purity", "same id on the way back", "frames/s", "smoothing", "DP-vMF-means, sequential"):
        assert words in printed


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, ">f4"])
def test_normals_of_other_floats_are_labelled(dtype):
    vectors = np.tile(np.array([0.0, 0.0, -1.0], dtype), (8, 9, 1))
    found = DirectionSegmenter(stride=2).step(Normals(vectors, np.ones((8, 9), bool)))
    assert found.normals.vectors.dtype == np.float32
    assert found.ids == (0,)


def test_given_normals_that_a_mask_hides_are_missing():
    vectors = np.ma.array(np.tile([0.0, 0.0, -1.0], (8, 9, 1)), mask=False)
    vectors[2:4, 3:5] = np.ma.masked
    assert (DirectionSegmenter(min_region=0).step(vectors).labels < 0).sum() == 4
