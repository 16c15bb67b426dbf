"""Section 5.2, Figure 4: surface normals of real depth frames, about 300,000 of each, and of the scenes of NYU v2.

The paper smooths normals by total variation and starts DP-TGMM and DP-GMM from two clusters with nu = 10,000 and
Delta = (12 degrees)^2 nu, which holds every cluster near a standard deviation of 12 degrees; spherical k-means has
K = 7. The same is done here. The stored normals of NYU v2 are 2,048 of each scene; there nu is scaled with the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from armillary import DirichletProcessMixture, DPvMFMeans, SphericalKMeans
from armillary.geometry import sphere
from armillary.metrics import geometric_nmi_score
from armillary.vision import Camera, Normals, estimate_normals, make_room_walk, read_depth_image

FRAMES = ("nyu2_raw_kinect", "mit_hallway_0", "redwood_0")
TANGENT, EUCLIDEAN, KMEANS = "DP-TGMM", "DP-GMM", "spherical k-means, K = 7"
SPREAD, DEGREES_OF_FREEDOM = math.radians(12.0), 10_000.0  # of the paper's prior
ROWS_OF_THE_PAPER = 300_000
LARGE = 0.01  # share of the rows from which on a cluster counts as large
AUTHORS_LAMBDA = -0.06  # of the run of DP-vMF-means that the authors show on their set

Track = Callable[..., Any]


class Frame(NamedTuple):
    """A depth image and what is known of it."""

    name: str
    depth: np.ndarray  # (H, W)
    camera: Camera
    directions: np.ndarray | None = None  # (H, W) which true direction each pixel has, -1 where none; None: unknown


class Segmented(NamedTuple):
    """A frame with the clusters of each method."""

    frame: Frame
    normals: Normals
    labels: dict[str, np.ndarray]  # each (n,)


def priors(n_rows: int) -> dict[str, Any]:
    """The paper's start and prior, which weighs against so many rows as it did against its own."""
    degrees = DEGREES_OF_FREEDOM * min(1.0, n_rows / ROWS_OF_THE_PAPER)
    return {"init": 2, "spread_prior": SPREAD, "degrees_of_freedom_prior": max(degrees, 8.0)}


def sampled(component: str, rows: np.ndarray, n_burn_in: int, n_draws: int, seed: int = 0) -> Any:
    """A fitted chain of either kind of Gaussian."""
    return DirichletProcessMixture(
        component, n_burn_in=n_burn_in, n_draws=n_draws, random_state=seed, **priors(len(rows))
    ).fit(rows)


