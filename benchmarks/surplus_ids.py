"""Surplus ids of collections of the service on persons that nothing was chosen on.

    python -m benchmarks.surplus_ids --data shared/data      # into benchmarks/results/surplus_ids.json

Persons are cut into halves. A collection is made by `tune` on one half, labelled: it chooses thresholds, and how
clusters are merged. On the other half it is stated. What stays is the form of the rules of merging, whose few numbers
were found on other cuts of the same faces, and of voices on none.

Lines with a preset are collections of it, on the same halves; their thresholds were found on one half of one cut, so
some of the persons of each half are known to them here.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from armillary import Links
from armillary.metrics import matched_accuracy_score
from armillary.service.models import described, made, tuned
from benchmarks.link_merging import SETS, order, rows_of

RESULTS = Path(__file__).parent / "results" / "surplus_ids.json"
N_CUTS, N_ORDERS = 4, 3


class Found(NamedTuple):
    """What a stream gave."""

    at_once: float  # matched accuracy of what was answered
    now: float  # of the ids by which these go at the end
    surplus: float
    strangers_taken: float  # of persons who came once, the share that shares an id


class Half(NamedTuple):
    """Vectors of half of the persons, in some orders, alone and with one vector of each other person strewn in."""

    plain: list[Any]
    strewn: list[Any]
    n_persons: int


def halves(truth: Any, pieces: Any, cut: int) -> tuple[Half, Half]:
    """One cut; persons are shared out by chance."""
    generator = np.random.default_rng(700 + cut)
    people = generator.permutation(truth.max() + 1)
    parts = people[: len(people) // 2], people[len(people) // 2 :]
    found = []
    for own, rest in (parts, parts[::-1]):
        chosen = np.flatnonzero(np.isin(truth, own))
        lone = np.array([generator.choice(np.flatnonzero(truth == person)) for person in rest])
        plain = [
            chosen[order(None if pieces is None else pieces[chosen], len(chosen), seed)] for seed in range(N_ORDERS)
        ]
        places = [np.sort(generator.integers(0, len(one), len(lone))) for one in plain]
        strewn = [np.insert(one, place, lone) for one, place in zip(plain, places, strict=True)]
        found.append(Half(plain, strewn, len(own)))
    return found[0], found[1]


def measured(rows: Any, truth: Any, half: Half, model: Links, *, with_strangers: bool = True) -> Found:
    """The mean over orders."""
    lines = []
    for plain, strewn in zip(half.plain, half.strewn, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ids = model.fit_predict(rows[plain])
            now = model.current_ids(ids)
            taken = _taken(model, rows, truth, plain, strewn) if with_strangers else np.nan
        accuracy = matched_accuracy_score(truth[plain], ids), matched_accuracy_score(truth[plain], now)
        lines.append([*accuracy, len(np.unique(now)) / half.n_persons - 1.0, taken])
    return Found(*np.mean(lines, axis=0).tolist())


def _taken(model: Links, rows: Any, truth: Any, plain: Any, strewn: Any) -> float:
    now = model.current_ids(model.fit_predict(rows[strewn]))
    codes, counts = np.unique(now, return_inverse=True, return_counts=True)[1:]
    is_stranger = ~np.isin(truth[strewn], truth[plain])
    return float(np.mean(counts[codes[is_stranger]] > 1))


def told(found: list[Found]) -> dict[str, float]:
    """Means, and the largest surplus of one half."""
    mean = {name: round(float(np.mean([getattr(one, name) for one in found])), 4) for name in Found._fields}
    return {**mean, "most_surplus": round(max(one.surplus for one in found), 3)}


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.surplus_ids")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", help="one set; what is stored of others stays")
    options = parser.parse_args()
    stored = json.loads(RESULTS.read_text())["lines"] if options.only is not None and RESULTS.exists() else []
    lines = [line for line in stored if line["set"] != options.only]
    for title, file, kind, preset in SETS:
        if options.only not in (None, title):
            continue
        rows, who, pieces = rows_of(options.data, file, kind)
        truth = np.unique(who, return_inverse=True)[1]
        cuts = [halves(truth, pieces, cut) for cut in range(N_CUTS)]
        every = [half for cut in cuts for half in cut]
        for merging in (None, False, "whole", "lone"):
            asked = {"preset": preset, "parameters": {} if merging is None else {"merge_clusters": merging}}
            found = [measured(rows, truth, half, made(described(asked))) for half in every]
            name = "default of the service" if merging is None else merging
            lines.append({"set": title, "preset": preset, "merge_clusters": name, **told(found)})
            print(json.dumps(lines[-1]), flush=True)
        picked = [tuned(rows[half.plain[0]], truth[half.plain[0]].tolist(), {}) for half in every]
        others = [cut[1 - side] for cut in cuts for side in (0, 1)]
        found = [measured(rows, truth, half, made(facts)) for facts, half in zip(picked, others, strict=True)]
        ways = [str(facts["parameters"]["merge_clusters"]) for facts in picked]
        counts = {way: ways.count(way) for way in sorted(set(ways))}
        lines.append({"set": title, "tuned_on_the_other_half": counts, **told(found)})
        print(json.dumps(lines[-1]), flush=True)
    command = "python -m benchmarks.surplus_ids --data shared/data"
    record = {"command": command, "cuts": N_CUTS, "orders": N_ORDERS, "lines": lines}
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
