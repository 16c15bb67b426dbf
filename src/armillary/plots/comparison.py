"""Several models beside each other: their scores, and how far their clusters agree; sweeps side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary._typing import ArrayLike
from armillary.exceptions import InputError
from armillary.plots.angles import plot_angle_table
from armillary.plots.paper import INK, PALE_INK, plain_axes, quiet
from armillary.plots.sphere import PALETTE, _need_matplotlib, _new_figure
from armillary.plots.sweeps import plot_sweep
from armillary.validation import check_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_WORDS = 12  # models up to which cells of the agreement have their number


def plot_scores(table: Sequence[Mapping[str, Any]], scores: Sequence[str], *, ax: Axes | None = None) -> Axes:
    """Draw the scores of several models as bars.

    Parameters
    ----------
    table : sequence of mappings
        One entry for each model, with its name under "model", its number of clusters under "n_clusters", and numbers
        (or None) under the names of the scores.
    scores : sequence of str
        Which scores to draw, at most one colour each; higher is better.
    ax : matplotlib Axes, optional
        Plain 2-D axes to draw on. By default those of a new figure, `ax.figure`.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from armillary.plots import plot_scores
    >>> table = [{"model": "k-means", "n_clusters": 5, "ari": 0.7}, {"model": "mixture", "n_clusters": 5, "ari": 0.8}]
    >>> ax = plot_scores(table, ["ari"])
    """
    if not table or not scores:
        raise InputError(
            "`table` and `scores` of plot_scores must have an entry each; got none. Give models to compare."
        )
    ax = plain_axes(ax, "plot_scores", 6.0, 1.2 + 0.55 * len(table))
    height = 0.8 / len(scores)
    for place, score in enumerate(scores):
        values = [float(entry[score]) if entry.get(score) is not None else np.nan for entry in table]
        places = np.arange(len(table)) + place * height
        ax.barh(places, np.nan_to_num(values), height=0.92 * height, color=PALETTE[place % len(PALETTE)], label=score)
        for where, value in zip(places, values, strict=True):
            word = "-" if np.isnan(value) else f"{value:.3f}"
            ax.text(max(0.0, np.nan_to_num(value)) + 0.01, where, word, va="center", fontsize=7, color=PALE_INK)
    names = [f"{entry['model']} ({entry['n_clusters']:,})" for entry in table]
    ax.set_yticks(np.arange(len(table)) + 0.4 - height / 2, names)
    ax.invert_yaxis()
    ax.set_xlim(right=max(1.0, ax.get_xlim()[1]) * 1.08)
    ax.axvline(0.0, color=INK, linewidth=0.8)
    quiet(ax, title="scores (clusters found)")
    if len(scores) > 1:
        ax.legend(
            fontsize=8,
            frameon=False,
            labelcolor=INK,
            loc="lower center",
            ncols=len(scores),
            bbox_to_anchor=(0.5, -0.28),
        )
    return ax


def plot_agreement(agreement: ArrayLike, names: Sequence[str], *, ax: Axes | None = None) -> Axes:
    """Draw how far pairs of clusterings agree, e.g. their adjusted Rand indices (m, m); 1 is the same clusters.

    Parameters
    ----------
    agreement : array-like of shape (m, m)
        How far each two of them agree.
    names : sequence of m str
        What they are called.
    ax : matplotlib Axes, optional
        Plain 2-D axes to draw on. By default those of a new figure, `ax.figure`.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from armillary.plots import plot_agreement
    >>> ax = plot_agreement([[1.0, 0.4], [0.4, 1.0]], ["k-means", "mixture"])
    """
    values = check_numbers(agreement, "agreement", "plot_agreement", may_be_infinite=True)
    if values.shape != (len(names), len(names)):
        raise InputError(
            f"`agreement` of plot_agreement must have shape ({len(names)}, {len(names)}), one row and column for each "
            f"name; got {values.shape}."
        )
    ax = plain_axes(ax, "plot_agreement", 4.6, 4.2)
    ax.imshow(values, vmin=0.0, vmax=1.0, cmap="Blues")
    ax.set_xticks(range(len(names)), names, rotation=40, ha="right")
    ax.set_yticks(range(len(names)), names)
    if len(names) <= _MOST_WORDS:
        for row, column in np.ndindex(values.shape):
            color = "white" if values[row, column] > 0.6 else INK
            ax.text(column, row, f"{values[row, column]:.2f}", ha="center", va="center", fontsize=8, color=color)
    quiet(ax, title="agreement (adjusted Rand index)")
    return ax


def plot_comparison(table: Sequence[Mapping[str, Any]], scores: Sequence[str], agreement: ArrayLike) -> Figure:
    """`plot_scores` and `plot_agreement` side by side, in a new figure.

    Parameters
    ----------
    table : sequence of mappings
        As for `plot_scores`.
    scores : sequence of str
        As for `plot_scores`.
    agreement : array-like of shape (m, m)
        As for `plot_agreement`.

    Returns
    -------
    figure : matplotlib Figure

    Examples
    --------
    >>> from armillary.plots import plot_comparison
    >>> table = [{"model": "k-means", "n_clusters": 5, "ari": 0.7}, {"model": "mixture", "n_clusters": 5, "ari": 0.8}]
    >>> figure = plot_comparison(table, ["ari"], [[1.0, 0.4], [0.4, 1.0]])
    """
    _need_matplotlib("plot_comparison")
    height = max(3.6, 1.9 + 0.5 * len(table))
    figure = _new_figure(6.4 + 1.0 * height, height)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
    plot_scores(table, scores, ax=left)
    plot_agreement(agreement, [str(entry["model"]) for entry in table], ax=right)
    figure.tight_layout()
    return figure


def plot_suggestion(angles: Any, sweeps: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> Figure:
    """A table of angles (`select_max_angle`) and sweeps over numbers of clusters, each under the name of its score.

    Parameters
    ----------
    angles : AngleTable or None
        What `select_max_angle` compared.
    sweeps : sequence of (str, table)
        Names of scores with tables as for `plot_sweep`.

    Returns
    -------
    figure : matplotlib Figure

    Examples
    --------
    >>> import armillary
    >>> from armillary.datasets import make_vmf_mixture
    >>> from armillary.plots import plot_suggestion
    >>> X, _, _ = make_vmf_mixture(200, 3, 4, concentration=200.0, random_state=0)
    >>> angles = armillary.select_max_angle(X, [0.2, 0.4], random_state=0)
    >>> sweep = [{"n_clusters": 3, "score": 0.4}, {"n_clusters": 4, "score": 0.6}]
    >>> figure = plot_suggestion(angles, [("silhouette", sweep)])
    >>> len(figure.axes)
    3
    """
    _need_matplotlib("plot_suggestion")
    figure = _new_figure(6.4 * (1 + len(sweeps)), 4.2)
    first, *others = figure.subplots(1, 1 + len(sweeps), squeeze=False)[0]
    plot_angle_table(angles, ax=first)
    for ax, (criterion, table) in zip(others, sweeps, strict=True):
        plot_sweep(table, criterion=criterion, ax=ax)
    figure.tight_layout()
    return figure
