"""The main job on made data: thirty clusters on the sphere, their number unknown, found and set beside the truth.

    python examples/demo.py --output demo

Then a stream, in which clusters drift, vanish and come back under their ids; then texts, from a csv to named topics and
a report, by the command line. Prints what was found and leaves pictures, a report and saved models to look at.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
from messages import write_messages
from rich.console import Console
from rich.table import Table
from scipy.optimize import linear_sum_assignment

import armillary
from armillary.datasets import make_drifting_mixture, make_vmf_mixture
from armillary.geometry import sphere
from armillary.metrics import cosine_silhouette_score, geometric_nmi_score, matched_accuracy_score
from armillary.plots import plot_angle_table, plot_id_shares, plot_sphere_views

PICTURES = ("sphere.png", "angles.png", "stream.png")


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


def cluster(output: Path, console: Console) -> None:
    """Make, find the angle and the clusters, print, draw, save."""
    console.print("30,000 unit vectors from 30 von Mises-Fisher clusters, at least 18 degrees apart ...")
    X, truth, drawn = make_vmf_mixture(
        30_000, 3, 30, concentration=300.0, min_angle=math.radians(18), random_state=6, dtype=np.float32
    )
    console.print(
        "... clustered by DPvMFMeans, which is not told that there are 30, at the angle with the best silhouette"
    )
    table = armillary.select_max_angle(X, n_init=4, random_state=0, verbose=1)
    model = table.model

    console.print(beside_truth(model.cluster_centers_, model.counts_, drawn.directions, np.bincount(truth)))
    told = armillary.SphericalKMeans(n_clusters=30, n_init=10, random_state=0).fit(X)
    results = Table("", "clusters", "rows in the right cluster", "mutual information", "silhouette by cosine")
    for name, fitted in (
        (f"DPvMFMeans, {math.degrees(table.max_angle):.1f} degrees", model),
        ("SphericalKMeans", told),
    ):
        labels = fitted.labels_
        scores = (geometric_nmi_score(truth, labels), cosine_silhouette_score(X, labels))
        right = f"{matched_accuracy_score(truth, labels):.1%}"
        results.add_row(name, str(fitted.n_clusters_), right, *(f"{score:.4f}" for score in scores))
    console.print(results)

    figure = plot_sphere_views(X, model.labels_, centers=model.cluster_centers_)
    figure.suptitle(f"{model.n_clusters_} clusters on the sphere, front and back", color="0.25")
    figure.savefig(output / "sphere.png", dpi=150)
    plot_angle_table(table).figure.savefig(output / "angles.png", dpi=150)
    archive = output / "model.safetensors"
    armillary.save(model, archive)
    same = np.array_equal(armillary.load(archive).predict(X), model.labels_)
    console.print(f"The model, saved: {archive} (read back, it gives {'the same' if same else 'OTHER'} labels)\n")


def follow(output: Path, console: Console) -> None:
    """A turning scene of six clusters, three of which are away for a while."""
    is_present = np.ones((120, 6), dtype=bool)
    is_present[30:70, 1] = is_present[50:100, 4] = is_present[:40, 5] = False
    batches, truth, _ = make_drifting_mixture(
        5_000,
        3,
        6,
        120,
        concentration=200.0,
        rotation=math.radians(1),
        is_present=is_present,
        min_angle=math.radians(50),
        weights=[5, 4, 3, 2, 2, 2],
        random_state=3,
    )
    console.print("A stream of 120 batches, the scene turning by 1 degree each, followed by DDPvMFMeans:")
    model = armillary.DDPvMFMeans(math.radians(35), drift_concentration=100.0, carry_unseen=True)
    ids = []
    for batch in batches:
        ids.append(model.partial_fit_predict(batch))
        record = model.record()
        for word, happened in (("born", record.births), ("back", record.revivals), ("dead", record.deaths)):
            if happened:
                console.print(f"  step {record.step:3}: {word} {', '.join(map(str, happened))}")
    right = matched_accuracy_score(np.concatenate(truth), np.concatenate(ids))
    console.print(f"rows under the right id, over all steps: {right:.1%}")
    plot_id_shares(ids).figure.savefig(output / "stream.png", dpi=150)


def name_topics(output: Path, console: Console) -> None:
    """Messages to a shop: topics with names, and a report to open, as a user at the command line gets them."""
    table, topics = output / "messages.csv", output / "topics"
    write_messages(table)
    command = ["armillary", "cluster", str(table), "--text-column", "text", "-o", str(topics)]
    console.print(f"\n900 made-up messages to a shop, by the command line:\n$ {' '.join(command)}", highlight=False)
    subprocess.run([sys.executable, "-m", *command], check=True)


def main() -> None:
    """Cluster a set, follow a stream, name topics."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("demo"))
    output: Path = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    console = Console()

    cluster(output, console)
    follow(output, console)
    name_topics(output, console)
    console.print(f"\nA report to open in a browser: {output / 'topics' / 'report.html'}")
    console.print(f"Pictures to look at: {', '.join(str(output / name) for name in PICTURES)}")


if __name__ == "__main__":
    main()
