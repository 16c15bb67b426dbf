"""Vectors from files of arrays: npy, npz (also SciPy's sparse ones), safetensors, svmlight."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from armillary.exceptions import InputError
from armillary.files.sizes import read_header, refuse_shape, refuse_unpacked
from armillary.files.source import Source
from armillary.persistence.tensors import read_tensor, tensor_shapes
from armillary.points import CONVERT_AT_ONCE
from armillary.sparse_structure import checked_csr

_SPARSE_KEYS = {"format", "shape", "data"}
_INDEX_KEYS = {"indices", "indptr", "row", "col", "coords", "offsets"}
# svmlight files name only the columns that are not zero; ours say the width in a comment
WIDTH_COMMENT = "armillary columns:"

Words = list[str] | None


def read_npy(source: Source) -> npt.NDArray[Any]:
    """The array of an npy file; a memory map where it is larger than `points.CONVERT_AT_ONCE` bytes."""
    is_large = source.content is None and source.size > CONVERT_AT_ONCE
    with _numpy_reading(source), source.open() as stream:
        shape, is_fortran, dtype = read_header(source, stream, source.size)
        if is_large:
            mapped: npt.NDArray[Any] = np.load(source.path, mmap_mode="r", allow_pickle=False)
            return mapped
        if dtype.hasobject:
            stream.seek(0)
            return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))  # NumPy has a sentence for it
        values = np.empty(shape, dtype, order="F" if is_fortran else "C")  # the header is not read twice
        flat = values.T if is_fortran else values
        reader: Any = stream
        if values.nbytes and reader.readinto(flat.reshape(-1).view(np.uint8)) != values.nbytes:
            raise source.damaged("its numbers end before they are all there")
        return values


@contextmanager
def _numpy_reading(source: Source) -> Iterator[None]:
    """`source.reading`, with a sentence of its own about Python objects."""
    with source.reading():
        try:
            yield
        except ValueError as error:
            if "allow_pickle" not in str(error):
                raise
            raise InputError(
                f"{source.name} must hold real numbers; it has Python objects, and such files can run code. "
                "Save it again from numbers: numpy.save(path, X.astype('float32'))."
            ) from error


def read_npz(source: Source, key: str | None, id_key: str | None, text_key: str | None) -> tuple[Any, Words, Words]:
    """Vectors, ids and texts of an npz file: one of its arrays, or the sparse matrix that it is."""
    arrays = npz_arrays(source)
    if set(arrays) >= _SPARSE_KEYS and key is None:
        for name in (_INDEX_KEYS | {"shape"}) & set(arrays):
            if arrays[name].dtype.kind not in "iu":
                raise source.damaged(f"its array '{name}' must hold whole numbers, and has {arrays[name].dtype}")
        if "data" in arrays and arrays["data"].dtype.kind not in "fiubc":
            raise source.damaged(f"its array 'data' must hold numbers, and has {arrays['data'].dtype}")
        refuse_shape(source, _numbers(source, lambda _: [int(length) for length in arrays["shape"]]))
        matrix = _numbers(source, sp.load_npz)
        return sp.csr_array(checked_csr(matrix, source.name, "The matrix")), None, None
    shapes = {name: array.shape for name, array in arrays.items() if array.dtype.kind not in "USOT"}
    rows = arrays[chosen_key(source, shapes, key)]
    return rows, _words(source, arrays, id_key, "ids"), _words(source, arrays, text_key, "texts")


def npz_arrays(source: Source) -> dict[str, npt.NDArray[Any]]:
    """All arrays of an npz file."""
    with _numpy_reading(source), source.open() as stream:
        if stream.read(2) != b"PK":
            raise source.damaged("not a zip archive")
        stream.seek(0)
        _refuse_members(source, stream)
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as archive:
            members = {name: archive[name] for name in archive.files}
            # what is no array comes as bytes
            return {name: array for name, array in members.items() if isinstance(array, np.ndarray)}


def _refuse_members(source: Source, stream: BinaryIO) -> None:
    """Refuse an archive that unpacks too far, and arrays in it whose headers claim more than they have."""
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        refuse_unpacked(source.name, source.size, sum(member.file_size for member in members))
        for member in members:
            with archive.open(member) as inside:
                if member.filename.endswith(".npy"):
                    read_header(source, inside, member.file_size)  # type: ignore[arg-type]


def _words(source: Source, arrays: Mapping[str, npt.NDArray[Any]], key: str | None, usual: str) -> Words:
    """The array of words that is meant: `key`, or one with the name that `files.write` gives it."""
    if key is None:
        if usual not in arrays or arrays[usual].dtype.kind != "U":
            return None
        key = usual
    if key not in arrays:
        raise _missing_key(source, key, arrays)
    return [str(value) for value in arrays[key].ravel().tolist()]


def read_safetensors(source: Source, key: str | None) -> npt.NDArray[Any]:
    """One array of a safetensors file."""
    with _on_disk(source) as path, source.reading():
        try:
            return read_tensor(path, chosen_key(source, tensor_shapes(path), key))
        except InputError as error:
            # bytes that lie in another place for the while have the name that the user knows
            raise InputError(str(error).replace(f"'{path}'", source.name)) from error


@contextmanager
def _on_disk(source: Source) -> Iterator[Path]:
    """A path to the bytes, for libraries that read nothing else."""
    if source.content is None:
        yield source.path
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "content")
        path.write_bytes(source.content)
        yield path


def chosen_key(source: Source, shapes: Mapping[str, tuple[int, ...]], key: str | None) -> str:
    """The array that is meant: `key`, or the only one with two axes."""
    if key is not None:
        if key not in shapes:
            raise _missing_key(source, key, shapes)
        return key
    tables = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(tables) == 1:
        return tables[0]
    raise InputError(
        f"{source.name} must have one array with two axes, or be read by --key; it has {len(tables)} of them. "
        f"Its keys: {listed(shapes)}."
    )


def _missing_key(source: Source, key: str, shapes: Mapping[str, Any]) -> InputError:
    return InputError(f"{source.name} has no array '{key}'. Its keys: {listed(shapes)}.")


def listed(arrays: Mapping[str, Any], most: int = 20) -> str:
    """Keys with their shapes, in words."""
    words = []
    for name, value in list(arrays.items())[:most]:
        shape = getattr(value, "shape", value)
        words.append(f"'{name}' {' x '.join(map(str, shape)) or 'a number'}")
    return ", ".join(words or ["none"]) + (f" and {len(arrays) - most} more" if len(arrays) > most else "")


def read_svmlight(source: Source) -> tuple[sp.csr_array, npt.NDArray[Any]]:
    """Rows and targets of an svmlight file."""
    from sklearn.datasets import load_svmlight_file

    width = _said_width(source)
    rows, targets = _numbers(source, lambda stream: load_svmlight_file(stream, n_features=width))
    refuse_shape(source, rows.shape)
    return sp.csr_array(checked_csr(rows, source.name, "The matrix")), targets


def _said_width(source: Source) -> int | None:
    with source.reading(), source.open() as stream:
        for line in stream:
            if not line.startswith(b"#"):
                break
            if WIDTH_COMMENT.encode() in line:
                width = int(line.split(b":")[1])
                refuse_shape(source, (0, width))
                return width
    return None


def _numbers(source: Source, read: Callable[[Any], Any]) -> Any:
    with source.reading(), source.open() as stream:
        return read(stream)
