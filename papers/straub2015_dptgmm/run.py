"""What Straub et al. (2015), A Dirichlet process mixture model for spherical data, claim, and what we measure.

    python papers/straub2015_dptgmm/run.py                      all: the page says how long it takes
    python papers/straub2015_dptgmm/run.py --only words         one part; the others are those of the last run
    python papers/straub2015_dptgmm/run.py --quick              the same at a small size, elsewhere

A run that was cut short goes on where it stopped. Recorded data is read where ARMILLARY_SHARED_DATA names the data
folder; without it those parts are skipped, which the results say.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import claims
import cosine
import costs
import mismatch
import normals
import other_models
import page
import pictures
import proposals
import synthetic
import words
from rich.table import Table

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
class Size:
    """How much is computed."""

    name: str
    n_rows: int  # of the synthetic sets
    n_true: int  # their clusters
    n_runs: int
    n_draws: int  # sweeps after the warm-up
    other_runs: int  # from other starts
    other_draws: int
    bundled: tuple[int, int, int]  # runs, burn-in, draws
    frames: tuple[str, ...]
    room: tuple[int, int]  # width and height of the made room
    frame_sweeps: tuple[int, int]  # burn-in, draws
    frame_seeds: int  # runs on each recorded frame, besides the first
    n_scenes: int
    scene_sweeps: tuple[int, int]
    n_words: int | None
    n_rooms: int  # views of the made room, besides that of the figure
    word_sweeps: int  # from the default start
    word_seeds: int  # of them, besides the first
    word_runs: tuple[int, int]  # from the paper's start: runs, sweeps
    proposals: tuple[int, int]  # runs, steps
    documents: tuple[tuple[str, ...], int]  # sets and runs of each
    costs: tuple[int, tuple[int, int], float]  # runs, draws of the short and the long chain, share of the rows


SIZES = {
    "full": Size(
        name="full",
        n_rows=9990,
        n_true=30,
        n_runs=10,
        n_draws=60,
        other_runs=10,
        other_draws=100,
        bundled=(10, 50, 50),
        frames=normals.FRAMES,
        room=(320, 240),
        frame_sweeps=(30, 20),
        frame_seeds=3,
        n_scenes=20,
        scene_sweeps=(40, 20),
        n_words=None,
        n_rooms=10,
        word_sweeps=100,
        word_seeds=4,
        word_runs=(5, 800),
        proposals=(10, 400),
        documents=(cosine.NAMES, 5),
        costs=(3, (5, 15), 1.0),
    ),
    "quick": Size(
        name="quick",
        n_rows=9990,
        n_true=30,
        n_runs=2,
        n_draws=40,
        other_runs=1,
        other_draws=40,
        bundled=(1, 10, 20),
        frames=normals.FRAMES[:1],
        room=(320, 240),
        frame_sweeps=(10, 5),
        frame_seeds=1,
        n_scenes=8,
        scene_sweeps=(20, 10),
        n_words=10_000,
        n_rooms=2,
        word_sweeps=20,
        word_seeds=1,
        word_runs=(1, 40),
        proposals=(2, 100),
        documents=(cosine.NAMES[:2], 2),
        costs=(1, (5, 15), 0.2),
    ),
    "toy": Size(
        name="toy",
        n_rows=120,
        n_true=3,
        n_runs=2,
        n_draws=4,
        other_runs=1,
        other_draws=3,
        bundled=(1, 2, 2),
        frames=normals.FRAMES[:1],
        room=(64, 48),
        frame_sweeps=(2, 2),
        frame_seeds=1,
        n_scenes=1,
        scene_sweeps=(2, 2),
        n_words=2000,
        n_rooms=1,
        word_sweeps=4,
        word_seeds=1,
        word_runs=(1, 4),
        proposals=(1, 10),
        documents=(cosine.NAMES[:1], 1),
        costs=(1, (1, 3), 0.02),
    ),
}


def run_default(kind: str, size: Size, output: Path) -> dict[str, Any]:
    """All methods, samplers from the default start."""
    runs = range(size.n_runs)
    results, made, outcomes = synthetic.run(
        kind,
        size.n_rows,
        size.n_true,
        runs,
        synthetic.FROM_DEFAULT,
        size.n_draws,
        track=track,
        told_methods=synthetic.TOLD,
    )
    shown = {method: method for method in (synthetic.TANGENT, synthetic.EUCLIDEAN)}
    pictures.save(pictures.spheres({kind: (made, outcomes)}, shown), output / f"spheres_{kind}.png")
    return results


def run_elsewhere(kind: str, size: Size, output: Path) -> dict[str, Any]:
    """Samplers from other starts, and with the paper's own moves; a run that was cut short goes on."""
    given = size.n_rows, size.n_true, range(size.other_runs), size.other_draws
    cases = synthetic.elsewhere(kind, *given)
    word = f"{kind}, other starts"
    return synthetic.collected(resumed(cases, cases_of(output, size.name, word), word), *given)


