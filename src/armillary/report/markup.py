"""Small pieces of HTML and numbers in words. What comes from outside is escaped here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from armillary._typing import Float64Array
from armillary.report.content import one_line, shortened


def chart(svg: str, described: str) -> str:
    """A picture with the words that stand for it."""
    return f'<figure class="chart" role="img" aria-label="{escape(described)}">{svg}</figure>'


def paragraphs(sentences: Iterable[str]) -> str:
    """One paragraph for each sentence."""
    return "".join(f"<p>{escape(one_line(sentence))}</p>" for sentence in sentences)


def small_table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table of words; the first of each line names it."""
    head = "".join(f'<th scope="col">{escape(word)}</th>' for word in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(line[0])}</th>{"".join(f"<td>{escape(word)}</td>" for word in line[1:])}</tr>'
        for line in lines
    )
    return f'<table class="small"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def swatch(color: Float64Array) -> str:
    """A dot in a cluster's colour."""
    red, green, blue = (round(255 * float(part)) for part in color)
    return f'<i class="swatch" style="background:#{red:02x}{green:02x}{blue:02x}"></i>'


def plain(value: Any) -> str:
    """A value in a table or an attribute, at most a line long."""
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{float(value):.6g}"
    return shortened(one_line(value), 120)


def breakable(word: str) -> str:
    """Escaped, with places where a long name may be cut."""
    return escape(word).replace("_", "_<wbr>").replace("/", "/<wbr>")


def percent(share: float) -> str:
    """A share in [0, 1]."""
    return f"{100.0 * share:.1f}\N{NO-BREAK SPACE}%"


def in_degrees(radians: float) -> str:
    """An angle."""
    degrees = math.degrees(float(radians))
    return f"{degrees:.1f}°" if degrees >= 1.0 else f"{degrees:.2g}°"


def in_seconds(seconds: float) -> str:
    """A time, two digits of a short one."""
    return f"{seconds:,.1f}" if seconds >= 10.0 else f"{seconds:.2g}"
