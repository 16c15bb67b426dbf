"""Section 7.2, Figure 6: ids over a stream of surface normals, from a turning view.

Three streams: a made room with a truth, and two recorded ones (where ARMILLARY_SHARED_DATA names the data folder), an
office corridor with a turn of 90 degrees and TUM freiburg1_rpy, a camera that turns about all axes. Recorded streams
have no truth. What comes nearest: all normals of all frames, turned into the world by the camera's poses, where planes
stand still, and clustered at once by DP-vMF-means at the angle with the best silhouette. Ids of a stream are compared
with these planes over all frames together, so an id that moves to another plane counts against it.

The poses of TUM were measured by motion capture; the yaw of the corridor is an estimate from its walls.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import baselines
import numpy as np
from scipy.spatial.transform import Rotation

from armillary import select_max_angle
from armillary.distributions import vmf
from armillary.metrics import cosine_silhouette_score, geometric_nmi_score

PAPER_ANGLE = 100.0
NARROW_ANGLE = 80.0
ROWS_OF_THE_PAPER = 300_000
PAPER_DRIFT = 1e5
PAPER_UNSEEN = 400
# A plane is in sight where it has this share of a frame.
IN_SIGHT = 0.03
REFERENCE_ANGLES = np.radians([60.0, 70.0, 80.0, 90.0, 100.0, 110.0])


@dataclass(frozen=True, eq=False)
class Stream:
    """Frames, the plane of each row, and how the view turned."""

    name: str
    title: str
    frames: np.ndarray  # (T, n, 3) unit, in the camera's coordinates
    planes: np.ndarray  # (T, n) int: the truth, or the nearest to it; -1 for noise
    poses: np.ndarray  # (T, 3, 3) camera to world
    pixels: np.ndarray | None = None  # (T, n) row * 640 + column

    @property
    def rotations(self) -> list[np.ndarray | None]:
        """What turned the directions in the camera's coordinates since the frame before; None for the first."""
        later = [pose.T @ before for before, pose in zip(self.poses[:-1], self.poses[1:], strict=True)]
        return [None, *later]

    @property
    def drift(self) -> float:
        """`drift_concentration` that weighs a frame against memory as the paper's did, which had 300,000 rows."""
        return PAPER_DRIFT * self.frames.shape[1] / ROWS_OF_THE_PAPER


def turning_room(n_rows: int, noise: float = 0.0, every: int = 1, seed: int = 7) -> Stream:
    """A room of six planes; the camera looks ahead, turns by 90 degrees, 3 a frame, looks, and turns back.

    One wall leaves the view in the first turn and comes back in the second. A share `noise` of the rows is uniform.
    """
    yaw = np.radians(np.concatenate([np.zeros(20), np.arange(0, 90, 3), np.full(20, 90), np.arange(90, 0, -3)]))
    yaw = np.concatenate([yaw, np.zeros(20)])[::every]
    poses = Rotation.from_euler("y", yaw[:, None]).as_matrix()
    normals = np.vstack([np.eye(3), -np.eye(3)])  # x right, y down, z ahead
    rng = np.random.default_rng(seed)
    frames, planes = np.empty((len(yaw), n_rows, 3)), np.empty((len(yaw), n_rows), np.int64)
    for frame, plane, pose in zip(frames, planes, poses, strict=True):
        seen = normals @ pose  # in the camera's coordinates
        # a plane shows where its normal points to the camera, or a little away at the edge of a wide view
        shares = np.where(np.abs(normals[:, 1]) > 0.0, 0.5, np.maximum(0.0, 0.4 - seen[:, 2]))
        plane[:] = rng.choice(6, n_rows, p=shares / shares.sum())
        plane[rng.random(n_rows) < noise] = -1
        for k in range(6):
            frame[plane == k] = vmf.sample(seen[k], 80.0, int((plane == k).sum()), rng)
        frame[plane < 0] = vmf.sample(seen[0], 0.0, int((plane < 0).sum()), rng)
    name, title = "room", "a made room, turned by 90 degrees and back"
    if noise:
        name, title = "noisy room", f"{title}, {noise:.0%} noise"
    return Stream(name, title, frames.astype(np.float32), planes, poses)


def corridor(folder: Path, every: int = 1) -> Stream:
    """An office corridor: straight, a turn of 90 degrees (frames 40 to 69), straight, the start of another turn."""
    yaw = np.radians(json.loads((folder / "rgbd_icsl_corridor" / "meta.json").read_text())["yaw_estimate_deg"])
    poses = Rotation.from_euler("y", np.array(yaw)[:, None]).as_matrix()
    title = "an office corridor with a turn of 90 degrees"
    return _recorded("corridor", title, folder / "rgbd_icsl_corridor", poses, every)


def tum(folder: Path, every: int = 1) -> Stream:
    """TUM freiburg1_rpy: a desk; the camera turns about all three axes, to and fro."""
    quaternions = np.load(folder / "rgbd_tum_fr1_rpy" / "poses_tum.npy")[:, 4:8]
    poses = Rotation.from_quat(quaternions).as_matrix()
    return _recorded("tum", "TUM freiburg1_rpy, a camera turned to and fro", folder / "rgbd_tum_fr1_rpy", poses, every)


