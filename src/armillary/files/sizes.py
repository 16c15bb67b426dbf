"""What a file may unpack to, and what it only claims: both are held against its size before memory is taken.

Compressed content (.gz, .bz2, .xz, members of an npz, parquet and arrow files) may unpack to `UNPACKED_FREELY` bytes,
or to `UNPACKED_TIMES` times the size of its file where that is more: vectors come to between 1 and 50 times. Whoever
trusts a file that unpacks to more unpacks it himself, since a plain file has no limit. Rows and columns that take no
bytes in a file, such as those of a sparse matrix without entries, are held to the same limit.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from armillary.exceptions import InputError

if TYPE_CHECKING:
    from armillary.files.source import Source

UNPACKED_FREELY = 1 << 28
UNPACKED_TIMES = 200
_LENGTH_BYTES = 8  # what a row (its pointer) or a column (its number in a direction) takes at least
_CHUNK = 1 << 22
_MAGIC_BYTES = 12  # of an npy file: its mark, its version and the length of its header


def most_unpacked(n_bytes: int) -> int:
    """Bytes that a file of `n_bytes` may unpack to."""
    return max(UNPACKED_FREELY, UNPACKED_TIMES * n_bytes)


def refuse_unpacked(name: str, n_packed: int, n_unpacked: int) -> None:
    """Refuse content that unpacks to more than it may."""
    if n_unpacked > most_unpacked(n_packed):
        raise InputError(
            f"{name} may unpack to at most {most_unpacked(n_packed):,} bytes, {UNPACKED_FREELY >> 20} MiB or "
            f"{UNPACKED_TIMES} times its {n_packed:,} bytes; it goes beyond that, as files made to fill a memory do. "
            "If you trust it, unpack it yourself and give it uncompressed, as npy for example."
        )


def unpacked(stream: BinaryIO, name: str, n_packed: int) -> bytes:
    """What a decompressing stream holds, up to the limit."""
    content = bytearray()
    while chunk := stream.read(_CHUNK):
        content += chunk
        refuse_unpacked(name, n_packed, len(content))
    return bytes(content)


def refuse_shape(source: Source, shape: Iterable[Any]) -> None:
    """Refuse rows and columns that a sparse file claims and could never fill."""
    lengths = [int(length) for length in shape]
    if min(lengths, default=0) < 0 or _LENGTH_BYTES * sum(lengths) > most_unpacked(source.size):
        words = " x ".join(f"{length:,}" for length in lengths)
        raise source.damaged(f"it claims a shape of {words} in {source.size:,} bytes")


def read_header(source: Source, stream: BinaryIO, n_bytes: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order (True: by columns) and dtype of an npy array, whose numbers then begin at the place of the stream.

    Refuses one whose header claims more than the `n_bytes` that follow from the place of the stream on.
    """
    shape, is_fortran, dtype, n_header = _header(source, stream, n_bytes)
    n_claimed, n_held = math.prod(shape) * dtype.itemsize, n_bytes - n_header
    # NumPy refuses objects, in words of its own
    if min(shape, default=0) < 0 or (n_claimed > n_held and not dtype.hasobject):
        raise source.damaged(f"its header claims {n_claimed:,} bytes of numbers and {max(0, n_held):,} are there")
    return shape, is_fortran, dtype


def _header(source: Source, stream: BinaryIO, n_bytes: int) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order and dtype of an npy array, and the length of what tells them."""
    first = stream.read(_MAGIC_BYTES)
    # version 3 differs from 2 in the letters of field names alone
    is_short = first[6:7] == b"\x01"
    start, end = (8, 10) if is_short else (8, 12)
    n_header = int.from_bytes(first[start:end], "little")
    if end + n_header > n_bytes:
        raise source.damaged(f"its header claims {n_header:,} bytes for itself and the file ends before")
    text = io.BytesIO(first + stream.read(max(0, end + n_header - len(first))))
    np.lib.format.read_magic(text)
    read = np.lib.format.read_array_header_1_0 if is_short else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(text)
    return shape, is_fortran, dtype, end + n_header
