"""The README and the two tours are true: their examples run here, and print what they say."""

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
GUIDE = ROOT / "docs" / "guide"
PAGES = {"README": README, "tour": GUIDE / "tour.md", "command line": GUIDE / "command_line.md"}
MOST_LINES, MOST_WORDS = 150, 25

BLOCKS = {
    name: re.findall(r"```(\w+)?\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for name, page in PAGES.items()
}
EXAMPLES = [
    (page, number)
    for page, blocks in BLOCKS.items()
    for number, (language, _) in enumerate(blocks)
    if language == "python"
]


@pytest.mark.parametrize(("page", "number"), EXAMPLES)
def test_examples_print_what_the_page_says(page, number, tmp_path, monkeypatch):
    example, printed = BLOCKS[page][number][1], BLOCKS[page][number + 1][1]
    monkeypatch.chdir(tmp_path)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(example, str(PAGES[page]), "exec"), {})
    assert output.getvalue() == printed


def test_the_tour_is_the_script():
    script = (ROOT / "examples" / "tour.py").read_text()
    docstring = ast.parse(script).body[0]
    code = "\n".join(script.splitlines()[docstring.end_lineno :]).strip()
    (number,) = (number for page, number in EXAMPLES if page == "tour")
    assert BLOCKS["tour"][number][1].strip() == code


def shell_block(page: str) -> tuple[str, str]:
    """The commands of a page, and what it says that they print."""
    (number,) = [number for number, (language, _) in enumerate(BLOCKS[page]) if language == "sh"]
    return BLOCKS[page][number][1], BLOCKS[page][number + 1][1]


def run_in_bash(arguments: list[str], folder: Path) -> str:
    """What bash prints, with commands `python` and `armillary` that are those of this process."""
    pytest.importorskip("typer")
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    tools = folder / "bin"
    tools.mkdir()
    for name, options in (("python", ""), ("armillary", "-m armillary")):
        (tools / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {options} "$@"\n')
        (tools / name).chmod(0o755)
    environ = os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "200", "NO_COLOR": "1"}
    run = subprocess.run(
        [bash, *arguments], cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    )
    assert run.returncode == 0, run.stdout
    # a line about compiling comes where nothing compiled a kernel before
    return re.sub(r"^Compiling .*?(?=^\S)", "", run.stdout, flags=re.MULTILINE | re.DOTALL)


def test_the_tour_on_the_command_line(tmp_path):
    """The script runs as it is, and its output is on the page, but for where lines are broken."""
    commands, printed = shell_block("command line")
    script = ROOT / "examples" / "tour.sh"
    assert commands.splitlines() == [line for line in script.read_text().splitlines() if line.startswith("armillary ")]
    assert run_in_bash([str(script)], tmp_path).split() == printed.split()
    for left in ("clusters/report.html", "clusters/model.safetensors", "new.csv", "ids.csv", "live.state"):
        assert (tmp_path / left).exists(), left


def test_the_topics_on_the_command_line(tmp_path):
    """The two commands of the README, from the root of the repository, print its table among other lines."""
    commands, printed = shell_block("README")
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "messages.py", tmp_path / "examples")
    told = [line.strip() for line in run_in_bash(["-e", "-c", commands], tmp_path).splitlines()]
    table = [line.strip() for line in printed.splitlines()]
    first = told.index(table[0])
    assert told[first : first + len(table)] == table
    assert "refund, card, bank" in (tmp_path / "topics" / "report.html").read_text(encoding="utf-8")


def test_the_table_of_defaults_is_the_one_that_was_measured():
    defaults = pytest.importorskip("benchmarks.defaults")
    sets = json.loads(defaults.RESULTS.read_text())["sets"]
    assert defaults.markdown(sets, defaults.measured_methods(sets)) in README.read_text(encoding="utf-8")


def test_the_readme_names_every_set_on_which_it_loses():
    defaults = pytest.importorskip("benchmarks.defaults")
    _, _, lost = defaults.verdict(json.loads(defaults.RESULTS.read_text())["sets"]).partition("Not on: ")
    sets = [re.sub(r" \(.*", "", one) for one in lost.split("; ")]
    (said,) = re.findall(r"It loses to Leiden on (\w+) sets: (.*?)\.", README.read_text(encoding="utf-8"))
    assert said[0] == {4: "four", 5: "five", 6: "six"}[len(sets)]
    for name in sets:
        assert name.removeprefix("text, ").removesuffix(", supersenses") in said[1], name


