"""Clustered unit vectors in three dimensions, drawn on the sphere. The home of matplotlib.

`plot_sphere` is a globe seen from far away (orthographic projection); its far side is dimmed or hidden.
`plot_sphere_views` is two hemispheres side by side in Lambert's equal-area projection: everything at once, and equal
areas of the sphere are equal areas of paper, so densities can be compared.

Axes come in and go out; pyplot is not used, so no figure is kept anywhere. Points are projected here and not by
matplotlib's 3-D axes, which sort whole artists by depth, and not the points in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from armillary._typing import ArrayLike, Float64Array
from armillary.exceptions import InputError, MissingExtraError, ParameterError
from armillary.palette import MORE_COLORS, color_bytes
from armillary.palette import PALETTE as PALETTE
from armillary.validation import as_matrix, check_choice, check_integer, check_number, safe_factors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NOISE_COLOR = "#a8a8a8"
UNLABELLED_COLOR = "#41618c"

_LIGHT, _SHADE = "#fefefe", "#b4bdcc"  # of the globe
_PAPER = "#f3f5f8"  # of the hemispheres
_LINE, _RIM, _INK = "#76839a", "#8a95a8", "#414a59"
_TOWARDS_LIGHT = (-0.45, 0.55, 0.70)  # right, up, towards the viewer
_FADE = 0.8  # how far the far side's colours go towards the globe's
_COLOR_SWEEPS = 8
_MOST_VECTOR_POINTS = 5_000  # beyond, a PDF holds points as a picture: thousands of vector dots stall viewers

# (n, 3) in the picture's frame to (n, 2) on paper, the near hemisphere inside the unit disc
Projection: TypeAlias = Callable[[Float64Array], Float64Array]


def plot_sphere(
    X: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    centers: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
    view_from: Sequence[float] = (1.0, 0.7, 0.6),
    has_axes: bool = True,
    far_side: str = "dimmed",
    point_size: float | None = None,
    max_points: int = 100_000,
) -> Axes:
    """Draw unit vectors on a globe, coloured by cluster.

    Parameters
    ----------
    X : (N, 3) array
        Rows are scaled to norm 1.
    labels : (N,) array of int, optional
        The cluster of each row; -1 is noise and grey. Up to 24 clusters have a colour each; of more, those that share a
        colour are far apart.
    centers : (K, 3) array, optional
        The direction of each cluster, marked by a ring; row k belongs to label k.
    names : sequence of K strings, optional
        Written beside the centers; an empty one is left out.
    ax : matplotlib Axes, optional
        Plain 2-D axes to draw on. By default those of a new figure, `ax.figure`.
    view_from : three numbers
        The direction from the middle of the sphere to the viewer. The third axis of the data points up.
    has_axes : bool, default=True
        Whether to draw the axes of the data: not where they mean nothing, as in a projection.
    far_side : {"dimmed", "hidden"}
    point_size : float, optional
        Area of a point in square points. By default it follows from the number of rows and the size of the axes.
    max_points : int
        Of more rows than this, this many are drawn, evenly spaced in the order given, and a note says so.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> ax = plot_sphere([[1, 0, 0], [0, 1, 0], [0, 0, 1]], labels=[0, 1, -1])
    >>> ax.figure.savefig("sphere.png")  # doctest: +SKIP
    """
    who = "plot_sphere"
    _need_matplotlib(who)
    scene = _scene(X, labels, centers, names, point_size, max_points, who)
    frame = _frame(view_from, who)
    check_choice(far_side, "far_side", who, ("dimmed", "hidden"))
    if ax is None:
        ax = _new_figure(6.4, 6.4).add_axes((0.0, 0.0, 1.0, 1.0))
    elif getattr(ax, "name", None) != "rectilinear":
        raise ParameterError(
            f"`ax` of {who} must be plain 2-D axes, since the sphere is projected here; got {type(ax).__name__}. "
            "Make them with figure.add_subplot(), without `projection`."
        )
    _prepare(ax, width=2.5, height=2.5)
    _draw_globe(ax)
    if far_side == "dimmed":
        _draw_half(ax, scene, frame, _orthographic, is_near=False)
    _draw_half(ax, scene, frame, _orthographic)
    if has_axes:
        _draw_axes(ax, frame)
    _draw_note(ax, scene.note)
    return ax


def plot_sphere_views(
    X: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    centers: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    view_from: Sequence[float] = (1.0, 0.7, 0.6),
    has_axes: bool = True,
    point_size: float | None = None,
    max_points: int = 100_000,
) -> Figure:
    """Draw unit vectors on two hemispheres side by side, coloured by cluster.

    The left one is seen from `view_from` and the right one from the opposite side, both from outside, so that the
    right edge of one goes on at the left edge of the other. Equal areas of the sphere are equal areas of paper.

    Parameters
    ----------
    X, labels, centers, names, view_from, has_axes, point_size, max_points
        As for `plot_sphere`.

    Returns
    -------
    figure : matplotlib Figure
        It belongs to no window; `figure.savefig(path)` writes it.

    Examples
    --------
    >>> from armillary.datasets import make_vmf_mixture
    >>> from armillary.plots import plot_sphere_views
    >>> X, labels, _ = make_vmf_mixture(200, 3, 4, random_state=0)
    >>> figure = plot_sphere_views(X, labels)
    """
    who = "plot_sphere_views"
    _need_matplotlib(who)
    scene = _scene(X, labels, centers, names, point_size, max_points, who)
    frame = _frame(view_from, who)
    figure = _new_figure(11.0, 5.75)
    ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    _prepare(ax, width=4.4, height=2.3)
    # half a turn about the picture's upward axis shows the back from outside
    for view, middle in ((frame, -1.02), (frame * [[-1.0], [1.0], [-1.0]], 1.02)):
        _draw_paper(ax, middle)
        _draw_half(ax, scene, view, _lambert, middle=middle)
        if has_axes:
            _draw_poles(ax, view, middle)
    _draw_note(ax, scene.note)
    return figure


# ----------------------------------------------------------------------------------------------------- the scene


@dataclass(frozen=True, slots=True)
class _Scene:
    """Checked input: unit vectors with a colour each."""

    points: Float64Array  # (n, 3)
    colors: Float64Array  # (n, 3), red, green and blue in [0, 1]
    is_noise: npt.NDArray[np.bool_]  # (n,)
    centers: Float64Array  # (K, 3), or (0, 3) where none were given
    center_colors: Float64Array  # (K, 3)
    names: list[str]  # of the centers, or none
    point_size: float | None
    note: str


def _scene(
    X: ArrayLike,
    labels: ArrayLike | None,
    centers: ArrayLike | None,
    names: Sequence[str] | None,
    point_size: float | None,
    max_points: int,
    who: str,
) -> _Scene:
    points = _directions(X, "X", who)
    directions = np.empty((0, 3)) if centers is None else _directions(centers, "centers", who)
    if names is not None and len(names) != len(directions):
        raise InputError(
            f"`names` of {who} must have one for each of {len(directions)} centers; got {len(names)}. "
            "Give them in the order of the centers."
        )
    n_rows = len(points)
    n_drawn = min(n_rows, check_integer(max_points, "max_points", who, low=1))
    drawn = np.arange(n_drawn) * n_rows // n_drawn
    if labels is None:
        colors = np.broadcast_to(_rgb(UNLABELLED_COLOR), points.shape)
        is_noise = np.zeros(n_rows, dtype=np.bool_)
        palette = cluster_colors(directions)
    else:
        ranks = _ranks(labels, n_rows, None if centers is None else len(directions), who)
        anchors = _resultants(points, ranks) if centers is None else directions
        palette = cluster_colors(anchors)
        is_noise = ranks < 0
        colors = np.vstack([palette, _rgb(NOISE_COLOR)])[ranks]  # rank -1 is the last row
    return _Scene(
        points=points[drawn],
        colors=colors[drawn],
        is_noise=is_noise[drawn],
        centers=directions,
        center_colors=palette[: len(directions)],
        names=[] if names is None else [str(name) for name in names],
        point_size=None if point_size is None else check_number(point_size, "point_size", who, low=0.0),
        note="" if n_drawn == n_rows else f"{n_drawn:,} of {n_rows:,} rows drawn, evenly spaced",
    )


def _directions(rows: Any, name: str, who: str) -> Float64Array:
    """Unit rows, (n, 3)."""
    if np.ndim(rows) != 2 or np.shape(rows)[1] != 3:
        raise InputError(
            f"`{name}` of {who} must have shape (n, 3), one vector in space per row; got shape {np.shape(rows)}. "
            "Project to three dimensions first, or choose three columns."
        )
    matrix = as_matrix(rows, who)
    vectors = np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray(), dtype=np.float64)
    largest = np.abs(vectors).max(axis=1)
    bad = np.flatnonzero(~(np.isfinite(largest) & (largest > 0.0)))
    if bad.size:
        raise InputError(
            f"Row {bad[0]} of `{name}` of {who} must have a direction; got {vectors[bad[0]]}. "
            "Drop such rows before plotting."
        )
    scaled = vectors * safe_factors(largest)[:, None]  # squares of 1e200 and of 1e-200 are no numbers
    unit: Float64Array = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
    return unit


def _ranks(labels: ArrayLike, n_rows: int, n_centers: int | None, who: str) -> npt.NDArray[np.intp]:
    """Labels as 0, 1, 2, ... and -1 for noise: row numbers of `centers`, or ranks among the labels present."""
    values = np.asarray(labels)
    if values.shape != (n_rows,) or values.dtype.kind not in "iu":
        raise InputError(
            f"`labels` of {who} must be ints of shape ({n_rows},), one per row of X; got {values.dtype} of shape "
            f"{values.shape}. Give `model.labels_` or `model.predict(X)`."
        )
    present = np.unique(values)
    if present[0] < -1:
        raise InputError(f"`labels` of {who} must be -1 (noise) or more; got {present[0]}. Give noise the label -1.")
    if n_centers is None:
        present = present[present >= 0]
        return np.where(values < 0, -1, np.searchsorted(present, values))
    if present[-1] >= n_centers:
        raise InputError(
            f"`labels` of {who} must be less than {n_centers}, the number of centers; got {present[-1]}. "
            "Give one center per label, or none."
        )
    return values.astype(np.intp)


def _resultants(points: Float64Array, ranks: npt.NDArray[np.intp]) -> Float64Array:
    """Sums of the rows of each cluster, (K, 3), scaled to norm 1; where rows cancel, any direction will do."""
    is_member = ranks >= 0
    sums = np.stack([np.bincount(ranks[is_member], column) for column in points[is_member].T], axis=1)
    norms: Float64Array = np.linalg.norm(sums, axis=1, keepdims=True)
    return sums / np.maximum(norms, 1e-300)


def cluster_colors(directions: Float64Array) -> Float64Array:
    """A colour for each of K clusters at these directions (K, 3): red, green and blue in [0, 1], shape (K, 3).

    Up to twelve clusters cluster k has colour k of `PALETTE`, up to 24 of `MORE_COLORS` too. Beyond that colours
    repeat, and the clusters in turn, a few times over, take the colour whose nearest other bearer is farthest away.
    """
    palette = np.array([_rgb(color) for color in (*PALETTE, *MORE_COLORS)])
    chosen = np.arange(len(directions)) % len(palette)
    if len(directions) > len(palette):
        cosines = directions @ directions.T
        np.fill_diagonal(cosines, -2.0)  # a cluster is no neighbour of itself
        for _ in range(_COLOR_SWEEPS):
            for k, row in enumerate(cosines):
                nearest = np.full(len(palette), -2.0)
                np.maximum.at(nearest, chosen, row)
                chosen[k] = nearest.argmin()
    return palette[chosen]


# --------------------------------------------------------------------------------------------------- projections


def _frame(view_from: Sequence[float], who: str) -> Float64Array:
    """Rows are the picture's axes in the data's coordinates, (3, 3): right, up, towards the viewer."""
    try:
        towards = np.asarray(view_from, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        towards = np.empty(0)
    if towards.shape != (3,) or not np.isfinite(towards).all() or not towards.any():
        raise ParameterError(
            f"`view_from` of {who} must be three finite numbers that are not all 0; got {view_from!r}. "
            "It points from the middle of the sphere to the viewer, e.g. (0, 0, 1) for a view from above."
        )
    towards = towards / np.abs(towards).max()  # whose squares are numbers, whatever its length
    towards /= np.linalg.norm(towards)
    # seen from above or below, "up" is the second axis of the data instead of the third
    up = np.array([0.0, 1.0, 0.0] if abs(towards[2]) > 0.999 else [0.0, 0.0, 1.0])
    right = np.cross(up, towards)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(towards, right), towards])


def _orthographic(seen: Float64Array) -> Float64Array:
    return seen[:, :2]


def _lambert(seen: Float64Array) -> Float64Array:
    """Lambert's azimuthal equal-area projection, scaled so that a hemisphere fills the unit disc."""
    return seen[:, :2] / np.sqrt(1.0 + seen[:, 2:])


