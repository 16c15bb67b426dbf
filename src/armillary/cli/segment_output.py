"""What `armillary segment` leaves in its folder: label images as frames are done, pictures and a summary at the end."""

from __future__ import annotations

import glob
import json
import shutil
import statistics
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from armillary import __version__
from armillary.cli.screen import Screen
from armillary.durable.whole import whole_file
from armillary.exceptions import ArmillaryError, InputError
from armillary.files.folders import SUMMARY, FolderPlace
from armillary.models.means.ddp_vmf_means import DDPvMFMeans
from armillary.persistence.archive import save
from armillary.vision.camera import Camera
from armillary.vision.coloring import Colors, DirectionColors, color_depth, color_labels, color_normals, overlay
from armillary.vision.exports import colored_points, write_ply
from armillary.vision.frames import Frames
from armillary.vision.images import (
    Animation,
    has_ffmpeg,
    legend_image,
    read_color_image,
    write_id_image,
    write_image,
    write_label_image,
)
from armillary.vision.planes import WorldFrames, find_planes
from armillary.vision.segmenter import DirectionSegmenter, SegmentedFrame
from armillary.vision.viewer import StreamViewer

_PANEL_WIDTH = 320  # pixels, of one picture in the animation
_MOST_ANIMATED = 300  # frames; of longer streams evenly spaced ones
_MOST_SHOWN = 8  # frames in the still overview
_FILM_RATE = 15.0
_MORE_FRAMES = "Give all frames of the recording (--every 1), or --poses."
_OTHER_POSES = "Check that --poses go from camera to world and belong to these frames, or give more frames."
_OFTEN_LOST = 0.1  # of the frames: more tell that they are too far apart in time
_BROKEN_OFF = 130  # the exit code after SIGINT


