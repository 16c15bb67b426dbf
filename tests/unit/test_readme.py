"""The README is true: its example prints what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_first_example_prints_what_the_readme_says(tmp_path, monkeypatch):
    blocks = re.findall(r"```(python)?\n(.*?)```", README.read_text(), flags=re.DOTALL)
    number = next(number for number, (language, _) in enumerate(blocks) if language == "python")
    example, printed = blocks[number][1], blocks[number + 1][1]
    monkeypatch.chdir(tmp_path)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(example, str(README), "exec"), {})
    assert output.getvalue() == printed


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