# ------------------------------------------------------------------------------------------------------- drawing


def _need_matplotlib(who: str) -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError.of(who, "matplotlib", "plots") from error


def _rgb(color: str) -> Float64Array:
    """Red, green and blue in [0, 1] of "#rrggbb"."""
    return np.array(color_bytes(color)) / 255.0


def _new_figure(width: float, height: float) -> Figure:
    from armillary.plots.picture import Picture

    return Picture(figsize=(width, height), dpi=150, facecolor="white")


def _prepare(ax: Axes, *, width: float, height: float) -> None:
    """Bare axes of equal scale around the origin."""
    ax.set_axis_off()
    ax.set_aspect("equal", adjustable="box")
    ax.set_xlim(-width / 2, width / 2)
    ax.set_ylim(-height / 2, height / 2)


def _globe_color(xy: Float64Array) -> Float64Array:
    """The colour of the empty globe at places (..., 2) of the unit disc: a ball in soft light."""
    z = np.sqrt(np.clip(1.0 - np.square(xy).sum(axis=-1, keepdims=True), 0.0, None))
    towards_light = np.array(_TOWARDS_LIGHT) / np.linalg.norm(_TOWARDS_LIGHT)
    # from 0 where the surface looks away from the light to 1 where it faces it, without the hard edge of a shadow
    facing = np.concatenate([xy, z], axis=-1) @ towards_light
    brightness: Float64Array = np.clip(0.5 + 0.5 * facing[..., None], 0.0, 1.0) ** 1.5
    return _rgb(_SHADE) + brightness * (_rgb(_LIGHT) - _rgb(_SHADE))


