"""`armillary segment`: what is in the folder at the end; for wrong input a sentence, and the frames done before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from PIL import Image

import armillary
from armillary.files.folders import held_folder
from armillary.vision import (
    DirectionColors,
    DirectionSegmenter,
    StreamViewer,
    WorldFrames,
    color_labels,
    images,
    make_room_walk,
    read_id_image,
)

N_FRAMES = 6


@pytest.fixture(scope="module")
def walk():
    return make_room_walk(N_FRAMES, width=64, height=48, random_state=0)


@pytest.fixture
def frames(tmp_path, walk):
    """A folder of depth images, and the camera beside it."""
    folder = tmp_path / "frames"
    folder.mkdir()
    for number, depth in enumerate(walk.depths):
        Image.fromarray(depth).save(folder / f"{number}.png")
    (tmp_path / "camera.json").write_text(json.dumps(walk.camera.to_dict()))
    return folder


@pytest.fixture
def segment(cli):
    """The command with GIFs, which need no other program."""
    return lambda *arguments: cli("segment", "--animation", "gif", *arguments)


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def label_names(folder):
    return sorted(path.name for path in (folder / "labels").iterdir())


# ---------------------------------------------------------------------------------------------------- what is written


def test_a_folder_of_frames_becomes_labels_pictures_and_a_summary(segment, frames, tmp_path, walk):
    done = segment(frames, "--camera", "camera.json", "-o", "out", "--ids")
    assert done.code == 0, done.err
    out = tmp_path / "out"
    expected = ["ids", "ids_over_time.png", "labels", "last.npz", "legend.png", "model.safetensors", "overview.gif"]
    expected += ["overview.png", "planes.json", "summary.json", "viewer.html", "world.json"]
    assert sorted(path.name for path in out.iterdir()) == expected
    assert label_names(out) == [f"{number}.png" for number in range(N_FRAMES)]

    segmenter, colors, world = DirectionSegmenter(camera=walk.camera), DirectionColors(), WorldFrames()
    for number, depth in enumerate(walk.depths):
        found = segmenter.step(depth)
        world.add(found)
        colors.add(found.ids, found.directions @ world.rotation.T)
        assert np.array_equal(read_id_image(out / "ids" / f"{number}.png"), found.labels)
        with Image.open(out / "labels" / f"{number}.png") as image:
            assert np.array_equal(np.array(image.convert("RGB")), color_labels(found.labels, colors.table))
        line = summary(out)["frames"][number]
        assert line["source"].endswith(f"{number}.png")
        assert (line["births"], line["revivals"]) == (list(found.births), list(found.revivals))
        assert [int(name) for name in line["shares"]] == list(found.ids)
        assert set(line["milliseconds"]) == {"smoothing", "normals", "clustering", "labels"}

    told = summary(out)
    assert (told["status"], told["error"], told["n_frames"]) == ("complete", None, N_FRAMES)
    assert told["camera"] == walk.camera.to_dict()
    assert told["n_ids"] == len(told["ids"])
    assert told["frames_per_second"] > 0.0
    with Image.open(out / "overview.gif") as film:
        assert film.n_frames == N_FRAMES
        assert film.size == (3 * 64 + 2 * 4, 48)
    assert armillary.load(out / "model.safetensors").n_steps_ == N_FRAMES
    assert f"{N_FRAMES} frames, {told['n_ids']} ids;" in done.out
    assert "smoothing" in done.out


def test_intrinsics_may_be_numbers_and_the_result_json(segment, frames, tmp_path, walk):
    camera = walk.camera
    numbers = [str(value) for name in ("fx", "fy", "cx", "cy") for value in (f"--{name}", getattr(camera, name))]
    done = segment(frames / "1.png", frames / "0.png", *numbers, "-o", "out", "--json")
    assert done.code == 0, done.err
    assert done.data["camera"] == camera.to_dict()
    assert done.data["n_frames"] == 2
    assert label_names(tmp_path / "out") == ["0.png", "1.png"]
    assert [line["name"] for line in summary(tmp_path / "out")["frames"]] == ["1", "0"]


def test_a_camera_by_name_has_the_size_of_the_frames_and_a_file_of_several_takes_a_name(
    segment, frames, tmp_path, walk
):
    done = segment(frames, "--camera", "kinect", "-o", "out")
    assert done.code == 0, done.err
    assert summary(tmp_path / "out")["camera"]["width"] == 64
    assert summary(tmp_path / "out")["camera"]["fx"] == pytest.approx(52.5)
    own = walk.camera.to_dict()
    (tmp_path / "several.json").write_text(json.dumps({"left": own, "right": own | {"fx": 99.0}}))
    done = segment(frames, "--camera", "several.json:right", "-o", "named")
    assert done.code == 0, done.err
    assert summary(tmp_path / "named")["camera"]["fx"] == 99.0
    refused = segment(frames, "--camera", "several.json", "-o", "none")
    assert refused.code == 2
    assert refused.sentence.endswith("it holds left, right. On the command line give --camera FILE:NAME.")


def test_normals_need_no_camera(segment, tmp_path):
    normals = np.zeros((3, 8, 10, 3), dtype=np.float32)
    normals[:, :4, :, 2] = normals[:, 4:, :, 1] = -1.0
    np.savez(tmp_path / "stream.npz", normals=normals)
    done = segment("stream.npz", "-o", "out", "--method", "sequential", "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert summary(tmp_path / "out")["n_ids"] == 2
    assert not (tmp_path / "out" / "model.safetensors").exists()
    assert label_names(tmp_path / "out") == [f"stream_{number:05}.png" for number in range(3)]


def test_a_list_like_that_of_tum_is_followed(segment, frames, tmp_path):
    lines = [f"{10 + number}.5 frames/{number}.png" for number in (4, 2)]
    (tmp_path / "depth.txt").write_text("# timestamp filename\n" + "\n".join(lines))
    done = segment("depth.txt", "--camera", "camera.json", "-o", "out")
    assert done.code == 0, done.err
    assert [line["timestamp"] for line in summary(tmp_path / "out")["frames"]] == [14.5, 12.5]


def test_every_so_many_frames_and_no_animation(cli, frames, tmp_path):
    done = cli("segment", frames, "--camera", "camera.json", "-o", "out", "--every", "4", "--animation", "none")
    assert done.code == 0, done.err
    assert label_names(tmp_path / "out") == ["0.png", "4.png"]
    assert not list((tmp_path / "out").glob("overview.[gm]*"))


@pytest.mark.skipif(not images.has_ffmpeg(), reason="ffmpeg is not found")
def test_where_ffmpeg_is_found_the_animation_is_an_mp4(cli, frames, tmp_path):
    done = cli("segment", frames, "--camera", "camera.json", "-o", "out", "--every", "3")
    assert done.code == 0, done.err
    assert (tmp_path / "out" / "overview.mp4").read_bytes()[4:8] == b"ftyp"


def test_settings_reach_the_segmenter(segment, frames, tmp_path):
    told = {}
    for name, options in {"plain": (), "cleaned": ("--min-region", "200"), "batch": ("--method", "batch")}.items():
        done = segment(frames, "--camera", "camera.json", "-o", name, "--ids", "--max-angle", "60", *options)
        assert done.code == 0, done.err
        told[name] = [read_id_image(path) for path in sorted((tmp_path / name / "ids").iterdir())]
    assert summary(tmp_path / "cleaned")["settings"]["min_region"] == 200
    assert any(not np.array_equal(*pair) for pair in zip(told["plain"], told["cleaned"], strict=True))
    assert max(int(labels.max()) for labels in told["batch"]) < max(int(labels.max()) for labels in told["plain"]) + 9


# ------------------------------------------------------------------------------------------------------- the folder


def test_a_folder_that_exists_is_refused_and_replaced_on_request(segment, frames, tmp_path):
    ordered = (frames / "0.png", "--camera", "camera.json", "-o", "out")
    assert segment(*ordered).code == 0
    again = segment(*ordered)
    assert again.code == 2
    assert again.sentence == (
        f"The output folder '{tmp_path / 'out'}' exists. Choose another with -o, or replace it with --force."
    )
    (tmp_path / "out" / "labels" / "old.png").write_bytes(b"")
    assert segment(*ordered, "--force").code == 0
    assert label_names(tmp_path / "out") == ["0.png"]


def test_two_runs_do_not_fill_one_folder(segment, frames, tmp_path):
    """A folder is held until its last frame, not only until it is there."""
    with held_folder(tmp_path / "out"):
        done = segment(frames, "--camera", "camera.json", "-o", "out", "--force")
    assert done.code == 2
    assert f"'{tmp_path / 'out'}' must not be used by two runs at once; process {os.getpid()} on " in done.sentence
    assert sorted(os.listdir(tmp_path)) == ["camera.json", "frames"]


def test_a_folder_of_others_is_not_replaced(segment, frames, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("words")
    done = segment(frames, "--camera", "camera.json", "-o", "mine", "--force")
    assert done.code == 2
    assert "--force replaces folders that armillary wrote" in done.sentence
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "words"


# -------------------------------------------------------------------------------------- wrong from the start: no folder


def colour(folder):
    Image.fromarray(np.zeros((48, 64, 3), dtype=np.uint8)).save(folder / "frames" / "0.png")


MISSING = (
    "Depth becomes normals by the camera's intrinsics; {} missing. Give --fx --fy --cx --cy, or --camera tum, --camera "
    "kinect or a JSON file."
)


@pytest.mark.parametrize(
    ("options", "change", "sentence"),
    [
        (("-o", "out"), None, MISSING.format("--fx, --fy, --cx, --cy are")),
        (("-o", "out", "--fx", "50", "--fy", "50", "--cx", "3"), None, MISSING.format("--cy is")),
        (
            ("-o", "out", "--camera", "camera.json", "--fx", "50"),
            None,
            "Give either --camera or --fx --fy --cx --cy, not both.",
        ),
        (
            ("-o", "out", "--camera", "leica"),
            None,
            (
                "--camera must be tum, a file, or one of kinect, kinect_v2, azure, realsense_d415, realsense_d435, "
                "realsense_d455, iphone, tof; got 'leica', and there is no such file."
            ),
        ),
        (
            ("-o", "out", "--camera", "kinect_v2"),
            None,
            (
                "Images of 'kinect_v2' are 512 x 424, or scaled copies of these; got 64 x 48. Give the intrinsics of "
                "yours: Camera(fx, fy, cx, cy, width, height), or a file of them."
            ),
        ),
        (
            ("-o", "out", "--camera", "camera.json", "--max-angle", "190"),
            None,
            "--max-angle must be degrees in (0, 180]; got 190.",
        ),
        (
            ("-o", "out", "--camera", "camera.json"),
            colour,
            (
                "'{frames}/0.png' must be a depth image with one channel of 8 or 16 bits; it has colours (RGB). Give "
                "the depth image of the camera, not its colour image or a picture of the depth."
            ),
        ),
    ],
)
def test_what_is_wrong_from_the_start_leaves_no_folder(segment, frames, tmp_path, options, change, sentence):
    if change is not None:
        change(tmp_path)
    done = segment(frames, *options)
    assert done.code == 2
    assert done.sentence == sentence.replace("{frames}", str(frames))
    assert not (tmp_path / "out").exists()
    assert done.out == ""


def test_frames_that_are_not_there(segment, frames, tmp_path):
    done = segment("nowhere", "--camera", "camera.json", "-o", "out")
    assert done.code == 2
    assert done.sentence.startswith("'nowhere' is not there. ")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(os.geteuid() == 0 if hasattr(os, "geteuid") else True, reason="root may write anywhere")
def test_a_place_without_permission(segment, frames, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    done = segment(frames, "--camera", "camera.json", "-o", "closed/out")
    assert done.code == 2
    assert "must allow a new folder" in done.sentence


# --------------------------------------------------------------------------- wrong on the way: the frames done are kept


def truncated(path):
    path.write_bytes(path.read_bytes()[:300])


def larger(path):
    Image.fromarray(np.full((50, 64), 900, dtype=np.uint16)).save(path)


def coloured(path):
    Image.fromarray(np.zeros((48, 64, 3), dtype=np.uint8)).save(path)


@pytest.mark.parametrize(
    ("damage", "parts"),
    [
        (truncated, ("'{}' is damaged or cut off: ", " Fetch or record it again.")),
        (
            larger,
            (
                "'{}': Frames of a DirectionSegmenter must keep their size; frame 3 has 64 x 50 pixels after 64 x 48.",
                " Scale it, or start a new DirectionSegmenter.",
            ),
        ),
        (coloured, ("'{}' must be a depth image with one channel of 8 or 16 bits; it has colours (RGB).",)),
        (lambda path: path.unlink(), ("'{}' is not there.",)),
    ],
    ids=["truncated", "another size", "colours", "removed"],
)
def test_the_frames_before_a_bad_one_are_on_disk(segment, frames, tmp_path, damage, parts, monkeypatch):
    bad = frames / "3.png"
    if damage.__name__ == "<lambda>":  # while the command runs: it lists the files first
        step = DirectionSegmenter.step

        def and_remove(self, *arguments, **settings):
            bad.unlink(missing_ok=True)
            return step(self, *arguments, **settings)

        monkeypatch.setattr(DirectionSegmenter, "step", and_remove)
    else:
        damage(bad)
    done = segment(frames, "--camera", "camera.json", "-o", "out")
    assert done.code == 2
    for part in parts:
        assert part.format(bad) in done.sentence
    assert done.sentence.endswith(" The frames done before, 3, are in 'out'.")
    out = tmp_path / "out"
    assert label_names(out) == ["0.png", "1.png", "2.png"]
    told = summary(out)
    assert (told["status"], told["n_frames"], told["n_frames_given"]) == ("failed", 3, N_FRAMES)
    assert parts[-1].format(bad).removeprefix(f"'{bad}': ") in told["error"]
    with Image.open(out / "overview.gif") as film:
        assert film.n_frames == 3
    assert {"ids_over_time.png", "overview.png", "model.safetensors"} <= {path.name for path in out.iterdir()}


def test_a_frame_without_measurements_is_black_and_told(segment, frames, tmp_path):
    Image.fromarray(np.zeros((48, 64), dtype=np.uint16)).save(frames / "2.png")
    done = segment(frames, "--camera", "camera.json", "-o", "out", "--ids")
    assert done.code == 0
    assert f"Note: '{frames / '2.png'}' has no pixel with a normal; its labels are all black." in done.err
    assert (read_id_image(tmp_path / "out" / "ids" / "2.png") == -1).all()
    assert summary(tmp_path / "out")["frames"][2]["valid_share"] == 0.0


def test_a_stream_without_any_measurement_is_an_error(segment, frames, tmp_path):
    for path in frames.iterdir():
        Image.fromarray(np.zeros((48, 64), dtype=np.uint16)).save(path)
    done = segment(frames, "--camera", "camera.json", "-o", "out")
    assert done.code == 2
    assert done.sentence == (
        f"No pixel of the {N_FRAMES} frames has a normal. Check that the files hold depth, and --depth-scale: what "
        "they have for one metre."
    )
    assert summary(tmp_path / "out")["status"] == "failed"


def test_a_full_disk_is_told_with_the_frames_that_are_there(segment, frames, tmp_path, monkeypatch):
    from armillary.cli import segment_output

    plain, calls = segment_output.write_label_image, []

    def sometimes(path, labels, table):
        calls.append(path)
        if len(calls) > 2:
            raise OSError(28, "No space left on device")
        plain(path, labels, table)

    monkeypatch.setattr(segment_output, "write_label_image", sometimes)
    done = segment(frames, "--camera", "camera.json", "-o", "out")
    assert done.code == 2
    assert done.sentence == (
        "A file could not be written: No space left on device. The frames done before, 2, are in 'out'."
    )
    assert label_names(tmp_path / "out") == ["0.png", "1.png"]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_run_broken_off_keeps_what_is_done(frames, tmp_path):
    many = tmp_path / "many.txt"
    many.write_text("\n".join(f"frames/{number % N_FRAMES}.png" for number in range(4000)))
    # a test run in the background of a shell has SIGINT ignored, and hands that down
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program += "from armillary.cli import main; main()"
    command = [sys.executable, "-c", program, "segment", str(many), "--camera"]
    command += [str(tmp_path / "camera.json"), "-o", str(tmp_path / "out"), "--animation", "none"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    # the first may be there before its frame is done, and a run without a whole frame leaves nothing
    while len(list((tmp_path / "out" / "labels").glob("*.png"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130, said
    assert "Traceback" not in said
    told = summary(tmp_path / "out")
    assert (told["status"], told["error"]) == ("failed", "broken off")
    assert f"Broken off. The frames done before, {told['n_frames']}, are in '{tmp_path / 'out'}'." in said
    assert 0 < told["n_frames"] == len(label_names(tmp_path / "out")) < 4000


def test_a_frame_broken_off_leaves_no_files(segment, frames, tmp_path, monkeypatch):
    add = StreamViewer.add

    def add_two(self, pixels, found, table, name):
        if found.number == 2:
            raise OSError(28, "No space left on device")
        add(self, pixels, found, table, name)

    monkeypatch.setattr(StreamViewer, "add", add_two)
    done = segment(frames, "--camera", "camera.json", "-o", "out", "--ids")
    assert "No space left on device. The frames done before, 2," in done.err
    assert summary(tmp_path / "out")["n_frames"] == 2
    assert [len(list((tmp_path / "out" / name).iterdir())) for name in ("labels", "ids")] == [2, 2]


def test_what_is_printed_is_what_is_in_the_files(segment, frames, tmp_path):
    done = segment(frames, "--camera", "camera.json", "-o", "out", "--ids")
    told = summary(tmp_path / "out")
    images_of_ids = [read_id_image(path) for path in sorted((tmp_path / "out" / "ids").iterdir())]
    found = set(np.unique(images_of_ids).tolist()) - {-1}
    assert f"{len(images_of_ids)} frames, {len(found)} ids; " in done.out
    assert (told["n_frames"], told["n_ids"]) == (len(images_of_ids), len(found))
    rate, with_files = told["frames_per_second"], told["frames_per_second_with_files"]
    assert f"{rate:.1f} frames a second, {with_files:.1f} with" in done.out


def test_poses_pictures_and_points(segment, frames, tmp_path, walk):
    (tmp_path / "rgb").mkdir()
    for number in range(N_FRAMES):
        Image.fromarray(np.full((48, 64, 3), 100, np.uint8)).save(tmp_path / "rgb" / f"{number}.png")
    np.save(tmp_path / "poses.npy", walk.poses.astype(np.float32))
    plain = ("--camera", "camera.json", "--poses", "poses.npy")
    done = segment(frames, *plain, "-o", "out", "--rgb", "rgb", "--ply", "--animation", "none")
    assert done.code == 0, done.err
    out = tmp_path / "out"
    assert len(list((out / "overlays").iterdir())) == N_FRAMES
    assert (out / "points" / "0.ply").read_bytes().startswith(b"ply\nformat binary_little_endian 1.0\n")
    assert set(json.loads((out / "world.json").read_text())) >= {"gravity", "manhattan", "atlanta"}
    assert summary(out)["settings"]["poses"].endswith("poses.npy")
    wrong = segment(frames, *plain, "-o", "two", "--rgb", "out")
    assert wrong.code == 2
    assert "--rgb must be a folder with one PNG or JPEG for each frame" in wrong.err


def test_a_recording_with_times_takes_poses_and_pictures_by_them(segment, tmp_path, walk):
    """TUM's folders: images are named by seconds, colour has other times and more images, poses have many more."""
    for name in ("depth", "rgb"):
        (tmp_path / name).mkdir()
    for number, depth in enumerate(walk.depths):
        Image.fromarray(depth).save(tmp_path / "depth" / f"{100 + number / 30:.6f}.png")
    for number in range(2 * N_FRAMES):
        shade = np.full((96, 128, 3), 10 * number, np.uint8)  # twice the size
        Image.fromarray(shade).save(tmp_path / "rgb" / f"{100.004 + number / 60:.6f}.png")
    lines = [f"{99.9 + k / 100:.4f} 0 0 0 0 0 0 1" for k in range(60)]
    (tmp_path / "groundtruth.txt").write_text("\n".join(lines))
    (tmp_path / "camera.json").write_text(json.dumps(walk.camera.to_dict()))
    plain = ("depth", "--camera", "camera.json", "--animation", "none", "--rgb", "rgb")
    done = segment(*plain, "--poses", "groundtruth.txt", "-o", "out")
    assert done.code == 0, done.err
    assert summary(tmp_path / "out")["frames"][1]["timestamp"] == pytest.approx(100.033333)
    for number, path in enumerate(sorted((tmp_path / "out" / "overlays").iterdir())):
        picture, labels = np.array(Image.open(path)), np.array(Image.open(tmp_path / "out" / "labels" / path.name))
        missing = ~labels.any(axis=2)
        assert picture.shape == (48, 64, 3)
        assert np.all(picture[missing] == 20 * number)
    for path in (tmp_path / "rgb").iterdir():
        path.rename(path.with_name(f"{float(path.stem) + 50:.6f}.png"))
    wrong = segment(*plain, "-o", "two")
    assert wrong.code == 2
    assert "'rgb' has none for 6 of 6 frames. Give the images of the same recording." in wrong.err


def test_frames_too_far_apart_are_told_of(segment, frames, tmp_path):
    far = make_room_walk(4, width=64, height=48, turn=2.8, random_state=0)
    np.savez(tmp_path / "far.npz", depth=np.stack([far[number].depth for number in (0, 2, 0, 2)]))
    done = segment(tmp_path / "far.npz", "--camera", "camera.json", "-o", "out", "--animation", "none")
    assert done.code == 0, done.err
    assert "tracking was lost at" in done.err
    assert "frames do not agree with the one before, and ids suffer" in done.err


def test_poses_that_do_not_fit_are_named_and_what_files_say_is_a_note(segment, tmp_path):
    far = make_room_walk(4, width=64, height=48, turn=2.8, random_state=0)
    np.savez(tmp_path / "far.npz", depth=np.stack([far[number].depth for number in (0, 2, 0, 2)]))
    camera = far.camera
    data = f"[{camera.fx}, 0, {camera.cx}, 0, {camera.fy}, {camera.cy}, 0, 0, 1]"
    (tmp_path / "camera.yaml").write_text(
        f"image_width: 64\nimage_height: 48\ncamera_matrix:\n  rows: 3\n  cols: 3\n  data: {data}\n"
        "distortion_model: plumb_bob\ndistortion_coefficients:\n  data: [0.1, -0.2, 0, 0, 0]\n"
    )
    (tmp_path / "poses").mkdir()
    for number in range(4):
        pose = np.eye(4)
        pose[0, 1] += 2e-4
        np.savetxt(tmp_path / "poses" / f"{number}.txt", pose)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        done = segment("far.npz", "--camera", "camera.yaml", "--poses", "poses", "-o", "out", "--animation", "none")
    assert done.code == 0, done.err
    assert "ids suffer. Check that --poses go from camera to world and belong to these frames" in done.err
    assert "Note: open_poses: rotations of 4 of 4 poses in 'poses' have few digits" in done.err
    assert "Note: Camera.from_file: camera.yaml tells of distortion, which is not undone here" in done.err
    assert [str(one.message) for one in caught if "UserWarning" in str(one.category)] == []
