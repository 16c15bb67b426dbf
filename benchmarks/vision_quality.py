"""How steady and how true the labels of `DirectionSegmenter` are, on recorded sequences and in the made room.

    ARMILLARY_SHARED_DATA=... python -m benchmarks.vision_quality [--state after] [--frames 36] [--only corridor]

Sequences: the recordings of the shared data (poses of "tum" were measured; "corridor" and "redwood" are registered by
point-to-plane ICP of neighbouring frames), and the made room seen by a Kinect (disparity in steps of 1/8 pixel) and by
a RealSense (noise of 0.08 pixel that hangs together over a few), the room as it is, and 0.6 and 1.5 times as large;
rooms, motions and sensors drawn by a seed (`vision_rooms.py`). Settings were chosen on the sequences in `CHOSEN_ON`;
the others are held out.

flicker           share of registered pixels whose id differs in the next frame, of those labelled in both
flicker with -1   the same of those labelled in either, so that coming and going counts
flicker of truth  the same of the known planes: pixels at an edge are registered to a neighbour, so no labels reach less
purity            share of the pixels whose id has its majority in the plane that they lie on, over the sequence
agreement         normalised mutual information of ids and planes over the sequence
spread            degrees between the direction of an id in a frame, in the world, and its mean; weighted by pixels
wall              share of the measured pixels of a plain wall (above 5 % of the image) that have its main id
labelled          share of the measured pixels that have a label

Planes of the room are known. Planes of a recording are the axes of the orthogonal frame that holds most of its normals
in the world; pixels farther than 25 degrees from all of them are on no known plane. k-means starts each frame from the
centres of the last one, with K the median number of ids above 3 % that "ours" shows.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.ndimage import gaussian_filter
from scipy.spatial.transform import Rotation
from sklearn.metrics import normalized_mutual_info_score

from armillary import SphericalKMeans
from armillary.vision import (
    Camera,
    DirectionSegmenter,
    Manhattan,
    Normals,
    estimate_normals,
    make_room_walk,
    open_frames,
)
from armillary.vision.tracking import estimated_turn
from benchmarks import measure
from benchmarks.streams import RESULTS
from benchmarks.vision_rooms import WALLS, DrawnRoom, drawn_room

DATA = os.environ.get("ARMILLARY_SHARED_DATA")
CHOSEN_ON = ("tum, first half", "room, Kinect x 1", "room, RealSense x 1")
METHODS = ("ours", "pure ddp", "sequential", "batch", "k-means")
STEP = 2  # of pixels that are registered
NEAR_PLANE = math.radians(25.0)
SCALES = (0.6, 1.0, 1.5)
# standard deviation and step of the inverse depth, in 1/m, and pixels over which the noise hangs together
SENSORS = {"Kinect": (0.0010, 1.0 / (8.0 * 0.075 * 580.0), 0.0), "RealSense": (0.08 / (0.05 * 640.0), 1e-3, 1.5)}


@dataclass
class View:
    """One frame of a sequence."""

    depth: np.ndarray
    planes: np.ndarray | None = None  # (H, W) of the truth, -1 for none
    walls: np.ndarray | None = None  # (H, W) number of the plain wall, -1 for none


@dataclass
class Sequence:
    """Frames with their poses (T, 4, 4), camera to world."""

    name: str
    camera: Camera
    poses: np.ndarray
    view: Callable[[int], View]
    has_truth: bool = False

    def __len__(self) -> int:
        return len(self.poses)


# ------------------------------------------------------------------------------------------------------ sequences


def room(sensor: str, scale: float, n_frames: int) -> Sequence:
    """The made room, `scale` times as large, as a sensor sees it."""
    walk = make_room_walk(n_frames, noise=0.0, dtype="float64", depth_range=(0.0, 100.0), random_state=1)
    poses = walk.poses.copy()
    poses[:, :3, 3] *= scale
    wall_numbers = np.array([WALLS.index(name) if name in WALLS else -1 for name in walk.plane_names])
    deviation, quantum, blur = SENSORS[sensor]

    def view(number: int) -> View:
        frame, rng = walk[number], np.random.default_rng(number)
        noise = rng.standard_normal(frame.depth.shape)
        if blur:
            noise = gaussian_filter(noise, blur) * (2.0 * math.sqrt(math.pi) * blur)
        is_seen = frame.depth > 0.0
        w = np.where(is_seen, 1.0 / np.where(is_seen, scale * frame.depth, 1.0), 0.0) + deviation * noise * is_seen
        w = np.rint(w / quantum) * quantum
        depth = np.where(w > 0.08, 1.0 / np.maximum(w, 1e-3), 0.0)
        depth[(depth < 0.3) | (depth > 10.0)] = 0.0
        return View(np.rint(1000.0 * depth).astype(np.uint16), frame.direction_ids, wall_numbers[frame.plane_ids])

    return Sequence(f"room, {sensor} x {scale:g}", walk.camera, poses, view, has_truth=True)


def drawn_sequence(drawn: DrawnRoom) -> Sequence:
    """A walk through a room that a seed has drawn."""
    return Sequence(drawn.name, drawn.camera, drawn.poses, lambda number: View(*drawn.frame(number)), has_truth=True)


def recorded(name: str, folder: Path, poses: np.ndarray | None, frames: Any, camera: Camera) -> Sequence:
    """Frames of a folder; without poses they are registered."""
    if poses is None:
        poses = registered(frames, camera)
    return Sequence(name, camera, poses, lambda number: View(frames[number]))


def sequences(n_frames: int, n_drawn: int, only: str) -> Iterator[Sequence]:
    """Those that are there, one after the other."""
    if DATA:
        data = Path(DATA)
        names = [f"redwood_{number}" for number in range(5)]
        if only in "redwood":
            frames = open_frames(*(data / "depth_frames" / f"{name}.png" for name in names))
            camera = Camera.from_file(data / "depth_frames" / "meta.json", "redwood_0")
            yield recorded("redwood", data, None, frames, camera)
        if only in "corridor":
            folder = data / "rgbd_icsl_corridor"
            yield recorded("corridor", folder, None, open_frames(folder), Camera.from_file(folder / "meta.json"))
        folder = data / "rgbd_tum_fr1_rpy"
        poses = _tum_poses(np.load(folder / "poses_tum.npy"))
        frames, camera, half = open_frames(folder), Camera.from_file(folder / "meta.json"), len(poses) // 2
        for name, part in (("tum, first half", slice(0, half)), ("tum, second half", slice(half, None))):
            if only in name:
                yield recorded(name, folder, poses[part], frames[part], camera)
    for sensor in SENSORS:
        for scale in SCALES:
            if only in (found := room(sensor, scale, n_frames)).name:
                yield found
    for seed in range(n_drawn):
        if only in (drawn := drawn_room(seed, n_frames)).name:
            yield drawn_sequence(drawn)


def _tum_poses(lines: np.ndarray) -> np.ndarray:
    poses = np.tile(np.eye(4), (len(lines), 1, 1))
    poses[:, :3, 3] = lines[:, 1:4]
    poses[:, :3, :3] = Rotation.from_quat(lines[:, 4:8]).as_matrix()
    return poses


# --------------------------------------------------------------------------------------------------- registration


def registered(frames: Any, camera: Camera) -> np.ndarray:
    """Poses (T, 4, 4) by ICP of neighbouring frames, the first as it is."""
    poses, before = [np.eye(4)], None
    for number in track(range(len(frames)), description="registration"):
        depth = frames[number]
        normals = estimate_normals(depth, camera)
        now = camera.points(depth)[0], normals
        if before is not None:
            poses.append(poses[-1] @ _icp(now, before, camera))
        before = now
    return np.array(poses)


def _icp(source: tuple[np.ndarray, Normals], target: tuple[np.ndarray, Normals], camera: Camera) -> np.ndarray:
    """The motion (4, 4) that takes points of one frame to planes of another, both in their cameras."""
    step = np.s_[::4, ::4]
    points = source[0][step].reshape(-1, 3).astype(float)
    vectors = source[1].vectors[step].reshape(-1, 3).astype(float)
    is_used = source[1].is_valid[step].ravel() & (points[:, 2] > 0.0)
    points, vectors = points[is_used], vectors[is_used]
    motion = np.eye(4)
    motion[:3, :3] = _first_turn(source[1], target[1])
    for iteration in range(25):
        moved, turned = points @ motion[:3, :3].T + motion[:3, 3], vectors @ motion[:3, :3].T
        u, v, is_inside = project(moved, camera)
        places, wanted = target[0][v, u].astype(float), target[1].vectors[v, u].astype(float)
        gap = places - moved
        reach = 0.3 if iteration < 10 else 0.1
        is_near = is_inside & target[1].is_valid[v, u] & (np.linalg.norm(gap, axis=1) < reach * moved[:, 2].clip(0.5))
        is_near &= np.vecdot(turned, wanted) > 0.8
        normals, moved, gap = wanted[is_near], moved[is_near], gap[is_near]
        rows = np.hstack([np.cross(moved, normals), normals])
        residuals = np.vecdot(gap, normals)
        weights = 1.0 / (1.0 + (residuals / (0.02 * moved[:, 2])) ** 2) / moved[:, 2] ** 2
        # a corridor says nothing of the way along it: a small price keeps that at rest
        system = rows.T @ (rows * weights[:, None]) + 1e-4 * len(rows) * np.diag([0, 0, 0, 1, 1, 1])
        change = np.linalg.solve(system, rows.T @ (weights * residuals))
        update = np.eye(4)
        update[:3, :3] = Rotation.from_rotvec(change[:3]).as_matrix()
        update[:3, 3] = change[3:]
        motion = update @ motion
    return motion


def _first_turn(source: Normals, target: Normals) -> np.ndarray:
    model = SphericalKMeans(8, random_state=0, n_init=1).fit(source.rows(4))
    return estimated_turn(model.cluster_centers_, target.rows(2))


def project(points: np.ndarray, camera: Camera) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns, rows and whether the point (n, 3) is in the image."""
    z = np.maximum(points[:, 2], 1e-6)
    u = np.rint(points[:, 0] / z * camera.fx + camera.cx)
    v = np.rint(points[:, 1] / z * camera.fy + camera.cy)
    is_inside = (points[:, 2] > 0.05) & (u >= 0) & (v >= 0) & (u < camera.width) & (v < camera.height)
    return np.where(is_inside, u, 0).astype(int), np.where(is_inside, v, 0).astype(int), is_inside