def _draw_globe(ax: Axes) -> None:
    from matplotlib.patches import Circle

    places = np.stack(np.meshgrid(*2 * [np.linspace(-1.0, 1.0, 301)]), axis=-1)
    image = ax.imshow(
        _globe_color(places),
        extent=(-1, 1, -1, 1),
        origin="lower",
        interpolation="bilinear",
        aspect="equal",
        zorder=0.0,
    )
    rim = Circle((0.0, 0.0), 1.0, facecolor="none", edgecolor=_RIM, linewidth=0.8, zorder=0.5)
    ax.add_patch(rim)
    image.set_clip_path(rim)


def _draw_paper(ax: Axes, middle: float) -> None:
    from matplotlib.patches import Circle

    ax.add_patch(Circle((middle, 0.0), 1.0, facecolor=_PAPER, edgecolor=_RIM, linewidth=0.8, zorder=0.0))


def _draw_half(
    ax: Axes, scene: _Scene, frame: Float64Array, project: Projection, *, middle: float = 0.0, is_near: bool = True
) -> None:
    """The graticule, points and centers of the near hemisphere, or of the far one with faded colours."""
    from matplotlib.collections import LineCollection

    layer = 4.0 if is_near else 1.0

    def scatter(seen: Float64Array, colors: Float64Array, sizes: Any, **options: Any) -> None:
        if not len(seen):
            return
        places = project(seen)
        if not is_near:
            colors = colors + _FADE * (_globe_color(places) - colors)
        ax.scatter(places[:, 0] + middle, places[:, 1], s=sizes, c=colors, linewidths=0.0, snap=False, **options)

    # ends of short segments (m, 2, 3); those that cross the rim are left out
    ends = _graticule() @ frame.T
    ends = ends[((ends[..., 2] >= 0.0) == is_near).all(axis=1)]
    segments = project(ends.reshape(-1, 3)).reshape(-1, 2, 2) + np.array([middle, 0.0])
    ax.add_collection(
        LineCollection(list(segments), colors=_LINE, linewidths=0.5, alpha=0.5 if is_near else 0.2, zorder=layer)
    )

    seen = scene.points @ frame.T
    here = np.flatnonzero((seen[:, 2] >= 0.0) == is_near)
    # noise lies below; the rest from far to near, which mixes clusters fairly where they overlap
    here = here[np.lexsort((seen[here, 2], ~scene.is_noise[here]))]
    size = _point_size(ax, len(scene.points)) if scene.point_size is None else scene.point_size
    sizes = size * np.where(scene.is_noise[here], 0.6, 1.0) * (1.0 if is_near else 0.7)
    rasterized = len(here) > _MOST_VECTOR_POINTS
    scatter(seen[here], scene.colors[here], sizes, zorder=layer + 1.0, rasterized=rasterized)

    seen = scene.centers @ frame.T
    here = np.flatnonzero((seen[:, 2] >= 0.0) == is_near)
    size = (0.03 * _diameter(ax)) ** 2
    for share, colors in ((1.0, _rgb(_INK)), (0.8, np.ones(3)), (0.4, scene.center_colors)):
        rings = np.broadcast_to(colors, scene.centers.shape)[here]
        scatter(seen[here], rings, share * size, zorder=layer + 2.0)
    if is_near and scene.names:
        for (x, y), center in zip(project(seen[here]), here, strict=True):
            if scene.names[center]:
                _write(ax, x + middle, y + 0.055, scene.names[center], style="normal", weight="bold", halo=4.0)


