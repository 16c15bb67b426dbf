"""The figures, from results. Figures belong to no window; `save` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

INK = "#414a59"
LOOKS = {
    "Links": ("#b02a4a", "-"),
    "Links, few sub-clusters": ("#b02a4a", "--"),
    "linkscluster": ("#1f5fbf", "-"),
    "linkscluster, its preset": ("#7fb0ea", "--"),
    "DP-vMF-means, one pass": ("#20491b", "-"),
    "mini-batch k-means, K known": ("#c8641a", "-"),
    "DBSTREAM": ("#8a4fa3", "-"),
}


def save(figure: Figure, path: Path) -> None:
    """A PNG of modest size."""
    figure.savefig(path, dpi=110)


def over_time(name: str, entry: dict[str, Any]) -> Figure:
    """Accuracy and number of ids against vectors seen, means over the test streams of both directions."""
    figure = Figure(figsize=(9.5, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    ways = entry["directions"]
    for method, (color, dash) in LOOKS.items():
        if method not in ways[0]["methods"]:
            continue
        runs = [run for way in ways for run in way["methods"][method]["runs"]]
        for ax, what in ((left, "accuracy"), (right, "n_ids")):
            ax.plot(_mean(runs, "n_seen"), _mean(runs, what), dash, color=color, label=method, linewidth=1.5)
    right.plot(_mean(runs, "n_seen"), _mean(runs, "n_persons"), ":", color=INK, label="persons so far")
    left.set_ylabel("accuracy after matching", color=INK)
    right.set_ylabel("ids given", color=INK)
    left.set_ylim(0.0, 1.02)
    # one method can give an id to nearly every vector
    most = max(float(line.get_ydata().max()) for line in right.lines)  # type: ignore[union-attr]
    right.set_ylim(0.0, min(1.05 * most, 4.0 * max(_mean(runs, "n_persons"))))
    for ax in (left, right):
        ax.set_xlabel("vectors seen", color=INK)
        ax.tick_params(colors=INK)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.suptitle(
        f"{name}: {entry['shape'][0]:,} vectors, tuned on one half of the persons, tested on the other",
        color=INK,
        fontsize=11,
    )
    return figure


def _mean(runs: list[dict[str, Any]], what: str) -> np.ndarray:
    return np.mean([run[what] for run in runs], axis=0)
