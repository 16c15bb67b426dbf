"""Mean directions that drift: paths on a sphere, and words that come and go (Gopal and Yang 2014, Figures 6 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from armillary._typing import ArrayLike, Float64Array
from armillary.exceptions import InputError
from armillary.plots.sphere import (
    _FADE,
    PALETTE,
    _draw_note,
    _frame,
    _globe_color,
    _need_matplotlib,
    _new_figure,
    _orthographic,
    _write,
    cluster_colors,
    plot_sphere,
)
from armillary.validation import check_integer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from armillary.models.vmf.temporal_vmf_mixture import TemporalVonMisesFisherMixture

_INK, _PALE = "#414a59", "#9aa3b2"
# Places between two slices at which a path is drawn, so that it bends with the sphere.
_N_BETWEEN = 8
_THINNEST, _THICKEST = 1.0, 3.2  # of a path at its beginning and end, in points
# A path is darker than the rows it runs through, and has a white edge.
_DARKER, _CASING = 0.62, 2.0


def plot_trajectories(
    model: TemporalVonMisesFisherMixture,
    X: Any = None,
    labels: ArrayLike | None = None,
    *,
    ax: Axes | None = None,
    view_from: Sequence[float] | None = None,
    far_side: str = "dimmed",
    max_points: int = 20_000,
) -> Axes:
    """Draw the paths of the mean directions on a globe, from thin (the first slice) to thick (the last, a ring).

    With more than three features, directions are projected on the three axes that hold most of the means (those of
    their singular value decomposition) and then on the sphere; a note says how much of the means' squared length these
    axes hold, and angles are kept as far as it is all of it.

    Parameters
    ----------
    model : fitted TemporalVonMisesFisherMixture
        With at least 3 features; with 2, the third axis is 0.
    X : array or CSR matrix of shape (n, D), optional
        Rows to draw below the paths.
    labels : int array of shape (n,), optional
        Their components, e.g. `model.labels_`.
    ax : matplotlib Axes, optional
        Plain 2-D axes to draw on. By default those of a new figure, `ax.figure`.
    view_from : three numbers, optional
        The direction from the middle of the sphere to the viewer, in the axes of the picture. By default the middle of
        all paths.
    far_side, max_points
        As for `plot_sphere`.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from armillary import TemporalVonMisesFisherMixture
    >>> from armillary.datasets import make_drifting_mixture
    >>> X, _, _ = make_drifting_mixture(100, 3, 2, 5, random_state=0)
    >>> ax = plot_trajectories(TemporalVonMisesFisherMixture(2, random_state=0).fit(X))
    >>> len(ax.figure.axes)
    1
    """
    who = "plot_trajectories"
    _need_matplotlib(who)
    means = _means(model, who)
    axes, share = _axes_of(means)
    paths = _on_sphere(means @ axes.T)
    if X is None:
        points: Float64Array = paths.reshape(-1, 3)
        labels = np.tile(np.arange(means.shape[1]), len(means))
    else:
        points = _on_sphere(_projected(X, axes, means.shape[2], who))
    if view_from is None:
        middle = paths.sum(axis=(0, 1))
        view_from = middle if np.linalg.norm(middle) > 0.05 * paths[..., 0].size else (1.0, 0.7, 0.6)
    ax = plot_sphere(
        points,
        labels,
        centers=paths[-1],
        ax=ax,
        view_from=view_from,
        far_side=far_side,
        point_size=1.0 if X is None else None,
        max_points=max_points,
    )
    frame = _frame(view_from, who)
    colors = cluster_colors(paths[-1])
    for component, color in enumerate(colors):
        _draw_path(ax, paths[:, component] @ frame.T, color, is_far_shown=far_side == "dimmed")
    _draw_times(ax, paths @ frame.T, model.times_)
    if share < 1.0 - 1e-9:
        _draw_note(ax, f"{share:.0%} of the means lie along the three axes shown")
    return ax


def plot_top_features(
    model: TemporalVonMisesFisherMixture,
    component: int = 0,
    *,
    n: int = 6,
    every: int = 1,
    feature_names: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Write the features with the largest weight in one component's mean direction, slice by slice, largest on top.

    A feature that is among them in the next slice drawn is joined by a line; one that is new is in colour.

    Parameters
    ----------
    model : fitted TemporalVonMisesFisherMixture
    component : int
    n : int, default=6
        Features in each slice.
    every : int, default=1
        Draw every so many slices, beginning with the first.
    feature_names : sequence of shape (D,), optional
        As in `top_features`.
    ax : matplotlib Axes, optional
        Plain 2-D axes to draw on. By default those of a new figure, `ax.figure`.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from armillary import TemporalVonMisesFisherMixture
    >>> from armillary.datasets import make_drifting_mixture
    >>> from armillary.plots import plot_top_features
    >>> slices, _, _ = make_drifting_mixture(50, 8, 2, 4, concentration=100.0, random_state=0)
    >>> ax = plot_top_features(TemporalVonMisesFisherMixture(2, random_state=0).fit(slices))
    """
    who = "plot_top_features"
    _need_matplotlib(who)
    means = _means(model, who)
    component = check_integer(component, "component", who, low=0, high=means.shape[1] - 1)
    step = check_integer(every, "every", who, low=1)
    columns = model.top_features(n, feature_names)[::step, component]
    times = model.times_[::step]
    if ax is None:
        ax = _new_figure(max(3.0, 1.5 * len(columns)), 0.42 * n + 0.9).add_axes((0.02, 0.02, 0.96, 0.94))
    color = PALETTE[component % len(PALETTE)]
    seen: set[Any] = set()
    for place, words in enumerate(columns):
        ax.text(place, -0.95, str(times[place]), ha="center", va="center", color=_INK, weight="bold", fontsize=9)
        for rank, word in enumerate(words):
            is_new = place > 0 and word not in seen
            ax.text(place, rank, str(word), ha="center", va="center", color=color if is_new else _INK, fontsize=9)
        if place:
            _join(ax, place, columns[place - 1], words)
        seen.update(words)
    ax.set_axis_off()
    ax.set_xlim(-0.6, len(columns) - 0.4)
    ax.set_ylim(n - 0.4, -1.5)
    return ax