def _graticule() -> Float64Array:
    """Meridians and parallels as the ends of short segments, (m, 2, 3)."""

    def curves(longitude: Float64Array, latitude: Float64Array) -> Float64Array:
        longitude, latitude = np.broadcast_arrays(longitude, latitude)
        x, y = np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude)
        return np.stack([x, y, np.sin(latitude)], axis=-1)

    meridians = curves(np.arange(12)[:, None] * np.radians(30.0), np.radians(np.linspace(-90.0, 90.0, 91)))
    parallels = curves(np.radians(np.linspace(0.0, 360.0, 181)), np.arange(-2, 3)[:, None] * np.radians(30.0))
    both = [np.stack([lines[:, :-1], lines[:, 1:]], axis=2).reshape(-1, 2, 3) for lines in (meridians, parallels)]
    return np.concatenate(both)


def _diameter(ax: Axes) -> float:
    """Of the sphere on paper, in points."""
    box = ax.get_window_extent()
    pixels_per_unit = min(box.width / np.ptp(ax.get_xlim()), box.height / np.ptp(ax.get_ylim()))
    return float(2.0 * pixels_per_unit * 72.0 / ax.figure.dpi)


def _point_size(ax: Axes, n_points: int) -> float:
    """Area in square points: a hundred points are dots, a hundred thousand are dust that still shows density."""
    return float(np.clip(0.0024 * _diameter(ax) ** 2 / np.sqrt(n_points), 0.25, 40.0))


