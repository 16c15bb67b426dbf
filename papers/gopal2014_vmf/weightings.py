"""Section 6: k-means and soft k-means with and without tf-idf, and soft k-means with a variance of 1.

Without idf there are two readings: counts as they are, and counts to unit length. k-means is scikit-learn's and takes
both; ours of soft k-means normalises rows, and so takes the second. The fixed variance is the EM of a Gaussian mixture
with equal, round covariances, written out here: K means, weights, responsibilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from documents import Documents, tf_idf
from methods import METHODS, make_start, start_labels
from scipy.special import softmax
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from sklearn.preprocessing import normalize

N_STEPS = 200  # the paper's most
VARIANCE = 1.0


def measure(documents: Documents, seed: int) -> dict[str, float]:
    """NMI of every method on every form of the rows, from the sums of the same random groups."""
    assert documents.classes is not None
    n_classes = documents.n_classes
    weighed, plain = tf_idf(documents.counts), sp.csr_matrix(normalize(documents.counts))
    labels = {}
    for word, rows in (("tf-idf", weighed), ("counts, unit length", plain)):
        start = make_start(rows, n_classes, "random labels", seed)
        for method in ("k-means", "soft k-means"):
            labels[f"{method}, {word}"] = METHODS[method](rows, documents.counts, start)
    groups = start_labels(seed, documents.counts.shape[0], n_classes)
    labels["k-means, counts"] = KMeans(
        n_classes, init=_means(documents.counts, np.eye(n_classes)[groups]), n_init=1, max_iter=N_STEPS
    ).fit_predict(documents.counts)
    labels["soft k-means, variance 1"] = fixed_variance(weighed, groups, n_classes)
    return {name: float(normalized_mutual_info_score(documents.classes, found)) for name, found in labels.items()}


def _means(rows: Any, shares: np.ndarray) -> np.ndarray:
    return np.asarray((rows.T @ shares).T / np.maximum(shares.sum(axis=0), 1e-12)[:, None])


def fixed_variance(rows: Any, labels: np.ndarray, n_components: int) -> np.ndarray:
    """Labels of a mixture of Gaussians with variance 1 in every direction, by EM from hard labels."""
    shares = np.eye(n_components)[labels]
    for _ in range(N_STEPS):
        means, weights = _means(rows, shares), shares.mean(axis=0)
        # |x|^2 is the same for all components
        scores = (rows @ means.T - 0.5 * np.sum(means**2, axis=1)) / VARIANCE
        shares = softmax(scores + np.log(np.maximum(weights, 1e-300)), axis=1)
    return np.asarray(shares.argmax(axis=1))
