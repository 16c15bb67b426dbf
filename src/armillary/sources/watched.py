"""Files that must stay as they are while their rows are in use: those of shards, and those under memory maps."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import Any

from armillary.exceptions import InputError


@dataclass(frozen=True)
class Stamp:
    """By what a file is known to be the same as before."""

    size: int
    changed: int  # nanoseconds
    file: tuple[int, int]  # device and number: another file under the same name is another

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """The stamp of a file that the system was asked about."""
        return cls(status.st_size, status.st_mtime_ns, (status.st_dev, status.st_ino))


class WatchedFile:
    """A file as it was when it was opened."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.stamp = Stamp.of(os.stat(path))

    def check_unchanged(self) -> None:
        """Refuse a file that is not as it was when it was opened."""
        try:
            now = Stamp.of(os.stat(self.path))
        except OSError as error:
            raise self.changed(f"it cannot be found any more: {error.strerror}") from error
        self.compare(now)

    def compare(self, now: Stamp) -> None:
        """Refuse a stamp that is not the first one."""
        if now == self.stamp:
            return
        if now.size != self.stamp.size:
            verb = "shrank" if now.size < self.stamp.size else "grew"
            raise self.changed(f"it {verb} from {self.stamp.size:,} to {now.size:,} bytes")
        raise self.changed("it was written again")

    def changed(self, how: str) -> InputError:
        """The sentence about a file that does not stay as it is."""
        return InputError(
            f"'{self.path}' must stay as it is while its rows are in use; {how}. Let the step that writes it end, "
            "open the rows again and start anew."
        )


class MappedFile(WatchedFile):
    """The file under a memory map.

    Where the file has become shorter than the map, the system ends whoever reads behind its end: so its size is looked
    at before rows are read. A file that was removed, or replaced by another, is still the one under the map.
    """

    def __init__(self, path: str, opened: mmap.mmap, offset: int, *, is_ours: bool) -> None:
        super().__init__(path)
        self._opened, self._is_ours = opened, is_ours
        self._end = offset - offset % mmap.ALLOCATIONGRANULARITY + len(opened)

    @classmethod
    def under(cls, array: Any) -> MappedFile | None:
        """The file under an array of NumPy's; None where it is no map of a file that has a name."""
        opened, path = getattr(array, "_mmap", None), getattr(array, "filename", None)
        if opened is None or path is None or not os.path.exists(path):
            return None
        return cls(os.fspath(path), opened, array.offset, is_ours=array.mode not in ("r", "c"))

    def check_there(self) -> None:
        """Refuse a map that has lost rows."""
        size = self._opened.size()
        if size < self._end:
            raise self.changed(f"it shrank from {self._end:,} to {size:,} bytes")

    def check_unchanged(self) -> None:
        """Refuse a file that was written meanwhile; rows of a map that may be written belong to who writes them."""
        self.check_there()
        if self._is_ours:
            return
        try:
            now = Stamp.of(os.stat(self.path))
        except OSError:
            return
        if now.file == self.stamp.file:
            self.compare(now)
