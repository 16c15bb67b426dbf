"""`armillary segment`: depth frames in, label images with stable ids out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from armillary.cli.options import Debug, Force, Json, Key, Quiet, Threads
from armillary.cli.screen import Screen

if TYPE_CHECKING:
    from armillary.vision import Camera

_CAMERA = "Camera"
_SEGMENTS = "Segments"
_OUTPUT = "Output"


def segment(
    depth: Annotated[
        list[Path],
        typer.Argument(
            metavar="DEPTH...",
            help="Folders of PNG files, lists like TUM's depth.txt, .npz or .npy files, or single images; in order.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="A new folder.", show_default=False)],
    camera: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="tum, tum:freiburg1 (or 2, 3), kinect, kinect_v2, azure, realsense_d415, realsense_d435, "
            "realsense_d455, iphone, tof; or a file: JSON (also Open3D, Record3D), ROS camera_info, ScanNet, TUM; "
            "FILE:NAME of several.",
            rich_help_panel=_CAMERA,
        ),
    ] = None,
    fx: Annotated[float | None, typer.Option(help="Focal length in pixels.", rich_help_panel=_CAMERA)] = None,
    fy: Annotated[float | None, typer.Option(help="Focal length in pixels.", rich_help_panel=_CAMERA)] = None,
    cx: Annotated[float | None, typer.Option(help="Principal point in pixels.", rich_help_panel=_CAMERA)] = None,
    cy: Annotated[float | None, typer.Option(help="Principal point in pixels.", rich_help_panel=_CAMERA)] = None,
    depth_scale: Annotated[
        float | None,
        typer.Option(
            help="What integer depth has for one metre: 1000 (millimetres) unless the camera says otherwise.",
            rich_help_panel=_CAMERA,
        ),
    ] = None,
    poses: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|FOLDER",
            help="Camera to world: TUM's groundtruth.txt, 4 x 4 matrices in a folder, one text file or .npy, or a "
            "trajectory of Open3D.",
            rich_help_panel=_CAMERA,
        ),
    ] = None,
    rgb: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER|LIST",
            help="Colour images registered to the frames, one for each or with times: labels are written over them.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    max_angle: Annotated[
        float,
        typer.Option(
            metavar="DEG", help="How far a normal may be from the direction of its segment.", rich_help_panel=_SEGMENTS
        ),
    ] = 70.0,
    method: Annotated[
        Literal["ddp", "sequential", "batch"],
        typer.Option(help="Ids that return; ids from frame to frame; each frame alone.", rich_help_panel=_SEGMENTS),
    ] = "ddp",
    smoothing: Annotated[
        Literal["guided", "bilateral", "total_variation", "none"],
        typer.Option(help="Of the depth, or (the next two) of the normals.", rich_help_panel=_SEGMENTS),
    ] = "guided",
    stride: Annotated[
        int | None,
        typer.Option(
            help="Learn from every so many pixels; all are labelled. About 40,000 are learnt from if not given.",
            rich_help_panel=_SEGMENTS,
        ),
    ] = None,
    min_region: Annotated[
        int | None,
        typer.Option(
            metavar="PIXELS",
            help="Smaller regions go to their surroundings; one in 1,500 of the image if not given, 0: none.",
            rich_help_panel=_SEGMENTS,
        ),
    ] = None,
    merge: Annotated[
        bool, typer.Option(help="Directions that grow together become one id (ddp).", rich_help_panel=_SEGMENTS)
    ] = True,
    steadiness: Annotated[
        float,
        typer.Option(
            metavar="COSINE",
            help="What a pixel must gain to leave the id of the last frame; 0: nothing (ddp).",
            rich_help_panel=_SEGMENTS,
        ),
    ] = 0.25,
    max_unseen: Annotated[
        float, typer.Option(metavar="FRAMES", help="Ids away for longer are forgotten.", rich_help_panel=_SEGMENTS)
    ] = 400,
    follow_turn: Annotated[
        bool,
        typer.Option(
            help="Estimate how the view turned, and turn what is out of sight with it (ddp).", rich_help_panel=_SEGMENTS
        ),
    ] = True,
    every: Annotated[int, typer.Option(help="Take every so many frames.", rich_help_panel=_SEGMENTS)] = 1,
    key: Key = None,
    animation: Annotated[
        Literal["auto", "gif", "mp4", "none"],
        typer.Option(
            help="Depth, normals and labels; auto: MP4 where ffmpeg is found, else GIF.", rich_help_panel=_OUTPUT
        ),
    ] = "auto",
    ply: Annotated[
        bool, typer.Option("--ply", help="Write coloured points of a few frames.", rich_help_panel=_OUTPUT)
    ] = False,
    ids: Annotated[
        bool, typer.Option("--ids", help="Write 16-bit images of id + 1 too, 0 for missing.", rich_help_panel=_OUTPUT)
    ] = False,
    threads: Threads = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Segment depth frames by the directions of surfaces; a wall that returns has the id it had.

    Writes OUT/labels/*.png as frames are done, and at the end legend.png, viewer.html (the stream to scrub through in a
    browser), ids_over_time.png, overview.png, an animation, planes.json (of a few frames), world.json (directions,
    Manhattan and Atlanta frames, gravity), summary.json and, with --method ddp, model.safetensors and last.npz. After
    an error the frames done before it are in OUT.
    """
    from armillary.cli.segment_output import Recording, follow
    from armillary.files.folders import held_folder
    from armillary.validation import check_integer
    from armillary.vision import DirectionSegmenter, open_frames

    who = "segment"
    screen = Screen(quiet=quiet, as_json=json)
    with screen.heard():
        whole = open_frames(*depth, key=key)
        frames = whole[:: check_integer(every, "--every", who, low=1)]
        first = frames[0]
        turns = None if poses is None else _turns(poses, whole, every)
        pictures = None if rgb is None else _pictures(rgb, whole)[::every]
        intrinsics = _camera(camera, {"fx": fx, "fy": fy, "cx": cx, "cy": cy}, depth_scale, first)
    if intrinsics is not None:
        intrinsics.check_depth(first, who)
    segmenter = DirectionSegmenter(
        _radians(max_angle),
        method=method,
        camera=intrinsics,
        smoothing=None if smoothing == "none" else smoothing,
        stride=stride,
        min_region=min_region,
        merge=merge,
        steadiness=steadiness,
        max_unseen_steps=max_unseen,
        follow_turn=follow_turn,
        n_threads=threads,
    )
    settings = {
        "max_angle_degrees": max_angle,
        "method": method,
        "smoothing": smoothing,
        "stride": stride,
        "min_region": min_region,
        "merge": merge,
        "steadiness": steadiness,
        "max_unseen_frames": max_unseen,
        "follow_turn": follow_turn,
        "every": every,
        "poses": None if poses is None else str(poses),
    }
    with held_folder(output) as place:
        recording = Recording(
            place,
            frames,
            intrinsics,
            settings,
            animation=animation,
            writes_ids=ids,
            force=force,
            pictures=pictures,
            writes_points=ply,
        )
        summary = follow(frames, segmenter, recording, screen, turns)
    screen.result(_told(summary, output))
    screen.data(summary)


