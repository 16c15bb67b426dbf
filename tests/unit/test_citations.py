"""Every citation of a page of mathematics is answered by a heading of that page, and what pages name exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "math"
# "dp_tgmm.md, 2.1 to 2.3", "vmf_mixtures.md, 5.3, 5.6", "links.md, 3 and 7", "dp_vmf_means.md, section 3"
_PLACE = r"\d+(?:\.\d+)?[a-c]?"
_CITATION = re.compile(
    rf"(?<![/\w])([a-z_]+)\.md,\s+(?:sections?\s+)?({_PLACE}(?:(?:,\s+|\s+and\s+|\s+to\s+){_PLACE}(?![\w)]*=))*)"
)


def _texts() -> list[Path]:
    folders = ("src", "tests", "benchmarks", "papers", "examples")
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [*found, ROOT / "DESIGN.md", ROOT / "docs" / "equations.md", ROOT / "docs" / "errata.md"]


def _citations() -> list[tuple[str, str, str]]:
    found = []
    for path in _texts():
        text = re.sub(r"\s*\n\s*#?\s*", " ", path.read_text(encoding="utf-8"))
        for page, places in _CITATION.findall(text):
            found += [(str(path.relative_to(ROOT)), page, place) for place in re.findall(_PLACE, places)]
    return found


def _headings(page: str) -> set[str]:
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    return set(re.findall(r"^#+ (\d+(?:\.\d+)?)\.? ", text, flags=re.MULTILINE))


def test_citations_of_sections_resolve():
    cited = _citations()
    known = {path.stem: _headings(path.stem) for path in PAGES.glob("*.md")}
    assert len([one for one in cited if one[0].startswith("src")]) > 90, "citations are found at all"
    lost = [one for one in cited if one[2].rstrip("abc") not in known.get(one[1], set())]
    assert not lost


@pytest.mark.parametrize("page", sorted(path.name for path in PAGES.glob("*.md") if path.name != "README.md"))
def test_pages_number_their_sections_without_gaps(page):
    tops = sorted(int(number) for number in _headings(page.removesuffix(".md")) if "." not in number)
    assert tops == list(range(tops[0], tops[0] + len(tops)))


def test_pages_are_listed():
    listed = re.findall(r"\]\((\w+\.md)\)", (PAGES / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(path.name for path in PAGES.glob("*.md") if path.name != "README.md")


def _named(text: str) -> set[str]:
    """Functions and classes in back quotes, by the module that they are in."""
    return set(re.findall(r"`((?:[a-z_]+\.){2,}[A-Za-z_][\w.]*)`", text))


def _resolve(name: str) -> object:
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found: object = importlib.import_module(".".join(["armillary", *parts[:cut]]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise LookupError(name)


def test_functions_of_equations_exist():
    names = _named((ROOT / "docs" / "equations.md").read_text(encoding="utf-8"))
    assert len(names) > 50
    for name in sorted(names):
        assert _resolve(name) is not None


def test_tests_of_errata_exist():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "errata.md").read_text(encoding="utf-8"))
    assert len(named) >= 15
    lost = [one for one in named if f"def {one[1]}(" not in (ROOT / one[0]).read_text(encoding="utf-8")]
    assert not lost


WORDS = set(re.findall(r"\w+", "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("src/**/*.py"))))


def _told_of_code(text: str) -> list[str]:
    """What a page says of names in the code: columns that are headed so, and options with a value."""
    found, column = [], None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if not line.startswith("|"):
            column = None
        elif column is None:
            column = next((n for n, cell in enumerate(cells) if cell in ("code", "name in code")), 0)
        elif column:
            found += re.findall(r"`(\w+)[`.]", cells[column])
    return found + re.findall(r"`([a-z]\w{2,})=(?:\"|True|False|\d)", text)


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_names_that_pages_have_for_the_code_are_in_it(page):
    assert [name for name in _told_of_code(page.read_text(encoding="utf-8")) if name not in WORDS] == []


def test_a_name_that_is_gone_would_be_found():
    text = "| here | code |\n| --- | --- |\n| m | `memory_of_old` |\n\nUse `old_way=True`, not `a` or `x=3`."
    assert _told_of_code(text) == ["memory_of_old", "old_way"]
