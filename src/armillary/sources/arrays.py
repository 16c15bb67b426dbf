"""Shards of NumPy files: npy, arrays of an npz, CSR matrices of an npz."""

from __future__ import annotations

import io
import struct
import threading
import zipfile
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary.exceptions import InputError
from armillary.sources.shards import ColumnMajorShard, PlainShard, Reader, Shard, damaged, reading
from armillary.sparse_structure import checked_csr

_SPARSE_MEMBERS = {"data", "indices", "indptr", "shape", "format"}
_LOCAL_HEADER = 30  # bytes of what stands before the name of a member of a zip file
# Shards are looked at side by side, and NumPy parses their headers as Python: early releases of Python 3.11 count the
# depth of what they parse in one place for all threads, and raise SystemError where two do so at once.
_parsing = threading.Lock()
_MAGIC_BYTES = 12  # of an npy array: its mark, its version and the length of its header


class Place:
    """Where the numbers of an npy array begin in a file, and what they are."""

    def __init__(self, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any], *, is_fortran: bool) -> None:
        self.offset, self.shape, self.dtype, self.is_fortran = offset, shape, dtype, is_fortran


def npy_shard(path: str) -> Shard:
    """The rows of an npy file."""
    with open(path, "rb") as stream, reading(path, "NumPy"):
        size = stream.seek(0, io.SEEK_END)
        return _dense_shard(path, _place(stream, path, 0, size), "The array")


def npz_shard(path: str, key: str | None) -> Shard:
    """The rows of an npz file whose members are not compressed: its CSR matrix, or one of its arrays."""
    with open(path, "rb") as stream, reading(path, "NumPy"):
        members = zipfile.ZipFile(stream).infolist()
        known = {member.filename.removesuffix(".npy"): member for member in members}
        is_csr = key is None and set(known) >= _SPARSE_MEMBERS
        for member in members:
            if member.compress_type != zipfile.ZIP_STORED:
                raise InputError(
                    f"'{path}' must not be compressed to be read in blocks; its member '{member.filename}' is. Save it "
                    "again plainly: scipy.sparse.save_npz(path, X, compressed=False), or numpy.save(path, X)."
                )
        if not is_csr and "format" in known and key is None:
            raise InputError(
                f"'{path}' must hold a matrix in CSR form to be read in blocks; it lacks "
                f"{', '.join(sorted(_SPARSE_MEMBERS - set(known)))}. Save it again: "
                "scipy.sparse.save_npz(path, X.tocsr(), compressed=False)."
            )
        places = {name: _member_place(stream, path, member) for name, member in known.items()}
        if is_csr:
            return CsrShard(path, places)
    tables = [name for name, place in places.items() if len(place.shape) == 2]
    if key is not None and key not in places:
        raise InputError(f"'{path}' has no array '{key}'. Its arrays: {_listed(places)}.")
    if key is None and len(tables) != 1:
        raise InputError(
            f"'{path}' must have one array with two axes, or be told which one is meant; it has {len(tables)} of "
            f"them. Name one by column=...: {_listed(places)}."
        )
    return _dense_shard(path, places[key or tables[0]], f"Array '{key or tables[0]}'")


def _listed(places: dict[str, Place]) -> str:
    return ", ".join(f"'{name}' {' x '.join(map(str, place.shape))}" for name, place in places.items()) or "none"


def _dense_shard(path: str, place: Place, what: str) -> Shard:
    if len(place.shape) != 2:
        raise InputError(
            f"{what} of '{path}' must have two axes, one row per vector; it has shape {place.shape}. "
            "Save it again: numpy.save(path, X.reshape(n, -1))."
        )
    shape = (place.shape[0], place.shape[1])
    kind = ColumnMajorShard if place.is_fortran and min(shape) > 1 else PlainShard
    return kind(path, place.offset, shape, place.dtype)


