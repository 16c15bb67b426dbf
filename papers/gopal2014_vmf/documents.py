"""Documents: term counts with classes and times as they were recorded, or drawn from topics where nothing was."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

# name -> folder, file of the labels. K9 of the paper is k1a; NEWS20 is 20news; TDT4 and TDT5 have stand-ins.
FOLDERS = {
    "CNAE-9": ("text_cnae9", "labels.npy"),
    "BBC": ("text_bbc", "labels.npy"),
    "re0": ("text_re0", "labels.npy"),
    "fbis": ("text_fbis", "labels.npy"),
    "k1a": ("text_k1a", "labels.npy"),
    "k1b": ("text_k1a", "labels_k1b.npy"),
    "R8": ("text_r8", "labels.npy"),
    "Reuters": ("text_reuters_dated", "labels.npy"),
    "TDT2": ("text_tdt2_dated", "labels.npy"),
    "20 Newsgroups": ("text_20news", "labels.npy"),
    "NIPS": ("text_nips_1987_1999", ""),  # no classes: held-out likelihood only
}
# name -> file of the times, how many of its units make a slice.
TIMES = {"NIPS": ("year.npy", 1), "TDT2": ("day.npy", 7), "Reuters": ("day.npy", 7)}


@dataclass(frozen=True, eq=False)
class Documents:
    """Counts (N, D), CSR; classes (N,) and slices of time (N,), or None where there are none."""

    name: str
    counts: Any
    classes: np.ndarray | None
    slices: np.ndarray | None = None

    @property
    def n_classes(self) -> int:
        """Classes, or 20 topics where there are no classes."""
        return 20 if self.classes is None else len(np.unique(self.classes))


def load(folder: Path, name: str) -> Documents:
    """A recorded set without its empty rows and columns."""
    place, labels = FOLDERS[name]
    counts = sp.load_npz(folder / place / "counts.npz").tocsr().astype(np.float64)
    is_filled = np.diff(counts.indptr) > 0
    classes = np.load(folder / place / labels)[is_filled] if labels else None
    slices = None
    if name in TIMES:
        times, unit = TIMES[name]
        slices = (np.load(folder / place / times)[is_filled] // unit).astype(np.int64)
    counts = counts[is_filled]
    return Documents(name, counts[:, np.diff(counts.tocsc().indptr) > 0].tocsr(), classes, slices)


def drawn(n_rows: int, n_features: int, n_topics: int, seed: int) -> Documents:
    """Documents of 60 words or so, each about one of a few topics, over words that all topics share."""
    generator = np.random.default_rng(seed)
    common = 1.0 / (10.0 + np.arange(n_features))
    common /= common.sum()
    topics = 0.6 * common + 0.4 * generator.dirichlet(np.full(n_features, 0.05), n_topics)
    classes = np.arange(n_rows) % n_topics
    lengths = 1 + generator.poisson(60, n_rows)
    rows = np.stack(
        [generator.multinomial(n, topics[k] / topics[k].sum()) for n, k in zip(lengths, classes, strict=True)]
    )
    slices = np.arange(n_rows) * 5 // n_rows
    return Documents(f"{n_topics} topics", sp.csr_matrix(rows, dtype=np.float64), classes, slices)


def tf_idf(counts: Any, train: np.ndarray | None = None) -> Any:
    """Rows of unit length: count times log((1 + N)/(1 + df)) + 1, df of all rows or of the training rows alone."""
    weigh = TfidfTransformer(norm="l2", smooth_idf=True, sublinear_tf=False)
    weigh.fit(counts if train is None else counts[train])
    return sp.csr_matrix(weigh.transform(counts))
