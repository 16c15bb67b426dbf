"""Sections 1 and 8: directions that are no surface normals: quaternions, protein backbones, words, sentences.

Quaternions q and -q are one rotation, which no vMF law knows. Here a rotation is the symmetric matrix q q^T, written as
a unit vector of its 10 entries (those off the diagonal times sqrt 2): q and -q are then one vector, and the cosine of
two rotations is (q . q')^2. An angle `phi` between quaternions becomes arccos(cos(phi)^2).

Backbones have two torsion angles, a torus and no sphere: (cos phi, sin phi, cos psi, sin psi) / sqrt 2 lies on S^3.
No recorded backbones are at hand, so torsions are drawn about the usual places of four structures.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation
from sklearn.metrics import adjusted_mutual_info_score

from armillary import DDPvMFMeans, DPvMFMeans, SphericalKMeans
from armillary.metrics import geometric_nmi_score

sys.path.append(str(Path(__file__).parents[2]))  # what papers share
from papers.common import unit

N_ROTATIONS, SPREAD = 12, math.radians(6.0)  # standard deviation of a turn about each axis
LEAST_TURN = math.radians(60.0)  # between two of the rotations
QUATERNION_ANGLE = math.radians(20.0)  # a turn of 40 degrees
# phi and psi in degrees: alpha helix, beta sheet, left-handed helix, polyproline II
TORSIONS = np.radians([(-63.0, -43.0), (-120.0, 130.0), (57.0, 47.0), (-75.0, 150.0)])
TORSION_SPREAD, TORSION_ANGLE = math.radians(8.0), math.radians(28.0)
WORD_ANGLES = (55.0, 65.0, 70.0)
FIRST_SEED = 100
N_STREAM = 5  # batches of a stream


def embedded(quaternions: np.ndarray) -> np.ndarray:
    """Unit vectors (n, 10) that are the same for q and -q."""
    upper = np.triu_indices(4)
    outer = quaternions[:, :, None] * quaternions[:, None, :]
    return outer[:, upper[0], upper[1]] * np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))


def rotations(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Quaternions (n, 4) about rotations that are far apart, each with a random sign, and their labels."""
    rng = np.random.default_rng(seed)
    centers: list[Rotation] = []
    while len(centers) < N_ROTATIONS:
        drawn = Rotation.random(random_state=rng)
        if all((drawn.inv() * one).magnitude() > LEAST_TURN for one in centers):
            centers.append(drawn)
    labels = rng.integers(N_ROTATIONS, size=n_rows)
    turns = Rotation.from_rotvec(rng.normal(scale=SPREAD, size=(n_rows, 3)))
    found = (Rotation.concatenate([centers[k] for k in labels]) * turns).as_quat()
    return found * rng.choice([-1.0, 1.0], size=(n_rows, 1)), labels


def quaternions(n_rows: int, seed: int) -> dict[str, float]:
    """As they are, and as rotations."""
    rows, labels = rotations(n_rows, seed)
    raw = DPvMFMeans(QUATERNION_ANGLE).fit_predict(rows)
    ours = DPvMFMeans(math.acos(math.cos(QUATERNION_ANGLE) ** 2)).fit_predict(embedded(rows))
    return {
        "raw n_clusters": len(np.unique(raw)),
        "raw nmi": geometric_nmi_score(labels, raw),
        "n_clusters": len(np.unique(ours)),
        "nmi": geometric_nmi_score(labels, ours),
    }


def backbones(n_rows: int, seed: int) -> dict[str, float]:
    """Drawn torsions."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(len(TORSIONS), size=n_rows)
    angles = TORSIONS[labels] + rng.normal(scale=TORSION_SPREAD, size=(n_rows, 2))
    rows = np.concatenate([np.cos(angles), np.sin(angles)], axis=1) / math.sqrt(2.0)
    found = DPvMFMeans(TORSION_ANGLE).fit_predict(rows)
    return {"n_clusters": len(np.unique(found)), "nmi": geometric_nmi_score(labels, found)}


def _load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows with classes: words with a supersense, or questions with an intent."""
    if name == "words":
        with np.load(folder / "wordvec_glove" / "glove_pca20.npz") as stored:
            rows, classes = stored["vectors"], stored["supersense"]
    else:
        with np.load(folder / "sent_banking77" / "embeddings.npz") as stored:
            rows, classes = stored["embeddings"], stored["label"]
    is_known = classes >= 0
    return unit(rows[is_known].astype(np.float32)), classes[is_known].astype(np.int64)


def recorded(folder: Path, name: str, degrees: float, seed: int) -> dict[str, float]:
    """One order of the rows: in one batch, as a stream, and spherical k-means told as many clusters."""
    rows, classes = _load(folder, name)
    order = np.random.default_rng(seed).permutation(len(rows))
    rows, classes = rows[order], classes[order]
    angle = math.radians(degrees)
    batch = DPvMFMeans(angle).fit_predict(rows)
    stream = DDPvMFMeans(angle)
    ids = np.concatenate([stream.partial_fit_predict(part) for part in np.array_split(rows, N_STREAM)])
    n_found = len(np.unique(batch))
    told = SphericalKMeans(n_found, n_init=1, random_state=seed).fit_predict(rows)
    shuffled = np.random.default_rng([seed, 1]).permutation(batch)
    return {
        "n_clusters": n_found,
        "n_ids": len(np.unique(ids)),
        **{
            word: float(adjusted_mutual_info_score(classes, labels))
            for word, labels in (("ami", batch), ("stream ami", ids), ("k-means ami", told), ("chance ami", shuffled))
        },
    }


def cases(folder: Path | None, n_rows: int, n_runs: int, n_orders: int) -> dict[str, Callable[[], dict[str, float]]]:
    """All of them by name; nothing runs yet."""
    made: dict[str, Callable[[], dict[str, float]]] = {}
    for run in range(n_runs):
        made[f"quaternions, run {run}"] = partial(quaternions, n_rows, FIRST_SEED + run)
        made[f"backbones, run {run}"] = partial(backbones, n_rows, FIRST_SEED + run)
    if folder is not None:
        for name in ("words", "sentences"):
            for degrees in WORD_ANGLES:
                for run in range(n_orders):
                    made[f"{name} at {degrees:g}, run {run}"] = partial(recorded, folder, name, degrees, run)
    return made


def collected(found: dict[str, Any]) -> dict[str, Any]:
    """Runs by what they are of."""
    by_name: dict[str, Any] = {}
    for key, entry in found.items():
        by_name.setdefault(key.rsplit(", run ", 1)[0], []).append(entry)
    return by_name
