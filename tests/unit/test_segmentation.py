"""Labels back to the image, and small regions cleaned: what is labelled, what is missing, and the sentences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import ndimage
from sklearn.cluster import KMeans
from sklearn.preprocessing import FunctionTransformer

from armillary import DDPvMFMeans, DPvMFMeans, SphericalKMeans
from armillary.exceptions import InputError, ParameterError
from armillary.vision import Camera, Normals, clean_regions, estimate_normals, make_room_walk, segment
from armillary.vision import segmentation as segmentation_module

WALL, FLOOR = [0.0, 0.0, -1.0], [0.0, -1.0, 0.0]


@pytest.fixture(scope="module")
def walk():
    return make_room_walk(2, width=96, height=72, noise=0.0, random_state=0)


def two_planes(height=8, width=6):
    """Normals of a wall above a floor; the first pixel is missing, and one is not finite."""
    image = np.empty((height, width, 3), dtype=np.float32)
    image[: height // 2], image[height // 2 :] = WALL, FLOOR
    image[0, 0] = 0.0
    image[-1, -1] = np.nan
    return image


# --------------------------------------------------------------------------------------------------------- segment


@pytest.mark.parametrize(
    "model",
    [
        DPvMFMeans(0.5),
        DDPvMFMeans(0.5, drift_concentration=10.0),
        SphericalKMeans(2, random_state=0),
        KMeans(2, n_init=1, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_any_model_labels_the_pixels_that_have_a_normal(model):
    labels = segment(two_planes(), model)
    assert labels.shape == (8, 6)
    assert labels.dtype == np.int32
    is_missing = np.zeros((8, 6), dtype=bool)
    is_missing[0, 0] = is_missing[-1, -1] = True
    assert np.array_equal(labels == -1, is_missing)
    wall, floor = labels[:4][labels[:4] >= 0], labels[4:][labels[4:] >= 0]
    assert len(set(wall.tolist())) == len(set(floor.tolist())) == 1
    assert wall[0] != floor[0]


def test_a_fitted_model_predicts_and_learns_nothing():
    model = DPvMFMeans(0.5).fit([WALL, FLOOR])
    before = model.cluster_centers_.copy()
    turned = two_planes() @ np.array([[1.0, 0.0, 0.0], [0.0, 0.96, 0.28], [0.0, -0.28, 0.96]], dtype=np.float32)
    labels = segment(turned, model)
    assert set(labels[:4].ravel().tolist()) == {-1, 0}
    assert set(labels[4:].ravel().tolist()) == {-1, 1}
    assert np.array_equal(model.cluster_centers_, before)


def test_depth_and_its_normals_give_the_same_labels(walk):
    depth, camera = walk[0].depth, walk.camera
    normals = estimate_normals(depth, camera, smoothing=None)
    expected = segment(normals, DPvMFMeans(math.radians(80.0)))
    found = segment(depth, DPvMFMeans(math.radians(80.0)), camera=camera, smoothing=None)
    assert np.array_equal(found, expected)
    assert np.array_equal(found >= 0, normals.is_valid)


@pytest.mark.parametrize("smoothing", [None, "guided", "bilateral", "total_variation"])
def test_normals_in_steps_are_those_of_one_call(walk, smoothing):
    depth, camera = walk[1].depth, walk.camera
    expected = estimate_normals(depth, camera, smoothing=smoothing)
    watch = segmentation_module.Stopwatch()
    found = segmentation_module.NormalEstimation.check("test", camera, smoothing, 9, 0.03, None).normals(depth, watch)
    assert np.array_equal(found.is_valid, expected.is_valid)
    # smoothed depth is rounded once on its way to the normals
    assert np.abs(found.vectors - expected.vectors).max() < (1e-4 if smoothing == "guided" else 1e-7)
    assert set(watch.milliseconds) == ({"normals"} if smoothing is None else {"smoothing", "normals"})


def test_labels_are_those_of_the_true_planes(walk):
    frame = walk[0]
    labels = segment(frame.depth, DPvMFMeans(math.radians(60.0)), camera=walk.camera, smoothing=None)
    # inside of surfaces, where no window of the normals sees two
    inner = ndimage.minimum_filter(frame.direction_ids, 9) == ndimage.maximum_filter(frame.direction_ids, 9)
    for direction in (walk.plane_direction_ids[walk.plane_names.index(name)] for name in ("floor", "wall ahead")):
        found = labels[inner & (frame.direction_ids == direction) & (labels >= 0)]
        assert len(found) > 200
        assert len(np.unique(found)) == 1


def test_given_normals_need_not_be_unit_nor_of_modest_size():
    image = two_planes().astype(np.float64)
    scaled = image * np.geomspace(1e-300, 1e300, 8)[:, None, None]
    assert np.array_equal(segment(scaled, DPvMFMeans(0.5)), segment(image, DPvMFMeans(0.5)))


def test_small_regions_are_cleaned_on_request():
    image = two_planes()
    image[2, 3] = FLOOR
    assert segment(image, DPvMFMeans(0.5))[2, 3] == 1
    assert segment(image, DPvMFMeans(0.5), min_region=2)[2, 3] == 0


def test_an_image_without_normals_is_black_for_a_fitted_model_and_an_error_for_another():
    nothing = Normals(np.zeros((3, 4, 3), dtype=np.float32), np.zeros((3, 4), dtype=bool))
    assert (segment(nothing, DPvMFMeans(0.5).fit([WALL])) == -1).all()
    with pytest.raises(InputError) as raised:
        segment(nothing, DPvMFMeans(0.5))
    assert str(raised.value) == (
        "segment fits DPvMFMeans to the image, which has no pixel with a normal. Check the depth and `max_depth_jump`, "
        "or give a model that is fitted."
    )


CAMERA = Camera(50.0, 50.0, 5.0, 4.0, 12, 10)


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        (
            {"image": np.ones((10, 12), np.uint16)},
            ParameterError,
            (
                "segment needs a camera for depth, an image of shape (10, 12); `camera` is None. Give Camera(fx, fy, "
                "cx, cy, width, height), or float normals of shape (H, W, 3)."
            ),
        ),
        (
            {"image": np.ones((10, 12), np.uint16), "camera": "tum"},
            ParameterError,
            (
                "`camera` of segment must be a Camera; got str. Make one: Camera(fx, fy, cx, cy, width, height), "
                "Camera.tum() or Camera.kinect()."
            ),
        ),
        (
            {"image": np.empty((0, 12)), "camera": CAMERA},
            InputError,
            "segment needs an image with pixels; got one of shape (0, 12).",
        ),
        (
            {"image": two_planes(), "min_region": -1},
            ParameterError,
            "`min_region` of segment must be an int >= 0; got -1. It is a number of pixels; 0 cleans nothing.",
        ),
        (
            {"image": two_planes(), "smoothing": "gauss"},
            ParameterError,
            (
                "`smoothing` of segment must be one of 'guided', 'bilateral', 'total_variation'; got 'gauss'. None "
                "smooths nothing."
            ),
        ),
        (
            {"image": two_planes(), "model": FunctionTransformer()},
            ParameterError,
            (
                "`model` of segment must be an estimator with `fit_predict`, or a fitted one with `predict`; got "
                "FunctionTransformer. Give e.g. armillary.DPvMFMeans(math.radians(80))."
            ),
        ),
    ],
)
def test_sentences(arguments, kind, sentence):
    with pytest.raises(kind) as raised:
        segment(**({"model": DPvMFMeans(0.5)} | arguments))
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    ("image", "part"),
    [
        (np.zeros((10, 12, 3), dtype=np.uint8), "must be one image of shape (height, width); got shape (10, 12, 3)"),
        (np.zeros((10, 12), dtype=bool), "got dtype bool"),
        (np.zeros((6, 8), dtype=np.uint16), "must have the size of its camera, 12 x 10; got 8 x 6"),
    ],
)
def test_wrong_depth_is_refused_by_the_camera(image, part):
    with pytest.raises(InputError, match="`depth` of segment") as raised:
        segment(image, DPvMFMeans(0.5), camera=CAMERA)
    assert part in str(raised.value)


# --------------------------------------------------------------------------------------------------- clean_regions


def test_a_small_region_takes_the_label_of_its_longest_border():
    image = np.zeros((6, 8), dtype=np.int32)
    image[:, 4:] = 1
    image[2:4, 3:5] = 7  # two columns: one in each half; its border is as long with both
    assert clean_regions(image, 5)[2:4, 3:5].tolist() == [[0, 0], [0, 0]]  # the smaller label
    image[2:4, 3:6] = 7
    assert clean_regions(image, 7)[2, 3:6].tolist() == [1, 1, 1]
    assert (clean_regions(image, 6) == image).all()  # six pixels are not fewer than six


def test_regions_hang_together_by_edges_and_not_by_corners():
    image = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    assert (clean_regions(image, 2) == 0).all()


def test_small_regions_among_missing_pixels_become_missing():
    image = np.full((5, 5), -1)
    image[2, 2] = 3
    assert (clean_regions(image, 2) == -1).all()
    assert (clean_regions(image, 1) == image).all()


def test_missing_pixels_stay_missing():
    image = np.zeros((5, 5), dtype=int)
    image[1, 1] = -1
    assert clean_regions(image, 4)[1, 1] == -1


def test_small_regions_behind_small_regions_are_reached_in_turn():
    image = np.array([[0, 0, 0, 0, 1, 2, 3, -1]])
    assert clean_regions(image, 2).tolist() == [[0, 0, 0, 0, 0, 0, 0, -1]]


def test_an_image_of_small_regions_alone_becomes_missing():
    image = np.arange(12).reshape(3, 4)
    assert (clean_regions(image, 2) == -1).all()


def by_hand(image, least):
    """The rule, one region at a time."""
    image = image.copy()
    kept = np.zeros(image.shape, dtype=bool)
    spots = []
    for label in np.unique(image[image >= 0]):
        found, n_found = ndimage.label(image == label)
        for number in range(1, n_found + 1):
            is_in = found == number
            if is_in.sum() >= least:
                kept |= is_in
            else:
                spots.append(is_in)
    while spots:
        taken = []
        for spot in spots:
            votes = {}
            for row, column in np.argwhere(spot):
                for r, c in ((row, column + 1), (row, column - 1), (row + 1, column), (row - 1, column)):
                    if 0 <= r < image.shape[0] and 0 <= c < image.shape[1] and kept[r, c] and not spot[r, c]:
                        votes[image[r, c]] = votes.get(image[r, c], 0) + 1
            if votes:
                taken.append((spot, min(votes, key=lambda label: (-votes[label], label))))
        if not taken:
            break
        for spot, label in taken:
            image[spot] = label
            kept |= spot
        spots = [spot for spot in spots if not any(spot is other for other, _ in taken)]
    for spot in spots:
        image[spot] = -1
    return image


@pytest.mark.parametrize("seed", range(6))
def test_regions_are_those_of_the_rule_one_by_one(seed):
    rng = np.random.default_rng(seed)
    coarse = rng.integers(-1, 4, (5, 6)).repeat(4, axis=0).repeat(4, axis=1)
    image = np.where(rng.random(coarse.shape) < 0.25, rng.integers(-1, 9, coarse.shape), coarse)
    for least in (2, 4, 9):
        cleaned = clean_regions(image, least)
        assert np.array_equal(cleaned, by_hand(image, least))
        assert ((cleaned == -1) | (image != -1)).all()


def test_labels_that_are_large_numbers_are_cleaned_alike():
    image = np.random.default_rng(8).choice([-1, 0, 1, 2, 5], p=[0.1, 0.3, 0.3, 0.2, 0.1], size=(40, 37))
    large = np.where(image >= 0, 400_000_000 * image + 7, -1)
    cleaned = clean_regions(image, 6)
    assert not np.array_equal(cleaned, image)
    assert np.array_equal(clean_regions(large, 6), np.where(cleaned >= 0, 400_000_000 * cleaned + 7, -1))


def test_an_empty_image_stays_empty():
    assert clean_regions(np.empty((0, 4), dtype=int), 3).shape == (0, 4)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (
            [[0.5]],
            (
                "`labels` of clean_regions must be an image of integers, shape (H, W); got float64 of shape (1, 1). "
                "Give what `segment` returns."
            ),
        ),
        ([[-2]], "`labels` of clean_regions must be -1 (missing) or more; got -2. Give missing pixels the label -1."),
    ],
)
def test_sentences_of_clean_regions(labels, sentence):
    with pytest.raises(InputError) as raised:
        clean_regions(labels, 2)
    assert str(raised.value) == sentence
