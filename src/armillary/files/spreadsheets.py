"""Tables as text, and words in them that a spreadsheet would run.

Excel, LibreOffice and others take a cell that begins with =, +, -, @, a tab or a line end for a formula, wherever the
file came from: an id like `=HYPERLINK(...)` is run when somebody opens labels.csv. Files are byte-true unless asked
otherwise; `guarded` puts an apostrophe before such words, and `restored` takes it off again.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from armillary.exceptions import InputTypeError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
# words that have an apostrophe there already get one more, so that what is restored is what was given
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


def guarded(word: str) -> str:
    """The word as a spreadsheet shows it rather than runs it; plain numbers, negative ones too, are left.

    >>> [guarded(word) for word in ("=1+1", "-3.5", "-x", "plain", "'=1")]
    ["'=1+1", '-3.5', "'-x", 'plain', "''=1"]
    """
    return f"'{word}" if _FORMULA.match(word) and not _NUMBER.fullmatch(word) else word


def restored(word: str) -> str:
    """The word that was `guarded`.

    Parameters
    ----------
    word : str
        A cell.

    Returns
    -------
    str
        Without the apostrophe that guarded it.

    Examples
    --------
    >>> from armillary.files import restored
    >>> restored("'=1+1"), restored("'tis")
    ('=1+1', "'tis")
    """
    if not isinstance(word, str):
        raise InputTypeError(f"`word` of restored must be a string; got {type(word).__name__}. Read the table as text.")
    return word[1:] if word.startswith("'") and _FORMULA.match(word) else word


def table_text(lines: Iterable[Sequence[object]], separator: str = ",") -> str:
    """Lines of a table as text."""
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows(lines)
    return text.getvalue()