class Recording:
    """A folder, held until the end, that fills as frames are done: `add` each, `finish` once."""

    def __init__(
        self,
        place: FolderPlace,
        frames: Frames,
        camera: Camera | None,
        settings: dict[str, Any],
        *,
        animation: str,
        writes_ids: bool,
        force: bool,
        pictures: list[Path] | None = None,
        writes_points: bool = False,
    ) -> None:
        self.folder = folder = place.target
        self.given = place.given
        self._frames = frames
        self._head = {
            "armillary": __version__,
            "command": "segment",
            "camera": None if camera is None else camera.to_dict(),
            "settings": settings,
        }
        self._writes_ids = writes_ids
        self._camera, self._pictures, self._writes_points = camera, pictures, writes_points
        self._colors, self._world = DirectionColors(), WorldFrames()
        self._viewer = StreamViewer("Segments by direction", frames_per_second=_FILM_RATE)
        self._planes: dict[str, Any] = {}
        self._begun: str | None = None  # the frame whose files are being written
        self._lines: list[dict[str, Any]] = []
        self._shares: list[Any] = []
        self._stills: list[tuple[str, Any, SegmentedFrame]] = []
        self._is_still = _spread(len(frames), _MOST_SHOWN)
        self._is_animated = _spread(len(frames), _MOST_ANIMATED)
        ending = ("mp4" if has_ffmpeg() else "gif") if animation == "auto" else animation
        self._film = None if ending == "none" else Animation(folder / f"overview.{ending}", _FILM_RATE)
        with place.whole(force=force) as empty:
            wanted = {"labels": True, "ids": writes_ids, "overlays": pictures is not None, "points": writes_points}
            for name in (name for name, is_wanted in wanted.items() if is_wanted):
                (empty / name).mkdir()
            _write_json(empty / SUMMARY, self._head | {"status": "running"})
        self._start = time.perf_counter()

    @property
    def n_frames(self) -> int:
        """Frames done."""
        return len(self._lines)

    def add(self, pixels: Any, found: SegmentedFrame) -> None:
        """The next frame: its label image is on disk when this returns."""
        name = self._begun = self._frames.names[found.number]
        self._world.add(found)
        self._colors.add(found.ids, found.directions @ self._world.rotation.T)
        table = self._colors.table
        write_label_image(self.folder / "labels" / f"{name}.png", found.labels, table)
        if self._pictures is not None:
            height, width = found.labels.shape
            picture = read_color_image(self._pictures[found.number], (width, height))
            write_image(self.folder / "overlays" / f"{name}.png", overlay(picture, found.labels, table))
        if self._writes_ids:
            write_id_image(self.folder / "ids" / f"{name}.png", found.labels)
        if self._film is not None and found.number in self._is_animated:
            self._film.add(_panels(pixels, found, table))
        if found.number in self._is_still:
            self._stills.append((name, pixels, found))
            if self._camera is not None and found.depth is not None:
                self._planes[name] = [plane.to_dict() for plane in find_planes(found, self._camera)[0]]
                if self._writes_points:
                    write_ply(self.folder / "points" / f"{name}.ply", colored_points(found, self._camera, table))
        self._viewer.add(pixels, found, table, name)
        self._shares.append(found.shares)
        self._lines.append(_line(name, self._frames, found))
        self._begun = None

    def _drop_begun(self) -> None:
        """The files of a frame that was broken off: it is not among those done."""
        if self._begun is not None and all(line["name"] != self._begun for line in self._lines):
            for path in self.folder.glob(f"*/{glob.escape(self._begun)}.*"):
                path.unlink()
            self._planes.pop(self._begun, None)
            self._stills = [still for still in self._stills if still[0] != self._begun]

    def finish(self, segmenter: DirectionSegmenter, error: str | None = None) -> dict[str, Any]:
        """Pictures and summary of the frames so far; the summary."""
        from armillary.plots import plot_id_shares

        self._drop_begun()
        if self._film is not None:
            self._film.close()
        if self._lines:
            plot = plot_id_shares(self._shares, table=self._colors.table)
            plot.set(xlabel="frame", ylabel="share of normals")
            _write_figure(plot.figure, self.folder / "ids_over_time.png")
            _write_figure(_overview(self._stills, self._colors.table), self.folder / "overview.png")
            self._write_legend()
            self._viewer.write(self.folder / "viewer.html", self._colors.table)
            _write_json(self.folder / "world.json", self._world.to_dict())
            if self._planes:
                _write_json(self.folder / "planes.json", self._planes)
            if isinstance(segmenter.model, DDPvMFMeans):
                save(segmenter.model, self.folder / "model.safetensors")
                if segmenter.last is not None:
                    segmenter.last.save(self.folder / "last.npz")
        summary = self._head | self._summed() | {"status": "complete" if error is None else "failed", "error": error}
        _write_json(self.folder / SUMMARY, summary | {"frames": self._lines})
        return summary

    def _write_legend(self) -> None:
        """The colours of ids with their directions in the world of the first frame."""
        ids, directions, _ = self._world.directions()
        words = [" ".join(f"{value:+.2f}" for value in direction) for direction in directions.tolist()]
        write_image(self.folder / "legend.png", legend_image(ids, self._colors.table, words))

    def _summed(self) -> dict[str, Any]:
        stages = [line["milliseconds"] for line in self._lines]
        names = dict.fromkeys(name for stage in stages for name in stage)
        medians = {name: statistics.median(stage.get(name, 0.0) for stage in stages) for name in names}
        totals = [sum(stage.values()) for stage in stages]
        seconds = time.perf_counter() - self._start
        return {
            "n_frames": self.n_frames,
            "n_frames_given": len(self._frames),
            "n_ids": len(_lives(self._lines)),
            "ids": _lives(self._lines),
            "milliseconds_per_frame": {name: round(value, 3) for name, value in medians.items()},
            "frames_per_second": round(1e3 / statistics.median(totals), 2) if totals else 0.0,
            "frames_per_second_with_files": round(self.n_frames / seconds, 2),
        }


def follow(
    frames: Frames,
    segmenter: DirectionSegmenter,
    recording: Recording,
    screen: Screen,
    turns: list[Any] | None = None,
) -> dict[str, Any]:
    """Segment every frame and record it; the summary. After an error the frames before it are recorded."""
    n_empty, n_lost, n_unseen, source = 0, 0, 0, ""
    try:
        with screen.progress("segment", len(frames), "frames") as advance, screen.heard():
            for number, source in enumerate(frames.sources):
                pixels = frames[number]
                found = segmenter.step(pixels, rotation=None if turns is None else turns[number])
                recording.add(pixels, found)
                n_unseen += found.motion is not None and found.motion.n_unseen_axes > 0 and not _has(turns, number)
                if found.tracking in ("lost", "regained") and found.ids:
                    n_lost += found.tracking == "lost"
                    screen.note(f"Note: tracking was {found.tracking} at '{source}'.")
                advance(1)
                if not found.ids:
                    n_empty += 1
                    screen.note(f"Note: '{source}' has no pixel with a normal; its labels are all black.")
    except BaseException as error:
        _give_up(recording, segmenter, screen, error, source)
    if n_lost > _OFTEN_LOST * len(frames):
        screen.note(
            f"Note: {n_lost} of {len(frames)} frames do not agree with the one before, and ids suffer. "
            + (_MORE_FRAMES if turns is None else _OTHER_POSES)
        )
    if n_unseen > _OFTEN_LOST * len(frames):
        screen.note(
            f"Note: {n_unseen} of {len(frames)} frames show one plane alone, which does not tell how the view turned "
            "about its normal; walls that return may have other ids. --poses tells."
        )
    if n_empty < len(frames):
        return recording.finish(segmenter)
    sentence = (
        f"No pixel of the {len(frames)} frames has a normal. Check that the files hold depth, and --depth-scale: what "
        "they have for one metre."
    )
    recording.finish(segmenter, error=sentence)
    raise InputError(sentence)


