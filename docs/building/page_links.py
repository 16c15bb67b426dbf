"""Links between the pages of the site: where they lead, whether anchors exist, and how many clicks away a page is.

    python docs/building/page_links.py [FOLDER OF HTML]

Without a folder the sources are looked at, with one what Sphinx made of them, and whether the page of licences names
what it brings along. Links to other sites are listed, not tried.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from fnmatch import fnmatchcase
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urldefrag

DOCS = Path(__file__).parents[1]
GENERATED = ("gallery", "api/generated", "_build", "_generated")
_FENCE = re.compile(r"^(```+|~~~+)(?!\{toctree).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_INCLUDE = re.compile(r"^```\{include\} (\S+)\n```$", re.MULTILINE)
_LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^()\s]+(?:\([^()]*\))?[^()\s]*)\)")
_CARD = re.compile(r"^:link: (\S+)$", re.MULTILINE)
_TOCTREE = re.compile(r"(?:^```\{toctree\}\n(?P<md>.*?)^```|^\.\. toctree::\n(?P<rst>(?:[ \t]+.*\n|\n)*))", re.M | re.S)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def pages() -> dict[str, Path]:
    """Pages by name, as Sphinx names them: "guide/streams"."""
    found = {}
    for path in sorted([*DOCS.rglob("*.md"), *DOCS.rglob("*.rst")]):
        name = path.relative_to(DOCS).with_suffix("").as_posix()
        if not name.startswith(tuple(f"{folder}/" for folder in (*GENERATED, "_templates"))):
            found[name] = path
    return found


def anchors(path: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub and MyST make them."""
    text = _FENCE.sub("", _INCLUDE.sub(lambda include: _included(path, include[1]), path.read_text(encoding="utf-8")))
    found: set[str] = set()
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = 1
        unique = slug
        while unique in found:
            unique, number = f"{slug}-{number}", number + 1
        found.add(unique)
    return found


def _included(page: Path, target: str) -> str:
    """What a page includes; what is made when the site is built is taken from its source."""
    place = (page.parent / target).resolve()
    source = DOCS.parent / place.name if place.parent.name == "_generated" else place
    return source.read_text(encoding="utf-8") if source.exists() else ""


def links(path: Path) -> list[str]:
    """Targets of a page's links: Markdown, cards and tables of contents."""
    text = path.read_text(encoding="utf-8")
    plain = _FENCE.sub("", text)
    found = _LINK.findall(plain) + _CARD.findall(plain)
    for entry in _TOCTREE.finditer(text):
        lines = (entry["md"] or entry["rst"] or "").splitlines()
        found += [line.strip() for line in lines if line.strip() and not line.strip().startswith(":")]
    return found


def is_outside(target: str) -> bool:
    """Whether a link leaves the site."""
    return re.match(r"[a-z]+:", target) is not None


def resolve(name: str, target: str) -> tuple[str | None, str]:
    """The page, or None for a file that is none, and the anchor that a link of page `name` leads to."""
    path, anchor = urldefrag(target)
    if not path:
        return name, anchor
    place = (DOCS / name).parent / unquote(path)
    inside = Path(re.sub(r"/\./", "/", str(place))).resolve()
    try:
        relative = inside.relative_to(DOCS)
    except ValueError:
        return None, anchor
    if relative.suffix in (".md", ".rst"):
        relative = relative.with_suffix("")
    elif relative.suffix:
        return None, anchor
    return relative.as_posix(), anchor


def broken() -> list[str]:
    """Internal links and anchors of the sources that lead nowhere."""
    known = pages()
    slugs = {name: anchors(path) for name, path in known.items()}
    lost = []
    for name, path in known.items():
        for target in links(path):
            if is_outside(target) or "*" in target:
                continue
            page, anchor = resolve(name, target)
            if page is None:
                if not ((DOCS / name).parent / urldefrag(target)[0]).exists():
                    lost.append(f"{name}: {target}: no such file")
            elif page.startswith(GENERATED):
                continue
            elif page not in known:
                lost.append(f"{name}: {target}: no such page")
            elif anchor and anchor not in slugs[page]:
                lost.append(f"{name}: {target}: no such heading")
    return lost


