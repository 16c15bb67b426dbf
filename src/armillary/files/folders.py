"""Folders of results, whole or not at all: built beside their place and moved there at the end.

Protocol. Whoever builds a folder holds its lock (`durable/locks.py`) from before it looks at the folder until the
new one has its name, so a second run is refused at once. The new folder lies beside its place under a name of its own,
and trades names with the old one in one step where the system can (`exchange.py`): at any moment the name is that of
the old folder, whole, or of the new one, whole. Where it cannot, the old folder steps aside under a name that tells
whose it is; a kill between the two renames leaves no folder, and the next that asks for it, to write or to read, brings
the old one back. What a killed run left beside a folder is removed by the next run on it, under its lock.

Where the file system cannot lock, runs go on without: folders are whole all the same, the last one stays, and what
killed runs leave is not removed, since it may be another's at work.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from armillary.durable.locks import beside, held_where_possible
from armillary.durable.whole import sync_to_disk
from armillary.exceptions import InputError
from armillary.files.exchange import exchange

# The file by which a folder is known as one of ours, and may be replaced.
SUMMARY = "summary.json"


@contextmanager
def whole_folder(path: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """A new folder to write into, which gets its name when the block ends without an error; else it is removed.

    The folder is made at once, so that a place without permission is refused before any work is done. With `force` a
    folder of earlier results is replaced; a folder that holds anything else is not. A symbolic link is followed.

    Parameters
    ----------
    path : str or os.PathLike
        Where the folder will be.
    force : bool, default=False
        Replace earlier results.

    Yields
    ------
    pathlib.Path
        The folder as it is called until then.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from armillary.files import whole_folder
    >>> place = Path(tempfile.mkdtemp()) / "results"
    >>> with whole_folder(place) as folder:
    ...     size = (folder / "labels.txt").write_text("0 1 1")
    >>> [path.name for path in place.iterdir()]
    ['labels.txt']
    """
    with held_folder(path) as place, place.whole(force=force) as folder:
        yield folder


@contextmanager
def held_folder(path: str | os.PathLike[str]) -> Iterator[FolderPlace]:
    """A place for a folder, on which nobody else works in this block."""
    target = Path(os.path.realpath(os.fsdecode(path)))
    home = _existing_parent(target)
    for former in home.parents:
        _clean_former(target, former)
    with _held(target, home) as is_locked:
        _bring_back(target)
        yield FolderPlace(os.fsdecode(path), target, home, is_locked)


def bring_back(path: str | os.PathLike[str]) -> None:
    """Bring back a folder that a killed run left aside, unless a run is at it now."""
    target = Path(os.path.realpath(os.fsdecode(path)))
    if beside(target, ".old").exists() and not target.exists():
        with suppress(InputError), _held(target, target.parent):
            _bring_back(target)


@dataclass(frozen=True)
class FolderPlace:
    """Where a folder of results is, or is to be."""

    given: str  # as the user says it
    target: Path
    home: Path  # the nearest folder above it that is there
    is_locked: bool

    @contextmanager
    def whole(self, *, force: bool) -> Iterator[Path]:
        """See `whole_folder`."""
        _refuse_existing(self.target, force=force)
        ending = ".new" if self.is_locked else f"-{secrets.token_hex(8)}.new"
        temporary = beside(_stand_in(self.target, self.home), ending)
        try:
            temporary.mkdir()
        except OSError as error:
            raise InputError(
                f"'{self.home}' must allow a new folder; it does not: {error.strerror}. Choose another place with -o."
            ) from error
        try:
            yield temporary
            _sync_all(temporary)
            with self._beside_target():
                _refuse_existing(self.target, force=force)  # it may have come since
                _move(temporary, self.target)
        finally:
            # what could not be moved, or the folder that was there before
            shutil.rmtree(temporary, ignore_errors=True)
        sync_to_disk(self.home)

    @contextmanager
    def _beside_target(self) -> Iterator[None]:
        """Folders between are made now, so another run may have begun right beside the target."""
        with ExitStack() as stack:
            if self.home != self.target.parent:
                self.target.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(_held(self.target, self.target.parent))
            yield


def _stand_in(target: Path, home: Path) -> Path:
    """The target; where folders between are to be made, one named after the whole way: others may make them too."""
    return home / "%".join(target.relative_to(home).parts)


@contextmanager
def _held(target: Path, home: Path) -> Iterator[bool]:
    """Nobody else builds the folder from this home; what killed runs left there is removed, if that can be known."""
    stand_in = _stand_in(target, home)
    with held_where_possible(stand_in, f"The output folder '{target}'") as is_locked:
        if is_locked:
            shutil.rmtree(beside(stand_in, ".new"), ignore_errors=True)
        yield is_locked


def _clean_former(target: Path, former: Path) -> None:
    """Clean the home of a run that was killed when it had made the folders between; a sentence if it is at work."""
    if beside(_stand_in(target, former), ".lock").exists():
        with _held(target, former):
            pass


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


def _sync_all(folder: Path) -> None:
    """Everything in it is on disk before it gets its name."""
    for root, _, names in os.walk(folder):
        for name in names:
            sync_to_disk(Path(root, name))
        sync_to_disk(Path(root))


def _move(temporary: Path, target: Path) -> None:
    """Give `temporary` the name `target`; what had it before is under `temporary` then, or gone."""
    if not target.exists():
        os.rename(temporary, target)
        sync_to_disk(target.parent)
        return
    with suppress(OSError):  # some file systems have no permissions to give
        shutil.copymode(target, temporary)
    if exchange(temporary, target):
        sync_to_disk(target.parent)  # before the old one goes
        return
    old = beside(target, ".old")
    os.rename(target, old)
    try:
        os.rename(temporary, target)
    except BaseException:
        os.rename(old, target)
        raise
    sync_to_disk(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def _bring_back(target: Path) -> None:
    old = beside(target, ".old")
    if target.exists():
        shutil.rmtree(old, ignore_errors=True)
    elif old.exists():
        os.rename(old, target)
