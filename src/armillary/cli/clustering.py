"""The work of `armillary cluster`: read, fit, score, and a folder with all that was found."""

from __future__ import annotations

import glob
import json
import platform
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

import armillary
from armillary.cli.facts import measure_clusters, scores_of
from armillary.cli.fits import Fit, Request, described, fit_request, is_model_choice, told_parameters
from armillary.cli.labels_out import write_labels
from armillary.cli.model_names import AUTO
from armillary.cli.naming import NameRequest, add_names, named_clusters
from armillary.cli.reading import Reading, read_times, read_truth
from armillary.cli.saved import MODEL_FILE, WORDS_FILE
from armillary.cli.screen import Screen
from armillary.files.folders import SUMMARY, whole_folder
from armillary.files.vectors import Vectors
from armillary.files.words import read_words
from armillary.report.clusters import ClusterFacts
from armillary.selection.counting import counted
from armillary.sources.memory import free_memory
from armillary.sources.stored import StoredRows
from armillary.texts import WordWeights

# rows on disk that a report shows, and what they may take of the memory that is free
_MOST_DRAWN, _DRAWN_SHARE = 100_000, 0.1
# clusters that are printed; summary.json has all
_MOST_PRINTED = 20
# libraries whose release may change a result
_IMAGE_NAMES = frozenset({"image", "images", "path", "file", "picture"})
_VERSIONS = ("numpy", "scipy", "scikit-learn", "numba")


@dataclass(frozen=True)
class Pictures:
    """What the report shows beside the globe."""

    flat_map: str | None = None  # which library makes it
    images: str | None = None  # a file with a path for each row

    def check(self) -> None:
        """Refuse a map that cannot be made, before the work is done."""
        if self.flat_map is not None:
            from armillary.report.flat_map import check_map

            check_map(self.flat_map)

    def paths(self, n_rows: int) -> list[str] | None:
        """The paths of images."""
        return None if self.images is None else read_words(self.images, n_rows, "images", _IMAGE_NAMES)


@dataclass(frozen=True)
class Task:
    """What to cluster, how, and where the results go."""

    reading: Reading
    request: Request
    output: str | None = None
    truth: tuple[str | None, str | None] = (None, None)  # file and column
    times: str | None = None
    names: NameRequest = field(default_factory=NameRequest)
    has_report: bool = True
    pictures: Pictures = field(default_factory=Pictures)
    is_guarded: bool = False  # whether labels.csv is safe to open in a spreadsheet
    force: bool = False

    @property
    def folder(self) -> str:
        """The output folder: as named, or after the input."""
        if self.output is not None:
            return self.output
        # of a pattern the folder that its files are in
        named = PurePath(self.reading.path.rstrip("/\\"))
        named = named.parent if glob.has_magic(named.name) else named
        stem = "vectors" if self.reading.path == "-" else named.name.split(".")[0] or "vectors"
        return f"{stem}-clusters"


