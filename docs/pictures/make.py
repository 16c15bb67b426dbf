"""The pictures of the README, made from data that the script makes itself.

    python docs/pictures/make.py [stream ids topics camera]

stream.gif    directions on the sphere, as `DDPvMFMeans` sees them batch by batch: ids are born, go away, come back, die
ids.png       the second example of the README: the share of each id over its steps
topics.png    the first: the report of `armillary cluster`, as a browser shows it (needs Chromium, else it is left out)
camera.png    the third: depth, surface normals and ids of a walk through a room
"""

from __future__ import annotations

import io
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

import armillary
from armillary.datasets import make_drifting_mixture
from armillary.distributions import vmf
from armillary.plots import plot_id_shares, plot_segmentation
from armillary.plots.paper import INK, PALE_INK
from armillary.plots.sphere import PALETTE, _draw_globe, _prepare
from armillary.vision import DirectionSegmenter, make_room_walk

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
N_STEPS = 96
LINES = {"here": {"linewidth": 6.5, "solid_capstyle": "butt"}, "away": {"linewidth": 1.6, "linestyle": ":"}}
FORGET = 30  # steps after which an absent id dies
VIEW = np.eye(3)  # right, up, towards the eye


def scene() -> Iterator[tuple[np.ndarray, dict[str, tuple[int, ...]], np.ndarray, dict[int, np.ndarray]]]:
    """Batch by batch of a turning scene: rows, what happened, the ids of the rows, the directions of all tracks."""
    away = {1: range(22, 44), 3: range(14), 2: range(52, N_STEPS)}  # comes back; is born later; goes for good
    generator = np.random.default_rng(0)
    model = armillary.DDPvMFMeans(
        math.radians(36), drift_concentration=100.0, max_unseen_steps=FORGET, carry_unseen=True
    )
    for step in range(N_STEPS):
        rows = [
            vmf.sample(direction(group, step), 110.0, 60, random_state=generator)
            for group in range(5)
            if step not in away.get(group, ())
        ]
        batch = np.concatenate(rows)
        ids = model.partial_fit_predict(batch)
        record = model.record()
        told = {"born": record.births, "back": record.revivals, "dead": record.deaths}
        known = zip(model.cluster_ids_.tolist(), model.cluster_centers_, strict=True)
        yield batch, told, ids, dict(known)


def direction(group: int, step: int) -> np.ndarray:
    """Five directions in a ring around the eye, which turns."""
    polar, turn = math.radians(46), math.radians(72 * group + 0.9 * step)
    seen = math.sin(polar) * math.cos(turn), math.sin(polar) * math.sin(turn), math.cos(polar)
    return np.asarray(seen) @ VIEW


def _color(number: int) -> str:
    return PALETTE[number % len(PALETTE)]


def draw_globe(ax: Axes, rows: np.ndarray, ids: np.ndarray, centers: dict[int, np.ndarray]) -> None:
    """Rows in the colours of their ids, and a number at each direction that can be seen."""
    _prepare(ax, width=2.1, height=2.1)
    _draw_globe(ax)
    seen = rows @ VIEW.T
    for is_near, size, strength in ((False, 4.0, 0.15), (True, 9.0, 0.9)):
        chosen = (seen[:, 2] > 0) == is_near
        colors = [_color(number) for number in ids[chosen]]
        ax.scatter(seen[chosen, 0], seen[chosen, 1], s=size, c=colors, alpha=strength, linewidths=0, zorder=3)
    present = set(ids.tolist())
    for number, center in centers.items():
        x, y, depth = VIEW @ center
        if depth < 0.1:
            continue
        is_here = number in present
        ax.text(
            x, y, str(number), ha="center", va="center", fontsize=13, fontweight="bold", zorder=5,
            color="white" if is_here else _color(number),
            bbox={"boxstyle": "circle,pad=0.25", "facecolor": _color(number) if is_here else "white",
                  "edgecolor": _color(number), "linestyle": "-" if is_here else ":", "linewidth": 1.4},
        )  # fmt: skip


