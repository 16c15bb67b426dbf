"""Files written whole or not at all: beside their place, then moved there.

Protocol. The temporary file is named after its target and numbered, and its writer has it locked (`locks.py`) until it
has its last name. So a temporary file that can be locked was left by a writer that is no more, and the next writer of
the same target removes it: not those of other targets, and not those of other writers at work, who have other numbers.
A writer looks once more for its file after it has locked it, because it may have been taken for a leftover between its
making and its lock; it then makes another. Numbers instead of chance, so that leftovers are found without listing the
folder, which may have a hundred thousand files.

Where the file system cannot lock, nothing is removed, and names go on by chance when numbers are used up. On Windows a
file must be closed before it is moved, so there only `stream` removes leftovers, under the lock of its state.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from armillary.durable.locks import CAN_MOVE_OPEN_FILES, beside, is_named, remove_and_close, try_lock
from armillary.exceptions import ArchiveError
from armillary.validation import check_path

# Writers of one target at one time whose leftovers are found.
_MOST_NUMBERED = 4


@contextmanager
def whole_file(path: str | os.PathLike[str], who: str = "save") -> Iterator[BinaryIO]:
    """A binary file that appears at `path` when the block ends without an error.

    A crash at any moment leaves the old file or the new one. `who` is named in the sentence about a path that is no
    place for a file.
    """
    # through a symbolic link to its target, as open() would
    target = Path(os.path.realpath(check_path(path, who)))
    mode = _mode(target)
    if mode is None and not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "No such directory", str(target.parent))
    if mode is not None and not stat.S_ISREG(mode):
        # moving a file over a device or a pipe would remove it
        raise ArchiveError(
            f"{who} writes a regular file; '{os.fsdecode(path)}' is a directory or a device. Give a file's path."
        )
    stem = beside(target, "")
    if CAN_MOVE_OPEN_FILES:
        _remove_leftovers(stem)
    stream = _temporary(stem)
    temporary = stream.name
    with stream:
        try:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            mode = _mode(target)
            if mode is not None:
                os.chmod(temporary, stat.S_IMODE(mode))
            if CAN_MOVE_OPEN_FILES:
                os.replace(temporary, target)
        except BaseException:
            _discard(stream)
            raise
    if not CAN_MOVE_OPEN_FILES:
        _move_closed(temporary, target)
    sync_to_disk(target.parent)


def _mode(target: Path) -> int | None:
    """Kind and permissions of what is there; None where nothing is."""
    try:
        return os.stat(target).st_mode
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise


def remove_leftovers(target: Path) -> None:
    """Remove temporary files of `target` that no writer has any more."""
    _remove_leftovers(beside(target, ""))


def _remove_leftovers(stem: Path) -> None:
    for place in _numbered(stem):
        if os.path.lexists(place):
            _remove_leftover(place)


def sync_to_disk(path: Path) -> None:
    """Bring a file or a folder to disk; a rename is there once its folder is.

    Some file systems cannot do this with folders; what is in them is there anyway.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _numbered(stem: Path) -> list[str]:
    return [f"{stem}-{number}.tmp" for number in range(_MOST_NUMBERED)]


def _places(stem: Path) -> Iterator[str]:
    yield from _numbered(stem)
    while True:
        yield f"{stem}-{secrets.token_hex(8)}.tmp"


def _temporary(stem: Path) -> BinaryIO:
    """A new file whose name begins with `stem`, locked where that can be."""
    for place in _places(stem):
        with contextlib.suppress(FileExistsError):
            # open() gives the permissions that the user's umask asks for; tempfile would give 0600
            stream = open(place, "x+b")  # noqa: SIM115 - the caller closes it
            if _is_kept(stream):
                return stream
            stream.close()
    raise AssertionError  # there is always another place


def _is_kept(stream: BinaryIO) -> bool:
    """Whether a file just made is ours: locked and not taken for a leftover before that."""
    try:
        return try_lock(stream.fileno()) and is_named(stream.name, stream.fileno())
    except OSError:
        return True  # where nobody can lock, nobody removes


def _remove_leftover(place: str) -> None:
    with contextlib.suppress(OSError):
        descriptor = _opened(place)
        try:
            is_left = try_lock(descriptor)
        except OSError:
            is_left = False
        if is_left:
            remove_and_close(place, descriptor)
        else:
            os.close(descriptor)


def _opened(place: str) -> int:
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        return os.open(place, os.O_RDWR | flags)  # some network file systems lock only what may be written
    except PermissionError:
        return os.open(place, os.O_RDONLY | flags)  # that for a target which is read-only


def _discard(stream: BinaryIO) -> None:
    """Remove a temporary file after an error, while it is locked: later its name may be another's."""
    is_ours = stream.closed or is_named(stream.name, stream.fileno())
    if not CAN_MOVE_OPEN_FILES:
        with contextlib.suppress(OSError):  # what is not written yet may find no room
            stream.close()
    if is_ours:
        Path(stream.name).unlink(missing_ok=True)


def _move_closed(temporary: str, target: Path) -> None:
    try:
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
