"""What each extra adds to an installation, in bytes on disk.

    python -m release.sizes dist/armillary-0.1.0-py3-none-any.whl --store

All extras that are measured are installed by pip into one empty folder, without byte code. The size of an
extra is that of the packages that it needs and the core does not, by their own lists of files.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from benchmarks import measure
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rich.console import Console

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "benchmarks" / "results" / "extras.json"
MEASURED = ("plots", "progress", "vision", "cli", "client", "service", "all", "zarr", "dask", "mp4")
# torch and Ray: large downloads, with other builds on other systems
NOT_MEASURED = ("gpu", "embed", "ray")
WHAT = {
    "": "every model, in Python",
    "plots": "pictures, and the report as a file",
    "progress": "progress bars",
    "vision": "depth images, cameras, animations",
    "cli": "the command `armillary`, Parquet and Arrow files",
    "client": "the Python client of the service",
    "service": "the identity service over HTTP",
    "all": "all of the above",
    "zarr": "rows in Zarr arrays",
    "dask": "rows at the workers of a Dask cluster",
    "mp4": "an encoder for MP4 (FFmpeg, GPL)",
    "gpu": "rows on an NVIDIA card: torch and triton",
    "embed": "texts by a sentence-transformers model on disk: torch and transformers",
    "ray": "rows at the workers of a Ray cluster",
}


def needs(known: dict[str, Distribution], name: str, extra: str) -> Iterator[tuple[str, str]]:
    """Packages that a package asks for, each with an extra of theirs or none."""
    for line in known[name].requires or ():
        asked = Requirement(line)
        if asked.marker is None or asked.marker.evaluate({"extra": extra}):
            for one in ("", *asked.extras):
                yield canonicalize_name(asked.name), one


def closure(known: dict[str, Distribution], extra: str) -> set[str]:
    """All packages of an installation with an extra."""
    waiting, seen = [("armillary", ""), ("armillary", extra)], set()
    while waiting:
        one = waiting.pop()
        if one not in seen and one[0] in known:
            seen.add(one)
            waiting += needs(known, *one)
    return {name for name, _ in seen}


def size(packages: Iterable[Distribution]) -> int:
    """Bytes of their files, each once."""
    places = {Path(str(path.locate())) for one in packages for path in one.files or ()}
    return sum(place.stat().st_size for place in places if place.is_file())


def sizes(wheel: Path, folder: Path) -> dict[str, Any]:
    """Bytes of the core, and of what each extra adds to it."""
    target = f"{wheel.resolve()}[{','.join(MEASURED)}]"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    subprocess.run([*pip, "--target", str(folder), target], check=True)
    known = {canonicalize_name(one.name): one for one in distributions(path=[str(folder)])}
    core = closure(known, "")
    found: dict[str, Any] = {"": {"packages": len(core), "bytes": size(known[name] for name in core)}}
    for extra in MEASURED:
        more = closure(known, extra) - core
        found[extra] = {"packages": len(more), "bytes": size(known[name] for name in more)}
    return found


def markdown(extras: dict[str, Any]) -> str:
    """The table of docs/install.md."""
    lines = ["| extra | for | packages | MB |", "| --- | --- | --- | --- |"]
    for name, what in WHAT.items():
        told = f"`{name}`" if name else "none: the core"
        if name in extras:
            sign = "+" if name else ""
            cells = f"{sign}{extras[name]['packages']} | {sign}{extras[name]['bytes'] / 1e6:.0f}"
        else:
            cells = "- | not measured"
        lines.append(f"| {told} | {what} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, store; or print what is stored."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path, nargs="?")
    parser.add_argument("--store", action="store_true")
    options = parser.parse_args()
    if options.wheel is None:
        print(markdown(json.loads(OUTPUT.read_text(encoding="utf-8"))["extras"]))
        return
    with tempfile.TemporaryDirectory(prefix="armillary-extras-") as name:
        found = sizes(options.wheel, Path(name))
    print(markdown(found))
    if options.store:
        how = "pip install --target into an empty folder, without byte code; sizes by the packages' own lists of files"
        measure.store(OUTPUT, {"how": how, "extras": found}, Console())


if __name__ == "__main__":
    main()
