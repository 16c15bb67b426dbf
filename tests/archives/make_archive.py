"""Write the archive of this release: a small model of each class as `save` writes it, and what it must answer.

Run once, when a release is made: python tests/archives/make_archive.py. Archives of earlier releases are never
written again; the test beside this script loads them all, for ever.
"""

from __future__ import annotations

import json
from pathlib import Path

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


def write(name: str, model: armillary.SphericalKMeans, rows: np.ndarray) -> None:
    """`name`_`version`.safetensors and, beside it, a JSON file with rows and what the model says of them."""
    stem = DATA / f"{name}_{armillary.__version__}"
    expected = {
        "class": type(model).__name__,
        "rows": rows.tolist(),
        "predict": model.predict(rows).tolist(),
        "transform": model.transform(rows).tolist(),
        "n_rows_fitted": len(model.labels_),
        "n_iter_": model.n_iter_,
        "inertia_": model.inertia_,
        "cluster_centers_": model.cluster_centers_.tolist(),
        "init": np.asarray(model.init).tolist(),
    }
    answers = Path(f"{stem}.json")
    with answers.open("x", encoding="utf-8") as stream:  # "x": an archive is written once
        json.dump(expected, stream, indent=1)
        stream.write("\n")
    armillary.save(model, f"{stem}.safetensors")


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    write("spherical_kmeans", *make_spherical_kmeans())