def run_bundled(size: Size, output: Path, folder: Path) -> dict[str, Any]:
    """The authors' own set."""
    n_runs, *sweeps = size.bundled
    cases = {f"run {run}": partial(normals.bundled, folder, run, *sweeps) for run in range(n_runs)}
    found = list(resumed(cases, cases_of(output, size.name, "bundled"), "the authors' rows").values())
    rows, model = normals.bundled_model(folder, 0, *sweeps)
    title = f"the authors' {len(rows):,} rows: {model.n_clusters_} clusters of DP-TGMM"
    pictures.save(pictures.globe(rows, model.labels_, model.means_, title), output / "bundled.png")
    return {"runs": found, "dp_vmf_means": normals.bundled_means(folder)}


def run_frames(size: Size, output: Path, folder: Path | None) -> dict[str, Any]:
    """A made room and recorded depth frames."""
    frames = [normals.drawn(*size.room)]
    if folder is not None:
        frames += [normals.recorded(folder, name) for name in size.frames]
    found = {frame.name: normals.segment(frame, *size.frame_sweeps) for frame in track(frames, "depth frames")}
    segmented = [one for _, one in found.values()]
    pictures.save(pictures.figure_4(segmented), output / "figure4.png", dpi=75)
    pictures.save(pictures.frame_spheres(segmented, normals.TANGENT), output / "frames_on_the_sphere.png")
    results: dict[str, Any] = {name: result for name, (result, _) in found.items()}
    return results if folder is not None else results | {"recorded": {"skipped": NO_DATA}}


def run_frame_seeds(size: Size, output: Path, folder: Path) -> dict[str, Any]:
    """The recorded frames by other seeds."""

    def segmented(name: str, seed: int) -> dict[str, Any]:
        return normals.segment(normals.recorded(folder, name), *size.frame_sweeps, seed)[0]["methods"]

    cases = {
        f"{name}, run {seed}": partial(segmented, name, seed)
        for name in size.frames
        for seed in range(1, 1 + size.frame_seeds)
    }
    found = resumed(cases, cases_of(output, size.name, "frame seeds"), "depth frames")
    return {name: [found[f"{name}, run {seed}"] for seed in range(1, 1 + size.frame_seeds)] for name in size.frames}


def run_scenes(size: Size, _: Path, folder: Path) -> dict[str, Any]:
    """Stored normals of NYU v2."""
    return normals.scenes(folder, size.n_scenes, *size.scene_sweeps, track)


def run_rooms(size: Size, output: Path) -> dict[str, Any]:
    """Views of the made room, whose planes are known: from its first look to the end of its turn."""

    def segmented(view: int) -> dict[str, Any]:
        place = 0.5 * view / size.n_rooms
        return normals.segment(normals.drawn(*size.room, place, 1 + view), *size.frame_sweeps)[0]

    cases = {f"view {view}": partial(segmented, view) for view in range(size.n_rooms)}
    return {"views": list(resumed(cases, cases_of(output, size.name, "rooms"), "views of a room").values())}