def _has(turns: list[Any] | None, number: int) -> bool:
    """Whether the turn at a frame was given."""
    return turns is not None and turns[number] is not None


def _give_up(
    recording: Recording, segmenter: DirectionSegmenter, screen: Screen, error: BaseException, source: str
) -> NoReturn:
    """Finish with the frames that are done, and say where they are."""
    done = ""
    is_broken_off = not isinstance(error, Exception)  # by the user, or by a signal
    with suppress(OSError):  # a full disk takes no summary either, and the first error is the one to tell
        if recording.n_frames:
            done = f" The frames done before, {recording.n_frames}, are in '{recording.given}'."
            recording.finish(segmenter, error="broken off" if is_broken_off else str(error) or type(error).__name__)
        else:
            shutil.rmtree(recording.folder)
    if isinstance(error, KeyboardInterrupt):
        screen.note(f"Broken off.{done}")
        raise SystemExit(_BROKEN_OFF)
    if isinstance(error, OSError):
        raise InputError(f"A file could not be written: {error.strerror or error}.{done}") from error
    if isinstance(error, ArmillaryError):
        named = str(error) if source in str(error) else f"'{source}': {error}"
        raise InputError(f"{named}{done}") from error
    raise error


# ------------------------------------------------------------------------------------------------- what is written


def _spread(n_frames: int, most: int) -> set[int]:
    """The numbers of at most so many frames, evenly spaced from the first to the last."""
    return set(np.linspace(0, n_frames - 1, min(n_frames, most)).round().astype(int).tolist())


def _panels(pixels: Any, found: SegmentedFrame, table: Any) -> Colors:
    """Depth (where that was given), normals and labels side by side, scaled down to a modest width."""
    pictures = [color_normals(found.normals.vectors), color_labels(found.labels, table)]
    if np.ndim(pixels) == 2:
        pictures.insert(0, color_depth(pixels))
    step = -(-found.labels.shape[1] // _PANEL_WIDTH)
    gap = np.full((-(-found.labels.shape[0] // step), 4, 3), 255, dtype=np.uint8)
    parts = [part for picture in pictures for part in (gap, picture[::step, ::step])]
    return np.concatenate(parts[1:], axis=1)


def _overview(stills: list[tuple[str, Any, SegmentedFrame]], table: Any) -> Any:
    from armillary.plots import plot_segmentation

    names, pixels, found = zip(*stills, strict=True)
    return plot_segmentation(
        [one.labels for one in found],
        depths=pixels if np.ndim(pixels[0]) == 2 else None,
        normals=[one.normals.vectors for one in found],
        titles=names,
        most_frames=_MOST_SHOWN,
        table=table,
    )


def _line(name: str, frames: Frames, found: SegmentedFrame) -> dict[str, Any]:
    """One frame in the summary."""
    return {
        "number": found.number,
        "name": name,
        "source": frames.sources[found.number],
        "timestamp": frames.timestamps[found.number],
        "valid_share": round(found.valid_share, 6),
        "shares": {str(number): round(share, 6) for number, share in found.shares.items()},
        "directions": {
            str(number): [round(value, 6) for value in direction.tolist()]
            for number, direction in zip(found.ids, found.directions, strict=True)
        },
        "births": list(found.births),
        "revivals": list(found.revivals),
        "deaths": list(found.deaths),
        "merges": [list(pair) for pair in found.merges],
        "tracking": found.tracking,
        "milliseconds": {stage: round(value, 3) for stage, value in found.milliseconds.items()},
    }


def _lives(lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """For each id when it was seen and how much of the frames it had then."""
    seen: dict[str, list[tuple[int, float]]] = {}
    for line in lines:
        for number, share in line["shares"].items():
            seen.setdefault(number, []).append((line["number"], share))
    return {
        number: {
            "first_frame": sightings[0][0],
            "last_frame": sightings[-1][0],
            "n_frames": len(sightings),
            "mean_share": round(statistics.mean(share for _, share in sightings), 6),
        }
        for number, sightings in sorted(seen.items(), key=lambda item: int(item[0]))
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with whole_file(path) as stream:
        stream.write((json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def _write_figure(figure: Any, path: Path) -> None:
    with whole_file(path) as stream:
        figure.savefig(stream, format="png", dpi=130)
