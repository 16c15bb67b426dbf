"""Every example runs, and prints what its docstring says."""

from __future__ import annotations

import ast
import contextlib
import io
import runpy
import textwrap
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
# demo.py and room.py leave pictures and are run by `make demo`; docs/guide/tour.md holds what tour.py prints;
# messages.py writes the table that the README clusters
ELSEWHERE = {"demo", "messages", "room", "tour"}
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ELSEWHERE)
MARK = "It prints:\n\n"


def printed_by(path: Path) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        runpy.run_path(str(path), run_name="__main__")
    return output.getvalue()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_it_says(name, tmp_path, monkeypatch):
    path = FOLDER / f"{name}.py"
    said = ast.get_docstring(ast.parse(path.read_text()))
    assert said is not None
    assert f"python examples/{name}.py" in said
    assert MARK in said, f"{path.name} does not say what it prints"
    monkeypatch.chdir(tmp_path)
    assert printed_by(path).rstrip("\n") == textwrap.dedent(said.split(MARK, 1)[1]).rstrip("\n")
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"
