"""Rows that every peer gets alike: fixed seeds, made once, kept in a temporary folder.

W1   300,000 x 3        surface normals of one frame: 7 vMF clusters and 5% noise
W2   100,000 x 384      embeddings, 100 clusters with pair cosine 0.6
W2b   20,000 x 768      wider embeddings
W2c 1,000,000 x 128     many embeddings
W3    18,744 x 53,975   TF-IDF documents, CSR
W2r, W3r                real sentences and newsgroups, where ARMILLARY_SHARED_DATA names the data folder

With the cluster of every row (`load_labelled`): W1, W2s, 20,000 x 384 like W2, and W4, a stream of 20,000 x 256, 200
clusters with pair cosine 0.7. As frames (`load_stream`): W1s, a
scene like that of W1, turned by 3 degrees a frame.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from armillary.datasets import make_drifting_mixture, make_sparse_topics, make_vmf_mixture

FOLDER = Path(os.environ.get("ARMILLARY_BENCH_DATA", Path(tempfile.gettempdir()) / "armillary-bench"))
STARTS_SEED = 1
SHARED = os.environ.get("ARMILLARY_SHARED_DATA")


@dataclass(frozen=True)
class Workload:
    """Rows and the first directions that all peers start from."""

    name: str
    rows: Any
    starts: np.ndarray  # (K, D) float32

    @property
    def n_clusters(self) -> int:
        """How many clusters are asked for."""
        return len(self.starts)

    @property
    def n_bytes(self) -> int:
        """Size of the rows."""
        if sp.issparse(self.rows):
            return self.rows.data.nbytes + self.rows.indices.nbytes + self.rows.indptr.nbytes
        return self.rows.nbytes


_SCENE: dict[str, Any] = {"concentration": (20.0, 200.0), "min_angle": 0.7, "noise": 0.05, "dtype": np.float32}


def _labelled_normals() -> tuple[np.ndarray, np.ndarray]:
    rows, labels, _ = make_vmf_mixture(300_000, 3, 7, random_state=1, **_SCENE)
    return rows, labels


def _labelled_embeddings(
    n_rows: int, n_features: int, seed: int, pair_cosine: float = 0.6, n_clusters: int = 100
) -> tuple[np.ndarray, np.ndarray]:
    """Rows around random directions; the mean cosine of two rows of a cluster is `pair_cosine`."""
    generator = np.random.default_rng(seed)
    centers = generator.standard_normal((n_clusters, n_features), dtype=np.float32)
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    shares = np.maximum(generator.dirichlet(np.full(n_clusters, 2.0)), 0.1 / n_clusters)
    labels = generator.choice(n_clusters, n_rows, p=shares / shares.sum())
    spread = np.float32(np.sqrt((1.0 / pair_cosine - 1.0) / n_features))
    rows = np.empty((n_rows, n_features), np.float32)
    for start in range(0, n_rows, 65_536):
        part = labels[start : start + 65_536]
        noisy = centers[part] + spread * generator.standard_normal((len(part), n_features), dtype=np.float32)
        rows[start : start + len(part)] = noisy / np.linalg.norm(noisy, axis=1, keepdims=True)
    return rows, labels


def _normals() -> np.ndarray:
    return _labelled_normals()[0]


def _embeddings(n_rows: int, n_features: int, seed: int) -> np.ndarray:
    return _labelled_embeddings(n_rows, n_features, seed)[0]


def _documents() -> sp.csr_array:
    rows, _, _ = make_sparse_topics(18_744, 53_975, 20, random_state=3)
    return rows


def _sentences() -> np.ndarray:
    """banking77: 13,083 sentence embeddings, 384 columns, 77 intents."""
    rows = np.load(Path(SHARED or "") / "sent_banking77" / "embeddings.npz")["embeddings"].astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _newsgroups() -> sp.csr_matrix:
    """20 Newsgroups, TF-IDF."""
    from sklearn.feature_extraction.text import TfidfTransformer

    counts = sp.load_npz(Path(SHARED or "") / "text_20news" / "counts.npz").tocsr().astype(np.float64)
    return TfidfTransformer().fit_transform(counts[np.diff(counts.indptr) > 0])


_MAKERS: dict[str, tuple[Callable[[], Any], int]] = {
    "W1": (_normals, 7),
    "W2": (lambda: _embeddings(100_000, 384, seed=2), 100),
    "W2b": (lambda: _embeddings(20_000, 768, seed=22), 100),
    "W2c": (lambda: _embeddings(1_000_000, 128, seed=23), 100),
    "W3": (_documents, 20),
}
if SHARED:
    _MAKERS |= {"W2r": (_sentences, 77), "W3r": (_newsgroups, 20)}
NAMES = tuple(_MAKERS)


def load(name: str) -> Workload:
    """The workload, made on first use."""
    maker, n_clusters = _MAKERS[name]
    path = FOLDER / name
    if not path.with_suffix(".npy").exists() and not path.with_suffix(".npz").exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        made = maker()
        if sp.issparse(made):
            sp.save_npz(path.with_suffix(".npz"), sp.csr_matrix(made), compressed=False)
        else:
            np.save(path.with_suffix(".npy"), made)
    rows: Any = (
        np.load(path.with_suffix(".npy"))
        if path.with_suffix(".npy").exists()
        else sp.load_npz(path.with_suffix(".npz"))
    )
    # from these starts W1, W2, W2b and W3 have not converged after 11 steps
    chosen = np.random.default_rng(STARTS_SEED).choice(rows.shape[0], n_clusters, replace=False)
    starts = rows[np.sort(chosen)]
    dense = starts.toarray() if sp.issparse(starts) else starts
    return Workload(name, rows, np.ascontiguousarray(dense, dtype=np.float32))


_LABELLED: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "W1": _labelled_normals,
    "W2s": lambda: _labelled_embeddings(20_000, 384, seed=24),
    "W4": lambda: _labelled_embeddings(20_000, 256, seed=4, pair_cosine=0.7, n_clusters=200),
}


def load_labelled(name: str) -> tuple[Path, np.ndarray, np.ndarray]:
    """Where the rows are stored, for other processes; the rows; the cluster of each, -1 for noise."""
    rows_path, labels_path = FOLDER / f"{name}-rows.npy", FOLDER / f"{name}-labels.npy"
    if not labels_path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        rows, labels = _LABELLED[name]()
        np.save(rows_path, rows)
        np.save(labels_path, labels)
    return rows_path, np.load(rows_path), np.load(labels_path)


def load_stream(n_rows: int, n_frames: int, is_present: np.ndarray | None = None) -> tuple[list[Any], list[Any]]:
    """Frames of a scene like W1's, each turned by 3 degrees more, and the cluster of every row, -1 for noise."""
    if is_present is None:
        is_present = np.ones((n_frames, 7), dtype=np.bool_)  # a drawn one would make the scene depend on n_frames
    frames, labels, _ = make_drifting_mixture(
        n_rows, 3, 7, n_frames, rotation=math.radians(3.0), is_present=is_present, random_state=1, **_SCENE
    )
    return frames, labels
