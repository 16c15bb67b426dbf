"""Write the archive of this release: a small model of each class as `save` writes it, and what it must answer.

Run once, when a release is made: python tests/archives/make_archive.py. Archives that are there are never written
again; the test beside this script loads them all, for ever.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import armillary

DATA = Path(__file__).parent / "data"


def three_bundles(n_rows: int, seed: int) -> np.ndarray:
    """Rows (n, 3) around the three axes; not normalised, as a user's rows."""
    generator = np.random.default_rng(seed)
    return np.eye(3)[np.arange(n_rows) % 3] + 0.3 * generator.normal(size=(n_rows, 3))


def make_spherical_kmeans() -> tuple[armillary.SphericalKMeans, np.ndarray]:
    """The model, and rows it has not seen."""
    start = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]], dtype=np.float32)
    model = armillary.SphericalKMeans(n_clusters=3, init=start, tol=0.0, random_state=7, n_threads=1)
    return model.fit(three_bundles(50, seed=0)), three_bundles(12, seed=1)


def make_dp_vmf_means() -> tuple[armillary.DPvMFMeans, np.ndarray]:
    """The model after a fit with weights and a batch that opened a cluster, and rows it has not seen."""
    model = armillary.DPvMFMeans(0.9, max_clusters=6, n_init=2, tol=0.0, random_state=7, n_threads=1)
    model.fit(three_bundles(50, seed=0), sample_weight=1.0 + np.arange(50) % 3)
    return model.partial_fit(np.array([[-1.0, -0.1, 0.1]])), three_bundles(12, seed=1)


def make_ddp_vmf_means() -> tuple[armillary.DDPvMFMeans, np.ndarray]:
    """The model in mid-stream, with clusters seen, away and dead, and the rows of the next step."""
    model = armillary.DDPvMFMeans(
        0.9, drift_concentration=1e4, max_unseen_steps=4, missing="flag", max_history=6, n_threads=1
    )
    rows = three_bundles(60, seed=0)
    rows[5] = np.nan
    model.partial_fit(-rows[:7:2]).partial_fit(rows)
    for step in range(2, 5):
        frame = three_bundles(30, seed=step)
        model.partial_fit(frame[np.arange(30) % 3 != step % 2])
    return model, three_bundles(12, seed=1)


def expected_of(model: Any, rows: np.ndarray) -> dict[str, Any]:
    """What the model says: every fitted attribute, and its answers for the rows."""
    fitted = {name: value for name, value in vars(model).items() if name.endswith("_") and not name.startswith("_")}
    return {
        "class": type(model).__name__,
        "rows": rows.tolist(),
        "predict": model.predict(rows).tolist(),
        "params": {name: value for name, value in model.get_params().items() if name != "callbacks"},
        "fitted": {name: np.asarray(value).tolist() for name, value in fitted.items()},
    }


def after_another_step(model: Any, rows: np.ndarray) -> dict[str, Any]:
    """What the model says when the rows are its next batch."""
    model.partial_fit(rows)
    return {"labels_": model.labels_.tolist(), "directions": model.cluster_centers_.tolist()}


def write(name: str, model: Any, rows: np.ndarray) -> None:
    """`name`_`version`.safetensors and, beside it, a JSON file with rows and what the model says of them."""
    stem = DATA / f"{name}_{armillary.__version__}"
    answers = Path(f"{stem}.json")
    if answers.exists():  # an archive is written once
        return
    expected = expected_of(model, rows)
    armillary.save(model, f"{stem}.safetensors")
    expected["next"] = after_another_step(model, rows)
    with answers.open("x", encoding="utf-8") as stream:
        json.dump(expected, stream, indent=1)
        stream.write("\n")


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    write("spherical_kmeans", *make_spherical_kmeans())
    write("dp_vmf_means", *make_dp_vmf_means())
    write("ddp_vmf_means", *make_ddp_vmf_means())
