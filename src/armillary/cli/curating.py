"""The work of `armillary curate`: read, curate, and say what was found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from armillary.cli.clustering import Task as ClusterTask
from armillary.cli.clustering import command_line
from armillary.cli.fits import Request
from armillary.cli.reading import Reading
from armillary.cli.screen import Screen
from armillary.curation.layouts import STYLES, inverted_lists, write_layout
from armillary.curation.pipeline import Curation, CurationPlan, curate
from armillary.exceptions import ParameterError
from armillary.files.vectors import Vectors
from armillary.selection.counting import counted

_STAGES = {
    "levels": "finding levels",
    "pass": "giving rows their clusters",
    "duplicates within": "comparing within clusters",
    "duplicates across": "comparing across borders",
}
# Clusters of the finest level for a square root of rows, and of a level for one of the next: by default.
_ROOTS, _BRANCHES = 1.0, 10


@dataclass(frozen=True)
class Task:
    """What to curate, how, and where the results go."""

    reading: Reading
    output: str | None = None
    levels: str = "auto"
    threshold: float = 0.95
    keep: str = "first"
    n_sample: int | None = None
    n_nearest: int = 4
    n_searched: int | None = None
    n_fit_rows: int = 1_000_000
    layouts: tuple[str, ...] = ()
    seed: int = 0
    threads: int | None = None
    has_report: bool = True
    force: bool = False

    @property
    def folder(self) -> str:
        """The output folder: as named, or after the input."""
        if self.output is not None:
            return self.output
        return ClusterTask(self.reading, Request()).folder.removesuffix("-clusters") + "-curated"

    def plan(self, n_rows: int) -> CurationPlan:
        """What was asked for, of so many rows."""
        return CurationPlan(
            n_clusters=levels_of(self.levels, n_rows),
            threshold=self.threshold,
            keep=self.keep,
            n_sample=self.n_sample,
            n_nearest=self.n_nearest,
            n_searched=self.n_searched,
            n_fit_rows=self.n_fit_rows,
            random_state=self.seed,
        )


def levels_of(text: str, n_rows: int) -> tuple[int, ...]:
    """Clusters of each level: as said, or about a square root of the rows and a tenth of that."""
    if text.strip().lower() == "auto":
        finest = max(1, round(_ROOTS * math.sqrt(n_rows)))
        return (finest // _BRANCHES, finest) if finest >= 2 * _BRANCHES else (finest,)
    words = [word.strip() for word in text.split(",")]
    sizes = tuple(int(word) if word.isdecimal() else 0 for word in words)
    if min(sizes) < 1 or any(coarse >= fine for coarse, fine in pairwise(sizes)):
        raise ParameterError(
            "--levels must be numbers of clusters that rise from coarse to fine, e.g. 100,1000, or 'auto'; got "
            f"'{text}'."
        )
    return sizes


def curate_to_folder(task: Task, screen: Screen) -> None:
    """Do the task. The folder is there, whole, when this returns; what was done is kept when it is killed."""
    for style in task.layouts:
        if style not in STYLES:
            raise ParameterError(f"--layout must be one of {', '.join(STYLES)}; got '{style}'.")
    vectors = task.reading.read(screen)
    with screen.timed("curating"), _told(screen) as tell:
        summary = curate(
            vectors.rows,
            task.folder,
            task.plan(vectors.n_rows),
            ids=_ids(vectors),
            n_threads=task.threads,
            force=task.force,
            tell=tell,
            report=_finishing(task, vectors),
            facts={"command": command_line()},
        )
    _show(task, summary, screen)


def _ids(vectors: Vectors) -> Any:
    """Ids as they are in a table: numbers stay numbers, so that results can be joined with it."""
    return [int(word) for word in vectors.ids or ()] if vectors.has_whole_ids else vectors.ids


@contextmanager
def _told(screen: Screen) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each stage; where nobody watches, a line."""
    said: set[str] = set()

    def tell(stage: str, n_done: int, n_pieces: int) -> None:
        if stage not in said:
            said.add(stage)
            screen.note(f"{_STAGES[stage]} ({counted(n_pieces, 'piece')})")

    yield tell


def _finishing(task: Task, vectors: Vectors) -> Callable[[Path, Curation], None]:
    """What goes into the folder besides tables."""

    def finish(path: Path, found: Curation) -> None:
        if task.layouts:
            lists = inverted_lists(found.model, found.labels)
            for style in task.layouts:
                write_layout(path.parent / f"layout-{style}", lists, style=style)
        if task.has_report:
            from armillary.report.curation import write_curation_report

            title = Path(task.reading.path).name if task.reading.path != "-" else "standard input"
            write_curation_report(path, found, title=title, ids=vectors.ids, texts=vectors.texts)

    return finish


def _show(task: Task, summary: dict[str, Any], screen: Screen) -> None:
    duplicates, n_rows = summary["duplicates"], summary["rows"]
    screen.table(
        ("rows", "level", "clusters filled", "effective", "largest share", "gini"),
        [
            (
                name,
                line["level"],
                f"{line['n_filled']:,} of {line['n_clusters']:,}",
                f"{line['effective']:,.1f}",
                f"{line['largest_share']:.2%}",
                f"{line['gini']:.3f}",
            )
            for name, lines in summary["coverage"].items()
            for line in lines
        ],
    )
    removed = f"{counted(duplicates['removed'], 'row')} of {n_rows:,} ({duplicates['removed'] / n_rows:.1%})"
    screen.result(f"{removed} within cosine {duplicates['threshold']:g} of a row that is kept")
    if duplicates["chained"]:
        screen.result(f"{counted(duplicates['chained'], 'row')} of these by way of another that went for it")
    if duplicates["is_exact"]:
        screen.result("every pair of near rows was compared")
    elif duplicates["recall"] is not None:
        screen.result(
            f"{counted(duplicates['rows_searched_in_part'], 'row')} reach more clusters than were searched; measured "
            f"recall of near pairs {duplicates['recall']:.4f}, of {duplicates['recall_pairs']:,}"
        )
    screen.result(f"{counted(summary['sample']['rows'], 'row')} chosen evenly")
    names = ["rows.parquet", "sample.npy", "model.safetensors", "summary.json", *(["report.html"] * task.has_report)]
    screen.result(f"{task.folder}: {', '.join([*names, *(f'layout-{style}' for style in task.layouts)])}")
    screen.data({"folder": task.folder, **summary})
