"""The page itself: words, tables and pictures put into the template. Every word from outside goes through `escape`."""

from __future__ import annotations

import base64
import hashlib
import inspect
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from armillary import __version__
from armillary._typing import Float64Array, IntArray
from armillary.plots.sphere import cluster_colors
from armillary.report import pictures
from armillary.report.agreement import agreement
from armillary.report.atlas import Atlas
from armillary.report.clusters import ClusterFacts
from armillary.report.content import ReportData, one_line, shortened
from armillary.report.findings import Findings
from armillary.report.groups import end_lists, level_tree, overlap_table
from armillary.report.markup import (
    chart,
    in_degrees,
    in_seconds,
    paragraphs,
    percent,
    plain,
    small_table,
    swatch,
)
from armillary.report.payload import matrix_payload, more_payload, payload, script_json
from armillary.report.table import cluster_table
from armillary.selection.counting import counted, of_the_model

# Fragments of one script, in this order.
_SCRIPTS = ("rows.js", "sphere.js", "hands.js", "table.js", "lists.js", "begin.js")
_MANY_CLUSTERS = 40  # from which on bars and silhouettes would be hairlines
_MOST_COMPARED = 60  # lines of the table of what was compared


def page(data: ReportData, found: Findings) -> str:
    """The whole file."""
    colors = cluster_colors(found.atlas.centers)
    order = pictures.matrix_order(found.facts)
    script = _script()
    sections = [
        _sphere_section(found, colors),
        _table_section(found, colors),
        _levels_section(found),
        _similarity_section(found, order),
        _silhouette_section(data, found, colors),
        _choice_section(data),
        _traces_section(data),
        _truth_section(data),
        _again_section(data),
        _model_section(data),
    ]
    shown = [section for section in sections if section]
    labels = np.asarray(data.labels)[found.rows]
    content = payload(
        found.atlas, found.facts, colors, found.drawn, found.rows, found.names, (found.facts.codes < 0) & (labels >= 0)
    )
    content["matrix"] = matrix_payload(found.facts, order)
    content |= more_payload(found)
    return Template(_asset("template.html")).substitute(
        title=escape(one_line(data.title)),
        policy=_policy(script),
        style=_asset("report.css"),
        headline=headline(data, found),
        method=_method(data, found),
        notes=_notes(data, found),
        tiles=_tiles(data, found),
        links="".join(f'<a href="#{name}">{escape(words)}</a>' for name, words, _ in shown),
        sections="\n".join(
            f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escape(words)}</h2>\n{body}'
            "\n</section>"
            for name, words, body in shown
        ),
        version=escape(__version__),
        privacy=_privacy(data, found),
        data=script_json(content),
        script=script,
    )


# --------------------------------------------------------------------------------------------------------- the top


def headline(data: ReportData, found: Findings) -> str:
    """For people: how many clusters, how sure that is, and what the largest are. Escaped HTML."""
    facts = found.facts
    words = f"<strong>{counted(facts.n_clusters, 'cluster')}</strong> in {counted(found.n_rows, 'row')}."
    agreement_of_halves = _agreement(data.choice)
    if agreement_of_halves is not None:
        words += f" Fits on half of the rows agree {agreement_of_halves:.0%}."
    is_clear = getattr(data.choice, "is_clear", getattr(data.model, "is_clear_", None))
    if is_clear is not None and not is_clear:
        words += " They are not clear: rows like these without clusters have clusters nearly as clear."
    named = [found.words[k] for k in np.argsort(-facts.sizes, kind="stable")[:3] if found.words[k]]
    if named:
        words += f" The largest {'is' if len(named) == 1 else 'are'} {escape('; '.join(named))}."
    if found.n_out:
        belong = "belongs" if found.n_out == 1 else "belong"
        words += f" {counted(found.n_out, 'row')} ({percent(found.n_out / found.n_rows)}) {belong} to no cluster."
    return words


def _agreement(choice: Any) -> float | None:
    """How far fits on halves of the rows agree about the clustering that was taken; None where nobody looked."""
    table = getattr(choice, "table", None) or []
    value = next((line.get("agreement") for line in table if line.get("is_chosen")), None)
    return float(value) if isinstance(value, float | np.floating) and np.isfinite(value) else None


