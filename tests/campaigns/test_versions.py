"""The floors come from pyproject.toml and nowhere else, and what the suite says is counted."""

from __future__ import annotations

import json
import re
import sys
import tomllib

import pytest
from tests.campaigns import versions

PROJECT = tomllib.loads((versions.ROOT / "pyproject.toml").read_text())["project"]
PLANS = {plan.name: plan for plan in versions.PLANS}
REPORT = """<testsuites><testsuite>
<testcase name="a"/><testcase name="b"><failure/></testcase><testcase name="c"><skipped/></testcase>
<testcase name="d"><error/></testcase><testcase name="e"><properties/></testcase>
</testsuite></testsuites>"""


def test_every_requirement_has_a_floor():
    for requirement in versions.requirements(PROJECT, ("all", "bench", "browser", "dev")):
        # numba alone has a ceiling too, that of what was tested (docs/policy.md)
        floor = re.sub(r"^(numba>=[0-9.]+),<[0-9.]+$", r"\1", requirement)
        assert re.fullmatch(r"[A-Za-z0-9-]+(\[[a-z,]+\])?>=[0-9.]+(; .+)?", floor)


def test_the_lowest_environment_has_the_floors_of_all_extras():
    chosen = versions.to_install(PROJECT, PLANS["lowest"])
    floors = {requirement for requirement in chosen if "==" in requirement}
    expected = {"numpy", "scipy", "scikit-learn", "numba", "safetensors", "threadpoolctl"}
    expected |= {"matplotlib", "rich", "pillow", "pyarrow", "pyyaml", "typer"}
    expected |= {"fastapi", "httptools", "httpx", "msgpack", "prometheus-client", "uvicorn", "uvloop"}
    assert {floor.split("==")[0] for floor in floors} == expected
    assert all(floor.replace("==", ">=") in versions.requirements(PROJECT) for floor in floors)


def test_the_others_take_what_is_newest():
    assert not any("==" in requirement for requirement in versions.to_install(PROJECT, PLANS["py313"]))


def test_tools_are_those_of_the_developers():
    named = {requirement.split(">=")[0] for requirement in PROJECT["optional-dependencies"]["dev"]}
    assert set(versions.TOOLS) <= named


def test_every_python_that_is_promised_has_a_plan():
    assert PROJECT["requires-python"] == ">=3.11"
    assert {"3.11", "3.12", "3.13", "3.14"} == {plan.python for plan in versions.PLANS}


def test_the_interpreter_at_hand_is_found_on_the_path(monkeypatch, tmp_path):
    (tmp_path / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert versions.interpreter("{}.{}".format(*sys.version_info)) == str(tmp_path / "python3")
    assert versions.interpreter("2.6") is None


def test_tests_are_counted():
    assert versions.counted(REPORT) == {"passed": 2, "failed": 2, "skipped": 1}


def test_an_entry_replaces_the_last_one_of_its_environment(tmp_path):
    path = tmp_path / "versions.json"
    for name, n_passed in (("py313", 1), ("lowest", 2), ("py313", 3)):
        versions.store({"environment": name, "passed": n_passed}, path)
    assert json.loads(path.read_text()) == [
        {"environment": "lowest", "passed": 2},
        {"environment": "py313", "passed": 3},
    ]


@pytest.mark.parametrize("plan", versions.PLANS, ids=lambda plan: plan.name)
def test_shared_environments_are_those_of_a_plan(plan):
    assert plan.home == "" or PLANS[plan.home].python == plan.python
