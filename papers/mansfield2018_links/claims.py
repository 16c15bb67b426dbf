"""The paper's claims beside what `run.py` measured: one function for each, which reads the results and gives a verdict.

`claims.md` is written from `results.json`, so that the page cannot say what was not measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Results = dict[str, Any]
Verdict = tuple[str, str]  # what was measured, status

HOLDS, PARTLY, FAILS, ELSEWHERE = "holds", "holds in part", "does not hold here", "elsewhere"
LINKS, FAST, KMEANS = "Links", "Links, few sub-clusters", "mini-batch k-means, K known"

_HEAD = """# Mansfield, Wang, Downey, Wan and Lopez Moreno (2018): claims and outcomes

Links: a high-dimensional online clustering method. This page is written by `run.py` from `results.json`; do not edit
it.

    ARMILLARY_SHARED_DATA=... python papers/mansfield2018_links/run.py

| claim | where | tolerance | measured | status |
| --- | --- | --- | --- | --- |
"""


class Claim(NamedTuple):
    """What the paper says, and how it is judged."""

    claim: str
    where: str
    tolerance: str
    judge: Callable[[Results], Verdict]


class Line(NamedTuple):
    """A claim with its outcome."""

    claim: str
    where: str
    tolerance: str
    measured: str
    status: str


def lines(results: Results) -> list[Line]:
    """All claims, judged."""
    return [Line(*claim[:3], *claim.judge(results)) for claim in CLAIMS]


def page(results: Results) -> str:
    """`claims.md`."""
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines(results))
    return f"{_HEAD}{table}\n{_accuracies(results)}\n{_settings(results)}\n{_NOTES}"


def final(entry: Results, method: str, what: str = "accuracy") -> float:
    """The mean at the end of all test streams of a set, both directions."""
    found = [run[what][-1] for way in entry["directions"] for run in way["methods"][method]["runs"]]
    return float(np.mean(found))


def _methods(entry: Results) -> list[str]:
    return list(entry["directions"][0]["methods"])


def _rivals(entry: Results) -> list[str]:
    """Online peers that are not told K, and are not Links in any form of ours."""
    return [name for name in _methods(entry) if name not in (LINKS, FAST, KMEANS)]


def _recognises(results: Results) -> Verdict:
    found = {name: final(entry, LINKS) for name, entry in results["sets"].items()}
    words = "; ".join(f"{name} {value:.3f}" for name, value in found.items())
    return words, HOLDS if min(found.values()) >= 0.9 else PARTLY if max(found.values()) >= 0.9 else FAILS


def _beats_peers(results: Results) -> Verdict:
    words, wins = [], []
    for name, entry in results["sets"].items():
        rivals = {rival: final(entry, rival) for rival in _rivals(entry)}
        best = max(rivals, key=lambda rival: rivals[rival])
        ours = final(entry, LINKS)
        words.append(f"{name}: {ours:.3f} against {rivals[best]:.3f} of {best}")
        wins.append(ours >= rivals[best] - 1e-9)
    return "; ".join(words), HOLDS if all(wins) else PARTLY if any(wins) else FAILS


def _beats_known_number(results: Results) -> Verdict:
    pairs = {name: (final(entry, LINKS), final(entry, KMEANS)) for name, entry in results["sets"].items()}
    words = "; ".join(f"{name} {ours:.3f} / {theirs:.3f}" for name, (ours, theirs) in pairs.items())
    wins = [ours >= theirs for ours, theirs in pairs.values()]
    return words, HOLDS if all(wins) else PARTLY if any(wins) else FAILS


def _number_of_ids(results: Results) -> Verdict:
    words, ratios = [], []
    for name, entry in results["sets"].items():
        ids, persons = final(entry, LINKS, "n_ids"), final(entry, LINKS, "n_persons")
        words.append(f"{name}: {ids:.0f} ids of {persons:.0f} persons")
        ratios.append(ids / persons)
    is_near = [0.8 <= ratio <= 1.25 for ratio in ratios]
    return "; ".join(words), HOLDS if all(is_near) else PARTLY if any(is_near) else FAILS


def _speed(results: Results) -> Verdict:
    return "by benchmarks/links.py, beside linkscluster", ELSEWHERE


CLAIMS = (
    Claim(
        "Links recognises people by voice and face embeddings in real time",
        "abstract, 1",
        "matched accuracy of 0.9 or more on persons never tuned on; in part: on some sets",
        _recognises,
    ),
    Claim(
        "(ours) it is more accurate than every online peer that is not told the number of persons",
        "",
        "mean accuracy at least that of the best; in part: on some sets",
        _beats_peers,
    ),
    Claim(
        "(ours) and than mini-batch k-means that is told it (Links / k-means)",
        "",
        "as above",
        _beats_known_number,
    ),
    Claim(
        "(ours) it gives about as many ids as there are persons",
        "",
        "within a quarter; in part: on some sets",
        _number_of_ids,
    ),
    Claim("each vector is clustered as it becomes available, efficiently", "1, 3.2", "", _speed),
)


def _accuracies(results: Results) -> str:
    """Every method on every set: accuracy, ids, microseconds."""
    names = list(results["sets"])
    every = dict.fromkeys(method for entry in results["sets"].values() for method in _methods(entry))
    table = "## Accuracy after matching / ids, at the end of the test streams\n\n"
    table += f"| method | {' | '.join(names)} |\n" + "| --- " * (1 + len(names)) + "|\n"
    for method in every:
        cells = []
        for name in names:
            entry = results["sets"][name]
            if method in _methods(entry):
                cells.append(f"{final(entry, method):.3f} / {final(entry, method, 'n_ids'):.0f}")
            else:
                cells.append("")
        table += f"| {method} | {' | '.join(cells)} |\n"
    persons = [f"{final(results['sets'][name], LINKS, 'n_persons'):.0f}" for name in names]
    return table + f"| persons | {' | '.join(persons)} |\n"


def _settings(results: Results) -> str:
    """What tuning chose, in both directions."""
    lines = ["## Settings that tuning chose (tuned on the first half, on the second)\n"]
    for name, entry in results["sets"].items():
        for method in _methods(entry):
            chosen = [way["methods"][method]["settings"] for way in entry["directions"]]
            lines.append(f"- {name}, {method}: " + "; ".join(_words(settings) for settings in chosen))
    return "\n".join(lines) + "\n"


def _words(settings: Results) -> str:
    if "thresholds" in settings:
        return "T_c {:.3f}, T_s {:.3f}, T_p {:.3f}".format(*settings["thresholds"])
    return ", ".join(f"{key} {value:.4g}" for key, value in settings.items())


_NOTES = """## What stands behind the lines

**Streams.** Recordings come in a random order, windows of a recording (1.6 s, every 0.5 s) in time; each picture of a
face is a recording. Persons are cut into two halves at random; every method is tuned on streams of one half and tested
on three streams of the other, then the other way round: means of six. Accuracy is that of the answers given when each
vector came, after the best one-to-one matching; vectors of unmatched ids are errors.

**Tuning.** `tune_links` on three orders. "Few sub-clusters" is the best of the settings it tried with at most three
sub-clusters a person: nearly one sub-cluster for every vector can be the most accurate, and is slow. linkscluster may
choose from our eight best settings and its own preset, DP-vMF-means in one pass from 17 angles: all on one order, the
best three on the same three orders; the latter answers 16 vectors at a time, after they were learned. DBSTREAM, which
is slow, has 14 settings on the first 400 vectors of one order. Mini-batch k-means needs the true number of persons,
sees 64 vectors (at first four times the number of persons) before it answers, and has no other setting.

**linkscluster** is the same algorithm with other answers where the paper is silent (order of merges, partner of a
re-joining edge, the id before or after the update), and each is given the setting that was best for it on the tuning
half: differences between the two come from there.
"""