# ------------------------------------------------------------------------------------------------------- inside


def _means(model: Any, who: str) -> Float64Array:
    means: Any = getattr(model, "means_", None)
    if means is None or np.ndim(means) != 3:
        raise InputError(
            f"`model` of {who} must be a fitted TemporalVonMisesFisherMixture; got {type(model).__name__} "
            f"{'without means_' if means is None else f'with means_ of shape {np.shape(means)}'}. Fit it first."
        )
    return np.asarray(means)


def _axes_of(means: Float64Array) -> tuple[Float64Array, float]:
    """Three axes (3, D) that hold most of the means' squared length, and the share that they hold."""
    n_features = means.shape[2]
    if n_features <= 3:
        return np.eye(3, n_features), 1.0
    sizes, axes = np.linalg.svd(means.reshape(-1, n_features), full_matrices=False)[1:]
    held = sizes**2
    chosen = axes[:3]
    if len(chosen) < 3:  # fewer means than axes: the others hold nothing
        chosen = np.vstack([chosen, np.zeros((3 - len(chosen), n_features))])
    # the sign of a singular vector is arbitrary: the means' side is positive
    signs = np.where(means.reshape(-1, n_features).sum(axis=0) @ chosen.T < 0.0, -1.0, 1.0)
    return signs[:, None] * chosen, float(held[:3].sum() / held.sum())


def _projected(X: Any, axes: Float64Array, n_features: int, who: str) -> Float64Array:
    if np.ndim(X) != 2 or np.shape(X)[1] != n_features:
        raise InputError(
            f"`X` of {who} must have shape (n, {n_features}), as the model's means; got {np.shape(X)}. "
            "Give rows of the same features."
        )
    return np.asarray((X if hasattr(X, "toarray") else np.asarray(X)) @ axes.T, dtype=np.float64)


def _on_sphere(vectors: Float64Array) -> Float64Array:
    """Unit vectors; one orthogonal to all three axes goes to the first, for want of a place."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.where(lengths > 0.0, vectors / np.where(lengths > 0.0, lengths, 1.0), [1.0, 0.0, 0.0])


def _draw_path(ax: Axes, seen: Float64Array, color: Float64Array, *, is_far_shown: bool) -> None:
    """One path (T, 3) in the picture's frame."""
    from matplotlib.collections import LineCollection

    if len(seen) < 2:
        return
    shares = np.linspace(0.0, 1.0, _N_BETWEEN + 1)[:, None]
    pieces = [_on_sphere((1.0 - shares) * one + shares * two) for one, two in pairwise(seen)]
    line = np.concatenate([piece[:-1] for piece in pieces] + [seen[-1:]])
    ends = np.stack([line[:-1], line[1:]], axis=1)
    widths = np.linspace(_THINNEST, _THICKEST, len(ends))
    is_near = ends[..., 2].mean(axis=1) >= 0.0
    for side in (False, True):
        here = is_near == side
        if not here.any() or not (side or is_far_shown):
            continue
        places = _orthographic(ends[here].reshape(-1, 3)).reshape(-1, 2, 2)
        shade = _DARKER * color if side else color + _FADE * (_globe_color(places.mean(axis=1)) - color)
        layer = 5.6 if side else 2.6  # above the rows of its side and below the rings
        if side:
            casing = LineCollection(list(places), colors="white", linewidths=widths[here] + _CASING, capstyle="round")
            casing.set_zorder(layer)
            ax.add_collection(casing)
        ax.add_collection(
            LineCollection(list(places), colors=shade, linewidths=widths[here], capstyle="round", zorder=layer + 0.1)
        )


def _draw_times(ax: Axes, seen: Float64Array, times: npt.NDArray[Any]) -> None:
    """The first and the last time, at the longest path that is wholly on the near side."""
    if len(times) < 2:
        return
    lengths = np.linalg.norm(np.diff(seen, axis=0), axis=2).sum(axis=0)
    is_near = (seen[..., 2] > 0.1).all(axis=0)
    if not is_near.any():
        return
    longest = seen[:, int(np.argmax(np.where(is_near, lengths, -1.0)))]
    for end, other, time in ((longest[0], longest[-1], times[0]), (longest[-1], longest[0], times[-1])):
        away = end[:2] - other[:2]
        away = 0.075 * away / max(float(np.linalg.norm(away)), 1e-9)
        _write(ax, float(end[0] + away[0]), float(end[1] + away[1]), str(time))


def _join(ax: Axes, place: int, before: npt.NDArray[Any], after: npt.NDArray[Any]) -> None:
    """Lines from the words of one slice to the same words of the next."""
    ranks = {word: rank for rank, word in enumerate(before)}
    for rank, word in enumerate(after):
        if word in ranks:
            ax.plot([place - 0.62, place - 0.38], [ranks[word], rank], color=_PALE, linewidth=0.8, zorder=1.0)
