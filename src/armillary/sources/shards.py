"""What one file of rows is, and rows that lie in a file as they lie in memory.

A shard says its rows, columns and dtype, and gives rows `start` to `stop` of itself into an array that the caller has.
Where numbers lie plainly in the file (npy, members of an npz that are not compressed, Arrow that is not compressed)
they are read straight into that array: no map, so memory is what the caller gave and nothing else.

A file is looked at (size, time of change, which file it is) before and after each reading, so that rows of two
different states of a file never meet in one fit.
"""

from __future__ import annotations

import os
import struct
import tokenize
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.exceptions import InputError
from armillary.sources.watched import Stamp, WatchedFile

# what libraries raise over content that is not what it should be
_COMPLAINTS = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    EOFError,
    OSError,
    RuntimeError,
    SyntaxError,
    tokenize.TokenError,
    struct.error,
    zipfile.BadZipFile,
)
# one call of the system reads at most 2 GiB less a page
_MOST_AT_ONCE = 1 << 30
# Bytes between which the system is told to forget what it read: the same few pages are then used again and again.
_FORGOTTEN_AT_ONCE = 1 << 22
# Rows that may be read at a time where few of them are wanted.
_LOOKED_THROUGH_ROWS = 1 << 10


@contextmanager
def reading(path: str, what: str) -> Iterator[None]:
    """What libraries complain of while they look at a file becomes the sentence about damage; `what` it should be."""
    try:
        yield
    except (InputError, ImportError):
        raise
    except _COMPLAINTS as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the system's, not a library's
        raise damaged(path, what, error) from error


def damaged(path: str, what: str, error: object) -> InputError:
    """The sentence for content that does not read as its format."""
    said = str(error).strip().split("\n")[0][:200].rstrip(".")
    return InputError(
        f"'{path}' must be a whole {what} file; it is cut short, damaged or of another format "
        f"({said or type(error).__name__}). Fetch it again from where it came."
    )


class Shard(WatchedFile, ABC):
    """Rows of one file."""

    n_rows: int
    n_features: int
    dtype: np.dtype[Any]  # as stored
    is_sparse = False
    columns: tuple[str, ...] | None = None  # of a table: the names of those that are the vectors
    # Rows of files that the memory has no room for: the system would keep what was read at others' cost, and have
    # thrown it away before the next pass comes to it.
    is_forgotten = False

    @abstractmethod
    def reader(self) -> Reader:
        """Something that gives rows; each has a place of its own in the file."""

    def place(self, row: int) -> int:
        """Where one of its rows is in the file."""
        return row

    def reorder(self, columns: tuple[str, ...]) -> None:
        """Give the columns of a table in another order."""

    @contextmanager
    def opened(self) -> Iterator[int]:
        """The file for reading, looked at before and after."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except FileNotFoundError as error:
            raise self.changed("it cannot be found any more") from error
        try:
            self.compare(Stamp.of(os.fstat(descriptor)))
            yield descriptor
            self.compare(Stamp.of(os.fstat(descriptor)))
        finally:
            os.close(descriptor)

    def fill(self, descriptor: int, offset: int, out: npt.NDArray[Any]) -> None:
        """The bytes from `offset` on into an array that lies in one piece."""
        left = memoryview(out.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        at_once = _FORGOTTEN_AT_ONCE if self.is_forgotten else _MOST_AT_ONCE
        while len(left):
            n_read = _pread_into(descriptor, left[:at_once], offset)
            if n_read == 0:
                raise self.changed(f"it ends before byte {offset + len(left):,}, where its rows end")
            if self.is_forgotten:
                advise(descriptor, "DONTNEED", offset, n_read)
            left, offset = left[n_read:], offset + n_read

    def scatter(self, descriptor: int, offset: int, segments: list[npt.NDArray[np.uint8]], n_bytes: int) -> bool:
        """The bytes from `offset` on into several arrays in one reading; False where they did not come so."""
        if not hasattr(os, "preadv") or os.preadv(descriptor, segments, offset) != n_bytes:  # type: ignore[arg-type]
            return False
        if self.is_forgotten:
            advise(descriptor, "DONTNEED", offset, n_bytes)
        return True


def _pread_into(descriptor: int, buffer: memoryview, offset: int) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], offset)
    os.lseek(descriptor, offset, os.SEEK_SET)  # Windows; the descriptor is nobody else's
    part = os.read(descriptor, len(buffer))
    buffer[: len(part)] = part
    return len(part)


class Reader(ABC):
    """A place in one shard."""

    @abstractmethod
    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None) -> Any:
        """Rows start..stop into `out` (m, D) of the stored dtype, which is returned; CSR rows come by themselves."""

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Nothing is read any more."""


