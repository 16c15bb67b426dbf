"""The table of clusters: a line for each with its facts, its most central rows and its most doubtful ones."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import numpy as np

from armillary._typing import Float64Array, IntArray
from armillary.report.content import one_line, shortened
from armillary.report.findings import Findings
from armillary.report.markup import breakable, in_degrees, percent, plain, swatch

_MOST_LETTERS = 120  # of a row's text

_COLUMNS = (
    ("cluster", "Cluster", "number"),
    ("size", "Rows", "number"),
    ("share", "Share", "number"),
    ("spread", "Half within", "number"),
    ("neighbour", "Nearest other", "number"),
    ("silhouette", "Silhouette", "number"),
)


def cluster_table(found: Findings, colors: Float64Array) -> str:
    """The table as HTML, largest cluster first, with a word on its columns; `colors` (K, 3) are those of the sphere."""
    columns = [*_COLUMNS, *([("class", "Main class", "words")] if found.purities is not None else [])]
    heads = "".join(
        f'<th scope="col" class="{name}" data-sort="{kind}"{_sorted(name)}>{words}</th>'
        for name, words, kind in columns
    )
    place = {int(row): number for number, row in enumerate(found.drawn)}
    order = np.argsort(-found.facts.sizes, kind="stable")
    lines = "\n".join(_table_line(found, int(k), colors[k], place) for k in order)
    return (
        '<p class="hint">Half of a cluster\'s rows lie within the angle “half within” of its centre. Doubtful rows are '
        f"{_doubtful(len(found.facts.names))}.</p>\n"
        f'<div class="scroll"><table id="clusters-table"><thead><tr>{heads}'
        '<th scope="col" class="rows">Most central rows</th><th scope="col" class="rows">Most doubtful rows</th>'
        f"</tr></thead>\n<tbody>\n{lines}\n</tbody></table></div>"
    )


def _doubtful(n_clusters: int) -> str:
    return "those farthest out" if n_clusters < 2 else "those least nearer to their own centre than to the next"


def _sorted(name: str) -> str:
    """The order in which the table comes."""
    return ' aria-sort="descending"' if name == "size" else ""


def _table_line(found: Findings, k: int, color: Float64Array, place: Mapping[int, int]) -> str:
    facts = found.facts
    other = int(facts.neighbours[k])
    near = "" if other < 0 else f"{facts.names[other]} <small>at {in_degrees(facts.neighbour_angles[k])}</small>"
    cells = [
        ("th", ' scope="row"', facts.names[k], f"{swatch(color)}<b>{facts.names[k]}</b>{_words(found, k)}"),
        ("td", "", facts.sizes[k], f"{facts.sizes[k]:,}"),
        ("td", "", facts.sizes[k], percent(facts.sizes[k] / found.n_rows)),
        ("td", "", facts.spreads[k], in_degrees(facts.spreads[k])),
        ("td", "", facts.neighbour_angles[k], near),
        ("td", "", facts.silhouettes[k], "" if np.isnan(facts.silhouettes[k]) else f"{facts.silhouettes[k]:.2f}"),
    ]
    if found.purities is not None:
        name, share = found.purities[k]
        words = f"{breakable(shortened(one_line(name), 40))} <small>{percent(share)}</small>"
        cells.append(("td", ' class="class"', one_line(name), words))
    titles = ("", *(words for _, words, _ in _COLUMNS[1:]), "Main class")  # of the cells, where a page is narrow
    facts_of_it = "".join(
        f'<{tag}{kind} data-value="{escape(plain(value))}"{_titled(title)}>{inside}</{tag}>'
        for title, (tag, kind, value, inside) in zip(titles, cells, strict=False)
    )
    rows = "".join(
        f'<td class="rows" data-title="{title}">{_row_list(found, chosen, place, is_doubtful=is_doubtful)}</td>'
        for title, chosen, is_doubtful in (
            ("Most central", found.central[k], False),
            ("Most doubtful", found.doubtful[k], True),
        )
    )
    return f'<tr data-cluster="{k}">{facts_of_it}{rows}</tr>'


def _titled(title: str) -> str:
    return f' data-title="{title}"' if title else ""


def _words(found: Findings, k: int) -> str:
    words = found.words[k]
    return f' <span class="words">{escape(words)}</span>' if words else ""


def _row_list(found: Findings, chosen: IntArray, place: Mapping[int, int], *, is_doubtful: bool) -> str:
    facts = found.facts
    items = []
    for row in chosen:
        number = int(found.rows[row])
        name, text = found.names.id_of(number), found.names.text_of(number)
        angle = in_degrees(facts.angles[row])
        other = int(facts.next_codes[row])
        if is_doubtful and other >= 0:
            angle += f"; {facts.names[other]} at {in_degrees(facts.next_angles[row])}"
        said = escape(shortened(text or name, _MOST_LETTERS))
        small = escape(shortened(name, 40)) + ", " if text else ""
        items.append(f'<li data-point="{place[int(row)]}">{said} <small>{small}{escape(angle)}</small></li>')
    return f"<ul>{''.join(items)}</ul>" if items else ""
