r"""BERTopic with our estimator as its cluster model, beside BERTopic as it comes.

    python -m venv /tmp/topics && /tmp/topics/bin/pip install bertopic . && \
    /tmp/topics/bin/python -m benchmarks.bertopic_topics

BERTopic is no dependency: it has an environment of its own. Texts and their vectors (banking77, all-MiniLM-L6-v2) come
from the folder of shared data (ARMILLARY_SHARED_DATA), so that no model is fetched. Ours clusters the vectors as they
are: BERTopic's own reduction (UMAP to five dimensions) is left out for it. Writes results/bertopic.json.
"""

from __future__ import annotations

import csv
import json
import lzma
import os
import time
from pathlib import Path
from typing import Any

import bertopic
import numpy as np
from bertopic import BERTopic
from bertopic.dimensionality import BaseDimensionalityReduction
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

import armillary

PROJECT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("ARMILLARY_SHARED_DATA", PROJECT.parent / "shared" / "data"))
RESULT = PROJECT / "benchmarks" / "results" / "bertopic.json"
N_ROWS = 1500


def rows() -> tuple[list[str], np.ndarray, np.ndarray]:
    """Texts, vectors and intents, drawn once."""
    folder = SHARED / "sent_banking77"
    with np.load(folder / "embeddings.npz") as archive:
        vectors, truth = archive["embeddings"].astype(np.float32), archive["label"]
    with lzma.open(folder / "texts.csv.xz", "rt", newline="") as file:
        texts = [line["text"] for line in csv.DictReader(file)]
    chosen = np.sort(np.random.default_rng(0).choice(len(texts), N_ROWS, replace=False))
    return [texts[row] for row in chosen], vectors[chosen], truth[chosen]


def cluster_model(vectors: np.ndarray) -> Any:
    """What finds the number of clusters by itself: the estimator, or the model that `choose_model` takes."""
    if hasattr(armillary, "AutoClusterer"):
        return armillary.AutoClusterer(random_state=0)
    return armillary.choose_model(vectors, random_state=0).model


def topics_of(name: str, model: BERTopic, texts: list[str], vectors: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """Fit, look at the topics, and ask for those of rows that come later."""
    start = time.perf_counter()
    topics = np.array(model.fit_transform(texts, embeddings=vectors)[0])
    seconds = time.perf_counter() - start
    later = np.array(model.transform(texts[:200], embeddings=vectors[:200])[0])
    info = model.get_topic_info()
    return {
        "cluster_model": name,
        "topics": len(set(topics.tolist()) - {-1}),
        "outliers": int((topics == -1).sum()),
        "ARI": float(adjusted_rand_score(truth, topics)),
        "NMI": float(normalized_mutual_info_score(truth, topics)),
        "seconds": seconds,
        "same_topic_when_asked_again": float((later == topics[:200]).mean()),
        "first_topics": [str(words) for words in info["Name"].head(8)],
    }


def main() -> None:
    """Both, stored."""
    texts, vectors, truth = rows()
    words = CountVectorizer(stop_words="english")
    ours = cluster_model(vectors)
    told = {
        "command": "python -m benchmarks.bertopic_topics",
        "bertopic": bertopic.__version__,
        "rows": N_ROWS,
        "intents": len(set(truth.tolist())),
    }
    lines: list[dict[str, Any]] = []
    for name, make in (
        (
            f"armillary.{type(ours).__name__}",
            lambda: BERTopic(umap_model=BaseDimensionalityReduction(), hdbscan_model=ours, vectorizer_model=words),
        ),
        ("UMAP + HDBSCAN, as it comes", lambda: BERTopic(vectorizer_model=words)),
    ):
        lines.append(topics_of(name, make(), texts, vectors, truth))
        print(json.dumps(lines[-1]), flush=True)
        RESULT.write_text(json.dumps({**told, "lines": lines}, indent=2) + "\n")


if __name__ == "__main__":
    main()
