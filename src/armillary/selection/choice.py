"""What everything that chooses gives back: `choose_model`, `select_max_angle` and `find_max_angle` alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Choice(Protocol):
    """What was taken, what it was compared with, and why. `print` shows it."""

    @property
    def model(self) -> Any:
        """The model that was taken, fitted."""

    @property
    def table(self) -> list[dict[str, Any]]:
        """What was compared, a line each: `n_clusters`, whatever the criterion needs, and `is_chosen`, true for one."""

    @property
    def best(self) -> int:
        """The number of the line that was taken."""

    @property
    def criterion(self) -> str:
        """What the best has most of."""

    @property
    def reason(self) -> str:
        """For people: what was compared, and why this was taken."""


def choice_html(choice: Choice) -> str:
    """What notebooks show of a choice: why it was taken, and the table with the line that was."""
    return f"<p>{escape(choice.reason)}</p>{table_html(choice.table)}"


def table_html(table: Sequence[Mapping[str, Any]]) -> str:
    """Lines of a comparison as an HTML table; the one that was taken is bold."""
    columns = [key for key in dict.fromkeys(key for line in table for key in line) if key != "is_chosen"]
    heads = "".join(f"<th>{escape(str(key).replace('_', ' '))}</th>" for key in columns)
    lines = "".join(_line(line, columns) for line in table)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def _line(line: Mapping[str, Any], columns: Sequence[str]) -> str:
    style = ' style="font-weight: bold"' if line.get("is_chosen") else ""
    return f"<tr{style}>{''.join(f'<td>{escape(_cell(line.get(key)))}</td>' for key in columns)}</tr>"


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
