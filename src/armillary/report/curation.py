"""One page about a curation: what was removed, to look at, and how even the sample is. It has no script."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary import __version__
from armillary.curation.pipeline import Curation
from armillary.durable.whole import whole_file
from armillary.report.content import one_line, shortened
from armillary.report.markup import paragraphs, percent, small_table
from armillary.selection.counting import counted

_MOST_GROUPS = 25
_MOST_MEMBERS = 6
_MOST_CLUSTERS = 20
_MOST_EXAMPLES = 4
_BINS = 12
_STYLE = """
.group { margin: 0.8rem 0; padding: 0.6rem 0.8rem; border: 1px solid var(--line); border-radius: 8px; }
.group p { margin: 0.15rem 0; max-width: none; overflow-wrap: anywhere; }
.group .kept { font-weight: 600; }
.group .gone { color: var(--soft); padding-left: 1.2rem; }
.group .cosine { display: inline-block; min-width: 4.2rem; font-variant-numeric: tabular-nums; }
.bars { display: grid; grid-template-columns: max-content 1fr max-content; gap: 0.2rem 0.7rem; align-items: center; }
.bars i { display: block; height: 0.9rem; background: var(--accent); border-radius: 2px; min-width: 1px; }
.bars span { font-variant-numeric: tabular-nums; font-size: 0.85rem; }
table.small { min-width: 34rem; }
table.small td { text-align: right; font-variant-numeric: tabular-nums; }
"""


def write_curation_report(
    path: str | Path,
    found: Curation,
    *,
    title: str = "rows",
    ids: Any = None,
    texts: Any = None,
) -> None:
    """Write the page, whole or not at all; `ids` and `texts` give that of a row by its number."""
    names = _Names(ids, texts)
    sections = [
        ("duplicates", "Removed as near-duplicates", _duplicates_section(found, names)),
        ("cosines", "How near they were", _cosines_section(found)),
        ("coverage", "How even", _coverage_section(found)),
        ("sample", "What was chosen", _sample_section(found, names)),
    ]
    body = "\n".join(
        f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escape(words)}</h2>\n{inside}\n'
        "</section>"
        for name, words, inside in sections
    )
    links = "".join(f'<a href="#{name}">{escape(words)}</a>' for name, words, _ in sections)
    text = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(one_line(title))}</title>
<link rel="icon" href="data:,">
<style>
{files("armillary.report").joinpath("assets", "report.css").read_text()}{_STYLE}</style>
</head>
<body>
<header>
<h1>{escape(one_line(title))}, curated</h1>
<p class="headline">{_headline(found)}</p>
{paragraphs(_rules(found))}
<dl class="tiles">{_tiles(found)}</dl>
<nav aria-label="Sections">{links}</nav>
</header>
<main>
{body}
</main>
<footer>Made by Armillary {escape(__version__)}. This file is complete: it loads nothing and sends nothing.</footer>
</body>
</html>
"""
    with whole_file(path, "write_curation_report") as stream:
        stream.write(text.encode("utf-8", "replace"))


class _Names:
    """Rows in words."""

    def __init__(self, ids: Any, texts: Any) -> None:
        self._ids, self._texts = ids, texts

    def of(self, row: int) -> str:
        """Escaped: its number or id, and its text."""
        name = str(row) if self._ids is None else one_line(_word(self._ids[row]))
        words = "" if self._texts is None else f" {shortened(one_line(_word(self._texts[row])), 220)}"
        return f"<small>{escape(shortened(name, 60))}</small>{escape(words)}"


def _word(value: Any) -> str:
    return "" if value is None else str(value)


def _headline(found: Curation) -> str:
    n_rows, duplicates = len(found.labels), found.duplicates
    return (
        f"<strong>{n_rows - duplicates.n_removed:,}</strong> of {counted(n_rows, 'row')} are kept; "
        f"{duplicates.n_removed:,} ({percent(duplicates.n_removed / n_rows)}) are near-duplicates of one of them. "
        f"<strong>{len(found.sample):,}</strong> are chosen so that concepts are even."
    )


def _rules(found: Curation) -> list[str]:
    plan, duplicates = found.plan, found.duplicates
    order = "the first row" if plan.keep == "first" else "the row nearest to its cluster"
    searched = (
        "Every pair of near rows was compared."
        if duplicates.is_exact
        else f"{counted(duplicates.n_truncated, 'row')} reach into more clusters than the {plan.n_searched} that were "
        "searched, so that some pairs may have been missed across borders."
    )
    recall = (
        ""
        if found.recall is None
        else f" Measured recall of near pairs: {found.recall:.4f}, of {found.recall_pairs:,}."
    )
    chained = (
        ""
        if not duplicates.n_chained
        else f" {counted(duplicates.n_chained, 'row')} went for a row that went for another one itself, across a "
        "border of clusters: the cosine is that with the former."
    )
    rule = f"Rows whose cosine is at least {plan.threshold:g} are near. Of near rows {order} is kept."
    return [f"{rule}{chained} {searched}{recall}"]


