"""`papers/README.md`: all claims of all papers at a glance, read from the pages of claims.

    python papers/overview.py

Every `run.py` writes its own page; this reads the four of them, so that the overview cannot say anything else.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[1]))  # what papers share
from papers.verdicts import OURS, VERDICTS

HERE = Path(__file__).parent


class Paper(NamedTuple):
    """A folder, and what is shown of it."""

    folder: str
    title: str
    picture: str
    caption: str


PAPERS = (
    Paper(
        "straub2015_small_variance",
        "Straub, Campbell, How and Fisher (2015), small variance, and its supplement",
        "figure3.png",
        "Clusters found, NMI and silhouette over the angle, and over K for spherical k-means (Figure 3).",
    ),
    Paper(
        "straub2015_dptgmm",
        "Straub, Chang, Freifeld and Fisher (2015), DP-TGMM",
        "figure3.png",
        "NMI and number of clusters over the sweeps, on isotropic and anisotropic sets (Figure 3).",
    ),
    Paper(
        "gopal2014_vmf",
        "Gopal and Yang (2014), vMF mixtures",
        "nmi_random_labels.png",
        "NMI of every method on ten sets of documents, from random labels (section 6).",
    ),
    Paper(
        "mansfield2018_links",
        "Mansfield, Wang, Downey, Wan and Lopez Moreno (2018), Links",
        "voices_of_251_speakers.png",
        "Accuracy and ids over a stream of voices, by method.",
    ),
)

_HEAD = """# Papers: all claims at a glance

What four papers say, and what came out here. Each page has the rule by which a claim is judged, the runs behind it, an
interval, and the list of all claims by section; a page is written by its `run.py` from stored results, this one by
`overview.py` from the pages. Where a paper is wrong: [docs/errata.md](../docs/errata.md).

"In part" always has a rule of its own; "not attempted" has a reason. "(ours)" marks what no paper says.

"""


def rows_of(page: str) -> list[list[str]]:
    """The cells of the table of claims."""
    found: list[list[str]] = []
    is_inside = False
    for line in page.splitlines():
        if line.startswith("| claim |"):
            is_inside = True
        elif is_inside and not line.startswith("|"):
            break
        elif is_inside and not line.startswith("| ---"):
            found.append([cell.strip() for cell in re.split(r" \| ", line.strip("| "))])
    return found


def overview() -> str:
    """The page."""
    pages = {paper: rows_of((HERE / paper.folder / "claims.md").read_text(encoding="utf-8")) for paper in PAPERS}
    text = _HEAD + f"| paper | {' | '.join(VERDICTS)} | ours |\n" + "| --- " * (len(VERDICTS) + 2) + "|\n"
    for paper, rows in pages.items():
        said = [cells[-1] for cells in rows if OURS not in cells[0]]
        numbers = " | ".join(str(said.count(verdict)) for verdict in VERDICTS)
        text += f"| [{paper.title}]({paper.folder}/claims.md) | {numbers} | {len(rows) - len(said)} |\n"
    for paper, rows in pages.items():
        text += f"\n## {paper.title}\n\n![{paper.caption}]({paper.folder}/{paper.picture})\n\n{paper.caption}\n\n"
        text += "| claim | section | verdict |\n| --- | --- | --- |\n"
        text += "".join(f"| {cells[0]} | {cells[1]} | {cells[-1]} |\n" for cells in rows)
    return text


def main() -> None:
    """Write it."""
    (HERE / "README.md").write_text(overview(), encoding="utf-8")


if __name__ == "__main__":
    main()
