"""Sparse documents with topics, as TF-IDF rows.

Like every maker it returns `(X, labels, truth)`: unit rows, the index of the cluster each row was drawn from (-1 for
noise), and a frozen record of what was drawn besides. Random numbers are drawn in float64 and rows are cast at the
end, so float32 and float64 rows of one seed are the same points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

from armillary._typing import Float64Array, RandomState
from armillary.datasets._drawing import (
    BLOCK_VALUES,
    Labels,
    check_sizes,
    check_weights,
    draw_labels,
    float_dtype,
)
from armillary.draws import generator
from armillary.validation import check_integer, check_number

# Spread of the logarithm of document lengths: nineteen in twenty lie within a factor e of the middle.
_LOG_LENGTH_DEVIATION = 0.5


@dataclass(frozen=True, eq=False)
class SparseTopicsTruth:
    """What `make_sparse_topics` drew.

    Examples
    --------
    >>> from armillary.datasets import make_sparse_topics
    >>> _, _, truth = make_sparse_topics(50, 200, 3, random_state=0)
    >>> truth.word_probabilities().shape
    (3, 200)
    """

    background: Float64Array  # (D,) probability of each word outside the topics
    topic_words: npt.NDArray[np.int64]  # (K, W) words of each topic, most frequent first
    topic_word_probabilities: Float64Array  # (W,) probability of a topic's first, second, ... word
    topic_share: float  # share of words that come from the topic
    weights: Float64Array  # (K,) sum 1
    document_lengths: npt.NDArray[np.int64]  # (n_samples,) words in each document, counted with repeats

    def word_probabilities(self) -> Float64Array:
        """Probability of each word in each topic, shape (K, D), dense.

        Returns
        -------
        array of shape (K, D)
            Each row has the sum 1.
        """
        probabilities = np.tile((1.0 - self.topic_share) * self.background, (len(self.topic_words), 1))
        rows = np.arange(len(self.topic_words))[:, None]
        probabilities[rows, self.topic_words] += self.topic_share * self.topic_word_probabilities
        return probabilities


def make_sparse_topics(
    n_samples: int,
    n_features: int,
    n_clusters: int,
    *,
    document_length: float = 100.0,
    topic_share: float = 0.3,
    n_topic_words: int | None = None,
    zipf_exponent: float = 1.05,
    weights: Any = None,
    random_state: RandomState = None,
    dtype: npt.DTypeLike = np.float64,
) -> tuple[sp.csr_array, Labels, SparseTopicsTruth]:
    """Sparse rows like tf-idf vectors of documents on one topic each.

    Words have Zipf frequencies: the r-th most frequent has probability proportional to r^-zipf_exponent. Each word
    of a document comes from its topic, a Zipf law over the topic's own words, or else from a background over all
    words. Counts become count (log((1 + N)/(1 + df)) + 1), scaled to unit rows, as scikit-learn's
    `TfidfTransformer` does it. Time and memory are linear in the number of words drawn.

    Parameters
    ----------
    n_samples, n_features, n_clusters : int
        Documents, words in the vocabulary (2 or more) and topics.
    document_length : float, default=100.0
        Mean number of words in a document, counted with repeats and at least 1; log-normal with deviation 0.5.
    topic_share : float, default=0.3
        Probability that a word comes from the topic.
    n_topic_words : int, optional
        Words in each topic, drawn from the vocabulary; topics may share words. By default 3000, or all.
    zipf_exponent : float, default=1.05
    weights : array-like of shape (n_clusters,), optional
        Relative frequencies of the topics; equal by default. Labels are independent draws.
    random_state : int, Generator, RandomState or None
        An int gives the same data every time.
    dtype : float64 or float32
        Of X.

    Returns
    -------
    X : csr_array of shape (n_samples, n_features)
        Unit rows without negative entries.
    labels : int64 array of shape (n_samples,)
    truth : SparseTopicsTruth

    Examples
    --------
    >>> from armillary.datasets import make_sparse_topics
    >>> X, labels, truth = make_sparse_topics(200, 1000, 5, random_state=0)
    >>> X.shape, X.format, truth.word_probabilities().shape
    ((200, 1000), 'csr', (5, 1000))
    """
    who = "make_sparse_topics"
    check_sizes(n_samples, n_features, n_clusters, who)
    check_number(document_length, "document_length", who, low=1.0, high=1e6)
    check_number(topic_share, "topic_share", who, low=0.0, high=1.0)
    check_number(zipf_exponent, "zipf_exponent", who, low=0.0)
    if n_topic_words is None:
        n_topic_words = min(3000, n_features)
    check_integer(n_topic_words, "n_topic_words", who, low=1, high=n_features, hint="The vocabulary is n_features.")
    rng, dtype = generator(random_state), float_dtype(dtype, who)
    shares = check_weights(weights, n_clusters, who)
    by_rank = rng.permutation(n_features)  # the index of a word says nothing about its frequency
    rank_probabilities = _zipf(n_features, zipf_exponent)
    topic_words = np.stack([rng.choice(n_features, n_topic_words, replace=False) for _ in range(n_clusters)])
    topic_rank_probabilities = _zipf(n_topic_words, zipf_exponent)
    labels = draw_labels(n_samples, shares, 0.0, rng, who)
    log_mean = math.log(document_length) - _LOG_LENGTH_DEVIATION**2 / 2
    lengths = np.maximum(1, np.rint(rng.lognormal(log_mean, _LOG_LENGTH_DEVIATION, n_samples))).astype(np.int64)
    blocks = []
    step = max(1, int(BLOCK_VALUES / document_length))
    for start in range(0, n_samples, step):
        documents = np.repeat(np.arange(start, min(start + step, n_samples)), lengths[start : start + step])
        words = by_rank[rng.choice(n_features, len(documents), p=rank_probabilities)]
        topical = np.flatnonzero(rng.random(len(documents)) < topic_share)
        ranks = rng.choice(n_topic_words, len(topical), p=topic_rank_probabilities)
        words[topical] = topic_words[labels[documents[topical]], ranks]
        # the constructor adds up repeats of a word; given int32 it stores int32, which is half of the index
        cells = ((documents - start).astype(np.int32), words.astype(np.int32))
        shape = (min(step, n_samples - start), n_features)
        blocks.append(sp.csr_array((np.ones(len(words)), cells), shape=shape))
    X = sp.csr_array(TfidfTransformer().fit_transform(sp.vstack(blocks, format="csr"))).astype(dtype)
    background = np.empty(n_features)
    background[by_rank] = rank_probabilities
    truth = SparseTopicsTruth(background, topic_words, topic_rank_probabilities, topic_share, shares, lengths)
    return X, labels, truth


def _zipf(n: int, exponent: float) -> Float64Array:
    """Probabilities (n,) proportional to rank^-exponent."""
    probabilities: Float64Array = np.arange(1.0, n + 1.0) ** -exponent
    probabilities /= probabilities.sum()
    return probabilities
