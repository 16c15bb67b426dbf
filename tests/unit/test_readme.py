"""The README is true: its example prints what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


BLOCKS = re.findall(r"```(python)?\n(.*?)```", README.read_text(), flags=re.DOTALL)
EXAMPLES = [number for number, (language, _) in enumerate(BLOCKS) if language == "python"]


@pytest.mark.parametrize("number", EXAMPLES)
def test_examples_print_what_the_readme_says(number, tmp_path, monkeypatch):
    example, printed = BLOCKS[number][1], BLOCKS[number + 1][1]
    monkeypatch.chdir(tmp_path)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(example, str(README), "exec"), {})
    assert output.getvalue() == printed


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
