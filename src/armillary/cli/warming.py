"""The work of `armillary warmup`: a small fit of every model for every kind of rows, to compile each kernel."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from typing import Any

import numpy as np
import scipy.sparse as sp

import armillary
from armillary.cli.model_names import AUTO, MODELS, entry
from armillary.cli.screen import Screen
from armillary.cores import memory_left, usable_cores
from armillary.datasets import make_vmf_mixture
from armillary.kernels.jit import where_kept
from armillary.metrics import cosine_silhouette_score

# K and D from which on spherical k-means keeps bounds, and fewer
_SHAPES = ((3, 4), (32, 10))
# of which each holds a compiler: 0.4 GB
_MOST_PROCESSES = 8
_PROCESS_BYTES = 500 << 20
_SETTINGS: dict[str, dict[str, Any]] = {
    "skmeans": {"n_clusters": 10},
    "hkmeans": {"n_clusters": (4, 10)},
    "dp": {"max_angle": 1.0, "n_init": 2, "consolidate": True},
    "ddp": {"max_angle": 1.0},
    "gibbs": {"n_burn_in": 2, "n_draws": 3},
    "dpmm": {"n_burn_in": 2, "n_draws": 3},
    "tree": {"max_iter": 3},
}


def warm(names: list[str] | None, screen: Screen) -> None:
    """Fit and use the models named, or all, on made rows of every kind."""
    chosen = [AUTO, *MODELS] if names is None else [name if name == AUTO else entry(name)[0] for name in names]
    tasks = [(name, what, rows) for name in chosen for what, rows in _kinds(name)]
    start = time.perf_counter()
    with screen.heard_nothing(), screen.progress("compiling", len(chosen) + len(tasks), "fits") as advance:
        _warm_side_by_side(chosen, advance)
        # what is on disk is only read here; what two processes wrote at the same moment may be one short
        for name, _, rows in tasks:
            _use(name, rows)
            advance(1)
    seconds = time.perf_counter() - start
    screen.note(f"The kernels of {', '.join(chosen)} are compiled: {seconds:.1f} s. {where_kept()}")


def _warm_side_by_side(chosen: list[str], advance: Callable[[int], None]) -> None:
    """Compile the kernels of each model in a process of its own: numba compiles in one thread of a process."""
    n_processes = min(len(chosen), _processes_with_room())
    if n_processes < 2:
        advance(len(chosen))
        return
    # a process that the system ends, for want of memory, leaves the rest to this one
    with suppress(BrokenProcessPool), ProcessPoolExecutor(n_processes, get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_use_all, name) for name in chosen]):
            done.result()
            advance(1)


def _processes_with_room() -> int:
    """How many compilers have a core and memory each: in a container, more of them would be ended with all it runs."""
    left = memory_left()
    n_processes = min(usable_cores(), _MOST_PROCESSES)
    return n_processes if left is None else min(n_processes, left // _PROCESS_BYTES)


def _use_all(name: str) -> None:
    """Every kind of rows, in a process that says nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _, rows in _kinds(name):
            _use(name, rows)


def _kinds(name: str) -> Iterator[tuple[str, Any]]:
    """Rows of each dtype and shape, dense and sparse."""
    for n_features, n_clusters in _SHAPES:
        X, _, _ = make_vmf_mixture(200, n_features, n_clusters, concentration=50.0, random_state=0)
        X = np.abs(X) if name == "multinomial" else X
        for dtype in (np.float32, np.float64):
            yield f"dense {n_features} {np.dtype(dtype).name}", X.astype(dtype)
            if name != "dpmm":
                yield f"sparse {n_features} {np.dtype(dtype).name}", sp.csr_array(X.astype(dtype))


def _use(name: str, rows: Any) -> None:
    if name == AUTO:
        armillary.AutoClusterer().fit(rows).predict(rows)
        return
    model = getattr(armillary, MODELS[name].class_name)(**_SETTINGS.get(name, {}))
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    model.fit(rows)
    model.predict(rows)
    if hasattr(model, "partial_fit") and MODELS[name].is_streaming:
        model.partial_fit(rows)
    if hasattr(model, "predict_proba"):
        model.predict_proba(rows)
    if hasattr(model, "learn_one") and isinstance(rows, np.ndarray):
        model.learn_one(rows[0])
    labels = np.arange(rows.shape[0]) % 3
    cosine_silhouette_score(rows, labels)