def _recorded(name: str, title: str, folder: Path, poses: np.ndarray, every: int) -> Stream:
    with np.load(folder / "normals.npz") as stored:
        frames = stored["normals"][::every].astype(np.float32)
        pixels = stored["pixel"][::every].astype(np.int64)
    frames /= np.linalg.norm(frames, axis=-1, keepdims=True)
    poses = poses[::every]
    return Stream(name, title, frames, planes_of(frames, poses), poses, pixels)


def planes_of(frames: np.ndarray, poses: np.ndarray) -> np.ndarray:
    """Labels (T, n) of all rows at once in the world, where planes stand still."""
    world = np.einsum("tij,tnj->tni", poses, frames).reshape(-1, 3).astype(np.float32)
    return select_max_angle(world, REFERENCE_ANGLES).model.labels_.reshape(frames.shape[:2])


def runs_of(stream: Stream, degrees: float) -> dict[str, Callable[[], baselines.Ids]]:
    """Every method on the stream; nothing runs yet."""
    frames, angle = list(stream.frames), math.radians(degrees)
    ours = {"drift_concentration": stream.drift, "max_unseen_steps": PAPER_UNSEEN}

    def ddp(**settings: Any) -> Callable[[], baselines.Ids]:
        return lambda: baselines.ddp(frames, angle, **(ours | settings))

    return {
        "batch": lambda: baselines.batch(frames, angle),
        "sequential": lambda: baselines.sequential(frames, angle),
        "ddp": ddp(),
        "ddp, known rotation": ddp(rotations=stream.rotations),
        "sequential, ids by direction": lambda: baselines.sequential_by_direction(frames, angle),
        "k-means, K = 5": lambda: baselines.spherical_kmeans(frames, 5),
        "ddp, beta = 1e5": ddp(drift_concentration=PAPER_DRIFT),
        "ddp, beta / 10": ddp(drift_concentration=stream.drift / 10),
        "ddp, H = 10": ddp(max_unseen_steps=10),
        "ddp, weights as printed": ddp(weight_update="paper"),
        "ddp, unseen carried along": ddp(carry_unseen=True),
        "ddp, beta = 1e5, known rotation": ddp(drift_concentration=PAPER_DRIFT, rotations=stream.rotations),
    }


def stability(stream: Stream, ids: baselines.Ids) -> dict[str, float]:
    """How steady the ids are.

    n_ids        ids in all
    n_clusters   mean number of ids in a frame
    agreement    NMI of ids and planes over the rows of all frames
    id_changes   how often the main id of a plane in sight is another than when it was last in sight, in 100 sightings
    returns_kept of the planes that come into sight again after at least five frames, the share under the id they had
    silhouette   mean over the frames: how good the clusters of a frame are, whatever their ids
    """
    everything = np.concatenate(ids)
    is_plane = stream.planes.ravel() >= 0
    last_id: dict[int, int] = {}
    last_frame: dict[int, int] = {}
    n_sightings = n_changes = n_returns = n_kept = 0
    for number, (found, planes) in enumerate(zip(ids, stream.planes, strict=True)):
        for plane in np.unique(planes[planes >= 0]).tolist():
            of_plane = found[planes == plane]
            if len(of_plane) < IN_SIGHT * len(found):
                continue
            main = int(np.bincount(of_plane).argmax())
            if plane in last_id:
                n_sightings += 1
                n_changes += main != last_id[plane]
                if number - last_frame[plane] > 5:
                    n_returns += 1
                    n_kept += main == last_id[plane]
            last_id[plane], last_frame[plane] = main, number
    silhouettes = [
        cosine_silhouette_score(frame, found) if len(np.unique(found)) > 1 else 0.0
        for frame, found in zip(stream.frames, ids, strict=True)
    ]
    return {
        "n_ids": len(np.unique(everything)),
        "n_clusters": float(np.mean([len(np.unique(found)) for found in ids])),
        "agreement": geometric_nmi_score(stream.planes.ravel()[is_plane], everything[is_plane]),
        "id_changes": 100.0 * n_changes / max(1, n_sightings),
        "n_returns": n_returns,
        "returns_kept": n_kept / n_returns if n_returns else math.nan,
        "silhouette": float(np.mean(silhouettes)),
    }


def many_rooms(n_rows: int, seed: int, every: int) -> dict[str, dict[str, dict[str, float]]]:
    """Ids in a made room with rows of its own, without noise and with 2% of it: by angle and noise, then method."""
    found = {}
    for noise in (0.0, 0.02):
        stream = turning_room(n_rows, noise, every, seed)
        for degrees in (PAPER_ANGLE, NARROW_ANGLE):
            calls = runs_of(stream, degrees)
            word = f"{degrees:g}, noisy" if noise else f"{degrees:g}"
            found[word] = {name: stability(stream, calls[name]()) for name in ("batch", "sequential", "ddp")}
    return found
