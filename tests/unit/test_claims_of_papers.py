"""Every statement of every paper has a line on its page with a verdict, and pages keep to their rules."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

import pytest
from papers import verdicts

ROOT = Path(__file__).parents[2]
PAPERS = ROOT / "papers"
FOLDERS = ("straub2015_small_variance", "straub2015_dptgmm", "gopal2014_vmf", "mansfield2018_links")
OURS = "(ours)"
VERDICTS = {"holds", "holds in part", "does not hold here", "not attempted"}
# of the seeds' own sections, so that a list that forgets one is seen
SECTIONS = {
    "straub2015_small_variance": ("abstract", "1", "2", "3", "4", "4.1", "5.1", "6", "7.1", "7.2", "8", "suppl. 1",
                                  "suppl. 2", "suppl. 3", "suppl. 4", "suppl. 5"),
    "straub2015_dptgmm": ("abstract", "1", "2", "3.1", "3.2", "4", "4.1", "4.2", "5.1", "5.2", "5.3", "6"),
    "gopal2014_vmf": ("1", "2.1", "2.2", "3", "4", "5", "6", "7", "8", "9", "10.1", "10.2", "10.3"),
    "mansfield2018_links": ("abstract", "1", "2.1", "2.2", "2.3", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6"),
}  # fmt: skip


@pytest.fixture(params=FOLDERS)
def paper(request, monkeypatch):
    """Folder, its `claims` module, and the lines of the stored results."""
    names = ("claims", "page")
    monkeypatch.syspath_prepend(str(PAPERS / request.param))
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    claims = __import__("claims")
    yield PAPERS / request.param, claims, claims.lines(stored(PAPERS / request.param))
    for name in names:
        sys.modules.pop(name, None)


def stored(folder):
    return json.loads((folder / "results.json").read_text())


def test_no_cases_are_no_verdict():
    """A judge whose runs are missing once said "holds" of nothing."""
    assert verdicts.over([]) == verdicts.NOT_RUN
    assert [verdicts.over(wins) for wins in ([True], [True, False], [False])] == list(verdicts.VERDICTS[:3])


def test_every_statement_has_a_line_with_a_verdict(paper):
    _, claims, lines = paper
    by_key = {line.key: line for line in lines}
    assert len(by_key) == len(lines), "keys are unique"
    for said in claims.SAID:
        assert said.lines, said
        for key in said.lines:
            assert by_key[key].status in VERDICTS, (said, key)


def test_every_line_that_is_not_ours_answers_a_statement(paper):
    _, claims, lines = paper
    asked = {key for said in claims.SAID for key in said.lines}
    assert {line.key for line in lines if not line.claim.startswith(OURS)} <= asked


def test_every_section_of_the_paper_is_in_the_list(paper):
    folder, claims, _ = paper
    named = set()
    for said in claims.SAID:
        found = [part.strip() for part in re.split(r",|;| to ", said.section)]
        named |= set(found) | ({"3.2", "3.3", "3.4"} if said.section == "3.2 to 3.4" else set())
    assert set(SECTIONS[folder.name]) <= named


# Decimals that judges write themselves: the paper's own numbers, and the level of a test.
GIVEN = ("23.0 ± 1.67, 0.94 ± 0.01, 0.74 ± 0.04", "by chance 0.05")


def test_judges_write_no_number_of_their_own(paper):
    folder, _, _ = paper
    tree = ast.parse((folder / "claims.py").read_text(encoding="utf-8"))
    judges = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("_")]
    found = []
    for judge in judges:
        forms = {id(one) for node in ast.walk(judge) if isinstance(node, ast.FormattedValue) and node.format_spec
                 for one in ast.walk(node.format_spec)}  # fmt: skip
        docs = {ast.get_docstring(node, clean=False) for node in ast.walk(judge) if isinstance(node, ast.FunctionDef)}
        for node in ast.walk(judge):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in docs
            if is_text and id(node) not in forms:
                said = node.value
                for given in GIVEN:
                    said = said.replace(given, "")
                found += [(judge.name, said) for _ in re.findall(r"\d\.\d\d", said)]
    assert not found


def test_lines_whose_rule_is_older_than_their_runs_are_lines(paper):
    folder, claims, lines = paper
    assert {line.key for line in lines} >= claims.BEFORE
    page = (folder / "claims.md").read_text(encoding="utf-8")
    numbers = [str(number) for number, line in enumerate(lines, start=1) if line.key in claims.BEFORE]
    word = "lines" if len(numbers) > 1 else "line"
    assert f"Those of {word} {', '.join(numbers)} were committed before" in page


def test_verdicts_keep_to_their_rules(paper):
    _, _, lines = paper
    for line in lines:
        if line.claim.startswith(OURS) and line.status == "shown":
            continue
        assert line.status in VERDICTS, line
        if line.status == "not attempted":
            assert len(line.measured) > 40, "a reason"
            continue
        assert line.rule, line
        assert line.runs, line
        assert not line.runs.startswith("0 "), line
        if line.status == "holds in part":
            assert "in part" in line.rule, line
        assert "95%" in line.measured or "::test_" in line.measured, line


def test_tests_that_lines_name_exist(paper):
    _, _, lines = paper
    named = [name for line in lines for name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", line.measured)]
    lost = [one for one in named if f"def {one[1]}(" not in (ROOT / one[0]).read_text(encoding="utf-8")]
    assert not lost


def test_the_page_counts_its_verdicts(paper):
    folder, _, lines = paper
    page = (folder / "claims.md").read_text(encoding="utf-8")
    for word, is_ours in (("the paper's claims", False), ("ours", True)):
        (row,) = re.findall(rf"^\| {word} \| (.*) \|$", page, flags=re.MULTILINE)
        assert sum(map(int, row.split(" | "))) == sum(line.claim.startswith(OURS) == is_ours for line in lines)
    assert "## All claims by section" in page


PAGES = [*sorted(PAPERS.glob("**/*.md")), ROOT / "docs" / "errata.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_rows_of_tables_have_the_cells_of_their_header(page):
    """A bar inside a cell, as of an absolute value, parts it in two."""
    n_cells, broken = 0, []
    for line in page.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            n_cells = 0
            continue
        found = len(re.findall(r"(?<!\\)\|", line))
        n_cells = n_cells or found
        broken += [line[:80]] if found != n_cells else []
    assert not broken


@pytest.fixture
def overview(monkeypatch):
    monkeypatch.syspath_prepend(str(PAPERS))
    monkeypatch.delitem(sys.modules, "overview", raising=False)
    yield __import__("overview")
    sys.modules.pop("overview", None)


def test_the_overview_is_that_of_the_pages(overview):
    text = (PAPERS / "README.md").read_text(encoding="utf-8")
    assert text == overview.overview()
    pictures = re.findall(r"\]\((\S+\.png)\)", text)
    assert len(pictures) == len(FOLDERS)
    assert all((PAPERS / name).exists() for name in pictures)


def test_pictures_that_pages_name_exist(paper):
    folder, _, _ = paper
    page = (folder / "claims.md").read_text(encoding="utf-8")
    assert all((folder / name).exists() for name in re.findall(r"\]\((\S+\.png)\)", page))
