"""A tree of directions as a picture, with the top words or the nearest rows of each node (Gopal and Yang 2014, 8)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from armillary._typing import ArrayLike
from armillary.exceptions import InputError, ParameterError
from armillary.plots.sphere import PALETTE, _need_matplotlib, _new_figure
from armillary.validation import check_integer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK = "#414a59"
_PALE_INK = "#8a93a3"
# Inches of the page: positions in the picture are inches, so that text fits whatever the tree.
_ROW = 0.3
_COLUMN = 2.0
_MARGIN = 0.35
_NUMBERS = 1.05
_LETTER = 0.068
_INNER_LETTERS = 22
_MOST_LETTERS = 60


def plot_tree(
    model: Any,
    *,
    feature_names: ArrayLike | None = None,
    X: Any = None,
    texts: Sequence[str] | None = None,
    n: int = 4,
    beside_parent: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw the tree of a fitted `HierarchicalVonMisesFisherMixture`, from its top on the left to its leaves.

    Each node has words: those of the largest entries of its direction, or, where `X` and `texts` are given, the texts
    of the rows of X nearest to it. Leaves also have their share of the rows and their concentration; branches are as
    wide as their share, and have the colour of the branch of the tree they belong to.

    Parameters
    ----------
    model : HierarchicalVonMisesFisherMixture
        After `fit`.
    feature_names : array of shape (D,), optional
        Words for the columns; by default the names that X had in the fit, else column numbers.
    X, texts : rows of shape (n, D), and n strings, optional
        Together: show nearest rows by their texts, which are cut to fit.
    n : int, default=4
        Words of each node. Of nearest rows, leaves and inner nodes show the first alone.
    beside_parent : bool, default=False
        Words that set a node apart from its parent, see `top_features`.
    ax : matplotlib Axes, optional
        Plain 2-D axes to draw on. By default those of a new figure that is as large as the tree needs, `ax.figure`.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from armillary import HierarchicalVonMisesFisherMixture
    >>> from armillary.datasets import make_vmf_tree
    >>> X, _, _ = make_vmf_tree(200, 5, 1, 2, random_state=0)
    >>> model = HierarchicalVonMisesFisherMixture(1, 2, random_state=0).fit(X)
    >>> ax = plot_tree(model, feature_names=["ant", "bee", "cat", "dog", "elk"], n=2)
    """
    who = "plot_tree"
    _need_matplotlib(who)
    if not hasattr(model, "tree_") or not hasattr(model, "top_features"):
        raise ParameterError(
            f"`model` of {who} must be a fitted HierarchicalVonMisesFisherMixture; got {type(model).__name__}. "
            "Fit it first."
        )
    n = check_integer(n, "n", who, low=1)
    nodes = model.tree_
    words = _words(model, feature_names, X, texts, n, beside_parent, who)
    n_columns = max(node.level for node in nodes)
    has_point_root = sum(node.parent is None for node in nodes) > 1
    longest = max(len(words[node.number]) for node in nodes if node.is_leaf)
    places = _places(nodes, n_columns, has_point_root)
    width = max(x for x, _ in places) + _NUMBERS + _LETTER * longest + _MARGIN
    height = max(y for _, y in places) + 2.0 * _MARGIN
    if ax is None:
        ax = _new_figure(width, height).add_axes((0.0, 0.0, 1.0, 1.0))
    ax.set_xlim(0.0, width)
    ax.set_ylim(height, 0.0)  # the first leaf on top
    ax.axis("off")
    colors = _branch_colors(nodes, has_point_root)
    _draw_branches(ax, nodes, places, colors, has_point_root)
    for node, (x, y), color in zip(nodes, places, colors, strict=True):
        (_draw_leaf if node.is_leaf else _draw_inner)(ax, x, y, words[node.number], node, color)
    return ax


