"""A progress display for `verbose=1`. The only home of rich, which is imported when a bar is made.

In a terminal, two lines on stderr follow the fit and give way to one line with the result. In a notebook one line of
the cell follows it (`notebook.py`). Where stderr is neither (a log file, a pipe) only the last line is written.

    SphericalKMeans  restart 3/10  step 42/300  ━━━━━━━━━╸━━━━━━━━━━━━━━━  0:12, about 0:28 left
    300,000 rows  7 clusters  objective 0.98172341  change 3.1e-06  11.2 steps/s
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from armillary.exceptions import MissingExtraError
from armillary.fitting.events import FitEvent, logger
from armillary.fitting.notebook import NotebookLine, is_notebook

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

_MAX_WIDTH = 100  # columns; a bar across a very wide terminal is hard to read
_REFRESHES_PER_SECOND = 8


class ProgressBar:
    """A callback that draws the progress of a fit; `verbose=1` of an estimator adds one.

    One bar may watch many fits, one after another.

    Parameters
    ----------
    console : rich.console.Console, optional
        Where to draw. By default each fit gets a new console on stderr.
    """

    def __init__(self, *, console: Console | None = None) -> None:
        try:
            import rich  # noqa: F401
        except ImportError as error:
            raise MissingExtraError.of("verbose=1", "rich", "progress") from error
        self.console = console
        self._live: Live | None = None
        self._line: NotebookLine | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> ProgressBar:
        # scikit-learn's clone copies parameters deeply; the lock inside a console has no copy, and a copied bar
        # watches another fit
        return ProgressBar(console=self.console)

    def __call__(self, event: FitEvent) -> None:
        """Take one event: open at "start", follow every "step", close at "end"."""
        if event.kind == "start":
            self._open(event)
        elif event.kind == "step":
            self._pace.take(event)
            if self._line is not None:
                self._line.show(f"{event.model}  {_numbers(event)}{self._pace.words_left}", self._pace.fraction_done)
        else:
            self._close(event)

    def _open(self, event: FitEvent) -> None:
        from rich.console import Console
        from rich.live import Live

        self._line = NotebookLine() if self.console is None and is_notebook() else None
        self._screen = self.console or Console(stderr=True, force_jupyter=False)
        self._pace = _Pace(event)
        self._news = _News(self._screen, self._line)
        # a notebook's kernel says of its stderr that it is a terminal, and writes each picture below the last
        if self._line is None and self._screen.is_terminal:
            # The refresh thread asks for the picture, so a step costs no drawing and the clock runs between steps.
            self._live = Live(
                get_renderable=self._picture,
                console=self._screen,
                transient=True,
                refresh_per_second=_REFRESHES_PER_SECOND,
            )
            self._live.start()

    def _close(self, event: FitEvent) -> None:
        if self._live is not None:
            self._live.stop()
        self._news.close()
        if self._line is not None:
            self._line.show(_result(event), is_last=True)
        else:
            self._screen.print(_result(event), soft_wrap=True, markup=False, highlight=False)
        # between fits a bar holds no console of its own, so that an estimator that has one can be pickled
        self._live, self._line = None, None
        del self._screen, self._news

    def _picture(self) -> RenderableType:
        """The two lines at the moment of drawing."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar as Bar
        from rich.table import Table
        from rich.text import Text

        event = self._pace.event
        above = Table.grid(padding=(0, 2, 0, 0), expand=True)
        for ratio in (None, None, None, 1, None):  # the bar takes the room that the words leave
            above.add_column(ratio=ratio, no_wrap=True)
        above.add_row(
            f"[bold]{event.model}",
            f"restart {max(event.restart, 1)}/{event.n_restarts}",
            f"step {event.step}/{event.max_steps}",
            Bar(total=1.0, completed=self._pace.fraction_done, complete_style="cyan"),
            f"{_clock(self._pace.seconds)}{self._pace.words_left}",
        )
        above.width = min(self._screen.width, _MAX_WIDTH)
        return Group(above, Text(_numbers(event) + self._pace.words_of_rate, no_wrap=True, overflow="ellipsis"))


