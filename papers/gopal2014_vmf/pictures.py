"""The figures, from results. Figures belong to no window; `save` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from armillary.plots import plot_top_features, plot_trajectories

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#414a59"
LOOKS = {
    "vMFmix tied": ("#1f5fbf", "o"),
    "vMFmix free": ("#7fb0ea", "o"),
    "spherical k-means": ("#20491b", "^"),
    "k-means": ("#c8641a", "s"),
    "soft k-means": ("#e8b07c", "s"),
    "multinomial": ("#8a4fa3", "D"),
    "LDA": ("#b8a0c8", "D"),
    "B-vMFmix": ("#b02a4a", "*"),
    "H-vMFmix": ("#3c8a2e", "P"),
    "H-vMFmix factorised": ("#93c789", "P"),
    "T-vMFmix": ("#3c8a2e", "X"),
    "T-vMFmix factorised, drift given": ("#93c789", "X"),
    "T-vMFmix factorised, drift learned": ("#c9ccd3", "X"),
}


def save(figure: Figure, path: Path) -> None:
    """A PNG of modest size; drawings of the library's own keep what they write beside their axes."""
    figure.savefig(path, dpi=110, bbox_inches=None if figure.get_layout_engine() else "tight")


def by_set(clustering: dict[str, Any], kind: str, measure: str = "NMI") -> Figure:
    """One row of markers for each set, at as many clusters as classes: every method, mean and spread."""
    names = [name for name, entry in clustering.items() if kind in entry["starts"]]
    figure = Figure(figsize=(9.0, 1.6 + 0.46 * len(names)), layout="constrained")
    ax = figure.subplots()
    for place, name in enumerate(names):
        entry = clustering[name]
        lines = _at_classes(entry, kind)
        for shift, (method, (color, marker)) in enumerate(LOOKS.items()):
            if method not in lines:
                continue
            line = lines[method][measure]
            height = place + 0.075 * (shift - 3)
            ax.errorbar(line["mean"], height, xerr=line["sd"], color=color, marker=marker, markersize=5, linewidth=1.1)
    ax.set_yticks(range(len(names)), [f"{name}  K={clustering[name]['n_classes']}" for name in names])
    ax.invert_yaxis()
    ax.set_xlabel(f"{measure}, mean and standard deviation over runs")
    _plain(ax)
    handles, shown = _handles({method for name in names for method in _at_classes(clustering[name], kind)})
    figure.legend(handles, shown, loc="outside lower center", ncols=4, frameon=False, fontsize=8.5)
    figure.suptitle(f"Agreement with the classes; start: {kind}", color=INK, fontsize=12)
    return figure


