"""Levels of a fitted clusterer: to which cluster of each level its finest clusters belong."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.curation.nearest import checked_directions
from armillary.exceptions import InputError
from armillary.validation import check_numbers

Ancestors = npt.NDArray[np.int64]  # (K,)


def levels_of(model: Any, who: str) -> list[Ancestors]:
    """Of each level, coarse to fine, the cluster that each of the finest is in; one level for a flat clusterer."""
    n_clusters = len(checked_directions(model, who))
    if not hasattr(model, "level_sizes_"):
        return [np.arange(n_clusters)]
    return [model.ancestors(level) for level in range(len(model.level_sizes_))]


def sizes_of(model: Any, levels: list[Ancestors]) -> list[int]:
    """How many clusters each level has: the last ones of a coarse level may have none of the finest in them."""
    return [int(size) for size in getattr(model, "level_sizes_", [len(levels[-1])])]


def checked_labels(model: Any, labels: Any, who: str) -> npt.NDArray[np.int64]:
    """The finest cluster of each row (n,): those given, or those of the fit; -1 is none."""
    n_clusters = len(checked_directions(model, who))
    given = check_numbers(model.labels_ if labels is None else labels, "labels", who)
    codes = given.astype(np.int64)
    is_wrong = (codes != given) | (codes < -1) | (codes >= n_clusters)
    if codes.ndim != 1 or is_wrong.any():
        came = f"shape {given.shape}"
        if codes.ndim == 1:
            came = f"{given[is_wrong][0]:g} in row {np.flatnonzero(is_wrong)[0]}"
        raise InputError(
            f"`labels` of {who} must be one cluster number per row, from -1 to {n_clusters - 1}; got {came}. Use "
            "model.predict(X)."
        )
    return codes


def checked_rows(among: Any, n_rows: int, name: str, who: str) -> npt.NDArray[np.bool_]:
    """Which rows are meant (n,): all, a mask, or their numbers."""
    if among is None:
        return np.ones(n_rows, dtype=np.bool_)
    given = np.asarray(among)
    if given.dtype == np.bool_ and given.shape == (n_rows,):
        return given
    is_numbers = given.ndim == 1 and (given.dtype.kind in "iu" or not given.size)
    if not is_numbers or not ((given >= 0) & (given < n_rows)).all():
        raise InputError(
            f"`{name}` of {who} must be a mask of shape ({n_rows},) or numbers of rows below {n_rows}; got "
            f"{given.dtype} of shape {given.shape}. Use numpy.flatnonzero(mask)."
        )
    mask = np.zeros(n_rows, dtype=np.bool_)
    mask[given.astype(np.int64)] = True
    return mask
