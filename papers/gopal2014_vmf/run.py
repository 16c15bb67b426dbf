"""What Gopal and Yang (2014), Von Mises-Fisher clustering models, claim, and what we measure on real text.

    python papers/gopal2014_vmf/run.py            all, about half an hour: results, claims, pictures
    python papers/gopal2014_vmf/run.py --quick    small sets, about a minute, written elsewhere

Recorded text is read where ARMILLARY_SHARED_DATA names the data folder; without it everything real is skipped, which
the results say, and documents drawn from topics are clustered instead, so that the script is still exercised.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import claims
import documents
import held_out
import hierarchies
import methods
import pictures
import slices
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

sys.path.append(str(Path(__file__).parents[2]))  # what papers share
from papers.common import CONSOLE, NO_DATA, clean, shared_data, temporary_folder, track, versions

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


SIZES: dict[str, dict[str, Runs]] = {
    "full": {
        "CNAE-9": Runs(10, 5, 3, 3, trees=2),
        "BBC": Runs(5, 3, 2, 2),
        "re0": Runs(5, 3, 2, 3, trees=2),
        "fbis": Runs(3, 2, 1, 2),
        "k1a": Runs(3, 2, 1, 2, trees=1),
        "k1b": Runs(3, 2, 1, 0),
        "R8": Runs(3, 1, 1, 1),
        "Reuters": Runs(2, 1, 1, 1, lasts=(3, 5)),
        "TDT2": Runs(2, 1, 0, 1, lasts=(7, 15)),
        "20 Newsgroups": Runs(2, 1, 1, 1),
        "NIPS": Runs(0, 0, 0, 1, trees=1, lasts=(1991, 1993, 1995, 1997)),
    },
    "quick": {
        "CNAE-9": Runs(3, 1, 1, 1, trees=1),
        "BBC": Runs(2, 1, 0, 1),
        "re0": Runs(2, 1, 0, 1),
        "k1a": Runs(1, 0, 0, 0),
        "NIPS": Runs(0, 0, 0, 0, lasts=(1989,)),
    },
    "toy": {"CNAE-9": Runs(1, 0, 0, 0), "re0": Runs(1, 0, 0, 1)},
}
N_TOPICS = 30  # in time


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


def run(size: str, folder: Path | None, part: str) -> dict[str, Any]:
    """All sets of a size: both parts, or one."""
    if folder is None:
        sets = {"4 topics": (documents.drawn(200, 300, 4, seed=1), Runs(2, 1, 1, 1, trees=1, lasts=(3,)))}
    else:
        sets = {name: (documents.load(folder, name), runs) for name, runs in SIZES[size].items()}
    shapes = hierarchies.SHAPES if size == "full" else hierarchies.SHAPES[:1]
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
    return {
        name: {of: do(*one) for of, one in sets.items() if is_asked(one[1])}
        for name, (do, is_asked) in jobs.items()
        if part in ("", name)
    }


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
    for claim, _, _, measured, status in claims.lines(results):
        table.add_row(claim, measured, status)
    CONSOLE.print(table)


def main() -> None:
    """Compute, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_const", const="quick", dest="size", default="full")
    parser.add_argument("--toy", action="store_const", const="toy", dest="size", help="a few seconds, for the tests")
    parser.add_argument(
        "--output", type=Path, help="a folder; by default this one for all, a temporary one for --quick"
    )
    parser.add_argument("--only", choices=claims.PARTS, help="compute one part; the others are those of the last run")
    arguments = parser.parse_args()
    folder = shared_data()
    # only recorded text, all of it, is worth keeping beside the script
    keeps = arguments.size == "full" and folder is not None
    output: Path = arguments.output or (HERE if keeps else temporary_folder(HERE))
    output.mkdir(parents=True, exist_ok=True)
    if folder is None:
        CONSOLE.print(f"Recorded text is skipped: {NO_DATA}. Documents drawn from topics stand in for it.")
    begin = time.perf_counter()
    with warnings.catch_warnings():
        # what stops at 200 steps is good enough, for every method alike
        warnings.simplefilter("ignore", ConvergenceWarning)
        parts = run(arguments.size, folder, arguments.only or "")
    seconds = {arguments.only or "all": round(time.perf_counter() - begin, 1)}
    stored = output / "results.json"
    if arguments.only:
        last = json.loads(stored.read_text()) if stored.exists() else {"about": {"seconds": {}}}
        seconds = last["about"]["seconds"] | seconds
        parts = {name: last.get(name, {}) for name in claims.PARTS} | parts
    about = {
        "size": arguments.size,
        "data": claims.RECORDED if folder else f"drawn from topics: {NO_DATA}",
        "seconds": seconds,
        **versions(),
    }
    results = clean({"about": about, **parts})
    draw(results, output)
    stored.write_text(json.dumps(results, indent=1) + "\n")
    (output / "results.md").write_text(claims.tables(results))
    (output / "claims.md").write_text(claims.page(results))
    show(results)
    CONSOLE.print(f"{sum(seconds.values()):.0f} seconds; results, claims and pictures are in {output}")


if __name__ == "__main__":
    main()
