"""Image files: what is read and written, whole or not at all, and the sentences for what cannot be."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
from PIL import Image

from armillary.exceptions import InputError, MissingExtraError, ParameterError
from armillary.palette import PALETTE, color_bytes
from armillary.vision import (
    Animation,
    color_depth,
    color_labels,
    color_normals,
    images,
    read_depth_image,
    read_id_image,
    write_id_image,
    write_image,
    write_label_image,
)

LABELS = np.array([[0, 1, 2, -1], [11, 12, 13, 25], [-1, -1, 7, 3]])


def colors_in(path):
    with Image.open(path) as image:
        return np.array(image.convert("RGB"))


# --------------------------------------------------------------------------------------------------------- colours


def test_an_id_has_its_colour_in_every_frame_and_missing_pixels_are_black():
    colors = color_labels(LABELS)
    assert colors.shape == (3, 4, 3)
    assert colors.dtype == np.uint8
    assert tuple(colors[0, 3]) == (0, 0, 0)
    assert tuple(colors[1, 0]) == color_bytes(PALETTE[11])
    assert tuple(colors[1, 1]) == tuple(colors[0, 0]) == color_bytes(PALETTE[0])  # 12 comes round again
    assert all(any(color_bytes(color)) for color in PALETTE)  # no id is black


def test_normals_are_colours_by_coordinate():
    colors = color_normals(np.array([[[0, 0, -1], [1, 0, 0], [0, 0, 0], [np.nan, 0, 1]]], dtype=np.float32))
    assert colors[0].tolist() == [[128, 128, 0], [255, 128, 128], [0, 0, 0], [0, 0, 0]]


def test_near_is_light_far_is_dark_and_missing_is_black():
    depth = np.array([[0, 1000, 2000, 4000]], dtype=np.uint16)
    greys = color_depth(depth)[0]
    assert (greys == greys[:, :1]).all()
    assert greys[0, 0] == 0
    assert 255 > greys[1, 0] > greys[2, 0] > greys[3, 0] > 0
    metres = np.array([[np.nan, 1.0, 2.0, 4.0]])
    assert np.array_equal(color_depth(metres), color_depth(depth))
    assert not color_depth(np.zeros((2, 2))).any()
    assert color_depth(np.ones((2, 2))).all()  # a flat wall has a grey


@pytest.mark.parametrize(
    ("paint", "wrong", "sentence"),
    [
        (
            color_normals,
            np.zeros((2, 2)),
            (
                "`vectors` of color_normals must be floats of shape (H, W, 3); got float64 of shape (2, 2). Give "
                "`vectors` of what `estimate_normals` returns."
            ),
        ),
        (
            color_depth,
            np.zeros((2, 2, 3)),
            (
                "`depth` of color_depth must be numbers of shape (H, W); got float64 of shape (2, 2, 3). Give one "
                "depth image."
            ),
        ),
    ],
)
def test_sentences_about_colours(paint, wrong, sentence):
    with pytest.raises(InputError) as raised:
        paint(wrong)
    assert str(raised.value) == sentence


# ------------------------------------------------------------------------------------------------ writing and reading


def test_a_label_image_has_the_colours_of_its_labels(tmp_path):
    write_label_image(tmp_path / "labels.png", LABELS)
    assert np.array_equal(colors_in(tmp_path / "labels.png"), color_labels(LABELS))


def test_ids_come_back_from_their_image(tmp_path):
    labels = LABELS.copy()
    labels[0, 0] = 65_534
    write_id_image(tmp_path / "ids.png", labels)
    found = read_id_image(tmp_path / "ids.png")
    assert np.array_equal(found, labels)
    assert found.dtype == np.int32
    with Image.open(tmp_path / "ids.png") as image:  # as other programs see it
        assert np.array(image)[0].tolist() == [65_535, 2, 3, 0]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_depth_comes_back_as_it_was_written(tmp_path, dtype):
    depth = np.array([[0, 1, 200], [7, 9, np.iinfo(dtype).max]], dtype=dtype)
    Image.fromarray(depth).save(tmp_path / "depth.png")
    found = read_depth_image(tmp_path / "depth.png")
    assert np.array_equal(found, depth)
    assert found.dtype == np.uint16


def test_float_depth_is_read_from_tiff(tmp_path):
    depth = np.array([[0.0, 1.25], [2.5, 3.75]], dtype=np.float32)
    Image.fromarray(depth).save(tmp_path / "depth.tiff")
    found = read_depth_image(tmp_path / "depth.tiff")
    assert found.dtype == np.float32
    assert np.array_equal(found, depth)


def test_what_was_there_stays_until_the_new_file_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "labels.png"
    write_label_image(path, LABELS)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_label_image(path, np.zeros_like(LABELS))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["labels.png"]


def damaged(path):
    """A PNG of 16 bits, cut off in the middle."""
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 60_000, (40, 50), dtype=np.uint16)).save(path)
    path.write_bytes(path.read_bytes()[:1500])


def colour(path):
    write_image(path, np.zeros((4, 5, 3), dtype=np.uint8))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            damaged,
            "'{}' is damaged or cut off: image file is truncated (24 bytes not processed). Fetch or record it again.",
        ),
        (
            lambda path: path.write_bytes(b""),
            (
                "'{}' is not an image that can be read, or is cut off at its beginning. Give a PNG of one channel "
                "with 8 or 16 bits."
            ),
        ),
        (
            lambda path: path.write_text("depth"),
            (
                "'{}' is not an image that can be read, or is cut off at its beginning. Give a PNG of one channel "
                "with 8 or 16 bits."
            ),
        ),
        (
            colour,
            (
                "'{}' must be a depth image with one channel of 8 or 16 bits; it has colours (RGB). Give the depth "
                "image of the camera, not its colour image or a picture of the depth."
            ),
        ),
        (
            lambda path: write_label_image(path, LABELS),
            (
                "'{}' must be a depth image with one channel of 8 or 16 bits; it has a palette of colours. Give the "
                "depth image of the camera, not its colour image or a picture of the depth."
            ),
        ),
        (
            lambda path: Image.fromarray(np.zeros((4, 5), dtype=bool)).save(path),
            (
                "'{}' must be a depth image with one channel of 8 or 16 bits; it has one bit per pixel. Give the depth "
                "image of the camera, not its colour image or a picture of the depth."
            ),
        ),
        (lambda path: None, "'{}' is not there. Check the path."),
        (lambda path: path.mkdir(), "'{}' is a folder, and read_depth_image takes one image file."),
    ],
    ids=["truncated", "empty", "text", "colours", "palette", "bits", "absent", "folder"],
)
def test_sentences_about_files(tmp_path, make, sentence):
    path = tmp_path / "depth.png"
    make(path)
    with pytest.raises(InputError) as raised:
        read_depth_image(path)
    message = str(raised.value)
    if "truncated" in sentence:  # how many bytes are left is the library's affair
        start, end = sentence.format(path).split("image file")
        assert message.startswith(start)
        assert message.endswith(end.partition(")")[2])
    else:
        assert message == sentence.format(path)


def test_labels_that_do_not_fit_into_16_bits_are_refused(tmp_path):
    with pytest.raises(InputError) as raised:
        write_id_image(tmp_path / "ids.png", np.array([[65_535]]))
    assert str(raised.value) == (
        "`labels` of write_id_image must be below 65535 to fit into 16 bits; got 65535. Number them anew first."
    )


def test_without_pillow_the_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError) as raised:
        read_depth_image("depth.png")
    assert str(raised.value) == (
        "read_depth_image needs Pillow, which is not installed. Run: pip install 'armillary[vision]'"
    )


# ------------------------------------------------------------------------------------------------------- animations


def film_of(path, frames, **settings):
    with Animation(path, **settings) as film:
        for frame in frames:
            film.add(frame)


def moving(n_frames=5, size=(30, 41)):
    labels = np.zeros(size, dtype=int)
    labels[:, :10], labels[:5] = 1, -1
    return [color_labels(np.roll(labels, 3 * number, axis=1)) for number in range(n_frames)]


def test_a_gif_has_the_frames_with_the_exact_colours_of_ids(tmp_path):
    frames = moving()
    film_of(tmp_path / "film.gif", frames, frames_per_second=10)
    with Image.open(tmp_path / "film.gif") as image:
        assert image.n_frames == len(frames)
        assert image.info["duration"] == 100
        for number, frame in enumerate(frames):
            image.seek(number)
            assert np.array_equal(np.array(image.convert("RGB")), frame)


def test_all_colours_of_ids_are_in_the_palette_of_a_gif_and_others_are_near(tmp_path):
    every = color_labels(np.arange(-1, 12)[None])
    rng = np.random.default_rng(0)
    others = rng.integers(0, 256, (20, 13, 3), dtype=np.uint8)
    film_of(tmp_path / "film.gif", [np.concatenate([every, others])])
    found = colors_in(tmp_path / "film.gif")
    assert np.array_equal(found[:1], every)
    assert np.abs(found[1:].astype(int) - others).mean() < 6.0


def test_a_film_has_the_frames_before_an_error(tmp_path):
    frames = [*moving(3), np.zeros((2, 2, 3), dtype=np.uint8)]
    with pytest.raises(InputError, match="of one shape"):
        film_of(tmp_path / "film.gif", frames)
    with Image.open(tmp_path / "film.gif") as image:
        assert image.n_frames == 3
    with Animation(tmp_path / "none.gif"):
        pass
    assert not (tmp_path / "none.gif").exists()


@pytest.mark.skipif(not images.has_ffmpeg(), reason="ffmpeg is not found")
def test_an_mp4_is_written_where_ffmpeg_is_found(tmp_path):
    film_of(tmp_path / "film.mp4", moving())  # an odd width, which players do not take
    content = (tmp_path / "film.mp4").read_bytes()
    assert content[4:8] == b"ftyp"
    assert [file.name for file in tmp_path.iterdir()] == ["film.mp4"]


@pytest.mark.skipif(os.name != "posix", reason="a script stands in for ffmpeg")
def test_what_ffmpeg_says_is_told_and_no_file_is_left(tmp_path, monkeypatch):
    fake = tmp_path / "bin" / "ffmpeg"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'Unknown encoder' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=os.pathsep)
    with pytest.raises(InputError) as raised:
        film_of(tmp_path / "film.mp4", moving(40))
    assert str(raised.value) == (
        f"ffmpeg could not write '{tmp_path / 'film.mp4'}': Unknown encoder. Write a .gif instead."
    )
    assert [file.name for file in tmp_path.iterdir()] == ["bin"]


def test_sentences_about_animations(tmp_path, monkeypatch):
    with pytest.raises(InputError) as raised:
        Animation(tmp_path / "film.avi")
    assert str(raised.value) == f"`path` of Animation must end in .gif or .mp4; got '{tmp_path / 'film.avi'}'."
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError) as raised:
        Animation(tmp_path / "film.mp4")
    assert str(raised.value) == (
        f"An MP4 needs the program ffmpeg, which is not found; got '{tmp_path / 'film.mp4'}'. Write a .gif."
    )
    with pytest.raises(ParameterError, match=r"`frames_per_second` of Animation must be a number in \(0, inf\); got 0"):
        Animation(tmp_path / "film.gif", 0)
    with Animation(tmp_path / "film.gif") as film:
        film.add(np.zeros((2, 3, 3), dtype=np.uint8))
        with pytest.raises(InputError) as raised:
            film.add(np.zeros((2, 4, 3), dtype=np.uint8))
    assert str(raised.value) == (
        "Frames of an Animation must be uint8 of one shape (H, W, 3); got uint8 of shape (2, 4, 3) after (2, 3, 3). "
        "Scale them first."
    )
