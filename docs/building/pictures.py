"""Pictures of the page that helps to choose a model, made from made data.

python docs/building/pictures.py
"""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from armillary import (
    AutoClusterer,
    DDPvMFMeans,
    DirichletProcessMixture,
    DPvMFMeans,
    SphericalKMeans,
    VonMisesFisherMixture,
)
from armillary.datasets import make_drifting_mixture, make_tangent_gaussian_mixture, make_vmf_mixture
from armillary.distributions import vmf
from armillary.geometry import sphere
from armillary.plots import plot_id_shares, plot_sphere, plot_tangent_space

FOLDER = Path(__file__).parents[1] / "model_pictures"
PLACES = [(0.0, 0.75), (0.75, 0.1), (-0.7, 0.15), (0.1, -0.15), (0.45, -0.85), (-0.5, -0.75)]
VIEW = np.array([1.0, 0.7, 0.6]) / np.linalg.norm([1.0, 0.7, 0.6])


def _sphere() -> tuple[Figure, Axes]:
    return plt.subplots(figsize=(3.2, 3.2), layout="constrained")


def _seen_rows(places: list[tuple[float, float]], concentration: float) -> np.ndarray:
    """Clusters of rows at places in the tangent space of the point that is looked at."""
    directions = sphere.exp(sphere.tangent_vector(np.array(places), VIEW), VIEW)
    drawn = [vmf.sample(one, concentration, 160, random_state=number) for number, one in enumerate(directions)]
    return np.concatenate(drawn)


def auto() -> Figure:
    """Clusters that were found without a parameter."""
    fig, ax = _sphere()
    rows = _seen_rows(PLACES, 70.0)
    plot_sphere(rows, AutoClusterer().fit(rows).labels_, ax=ax, has_axes=False, point_size=4.0)
    return fig


def kmeans() -> Figure:
    """Six directions."""
    fig, ax = _sphere()
    rows = _seen_rows(PLACES, 40.0)
    model = SphericalKMeans(6, n_init=5, random_state=0).fit(rows)
    plot_sphere(rows, model.labels_, centers=model.cluster_centers_, ax=ax, has_axes=False, point_size=4.0)
    return fig


def radius() -> Figure:
    """Clusters within an angle, drawn as circles."""
    fig, ax = _sphere()
    rows = _seen_rows(PLACES[:4], 120.0)
    model = DPvMFMeans(max_angle=0.42).fit(rows)
    turns = np.linspace(0.0, 2.0 * np.pi, 60)
    ring = 0.42 * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    circles = [sphere.exp(sphere.tangent_vector(ring, center), center) for center in model.cluster_centers_]
    together = np.concatenate([rows, *circles])
    labels = np.concatenate([model.labels_, np.repeat(np.arange(len(circles)), len(turns))])
    plot_sphere(together, labels, ax=ax, has_axes=False, far_side="hidden", point_size=4.0)
    return fig


def soft() -> Figure:
    """Two clusters that overlap, rows shaded by their share of one."""
    rows, _, _ = make_vmf_mixture(1_200, 3, 2, concentration=6.0, min_angle=0.9, random_state=8)
    model = VonMisesFisherMixture(2, random_state=0).fit(rows)
    middle = model.means_.sum(axis=0)
    flat = sphere.tangent_coordinates(
        sphere.log(rows, middle / np.linalg.norm(middle)), middle / np.linalg.norm(middle)
    )
    fig, ax = plt.subplots(figsize=(4.2, 3.0), layout="constrained")
    shown = ax.scatter(*flat.T, c=model.predict_proba(rows)[:, 0], s=5, cmap="coolwarm")
    fig.colorbar(shown, label="share of the first cluster")
    ax.set(xticks=[], yticks=[], aspect="equal")
    return fig


def long() -> Figure:
    """A long cluster in its tangent space."""
    rows, _, _ = make_tangent_gaussian_mixture(900, 3, 3, spread=0.15, min_angle=0.9, random_state=3)
    model = DirichletProcessMixture(n_burn_in=10, n_draws=20, random_state=0).fit(rows)
    longest = int(np.argmax(model.condition_numbers()))
    fig, ax = plt.subplots(figsize=(4.4, 3.8), layout="constrained")
    plot_tangent_space(model, rows, longest, ax=ax)
    return fig


def stream() -> Figure:
    """Shares of ids over steps; one group is away."""
    is_present = [[True, not 5 <= step < 10, True] for step in range(16)]
    batches, _, _ = make_drifting_mixture(
        600, 3, 3, 16, concentration=200.0, rotation=0.03, is_present=is_present, min_angle=0.9, random_state=0
    )
    model = DDPvMFMeans(max_angle=0.5)
    fig, ax = plt.subplots(figsize=(5.2, 2.6), layout="constrained")
    plot_id_shares([model.partial_fit_predict(batch) for batch in batches], ax=ax)
    return fig


# Questions from the top, each with answers and the models that they lead to.
QUESTIONS = [
    ("Shall it choose for you?", [("yes", "AutoClusterer")]),
    ("Do rows keep coming,\nand must ids last?", [("in batches", "DDPvMFMeans"), ("one at a time", "Links")]),
    ("Do clusters drift\nover slices of time?", [("yes", "TemporalVonMisesFisherMixture")]),
    (
        "Are there levels?",
        [("many clusters", "HierarchicalSphericalKMeans"), ("a small tree", "HierarchicalVonMisesFisherMixture")],
    ),
    ("Are clusters long or flat?", [("yes", "DirichletProcessMixture")]),
    ("Soft membership?", [("yes", "VonMisesFisherMixture"), ("with doubt", "BayesianVonMisesFisherMixture")]),
    ("Is K known?", [("yes", "SphericalKMeans"), ("no, a radius", "DPvMFMeans")]),
]


def tree() -> Figure:
    """The questions as a tree."""
    fig, ax = plt.subplots(figsize=(8.6, 6.4), layout="constrained")
    box = {"boxstyle": "round,pad=0.45", "facecolor": "#eef3f8", "edgecolor": "#33638d"}
    model_box = box | {"facecolor": "#33638d"}
    arrow = {"arrowstyle": "->", "color": "#555555"}
    for number, (question, answers) in enumerate(QUESTIONS):
        y = -float(number)
        if number:
            ax.annotate("", (0.0, y + 0.28), (0.0, y + 0.72), arrowprops=arrow)
            ax.text(0.04, y + 0.5, "no", va="center", fontsize=9, color="#555555")
        ax.text(0.0, y, question, ha="center", va="center", fontsize=10, bbox=box)
        for place, (answer, model) in enumerate(answers):
            height = y + 0.22 * (len(answers) - 1) - 0.44 * place
            ax.annotate("", (1.5, height), (0.44, y), arrowprops=arrow)
            ax.text(1.15, height + (-0.13 if place else 0.05), answer, ha="center", fontsize=9, color="#555555")
            ax.text(1.55, height, model, va="center", fontsize=10, color="white", bbox=model_box)
    ax.set(xlim=(-0.7, 3.1), ylim=(-len(QUESTIONS) + 0.55, 0.5))
    ax.set_axis_off()
    return fig


def main() -> None:
    """Write them all, in 256 colours and without a date."""
    FOLDER.mkdir(exist_ok=True)
    for make in (tree, auto, kmeans, radius, soft, long, stream):
        fig, memory = make(), io.BytesIO()
        fig.savefig(memory, dpi=110)
        Image.open(memory).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE).save(
            FOLDER / f"{make.__name__}.png", optimize=True
        )
        plt.close(fig)


if __name__ == "__main__":
    main()
