"""What tuning Links found: how vectors that get someone else's id trade against vectors that get a surplus id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from armillary.plots.sphere import _need_matplotlib, _new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from armillary.selection.link_tuning import LinksTable

_INK = "#414a59"
_BEST_COLOR = "#b02a4a"


def plot_links_table(table: LinksTable, *, ax: Axes | None = None) -> Axes:
    """Draw every setting that `tune_links` tried: the share conflated against the share fractured.

    The colour is T_c: low thresholds conflate, high ones fracture. The best setting has a ring and its thresholds.

    Parameters
    ----------
    table : LinksTable
        What `tune_links` returned.
    ax : matplotlib Axes, optional
        Plain 2-D axes to draw on. By default those of a new figure, `ax.figure`.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from armillary import tune_links
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, people, _ = make_vmf_mixture(200, 32, 4, concentration=100.0, min_angle=1.2, random_state=0)
    >>> ax = plot_links_table(tune_links(X, people))
    >>> ax.get_xlabel()
    'conflated'
    """
    _need_matplotlib("plot_links_table")
    if ax is None:
        ax = _new_figure(6.4, 4.4).add_axes((0.12, 0.13, 0.84, 0.8))
    outcomes = table.outcomes
    conflated, fractured = (np.array([getattr(one, name) for one in outcomes]) for name in ("conflated", "fractured"))
    marks = ax.scatter(
        conflated, fractured, c=[one.cluster_similarity_threshold for one in outcomes], s=22, cmap="viridis", alpha=0.85
    )
    best = table.best
    ax.scatter([best.conflated], [best.fractured], s=160, facecolors="none", edgecolors=_BEST_COLOR, linewidths=1.8)
    ax.annotate(
        f"$T_c$ {best[0]:.3f}  $T_s$ {best[1]:.3f}  $T_p$ {best[2]:.3f}\naccuracy {best.accuracy:.3f}",
        (best.conflated, best.fractured),
        xytext=(14, 14),
        textcoords="offset points",
        color=_BEST_COLOR,
        fontsize=8.5,
    )
    ax.figure.colorbar(marks, ax=ax, label="$T_c$")
    ax.set_xlabel("conflated", color=_INK)
    ax.set_ylabel("fractured", color=_INK)
    ax.tick_params(colors=_INK)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax
