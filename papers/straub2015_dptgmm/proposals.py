"""Section 4: how good the paper's two approximations are, on rows of one cluster with known parameters.

mean        eqs. 13 and 14: a mean drawn from N(Log(mu); 0, Sigma / n) about the Karcher mean, accepted or not; Sigma is
            carried along the geodesic, and the density has no volume factor, as printed
scatter     eq. 11: S at mu from S at the Karcher mean, against the exact sum, at means as the posterior draws them
merge       the same for two clusters side by side, each known by its own sums, at their common mean (section 4.2)
reuse       CPU microseconds of S at a new mean by the exact sum over rows, and by eq. 11 from the sum that is known
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from armillary.geometry import means, sphere

# Standard deviations in every direction, degrees, by dimension; in 20 wider clusters go around the sphere.
SPREADS = {3: (4.0, 12.0, 30.0, 45.0), 20: (4.0, 12.0, 30.0)}
NORMAL = 4.0  # of the sets of section 5.1
COUNTS = (5, 50, 333)  # rows; 333 are those of a cluster there
APART = (15.0, 45.0, 90.0)  # degrees between two clusters that merge


def _rows(dimension: int, n_rows: int, spread: float, rng: np.random.Generator, center: np.ndarray) -> np.ndarray:
    """Rows about a centre; those beyond the far side, where no tangent vector is, are drawn again."""
    steps = rng.normal(scale=spread, size=(4 * n_rows, dimension - 1))
    steps = steps[np.linalg.norm(steps, axis=1) < 3.0][:n_rows]
    return sphere.exp(steps @ sphere.tangent_frame(center).T, center[None])


def _scatter(rows: np.ndarray, at: np.ndarray, frame: np.ndarray) -> np.ndarray:
    places = sphere.log(rows, at[None]) @ frame
    return places.T @ places


def _carried(frame: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    return sphere.transport(frame.T, start[None], end[None]).T


def mean_proposals(dimension: int, n_rows: int, degrees: float, seed: int, n_steps: int) -> dict[str, float]:
    """The share of proposals of eq. 13 that eq. 14 accepts, and the errors of eq. 11 at them."""
    rng = np.random.default_rng([seed, dimension, n_rows, int(degrees)])
    spread = math.radians(degrees)
    rows = _rows(dimension, n_rows, spread, rng, np.eye(dimension)[0])
    mean = means.karcher_mean(rows)
    frame = sphere.tangent_frame(mean)
    around = _scatter(rows, mean, frame)

    def weigh(step: np.ndarray) -> tuple[float, float]:
        """log p minus log q at a step from the mean, and the relative error of eq. 11 there."""
        at = sphere.exp(frame @ step, mean)
        exact = _scatter(rows, at, _carried(frame, mean, at))
        near = around + n_rows * np.outer(step, step)
        log_ratio = -0.5 * float(np.trace(exact)) / spread**2 + 0.5 * n_rows * float(step @ step) / spread**2
        return log_ratio, float(np.linalg.norm(near - exact) / np.linalg.norm(exact))

    now, n_accepted, errors = weigh(np.zeros(dimension - 1))[0], 0, []
    for _ in range(n_steps):
        new, error = weigh(rng.normal(scale=spread / math.sqrt(n_rows), size=dimension - 1))
        errors.append(error)
        if -rng.standard_exponential() < new - now:
            now, n_accepted = new, n_accepted + 1
    return {"accepted": n_accepted / n_steps, "scatter error": float(np.mean(errors))}


def merged(dimension: int, degrees: float, apart: float, seed: int) -> float:
    """The relative error of the merged scatter that is made of the sums of two clusters."""
    rng = np.random.default_rng([seed, dimension, int(degrees), int(apart)])
    first = np.eye(dimension)[0]
    second = math.cos(math.radians(apart)) * first + math.sin(math.radians(apart)) * np.eye(dimension)[1]
    sets = [_rows(dimension, COUNTS[-1], math.radians(degrees), rng, center) for center in (first, second)]
    every = np.concatenate(sets)
    common = means.karcher_mean(every)
    frame = sphere.tangent_frame(common)
    exact = _scatter(every, common, frame)
    near = np.zeros_like(exact)
    for rows in sets:
        own = means.karcher_mean(rows)
        step = sphere.log(own, common) @ frame
        near += _scatter(rows, own, _carried(frame, common, own)) + len(rows) * np.outer(step, step)
    return float(np.linalg.norm(near - exact) / np.linalg.norm(exact))


def reused(dimension: int, seed: int, n_steps: int) -> dict[str, float]:
    """CPU microseconds of a scatter at a new mean, by the sum over rows and by eq. 11."""
    rng = np.random.default_rng([seed, dimension])
    rows = _rows(dimension, COUNTS[-1], math.radians(NORMAL), rng, np.eye(dimension)[0])
    mean = means.karcher_mean(rows)
    frame = sphere.tangent_frame(mean)
    around = _scatter(rows, mean, frame)
    steps = rng.normal(scale=math.radians(NORMAL) / math.sqrt(len(rows)), size=(n_steps, dimension - 1))
    ends = [sphere.exp(frame @ step, mean) for step in steps]
    frames = [_carried(frame, mean, end) for end in ends]
    begin = time.process_time()
    for end, carried in zip(ends, frames, strict=True):
        _scatter(rows, end, carried)
    middle = time.process_time()
    for step in steps:
        _ = around + len(rows) * np.outer(step, step)
    after = time.process_time()
    return {"exact": 1e6 * (middle - begin) / n_steps, "reused": 1e6 * (after - middle) / n_steps}


def cases(n_runs: int, n_steps: int) -> dict[str, Callable[[], Any]]:
    """All settings by name and run; nothing runs yet."""
    found: dict[str, Callable[[], Any]] = {}
    for run in range(n_runs):
        for dimension, spreads in SPREADS.items():
            found[f"reuse: {dimension} dimensions, run {run}"] = partial(reused, dimension, run, n_steps)
            for degrees in spreads:
                for n_rows in COUNTS:
                    name = f"mean: {dimension} dimensions, {degrees:g} degrees, {n_rows} rows, run {run}"
                    found[name] = partial(mean_proposals, dimension, n_rows, degrees, run, n_steps)
                if degrees == NORMAL:
                    for apart in APART:
                        name = f"merge: {dimension} dimensions, {degrees:g} degrees, {apart:g} apart, run {run}"
                        found[name] = partial(merged, dimension, degrees, apart, run)
    return found


def collected(found: dict[str, Any]) -> dict[str, Any]:
    """Setting -> runs."""
    by_name: dict[str, Any] = {}
    for key, entry in found.items():
        by_name.setdefault(key.rsplit(", run ", 1)[0], []).append(entry)
    return by_name
