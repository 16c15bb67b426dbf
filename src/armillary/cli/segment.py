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
            help="tum, tum:freiburg1 (or 2, 3), kinect, or a JSON file with fx, fy, cx, cy, width and height.",
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
        int, typer.Option(help="Learn from every so many pixels; all are labelled.", rich_help_panel=_SEGMENTS)
    ] = 1,
    min_region: Annotated[
        int,
        typer.Option(
            metavar="PIXELS", help="Smaller regions go to their surroundings; 0: none.", rich_help_panel=_SEGMENTS
        ),
    ] = 0,
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

    Writes OUT/labels/*.png as frames are done, and at the end ids_over_time.png, overview.png, an animation,
    summary.json and, with --method ddp, model.safetensors. After an error the frames done before it are in OUT.
    """
    from armillary.cli.segment_output import Recording, follow
    from armillary.files.folders import held_folder
    from armillary.validation import check_integer
    from armillary.vision import DirectionSegmenter, open_frames

    who = "segment"
    frames = open_frames(*depth, key=key)[:: check_integer(every, "--every", who, low=1)]
    first = frames[0]
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
        "max_unseen_frames": max_unseen,
        "follow_turn": follow_turn,
        "every": every,
    }
    screen = Screen(quiet=quiet, as_json=json)
    with held_folder(output) as place:
        recording = Recording(place, frames, intrinsics, settings, animation=animation, writes_ids=ids, force=force)
        summary = follow(frames, segmenter, recording, screen)
    screen.result(_told(summary, output))
    screen.data(summary)


def _told(summary: dict[str, Any], output: Path) -> str:
    """What was done, in a few lines."""
    from armillary.models.counting import counted

    stages = ", ".join(f"{name} {value:.1f}" for name, value in summary["milliseconds_per_frame"].items())
    return (
        f"{counted(summary['n_frames'], 'frame')}, {counted(summary['n_ids'], 'id')}; "
        f"{summary['frames_per_second']:.1f} frames a second, "
        f"{summary['frames_per_second_with_files']:.1f} with reading and writing\n"
        f"milliseconds per frame: {stages}\n"
        f"labels, pictures and summary.json are in {output}"
    )


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
        found = _named_camera(named)
    elif missing:
        raise ParameterError(
            f"Depth becomes normals by the camera's intrinsics; {', '.join(missing)} {'are' if missing[1:] else 'is'} "
            "missing. Give --fx --fy --cx --cy, or --camera tum, --camera kinect or a JSON file."
        )
    else:
        fx, fy, cx, cy = (float(value) for value in numbers.values() if value is not None)
        found = Camera(fx, fy, cx, cy, first.shape[1], first.shape[0])
    return found if depth_scale is None else replace(found, depth_scale=depth_scale)


def _named_camera(named: str) -> Camera:
    from armillary.exceptions import ParameterError
    from armillary.vision import Camera

    name, _, sequence = named.partition(":")
    if name == "kinect" and not sequence:
        return Camera.kinect()
    if name == "tum":
        return Camera.tum(sequence or "default")
    if Path(named).exists():
        return Camera.from_file(named)
    raise ParameterError(f"--camera must be tum, kinect or a JSON file; got '{named}', and there is no such file.")
