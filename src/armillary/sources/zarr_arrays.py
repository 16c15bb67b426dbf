"""Shards of Zarr arrays, versions 2 and 3, by the zarr library. Its home."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.exceptions import InputError, MissingExtraError
from armillary.sources.shards import Reader, Shard, reading
from armillary.sources.watched import Stamp

# what makes a folder one of Zarr's, and what says its shape
_MARKS = ("zarr.json", ".zarray", ".zgroup")
# Files, of 2 us each, that are looked at around each reading; of more those with the shape are, and all in the end.
_FEW_FILES = 1 << 10


def is_zarr(path: str) -> bool:
    """Whether a folder is a Zarr array or group."""
    return any(Path(path, mark).is_file() for mark in _MARKS)


class ZarrShard(Shard):
    """Rows of a Zarr array with two axes."""

    def __init__(self, path: str, column: str | None) -> None:
        self.path = path
        try:
            import zarr
        except ImportError as error:
            raise MissingExtraError.of(f"Reading '{path}'", "zarr", "zarr") from error
        with reading(path, "Zarr"):
            node: Any = zarr.open(path, mode="r")
            if not hasattr(node, "dtype"):
                node = self._chosen(node, column)
            self.dtype = np.dtype(node.dtype)
        if node.ndim != 2:
            raise InputError(
                f"'{path}' must have two axes, one row per vector; it has shape {node.shape}. Save it again: "
                "X.reshape(n, -1)."
            )
        self.array = node
        self.n_rows, self.n_features = map(int, node.shape)
        self._folder = os.path.join(path, str(node.path or "").lstrip("/"))
        self.stamp = self._stamp()

    def _chosen(self, group: Any, column: str | None) -> Any:
        known = dict(group.arrays())
        tables = [name for name, array in known.items() if array.ndim == 2]
        if column is not None and column not in known:
            raise InputError(f"'{self.path}' has no array '{column}'. Its arrays: {', '.join(known) or 'none'}.")
        if column is None and len(tables) != 1:
            raise InputError(
                f"'{self.path}' must have one array with two axes, or be told which one is meant; it has "
                f"{len(tables)}: {', '.join(tables) or 'none'}. Name one by column=..."
            )
        return known[column or tables[0]]

    def _stamp(self) -> Stamp:
        """What is known of all files of the array together, in whatever order they are found."""
        size = n_files = digest = 0
        for name, status in _files_in(self._folder):
            told = f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_dev}\0{status.st_ino}"
            digest += int.from_bytes(hashlib.blake2b(told.encode(errors="surrogateescape"), digest_size=8).digest())
            size, n_files = size + status.st_size, n_files + 1
        return Stamp(size, digest, (n_files, 0))

    def check_unchanged(self) -> None:
        """See `Shard`: a chunk that is gone would be read as the fill value."""
        try:
            now = self._stamp()
        except OSError as error:
            raise self.changed(f"it cannot be found any more: {error.strerror}") from error
        self.compare(now)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Some chunks are read."""
        if self.stamp.file[0] <= _FEW_FILES:
            self.check_unchanged()
        try:
            with reading(self.path, "Zarr"):
                yield
        except Exception:
            self.check_unchanged()
            raise
        if self.stamp.file[0] <= _FEW_FILES:
            self.check_unchanged()

    def reader(self) -> Reader:
        """See `Shard`."""
        return _ZarrReader(self)


class _ZarrReader(Reader):
    def __init__(self, shard: ZarrShard) -> None:
        self._shard = shard

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        assert out is not None
        with self._shard.watched():
            out[...] = self._shard.array[start:stop]
        return out


def _files_in(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Files below a folder by their names in it."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                for name, status in _files_in(entry.path):
                    yield f"{entry.name}/{name}", status
            else:
                yield entry.name, entry.stat()
