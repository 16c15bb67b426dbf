"""How clusters lie to each other: which overlap, and levels that nest; the first and last of many."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np

from armillary._typing import Float64Array
from armillary.report.clusters import ClusterFacts
from armillary.report.findings import Findings
from armillary.report.markup import percent, small_table
from armillary.selection.counting import counted

_MOST_PAIRS = 12
# A row lies between two clusters if it is not nearer to its own by this share of its angle.
_BETWEEN = 0.1
_FEWEST_BETWEEN = 3  # rows that make an overlap worth a line
_MOST_NUMBERS = 4  # of clusters, where a group has no words
_MOST_ENDS = 10  # clusters at each end of a list


# ------------------------------------------------------------------------------------------------------- overlap


@dataclass(frozen=True)
class Overlap:
    """Rows of one cluster that lie between it and another."""

    one: int  # code
    other: int
    n_rows: int
    n_nearer: int  # of these, rows nearer to the other


def overlaps(facts: ClusterFacts) -> list[Overlap]:
    """Pairs of clusters with the most rows between them, most first."""
    is_between = (facts.codes >= 0) & (facts.next_codes >= 0)
    is_between &= facts.next_angles < (1.0 + _BETWEEN) * facts.angles
    own, other = facts.codes[is_between].astype(np.int64), facts.next_codes[is_between].astype(np.int64)
    is_nearer = facts.next_angles[is_between] < facts.angles[is_between]
    n = max(1, len(facts.names))
    pairs = np.minimum(own, other) * n + np.maximum(own, other)
    found, places, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    nearer = np.bincount(places, is_nearer, minlength=len(found))
    best = [int(k) for k in np.argsort(-counts, kind="stable")[:_MOST_PAIRS] if counts[k] >= _FEWEST_BETWEEN]
    return [Overlap(*divmod(int(found[k]), n), int(counts[k]), int(nearer[k])) for k in best]


def overlap_table(found: Findings) -> str:
    """The overlaps as HTML; empty where there are none."""
    facts = found.facts
    lines = [
        (
            f"{found.title_of(pair.one)} and {found.title_of(pair.other)}",
            f"{pair.n_rows:,}",
            percent(pair.n_rows / max(1, int(facts.sizes[pair.one] + facts.sizes[pair.other]))),
            f"{pair.n_nearer:,}",
        )
        for pair in overlaps(facts)
    ]
    if not lines:
        return ""
    hint = (
        f"Rows between two clusters are less than {_BETWEEN:.0%} nearer to their own centre than to the other. Two "
        "clusters that share many may be one; merge them, or ask for fewer."
    )
    table = small_table(("clusters", "rows between", "share of both", "nearer to the other"), lines)
    return f'<h3>Where clusters overlap</h3><p class="hint">{hint}</p><div class="scroll">{table}</div>'


# -------------------------------------------------------------------------------------------------------- levels


def level_tree(found: Findings) -> str:
    """Groups of clusters, as lists that open: coarse groups, their clusters, and into how many each falls."""
    if found.coarse is None:
        return ""
    groups = np.unique(found.coarse[found.coarse >= 0])
    sizes = found.facts.sizes
    order = sorted(groups.tolist(), key=lambda group: -int(sizes[found.coarse == group].sum()))
    items = "".join(_group(found, group) for group in order)
    return f'<ul class="levels">{items}</ul>'


def _group(found: Findings, group: int) -> str:
    assert found.coarse is not None
    members = [int(k) for k in np.flatnonzero(found.coarse == group)]
    members.sort(key=lambda k: -int(found.facts.sizes[k]))
    n_rows = int(found.facts.sizes[members].sum())
    words = [word for k in members[:3] if (word := found.words[k].split(",")[0])]
    named = escape(", ".join(dict.fromkeys(words)))
    parts = "".join(
        f'<li><button type="button" class="chip" data-cluster="{k}" aria-pressed="false">{escape(found.title_of(k))} '
        f'<span class="count">{found.facts.sizes[k]:,}</span></button>{_parts(found, k)}</li>'
        for k in members
    )
    clusters = counted(len(members), "cluster")
    return (
        f"<li><details><summary><b>{named or _numbers(found, members)}</b> <small>{clusters}, "
        f"{counted(n_rows, 'row')}</small></summary>"
        f"<ul>{parts}</ul></details></li>"
    )


def _numbers(found: Findings, members: list[int]) -> str:
    """A group without words: the numbers of its largest clusters."""
    said = ", ".join(escape(str(found.facts.names[k])) for k in members[:_MOST_NUMBERS])
    left = len(members) - _MOST_NUMBERS
    return f"cluster{'' if len(members) == 1 else 's'} {said}" + (f" and {left} more" if left > 0 else "")


def _parts(found: Findings, k: int) -> str:
    n_parts = 1 if found.n_fine is None else int(found.n_fine[k])
    return "" if n_parts < 2 else f" <small>falls into {n_parts}</small>"


# ---------------------------------------------------------------------------------------------------- many clusters


def end_lists(found: Findings) -> str:
    """The first and last of many clusters, by size and by silhouette: bars of hundreds would be hairlines."""
    facts = found.facts
    parts = [_ends(found, facts.sizes.astype(np.float64), "rows", "Largest", "Smallest", "{:,.0f}")]
    if facts.n_scored:
        parts.append(_ends(found, facts.silhouettes, "silhouette", "Clearest", "Least clear", "{:.2f}"))
    return f'<div class="pair">{"".join(parts)}</div>'


def _ends(found: Findings, values: Float64Array, what: str, first: str, last: str, form: str) -> str:
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(-values[known], kind="stable")]
    tables = []
    for title, chosen in ((first, order[:_MOST_ENDS]), (last, order[::-1][:_MOST_ENDS])):
        lines = [(found.title_of(int(k)), form.format(values[k])) for k in chosen]
        tables.append(f"<div><h3>{title}</h3>{small_table(('cluster', what), lines)}</div>")
    return "".join(tables)
