"""The figures, from results and from what the parts computed. Figures belong to no window; `save` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from armillary.plots import plot_sphere, plot_tangent_space
from armillary.plots.sphere import PALETTE, cluster_colors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from normals import Segmented
    from synthetic import Made, Outcome
    from words import Vocabulary

INK = "#414a59"
# One colour for each model, one dash for each start.
_COLORS = {
    "DP-TGMM": PALETTE[0],
    "FSD-TGMM": "#2f8f5f",
    "DP-GMM": "#c8641a",
    "spherical k-means": PALETTE[3],
    "k-means": PALETTE[9],
}
_DASHES = {"the paper's moves, from one cluster": "-.", "the paper's moves": ":", "from one cluster": "--"}


def save(figure: Figure, path: Path, dpi: int = 100) -> None:
    """A PNG of modest size."""
    figure.savefig(path, dpi=dpi)


def figure_3(by_set: dict[str, dict[str, Any]], methods: dict[str, str], title: str) -> Figure:
    """NMI (left) and clusters (right) over the sweeps, a row for each set; mean and standard deviation over the runs.

    `methods` are names in the results and the words of the legend.
    """
    figure = Figure(figsize=(11.0, 3.6 * len(by_set) + 0.6), layout="constrained")
    rows = figure.subplots(len(by_set), 2, squeeze=False)
    for (kind, result), (left, right) in zip(by_set.items(), rows, strict=True):
        for method, word in methods.items():
            if method not in result["methods"]:
                continue
            curves = result["methods"][method]["curves"]
            for ax, what in ((left, "nmi"), (right, "n_clusters")):
                if what == "n_clusters" and "k-means" in method:
                    continue  # they are told the number
                _band(ax, curves["sweep"], curves[what], *_look(method), word)
        left.axhline(np.mean(result["best_nmi"]), color=INK, linewidth=0.9, linestyle=(0, (1, 2)))
        right.axhline(result["n_true"], color=INK, linewidth=0.9, linestyle=(0, (1, 2)))
        left.set(ylabel=f"{kind}: NMI", ylim=(None, 1.003))
        right.set(ylabel=f"{kind}: clusters")
        for ax in (left, right):
            ax.set_xlabel("sweep")
            _plain(ax)
    handles, said = rows[0][0].get_legend_handles_labels()
    n_columns = 3 if max(map(len, said)) < 30 else 2
    figure.legend(handles, said, loc="outside lower center", ncols=n_columns, frameon=False, fontsize=9)
    figure.suptitle(title, color=INK, fontsize=11)
    return figure


def spheres(examples: dict[str, tuple[Made, dict[str, Outcome]]], methods: dict[str, str]) -> Figure:
    """The truth and the clusters of some methods on the globe, a row for each set."""
    figure = Figure(figsize=(3.3 * (1 + len(methods)), 3.5 * len(examples)), dpi=100)
    width, height = 1.0 / (1 + len(methods)), 1.0 / len(examples)
    for row, (kind, (made, outcomes)) in enumerate(examples.items()):
        shown = {f"{kind}: truth, {made.n_clusters} clusters": made.labels}
        for method, word in methods.items():
            labels = outcomes[method].labels
            shown[f"{word}: {len(np.unique(labels))} clusters"] = labels
        for column, (title, labels) in enumerate(shown.items()):
            ax = figure.add_axes((column * width, 1.0 - (row + 1) * height, width, 0.94 * height))
            plot_sphere(made.rows, labels, ax=ax, far_side="hidden")
            ax.set_title(title, color=INK, fontsize=9, y=0.97)
    return figure


def globe(rows: np.ndarray, labels: np.ndarray, centers: np.ndarray, title: str) -> Figure:
    """Clusters with their means, from two opposite sides."""
    figure = Figure(figsize=(9.0, 4.7), dpi=100)
    for column, sign in enumerate((1.0, -1.0)):
        ax = figure.add_axes((0.5 * column, 0.0, 0.5, 0.95))
        plot_sphere(rows, labels, centers=centers, ax=ax, far_side="hidden", view_from=(sign, sign * 0.7, sign * 0.6))
    figure.suptitle(title, color=INK, fontsize=11)
    return figure


def figure_4(segmented: list[Segmented]) -> Figure:
    """A column for each frame: its depth, and the segments that the clusters of each method imply."""
    methods = list(segmented[0].labels)
    figure = Figure(figsize=(3.4 * len(segmented), 2.75 * (1 + len(methods))), layout="constrained")
    axes = figure.subplots(1 + len(methods), len(segmented), squeeze=False)
    for column, found in enumerate(segmented):
        depth = np.where(found.frame.depth > 0, found.frame.depth.astype(float), np.nan)
        axes[0, column].imshow(depth, cmap="viridis_r")
        axes[0, column].set_title(f"{found.frame.name}: {int(found.normals.is_valid.sum()):,} normals", **_TITLE)
        rows = found.normals.rows().astype(np.float64)
        for row, method in enumerate(methods, start=1):
            labels = found.labels[method]
            axes[row, column].imshow(_painted(found, rows, labels))
            axes[row, column].set_title(f"{method}: {len(np.unique(labels))} clusters", **_TITLE)
    for ax in axes.flat:
        ax.set_axis_off()
    return figure


def frame_spheres(segmented: list[Segmented], method: str) -> Figure:
    """The normals of each frame on the sphere, as the camera sees them, by cluster of one method."""
    figure = Figure(figsize=(3.6 * len(segmented), 3.8), dpi=100)
    width = 1.0 / len(segmented)
    for column, found in enumerate(segmented):
        ax = figure.add_axes((column * width, 0.0, width, 0.93))
        labels = found.labels[method]
        view = (0.25, -0.25, -1.0)  # normals point to the camera, which looks along the third axis
        plot_sphere(found.normals.rows(), labels, ax=ax, view_from=view, far_side="hidden", max_points=40_000)
        ax.set_title(f"{found.frame.name}: {method}, {len(np.unique(labels))} clusters", **_TITLE)
    return figure


def figure_5(words: dict[str, Any], runs: list[dict[str, Any]]) -> Figure:
    """Clusters and log joint over the sweeps from the paper's start, and the histogram of condition numbers."""
    figure = Figure(figsize=(12.5, 3.9), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for number, run in enumerate(runs):
        word = "from 20 clusters, as in the paper" if number == 0 else None
        left.plot(run["sweeps"], run["n_clusters"], color="#c8641a", linewidth=1.2, label=word)
        middle.plot(run["sweeps"], np.array(run["log_joint"]) / 1e3, color="#c8641a", linewidth=1.2)
    left.axhline(words["n_clusters"], color=PALETTE[0], linewidth=1.2, label="from the default start, the answer")
    left.axhline(96, color=INK, linewidth=0.9, linestyle=(0, (1, 2)), label="the paper, other vectors")
    middle.axhline(words["log_joint"] / 1e3, color=PALETTE[0], linewidth=1.2)
    left.set(xlabel="sweep", ylabel="clusters", ylim=(0, None))
    middle.set(xlabel="sweep", ylabel="log joint, thousands of nats")
    left.legend(frameon=False, fontsize=9)
    numbers = words["condition_numbers"]
    right.hist(numbers, bins=np.geomspace(1.0, 1.1 * max(numbers), 30), color=PALETTE[0])
    right.axvline(words["round_condition_number"], color=INK, linewidth=0.9, linestyle=(0, (1, 2)), label="round ones")
    right.set(xscale="log", xlabel="condition number of a cluster's covariance", ylabel="clusters")
    right.margins(y=0.15)
    right.legend(frameon=False, fontsize=9, loc="upper left")
    for ax in (left, middle, right):
        _plain(ax)
    return figure


def figure_5b(model: Any, vocabulary: Vocabulary, cluster: int) -> Figure:
    """Words in the two main axes of a cluster."""
    ax = plot_tangent_space(model, vocabulary.rows, cluster, labels=model.labels_, names=vocabulary.words, n_names=32)
    figure = ax.figure
    assert isinstance(figure, Figure)
    return figure


_TITLE: dict[str, Any] = {"color": INK, "fontsize": 9}


def _painted(found: Segmented, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """An image (H, W, 3) in the colours of the clusters, largest first; black where there is no normal."""
    order = np.argsort(-np.bincount(labels), kind="stable")
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    labels = ranks[labels]
    sums = np.stack([np.bincount(labels, column) for column in rows.T], axis=1)
    colors = cluster_colors(sums / np.linalg.norm(sums, axis=1, keepdims=True))
    return np.vstack([colors, np.zeros(3)])[found.normals.image_of(labels)]


def _look(method: str) -> tuple[str, str]:
    color = next(color for name, color in _COLORS.items() if method.startswith(name))
    return color, next((dash for word, dash in _DASHES.items() if word in method), "-")


def _band(ax: Axes, sweeps: list[int], curve: dict[str, Any], color: str, dash: str, word: str) -> None:
    mean, sd = (np.array([np.nan if value is None else value for value in curve[what]]) for what in ("mean", "sd"))
    ax.plot(sweeps, mean, dash, color=color, linewidth=1.6, label=word)
    ax.fill_between(sweeps, mean - sd, mean + sd, color=color, alpha=0.15, linewidth=0.0)


def _plain(ax: Axes) -> None:
    ax.tick_params(colors=INK, length=3.0)
    for name in (ax.xaxis, ax.yaxis):
        name.label.set_color(INK)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INK)
