"""The scripts in `papers/` run, and their pages say what was measured."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from armillary.datasets import make_vmf_mixture

PAPERS = Path(__file__).parents[2] / "papers"
STRAUB = PAPERS / "straub2015_small_variance"


def module(name):
    spec = importlib.util.spec_from_file_location(f"straub2015_{name}", STRAUB / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def toy_run(tmp_path_factory):
    output = tmp_path_factory.mktemp("straub2015")
    environ = {name: value for name, value in os.environ.items() if name != "ARMILLARY_SHARED_DATA"}
    command = [sys.executable, STRAUB / "run.py", "--toy", "--output", output]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output, done.stdout


def test_the_run_leaves_results_claims_and_pictures(toy_run):
    output, _ = toy_run
    names = {path.name for path in output.iterdir()}
    pictures = {"figure3.png", "angles.png", "figure6_room_100.png", "figure6_room_80.png"}
    pictures |= {"images_room_100.png", "images_room_70.png"}
    assert names == pictures | {"results.json", "claims.md"}
    results = json.loads((output / "results.json").read_text())
    curves = results["synthetic"]["curves"]
    found = [line["n_clusters"]["mean"] for line in curves["by_angle"].values()]
    assert found == sorted(found, reverse=True)  # larger angles, fewer clusters
    assert curves["by_angle"]["20"]["nmi"]["mean"] > 0.95
    assert {name for name, stream in results["streams"].items() if "by_angle" in stream} == {"room", "noisy room"}


def test_whole_images_are_followed_by_every_method(toy_run):
    output, _ = toy_run
    room = json.loads((output / "results.json").read_text())["images"]["streams"]["room"]
    assert room["size"] == [64, 48]
    assert set(room["by_angle"]) == {"100", "70"}
    assert set(room["by_angle"]["70"]) == {"batch", "sequential", "ddp", "ddp, turn followed"}
    followed = room["by_angle"]["70"]["ddp, turn followed"]
    assert followed["same_id_back"] > 0.9
    assert followed["n_ids"] >= followed["n_large_ids"] >= followed["n_directions"] > 2
    assert set(room["milliseconds"]) == {"smoothing", "normals"}


def test_one_part_again_leaves_the_others_as_they_are_stored(toy_run, tmp_path):
    stored = json.loads((toy_run[0] / "results.json").read_text())
    marked = stored | {"synthetic": stored["synthetic"] | {"mark": 1}, "scenes": {"mark": 2}}
    (tmp_path / "results.json").write_text(json.dumps(marked))
    # without recorded data this part takes no time
    command = [sys.executable, STRAUB / "run.py", "--toy", "--only", "scenes", "--output", tmp_path]
    environ = {name: value for name, value in os.environ.items() if name != "ARMILLARY_SHARED_DATA"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    again = json.loads((tmp_path / "results.json").read_text())
    assert again["synthetic"]["mark"] == 1
    assert again["scenes"] == stored["scenes"]
    assert again["images"] == stored["images"]


@pytest.fixture
def depth_images(monkeypatch):
    """The script with those it imports by plain names, which other papers use too."""
    names = ("synthetic", "baselines", "views", "scenes", "depth_images")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(STRAUB)
    yield importlib.import_module("depth_images")
    for name in names:
        sys.modules.pop(name, None)


def test_directions_in_the_world_spread_about_the_mean_of_their_id(depth_images):
    x, y = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])
    turned = np.array([np.cos(0.2), np.sin(0.2), 0.0])
    # id 0 wanders by 0.2, id 1 stands still, id 2 is a double of id 1, id 3 never has enough pixels
    sightings = [(0, 0.5, x), (0, 0.5, turned), (1, 1.0, y), (2, 1.0, y), (3, 0.01, -x)]
    spread, n_directions = depth_images._in_the_world(sightings)
    assert spread == pytest.approx(0.1 / 3.0)
    assert n_directions == 2


def test_without_recorded_data_the_run_says_what_it_skips(toy_run):
    output, printed = toy_run
    reason = "ARMILLARY_SHARED_DATA does not name a data folder"
    assert f"skipped: {reason}" in " ".join(printed.split())
    results = json.loads((output / "results.json").read_text())
    assert results["scenes"] == results["streams"]["corridor"] == {"skipped": reason}
    assert results["images"]["streams"]["tum"] == results["images"]["scenes"]["8 bits"] == {"skipped": reason}
    assert f"| {reason} | skipped |" in (output / "claims.md").read_text()


def test_the_page_of_claims_is_that_of_the_stored_results():
    results = json.loads((STRAUB / "results.json").read_text())
    assert results["about"]["size"] == "full"
    assert (STRAUB / "claims.md").read_text() == module("claims").page(results)


def test_sequential_forgets_a_cluster_that_was_away_and_ddp_does_not():
    baselines = module("baselines")
    rows, labels, _ = make_vmf_mixture(600, 3, 3, concentration=300.0, min_angle=1.0, random_state=0)
    frames = [rows, rows[labels != 1], rows]
    for method, expected in ((baselines.sequential, 4), (baselines.ddp, 3)):
        ids = method(frames, 0.5)
        assert len(np.unique(np.concatenate(ids))) == expected, method.__name__
        # the clusters that stayed keep their ids
        stayed = labels != 1
        assert np.array_equal(ids[0][stayed], ids[1])
        assert np.array_equal(ids[0][stayed], ids[2][stayed])
        assert (np.array_equal(ids[0], ids[2])) is (expected == 3)


SHORT_FORMS = {
    "straub2015_small_variance": ["--quick"],
    "straub2015_dptgmm": ["--quick"],
    "gopal2014_vmf": ["--quick"],
    "mansfield2018_links": ["--only", "similarities"],
}


@pytest.mark.slow
@pytest.mark.skipif("ARMILLARY_SHARED_DATA" not in os.environ, reason="recorded data is not at hand")
@pytest.mark.parametrize("folder", SHORT_FORMS)
def test_the_short_form_of_a_run_judges_recorded_data(folder, tmp_path):
    """A few minutes each; a page whose lines on recorded data have a verdict."""
    command = [sys.executable, PAPERS / folder / "run.py", *SHORT_FORMS[folder], "--output", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "claims.md").read_text()
    assert "does not name a data folder" not in page
    assert "| holds |" in page
