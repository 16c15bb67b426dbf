"""Files of the repository's root as pages of the site: links are turned to where their targets are there.

python docs/building/root_pages.py FOLDER
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Pages in docs/contribute, by the file that they include.
PAGES = {
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "how_we_work.md",
    "DESIGN.md": "house.md",
    "SECURITY.md": "security.md",
}
_LINK = re.compile(r"\[([^\]]*)\]\(([^()\s#]+)(#[^()\s]*)?\)")


def turned(text: str) -> str:
    """The text with links as a page in docs/contribute needs them; files that are no pages are named, not linked."""

    def target(found: re.Match[str]) -> str:
        words, path, anchor = found[1], found[2], found[3] or ""
        if re.match(r"[a-z]+:", path):
            return found[0]
        if path in PAGES:
            return f"[{words}]({PAGES[path]}{anchor})"
        if path.startswith("docs/") and path.endswith(".md") and (ROOT / path).exists():
            return f"[{words}](../{path.removeprefix('docs/')}{anchor})"
        return words

    return _LINK.sub(target, text)


def write(folder: Path) -> None:
    """One file for each page."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        (folder / name).write_text(turned(text), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
