"""Sections 7.1 and 7.2 on whole images: depth to normals to segments by `armillary.vision`, 640 x 480.

Streams    a rendered walk through a furnished room, which turns by 90 degrees and comes back, with the truth; and the
           recorded corridor and TUM freiburg1_rpy, of which the camera's poses are known (the corridor's: estimated)
Scenes     every 24th scene of NYU v2 from depth of 8 bits, and ten single frames of 16 bits from several cameras

Normals are estimated once for each frame and given to every method. What is measured of streams:

same_id_back    the room's poses on the way back are those of the way there: the share of pixels with the same id
id_purity       the share of pixels that have the main id of their true direction, over the whole walk
spread          degrees: directions of an id, turned into the world by the poses, about their mean, by share of pixels
n_directions    how many of the ids' mean directions in the world are more than 20 degrees apart; more ids: doubles
agreement, ...  as in `views.stability`, at the pixels of the ready-made normals

Milliseconds are medians and minima over the frames; other work on the machine adds to them, `load` says how much.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scenes
import views
from synthetic import Track

from armillary import DPvMFMeans, SphericalKMeans
from armillary.geometry import sphere
from armillary.metrics import purity_score
from armillary.vision import (
    Camera,
    DirectionSegmenter,
    SegmentedFrame,
    estimate_normals,
    make_room_walk,
    open_frames,
    segment,
)
from armillary.vision.segmentation import NormalEstimation, Stopwatch

DEGREES = (views.PAPER_ANGLE, 70.0)
# as in the paper: no merges, every pixel by itself
PLAIN: dict[str, Any] = {"merge": False, "steadiness": 0.0, "min_region": 0, "stride": 1}
METHODS: dict[str, dict[str, Any]] = {
    "batch": {"method": "batch"} | PLAIN,
    "sequential": {"method": "sequential"} | PLAIN,
    "ddp": {"follow_turn": False} | PLAIN,
    "ddp, turn followed": PLAIN,
}
IN_SIGHT = views.IN_SIGHT
APART = math.radians(20.0)
N_SHOWN = 7
_NYU_CAMERA = Camera(518.857901, 519.469611, 325.582449, 253.736166, 640, 480)
# Depth of 8 bits has steps of 39 mm, which only windows wider than a step see through.
_WIDE = {"window": 31, "smoothing": "total_variation", "max_depth_jump": 0.1}
# every so many pixels for the silhouettes, and for the comparison with the truth
_STEP = 4
_FEWER = np.s_[::2, ::2]


# --------------------------------------------------------------------------------------------------------- streams


@dataclass(frozen=True, eq=False)
class ImageStream:
    """Depth frames with what is known of them."""

    name: str
    title: str
    depths: Sequence[np.ndarray]
    camera: Camera
    poses: np.ndarray  # (T, 3, 3) camera to world
    truth: Callable[[int], np.ndarray] | None = None  # direction ids (H, W) of a frame, -1 for none
    recorded: views.Stream | None = None


def room(n_frames: int, width: int, seed: int = 0) -> ImageStream:
    """The walk that `armillary.vision` renders; the seed is that of the camera's noise."""
    walk = make_room_walk(n_frames, width=width, height=width * 3 // 4, random_state=seed)
    title = "a rendered room, turned by 90 degrees and back"
    return ImageStream(
        "room", title, walk.depths, walk.camera, walk.poses[:, :3, :3], lambda number: walk[number].direction_ids
    )


def recorded(stream: views.Stream, folder: Path, every: int) -> ImageStream:
    """The depth frames behind ready-made normals."""
    names = {"corridor": "rgbd_icsl_corridor", "tum": "rgbd_tum_fr1_rpy"}
    home = folder / names[stream.name]
    frames = open_frames(home / "depth")[::every]
    camera = Camera.from_file(home / "meta.json")
    return ImageStream(stream.name, stream.title, frames, camera, stream.poses, recorded=stream)


class _Watched:
    """What is kept of a method's frames."""

    def __init__(self) -> None:
        self.shares: list[Any] = []
        self.sightings: list[tuple[int, float, np.ndarray]] = []  # id, share, direction in the world
        self.labels: list[np.ndarray] = []
        self.sampled: list[np.ndarray] = []
        self.key_frames: list[np.ndarray] = []
        self.clustering: list[float] = []
        self.painting: list[float] = []

    def take(self, found: SegmentedFrame, pose: np.ndarray, *, is_key: bool, keeps_labels: bool) -> None:
        self.shares.append(found.shares)
        for number, direction in zip(found.ids, found.directions, strict=True):
            self.sightings.append((number, found.shares[number], pose @ direction))
        self.clustering.append(found.milliseconds["clustering"])
        self.painting.append(found.milliseconds["labels"])
        if is_key:
            self.key_frames.append(found.labels)
        if keeps_labels:
            self.labels.append(found.labels[_FEWER].astype(np.int16))


def follow(stream: ImageStream, degrees: Iterable[float], *, track: Track) -> dict[str, Any]:
    """Every method at every angle on the stream: `numbers` for the results, `pictures` to draw."""
    runs = {(angle, name): _Watched() for angle in degrees for name in METHODS}
    segmenters = {(angle, name): DirectionSegmenter(math.radians(angle), **METHODS[name]) for angle, name in runs}
    estimation = NormalEstimation.check("follow", stream.camera, "guided", 9, 0.03, None)
    shown = set(np.linspace(0, len(stream.depths) - 1, N_SHOWN).round().astype(int).tolist())
    stages: list[dict[str, float]] = []
    truth: list[np.ndarray] = []
    load = os.getloadavg()[0]
    for number in track(range(len(stream.depths)), f"{stream.name}, whole images"):
        depth = stream.depths[number]
        watch = Stopwatch()
        normals = estimation.normals(depth, watch)
        stages.append(watch.milliseconds)
        if stream.truth is not None:
            truth.append(stream.truth(number)[_FEWER].astype(np.int16))
        for key, segmenter in segmenters.items():
            found = segmenter.step(normals)
            is_key = number in shown
            runs[key].take(found, stream.poses[number], is_key=is_key, keeps_labels=stream.truth is not None)
            if stream.recorded is not None:
                assert stream.recorded.pixels is not None
                runs[key].sampled.append(found.labels.ravel()[stream.recorded.pixels[number]])
    numbers = {
        f"{angle:g}": {name: _numbers(stream, runs[angle, name], truth) for name in METHODS} for angle in degrees
    }
    return {
        "numbers": {
            "n_frames": len(stream.depths),
            "size": [stream.camera.width, stream.camera.height],
            "load": [round(load, 1), round(os.getloadavg()[0], 1)],
            "milliseconds": {name: _spent([stage[name] for stage in stages]) for name in stages[0]},
            "by_angle": numbers,
        },
        "pictures": {key: (run.shares, run.key_frames) for key, run in runs.items()},
        "key_frames": sorted(shown),
    }


def _spent(milliseconds: list[float]) -> dict[str, float]:
    return {"median": float(np.median(milliseconds)), "least": float(np.min(milliseconds))}


def _numbers(stream: ImageStream, run: _Watched, truth: list[np.ndarray]) -> dict[str, Any]:
    spread, n_directions = _in_the_world(run.sightings)
    numbers: dict[str, Any] = {
        "n_ids": len({number for number, _, _ in run.sightings}),
        "n_large_ids": len({number for number, share, _ in run.sightings if share >= IN_SIGHT}),
        "n_directions": n_directions,
        "spread": math.degrees(spread),
        "clustering": _spent(run.clustering),
        "labels": _spent(run.painting),
    }
    if truth:
        numbers |= _beside_truth(np.stack(run.labels), np.stack(truth))
    if stream.recorded is not None:
        numbers |= _beside_planes(stream.recorded, run.sampled)
    return numbers


def _beside_truth(labels: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    half = len(labels) // 2
    there, back = labels[:half], labels[::-1][:half]
    is_known = (labels >= 0) & (truth >= 0)
    return {
        "same_id_back": float((there == back)[(there >= 0) & (back >= 0)].mean()),
        "id_purity": purity_score(labels[is_known], truth[is_known]),
        "direction_purity": purity_score(truth[is_known], labels[is_known]),
    }


def _beside_planes(stream: views.Stream, sampled: list[np.ndarray]) -> dict[str, float]:
    """`views.stability` at the pixels that have a label here; the others count as noise."""
    planes = np.where(np.stack(sampled) >= 0, stream.planes, -1)
    ids = [np.maximum(frame, 0) for frame in sampled]
    same = views.Stream(stream.name, stream.title, stream.frames, planes, stream.poses, stream.pixels)
    found = views.stability(same, ids)
    return {name: found[name] for name in ("agreement", "id_changes", "n_returns", "returns_kept")}


def _in_the_world(sightings: list[tuple[int, float, np.ndarray]]) -> tuple[float, int]:
    """How far directions of ids spread about their means in the world, and how many of those means differ."""
    total = weight = 0.0
    means: list[np.ndarray] = []
    for name in sorted({number for number, share, _ in sightings if share >= IN_SIGHT}):
        seen = [(share, direction) for number, share, direction in sightings if number == name and share >= IN_SIGHT]
        shares, directions = np.array([share for share, _ in seen]), np.stack([direction for _, direction in seen])
        mean = shares @ directions
        mean = mean / max(float(np.linalg.norm(mean)), 1e-12)
        total += float(shares @ sphere.angle(directions, mean[None]))
        weight += float(shares.sum())
        if all(float(sphere.angle(mean, other)) > APART for other in means):
            means.append(mean)
    return total / max(weight, 1e-12), len(means)


# ---------------------------------------------------------------------------------------------------------- scenes


@dataclass(frozen=True, eq=False)
class Scene:
    """One depth image."""

    name: str
    depth: np.ndarray
    camera: Camera
    settings: dict[str, Any]  # of estimate_normals


def scenes_of_8_bits(folder: Path, most: int | None) -> list[Scene]:
    """NYU v2, every 24th scene; the depth is the middle of its step."""
    frames = open_frames(folder / "nyu2" / "depth8")
    step = 1 if most is None else max(1, len(frames) // most)
    return [
        Scene(f"NYU {name}", (depth + np.float32(0.5)) * np.float32(10.0 / 255.0), _NYU_CAMERA, _WIDE)
        for name, depth in zip(frames.names[::step], frames[::step], strict=True)
    ]


def scenes_of_16_bits(folder: Path) -> list[Scene]:
    """Single frames of several cameras."""
    home = folder / "depth_frames"
    cameras = json.loads((home / "meta.json").read_text())
    frames = open_frames(home)
    return [
        Scene(name, depth, Camera.from_file(home / "meta.json", name), {})
        for name, depth in zip(frames.names, frames, strict=True)
        if name in cameras
    ]


def measure_scenes(found: list[Scene], *, track: Track) -> dict[str, Any]:
    """Clusters and silhouettes by angle and by number, of our own normals (see `scenes.measure`)."""
    rows = []
    shares = []
    for scene in track(found, "normals of scenes"):
        normals = estimate_normals(scene.depth, scene.camera, **scene.settings)
        rows.append(normals.rows(_STEP))
        shares.append(float(normals.is_valid.mean()))
    degrees = (50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 110.0, 120.0)
    return scenes.measure(rows, degrees, range(2, 9), track=track) | {"valid_share": float(np.mean(shares))}


def segmentations(found: list[Scene]) -> list[dict[str, Any]]:
    """Depth, normals and the segments of each scene by four models (Figure 5)."""
    models = {
        "DP-vMF-means, 70 degrees": lambda: DPvMFMeans(math.radians(70.0)),
        "DP-vMF-means, 100 degrees": lambda: DPvMFMeans(math.radians(100.0)),
        "spherical k-means, K = 4": lambda: SphericalKMeans(4, n_init=1, random_state=0),
        "spherical k-means, K = 7": lambda: SphericalKMeans(7, n_init=1, random_state=0),
    }
    pages = []
    for scene in found:
        normals = estimate_normals(scene.depth, scene.camera, **scene.settings)
        labels = {name: segment(normals, make()) for name, make in models.items()}
        pages.append({"name": scene.name, "depth": scene.depth, "normals": normals.vectors, "labels": labels})
    return pages
