"""What people do with many embeddings: near-duplicates, even samples, coverage, layouts for vector stores.

Names are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from armillary.curation.covering import Coverage, coverage
    from armillary.curation.duplicates import Duplicates, duplicate_recall, near_duplicates
    from armillary.curation.layouts import (
        InvertedLists,
        ResidualCodebooks,
        inverted_lists,
        residual_codebooks,
        write_layout,
    )
    from armillary.curation.nearest import nearest_clusters
    from armillary.curation.pipeline import CurationPlan, curate
    from armillary.curation.sampling import balanced_sample

_HOMES = {
    "Coverage": "covering",
    "CurationPlan": "pipeline",
    "Duplicates": "duplicates",
    "InvertedLists": "layouts",
    "ResidualCodebooks": "layouts",
    "balanced_sample": "sampling",
    "coverage": "covering",
    "curate": "pipeline",
    "duplicate_recall": "duplicates",
    "inverted_lists": "layouts",
    "near_duplicates": "duplicates",
    "nearest_clusters": "nearest",
    "residual_codebooks": "layouts",
    "write_layout": "layouts",
}

__all__ = [
    "Coverage",
    "CurationPlan",
    "Duplicates",
    "InvertedLists",
    "ResidualCodebooks",
    "balanced_sample",
    "coverage",
    "curate",
    "duplicate_recall",
    "inverted_lists",
    "near_duplicates",
    "nearest_clusters",
    "residual_codebooks",
    "write_layout",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"armillary.curation.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'armillary.curation' has no attribute {name!r}")
