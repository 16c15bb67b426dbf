"""Folders of results, whole or not at all: built beside their place and moved there at the end."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from armillary.exceptions import InputError
from armillary.persistence.whole import sync_folder, temporary_sibling

# The file by which a folder is known as one of ours, and may be replaced.
SUMMARY = "summary.json"


@contextmanager
def whole_folder(path: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """A new folder to write into, which gets its name when the block ends without an error; else it is removed.

    The folder is made at once, so that a place without permission is refused before any work is done. With `force` a
    folder of earlier results is replaced; a folder that holds anything else is not.
    """
    target = Path(os.path.abspath(os.fsdecode(path)))
    _refuse_existing(target, force=force)
    home = _existing_parent(target)
    temporary = temporary_sibling(home / "folder")
    try:
        temporary.mkdir()
    except OSError as error:
        raise InputError(
            f"'{home}' must allow a new folder; it does not: {error.strerror}. Choose another place with -o."
        ) from error
    try:
        yield temporary
        target.parent.mkdir(parents=True, exist_ok=True)
        _move(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(target.parent)


def _refuse_existing(target: Path, *, force: bool) -> None:
    if not target.exists() and not target.is_symlink():
        return
    if not target.is_dir():
        raise InputError(f"The output must be a folder; '{target}' is a file. Choose another place with -o.")
    if not any(target.iterdir()):
        return
    if not force:
        raise InputError(f"The output folder '{target}' exists. Choose another with -o, or replace it with --force.")
    if not _is_ours(target):
        raise InputError(
            f"--force replaces folders that armillary wrote; '{target}' has no {SUMMARY} of its own. Choose another "
            "place with -o, or remove the folder yourself."
        )


def _is_ours(folder: Path) -> bool:
    with suppress(OSError, ValueError):
        summary = json.loads((folder / SUMMARY).read_text())
        return isinstance(summary, dict) and "armillary" in summary
    return False


def _existing_parent(target: Path) -> Path:
    parent = target.parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise InputError(f"The output folder must lie in a folder; '{parent}' is a file. Choose another place with -o.")
    return parent


def _move(temporary: Path, target: Path) -> None:
    if not target.exists():
        os.rename(temporary, target)
        return
    # an old folder steps aside, comes back if the new one cannot take its place, and goes once it has
    old = temporary_sibling(target)
    os.rename(target, old)
    try:
        os.rename(temporary, target)
    except BaseException:
        os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)
