"""Section 9, Figures 5 and 6: the words of a topic over the years, and mean directions that move on a sphere.

Figure 5     30 topics of NIPS, 1987 to 1999 (the paper: to 2003); words with the largest weight every three years, of
             the topic in whose first year the paper's words of neurons weigh most
Figure 6     NIPS on its first three principal components, then on the sphere; 5 topics over the years
"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path
from typing import Any

import numpy as np
from documents import FOLDERS, Documents, tf_idf
from methods import make_start
from sklearn.decomposition import TruncatedSVD

import armillary
from armillary.geometry import sphere

sys.path.append(str(Path(__file__).parents[2]))  # what papers share
from papers.common import unit

N_TOPICS, N_ON_THE_SPHERE = 30, 5
PAPER_WORDS = ("excitatory", "inhibitory", "activity", "synaptic", "firing", "cells")  # its topic in 1987
N_WORDS, EVERY = 8, 3
N_STARTS = 5  # of Figure 6


def vocabulary(folder: Path) -> list[str]:
    """The words of NIPS, one for each column."""
    return lzma.decompress((folder / FOLDERS["NIPS"][0] / "vocab.txt.xz").read_bytes()).decode().split()


def _fitted(rows: Any, documents: Documents, n_topics: int, seed: int = 1) -> Any:
    start = make_start(rows, n_topics, "k-means++", seed).directions
    model = armillary.TemporalVonMisesFisherMixture(n_topics, init=start, random_state=seed, n_threads=1)
    return model.fit(rows, times=documents.slices)


def words_over_time(documents: Documents, words: list[str]) -> tuple[dict[str, Any], Any]:
    """Figure 5: numbers, and the model behind them."""
    model = _fitted(tf_idf(documents.counts), documents, N_TOPICS)
    columns = [words.index(word) for word in PAPER_WORDS if word in words]
    topic = int(model.means_[0][:, columns].sum(axis=1).argmax())
    years = model.times_[::EVERY]
    lists = {
        str(int(year)): [words[number] for number in np.argsort(-direction)[:N_WORDS]]
        for year, direction in zip(years, model.means_[::EVERY, topic], strict=True)
    }
    turned = sphere.angle(model.means_[0], model.means_[-1])
    numbers = {
        "topic": topic,
        "lists": lists,
        "drift, degrees": float(np.degrees(model.drift_angle_)),
        "turned, degrees": np.degrees(turned).tolist(),
        "changed": [
            len(set(np.argsort(-one)[:N_WORDS].tolist()) - set(np.argsort(-last)[:N_WORDS].tolist()))
            for one, last in zip(model.means_[0], model.means_[-1], strict=True)
        ],
    }
    return numbers, model


def on_the_sphere(documents: Documents) -> tuple[dict[str, Any], Any, np.ndarray]:
    """Figure 6: numbers, the model, and the rows (n, 3) it was fitted to."""
    # the first axis of counts is their mean; principal components are those about it
    reduced = TruncatedSVD(4, random_state=0).fit_transform(tf_idf(documents.counts))[:, 1:]
    rows = unit(reduced - reduced.mean(axis=0))
    models = [_fitted(rows, documents, N_ON_THE_SPHERE, seed) for seed in range(1, 1 + N_STARTS)]
    model = models[0]
    numbers = {
        "years": [int(year) for year in model.times_],
        "turned, degrees": np.degrees(sphere.angle(model.means_[0], model.means_[-1])).tolist(),
        "of every start": [np.degrees(sphere.angle(one.means_[0], one.means_[-1])).tolist() for one in models],
        "drift, degrees": float(np.degrees(model.drift_angle_)),
    }
    return numbers, model, rows
