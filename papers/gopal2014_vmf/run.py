"""What Gopal and Yang (2014), Von Mises-Fisher clustering models, claim, and what we measure on real text.

    python papers/gopal2014_vmf/run.py            all: results, claims, which say how long it takes, pictures
    python papers/gopal2014_vmf/run.py --quick    small sets, about a minute, written elsewhere
    python papers/gopal2014_vmf/run.py --only topics    one part; the others are those of the last run

A run that was cut short goes on where it stopped. Recorded text is read where ARMILLARY_SHARED_DATA names the data
folder; without it everything real is skipped, which the results say, and documents drawn from topics are clustered
instead, so that the script is still exercised.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import claims
import counter_examples
import directions
import documents
import first_concentrations
import held_out
import hierarchies
import iterations
import methods
import pictures
import posteriors
import proposals
import slices
import starts
import topics_over_time
import weightings
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

sys.path.append(str(Path(__file__).parents[2]))  # what papers share
from papers.common import (
    CONSOLE,
    NO_DATA,
    cases_of,
    computed,
    resumed,
    shared_data,
    temporary_folder,
    track,
    versions,
)

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Runs:
    """How often one set is clustered."""

    at_classes: int  # runs at as many clusters as classes, for each start
    elsewhere: int  # runs at half and twice as many, from random labels
    lda: int  # runs of LDA at as many clusters as classes; it is slow
    splits: int  # for held-out likelihood
    trees: int = 0  # splits for trees
    lasts: tuple[int, ...] = ()  # slices of time, each learned up to and scored on the next
    starts: int = 0  # seeds of first concentrations
    ways: int = 0  # splits for the ways to the posterior
    details: int = 0  # seeds for weightings, iterations, proposals and directions
    tries: int = 0  # seeds for starts


SIZES: dict[str, dict[str, Runs]] = {
    "full": {
        "CNAE-9": Runs(10, 5, 3, 3, trees=2, starts=5, ways=10, details=3, tries=20),
        "BBC": Runs(5, 3, 2, 2, starts=5, ways=10, details=3, tries=20),
        "re0": Runs(5, 3, 2, 3, trees=2, starts=5, ways=10, details=3, tries=20),
        "fbis": Runs(3, 2, 1, 2, starts=3, ways=10, details=3, tries=20),
        "k1a": Runs(3, 2, 1, 2, trees=1, starts=3, ways=10, details=3, tries=20),
        "k1b": Runs(3, 2, 1, 0, starts=3, tries=20),
        "R8": Runs(3, 1, 1, 1, starts=3, tries=20),
        "Reuters": Runs(2, 1, 1, 1, lasts=(3, 5), starts=2, tries=10),
        "TDT2": Runs(2, 1, 0, 1, lasts=(7, 15), starts=2, tries=10),
        "20 Newsgroups": Runs(2, 1, 1, 1, starts=1, tries=10),
        "NIPS": Runs(0, 0, 0, 1, trees=1, lasts=(1991, 1993, 1995, 1997)),
    },
    "quick": {
        "CNAE-9": Runs(3, 1, 1, 1, trees=1, starts=1, ways=1, details=1, tries=2),
        "BBC": Runs(2, 1, 0, 1),
        "re0": Runs(2, 1, 0, 1),
        "k1a": Runs(1, 0, 0, 0),
        "NIPS": Runs(0, 0, 0, 0, lasts=(1989,)),
    },
    "toy": {"CNAE-9": Runs(1, 0, 0, 0), "re0": Runs(1, 0, 0, 1)},
}
N_TOPICS = 30  # in time
GIBBS = {"full": (200, 100), "quick": (50, 20), "toy": (5, 5)}  # burn-in and draws
DENSE_SEEDS = 2
Sets = dict[str, tuple[documents.Documents, Runs]]


def cluster(found: documents.Documents, runs: Runs) -> dict[str, Any]:
    """Every method from the same starts, over the number of clusters."""
    rows = documents.tf_idf(found.counts)
    n_classes = found.n_classes
    jobs = [(kind, n_classes, seed) for kind in (claims.RANDOM, claims.PLUS) for seed in range(1, runs.at_classes + 1)]
    others = (max(2, n_classes // 2), 2 * n_classes) if runs.elsewhere else ()
    jobs += [(claims.RANDOM, number, seed) for number in others for seed in range(1, runs.elsewhere + 1)]
    seen: dict[tuple[str, int, str], list[dict[str, float]]] = {}
    for kind, number, seed in track(jobs, f"{found.name} {rows.shape[0]:,} x {rows.shape[1]:,}"):
        start = methods.make_start(rows, number, kind, seed)
        for method in methods.METHODS:
            if method == "LDA" and (kind != claims.RANDOM or number != n_classes or seed > runs.lda):
                continue
            assert found.classes is not None
            line = methods.measure(method, rows, found.counts, found.classes, start)
            seen.setdefault((kind, number, method), []).append(line)
    starts: dict[str, Any] = {}
    for kind, number, method in sorted(seen, key=lambda key: (key[0] != claims.RANDOM, key[1])):
        by_method = starts.setdefault(kind, {}).setdefault(str(number), {})
        by_method[method] = methods.summary(seen[kind, number, method])
    return {
        "shape": [int(size) for size in rows.shape],
        "n_classes": n_classes,
        "n_runs": {"at_classes": runs.at_classes, "elsewhere": runs.elsewhere, "LDA": runs.lda},
        "starts": starts,
    }


def hold_out(found: documents.Documents, runs: Runs) -> dict[str, Any]:
    """Likelihood of the half that was not fitted, over the number of components."""
    n_classes = found.n_classes
    numbers = [max(2, n_classes // 2), n_classes, 2 * n_classes]
    return held_out.over_splits(found, numbers, runs.splits, track)


def run_first_concentrations(sets: Sets, size: str, output: Path) -> dict[str, Any]:
    """By set: every start and seed."""
    cases = {
        f"{name}: {kind}, run {seed}": partial(first_concentrations.measure, found, kind, seed)
        for name, (found, runs) in sets.items()
        for kind in (claims.RANDOM, claims.PLUS)
        for seed in range(1, runs.starts + 1)
    }
    return _by_set(resumed(cases, cases_of(output, size, "first concentrations"), "first concentrations"))


def run_posteriors(sets: Sets, size: str, output: Path) -> dict[str, Any]:
    """By set: every way to the posterior and split."""
    cases = {
        f"{name}: {way}, run {seed}": partial(posteriors.measure, found, way, seed, GIBBS[size])
        for name, (found, runs) in sets.items()
        for way in posteriors.WAYS
        for seed in range(1, runs.ways + 1)
    }
    return _by_set(resumed(cases, cases_of(output, size, "posteriors"), "ways to the posterior"))


def run_details(sets: Sets, size: str, part: str, output: Path) -> dict[str, Any]:
    """By set: one of the parts that run as often on every set, by seed."""
    do: Callable[..., Any] = {
        "weightings": weightings.measure,
        "iterations": iterations.measure,
        "proposals": proposals.measure,
        "directions": directions.measure,
        "starts": starts.measure,
    }[part]

    def asked(runs: Runs) -> int:
        # no chance in proposals but that of the start
        return runs.tries if part == "starts" else min(1, runs.details) if part == "proposals" else runs.details

    cases = {
        f"{name}: {part}, run {seed}": partial(do, found, seed)
        for name, (found, runs) in sets.items()
        for seed in range(1, asked(runs) + 1)
    }
    return {name: by[part] for name, by in _by_set(resumed(cases, cases_of(output, size, part), part)).items()}


def run_counter_examples(sets: Sets, size: str, output: Path, folder: Path) -> dict[str, Any]:
    """Collections that are no text, by start and seed; and what all collections are like."""
    cases: dict[str, Callable[[], Any]] = {
        f"{name}: {kind}, run {seed}": partial(counter_examples.dense, folder, name, kind, seed)
        for name in counter_examples.NAMES
        for kind in (claims.RANDOM, claims.PLUS)
        for seed in range(1, DENSE_SEEDS + 1)
    }
    found = _by_set(resumed(cases, cases_of(output, size, "counter-examples"), "counter-examples"))
    like = {name: counter_examples.quantities(*counter_examples.load(folder, name)) for name in counter_examples.NAMES}
    for name, (one, _) in sets.items():
        if one.classes is not None:
            like[name] = counter_examples.quantities(documents.tf_idf(one.counts), one.classes)
    return {"runs": found, "quantities": like}


def run_topics(sets: Sets, folder: Path, output: Path) -> dict[str, Any]:
    """Figures 5 and 6."""
    nips, vocabulary = sets["NIPS"][0], topics_over_time.vocabulary(folder)
    words, model = topics_over_time.words_over_time(nips, vocabulary)
    sphere, moving, rows = topics_over_time.on_the_sphere(nips)
    pictures.save(pictures.figure_5(model, vocabulary, words["topic"]), output / "figure5.png")
    pictures.save(pictures.figure_6(moving, rows), output / "figure6.png")
    return {"words": words, "sphere": sphere}


def _by_set(cases: dict[str, Any]) -> dict[str, Any]:
    """Set -> start or way -> runs, of cases that are named so."""
    found: dict[str, Any] = {}
    for key, entry in cases.items():
        name, rest = key.split(": ", 1)
        found.setdefault(name, {}).setdefault(rest.rsplit(", run ", 1)[0], []).append(entry)
    return found


def parts_of(size: str, folder: Path | None, output: Path) -> dict[str, Callable[[], dict[str, Any]]]:
    """All parts of a size by name; nothing runs yet."""
    if folder is None:
        runs = Runs(2, 1, 1, 1, trees=1, lasts=(3,), starts=1, ways=1, details=1, tries=2)
        sets: Sets = {"4 topics": (documents.drawn(160, 200, 4, seed=1), runs)}
    else:
        sets = {name: (documents.load(folder, name), runs) for name, runs in SIZES[size].items()}
    shapes = {"full": hierarchies.SHAPES, "quick": hierarchies.SHAPES[:1], "toy": ((2, 2),)}[size]
    n_topics = N_TOPICS if folder else 4

    def grow(found: documents.Documents, runs: Runs) -> dict[str, Any]:
        return hierarchies.over_shapes(found, shapes, runs.trees, track)

    def follow(found: documents.Documents, runs: Runs) -> dict[str, Any]:
        return slices.over_time(found, runs.lasts, n_topics, track)

    jobs: dict[str, tuple[Callable[..., dict[str, Any]], Callable[[Runs], object]]] = {
        "clustering": (cluster, lambda runs: runs.at_classes),
        "held_out": (hold_out, lambda runs: runs.splits),
        "hierarchies": (grow, lambda runs: runs.trees),
        "slices": (follow, lambda runs: runs.lasts),
    }

    def by_set(name: str) -> dict[str, Any]:
        do, is_asked = jobs[name]
        cases = {of: partial(do, *one) for of, one in sets.items() if is_asked(one[1])}
        return resumed(cases, cases_of(output, size, name), word="")

    parts: dict[str, Callable[[], dict[str, Any]]] = {name: partial(by_set, name) for name in jobs}
    parts["first_concentrations"] = lambda: run_first_concentrations(sets, size, output)
    parts["posteriors"] = lambda: run_posteriors(sets, size, output)
    parts |= {name: partial(run_details, sets, size, name, output) for name in claims.DETAILS}
    if folder is not None:
        parts["counter_examples"] = lambda: run_counter_examples(sets, size, output, folder)
        if "NIPS" in sets and size == "full":
            parts["topics"] = lambda: run_topics(sets, folder, output)
    return parts


def draw(results: dict[str, Any], output: Path) -> None:
    """The pictures."""
    clustering = results["clustering"]
    if clustering:
        pictures.save(pictures.by_set(clustering, claims.RANDOM), output / "nmi_random_labels.png")
        pictures.save(pictures.by_set(clustering, claims.PLUS), output / "nmi_plus_plus.png")
    if any(len(entry["starts"][claims.RANDOM]) > 1 for entry in clustering.values()):
        pictures.save(pictures.over_k(clustering, claims.RANDOM), output / "nmi_over_k.png")
    if results["held_out"]:
        pictures.save(pictures.held_out(results["held_out"]), output / "held_out.png")
    for part, over in (("hierarchies", "tree (height, branching)"), ("slices", "learned up to")):
        if results[part]:
            pictures.save(pictures.likelihoods(results[part], over), output / f"{part}.png")


def show(results: dict[str, Any]) -> None:
    """The claims and where they stand."""
    table = Table("claim", "measured", "status", title="Gopal and Yang 2014", show_lines=True)
    for line in claims.lines(results):
        table.add_row(line.claim, line.measured, line.status)
    CONSOLE.print(table)


def main() -> None:
    """Compute, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_const", const="quick", dest="size", default="full")
    parser.add_argument("--toy", action="store_const", const="toy", dest="size", help="a few seconds, for the tests")
    parser.add_argument(
        "--output", type=Path, help="a folder; by default this one for all, a temporary one for --quick"
    )
    parser.add_argument("--only", choices=claims.PARTS, action="append", help="one part; may be given again")
    arguments = parser.parse_args()
    folder = shared_data()
    # only recorded text, all of it, is worth keeping beside the script
    keeps = arguments.size == "full" and folder is not None
    output: Path = arguments.output or (HERE if keeps else temporary_folder(HERE))
    output.mkdir(parents=True, exist_ok=True)
    if folder is None:
        CONSOLE.print(f"Recorded text is skipped: {NO_DATA}. Documents drawn from topics stand in for it.")
    stored = output / "results.json"
    with warnings.catch_warnings():
        # what stops at 200 steps is good enough, for every method alike
        warnings.simplefilter("ignore", ConvergenceWarning)
        parts = parts_of(arguments.size, folder, output)
        asked = {name: part for name, part in parts.items() if name in (arguments.only or claims.PARTS)}
        found, seconds = computed(asked, cases_of(output, arguments.size, "parts"))
    last: dict[str, Any] = {}
    if arguments.only and stored.exists():
        last = json.loads(stored.read_text())
    about = {
        "size": arguments.size,
        "data": claims.RECORDED if folder else f"drawn from topics: {NO_DATA}",
        "seconds": last.get("about", {}).get("seconds", {}) | seconds,
        **versions(),
    }
    results = {"about": about} | {name: found.get(name, last.get(name, {})) for name in claims.PARTS}
    draw(results, output)
    stored.write_text(json.dumps(results, indent=1) + "\n")
    (output / "results.md").write_text(claims.tables(results))
    (output / "claims.md").write_text(claims.page(results))
    show(results)
    CONSOLE.print(f"Results, claims and pictures are in {output}")


if __name__ == "__main__":
    main()
