"""A stream as a picture: the share of each id over the steps (Straub 2015, Figure 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary._typing import ArrayLike, Float64Array
from armillary.exceptions import InputError
from armillary.plots.sphere import NOISE_COLOR, PALETTE, _need_matplotlib, _new_figure
from armillary.validation import check_integer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK = "#414a59"
_OTHER_COLOR = "#d9dde4"
# Bands at least this tall, at their tallest, have room for their id.
_ROOM_FOR_A_WORD = 0.06


def plot_id_shares(
    ids: Sequence[ArrayLike | Mapping[int, float]], *, most_ids: int = 12, ax: Axes | None = None, table: Any = None
) -> Axes:
    """Draw the share of rows that each id has at every step, as bands one above the other.

    An id keeps its colour, so that a cluster that was away comes back in it. Ids with few rows in all are drawn
    together in light grey, and -1 (missing or rejected rows) in dark grey on top.

    Parameters
    ----------
    ids : sequence of int arrays or of mappings
        The ids of the rows of each step, e.g. `labels_` of a `DDPvMFMeans` after each step; or for each step how much
        of it each id has, e.g. `history` of a `DirectionSegmenter`. Steps may be empty.
    most_ids : int, default=12
        How many ids have a band of their own: those with the largest shares in all.
    ax : matplotlib Axes, optional
        Plain 2-D axes to draw on. By default those of a new figure, `ax.figure`.
    table : array of shape (n, 3), optional
        Colours of ids from 0 to 255, e.g. that of a `DirectionColors`, so that bands look as in the images.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> ax = plot_id_shares([[0, 0, 1], [0, 1, 1], [1, 1, 2]])
    >>> [text.get_text() for text in ax.texts]
    ['0', '1', '2']
    """
    who = "plot_id_shares"
    _need_matplotlib(who)
    if not len(ids):
        raise InputError(f"`ids` of {who} must have at least one step; got none. Give one array of ids for each step.")
    steps = [_amounts(step, number, who) for number, step in enumerate(ids)]
    most_ids = check_integer(most_ids, "most_ids", who, low=1)
    if ax is None:
        ax = _new_figure(8.0, 3.6).add_axes((0.1, 0.15, 0.87, 0.8))
    names, shares = _shares(steps)
    order = np.argsort(-shares.sum(axis=1), kind="stable")
    shown = [index for index in order if names[index] >= 0][:most_ids]
    shown.sort(key=lambda index: names[index])
    others = shares[[index for index in order if names[index] >= 0 and index not in shown]].sum(axis=0)
    missing = shares[names < 0].sum(axis=0)
    bands = np.vstack([shares[shown], others[None], missing[None]])
    colors = [_color(int(names[index]), table) for index in shown] + [_OTHER_COLOR, NOISE_COLOR]
    words = [str(names[index]) for index in shown] + ["others", ""]
    _draw_bands(ax, bands, colors, words)
    return ax


def _color(number: int, table: Any) -> str:
    if table is None or number >= len(table):
        return PALETTE[number % len(PALETTE)]
    red, green, blue = (int(part) for part in table[number])
    return f"#{red:02x}{green:02x}{blue:02x}"


def _amounts(step: ArrayLike | Mapping[int, float], number: int, who: str) -> dict[int, float]:
    """How much of a step each id has."""
    if isinstance(step, Mapping):
        return dict(step)
    rows = np.asarray(step)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise InputError(
            f"`ids` of {who} must hold one 1-D array of integers for each step; step {number} has shape "
            f"{rows.shape} and dtype {rows.dtype}. Give `labels_` of each step."
        )
    found, counts = np.unique(rows.astype(np.int64), return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def _shares(steps: list[dict[int, float]]) -> tuple[np.ndarray, Float64Array]:
    """The ids in all (K,), and the share of each at every step (K, n_steps)."""
    names = np.array(sorted(set().union(*steps)), dtype=np.int64)
    shares = np.zeros((len(names), len(steps)))
    for number, step in enumerate(steps):
        total = sum(step.values())
        for name, amount in step.items():
            shares[np.searchsorted(names, name), number] = amount / total if total else 0.0
    return names, shares


def _draw_bands(ax: Axes, bands: Float64Array, colors: list[str], words: list[str]) -> None:
    tops = np.cumsum(bands, axis=0)
    bottoms = tops - bands
    n_steps = bands.shape[1]
    edges = np.arange(n_steps + 1) - 0.5
    for band, color, word in zip(range(len(bands)), colors, words, strict=True):
        if not bands[band].any():
            continue
        low, high = (np.append(values, values[-1]) for values in (bottoms[band], tops[band]))
        ax.fill_between(edges, low, high, step="post", color=color, linewidth=0)
        tallest = int(np.argmax(bands[band]))
        if word and bands[band, tallest] >= _ROOM_FOR_A_WORD:
            middle = 0.5 * (bottoms[band, tallest] + tops[band, tallest])
            box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
            ax.text(tallest, middle, word, ha="center", va="center", color=_INK, fontsize=8, bbox=box)
    ax.set_xlim(-0.5, n_steps - 0.5)
    ax.set_ylim(0.0, 1.0)
    ax.set_yticks([0.0, 0.25, 0.5, 0.75, 1.0], ["0", "25", "50", "75", "100 %"])
    ax.set_xlabel("step", color=_INK)
    ax.set_ylabel("share of rows", color=_INK)
    ax.tick_params(colors=_INK)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
