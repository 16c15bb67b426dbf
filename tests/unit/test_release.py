"""A release is of one piece: versions, ranges, licences, workflows, recipe and container say the same."""

from __future__ import annotations

import json
import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from release import build, check, container, sizes, tag

from armillary.kernels import jit

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
TOML = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = TOML["project"]
INDEX_PAGE = TOML["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
(README,) = (fragment["path"] for fragment in INDEX_PAGE["fragments"])
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
EXTRAS = PROJECT["optional-dependencies"]


def workflow(name: str) -> dict:
    found = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text(encoding="utf-8"))
    found["on"] = found.pop(True)  # YAML 1.1 takes the word for a truth value
    return found


def steps_of(found: dict) -> list[dict]:
    return [step for job in found["jobs"].values() for step in job["steps"]]


# ---------------------------------------------------------------------------------------------- versions and ranges


def test_one_version_everywhere():
    assert set(tag.versions().values()) == {PROJECT["version"]}


def test_the_changelog_has_notes_and_the_day_of_the_citation():
    version, day, notes = tag.changes()
    assert version == PROJECT["version"]
    assert f"\ndate-released: {day}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert notes.count("\n### ") >= 4


def test_numba_is_capped_at_what_was_tested():
    (numba,) = [one for one in PROJECT["dependencies"] if one.startswith("numba")]
    (first, last) = (minor for _, minor in jit.TESTED)
    assert numba == f"numba>=0.{first},<0.{last + 1}"
    assert f"| numba | 0.{first} to 0.{last} |" in (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")


def test_the_policy_has_the_ranges_of_the_project():
    policy = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    assert f"| Python | {PROJECT['requires-python'].removeprefix('>=')} and later |" in policy
    floors = [
        re.findall(rf"^{name}>=([\d.]+)", one)[0]
        for name in ("numpy", "scipy", "scikit-learn")
        for one in PROJECT["dependencies"]
        if one.startswith(name)
    ]
    assert f"| NumPy, SciPy, scikit-learn | {', '.join(floors)} and later |" in policy


def test_pythons_of_the_metadata_were_run():
    """A classifier is a claim: each was taken from the wheel to the first report."""
    told = {one.rsplit(" ", 1)[1] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)}
    runs = json.loads(check.OUTPUT.read_text(encoding="utf-8"))["runs"]
    assert told == {".".join(one["versions"]["python"].split(".")[:2]) for one in runs}


# ------------------------------------------------------------------------------------------------- what was measured


