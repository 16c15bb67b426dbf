"""Section 3.6, and ours: the peers of Links with as many settings as `tune_links` tries.

linkscluster    the very settings that `tune_links` tries, and its own preset: all on one order, the best three on
                three, as Links itself
DBSTREAM        as many, over its radius and its intersection factor, on the first 400 vectors of one order: it is slow
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import methods
import numpy as np

import streams
from armillary import tune_links
from armillary.metrics import matched_accuracy_score

TEST_ORDERS = (10, 11, 12)
FACTORS = (0.1, 0.3)
LEAST_RADIUS, MOST_RADIUS = 0.15, 0.9
PEERS = (methods.PEER, methods.DBSTREAM)


def measure(
    load: Callable[[], streams.Stream], answer: methods.Answer, peer: str, preset: tuple[float, ...], *, is_back: bool
) -> dict[str, Any]:
    """Accuracy on every test order of one half, tuned on the other, and how many settings were tried."""
    halves = load().halves()
    tuning, test = reversed(halves) if is_back else halves
    orders = [tuning.order(seed) for seed in methods.TUNING_ORDERS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        tried = [outcome[:3] for outcome in tune_links(tuning.rows, tuning.persons, orders=orders).outcomes]
    if peer == methods.PEER:
        chosen = methods.choose(
            [*tried, preset], tuning, orders, lambda rows, one: answer("linkscluster", one, rows)[0]
        )
        name, settings = "linkscluster", [*chosen]
    else:
        settings = methods.choose(
            grid(len(tried)),
            tuning,
            [orders[0][: methods.DBSTREAM_ROWS]],
            lambda rows, one: answer("dbstream", one, rows)[0],
        )
        name = "dbstream"
    found = []
    for seed in TEST_ORDERS:
        order = test.order(seed)
        found.append(matched_accuracy_score(test.persons[order], answer(name, settings, test.rows[order])[0]))
    return {"accuracy": found, "n_tried": len(tried), "settings": settings}


def grid(n: int) -> list[dict[str, float]]:
    """So many settings of DBSTREAM."""
    radii = np.linspace(LEAST_RADIUS, MOST_RADIUS, math.ceil(n / len(FACTORS)))
    found = [methods.dbstream_settings(float(radius), factor) for radius in radii for factor in FACTORS]
    return found[:n]


def cases(
    sets: dict[str, Callable[[], streams.Stream]], answer: methods.Answer
) -> dict[str, Callable[[], dict[str, Any]]]:
    """By set, peer and direction; nothing runs yet."""
    return {
        f"{name}: {peer}, {way}": partial(measure, load, answer, peer, methods.preset_of(name), is_back=way == "back")
        for name, load in sets.items()
        for peer in PEERS
        for way in ("there", "back")
    }


def collected(found: dict[str, Any]) -> dict[str, Any]:
    """Set -> peer -> both directions."""
    by_set: dict[str, Any] = {}
    for key, entry in found.items():
        name, rest = key.split(": ", 1)
        by_set.setdefault(name, {}).setdefault(rest.rsplit(", ", 1)[0], []).append(entry)
    return by_set