def _method(data: ReportData, found: Findings) -> str:
    """How the clusters were found, in a part that opens."""
    by = "" if data.model is None else f", found by {type(data.model).__name__}"
    kind = "numbers, sparse" if found.is_sparse else "numbers"
    what = (
        f"{counted(found.facts.n_clusters, 'cluster')} in {counted(found.n_rows, 'row')} of {found.n_features:,} {kind}"
    )
    return (
        f'<details class="method"><summary>How they were found</summary><p>{escape(what + by)}.</p>'
        f"{paragraphs(_reasons(data))}</details>"
    )


def _reasons(data: ReportData) -> list[str]:
    reason = getattr(data.choice, "reason", None)
    if reason:
        return [reason] if isinstance(reason, str) else [str(sentence) for sentence in reason]
    changed = _parameters(data.model)
    if data.model is None:
        return []
    if not changed:
        return [f"{type(data.model).__name__} was fitted with its defaults."]
    settings = ", ".join(f"{name} = {value}" for name, value in changed)
    return [f"{type(data.model).__name__} was fitted with {settings}."]


def _parameters(model: Any) -> list[tuple[str, str]]:
    """Parameters that differ from their defaults, as words."""
    if model is None or not hasattr(model, "get_params"):
        return []
    defaults = {
        name: parameter.default for name, parameter in inspect.signature(type(model).__init__).parameters.items()
    }
    changed = []
    for name, value in model.get_params(deep=False).items():
        default: Any = defaults.get(name)
        is_default = value is default or (np.ndim(value) == 0 and np.ndim(default) == 0 and value == default)
        if not is_default and name not in ("verbose", "callbacks"):
            words = repr(value) if np.ndim(value) == 0 else f"array of shape {np.shape(value)}"
            changed.append((name, shortened(one_line(words), 80)))
    return changed


def _notes(data: ReportData, found: Findings) -> str:
    facts, notes = found.facts, _new_words(data.notes, " ".join(_reasons(data)))
    n_lost = found.n_rows - len(found.rows)
    if n_lost and not any("no direction" in note for note in notes):
        notes.append(
            f"{counted(n_lost, 'row')} {'has' if n_lost == 1 else 'have'} no direction (all zeros, or not numbers) and "
            f"{'is' if n_lost == 1 else 'are'} not drawn."
        )
    if facts.n_small:
        notes.append(
            f"The {len(facts.names):,} largest clusters are shown. {counted(facts.n_small, 'more cluster')} with "
            f"{counted(facts.n_small_rows, 'row')} in all, none larger, are drawn in one colour."
        )
    unlike = of_the_model(data.model, facts.n_clusters)
    if unlike and not any(unlike in note for note in notes):
        notes.append(unlike)
    if len(found.drawn) < len(found.rows):
        but = "" if _all_are_scored(facts) else " but the silhouettes"
        notes.append(
            f"{len(found.drawn):,} of {len(found.rows):,} rows are drawn: some that are evenly spaced, and those that "
            f"the table names. All numbers{but} are of all rows."
        )
    return "".join(f"<li>{escape(one_line(note))}</li>" for note in notes)


def _new_words(notes: Sequence[str], said: str) -> list[str]:
    """Notes without what was said above them."""
    return [note for note in (one_line(note).removeprefix(one_line(said)).strip() for note in notes) if note]


def _all_are_scored(facts: ClusterFacts) -> bool:
    """Whether every row in a cluster has a silhouette, or none has."""
    return facts.n_scored in (0, int((facts.codes >= 0).sum()))


def _tiles(data: ReportData, found: Findings) -> str:
    facts = found.facts
    tiles = [
        ("cluster" if facts.n_clusters == 1 else "clusters", f"{facts.n_clusters:,}"),
        ("row" if found.n_rows == 1 else "rows", f"{found.n_rows:,}"),
    ]
    if found.n_out:
        tiles.append(("in no cluster", f"{found.n_out:,}"))
    if len(facts.names):
        tiles.append(("half of the rows within", in_degrees(float(np.nanmedian(facts.angles)))))
    if facts.n_scored:
        tiles.append(("mean silhouette", f"{facts.mean_silhouette:.3f}"))
    if data.timings:
        tiles.append(("seconds", in_seconds(sum(data.timings.values()))))
    return "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in tiles)


# -------------------------------------------------------------------------------------------------------- sections

Section = tuple[str, str, str] | None  # name, title, HTML


