"""What is said of clusters: sizes, spreads, neighbours, silhouettes, and agreement with known classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.engines.select import open_passes
from armillary.points import as_points
from armillary.report.agreement import agreement
from armillary.report.clusters import ClusterFacts, cluster_facts
from armillary.sources.stored import StoredRows
from armillary.validation import has_direction

_WHO = "armillary"
# Labels counted at a time, and rows of a sample that stands for rows on disk.
_COUNTED, _SAMPLED = 1 << 20, 50_000


def measure_clusters(
    rows: Any, labels: npt.NDArray[Any], n_threads: int | None
) -> tuple[list[dict[str, Any]], ClusterFacts | None]:
    """One line of facts for each cluster with rows, in the order of labels, and what a report takes them from.

    Angles are in degrees. Of rows on disk sizes are counted, and the rest is measured on a sample.
    """
    if isinstance(rows, StoredRows):
        return _lines_of_sample(rows, labels, n_threads), None
    is_shown = has_direction(rows)
    points = as_points(rows if is_shown.all() else rows[np.flatnonzero(is_shown)], _WHO)
    shown = np.asarray(labels)[is_shown].astype(np.int64)
    with open_passes(points, n_threads, _WHO) as passes:
        facts = cluster_facts(passes, shown, most_clusters=len(shown))
    return _lines(facts, len(labels)), facts


def _lines(facts: ClusterFacts, n_rows: int) -> list[dict[str, Any]]:
    return [
        {
            "cluster": int(facts.names[k]),
            "size": int(facts.sizes[k]),
            "share": int(facts.sizes[k]) / n_rows,
            "spread_degrees": math.degrees(facts.spreads[k]),
            "nearest": None if facts.neighbours[k] < 0 else int(facts.names[facts.neighbours[k]]),
            "nearest_degrees": _degrees(facts.neighbour_angles[k]),
            "silhouette": None if np.isnan(facts.silhouettes[k]) else float(facts.silhouettes[k]),
        }
        for k in range(len(facts.names))
    ]


def _lines_of_sample(rows: StoredRows, labels: npt.NDArray[Any], n_threads: int | None) -> list[dict[str, Any]]:
    n_rows, most = len(labels), int(labels.max(initial=-1))
    sizes, first = np.zeros(most + 1, dtype=np.int64), np.zeros(most + 1, dtype=np.int64)
    for start in range((n_rows - 1) // _COUNTED * _COUNTED, -1, -_COUNTED):
        part = labels[start : start + _COUNTED]
        inside = np.flatnonzero(part >= 0)[::-1]
        sizes += np.bincount(part[inside], minlength=most + 1)
        first[part[inside]] = start + inside  # the first of each cluster comes last
    drawn = np.random.default_rng(0).integers(0, n_rows, _SAMPLED)
    some = np.unique(np.concatenate([drawn, first[sizes > 0]]))
    lines, _ = measure_clusters(rows[some], labels[some], n_threads)
    for line in lines:
        line["size"] = int(sizes[line["cluster"]])
        line["share"] = line["size"] / n_rows
    return lines


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
