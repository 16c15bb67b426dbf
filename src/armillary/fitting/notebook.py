"""Progress in a notebook: one line in each cell, which changes in its place. The home of IPython.

All fits of a cell share the line: a search that fits thirty models would stack thirty. Where no notebook is running
nothing here is imported.
"""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any

_SECONDS_BETWEEN = 0.25  # two changes of the line

# the line of the cell that runs now: the number of the cell, and the handle of its display
_line: tuple[int, Any] | None = None


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None and hasattr(module, "get_ipython") else None
    return shell is not None and hasattr(shell, "kernel")


class NotebookLine:
    """A line that is written over and over."""

    def __init__(self) -> None:
        self._changed = 0.0

    def show(self, words: str, share: float | None = None, *, is_last: bool = False) -> None:
        """Write the words, and a bar for a share in [0, 1]; not too often but for the last."""
        now = time.monotonic()
        if not is_last and now - self._changed < _SECONDS_BETWEEN:
            return
        self._changed = now
        _write(line_html(words, share), words)


def line_html(words: str, share: float | None = None) -> str:
    """The line as HTML."""
    bar = "" if share is None else f'<progress value="{share:.3f}" max="1"></progress> '
    return f'<div style="font-family: monospace">{bar}{escape(words)}</div>'


def _write(html: str, words: str) -> None:
    global _line
    from IPython import get_ipython
    from IPython.display import display as displayed

    display: Any = displayed
    content = {"text/html": html, "text/plain": words}
    cell = int(get_ipython().execution_count)
    if _line is not None and _line[0] == cell:
        _line[1].update(content, raw=True)
    else:
        _line = (cell, display(content, raw=True, display_id=True))