def _sphere_section(found: Findings, colors: Float64Array) -> Section:
    facts, atlas = found.facts, found.atlas
    picture = pictures.sphere_picture(atlas, facts.codes[found.drawn], facts)
    n_numbered = min(len(facts.names), pictures.MOST_NUMBERS)
    described = (
        f"The rows on a sphere, seen from two sides, coloured by cluster; {counted(facts.n_clusters, 'cluster')}, "
        f"{n_numbered} of them with their numbers at the centres."
    )
    chips = "".join(
        f'<li><button type="button" class="chip" data-cluster="{k}" aria-pressed="false">{swatch(colors[k])}'
        f'<b>{facts.names[k]}</b>{_words(found, k)} <span class="count">{facts.sizes[k]:,}</span></button></li>'
        for k in np.argsort(-facts.sizes, kind="stable")
    )
    if facts.n_noise:
        chips += (
            f'<li><button type="button" class="chip" data-cluster="{len(facts.names)}" aria-pressed="false">'
            f'<b>outliers</b> <span class="count">{facts.n_noise:,}</span></button></li>'
        )
    body = Template(_asset("sphere.html")).substitute(
        picture=picture, described=escape(described), chips=chips, caption=_caption(atlas) + _flat_caption(found)
    )
    return "sphere", "The rows", body


def _words(found: Findings, k: int) -> str:
    """The words of a cluster's name, where it has one."""
    words = found.words[k]
    return f' <span class="words">{escape(words)}</span>' if words else ""


def _caption(atlas: Atlas) -> str:
    if atlas.kind == "sphere":
        return "Rows are drawn where they are: all angles are true."
    if atlas.kind == "circle":
        return (
            "Rows of two numbers lie on a circle, and angles along it are true. The width of the band has no meaning; "
            "it parts rows that would lie on top of each other."
        )
    quality = f"{atlas.fidelity:.2f}"
    return (
        "A projection: rows that lie near each other in all dimensions are drawn near each other, without a look at "
        f"their clusters. True angles and those on this sphere have a rank correlation of <b>{quality}</b> over "
        f"{atlas.n_pairs:,} pairs of rows (1 keeps every order, 0 none); differences of angles are stretched "
        f"{atlas.stretch:.1f} times. The numbers in the tables are of the true angles."
    )


def _flat_caption(found: Findings) -> str:
    if found.flat is None:
        return ""
    return (
        f' <span id="flat-words">The flat map is by {escape(found.flat.name)}: of the ten rows nearest to a row, '
        f"<b>{found.flat.kept:.0%}</b> are among the ten nearest on the map, over {found.flat.n_tested:,} rows.</span>"
    )


def _levels_section(found: Findings) -> Section:
    body = level_tree(found)
    hint = '<p class="hint">Coarse groups, the clusters in each, and into how many a finer cut would part them.</p>'
    return ("levels", "Groups of clusters", hint + body) if body else None


def _table_section(found: Findings, colors: Float64Array) -> Section:
    return ("clusters", "The clusters", cluster_table(found, colors)) if len(found.facts.names) else None


def _similarity_section(found: Findings, order: IntArray) -> Section:
    facts = found.facts
    if len(facts.names) < 2:
        return None
    picture = pictures.similarity_picture(facts, order)
    hint = (
        "Angles between the centres of clusters. Clusters that are near each other stand side by side, and the tree "
        "above joins them at their mean angle; dark is near."
    )
    if len(order) < len(facts.names):
        hint += f" The {len(order)} largest clusters are shown."
    body = f'<p class="hint">{hint}</p>{chart(picture, "Angles between the centres of the clusters, as a matrix")}'
    body += overlap_table(found)
    return "similarity", "How near the clusters are", body


def _silhouette_section(data: ReportData, found: Findings, colors: Float64Array) -> Section:
    facts = found.facts
    labels = np.asarray(data.labels)[found.rows]
    if len(facts.names) > _MANY_CLUSTERS:
        return "silhouettes", "How large and how clear the clusters are", f"{_silhouette_hint(facts)}{end_lists(found)}"
    sizes = chart(pictures.sizes_picture(labels, facts, colors), "Number of rows of each cluster, largest first")
    if not facts.n_scored:
        return "sizes", "How large the clusters are", sizes
    scores = chart(pictures.silhouettes_picture(facts, colors), "Silhouettes of the rows by cluster")
    hint = _silhouette_hint(facts)
    return "silhouettes", "How well rows belong", f'{hint}<div class="pair">{scores}{sizes}</div>'


