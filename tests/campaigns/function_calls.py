"""Calls of public functions: good arguments for each, and now and then one that is not.

Which functions there are is found in the public modules; a test holds `FUNCTIONS` and `LEFT_OUT` to them.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import normalized_mutual_info_score, silhouette_samples
from sklearn.metrics.pairwise import cosine_distances
from tests.campaigns import given
from tests.campaigns.given import Random, hostile, one_of
from tests.campaigns.outcomes import Calls, FaultError, Sentence, are_finite

import armillary
from armillary.files import Vectors
from armillary.geometry import sphere
from armillary.report import ReportData
from armillary.vision import Camera

mpl.use("Agg")

Arguments = dict[str, Any]

MODULES = (
    "armillary", "armillary.curation", "armillary.datasets", "armillary.diagnostics", "armillary.distributions.vmf",
    "armillary.files",
    "armillary.geometry.means", "armillary.geometry.rotation", "armillary.geometry.sphere", "armillary.metrics",
    "armillary.plots", "armillary.report", "armillary.vision",
)  # fmt: skip

# Public names that are not called here, each with its reason.
LEFT_OUT = {
    "armillary.LINK_PRESETS": "a table",
    "armillary.__version__": "a word",
    "armillary.open_rows": "takes files, which tests/unit/test_sources.py makes",
    "armillary.curation.Coverage": "a record that a function returns",
    "armillary.curation.CurationPlan": "a record; `curate` is called with it in tests/unit/test_curation.py",
    "armillary.curation.Duplicates": "a record that a function returns",
    "armillary.curation.InvertedLists": "a record that a function returns",
    "armillary.curation.ResidualCodebooks": "a record that a function returns",
    "armillary.curation.curate": "writes folders; tests/unit/test_curation.py",
    "armillary.curation.write_layout": "writes files; tests/unit/test_layouts.py",
    "armillary.datasets.DriftingMixtureTruth": "a record that a function returns",
    "armillary.datasets.SparseTopicsTruth": "a record that a function returns",
    "armillary.datasets.TangentGaussianMixtureTruth": "a record that a function returns",
    "armillary.datasets.VonMisesFisherMixtureTruth": "a record that a function returns",
    "armillary.datasets.VonMisesFisherTreeTruth": "a record that a function returns",
    "armillary.diagnostics.JointTestResult": "a record that a function returns",
    "armillary.diagnostics.PointPartition": "a record that a function returns",
    "armillary.diagnostics.joint_test": "takes a sampler as functions, for the authors of samplers",
    "armillary.diagnostics.marginal_conditional_draws": "takes a sampler as functions",
    "armillary.diagnostics.successive_conditional_draws": "takes a sampler as functions",
    "armillary.distributions.vmf.Fit": "a record that a function returns",
    "armillary.distributions.vmf.MeanPosterior": "a record that a function returns",
    "armillary.files.Documents": "a record that a function returns",
    "armillary.files.read_documents": "takes files, which tests/cli/test_texts.py makes",
    "armillary.files.Vectors": "a record; `write_vectors` is called with it",
    "armillary.files.whole_folder": "a context; tests/campaigns/kills.py kills it",
    "armillary.plots.plot_angle_table": "draws the record of select_max_angle, and nothing else",
    "armillary.plots.plot_comparison": "plot_scores and plot_agreement side by side",
    "armillary.plots.plot_links_table": "draws the record of tune_links, and nothing else",
    "armillary.plots.plot_suggestion": "plot_angle_table and plot_sweep side by side",
    "armillary.plots.plot_sphere_views": "plot_sphere from several sides",
    "armillary.report.ReportData": "a record; `write_report` is called with it",
    "armillary.vision.Atlanta": "a record",
    "armillary.vision.DirectionColors": "colours of a stream; tests/unit/test_planes.py",
    "armillary.vision.LastFrame": "a record of a stream, with its file; tests/unit/test_steady.py",
    "armillary.vision.Plane": "a record that a function returns",
    "armillary.vision.Reason": "names of reasons",
    "armillary.vision.Sensor": "a record of presets",
    "armillary.vision.StreamViewer": "writes a page frame by frame; tests/browser",
    "armillary.vision.WorldFrames": "a record",
    "armillary.vision.colored_points": "takes a SegmentedFrame; tests/unit/test_planes.py",
    "armillary.vision.find_planes": "takes a SegmentedFrame; tests/unit/test_planes.py",
    "armillary.vision.open_poses": "reads files of poses; tests/unit/test_camera.py",
    "armillary.vision.to_open3d": "needs open3d",
    "armillary.vision.write_ply": "takes what colored_points gives; tests/unit/test_planes.py",
    "armillary.vision.Animation": "writes a film frame by frame; tests/unit/test_images.py",
    "armillary.vision.DirectionSegmenter": "a stream of frames; tests/unit/test_segmenter.py",
    "armillary.vision.Frames": "made by open_frames",
    "armillary.vision.Manhattan": "a record",
    "armillary.vision.Normals": "a record that a function returns",
    "armillary.vision.RoomFrame": "a record that a function returns",
    "armillary.vision.RoomWalk": "a record that a function returns",
    "armillary.vision.SegmentedFrame": "a record that a function returns",
}


@lru_cache
def public_names() -> dict[str, Any]:
    """Everything public, by its full name: of `__all__`, or where a module has none what it defines."""
    found = {}
    for place in MODULES:
        module = importlib.import_module(place)
        names = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == place
        ]
        found.update({f"{place}.{name}": getattr(module, name) for name in names})
    return found


# -------------------------------------------------------------------------------------------------- good arguments


def _d(random: Random) -> int:
    return int(one_of(random, given.DIMENSIONS))


def _unit(random: Random, *shape: int) -> np.ndarray:
    rows = random.normal(size=shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def _kappa(random: Random) -> Any:
    return one_of(random, (0.0, 1.0, 50.0, 1e5, 1e-3))


def _points(random: Random) -> Arguments:
    rows = given.some_rows(random, _d(random))
    weights, _ = given.some_weights(random, rows.n_rows)
    return {"points": rows.value, "weights": weights}


def _labels(random: Random, n: int = 20) -> Any:
    labels = random.integers(0, 4, size=n)
    words = np.array(list("abcd"))[labels]
    return one_of(random, (labels, labels, labels.tolist(), words, words.astype(object), labels.astype(np.uint8)))


def _rows_and_labels(random: Random) -> Arguments:
    rows = given.some_rows(random, _d(random))
    return {"X": rows.value, "labels": random.integers(0, 3, size=rows.n_rows or 10)}


def _two_labels(random: Random) -> Arguments:
    return {"truth": _labels(random), "labels": _labels(random)}


def _sizes(random: Random, **more: Any) -> Arguments:
    return {
        "n_samples": int(random.integers(1, 40)),
        "n_features": _d(random),
        "n_clusters": int(random.integers(1, 5)),
        "weights": one_of(random, (None, None, [1.0], [1.0, 2.0])),
        "random_state": one_of(random, (0, None, np.random.default_rng(0))),
        "dtype": one_of(random, (np.float64, np.float32, "float32")),
        **more,
    }


def _mixture(random: Random) -> Arguments:
    return _sizes(
        random,
        min_angle=one_of(random, (0.0, 0.1)),
        noise=one_of(random, (0.0, 0.5, 1.0)),
    )


def _draws(random: Random) -> Any:
    return random.integers(0, 3, size=(int(random.integers(1, 6)), int(random.integers(1, 12))))


def _chains(random: Random) -> Arguments:
    return {"draws": random.normal(size=one_of(random, ((2, 9), (8,), (1, 4))))}


def _depth(random: Random) -> Any:
    depth = random.uniform(0.5, 4.0, size=(12, 16))
    depth[random.random(depth.shape) < 0.1] = one_of(random, (0.0, np.nan, np.inf, -1.0))
    millimetres = 1000 * np.clip(np.nan_to_num(depth), 0.0, 60.0)
    return one_of(random, (depth, depth.astype(np.float32), millimetres.astype(np.uint16)))


def _image(random: Random) -> Any:
    image = random.integers(-1, 4, size=(12, 16))
    return one_of(random, (image, image.astype(np.int32), image.tolist(), image[::2], np.asfortranarray(image)))


@cache
def _camera() -> Camera:
    return Camera(20.0, 20.0, 8.0, 6.0, 16, 12)


def _normals(random: Random) -> np.ndarray:
    return _unit(random, 12, 16, 3).astype(np.float32)


@cache
def _fitted(name: str) -> Any:
    """A model for pictures."""
    rows = given.plain(np.random.default_rng(0), 3)
    small: Arguments = {"random_state": 0, "n_threads": 1}
    if name == "DirichletProcessMixture":
        small |= {"n_burn_in": 2, "n_draws": 5}
    return getattr(armillary, name)(**small).fit(rows)


@cache
def _searched() -> Arguments:
    """Rows and what was found among them."""
    rows = given.plain(np.random.default_rng(0), 3)
    return {"X": rows, "found": armillary.curation.near_duplicates(rows), "n_rows": 10}


def _path(random: Random, name: str) -> Any:
    return one_of(random, (given.folder() / name, str(given.folder() / name), given.folder() / "absent" / name))


def _file(random: Random) -> Any:
    path = given.folder() / "vectors.npy"
    np.save(path, given.plain(random, 3))
    return one_of(random, (path, str(path), given.folder(), given.folder() / "absent.npy", "absent.xyz"))


def _label_file(random: Random) -> Any:
    path = given.folder() / "labels.csv"
    path.write_text("label\n" + "\n".join(map(str, random.integers(0, 3, size=8))) + "\n")
    return one_of(random, (path, str(path), given.folder() / "absent.csv"))


def _image_file(random: Random) -> Any:
    path = given.folder() / "image.png"
    importlib.import_module("armillary.vision").write_id_image(path, random.integers(-1, 5, size=(6, 8)))
    return one_of(random, (path, str(path), given.folder() / "absent.png", given.folder()))


def _model_file(random: Random) -> Any:
    path = given.folder() / "saved.safetensors"
    armillary.save(_fitted("SphericalKMeans"), path)
    return one_of(random, (path, str(path), given.folder() / "absent", __file__))


def _report(random: Random) -> ReportData:
    rows = given.some_rows(random, _d(random))
    n = rows.n_rows or 10
    return ReportData(
        rows.value,
        random.integers(-1, 3, size=n if random.random() < 0.9 else n + 1),
        title=one_of(random, ("Clusters", "<b>", "")),
        ids=one_of(random, (None, [f"=r{i}" for i in range(n)], ["one"])),
        texts=one_of(random, (None, ["<script>"] * n)),
        truth=one_of(random, (None, random.integers(0, 3, size=n))),
    )


def _table(random: Random) -> list[Arguments]:
    return [
        {
            "model": f"m{i}",
            "n_clusters": int(random.integers(1, 50)),
            "score": one_of(random, (0.5, None, -0.1, np.nan)),
        }
        for i in range(int(random.integers(0, 4)))
    ]


def _broadcast(random: Random) -> tuple[Arguments, int]:
    d = _d(random)
    return {"dimension": d, "concentration": one_of(random, (_kappa(random), random.uniform(0, 100, size=3)))}, d


def _curve(random: Random) -> Arguments:
    return _broadcast(random)[0]


def _at_a_point(random: Random, first: str, second: str, *more: str) -> Arguments:
    d, shape = _d(random), one_of(random, ((), (4,), (2, 3)))
    made = {name: _unit(random, *shape, d) for name in (first, second, *more)}
    for name in ("tangent_vec",):
        if name in made:
            made[name] = sphere.to_tangent(made[name], made["base_point"]) * one_of(
                random, (0.0, 1e-200, 1.0, 3.0, 50.0)
            )
    return made


FUNCTIONS: dict[str, Callable[[Random], Arguments]] = {
    # models
    "armillary.choose_model": lambda r: {"X": given.some_rows(r, _d(r)).value, "n_threads": 1},
    "armillary.load": lambda r: {"path": _model_file(r)},
    "armillary.name_clusters": lambda r: {
        "labels": r.integers(-1, 3, size=12),
        "texts": [" ".join(r.choice(["red", "blue", "hat", "coat", "of"], 3)) for _ in range(12)],
        "n_words": int(r.integers(1, 4)),
        "n_representatives": int(r.integers(0, 3)),
    },
    "armillary.save": lambda r: {"model": _fitted("SphericalKMeans"), "path": _path(r, "kept.safetensors")},
    "armillary.select_max_angle": lambda r: {
        "X": given.some_rows(r, _d(r)).value,
        "angles": one_of(r, (None, [0.3, 0.6], np.array([1.0]))),
        "max_iter": 5,
        "n_init": int(r.integers(1, 3)),
        "random_state": 0,
        "n_threads": 1,
    },
    "armillary.find_max_angle": lambda r: {
        "X": given.some_rows(r, _d(r)).value,
        "n_clusters": int(r.integers(1, 5)),
        "max_iter": 5,
        "n_init": int(r.integers(1, 3)),
        "random_state": 0,
        "n_threads": 1,
    },
    "armillary.suggest_max_angle": lambda r: {
        "X": given.some_rows(r, _d(r)).value,
        "n_clusters": int(r.integers(1, 5)),
        "ignore_fraction": one_of(r, (0.0, 0.1)),
        "n_threads": 1,
    },
    "armillary.tune_links": lambda r: {**_rows_and_labels(r), "max_rounds": 1},
    # curation
    "armillary.curation.balanced_sample": lambda r: {
        "model": _fitted("SphericalKMeans"),
        "n_rows": int(r.integers(0, 50)),
        "random_state": int(r.integers(5)),
    },
    "armillary.curation.coverage": lambda r: {"model": _fitted("SphericalKMeans")},
    "armillary.curation.duplicate_recall": lambda r: _searched(),
    "armillary.curation.inverted_lists": lambda r: {"model": _fitted("SphericalKMeans")},
    "armillary.curation.near_duplicates": lambda r: {
        "X": given.some_rows(r, _d(r)).value,
        "threshold": one_of(r, (0.95, 0.5, -1.0, 1.0)),
        "n_searched": int(r.integers(1, 4)),
        "n_threads": 1,
    },
    "armillary.curation.nearest_clusters": lambda r: {
        "model": _fitted("SphericalKMeans"),
        "X": given.plain(r, 3),
        "n_nearest": int(r.integers(1, 12)),
        "n_threads": 1,
    },
    "armillary.curation.residual_codebooks": lambda r: {
        "X": given.plain(r, 3),
        "model": _fitted("SphericalKMeans"),
        "n_levels": int(r.integers(1, 3)),
        "n_codes": int(r.integers(1, 4)),
        "max_iter": 2,
    },
    # datasets
    "armillary.datasets.make_drifting_mixture": lambda r: {
        **_mixture(r),
        "n_steps": int(r.integers(1, 4)),
        "rotation": one_of(r, (0.0, 0.1)),
        "death_probability": one_of(r, (0.0, 0.5, 1.0)),
    },
    "armillary.datasets.make_sparse_topics": lambda r: {
        **_sizes(r),
        "document_length": one_of(r, (5.0, 30.0)),
        "topic_share": one_of(r, (0.0, 0.3, 1.0)),
        "zipf_exponent": one_of(r, (1.05, 2.0)),
    },
    "armillary.datasets.make_tangent_gaussian_mixture": lambda r: {
        **_mixture(r),
        "spread": one_of(r, (0.0, 0.1, 2.0)),
        "degrees_of_freedom": one_of(r, (None, 400.0, np.inf)),
    },
    "armillary.datasets.make_vmf_mixture": lambda r: {
        **_mixture(r),
        "concentration": one_of(r, (None, 10.0, (1.0, 5.0), 1e9)),
    },
    "armillary.datasets.make_vmf_tree": lambda r: {
        "n_samples": int(r.integers(1, 40)),
        "n_features": _d(r),
        "height": int(r.integers(1, 3)),
        "branching": int(r.integers(1, 4)),
        "random_state": 0,
    },
    # diagnostics
    "armillary.diagnostics.coclustering_matrix": lambda r: {"labels": _draws(r)},
    "armillary.diagnostics.compare_draws": lambda r: {
        "marginal": r.normal(size=(40, 2)),
        "successive": r.normal(size=(2, 60, 2)),
        "false_alarm_rate": one_of(r, (0.01, 0.5)),
    },
    "armillary.diagnostics.effective_sample_size": lambda r: {
        "draws": r.normal(size=one_of(r, ((2, 9), (8,), (1, 4))))
    },
    "armillary.diagnostics.expected_losses": lambda r: {"labels": _draws(r)},
    "armillary.diagnostics.point_partition": lambda r: {
        "labels": _draws(r),
        "loss": one_of(r, ("binder", "variation_of_information")),
    },
    "armillary.diagnostics.split_r_hat": _chains,
    # von Mises-Fisher
    "armillary.distributions.vmf.concentration_from_resultant": lambda r: {
        "dimension": _d(r),
        "length": one_of(r, (0.0, 0.3, 0.999999, 1 - 1e-12, r.random(4))),
    },
    "armillary.distributions.vmf.convolved_concentration": lambda r: {
        "dimension": _d(r),
        "first": _kappa(r),
        "second": _kappa(r),
    },
    "armillary.distributions.vmf.entropy": _curve,
    "armillary.distributions.vmf.fit": _points,
    "armillary.distributions.vmf.kl_divergence": lambda r: {
        **_at_a_point(r, "mean", "other_mean"),
        "concentration": _kappa(r),
        "other_concentration": _kappa(r),
    },
    "armillary.distributions.vmf.log_density": lambda r: {
        "points": given.some_rows(r, d := _d(r)).value,
        "mean": _unit(r, d),
        "concentration": _kappa(r),
    },
    "armillary.distributions.vmf.log_marginal_likelihood": lambda r: {
        "count": 7.0,
        "resultant": 5 * _unit(r, d := _d(r)),
        "concentration": _kappa(r),
        "mean_direction_prior": _unit(r, d),
        "mean_concentration_prior": _kappa(r),
    },
    "armillary.distributions.vmf.log_normalizer": _curve,
    "armillary.distributions.vmf.log_predictive_density": lambda r: {
        "points": given.some_rows(r, d := _d(r)).value,
        "mean": _unit(r, d),
        "mean_concentration": _kappa(r),
        "concentration": _kappa(r),
    },
    "armillary.distributions.vmf.mean_posterior": lambda r: {
        "resultant": one_of(r, (0.0, 5.0)) * _unit(r, d := _d(r)),
        "concentration": _kappa(r),
        "mean_direction_prior": _unit(r, d),
        "mean_concentration_prior": _kappa(r),
    },
    "armillary.distributions.vmf.mean_resultant_complement": _curve,
    "armillary.distributions.vmf.mean_resultant_derivative": _curve,
    "armillary.distributions.vmf.mean_resultant_length": _curve,
    "armillary.distributions.vmf.sample": lambda r: {
        "mean": _unit(r, _d(r)),
        "concentration": _kappa(r),
        "size": int(r.integers(0, 9)),
        "random_state": 0,
    },
    # files
    "armillary.files.read_labels": lambda r: {"path": _label_file(r), "n_rows": int(r.integers(7, 10))},
    "armillary.files.restored": lambda r: {"word": one_of(r, ("", "'=1", "plain", "''+2"))},
    "armillary.files.read_vectors": lambda r: {"path": _file(r)},
    "armillary.files.write_vectors": lambda r: {
        "path": _path(r, "rows" + one_of(r, (".npy", ".npz", ".csv", ".jsonl", ".mtx"))),
        "vectors": Vectors(given.plain(r, 3)),
    },
    # geometry
    "armillary.geometry.means.karcher_mean": lambda r: {**_points(r), "max_iter": int(r.integers(1, 30))},
    "armillary.geometry.means.resultant_mean": _points,
    "armillary.geometry.rotation.mean_rotation": lambda r: {
        "source": _unit(r, n := int(r.integers(0, 6)), d := _d(r)),
        "target": _unit(r, n, d),
        "weights": one_of(r, (None, r.random(n))),
    },
    "armillary.geometry.sphere.angle": lambda r: _at_a_point(r, "a", "b"),
    "armillary.geometry.sphere.exp": lambda r: _at_a_point(r, "tangent_vec", "base_point"),
    "armillary.geometry.sphere.geodesic": lambda r: {
        **_at_a_point(r, "start", "end"),
        "fraction": one_of(r, (0.0, 0.5, 1.0, -2.0)),
    },
    "armillary.geometry.sphere.log": lambda r: _at_a_point(r, "point", "base_point"),
    "armillary.geometry.sphere.log_area": lambda r: {"dimension": one_of(r, (2, 3, 3000, np.array([2, 3])))},
    "armillary.geometry.sphere.tangent_coordinates": lambda r: _at_a_point(r, "tangent_vec", "base_point"),
    "armillary.geometry.sphere.tangent_frame": lambda r: {"base_point": _unit(r, 4, _d(r))},
    "armillary.geometry.sphere.tangent_vector": lambda r: {
        "coordinates": r.normal(size=(3, (d := _d(r)) - 1)),
        "base_point": _unit(r, 3, d),
    },
    "armillary.geometry.sphere.to_tangent": lambda r: _at_a_point(r, "vector", "base_point"),
    "armillary.geometry.sphere.transport": lambda r: _at_a_point(r, "tangent_vec", "base_point", "end_point"),
    # metrics
    "armillary.metrics.cosine_silhouette_samples": _rows_and_labels,
    "armillary.metrics.cosine_silhouette_score": _rows_and_labels,
    "armillary.metrics.geometric_nmi_score": _two_labels,
    "armillary.metrics.macro_f1_score": _two_labels,
    "armillary.metrics.matched_accuracy_score": _two_labels,
    "armillary.metrics.purity_score": _two_labels,
    "armillary.metrics.variation_of_information": lambda r: {**_two_labels(r), "base": one_of(r, (2, np.e))},
    # pictures
    "armillary.plots.plot_agreement": lambda r: {"agreement": r.random((2, 2)), "names": ["a", "b"]},
    "armillary.plots.plot_cluster_sizes": lambda r: {"labels": r.integers(-1, 4, size=20), "most_clusters": 3},
    "armillary.plots.plot_condition_numbers": lambda r: {"model": _fitted("DirichletProcessMixture")},
    "armillary.plots.plot_id_shares": lambda r: {"ids": [r.integers(-1, 3, size=9) for _ in range(3)], "most_ids": 2},
    "armillary.plots.plot_scores": lambda r: {"table": _table(r), "scores": ["score"]},
    "armillary.plots.plot_segmentation": lambda r: {"labels": [_image(r)], "most_frames": 2},
    "armillary.plots.plot_silhouettes": lambda r: {
        "silhouettes": r.uniform(-1, 1, size=20),
        "labels": r.integers(-1, 3, size=20),
        "most_clusters": 3,
    },
    "armillary.plots.plot_similarity": lambda r: {"directions": _unit(r, 4, _d(r))},
    "armillary.plots.plot_sphere": lambda r: {
        "X": given.some_rows(r, 3).value,
        "view_from": (1.0, 0.5, 0.2),
        "max_points": 20,
    },
    "armillary.plots.plot_sweep": lambda r: {"table": _table(r)},
    "armillary.plots.plot_tangent_space": lambda r: {
        "model": _fitted("DirichletProcessMixture"),
        "X": given.plain(r, 3),
        "cluster": int(r.integers(-1, 3)),
    },
    "armillary.plots.plot_top_features": lambda r: {"model": _fitted("TemporalVonMisesFisherMixture"), "n": 2},
    "armillary.plots.plot_traces": lambda r: {"model": _fitted("DirichletProcessMixture")},
    "armillary.plots.plot_trajectories": lambda r: {
        "model": _fitted("TemporalVonMisesFisherMixture"),
        "X": given.plain(r, 3),
        "max_points": 10,
    },
    "armillary.plots.plot_tree": lambda r: {"model": _fitted("HierarchicalVonMisesFisherMixture"), "n": 2},
    # report
    "armillary.report.write_report": lambda r: {"path": _path(r, "report.html"), "data": _report(r), "n_threads": 1},
    # vision
    "armillary.vision.Camera": lambda r: {
        "fx": 20.0,
        "fy": one_of(r, (20.0, 1e-3)),
        "cx": 8.0,
        "cy": 6.0,
        "width": 16,
        "height": 12,
    },
    "armillary.vision.atlanta_frames": lambda r: {"directions": r.normal(size=(5, 3)), "weights": r.random(5)},
    "armillary.vision.gravity_direction": lambda r: {"directions": r.normal(size=(5, 3)), "weights": r.random(5)},
    "armillary.vision.overlay": lambda r: {
        "colors": r.integers(0, 255, size=(6, 8, 3)).astype(np.uint8),
        "labels": r.integers(-1, 4, size=(6, 8)),
        "opacity": one_of(r, (0.0, 0.5, 1.0)),
    },
    "armillary.vision.clean_regions": lambda r: {"labels": _image(r), "min_region": int(r.integers(0, 9))},
    "armillary.vision.color_depth": lambda r: {"depth": _depth(r)},
    "armillary.vision.color_labels": lambda r: {"labels": _image(r)},
    "armillary.vision.color_normals": lambda r: {"vectors": _normals(r)},
    "armillary.vision.estimate_normals": lambda r: {
        "depth": _depth(r),
        "camera": _camera(),
        "window": one_of(r, (3, 5)),
        "smoothing": one_of(r, (None, "guided", "bilateral")),
        "n_threads": 1,
    },
    "armillary.vision.make_room_walk": lambda r: {
        "n_frames": int(r.integers(1, 3)),
        "width": 16,
        "height": 12,
        "random_state": 0,
        "n_threads": 1,
    },
    "armillary.vision.open_frames": lambda r: {"paths": _image_file(r)},
    "armillary.vision.read_depth_image": lambda r: {"path": _image_file(r)},
    "armillary.vision.read_id_image": lambda r: {"path": _image_file(r)},
    "armillary.vision.segment": lambda r: {
        "image": _depth(r),
        "model": _fitted("SphericalKMeans"),
        "camera": _camera(),
        "window": 3,
        "n_threads": 1,
    },
    "armillary.vision.smooth_depth": lambda r: {"depth": _depth(r), "camera": _camera(), "radius": 2, "n_threads": 1},
    "armillary.vision.smooth_normals": lambda r: {
        "normals": _normals(r),
        "is_valid": r.random((12, 16)) < 0.9,
        "method": one_of(r, ("bilateral", "total_variation")),
        "radius": 2,
        "max_iter": 3,
        "n_threads": 1,
    },
    "armillary.vision.write_id_image": lambda r: {"path": _path(r, "ids.png"), "labels": _image(r)},
    "armillary.vision.write_image": lambda r: {
        "path": _path(r, "colors.png"),
        "colors": r.integers(0, 255, size=(6, 8, 3)).astype(np.uint8),
    },
    "armillary.vision.write_label_image": lambda r: {"path": _path(r, "labels.png"), "labels": _image(r)},
}

# Seldom called, being slow: pictures, pages, searches.
_SLOW = ("armillary.plots.", "armillary.report.", "armillary.choose_model", "armillary.tune_links", "armillary.select_")
# Arguments that are never spoiled: other libraries judge them, or the work would only be long.
_TRUSTED = {
    "ax", "axes", "colors", "names", "table", "ids", "scores", "max_iter", "n_frames", "n_steps", "max_rounds",
    "n_init", "height", "branching", "model",
}  # fmt: skip
# Answers that say infinity where that is true, or have a NaN for a row without an answer.
_MAY_BE_INFINITE = {
    "armillary.datasets.make_drifting_mixture", "armillary.diagnostics.split_r_hat",
    "armillary.distributions.vmf.concentration_from_resultant", "armillary.metrics.cosine_silhouette_samples",
}  # fmt: skip


def some_functions(random: Random) -> Calls:
    """A trial: a few calls of functions."""
    calls = Calls()
    for _ in range(8):
        name = one_of(random, tuple(FUNCTIONS))
        if name.startswith(_SLOW) and random.random() < 0.9:
            continue
        _one_call(random, calls, name)
    return calls


def _one_call(random: Random, calls: Calls, name: str) -> None:
    function, arguments = public_names()[name], FUNCTIONS[name](random)
    if random.random() < 0.3:
        spoiled = one_of(random, [key for key in arguments if key not in _TRUSTED] or [""])
        if spoiled:
            arguments[spoiled] = hostile(random)
    # a file that is not there, or may not be written, is the system's to tell
    may_raise = (OSError,) if "path" in arguments else ()
    if "paths" in arguments:
        answer = calls.make(name, function, arguments["paths"], may_raise=may_raise)
    else:
        answer = calls.make(name, function, may_raise=may_raise, **arguments)
    if isinstance(answer, Sentence):
        return
    if name not in _MAY_BE_INFINITE and not are_finite(answer):
        raise FaultError(f"{name}({arguments!r:.1000}) is not finite: {answer!r:.500}")
    if name in _ORACLES and set(arguments) == set(FUNCTIONS[name](random)):
        _ORACLES[name](arguments, answer)


def _nmi(arguments: Arguments, answer: float) -> None:
    expected = normalized_mutual_info_score(
        _codes(arguments["truth"]), _codes(arguments["labels"]), average_method="geometric"
    )
    if abs(answer - expected) > 1e-9:
        raise FaultError(f"geometric_nmi_score: {answer} where scikit-learn has {expected}")


def _codes(labels: Any) -> np.ndarray:
    return np.unique(np.asarray(labels, dtype=str), return_inverse=True)[1]


def _silhouette(arguments: Arguments, answer: np.ndarray) -> None:
    rows = arguments["X"]
    if (
        isinstance(rows, np.ndarray)
        and rows.dtype == np.float64
        and np.abs(np.log10(np.abs(rows).max(axis=1))).max() < 9
    ):
        expected = silhouette_samples(np.asarray(rows), arguments["labels"], metric="cosine")
        # rows that are the same but for rounding have a silhouette of chance in scikit-learn
        distances = np.sort(cosine_distances(np.asarray(rows)) + 2.0 * np.eye(len(rows)), axis=1)[:, 0]
        is_told = distances > 1e-9
        if not np.allclose(answer[is_told], expected[is_told], atol=1e-6, equal_nan=True):
            raise FaultError(f"cosine_silhouette_samples: {np.abs(answer - expected).max()} from scikit-learn")


_ORACLES: dict[str, Callable[[Arguments, Any], None]] = {
    "armillary.metrics.geometric_nmi_score": _nmi,
    "armillary.metrics.cosine_silhouette_samples": _silhouette,
}


def uncovered() -> set[str]:
    """Public names that are neither called nor left out for a reason: none."""
    estimators = {
        name for name, value in public_names().items() if inspect.isclass(value) and issubclass(value, BaseEstimator)
    }
    return set(public_names()) - set(FUNCTIONS) - set(LEFT_OUT) - estimators
