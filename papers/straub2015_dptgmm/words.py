"""Section 5.3, Figure 5: 41,000 English words as directions in 20 dimensions.

The paper has its own vectors, 20-dimensional word2vec of Wikipedia; here they are GloVe vectors of Wikipedia and
Gigaword, projected to 20 dimensions. Agreement with WordNet's lexicographer files ("supersenses": food, person, motion)
says whether clusters mean something; a word has the file of its most frequent sense, about half have none.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_mutual_info_score
from synthetic import log_density

from armillary import DirichletProcessMixture, SphericalKMeans
from armillary.metrics import purity_score
from armillary.plots.tangent import round_condition_numbers

N_CENTROIDS = 20  # the paper's start
SEEDS = ("investors", "symphony", "catholic", "restaurants", "parliament", "vegetables")  # of the paper's six clusters
AXES_OF = "germany"  # the word whose cluster is shown in its axes, as in the paper
ENOUGH_WORDS, N_PERMUTATIONS = 50, 199  # words with a supersense, for the test of the axes


class Vocabulary(NamedTuple):
    """Words and their directions."""

    rows: np.ndarray  # (n, 20) unit
    words: list[str]
    senses: np.ndarray  # (n,) -1 where there is none
    sense_names: list[str]


def load(folder: Path, n_words: int | None = None) -> Vocabulary:
    """The most frequent words first."""
    home = folder / "wordvec_glove"
    with np.load(home / "glove_pca20.npz") as stored:
        rows, senses = stored["vectors"][:n_words].astype(np.float64), stored["supersense"][:n_words].astype(np.int64)
    words = lzma.decompress((home / "words.txt.xz").read_bytes()).decode().split("\n")[: len(rows)]
    names = json.loads((home / "supersense_names.json").read_text())
    return Vocabulary(rows / np.linalg.norm(rows, axis=1, keepdims=True), words, senses, list(names.values()))


def most_likely(model: Any, vocabulary: Vocabulary, cluster: int, n: int = 10) -> list[str]:
    """The words of a cluster with the highest density under it."""
    members = np.flatnonzero(model.labels_ == cluster)
    scores = log_density(vocabulary.rows[members], model.means_[cluster], model.covariances_[cluster])
    return [vocabulary.words[number] for number in members[np.argsort(-scores)[:n]]]


def meaning(labels: np.ndarray, senses: np.ndarray) -> dict[str, float]:
    """Agreement with the supersenses, over the words that have one: 0 is chance."""
    is_known = senses >= 0
    return {
        "ami": float(adjusted_mutual_info_score(senses[is_known], labels[is_known])),
        "purity": purity_score(senses[is_known], labels[is_known]),
    }


def main_senses(labels: np.ndarray, vocabulary: Vocabulary, cluster: int) -> list[tuple[str, float]]:
    """The two most frequent supersenses of a cluster, with their shares of the words that have one."""
    senses = vocabulary.senses[(labels == cluster) & (vocabulary.senses >= 0)]
    counts = np.bincount(senses, minlength=len(vocabulary.sense_names))
    best = np.argsort(-counts, kind="stable")[:2]
    return [(vocabulary.sense_names[sense], float(counts[sense] / max(1, counts.sum()))) for sense in best]


def run(vocabulary: Vocabulary, n_sweeps: int) -> tuple[dict[str, Any], Any]:
    """The clusters from the default start, by one seed, in full."""
    model = _fitted(vocabulary, n_sweeps, 0)
    numbers = model.condition_numbers()
    counts = np.bincount(model.labels_)
    known = {word: number for number, word in enumerate(vocabulary.words)}
    seeds = {word: int(model.labels_[known[word]]) for word in (*SEEDS, AXES_OF) if word in known}
    shown = list(dict.fromkeys([*seeds.values(), *np.argsort(-counts)[:6].tolist()]))
    results = {
        "n_words": len(vocabulary.rows),
        "spread": model.spread_,
        "trace": model.trace_[0, :, 0].astype(int).tolist(),
        "condition_numbers": np.sort(numbers).tolist(),
        "counts": np.sort(counts)[::-1].tolist(),
        "clusters": [
            {
                "cluster": cluster,
                "of": [word for word, own in seeds.items() if own == cluster],
                "n_words": int(counts[cluster]),
                "condition_number": float(numbers[cluster]),
                "most_likely": most_likely(model, vocabulary, cluster),
                "senses": main_senses(model.labels_, vocabulary, cluster),
            }
            for cluster in shown
        ],
        "ends": ends(model, vocabulary, seeds[AXES_OF]) if AXES_OF in seeds else None,
        **_numbers(model, vocabulary, 0),
    }
    return results, model


def by_seed(vocabulary: Vocabulary, n_sweeps: int, seed: int) -> dict[str, Any]:
    """The numbers of `run` that are judged, by another seed."""
    return _numbers(_fitted(vocabulary, n_sweeps, seed), vocabulary, seed)


def _fitted(vocabulary: Vocabulary, n_sweeps: int, seed: int) -> Any:
    n_kept = max(1, n_sweeps // 4)
    model = DirichletProcessMixture(n_burn_in=n_sweeps - n_kept, n_draws=n_kept, random_state=seed)
    return model.fit(vocabulary.rows)


def _numbers(model: Any, vocabulary: Vocabulary, seed: int) -> dict[str, Any]:
    """What the lines on meaning, condition numbers and axes are judged by."""
    kmeans = SphericalKMeans(model.n_clusters_, n_init=1, random_state=seed).fit(vocabulary.rows)
    shuffled = np.random.default_rng(seed).permutation(model.labels_)
    found = model.condition_numbers()
    counts = np.bincount(model.labels_)
    expected = float(np.median(round_condition_numbers(counts, vocabulary.rows.shape[1] - 1)))
    return {
        "n_sweeps": int(model.trace_.shape[1]),
        "n_clusters": model.n_clusters_,
        "log_joint": float(model.trace_[0, -1, 2]),
        "round_condition_number": expected,
        "share_above_round": float(np.mean(found > expected)),
        "meaning": {
            "DP-TGMM": meaning(model.labels_, vocabulary.senses),
            "spherical k-means, as many clusters": meaning(kmeans.labels_, vocabulary.senses),
            "DP-TGMM's clusters, words shuffled": meaning(shuffled, vocabulary.senses),
        },
        "axes": axes(model, vocabulary, np.random.default_rng([seed, 1])),
    }


def axes(model: Any, vocabulary: Vocabulary, rng: np.random.Generator) -> dict[str, Any]:
    """In how many clusters the supersenses of the outer fifths of an axis differ more than shuffled ones do, at 5%."""
    differing: dict[str, list[bool]] = {"first": [], "second": []}
    for cluster in range(model.n_clusters_):
        members = np.flatnonzero((model.labels_ == cluster) & (vocabulary.senses >= 0))
        if len(members) < ENOUGH_WORDS:
            continue
        places = model.tangent_coordinates(vocabulary.rows[members], cluster)
        for axis, name in enumerate(differing):
            order = np.argsort(places[:, axis], kind="stable")
            fifth = len(order) // 5
            senses = vocabulary.senses[members[np.concatenate([order[:fifth], order[-fifth:]])]]
            differing[name].append(_differ(senses, fifth, rng))
    return {"n_clusters": len(differing["first"])} | {name: int(sum(found)) for name, found in differing.items()}


def _differ(senses: np.ndarray, n_first: int, rng: np.random.Generator) -> bool:
    """Whether the first of them and the rest differ, by a permutation test of the counts."""

    def gap(order: np.ndarray) -> int:
        is_first = order < n_first
        counts = [np.bincount(senses[chosen], minlength=int(senses.max()) + 1) for chosen in (is_first, ~is_first)]
        return int(np.abs(counts[0] - counts[1]).sum())

    seen = gap(np.arange(len(senses)))
    n_as_far = sum(gap(rng.permutation(len(senses))) >= seen for _ in range(N_PERMUTATIONS))
    return (1 + n_as_far) / (1 + N_PERMUTATIONS) <= 0.05


def ends(model: Any, vocabulary: Vocabulary, cluster: int, n: int = 8) -> dict[str, Any]:
    """Words at both ends of the two main axes of a cluster."""
    members = np.flatnonzero(model.labels_ == cluster)
    places = model.tangent_coordinates(vocabulary.rows[members], cluster)
    found: dict[str, Any] = {"cluster": cluster}
    for axis, name in enumerate(("first", "second")):
        order = np.argsort(places[:, axis])
        for end, chosen in (("low", order[:n]), ("high", order[::-1][:n])):
            found[f"{name} axis, {end}"] = [vocabulary.words[number] for number in members[chosen]]
    return found


def as_in_the_paper(vocabulary: Vocabulary, n_sweeps: int, seed: int) -> dict[str, Any]:
    """A chain from 20 centroids for as many sweeps as the paper's; clusters and log joint every 20 sweeps."""
    model = DirichletProcessMixture(
        init=N_CENTROIDS, n_burn_in=n_sweeps - 1, n_draws=1, random_state=seed, n_threads=1
    ).fit(vocabulary.rows)
    trace = model.trace_[0]
    shown = np.unique([*range(0, len(trace), 20), len(trace) - 1])
    return {
        "sweeps": (shown + 1).tolist(),
        "n_clusters": trace[shown, 0].astype(int).tolist(),
        "log_joint": trace[shown, 2].tolist(),
    }
