"""What Straub et al. (2015), Small-variance nonparametric clustering on the hypersphere, claim, and what we measure.

    python papers/straub2015_small_variance/run.py            all: results.json, claims.md, which says how long it takes
    python papers/straub2015_small_variance/run.py --quick    the same at a small size, a minute or two, elsewhere
    python papers/straub2015_small_variance/run.py --only images    one part again; the others stay as they are stored

A run that was cut short goes on where it stopped. Recorded normals are read where ARMILLARY_SHARED_DATA names the data
folder; without it those parts are skipped, which the results say.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import claims
import depth_images
import maxima
import other_data
import pictures
import samplers
import scenes
import synthetic
import times
import views
import walks
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
SHOWN = ("batch", "sequential", "ddp", "ddp, known rotation")


@dataclass(frozen=True)
class Size:
    """How much is computed."""

    name: str
    main_rows: int
    main_runs: int
    sweep_rows: int
    sweep_runs: int
    degrees: tuple[float, ...]
    numbers: tuple[int, ...]  # of clusters, for k-means
    every: int  # of so many frames, one
    n_scenes: int | None
    walk: tuple[int, int]  # frames of the rendered walk, and their width
    n_images: int | None  # of the scenes with whole images
    rooms: int  # made rooms, each with rows of its own
    rendered: tuple[int, int, int]  # rendered walks, their frames and width
    samplers: dict[str, tuple[int, int, int]]  # rows, sweeps and runs of each
    restaurant: tuple[int, int, int, int]  # the CRP on all rows: rows, sweeps, those from the true labels, runs
    other_data: tuple[int, int, int]  # rows and runs of made sets, orders of recorded ones
    timed_frames: int
    drawn_walks: tuple[int, int]  # runs, walks of each
    n_images_of_normals: int | None  # scenes whose extended Gaussian images are looked at
    has_variants: bool = False  # other settings of DDP-vMF-means


_FINE = (16.0, 18.0, 20.0, 22.0)
SIZES = {
    "full": Size(
        name="full",
        main_rows=30_000,
        main_runs=50,
        sweep_rows=3000,
        sweep_runs=50,
        degrees=(5.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 17.0, 18.0, 19.0, 20.0, 21.0, 22.0, 24.0, 26.0, 28.0, 30.0,
                 35.0, 40.0, 45.0),
        numbers=(10, 15, 20, 25, 28, 30, 32, 35, 40, 50, 60, 80, 120, 200),
        every=1,
        n_scenes=None,
        walk=(60, 640),
        n_images=None,
        rooms=10,
        rendered=(5, 60, 320),
        samplers={
            samplers.FINITE: (3000, 500, 10),
            samplers.FINITE_WHOLE: (30_000, 300, 2),
            samplers.EXACT: (3000, 60, 10),
            samplers.RESTAURANTS[0]: (200, 50, 5),
            samplers.RESTAURANTS[1]: (600, 50, 3),
        },
        restaurant=(30_000, 300, 100, 3),
        other_data=(2000, 10, 3),
        timed_frames=20,
        drawn_walks=(10, 5000),
        n_images_of_normals=None,
        has_variants=True,
    ),
    "quick": Size(
        name="quick",
        main_rows=30_000,
        main_runs=5,
        sweep_rows=3000,
        sweep_runs=5,
        degrees=(8.0, 12.0, 16.0, 18.0, 20.0, 22.0, 26.0, 35.0, 45.0),
        numbers=(15, 25, 30, 40, 60, 100),
        every=3,
        n_scenes=60,
        walk=(45, 320),
        n_images=12,
        rooms=3,
        rendered=(2, 30, 160),
        samplers={
            samplers.FINITE: (3000, 100, 2),
            samplers.FINITE_WHOLE: (30_000, 50, 1),
            samplers.EXACT: (3000, 40, 2),
            samplers.RESTAURANTS[0]: (300, 10, 2),
            samplers.RESTAURANTS[1]: (600, 10, 1),
        },
        restaurant=(30_000, 40, 20, 2),
        other_data=(1000, 3, 1),
        timed_frames=5,
        drawn_walks=(2, 1000),
        n_images_of_normals=30,
    ),
    "toy": Size(
        name="toy",
        main_rows=900,
        main_runs=2,
        sweep_rows=600,
        sweep_runs=2,
        degrees=(15.0, 20.0, 30.0),
        numbers=(20, 30),
        every=12,
        n_scenes=3,
        walk=(8, 64),
        n_images=2,
        rooms=2,
        rendered=(1, 6, 64),
        samplers={
            samplers.FINITE: (120, 5, 2),
            samplers.FINITE_WHOLE: (150, 5, 1),
            samplers.EXACT: (120, 5, 2),
            samplers.RESTAURANTS[0]: (60, 2, 1),
            samplers.RESTAURANTS[1]: (90, 2, 1),
        },
        restaurant=(120, 4, 2, 1),
        other_data=(400, 2, 1),
        timed_frames=2,
        drawn_walks=(1, 50),
        n_images_of_normals=3,
    ),
}  # fmt: skip


def run_synthetic(size: Size, output: Path, folder: Path | None) -> dict[str, Any]:
    """Thirty clusters: the table at the main angles, the curves at all."""
    thirty = (synthetic.N_CLUSTERS,)
    main = synthetic.sweep(size.main_rows, size.main_runs, _FINE, thirty, first_seed=1000, track=track)
    curves = synthetic.sweep(size.sweep_rows, size.sweep_runs, size.degrees, size.numbers, first_seed=2000, track=track)
    pictures.save(pictures.figure_3(curves, synthetic.N_CLUSTERS), output / "figure3.png")
    pictures.save(pictures.angles(curves, synthetic.N_CLUSTERS), output / "angles.png")
    return {"main": main, "expected": synthetic.beside_expected(main), "curves": curves}


def run_streams(size: Size, output: Path, folder: Path | None) -> dict[str, Any]:
    """Ids over the frames, for each stream, angle and method."""
    n_rows = 4096
    made = [views.turning_room(n_rows, 0.0, size.every), views.turning_room(n_rows, 0.02, size.every)]
    results: dict[str, Any] = {}
    if folder is None:
        results |= {"corridor": {"skipped": NO_DATA}, "tum": {"skipped": NO_DATA}}
    else:
        made += [views.corridor(folder, size.every), views.tum(folder, size.every)]
    for stream in made:
        by_angle: dict[str, Any] = {}
        for degrees in (views.PAPER_ANGLE, views.NARROW_ANGLE):
            runs = {}
            word = f"{stream.name}, {degrees:g} degrees"
            calls = views.runs_of(stream, degrees)
            for name in track(calls if size.has_variants else SHOWN, word):
                ids = calls[name]()
                runs[name] = ids, views.stability(stream, ids)
            by_angle[f"{degrees:g}"] = {name: numbers for name, (_, numbers) in runs.items()}
            if stream.name != "noisy room":
                figure = pictures.figure_6(stream, {name: runs[name] for name in SHOWN}, degrees)
                pictures.save(figure, output / f"figure6_{stream.name}_{degrees:g}.png")
        results[stream.name] = {
            "n_frames": len(stream.frames),
            "n_rows": stream.frames.shape[1],
            "n_planes": int(stream.planes.max()) + 1,
            "drift_concentration": stream.drift,
            "by_angle": by_angle,
        }
    return results


def run_scenes(size: Size, output: Path, folder: Path | None) -> dict[str, Any]:
    """All scenes of NYU v2 that there are."""
    if folder is None:
        return {"skipped": NO_DATA}
    degrees = (50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 110.0, 120.0)
    normals = scenes.load(folder, size.n_scenes)
    result = scenes.measure(normals, degrees, range(2, 11), track=track)
    result["why"] = scenes.why(normals, track=track)
    pictures.save(pictures.figure_4(result, f"{views.PAPER_ANGLE:g}"), output / "figure4.png")
    return result


def run_images(size: Size, output: Path, folder: Path | None) -> dict[str, Any]:
    """Whole depth images: streams, and scenes one by one."""
    streams = [depth_images.room(*size.walk)]
    results: dict[str, Any] = {"streams": {}}
    if folder is None:
        skipped = {"skipped": NO_DATA}
        results |= {"scenes": {"8 bits": skipped, "16 bits": skipped}}
        results["streams"] |= {"corridor": skipped, "tum": skipped}
    else:
        recorded = (views.corridor(folder, size.every), views.tum(folder, size.every))
        streams += [depth_images.recorded(stream, folder, size.every) for stream in recorded]
        few, fine = depth_images.scenes_of_8_bits(folder, size.n_images), depth_images.scenes_of_16_bits(folder)
        results["scenes"] = {
            "8 bits": depth_images.measure_scenes(few, track=track),
            "16 bits": depth_images.measure_scenes(fine, track=track),
        }
        pages = depth_images.segmentations([*fine[:3], fine[4], *few[:: max(1, len(few) // 4)][:4]])
        pictures.save(pictures.figure_5(pages), output / "figure5.png")
    for stream in streams:
        found = depth_images.follow(stream, depth_images.DEGREES, track=track)
        results["streams"][stream.name] = found["numbers"]
        for degrees in depth_images.DEGREES:
            figure = pictures.figure_6_images(stream, found, degrees)
            pictures.save(figure, output / f"images_{stream.name}_{degrees:g}.png")
    return results


def run_rooms(size: Size, output: Path, folder: Path | None) -> dict[str, Any]:
    """Made rooms, and rendered walks, several times."""
    rooms = {f"room {seed}": partial(views.many_rooms, 4096, 100 + seed, size.every) for seed in range(size.rooms)}

    def walked(seed: int) -> dict[str, Any]:
        _, *shape = size.rendered
        found = depth_images.follow(depth_images.room(*shape, seed), depth_images.DEGREES, track=lambda items, _: items)
        return dict(found["numbers"]["by_angle"])

    made = {f"walk {seed}": partial(walked, seed) for seed in range(1, 1 + size.rendered[0])}
    found = resumed(rooms | made, cases_of(output, size.name, "rooms"), "rooms and walks")
    return {"rooms": [found[name] for name in rooms], "walks": [found[name] for name in made]}


def run_samplers(size: Size, output: Path, folder: Path | None) -> dict[str, Any]:
    """CRP, finite and split/merge samplers of the DP-vMF mixture."""
    cases = samplers.cases(size.samplers, size.restaurant)
    return samplers.collected(resumed(cases, cases_of(output, size.name, "samplers"), "samplers"))


def run_other_data(size: Size, output: Path, folder: Path | None) -> dict[str, Any]:
    """Quaternions, backbones, words, sentences."""
    cases = other_data.cases(folder, *size.other_data)
    return other_data.collected(resumed(cases, cases_of(output, size.name, "other data"), "other data"))


def run_times(size: Size, output: Path, folder: Path | None) -> dict[str, Any]:
    """Milliseconds of one core by method."""
    streams = [depth_images.room(*size.walk)]
    if folder is not None:
        streams += [depth_images.recorded(views.corridor(folder, 1), folder, 1)]
        streams += [depth_images.recorded(views.tum(folder, 1), folder, 1)]
    cases = times.cases(streams, size.timed_frames)
    return resumed(cases, cases_of(output, size.name, "times"), "times")


def run_walks(size: Size, output: Path, folder: Path | None) -> dict[str, Any]:
    """The printed iteration for the walk, and what small angles save."""
    cases = walks.cases(*size.drawn_walks)
    return walks.collected(resumed(cases, cases_of(output, size.name, "walks"), "walks"))


def run_maxima(size: Size, output: Path, folder: Path | None) -> dict[str, Any]:
    """Extended Gaussian images of NYU v2."""
    if folder is None:
        return {"skipped": NO_DATA}
    return maxima.measure(scenes.load(folder, size.n_images_of_normals), track=track)


PARTS = {
    "synthetic": run_synthetic,
    "streams": run_streams,
    "scenes": run_scenes,
    "images": run_images,
    "rooms": run_rooms,
    "samplers": run_samplers,
    "other_data": run_other_data,
    "times": run_times,
    "walks": run_walks,
    "maxima": run_maxima,
}


def show(results: dict[str, Any]) -> None:
    """The claims and where they stand."""
    table = Table("claim", "measured", "status", title="Straub et al. 2015", show_lines=True)
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
    parser.add_argument("--only", choices=PARTS, action="append", help="one part; may be given again")
    arguments = parser.parse_args()
    size = SIZES[arguments.size]
    output: Path = arguments.output or (HERE if arguments.size == "full" else temporary_folder(HERE))
    output.mkdir(parents=True, exist_ok=True)
    folder = shared_data()
    if folder is None:
        CONSOLE.print(f"Recorded streams and NYU v2 are skipped: {NO_DATA}.")
    with warnings.catch_warnings():
        # a reference clustering that creeps on after 300 sweeps is good enough
        warnings.simplefilter("ignore", ConvergenceWarning)
        asked = {
            name: partial(PARTS[name], size, output, folder) for name in PARTS if name in (arguments.only or PARTS)
        }
        parts, seconds = computed(asked, cases_of(output, size.name, "parts"))
    stored = json.loads((output / "results.json").read_text()) if arguments.only else {}
    about = {"size": arguments.size, "seconds": stored.get("about", {}).get("seconds", {}) | seconds, **versions()}
    results = stored | {"about": about, **parts}
    (output / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (output / "claims.md").write_text(claims.page(results))
    show(results)
    CONSOLE.print(f"Results, claims and pictures are in {output}")


if __name__ == "__main__":
    main()
