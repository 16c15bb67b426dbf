"""The work of `armillary cluster`: read, fit, score, and a folder with all that was found."""

from __future__ import annotations

import json
import platform
import shlex
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

import armillary
from armillary.cli.facts import cluster_lines, scores_of
from armillary.cli.fits import Fit, Request, described, fit_request, is_model_choice, told_parameters
from armillary.cli.labels_out import write_labels
from armillary.cli.model_names import MODELS
from armillary.cli.reading import Reading, read_times, read_truth
from armillary.cli.screen import Screen
from armillary.files.folders import SUMMARY, whole_folder
from armillary.files.vectors import Vectors
from armillary.models.counting import counted

# clusters that are printed; summary.json has all
_MOST_PRINTED = 20
# libraries whose release may change a result
_VERSIONS = ("numpy", "scipy", "scikit-learn", "numba")


@dataclass(frozen=True)
class Task:
    """What to cluster, how, and where the results go."""

    reading: Reading
    request: Request
    output: str | None = None
    truth: tuple[str | None, str | None] = (None, None)  # file and column
    times: str | None = None
    has_report: bool = True
    is_guarded: bool = False  # whether labels.csv is safe to open in a spreadsheet
    force: bool = False

    @property
    def folder(self) -> str:
        """The output folder: as named, or after the input."""
        if self.output is not None:
            return self.output
        stem = "vectors" if self.reading.path == "-" else PurePath(self.reading.path).name.split(".")[0]
        return f"{stem}-clusters"


def cluster_to_folder(task: Task, screen: Screen) -> None:
    """Do the task. The folder is there, whole, when this returns, and is not when it raises."""
    with whole_folder(task.folder, force=task.force) as folder:
        vectors = task.reading.read(screen)
        truth = read_truth(*task.truth, vectors.n_rows, screen)
        times = read_times(task.times, vectors.n_rows, screen)
        fit = fit_request(task.request, vectors, screen, times)
        with screen.timed("measuring"):
            clusters = cluster_lines(vectors.rows, fit.labels, task.request.threads)
            scores = scores_of(truth, fit.labels)
        with screen.timed("writing"):
            write_labels(folder / "labels.csv", fit.labels, vectors, is_guarded=task.is_guarded)
            write_labels(folder / "labels.npy", fit.labels, vectors)
            armillary.save(fit.model, folder / "model.safetensors")
        snippet = python_snippet(task, fit)
        if task.has_report:
            with screen.timed("reporting"):
                _write_report(folder / "report.html", task, vectors, fit, truth, snippet, screen)
        summary = _summary(task, vectors, fit, clusters, scores, snippet, screen)
        (folder / SUMMARY).write_text(json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    _show(task, summary, screen)


def command_line() -> str:
    """The command that runs now, as it can be pasted into a shell."""
    return shlex.join(["armillary", *sys.argv[1:]])


def python_snippet(task: Task, fit: Fit) -> str:
    """Lines of Python that make the same clusters."""
    reading, request = task.reading, task.request
    options = "".join(
        f", {name}={value!r}"
        for name, value in (("format", reading.format), ("key", reading.key), ("has_header", reading.header))
        if value is not None
    )
    lines = ["import armillary", "from armillary.files import read_vectors", ""]
    lines.append(f"X = read_vectors({reading.path!r}{options}).rows")
    rows = "X"
    if fit.sampled is not None:
        lines.insert(1, "import numpy as np")
        drawn = f"np.random.default_rng({request.seed}).choice(len(X), {request.sample}, replace=False)"
        lines.append(f"sample = X[np.sort({drawn.replace('len(X)', 'X.shape[0]')})]")
        rows = "sample"
    if is_model_choice(fit.choice):
        lines += [f"choice = armillary.choose_model({rows}, random_state={request.seed})", "model = choice.model"]
    else:
        times = "" if task.times is None else ", times=times  # one for each row"
        lines.append(f"model = armillary.{described(fit.model)}.fit({rows}{times})")
    lines.append("labels = model.labels_" if fit.sampled is None else "labels = model.predict(X)")
    return "\n".join(lines) + "\n"


def _write_report(
    path: Path, task: Task, vectors: Vectors, fit: Fit, truth: npt.NDArray[Any] | None, snippet: str, screen: Screen
) -> None:
    from armillary.report import ReportData, write_report

    data = ReportData(
        X=vectors.rows,
        labels=fit.labels,
        model=fit.model,
        title=PurePath(task.reading.path).name if task.reading.path != "-" else "standard input",
        ids=vectors.ids,
        texts=vectors.texts,
        truth=truth,
        choice=fit.choice,
        timings=dict(screen.timings),
        command=command_line(),
        snippet=snippet,
        notes=[fit.reason, *vectors.notes, *screen.warnings],
    )
    write_report(path, data, n_threads=task.request.threads)


def _summary(
    task: Task,
    vectors: Vectors,
    fit: Fit,
    clusters: list[dict[str, Any]],
    scores: dict[str, float] | None,
    snippet: str,
    screen: Screen,
) -> dict[str, Any]:
    return {
        "armillary": armillary.__version__,
        "command": command_line(),
        "python": snippet,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _VERSIONS}},
        "data": {
            "source": task.reading.path,
            "format": vectors.format,
            "rows": vectors.n_rows,
            "columns": vectors.n_features,
            "dtype": str(vectors.rows.dtype),
            "is_sparse": not isinstance(vectors.rows, np.ndarray),
            "has_ids": vectors.ids is not None,
            "has_texts": vectors.texts is not None,
            "understood_as": list(vectors.notes),
        },
        "model": {
            "name": fit.name,
            "class": MODELS[fit.name].class_name,
            "parameters": plain(told_parameters(fit.model)),
            "rows_fitted": vectors.n_rows if fit.sampled is None else len(fit.sampled),
        },
        "reason": fit.reason,
        "choice": _choice(fit.choice),
        "n_clusters": fit.n_clusters,
        "clusters": clusters,
        "rows_in_no_cluster": int(np.count_nonzero(np.asarray(fit.labels) < 0)),
        "scores": scores,
        "seconds": {step: round(seconds, 4) for step, seconds in screen.timings.items()},
        "warnings": screen.warnings,
    }


