"""Section 6, its last remark: k-means++ against random starts for vMFmix tied, by many seeds.

The runs of `clustering` are two to ten a set and start: too few to tell a gain on one set from the spread of starts.
"""

from __future__ import annotations

from documents import Documents, tf_idf
from methods import METHODS, make_start
from sklearn.metrics import normalized_mutual_info_score

KINDS = ("random labels", "k-means++")


def measure(documents: Documents, seed: int) -> dict[str, float]:
    """NMI from both starts, at as many clusters as classes."""
    assert documents.classes is not None
    rows = tf_idf(documents.counts)
    found = {}
    for kind in KINDS:
        labels = METHODS["vMFmix tied"](rows, documents.counts, make_start(rows, documents.n_classes, kind, seed))
        found[kind] = float(normalized_mutual_info_score(documents.classes, labels))
    return found
