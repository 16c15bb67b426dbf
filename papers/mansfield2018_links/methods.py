"""The online clusterers that are compared. Each is tuned on the streams of one half, then answers those of the other.

A method is given a stream in order and answers every vector when it comes. What it may not know is the number of
persons, but for mini-batch k-means, which is told it.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from armillary import DPvMFMeans, Links, SphericalKMeans, tune_links
from armillary.metrics import matched_accuracy_score
from streams import Stream

sys.path.append(str(Path(__file__).parents[2]))  # the peers' environment is the benchmarks'
from benchmarks.links_peers import Peers

LINKS, FAST, PEER, PRESET = "Links", "Links, few sub-clusters", "linkscluster", "linkscluster, its preset"
KMEANS, LEADER, DBSTREAM = "mini-batch k-means, K known", "DP-vMF-means, one pass", "DBSTREAM"
PRESETS = {"voices": (0.55, 0.8, 0.9), "faces": (0.6, 0.85, 0.95)}  # of linkscluster: ge2e_voice, facenet
ANGLES = np.radians([10, 14, 18, 20, 22, 24, 27, 30, 35, 40, 44, 48, 52, 56, 60, 65, 70])
RADII = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
TUNING_ORDERS = (0, 1, 2)
_PEER_SETTINGS = 8  # of our best settings that linkscluster may choose from
DBSTREAM_ROWS = 400  # of the tuning stream: it is slow

Answer = Callable[[str, Any, np.ndarray], tuple[np.ndarray, float]]  # a peer, its parameters, rows -> ids, seconds


class Method(NamedTuple):
    """A clusterer with its settings."""

    settings: dict[str, Any]
    answer: Callable[[np.ndarray, int], tuple[np.ndarray, float]]  # rows in order, persons -> ids, seconds


def choose(
    candidates: list[Any], half: Stream, orders: list[np.ndarray], ids_of: Callable[[np.ndarray, Any], np.ndarray]
) -> Any:
    """The candidate with the best accuracy: all are tried on one order, the best three on every order."""

    def accuracy(candidate: Any, order: np.ndarray) -> float:
        return matched_accuracy_score(half.persons[order], ids_of(half.rows[order], candidate))

    first = {number: accuracy(candidate, orders[0]) for number, candidate in enumerate(candidates)}
    if len(orders) == 1:
        return candidates[max(first, key=lambda number: first[number])]
    best = sorted(first, key=lambda number: -first[number])[:3]
    means = {number: first[number] + sum(accuracy(candidates[number], one) for one in orders[1:]) for number in best}
    return candidates[max(means, key=lambda number: means[number])]


def _timed(rows: np.ndarray, learn: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, float]:
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a sub-cluster for nearly every vector can be the best setting
        ids = learn(rows)
    return ids, time.perf_counter() - begin


def links_methods(half: Stream, orders: list[np.ndarray]) -> tuple[dict[str, Method], list[tuple[float, ...]]]:
    """Links as `tune_links` finds it, once among all settings and once among the cheap ones; and the best settings."""
    table = tune_links(half.rows, half.persons, orders=orders)
    ranked = sorted(table.outcomes, key=lambda outcome: outcome.rank)
    cheap = [outcome for outcome in ranked if outcome.n_subclusters <= 3.0 * half.n_persons] or ranked
    made = {}
    for name, outcome in ((LINKS, ranked[0]), (FAST, cheap[0])):
        settings = {"thresholds": [*outcome[:3]], "tuning_accuracy": outcome.accuracy}
        made[name] = Method(settings, _links(outcome[:3]))
    return made, [outcome[:3] for outcome in ranked[:_PEER_SETTINGS]]


def _links(thresholds: tuple[float, ...]) -> Callable[[np.ndarray, int], tuple[np.ndarray, float]]:
    return lambda rows, _: _timed(rows, lambda x: Links(*thresholds).fit(x).labels_)


def one_pass(half: Stream, orders: list[np.ndarray], angles: np.ndarray = ANGLES) -> Method:
    """DP-vMF-means in one pass: the nearest direction within an angle, or a new one; means every 16 vectors."""

    def learn(rows: np.ndarray, angle: float) -> np.ndarray:
        model = DPvMFMeans(angle, n_threads=1)
        return np.concatenate(
            [model.partial_fit(rows[start : start + 16]).labels_ for start in range(0, len(rows), 16)]
        )

    best = choose([float(angle) for angle in angles], half, orders, learn)
    return Method(
        {"max_angle_degrees": float(np.degrees(best))}, lambda rows, _: _timed(rows, lambda x: learn(x, best))
    )


def kmeans() -> Method:
    """Spherical k-means in mini-batches, told K. The first batch has 4 K vectors, later ones 64; answers come late."""

    def learn(rows: np.ndarray, n_persons: int) -> np.ndarray:
        model, ids, start = SphericalKMeans(n_persons, random_state=0, n_threads=1), [], 0
        while start < len(rows):
            stop = start + (64 if ids else 4 * n_persons)
            stop = len(rows) if len(rows) - stop < 64 else stop
            ids.append(model.partial_fit(rows[start:stop]).labels_)
            start = stop
        return np.concatenate(ids)

    return Method({"batch": 64}, lambda rows, n_persons: _timed(rows, lambda x: learn(x, n_persons)))


def preset_of(name: str) -> tuple[float, ...]:
    """The preset of linkscluster for a set."""
    return PRESETS["voices" if name.startswith("voices") else "faces"]


def dbstream_settings(radius: float, factor: float) -> dict[str, float]:
    """Fading off and no weight needed: every vector counts, as for the others."""
    return {
        "clustering_threshold": radius, "intersection_factor": factor, "fading_factor": 1e-6, "minimum_weight": 1.0
    }  # fmt: skip


def answers(peers: Peers) -> Answer:
    """A peer by name, its parameters, and rows in order: ids and seconds."""
    path = Path(tempfile.mkdtemp()) / "rows.npy"

    def run(peer: str, parameters: Any, rows: np.ndarray) -> tuple[np.ndarray, float]:
        np.save(path, rows.astype(np.float64))
        found = peers.run(peer, path, parameters)
        return found.ids, found.seconds

    return run


def peer_methods(
    peers: Peers, name: str, half: Stream, orders: list[np.ndarray], settings: list[tuple[float, ...]]
) -> dict[str, Method]:
    """linkscluster, with the best of our best settings and with its own preset, and river's DBSTREAM."""
    run = answers(peers)

    def answer(peer: str, parameters: Any) -> Callable[[np.ndarray, int], tuple[np.ndarray, float]]:
        return lambda rows, _: run(peer, parameters, rows)

    preset = preset_of(name)
    best = choose([*settings, preset], half, orders, lambda rows, one: run("linkscluster", one, rows)[0])
    grid = [dbstream_settings(radius, factor) for radius in RADII for factor in (0.1, 0.3)]
    few = [orders[0][:DBSTREAM_ROWS]]
    chosen = choose(grid, half, few, lambda rows, one: run("dbstream", one, rows)[0])
    return {
        PEER: Method({"thresholds": [*best]}, answer("linkscluster", best)),
        PRESET: Method({"thresholds": [*preset]}, answer("linkscluster", preset)),
        DBSTREAM: Method(chosen, answer("dbstream", chosen)),
    }
