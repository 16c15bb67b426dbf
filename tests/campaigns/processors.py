"""What holds across processors: every model fitted to the same rows as if on others, its labels and numbers compared.

    python -m tests.campaigns.processors --store

Another processor is another BLAS kernel (OPENBLAS_CORETYPE), other vector functions of NumPy (NPY_DISABLE_CPU_FEATURES)
and other compiled code (NUMBA_CPU_NAME), each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import armillary
from armillary.datasets import make_vmf_mixture

RESULT = Path(__file__).parent / "results" / "processors.json"
_NO_AVX512 = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
SETTINGS: dict[str, dict[str, str]] = {
    "BLAS for AVX2": {"OPENBLAS_CORETYPE": "Haswell"},
    "BLAS for AVX-512": {"OPENBLAS_CORETYPE": "SkylakeX"},
    "BLAS for SSE3": {"OPENBLAS_CORETYPE": "Prescott"},
    "kernels for AVX2": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""},
    "kernels for SSE2": {"NUMBA_CPU_NAME": "generic"},
    "NumPy without AVX-512": {"NPY_DISABLE_CPU_FEATURES": _NO_AVX512},
    "all as without AVX2": {
        "OPENBLAS_CORETYPE": "Prescott",
        "NUMBA_CPU_NAME": "generic",
        "NPY_DISABLE_CPU_FEATURES": _NO_AVX512,
    },
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "SphericalKMeans": ("SphericalKMeans", {"n_clusters": 6}),
    "HierarchicalSphericalKMeans": ("HierarchicalSphericalKMeans", {"n_clusters": (3, 9)}),
    "DPvMFMeans": ("DPvMFMeans", {"max_angle": 1.0}),
    "DDPvMFMeans": ("DDPvMFMeans", {"max_angle": 1.0}),
    "Links": ("Links", {}),
    "VonMisesFisherMixture": ("VonMisesFisherMixture", {"n_components": 6}),
    "BayesianVonMisesFisherMixture": ("BayesianVonMisesFisherMixture", {"n_components": 8}),
    "BayesianVonMisesFisherMixture, few steps": ("BayesianVonMisesFisherMixture", {"n_components": 8, "max_iter": 20}),
    "GibbsVonMisesFisherMixture": (
        "GibbsVonMisesFisherMixture",
        {"n_components": 8, "n_burn_in": 5, "n_draws": 10},
    ),
    "HierarchicalVonMisesFisherMixture": ("HierarchicalVonMisesFisherMixture", {"max_iter": 5}),
    "TemporalVonMisesFisherMixture": ("TemporalVonMisesFisherMixture", {"n_components": 5, "max_iter": 10}),
    "DirichletProcessMixture": ("DirichletProcessMixture", {"n_burn_in": 3, "n_draws": 6}),
    "SoftKMeans": ("SoftKMeans", {"n_components": 6}),
    "MultinomialMixture": ("MultinomialMixture", {"n_components": 6}),
}


def make_rows(folder: Path, n_rows: int) -> None:
    """The same rows for every process: what makes them depends on the processor, too."""
    for n_features in (3, 20, 200):
        X, _, _ = make_vmf_mixture(
            n_rows, n_features, 6, concentration=2.0 * n_features + 20.0, min_angle=0.8, random_state=0
        )
        np.save(folder / f"dense {n_features}.npy", X.astype(np.float32 if n_features == 20 else np.float64))
    counts = np.random.default_rng(0).poisson(0.1, (n_rows, 300)) + 0.0
    for group in range(6):
        counts[group::6, 20 * group : 20 * group + 20] += 1.0
    sp.save_npz(folder / "sparse 300.npz", sp.csr_array(counts), compressed=False)


def fit_all(folder: Path, names: list[str], data: list[str]) -> dict[str, np.ndarray]:
    """Labels and fitted numbers of every model on every set of rows, by "model/rows/attribute"."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.stem not in data:
            continue
        X = np.load(path) if path.suffix == ".npy" else sp.load_npz(path)
        for name in names:
            for attribute, value in _fitted(name, X).items():
                found[f"{name}/{path.stem}/{attribute}"] = value
    return found


def _fitted(name: str, X: Any) -> dict[str, np.ndarray]:
    class_name, parameters = MODELS[name]
    if name == "DirichletProcessMixture" and (sp.issparse(X) or X.shape[1] > 20):
        return {}
    if name == "MultinomialMixture":
        X = abs(X)
    model = getattr(armillary, class_name)(**parameters)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    timed = {"times": np.arange(X.shape[0]) * 4 // X.shape[0]} if class_name.startswith("Temporal") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, **timed)
    values = {key: np.asarray(value) for key, value in vars(model).items() if key.endswith("_") and key[0] != "_"}
    kept = {key: value for key, value in values.items() if value.dtype.kind in "iuf" and "seconds" not in key}
    return kept if "labels_" in kept or name == "MultinomialMixture" else kept | {"labels_": model.predict(X)}


def fit_as_on(setting: dict[str, str], folder: Path, names: list[str], data: list[str]) -> dict[str, np.ndarray]:
    """`fit_all` in a process that takes this processor for another."""
    with tempfile.TemporaryDirectory() as place:
        target = Path(place) / "found.npz"
        command = [sys.executable, "-m", "tests.campaigns.processors", "--dump", str(target), "--rows", str(folder)]
        command += ["--models", ";".join(names), "--data", ";".join(data)]
        # NumPy says at import which features it was told to leave out and does not know
        environment = os.environ | {"PYTHONWARNINGS": "ignore"} | setting
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        with np.load(target) as found:
            return dict(found)


def differences(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    """By model: how many labels differ, and the largest difference of a number beside the largest of its array."""
    told: dict[str, dict[str, Any]] = {}
    for key, value in one.items():
        name, _, attribute = key.split("/")
        entry = told.setdefault(name, {"labels": 0, "numbers": 0.0, "where": "", "other_steps": 0})
        if value.shape != other[key].shape:
            entry["other_steps"] += 1  # what is noted at each step: a fit stopped one earlier or later
            continue
        if value.dtype.kind in "iu":
            entry["labels"] += int(attribute == "labels_") * int(np.sum(value != other[key]))
            continue
        size = np.max(np.abs(value[np.isfinite(value)]), initial=0.0)
        # beside nothing but zeros a difference is told as it is
        gap = np.max(np.abs(np.nan_to_num(value) - np.nan_to_num(other[key])), initial=0.0) / (size if size else 1.0)
        if gap > entry["numbers"]:
            entry["numbers"], entry["where"] = float(gap), key
    return told


def measure(n_rows: int, names: list[str]) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """Every setting beside the processor as it is."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_rows(folder, n_rows)
        data = [path.stem for path in folder.iterdir()]
        plain = fit_as_on({}, folder, names, data)
        for what, told in SETTINGS.items():
            yield what, differences(plain, fit_as_on(told, folder, names, data))


def main() -> None:
    """The command line: measure, print, and store if asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.processors")
    parser.add_argument("--models", default=";".join(MODELS))
    parser.add_argument("--n-rows", type=int, default=600)
    parser.add_argument("--store", action="store_true", help=f"keep what came out in {RESULT.name}")
    parser.add_argument("--dump", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--data", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.models.split(";")
    if options.dump is not None:
        np.savez(options.dump, **fit_all(options.rows, names, options.data.split(";")))
        return
    found: dict[str, Any] = {"machine": platform.machine(), "rows": options.n_rows, "settings": {}}
    for what, told in measure(options.n_rows, names):
        found["settings"][what] = told
        print(what, json.dumps(told, indent=2), flush=True)
        if options.store:
            RESULT.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
