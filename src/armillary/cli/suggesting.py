"""The work of `armillary suggest`: sweeps over angles and numbers of clusters, and the choice of `cluster`."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from typing import Any

import numpy as np

import armillary
from armillary.cli.clustering import command_line, plain
from armillary.cli.facts import silhouette_of
from armillary.cli.fits import Request, described, sampled_rows
from armillary.cli.reading import Reading
from armillary.cli.screen import Screen
from armillary.files.folders import SUMMARY, whole_folder

# numbers of clusters, with a ratio of about 1.3 between them
_N_COUNTS = 18
_FEWEST_MOST, _MOST = 20, 200
_STARTS = 3


def suggest_settings(
    reading: Reading,
    request: Request,
    max_clusters: int | None,
    output: str | None,
    screen: Screen,
    *,
    has_choice: bool,
    force: bool,
) -> None:
    """Sweep, print, and write a folder where one is named."""
    with nullcontext() if output is None else whole_folder(output, force=force) as folder:
        vectors = reading.read(screen)
        sampled = sampled_rows(request, vectors.n_rows)
        rows = vectors.rows if sampled is None else vectors.rows[sampled]
        if sampled is not None:
            screen.note("On a sample of the rows small angles come out too well, since clusters are thinner.")
        with screen.timed("angles"):
            angles = armillary.select_max_angle(
                rows,
                max_clusters=max_clusters,
                random_state=request.seed,
                n_threads=request.threads,
                callbacks=screen.callbacks(),
            )
        with screen.timed("numbers"):
            counts = _count_sweep(rows, request, max_clusters, screen)
        choice = None
        if has_choice:
            with screen.timed("choice"):
                choice = armillary.choose_model(rows, random_state=request.seed, n_threads=request.threads)
        result = _result(rows, angles, counts, choice, request, screen)
        if folder is not None:
            from armillary.plots import plot_suggestion

            sweeps = [("silhouette of spherical k-means", counts)]
            if choice is not None:
                sweeps += [(choice.criterion, choice.table)] if _can_be_drawn(choice.table) else []
            plot_suggestion(angles, sweeps).savefig(folder / "suggestion.png", dpi=150)
            (folder / SUMMARY).write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    _show(angles, counts, result, output, screen)


def _can_be_drawn(table: Any) -> bool:
    return any(line.get("n_clusters") is not None and line.get("score") is not None for line in table)


def _count_sweep(rows: Any, request: Request, max_clusters: int | None, screen: Screen) -> list[dict[str, Any]]:
    """Spherical k-means for numbers of clusters with a constant ratio, and its silhouettes."""
    n_rows = rows.shape[0]
    most = max_clusters or min(max(math.isqrt(n_rows), _FEWEST_MOST), _MOST)
    grid = np.unique(np.geomspace(2, max(2, min(most, n_rows - 1)), _N_COUNTS).round().astype(int))
    table = []
    with screen.progress("numbers of clusters", len(grid), "fits") as advance:
        for count in grid.tolist():
            model = armillary.SphericalKMeans(
                count, n_init=_STARTS, random_state=request.seed, n_threads=request.threads
            ).fit(rows)
            table.append({"n_clusters": count, "score": silhouette_of(rows, model.labels_)})
            advance(1)
    return table


def _result(
    rows: Any, angles: Any, counts: list[dict[str, Any]], choice: Any, request: Request, screen: Screen
) -> dict[str, Any]:
    best = max((line for line in counts if line["score"] is not None), key=lambda line: line["score"], default=None)
    columns = zip(np.degrees(angles.max_angles), angles.n_clusters, angles.silhouettes, strict=True)
    result: dict[str, Any] = {
        "armillary": armillary.__version__,
        "command": command_line(),
        "max_angle_degrees": math.degrees(angles.max_angle),
        "n_clusters_at_angle": int(angles.n_clusters[angles.best]),
        "n_clusters": None if best is None else best["n_clusters"],
        "angles": [
            {"max_angle_degrees": float(angle), "n_clusters": int(found), "score": float(silhouette)}
            for angle, found, silhouette in columns
        ],
        "numbers": counts,
        "choice": None,
        "seconds": {step: round(seconds, 4) for step, seconds in screen.timings.items()},
    }
    if choice is not None:
        result["choice"] = {
            "model": described(choice.model),
            "n_clusters": int(choice.model.n_clusters_),
            "reason": choice.reason,
            "criterion": choice.criterion,
            "table": plain([dict(line) for line in choice.table]),
        }
    if request.n_clusters is not None:
        angle = armillary.suggest_max_angle(rows, request.n_clusters, n_threads=request.threads)
        result["angle_for"] = {"n_clusters": request.n_clusters, "max_angle_degrees": math.degrees(angle)}
    return result


def _show(
    angles: Any, counts: list[dict[str, Any]], result: dict[str, Any], output: str | None, screen: Screen
) -> None:
    screen.result(str(angles))
    screen.table(
        ["K", "silhouette"],
        [[line["n_clusters"], "-" if line["score"] is None else f"{line['score']:.4f}"] for line in counts],
        title="spherical k-means",
    )
    screen.result(
        f"By angle: --max-angle {result['max_angle_degrees']:.4g} ({result['n_clusters_at_angle']:,} clusters). "
        f"By number: --n-clusters {result['n_clusters']}."
    )
    if "angle_for" in result:
        wanted = result["angle_for"]
        screen.result(f"For about {wanted['n_clusters']} clusters: --max-angle {wanted['max_angle_degrees']:.4g}.")
    if result["choice"] is not None:
        screen.result(f"By itself, cluster takes: {result['choice']['reason']}")
    if output is not None:
        screen.result(f"{output}: {SUMMARY}, suggestion.png")
    screen.data(result)
