"""Which model a new collection gets: by class and parameters, by preset, by labelled vectors, or from a file."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from armillary.exceptions import ArmillaryError
from armillary.metrics import matched_accuracy_score
from armillary.models.links.links import Links
from armillary.models.means.ddp_vmf_means import DDPvMFMeans
from armillary.selection.link_tuning import LINK_PRESETS, tune_links
from armillary.service.errors import unusable
from armillary.service.identities import LEAST_HISTORY
from armillary.service.operations import Rows

_CLASSES = {"Links": Links, "DDPvMFMeans": DDPvMFMeans}
_NOT_SET = {"callbacks", "verbose", "device", "n_threads"}  # of a process, not of a collection
_MOST_TUNED = 20_000
_FEW_SURPLUS = 0.15  # more ids than persons, as a share of the persons
# How a collection of a preset merges clusters unless it is told. Without it presets of faces leave 37 to 52 % more ids
# than persons; "lone" leaves 11 and 17 %, with more right answers, but takes more strangers for somebody known
# (`benchmarks/surplus_ids.py`). Presets that are not here were not measured so.
_MERGING = {
    "voice windows, few speakers": "whole",
    "voice windows, many speakers": "whole",
    "faces": "lone",
    "faces, centred": "lone",
}


def described(asked: dict[str, Any]) -> dict[str, Any]:
    """The model of a new collection as its facts keep it, checked."""
    if asked.get("preset") is not None:
        preset = LINK_PRESETS.get(asked["preset"])
        if preset is None:
            raise unusable(f"preset must be one of {', '.join(LINK_PRESETS)}; got {asked['preset']!r}.")
        given: dict[str, Any] = dict(zip(_THRESHOLDS, preset[:3], strict=True))
        if asked["preset"] in _MERGING:
            given["merge_clusters"] = _MERGING[asked["preset"]]
        facts = {"class": "Links", "parameters": {**given, **(asked.get("parameters") or {})}}
    else:
        facts = {"class": asked.get("class") or "Links", "parameters": asked.get("parameters") or {}}
    made(facts)
    return facts


def made(facts: dict[str, Any]) -> Any:
    """An unfitted model, or a sentence about what it cannot be."""
    kind = _CLASSES.get(facts["class"])
    if kind is None:
        raise unusable(f"class must be one of {', '.join(_CLASSES)}, or a fitted model be uploaded; "
                       f"got {facts['class']!r}.")  # fmt: skip
    known = set(kind().get_params()) - _NOT_SET
    for name in facts["parameters"]:
        if name not in known:
            raise unusable(f"{name!r} is no parameter of {facts['class']} here; there are {', '.join(sorted(known))}.")
    history = facts["parameters"].get("max_history")
    if isinstance(history, int | float) and history < LEAST_HISTORY:
        raise unusable(f"max_history of a collection must be {LEAST_HISTORY:,} at least: events and ids are told by "
                       "it. Leave it out.")  # fmt: skip
    model, probe = kind(**facts["parameters"]), kind(**facts["parameters"])
    probe.n_features_in_ = 2  # some check their parameters against the width of rows
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            probe._check_parameters()
    except (ArmillaryError, TypeError, ValueError, OverflowError) as error:
        raise unusable(str(error)) from None
    return model


_THRESHOLDS = ("cluster_similarity_threshold", "subcluster_similarity_threshold", "pair_similarity_maximum")


def tuned(vectors: Rows, labels: list[Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """Thresholds from labelled vectors, and the way of merging that suits them, as facts of a collection."""
    if len(vectors) > _MOST_TUNED:
        raise unusable(f"tune takes at most {_MOST_TUNED:,} vectors; got {len(vectors):,}. Give fewer of each label.")
    names = [str(label) for label in labels]
    try:
        best = tune_links(vectors, names).best
    except ArmillaryError as error:
        raise unusable(str(error)) from None
    given = {**dict(zip(_THRESHOLDS, best[:3], strict=True)), **parameters}
    if "merge_clusters" not in given:
        made({"class": "Links", "parameters": given})  # a sentence, where parameters do not fit
        given["merge_clusters"] = _way_of_merging(vectors, names, given)
    facts = {"class": "Links", "parameters": given}
    made(facts)
    return {**facts, "tuned": {"accuracy": best.accuracy, "ids": best.n_ids, "vectors": len(vectors)}}


def _way_of_merging(vectors: Rows, labels: list[str], parameters: dict[str, Any]) -> bool | str:
    """That with most right answers among those that leave few surplus ids; else that with the fewest."""
    truth = np.unique(labels, return_inverse=True)[1]
    found: list[tuple[float, float, bool | str]] = []
    for way in (False, "whole", "lone"):
        model = Links(**parameters, merge_clusters=way)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of thresholds: tuning looked at them
            ids = model.current_ids(model.fit_predict(vectors))
        surplus = len(np.unique(ids)) / (truth.max() + 1) - 1.0
        found.append((max(surplus - _FEW_SURPLUS, 0.0), -float(matched_accuracy_score(truth, ids)), way))
    return min(found, key=lambda one: one[:2])[2]  # of equals the first, which merges least