def matches(before: np.ndarray, now: np.ndarray, motion: np.ndarray, camera: Camera) -> tuple[np.ndarray, ...]:
    """Pixels of two depth images that show one place: rows and columns in each."""
    points, is_measured = camera.points(before)
    rows, columns = np.nonzero(is_measured[::STEP, ::STEP])
    rows, columns = STEP * rows, STEP * columns
    moved = points[rows, columns].astype(float) @ motion[:3, :3].T + motion[:3, 3]
    u, v, is_inside = project(moved, camera)
    seen = camera.metres(now)[v, u]
    is_same = is_inside & (seen > 0.0) & (np.abs(seen - moved[:, 2]) < 0.02 * moved[:, 2] + 0.004 * moved[:, 2] ** 2)
    return rows[is_same], columns[is_same], v[is_same], u[is_same]


# -------------------------------------------------------------------------------------------------------- methods


class KMeansSegmenter:
    """Spherical k-means on each frame, from the centres of the last."""

    def __init__(self, n_clusters: int) -> None:
        self._n_clusters = n_clusters
        self._centers: np.ndarray | None = None

    def labels(self, normals: Normals) -> np.ndarray:
        """Labels (H, W)."""
        rows = normals.rows()
        if len(rows) < self._n_clusters:
            return np.full(normals.is_valid.shape, -1)
        start = {"init": self._centers} if self._centers is not None else {"random_state": 0, "n_init": 3}
        model = SphericalKMeans(self._n_clusters, max_iter=20, tol=1e-5, **start).fit(rows[::4])
        self._centers = model.cluster_centers_
        return normals.image_of(np.asarray(model.predict(rows), dtype=np.int64))