def test_the_first_report_is_within_its_goal_and_as_the_readme_says():
    runs = json.loads(check.OUTPUT.read_text(encoding="utf-8"))["runs"]
    first = [one["first_report"]["cpu_seconds"] for one in runs]
    second = [one["second_report"]["cpu_seconds"] for one in runs]
    assert max(first) <= check.GOAL
    said = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    middle = sorted(first)[len(first) // 2], sorted(second)[len(second) // 2]
    assert f"takes {middle[0]:.0f} s of CPU, compiling included; the next takes {middle[1]:.0f}." in said


def test_the_table_of_extras_is_the_one_that_was_measured():
    stored = json.loads(sizes.OUTPUT.read_text(encoding="utf-8"))["extras"]
    assert sizes.markdown(stored) in (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


def test_every_extra_for_users_is_in_the_table():
    for_developers = {"bench", "browser", "dev", "docs", "lint", "notebook", "release"}
    assert set(sizes.WHAT) - {""} == set(EXTRAS) - for_developers
    assert set(sizes.MEASURED) | set(sizes.NOT_MEASURED) == set(sizes.WHAT) - {""}


# -------------------------------------------------------------------------------------------------- what is shipped


def test_every_asset_has_its_line_on_the_page_of_licences():
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    folders = {path.parent for path in (ROOT / "src").rglob("assets/*")}
    assert len(folders) == 3
    for folder in folders:
        (line,) = [line for line in page.splitlines() if f"`{folder.relative_to(ROOT / 'src').as_posix()}`" in line]
        listed = set(re.findall(r"`([\w.]+\.(?:js|css|html))`", line))
        assert listed == {path.name for path in folder.iterdir() if path.is_file()}


def test_no_asset_has_code_of_others():
    for path in (ROOT / "src").rglob("assets/*"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"copyright|\blicen[cs]e\b|sourceMappingURL|https?://(?!www\.w3\.org/)", text, re.I), path


def test_licence_files_are_there():
    for name in PROJECT["license-files"]:
        assert (ROOT / name).exists()


def wheel_of(folder: Path, *names: str) -> Path:
    path = folder / "armillary-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return path


@pytest.mark.parametrize(
    "name",
    ["tests/test_x.py", "armillary/__pycache__/a.pyc", "armillary/kernels/rows/a.nbi", "armillary/model.safetensors"],
)
def test_what_must_not_be_shipped_is_found(tmp_path, name):
    with pytest.raises(build.BuildError, match=re.escape(f"holds {name}, which is not to be shipped.")):
        build.check_contents(wheel_of(tmp_path, "armillary/__init__.py", name))


def test_a_file_beside_the_package_is_found(tmp_path):
    with pytest.raises(build.BuildError, match=r"holds setup\.py, which is no part of the package\."):
        build.check_contents(wheel_of(tmp_path, "setup.py"))


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the tree is no clone")
def test_a_file_that_is_missing_is_found(tmp_path):
    with pytest.raises(build.BuildError, match=r"lacks armillary/"):
        build.check_contents(wheel_of(tmp_path, "armillary/__init__.py"))


METADATA = """Metadata-Version: 2.4
Name: armillary
Version: 0.1.0
Summary: Clustering.
License-Expression: BSD-3-Clause
Requires-Dist: numpy>=2.0
Requires-Dist: rich>=13; extra == "progress"
Requires-Dist: armillary[progress]; extra == "all"
"""


def test_the_bill_of_materials_has_no_time_and_no_chance(tmp_path):
    pytest.importorskip("cyclonedx", reason="cyclonedx-python-lib is not installed: make dist")
    from release import materials

    path = tmp_path / "armillary-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("armillary-0.1.0.dist-info/METADATA", METADATA)
    text = materials.bill(path)
    assert text == materials.bill(path)
    found = json.loads(text)
    assert "serialNumber" not in found
    assert "timestamp" not in found["metadata"]
    assert {one["name"]: one["scope"] for one in found["components"]} == {"numpy": "required", "rich": "optional"}
    assert found["metadata"]["component"]["licenses"] == [{"license": {"id": "BSD-3-Clause"}}]


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the tree is no clone")
def test_two_builds_have_one_hash(tmp_path):
    for tool in ("build", "hatchling", "twine", "cyclonedx"):
        pytest.importorskip(tool, reason=f"{tool} is not installed: make dist")
    paths = build.make(tmp_path / "dist")
    assert [path.suffix for path in paths] == [".whl", ".gz", ".json"]
    sums = (tmp_path / "dist" / "SHA256SUMS").read_text().splitlines()
    assert [line.split()[0] for line in sums] == [build.digest(path) for path in paths]
    names = build.contents(paths[0])
    assert [name for name in names if "/licenses/" in name] == [
        f"armillary-{PROJECT['version']}.dist-info/licenses/{name}" for name in PROJECT["license-files"]
    ]


def test_the_page_of_the_package_index_has_no_way_into_nowhere():
    """Pictures and links into the repository lead nowhere from there; examples and tables stay as they are."""
    whole = text = (ROOT / README).read_text(encoding="utf-8")
    for one in INDEX_PAGE["substitutions"]:
        text = re.sub(one["pattern"], one["replacement"], text)
    assert "](" in whole
    assert "](" not in text
    assert "![" not in text
    assert "batch by batch" not in text, "a caption without its picture"
    code = r"```.*?```"
    assert re.findall(code, text, flags=re.DOTALL) == re.findall(code, whole, flags=re.DOTALL)
    assert len(text) > 0.9 * len(whole)


# ----------------------------------------------------------------------------------------- workflows and the recipe


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_are_tight(path):
    """Read by default, rights by job, a limit of time for each, actions by tag, no secret."""
    text = path.read_text(encoding="utf-8")
    found = workflow(path.stem)
    assert found["permissions"] == {"contents": "read"}
    assert "secrets." not in text
    for job in found["jobs"].values():
        assert job["timeout-minutes"] <= 120
    for step in steps_of(found):
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+(\.\d+\.\d+)?", step["uses"]), step["uses"]
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
        # what comes from outside reaches a shell as a variable, never as text
        assert "${{" not in step.get("run", "")


def test_workflows_call_what_there_is():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    called = {
        word
        for path in WORKFLOWS
        for step in steps_of(workflow(path.stem))
        for word in re.findall(r"\bmake ([\w-]+)", step.get("run", ""))
    }
    assert {"check", "dist", "release-check", "docs"} <= called
    # the site brings its own target
    assert called - {"docs"} <= targets


def test_the_matrix_is_that_of_the_policy():
    matrix = workflow("tests")["jobs"]["suite"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert [re.sub(r"-(?=\d).*?(?=-arm|$)", "", system) for system in matrix["system"]] == [
        "ubuntu", "ubuntu-arm", "macos", "windows",
    ]  # fmt: skip


def test_publishing_needs_no_password():
    jobs = workflow("publish")["jobs"]
    assert jobs["index"]["permissions"] == {"id-token": "write"}
    assert jobs["index"]["environment"] == "pypi"
    assert workflow("publish")["on"] == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+*"]}}
    used = [step["uses"].split("@")[0] for step in steps_of(workflow("publish")) if "uses" in step]
    assert {"actions/attest-build-provenance", "actions/attest-sbom", "pypa/gh-action-pypi-publish"} <= set(used)


def test_the_recipe_asks_for_what_the_project_asks_for():
    recipe = yaml.safe_load((ROOT / "release" / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    asked = {re.sub(r"^matplotlib-base", "matplotlib", one).replace(" ", "") for one in recipe["requirements"]["run"]}
    wanted = [*PROJECT["dependencies"], *EXTRAS["plots"], *EXTRAS["progress"], *EXTRAS["cli"]]
    assert asked - {"python>=${{python_min}}"} == {one for one in wanted if not one.startswith("armillary[")}
    assert recipe["context"]["python_min"] == PROJECT["requires-python"].removeprefix(">=")
    assert recipe["about"]["license_file"] == PROJECT["license-files"]


# ---------------------------------------------------------------------------------------------------- the container


def test_the_image_has_what_the_build_needs():
    found = container.steps((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    copied = {word for step in found if step.word == "COPY" for word in step.rest.split()[:-1]}
    assert copied == {"pyproject.toml", README, *PROJECT["license-files"], "src"}
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert let_in == copied


def test_the_image_runs_as_nobody_and_keeps_data_in_its_volume():
    found = container.steps((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert container.one(found, "USER").rest.isdigit()
    volume = container.one(found, "VOLUME").rest
    assert container.Step("ENV", f"ARMILLARY_DATA={volume}") in found
    last_run = [step for step in found if step.word == "RUN"][-1]
    assert "warmup" in last_run.rest, "kernels are compiled while the image is built"


def test_a_step_that_the_script_does_not_know_is_told():
    with pytest.raises(ValueError, match="The Dockerfile has ADD, which this script does not know"):
        container.steps("FROM x\nADD y z\n")
