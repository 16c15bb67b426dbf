"""The site is true: public names have pages, links lead somewhere, code runs, common tasks are three clicks away."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import importlib
import importlib.util
import inspect
import re
import sys
from enum import Enum
from itertools import pairwise
from pathlib import Path

import pytest

import armillary

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def building(name):
    spec = importlib.util.spec_from_file_location(f"site_{name}", DOCS / "building" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


code_blocks, page_links = building("code_blocks"), building("page_links")
result_tables, root_pages = building("result_tables"), building("root_pages")


def listed():
    """Names of the reference, by the module that they are listed under."""
    found: dict[str, set[str]] = {}
    for page in sorted((DOCS / "api").glob("*.rst")):
        module, is_listing = "", False
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith(".. currentmodule:: "):
                module = line.split(":: ")[1]
            elif line.startswith(".. py:data:: "):
                found.setdefault(module, set()).add(line.split(":: ")[1])
            is_listing = line.startswith(".. autosummary::") or (is_listing and (not line or line.startswith(" ")))
            name = line.strip()
            if is_listing and re.fullmatch(r"[A-Za-z_]\w*", name):
                found.setdefault(module, set()).add(name)
    return found


# Rooms whose names are public, and two whose modules have no __all__: what they define.
ROOMS = [
    "armillary",
    *(f"armillary.{room}" for room in armillary._ROOMS if room not in ("distributions", "geometry")),
    *(f"armillary.{room}" for room in ("files", "naming", "persistence", "report", "sources", "texts")),
    "armillary.client",
    "armillary.distributions.vmf",
    "armillary.exceptions",
    "armillary.geometry.means",
    "armillary.geometry.rotation",
    "armillary.geometry.sphere",
]


def public_names(room):
    module = importlib.import_module(room)
    if hasattr(module, "__all__"):
        return set(module.__all__)
    defined = (name for name, one in vars(module).items() if getattr(one, "__module__", None) == room)
    return {name for name in defined if not name.startswith("_") and callable(getattr(module, name))}


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_has_a_page(room):
    assert listed().get(room, set()) == public_names(room)


def test_names_of_the_reference_exist_and_say_what_they_are():
    for room, names in listed().items():
        for name in names - {"__version__", "LINK_PRESETS"}:
            assert inspect.getdoc(getattr(importlib.import_module(room), name)), f"{room}.{name}"


SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", flags=re.MULTILINE)


def sections(doc):
    """Sections of a docstring by their titles."""
    _, *found = SECTION.split(inspect.cleandoc(doc or ""))
    return dict(zip(found[::2], found[1::2], strict=True))


def named(section):
    """Names at the left edge of a section: `a, b : int` has two."""
    lines = [line.partition(" : ")[0] for line in section.splitlines() if re.match(r"[*\w]", line)]
    return [name.strip("* ") for line in lines for name in line.split(",")]


def lacks_of_callable(one):
    """What the docstring of a function or method does not say of its parameters and of what it returns."""
    told, signature = sections(one.__doc__), inspect.signature(one)
    names = [name for name in signature.parameters if name not in ("self", "cls")]
    if sorted(names) != sorted(named(told.get("Parameters", ""))):
        yield f"Parameters: {named(told.get('Parameters', ''))} for {names}"
    if signature.return_annotation not in (None, "None") and not {"Returns", "Yields"} & set(told):
        yield "Returns"


def has_fields(one):
    """Whether it is a record, whose fields `conf.py` lists with the comments beside them."""
    return dataclasses.is_dataclass(one) or hasattr(one, "_fields") or issubclass(one, Enum)


def lacks(one):
    """What the page of a public name does not say."""
    told = sections(one.__doc__)
    if ">>> " not in told.get("Examples", ""):
        yield "Examples"
    if not inspect.isclass(one):
        yield from lacks_of_callable(one)
        return
    names = [name for name in inspect.signature(one).parameters if not name.startswith("_")]
    if "Parameters" in told and sorted(named(told["Parameters"])) != sorted(names):
        yield f"Parameters: {named(told['Parameters'])} for {names}"
    if names and not {"Parameters", "Attributes"} & set(told) and not has_fields(one):
        yield "Parameters or Attributes"
    for name, method in inspect.getmembers(one, inspect.isroutine):
        if not name.startswith("_") and (getattr(method, "__module__", None) or "").startswith("armillary"):
            yield from (f"{name}: {lack}" for lack in lacks_of_callable(method))


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_tells_its_parameters_what_it_returns_and_an_example(room):
    found = {name: getattr(importlib.import_module(room), name) for name in public_names(room)}
    spoken = {name: one for name, one in found.items() if callable(one) and not is_exception(one)}
    assert {name: list(lacks(one)) for name, one in spoken.items() if list(lacks(one))} == {}


def is_exception(one):
    return inspect.isclass(one) and issubclass(one, BaseException)


def test_a_lack_would_be_found():
    def area(width: float, height: float) -> float:
        """The area.

        Parameters
        ----------
        width : float
        """

    assert list(lacks(area)) == ["Examples", "Parameters: ['width'] for ['width', 'height']", "Returns"]


SOURCES = ROOT / "src" / "armillary"
WITH_EXAMPLES = sorted(
    path.relative_to(SOURCES).with_suffix("").as_posix().replace("/", ".")
    for path in SOURCES.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_of_docstrings_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    result = doctest.testmod(pytest.importorskip(f"armillary.{name}", exc_type=ImportError))
    assert result.attempted
    assert not result.failed


def test_internal_links_and_anchors_resolve():
    assert page_links.broken() == []


def test_a_broken_link_would_be_found(tmp_path, monkeypatch):
    page = tmp_path / "index.md"
    page.write_text("# A page\n\n[a](other.md) [b](#a-page) [c](#not-there) [d](https://example.org)\n")
    monkeypatch.setattr(page_links, "DOCS", tmp_path)
    assert page_links.broken() == ["index: other.md: no such page", "index: #not-there: no such heading"]


TABLES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "papers").rglob("*.md")]


def broken_rows(text):
    """Rows of tables that have not the cells of the head: a bar in a cell, as of |x|, ends it, in back quotes too."""
    n_cells = 0
    for line in re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines():
        n_bars = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        if n_bars and n_cells and n_bars != n_cells:
            yield line
        n_cells = (n_cells or n_bars) if n_bars else 0


@pytest.mark.parametrize("page", TABLES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_rows_of_tables_have_the_cells_of_their_heads(page):
    assert list(broken_rows(page.read_text(encoding="utf-8"))) == []


def test_a_bar_in_a_cell_would_be_found():
    table = "| a | b |\n| --- | --- |\n| `|x|` | 1 |\n| `\\|x\\|` | 1 |\n"
    assert list(broken_rows(table)) == ["| `|x|` | 1 |"]


def test_every_page_is_within_reach():
    away = page_links.clicks()
    assert set(page_links.pages()) == set(away)
    assert max(away.values()) <= 3


def test_common_tasks_are_reached_in_three_clicks_along_their_paths():
    known, tasks = page_links.pages(), page_links.tasks()
    assert len(tasks) >= 10
    for task, steps, goal in tasks:
        assert steps[0] == "index"
        assert len(steps) - 1 <= 3, task
        for here, there in pairwise(steps):
            assert there in page_links.neighbours(here, known), f"{task}: {here} has no link to {there}"
        assert page_links.resolve("tasks", goal)[0] == steps[-1], task


def test_a_task_that_cannot_be_clicked_would_be_found(tmp_path, monkeypatch):
    monkeypatch.setattr(page_links, "tasks", lambda: [("Cite it", ["index", "cite"], "cite.md#bibtex")])
    (tmp_path / "cite.html").write_text('<h2 id="papers">')
    (tmp_path / "index.html").write_text('<a href="faq.html">')
    assert page_links.lost_tasks(tmp_path) == [
        "Cite it: index has no link to cite",
        "Cite it: cite has no heading bibtex",
    ]
    (tmp_path / "index.html").write_text('<a href="cite.html#bibtex">')
    assert page_links.lost_tasks(tmp_path) == ["Cite it: cite has no heading bibtex"]


def test_a_file_without_a_licence_would_be_found(tmp_path):
    for name in ("basic.css", "vendor/fontawesome/webfonts/fa.woff2", "vendor/other/font.woff2"):
        (tmp_path / "_static" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "_static" / name).write_text("")
    assert page_links.unlisted(tmp_path) == ["licences: _static/vendor/other/font.woff2 has no line"]


QUICK = [page for page in code_blocks.pages() if not code_blocks.is_slow(page) and list(code_blocks.blocks(page))]


@pytest.mark.parametrize("page", QUICK, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_code_of_quick_pages_prints_what_they_say(page, monkeypatch):
    """The others, and blocks that are marked as slow, are run by `make docs`."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    assert code_blocks.differences(page, has_slow=False) == []


