"""The newcomer's script runs as it is; the documents are true where a test can tell."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from tests.service.making import served
from tests.service.running import free_port

from armillary.datasets import make_vmf_mixture
from armillary.selection.link_tuning import LINK_PRESETS
from armillary.service.settings import Settings

ROOT = Path(__file__).parents[2]


def test_the_newcomers_quarter_of_an_hour(tmp_path):
    if shutil.which("bash") is None or shutil.which("curl") is None:
        pytest.skip("there is no bash or no curl")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, arguments in (("python", ""), ("armillary", "-m armillary")):
        (tools / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n')
        (tools / name).chmod(0o755)
    environ = {
        **os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PORT": str(free_port()), "DATA": "data",
        "ARMILLARY_MIN_FREE_BYTES": "0",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", ROOT / "examples" / "service.sh"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = dict(re.findall(r"^([a-z ]+):\n(.*)$", done.stdout, flags=re.MULTILINE))
    X, _, _ = make_vmf_mixture(41, 256, 2, concentration=600.0, min_angle=1.2, random_state=4)
    expected = LINK_PRESETS["voice windows, few speakers"].model().fit_predict(X.astype(np.float32)).tolist()
    assert json.loads(told["add"])["ids"] == expected[:40]
    assert told["again"] == told["add"]
    assert set(expected) == {0, 1}
    assert json.loads(told["name"]) == {"id": 0, "name": "Ann", "operation": 2}
    assert json.loads(told["who is it"]) == {"ids": expected[40:]}
    assert [line["name"] for line in json.loads(told["ids"])["ids"]] == ["Ann", None]
    assert [event["kind"] for event in json.loads(told["events"])["events"]] == ["named"]


def test_every_path_is_on_the_page_of_the_service(tmp_path):
    text = (ROOT / "docs" / "service.md").read_text()
    with served(tmp_path) as client:
        paths = client.get("/v1/openapi.json").json()["paths"]
    for path in paths:
        last = path.replace("/{number}", "/7").split("/")[-1]
        assert last in text or last in ("{name}", "7"), path


def test_the_unit_and_the_image_name_what_there_is():
    unit = (ROOT / "deploy" / "armillary.service").read_text()
    image = (ROOT / "Dockerfile").read_text()
    for word in re.findall(r"--([a-z-]+)", unit + image.split("ENTRYPOINT")[1]):
        assert word.replace("-", "_") in {*vars(Settings()), "config"}, word
    assert "service" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for line in Settings().lines():
        name, _, _ = line.partition(" = ")
        assert name in vars(Settings())
