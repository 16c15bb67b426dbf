"""Thresholds of `Links` for a stream: from a preset, or tuned on labelled vectors; and the look at what they made."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from armillary.cli.fits import Request
from armillary.cli.screen import Screen
from armillary.exceptions import ParameterError
from armillary.files.vectors import read_vectors
from armillary.files.words import read_labels
from armillary.selection.link_tuning import LINK_PRESETS, tune_links

_NAMES = ("cluster_similarity_threshold", "subcluster_similarity_threshold", "pair_similarity_maximum")
# Of so many rows at least, one cluster with this share of them has swallowed the stream.
_ENOUGH_ROWS, _SWALLOWED = 50, 0.9


def with_thresholds(
    request: Request, preset: str | None, tuning: tuple[str | None, str | None], state: str | None, screen: Screen
) -> Request:
    """The request with the thresholds that --preset or --tune-on give; those of a state that is there stay."""
    tune_on, labels = tuning
    if preset is None and tune_on is None:
        if labels is not None:
            raise ParameterError(
                "--labels belongs to --tune-on in a stream; got it alone. Name the vectors they label."
            )
        return request
    option = "--preset" if preset is not None else "--tune-on"
    if preset is not None and tune_on is not None:
        raise ParameterError("Thresholds come from --preset or from --tune-on; got both. Leave one out.")
    if request.model.strip().lower() not in ("", "links"):
        raise ParameterError(f"{option} belongs to the model links; got --model {request.model}. Leave one out.")
    if state is not None and os.path.exists(state):
        screen.note(f"The state '{state}' has its thresholds; {option} is not looked at.")
        return request
    found = _of_preset(preset, screen) if preset is not None else _tuned(str(tune_on), labels, screen)
    return replace(request, settings={**dict(zip(_NAMES, found, strict=True)), **request.settings})


def _of_preset(name: str, screen: Screen) -> tuple[float, float, float]:
    if name not in LINK_PRESETS:
        raise ParameterError(f"--preset must be one of {', '.join(map(repr, LINK_PRESETS))}; got '{name}'.")
    preset = LINK_PRESETS[name]
    screen.note(f"Thresholds for {preset.vectors}; measured: {preset.measured}.")
    return preset[:3]


def _tuned(path: str, labels: str | None, screen: Screen) -> tuple[float, float, float]:
    if labels is None:
        raise ParameterError(f"--tune-on needs to know whose vectors '{path}' has; got no --labels. Give both.")
    with screen.heard():
        rows = read_vectors(path).rows
        table = tune_links(rows, read_labels(labels, rows.shape[0]), verbose=int(screen.shows_progress))
    best = table.best
    screen.note(
        f"Thresholds {best[0]:.4g}, {best[1]:.4g} and {best[2]:.4g}, tuned on {table.n_vectors:,} vectors of "
        f"{table.n_labels:,} labels: matched accuracy {best.accuracy:.3f} on them, {best.n_ids:.0f} ids."
    )
    return best[0], best[1], best[2]


class SwallowWatch:
    """Counts answers, and warns where one cluster took nearly all though nobody gave a threshold."""

    def __init__(self, request: Request, class_name: str) -> None:
        self._is_on = class_name == "Links" and not set(_NAMES) & set(request.settings)
        self._counts: Counter[int] = Counter()

    def take(self, clusters: npt.NDArray[np.integer]) -> None:
        """Some answers more."""
        if self._is_on:
            self._counts.update(np.asarray(clusters)[np.asarray(clusters) >= 0].tolist())

    def say(self, screen: Screen) -> None:
        """The warning, where it is due."""
        total = self._counts.total()
        if total < _ENOUGH_ROWS:
            return
        cluster, n_rows = self._counts.most_common(1)[0]
        if n_rows >= _SWALLOWED * total:
            screen.warn(
                f"Cluster {cluster} took {n_rows:,} of {total:,} rows, and no threshold was given: the default suits "
                "vectors of other pairs. Give --preset NAME, --tune-on FILE --labels FILE, or "
                "--set cluster_similarity_threshold=T (higher makes more clusters)."
            )
