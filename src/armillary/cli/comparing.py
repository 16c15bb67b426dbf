"""The work of `armillary compare`: the same rows by several models, and how far these agree."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import armillary
from armillary._typing import Float64Array
from armillary.cli.clustering import command_line
from armillary.cli.facts import scores_of, silhouette_of
from armillary.cli.fits import Fit, Request, described, fit_request
from armillary.cli.labels_out import write_labels
from armillary.cli.model_names import AUTO, entry
from armillary.cli.reading import Reading, read_times, read_truth
from armillary.cli.screen import Screen
from armillary.exceptions import ArmillaryError, ParameterError
from armillary.files.folders import SUMMARY, whole_folder
from armillary.files.vectors import Vectors

_USUAL = (AUTO, "dp", "links")
_USUAL_WITH_COUNT = ("skmeans", "vmf", "bayes", "dp")


def compare_models(
    reading: Reading,
    names: list[str],
    request: Request,
    truth_file: tuple[str | None, str | None],
    times_file: str | None,
    output: str | None,
    screen: Screen,
    *,
    force: bool,
    is_guarded: bool = False,
) -> None:
    """Fit, compare, print, and write a folder where one is named."""
    chosen = _names(names, request)
    with nullcontext() if output is None else whole_folder(output, force=force) as folder:
        vectors = replace(reading.read(screen), texts=None)
        truth = read_truth(*truth_file, vectors.n_rows, screen)
        times = read_times(times_file, vectors.n_rows, screen)
        table, fits = _compared(chosen, request, vectors, truth, times, screen)
        agreement = _agreement([fit.labels for fit in fits])
        result = {
            "armillary": armillary.__version__,
            "command": command_line(),
            "models": table,
            "agreement": {
                "score": "adjusted Rand index",
                "models": [line["model"] for line in table if "error" not in line],
            }
            | {"matrix": agreement.tolist()},
            "warnings": screen.warnings,
        }
        if folder is not None:
            _write(folder, result, fits, vectors, agreement, has_truth=truth is not None, is_guarded=is_guarded)
    _show(table, screen, has_truth=truth is not None)
    if output is not None:
        screen.result(f"{output}: {SUMMARY}, comparison.png, labels-*.csv")
    screen.data(result)


def _names(names: list[str], request: Request) -> list[str]:
    usual = _USUAL if request.n_clusters is None else _USUAL_WITH_COUNT
    given = [name.strip() for name in names if name.strip()] or list(usual)
    chosen = [AUTO if name.lower() == AUTO else entry(name)[0] for name in given]
    if len(set(chosen)) < len(chosen):
        raise ParameterError(f"--models must name every model once; got {', '.join(given)}.")
    return chosen


def _request_of(name: str, request: Request) -> Request:
    """The options that a model takes."""
    if name == AUTO:
        return replace(request, model=AUTO, n_clusters=None, max_angle=None)
    known = entry(name)[1]
    takes_count = known.count is not None or (name == "dp" and request.max_angle is None)
    return replace(
        request,
        model=name,
        n_clusters=request.n_clusters if takes_count else None,
        max_angle=request.max_angle if known.takes_angle else None,
    )


def _compared(
    names: list[str],
    request: Request,
    vectors: Vectors,
    truth: npt.NDArray[Any] | None,
    times: npt.NDArray[Any] | None,
    screen: Screen,
) -> tuple[list[dict[str, Any]], list[Fit]]:
    """One line for each model, with an error where one could not be fitted, and the fits that could."""
    table: list[dict[str, Any]] = []
    fits, errors = [], []
    for name in names:
        start = time.perf_counter()
        try:
            fit = fit_request(_request_of(name, request), vectors, screen, times if name == "temporal" else None)
        except ArmillaryError as error:
            errors.append(error)
            screen.note(f"{name}: {error}")
            table.append({"model": name, "error": str(error)})
            continue
        seconds = time.perf_counter() - start
        sizes = np.unique(fit.labels[fit.labels >= 0], return_counts=True)[1]
        table.append(
            {
                "model": name,
                "settings": described(fit.model),
                "n_clusters": fit.n_clusters,
                "largest_share": float(sizes.max(initial=0)) / vectors.n_rows,
                "silhouette": silhouette_of(vectors.rows, fit.labels),
                **(scores_of(truth, fit.labels) or {}),
                "seconds": round(seconds, 4),
            }
        )
        fits.append(replace(fit, name=name))
    if not fits:
        raise errors[0]
    return table, fits


def _agreement(labels: list[npt.NDArray[Any]]) -> Float64Array:
    from sklearn.metrics import adjusted_rand_score

    return np.array([[adjusted_rand_score(one, other) for other in labels] for one in labels])


def _write(
    folder: Path,
    result: dict[str, Any],
    fits: list[Fit],
    vectors: Vectors,
    agreement: Float64Array,
    *,
    has_truth: bool,
    is_guarded: bool,
) -> None:
    from armillary.plots import plot_comparison

    drawn = [line for line in result["models"] if "error" not in line]
    scores = ["silhouette", *(("NMI", "ARI") if has_truth else ())]
    plot_comparison(drawn, scores, agreement).savefig(folder / "comparison.png", dpi=150)
    for fit in fits:
        write_labels(folder / f"labels-{fit.name}.csv", fit.labels, vectors, is_guarded=is_guarded)
    (folder / SUMMARY).write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")


def _show(table: list[dict[str, Any]], screen: Screen, *, has_truth: bool) -> None:
    names = ["silhouette", *(("NMI", "ARI", "matched accuracy") if has_truth else ())]
    lines = []
    for line in table:
        if "error" in line:
            lines.append([line["model"], "-", "-", *("-" for _ in names), "-"])
            continue
        numbers = ["-" if line[name] is None else f"{line[name]:.4f}" for name in names]
        share = f"{line['largest_share']:.1%}"
        lines.append([line["model"], f"{line['n_clusters']:,}", share, *numbers, f"{line['seconds']:.2f}"])
    screen.table(["model", "clusters", "largest", *names, "seconds"], lines)
