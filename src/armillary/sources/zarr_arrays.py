"""Shards of Zarr arrays, versions 2 and 3, by the zarr library. Its home."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.exceptions import InputError, MissingExtraError
from armillary.sources.shards import Reader, Shard, Stamp

# what makes a folder one of Zarr's, and what says its shape
_MARKS = ("zarr.json", ".zarray", ".zgroup")


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
        node: Any = zarr.open(path, mode="r")
        if not hasattr(node, "dtype"):
            node = self._chosen(node, column)
        if node.ndim != 2:
            raise InputError(f"'{path}' must have two axes, one row per vector; it has shape {node.shape}.")
        self.array = node
        self.n_rows, self.n_features = map(int, node.shape)
        self.dtype = np.dtype(node.dtype)
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
        """That of the file with the shape: chunks are too many to be looked at."""
        folder = os.path.join(self.path, self.array.path or "")
        for mark in _MARKS:
            place = os.path.join(folder, mark)
            if os.path.isfile(place):
                return Stamp.of(os.stat(place))
        return Stamp.of(os.stat(self.path))

    def check_unchanged(self) -> None:
        """See `Shard`; chunks that change under the same shape are not noticed."""
        self.compare(self._stamp())

    def reader(self) -> Reader:
        """See `Shard`."""
        return _ZarrReader(self)


class _ZarrReader(Reader):
    def __init__(self, shard: ZarrShard) -> None:
        self._shard = shard

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        assert out is not None
        self._shard.check_unchanged()
        out[...] = self._shard.array[start:stop]
        self._shard.check_unchanged()
        return out
