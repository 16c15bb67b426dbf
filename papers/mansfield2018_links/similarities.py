"""Sections 2.1 to 2.3 and 3.5: what a cluster of high-dimensional vectors looks like, on made and on recorded ones.

Made clusters are those of eqs. 2 and 3: the angle to the centre has the density sin(theta)^(D-2) exp(-theta^2 / 2
sigma^2), with sigma such that its mode is 45 degrees in every dimension. T_c is the mean cosine to the centre.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import streams
from armillary.geometry import means, sphere
from armillary.models.links.links import Thresholds

sys.path.append(str(Path(__file__).parents[2]))  # what papers share
from papers.common import unit

DIMENSIONS = (3, 32, 128, 256)
LARGE = (128, 256)  # "typical embedding vectors have N >= 128"
MODE = math.radians(45.0)
COUNTS = (1, 2, 5, 10, 50, 200)
COSINE, ANGLE = 0.25, 0.15  # the delta of lemmas 1 and 3, and of lemma 2 in radians
PAIRS = tuple((k, other) for k in COUNTS for other in COUNTS if other <= k)
GROWN = (1, 2, 5, 10)  # vectors of a sub-cluster
# Of the preferred axis: its share of a member's distance from the centre; members, and those nearest to one of them.
LONG_SHARE, N_MEMBERS, N_NEAREST = 0.25, 400, 20
MOST_OF_A_PERSON = 10  # recordings whose vectors are compared


def cluster(dimension: int, n_rows: int, rng: np.random.Generator, mode: float = MODE) -> tuple[np.ndarray, np.ndarray]:
    """A centre (D,) and members (n, D), most of them at the angle `mode` from it."""
    variance = mode * math.tan(mode) / (dimension - 2)
    theta = np.linspace(1e-6, math.pi - 1e-6, 20_001)
    height = (dimension - 2) * np.log(np.sin(theta)) - theta**2 / (2.0 * variance)
    below = np.cumsum(np.exp(height - height.max()))
    drawn = np.interp(rng.random(n_rows) * below[-1], below, theta)
    center = unit(rng.standard_normal(dimension))
    sides = rng.standard_normal((n_rows, dimension))
    sides = unit(sides - (sides @ center)[:, None] * center)
    return center, np.cos(drawn)[:, None] * center + np.sin(drawn)[:, None] * sides


def made(dimension: int, seed: int, n_trials: int) -> dict[str, Any]:
    """Shares beyond the lemmas' deltas, and mean similarities of centroids minus s(k, k')."""
    rng = np.random.default_rng(seed)
    far, wide, askew, similar, mean_angles = [], [], [], [], []
    for _ in range(n_trials):
        center, rows = cluster(dimension, 2 * max(COUNTS), rng)
        half = max(COUNTS)
        strangers = unit(rng.standard_normal((2, dimension)))
        far.append(abs(strangers[0] @ strangers[1]) > COSINE)
        wide.append(np.mean(np.abs(sphere.angle(rows, center[None]) - MODE) > ANGLE))
        sides = unit(rows - (rows @ center)[:, None] * center)
        askew.append(np.mean(np.abs(np.sum(sides[:half] * sides[half:], axis=1)) > COSINE))
        sums = {k: (_direction(rows[:k]), _direction(rows[half : half + k])) for k in COUNTS}
        similar.append([sums[k][0] @ sums[other][1] for k, other in PAIRS] + [float(np.mean(rows @ center))])
        few = rows[:20]
        mean_angles.append(float(sphere.angle(means.karcher_mean(few), _direction(few))))
    found = np.mean(similar, axis=0)
    thresholds = Thresholds(float(found[-1]), 1.0, 1.0)  # T_p = 1: eq. 16 as printed
    return {
        "lemma 1": float(np.mean(far)),
        "lemma 2": float(np.mean(wide)),
        "lemma 3": float(np.mean(askew)),
        "T_c": float(found[-1]),
        "differences": {
            f"{k}, {other}": float(found[number] - thresholds.edge(k, other)) for number, (k, other) in enumerate(PAIRS)
        },
        "means, degrees": math.degrees(float(np.mean(mean_angles))),
    }


def elongated(dimension: int, seed: int, n_trials: int) -> dict[str, float]:
    """Similarities of two members, and of two grown sub-clusters, of round clusters and of elongated ones.

    An elongated cluster has the same angles to its centre; of the way from it a part is along one axis, to and fro. A
    grown sub-cluster is a member with those nearest to it.
    """
    rng = np.random.default_rng([seed, dimension])
    found: dict[str, list[float]] = {f"{kind} {what}": [] for kind in ("round", "long") for what in ("pair", "grown")}
    for _ in range(n_trials):
        center, rows = cluster(dimension, N_MEMBERS, rng)
        heights = (rows @ center)[:, None]
        sides = unit(rows - heights * center)
        axis = rng.standard_normal(dimension)
        axis = unit(axis - (axis @ center) * center)
        along = rng.standard_normal((N_MEMBERS, 1)) * axis
        stretched = unit(math.sqrt(1.0 - LONG_SHARE) * sides + math.sqrt(LONG_SHARE) * along)
        for kind, members in (("round", rows), ("long", heights * center + np.sqrt(1.0 - heights**2) * stretched)):
            half = N_MEMBERS // 2
            found[f"{kind} pair"].append(float(np.mean(np.sum(members[:half] * members[half:], axis=1))))
            grown = [_direction(members[np.argsort(-(members @ members[one]))[:N_NEAREST]]) for one in range(10)]
            found[f"{kind} grown"].append(_between(grown))
    return {name: float(np.mean(values)) for name, values in found.items()}


def recorded(folder: Path, name: str, n_trials: int) -> list[dict[str, Any]]:
    """For each person with enough recordings: centroids of vectors from different ones, and of grown sub-clusters.

    `members`: k vectors of as many recordings against one vector, or k others, of other recordings: s(k) and s(k, k).
    `grown`: k vectors of one recording, near in time, against k of another: what T_p is the limit of.
    """
    stream = streams.SETS[name](folder)
    rng = np.random.default_rng(0)
    people = []
    for person in range(stream.n_persons):
        own = np.flatnonzero(stream.persons == person)
        recordings = [own[stream.recordings[own] == one] for one in np.unique(stream.recordings[own])]
        long = [one for one in recordings if len(one) >= max(GROWN)]
        if len(recordings) < 10 or (len(long) < 4 and name.startswith("voices")):
            continue
        people.append(_person(stream.rows.astype(np.float64), recordings, long, rng, n_trials))
    return people


def recorded_lemmas(folder: Path, name: str) -> list[dict[str, float]]:
    """For each person with enough recordings, of one vector from each: shares beyond the deltas of the three lemmas.

    The centre that a vector is compared with is that of the person's other vectors; for a pair, of all but the two.
    """
    stream = streams.SETS[name](folder)
    rng = np.random.default_rng(0)
    own = [_one_of_each(stream, person, rng) for person in range(stream.n_persons)]
    own = [rows for rows in own if len(rows) >= MOST_OF_A_PERSON]
    angles = [np.array([sphere.angle(row, _direction(np.delete(rows, number, axis=0))).item()
                        for number, row in enumerate(rows)]) for rows in own]  # fmt: skip
    usual = float(np.mean(np.concatenate(angles)))
    found = []
    for person, rows in enumerate(own):
        strangers = np.concatenate([one[:1] for other, one in enumerate(own) if other != person])
        sides = []
        for left, right in combinations(range(len(rows)), 2):
            center = _direction(np.delete(rows, (left, right), axis=0))
            first, second = (unit(rows[one] - (rows[one] @ center) * center) for one in (left, right))
            sides.append(abs(first @ second) > COSINE)
        found.append(
            {
                "lemma 1": float(np.mean(np.abs(rows[:1] @ strangers.T) > COSINE)),
                "lemma 2": float(np.mean(np.abs(angles[person] - usual) > ANGLE)),
                "lemma 3": float(np.mean(sides)),
            }
        )
    return found


def _one_of_each(stream: streams.Stream, person: int, rng: np.random.Generator) -> np.ndarray:
    own = np.flatnonzero(stream.persons == person)
    recordings = [own[stream.recordings[own] == one] for one in np.unique(stream.recordings[own])]
    picked = [int(rng.choice(one)) for one in recordings[:MOST_OF_A_PERSON]]
    return np.asarray(stream.rows[picked], dtype=np.float64)


def _person(
    rows: np.ndarray, recordings: list[np.ndarray], long: list[np.ndarray], rng: np.random.Generator, n_trials: int
) -> dict[str, Any]:
    ks = [k for k in GROWN if 2 * k <= len(recordings)]
    one, both, pair = {k: [] for k in ks}, {k: [] for k in ks}, []
    for _ in range(n_trials):
        drawn = rng.permutation(len(recordings))[: 2 * max(ks)]
        picked = np.array([rng.choice(recordings[number]) for number in drawn])
        pair.append(rows[picked[0]] @ rows[picked[-1]])
        for k in ks:
            left, right = _direction(rows[picked[:k]]), _direction(rows[picked[-k:]])
            one[k].append(left @ rows[picked[-1]])
            both[k].append(left @ right)
    cosine = math.sqrt(max(float(np.mean(pair)), 1e-6))
    thresholds = Thresholds(min(cosine, 1.0 - 1e-6), 1.0, 1.0)
    found: dict[str, Any] = {
        "T_c": cosine,
        "members": {
            str(k): {
                "s(k)": float(np.mean(one[k]) - thresholds.edge(k, 1)),
                "s(k, k)": float(np.mean(both[k]) - thresholds.edge(k, k)),
            }
            for k in ks
        },
    }
    if len(long) >= 2:
        found["grown"] = {str(k): _between([_direction(rows[one[:k]]) for one in long]) for k in GROWN}
        found["whole"] = _between([_direction(rows[one]) for one in long])
    return found


def _between(directions: list[np.ndarray]) -> float:
    return float(np.mean([one @ other for one, other in combinations(directions, 2)]))


def _direction(rows: np.ndarray) -> np.ndarray:
    return unit(rows.sum(axis=0))


def cases(folder: Path | None, n_runs: int, n_trials: int) -> dict[str, Callable[[], Any]]:
    """All of them by name; nothing runs yet."""
    found: dict[str, Callable[[], Any]] = {
        f"{dimension} dimensions, run {run}": partial(made, dimension, run, n_trials)
        for dimension in DIMENSIONS
        for run in range(n_runs)
    }
    found |= {
        f"long, {dimension} dimensions, run {run}": partial(elongated, dimension, run, max(1, n_trials // 10))
        for dimension in LARGE
        for run in range(n_runs)
    }
    if folder is not None:
        for name in ("voices of 10 speakers", "faces, centred"):
            found[name] = partial(recorded, folder, name, n_trials)
            found[f"lemmas, {name}"] = partial(recorded_lemmas, folder, name)
    return found


def collected(found: dict[str, Any]) -> dict[str, Any]:
    """Made and elongated runs by dimension, persons of the recorded sets."""
    made: dict[str, Any] = {str(dimension): [] for dimension in DIMENSIONS}
    long: dict[str, Any] = {str(dimension): [] for dimension in LARGE}
    for key, entry in found.items():
        if key.startswith("long, "):
            long[key.split(" ")[1]].append(entry)
        elif ", run " in key:
            made[key.split(" ")[0]].append(entry)
    rest = {key: entry for key, entry in found.items() if ", run " not in key}
    lemmas = {key.removeprefix("lemmas, "): entry for key, entry in rest.items() if key.startswith("lemmas, ")}
    recorded = {key: entry for key, entry in rest.items() if not key.startswith("lemmas, ")}
    return {"made": made, "elongated": long, "recorded": recorded, "lemmas": lemmas}