def over_k(clustering: dict[str, Any], kind: str, measure: str = "NMI") -> Figure:
    """One panel for each set: the measure over the number of clusters."""
    names = [name for name, entry in clustering.items() if len(entry["starts"].get(kind, {})) > 1]
    n_columns = min(4, len(names))
    n_lines = -(-len(names) // n_columns)
    figure = Figure(figsize=(3.1 * n_columns + 0.4, 2.5 * n_lines + 0.9), layout="constrained")
    panels = np.atleast_1d(figure.subplots(n_lines, n_columns, squeeze=False)).ravel()
    for ax, name in zip(panels, names, strict=False):
        entry = clustering[name]
        numbers = sorted(int(number) for number in entry["starts"][kind])
        for method, (color, marker) in LOOKS.items():
            found = [entry["starts"][kind][str(number)].get(method) for number in numbers]
            x = [number for number, line in zip(numbers, found, strict=True) if line]
            means = np.array([line[measure]["mean"] for line in found if line])
            spreads = np.array([line[measure]["sd"] for line in found if line])
            if not x:
                continue
            ax.fill_between(x, means - spreads, means + spreads, color=color, alpha=0.10, linewidth=0)
            ax.plot(x, means, color=color, marker=marker, markersize=4, linewidth=1.3, label=method)
        ax.axvline(entry["n_classes"], color=INK, linewidth=0.8, linestyle=":")
        ax.set_title(name, fontsize=10, color=INK, loc="left")
        ax.set_xscale("log")
        ax.set_xticks(numbers, [str(number) for number in numbers])
        ax.minorticks_off()
        _plain(ax)
    for ax in panels[len(names) :]:
        ax.set_axis_off()
    figure.supxlabel("clusters (dotted: classes)", color=INK, fontsize=10)
    figure.supylabel(measure, color=INK, fontsize=10)
    there = {method for name in names for lines in clustering[name]["starts"][kind].values() for method in lines}
    handles, shown = _handles(there)
    figure.legend(handles, shown, loc="outside upper center", ncols=7, frameon=False, fontsize=8.5)
    return figure


def likelihoods(result: dict[str, Any], over: str, base: str = "B-vMFmix") -> Figure:
    """One panel for each set: nats a document over those of `base`, by setting; every split is a marker.

    Mixtures by EM are left out: they lie far below.
    """
    figure = Figure(figsize=(max(6.4, 3.2 * len(result) + 0.4), 3.8), layout="constrained")
    panels = figure.subplots(1, len(result), squeeze=False).ravel()
    there: set[str] = set()
    for ax, (name, entry) in zip(panels, result.items(), strict=True):
        places = list(entry["by_number"])
        shown = [method for method in LOOKS if method in entry["by_number"][places[0]]["splits"][0]]
        shown = [method for method in shown if method != base and not method.startswith("vMFmix")]
        there |= set(shown)
        for shift, method in enumerate(shown):
            color, marker = LOOKS[method]
            points = [
                (place + 0.12 * (shift - 0.5 * (len(shown) - 1)), split[method] - split[base])
                for place, number in enumerate(places)
                for split in entry["by_number"][number]["splits"]
            ]
            ax.plot(*np.array(points).T, color=color, marker=marker, markersize=6, linestyle="none")
        ax.axhline(0.0, color=INK, linewidth=0.8)
        ax.set_title(name, fontsize=10, color=INK, loc="left")
        ax.set_xticks(range(len(places)), places)
        _plain(ax)
    figure.supxlabel(over, color=INK, fontsize=10)
    figure.supylabel(f"nats a document, over {base}", color=INK, fontsize=10)
    handles, shown = _handles(there)
    figure.legend(handles, shown, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    return figure


def held_out(result: dict[str, Any]) -> Figure:
    """One panel for each set: nats a document over those of the tied mixture, by number of components."""
    n_columns = min(4, len(result))
    n_lines = -(-len(result) // n_columns)
    figure = Figure(figsize=(3.1 * n_columns + 0.4, 2.5 * n_lines + 0.9), layout="constrained")
    panels = figure.subplots(n_lines, n_columns, squeeze=False).ravel()
    for ax, (name, entry) in zip(panels, result.items(), strict=False):
        numbers = sorted(int(number) for number in entry["by_number"])
        for method in ("vMFmix tied", "vMFmix free", "B-vMFmix"):
            splits = [entry["by_number"][str(number)]["splits"] for number in numbers]
            if method not in splits[0][0]:
                continue
            gains = [[split[method] - split["vMFmix tied"] for split in found] for found in splits]
            color, marker = LOOKS[method]
            means = np.array([np.mean(found) for found in gains])
            low, high = np.array([min(found) for found in gains]), np.array([max(found) for found in gains])
            ax.fill_between(numbers, low, high, color=color, alpha=0.15, linewidth=0)
            ax.plot(numbers, means, color=color, marker=marker, markersize=5, linewidth=1.3, label=method)
        ax.set_title(name, fontsize=10, color=INK, loc="left")
        ax.set_xscale("log")
        ax.set_xticks(numbers, [str(number) for number in numbers])
        ax.minorticks_off()
        _plain(ax)
    for ax in panels[len(result) :]:
        ax.set_axis_off()
    figure.supxlabel("components", color=INK, fontsize=10)
    figure.supylabel("held-out nats a document, over tied", color=INK, fontsize=10)
    splits = next(iter(next(iter(result.values()))["by_number"].values()))["splits"]
    handles, shown = _handles(set(splits[0]))
    figure.legend(handles, shown, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return figure


def _at_classes(entry: dict[str, Any], kind: str) -> dict[str, Any]:
    return entry["starts"][kind][str(entry["n_classes"])]


def _handles(there: set[str]) -> tuple[list[Line2D], list[str]]:
    """One handle for each method, in the order of `LOOKS`."""
    shown = [method for method in LOOKS if method in there]
    return [Line2D([], [], color=LOOKS[method][0], marker=LOOKS[method][1], markersize=5) for method in shown], shown


def _plain(ax: Axes) -> None:
    ax.tick_params(colors=INK, labelsize=8.5)
    ax.xaxis.label.set_color(INK)
    ax.yaxis.label.set_color(INK)
    for side in ("right", "top"):
        ax.spines[side].set_visible(False)
    ax.grid(color="#e6e9ef", linewidth=0.6)
    ax.set_axisbelow(True)


def figure_5(model: Any, words: list[str], topic: int) -> Any:
    """The words of one topic over the years."""
    return plot_top_features(model, topic, n=8, every=3, feature_names=words).figure


def figure_6(model: Any, rows: np.ndarray) -> Any:
    """Paths of the mean directions among the documents."""
    ax = plot_trajectories(model, rows, model.labels_)
    ax.figure.suptitle("NIPS on three principal components: 5 directions from 1987 to 1999", color=INK, fontsize=11)
    return ax.figure
