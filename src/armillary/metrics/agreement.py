"""How well two labellings of the same rows agree: what scikit-learn lacks.

All scores are functions of the contingency table c_jk, the number of rows of class j in cluster k, with margins
a_j and b_k and total N. Only its non-zero cells are stored, at most N of them, so a million rows in a hundred
thousand clusters need no large table. Labels may be any hashable values.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from sklearn.metrics import normalized_mutual_info_score

from armillary.exceptions import InputError, ParameterError
from armillary.metrics.labels import label_codes
from armillary.validation import fits_float

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Contingency:
    """The non-zero cells of the table, ordered by class, then by cluster."""

    classes: _Ints  # (m,) class j of each cell
    clusters: _Ints  # (m,) cluster k of each cell
    counts: _Ints  # (m,) c_jk > 0
    class_sizes: _Ints  # (J,) a_j
    cluster_sizes: _Ints  # (K,) b_k

    @property
    def n_rows(self) -> int:
        return int(self.class_sizes.sum())


def purity_score(truth: Any, labels: Any) -> float:
    """Share of rows that belong to the majority class of their cluster: sum_k max_j c_jk / N, in (0, 1].

    Purity grows with the number of clusters and is 1 for singletons; compare it at equal numbers only.

    Parameters
    ----------
    truth, labels : array-like of shape (n_samples,)
        Class and cluster of each row, any hashable values.

    Returns
    -------
    float
        1 is the best.

    Examples
    --------
    >>> from armillary.metrics import purity_score
    >>> purity_score(["cat", "cat", "dog", "dog"], [0, 0, 0, 1])
    0.75
    """
    table = _contingency(truth, labels, "purity_score")
    largest = np.zeros_like(table.cluster_sizes)
    np.maximum.at(largest, table.clusters, table.counts)
    return int(largest.sum()) / table.n_rows


def macro_f1_score(truth: Any, labels: Any) -> float:
    """Mean over classes of the F1 score after each cluster is named by its majority class, in [0, 1].

    A tie of the majority goes to the smallest class in sorted order. A class that no cluster is named by
    scores 0, and every class counts alike, whatever its size.

    Parameters
    ----------
    truth, labels : array-like of shape (n_samples,)
        Class and cluster of each row, any hashable values.

    Returns
    -------
    float
        1 is the best.

    Examples
    --------
    Cluster 0 is named cat: F1 is 0.8 for cats and 2/3 for dogs.

    >>> from armillary.metrics import macro_f1_score
    >>> round(macro_f1_score(["cat", "cat", "dog", "dog"], [0, 0, 0, 1]), 4)
    0.7333
    """
    table = _contingency(truth, labels, "macro_f1_score")
    # by cluster, then largest count first, then smallest class: the first cell of each cluster names it
    order = np.lexsort((table.classes, -table.counts, table.clusters))
    _, first = np.unique(table.clusters[order], return_index=True)
    majority = order[first]
    names = table.classes[majority]
    hits = np.zeros_like(table.class_sizes)
    named = np.zeros_like(table.class_sizes)
    np.add.at(hits, names, table.counts[majority])
    np.add.at(named, names, table.cluster_sizes)
    return float(np.mean(2 * hits / (named + table.class_sizes)))


def matched_accuracy_score(truth: Any, labels: Any) -> float:
    """Share of rows on which classes and clusters agree under the best one-to-one matching, in (0, 1].

    The matching is optimal (the assignment problem of the Hungarian method). With unequal numbers of classes
    and clusters the surplus stays unmatched and its rows count as errors.

    Parameters
    ----------
    truth, labels : array-like of shape (n_samples,)
        Class and cluster of each row, any hashable values.

    Returns
    -------
    float
        1 is the best.

    Examples
    --------
    >>> from armillary.metrics import matched_accuracy_score
    >>> matched_accuracy_score(["cat", "cat", "cat", "dog"], [1, 1, 2, 0])
    0.75
    """
    table = _contingency(truth, labels, "matched_accuracy_score")
    n_classes, n_clusters = len(table.class_sizes), len(table.cluster_sizes)
    # The sparse solver wants every class matched: each gets an empty cluster of its own to fall back on. It also
    # wants no zeros, so all weights are raised by one, which adds n_classes to every full matching alike.
    # Measured against the dense solver: 0.015 s for 0.62 s with 3000 x 3000 labels, and no dense table.
    # SciPy before 1.16 takes indices of 32 bits alone.
    class_index = np.arange(n_classes, dtype=np.int32)
    weights = sp.csr_array(
        (
            np.concatenate([table.counts + 1, np.ones(n_classes, dtype=np.int64)]),
            (
                np.concatenate([table.classes.astype(np.int32), class_index]),
                np.concatenate([table.clusters.astype(np.int32), n_clusters + class_index]),
            ),
        ),
        shape=(n_classes, n_clusters + n_classes),
    )
    rows, columns = min_weight_full_bipartite_matching(weights, maximize=True)
    return (int(weights[rows, columns].sum()) - n_classes) / table.n_rows


def geometric_nmi_score(truth: Any, labels: Any) -> float:
    """Mutual information over the geometric mean of the two entropies, I / sqrt(H_truth H_labels), in [0, 1].

    Papers that write "NMI" mean one of several normalisers; this is the square root (Strehl and Ghosh 2002).
    scikit-learn's `normalized_mutual_info_score` has the arithmetic mean by default and does the work here.
    Two labellings with one label each agree perfectly and score 1; if only one of them is constant, 0.

    Parameters
    ----------
    truth, labels : array-like of shape (n_samples,)
        Class and cluster of each row, any hashable values.

    Returns
    -------
    float
        1 is the best.

    Examples
    --------
    >>> from armillary.metrics import geometric_nmi_score
    >>> round(geometric_nmi_score(["cat", "cat", "dog", "dog"], [0, 0, 1, 2]), 4)
    0.8165
    """
    class_codes, cluster_codes = _code_pair(truth, labels, "geometric_nmi_score")
    return float(normalized_mutual_info_score(class_codes, cluster_codes, average_method="geometric"))


def variation_of_information(truth: Any, labels: Any, *, base: float = math.e) -> float:
    """Information lost and gained in going from one labelling to the other, H(truth|labels) + H(labels|truth).

    A metric on partitions: 0 exactly when they are equal up to names, symmetric, with the triangle inequality
    (Meila 2007). It is at most log N.

    Parameters
    ----------
    truth, labels : array-like of shape (n_samples,)
        Class and cluster of each row, any hashable values.
    base : float, default=e
        Base of the logarithm, above 1: e gives nats, 2 gives bits.

    Returns
    -------
    float
        0 is the best.

    Examples
    --------
    >>> from armillary.metrics import variation_of_information
    >>> variation_of_information(["cat", "cat", "dog", "dog"], [0, 1, 2, 2], base=2)
    0.5
    """
    given: Any = base
    if not (isinstance(given, numbers.Real) and fits_float(given) and float(given) > 1.0):
        raise ParameterError(
            f"`base` of variation_of_information must be a finite number above 1; got {base!r}. "
            "Use 2 for bits, math.e for nats."
        )
    table = _contingency(truth, labels, "variation_of_information")
    # a/c and b/c are at least 1, so no term is negative and equal partitions give exactly 0
    log_ratios = np.log(table.class_sizes[table.classes] / table.counts)
    log_ratios += np.log(table.cluster_sizes[table.clusters] / table.counts)
    return float(table.counts @ log_ratios) / (table.n_rows * math.log(base))


def _code_pair(truth: Any, labels: Any, who: str) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    class_codes, _ = label_codes(truth, "truth", who)
    cluster_codes, _ = label_codes(labels, "labels", who)
    if len(class_codes) != len(cluster_codes):
        raise InputError(
            f"`truth` and `labels` of {who} must have one entry for each of the same rows; "
            f"got {len(class_codes)} and {len(cluster_codes)}. Check that both come from the same rows."
        )
    return class_codes, cluster_codes


def _contingency(truth: Any, labels: Any, who: str) -> _Contingency:
    class_codes, cluster_codes = _code_pair(truth, labels, who)
    n_clusters = int(cluster_codes.max()) + 1
    # at most N classes times N clusters: the cell number fits in an int64 for any N below 3e9
    cells, counts = np.unique(class_codes.astype(np.int64) * n_clusters + cluster_codes, return_counts=True)
    return _Contingency(
        classes=cells // n_clusters,
        clusters=cells % n_clusters,
        counts=counts.astype(np.int64),
        class_sizes=np.bincount(class_codes).astype(np.int64),
        cluster_sizes=np.bincount(cluster_codes).astype(np.int64),
    )
