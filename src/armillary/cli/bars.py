"""Bars that show how much is done, how fast, and how long the rest may take."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text


def bars(console: Console, total: float | None, unit: str) -> Progress:
    """A display for one task of `total` things called `unit`, which is gone when it ends."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}" + (f"/{total:,.0f}" if total is not None else "")),
        _Rate(unit),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


class _Rate(ProgressColumn):
    """How many a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """The mean of the last seconds; empty before there is one."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.{0 if speed >= 100 else 1}f} {self._unit}/s")