def clicks(start: str = "index") -> dict[str, int]:
    """How many links each page is away from the front page."""
    known = pages()
    away = {start: 0}
    waiting = deque([start])
    while waiting:
        name = waiting.popleft()
        for page in neighbours(name, known):
            if page not in away:
                away[page] = away[name] + 1
                waiting.append(page)
    return away


def neighbours(name: str, known: dict[str, Path]) -> list[str]:
    """Pages that page `name` links to."""
    found = [resolve(name, target)[0] for target in links(known[name]) if not is_outside(target)]
    return [page for page in found if page in known]


def tasks() -> list[tuple[str, list[str], str]]:
    """What newcomers look for (`tasks.md`): the task, the pages on the way, and where the last link leads."""
    lines = (DOCS / "tasks.md").read_text(encoding="utf-8").splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ") and "`index`" in line]
    return [(task, re.findall(r"`([^`]+)`", path), _LINK.findall(goal)[0]) for task, path, goal in cells]


class _Html(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if value is not None and key == "id":
                self.ids.add(value)
            elif value is not None and ((tag == "a" and key == "href") or (tag == "img" and key == "src")):
                self.targets.append(value)


def _read_html(folder: Path) -> dict[Path, _Html]:
    read: dict[Path, _Html] = {}
    for path in sorted(folder.rglob("*.html")):
        read[path] = _Html()
        read[path].feed(path.read_text(encoding="utf-8"))
    return read


def lost_tasks(folder: Path) -> list[str]:
    """Tasks whose path cannot be clicked in the built pages: a link that is missing, or a goal without its heading."""
    read, lost = _read_html(folder), []
    for task, steps, goal in tasks():
        for here, there in pairwise(steps):
            page = folder / f"{here}.html"
            places = {(page.parent / unquote(urldefrag(target)[0])).resolve() for target in read[page].targets}
            if folder / f"{there}.html" not in places:
                lost.append(f"{task}: {here} has no link to {there}")
        anchor = urldefrag(goal)[1]
        if anchor and anchor not in read[folder / f"{steps[-1]}.html"].ids:
            lost.append(f"{task}: {steps[-1]} has no heading {anchor}")
    return lost


def broken_html(folder: Path) -> tuple[list[str], set[str]]:
    """Links of the built pages that lead nowhere, and links to other sites."""
    read = _read_html(folder)
    lost, outside = [], set()
    for path, page in read.items():
        for target in page.targets:
            if is_outside(target) or target.startswith("//"):
                outside.add(target)
                continue
            place, anchor = urldefrag(target)
            file = path if not place else (path.parent / unquote(place)).resolve()
            if not file.exists():
                lost.append(f"{path.relative_to(folder)}: {target}: no such file")
            elif anchor and file in read and unquote(anchor) not in read[file].ids:
                lost.append(f"{path.relative_to(folder)}: {target}: no such anchor")
    return lost, {one for one in outside if one.startswith("http")}


def unlisted(folder: Path) -> list[str]:
    """Files that the built pages bring along and that the page of licences does not name."""
    text = (DOCS / "licences.md").read_text(encoding="utf-8").partition("## In the pages of the site")[2]
    known = re.findall(r"`([^`]+)`", "\n".join(line for line in text.partition("\n## ")[0].splitlines() if "|" in line))
    names = [
        path.relative_to(folder / "_static").as_posix() for path in (folder / "_static").rglob("*") if path.is_file()
    ]
    return [
        f"licences: _static/{name} has no line"
        for name in sorted(names)
        if not any(fnmatchcase(name, pattern) for pattern in known)
    ]


def main() -> int:
    """Print what is broken; 1 if anything is."""
    if len(sys.argv) == 1:
        lost, outside = broken(), set()
    else:
        folder = Path(sys.argv[1]).resolve()
        lost, outside = broken_html(folder)
        lost += [*lost_tasks(folder), *unlisted(folder)]
    print(*lost, sep="\n")
    if outside:
        print(f"{len(outside)} links to other sites, not tried:", *sorted(outside), sep="\n  ")
    return int(bool(lost))


if __name__ == "__main__":
    raise SystemExit(main())
