"""Supplement, section 3: the printed iteration for the walk, and the small-angle form beside the exact one.

Random walks of the paper's beta and up to its 400 frames, one row (labels) or the sum of many (weights). The iteration
is the paper's to the letter: unknown phi, principal arcsines, from 0. Times are CPU microseconds of one walk, both by
`geodesic_walk`, all walks of a run in one call.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from armillary.distributions import geodesic_walk

BETA, MOST_STEPS = 1e5, 400
WIDEST = math.radians(100.0)  # a row farther away is a cluster of its own
WEIGHTS, SUMS = (1.0, 1e6), (1.0, 1e5)  # of what is remembered, and of the rows
DONE, PATIENCE = 1e-12, 100


def printed(
    angle: np.ndarray, weight: np.ndarray, n_steps: np.ndarray, length: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """phi by the printed iteration, NaN where it leaves the arcsine or never settles, and the steps it took."""
    phi, steps = np.zeros_like(angle), np.zeros(len(angle), dtype=int)
    is_open = np.ones(len(angle), dtype=bool)
    with np.errstate(all="ignore"):
        for step in range(1, PATIENCE + 1):
            sine, cosine = BETA * np.sin(phi), BETA * np.cos(phi)
            value = np.arcsin(sine / weight) + n_steps * phi + np.arcsin(sine / length) - angle
            slope = n_steps + cosine / np.sqrt(length**2 - sine**2) + cosine / np.sqrt(weight**2 - sine**2)
            new = np.where(is_open, phi - value / slope, phi)
            steps[is_open] = step
            is_open &= ~(np.abs(new - phi) <= DONE * np.maximum(1.0, np.abs(new)))
            phi = new
    return np.where(is_open, np.nan, phi), steps


def measure(is_sum: bool, seed: int, n_walks: int) -> dict[str, float]:
    """Of one draw: the share of walks that the printed iteration solves, its steps, times, and what is missed."""
    rng = np.random.default_rng([seed, int(is_sum)])
    angle = rng.uniform(0.0, WIDEST, n_walks)
    weight = np.exp(rng.uniform(*np.log(WEIGHTS), n_walks))
    n_steps = rng.integers(1, MOST_STEPS + 1, n_walks).astype(float)
    length = np.exp(rng.uniform(*np.log(SUMS), n_walks)) if is_sum else np.ones(n_walks)
    exact, exact_time = _timed(geodesic_walk.solve, angle, weight, n_steps, length)
    small, small_time = _timed(geodesic_walk.solve_small_angle, angle, weight, n_steps, length)
    phi, steps = printed(angle, weight, n_steps, length)
    is_solved = np.abs(phi - exact.step) <= 1e-9
    return {
        "solved": float(is_solved.mean()),
        "steps": float(np.median(steps[is_solved])),
        "most steps": float(steps[is_solved].max()),
        "exact, microseconds": exact_time,
        "small, microseconds": small_time,
        "off, degrees": math.degrees(float(np.median(np.abs(small.rows - exact.rows)))),
    }


def _timed(solve: Callable[..., Any], angle: np.ndarray, weight: np.ndarray, *links: np.ndarray) -> tuple[Any, float]:
    """The angles, and the least CPU microseconds of one walk over several calls."""
    spent, found = [], None
    for _ in range(5):
        begin = time.process_time()
        found = solve(angle, weight, BETA, *links)
        spent.append(time.process_time() - begin)
    return found, 1e6 * min(spent) / len(angle)


def cases(n_runs: int, n_walks: int) -> dict[str, Callable[[], dict[str, float]]]:
    """Rows and sums by run; nothing runs yet."""
    return {
        f"{name}, run {run}": partial(measure, name == "sums", run, n_walks)
        for name in ("rows", "sums")
        for run in range(n_runs)
    }


def collected(found: dict[str, Any]) -> dict[str, list[Any]]:
    """Rows and sums -> runs."""
    by_name: dict[str, list[Any]] = {}
    for key, entry in found.items():
        by_name.setdefault(key.split(",")[0], []).append(entry)
    return by_name