def makers(camera: Camera) -> dict[str, Callable[[], DirectionSegmenter]]:
    """The segmenters, by method."""
    plain: dict[str, Any] = {"min_region": 0, "camera": camera}
    if "merge" in DirectionSegmenter.__init__.__kwdefaults__:
        plain |= {"merge": False, "steadiness": 0.0, "stride": 1}
    return {
        "ours": lambda: DirectionSegmenter(camera=camera),
        "pure ddp": lambda: DirectionSegmenter(follow_turn=False, **plain),
        "sequential": lambda: DirectionSegmenter(method="sequential", **plain),
        "batch": lambda: DirectionSegmenter(method="batch", **plain),
    }


# -------------------------------------------------------------------------------------------------------- counting


@dataclass
class Tally:
    """What is counted of one method on one sequence."""

    pairs: list[int] = field(default_factory=lambda: [0, 0, 0, 0])  # changed, both; changed, either
    table: dict[tuple[int, int], int] = field(default_factory=dict)  # pixels by id and plane
    sums: dict[int, list[np.ndarray]] = field(default_factory=dict)  # by id: resultants in the world, frame by frame
    labelled: list[float] = field(default_factory=list)
    walls: list[float] = field(default_factory=list)
    walls_of_labelled: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)  # of ids above 3 %
    seconds: list[float] = field(default_factory=list)
    last: np.ndarray | None = None
    per_frame: list[float] = field(default_factory=list)

    def changed(self, labels: np.ndarray, places: tuple[np.ndarray, ...]) -> None:
        """Pixels that are registered with the frame before."""
        assert self.last is not None
        rows, columns, v, u = places
        one, other = self.last[rows, columns], labels[v, u]
        both, either = (one >= 0) & (other >= 0), (one >= 0) | (other >= 0)
        differs = one != other
        found = [np.count_nonzero(part) for part in (differs & both, both, differs & either, either)]
        self.pairs = [old + int(new) for old, new in zip(self.pairs, found, strict=True)]
        self.per_frame.append(found[0] / max(1, found[1]))

    def frame(self, labels: np.ndarray, normals: Normals, view: View, planes: np.ndarray, pose: np.ndarray) -> None:
        """One frame alone."""
        is_measured = view.depth > 0
        self.labelled.append(np.count_nonzero(labels[is_measured] >= 0) / max(1, np.count_nonzero(is_measured)))
        _, counts = np.unique(labels[labels >= 0], return_counts=True)
        self.counts.append(int(np.count_nonzero(counts > 0.03 * max(1, counts.sum()))))
        some = np.s_[::4, ::4]
        seen, where = labels[some].ravel(), planes[some].ravel()
        is_known = (seen >= 0) & (where >= 0)
        for pair, number in zip(
            *np.unique(np.stack([seen[is_known], where[is_known]], 1), axis=0, return_counts=True), strict=True
        ):
            key = int(pair[0]), int(pair[1])
            self.table[key] = self.table.get(key, 0) + int(number)
        is_there = normals.is_valid[some].ravel() & (seen >= 0)
        world = normals.vectors[some].reshape(-1, 3)[is_there].astype(float) @ pose[:3, :3].T
        for number in np.unique(seen[is_there]):
            self.sums.setdefault(int(number), []).append(world[seen[is_there] == number].sum(axis=0))
        if view.walls is not None:
            for wall in range(len(WALLS)):
                here = labels[(view.walls == wall) & is_measured]
                if len(here) > 0.05 * labels.size:
                    most = np.bincount(here + 1, minlength=2)[1:].max()
                    self.walls.append(most / len(here))
                    self.walls_of_labelled.append(most / max(1, np.count_nonzero(here >= 0)))

    def summary(self) -> dict[str, float]:
        """Numbers of the sequence."""
        ids, planes = (np.array([key[axis] for key in self.table], dtype=int) for axis in range(2))
        counts = np.array(list(self.table.values()))
        majority = {number: counts[ids == number].max() for number in np.unique(ids)}
        angles, weights = [], []
        for found in self.sums.values():
            mean = np.sum(found, axis=0)
            for one in found:
                cosine = one @ mean / max(1e-12, float(np.linalg.norm(one) * np.linalg.norm(mean)))
                angles.append(math.degrees(math.acos(min(1.0, max(-1.0, cosine)))))
                weights.append(float(np.linalg.norm(one)))
        shares = np.maximum(1, np.rint(counts / counts.sum() * 20_000)).astype(int)
        return {
            "flicker": self.pairs[0] / max(1, self.pairs[1]),
            "flicker_with_missing": self.pairs[2] / max(1, self.pairs[3]),
            "purity": float(sum(majority.values()) / counts.sum()),
            "agreement": float(normalized_mutual_info_score(np.repeat(planes, shares), np.repeat(ids, shares))),
            "spread_degrees": float(np.average(angles, weights=weights)),
            "labelled": float(np.mean(self.labelled)),
            "ids": len(majority),
            "ids_in_view": median(self.counts),
            "cpu_milliseconds": 1e3 * median(self.seconds),
        } | (
            {"wall": float(np.mean(self.walls)), "wall_of_labelled": float(np.mean(self.walls_of_labelled))}
            if self.walls
            else {}
        )


