"""A walk through a furnished room, seen by a depth camera and segmented by direction, beside the truth.

    python examples/room.py --output demo

The camera looks ahead, turns by 90 degrees, looks, and turns back: walls leave the view and return. DDP-vMF-means gives
them the ids they had, DP-vMF-means from frame to frame does not. Leaves pictures and an animation to look at.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from armillary.metrics import purity_score
from armillary.plots import plot_id_shares, plot_segmentation
from armillary.vision import (
    Animation,
    DirectionSegmenter,
    RoomFrame,
    SegmentedFrame,
    color_depth,
    color_labels,
    color_normals,
    make_room_walk,
)

PICTURES = ("room.gif", "room.png", "room_ids.png")
METHODS = {"DDP-vMF-means": "ddp", "DP-vMF-means, sequential": "sequential", "DP-vMF-means, by frame": "batch"}


def kept_on_the_way_back(labels: np.ndarray) -> float:
    """The poses of the way back are those of the way there: the share of the pixels with the same id both times."""
    there, back = labels[: len(labels) // 2], labels[::-1][: len(labels) // 2]
    return float((there == back)[(there >= 0) & (back >= 0)].mean())


def id_purity(truth: np.ndarray, labels: np.ndarray) -> float:
    """The share of the pixels that have the main id of their direction, over the whole walk."""
    is_known = (labels >= 0) & (truth >= 0)
    return purity_score(labels[is_known], truth[is_known])


def draw(walk: list[RoomFrame], found: list[SegmentedFrame], output: Path) -> None:
    """The animation, and eight frames of it as a picture."""
    with Animation(output / "room.gif", frames_per_second=12) as film:
        for frame, one in zip(walk, found, strict=True):
            pictures = (color_depth(frame.depth), color_normals(one.normals.vectors), color_labels(one.labels))
            film.add(np.concatenate(pictures, axis=1))
    figure = plot_segmentation(
        [one.labels for one in found],
        depths=[frame.depth for frame in walk],
        normals=[one.normals.vectors for one in found],
    )
    figure.savefig(output / "room.png")


def show(output: Path, console: Console, n_frames: int = 60, width: int = 320) -> None:
    """Render the walk, follow it by each method, print, draw."""
    walk = make_room_walk(n_frames, width=width, height=width * 3 // 4, random_state=0)
    start = time.perf_counter()
    frames = [walk[number] for number in track(range(n_frames), "rendering a room", console=console, transient=True)]
    rendered = time.perf_counter() - start
    console.print(
        f"\nA walk through a room, {n_frames} depth frames of {width} x {width * 3 // 4} with noise and holes, "
        f"rendered in {rendered:.1f} s; segmented by the directions of surfaces:"
    )
    truth = np.stack([frame.direction_ids for frame in frames])
    table = Table("", "ids", "id purity", "same id on the way back", "frames/s")
    for name, method in METHODS.items():
        segmenter = DirectionSegmenter(camera=walk.camera, method=method)
        found = [segmenter.step(frame.depth) for frame in frames]
        labels = np.stack([one.labels for one in found])
        stages = {stage: np.median([one.milliseconds[stage] for one in found]) for stage in found[0].milliseconds}
        table.add_row(
            name,
            str(len(np.unique(labels[labels >= 0]))),
            f"{id_purity(truth, labels):.3f}",
            f"{kept_on_the_way_back(labels):.3f}",
            f"{1e3 / sum(stages.values()):.0f}",
        )
        if method == "ddp":
            spent = ", ".join(f"{stage} {value:.1f}" for stage, value in stages.items())
            draw(frames, found, output)
            plot_id_shares(segmenter.history).figure.savefig(output / "room_ids.png")
    console.print(table)
    console.print(f"Milliseconds per frame by DDP-vMF-means: {spent}")


def main() -> None:
    """Show the room."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("demo"))
    output: Path = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    console = Console()
    show(output, console)
    console.print(f"Pictures to look at: {', '.join(str(output / name) for name in PICTURES)}")


if __name__ == "__main__":
    main()
