"""Small pictures of five segmented sequences, to be looked at: depth above, labels below.

ARMILLARY_SHARED_DATA=... python -m benchmarks.vision_pictures
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from armillary.vision import DirectionColors, DirectionSegmenter, WorldFrames, color_depth, color_labels, write_image
from benchmarks.streams import RESULTS
from benchmarks.vision_quality import Sequence, sequences

NAMES = {
    "redwood": "redwood",
    "corridor": "corridor",
    "tum, first half": "tum",
    "room, Kinect x 1": "room_kinect",
    "room, RealSense x 1.5": "room_realsense",
}
N_SHOWN, STEP = 5, 4


def sheet(sequence: Sequence) -> np.ndarray:
    """Frames side by side, evenly spaced from the first to the last."""
    shown = set(np.linspace(0, len(sequence) - 1, N_SHOWN).round().astype(int).tolist())
    stream, colors, world = DirectionSegmenter(camera=sequence.camera), DirectionColors(), WorldFrames()
    kept = []
    for number in track(range(len(sequence)), description=sequence.name):
        depth = sequence.view(number).depth
        found = stream.step(depth)
        world.add(found)
        colors.add(found.ids, found.directions @ world.rotation.T)
        if number in shown:
            kept.append((color_depth(depth), found.labels))
    pictures = [np.concatenate([depth, color_labels(labels, colors.table)])[::STEP, ::STEP] for depth, labels in kept]
    return np.concatenate(pictures, axis=1)


def main() -> None:
    """Draw and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS / "vision")
    arguments = parser.parse_args()
    arguments.output.mkdir(exist_ok=True)
    for wanted, name in NAMES.items():
        for sequence in sequences(36, 0, wanted):
            if sequence.name == wanted:
                write_image(arguments.output / f"{name}.png", sheet(sequence))
    Console().print(f"Stored in {arguments.output}")


if __name__ == "__main__":
    main()