def _tiles(found: Curation) -> str:
    groups = found.duplicates.groups(1)
    tiles = [
        ("rows", f"{len(found.labels):,}"),
        ("removed", f"{found.duplicates.n_removed:,}"),
        ("largest group", f"{len(groups[0]) if groups else 0:,}"),
        ("chosen", f"{len(found.sample):,}"),
        ("levels", " / ".join(f"{size:,}" for size in found.model.level_sizes_)),
    ]
    return "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in tiles)


def _duplicates_section(found: Curation, names: _Names) -> str:
    groups = found.duplicates.groups()
    if not groups:
        return "<p>No row is near another.</p>"
    shown = _spread(groups)
    words = f"{counted(len(groups), 'group')}; the largest, and some of the others, with the kept row first."
    return f'<p class="hint">{words}</p>' + "".join(_group(group, found, names) for group in shown)


def _spread(groups: list[npt.NDArray[np.int64]]) -> list[npt.NDArray[np.int64]]:
    """The largest groups, and some from all sizes."""
    n_largest = _MOST_GROUPS // 2
    if len(groups) <= _MOST_GROUPS:
        return groups
    places = np.unique(np.linspace(n_largest, len(groups) - 1, _MOST_GROUPS - n_largest).astype(int))
    return groups[:n_largest] + [groups[place] for place in places]


def _group(group: npt.NDArray[np.int64], found: Curation, names: _Names) -> str:
    cosines = found.duplicates.cosines
    lines = [f'<p class="kept">{names.of(int(group[0]))}</p>']
    members = group[1:][np.argsort(cosines[group[1:]], kind="stable")]  # the least near first: they are in doubt
    for row in members[:_MOST_MEMBERS]:
        lines.append(f'<p class="gone"><span class="cosine">{cosines[row]:.4f}</span>{names.of(int(row))}</p>')
    if len(members) > _MOST_MEMBERS:
        lines.append(f'<p class="gone">and {counted(len(members) - _MOST_MEMBERS, "more row")}, as near or nearer</p>')
    return f'<div class="group">{"".join(lines)}</div>'


def _cosines_section(found: Curation) -> str:
    gone = found.duplicates.cosines[~found.duplicates.is_kept]
    if not len(gone):
        return "<p>Nothing was removed.</p>"
    edges = np.linspace(found.plan.threshold, 1.0, _BINS + 1) if found.plan.threshold < 1.0 else np.array([1.0, 1.0])
    counts, _ = np.histogram(np.minimum(gone, 1.0), bins=edges) if len(edges) > 2 else (np.array([len(gone)]), None)
    widest = max(1, int(counts.max()))
    lines = [
        f'<span>{low:.3f} to {high:.3f}</span><i style="width:{100 * count / widest:.1f}%"></i><span>{count:,}</span>'
        for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    return (
        '<p class="hint">Cosine of each removed row with the row that it went for. Many near the threshold: look at '
        f'them above before you trust it.</p><div class="bars">{"".join(lines)}</div>'
    )


def _coverage_section(found: Curation) -> str:
    lines = [
        (
            name,
            str(one.level),
            f"{one.n_filled:,} of {one.n_clusters:,}",
            f"{one.effective:,.1f}",
            percent(one.largest_share),
            f"{one.gini:.3f}",
        )
        for name, levels in found.coverages.items()
        for one in levels
    ]
    heads = ("rows", "level", "clusters filled", "effective clusters", "largest share", "Gini")
    return (
        '<p class="hint">Effective: as many clusters of equal size would be as even. Gini: 0 is even.</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="How even">{small_table(heads, lines)}</div>'
    )


def _sample_section(found: Curation, names: _Names) -> str:
    coarse = found.model.ancestors(0)
    own = coarse[found.labels]
    sizes = np.bincount(own, minlength=len(found.model.centers(0)))
    chosen = np.bincount(own[found.sample], minlength=len(sizes))
    lines: list[Any] = []
    for cluster in np.argsort(-sizes, kind="stable")[:_MOST_CLUSTERS]:
        members = found.sample[own[found.sample] == cluster]
        best = members[np.argsort(found.angles[members], kind="stable")[:_MOST_EXAMPLES]]
        examples = "".join(f'<p class="gone">{names.of(int(row))}</p>' for row in best)
        lines.append(
            f'<div class="group"><p class="kept">cluster {cluster}: {chosen[cluster]:,} of '
            f"{counted(int(sizes[cluster]), 'row')}</p>{examples}</div>"
        )
    more = len(sizes) - min(len(sizes), _MOST_CLUSTERS)
    rest = f'<p class="hint">and {counted(more, "smaller cluster")}</p>' if more else ""
    return (
        '<p class="hint">The largest clusters of the coarsest level, with the chosen rows nearest to their own '
        f"direction.</p>{''.join(lines)}{rest}"
    )
