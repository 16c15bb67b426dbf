"""Vectors as other tools write them: word2vec's text format, and the fvecs and bvecs files of search benchmarks."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from armillary.exceptions import InputError
from armillary.files.source import Source

_HEADER = re.compile(rb"\s*(\d{1,12})[ \t]+(\d{1,6})\s*")
_LENGTH = 4  # bytes of the number before each vector of an fvecs file
_FIRST_LINES = 1 << 20  # bytes in which the first two lines must end


def is_word2vec(source: Source) -> bool:
    """Whether a text file begins as word2vec's do: two whole numbers, then a word and as many numbers as the second."""
    with source.open() as stream:
        header, line = stream.readline(64), stream.readline(_FIRST_LINES)
    match = _HEADER.fullmatch(header)
    if match is None or int(match[2]) < 2:
        return False
    width = int(match[2])
    parts = line.rsplit(maxsplit=width)  # the word may be a phrase with spaces
    try:
        return len([float(part) for part in parts[1:]]) == width
    except ValueError:
        return False


def read_word2vec(source: Source) -> tuple[npt.NDArray[np.float32], list[str]]:
    """Vectors and words; the header with their numbers may be missing, as GloVe leaves it out."""
    words: list[str] = []
    rows: list[npt.NDArray[np.float32]] = []
    claimed: int | None = None
    width = 0
    with source.open() as stream:
        for number, line in enumerate(stream, start=1):
            header = _HEADER.fullmatch(line) if number == 1 else None
            if header is not None:
                claimed, width = int(header[1]), int(header[2])
                continue
            if not line.strip():
                continue
            parts = line.rstrip().rsplit(maxsplit=width) if width else line.split()
            width = width or len(parts) - 1
            rows.append(_numbers(source, number, parts, width))
            words.append(parts[0].decode("utf-8", "replace"))
    if not rows:
        raise InputError(f"{source.name} must hold vectors; it has none. Check the step that wrote it.")
    if claimed is not None and claimed != len(rows):
        raise source.damaged(f"its first line says {claimed:,} words and {len(rows):,} are there")
    return np.stack(rows), words


def _numbers(source: Source, number: int, parts: list[bytes], width: int) -> npt.NDArray[np.float32]:
    try:
        row = np.array(parts[1:], dtype=np.float32)
    except ValueError:
        row = np.empty(0, dtype=np.float32)
    if len(row) != width or not width:
        raise InputError(
            f"Line {number} of {source.name} must be a word and {width} numbers; it is not. Correct or drop the line."
        )
    return row


def read_vecs(source: Source) -> npt.NDArray[Any]:
    """Vectors of an fvecs (float32) or bvecs (bytes) file: each is its length, an int32, and its numbers."""
    kind = np.dtype("<f4") if source.format == "fvecs" else np.dtype(np.uint8)
    with source.reading(), source.open() as stream:
        length = int.from_bytes(stream.read(_LENGTH), "little")
        n_bytes = _LENGTH + length * kind.itemsize
        if not 0 < length < 1 << 24 or source.size % n_bytes:
            raise source.damaged(f"vectors of {length:,} numbers do not fill its {source.size:,} bytes")
        content: npt.NDArray[np.uint8] = (
            np.memmap(source.path, dtype=np.uint8, mode="r")
            if source.content is None
            else np.frombuffer(source.content, dtype=np.uint8)
        )
    table = content.reshape(-1, n_bytes)
    lengths = np.ascontiguousarray(table[:, :_LENGTH]).view("<i4").ravel()
    odd = np.flatnonzero(lengths != length)
    if odd.size:
        raise source.damaged(f"row {odd[0]:,} has {lengths[odd[0]]:,} numbers and row 0 has {length:,}")
    return np.ascontiguousarray(table[:, _LENGTH:]).view(kind)