def _choice(choice: Any) -> dict[str, Any] | None:
    """What the settings were chosen from."""
    if choice is None:
        return None
    if hasattr(choice, "criterion"):
        return {"criterion": choice.criterion, "table": plain([dict(line) for line in choice.table])}
    angles, columns = np.degrees(choice.max_angles), zip(choice.n_clusters, choice.silhouettes, strict=True)
    table = [
        {"max_angle_degrees": float(angle), "n_clusters": int(found), "score": float(silhouette)}
        for angle, (found, silhouette) in zip(angles, columns, strict=True)
    ]
    return {"criterion": "mean silhouette by cosine", "table": table}


def plain(value: Any) -> Any:
    """NumPy's numbers, tuples and what JSON has no word for, as JSON takes them."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _show(task: Task, summary: dict[str, Any], screen: Screen) -> None:
    lines = sorted(summary["clusters"], key=lambda line: -line["size"])
    if lines:
        screen.table(
            ("cluster", "rows", "share", "spread", "nearest", "silhouette"),
            [
                (
                    line["cluster"],
                    f"{line['size']:,}",
                    f"{line['share']:.1%}",
                    f"{line['spread_degrees']:.1f}°",
                    "-" if line["nearest"] is None else f"{line['nearest']} at {line['nearest_degrees']:.1f}°",
                    "-" if line["silhouette"] is None else f"{line['silhouette']:.3f}",
                )
                for line in lines[:_MOST_PRINTED]
            ],
        )
    if len(lines) > _MOST_PRINTED:
        screen.result(f"... and {counted(len(lines) - _MOST_PRINTED, 'more cluster')}, none larger")
    if summary["rows_in_no_cluster"]:
        screen.result(f"{counted(summary['rows_in_no_cluster'], 'row')} in no cluster (-1)")
    if summary["scores"]:
        screen.result(", ".join(f"{name} {value:.4f}" for name, value in summary["scores"].items()))
    screen.result(
        f"{task.folder}: labels.csv, labels.npy, model.safetensors, summary.json" + (", report.html" * task.has_report)
    )
    screen.data({"folder": task.folder, **summary})
