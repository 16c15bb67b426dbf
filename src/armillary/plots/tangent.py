"""Clusters that are not round: rows in the principal axes of one, and how elongated all are (Straub et al. 2015, 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from armillary._typing import ArrayLike, Float64Array
from armillary.exceptions import InputError, ParameterError
from armillary.plots.paper import INK, plain_axes, quiet
from armillary.plots.sphere import PALETTE
from armillary.validation import as_matrix, check_integer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from armillary.models.dirichlet_process.dirichlet_process_mixture import DirichletProcessMixture

_PALE = "#b9c1cd"
_DEVIATIONS = (1.0, 2.0)  # ellipses
_MARGIN = 1.15  # of the farthest row, so that names have room
_NAME_SIZE = 8.0  # in points; a letter is about 0.6 as wide and a line 1.25 as high
_LETTER_WIDTH, _LINE_HEIGHT = 0.6, 1.25
_DOT = 1.5  # half the width of a row with a name, in points
# A name that would cover another is moved away from its row in rings, this many places on each.
_N_PLACES = 16
_MOST_RINGS = 60


def plot_tangent_space(
    model: DirichletProcessMixture,
    X: ArrayLike,
    cluster: int = 0,
    *,
    labels: ArrayLike | None = None,
    axes: Sequence[int] = (0, 1),
    names: Sequence[Any] | None = None,
    n_names: int = 20,
    max_points: int = 20_000,
    ax: Axes | None = None,
) -> Axes:
    """Draw the rows of one cluster in two principal axes of its tangent space, with ellipses of one and two deviations.

    Both axes have one scale, so the ellipses have their true shape: a round cluster has circles.

    Parameters
    ----------
    model : fitted DirichletProcessMixture
        With tangent or Euclidean Gaussians; von Mises-Fisher clusters have no axes.
    X : array of shape (n, D)
        Rows; those of other clusters are left out.
    cluster : int, default=0
    labels : int array of shape (n,), optional
        The cluster of each row, e.g. `model.labels_`; by default `model.predict(X)`.
    axes : two ints, default=(0, 1)
        Principal axes to the right and up, the longest being 0.
    names : sequence of length n, optional
        A word for each row. Those of the rows at the ends of both axes are written beside them.
    n_names : int, default=20
        Words to write, a quarter of them at each end.
    max_points : int, default=20_000
        Of more rows than this, this many are drawn, evenly spaced; the rows with names are always drawn.
    ax : matplotlib Axes, optional
        Plain 2-D axes to draw on. By default those of a new figure, `ax.figure`.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from armillary import DirichletProcessMixture
    >>> from armillary.datasets import make_tangent_gaussian_mixture
    >>> X, _, _ = make_tangent_gaussian_mixture(300, 3, 4, spread=0.08, min_angle=0.6, random_state=0)
    >>> model = DirichletProcessMixture(n_burn_in=5, n_draws=10, random_state=0).fit(X)
    >>> ax = plot_tangent_space(model, X, 2)
    >>> ax.get_ylabel()[:16]
    'principal axis 2'
    """
    who = "plot_tangent_space"
    ax = plain_axes(ax, who, 6.8, 6.4)
    _check_model(model, who)
    variances = model.principal_axes()[0]
    cluster = check_integer(cluster, "cluster", who, low=0, high=len(variances) - 1)
    chosen = _check_axes(axes, variances.shape[1], who)
    n_names = check_integer(n_names, "n_names", who, low=0)
    most = check_integer(max_points, "max_points", who, low=1)
    members = _members(model, X, cluster, labels, names, who)
    # angles are read in degrees, other lengths as they are
    is_angle = model.component == "tangent_gaussian"
    unit = np.degrees(1.0) if is_angle else 1.0
    places = np.zeros((0, 2))
    if len(members):
        places = unit * model.tangent_coordinates(np.asarray(X)[members], cluster)[:, chosen]
    deviations = unit * np.sqrt(variances[cluster][chosen])

    _prepare(ax, places, deviations)
    ends = np.array([], dtype=np.intp) if names is None else _ends(places, n_names)
    n_drawn = min(len(places), most)
    drawn = np.union1d(np.arange(n_drawn) * len(places) // max(n_drawn, 1), ends).astype(np.intp)
    _draw_rows(ax, places, drawn, ends, deviations)
    if names is not None:
        _draw_names(ax, places[ends], [str(names[number]) for number in members[ends]])
    mark = "°" if is_angle else ""
    right, up = (
        f"principal axis {number + 1}, standard deviation {deviation:.3g}{mark}"
        for number, deviation in zip(chosen, deviations, strict=True)
    )
    rows = f"{len(members):,} row{'' if len(members) == 1 else 's'}"
    title = f"cluster {cluster}: {rows}, condition number {model.condition_numbers()[cluster]:.1f}"
    quiet(ax, title=title, x=right, y=up)
    return ax


def plot_condition_numbers(model: DirichletProcessMixture, *, ax: Axes | None = None) -> Axes:
    """Draw a histogram of the condition numbers of all clusters: largest over smallest variance, 1 for a round one.

    Few rows in many dimensions look elongated even if they are drawn from a round cluster: n rows in p directions have
    a condition number of about ((1 + r) / (1 - r))^2 with r = sqrt(p / n). The dashed line is the median of that over
    the clusters, as many rows as each has; clusters with no more rows than directions are left out of it.

    Parameters
    ----------
    model : fitted DirichletProcessMixture
        With tangent or Euclidean Gaussians.
    ax : matplotlib Axes, optional
        Plain 2-D axes to draw on. By default those of a new figure, `ax.figure`.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from armillary import DirichletProcessMixture
    >>> from armillary.datasets import make_tangent_gaussian_mixture
    >>> from armillary.plots import plot_condition_numbers
    >>> X, _, _ = make_tangent_gaussian_mixture(200, 3, 3, spread=0.1, min_angle=0.8, random_state=0)
    >>> ax = plot_condition_numbers(DirichletProcessMixture(n_burn_in=2, n_draws=3, random_state=0).fit(X))
    """
    who = "plot_condition_numbers"
    ax = plain_axes(ax, who, 6.8, 4.2)
    _check_model(model, who)
    numbers = model.condition_numbers()
    n_bins = int(np.clip(2.0 * np.sqrt(len(numbers)), 5, 40))
    high = max(float(numbers.max()) * 1.05, 2.0)
    ax.hist(numbers, bins=np.geomspace(1.0, high, n_bins + 1).tolist(), color=PALETTE[0], alpha=0.85, edgecolor="white")
    ax.set_xscale("log")
    ax.set_xlim(1.0, high)
    _name_ticks(ax, high)
    round_ones = round_condition_numbers(np.bincount(model.labels_), model.principal_axes()[0].shape[1])
    median = f"median {np.median(numbers):.1f}"
    if len(round_ones):
        expected = float(np.median(round_ones))
        ax.axvline(min(expected, high), color=PALETTE[1], linewidth=1.6, linestyle=(0, (4, 2)), zorder=3.0)
        median += f"; dashed: {expected:.1f}, of round clusters"
    quiet(ax, title=f"{len(numbers):,} clusters, {median}", x="condition number", y="clusters")
    return ax


def round_condition_numbers(counts: npt.NDArray[np.integer[Any]], n_axes: int) -> Float64Array:
    """Condition numbers that rows of round clusters show, for each count above `n_axes` (Marchenko and Pastur 1967)."""
    ratio = np.sqrt(n_axes / counts[counts > n_axes])
    return np.asarray(((1.0 + ratio) / (1.0 - ratio)) ** 2)


# ------------------------------------------------------------------------------------------------------- input


def _check_model(model: Any, who: str) -> None:
    if not hasattr(model, "principal_axes") or not hasattr(model, "means_"):
        raise InputError(
            f"`model` of {who} must be a fitted DirichletProcessMixture; got {type(model).__name__}"
            f"{' that is not fitted' if hasattr(model, 'principal_axes') else ''}. Fit one first."
        )


def _check_axes(axes: Any, n_axes: int, who: str) -> list[int]:
    rule = f"`axes` of {who} must be two different ints from 0 to {n_axes - 1}; got {axes!r}."
    try:
        chosen = [int(number) for number in axes]
    except (TypeError, ValueError):
        chosen = []
    if len(chosen) != 2 or chosen[0] == chosen[1] or not all(0 <= number < n_axes for number in chosen):
        raise ParameterError(f"{rule} Axis 0 is the longest." if n_axes > 1 else f"{rule} One axis is no plane.")
    return chosen


def _members(model: Any, X: Any, cluster: int, labels: Any, names: Any, who: str) -> npt.NDArray[np.intp]:
    """Numbers of the rows of a cluster."""
    n_rows = as_matrix(X, who, model.n_features_in_).shape[0]
    given = np.asarray(model.predict(X) if labels is None else labels)
    if given.shape != (n_rows,) or given.dtype.kind not in "iu":
        raise InputError(
            f"`labels` of {who} must be ints of shape ({n_rows},), one per row of X; got {given.dtype} of shape "
            f"{given.shape}. Give `model.labels_` or `model.predict(X)`."
        )
    if names is not None and len(names) != n_rows:
        raise InputError(
            f"`names` of {who} must be one per row of X, {n_rows}; got {len(names)}. Give those of all rows, not of "
            "the cluster's."
        )
    return np.flatnonzero(given == cluster)


# ----------------------------------------------------------------------------------------------------- drawing


def _name_ticks(ax: Axes, high: float) -> None:
    """Plain numbers on a logarithmic axis that begins at 1."""
    from matplotlib.ticker import NullLocator

    steps = (1, 2, 5) if high < 2000.0 else (1,)
    ticks = [step * 10.0**power for power in range(16) for step in steps if step * 10.0**power <= high]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.xaxis.set_minor_locator(NullLocator())


def _prepare(ax: Axes, places: Float64Array, deviations: Float64Array) -> None:
    """Limits around all rows and ellipses, equal scales, lines through the mean."""
    reach = _DEVIATIONS[-1] * deviations
    if len(places):
        reach = np.maximum(reach, np.abs(places).max(axis=0))
    box = ax.get_window_extent()
    sides = np.array([box.width, box.height])
    # one scale for both directions that leaves nothing out
    half = _MARGIN * float((reach / sides).max()) * sides
    ax.set_xlim(-half[0], half[0])
    ax.set_ylim(-half[1], half[1])
    ax.set_aspect("equal", adjustable="box")
    for line in (ax.axhline, ax.axvline):
        line(0.0, color=_PALE, linewidth=0.8, zorder=0.5)


def _draw_rows(
    ax: Axes,
    places: Float64Array,
    drawn: npt.NDArray[np.intp],
    ends: npt.NDArray[np.intp],
    deviations: Float64Array,
) -> None:
    from matplotlib.patches import Ellipse

    for multiple in _DEVIATIONS:
        width, height = 2.0 * multiple * deviations
        ax.add_patch(
            Ellipse((0.0, 0.0), width, height, facecolor="none", edgecolor=PALETTE[1], linewidth=1.4, zorder=2.0)
        )
    size = float(np.clip(900.0 / np.sqrt(max(len(drawn), 1)), 4.0, 60.0)) / 4.0
    alpha = 0.35 if len(ends) else 0.6
    ax.scatter(places[drawn, 0], places[drawn, 1], s=size, color=PALETTE[0], alpha=alpha, linewidths=0.0, zorder=1.0)
    if len(ends):
        ax.scatter(places[ends, 0], places[ends, 1], s=14.0, color=PALETTE[0], linewidths=0.0, zorder=3.0)


def _ends(places: Float64Array, n_names: int) -> npt.NDArray[np.intp]:
    """Rows at the two ends of both axes, a quarter of them at each; one that is at two ends is taken once."""
    quarter = -(-n_names // 4)
    orders = [np.argsort(sign * places[:, axis], kind="stable")[:quarter] for axis in (0, 1) for sign in (-1.0, 1.0)]
    return np.array(list(dict.fromkeys(np.stack(orders, axis=1).ravel().tolist()))[:n_names], dtype=np.intp)


def _draw_names(ax: Axes, places: Float64Array, words: list[str]) -> None:
    """Words beside their rows; one that would cover another moves away and gets a line to its row."""
    from matplotlib.patheffects import withStroke

    box = ax.get_window_extent()
    size = np.array([box.width, box.height]) * 72.0 / ax.figure.dpi
    on_paper = ax.transLimits.transform(places) * size
    taken = np.hstack([on_paper - _DOT, on_paper + _DOT])  # the rows themselves are not covered either
    for (x, y), place, word in zip(places.tolist(), on_paper, words, strict=True):
        half = 0.5 * _NAME_SIZE * np.array([_LETTER_WIDTH * len(word) + 0.5, _LINE_HEIGHT])
        middle = _free_place(place, half, taken, size)
        taken = np.vstack([taken, [*(middle - half), *(middle + half)]])
        right, up = (middle - place).tolist()
        arrow = None
        if np.hypot(right / half[0], up / half[1]) > 2.2:
            arrow = {"arrowstyle": "-", "color": _PALE, "linewidth": 0.7, "shrinkA": 0.0, "shrinkB": 1.0}
        text = ax.annotate(
            word,
            (x, y),
            (right, up),
            textcoords="offset points",
            arrowprops=arrow,
            ha="center",
            va="center",
            fontsize=_NAME_SIZE,
            color=INK,
            zorder=5.0,
        )
        text.set_path_effects([withStroke(linewidth=2.0, foreground="white", alpha=0.85)])


def _free_place(place: Float64Array, half: Float64Array, taken: Float64Array, size: Float64Array) -> Float64Array:
    """The nearest middle (2,) of a box that covers no other and stays inside, all in points; else the first tried."""
    turns = 2.0 * np.pi * np.arange(_N_PLACES) / _N_PLACES + 0.5 * np.pi
    ring = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    for step in range(_MOST_RINGS):
        reach = np.array([half[0] + 2.0, half[1] + 2.0]) + 4.0 * step
        for middle in place + reach * ring:
            low, high = middle - half, middle + half
            is_inside = (low >= 0.0).all() and (high <= size).all()
            is_free = (low >= taken[:, 2:]).any(axis=1) | (high <= taken[:, :2]).any(axis=1)
            if is_inside and is_free.all():
                return np.asarray(middle)
    return np.asarray(place + half * [0.0, 1.0])
