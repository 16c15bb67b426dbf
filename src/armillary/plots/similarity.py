"""How near clusters lie to each other: angles between their directions, as a matrix in an order that groups them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary._typing import ArrayLike, Float64Array, IntArray
from armillary.exceptions import InputError
from armillary.plots.paper import INK, plain_axes, quiet
from armillary.validation import as_matrix, check_flag, unit_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Up to this many clusters have their angle written in each cell, and up to the other have their names at the side.
_MOST_WORDS = 14
_MOST_NAMES = 60
# Beyond, the order of leaves that puts neighbours side by side takes seconds; the plain order of the tree is taken.
_MOST_ORDERED = 300


def plot_similarity(
    directions: ArrayLike,
    *,
    names: Sequence[Any] | None = None,
    is_ordered: bool = True,
    has_tree: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw the angles between the directions of clusters, in degrees; dark is near.

    Parameters
    ----------
    directions : (K, D) array
        E.g. `model.cluster_centers_` or `model.means_`. Rows are scaled to norm 1.
    names : sequence of length K, optional
        Names of the clusters; by default their numbers.
    is_ordered : bool, default=True
        Put clusters that are near each other side by side, see `similarity_order`.
    has_tree : bool, default=False
        Draw the linkage tree of the clusters above the matrix; they must be in its order, or be put into it.
    ax : matplotlib Axes, optional
        Plain 2-D axes to draw on. By default those of a new figure, `ax.figure`. A scale is added to the figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> ax = plot_similarity([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]])
    >>> [word.get_text() for word in ax.get_yticklabels()]
    ['1', '2', '0']
    """
    who = "plot_similarity"
    given = as_matrix(directions, who, what="`directions`")
    rows = unit_rows(given if isinstance(given, np.ndarray) else given.toarray(), who, "`directions`")
    vectors = np.asarray(rows, dtype=np.float64)
    words = [str(name) for name in (range(len(vectors)) if names is None else names)]
    if len(words) != len(vectors):
        raise InputError(
            f"`names` of {who} must have one for each of {len(vectors)} directions; got {len(words)}. "
            "Give them in the order of the rows."
        )
    has_tree = check_flag(has_tree, "has_tree", who) and len(vectors) > 2
    ax = plain_axes(ax, who, 6.6, 6.4 if has_tree else 5.6, right=0.6, top=1.3 if has_tree else 0.45)
    order = similarity_order(vectors) if is_ordered else np.arange(len(vectors))
    angles = np.degrees(np.arccos(np.clip(vectors[order] @ vectors[order].T, -1.0, 1.0)))
    np.fill_diagonal(angles, 0.0)
    _draw_matrix(ax, angles, [words[k] for k in order])
    if has_tree:
        _draw_tree(ax, similarity_tree(vectors[order]))
    return ax


def similarity_order(directions: Float64Array) -> IntArray:
    """The numbers (K,) of unit directions in an order that puts near ones side by side: leaves of a linkage tree."""
    from scipy.cluster.hierarchy import leaves_list

    if len(directions) < 3:
        return np.arange(len(directions))
    return np.asarray(leaves_list(similarity_tree(directions)))


def similarity_tree(directions: Float64Array) -> Float64Array:
    """The average linkage of unit directions by cosine distance, as SciPy writes trees (K - 1, 4), leaves in order."""
    from scipy.cluster.hierarchy import linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    n_clusters = len(directions)
    if n_clusters < 2:
        return np.empty((0, 4))
    distances = np.clip(1.0 - directions @ directions.T, 0.0, 2.0)
    np.fill_diagonal(distances, 0.0)
    condensed = squareform((distances + distances.T) / 2.0, checks=False)
    tree = linkage(condensed, "average")
    if 3 <= n_clusters <= _MOST_ORDERED:
        tree = optimal_leaf_ordering(tree, condensed)
    return np.asarray(tree)


def _draw_tree(ax: Axes, tree: Float64Array) -> None:
    """The tree above the matrix: its leaves are the columns, and heights are angles."""
    from matplotlib.collections import LineCollection

    n_leaves = len(tree) + 1
    places, heights = list(map(float, range(n_leaves))), [0.0] * n_leaves
    lines = []
    for left, right, distance, _ in tree:
        one, other, height = int(left), int(right), float(np.degrees(np.arccos(np.clip(1.0 - distance, -1.0, 1.0))))
        corners = [(places[one], heights[one]), (places[one], height), (places[other], height)]
        lines.append([*corners, (places[other], heights[other])])
        places.append((places[one] + places[other]) / 2.0)
        heights.append(height)
    above = ax.inset_axes((0.0, 1.01, 1.0, 0.2))
    above.add_collection(LineCollection(lines, colors=INK, linewidths=0.8 if n_leaves < 80 else 0.4))
    above.set_xlim(-0.5, n_leaves - 0.5)
    above.set_ylim(0.0, 1.05 * max(heights))
    above.set_axis_off()
    ax.set_title("", loc="left")  # it would lie on the tree


def _draw_matrix(ax: Axes, angles: Float64Array, words: list[str]) -> None:
    n_clusters = len(angles)
    top = max(float(angles.max()), 1e-9)
    image = ax.imshow(angles, cmap="cividis", vmin=0.0, vmax=top, interpolation="nearest")
    n_names = min(n_clusters, _MOST_NAMES)
    ticks = np.arange(n_names) * n_clusters // n_names
    size = float(np.clip(260.0 / n_names, 4.5, 9.0))
    ax.set_xticks(ticks, [words[k] for k in ticks], fontsize=size, rotation=90 if max(map(len, words)) > 2 else 0)
    ax.set_yticks(ticks, [words[k] for k in ticks], fontsize=size)
    if n_clusters <= _MOST_WORDS:
        for row, column in np.ndindex(n_clusters, n_clusters):
            if row != column:
                # the map is dark for small angles
                color = "white" if angles[row, column] < 0.5 * top else "black"
                ax.text(column, row, f"{angles[row, column]:.0f}", ha="center", va="center", fontsize=size, color=color)
    quiet(ax, title="angles between clusters", x="cluster", y="cluster")
    scale = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03, format="{x:.0f}°")
    scale.ax.tick_params(colors=INK, length=3.0)
    scale.outline.set_edgecolor(INK)
