"""The figures, from results and streams. Figures belong to no window; `save` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from armillary.plots import plot_id_shares
from armillary.plots.sphere import PALETTE
from armillary.vision import color_depth, color_labels, color_normals

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from views import Stream

BLUE, ORANGE, GREEN, INK = PALETTE[0], "#c8641a", "#20491b", "#414a59"
KMEANS_LOOKS = {"k-means, random rows": (ORANGE, "s"), "k-means, k-means++": (GREEN, "^")}
IMAGE_WIDTH, IMAGE_HEIGHT = 640, 480


def save(figure: Figure, path: Path) -> None:
    """A PNG of modest size."""
    figure.savefig(path, dpi=110)


def figure_3(result: dict[str, Any], n_true: int) -> Figure:
    """Clusters found over the angle; NMI and silhouette over the number of clusters, as in the paper."""
    figure = Figure(figsize=(12.5, 4.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    by_angle = result["by_angle"]
    degrees = [float(angle) for angle in by_angle]
    _band(left, degrees, by_angle, "n_clusters", BLUE, "o", "DP-vMF-means")
    left.axhline(n_true, color=INK, linewidth=0.8, linestyle=":")
    left.annotate("truth: 30", (degrees[-1], n_true), xytext=(0, 4), textcoords="offset points", ha="right", color=INK)
    left.set(xlabel="max_angle, degrees", ylabel="clusters found", yscale="log")
    _log_ticks(left.yaxis)
    for ax, measure, word in ((middle, "nmi", "NMI"), (right, "silhouette", "silhouette by cosine")):
        numbers = [by_angle[angle]["n_clusters"]["mean"] for angle in by_angle]
        _band(ax, numbers, by_angle, measure, BLUE, "o", "DP-vMF-means, mean K of each angle")
        for name, (color, marker) in KMEANS_LOOKS.items():
            lines = result["by_number"][name]
            _band(ax, [int(number) for number in lines], lines, measure, color, marker, f"spherical {name}")
        ax.axvline(n_true, color=INK, linewidth=0.8, linestyle=":")
        ax.set(xlabel="clusters", ylabel=word, xscale="log")
        _log_ticks(ax.xaxis)
    middle.legend(loc="lower center", frameon=False, fontsize=8)
    title = (
        f"30 clusters on the sphere: {result['n_rows']:,} rows, {result['n_runs']} runs, mean and standard deviation"
    )
    return _finished(figure, title)


def angles(result: dict[str, Any], n_true: int) -> Figure:
    """All three measures over the angle, with k-means at the true number as a level."""
    figure = Figure(figsize=(12.5, 4.2), layout="constrained")
    by_angle = result["by_angle"]
    degrees = [float(angle) for angle in by_angle]
    words = {"n_clusters": "clusters found", "nmi": "NMI", "silhouette": "silhouette by cosine"}
    for ax, (measure, word) in zip(figure.subplots(1, 3), words.items(), strict=True):
        _band(ax, degrees, by_angle, measure, BLUE, "o", "DP-vMF-means")
        for name, (color, _) in KMEANS_LOOKS.items() if measure != "n_clusters" else ():
            level = result["by_number"][name][str(n_true)][measure]
            ax.axhline(level["mean"], color=color, linewidth=1.4, linestyle="--", label=f"spherical {name}, K = 30")
            ax.axhspan(level["mean"] - level["sd"], level["mean"] + level["sd"], color=color, alpha=0.12, linewidth=0)
        if measure == "n_clusters":
            ax.axhline(n_true, color=INK, linewidth=0.8, linestyle=":")
            ax.set_yscale("log")
            _log_ticks(ax.yaxis)
        else:
            ax.legend(loc="lower center" if measure == "nmi" else "lower right", frameon=False, fontsize=8)
        ax.set(xlabel="max_angle, degrees", ylabel=word)
    title = f"Quality over the angle: {result['n_rows']:,} rows, {result['n_runs']} runs, mean and standard deviation"
    return _finished(figure, title)


def figure_4(result: dict[str, Any], paper_angle: str) -> Figure:
    """Left: clusters in a scene. Right: mean silhouette over the angle and over the number of clusters of k-means."""
    figure = Figure(figsize=(11.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    by_angle, by_number = result["by_angle"], result["by_number"]
    best = max(by_angle, key=lambda angle: by_angle[angle]["silhouette"])
    shown = {
        angle: color for angle, color in (("60", "#6fd6a6"), (best, BLUE), (paper_angle, ORANGE)) if angle in by_angle
    }
    width = 0.8 / len(shown)
    for place, (angle, color) in enumerate(shown.items()):
        counts = np.array(by_angle[angle]["n_clusters"])
        offsets = np.arange(len(counts)) + (place - (len(shown) - 1) / 2) * width
        words = {paper_angle: " (the paper's)", best: " (best silhouette)"}
        left.bar(offsets, counts, width, color=color, label=f"{angle} degrees{words.get(angle, '')}")
    left.set(xlabel="clusters found in a scene", ylabel="scenes", xlim=(0.3, None))
    left.set_xticks(range(1, 1 + max(len(by_angle[angle]["n_clusters"]) for angle in shown) - 1))
    left.legend(frameon=False)
    degrees = [float(angle) for angle in by_angle]
    right.plot(degrees, [line["silhouette"] for line in by_angle.values()], color=BLUE, marker="o", markersize=4)
    right.set(xlabel="max_angle of DP-vMF-means, degrees", ylabel="mean silhouette by cosine")
    right.xaxis.label.set_color(BLUE)
    top = right.twiny()
    values = [line["silhouette"] for line in by_number.values()]
    top.plot([int(number) for number in by_number], values, color=ORANGE, marker="s", markersize=4, linestyle="--")
    top.set_xlabel("clusters of spherical k-means", color=ORANGE)
    _plain(top, keep_top=True)
    return _finished(figure, f"{result['n_scenes']} scenes of NYU v2", but=(top,))


def figure_6(stream: Stream, runs: dict[str, tuple[list[np.ndarray], dict[str, float]]], degrees: float) -> Figure:
    """Shares of the ids over the frames, one method below the other; key frames above each where pixels are known."""
    has_images = stream.pixels is not None
    heights = [height for _ in runs for height in ((1.0, 1.4) if has_images else (1.6,))]
    figure = Figure(figsize=(11.0, 1.2 * sum(heights) + 0.4), layout="constrained")
    grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
    row = 0
    for number, (name, (ids, numbers)) in enumerate(runs.items()):
        if has_images:
            _key_frames(figure, grid[row], stream, ids)
            row += 1
        ax = plot_id_shares(ids, ax=figure.add_subplot(grid[row]))
        row += 1
        kept = (
            "" if np.isnan(numbers["returns_kept"]) else f", {numbers['returns_kept']:.0%} of returns under the old id"
        )
        words = f"{numbers['n_ids']} ids in all, agreement with the planes {numbers['agreement']:.2f}{kept}"
        ax.set_title(f"{name}: {words}", loc="left", fontsize=10, color=INK)
        ax.set_ylabel("normals", color=INK)
        ax.set_xlabel("frame" if number == len(runs) - 1 else "", color=INK)
    return _finished(figure, f"{stream.title[0].upper()}{stream.title[1:]}; max_angle {degrees:g} degrees", plain=False)


def figure_5(pages: list[dict[str, Any]]) -> Figure:
    """Scenes side by side: depth, normals, and the segments of each model below."""
    names = list(pages[0]["labels"])
    figure = Figure(figsize=(1.75 * len(pages) + 0.4, 1.35 * (2 + len(names)) + 0.3), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0.0, hspace=0.0)
    grid = figure.subplots(2 + len(names), len(pages), squeeze=False)
    for column, page in zip(grid.T, pages, strict=True):
        images = [color_depth(page["depth"]), color_normals(page["normals"])]
        images += [color_labels(page["labels"][name]) for name in names]
        for ax, image in zip(column, images, strict=True):
            _image(ax, image)
        column[0].set_title(page["name"], fontsize=8, color=INK)
        for ax, name in zip(column[2:], names, strict=True):
            n_clusters = len(np.unique(page["labels"][name])) - 1
            ax.text(6, 12, str(n_clusters), fontsize=7, color="white", va="top", weight="bold")
    for ax, word in zip(grid[:, 0], ("depth", "normals", *names), strict=True):
        ax.set_ylabel(word.replace(", ", ",\n"), fontsize=8, color=INK)
    return _finished(figure, "Scenes segmented by direction (numbers: clusters; black: no depth)", plain=False)


def figure_6_images(stream: Any, found: dict[str, Any], degrees: float) -> Figure:
    """Key frames and shares of the ids of whole images, one method below the other."""
    names = list(found["numbers"]["by_angle"][f"{degrees:g}"])
    figure = Figure(figsize=(11.0, 2.75 * len(names) + 0.4), layout="constrained")
    grid = figure.add_gridspec(2 * len(names), 1, height_ratios=[1.0, 1.1] * len(names))
    for row, name in enumerate(names):
        shares, key_frames = found["pictures"][degrees, name]
        inner = grid[2 * row].subgridspec(1, len(key_frames), wspace=0.03)
        for cell, (labels, number) in enumerate(zip(key_frames, found["key_frames"], strict=True)):
            ax = figure.add_subplot(inner[cell])
            _image(ax, color_labels(labels))
            ax.set_xlabel(f"frame {number}", fontsize=7, color=INK, labelpad=1)
        ax = plot_id_shares(shares, ax=figure.add_subplot(grid[2 * row + 1]))
        ax.set_title(
            f"{name}: {_told(found['numbers']['by_angle'][f'{degrees:g}'][name])}", loc="left", fontsize=10, color=INK
        )
        ax.set_ylabel("normals", color=INK)
        ax.set_xlabel("frame" if row == len(names) - 1 else "", color=INK)
    title = f"{stream.title[0].upper()}{stream.title[1:]}; whole images, max_angle {degrees:g} degrees"
    return _finished(figure, title, plain=False)


def _told(numbers: dict[str, Any]) -> str:
    words = [f"{numbers['n_ids']} ids"]
    if "same_id_back" in numbers:
        words += [f"same id on the way back {numbers['same_id_back']:.3f}", f"id purity {numbers['id_purity']:.3f}"]
    if "agreement" in numbers:
        words.append(f"agreement with the planes {numbers['agreement']:.2f}")
    return ", ".join([*words, f"spread in the world {numbers['spread']:.1f} degrees"])


def _image(ax: Axes, colors: np.ndarray) -> None:
    ax.imshow(colors, interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set_visible(False)


def _key_frames(figure: Figure, place: Any, stream: Stream, ids: list[np.ndarray], n_shown: int = 8) -> None:
    colors = np.array([[int(color[i : i + 2], 16) / 255.0 for i in (1, 3, 5)] for color in PALETTE])
    inner = place.subgridspec(1, n_shown, wspace=0.03)
    assert stream.pixels is not None
    for cell, number in zip(range(n_shown), np.linspace(0, len(ids) - 1, n_shown).astype(int), strict=True):
        ax = figure.add_subplot(inner[cell])
        rows, columns = np.divmod(stream.pixels[number], IMAGE_WIDTH)
        ax.scatter(columns, rows, c=colors[ids[number] % len(PALETTE)], s=1.1, marker="s", linewidths=0)
        ax.set(xlim=(0, IMAGE_WIDTH), ylim=(IMAGE_HEIGHT, 0), xticks=[], yticks=[], aspect="equal")
        ax.set_xlabel(f"frame {number}", fontsize=7, color=INK, labelpad=1)
        for side in ax.spines.values():
            side.set_color("#c9ced8")


def _band(
    ax: Axes, places: list[float], lines: dict[str, Any], measure: str, color: str, marker: str, label: str
) -> None:
    means = np.array([line[measure]["mean"] for line in lines.values()])
    spreads = np.array([line[measure]["sd"] for line in lines.values()])
    order = np.argsort(places)
    x = np.asarray(places, dtype=float)[order]
    ax.fill_between(x, (means - spreads)[order], (means + spreads)[order], color=color, alpha=0.18, linewidth=0)
    ax.plot(x, means[order], color=color, marker=marker, markersize=3.5, linewidth=1.4, label=label)


def _log_ticks(axis: Any) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    axis.set_major_locator(FixedLocator([5, 10, 20, 30, 50, 100, 200, 500]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(ScalarFormatter())


def _plain(ax: Axes, *, keep_top: bool = False) -> None:
    ax.tick_params(colors=INK)
    for label in (ax.xaxis.label, ax.yaxis.label):
        if label.get_color() == "black":  # others have the colour of their curve
            label.set_color(INK)
    ax.spines["right"].set_visible(False)
    ax.spines["top"].set_visible(keep_top)
    ax.grid(color="#e6e9ef", linewidth=0.6)
    ax.set_axisbelow(True)


def _finished(figure: Figure, title: str, *, plain: bool = True, but: tuple[Axes, ...] = ()) -> Figure:
    for ax in figure.axes if plain else ():
        if ax not in but:
            _plain(ax)
    figure.suptitle(title, color=INK, fontsize=12)
    return figure
