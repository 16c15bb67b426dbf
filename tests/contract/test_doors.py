"""Every door by which an index from outside could reach compiled code (DESIGN.md, "Doors"): labels, ids, nodes, images.

Sparse structure has its doors in `tests/unit/test_sparse_structure.py`, model files theirs in `tests/archives`. Each
door is given numbers that are no labels of anything, in a process of its own: it answers, or it says a sentence.
"""

from __future__ import annotations

import subprocess
import sys

_DOORS = """
import faulthandler, sys, warnings
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import armillary
from armillary import diagnostics, metrics, plots, vision
from armillary.exceptions import ArmillaryError
from armillary.report import ReportData, write_report

faulthandler.enable()
warnings.simplefilter("ignore")
X = np.random.default_rng(0).normal(size=(4, 3))
good = np.array([0, 0, 1, 1])
links = armillary.Links().fit(np.repeat(np.eye(3), 4, axis=0))
mixture = armillary.DirichletProcessMixture(n_burn_in=1, n_draws=2, random_state=0).fit(np.repeat(X, 5, axis=0))
temporal = armillary.TemporalVonMisesFisherMixture(2, max_iter=3, random_state=0)
camera = vision.Camera.from_field_of_view(4, 4, 1.0)
segmenter = vision.DirectionSegmenter(camera=camera)
stream = vision.DirectionSegmenter(camera=camera)
stream.step(np.ones((4, 4)))
resumed = lambda last: vision.DirectionSegmenter(camera=camera, model=stream.model, last=last).step(np.ones((4, 4)))
doors = {
    "must_link": lambda v: links.must_link(v[0], v[-1]),
    "cannot_link": lambda v: links.cannot_link(v[0], v[-1]),
    "name": lambda v: links.name(v[0], "a"),
    "labels_now": links.labels_now,
    "current_ids": links.current_ids,
    "events": lambda v: links.events(v[0]),
    "alternatives": lambda v: links.alternatives(X[0], v[0]),
    "silhouette": lambda v: metrics.cosine_silhouette_score(X, v),
    "ignore_label": lambda v: metrics.cosine_silhouette_score(X, good, ignore_label=v[0]),
    "purity": lambda v: metrics.purity_score(good, v),
    "truth": lambda v: metrics.macro_f1_score(v, good),
    "matched": lambda v: metrics.matched_accuracy_score(good, v),
    "information": lambda v: metrics.variation_of_information(good, v),
    "nmi": lambda v: metrics.geometric_nmi_score(good, v),
    "tune_links": lambda v: armillary.tune_links(X, v),
    "partition": lambda v: diagnostics.point_partition([v, v]),
    "losses": lambda v: diagnostics.expected_losses([v, v]),
    "coclustering": lambda v: diagnostics.coclustering_matrix([v, v]),
    "times": lambda v: temporal.fit(X, times=v),
    "slices": lambda v: temporal.fit(X, times=good, slices=v),
    "plot_sphere": lambda v: plots.plot_sphere(X, v),
    "plot_sphere centers": lambda v: plots.plot_sphere(X, v, centers=np.eye(3)),
    "plot_silhouettes": lambda v: plots.plot_silhouettes(np.ones(4), v),
    "plot_cluster_sizes": lambda v: plots.plot_cluster_sizes(v),
    "plot_id_shares": lambda v: plots.plot_id_shares([v, v]),
    "plot_tangent_space": lambda v: plots.plot_tangent_space(mixture, np.repeat(X, 5, axis=0), v[0]),
    "plot_tangent_space labels": lambda v: plots.plot_tangent_space(mixture, X, labels=v),
    "report": lambda v: write_report("page.html", ReportData(X, v)),
    "report truth": lambda v: write_report("page.html", ReportData(X, good, truth=v)),
    "clean_regions": lambda v: vision.clean_regions(np.reshape(v, (2, 2)), 2),
    "color_labels": lambda v: vision.color_labels(np.reshape(v, (2, 2))),
    "write_label_image": lambda v: vision.write_label_image("image.png", np.reshape(v, (2, 2))),
    "write_id_image": lambda v: vision.write_id_image("image.png", np.reshape(v, (2, 2))),
    "depth": lambda v: vision.estimate_normals(np.tile(v, (4, 1)), camera),
    "smooth_depth": lambda v: vision.smooth_depth(np.tile(v, (4, 1)), camera),
    "smooth_normals": lambda v: vision.smooth_normals(np.ones((4, 4, 3)), np.tile(v, (4, 1))),
    "smooth_normals vectors": lambda v: vision.smooth_normals(
        np.repeat(np.tile(v, (4, 1))[:, :, None], 3, axis=2), np.ones((4, 4), dtype=bool)
    ),
    "segment": lambda v: vision.segment(np.tile(v, (4, 1)), armillary.SphericalKMeans(2), camera=camera),
    "frame": lambda v: segmenter.step(np.tile(v, (4, 1))),
    "color_depth": lambda v: vision.color_depth(np.tile(v, (4, 1))),
    "last labels": lambda v: resumed(vision.LastFrame(np.tile(v, (4, 1)), np.ones((4, 4)))),
    "last depth": lambda v: resumed(vision.LastFrame(np.zeros((4, 4), int), np.tile(v, (4, 1)))),
    "normals": lambda v: vision.Normals(np.ones((2, 2, 3)), np.tile(v, (4, 1))).rows(),
    "direction colors": lambda v: vision.DirectionColors().add(v, np.ones((4, 3))),
    "color_normals": lambda v: vision.color_normals(np.repeat(np.tile(v, (4, 1))[:, :, None], 3, axis=2)),
}
strange = {
    "below": np.array([-1, -5, -(2**31), 0]),
    "far below": np.array([-(2**63), 0, 0, 1]),
    "large": np.array([10**9, 0, 1, 1]),
    "beyond 32 bits": np.array([2**40, 0, 1, 1]),
    "the last": np.array([2**63 - 1, 0, 1, 1]),
    "unsigned": np.array([2**64 - 1, 0, 1, 1], dtype=np.uint64),
    "small": np.array([255, 254, 0, 1], dtype=np.uint8),
    "halves": np.array([0.5, 1.5, 0.0, 1.0]),
    "nan": np.array([np.nan, 0.0, 1.0, 1.0]),
    "inf": np.array([np.inf, -np.inf, 1.0, 1.0]),
    "words": np.array(["a", "b", "a", "b"]),
    "objects": np.array([None, 1, "a", 2.5], dtype=object),
    "huge": np.array([10**400, 0, 1, 1], dtype=object),
    "complex": np.array([1j, 0, 1, 1]),
    "dates": np.array(["2024-01-01"] * 4, dtype="M8[D]"),
    "truths": np.array([True, False, True, False]),
}
for name, door in doors.items():
    for kind, values in strange.items():
        if name.startswith(("plot", "report")) and kind not in ("below", "large", "the last", "nan", "words"):
            continue  # drawing takes its time, and these share their checks
        print(name, "|", kind, end=" | ", flush=True)
        try:
            door(values)
        except ArmillaryError:
            print("sentence")
        except Exception as error:
            print(type(error).__name__, str(error)[:200].replace(chr(10), " "))
        else:
            print("answer")
        plt.close("all")
"""


def test_numbers_that_are_no_labels_get_an_answer_or_a_sentence(tmp_path):
    done = subprocess.run([sys.executable, "-c", _DOORS], capture_output=True, check=False, cwd=tmp_path)
    told = done.stdout.decode().splitlines()
    assert done.returncode == 0, f"ended by {done.returncode} at {told[-1:]}: {done.stderr.decode()[-3000:]}"
    assert [line for line in told if not line.endswith(("| sentence", "| answer"))] == []
    assert len(told) > 400
