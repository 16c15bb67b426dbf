"""The work of `armillary inspect`: facts that a saved model holds, without the rows it was fitted on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.cli.clustering import plain
from armillary.cli.fits import described, told_parameters
from armillary.cli.model_names import AUTO, MODELS
from armillary.cli.saved import model_path
from armillary.cli.screen import Screen
from armillary.distributions import vmf
from armillary.exceptions import ArchiveError
from armillary.persistence.archive import load
from armillary.persistence.checkpoints import load_checkpoint
from armillary.selection.counting import counted, in_the_model

_MOST_PRINTED = 20
# fitted numbers that say something to people, in this order, where a model has them
_TOLD = (
    "n_steps_",
    "n_vectors_",
    "n_subclusters_",
    "n_iter_",
    "converged_",
    "objective_",
    "log_likelihood_",
    "lower_bound_",
)


def show_model(name: str, screen: Screen, *, is_whole: bool) -> None:
    """Print what the model under this name is."""
    path = model_path(name)
    try:
        model, place = load_checkpoint(path)
    except ArchiveError:
        model, place = load(path), None  # a model that is not in a stream, or a sentence about the file
    facts = model_facts(model, place)
    screen.data({"file": str(path), **facts})
    screen.result(described(model))
    screen.result(f"{in_the_model(model)}; vectors of {counted(facts['n_features'], 'number')}")
    for key, value in facts["fitted"].items():
        screen.result(f"{key}: {value:,}" if type(value) is int else f"{key}: {value}")
    if place is not None:
        screen.result(f"state of a stream after {counted(place['rows'], 'row')}")
    whose = "of the last step" if hasattr(model, "steps_unseen_") else "that it learned"
    screen.result(f"sizes are those of the {facts['rows']:,.0f} rows {whose}")
    lines = sorted(facts["clusters"], key=lambda line: -(line["size"] or 0.0))
    shown = lines if is_whole else lines[:_MOST_PRINTED]
    columns = [
        key
        for key in ("cluster", "size", "share", "spread_degrees", "concentration", "steps_unseen")
        if _has(lines, key)
    ]
    if shown:
        screen.table(
            [key.replace("_", " ") for key in columns], [[_cell(key, line[key]) for key in columns] for line in shown]
        )
    if len(shown) < len(lines):
        screen.result(f"... and {len(lines) - len(shown):,} more, none larger (--all)")


def _has(lines: list[dict[str, Any]], key: str) -> bool:
    return any(line.get(key) is not None for line in lines)


def _cell(key: str, value: Any) -> object:
    if value is None:
        return "-"
    match key:
        case "share":
            return f"{value:.1%}"
        case "spread_degrees":
            return f"{value:.1f}°"
        case "size":
            return f"{value:,.0f}"
        case "concentration":
            return f"{value:.4g}"
    return value


def model_facts(model: Any, place: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a fitted model says of itself, as numbers and words."""
    names, sizes, spreads, more = _clusters(model)
    n_rows = float(np.nansum(sizes))
    total = n_rows or 1.0
    clusters = [
        {
            "cluster": int(name),
            "size": None if math.isnan(size) else float(size),
            "share": None if math.isnan(size) else float(size) / total,
            "spread_degrees": None if math.isnan(spread) else math.degrees(spread),
            **{key: plain(values[number]) for key, values in more.items()},
        }
        for number, (name, size, spread) in enumerate(zip(names, sizes, spreads, strict=True))
    ]
    short = next((name for name, known in MODELS.items() if known.class_name == type(model).__name__), AUTO)
    return {
        "model": short,
        "class": type(model).__name__,
        "parameters": plain(told_parameters(model)),
        "n_features": int(model.n_features_in_),
        "n_clusters": int(model.n_clusters_),
        "fitted": {name.rstrip("_"): plain(getattr(model, name)) for name in _TOLD if hasattr(model, name)},
        "rows": n_rows,
        "clusters": clusters,
        "stream": place,
    }


def _clusters(model: Any) -> tuple[Any, npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]:
    """Names, sizes (NaN: unknown), spreads in radians (NaN: unknown) and more, of each cluster.

    The spread is the angle whose cosine is the mean cosine of a cluster's rows with its direction: of the rows behind
    the sums that a model keeps, or of its von Mises-Fisher component.
    """
    kind = type(model).__name__
    if kind == "Links":
        ids, codes = np.unique(model.subcluster_ids_, return_inverse=True)
        sums = np.zeros((len(ids), model.n_features_in_))
        np.add.at(sums, codes, model.resultants_)
        sizes = np.bincount(codes, model.counts_, minlength=len(ids))
        return ids, sizes, _spreads(sizes, sums), {}
    if kind == "DDPvMFMeans":
        sizes = np.array([float(np.count_nonzero(model.labels_ == one)) for one in model.cluster_ids_])
        more = {"steps_unseen": model.steps_unseen_, "memory_weight": model.memory_weights_}
        return model.cluster_ids_, sizes, np.full(len(sizes), math.nan), more
    if kind == "AutoClusterer":
        sizes = np.array([float(np.count_nonzero(model.labels_ == one)) for one in model.cluster_ids_])
        return model.cluster_ids_, sizes, np.full(len(sizes), math.nan), {}
    concentrations = getattr(model, "concentrations_", None)
    n_named = (
        len(concentrations) if concentrations is not None else len(getattr(model, "weights_", ())) or model.n_clusters_
    )
    sizes = np.bincount(model.labels_[model.labels_ >= 0], minlength=n_named).astype(np.float64)
    names = np.arange(len(sizes))
    if concentrations is not None:
        lengths = vmf.mean_resultant_length(model.n_features_in_, concentrations)
        return names, sizes, np.arccos(np.clip(lengths, -1.0, 1.0)), {"concentration": concentrations}
    if hasattr(model, "resultants_"):
        # after a fit the rows are those of labels_; of a stream only the sums are kept
        sizes = model.counts_ if getattr(model, "n_steps_", 0) else sizes
        return names, sizes, np.where(sizes > 0, _spreads(model.counts_, model.resultants_), math.nan), {}
    return names, sizes, np.full(len(sizes), math.nan), {}


def _spreads(counts: npt.NDArray[Any], resultants: npt.NDArray[Any]) -> npt.NDArray[Any]:
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = np.linalg.norm(resultants, axis=1) / counts
    return np.arccos(np.clip(cosines, -1.0, 1.0))
