"""Clusters by number: how many rows each has, and how well its rows belong to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from armillary._typing import ArrayLike, Float64Array, IntArray
from armillary.exceptions import InputError
from armillary.plots.paper import INK, plain_axes, quiet
from armillary.plots.sphere import NOISE_COLOR, PALETTE
from armillary.validation import check_integer, check_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Bars up to this many have their number of rows written beside them.
_ROOM_FOR_COUNTS = 40
# Steps of the outline of one cluster's silhouettes.
_MOST_STEPS = 60
# Names up to this many are all written; beyond, a few that are evenly spaced.
_MOST_NAMES = 30


def plot_cluster_sizes(
    labels: ArrayLike,
    *,
    colors: Sequence[Any] | None = None,
    most_clusters: int = 30,
    ax: Axes | None = None,
) -> Axes:
    """Draw the number of rows of each cluster, largest first.

    Parameters
    ----------
    labels : (N,) array of int
        The cluster of each row; -1 is noise, and has the last bar.
    colors : sequence, optional
        A colour for each cluster, in the order of the labels. By default those of `plot_sphere` for twelve clusters,
        repeated.
    most_clusters : int, default=30
        How many clusters are drawn; the title counts the others.
    ax : matplotlib Axes, optional
        Plain 2-D axes to draw on. By default those of a new figure, `ax.figure`.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> ax = plot_cluster_sizes([0, 0, 0, 1, 1, 2, -1])
    >>> [word.get_text() for word in ax.get_yticklabels()]
    ['0', '1', '2', 'noise']
    """
    who = "plot_cluster_sizes"
    most_clusters = check_integer(most_clusters, "most_clusters", who, low=1)
    values = _labels(labels, None, who)
    names, sizes = np.unique(values[values >= 0], return_counts=True)
    paint = _colors(colors, len(names), who)
    order = np.argsort(-sizes, kind="stable")
    own, others = order[:most_clusters], order[most_clusters:]
    bars = [(str(names[k]), int(sizes[k]), paint[k]) for k in own]
    if (values < 0).any():
        bars.append(("noise", int((values < 0).sum()), NOISE_COLOR))
    words, lengths, shown = (list(part) for part in zip(*bars, strict=True))
    ax = plain_axes(ax, who, 6.8, 1.3 + 0.22 * len(bars))
    ax.barh(np.arange(len(bars)), lengths, color=shown, edgecolor=INK, linewidth=0.5, height=0.8)
    ax.set_yticks(np.arange(len(bars)), words, fontsize=8.5)
    ax.set_ylim(len(bars) - 0.4, -0.6)
    ax.set_xlim(0.0, 1.12 * max(lengths))
    if len(bars) <= _ROOM_FOR_COUNTS:
        for place, length in enumerate(lengths):
            ax.text(length + 0.008 * max(lengths), place, f"{length:,}", va="center", color=INK, fontsize=8)
    title = f"{len(names):,} cluster{'' if len(names) == 1 else 's'}, {len(values):,} rows"
    if len(others):
        title += f"; {len(others):,} smaller ones, not drawn, have {sizes[others].sum():,}"
    quiet(ax, title=title, x="rows", y="cluster")
    return ax


def plot_silhouettes(
    silhouettes: ArrayLike,
    labels: ArrayLike,
    *,
    colors: Sequence[Any] | None = None,
    most_clusters: int = 30,
    ax: Axes | None = None,
) -> Axes:
    """Draw the silhouettes of the rows, cluster by cluster, each from its best row to its worst.

    A cluster is as tall as its share of the rows. A dashed line marks the mean of all rows. Of more clusters than
    `most_clusters`, each is one line from its lower to its upper quartile with a dot at its mean, best mean on top.

    Parameters
    ----------
    silhouettes : (N,) array
        In [-1, 1], from `armillary.metrics.cosine_silhouette_samples`. Rows that are NaN are left out.
    labels : (N,) array of int
        The cluster of each row; rows with -1 are left out.
    colors, ax
        As for `plot_cluster_sizes`.
    most_clusters : int, default=30
        How many clusters are drawn row by row.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> ax = plot_silhouettes([0.9, 0.7, 0.5, -0.1], [0, 0, 1, 1])
    >>> ax.get_title(loc="left")
    'mean silhouette 0.500'
    """
    who = "plot_silhouettes"
    most_clusters = check_integer(most_clusters, "most_clusters", who, low=1)
    scores = check_numbers(silhouettes, "silhouettes", who, may_be_infinite=True)
    if scores.ndim != 1:
        raise InputError(
            f"`silhouettes` of {who} must be one number per row; got shape {scores.shape}. "
            "Give what metrics.cosine_silhouette_samples(X, labels) returned."
        )
    values = _labels(labels, len(scores), who)
    names = np.unique(values[values >= 0])
    paint = _colors(colors, len(names), who)
    is_drawn = np.isfinite(scores) & (values >= 0)
    if not is_drawn.any():
        raise InputError(
            f"`silhouettes` of {who} must have a number for a row of a cluster; all are NaN or noise. "
            "A silhouette needs two clusters."
        )
    parts = _parts(scores[is_drawn], values[is_drawn], names)
    ax = plain_axes(ax, who, 6.8, 4.6)
    (_draw_rows if len(names) <= most_clusters else _draw_quartiles)(ax, names, parts, paint)
    mean = float(scores[is_drawn].mean())
    ax.axvline(mean, color=INK, linewidth=1.0, linestyle=(0, (4, 3)), zorder=3.0)
    ax.axvline(0.0, color=INK, linewidth=0.6, zorder=3.0)
    ax.set_xlim(min(-0.1, float(scores[is_drawn].min()) - 0.03), 1.0)
    quiet(ax, title=f"mean silhouette {mean:.3f}", x="silhouette", y="cluster")
    return ax


def _parts(scores: Float64Array, values: IntArray, names: IntArray) -> list[Float64Array]:
    """The scores of each cluster, best first."""
    order = np.lexsort((-scores, values))
    return np.split(scores[order], np.searchsorted(values[order], names[1:]))


def _draw_rows(ax: Axes, names: IntArray, parts: list[Float64Array], paint: list[Any]) -> None:
    n_drawn = sum(len(part) for part in parts)
    gap = 0.25 * n_drawn / len(parts)
    top, middles = 0.0, []
    for part, color in zip(parts, paint, strict=True):
        middles.append(top + 0.5 * len(part))
        if len(part):
            n_steps = min(len(part), _MOST_STEPS)
            steps = part[np.arange(n_steps) * len(part) // n_steps]
            edges = top + np.arange(n_steps + 1) * len(part) / n_steps
            ax.fill_betweenx(
                edges, 0.0, np.append(steps, steps[-1]), step="post", color=color, edgecolor=INK, linewidth=0.4
            )
        top += len(part) + gap
    ax.set_ylim(top, -gap)
    _name(ax, middles, names)


def _draw_quartiles(ax: Axes, names: IntArray, parts: list[Float64Array], paint: list[Any]) -> None:
    means = np.array([part.mean() if len(part) else -np.inf for part in parts])
    order = np.argsort(-means, kind="stable")
    order = order[np.isfinite(means[order])]
    quartiles = np.array([np.quantile(parts[k], [0.25, 0.75]) for k in order])
    places = np.arange(len(order))
    shown = [paint[k] for k in order]
    ax.hlines(places, quartiles[:, 0], quartiles[:, 1], colors=shown, linewidth=max(0.6, 240.0 / len(order) / 2.0))
    ax.scatter(means[order], places, c=INK, s=max(2.0, 600.0 / len(order)), linewidths=0.0, zorder=4.0)
    ax.set_ylim(len(order), -1.0)
    _name(ax, places, names[order])


def _name(ax: Axes, places: Any, names: IntArray) -> None:
    """Write the names of clusters at their places; of very many, some."""
    n_names = min(len(names), _MOST_NAMES)
    chosen = np.arange(n_names) * len(names) // n_names
    ax.set_yticks(np.asarray(places)[chosen], [str(names[k]) for k in chosen], fontsize=8.0)


def _labels(labels: ArrayLike, n_rows: int | None, who: str) -> IntArray:
    values = np.asarray(labels)
    wanted = "(n,)" if n_rows is None else f"({n_rows},)"
    is_right = values.ndim == 1 and values.dtype.kind in "iu" and len(values) > 0
    if not is_right or (n_rows is not None and len(values) != n_rows):
        raise InputError(
            f"`labels` of {who} must be ints of shape {wanted}, one per row; got {values.dtype} of shape "
            f"{values.shape}. Give `model.labels_` or `model.predict(X)`."
        )
    if values.min() < -1:
        raise InputError(f"`labels` of {who} must be -1 (noise) or more; got {values.min()}. Give noise the label -1.")
    return values


def _colors(colors: Sequence[Any] | npt.NDArray[Any] | None, n_clusters: int, who: str) -> list[Any]:
    if colors is None:
        return [PALETTE[k % len(PALETTE)] for k in range(n_clusters)]
    if len(colors) != n_clusters:
        raise InputError(
            f"`colors` of {who} must have one for each of {n_clusters} clusters; got {len(colors)}. "
            "Give them in the order of the labels, noise aside."
        )
    return list(colors)
