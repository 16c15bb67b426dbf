"""The wheel and the sdist of the last commit, built twice to the same bytes, looked into, and listed.

    make dist

Each of the two builds has an export of the commit in a folder of its own, and another time zone, language, mask for
files and seed of hashes. What depends on one of these gives other bytes, and ends here. Times in the archives are those
of the commit. Beside the two lie `armillary-<version>.cdx.json`, the software bill of materials, and `SHA256SUMS`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
# what could leak into an archive, one set for each build
SETTINGS = (
    {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "1"},
    {"TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2"},
)
UMASKS = (0o022, 0o077)
# the wheel is a fifth of this, the sdist a sixth: more means that something slipped in
MOST_BYTES = 6_000_000
UNWANTED = {"tests", "benchmarks", "papers", "examples", "demo", "__pycache__", ".git", ".venv"}
UNWANTED_ENDS = (".pyc", ".nbi", ".nbc", ".npy", ".safetensors", ".gif", ".png", ".orig", "~")


class BuildError(Exception):
    """A build that must not be published."""


def _git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True).stdout


def commit_time() -> str:
    """Seconds of the last commit, as SOURCE_DATE_EPOCH wants them."""
    return _git("log", "-1", "--format=%ct").decode().strip()


def export(folder: Path) -> None:
    """The files of the last commit, and nothing else that lies in the tree."""
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    archive.write_bytes(_git("archive", "--format=tar", "HEAD"))
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")


def build(source: Path, output: Path, setting: dict[str, str], umask: int) -> list[Path]:
    """A wheel and an sdist by the build backend that is installed here."""
    kinds = ["--no-isolation", "--sdist", "--wheel"]
    command = [sys.executable, "-m", "build", *kinds, "--outdir", str(output), str(source)]
    environ = os.environ | setting | {"SOURCE_DATE_EPOCH": commit_time()}
    done = subprocess.run(command, env=environ, umask=umask, capture_output=True, text=True)
    if done.returncode:
        raise BuildError(f"The build failed.\n{done.stdout}\n{done.stderr}")
    return sorted(output.iterdir())


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build_twice(folder: Path) -> list[Path]:
    """Both builds; the files of the first, where the second has the same bytes."""
    builds = []
    for number, (setting, umask) in enumerate(zip(SETTINGS, UMASKS, strict=True)):
        export(folder / f"source-{number}")
        builds.append(build(folder / f"source-{number}", folder / f"dist-{number}", setting, umask))
    for first, second in zip(*builds, strict=True):
        if first.name != second.name or digest(first) != digest(second):
            told = ", ".join(f"{path.name} {digest(path)}" for path in (first, second))
            raise BuildError(f"Two builds of one commit differ: {told}.")
    return builds[0]


def contents(path: Path) -> list[str]:
    """Names of the files in a wheel or an sdist; of the latter without the folder that holds them all."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return sorted(archive.namelist())
    with tarfile.open(path) as archive:
        return sorted(name.partition("/")[2] for name in archive.getnames())


def check_contents(path: Path) -> list[str]:
    """The names in an archive; an error where one has no place there."""
    names = contents(path)
    for name in names:
        if UNWANTED & set(PurePosixPath(name).parts) or name.endswith(UNWANTED_ENDS):
            raise BuildError(f"{path.name} holds {name}, which is not to be shipped.")
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise BuildError(f"{path.name} has {size:,} bytes; {MOST_BYTES:,} are the most.")
    if path.suffix == ".whl":
        _check_wheel(path.name, names)
    return names


def _check_wheel(wheel: str, names: list[str]) -> None:
    for name in names:
        if not name.startswith("armillary/") and ".dist-info/" not in name:
            raise BuildError(f"{wheel} holds {name}, which is no part of the package.")
    tracked = {name.removeprefix("src/") for name in _git("ls-files", "src").decode().split()}
    missing = sorted(tracked - set(names))
    if missing:
        raise BuildError(f"{wheel} lacks {', '.join(missing[:5])}.")


def check_metadata(paths: list[Path]) -> None:
    """What the index would refuse, and a README that it could not show."""
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, paths)], capture_output=True, text=True
    )
    if done.returncode:
        raise BuildError(f"twine refuses the metadata.\n{done.stdout}{done.stderr}")


def make(output: Path) -> list[Path]:
    """Build, check and list; `output` then holds this release alone."""
    from release import materials  # a library that only this step needs

    with tempfile.TemporaryDirectory(prefix="armillary-dist-") as name:
        built = build_twice(Path(name))
        for path in built:
            check_contents(path)
        check_metadata(built)
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
        paths = [Path(shutil.copy(path, output)) for path in built]
    wheel = next(path for path in paths if path.suffix == ".whl")
    listed = materials.write(wheel, output)
    paths.append(listed)
    (output / "SHA256SUMS").write_text("".join(f"{digest(path)}  {path.name}\n" for path in paths), encoding="ascii")
    return paths


def main() -> None:
    """Make all of it, and print what was made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument("--list", action="store_true", help="print the names of all files in the archives")
    options = parser.parse_args()
    if _git("status", "--porcelain"):
        print("Changes that are not committed are not in it.")
    try:
        paths = make(options.output)
    except BuildError as error:
        raise SystemExit(str(error)) from None
    print("Two builds, one hash:")
    for path in paths:
        held = "" if path.suffix == ".json" else f", {len(contents(path)):,} files"
        print(f"  {digest(path)}  {path.name} ({path.stat().st_size:,} bytes{held})")
        if options.list and held:
            print("\n".join(f"    {name}" for name in contents(path)))


if __name__ == "__main__":
    main()
