"""What is said of clusters: sizes, spreads, neighbours, silhouettes, and agreement with known classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.models._estimator import open_passes
from armillary.points import as_points
from armillary.report.agreement import agreement
from armillary.report.clusters import cluster_facts
from armillary.report.content import has_direction

_WHO = "armillary"


def cluster_lines(rows: Any, labels: npt.NDArray[Any], n_threads: int | None) -> list[dict[str, Any]]:
    """One line of facts for each cluster with rows, in the order of labels; angles are in degrees."""
    is_shown = has_direction(rows)
    points = as_points(rows if is_shown.all() else rows[np.flatnonzero(is_shown)], _WHO)
    shown = np.asarray(labels)[is_shown].astype(np.int64)
    with open_passes(points, n_threads, _WHO) as passes:
        facts = cluster_facts(passes, shown, most_clusters=len(shown))
    return [
        {
            "cluster": int(facts.names[k]),
            "size": int(facts.sizes[k]),
            "share": int(facts.sizes[k]) / len(labels),
            "spread_degrees": math.degrees(facts.spreads[k]),
            "nearest": None if facts.neighbours[k] < 0 else int(facts.names[facts.neighbours[k]]),
            "nearest_degrees": _degrees(facts.neighbour_angles[k]),
            "silhouette": None if np.isnan(facts.silhouettes[k]) else float(facts.silhouettes[k]),
        }
        for k in range(len(facts.names))
    ]


def _degrees(angle: float) -> float | None:
    return None if np.isnan(angle) else math.degrees(angle)


def scores_of(truth: npt.NDArray[Any] | None, labels: npt.NDArray[Any]) -> dict[str, float] | None:
    """Agreement with known classes."""
    if truth is None:
        return None
    return {name: value for name, value, _ in agreement(truth, labels, "armillary cluster")}


def silhouette_of(rows: Any, labels: npt.NDArray[Any]) -> float | None:
    """The mean silhouette by cosine of the rows that are in clusters; None where there is nothing to compare."""
    from armillary.exceptions import InputError
    from armillary.metrics import cosine_silhouette_score

    try:
        return float(cosine_silhouette_score(rows, labels, ignore_label=-1))
    except InputError:  # one cluster, or as many as rows
        return None
