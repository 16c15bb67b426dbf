"""Mansfield et al. (2018), Links: a high-dimensional online clustering method, on real voice and face embeddings.

    python papers/mansfield2018_links/run.py                      all: results, claims, pictures
    python papers/mansfield2018_links/run.py --only "faces, centred"    one set; the others are those of the last run
    python papers/mansfield2018_links/run.py --only similarities        or behaviour, budgets: one of the parts
    python papers/mansfield2018_links/run.py --toy                a few seconds, for the tests

The paper gives no numbers of its own. Each clusterer is tuned on one half of the persons and answers streams of the
other half, in the same orders, and the other way round. Recorded embeddings are read where ARMILLARY_SHARED_DATA names
the data folder; without it a drawn stream stands in for them, which the results say.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import behaviour
import budgets
import claims
import methods
import numpy as np
import pictures
import similarities
from rich.table import Table

import streams
from armillary.metrics import matched_accuracy_score

sys.path.append(str(Path(__file__).parents[2]))  # what papers share
from papers.common import (
    CONSOLE,
    NO_DATA,
    cases_of,
    computed,
    resumed,
    shared_data,
    temporary_folder,
    versions,
    written,
)

HERE = Path(__file__).parent
TEST_ORDERS = (10, 11, 12)
N_CHECKPOINTS = 12
# runs, trials of a run, and orders to tune on, of what is made
SIZES = {"full": (10, 200, len(methods.TUNING_ORDERS)), "toy": (1, 5, 1)}


def measure(ids: np.ndarray, persons: np.ndarray, seconds: float) -> dict[str, Any]:
    """Accuracy and number of ids as functions of the vectors seen."""
    places = np.unique(np.linspace(0, len(ids), N_CHECKPOINTS + 1).astype(int)[1:])
    return {
        "n_seen": places.tolist(),
        "accuracy": [matched_accuracy_score(persons[:n], ids[:n]) for n in places],
        "n_ids": [len(np.unique(ids[:n])) for n in places],
        "n_persons": [len(np.unique(persons[:n])) for n in places],
        "final_accuracy": matched_accuracy_score(persons, ids),
        "microseconds": 1e6 * seconds / len(ids),
    }


def direction(name: str, tuning: streams.Stream, test: streams.Stream, peers: Any) -> dict[str, Any]:
    """All methods, tuned on one half and tested on the other."""
    orders = [tuning.order(seed) for seed in methods.TUNING_ORDERS]
    made, settings = methods.links_methods(tuning, orders)
    made[methods.LEADER] = methods.one_pass(tuning, orders)
    made[methods.KMEANS] = methods.kmeans()
    if peers is not None:
        made |= methods.peer_methods(peers, name, tuning, orders, settings)
    found: dict[str, Any] = {}
    for method, (chosen, answer) in made.items():
        runs = []
        for seed in TEST_ORDERS:
            order = test.order(seed)
            ids, seconds = answer(test.rows[order], test.n_persons)
            runs.append(measure(ids, test.persons[order], seconds))
        found[method] = {"settings": chosen, "runs": runs}
        accuracy, spent = (np.mean([run[what] for run in runs]) for what in ("final_accuracy", "microseconds"))
        CONSOLE.print(f"  {method}: accuracy {accuracy:.3f}, {spent:.0f} us a vector")
    return {"n_vectors": len(test.rows), "n_persons": test.n_persons, "methods": found}


def measured(name: str, load: Callable[[], streams.Stream], peers: Any, store: Path) -> dict[str, Any]:
    """Each half is tuned on once."""
    stream = load()
    CONSOLE.print(f"{name}: {len(stream.rows):,} x {stream.rows.shape[1]}, {stream.n_persons} persons")
    first, second = stream.halves()
    ways = {
        "there": partial(direction, name, first, second, peers),
        "back": partial(direction, name, second, first, peers),
    }
    return {
        "shape": list(stream.rows.shape),
        "n_persons": stream.n_persons,
        "directions": list(resumed(ways, store, word="").values()),
    }


def run_part(
    part: str, size: str, output: Path, folder: Path | None, sets: dict[str, Any], peers: Any
) -> dict[str, Any]:
    """What is made, and what is measured besides the sets; a run that was cut short goes on."""
    n_runs, n_trials, n_orders = SIZES[size]
    if part == "budgets":
        if folder is None or peers is None:
            return {"skipped": NO_DATA if folder is None else "the peers could not be installed"}
        loads = {name: partial(load, folder) for name, load in streams.SETS.items()}
        cases = budgets.cases(loads, methods.answers(peers))
        return budgets.collected(resumed(cases, cases_of(output, size, part), part))
    if part == "similarities":
        cases = similarities.cases(folder, n_runs, n_trials)
        return similarities.collected(resumed(cases, cases_of(output, size, part), part))
    cases = behaviour.cases(folder, sets, n_runs, n_orders)
    return behaviour.collected(resumed(cases, cases_of(output, size, part), part))


def main() -> None:
    """Compute, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[*streams.SETS, *claims.PARTS], help="compute one set or part")
    parser.add_argument("--toy", action="store_true", help="a drawn stream, without peers")
    parser.add_argument("--output", type=Path, help="a folder; by default this one, or a temporary one without data")
    arguments = parser.parse_args()
    folder = None if arguments.toy else shared_data()
    output: Path = arguments.output or (HERE if folder is not None else temporary_folder(HERE))
    output.mkdir(parents=True, exist_ok=True)
    peers, without = None, "toy run"
    if not arguments.toy and arguments.only not in ("similarities", "behaviour"):
        try:
            peers = methods.Peers(n_threads=1)
        except (OSError, subprocess.CalledProcessError) as error:
            without = f"linkscluster and river could not be installed: {error}"
            CONSOLE.print(without)
    stored = output / "results.json"
    last: dict[str, Any] = {}
    if arguments.only and stored.exists():
        last = json.loads(stored.read_text())
    size, store = "toy" if arguments.toy else "full", cases_of(output, "toy" if arguments.toy else "full", "parts")
    if folder is None:
        CONSOLE.print(f"Recorded embeddings are skipped: {NO_DATA}. A drawn stream stands in for them.")
        streamed = {"drawn": streams.drawn}
    else:
        streamed = {name: partial(load, folder) for name, load in streams.SETS.items()}

    def is_asked(name: str) -> bool:
        return arguments.only in (None, name) or (name == "drawn" and arguments.only not in claims.PARTS)

    of_sets = {
        name: partial(measured, name, load, peers, cases_of(output, size, name))
        for name, load in streamed.items()
        if is_asked(name)
    }
    # parts ask for the sets, which are kept meanwhile
    found, seconds = computed(of_sets, store, is_kept=True)
    sets = {name: found.get(name, last.get("sets", {}).get(name)) for name in streamed}
    sets = {name: entry for name, entry in sets.items() if entry is not None}
    of_parts = {
        part: partial(run_part, part, size, output, folder, sets, peers) for part in claims.PARTS if is_asked(part)
    }
    parts, more = computed(of_parts, store)
    if peers is not None:
        peers.close()
    before = last.get("about", {})
    about = {
        "data": "recorded" if folder else f"drawn: {NO_DATA}",
        "peers": before.get("peers", without) if not of_sets else "run beside" if peers is not None else without,
        "seconds": before.get("seconds", {}) | seconds | more,
        **versions(),
    }
    results = last | {"about": about, "sets": sets, **parts}
    stored.write_text(json.dumps(results, indent=1) + "\n")
    written(of_sets, store)
    (output / "claims.md").write_text(claims.page(results))
    for name, entry in results["sets"].items():
        pictures.save(pictures.over_time(name, entry), output / f"{name.replace(', ', ' ').replace(' ', '_')}.png")
    table = Table("claim", "measured", "status", title="Mansfield et al. 2018", show_lines=True)
    for line in claims.lines(results):
        table.add_row(line.claim, line.measured, line.status)
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
