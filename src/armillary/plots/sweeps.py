"""What was compared to choose a model: a score over the number of clusters found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.exceptions import InputError
from armillary.plots.paper import INK, plain_axes, quiet
from armillary.plots.sphere import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^vP*X"
_WIDE_RANGE = 8.0  # ratio of numbers of clusters from which on the axis is logarithmic


def plot_sweep(
    table: Sequence[Mapping[str, Any]],
    *,
    x: str = "n_clusters",
    criterion: str = "score",
    best: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a score over the number of clusters, one line for each model; the best is marked.

    Parameters
    ----------
    table : sequence of mappings
        One entry for each fit, with its numbers `x` and "score" and, where several models are compared, its "model".
        Entries without both numbers are left out. One with a true "is_chosen" is the best; where entries have the key
        and none is true, nothing is marked.
    x : str, default="n_clusters"
        The key of the numbers on the horizontal axis.
    criterion : str
        What the score is called; higher is better.
    best : int, optional
        Which entry is marked. By default the one chosen, and in tables that do not say, the first with the highest
        score.
    ax : matplotlib Axes, optional
        Plain 2-D axes to draw on. By default those of a new figure, `ax.figure`. Numbers of clusters that span a factor
        of 8 or more are on a logarithmic axis.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> table = [{"n_clusters": 2, "score": 0.3}, {"n_clusters": 4, "score": 0.7}, {"n_clusters": 8, "score": 0.5}]
    >>> plot_sweep(table, criterion="silhouette").get_title(loc="left")
    '4 clusters: silhouette 0.7'
    """
    who = "plot_sweep"
    usable = [
        number for number, entry in enumerate(table) if _is_number(entry.get(x)) and _is_number(entry.get("score"))
    ]
    if not usable:
        raise InputError(
            f'`table` of {who} must have an entry with the numbers "{x}" and "score"; got {len(table)} without. '
            "Give the table of a choice, e.g. armillary.choose_model(X).table."
        )
    if best is None:
        best = _best(table, usable)
    elif best not in usable:
        raise InputError(
            f"`best` of {who} must be the number of an entry with both numbers; got {best!r}. "
            f"These have them: {', '.join(map(str, usable[:20]))}."
        )
    ax = plain_axes(ax, who, 6.8, 4.2)
    models = list(dict.fromkeys(str(table[number].get("model", "")) for number in usable))
    for place, model in enumerate(models):
        entries = sorted(
            (float(table[number][x]), float(table[number]["score"]))
            for number in usable
            if str(table[number].get("model", "")) == model
        )
        ax.plot(
            *np.transpose(entries),
            color=PALETTE[place % len(PALETTE)],
            marker=_MARKERS[place % len(_MARKERS)],
            markersize=5.0,
            linewidth=1.8 if len(entries) > 1 else 0.0,
            label=model,
        )
    if best is not None:
        _mark(ax, table[best], x, criterion)
    _prepare(ax, np.array([float(table[number][x]) for number in usable]))
    quiet(ax, title=ax.get_title(loc="left"), x="clusters" if x == "n_clusters" else x, y=criterion)
    if len(models) > 1:
        ax.legend(fontsize=8, frameon=False, labelcolor=INK)
    return ax


def _best(table: Sequence[Mapping[str, Any]], usable: list[int]) -> int | None:
    """The number of the entry that was chosen; where the table does not say, of the highest score."""
    if any("is_chosen" in table[number] for number in usable):
        return next((number for number in usable if table[number].get("is_chosen")), None)
    return max(usable, key=lambda number: (table[number]["score"], -number))


def _mark(ax: Axes, entry: Mapping[str, Any], x: str, criterion: str) -> None:
    where, score = float(entry[x]), float(entry["score"]) + 0.0  # no "-0"
    ax.axvline(where, color=INK, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1.0)
    ax.plot(
        [where], [score], marker="o", markersize=13.0, markerfacecolor="none", markeredgecolor=INK, markeredgewidth=1.8
    )
    what = f"{where:,.0f} cluster{'' if where == 1 else 's'}" if x == "n_clusters" else f"{x} {where:.4g}"
    ax.set_title(f"{what}: {criterion} {score:.4g}", loc="left")


def _prepare(ax: Axes, values: Any) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = float(values.min()), float(values.max())
    if low > 0.0 and high >= _WIDE_RANGE * low:
        ax.set_xscale("log")
        ax.set_xlim(low / 1.15, high * 1.15)
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_minor_formatter(NullFormatter())
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return is_real and bool(np.isfinite(value))
