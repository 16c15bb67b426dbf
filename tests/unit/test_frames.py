"""Recorded frames as a sequence: what is found, in which order, read when asked for, and the sentences."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from armillary.exceptions import InputError
from armillary.vision import frames, open_frames

GIVE = "Give a folder of PNG files, a list like depth.txt, a .npz or .npy file, or one image."


def write(path, value=0, size=(3, 4)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full(size, value, dtype=np.uint16)).save(path)
    return path


def values(sequence):
    return [int(frame.flat[0]) for frame in sequence]


# -------------------------------------------------------------------------------------------------- where frames are


def test_a_folder_is_read_in_natural_order(tmp_path):
    for number in (10, 9, 2, 100):
        write(tmp_path / f"frame{number}.png", number)
    (tmp_path / "notes.md").write_text("no frame")
    write(tmp_path / ".hidden.png", 7)
    found = open_frames(tmp_path)
    assert values(found) == [2, 9, 10, 100]
    assert found.names == ("frame2", "frame9", "frame10", "frame100")
    assert found.sources[0] == str(tmp_path / "frame2.png")
    assert found.timestamps == (None,) * 4


def test_of_a_folder_that_mixes_depth_with_colour_the_depth_is_taken(tmp_path):
    for number in range(2):
        write(tmp_path / f"frame-{number}.depth.png", number)
        write(tmp_path / f"frame-{number}.color.png", 9)
    assert values(open_frames(tmp_path)) == [0, 1]


def test_frames_are_a_sequence_read_when_asked_for(tmp_path):
    for number in range(5):
        write(tmp_path / f"{number}.png", number)
    found = open_frames(tmp_path)
    write(tmp_path / "3.png", 33)
    assert len(found) == 5
    assert int(found[3].flat[0]) == 33
    assert int(found[-1].flat[0]) == 4
    part = found[1:4]
    assert values(part) == [1, 2, 33]
    assert part.names == ("1", "2", "3")
    with pytest.raises(IndexError):
        found[5]


def test_a_list_of_tum_has_timestamps_and_paths_from_its_folder(tmp_path):
    write(tmp_path / "depth" / "b.png", 5)
    write(tmp_path / "depth" / "a.png", 6)
    lines = [
        "# depth maps",
        "# timestamp filename",
        "1305031453.374112 depth/b.png",
        "",
        "1305031453.404816 depth/a.png",
    ]
    (tmp_path / "depth.txt").write_text("\n".join(lines))
    for path in (tmp_path / "depth.txt", tmp_path):  # the folder's list, where it has no images itself
        found = open_frames(path)
        assert values(found) == [5, 6]
        assert found.timestamps == (1305031453.374112, 1305031453.404816)
        assert found.names == ("b", "a")
    (tmp_path / "plain.txt").write_text("depth/a.png  # a comment\n")
    assert values(open_frames(tmp_path / "plain.txt")) == [6]


def test_a_folder_depth_in_a_folder_is_found(tmp_path):
    write(tmp_path / "depth" / "1.png", 8)
    assert values(open_frames(tmp_path)) == [8]


def test_arrays_of_frames_and_single_frames(tmp_path):
    depth = np.arange(2 * 3 * 5, dtype=np.uint16).reshape(2, 3, 5)
    normals = np.zeros((3, 5, 3), dtype=np.float32)
    np.save(tmp_path / "many.npy", depth)
    np.save(tmp_path / "one.npy", depth[1])
    np.savez(tmp_path / "mixed.npz", yaw=np.zeros(2), depth=depth, normals=normals)
    np.savez_compressed(tmp_path / "single.npz", anything=depth, times=np.arange(2.0))
    many = open_frames(tmp_path / "many.npy")
    assert [np.array_equal(found, expected) for found, expected in zip(many, depth, strict=True)] == [True, True]
    assert many.names == ("many_00000", "many_00001")
    assert many.sources[1] == f"{tmp_path / 'many.npy'}[1]"
    assert np.array_equal(open_frames(tmp_path / "one.npy")[0], depth[1])
    assert np.array_equal(open_frames(tmp_path / "mixed.npz")[1], depth[1])
    assert open_frames(tmp_path / "mixed.npz", key="normals")[0].shape == (3, 5, 3)
    assert np.array_equal(open_frames(tmp_path / "single.npz")[0], depth[0])


def test_several_paths_are_one_sequence_with_names_of_its_own(tmp_path):
    first, second = write(tmp_path / "a" / "1.png", 1), write(tmp_path / "b" / "1.png", 2)
    found = open_frames(second, first.parent)
    assert values(found) == [2, 1]
    assert found.names == ("00000", "00001")


def test_a_folder_of_arrays(tmp_path):
    for number in (1, 2):
        np.save(tmp_path / f"{number}.npy", np.full((2, 3), number, dtype=np.uint16))
    assert values(open_frames(tmp_path)) == [1, 2]


def test_one_array_at_a_time_is_kept_in_memory(tmp_path, monkeypatch):
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", depth=np.ones((3, 2, 2), dtype=np.uint16))
    found = open_frames(tmp_path / "a.npz", tmp_path / "b.npz")
    read = []
    plain = frames._read_array
    monkeypatch.setattr(frames, "_read_array", lambda *place: read.append(place[0].name) or plain(*place))
    assert len(list(found)) == 6
    assert read == ["a.npz", "b.npz"]


# ------------------------------------------------------------------------------------------------------- sentences


def text(name, content):
    return lambda folder: (folder / name).write_text(content)


def array(name, **arrays):
    return lambda folder: np.savez(folder / name, **arrays)


def cut(name, keep):
    """An array file without its end."""

    def make(folder):
        path = folder / name
        values = np.random.default_rng(0).integers(0, 9000, (4, 20, 30), dtype=np.uint16)
        if name.endswith(".npz"):
            np.savez_compressed(path, depth=values)
        else:
            np.save(path, values)
        path.write_bytes(path.read_bytes()[:keep])

    return make


FRAMES_RULE = (
    "must be depth of shape (H, W) or (T, H, W), or float normals of shape (H, W, 3) or (T, H, W, 3), and not empty"
)


@pytest.mark.parametrize(
    ("make", "name", "sentence"),
    [
        (lambda folder: None, "depth.png", "'{}' is not there. " + GIVE),
        (text("depth.bag", ""), "depth.bag", "'{}' has an ending that is not known here, .bag. " + GIVE),
        (
            lambda folder: (folder / "empty").mkdir(),
            "empty",
            "'{}' has no frames: no image, no list depth.txt, no folder depth. " + GIVE,
        ),
        (
            text("depth.txt", "# nothing\n"),
            "depth.txt",
            "'{}' lists no frames. Give lines 'timestamp path', with paths relative to the list.",
        ),
        (
            text("depth.txt", "1.0 depth/1.png\n"),
            "depth.txt",
            "Line 1 of '{}' names '{folder}/depth/1.png', which is not there. Paths start at the list.",
        ),
        (
            text("depth.txt", "# x\nnow depth/1.png\n"),
            "depth.txt",
            "Line 2 of '{}' must be 'timestamp path' or 'path'; 'now' is no number. Write paths without spaces.",
        ),
        (
            text("depth.txt", "1.0 rgb/1.png 1.0 depth/1.png\n"),
            "depth.txt",
            ("Line 1 of '{}' must be 'timestamp path' or 'path'; it has 4 words. Give the list of depth images alone."),
        ),
        (
            text("depth.txt", "1.0 2.0\n"),
            "depth.txt",
            "Line 1 of '{}' must name an image (.png, .pgm, .tif, .tiff); got '2.0'. " + GIVE,
        ),
        (
            array("a.npz", one=np.zeros(3), two=np.zeros((2, 2)), three=np.zeros((2, 2))),
            "a.npz",
            (
                "'{}' must have one array that can be frames, depth (T, H, W) or normals (T, H, W, 3); it has 'one' "
                "float64 (3,), 'two' float64 (2, 2), 'three' float64 (2, 2). Name one as `key`."
            ),
        ),
        (
            lambda folder: np.save(folder / "a.npy", np.zeros((2, 0, 3))),
            "a.npy",
            f"'{{}}' {FRAMES_RULE}; got float64 of shape (2, 0, 3).",
        ),
        (
            lambda folder: np.save(folder / "a.npy", np.zeros((2, 3), dtype=complex)),
            "a.npy",
            f"'{{}}' {FRAMES_RULE}; got complex128 of shape (2, 3).",
        ),
        (
            cut("a.npz", 600),
            "a.npz",
            "'{}' is damaged, cut off or no NumPy file: File is not a zip file. Save it again.",
        ),
    ],
)
def test_sentences(tmp_path, make, name, sentence):
    make(tmp_path)
    with pytest.raises(InputError) as raised:
        open_frames(tmp_path / name)
    assert str(raised.value) == sentence.replace("{folder}", str(tmp_path)).format(tmp_path / name)


@pytest.mark.parametrize("keep", [0, 60, 2000])
def test_a_cut_off_npy_is_named(tmp_path, keep):
    cut("a.npy", keep)(tmp_path)
    with pytest.raises(InputError) as raised:
        open_frames(tmp_path / "a.npy")
    assert str(raised.value).startswith(f"'{tmp_path / 'a.npy'}' is damaged, cut off or no NumPy file: ")
    assert str(raised.value).endswith(". Save it again.")


def test_an_array_damaged_within_is_named_when_it_is_read(tmp_path):
    cut("a.npz", None)(tmp_path)
    path = tmp_path / "a.npz"
    content = bytearray(path.read_bytes())
    content[1500:1600] = bytes(100)
    path.write_bytes(content)
    found = open_frames(path)
    with pytest.raises(InputError) as raised:
        found[0]
    assert str(raised.value).startswith(f"'{path}' is damaged, cut off or no NumPy file: ")


def test_a_missing_key_is_told_with_those_that_are_there(tmp_path):
    np.savez(tmp_path / "a.npz", depth=np.zeros((2, 2)), pose=np.eye(4))
    with pytest.raises(InputError) as raised:
        open_frames(tmp_path / "a.npz", key="z")
    assert str(raised.value) == (
        f"'{tmp_path / 'a.npz'}' has no array 'z'; it has 'depth', 'pose'. Name one of them as `key`."
    )


def test_no_path_is_no_sequence():
    with pytest.raises(InputError) as raised:
        open_frames()
    assert str(raised.value) == f"open_frames needs at least one path; got none. {GIVE}"


def test_nothing_in_a_file_is_executed(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="damaged, cut off or no NumPy file"):
        open_frames(tmp_path / "a.npy")