def _words(
    model: Any,
    feature_names: ArrayLike | None,
    X: Any,
    texts: Sequence[str] | None,
    n: int,
    beside_parent: bool,
    who: str,
) -> list[str]:
    """What is written at each node."""
    if (X is None) != (texts is None):
        given = "X" if texts is None else "texts"
        raise InputError(
            f"`X` and `texts` of {who} must be given together; got `{given}` alone. Give the rows and one text for "
            "each, or feature_names."
        )
    if texts is None:
        n = min(n, model.n_features_in_)
        top = model.top_features(n, feature_names, beside_parent=beside_parent)
        return [", ".join(str(word) for word in row) for row in top]
    nearest = model.nearest_rows(X, 1)[:, 0]
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if len(texts) != n_rows:
        raise InputError(
            f"`texts` of {who} must have one text for each row of X, {n_rows}; got {len(texts)}. Give them in the "
            "order of the rows."
        )
    return [textwrap.shorten(str(texts[row]), _MOST_LETTERS, placeholder=" …") for row in nearest]


def _places(nodes: Sequence[Any], n_columns: int, has_point_root: bool) -> list[tuple[float, float]]:
    """x and y of each node in inches: leaves in one column, one below the other; others before their children."""
    rows: dict[int, float] = {}
    n_leaves = 0

    def place(node: Any) -> float:
        nonlocal n_leaves
        if node.is_leaf:
            rows[node.number] = float(n_leaves)
            n_leaves += 1
        else:
            below = [place(nodes[child]) for child in node.children]
            rows[node.number] = 0.5 * (below[0] + below[-1])
        return rows[node.number]

    for node in nodes:
        if node.parent is None:
            place(node)
    first = _MARGIN + (0.5 * _COLUMN if has_point_root else 0.0) + (0.5 * _COLUMN if n_columns else 0.0)
    return [
        (first + _COLUMN * (n_columns if node.is_leaf else node.level), _MARGIN + _ROW * (0.5 + rows[node.number]))
        for node in nodes
    ]


def _branch_colors(nodes: Sequence[Any], has_point_root: bool) -> list[str]:
    """One colour for each branch below the root, which is grey."""
    depth = 0 if has_point_root else 1
    names = sorted({node.path[depth] for node in nodes if len(node.path) > depth})
    palette = {name: PALETTE[number % len(PALETTE)] for number, name in enumerate(names)}
    return [palette[node.path[depth]] if len(node.path) > depth else _PALE_INK for node in nodes]


def _draw_branches(
    ax: Axes, nodes: Sequence[Any], places: list[tuple[float, float]], colors: list[str], has_point_root: bool
) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    tops = [places[node.number] for node in nodes if node.parent is None]
    root = (_MARGIN, 0.5 * (tops[0][1] + tops[-1][1]))
    for node, (x, y), color in zip(nodes, places, colors, strict=True):
        if node.parent is None and not has_point_root:
            continue
        from_x, from_y = root if node.parent is None else places[node.parent]
        middle = 0.5 * (from_x + x)
        path = Path([(from_x, from_y), (middle, from_y), (middle, y), (x, y)], [Path.MOVETO, *[Path.CURVE4] * 3])
        ax.add_patch(
            PathPatch(path, facecolor="none", edgecolor=color, linewidth=0.8 + 8.0 * node.weight, alpha=0.55, zorder=1)
        )


def _draw_inner(ax: Axes, x: float, y: float, words: str, node: Any, color: str) -> None:
    lines = "\n".join(textwrap.wrap(words, _INNER_LETTERS)[:3])
    box = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": color, "linewidth": 1.2}
    said = f"{lines}\n{100.0 * node.weight:.0f} %  κ {_number(node.concentration)}"
    ax.text(x, y, said, ha="center", va="center", fontsize=7.5, color=_INK, bbox=box, zorder=3)


def _draw_leaf(ax: Axes, x: float, y: float, words: str, node: Any, color: str) -> None:
    ax.plot([x], [y], marker="o", markersize=4.5, color=color, zorder=3)
    small: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": 6.5, "color": _PALE_INK, "zorder": 3}
    ax.text(x + 0.45, y, f"{100.0 * node.weight:.1f} %", **small)
    ax.text(x + _NUMBERS - 0.05, y, f"κ {_number(node.concentration)}", **small)
    ax.text(x + _NUMBERS, y, words, ha="left", va="center", fontsize=8, color=_INK, zorder=3)


def _number(value: float) -> str:
    """Three digits, without powers of ten where there is room."""
    return f"{value:,.0f}" if 100.0 <= value < 1e6 else f"{value:.3g}"
