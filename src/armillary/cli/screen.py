"""What the commands say: notes and progress on stderr, results on stdout; nothing that a script did not ask for.

Rich is imported when there is something to say, so that modules of commands may import this one at their top.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from armillary._typing import Callback


_FILE_WIDTH = 200  # columns


class _News(logging.Handler):
    """Lines of a log as notes."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        """One note."""
        self._note(record.getMessage())


class Screen:
    """Where a command talks to."""

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet = quiet
        self.as_json = as_json
        self.warnings: list[str] = []
        self.timings: dict[str, float] = {}

    @cached_property
    def _notes(self) -> Console:
        from rich.console import Console

        return Console(stderr=True, soft_wrap=True, highlight=False)

    @cached_property
    def _results(self) -> Console:
        from rich.console import Console

        console = Console(soft_wrap=True, highlight=False)
        if not console.is_terminal:
            console.width = _FILE_WIDTH  # nobody's window cuts what goes to a file
        return console

    @property
    def shows_progress(self) -> bool:
        """Whether a person is watching."""
        return not self.quiet and self._notes.is_terminal

    def note(self, sentence: str) -> None:
        """A sentence beside the result."""
        if not self.quiet:
            self._notes.print(sentence, markup=False)

    def result(self, what: str | Table) -> None:
        """A part of the result for people; scripts get `data`."""
        from rich.text import Text

        if not self.quiet and not self.as_json:
            self._results.print(Text(what) if isinstance(what, str) else what)

    def data(self, value: Any) -> None:
        """The whole result for scripts."""
        if self.as_json:
            sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def table(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[object]],
        title: str | None = None,
        *,
        wrapped: str | None = None,
    ) -> None:
        """Rows of a result; words to the left, numbers to the right; the column `wrapped` gives way."""
        from rich.table import Table
        from rich.text import Text

        grid = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
        for number, header in enumerate(headers):
            is_words = all(isinstance(row[number], str) and not _is_numeral(row[number]) for row in rows)
            grid.add_column(
                header, justify="left" if is_words else "right", no_wrap=len(headers) > 3 and header != wrapped
            )
        for row in rows:
            grid.add_row(*(Text(str(cell)) for cell in row))
        self.result(grid)

    def callbacks(self) -> list[Callback] | None:
        """Observers of a fit: a progress bar where a person is watching."""
        from armillary.fitting.progress import ProgressBar

        return [ProgressBar()] if self.shows_progress else None

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Measure a step, and collect its warnings."""
        start = time.perf_counter()
        with self.heard():
            yield
        self.timings[step] = self.timings.get(step, 0.0) + time.perf_counter() - start

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Warnings become notes, each said once; so does a wait for kernels that are compiled."""
        with self._hears_kernels(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield
            finally:
                for warning in caught:
                    self._warn(warning)

    @contextmanager
    def _hears_kernels(self) -> Iterator[None]:
        """In a log too a first run should not look as if it hung. Where a bar is shown, the bar says it."""
        if self.quiet or self.shows_progress:
            yield
            return
        kernels, news = logging.getLogger("armillary.kernels"), _News(self.note)
        level = kernels.level
        kernels.addHandler(news)
        kernels.setLevel(logging.INFO)
        try:
            yield
        finally:
            kernels.removeHandler(news)
            kernels.setLevel(level)

    @contextmanager
    def heard_nothing(self) -> Iterator[None]:
        """Warnings about data that is not the user's are no news."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield

    def _warn(self, warning: warnings.WarningMessage) -> None:
        if not issubclass(warning.category, DeprecationWarning | FutureWarning):
            self.warn(str(warning.message))

    def warn(self, sentence: str) -> None:
        """A note that the results keep too, said once."""
        if sentence not in self.warnings:
            self.warnings.append(sentence)
            self.note(f"Note: {sentence}")

    @contextmanager
    def progress(self, title: str, total: float | None, unit: str) -> Iterator[Callable[[float], None]]:
        """A bar with rate and time left; what it yields is called with the number done since."""
        if not self.shows_progress:
            yield lambda _: None
            return
        from armillary.cli.bars import bars

        with bars(self._notes, total, unit) as progress:
            task = progress.add_task(title, total=total)
            yield lambda n_done: progress.advance(task, n_done)


def _is_numeral(cell: object) -> bool:
    bare = str(cell).strip().translate(str.maketrans("", "", "%°,.-"))
    return not bare or bare.isdigit()