class _News(logging.Handler):
    """Shows what the library logs at INFO (that it compiles, say) while a bar is up."""

    def __init__(self, screen: Console, line: NotebookLine | None = None) -> None:
        super().__init__(logging.INFO)
        self._screen, self._line = screen, line
        self._level_before = logger.level
        if not logger.isEnabledFor(logging.INFO):
            logger.setLevel(logging.INFO)
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """One line above the bar."""
        if record.levelno == logging.INFO and self._line is not None:
            self._line.show(record.getMessage(), is_last=True)
        elif record.levelno == logging.INFO:
            self._screen.print(record.getMessage(), soft_wrap=True, markup=False, highlight=False)

    def close(self) -> None:
        """Leave the logger as it was."""
        logger.removeHandler(self)
        logger.setLevel(self._level_before)
        super().close()


class _Pace:
    """How far a fit is and how long it may take, from its events so far."""

    def __init__(self, start: FitEvent) -> None:
        self.event = start
        self._heard = time.perf_counter()
        self._n_finished = 0  # restarts
        self._steps_finished = 0  # steps in those restarts

    def take(self, event: FitEvent) -> None:
        """The next "step"."""
        if event.restart > self.event.restart > 0:
            self._n_finished += 1
            self._steps_finished += self.event.step
        self.event = event
        self._heard = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the fit began; it grows between events too."""
        return self.event.seconds + time.perf_counter() - self._heard

    @property
    def _steps_expected(self) -> float:
        """Steps of one restart: the mean of those finished, or the most allowed before any has finished."""
        return self._steps_finished / self._n_finished if self._n_finished else self.event.max_steps

    @property
    def fraction_done(self) -> float:
        """Of all restarts, in [0, 1]."""
        this_restart = min(self.event.step / max(self._steps_expected, 1), 1.0)
        return (self._n_finished + this_restart) / self.event.n_restarts

    @property
    def seconds_left(self) -> float | None:
        """At the mean pace so far; None before the first step."""
        n_done = self._steps_finished + self.event.step
        if n_done == 0:
            return None
        this_restart = max(self._steps_expected - self.event.step, 0.0)
        later_restarts = (self.event.n_restarts - self.event.restart) * self._steps_expected
        return self.event.seconds / n_done * (this_restart + later_restarts)

    @property
    def words_of_rate(self) -> str:
        """Steps a second or seconds a step, whichever is above 1; empty before the first step."""
        n_done = self._steps_finished + self.event.step
        if n_done == 0 or self.event.seconds <= 0.0:
            return ""
        rate = n_done / self.event.seconds
        return f"  {rate:,.1f} steps/s" if rate >= 1.0 else f"  {1.0 / rate:,.1f} s/step"

    @property
    def words_left(self) -> str:
        """Empty before the first step. The first restart may converge at any step, so its number is a bound."""
        if self.seconds_left is None:
            return ""
        return f", {'about' if self._n_finished else 'at most'} {_clock(self.seconds_left)} left"


def _numbers(event: FitEvent) -> str:
    """What the fit has reached, e.g. "300,000 rows  7 clusters  objective 0.98172341  change 3.1e-06"."""
    words = [f"{event.n_rows:,} rows"]
    if event.step > 0:
        words.append(f"{event.n_clusters:,} clusters")
    if event.objective is not None:
        words.append(f"objective {event.objective:.8g}")
    if event.change is not None:
        words.append(f"change {event.change:.1e}")
    return "  ".join(words)


def _result(event: FitEvent) -> str:
    """The last line of a fit, plain ASCII so that any log file takes it."""
    where = f"step {event.step}"
    if event.n_restarts > 1:
        where = f"restart {event.restart}/{event.n_restarts}  {where}"
    if event.is_failed:
        where = f"failed after {where}" if event.step > 0 else "failed before its first step"
    return f"{event.model}  {_numbers(event)}  {where}  {event.seconds:.3g} s"


def _clock(seconds: float) -> str:
    """Minutes and seconds, e.g. "0:07", with hours where there are any, e.g. "1:02:03"."""
    minutes, seconds_ = divmod(round(seconds), 60)
    hours, minutes_ = divmod(minutes, 60)
    return f"{hours}:{minutes_:02}:{seconds_:02}" if hours else f"{minutes_}:{seconds_:02}"