def cluster_to_folder(task: Task, screen: Screen) -> None:
    """Do the task. The folder is there, whole, when this returns, and is not when it raises."""
    task.pictures.check()
    with whole_folder(task.folder, force=task.force) as folder:
        vectors = task.reading.read(screen)
        truth = read_truth(*task.truth, vectors.n_rows, screen)
        times = read_times(task.times, vectors.n_rows, screen)
        fit = fit_request(task.request, vectors, screen, times)
        with screen.timed("measuring"):
            clusters, facts = measure_clusters(vectors.rows, fit.labels, task.request.threads)
            scores = scores_of(truth, fit.labels)
        with screen.timed("naming"), screen.progress("naming clusters", None, "clusters"):
            names = named_clusters(task.names, vectors, fit.labels, facts)
            add_names(clusters, names, vectors, keeps_texts=task.reading.keeps_texts)
        vectors = vectors if task.reading.keeps_texts else replace(vectors, texts=None)
        with screen.timed("writing"):
            write_labels(folder / "labels.csv", fit.labels, vectors, is_guarded=task.is_guarded, names=names)
            write_labels(folder / "labels.npy", fit.labels, vectors)
            armillary.save(fit.model, folder / MODEL_FILE)
            if _has_words(vectors):
                WordWeights(vectors.vocabulary or [], np.asarray(vectors.idf)).save(folder / WORDS_FILE)
        snippet = python_snippet(task, fit)
        if task.has_report:
            with screen.timed("reporting"):
                data = replace(
                    _report_data(task, vectors, fit, truth, snippet, screen),
                    names=names,
                    map=task.pictures.flat_map,
                    images=task.pictures.paths(vectors.n_rows),
                    **_of_the_fit(fit),
                )
                if isinstance(vectors.rows, StoredRows):
                    data = _drawn(data, vectors.rows, task.request.seed)
                _write_report(folder / "report.html", data, facts, task.request.threads)
        summary = _summary(task, vectors, fit, clusters, scores, snippet, screen)
        (folder / SUMMARY).write_text(json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    _show(task, _has_words(vectors), summary, screen)
    if vectors.texts is not None:
        screen.note(_privacy(_has_words(vectors), has_report=task.has_report))


def _has_words(vectors: Vectors) -> bool:
    """Whether there are words by which new texts are placed, and they may be kept."""
    return vectors.idf is not None and vectors.texts is not None


def _holding_texts(task: Task, vectors: Vectors) -> list[str]:
    """The files with texts of rows, or their words; `vectors` have none where they are left out."""
    also = [*(["report.html"] if task.has_report else []), *([WORDS_FILE] if _has_words(vectors) else [])]
    return ["labels.csv", SUMMARY, *also]


def _privacy(has_words: bool, *, has_report: bool) -> str:
    """Which files hold texts of the rows."""
    also = (" report.html the beginning of each," if has_report else "") + f" {WORDS_FILE} their words," * has_words
    return f"labels.csv holds the texts of all rows,{also} summary.json those of a few; --no-texts leaves them out."


def _of_the_fit(fit: Fit) -> dict[str, Any]:
    """Membership and levels of the rows, where the model or the choice behind it knows them."""
    levels = _known(fit, "levels")
    parts = {name: _part(levels, name) for name in ("coarse", "fine")}
    found = {name: _for_all_rows(fit, labels, -1) for name, labels in parts.items() if labels is not None}
    return {
        "membership": _for_all_rows(fit, _known(fit, "membership"), np.nan),
        "levels": {name: labels for name, labels in found.items() if labels is not None} or None,
    }


def _known(fit: Fit, name: str) -> Any:
    """A fitted attribute of the model, or of the estimator that chose it."""
    return getattr(fit.model, f"{name}_", getattr(fit.auto, f"{name}_", None))


def _part(levels: Any, name: str) -> Any:
    return levels.get(name) if isinstance(levels, Mapping) else getattr(levels, name, None)


def _for_all_rows(fit: Fit, values: Any, missing: float) -> npt.NDArray[Any] | None:
    """Values of the rows that were fitted, with something for those without a direction; None of a sample."""
    if values is None:
        return None
    known = np.asarray(values)
    if fit.is_here is not None and len(known) == np.count_nonzero(fit.is_here):
        spread = np.full(len(fit.is_here), missing, dtype=known.dtype)
        spread[fit.is_here] = known
        return spread
    return known if len(known) == len(fit.labels) else None


def command_line() -> str:
    """The command that runs now, as it can be pasted into a shell."""
    return shlex.join(["armillary", *sys.argv[1:]])


def python_snippet(task: Task, fit: Fit) -> str:
    """Lines of Python that make the same clusters."""
    reading, request = task.reading, task.request
    options = "".join(
        f", {name}={value!r}"
        for name, value in (
            ("format", reading.format),
            ("key", reading.key),
            ("has_header", reading.header),
            ("missing", None if fit.is_here is None else "flag"),
        )
        if value is not None
    )
    if reading.holds_texts():
        lines = _text_lines(reading)
    elif reading.is_many:
        paths: Any = [reading.path, *reading.others] if reading.others else reading.path
        column = "" if reading.key is None else f", column={reading.key!r}"
        lines = ["import armillary", "", f"X = armillary.open_rows({paths!r}{column})"]
    else:
        lines = ["import armillary", "from armillary.files import read_vectors", ""]
        lines.append(f"X = read_vectors({reading.path!r}{options}).rows")
    rows = "X"
    if fit.is_here is not None:
        lines.insert(1, "from armillary.validation import has_direction")
        lines.append("X = X[has_direction(X)]  # without rows of NaN and zeros: labels.csv has -1 for them")
    if fit.sampled is not None:
        lines.insert(1, "import numpy as np")
        drawn = f"np.random.default_rng({request.seed}).choice(len(X), {request.sample}, replace=False)"
        lines.append(f"sample = X[np.sort({drawn.replace('len(X)', 'X.shape[0]')})]")
        rows = "sample"
    if is_model_choice(fit.choice) and fit.name != AUTO:
        lines += [f"choice = armillary.choose_model({rows}, random_state={request.seed})", "model = choice.model"]
    else:
        times = "" if task.times is None else ", times=times  # one for each row"
        lines.append(f"model = armillary.{described(fit.model)}.fit({rows}{times})")
    lines.append("labels = model.labels_" if fit.sampled is None else "labels = model.predict(X)")
    return "\n".join(lines) + "\n"


def _text_lines(reading: Reading) -> list[str]:
    """Lines of Python that make rows of texts."""
    options = "".join(
        f", {name}={value!r}"
        for name, value in (
            ("format", reading.format),
            ("text_column", reading.text_column),
            ("has_header", reading.header),
        )
        if value is not None
    )
    name = "tfidf_rows" if reading.embed is None else "embed_texts"
    lines = [
        "import armillary",
        "from armillary.files import read_documents",
        f"from armillary.texts import {name}",
        "",
    ]
    lines.append(f"texts = read_documents({reading.path!r}{options}).texts")
    made = (
        "X, vocabulary = tfidf_rows(texts)" if reading.embed is None else f"X = embed_texts(texts, {reading.embed!r})"
    )
    return [*lines, made]


def _text_vectors(reading: Reading, vectors: Vectors) -> str | None:
    """How texts became rows."""
    return reading.embed or (None if vectors.vocabulary is None else "tfidf")


def _report_data(
    task: Task, vectors: Vectors, fit: Fit, truth: npt.NDArray[Any] | None, snippet: str, screen: Screen
) -> Any:
    from armillary.report import ReportData

    return ReportData(
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


def _drawn(data: Any, rows: StoredRows, seed: int) -> Any:
    """What a report shows of rows on disk: some of them, drawn at random."""
    n_rows = len(rows)
    most = min(_MOST_DRAWN, max(1, int(_DRAWN_SHARE * free_memory() * n_rows / rows.nbytes)))
    if most >= n_rows:
        return replace(data, X=rows[:])
    drawn = np.sort(np.random.default_rng(seed).choice(n_rows, most, replace=False))
    said = f"This page shows {most:,} of the {n_rows:,} rows, drawn at random, and counts those."

    def some(beside: Any) -> Any:
        return None if beside is None else np.asarray(beside)[drawn]

    return replace(
        data,
        X=rows[drawn],
        labels=some(data.labels),
        ids=drawn if data.ids is None else some(data.ids),  # a row is called by its number among all
        truth=some(data.truth),
        membership=some(data.membership),
        levels=data.levels and {name: some(labels) for name, labels in data.levels.items()},
        images=data.images and [data.images[number] for number in drawn],
        notes=[said, *data.notes],
    )


def _write_report(path: Path, data: Any, facts: ClusterFacts | None, n_threads: int | None) -> None:
    from armillary.report.writer import write_page

    write_page(path, data, n_threads=n_threads, facts=facts)


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
            "source": task.reading.path if not task.reading.others else [task.reading.path, *task.reading.others],
            "format": vectors.format,
            "rows": vectors.n_rows,
            "columns": vectors.n_features,
            "dtype": str(vectors.rows.dtype),
            "is_sparse": getattr(vectors.rows, "is_sparse", not isinstance(vectors.rows, np.ndarray)),
            "is_on_disk": isinstance(vectors.rows, StoredRows),
            "has_ids": vectors.ids is not None,
            "has_texts": vectors.texts is not None,
            "vectors_of_texts": _text_vectors(task.reading, vectors),
            "texts_are_in": [] if vectors.texts is None else _holding_texts(task, vectors),
            "understood_as": list(vectors.notes),
        },
        "model": {
            "name": fit.name,
            "class": type(fit.model).__name__,
            "parameters": plain(told_parameters(fit.model)),
            "rows_fitted": len(fit.sampled) if fit.sampled is not None else _n_here(fit, vectors),
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


def _n_here(fit: Fit, vectors: Vectors) -> int:
    return vectors.n_rows if fit.is_here is None else int(np.count_nonzero(fit.is_here))


def _choice(choice: Any) -> dict[str, Any] | None:
    """What the settings were chosen from."""
    if choice is None:
        return None
    return {"criterion": choice.criterion, "table": plain([dict(line) for line in choice.table])}


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


def _show(task: Task, has_words: bool, summary: dict[str, Any], screen: Screen) -> None:
    lines = sorted(summary["clusters"], key=lambda line: -line["size"])
    has_names = bool(lines) and "name" in lines[0]
    if lines:
        screen.table(
            ("cluster", "rows", "share", "spread", "nearest", "silhouette", *(("name",) if has_names else ())),
            [
                (
                    line["cluster"],
                    f"{line['size']:,}",
                    f"{line['share']:.1%}",
                    f"{line['spread_degrees']:.1f}°",
                    "-" if line["nearest"] is None else f"{line['nearest']} at {line['nearest_degrees']:.1f}°",
                    "-" if line["silhouette"] is None else f"{line['silhouette']:.3f}",
                    *((line["name"],) if has_names else ()),
                )
                for line in lines[:_MOST_PRINTED]
            ],
            wrapped="name",
        )
    if len(lines) > _MOST_PRINTED:
        screen.result(f"... and {counted(len(lines) - _MOST_PRINTED, 'more cluster')}, none larger")
    if summary["rows_in_no_cluster"]:
        screen.result(f"{counted(summary['rows_in_no_cluster'], 'row')} in no cluster (-1)")
    if summary["scores"]:
        screen.result(", ".join(f"{name} {value:.4f}" for name, value in summary["scores"].items()))
    screen.result(
        f"{task.folder}: labels.csv, labels.npy, {MODEL_FILE}, {SUMMARY}"
        + f", {WORDS_FILE}" * has_words
        + ", report.html" * task.has_report
    )
    screen.data({"folder": task.folder, **summary})
