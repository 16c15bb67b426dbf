"""A stream in one page to open in a browser: depth, labels, directions on a sphere and ids over time, to scrub through.

The page needs nothing from outside: pictures are small PNGs inside it.
"""

from __future__ import annotations

import base64
import json
import os
from importlib.resources import files
from typing import Any

import numpy as np

from armillary.durable.whole import whole_file
from armillary.validation import check_integer, check_positive
from armillary.vision.coloring import Colors, color_depth, color_labels
from armillary.vision.images import png_bytes
from armillary.vision.segmenter import SegmentedFrame, check_frame


class StreamViewer:
    """Gathers frames of a stream and writes them as one HTML page.

    Parameters
    ----------
    title : str, default="Segmented stream"
    most_frames : int, default=300
        Of longer streams every second frame is dropped whenever there are more, so that memory stays bounded.
    width : int, default=320
        Pixels of the pictures, at most.
    frames_per_second : float, default=15
        Of its player.

    Examples
    --------
    >>> import tempfile
    >>> from armillary.vision import DirectionSegmenter, StreamViewer, make_room_walk
    >>> walk = make_room_walk(4, width=64, height=48, random_state=0)
    >>> segmenter, viewer = DirectionSegmenter(camera=walk.camera), StreamViewer()
    >>> for depth in walk.depths:
    ...     viewer.add(depth, segmenter.step(depth))
    >>> viewer.write(tempfile.mkdtemp() + "/stream.html")
    """

    def __init__(
        self,
        title: str = "Segmented stream",
        *,
        most_frames: int = 300,
        width: int = 320,
        frames_per_second: float = 15.0,
    ) -> None:
        who = "StreamViewer"
        self._title = str(title)
        self._most = check_integer(most_frames, "most_frames", who, low=2)
        self._width = check_integer(width, "width", who, low=16)
        self._rate = check_positive(frames_per_second, "frames_per_second", who, is_finite=True)
        self._frames: list[dict[str, Any]] = []
        self._events: dict[str, list[Any]] = _no_events()
        self._ids: set[int] = set()
        self._every = 1
        self._n_frames = 0

    def add(self, pixels: Any, frame: SegmentedFrame, table: Any = None, name: str | None = None) -> None:
        """The next frame: its depth (H, W) as given, or its normals, and what was found; `table` has colours of ids.

        Parameters
        ----------
        pixels : array of shape (H, W) or (H, W, 3)
        frame : SegmentedFrame
            What was found in them.
        table : array of shape (n, 3), optional
        name : str, optional
            Of the frame, beside its number.
        """
        check_frame(frame, "StreamViewer.add")
        for kind in self._events:
            self._events[kind] += getattr(frame, kind)
        self._ids |= set(frame.ids)
        if self._n_frames % self._every == 0:
            self._frames.append(self._line(pixels, frame, table, str(frame.number if name is None else name)))
            self._events = _no_events()
            if len(self._frames) > self._most:
                self._thin()
        self._n_frames += 1

    def write(self, path: str | os.PathLike[str], table: Any = None) -> None:
        """Write the page, whole or not at all; `table` (n, 3) has the colours of ids, as for the frames.

        Parameters
        ----------
        path : str or os.PathLike
            The page.
        table : array of shape (n, 3), optional
        """
        ids = sorted(self._ids)
        swatches = color_labels(np.array([ids], dtype=np.int64).reshape(1, -1), table)[0]
        content = {
            "title": self._title,
            "n_frames": self._n_frames,
            "n_ids": len(ids),
            "frames_per_second": self._rate,
            "colors": {str(number): swatch.tolist() for number, swatch in zip(ids, swatches, strict=True)},
            "frames": self._frames,
        }
        template = files("armillary.vision").joinpath("assets/viewer.html").read_text(encoding="utf-8")
        # a name of a frame must not end the script
        data = json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        with whole_file(path) as stream:
            stream.write(template.replace("{{DATA}}", data).encode())

    def _line(self, pixels: Any, frame: SegmentedFrame, table: Any, name: str) -> dict[str, Any]:
        return {
            "number": frame.number,
            "name": name,
            "ids": list(frame.ids),
            "shares": [round(frame.shares[number], 5) for number in frame.ids],
            "directions": np.round(frame.directions, 4).tolist(),
            "tracking": frame.tracking,
            "labels": self._picture(color_labels(frame.labels, table)),
            "depth": self._picture(color_depth(pixels)) if np.ndim(pixels) == 2 else None,
        } | {kind: list(found) for kind, found in self._events.items()}

    def _picture(self, colors: Colors) -> str:
        step = -(-colors.shape[1] // self._width)
        content = png_bytes(np.ascontiguousarray(colors[::step, ::step]))
        return "data:image/png;base64," + base64.b64encode(content).decode()

    def _thin(self) -> None:
        """Drop every second frame; what happened in it is told by the next."""
        kept = []
        for place, line in enumerate(self._frames):
            if place % 2 == 0:
                if place:
                    for kind in self._events:
                        line[kind] = self._frames[place - 1][kind] + line[kind]
                kept.append(line)
        self._frames, self._every = kept, 2 * self._every


def _no_events() -> dict[str, list[Any]]:
    return {kind: [] for kind in ("births", "revivals", "deaths", "merges")}