def run_words(size: Size, output: Path, folder: Path) -> dict[str, Any]:
    """Word vectors, from the default start."""
    vocabulary = words.load(folder, size.n_words)
    results, model = words.run(vocabulary, size.word_sweeps)
    if results["ends"]:
        pictures.save(pictures.figure_5b(model, vocabulary, results["ends"]["cluster"]), output / "figure5b.png")
    return results


def run_word_seeds(size: Size, output: Path, folder: Path) -> dict[str, Any]:
    """The same by other seeds."""
    vocabulary = words.load(folder, size.n_words)
    cases = {
        f"run {seed}": partial(words.by_seed, vocabulary, size.word_sweeps, seed)
        for seed in range(1, 1 + size.word_seeds)
    }
    return {"runs": list(resumed(cases, cases_of(output, size.name, "word seeds"), "words").values())}


def run_word_runs(size: Size, output: Path, folder: Path) -> dict[str, Any]:
    """Word vectors from the paper's start, for its number of sweeps, by several seeds."""
    vocabulary = words.load(folder, size.n_words)
    n_runs, n_sweeps = size.word_runs
    cases = {f"run {seed}": partial(words.as_in_the_paper, vocabulary, n_sweeps, seed) for seed in range(n_runs)}
    return {"runs": list(resumed(cases, cases_of(output, size.name, "word runs"), "words").values())}


def run_proposals(size: Size, output: Path) -> dict[str, Any]:
    """The paper's approximations, on rows of one cluster."""
    cases = proposals.cases(*size.proposals)
    return proposals.collected(resumed(cases, cases_of(output, size.name, "proposals"), "proposals"))


def run_documents(size: Size, output: Path, folder: Path) -> dict[str, Any]:
    """Documents by angle and by distance."""
    cases = cosine.cases(folder, *size.documents)
    return cosine.collected(resumed(cases, cases_of(output, size.name, "documents"), "documents"))


def run_other_models(size: Size, output: Path) -> dict[str, Any]:
    """Models that describe less."""
    cases = other_models.cases(size.n_rows, size.n_true, size.n_draws, range(size.n_runs))
    return other_models.collected(resumed(cases, cases_of(output, size.name, "other models"), "other models"))


def run_mismatch(size: Size, output: Path) -> dict[str, Any]:
    """Concentrations that are fixed."""
    cases = mismatch.cases(size.n_rows, size.n_true, range(size.n_runs))
    return resumed(cases, cases_of(output, size.name, "mismatch"), "mismatch")


def run_costs(size: Size, output: Path, folder: Path | None) -> dict[str, Any]:
    """CPU time of sweeps."""
    cases = costs.cases(folder, size.frames, *size.costs)
    return costs.collected(resumed(cases, cases_of(output, size.name, "costs"), "costs"))


