"""Can it be the clusterer of a topic pipeline? A class with `fit`, `predict` and `labels_` that needs no parameter.

    python examples/topics.py

BERTopic and pipelines like it embed texts, reduce them, cluster, and describe each topic; they take any object with
these three names as the clusterer: BERTopic(umap_model=empty_dimensionality_model, hdbscan_model=AutomaticClusterer()).
Unit vectors need no reduction first, no text is left out as noise, and new texts get a topic by one product. The small
pipeline below has the same steps, with made-up texts, and needs scikit-learn only. For topics over time see
`links_topics.py`.

It prints:

    600 texts, 3 topics
    topic 0, 135 texts: login, forgot, session, email
    topic 1, 274 texts: refund, price, money, overpaid
    topic 2, 191 texts: delayed, shipped, package, warehouse
    'the parcel is lost' -> topic 2
    'my password was not accepted' -> topic 0
    'give me my money back' -> topic 1
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline

from armillary import choose_model

KINDS = {
    "refund": "refund money charged twice bill amount invoice overpaid cancelled price payment card",
    "delivery": "parcel late courier lost delivery delayed tracking address doorstep package shipped warehouse",
    "login": "login password account locked code reset email username forgot verify browser session",
}
FILLERS = "please help hello thanks today again still now anyone annoyed waiting week"


class AutomaticClusterer(ClusterMixin, BaseEstimator):
    """`choose_model` in the shape that topic pipelines ask for."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the clusters; `reason_` says why these."""
        choice = choose_model(X)
        self.model_, self.reason_, self.labels_ = choice.model, choice.reason, choice.model.labels_
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The cluster of new rows."""
        return self.model_.predict(X)


def topic_words(texts: list[str], topics: np.ndarray, n_words: int = 4) -> list[list[str]]:
    """The words of each topic that stand out: class-based TF-IDF, as BERTopic describes topics."""
    counter = CountVectorizer(stop_words="english")
    joined = [" ".join(np.array(texts)[topics == topic]) for topic in range(topics.max() + 1)]
    counts = counter.fit_transform(joined).toarray()
    weights = counts * np.log1p(counts.sum() / len(counts) / counts.sum(axis=0))
    words = counter.get_feature_names_out()
    return [words[np.argsort(-line, kind="stable")[:n_words]].tolist() for line in weights]


def main() -> None:
    """Messages to a shop."""
    generator = np.random.default_rng(0)
    texts = [
        " ".join([*generator.choice(KINDS[kind].split(), 6), *generator.choice(FILLERS.split(), 3)])
        for kind in generator.choice(list(KINDS), 600, p=[0.5, 0.3, 0.2])
    ]
    embedder = make_pipeline(TfidfVectorizer(), TruncatedSVD(20, random_state=0))  # stands for a language model
    clusterer = AutomaticClusterer().fit(embedder.fit_transform(texts))
    print(f"{len(texts)} texts, {clusterer.labels_.max() + 1} topics")
    for topic, words in enumerate(topic_words(texts, clusterer.labels_)):
        print(f"topic {topic}, {np.sum(clusterer.labels_ == topic)} texts: {', '.join(words)}")
    new = ["the parcel is lost", "my password was not accepted", "give me my money back"]
    for text, topic in zip(new, clusterer.predict(embedder.transform(new)), strict=True):
        print(f"{text!r} -> topic {topic}")


if __name__ == "__main__":
    main()