def _draw_axes(ax: Axes, frame: Float64Array) -> None:
    """The positive axes of the data, where they come out of the globe."""
    for name, tip in zip("xyz", frame.T, strict=True):
        along = tip[:2]
        if tip[2] >= 0.0 or np.hypot(*along) > 0.9:  # the globe hides the others
            ax.plot(*np.outer(along, [1.0, 1.2]), color=_INK, linewidth=1.0, solid_capstyle="round", zorder=7.0)
            x, y = 1.2 * along + 0.055 * along / max(np.hypot(*along), 1e-9)
            _write(ax, x, y, name)


def _draw_poles(ax: Axes, frame: Float64Array, middle: float) -> None:
    """The six ends of the data's axes, as far as they are on this hemisphere."""
    for sign, prefix in ((1.0, ""), (-1.0, "\N{MINUS SIGN}")):
        for name, end in zip("xyz", sign * frame.T, strict=True):
            if end[2] >= 0.0:
                x, y = _lambert(end[None])[0]
                ax.plot(x + middle, y, marker="+", markersize=6.0, color=_INK, markeredgewidth=0.8, zorder=7.0)
                _write(ax, x + middle + 0.05, y + 0.05, prefix + name)


def _write(
    ax: Axes, x: float, y: float, word: str, *, style: str = "italic", weight: str = "normal", halo: float = 2.5
) -> None:
    from matplotlib.patheffects import withStroke

    size = float(np.clip(0.027 * _diameter(ax), 6.0, 12.0))
    text = ax.text(x, y, word, color=_INK, fontsize=size, style=style, weight=weight, ha="center", va="center")
    text.set_zorder(7.0)
    text.set_path_effects([withStroke(linewidth=halo, foreground="white", alpha=0.8)])  # readable on top of points


def _draw_note(ax: Axes, note: str) -> None:
    if note:
        ax.text(0.5, 0.012, note, transform=ax.transAxes, color=_INK, fontsize=8, ha="center", va="bottom")
