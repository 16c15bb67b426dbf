"""Topics of texts that arrive over time: `Links` as the clusterer of a BERTopic-like pipeline.

    python examples/links_topics.py

BERTopic takes any object with `fit`, `predict` and `labels_` as its `hdbscan_model`, and for topics online one with
`partial_fit`. `Links` has all of them: BERTopic(hdbscan_model=Links(...)). The small pipeline below has the same steps
(embed, cluster, words of each topic) and needs scikit-learn only.

It prints:

    Monday:  [0, 0, 1, 1, 0]
    Tuesday: [1, 0, 2, 2]
    topic 0: match, team, coach
    topic 1: bank, rates, raises
    topic 2: comet, sun, astronomers
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline

from armillary import Links

MONDAY = [
    "the striker scored two goals in the final match",
    "the goalkeeper saved a penalty in the match",
    "central bank raises interest rates again",
    "inflation and interest rates worry the bank",
    "the team won the match with a late goal",
]
TUESDAY = [
    "shares fall as the bank raises interest rates",
    "the coach praised the team after the match",
    "a comet passes close to the sun tonight",
    "astronomers photograph the comet near the sun",
]


class TopicPipeline:
    """Embed, cluster, describe: what BERTopic does with its parts."""

    def __init__(self, embedder: Any, clusterer: Any) -> None:
        self.embedder = embedder
        self.clusterer = clusterer
        self.texts: list[str] = []
        self.nodes: list[int] = []

    def partial_fit(self, texts: list[str]) -> list[int]:
        """Learn more texts; the topic of each."""
        self.clusterer.partial_fit(self.embedder.transform(texts))
        self.texts += texts
        self.nodes += self.clusterer.nodes_.tolist()
        return self.clusterer.labels_.tolist()

    def words(self, n_words: int = 3) -> dict[int, list[str]]:
        """The words of each topic that stand out (class-based TF-IDF), by the topics as they are now."""
        topics = self.clusterer.labels_now(self.nodes)
        names = np.unique(topics)
        counter = CountVectorizer(stop_words="english")
        counts = counter.fit_transform(" ".join(np.array(self.texts)[topics == name]) for name in names).toarray()
        weights = counts * np.log1p(counts.sum() / len(names) / np.maximum(counts.sum(axis=0), 1))
        vocabulary = counter.get_feature_names_out()
        return {
            int(name): vocabulary[np.argsort(-line, kind="stable")[:n_words]].tolist()
            for name, line in zip(names, weights, strict=True)
        }


def main() -> dict[int, list[str]]:
    """Two days of texts."""
    embedder = make_pipeline(TfidfVectorizer(stop_words="english"), TruncatedSVD(3, random_state=0))
    embedder.fit(MONDAY + TUESDAY)
    pipeline = TopicPipeline(embedder, Links(0.6, 0.7, 0.8))
    print("Monday: ", pipeline.partial_fit(MONDAY))
    print("Tuesday:", pipeline.partial_fit(TUESDAY))
    for topic, words in pipeline.words().items():
        print(f"topic {topic}: {', '.join(words)}")
    return pipeline.words()


if __name__ == "__main__":
    main()