def _told(summary: dict[str, Any], output: Path) -> str:
    """What was done, in a few lines."""
    from armillary.selection.counting import counted

    stages = ", ".join(f"{name} {value:.1f}" for name, value in summary["milliseconds_per_frame"].items())
    return (
        f"{counted(summary['n_frames'], 'frame')}, {counted(summary['n_ids'], 'id')}; "
        f"{summary['frames_per_second']:.1f} frames a second, "
        f"{summary['frames_per_second_with_files']:.1f} with reading and writing\n"
        f"milliseconds per frame: {stages}\n"
        f"labels, pictures and summary.json are in {output}"
    )


def _turns(poses: Path, frames: Any, every: int) -> list[Any]:
    """The turn of the view at each frame that is taken, from poses of all."""
    from armillary.exceptions import InputError
    from armillary.vision.pose_files import open_poses, turns_between

    found = open_poses(poses, frames.timestamps)
    if len(found) != len(frames):
        raise InputError(
            f"--poses must have one pose for each frame; '{poses}' has {len(found)}, and there are {len(frames)} "
            "frames. Give a list with timestamps, or as many matrices as frames."
        )
    return turns_between(found[::every])


def _pictures(place: Path, frames: Any) -> list[Path]:
    """The colour image of each frame: in natural order, or nearest in time where both have times."""
    import numpy as np

    from armillary.exceptions import InputError
    from armillary.vision.frames import natural_order, open_frames, times_of
    from armillary.vision.pose_files import nearest_in_time

    if place.suffix.lower() == ".txt":
        listed = open_frames(place)
        found, times = [Path(source) for source in listed.sources], list(listed.timestamps)
    else:
        endings = (".png", ".jpg", ".jpeg")
        found = [path for path in place.iterdir() if path.suffix.lower() in endings] if place.is_dir() else []
        found.sort(key=natural_order)
        times = times_of(found)
    if found and None not in times and None not in frames.timestamps:
        nearest, is_near = nearest_in_time(np.array(times), np.array(frames.timestamps))
        if is_near.all():
            return [found[number] for number in nearest]
        raise InputError(
            f"--rgb must have a colour image at the time of each frame; '{place}' has none for "
            f"{np.count_nonzero(~is_near)} of {len(frames)} frames. Give the images of the same recording."
        )
    if len(found) != len(frames):
        raise InputError(
            f"--rgb must be a folder with one PNG or JPEG for each frame; '{place}' has {len(found)}, and there are "
            f"{len(frames)} frames. Those of a list with timestamps, as TUM's rgb.txt, may be more."
        )
    return found


