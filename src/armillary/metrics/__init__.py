"""Measures of a clustering: agreement with a truth, and silhouette by angle."""

from armillary.metrics.agreement import (
    geometric_nmi_score,
    macro_f1_score,
    matched_accuracy_score,
    purity_score,
    variation_of_information,
)
from armillary.metrics.silhouette import cosine_silhouette_samples, cosine_silhouette_score

__all__ = [
    "cosine_silhouette_samples",
    "cosine_silhouette_score",
    "geometric_nmi_score",
    "macro_f1_score",
    "matched_accuracy_score",
    "purity_score",
    "variation_of_information",
]