class ShardPart(Shard):
    """Some rows of a shard, one after the other."""

    def __init__(self, shard: Shard, first: int, last: int) -> None:
        self.path, self.stamp = shard.path, shard.stamp
        self.n_rows, self.n_features, self.dtype = last - first, shard.n_features, shard.dtype
        self.is_sparse, self.columns = shard.is_sparse, shard.columns
        self._shard, self._skipped = shard, first

    def reader(self) -> Reader:
        """See `Shard`."""
        return _PartReader(self._shard.reader(), self._skipped)

    def place(self, row: int) -> int:
        """See `Shard`."""
        return self._shard.place(self._skipped + row)


class _PartReader(Reader):
    def __init__(self, reader: Reader, first: int) -> None:
        self._reader, self._first = reader, first

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None) -> Any:
        return self._reader.read(self._first + start, self._first + stop, out)

    def close(self) -> None:
        self._reader.close()


class ThinnedShard(Shard):
    """Rows of a shard but for some, as if those were not there."""

    def __init__(self, shard: Shard, is_here: npt.NDArray[np.bool_]) -> None:
        self.path, self.stamp = shard.path, shard.stamp
        self.n_features, self.dtype, self.is_sparse = shard.n_features, shard.dtype, shard.is_sparse
        self.columns = shard.columns
        self.n_rows = int(np.count_nonzero(is_here))
        self._shard = shard
        gone = np.flatnonzero(~is_here)
        self._before = gone - np.arange(len(gone))  # of each row that is left out, how many stay before it

    def place_within(self, row: int) -> int:
        """Which row of the whole shard one of these is."""
        return row + int(np.searchsorted(self._before, row, side="right"))

    def place(self, row: int) -> int:
        """See `Shard`."""
        return self._shard.place(self.place_within(row))

    def stay(self, first: int, last: int) -> npt.NDArray[np.int64]:
        """Those of the rows first..last of the whole shard that are not left out, counted from `first`."""
        gone = self._before + np.arange(len(self._before))
        here = np.ones(last - first, np.bool_)
        here[gone[slice(*np.searchsorted(gone, (first, last)))] - first] = False
        return np.flatnonzero(here)

    def reader(self) -> Reader:
        """See `Shard`."""
        return _ThinnedReader(self, self._shard.reader())


class _ThinnedReader(Reader):
    def __init__(self, shard: ThinnedShard, reader: Reader) -> None:
        self._shard, self._reader = shard, reader

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None) -> Any:
        if start >= stop:
            return self._reader.read(0, 0, out)
        first, last = self._shard.place_within(start), self._shard.place_within(stop - 1) + 1
        if last - first == stop - start:
            return self._reader.read(first, last, out)
        if out is None:
            return self._reader.read(first, last, None)[self._shard.stay(first, last)]
        # little memory, however many rows in a row are left out
        done, room = 0, np.empty((max(len(out), _LOOKED_THROUGH_ROWS), out.shape[1]), out.dtype)
        for begin in range(first, last, len(room)):
            end = min(begin + len(room), last)
            rows = self._reader.read(begin, end, room[: end - begin])
            numbers = self._shard.stay(begin, end)
            out[done : done + len(numbers)] = rows[numbers]
            done += len(numbers)
        return out

    def close(self) -> None:
        self._reader.close()


class PlainShard(Shard):
    """Rows that lie one after the other from some byte of a file on."""

    def __init__(self, path: str, offset: int, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        super().__init__(path)
        self.offset, self.dtype = offset, dtype
        self.n_rows, self.n_features = shape

    def reader(self) -> Reader:
        """See `Shard`."""
        return _PlainReader(self)


class _PlainReader(Reader):
    def __init__(self, shard: PlainShard) -> None:
        self._shard = shard

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        assert out is not None
        shard = self._shard
        with shard.opened() as descriptor:
            advise(descriptor, "SEQUENTIAL")  # the system then reads further ahead
            shard.fill(descriptor, shard.offset + start * shard.n_features * shard.dtype.itemsize, out)
        return out


class ColumnMajorShard(Shard):
    """Rows of an array that lies in a file column by column: each column is read by itself."""

    def __init__(self, path: str, offset: int, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        super().__init__(path)
        self.offset, self.dtype = offset, dtype
        self.n_rows, self.n_features = shape

    def reader(self) -> Reader:
        """See `Shard`."""
        return _ColumnMajorReader(self)


class _ColumnMajorReader(Reader):
    def __init__(self, shard: ColumnMajorShard) -> None:
        self._shard = shard

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        assert out is not None
        shard, column = self._shard, np.empty(stop - start, self._shard.dtype)
        with shard.opened() as descriptor:
            for number in range(shard.n_features):
                shard.fill(descriptor, shard.offset + (number * shard.n_rows + start) * shard.dtype.itemsize, column)
                out[:, number] = column
        return out


def advise(descriptor: int, what: str, offset: int = 0, n_bytes: int = 0) -> None:
    """Tell the system how bytes of a file, all by default, will be read, where it listens."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, offset, n_bytes, getattr(os, f"POSIX_FADV_{what}"))
