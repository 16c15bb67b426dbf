"""How many clusters there are: those that rows are in. Every number that is printed, drawn or filed comes from here."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_AT_ONCE = 1 << 20


def counted(number: int, thing: str) -> str:
    """E.g. 1 row, 1,234 rows."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def n_clusters_of(labels: npt.NDArray[Any]) -> int:
    """Different labels but for -1, which is no cluster."""
    # part by part: a sorted copy of all labels is as large as they are
    parts = [np.unique(labels[start : start + _AT_ONCE]) for start in range(0, len(labels), _AT_ONCE)]
    return int(np.count_nonzero(np.unique(np.concatenate([np.empty(0, np.int64), *parts])) >= 0))


def in_the_model(model: Any) -> str:
    """The clusters that a model holds, whether or not rows are in them, in words."""
    if hasattr(model, "steps_unseen_"):  # of those that are not seen now too
        known = counted(len(model.cluster_ids_), "cluster")
        return f"{known}, {model.n_clusters_:,} of them with rows in the last step"
    return counted(int(getattr(model, "n_clusters_", 0)), "cluster")


def of_the_model(model: Any, n_found: int) -> str:
    """A sentence where a model counts other clusters than rows are in; empty where it counts as many."""
    own = getattr(model, "n_clusters_", None)
    if not isinstance(own, int | np.integer) or own == n_found:
        return ""
    said = f"The model itself counts {counted(int(own), 'cluster')}"
    if type(model).__name__ == "Links":
        # an answer is never taken back; what the clusters have become since is in the model
        return f"{said}: each row has the id that it was answered with, and clusters have parted or merged since."
    return f"{said}, of which {own - n_found:,} have no rows here." if own > n_found else f"{said}."
