"""The main job on made data: thirty clusters on the sphere, found by spherical k-means, set beside the truth.

    python examples/demo.py --output demo

Prints what was found and leaves two files: a picture of the sphere and the saved model.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.optimize import linear_sum_assignment

import armillary
from armillary.datasets import make_vmf_mixture
from armillary.geometry import sphere
from armillary.metrics import cosine_silhouette_score, geometric_nmi_score, matched_accuracy_score
from armillary.plots import plot_sphere_views


def beside_truth(centers: np.ndarray, counts: np.ndarray, directions: np.ndarray, sizes: np.ndarray) -> Table:
    """Found clusters matched to true ones by angle, the largest first."""
    angles = np.degrees(sphere.angle(directions[:, None, :], centers[None, :, :]))
    true_ids, found_ids = linear_sum_assignment(angles)
    table = Table("true cluster", "true rows", "found rows", "angle between directions", title="Found beside the truth")
    for true_id, found_id in sorted(zip(true_ids, found_ids, strict=True), key=lambda pair: -sizes[pair[0]]):
        angle = f"{angles[true_id, found_id]:.2f} degrees"
        table.add_row(str(true_id), f"{sizes[true_id]:,}", f"{counts[found_id]:,.0f}", angle)
    for column in table.columns:
        column.justify = "right"
    return table


def main() -> None:
    """Make, cluster, print, draw, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("demo"))
    output: Path = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    console = Console()

    console.print("30,000 unit vectors from 30 von Mises-Fisher clusters, at least 18 degrees apart ...")
    X, truth, drawn = make_vmf_mixture(
        30_000, 3, 30, concentration=300.0, min_angle=math.radians(18), random_state=6, dtype=np.float32
    )
    console.print("... clustered by SphericalKMeans(n_clusters=30, n_init=10)")
    model = armillary.SphericalKMeans(n_clusters=30, n_init=10, random_state=0, verbose=1).fit(X)

    console.print(beside_truth(model.cluster_centers_, model.counts_, drawn.directions, np.bincount(truth)))
    console.print(f"rows in the right cluster   {matched_accuracy_score(truth, model.labels_):.1%}")
    console.print(f"mutual information (NMI)    {geometric_nmi_score(truth, model.labels_):.4f}")
    console.print(f"silhouette by cosine        {cosine_silhouette_score(X, model.labels_):.4f}")

    picture, archive = output / "sphere.png", output / "model.safetensors"
    figure = plot_sphere_views(X, model.labels_, centers=model.cluster_centers_)
    figure.suptitle("30 clusters on the sphere, front and back", color="0.25")
    figure.savefig(picture, dpi=150)
    armillary.save(model, archive)
    again = armillary.load(archive)
    same = np.array_equal(again.predict(X), model.labels_)
    console.print(f"\nA picture to look at: {picture}")
    console.print(f"The model, saved:     {archive} (read back, it gives {'the same' if same else 'OTHER'} labels)")


if __name__ == "__main__":
    main()
