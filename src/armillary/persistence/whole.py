"""Files written whole or not at all: beside their place, then moved there."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from armillary.exceptions import ArchiveError
from armillary.validation import check_path


@contextmanager
def whole_file(path: str | os.PathLike[str], who: str = "save") -> Iterator[BinaryIO]:
    """A binary file that appears at `path` when the block ends without an error: a crash at any moment leaves the old
    file or the new one. `who` is named in the sentence about a path that is no place for a file.
    """
    # through a symbolic link to its target, as open() would
    target = Path(os.path.realpath(check_path(path, who)))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "No such directory", str(target.parent))
    if target.exists() and not target.is_file():
        # moving a file over a device or a pipe would remove it
        raise ArchiveError(
            f"{who} writes a regular file; '{os.fsdecode(path)}' is a directory or a device. Give a file's path."
        )
    # open() gives the permissions that the user's umask asks for; tempfile would give 0600
    temporary = temporary_sibling(target)
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def temporary_sibling(target: Path) -> Path:
    """A new name in the folder of `target`, and so on the same disk."""
    return target.with_name(f".armillary-{secrets.token_hex(8)}.tmp")


def sync_folder(folder: Path) -> None:
    """A rename is on disk once its folder is. Some file systems cannot do this; the file is there anyway."""
    with contextlib.suppress(OSError):
        directory = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