def test_a_wrong_output_would_be_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n\n<!-- not run: why -->\n```python\n1 / 0\n```\n")
    assert len(code_blocks.differences(page)) == 1
    code_blocks.fill(page)
    assert code_blocks.differences(page) == []
    assert "```text\n1\n```" in page.read_text()


def test_examples_of_the_gallery_ask_one_question_each():
    examples = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))
    assert len(examples) >= 20
    titles = [ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).splitlines()[0] for path in examples]
    assert all(title.endswith("?") for title in titles)
    assert len(set(titles)) == len(titles)


def test_pictures_of_pages_are_made_by_a_script():
    script = (DOCS / "building" / "pictures.py").read_text(encoding="utf-8")
    for picture in (DOCS / "model_pictures").iterdir():
        assert f"def {picture.stem}()" in script


def test_tables_of_benchmarks_come_from_every_stored_result(tmp_path):
    pytest.importorskip("benchmarks.defaults")
    result_tables.write(tmp_path)
    included = set(re.findall(r"_generated/(results_\w+\.md)", (DOCS / "benchmarks.md").read_text(encoding="utf-8")))
    assert included == {path.name for path in tmp_path.iterdir()}
    sources = (tmp_path / "results_sources.md").read_text(encoding="utf-8")
    for path in result_tables.RESULTS.glob("*.json"):
        assert f"`{path.name}`" in sources


def test_links_of_root_files_are_turned(tmp_path):
    text = "[a](DESIGN.md#doors) [b](docs/service.md) [c](Makefile) [d](https://example.org)"
    assert root_pages.turned(text) == "[a](house.md#doors) [b](../service.md) c [d](https://example.org)"
    root_pages.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(root_pages.PAGES)