def draw_lives(ax: Axes, lives: dict[int, list[str]], step: int, said: list[tuple[int, int, str]]) -> None:
    """A line for each id: full where it has rows, dotted where it is only remembered."""
    ax.set_xlim(-1, N_STEPS + 9)
    ax.set_ylim(len(PALETTE) / 2 - 0.9, -0.75)
    for number, life in lives.items():
        for state, style in LINES.items():
            line = [number if one == state else np.nan for one in life]
            ax.plot(np.arange(len(life)), line, color=_color(number), **style)
    for when, number, word in said:
        ax.text(when, number - 0.27, word, fontsize=9.5, color=INK, ha="left", va="bottom")
    ax.axvline(step, color=PALE_INK, linewidth=0.8)
    ax.set_yticks(sorted(lives), [f"id {number}" for number in sorted(lives)], color=INK, fontsize=11)
    ax.set_xticks([])
    ax.set_xlabel(f"batch {step + 1} of {N_STEPS}", color=INK, fontsize=10, loc="left")
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def pixels(figure: Figure, dots: float = 100.0) -> Image.Image:
    """The figure as an image on white."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=dots, facecolor="white")
    return Image.open(stream).convert("RGB")


def _with_swatches(frame: Image.Image) -> Image.Image:
    """A frame with much of the colours of ids below it, so that its palette has them beside the greys."""
    larger = Image.new("RGB", (frame.width, frame.height + 60), "white")
    larger.paste(frame)
    for number in range(5):
        larger.paste(_color(number), (120 * number, frame.height, 120 * number + 110, frame.height + 60))
    return larger


def make_stream() -> None:
    """The animation: one palette for all frames, and of each frame only what changed."""
    lives: dict[int, list[str]] = {}
    said: list[tuple[int, int, str]] = []
    frames = []
    for step, (rows, events, ids, centers) in enumerate(scene()):
        for word, numbers in events.items():
            said += [(step, number, word) for number in numbers]
        present = set(ids.tolist())
        for number in centers:
            life = lives.setdefault(number, [""] * step)
            if number not in present and life and life[-1] == "here":
                said.append((step, number, "away"))
        for number, life in lives.items():
            life.append("here" if number in present else "away" if number in centers else "")
        figure = Figure(figsize=(7.6, 3.1))
        draw_globe(figure.add_axes((0.0, 0.02, 0.41, 0.96)), rows, ids, centers)
        draw_lives(figure.add_axes((0.48, 0.12, 0.51, 0.84)), lives, step, said)
        frames.append(pixels(figure))
    shared = _with_swatches(frames[-1]).quantize(224, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    plain = [frame.quantize(palette=shared, dither=Image.Dither.NONE) for frame in frames]
    path = HERE / "stream.gif"
    milliseconds = [90] * (N_STEPS - 1) + [2500]
    plain[0].save(path, save_all=True, append_images=plain[1:], duration=milliseconds, loop=0, optimize=True)
    print(f"{path.name}: {path.stat().st_size:,} bytes, {N_STEPS} frames")


def save(picture: Image.Image, name: str, width: int) -> None:
    """A PNG of a width, small enough to load at once."""
    height = round(picture.height * width / picture.width)
    small = picture.resize((width, height), Image.Resampling.LANCZOS)
    small.save(HERE / name, optimize=True)
    print(f"{name}: {(HERE / name).stat().st_size:,} bytes")


def make_ids() -> None:
    """The stream of the second example, with more steps between."""
    is_present = [[True, not 3 <= step <= 5, True] for step in range(1, 8)]
    batches, _, _ = make_drifting_mixture(
        900, 3, 3, 7, concentration=200.0, rotation=0.02, is_present=is_present, min_angle=1.0, random_state=1
    )
    model = armillary.DDPvMFMeans(max_angle=0.5)
    ax = plot_id_shares([model.partial_fit_predict(batch) for batch in batches])
    ax.set_xticks(range(7), [str(step) for step in range(1, 8)])
    ax.figure.set_size_inches(8.0, 3.0)
    ax.set_position((0.1, 0.2, 0.87, 0.75))
    save(pixels(ax.figure, 140.0), "ids.png", 760)


def make_topics() -> None:
    """The report of the first example in a browser."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("topics.png is left out: there is no Chromium")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = {"cwd": folder, "check": True, "capture_output": True}
        subprocess.run([sys.executable, str(ROOT / "examples" / "messages.py"), "messages.csv"], **run)
        command = ["armillary", "cluster", "messages.csv", "--text-column", "text", "-o", "topics"]
        subprocess.run([sys.executable, "-m", *command], **run)
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1200,1160"]
        subprocess.run([chromium, *flags, "--screenshot=page.png", (folder / "topics" / "report.html").as_uri()], **run)
        with Image.open(folder / "page.png") as page:
            save(page.convert("RGB").crop((36, 405, 1164, 1140)), "topics.png", 820)


def make_camera() -> None:
    """The walk of the third example: four of its frames."""
    walk = make_room_walk(40, width=320, height=240, random_state=0)
    segmenter = DirectionSegmenter(camera=walk.camera)
    frames = [(depth, segmenter.step(depth)) for depth in walk.depths]
    numbers = (0, 13, 26, 39)
    chosen = [frames[number] for number in numbers]
    figure = plot_segmentation(
        [one.labels for _, one in chosen],
        depths=[depth for depth, _ in chosen],
        normals=[one.normals.vectors for _, one in chosen],
        titles=[f"frame {number}" for number in numbers],
    )
    save(pixels(figure, 130.0), "camera.png", 820)


MAKERS = {"stream": make_stream, "ids": make_ids, "topics": make_topics, "camera": make_camera}


def main() -> None:
    """Make those that are named, or all."""
    mpl.rcParams["font.family"] = "DejaVu Sans"
    for name in sys.argv[1:] or MAKERS:
        MAKERS[name]()


if __name__ == "__main__":
    main()
