"""The page's still pictures: what it shows without JavaScript, and on paper."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from armillary._typing import Float64Array, IntArray
from armillary.plots import (
    plot_angle_table,
    plot_cluster_sizes,
    plot_silhouettes,
    plot_similarity,
    plot_sphere_views,
    plot_sweep,
    plot_traces,
)
from armillary.plots.paper import png_of, svg_of
from armillary.plots.similarity import similarity_order
from armillary.report.atlas import Atlas
from armillary.report.clusters import ClusterFacts
from armillary.selection.angle_selection import AngleTable

# Clusters whose numbers are written on the sphere, and that have a line in the matrix: the largest.
MOST_NUMBERS = 60
_MOST_IN_MATRIX = 200
# Directions to look from that are compared, and rows they are judged by.
_N_VIEWS, _MOST_LOOKED_AT = 300, 2_000
# Rows of the picture; more would only make the file larger.
_MOST_DRAWN = 12_000


def sphere_picture(atlas: Atlas, codes: IntArray, facts: ClusterFacts) -> str:
    """Both hemispheres, as the address of a PNG inside the page."""
    largest = set(_largest(facts, MOST_NUMBERS).tolist())
    figure = plot_sphere_views(
        atlas.places,
        codes,
        centers=atlas.centers if len(atlas.centers) else None,
        names=[str(name) if k in largest else "" for k, name in enumerate(facts.names)] if len(facts.names) else None,
        view_from=view_of(atlas),
        has_axes=atlas.kind == "sphere",
        max_points=_MOST_DRAWN,
    )
    return "data:image/png;base64," + base64.b64encode(png_of(figure, pixels_per_inch=100.0)).decode("ascii")


def view_of(atlas: Atlas) -> tuple[float, float, float]:
    """The side from which most rows are seen, and seen well: the best of directions spread evenly over the sphere."""
    if atlas.kind == "circle":
        return (0.0, 0.0, 1.0)
    heights = 1.0 - 2.0 * (np.arange(_N_VIEWS) + 0.5) / _N_VIEWS
    turns = np.arange(_N_VIEWS) * np.pi * (3.0 - np.sqrt(5.0))
    widths = np.sqrt(1.0 - heights**2)
    views = np.column_stack([widths * np.cos(turns), widths * np.sin(turns), heights])
    step = -(-len(atlas.places) // _MOST_LOOKED_AT)
    # rows near the rim of the globe are crowded together; halfway in they are seen well
    seen = np.minimum(np.maximum(atlas.places[::step] @ views.T, 0.0), 0.5).sum(axis=0)
    x, y, z = (float(value) for value in views[int(np.argmax(seen))])
    return (x, y, z)


def sizes_picture(labels: IntArray, facts: ClusterFacts, colors: Float64Array) -> str:
    """Bars for all labels, as an `<svg>`; in the colours of the sphere where every cluster has one."""
    return svg_of(plot_cluster_sizes(labels, colors=None if facts.n_small else list(colors)), "sizes")


def matrix_order(facts: ClusterFacts) -> IntArray:
    """The clusters of the matrix in its order: the largest, near ones side by side."""
    shown = _largest(facts, _MOST_IN_MATRIX)
    return shown[similarity_order(facts.centers[shown])]


def similarity_picture(facts: ClusterFacts, order: IntArray) -> str:
    """Angles between centres, as an `<svg>`."""
    ax = plot_similarity(facts.centers[order], names=facts.names[order].tolist(), is_ordered=False, has_tree=True)
    return svg_of(ax, "similarity")


def silhouettes_picture(facts: ClusterFacts, colors: Float64Array) -> str:
    """Silhouettes by cluster, as an `<svg>`."""
    return svg_of(plot_silhouettes(facts.row_silhouettes, facts.labels, colors=list(colors)), "silhouettes")


def choice_picture(choice: Any) -> str | None:
    """The comparison that led to the model, as an `<svg>`; None where it has nothing to draw."""
    if isinstance(choice, AngleTable):
        return svg_of(plot_angle_table(choice), "choice")
    table = getattr(choice, "table", None) or []
    scored = [row for row in table if isinstance(row.get("score"), int | float | np.number) and "n_clusters" in row]
    if len(scored) < 2:
        return None
    return svg_of(plot_sweep(scored, criterion=str(getattr(choice, "criterion", "score"))), "choice")


def traces_picture(model: Any) -> str | None:
    """The chains of a sampler, as an `<svg>`; None for other models."""
    trace: Any = getattr(model, "trace_", None)
    if np.ndim(trace) != 3:
        return None
    return svg_of(plot_traces(model)[0], "traces")


def _largest(facts: ClusterFacts, most: int) -> IntArray:
    """The numbers of the largest clusters, increasing."""
    return np.sort(np.argsort(-facts.sizes, kind="stable")[:most])
