"""How well clusters agree with classes that are known: the scores that people ask for, with a word on each."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from armillary.metrics import matched_accuracy_score, purity_score
from armillary.metrics.labels import label_codes


def agreement(truth: Any, labels: Any, who: str = "write_report") -> list[tuple[str, float, str]]:
    """Name, value and meaning of each score; rows of no cluster (-1) count as a cluster of their own."""
    classes, _ = label_codes(truth, "truth", who)
    clusters = np.asarray(labels)
    return [
        ("NMI", float(normalized_mutual_info_score(classes, clusters)), "normalised mutual information; 1 is equal"),
        ("ARI", float(adjusted_rand_score(classes, clusters)), "adjusted Rand index; 0 is chance, 1 is equal"),
        (
            "matched accuracy",
            float(matched_accuracy_score(classes, clusters)),
            "rows right under the best matching one to one",
        ),
        (
            "purity",
            float(purity_score(classes, clusters)),
            "rows in the main class of their cluster; grows with clusters",
        ),
    ]