def _silhouette_hint(facts: ClusterFacts) -> str:
    if not facts.n_scored:
        return ""
    sampled = "" if _all_are_scored(facts) else f" Of {facts.n_scored:,} rows, evenly spaced."
    return (
        '<p class="hint">A silhouette compares a row\'s mean cosine distance to its own cluster with that to the '
        f"nearest other one: 1 is at home, 0 is between two, below 0 is nearer to another.{sampled}</p>"
    )


def _choice_section(data: ReportData) -> Section:
    if data.choice is None:
        return None
    picture = pictures.choice_picture(data.choice)
    body = paragraphs(_reasons(data))
    if picture is not None:
        body += chart(picture, "What was compared, and which was taken")
    table = getattr(data.choice, "table", None)
    if table:
        body += _comparison(list(table))
    return "choice", "How the number of clusters was chosen", body


def _comparison(table: list[Mapping[str, Any]]) -> str:
    """What was compared, line by line."""
    keys = list(dict.fromkeys(str(key) for entry in table for key in entry))
    heads = "".join(f'<th scope="col">{escape(key.replace("_", " "))}</th>' for key in keys)
    lines = "".join(
        f"<tr>{''.join(f'<td>{escape(plain(entry.get(key)))}</td>' for key in keys)}</tr>"
        for entry in table[:_MOST_COMPARED]
    )
    more = (
        f"<p>{counted(len(table) - _MOST_COMPARED, 'more line')} not shown.</p>" if len(table) > _MOST_COMPARED else ""
    )
    return (
        f"<details><summary>What was compared, in {counted(len(table), 'line')}</summary>"
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>'
        f"{more}</details>"
    )


def _traces_section(data: ReportData) -> Section:
    picture = pictures.traces_picture(data.model)
    if picture is None:
        return None
    return "traces", "How the chains went", chart(picture, "Number of clusters and log joint density by sweep")


def _truth_section(data: ReportData) -> Section:
    if data.truth is None:
        return None
    lines = [(name, f"{value:.3f}", meaning) for name, value, meaning in agreement(data.truth, data.labels)]
    body = small_table(("score", "value", "meaning"), lines)
    if (np.asarray(data.labels) < 0).any():
        body += '<p class="hint">Rows in no cluster count as one cluster more.</p>'
    return "truth", "Agreement with the known classes", body


def _again_section(data: ReportData) -> Section:
    parts = [
        f'<h3>{title}</h3><div class="code"><pre id="{name}" tabindex="0"><code>'
        f"{escape(str(text).rstrip())}</code></pre></div>"
        for name, title, text in (("command", "Command", data.command), ("snippet", "Python", data.snippet))
        if text
    ]
    return ("again", "Do it again", "\n".join(parts)) if parts else None


def _model_section(data: ReportData) -> Section:
    parts = []
    if data.timings:
        lines = [(step, f"{in_seconds(seconds)} s") for step, seconds in data.timings.items()]
        total = ("all", f"{in_seconds(sum(data.timings.values()))} s")
        parts.append(f"<div><h3>Time</h3>{small_table(('step', 'time'), [*lines, total])}</div>")
    changed = _parameters(data.model)
    if data.model is not None:
        name = escape(type(data.model).__name__)
        table = small_table(("parameter", "value"), changed) if changed else "<p>All parameters are the defaults.</p>"
        parts.append(f"<div><h3>Parameters of {name}</h3>{table}</div>")
    return ("model", "Model and time", f'<div class="pair">{"".join(parts)}</div>') if parts else None


def _privacy(data: ReportData, found: Findings) -> str:
    """What the page holds of the rows."""
    beside = (("texts", data.texts), ("ids", data.ids), ("pictures", data.images))
    held = [word for word, given in beside if given is not None]
    if not held:
        return " It holds no texts of the rows."
    return f" It holds {' and '.join(held)} of {len(found.drawn):,} rows: pass it on as you would those."


def _script() -> str:
    """The page without it is complete: pictures and tables. It makes the sphere turn, and the table sort."""
    return '"use strict";\n(() => {\n' + "\n".join(_asset(name) for name in _SCRIPTS) + "})();\n"


def _asset(name: str) -> str:
    return (files("armillary.report") / "assets" / name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """What the page may do: run its own script, nothing from elsewhere."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    # the pictures have style attributes, which no hash can name
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