def _place(stream: BinaryIO, path: str, start: int, size: int) -> Place:
    """Read the header of an npy array that begins at byte `start` and takes `size` bytes."""
    stream.seek(start)
    first = stream.read(_MAGIC_BYTES)
    is_short = first[6:7] == b"\x01"
    end = 10 if is_short else 12
    n_header = int.from_bytes(first[8:end], "little")
    if end + n_header > size:
        raise _damaged(path, "its header is longer than the file")
    text = io.BytesIO(first + stream.read(max(0, end + n_header - len(first))))
    np.lib.format.read_magic(text)
    read = np.lib.format.read_array_header_1_0 if is_short else np.lib.format.read_array_header_2_0
    with _parsing:
        shape, is_fortran, dtype = read(text)
    if dtype.hasobject:
        raise InputError(
            f"'{path}' must hold real numbers; it has Python objects, and such files can run code. "
            "Save it again from numbers: numpy.save(path, X.astype('float32'))."
        )
    n_bytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if min(shape, default=0) < 0 or end + n_header + n_bytes > size:
        raise _damaged(path, f"its header claims {n_bytes:,} bytes of numbers and {size - end - n_header:,} are there")
    return Place(start + end + n_header, shape, dtype, is_fortran=is_fortran)


def _member_place(stream: BinaryIO, path: str, member: zipfile.ZipInfo) -> Place:
    stream.seek(member.header_offset)
    local = stream.read(_LOCAL_HEADER)
    if len(local) < _LOCAL_HEADER or local[:4] != b"PK\x03\x04":
        raise _damaged(path, f"member '{member.filename}' is not where it should be")
    n_name, n_extra = struct.unpack("<HH", local[26:30])
    return _place(stream, path, member.header_offset + _LOCAL_HEADER + n_name + n_extra, member.file_size)


def _damaged(path: str, error: object) -> InputError:
    return damaged(path, "NumPy", error)


class CsrShard(Shard):
    """Rows of a CSR matrix whose three arrays lie plainly in a file."""

    is_sparse = True

    def __init__(self, path: str, places: dict[str, Place]) -> None:
        super().__init__(path)
        self.places = places
        for name in ("data", "indices", "indptr", "shape"):
            if len(places[name].shape) != 1 or (name != "data" and places[name].dtype.kind not in "iu"):
                raise _damaged(path, f"its array '{name}' is no row of {'' if name == 'data' else 'whole '}numbers")
        form = self._whole("format").tobytes().decode("latin-1").replace("\x00", "").strip()
        if form != "csr":
            raise InputError(
                f"'{path}' must hold a matrix in CSR form to be read in blocks; it is {form}. Save it again: "
                "scipy.sparse.save_npz(path, X.tocsr(), compressed=False)."
            )
        shape = self._whole("shape").tolist()
        self.n_rows, self.n_features = [*shape, 0, 0][:2]
        self.dtype = places["data"].dtype
        if places["indptr"].shape[0] != self.n_rows + 1 or places["indices"].shape != places["data"].shape:
            raise _damaged(path, "its arrays do not go together")

    def _whole(self, name: str) -> npt.NDArray[Any]:
        place = self.places[name]
        with self.opened() as descriptor:
            return self.part(descriptor, name, 0, int(np.prod(place.shape, dtype=np.int64)))

    def part(self, descriptor: int, name: str, start: int, stop: int) -> npt.NDArray[Any]:
        """Values start..stop of one of the arrays."""
        place = self.places[name]
        values = np.empty(stop - start, place.dtype)
        self.fill(descriptor, place.offset + start * place.dtype.itemsize, values)
        return values

    def reader(self) -> Reader:
        """See `Shard`."""
        return _CsrReader(self)


class _CsrReader(Reader):
    def __init__(self, shard: CsrShard) -> None:
        self._shard = shard

    def read(self, start: int, stop: int, out: npt.NDArray[Any] | None) -> sp.csr_array:
        shard = self._shard
        n_values = shard.places["data"].shape[0]
        with shard.opened() as descriptor:
            pointers = shard.part(descriptor, "indptr", start, stop + 1)
            first, last = int(pointers[0]), int(pointers[-1])
            if not 0 <= first <= last <= n_values or (pointers[1:] < pointers[:-1]).any():
                raise _damaged(shard.path, f"the pointers of its rows {start:,} to {stop:,} do not rise")
            data = shard.part(descriptor, "data", first, last)
            indices = shard.part(descriptor, "indices", first, last)
        block = sp.csr_array((data, indices, pointers - first), shape=(stop - start, shard.n_features))
        return sp.csr_array(checked_csr(block, f"'{shard.path}'", f"The matrix (rows from {start:,} on)"))
