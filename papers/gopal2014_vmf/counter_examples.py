"""Where tied vMFmix is below k-means, and what those collections have in common.

Recorded vectors that are not text: dense embeddings of sentences, faces, voices and words, from the same starts as the
text. Of every collection, text or not, three things are measured by its true classes:

length    mean resultant length of a class: how far its mean is from 0. k-means weighs the length of a mean against the
          cosine, |x - m|^2 = 1 + |m|^2 - 2 x . m, which matters where means are short and of different lengths
spread    standard deviation of those lengths over their mean
evenness  exp(entropy of the class sizes) / classes: 1 for classes of one size
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from methods import make_start, measure

sys.path.append(str(Path(__file__).parents[2]))  # what papers share
from papers.common import unit

METHODS = ("vMFmix tied", "k-means", "spherical k-means")
_FILES = {
    "AG News": ("sent_agnews/embeddings.npz", "embeddings", "label"),
    "Banking77": ("sent_banking77/embeddings.npz", "embeddings", "label"),
    "faces": ("face_lfw/embeddings.npz", "embeddings", "person"),
    "faces, centred": ("face_lfw/embeddings.npz", "embeddings_centred", "person"),
    "voices": ("voice_librispeech/test_other.npz", "window_embeddings", "window_speaker"),
    "words": ("wordvec_glove/glove_pca20.npz", "vectors", "supersense"),
}
MOST_ROWS = 6000
QUANTITIES = ("length", "spread", "evenness")


def load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, D) and classes, those of the first `MOST_ROWS` that have one."""
    file, rows, classes = _FILES[name]
    with np.load(folder / file) as stored:
        vectors, codes = stored[rows], np.unique(stored[classes], return_inverse=True)[1]
        is_known = stored[classes] >= 0 if name == "words" else np.ones(len(codes), dtype=bool)
    chosen = np.random.default_rng(0).permutation(np.flatnonzero(is_known))[:MOST_ROWS]
    return unit(vectors[chosen].astype(np.float64)), np.unique(codes[chosen], return_inverse=True)[1]


def quantities(rows: Any, classes: np.ndarray) -> dict[str, float]:
    """What is measured of a collection."""
    labels, counts = np.unique(classes, return_counts=True)
    lengths = np.array([np.linalg.norm(np.asarray(rows[classes == k].mean(axis=0))) for k in labels])
    shares = counts / counts.sum()
    return {
        "length": float(shares @ lengths),
        "spread": float(lengths.std() / lengths.mean()),
        "evenness": float(np.exp(-np.sum(shares * np.log(shares))) / len(labels)),
    }


def dense(folder: Path, name: str, kind: str, seed: int) -> dict[str, float]:
    """NMI of each method from one start."""
    rows, classes = load(folder, name)
    start = make_start(rows, len(np.unique(classes)), kind, seed)
    return {method: measure(method, rows, None, classes, start)["NMI"] for method in METHODS}


NAMES = tuple(_FILES)