def describe(rows: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Numbers of clusters, and how far rows are from the mean direction of theirs."""
    counts = np.bincount(labels)
    sums = np.stack([np.bincount(labels, column) for column in rows.T], axis=1)
    directions = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    angles = np.degrees(sphere.angle(rows.astype(np.float64), directions[labels]))
    return {
        "n_clusters": int((counts > 0).sum()),
        "n_large": int((counts >= LARGE * len(rows)).sum()),
        "mean_angle": float(angles.mean()),
        "far_share": float((angles > 30.0).mean()),
    }


def coherence(normals: Normals, labels: np.ndarray) -> float:
    """The share of neighbouring pixels, side by side or one above the other, that are in the same cluster."""
    image = normals.image_of(labels)
    pairs = [(image[:, 1:], image[:, :-1]), (image[1:], image[:-1])]
    are_equal = [(one == two)[(one >= 0) & (two >= 0)] for one, two in pairs]
    return float(np.concatenate(are_equal).mean())


def recorded(folder: Path, name: str) -> Frame:
    """A frame of the shared data."""
    camera = Camera.from_file(folder / "depth_frames" / "meta.json", name)
    return Frame(name, read_depth_image(folder / "depth_frames" / f"{name}.png"), camera)


def drawn(width: int, height: int, place: float = 0.5, seed: int = 0) -> Frame:
    """A furnished room whose planes are known, seen by a depth camera with noise, at a place of its walk (0 to 1)."""
    walk = make_room_walk(60, width=width, height=height, random_state=seed)
    seen = walk[round(59 * place)]
    return Frame("a made room", seen.depth, walk.camera, seen.direction_ids)


def segment(frame: Frame, n_burn_in: int, n_draws: int, seed: int = 0) -> tuple[dict[str, Any], Segmented]:
    """Every method on the normals of one frame."""
    normals = estimate_normals(frame.depth, frame.camera, smoothing="total_variation")
    rows = normals.rows()
    labels, found = {}, {}
    for method, fit in {
        KMEANS: lambda: SphericalKMeans(7, random_state=seed).fit(rows),
        EUCLIDEAN: lambda: sampled("gaussian", rows, n_burn_in, n_draws, seed),
        TANGENT: lambda: sampled("tangent_gaussian", rows, n_burn_in, n_draws, seed),
    }.items():
        model = fit()
        labels[method] = model.labels_
        found[method] = {**describe(rows, model.labels_), "coherence": coherence(normals, model.labels_)}
        if method != KMEANS:
            found[method]["trace"] = model.trace_[0, :, 0].astype(int).tolist()
            found[method]["log_joint"] = float(model.trace_[0, -1, 2])
        if frame.directions is not None:
            truth = frame.directions[normals.is_valid]
            found[method]["nmi"] = geometric_nmi_score(truth[truth >= 0], model.labels_[truth >= 0])
    return {"n_rows": len(rows), "methods": found}, Segmented(frame, normals, labels)


def scenes(folder: Path, n_scenes: int, n_burn_in: int, n_draws: int, track: Track) -> dict[str, Any]:
    """Both kinds of Gaussian on stored normals of NYU v2."""
    with np.load(folder / "nyu2" / "normals.npz") as stored:
        normals = stored["normals"]
    chosen = normals[:: max(1, len(normals) // n_scenes)][:n_scenes].astype(np.float64)
    chosen /= np.linalg.norm(chosen, axis=-1, keepdims=True)
    found: dict[str, list[dict[str, Any]]] = {TANGENT: [], EUCLIDEAN: []}
    for rows in track(chosen, f"{len(chosen)} scenes of NYU v2"):
        for method, component in ((TANGENT, "tangent_gaussian"), (EUCLIDEAN, "gaussian")):
            labels = sampled(component, rows, n_burn_in, n_draws).labels_
            found[method].append(describe(rows, labels))
    return {
        "n_scenes": len(chosen),
        "n_rows": chosen.shape[1],
        "methods": {
            method: {what: [line[what] for line in lines] for what in ("n_clusters", "n_large", "mean_angle")}
            for method, lines in found.items()
        },
    }


def _bundled_rows(folder: Path) -> np.ndarray:
    """The 10,000 rows that the authors ship."""
    with np.load(folder / "directions" / "straub_sphere_synthetic.npz") as stored:
        return np.asarray(stored["xyz"], dtype=np.float64)


def bundled_model(folder: Path, seed: int, n_burn_in: int, n_draws: int) -> tuple[np.ndarray, Any]:
    """The authors' rows, and a chain on them."""
    rows = _bundled_rows(folder)
    return rows, DirichletProcessMixture(n_burn_in=n_burn_in, n_draws=n_draws, random_state=seed).fit(rows)


def bundled(folder: Path, seed: int, n_burn_in: int, n_draws: int) -> dict[str, Any]:
    """What one chain on the authors' rows finds."""
    _, model = bundled_model(folder, seed, n_burn_in, n_draws)
    return {
        "n_clusters": model.n_clusters_,
        "mean_n_clusters": float(model.trace_[0, model.n_discarded_ :, 0].mean()),
    }


def bundled_means(folder: Path) -> dict[str, Any]:
    """DP-vMF-means at the authors' lambda."""
    angle = math.acos(1.0 + AUTHORS_LAMBDA)
    return {"degrees": math.degrees(angle), "n_clusters": DPvMFMeans(angle).fit(_bundled_rows(folder)).n_clusters_}