def parts(size: Size, output: Path, folder: Path | None) -> dict[str, Callable[[], dict[str, Any]]]:
    """What can be computed, by name; nothing runs yet."""

    def recorded(part: Callable[[Size, Path, Path], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
        return lambda: {"skipped": NO_DATA} if folder is None else part(size, output, folder)

    return {
        "isotropic": lambda: run_default("isotropic", size, output),
        "anisotropic": lambda: run_default("anisotropic", size, output),
        "isotropic, other starts": lambda: run_elsewhere("isotropic", size, output),
        "anisotropic, other starts": lambda: run_elsewhere("anisotropic", size, output),
        "bundled": recorded(run_bundled),
        "frames": lambda: run_frames(size, output, folder),
        "frame seeds": recorded(run_frame_seeds),
        "scenes": recorded(run_scenes),
        "rooms": lambda: run_rooms(size, output),
        "words": recorded(run_words),
        "word seeds": recorded(run_word_seeds),
        "word runs": recorded(run_word_runs),
        "proposals": lambda: run_proposals(size, output),
        "documents": recorded(run_documents),
        "other models": lambda: run_other_models(size, output),
        "mismatch": lambda: run_mismatch(size, output),
        "costs": lambda: run_costs(size, output, folder),
    }


def draw_curves(results: dict[str, Any], output: Path) -> None:
    """Figure 3, from the default start and as the paper started; Figure 5a."""
    words, runs = results.get("words", {}), results.get("word runs", {}).get("runs")
    if "trace" in words and runs:
        pictures.save(pictures.figure_5(words, runs), output / "figure5a.png")
    by_default = {kind: results[kind] for kind in synthetic.DEGREES_OF_FREEDOM if kind in results}
    if by_default:
        starts = {method: method for method in synthetic.FROM_DEFAULT}
        starts |= {f"{method}, k-means++": f"{method}, K given" for method in ("k-means", "spherical k-means")}
        title = "Draws from the default starts (dotted: the best NMI that can be expected, and the true number)"
        pictures.save(pictures.figure_3(by_default, starts, title), output / "figure3.png")
    others = {kind: _with_told(results, kind) for kind in by_default if f"{kind}, other starts" in results}
    if others:
        starts = {method: method for method in synthetic.FROM_ELSEWHERE}
        starts |= {
            f"{method}, random labels": f"{method}, K given, from random labels"
            for method in ("k-means", "spherical k-means")
        }
        title = "Draws from one cluster and random labels, by exact moves and by the paper's (without volume factor)"
        pictures.save(pictures.figure_3(others, starts, title), output / "figure3_other_starts.png")


def _with_told(results: dict[str, Any], kind: str) -> dict[str, Any]:
    """The samplers from other starts, beside what was told the number of clusters."""
    entry = results[f"{kind}, other starts"]
    return entry | {"methods": results[kind]["methods"] | entry["methods"]}


def write(results: dict[str, Any], output: Path) -> None:
    """What is known so far."""
    (output / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (output / "claims.md").write_text(page.page(results))


def show(results: dict[str, Any]) -> None:
    """The claims and where they stand."""
    table = Table("claim", "measured", "status", title="Straub et al. 2015, DP-TGMM", show_lines=True)
    for line in claims.lines(results):
        table.add_row(line.claim, line.measured, line.status)
    CONSOLE.print(table)


def main() -> None:
    """Compute, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_const", const="quick", dest="size", default="full")
    parser.add_argument("--toy", action="store_const", const="toy", dest="size", help="a few seconds, for the tests")
    parser.add_argument("--only", choices=claims.PARTS, action="append", help="compute these parts alone")
    parser.add_argument("--output", type=Path, help="a folder; by default this one for all, else a temporary one")
    arguments = parser.parse_args()
    folder = shared_data()
    # only recorded data, all of it, is worth keeping beside the script
    keeps = arguments.size == "full" and folder is not None
    output: Path = arguments.output or (HERE if keeps else temporary_folder(HERE))
    output.mkdir(parents=True, exist_ok=True)
    if folder is None:
        CONSOLE.print(f"Recorded data is skipped: {NO_DATA}.")
    stored = output / "results.json"
    results: dict[str, Any] = {}
    if arguments.only and stored.exists():
        results = json.loads(stored.read_text())
    chosen = arguments.only or claims.PARTS
    asked = {name: part for name, part in parts(SIZES[arguments.size], output, folder).items() if name in chosen}
    found, seconds = computed(asked, cases_of(output, arguments.size, "parts"))
    seconds = results.get("about", {}).get("seconds", {}) | seconds
    results |= {"about": {"size": arguments.size, "seconds": seconds, **versions()}} | found
    write(results, output)
    draw_curves(results, output)
    show(results)
    CONSOLE.print(f"Results, claims and pictures are in {output}")


if __name__ == "__main__":
    main()
