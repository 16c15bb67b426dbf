"""Section 3.6, and ours: linkscluster with the very settings that `tune_links` tries.

All of them and its own preset on one order, the best three on three, as Links itself. DBSTREAM with as many would take
longer than all the rest of the page.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import methods

import streams
from armillary import tune_links
from armillary.metrics import matched_accuracy_score

TEST_ORDERS = (10, 11, 12)


def measure(
    load: Callable[[], streams.Stream], answer: methods.Answer, preset: tuple[float, ...], *, is_back: bool
) -> dict[str, Any]:
    """Accuracy on every test order of one half, tuned on the other, and how many settings were tried."""
    halves = load().halves()
    tuning, test = reversed(halves) if is_back else halves
    orders = [tuning.order(seed) for seed in methods.TUNING_ORDERS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        tried = [_taken(*outcome[:3]) for outcome in tune_links(tuning.rows, tuning.persons, orders=orders).outcomes]
    chosen = methods.choose([*tried, preset], tuning, orders, lambda rows, one: answer("linkscluster", one, rows)[0])
    found = []
    for seed in TEST_ORDERS:
        order = test.order(seed)
        ids, _ = answer("linkscluster", [*chosen], test.rows[order])
        found.append(matched_accuracy_score(test.persons[order], ids))
    return {"accuracy": found, "n_tried": len(tried), "settings": [*chosen]}


def _taken(cluster: float, subcluster: float, pair: float) -> tuple[float, float, float]:
    """linkscluster refuses a T_p that is T_c^2 but for rounding."""
    return cluster, subcluster, max(pair, cluster * cluster + 1e-9)


def cases(
    sets: dict[str, Callable[[], streams.Stream]], answer: methods.Answer
) -> dict[str, Callable[[], dict[str, Any]]]:
    """By set and direction; nothing runs yet."""
    return {
        f"{name}: {methods.PEER}, {way}": partial(measure, load, answer, methods.preset_of(name), is_back=way == "back")
        for name, load in sets.items()
        for way in ("there", "back")
    }


def collected(found: dict[str, Any]) -> dict[str, Any]:
    """Set -> peer -> both directions."""
    by_set: dict[str, Any] = {}
    for key, entry in found.items():
        name, rest = key.split(": ", 1)
        by_set.setdefault(name, {}).setdefault(rest.rsplit(", ", 1)[0], []).append(entry)
    return by_set
