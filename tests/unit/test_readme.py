"""The README is true: its examples are scripts that run here, and they print what it says."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


BLOCKS = re.findall(r"```(\w+)?\n(.*?)```", README.read_text(), flags=re.DOTALL)
EXAMPLES = [number for number, (language, _) in enumerate(BLOCKS) if language == "python"]


@pytest.mark.parametrize("number", EXAMPLES)
def test_examples_print_what_the_readme_says(number, tmp_path, monkeypatch):
    example, printed = BLOCKS[number][1], BLOCKS[number + 1][1]
    monkeypatch.chdir(tmp_path)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(example, str(README), "exec"), {})
    assert output.getvalue() == printed


def test_the_tour_is_the_script():
    script = (ROOT / "examples" / "tour.py").read_text()
    docstring = ast.parse(script).body[0]
    code = "\n".join(script.splitlines()[docstring.end_lineno :]).strip()
    assert BLOCKS[EXAMPLES[0]][1].strip() == code


def test_the_tour_on_the_command_line(tmp_path):
    """The script runs as it is, and its output is on the page, but for where lines are broken."""
    pytest.importorskip("typer")
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    (number,) = [number for number, (language, _) in enumerate(BLOCKS) if language == "sh"]
    script = ROOT / "examples" / "tour.sh"
    commands = [line for line in script.read_text().splitlines() if line.startswith("armillary ")]
    assert BLOCKS[number][1].splitlines() == commands

    tools = tmp_path / "bin"
    tools.mkdir()
    for name, arguments in (("python", ""), ("armillary", "-m armillary")):
        (tools / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n')
        (tools / name).chmod(0o755)
    environ = os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "200", "NO_COLOR": "1"}
    run = subprocess.run(
        [bash, script], cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    )
    assert run.returncode == 0, run.stdout
    # a line about compiling comes where nothing compiled a kernel before
    told = re.sub(r"^Compiling .*?(?=^\S)", "", run.stdout, flags=re.MULTILINE | re.DOTALL)
    assert told.split() == BLOCKS[number + 1][1].split()
    for left in ("clusters/report.html", "clusters/model.safetensors", "new.csv", "ids.csv", "live.state"):
        assert (tmp_path / left).exists(), left


def test_the_table_of_defaults_is_the_one_that_was_measured():
    defaults = pytest.importorskip("benchmarks.defaults")
    sets = json.loads(defaults.RESULTS.read_text())["sets"]
    assert defaults.markdown(sets) in README.read_text()
    assert defaults.verdict(sets) in " ".join(README.read_text().split())


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
