"""The table of `select_max_angle` as a picture: silhouette and number of clusters over the angle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from armillary._typing import Float64Array
from armillary.exceptions import InputError, ParameterError
from armillary.plots.sphere import PALETTE, _need_matplotlib, _new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from armillary.selection.angle_selection import AngleTable

# Blue and brown differ for every kind of sight, and both are dark enough for words on white; dashes and open squares
# tell the curves apart without colour.
_SILHOUETTE_COLOR, _CLUSTERS_COLOR = PALETTE[0], "#9a4d00"
_INK = "#414a59"
_DEGREES = (0.1, 0.2, 0.5, 1, 2, 3, 5, 7, 10, 15, 20, 30, 45, 60, 90, 120, 180)  # ticks of a logarithmic axis
_WIDE_RANGE = 4.0  # ratio of angles from which on the axis is logarithmic


def plot_angle_table(table: AngleTable, *, ax: Axes | None = None) -> Axes:
    """Draw the mean silhouette and the number of clusters over the angle, in degrees; the best angle is marked.

    Parameters
    ----------
    table : AngleTable
        What `select_max_angle` returned.
    ax : matplotlib Axes, optional
        Plain 2-D axes to draw on. By default those of a new figure, `ax.figure`. Angles that span a factor of 4 or more
        are on a logarithmic axis. The clusters are on a second, logarithmic axis at the right, which is added to the
        figure.

    Returns
    -------
    ax : matplotlib Axes
        The axes of the silhouette.

    Examples
    --------
    >>> from armillary import select_max_angle
    >>> from armillary.datasets import make_vmf_mixture
    >>> X, _, _ = make_vmf_mixture(500, 3, 5, concentration=200.0, min_angle=0.8, random_state=0)
    >>> ax = plot_angle_table(select_max_angle(X, [0.2, 0.5, 1.5]))
    >>> ax.get_title(loc="left")
    '28.6°: 5 clusters, silhouette 0.987'
    """
    who = "plot_angle_table"
    _need_matplotlib(who)
    _check_table(table, who)
    if ax is None:
        ax = _new_figure(6.8, 4.2).add_axes((0.1, 0.13, 0.76, 0.77))
    elif getattr(ax, "name", None) != "rectilinear":
        raise ParameterError(
            f"`ax` of {who} must be plain 2-D axes; got {type(ax).__name__}. "
            "Make them with figure.add_subplot(), without `projection`."
        )
    degrees = np.degrees(table.max_angles)
    right = ax.twinx()
    # the silhouette lies on top, on a background that lets the clusters through
    ax.set_zorder(right.get_zorder() + 1)
    ax.patch.set_visible(False)
    _draw_clusters(right, degrees, table)
    _draw_silhouettes(ax, degrees, table)
    _prepare_angles(ax, degrees)
    return ax


def _check_table(table: object, who: str) -> None:
    from armillary.selection.angle_selection import AngleTable

    if not isinstance(table, AngleTable):
        raise InputError(
            f"`table` of {who} must be an AngleTable; got {type(table).__name__}. "
            "Give what armillary.select_max_angle(X) returned."
        )


def _draw_silhouettes(ax: Axes, degrees: Float64Array, table: AngleTable) -> None:
    best, color = table.best, _SILHOUETTE_COLOR
    ax.axvline(degrees[best], color=_INK, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1.0)
    ax.plot(
        degrees, table.silhouettes, color=color, linewidth=2.0, marker="o", markersize=4.5, clip_on=False, zorder=3.0
    )
    ax.plot(
        degrees[best],
        table.silhouettes[best],
        color=color,
        marker="o",
        markersize=11.0,
        markerfacecolor="white",
        markeredgewidth=2.5,
        clip_on=False,
        zorder=4.0,
    )
    ax.set_ylabel("mean silhouette", color=color)
    ax.tick_params(axis="y", colors=color, length=3.0)
    ax.set_ylim(min(0.0, 1.1 * float(table.silhouettes.min())), 1.0)  # all of it: small differences look small
    ax.set_title(
        f"{degrees[best]:.3g}°: {table.n_clusters[best]:,} cluster{'' if table.n_clusters[best] == 1 else 's'}, "
        f"silhouette {table.silhouettes[best]:.3f}",
        loc="left",
        color=_INK,
        fontsize=11,
    )
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(_INK)


def _draw_clusters(ax: Axes, degrees: Float64Array, table: AngleTable) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    color = _CLUSTERS_COLOR
    ax.plot(
        degrees,
        table.n_clusters,
        color=color,
        linewidth=1.4,
        linestyle=(0, (4, 2)),
        marker="s",
        markersize=4.0,
        markerfacecolor="white",
        markeredgewidth=1.2,
        clip_on=False,
        zorder=2.0,
    )
    ax.set_yscale("log")
    most = float(table.n_clusters.max())
    ax.set_ylim(0.8, 1.6 * most)
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if most < 2000.0 else (1.0,)))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_ylabel("clusters", color=color)
    ax.tick_params(axis="y", which="major", colors=color, length=3.0)
    ax.tick_params(axis="y", which="minor", length=0.0)
    for side in ("top", "left", "bottom"):
        ax.spines[side].set_visible(False)
    ax.spines["right"].set_color(_INK)


def _prepare_angles(ax: Axes, degrees: Float64Array) -> None:
    from matplotlib.ticker import NullLocator, StrMethodFormatter

    smallest, largest = float(degrees.min()), float(degrees.max())
    if largest >= _WIDE_RANGE * smallest:
        ax.set_xscale("log")
        ax.set_xlim(smallest / 1.08, largest * 1.08)
        ticks = [tick for tick in _DEGREES if smallest / 1.08 <= tick <= largest * 1.08]
        ax.set_xticks(ticks)
        ax.xaxis.set_minor_locator(NullLocator())
    else:
        margin = 0.04 * (largest - smallest) or 0.1 * largest
        ax.set_xlim(smallest - margin, largest + margin)
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}°"))
    ax.set_xlabel("max_angle", color=_INK)
    ax.tick_params(axis="x", colors=_INK, length=3.0)