def _radians(degrees: float) -> float:
    from armillary.exceptions import ParameterError

    if 0.0 < degrees <= 180.0:
        return math.radians(degrees)
    raise ParameterError(f"--max-angle must be degrees in (0, 180]; got {degrees:g}.")


def _camera(
    named: str | None, numbers: dict[str, float | None], depth_scale: float | None, first: Any
) -> Camera | None:
    """The camera that the options describe; None for frames of normals, which need none."""
    from dataclasses import replace

    from armillary.exceptions import ParameterError
    from armillary.vision import Camera

    if first.ndim == 3:
        return None
    missing = [f"--{name}" for name, value in numbers.items() if value is None]
    if named is not None:
        if len(missing) < len(numbers):
            raise ParameterError("Give either --camera or --fx --fy --cx --cy, not both.")
        found = _named_camera(named, (first.shape[1], first.shape[0]))
    elif missing:
        raise ParameterError(
            f"Depth becomes normals by the camera's intrinsics; {', '.join(missing)} {'are' if missing[1:] else 'is'} "
            "missing. Give --fx --fy --cx --cy, or --camera tum, --camera kinect or a JSON file."
        )
    else:
        fx, fy, cx, cy = (float(value) for value in numbers.values() if value is not None)
        found = Camera(fx, fy, cx, cy, first.shape[1], first.shape[0])
    return found if depth_scale is None else replace(found, depth_scale=depth_scale)


def _named_camera(named: str, size: tuple[int, int]) -> Camera:
    from armillary.exceptions import ParameterError
    from armillary.vision import Camera
    from armillary.vision.camera import PRESETS

    name, _, sequence = named.partition(":")
    if named in PRESETS:
        return Camera.preset(named, size=size)
    if name == "tum":
        return _sized(Camera.tum(sequence or "default"), size)
    if Path(named).exists():
        return _sized(Camera.from_file(named, size=size), size, named)
    path, _, name = named.rpartition(":")
    if path and Path(path).exists():
        return _sized(Camera.from_file(path, name, size=size), size, named)
    raise ParameterError(
        f"--camera must be tum, a file, or one of {', '.join(PRESETS)}; got '{named}', and there is no such file."
    )


def _sized(camera: Camera, size: tuple[int, int], file: str | None = None) -> Camera:
    """A camera for smaller or larger images of the same shape; others are refused where depth is checked."""
    import warnings

    scaled = camera.scaled(size[0] / camera.width)
    if (camera.width, camera.height) == size or (scaled.width, scaled.height) != size:
        return camera
    if file is not None:
        warnings.warn(
            f"'{file}' is of images of {camera.width} x {camera.height}, frames are {size[0]} x {size[1]}: it was "
            "scaled. Give the intrinsics of the depth images if these are not scaled copies.",
            UserWarning,
            stacklevel=1,
        )
    return scaled