def test_the_readme_says_how_often_a_peer_that_is_told_k_is_ahead():
    defaults = pytest.importorskip("benchmarks.defaults")
    n_ahead = 0
    for line in json.loads(defaults.RESULTS.read_text())["sets"].values():
        known = defaults._summaries(line)
        told = [known[method]["ari"] for method in defaults.TOLD if method in known]
        n_ahead += max(told, default=-1.0) > known["ours"]["ari"] + defaults.NEAR
    (said,) = re.findall(r"Told K, a peer is ahead of it on (\w+)\.", README.read_text(encoding="utf-8"))
    words = {6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}
    assert said == words[n_ahead]


def test_numbers_of_speed_are_those_that_were_measured():
    work = json.loads((ROOT / "benchmarks" / "results" / "spherical_kmeans.json").read_text())["workloads"]

    def milliseconds(name: str) -> list[float]:
        peers = work[name]["peers"]
        methods = ("armillary auto", "scikit-learn lloyd", "faiss", "armillary")
        return [1e3 * peers[method]["step_seconds"] for method in methods]

    said = " ".join(README.read_text(encoding="utf-8").split())
    ours, theirs, faiss, plain = (f"{one:.0f}" for one in milliseconds("W2c"))
    assert f"takes {ours} ms on two cores; scikit-learn's {theirs}, faiss's {faiss}." in said
    ours, theirs, faiss, narrow_plain = (f"{one:.2f}" for one in milliseconds("W1"))
    assert f"it is {ours}, {theirs} and {faiss} ms." in said
    assert f"({plain} ms and {narrow_plain} without)" in said
    asked = " ".join((ROOT / "docs" / "faq.md").read_text(encoding="utf-8").split())
    ours, theirs, faiss, plain = (f"{one:.0f}" for one in milliseconds("W2"))
    assert f"takes {ours} ms on two cores, since rows that cannot move are passed over; {plain} where every" in asked
    assert f"scikit-learn takes {theirs}, faiss {faiss}, all in one run." in asked


def test_first_fits_take_what_was_measured():
    fits = json.loads((ROOT / "benchmarks" / "results" / "compile_time.json").read_text())["fits"]
    narrow, links = (fits[name]["first_seconds"] for name in ("DPvMFMeans, 3 columns", "Links, 64 columns"))
    said = " ".join((ROOT / "docs" / "install.md").read_text(encoding="utf-8").split())
    assert f"`DPvMFMeans` {narrow:.1f} with 3 columns, `Links` {links:.1f})" in said


def prose(text: str) -> list[str]:
    """Sentences of a page: without code, pictures and the addresses of links; a cell of a table is one."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    cells = [cell for line in text.splitlines() if line.startswith("|") for cell in line.split("|")]
    rest = "\n".join(line for line in text.splitlines() if not line.startswith(("|", "#")))
    blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n", rest)]
    found = [sentence for block in blocks for sentence in re.split(r"(?<=[.!?])\s+", block)]
    return [one.strip() for one in [*found, *cells] if one.strip()]


def test_the_readme_is_short():
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    long = [one for one in prose(text) if len(one.split()) > MOST_WORDS]
    assert not long


def test_sentences_are_counted():
    found = prose("One two\nthree. Four: five [six](x.md).\n\n| a b | c |\n")
    assert [len(one.split()) for one in found] == [3, 3, 2, 1]


def anchors(page: Path) -> set[str]:
    """Headings of a page as addresses, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


PAGES_WITH_LINKS = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md")),
    *(
        ROOT / "docs" / name
        for name in ("install.md", "policy.md", "licences.md", "guide/tour.md", "guide/command_line.md")
    ),
]


@pytest.mark.parametrize("page", PAGES_WITH_LINKS, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = page.parent / path if path else page
        assert place.exists(), target
        assert not anchor or anchor in anchors(place), target


def test_pictures_are_made_by_the_script_and_small():
    shown = re.findall(r"!\[[^\]]+\]\(docs/pictures/([\w.]+)\)", README.read_text(encoding="utf-8"))
    script = (ROOT / "docs" / "pictures" / "make.py").read_text(encoding="utf-8")
    assert len(shown) == 4
    for name in shown:
        assert name in script
        assert (ROOT / "docs" / "pictures" / name).stat().st_size < 1_500_000
