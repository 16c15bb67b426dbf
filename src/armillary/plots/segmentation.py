"""Segmented frames as a picture: depth, normals as colours and labels, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary.exceptions import InputError
from armillary.plots.sphere import _need_matplotlib, _new_figure
from armillary.validation import check_integer
from armillary.vision.coloring import Colors, color_depth, color_labels, color_normals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INK = "#414a59"
_CELL = 1.9  # inches, the width of a frame
_MARGIN = 0.55  # inches, for the names of the rows


def plot_segmentation(
    labels: Sequence[Any],
    *,
    depths: Sequence[Any] | None = None,
    normals: Sequence[Any] | None = None,
    titles: Sequence[str] | None = None,
    most_frames: int = 8,
    table: Any = None,
) -> Figure:
    """Draw frames side by side: their depth and normals where given, and their labels.

    An id has the same colour in every frame; black is missing.

    Parameters
    ----------
    labels : sequence of (H, W) int arrays
        What `segment` or a `DirectionSegmenter` found in each frame; -1 is missing.
    depths : sequence of (H, W) arrays, optional
        Drawn as greys, near is light.
    normals : sequence of (H, W, 3) arrays, optional
        Drawn as colours: x, y and z are red, green and blue.
    titles : sequence of str, optional
        A word above each frame; by default its number where there are several.
    most_frames : int, default=8
        Of more frames this many are drawn, evenly spaced from the first to the last.

    table : array of shape (n, 3), optional
        Colours of ids, as in `color_labels`.

    Returns
    -------
    figure : matplotlib Figure
        It belongs to no window; `figure.savefig(path)` writes it.

    Examples
    --------
    >>> figure = plot_segmentation([[[0, 0, 1], [0, -1, 1]]])
    >>> len(figure.axes)
    1
    """
    who = "plot_segmentation"
    _need_matplotlib(who)
    frames: Any = labels
    n_frames = len(frames) if isinstance(frames, Sequence) or np.ndim(frames) > 0 else 0
    if n_frames == 0:
        came = "none" if isinstance(frames, Sequence | np.ndarray) else type(frames).__name__
        raise InputError(f"`labels` of {who} must have at least one frame; got {came}. Give a list of label images.")
    for name, values in (("depths", depths), ("normals", normals), ("titles", titles)):
        if values is not None and len(values) != n_frames:
            raise InputError(
                f"`{name}` of {who} must have one entry for each of the {n_frames} frames of `labels`; got "
                f"{len(values)}."
            )
    n_shown = min(n_frames, check_integer(most_frames, "most_frames", who, low=1))
    shown = np.linspace(0, n_frames - 1, n_shown).round().astype(int).tolist()
    rows: dict[str, list[Colors]] = {}
    if depths is not None:
        rows["depth"] = [color_depth(depths[number]) for number in shown]
    if normals is not None:
        rows["normals"] = [color_normals(normals[number]) for number in shown]
    rows["labels"] = [color_labels(labels[number], table) for number in shown]
    words = [str(number) if n_frames > 1 else "" for number in shown]
    return _drawn(rows, words if titles is None else [titles[number] for number in shown])


def _drawn(rows: dict[str, list[Colors]], titles: list[str]) -> Figure:
    height, width = rows["labels"][0].shape[:2]
    n_columns = len(titles)
    cell = _CELL if n_columns > 1 else 2.0 * _CELL
    figure = _new_figure(n_columns * cell + _MARGIN, len(rows) * cell * height / width + _MARGIN)
    figure.set_layout_engine("constrained", w_pad=0.02, h_pad=0.02, wspace=0.0, hspace=0.0)
    grid = figure.subplots(len(rows), n_columns, squeeze=False)
    for axes, (name, pictures) in zip(grid, rows.items(), strict=True):
        for ax, picture in zip(axes, pictures, strict=True):
            ax.imshow(picture, interpolation="nearest")
            ax.set(xticks=[], yticks=[])
            for side in ax.spines.values():
                side.set_visible(False)
        axes[0].set_ylabel(name, color=_INK, fontsize=9)
    for ax, title in zip(grid[0], titles, strict=True):
        ax.set_title(title, color=_INK, fontsize=9)
    return figure
