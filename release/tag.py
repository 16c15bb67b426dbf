"""The tag is the version of everything that names one; the part of the changelog that tells of it.

python -m release.tag v0.1.0 --notes notes.md
"""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def versions() -> dict[str, str]:
    """Where a version is written, and which."""
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    recipe = (ROOT / "release" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    return {
        "pyproject.toml": tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"],
        "CITATION.cff": re.findall(r"^version: (\S+)$", citation, flags=re.MULTILINE)[0],
        "CHANGELOG.md": changes()[0],
        "release/conda/recipe.yaml": re.findall(r'^  version: "(\S+)"$', recipe, flags=re.MULTILINE)[0],
    }


def changes() -> tuple[str, str, str]:
    """Version, day and text of the newest part of the changelog."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    part = r"^## (\d+\.\d+\.\d+) - (\d{4}-\d{2}-\d{2})\n(.*?)(?=^## |\Z)"
    found = re.search(part, text, flags=re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit("CHANGELOG.md has no heading like '## 0.1.0 - 2026-01-31'.")
    return found[1], found[2], found[3].strip()


def main() -> None:
    """Compare, and write the notes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tag")
    parser.add_argument("--notes", type=Path)
    options = parser.parse_args()
    other = {place: found for place, found in versions().items() if f"v{found}" != options.tag}
    if other:
        told = ", ".join(f"{place} has {found}" for place, found in other.items())
        raise SystemExit(f"The tag is {options.tag}, but {told}.")
    if options.notes is not None:
        options.notes.write_text(changes()[2] + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
