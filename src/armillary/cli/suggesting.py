"""The work of `armillary suggest`: sweeps over angles and numbers of clusters, and the choice of `cluster`."""

from __future__ import annotations

import json
import math
import shlex
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

import armillary
from armillary.cli.clustering import command_line, plain
from armillary.cli.facts import silhouette_of
from armillary.cli.fits import Request, described, sampled_rows
from armillary.cli.present import present_rows, those_here
from armillary.cli.reading import Reading
from armillary.cli.screen import Screen
from armillary.exceptions import ParameterError
from armillary.files.folders import SUMMARY, whole_folder
from armillary.selection.counting import counted, n_clusters_of
from armillary.sources.stored import StoredRows

# numbers of clusters, with a ratio of about 1.3 between them, up to the square root of the rows
_N_COUNTS = 18
_FEWEST_MOST, _MOST = 20, 200
# where the best is the last of them, more, until so many beyond it are worse, or up to so many clusters
_RATIO, _N_BEYOND, _VERY_MOST = 1.3, 2, 1000
_STARTS = 3
_SILHOUETTE = "mean silhouette by cosine"


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
        is_here = present_rows(vectors.rows, request.missing, screen)
        rows = those_here(vectors.rows, is_here)
        sampled = sampled_rows(request, rows.shape[0])
        rows = rows if sampled is None else rows[sampled]
        if isinstance(rows, StoredRows):
            raise ParameterError(
                "suggest fits rows over and over, so they must be in memory; these stay on disk. Take a sample of "
                "them: --sample 100000."
            )
        if sampled is not None:
            screen.note("On a sample of the rows small angles come out too well, since clusters are thinner.")
        with screen.timed("angles"):
            angles = armillary.select_max_angle(
                rows,
                max_clusters=max_clusters,
                extend=True,
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
        search = None
        if request.n_clusters is not None:
            with screen.timed("angle for K"):
                search = armillary.find_max_angle(
                    rows,
                    request.n_clusters,
                    random_state=request.seed,
                    n_threads=request.threads,
                    callbacks=screen.callbacks(),
                )
        result = _result(angles, counts, choice, search, max_clusters, rows.shape[0], screen)
        result["advice"] = {**_advice(reading, request, result), "rows": rows.shape[0], "of": vectors.n_rows}
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
    """Spherical k-means for numbers of clusters with a constant ratio, and silhouettes; more where the last wins."""
    n_rows = rows.shape[0]
    most = max_clusters or min(max(math.isqrt(n_rows), _FEWEST_MOST), _MOST)
    grid = np.unique(np.geomspace(2, max(2, min(most, n_rows - 1)), _N_COUNTS).round().astype(int)).tolist()
    table: list[dict[str, Any]] = []
    with screen.progress("numbers of clusters", None, "fits") as advance:
        while grid:
            count = grid.pop(0)
            model = armillary.SphericalKMeans(
                count, n_init=_STARTS, random_state=request.seed, n_threads=request.threads
            ).fit(rows)
            found = n_clusters_of(model.labels_)
            table.append({"n_clusters": count, "n_found": found, "score": silhouette_of(rows, model.labels_)})
            advance(1)
            more = math.ceil(count * _RATIO)
            if not grid and more <= most_looked_at(n_rows, max_clusters) and _is_near_end(table):
                grid.append(more)
    return table


def most_looked_at(n_rows: int, max_clusters: int | None) -> int:
    """Where a sweep over numbers of clusters ends, whatever it finds."""
    return max_clusters or min(n_rows // 2, _VERY_MOST)


def _best_count(table: list[dict[str, Any]]) -> dict[str, Any] | None:
    return max((line for line in table if line["score"] is not None), key=lambda line: line["score"], default=None)


def _is_near_end(table: list[dict[str, Any]]) -> bool:
    """Whether fewer fits than it takes to call it the best lie beyond the best."""
    best = _best_count(table)
    return best is not None and len(table) - 1 - table.index(best) < _N_BEYOND


def _end_of_counts(table: list[dict[str, Any]], n_rows: int, max_clusters: int | None) -> str:
    """A sentence where the best number is the first or the last that was tried."""
    best = _best_count(table)
    if best is None or table[0] is not best is not table[-1]:
        return ""
    if best is table[0]:
        return f"The best number, {best['n_clusters']}, is the smallest of {len(table)}: fewer have no silhouette."
    why = "as --max-clusters says" if max_clusters else f"half of the {n_rows:,} rows, or {_VERY_MOST:,}, are the most"
    return f"The best number, {best['n_clusters']:,}, is the largest of {len(table)}: no more were tried, {why}."


def _result(
    angles: Any,
    counts: list[dict[str, Any]],
    choice: Any,
    search: Any,
    max_clusters: int | None,
    n_rows: int,
    screen: Screen,
) -> dict[str, Any]:
    best = _best_count(counts)
    columns = zip(np.degrees(angles.max_angles), angles.n_clusters, angles.silhouettes, strict=True)
    result: dict[str, Any] = {
        "armillary": armillary.__version__,
        "command": command_line(),
        "advice": {},
        "max_angle_degrees": math.degrees(angles.max_angle),
        "n_clusters_at_angle": int(angles.n_clusters[angles.best]),
        "silhouette_at_angle": float(angles.silhouettes[angles.best]),
        "n_clusters": None if best is None else best["n_clusters"],
        "silhouette_at_number": None if best is None else best["score"],
        "ends": [words for words in (angles.end, _end_of_counts(counts, n_rows, max_clusters)) if words],
        "angles": [
            {"max_angle_degrees": float(angle), "n_clusters": int(found), "score": float(silhouette)}
            for angle, found, silhouette in columns
        ],
        "numbers": counts,
        "choice": None,
        "seconds": {step: round(seconds, 4) for step, seconds in screen.timings.items()},
        "warnings": screen.warnings,
    }
    if choice is not None:
        result["choice"] = {
            "model": described(choice.model),
            "n_clusters": n_clusters_of(choice.model.labels_),
            "reason": choice.reason,
            "criterion": choice.criterion,
            "table": plain([dict(line) for line in choice.table]),
        }
    if search is not None:
        result["angle_for"] = {
            "n_clusters": search.n_asked,
            "n_found": search.n_found,
            "max_angle_degrees": math.degrees(search.max_angle),
            "reason": search.reason,
        }
    return result


def _advice(reading: Reading, request: Request, result: dict[str, Any]) -> dict[str, Any]:
    """The one thing to do: what `cluster` takes by itself, or without that the higher of the two silhouettes."""
    if result["choice"] is not None:
        options, found, criterion = [], result["choice"]["n_clusters"], result["choice"]["criterion"]
    elif result["n_clusters"] is None or result["silhouette_at_angle"] > result["silhouette_at_number"]:
        options = ["-m", "dp", "--max-angle", f"{result['max_angle_degrees']:.8g}"]
        found, criterion = result["n_clusters_at_angle"], _SILHOUETTE
    else:
        options = ["--n-clusters", str(result["n_clusters"])]
        found, criterion = result["n_clusters"], _SILHOUETTE
    given = {
        "--key": reading.key,
        "--text-column": reading.text_column,
        "--embed": reading.embed,
        "--format": reading.format,
        "--seed": request.seed or None,
    }
    options += [word for name, value in given.items() if value is not None for word in (name, str(value))]
    options += [] if reading.header is None else ["--header" if reading.header else "--no-header"]
    return {
        "command": shlex.join(["armillary", "cluster", reading.path, *reading.others, *options]),
        "n_clusters": found,
        "criterion": criterion,
    }


def _show(
    angles: Any, counts: list[dict[str, Any]], result: dict[str, Any], output: str | None, screen: Screen
) -> None:
    screen.result(str(replace(angles, end="")))  # said below, beside the advice
    has_empty = any(line["n_found"] < line["n_clusters"] for line in counts)
    screen.table(
        ["K", *(["with rows"] if has_empty else []), "silhouette"],
        [
            [
                line["n_clusters"],
                *([line["n_found"]] if has_empty else []),
                "-" if line["score"] is None else f"{line['score']:.4f}",
            ]
            for line in counts
        ],
        title="spherical k-means",
    )
    advice = result["advice"]
    on_sample = "" if advice["rows"] == advice["of"] else f" in {advice['rows']:,} of {advice['of']:,} rows"
    by = f", by {advice['criterion']}" if advice["n_clusters"] > 1 else ""  # one is what is left
    screen.result(f"Advice: {advice['command']} ({counted(advice['n_clusters'], 'cluster')}{on_sample}{by})")
    if result["choice"] is not None:
        screen.result(f"Why: {result['choice']['reason']}")
    another = f", which is another criterion and says {_otherwise(result)}" if result["choice"] is not None else ""
    screen.result(f"By {_SILHOUETTE}{another}:")
    screen.result(
        f"  of angles: --max-angle {result['max_angle_degrees']:.8g} "
        f"({counted(result['n_clusters_at_angle'], 'cluster')}, {result['silhouette_at_angle']:.4f})"
    )
    number = "none has one"
    if result["n_clusters"] is not None:
        number = f"--n-clusters {result['n_clusters']} ({result['silhouette_at_number']:.4f})"
    screen.result(f"  of numbers: {number}")
    for sentence in result["ends"]:
        screen.result(sentence)
    if "angle_for" in result:
        wanted = result["angle_for"]
        screen.result(
            f"For {wanted['n_clusters']:,}: --max-angle {wanted['max_angle_degrees']:.8g}. {wanted['reason']}"
        )
    if output is not None:
        screen.result(f"{output}: {SUMMARY}, suggestion.png")
    screen.data(result)


def _otherwise(result: dict[str, Any]) -> str:
    """Whether the criteria come to the same number of clusters."""
    numbers = {result["advice"]["n_clusters"], result["n_clusters_at_angle"], result["n_clusters"]}
    return "the same" if len(numbers) == 1 else "otherwise"
