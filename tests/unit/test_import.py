"""`import armillary` is light: heavy libraries come with first use, and names say where they are."""

from __future__ import annotations

import subprocess
import sys

import pytest

import armillary

HEAVY = {
    "numba",
    "llvmlite",
    "scipy",
    "sklearn",
    "matplotlib",
    "rich",
    "safetensors",
    "pandas",
    "torch",
    "threadpoolctl",
}


def loaded_after(statements):
    """The top-level modules of a fresh interpreter after `statements`."""
    code = (
        f"{statements}\nimport sys\nsys.stdout.write(' '.join(sorted({{name.split('.')[0] for name in sys.modules}})))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_is_light():
    loaded = loaded_after("import armillary; armillary.__version__; dir(armillary)")
    assert "armillary" in loaded
    assert not loaded & HEAVY
    assert "numpy" not in loaded


@pytest.mark.parametrize("model", ["SphericalKMeans", "DPvMFMeans", "DDPvMFMeans"])
def test_a_model_is_made_without_compiler_plots_or_progress(model):
    loaded = loaded_after(f"from armillary import {model}; {model}(3)")
    assert "sklearn" in loaded
    assert not loaded & {"numba", "llvmlite", "matplotlib", "rich", "safetensors"}


def test_dir_lists_the_public_names_and_rooms():
    expected = [
        "AutoClusterer",
        "BayesianVonMisesFisherMixture",
        "DDPvMFMeans",
        "DPvMFMeans",
        "DirichletProcessMixture",
        "GibbsVonMisesFisherMixture",
        "HierarchicalSphericalKMeans",
        "HierarchicalVonMisesFisherMixture",
        "LINK_PRESETS",
        "Links",
        "MultinomialMixture",
        "SoftKMeans",
        "SphericalKMeans",
        "TemporalVonMisesFisherMixture",
        "VonMisesFisherMixture",
        "__version__",
        "choose_model",
        "curation",
        "datasets",
        "diagnostics",
        "distributions",
        "find_max_angle",
        "geometry",
        "load",
        "metrics",
        "name_clusters",
        "open_rows",
        "plots",
        "save",
        "select_max_angle",
        "suggest_max_angle",
        "tune_links",
        "vision",
    ]
    assert dir(armillary) == expected


def test_all_names_are_there_and_listed():
    for name in armillary.__all__:
        assert getattr(armillary, name) is not None
        assert name in dir(armillary)


@pytest.mark.parametrize("room", ["datasets", "distributions", "geometry", "metrics", "plots"])
def test_rooms_are_modules(room):
    assert getattr(armillary, room) is sys.modules[f"armillary.{room}"]


def test_public_names_come_from_their_homes():
    from armillary.models.means.ddp_vmf_means import DDPvMFMeans
    from armillary.models.means.dp_vmf_means import DPvMFMeans
    from armillary.models.means.spherical_kmeans import SphericalKMeans
    from armillary.persistence.archive import load, save
    from armillary.selection.angle_search import find_max_angle
    from armillary.selection.angle_selection import select_max_angle, suggest_max_angle

    assert armillary.DDPvMFMeans is DDPvMFMeans
    assert armillary.DPvMFMeans is DPvMFMeans
    assert armillary.SphericalKMeans is SphericalKMeans
    assert armillary.find_max_angle is find_max_angle
    assert armillary.load is load
    assert armillary.save is save
    assert armillary.select_max_angle is select_max_angle
    assert armillary.suggest_max_angle is suggest_max_angle


@pytest.mark.parametrize("name", ["SphericalKmeans", "KMeans", "numpy", "_nothing"])
def test_sentence_about_unknown_names(name):
    with pytest.raises(AttributeError) as caught:
        getattr(armillary, name)
    assert str(caught.value) == f"module 'armillary' has no attribute {name!r}"
    assert not hasattr(armillary, name)


def test_unknown_names_cannot_be_imported():
    with pytest.raises(ImportError, match="cannot import name 'KMeans' from 'armillary'"):
        from armillary import KMeans  # noqa: F401


def test_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert armillary.__version__ == version("armillary")


_AT_ONCE = """
import threading

import armillary

names = ["SphericalKMeans", "DPvMFMeans", "Links", "AutoClusterer", "VonMisesFisherMixture", "open_rows"]
failed, begin = [], threading.Barrier(len(names))

def ask(name):
    begin.wait()
    try:
        getattr(armillary, name)
    except BaseException as error:
        failed.append(repr(error))

threads = [threading.Thread(target=ask, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(failed)
"""


def test_names_are_first_asked_for_by_many_threads_at_once():
    # one at a time: four of six such runs ended with "deadlock detected by _ModuleLock('sklearn.utils.validation')"
    done = subprocess.run([sys.executable, "-c", _AT_ONCE], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"
