"""Sections 1, 3.1, 3.2 and 3.6: corrections of the past, growth of sub-clusters, where small variance serves.

past        the ids that vectors have at the end of a stream beside those that were answered when they came
granularity sub-clusters by T_s
growth      sub-clusters after n vectors and after 2 n of the same persons: cost goes with sub-clusters
complement  DP-vMF-means in one pass, a small-variance method, and Links, both tuned: in 3 and 128 dimensions
budget      DP-vMF-means in one pass with as many settings as `tune_links` tries
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import methods
import numpy as np
from similarities import cluster

import streams
from armillary import Links, tune_links
from armillary.datasets import make_vmf_mixture
from armillary.metrics import matched_accuracy_score

TEST_ORDERS = (10, 11, 12)
HIGH, LOW = 128, 3
N_PERSONS, N_EACH = 30, 30
BROAD = math.radians(60.0)  # the angle to the centre in many dimensions: a cosine of 0.25 between two members
FINENESS, MEMBER, PAIR = (0.3, 0.4, 0.5, 0.6, 0.7), 0.5, 0.9  # T_s, and T_c and T_p beside it
CONCENTRATION, LEAST_ANGLE = 325.0, math.radians(15.0)  # in three


def _links(thresholds: tuple[float, ...], rows: np.ndarray) -> Links:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a sub-cluster for nearly every vector can be the best setting
        return Links(*thresholds).fit(rows)


def past(stream: streams.Stream, thresholds: list[list[float]]) -> list[dict[str, float]]:
    """Every test order of both halves, with the settings that tuning on the other half chose."""
    found = []
    for test, chosen in zip(reversed(stream.halves()), thresholds, strict=True):
        for seed in TEST_ORDERS:
            order = test.order(seed)
            model = _links(tuple(chosen), test.rows[order])
            half = len(order) // 2
            found.append(
                {
                    "answered": matched_accuracy_score(test.persons[order], model.labels_),
                    "now": matched_accuracy_score(test.persons[order], model.labels_now()),
                    "n_subclusters": float(model.n_subclusters_),
                    "n_subclusters_at_half": float(_links(tuple(chosen), test.rows[order[:half]]).n_subclusters_),
                    "n_persons": float(test.n_persons),
                    "n_persons_at_half": float(len(np.unique(test.persons[order[:half]]))),
                }
            )
    return found


def drawn(dimension: int, seed: int) -> streams.Stream:
    """Persons that come in any order: broad clusters in many dimensions, narrow ones in three."""
    rng = np.random.default_rng([dimension, seed])
    persons = rng.permutation(np.repeat(np.arange(N_PERSONS), N_EACH))
    if dimension == LOW:
        rows, persons, _ = make_vmf_mixture(
            N_PERSONS * N_EACH, LOW, N_PERSONS, concentration=CONCENTRATION, min_angle=LEAST_ANGLE, random_state=rng
        )
    else:
        rows = np.empty((len(persons), dimension))
        for person in range(N_PERSONS):
            rows[persons == person] = cluster(dimension, N_EACH, rng, BROAD)[1]
    return streams.Stream(rows.astype(np.float32), persons, np.arange(len(persons)))


def complement(dimension: int, seed: int, n_orders: int) -> dict[str, float]:
    """Both tuned on one draw and tested on the next."""
    tuning, test = drawn(dimension, 2 * seed), drawn(dimension, 2 * seed + 1)
    orders = [tuning.order(one) for one in methods.TUNING_ORDERS[:n_orders]]
    made, _ = methods.links_methods(tuning, orders)
    made[methods.LEADER] = methods.one_pass(tuning, orders)
    answers = {name: made[name].answer(test.rows, test.n_persons)[0] for name in (methods.LINKS, methods.LEADER)}
    return {name: matched_accuracy_score(test.persons, ids) for name, ids in answers.items()}


def growth(dimension: int, seed: int, n_orders: int) -> dict[str, float]:
    """Sub-clusters of made persons after n and 2 n vectors, at cheap settings."""
    stream = drawn(dimension, seed)
    orders = [stream.order(one) for one in methods.TUNING_ORDERS[:n_orders]]
    chosen = methods.links_methods(stream, orders)[0][methods.FAST].settings["thresholds"]
    half = len(stream.rows) // 2
    return {
        "half": float(_links(chosen, stream.rows[:half]).n_subclusters_),
        "all": float(_links(chosen, stream.rows).n_subclusters_),
    }


def granularity(dimension: int, seed: int) -> dict[str, float]:
    """Sub-clusters of made persons by the threshold of sub-clusters, all else the same."""
    rows = drawn(dimension, seed).rows
    return {f"{least:g}": float(_links((MEMBER, least, PAIR), rows).n_subclusters_) for least in FINENESS}


def budget(stream: streams.Stream) -> list[dict[str, float]]:
    """Every test order of both halves by DP-vMF-means in one pass, tuned over as many angles as Links has settings."""
    found = []
    for tuning, test in (stream.halves(), reversed(stream.halves())):
        orders = [tuning.order(seed) for seed in methods.TUNING_ORDERS]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            n_tried = len(tune_links(tuning.rows, tuning.persons, orders=orders).outcomes)
        angles = np.radians(np.linspace(8.0, 80.0, n_tried))
        leader = methods.one_pass(tuning, orders, angles)
        for seed in TEST_ORDERS:
            order = test.order(seed)
            ids, _ = leader.answer(test.rows[order], test.n_persons)
            found.append({"accuracy": matched_accuracy_score(test.persons[order], ids), "n_tried": float(n_tried)})
    return found


def cases(
    folder: Path | None, stored: dict[str, Any], n_runs: int, n_orders: int, *, has_budget: bool = True
) -> dict[str, Callable[[], Any]]:
    """All of them by name; `stored` are the sets of the results, whose settings are taken."""
    found: dict[str, Callable[[], Any]] = {}
    for dimension in (LOW, HIGH):
        for run in range(n_runs):
            found[f"complement in {dimension}, run {run}"] = partial(complement, dimension, run, n_orders)
    for run in range(n_runs):
        found[f"growth in {HIGH}, run {run}"] = partial(growth, HIGH, run, n_orders)
        found[f"granularity in {HIGH}, run {run}"] = partial(granularity, HIGH, run)
    for name, entry in stored.items():
        if folder is None:
            continue
        stream = streams.SETS[name](folder)
        for kind in (methods.LINKS, methods.FAST):
            settings = [way["methods"][kind]["settings"]["thresholds"] for way in entry["directions"]]
            found[f"past, {kind}: {name}"] = partial(past, stream, settings)
        if has_budget:
            found[f"budget: {name}"] = partial(budget, stream)
    return found


def collected(found: dict[str, Any]) -> dict[str, Any]:
    """Runs by what they are of; recorded sets as they are."""
    by_name: dict[str, Any] = {}
    for key, entry in found.items():
        if ", run " in key:
            by_name.setdefault(key.rsplit(", run ", 1)[0], []).append(entry)
        else:
            by_name[key] = entry
    return by_name