def frame_planes(sequence: Sequence, normals: list[Normals]) -> np.ndarray:
    """The axes (6, 3) of the orthogonal frame that holds most of the normals in the world."""
    rows = np.concatenate(
        [one.rows(8).astype(float) @ pose[:3, :3].T for one, pose in zip(normals, sequence.poses, strict=True)]
    )
    model = SphericalKMeans(12, random_state=0, n_init=1).fit(rows)
    weights = np.bincount(model.labels_, minlength=12).astype(float)
    axes = Manhattan.of(model.cluster_centers_, weights, max_frames=1).frames[0]
    return np.concatenate([axes, -axes])


def measured(sequence: Sequence, methods: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Every method on one sequence."""
    camera = sequence.camera
    base = [estimate_normals(sequence.view(number).depth, camera) for number in range(0, len(sequence), 4)]
    axes = None
    if not sequence.has_truth:
        sparse = Sequence(sequence.name, camera, sequence.poses[::4], sequence.view)
        axes = frame_planes(sparse, base)
    tallies = {name: Tally() for name in methods}
    made, truth = makers(camera), Tally()
    stages: dict[str, Any] = {name: made[name]() for name in methods if name in made}

    def one_pass(names: list[str], kmeans: KMeansSegmenter | None) -> None:
        before: np.ndarray | None = None
        for number in track(range(len(sequence)), description=f"{sequence.name}: {', '.join(names)}"):
            view, pose = sequence.view(number), sequence.poses[number]
            plain = estimate_normals(view.depth, camera)
            planes = view.planes if axes is None else _nearest_plane(plain, axes @ pose[:3, :3])
            assert planes is not None
            places = None
            if before is not None:
                motion = np.linalg.inv(pose) @ sequence.poses[number - 1]
                places = matches(before, view.depth, motion, camera)
                if kmeans is None and sequence.has_truth:
                    truth.changed(planes, places)
            truth.last = planes
            for name in names:
                start = time.process_time()
                labels = kmeans.labels(plain) if kmeans else stages[name].step(view.depth).labels
                tallies[name].seconds.append(time.process_time() - start)
                if places is not None:
                    tallies[name].changed(labels, places)
                tallies[name].frame(labels, plain, view, planes, pose)
                tallies[name].last = labels
            before = view.depth

    one_pass(list(stages), None)
    if "k-means" in methods:
        one_pass(["k-means"], KMeansSegmenter(max(2, int(median(tallies["ours"].counts)))))
    found = {name: tally.summary() for name, tally in tallies.items()}
    if sequence.has_truth and "ours" in found:
        found["ours"]["flicker_of_truth"] = truth.pairs[0] / max(1, truth.pairs[1])
    return found


def _nearest_plane(normals: Normals, axes: np.ndarray) -> np.ndarray:
    cosines = normals.vectors @ axes.T.astype(np.float32)
    is_near = normals.is_valid & (cosines.max(axis=2) > math.cos(NEAR_PLANE))
    return np.where(is_near, cosines.argmax(axis=2), -1)


# -------------------------------------------------------------------------------------------------------- the page


def show(name: str, result: dict[str, dict[str, float]], console: Console) -> None:
    """One table for a sequence."""
    told = (
        f", flicker of truth {result['ours']['flicker_of_truth']:.4f}" if "flicker_of_truth" in result["ours"] else ""
    )
    table = Table(title=name + (" (settings were chosen on it)" if name in CHOSEN_ON else " (held out)") + told)
    columns = ("flicker", "flicker_with_missing", "purity", "agreement", "wall", "wall_of_labelled", "labelled")
    for column in ("method", *columns, "spread", "ids", "in view", "ms"):
        table.add_column(column.replace("_", " "), justify="left" if column == "method" else "right")
    for method, line in result.items():
        shares = [f"{line[column]:.3f}" if column in line else "" for column in columns]
        table.add_row(
            method,
            *shares,
            f"{line['spread_degrees']:.1f}",
            f"{line['ids']:g}",
            f"{line['ids_in_view']:g}",
            f"{line['cpu_milliseconds']:.0f}",
        )
    console.print(table)


def main() -> None:
    """Measure, show, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", default="after", help="under which name the numbers are stored")
    parser.add_argument("--frames", type=int, default=36, help="of the room")
    parser.add_argument("--drawn", type=int, default=12, help="rooms drawn by a seed")
    parser.add_argument("--only", default="", help="sequences whose name holds this")
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--output", type=Path, default=RESULTS / "vision_quality.json")
    arguments = parser.parse_args()
    console = Console(width=160)
    stored = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    states = stored.get("states", {})
    result = states.setdefault(arguments.state, {})
    command = "python -m benchmarks.vision_quality --state before|after"
    for sequence in sequences(arguments.frames, arguments.drawn, arguments.only):
        result[sequence.name] = result.get(sequence.name, {}) | measured(sequence, tuple(arguments.methods))
        show(sequence.name, result[sequence.name], console)
        measure.store(arguments.output, {"command": command, "chosen_on": CHOSEN_ON, "states": states}, console)


if __name__ == "__main__":
    main()
